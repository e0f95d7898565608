"""Shapley values of private records: all coalitions against all orders, a sample against both, the
axioms, a closed form; and payments by them.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import pytest

from hdpm_book.beyond import incentives, market, shapley
from tests.support import generator

Array = np.ndarray


def losses(n: int, seed: int = 0) -> Array:
    return generator(800 + seed).uniform(0.05, 3, n)


def test_all_coalitions_are_all_orders() -> None:
    epsilon = losses(5)
    added = np.zeros(5)
    for order in permutations(range(5)):
        before = 0.0
        for k in range(5):
            come = epsilon[list(order[: k + 1])]
            after = float(shapley.fall_of_error(come.sum(), (come**2).sum()))
            added[order[k]] += (after - before) / 120
            before = after
    np.testing.assert_allclose(shapley.exact_values(epsilon), added, rtol=1e-12)


@pytest.mark.parametrize("n", [2, 7, 13])
def test_sample_is_within_its_standard_error(n: int) -> None:
    epsilon = losses(n)
    exact = shapley.exact_values(epsilon)
    found = shapley.sampled_values(epsilon, shapley.random_circles(300, n, generator(n)))
    # two sellers in both directions: no error is left
    slack = 5 * found.standard_errors + 1e-12
    assert (np.abs(found.values - exact) <= slack).all()
    assert n == 2 or (found.standard_errors > 1e-5 * exact).all()
    assert (found.standard_errors < 0.02 * exact).all()


def test_worth_is_the_fall_of_the_error() -> None:
    epsilon = losses(6)
    task = market.TASK
    spread = (task.variance * (epsilon**2).sum() + task.noise) / epsilon.sum() ** 2
    error = task.distance * spread / (task.distance + spread)
    worth = float(shapley.fall_of_error(epsilon.sum(), (epsilon**2).sum()))
    assert worth == pytest.approx(task.distance - error, rel=1e-12)
    assert shapley.error_of(epsilon) == pytest.approx(np.sqrt(error), rel=1e-12)


def test_axioms() -> None:
    epsilon = np.append(losses(8), [0.7, 0.7, 0.0])

    def other(total: Array, squares: Array) -> Array:
        return np.log1p(total) + squares

    def both(total: Array, squares: Array) -> Array:
        return shapley.fall_of_error(total, squares) + 3 * other(total, squares)

    circles = shapley.random_circles(5, len(epsilon), generator(3))
    for values_of in (
        lambda worth: shapley.exact_values(epsilon, worth),
        lambda worth: shapley.sampled_values(epsilon, circles, worth).values,
    ):
        values = values_of(shapley.fall_of_error)
        all_together = float(shapley.fall_of_error(epsilon.sum(), (epsilon**2).sum()))
        assert values.sum() == pytest.approx(all_together, rel=1e-12)  # efficiency
        assert values[-1] == 0  # a null player
        added = values + 3 * values_of(other)
        np.testing.assert_allclose(values_of(both), added, rtol=1e-10, atol=1e-14)  # additivity
    values = shapley.exact_values(epsilon)
    assert values[8] == pytest.approx(values[9], rel=1e-12)  # symmetry
    rng = generator(4)
    order = rng.permutation(len(epsilon))
    np.testing.assert_allclose(shapley.exact_values(epsilon[order]), values[order], rtol=1e-12)


def test_closed_forms() -> None:
    epsilon = losses(9)

    def square(total: Array, squares: Array) -> Array:
        return total**2

    closed = epsilon * epsilon.sum()  # every pair shares what it adds
    np.testing.assert_allclose(shapley.exact_values(epsilon, square), closed, rtol=1e-12)
    found = shapley.sampled_values(
        epsilon, shapley.random_circles(2, 9, generator(5)), square
    ).values
    np.testing.assert_allclose(found, closed, rtol=1e-12)  # both directions are exact
    # where noise outweighs all else the worth is this square: one price for a unit of loss
    little = 1e-4 * epsilon
    values = shapley.exact_values(little)
    np.testing.assert_allclose(values / values.sum(), epsilon / epsilon.sum(), rtol=1e-5)
    # equal losses are paid alike
    equal = shapley.exact_values(np.full(6, 1.3))
    np.testing.assert_allclose(equal, equal.mean(), rtol=1e-12)


def test_payments_are_the_budget_shared_by_value() -> None:
    costs = incentives.draws()[0]
    keys = generator(6).random((200, incentives.SELLERS))
    sold, payments = (part[0] for part in shapley.shares(keys)(costs[None]))
    sells = sold > 0
    assert 10 < sells.sum() <= 17
    values = shapley.exact_values(sold[sells])
    exact = incentives.BUDGET * values / values.sum()
    assert payments.sum() == pytest.approx(incentives.BUDGET, rel=1e-12)
    assert (payments[~sells] == 0).all()
    np.testing.assert_allclose(payments[sells], exact, rtol=0.02)


def test_a_record_under_two_names_counts_once() -> None:
    losses = np.array([0.5, 1.0, 0.5])
    one = shapley.error_of(losses, np.array([0, 1, 0]))
    assert one == pytest.approx(shapley.error_of(np.array([1.0, 1.0])), rel=1e-12)
    assert one > shapley.error_of(losses)


def test_row_is_the_auction_with_the_whole_budget() -> None:
    table = pd.DataFrame(
        {"error": [0.02, 0.03], "money": [99.5, 100.5], "rents": [20.0, 30.0]},
        index=[shapley.AUCTION, "Algorithm 2"],
    )
    longer = shapley.with_row(table, 100.0)
    assert longer.index.tolist() == [shapley.AUCTION, shapley.NAME, "Algorithm 2"]
    row = longer.loc[shapley.NAME]
    assert row["error"] == 0.02 and row["money"] == 100.0
    assert row["money"] - row["rents"] == pytest.approx(79.5, rel=1e-12)
