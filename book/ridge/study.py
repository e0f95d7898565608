"""The made-up people of the ridge paper: privacy requirements in three groups, and noiseless linear data.

The experiments of the ridge paper: settings of its fourteen tables, and their cells in closed form.

Every cell is the mean or the standard deviation of a test loss over 10,000 noise draws for *one* hidden draw of privacy
losses (and, for synthetic data, of the data). Given that draw no simulation is needed, except over the sampled sets of
the Jorgensen baseline.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib.resources import files

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hdpm_lib.learners.jorgensen import draw_masks, sampled_ridge
from hdpm_lib.learners.ridge import personalized_weights, sensitivity_constant, weighted_ridge
from hdpm_lib.noise import Moments, QuadraticLoss, spherical_laplace
from hdpm_lib.validation import check_count, check_flag, check_generator, check_number

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PrivacyGroups:
    r"""Conservatives, pragmatists and liberals (Section 3 of the ridge paper, "Choice of Privacy Budgets").

    Attributes
    ----------
    f_c, f_m : float, default 0.34, 0.43
        Shares of conservatives and pragmatists; the rest are liberals.
    eps_c, eps_m, eps_l : float, default 0.01, 0.2, 1.0
        Conservatives draw their privacy loss uniformly from [eps_c, eps_m], pragmatists from [eps_m, eps_l], liberals
        accept eps_l.

    Raises
    ------
    ValueError
        If shares or levels are out of order.

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
        """Refuse shares that are no shares and levels out of order."""
        for name in ("f_c", "f_m", "eps_c", "eps_m", "eps_l"):
            check_number(getattr(self, name), name)
        if not (self.f_c >= 0 and self.f_m >= 0 and self.f_c + self.f_m <= 1 + 1e-12):
            raise ValueError(f"f_c and f_m must be shares with a sum of at most 1, got {self.f_c} and {self.f_m}")
        if not 0 < self.eps_c <= self.eps_m <= self.eps_l:
            raise ValueError(f"need 0 < eps_c <= eps_m <= eps_l, got {self.eps_c}, {self.eps_m}, {self.eps_l}")

    def counts(self, n: int) -> tuple[int, int, int]:
        """People in each group: shares cut down to whole numbers, the remainder liberal.

        The paper does not say how it rounds; this rule fits its tables best.
        """
        n = check_count(n, "n", 0)
        c, m = int(self.f_c * n), int(self.f_m * n)
        return c, m, n - c - m

    def mean(self) -> float:
        """Expected privacy loss of a person drawn at random with exact shares."""
        c, m = (self.eps_c + self.eps_m) / 2, (self.eps_m + self.eps_l) / 2
        return self.f_c * c + self.f_m * m + (1 - self.f_c - self.f_m) * self.eps_l

    def total(self, n: int) -> tuple[float, float]:
        """Mean and standard deviation of the sum of the privacy losses of `n` people.

        Examples
        --------
        >>> mean, std = PrivacyGroups().total(80)
        >>> round(mean, 3), round(std, 3)
        (42.235, 1.376)
        """
        c, m, liberals = self.counts(n)
        mean = c * (self.eps_c + self.eps_m) / 2 + m * (self.eps_m + self.eps_l) / 2 + liberals * self.eps_l
        variance = (c * (self.eps_m - self.eps_c) ** 2 + m * (self.eps_l - self.eps_m) ** 2) / 12
        return mean, variance**0.5

    def draw(self, n: int, *, rng: np.random.Generator) -> Array:
        """Privacy losses of `n` people in random order, shape (n,)."""
        check_generator(rng)
        c, m, liberals = self.counts(n)
        parts = [rng.uniform(self.eps_c, self.eps_m, c), rng.uniform(self.eps_m, self.eps_l, m)]
        return rng.permutation(np.concatenate([*parts, np.full(liberals, self.eps_l)]))


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


def linear_population(n_train: int, n_test: int, dimension: int, *, rng: np.random.Generator) -> Split:
    r"""Noiseless data :math:`y=x^\top\theta^*/\sqrt d`, `x` uniform on the cube, :math:`\theta^*` on the sphere.

    Parameters
    ----------
    n_train, n_test, dimension : int
        Sizes; the paper's "n = 100" is 80 records to train and 20 to test on.
    rng : numpy.random.Generator

    Returns
    -------
    Split
        Labels lie in [-1, 1] by Cauchy-Schwarz.

    Examples
    --------
    >>> split = linear_population(80, 20, 30, rng=np.random.default_rng(0))
    >>> split.X_train.shape, bool(abs(split.y_train).max() <= 1)
    ((80, 30), True)
    """
    n_train, n_test = check_count(n_train, "n_train"), check_count(n_test, "n_test")
    dimension, rng = check_count(dimension, "dimension"), check_generator(rng)
    direction = rng.standard_normal(dimension)
    direction /= np.linalg.norm(direction)
    X = rng.random((n_train + n_test, dimension))
    y = X @ direction / np.sqrt(dimension)
    return Split(X[:n_train], y[:n_train], X[n_train:], y[n_train:])


