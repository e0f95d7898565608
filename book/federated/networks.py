"""Auctions learned by networks: the experiments of the page with this name."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import expit, softmax
from scipy.stats import norm

from hdpm_book import plots
from hdpm_book.federated import RECORDED
from hdpm_book.federated.regretnet import (
    TRAINED,
    Network,
    Weights,
    allocation,
    features,
    forward,
    init,
    load_trained,
    run,
    smooth_allocation,
    sub_bid_values,
)
from hdpm_book.federated.study import VALUATION, common_share, heard, study_markets
from hdpm_book.federated.training import Settings, draw_markets, start, train, violations
from hdpm_lib.aggregation import error_bound, least_error_weights
from hdpm_lib.auctions.bids import Bids, utility
from hdpm_lib.spread import each
from hdpm_lib.validation import FALSE_ALARM, extra

with extra("book"):
    import jax
    import jax.numpy as jnp

Array = NDArray[np.float64]
DM = Network("DM-RegretNet")
NETWORKS = {
    "RegretNet": Network("RegretNet", levels=1),
    "M-RegretNet": Network("M-RegretNet"),
    "DM-RegretNet": DM,
}
STORED = (
    "dm-opt-iid", "dm-conv-iid", "dm-opt-niid", "dm-conv-niid", "m-iid", "m-short-iid", "m-short-niid", "regretnet-iid",
    "regretnet-niid",
)  # fmt: skip
PARTS = {"valuation": VALUATION, "privacy budget": ("privacy_budget",), "size": ("sizes",)}


def diagram() -> Figure:
    """RegretNet, M-RegretNet and DM-RegretNet, drawn from the shapes of the code."""
    fig, axes = plots.subplots(3, figsize=(5.4, 7.4))
    for ax, (kind, net) in zip(axes, NETWORKS.items(), strict=True):
        n, M = net.owners, net.levels
        ax.set(xlim=(0, 10), ylim=(0, 4), title=kind)
        ax.axis("off")
        values = f"{M} value" + "s" * (M > 1)
        _box(ax, 1.2, 2, f"{net.inputs} inputs:\n{n} × ({values},\nbudget, size)\nand money")
        hidden = "\n".join(f"{nodes} tanh" for nodes in net.hidden)
        pick = "argmax;\nto train:\nsoftmax z/τ" if kind == "DM-RegretNet" else "a draw"
        for y, last, end in (
            (3.1, f"{n} softmax\nof {M + 1}: z", f"{pick}\n→ levels"),
            (0.9, f"softmax\nof {n + 1}", "× money\n→ payments"),
        ):
            _box(ax, 4.1, y, hidden)
            _box(ax, 6.5, y, last)
            _box(ax, 9.0, y, end)
            for left, right, low in ((2.5, 3.3, 2), (4.9, 5.5, y), (7.5, 8.0, y)):
                ax.annotate("", (right, y), (left, low), arrowprops={"arrowstyle": "->", "color": "#808080"})
    return fig


def _box(ax: Axes, x: float, y: float, text: str) -> None:
    style = {"boxstyle": "round,pad=0.35", "fc": "none", "ec": "#808080"}
    ax.text(x, y, text, ha="center", va="center", fontsize=9, bbox=style, color=ax.title.get_color())


def sizes() -> pd.DataFrame:
    """Inputs and weights of the three networks."""
    count = {kind: sum(int(np.prod(s)) for s in net.shapes.values()) for kind, net in NETWORKS.items()}
    return pd.DataFrame({"inputs": {kind: net.inputs for kind, net in NETWORKS.items()}, "weights": count})


# --- what holds for any weights ---------------------------------------------------------------------------------------


def largest_spending(market: Bids, budget: Array) -> float:
    """Largest share of the budget that nine networks with random weights pay out."""
    rng, spent = np.random.default_rng(1), []
    for scale in (0.1, 1, 10):
        for net in NETWORKS.values():
            weights = {name: rng.normal(0, scale, s) for name, s in net.shapes.items()}
            spent.append((run(net, weights, market, budget).payments.sum(-1) / budget).max())
    return float(max(spent))


@dataclass(frozen=True)
class OneLevel:
    """`equal`: for M = 1 a sigmoid for each owner, and RegretNet's payments; how often each outcome of M = 8 occurs."""

    equal: bool
    outcomes: NDArray[np.int64]


