"""Audits: by the number of runs, draws or records."""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy import stats
from scipy.spatial.distance import pdist
from sklearn.linear_model import Ridge

from hdpm_lib.audits.black_box import Audit, audit
from hdpm_lib.audits.meters import PrivacyLosses, privacy_losses
from hdpm_lib.learners.queries import linear_query
from hdpm_lib.learners.ridge import OutputPerturbation, output_perturbation
from hdpm_lib.validation import FALSE_ALARM
from tests.bench.case import SIZES, Arguments, Array, Case, Generator

DATA, NEIGHBOUR = np.zeros(10), np.eye(10)[0]


def noisy_mean(data: Array, rng: Generator, size: int) -> Array:
    """Laplace noise as it should be for a loss of 1."""
    return np.round(data.mean() + rng.laplace(0, 1 / len(data), size), 6)


def by_histogram(runs: int) -> float:
    """A lower bound on the loss from the bin that tells most, by Clopper and Pearson, Bonferroni over 40 bins."""
    rng, bins, level = np.random.default_rng(0), 40, FALSE_ALARM
    found = [noisy_mean(data, rng, runs) for data in (DATA, NEIGHBOUR)]
    edges = np.quantile(np.concatenate(found), np.linspace(0, 1, bins + 1)[1:-1])
    first, second = (np.bincount(np.searchsorted(edges, values), minlength=bins) for values in found)
    low = stats.beta.ppf(level / (2 * bins), second, runs - second + 1)
    high = stats.beta.ppf(1 - level / (2 * bins), first + 1, runs - first)
    return max(0.0, float(np.log(low / high).max()))


def a_sum(n: int, rng: Generator) -> Arguments:
    return linear_query(rng.random(n), 1.0), rng.random(n)


def records(n: int, rng: Generator) -> Arguments:
    X, y = rng.random((n, 4)), rng.uniform(-1, 1, n)
    return output_perturbation(X, y, np.ones(n), 1.0), X, y, rng


def own_losses(mechanism: OutputPerturbation, X: Array, y: Array, rng: Generator) -> PrivacyLosses:
    return privacy_losses(mechanism, X, y, rng=rng)


def refits(mechanism: OutputPerturbation, X: Array, y: Array, _: Generator) -> float:
    """The farthest that an estimate moves when a record goes to each of 32 corners: a fit for each."""
    model, farthest = Ridge(alpha=1.0, fit_intercept=False), 0.0
    for i in range(len(y)):
        X_i, y_i, found = X.copy(), y.copy(), []
        for *corner, label in product(*[(0, 1)] * 4, (-1, 1)):
            X_i[i], y_i[i] = corner, label
            found.append(model.fit(X_i, y_i, sample_weight=mechanism.weights).coef_)
        farthest = max(farthest, pdist(found).max())
    return float(mechanism.noise_rate * farthest)


def audited(runs: int) -> Audit:
    return audit(noisy_mean, DATA, NEIGHBOUR, 1.0, runs=runs, early=False, seed=0, time_limit=None)


CASES = (
    Case(audit, lambda n, rng: (n,), audited, "a Laplace mechanism", "runs", SIZES[1:]).beside(
        "a histogram and exact intervals",
        by_histogram,
        100_000,
        lambda _, found, bound: float(found.epsilon_lower() - bound),
        "how much lower its bound is",
    ),
    Case(privacy_losses, records, own_losses, "ridge regression, four features", "records", (30, *SIZES[:-1])).beside(
        "a scikit-learn fit for each corner",
        refits,
        30,
        lambda _, ours, farthest: float(farthest / ours.found.max() - 1),
        "relative difference of the largest loss",
    ),
    Case(privacy_losses, a_sum, None, "a sum", "individuals", (100, 300, 1_000, 3_000)),
)
