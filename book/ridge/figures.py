"""Re-weighting against sampling: the figures of the ridge paper drawn anew, counts of who is lower, and trends.

Throughout, `medical` is the split of the medical records that the paper used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from hdpm_book.ridge.jorgensen import draw_masks, inclusion_probabilities, sampled_ridge
from hdpm_book.ridge.moments import QuadraticLoss
from hdpm_book.ridge.study import (
    DIMENSION,
    MANY_CONSERVATIVES,
    N_TRAIN,
    Draw,
    PrivacyGroups,
    Split,
    cells,
    effective_sample_budget,
    fresh_draws,
    published,
)
from hdpm_lib.learners.ridge import output_perturbation
from hdpm_lib.spread import each
from hdpm_lib.validation import FALSE_ALARM

Array = NDArray[np.float64]

METHODS = {
    "pdp_op": "PDP-OP",
    "jorgensen_max": "sampling, max",
    "jorgensen_mean": "sampling, mean",
    "nonpersonalized": "standard privacy",
}
CELLS = [("mean", "unreg"), ("mean", "reg"), ("std", "unreg"), ("std", "reg")]
CLEAR, DRAWS = 5.0, 20
AXES = {"lambda": "penalty λ", "eps_c": "ε_c", "eps_m": "ε_m", "f_c": "f_c", "n_fraction": "share of records"}
FIGURES = {k: (k + 1, "mean") for k in range(2, 10)}  # Figure 2 shows the means of Table 3, ...
FIGURES |= {10: (11, "std"), 11: (12, "std")} | {k: (k - 9, "std") for k in range(12, 20)}
ENDS = {0: (0.01, 5.0), 1: (1.0, 500.0)}  # ends of the penalties; medical tables have even numbers

# --- the sampling method ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SamplingCheck:
    """The method on one set of privacy losses, with both thresholds.

    Attributes
    ----------
    table : DataFrame, threshold t, records kept on average, and t times that
    total : sum of the privacy losses
    identity : largest error of log(1 + p(e^t - 1)) = min(eps, t)
    z, limit : largest score of a frequency in 20,000 sampled sets, and what chance allows
    sure : whether records with probability 1 are always kept
    """

    table: pd.DataFrame
    total: float
    identity: float
    z: float
    limit: float
    sure: bool

    @property
    def right(self) -> bool:
        """Whether identity and frequencies are as they should be."""
        return self.identity < 1e-12 and self.z < self.limit and self.sure


def sampling_check(sets: int = 20_000) -> SamplingCheck:
    """Check the probabilities and the frequencies of sampled sets."""
    rng = np.random.default_rng(1)
    epsilon = PrivacyGroups().draw(N_TRAIN, rng=rng)
    rows, worst_z, identity, sure = {}, 0.0, 0.0, True
    for name, t in (("max", epsilon.max()), ("mean", epsilon.mean())):
        p = inclusion_probabilities(epsilon, t)
        spent = np.log1p(p * np.expm1(t))
        identity = max(identity, float(np.abs(spent - np.minimum(epsilon, t)).max()))
        share = draw_masks(epsilon, t, sets, rng=rng).mean(0)
        chance = p < 1
        z = (share - p)[chance] / np.sqrt(p * (1 - p) / sets)[chance]
        worst_z = max(worst_z, float(np.abs(z).max()))
        sure = sure and bool((share[~chance] == 1).all())
        rows[name] = [f"{t:.3f}", f"{p.sum():.1f}", f"{t * p.sum():.1f}"]
    table = pd.DataFrame(rows, index=["t", f"kept of {len(epsilon)}", "t × kept"]).T
    limit = float(norm.isf(FALSE_ALARM / 2 / (2 * len(epsilon))))
    return SamplingCheck(table, float(epsilon.sum()), identity, worst_z, limit, sure)


@dataclass(frozen=True)
class SizeInNoise:
    """Standard deviation of the loss, sampling (max) over PDP-OP: printed in Table 13, and by what sets the noise.

    Attributes
    ----------
    printed : float, median of the rows
    realised, expected : arrays of shape (10,), with the realised and with the expected sample size
    """

    printed: float
    realised: Array
    expected: Array

    @property
    def table(self) -> pd.DataFrame:
        """The ranges as text."""
        rows = {"Table 13, median of its rows": f"{self.printed:.2f}"}
        for name, found in (("realised", self.realised), ("expected", self.expected)):
            rows[f"noise set by the {name} size, 10 draws"] = f"{found.min():.2f} to {found.max():.2f}"
        return pd.DataFrame({"sampling over PDP-OP": rows})

    @property
    def only_realised(self) -> bool:
        """Whether the expected size cannot explain the printed ratio and the realised one can."""
        return bool(self.expected.max() < self.printed and self.realised.min() < self.printed < self.realised.max())


def size_in_noise(draws: int = 10) -> SizeInNoise:
    """Ratios of standard deviations with the noise set by the realised and by the expected sample size."""
    ratios = []
    for seed in range(draws):
        rng = np.random.default_rng([2, seed])
        draw = fresh_draws(published(13), rng)[0]
        split, eps, t = draw.split, draw.epsilon, draw.epsilon.max()
        ours = cells(draw, 100.0)["reg_pdp_op"].std
        loss = QuadraticLoss.of(split.X_test, split.y_test)
        sets = draw_masks(eps, t, 1000, rng=rng)
        run = sampled_ridge(split.X_train, split.y_train, eps, 100.0, t, sets)
        fixed = replace(run, noise_rate=np.full_like(run.noise_rate, run.noise_rate.mean()))
        ratios.append([float(r.loss(loss, 100.0).std / ours) for r in (run, fixed)])
    realised, expected = np.array(ratios).T
    printed = published(13).printed
    return SizeInNoise(float((printed.reg_jorgensen_max / printed.reg_pdp_op).median()), realised, expected)


def size_law(p: Array) -> Array:
    """Exact law of the number of records kept, (m, n + 1), for probabilities (m, n)."""
    law = np.eye(1, p.shape[1] + 1).repeat(len(p), axis=0)
    for column in p.T[:, :, None]:
        law = law * (1 - column) + np.roll(law, 1, axis=1) * column
    return law


def theorem_on_instances() -> tuple[int, float, float]:
    """Instances of the noise theorem: number, largest excess of a step, least mean noise power over that of PDP-OP."""
    excess, power, instances = -np.inf, np.inf, 0
    for n in (2, 5, 10, 20, 30):
        rng = np.random.default_rng([3, n])
        eps = rng.gamma(rng.choice([0.3, 1, 5], (4000, 1)), 1, (4000, n)) + 1e-3
        t = eps.max(1) * rng.choice([1, 0.999, 0.5, 0.1], 4000)
        p = np.array([inclusion_probabilities(e, s) for e, s in zip(eps, t, strict=True)])
        capped, total = np.minimum(eps, t[:, None]).sum(1), eps.sum(1)
        steps = np.maximum(t * p.sum(1) / capped, capped / total)
        excess = max(excess, steps.max() - 1)
        sizes = np.arange(1, n + 1) * t[:, None]
        mean_power = (size_law(p)[:, 1:] * (total[:, None] / sizes) ** 2).sum(1)
        power, instances = min(power, mean_power.min()), instances + len(eps)
    return instances, float(excess), float(power)


def two_groups(cautious: float, seed: int) -> tuple[float, float, float]:
    """Test losses of PDP-OP and of sampling (t = 2), with its standard error: 500 accept 2, 500 others 0.5.

    There is one constant feature; the test label is 1, that of the cautious is given, and that of the others opposite.
    """
    eps, penalty = np.repeat([2.0, 0.5], 500), 0.1
    x, label = np.ones((1000, 1)), np.repeat([-cautious, cautious], 500)
    test = QuadraticLoss.of([[1.0]], [1.0])
    mechanism = output_perturbation(x, label, eps, penalty)
    sets = draw_masks(eps, 2.0, 2000, rng=np.random.default_rng([4, seed]))
    loss = sampled_ridge(x, label, eps, penalty, 2.0, sets).loss(test)
    weighted = test.under_noise(mechanism.theta, mechanism.noise_rate).mean
    return float(weighted), float(loss.mean), float(loss.mean_error)


def eight_records() -> pd.DataFrame:
    """What a random sample size multiplies mean and spread of the squared noise norm by, in 30 dimensions."""
    d, rows = DIMENSION, {}
    one, two = d * (d + 1), d * (d + 1) * (d + 2) * (d + 3)
    for n in (8, 16, 40, 80):
        rng = np.random.default_rng([9, n])
        drawn = [PrivacyGroups().draw(n, rng=rng) for _ in range(200)]
        p = np.array([inclusion_probabilities(e, e.max()) for e in drawn])
        law, inverse = size_law(p)[:, 1:], (p.sum(1)[:, None] / np.arange(1, n + 1)) ** 2
        mean, square = (law * inverse).sum(1), (law * inverse**2).sum(1)
        std = np.sqrt((two * square - one**2 * mean**2) / (two - one**2))
        rows[f"n = {n}"] = [f"{np.median(v):.2f}" for v in (mean, std)]
    return pd.DataFrame(rows, index=["mean, times", "standard deviation, times"]).T


# --- the sweeps behind the figures ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sweep:
    """Losses along one sweep.

    Attributes
    ----------
    values : array of shape (draws, points, 4, 4), by the `CELLS` and the `METHODS`
    gap : least gap of sampling to PDP-OP in standard errors of the sampled sets
    """

    values: Array
    gap: float

    def lowest(self, stats: Iterable[int]) -> tuple[int, int]:
        """Cells of these kinds where PDP-OP is below both sampling variants, and how many there are."""
        chosen = self.values[:, :, list(stats)]
        below = chosen[..., 0] < chosen[..., 1:3].min(-1)
        return int(below.sum()), below.size

    def medians(self, cell: int = 1) -> tuple[Array, Array]:
        """Along the sweep: standard, max and mean over PDP-OP; max and mean minus PDP-OP."""
        v = self.values[:, :, cell]
        return np.median(v[..., [3, 1, 2]] / v[..., :1], axis=0), np.median(v[..., 1:3] - v[..., :1], axis=0)


def point(draw: Draw, penalty: float, rng: np.random.Generator) -> tuple[Array, float]:
    """Four cells of four methods; smallest gap of sampling to PDP-OP in standard errors."""
    value, gap = np.zeros((4, 4)), np.zeros((4, 2))
    for sets in (50, 400, 4000):
        cell = cells(draw, penalty, masks=sets, rng=rng)
        values, errors = [], []
        for stat, kind in CELLS:
            of = [cell[f"{kind}_{method}"] for method in METHODS]
            values.append([getattr(moments, stat) for moments in of])
            errors.append([getattr(moments, f"{stat}_error") for moments in of[1:3]])
        value = np.array(values, dtype=float)
        gap = (value[:, 1:3] - value[:, :1]) / np.array(errors, dtype=float)
        if gap.min() > CLEAR:
            break
    return value, float(gap.min())


def redrawn(medical: Split, number: int, penalty: float | None = None, draws: int = DRAWS) -> Sweep:
    """The sweep on a table's grid, with everything drawn afresh."""
    found = each(_points, range(draws), medical, number, penalty)
    values, gaps = ([[point[k] for point in points] for points in found] for k in (0, 1))
    return Sweep(np.array(values), float(np.min(gaps)))