def one_level(market: Bids, budget: Array) -> OneLevel:
    """M-RegretNet with one level beside RegretNet, computed layer by layer; and with eight levels, untrained."""
    one = Network("M-RegretNet", levels=1)
    weights = init(one, jax.random.key(0))
    with jax.enable_x64(True):
        wide = {name: np.asarray(w, float) for name, w in weights.items()}
        values = sub_bid_values(market.family, market.rate, market.privacy_budget, 1)
        z, p = forward(one, wide, values, market.privacy_budget, market.sizes, budget)
        x = np.asarray(features(values, market.privacy_budget, market.sizes, budget))
    for layer in range(2):
        x = np.tanh(x @ wide[f"allocation.{layer}.slope"] + wide[f"allocation.{layer}.offset"])
    y = x @ wide["allocation.2.slope"] + wide["allocation.2.offset"]
    gap = np.abs(expit(y[:, 1::2] - y[:, ::2]) - np.asarray(z)[..., 1]).max()
    same = run(NETWORKS["RegretNet"], weights, market, budget)
    equal = np.allclose(same.payments, p, rtol=1e-12) and gap < 1e-12
    many = init(NETWORKS["M-RegretNet"], jax.random.key(0))
    draw = run(NETWORKS["M-RegretNet"], many, market, budget, np.random.default_rng(2))
    levels = np.rint(8 * draw.privacy_loss / market.privacy_budget).astype(int)
    return OneLevel(bool(equal), np.bincount(levels.ravel(), minlength=9))


# --- what randomness costs --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Invalid:
    """How often nobody sells; `fits`: draws agree with the product of the chances, the bound is then infinite."""

    table: pd.DataFrame
    fits: bool


def invalid_gradients(market: Bids, budget: Array, names: tuple[str, ...] = ("regretnet-iid", "m-iid")) -> Invalid:
    """Product of the chances to sell nothing, and draws of the stored networks."""
    rng, rows, fits = np.random.default_rng(3), {}, []
    for name in names:
        net, weights = load_trained(name)
        values = sub_bid_values(market.family, market.rate, market.privacy_budget, net.levels)
        with jax.enable_x64(True):
            wide = {key: jnp.asarray(w, jnp.float64) for key, w in weights.items()}
            z, _ = forward(net, wide, values, market.privacy_budget, market.sizes, budget)
            nobody = np.asarray(z)[..., 0].prod(-1)
        drawn = run(net, weights, market, budget, rng).privacy_loss
        none = (drawn == 0).all(-1)
        error = error_bound(least_error_weights(drawn, market.sizes), drawn, market.sizes)
        distance = (none - nobody).sum() / np.sqrt((nobody * (1 - nobody)).sum())
        fits.append(abs(distance) < norm.isf(FALSE_ALARM / 4) and np.isinf(error[none]).all())
        rows[name] = {"product": nobody.mean(), "drawn": none.mean(), "owners who sell": (drawn > 0).mean()}
    return Invalid(pd.DataFrame(rows).T, bool(all(fits)))


@dataclass(frozen=True)
class Loss:
    """`equal`: the objective of the training is the printed sum; error bound of equal owners who sell half for sure."""

    equal: bool
    half: float


def privacy_loss() -> Loss:
    """The objective of footnote 3, term by term, over 256 markets; and a market of ten equal owners."""
    settings = Settings(NETWORKS["M-RegretNet"], batches=1, profiles=256)
    batch = {name: x[0] for name, x in draw_markets(settings, 0).items()}
    state = start(settings, 0)
    objective, _ = violations(settings, state["weights"], batch, state["misreports"][0])
    values = sub_bid_values(batch["family"], batch["rate"], batch["limit"], 8)
    seen = (batch["limit"], batch["sizes"], batch["budget"])
    z, _ = forward(settings.network, state["weights"], values, *seen)
    z, limit, size = (np.asarray(x, float) for x in (z, batch["limit"], batch["sizes"]))
    npl = 0.0
    for k in range(256):
        for i in range(10):
            mean_loss = sum(z[k, i, m] * m / 8 * limit[k, i] for m in range(9))
            npl -= size[k, i] / size[k].sum() * mean_loss / (256 * 10)
    shares = np.full(10, 0.1)
    half = error_bound(shares, np.full(10, 0.5), shares * 100)
    return Loss(bool(abs(float(objective) / npl - 1) < 1e-4), float(half))


