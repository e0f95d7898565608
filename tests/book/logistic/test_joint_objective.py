"""The joint objective and its solvers, of the module and of the page: derivatives against
differences, exact steps by conditions of optimality.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from hdpm_book.logistic import joint_objective as joint
from hdpm_book.logistic.joint_objective import (
    JointObjective,
    alternate,
    joint_objective,
    water_filling,
)
from hdpm_book.records import page_functions
from tests.support import generator, refusals

LOOKS_AT = ["book/logistic/joint.md"]
PAGE = page_functions("logistic/joint", "F", "gradient", "hessian", "best_eta", "alternate")
PARAMETERS = {"penalty": 0.3, "mu": 0.4, "sigma": 3.0, "gamma": 0.2}


def instance(rng: np.random.Generator, m: int = 6, n: int = 2, **options: Any) -> JointObjective:
    X = rng.normal(size=(m, n))
    X /= np.linalg.norm(X, axis=1).max()
    y = np.r_[1.0, -1.0, rng.choice([-1.0, 1.0], m - 2)]
    return joint_objective(X, y, rng.normal(size=n), rng.random(m), **(PARAMETERS | options))


def point(rng: np.random.Generator, f: JointObjective) -> tuple[np.ndarray, np.ndarray, float]:
    m, n = f.X.shape
    return rng.normal(size=n), (1 / m + rng.dirichlet(np.ones(m))) / 2, float(rng.uniform(0.5, 5))


def plain_value(f: JointObjective, w: np.ndarray, a: np.ndarray, eta: float) -> float:
    """The printed sum, term by term."""
    total = f.penalty / 2 * float(w @ w) + 2 * float(f.unit_noise @ w) / eta + f.sigma / eta
    total += f.mu * np.sqrt(sum(x**2 for x in a)) ** (2 if f.squared else 1)
    for x, label, share, price in zip(f.X, f.y, a, f.virtual_costs, strict=True):
        total += (
            share * np.log(1 + np.exp(-label * float(w @ x)))
            + f.gamma * price * (share * eta) ** f.power
        )
    return float(total)


def differences(function: Callable[[np.ndarray], Any], at: np.ndarray) -> np.ndarray:
    """Derivatives by central differences."""
    return np.mean([optimize.approx_fprime(at, function, h) for h in (1e-5, -1e-5)], axis=0)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("power", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("key", range(10))
def test_value_and_derivatives(squared: bool, power: float, key: int) -> None:
    """The value, in a batch too, the gradient and, for power 1, both Hessians."""
    rng = generator(52, int(squared), int(2 * power), key)
    f = instance(rng, squared=squared, power=power)
    w, a, eta = point(rng, f)
    n = len(w)
    value = plain_value(f, w, a, eta)
    np.testing.assert_allclose(
        f.value([[w, w]], [[a, a]], [[eta, eta]]), [[value, value]], rtol=0, atol=1e-12
    )
    assert PAGE["F"](f, w, a, eta) == pytest.approx(value, rel=0, abs=1e-12)
    slope = differences(lambda v: plain_value(f, v[:n], v[n:], eta), np.r_[w, a])
    found = np.hstack(PAGE["gradient"](f, w, a, eta))
    np.testing.assert_allclose(found, slope, rtol=0, atol=1e-6)

    def in_weights(v: np.ndarray) -> np.ndarray:
        return np.hstack(PAGE["gradient"](f, v[:n], v[n:], eta))

    def in_logs(v: np.ndarray) -> np.ndarray:
        weights = np.exp(v[n:])
        return in_weights(np.r_[v[:n], weights]) * np.r_[np.ones(n), weights]

    cases = ((False, in_weights, a), (True, in_logs, np.log(a)))
    for logs, function, z in cases if power == 1 else ():
        bend = differences(function, np.r_[w, z])
        error = np.abs(PAGE["hessian"](f, w, a, eta, logs) - bend) / np.maximum(1, np.abs(bend))
        assert error.max() < 1e-5


def kkt_violation(weights: np.ndarray, slope: np.ndarray, cap: float) -> float:
    """How far weights are from least over the capped simplex, by its optimality conditions."""
    feasible = max(abs(weights.sum() - 1), -weights.min(), weights.max() - cap)
    low = slope[weights < cap - 1e-9]
    high = slope[weights > 1e-9]
    return float(max(feasible, high.max() - low.min() if low.size and high.size else 0.0))


def test_water_filling_is_optimal() -> None:
    """With unlike curvatures, as a projection, and that with ties."""
    rng = generator(55)
    for k in range(600):
        m = int(rng.integers(1, 20))
        levels, d = [
            (rng.normal(size=m), 10 ** rng.uniform(-2, 2, m)),
            (rng.normal(size=m) * 10 ** rng.uniform(-2, 2), np.ones(m)),
            (rng.integers(0, 3, m) * 1.0, np.ones(m)),
        ][k % 3]
        cap = None if k % 2 else float(rng.uniform(1 / m, min(4 / m, 1)))
        a = water_filling(levels, d, cap)
        assert kkt_violation(a, levels + d * a, cap or 1.0) < 1e-9 * max(np.abs(levels).max(), 1)
    assert np.allclose(water_filling(np.zeros((3, 4)), 1.0, 0.25), 0.25)


def test_best_weights_of_a_batch_and_without_mu() -> None:
    rng = generator(57)
    f = instance(rng, cap=0.4)
    losses = f.losses(rng.normal(size=(7, 3, 2)))
    eta = rng.uniform(1, 5, (7, 3))
    batch = f.best_weights(losses, eta)
    assert np.allclose(batch[4, 2], f.best_weights(losses[4, 2], eta[4, 2]), atol=1e-12)
    greedy = replace(f, mu=0.0).best_weights(losses, eta)
    nearly = replace(f, mu=1e-9, squared=True).best_weights(losses, eta)
    assert np.allclose(greedy, nearly, atol=1e-6) and np.allclose(greedy.sum(-1), 1)


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0])
def test_best_eta(power: float) -> None:
    rng = generator(59)
    f = instance(rng, power=power, sigma=20.0)
    w, a, _ = point(rng, f)
    eta = PAGE["best_eta"](f, w, a)
    search = optimize.minimize_scalar(
        lambda x: float(f.value(w, a, np.exp(x))), bounds=(-10, 10), method="bounded"
    )
    assert abs(np.log(eta) - search.x) < 1e-3
    beside = [plain_value(f, w, a, eta * k) for k in (1 - 1e-4, 1, 1 + 1e-4)]
    assert min(beside) == beside[1]
    with pytest.raises(ValueError, match="sigma = 20 is too small for penalty"):
        PAGE["best_eta"](f, -20.0 * f.unit_noise / (f.unit_noise @ f.unit_noise), a)
    with pytest.raises(ValueError, match="gamma = 0"):
        PAGE["best_eta"](replace(f, gamma=0.0), w, a)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("power", [1, 2])
def test_alternation_ends_where_every_block_is_optimal(squared: bool, power: int) -> None:
    """With a ball that binds at times, and without; there the gradient points inwards, nothing
    else.
    """
    rng = generator(60, int(squared), power)
    bound = []
    for k in range(12):
        limits = {"cap": (0.3, 0.5, None)[k % 3], "radius": (0.7, None)[k // 6]}
        f = instance(
            rng, squared=squared, power=power, mu=10 ** rng.uniform(-2, 1), sigma=100.0, **limits
        )
        found = PAGE["alternate"](f)
        at = found.coefficients, found.weights
        in_w, in_a = PAGE["gradient"](f, *at, found.eta)
        size = np.linalg.norm(found.coefficients)
        bound.append(f.radius is not None and size > f.radius * (1 - 1e-9))
        assert f.radius is None or size < f.radius * (1 + 1e-9)
        inward = bound[-1] * np.linalg.norm(in_w) * found.coefficients / size
        assert np.linalg.norm(in_w + inward) < 1e-7
        assert found.eta == pytest.approx(PAGE["best_eta"](f, *at), rel=1e-8)
        assert kkt_violation(found.weights, in_a, f.cap) < 1e-7
        assert (np.diff(found.values) <= 1e-12).all()
        assert np.allclose(found.epsilon, found.weights * found.eta)
        ends = [way(f, found.eta).values[-1] for way in (alternate, PAGE["alternate"])]
        assert ends == pytest.approx([found.value] * 2, rel=1e-9)
    assert 0 < sum(bound) < 12, bound


def small(**change: Any) -> JointObjective:
    good: dict[str, Any] = {
        "X": [[1.0], [0.5]],
        "y": [1, -1],
        "unit_noise": [0.2],
        "virtual_costs": [0.1, 0.3],
    }
    return joint_objective(**(good | PARAMETERS | change))


test_what_is_refused = refusals(
    (lambda: small(X=[[2.0], [0.5]]), "X must hold rows of norm at most 1"),
    (lambda: small(unit_noise=[0.2, 0.1]), r"unit_noise has 2 entries, X has the shape \(2, 1\)"),
    (lambda: small(virtual_costs=[0.1]), "virtual_costs has 1 entries"),
    (lambda: small(cap=0.4), r"cap must lie in \[1/m, 1\] = \[0.5, 1\], got 0.4"),
    (lambda: alternate(small(), 1.0, start_weights=[0.5, 0.6]), r"sum to 1, got sum 1.1"),
    (lambda: alternate(small(power=3.0), 1.0), "power 1 and 2 only, got 3"),
    (lambda: alternate(small(radius=1.0), [1.0, 2.0]), r"eta must be one number .* got shape \(2,"),
)


def test_no_endless_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint, "ROUNDS", 1)
    with pytest.raises(RuntimeError, match="did not settle in 1 rounds: the last one moved"):
        alternate(small(), 1.0)