DEFAULT = PrivacyGroups()
MANY_CONSERVATIVES = PrivacyGroups(f_c=0.54, f_m=0.37, eps_m=0.5)
N_TRAIN, N_TEST, DIMENSION = 80, 20, 30  # "n = 100, d = 30" is 80 records to train on and 20 to test on
SPLIT_SEED = 21  # the split of the medical records that gives all thirteen noiseless numbers of Table 12
RUNS = 10_000


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
        """Settings row by row; `groups` replaces the captioned ones (Table 9 was run with others)."""
        base = groups or (MANY_CONSERVATIVES if 3 <= self.number <= 6 else DEFAULT)
        fixed = 100.0 if self.data == "synthetic" else 1.0
        for value in self.printed.index:
            v = float(value)
            if self.sweep == "lambda":
                yield Row(v, v, base)
            elif self.sweep == "eps_c":
                yield Row(v, fixed, replace(base, eps_c=v))
            elif self.sweep == "eps_m":
                yield Row(v, fixed, replace(base, eps_m=v))
            elif self.sweep == "f_c":
                yield Row(v, fixed, replace(base, f_c=v, f_m=0.37))
            else:
                yield Row(v, fixed, base, fraction=v)


def published(number: int, *, repaired: bool = True) -> Table:
    """Printed table by number, from ``data/published/pdp-ridge``.

    Parameters
    ----------
    number : int
        1 to 14.
    repaired : bool, default True
        Replace the cells listed in ``repairs.csv``.

    Returns
    -------
    Table

    Raises
    ------
    ValueError
        If there is no such table.

    Examples
    --------
    >>> float(published(1).printed.loc[1.0, "unreg_pdp_op"])
    854.0
    """
    number = check_count(number, "number", 1, 14)
    check_flag(repaired, "repaired")
    folder = files("hdpm_book.data") / "published" / "pdp-ridge"
    frame = pd.read_csv(str(folder / f"table{number:02d}.csv")).set_index(
        {1: "lambda", 2: "lambda", 3: "eps_c", 4: "eps_c", 5: "eps_m", 6: "eps_m", 7: "f_c", 8: "f_c"}.get(
            number, "n_fraction" if number in (9, 10) else "lambda"
        )
    )
    if repaired:
        for cell in repairs().query("table == @number").itertuples():
            frame.loc[cell.row, cell.column] = cell.repaired
    return Table(number, "medical" if number % 2 == 0 else "synthetic", str(frame.index.name), frame)


def repairs() -> pd.DataFrame:
    """Cells that are damaged or slipped in the printed tables, each with the reason for its repair."""
    return pd.read_csv(str(files("hdpm_book.data") / "published" / "pdp-ridge" / "repairs.csv"))


@dataclass(frozen=True)
class Draw:
    """What the paper drew once and does not print.

    Attributes
    ----------
    split : Split
    epsilon : array of shape (n_train,)
    total, strictest : float
        Sum and minimum of the privacy losses, which alone set the noise; calibration may replace them.
    """

    split: Split
    epsilon: Array
    total: float
    strictest: float

    @classmethod
    def of(cls, split: Split, epsilon: Array) -> Draw:
        """A draw whose sum and minimum are those of its privacy losses."""
        return cls(split, epsilon, float(epsilon.sum()), float(epsilon.min()))


def take(split: Split, fraction: float) -> Split:
    """The first share of the training records (Tables 9 and 10)."""
    n = max(1, int(check_number(fraction, "fraction", 0, 1, ends="(]") * len(split.y_train)))
    return replace(split, X_train=split.X_train[:n], y_train=split.y_train[:n])


def synthetic_split(rng: np.random.Generator) -> Split:
    """One synthetic data set of the paper's size."""

    return linear_population(N_TRAIN, N_TEST, DIMENSION, rng=rng)