def _points(seed: int, medical: Split, number: int, penalty: float | None) -> list[tuple[Array, float]]:
    """All points of one draw."""
    spec, rng = published(number), np.random.default_rng([number, seed])
    drawn = zip(spec.rows(), fresh_draws(spec, rng, medical), strict=True)
    return [point(d, penalty or row.penalty, rng) for row, d in drawn]


def _other_pragmatists(medical: Split) -> Sweep:
    """Figure 1 with the default share of pragmatists."""
    found = []
    for seed in range(5):
        rng = np.random.default_rng([14, seed])
        for f_c in (0.1, 0.2, 0.3, 0.4, 0.5):
            losses = PrivacyGroups(f_c=f_c, f_m=0.43).draw(len(medical.y_train), rng=rng)
            found.append(point(Draw.of(medical, losses), 0.7, rng))
    return Sweep(np.array([[value for value, _ in found]]), min(gap for _, gap in found))


@dataclass(frozen=True)
class Sweeps:
    """All sweeps of the figures.

    Attributes
    ----------
    main : dict, by the number of the matching table
    ends : dict, by table and penalty: the same at the ends of the penalties, five draws
    first, other : Figure 1, with shares of pragmatists 0.37 and 0.43
    """

    main: dict[int, Sweep]
    ends: dict[tuple[int, float], Sweep]
    first: Sweep
    other: Sweep

    @property
    def runs(self) -> list[Sweep]:
        """All of them."""
        return [*self.main.values(), *self.ends.values(), self.first, self.other]

    @property
    def unclear(self) -> int:
        """Sweeps with a gap of five standard errors or less."""
        return sum(run.gap <= CLEAR for run in self.runs)

    @property
    def size(self) -> int:
        """Cells of each sampling variant."""
        return sum(run.values[..., 1].size for run in self.runs)

    def figure(self, number: int) -> tuple[int, int]:
        """For one of the paper's figures: cells where PDP-OP is lowest, and all, at every penalty tried."""
        if number == 1:
            counts = [self.first.lowest([1, 3]), self.other.lowest([1, 3])]
        else:
            table, stat = FIGURES[number]
            tested = [self.main[table]]
            if table < 11:
                tested += [self.ends[table, penalty] for penalty in ENDS[table % 2]]
            kinds = [i for i, (s, _) in enumerate(CELLS) if s == stat]
            counts = [sweep.lowest(kinds) for sweep in tested]
        return sum(a for a, _ in counts), sum(b for _, b in counts)

    def ratios(self, number: int) -> Iterator[tuple[str, bool, Array]]:
        """For one of the paper's figures: sampling over PDP-OP, medians; by variant, and whether regularised."""
        table, stat = FIGURES[number]
        for j in (0, 1):
            v = self.main[table].values[:, :, 2 * (stat == "std") + j]
            for m in (1, 2):
                yield list(METHODS.values())[m], bool(j), np.median(v[..., m] / v[..., 0], axis=0)

    def count(self, stats: slice = slice(None)) -> tuple[int, int]:
        """Comparisons with a sampling variant in which PDP-OP is lower, and all of them."""
        flat = np.concatenate([run.values[:, :, stats].reshape(-1, 4) for run in self.runs])
        return int((flat[:, :1] < flat[:, 1:3]).sum()), 2 * len(flat)


