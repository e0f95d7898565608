r"""Recover from a printed table of the ridge paper the one draw that it rests on and does not print.

The regularised loss of an output perturbation is :math:`L(\bar\theta)+(d+1)\operatorname{tr}A/\eta^2`, with a rate
:math:`\eta` proportional to the sum of privacy losses. So one printed cell gives that sum (or, for the non-personalised
column, the smallest privacy loss), and the other cells of the row can be predicted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import chi2

from hdpm_book.ridge.jorgensen import inclusion_probabilities
from hdpm_book.ridge.moments import QuadraticLoss
from hdpm_book.ridge.study import (
    DIMENSION,
    N_TRAIN,
    Draw,
    PrivacyGroups,
    Row,
    Split,
    Table,
    fresh_draws,
    published,
    synthetic_split,
    take,
)
from hdpm_lib.learners.ridge import personalized_weights, sensitivity_constant, weighted_ridge
from hdpm_lib.validation import check_choice, check_count, check_number

Array = NDArray[np.float64]

TABLE_9_GROUPS = PrivacyGroups(f_c=0.54, f_m=0.37)  # fit it, the captioned shares (0.34, 0.43, 0.23) do not
NOISY = tuple(f"{kind}_{by}" for kind in ("reg", "unreg") for by in ("pdp_op", "nonpersonalized"))
NOISY += tuple(f"{kind}_jorgensen_{by}" for kind in ("reg", "unreg") for by in ("max", "mean"))


def implied_total(row: Row, draw: Draw, printed: float, column: str = "reg_pdp_op") -> float:
    """Sum of privacy losses that a printed mean loss implies, the data and the weights being those of `draw`.

    For a non-personalised column it is `n` times the smallest privacy loss; ``nan`` if the printed loss, a finite
    number, is below the noiseless one. The `total` and `strictest` of the draw are not used.
    """
    check_number(printed, "printed")
    check_choice(column, "column", NOISY)
    split, (n, d) = draw.split, draw.split.X_train.shape
    weights = personalized_weights(draw.epsilon) if "pdp_op" in column else np.full(n, 1 / n)
    theta = weighted_ridge(split.X_train, split.y_train, weights, row.penalty)
    test_loss = QuadraticLoss.of(split.X_test, split.y_test)
    penalty = row.penalty if column.startswith("reg") else 0.0
    excess = printed - float(test_loss(theta, penalty))
    if excess <= 0:
        return float("nan")
    trace = np.trace(test_loss.second) + d * penalty
    rate = np.sqrt((d + 1) * trace / excess)
    return float(rate * sensitivity_constant(row.penalty, np.sqrt(d)))


def set_noise(spec: Table, draws: list[Draw]) -> list[Draw]:
    """Give each row the sum and the minimum that its regularised cells imply; a penalty sweep gets one pair for all."""
    rows = list(spec.rows())
    totals, minima = (
        np.array([implied_total(r, d, spec.printed.loc[r.value, c], c) for r, d in zip(rows, draws, strict=True)])
        for c in ("reg_pdp_op", "reg_nonpersonalized")
    )
    if spec.sweep == "lambda":
        totals, minima = (np.full(len(rows), np.exp(np.log(x).mean())) for x in (totals, minima))
    return [
        replace(d, total=float(t), strictest=float(m / len(d.split.y_train)))
        for d, t, m in zip(draws, totals, minima, strict=True)
    ]


def standardised_totals(spec: Table, draws: list[Draw], n: int, groups: PrivacyGroups | None = None) -> Array:
    """How far the recovered sums of privacy losses lie from what `n` training records of known groups imply.

    Parameters
    ----------
    draws : list of Draw
        One for each row, with the sums that :func:`set_noise` recovered.
    n : int
        Assumed number of training records (before a share of them is taken).
    groups : PrivacyGroups, optional
        Groups to assume in place of the captioned ones.

    Returns
    -------
    array of shape (rows,)
        In standard deviations; about standard normal if the assumptions are right. A sweep of the penalty has one draw,
        and so one score.
    """
    n = check_count(n, "n")
    scores = []
    for row, draw in zip(spec.rows(groups), draws, strict=True):
        mean, std = row.groups.total(int(row.fraction * n))
        scores.append((draw.total - mean) / std)
    return np.array(scores[:1] if spec.sweep == "lambda" else scores)


def effective_sample_budget(epsilon: Array, threshold: float) -> float:
    r"""Total privacy loss that would add the same mean noise power as Jorgensen sampling with that threshold.

    :math:`\mathbb{E}[(t\,n_s)^{-2}]^{-1/2}` to second order in the spread of the sample size :math:`n_s`.
    """
    p = inclusion_probabilities(epsilon, threshold)
    size = p.sum()
    return float(threshold * size / np.sqrt(1 + 3 * (p * (1 - p)).sum() / size**2))


def matching_epsilon(row: Row, draw: Draw, jorgensen: pd.Series, rng: np.random.Generator, tries: int = 4000) -> Array:
    """Of many draws of privacy losses the one that agrees best with the sum and with both Jorgensen cells of a row."""
    targets = [draw.total] + [
        implied_total(row, draw, jorgensen[c], c) for c in ("reg_jorgensen_max", "reg_jorgensen_mean")
    ]
    n = len(draw.epsilon)

    def error(epsilon: Array) -> float:
        found = [epsilon.sum(), effective_sample_budget(epsilon, epsilon.max())]
        found.append(effective_sample_budget(epsilon, draw.total / n))
        return float(np.square(np.log(np.divide(found, targets))).sum())

    return min((row.groups.draw(n, rng=rng) for _ in range(tries)), key=error)


@dataclass(frozen=True)
class Pool:
    """Many synthetic data sets and what a table shows of them (penalty 100, uniform weights).

    Attributes
    ----------
    splits : list of Split
    label_square, trace : array of shape (m,)
        Mean squared test label; trace of the test second moment.
    unregularised, regularised : array of shape (m,)
        Noiseless test losses.
    """

    splits: list[Split]
    label_square: Array
    trace: Array
    unregularised: Array
    regularised: Array

    @classmethod
    def draw(cls, size: int, rng: np.random.Generator) -> Pool:
        """That many fresh data sets of the paper's size."""
        splits = [synthetic_split(rng) for _ in range(size)]
        uniform = np.full(N_TRAIN, 1 / N_TRAIN)
        lines = []
        for split in splits:
            test_loss = QuadraticLoss.of(split.X_test, split.y_test)
            theta = weighted_ridge(split.X_train, split.y_train, uniform, 100.0)
            lines.append(
                (test_loss.label_square, np.trace(test_loss.second), test_loss(theta), test_loss(theta, 100.0))
            )
        return cls(splits, *np.array(lines, dtype=float).T)

    def match_cells(self, cells: pd.DataFrame) -> Split:
        """The data set that fits the unregularised PDP-OP cells best, the regularised ones setting the noise."""
        noise = cells.reg_pdp_op.to_numpy() - self.regularised[:, None]
        share = (self.trace / (self.trace + 100 * DIMENSION))[:, None]
        expected = self.unregularised[:, None] + noise * share
        error = np.square(np.log(expected / cells.unreg_pdp_op.to_numpy())).sum(1)
        return self.splits[int(np.argmin(error))]

    def match_path(self) -> Split:
        """The data set behind Tables 1, 11 and 13.

        Matched on the non-private column of Table 11, on the first three rows of Table 1 (where noise is all, the
        unregularised loss over the regularised one is the trace over the trace plus the penalty's part) and on the last
        unregularised cell of Table 13 (the gradient at zero).
        """
        path, noisy = published(11).printed["reg_nonprivate"], published(1).printed.iloc[:3]
        spread, lam = published(13).printed["unreg_pdp_op"].iloc[-1], float(path.index[-1])
        penalties, uniform = path.index.to_numpy(float), np.full((1, N_TRAIN), 1 / N_TRAIN)
        shares = np.stack(
            [noisy.unreg_pdp_op / noisy.reg_pdp_op, noisy.unreg_nonpersonalized / noisy.reg_nonpersonalized]
        )
        trace = float(np.mean(DIMENSION * noisy.index.to_numpy(float) * shares / (1 - shares)))
        off = np.log(self.trace / trace)
        near = (np.abs(np.log(self.label_square / path.iloc[-1])) < 0.05) & (np.abs(off) < 0.02)
        first = noisy.reg_pdp_op.iloc[0]
        total = np.sqrt((DIMENSION + 1) * (trace + DIMENSION) / first) * sensitivity_constant(1, DIMENSION**0.5)
        rate = total / sensitivity_constant(lam, DIMENSION**0.5)
        best, best_error = -1, np.inf
        for i in np.flatnonzero(near):
            split = self.splits[i]
            test_loss = QuadraticLoss.of(split.X_test, split.y_test)
            thetas = weighted_ridge(split.X_train, split.y_train, uniform, penalties)
            shape = np.log(test_loss(thetas, penalties) / path.to_numpy())
            width = np.log(test_loss.under_noise(thetas[-1], rate).std / spread)
            error = np.square(shape).mean() + float(width) ** 2
            error += 10 * off[i] ** 2  # the trace enters every unregularised cell
            if error < best_error:
                best, best_error = int(i), error
        if best < 0:
            raise ValueError(f"none of {len(self.splits)} data sets resembles Table 11: draw more")
        return self.splits[best]


