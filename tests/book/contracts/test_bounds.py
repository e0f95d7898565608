"""Lower bounds against linear programs over all algorithms, all groups, and the best answers that
are known.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from hdpm_book.contracts import study
from tests.support import generator

# of n^2 / 4
FRACTIONS = np.concatenate([np.geomspace(1e-6, 0.5, 500), 1 - np.geomspace(1e-6, 0.5, 500)])


@pytest.mark.parametrize("n", [1, 2, 10, 1000])
def test_order_of_the_totals(n: int) -> None:
    """Theorem 1 < all groups < bias and staircase <= biased Laplace < unbiased Laplace, at each
    accuracy.
    """
    K = FRACTIONS * n**2 / 4
    plain, biased, stairs, groups, printed = study.loss_curves(n, K).values()
    np.testing.assert_allclose(plain, n * np.sqrt(2 / K))
    np.testing.assert_allclose(printed, np.log((n - np.sqrt(K)) ** 2 / K), rtol=1e-8)
    assert (printed > 0).all() and (printed < groups).all() and (groups < stairs).all()
    assert (stairs < biased * (1 + 1e-9)).all() and (biased < plain).all()
    for bound in (study.total_loss_bound, study.least_total_loss, study.staircase_loss):
        assert (bound(n, n**2 / 4 * np.array([1, 1 + 1e-9, 4, 1e9])) == 0).all()


def test_best_group_is_found() -> None:
    """Against all sizes of a group, also where 2 sqrt K is whole; far out there is no overflow."""
    for n in (1, 2, 3, 7, 40):
        m = np.arange(1, n + 1)
        for K in np.r_[n**2 / 4 * FRACTIONS[::20], (m / 2) ** 2, 1e-99]:
            every = n / m * study.group_loss_bound(m, K)
            assert study.least_total_loss(n, K) == pytest.approx(every.max(), rel=1e-12)
    assert study.group_loss_bound(1e99, 1e-99) == pytest.approx(3 * math.log(1e99))
    assert study.least_total_loss(10**9, 1e-99) == pytest.approx(1e9 * math.log(1e99), rel=1e-6)
    assert 2 * np.arccosh(1e9) == pytest.approx(float(study.group_loss_bound(2e9, 1.0)), rel=1e-15)


def best_error(losses: tuple[float, ...], outputs: np.ndarray) -> float:
    """Least worst error, over databases of bits, of any law on these outputs with these losses: a
    linear program.
    """
    n = len(losses)
    k = len(outputs)
    databases = list(itertools.product((0, 1), repeat=n))
    at = {d: slice(i * k, (i + 1) * k) for i, d in enumerate(databases)}
    rows = []
    for d, j in itertools.product(databases, range(n)):
        ratio = np.zeros((k, len(databases) * k + 1))
        ratio[:, at[d]] = np.eye(k)
        ratio[:, at[tuple(b ^ (i == j) for i, b in enumerate(d))]] = -math.exp(losses[j]) * np.eye(
            k
        )
        rows.append(ratio)
    error, sums = np.zeros((2, len(databases), len(databases) * k + 1))
    for i, d in enumerate(databases):
        error[i, at[d]], sums[i, at[d]] = (outputs - sum(d)) ** 2, 1
    error[:, -1] = -1
    A = np.vstack([*rows, error])
    right = np.zeros(len(databases) * (n * k + 1))
    cost = np.eye(error.shape[1])[-1]
    return float(
        optimize.linprog(cost, A, right, sums, np.ones(len(databases)), method="highs").fun
    )


def test_no_algorithm_on_bits_is_below() -> None:
    """Neither in a group nor in all; the bound is attained by some."""
    rng = generator(75)
    near = []
    for n, i in [*itertools.product([1, 3], range(7)), *itertools.product([2], range(12))]:
        each = 10 ** rng.uniform(-1, 0.8)
        losses = np.full(n, each) if i % 2 else each * rng.dirichlet(np.ones(n)) * n
        # for one bit the two outputs of the proof are among them
        p = 1 / (1 + math.exp(-losses.sum()))
        outputs = np.unique(np.r_[np.linspace(0, n, 8 * n + 1), n * p, n * (1 - p)])
        K = best_error(tuple(losses), outputs)
        groups = [
            group for size in range(1, n + 1) for group in itertools.combinations(losses, size)
        ]
        near.append(
            max(float(study.group_loss_bound(len(group), K)) / sum(group) for group in groups)
        )
        assert sum(losses) > study.least_total_loss(n, K) * (1 - 1e-6)
    assert 0.9999 < max(near) <= 1 + 1e-6


@pytest.mark.parametrize("eps", [0.03, 0.5, 1.0, 4.0, 15.0])
def test_staircase_variance(eps: float) -> None:
    """The least of all densities that fall by the factor exp(eps) at the first step and at each
    unit after it.
    """
    height = np.exp(-eps * np.arange(4000))

    def log_variance(log_gamma: float) -> Any:
        ends = np.r_[0, math.exp(log_gamma) + np.arange(4000)]
        return math.log(height @ np.diff(ends**3) / 3 / (height @ np.diff(ends)))

    least = optimize.minimize_scalar(
        log_variance, bounds=(-eps - 1, 0), method="bounded", options={"xatol": 1e-10}
    )
    assert study.log_staircase_mse(np.array(eps)) == pytest.approx(least.fun, abs=1e-8)


def test_bias_and_staircase_meet_the_accuracy() -> None:
    for n, part in itertools.product((1, 3, 40), (1e-12, 1e-3, 0.4, 0.99)):
        K = part * n**2 / 4
        V = np.exp(study.log_staircase_mse(study.staircase_loss(n, K)))
        shares = np.linspace(0, 1, 20_001)
        assert (n**2 * (1 - shares) ** 2 / 4 + shares**2 * V).min() == pytest.approx(K, rel=1e-3)
    assert study.staircase_loss(5, 1e-99) == pytest.approx(1.5 * math.log(1e99), rel=0.01)
