"""What the library costs: ``make bench``, or ``python -m tests.bench``; stored in ``data/studies/costs.json``.

Each case is measured in a process of its own. Times are seconds of the processor, the least and the
median of five.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from hdpm_book.records import provenance
from tests.bench.case import Case

ROOT = Path(__file__).resolve().parents[2]
STUDY = ROOT / "data" / "studies" / "costs.json"
WINGS = ("ground", "learners", "markets", "auctions", "audits", "designs")
PACKAGES = ("numpy", "scipy", "scikit-learn", "clarabel", "jax")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def in_process(module: str, expression: str) -> Any:
    """What an expression on `part`, a module of this folder, gives in a process of its own."""
    imports = f"import json; from tests.bench.case import measure; from tests.bench import {module} as part"
    code = f"{imports}; print(json.dumps({expression}))"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ | ONE_THREAD, stdout=subprocess.PIPE, check=True
    )
    return json.loads(ran.stdout)


def cases() -> list[tuple[str, int, Case]]:
    """Wing, place in it, and case."""
    modules = {wing: importlib.import_module(f"tests.bench.{wing}") for wing in WINGS}
    return [(wing, place, case) for wing, module in modules.items() for place, case in enumerate(module.CASES)]


def main() -> None:
    """Measure all cases and store what came of it."""
    rows = [
        {"wing": wing} | in_process(wing, f"measure(part.CASES[{place}])")
        for wing, place, _ in tqdm(cases(), desc="cases", disable=None)
    ]
    STUDY.write_text(json.dumps(provenance(*PACKAGES) | {"cases": rows}, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
