"""What the regret of the auction networks means: the experiments of the page with this name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from hdpm_book.federated import RECORDED
from hdpm_book.federated.allin import error_of
from hdpm_book.federated.networks import record, recorded_study
from hdpm_book.federated.study import study_markets
from hdpm_lib.auctions import meters
from hdpm_lib.auctions.bids import Bids, budget_of
from hdpm_lib.auctions.lower_bound import lower_bound
from hdpm_lib.auctions.meters import Estimate, Metrics, estimate, noise_floor, printed_regret
from hdpm_lib.auctions.networks import Network, Weights, load_trained, run
from hdpm_lib.auctions.partition import KINDS
from hdpm_lib.auctions.posted_prices import posted_prices
from hdpm_lib.auctions.reports import Rule, learned, misreport, play, printed_search
from hdpm_lib.validation import FALSE_ALARM

Array = NDArray[np.float64]
RANDOM, FIXED = ("RegretNet", "M-RegretNet"), ("DM + ConvAggr", "DM + OptAggr")
NAMES = {
    "RegretNet": "regretnet-iid",
    "M-RegretNet": "m-short-iid",
    "DM + ConvAggr": "dm-conv-iid",
    "DM + OptAggr": "dm-opt-iid",
    "M-RegretNet, Non-IID": "m-short-niid",
    "DM + OptAggr, Non-IID": "dm-opt-niid",
}
FACTORS = (0.1, 0.3, 0.5, 1.0, 2.0)  # budget factors of the regret
GRID = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0)  # and of the error
USED = {f"{name} + {rule}": (name, rule) for name in RANDOM for rule in ("OptAggr", "ConvAggr")}
USED |= {name: (name, name.split()[-1]) for name in FIXED}
NEAR = "structured, within a factor of 20"
MEASURES = {
    "published": "regret, published procedure",
    "no_misreport": "the same, nobody misreports",
    "near": "regret over the lottery",
    "regret": "the same, any misreport",
    "regret_over_full": "any misreport, over the full valuation",
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


def measured(at: Setting) -> dict[tuple[str, str], Metrics]:
    """Every measure of the eight entries of Table I, by law of the sizes and network.

    Two of the networks for Non-IID sizes were measured right after their training and not kept.
    """
    ours = {
        ("IID", name): meters.metrics(*at.nets[name], at.few, at.cash, rng=np.random.default_rng(5), steps=0)
        for name in RANDOM + FIXED
    }
    rows = recorded_study("non-iid")["rows"][::2]
    for name, row in zip((RANDOM[0], FIXED[0]), rows, strict=True):
        ours["Non-IID", name] = Metrics(**{key: Estimate(*value) for key, value in row["metrics"].items()})
    other = at.markets["Non-IID"][:100], at.budgets["Non-IID"][:100]
    for name in (RANDOM[1], FIXED[1]):
        ours["Non-IID", name] = meters.metrics(
            *at.nets[f"{name}, Non-IID"], *other, rng=np.random.default_rng(5), steps=0
        )
    return ours


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


def searches(at: Setting, ours: dict[tuple[str, str], Metrics], distance: float = 5) -> Searches:
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
        gains[name][NEAR] = ours["IID", name].near
        gains[name]["structured, all"] = ours["IID", name].regret

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


def table1(ours: dict[tuple[str, str], Metrics]) -> pd.DataFrame:
    """Table I beside our networks."""
    printed, rows = printed_table1(), {}
    for kind, name in ((kind, name) for kind in KINDS for name in RANDOM + FIXED):
        x = ours[kind, name]
        row = printed.loc[name].filter(regex="^iid" if kind == "IID" else "^noniid")
        rows[kind, name] = {
            ("regret", "printed"): f"{row.iloc[0]:.4f}",
            ("regret", "as published"): pair(x.published),
            ("regret", "nobody lies"): f"{x.no_misreport.value:.2f}",
            ("regret", "over the lottery"): pair(x.near),
            ("IR violation", "printed"): f"{row.iloc[1]:.4f}",
            ("IR violation", "after the draw"): pair(x.ex_post_violation),
            ("IR violation", "expected"): pair(x.ir_violation),
            ("", "bought"): pair(x.bought),
        }
    return pd.DataFrame(rows).T


@dataclass(frozen=True)
class Ranking:
    """`sampled`: least regret that draws show for a lottery whose owners all tell the truth; `orders`: who is above."""

    sampled: float
    orders: dict[str, str]

    @property
    def dm_above(self) -> bool:
        """DM-RegretNet has more regret over the lottery than both randomised networks, for both laws of the sizes."""
        return self.orders["near"] == self.orders["regret"] == "DM above"


def ranking(ours: dict[tuple[str, str], Metrics]) -> Ranking:
    """Order of the deterministic and the randomised networks by four measures."""
    orders = {}
    for part in ("no_misreport", "near", "regret", "regret_over_full"):
        value = {key: getattr(x, part).value for key, x in ours.items()}
        random, fixed = ([[value[kind, name] for name in names] for kind in KINDS] for names in (RANDOM, FIXED))
        above = all(max(a) < min(b) for a, b in zip(random, fixed, strict=True))
        below = all(min(a) > max(b) for a, b in zip(random, fixed, strict=True))
        orders[part] = "DM below" if below else "DM above" if above else "mixed"
    return Ranking(min(ours[kind, name].no_misreport.value for kind in KINDS for name in RANDOM), orders)


# --- by the budget of the buyer ---------------------------------------------------------------------------------------


def by_factor(at: Setting) -> pd.DataFrame:
    """Regret over the lottery, IR violation and sales that cost more than the budget, by network and budget factor."""
    rows = []
    for name in RANDOM + FIXED:
        for factor in FACTORS:
            purse = budget_of(at.few, factor)
            truth = play(at.rules[name], at.few, purse)
            near = meters.regret(at.rules[name], at.few, purse, steps=0, reach=meters.REACH)
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

    def lowest(self, kind: str) -> list[float]:
        """Budget factors at which DM-RegretNet with OptAggr has the least error of all networks, owners bound."""
        error = self.table["error"].unstack("auction").loc[(False, kind)]
        others = [label for label in USED if not label.startswith("DM")]
        return list(error.index[error["DM + OptAggr"] < error[others].min(axis=1)])

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
                own = name + f", {kind}" * (f"{name}, {kind}" in at.nets)
                if name not in sold:
                    sold[name] = run(*at.nets[own], bidders, purse, rng)
                for refuses in (False, True):
                    outcome = meters.refuse(bidders, sold[name]) if refuses else sold[name]
                    error, invalid = meters.error_of_valid(outcome.epsilon, bidders.sizes, rule)
                    row = {"refuses": refuses, "sizes": kind, "auction": label, "factor": factor}
                    rows.append(row | {"error": error.value, "invalid": invalid.value})
    return Bounds(pd.DataFrame(rows).set_index(["refuses", "sizes", "auction", "factor"]).sort_index())


@dataclass(frozen=True)
class Posted:
    """Posted prices beside DM-RegretNet and a lower bound, by budget factor.

    `lower`: at how many factors posted prices have the lower error, owners of DM-RegretNet being bound or free.
    """

    table: pd.DataFrame
    lower: tuple[int, int]
    falls: bool
    bound_constant: bool


def against_posted(at: Setting, bounds: Bounds) -> Posted:
    """Error of posted prices and of a buyer who knows all valuations, for the IID markets."""
    bidders, rows = at.markets["IID"][:500], {}
    for factor in GRID:
        purse = budget_of(bidders, factor)
        outcome = posted_prices(bidders, purse)
        valid, _ = meters.error_of_valid(outcome.epsilon, bidders.sizes)
        cost = bidders.valuation(outcome.epsilon)
        bound, free = (bounds.table.loc[(refuses, "IID", "DM + OptAggr", factor)] for refuses in (False, True))
        rows[factor] = {
            "lower bound": lower_bound(bidders, purse).mean(),
            "posted prices": valid.value,
            "  payments / cost": outcome.payments.sum() / cost.sum(),
            "DM, bound to sell": bound["error"],
            "DM, may refuse": free["error"],
            "  its invalid share": free["invalid"],
        }
    table = pd.DataFrame(rows)
    posted, above = table.loc["posted prices"], [1.0, 1.4, 2.0]
    lower = [int((table.loc[label] > posted).sum()) for label in ("DM, bound to sell", "DM, may refuse")]
    return Posted(
        table,
        (lower[0], lower[1]),
        bool(posted[above].is_monotonic_decreasing),
        table.loc["lower bound", [1.0, 2.0]].nunique() == 1,
    )


@dataclass(frozen=True)
class AboveOne:
    """DM-RegretNet with OptAggr at the budget factors 1 and 2: errors, their paired difference, payments over cost."""

    errors: tuple[float, float]
    drop: Estimate
    paid: float

    @property
    def clear(self) -> bool:
        """The error falls, beyond doubt, with payments well above the cost."""
        return bool(self.drop.value > stats.norm.isf(FALSE_ALARM) * self.drop.error and self.paid > 1.5)


def above_one(at: Setting) -> AboveOne:
    """What money beyond the whole valuation buys."""
    bidders = at.markets["IID"]
    sold = [run(*at.nets[FIXED[1]], bidders, budget_of(bidders, factor)) for factor in (1, 2)]
    a, b = (error_of(x, bidders) for x in sold)
    paid = min(x.payments.sum() / bidders.valuation(x.epsilon).sum() for x in sold)
    return AboveOne((float(a.mean()), float(b.mean())), estimate(a - b), float(paid))


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
