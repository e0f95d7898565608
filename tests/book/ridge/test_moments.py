"""Exact moments under spherical Laplace noise: of quadratic forms, and of the squared loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

from hdpm_book.ridge.moments import Moments, QuadraticLoss, quadratic_form_moments
from hdpm_lib.noise import coordinate_variance, norm_law, spherical_laplace
from tests.support import Check, generator, mean_z, objections, z_check

# --- moments ----------------------------------------------------------------------------------------------------------


def problem(d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    a = rng.standard_normal((d, d))
    return a + a.T + 4 * np.eye(d), rng.standard_normal(d)


def by_quadrature(matrix: np.ndarray, linear: np.ndarray, rate: float) -> Moments:
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
    return Moments(np.array(mean), np.array(second - mean**2))


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("rate", [0.3, 4.0])
def test_quadratic_form_by_quadrature(d: int, rate: float) -> None:
    matrix, linear = problem(d, generator(5, d))
    found, expected = quadratic_form_moments(matrix, linear, rate), by_quadrature(matrix, linear, rate)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-11)
    np.testing.assert_allclose(found.variance, expected.variance, rtol=1e-11)


def test_quadratic_form_of_laplace_noise() -> None:
    """For d = 1, z is Laplace: E z^2 = 2/r^2, E z^4 = 24/r^4, so a z^2 + g z has variance 20 a^2/r^4 + 2 g^2/r^2."""
    a, g, r = 1.7, -0.4, 3.0
    found = quadratic_form_moments([[a]], [g], r)
    assert found.mean == pytest.approx(2 * a / r**2) and found.variance == pytest.approx(
        20 * a**2 / r**4 + 2 * g**2 / r**2
    )
    assert found.std == pytest.approx(math.sqrt(found.variance))
    assert coordinate_variance(1, r) == pytest.approx(stats.laplace(scale=1 / r).var())


@pytest.mark.parametrize("d", [1, 2, 12, 30])
def test_squared_norm(d: int) -> None:
    """The squared norm is the square of a Gamma variable, whose moments SciPy knows."""
    law, found = norm_law(d, 2.5), quadratic_form_moments(np.eye(d), np.zeros(d), 2.5)
    assert found.mean == pytest.approx(law.moment(2)) == pytest.approx(d * coordinate_variance(d, 2.5))
    assert found.variance == pytest.approx(law.moment(4) - law.moment(2) ** 2)


def moment_checks(d: int, n: int, expected: Callable[[Any, Any, Any], Moments]) -> list[Check]:
    rng = generator(6, d)
    matrix, linear = problem(d, rng)
    linear *= 10  # so that the odd part counts in the variance
    z = spherical_laplace(d, 2.0, rng=rng, size=n)
    values = ((z @ matrix) * z).sum(1) + z @ linear
    found = expected(matrix, linear, 2.0)
    return [
        z_check("mean", n, float(mean_z(values, found.mean)), 2),
        z_check("variance", n, float(mean_z((values - found.mean) ** 2, found.variance)), 2),
    ]


@pytest.mark.parametrize("d", [12, 30])
def test_quadratic_form_by_simulation(d: int) -> None:
    assert objections(moment_checks(d, 100_000, quadratic_form_moments)) == []


@pytest.mark.parametrize(
    ("look", "mutant"),
    [
        ("mean", lambda a, g, r: quadratic_form_moments(a + 0.2 * np.eye(len(g)), g, r)),
        ("variance", lambda a, g, r: quadratic_form_moments(a, 0 * g, r)),
        ("variance", lambda a, g, r: quadratic_form_moments(np.diag(np.diag(a)), g, r)),
        ("mean", lambda a, g, r: quadratic_form_moments(a, g, 1.1 * r)),
    ],
)
def test_wrong_moments_are_caught(look: str, mutant: Callable[[Any, Any, Any], Moments]) -> None:
    found = objections(moment_checks(12, 100_000, mutant))
    assert any(line.startswith(look) for line in found), found


def test_quadratic_form_batches() -> None:
    rng = generator(7)
    matrices, linears = zip(*(problem(4, rng) for _ in range(6)), strict=True)
    rates = rng.uniform(0.1, 9, 6)
    batch = quadratic_form_moments(
        np.reshape(matrices, (2, 3, 4, 4)), np.reshape(linears, (2, 3, 4)), rates.reshape(2, 3)
    )
    each = [quadratic_form_moments(a, g, r) for a, g, r in zip(matrices, linears, rates, strict=True)]
    assert batch.mean.shape == batch.variance.shape == (2, 3)
    np.testing.assert_allclose(batch.mean.ravel(), [m.mean for m in each], rtol=1e-13)
    np.testing.assert_allclose(batch.std.ravel(), [m.std for m in each], rtol=1e-13)
    shared = quadratic_form_moments(matrices[0], linears[0], rates)
    np.testing.assert_allclose(shared.mean[2], quadratic_form_moments(matrices[0], linears[0], rates[2]).mean)


# --- the squared loss -------------------------------------------------------------------------------------------------


def records(d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Test records and an estimate far from their best one."""
    rng = generator(41, d)
    return rng.random((25, d)), rng.uniform(-1, 1, 25), rng.standard_normal(d)


