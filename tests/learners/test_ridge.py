"""Ridge regression with personal privacy losses: the fit, the bounds that set its noise, and what
it refuses.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from scipy import optimize
from sklearn.linear_model import Ridge

from hdpm_lib.learners import ridge
from hdpm_lib.learners.ridge import (
    estimate_norm_bound,
    output_perturbation,
    project_on_ball,
    sensitivity_constant,
    weighted_ridge,
)
from tests.support import generator

BOUNDS: tuple[ridge.Bound, ...] = ("paper", "sharp")


def data(n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features and labels inside the bounds, the last feature an intercept, and privacy losses."""
    X = np.column_stack([rng.random((n, d - 1)), np.ones(n)])
    return X, rng.uniform(-1, 1, n), rng.uniform(0.05, 2, n)


# --- the fit ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 5), (4, 4), (30, 3), (80, 30), (1070, 12)])
@pytest.mark.parametrize("penalty", [0.01, 1.0, 100.0])
def test_fit_is_that_of_scikit_learn(n: int, d: int, penalty: float) -> None:
    X, y, epsilon = data(n, d, generator(21, n, d))
    weights = epsilon / epsilon.sum()
    expected = (
        Ridge(alpha=penalty, fit_intercept=False, solver="svd")
        .fit(X, y, sample_weight=weights)
        .coef_
    )
    np.testing.assert_allclose(
        weighted_ridge(X, y, weights, penalty), expected, rtol=0, atol=1e-9 * np.abs(expected).max()
    )


def test_batches() -> None:
    rng = generator(23)
    X, y, _ = data(9, 3, rng)
    weights = rng.random((2, 5, 9))
    penalties = rng.uniform(0.1, 5, (2, 5))
    batch = weighted_ridge(X, y, weights, penalties)
    assert batch.shape == (2, 5, 3)
    for i in np.ndindex(2, 5):
        np.testing.assert_allclose(
            batch[i], weighted_ridge(X, y, weights[i], penalties[i]), rtol=1e-10
        )
    np.testing.assert_allclose(
        weighted_ridge(X, y, weights[0, 0], penalties[0])[3],
        weighted_ridge(X, y, weights[0, 0], penalties[0, 3]),
    )
    np.testing.assert_allclose(
        weighted_ridge(X, y, weights, 0.0)[1, 2], weighted_ridge(X, y, weights[1, 2], 0.0)
    )
    with pytest.raises(ValueError, match="only a single one can be 0"):
        weighted_ridge(X, y, weights, np.arange(5.0))


@pytest.mark.parametrize(("n", "d", "copies"), [(30, 3, 0), (3, 5, 0), (30, 4, 2)])
def test_no_penalty_is_least_squares_of_least_norm(n: int, d: int, copies: int) -> None:
    X, y, epsilon = data(n, d, generator(24))
    X = np.column_stack([X, *[X[:, 0]] * copies])  # copied columns make it rank-deficient
    root = np.sqrt(epsilon)
    expected = np.linalg.lstsq(root[:, None] * X, root * y, rcond=None)[0]
    np.testing.assert_allclose(weighted_ridge(X, y, epsilon, 0.0), expected, atol=1e-10)
    # the limit of small penalties
    np.testing.assert_allclose(weighted_ridge(X, y, epsilon, 1e-9), expected, atol=1e-4)


# --- bounds -------------------------------------------------------------------------------------

PENALTIES = (1e-3, 0.1, 1.0, 4.0, 30.0, 1e4)


@pytest.mark.parametrize("d", [1, 2, 12, 30])
def test_norm_bounds_against_their_definition(d: int) -> None:
    """The sharp bound is max s/(s^2 + lambda); the paper's is the smaller of its two lemmas, which
    meet at lambda=d.
    """
    _, _, epsilon = data(15, d, generator(28))
    for penalty in (*PENALTIES, float(d)):
        s = np.linspace(0, math.sqrt(d), 200_001)
        sharp = estimate_norm_bound(penalty, math.sqrt(d), "sharp")
        assert sharp == pytest.approx((s / (s**2 + penalty)).max(), rel=1e-6)
        paper = estimate_norm_bound(penalty, math.sqrt(d), "paper")
        assert paper == pytest.approx(
            1 / math.sqrt(penalty) if penalty <= d else math.sqrt(d) / penalty
        )
        assert sharp <= paper
        if penalty <= d:
            assert sharp == pytest.approx(paper / 2)
        for bound, factor, norm in (("paper", 1, paper), ("sharp", 0.5, sharp)):
            expected = 2 * math.sqrt(d) / penalty * (1 + factor * math.sqrt(d) * norm)
            assert sensitivity_constant(penalty, math.sqrt(d), bound) == pytest.approx(expected)  # type: ignore[arg-type]
            made = output_perturbation(epsilon, penalty, features=d, bound=bound)  # type: ignore[arg-type]
            spent = made.noise_rate * expected * epsilon / epsilon.sum()
            np.testing.assert_allclose([spent, made.privacy_loss], [epsilon, epsilon], rtol=1e-12)
        assert sensitivity_constant(penalty, math.sqrt(d), "sharp") <= sensitivity_constant(
            penalty, math.sqrt(d)
        )


