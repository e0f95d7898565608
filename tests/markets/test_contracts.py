"""Least-cost contracts: the exact solver against a conic solver, grids, conditions of optimality
and closed forms.
"""

from __future__ import annotations

import functools
import math
import timeit
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from hdpm_book.contracts.study import conic_power, unbiased_pricing
from hdpm_lib.markets.contracts import equal_loss_contract, least_cost_contract
from hdpm_lib.markets.mechanisms import equal_loss_pricing, vcg_contract
from hdpm_lib.markets.outcome import Contract
from tests.support import KINDS, generator, valuations

POWERS = (1.0, 1.5, 2.0, 3.0)
FIELDS = ("shares", "scale", "privacy_loss", "cost")


@functools.cache
def instances(count: int = 256) -> list[tuple[np.ndarray, float, float, np.ndarray]]:
    """Markets of 2 to 50 sellers, half of them with ranges, and `K` of a thousandth to 0.999 of
    what needs nobody.
    """
    rng = generator(41)
    found = []
    for i in range(count):
        n = int(rng.integers(2, 51))
        v = valuations(KINDS[i // 4 % 4], n, rng)
        q = rng.lognormal(0, 1, n) if i // 16 % 2 else np.ones(n)
        found.append(
            (v, 10 ** rng.uniform(-3, math.log10(0.999)) * q.sum() ** 2 / 4, POWERS[i % 4], q)
        )
    return found


@functools.cache
def oracle_costs() -> np.ndarray:
    """What the conic solver finds; not-a-number where it gives up on heavy tails."""
    found = np.full(len(instances()), np.nan)
    for i, (v, K, r, q) in enumerate(instances()):
        with suppress(RuntimeError):
            found[i] = conic_power(v, K, power=r, ranges=q).cost
    assert np.isnan(found).mean() < 0.01
    return found


def worst_mse(found: Contract, ranges: Any = 1.0) -> np.ndarray:
    return ((ranges * (1 - found.shares)).sum(-1) / 2) ** 2 + 2 * found.scale**2


def kkt_residual(
    best: Contract, v: Any, K: float, *, power: float, ranges: Any = 1.0
) -> np.ndarray:
    r"""How far a contract is from the conditions that single out the optimum, of shape (...); 0
    means optimal.

    It is the largest of the error of the accuracy constraint over `K` and, with :math:`C=\sum
    vq^ra^r`, the amount by which :math:`v_kq_k^{r-1}a_k^{r-1}(4K-T^2)` differs from :math:`TC`, or
    lies on the wrong side of it where :math:`a_k` is 0 or 1, over the largest of their terms. Below
    :math:`K\approx10^{-3}n^2/4`, where `T` is small, the rounding of the shares shows.
    """
    v = np.asarray(v, dtype=float)
    r = power
    T = (ranges * (1 - best.shares)).sum(-1, keepdims=True)
    most = best.shares.max(-1, keepdims=True)
    # the conditions scale; powers of small shares underflow
    a = best.shares / np.where(most > 0, most, 1.0)
    accuracy = np.abs((T[..., 0] / 2) ** 2 + 2 * best.scale**2 - K) / K
    tiny = np.finfo(float).tiny if r > 1 else 0.0  # a share of 0 is then one too small for a float
    marginal = v * (ranges * np.maximum(a, tiny)) ** (r - 1)
    trade = T * most * (v * (ranges * a) ** r).sum(-1, keepdims=True)
    gap = marginal * (4 * K - T**2) - trade
    gap = np.where(
        best.shares >= 1, np.maximum(gap, 0), np.where(a <= tiny, np.maximum(-gap, 0), np.abs(gap))
    )
    size = np.maximum((4 * K * marginal + T**2 * marginal).max(-1, keepdims=True), trade)
    stationarity = np.divide(gap, size, out=np.zeros_like(gap), where=size > 0).max(-1)
    return np.asarray(np.maximum(accuracy, stationarity))


def repaired(shares: np.ndarray, v: np.ndarray, K: float, r: float) -> Contract:
    """These shares with the noise that makes the accuracy exact."""
    scale = np.sqrt((K - ((1 - shares).sum() / 2) ** 2) / 2)
    return Contract(
        shares / scale,
        cost=np.asarray(v @ (shares / scale) ** r),
        shares=shares,
        scale=np.asarray(scale),
    )


# --- the exact solver ---------------------------------------------------------------------------


def test_exact_solver_is_optimal() -> None:
    """In whatever unit valuations are, and ranges."""
    for (v, K, r, q), oracle in zip(instances(), oracle_costs(), strict=True):
        for money, length in ((1.0, 1.0), (1e-5, 7.0), (7e9, 1e-3)):
            market = {"valuations": money * v, "max_mse": K * length**2, "ranges": q * length}
            best = least_cost_contract(**market, power=r)
            assert (best.shares >= 0).all() and (best.shares <= 1).all()
            assert worst_mse(best, market["ranges"]) == pytest.approx(market["max_mse"], rel=1e-12)
            np.testing.assert_allclose(
                best.privacy_loss * best.scale, market["ranges"] * best.shares, rtol=1e-12
            )
            assert market["valuations"] @ best.privacy_loss**r == pytest.approx(
                best.cost, rel=1e-10
            )
            assert math.isnan(oracle) or best.cost == pytest.approx(money * oracle, rel=1e-6)
            assert (
                kkt_residual(best, money * v, market["max_mse"], power=r, ranges=market["ranges"])
                <= 1e-12
            )


def test_residual_flags_what_is_not_optimal() -> None:
    v = np.array([1.0, 10.0])
    K = 0.3
    best = least_cost_contract(v, K, power=2)
    assert kkt_residual(best, v, K, power=2) < 1e-14
    for moved in ([1.0, 0.201], [1.0, 0.199], [0.999, 0.2], [1.0, 0.0], [1.0, 1.0]):
        assert kkt_residual(repaired(np.array(moved), v, K, 2), v, K, power=2) > 5e-4
    assert kkt_residual(replace(best, scale=best.scale * 1.001), v, K, power=2) > 1e-4
    assert kkt_residual(best, v, K, power=3) > 0.1


def gain_of_nudges(best: Contract, v: np.ndarray, K: float, r: float) -> float:
    """Largest relative gain of moving one share by a hundredth of itself, or away from 0; for
    shares that underflow.
    """
    gains = []
    for k, share in enumerate(best.shares):
        for moved in (share * 0.99, min(share * 1.01, 1.0), max(share, 1e-6)):
            shares = best.shares.copy()
            shares[k] = moved
            if ((1 - shares).sum() / 2) ** 2 < K:
                with np.errstate(over="ignore"):
                    gains.append(1 - float(repaired(shares, v, K, r).cost / best.cost))
    return max(gains)


@pytest.mark.parametrize(("n", "points"), [(1, 20_001), (2, 401), (3, 51)])
def test_grid_is_never_better(n: int, points: int) -> None:
    """Shares on a grid, with the noise that the accuracy asks for."""
    rng = generator(42, n)
    axes = [np.linspace(0, 1, points)] * n
    a = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, n)
    for part in (0.1, 0.5, 0.9):
        K = part * n**2 / 4
        scale2 = (K - ((1 - a).sum(-1) / 2) ** 2) / 2
        shares = a[scale2 > 0]
        scale = np.sqrt(scale2[scale2 > 0])
        for v, r in [(valuations(kind, n, rng), r) for kind in KINDS for r in (*POWERS, 6.0)]:
            best = least_cost_contract(v, K, power=r).cost
            grid = ((shares**r @ v) / scale**r).min()
            assert best <= grid * (1 + 1e-12)
            assert grid <= best * 1.4 + 1e-12  # not so coarse that it could say nothing


# --- many sellers -------------------------------------------------------------------------------


def test_many_sellers() -> None:
    """The conditions of the optimum, for each kind of valuations and each power."""
    rng = generator(52)
    for i, (kind, r) in enumerate(
        (kind, r) for kind in KINDS for r in (*POWERS, 1.01, 7.0, 1.0, 2.0)
    ):
        n = int(10 ** rng.uniform(3.1, 5))
        v = valuations(kind, n, rng)
        q = rng.lognormal(0, 1, n) if i % 2 else np.ones(n)
        K = 10 ** rng.uniform(-2, math.log10(0.99)) * q.sum() ** 2 / 4
        best = least_cost_contract(v, K, power=r, ranges=q)
        assert kkt_residual(best, v, K, power=r, ranges=q) <= 1e-12


# --- its symmetries -----------------------------------------------------------------------------


def markets(rng: np.random.Generator) -> np.ndarray:
    """A batch of shape (2, 20, 8) with ties, zeros that suffice, that just do (5 of 8 at K = 9/4)
    and that do not.
    """
    v = np.stack([valuations(KINDS[i % 4], 8, rng) for i in range(40)]).reshape(2, 20, 8)
    v[0, :4] = 0.1 + rng.random((4, 8))
    v[0, 0], v[0, 1, :7], v[0, 2, :5], v[0, 3, :3], v[0, 4] = 0.0, 0.0, 0.0, 0.0, 2.0
    return v


@pytest.mark.parametrize("power", [*POWERS, 1.01, 7.0])
def test_batches_and_permutations(power: float) -> None:
    rounding = 1e-12 if power == 1.01 else 1e-14  # it counts 1/(power - 1) times in a share
    rng = generator(43)
    v = markets(rng)
    batch = least_cost_contract(v, 2.25, power=power)
    order = rng.permutation(8)
    assert batch.scale[0, 2] == 0 and (batch.privacy_loss[0, 2] == np.inf).any()
    permuted = least_cost_contract(v[..., order], 2.25, power=power)
    for field in FIELDS:
        found = getattr(batch, field)
        assert found.shape == ((2, 20, 8) if field in ("shares", "privacy_loss") else (2, 20))
        again = found[..., order] if found.ndim == 3 else found
        np.testing.assert_array_equal(getattr(permuted, field), again)  # a sort depends on no order
        for i in np.ndindex(2, 20):
            alone = getattr(least_cost_contract(v[i], 2.25, power=power), field)
            np.testing.assert_allclose(alone, found[i], rtol=rounding)


@pytest.mark.parametrize("power", [*POWERS, 7.0])
@pytest.mark.parametrize(("n", "K"), [(1, 0.1), (2, 0.25), (9, 3.0), (100, 2400.0)])
def test_equal_valuations_get_equal_losses(power: float, n: int, K: float) -> None:
    best = least_cost_contract(np.full(n, 3.0), K, power=power)
    same = equal_loss_contract(n, K)
    for field in ("shares", "scale", "privacy_loss"):
        np.testing.assert_allclose(getattr(best, field), getattr(same, field), rtol=1e-12)
    assert best.cost == pytest.approx(3 * n * (math.sqrt(2 * n**2 / K - 8) / n) ** power, rel=1e-12)


@pytest.mark.parametrize("excess", [1e-3, 1e-6, 1e-9])
def test_power_one_is_the_limit(excess: float) -> None:
    """Also between equal valuations, where power 1 leaves the split open. Rounding counts 1/(r-1)
    times in a share.
    """
    slack = 3 * excess + 1e-15 / excess
    for v in (
        [1.0, 1.5, 2.0, 3.0],
        [1.0, 1.0, 2.0, 3.0],
        [0.0, 2.0, 2.0, 2.0],
        [1.0, 2.0, 2.0, 5.0],
    ):
        for K in (0.3, 1.0, 2.5, 3.9):
            limit = least_cost_contract(v, K, power=1)
            near = least_cost_contract(v, K, power=1 + excess)
            np.testing.assert_allclose(near.shares, limit.shares, atol=slack)
            assert near.cost == pytest.approx(limit.cost, rel=slack)


# --- the ends -----------------------------------------------------------------------------------


@pytest.mark.parametrize("power", POWERS)
def test_sellers_who_ask_nothing(power: float) -> None:
    v = np.array([0.0, 1.0, 0.0, 3.0])
    enough = least_cost_contract(v, 1.3, power=power)
    assert (
        enough.cost == 0
        and (enough.shares == (v == 0)).all()
        and (enough.privacy_loss[[1, 3]] == 0).all()
    )
    assert worst_mse(enough) == pytest.approx(1.3) and np.isfinite(enough.privacy_loss).all()
    limit = least_cost_contract(v, 1.0, power=power)
    assert limit.cost == limit.scale == 0 and (limit.privacy_loss == [np.inf, 0, np.inf, 0]).all()
    short = least_cost_contract(v, 0.99, power=power)
    assert short.cost > 0 and short.scale > 0 and (short.shares[[0, 2]] == 1).all()
    assert kkt_residual(short, v, 0.99, power=power) < 1e-12
    free = least_cost_contract(np.zeros(3), 0.5, power=power)
    assert free.cost == 0 and (free.shares == 1).all() and worst_mse(free) == pytest.approx(0.5)
    # they go to the limit's
    near = [least_cost_contract(v, 1 - 10.0**-k, power=power) for k in (2, 4, 6, 8)]
    assert (
        all(b.cost < a.cost and b.scale < a.scale for a, b in pairwise(near))
        and near[-1].scale < 1e-3
    )


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("ranges", [[1.0, 1.0, 1.0], [1.0, 2.0, 0.5]])
def test_nobody_is_needed(power: float, ranges: list[float]) -> None:
    limit = (sum(ranges) / 2) ** 2
    for K in (limit, limit + 0.1, 100.0):
        batch = least_cost_contract([[1.0, 0.0, 2.0]] * 2, K, power=power, ranges=ranges)
        for found in (batch, equal_loss_contract(3, K * 9 / 4 / limit)):
            assert not found.shares.any() and not found.privacy_loss.any() and not found.cost.any()
        np.testing.assert_allclose(worst_mse(batch, ranges), [K, K], rtol=1e-15)
        np.testing.assert_allclose(worst_mse(found), K * 9 / 4 / limit, rtol=1e-15)
        assert batch.privacy_loss.shape == (2, 3) and batch.scale.any() == (limit < K)


@pytest.mark.parametrize("power", [1.0, 1.01, 1.1, 2.0, 3.0])
@pytest.mark.parametrize("K", [1.1, 7.3, 30.0, 410.0])
def test_heavy_tails_do_not_overflow(power: float, K: float) -> None:
    """Valuations from 1e-100 to 1e100: shares underflow, and nothing else does."""
    v = 10.0 ** np.linspace(-100, 100, 41)[generator(47).permutation(41)]
    best = least_cost_contract(v, K, power=power)
    assert np.isfinite(best.privacy_loss).all() and np.isfinite(best.cost) and best.cost > 0
    assert worst_mse(best) == pytest.approx(K, rel=1e-12)
    assert v @ best.privacy_loss**power == pytest.approx(best.cost, rel=1e-9)
    assert gain_of_nudges(best, v, K, power) < 1e-12


@pytest.mark.parametrize("power", POWERS)
def test_million_sellers(power: float) -> None:
    v = generator(48).random(10**6)
    K = 10**12 / 16
    assert kkt_residual(least_cost_contract(v, K, power=power), v, K, power=power) < 1e-12
    assert (
        min(timeit.repeat(lambda: least_cost_contract(v, K, power=power), number=1, repeat=2)) < 2
    )


# --- Principle 1 and the unbiased answer --------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "part"), [(1, 0.3), (2, 0.25), (2, 0.999), (10, 0.001), (10, 0.2), (10, 0.9)]
)
def test_principle1_minimises_the_loss(n: int, part: float) -> None:
    """Problem (5), and with unequal shares nobody's largest loss is smaller."""
    K = part * n**2 / 4
    found = equal_loss_contract(n, K)

    def loss(share: float) -> float:
        scale2 = (K - (n * (1 - share) / 2) ** 2) / 2
        return share / math.sqrt(scale2) if scale2 > 0 else math.inf

    least = max(1 - 2 * math.sqrt(K) / n, 0) + 1e-12
    searched = optimize.minimize_scalar(
        loss, bounds=(least, 1), method="bounded", options={"xatol": 1e-10}
    )
    assert searched.fun * (1 - 1e-9) <= found.privacy_loss[0] <= searched.fun * (1 + 1e-12)
    assert found.shares[0] == pytest.approx(searched.x, abs=1e-4)
    assert worst_mse(found) == pytest.approx(K, rel=1e-12)
    np.testing.assert_allclose(found.privacy_loss, found.shares / found.scale, rtol=1e-12)
    # with 4K for 8K, as the appendix reads
    assert loss(1 - 2 * K / n**2) > found.privacy_loss[0] * (1 + 1e-4 * part)
    a = 1 - generator(49, n).random((2000, n)) * 2 * math.sqrt(K) / n
    a = a[a.min(-1) >= 0]
    unequal = a.max(-1) / np.sqrt((K - ((1 - a).sum(-1) / 2) ** 2) / 2)
    assert unequal.min() >= found.privacy_loss[0] * (1 - 1e-12)


