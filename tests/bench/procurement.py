"""Optimal procurement: the exact solvers against gradient plus grid and conic plus search, and how all of it grows.

Run by ``make bench``. Costs are uniform on [1, 5], mu = sigma = 1, gamma = 0.01. The gradient gets the step that suits
it best and grids of 101 and 1,001 rates up to twice the best rate, which the paper does not know and which lies midway
between two of the grid. The conic solver gets the interval in which the best rate must lie. Times are medians over
repeats; what takes seconds runs once.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy import stats
from tqdm import tqdm

from hdpm_book.logistic.peer import conic_search, gradient_and_grid
from hdpm_lib.markets.costs import virtual_valuation
from hdpm_lib.markets.procurement import procure, procure_fast
from hdpm_lib.markets.procurement_payments import procurement_payments
from tests.bench.clock import once, timed

LAW, SCALE = stats.uniform(1, 4), (1.0, 1.0, 0.01)
SEARCHED = 5_000
SIZES = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
PAID, REPEATED = 1_000_000, 100_000  # payments, and repeats of the sorting solver, up to this number of sellers


def main() -> None:
    rng = np.random.default_rng(0)
    psi = virtual_valuation(LAW, LAW.rvs(SEARCHED, random_state=rng), check=False)
    fast, best = timed(lambda: procure_fast(psi, *SCALE))
    rows = [("procure_fast", fast, best), ("procure", *timed(lambda: procure(psi, *SCALE)))]
    for points in (101, 1001):
        searched = once(lambda points=points: gradient_and_grid(psi, *SCALE, largest_eta=2 * best.eta, points=points))
        rows.append((f"gradient, {points:,}", *searched))
    rows.append(("conic + search", *once(lambda: conic_search(psi, *SCALE))))
    least, most = min(row[2].loss for row in rows), best.epsilon.max()
    print(f"\nOptimal procurement, {SEARCHED:,} sellers, costs uniform on [1, 5], mu = sigma = 1, gamma = 0.01.")
    print(f"{'':16}{'seconds':>11}{'times':>9}{'loss':>20}{'rel. excess':>13}{'largest error of eps':>22}")
    for name, seconds, found in rows:
        error = np.abs(found.epsilon - best.epsilon).max() / most
        excess = found.loss / least - 1
        print(f"{name:16}{seconds:11.6f}{seconds / fast:9,.0f}{found.loss:20.15f}{excess:13.1e}{error:22.1e}")

    cap = 3 / SEARCHED
    capped, exact = timed(lambda: procure(psi, *SCALE, cap=cap))
    slow, found = once(lambda: conic_search(psi, *SCALE, cap=cap, starts=4))
    print(f"with the cap 3/m: procure {capped:.4f} s, conic + search (4 starts) {slow:.2f} s; ", end="")
    print(f"losses {exact.loss:.12f} and {found.loss:.12f}")

    print("\nGrowth of the exact solvers, and of all payments.")
    print(f"{'m':>11}{'fast s':>10}{'ns/m':>7}{'procure s':>11}{'ns/m':>7}{'cap 3/m s':>11}{'paid s':>10}{'ns/m':>9}")
    for m in tqdm(SIZES, desc="growth", leave=False, disable=not sys.stderr.isatty()):
        costs = LAW.rvs(m, random_state=rng)
        psi = virtual_valuation(LAW, costs, check=False)
        fast, best = timed(lambda psi=psi: procure_fast(psi, *SCALE), 0.2)
        scan, same = (timed if m <= REPEATED else once)(lambda psi=psi: procure(psi, *SCALE))
        assert abs(same.loss / best.loss - 1) < 1e-12
        line = f"{m:11,}{fast:10.5f}{1e9 * fast / m:7.0f}{scan:11.5f}{1e9 * scan / m:7.0f}"
        if m <= PAID:
            capped, _ = once(lambda psi=psi, m=m: procure(psi, *SCALE, cap=3 / m))
            paid, _ = once(lambda costs=costs: procurement_payments(costs, LAW, *SCALE))
            line += f"{capped:11.5f}{paid:10.5f}{1e9 * paid / m:9.0f}"
        print(line)
