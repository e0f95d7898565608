"""Least-cost contracts: the exact solver against the printed search on the same instances, and how both grow.

Run by ``make bench``. Valuations are uniform on [0, 1], the cost is v eps^2, and K = n^2/16. The search is read as it
serves it best (`algorithm1` of `hdpm_lib.markets.contracts_printed`). Times are medians over repeats; the search runs
once.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from tqdm import tqdm

from hdpm_lib.markets.contracts import kkt_residual, principle2
from hdpm_lib.markets.contracts_printed import algorithm1
from hdpm_lib.markets.mechanisms import m2
from tests.bench.clock import once, timed

POWER = 2.0
SEARCHED = (10, 100, 1000)
SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)


def main() -> None:
    rng = np.random.default_rng(0)
    print("\nLeast-cost contracts, cost v eps^2, K = n^2/16, valuations uniform.")
    print(f"{'n':>9}{'search s':>11}{'exact s':>11}{'times':>9}{'cost of the search':>20}{'least cost':>12}")
    for n in tqdm(SEARCHED, desc="search", leave=False, disable=not sys.stderr.isatty()):
        v, K = rng.random(n), n**2 / 16
        slow, searched = once(lambda v=v, K=K: algorithm1(v, K, power=POWER))
        fast, best = timed(lambda v=v, K=K: principle2(v, K, power=POWER))
        print(f"{n:9,}{slow:11.4f}{fast:11.6f}{slow / fast:9,.0f}{searched.cost:20.6f}{best.cost:12.6f}")

    print("\nGrowth of the exact solver, and of all payments of M2.")
    print(f"{'n':>9}{'exact s':>11}{'ns/(n log2 n)':>15}{'KKT residual':>14}{'payments s':>12}{'ns/(n log2 n)':>15}")
    for n in tqdm(SIZES, desc="growth", leave=False, disable=not sys.stderr.isatty()):
        v, K = rng.random(n), n**2 / 16
        fast, best = timed(lambda v=v, K=K: principle2(v, K, power=POWER))
        paid, _ = timed(lambda v=v, K=K: m2(v, K, 1.0, power=POWER))
        unit = 1e9 / (n * math.log2(n))
        residual = float(kkt_residual(best, v, K, power=POWER))
        print(f"{n:9,}{fast:11.6f}{fast * unit:15.1f}{residual:14.1e}{paid:12.6f}{paid * unit:15.1f}")
