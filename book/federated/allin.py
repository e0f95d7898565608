"""Auctions for owners who sell all or nothing, and posted prices: the experiments of the page on All-in.

A rule makes an outcome of valuations and amounts of shape (..., n) and a budget, as
:func:`hdpm_lib.auctions.allin.all_or_nothing` does: what it calls a privacy loss is the amount sold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from hdpm_book.federated.lower_bound import lower_bound
from hdpm_book.federated.partition import budget_of
from hdpm_lib import aggregation
from hdpm_lib.auctions.allin import Auction, all_in, all_or_nothing, gains
from hdpm_lib.auctions.bids import Bids, bids, utility
from hdpm_lib.auctions.posted_prices import best_sale, posted_prices
from hdpm_lib.markets.outcome import Outcome
from hdpm_lib.markets.payments import with_own_report

Array = NDArray[np.float64]
FACTORS = (0.1, 0.3, 0.5, 0.7, 1.0, 2.0)
Rule = Callable[[Array, Array, Array], Outcome]


# --- All-in as printed ------------------------------------------------------------------------------------------------


def all_in_printed(valuations: ArrayLike, amounts: ArrayLike, budget: ArrayLike, *, stop: bool = False) -> Outcome:
    """All-in as printed (Algorithm 4): not truthful, with payments that sum to the budget if anybody wins.

    Owners of equal unit valuation are taken in the order of their places; the paper does not say. With `stop` the
    auction ends at the first owner who is not covered, instead of passing over her.

    Examples
    --------
    >>> all_in_printed([100.0, 2.0], [100.0, 1.0], 100.0).payments
    array([100.,   0.])
    >>> all_in_printed([100.0, 0.5], [100.0, 1.0], 100.0).payments   # the loser asks for less than her valuation, 2
    array([  0., 100.])
    """
    money = np.asarray(budget, dtype=float)
    v, x, _ = np.broadcast_arrays(valuations, amounts, money[..., None])
    # lines 1 and 2: ascending unit valuations
    order = np.argsort(v / x, axis=-1, kind="stable")
    value, amount = np.take_along_axis(v, order, -1), np.take_along_axis(x, order, -1)
    # lines 3 to 5: who is covered by the budget, shared among all taken and her, is taken
    taken, going = np.zeros(v.shape[:-1]), np.ones(v.shape[:-1], dtype=bool)
    accepted = np.zeros(v.shape, dtype=bool)
    for i in range(v.shape[-1]):
        covered = value[..., i] * (taken + amount[..., i]) <= money * amount[..., i]
        going &= covered | (not stop)
        accepted[..., i] = covered & going
        taken = taken + np.where(accepted[..., i], amount[..., i], 0.0)
    # lines 6 and 7: what winners sell, and the price of a unit
    sold = np.where(np.take_along_axis(accepted, np.argsort(order, axis=-1), -1), x, 0.0)
    price = money / np.where(taken > 0, taken, np.inf)
    return Outcome(sold, sold * price[..., None])


READINGS: dict[str, Rule] = {"passing over": all_in_printed, "stop": partial(all_in_printed, stop=True)}


def printed_for_bids(bids: Bids, budget: ArrayLike) -> Outcome:
    """All-in as printed, of whole privacy budgets."""
    sale = all_in_printed(bids.full_valuation, bids.sizes * bids.privacy_budget, budget)
    return Outcome(np.where(sale.privacy_loss > 0, bids.privacy_budget, 0.0), sale.payments)


def exact_all_in(
    valuations: Sequence[Any], amounts: Sequence[int], budget: int, *, stop: bool = False
) -> list[Fraction]:
    """Payments of All-in in exact fractions, line by line; 0 to losers."""
    winners: list[int] = []
    unit = [Fraction(v) / x for v, x in zip(valuations, amounts, strict=True)]
    for i in sorted(range(len(unit)), key=lambda i: unit[i]):
        if unit[i] <= Fraction(budget) / sum(amounts[j] for j in [*winners, i]):
            winners.append(i)
        elif stop:
            break
    sold = sum(amounts[j] for j in winners) or 1
    return [Fraction(budget) * x / sold * (i in winners) for i, x in enumerate(amounts)]


@dataclass(frozen=True)
class Agreement:
    """Random markets, those in which floats pay as fractions do, and those in which the two readings differ."""

    markets: int
    agree: int
    differ: int


def against_fractions(count: int = 1000, seed: int = 1) -> Agreement:
    """All-in in floats and in exact fractions, by both readings."""
    rng, agree, differ = np.random.default_rng(seed), 0, 0
    for _ in range(count):
        v, x = (rng.integers(1, 9, 5).tolist() for _ in range(2))
        budget = int(rng.integers(1, 31))
        exact = [exact_all_in(v, x, budget, stop=stop) for stop in (False, True)]
        floats = (all_in_printed(v, x, budget, stop=stop).payments for stop in (False, True))
        agree += all(np.allclose(np.array(e, float), f) for e, f in zip(exact, floats, strict=True))
        differ += exact[0] != exact[1]
    return Agreement(count, agree, differ)


@dataclass(frozen=True)
class Kept:
    """What holds for All-in by both readings, over random markets.

    Attributes
    ----------
    markets : int
    least_cover : float, the least payment of a winner over her valuation
    budget_gap : float, the largest relative difference of payments and budget where anybody wins
    moved, still_win : int, winners who asked less for more, and those of them who win again
    """

    markets: int
    least_cover: float
    budget_gap: float
    moved: int
    still_win: int

    @property
    def rational(self) -> bool:
        """Payments cover the valuations and sum to the budget."""
        return self.least_cover >= 1 - 1e-12 and self.budget_gap < 1e-12

    @property
    def monotone(self) -> bool:
        """Every winner who asks less for more wins again."""
        return self.still_win == self.moved


def what_holds(count: int = 5000, seed: int = 2) -> Kept:
    """Individual rationality, the budget and monotonicity of All-in as printed."""
    rng, lowest, gap, moved, kept = np.random.default_rng(seed), np.inf, 0.0, 0, 0
    for rule in READINGS.values():
        v, x = rng.lognormal(size=(2, count, 6))
        budget = rng.uniform(0.1, 1.5, count) * v.sum(-1)
        sale = rule(v, x, budget)
        wins = sale.privacy_loss > 0
        some = wins.any(-1)
        lowest = min(lowest, float((sale.payments / v)[wins].min()))
        gap = max(gap, float(np.abs(sale.payments.sum(-1) / budget - 1)[some].max()))
        for i in range(6):
            own = np.arange(6) == i
            lower, more = v * rng.uniform(size=v.shape), x * (1 + rng.exponential(size=x.shape))
            again = rule(np.where(own, lower, v), np.where(own, more, x), budget)
            moved += int(wins[:, i].sum())
            kept += int((again.privacy_loss > 0)[wins[:, i], i].sum())
    return Kept(2 * count, lowest, gap, moved, kept)


# --- why it is not truthful -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lie:
    """Payments of two owners by both readings, if the second tells the truth and if she lies."""

    table: pd.DataFrame

    @property
    def before(self) -> Fraction:
        """Her utility if she tells the truth, the larger one of both readings."""
        return Fraction(self.table["her utility"].iloc[::2].max())

    @property
    def after(self) -> Fraction:
        """Her utility if she lies, the smaller one of both readings."""
        return Fraction(self.table["her utility"].iloc[1::2].min())


def lie_of_two() -> Lie:
    """Two owners, `V = (100, 2)`, amounts `(100, 1)`, budget 100; the second says 2 or 1/2."""
    rows = {}
    for name, stop in (("passing over", False), ("stop", True)):
        for said in (Fraction(2), Fraction(1, 2)):
            first, second = exact_all_in([100, said], [100, 1], 100, stop=stop)
            row = {"paid to the first": first, "to the second": second, "her utility": second - 2 * (second > 0)}
            rows[f"{name}, she says {said}"] = row
    return Lie(pd.DataFrame(rows).T)


def liars(rule: Rule, truth: Bids, budget: Array) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Who can gain by a lie about `V` alone, and who wins: arrays of shape (..., n).

    Zero, and a little more than each unit valuation in the market, are all the lies that matter.
    """
    v, x = truth.full_valuation, truth.sizes * truth.privacy_budget
    units = np.moveaxis(v / x, -1, 0)[..., None] * (1 + 1e-9)
    units = np.concatenate([0 * units[:1], units])
    gain = single_minded_gains(rule, v, x, (units * x, x), budget).max(0)
    return gain > 1e-6 * budget[:, None], rule(v, x, budget).privacy_loss > 0


