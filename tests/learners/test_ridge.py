"""Ridge regression with personal privacy losses: the fit, the bounds that set its noise, and what it refuses."""

from __future__ import annotations

import functools
import itertools
import math
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import optimize
from sklearn.linear_model import Ridge

from hdpm_lib.learners import ridge
from hdpm_lib.learners.ridge import (
    estimate_norm_bound,
    output_perturbation,
    personalized_weights,
    project_on_ball,
    sensitivity_constant,
    weighted_ridge,
)
from hdpm_lib.validation import check_records
from tests.support import generator

BOUNDS = ("paper", "sharp")
Fit = Callable[..., np.ndarray]


def data(n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features and labels inside the bounds, the last feature an intercept, and privacy losses."""
    X = np.column_stack([rng.random((n, d - 1)), np.ones(n)])
    return X, rng.uniform(-1, 1, n), rng.uniform(0.05, 2, n)


# --- the fit ----------------------------------------------------------------------------------------------------------


def fit_error(fit: Fit, n: int, d: int, penalty: float) -> float:
    """Largest distance to scikit-learn's answer, relative to its size."""
    X, y, epsilon = data(n, d, generator(21, n, d))
    weights = epsilon / epsilon.sum()
    model = Ridge(alpha=penalty, fit_intercept=False, solver="svd").fit(X, y, sample_weight=weights)
    return float(np.abs(fit(X, y, weights, penalty) - model.coef_).max() / np.abs(model.coef_).max())


@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 5), (4, 4), (30, 3), (80, 30), (1070, 12)])
@pytest.mark.parametrize("penalty", [0.01, 1.0, 100.0])
def test_fit_is_that_of_scikit_learn(n: int, d: int, penalty: float) -> None:
    assert fit_error(weighted_ridge, n, d, penalty) < 1e-9


def intercept_not_penalised(X: Any, y: Any, weights: Any, penalty: float) -> np.ndarray:
    penalties = np.diag(np.append(np.full(X.shape[1] - 1, penalty), 0.0))
    return np.linalg.solve((X.T * weights) @ X + penalties, (weights * y) @ X)


FIT_MUTANTS: dict[str, Fit] = {
    "penalty over n": lambda X, y, w, p: weighted_ridge(X, y, w, p / len(y)),
    "weights not normalised": lambda X, y, w, p: weighted_ridge(X, y, w * len(y), p),
    "weights ignored": lambda X, y, w, p: weighted_ridge(X, y, np.full(len(y), 1 / len(y)), p),
    "weights squared": lambda X, y, w, p: weighted_ridge(X, y, w**2 / (w**2).sum(), p),
    "intercept not penalised": intercept_not_penalised,
    "half the penalty": lambda X, y, w, p: weighted_ridge(X, y, w, p / 2),
}


@pytest.mark.parametrize("name", FIT_MUTANTS)
def test_wrong_fit_is_caught(name: str) -> None:
    assert fit_error(FIT_MUTANTS[name], 80, 30, 1.0) > 1e-3


@pytest.mark.parametrize("penalty", [0.05, 3.0])
def test_fit_minimises_its_objective(penalty: float) -> None:
    X, y, epsilon = data(25, 4, generator(22))
    weights = personalized_weights(epsilon)

    def objective(theta: np.ndarray) -> float:
        return float(weights @ (y - X @ theta) ** 2 + penalty * theta @ theta)

    found = optimize.minimize(objective, np.zeros(4), method="BFGS", options={"gtol": 1e-9})
    theta = weighted_ridge(X, y, weights, penalty)
    np.testing.assert_allclose(theta, found.x, atol=1e-6)
    assert objective(theta) <= found.fun + 1e-15
    assert objective(intercept_not_penalised(X, y, weights, penalty)) > found.fun + 1e-6


def test_batches() -> None:
    rng = generator(23)
    X, y, _ = data(9, 3, rng)
    weights, penalties = rng.random((2, 5, 9)), rng.uniform(0.1, 5, (2, 5))
    batch = weighted_ridge(X, y, weights, penalties)
    assert batch.shape == (2, 5, 3)
    for i in np.ndindex(2, 5):
        np.testing.assert_allclose(batch[i], weighted_ridge(X, y, weights[i], penalties[i]), rtol=1e-10)
    np.testing.assert_allclose(
        weighted_ridge(X, y, weights[0, 0], penalties[0])[3], weighted_ridge(X, y, weights[0, 0], penalties[0, 3])
    )
    np.testing.assert_allclose(weighted_ridge(X, y, weights, 0.0)[1, 2], weighted_ridge(X, y, weights[1, 2], 0.0))


