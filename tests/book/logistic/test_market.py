"""The searches of the page on the optimal procurement object to mechanisms that are broken on purpose."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hdpm_book.logistic import market
from hdpm_lib.markets.costs import virtual_valuation
from hdpm_lib.markets.procurement import Procurement, procure
from hdpm_lib.markets.procurement_payments import Purchase, procurement_payments

LAWS = market.LAWS


def paid_virtual_costs(costs: Any, law: Any, *scale: float) -> Purchase:
    """Virtual cost times what is bought."""
    deal = procurement_payments(costs, law, *scale)
    return replace(deal, payments=virtual_valuation(law, costs, check=False) * deal.epsilon)


def paid_too_little(costs: Any, law: Any, *scale: float) -> Purchase:
    """A hundredth less than the cost: everybody loses, and on average virtual costs are not paid."""
    deal = procurement_payments(costs, law, *scale)
    return replace(deal, payments=0.99 * np.asarray(costs) * deal.epsilon)


def weights_off(psi: Any, *scale: float, **cap: Any) -> Procurement:
    """A little more weight for the last seller."""
    best = procure(psi, *scale, **cap)
    weights = best.weights + 1e-6 * (np.arange(len(best.weights)) == len(best.weights) - 1)
    return replace(best, weights=weights / weights.sum())


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
    monkeypatch.setattr(market, "procurement_payments", payments)
    assert not market.misreports().truthful


def test_payments_of_another_mean_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(market, "procurement_payments", paid_too_little)
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
