"""What the regret of the auction networks means: the experiments of the page with this name.

``python -m hdpm_book.federated.regret`` compares searches for misreports on 100 profiles of each law of the sizes and
stores what they find in ``data/studies``.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from hdpm_book.federated import RECORDED, meters
from hdpm_book.federated.allin import error_of
from hdpm_book.federated.lower_bound import lower_bound
from hdpm_book.federated.meters import REACH, Estimate, Regret, estimate, noise_floor, printed_regret
from hdpm_book.federated.networks import record, recorded_study
from hdpm_book.federated.partition import KINDS, budget_of
from hdpm_book.federated.regretnet import Network, Weights, load_trained, run
from hdpm_book.federated.reports import Reports, Rule, learned, misreport, play, printed_search, search
from hdpm_book.federated.study import study_markets
from hdpm_book.records import Row, collect
from hdpm_lib.auctions.bids import Bids
from hdpm_lib.auctions.posted_prices import posted_prices
from hdpm_lib.validation import FALSE_ALARM

Array = NDArray[np.float64]
RANDOM, FIXED = ("RegretNet", "M-RegretNet"), ("DM + ConvAggr", "DM + OptAggr")
NAMES = {
    "RegretNet": "regretnet-iid",
    "M-RegretNet": "m-short-iid",
    "DM + ConvAggr": "dm-conv-iid",
    "DM + OptAggr": "dm-opt-iid",
    "RegretNet, Non-IID": "regretnet-niid",
    "M-RegretNet, Non-IID": "m-short-niid",
    "DM + ConvAggr, Non-IID": "dm-conv-niid",
    "DM + OptAggr, Non-IID": "dm-opt-niid",
}
FACTORS = (0.1, 0.3, 0.5, 1.0, 2.0)  # budget factors of the regret
GRID = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0)  # and of the error
USED = {f"{name} + {rule}": (name, rule) for name in RANDOM for rule in ("OptAggr", "ConvAggr")}
USED |= {name: (name, name.split()[-1]) for name in FIXED}
OPT = (FIXED[1], "DM + ConvAggr, by OptAggr")  # DM-RegretNet trained for either rule, aggregated by OptAggr
USED[OPT[1]] = FIXED[0], "OptAggr"
NEAR = "the library's search, within a factor of 20"
SEARCHES = ("0 steps", "25 steps", "200 steps", "200 random", "800 random", "best of all")
MEASURES = {
    "published": "regret, published procedure",
    "no_misreport": "the same, nobody misreports",
    "near": "regret over the lottery, at least",
    "regret": "the same, any misreport, at least",
    "regret_over_full": "any misreport, over the full valuation, at least",
    "ex_post_violation": "IR violation after the draw",
    "ir_violation": "IR violation in expectation",
    "bought": "bought",
}


def pair(x: Estimate, digits: int = 2) -> str:
    """Value and standard error over the profiles, as text."""
    return f"{x.value:.{digits}f} ± {x.error:.{digits}f}"


# --- the networks and the markets -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """Stored networks by the names of the page, and the book's test profiles for both laws of the sizes."""

    nets: dict[str, tuple[Network, Weights]]
    rules: dict[str, Rule]
    markets: dict[str, Bids]
    budgets: dict[str, Array]

    @property
    def few(self) -> Bids:
        """The first 100 IID profiles."""
        return self.markets["IID"][:100]

    @property
    def cash(self) -> Array:
        """Budgets of the first 100 IID profiles."""
        return self.budgets["IID"][:100]

    def trained(self, kind: str, name: str) -> str:
        """The label of the network that was trained for a law of the sizes."""
        return name if kind == "IID" else f"{name}, {kind}"


def setting() -> Setting:
    """Load networks and draw markets."""
    nets = {label: load_trained(name) for label, name in NAMES.items()}
    drawn = {kind: study_markets(2000, kind) for kind in KINDS}
    return Setting(
        nets,
        {label: learned(*net) for label, net in nets.items()},
        {kind: market for kind, (market, _) in drawn.items()},
        {kind: budget for kind, (_, budget) in drawn.items()},
    )


