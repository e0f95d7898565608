"""Under each exercise whose answer the notebook checks stands what it asks for, with a link to the
notebook; the directive ``{exercises}`` lists all exercises of the book.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.addnodes import download_reference
from sphinx.util.docutils import SphinxDirective
from sphinx.util.osutil import relative_uri
from sphinx_exercise.nodes import exercise_enumerable_node

from hdpm_book.exercises import exercises

HEAD = ("Exercise", "Subject", "Page", "Answer")


class exercise_list(nodes.General, nodes.Element):
    """Where the list is to stand."""


class ExerciseList(SphinxDirective):
    """The directive ``{exercises}``."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # other pages change it
        return [exercise_list()]


def say_what_is_asked(app: Any, doctree: nodes.document) -> None:
    """Put under an exercise what the notebook checks."""
    for box in doctree.findall(exercise_enumerable_node):
        if known := exercises().get(box["label"]):
            line = nodes.paragraph(classes=["hdpm-asks"])
            line += nodes.emphasis("", "Checked in the notebook:")
            line += nodes.Text(f" {known.asks}.")
            box[-1] += line


def link(app: Any, doctree: nodes.document, docname: str) -> None:
    """On the site the word "notebook" leads to the page's own, which is written before this."""
    if app.builder.name != "html":
        return
    address = relative_uri(app.builder.get_target_uri(docname), f"_sources/{docname}.ipynb")
    for line in doctree.findall(nodes.paragraph):
        if "hdpm-asks" in line["classes"]:
            before, word, after = map(nodes.Text, line[0].astext().partition("notebook"))
            line[0][:] = before, download_reference("", "", word, refuri=address), after


def subject(box: nodes.Element) -> str:
    """The title of an exercise, without the word and the number."""
    return "".join(part.astext() for part in box[0].findall(nodes.subtitle))


def table(app: Any, docname: str) -> nodes.table:
    """All exercises, in the order of the book."""
    rows = [HEAD]
    registry = getattr(app.env, "sphinx_exercise_registry", {})
    for page, kinds in app.env.toc_fignumbers.items():
        address = app.builder.get_relative_uri(docname, page)
        title = app.env.titles[page].astext()
        for label, number in kinds.get("exercise", {}).items():
            name = ".".join(map(str, number))
            link = nodes.reference("", name, internal=True, refuri=f"{address}#{label}")
            checked = "checked in the notebook" if label in exercises() else "in words"
            rows.append((link, subject(registry[label]["node"]), title, checked))
    group = nodes.tgroup(cols=len(HEAD))
    group += [nodes.colspec(colwidth=1) for _ in HEAD]
    lines = [
        nodes.row(
            "",
            *(
                nodes.entry(
                    "",
                    nodes.paragraph(
                        "", "", cell if isinstance(cell, nodes.Node) else nodes.Text(cell)
                    ),
                )
                for cell in row
            ),
        )
        for row in rows
    ]
    group += nodes.thead("", lines[0])
    group += nodes.tbody("", *lines[1:])
    return nodes.table("", group, classes=["hdpm-exercises"])


def fill(app: Any, doctree: nodes.document, docname: str) -> None:
    """Put the list where a page wants it."""
    for place in list(doctree.findall(exercise_list)):
        place.replace_self(table(app, docname))


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_node(exercise_list)
    app.add_directive("exercises", ExerciseList)
    app.connect("doctree-read", say_what_is_asked)
    app.connect("doctree-resolved", fill)
    app.connect("doctree-resolved", link, priority=950)  # after notebooks.write
    return {"parallel_read_safe": True, "parallel_write_safe": True}
