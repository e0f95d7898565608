"""The exact purchase against a general solver, the curves against quadrature and searches, laws of
steps likewise.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, optimize

from hdpm_book.beyond import curves
from hdpm_book.beyond.curves import auction_curve, cheapest_records, local_curve, posted_curve
from tests.support import refusals

SPREADS = (1.0, 1.0001, 1.5, 5.0, 1000.0)
WANTED = np.array([1e-4, 0.03, 0.2, 0.43, 0.46, 0.7, 0.97])


def records(epsilon: np.ndarray) -> np.ndarray:
    """Effective records of a central buyer, from the definition."""
    return np.asarray(epsilon.sum(-1) ** 2 / (1 + (epsilon**2).sum(-1)))


def by_solver(psi: np.ndarray, wanted: float, starts: int = 8) -> float:
    """The least payment by sequential quadratic programming, which knows the definition of N
    only.
    """
    rng = np.random.default_rng(len(psi))
    best = math.inf
    constraint = {"type": "ineq", "fun": lambda e: e.sum() / math.sqrt(wanted * (1 + e @ e)) - 1}
    for _ in range(starts):
        found = optimize.minimize(
            lambda e: psi @ e,
            rng.random(len(psi)) * wanted,
            method="SLSQP",
            bounds=[(0, None)] * len(psi),
            constraints=[constraint],
            options={"ftol": 1e-14, "maxiter": 500},
        )
        if found.success and constraint["fun"](found.x) > -1e-9:  # type: ignore[operator]
            best = min(best, float(found.fun))
    return best


@pytest.mark.parametrize("n", [2, 5, 12])
def test_purchase_is_the_cheapest(n: int) -> None:
    rng = np.random.default_rng(n)
    for wanted in (1.0, 1 + 0.3 * (n - 1), 1 + 0.8 * (n - 1)):
        psi = np.sort(rng.exponential(size=n) ** 2 + 0.05)
        found = cheapest_records(psi, wanted)
        assert records(found.privacy_loss) == pytest.approx(wanted, rel=1e-12)
        assert found.privacy_loss @ psi == pytest.approx(float(found.payment), rel=1e-12)
        assert found.payment == pytest.approx(by_solver(psi, wanted), rel=1e-7)


def test_identities_in_a_batch() -> None:
    psi = np.random.default_rng(3).random((4, 3, 30)) * 7 + 1
    found = cheapest_records(psi, 6.5)
    np.testing.assert_allclose(
        found.payment**2, 6.5 * found.cutoff * found.virtual_cost, rtol=1e-12
    )
    np.testing.assert_allclose(
        found.payment, found.privacy_loss.sum(-1) * found.virtual_cost, rtol=1e-12
    )
    assert ((found.privacy_loss > 0) == (psi < found.cutoff[..., None])).all()
    one = cheapest_records(psi[2, 1], 6.5)
    np.testing.assert_allclose(one.privacy_loss, found.privacy_loss[2, 1], rtol=1e-12)


def test_no_cancellation_far_above_the_costs() -> None:
    """A cutoff a hundred million times above equal costs: all sellers get the same, to rounding."""
    found = cheapest_records(np.ones(7), 7 - 7e-8)
    np.testing.assert_allclose(found.privacy_loss, found.privacy_loss[0], rtol=1e-14)
    assert float(found.payment) == pytest.approx(math.sqrt(7 / 1e-8), rel=1e-7)


def central(share: float, slope: float) -> float:
    """The optimal auction by a search over the share of the sellers and the cutoff beyond it."""

    def payment(cut: float) -> float:  # profile (cut - q)^+ in quantiles
        end = min(cut, 1.0)
        A = integrate.quad(lambda q: cut - q, 0, end)[0]
        B = integrate.quad(lambda q: (cut - q) ** 2, 0, end)[0]
        mean = integrate.quad(lambda q: (cut - q) * (1 + slope * q), 0, end)[0] / A
        effective = A**2 / B
        return mean / math.sqrt(1 - share / effective) if effective > share else math.inf

    grid = np.geomspace(share, 1e5 / (1 - share), 120)
    start = int(np.argmin([payment(cut) for cut in grid]))
    ends = grid[max(start - 1, 0)], grid[min(start + 1, 119)]
    found = optimize.minimize_scalar(
        payment, bounds=ends, method="bounded", options={"xatol": 1e-10 * ends[1]}
    )
    return float(found.fun)


def posted(share: float, slope: float) -> float:
    """One price by a search over the share that takes it."""
    found = optimize.minimize_scalar(
        lambda F: (1 + slope * F / 2) / math.sqrt(1 - share / F),
        bounds=(share, 1),
        method="bounded",
        options={"xatol": 1e-13},
    )
    return float(min(found.fun, (1 + slope / 2) / math.sqrt(1 - share)))


def local(share: float, slope: float) -> float:
    """The menu by quadrature, with every loss found by bisection."""

    def sold(worth: float, power: int) -> float:
        def at(q: float) -> float:
            psi = 1 + slope * q
            if psi >= worth / 2:
                return 1.0 if power == 0 else psi
            e = optimize.brentq(
                lambda e: 2 * e / (1 + e * e) ** 2 - psi / worth, 1, 1e6, xtol=1e-13
            )
            return float(e * e / (1 + e * e) if power == 0 else psi * e)

        end = min(max((worth / 2 - 1) / slope, 0), 1)
        return integrate.quad(lambda t: at(end * t**3) * 3 * end * t * t, 0, 1, epsabs=1e-13)[0]

    worth = optimize.brentq(
        lambda w: sold(w, 0) - share,
        2 * (1 + 1e-9),
        100 * (1 + slope) / (1 - share) ** 2,
        xtol=1e-11,
    )
    return sold(worth, 1) / share


@pytest.mark.parametrize("h", SPREADS)
def test_central_curves_against_searches(h: float) -> None:
    for known, slope in ((False, 2 * (h - 1)), (True, h - 1)):
        found = auction_curve(WANTED, h, known=known).payment
        np.testing.assert_allclose(found, [central(share, slope) for share in WANTED], rtol=1e-7)
    one_price = [posted(share, 2 * (h - 1)) for share in WANTED]
    np.testing.assert_allclose(posted_curve(WANTED, h).payment, one_price, rtol=1e-9)


@pytest.mark.parametrize("h", [1.5, 5.0, 1000.0])
def test_menu_against_quadrature(h: float) -> None:
    some = WANTED[1:-1]
    np.testing.assert_allclose(
        local_curve(some, h).payment, [local(share, 2 * (h - 1)) for share in some], rtol=1e-8
    )


def test_equal_costs() -> None:
    """Local: two per record, while half of the sellers suffice. Nobody has a rent."""
    menu = np.where(WANTED < 0.5, 2, 1 / np.sqrt(WANTED * (1 - WANTED)))
    np.testing.assert_allclose(local_curve(WANTED, 1.0).payment, menu, rtol=1e-12)
    for curve in (auction_curve, posted_curve, local_curve):
        assert (curve(WANTED, 1.0).rents == 0).all()


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_auction_of_many_sellers(share: float) -> None:
    """Sellers at the quantiles of their law; some of them are bought, and all."""
    n = 20_000
    h = 5.0
    costs = 1 + (h - 1) * (np.arange(n) + 0.5) / n
    found = cheapest_records(2 * costs - 1, share * n)
    curve = auction_curve(share, h)
    assert found.payment / math.sqrt(share * n) == pytest.approx(curve.payment, rel=1e-4)
    assert found.virtual_cost == pytest.approx(curve.virtual_cost, rel=1e-4)
    assert (found.privacy_loss > 0).mean() == pytest.approx(curve.bought, abs=1e-4)
    assert 1 - found.privacy_loss @ costs / found.payment == pytest.approx(curve.rents, rel=1e-4)


def random_laws(count: int, seed: int) -> curves.StepLaws:
    """Five steps, some without mass; jumps of very unequal heights; half of N/n just above the end
    of a step.
    """
    rng = np.random.default_rng(seed)
    shape = (count, 5)
    masses = rng.exponential(size=shape) * (rng.random(shape) < [1, 0.7, 0.7, 0.7, 1])
    masses /= masses.sum(1, keepdims=True)
    jumps = rng.gamma(0.3, size=shape) * 10 ** rng.uniform(-3, 3, shape)
    above = masses.cumsum(1)[np.arange(count), rng.integers(0, 4, count)] * (
        1 + 10 ** rng.uniform(-4, -0.5, count)
    )
    wanted = np.where(
        rng.random(count) < 0.5, np.minimum(above, 0.99), rng.uniform(0.01, 0.99, count)
    )
    return curves.StepLaws(1e-6 + jumps.cumsum(1), masses, wanted)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.8])
def test_fine_steps_are_the_curves(share: float) -> None:
    steps = 2000
    virtual_costs = 1 + 8 * (np.arange(steps) + 0.5) / steps  # of costs uniform on [1, 5]
    law = curves.StepLaws(virtual_costs[None], np.full((1, steps), 1 / steps), np.array([share]))
    assert law.auction() == pytest.approx(auction_curve(share, 5.0).payment, rel=1e-6)
    assert law.posted() == pytest.approx(posted_curve(share, 5.0).payment, rel=1e-6)
    assert law.local() == pytest.approx(local_curve(share, 5.0).payment, rel=1e-5)


def test_step_laws_against_searches() -> None:
    """The posted price on a grid of shares, the menu by a linear programme."""
    laws = random_laws(60, seed=8)
    auction = laws.auction()
    posted = laws.posted()
    local = laws.local()
    # bounds that the page proves
    assert (posted / auction).max() <= 2 and (local / auction).max() <= 2
    loss = np.r_[np.geomspace(1e-3, 1, 30), np.geomspace(1, 1e5, 2500)[1:]]
    for i, (psi, mass, share) in enumerate(
        zip(laws.virtual_costs, laws.masses, laws.wanted, strict=True)
    ):
        F = share + (1 - share) * np.geomspace(1e-7, 1, 200_000)
        end = np.r_[0, mass.cumsum()]
        c = np.interp(F, end, np.r_[0, (mass * psi).cumsum()]) / F
        best = (c / np.sqrt(1 - share / F)).min()
        assert posted[i] <= best * (1 + 1e-9) and posted[i] == pytest.approx(best, rel=1e-4)
        if i < 6:
            some = mass > 0
            price = np.multiply.outer(psi[some], loss).ravel()  # a part of each step at each loss
            parts = np.kron(np.eye(some.sum()), np.ones(len(loss)))
            records = np.tile(loss**2 / (1 + loss**2), some.sum())
            found = optimize.linprog(
                price / price.max(),
                A_ub=np.vstack([parts, -records]),
                b_ub=np.r_[mass[some], -share],
                method="highs",
            )
            assert found.success
            if found.fun * price.max() > 1e-3 * price.max():
                assert local[i] == pytest.approx(found.fun * price.max() / share, rel=1e-4)


test_what_is_refused = refusals(
    (
        lambda: auction_curve(1.0, 5.0),
        r"wanted must lie in \(0, 1\) \(effective records per seller\), got 1.0",
    ),
    (lambda: posted_curve([0.1, 0.0], 5.0), r"wanted must lie in \(0, 1\) .*, got 0.0"),
    (lambda: local_curve(0.1, 0.5), "h must be finite and at least 1, got 0.5"),
    (lambda: cheapest_records([1.0, 2.0], 2.0), r"records must lie in \[1, 2\) .*, got 2.0"),
    (lambda: cheapest_records([1.0, 2.0], 0.5), r"records must lie in \[1, 2\) .*, got 0.5"),
    (
        lambda: cheapest_records([1.0, 0.0], 1.0),
        "virtual_costs must be positive and finite, got 0.0",
    ),
    (
        lambda: cheapest_records([1.0], 1.0),
        r"two sellers or more on the last axis, got shape \(1,\)",
    ),
)