@pytest.mark.parametrize(("n", "d", "copies"), [(30, 3, 0), (3, 5, 0), (30, 4, 2)])
def test_no_penalty_is_least_squares_of_least_norm(n: int, d: int, copies: int) -> None:
    X, y, epsilon = data(n, d, generator(24))
    X = np.column_stack([X, *[X[:, 0]] * copies])  # copied columns make it rank-deficient
    root = np.sqrt(epsilon)
    expected = np.linalg.lstsq(root[:, None] * X, root * y, rcond=None)[0]
    np.testing.assert_allclose(weighted_ridge(X, y, epsilon, 0.0), expected, atol=1e-10)
    np.testing.assert_allclose(weighted_ridge(X, y, epsilon, 1e-9), expected, atol=1e-4)  # the limit of small penalties


# --- bounds -----------------------------------------------------------------------------------------------------------

PENALTIES = (1e-3, 0.1, 1.0, 4.0, 30.0, 1e4)


@pytest.mark.parametrize("d", [1, 2, 12, 30])
def test_norm_bounds_against_their_definition(d: int) -> None:
    """The sharp bound is max s/(s^2 + lambda); the paper's is the smaller of its two lemmas, which meet at lambda=d."""
    for penalty in (*PENALTIES, float(d)):
        s = np.linspace(0, math.sqrt(d), 200_001)
        sharp = estimate_norm_bound(penalty, math.sqrt(d), "sharp")
        assert sharp == pytest.approx((s / (s**2 + penalty)).max(), rel=1e-6)
        paper = estimate_norm_bound(penalty, math.sqrt(d))
        assert paper == pytest.approx(1 / math.sqrt(penalty) if penalty <= d else math.sqrt(d) / penalty)
        assert sharp <= paper
        if penalty <= d:
            assert sharp == pytest.approx(paper / 2)
        for bound, factor, norm in (("paper", 1, paper), ("sharp", 0.5, sharp)):
            expected = 2 * math.sqrt(d) / penalty * (1 + factor * math.sqrt(d) * norm)
            assert sensitivity_constant(penalty, math.sqrt(d), bound) == pytest.approx(expected)  # type: ignore[arg-type]
        assert sensitivity_constant(penalty, math.sqrt(d), "sharp") <= sensitivity_constant(penalty, math.sqrt(d))


@pytest.mark.parametrize("total", [0.2, 1.0, 7.0])
def test_norm_bound_for_other_total_weights(total: float) -> None:
    """Attained by one record of that weight, whatever the total."""
    for penalty in PENALTIES:
        s = min(math.sqrt(penalty / total), math.sqrt(5))
        theta = weighted_ridge(np.full((1, 5), s / math.sqrt(5)), [1.0], [total], penalty)
        bound = estimate_norm_bound(penalty, math.sqrt(5), "sharp", total_weight=total)
        assert np.linalg.norm(theta) == pytest.approx(bound)
        assert bound <= estimate_norm_bound(penalty, math.sqrt(5), "paper", total_weight=total)