def provenance() -> pd.DataFrame:
    """How the networks were trained."""
    about = {}
    for label, name in NAMES.items():
        found = record(name)
        chosen = found["settings"]
        about[label] = {
            "trained for": chosen["partition"],
            "iterations": chosen["epochs"] * chosen["batches"],
            "profiles in each": chosen["profiles"],
            "J": chosen["search"],
            "seed": found["seed"],
            "commit": found["commit"],
        }
    return pd.DataFrame(about).T


# --- an estimator that sees regret where nobody misreports ------------------------------------------------------------


@dataclass(frozen=True)
class Draws:
    """What independent draws show without any misreport."""

    table: pd.DataFrame
    agree: bool
    between: bool


def nobody_misreports(at: Setting, repeats: int = 40) -> Draws:
    """The published estimator at truth, drawn and exact, for random weights and for two trained lotteries."""
    rules = {}
    for levels, seed in ((1, 0), (1, 1), (8, 0), (8, 1)):
        rng, network = np.random.default_rng(seed), Network("M-RegretNet", levels=levels)
        weights = {name: rng.normal(0, shape[0] ** -0.5, shape) for name, shape in network.shapes.items()}
        rules[f"random weights, M = {levels}, seed {seed}"] = learned(network, weights)
    rules |= {name: at.rules[name] for name in RANDOM}
    rows, distances, inside = {}, [], []
    for name, rule in rules.items():
        rng, truth = np.random.default_rng(4), play(rule, at.few, at.cash)
        drawn = [printed_regret(truth, truth, rng).mean() for _ in range(repeats)]
        floor, z = noise_floor(truth.outcomes, truth.costs), truth.outcomes
        inside.append(((floor > z[..., 0] - 1e-9) & (floor < 1 - z[..., -1] + 1e-9)).all())
        distances.append((np.mean(drawn) - floor.mean()) / (np.std(drawn, ddof=1) / repeats**0.5))
        rows[name] = {
            "drawn": f"{np.mean(drawn):.2f}",
            "exact": f"{floor.mean():.3f}",
            "expected utilities": f"{printed_regret(truth, truth).mean():.0f}",
            "bought": f"{(z @ np.linspace(0, 1, z.shape[-1])).mean():.3f}",
        }
    limit = stats.t(repeats - 1).isf(FALSE_ALARM / 2 / len(distances))
    return Draws(pd.DataFrame(rows).T, bool(np.abs(distances).max() < limit), bool(np.all(inside)))


# --- searches ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """Table I for one network: `near` is the regret over the lottery, within the reach of training."""

    published: Estimate
    no_misreport: Estimate
    near: Regret
    ir_violation: Estimate
    ex_post_violation: Estimate
    bought: Estimate


def measured(at: Setting) -> dict[tuple[str, str], Measured]:
    """Every measure of the eight entries of Table I on 100 profiles, by law of the sizes and network."""
    ours = {}
    for kind, name in product(KINDS, RANDOM + FIXED):
        rule, market, money = at.rules[at.trained(kind, name)], at.markets[kind][:100], at.budgets[kind][:100]
        truth = play(rule, market, money)
        lies = printed_search(rule, market, money, clamp="owners", frozen=True)
        ours[kind, name] = Measured(
            estimate(printed_regret(truth, play(rule, market, money, lies), np.random.default_rng(5))),
            estimate(noise_floor(truth.outcomes, truth.costs)),
            meters.regret(rule, market, money, reach=REACH),
            estimate(meters.ir_violation(truth)),
            estimate(meters.ir_violation(truth, ex_post=True)),
            estimate(truth.outcomes @ np.linspace(0, 1, rule.levels + 1)),
        )
    return ours


