"""Audits: by the number of runs, draws or records."""

from __future__ import annotations

import numpy as np
from scipy import stats
from sklearn.linear_model import Ridge

from hdpm_lib.audits.black_box import audit
from hdpm_lib.audits.digits import laplace_attack
from hdpm_lib.audits.guesses import bit_test, either, log_ratio
from hdpm_lib.audits.laws import laplace_law, spherical_law
from hdpm_lib.audits.ridge import ridge_privacy_losses
from hdpm_lib.audits.sums import gradient_privacy_losses, laplace_privacy_losses, sum_privacy_losses
from hdpm_lib.learners.queries import linear_query
from hdpm_lib.validation import FALSE_ALARM
from tests.bench.case import Arguments, Case, Peer

Array = np.ndarray
Generator = np.random.Generator

DATA, NEIGHBOUR = np.zeros(10), np.eye(10)[0]


def noisy_mean(data: Array, rng: Generator, size: int) -> Array:
    """Laplace noise as it should be for a loss of 1."""
    return np.asarray(data.mean() + rng.laplace(0, 1 / len(data), size))


def by_histogram(runs: int) -> float:
    """A lower bound on the loss from the bin that tells most, by Clopper and Pearson, Bonferroni over 40 bins."""
    rng, bins, level = np.random.default_rng(0), 40, FALSE_ALARM
    found = [noisy_mean(data, rng, runs) for data in (DATA, NEIGHBOUR)]
    edges = np.quantile(np.concatenate(found), np.linspace(0, 1, bins + 1)[1:-1])
    first, second = (np.bincount(np.searchsorted(edges, values), minlength=bins) for values in found)
    low = stats.beta.ppf(level / (2 * bins), second, runs - second + 1)
    high = stats.beta.ppf(1 - level / (2 * bins), first + 1, runs - first)
    return max(0.0, float(np.log(low / high).max()))


def coin(runs: int, rng: Generator) -> object:
    release = either(lambda rng, n: rng.laplace(0, 1, n), lambda rng, n: rng.laplace(1, 1, n))
    return bit_test(release, [log_ratio(0.0, 1.0, 1.0)], 1.0, runs, rng=rng)


def draws(n: int, rng: Generator) -> Arguments:
    return (rng.laplace(scale=2.0, size=(n, 4)),)


def balls(n: int, rng: Generator) -> Arguments:
    z = rng.standard_normal((n, 4))
    return (rng.gamma(4, 0.5, n)[:, None] * z / np.linalg.norm(z, axis=1, keepdims=True),)


def records(n: int, rng: Generator) -> Arguments:
    return rng.random((n, 4)), rng.uniform(-1, 1, n), np.full(n, 1 / n), rng


def refits(X: Array, y: Array, weights: Array, _: Generator) -> float:
    """The farthest that an estimate moves when a record goes to each of 32 corners: a fit for each."""
    corners = np.array([[*map(int, f"{k:04b}")] for k in range(16)], float)
    model, farthest = Ridge(alpha=1.0, fit_intercept=False), 0.0
    for i in range(len(y)):
        X_i, y_i, found = X.copy(), y.copy(), []
        for corner in corners:
            for label in (-1.0, 1.0):
                X_i[i], y_i[i] = corner, label
                found.append(model.fit(X_i, y_i, sample_weight=weights).coef_)
        apart = np.array(found)
        farthest = max(farthest, float(np.linalg.norm(apart[:, None] - apart[None], axis=2).max()))
    return farthest


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
    Case(bit_test, lambda n, rng: (n, rng), coin, counts="runs", sizes=(1_000, 10_000, 100_000, 1_000_000)),
    Case(
        laplace_law,
        draws,
        lambda z: laplace_law(z, 2.0),
        variant="four dimensions",
        counts="draws",
        peers=(
            Peer(
                "SciPy's kstest of each coordinate",
                lambda z: [stats.kstest(column, stats.laplace(0, 2).cdf) for column in z.T],
                100_000,
            ),
        ),
    ),
    Case(
        spherical_law,
        balls,
        lambda z: spherical_law(z, 2.0),
        variant="four dimensions",
        counts="draws",
        peers=(
            Peer(
                "SciPy's kstest of the radius",
                lambda z: stats.kstest(np.linalg.norm(z, axis=1), stats.gamma(4, scale=0.5).cdf),
                100_000,
            ),
        ),
    ),
    Case(
        laplace_attack,
        lambda n, rng: (n, rng),
        lambda n, rng: laplace_attack((0.0, 1.0), 1.0, rng=rng, draws=n),
        counts="draws",
        sizes=(100, 1_000, 10_000, 100_000),
    ),
    Case(
        ridge_privacy_losses,
        records,
        lambda X, y, w, rng: ridge_privacy_losses(X, y, w, 1.0, 1.0, rng=rng),
        variant="four features",
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
        sum_privacy_losses,
        lambda n, rng: (linear_query(rng.random(n), 1.0), rng.random(n)),
        counts="individuals",
        sizes=(100, 300, 1_000, 3_000),
    ),
    Case(
        gradient_privacy_losses,
        lambda n, rng: (rng.normal(0, 0.01, (n, 5, 20)), rng.uniform(0.5, 2, n), 1.0),
        variant="100 coordinates",
        counts="owners",
        sizes=(100, 1_000, 10_000),
    ),
    Case(laplace_privacy_losses, lambda n, rng: (rng.random((n, 2)), 1.0), counts="individuals"),
)
