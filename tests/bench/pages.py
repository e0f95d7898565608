"""Seconds of the pages and of their cells, as the tests noted them when they last executed each page."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
import execution  # noqa: E402

SLOWEST = 12  # cells that are kept
SHOWS = "reference/costs"  # the page that shows these seconds, and so is executed after they are stored


def seconds_of_pages(root: Path = ROOT) -> dict[str, Any]:
    """Seconds of each page, and the slowest cells with their first lines.

    The newest execution of each page counts. Pages that were last executed by the book, which notes no times, are
    an error.
    """
    pages, cells = {}, []
    for path in execution.pages(root):
        name = path.relative_to(root / "book").with_suffix("").as_posix()
        if name == SHOWS or not execution.is_chapter(path):
            continue
        kept = (root / "_build" / "executed").glob(f"{name.replace('/', '.')}.*.ipynb")
        newest = max(kept, key=lambda file: file.stat().st_mtime, default=None)
        page = json.loads(newest.read_text("utf8")) if newest else {"metadata": {}}
        if "seconds" not in page["metadata"]:
            raise FileNotFoundError(f"{name} has no times yet: run pytest book/{name}.md")
        code = [cell for cell in page["cells"] if cell["cell_type"] == "code"]
        spent = page["metadata"]["seconds"]
        pages[name] = round(sum(spent), 2)
        cells += [(seconds, name, first_line(cell)) for seconds, cell in zip(spent, code, strict=True)]
    slowest = sorted(cells, reverse=True)[:SLOWEST]
    return {"pages": pages, "cells": [dict(zip(("seconds", "page", "cell"), cell, strict=True)) for cell in slowest]}


def first_line(cell: dict[str, Any]) -> str:
    """The first line of a cell that computes."""
    lines = [line for line in "".join(cell["source"]).splitlines() if line.strip()]
    computes = [line for line in lines if not line.startswith(("import ", "from ", "#", "%"))]
    return (computes or lines)[0][:100]
