"""The two searches for the optimal procurement: known answers, each other, and the exact solver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from hdpm_book.logistic import peer
from hdpm_book.logistic.peer import conic_search, count_minima, gradient_and_grid, proxy_loss
from hdpm_lib.markets.procurement import procure
from tests.support import generator

Market = tuple[np.ndarray, tuple[float, float, float], float | None]  # virtual costs; mu, sigma, gamma; cap
CLUSTER = np.append(0.001, np.ones(200))  # one cheap seller and a crowd: two local minima at (1, 1, 0.01)


def markets(rng: np.random.Generator, count: int, capped: bool = False) -> Iterator[Market]:
    """Random markets: spread out, crowded, with ties, or with a few cheap sellers beside a crowd."""
    for k in range(count):
        m = int(rng.integers(1, 41))
        psi = [
            rng.uniform(0.01, 2, m),
            rng.exponential(1, m) + 1e-3,
            rng.choice([0.3, 1.0, 4.0], m),
            np.where(rng.random(m) < 0.1, rng.uniform(0.001, 0.01, m), rng.uniform(0.9, 1.1, m)),
        ][k % 4]
        cap = min(float(rng.uniform(1, 5)) / m, 1.0) if capped else None
        mu, sigma, gamma = 10 ** rng.uniform(-1.5, 1.5, 3)
        yield psi, (float(mu), float(sigma), float(gamma)), cap


@pytest.mark.parametrize("capped", [False, True])
def test_exact_solver_agrees(capped: bool) -> None:
    """No instance where the conic solver does better, none where it does worse than it should."""
    several = 0
    for psi, scale, cap in markets(generator(605), 80, capped=capped):
        exact, minima = procure(psi, *scale, cap=cap), count_minima(psi, *scale, cap=cap)
        found = conic_search(psi, *scale, cap=cap, starts=16 if minima == 1 else 256)
        assert found.error == pytest.approx(exact.error, rel=1e-7)
        assert found.eta == pytest.approx(exact.eta, rel=1e-3)
        assert found.error == pytest.approx(proxy_loss(found.weights, found.eta, psi, *scale), rel=1e-12)
        assert found.error == found.minima.min() and found.weights.sum() == pytest.approx(1)
        assert found.weights.min() >= 0 and found.weights.max() <= (cap or 1) * (1 + 1e-9)
        several += minima > 1
    assert several > 0 or capped


def test_gradient_at_the_right_rate() -> None:
    """With the best rate on the grid the descent finds the weights; off the grid, the grid is the error."""
    for k, (psi, scale, _) in enumerate(markets(generator(604), 40)):
        best = procure(psi, *scale)
        found = gradient_and_grid(psi, *scale, largest_eta=best.eta, points=1)
        assert found.error == pytest.approx(best.error, rel=1e-12)
        np.testing.assert_allclose(found.weights, best.weights, atol=1e-8)
        if k < 12:
            coarse, fine = (
                gradient_and_grid(psi, *scale, largest_eta=2.1 * best.eta, points=n).error for n in (20, 200)
            )
            assert best.error * (1 - 1e-12) <= fine <= coarse * (1 + 1e-12)
            assert fine <= best.error * (1 + 1e-3)


def test_several_minima_are_seen() -> None:
    found = conic_search(CLUSTER, 1.0, 1.0, 0.01)
    np.testing.assert_allclose(found.minima, [0.269683, 1.00632], rtol=1e-5)
    assert found.error == found.minima[0]
    other = conic_search(CLUSTER, 1.0, 1.0, 1e-6)  # cheap privacy: the crowd is bought still
    assert other.weights.max() < 0.01
    plain = gradient_and_grid(CLUSTER, 1.0, 1.0, 0.01, largest_eta=400.0, points=400)
    np.testing.assert_allclose(plain.minima, [0.269683, 1.00632], rtol=1e-4)


def test_free_privacy() -> None:
    with pytest.raises(ValueError, match="virtual_costs must be positive and finite, got 0"):
        conic_search([0.0, 1.0], 1.0, 1.0, 0.1)
    assert gradient_and_grid([0.0, 1.0], 1.0, 1.0, 0.1, largest_eta=5.0).error > 1  # a grid does not mind


def test_solver_that_gives_up_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "ITERATIONS", 1)
    with pytest.raises(RuntimeError, match="has not settled after 1 steps"):
        gradient_and_grid([0.2, 1.2], 1.0, 1.0, 0.1, largest_eta=10.0)

    class Lost:
        def __init__(self, *_: Any) -> None: ...

        def solve(self) -> Any:
            return type("Solution", (), {"status": "NumericalError"})()

    monkeypatch.setattr(peer.clarabel, "DefaultSolver", Lost)
    with pytest.raises(RuntimeError, match="stopped with status NumericalError"):
        conic_search([0.2, 1.2], 1.0, 1.0, 0.1)