@dataclass(frozen=True)
class Gamed:
    """Share of the markets in which somebody gains by a lie, by budget factor, and how many winners gain."""

    table: pd.DataFrame
    winners: int


def gamed(markets: Mapping[str, Bids], count: int = 1000) -> Gamed:
    """Markets of the paper's experiments in which a lie about `V` pays, as printed by both readings and repaired."""
    rows, winners = {}, 0
    for kind, market in markets.items():
        truth = market[:count]
        for name, rule in (READINGS | {"repaired": all_or_nothing}).items():
            row = []
            for factor in FACTORS:
                gaining, wins = liars(rule, truth, budget_of(truth, factor))
                share = gaining.any(-1).mean()
                winners += int((gaining & wins).sum())
                row.append(f"{share:.3f} ({np.sqrt(share * (1 - share) / count):.3f})")
            rows[f"{kind}, {name}"] = row
    return Gamed(pd.DataFrame(rows, index=[f"{f:g}" for f in FACTORS]), winners)


# --- the repair -------------------------------------------------------------------------------------------------------


def pay_everything(valuations: Array, amounts: Array, budget: Array) -> Outcome:
    """Half a repair: the winners of the repaired rule share the whole budget."""
    sold = all_or_nothing(valuations, amounts, budget).privacy_loss
    total = np.maximum(sold.sum(-1, keepdims=True), 1e-300)
    return Outcome(sold, sold * budget[..., None] / total)