def hostile(n: int, d: int, count: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Batches of data sets (count, n, d): random, at corners, nearly empty, all on one ray; labels, weights."""
    kind = rng.integers(0, 4, count)[:, None, None]
    inside, corner = rng.random((count, n, d)), rng.integers(0, 2, (count, n, d)).astype(float)
    ray = rng.random((count, n, 1)) * rng.integers(0, 2, (count, 1, d))
    X = np.choose(kind, [inside, corner, corner * rng.random((count, 1, 1)), ray])
    y = np.where(rng.random((count, 1)) < 0.7, rng.choice([-1.0, 1.0], (count, n)), rng.uniform(-1, 1, (count, n)))
    y = np.where(rng.random((count, 1)) < 0.3, 1.0, y)
    weights = 10.0 ** rng.uniform(-2, 0, (count, n))
    return X, y, weights / weights.sum(1, keepdims=True)


def refit(X: np.ndarray, y: np.ndarray, weights: np.ndarray, penalty: np.ndarray) -> np.ndarray:
    """Estimates for a batch of data sets, straight from the normal equations."""
    root = np.sqrt(weights)[..., None]
    moments = np.swapaxes(root * X, -1, -2) @ (root * X) + penalty[:, None, None] * np.eye(X.shape[-1])
    return np.linalg.solve(moments, (weights[..., None] * y[..., None] * X).sum(-2)[..., None])[..., 0]


def norm_ratios(bound: Callable[[float, float], float], count: int = 400) -> np.ndarray:
    """Norms of estimates over their bound, on hostile data."""
    rng, found = generator(25), []
    for n in (1, 2, 4):
        for d in (1, 2, 6):
            X, y, weights = hostile(n, d, count, rng)
            penalty = 10.0 ** rng.uniform(-3, 2, count)
            norms = np.linalg.norm(refit(X, y, weights, penalty), axis=1)
            found.append(norms / [bound(p, math.sqrt(d)) for p in penalty])
    return np.concatenate(found)


@pytest.mark.parametrize("bound", BOUNDS)
def test_norm_bounds_hold(bound: Any) -> None:
    ratios = norm_ratios(lambda penalty, norm: estimate_norm_bound(penalty, norm, bound))
    assert ratios.max() <= 1 + 1e-9 and ratios.max() > (0.4 if bound == "paper" else 0.97)


def test_norm_bound_too_small_is_caught() -> None:
    ratios = norm_ratios(lambda penalty, norm: 0.9 * estimate_norm_bound(penalty, norm, "sharp"))
    assert ratios.max() > 1


@pytest.mark.parametrize("d", [1, 6, 30])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_sharp_norm_bound_is_attained(d: int, penalty: float) -> None:
    s = min(math.sqrt(penalty), math.sqrt(d))
    mechanism = output_perturbation(
        np.full((3, d), s / math.sqrt(d)), np.ones(3), [0.1, 0.5, 1.0], penalty, bound="sharp"
    )
    assert 0.999 < np.linalg.norm(mechanism.theta) / mechanism.radius <= 1 + 1e-12


# --- sensitivity ------------------------------------------------------------------------------------------------------


@functools.cache
def moves(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Distances of neighbouring estimates over the weight of the replaced record, by direct refits.

    Returns them with their dimensions, penalties and largest feature norms.
    """
    rng, found = generator(26), []
    for n in (1, 2, 3, 4):
        for d in (1, 2, 3, 6):
            X, y, weights = hostile(n, d, count, rng)
            other, labels, _ = hostile(1, d, count, rng)
            penalty = 10.0 ** rng.uniform(-3, 2, count)
            X2, y2 = X.copy(), y.copy()
            X2[:, 0], y2[:, 0] = other[:, 0], labels[:, 0]
            distance = np.linalg.norm(refit(X, y, weights, penalty) - refit(X2, y2, weights, penalty), axis=1)
            norm = np.maximum(np.linalg.norm(X, axis=-1).max(1), np.linalg.norm(X2, axis=-1).max(1))
            found.append(np.stack([distance / weights[:, 0], np.full(count, d), penalty, norm]))
    moved, d, penalty, norm = np.concatenate(found, axis=1)
    return moved, d, penalty, norm


@functools.cache
def attacks(count: int) -> list[tuple[float, int, float]]:
    """A small search for the worst pair: everything but the penalty is free, inside its bounds."""
    rng, found = generator(27), []
    for _ in range(count):
        n, d, penalty = int(rng.integers(1, 4)), int(rng.integers(1, 4)), float(10 ** rng.uniform(-2, 2))

        def distance(free: np.ndarray, n: int = n, d: int = d, penalty: float = penalty) -> float:
            records, log_weights = free[: (n + 1) * (d + 1)].reshape(n + 1, d + 1), free[(n + 1) * (d + 1) :]
            w = 10.0**log_weights / (10.0**log_weights).sum()
            ends = []
            for own in (0, n):
                rows = records[[own, *range(1, n)]]
                X, y = rows[:, :-1], 2 * rows[:, -1] - 1
                ends.append(np.linalg.solve((X.T * w) @ X + penalty * np.eye(d), (w * y) @ X))
            return -float(np.linalg.norm(ends[0] - ends[1]) / w[0])

        box = [(0.0, 1.0)] * ((n + 1) * (d + 1)) + [(-2.0, 0.0)] * n
        start = np.concatenate([rng.random((n + 1) * (d + 1)), rng.uniform(-2, 0, n)])
        best = optimize.minimize(distance, start, bounds=box, method="L-BFGS-B", options={"maxiter": 40})
        found.append((-float(best.fun), d, penalty))
    return found


def worst_ratio(constant: Callable[[float, float], float]) -> float:
    """Largest move found over `constant` times the weight; above one, `constant` is no bound."""
    moved, d, penalty, _ = moves(400)  # 16 kinds: 6,400 pairs
    assert len(moved) >= 5000
    pairs = [*zip(moved, d, penalty, strict=True), *attacks(40)]
    return max(float(move) / constant(p, math.sqrt(k)) for move, k, p in pairs)


@pytest.mark.parametrize("bound", BOUNDS)
def test_sensitivity_is_never_exceeded(bound: Any) -> None:
    worst = worst_ratio(lambda penalty, norm: sensitivity_constant(penalty, norm, bound))
    assert 0.5 < worst <= 1 + 1e-9, f"{worst=}"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda p, r: sensitivity_constant(p, r, "sharp") / 2,  # factor 2 lost
        lambda p, r: sensitivity_constant(p, 1.0, "sharp"),  # sqrt(d) -> 1
        lambda p, r: 2 * r / p,  # B omitted
        lambda p, r: sensitivity_constant(p, r, "sharp", norm_bound=0.1 * estimate_norm_bound(p, r, "sharp")),
    ],
    ids=["factor 2 lost", "sqrt(d) taken for 1", "B omitted", "B a tenth"],
)
def test_sensitivity_too_small_is_caught(wrong: Callable[[float, float], float]) -> None:
    assert worst_ratio(wrong) > 1.01


