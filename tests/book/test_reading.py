"""A page is read before it is checked: what it teaches stands first and decides nothing, its
parameters are set once, and the evidence stands at its end.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import execution
import pytest
from dependencies import code_cells
from slices import sets

from hdpm_book.ledger import load
from tests.book.dataflow import BOOK

LOOKS_AT = ["_toc.yml", "book"]
DECIDING = sorted({claim.page for claim in load() if claim.page})
CODE = [page for page in execution.pages() if execution.is_chapter(page)]


def decides(code: str) -> bool:
    """Whether a cell decides a claim."""
    return any(
        isinstance(node, ast.Call) and ast.unparse(node.func) == "decide"
        for node in ast.walk(ast.parse(code))
    )


def deciding_too_early(path: Path) -> list[str]:
    """The first lines of cells that decide a claim before the section of evidence."""
    found = []
    for cell in execution.read(path).cells:
        if cell.cell_type == "markdown" and re.search(r"(?m)^## Evidence$", cell.source):
            break
        if cell.cell_type == "code" and decides(cell.source):
            found.append(cell.source.partition("\n")[0])
    return found


def numbers_set(statement: ast.stmt) -> set[str]:
    """Names that a statement sets to a number."""
    found = set()
    for target in statement.targets if isinstance(statement, ast.Assign) else []:
        pairs = [(target, statement.value)]
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            pairs = list(zip(target.elts, statement.value.elts, strict=False))
        for name, value in pairs:
            is_number = isinstance(value, ast.Constant) and type(value.value) in (int, float)
            if isinstance(name, ast.Name) and is_number:
                found.add(name.id)
    return found


def set_again(cells: list[str]) -> list[str]:
    """Parameters, first set to a number in one cell, that a later cell sets to something else."""
    parameters: dict[str, int] = {}
    again = []
    for number, code in enumerate(cells):
        for statement in ast.parse(code).body:
            numbers = numbers_set(statement)
            for name in sorted(sets(statement)):
                if name in parameters and parameters[name] != number:
                    again.append(name)
                elif name in numbers:
                    parameters.setdefault(name, number)
    return again


@pytest.mark.parametrize("page", DECIDING)
def test_a_page_teaches_first_and_decides_at_its_end(page: str) -> None:
    text = (BOOK / f"{page}.md").read_text("utf8")
    assert deciding_too_early(BOOK / f"{page}.md") == []
    if "decide(" in text:
        reading, heading, evidence = text.partition("\n## Evidence\n")
        assert heading and "\n## " not in evidence  # the last section
        assert "**After this page you can**" in reading and "**You need**" in reading
        assert "```{decided}" in reading


@pytest.mark.parametrize("page", CODE, ids=lambda page: page.stem)
def test_a_parameter_is_set_once(page: str) -> None:
    assert set_again([cell.source for cell in code_cells(execution.read(page))]) == []


def test_what_is_decided_too_early_and_what_is_set_again_is_found(tmp_path: Path) -> None:
    cell = "```{code-cell} ipython3\nfor x in y:\n    decide(x, 'so', printed=True)\n```\n"
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n{cell}\n## Evidence\n\n{cell}", "utf8")
    assert deciding_too_early(page) == ["for x in y:"]
    page.write_text(f"# Page\n\n## Evidence\n\n{cell}", "utf8")
    assert deciding_too_early(page) == []
    cells = ["n, K = 10, 0.5\nm = 3\nm = 4", "for n in (1, 2): pass", "K = f(K)"]
    assert set_again(cells) == ["n", "K"]
    assert set_again(["n = 10", "for k in x:\n    n = k"]) == ["n"]
    assert set_again(["n = 10", "def f():\n    n = 3\n    return n", "other = n"]) == []
