"""What the page on accuracy measures: the closed form of the loss, the accuracy theorem and what the penalty trades."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from hdpm_book.ridge.moments import QuadraticLoss
from hdpm_book.ridge.study import PrivacyGroups, linear_population
from hdpm_lib import noise
from hdpm_lib.learners.ridge import output_perturbation, personalized_weights, sensitivity_constant
from hdpm_lib.validation import FALSE_ALARM

Array = NDArray[np.float64]

DELTAS = (0.01, 0.1, 0.5)
TERMS = ["bias", "privacy", "labels"]


def _upper(misses: Array | int, draws: int, comparisons: int) -> Array:
    """Above the true probabilities, all of them, but for a chance of FALSE_ALARM."""
    return np.asarray(stats.beta.isf(FALSE_ALARM / comparisons, np.add(misses, 1), draws - np.asarray(misses)))


# --- the loss in closed form ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LossCheck:
    """Means and variances of 30,000 losses against the closed form: how many, largest score, what chance allows."""

    count: int
    z: float
    limit: float

    @property
    def agree(self) -> bool:
        """Whether no score is beyond chance."""
        return self.z < self.limit


def loss_check(runs: int = 30_000) -> LossCheck:
    """Release models and average their test loss."""
    z = []
    for seed in range(4):
        for d in (3, 12, 30):
            for lam in (1.0, 20.0):
                rng = np.random.default_rng([13, seed, d, int(lam)])
                people = linear_population(80, 20, d, rng=rng)
                epsilon = PrivacyGroups().draw(80, rng=rng)
                m = output_perturbation(people.X_train, people.y_train, epsilon, lam)
                loss = QuadraticLoss.of(people.X_test, people.y_test)
                releases = m.release(rng=rng, size=runs)
                for penalty in (0.0, lam):
                    exact = loss.under_noise(m.theta, m.noise_rate, penalty)
                    drawn = loss(releases, penalty)
                    square = (drawn - exact.mean) ** 2
                    z.append((drawn.mean() - exact.mean) / exact.std * runs**0.5)
                    z.append((square.mean() - exact.variance) / square.std() * runs**0.5)
    return LossCheck(len(z), float(np.abs(z).max()), float(stats.norm.isf(FALSE_ALARM / 2 / len(z))))


# --- the accuracy theorem ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TailCheck:
    """The two inequalities of the proof: largest probability over delta/2, and what the exact law would give.

    Attributes
    ----------
    chebyshev : exact, for d = 1 to 100
    markov : upper confidence limit of 15 settings
    printed, gamma : length of the noise that the proof allows for d = 30 and delta = 0.1, and the exact quantile
    """

    chebyshev: float
    markov: float
    printed: float
    gamma: float

    @property
    def hold(self) -> bool:
        """Whether both do."""
        return self.chebyshev <= 1 and self.markov <= 1


def tail_check() -> TailCheck:
    """Chebyshev against the Gamma law; Markov counted in 20,000 draws for each of five sets of features."""
    fine = np.logspace(-4, 0, 41)
    tail = [(noise.norm_law(d, 1).sf(d + np.sqrt(2 * d / fine)) / (fine / 2)).max() for d in range(1, 101)]
    markov = []
    for seed, (d, n) in enumerate([(1, 2), (1, 80), (3, 5), (12, 80), (30, 80)]):
        rng = np.random.default_rng([14, seed])
        X = rng.integers(0, 2, (n, d))
        w = personalized_weights(rng.uniform(0.01, 1, n))
        size = np.linalg.norm((rng.standard_normal((20_000, n)) * w) @ X, axis=1)
        for delta in DELTAS:
            misses = int((size >= np.sqrt(2 * d / delta) * np.linalg.norm(w)).sum())
            markov.append(float(_upper(misses, 20_000, 15)) / (delta / 2))
    gamma = float(noise.norm_law(30, 1).isf(0.05))
    return TailCheck(float(max(tail)), max(markov), float(30 + np.sqrt(600)), gamma)


@dataclass(frozen=True)
class Coverage:
    """The accuracy theorem in 81 settings of 10,000 releases.

    Attributes
    ----------
    runs : DataFrame, for each setting the terms, their sum, the quantile of the error and releases beyond the bound
    """

    runs: pd.DataFrame

    @property
    def table(self) -> pd.DataFrame:
        """Means over three data sets at sigma = 0.1."""
        shown = self.runs[self.runs["σ"] == 0.1].groupby(["λ", "δ"])
        table = shown[[*TERMS, "bound", "quantile", "ratio"]].mean().map("{:.3g}".format)
        table["misses"] = shown["misses"].sum()
        return table

    @property
    def bias(self) -> pd.DataFrame:
        """The first term and the true bias, by penalty."""
        return self.runs.groupby("λ")[["bias", "true bias"]].mean().round(3)

    @property
    def eigenvalue(self) -> tuple[float, float]:
        """Range of the smallest eigenvalue of M."""
        return float(self.runs["low"].min()), float(self.runs["low"].max())

    @property
    def limit(self) -> float:
        """Largest upper limit of a miss rate, in units of delta."""
        return float(self.runs["limit"].max())

    @property
    def ratio(self) -> tuple[float, float]:
        """Range of the bound over the quantile of the error."""
        return float(self.runs["ratio"].min()), float(self.runs["ratio"].max())

    @property
    def holds(self) -> bool:
        """Whether no miss rate can exceed delta."""
        return self.limit <= 1


def coverage(draws: int = 10_000) -> Coverage:
    """Release models in the paper's setting, 80 records of 30 features, and count errors beyond the bound."""
    d, n, rows = 30, 80, []
    for lam in (1, 10, 100):
        for sigma in (0, 0.1, 10):
            for seed in range(3):
                rng = np.random.default_rng([15, seed, lam, int(10 * sigma)])
                X, truth = rng.random((n, d)), rng.standard_normal(d)
                truth /= np.linalg.norm(truth)
                epsilon = PrivacyGroups().draw(n, rng=rng)
                w = personalized_weights(epsilon)
                eta = epsilon.sum() / sensitivity_constant(lam, np.sqrt(d))
                M = (X.T * w) @ X
                low = np.linalg.eigvalsh(M)[0]
                s = (rng.standard_normal((draws, n)) * sigma * w) @ X
                shift = (s - lam * truth) @ np.linalg.inv(M + lam * np.eye(d))
                error = np.linalg.norm(shift + noise.spherical_laplace(d, eta, rng=rng, size=draws), axis=1)
                bias = lam * np.linalg.norm(np.linalg.solve(M + lam * np.eye(d), truth))
                for delta in DELTAS:
                    tail = np.sqrt(2 * d / delta)
                    terms = [1 / (1 + low / lam), (d + tail) / eta, sigma / lam * tail * np.linalg.norm(w)]
                    misses = int((error > sum(terms)).sum())
                    rows.append([lam, sigma, delta, *terms, np.quantile(error, 1 - delta), misses, bias, low])
    runs = pd.DataFrame(rows, columns=["λ", "σ", "δ", *TERMS, "quantile", "misses", "true bias", "low"])
    runs["bound"] = runs[TERMS].sum(axis=1)
    runs["ratio"] = runs["bound"] / runs["quantile"]
    runs["limit"] = _upper(runs["misses"].to_numpy(), draws, len(runs)) / runs["δ"]
    return Coverage(runs)


