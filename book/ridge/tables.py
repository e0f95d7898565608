"""The fourteen tables of the ridge paper: what it leaves out, recovered; the tables recomputed, blind and calibrated.

Throughout, `medical` is the split of the medical records that the paper used, and `draws` are those of
:func:`hdpm_book.ridge.calibration.calibrated_draws`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import chi2, norm
from sklearn.model_selection import train_test_split

from hdpm_book.datasets import Dataset, medical_design
from hdpm_book.ridge import calibration
from hdpm_book.ridge.moments import QuadraticLoss
from hdpm_book.ridge.study import (
    DEFAULT,
    N_TRAIN,
    SPLIT_SEED,
    Draw,
    PrivacyGroups,
    Split,
    cells,
    fresh_draws,
    monte_carlo,
    published,
    repairs,
    table,
)
from hdpm_lib.learners.ridge import weighted_ridge
from hdpm_lib.spread import each
from hdpm_lib.validation import FALSE_ALARM

Array = NDArray[np.float64]
Chosen = NDArray[np.bool_]

SEEDS = (11, 12, 13)
HEADINGS = {
    "pdp_op": "PDP-OP",
    "nonpersonalized": "non-personalised",
    "jorgensen_max": "Jorgensen max",
    "jorgensen_mean": "Jorgensen mean",
    "nonprivate": "non-private",
}
TITLES = {"lambda": "the penalty λ", "eps_c": "ε_c", "eps_m": "ε_m", "f_c": "f_c", "n_fraction": "the share of records"}

# --- what the paper leaves out ----------------------------------------------------------------------------------------


def medical_split(dataset: Dataset, seed: int = SPLIT_SEED) -> Split:
    """Medical records scaled by the ranges of the data, as in the paper, one fifth held out."""
    X, y, _ = medical_design(dataset, ranges="data")
    parts = train_test_split(X, y, test_size=0.2, random_state=seed)
    return Split(parts[0], parts[2], parts[1], parts[3])


@dataclass(frozen=True)
class SplitSearch:
    """The split behind the thirteen noiseless numbers of Table 12.

    Attributes
    ----------
    error : largest relative error with the seed 21
    others : the least such error among 299 other seeds
    digits : numbers that agree to the three printed digits
    """

    error: float
    others: float
    digits: int


def split_search(dataset: Dataset, seeds: int = 300) -> SplitSearch:
    """Try the seeds of scikit-learn's ``train_test_split``."""
    spec = published(12).printed
    column, constant = spec["reg_nonprivate"], spec["unreg_nonprivate"].iloc[0]
    printed = np.r_[constant, column]

    def noiseless(seed: int) -> Array:
        split = medical_split(dataset, seed)
        uniform = np.full(len(split.y_train), 1 / len(split.y_train))
        loss = QuadraticLoss.of(split.X_test, split.y_test)
        path = [weighted_ridge(split.X_train, split.y_train, uniform, p) for p in column.index]
        plain = loss(weighted_ridge(split.X_train, split.y_train, uniform, 0.0))
        return np.r_[plain, loss(np.array(path), column.index.to_numpy())]

    found = {seed: noiseless(seed) for seed in {*range(seeds), SPLIT_SEED}}
    errors = {seed: float(np.abs(values / printed - 1).max()) for seed, values in found.items()}
    digits = sum(float(f"{a:.3g}") == b for a, b in zip(found[SPLIT_SEED], printed, strict=True))
    return SplitSearch(errors.pop(SPLIT_SEED), min(errors.values()), digits)


@dataclass(frozen=True)
class Scatter:
    """How far recovered sums of privacy losses lie from what was assumed, in standard deviations."""

    z: Array

    @property
    def rms(self) -> float:
        """Root mean square; near 1 if the assumptions are right."""
        return float(np.sqrt(np.mean(np.square(self.z))))

    @property
    def by_chance(self) -> bool:
        """Whether they scatter no more than standard normal scores, at the shared false-alarm rate."""
        return bool(np.square(self.z).sum() < chi2.isf(FALSE_ALARM, len(self.z)))


