"""The estimators in scikit-learn: its own checks, pipelines, cross-validation, and whose privacy loss goes where."""

from __future__ import annotations

import math
import pickle
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn import config_context
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, Normalizer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from hdpm_lib.learners import estimators, lattice, logistic, ridge
from hdpm_lib.learners.estimators import PersonalizedRidge, PrivateLogisticRegression, private_pipeline
from hdpm_lib.learners.lattice import lattice_ridge
from hdpm_lib.learners.ridge import estimate_norm_bound, output_perturbation, sensitivity_constant
from hdpm_lib.schema import Number, Schema
from hdpm_lib.validation import FALSE_ALARM
from tests.support import generator

UNDECLARED = "ignore:classes is not given:UserWarning"  # scikit-learn's checks have classes of many names


def against_the_policy(estimator: Any) -> dict[str, str]:
    """Checks that want an error which would tell of the data, and clipping has none."""
    found = {"check_complex_data": "complex cells are clipped"}
    if isinstance(estimator, PersonalizedRidge):
        found["check_supervised_y_no_nan"] = "missing labels are clipped"
    return found


@pytest.mark.filterwarnings(UNDECLARED)
@parametrize_with_checks(
    [
        PersonalizedRidge(out_of_range="clip"),
        PersonalizedRidge(out_of_range="clip", arithmetic="ideal"),
        PrivateLogisticRegression(out_of_range="clip"),
    ],
    expected_failed_checks=against_the_policy,
    xfail_strict=True,
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


CLASSES = ("no", "yes")


def declared(learner: Any) -> dict[str, Any]:
    """Options of a learner: the classifier's classes."""
    return {"classes": CLASSES} if learner is PrivateLogisticRegression else {}


def data(n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = generator(71)
    X = rng.random((n, 3))
    return X, X @ [0.6, -0.4, 0.2], rng.uniform(0.5, 5, n)


@pytest.mark.parametrize("bound", ["sharp", "paper"])
@pytest.mark.parametrize("feature_norm", [None, 1.8])
def test_fit_is_one_release_of_the_mechanism(bound: Any, feature_norm: float | None) -> None:
    X, y, epsilon = data()
    model = PersonalizedRidge(0.3, bound=bound, feature_norm=feature_norm, random_state=1).fit(X, y, epsilon=epsilon)
    mechanism = output_perturbation(X, y, epsilon, 0.3, bound=bound, feature_norm=feature_norm)
    np.testing.assert_allclose(model.privacy_loss_, epsilon)
    np.testing.assert_allclose(model.weights_, mechanism.weights)
    norm = feature_norm or np.sqrt(3)
    assert model.noise_rate_ == pytest.approx(epsilon.sum() / sensitivity_constant(0.3, norm, bound))
    assert np.linalg.norm(model.coef_) <= estimate_norm_bound(0.3, norm, "sharp") * (1 + 1e-12)
    assert (model.coef_ != mechanism.theta).all()
    np.testing.assert_allclose(model.predict(X), X @ model.coef_)
    loud = clone(model).fit(X, y, epsilon=1e6 * epsilon)  # next to no noise: the estimate itself
    np.testing.assert_allclose(loud.coef_, mechanism.theta, atol=1e-4)


@pytest.mark.parametrize("learner", [PersonalizedRidge, PrivateLogisticRegression])
def test_one_privacy_loss_for_everybody(learner: Any) -> None:
    X, y, _ = data() if learner is PersonalizedRidge else labelled()
    model = learner(epsilon=0.7, random_state=0, **declared(learner)).fit(X, y)
    np.testing.assert_allclose(model.privacy_loss_, 0.7)
    for epsilon in (0.7, np.full(300, 0.7)):
        same = learner(random_state=0, **declared(learner)).fit(X, y, epsilon=epsilon)
        np.testing.assert_array_equal(model.coef_, same.coef_)


def test_projection_can_be_left_out() -> None:
    X, y, _ = data(5)
    kept, free = (PersonalizedRidge(epsilon=1e-3, project=p, random_state=0).fit(X, y) for p in (True, False))
    radius = estimate_norm_bound(1.0, np.sqrt(3), "sharp")
    assert np.linalg.norm(kept.coef_) == pytest.approx(radius) and np.linalg.norm(free.coef_) > 10 * radius


@pytest.mark.parametrize("project", [True, False])
@pytest.mark.parametrize("feature_norm", [None, 1.8])
def test_fit_on_a_lattice_is_one_release_of_the_exact_mechanism(project: bool, feature_norm: float | None) -> None:
    X, y, epsilon = data()
    options: dict[str, Any] = {"bound": "sharp", "feature_norm": feature_norm}
    model = PersonalizedRidge(0.3, project=project, random_state=1, **options).fit(X, y, epsilon=epsilon)
    mechanism = lattice_ridge(X, y, epsilon, 0.3, **options)
    rng = estimators._generator(1)
    np.testing.assert_array_equal(model.coef_, mechanism.release(rng=rng, project=project))
    np.testing.assert_array_equal(model.privacy_loss_, mechanism.privacy_loss)
    assert (model.privacy_loss_ <= epsilon).all() and model.privacy_loss_.min() == pytest.approx(epsilon.min())
    assert model.noise_rate_ == mechanism.noise_rate
    assert project or (model.coef_ % mechanism.spacing == 0).all()
    free = PersonalizedRidge(0.3, project=project, arithmetic="ideal", random_state=1, **options).fit(X, y, epsilon)
    assert free.noise_rate_ > model.noise_rate_ == pytest.approx(free.noise_rate_, rel=1e-8)
    assert (free.coef_ % mechanism.spacing != 0).all()


@pytest.mark.parametrize("learner", [PersonalizedRidge, PrivateLogisticRegression])
def test_random_state(learner: Any) -> None:
    X, y, _ = data() if learner is PersonalizedRidge else labelled()

    def coefficients(state: Any) -> list[float]:
        return learner(random_state=state, **declared(learner)).fit(X, y).coef_.tolist()

    assert coefficients(3) == coefficients(3) == coefficients(np.random.RandomState(3))
    assert coefficients(3) != coefficients(4)
    assert coefficients(None) != coefficients(None)
    state = np.random.RandomState(3)
    assert coefficients(state) != coefficients(state)
    rng = np.random.default_rng(3)
    assert coefficients(rng) != coefficients(rng)
    assert coefficients(np.random.default_rng(3)) == coefficients(np.random.default_rng(3))
    before = np.random.get_state()[1].tolist()  # noqa: NPY002 - the global state must stay as it is
    coefficients(3)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def noiseless_difference(fit: Callable[[int], np.ndarray]) -> float:
    """The part of the difference of two fits, on neighbouring data, that is not that of their noiseless estimates."""
    X, y, epsilon = data()
    neighbours = X, np.append(-np.sign(y[0]), y[1:])
    truth = [output_perturbation(*records, epsilon, 1.0, bound="sharp").theta for records in ((X, y), neighbours)]
    return float(np.abs(np.subtract(fit(0), fit(1)) - np.subtract(*truth)).max())


@pytest.mark.parametrize("how", ["seed", "global seed", "copied generator", "clones", "none"])
def test_default_noise_cannot_be_predicted(how: str) -> None:
    """A seed shows what must not happen: the noise of two fits cancels, and their estimates lie bare."""
    X, y, epsilon = data()
    labels = y, np.append(-np.sign(y[0]), y[1:])
    rng = np.random.default_rng(0)
    original = PersonalizedRidge(project=False, random_state=rng)

    def fit(k: int) -> np.ndarray:
        model: Any = PersonalizedRidge(project=False, random_state=42 if how == "seed" else None)
        if how == "global seed":
            np.random.seed(42)  # noqa: NPY002
        elif how == "copied generator":
            model.set_params(random_state=np.random.default_rng(0))
        elif how == "clones":
            model = clone(original)
        return model.fit(X, labels[k], epsilon=epsilon).coef_

    assert (noiseless_difference(fit) < 1e-8) == (how in ("seed", "copied generator"))


@pytest.mark.parametrize("source", [np.random.default_rng, np.random.RandomState])
def test_clones_are_seeded_with_256_bits(source: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    seeds, fresh = [], np.random.default_rng
    original = PersonalizedRidge(random_state=source(3))
    monkeypatch.setattr(np.random, "default_rng", lambda seed: seeds.append(seed) or fresh(seed))
    for _ in range(100):
        clone(original)
    assert np.shape(seeds) == (100, 8) and len(np.unique(seeds)) > 790
    bits = (np.array(seeds, dtype=np.uint32)[..., None] >> np.arange(32, dtype=np.uint32)) & 1
    assert np.abs(bits.mean((0, 1)) - 0.5).max() < stats.norm.isf(FALSE_ALARM / 64) / math.sqrt(4 * 800)


@pytest.mark.parametrize("source", [np.random.default_rng, np.random.RandomState])
def test_clones_have_noise_of_their_own(source: Callable[[int], Any]) -> None:
    X, y, _ = data()

    def fits() -> np.ndarray:
        models = [PersonalizedRidge(random_state=source(3))]
        models += [clone(models[0]) for _ in range(3)]  # as a search makes them, before any is fitted
        return np.array([model.fit(X, y).coef_ for model in models])

    assert len(np.unique(fits())) == 12
    np.testing.assert_array_equal(fits(), fits())


def test_clone_and_pickle() -> None:
    X, y, epsilon = data()
    model = PersonalizedRidge(0.4, epsilon=2.0, bound="paper", feature_norm=1.9, random_state=5)
    assert clone(model).get_params() == model.get_params() and not hasattr(clone(model), "coef_")
    model.fit(X, y, epsilon=epsilon)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert not hasattr(model, "theta_")  # the noiseless estimate stays with nobody
    noiseless = output_perturbation(X, y, epsilon, 0.4, bound="paper", feature_norm=1.9).theta
    assert noiseless.tobytes() not in pickle.dumps(model)
    classifier = PrivateLogisticRegression(0.4, epsilon=2.0, classes=CLASSES, random_state=5)
    assert clone(classifier).get_params() == classifier.get_params()
    X, labels, _ = labelled()
    classifier.fit(X, labels)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(classifier)).predict(X), classifier.predict(X))


def spy(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Record the privacy losses that reach the mechanism."""
    seen: list[np.ndarray] = []
    check = lattice.check_epsilon

    def record(epsilon: Any, n: int | None = None) -> np.ndarray:
        if n is not None:
            seen.append(np.array(epsilon))
        return check(epsilon, n)

    monkeypatch.setattr(lattice, "check_epsilon", record)
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


@pytest.mark.parametrize(
    ("step", "warned"),
    [
        (MinMaxScaler(), True),
        (StandardScaler(), True),
        (make_pipeline(PCA(2)), True),
        (FrozenEstimator(MinMaxScaler().fit([[0.0] * 3, [2.0] * 3])), False),
        (FunctionTransformer(np.square), False),
        (Schema([Number("age", 18, 64)]), False),
        (Normalizer(), False),
        ("passthrough", False),
        (None, False),
    ],
)
def test_pipeline_warns_of_steps_that_learn_from_the_data(step: Any, warned: bool) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        pipeline = private_pipeline(step, PersonalizedRidge())
    texts = [str(one.message) for one in said]
    name = pipeline.steps[0][0]
    text = f"step {name!r} is fitted on the data, so that one record can move all others"
    assert texts == [f"{text}: fit it on public ranges and freeze it, by FrozenEstimator"] * warned
    assert said == [] or said[0].filename == __file__
    assert [name for name, _ in pipeline.steps] == [name for name, _ in make_pipeline(step, PersonalizedRidge()).steps]


def test_pipeline_and_search() -> None:
    X, y, epsilon = data()
    pipeline = make_pipeline(MinMaxScaler(clip=True), PersonalizedRidge(0.1, random_state=0))
    pipeline.fit(10 * X - 5, y, personalizedridge__epsilon=1e4 * epsilon)
    assert pipeline.predict(10 * X - 5).shape == (300,) and pipeline.score(10 * X - 5, y) > 0.2
    np.testing.assert_allclose(pipeline[-1].privacy_loss_, 1e4 * epsilon)
    search = GridSearchCV(PersonalizedRidge(epsilon=1e4, random_state=0), {"penalty": [1e-3, 10.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"penalty": 1e-3}


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        ({}, {"X": 2.0}, "X must lie in [0, 1]"),
        ({}, {"y": 5.0}, "y must lie in [-1, 1]"),
        ({"label_bound": 0.01}, {}, "y must lie in [-0.01, 0.01]"),
        ({"feature_norm": 0.5}, {}, "rows of X must have a norm of at most feature_norm = 0.5"),
        ({"epsilon": 0.0}, {}, "epsilon must be positive and finite, got 0.0"),
        ({"penalty": -1.0}, {}, "penalty must be positive and finite, got -1.0"),
        ({"arithmetic": "floats"}, {}, "arithmetic must be 'lattice' or 'ideal', got 'floats'"),
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
    with pytest.raises(TypeError, match="epsilon must be a number"):
        PersonalizedRidge().fit(X, y, epsilon="0.5")
    with pytest.raises(ValueError, match="epsilon has 299 entries for 300 records"):
        PersonalizedRidge().fit(X, y, epsilon=epsilon[1:])
    with pytest.raises(ValueError, match=re.escape("epsilon must be positive and finite, got epsilon[7] = -1.0")):
        PersonalizedRidge().fit(X, y, epsilon=np.where(np.arange(300) == 7, -1.0, epsilon))


def test_clipping_is_done_without_a_word() -> None:
    X, y, epsilon = data()
    model = PersonalizedRidge(out_of_range="clip", random_state=0).fit(3 * X - 1, 9 * y, epsilon=epsilon)
    inside = PersonalizedRidge(random_state=0).fit(np.clip(3 * X - 1, 0, 1), np.clip(9 * y, -1, 1), epsilon=epsilon)
    np.testing.assert_array_equal(model.coef_, inside.coef_)


def test_half_the_guarantee_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, epsilon = data()
    monkeypatch.setattr(ridge, "personalized_weights", lambda eps: np.asarray(eps) / np.sum(eps) / 2)
    model = PersonalizedRidge(arithmetic="ideal").fit(X, y, epsilon=epsilon)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(model.privacy_loss_, epsilon)


# --- the classifier ---------------------------------------------------------------------------------------------------


def labelled(n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Records of two classes that a line through the origin separates, and privacy losses."""
    rng = generator(72)
    X = rng.standard_normal((n, 3))
    X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    return X, np.where(X @ [0.6, -0.4, 0.2] > 0, "yes", "no"), rng.uniform(0.5, 5, n)


@pytest.mark.parametrize("penalty", [0.001, 0.01])
def test_classifier_is_one_release_of_the_mechanism(penalty: float, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, epsilon = labelled()
    made: list[logistic.ObjectivePerturbation] = []

    def spied(*args: Any, **options: Any) -> logistic.ObjectivePerturbation:
        made.append(logistic.objective_perturbation(*args, **options))
        return made[-1]

    monkeypatch.setattr(estimators, "objective_perturbation", spied)
    model = PrivateLogisticRegression(penalty, classes=CLASSES, random_state=1).fit(X, y, epsilon=epsilon)
    (one,) = made
    np.testing.assert_array_equal(one.y, np.where(y == "yes", 1.0, -1.0))
    np.testing.assert_allclose(one.weights, epsilon / epsilon.sum())
    assert one.penalty == penalty and one.eta == model.eta_
    assert model.classes_.tolist() == ["no", "yes"] and model.coef_.shape == (1, 3)
    residual = one.penalty * model.coef_[0] - (one.weights / (1 + np.exp(one.y * (X @ model.coef_[0])))) @ (
        one.y[:, None] * X
    )  # minus the noise
    assert 0 < np.linalg.norm(residual) < 100 / one.eta
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores, X @ model.coef_[0])
    np.testing.assert_array_equal(model.predict(X), np.where(scores > 0, "yes", "no"))
    loud = clone(model).fit(X, y, epsilon=100 * epsilon)  # next to no noise: the minimiser itself
    np.testing.assert_allclose(penalty * loud.coef_[0], penalty * made[-1].minimise(np.zeros(3)), atol=5e-3)
    assert loud.score(X, y) > 0.97


def promise_kept(epsilon: np.ndarray, penalty: float, model: PrivateLogisticRegression) -> bool:
    """Is what a formula of our own gives for the least favourable pull at most the promise, and equal to it once?"""
    q = np.linspace(0, 1, 20_001)
    a = epsilon / epsilon.sum()
    loss = np.array([w * model.eta_ + np.max(np.log1p(w / penalty * q * (1 - q)) - w * model.eta_ * q / 2) for w in a])
    np.testing.assert_allclose(model.privacy_loss_, loss, rtol=1e-6)
    return bool((model.privacy_loss_ <= epsilon * (1 + 1e-12)).all() and np.isclose(model.privacy_loss_, epsilon).any())


@pytest.mark.parametrize("penalty", [0.0008, 0.0015, 0.1])
def test_classifier_keeps_exactly_what_was_promised(penalty: float, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, epsilon = labelled()
    model = PrivateLogisticRegression(penalty, classes=CLASSES, random_state=1).fit(X, y, epsilon=epsilon)
    assert promise_kept(epsilon, penalty, model)
    if penalty == 0.1:
        np.testing.assert_allclose(model.privacy_loss_, epsilon)
        assert model.eta_ == pytest.approx(epsilon.sum())
    assert (model.eta_ < epsilon.sum() * (1 - 1e-9)) == (penalty < 2 / epsilon.sum())
    monkeypatch.setattr(estimators, "eta_within", lambda epsilon, weights, penalty: float((epsilon / weights).min()))
    without_slack = PrivateLogisticRegression(penalty, classes=CLASSES, random_state=1).fit(X, y, epsilon=epsilon)
    assert promise_kept(epsilon, penalty, without_slack) == (penalty == 0.1)


@pytest.mark.filterwarnings(UNDECLARED)
@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        ({}, {"X": 2.0}, "X must hold rows of norm at most 1: scale by a public bound, or clip"),
        ({}, {"y": "one"}, "y must hold two labels, not one class, more or continuous numbers: declare the classes"),
        ({"classes": ("no", "yes")}, {"y": "three"}, "y must hold no label but the declared classes ['no', 'yes']"),
        ({"classes": (0, 1)}, {}, "y must hold no label but the declared classes [0, 1]"),
        ({"classes": ("no", "no")}, {}, "classes must be two different labels, got ('no', 'no')"),
        ({}, {"y": "three"}, "Only binary classification is supported: y must hold two labels, not one class, more or"),
        ({"epsilon": 0.0}, {}, "epsilon must be positive and finite, got 0.0"),
        ({"penalty": -1.0}, {}, "penalty must be positive and finite, got -1.0"),
        (
            {"penalty": 1e-4},
            {},
            "penalty = 0.0001 gives some record a slack above its epsilon: it must exceed 0.000484",
        ),
        ({"out_of_range": "ignore"}, {}, "out_of_range must be 'raise' or 'clip', got 'ignore'"),
    ],
)
def test_classifier_refuses_bad_input(options: dict[str, Any], change: dict[str, Any], message: str) -> None:
    X, y, _ = labelled()
    labels = {"one": np.full(300, "no"), "three": np.append(y[:-1], "perhaps")}.get(change.get("y", ""), y)
    PrivateLogisticRegression(classes=CLASSES).fit(X, y)
    with pytest.raises(ValueError, match=re.escape(message)):
        PrivateLogisticRegression(**options).fit(X * change.get("X", 1.0), labels)


@pytest.mark.filterwarnings("error")
def test_classifier_clips_and_says_nothing() -> None:
    X, y, epsilon = labelled()
    model = PrivateLogisticRegression(out_of_range="clip", classes=CLASSES, random_state=0).fit(
        3 * X, y, epsilon=epsilon
    )
    short = 3 * X / np.maximum(1, np.linalg.norm(3 * X, axis=1, keepdims=True))
    inside = PrivateLogisticRegression(classes=CLASSES, random_state=0).fit(short, y, epsilon=epsilon)
    np.testing.assert_allclose(model.coef_, inside.coef_, rtol=1e-9)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("labels", ["no", "yes", "both"])
@pytest.mark.parametrize("rows", ["one", "many", "empty", "equal"])
def test_classifier_with_declared_classes_fits_every_data_set(labels: str, rows: str) -> None:
    X, y, _ = labelled(20)
    X, y = {"one": (X[:1], y[:1]), "many": (X, y), "empty": (0 * X, y), "equal": (0 * X + 0.5, y)}[rows]
    y = y if labels == "both" else np.full(len(y), labels)
    model = PrivateLogisticRegression(1.0, classes=("yes", "no"), random_state=0).fit(X, y)
    assert model.coef_.shape == (1, 3) and np.isfinite(model.coef_).all()
    assert model.classes_.tolist() == ["no", "yes"] and set(model.predict(X)) <= {"no", "yes"}
    np.testing.assert_allclose(model.privacy_loss_, 1.0)


@pytest.mark.filterwarnings(UNDECLARED)
def test_declared_classes_change_nothing_where_both_occur() -> None:
    X, y, epsilon = labelled()
    models = [PrivateLogisticRegression(random_state=0, classes=c).fit(X, y, epsilon) for c in (None, ("yes", "no"))]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_classifier_in_cross_validation() -> None:
    X, y, epsilon = labelled()
    folds, seen = KFold(3, shuffle=True, random_state=0), []

    class Spy(PrivateLogisticRegression):
        def fit(self, X: Any, y: Any, epsilon: Any = None, record: Any = None) -> Any:
            seen.append(epsilon)
            return super().fit(X, y, epsilon, record)

    scores = cross_val_score(
        Spy(0.01, classes=CLASSES, random_state=0), X, y, cv=folds, params={"epsilon": 100 * epsilon}
    )
    assert scores.min() > 0.85
    for losses, (train, _) in zip(seen, folds.split(X), strict=True):
        np.testing.assert_array_equal(losses, 100 * epsilon[train])
