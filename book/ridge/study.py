"""The experiments of the ridge paper: its made-up people, the fourteen tables, and their cells in
closed form.

Every cell is the mean or the standard deviation of a test loss over 10,000 noise draws for *one*
hidden draw of privacy losses (and, for synthetic data, of the data). Given that draw no simulation
is needed, except over the sampled sets of the Jorgensen baseline.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from hdpm_book.datasets import Dataset, medical_design
from hdpm_book.notebook import require
from hdpm_book.ridge.jorgensen import (
    SampledRidge,
    draw_masks,
    inclusion_probabilities,
    sampled_ridge,
)
from hdpm_book.ridge.moments import Moments, QuadraticLoss
from hdpm_book.ridge.variants import (
    calibrate_objective_perturbation,
    release_objective_perturbation,
)
from hdpm_lib.learners.ridge import personalized_weights, sensitivity_constant, weighted_ridge
from hdpm_lib.noise import spherical_laplace
from hdpm_lib.schema import Number, Schema
from hdpm_lib.validation import (
    check_count,
    check_flag,
    check_generator,
    check_number,
)

Array = NDArray[np.float64]

FOLDER = files("hdpm_book.data") / "published" / "pdp-ridge"
SWEEPS = [
    name
    for name in ("lambda", "eps_c", "eps_m", "f_c", "n_fraction", "lambda", "lambda")
    for _ in (1, 2)
]
# "n = 100, d = 30" is 80 records to train on and 20 to test on
N_TRAIN = 80
N_TEST = 20
DIMENSION = 30
# the split of the medical records that gives all thirteen noiseless numbers of Table 12
SPLIT_SEED = 21
RUNS = 10_000

# --- people and data -----------------------------------------------------------------------------


def whole(share: float, n: int) -> int:
    """Return a share of `n`, cut down to a whole number; what only rounding keeps below one counts
    as that number.

    Examples
    --------
    >>> whole(0.29, 100), int(0.29 * 100), whole(0.34, 80)
    (29, 28, 27)
    """
    return int(share * n + 1e-9 * max(1, n))


@dataclass(frozen=True)
class PrivacyGroups:
    r"""Conservatives, pragmatists and liberals (Section 3 of the ridge paper, "Choice of Privacy
    Budgets").

    Attributes
    ----------
    f_c, f_m : float, default 0.34, 0.43
        Shares of conservatives and pragmatists; the rest are liberals.
    eps_c, eps_m, eps_l : float, default 0.01, 0.2, 1.0
        Conservatives draw their privacy loss uniformly from [eps_c, eps_m], pragmatists from
        [eps_m, eps_l], liberals accept eps_l.

    Examples
    --------
    >>> PrivacyGroups().counts(80)
    (27, 34, 19)
    >>> round(PrivacyGroups().mean(), 4)
    0.5237
    """

    f_c: float = 0.34
    f_m: float = 0.43
    eps_c: float = 0.01
    eps_m: float = 0.2
    eps_l: float = 1.0

    def __post_init__(self) -> None:
        for name in ("f_c", "f_m", "eps_c", "eps_m", "eps_l"):
            check_number(getattr(self, name), name)
        shares = (self.f_c, self.f_m)
        losses = (self.eps_c, self.eps_m, self.eps_l)
        right = min(shares) >= 0 and sum(shares) <= 1 + 1e-12
        require(
            right,
            "f_c and f_m must be shares with a sum of at most 1, got {} and {}".format(*shares),
        )
        right = 0 < self.eps_c <= self.eps_m <= self.eps_l
        require(right, "need 0 < eps_c <= eps_m <= eps_l, got {}, {}, {}".format(*losses))

    def counts(self, n: int) -> tuple[int, int, int]:
        """Return people in each group: shares cut down to whole numbers, the remainder liberal.

        The paper does not say how it rounds; this rule fits its tables best.
        """
        n = check_count(n, "n", 0)
        c = whole(self.f_c, n)
        m = min(whole(self.f_m, n), n - c)
        return c, m, n - c - m

    def mean(self) -> float:
        """Return the expected privacy loss of a person drawn at random with exact shares."""
        c = (self.eps_c + self.eps_m) / 2
        m = (self.eps_m + self.eps_l) / 2
        return self.f_c * c + self.f_m * m + (1 - self.f_c - self.f_m) * self.eps_l

    def total(self, n: int) -> tuple[float, float]:
        """Return the mean and standard deviation of the sum of the privacy losses of `n` people.

        Examples
        --------
        >>> mean, std = PrivacyGroups().total(80)
        >>> round(mean, 3), round(std, 3)
        (42.235, 1.376)
        """
        c, m, liberals = self.counts(n)
        mean = (
            c * (self.eps_c + self.eps_m) / 2
            + m * (self.eps_m + self.eps_l) / 2
            + liberals * self.eps_l
        )
        variance = (c * (self.eps_m - self.eps_c) ** 2 + m * (self.eps_l - self.eps_m) ** 2) / 12
        return mean, variance**0.5

    def draw(self, n: int, *, rng: np.random.Generator) -> Array:
        """Return privacy losses of `n` people in random order, shape (n,)."""
        check_generator(rng)
        c, m, liberals = self.counts(n)
        parts = [rng.uniform(self.eps_c, self.eps_m, c), rng.uniform(self.eps_m, self.eps_l, m)]
        return rng.permutation(np.concatenate([*parts, np.full(liberals, self.eps_l)]))


DEFAULT = PrivacyGroups()
MANY_CONSERVATIVES = PrivacyGroups(f_c=0.54, f_m=0.37, eps_m=0.5)


@dataclass(frozen=True)
class Split:
    """Records to train and to test on.

    Attributes
    ----------
    X_train, X_test : array of shape (n, d), (n_test, d)
    y_train, y_test : array of shape (n,), (n_test,)
    """

    X_train: Array
    y_train: Array
    X_test: Array
    y_test: Array

    @property
    def test_loss(self) -> QuadraticLoss:
        """Mean squared error on the test records."""
        return QuadraticLoss.of(self.X_test, self.y_test)


def take(split: Split, fraction: float) -> Split:
    """Return the first share of the training records (Tables 9 and 10)."""
    n = max(1, whole(check_number(fraction, "fraction", 0, 1, ends="(]"), len(split.y_train)))
    return replace(split, X_train=split.X_train[:n], y_train=split.y_train[:n])


def linear_population(
    n_train: int, n_test: int, dimension: int, *, rng: np.random.Generator
) -> Split:
    r"""Return noiseless data :math:`y=x^\top\theta^*/\sqrt d`, `x` uniform on the cube,
    :math:`\theta^*` on the sphere.

    Labels lie in [-1, 1] by Cauchy-Schwarz.

    Examples
    --------
    >>> split = linear_population(80, 20, 30, rng=np.random.default_rng(0))
    >>> split.X_train.shape, bool(abs(split.y_train).max() <= 1)
    ((80, 30), True)
    """
    n_train = check_count(n_train, "n_train")
    n_test = check_count(n_test, "n_test")
    dimension = check_count(dimension, "dimension")
    direction = check_generator(rng).standard_normal(dimension)
    direction /= np.linalg.norm(direction)
    X = rng.random((n_train + n_test, dimension))
    y = X @ direction / np.sqrt(dimension)
    return Split(X[:n_train], y[:n_train], X[n_train:], y[n_train:])


def synthetic_split(rng: np.random.Generator) -> Split:
    """Return one synthetic data set of the paper's size."""
    return linear_population(N_TRAIN, N_TEST, DIMENSION, rng=rng)


def medical_split(dataset: Dataset, seed: int = SPLIT_SEED) -> Split:
    """Return medical records scaled by the data's ranges, as in the paper, one fifth held out."""
    X, y, _ = medical_design(dataset, ranges="data")
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
    return Split(X_train, y_train, X_test, y_test)


# --- the printed tables -------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """Settings behind one row of a table."""

    value: float
    penalty: float
    groups: PrivacyGroups
    fraction: float = 1.0


@dataclass(frozen=True)
class Table:
    """One printed table: what it sweeps, on which data, and its rows.

    Attributes
    ----------
    number : int
    data : {"synthetic", "medical"}
    sweep : str
        Name of the column that is swept.
    printed : DataFrame
        Cells as printed, indexed by the swept value; damaged cells repaired if asked for.
    """

    number: int
    data: str
    sweep: str
    printed: pd.DataFrame = field(repr=False)

    @property
    def statistic(self) -> str:
        """``"std"`` for Tables 13 and 14, ``"mean"`` for the others."""
        return "std" if self.number >= 13 else "mean"

    def rows(self, groups: PrivacyGroups | None = None) -> Iterator[Row]:
        """Return settings row by row; `groups` replaces the captioned ones, but for what is swept
        (Table 9 had others).
        """
        captioned = dict.fromkeys((3, 4, 5, 6), MANY_CONSERVATIVES)
        captioned |= dict.fromkeys((7, 8), replace(DEFAULT, f_m=0.37))
        base = groups or captioned.get(self.number, DEFAULT)
        fixed = 100.0 if self.data == "synthetic" else 1.0
        for v in map(float, self.printed.index):
            if self.sweep == "lambda":
                yield Row(v, v, base)
            elif self.sweep == "n_fraction":
                yield Row(v, fixed, base, fraction=v)
            else:
                yield Row(v, fixed, replace(base, **{self.sweep: v}))


def published(number: int, *, repaired: bool = True) -> Table:
    """Return printed table 1 to 14, from ``data/published/pdp-ridge``, with the cells replaced that
    ``repairs.csv`` lists.

    Examples
    --------
    >>> float(published(1).printed.loc[1.0, "unreg_pdp_op"])
    854.0
    """
    number = check_count(number, "number", 1, 14)
    check_flag(repaired, "repaired")
    frame = pd.read_csv(str(FOLDER / f"table{number:02d}.csv")).set_index(SWEEPS[number - 1])
    if repaired:
        for cell in repairs().query("table == @number").itertuples():
            frame.loc[cell.row, cell.column] = cell.repaired
    return Table(number, "medical" if number % 2 == 0 else "synthetic", SWEEPS[number - 1], frame)


def repairs() -> pd.DataFrame:
    """Return cells that are damaged or slipped in the printed tables, each with the reason for its
    repair.
    """
    return pd.read_csv(str(FOLDER / "repairs.csv"))


# --- what the paper drew ------------------------------------------------------------------------


@dataclass(frozen=True)
class Draw:
    """What the paper drew once and does not print.

    Attributes
    ----------
    split : Split
    epsilon : array of shape (n_train,)
    total, strictest : float
        Sum and minimum of the privacy losses, which alone set the noise; a recovery from a table
        may replace them.
    """

    split: Split
    epsilon: Array
    total: float
    strictest: float

    @classmethod
    def of(cls, split: Split, epsilon: Array) -> Draw:
        """Return a draw whose sum and minimum are those of its privacy losses."""
        return cls(split, epsilon, float(epsilon.sum()), float(epsilon.min()))


def fresh_draws(
    spec: Table,
    rng: np.random.Generator,
    medical: Split | None = None,
    groups: PrivacyGroups | None = None,
) -> list[Draw]:
    """Draw what the paper drew: once for a sweep over the penalty, anew for every row of the other
    tables.

    Table 9 also redraws the synthetic data for every row; the other tables keep one data set.
    """
    split = medical if spec.data == "medical" else synthetic_split(rng)
    if split is None:
        raise ValueError(f"Table {spec.number} needs the medical records: pass medical")
    draws: list[Draw] = []
    for row in spec.rows(groups):
        if spec.number == 9:
            split = synthetic_split(rng)
        part = take(split, row.fraction)
        if spec.sweep == "lambda" and draws:
            draws.append(draws[0])
        else:
            draws.append(Draw.of(part, row.groups.draw(len(part.y_train), rng=rng)))
    return draws


# --- cells --------------------------------------------------------------------------------------


def cells(
    draw: Draw, penalty: float, *, masks: int = 0, rng: np.random.Generator | None = None
) -> dict[str, Moments]:
    """Return the mean and variance of both losses for every method, in closed form.

    Parameters
    ----------
    draw : Draw
    penalty : float
        Ridge penalty, positive.
    masks : int, default 0
        Sampled sets to average the Jorgensen baseline over, for which `rng` is needed; 0 leaves it
        out.

    Returns
    -------
    dict of Moments
        Keys such as ``"unreg_pdp_op"`` and ``"reg_jorgensen_max"``, as the columns of the printed
        tables.
    """
    masks = check_count(masks, "masks", 0)
    rng = None if rng is None else check_generator(rng)
    if masks and rng is None:
        raise ValueError("rng is needed to sample sets for the Jorgensen baseline")
    split = draw.split
    test_loss = draw.split.test_loss
    estimates = _estimates(draw, penalty)
    sampled = dict(_sampled(draw, penalty, masks, rng)) if rng is not None and masks else {}
    result = {}
    for kind, lam in (("unreg", 0.0), ("reg", penalty)):
        for name, (theta, rate) in estimates.items():
            result[f"{kind}_{name}"] = test_loss.under_noise(theta, rate, lam)
        for name, estimate in sampled.items():
            result[f"{kind}_{name}"] = estimate.loss(test_loss, lam)
    still = np.zeros(())
    result["reg_nonprivate"] = Moments(test_loss(estimates["nonpersonalized"][0], penalty), still)
    if masks:  # least squares is the same for every penalty, as in the printed column
        n = len(split.y_train)
        least_squares = weighted_ridge(split.X_train, split.y_train, np.full(n, 1 / n), 0.0)
        # directly: 1e-32 is below the round-off of test_loss
        errors = split.y_test - split.X_test @ least_squares
        result["unreg_nonprivate"] = Moments((errors**2).mean(), still)
    return result


def _estimates(draw: Draw, penalty: float) -> dict[str, tuple[Array, float]]:
    """Return noiseless estimates of the two output perturbations, and the rates of their noise."""
    X = draw.split.X_train
    y = draw.split.y_train
    n = len(draw.split.y_train)
    constant = sensitivity_constant(penalty, np.sqrt(X.shape[1]), "paper")
    personal = (
        weighted_ridge(X, y, personalized_weights(draw.epsilon), penalty),
        draw.total / constant,
    )
    plain = weighted_ridge(X, y, np.full(n, 1 / n), penalty), n * draw.strictest / constant
    return {"pdp_op": personal, "nonpersonalized": plain}


def _sampled(
    draw: Draw, penalty: float, masks: int, rng: np.random.Generator
) -> Iterator[tuple[str, SampledRidge]]:
    """Yield the Jorgensen baseline with both thresholds, one after the other."""
    X = draw.split.X_train
    y = draw.split.y_train
    for name, threshold in (("max", draw.epsilon.max()), ("mean", draw.total / len(y))):
        sets = draw_masks(draw.epsilon, threshold, masks, rng=rng)
        yield f"jorgensen_{name}", sampled_ridge(X, y, draw.epsilon, penalty, threshold, sets)


def table(
    spec: Table, draws: list[Draw], *, masks: int = 0, rng: np.random.Generator | None = None
) -> pd.DataFrame:
    """Return a whole table in the layout of the printed one, from one hidden draw for each row."""
    lines = []
    for row, draw in zip(spec.rows(), draws, strict=True):
        found = cells(draw, row.penalty, masks=masks, rng=rng)
        lines.append([float(getattr(found[name], spec.statistic)) for name in spec.printed.columns])
    return pd.DataFrame(lines, index=spec.printed.index, columns=spec.printed.columns)


@dataclass(frozen=True)
class Simulated:
    """Sample mean and standard deviation of a loss over independent runs, each with its standard
    error.
    """

    mean: float
    std: float
    mean_error: float
    std_error: float

    @classmethod
    def of(cls, losses: Array) -> Simulated:
        """Return the summary of the losses of independent runs, shape (runs,)."""
        deviation = losses - losses.mean()
        variance = (deviation**2).mean()
        fourth = (deviation**4).mean()
        spread = max(fourth - variance**2, 0.0)  # rounding could make it negative
        std = np.sqrt(variance)
        root = np.sqrt(len(losses))
        std_error = np.sqrt(spread / len(losses)) / (2 * np.sqrt(variance or 1.0))
        return cls(float(losses.mean()), float(std), float(std / root), float(std_error))


def monte_carlo(
    draw: Draw,
    penalty: float,
    *,
    rng: np.random.Generator,
    runs: int = RUNS,
    jorgensen: bool = False,
) -> dict[str, Simulated]:
    """Return the cells as the paper computed them: fit once, add noise, average.

    With `jorgensen` both thresholds of that baseline are included, with a fresh sampled set in
    every run.
    """
    runs = check_count(runs, "runs", 2)
    check_generator(rng)
    check_flag(jorgensen, "jorgensen")
    test_loss = draw.split.test_loss
    releases = {
        name: theta + spherical_laplace(len(theta), rate, rng=rng, size=runs)
        for name, (theta, rate) in _estimates(draw, penalty).items()
    }
    if jorgensen:
        for name, estimate in _sampled(draw, penalty, runs, rng):
            releases[name] = estimate.release(rng=rng)
    return {
        f"{kind}_{name}": Simulated.of(test_loss(theta, lam))
        for kind, lam in (("unreg", 0.0), ("reg", penalty))
        for name, theta in releases.items()
    }


def effective_sample_budget(epsilon: Array, threshold: float) -> Array:
    r"""Return the total privacy loss that would add the same mean noise power as Jorgensen sampling
    with that threshold.

    For `epsilon` of shape (..., n) an array of the leading shape,
    :math:`\mathbb{E}[(t\,n_s)^{-2}]^{-1/2}` to second order in the spread of the sample size
    :math:`n_s`.
    """
    p = inclusion_probabilities(np.ravel(epsilon), threshold).reshape(np.shape(epsilon))
    size = p.sum(-1)
    return np.asarray(threshold * size / np.sqrt(1 + 3 * (p * (1 - p)).sum(-1) / size**2))


# --- worlds that a schema allows ----------------------------------------------------------------


def corners_of(schema: Schema) -> Array:
    """Return all codes of rows whose numbers are at their ends, shape (k, number of coded
    features).
    """
    each = [*(column.corners for column in schema.columns), *([np.ones((1, 1))] * schema.intercept)]
    return np.array([np.concatenate(row) for row in itertools.product(*each)])


def public_losses(
    schema: Schema,
    label_bound: float,
    epsilon: Array,
    penalties: Sequence[float],
    *,
    worlds: int = 40,
) -> Array:
    r"""Return the mean excess loss of objective perturbation for each penalty, in made-up worlds
    that the schema allows.

    In a world features are independent and uniform on the schema; labels are :math:`x^\top\theta`,
    with `theta` in a random direction and as long as the label bound permits: the largest label at
    a corner is `a`. No record is looked at, so a penalty that is best here is a public number.
    """
    corners = corners_of(schema)
    found = np.zeros(len(penalties))
    bounds: dict[str, Any] = {"feature_norm": schema.feature_norm, "label_bound": label_bound}
    for world in range(worlds):
        rng = np.random.default_rng([0, world])
        X, other = (schema.transform(_uniform_rows(schema, n, rng)) for n in (len(epsilon), 4000))
        theta = rng.standard_normal(X.shape[1])
        theta *= label_bound / np.abs(corners @ theta).max()
        for k, penalty in enumerate(penalties):
            made = calibrate_objective_perturbation(
                X, np.clip(X @ theta, -label_bound, label_bound), epsilon, penalty, **bounds
            )
            apart = (
                release_objective_perturbation(
                    made, rng=np.random.default_rng([1, world]), size=200
                )
                - theta
            )
            found[k] += ((apart @ (other.T @ other / len(other))) * apart).sum(-1).mean() / worlds
    return found


def _uniform_rows(schema: Schema, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return rows with independent columns, uniform on what was declared."""
    columns = {
        c.name: (
            rng.uniform(c.low, c.high, n)
            if isinstance(c, Number)
            else rng.choice(np.array(c.levels), n)
        )
        for c in schema.columns
    }
    return pd.DataFrame(columns)
