"""The page on one market: conditions object to other purchases, payments are integrals."""

from __future__ import annotations

import numpy as np
import pytest

from hdpm_book.beyond import incentives, market
from hdpm_lib.markets import contracts, error_minimising, procurement
from hdpm_lib.markets.payments import envelope_payments


def test_conditions_object_to_other_purchases(monkeypatch: pytest.MonkeyPatch) -> None:
    assert market.purchases(5)["to 1e-12"].all()
    plain = procurement.procure
    least = error_minimising.error_minimising
    cheapest = contracts.least_cost_contract
    monkeypatch.setattr(market, "procure", lambda psi, *more: plain(1.01 * psi, *more))
    monkeypatch.setattr(
        market, "error_minimising", lambda psi, v, *more: least(psi, 1.01 * v, *more)
    )
    monkeypatch.setattr(
        market, "least_cost_contract", lambda costs, K, power: cheapest(costs**1.01, K, power=power)
    )
    monkeypatch.setattr(
        market,
        "least_error_weights",
        lambda eps, sizes: sizes / sizes.sum() * 0.99 + 0.01 / len(sizes),
    )
    wrong = market.purchases(5)["to 1e-12"]
    assert not wrong.drop("ridge, PDP-OP").any()


def test_identity_objects_to_another_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    assert market.identity(20).difference < 1e-12
    plain = market.linear_query
    monkeypatch.setattr(market, "linear_query", lambda shares, scale: plain(0.99 * shares, scale))
    found = market.identity(20)
    assert found.difference > 1e-6 and found.losses > 1e-6


@pytest.mark.parametrize("buy", [incentives.least_error, incentives.algorithm2, incentives.menu])
def test_payments_are_those_of_quadrature(buy: incentives.Purchase) -> None:
    """Four sellers; the envelope integral over [cost, 5] to 1e-9 against a difference of least
    values.
    """
    costs = 1 + 4 * np.random.default_rng(5).random(4)
    gamma = incentives.penalty(buy, costs[None])
    epsilon, payments = incentives.truthful(buy, gamma, costs)(costs[None])
    if buy is not incentives.menu:  # whose sellers sell much or nothing
        assert (2 * costs - 1) @ epsilon[0] == pytest.approx(incentives.BUDGET)
    by_quadrature = envelope_payments(
        costs, incentives.TOP, lambda c: buy(2 * c - 1, gamma)[0], tolerance=1e-7
    )
    np.testing.assert_allclose(payments[0], by_quadrature, rtol=1e-5, atol=1e-6)


def test_liars_are_paid_what_truthful_sellers_of_that_cost_are() -> None:
    costs = 1 + 4 * np.random.default_rng(6).random(6)
    gamma = incentives.penalty(incentives.least_error, costs[None])
    lie = costs.copy()
    lie[2] = 1.5
    _, paid = incentives.truthful(incentives.least_error, gamma, costs)(lie[None])
    _, honest = incentives.truthful(incentives.least_error, gamma, lie)(lie[None])
    assert paid[0, 2] == pytest.approx(honest[0, 2])
