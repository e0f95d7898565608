"""ruff format for the code cells of the chapters: ``python -m tests.format_chapters [--write]``.

jupytext can pipe a page through a formatter, but it rewrites the page around the code; this changes cells only.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 88  # cells are read on phones
# fence, options (": key" lines or a block between "---"), code, fence
CELL = re.compile(r"(^```\{code-cell\}[^\n]*\n(?:---\n.*?\n---\n|(?::[^\n]*\n)*)\n*)(.*?)(^```$)", re.S | re.M)


def formatted(code: str) -> str:
    """Code as ruff lays it out."""
    command = [sys.executable, "-m", "ruff", "format", "--quiet", f"--line-length={WIDTH}", "-"]
    return subprocess.run(command, input=code, capture_output=True, text=True, check=True).stdout


def reformat(page: str) -> str:
    """A page with every code cell formatted, and nothing else changed."""
    return CELL.sub(lambda cell: cell[1] + formatted(cell[2]) + cell[3], page)


def not_ignored(paths: Iterable[Path]) -> list[Path]:
    """Those of the files that git does not ignore, sorted; all of them where there is no repository."""
    found = sorted(paths)
    if not found:
        return []
    command = ["git", "check-ignore", "-z", "--stdin"]
    names = "\0".join(map(str, found))
    run = subprocess.run(command, cwd=found[0].parent, input=names, capture_output=True, text=True, check=False)
    ignored = set(run.stdout.split("\0"))
    return [path for path in found if str(path) not in ignored]


def main(write: bool) -> int:
    """Format all pages, or name those that are not formatted; the number of such pages."""
    found = 0
    for path in not_ignored((ROOT / "book").rglob("*.md")):
        text = path.read_text(encoding="utf8")
        if (new := reformat(text)) != text:
            found += 1
            print(f"{'formatted' if write else 'not formatted'}: {path.relative_to(ROOT)}")
            if write:
                path.write_text(new, encoding="utf8")
    return 0 if write else found


if __name__ == "__main__":
    sys.exit(main("--write" in sys.argv[1:]))