def random_search(rule: Rule, market: Bids, budget: Array, tries: int, rng: np.random.Generator) -> Array:
    """Largest gains (k, n) from the best structured misreport on by random changes, within the reach of training.

    All parts of a report are multiplied by log-normal factors, of a spread from 0.01 to 1; a better report is kept.
    """
    gain, best = search(rule, market, budget, steps=0, reach=REACH)
    truth, honest = misreport(market, rule.levels), play(rule, market, budget).utility
    least = np.minimum(np.maximum(truth.sizes / REACH, 1), truth.sizes)
    for _ in range(tries):
        spread = 10 ** rng.uniform(-2, 0)
        values, ceiling, sizes = (
            x * np.exp(spread * rng.standard_normal(x.shape))
            for x in (np.diff(best.values, prepend=0.0).clip(1e-9), *best[1:])
        )
        lie = Reports(
            values.cumsum(-1).clip(truth.values / REACH, truth.values * REACH),
            ceiling.clip(truth.privacy_budget / REACH, truth.privacy_budget),
            sizes.clip(least, truth.sizes),
        )
        found = play(rule, market, budget, lie).utility - honest
        better = found > gain
        gain = np.where(better, found, gain)
        values = np.where(better[..., None], lie.values, best.values)
        best = Reports(values, *(np.where(better, a, b) for a, b in zip(lie[1:], best[1:], strict=True)))
    return gain


def gap(a: Regret, b: Regret | None = None) -> dict[str, Estimate]:
    """Regret by the mean of the quotients and by the quotient of the sums; with `b` on the same profiles, `a` less `b`.

    The standard error of a difference is that of the paired profiles, to first order.
    """
    found = {}
    for measure in ("mean of quotients", "quotient of sums"):
        value, spread = 0.0, np.zeros(len(a.gain))
        for sign, x in ((1, a), (-1, b)):
            if x is not None:
                sells = x.cost > 0
                quotient = np.where(sells, x.gain / np.where(sells, x.cost, 1), 0)
                up, down = (quotient, sells) if measure == "mean of quotients" else (x.gain, x.cost)
                ratio = up.sum() / down.sum()
                value, spread = value + sign * ratio, spread + sign * (up - ratio * down).sum(-1) / down.sum(-1).mean()
        found[measure] = Estimate(float(value), float(spread.std(ddof=1) / np.sqrt(len(spread))))
    return found


def compared(at: Setting, kind: str, profiles: int = 100) -> Row:
    """What each of `SEARCHES` finds in every network, and DM-RegretNet less each lottery, paired."""
    market, money, gains = at.markets[kind][:profiles], at.budgets[kind][:profiles], {}
    for name in RANDOM + FIXED:
        rule, tried = at.rules[at.trained(kind, name)], []
        for how in SEARCHES[:-1]:
            count = int(how.split()[0])
            if "random" in how:
                tried.append(random_search(rule, market, money, count, np.random.default_rng(9)))
            else:
                tried.append(search(rule, market, money, steps=count, reach=REACH)[0])
        cost = play(rule, market, money).cost
        for how, gain in zip(SEARCHES, [*tried, np.max(tried, axis=0)], strict=True):
            gains[how, name] = Regret(gain, cost, market.full_valuation, market.sizes)
    found = []
    for how, name, other in product(SEARCHES, RANDOM + FIXED, ("", *RANDOM)):
        if not other or name in FIXED:
            for measure, x in gap(gains[how, name], gains[how, other] if other else None).items():
                told = {"search": how, "measure": measure, "network": name, "less": other}
                found.append(told | {"value": round(x.value, 5), "error": round(x.error, 5)})
    return {"sizes": kind, "found": found}


@dataclass(frozen=True)
class Searches:
    """Gains over cost that searches find, by network and search.

    `missed`: even with sub-bids in order the printed search finds clearly less than is there, on both networks;
    `hidden`: so it does with owners in order. `ratio`: what one fixed misreport finds, over what the latter does.
    """

    gains: dict[str, dict[str, Estimate]]
    missed: bool
    hidden: bool
    ratio: dict[str, float]

    @property
    def table(self) -> pd.DataFrame:
        """All gains with their standard errors."""
        return pd.DataFrame(self.gains).map(lambda x: pair(x, 3))


