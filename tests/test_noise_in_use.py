"""Noise as learners use it, where `tests.audits.test_settings` does not look: its scale, what fits
share, the ball.

Each look takes what is released, less an estimate computed apart, at a rate that is typed anew.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from hdpm_lib.learners.estimators import PersonalizedRidge
from hdpm_lib.learners.ridge import output_perturbation
from tests.support import generator, law_checks, objections

Records = tuple[np.ndarray, np.ndarray, np.ndarray]


def data(d: int, size: float, n: int = 20) -> Records:
    """Features, the last of them an intercept, labels, and privacy losses of about that size."""
    rng = generator(11, n, d)
    X = np.column_stack([rng.random((n, d - 1)), np.ones(n)])
    y = np.clip(X @ rng.uniform(-1, 1, d) / d + rng.uniform(-0.6, 0.6, n), -1, 1)
    return X, y, size * rng.choice([0.2, 1, 3], n)


def known(
    X: np.ndarray, y: np.ndarray, epsilon: np.ndarray, penalty: float = 1.0
) -> tuple[np.ndarray, float]:
    """The estimate by scikit-learn, and the rate of Theorem 2.1 for features in the box."""
    model = Ridge(alpha=penalty, fit_intercept=False, solver="cholesky")
    theta = model.fit(X, y, sample_weight=epsilon / epsilon.sum()).coef_
    root = math.sqrt(X.shape[1])
    B = min(1 / math.sqrt(penalty), root / penalty)
    return theta, penalty * epsilon.sum() / (2 * root * (1 + root * B))


@pytest.mark.parametrize("d", [1, 12])
def test_ten_times_the_privacy_loss_is_a_tenth_of_the_noise(d: int) -> None:
    """The same generator gives the same noise but for its scale; nothing else may depend on the
    scale of epsilon.
    """

    def noise(X: np.ndarray, y: np.ndarray, epsilon: np.ndarray) -> np.ndarray:
        made = output_perturbation(epsilon, 1.0, features=d)
        return made.release(X, y, rng=generator(13), size=100) - known(X, y, epsilon)[0]

    small = noise(*data(d, 0.05))
    large = noise(*data(d, 0.5))
    np.testing.assert_allclose(small, 10 * large, rtol=1e-6, atol=1e-8)


# --- consecutive fits ---------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["seeds", "state", "one seed"])
def test_fits_share_no_noise_unless_a_seed_says_so(
    source: str,
) -> None:
    seeds = itertools.count()
    state = np.random.RandomState(generator(17).integers(2**32))
    draw = {"seeds": lambda: next(seeds), "state": lambda: state, "one seed": lambda: 5}[source]
    X, y, epsilon = data(2, 3.0)
    unit = X / np.sqrt(2)
    model = PersonalizedRidge(fit_intercept=False, arithmetic="ideal")

    def noise() -> np.ndarray:
        """Minus the gradient of the rest of the objective, in units of the noise."""
        model.set_params(rng=draw()).fit(X, y, epsilon=epsilon)
        w = np.sqrt(2) * model.coef_
        limits = model.clip_norm_ / np.linalg.norm(unit, axis=1)
        pull = np.clip(y - unit @ w, -limits, limits)
        rate = model.eta_ / 2 / model.clip_norm_
        return rate * ((model.weights_ * pull) @ unit - model.penalty_ * w)

    found = objections(law_checks(lambda k: np.stack([noise() for _ in range(k)]), 1000))
    assert any("consecutive" in line for line in found) if source == "one seed" else found == []


# --- the ball -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"norm_bound": 0.5}, {"feature_norm": 1.1}, {"arithmetic": "ideal"}], ids=str
)
def test_a_projected_release_is_the_nearest_point_of_the_ball(options: dict[str, Any]) -> None:
    """The same draw as without it, moved to the ball of the estimates."""
    X, y, epsilon = data(2, 0.3)
    X *= 1.1 / np.sqrt(2)
    norm = options.get("feature_norm", np.sqrt(2))
    radius = max(s / (s**2 + 1) for s in np.linspace(0, norm, 1001))
    outside = 0
    made = output_perturbation(epsilon, 1.0, features=2, **options)
    for seed in range(60):
        kept, free = (
            made.release(X, y, rng=np.random.default_rng(seed), project=p) for p in (True, False)
        )
        far = np.linalg.norm(free) > radius
        expected = radius * free / np.linalg.norm(free) if far else free
        np.testing.assert_allclose(kept, expected, rtol=1e-5)
        outside += far
    assert 6 < outside < 60
