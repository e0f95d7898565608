"""FairQuery against its definition in a loop, and the promises of its authors: truth, no loss, no overspending."""

from __future__ import annotations

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


def test_truth_is_a_best_report() -> None:
    """No seller gains by any of some 400 reports, in eight markets of six; paid as they report they would."""

    def gain(seed: int, as_reported: bool) -> float:
        def rule(costs: Array) -> tuple[Array, Array]:
            sale = fair_query(costs, 3.0)
            return sale.privacy_loss, costs * sale.privacy_loss if as_reported else sale.payments

        truth = generator(1741, seed).uniform(0.5, 4, 6)
        return float(search_misreports(rule, truth, reports_to_try(truth, 8.0, grid=401)).gain.max())

    assert max(gain(seed, False) for seed in range(8)) <= 1e-9
    assert gain(0, True) > 0.01


def test_a_single_cost_is_no_market() -> None:
    with pytest.raises(ValueError, match="costs must hold at least one seller"):
        fair_query(1.0, 1.0)
