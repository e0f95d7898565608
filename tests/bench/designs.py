"""All designs at the same money: by the number of sellers."""

from __future__ import annotations

from scipy import stats

from hdpm_lib.designs.comparison import compare_markets
from hdpm_lib.designs.rules import Task
from tests.bench.case import Case

LAW = stats.uniform(1, 4)
CASES = (
    Case(
        compare_markets,
        lambda n, rng: (n,),
        lambda n: compare_markets(LAW, Task(), 0.2 * n, sellers=n, draws=10),
        variant="all designs, ten draws",
        sizes=(30, 100, 300, 1_000, 3_000),
    ),
)
