"""The meters of sums and gradients, where the worst pair is known: exact, and not blind."""

from __future__ import annotations

import numpy as np

from hdpm_lib import WeightedMean
from hdpm_lib.audits.meters import privacy_losses
from hdpm_lib.learners.logistic import objective_perturbation
from hdpm_lib.learners.queries import linear_query, nonlinear_query
from hdpm_lib.learners.ridge import output_perturbation
from tests.support import generator, refusals


def test_sums_lose_what_they_promise() -> None:
    """Which is what all pairs of databases lose at most: `tests.learners.test_queries`."""
    for k in range(20):
        rng = generator(88, k)
        weights = rng.choice([-1.0, 1.0], 3) * 10 ** rng.uniform(-1, 1, 3)
        query = linear_query(
            rng.random(3), 10 ** rng.uniform(-1, 1), weights=weights, dimension=(1, 5)[k % 2]
        )
        losses = privacy_losses(query, weights * rng.random(3))
        np.testing.assert_allclose(losses.found, query.privacy_loss, rtol=1e-9)
        np.testing.assert_array_equal(losses.found, losses.at_most)
    assert privacy_losses(linear_query([0.0, 0.0], 0.0), [0.2, 1.0]).found.tolist() == [0, 0]


SUM = linear_query([0.2, 0.7], 1.0)
NONLINEAR = nonlinear_query([1, 1], 1.0, [[1, 0.5], [0.5, 0]])
RIDGE = output_perturbation(np.ones((3, 2)), np.zeros(3), np.ones(3), 1.0)
RNG = generator()
LOGISTIC = objective_perturbation(np.eye(2), [1, -1], [0.5, 0.5], 1.0, 1.0)

test_bad_input = refusals(
    (lambda: privacy_losses(SUM, [0.1, 0.2, 0.3]), "terms has 3 entries for 2 shares"),
    (
        lambda: privacy_losses(SUM, [0.1, 1.5]),
        "terms must lie in their intervals: scale by public bounds, or clip",
    ),
    (lambda: privacy_losses(NONLINEAR, [0.1, 0.2]), "must be a linear query"),
    (
        lambda: privacy_losses(WeightedMean([1.0], 1.0, [0.0], 1.0), [1.0]),
        "must be a BiasedLaplace, .* got WeightedMean",
    ),
    (
        lambda: privacy_losses(RIDGE, np.ones((3, 2)), np.ones(2), rng=RNG),
        "X has 3 .* y has 2 and weights has 3",
    ),
    (
        lambda: privacy_losses(LOGISTIC, np.zeros(3)),
        r"coefficients must have shape \(..., 2\), got \(3,\)",
    ),
)