def broken(rule: Rule, count: int, rng: np.random.Generator) -> dict[str, int]:
    """Random markets in which somebody gains by a lie, loses by the truth, or the budget does not last.

    Lies are at every place of the order, at ties and just beside them, with the whole amount and with less.
    """
    v, x = rng.integers(1, 9, (2, count, 4)) * rng.choice([1.0, np.pi], (2, count, 1))
    budget = rng.uniform(0.1, 1.5, count) * v.sum(-1)
    sale, gain, lies = rule(v, x, budget), np.full((count, 4), -np.inf), 0
    for part in (1.0, rng.choice([0.25, 0.5, 0.75], (count, 4))):
        units = np.moveaxis(v / x, -1, 0)[..., None] * np.ones(4)
        units = np.concatenate([units, units * (1 - 1e-9), units * (1 + 1e-9)])
        units = np.concatenate([units, units * rng.uniform(0, 1.5, units.shape)])
        lie = units * x * part, np.broadcast_to(x * part, units.shape)
        gain = np.maximum(gain, single_minded_gains(rule, v, x, lie, budget).max(0))
        lies += units.size
    slack = 1e-12 * budget
    loses = sale.payments < np.where(sale.privacy_loss > 0, v, 0) - slack[:, None]
    return {
        "markets": count,
        "lies": lies,
        "somebody gains": int((gain > slack[:, None]).any(-1).sum()),
        "loses": int(loses.any(-1).sum()),
        "over budget": int((sale.payments.sum(-1) > budget + slack).sum()),
    }


def search(seed: int = 3) -> pd.DataFrame:
    """What the search finds for three rules."""
    rng = np.random.default_rng(seed)
    rules: dict[str, tuple[Rule, int]] = {
        "repaired": (all_or_nothing, 20_000),
        "printed": (all_in_printed, 2000),
        "paying out B": (pay_everything, 2000),
    }
    return pd.DataFrame({name: broken(rule, count, rng) for name, (rule, count) in rules.items()}).T


def gains_by_half(truth: Bids, factor: float = 0.5) -> float:
    """Share of the markets in which some owner of many costs gains by offering half of her privacy budget."""
    part = Bids(truth.family, truth.rate, truth.privacy_budget / 2, truth.sizes)
    return float((gains(all_in, truth, part, budget_of(truth, factor)) > 1e-9).any(-1).mean())


