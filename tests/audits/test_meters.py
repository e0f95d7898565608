"""The meters of sums and gradients, where the worst pair is known: exact, and not blind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hdpm_lib import WeightedMean, integer_sum
from hdpm_lib.audits.meters import privacy_losses
from hdpm_lib.learners.queries import BiasedLaplace, linear_query, nonlinear_query
from tests.listed import laplace_privacy_losses
from tests.support import generator


def random_query(rng: np.random.Generator, n: int = 3, dimension: int = 1) -> tuple[BiasedLaplace, np.ndarray]:
    weights = rng.choice([-1.0, 1.0], n) * 10 ** rng.uniform(-1, 1, n)
    return linear_query(rng.random(n), 10 ** rng.uniform(-1, 1), weights=weights, dimension=dimension), weights


def test_sums_against_every_pair_of_databases() -> None:
    for k in range(20):
        query, weights = random_query(generator(88, k))
        data = np.indices((3, 3, 3)) / 2
        terms = weights[:, None, None, None] * data
        every = laplace_privacy_losses(query.mean(terms), query.scale)
        losses = privacy_losses(query, weights * generator(89).random(3))
        np.testing.assert_allclose(losses.found, every, rtol=1e-9)
        np.testing.assert_array_equal(losses.found, losses.at_most)
        np.testing.assert_allclose(query.privacy_loss, every, rtol=1e-9)
    query, weights = random_query(generator(90), 4, dimension=5)
    np.testing.assert_allclose(privacy_losses(query, 0.3 * weights).found, query.privacy_loss, rtol=1e-9)
    assert privacy_losses(linear_query([0.0, 0.0], 0.0), [0.2, 1.0]).found.tolist() == [0, 0]


SUM = linear_query([0.2, 0.7], 1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: privacy_losses(SUM, [0.1, 0.2, 0.3]), "terms has 3 entries for 2 shares"),
        (lambda: privacy_losses(SUM, [0.1, 1.5]), "terms must lie in their intervals: scale by public bounds, or clip"),
        (
            lambda: privacy_losses(nonlinear_query([1, 1], 1.0, [[1, 0.5], [0.5, 0]]), [0.1, 0.2]),
            "must be a linear query",
        ),
        (lambda: privacy_losses(integer_sum([1.0], 1.0), [1.0]), "must be a BiasedLaplace, .* got IntegerSum"),
        (lambda: privacy_losses(WeightedMean([1.0], 1.0, np.zeros(1), 1.0), [1.0]), "got WeightedMean"),
        (lambda: privacy_losses(np.ones(3), [1.0]), "got ndarray"),
    ],
)
def test_bad_input(call: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call()
