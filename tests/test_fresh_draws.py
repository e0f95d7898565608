"""Releases are drawn from the generator that is given, afresh each time: none comes back, nor does
a part of one.

600 generators give 600 releases. One that draws from a generator of its own, or seeds one with
eight bits, repeats itself. Data carry no signal, so that what is released is the noise: neither a
coordinate nor a length may come back. By chance two of 600 numbers of 53 bits, or of the wide
integers used here, are equal less often than once in 10**7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from hdpm_book.ridge import jorgensen
from hdpm_lib.discrete import discrete_laplace
from hdpm_lib.learners.estimators import PersonalizedRidge
from hdpm_lib.learners.integer_answers import gradient_noise, longest_gradient, noise_scales
from hdpm_lib.learners.objective import objective_perturbation
from hdpm_lib.learners.queries import linear_query
from hdpm_lib.learners.ridge import output_perturbation
from hdpm_lib.learners.second_moments import second_moments
from hdpm_lib.learners.weighted_mean import WeightedMean
from hdpm_lib.noise import spherical_laplace
from tests import releases
from tests.releases import LEARNERS, NOISY, Learner
from tests.support import generator

Array = np.ndarray
COUNT = 600
WIDE = Fraction(2**44)
FINE = 2.0**-40


def noise(learner: Learner, rng: np.random.Generator) -> Array:
    return releases.arrays(releases.of_nothing(learner, rng)[0])[0]


# which would be projected
FLOATS = [name for name in NOISY if "ideal" in name and "PersonalizedRidge" not in name]
FLOATS += [name for name in NOISY if "'fixed'" in name] + [
    "ridge objective",
    "private_constant",
]
GRIDS = [
    f"{name} {{}}"
    for name in ("output_perturbation", "objective_perturbation", "linear_query", "WeightedMean")
]
GRIDS += [
    "nonlinear_query {}",
    "linear_query, many",
    "PersonalizedRidge {}",
    "PrivateLogisticRegression",
]
ONE_LENGTH = ("ridge objective",)  # those outside the ball are pulled onto it
SCALES = noise_scales([Fraction(1), Fraction(2)], longest_gradient(1.0, FINE), FINE)
RELEASES: dict[str, Callable[[np.random.Generator], Array]] = {
    "spherical noise": lambda rng: spherical_laplace(2, 1.0, rng=rng),
    "spherical noise, two at once": lambda rng: spherical_laplace(2, [1.0, 2.0], rng=rng, size=2),
    "integers": lambda rng: discrete_laplace(WIDE, rng=rng, size=2),
    **{name: partial(noise, LEARNERS[name]) for name in FLOATS + GRIDS},
    "training": partial(
        noise, Learner(partial(releases.federated, spacing=FINE), releases.shared_out, mode="raise")
    ),
    "integer gradients": lambda rng: releases.sent(np.zeros((3, 1, 2)), releases.LOSSES, rng, FINE)[
        0
    ],
    "noise of gradients": lambda rng: gradient_noise(SCALES, (2,), rng),
    "estimator, by itself": lambda rng: PersonalizedRidge().fit(releases.X, releases.Y).coef_,
    "masks": lambda rng: np.packbits(
        jorgensen.draw_masks(np.full(128, 0.5), 0.7, 1, rng=rng).astype(bool)
    ).view("u8"),
}


def parts(drawn: Array) -> Array:
    """What must not come back, for each release in a row: coordinates, and lengths of vectors; by
    absolute value.
    """
    rows = np.abs(drawn.reshape(len(drawn), -1).astype(float))
    vectors = drawn.reshape(len(drawn), -1, drawn.shape[-1] if drawn.ndim > 1 else 1).astype(float)
    return np.column_stack([rows, np.linalg.norm(vectors, axis=2)])


def repeated(drawn: Array) -> int:
    """How many numbers came back, in the same place or in another."""
    columns = parts(drawn)
    return max(
        len(columns) - len(np.unique(np.round(column / column.mean(), 12))) for column in columns.T
    )


@pytest.mark.parametrize("name", RELEASES)
def test_no_release_comes_back(name: str) -> None:
    drawn = np.stack([RELEASES[name](generator(601, k)) for k in range(COUNT)])
    again = generator(601, 0)
    first = RELEASES[name](again)
    second = RELEASES[name](again)
    assert name == "estimator, by itself" or (first == drawn[0]).all()
    assert (first != second).all()
    assert repeated(np.arctan2(drawn[..., 0], drawn[..., 1]) if name in ONE_LENGTH else drawn) == 0


def batches_of_one(arithmetic: Any) -> Iterator[Callable[[np.random.Generator, Any], Array]]:
    """Each mechanism that takes a `size`, and estimates inside a ball that are projected on it."""
    options: dict[str, Any] = {"features": releases.D, "arithmetic": arithmetic}
    much = 1e4 * releases.LOSSES
    ridge = output_perturbation(much, 0.5, **options)
    logistic = objective_perturbation(much / much.sum(), much.sum(), 0.5, **options)
    mean = WeightedMean(much / much.sum(), 1.0, np.zeros(releases.D), 1.0, arithmetic=arithmetic)
    query = linear_query(much / much.max(), 0.1, arithmetic=arithmetic)
    X, y = releases.X, releases.Y
    yield lambda rng, size: ridge.release(X, y, rng=rng, size=size)
    yield lambda rng, size: ridge.release(X, y, rng=rng, size=size, project=True)
    yield lambda rng, size: second_moments(much, **options).release(X, y, rng=rng, size=size)
    yield lambda rng, size: logistic.release(X, [1, -1, 1], rng=rng, size=size)
    yield lambda rng, size: mean.release(X, rng=rng, size=size)
    yield lambda rng, size: query.release(y, rng=rng, size=size)


@pytest.mark.parametrize("arithmetic", ["exact", "ideal"])
@pytest.mark.parametrize("size", [1, (1,), (1, 1)], ids=str)
def test_batches_of_one_are_as_single_releases_and_new_each_time(
    arithmetic: str, size: Any
) -> None:
    for release in batches_of_one(arithmetic):
        rng = generator(605)
        drawn = [release(rng, size).ravel() for _ in range(3)]
        assert len(np.unique(drawn)) == np.size(drawn)
        np.testing.assert_array_equal(drawn[0], np.ravel(release(generator(605), ())))


@pytest.mark.parametrize("name", [name for name in RELEASES if name != "masks"])
def test_digits_are_more_than_those_of_single_precision(name: str) -> None:
    """One number of 53 bits in 2**29 has no more than 24; on a grid up to half of them have, so
    that more than .85 of 100 releases' do less often than once in 10**10 (Hoeffding).
    """
    drawn = np.stack([RELEASES[name](generator(604, k)) for k in range(100)]).astype(float)
    assert (drawn == drawn.astype(np.float32)).mean() <= (
        0.0 if name in FLOATS or "spherical" in name else 0.85
    )


@pytest.mark.parametrize("bits", [0, 8])
def test_few_seeds_are_caught(bits: int) -> None:
    def draw(rng: np.random.Generator) -> Array:
        return spherical_laplace(2, 1.0, rng=np.random.default_rng(rng.integers(2**bits)))

    assert repeated(np.stack([draw(generator(602, k)) for k in range(COUNT)])) > 0
    # one coordinate alone
    half = np.stack([draw(generator(603, k)) * [1.0, 1 + k] for k in range(COUNT)])
    assert repeated(half) > 0
