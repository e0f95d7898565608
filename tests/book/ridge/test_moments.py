"""Exact moments under spherical Laplace noise: of quadratic forms, and of the squared loss."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from hdpm_book.ridge.moments import QuadraticLoss, quadratic_form_moments
from hdpm_lib.noise import norm_law, spherical_laplace
from tests.support import generator, mean_z, objections, z_check


def by_quadrature(matrix: np.ndarray, linear: np.ndarray, rate: float) -> tuple[float, float]:
    """Mean and variance of the quadratic form in one or two dimensions: sums over radii and angles that are exact.

    Gauss and Laguerre's, as powers of a form are polynomials in the radius, and trigonometric ones in the angle.
    """
    d = len(linear)
    radii, weights = special.roots_genlaguerre(5, d - 1)
    angles = np.array([0.0, math.pi]) if d == 1 else np.arange(16) * 2 * math.pi / 16
    u = np.stack([np.cos(angles), np.sin(angles)], axis=-1)[:, :d]
    z = radii[:, None, None] / rate * u
    values = ((z @ matrix) * z).sum(-1) + z @ linear
    mean, second = (weights @ (values**k).mean(1) / weights.sum() for k in (1, 2))
    return mean, second - mean**2


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("rate", [0.3, 4.0])
def test_quadratic_form_by_quadrature(d: int, rate: float) -> None:
    rng = generator(5, d)
    half, linear = rng.standard_normal((d, d)), rng.standard_normal(d)
    matrix = half + half.T + 4 * np.eye(d)
    found = quadratic_form_moments(matrix, linear, rate)
    np.testing.assert_allclose([found.mean, found.std**2], by_quadrature(matrix, linear, rate), rtol=1e-11)


@pytest.mark.parametrize("d", [1, 2, 12, 30])
def test_squared_norm(d: int) -> None:
    """The squared norm is the square of a Gamma variable, whose moments SciPy knows."""
    law, found = norm_law(d, 2.5), quadratic_form_moments(np.eye(d), np.zeros(d), 2.5)
    assert found.mean == pytest.approx(law.moment(2))
    assert found.variance == pytest.approx(law.moment(4) - law.moment(2) ** 2)


# --- the squared loss -------------------------------------------------------------------------------------------------


def records(d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Test records and an estimate far from their best one."""
    rng = generator(41, d)
    return rng.random((25, d)), rng.uniform(-1, 1, 25), rng.standard_normal(d)


def test_loss_of_batches() -> None:
    """Each as by itself: the mean squared error, with noise or without, and the limit of ever less noise."""
    X, y, _ = records(3)
    loss, thetas, penalties = QuadraticLoss.of(X, y), generator(42).standard_normal((4, 5, 3)), np.arange(5) / 3
    rates = np.linspace(0.5, 4, 5)
    found, noisy = loss(thetas, penalties), loss.under_noise(thetas, rates, penalties)
    quiet = loss.under_noise(thetas, 1e12, penalties)
    assert found.shape == noisy.mean.shape == noisy.variance.shape == (4, 5)
    for i, j in np.ndindex(4, 5):
        theta = thetas[i, j]
        assert found[i, j] == pytest.approx(((y - X @ theta) ** 2).mean() + j / 3 * theta @ theta)
        one = loss.under_noise(theta, rates[j], penalties[j])
        assert (noisy.mean[i, j], noisy.variance[i, j]) == (pytest.approx(one.mean), pytest.approx(one.variance))
    assert quiet.mean == pytest.approx(found) and quiet.std == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("penalty", [0.0, 0.7])
@pytest.mark.parametrize("rate", [0.4, 3.0])
def test_loss_in_one_dimension(penalty: float, rate: float) -> None:
    """By quadrature over the Laplace law, and in closed form: a z^2 + g z has variance 20 a^2/r^4 + 2 g^2/r^2."""
    X, y, theta = records(1)
    found = QuadraticLoss.of(X, y).under_noise(theta, rate, penalty)

    def loss(z: float) -> float:
        return float(((y - X[:, 0] * (theta[0] + z)) ** 2).mean() + penalty * (theta[0] + z) ** 2)

    def expectation(power: int, centre: float) -> float:
        law = stats.laplace(scale=1 / rate)
        halves = ((-60 / rate, 0), (0, 60 / rate))
        return sum(
            integrate.quad(lambda z: (loss(z) - centre) ** power * law.pdf(z), *half, epsabs=0, epsrel=1e-11)[0]
            for half in halves
        )

    mean = expectation(1, 0.0)
    assert found.mean == pytest.approx(mean, rel=1e-9)
    assert found.variance == pytest.approx(expectation(2, mean), rel=1e-9)
    a = (X**2).mean() + penalty
    g = 2 * (a * theta[0] - (y * X[:, 0]).mean())
    assert found.mean == pytest.approx(loss(0.0) + 2 * a / rate**2)
    assert found.variance == pytest.approx(20 * a**2 / rate**4 + 2 * g**2 / rate**2)


@pytest.mark.parametrize("d", [12, 30])
@pytest.mark.parametrize("penalty", [0.0, 0.7])
def test_loss_under_noise_by_simulation(d: int, penalty: float) -> None:
    """Closed form against losses of noisy estimates, computed record by record."""
    X, y, theta = records(d)
    n, rate = 100_000, 2.0 * d
    noisy = theta + spherical_laplace(d, rate, rng=generator(43, d), size=n)
    losses = ((y - noisy @ X.T) ** 2).mean(1) + penalty * (noisy**2).sum(1)
    found = QuadraticLoss.of(X, y).under_noise(theta, rate, penalty)
    checks = [z_check("mean", n, float(mean_z(losses, found.mean)), 2)]
    checks.append(z_check("variance", n, float(mean_z((losses - found.mean) ** 2, found.variance)), 2))
    assert objections(checks) == []