@pytest.mark.parametrize("bound", BOUNDS)
def test_sensitivity_with_a_feature_norm(bound: Any) -> None:
    """With a public norm below sqrt(d) the bound holds for data that obey it, and not for all others."""
    moved, _, penalty, norm = moves(400)
    ratios = moved / [sensitivity_constant(p, max(r, 1e-3), bound) for p, r in zip(penalty, norm, strict=True)]
    assert ratios.max() <= 1 + 1e-9
    halved = moved / [sensitivity_constant(p, max(r, 1e-3) / 2, bound) for p, r in zip(penalty, norm, strict=True)]
    assert halved.max() > 1


def test_sharp_sensitivity_is_attained_for_large_penalties() -> None:
    d, penalty = 30, 1e5
    X, weights = np.ones((1, d)), np.ones(1)
    move = np.linalg.norm(weighted_ridge(X, [1.0], weights, penalty) - weighted_ridge(X, [-1.0], weights, penalty))
    assert 0.999 < move / sensitivity_constant(penalty, math.sqrt(d), "sharp") <= 1


# --- the budget -------------------------------------------------------------------------------------------------------

OPTIONS: list[dict[str, Any]] = [
    {},
    {"norm_bound": 0.2},
    {"feature_norm": 2.0},
    {"norm_bound": 2.0, "feature_norm": 2.0},
]


def budget_error() -> float:
    """Largest relative gap between rate * sensitivity * w_i, typed anew, and the privacy loss that i accepted."""
    worst = 0.0
    for d in (1, 2, 4, 12):
        X, y, unit = data(15, d, generator(28))
        X *= min(1.0, 2 / math.sqrt(d))  # inside the feature norm
        for penalty in (0.01, 1.0, float(d), 100.0):
            for scale in (1e-3, 1.0, 50.0):
                for bound in BOUNDS:
                    for options in OPTIONS:
                        epsilon = scale * unit
                        found = output_perturbation(X, y, epsilon, penalty, bound=bound, **options)
                        R = options.get("feature_norm", math.sqrt(d))
                        s = min(math.sqrt(penalty), R)
                        paper = bound == "paper"
                        B = min(1 / math.sqrt(penalty), R / penalty) if paper else s / (s**2 + penalty)
                        B = options.get("norm_bound", B)
                        sensitivity = 2 * R / penalty * (1 + (1 if paper else 0.5) * R * B)
                        spent = found.noise_rate * sensitivity * epsilon / epsilon.sum()
                        for loss in (spent, found.privacy_loss):
                            worst = max(worst, float(np.abs(loss / epsilon - 1).max()))
                        worst = max(worst, abs(float(found.weights.sum()) - 1))
    return worst


