"""Releases are drawn from the generator that is given, afresh each time: none comes back, nor does a part of one.

600 generators give 600 releases. One that draws from a generator of its own, or seeds one with eight bits, repeats
itself. Data carry no signal, so that what is released is the noise: neither a coordinate nor a length may come back.
By chance two of 600 numbers of 53 bits, or of the wide integers used here, are equal less often than once in 10**7.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from hdpm_book.ridge import jorgensen, variants
from hdpm_lib.aggregation import size_weights
from hdpm_lib.discrete import discrete_laplace, lattice_laplace
from hdpm_lib.learners import estimators, logistic, queries, ridge
from hdpm_lib.learners.fedsgd import fedsgd
from hdpm_lib.learners.integer_answers import IntegerSum, gradient_noise, integer_gradients
from hdpm_lib.learners.lattice import lattice_ridge
from hdpm_lib.learners.weighted_mean import WeightedMean
from hdpm_lib.noise import spherical_laplace
from tests.support import generator

COUNT = 600
X, Y, LOSSES = np.zeros((3, 2)), np.zeros(3), np.array([0.5, 1.0, 1.5])
MOMENTS = variants.calibrate_sufficient_statistics(X, Y, LOSSES, 1.0)
OBJECTIVE = variants.calibrate_objective_perturbation(X, Y, 4 * LOSSES, 1.0)
WIDE = Fraction(2**44)
Release = Callable[[np.random.Generator], np.ndarray]


def _trained(rng: np.random.Generator, **options: Any) -> np.ndarray:
    x, y, rows = np.ones((2, 1)), np.array([0, 1]), [[np.array([0]), np.array([1])]]
    asked, start = np.array([[[0, 1]]] * 2), np.zeros((2, 1))
    made = fedsgd(x, y, rows, [[1.0, 2.0]], asked, {"conv": size_weights}, start, rng=rng, every=1, **options)
    return np.diff(made.noise["conv"], axis=0)


def _logistic() -> logistic.ObjectivePerturbation:
    return logistic.objective_perturbation(X, Y + 1, LOSSES, 1.0, 1.0, arithmetic="ideal")


def _fitted(model: estimators.PersonalizedRidge | estimators.PrivateLogisticRegression, y: np.ndarray) -> np.ndarray:
    return np.asarray(model.fit(X, y).coef_)


RELEASES: dict[str, Release] = {
    "spherical noise": lambda rng: spherical_laplace(2, 1.0, rng=rng),
    "spherical noise, two at once": lambda rng: spherical_laplace(2, [1.0, 2.0], rng=rng, size=2),
    "integers": lambda rng: discrete_laplace(WIDE, rng=rng, size=2),
    "lattice": lambda rng: lattice_laplace(2, 1 / WIDE, rng=rng),
    "ridge": lambda rng: ridge.output_perturbation(X, Y, LOSSES, 1.0, arithmetic="ideal").release(rng=rng),
    "ridge, two at once": lambda rng: ridge.output_perturbation(X, Y, LOSSES, 1.0, arithmetic="ideal").release(
        rng=rng, size=2
    ),
    "lattice ridge": lambda rng: lattice_ridge(X, Y, LOSSES, 1.0, spacing=2.0**-43).release(rng=rng),
    "logistic": lambda rng: _logistic().release(rng=rng),
    "logistic, two at once": lambda rng: _logistic().release(rng=rng, size=2),
    "sum": lambda rng: queries.linear_query([1.0], 1.0, arithmetic="ideal").release([0.0], rng=rng),
    "sum, many coordinates": lambda rng: queries.linear_query([1.0], 1.0, dimension=3, arithmetic="ideal").release(
        [[0.0] * 3], rng=rng
    ),
    "sum, lattice": lambda rng: queries.linear_query([1.0], 1.0).release([0.0], rng=rng),
    "mean, lattice": lambda rng: WeightedMean([0.5, 0.5], 1.0, np.zeros(2), 1.0).release(X[:2], rng=rng),
    "mean": lambda rng: WeightedMean([0.5, 0.5], 1.0, np.zeros(2), 1.0, arithmetic="ideal").release(X[:2], rng=rng),
    "integer sum": lambda rng: IntegerSum(np.array([1]), 1, WIDE).release([0.0], rng=rng),
    "integer gradients": lambda rng: integer_gradients(np.zeros((2, 1, 2)), [1.0, 2.0], 1.0, spacing=2.0**-40, rng=rng),
    "noise of gradients": lambda rng: gradient_noise([1.0, 2.0], (2,), 1.0, 2.0**-40, rng=rng),
    "training": partial(_trained, arithmetic="ideal"),
    "training in integers": lambda rng: _trained(rng, spacing=2.0**-40),
    "sampling": lambda rng: jorgensen.sampled_ridge(
        X, Y, LOSSES, 1.0, 1.5, np.ones((2, 3)), size_in_noise="fixed"
    ).release(rng=rng),
    "objective": lambda rng: variants.release_objective_perturbation(OBJECTIVE, rng=rng),
    "moments": lambda rng: variants.release_sufficient_statistics(MOMENTS, rng=rng),
    "constant": lambda rng: variants.private_constant(Y, LOSSES, rng=rng),
    "estimator": lambda rng: _fitted(
        estimators.PersonalizedRidge(project=False, arithmetic="ideal", random_state=rng), Y
    ),
    "estimator, logistic": lambda rng: _fitted(
        estimators.PrivateLogisticRegression(2.0, classes=(0, 1), random_state=rng), Y
    ),
    "estimator, by itself": lambda rng: _fitted(estimators.PersonalizedRidge(project=False), Y),
    "masks": lambda rng: np.packbits(jorgensen.draw_masks(np.full(128, 0.5), 0.7, 1, rng=rng).astype(bool)).view("u8"),
}
ONE_LENGTH = ("objective", "moments")  # those outside the ball are pulled onto it


def parts(drawn: np.ndarray) -> np.ndarray:
    """What must not come back, for each release in a row: coordinates, and lengths of vectors; by absolute value."""
    rows = np.abs(drawn.reshape(len(drawn), -1).astype(float))
    lengths = np.linalg.norm(
        drawn.reshape(len(drawn), -1, drawn.shape[-1] if drawn.ndim > 1 else 1).astype(float), axis=2
    )
    return np.column_stack([rows, lengths])


def repeated(drawn: np.ndarray) -> int:
    """How many numbers came back, in the same place or in another."""
    columns = parts(drawn)
    return max(len(columns) - len(np.unique(np.round(column / column.mean(), 12))) for column in columns.T)


@pytest.mark.parametrize("name", RELEASES)
def test_no_release_comes_back(name: str) -> None:
    drawn = np.stack([RELEASES[name](generator(601, k)) for k in range(COUNT)])
    if name in ONE_LENGTH:
        drawn = np.arctan2(drawn[:, :1], drawn[:, 1:])
    assert repeated(drawn) == 0
    again = generator(601, 0)
    first, second = RELEASES[name](again), RELEASES[name](again)
    if name != "estimator, by itself":
        assert (first == (drawn[0] if name not in ONE_LENGTH else first)).all()
    assert (first != second).all()


WHOLE = [
    name
    for name in RELEASES
    if any(word in name for word in ("integer", "lattice", "masks", "gradients", "estimator, "))
]


@pytest.mark.parametrize("name", [name for name in RELEASES if name not in WHOLE])
def test_no_release_has_the_digits_of_single_precision(name: str) -> None:
    """One number of 53 bits in 2**29 has no more than 24."""
    drawn = np.stack([RELEASES[name](generator(604, k)) for k in range(200)])
    assert not (drawn == drawn.astype(np.float32)).any()


@pytest.mark.parametrize("name", [name for name in WHOLE if name != "masks"])
def test_whole_numbers_have_more_digits_than_single_precision(name: str) -> None:
    """Those have at most 24; here half of the numbers or more have others."""
    drawn = np.stack([RELEASES[name](generator(605, k)) for k in range(100)]).astype(float)
    assert (drawn == drawn.astype(np.float32)).mean() < 0.5


@pytest.mark.parametrize("bits", [0, 8])
def test_few_seeds_are_caught(bits: int) -> None:
    def draw(rng: np.random.Generator) -> np.ndarray:
        return spherical_laplace(2, 1.0, rng=np.random.default_rng(rng.integers(2**bits)))

    assert repeated(np.stack([draw(generator(602, k)) for k in range(COUNT)])) > 0
    half = np.stack([draw(generator(603, k)) * [1.0, 1 + k] for k in range(COUNT)])  # one coordinate alone
    assert repeated(half) > 0
