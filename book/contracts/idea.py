"""What the page :doc:`/book/contracts/idea` runs: definitions, the two answers, the bounds, Principle 1, weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import integrate, optimize, stats

from hdpm_book.contracts.bounds import least_total_loss, staircase_loss, total_loss_bound
from hdpm_book.contracts.conic import least_cost_bound
from hdpm_book.contracts.printed import unbiased_contract
from hdpm_book.contracts.study import POWERS
from hdpm_book.ledger import FALSE_ALARM
from hdpm_book.privacy.listed import laplace_privacy_losses, terms_on_grid
from hdpm_lib.learners import queries
from hdpm_lib.markets.contracts import equal_loss_contract, least_cost_contract
from hdpm_lib.markets.outcome import Contract

Array = NDArray[np.float64]

NEAR = 2.17  # the proven ratio of the biased answer's loss to the bound, from K = 1 on


def loss_curves(n: int, max_mse: Sequence[float] | Array) -> dict[str, Array]:
    """Total privacy loss of `n` sellers for each accuracy: three answers and two bounds, from above to below."""
    K = np.asarray(max_mse, dtype=float)
    return {
        "unbiased": np.array([unbiased_contract(n, k).cost for k in K]),
        "biased": np.array([equal_loss_contract(n, k).cost for k in K]),
        "biased, staircase": n * staircase_loss(n, K),
        "no algorithm below": least_total_loss(n, K),
        "Khalili's Theorem 1": total_loss_bound(n, K),
    }


def data_on_grid(n: int, points: int) -> Array:
    """All databases of `n` data with these numbers of equally spaced values, one row a datum."""
    return terms_on_grid([itemgetter(k) for k in range(n)], n, points)


# --- definitions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GroupCheck:
    """Losses of groups against the sum of their members' losses."""

    algorithms: int
    never_above: bool
    attained: bool  # by sums with Laplace noise


def group_check(algorithms: int = 500) -> GroupCheck:
    """Random algorithms on three bits, and sums with Laplace noise: all groups, by enumeration."""
    groups = [g for size in (1, 2, 3) for g in combinations(range(3), size)]

    def losses_of(log_table: Array) -> list[float]:
        return [np.abs(np.flip(log_table, g) - log_table).max() for g in groups]

    rng, excess, gaps = np.random.default_rng(1), [], []
    for _ in range(algorithms):
        table = rng.normal(size=(2, 2, 2, 4)) * rng.uniform(0.1, 3)
        table -= np.log(np.exp(table).sum(-1, keepdims=True))  # logs of probabilities
        losses = losses_of(table)
        excess += [losses[k] - sum(losses[i] for i in groups[k]) for k in range(7)]
        answer = queries.linear_query(rng.random(3), rng.uniform(0.1, 5))
        losses = losses_of(answer.mean(data_on_grid(3, 2)) / answer.scale)
        gaps += [losses[k] - answer.privacy_loss[list(groups[k])].sum() for k in range(7)]
    return GroupCheck(algorithms, bool(np.max(excess) < 1e-12), bool(np.abs(gaps).max() < 1e-12))


@dataclass(frozen=True)
class NoiseCheck:
    """The Laplace law: its moments, and released noise against it."""

    moments: bool  # integral 1 and second moment 2 b^2, to 1e-7
    p_value: float  # smallest, of tests of the noise
    limit: float  # false alarms
    wrong: float  # largest p value if sqrt(2) b is taken for the scale


def noise_check(scales: Sequence[float] = (0.1, 0.7, 1.0, 3.0, 20.0), releases: int = 100_000) -> NoiseCheck:
    """Integrals of the density, and a test of the released noise, at each scale."""
    off: list[float] = []
    p_values, wrong = [], []
    for seed, b in enumerate(scales):
        for k, expected in ((0, 1.0), (2, 2 * b**2)):
            half = integrate.quad(lambda x, k=k, b=b: x**k * np.exp(-x / b) / (2 * b), 0, np.inf)[0]
            off.append(2 * half / expected - 1)
        answer, rng = queries.linear_query([1.0], b, arithmetic="ideal"), np.random.default_rng([2, seed])
        noise = answer.release([0.5], rng=rng, size=releases) - 0.5
        p_values.append(stats.kstest(noise, stats.laplace(scale=b).cdf).pvalue)
        wrong.append(stats.kstest(noise, stats.laplace(scale=np.sqrt(2) * b).cdf).pvalue)
    return NoiseCheck(bool(np.abs(off).max() < 1e-7), min(p_values), FALSE_ALARM / len(scales), max(wrong))