@pytest.mark.parametrize("total", [0.2, 1.0, 7.0])
def test_norm_bound_for_other_total_weights(total: float) -> None:
    """Attained by one record of that weight, whatever the total."""
    for penalty in PENALTIES:
        s = min(math.sqrt(penalty / total), math.sqrt(5))
        theta = weighted_ridge(np.full((1, 5), s / math.sqrt(5)), [1.0], [total], penalty)
        bound = estimate_norm_bound(penalty, math.sqrt(5), "sharp", total_weight=total)
        assert np.linalg.norm(theta) == pytest.approx(bound)
        assert bound <= estimate_norm_bound(penalty, math.sqrt(5), "paper", total_weight=total)


# --- projection ---------------------------------------------------------------------------------


def test_projection_is_the_nearest_point() -> None:
    rng = generator(30)
    far = rng.standard_normal((7, 5, 3)) + 2
    near = 0.1 * rng.standard_normal((4, 3)) / 3
    assert (project_on_ball(near, 1.0) == near).all() and (
        project_on_ball(np.zeros(3), 1.0) == 0
    ).all()
    assert project_on_ball(near[:0], 1.0).shape == (0, 3)
    projected = project_on_ball(far, 1.0)
    np.testing.assert_allclose(np.linalg.norm(projected, axis=-1), 1)
    ball = {"type": "ineq", "fun": lambda t: 1 - t @ t}
    for point, ours in zip(far.reshape(-1, 3)[:5], projected.reshape(-1, 3), strict=False):
        best = optimize.minimize(
            lambda t, p=point: ((t - p) ** 2).sum(), np.zeros(3), constraints=ball, tol=1e-12
        )
        np.testing.assert_allclose(ours, best.x, atol=1e-5)


def test_projected_release() -> None:
    X, y, epsilon = data(20, 3, generator(31))
    mechanism = output_perturbation(epsilon, 0.1, features=3)
    raw = mechanism.release(X, y, rng=generator(32), size=200)
    safe = mechanism.release(X, y, rng=generator(32), size=200, project=True)
    assert mechanism.radius == pytest.approx(estimate_norm_bound(0.1, math.sqrt(3), "sharp"))
    np.testing.assert_array_equal(safe, project_on_ball(raw, mechanism.radius))
    assert (np.linalg.norm(safe, axis=1) <= mechanism.radius * (1 + 1e-12)).all() and (
        raw != safe
    ).any()
    assert output_perturbation(epsilon, 0.1, features=3, norm_bound=0.7).radius == 0.7


# --- what is refused ----------------------------------------------------------------------------