def scatter(numbers: tuple[int, ...], n: int, medical: Split, groups: PrivacyGroups | None = None) -> Scatter:
    """Recover the sums behind printed tables, for so many training records and these groups."""
    rng, z = np.random.default_rng(0), []
    for k in numbers:
        spec = published(k)
        drawn = calibration.set_noise(spec, fresh_draws(spec, rng, medical, groups))
        z.append(calibration.standardised_totals(spec, drawn, n, groups))
    return Scatter(np.concatenate(z))


def one_draw() -> pd.DataFrame:
    """Non-personalised over PDP-OP, regularised: along the rows of Tables 1 and 2, and in 200 fresh draws."""
    rows = {}
    for k in (1, 2):
        t = published(k).printed
        ratio = t.reg_nonpersonalized / t.reg_pdp_op
        rows[f"Table {k}, least and largest row"] = f"{ratio.min():.0f} to {ratio.max():.0f}"
    spec, rng = published(1), np.random.default_rng(2)
    fresh = [fresh_draws(spec, rng)[0] for _ in range(200)]
    low, high = np.quantile([(len(d.epsilon) * d.strictest / d.total) ** -2 for d in fresh], [0.05, 0.95])
    rows["200 fresh draws, 5 to 95 %"] = f"{low:.0f} to {high:.0f}"
    return pd.DataFrame({"non-personalised / PDP-OP": rows})


def damaged_cells() -> pd.DataFrame:
    """Cells repaired before comparing."""
    found = repairs()
    printed = [published(r.table, repaired=False).printed.loc[r.row, r.column] for r in found.itertuples()]
    listing = found.assign(printed=[f"{v:.3g}" for v in printed])
    listing["repaired"] = found.repaired.map("{:.3g}".format)
    return listing[["table", "row", "column", "printed", "repaired"]].set_index("table")


def results(frame: pd.DataFrame) -> pd.DataFrame:
    """A table without Table 11's column of round-off (1e-32), which is no result."""
    roundoff = len(frame) == 15 and "unreg_nonprivate" in frame
    return frame.drop(columns="unreg_nonprivate") if roundoff else frame


# --- two ways to a cell -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Runs:
    """Ten thousand runs of every row of Tables 1 to 12 against the closed form.

    Attributes
    ----------
    z : array, scores of means and standard deviations
    limit : what chance allows for the largest
    relative : dict, relative standard errors by table, row, column and statistic
    """

    z: Array
    limit: float
    relative: dict[tuple[int, float, str, str], float]

    @property
    def agree(self) -> bool:
        """Whether no score is beyond chance."""
        return bool(np.abs(self.z).max() < self.limit)


def ten_thousand_runs(draws: dict[int, list[Draw]]) -> Runs:
    """Draw the noise as the paper did, with sampled sets drawn afresh in every run."""
    found = each(_runs_of_table, [(k, draws[k]) for k in range(1, 13)])
    z = np.concatenate([scores for scores, _ in found])
    relative = {cell: error for _, errors in found for cell, error in errors.items()}
    return Runs(z, float(norm.isf(FALSE_ALARM / 2 / len(z))), relative)


def _runs_of_table(job: tuple[int, list[Draw]]) -> tuple[list[float], dict[tuple[int, float, str, str], float]]:
    """Scores and relative errors of one table."""
    k, drawn = job
    rng, spec, z, relative = np.random.default_rng([4, k]), published(k), list[float](), {}
    for row, draw in zip(spec.rows(), drawn, strict=True):
        exact = cells(draw, row.penalty, masks=1000 if k > 10 else 0, rng=rng)
        runs = monte_carlo(draw, row.penalty, rng=rng, jorgensen=k > 10)
        for name, run in runs.items():
            cell = exact[name]  # the sampled sets leave an error on our side too
            sets = getattr(cell, "mean_error", 0.0), getattr(cell, "std_error", 0.0)
            z.append(float((run.mean - cell.mean) / np.hypot(run.mean_error, sets[0])))
            z.append(float((run.std - cell.std) / np.hypot(run.std_error, sets[1])))
            relative[k, row.value, name, "mean"] = run.mean_error / run.mean
            relative[k, row.value, name, "std"] = run.std_error / run.std
    return z, relative