# --- the two answers --------------------------------------------------------------------------------------------------


def _measured(answers: Array, sums: Array, scale: float) -> tuple[Array, float, float]:
    """Privacy losses, largest bias in size and worst error, over all databases."""
    bias = np.abs(answers - sums).max()
    return laplace_privacy_losses(answers, scale), bias, bias**2 + 2 * scale**2


@dataclass(frozen=True)
class AnswerCheck:
    """The formulas for loss, bias and error, on every database of values 0, 1/2 and 1."""

    problems: int
    unbiased: bool  # attained and never exceeded, to 1e-11
    biased: bool
    caught: int  # problems in which the meter objects, for the broken answer that fares best


def answer_check(problems: int = 300) -> AnswerCheck:
    """Both answers, and three broken ones: no middle, all of the data, half the noise."""
    off: dict[str, list[float]] = {"unbiased": [], "biased": []}
    caught = np.zeros(3, int)
    for seed in range(problems):
        rng = np.random.default_rng([3, seed])
        n, b = int(rng.integers(1, 7)), 10 ** rng.uniform(-1, 1)
        terms = data_on_grid(n, 3)
        sums = terms.sum(0)
        for name, a in (("unbiased", np.ones(n)), ("biased", rng.random(n))):
            answers = queries.linear_query(a, b).mean(terms)
            T = (1 - a).sum()
            promised = a / b, T / 2, (T / 2) ** 2 + 2 * b**2
            found = _measured(answers, sums, b)
            off[name].append(max(np.abs(f - p).max() for f, p in zip(found, promised, strict=True)))
        broken = (answers - T / 2, b), (sums, b), (answers, b / 2)
        for k, (wrong, scale) in enumerate(broken):
            losses, _, mse = _measured(wrong, sums, scale)
            caught[k] += bool((losses > promised[0] + 1e-9).any() or mse > promised[2] + 1e-9)
    return AnswerCheck(problems, max(off["unbiased"]) < 1e-11, max(off["biased"]) < 1e-11, int(caught.min()))


@dataclass(frozen=True)
class ReleaseCheck:
    """Mean squared errors of releases on the worst database: largest deviation in standard errors, and the limit."""

    unbiased: float
    biased: float
    limit: float


def release_check(runs: int = 8, releases: int = 100_000) -> ReleaseCheck:
    """Released answers at all-ones."""
    z: dict[str, list[float]] = {"unbiased": [], "biased": []}
    for seed in range(runs):
        rng = np.random.default_rng([4, seed])
        n, b = rng.integers(1, 11), rng.uniform(0.3, 3)
        for name, a in (("unbiased", np.ones(n)), ("biased", rng.random(n))):
            answer = queries.linear_query(a, b, arithmetic="ideal")
            squares = (answer.release(np.ones(n), rng=rng, size=releases) - n) ** 2
            error = squares.std() / np.sqrt(squares.size)
            z[name].append((squares.mean() - answer.worst_case_mse) / error)
    largest = {name: float(np.abs(values).max()) for name, values in z.items()}
    return ReleaseCheck(largest["unbiased"], largest["biased"], float(stats.norm.isf(FALSE_ALARM / (4 * runs))))


# --- how much an accurate answer must cost ----------------------------------------------------------------------------