def all_sweeps(medical: Split) -> Sweeps:
    """Draw every sweep."""
    main = {k: redrawn(medical, k) for k in range(3, 13)}
    ends = {(k, lam): redrawn(medical, k, lam, 5) for k in range(3, 11) for lam in ENDS[k % 2]}
    return Sweeps(main, ends, redrawn(medical, 8, 0.7), _other_pragmatists(medical))


def curves(sweep: Sweep, cell: int) -> tuple[dict[str, Array], dict[str, Array]]:
    """Medians of the three personal methods over the draws, and the middle 90 %."""
    middle, bands = {}, {}
    for m, name in enumerate(list(METHODS.values())[:3]):
        cut = np.quantile(sweep.values[:, :, cell, m], [0.05, 0.5, 0.95], axis=0)
        middle[name], bands[name] = cut[1], cut[[0, 2]]
    return middle, bands


def _ordered(*curves: Array) -> bool:
    return all(bool((np.diff(c) > 0).all()) for c in curves)


def _parallel(ratio: Array) -> bool:
    return bool((ratio.max(0) < 1.1 * ratio.min(0)).all())


def what_to_see(sweeps: Sweeps) -> pd.DataFrame:
    """A sentence on the redrawn figures, and whether the medians over the draws bear it out."""
    # the two panels of each figure (points, panels, methods), and sampling over PDP-OP in them
    y = {
        (k, stat): np.median(sweep.values[:, :, i : i + 2, :3], axis=0)
        for k, sweep in sweeps.main.items()
        for stat, i in (("mean", 0), ("std", 2))
    }
    r = {key: lines[..., 1:] / lines[..., :1] for key, lines in y.items()}
    steps = np.diff(np.median(sweeps.first.values[:, :, [1, 3], :3], axis=0), axis=0)
    start, end = r[3, "mean"][0], r[3, "mean"][-1]
    above, below = r[12, "std"][:, 0], r[12, "std"][:, 1]
    said = {
        1: ("all rise with f_c, sampling faster", (steps > 0).all() and (steps[..., 1:] > steps[..., :1]).all()),
        2: (
            "the mean threshold starts worst and meets the max threshold",
            _ordered(start) and (abs(end[:, 1] / end[:, 0] - 1) < 0.05).all(),
        ),
        4: ("the mean threshold is furthest behind at small ε_m", (r[5, "mean"][..., 1].argmax(0) == 0).all()),
        5: ("all fall and never meet", (np.diff(y[6, "mean"], axis=0) < 0).all() and _ordered(y[6, "mean"])),
        6: (
            "unregularised curves are close at few conservatives and fan out",
            r[7, "mean"][0, 0].max() < 1.15 and r[7, "mean"][-1, 0].min() > 1.3,
        ),
        7: ("sampling falls behind with every conservative", (np.diff(r[8, "mean"], axis=0) > 0).all()),
        9: ("parallel on a logarithmic scale", _parallel(r[10, "mean"])),
        10: (
            "regularised: parallel over four orders of magnitude",
            _parallel(r[11, "std"][:, 1]) and (np.ptp(np.log10(y[11, "std"][:, 1]), axis=0) > 4).all(),
        ),
        11: (
            "regularised: parallel; unregularised: closest at the largest λ",
            _parallel(below) and (above.argmin(0) == len(above) - 1).all(),
        ),
        12: (
            "regularised: the two sampling curves cross",
            _ordered(r[3, "std"][0, 1]) and _ordered(r[3, "std"][-1, 1, ::-1]),
        ),
        14: ("the order is that of the means", _ordered(y[5, "mean"], y[5, "std"])),
        15: ("the order is that of the means", _ordered(y[6, "mean"], y[6, "std"])),
        16: ("regularised: the max threshold ends at twice PDP-OP", r[7, "std"][-1, 1, 0] > 2),
        18: ("sampling is furthest behind with eight records", (r[9, "std"].argmax(0) == 0).all()),
        19: ("parallel throughout", _parallel(r[10, "std"])),
    }
    rows = {number: [text, "yes" if holds else "no"] for number, (text, holds) in said.items()}
    return pd.DataFrame(rows, index=["what to see", "borne out"]).T.rename_axis("the ridge paper's Figure")


