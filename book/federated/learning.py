"""Models that learn from what was bought: the experiments of the page on learning, on NSL-KDD.

Owners of several independent runs are drawn at once; accuracies have the shape (checkpoints, runs).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from hdpm_book import datasets
from hdpm_book.federated import regretnet as networks
from hdpm_book.federated.allin import error_of_mean, shown
from hdpm_book.federated.networks import recorded_study
from hdpm_book.federated.partition import KINDS, budget_of, deal, dirichlet_counts, draw_bids, lognormal_sizes
from hdpm_book.federated.training import FACTORS
from hdpm_book.ledger import FALSE_ALARM
from hdpm_book.privacy.listed import laplace_privacy_losses
from hdpm_lib.aggregation import error_bound, least_error_weights, size_weights
from hdpm_lib.auctions.bids import Bids
from hdpm_lib.auctions.posted_prices import posted_prices
from hdpm_lib.learners.fedsgd import Aggregation, Bought, Training, fedsgd
from hdpm_lib.learners.gradients import accuracy, clipped, draw_bidders, local_gradients, noise_scale
from hdpm_lib.markets.outcome import Outcome

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
NOISY: dict[str, Aggregation | None] = {"OptAggr": least_error_weights, "ConvAggr": size_weights}
RULES: dict[str, Aggregation | None] = {"no noise": None, **NOISY}
AUCTIONS = ("posted prices", "DM-RegretNet")
SEEDS = {"IID": 7, "Non-IID": 8}  # of the trainings at the printed settings
STEP = 0.01  # the paper's learning rate


# --- data, owners, bids -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Records:
    """NSL-KDD as the models see it, and where it comes from."""

    features: NDArray
    labels: NDArray
    test_features: NDArray
    test_labels: NDArray
    source: tuple[str, str]

    @property
    def parameters(self) -> int:
        """How many numbers a model has."""
        return len(datasets.NSL_KDD_CLASSES) * self.features.shape[1]

    @property
    def baseline(self) -> float:
        """Accuracy of always answering normal."""
        return float((self.test_labels == 0).mean())

    def by_class(self) -> pd.DataFrame:
        """How many records there are of each class."""
        parts = {"train": self.labels, "test": self.test_labels}
        counts = {part: np.bincount(y, minlength=len(datasets.NSL_KDD_CLASSES)) for part, y in parts.items()}
        return pd.DataFrame(counts, index=list(datasets.NSL_KDD_CLASSES)).T


def load() -> Records:
    """The data, or their stand-in."""
    train, test = datasets.nsl_kdd("train"), datasets.nsl_kdd("test")
    return Records(*datasets.nsl_kdd_design(train, test), (train.source, test.source))


@dataclass(frozen=True)
class Market:
    """Owners of independent runs: the rows of each, and their bids, of shape (runs, owners)."""

    rows: list[list[NDArray]]
    bids: Bids

    def __getitem__(self, runs: slice) -> Market:
        """Some of the runs."""
        return Market(self.rows[runs], self.bids[runs])

    def bids_of(self, asked: Integers) -> Bids:
        """Bids of those who are asked, of shape (rounds, runs, bidders)."""
        parts = vars(self.bids).values()
        return Bids(*(np.take_along_axis(part[None], asked, axis=2) for part in parts))


def people(
    labels: NDArray, kind: str, runs: int, rng: np.random.Generator, owners: int = 1000, least: int = 10
) -> Market:
    """Records dealt to owners by the laws of the published code, and their bids."""
    if kind == "IID":
        counts = [lognormal_sizes(len(labels), owners, rng, least=least) for _ in range(runs)]
    else:
        counts = [dirichlet_counts(np.bincount(labels), owners, rng, extra=least) for _ in range(runs)]
    rows = [deal(labels, count, rng) for count in counts]
    return Market(rows, draw_bids([[len(own) for own in market] for market in rows], rng))


def markets(data: Records, runs: int = 40, seed: int = 1) -> dict[str, Market]:
    """The owners of the page, for both laws of the sizes."""
    rng = np.random.default_rng(seed)
    return {kind: people(data.labels, kind, runs, rng) for kind in KINDS}


def sizes(markets: Mapping[str, Market]) -> pd.DataFrame:
    """How many records an owner has."""
    functions: dict[str, Any] = {"least": np.min, "median": np.median, "mean": np.mean, "most": np.max}
    rows = {kind: {n: f"{f(m.bids.sizes):.0f}" for n, f in functions.items()} for kind, m in markets.items()}
    return pd.DataFrame(rows).T


def all_dealt(data: Records, markets: Mapping[str, Market]) -> bool:
    """Whether the files have the printed sizes and every run deals out all records."""
    printed = (len(data.labels), len(data.test_labels)) == (125973, 22544)
    return printed and all(bool((m.bids.sizes.sum(axis=1) == len(data.labels)).all()) for m in markets.values())


# --- one step, one release --------------------------------------------------------------------------------------------


def gap_to_pooled_step(data: Records, market: Market) -> float:
    """Largest difference between a step of all owners and one on the pooled data, over the largest coordinate."""
    X, y = data.features, data.labels
    start = np.random.default_rng(2).normal(size=(5, X.shape[1]))
    everybody = np.arange(len(market.rows[0]))[None, None]
    limits = market.bids.privacy_budget[:1]
    setting: Any = X, y, market.rows[:1], limits, everybody, {"all": None}, start
    step = fedsgd(*setting, rng=np.random.default_rng(3), learning_rate=1.0, clip_norm=1e6, arithmetic="ideal")
    scores = X @ start.T
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    pooled = (p - np.eye(5)[y]).T @ X / len(y)
    return float(np.abs(step.signal["all"][-1, 0] + pooled).max() / np.abs(pooled).max())


@dataclass(frozen=True)
class Clip:
    """What the clip does to the gradients of one market, each an array over its owners."""

    before: Array  # L1 norms
    after: Array
    lengths: Array  # Euclidean, after the clip
    cosines: Array

    @property
    def bounded(self) -> bool:
        """All norms are at most 1, and no direction is lost."""
        return bool(self.after.max() < 1 + 1e-5 and self.cosines.min() > 0.9999)


def clip_at_zero(data: Records, market: Market) -> Clip:
    """Gradients at `w = 0` of the owners of one run, before and after the clip."""
    start = np.zeros((1, 5, data.features.shape[1]))
    raw = local_gradients(start, data.features, data.labels, market.rows[0])[:, 0]
    sent = clipped(raw, 1.0)
    before, after = (np.abs(g).sum(axis=(1, 2), dtype=float) for g in (raw, sent))
    lengths = np.sqrt((sent.astype(float) ** 2).sum(axis=(1, 2)))
    cosines = (raw * sent).sum((1, 2)) / np.sqrt((raw**2).sum((1, 2)) * (sent**2).sum((1, 2)))
    return Clip(before, after, lengths, cosines)


def exact_losses(promised: float = 0.7, bound: float = 0.1) -> pd.DataFrame:
    """Largest privacy loss of a release over all data sets of one to three records, 21 models, two features.

    It is taken over all pairs of data sets (`all`), and over pairs that differ in one record (`one`).
    """
    corners = list(itertools.product((0.0, 1.0), (0.0, 1.0), (0, 1)))
    features = np.array([[a, b, 1.0] for a, b, _ in corners])
    labels = np.array([label for *_, label in corners])
    rng, scale = np.random.default_rng(4), float(noise_scale(promised, bound))
    worst: dict[int, dict[str, float]] = {}
    for d in (1, 2, 3):
        sets = list(itertools.product(range(8), repeat=d))
        forms = {"all": (len(sets),), "one": (8,) * d}  # a data set as a whole, or record by record
        worst[d] = dict.fromkeys(forms, 0.0)
        for model in [np.zeros((2, 3)), *rng.normal(size=(20, 2, 3))]:
            own: Any = list(map(list, sets))
            g = clipped(local_gradients(model[None], features, labels, own), bound)
            for name, form in forms.items():
                loss = laplace_privacy_losses(g.reshape(*form, -1), scale, vector=True)
                worst[d][name] = max(worst[d][name], float(loss.max()))
    return pd.DataFrame(worst).T


def largest_record_loss(data: Records, size: int, rng: np.random.Generator, pairs: int = 100) -> float:
    """Largest loss, in units of epsilon, of one record that is changed among so many, over random pairs."""
    pool = rng.choice(len(data.labels), (pairs, size + 1))
    both = [part for own in pool for part in (own[:-1], own[1:])]
    start = np.zeros((1, 5, data.features.shape[1]))
    g = clipped(local_gradients(start, data.features, data.labels, both), 1.0)
    return float(np.abs(g[::2] - g[1::2]).sum((1, 2, 3)).max() / 2)


# --- trainings --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Learned:
    """What was learned in all runs of a market, who was asked, and what an auction sold them."""

    training: Training
    asked: Integers
    accuracy: dict[str, Array]
    bought: Bought | None
    sizes: Array  # of those who were asked

    @property
    def gap(self) -> Array:
        """Last accuracy of OptAggr minus that of ConvAggr, run by run."""
        return (self.accuracy["OptAggr"] - self.accuracy["ConvAggr"])[-1]

    def noise_over_signal(self, rule: str) -> float:
        """How much farther the noise has moved the model than the gradients have."""
        return distance(self.training.noise[rule]) / distance(self.training.signal[rule])


def learn(
    data: Records,
    market: Market,
    rng: np.random.Generator,
    start: ArrayLike,
    *,
    asked: int = 10,
    rounds: int = 100,
    rules: Mapping[str, Aggregation | None] = RULES,
    auction: Callable[[Bids, Array], Outcome] | None = None,
    money: np.random.Generator | None = None,
    **options: Any,
) -> Learned:
    """Train and score. An auction gets money of factors in [0.1, 2], drawn from `money`, or from `rng`."""
    runs, owners = market.bids.rate.shape
    bidders = draw_bidders(owners, asked, rounds, runs, rng)
    bids, bought = market.bids_of(bidders), None
    if auction is not None:
        budget = budget_of(bids, (money or rng).uniform(*FACTORS, bidders.shape[:2]))
        outcome = auction(bids, budget)
        bought = Bought(outcome.privacy_loss, outcome.payments, budget)
    setting: Any = data.features, data.labels, market.rows, market.bids.privacy_budget, bidders, rules, start
    held = None if bought is None else (lambda _: bought)
    more: dict[str, Any] = {"every": 20, "arithmetic": "ideal", **options}
    training = fedsgd(*setting, rng=rng, auction=held, **more)
    scores = {
        name: accuracy(training.parameters(name), data.test_features, data.test_labels) for name in training.signal
    }
    return Learned(training, bidders, scores, bought, bids.sizes)


def auctions(kind: str) -> dict[str, Callable[[Bids, Array], Outcome]]:
    """Two auctions to plug in; the network was trained for sizes of this kind."""
    net = networks.load_trained({"IID": "dm-opt-iid", "Non-IID": "dm-opt-niid"}[kind])
    return {"posted prices": posted_prices, "DM-RegretNet": partial(networks.run, *net)}


def random_starts(data: Records, markets: Mapping[str, Market], seed: int = 6) -> dict[str, Array]:
    """Where linear layers of the usual libraries start, for each run of each market."""
    rng, width = np.random.default_rng(seed), data.features.shape[1]
    return {
        kind: rng.uniform(-1, 1, (len(market.rows), 5, width)) / np.sqrt(width - 1) for kind, market in markets.items()
    }


Trainings = dict[tuple[str, str], Learned]  # by the law of the sizes, and how privacy is bought


def at_printed_settings(data: Records, markets: Mapping[str, Market]) -> Trainings:
    """Trainings with the paper's numbers, by law of the sizes and auction: two auctions, and everything sold."""
    starts, found = random_starts(data, markets), {}
    for kind, market in markets.items():
        rng = np.random.default_rng(SEEDS[kind])
        found[kind, "everything sold"] = learn(data, market, rng, starts[kind])
    for kind, market in markets.items():
        for name, auction in auctions(kind).items():
            rng = np.random.default_rng(SEEDS[kind])  # the same noise as before
            money = np.random.default_rng([9, SEEDS[kind]])
            options: Any = {"rules": NOISY, "auction": auction, "money": money}
            found[kind, name] = learn(data, market, rng, starts[kind], **options)
    return found


