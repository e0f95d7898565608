"""All designs at the same money: by the number of sellers."""

from __future__ import annotations

from scipy import stats

from hdpm_lib.designs.comparison import compare_markets
from hdpm_lib.designs.rules import Task
from tests.bench.case import Case


def compared(n: int) -> object:
    return compare_markets(stats.uniform(1, 4), Task(), 0.2 * n, sellers=n, draws=10)


SIZES = (30, 100, 300, 1_000, 3_000)
CASES = (Case(compare_markets, lambda n, rng: (n,), compared, "all designs, ten draws", sizes=SIZES),)