# --- counting ---------------------------------------------------------------------------------------------------------


def order_counts(sweeps: Sweeps) -> pd.DataFrame:
    """Cells by the order of the three methods, over all sweeps, penalties and draws."""

    def of(*numbers: int) -> list[Sweep]:
        return [sweeps.main[k] for k in numbers]

    groups = {
        "Figure 1": [sweeps.first, sweeps.other],
        "Figures 2, 3, 12, 13": of(3, 4),
        "Figures 4, 5, 14, 15": of(5, 6),
        "Figures 6, 7, 16, 17": of(7, 8),
        "Figures 8, 9, 18, 19": of(9, 10),
        "Figures 10, 11; Tables 11 to 14": of(11, 12),
        "other penalties": list(sweeps.ends.values()),
    }
    rows = {}
    for name, found in groups.items():
        flat = np.concatenate([sweep.values.reshape(-1, 4) for sweep in found])
        below = [int((flat[:, a] < flat[:, b]).sum()) for a, b in ((0, 1), (0, 2), (1, 2))]
        rows[name] = [len(flat), *below]
    table = pd.DataFrame(rows, index=["cells", "PDP-OP < max", "PDP-OP < mean", "max < mean"]).T
    table.loc["all"] = table.sum()
    return table


def threshold_order(sweeps: list[Sweep]) -> pd.DataFrame:
    """As conservatives become bolder (Tables 3 and 4): how often the max threshold is better, and both budgets."""
    values = np.concatenate([sweep.values for sweep in sweeps])
    share = (values[..., 1] < values[..., 2]).mean((0, 2))
    rows = {}
    for eps_c, s in zip(published(3).printed.index, share, strict=True):
        group = replace(MANY_CONSERVATIVES, eps_c=eps_c)
        rng = np.random.default_rng(5)
        drawn = [group.draw(N_TRAIN, rng=rng) for _ in range(200)]
        budget = [
            np.mean([effective_sample_budget(e, float(t(e))) / e.sum() for e in drawn]) for t in (np.max, np.mean)
        ]
        rows[f"ε_c = {eps_c:.2f}"] = [f"{s:.0%}", *(f"{b:.3f}" for b in budget)]
    return pd.DataFrame(rows, index=["max threshold lower", "budget, max", "budget, mean"]).T


