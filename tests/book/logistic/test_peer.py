"""The two searches for the optimal procurement: known answers, each other, other solvers, and the exact solver.

`objections` says what is wrong with weights and a rate, from the proxy loss alone; mutants show that it can object.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from hdpm_book.logistic import peer
from hdpm_book.logistic.joint_objective import water_filling
from hdpm_book.logistic.peer import Searched, conic_search, count_minima, gradient_and_grid, proxy_loss
from hdpm_lib.markets.procurement import procure
from tests.support import generator

Market = tuple[np.ndarray, tuple[float, float, float], float | None]  # virtual costs; mu, sigma, gamma; cap
CLUSTER = np.append(0.001, np.ones(200))  # one cheap seller and a crowd: two local minima at (1, 1, 0.01)


def markets(rng: np.random.Generator, count: int, largest: int = 40, capped: bool = False) -> Iterator[Market]:
    """Random markets: spread out, crowded, with ties, or with a few cheap sellers beside a crowd."""
    for k in range(count):
        m = int(rng.integers(1, largest + 1))
        psi = [
            rng.uniform(0.01, 2, m),
            rng.exponential(1, m) + 1e-3,
            rng.choice([0.3, 1.0, 4.0], m),
            np.where(rng.random(m) < 0.1, rng.uniform(0.001, 0.01, m), rng.uniform(0.9, 1.1, m)),
        ][k % 4]
        cap = min(float(rng.uniform(1, 5)) / m, 1.0) if capped else None
        mu, sigma, gamma = 10 ** rng.uniform(-1.5, 1.5, 3)
        yield psi, (float(mu), float(sigma), float(gamma)), cap


def objections(found: Searched, market: Market, tolerance: float = 1e-4) -> list[str]:
    """What is wrong: weights, the loss, its local minima, or a feasible direction along which the loss falls."""
    psi, scale, cap = market
    a, top = found.weights, 1.0 if cap is None else cap
    mu, sigma, gamma = scale
    slope = mu * a / np.linalg.norm(a) + gamma * found.eta * psi
    bought, room = a > 1e-3 * a.max(), a < top * (1 - 1e-6)  # weight can be taken from these, and given to those
    gain = slope[bought].max() - slope[room].min() if room.any() else 0.0
    along = gamma * found.eta * (a @ psi) - sigma / found.eta
    wrong = {
        "weights": a.shape != psi.shape or (a < 0).any() or (a > top * (1 + 1e-9)).any() or abs(a.sum() - 1) > 1e-9,
        "loss": not math.isclose(found.error, proxy_loss(a, found.eta, psi, *scale), rel_tol=1e-12),
        "weights not stationary": gain > tolerance * slope.max(),
        "rate not stationary": abs(along) > tolerance * sigma / found.eta,
        "minima": len(found.minima) == 0 or found.minima.min() < found.error * (1 - 1e-12),
    }
    return [name for name, bad in wrong.items() if bad]


# --- known answers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2, 7])
@pytest.mark.parametrize("cap", [None, 0.7])
def test_equal_sellers(m: int, cap: float | None) -> None:
    """Equal weights; the rest is one square root. For one seller there is nothing else."""
    if m == 1 and cap is not None:
        return
    mu, sigma, gamma, psi = 2.0, 3.0, 0.5, 0.7
    eta = math.sqrt(sigma / (gamma * psi))
    conic = conic_search(np.full(m, psi), mu, sigma, gamma, cap=cap)
    plain = gradient_and_grid(np.full(m, psi), mu, sigma, gamma, largest_eta=eta, points=3)
    for found in (conic, plain):
        np.testing.assert_allclose(found.weights, 1 / m, atol=1e-7)
        assert found.eta == pytest.approx(eta, rel=1e-6)
        assert found.error == pytest.approx(mu / math.sqrt(m) + 2 * math.sqrt(sigma * gamma * psi), rel=1e-9)


def test_two_sellers_by_one_search() -> None:
    """The two-seller market of the paper's Appendix C as a function of one weight."""
    for mu, gamma in ((1.0, 1.0), (1.0, 0.1), (10.0, 1.0)):
        psi = np.array([0.2, 1.2])

        def loss(x: float, mu: float = mu, gamma: float = gamma, psi: np.ndarray = psi) -> float:
            return mu * math.hypot(x, 1 - x) + 2 * math.sqrt(gamma * (psi @ [x, 1 - x]))

        x = np.linspace(0, 1, 100_001)
        best = x[np.argmin([loss(t) for t in x[::100]]) * 100]
        least = optimize.minimize_scalar(loss, bounds=(max(best - 0.01, 0), min(best + 0.01, 1)), method="bounded")
        exact = min(least.fun, loss(0.0), loss(1.0))
        found = conic_search(psi, mu, 1.0, gamma)
        assert found.error == pytest.approx(exact, rel=1e-9)


