"""Under each exercise whose answer the notebook checks stands what it asks for, with a link to the
notebook. The directive ``{exercises}`` lists all exercises by subject, with what
``data/sheets.yaml`` says of each; ``{sheet}`` repeats them, on sheets to hand out, and with
``:solutions:`` their solutions as well.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import execution
import yaml
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.addnodes import download_reference
from sphinx.transforms import SphinxTransformer
from sphinx.util.docutils import SphinxDirective
from sphinx.util.osutil import relative_uri
from sphinx_exercise.nodes import exercise_enumerable_node, solution_node

from hdpm_book.exercises import exercises

HEAD = ("Exercise", "Title", "Page", "Level", "Minutes", "It needs", "Answer")


class Task(NamedTuple):
    """What ``data/sheets.yaml`` says of an exercise."""

    level: int
    minutes: int
    needs: str


@cache
def sheets() -> dict[str, dict[str, Task]]:
    """Return the exercises of each subject by label, the easy ones first."""
    text = (execution.ROOT / "data" / "sheets.yaml").read_text(encoding="utf8")
    found = {}
    for entry in yaml.safe_load(text):
        tasks = {label: Task(*said) for label, said in entry["exercises"].items()}
        found[entry["subject"]] = dict(sorted(tasks.items(), key=lambda item: item[1].level))
    return found


class exercise_list(nodes.General, nodes.Element):
    """Where the list is to stand."""


class exercise_sheet(nodes.General, nodes.Element):
    """Where the exercises of a subject are to stand."""


class ExerciseList(SphinxDirective):
    """The directive ``{exercises}``."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # other pages change it
        return [exercise_list()]


class SheetDirective(SphinxDirective):
    """The directive ``{sheet}``: a section for each subject."""

    option_spec = {"solutions": directives.flag}  # noqa: RUF012, as docutils has it

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()
        found = []
        for number, subject in enumerate(sheets()):
            section = nodes.section(ids=[f"sheet-{number}"], classes=["hdpm-sheet"])
            section += nodes.title("", subject)
            section += exercise_sheet(subject=subject, solutions="solutions" in self.options)
            found.append(section)
        return found


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
    """Return the title of an exercise, without the word and the number."""
    return "".join(part.astext() for part in box[0].findall(nodes.subtitle))


def numbered(app: Any) -> Iterator[tuple[str, str, str]]:
    """Yield label, page and number of each exercise, in the order of the book."""
    for page, kinds in app.env.toc_fignumbers.items():
        for label, number in kinds.get("exercise", {}).items():
            yield label, page, ".".join(map(str, number))


def table(app: Any, docname: str, tasks: dict[str, Task], places: dict[str, Any]) -> nodes.table:
    """Return the exercises of a subject as a table."""
    rows: list[tuple[Any, ...]] = [HEAD]
    registry = getattr(app.env, "sphinx_exercise_registry", {})
    for label, task in tasks.items():
        if label in places:
            page, number = places[label]
            address = app.builder.get_relative_uri(docname, page)
            link = nodes.reference("", number, internal=True, refuri=f"{address}#{label}")
            title = app.env.titles[page].astext()
            at = nodes.reference("", title, internal=True, refuri=address)
            checked = "checked" if label in exercises() else "in words"
            name = subject(registry[label]["node"])
            rows.append((link, name, at, str(task.level), str(task.minutes), task.needs, checked))
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


def boxes(app: Any, page: str) -> dict[str, list[nodes.Element]]:
    """Return exercise and solution of a page by label, as the page shows them."""
    doctree = app.env.get_doctree(page)
    state = app.env.temp_data
    before = state.get("docname")
    state["docname"] = page
    try:
        transformer = SphinxTransformer(doctree)
        transformer.set_environment(app.env)
        transformer.add_transforms(app.registry.get_post_transforms())
        transformer.apply_transforms()
    finally:
        if before is None:
            del state["docname"]
        else:
            state["docname"] = before
    found = {box["label"]: [box] for box in doctree.findall(exercise_enumerable_node)}
    for box in doctree.findall(solution_node):
        found[box["target_label"]].append(box)
    return found


def moved(app: Any, box: nodes.Element, page: str, docname: str) -> nodes.Element:
    """Return a box of a page as it stands on another: links lead where they led, and no place is
    there twice.
    """
    target = app.builder.get_target_uri
    for line in list(box.findall(nodes.paragraph)):
        if "hdpm-asks" in line["classes"]:  # of the page's notebook
            line.parent.remove(line)
    for link in box.findall(nodes.reference):
        if "refid" in link:
            link["refuri"] = f"#{link.attributes.pop('refid')}"
        uri = link.get("refuri", "")
        if uri.startswith("#"):
            link["refuri"] = app.builder.get_relative_uri(docname, page) + uri
        elif uri and "://" not in uri:
            path, mark, name = uri.partition("#")
            there = posixpath.normpath(posixpath.join(posixpath.dirname(target(page)), path))
            link["refuri"] = relative_uri(target(docname), there) + mark + name
    for node in box.findall(nodes.Element):
        if not isinstance(node, exercise_enumerable_node):
            node["ids"] = []
    return box


def sheet(app: Any, docname: str, place: exercise_sheet, found: dict[str, Any]) -> list[nodes.Node]:
    """Return the exercises of a subject, each with level, minutes, what it needs and its page."""
    parts: list[nodes.Node] = []
    for label, task in sheets()[place["subject"]].items():
        if label not in found:
            continue
        page, number, (exercise, *solution) = found[label]
        box = moved(app, exercise, page, docname)
        box[0].insert(0, nodes.Text(f"Exercise {number}"))  # by which its own page calls it
        parts.append(box)
        line = nodes.paragraph(classes=["hdpm-task"])
        line += nodes.Text(
            f"Level {task.level}, about {task.minutes} minutes. Needs: {task.needs}. From "
        )
        address = app.builder.get_relative_uri(docname, page)
        title = app.env.titles[page].astext()
        line += nodes.reference("", title, internal=True, refuri=f"{address}#{label}")
        line += nodes.Text(".")
        parts.append(line)
        if place["solutions"]:
            parts += [moved(app, box, page, docname) for box in solution]
    return parts


def fill(app: Any, doctree: nodes.document, docname: str) -> None:
    """Put list and sheets where a page wants them."""
    lists = list(doctree.findall(exercise_list))
    wanted = list(doctree.findall(exercise_sheet))
    if not lists and not wanted:
        return
    places = {label: (page, number) for label, page, number in numbered(app)}
    for place in lists:
        sections = []
        for number, (name, tasks) in enumerate(sheets().items()):
            section = nodes.section(ids=[f"subject-{number}"])
            section += nodes.title("", name)
            section += table(app, docname, tasks, places)
            sections.append(section)
        place.replace_self(sections)
    if wanted:
        found = {}
        for page in dict.fromkeys(page for page, _ in places.values()):
            for label, both in boxes(app, page).items():
                found[label] = (*places[label], both)
        for place in wanted:
            place.replace_self(sheet(app, docname, place, found))


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_node(exercise_list)
    app.add_node(exercise_sheet)
    app.add_directive("exercises", ExerciseList)
    app.add_directive("sheet", SheetDirective)
    app.connect("doctree-read", say_what_is_asked)
    app.connect("doctree-resolved", fill, priority=100)  # so that others see the boxes, too
    app.connect("doctree-resolved", link, priority=950)  # after notebooks.write
    return {"parallel_read_safe": True, "parallel_write_safe": True}