# --- what the penalty trades ------------------------------------------------------------------------------------------


def term_curves(n: int, penalties: Array) -> dict[str, Array]:
    """The three terms and their sum for d = 5, sigma = delta = 0.1, default groups, by penalty."""
    rng = np.random.default_rng([16, n])
    X, epsilon = rng.random((n, 5)), PrivacyGroups().draw(n, rng=rng)
    w = personalized_weights(epsilon)
    low = np.linalg.eigvalsh((X.T * w) @ X)[0]
    c = np.array([sensitivity_constant(v, np.sqrt(5)) for v in penalties])
    curves = {
        "bias": 1 / (1 + low / penalties),
        "privacy": c / epsilon.sum() * (5 + np.sqrt(100)),
        "labels": 0.1 / penalties * np.sqrt(100) * np.linalg.norm(w),
    }
    return curves | {"sum": curves["bias"] + curves["privacy"] + curves["labels"]}


def _printed_terms(
    lam: Array, d: int, S: float, m: float, length: float, tail: float, b: float
) -> tuple[Array, Array, Array]:
    """The bound as printed; m is the smallest eigenvalue, length the norm of theta*."""
    root = np.sqrt(d)
    eta = lam / (2 * root * (1 + root * np.minimum(lam**-0.5, root / lam))) * S
    return length / (1 + m / lam), tail / eta, b / lam