# --- blind and calibrated ---------------------------------------------------------------------------------------------


def blind_reproduction(medical: Split, count: int = 60) -> pd.DataFrame:
    """Where the printed cells lie among those of fresh draws, by table."""
    blind, lines = each(_blind_tables, range(count), medical), {}
    for k in range(1, 15):
        printed = results(published(k).printed)
        low, middle, high = np.quantile([results(tables[k]) for tables in blind], [0.05, 0.5, 0.95], axis=0)
        off = np.abs(middle / printed - 1).to_numpy()
        inside = ((printed >= low * 0.99) & (printed <= high * 1.01)).to_numpy()
        shares = (off < 0.05).mean(), (off < 0.2).mean(), inside.mean()
        lines[k] = [printed.size, *(f"{v:.0%}" for v in shares)]
    columns = ["cells", "median within 5 %", "within 20 %", "printed in 5-95 % band"]
    return pd.DataFrame(lines, index=columns).T.rename_axis("table")


def _blind_tables(seed: int, medical: Split) -> dict[int, pd.DataFrame]:
    """All tables from one fresh draw."""
    rng, found = np.random.default_rng([5, seed]), {}
    for k in range(1, 11):
        spec = published(k)
        groups = calibration.TABLE_9_GROUPS if k == 9 else None
        found[k] = table(spec, fresh_draws(spec, rng, medical, groups))
    for k in (11, 12):
        spec, spread = published(k), published(k + 2)
        drawn = fresh_draws(spec, rng, medical)
        moments = [cells(d, r.penalty, masks=30, rng=rng) for r, d in zip(spec.rows(), drawn, strict=True)]
        for t, kind in ((spec, "mean"), (spread, "std")):
            values = [[float(getattr(m[c], kind)) for c in t.printed] for m in moments]
            found[t.number] = pd.DataFrame(values, t.printed.index, t.printed.columns)
    return found


def smaller_strictest(medical: Split, strictest: float) -> float:
    """Share of 2,000 draws for the medical records whose strictest privacy loss is smaller."""
    rng = np.random.default_rng(6)
    minima = [DEFAULT.draw(len(medical.y_train), rng=rng).min() for _ in range(2000)]
    return float(np.mean(np.array(minima) < strictest))