# --- the range of floats ------------------------------------------------------------------------

FAR = [
    *((0.3, 0.3 * 10.0**k) for k in (3, 6, 9, 12, 15, 17, 60, 100)),
    (1e-100, 1e100),
    (1e-99, 1e30),
    (1e-60, 1e60),
]


@pytest.mark.parametrize("power", [1.0, 1.01, 1.5, 2.0, 3.0, 50.0])
@pytest.mark.parametrize("K", [0.2, 0.3])
@pytest.mark.parametrize("v", FAR)
def test_valuations_far_apart(v: tuple[float, float], K: float, power: float) -> None:
    """Of an exact cost, no share of the dear one is cheaper beside all or, at high powers, part of
    the cheap one's.
    """

    def log_cost(cheap: Any, dear: Any, scale: Any) -> Any:
        with np.errstate(divide="ignore"):
            terms = [
                np.log(price) + power * np.log(share / scale)
                for price, share in zip(v, (cheap, dear), strict=True)
            ]
        return np.logaddexp(*terms)

    best = least_cost_contract(v, K, power=power)
    assert worst_mse(best) == pytest.approx(K, rel=1e-12)
    assert best.shares[0] == 1 or power > 10
    assert np.log(best.cost) == pytest.approx(log_cost(*best.shares, best.scale), abs=1e-12)
    # what is asked of the dear one if her own cost is all that counts
    alone = max(1 - 4 * K, 0) + 1e-300
    dear = np.append(np.linspace(max(0, 1 - 2 * np.sqrt(K)), 1, 2001)[1:], alone)
    assert (
        np.log(best.cost)
        <= log_cost(1.0, dear, np.sqrt((K - ((1 - dear) / 2) ** 2) / 2)).min() + 1e-12
    )