# --- posted prices ----------------------------------------------------------------------------------------------------


def at_prices(reports: Bids, budget: Array, price: Array) -> Outcome:
    """Owners in order of place, the money left in equal parts, at any prices."""
    epsilon, payments, n = *np.zeros((2, *reports.rate.shape)), reports.rate.shape[-1]
    left = budget
    for i in range(n):
        d, q = reports.sizes[..., i], price[..., i]
        family, rate, limit = (part[..., i] for part in (reports.family, reports.rate, reports.privacy_budget))
        epsilon[..., i] = best_sale(family, rate, limit, q, left / (n - i) / d)
        payments[..., i] = d * q * epsilon[..., i]
        left = left - payments[..., i]
    return Outcome(epsilon, payments)


PRICES: dict[str, Auction] = {
    "posted prices": posted_prices,
    "one price for all": lambda r, b: at_prices(r, b, np.full(r.rate.shape, 1.5)),
    "price from own report": lambda r, b: at_prices(r, b, 1.5 * np.sqrt(r.rate)),
    "price from others": lambda r, b: at_prices(r, b, 1.5 * (r.rate.sum(-1, keepdims=True) - r.rate) / 9),
}


@dataclass(frozen=True)
class Search:
    """Markets, lies of every owner in them, and budgets, to try rules on."""

    truth: Bids
    lies: Bids
    budget: Array

    def gains(self, rule: Auction) -> Array:
        """What each lie gains, over the owner's full valuation."""
        return gains(rule, self.truth, self.lies, self.budget) / self.truth.full_valuation

    def table(self, rules: Mapping[str, Auction]) -> pd.DataFrame:
        """Lies that gain, losses of truthful owners, and budgets that do not last."""
        rows = {}
        for name, rule in rules.items():
            gain, outcome = self.gains(rule), rule(self.truth, self.budget)
            loses = utility(self.truth, outcome) < -1e-12 * self.truth.full_valuation
            rows[name] = {
                "lies that gain": int((gain > 1e-12).sum()),
                "largest gain": f"{gain.max():.2g}" if gain.max() > 1e-12 else "0",
                "losses": int(loses.sum()),
                "overspent": int((outcome.payments.sum(-1) > self.budget * (1 + 1e-12)).sum()),
            }
        return pd.DataFrame(rows).T


def random_lies(market: Bids, seed: int = 4) -> Search:
    """Fifty random lies of every owner in 200 markets."""
    rng, few = np.random.default_rng(seed), market[:200]
    budget, shape = budget_of(few, rng.uniform(0.1, 2, 200)), (50, 200, 10)
    lies = Bids(
        rng.integers(0, 4, shape),
        np.exp(rng.uniform(-3, 2, shape)),
        few.privacy_budget * rng.uniform(0.02, 1.5, shape),
        np.broadcast_to(few.sizes, shape),
    )
    return Search(few, lies, budget)


def _worth(truth: Bids, reports: Bids, budget: Any) -> Array:
    """What posted prices give to each owner."""
    return utility(truth, posted_prices(reports, budget), reports.sizes)


def dropped_conditions() -> pd.DataFrame:
    """Utility of an owner in small markets where one condition of the theorem does not hold, truthful and not."""
    quadratic: Callable[..., Bids] = partial(bids, "quadratic")
    two, dear = quadratic([1.0, 1.0], 1.0, 10), quadratic([1.5, 1.0], 1.0, 10)
    large, fewer = quadratic(1.0, 2.0, [20, 10]), quadratic(1.0, 2.0, [9, 10])
    names = quadratic(1.0, [2.0, 2.0, 2.0], 10)
    strict, loose = quadratic(1.0, [0.5, 0.5], 10), quadratic(1.0, [1.0, 1.0], 10)
    poor = bids("linear", [1.5, 1.0], 1.0, 10)
    half, more = budget_of(two, 0.5), budget_of(dear, 0.5)
    honest, later = _worth(large, large, 10.0)[0], _worth(two, dear, half)[0] + _worth(two, two, more)[0]
    rows = {
        "1 budget": (_worth(two, two, half)[0], _worth(two, dear, more)[0]),
        "2 one auction": (2 * _worth(two, two, half)[0], later),
        "3 sizes": (honest, _worth(large, fewer, 10.0)[0]),
        "4 one name": (honest, _worth(names, names, 10.0)[:2].sum()),
        "5 limit": (_worth(loose, strict, 30.0)[0], _worth(loose, loose, 30.0)[0]),
        "6 taking part": (_worth(poor, poor, 5.0)[0], _worth(poor, poor, 5.0)[0] - 0.1),
    }
    return pd.DataFrame(rows, index=["truth", "lie"]).T


