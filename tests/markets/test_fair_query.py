"""FairQuery against its definition in a loop: no loss, no overspending. Truth is a best report:
beyond/market.md.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hdpm_lib.markets.fair_query import fair_query
from tests.support import generator

Array = np.ndarray


def by_definition(costs: Array, budget: float) -> tuple[Array, Array]:
    """The largest k for which the k cheapest agree to share the budget."""
    order = sorted(range(len(costs)), key=lambda i: (costs[i], i))
    n = len(costs)
    k = max([k for k in range(1, n) if costs[order[k - 1]] / (n - k) <= budget / k], default=0)
    epsilon = np.zeros(n)
    payments = np.zeros(n)
    for i in order[:k]:
        epsilon[i] = 1 / (n - k)
        payments[i] = min(budget / k, costs[order[k]] / (n - k))
    return epsilon, payments


@pytest.mark.parametrize("n", [1, 2, 3, 8, 40])
def test_it_is_what_is_printed(n: int) -> None:
    costs = np.round(generator(1740, n).uniform(0, 4, (50, n)), 1)  # with ties
    for budget in (0.01, 1.0, 10.0, 1e4):
        batch = fair_query(costs, budget)
        for row, *found in zip(costs, batch.privacy_loss, batch.payments, strict=True):
            np.testing.assert_allclose(found, by_definition(row, budget))
        assert (batch.payments >= costs * batch.privacy_loss - 1e-12).all()
    with pytest.raises(ValueError, match="costs must hold at least one seller"):
        fair_query(1.0, 1.0)


def test_payments_never_exceed_the_budget() -> None:
    """In exact arithmetic, and so in whatever order floats are added."""
    rng = generator(1741)
    spent = 0
    for trial in range(2000):
        n = int(rng.integers(2, 30)) if trial % 20 else 2000
        budget = float(rng.integers(1, 31)) if trial % 3 else rng.uniform(1e-3, 1e3)
        payments = fair_query(rng.uniform(0, 1, n) * rng.choice([1, 100]), budget).payments
        paid = sum(map(Fraction, payments.tolist()))
        assert paid <= Fraction(budget)
        assert max(payments.sum(), sum(payments.tolist())) <= budget
        spent += paid > Fraction(budget) * (1 - Fraction(1, 10**11))
    assert spent > 200