# --- DM-RegretNet -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SoftArgmax:
    """`equation3`: outcomes are those of Eq. (3), word by word; by tau the largest entry possible and median errors."""

    equation3: bool
    table: pd.DataFrame

    @property
    def errors(self) -> list[float]:
        """Median errors, from the largest tau to the smallest."""
        return [float(x) for x in self.table["median error of the level"]]

    @property
    def tends(self) -> bool:
        """The stand-in tends to Eq. (3) as tau tends to 0."""
        first, second, *_, last = self.errors
        return last < 1e-3 < second < first


def soft_argmax(count: int = 10_000, taus: tuple[float, ...] = (1, 1 / 8, 1 / 100, 1 / 10_000)) -> SoftArgmax:
    """The largest probability and its smooth stand-in, at random points of the simplex; level sold as a part of 1."""
    z, level = np.random.default_rng(5).dirichlet(np.ones(9), count), np.arange(9) / 8
    hard = np.array([level[max(range(9), key=lambda m, row=row: row[m])] for row in z])  # type: ignore[misc]
    rows = {}
    with jax.enable_x64(True):
        same = bool((np.asarray(allocation(DM, jnp.asarray(z))) @ level == hard).all())
        for tau in taus:
            soft = np.asarray(smooth_allocation(replace(DM, temperature=tau), jnp.asarray(z)))
            largest = 1 / (1 + 8 * np.exp(-1 / tau))
            if soft.max() > largest:
                raise AssertionError(f"an entry of {soft.max()} is above the largest possible, {largest}")
            error = np.median(np.abs(soft @ level - hard))
            rows[f"{tau:.4f}"] = {"largest entry possible": largest, "median error of the level": error}
    return SoftArgmax(same, pd.DataFrame(rows).T)


def levels_sold(net: Network, weights: Weights, market: Bids, budget: Array) -> Array:
    """Levels from 0 to `M` that are bought."""
    return np.asarray(net.levels * run(net, weights, market, budget).privacy_loss / market.privacy_budget)


def least_dav(M: int, tau: float) -> float:
    """Infimum of dav over all networks."""
    return float(1 - (np.exp(2 / tau) + M) / (np.exp(1 / tau) + M) ** 2)


def dav(z: ArrayLike, tau: float) -> Array:
    """Distance of softmax(z / tau) from determinism."""
    return np.asarray(1 - (softmax(np.asarray(z) / tau, axis=-1) ** 2).sum(-1))


@dataclass(frozen=True)
class Dav:
    """How many of the twelve statements held, and whether a search over the simplex ends at the infimum."""

    held: int
    reached: bool


def dav_bounds() -> Dav:
    """Both bounds on dav at random points, for M in 1, 2, 8, 16 and two taus; and minima found by a solver."""
    rng, held, reached = np.random.default_rng(6), 0, []
    for M in (1, 2, 8, 16):
        z = np.concatenate([rng.dirichlet(np.full(M + 1, a), 20_000) for a in (0.1, 1, 10)])
        held += bool(((z - 1 / (M + 1)) ** 2).sum(-1).max() <= M / (M + 1) + 1e-12)
        for tau in (1, 1 / 8):
            best = minimize(  # over the simplex, from one of its points
                dav, z[0], args=(tau,), method="SLSQP", bounds=[(0, 1)] * (M + 1),
                constraints={"type": "eq", "fun": lambda z: z.sum() - 1}, options={"ftol": 1e-14},
            ).fun  # fmt: skip
            reached.append(best / least_dav(M, tau) - 1)
            corner = abs(float(dav(np.eye(M + 1)[0], tau)) / least_dav(M, tau) - 1) < 1e-9
            held += corner and bool((dav(z, tau) >= least_dav(M, tau) - 1e-15).all())
    return Dav(held, bool(np.abs(reached).max() < 1e-9))


def slope_error(count: int = 300) -> float:
    """Largest relative error of the theorem on the slope of the soft argmax, at random points of the simplex."""
    off = 0.0
    with jax.enable_x64(True):
        slope = jax.jit(jax.jacfwd(lambda z: smooth_allocation(DM, z)))
        for z in np.random.default_rng(7).dirichlet(np.ones(9), count):
            soft = softmax(8 * z)
            off = max(off, abs(float(np.abs(slope(z)).sum()) / (16 * (1 - soft @ soft)) - 1))
    return off


