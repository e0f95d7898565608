"""How large the library is: ``python -m tests.house.volume`` prints lines by room, and the number of public names."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

LIBRARY = Path(__file__).resolve().parents[2] / "hdpm_lib"
_LAYOUT = (
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER
)  # fmt: skip


def lines_of_code(source: str) -> int:
    """Lines with code on them: no comments, blank lines, or texts that document."""
    texts = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type not in _LAYOUT]
    return len({line for token in tokens for line in range(token.start[0], token.end[0] + 1)} - texts)


def volume(library: Path = LIBRARY) -> dict[str, tuple[int, int]]:
    """Lines of code and of all, of each room and of the whole."""
    code, everything = Counter[str](), Counter[str]()
    for path in sorted(library.rglob("*.py")):
        source, place = path.read_text(encoding="utf8"), path.relative_to(library).parts
        for room in (place[0] if len(place) > 1 else "ground", "all"):
            code[room] += lines_of_code(source)
            everything[room] += source.count("\n")
    return {room: (code[room], everything[room]) for room in sorted(code, key=lambda room: (room == "all", room))}


def public_names(library: Path = LIBRARY) -> list[str]:
    """What can be imported from the library itself, its modules aside."""
    stub = ast.parse((library / "__init__.pyi").read_text(encoding="utf8"))
    return [
        alias.name for node in stub.body if isinstance(node, ast.ImportFrom) and node.module for alias in node.names
    ]


if __name__ == "__main__":
    for room, (code, everything) in volume().items():
        print(f"{room:10s} {code:6,d} lines of code {everything:7,d} of all")
    print(f"{len(public_names())} public names")