def searches(at: Setting, ours: dict[tuple[str, str], Measured], distance: float = 5) -> Searches:
    """Misreports of the printed search, with values in two orders, beside a list of structured ones."""
    gains: dict[str, dict[str, Estimate]] = {}
    owners, bids = "printed search, owners in order", "printed search, sub-bids in order"
    for name in FIXED:
        rule, truth = at.rules[name], play(at.rules[name], at.few, at.cash)
        lies = {
            owners: printed_search(rule, at.few, at.cash, clamp="owners", frozen=True),
            bids: printed_search(rule, at.few, at.cash, clamp="sub-bids"),
        }
        for scale in (0.1, 0.25, 4.0):
            lies[f"all valuations x {scale:g}"] = misreport(at.few, 8, scale=scale)
        gains[name] = {
            key: estimate(printed_regret(truth, play(rule, at.few, at.cash, lie))) for key, lie in lies.items()
        }
        gains[name][NEAR] = ours["IID", name].near.relative
        gains[name]["the library's search, any report"] = meters.regret(rule, at.few, at.cash).relative

    def less(name: str, key: str) -> bool:
        """Does `key` find clearly less than is there, by that many standard errors?"""
        a, b = gains[name][key], gains[name][NEAR]
        return bool(b.value - a.value > distance * np.hypot(a.error, b.error))

    return Searches(
        gains,
        all(less(name, bids) for name in FIXED),
        all(less(name, owners) for name in FIXED),
        {name: gains[name]["all valuations x 0.1"].value / gains[name][owners].value for name in FIXED},
    )


# --- Table I ----------------------------------------------------------------------------------------------------------


def printed_table1() -> pd.DataFrame:
    """Table I of the paper, with the names of this page."""
    path = RECORDED.parent / "published" / "fl-market" / "table1.csv"
    printed = pd.read_csv(path, index_col=0)
    printed.index = pd.Index([label.replace("-RegretNet+", " + ") for label in printed.index])
    return printed


def table1(ours: dict[tuple[str, str], Measured]) -> pd.DataFrame:
    """Table I beside our networks."""
    printed, rows = printed_table1(), {}
    for kind, name in ((kind, name) for kind in KINDS for name in RANDOM + FIXED):
        x = ours[kind, name]
        row = printed.loc[name].filter(regex="^iid" if kind == "IID" else "^noniid")
        rows[kind, name] = {
            ("regret", "printed"): f"{row.iloc[0]:.4f}",
            ("regret", "as published"): pair(x.published),
            ("regret", "nobody lies"): f"{x.no_misreport.value:.2f}",
            ("regret", "over the lottery, at least"): pair(x.near.relative),
            ("IR violation", "printed"): f"{row.iloc[1]:.4f}",
            ("IR violation", "after the draw"): pair(x.ex_post_violation),
            ("IR violation", "expected"): pair(x.ir_violation),
            ("", "bought"): pair(x.bought),
        }
    return pd.DataFrame(rows).T


@dataclass(frozen=True)
class Ranking:
    """What the recorded searches find: by sizes, search and measure, the regret of a network or what it has more than
    one `less`; a difference counts beyond `level` standard errors, of the paired profiles."""

    found: pd.DataFrame
    level: float

    @property
    def convergence(self) -> pd.DataFrame:
        """Regret at least, with a column for each search."""
        alone = self.found[self.found["less"] == ""]
        shown = self._shown(alone, ["measure", "sizes", "network", "search"])
        return shown.unstack("search")[list(SEARCHES)].reindex(RANDOM + FIXED, level="network")

    def off(self, ours: dict[tuple[str, str], Measured]) -> float:
        """Largest difference of the recorded means, by 25 steps, from those computed now."""
        some = self.found[(self.found["less"] == "") & (self.found["search"] == "25 steps")]
        means = some[some["measure"] == "mean of quotients"].set_index(["sizes", "network"])["value"]
        return max(abs(float(means[key]) - x.near.relative.value) for key, x in ours.items())

    def gaps(self, how: str) -> pd.DataFrame:
        """DM-RegretNet less each lottery by one search, with a column for each law and measure."""
        some = self.found[(self.found["less"] != "") & (self.found["search"] == how)]
        return self._shown(some, ["network", "less", "measure", "sizes"]).unstack(["measure", "sizes"])

    def _shown(self, some: pd.DataFrame, index: list[str]) -> pd.Series:
        text = [pair(Estimate(*x), 3) for x in zip(some["value"], some["error"], strict=True)]
        return pd.Series(text, pd.MultiIndex.from_frame(some[index]))

    def clear(self, other: str, how: str) -> tuple[int, int, int]:
        """How often DM-RegretNet is beyond doubt above and below a lottery by one search, and of how many times."""
        some = self.found[(self.found["less"] == other) & (self.found["search"] == how)]
        z = some["value"] / some["error"]
        return int((z > self.level).sum()), int((z < -self.level).sum()), len(z)