# --- the training -----------------------------------------------------------------------------------------------------


def settings_table() -> pd.DataFrame:
    """Settings as printed and as chosen here, first for `dm-opt-iid` and then for the others."""
    paper, longest = Settings(DM), record("dm-opt-iid")["settings"]
    ours = f"{longest['profiles']}, {longest['batches']}; 256, 100 (Non-IID: 50); short: 128, 8"
    rows = {
        "profiles K in a batch, batches T": (f"{paper.profiles}, {paper.batches}", ours),
        "epochs": (paper.epochs, f"{longest['epochs']}; 50"),
        "steps J to a misreport": (paper.search, f"{longest['search']}; 5, resumed"),
        "their length γ": (paper.ascent, "0.1, normalised, of logarithms"),
        "start of a misreport": ("not given", "random"),
        "reported values": ("not given", "×1/20 to ×20, rising in m"),
        "reported privacy budget, size": ("not given", "down to 1/20, to 1 record"),
        "step ψ in the weights": (paper.descent, "0.001, by Adam"),
        "iterations Q between updates of φ": (paper.every, "10"),
        "start of φ; of ρ; its increase": ("1; 1; 1, not for dav", "the same"),
        "hidden layers": ("2 of 100", "2 of 100"),
        "τ": ("not given", "1/8"),
        "scale of the inputs": ("not given", "logarithms"),
        "test profiles": ("not given", "2,000"),
    }
    return pd.DataFrame(rows, index=["printed", "here"]).T.astype(str)


def record(name: str) -> dict[str, Any]:
    """What is stored beside a network."""
    found: dict[str, Any] = json.loads((TRAINED / f"{name}.json").read_text("utf8"))
    return found


def recorded_study(name: str) -> dict[str, Any]:
    """What a study that is not run again for the book has found: its ``rows``, and how they came about."""
    found: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text("utf8"))
    return found


def trainings() -> pd.DataFrame:
    """Scale of the stored trainings, objective and violations in the first and the last epoch, and if they settled."""
    rows = {}
    for name in STORED:
        found = record(name)
        how, first, last = found["settings"], found["log"][0], found["log"][-1]
        rows[name] = {
            "iterations": how["epochs"] * how["batches"],
            "K": how["profiles"],
            "J": how["search"],
            "minutes": round(found["cpu_seconds"] / 60),
            "last 10 epochs": f"{log_of(name).moved:+.0%}",
        } | {key: f"{first[key]:.4f} → {last[key]:.4f}" for key in first}
    return pd.DataFrame(rows).T.fillna("")


@dataclass(frozen=True)
class Log:
    """Objective and violations in the first and the last epoch, and ten epochs before it."""

    first: dict[str, float]
    last: dict[str, float]
    before: dict[str, float]
    epochs: int

    @property
    def fallen(self) -> bool:
        """All fall to less than a third."""
        return all(self.last[x] < self.first[x] / 3 for x in ("rgt", "irv", "dav"))

    @property
    def moved(self) -> float:
        """Change of the objective over the last ten epochs, as a share of it."""
        return self.last["objective"] / self.before["objective"] - 1


def log_of(name: str) -> Log:
    """Log of a stored training."""
    epochs = record(name)["log"]
    return Log(epochs[0], epochs[-1], epochs[-11], len(epochs))


def _trades() -> dict[str, dict[str, list[float]]]:
    """What ten M-RegretNets of each of two short schedules buy."""
    found, study = {}, recorded_study("trading")
    for which, label in enumerate(("50 x 8 iterations", "8 x 100 iterations")):
        some = [row for row in study["rows"] if row["setting"] == which]
        found[label] = {
            "rounds that buy": [1 - row["metrics"]["invalid"][0] for row in some],
            "budget bought": [row["metrics"]["bought"][0] for row in some],
            "error if valid": [row["error"][0] for row in some],
        }
    return found


def trading() -> pd.DataFrame:
    """Range over ten seeds of what M-RegretNets of two short schedules buy."""
    rows = {label: {key: _spread(x) for key, x in found.items()} for label, found in _trades().items()}
    return pd.DataFrame(rows).T


def trading_by_seed() -> pd.DataFrame:
    """The same for every seed."""
    rows = {(label, key): [f"{y:.3g}" for y in x] for label, found in _trades().items() for key, x in found.items()}
    return pd.DataFrame(rows).T.rename_axis(columns="seed")