def calibrated_draws(
    medical: Split | None, *, rng: np.random.Generator, candidates: int = 20_000
) -> dict[int, list[Draw]]:
    """One recovered draw for each row of Tables 1 to 14, by table number; :func:`used_cells` lists what went in.

    Without `medical`, the medical records, the even-numbered tables are left out; `candidates` are the synthetic data
    sets to choose from.
    """
    pool = Pool.draw(candidates, rng)
    joint = pd.concat([published(3).printed, published(5).printed])
    chosen = {1: pool.match_path(), 3: pool.match_cells(joint), 7: pool.match_cells(published(7).printed)}
    chosen[5] = chosen[3]
    result: dict[int, list[Draw]] = {}
    for number in range(1, 11) if medical is not None else range(1, 11, 2):
        spec = published(number)
        groups = TABLE_9_GROUPS if number == 9 else None
        draws = []
        for row, draw in zip(spec.rows(), fresh_draws(spec, rng, medical, groups), strict=True):
            if number == 9:  # its data are drawn anew for every row
                split: Split | None = pool.match_cells(spec.printed.loc[[row.value]])
            else:
                split = chosen.get(number, medical)
            assert split is not None
            draws.append(replace(draw, split=take(split, row.fraction)))
        result[number] = set_noise(spec, draws)
        if spec.sweep == "lambda":
            sampled = published(number + 10)
            row = next(iter(spec.rows()))
            epsilon = matching_epsilon(row, result[number][0], sampled.printed.iloc[0], rng)
            result[number] = set_noise(spec, [replace(d, epsilon=epsilon) for d in draws])
            for other in (sampled, published(number + 12)):
                result[other.number] = [result[number][0]] * len(other.printed)
    return result


