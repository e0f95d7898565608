"""What the library costs: ``make bench``, or ``python -m tests.bench``; stored in
``data/studies/costs.json``.

Each case is measured in a process of its own. Times are seconds of the processor, the median of
five. A row during which the machine was busy is measured again; if it stays so, nothing is stored.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tqdm import tqdm

from hdpm_book.records import provenance, store
from tests.bench.case import disturbed
from tests.bench.cases import WINGS, row

STUDY = Path(__file__).resolve().parents[2] / "data" / "studies" / "costs.json"
PACKAGES = ("numpy", "scipy", "scikit-learn", "clarabel")
TRIES = 3


def main() -> None:
    """Measure all cases and store what came of it."""
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    places = [(wing, k) for wing, some in WINGS.items() for k in range(len(some))]
    context = get_context("forkserver")
    context.set_forkserver_preload(["tests.bench.cases"])  # imported once
    made = provenance(*PACKAGES) | {"command": "make bench"}
    rows = {}
    ahead = places
    for _ in range(TRIES):
        with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
            measured = tqdm(pool.map(row, ahead), desc="cases", total=len(ahead), disable=None)
            rows |= dict(zip(ahead, measured, strict=True))
        busy = disturbed(rows.values())
        ahead = [place for place in places if rows[place]["name"] in busy]
        if not ahead:
            break
    else:
        sys.exit(f"nothing is stored, for the machine was busy during {', '.join(sorted(busy))}")
    store(STUDY, made | {"cases": [rows[place] for place in places]})


if __name__ == "__main__":
    main()