def _spread(values: Iterable[float]) -> str:
    low, middle, high = np.quantile(list(values), [0, 0.5, 1])
    return f"{low:.3g} to {high:.3g}, median {middle:.3g}"


def plain_steps() -> pd.DataFrame:
    """Violations at the end of the recorded trainings by plain steps."""
    return pd.DataFrame([row["log"] for row in recorded_study("plain")["rows"]])


# --- what the size of a training changes ---------------------------------------------------------------------------


SMALL = {"profiles": 64, "search": 5, "batches": 8}
SIZED = {
    "near": "regret, at least",
    "ir_violation": "loss",
    "bought": "bought",
    "error": "error if valid",
    "heard": "heard",
}


REGRETS = {
    "near": "gain over cost",
    "near_over_full": "gain over full valuation",
    "regret": "any report: gain over cost",
    "regret_of_sums": "any report: all gains over all costs",
    "regret_over_full": "any report: gain over full valuation",
}


@dataclass(frozen=True)
class Sizes:
    """What recorded trainings with more markets in a batch, longer searches or more batches have learned."""

    rows: pd.DataFrame

    def along(self, part: str, kind: str) -> pd.DataFrame:
        """Means over the seeds of the trainings of one network that differ from the small one in one part only."""
        others = [name for name in SMALL if name != part]
        alone = (self.rows[others] == pd.Series(SMALL)[others]).all(axis=1) & (self.rows["network"] == kind)
        return self.rows[alone].groupby(part)[list(SIZED)].mean()

    def curves(self, part: str, measure: str) -> pd.DataFrame:
        """One measure by one part of the size, a column for each network."""
        return pd.DataFrame({kind: self.along(part, kind)[measure] for kind in NETWORKS})

    def ordered(self, measure: str = "near") -> tuple[int, int, int, int]:
        """At how many sizes and seeds DM-RegretNet, M-RegretNet and RegretNet fall in this order, DM-RegretNet is above
        both, and below both; and all of them."""
        low, middle, high = (self.rows[self.rows["network"] == kind][measure].to_numpy() for kind in NETWORKS)
        most, least = high > np.maximum(low, middle), high < np.minimum(low, middle)
        return int((most & (low < middle)).sum()), int(most.sum()), int(least.sum()), len(low)

    @property
    def orders(self) -> pd.DataFrame:
        """The order by each recorded measure of regret."""
        rows = {label: self.ordered(measure) for measure, label in REGRETS.items()}
        columns = ["DM > M > RegretNet", "DM above both", "DM below both", "of"]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    @property
    def loudest(self) -> float:
        """Largest share of DM-RegretNet's sales that change with the owner's valuation, of the means over the seeds."""
        return float(self.rows.groupby(["network", *SMALL])["heard"].mean().max())

    @property
    def table(self) -> pd.DataFrame:
        """Means at the least and at the largest value of each part."""
        found = {}
        for kind in NETWORKS:
            for part, letter in zip(SMALL, "KJT", strict=True):
                means = self.along(part, kind)
                low, high = means.iloc[0], means.iloc[-1]
                found[kind, f"{letter} = {means.index[0]} → {means.index[-1]}"] = {
                    label: "" if np.isnan(low[key]) else f"{low[key]:.3g} → {high[key]:.3g}"
                    for key, label in SIZED.items()
                }
        return pd.DataFrame(found).T


def sizes_of_trainings() -> Sizes:
    """The recorded study ``size``: five seeds for each network and size."""
    study, rows = recorded_study("size"), []
    for row in study["rows"]:
        size = {part: study["settings"][row["setting"]][part] for part in SMALL} | {"seed": row["seed"]}
        measured = {key: value for key, (value, _) in row["metrics"].items()}
        measured |= {"error": row["error"][0], "heard": row.get("heard", np.nan)}
        rows.append({"network": row["kind"]} | size | measured)
    return Sizes(pd.DataFrame(rows).sort_values([*SMALL, "seed"]))


def printed_hours() -> float:
    """Hours of a core for the epochs that the paper trains, at the pace of the stored training of its size."""
    found = record("dm-opt-iid")
    return float(Settings(DM).epochs / len(found["log"]) * found["cpu_seconds"] / 3600)


