"""What the library costs: ``make bench``, or ``python -m tests.bench``; stored in ``data/studies/costs.json``.

Each case and each goal is measured in a process of its own. Times are seconds of the processor, the least and the
median of five.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tqdm import tqdm

from hdpm_book.records import provenance
from tests.bench.case import REPEATS, Case, least_and_median
from tests.bench.goals import GOALS
from tests.bench.pages import ROOT, seconds_of_pages

STUDY = ROOT / "data" / "studies" / "costs.json"
WINGS = ("ground", "learners", "markets", "auctions", "audits", "designs")
PACKAGES = ("numpy", "scipy", "scikit-learn", "clarabel", "jax")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def in_process(module: str, expression: str, library: Path = ROOT) -> Any:
    """What an expression on `part`, a module of this folder, gives in a process of its own with the library there."""
    imports = f"import json; from tests.bench.case import measure; from tests.bench import {module} as part"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "hdpm_lib").symlink_to(library.resolve() / "hdpm_lib")  # hides the installed one
        ran = subprocess.run(
            [sys.executable, "-P", "-c", f"{imports}; print(json.dumps({expression}))"],
            env=os.environ | ONE_THREAD | {"PYTHONPATH": os.pathsep.join([folder, str(ROOT)])},
            stdout=subprocess.PIPE,
            check=True,
        )
    return json.loads(ran.stdout)


def cases() -> list[tuple[str, int, Case]]:
    """Wing, place in it, and case."""
    modules = {wing: importlib.import_module(f"tests.bench.{wing}") for wing in WINGS}
    return [(wing, place, case) for wing, module in modules.items() for place, case in enumerate(module.CASES)]


def measure_cases() -> list[dict[str, Any]]:
    return [
        {"wing": wing} | in_process(wing, f"measure(part.CASES[{place}])")
        for wing, place, _ in tqdm(cases(), desc="cases", disable=not sys.stderr.isatty())
    ]


def measure_goals(before: Path | None = None) -> list[dict[str, Any]]:
    """A row for each goal; with another checkout its values too, by processes that take turns with this one's."""
    rows = []
    for number, goal in enumerate(tqdm(GOALS, desc="goals", disable=not sys.stderr.isatty())):
        checkouts = {"now": ROOT} | ({"before": before} if before else {})
        values: dict[str, list[float]] = {name: [] for name in checkouts}
        for _ in range(REPEATS):
            for name, checkout in checkouts.items():
                values[name].append(in_process("goals", f"part.GOALS[{number}].value()", checkout))
        row = {"work": goal.work, "goal": goal.goal, "unit": goal.unit}
        rows.append(row | {name: least_and_median(found) for name, found in values.items()})
    return rows


def store(part: str, rows: Callable[[], Any], **about: Any) -> None:
    """Measure a part, and store it beside the others with where and when."""
    began = sum(os.times()[:4])  # of this process and of those that it started
    found = {"found": rows(), "cpu_seconds": round(sum(os.times()[:4]) - began)}
    record = json.loads(STUDY.read_text("utf8")) if STUDY.is_file() else {}
    record[part] = provenance(*PACKAGES) | about | found
    STUDY.write_text(json.dumps(record, indent=1) + "\n", encoding="utf8")


def main() -> None:
    """Measure cases and goals, or the parts that are named, and store what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=main.__doc__)
    parser.add_argument("parts", nargs="*", help="cases, goals, pages; default: cases goals")
    parser.add_argument("--before", type=Path, metavar="PATH", help="another checkout, for the goals before and after")
    given = parser.parse_args()
    if unknown := set(given.parts) - {"cases", "goals", "pages"}:
        parser.error(f"parts are cases, goals, pages, got {', '.join(unknown)}")
    for part in given.parts or ("cases", "goals"):
        if part == "cases":
            store(part, measure_cases)
        elif part == "pages":
            store(part, seconds_of_pages)
        else:
            describe = ["git", "-C", str(given.before), "describe", "--always", "--dirty"]
            before = {"before": subprocess.check_output(describe, text=True).strip()} if given.before else {}
            store(part, lambda: measure_goals(given.before), **before)


if __name__ == "__main__":
    main()