def at_zero(data: Records, market: Market, **options: Any) -> Learned:
    """Everything sold, a start at `w = 0`, eight runs."""
    zero = np.zeros((5, data.features.shape[1]))
    return learn(data, market[:8], np.random.default_rng(11), zero, **options)


def with_more_gradients(data: Records, seed: int = 12) -> Trainings:
    """Trainings with long steps: the same owners again and again, or ten times as many who sell at posted prices.

    A third rule counts the noise of all coordinates.
    """
    rules = RULES | {"OptAggr, all D": partial(least_error_weights, coordinates=data.parameters)}
    options: Any = {"rules": rules, "learning_rate": 1.0, "every": 1000}
    rng, zero = np.random.default_rng(seed), np.zeros((5, data.features.shape[1]))
    again = people(data.labels, "IID", 6, rng)
    found = {("IID", "reused"): learn(data, again, rng, zero, rounds=1000, **options)}
    for kind in KINDS:
        many = people(data.labels, kind, 24, rng, owners=10_000, least=1)
        found[kind, "many"] = learn(data, many, rng, zero, asked=100, auction=posted_prices, **options)
    return found


# --- what they show ---------------------------------------------------------------------------------------------------


def last_accuracies(trainings: Trainings) -> pd.DataFrame:
    """Accuracy after the last round, with standard errors, and the paired difference of the two rules."""
    rows = {}
    for (kind, how), learned in trainings.items():
        free = trainings[kind, "everything sold"].accuracy["no noise"][-1]
        last = {"no noise": free} | {name: learned.accuracy[name][-1] for name in NOISY}
        rows[f"{kind}, {how}"] = {n: shown(v, 3) for n, v in (last | {"difference": learned.gap}).items()}
    order = sorted(rows, key=lambda name: (not name.startswith("IID"), "everything" not in name))
    return pd.DataFrame(rows).T.loc[order]


