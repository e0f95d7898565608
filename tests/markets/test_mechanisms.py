"""The contract paper's mechanisms: payments by three roads, and nobody gains by lying."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from hdpm_book.contracts.study import unbiased_pricing
from hdpm_lib.markets import mechanisms
from hdpm_lib.markets.contracts import least_cost_contract, ratio_power
from hdpm_lib.markets.costs import ironed_virtual_valuation, virtual_valuation
from hdpm_lib.markets.incentives import Incentives, reports_to_try, search_misreports
from hdpm_lib.markets.mechanisms import (
    equal_loss_pricing,
    myerson_contract,
    pivot_costs,
    vcg_contract,
)
from hdpm_lib.markets.outcome import Outcome
from hdpm_lib.markets.payments import envelope_payments, vcg_payments, with_own_report
from tests.support import KINDS, generator, mean_z, valuations, z_limit

POWERS = (1.0, 1.5, 2.0, 3.0)


def profile(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Valuations in [0, 1]; ties at the ceiling too, and tails over many orders of magnitude."""
    v = valuations(kind, n, rng)
    return v / 3 if kind == "ties" else rng.random(n) ** 12 if kind == "heavy" else v


def markets(count: int, key: int, largest: int = 12) -> list[tuple[np.ndarray, float]]:
    rng, found = generator(71, key), []
    for i in range(count):
        n = int(rng.integers(1, largest + 1))
        found.append((profile(KINDS[i % 4], n, rng), rng.uniform(0.01, 0.99) * n**2 / 4))
    return found


def market(K: float, r: float) -> tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]:
    """Amounts `epsilon^r` and least cost of Principle 2."""
    return (
        lambda v: least_cost_contract(v, K, power=r).privacy_loss ** r,
        lambda v: least_cost_contract(v, K, power=r).cost,
    )


# --- M2: three roads to its payments ----------------------------------------------------------------------------------


@pytest.mark.parametrize("power", POWERS)
def test_m2_pays_vcg(power: float) -> None:
    for v, K in markets(80, 1):
        found, vcg = vcg_contract(v, K, 1.0, power=power), vcg_payments(v, 1.0, *market(K, power))
        np.testing.assert_allclose(found.payments, vcg, rtol=1e-10, atol=1e-10 * vcg.max())
        np.testing.assert_array_equal(found.privacy_loss, least_cost_contract(v, K, power=power).privacy_loss)
        tenth = vcg_contract(v / 10, K, 0.1, power=power)
        np.testing.assert_allclose(tenth.payments, found.payments / 10, rtol=1e-9, atol=1e-11 * vcg.max())


@pytest.mark.parametrize("power", [1.5, 2.0, 3.0])
def test_m2_pays_the_envelope(power: float) -> None:
    for i, (v, K) in enumerate(markets(12 if power == 2 else 4, 2, largest=4)):
        if i % 4 == KINDS.index("heavy"):
            continue  # peaks that are too narrow for quadrature
        found = vcg_contract(v, K, 1.0, power=power).payments
        envelope = envelope_payments(v, 1.0, market(K, power)[0], tolerance=1e-7)
        np.testing.assert_allclose(found, envelope, rtol=0, atol=1e-6 * found.max())
    right, other = (vcg_contract([0.2, 0.5, 0.9], 0.9, top, power=power).payments for top in (1.0, 1.001))
    assert np.abs(other - right).max() > 1e-4 * right.max()  # another ceiling is another payment


@pytest.mark.parametrize("power", [*POWERS, 1.01, 7.0])
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_pivot_costs_are_those_of_replaced_profiles(power: float, n: int) -> None:
    rng = generator(72, n)
    v = np.stack([profile(kind, n, rng) for kind in KINDS * 3])
    v[0], v[1] = 0.0, 1.0
    for part in (0.003, 0.2, 0.77, 0.99):
        K = part * n**2 / 4
        found = pivot_costs(v, K, 1.0, power=power)
        for row, pivots in zip(v, found, strict=True):
            expected = least_cost_contract(with_own_report(row, 1.0), K, power=power).cost
            np.testing.assert_allclose(pivots, expected, rtol=1e-9, atol=1e-13 * expected.max())


