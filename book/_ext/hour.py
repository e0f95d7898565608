"""The pages to read in one hour: ``{hour}`` lists them, and at the foot of each stands which one it
is and which is next.

They stand once, in the head of the first, in reading order, with what to find there::

    hour:
      book/market: what a market for private data is
      book/ridge/idea: everybody sets a limit
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from docutils.statemachine import StringList
from pages import head, parts
from sphinx.util.docutils import SphinxDirective

FIRST = "book/market"


def hour(root: Path) -> dict[str, str]:
    """Return the pages of the hour, and what each says."""
    return dict(head(root / f"{FIRST}.md")["hour"])


@cache
def titles(root: Path) -> dict[str, str]:
    """Titles of all pages in the table of contents, without the numbers of chapters."""
    contents = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf8"))
    return {part.name: re.sub(r"^\d+\. ", "", part.title) for part in parts(contents, "")}


@dataclass(frozen=True)
class Stop:
    """A page of the hour; after the last one comes none."""

    number: int
    pages: int
    after: str = ""
    title: str = ""  # of the page after it
    first: str = FIRST


def stop(root: Path, page: str) -> Stop | None:
    """Where a page stands in the hour, if it does."""
    names = list(hour(root))
    if page not in names:
        return None
    number = names.index(page) + 1
    after = names[number] if number < len(names) else ""
    return Stop(number, len(names), after, titles(root).get(after, ""))


class Hour(SphinxDirective):
    """``{hour}``: the pages of the hour as a numbered list."""

    def run(self) -> list[nodes.Node]:
        lines = [
            f"{number}. {'This page' if name == self.env.docname else f'{{doc}}`/{name}`'}: {says}."
            for number, (name, says) in enumerate(hour(Path(self.env.srcdir)).items(), 1)
        ]
        box = nodes.Element()
        self.state.nested_parse(StringList(lines, self.env.docname), self.content_offset, box)
        return box.children


def add(app: Any, pagename: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Give the template of the foot what it needs."""
    context["hour"] = stop(Path(app.srcdir), pagename)


def setup(app: Any) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("hour", Hour)
    app.connect("html-page-context", add)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
