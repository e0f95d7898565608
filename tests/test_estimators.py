"""The estimator inside scikit-learn: its own checks, pipelines, cross-validation, and whose privacy loss goes where."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from test_noise import generator

from hdpm_lib import ridge
from hdpm_lib.estimators import PersonalizedRidge
from hdpm_lib.ridge import estimate_norm_bound, pdp_op, sensitivity_constant
from hdpm_lib.validation import ClipWarning


@parametrize_with_checks([PersonalizedRidge(out_of_range="clip")])
@pytest.mark.filterwarnings("ignore::hdpm_lib.validation.ClipWarning")
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def data(n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = generator(71)
    X = rng.random((n, 3))
    return X, X @ [0.6, -0.4, 0.2], rng.uniform(0.5, 5, n)


@pytest.mark.parametrize("bound", ["sharp", "paper"])
@pytest.mark.parametrize("feature_norm", [None, 1.8])
def test_fit_is_one_release_of_the_mechanism(bound: Any, feature_norm: float | None) -> None:
    X, y, epsilon = data()
    model = PersonalizedRidge(0.3, bound=bound, feature_norm=feature_norm, random_state=1).fit(X, y, epsilon=epsilon)
    mechanism = pdp_op(X, y, epsilon, 0.3, bound=bound, feature_norm=feature_norm)
    np.testing.assert_allclose(model.guarantee_, epsilon)
    np.testing.assert_array_equal(model.weights_, mechanism.weights)
    norm = feature_norm or np.sqrt(3)
    assert model.noise_rate_ == pytest.approx(epsilon.sum() / sensitivity_constant(0.3, norm, bound))
    assert np.linalg.norm(model.coef_) <= estimate_norm_bound(0.3, norm, "sharp") * (1 + 1e-12)
    assert (model.coef_ != mechanism.theta).all()
    np.testing.assert_allclose(model.predict(X), X @ model.coef_)
    loud = clone(model).fit(X, y, epsilon=1e6 * epsilon)  # next to no noise: the estimate itself
    np.testing.assert_allclose(loud.coef_, mechanism.theta, atol=1e-4)


def test_one_privacy_loss_for_everybody() -> None:
    X, y, _ = data()
    model = PersonalizedRidge(epsilon=0.7, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.guarantee_, 0.7)
    same = PersonalizedRidge(random_state=0).fit(X, y, epsilon=np.full(300, 0.7))
    np.testing.assert_array_equal(model.coef_, same.coef_)


def test_projection_can_be_left_out() -> None:
    X, y, _ = data(5)
    kept, free = (PersonalizedRidge(epsilon=1e-3, project=p, random_state=0).fit(X, y) for p in (True, False))
    radius = estimate_norm_bound(1.0, np.sqrt(3), "sharp")
    assert np.linalg.norm(kept.coef_) == pytest.approx(radius) and np.linalg.norm(free.coef_) > 10 * radius


def test_random_state() -> None:
    X, y, _ = data()

    def coefficients(state: Any) -> list[float]:
        return PersonalizedRidge(random_state=state).fit(X, y).coef_.tolist()

    assert coefficients(3) == coefficients(3) == coefficients(np.random.RandomState(3))
    assert coefficients(3) != coefficients(4)
    assert coefficients(None) != coefficients(None)
    state = np.random.RandomState(3)
    assert coefficients(state) != coefficients(state)
    before = np.random.get_state()[1].tolist()  # noqa: NPY002 - the global state must stay as it is
    coefficients(3)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_clone_and_pickle() -> None:
    X, y, epsilon = data()
    model = PersonalizedRidge(0.4, epsilon=2.0, bound="paper", feature_norm=1.9, random_state=5)
    assert clone(model).get_params() == model.get_params() and not hasattr(clone(model), "coef_")
    model.fit(X, y, epsilon=epsilon)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert not hasattr(model, "theta_")  # the noiseless estimate stays with nobody
    noiseless = pdp_op(X, y, epsilon, 0.4, bound="paper", feature_norm=1.9).theta
    assert noiseless.tobytes() not in pickle.dumps(model)


def spy(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Record the privacy losses that reach the mechanism."""
    seen: list[np.ndarray] = []
    check = ridge.check_epsilon

    def record(epsilon: Any, n: int | None = None) -> np.ndarray:
        if n is not None:
            seen.append(np.array(epsilon))
        return check(epsilon, n)

    monkeypatch.setattr(ridge, "check_epsilon", record)
    return seen


