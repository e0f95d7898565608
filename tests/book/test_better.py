"""Rivals on the page of equal losses: sampling keeps each promise, and what other libraries reach
is recorded for all problems.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from hdpm_book.records import page_functions, recorded
from hdpm_book.ridge.jorgensen import all_masks, inclusion_probabilities
from hdpm_book.use.rivals import (
    BATCHES,
    DELTA,
    LOSSES,
    RATES,
    Problem,
    fits_of,
    problems,
    told,
    versions_of,
)
from hdpm_lib import PersonalizedRidge, PrivateLogisticRegression
from hdpm_lib.gaussian import largest_mu
from hdpm_lib.learners.objective import ObjectivePerturbation, losses_of, objective_perturbation
from hdpm_lib.learners.settings import default_clip_norm, penalty_times_eta
from hdpm_lib.noise import log_density
from tests.support import generator

LOOKS_AT = ["book/use/better.md", "data/studies"]
EPSILON = np.array([0.1, 0.7, 2.2])
PAGE = page_functions("use/better", "ours", "as_ours", "sampled", "descents")

# --- sampling -----------------------------------------------------------------------------------


def laplace_sums(x: np.ndarray, chances: np.ndarray, threshold: float) -> np.ndarray:
    """Densities of a sum of those kept, of numbers in [0, 1], with noise for the threshold."""
    masks, _ = all_masks(EPSILON, threshold)
    probability = np.where(masks == 1, chances, 1 - chances).prod(1)
    at = np.linspace(-3, 6, 1801)
    return np.exp(-threshold * np.abs(at[:, None] - masks @ x)) @ probability


def test_chances_keep_each_promise_and_no_larger_ones_do() -> None:
    """A record is replaced by a 0, as one that is left out; the threshold is the largest loss."""
    threshold = EPSILON.max()
    chances = inclusion_probabilities(EPSILON, threshold)
    for i, promise in enumerate(EPSILON):
        x = np.array([0.2, 0.6, 0.9])
        other = x.copy()
        x[i] = 1.0
        other[i] = 0.0
        lost = [
            np.abs(np.log(laplace_sums(x, c, threshold) / laplace_sums(other, c, threshold))).max()
            for c in (chances, np.minimum(1.05 * chances, 1))
        ]
        assert lost[0] == pytest.approx(promise)
        assert (lost[1] > 1.01 * promise) == (chances[i] < 1)


def densities(
    made: ObjectivePerturbation, X: np.ndarray, y: np.ndarray, masks: np.ndarray, w: np.ndarray
) -> np.ndarray:
    """Densities of coefficients, shape (outputs, masks)."""
    found = []
    for mask in masks:
        losses = losses_of(mask[:, None] * X, y, made.loss, made.clip_norm)
        scores = w[:, None] * losses.rows[:, 0]
        noise = (made.weights * losses.pull(scores)) @ losses.rows - made.penalty * w[:, None]
        curvature = (made.weights * losses.bend(scores)) @ losses.rows**2 + made.penalty
        found.append(np.exp(log_density(noise, made.noise_rate)) * curvature[:, 0])
    return np.stack(found, axis=1)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_the_sampled_objective_keeps_each_promise(
    loss: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's mechanism, density by density, over all samples; all kept, it breaks two."""
    made: list[ObjectivePerturbation] = []
    space = PAGE["sampled"].__globals__
    problem = Problem(
        np.full((3, 1), 0.3),
        np.ones(3),
        np.zeros((2, 1)),
        np.array([1.0, -1.0]),
        loss == "logistic",
    )

    def noted(*given: Any, **options: Any) -> ObjectivePerturbation:
        made.append(objective_perturbation(*given, **options))
        return made[-1]

    monkeypatch.setitem(space, "objective_perturbation", noted)
    threshold = EPSILON.max()
    PAGE["sampled"](problem, EPSILON, threshold, 0)
    expected = 2, threshold * inclusion_probabilities(EPSILON, threshold).sum()
    assert made[0].clip_norm == default_clip_norm(loss, *expected)
    assert made[0].penalty * made[0].eta == pytest.approx(penalty_times_eta(loss, *expected))
    # the same in one dimension, where densities are at hand
    options = {"features": 1, "loss": loss, "clip_norm": made[0].clip_norm}
    one = objective_perturbation(made[0].weights, made[0].eta, made[0].penalty, **options)
    np.testing.assert_allclose(one.privacy_loss, threshold)
    masks, probability = all_masks(EPSILON, threshold)
    w = np.linspace(-4, 4, 801) / one.penalty * one.clip_norm
    records = [(1.0, 1.0), (1.0, -1.0), (-0.4, 1.0), (0.0, 1.0)]
    for i, promise in enumerate(EPSILON):
        laws = []
        for feature, label in records:
            X = np.array([[0.9], [-0.5], [0.7]])
            y = np.array([1.0, -1.0, -1.0])
            X[i] = feature
            y[i] = label
            laws.append(densities(one, X, y, masks, w))
        kept = np.log([law @ probability for law in laws])
        assert np.ptp(kept, axis=0).max() <= promise * (1 + 1e-9)
        everybody = np.log([law[:, masks.all(1)][:, 0] for law in laws])
        assert (np.ptp(everybody, axis=0).max() > promise) == (promise < threshold)


