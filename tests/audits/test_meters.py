"""The meter of losses takes what learners make and estimators release, and tells no private value.

What it finds is compared with other means in `test_ridge` and `test_objective`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from hdpm_lib.audits.meters import PrivacyLosses, privacy_losses
from hdpm_lib.learners.estimators import (
    PersonalizedRidge,
    PrivateLogisticRegression,
    private_pipeline,
)
from hdpm_lib.learners.objective import objective_perturbation
from hdpm_lib.learners.queries import linear_query, nonlinear_query
from hdpm_lib.learners.ridge import output_perturbation
from hdpm_lib.learners.weighted_mean import WeightedMean
from hdpm_lib.schema import Category, Number, Schema
from tests import releases
from tests.releases import Learner, Seen
from tests.support import generator, refusals
from tests.test_ingress import objections, plain

# --- sums ---------------------------------------------------------------------------------------


def test_sums_lose_what_they_promise() -> None:
    """Which is what all pairs of databases lose at most: `tests.learners.test_queries`."""
    for k in range(20):
        rng = generator(88, k)
        weights = rng.choice([-1.0, 1.0], 3) * 10 ** rng.uniform(-1, 1, 3)
        query = linear_query(
            rng.random(3), 10 ** rng.uniform(-1, 1), weights=weights, dimension=(1, 5)[k % 2]
        )
        losses = privacy_losses(query, weights * rng.random(3))
        np.testing.assert_allclose(losses.found, query.privacy_loss, rtol=1e-9)
        np.testing.assert_array_equal(losses.found, losses.at_most)
    assert privacy_losses(linear_query([0.0, 0.0], 0.0), [0.2, 1.0]).found.tolist() == [0, 0]


def test_losses_of_sums_are_differences_of_their_means() -> None:
    """Each datum at one end and at the other, the others' being as they are, in all coordinates."""
    rng = generator(104)
    weights = np.array([0.3, -2.0, 1.0])
    query = linear_query(rng.random(3), 0.7, weights=weights, dimension=2)
    terms = weights[:, None] * rng.random((3, 2))
    for i, found in enumerate(privacy_losses(query, terms).found):
        low, high = terms.copy(), terms.copy()
        low[i], high[i] = 0, weights[i]
        apart = np.abs(query.mean(low) - query.mean(high)).sum()
        assert found == pytest.approx(apart / 0.7, rel=1e-12)


def test_a_sum_of_many_is_metered_in_their_number() -> None:
    """A square table of these would need 320 GB."""
    n = 200_000
    losses = privacy_losses(linear_query(np.full(n, 0.5), 0.25), np.zeros(n))
    assert (losses.found == 2).all()


# --- estimators ---------------------------------------------------------------------------------


def same(found: PrivacyLosses, expected: PrivacyLosses) -> None:
    np.testing.assert_allclose(found.found, expected.found, rtol=1e-6)
    np.testing.assert_allclose(found.at_most, expected.at_most, rtol=1e-9)


@pytest.mark.parametrize("bounds", [{}, {"feature_norm": 1.0}, {"label_bound": 2.0}])
@pytest.mark.parametrize("clip", [False, True])
def test_a_fitted_regressor_is_metered_as_its_mechanism(
    bounds: dict[str, float], clip: bool
) -> None:
    rng = generator(105)
    X = rng.random((8, 3)) / 2
    y = rng.uniform(-1, 1, 8)
    epsilon = rng.uniform(0.1, 2, 8)
    if clip:  # which counts as what it is moved to
        X[0] *= 20
    model = PersonalizedRidge(2.0, fit_intercept=False, clip=clip, **bounds)
    model.fit(X, y, epsilon=epsilon)
    made = objective_perturbation(
        model.weights_, model.eta_, 2.0, features=3, loss="squared", clip_norm=model.clip_norm_
    )
    norm = bounds.get("feature_norm", math.sqrt(3))
    bound = bounds.get("label_bound", 1.0)
    rows = np.clip(X, 0, 1)
    if "feature_norm" in bounds:
        rows = X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    found = privacy_losses(model, X, y)
    same(found, privacy_losses(made, rows / norm, y / bound, model.coef_ * norm / bound))
    np.testing.assert_allclose(found.at_most, model.privacy_loss_)
    model.eta_ *= 2  # be its promise right or wrong
    assert (privacy_losses(model, X, y).at_most > 1.5 * model.privacy_loss_).all()