@dataclass(frozen=True)
class Calibrated:
    """Every table from the one draw that it rests on, recovered three times.

    Attributes
    ----------
    ratios : dict, by table the three DataFrames of our cells over the printed ones
    scores : dict, by table the three arrays of standardised sums of privacy losses
    ours : dict, by table the cells of the last calibration
    """

    ratios: dict[int, list[pd.DataFrame]]
    scores: dict[int, list[Array]]
    ours: dict[int, pd.DataFrame]

    def _off(self, k: int) -> list[Array]:
        return [np.abs(r - 1).to_numpy() for r in self.ratios[k]]

    @staticmethod
    def used(k: int) -> Chosen:
        """Which cells of a table were used to calibrate."""
        return results(calibration.used_cells(k)).to_numpy()

    @staticmethod
    def follow(k: int) -> Chosen:
        """Which predicted cells follow whatever the noise is."""
        return results(calibration.cells_that_follow(k)).to_numpy()

    def summary(self) -> pd.DataFrame:
        """All cells, by what they test: how many, and the least share within 5 % and 20 % of three calibrations."""
        used = np.concatenate([self.used(k).ravel() for k in self.ratios])
        follow = np.concatenate([self.follow(k).ravel() for k in self.ratios])
        off = [np.concatenate([self._off(k)[s].ravel() for k in self.ratios]) for s in range(len(SEEDS))]
        rows = {}
        for name, which in (
            ("used to calibrate", used),
            ("predicted: follow whatever the noise is", follow),
            ("predicted: all others", ~used & ~follow),
            ("all", np.ones_like(used)),
        ):
            shares = [min((o[which] <= near).mean() for o in off) for near in (0.05, 0.20)]
            rows[name] = [str(which.sum()), *(f"{share:.1%}" for share in shares)]
        return pd.DataFrame(rows, index=["cells", "within 5 %", "within 20 %"]).T

    def sums(self) -> tuple[float, bool]:
        """Largest rms z of the recovered sums of privacy losses, and whether every table's scatter by chance."""
        found = [Scatter(z) for scores in self.scores.values() for z in scores]
        return max(s.rms for s in found), all(s.by_chance for s in found)

    def by_table(self) -> pd.DataFrame:
        """The same by table, with the worst cell and the scatter of the sums of privacy losses."""
        lines = {}
        for k in range(1, 15):
            off, fit = self._off(k), self.used(k)
            sums = max(Scatter(z).rms for z in self.scores[k])
            lines[k] = [
                str(off[0].size),
                str(int(fit.sum())),
                str(int((~fit).sum())),
                str(int(self.follow(k).sum())),
                f"{min((o <= 0.05).mean() for o in off):.0%}",
                f"{min((o[~fit] <= 0.05).mean() for o in off):.0%}",
                f"{max(o.max() for o in off):.0%}",
                f"{sums:.1f}",
            ]
        columns = ["cells", "used", "predicted", "predicted whatever the noise", "within 5 %", "predicted within 5 %"]
        columns += ["worst cell", "S: rms z"]
        return pd.DataFrame(lines, index=columns).T.rename_axis("table")

    def points(self, fitted: bool) -> tuple[Array, Array]:
        """Table numbers, spread out, and ratios of the last calibration: of used cells, or of predicted ones."""
        xs, ys = [], []
        for k in range(1, 15):
            chosen = self.ratios[k][-1].to_numpy()[self.used(k) == fitted]
            ys.append(chosen)
            xs.append(np.linspace(k - 0.3, k + 0.3, len(chosen)))
        return np.concatenate(xs), np.concatenate(ys)

    def agreement(self, k: int) -> tuple[str, bool]:
        """Whether a table is reproduced, in words and as a truth value."""
        return calibration.agreement(k, self.ratios[k], self.scores[k], FALSE_ALARM)


def calibrated(medical: Split) -> Calibrated:
    """Recover the hidden draws with three seeds and recompute every table."""
    found = each(_calibrated_tables, SEEDS, medical)
    ratios = {k: [results(ours[k]) / results(published(k).printed) for ours, _ in found] for k in range(1, 15)}
    return Calibrated(ratios, {k: [scores[k] for _, scores in found] for k in range(1, 15)}, found[-1][0])


def _calibrated_tables(seed: int, medical: Split) -> tuple[dict[int, pd.DataFrame], dict[int, Array]]:
    """Every table from one recovery of the hidden draws, and standardised sums of privacy losses."""
    rng, ours, scores = np.random.default_rng(seed), {}, {}
    drawn = calibration.calibrated_draws(medical, rng=rng)
    for k in range(1, 15):
        spec = published(k)
        ours[k] = table(spec, drawn[k], masks=500 if k > 10 else 0, rng=rng)
        n = len(medical.y_train) if k % 2 == 0 else N_TRAIN
        groups = calibration.TABLE_9_GROUPS if k == 9 else None
        scores[k] = calibration.standardised_totals(spec, drawn[k], n, groups)
    return ours, scores


