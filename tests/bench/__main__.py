"""What the library costs: ``make bench``, or ``python -m tests.bench``; stored in
``data/studies/costs.json``.

Each case is measured in a process of its own. Times are seconds of the processor, the median of
five.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tqdm import tqdm

from hdpm_book.records import provenance
from tests.bench.cases import WINGS, row

STUDY = Path(__file__).resolve().parents[2] / "data" / "studies" / "costs.json"
PACKAGES = ("numpy", "scipy", "scikit-learn", "clarabel", "jax")


def main() -> None:
    """Measure all cases and store what came of it."""
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    places = [(wing, k) for wing, some in WINGS.items() for k in range(len(some))]
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        rows = list(tqdm(pool.map(row, places), desc="cases", total=len(places), disable=None))
    STUDY.write_text(
        json.dumps(provenance(*PACKAGES) | {"cases": rows}, indent=1) + "\n", encoding="utf8"
    )


if __name__ == "__main__":
    main()