def constant_answers() -> pd.DataFrame:
    """Where no data are needed: worst error over `K`, and the largest loss."""
    rows = []
    for n, K in [(1, 0.25), (1, 3.0), (2, 1.5), (10, 25.0), (10, 25.1), (10, 400.0)]:
        free = equal_loss_contract(n, K)
        answer = queries.linear_query(free.shares, float(free.scale))
        rows.append({"n": n, "K": K, "error / K": answer.worst_case_mse / K, "largest loss": answer.privacy_loss.max()})
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class BoundsCheck:
    """Bounds and answers on random problems."""

    problems: int
    ordered: bool  # Theorem 1 < bound of all groups < staircase <= biased < unbiased
    laplace: float  # largest ratio of the biased Laplace answer to the bound, for K from 1 on
    staircase: float  # the same with staircase noise, for any K
    contracts: int  # least-cost contracts in which sellers without a loss are counted
    idle_within: bool  # never more than floor(2 sqrt K) of them


def bounds_check(problems: int = 1000) -> BoundsCheck:
    """Random sizes and accuracies."""
    spare, ordered, near, stairs = [], [], [], []
    for seed in range(problems):
        rng = np.random.default_rng([6, seed])
        n = int(rng.integers(1, 31) if seed % 2 else rng.integers(1, 1001))
        K = n**2 / 4 * (1 - rng.random() ** 4) * 10 ** rng.uniform(-6, 0)
        plain, biased, staircase, groups, theorem1 = (curve[0] for curve in loss_curves(n, [K]).values())
        rising = np.array([theorem1, groups, staircase, biased, plain])
        ordered.append(np.diff(rising).min() > -1e-9 * staircase)
        stairs.append(staircase / groups)
        near += [biased / groups] if K >= 1 else []
        if n <= 30:
            best = least_cost_contract(10 ** rng.uniform(-3, 3, n), K, power=1)
            spare.append(np.floor(2 * np.sqrt(K)) - (best.privacy_loss == 0).sum())
    return BoundsCheck(problems, all(ordered), max(near), max(stairs), len(spare), min(spare) >= 0)


@dataclass(frozen=True)
class Growth:
    """How fast losses grow with ln(1/K), each seller: of every algorithm, and with staircase noise."""

    every: float
    staircase: float
    laplace_power: float  # the biased Laplace answer grows like this power of 1/K


def _staircase(gamma: float, eps: float) -> tuple[Array, Array, float]:
    """Ends and heights of the steps to the right of 0, and the variance."""
    ends, height = np.r_[0, gamma + np.arange(200)], np.exp(-eps * np.arange(200))
    return ends, height, float(height @ np.diff(ends**3) / 3 / (height @ np.diff(ends)))


def growth(n: int = 10) -> Growth:
    """Slopes from the answers themselves: the staircase's density at neighbouring sums, and its steps."""
    grid, rows = np.linspace(-3, 3, 1201), []
    for eps in np.arange(6.0, 15):
        gamma = optimize.minimize_scalar(lambda g, e=eps: _staircase(g, e)[2], bounds=(0, 0.5), method="bounded").x
        ends, height, variance = _staircase(gamma, eps)
        here, there = (np.log(height[np.searchsorted(ends, np.abs(grid - d), side="right") - 1]) for d in (0, 1))
        K = variance / (1 + 4 * variance / n**2)  # with the best share
        one = equal_loss_contract(n, K)
        laplace = queries.linear_query(one.shares, float(one.scale))
        rows.append([K, least_total_loss(n, K), n * np.abs(here - there).max(), laplace.privacy_loss.sum()])
    mse, least, stairs, biased = np.array(rows).T
    logs = np.log(1 / mse)
    every, staircase = (float(np.polyfit(logs, total, 1)[0]) / n for total in (least, stairs))
    power = float(np.polyfit(logs, np.log(biased), 1)[0])
    return Growth(every, staircase, power)


