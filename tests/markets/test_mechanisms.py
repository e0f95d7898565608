"""The contract paper's mechanisms: payments by three roads. That nobody gains by lying:
contracts/mechanisms.md.
"""

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
from hdpm_lib.markets import costs, mechanisms
from hdpm_lib.markets.contracts import least_cost_contract
from hdpm_lib.markets.costs import ironed_virtual_valuation, virtual_valuation
from hdpm_lib.markets.incentives import search_misreports
from hdpm_lib.markets.mechanisms import (
    equal_loss_pricing,
    myerson_contract,
    pivot_costs,
    vcg_contract,
)
from hdpm_lib.markets.payments import envelope_payments, vcg_payments, with_own_report
from tests.support import KINDS, generator, valuations

POWERS = (1.0, 1.5, 2.0, 3.0)
RULES = (equal_loss_pricing, vcg_contract, unbiased_pricing)


def profile(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Valuations in [0, 1]; ties at the ceiling too, and tails over many orders of magnitude."""
    v = valuations(kind, n, rng)
    return v / 3 if kind == "ties" else rng.random(n) ** 12 if kind == "heavy" else v


def market(
    K: float, r: float
) -> tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]:
    """Amounts `epsilon^r` and least cost of Principle 2."""
    return (
        lambda v: least_cost_contract(v, K, power=r).privacy_loss ** r,
        lambda v: least_cost_contract(v, K, power=r).cost,
    )


# --- M2: three roads to its payments ------------------------------------------------------------


@pytest.mark.parametrize("power", [*POWERS, 1.01, 7.0])
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_m2_pays_vcg(power: float, n: int) -> None:
    """And the pivots are the least costs of replaced profiles."""
    rng = generator(72, n)
    v = np.stack([profile(kind, n, rng) for kind in KINDS * 3])
    v[0], v[1] = 0.0, 1.0
    for part in (0.003, 0.2, 0.77, 0.99):
        K = part * n**2 / 4
        found = vcg_contract(v, K, 1.0, power=power)
        np.testing.assert_array_equal(
            found.privacy_loss, least_cost_contract(v, K, power=power).privacy_loss
        )
        for row, pivots, paid in zip(
            v, pivot_costs(v, K, 1.0, power=power), found.payments, strict=True
        ):
            expected = least_cost_contract(with_own_report(row, 1.0), K, power=power).cost
            np.testing.assert_allclose(pivots, expected, rtol=1e-9, atol=1e-13 * expected.max())
            vcg = vcg_payments(row, 1.0, *market(K, power))
            np.testing.assert_allclose(paid, vcg, rtol=1e-10, atol=1e-10 * vcg.max())


@pytest.mark.parametrize("power", [1.5, 2.0, 3.0])
def test_m2_pays_the_envelope(power: float) -> None:
    rng = generator(71, 2)
    # heavy tails have peaks too narrow to add up
    for kind in ("uniform", "ties", "zeros") * (3 if power == 2 else 1):
        v = profile(kind, int(rng.integers(1, 5)), rng)
        K = rng.uniform(0.01, 0.99) * len(v) ** 2 / 4
        found = vcg_contract(v, K, 1.0, power=power).payments
        envelope = envelope_payments(v, 1.0, market(K, power)[0], tolerance=1e-7)
        np.testing.assert_allclose(found, envelope, rtol=0, atol=1e-6 * found.max() + 1e-15)


def test_pivots_of_many_sellers() -> None:
    """The least costs of profiles replaced one by one."""
    rng = generator(77)
    for i in range(24):
        n = int(10 ** rng.uniform(3, 4.5))
        power = (*POWERS, 1.01, 7.0)[i % 6]
        v = profile(KINDS[i % 4], n, rng)
        K = 10 ** rng.uniform(-2, math.log10(0.99)) * n**2 / 4
        found = pivot_costs(v, K, 1.0, power=power)
        order = np.argsort(v)
        for k in (*order[[0, 1, n // 4, n // 2, -2, -1]], *rng.integers(n, size=6)):
            changed = v.copy()
            changed[k] = 1.0
            right = float(least_cost_contract(changed, K, power=power).cost)
            # far less than what one seller changes
            assert found[k] == pytest.approx(right, rel=1e-14 * n)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("K", [0.9, 1.0, 1.5])
def test_pivots_of_valuations_far_apart(power: float, K: float) -> None:
    """Without the seller at 1, the costs at the cap are 1e-20 in all: they must not be lost beside
    hers.
    """
    v = np.array([1e-20, 1.0, 5.0])
    expected = least_cost_contract(with_own_report(v, 10.0), K, power=power).cost
    np.testing.assert_allclose(pivot_costs(v, K, 10.0, power=power), expected, rtol=1e-7)
    outcome = vcg_contract(v, K, 10.0, power=power)
    assert (outcome.payments >= v * outcome.privacy_loss**power * (1 - 1e-9)).all()


@pytest.mark.parametrize("rule", RULES)
def test_batches(rule: Any) -> None:
    rng = generator(73)
    v = np.stack([profile(KINDS[i % 4], 5, rng) for i in range(24)]).reshape(2, 12, 5)
    v[0, 0] = 0
    for power in POWERS:
        batch = rule(v, 1.3, 1.0, power=power)
        assert batch.privacy_loss.shape == batch.payments.shape == v.shape and np.shape(
            batch.error
        ) == (2, 12)
        for i in np.ndindex(2, 12):
            order = rng.permutation(5)
            one = rule(v[i][order], 1.3, 1.0, power=power)
            np.testing.assert_allclose(batch.privacy_loss[i][order], one.privacy_loss, rtol=1e-13)
            np.testing.assert_allclose(
                batch.payments[i][order], one.payments, rtol=1e-12, atol=1e-12
            )


# --- M1 and M3 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [*POWERS, 5.0])
@pytest.mark.parametrize(("n", "part"), [(1, 0.5), (2, 0.25), (10, 0.004), (10, 0.96)])
def test_equal_payments(power: float, n: int, part: float) -> None:
    K = part * n**2 / 4
    v = 10 * generator(74, n).random(n)
    first = equal_loss_pricing(v, K, 10.0, power=power)
    third = unbiased_pricing(v, K, 10.0, power=power)
    np.testing.assert_allclose(first.privacy_loss, math.sqrt(2 * n**2 / K - 8) / n, rtol=1e-12)
    np.testing.assert_allclose(
        first.payments, 10 * (math.sqrt(2 * n**2 / K - 8) / n) ** power, rtol=1e-11
    )
    np.testing.assert_allclose(third.privacy_loss, math.sqrt(2 / K), rtol=1e-12)
    np.testing.assert_allclose(third.payments, 10 * (2 / K) ** (power / 2), rtol=1e-11)
    assert (first.payments < third.payments).all()
    if power == 2:
        assert third.payments.sum() - first.payments.sum() == pytest.approx(10 * n * 8 / n**2)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("K", [2.25, 3.0])
def test_nobody_is_needed(power: float, K: float) -> None:
    v = [0.2, 0.0, 1.0]
    free = [rule(v, K, 1.0, power=power) for rule in (equal_loss_pricing, vcg_contract)]
    for outcome in (*free, myerson_contract(v, K, stats.uniform(0, 1), power=power)):
        assert not outcome.payments.any() and not outcome.privacy_loss.any()
    assert not pivot_costs(v, K, 1.0, power=power).any()
    assert (unbiased_pricing(v, K, 1.0, power=power).payments > 0).all()


@pytest.mark.parametrize("n", range(2, 13))
def test_sellers_at_zero_make_m2_dearer_by_a_formula(n: int) -> None:
    """M2 less M1 with z sellers at 0 and m at the ceiling 1, while the m alone do not let the
    others answer.
    """
    for z in range(1, n):
        m = n - z
        v = np.r_[np.zeros(z), np.ones(n - z)]
        for K in np.array([0.3, 0.6, 0.9]) * m**2 / 4:
            m1, m2 = (
                rule(v, K, 1.0, power=2).payments.sum()
                for rule in (equal_loss_pricing, vcg_contract)
            )
            assert abs(m2 - m1 - 8 * z * (z - 1) / (n * m * (m + 1))) < 1e-12 * m1


# --- virtual pricing ----------------------------------------------------------------------------

IRREGULAR = stats.rv_histogram(
    (np.array([0.3, 0.1, 0.6]), np.array([0.0, 0.3, 0.6, 1.0])), density=False
)
LATE = stats.uniform(0.5, 0.5)


@pytest.mark.parametrize(("power", "K"), [(1.0, 0.2), (2.0, 0.7), (3.0, 0.2)])
def test_uniform_from_zero_is_m2(power: float, K: float) -> None:
    v = 10 * generator(76).random(2)
    priced = myerson_contract(v, K, stats.uniform(0, 10), power=power)
    plain = vcg_contract(v, K, 10.0, power=power)
    np.testing.assert_allclose(priced.privacy_loss, plain.privacy_loss, rtol=1e-12)
    np.testing.assert_allclose(priced.payments, plain.payments, atol=3e-6 * plain.payments.max())


@pytest.mark.parametrize(
    ("law", "ironed"), [(LATE, False), (IRREGULAR, True)], ids=["regular", "irregular"]
)
def test_virtual_pricing_is_truthful(
    law: Any, ironed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By quadratures to six digits, as hundreds of them are needed."""
    quick = functools.partial(envelope_payments, tolerance=1e-6)
    monkeypatch.setattr(mechanisms, "envelope_payments", quick)

    def sold(reports: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        outcomes = [myerson_contract(row, 0.5, law, power=2, ironed=ironed) for row in reports]
        return np.array([o.privacy_loss**2 for o in outcomes]), np.array(
            [o.payments for o in outcomes]
        )

    candidates = [np.linspace(max(law.support()[0], 0.01), 0.99, 21)] * 2
    found = search_misreports(sold, np.array([0.55, 0.8]), candidates, refine=False)
    assert found.relative_gain < 1e-5 and found.utility.min() > -1e-5 * found.payment.max()


def test_losses_are_those_at_the_virtual_valuations() -> None:
    """With the least payments: at the highest valuation they are the cost."""
    v = [0.6, 1.0]
    plain, ironed = (
        myerson_contract(v, 0.5, LATE, power=2, ironed=choice) for choice in (False, True)
    )
    np.testing.assert_allclose(ironed.payments, plain.payments, rtol=1e-3)
    priced = myerson_contract(v, 0.5, IRREGULAR, power=2, ironed=True)
    virtual = virtual_valuation(LATE, v), ironed_virtual_valuation(IRREGULAR, v)
    for found, expected in zip((plain, priced), virtual, strict=True):
        np.testing.assert_allclose(
            found.privacy_loss, least_cost_contract(expected, 0.5, power=2).privacy_loss
        )
        assert found.payments[1] == pytest.approx(found.privacy_loss[1] ** 2, rel=1e-9)
        assert (
            found.payments[0] >= 0.6 * found.privacy_loss[0] ** 2
            and found.error == ironed.error == 0.5
        )


def test_ironed_payments_are_the_sum_over_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the middles of 2,000 parts of what the first seller could have reported."""
    for module in (mechanisms, costs):
        monkeypatch.setattr(module, "RESOLUTION", 20)
    sell = functools.partial(myerson_contract, max_mse=0.5, law=IRREGULAR, power=2, ironed=True)
    z = 0.55 + 0.45 * (np.arange(2000) + 0.5) / 2000
    virtual = costs.ironed_virtual_valuation(IRREGULAR, np.stack([z, np.full_like(z, 0.8)], -1))
    above = least_cost_contract(virtual, 0.5, power=2).privacy_loss
    for k in range(0, 2000, 50):  # so it is what the rule sells
        assert sell([z[k], 0.8]).privacy_loss == pytest.approx(above[k], rel=1e-12)
    sold = sell([0.55, 0.8])
    paid = 0.55 * sold.privacy_loss[0] ** 2 + 0.45 * np.mean(above[:, 0] ** 2)
    assert sold.payments[0] == pytest.approx(paid, rel=2e-4)


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [*RULES, pivot_costs])
def test_reports_lie_up_to_the_ceiling(rule: Any) -> None:
    for bad, message in (
        ([[1.0, 2.0], [10.5, 2.0]], "must lie in [0, 10], got 10.5"),
        (2.0, "must hold at least one seller, got shape ()"),
    ):
        with pytest.raises(ValueError, match=re.escape(f"valuations {message}")):
            rule(bad, 0.3, 10.0, power=2.0)


@pytest.mark.parametrize("power", POWERS)
def test_a_limit_is_no_contract(power: float) -> None:
    """Two of four at 0 just reach K = 1 without noise; three, or an accuracy a little lower, do not
    need the limit.
    """
    with pytest.raises(ValueError, match="sellers at 0 reach the accuracy only with infinite loss"):
        vcg_contract([0.0, 1.0, 0.0, 2.0], 1.0, 10.0, power=power)
    for v, K in (
        ([0.0, 1.0, 0.0, 0.0], 1.0),
        ([0.0, 1.0, 0.0, 2.0], 1.01),
        ([0.0, 1.0, 0.0, 2.0], 0.99),
    ):
        assert np.isfinite(vcg_contract(v, K, 10.0, power=power).payments).all()


@pytest.mark.parametrize(
    ("v", "law", "message"),
    [
        ([0.2, 0.7], IRREGULAR, "the law is irregular: its virtual valuation falls at v ="),
        ([0.5, 1.0], stats.beta(2, 2), r"the law has density 0 at 1\.0"),
        ([0.4, 0.7], LATE, "must lie in"),
        ([0.6, 1.1], LATE, "must lie in"),
    ],
)
def test_virtual_pricing_refuses(v: list[float], law: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        myerson_contract(v, 0.5, law, power=2)


@pytest.mark.parametrize("law", [stats.uniform(0, 10), LATE, stats.beta(3, 1)])
def test_affine_virtual_prices_need_no_quadrature(
    law: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are differences of the least virtual cost: what the quadrature finds."""
    v = law.rvs(3, random_state=generator(79))
    by_values = [myerson_contract(v, 0.6, law, power=power) for power in (1.5, 2.0, 3.0)]
    monkeypatch.setattr(mechanisms, "affine_slope", lambda law: None)
    for power, found in zip((1.5, 2.0, 3.0), by_values, strict=True):
        expected = myerson_contract(v, 0.6, law, power=power)
        np.testing.assert_array_equal(found.privacy_loss, expected.privacy_loss)
        np.testing.assert_allclose(found.payments, expected.payments, rtol=1e-8)
    monkeypatch.undo()
    monkeypatch.setattr(mechanisms, "envelope_payments", None)
    many = law.rvs(20_000, random_state=generator(80))
    paid = myerson_contract(many, 1e6, law, power=2.0)
    assert (paid.payments >= many * paid.privacy_loss**2 * (1 - 1e-9)).all()
