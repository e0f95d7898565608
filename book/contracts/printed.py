"""Temporary: Algorithm 1 as printed, for the module of the page on mechanisms; the page on allocations has it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from hdpm_book.contracts.study import unbiased_contract, unbiased_pricing  # noqa: F401
from hdpm_lib.markets.outcome import Contract


def algorithm1(valuations: ArrayLike, max_mse: float, *, power: float, go_to: str = "line 6") -> Contract:
    """The printed search, as in a cell of the page on allocations."""
    v, K = np.asarray(valuations, dtype=float), max_mse
    n, order, p = len(v), np.argsort(v), 1 / (power - 1)
    v = v[order]
    best, best_scale = np.ones(n), math.sqrt(K / 2)
    least = v.sum() / best_scale**power
    for i in range(int(n - 2 * math.sqrt(K)) + 1, n + 1):
        for j in range(i + 1):
            a = np.zeros(n)
            a[:j] = 1
            if j < i:
                ratios = (v[j] / v[j:i]) ** p
                x = ((n - j) ** 2 - 4 * K) / (ratios.sum() * (n - j))
                if not 0 <= x <= 1:
                    if go_to == "line 5":
                        break
                    continue
                a[j:i] = ratios * x
            variance = K - ((1 - a).sum() / 2) ** 2
            if variance > 0:
                b = math.sqrt(variance / 2)
                cost = float(v @ a**power / b**power)
                if cost < least:
                    best, best_scale, least = a, b, cost
    back = best[np.argsort(order)]
    return Contract(back / best_scale, cost=np.asarray(least), shares=back, scale=np.asarray(best_scale))
