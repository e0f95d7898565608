"""Studies that are stored: rows collected job by job, on as many machines as there are, and where
they come from.
"""

from __future__ import annotations

import ast
import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

from hdpm_lib.spread import each

Row = dict[str, Any]


def page_functions(page: str, *names: str) -> dict[str, Any]:
    """What a page such as ``"federated/regret"`` imports, and these functions and constants of its
    cells: a recorded run calls what the page shows.
    """
    file = Path(__file__).parent / f"{page}.md"
    if not file.exists():
        raise FileNotFoundError(
            f"the page {file} is not there: what a page shows is run in a checkout of the book,"
            " and an installed hdpm_book has no pages"
        )
    import jupytext  # of the environment that builds the book

    space: dict[str, Any] = {"__name__": page}
    cells = jupytext.read(file).cells
    for source in [cell.source for cell in cells if cell.cell_type == "code"]:
        for part in ast.parse(source).body:
            match part:
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.FunctionDef(name=name):
                    wanted = name in names
                case _:
                    wanted = isinstance(part, ast.Import | ast.ImportFrom)
            if wanted:
                exec(compile(ast.Module([part], []), page, "exec"), space)
    return space


def provenance(*packages: str) -> dict[str, Any]:
    """Commit, date, machine, versions of Python and of some packages: stored beside numbers that
    took long.
    """
    command = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(
        command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return {
        "commit": commit.stdout.strip(),
        "date": date.today().isoformat(),
        "hardware": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {name: metadata.version(name) for name in packages}
        | {"python": platform.python_version()},
    }


def collect(
    folder: Path,
    name: str,
    jobs: Sequence[tuple[Any, ...]],
    row: Callable[..., Row],
    about: Row,
    *packages: str,
) -> None:
    """Store a row for every job in ``NAME.json``, with where it comes from.

    Jobs run where :func:`hdpm_lib.spread.use` says. Rows are kept in ``NAME.parts`` until all are
    done: a study that was interrupted goes on. The callable `row` makes one from the parts of a
    job.
    """
    parts = folder / f"{name}.parts"
    told = json.dumps(about, default=str)
    done = each(_timed, jobs, row, told, folder=parts)
    rows, seconds = zip(*done, strict=True)
    record = (
        provenance(*packages) | about | {"cpu_seconds": round(sum(seconds), 3), "rows": list(rows)}
    )
    (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf8")
    shutil.rmtree(parts)


def _timed(job: tuple[Any, ...], row: Callable[..., Row], about: str) -> tuple[Row, float]:
    """A row, which has seeds of its own, and the seconds of the processor."""
    began = time.process_time()
    return row(*job), time.process_time() - began