def mean_curves(trainings: Trainings, kind: str, baseline: float) -> tuple[Integers, dict[str, Array]]:
    """Rounds, and mean accuracies over the runs: without noise, with everything sold, and as DM-RegretNet buys."""
    full, bought = trainings[kind, "everything sold"], trainings[kind, "DM-RegretNet"]
    curves = {"no noise": full.accuracy["no noise"], "everything sold, OptAggr": full.accuracy["OptAggr"]}
    curves |= {f"DM-RegretNet, {name}": curve for name, curve in bought.accuracy.items()}
    means = {name: curve.mean(axis=1) for name, curve in curves.items()}
    rounds = full.training.rounds
    return rounds, means | {"always normal": np.full(len(rounds), baseline)}


@dataclass(frozen=True)
class Spending:
    """Rounds in which an auction was held, the largest share of its money that one spent, and if it is refused more."""

    rounds: int
    largest: float
    overspending_stops: bool


def spending(data: Records, market: Market, trainings: Trainings) -> Spending:
    """What the auctions of all rounds spent; and a training with one that pays 10 of a budget of 1."""
    shares = np.array([s.payments.sum(axis=2) / s.budget for t in trainings.values() if (s := t.bought) is not None])

    def spendthrift(bidders: Integers) -> Bought:
        return Bought(np.full(bidders.shape, 0.5), np.ones(bidders.shape), np.ones(bidders.shape[:2]))

    zero = np.zeros((5, data.features.shape[1]))
    bidders = draw_bidders(len(market.rows[0]), 10, 1, len(market.rows), np.random.default_rng(10))
    setting: Any = data.features, data.labels, market.rows, market.bids.privacy_budget, bidders, NOISY, zero
    try:
        fedsgd(*setting, rng=np.random.default_rng(0), auction=spendthrift)
    except ValueError as error:
        return Spending(shares.size, float(shares.max()), "with a budget of 1.0" in str(error))
    return Spending(shares.size, float(shares.max()), False)


