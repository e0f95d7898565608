"""What the page :doc:`/book/contracts/allocation` runs: the least-cost contract and the printed rules, on markets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hdpm_book.contracts.study import POWERS
from hdpm_lib.markets.contracts import (
    Allocation,
    kkt_residual,
    one_root,
    principle1,
    principle2,
    suffix_weights,
    unbiased,
)
from hdpm_lib.markets.contracts_conic import conic_power
from hdpm_lib.markets.contracts_printed import algorithm1, theorem5, theorem5_terms

Array = NDArray[np.float64]

ACCURACIES = (0.5, 2, 5, 10, 15, 20, 24)  # of ten sellers, whose limit is 25


def error_of(contract: Allocation) -> float:
    """Largest mean squared error of a contract for the plain sum."""
    return float(((1 - contract.shares).sum() / 2) ** 2 + 2 * contract.scale**2)


# --- the least-cost contract ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OracleCheck:
    """The one-root solution against the conic solver."""

    markets: int
    agree: int  # costs that are the same to a millionth
    above: int  # costs above the oracle's by more than that
    below: int
    exact: bool  # first-order conditions and accuracy met to 1e-12
    cheaper_with_less_error: int
    losses_fall: bool  # with the valuation

    @property
    def holds(self) -> bool:
        """All costs agree and all conditions are met."""
        return self.agree == self.markets and self.exact


def oracle_check(markets: int = 480) -> OracleCheck:
    """2 to 50 sellers, four powers; valuations uniform, heavy-tailed, with ties, with zeros."""
    rng = np.random.default_rng(1)
    excess, residual, falls, cheaper = [], [], [], []
    for trial in range(markets):
        n, power = int(rng.integers(2, 51)), POWERS[trial % 4]
        v = [
            rng.random(n),
            np.exp(3 * rng.normal(size=n)),
            rng.integers(1, 4, n).astype(float),
            rng.random(n) * (rng.random(n) < 0.7),
        ][trial // 4 % 4]
        K = n**2 / 4 * 10 ** rng.uniform(-3, 0)
        best, oracle = principle2(v, K, power=power), conic_power(v, K, power=power)
        excess.append(float(best.cost - oracle.cost) / max(float(oracle.cost), 1e-12))
        residual.append(float(kkt_residual(best, v, K, power=power)))
        falls.append(bool((np.diff(best.epsilon[np.argsort(v)]) <= 1e-12).all()))
        cheaper.append(not principle2(v, 0.99 * K, power=power).cost >= best.cost)
    over = np.array(excess)
    agree, above, below = (int(which.sum()) for which in (np.abs(over) <= 1e-6, over > 1e-6, over < -1e-6))
    return OracleCheck(markets, agree, above, below, max(residual) <= 1e-12, sum(cheaper), all(falls))


@dataclass(frozen=True)
class RatioCheck:
    """Spread of v a^(r-1) over the shares below 1 of the oracle's own solutions, and of another exponent."""

    markets: int
    holds: bool  # below 1e-3 in all
    other: float  # least spread of v a^(1/(r-1))


def ratio_condition(markets: int = 150) -> RatioCheck:
    """Markets of powers 1.5 and 3."""
    rng = np.random.default_rng(3)
    spread: dict[str, list[float]] = {"paper": [], "other": []}
    for trial in range(markets):
        n, power = int(rng.integers(3, 20)), (1.5, 3)[trial % 2]
        v, K = rng.random(n), n**2 / 4 * rng.uniform(0.05, 0.95)
        a = conic_power(v, K, power=power).shares
        inside = (a > 1e-4) & (a < 1 - 1e-4)
        if inside.sum() > 1:
            for name, exponent in (("paper", power - 1), ("other", 1 / (power - 1))):
                level = (v * a**exponent)[inside]
                spread[name].append(level.max() / level.min() - 1)
    return RatioCheck(len(spread["paper"]), max(spread["paper"]) < 1e-3, min(spread["other"]))


@dataclass(frozen=True)
class WorkedExample:
    """Section VII-A under Principle 2: which printed items agree to 1e-12, and the totals of three contracts."""

    agrees: dict[str, bool]
    totals: pd.DataFrame


