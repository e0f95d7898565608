"""M2 costs at most M1 whatever the valuations, for quadratic costs from `K_n` on: each step of the
proof, and the end.

The proof is on the page `contracts/beyond`. It climbs from any valuations to all at the top, or to
two capped sellers.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from hdpm_lib.markets.contracts import least_cost_contract
from hdpm_lib.markets.mechanisms import equal_loss_pricing, pivot_costs
from tests.support import generator

SLACK = 1e-9  # relative; rounding stays below it


def threshold(n: int) -> float:
    return n * (n - 1) * (n - 2) / (4 * (n + 1))


def m2(v: np.ndarray, K: float) -> np.ndarray:
    """Total payment for valuations up to 1; continuous, so also where sellers at 0 just reach the
    accuracy alone.
    """
    pivots = pivot_costs(v, K, 1.0, power=2).sum(-1)
    return pivots - (v.shape[-1] - 1) * least_cost_contract(v, K, power=2).cost


def m1(n: int, K: float) -> float:
    return float(equal_loss_pricing(np.ones(n), K, 1.0, power=2).payments.sum())


def profiles(n: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Valuations in (0, 1]: spread out, crowded at 0, tied, at the ends, and all but three at the
    top.
    """
    few = np.ones((count, n))
    few[:, : min(n, 3)] = 10 ** rng.uniform(-4, 0, few[:, :3].shape)
    found = [
        rng.random((count, n)),
        10 ** rng.uniform(-6, 0, (count, n)),
        rng.integers(1, 4, (count, n)) / 3,
        np.where(rng.random((count, n)) < rng.random((count, 1)), 1e-9, 1.0),
        few,
    ]
    return np.maximum(rng.permuted(np.concatenate(found), axis=-1), 1e-9)


def climb(v: np.ndarray, K: float) -> list[np.ndarray]:
    """The path of the proof.

    The dearest seller below the top goes to the top until two are left; the cheaper of these rises
    to the other, or to where both are capped; if they meet, both go to the top.
    """
    path = [v := np.sort(v)]
    n = v.shape[-1]
    for k in range(n - 1, 1, -1):
        path.append(v := np.where(np.arange(n) == k, 1.0, v))
    low = v[:, 0]
    high = v[:, 1]
    with np.errstate(divide="ignore"):
        # there the threshold is at `high`
        capped_from = high * (4 * K / ((n - 2) * (1 - high)) - (n - 1))
    path.append(v := np.c_[np.clip(capped_from, low, high), v[:, 1:]])
    path.append(np.where((capped_from > high)[:, None] & (np.arange(n) < 2), 1.0, v))
    return path


@pytest.mark.parametrize("n", [3, 4, 5, 7, 10, 12])
def test_each_step_of_the_climb(n: int) -> None:
    rng = generator(91, n)
    least = threshold(n)
    for part in (1e-9, 1e-3, *rng.uniform(0, 0.98, 4)):
        K = least + part * (n**2 / 4 - least)
        v = profiles(n, 20, rng)
        top = m1(n, K)
        assert (least_cost_contract(v, K, power=2).shares == 1).sum(-1).max() <= 3
        assert (m2(v, K) <= top * (1 + SLACK)).all()
        path = climb(v, K)
        for start, end in pairwise(path):
            legs = np.array([m2(start + t * (end - start), K) for t in (0, 0.25, 0.5, 0.75, 1)])
            assert (np.diff(legs, axis=0) >= -SLACK * top).all()
        pair = (least_cost_contract(path[-1], K, power=2).shares[:, :2] > 1 - SLACK).all(-1)
        assert ((path[-1] == 1).all(-1) | pair).all() and (
            m2(path[-1], K) <= top * (1 + SLACK)
        ).all()
    for K in least * np.array([0.999, 0.99, 0.5]):  # below it two at 0 break the order
        assert m2(np.r_[0.0, 0.0, np.ones(n - 2)], K) > m1(n, K) * (1 + 1e-6)
