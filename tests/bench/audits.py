"""Audits: by the number of runs, draws or records."""

from __future__ import annotations

import numpy as np
from scipy import stats
from sklearn.linear_model import Ridge

from hdpm_lib.audits.black_box import audit
from hdpm_lib.audits.meters import privacy_losses
from hdpm_lib.learners.queries import linear_query
from hdpm_lib.learners.ridge import OutputPerturbation, output_perturbation
from hdpm_lib.validation import FALSE_ALARM
from tests.bench.case import Arguments, Array, Case, Generator, Peer

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


def draws(n: int, rng: Generator) -> Arguments:
    return (rng.laplace(scale=2.0, size=(n, 4)),)


def records(n: int, rng: Generator) -> Arguments:
    X, y = rng.random((n, 4)), rng.uniform(-1, 1, n)
    return output_perturbation(X, y, np.ones(n), 1.0), X, y, rng


def refits(mechanism: OutputPerturbation, X: Array, y: Array, _: Generator) -> float:
    """The farthest that an estimate moves when a record goes to each of 32 corners: a fit for each."""
    corners = np.array([[*map(int, f"{k:04b}")] for k in range(16)], float)
    model, farthest = Ridge(alpha=1.0, fit_intercept=False), 0.0
    for i in range(len(y)):
        X_i, y_i, found = X.copy(), y.copy(), []
        for corner in corners:
            for label in (-1.0, 1.0):
                X_i[i], y_i[i] = corner, label
                found.append(model.fit(X_i, y_i, sample_weight=mechanism.weights).coef_)
        apart = np.array(found)
        farthest = max(farthest, float(np.linalg.norm(apart[:, None] - apart[None], axis=2).max()))
    return mechanism.noise_rate * farthest


CASES = (
    Case(
        audit,
        lambda n, rng: (n,),
        lambda n: audit(noisy_mean, DATA, NEIGHBOUR, 1.0, runs=n, early=False, seed=0, time_limit=None),
        variant="a Laplace mechanism",
        counts="runs",
        sizes=(1_000, 10_000, 100_000, 1_000_000),
        peers=(
            Peer(
                "a histogram and exact intervals",
                by_histogram,
                100_000,
                lambda _, found, bound: float(found.epsilon_lower() - bound),
                "how much lower its bound is",
            ),
        ),
    ),
    Case(
        privacy_losses,
        records,
        lambda mechanism, X, y, rng: privacy_losses(mechanism, X, y, rng=rng),
        variant="ridge regression, four features",
        counts="records",
        sizes=(30, 100, 1_000, 10_000, 100_000),
        peers=(
            Peer(
                "a scikit-learn fit for each corner",
                refits,
                30,
                lambda _, ours, farthest: float(farthest / ours.found.max() - 1),
                "relative difference of the largest loss",
            ),
        ),
    ),
    Case(
        privacy_losses,
        lambda n, rng: (linear_query(rng.random(n), 1.0), rng.random(n)),
        variant="a sum",
        counts="individuals",
        sizes=(100, 300, 1_000, 3_000),
    ),
)