def in_order(numbers: Iterable[int]) -> tuple[int, int]:
    """Comparisons of printed tables in the order PDP-OP < max < mean, and all of them."""
    right, size = 0, 0
    for number in numbers:
        t = published(number).printed
        three = [[t[f"{k}_{m}"] for m in list(METHODS)[:3]] for k in ("unreg", "reg")]
        rising = np.diff(np.array(three), axis=1) > 0
        right, size = right + int(rising.sum()), size + rising.size
    return right, size


def gains(sweeps: Sweeps) -> pd.DataFrame:
    """How far PDP-OP is below sampling in Tables 11 to 14, medians over the table, printed and ours."""
    rows = {}
    for stat, pair, offset in (("mean", (11, 12), 0), ("std", (13, 14), 2)):
        for number, ours in zip(pair, (sweeps.main[11].values, sweeps.main[12].values), strict=True):
            for j, kind in enumerate(("unreg", "reg")):
                t, v = published(number).printed, ours[:, :, offset + j]
                below = [
                    np.median(1 - t[f"{kind}_pdp_op"] / t[f"{kind}_jorgensen_max"]),
                    np.median(1 - v[..., 0] / v[..., 1]),
                ]
                times = [
                    np.median(t[f"{kind}_jorgensen_mean"] / t[f"{kind}_pdp_op"]),
                    np.median(v[..., 2] / v[..., 0]),
                ]
                row = [*(f"{b:.1%}" for b in below), *(f"{v:.2f}" for v in times)]
                rows[f"Table {number}, {stat} of {kind}ularised loss"] = row
    columns = [
        "below max: printed",
        "below max: ours",
        "mean threshold / PDP-OP: printed",
        "mean threshold / PDP-OP: ours",
    ]
    return pd.DataFrame(rows, index=columns).T