@pytest.mark.parametrize("routed", [False, True])
def test_privacy_losses_follow_their_records(routed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In cross-validation every fold gets its own records' losses, through a pipeline and with metadata routing too."""
    X, y, epsilon = data()
    folds, seen = KFold(3, shuffle=True, random_state=0), spy(monkeypatch)
    with config_context(enable_metadata_routing=routed):
        model: Any = PersonalizedRidge(0.1, random_state=0)
        key = "epsilon"
        if routed:
            model = make_pipeline(MinMaxScaler(clip=True), model.set_fit_request(epsilon=True))
        scores = cross_val_score(model, X, y, cv=folds, params={key: epsilon})
    assert scores.shape == (3,) and np.isfinite(scores).all()
    assert len(seen) == 3
    for losses, (train, _) in zip(seen, folds.split(X), strict=True):
        np.testing.assert_array_equal(losses, epsilon[train])
    assert (seen[0] != epsilon[: len(seen[0])]).any()


def test_pipeline_and_search() -> None:
    X, y, epsilon = data()
    pipeline = make_pipeline(MinMaxScaler(clip=True), PersonalizedRidge(0.1, random_state=0))
    pipeline.fit(10 * X - 5, y, personalizedridge__epsilon=1e4 * epsilon)
    assert pipeline.predict(10 * X - 5).shape == (300,) and pipeline.score(10 * X - 5, y) > 0.2
    np.testing.assert_allclose(pipeline[-1].guarantee_, 1e4 * epsilon)
    search = GridSearchCV(PersonalizedRidge(epsilon=1e4, random_state=0), {"penalty": [1e-3, 10.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"penalty": 1e-3}


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        ({}, {"X": 2.0}, "features must lie in [0, 1], got X["),
        ({}, {"y": 5.0}, "labels must lie in [-1, 1], got y["),
        ({"feature_norm": 0.5}, {}, "above feature_norm = 0.5"),
        ({"epsilon": 0.0}, {}, "epsilon must be positive and finite, got epsilon[0] = 0.0"),
        ({"epsilon": float("nan")}, {}, "epsilon must be positive and finite, got epsilon[0] = nan"),
        ({"penalty": -1.0}, {}, "penalty must be positive and finite, got -1.0"),
        ({"bound": "tight"}, {}, "bound must be 'sharp' or 'paper', got 'tight'"),
        ({"out_of_range": "ignore"}, {}, "out_of_range must be 'raise' or 'clip', got 'ignore'"),
    ],
)
def test_bad_input(options: dict[str, Any], change: dict[str, float], message: str) -> None:
    X, y, _ = data()
    PersonalizedRidge().fit(X, y)
    with pytest.raises(ValueError, match=re.escape(message)):
        PersonalizedRidge(**options).fit(X * change.get("X", 1.0), y * change.get("y", 1.0))


def test_bad_privacy_losses() -> None:
    X, y, epsilon = data()
    with pytest.raises(ValueError, match="epsilon has 299 entries for 300 records"):
        PersonalizedRidge().fit(X, y, epsilon=epsilon[1:])
    with pytest.raises(ValueError, match=re.escape("epsilon must be positive and finite, got epsilon[7] = -1.0")):
        PersonalizedRidge().fit(X, y, epsilon=np.where(np.arange(300) == 7, -1.0, epsilon))


def test_clipping_is_said_once_and_done() -> None:
    X, y, epsilon = data()
    with pytest.warns(ClipWarning, match=re.escape("of 300 records to the public bounds")) as seen:
        model = PersonalizedRidge(out_of_range="clip", random_state=0).fit(3 * X - 1, 9 * y, epsilon=epsilon)
    assert len(seen) == 1
    inside = PersonalizedRidge(random_state=0).fit(np.clip(3 * X - 1, 0, 1), np.clip(9 * y, -1, 1), epsilon=epsilon)
    np.testing.assert_array_equal(model.coef_, inside.coef_)


def test_half_the_guarantee_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, epsilon = data()
    monkeypatch.setattr(ridge, "personalized_weights", lambda eps: np.asarray(eps) / np.sum(eps) / 2)
    model = PersonalizedRidge().fit(X, y, epsilon=epsilon)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(model.guarantee_, epsilon)