def used_cells(number: int) -> pd.DataFrame:
    """Which cells of a table the calibration was fitted to (True); the others it predicts."""
    printed = published(number).printed
    used = pd.DataFrame(False, index=printed.index, columns=printed.columns)
    if number <= 10:
        used[["reg_pdp_op", "reg_nonpersonalized"]] = True
        used["unreg_pdp_op"] = number in (3, 5, 7, 9)
    if number in (11, 12):
        used["reg_pdp_op"] = True
        used.iloc[0, used.columns.get_indexer(["reg_jorgensen_max", "reg_jorgensen_mean"])] = True
    if number in (1, 11):
        used.iloc[:3, used.columns.get_loc("unreg_pdp_op")] = True
    if number == 1:
        used.iloc[:3, used.columns.get_loc("unreg_nonpersonalized")] = True
    if number == 11:
        used["reg_nonprivate"] = True
    if number == 13:
        used.iloc[-1, used.columns.get_loc("unreg_pdp_op")] = True
    return used


def cells_that_follow(number: int) -> pd.DataFrame:
    r"""Which predicted cells follow from a fitted one whatever the noise is: they test no more than the data.

    In both mean losses of a row the noise stands as :math:`\mathbb{E}\lVert Z\rVert^2\operatorname{tr}A/d`, so that
    unregularised = :math:`L(\bar\theta)+(\text{regularised}-L_\lambda(\bar\theta))\operatorname{tr}\Sigma/
    (\operatorname{tr}\Sigma+d\lambda)`: neither rate nor sensitivity constant enters.
    """
    used = used_cells(number)
    follow = pd.DataFrame(False, index=used.index, columns=used.columns)
    if number <= 12:
        for column in used.columns[used.columns.str.startswith("unreg") & ~used.columns.str.endswith("nonprivate")]:
            follow[column] = used[column.removeprefix("un")] & ~used[column]
    return follow


def agreement(number: int, ratios: list[pd.DataFrame], scores: list[Array], false_alarm: float) -> tuple[str, bool]:
    """Whether a table is reproduced, in words and as a truth value.

    It is, if in each calibration nine cells in ten are within 5 % (standard deviations: 10 %) and all within 20 %, and
    the recovered sums of privacy losses scatter by chance around those of the groups. Without the latter a wrong
    sensitivity constant would pass: the fit puts it into the sums.

    Parameters
    ----------
    ratios : list of DataFrame
        Our cells over the printed ones, one for each calibration.
    scores : list of array
        :func:`standardised_totals` of each calibration.
    false_alarm : float
        Probability with which the test of the sums fails by chance.
    """
    check_count(number, "number", 1, 14)
    check_number(false_alarm, "false_alarm", 0, 1, ends="()")
    off, near = [np.abs(r - 1).to_numpy() for r in ratios], 0.10 if number > 12 else 0.05
    share, worst = min((o <= near).mean() for o in off), max(o.max() for o in off)
    largest = max(float(np.square(z).sum()) for z in scores)
    by_chance = largest < chi2.isf(false_alarm, len(scores[0]))
    text = f"{share:.0%} of {off[0].size} cells within {near:.0%}, worst {worst:.0%} off"
    return text, bool(share >= 0.9 and worst <= 0.2 and by_chance)