def cost_over_bound(markets: int = 20) -> pd.DataFrame:
    """Cost of the least-cost contract over what no algorithm can go below: mean and range over random markets."""
    rows = {}
    for n, K in [(10, 0.1), (10, 1), (10, 5), (10, 20.25), (50, 1), (50, 100), (50, 612)]:
        row = {}
        for r, name in ((1, "linear"), (2, "quadratic")):
            v = np.random.default_rng([13, n]).random((markets, n))
            ratio = least_cost_contract(v, K, power=r).cost / [least_cost_bound(w, K, power=r) for w in v]
            row[f"{name}: mean"] = f"{ratio.mean():.2f}"
            row[f"{name}: range"] = f"{ratio.min():.2f} to {ratio.max():.2f}"
        rows[f"n = {n}, K = {K:g}"] = row
    return pd.DataFrame(rows).T


# --- Principle 1 ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EqualLosses:
    """Theorem 4 on random problems."""

    problems: int
    closed_form: bool  # the library has the printed formula, to 1e-12
    search: bool  # so has a search over the share, to 1e-8
    least_cost: bool  # so has the least-cost solver at valuations 1, to 1e-9
    accurate: bool  # the error is K, to 1e-12
    tries: int  # allocations with unequal shares
    unequal_never_lower: bool
    saving: bool  # the loss over the unbiased one is sqrt(1 - 4 K / n^2), to 1e-12

    @property
    def holds(self) -> bool:
        """All that the theorem says."""
        return self.closed_form and self.search and self.least_cost and self.accurate


def equal_losses(problems: int = 300) -> EqualLosses:
    """The closed form against a search, against another solver, and against unequal shares."""

    def loss(a: float, n: int, K: float) -> Any:
        return a / np.sqrt((K - (n * (1 - a) / 2) ** 2) / 2)

    rows, tries = [], 0
    for seed in range(problems):
        rng = np.random.default_rng([7, seed])
        n = int(rng.integers(1, 41))
        K = n**2 / 4 * rng.uniform(0.001, 0.999)
        ends = max(1 - 2 * np.sqrt(K) / n, 0) + 1e-9, 1
        search = optimize.minimize_scalar(loss, args=(n, K), bounds=ends, method="bounded", options={"xatol": 1e-12})
        one, other = equal_loss_contract(n, K), least_cost_contract(np.ones(n), K, power=1)
        printed = np.sqrt((2 * n**2 - 8 * K) / K) / n
        a = np.clip(one.shares + rng.normal(size=(200, n)) * rng.random((200, 1)), 0, 1)
        free = K - ((1 - a).sum(1) / 2) ** 2  # where they can be K-accurate
        total = a[free > 0].sum(1) / np.sqrt(free[free > 0] / 2)
        tries += len(total)
        mse = queries.linear_query(one.shares, float(one.scale)).worst_case_mse
        rows.append(
            {
                "closed form": printed / one.privacy_loss[0] - 1,
                "search": search.fun / printed - 1,
                "least cost": other.cost / (n * printed) - 1,
                "error": mse / K - 1,
                "unequal": min(total, default=np.inf) / (n * printed) - 1,
                "saving": printed / unbiased_contract(n, K).privacy_loss[0] / np.sqrt(1 - 4 * K / n**2) - 1,
            }
        )
    table = pd.DataFrame(rows).astype(float)
    off = table.abs().max(skipna=False)
    return EqualLosses(
        problems,
        bool(off["closed form"] < 1e-12),
        bool(off["search"] < 1e-8),
        bool(off["least cost"] < 1e-9),
        bool(off["error"] < 1e-12),
        tries,
        bool(table["unequal"].min(skipna=False) > -1e-12),
        bool(off["saving"] < 1e-12),
    )


@dataclass(frozen=True)
class NearLimit:
    """The total loss of ten sellers under Principle 1 as K tends to n^2/4."""

    part: float  # the last 4 K / n^2
    difference: float  # to Theorem 1's bound, at this part
    falls: bool  # the difference, step by step
    ratio: float
    ratio_to_groups: float


def near_limit(n: int = 10) -> NearLimit:
    """Difference and ratio to the two bounds."""
    part = np.array([0.5, 0.9, 0.99, 0.9999, 0.999999])
    curves = loss_curves(n, part * n**2 / 4)
    total, groups, theorem1 = (curves[k] for k in ("biased", "no algorithm below", "Khalili's Theorem 1"))
    gap = total - theorem1
    return NearLimit(
        float(part[-1]),
        float(gap[-1]),
        bool((np.diff(gap) < 0).all()),
        float(total[-1] / theorem1[-1]),
        float(total[-1] / groups[-1]),
    )