def cells(draw: Draw, penalty: float, *, masks: int = 0, rng: np.random.Generator | None = None) -> dict[str, Moments]:
    """Mean and variance of both losses for every method, in closed form.

    Parameters
    ----------
    draw : Draw
    penalty : float
        Ridge penalty, positive.
    masks : int, default 0
        Sampled sets to average the Jorgensen baseline over; 0 leaves it out.
    rng : numpy.random.Generator, optional
        Needed for `masks`.

    Returns
    -------
    dict of Moments
        Keys such as ``"unreg_pdp_op"`` and ``"reg_jorgensen_max"``, as the columns of the printed tables.
    """
    masks, rng = check_count(masks, "masks", 0), None if rng is None else check_generator(rng)
    split, d = draw.split, draw.split.X_train.shape[1]
    n = len(split.y_train)
    constant = sensitivity_constant(penalty, np.sqrt(d))
    test_loss = QuadraticLoss.of(split.X_test, split.y_test)
    uniform = np.full(n, 1 / n)
    plain = weighted_ridge(split.X_train, split.y_train, uniform, penalty)
    personal = weighted_ridge(split.X_train, split.y_train, personalized_weights(draw.epsilon), penalty)
    sampled = {}
    if masks:
        if rng is None:
            raise ValueError("rng is needed to sample sets for the Jorgensen baseline")
        for name, threshold in (("max", draw.epsilon.max()), ("mean", draw.total / n)):
            sets = draw_masks(draw.epsilon, threshold, masks, rng=rng)
            sampled[name] = sampled_ridge(split.X_train, split.y_train, draw.epsilon, penalty, threshold, sets)
    result = {}
    for kind, lam in (("unreg", 0.0), ("reg", penalty)):
        result[f"{kind}_pdp_op"] = test_loss.under_noise(personal, draw.total / constant, lam)
        result[f"{kind}_nonpersonalized"] = test_loss.under_noise(plain, n * draw.strictest / constant, lam)
        for name, estimate in sampled.items():
            result[f"{kind}_jorgensen_{name}"] = estimate.loss(test_loss, lam)
    still = np.zeros(())
    result["reg_nonprivate"] = Moments(test_loss(plain, penalty), still)
    if masks:  # least squares is the same for every penalty, as in the printed column
        least_squares = weighted_ridge(split.X_train, split.y_train, uniform, 0.0)
        errors = split.y_test - split.X_test @ least_squares  # directly: 1e-32 is below the round-off of test_loss
        result["unreg_nonprivate"] = Moments((errors**2).mean(), still)
    return result


@dataclass(frozen=True)
class Simulated:
    """Sample mean and standard deviation of a loss over independent runs, each with its standard error."""

    mean: float
    std: float
    mean_error: float
    std_error: float

    @classmethod
    def of(cls, losses: Array) -> Simulated:
        """Summary of the losses of independent runs, shape (runs,)."""
        deviation = losses - losses.mean()
        variance, fourth = (deviation**2).mean(), (deviation**4).mean()
        spread = max(fourth - variance**2, 0.0)  # rounding could make it negative
        std_error = np.sqrt(spread / len(losses)) / (2 * np.sqrt(variance or 1.0))
        root = np.sqrt(len(losses))
        return cls(float(losses.mean()), float(np.sqrt(variance)), float(np.sqrt(variance) / root), float(std_error))


def monte_carlo(
    draw: Draw, penalty: float, *, rng: np.random.Generator, runs: int = RUNS, jorgensen: bool = False
) -> dict[str, Simulated]:
    """The cells as the paper computed them: fit once (Jorgensen: once for each sampled set), add noise, average.

    Parameters
    ----------
    draw : Draw
    penalty : float
    rng : numpy.random.Generator
    runs : int, default 10,000
    jorgensen : bool, default False
        Include both thresholds of the Jorgensen baseline, with a fresh sampled set in every run.

    Returns
    -------
    dict of Simulated
        Keys as in :func:`cells`.
    """
    runs = check_count(runs, "runs", 2)
    check_generator(rng), check_flag(jorgensen, "jorgensen")
    X, y, n = draw.split.X_train, draw.split.y_train, len(draw.split.y_train)
    d = X.shape[1]
    constant = sensitivity_constant(penalty, np.sqrt(d))
    test_loss = QuadraticLoss.of(draw.split.X_test, draw.split.y_test)
    releases = {}
    for name, weights, total in (
        ("pdp_op", personalized_weights(draw.epsilon), draw.total),
        ("nonpersonalized", np.full(n, 1 / n), n * draw.strictest),
    ):
        noise = spherical_laplace(d, total / constant, rng=rng, size=runs)
        releases[name] = weighted_ridge(X, y, weights, penalty) + noise
    if jorgensen:
        for name, threshold in (("jorgensen_max", draw.epsilon.max()), ("jorgensen_mean", draw.total / n)):
            sets = draw_masks(draw.epsilon, threshold, runs, rng=rng)
            releases[name] = sampled_ridge(X, y, draw.epsilon, penalty, threshold, sets).release(rng=rng)
    return {
        f"{kind}_{name}": Simulated.of(test_loss(theta, lam))
        for kind, lam in (("unreg", 0.0), ("reg", penalty))
        for name, theta in releases.items()
    }


def table(spec: Table, draws: list[Draw], *, masks: int = 0, rng: np.random.Generator | None = None) -> pd.DataFrame:
    """A whole table in the layout of the printed one, from one hidden draw for each row."""
    lines = []
    for row, draw in zip(spec.rows(), draws, strict=True):
        found = cells(draw, row.penalty, masks=masks, rng=rng)
        lines.append([float(getattr(found[name], spec.statistic)) for name in spec.printed.columns])
    return pd.DataFrame(lines, index=spec.printed.index, columns=spec.printed.columns)


def fresh_draws(
    spec: Table, rng: np.random.Generator, medical: Split | None = None, groups: PrivacyGroups | None = None
) -> list[Draw]:
    """Draw what the paper drew: once for a sweep over the penalty, anew for every row of the other tables.

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
