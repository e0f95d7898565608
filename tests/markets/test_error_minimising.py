"""The error-minimising purchase against searches in one and in all dimensions, and against
`procure`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize

from hdpm_lib.markets.error_minimising import error_minimising
from hdpm_lib.markets.procurement import procure
from tests.support import generator

Array = np.ndarray


def markets(number: int, seed: int) -> list[tuple[Array, float, float, float]]:
    """Virtual costs of 1 to 11 sellers, with ties and over decades, and constants over decades."""
    rng = generator(seed)
    found = []
    for _ in range(number):
        psi = np.exp(rng.normal(0, rng.choice([0.01, 1, 2]), int(rng.integers(1, 12))))
        if rng.random() < 0.3:
            psi = np.ceil(3 * psi)
        found.append((psi, *np.exp(rng.normal(0, 2, 3)).tolist()))
    return found


def objective(
    weights: Array, eta: Any, psi: Array, variance: float, noise: float, gamma: float
) -> Array:
    """What is minimised."""
    return variance * (weights**2).sum(-1) + noise / eta**2 + gamma * eta * (weights @ psi)


def by_threshold(psi: Array, variance: float, noise: float, gamma: float) -> float:
    """Least loss over 2,000 thresholds, then a bounded search between the best one's neighbours."""

    def loss(log: Any) -> Array:
        a = np.maximum(psi.min() + np.exp(log)[..., None] - psi, 0)
        a = a / a.sum(-1, keepdims=True)
        return objective(a, np.cbrt(2 * noise / (gamma * a @ psi)), psi, variance, noise, gamma)

    grid = np.log(np.geomspace(1e-9, 1e9, 2000) * psi.max())
    j = int(np.argmin(loss(grid)))
    ends = grid[max(j - 1, 0)], grid[min(j + 1, len(grid) - 1)]
    found = optimize.minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": 1e-12})
    return float(min(found.fun, loss(grid[j])))


def test_no_threshold_does_better() -> None:
    rng = generator(1722)
    two_minima = [  # a few nearly free sellers and a few dear ones
        (np.r_[rng.uniform(0.001, 0.05, 3), rng.uniform(0.9, 1.1, 2)], 1.0, 1.0, gamma)
        for gamma in np.geomspace(1e-4, 10, 200)
    ]
    for psi, variance, noise, gamma in markets(40, 1720) + two_minima:
        best = error_minimising(psi, variance, noise, gamma)
        stated = objective(best.weights, float(best.eta), psi, variance, noise, gamma)
        assert best.error == pytest.approx(
            stated, rel=1e-12
        ) and best.weights.sum() == pytest.approx(1, rel=1e-12)
        assert best.cost == pytest.approx(best.privacy_loss @ psi, rel=1e-12)
        assert best.error <= by_threshold(psi, variance, noise, gamma) * (1 + 1e-9)


def test_no_descent_from_eight_starts_does_better() -> None:
    """BFGS over logarithms of the losses, a problem without the path's form."""
    rng = generator(1705)
    for psi, *constants in markets(6, 1721):
        best = error_minimising(psi, *constants)

        def loss(logs: Array, psi: Array, *constants: float) -> float:
            eps = np.exp(np.clip(logs, -300, 300))
            return float(objective(eps / eps.sum(), eps.sum(), psi, *constants))

        starts = [np.log(best.eta / len(psi)) + rng.normal(0, 2, len(psi)) for _ in range(8)]
        least = min(
            optimize.minimize(loss, start, args=(psi, *constants), method="BFGS").fun
            for start in starts
        )
        assert best.error <= least * (1 + 1e-9)


@pytest.mark.parametrize("n", [3, 300])
def test_it_is_the_fixed_point_of_procure(n: int) -> None:
    rng = generator(1706, n)
    psi = rng.uniform(1, 9, n)
    variance = 1 / 12
    noise = 2.0
    gamma = 0.3 / n**2
    weights = np.full(n, 1 / n)
    eta = float(n)
    for _ in range(1000):
        step = procure(psi, 2 * variance * float(np.linalg.norm(weights)), 2 * noise / eta, gamma)
        weights = step.weights
        eta = step.eta
    best = error_minimising(psi, variance, noise, gamma)
    np.testing.assert_allclose(best.weights, weights, atol=1e-9)
    assert best.eta == pytest.approx(eta, rel=1e-9)


def test_a_batch_is_its_markets() -> None:
    psi = generator(1707).uniform(0.1, 5, (2, 3, 6))
    batch = error_minimising(psi, 0.3, 1.5, 0.01)
    for i in np.ndindex(2, 3):
        one = error_minimising(psi[i], 0.3, 1.5, 0.01)
        np.testing.assert_allclose(batch.privacy_loss[i], one.privacy_loss, rtol=1e-12, atol=1e-15)
    with pytest.raises(ValueError, match="at least one seller"):
        error_minimising(1.0, 1.0, 1.0, 1.0)


def test_losses_never_rise_in_the_own_cost() -> None:
    """What truthful payments need: 60 reports of each of four sellers."""
    psi = np.array([1.0, 1.5, 2.0, 4.0])
    for i in range(4):
        profiles = np.tile(psi, (60, 1))
        profiles[:, i] = np.geomspace(0.05, 40, 60)
        assert (
            np.diff(error_minimising(profiles, 0.1, 2.0, 0.02).privacy_loss[:, i]) <= 1e-12
        ).all()


@pytest.mark.parametrize("scale", [1e-40, 1e-10, 1e10, 1e40])
def test_it_is_free_of_units(scale: float) -> None:
    psi = np.array([1.0, 1.2, 3.0])
    plain = error_minimising(psi, 0.2, 3.0, 0.1)
    scaled = error_minimising(psi * scale, 0.2, 3.0, 0.1 / scale)
    np.testing.assert_allclose(plain.privacy_loss, scaled.privacy_loss, rtol=1e-9)