def shares_sold(trainings: Trainings, markets: Mapping[str, Market]) -> pd.DataFrame:
    """Losses that auctions bought, as a share of what owners would sell at most."""
    shares = {
        kind: {
            name: (trainings[kind, name].training.privacy_loss / market.bids.privacy_budget).mean() for name in AUCTIONS
        }
        for kind, market in markets.items()
    }
    return pd.DataFrame(shares).map("{:.0%}".format)


def distance(steps: Array) -> float:
    """How far the sum of all steps reaches, on average over the runs."""
    return float(np.sqrt((steps[-1] ** 2).sum(axis=(1, 2))).mean())


def predicted_noise(data: Records, market: Market, asked: Integers, rule: Aggregation) -> float:
    """Length of the noise by the formula, if everything is sold at the printed settings."""
    bids = market.bids_of(asked)
    weights = rule(bids.privacy_budget, bids.sizes)
    variance = 2 * data.parameters * (weights * noise_scale(bids.privacy_budget, 1.0)) ** 2
    return float(STEP * np.sqrt(variance.sum(axis=(0, 2))).mean())


def lengths(data: Records, markets: Mapping[str, Market], trainings: Trainings) -> pd.DataFrame:
    """How far the model is moved in 100 rounds, by gradients and by noise."""
    rows = {}
    for (kind, market), (name, rule) in itertools.product(markets.items(), NOISY.items()):
        full = trainings[kind, "everything sold"]
        assert rule is not None
        row = {
            "signal": f"{distance(full.training.signal[name]):.2f}",
            "noise": f"{distance(full.training.noise[name]):.1f}",
            "predicted": f"{predicted_noise(data, market, full.asked, rule):.1f}",
            "ratio": f"{full.noise_over_signal(name):.0f}",
        }
        for short, how in zip(("posted", "DM"), AUCTIONS, strict=True):
            row[f"noise, {short}"] = f"{distance(trainings[kind, how].training.noise[name]):.1f}"
        rows[f"{kind}, {name}"] = row
    return pd.DataFrame(rows).T