def ranking() -> Ranking:
    """The recorded comparison of searches."""
    rows = recorded_study("searches")["rows"]
    found = pd.concat([pd.DataFrame(row["found"]).assign(sizes=row["sizes"]) for row in rows])
    comparisons = ((found["less"] != "") & (found["search"] == SEARCHES[0])).sum()
    return Ranking(found, float(stats.norm.isf(FALSE_ALARM / 2 / comparisons)))


# --- by the budget of the buyer ---------------------------------------------------------------------------------------


def by_factor(at: Setting) -> pd.DataFrame:
    """Regret over the lottery, of 50 profiles, IR violation and sales that cost more than the budget, of 100."""
    rows = []
    for name in RANDOM + FIXED:
        for factor in FACTORS:
            purse = budget_of(at.few, factor)
            truth = play(at.rules[name], at.few, purse)
            near = meters.regret(at.rules[name], at.few[:50], purse[:50], reach=REACH)
            rows.append(
                {
                    "network": name,
                    "factor": factor,
                    "regret": near.relative.value,
                    "irv": meters.ir_violation(truth).mean(),
                    "after the draw": meters.ir_violation(truth, ex_post=True).mean(),
                    "cost > B": (truth.cost.sum(-1) > purse).mean(),
                }
            )
    return pd.DataFrame(rows).set_index(["network", "factor"])


def networks_of(name: str) -> pd.DataFrame:
    """Measures of a recorded study: one row for each network."""
    rows = [
        {"M": row["levels"], "same level": row.get("common_share")}
        | {key: value for key, (value, _) in row["metrics"].items()}
        for row in recorded_study(name)["rows"]
        if row.get("determinism", True)
    ]
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class Printed:
    """Least of the printed means for DM-RegretNet."""

    regret: float
    irv: float
    all_zero: bool


def printed_dm() -> Printed:
    """What Table I says of DM-RegretNet."""
    dm = printed_table1().loc[list(FIXED)]
    regret, irv = (float(dm.filter(like=part).min().min()) for part in ("regret", "_ir_"))
    return Printed(regret, irv, bool((dm == 0).all().all()))