# --- DM-RegretNet forgets the bids ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Short:
    """Five short trainings: share of sales at the most common level by epoch; at the end, mean level and dav."""

    curves: dict[str, list[float]]
    level: list[float]
    dav: list[float]

    @property
    def first(self) -> float:
        """Largest share before training."""
        return max(curve[0] for curve in self.curves.values())

    @property
    def last(self) -> float:
        """Least share at the end."""
        return min(curve[-1] for curve in self.curves.values())


def short_trainings(market: Bids, budget: Array, seeds: int = 5, epochs: int = 10) -> Short:
    """Trainings of DM-RegretNet of eight iterations an epoch."""
    found = each(_short_training, range(seeds), market, budget, epochs)
    curves = {f"seed {seed}": curve for seed, (curve, _, _) in enumerate(found)}
    return Short(curves, [level for _, level, _ in found], [end for _, _, end in found])


def _short_training(seed: int, market: Bids, budget: Array, epochs: int) -> tuple[list[float], float, float]:
    """Common shares epoch by epoch; mean level sold, and mean distance from a deterministic allocation, at the end."""
    short = Settings(DM, batches=8, profiles=64, search=5)
    sold = levels_sold(DM, start(short, seed)["weights"], market, budget)
    curve = [common_share(sold)]
    for state, log in islice(train(short, seed), epochs):  # noqa: B007
        sold = levels_sold(DM, state["weights"], market, budget)
        curve.append(common_share(sold))
    return curve, float(sold.mean()), float(log["dav"].mean())


@dataclass(frozen=True)
class Listening:
    """How often the level sold changes with one part of a bid, and the levels sold, by network."""

    changes: pd.DataFrame
    levels: dict[str, NDArray[np.int64]]

    @property
    def positions(self) -> pd.DataFrame:
        """Mean level of each position, the share of sales at the most common one, and markets in which nobody sells."""
        rows = {
            name: {f"{i + 1}": f"{mean:.1f}" for i, mean in enumerate(sold.mean(0))}
            | {"most common": f"{common_share(sold):.3f}", "nobody sells": int((sold == 0).all(1).sum())}
            for name, sold in self.levels.items()
        }
        return pd.DataFrame(rows).T

    def fixed(self, name: str, share: float = 0.99) -> int:
        """Number of positions that sell one level in more than this share of the markets."""
        sold = self.levels[name]
        return int(sum(np.bincount(column).max() / len(sold) > share for column in sold.T))


def listening() -> Listening:
    """DM-RegretNet before training and the stored ones, on the 2,000 profiles of their law of sizes."""
    shown = {"before training": (DM, init(DM, jax.random.key(0)))}
    shown |= {name: load_trained(name) for name in STORED if name.startswith("dm")}
    laws = {kind: study_markets(2000, kind) for kind in ("IID", "Non-IID")}
    changes, levels = {}, {}
    for name, net in shown.items():
        where = laws["Non-IID" if name.endswith("niid") else "IID"]
        levels[name] = np.rint(levels_sold(*net, *where)).astype(int)
        changes[name] = {what: f"{heard(*net, *where, parts):.3f}" for what, parts in PARTS.items()}
    return Listening(pd.DataFrame(changes).T, levels)


def seeds() -> pd.DataFrame:
    """Ranges over ten seeds, with the penalty for dav and without."""
    study, rows = recorded_study("seeds"), {}
    for label, penalised in (("with the penalty for dav", True), ("no penalty for dav", False)):
        some = [row for row in study["rows"] if row["determinism"] == penalised]
        found = {"changes with her valuation": "heard", "most common level": "common_share"}
        rows[label] = {what: _spread(row[key] for row in some) for what, key in found.items()}
        rows[label]["mean dav at the end"] = f"{np.mean([row['log']['dav'] for row in some]):.2f}"
    return pd.DataFrame(rows).T


def gain_by_halving(market: Bids, budget: Array, name: str = "dm-opt-iid") -> float:
    """Of the owners who sell, the share who gain by reporting half of their privacy budget."""
    net, weights = load_trained(name)
    truth = run(net, weights, market, budget)
    honest, sells, gains = utility(market, truth), truth.privacy_loss > 0, 0
    for i in range(net.owners):
        half = market.privacy_budget.copy()
        half[:, i] /= 2
        lie = Bids(market.family, market.rate, half, market.sizes)
        gain = (utility(market, run(net, weights, lie, budget)) - honest)[:, i]
        gains += int((gain[sells[:, i]] > 0).sum())
    return float(gains / sells.sum())