@pytest.mark.parametrize("power", [20.0, 200.0, 2000.0])
def test_high_powers_do_not_underflow(power: float) -> None:
    """The higher the power, the closer to equal losses; the share to the power r - 1 is too small
    for a float.
    """
    best = least_cost_contract([1, 2], 0.99, power=power)
    np.testing.assert_allclose(best.shares, equal_loss_contract(2, 0.99).shares, rtol=2 / power)
    np.testing.assert_allclose(best.shares[0] / best.shares[1], 2 ** (1 / (power - 1)), rtol=1e-12)
    assert worst_mse(best) == pytest.approx(0.99, rel=1e-12)
    assert kkt_residual(best, [1, 2], 0.99, power=power) < 1e-9
    assert kkt_residual(replace(best, shares=best.shares[::-1]), [1, 2], 0.99, power=power) > 1e-3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: least_cost_contract([1, 2], 1e-99, power=7), "max_mse = 1e-99 at power = 7 gives"),
        (
            lambda: equal_loss_pricing([1, 2], 1e-99, 10, power=7),
            "max_mse = 1e-99 at power = 7 gives",
        ),
        (
            lambda: unbiased_pricing([1, 2], 1e-99, 10, power=7),
            "max_mse = 1e-99 at power = 7 gives",
        ),
        (lambda: vcg_contract([1, 2], 1e-99, 10, power=7), "max_mse = 1e-99 at power = 7 gives"),
        (lambda: least_cost_contract([1, 1e308], 0.3, power=2), "valuations"),
        (lambda: vcg_contract([1, 2], 0.3, 1e308, power=2), "ceiling"),
        (
            lambda: least_cost_contract(2.0, 0.3, power=2),
            "valuations must hold at least one seller",
        ),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    assert least_cost_contract([1e-100, 2e-100], 1e-100, power=3).cost == pytest.approx(
        3 * np.sqrt(8) * 1e50
    )
    with pytest.raises(ValueError, match=f"^{message}"):
        call()