@dataclass(frozen=True)
class Superiority:
    """What supports the three claims that PDP-OP is better than sampling.

    Attributes
    ----------
    means, deviations : printed comparisons in the order PDP-OP < max < mean, and all, of Tables 11, 12 and 13, 14
    ours : the same in our draws of Tables 11 and 12
    best : largest printed improvement over the max threshold
    lower, lower_deviations : comparisons of all sweeps in which PDP-OP is lower, and all: cells, standard deviations
    """

    means: tuple[int, int]
    deviations: tuple[int, int]
    ours: tuple[int, int]
    best: float
    lower: tuple[int, int]
    lower_deviations: tuple[int, int]

    @property
    def always_lower(self) -> bool:
        """Whether PDP-OP is lower in every cell of every sweep."""
        return self.lower[0] == self.lower[1]

    @property
    def beats_sampling(self) -> bool:
        """Whether every order is as said and the largest improvement is about 20 per cent."""
        orders = self.means[0] == self.means[1] and self.ours[0] == self.ours[1]
        return orders and 0.15 < self.best < 0.25 and self.always_lower

    @property
    def lower_spread(self) -> bool:
        """Whether standard deviations are lower in every cell, ours and printed."""
        return self.lower_deviations[0] == self.lower_deviations[1] and self.deviations[0] == self.deviations[1]


