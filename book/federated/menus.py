"""Learned sequential menus: the experiments of the page on menus.

Budget factors are those of :mod:`hdpm_book.federated.allin`, markets come from :mod:`hdpm_book.federated.aggregation`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from hdpm_book.federated import regretnet as networks
from hdpm_book.federated.allin import FACTORS, error_of, shown
from hdpm_book.federated.lower_bound import lower_bound
from hdpm_book.federated.menus_training import Settings, start, train
from hdpm_book.federated.meters import refuse
from hdpm_book.federated.partition import budget_of, draw_bids, draw_sizes
from hdpm_book.ledger import FALSE_ALARM
from hdpm_lib.auctions.allin import Auction, gains
from hdpm_lib.auctions.bids import Bids, bids, utility
from hdpm_lib.auctions.menus import KNOTS, SHAPES, TRAINED, Weights, choose, menus, serve, trained_weights
from hdpm_lib.auctions.posted_prices import posted_prices
from hdpm_lib.markets.outcome import Outcome
from hdpm_lib.validation import check_generator, check_number

Array = NDArray[np.float64]
RATES, LIMITS = (0.1, 0.3, 0.6, 0.9, 1, 1.1, 1.5, 3, 6), (0.2, 0.5, 0.8, 1, 1.2)  # of the lies, in units of the truth


@cache
def learned() -> Weights:
    """The recorded weights."""
    return trained_weights()


def auction(reports: Bids, budget: Any) -> Outcome:
    """The menus of the recorded weights."""
    return menus(reports, budget, learned())


def offers(market: Bids, factors: Iterable[float] = (0.1, 0.5, 2.0)) -> dict[str, Array]:
    """What the largest owner of the first market is offered for each of her records, at several budgets."""
    one, big = market[:1], int(market.sizes[0].argmax())
    offered = {f: schedules(one, budget_of(one, f), learned())[0, big] for f in factors}
    return {f"factor {f:g}": prices / one.sizes[0, big] for f, prices in offered.items()}


# --- truth ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """Markets and budgets to look for lies in, and weights that nobody has trained."""

    truth: Bids
    budget: Array
    drawn: Weights


def trial(markets: Mapping[str, Bids], seed: int = 1) -> Trial:
    """Seventy markets of each kind."""
    rng = np.random.default_rng(seed)
    parts = (
        np.concatenate([getattr(market[:70], field) for market in markets.values()])
        for field in ("family", "rate", "privacy_budget", "sizes")
    )
    few = Bids(*parts)
    return Trial(few, budget_of(few, rng.uniform(0.1, 2, len(few.rate))), random_weights(rng))


def gains_of_lies(case: Trial, rule: Auction, families: Iterable[int] = range(4)) -> Array:
    """Gains over the full valuation, for every lie of every owner."""
    truth, found = case.truth, []
    for family, rate, limit in product(families, RATES, LIMITS):
        kind = np.full_like(truth.family, family)
        lies = Bids(kind, rate * truth.rate, limit * truth.privacy_budget, truth.sizes)
        found.append(gains(rule, truth, lies, case.budget) / truth.full_valuation)
    return np.array(found)


def leaky(reports: Bids, budget: Any) -> Outcome:
    """Schedules that peek at the owner's own rate."""
    pull = np.clip(reports.rate, 0, 1.5)[..., None]
    return choose(schedules(reports, budget, learned()) * pull, reports)


def lies(case: Trial) -> pd.DataFrame:
    """Lies that gain with recorded weights, with random ones, and with schedules that leak."""
    tried = {
        "recorded weights": gains_of_lies(case, auction),
        "random weights": gains_of_lies(case, lambda r, b: menus(r, b, case.drawn)),
        "leaky schedules": gains_of_lies(case, leaky, families=[0]),
    }
    rows = {}
    for name, found in tried.items():
        largest = "below 1e-12" if found.max() < 1e-12 else f"{found.max():.1f}"
        rows[name] = {"lies": found.size, "gain": int((found > 1e-12).sum()), "largest gain": largest}
    return pd.DataFrame(rows).T