@dataclass(frozen=True)
class CurveOrder:
    """The order of the curves of Figure 2, and what the biased answer saves at two accuracies."""

    points: int
    ordered: bool
    saved_small: float
    saved_large: float


def curve_order(n: int = 10, points: int = 2000) -> CurveOrder:
    """Bounds and answers at accuracies between 0 and n^2/4."""
    curves = loss_curves(n, np.linspace(0.001, 24.999, points))
    rising = [curves[k] for k in ("Khalili's Theorem 1", "no algorithm below", "biased", "unbiased")]
    small, large = (float(1 - equal_loss_contract(n, k).cost / unbiased_contract(n, k).cost) for k in (0.5, 12.5))
    return CurveOrder(points, bool((np.diff(rising, axis=0) > 0).all()), small, large)


@dataclass(frozen=True)
class LessNoise:
    """The best share at a given loss, beside the unbiased answer with the same loss."""

    problems: int
    same_loss: bool  # to 1e-9
    noise: float  # largest ratio of the scales
    error: float  # largest ratio of the errors
    best: bool  # no share of a grid does better


def less_noise(problems: int = 300) -> LessNoise:
    """Random sizes and losses."""
    rows = []
    for seed in range(problems):
        rng = np.random.default_rng([8, seed])
        n, eps = int(rng.integers(1, 41)), 10 ** rng.uniform(-2, 1)
        K = 2 * n**2 / (n**2 * eps**2 + 8)
        one = equal_loss_contract(n, K)  # the same loss, found from the other side
        shares = np.linspace(0, 1, 2001)[1::20]
        tried = min(queries.linear_query(np.full(n, a), a / eps).worst_case_mse for a in shares)
        rows.append(
            {
                "loss": abs(one.privacy_loss[0] / eps - 1),
                "noise": one.scale * eps,
                "error": K / (2 / eps**2),
                "tried": tried / K - 1,
            }
        )
    table = pd.DataFrame(rows).astype(float)
    largest = table.max(skipna=False)
    return LessNoise(
        problems,
        bool(largest["loss"] < 1e-9),
        float(largest["noise"]),
        float(largest["error"]),
        bool(table["tried"].min(skipna=False) > -1e-12),
    )


@dataclass(frozen=True)
class ContractCheck:
    """Contracts that promise a little less loss than (9) and (13), and what the two pay."""

    markets: int
    equal: float  # least error of one with shares below the loss of (9), over K
    unbiased: float  # the same for (13)
    cheaper: tuple[float, float]  # payments of (9) over those of (13): least and largest


def contract_check(markets: int = 300) -> ContractCheck:
    """Random markets, four powers."""
    equal, plain, cheaper = [], [], []
    for seed in range(markets):
        rng = np.random.default_rng([9, seed])
        n, r, factor = int(rng.integers(1, 21)), rng.choice(POWERS), rng.uniform(0.9, 0.9999)
        K, v = n**2 / 4 * rng.uniform(0.01, 0.99), rng.uniform(0, 10, n)
        one, usual = equal_loss_contract(n, K), unbiased_contract(n, K)
        eps = factor * one.privacy_loss[0]  # an equal loss a little smaller: what error at best?
        a = np.r_[np.linspace(0.001, 1, 1000), n**2 * eps**2 / (n**2 * eps**2 + 8)]
        equal.append(((n * (1 - a) / 2) ** 2 + 2 * (a / eps) ** 2).min() / K)
        b = 1 / (factor * usual.privacy_loss[0])
        plain.append(queries.linear_query(np.ones(n), b).worst_case_mse / K)
        cheaper.append((v * one.privacy_loss**r).sum() / (v * usual.privacy_loss**r).sum())
    return ContractCheck(markets, min(equal), min(plain), (min(cheaper), max(cheaper)))