def wrong_pivots(count: int) -> int:
    """In how many large markets some pivots are not the least costs of the profiles replaced one by one."""
    rng, wrong = generator(77), 0
    for i in range(count):
        n, power = int(10 ** rng.uniform(3, 4.5)), (*POWERS, 1.01, 7.0)[i % 6]
        v = profile(KINDS[i % 4], n, rng)
        K = 10 ** rng.uniform(-2, math.log10(0.99)) * n**2 / 4
        found, order = pivot_costs(v, K, 1.0, power=power), np.argsort(v)
        for k in (*order[[0, 1, n // 4, n // 2, -2, -1]], *rng.integers(n, size=6)):
            changed = v.copy()
            changed[k] = 1.0
            right = float(least_cost_contract(changed, K, power=power).cost)
            wrong += not math.isclose(right, found[k], rel_tol=1e-14 * n)  # far less than what one seller changes
    return wrong


def test_pivots_of_many_sellers() -> None:
    assert wrong_pivots(24) == 0


def test_wrong_pivots_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    search = mechanisms.count_while
    for by in (-1, 1):
        shifted = lambda holds, limit, by=by: np.clip(search(holds, limit) + 5 * by, 0, limit)  # noqa: E731
        monkeypatch.setattr(mechanisms, "count_while", shifted)
        assert wrong_pivots(6) > 10


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("K", [0.9, 1.0, 1.5])
def test_pivots_of_valuations_far_apart(power: float, K: float) -> None:
    """Without the seller at 1, the costs at the cap are 1e-20 in all: they must not be lost beside hers."""
    v = np.array([1e-20, 1.0, 5.0])
    expected = least_cost_contract(with_own_report(v, 10.0), K, power=power).cost
    np.testing.assert_allclose(pivot_costs(v, K, 10.0, power=power), expected, rtol=1e-7)
    outcome = vcg_contract(v, K, 10.0, power=power)
    assert (outcome.payments >= v * outcome.privacy_loss**power * (1 - 1e-9)).all()


@pytest.mark.parametrize("power", POWERS)
def test_batches(power: float) -> None:
    rng = generator(73)
    v = np.stack([profile(KINDS[i % 4], 5, rng) for i in range(24)]).reshape(2, 12, 5)
    v[0, 0] = 0
    for rule in (equal_loss_pricing, vcg_contract, unbiased_pricing):
        batch = rule(v, 1.3, 1.0, power=power)
        assert batch.privacy_loss.shape == batch.payments.shape == v.shape
        for i in np.ndindex(2, 12):
            one = rule(v[i], 1.3, 1.0, power=power)
            np.testing.assert_allclose(batch.privacy_loss[i], one.privacy_loss, rtol=1e-13)
            np.testing.assert_allclose(batch.payments[i], one.payments, rtol=1e-12, atol=1e-13 * one.payments.max())
    order = rng.permutation(5)
    np.testing.assert_allclose(
        vcg_contract(v[..., order], 1.3, 1.0, power=power).payments,
        vcg_contract(v, 1.3, 1.0, power=power).payments[..., order],
        rtol=1e-12,
        atol=1e-12,
    )


def test_worked_cases() -> None:
    """Zeros and ceilings have closed forms: (0, 0, 1) at K = 0.1125 costs more than M1 and as much as M3."""
    outcome = vcg_contract([0.0, 0.0, 1.0], 0.1125, 1.0, power=2)
    np.testing.assert_allclose(outcome.payments.round(3), [21.778, 21.778, 9.778])
    total = [
        rule([0.0, 0.0, 1.0], 0.1125, 1.0, power=2).payments.sum()
        for rule in (equal_loss_pricing, vcg_contract, unbiased_pricing)
    ]
    np.testing.assert_allclose(total, [152 / 3, 160 / 3, 160 / 3])
    np.testing.assert_allclose(
        vcg_contract([2.0], 0.1, 10.0, power=2).payments, 120.0
    )  # alone: what the ceiling would bear


# --- M1 and M3 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [*POWERS, 5.0])
@pytest.mark.parametrize(("n", "part"), [(1, 0.5), (2, 0.25), (10, 0.004), (10, 0.96)])
def test_equal_payments(power: float, n: int, part: float) -> None:
    K, v = part * n**2 / 4, 10 * generator(74, n).random(n)
    first, third = equal_loss_pricing(v, K, 10.0, power=power), unbiased_pricing(v, K, 10.0, power=power)
    np.testing.assert_allclose(first.privacy_loss, math.sqrt(2 * n**2 / K - 8) / n, rtol=1e-12)
    np.testing.assert_allclose(first.payments, 10 * (math.sqrt(2 * n**2 / K - 8) / n) ** power, rtol=1e-11)
    np.testing.assert_allclose(third.privacy_loss, math.sqrt(2 / K), rtol=1e-12)
    np.testing.assert_allclose(third.payments, 10 * (2 / K) ** (power / 2), rtol=1e-11)
    assert (first.payments < third.payments).all()
    if power == 2:
        assert third.payments.sum() - first.payments.sum() == pytest.approx(10 * n * 8 / n**2)


@pytest.mark.parametrize("power", POWERS)
def test_nobody_is_needed(power: float) -> None:
    for K in (2.25, 3.0):
        for rule in (equal_loss_pricing, vcg_contract):
            outcome = rule([0.2, 0.0, 1.0], K, 1.0, power=power)
            assert (outcome.payments == 0).all() and (outcome.privacy_loss == 0).all()
        assert (pivot_costs([0.2, 0.0, 1.0], K, 1.0, power=power) == 0).all()
        assert (unbiased_pricing([0.2, 0.0, 1.0], K, 1.0, power=power).payments > 0).all()
        priced = myerson_contract([0.2, 0.0, 1.0], K, stats.uniform(0, 1), power=power)
        assert (priced.payments == 0).all() and (priced.privacy_loss == 0).all()


# --- incentives -------------------------------------------------------------------------------------------------------

Mechanism = Callable[[np.ndarray], Outcome]


def break_points(v: np.ndarray, K: float, top: float, *, power: float) -> list[np.ndarray]:
    """For each seller the reports at which M2's allocation changes its form: somebody reaches the cap or leaves it.

    At power 1 the allocation jumps at these reports; above, her loss has a kink. Each solves the equation of
    `hdpm_lib.markets.contracts` with the threshold at another seller's valuation, in closed form, or at her own.
    """
    if len(v) ** 2 <= 4 * K:
        return [np.empty(0) for _ in v]
    return [own_break_points(np.delete(v, i), K, top, power) for i in range(len(v))]


def own_break_points(others: np.ndarray, K: float, top: float, r: float) -> np.ndarray:
    def left_out(threshold: float) -> float:
        return float((1 - ratio_power(threshold / others[others > threshold], r)).sum())

    def excess(own: float, shift: int) -> float:
        return left_out(own) - 4 * K * own / (np.minimum(others, own).sum() + own) + shift

    points: list[float] = []
    for theta in np.unique(others[others > 0]):
        cut = np.minimum(others, theta).sum()
        for T in {left_out(theta), left_out(theta) + (r == 1) * (others == theta).sum()}:
            if T > 0 and 0 <= (own := 4 * K * theta / T - cut) <= theta:  # she is at the cap
                points.append(own)
            share = T + 1 - 4 * K * theta / (cut + theta)
            if r > 1 and 0 < share <= 1:  # she is below it
                points.append(theta / share ** (r - 1))
    ends = float(np.finfo(float).tiny), top
    for shift in (0, 1) if r == 1 else (0,):  # the threshold is her own report, her share 1 (or 0)
        if excess(ends[0], shift) > 0 > excess(ends[1], shift):
            points.append(float(brentq(excess, *ends, args=(shift,), xtol=1e-15 * top, maxiter=1000)))
    return np.unique([point for point in points if point <= top])


@pytest.mark.parametrize("power", POWERS)
def test_break_points(power: float) -> None:
    """On a fine grid of one's own report the set at the cap (at power 1 also at 0) changes there and only there."""
    grid = np.linspace(1e-6, 1, 20_001)
    middle, changes = (grid[1:] + grid[:-1]) / 2, 0
    for v, K in markets(24, 9, largest=6):
        for i, points in enumerate(break_points(v, K, 1.0, power=power)):
            profiles = np.where(np.arange(len(v)) == i, grid[:, None], v)
            shares = least_cost_contract(profiles, K, power=power).shares
            form = (shares >= 1 - 1e-12) + 2 * ((shares <= 0) & (power == 1))
            found = middle[(form[1:] != form[:-1]).any(axis=1)]
            assert all(np.abs(points - at).min(initial=1) < 1e-4 for at in found)
            assert all(np.abs(found - at).min(initial=1) < 1e-4 for at in points if 1e-4 < at < 1 - 1e-4)
            changes += len(found)
    assert changes > 20
    unneeded = break_points(np.array([0.3, 0.6]), 1.0, 1.0, power=power)
    assert all(points.size == 0 for points in unneeded)


def measured(
    mechanism: Mechanism, v: np.ndarray, power: float, grid: int, top: float = 1.0, special: Any = ()
) -> Incentives:
    def sold(reports: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        outcome = mechanism(reports)
        return outcome.privacy_loss**power, outcome.payments

    return search_misreports(sold, v, reports_to_try(v, top, grid=grid, special=special), refine=power in (1, 2))


def largest_gain(rule: Callable[..., Outcome], count: int) -> tuple[float, float, int]:
    """Over random markets the largest gain by a lie and the largest loss at truth, over payments; and lies tried."""
    gain, loss, tried = -math.inf, -math.inf, 0
    for i, (v, K) in enumerate(markets(count, 3, largest=8)):
        power = POWERS[i // 4 % 4]
        special = break_points(v, K, 1.0, power=power)
        found = measured(lambda reports, K=K, r=power: rule(reports, K, 1.0, power=r), v, power, 201, special=special)
        if found.payment.max() > 0:
            gain = max(gain, found.relative_gain)
            loss = max(loss, -float(found.utility.min() / found.payment.max()))
        tried += found.tried
    return gain, loss, tried


def test_nobody_gains_by_lying() -> None:
    gain, loss, tried = largest_gain(vcg_contract, 48)
    assert tried >= 30_000 and gain <= 1e-9 and loss <= 1e-9
    for rule in (equal_loss_pricing, unbiased_pricing):
        gain, loss, _ = largest_gain(rule, 16)
        assert gain <= 1e-12 and loss <= 1e-12


def paid_as_bid(v: Any, K: float, top: float, *, power: float) -> Outcome:
    found = vcg_contract(v, K, top, power=power)
    return Outcome(found.privacy_loss, v * found.privacy_loss**power)


def overpaid(v: Any, K: float, top: float, *, power: float) -> Outcome:
    found = vcg_contract(v, K, top, power=power)
    return Outcome(found.privacy_loss, 1.01 * found.payments)


def underpaid(v: Any, K: float, top: float, *, power: float) -> Outcome:
    """A hundredth of her cost is not refunded."""
    found = vcg_contract(v, K, top, power=power)
    return Outcome(found.privacy_loss, found.payments - 0.01 * v * found.privacy_loss**power)


@pytest.mark.parametrize("wrong", [paid_as_bid, overpaid, underpaid])
def test_wrong_payments_are_caught(wrong: Callable[..., Outcome]) -> None:
    gain, loss, _ = largest_gain(wrong, 16)
    assert gain > 1e-6 and (loss > 1e-4 or wrong is not underpaid)


@pytest.mark.parametrize("n", [2, 5, 10])
@pytest.mark.parametrize("power", [1.0, 2.0])
def test_uniform_valuations_cost_twice(n: int, power: float) -> None:
    """E M2 = 2 E W for U[0, ceiling]; and not 2.05 E W."""
    v = 10 * generator(75, n).random((20_000, n))
    for part in (0.1, 0.6):
        K = part * n**2 / 4
        paid, cost = vcg_contract(v, K, 10.0, power=power).payments.sum(-1), least_cost_contract(v, K, power=power).cost
        assert abs(mean_z(paid - 2 * cost, 0.0)) < z_limit()
        assert abs(mean_z(paid - 2.1 * cost, 0.0)) > z_limit()


@pytest.mark.parametrize("n", range(2, 13))
def test_sellers_at_zero_make_m2_dearer_by_a_formula(n: int) -> None:
    """M2 less M1 with z sellers at 0 and m at the ceiling 1, while the m alone do not let the others answer."""
    for z in range(1, n):
        m, v = n - z, np.r_[np.zeros(z), np.ones(n - z)]
        for K in np.array([0.3, 0.6, 0.9]) * m**2 / 4:
            m1, m2 = (rule(v, K, 1.0, power=2).payments.sum() for rule in (equal_loss_pricing, vcg_contract))
            assert abs(m2 - m1 - 8 * z * (z - 1) / (n * m * (m + 1))) < 1e-12 * m1


# --- virtual pricing --------------------------------------------------------------------------------------------------

IRREGULAR = stats.rv_histogram((np.array([0.3, 0.1, 0.6]), np.array([0.0, 0.3, 0.6, 1.0])), density=False)


@pytest.fixture
def loose(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quadrature to six digits: hundreds of them are needed."""
    quick = functools.partial(envelope_payments, tolerance=1e-6)
    monkeypatch.setattr(mechanisms, "envelope_payments", quick, raising=False)


@pytest.mark.parametrize("power", [1.0, 2.0, 3.0])
def test_uniform_from_zero_is_m2(power: float, loose: None) -> None:
    v = 10 * generator(76).random(3)
    for K in (0.4, 1.9):
        priced, plain = myerson_contract(v, K, stats.uniform(0, 10), power=power), vcg_contract(v, K, 10.0, power=power)
        np.testing.assert_allclose(priced.privacy_loss, plain.privacy_loss, rtol=1e-12)
        np.testing.assert_allclose(priced.payments, plain.payments, atol=3e-6 * plain.payments.max())


def test_expected_payment_is_the_virtual_cost(loose: None) -> None:
    """E sum t = E W(phi(v)), not E W(v): for U[1/2, 1] and two sellers, by Gauss's rule on the square."""
    law, nodes, weights = stats.uniform(0.5, 0.5), *np.polynomial.legendre.leggauss(5)
    points, weights = 0.75 + nodes / 4, weights / 2
    for K, accuracy in ((0.9, 1e-5), (0.3, 2e-3)):  # nobody at the cap: smooth; somebody at the cap: kinks
        paid = virtual = true = 0.0
        for i in range(5):
            for j in range(i + 1):
                v, mass = points[[i, j]], weights[i] * weights[j] * (1 if i == j else 2)
                paid += mass * myerson_contract(v, K, law, power=2).payments.sum()
                virtual += mass * float(least_cost_contract(virtual_valuation(law, v), K, power=2).cost)
                true += mass * float(least_cost_contract(v, K, power=2).cost)
        assert paid == pytest.approx(virtual, rel=accuracy)
        assert abs(paid / (2 * true) - 1) > 0.05


def priced_gain(law: Any, v: np.ndarray, ironed: bool, points: int = 21) -> tuple[float, float]:
    """Largest gain by a lie under virtual pricing, and largest loss at truth, over the largest payment."""

    def sold(reports: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        outcomes = [myerson_contract(row, 0.5, law, power=2, ironed=ironed) for row in reports]
        return np.array([o.privacy_loss**2 for o in outcomes]), np.array([o.payments for o in outcomes])

    candidates = [np.linspace(max(law.support()[0], 0.01), 0.99, points)] * len(v)
    found = search_misreports(sold, v, candidates, refine=False)
    return found.relative_gain, -float(found.utility.min() / found.payment.max())


@pytest.mark.parametrize(
    ("law", "ironed"), [(stats.uniform(0.5, 0.5), False), (IRREGULAR, True)], ids=["regular", "irregular"]
)
def test_virtual_pricing_is_truthful(law: Any, ironed: bool, loose: None) -> None:
    gain, loss = priced_gain(law, np.array([0.55, 0.8]), ironed)
    assert gain < 1e-5 and loss < 1e-5


def test_irregular_law_without_ironing_invites_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The virtual valuation falls at 0.6, from 1.86 to 1.3."""

    def virtual(law: Any, v: np.ndarray, **_: Any) -> np.ndarray:
        density = np.select([v <= 0.3, v <= 0.6], [1.0, 1 / 3], 1.5)
        return v + np.interp(v, [0, 0.3, 0.6, 1], [0, 0.3, 0.4, 1]) / density

    v = np.array([0.1, 0.45, 0.6, 0.9])
    np.testing.assert_allclose(virtual(None, v), virtual_valuation(IRREGULAR, v * (1 - 1e-12), check=False), rtol=1e-9)
    monkeypatch.setattr(mechanisms, "check_regular", lambda law: None)
    monkeypatch.setattr(mechanisms, "virtual_valuation", virtual)
    quick = functools.partial(envelope_payments, tolerance=1e-3)
    monkeypatch.setattr(mechanisms, "envelope_payments", quick)
    assert priced_gain(IRREGULAR, np.array([0.55, 0.8]), False, 3)[0] > 1e-2


def test_ironing_is_asked_for() -> None:
    for law in (IRREGULAR, stats.beta(0.5, 0.5)):
        with pytest.raises(ValueError, match="the law is irregular: its virtual valuation falls at v ="):
            myerson_contract([0.2, 0.7], 0.5, law, power=2)
    v = [0.3, 0.8]
    priced = myerson_contract(v, 0.5, IRREGULAR, power=2, ironed=True)
    expected = least_cost_contract(ironed_virtual_valuation(IRREGULAR, v), 0.5, power=2)
    np.testing.assert_allclose(priced.privacy_loss, expected.privacy_loss)
    assert (priced.payments >= v * priced.privacy_loss**2).all()


def test_no_price_where_the_density_is_zero() -> None:
    with pytest.raises(ValueError, match=r"the law has density 0 at 1\.0"):
        myerson_contract([0.5, 1.0], 0.5, stats.beta(2, 2), power=2)


def test_ironing_changes_nothing_for_a_regular_law() -> None:
    law, v = stats.uniform(0.5, 0.5), [0.6, 0.9]
    plain, ironed = (myerson_contract(v, 0.5, law, power=2, ironed=choice) for choice in (False, True))
    np.testing.assert_allclose(ironed.payments, plain.payments, rtol=1e-3)


# --- what is refused --------------------------------------------------------------------------------------------------

GOOD: dict[str, Any] = {"valuations": [1.0, 2.0], "max_mse": 0.3, "ceiling": 10.0, "power": 2.0}
BAD: list[tuple[dict[str, Any], str]] = [
    ({"valuations": [1.0, 10.5]}, "valuations must lie in [0, 10], got 10.5"),
    ({"valuations": [[1.0, 2.0], [-1.0, 2.0]]}, "valuations must lie in [0, 10], got -1.0"),
    ({"valuations": 2.0}, "valuations must hold at least one seller, got shape ()"),
    ({"max_mse": 0.0}, "max_mse must be positive and finite, got 0.0"),
    ({"ceiling": 0.0}, "ceiling must be positive and finite, got 0.0"),
    ({"power": 0.5}, "power must be finite and at least 1 (a convex cost), got 0.5"),
]


@pytest.mark.parametrize("rule", [equal_loss_pricing, vcg_contract, unbiased_pricing, pivot_costs])
@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_input_is_refused(rule: Any, change: dict[str, Any], message: str) -> None:
    rule(**GOOD)
    with pytest.raises(ValueError, match=re.escape(message)):
        rule(**{**GOOD, **change})


@pytest.mark.parametrize("power", POWERS)
def test_a_limit_is_no_contract(power: float) -> None:
    """Two of four at 0 just reach K = 1 without noise; three, or an accuracy a little lower, do not need the limit."""
    with pytest.raises(ValueError, match="sellers at 0 reach the accuracy only with infinite loss"):
        vcg_contract([0.0, 1.0, 0.0, 2.0], 1.0, 10.0, power=power)
    for v, K in (([0.0, 1.0, 0.0, 0.0], 1.0), ([0.0, 1.0, 0.0, 2.0], 1.01), ([0.0, 1.0, 0.0, 2.0], 0.99)):
        assert np.isfinite(vcg_contract(v, K, 10.0, power=power).payments).all()


def test_reports_outside_the_law_are_refused() -> None:
    for v in ([0.4, 0.7], [0.6, 1.1]):
        with pytest.raises(ValueError, match=r"must lie in"):
            myerson_contract(v, 0.3, stats.uniform(0.5, 0.5), power=2)


@pytest.mark.parametrize("ironed", [False, True])
def test_a_mechanism_says_which_error_it_keeps(ironed: bool) -> None:
    found = myerson_contract([0.2, 0.6, 0.5], 0.3, stats.uniform(0, 1), power=2.0, ironed=ironed)
    assert found.error == 0.3
