"""The site on the newest Sphinx, MyST and theme, without jupyter-book: ``make newest``.

It is built into ``_build/newest`` from ``conf.py``, with the outputs of the last ``make test``.
Warnings are listed and end nothing: what is newest is not in our hands.
"""

from __future__ import annotations

import io
import re
import shutil
import sys
from importlib.metadata import version

import execution
import page
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

from hdpm_book.ledger import load

OUT = execution.ROOT / "_build" / "newest"
SHOWN = "Sphinx docutils myst-parser myst-nb sphinx-book-theme pydata-sphinx-theme".split()


def main() -> int:
    """Build the site, and print its warnings and what it consists of."""
    root, html = execution.ROOT, OUT / "html"
    shutil.rmtree(html, ignore_errors=True)
    said = io.StringIO()
    with patch_docutils(root), docutils_namespace():
        app = Sphinx(
            root,
            root,
            html,
            OUT / "doctrees",
            "html",
            page.SETTINGS | {"nitpicky": True},
            status=None,
            warning=said,
            freshenv=True,
        )
        app.build(force_all=True)

    warnings = re.sub(r"\x1b\[[\d;]*m", "", said.getvalue())  # without colours
    chapters = [path for path in execution.pages() if execution.is_chapter(path)]
    n_run = sum(execution.kept_at(path, sources=page.SOURCES).exists() for path in chapters)
    n_claims = sum((html / "book" / "claims" / f"{claim.id}.html").exists() for claim in load())
    n_warnings = warnings.count("WARNING: ") + warnings.count("ERROR: ")
    print(warnings, end="")
    print(*(f"{name} {version(name)}" for name in SHOWN), sep=", ")
    print(f"{len(app.env.found_docs)} pages, {n_claims} pages of claims, {n_warnings} warnings")
    print(f"with the outputs of {n_run} of {len(chapters)} pages with code: {html / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