def test_records_of_a_schema_are_metered() -> None:
    """As they come, behind a pipeline: in a ball around 0, of the schema's own norm."""
    schema = Schema([Number("age", 20, 60), Category("smoker", ("no", "yes"))])
    table = [[age, answer] for age in (20, 35, 60) for answer in ("no", "yes")]
    y = generator(107).uniform(-0.5, 0.5, 6)
    ridge = PersonalizedRidge(0.2, feature_norm=schema.feature_norm, label_bound=0.5)
    model = private_pipeline(schema, ridge).fit(table, y)[-1]
    losses = privacy_losses(model, schema.transform(table), y)
    assert (losses.found <= losses.at_most * (1 + 1e-9)).all()
    assert (losses.found <= model.privacy_loss_ * (1 + 1e-9)).all() and losses.found.min() > 0.1


@pytest.mark.parametrize("clip", [False, True])
def test_a_fitted_classifier_is_metered_as_its_mechanism(clip: bool) -> None:
    rng = generator(108)
    X = rng.random((8, 2))
    y = np.resize(["no", "yes"], 8).astype(object)
    if clip:
        X[0] *= 20
        y[0] = "perhaps"
    model = PrivateLogisticRegression(2.0, classes=("no", "yes"), clip=clip).fit(X, y)
    signs = np.where(y == "yes", 1.0, -1.0)
    # centred, with a constant of 1, in the ball of radius 1
    coded = np.column_stack([np.clip(X, 0, 1) - 0.5, np.ones(8)]) / math.sqrt(3 / 2)
    made = objective_perturbation(
        model.weights_, model.eta_, 2.0, features=3, clip_norm=model.clip_norm_
    )
    constant = model.intercept_ + model.coef_.sum() / 2
    released = math.sqrt(3 / 2) * np.append(model.coef_[0], constant)
    # at a limit the curvature leaps, which a search on a grid does not meet to the last digit
    found = privacy_losses(model, X, y)
    expected = privacy_losses(made, coded, signs, released)
    np.testing.assert_allclose(found.found, expected.found, rtol=0.01)
    np.testing.assert_allclose(privacy_losses(model, X, y).at_most, model.privacy_loss_)
    if not clip:
        model = PrivateLogisticRegression(2.0, classes=(0, 1, 2)).fit(X, np.zeros(8))
        with pytest.raises(ValueError, match="must be a model of two classes, got 3"):
            privacy_losses(model, X, y)


def test_default_estimators_keep_their_promise() -> None:
    """On 200 random data sets, in the box and in the ball, for losses a thousand times apart."""
    most = 0.0
    for k in range(200):
        rng = generator(109, k)
        n, d = rng.integers(1, 9), rng.integers(1, 4)
        epsilon = 10 ** rng.uniform(-2, 1, n)
        ball = bool(k % 2)
        X = rng.uniform(-1, 1, (n, d)) / np.sqrt(d) if ball else rng.random((n, d))
        y = rng.uniform(-1, 1, n)
        model = PersonalizedRidge(feature_norm=1.0 if ball else None, rng=k).fit(
            X, y, epsilon=epsilon
        )
        losses = privacy_losses(model, X, y)
        np.testing.assert_array_less(losses.found, epsilon * (1 + 1e-9))
        np.testing.assert_array_less(losses.found, losses.at_most * (1 + 1e-9))
        most = max(most, (losses.found / epsilon).max())
    assert most > 0.5


# --- what is private ----------------------------------------------------------------------------


def metered(make: Callable[..., Any], **search: Any) -> Callable[..., Seen]:
    """The meter as a learner: what a mechanism, or a model of tame data, says of other data."""

    def learn(*given: Any, **clip: bool) -> Seen:
        *data, epsilon, _ = given
        losses = privacy_losses(make(epsilon, **clip), *data, **search)
        return [losses.found, losses.at_most], []

    return learn