def worked_example() -> WorkedExample:
    """Two sellers, linear cost: (18) and (19)."""
    v, K, root = np.array([1.0, 2.0]), 0.25, np.sqrt(2.5)
    best = principle2(v, K, power=1)
    both = {
        "s": ([3 / 2, 1 / 3], theorem5_terms(v, K)),
        "shares": ([1, 1 / 3], best.shares),
        "scale": (root / 6, best.scale),
        "losses": ([6 / root, 2 / root], best.epsilon),
        "payments": ([6 / root, 4 / root], v * best.epsilon),
    }
    agrees = {name: bool(np.allclose(printed, ours, rtol=1e-12, atol=0)) for name, (printed, ours) in both.items()}
    contracts = {"Principle 1": principle1(2, K), "Principle 2": best, "unbiased": unbiased(2, K)}
    rows = {name: {"total loss": c.epsilon.sum(), "total payment": v @ c.epsilon} for name, c in contracts.items()}
    return WorkedExample(agrees, pd.DataFrame(rows).T)


# --- Theorem 5 --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Theorem5Check:
    """The printed rule for the linear cost on random markets."""

    markets: int
    shares_right: bool  # to 1e-12
    missed: int  # markets whose accuracy the printed scale misses
    exactly_if_capped: bool  # just where s_m > 1
    median_error: float  # over K, where missed
    largest_error: float
    understated: float  # median part of the cost that is not shown, where missed
    corrected: bool  # the other scale is right in all, to 1e-12
    undefined: int  # markets in which the rule is undefined, if the bracket is a ceiling


def theorem5_check(markets: int = 4000) -> Theorem5Check:
    """2 to 20 sellers, uniform valuations, K uniform up to n^2/4."""
    rng = np.random.default_rng(4)
    rows, undefined = [], 0
    for _ in range(markets):
        n = int(rng.integers(2, 21))
        v, K = rng.random(n), n**2 / 4 * rng.uniform(0.001, 0.999)
        best, rule = principle2(v, K, power=1), theorem5(v, K)
        fixed = theorem5(v, K, scale="accuracy")
        terms = theorem5_terms(v, K)
        rows.append(
            {
                "error": error_of(rule) / K,
                "cost": rule.cost / best.cost,
                "capped": terms[terms > 0][-1] > 1,
                "shares": np.abs(rule.shares - best.shares).max(),
                "fixed": max(abs(fixed.cost / best.cost - 1), abs(fixed.scale / best.scale - 1)),
            }
        )
        undefined += bool(np.isnan(theorem5(v, K, bracket="ceiling").shares).any())
    table = pd.DataFrame(rows).astype({"error": float, "cost": float, "capped": bool, "shares": float, "fixed": float})
    missed = (table["error"] - 1).abs() > 1e-9
    return Theorem5Check(
        markets,
        bool(table["shares"].max(skipna=False) <= 1e-12),
        int(missed.sum()),
        bool((missed == table["capped"]).all()),
        float(table["error"][missed].median()),
        float(table["error"].max()),
        float(1 - table["cost"][missed].median()),
        bool(table["fixed"].max(skipna=False) < 1e-12),
        undefined,
    )


def most_fractions(markets: int = 100) -> int:
    """Largest number of shares strictly between 0 and 1 in the oracle's solutions, for distinct valuations."""
    rng, most = np.random.default_rng(5), 0
    for _ in range(markets):
        n = int(rng.integers(2, 13))
        a = conic_power(rng.random(n), n**2 / 4 * rng.uniform(0.01, 0.99), power=1).shares
        most = max(most, int(((a > 1e-4) & (a < 1 - 1e-4)).sum()))
    return most


# --- Algorithm 1 ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Algorithm1Check:
    """The printed search in two readings of line 19, for ten sellers."""

    table: pd.DataFrame
    settings: int
    wrong_iff_capped: int  # settings in which it is wrong in just those markets with somebody at the cap


def algorithm1_check(markets: int = 100) -> Algorithm1Check:
    """Quadratic cost, uniform valuations: how often the search is wrong, and its mean excess cost."""
    rows, same = [], []
    for k, K in enumerate(ACCURACIES):
        v = np.random.default_rng([6, k]).random((markets, 10))
        best = principle2(v, K, power=2)
        capped = (best.shares == 1).any(axis=1)
        row = {"K": f"{K:g}", "at the cap": f"{capped.mean():.0%}"}
        for name in ("line 6", "line 5"):
            cost = np.array([algorithm1(x, K, power=2, go_to=name).cost for x in v])
            over = cost / best.cost - 1
            error = over.std(ddof=1) / np.sqrt(markets)
            row[f"{name}: wrong"] = f"{np.mean(over > 1e-9):.0%}"
            row[f"{name}: excess"] = f"{max(over.mean(), 0):.1%} ({error:.1%})"
            same.append(bool(((over > 1e-9) == capped).all()))
        rows.append(row)
    return Algorithm1Check(pd.DataFrame(rows).set_index("K"), len(same), sum(same))


