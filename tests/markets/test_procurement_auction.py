"""Payments for bought privacy against quadrature of new optima. Against lies and on average:
logistic/market.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from hdpm_lib.markets import costs, quadrature
from hdpm_lib.markets import procurement_auction as module
from hdpm_lib.markets.costs import ironed_virtual_valuation, virtual_valuation
from hdpm_lib.markets.incentives import search_misreports
from hdpm_lib.markets.payments import step_payments
from hdpm_lib.markets.procurement import procure
from hdpm_lib.markets.procurement_auction import procurement_auction
from tests.support import generator

UNIT = math.exp(-4)


class Rising(stats.rv_continuous):
    """A density that rises like exp(2x), so that the virtual cost is concave."""

    def _cdf(self, x: Any) -> Any:
        return np.expm1(2 * x) / np.expm1(2)

    def _pdf(self, x: Any) -> Any:
        return 2 * np.exp(2 * x) / np.expm1(2)


LAWS = {
    "the paper's uniform law": stats.uniform(UNIT, 4 * UNIT),
    "uniform from 0": stats.uniform(0, 4),
    "power": stats.beta(3, 1),
    "beta": stats.beta(2, 2),
    "truncated exponential": stats.truncexpon(3),
    "rising": Rising(a=0, b=1)(),
}
AFFINE = list(LAWS)[:3]
SCALES = [(1.0, 1.0, 1.0), (1.0, 1.0, 0.01), (10.0, 100.0, 0.01)]


def by_quadrature(
    law: Any,
    c: np.ndarray,
    i: int,
    scale: tuple[float, ...],
    cap: float | None = None,
    breaks: Sequence[float] = (),
) -> float:
    """Own cost plus the integral over one's own report of what a new optimum buys; a cell of a grid
    at a time.
    """

    def bought(z: float) -> float:
        psi = virtual_valuation(law, np.where(np.arange(len(c)) == i, z, c), check=False)
        return float(procure(psi, *scale, cap=cap).privacy_loss[i]) if np.isfinite(psi[i]) else 0.0

    accuracy = 1e-9 if breaks else 1e-7
    edges = np.sort([*np.linspace(c[i], law.support()[1], 9), *breaks])
    cells = [
        integrate.quad(bought, a, b, epsabs=1e-9, epsrel=accuracy, limit=60)[0]
        for a, b in pairwise(edges)
    ]
    return float(c[i]) * bought(float(c[i])) + sum(cells)


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("capped", [False, True])
def test_payments_are_the_envelope_integral(name: str, capped: bool) -> None:
    rng = generator(80)
    law = LAWS[name]
    markets = [(2, SCALES[0]), (6, SCALES[1]), (12, SCALES[2])]
    if name not in AFFINE:  # a new optimum for every point of an integral
        markets = [(3, SCALES[2])] if capped else [(2, SCALES[0])]
    for m, scale in markets:
        c = law.rvs(m, random_state=rng)
        cap = 1.6 / m if capped else None
        paid = procurement_auction(c, law, *scale, cap=cap)
        i = int(rng.choice(np.flatnonzero(paid.privacy_loss > 0)))
        assert paid.payments[i] == pytest.approx(by_quadrature(law, c, i, scale, cap), rel=2e-6)
        assert (paid.payments[paid.privacy_loss == 0] == 0).all()


def test_nothing_is_bought_at_an_infinite_virtual_cost() -> None:
    law = stats.beta(2, 2)
    alone = procurement_auction([0.2, 0.3], law, 1.0, 1.0, 1.0)
    beside = procurement_auction([0.2, 1.0, 0.3], law, 1.0, 1.0, 1.0)
    assert beside.payments[1] == beside.privacy_loss[1] == 0
    assert beside.payments[[0, 2]] == pytest.approx(alone.payments, rel=1e-12)


def test_what_the_error_of_an_irregular_law_advises(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ironed virtual costs, and payments by steps: nobody gains by a lie."""
    monkeypatch.setattr(costs, "RESOLUTION", 60)
    law = stats.beta(0.5, 0.5)
    c = np.array([0.1, 0.5, 0.83])

    def sold(reports: np.ndarray) -> np.ndarray:
        rows = ironed_virtual_valuation(law, reports)
        return np.array([procure(psi, 1.0, 10.0, 0.1).privacy_loss for psi in rows])

    def outcome(reports: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return sold(reports), np.array([step_payments(row, edges, sold) for row in reports])

    edges = law.ppf(np.linspace(0, 1, costs.RESOLUTION + 1))
    found = search_misreports(outcome, c, [np.linspace(0.05, 0.99, 4)] * 3, refine=False)
    assert found.relative_gain < 1e-9 and (found.utility > -1e-9).all()


@pytest.mark.parametrize("m", [1, 2, 5, 30, 455])
@pytest.mark.parametrize("capped", [None, "fraction", "whole"])
def test_optima_after_changes_are_new_optima(m: int, capped: str | None) -> None:
    """Also at ties, where the seller just leaves, and with caps that fill the sum exactly."""
    rng = generator(81, m)
    for trial in range(25):
        psi = [
            rng.uniform(UNIT, 9 * UNIT, m),
            rng.exponential(1, m) + 1e-6,
            rng.choice([1e-3, 1.0], m),
            rng.integers(1, 4, m).astype(float),
            rng.random(m) ** 4 + 1e-4,
        ][trial % 5]
        scale = tuple(10 ** rng.uniform(-1.5, 1.5, 3))
        cap = {"fraction": min(1.0, rng.uniform(1, 4) / m), "whole": 1 / rng.integers(1, m + 1)}
        top = None if capped is None else float(cap[capped])
        truth = procure(psi, *scale, cap=top)
        dearest = float(psi.max()) * 10 ** rng.uniform(0, 2)
        optima = module._Optima.of(psi, truth, scale, top, dearest)
        i = rng.choice(np.flatnonzero(truth.weights > 0), 6)
        own = psi[i] * 10 ** rng.uniform(0, 2, 6)
        own[:3] = psi[i[0]], max(psi[i[1]], np.sort(psi)[m // 2]), max(psi[i[2]], truth.cutoff)
        own = np.minimum(own, dearest)
        found = optima(psi[i], own)
        for k, seller in enumerate(i):
            changed = np.where(np.arange(m) == seller, own[k], psi)
            optimum = procure(changed, *scale, cap=top)
            assert found.loss[k] == pytest.approx(optimum.error, rel=1e-11)
            assert found.privacy_loss[k] == pytest.approx(
                optimum.privacy_loss[seller], rel=1e-7, abs=1e-9 * optimum.eta
            )


@pytest.mark.parametrize(
    ("law", "m"), [(LAWS["uniform from 0"], 1000), (stats.truncexpon(3), 30)], ids=["affine", "not"]
)
def test_a_capped_market_is_solved_twice(law: Any, m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not once for every seller and point."""
    c = law.rvs(m, random_state=generator(90))
    calls = list[int]()
    monkeypatch.setattr(
        module, "procure", lambda *market, **options: calls.append(1) or procure(*market, **options)
    )
    scale = (1.0, 1.0, 1.0)
    paid = procurement_auction(c, law, *scale, cap=2.5 / m)
    assert len(calls) <= 10
    i = int(np.argsort(c)[m // 10])
    assert paid.payments[i] == pytest.approx(by_quadrature(law, c, i, scale, 2.5 / m), rel=1e-6)


@pytest.mark.parametrize("name", AFFINE)
@pytest.mark.parametrize("m", [2, 30, 455])
def test_integrals_are_differences_of_values(
    name: str, m: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = LAWS[name].rvs(m, random_state=generator(88, m))
    scales = (*SCALES, (1.0, 300.0, 1.0))
    exact = [procurement_auction(c, LAWS[name], *scale).payments for scale in scales]
    monkeypatch.setattr(module, "affine_slope", lambda law: None)
    for scale, payments in zip(scales, exact, strict=True):
        assert procurement_auction(c, LAWS[name], *scale).payments == pytest.approx(
            payments, rel=2e-8
        )


@pytest.mark.parametrize(
    ("law", "noise"),
    [
        (LAWS["truncated exponential"], 5.0),
        (stats.truncnorm(-2, 2, loc=3 * UNIT, scale=UNIT), 200.0),
        (LAWS["beta"], 2.0),
    ],
)
def test_few_of_many_sellers(law: Any, noise: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not solved for one at a time."""
    c = law.rvs(455, random_state=generator(89))
    scale = (1.0, noise, 1.0)
    calls = list[int]()
    monkeypatch.setattr(
        module, "procure", lambda *market, **options: calls.append(1) or procure(*market, **options)
    )
    paid = procurement_auction(c, law, *scale)
    assert len(calls) == 2 and 3 <= np.count_nonzero(paid.privacy_loss) <= 30
    i = int(np.argsort(c)[np.count_nonzero(paid.privacy_loss) // 2])
    assert paid.payments[i] == pytest.approx(by_quadrature(law, c, i, scale), rel=1e-5)


@pytest.mark.parametrize(
    "law", [stats.uniform(0, 1), stats.truncexpon(3)], ids=["affine", "not affine"]
)
def test_a_purchase_that_jumps(law: Any) -> None:
    c = np.array([0.1, 0.6])
    scale = (1.0, 1.0, 0.1)

    def amount(z: float) -> float:
        return float(
            procure(virtual_valuation(law, [c[0], z], check=False), *scale).privacy_loss[1]
        )

    # the largest report at which something is bought
    jump = c[1]
    gone = 1.0
    for _ in range(50):
        middle = (jump + gone) / 2
        jump, gone = (middle, gone) if amount(middle) > 0 else (jump, middle)
    assert amount(jump) > 0.3 * amount(c[1]) > 0 == amount(jump + 1e-9)
    expected = by_quadrature(law, c, 1, scale, breaks=[jump])
    assert procurement_auction(c, law, *scale).payments[1] == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("at", [1e-9, 0.003, 0.5, 0.987654321])
def test_no_drop_is_overlooked(at: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Purchases that drop or bend somewhere above the own report; nodes inside the panels alone see
    no early drop.
    """

    def change(old: np.ndarray, own: np.ndarray) -> module._Changed:  # with the virtual cost 2 z
        drop = np.where(own / 2 <= 0.1 + at * 0.9, 1.0, 0.25 * (own < 1.8))
        return module._Changed(np.full_like(own, 1.8), own, drop + 0.1 * np.maximum(1.2 - own, 0))

    def integral() -> float:
        one = np.array([0.1])
        return float(module._integral(stats.uniform(0, 1), one, 2 * one, 1e-9 * one, change)[0])

    exact = 0.9 * at + 0.25 * max(0.9 - 0.1 - 0.9 * at, 0) + 0.1 * 0.5**2
    assert integral() == pytest.approx(exact, rel=1e-8)
    monkeypatch.setattr(quadrature, "HALVINGS", 3)
    with pytest.raises(RuntimeError, match="the payment of seller 0 did not settle to 1e-08"):
        integral()


def test_many_sellers_are_paid_at_once() -> None:
    law = LAWS["the paper's uniform law"]
    c = law.rvs(200_000, random_state=generator(87))
    found = procurement_auction(c, law, 1.0, 1.0, 1.0)
    cost = c * found.privacy_loss
    assert (found.payments >= cost * (1 - 1e-9)).all()
    assert cost.sum() < found.payments.sum() < 2 * cost.sum()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"costs": [0.5, 1.5]}, r"costs must lie in \[0, 1\], got 1.5"),
        ({"costs": [0.0, 0.5]}, r"virtual_costs\[0\] = 0.0"),
        (
            {"law": stats.beta(0.5, 0.5)},
            "law is irregular: .* v = 0.829192; take a regular law, or buy by procure",
        ),
        (
            {"costs": [1.0], "law": stats.beta(2, 2)},
            r"costs must not all lie where law has density 0, .* = 1.0: no",
        ),
        ({"cap": 0.2}, r"cap must lie in \[1/m, 1\]"),
    ],
)
def test_bad_input(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {
        "costs": [0.2, 0.5],
        "law": stats.uniform(0, 1),
        "mu": 1.0,
        "sigma": 1.0,
        "gamma": 1.0,
    }
    with pytest.raises(ValueError, match=message):
        procurement_auction(**(good | change))