def superiority(sweeps: Sweeps) -> Superiority:
    """Count the comparisons behind the claims."""
    defaults = np.concatenate([sweeps.main[k].values.reshape(-1, 4, 4) for k in (11, 12)])
    rising = np.diff(defaults[:, :2, :3], axis=2) > 0
    best = max(
        float((1 - t[f"{k}_pdp_op"] / t[f"{k}_jorgensen_max"]).max())
        for t in (published(11).printed, published(12).printed)
        for k in ("unreg", "reg")
    )
    ours = int(rising.sum()), rising.size
    counts = sweeps.count(), sweeps.count(slice(2, None))
    return Superiority(in_order((11, 12)), in_order((13, 14)), ours, best, *counts)


# --- trends -----------------------------------------------------------------------------------------------------------


def falls(x: Array) -> bool:
    """Whether every step along the first axis goes down."""
    return bool((np.diff(x, axis=0) < 0).all())


def _printed_ratios(numbers: Iterable[int]) -> list[Array]:
    """Standard privacy over PDP-OP in printed tables, both losses."""
    tables = [published(k).printed for k in numbers]
    return [(t[f"{k}_nonpersonalized"] / t[f"{k}_pdp_op"]).to_numpy() for t in tables for k in ("unreg", "reg")]


def sweep_ends(sweeps: Sweeps) -> pd.DataFrame:
    """Regularised mean loss at both ends of each sweep: ratios to PDP-OP and differences, medians over the draws."""
    lines = {}
    for number in range(3, 11):
        spec, (ratio, gap) = published(number), sweeps.main[number].medians()
        for i in (0, -1):
            row = [f"{v:.3g}" if v < 999 else f"{v:.0f}" for v in (*ratio[i], *gap[i])]
            lines[f"{spec.data}, {AXES[spec.sweep]} = {spec.printed.index[i]:g}"] = row
    columns = ["standard / PDP-OP", "max / PDP-OP", "mean / PDP-OP", "max − PDP-OP", "mean − PDP-OP"]
    return pd.DataFrame(lines, index=columns).T


@dataclass(frozen=True)
class BolderConservatives:
    """Trends as eps_c grows.

    Attributes
    ----------
    printed : first and last ratio of standard privacy to PDP-OP in Table 4
    noise : DataFrame, noise power of sampling over PDP-OP with many people, by eps_c and threshold
    shrinks : whether the ratio to standard privacy falls at every step, and the differences to sampling from end to end
    """

    printed: tuple[float, float]
    noise: pd.DataFrame
    shrinks: bool

    @property
    def mean_only(self) -> bool:
        """Whether the ratio of noise powers falls for the mean threshold."""
        return self.shrinks and falls(self.noise["mean"].to_numpy())

    @property
    def both(self) -> bool:
        """Whether it does for both thresholds."""
        return self.shrinks and falls(self.noise.to_numpy())