def every_point(case: Trial, count: int = 501) -> pd.DataFrame:
    """Whether any point of her own schedule is better for an owner than what the truth gives her."""
    truth, rows = case.truth, {}
    points = truth.privacy_budget[..., None] * np.linspace(0, 1, count)
    copies = Bids(*(part[..., None] for part in asdict(truth).values()))
    for name, weights in {"recorded weights": learned(), "random weights": case.drawn}.items():
        offered, bought = serve(truth, case.budget, weights)
        pairs = zip(points.reshape(-1, count), offered.reshape(-1, len(KNOTS)), strict=True)
        prices = [np.interp(row, KNOTS, schedule) for row, schedule in pairs]
        best = (np.reshape(prices, points.shape) - copies.valuation(points)).max(-1)
        honest = utility(truth, bought)
        rows[name] = {
            "points": points.size,
            "none gains": bool((best - honest <= 1e-12 * truth.full_valuation).all()),
            "nobody loses": bool((honest >= 0).all()),
            "within the budget": bool((bought.payments.sum(-1) <= case.budget).all()),
        }
    return pd.DataFrame(rows).T


def _two_names(truth: Bids, budget: Array, i: int) -> Array:
    """Utility of owner `i` who takes part as two."""
    family, rate, limit, sizes = (np.concatenate([part, part[:, [i]]], -1) for part in asdict(truth).values())
    split = bids(family, rate, limit, np.where(np.isin(np.arange(11), (i, 10)), sizes / 2, sizes))
    return utility(split, auction(split, budget))[:, [i, 10]].sum(-1)


def _two_auctions(truth: Bids, budget: Array, i: int, first: Outcome) -> Array:
    """Gain of owner `i` over two auctions who prices herself out of the first."""
    rate = np.where(np.arange(10) == i, 100 * truth.rate, truth.rate)
    total = []
    for held in (first, auction(replace(truth, rate=rate), budget)):
        then = auction(truth, budget + (budget - held.payments.sum(-1)))
        total.append((utility(truth, held) + utility(truth, then))[:, i])
    return total[1] - total[0]


def dropped_conditions(seed: int = 2) -> pd.DataFrame:
    """Share of owners who gain by a lie if a condition of the theorem fails, in 200 markets at factor 0.3."""
    rng = np.random.default_rng(seed)
    truth = draw_bids(draw_sizes("IID", 200, rng), rng)
    budget, full = budget_of(truth, 0.3), truth.full_valuation
    dear, half = replace(truth, rate=3 * truth.rate), replace(truth, sizes=truth.sizes / 2)
    more = replace(truth, privacy_budget=1.5 * truth.privacy_budget)
    loose = replace(truth, privacy_budget=np.full_like(truth.rate, 10.0))
    first = auction(truth, budget)
    honest, everybody = utility(truth, first), range(10)
    rows = {
        "budget: asks three times her rate": gains(lambda r, _: auction(r, budget_of(r, 0.3)), truth, dear, budget),
        "one auction: prices herself out of the first": np.stack(
            [_two_auctions(truth, budget, i, first) for i in everybody], -1
        ),
        "sizes: shows half of her records": gains(auction, truth, half, budget),
        "one name: bids as two": np.stack([_two_names(truth, budget, i) for i in everybody], -1) - honest,
        "limit: names one and a half times as much": gains(auction, loose, more, budget)
        - gains(auction, loose, truth, budget),
        "taking part: stays away": np.where(first.privacy_loss == 0, full, 0),
        "none fails: asks three times her rate": gains(auction, truth, dear, budget),
    }
    shares = {name: gain / full for name, gain in rows.items()}
    table = pd.DataFrame(
        {
            "who gains": {name: f"{(g > 1e-9).mean():.1%}" for name, g in shares.items()},
            "largest gain": {name: f"{g.max():.2f}" for name, g in shares.items()},
        }
    )
    table.loc["taking part: stays away", "largest gain"] = "the fee"
    return table


# --- training ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Short:
    """A short training: its losses, its weights, and those it started from."""

    losses: Array
    weights: Weights
    thumb: Weights

    @property
    def falls(self) -> bool:
        """Whether the loss falls."""
        return bool(self.losses[-50:].mean() < self.losses[:20].mean())