@dataclass(frozen=True)
class Repair:
    """The search with the dropped cost put back; and the printed one where nobody is at the cap."""

    settings: int
    wrong: int
    uncapped: int  # markets with power 3 and nobody at the cap
    wrong_with_root: int  # of the printed search there, with the exponent 1/(r-1)
    wrong_as_read: int  # with r-1


def repaired_search(markets: int = 100) -> Repair:
    """Seven accuracies, three powers."""
    off, n = [], 10
    for k, K in enumerate(ACCURACIES):
        for power in (1.5, 2, 3):
            v = np.sort(np.random.default_rng([7, k]).random((markets, n)))
            weight = suffix_weights(v, np.ones(n), power)
            x, _, cost = one_root(n - np.arange(n) + 0.0 * v, (np.cumsum(v, 1) - v) / v, weight, K, power)
            found = np.where((x >= 0) & (x <= 1), cost * v, np.inf).min(axis=1)
            off.append(np.abs(found / principle2(v, K, power=power).cost - 1).max())
    free = v[(principle2(v, 24, power=3).shares < 1).all(axis=1)]
    least = principle2(free, 24, power=3).cost
    root, as_read = (
        sum(algorithm1(x, 24, power=3, exponent=name).cost > w * (1 + 1e-9) for x, w in zip(free, least, strict=True))
        for name in ("root", "as read")
    )
    return Repair(len(off), int((np.array(off) > 1e-9).sum()), len(free), int(root), int(as_read))


# --- who gains --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Savings:
    """What the buyer saves against the unbiased answer."""

    markets: int
    adds_up: bool  # payments equal to the costs add up to the least cost, to 1e-12
    cheaper: int
    least: float
    median: float


def savings(markets: int = 400) -> Savings:
    """Valuations with heavy tails, four powers."""
    rng = np.random.default_rng(8)
    saved, off = [], []
    for trial in range(markets):
        n, power = int(rng.integers(2, 51)), POWERS[trial % 4]
        v, K = np.exp(rng.normal(size=n)), n**2 / 4 * 10 ** rng.uniform(-3, 0)
        best = principle2(v, K, power=power)
        off.append(abs((v * best.epsilon**power).sum() / best.cost - 1))
        saved.append(1 - best.cost / (v * unbiased(n, K).epsilon ** power).sum())
    cheaper = int((np.array(saved) > 0).sum())
    return Savings(markets, bool(max(off) < 1e-12), cheaper, float(min(saved)), float(np.median(saved)))


@dataclass(frozen=True)
class MoreLoss:
    """Under Principle 2: share of sellers, and of markets in total, that lose more than with the unbiased answer."""

    sellers: float
    sellers_error: float
    total: float
    total_error: float


def more_loss(power: float, draws: int = 20_000) -> MoreLoss:
    """Ten sellers with uniform valuations, K = 2."""
    v = np.random.default_rng([9, int(power)]).random((draws, 10))
    losses = principle2(v, 2.0, power=power).epsilon
    level = unbiased(10, 2.0).epsilon[0] * (1 + 1e-12)
    sellers, total = (losses > level).mean(axis=1), losses.sum(axis=1) > 10 * level
    errors = (float(x.std()) / draws**0.5 for x in (sellers, total))
    return MoreLoss(float(sellers.mean()), next(errors), float(total.mean()), next(errors))


def principle1_lowers_losses() -> tuple[int, int]:
    """How many of a grid of (n, K) have a smaller loss under Principle 1 than unbiased, and the size of the grid."""
    lower = []
    for n in range(2, 51):
        for K in np.linspace(0.001, 0.999, 50) * n**2 / 4:
            lower.append(bool(principle1(n, K).epsilon[0] < unbiased(n, K).epsilon[0]))
    return sum(lower), len(lower)
