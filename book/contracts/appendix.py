"""What the page :doc:`/book/contracts/appendix` runs: long checks of the contract chapter."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hdpm_book.contracts.printed import algorithm1
from hdpm_book.contracts.study import POWERS, largest_ratio, order_threshold
from hdpm_lib.markets.contracts import least_cost_contract

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GridCheck:
    """The least-cost contract against all shares on a grid."""

    markets: int
    better: int  # markets in which the grid has a lower cost
    worse: float  # by how much its best cost is above the least, at most


def grid_check(markets: int = 60) -> GridCheck:
    """Two or three sellers, every combination of shares."""
    rng, over = np.random.default_rng(2), []
    for trial in range(markets):
        n, power = 2 + trial % 2, POWERS[trial % 4]
        v, K = rng.random(n), n**2 / 4 * rng.uniform(0.05, 0.95)
        shares = np.stack(np.meshgrid(*[np.linspace(0, 1, 201 if n == 2 else 41)] * n), -1)
        spare = K - ((1 - shares).sum(-1) / 2) ** 2
        keep = spare > 0
        cost = (v * shares[keep] ** power).sum(-1) / (spare[keep] / 2) ** (power / 2)
        over.append(float(cost.min() / least_cost_contract(v, K, power=power).cost - 1))
    return GridCheck(markets, int((np.array(over) < -1e-12).sum()), max(over))


def corners() -> pd.DataFrame:
    """The least-cost contract in borderline markets."""
    cases = {
        "equal valuations, r = 1": ([1.0, 1, 1, 4], 1.0, 1),
        "two ask nothing, r = 2": ([0.0, 0, 3, 5, 9], 1.0, 2),
        "they suffice": ([0.0, 0, 3], 0.4, 2),
        "they suffice in the limit": ([0.0, 0, 3], 0.25, 2),
        "nobody is needed": ([1.0, 2, 3], 3.0, 2),
    }
    rows = {}
    for name, (v, K, power) in cases.items():
        one = least_cost_contract(v, K, power=power)
        losses = " ".join(f"{loss:.2f}" for loss in one.privacy_loss)
        rows[name] = {"scale": f"{one.scale:.2f}", "cost": f"{one.cost:.2f}", "losses": losses}
    return pd.DataFrame(rows).T


def timings() -> pd.DataFrame:
    """Seconds of the exact solver (median of five) and of Algorithm 1, by the number of sellers; K = n^2/16."""
    rows = {}
    for n in (30, 100, 300, 10_000, 100_000):
        v, seconds = np.random.default_rng(n).random(n), []
        for _ in range(5):
            start = time.perf_counter()
            least_cost_contract(v, n**2 / 16, power=2)
            seconds.append(time.perf_counter() - start)
        start = time.perf_counter()
        if n <= 300:
            algorithm1(v, n**2 / 16, power=2)
        spent = f"{1000 * (time.perf_counter() - start):.1f} ms" if n <= 300 else "not run"
        rows[f"{n:,}"] = {"exact solver": f"{1000 * np.median(seconds):.2f} ms", "Algorithm 1": spent}
    return pd.DataFrame(rows).T.rename_axis("sellers")


def other_powers(rng: np.random.Generator) -> pd.DataFrame:
    """Largest M2 / M1 found just below and just above the accuracy at which two sellers at 0 break the order."""
    rows = {}
    for r in (1, 1.2, 1.5, 2, 3):
        row = {}
        for n in (3, 10):
            root = order_threshold(n, r)
            row[f"n = {n}: root"] = f"{root:.4g}"
            for name, part in (("below", 0.99), ("above", 1.001)):
                row[f"n = {n}: {name}"] = f"{largest_ratio(n, part * root, r, rng):.4f}"
        rows[f"r = {r}"] = row
    return pd.DataFrame(rows).T