def long_runs(trainings: Trainings) -> pd.DataFrame:
    """Accuracies at the end, and how long the noise is in units of the signal."""
    columns = {}
    for (kind, how), learned in trainings.items():
        last = {name: curve[-1] for name, curve in learned.accuracy.items()}
        last["OptAggr - ConvAggr"] = learned.gap
        last["all D - OptAggr"] = last["OptAggr, all D"] - last["OptAggr"]
        cells = {name: shown(values, 3) for name, values in last.items()}
        noisy = [name for name in learned.accuracy if name != "no noise"]
        cells |= {f"ratio, {name}": f"{learned.noise_over_signal(name):.3g}" for name in noisy}
        columns[f"{kind}, {how}"] = cells
    return pd.DataFrame(columns)


def ratios(trainings: Trainings) -> pd.DataFrame:
    """For each training and rule the mean accuracy at the end, and the length of the noise over that of the signal."""
    rows = [
        {
            "setting": f"{kind}, {how}",
            "rule": rule,
            "ratio": learned.noise_over_signal(rule),
            "accuracy": learned.accuracy[rule][-1].mean(),
        }
        for (kind, how), learned in trainings.items()
        for rule in learned.accuracy
        if rule != "no noise"
    ]
    return pd.DataFrame(rows)


def score(values: Array) -> float:
    """The t statistic of a mean, as a standard normal variable."""
    return float(stats.norm.isf(stats.t.sf(values.mean() / error_of_mean(values), len(values) - 1)))