def layout(k: int, run: Calibrated, runs: Runs) -> tuple[pd.DataFrame, pd.DataFrame, str, dict[str, str], pd.DataFrame]:
    """A printed table, ours, caption, headings and standard errors, for :func:`hdpm_book.plots.compare`."""
    spec = published(k)
    names = {c: f"{'un' * c.startswith('un')}reg. {HEADINGS[c.split('_', 1)[1]]}" for c in spec.printed}
    base = k if k <= 12 else k - 2  # Tables 13 and 14 are the spreads of 11 and 12
    errors = spec.printed.apply(
        lambda column: [runs.relative.get((base, value, column.name, spec.statistic), np.nan) for value in column.index]
    )
    what = "Standard deviation of the test loss" if k > 12 else "Test loss"
    caption = f"{what} against {TITLES[spec.sweep]}, {spec.data} data (the ridge paper's Table {k})"
    return spec.printed, run.ours[k], caption, names, errors


# --- claims beside the tables -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PrintedGain:
    """Printed non-personalised over PDP-OP losses.

    Attributes
    ----------
    table : DataFrame, least and largest ratio by table and loss
    first, second : least and largest in Tables 1 and 2, unregularised
    least : of all ratios
    """

    table: pd.DataFrame
    first: tuple[float, float]
    second: tuple[float, float]
    least: float


def printed_gain() -> PrintedGain:
    """Ratios in Tables 1 and 2."""
    ratios = {
        (k, kind): t[f"{kind}_nonpersonalized"] / t[f"{kind}_pdp_op"]
        for k, t in ((1, published(1).printed), (2, published(2).printed))
        for kind in ("unreg", "reg")
    }
    rows = {f"Table {k}, {kind}ularised": [f"{r.min():.0f}", f"{r.max():.0f}"] for (k, kind), r in ratios.items()}
    one, two = ratios[1, "unreg"], ratios[2, "unreg"]
    least = min(float(r.min()) for r in ratios.values())
    shown = pd.DataFrame(rows, index=["least", "largest"]).T
    return PrintedGain(shown, (one.min(), one.max()), (two.min(), two.max()), least)


@dataclass(frozen=True)
class Slip:
    """Row 0.30 of Table 3: the smallest privacy loss that each of its two non-personalised cells implies."""

    regularised: float
    unregularised: float

    @property
    def agree(self) -> bool:
        """Whether the two cells can belong to one run."""
        return self.regularised / self.unregularised < 1.1


def table_3_slip(draws: dict[int, list[Draw]]) -> Slip:
    """Invert the two cells of the row."""
    spec = published(3, repaired=False)
    row = next(r for r in spec.rows() if r.value == 0.3)
    reg, unreg = (
        calibration.implied_total(row, draws[3][4], spec.printed.loc[0.3, c], c) / N_TRAIN
        for c in ("reg_nonpersonalized", "unreg_nonpersonalized")
    )
    return Slip(reg, unreg)


def shared_cells() -> float:
    """Share of the PDP-OP cells of Table 11 (repaired) that Table 1 prints, too."""
    one, eleven = (published(k).printed.reg_pdp_op.iloc[:11] for k in (1, 11))
    return float((eleven == one).mean())


def two_losses(draws: dict[int, list[Draw]]) -> Array:
    """Relative errors of (regularised - unregularised) / penalty as the mean squared norm of the estimate, by row."""
    errors = []
    for k in (1, 3, 5, 7, 11):
        spec = published(k)
        for row, draw in zip(spec.rows(), draws[k], strict=True):
            moments = cells(draw, row.penalty)
            square = float(moments["reg_pdp_op"].mean - moments["unreg_pdp_op"].mean) / row.penalty
            printed = spec.printed.loc[row.value]
            errors.append((printed.reg_pdp_op - printed.unreg_pdp_op) / row.penalty / square - 1)
    return np.array(errors)