def drawn_problem(classes: bool) -> Problem:
    rng = generator(1760)
    X = rng.random((400, 2))
    y = X @ [1.0, -0.5] - 0.25 + 0.1 * rng.normal(size=400)
    y = np.sign(y) if classes else np.clip(y, -1, 1)
    return Problem(X[:200], y[:200], X[200:], y[200:], classes)


@pytest.mark.parametrize("classes", [False, True])
def test_all_kept_it_is_our_learner(classes: bool) -> None:
    """Where a loss is so large that noise is nothing, and all of one loss."""
    problem = drawn_problem(classes)
    losses = np.full(200, 1000.0)
    mine = PAGE["ours"](problem, losses, 0)
    assert PAGE["sampled"](problem, losses, 1000.0, 0) == pytest.approx(mine, abs=0.01)
    assert abs(PAGE["sampled"](problem, losses, 0.01, 0) - mine) > 0.05


@pytest.mark.parametrize("classes", [False, True])
def test_descents_are_those_of_the_estimators(
    classes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same draws, but for the trifle that an estimator keeps in hand."""
    problem = drawn_problem(classes)
    scores = []

    def noted(problem: Problem, found: np.ndarray) -> np.ndarray:
        scores.append(found[0])
        return found

    space = PAGE["descents"].__globals__
    monkeypatch.setitem(space, "error", noted)
    PAGE["descents"](problem, float(largest_mu(2.0, DELTA)), 1, generator(1761))
    model: Any = PersonalizedRidge(delta=DELTA, rng=generator(1761))
    if classes:
        model = PrivateLogisticRegression(classes=(-1, 1), delta=DELTA, rng=generator(1761))
    model.arithmetic = "ideal"
    model.fit(problem.X, problem.y, epsilon=np.full(200, 2.0))
    told_scores = model.decision_function if classes else model.predict
    np.testing.assert_allclose(scores[0], told_scores(problem.X_test), rtol=1e-5, atol=1e-7)


# --- what is recorded ---------------------------------------------------------------------------


def missing(rows: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    """Problems, losses and settings without as many errors as there should be."""
    wanted = {
        (name, epsilon, batch, epochs, rate, fits_of(problem))
        for name, problem in problems().items()
        for epsilon in LOSSES
        for batch, epochs in BATCHES
        for rate in RATES
    }
    settings = ("problem", "epsilon", "batch", "epochs", "rate")
    return wanted - {(*(row[name] for name in settings), len(row["errors"])) for row in rows}


def test_opacus_is_recorded_for_all_problems_within_its_promise() -> None:
    stored = recorded("rivals_with_delta")
    assert stored["rival"].startswith("opacus ") and stored["commit"] and stored["seconds"] > 0
    assert stored["delta"] == DELTA
    rows = stored["rows"]
    assert not missing(rows)
    assert len(missing(rows[1:])) == 1
    for row in rows:
        assert 0.97 * row["epsilon"] < row["spent"] <= row["epsilon"] + 1e-6
        assert np.isfinite(row["errors"]).all() and min(row["errors"]) >= 0


def test_another_interpreter_is_asked() -> None:
    program = (
        "import sys, numpy as np\n"
        "given = np.load(sys.argv[1])\n"
        "np.savez(sys.argv[2], scores=2 * given['X'])"
    )
    found = told(sys.executable, program, X=np.arange(3.0), classes=True)
    np.testing.assert_array_equal(found["scores"], [0, 2, 4])
    assert versions_of(sys.executable, "numpy") == f"numpy {np.__version__}"