def test_no_random_start_of_another_solver_is_better() -> None:
    rng = generator(602)
    for capped in (False, True):
        for psi, scale, cap in markets(rng, 8, largest=6, capped=capped):
            m, found = len(psi), conic_search(psi, *scale, cap=cap, starts=32)
            for _ in range(4):
                other = optimize.minimize(
                    lambda z, psi=psi, scale=scale: float(proxy_loss(z[:-1], np.exp(z[-1]), psi, *scale)),
                    np.append(rng.dirichlet(np.ones(m)), np.log(found.eta) + rng.normal()),
                    bounds=[(0, cap or 1)] * m + [(None, None)],
                    constraints={"type": "eq", "fun": lambda z: z[:-1].sum() - 1},
                    method="SLSQP",
                    options={"ftol": 1e-13, "maxiter": 500},
                )
                a = water_filling(-other.x[:-1], 1.0, cap)
                assert found.error <= proxy_loss(a, np.exp(other.x[-1]), psi, *scale) * (1 + 1e-8)


# --- stationarity, several minima, mutants ----------------------------------------------------------------------------


@pytest.mark.parametrize("capped", [False, True])
def test_conic_search_is_stationary(capped: bool) -> None:
    for market in markets(generator(603), 40, capped=capped):
        found = conic_search(market[0], *market[1], cap=market[2])
        assert objections(found, market) == []


def test_gradient_at_the_right_rate() -> None:
    """With the best rate on the grid the descent finds the weights; off the grid, the grid is the error."""
    for k, market in enumerate(markets(generator(604), 40)):
        psi, scale, _ = market
        best = procure(psi, *scale)
        found = gradient_and_grid(psi, *scale, largest_eta=best.eta, points=1)
        assert objections(found, market) == []
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


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (lambda f: Searched(f.weights * 1.01, f.eta, f.error, f.minima), "weights"),
        (lambda f: Searched(f.weights, f.eta * 1.01, f.error, f.minima), "rate not stationary"),
        (lambda f: Searched(f.weights, f.eta, f.error * 0.99, f.minima), "loss"),
        (lambda f: Searched(f.weights[::-1], f.eta, f.error, f.minima), "weights not stationary"),
        (lambda f: Searched(f.weights, f.eta, f.error, f.minima * 0.9), "minima"),
    ],
)
def test_wrong_result_is_caught(wrong: Any, complaint: str) -> None:
    market: Market = np.array([0.2, 0.5, 1.2]), (1.0, 1.0, 0.1), None
    found = conic_search(market[0], *market[1])
    assert objections(found, market) == [] and complaint in objections(wrong(found), market)


@pytest.mark.parametrize("name", ["water_filling", "_conic_program"])
def test_broken_search_is_caught(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A projection without signs, as the paper's Algorithm 4 prints its set, and a program with the wrong price."""
    psi, scale = np.array([0.2, 0.5, 1.2, 3.0]), (1.0, 1.0, 0.5)
    program = peer._conic_program
    mutants = {
        "water_filling": lambda levels, _: (levels.sum() + 1) / len(levels) - levels,
        "_conic_program": lambda psi, mu, top: program(psi / 2, mu, top),
    }
    monkeypatch.setattr(peer, name, mutants[name])
    eta = procure(psi, *scale).eta
    try:
        if name == "_conic_program":
            found = conic_search(psi, *scale)
        else:
            found = gradient_and_grid(psi, *scale, largest_eta=eta, points=1)
    except RuntimeWarning as warning:  # without signs the descent runs off
        assert "overflow" in str(warning)
    else:
        assert objections(found, (psi, scale, None)) != []


# --- the exact solver -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capped", [False, True])
def test_exact_solver_agrees(capped: bool) -> None:
    """No instance where the conic solver does better, none where it does worse than it should."""
    several = 0
    for psi, scale, cap in markets(generator(605), 80, capped=capped):
        exact = procure(psi, *scale, cap=cap)
        found = conic_search(psi, *scale, cap=cap, starts=16 if count_minima(psi, *scale, cap=cap) == 1 else 256)
        assert found.error == pytest.approx(exact.error, rel=1e-7)
        assert found.eta == pytest.approx(exact.eta, rel=1e-3)
        several += count_minima(psi, *scale, cap=cap) > 1
    assert several > 0 or capped


# --- errors -----------------------------------------------------------------------------------------------------------


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