# --- error bounds -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bounds:
    """Error of valid gradients and share of invalid ones, by whether owners may refuse, sizes, auction and factor."""

    table: pd.DataFrame

    def curve(self, what: str, auction: str, kind: str = "IID", refuses: bool = False) -> pd.Series:
        """One curve against the budget factor."""
        return self.table.loc[(refuses, kind, auction)][what]

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Three budget factors."""
        columns = [(what, f) for f in (0.1, 0.5, 2.0) for what in ("error", "invalid")]
        table = self.table.unstack("factor")[columns].round(2)
        return table.rename(index={False: "bound to sell", True: "may refuse"}, level=0)

    def lowest(self, kind: str, auction: str) -> list[float]:
        """Budget factors at which a DM-RegretNet has less error than both lotteries by any rule, owners bound."""
        error = self.table["error"].unstack("auction").loc[(False, kind)]
        others = [label for label in USED if not label.startswith("DM")]
        return list(error.index[error[auction] < error[others].min(axis=1)])

    @property
    def opt_at_most_conv(self) -> bool:
        """OptAggr is nowhere above ConvAggr on the same draws."""
        error = self.table["error"].unstack("auction").loc[False]
        return all(bool((error[f"{n} + OptAggr"] <= error[f"{n} + ConvAggr"]).all()) for n in RANDOM)

    @property
    def all_fall(self) -> bool:
        """The curve of every network falls beyond the factor 1 (IID, M-RegretNet aside)."""
        error = self.table["error"].unstack("auction").loc[False].loc[["IID"]].droplevel("sizes")
        above = error.loc[[1.0, 1.4, 2.0]]
        falls = above.drop(columns=[name for name in above if name.startswith("M-")])
        return bool((falls.diff().iloc[1:] < 0).all().all())

    @property
    def regretnet_invalid(self) -> float:
        """Least share of invalid gradients of RegretNet at factor 0.1."""
        return float(
            self.table["invalid"].unstack("factor").loc[(False, slice(None), "RegretNet + OptAggr"), 0.1].min()
        )

    @property
    def dm_never_invalid(self) -> bool:
        """No DM-RegretNet leaves the buyer without a gradient while owners are bound."""
        invalid = self.table["invalid"].unstack("auction").loc[False]
        return bool((invalid[list(FIXED)] == 0).all().all())


def error_bounds(at: Setting) -> Bounds:
    """Error bounds with owners bound to their sales, and with owners who may refuse a loss."""
    rows = []
    for kind in KINDS:
        bidders, rng = at.markets[kind][:500], np.random.default_rng(6)
        for factor in GRID:
            purse, sold = budget_of(bidders, factor), {}
            for label, (name, rule) in USED.items():
                if name not in sold:
                    sold[name] = run(*at.nets[at.trained(kind, name)], bidders, purse, rng)
                for refuses in (False, True):
                    outcome = meters.refuse(bidders, sold[name]) if refuses else sold[name]
                    error, invalid = meters.error_of_valid(outcome.privacy_loss, bidders.sizes, rule)
                    row = {"refuses": refuses, "sizes": kind, "auction": label, "factor": factor}
                    rows.append(row | {"error": error.value, "invalid": invalid.value})
    return Bounds(pd.DataFrame(rows).set_index(["refuses", "sizes", "auction", "factor"]).sort_index())


@dataclass(frozen=True)
class Posted:
    """Posted prices beside two DM-RegretNets by OptAggr and a lower bound, by budget factor.

    `lower`: at how many factors posted prices have a lower error than both, whose owners are bound or free; `paid`:
    their least payments over cost above factor 1.
    """

    table: pd.DataFrame
    lower: tuple[int, int]
    falls: bool
    bound_constant: bool
    paid: float


def against_posted(at: Setting, bounds: Bounds) -> Posted:
    """Error of posted prices and of a buyer who knows all valuations, for the IID markets."""
    bidders, rows = at.markets["IID"][:500], {}
    for factor in GRID:
        purse = budget_of(bidders, factor)
        outcome = posted_prices(bidders, purse)
        valid, _ = meters.error_of_valid(outcome.privacy_loss, bidders.sizes)
        cost = bidders.valuation(outcome.privacy_loss)
        rows[factor] = {
            "lower bound": lower_bound(bidders, purse).mean(),
            "posted prices": valid.value,
            "  payments / cost": outcome.payments.sum() / cost.sum(),
        }
        for trained, label in zip(("OptAggr", "ConvAggr"), OPT, strict=True):
            bound, free = (bounds.table.loc[(refuses, "IID", label, factor)] for refuses in (False, True))
            rows[factor][f"DM for {trained}, bound to sell"] = bound["error"]
            rows[factor][f"DM for {trained}, may refuse"] = free["error"]
            rows[factor][f"  its invalid share, {trained}"] = free["invalid"]
    table = pd.DataFrame(rows)
    posted, above = table.loc["posted prices"], [1.0, 1.4, 2.0]
    lower = [int((table.filter(like=end, axis=0) > posted).all().sum()) for end in ("bound to sell", "may refuse")]
    return Posted(
        table,
        (lower[0], lower[1]),
        bool(posted[above].is_monotonic_decreasing),
        table.loc["lower bound", [1.0, 2.0]].nunique() == 1,
        float(table.loc["  payments / cost", above].min()),
    )


@dataclass(frozen=True)
class AboveOne:
    """DM-RegretNets by OptAggr at the factors 1 and 2: `clear`, all errors fall beyond doubt, paired.

    `least` is the smallest fall as a share of the error, and `paid` the least of payments over cost.
    """

    clear: bool
    least: float
    paid: float


def above_one(at: Setting) -> AboveOne:
    """What money beyond the whole valuation buys from every stored DM-RegretNet."""
    clear, least, paid = [], [], []
    for kind, name in product(KINDS, FIXED):
        bidders, net = at.markets[kind], at.nets[at.trained(kind, name)]
        sold = [run(*net, bidders, budget_of(bidders, factor)) for factor in (1, 2)]
        a, b = (error_of(x, bidders) for x in sold)
        drop = estimate(a - b)
        clear.append(drop.value > stats.norm.isf(FALSE_ALARM / 4) * drop.error)
        least.append(drop.value / a.mean())
        paid += [x.payments.sum() / bidders.valuation(x.privacy_loss).sum() for x in sold]
    return AboveOne(all(clear), float(min(least)), float(min(paid)))


@dataclass(frozen=True)
class Lead:
    """Accuracy of DM-RegretNet minus that of the others in paired runs.

    `power` is the chance to see a difference of 0.05, and `needed` the runs for which it is 0.9.
    """

    runs: int
    needed: float
    power: float
    lead: dict[str, Estimate]
    separated: dict[str, bool]


def accuracy_lead() -> Lead:
    """The recorded runs of :mod:`hdpm_book.federated.accuracy`."""
    runs, level = pd.DataFrame(recorded_study("accuracy")["rows"]), stats.norm.isf(FALSE_ALARM / 2)
    lead = {name: estimate(runs["DM-RegretNet, OptAggr"] - runs[f"{name}, OptAggr"]) for name in RANDOM}
    spread = max(x.error for x in lead.values()) * np.sqrt(len(runs))
    needed = ((level + stats.norm.isf(0.1)) * spread / 0.05) ** 2
    power = min(stats.norm.cdf(0.05 / x.error - level) for x in lead.values())
    return Lead(
        len(runs),
        float(needed),
        float(power),
        lead,
        {name: bool(x.value > level * x.error) for name, x in lead.items()},
    )


# --- more levels ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trend:
    """Means and standard errors of the measures by number of levels, and Kendall's rank correlation with it."""

    means: pd.DataFrame
    errors: pd.DataFrame
    tau: dict[str, float]
    p: dict[str, float]

    def rises(self, *measures: str) -> bool:
        """Do all of them rise with `M`, beyond doubt?"""
        return all(self.tau[key] > 0 and self.p[key] < FALSE_ALARM for key in measures)

    def falls(self, *measures: str) -> bool:
        """Do all of them fall with `M`, beyond doubt?"""
        return all(self.tau[key] < 0 and self.p[key] < FALSE_ALARM for key in measures)

    @property
    def only_full_falls(self) -> bool:
        """Of all measures of regret and losses only regret over the full valuation falls, as does what is bought."""
        return {key for key in MEASURES if self.falls(key)} == {"regret_over_full", "bought"}

    def band(self, key: str) -> Array:
        """Ends of a band of two standard errors."""
        return np.array([self.means.loc[key] + 2 * s * self.errors.loc[key] for s in (-1, 1)])

    @property
    def table(self) -> pd.DataFrame:
        """All measures."""
        table = self.means.map("{:.3f}".format)
        table["s.e."] = self.errors.max(axis=1).map("{:.3f}".format)
        table["tau"] = [f"{self.tau[key]:+.2f}" for key in MEASURES]
        table["p"] = [f"{self.p[key]:.0e}" for key in MEASURES]
        return table.rename(index=MEASURES)


def trend() -> Trend:
    """Ten recorded M-RegretNets for each number of levels."""
    sweep = networks_of("levels")
    groups = sweep.groupby("M")[list(MEASURES)]
    found = {key: stats.kendalltau(sweep["M"], sweep[key]) for key in MEASURES}
    return Trend(
        groups.mean().T,
        groups.std().T / np.sqrt(groups.size()),
        {key: float(x.statistic) for key, x in found.items()},
        {key: float(x.pvalue) for key, x in found.items()},
    )


def main(arguments: list[str] | None = None) -> None:
    """Command line: compare the searches and store what they find."""
    parser = argparse.ArgumentParser(prog="python -m hdpm_book.federated.regret", description=main.__doc__)
    parser.add_argument("--folder", type=Path, default=RECORDED)
    given, at = parser.parse_args(arguments), setting()
    jobs, about = [(kind,) for kind in KINDS], {"networks": NAMES, "reach": REACH, "test_markets": 100}
    collect(given.folder, "searches", jobs, lambda kind: compared(at, kind), about, "jax", "jaxlib", "optax", "numpy")


if __name__ == "__main__":
    main()