def short_training(seed: int = 1) -> Short:
    """Three hundred steps."""
    settings = Settings(steps=300, pool=5000)
    states, losses = zip(*train(settings, seed=seed), strict=True)
    live, thumb = (
        {name: np.asarray(w, float) for name, w in state["weights"].items()}
        for state in (states[-1], start(settings, seed))
    )
    return Short(np.concatenate(losses), live, thumb)


def record() -> dict[str, Any]:
    """What is stored beside the recorded weights."""
    return dict(json.loads((TRAINED / "menus.json").read_text("utf8")))


def about(record: Mapping[str, Any]) -> pd.DataFrame:
    """How the recorded weights came about."""
    rows = record["settings"] | {name: record[name] for name in ("seed", "hardware", "commit")} | record["versions"]
    rows["seconds"] = f"{record['seconds']}, of them {record['cpu_seconds']} at work"
    rows["weights"] = sum(w.size for w in learned().values())
    rows["bytes"] = (TRAINED / "menus.npz").stat().st_size
    return pd.DataFrame({"": rows}).astype(str)


@dataclass(frozen=True)
class Medians:
    """Median error bounds by budget factor: posted prices, and menus by three kinds of weights."""

    table: pd.DataFrame

    @property
    def thumb_over_recorded(self) -> list[str]:
        """How much worse the rule of thumb is."""
        return [f"{ratio:.2f}" for ratio in self.table["rule of thumb"] / self.table["recorded"]]

    @property
    def short_beats_posted(self) -> bool:
        """Whether the short training is better than posted prices at each factor."""
        return bool((self.table["300 steps"] < self.table["posted prices"]).all())

    @property
    def short_is_near(self) -> bool:
        """Whether the short training is within 5 % of the recorded one at each factor."""
        return bool((self.table["300 steps"] < 1.05 * self.table["recorded"]).all())


def by_training(truth: Bids, short: Short) -> Medians:
    """Medians, as after a short training a rare market may buy next to nothing, which ruins a mean."""
    rows, kinds = {}, {"rule of thumb": short.thumb, "300 steps": short.weights, "recorded": learned()}
    for factor in FACTORS[::2]:
        budget = budget_of(truth, factor)
        outcomes = {"posted prices": posted_prices(truth, budget)}
        outcomes |= {name: menus(truth, budget, weights) for name, weights in kinds.items()}
        rows[factor] = {name: np.median(error_of(outcome, truth)) for name, outcome in outcomes.items()}
    return Medians(pd.DataFrame(rows).T)


# --- accuracy ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compared:
    """Mean error bounds by law of the sizes and budget factor.

    Attributes
    ----------
    table : DataFrame, with standard errors
    means : DataFrame, a row for each law and factor
    scores : list of float, of the paired differences to posted prices and to DM-RegretNet
    below : int, markets in which menus are below the lower bound
    """

    table: pd.DataFrame
    means: pd.DataFrame
    scores: list[float]
    below: int

    @property
    def always_smaller(self) -> bool:
        """Whether menus have the smaller mean in all comparisons, beyond chance."""
        return bool(min(self.scores) > norm.isf(FALSE_ALARM / len(self.scores)))

    def curves(self, kind: str) -> dict[str, Array]:
        """Means over the factors, for a figure."""
        return {str(name): column.to_numpy() for name, column in self.means.loc[kind].items()}


def compare(markets: Mapping[str, Bids]) -> Compared:
    """Menus against posted prices, both DM-RegretNets, whose owners may refuse a loss, and the lower bound."""
    laws, trained = {"IID": "iid", "Non-IID": "niid"}, {"DM for OptAggr": "opt", "DM for ConvAggr": "conv"}
    table, means, scores, below = {}, {}, [], 0
    for kind, truth in markets.items():
        for factor in FACTORS:
            budget = budget_of(truth, factor)
            least = lower_bound(truth, budget)
            menu, posted = (error_of(rule(truth, budget), truth) for rule in (auction, posted_prices))
            deep = {}
            for label, rule in trained.items():
                sold = networks.run(*networks.load_trained(f"dm-{rule}-{laws[kind]}"), truth, budget)
                deep[label] = error_of(refuse(truth, sold), truth)
            table[kind, f"{factor:g}"] = {
                "bound": shown(least),
                "menus": shown(menu),
                "posted": shown(posted),
                "difference": shown(posted - menu),
                **{label: shown(error[np.isfinite(error)]) for label, error in deep.items()},
                "invalid": f"{max(np.isinf(error).mean() for error in deep.values()):.1%}",
            }
            for versus in (posted - menu, *((error - menu)[np.isfinite(error)] for error in deep.values())):
                scores.append(float(versus.mean() / versus.std(ddof=1) * np.sqrt(len(versus))))
            curves = {label: error[np.isfinite(error)] for label, error in deep.items()}
            curves |= {"posted prices": posted, "menus": menu}
            means[kind, factor] = {name: e.mean() for name, e in (curves | {"lower bound": least}).items()}
            below += int((menu < least * (1 - 1e-9)).sum())
    return Compared(pd.DataFrame(table).T, pd.DataFrame(means).T, scores, below)


