"""The squared loss of a linear model, alone and under noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from hdpm_lib.noise import Moments, QuadraticLoss, spherical_laplace
from tests.support import Check, generator, mean_z, objections, z_check


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
def test_one_dimension(penalty: float, rate: float) -> None:
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


def test_no_noise_is_the_limit_of_large_rates() -> None:
    X, y, theta = records(4)
    loss = QuadraticLoss.of(X, y)
    quiet = loss.under_noise(theta, 1e12, 0.3)
    assert quiet.mean == pytest.approx(loss(theta, 0.3)) and quiet.std == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[1.0], [math.nan]], [0.0, 1.0], "X must be finite, got nan"),
        ([[1.0], [2.0]], [0.0, math.inf], "y must be finite, got inf"),
        ([1.0, 2.0], [0.0, 1.0], "X must have 2 dimension"),
        (np.empty((0, 2)), [], "X is empty"),
    ],
)
def test_bad_records(X: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        QuadraticLoss.of(X, y)


def test_bad_rate() -> None:
    X, y, theta = records(2)
    with pytest.raises(ValueError, match="rate must be positive and finite, got -1"):
        QuadraticLoss.of(X, y).under_noise(theta, -1)


def test_loss_refuses_records_without_labels() -> None:
    with pytest.raises(ValueError, match="X has 4 records and y has 3"):
        QuadraticLoss.of(np.ones((4, 2)), np.ones(3))