def bolder_conservatives(sweeps: Sweeps) -> BolderConservatives:
    """Ratios and differences along eps_c."""
    grid, noise = published(3).printed.index, []
    for eps_c in grid:
        group = replace(MANY_CONSERVATIVES, eps_c=eps_c)
        eps = group.draw(100_000, rng=np.random.default_rng(6))
        budget = [t * inclusion_probabilities(eps, t).sum() for t in (1.0, eps.mean())]
        noise.append((eps.sum() / np.array(budget)) ** 2)
    main = sweeps.main
    standard = all(falls(r) for r in _printed_ratios((3, 4)))
    standard = standard and all(falls(main[k].medians(c)[0][:, 0]) for k in (3, 4) for c in (0, 1))
    gaps = [main[k].medians(c)[1] for k in (3, 4) for c in range(4)]
    ratio = published(4).printed.reg_nonpersonalized / published(4).printed.reg_pdp_op
    return BolderConservatives(
        (float(ratio.iloc[0]), float(ratio.iloc[-1])),
        pd.DataFrame(noise, index=[f"ε_c = {v:.2f}" for v in grid], columns=["max", "mean"]),
        standard and all(bool((g[-1] < g[0]).all()) for g in gaps),
    )


@dataclass(frozen=True)
class OverStandard:
    """Standard privacy over PDP-OP along a pair of sweeps.

    Attributes
    ----------
    printed, ours : least ratio in the printed tables, and in 20 fresh draws
    swing : largest over least median along a sweep, regularised
    """

    printed: float
    ours: float
    swing: float

    @property
    def persists(self) -> bool:
        """Whether PDP-OP is better everywhere."""
        return min(self.printed, self.ours) > 1

    @property
    def consistent(self) -> bool:
        """Whether it is, and the median stays within one order of magnitude."""
        return self.persists and self.swing < 10


def over_standard(sweeps: Sweeps, numbers: tuple[int, int]) -> OverStandard:
    """Least ratios and their swing, of two tables."""
    over = [sweeps.main[k].values[:, :, :2, 3] / sweeps.main[k].values[:, :, :2, 0] for k in numbers]
    middle = [sweeps.main[k].medians()[0][:, 0] for k in numbers]
    printed = min(float(r.min()) for r in _printed_ratios(numbers))
    swing = max(float(m.max() / m.min()) for m in middle)
    return OverStandard(printed, min(float(e.min()) for e in over), swing)


@dataclass(frozen=True)
class MoreConservatives:
    """Trends as f_c grows: sampling (max) over PDP-OP at both ends, medical, and whether ratios rise at every step."""

    ends: tuple[float, float]
    rises: bool


def more_conservatives(sweeps: Sweeps) -> MoreConservatives:
    """Ratios to sampling along f_c, both losses and data sets."""
    rises = all(falls(-sweeps.main[k].medians(c)[0][:, 1:]) for k in (7, 8) for c in (0, 1))
    ratio = sweeps.main[8].medians()[0][:, 1]
    return MoreConservatives((float(ratio[0]), float(ratio[-1])), rises)


@dataclass(frozen=True)
class MoreRecords:
    """Trends as n grows.

    Attributes
    ----------
    gap : first and last difference to the max threshold, medical, regularised
    relative : DataFrame, relative improvement over max at both ends, by data and loss
    better : whether every method gets better and the differences fall at every step
    halved : whether every relative improvement falls below half
    """

    gap: tuple[float, float]
    relative: pd.DataFrame
    better: bool
    halved: bool


def more_records(sweeps: Sweeps) -> MoreRecords:
    """Absolute and relative gaps along the share of records."""
    main, kinds = sweeps.main, [(k, c) for k in (9, 10) for c in (0, 1)]
    better = all(falls(np.median(main[k].values[:, :, c], axis=0)[[0, 4, 9]]) for k, c in kinds)
    gap_falls = all(falls(main[k].medians(c)[1]) for k, c in kinds)
    part = {f"{published(k).data}, {CELLS[c][1]}ularised": 1 - 1 / main[k].medians(c)[0][[0, -1], 1] for k, c in kinds}
    gap = main[10].medians()[1][:, 0]
    relative = pd.DataFrame(part, index=["a tenth of the records", "all records"]).T
    halved = all(p[1] < p[0] / 2 for p in part.values())
    return MoreRecords((float(gap[0]), float(gap[-1])), relative, better and gap_falls, halved)
