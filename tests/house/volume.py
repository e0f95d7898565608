"""How large the library is: ``python -m tests.house.volume`` prints lines, and the number of public names."""

from __future__ import annotations

import ast
import io
import tokenize
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


def volume() -> tuple[int, int]:
    """Lines of code and of all."""
    sources = [path.read_text(encoding="utf8") for path in LIBRARY.rglob("*.py")]
    return sum(map(lines_of_code, sources)), sum(source.count("\n") for source in sources)


def public_names() -> list[str]:
    """What can be imported from the library itself, its modules aside."""
    stub = ast.parse((LIBRARY / "__init__.pyi").read_text(encoding="utf8"))
    return [
        alias.name for node in stub.body if isinstance(node, ast.ImportFrom) and node.module for alias in node.names
    ]


if __name__ == "__main__":
    code, everything = volume()
    print(f"{code:,d} lines of code, {everything:,d} of all; {len(public_names())} public names")
