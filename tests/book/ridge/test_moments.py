"""Exact moments under spherical Laplace noise: of quadratic forms, and of the squared loss."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import special

from hdpm_book.ridge.moments import QuadraticLoss, quadratic_form_moments
from hdpm_lib.noise import norm_law
from tests.support import generator


def records(d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Test records and an estimate far from their best one."""
    rng = generator(41, d)
    return rng.random((25, d)), rng.uniform(-1, 1, 25), rng.standard_normal(d)


def by_quadrature(
    values: Callable[[np.ndarray], np.ndarray], d: int, rate: float
) -> tuple[float, float]:
    """Mean and variance of a quadratic in one or two dimensions: sums over radii and angles that
    are exact.

    Gauss and Laguerre's, as powers of a quadratic are polynomials in the radius, and trigonometric
    ones in the angle.
    """
    radii, weights = special.roots_genlaguerre(5, d - 1)
    angles = np.array([0.0, math.pi]) if d == 1 else np.arange(16) * 2 * math.pi / 16
    u = np.stack([np.cos(angles), np.sin(angles)], axis=-1)[:, :d]
    at = values(radii[:, None, None] / rate * u)
    mean, second = (weights @ (at**k).mean(1) / weights.sum() for k in (1, 2))
    return mean, second - mean**2


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("rate", [0.3, 4.0])
@pytest.mark.parametrize("penalty", [0.0, 0.7])
def test_moments_by_quadrature(d: int, rate: float, penalty: float) -> None:
    """Of a quadratic form, and of the squared loss record by record."""
    rng = generator(5, d)
    half = rng.standard_normal((d, d))
    linear = rng.standard_normal(d)
    matrix = half + half.T + 4 * np.eye(d)
    found = quadratic_form_moments(matrix, linear, rate)

    def known(z):
        return ((z @ matrix) * z).sum(-1) + z @ linear

    np.testing.assert_allclose(
        [found.mean, found.std**2], by_quadrature(known, d, rate), rtol=1e-11
    )
    X, y, theta = records(d)
    found = QuadraticLoss.of(X, y).under_noise(theta, rate, penalty)

    def loss(z: np.ndarray) -> np.ndarray:
        return np.square(y - (theta + z) @ X.T).mean(-1) + penalty * np.square(theta + z).sum(-1)

    np.testing.assert_allclose(
        [found.mean, found.variance], by_quadrature(loss, d, rate), rtol=1e-10
    )


@pytest.mark.parametrize("d", [1, 2, 12, 30])
def test_known_moments(d: int) -> None:
    """The norm is a Gamma variable, whose moments SciPy knows; those of a uniform direction are
    classical.
    """
    square = norm_law(d, 2.5).moment(2)
    fourth = norm_law(d, 2.5).moment(4)
    first = np.eye(d)[0]
    none = np.zeros((d, d))
    for matrix, linear, mean, second in (
        (np.eye(d), 0 * first, square, fourth),
        (np.outer(first, first), 0 * first, square / d, 3 * fourth / (d * (d + 2))),
        (none, first, 0.0, square / d),
    ):
        found = quadratic_form_moments(matrix, linear, 2.5)
        assert (found.mean, found.variance) == (
            pytest.approx(mean),
            pytest.approx(second - mean**2),
        )


def test_loss_of_batches() -> None:
    """Each as by itself: the mean squared error, with noise or without."""
    X, y, _ = records(3)
    loss = QuadraticLoss.of(X, y)
    thetas = generator(42).standard_normal((4, 5, 3))
    penalties = np.arange(5) / 3
    rates = np.linspace(0.5, 4, 5)
    found = loss(thetas, penalties)
    noisy = loss.under_noise(thetas, rates, penalties)
    assert found.shape == noisy.mean.shape == noisy.variance.shape == (4, 5)
    for i, j in np.ndindex(4, 5):
        theta = thetas[i, j]
        assert found[i, j] == pytest.approx(((y - X @ theta) ** 2).mean() + j / 3 * theta @ theta)
        one = loss.under_noise(theta, rates[j], penalties[j])
        assert (noisy.mean[i, j], noisy.variance[i, j]) == (
            pytest.approx(one.mean),
            pytest.approx(one.variance),
        )
