"""The searches of the page on the optimal procurement object to mechanisms that are broken on purpose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hdpm_book.logistic import market
from hdpm_lib.markets.costs import virtual_valuation
from hdpm_lib.markets.outcome import Purchase
from hdpm_lib.markets.procurement import procure
from hdpm_lib.markets.procurement_auction import procurement_auction

LAWS = market.LAWS


def paid_virtual_costs(costs: Any, law: Any, *scale: float) -> Purchase:
    """Virtual cost times what is bought."""
    deal = procurement_auction(costs, law, *scale)
    return replace(deal, payments=virtual_valuation(law, costs, check=False) * deal.privacy_loss)


def paid_too_little(costs: Any, law: Any, *scale: float) -> Purchase:
    """A hundredth less than the cost: everybody loses, and on average virtual costs are not paid."""
    deal = procurement_auction(costs, law, *scale)
    return replace(deal, payments=0.99 * np.asarray(costs) * deal.privacy_loss)


def weights_off(psi: Any, *scale: float, **cap: Any) -> Purchase:
    """A little more weight for the last seller."""
    best = procure(psi, *scale, **cap)
    weights = best.weights + 1e-6 * (np.arange(len(best.weights)) == len(best.weights) - 1)
    weights /= weights.sum()
    return replace(best, weights=weights, privacy_loss=weights * best.eta)


@pytest.fixture(autouse=True)
def one_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(market, "LAWS", {"uniform": market.PAPER_LAW})


def test_virtual_costs_rise_under_the_laws_of_the_page() -> None:
    """And not under the law that the page names."""

    def rises(law: Any) -> bool:
        c = np.linspace(*law.support(), 1002)[:-1]
        return bool((np.diff(virtual_valuation(law, c, check=False)) > 0).all())

    assert len(LAWS) == 4 and all(map(rises, LAWS.values()))
    assert not rises(stats.beta(0.3, 0.3))


def test_truthful_payments_pass() -> None:
    assert market.misreports().truthful
    found = market.identity()
    assert found.worst < found.limit


@pytest.mark.parametrize("payments", [paid_virtual_costs, paid_too_little])
def test_broken_payments_are_found(payments: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(market, "procurement_auction", payments)
    assert not market.misreports().truthful


def test_payments_of_another_mean_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(market, "procurement_auction", paid_too_little)
    found = market.identity()
    assert found.worst > found.limit


def test_payment_across_a_jump() -> None:
    """By values and by integrals on either side; the purchase does fall there."""
    found = market.jump()
    assert found.after < found.before / 2
    assert found.by_values == pytest.approx(found.by_integral, rel=1e-6)


def test_wrong_purchases_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert market.solved(8).equations < 1e-12
    monkeypatch.setattr(market, "procure", weights_off)
    found = market.solved(8)
    assert min(found.equations, found.conditions) > 1e-12


def test_an_algorithm_2_that_looks_at_the_records_is_found() -> None:
    """The check of J's order of events is about what is offered, not about names of arguments."""
    data = market.records()

    def offered(gamma: Callable[[market.Records], float]) -> float:
        def deal(records: market.Records) -> Any:
            return procurement_auction(records.costs, market.PAPER_LAW, 1.0, 100.0, gamma(records)).payments

        before, after = market.sold_with_labels(deal, data)
        return float(np.abs(after - before).max())

    assert offered(lambda records: 0.01) == 0
    assert offered(lambda records: 0.01 * (1 + (records.y > 0).mean())) > 0  # tuned with the labels in view


def test_first_order_conditions_are_those_of_the_problem_without_the_cap() -> None:
    assert market.solved(8).conditions < 1e-12
    found = market.capped(20)
    assert len(found.conditions) == found.binds > 0 and found.conditions.min() > 1e-3