@dataclass(frozen=True)
class TermsCheck:
    """How the terms move with the penalty in 1,000 instances.

    Attributes
    ----------
    rising, falling, interior : instances whose first term rises, whose others fall, and whose optimum is as stated
    instances : all of them
    start : largest first term at the penalty 1e-6, over the norm of theta*
    """

    rising: int
    falling: int
    interior: int
    instances: int
    start: float

    @property
    def as_said(self) -> bool:
        """Whether all do, and the first term vanishes with the penalty."""
        return self.rising == self.falling == self.interior == self.instances and self.start < 2e-3


def terms_check(instances: int = 1000) -> TermsCheck:
    """Evaluate the printed terms on a grid of penalties."""
    lam, right, rising, falling, start = np.logspace(-6, 7, 1000), 0, 0, 0, 0.0
    for seed in range(instances):
        rng = np.random.default_rng([17, seed])
        d, m, length = int(rng.integers(1, 31)), 10 ** rng.uniform(-3, 1), rng.uniform(0.1, 3)
        tail = d + np.sqrt(2 * d / rng.uniform(0.01, 0.9))
        share, level = rng.random(), 10 ** rng.uniform(-1, 1)  # a + b over m |theta|
        S = 2 * np.sqrt(d) * tail / (level * share * m * length)
        b = level * (1 - share) * m * length
        first, second, third = _printed_terms(lam, d, S, m, length, tail, b)
        inside = bool((first + second + third).min() < length)
        right += inside == (level < 1) or abs(level - 1) < 0.01
        rising += bool((np.diff(first) >= 0).all())
        falling += bool((np.diff(second) < 0).all() and (np.diff(third) <= 0).all())
        start = max(start, float(first[0]) / length)
    return TermsCheck(rising, falling, int(right), instances, start)


@dataclass(frozen=True)
class Trade:
    """What a larger penalty does to the true error, on 50 synthetic data sets.

    Attributes
    ----------
    less, more : data sets whose noise part of both losses falls throughout, and whose bias rises throughout
    plain : data sets whose noiseless test loss rises throughout
    sets : all of them
    medians : DataFrame, noise part and bias at the penalties 1 and 1000
    """

    less: int
    more: int
    plain: int
    sets: int
    medians: pd.DataFrame

    @property
    def both(self) -> bool:
        """Whether noise falls and bias rises on every data set."""
        return self.less == self.more == self.sets


def trade(sets: int = 50) -> Trade:
    """Split the expected test loss into that of the noiseless estimate and what the noise adds."""
    grid, less, more, plain, rows = np.logspace(-1, 3, 17), 0, 0, 0, []
    for seed in range(sets):
        rng = np.random.default_rng([18, seed])
        people = linear_population(80, 20, 30, rng=rng)
        epsilon = PrivacyGroups().draw(80, rng=rng)
        test = QuadraticLoss.of(people.X_test, people.y_test)
        m = [output_perturbation(people.X_train, people.y_train, epsilon, v) for v in grid]
        theta, eta = np.array([v.theta for v in m]), np.array([v.noise_rate for v in m])
        truth = np.linalg.lstsq(people.X_train, people.y_train)[0]  # labels have no noise
        added = [test.under_noise(theta, eta, v).mean - test(theta, v) for v in (0 * grid, grid)]
        bias = np.linalg.norm(theta - truth, axis=1)
        less += bool((np.diff(added) < 0).all())
        more += bool((np.diff(bias) > 0).all())
        plain += bool((np.diff(test(theta)) > 0).all())
        rows.append([*added[0][[4, -1]], *bias[[4, -1]]])
    middle = np.reshape(np.median(rows, axis=0), (2, 2))
    medians = pd.DataFrame(middle, index=["noise part of the loss", "bias"], columns=["λ = 1", "λ = 1000"])
    return Trade(less, more, plain, sets, medians.map("{:.2g}".format))
