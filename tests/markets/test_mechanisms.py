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

from hdpm_book.contracts.study import unbiased_pricing
from hdpm_lib.markets import mechanisms
from hdpm_lib.markets.contracts import least_cost_contract
from hdpm_lib.markets.costs import ironed_virtual_valuation, virtual_valuation
from hdpm_lib.markets.incentives import reports_to_try, search_misreports
from hdpm_lib.markets.mechanisms import equal_loss_pricing, myerson_contract, pivot_costs, vcg_contract
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


def test_pivots_of_many_sellers() -> None:
    """The least costs of profiles replaced one by one."""
    rng = generator(77)
    for i in range(24):
        n, power = int(10 ** rng.uniform(3, 4.5)), (*POWERS, 1.01, 7.0)[i % 6]
        v = profile(KINDS[i % 4], n, rng)
        K = 10 ** rng.uniform(-2, math.log10(0.99)) * n**2 / 4
        found, order = pivot_costs(v, K, 1.0, power=power), np.argsort(v)
        for k in (*order[[0, 1, n // 4, n // 2, -2, -1]], *rng.integers(n, size=6)):
            changed = v.copy()
            changed[k] = 1.0
            right = float(least_cost_contract(changed, K, power=power).cost)
            assert found[k] == pytest.approx(right, rel=1e-14 * n)  # far less than what one seller changes


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


def searched(rule: Callable[..., Outcome], count: int) -> tuple[float, float, int]:
    """Over random markets the largest gain by a lie and the largest loss at truth, over payments; and lies tried."""
    gain, loss, tried = -math.inf, -math.inf, 0
    for i, (v, K) in enumerate(markets(count, 3, largest=8)):
        power = POWERS[i // 4 % 4]

        def sold(reports: np.ndarray, K: float = K, r: float = power) -> tuple[np.ndarray, np.ndarray]:
            outcome = rule(reports, K, 1.0, power=r)
            return outcome.privacy_loss**r, outcome.payments

        found = search_misreports(sold, v, reports_to_try(v, 1.0, grid=201), refine=power in (1, 2))
        if found.payment.max() > 0:
            gain = max(gain, found.relative_gain)
            loss = max(loss, -float(found.utility.min() / found.payment.max()))
        tried += found.tried
    return gain, loss, tried


def test_nobody_gains_by_lying() -> None:
    gain, loss, tried = searched(vcg_contract, 48)
    assert tried >= 30_000 and gain <= 1e-9 and loss <= 1e-9
    for rule in (equal_loss_pricing, unbiased_pricing):
        gain, loss, _ = searched(rule, 16)
        assert gain <= 1e-12 and loss <= 1e-12


@pytest.mark.parametrize(("share", "more", "least"), [(0, 1, -1), (1.01, 0, -1), (1, -0.01, 1e-4)])
def test_wrong_payments_are_caught(share: float, more: float, least: float) -> None:
    """Paid as bid; a hundredth too much; and a hundredth of her cost not refunded."""

    def wrong(v: Any, K: float, top: float, *, power: float) -> Outcome:
        found = vcg_contract(v, K, top, power=power)
        return Outcome(found.privacy_loss, share * found.payments + more * v * found.privacy_loss**power)

    gain, loss, _ = searched(wrong, 16)
    assert gain > 1e-6 and loss > least


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


def test_losses_are_those_at_the_virtual_valuations() -> None:
    """With the least payments: at the highest valuation they are the cost."""
    law, v = stats.uniform(0.5, 0.5), [0.6, 1.0]
    plain, ironed = (myerson_contract(v, 0.5, law, power=2, ironed=choice) for choice in (False, True))
    expected = least_cost_contract(virtual_valuation(law, v), 0.5, power=2)
    np.testing.assert_allclose(plain.privacy_loss, expected.privacy_loss)
    np.testing.assert_allclose(ironed.payments, plain.payments, rtol=1e-3)
    assert plain.payments[1] == pytest.approx(plain.privacy_loss[1] ** 2, rel=1e-9)
    assert plain.error == ironed.error == 0.5
    priced = myerson_contract(v, 0.5, IRREGULAR, power=2, ironed=True)
    expected = least_cost_contract(ironed_virtual_valuation(IRREGULAR, v), 0.5, power=2)
    np.testing.assert_allclose(priced.privacy_loss, expected.privacy_loss)
    assert priced.payments[1] == pytest.approx(priced.privacy_loss[1] ** 2, rel=1e-9)
    assert priced.payments[0] >= 0.6 * priced.privacy_loss[0] ** 2


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [equal_loss_pricing, vcg_contract, unbiased_pricing, pivot_costs])
def test_reports_lie_up_to_the_ceiling(rule: Any) -> None:
    for bad, message in (
        ([1.0, 10.5], "must lie in [0, 10], got 10.5"),
        ([[1.0, 2.0], [-1.0, 2.0]], "must lie in [0, 10], got -1.0"),
        (2.0, "must hold at least one seller, got shape ()"),
    ):
        with pytest.raises(ValueError, match=re.escape(f"valuations {message}")):
            rule(bad, 0.3, 10.0, power=2.0)


@pytest.mark.parametrize("power", POWERS)
def test_a_limit_is_no_contract(power: float) -> None:
    """Two of four at 0 just reach K = 1 without noise; three, or an accuracy a little lower, do not need the limit."""
    with pytest.raises(ValueError, match="sellers at 0 reach the accuracy only with infinite loss"):
        vcg_contract([0.0, 1.0, 0.0, 2.0], 1.0, 10.0, power=power)
    for v, K in (([0.0, 1.0, 0.0, 0.0], 1.0), ([0.0, 1.0, 0.0, 2.0], 1.01), ([0.0, 1.0, 0.0, 2.0], 0.99)):
        assert np.isfinite(vcg_contract(v, K, 10.0, power=power).payments).all()


@pytest.mark.parametrize(
    ("v", "law", "message"),
    [
        ([0.2, 0.7], IRREGULAR, "the law is irregular: its virtual valuation falls at v ="),
        ([0.2, 0.7], stats.beta(0.5, 0.5), "the law is irregular: its virtual valuation falls at v ="),
        ([0.5, 1.0], stats.beta(2, 2), r"the law has density 0 at 1\.0"),
        ([0.4, 0.7], stats.uniform(0.5, 0.5), "must lie in"),
        ([0.6, 1.1], stats.uniform(0.5, 0.5), "must lie in"),
    ],
)
def test_virtual_pricing_refuses(v: list[float], law: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        myerson_contract(v, 0.5, law, power=2)
