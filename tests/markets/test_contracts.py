"""Least-cost contracts: the exact solver against a conic solver and grids.

`complaints` looks at a solver in every way that a wrong one would show: shares, accuracy, losses, cost, optimality. The
mutants prove that each look can object.
"""

from __future__ import annotations

import functools
import math
import re
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from hdpm_book.contracts.study import conic_power, unbiased_contract, unbiased_pricing
from hdpm_lib.markets import contracts
from hdpm_lib.markets.contracts import equal_loss_contract, least_cost_contract
from hdpm_lib.markets.mechanisms import equal_loss_pricing, vcg_contract
from hdpm_lib.markets.outcome import Contract
from tests.support import KINDS, generator, valuations

POWERS = (1.0, 1.5, 2.0, 3.0)
FIELDS = ("shares", "scale", "privacy_loss", "cost")
Solver = Callable[..., Contract]


@functools.cache
def instances(count: int = 256) -> list[tuple[np.ndarray, float, float]]:
    """Markets of 2 to 50 sellers with `K` from a thousandth of n^2/4 to just below it."""
    rng, found = generator(41), []
    for i in range(count):
        n = int(rng.integers(2, 51))
        K = 10 ** rng.uniform(-3, math.log10(0.999)) * n**2 / 4
        found.append((valuations(KINDS[i // 4 % 4], n, rng), K, POWERS[i % 4]))
    return found


def oracle_cost(*market: Any, **options: Any) -> float:
    """What the conic solver finds; not-a-number, which compares with nothing, where it gives up on heavy tails."""
    try:
        return float(conic_power(*market, **options).cost)
    except RuntimeError:
        return math.nan


@functools.cache
def oracle_costs() -> list[float]:
    found = [oracle_cost(v, K, power=r) for v, K, r in instances()]
    assert np.isnan(found).mean() < 0.01
    return found


def worst_mse(found: Contract, ranges: Any = 1.0) -> np.ndarray:
    return ((ranges * (1 - found.shares)).sum(-1) / 2) ** 2 + 2 * found.scale**2


def kkt_residual(best: Contract, v: Any, K: float, *, power: float) -> np.ndarray:
    r"""How far a contract is from the conditions that single out the optimum, of shape (...); 0 means optimal.

    It is the largest of the error of the accuracy constraint over `K` and, with :math:`C=\sum va^r`, the amount by
    which :math:`v_ka_k^{r-1}(4K-T^2)` differs from :math:`TC`, or lies on the wrong side of it where :math:`a_k` is 0
    or 1, over the largest of their terms. Below :math:`K\approx10^{-3}n^2/4`, where `T` is small, the rounding of the
    shares shows.
    """
    v, r, T = np.asarray(v, dtype=float), power, (1 - best.shares).sum(-1, keepdims=True)
    most = best.shares.max(-1, keepdims=True)
    a = best.shares / np.where(most > 0, most, 1.0)  # the conditions scale; powers of small shares underflow
    accuracy = np.abs((T[..., 0] / 2) ** 2 + 2 * best.scale**2 - K) / K
    tiny = np.finfo(float).tiny if r > 1 else 0.0  # a share of 0 is then one too small for a float
    marginal = v * np.maximum(a, tiny) ** (r - 1)
    trade = T * most * (v * a**r).sum(-1, keepdims=True)
    gap = marginal * (4 * K - T**2) - trade
    gap = np.where(best.shares >= 1, np.maximum(gap, 0), np.where(a <= tiny, np.maximum(-gap, 0), np.abs(gap)))
    size = np.maximum((4 * K * marginal + T**2 * marginal).max(-1, keepdims=True), trade)
    stationarity = np.divide(gap, size, out=np.zeros_like(gap), where=size > 0).max(-1)
    return np.asarray(np.maximum(accuracy, stationarity))


def repaired(shares: np.ndarray, v: np.ndarray, K: float, r: float) -> Contract:
    """These shares with the noise that makes the accuracy exact."""
    scale = np.sqrt((K - ((1 - shares).sum() / 2) ** 2) / 2)
    return Contract(shares / scale, cost=np.asarray(v @ (shares / scale) ** r), shares=shares, scale=np.asarray(scale))


# --- the exact solver -------------------------------------------------------------------------------------------------


def complaints(solve: Solver, count: int = 256) -> dict[str, int]:
    """In how many of the first `count` markets each look objects."""
    found: dict[str, int] = {}
    for (v, K, r), oracle in list(zip(instances(), oracle_costs(), strict=True))[:count]:
        best = solve(v, K, power=r)
        looks = {
            "share": ((best.shares < 0) | (best.shares > 1)).any(),
            "accuracy": abs(worst_mse(best) / K - 1) > 1e-12,
            "loss": not np.allclose(best.privacy_loss * best.scale, best.shares, rtol=1e-12, atol=0),
            "cost": not math.isclose(float(v @ best.privacy_loss**r), best.cost, rel_tol=1e-10),
            "above the oracle": best.cost > oracle * (1 + 1e-6),
            "below the oracle": best.cost < oracle * (1 - 1e-6),
            "optimality": kkt_residual(best, v, K, power=r) > 1e-12,
        }
        for name in (name for name, objects in looks.items() if objects):
            found[name] = found.get(name, 0) + 1
    return found


def test_exact_solver_is_optimal() -> None:
    assert complaints(least_cost_contract) == {}


def moved_threshold(factor: float) -> Solver:
    """The exact solver, but for a threshold that is off by that factor."""

    def solve(v: np.ndarray, K: float, *, power: float) -> Contract:
        shares = least_cost_contract(v, K, power=power).shares
        moved = shares * factor ** (1 / (power - 1) if power > 1 else 1)
        return repaired(np.where(shares < 1, np.minimum(moved, 1), 1.0), v, K, power)

    return solve


def scaled(**factors: float) -> Solver:
    def solve(v: np.ndarray, K: float, *, power: float) -> Contract:
        best = least_cost_contract(v, K, power=power)
        return replace(best, **{name: factor * getattr(best, name) for name, factor in factors.items()})

    return solve


@pytest.mark.parametrize(
    ("look", "mutant", "share"),
    [
        ("above the oracle", moved_threshold(1.01), 0.4),
        ("above the oracle", moved_threshold(1 / 1.01), 0.4),
        ("optimality", moved_threshold(1.01), 0.7),
        ("optimality", moved_threshold(1 / 1.01), 0.7),
        ("above the oracle", lambda v, K, power: repaired(equal_loss_contract(len(v), K).shares, v, K, power), 0.5),
        ("below the oracle", lambda v, K, power: repaired(np.ones(len(v)), v, 2 * K, power), 0.05),
        ("accuracy", scaled(scale=1.001), 0.9),
        ("accuracy", scaled(scale=0.999, privacy_loss=1 / 0.999), 0.9),
        ("loss", scaled(privacy_loss=1.001), 0.9),
        ("cost", scaled(cost=1.001), 0.7),
        ("share", scaled(shares=1.001, privacy_loss=1.001), 0.5),
    ],
)
def test_wrong_solver_is_caught(look: str, mutant: Solver, share: float) -> None:
    assert complaints(mutant, 128).get(look, 0) > share * 128


def test_residual_flags_what_is_not_optimal() -> None:
    v, K = np.array([1.0, 10.0]), 0.3
    best = least_cost_contract(v, K, power=2)
    assert kkt_residual(best, v, K, power=2) < 1e-14
    for moved in ([1.0, 0.201], [1.0, 0.199], [0.999, 0.2], [1.0, 0.0]):
        assert kkt_residual(repaired(np.array(moved), v, K, 2), v, K, power=2) > 5e-4
    assert kkt_residual(replace(best, scale=best.scale * 1.001), v, K, power=2) > 1e-4
    assert kkt_residual(repaired(np.ones(2), v, K, 2), v, K, power=2) > 0.1
    assert kkt_residual(best, v, K, power=3) > 0.1
    assert kkt_residual(best, v[::-1], K, power=2) > 0.1


def gain_of_nudges(best: Contract, v: np.ndarray, K: float, r: float) -> float:
    """Largest relative gain of moving one share by a hundredth of itself, or away from 0; for shares that underflow."""
    gains = []
    for k, share in enumerate(best.shares):
        for moved in (share * 0.99, min(share * 1.01, 1.0), max(share, 1e-6)):
            shares = best.shares.copy()
            shares[k] = moved
            if ((1 - shares).sum() / 2) ** 2 < K:
                with np.errstate(over="ignore"):
                    gains.append(1 - float(repaired(shares, v, K, r).cost / best.cost))
    return max(gains)


def least_on_grid(n: int, K: float, points: int, *cases: tuple[np.ndarray, float]) -> list[float]:
    """For valuations and powers the least cost over shares on a grid, with the noise that the accuracy asks for."""
    a = np.stack(np.meshgrid(*[np.linspace(0, 1, points)] * n, indexing="ij"), -1).reshape(-1, n)
    scale2 = (K - ((1 - a).sum(-1) / 2) ** 2) / 2
    a, scale = a[scale2 > 0], np.sqrt(scale2[scale2 > 0])
    return [float(((a**r @ v) / scale**r).min()) for v, r in cases]


@pytest.mark.parametrize(("n", "points"), [(1, 20_001), (2, 401), (3, 51)])
def test_grid_is_never_better(n: int, points: int) -> None:
    rng = generator(42, n)
    for part in (0.1, 0.5, 0.9):
        K = part * n**2 / 4
        cases = [(valuations(kind, n, rng), r) for kind in KINDS for r in (*POWERS, 6.0)]
        for (v, r), grid in zip(cases, least_on_grid(n, K, points, *cases), strict=True):
            best = float(least_cost_contract(v, K, power=r).cost)
            assert best <= grid * (1 + 1e-12)
            assert grid <= best * 1.4 + 1e-12  # not so coarse that it could say nothing


# --- many sellers -----------------------------------------------------------------------------------------------------


def large_complaints() -> int:
    """In how many of 32 large markets the conditions of the optimum, or a sort and a scan of all sellers, object."""
    rng, found = generator(52), 0
    for i, (kind, r) in enumerate((kind, r) for kind in KINDS for r in (*POWERS, 1.01, 7.0, 1.0, 2.0)):
        n = int(10 ** rng.uniform(3.1, 5))
        v, q = valuations(kind, n, rng), rng.lognormal(0, 1, n) if i % 2 else np.ones(n)
        K = 10 ** rng.uniform(-2, math.log10(0.99)) * q.sum() ** 2 / 4
        best = least_cost_contract(v, K, power=r, ranges=q)
        u = v * q ** (r - 1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(contracts, "FEW", n)
            plain = least_cost_contract(v, K, power=r, ranges=q)
        objects = kkt_residual(best, v, K, power=r) > 1e-12 if not i % 2 else worst_mse(best, q) > K * (1 + 1e-12)
        objects |= any(
            not np.allclose(getattr(best, name), getattr(plain, name), rtol=1e-10, atol=1e-14 * n) for name in FIELDS
        )
        threshold = (u * best.shares ** (r - 1))[best.shares < 1]  # the same for all below the cap
        if r in (1.5, 2.0, 3.0) and len(threshold) and threshold.min() > 0:
            objects |= bool(threshold.max() > threshold.min() * (1 + 1e-10))
        found += bool(objects)
    return found


def test_many_sellers() -> None:
    """Most of them are counted together before anybody is sorted."""
    assert large_complaints() == 0


@pytest.mark.parametrize("power", POWERS)
def test_many_sellers_against_the_oracle(power: float) -> None:
    for kind in KINDS:
        v, K = valuations(kind, 1500, generator(54)), 0.2 * 1500**2 / 4
        cost = least_cost_contract(v, K, power=power).cost
        assert cost == pytest.approx(oracle_cost(v, K, power=power), rel=1e-6)
        assert cost != pytest.approx(oracle_cost(v, 1.01 * K, power=power), rel=1e-4)


@pytest.mark.parametrize("few", [4, 7])
def test_few_sellers_as_if_many(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contracts, "FEW", few)
    assert complaints(least_cost_contract) == {}
    for power in (1.0, 1.01, 1.1, 2.0, 3.0):
        test_heavy_tails_do_not_overflow(power, 7.3)
    for power in POWERS:
        test_ranges_against_the_oracle(power)
        test_sellers_who_ask_nothing(power)


def without_those_above(u: np.ndarray, q: np.ndarray, K: float, r: float) -> tuple[np.ndarray, np.ndarray]:
    return np.append(u[u < 0.5], 0.5), np.append(q[u < 0.5], q[u >= 0.5].sum())


def without_those_at_the_cap(u: np.ndarray, q: np.ndarray, K: float, r: float) -> tuple[np.ndarray, np.ndarray]:
    return u[u > 0.01], q[u > 0.01]


@pytest.mark.parametrize("broken", [without_those_above, without_those_at_the_cap])
def test_wrong_stand_ins_are_caught(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contracts, "_condensed", broken)
    assert large_complaints() > 8


def test_large_markets_in_a_batch() -> None:
    v = generator(53).random((2, 3, 1500))
    for power in POWERS:
        batch = least_cost_contract(v, 1500**2 / 16, power=power)
        for i in np.ndindex(2, 3):
            one = least_cost_contract(v[i], 1500**2 / 16, power=power)
            for field in FIELDS:
                np.testing.assert_allclose(getattr(batch, field)[i], getattr(one, field), rtol=1e-13)


# --- its symmetries ---------------------------------------------------------------------------------------------------


def markets(rng: np.random.Generator) -> np.ndarray:
    """A batch of shape (2, 20, 8) with ties, zeros that suffice, that just do (5 of 8 at K = 9/4) and that do not."""
    v = np.stack([valuations(KINDS[i % 4], 8, rng) for i in range(40)]).reshape(2, 20, 8)
    v[0, :4] = 0.1 + rng.random((4, 8))
    v[0, 0], v[0, 1, :7], v[0, 2, :5], v[0, 3, :3], v[0, 4] = 0.0, 0.0, 0.0, 0.0, 2.0
    return v


@pytest.mark.parametrize("power", [*POWERS, 1.01, 7.0])
def test_batches_and_permutations(power: float) -> None:
    rng = generator(43)
    v = markets(rng)
    batch, order = least_cost_contract(v, 2.25, power=power), rng.permutation(8)
    assert batch.scale[0, 2] == 0 and (batch.privacy_loss[0, 2] == np.inf).any()
    permuted = least_cost_contract(v[..., order], 2.25, power=power)
    for field in FIELDS:
        found = getattr(batch, field)
        assert found.shape == ((2, 20, 8) if field in ("shares", "privacy_loss") else (2, 20))
        np.testing.assert_array_equal(getattr(permuted, field), found[..., order] if found.ndim == 3 else found)
        for i in np.ndindex(2, 20):
            np.testing.assert_allclose(
                getattr(least_cost_contract(v[i], 2.25, power=power), field), found[i], rtol=1e-14
            )


@pytest.mark.parametrize("power", POWERS)
def test_scaling(power: float) -> None:
    """Cost is homogeneous in the valuations. `c` copies of every seller at `c^2 K` have the same shares."""
    v = markets(generator(44))
    best = least_cost_contract(v, 2.25, power=power)
    for factor in (8.0, 1e-5, 7e9):
        found = least_cost_contract(factor * v, 2.25, power=power)
        np.testing.assert_allclose(found.shares, best.shares, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found.scale, best.scale, rtol=1e-12)
        np.testing.assert_allclose(found.cost, factor * best.cost, rtol=1e-12)
    copies = least_cost_contract(np.repeat(v, 3, axis=-1), 9 * 2.25, power=power)
    np.testing.assert_allclose(copies.shares, np.repeat(best.shares, 3, axis=-1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(copies.scale, 3 * best.scale, rtol=1e-12)
    np.testing.assert_allclose(copies.cost, 3 ** (1 - power) * best.cost, rtol=1e-12)


@pytest.mark.parametrize("power", [*POWERS, 7.0])
@pytest.mark.parametrize(("n", "K"), [(1, 0.1), (2, 0.25), (9, 3.0), (100, 2400.0)])
def test_equal_valuations_get_equal_losses(power: float, n: int, K: float) -> None:
    best, same = least_cost_contract(np.full(n, 3.0), K, power=power), equal_loss_contract(n, K)
    for field in ("shares", "scale", "privacy_loss"):
        np.testing.assert_allclose(getattr(best, field), getattr(same, field), rtol=1e-12)
    assert best.cost == pytest.approx(3 * n * (math.sqrt(2 * n**2 / K - 8) / n) ** power, rel=1e-12)


@pytest.mark.parametrize("excess", [1e-3, 1e-6, 1e-9])
def test_power_one_is_the_limit(excess: float) -> None:
    """Also between equal valuations, where power 1 leaves the split open. Rounding counts 1/(r-1) times in a share."""
    slack = 3 * excess + 1e-15 / excess
    for v in ([1.0, 1.5, 2.0, 3.0], [1.0, 1.0, 2.0, 3.0], [0.0, 2.0, 2.0, 2.0], [1.0, 2.0, 2.0, 5.0]):
        for K in (0.3, 1.0, 2.5, 3.9):
            limit, near = least_cost_contract(v, K, power=1), least_cost_contract(v, K, power=1 + excess)
            np.testing.assert_allclose(near.shares, limit.shares, atol=slack)
            assert near.cost == pytest.approx(limit.cost, rel=slack)


# --- ranges -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", POWERS)
def test_ranges_against_the_oracle(power: float) -> None:
    rng = generator(45)
    for kind in KINDS * 5:
        n = int(rng.integers(2, 20))
        v, q = valuations(kind, n, rng), rng.lognormal(0, 1, n)
        K = rng.uniform(0.01, 0.99) * q.sum() ** 2 / 4
        best = least_cost_contract(v, K, power=power, ranges=q)
        for spelt_out in ({}, {"sensitivity": np.diag(q)}):
            oracle = oracle_cost(v, K, power=power, ranges=q, **spelt_out)
            assert math.isnan(oracle) or best.cost == pytest.approx(oracle, rel=1e-6)
        assert worst_mse(best, q) == pytest.approx(K, rel=1e-12)
        np.testing.assert_allclose(best.privacy_loss, q * best.shares / best.scale, rtol=1e-12)
        assert v @ best.privacy_loss**power == pytest.approx(best.cost, rel=1e-10)


@pytest.mark.parametrize("power", POWERS)
def test_a_long_range_is_that_of_many_sellers(power: float) -> None:
    """A seller with range q equals q sellers with range 1 and valuation `v q^(r-1)`: at power 1, with her own."""
    rng = generator(46)
    for kind in KINDS * 5:
        v, q = valuations(kind, 6, rng), rng.integers(1, 5, 6)
        K = rng.uniform(0.01, 0.99) * q.sum() ** 2 / 4
        one = least_cost_contract(v, K, power=power, ranges=q)
        many = least_cost_contract(np.repeat(v * q ** (power - 1.0), q), K, power=power)
        np.testing.assert_allclose(np.repeat(one.shares, q), many.shares, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(one.scale, many.scale, rtol=1e-11)
        np.testing.assert_allclose(one.cost, many.cost, rtol=1e-11)
        longer = least_cost_contract(v, 49 * K, power=power, ranges=7 * q)
        np.testing.assert_allclose(longer.shares, one.shares, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose([longer.scale, longer.cost], [7 * one.scale, one.cost], rtol=1e-11)
    even = [least_cost_contract(v, 1.0, power=power, ranges=ranges) for ranges in (None, np.ones(6))]
    np.testing.assert_array_equal(even[0].privacy_loss, even[1].privacy_loss)


# --- the ends ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", POWERS)
def test_sellers_who_ask_nothing(power: float) -> None:
    v = np.array([0.0, 1.0, 0.0, 3.0])
    enough = least_cost_contract(v, 1.3, power=power)
    assert enough.cost == 0 and (enough.shares == (v == 0)).all() and (enough.privacy_loss[[1, 3]] == 0).all()
    assert worst_mse(enough) == pytest.approx(1.3) and np.isfinite(enough.privacy_loss).all()
    limit = least_cost_contract(v, 1.0, power=power)
    assert limit.cost == limit.scale == 0 and (limit.privacy_loss == [np.inf, 0, np.inf, 0]).all()
    short = least_cost_contract(v, 0.99, power=power)
    assert short.cost > 0 and short.scale > 0 and (short.shares[[0, 2]] == 1).all()
    assert kkt_residual(short, v, 0.99, power=power) < 1e-12
    free = least_cost_contract(np.zeros(3), 0.5, power=power)
    assert free.cost == 0 and (free.shares == 1).all() and worst_mse(free) == pytest.approx(0.5)


@pytest.mark.parametrize("power", POWERS)
def test_cost_is_continuous_at_the_limit(power: float) -> None:
    """The cost goes to 0 as two sellers who ask nothing come to suffice at K = 1, and so does the scale."""
    costs, scales = [], []
    for gap in (1e-2, 1e-4, 1e-6, 1e-8):
        short = least_cost_contract([0.0, 1.0, 0.0, 3.0], 1 - gap, power=power)
        costs.append(float(short.cost))
        scales.append(float(short.scale))
    assert all(np.diff(costs) < 0) and all(np.diff(scales) < 0) and scales[-1] < 1e-3


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("ranges", [None, [1.0, 2.0, 0.5]])
def test_nobody_is_needed(power: float, ranges: Any) -> None:
    limit = (sum(ranges or [1, 1, 1]) / 2) ** 2
    for K in (limit, limit + 0.1, 100.0):
        found = least_cost_contract([1.0, 0.0, 2.0], K, power=power, ranges=ranges)
        assert (found.shares == 0).all() and (found.privacy_loss == 0).all() and found.cost == 0
        assert worst_mse(found, ranges or 1.0) == pytest.approx(K, rel=1e-15)
    batch = least_cost_contract(np.ones((2, 5, 3)), 3.0, power=power)
    assert batch.shares.shape == batch.privacy_loss.shape == (2, 5, 3) and batch.scale.shape == batch.cost.shape == (
        2,
        5,
    )
    assert least_cost_contract(np.ones(3), 2.25, power=power).scale == 0


@pytest.mark.parametrize("spread", [1e3, 1e6, 1e9, 1e12, 1e15, 1e17, 1e60, 1e200])
@pytest.mark.parametrize("power", [1.0, 1.01, 1.5, 2.0, 3.0])
def test_valuations_far_apart(spread: float, power: float) -> None:
    """v = (0.3, 0.3 spread), K = 0.3: as the spread grows, the first seller alone remains, at b^2 = (K - 1/4)/2."""
    v = np.array([0.3, 0.3 * spread])
    best = least_cost_contract(v, 0.3, power=power)
    assert best.shares[0] == 1 and worst_mse(best) == pytest.approx(0.3, rel=1e-12)
    assert gain_of_nudges(best, v, 0.3, power) < 1e-12
    vanishing = 0.0 if power == 1 else 400 * spread ** -(1 / (power - 1))
    assert best.cost == pytest.approx(0.3 / math.sqrt(0.025) ** power, rel=vanishing + 1e-12)


@pytest.mark.parametrize("power", [1.0, 1.01, 1.1, 2.0, 3.0])
@pytest.mark.parametrize("K", [1.1, 7.3, 30.0, 410.0])
def test_heavy_tails_do_not_overflow(power: float, K: float) -> None:
    """Valuations from 1e-200 to 1e200: shares underflow, and nothing else does."""
    v = 10.0 ** np.linspace(-200, 200, 41)[generator(47).permutation(41)]
    best = least_cost_contract(v, K, power=power)
    assert np.isfinite(best.privacy_loss).all() and np.isfinite(best.cost) and best.cost > 0
    assert worst_mse(best) == pytest.approx(K, rel=1e-12)
    assert v @ best.privacy_loss**power == pytest.approx(best.cost, rel=1e-9)
    assert gain_of_nudges(best, v, K, power) < 1e-12


@pytest.mark.parametrize("power", POWERS)
def test_million_sellers(power: float) -> None:
    n, spent = 10**6, []
    v, K = generator(48).random(n), n**2 / 16
    for _ in range(3):
        start = time.perf_counter()
        best = least_cost_contract(v, K, power=power)
        spent.append(time.perf_counter() - start)
    assert kkt_residual(best, v, K, power=power) < 1e-12
    assert statistics.median(spent) < 2


# --- Principle 1 and the unbiased answer ------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "part"), [(1, 0.3), (2, 0.25), (2, 0.999), (10, 0.001), (10, 0.2), (10, 0.9)])
def test_principle1_minimises_the_loss(n: int, part: float) -> None:
    """Problem (5), and with unequal shares nobody's largest loss is smaller."""
    K = part * n**2 / 4
    found = equal_loss_contract(n, K)

    def loss(share: float) -> float:
        scale2 = (K - (n * (1 - share) / 2) ** 2) / 2
        return share / math.sqrt(scale2) if scale2 > 0 else math.inf

    least = max(1 - 2 * math.sqrt(K) / n, 0) + 1e-12
    searched = optimize.minimize_scalar(loss, bounds=(least, 1), method="bounded", options={"xatol": 1e-10})
    assert found.privacy_loss[0] == pytest.approx(searched.fun, rel=1e-9) and found.privacy_loss[0] <= searched.fun * (
        1 + 1e-12
    )
    assert found.shares[0] == pytest.approx(searched.x, abs=1e-4)
    assert worst_mse(found) == pytest.approx(K, rel=1e-12)
    assert found.cost == pytest.approx(n * math.sqrt((2 * n**2 - 8 * K) / K) / n, rel=1e-10)
    np.testing.assert_allclose(found.privacy_loss, found.shares / found.scale, rtol=1e-12)
    assert loss(1 - 2 * K / n**2) > found.privacy_loss[0] * (1 + 1e-4 * part)  # with 4K for 8K, as the appendix reads
    a = 1 - generator(49, n).random((2000, n)) * 2 * math.sqrt(K) / n
    a = a[a.min(-1) >= 0]
    unequal = a.max(-1) / np.sqrt((K - ((1 - a).sum(-1) / 2) ** 2) / 2)
    assert unequal.min() >= found.privacy_loss[0] * (1 - 1e-12)


def test_closed_forms() -> None:
    """Section VII-A, and the accuracies from which on nobody is needed."""
    found = equal_loss_contract(2, 0.25)
    np.testing.assert_allclose(found.shares, 0.75)
    assert found.scale == pytest.approx(math.sqrt(1.5) / 4) and found.cost == pytest.approx(2 * math.sqrt(6))
    for K in (1.0, 1.5):
        free = equal_loss_contract(2, K)
        assert free.cost == 0 and (free.privacy_loss == 0).all() and worst_mse(free) == pytest.approx(K)
    plain = unbiased_contract(2, 0.25)
    assert (plain.shares == 1).all() and worst_mse(plain) == pytest.approx(0.25)
    np.testing.assert_allclose(plain.privacy_loss, math.sqrt(8))
    assert plain.cost == pytest.approx(2 * math.sqrt(8))


# --- what is refused --------------------------------------------------------------------------------------------------

GOOD: dict[str, Any] = {"valuations": [1.0, 2.0], "max_mse": 0.3, "power": 2.0}
BAD: list[tuple[dict[str, Any], str]] = [
    ({"valuations": [1.0, -0.5]}, "valuations must be finite and not negative, got -0.5"),
    ({"valuations": 2.0}, "valuations must hold at least one seller, got shape ()"),
    ({"max_mse": 0.0}, "max_mse must be positive and finite, got 0.0"),
    ({"power": 0.99}, "power must be finite and at least 1 (a convex cost), got 0.99"),
    ({"ranges": [1.0]}, "ranges must have shape (2,), got (1,)"),
    ({"ranges": [[1.0, 1.0]]}, "ranges must have 1 dimension(s), got shape (1, 2)"),
    ({"ranges": [1.0, 0.0]}, "ranges must be positive and finite, got 0.0"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_exact_solver_refuses(change: dict[str, Any], message: str) -> None:
    least_cost_contract(**GOOD)
    with pytest.raises(ValueError, match=re.escape(message)):
        least_cost_contract(**{**GOOD, **change})


FAR = [(1e-200, 1e200), (1e-250, 1e100), (1e-160, 1e160)]


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0, 3.0, 50.0])
@pytest.mark.parametrize("K", [0.2, 0.3])
@pytest.mark.parametrize("v", FAR)
def test_ratios_beyond_the_range_of_floats(v: tuple[float, float], K: float, power: float) -> None:
    """With two sellers so far apart the dear one adds what the cheap one's free data leave to want, or nothing."""
    best = least_cost_contract(v, K, power=power)
    assert worst_mse(best) == pytest.approx(K, rel=1e-12)
    share = max(1 - 4 * K, 0)  # for one seller alone; 0 where the cheap one's data are enough
    scale = np.sqrt((K - ((1 - share) / 2) ** 2) / 2)
    alone = np.log(v[1 if share else 0]) + power * np.log((share or 1) / scale)
    if power < 10:
        assert np.log(best.cost) == pytest.approx(alone, abs=1e-9)
    shares = np.append(np.linspace(max(0, 1 - 2 * np.sqrt(K)), 1, 2001)[1:], share + 1e-300)
    scales = np.sqrt((K - ((1 - shares) / 2) ** 2) / 2)
    logs = np.logaddexp(np.log(v[0]) - power * np.log(scales), np.log(v[1]) + power * np.log(shares / scales))
    assert np.log(best.cost) <= logs.min() + 1e-9


@pytest.mark.parametrize("power", [20.0, 200.0, 2000.0])
def test_high_powers_do_not_underflow(power: float) -> None:
    """The higher the power, the closer to equal losses; the share to the power r - 1 is too small for a float."""
    best = least_cost_contract([1, 2], 0.99, power=power)
    np.testing.assert_allclose(best.shares, equal_loss_contract(2, 0.99).shares, rtol=2 / power)
    np.testing.assert_allclose(best.shares[0] / best.shares[1], 2 ** (1 / (power - 1)), rtol=1e-12)
    assert worst_mse(best) == pytest.approx(0.99, rel=1e-12)
    assert kkt_residual(best, [1, 2], 0.99, power=power) < 1e-9
    assert kkt_residual(replace(best, shares=best.shares[::-1]), [1, 2], 0.99, power=power) > 1e-3


def test_costs_beyond_floats_are_refused() -> None:
    best = least_cost_contract([1e-300, 2e-300], 1e-300, power=3)
    assert best.cost == pytest.approx(3 * np.sqrt(8) * 1e150)
    for call in (
        lambda: least_cost_contract([1, 2], 1e-300, power=3),
        lambda: equal_loss_pricing([1, 2], 1e-300, 10, power=3),
        lambda: unbiased_pricing([1, 2], 1e-300, 10, power=3),
        lambda: vcg_contract([1, 2], 1e-300, 10, power=3),
    ):
        with pytest.raises(ValueError, match=r"^max_mse = 1e-300 at power = 3 gives"):
            call()
    for call in (
        lambda: least_cost_contract([1, 1e308], 0.3, power=2),
        lambda: vcg_contract([1, 2], 0.3, 1e308, power=2),
    ):
        with pytest.raises(ValueError, match=r"^(valuations|ceiling)"):
            call()