@dataclass(frozen=True)
class WorkedExample:
    """Section VII-A: the table, and whether the printed values and the accuracy agree, to 1e-12."""

    table: pd.DataFrame
    agrees: dict[str, bool]
    accurate: bool


def worked_example() -> WorkedExample:
    """Two sellers, linear cost: shares, scale, losses and payments of (17) and (20)."""
    v, K = np.array([1.0, 2.0]), 1 / 4
    root6, root2 = np.sqrt(6), np.sqrt(2)
    printed = {
        "biased, Principle 1": [3 / 4, np.sqrt(1.5) / 4, root6, root6, 2 * root6],
        "unbiased": [1, root2 / 4, 2 * root2, 2 * root2, 4 * root2],
    }
    solved: dict[str, Contract] = dict(zip(printed, (equal_loss_contract(2, K), unbiased_contract(2, K)), strict=True))
    rows = {name: [s.shares[0], float(s.scale), s.privacy_loss[0], *(v * s.privacy_loss)] for name, s in solved.items()}
    agrees = {name: bool(np.abs(np.array(rows[name]) - printed[name]).max() < 1e-12) for name in rows}
    errors = [queries.linear_query(s.shares, float(s.scale)).worst_case_mse for s in solved.values()]
    table = pd.DataFrame(rows, index=["share", "scale", "loss", "payment 1", "payment 2"]).T
    table["total paid"] = table["payment 1"] + table["payment 2"]
    return WorkedExample(table, agrees, bool(np.abs(np.array(errors) - K).max() < 1e-12))


# --- weights ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Weights:
    """Weighted queries: the two formulas, and the least cost of one beside that of weights 1."""

    problems: int
    carries_over: bool  # losses and errors, on all databases, to 1e-9
    cost: float
    used: Array  # what of each datum is used, times its weight
    plain_cost: float
    plain_used: Array
    plain_error: float  # of the contract for weights 1, on the weighted query
    max_mse: float  # what it has to be


def weighted_queries(problems: int = 200) -> Weights:
    """Random weights of either sign; then q = (1, 3), v = (1, 1), K = 0.9, linear cost."""
    worst = 0.0
    for seed in range(problems):
        rng = np.random.default_rng([10, seed])
        n, b = int(rng.integers(1, 6)), 10 ** rng.uniform(-1, 1)
        a, q = rng.random(n), rng.choice([-1, 1], n) * 10 ** rng.uniform(-1, 1, n)
        terms = q.reshape(-1, *[1] * n) * data_on_grid(n, 3)
        answers = queries.linear_query(a, b, weights=q).mean(terms)
        losses, _, mse = _measured(answers, terms.sum(0), b)
        promised = ((1 - a) @ np.abs(q) / 2) ** 2 + 2 * b**2
        worst = max(worst, np.abs(losses / (a * np.abs(q) / b) - 1).max(), abs(mse / promised - 1))
    q, v, K = np.array([1.0, 3.0]), np.ones(2), 0.9
    weighted, plain = (least_cost_contract(v, K, power=1, ranges=w) for w in (q, np.ones(2)))
    error = queries.linear_query(plain.shares, float(plain.scale), weights=q).worst_case_mse
    used = q * weighted.shares
    return Weights(problems, worst < 1e-9, float(weighted.cost), used, float(plain.cost), plain.shares, error, K)


def copies_gap(markets: int = 100) -> float:
    """Least cost with integer weights against that with as many copies of each seller: largest relative gap."""
    gap = 0.0
    for seed in range(markets):
        rng = np.random.default_rng([11, seed])
        q, v = rng.integers(1, 5, 4), rng.uniform(0.1, 10, 4)
        r, K = rng.choice(POWERS), q.sum() ** 2 / 4 * rng.uniform(0.01, 0.99)
        one = least_cost_contract(v, K, power=r, ranges=q)
        many = least_cost_contract(np.repeat(v * q ** (r - 1), q), K, power=r)
        gap = max(gap, abs(float(many.cost / one.cost) - 1))
    return gap
