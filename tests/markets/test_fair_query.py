"""FairQuery against its definition in a loop, and the promises of its authors: truth, no loss, no overspending."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hdpm_lib.markets.fair_query import fair_query
from hdpm_lib.markets.incentives import reports_to_try, search_misreports
from tests.support import generator

Array = np.ndarray


def by_definition(costs: Array, budget: float) -> tuple[Array, Array]:
    """The largest k for which the k cheapest agree to share the budget."""
    order, n = sorted(range(len(costs)), key=lambda i: (costs[i], i)), len(costs)
    k = max([k for k in range(1, n) if costs[order[k - 1]] / (n - k) <= budget / k], default=0)
    epsilon, payments = np.zeros(n), np.zeros(n)
    for i in order[:k]:
        epsilon[i] = 1 / (n - k)
        payments[i] = min(budget / k, costs[order[k]] / (n - k))
    return epsilon, payments


@pytest.mark.parametrize("n", [1, 2, 3, 8, 40])
def test_it_is_what_is_printed(n: int) -> None:
    rng = generator(1740, n)
    costs = np.round(rng.uniform(0, 4, (50, n)), 1)  # with ties
    for budget in (0.01, 1.0, 10.0, 1e4):
        batch = fair_query(costs, budget)
        for i, row in enumerate(costs):
            epsilon, payments = by_definition(row, budget)
            np.testing.assert_allclose(batch.privacy_loss[i], epsilon)
            np.testing.assert_allclose(batch.payments[i], payments)
        assert (batch.payments.sum(-1) <= budget * (1 + 1e-12)).all()
        assert (batch.payments >= costs * batch.privacy_loss - 1e-12).all()


def largest_gain(rule: Callable[[Array], tuple[Array, Array]]) -> float:
    """Of any seller by any of some 400 reports, in eight markets of six sellers."""
    gains = []
    for seed in range(8):
        truth = generator(1741, seed).uniform(0.5, 4, 6)
        gains.append(search_misreports(rule, truth, reports_to_try(truth, 8.0, grid=401)).gain.max())
    return float(max(gains))


def test_truth_is_a_best_report() -> None:
    def rule(costs: Array) -> tuple[Array, Array]:
        sale = fair_query(costs, 3.0)
        return sale.privacy_loss, sale.payments

    def paid_as_reported(costs: Array) -> tuple[Array, Array]:
        epsilon = fair_query(costs, 3.0).privacy_loss
        return epsilon, costs * epsilon

    assert largest_gain(rule) <= 1e-9
    assert largest_gain(paid_as_reported) > 0.01


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="budget"):
        fair_query([1.0, 2.0], 0.0)
    with pytest.raises(ValueError, match="costs"):
        fair_query([-1.0, 2.0], 1.0)


def test_a_single_cost_is_no_market() -> None:
    with pytest.raises(ValueError, match="costs must hold at least one seller"):
        fair_query(1.0, 1.0)