GOOD: dict[str, Any] = {"epsilon": [0.1, 0.2, 0.3], "penalty": 1.0, "features": 2}
RECORDS: dict[str, Any] = {
    "X": [[0.2, 0.9], [0.4, 0.1], [1.0, 0.0]],
    "y": [-1.0, 0.3, 1.0],
}
BAD: list[tuple[dict[str, Any], str]] = [
    (
        {"X": [[0.2, 0.9], [1.1, 0.1], [1.0, 0.0]]},
        "X must lie in [0, 1]: scale by public bounds (Schema, in a ",
    ),
    (
        {"X": np.empty((3, 0))},
        "X has 0 feature(s) (shape=(3, 0)) while a minimum of 1 is required.",
    ),
    (
        {"y": [-1.0, 0.3, 1.5]},
        "y must lie in [-1, 1]: scale by public bounds (a Schema of its own), give label",
    ),
    ({"X": [[0.2, 0.9]] * 2, "y": [0.3] * 2}, "X must have shape (3, 2), the records and features"),
    ({"X": [[0.2], [0.4], [1.0]]}, "that the mechanism was made for, got (3, 1)"),
    ({"y": [-1.0, 0.3]}, "X has 3 records and y has 2"),
    ({"features": 0}, "features must be a positive integer, got 0"),
    ({"feature_norm": 0.95}, "rows of X must have a norm of at most feature_norm = 0.95"),
    ({"y": [-1.0, 0.3, 0.5], "label_bound": 0.5}, "y must lie in [-0.5, 0.5]"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_input_is_named_with_its_value(change: dict[str, Any], message: str) -> None:
    given = GOOD | RECORDS | change
    data = [given.pop(name) for name in RECORDS]
    output_perturbation(**GOOD).release(**RECORDS, rng=generator())
    with pytest.raises(ValueError, match=re.escape(message)):
        output_perturbation(**given).release(*data, rng=generator())


@pytest.mark.parametrize("arithmetic", ["exact", "ideal"])
def test_absurd_bounds_are_refused_without_the_data(arithmetic: Any) -> None:
    for change, message in (
        ({"label_bound": 1e300}, "label_bound must have a size"),
        ({"epsilon": [1e308, 1e308]}, "epsilon must have a size .* got 1e[+]308"),
        ({"epsilon": [1e-170]}, "the sum of epsilon must have a size .* got 1e-170"),
        ({"epsilon": [1e-60], "label_bound": 1e60}, "the sum of epsilon over .*e-121"),
    ):
        with pytest.raises(ValueError, match=message):
            output_perturbation(**GOOD | change, arithmetic=arithmetic)


def test_the_sharp_bound_is_the_default() -> None:
    """One default in all of the module, that of the estimator, and the one with less noise."""
    by_default, sharp, paper = (
        output_perturbation(**GOOD, **options)
        for options in ({}, {"bound": "sharp"}, {"bound": "paper"})
    )
    assert by_default.noise_rate == sharp.noise_rate > 1.5 * paper.noise_rate
    assert by_default.constant == sensitivity_constant(1.0, math.sqrt(2))
    assert estimate_norm_bound(1.0, 3.0) == 0.5 == estimate_norm_bound(1.0, 3.0, "sharp")


# --- bounds on labels and on feature vectors of any sign ----------------------------------------


def signed_pair(rng: np.random.Generator, R: float, a: float) -> tuple[np.ndarray, ...]:
    """Two small data sets that differ in record 0, at the bounds R and a or inside, with privacy
    losses, a penalty.
    """
    n = int(rng.integers(1, 5))
    d = int(rng.integers(1, 5))
    penalty = R**2 * 10 ** rng.uniform(-3, 3)
    X = rng.standard_normal((n + 1, d))
    X *= (
        R
        / np.linalg.norm(X, axis=1, keepdims=True)
        * rng.choice([1.0, min(1.0, penalty**0.5 / R)], (n + 1, 1))
    )
    y = rng.choice([-a, a], n + 1)
    if rng.random() < 0.5:
        X[-1] = X[0] * rng.choice([-1, 1])
    epsilon = rng.uniform(0.05, 1, n)
    epsilon[0] *= rng.choice([1, 100])
    return X[:-1], y[:-1], np.vstack([X[-1], X[1:-1]]), np.append(y[-1], y[1:-1]), epsilon, penalty


def test_label_bound_and_feature_norm_are_all_that_the_guarantee_needs() -> None:
    """The largest loss over what was promised is nearly one, and the same by any label bound: pairs
    in other units.
    """
    worst = []
    for a in (0.1, 1.0, 7.0):
        losses = []
        for seed in range(600):
            rng = generator(23, seed)
            R = 10 ** rng.uniform(-1, 1)
            X, y, X2, y2, epsilon, penalty = signed_pair(rng, R, a)
            options: dict[str, Any] = {
                "bound": BOUNDS[seed % 2],
                "feature_norm": R,
                "label_bound": a,
            }
            made = output_perturbation(epsilon, penalty, features=X.shape[1], **options)
            one, two = (
                weighted_ridge(*records, made.weights, penalty) for records in ((X, y), (X2, y2))
            )
            assert np.linalg.norm(one) <= made.radius * (1 + 1e-12)
            losses.append(made.noise_rate * np.linalg.norm(one - two) / epsilon[0])
        worst.append(max(losses))
    assert min(worst) > 0.9 and max(worst) <= 1 + 1e-9 and np.ptp(worst) < 1e-9