def test_everybody_spends_what_she_accepts() -> None:
    assert budget_error() < 1e-12


@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        ("personalized_weights", lambda eps: np.asarray(eps)),
        ("personalized_weights", lambda eps: np.full(len(eps), 1 / len(eps))),
        ("sensitivity_constant", lambda *given: sensitivity_constant(*given) / 2),
        ("sensitivity_constant", lambda p, r, *more: sensitivity_constant(p, 1.0, *more)),
        ("sensitivity_constant", lambda p, r, *_: 2 * r / p),
        ("estimate_norm_bound", lambda *given, **more: 0.5 * estimate_norm_bound(*given, **more)),
    ],
)
def test_wrong_budget_is_caught(name: str, mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ridge, name, mutant)
    assert budget_error() > 0.01


def test_equal_losses_are_plain_ridge_regression() -> None:
    X, y, epsilon = data(20, 3, generator(29))
    plain = output_perturbation(X, y, np.full(20, epsilon.min()), 1.0)
    assert plain.noise_rate == pytest.approx(20 * epsilon.min() / plain.constant)
    np.testing.assert_allclose(plain.theta, Ridge(alpha=20.0, fit_intercept=False).fit(X, y).coef_)


# --- projection -------------------------------------------------------------------------------------------------------


def test_projection_is_the_nearest_point() -> None:
    rng = generator(30)
    far, near = rng.standard_normal((7, 5, 3)) + 2, 0.1 * rng.standard_normal((4, 3)) / 3
    assert (project_on_ball(near, 1.0) == near).all() and (project_on_ball(np.zeros(3), 1.0) == 0).all()
    projected = project_on_ball(far, 1.0)
    np.testing.assert_allclose(np.linalg.norm(projected, axis=-1), 1)
    ball = {"type": "ineq", "fun": lambda t: 1 - t @ t}
    for point, ours in zip(far.reshape(-1, 3)[:5], projected.reshape(-1, 3), strict=False):
        best = optimize.minimize(lambda t, p=point: ((t - p) ** 2).sum(), np.zeros(3), constraints=ball, tol=1e-12)
        np.testing.assert_allclose(ours, best.x, atol=1e-5)


def test_projected_release() -> None:
    X, y, epsilon = data(20, 3, generator(31))
    mechanism = output_perturbation(X, y, epsilon, 0.1)
    raw = mechanism.release(rng=generator(32), size=200)
    safe = mechanism.release(rng=generator(32), size=200, project=True)
    assert mechanism.radius == pytest.approx(estimate_norm_bound(0.1, math.sqrt(3), "sharp"))
    np.testing.assert_array_equal(safe, project_on_ball(raw, mechanism.radius))
    assert (np.linalg.norm(safe, axis=1) <= mechanism.radius * (1 + 1e-12)).all() and (raw != safe).any()
    assert mechanism.release(rng=generator(32)).shape == (3,)
    assert mechanism.release(rng=generator(32), size=0, project=True).shape == (0, 3)
    assert output_perturbation(X, y, epsilon, 0.1, norm_bound=0.7).radius == 0.7


# --- what is refused --------------------------------------------------------------------------------------------------