def tame(domain: Any) -> Any:
    return plain(domain, generator(812))


def a_sum(epsilon: np.ndarray, **clip: bool) -> Any:
    return linear_query(epsilon, 1.0, **clip)


def a_fit(epsilon: np.ndarray, **bounds: Any) -> Any:
    return output_perturbation(epsilon, 1.0, features=releases.D, **bounds)


def a_regressor(epsilon: np.ndarray, clip: bool, **bounds: Any) -> Any:
    model = PersonalizedRidge(clip=clip, rng=0, **bounds)
    return model.fit(*tame(releases.boxes), epsilon=epsilon)


def a_classifier(epsilon: np.ndarray, clip: bool) -> Any:
    model = PrivateLogisticRegression(2.0, feature_norm=1.0, classes=(-1, 1), clip=clip, rng=0)
    return model.fit(*tame(releases.signed), epsilon=epsilon)


SEARCH: dict[str, Any] = {"rng": generator(110), "restarts": 0}
SHORT = {"feature_norm": 1.0}
METERS = {
    "a sum": Learner(metered(a_sum), releases.numbers, ("terms",)),
    "ridge": Learner(metered(a_fit, **SEARCH), releases.boxes, mode="raise"),
    "ridge, ball": Learner(
        metered(partial(a_fit, **SHORT), **SEARCH), releases.short_rows, mode="raise"
    ),
    "regressor": Learner(metered(a_regressor), releases.boxes),
    "regressor, ball": Learner(metered(partial(a_regressor, **SHORT)), releases.short_rows),
    "classifier": Learner(metered(a_classifier), releases.signed),
}


@pytest.mark.parametrize(
    ("name", "clip"),
    [(name, clip) for name in METERS for clip in releases.MODES[METERS[name].mode]],
)
def test_no_meter_tells_of_the_data(name: str, clip: bool) -> None:
    """Odd cells of every kind are refused by one sentence for each argument, about a bound."""
    assert objections(METERS[name], clip) == []


# --- bad input ----------------------------------------------------------------------------------

SUM = linear_query([0.2, 0.7], 1.0)
NONLINEAR = nonlinear_query([1, 1], 1.0, [[1, 0.5], [0.5, 0]])
RIDGE = output_perturbation(np.ones(3), 1.0, features=2)
RNG = generator()
LOGISTIC = objective_perturbation([0.5, 0.5], 1.0, 1.0, features=2)
CLASSIFIER = PrivateLogisticRegression(2.0, classes=("no", "yes"), rng=0)

test_bad_input = refusals(
    (lambda: privacy_losses(SUM, [0.1, 0.2, 0.3]), "terms must have 2 rows, one for each share"),
    (
        lambda: privacy_losses(SUM, [0.1, 1.5]),
        "^terms must lie in their intervals: scale by public bounds, or clip$",
    ),
    (lambda: privacy_losses(NONLINEAR, [0.1, 0.2]), "must be a linear query"),
    (
        lambda: privacy_losses(WeightedMean([1.0], 1.0, [0.0], 1.0), [1.0]),
        "must be a BiasedLaplace, .* got WeightedMean",
    ),
    (lambda: privacy_losses(RIDGE, np.ones((3, 2)), np.ones(2), rng=RNG), "X has 3 .* y has 2"),
    (
        lambda: privacy_losses(RIDGE, np.ones((2, 2)), np.ones(2), rng=RNG),
        "X has 2 records for 3 weights",
    ),
    (
        lambda: privacy_losses(RIDGE, np.full((3, 2), 1.7), np.ones(3), rng=RNG),
        r"^X must lie in \[0, 1\]: scale by public bounds [^.\d]*, or clip$",
    ),
    (
        lambda: privacy_losses(LOGISTIC, np.eye(2), [1, -1], np.zeros(3)),
        r"coefficients must have shape \(..., 2\), got \(3,\)",
    ),
    (lambda: privacy_losses(PersonalizedRidge(), [[1.0]], [1.0]), "not fitted yet"),
    (lambda: privacy_losses(CLASSIFIER, [[1.0]], ["no"]), "not fitted yet"),
)