def elsewhere(seed: int = 3) -> pd.DataFrame:
    """Four kinds of markets that the training has not seen: medians, and how often the error bound is above 50."""
    rng = np.random.default_rng(seed)
    others = {f"n = {n}": draw_bids(draw_sizes("IID", 2000, rng, owners=n), rng) for n in (20, 5)}
    usual = draw_bids(draw_sizes("IID", 2000, rng), rng)
    others["all square root"] = replace(usual, family=np.full_like(usual.family, 2))
    others["rates doubled"] = replace(usual, rate=2 * usual.rate)
    rules: dict[str, Auction] = {"menus": auction, "posted": posted_prices}
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for (name, truth), factor in product(others.items(), (0.1, 0.5, 2.0)):
        budget, row = budget_of(truth, factor), rows.setdefault((name, f"{factor:g}"), {})
        for title, rule in rules.items():
            e = error_of(rule(truth, budget), truth)
            row |= {title: f"{np.median(e):.2f}", f"{title} > 50": f"{(e > 50).mean():.2%}"}
    return pd.DataFrame(rows).T


# --- exercises --------------------------------------------------------------------------------------------------------


def cheapest_first(reports: Bids, budget: Any) -> Outcome:
    """Menus in ascending order of the reported rates: sizes that grow as the rate falls, at the same costs."""
    fake = reports.sizes.mean() * (1 + 1e-6 / reports.rate)
    return auction(replace(reports, sizes=fake, rate=reports.rate * reports.sizes / fake), budget)


def pairs_that_gain(truth: Bids, budget: Array) -> tuple[float, int]:
    """Pairs that gain together if one asks a hundred times her rate: their share, and those with the other before."""
    honest, together, before = utility(truth, auction(truth, budget)), [], 0
    for i in range(10):
        dear = np.where(np.arange(10) == i, 100 * truth.rate, truth.rate)
        gain = utility(truth, auction(replace(truth, rate=dear), budget)) - honest
        pair = gain + gain[:, [i]] > 1e-9 * truth.full_valuation
        together.append(np.delete(pair, i, 1))
        before += int(np.delete(pair & (truth.sizes > truth.sizes[:, [i]]), i, 1).sum())
    return float(np.mean(together)), before


def uses_of_money(truth: Bids) -> pd.DataFrame:
    """Shares of the budget that pay costs, stay with owners as rent, or are not spent, by budget factor."""
    rows = {}
    for factor in FACTORS:
        budget = budget_of(truth, factor)
        bought = auction(truth, budget)
        cost = (truth.valuation(bought.privacy_loss).sum(-1) / budget).mean()
        rent = (utility(truth, bought).sum(-1) / budget).mean()
        rows[f"{factor:g}"] = {"cost": cost, "rent": rent, "kept": 1 - cost - rent}
    return pd.DataFrame(rows).T


def schedules(bids: Bids, budget: ArrayLike, weights: Weights) -> Array:
    """What :func:`~hdpm_lib.auctions.menus.menus` offers each owner: the first part of
    :func:`~hdpm_lib.auctions.menus.serve`.
    """
    return serve(bids, budget, weights)[0]


def random_weights(rng: np.random.Generator, scale: float = 0.3) -> Weights:
    """Weights that nobody has trained: independent normal numbers with this standard deviation."""
    check_generator(rng)
    check_number(scale, "scale", 0)
    return {name: scale * rng.standard_normal(shape) for name, shape in SHAPES.items()}
