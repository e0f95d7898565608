"""Exercises whose answer a notebook checks: what is told to whom, and that none is left without."""

from __future__ import annotations

import re
from types import SimpleNamespace

import execution
import exercises as boxes
import notebooks
import pytest
from docutils import nodes
from docutils.utils import new_document
from sphinx.addnodes import download_reference
from sphinx_exercise.nodes import exercise_enumerable_node

from hdpm_book.exercises import RIGHT, Exercise, check, exercises

LOOKS_AT = ["_toc.yml", "book", "tests/refs"]
KNOWN = exercises()
PAGES = {
    page.relative_to(execution.ROOT).as_posix(): page.read_text(encoding="utf8")
    for page in execution.pages()
}
BOX = re.compile(r"\{exercise-start\} *(.*)\n:label: (\S+)")
SOLUTION = re.compile(r"\{solution-start\} (\S+)\n(.*?)\{solution-end\}", re.DOTALL)


@pytest.mark.parametrize("label", KNOWN)
def test_the_answer_is_right_and_the_slip_is_not(label: str) -> None:
    one = KNOWN[label]
    assert one.says(one.answer) == RIGHT
    assert one.says(one.slip) == f"Not yet. {one.hint}"
    assert one.says(...) == f"Put {one.asks} in place of the dots, and run this cell again."
    if not isinstance(one.answer, str):
        assert "asked for" in one.says("much") and "asked for" in one.says([1, 2, 3, 4])


def test_each_answer_is_checked_by_the_solution_of_its_page() -> None:
    """The page runs it, and its printed "Right." is a reference: so an entry cannot be wrong."""
    checked = {
        found.group(1)
        for text in PAGES.values()
        for found in SOLUTION.finditer(text)
        if f', "{found.group(1)}")' in found.group(2)
    }
    assert checked == KNOWN.keys()
    refs = "".join(
        file.read_text(encoding="utf8") for file in execution.ROOT.glob("tests/refs/**/*.json")
    )
    assert f'"{RIGHT}"' in refs and "Not yet" not in refs


def test_each_exercise_stands_on_one_sheet_with_level_minutes_and_needs() -> None:
    there = [label for text in PAGES.values() for _, label in BOX.findall(text)]
    listed = [label for tasks in boxes.sheets().values() for label in tasks]
    assert sorted(listed) == sorted(there)
    for tasks in boxes.sheets().values():
        levels = [task.level for task in tasks.values()]
        assert levels == sorted(levels) and {*levels} <= {1, 2, 3}
        for task in tasks.values():
            assert 5 <= task.minutes <= 60 and task.needs


@pytest.mark.parametrize(
    ("uri", "there"),
    [
        ("#thm", "../ridge/limits.html#thm"),
        ("guarantee.html#a", "../ridge/guarantee.html#a"),
        ("../ledger.html", "../ledger.html"),
        ("https://example.org/", "https://example.org/"),
    ],
)
def test_a_link_of_an_exercise_leads_from_a_sheet_where_it_led(uri: str, there: str) -> None:
    builder = SimpleNamespace(
        get_target_uri="{}.html".format,
        get_relative_uri=lambda here, page: "../ridge/limits.html",
    )
    box = nodes.section("", nodes.reference("", "x", refuri=uri), ids=["x"])
    box += nodes.paragraph(classes=["hdpm-asks"])
    app = SimpleNamespace(builder=builder)
    found = boxes.moved(app, box, "book/ridge/limits", "book/teach/sheets")
    (link,) = found.children
    assert link["refuri"] == there and not found["ids"]


def test_each_exercise_has_a_title_and_a_solution() -> None:
    for page, text in PAGES.items():
        boxes = BOX.findall(text)
        solved = {found.group(1) for found in SOLUTION.finditer(text)}
        assert {label for _, label in boxes} == solved, page
        assert all(title for title, _ in boxes), page


@pytest.mark.parametrize(
    ("docname", "address"),
    [
        ("index", "_sources/index.ipynb"),
        ("book/privacy/idea", "../../_sources/book/privacy/idea.ipynb"),
    ],
)
def test_on_the_site_alone_the_notebook_is_a_link(docname: str, address: str) -> None:
    builder = SimpleNamespace(name="notebooks", get_target_uri="{}.html".format)
    app, page = SimpleNamespace(builder=builder), new_document("page")
    page += exercise_enumerable_node("", nodes.title(), nodes.section(), label="ex-pr-idea-1")
    boxes.say_what_is_asked(app, page)
    said = f"Checked in the notebook: {KNOWN['ex-pr-idea-1'].asks}."
    boxes.link(app, page, docname)
    assert page.astext().strip() == said and not list(page.findall(download_reference))
    builder.name = "html"
    boxes.link(app, page, docname)
    (found,) = page.findall(download_reference)
    assert page.astext().strip() == said and found.astext() == "notebook"
    assert found["refuri"] == address


def test_each_page_with_a_checked_exercise_becomes_a_notebook() -> None:
    pages = {
        page.removesuffix(".md")
        for page, text in PAGES.items()
        if any(label in KNOWN for _, label in BOX.findall(text))
    }
    assert pages and pages <= notebooks.with_code(execution.ROOT)


@pytest.mark.parametrize(
    ("answer", "right"),
    [(0.25, True), (0.252, True), (0.26, False), (True, False), ("0.25", True), (None, False)],
)
def test_a_number_may_be_off_by_a_hundredth(answer: object, right: bool) -> None:
    one = Exercise("ex", "it", 0.25, 0.5, "Think.")
    assert (one.says(answer) == RIGHT) is right


def test_zero_is_zero_and_words_need_no_capitals() -> None:
    assert Exercise("ex", "it", [0.5, 0], [0, 0.5], "Think.").says([0.5, 0.01]) != RIGHT
    assert Exercise("ex", "it", "Yes", "no", "Think.").says(" yes ") == RIGHT


def test_an_unknown_name_is_an_error_that_suggests_one() -> None:
    with pytest.raises(LookupError, match=r"'ex-pr-idea-11'.*did you mean ex-pr-idea-1\?"):
        check(1, "ex-pr-idea-11")
