"""One sentence for each page: what lists of pages say of it, what the search shows, what other
sites quote.

A page has it in its head, ``description: "..."``; ``keywords`` are other words that visitors use
for the same. The directive ``{pages}`` lists what stands below a page in the table of contents,
with these sentences.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from formulas import with_formulas
from sphinx.addnodes import pending_xref
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from hdpm_book import ledger

LOGGER = logging.getLogger(__name__)


@cache
def head(path: Path) -> dict[str, Any]:
    """Return the head of a page, which is YAML between two lines of dashes."""
    text = path.read_text(encoding="utf8")
    return yaml.safe_load(text.split("---\n", 2)[1]) if text.startswith("---\n") else {}


def below(contents: Mapping[str, Any], docname: str) -> list[dict[str, Any]]:
    """Entries under a page in a table of contents.

    Examples
    --------
    >>> below({"chapters": [{"file": "a", "sections": [{"file": "b", "title": "Of b"}]}]}, "a")
    [{'file': 'b', 'title': 'Of b'}]
    """
    for entry in (*contents.get("chapters", ()), *contents.get("sections", ())):
        if entry["file"] == docname:
            return list(entry.get("sections", ()))
        if found := below(entry, docname):
            return found
    return []


@dataclass(frozen=True)
class Part:
    """A page of the site: its name, and its title and depth in the table of contents."""

    name: str
    title: str
    depth: int


def parts(contents: Mapping[str, Any], title: str) -> Iterator[Part]:
    """Return the pages of a table of contents, in reading order.

    Examples
    --------
    >>> chapter = {"file": "a", "title": "A", "sections": [{"file": "b", "title": "B"}]}
    >>> for part in parts({"root": "r", "chapters": [chapter]}, "R"):
    ...     print(part)
    Part(name='r', title='R', depth=0)
    Part(name='a', title='A', depth=0)
    Part(name='b', title='B', depth=1)
    """

    def below(entry: Mapping[str, Any], depth: int) -> Iterator[Part]:
        for child in (*entry.get("chapters", ()), *entry.get("sections", ())):
            yield Part(child["file"], child["title"], depth)
            yield from below(child, depth + 1)

    yield Part(contents["root"], title, 0)
    yield from below(contents, 0)


class PagesDirective(SphinxDirective):
    """``{pages}``, or ``{pages} book/ridge/idea``: the pages below this or another one, a sentence
    each.
    """

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        root = Path(self.env.srcdir)
        contents = root / "_toc.yml"
        self.env.note_dependency(str(contents))
        docname = self.arguments[0] if self.arguments else self.env.docname
        items = nodes.bullet_list(classes=["hdpm-pages"])
        for entry in below(yaml.safe_load(contents.read_text(encoding="utf8")), docname):
            page = root / f"{entry['file']}.md"
            self.env.note_dependency(str(page))
            link = pending_xref(
                "",
                nodes.inline(text=entry["title"]),
                refdomain="std",
                reftype="doc",
                reftarget=f"/{entry['file']}",
                refexplicit=True,
                refdoc=self.env.docname,
                refwarn=True,
            )
            words = nodes.paragraph(
                "", "", link, nodes.Text(f": {head(page).get('description', '')}")
            )
            items += nodes.list_item("", words)
        return [items]


def describe(app: Any, pagename: str, templatename: str, context: dict[str, Any], *_: Any) -> None:
    """Add a page's sentence for other sites, and on the page of the search its script."""
    if words := app.env.metadata.get(pagename, {}).get("description"):
        context["metatags"] = (
            context.get("metatags", "") + f'<meta name="description" content="{escape(words)}">'
        )
    if pagename == "search":
        app.add_css_file("formulas.css")
        app.add_js_file("found.js", loading_method="defer")
        app.add_js_file("search.js", loading_method="defer")


def write(app: Any, error: Exception | None) -> None:
    """Write what the search shows of pages and claims as a script: a page on disk may load no other
    file.
    """
    if error or app.builder.name != "html":
        return
    pages = {
        name: [kept.get("description", ""), kept.get("keywords", "")]
        for name, kept in app.env.metadata.items()
        if "nosearch" not in kept
    }
    claims = [
        [
            claim.id,
            claim.place,
            claim.verdict,
            with_formulas(ledger.markup(claim.statement), LOGGER.warning),
        ]
        for claim in ledger.load()
    ]
    found = json.dumps(
        {"pages": pages, "claims": claims}, ensure_ascii=False, separators=(",", ":")
    )
    (Path(app.outdir) / "_static" / "found.js").write_text(
        f"const FOUND = {found};\n", encoding="utf8"
    )


def setup(app: Any) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("pages", PagesDirective)
    app.connect("html-page-context", describe)
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
