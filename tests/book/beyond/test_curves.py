"""The page on the master curves: step laws against plain searches, noises against draws, bounds on other laws."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

from hdpm_book.beyond import curves
from hdpm_book.beyond.master_curves import auction_curve, cheapest_records, local_curve, posted_curve
from hdpm_lib.validation import FALSE_ALARM


def test_drawn_markets_agree_with_the_closed_forms() -> None:
    """150 to 400 draws of each market; one comparison may alarm falsely with the shared probability."""
    drawn = curves.drawn()
    assert drawn.compared >= 20
    assert drawn.worst < stats.norm.isf(FALSE_ALARM / 2 / drawn.compared)


def test_drawn_markets_can_disagree(monkeypatch: Any) -> None:
    """A curve that is two percent too high is seen."""

    def raised(*arguments: Any, **options: Any) -> Any:
        curve = auction_curve(*arguments, **options)
        return dataclasses.replace(curve, payment=curve.payment * 1.02)

    monkeypatch.setattr(curves, "auction_curve", raised)
    drawn = curves.drawn()
    assert drawn.worst > stats.norm.isf(FALSE_ALARM / 2 / drawn.compared)


def test_payments_are_virtual_costs() -> None:
    assert abs(curves.revenue(draws=2000).gap) < stats.norm.isf(FALSE_ALARM / 2)


# --- laws of steps ----------------------------------------------------------------------------------------------------


def fine(h: float, share: float, steps: int = 2000) -> curves.StepLaws:
    """Costs uniform on [1, h], in steps."""
    q = (np.arange(steps) + 0.5) / steps
    return curves.StepLaws((1 + 2 * (h - 1) * q)[None], np.full((1, steps), 1 / steps), np.array([share]))


@pytest.mark.parametrize("share", [0.05, 0.3, 0.8])
def test_fine_steps_are_the_curves(share: float) -> None:
    law = fine(5.0, share)
    assert law.auction() == pytest.approx(auction_curve(share, 5.0).payment, rel=1e-6)
    assert law.posted() == pytest.approx(posted_curve(share, 5.0).payment, rel=1e-6)
    assert law.local() == pytest.approx(local_curve(share, 5.0).payment, rel=1e-5)


def test_step_laws_against_searches() -> None:
    """The posted price on a grid of shares, the auction as a market of many sellers, the menu by a linear programme."""
    laws = curves.random_laws(60, seed=8)
    auction, posted, local = laws.auction(), laws.posted(), laws.local()
    loss = np.r_[np.geomspace(1e-3, 1, 30), np.geomspace(1, 1e5, 2500)[1:]]
    for i, (psi, mass, share) in enumerate(zip(laws.virtual_costs, laws.masses, laws.wanted, strict=True)):
        F = share + (1 - share) * np.geomspace(1e-7, 1, 200_000)
        end = np.r_[0, mass.cumsum()]
        c = np.interp(F, end, np.r_[0, (mass * psi).cumsum()]) / F
        best = (c / np.sqrt(1 - share / F)).min()
        assert posted[i] <= best * (1 + 1e-9) and posted[i] == pytest.approx(best, rel=1e-4)
        n = 20_000
        quantile = (np.arange(n) + 0.5) / n
        sellers = psi[np.minimum(np.searchsorted(end[1:], quantile), len(psi) - 1)]
        if min(abs(end[1:] - share)) > 0.03:  # else a seller more or less matters
            many = cheapest_records(sellers, share * n).payment / math.sqrt(share * n)
            assert auction[i] == pytest.approx(float(many), rel=0.01)
        if i < 6:
            some = mass > 0
            price = np.multiply.outer(psi[some], loss).ravel()  # a part of each step at each loss
            parts = np.kron(np.eye(some.sum()), np.ones(len(loss)))
            records = np.tile(loss**2 / (1 + loss**2), some.sum())
            found = optimize.linprog(
                price / price.max(), A_ub=np.vstack([parts, -records]), b_ub=np.r_[mass[some], -share], method="highs"
            )
            assert found.success
            if found.fun * price.max() > 1e-3 * price.max():
                assert local[i] == pytest.approx(found.fun * price.max() / share, rel=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_bounds_hold_for_other_random_laws(seed: int) -> None:
    found = curves.on_random_laws(2000, 100 + seed)
    assert 1.9 < found.posted <= 2
    assert found.trust[1] <= 2
    assert found.above > 100  # many need more than the eighth of uniform costs


def test_a_climb_does_not_pass_two() -> None:
    """From steep laws upwards: the worst law that a search finds."""
    rng, worst = np.random.default_rng(1), [0.0, 0.0]

    def law(x: np.ndarray) -> curves.StepLaws:
        k = len(x) // 2
        mass = np.exp(x[k : 2 * k])
        share = np.array([1 / (1 + math.exp(-x[-1]))])
        return curves.StepLaws(np.exp(x[:k]).cumsum()[None], (mass / mass.sum())[None], share)

    for _ in range(4):
        start = rng.normal(size=2 * int(rng.integers(2, 5)) + 1) * 3
        for which, name in enumerate(("posted", "local")):

            def missed(x: np.ndarray, name: str = name) -> float:
                if np.abs(x).max() > 20:
                    return 0.0
                return -float((getattr(law(x), name)() / law(x).auction()).item())

            found = optimize.minimize(missed, start, method="Nelder-Mead", options={"maxfev": 1000})
            worst[which] = max(worst[which], -found.fun)
    assert 1.5 < worst[0] <= 2 and 1.5 < worst[1] <= 2


# --- noises -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 7.0])
def test_piecewise_variance(epsilon: float) -> None:
    """The published formula, and 100,000 draws by rejection."""
    x = np.array([-1.0, -0.3, 0.0, 0.8])
    half = math.exp(epsilon / 2)
    published = x**2 / (half - 1) + (half + 3) / (3 * (half - 1) ** 2)
    np.testing.assert_allclose(curves.piecewise_variance(x, epsilon), published, rtol=1e-9)
    rng, reach = np.random.default_rng(6), (half + 1) / (half - 1)
    left = (reach + 1) / 2 * 0.8 - (reach - 1) / 2
    near = rng.random(100_000) < half / (half + 1)
    out = rng.uniform(-reach, reach - (reach - 1), 100_000)
    out = np.where(out > left, out + reach - 1, out)  # outside the interval
    draws = np.where(near, rng.uniform(left, left + reach - 1, 100_000), out)
    error = (draws**2).std() / math.sqrt(len(draws))
    assert abs((draws**2).mean() - 0.64 - published[-1]) < stats.norm.isf(FALSE_ALARM / 2 / 3) * error


def test_no_noise_beats_the_bound() -> None:
    """Randomised response attains it on bits; the piecewise mechanism stays above at every record."""
    for epsilon in (0.2, 1.0, 4.0):
        bound = 1 / (4 * math.sinh(epsilon / 2) ** 2)
        assert math.exp(epsilon) / math.expm1(epsilon) ** 2 == pytest.approx(bound)
        x = np.linspace(-1, 1, 21)
        farther = np.maximum(1 + x, 1 - x)  # twice the distance in [0, 1]
        assert (curves.piecewise_variance(x, epsilon) >= farther**2 * bound * (1 - 1e-12)).all()


def test_lots() -> None:
    """Three equal sellers: a general solver finds nothing below the three equal losses, which are below 1."""
    found = curves.lots()
    constraint = {"type": "eq", "fun": lambda e: (e**2 / (1 + e**2)).sum() - 1.45}
    rng = np.random.default_rng(2)
    tries = [
        optimize.minimize(
            np.sum, rng.random(3) * 2, method="SLSQP", bounds=[(0, None)] * 3, constraints=[constraint], tol=1e-12
        )
        for _ in range(20)
    ]
    assert min(each.fun for each in tries if each.success) == pytest.approx(found.three, rel=1e-7)
    assert found.loss < 1 and found.lots < found.three < found.two_and_a_bit
