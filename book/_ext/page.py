"""One page as the site shows it, from its last run: ``make page PAGE=book/ridge/idea.md``.

It is built into ``_build/page``, with those above it in the table of contents. The others are read
and not written: numbers, links and boxes are those of the book. The first time all pages are read;
from then on those that have changed.
"""

from __future__ import annotations

import shutil
import sys

import execution
import nbformat
from dependencies import Sources
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

BUILD = execution.ROOT / "_build"
SOURCES = Sources(execution.ROOT)
SETTINGS = {
    "autosummary_generate": False,
    "nb_execution_mode": "off",
    "nb_custom_formats": {".md": "page.last_run"},
}


def last_run(text: str) -> nbformat.NotebookNode:
    """Return a page with the outputs that are kept for it, if any."""
    path = next(path for path in execution.pages() if path.read_text(encoding="utf8") == text)
    return execution.last_run(path, sources=SOURCES)


def main(name: str) -> int:
    """Build one page."""
    page = execution.ROOT / name
    if page not in execution.pages():
        print(f"PAGE must be a page of _toc.yml, got {name!r}")
        return 2
    if not execution.can_keep():
        print(f"{execution.ROOT} cannot be written to, where the page would be built")
        return 2
    out, trees = BUILD / "page", BUILD / ".page"
    shutil.rmtree(out, ignore_errors=True)
    (trees / name).with_suffix(".doctree").unlink(missing_ok=True)  # what was read of it
    with patch_docutils(execution.ROOT), docutils_namespace():
        app = Sphinx(execution.ROOT, execution.ROOT, out, trees, "html", SETTINGS, status=None)
        app.events.listeners["html-collect-pages"].clear()  # pages of claims
        app.build(filenames=[str(page)])
    print((out / name).with_suffix(".html"))
    return app.statuscode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