@dataclass(frozen=True)
class Comparison:
    """The two rules over all groups of settings.

    Attributes
    ----------
    scores : list of float, of the paired differences of each group
    together, limit : float, the joint score, and what it may reach by chance
    baseline_leads : float, the least score of always normal against models of bought gradients
    auctions : int
    bound_is_lower : bool, the error bound of OptAggr is at most that of ConvAggr in all of them
    """

    scores: list[float]
    together: float
    limit: float
    baseline_leads: float
    auctions: int
    bound_is_lower: bool

    @property
    def holds(self) -> bool:
        """OptAggr has the lower bound and, beyond chance, the higher accuracy; but always normal leads as printed."""
        return self.bound_is_lower and min(self.together, self.baseline_leads) > self.limit


def compare_rules(printed: Trainings, longer: Trainings, baseline: float) -> Comparison:
    """OptAggr against ConvAggr: runs on the same owners and noise are averaged, groups of them taken together."""
    groups = [np.mean([t.gap for (k, _), t in printed.items() if k == kind], axis=0) for kind in KINDS]
    groups += [learned.gap for learned in longer.values()]
    scores = [score(group) for group in groups]
    ends = [
        np.concatenate([printed[kind, how].accuracy[rule][-1] for kind in KINDS])
        for how, rule in itertools.product(AUCTIONS, NOISY)
    ]
    bounds = [_bounds(t) for t in [*printed.values(), *longer.values()] if t.bought is not None]
    return Comparison(
        scores,
        float(np.sum(scores) / np.sqrt(len(scores))),
        float(stats.norm.isf(FALSE_ALARM)),
        min(score(baseline - values) for values in ends),
        sum(bound.size for bound in bounds),
        all(bool((bound <= 1e-9).all()) for bound in bounds),
    )


def _bounds(learned: Learned) -> Array:
    """Error bound of OptAggr minus that of ConvAggr in all auctions of a training."""
    assert learned.bought is not None
    bought = learned.bought.privacy_loss, learned.sizes
    opt, conv = (error_bound(rule(*bought), *bought) for rule in (least_error_weights, size_weights))
    return opt - conv


@dataclass(frozen=True)
class Recorded:
    """The recorded runs with the three networks: mean accuracies, and the leads of DM-RegretNet with OptAggr.

    `highest`: for how many of the two laws of the sizes it has the highest mean; `beaten`: one of the others is higher,
    beyond doubt.
    """

    runs: int
    means: pd.DataFrame
    highest: int
    beaten: bool
    leads: pd.DataFrame

    @property
    def clear(self) -> int:
        """How many of the leads are more than chance."""
        return int(self.leads["clear"].sum())


def recorded(
    rivals: Sequence[str] = ("DM-RegretNet, ConvAggr", "RegretNet, OptAggr", "M-RegretNet, OptAggr"),
) -> Recorded:
    """What :mod:`hdpm_book.federated.accuracy` found."""
    runs = pd.DataFrame(recorded_study("accuracy")["rows"]).drop(columns="seed")
    means = runs.groupby("sizes").mean().T
    leads = {name: (runs["DM-RegretNet, OptAggr"] - runs[name]).to_numpy() for name in rivals}
    limit = stats.norm.isf(FALSE_ALARM / len(rivals))
    table = {name: (x.mean(), error_of_mean(x), score(x) > limit) for name, x in leads.items()}
    return Recorded(
        len(runs),
        means,
        int((means.idxmax() == "DM-RegretNet, OptAggr").sum()),
        any(score(-x) > limit for x in leads.values()),
        pd.DataFrame(table, index=["lead", "error", "clear"]).T,
    )