@pytest.mark.parametrize("d", [1, 2, 12, 30])
@pytest.mark.parametrize("penalty", [0.0, 0.7])
def test_loss_is_the_mean_squared_error(d: int, penalty: float) -> None:
    X, y, theta = records(d)
    direct = np.mean([(label - row @ theta) ** 2 for row, label in zip(X, y, strict=True)]) + penalty * theta @ theta
    assert QuadraticLoss.of(X, y)(theta, penalty) == pytest.approx(direct, rel=1e-12)
    assert QuadraticLoss.of(X, y)(np.zeros(d)) == pytest.approx((y**2).mean())
    assert QuadraticLoss.of(2 * X, y)(theta, penalty) != pytest.approx(direct, rel=1e-6)
    assert QuadraticLoss.of(X, -y)(theta, penalty) != pytest.approx(direct, rel=1e-6)


def test_loss_of_batches() -> None:
    X, y, _ = records(3)
    loss, thetas, penalties = QuadraticLoss.of(X, y), generator(42).standard_normal((4, 5, 3)), np.arange(5) / 3
    rates = np.linspace(0.5, 4, 5)
    found, noisy = loss(thetas, penalties), loss.under_noise(thetas, rates, penalties)
    assert found.shape == noisy.mean.shape == noisy.variance.shape == (4, 5)
    for i, j in np.ndindex(4, 5):
        assert found[i, j] == pytest.approx(((y - X @ thetas[i, j]) ** 2).mean() + j / 3 * thetas[i, j] @ thetas[i, j])
        one = loss.under_noise(thetas[i, j], rates[j], penalties[j])
        assert (noisy.mean[i, j], noisy.variance[i, j]) == (pytest.approx(one.mean), pytest.approx(one.variance))


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


Law = Callable[[QuadraticLoss, np.ndarray, float, float], Moments]


def noise_checks(d: int, penalty: float, under_noise: Law = QuadraticLoss.under_noise, n: int = 100_000) -> list[Check]:
    """Closed form against losses of noisy estimates, computed record by record."""
    X, y, theta = records(d)
    rate = 2.0 * d
    noisy = theta + spherical_laplace(d, rate, rng=generator(43, d), size=n)
    losses = ((y - noisy @ X.T) ** 2).mean(1) + penalty * (noisy**2).sum(1)
    found = under_noise(QuadraticLoss.of(X, y), theta, rate, penalty)
    name = f"d={d}, penalty={penalty}"
    return [
        z_check(f"{name}, mean", n, float(mean_z(losses, found.mean)), 2),
        z_check(f"{name}, variance", n, float(mean_z((losses - found.mean) ** 2, found.variance)), 2),
    ]


@pytest.mark.parametrize("d", [12, 30])
@pytest.mark.parametrize("penalty", [0.0, 0.7])
def test_loss_under_noise_by_simulation(d: int, penalty: float) -> None:
    assert objections(noise_checks(d, penalty)) == []


@pytest.mark.parametrize(
    ("look", "mutant"),
    [
        ("mean", lambda loss, t, r, p: loss.under_noise(t, r, 0.0)),  # penalty lost
        ("variance", lambda loss, t, r, p: loss.under_noise(0 * t, r, p)),  # the gradient of another estimate
        ("mean", lambda loss, t, r, p: Moments(loss(t, p), loss.under_noise(t, r, p).variance)),  # noise lost
        ("variance", lambda loss, t, r, p: loss.under_noise(t, 1.1 * r, p)),  # noise 10 % small
        (
            "mean",  # iid Laplace: covariance 2/r^2
            lambda loss, t, r, p: Moments(
                loss(t, p) + 2 * (np.trace(loss.second) + len(t) * p) / r**2, loss.under_noise(t, r, p).variance
            ),
        ),
    ],
)
def test_wrong_closed_form_is_caught(look: str, mutant: Law) -> None:
    found = objections(noise_checks(12, 0.7, mutant))
    assert any(f", {look}:" in line for line in found), found


def test_loss_without_noise_is_the_limit_of_large_rates() -> None:
    X, y, theta = records(4)
    loss = QuadraticLoss.of(X, y)
    quiet = loss.under_noise(theta, 1e12, 0.3)
    assert quiet.mean == pytest.approx(loss(theta, 0.3)) and quiet.std == pytest.approx(0, abs=1e-9)