# --- accuracy ---------------------------------------------------------------------------------------------------------


def error_of(outcome: Outcome, truth: Bids) -> Array:
    """Error bound of the best weights, market by market."""
    weights = aggregation.least_error_weights(outcome.privacy_loss, truth.sizes)
    return aggregation.error_bound(weights, outcome.privacy_loss, truth.sizes)


def error_of_mean(values: Array) -> float:
    """Standard error of a mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def shown(values: Array, digits: int = 2) -> str:
    """A mean and its standard error."""
    return f"{values.mean():.{digits}f} ({error_of_mean(values):.{digits}f})"


AUCTIONS: dict[str, Auction] = {
    "posted prices": posted_prices,
    "All-in, repaired": all_in,
    "All-in, printed": printed_for_bids,
}


@dataclass(frozen=True)
class Errors:
    """Error bounds by law of the sizes and budget factor.

    Attributes
    ----------
    table : DataFrame, means with standard errors
    means : DataFrame, a row for each law and factor, a column for the bound and each auction
    below : int, markets with an error below the lower bound
    """

    table: pd.DataFrame
    means: pd.DataFrame
    below: int

    def curves(self, kind: str) -> dict[str, Array]:
        """Means over the factors, for a figure."""
        return {str(name): column.to_numpy() for name, column in self.means.loc[kind].items()}


def errors(markets: Mapping[str, Bids]) -> Errors:
    """Error bounds of the auctions if everybody tells the truth, and the lower bound."""
    table, means, below = {}, {}, 0
    for kind, truth in markets.items():
        for factor in FACTORS:
            budget = budget_of(truth, factor)
            column = {"lower bound": lower_bound(truth, budget)}
            column |= {name: error_of(auction(truth, budget), truth) for name, auction in AUCTIONS.items()}
            below += sum(int((e < column["lower bound"] * (1 - 1e-9)).sum()) for e in column.values())
            table[kind, f"{factor:g}"] = {name: shown(e) for name, e in column.items()}
            means[kind, factor] = {name: e.mean() for name, e in column.items()}
    return Errors(pd.DataFrame(table).T, pd.DataFrame(means).T, below)


def single_minded_gains(
    rule: Rule,
    valuations: ArrayLike,
    amounts: ArrayLike,
    lies: tuple[ArrayLike, ArrayLike],
    budget: ArrayLike,
) -> Array:
    """What each single-minded owner gains by her lie while the others tell the truth, `valuations` and `amounts`.

    It is minus infinity for an amount above the truth. The cost of a sale is the true valuation, whatever the amount.

    Parameters
    ----------
    lies : tuple of reported valuations and amounts

    Examples
    --------
    >>> single_minded_gains(all_in_printed, [100.0, 2.0], [100.0, 1.0], ([100.0, 0.5], [100.0, 1.0]), 100.0)
    array([ 0., 98.])
    """
    v, x, money = (np.asarray(part, dtype=float) for part in (valuations, amounts, budget))
    value, amount = (with_own_report(true, lie) for true, lie in zip((v, x), lies, strict=True))
    honest, sale = rule(v, x, money), rule(value, amount, np.broadcast_to(money[..., None], value.shape[:-1]))
    told = sale.payments - np.where(sale.privacy_loss > 0, v[..., None, :], 0.0)
    excess = amount > x[..., None, :] * (1 + 1e-12)
    told = np.diagonal(np.where(excess, -np.inf, told), axis1=-2, axis2=-1)
    return told - (honest.payments - np.where(honest.privacy_loss > 0, v, 0.0))