GOOD: dict[str, Any] = {
    "X": [[0.2, 0.9], [0.4, 0.1], [1.0, 0.0]],
    "y": [-1.0, 0.3, 1.0],
    "epsilon": [0.1, 0.2, 0.3],
    "penalty": 1.0,
}
BAD: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": [0.1, 0.2, -0.3]}, "epsilon must be positive and finite, got epsilon[2] = -0.3"),
    ({"epsilon": [math.nan, 0.2, 0.3]}, "epsilon must be positive and finite, got epsilon[0] = nan"),
    ({"epsilon": [0.1, 0.2]}, "epsilon has 2 entries for 3 records"),
    ({"epsilon": 0.1}, "epsilon must be a non-empty vector, got shape ()"),
    (
        {"X": [[0.2, 0.9], [1.1, 0.1], [1.0, 0.0]]},
        "X must lie in [0, 1]: scale by public bounds, give feature_norm, or clip",
    ),
    ({"X": [[0.2, 0.9], [0.4, 0.1], [1.0, -0.5]]}, "X must lie in [0, 1]"),
    ({"X": [[0.2, math.nan], [0.4, 0.1], [1.0, 0.0]]}, "X must lie in [0, 1]"),
    ({"X": np.empty((3, 0))}, "X has 0 feature(s) (shape=(3, 0)) while a minimum of 1 is required."),
    ({"y": [-1.0, 0.3, 1.5]}, "y must lie in [-1, 1]: scale by public bounds, give label_bound, or clip"),
    ({"y": [-1.0, 0.3]}, "X has 3 records and y has 2"),
    ({"feature_norm": 0.95}, "rows of X must have a norm of at most feature_norm = 0.95"),
    ({"y": [-1.0, 0.3, 0.5], "label_bound": 0.5}, "y must lie in [-0.5, 0.5]"),
    ({"bound": "Paper"}, "bound must be 'paper' or 'sharp', got 'Paper'"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_named_with_its_value(change: dict[str, Any], message: str) -> None:
    output_perturbation(**GOOD)
    with pytest.raises(ValueError, match=re.escape(message)):
        output_perturbation(**{**GOOD, **change})
    if not {"X", "y"} & set(change) and "feature_norm" not in change:
        with pytest.raises(ValueError, match=re.escape(message)):  # clipping repairs records, nothing else
            output_perturbation(**{**GOOD, **change}, clip=True)


def clipped(**options: Any) -> np.ndarray:
    """Estimate from a learner that clips three of four records; a warning would be an error."""
    X = np.array([[0.2, 0.9], [1.4, 0.1], [0.6, -0.2], [0.9, 0.9]])
    return output_perturbation(X, [0.0, 0.3, -3.0, 1.0], np.ones(4), 1.0, clip=True, **options).theta


def test_clipping_moves_records_onto_the_bounds_without_a_word() -> None:
    inside = np.array([[0.2, 0.9], [1.0, 0.1], [0.6, 0.0], [0.9, 0.9]])
    weights = np.full(4, 0.25)
    np.testing.assert_allclose(clipped(), weighted_ridge(inside, [0.0, 0.3, -1.0, 1.0], weights, 1.0))
    shorter = np.array([[0.2, 0.9], np.array([1.4, 0.1]) * 1.2 / math.hypot(1.4, 0.1), [0.6, -0.2], [1.2 / 2**0.5] * 2])
    found = clipped(feature_norm=1.2, label_bound=0.5)
    np.testing.assert_allclose(found, weighted_ridge(shorter, [0.0, 0.3, -0.5, 0.5], weights, 1.0))
    X, y = check_records(inside, [0.0, 0.3, -1.0, 1.0])
    assert (inside == X).all() and y[2] == -1  # at the bounds: no error


def test_records_that_are_not_clipped_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = clipped()
    monkeypatch.setattr(ridge, "check_records", lambda X, y, **_: (np.asarray(X), np.asarray(y)))
    assert np.abs(clipped() - right).max() > 0.01


@pytest.mark.parametrize("options", [{}, {"feature_norm": 1.0, "label_bound": 0.5}])
@pytest.mark.parametrize("clip", [False, True])
def test_what_is_said_of_records_is_the_same_for_all_values_and_places(options: dict[str, Any], clip: bool) -> None:
    said = set()
    for which, row in itertools.product(("X", "y"), range(3)):
        for value in (1.5, 7.25, 123.0, -8.0):
            X, y = np.full((3, 2), 0.25), np.full(3, 0.25)
            {"X": X[:, 0], "y": y}[which][row] = value
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    check_records(X, y, clip=clip, **options)
                except ValueError as error:
                    said.add((which, str(error)))
    assert len(said) == (0 if clip else 2)
    assert not any(re.search("1.5|7.25|123|8|record|warn", message) for _, message in said)


# --- bounds on labels and on feature vectors of any sign --------------------------------------------------------------


def signed_pair(rng: np.random.Generator, R: float, a: float) -> tuple[np.ndarray, ...]:
    """Two small data sets that differ in record 0, at the bounds R and a or inside, with privacy losses, a penalty."""
    n, d, penalty = int(rng.integers(1, 5)), int(rng.integers(1, 5)), R**2 * 10 ** rng.uniform(-3, 3)
    X = rng.standard_normal((n + 1, d))
    X *= R / np.linalg.norm(X, axis=1, keepdims=True) * rng.choice([1.0, min(1.0, penalty**0.5 / R)], (n + 1, 1))
    y = rng.choice([-a, a], n + 1)
    if rng.random() < 0.5:
        X[-1] = X[0] * rng.choice([-1, 1])
    epsilon = rng.uniform(0.05, 1, n)
    epsilon[0] *= rng.choice([1, 100])
    return X[:-1], y[:-1], np.vstack([X[-1], X[1:-1]]), np.append(y[-1], y[1:-1]), epsilon, penalty


@functools.cache
def largest_loss() -> dict[float, float]:
    """Largest loss over what was promised, by label bound."""
    worst = {}
    for a in (0.1, 1.0, 7.0):
        losses = []
        for seed in range(600):
            rng = generator(23, seed)
            R = 10 ** rng.uniform(-1, 1)
            X, y, X2, y2, epsilon, penalty = signed_pair(rng, R, a)
            options: dict[str, Any] = {"bound": ("paper", "sharp")[seed % 2], "feature_norm": R, "label_bound": a}
            one, two = (output_perturbation(*data, epsilon, penalty, **options) for data in ((X, y), (X2, y2)))
            assert np.linalg.norm(one.theta) <= one.radius * (1 + 1e-12)
            losses.append(one.noise_rate * np.linalg.norm(one.theta - two.theta) / epsilon[0])
        worst[a] = max(losses)
    return worst


def test_label_bound_and_feature_norm_are_all_that_the_guarantee_needs() -> None:
    worst = largest_loss()
    assert min(worst.values()) > 0.9 and max(worst.values()) <= 1 + 1e-9
    assert np.ptp(list(worst.values())) < 1e-9  # the same pairs in other units
    for power in (0, 2):  # the label bound forgotten, or squared, in the noise
        assert max(loss * a / a**power for a, loss in worst.items()) > 5


@pytest.mark.parametrize("bound", BOUNDS)
def test_constants_are_in_proportion_to_the_label_bound(bound: ridge.Bound) -> None:
    for penalty, R, a in itertools.product((0.01, 1.0, 100.0), (0.3, 3.0), (0.25, 1.0, 40.0)):
        norm = estimate_norm_bound(penalty, R, bound, 2.0, a)
        assert norm == pytest.approx(a * estimate_norm_bound(penalty, R, bound, 2.0), rel=1e-14)
        c = sensitivity_constant(penalty, R, bound, label_bound=a)
        assert c == pytest.approx(a * sensitivity_constant(penalty, R, bound), rel=1e-14)


@pytest.mark.parametrize("bound", BOUNDS)
def test_the_box_is_the_ball_of_root_d_and_labels_of_one(bound: ridge.Bound) -> None:
    X, y, epsilon = data(50, 4, generator(24))
    old, new = (
        output_perturbation(X, y, epsilon, 0.3, bound=bound),
        output_perturbation(X, y, epsilon, 0.3, bound=bound, feature_norm=2.0),
    )
    assert (old.noise_rate, old.constant, old.radius) == (new.noise_rate, new.constant, new.radius)
    np.testing.assert_array_equal(old.theta, new.theta)
    scaled = output_perturbation(
        X, y / 4, epsilon, 0.3, bound=bound, label_bound=0.25
    )  # in other units: the same release, rescaled
    assert scaled.noise_rate == 4 * old.noise_rate
    releases = [m.release(rng=generator(25), size=9, project=True) for m in (old, scaled)]
    np.testing.assert_allclose(releases[0], 4 * releases[1], rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"), [({"y": np.zeros(3)}, "y has 3"), ({"weights": np.ones(5)}, "weights has 5")]
)
def test_weighted_ridge_refuses_what_does_not_fit(change: dict, message: str) -> None:
    given = {"X": np.ones((4, 2)), "y": np.zeros(4), "weights": np.full(4, 0.25), "penalty": 1.0}
    with pytest.raises(ValueError, match=message):
        weighted_ridge(**{**given, **change})
