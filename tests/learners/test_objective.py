"""Objective perturbation: the exact solver against scikit-learn and SciPy, the slack against a
grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from hdpm_book.logistic.formulas import perturbed_objective, printed_slack
from hdpm_lib.learners import minimiser, objective
from hdpm_lib.learners.objective import (
    eta_within,
    objective_perturbation,
    sharp_slack,
    weighted_logistic,
)
from hdpm_lib.noise import spherical_laplace
from hdpm_lib.validation import FALSE_ALARM
from tests.support import generator


def records(m: int, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.standard_normal((m, n))
    X *= (rng.random((m, 1)) ** (1 / n)) / np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.sign(X @ rng.standard_normal(n) + 0.3 * rng.standard_normal(m))


Problem = tuple[np.ndarray, np.ndarray, np.ndarray, float]  # features, labels, weights, penalty


def gradient(problem: Problem, w: np.ndarray, noise: np.ndarray) -> np.ndarray:
    X, y, weights, penalty = problem
    signed = y[:, None] * X
    return noise + penalty * w - (weights * expit(-w @ signed.T)) @ signed


# --- the minimiser ------------------------------------------------------------------------------


def settles(problem: Problem, noise: np.ndarray, rounding: float) -> bool:
    """Whether slopes at the minimisers are as small as promised, or the rounding of their digits: a
    part in so many.
    """
    w = weighted_logistic(*problem, noise)
    slope = np.linalg.norm(gradient(problem, w, noise), axis=1)
    allowed = 1.01e-10 * np.maximum(1, np.linalg.norm(noise, axis=1)) + rounding * np.linalg.norm(
        w, axis=1
    )
    return bool((slope <= allowed).all())


@pytest.mark.parametrize("n", [1, 2, 7, 30, 31])
def test_minimiser_of_extreme_problems_settles(n: int) -> None:
    rng = generator(60, n)
    X, y = records(80, n, rng)
    for _ in range(60):
        weights = rng.dirichlet(np.full(80, 10 ** rng.uniform(-2, 1)))
        eta = 10 ** rng.uniform(-4, 6)
        problem = X, y, weights, 10 ** rng.uniform(-8, 2)
        # margins in another order
        assert settles(problem, spherical_laplace(n, eta / 2, rng=rng, size=5), 1e-15)


@pytest.mark.filterwarnings("error")
def test_minimiser_in_the_worst_conditions_settles() -> None:
    """Penalties down to 1e-20, noise up to 1e8, repeated and empty records, weights on few: no
    error, no waste.
    """
    rng = generator(68)
    for k in range(600):
        m = rng.integers(1, 12)
        n = rng.integers(1, 9)
        X, y = records(m, n, rng)
        X = [X, X[:1].repeat(m, 0), 0 * X, X * (np.arange(n) > 0)][k % 4]
        weights = np.eye(m)[0] if k % 3 else rng.dirichlet(np.full(m, 10 ** rng.uniform(-2, 1)))
        penalty = 10 ** rng.uniform(-20, 2)
        noise = spherical_laplace(n, 10 ** rng.uniform(-7, 5), rng=rng, size=3)
        problem = X, y if k % 5 else 0 * y + 1, weights, penalty
        # of w, times the curvature
        assert settles(problem, noise, 1e-14 * n * (penalty + weights.sum() / 4))


def test_minimiser_agrees_with_scikit_learn_and_scipy() -> None:
    rng = generator(61)
    for n in (1, 4, 10):
        X, y = records(120, n, rng)
        weights = rng.dirichlet(np.ones(120))
        penalty = 10 ** rng.uniform(-3, 0)
        problem = X, y, weights, penalty
        peer = LogisticRegression(C=1 / penalty, fit_intercept=False, tol=1e-12, max_iter=10_000)
        peer.fit(X, y, sample_weight=weights)
        assert np.allclose(weighted_logistic(*problem), peer.coef_[0], atol=1e-5)
        noise = spherical_laplace(n, 5.0, rng=rng)
        found = weighted_logistic(*problem, noise)
        objective = partial(perturbed_objective, *problem)
        there = optimize.minimize(objective, np.zeros(n), args=(noise,), tol=1e-12)
        assert objective(found, noise) <= there.fun + 1e-12
        assert np.allclose(found, there.x, rtol=1e-3, atol=1e-3)


def test_objective_is_the_printed_one() -> None:
    rng = generator(62)
    X, y = records(5, 3, rng)
    a = rng.random(5)
    w = rng.standard_normal(3)
    b = rng.standard_normal(3)
    losses = [a[i] * math.log(1 + math.exp(-y[i] * (w @ X[i]))) for i in range(5)]
    printed = sum(losses) + b @ w + 0.35 * (w @ w)
    assert perturbed_objective(X, y, a, 0.7, w, b) == pytest.approx(printed)


def test_batches_chunks_and_zero_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = generator(63)
    X, y = records(40, 3, rng)
    weights = np.where(np.arange(40) < 30, 1 / 30, 0)
    minimise = partial(weighted_logistic, y=y, weights=weights, penalty=0.1)
    noise = spherical_laplace(3, 2.5, rng=rng, size=(4, 6))
    together = minimise(X, noise=noise)
    assert together.shape == (4, 6, 3)
    several = rng.dirichlet(np.ones(40), (4, 6)) * (rng.random((4, 6, 40)) < 0.5)
    each = objective.minimisers(X, y, several, 0.1, noise)  # a row of weights for each of noise
    for at in np.ndindex(4, 6):
        alone = weighted_logistic(X, y, several[at], 0.1, noise[at])
        np.testing.assert_allclose(each[at], alone, atol=1e-9)
    monkeypatch.setattr(objective, "CHUNK", 1)
    assert np.allclose(minimise(X, noise=noise), together, atol=1e-9)
    assert np.allclose(objective.minimisers(X, y, several, 0.1, noise), each, atol=1e-9)
    changed = X.copy()
    changed[35] *= -0.5  # a record of weight 0 moves nothing
    assert np.array_equal(minimise(changed, noise=noise), minimise(X, noise=noise))
    model = objective_perturbation(weights, 5.0, 0.1, features=3)
    assert model.release(X, y, rng=rng, size=0).shape == (0, 3)


def test_minimiser_from_anywhere_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """And out of steps it gives what it has: whether a release fails must not depend on the
    records.
    """
    minimise = partial(weighted_logistic, *records(40, 3, generator(70)), np.full(40, 1 / 40), 0.1)
    noise = spherical_laplace(3, 2.5, rng=generator(70), size=4)
    for start in (1.0, [1e6, -1e6, 1e3], 10 * noise):
        np.testing.assert_allclose(minimise(noise, start), minimise(noise), atol=1e-8)
    monkeypatch.setattr(minimiser, "NEWTON_STEPS", 1)
    assert np.isfinite(minimise(noise, 1e3)).all()


def test_noise_part_to_the_last_digit() -> None:
    weights = np.array([0.2, 0.3, 0.5])
    model = objective_perturbation(weights, 0.7, 3.0, features=3)
    assert model.epsilon.dtype == model.privacy_loss.dtype == np.float64
    # no slack here
    assert (model.epsilon == weights * 0.7).all() and (model.privacy_loss == model.epsilon).all()


# --- the slack ----------------------------------------------------------------------------------


def test_slack_is_the_maximum_over_a_grid() -> None:
    rng = generator(66)
    q = np.linspace(0, 1, 20_001)
    eps = 10 ** rng.uniform(-4, 2, 400)
    rho = 10 ** rng.uniform(-4, 4, 400)
    grid = (np.log1p(rho[:, None] * q * (1 - q)) - eps[:, None] / 2 * q).max(axis=1)
    slack = sharp_slack(eps, rho, 1.0)
    assert (slack >= grid - 1e-12).all() and np.abs(slack - grid).max() < 1e-4
    assert ((slack == 0) == (rho <= eps / 2)).all()
    assert (slack <= np.log1p(rho / 4) + 1e-15).all()
    assert (np.log1p(rho / 4) <= printed_slack(rho, 1.0)).all()
    assert sharp_slack(0.0, 0.0, 1.0) == 0


def test_eta_keeps_every_promise_and_no_larger_one_does() -> None:
    rng = generator(67)
    below = 0
    for _ in range(100):
        eps = rng.uniform(0.1, 5, 20)
        weights = eps / eps.sum()
        penalty = 10 ** rng.uniform(-1.8, 0)
        eta = eta_within(eps, weights, penalty)
        below += eta < eps.sum() * (1 - 1e-9)

        def excess(
            rate: float, a: np.ndarray = weights, lam: float = penalty, eps: np.ndarray = eps
        ) -> float:
            return float((a * rate + sharp_slack(a * rate, a, lam) - eps).max())

        assert excess(eta) <= 1e-14
        assert excess(eta * (1 + 1e-6)) > 0
        assert eta == pytest.approx(eps.sum(), rel=1e-12) or eta * penalty < 2
    assert below > 5  # the slack did matter
    assert eta_within([1.0, 0.0], [1.0, 0.0], 1.0) == eta_within([1.0], [1.0], 1.0)
    # exp(epsilon) is beyond floating point
    assert eta_within([800.0, 3000.0], [0.2, 0.8], 1.0) == 3750.0


# --- bad input ----------------------------------------------------------------------------------

X2 = np.array([[0.6, 0.0], [0.0, 0.8]])
Y2 = np.array([1.0, -1.0])
NEEDED = 0.5 / (4 * math.expm1(0.2))


def made(X: Any = X2, y: Any = Y2, weights: Any = (0.5, 0.5)) -> np.ndarray:
    model = objective_perturbation(weights, 1.0, 0.1, features=2)
    return model.release(X, y, rng=generator())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: made(X=[[0.6, 0.9], [0.0, 0.8]]),
            "norm at most 1: scale by public bounds .Schema, over its",
        ),
        (
            lambda: made(y=[1.0, 0.0]),
            "y must hold no label but -1 and 1: recode the two classes, or clip",
        ),
        (lambda: made(X2[:1], Y2[:1]), r"^X must have shape \(2, 2\), the .* got \(1, 2\)$"),
        (lambda: made(X2[:, :1]), r"^X must have shape \(2, 2\), the .* got \(2, 1\)$"),
        (lambda: made(y=Y2[:1]), "X has 2 records and y has 1"),
        (lambda: made(weights=[0.0, 0.0]), "not all 0"),
        (
            lambda: weighted_logistic(X2, Y2, [0.5, 0.5], 0.1, [np.nan, 0.0]),
            "noise must be finite, of shape",
        ),
        (lambda: weighted_logistic(X2, Y2, [1.0], 0.1), "weights has 1 entries for 2 records"),
        (
            lambda: eta_within([0.0, 1.0], [0.5, 0.5], 1.0),
            r"epsilon\[0\] = 0.0 allows no positive weight",
        ),
        (lambda: eta_within([1.0, 1.0], [0.0, 0.0], 1.0), "not all 0"),
        (lambda: eta_within([0.2, 0.9], [0.5, 0.5], NEEDED * 0.999), f"must exceed {NEEDED:.6g}"),
    ],
)
def test_bad_input(call: Callable[[], Any], message: str) -> None:
    assert eta_within([0.2, 0.9], [0.5, 0.5], NEEDED * 1.001) > 0
    with pytest.raises(ValueError, match=message):
        call()


def test_records_of_zero_move_as_far_as_the_noise_can() -> None:
    """There the bound on the noise's effect is attained, in root mean square and at a quantile."""
    given: dict[str, Any] = {"weights": [0.5, 0.5], "eta": 3.0, "penalty": 0.7}
    made = objective_perturbation(**given, features=3, arithmetic="ideal")
    drawn = made.release(np.zeros((2, 3)), [1, -1], rng=generator(427), size=20_000)
    length = np.linalg.norm(drawn, axis=1)
    assert np.sqrt((length**2).mean()) == pytest.approx(made.noise_sd, rel=0.03)
    for level in (0.5, 0.95):
        low, high = stats.binom.interval(1 - FALSE_ALARM / 2, 20_000, level)
        assert low <= (length <= made.noise_margin(level)).sum() <= high
