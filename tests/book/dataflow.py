"""What a decision of a page rests on, run alone: also with a function of the library broken."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slices import needed, sets

BOOK = Path(__file__).resolve().parents[2] / "book"
CELL = re.compile(
    r"^```\{code-cell\}[^\n]*\n(?:---\n.*?\n---\n|(?::[^\n]*\n)*)(.*?)^```$", re.S | re.M
)
Fault = Callable[[Callable[..., Any]], Callable[..., Any]]  # from a function to a broken one


def statements(page: str) -> list[ast.stmt]:
    """All of a page, cell by cell."""
    text = (BOOK / f"{page}.md").read_text(encoding="utf8")
    return [statement for code in CELL.findall(text) for statement in ast.parse(code).body]


def smaller(statement: ast.stmt, sizes: dict[str, int]) -> ast.stmt:
    """Return the statement with other numbers of draws, where it sets one by name."""
    for target in statement.targets if isinstance(statement, ast.Assign) else []:
        if isinstance(target, ast.Name) and isinstance(statement.value, ast.Constant):
            statement.value = ast.Constant(sizes.get(target.id, statement.value.value))
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            both = [*target.elts, *statement.value.elts]
            if any(isinstance(one, ast.Starred) for one in both):
                continue  # no number is set by name
            pairs = zip(target.elts, statement.value.elts, strict=True)
            statement.value.elts = [
                ast.Constant(sizes[n.id]) if getattr(n, "id", "") in sizes else v for n, v in pairs
            ]
    return ast.fix_missing_locations(statement)


def run(
    page: str, claim: str, sizes: dict[str, int], name: str = "", fault: Fault | None = None
) -> None:
    """Run what a decision rests on; with a fault, `name` is broken as soon as the page has it."""
    space: dict[str, Any] = {"__name__": page}
    for statement in needed(statements(page), claim):
        code = ast.Module([smaller(statement, sizes)], type_ignores=[])
        with warnings.catch_warnings():
            if fault is not None:
                warnings.simplefilter("ignore", RuntimeWarning)  # of numbers that a fault has made
            exec(compile(code, page, "exec"), space)
        if (
            fault is not None
            and name in sets(statement)
            and isinstance(statement, ast.ImportFrom | ast.FunctionDef)
        ):
            space[name] = fault(space[name])
