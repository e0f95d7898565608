"""Indexes of the book, made from its pages: ``{theorems}`` and ``{symbols}``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import notation
import yaml
from docutils import nodes
from pages import parts
from sphinx.util.docutils import SphinxDirective

BOX = re.compile(r"^[`:]{3,}\{prf:(?!proof)\w+\} *(?P<title>.*)\n:label: *(?P<label>\S+)", re.M)
SHOWN = re.compile(r"^`{3}\{notation\}( chapter)?$", re.M)


def theorems(text: str) -> Iterator[tuple[str, str]]:
    """Labels and titles of a page's theorems, definitions and algorithms.

    Examples
    --------
    >>> box = "```{prf:theorem} The price\\n:label: thm-price\\nIt is 2.\\n```\\n"
    >>> [*theorems(box + "```{prf:proof}\\n:label: no\\n```")]
    [('thm-price', 'The price')]
    """
    for found in BOX.finditer(text):
        yield found["label"], found["title"]


class Index(SphinxDirective):
    """A table of two columns and the page, from all pages."""

    head: tuple[str, str]

    def rows(self, path: Path) -> Iterator[tuple[str, str]]:
        """Return the rows of a page."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        root = Path(self.env.srcdir)
        contents = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf8"))
        lines = [(*self.head, "Page")]
        for part in parts(contents, "Front page"):
            path = root / f"{part.name}.md"
            self.env.note_dependency(str(path))
            lines += [(*row, f"{{doc}}`{part.title} </{part.name}>`") for row in self.rows(path)]
        head, *body = [nodes.row("", *map(self.cell, line)) for line in lines]
        columns = [nodes.colspec(colwidth=width) for width in (1, 3, 1)]
        group = nodes.tgroup("", *columns, nodes.thead("", head), nodes.tbody("", *body), cols=3)
        return [nodes.table("", group, classes=["hdpm-notation"])]

    def cell(self, text: str) -> nodes.entry:
        words = self.state.inline_text(text, self.lineno)[0] if text else []
        return nodes.entry("", nodes.paragraph("", "", *words))


class Theorems(Index):
    """``{theorems}``: theorems, definitions and algorithms, in the order of the book."""

    head = ("Number", "Title")

    def rows(self, path: Path) -> Iterator[tuple[str, str]]:
        for label, title in theorems(path.read_text(encoding="utf8")):
            yield f"{{prf:ref}}`{label}`", title


class Symbols(Index):
    """``{symbols}``: symbols with the pages whose tables have them, in the order of the book."""

    head = ("Symbol", "Meaning")

    def rows(self, path: Path) -> Iterator[tuple[str, str]]:
        if found := SHOWN.search(path.read_text(encoding="utf8")):
            file = path.with_name("notation.yaml")
            self.env.note_dependency(str(file))
            here = None if found[1] else path.stem
            for row in notation.read(file)[0]:
                if row.get("page") == here:
                    yield f"${row['symbol']}$", row["means"]


def setup(app: Any) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("theorems", Theorems)
    app.add_directive("symbols", Symbols)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
