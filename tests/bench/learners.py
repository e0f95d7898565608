"""Learners: what a fit and a release cost, by the number of records."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from hdpm_lib.learners.fedsgd import fedsgd
from hdpm_lib.learners.gradients import draw_bidders
from hdpm_lib.learners.integer_answers import integer_gradients, integer_sum
from hdpm_lib.learners.lattice import lattice_ridge
from hdpm_lib.learners.logistic import objective_perturbation
from hdpm_lib.learners.queries import linear_query, nonlinear_query
from hdpm_lib.learners.ridge import output_perturbation
from hdpm_lib.learners.weighted_mean import WeightedMean
from tests.bench.case import SIZES, Arguments, Array, Case, Generator, Peer

D = 10  # features
PENALTY = 1.0

# --- ridge regression -------------------------------------------------------------------------------------------------


def records(n: int, rng: Generator) -> Arguments:
    X = rng.random((n, D))
    return X, np.clip(X @ np.linspace(-0.2, 0.2, D) + rng.normal(0, 0.1, n), -1, 1), rng.uniform(0.1, 1, n), rng


def private_fit(X: Array, y: Array, epsilon: Array, rng: Generator) -> Array:
    return output_perturbation(X, y, epsilon, PENALTY).release(rng=rng)


def two_features(n: int, rng: Generator) -> Arguments:
    X, *others = records(n, rng)
    return X[:, :2], *others


def lattice_fit(X: Array, y: Array, epsilon: Array, rng: Generator) -> Array:
    return lattice_ridge(X, y, epsilon, PENALTY).release(rng=rng)


def plain_fit(X: Array, y: Array, epsilon: Array, rng: Generator) -> Array:
    """The same estimate by scikit-learn, and noise of some rate."""
    model = Ridge(alpha=PENALTY, fit_intercept=False).fit(X, y, sample_weight=epsilon / epsilon.sum())
    direction = rng.standard_normal(D)
    return np.asarray(model.coef_ + rng.gamma(D, 0.1) * direction / np.linalg.norm(direction))


# --- other learners ---------------------------------------------------------------------------------------------------


def signed(n: int, rng: Generator) -> Arguments:
    X = rng.uniform(-1, 1, (n, D)) / np.sqrt(D)
    y = np.where(X @ np.linspace(-1, 2, D) + rng.normal(0, 0.1, n) > 0, 1.0, -1.0)
    weights = rng.uniform(0.5, 1.5, n)
    return X, y, weights / weights.sum(), rng


def plain_logistic(X: Array, y: Array, weights: Array, _: Generator) -> Array:
    """The same objective without noise."""
    return np.asarray(LogisticRegression(C=100.0, fit_intercept=False).fit(X, y, sample_weight=weights).coef_)


def balls(n: int, rng: Generator) -> Arguments:
    weights = rng.uniform(0.5, 1.5, n)
    return rng.uniform(-0.25, 0.25, (n, D)), weights / weights.sum(), rng


def private_mean(X: Array, weights: Array, rng: Generator) -> Array:
    return WeightedMean(weights, 10.0, np.zeros(D), 1.0).release(X, rng=rng)


def shares(n: int, rng: Generator) -> Arguments:
    return rng.random(n), rng.random(n), rng


def pairs(n: int, rng: Generator) -> Arguments:
    return rng.random(n), rng.random((n, n))


def private_answer(s: Array, table: Array) -> Array:
    return nonlinear_query(s, 10.0, table).privacy_loss


def gradients(n: int, rng: Generator) -> Arguments:
    return rng.normal(0, 0.01, (n, 5, 20)), rng.uniform(0.5, 2, n), rng


def noisy_gradients(table: Array, epsilon: Array, rng: Generator) -> Array:
    """The same with floats: clipped to an L1 norm of 1, and Laplace noise."""
    norms = np.abs(table).sum((1, 2), keepdims=True)
    return np.asarray(table / np.maximum(norms, 1) + rng.laplace(0, (2 / epsilon)[:, None, None], table.shape))


def federation(n: int, rng: Generator) -> Arguments:
    """Ten owners, ten rounds of all."""
    X, labels = rng.standard_normal((n, 20)), rng.integers(5, size=n)
    return X, labels, [np.array_split(rng.permutation(n), 10)], draw_bidders(10, 10, 10, 1, rng), rng


def ten_rounds(X: Array, labels: Array, owners: list[list[Array]], asked: Array, rng: Generator) -> object:
    return fedsgd(X, labels, owners, np.full((1, 10), 5.0), asked, {"equal": by_size}, np.zeros((5, 20)), rng=rng)


def by_size(epsilon: Array, sizes: Array) -> Array:
    """Weights by size, whatever the noise."""
    return np.asarray(np.broadcast_to(sizes / sizes.sum(-1, keepdims=True), epsilon.shape))


RECORDS, FEW = "records", (100, 300, 1_000, 3_000)
CASES = (
    Case(
        output_perturbation,
        records,
        private_fit,
        counts=RECORDS,
        peer=Peer("scikit-learn's Ridge and NumPy's noise, no guarantee", plain_fit, 100_000),
    ),
    Case(
        lattice_ridge,
        two_features,
        lattice_fit,
        "two features, in integers",
        RECORDS,
        peer=Peer("the same in floats, output_perturbation", private_fit, 10_000),
    ),
    Case(
        objective_perturbation,
        signed,
        lambda X, y, a, rng: objective_perturbation(X, y, a, 10.0, 0.01).release(rng=rng),
        counts=RECORDS,
        peer=Peer("scikit-learn's LogisticRegression, not private", plain_logistic, 100_000),
    ),
    Case(WeightedMean, balls, private_mean, counts=RECORDS),
    Case(linear_query, shares, lambda s, x, rng: linear_query(s, 10.0).release(x, rng=rng), "", RECORDS, FEW),
    Case(nonlinear_query, pairs, private_answer, "", "records, as many terms", FEW),
    Case(
        integer_sum,
        shares,
        lambda s, x, rng: integer_sum(s, 10.0).release(x, rng=rng),
        "in integers",
        RECORDS,
        SIZES[:-1],
        Peer("NumPy's sum and Laplace noise", lambda s, x, rng: s @ x + rng.laplace(0, 10.0), 10_000),
    ),
    Case(
        integer_gradients,
        gradients,
        lambda table, e, rng: integer_gradients(table, e, 1.0, spacing=2.0**-10, rng=rng),
        "100 coordinates, in integers",
        "owners",
        (10, *SIZES[:3]),
        Peer("the same in floats with NumPy", noisy_gradients, 100),
    ),
    Case(fedsgd, federation, ten_rounds, "ten owners, ten rounds", RECORDS),
)
