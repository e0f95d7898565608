"""The estimators in scikit-learn: its own checks, pipelines, cross-validation, and whose privacy
loss goes where.
"""

from __future__ import annotations

import copy
import math
import pickle
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import NMF, PCA
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, Normalizer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from hdpm_lib import accounts
from hdpm_lib.learners import estimators
from hdpm_lib.learners.estimators import (
    PersonalizedRidge,
    PrivateLogisticRegression,
    private_pipeline,
)
from hdpm_lib.learners.logistic import objective_perturbation
from hdpm_lib.learners.second_moments import second_moments
from hdpm_lib.noise import spherical_laplace
from hdpm_lib.schema import Number, Schema
from hdpm_lib.validation import FALSE_ALARM
from tests.audits.test_settings import alternatives
from tests.support import generator

# scikit-learn's checks have classes of many names
UNDECLARED = "ignore:classes is not given:UserWarning"


def against_the_policy(estimator: Any) -> dict[str, str]:
    """Checks that want an error which would tell of the data, and clipping has none."""
    found = {"check_complex_data": "complex cells are clipped"}
    if isinstance(estimator, PersonalizedRidge):
        found["check_supervised_y_no_nan"] = "missing labels are clipped"
    return found


@pytest.mark.filterwarnings(UNDECLARED)
@parametrize_with_checks(
    [
        PersonalizedRidge(clip=True),
        PersonalizedRidge(clip=True, arithmetic="ideal"),
        PrivateLogisticRegression(clip=True),
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


def labelled(n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Records of two classes that a line through the origin separates, and privacy losses."""
    rng = generator(72)
    X = rng.standard_normal((n, 3))
    X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    return X, np.where(X @ [0.6, -0.4, 0.2] > 0, "yes", "no"), rng.uniform(0.5, 5, n)


RIDGE: dict[str, Any] = {"penalty": (0.3,), "feature_norm": (1.8,), "label_bound": (0.5,)}


@pytest.mark.parametrize(
    "options", [*alternatives(PersonalizedRidge, RIDGE, "epsilon random_state")], ids=str
)
def test_fit_is_one_release_of_the_mechanism(options: dict[str, Any]) -> None:
    X, y, epsilon = data()
    epsilon /= 1000  # so much noise that some predictions are cut
    model = PersonalizedRidge(**{"arithmetic": "ideal", "random_state": 1, **options})
    clip = model.clip
    y = model.label_bound * y
    X = (2.0 if clip else 1.0) * X
    model.fit(X, y, epsilon=epsilon)
    bounds = {
        "feature_norm": model.feature_norm,
        "label_bound": model.label_bound,
        "clip": clip,
    }
    mechanism = second_moments(X, y, epsilon, model.penalty, arithmetic=model.arithmetic, **bounds)
    np.testing.assert_array_equal(model.coef_, mechanism.release(rng=estimators._generator(1)))
    assert model.penalty_ == mechanism.penalty
    np.testing.assert_array_equal(model.privacy_loss_, mechanism.privacy_loss)
    np.testing.assert_array_equal(model.weights_, mechanism.weights)
    a = model.label_bound
    np.testing.assert_array_equal(model.predict(X), np.clip(X @ model.coef_, -a, a))
    assert model.noise_rate_ == mechanism.noise_rate


@pytest.mark.parametrize("learner", [PersonalizedRidge, PrivateLogisticRegression])
def test_one_privacy_loss_for_everybody(learner: Any) -> None:
    X, y, _ = data() if learner is PersonalizedRidge else labelled()
    model = learner(epsilon=0.7, random_state=0, **declared(learner)).fit(X, y)
    np.testing.assert_allclose(model.privacy_loss_, 0.7)
    for epsilon in (0.7, np.full(300, 0.7)):
        same = learner(random_state=0, **declared(learner)).fit(X, y, epsilon=epsilon)
        np.testing.assert_array_equal(model.coef_, same.coef_)


@pytest.mark.parametrize("learner", [PersonalizedRidge, PrivateLogisticRegression])
def test_random_state(learner: Any) -> None:
    X, y, _ = data() if learner is PersonalizedRidge else labelled()

    def coefficients(state: Any) -> list[float]:
        return learner(random_state=state, **declared(learner)).fit(X, y).coef_.tolist()

    assert (
        coefficients(3)
        == coefficients(3)
        == coefficients(np.random.RandomState(3))
        != coefficients(4)
    )
    for source in (np.random.RandomState, np.random.default_rng):
        given = source(3)
        assert coefficients(given) != coefficients(given) and coefficients(
            source(3)
        ) == coefficients(source(3))
    seeded = []
    for _ in range(2):  # the global state neither tells the noise nor is changed
        np.random.seed(42)  # noqa: NPY002
        before = np.random.get_state()[1].tolist()  # noqa: NPY002
        seeded += [coefficients(None), coefficients(3)]
        assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
    assert seeded[0] != seeded[2]


@pytest.mark.parametrize("source", [np.random.default_rng, np.random.RandomState])
def test_clones_are_seeded_with_256_bits(
    source: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = []
    fresh = np.random.default_rng
    original = PersonalizedRidge(random_state=source(3))
    monkeypatch.setattr(np.random, "default_rng", lambda seed: seeds.append(seed) or fresh(seed))
    for _ in range(100):
        clone(original)
    assert np.shape(seeds) == (100, 8) and len(np.unique(seeds)) > 790
    bits = (np.array(seeds, dtype=np.uint32)[..., None] >> np.arange(32, dtype=np.uint32)) & 1
    assert np.abs(bits.mean((0, 1)) - 0.5).max() < stats.norm.isf(FALSE_ALARM / 64) / math.sqrt(
        4 * 800
    )


def test_noiseless_estimate_stays_with_nobody() -> None:
    X, y, epsilon = data()
    model = PersonalizedRidge(0.4, feature_norm=1.9, arithmetic="ideal").fit(X, y, epsilon=epsilon)
    made = second_moments(X, y, epsilon, 0.4, feature_norm=1.9, arithmetic="ideal")
    kept = pickle.dumps(model)
    assert made._in_floats().tobytes() not in kept
    assert made._solved(made._in_floats()).tobytes() not in kept


def stepped_back(model: Any, X: np.ndarray, losses: np.ndarray) -> np.ndarray | None:
    """The noise of a model, from what is public; None if it holds no generator.

    Its generator is stepped back until a release of records that tell nothing ends where it is.
    """
    if not isinstance(model.random_state, np.random.Generator):
        return None
    end = model.random_state.bit_generator.state
    public = second_moments(np.zeros(X.shape), np.zeros(len(X)), losses, arithmetic="ideal")
    for steps in range(200):
        bits = np.random.PCG64()
        bits.state = end
        drawn = np.random.Generator(bits.advance(-steps))
        noise = spherical_laplace(public.dimension, public.noise_rate, rng=drawn)
        if bits.state == end:
            return noise
    return None


@pytest.mark.parametrize("source", [np.random.default_rng, int, np.random.RandomState])
def test_the_noise_cannot_be_stepped_back_to(source: Any) -> None:
    """Pickles and copies of a model hold nothing that its noise came from, in no attribute."""
    X, y, losses = data()
    made = second_moments(X, y, losses, 1.0, arithmetic="ideal")
    model = PersonalizedRidge(1.0, arithmetic="ideal", random_state=source(5))
    model.fit(X, y, losses)
    if source is np.random.default_rng:
        noise = stepped_back(model, X, losses)
        assert noise is not None
        found = made._solved(made._in_floats() + noise)
        np.testing.assert_allclose(found, model.coef_, atol=1e-12)
    pipeline = make_pipeline(FunctionTransformer(), model)
    search = GridSearchCV(
        PersonalizedRidge(random_state=source(5)), {"penalty": [1.0]}, cv=KFold(2)
    ).fit(X, y)
    kept = [
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
        copy.copy(model),
        pickle.loads(pickle.dumps(pipeline))[-1],
        pickle.loads(pickle.dumps(search)).best_estimator_,
    ]
    if source is not int:  # clones of a seed have that seed, and none is fitted
        kept.append(pickle.loads(pickle.dumps(search)).estimator)
    for one in kept:
        assert one.random_state is None and stepped_back(one, X, losses) is None
        kinds = (np.random.Generator, np.random.RandomState, np.random.BitGenerator)
        assert not any(isinstance(part, kinds) for part in vars(one).values())
    np.testing.assert_array_equal(kept[0].coef_, model.coef_)
    fresh = PersonalizedRidge(random_state=source(5))  # goes to workers as it is
    assert pickle.loads(pickle.dumps(fresh)).random_state is not None


@pytest.mark.parametrize("routed", [False, True])
@pytest.mark.parametrize("learner", [PersonalizedRidge, PrivateLogisticRegression])
def test_privacy_losses_follow_their_records(
    learner: Any, routed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In cross-validation every fold gets its own records' losses, through a pipeline and with
    metadata routing too.
    """
    X, y, epsilon = data() if learner is PersonalizedRidge else labelled()
    folds = KFold(3, shuffle=True, random_state=0)
    seen = []
    fit = learner.fit

    def spied(self: Any, X: Any, y: Any, epsilon: Any = None, record: Any = None) -> Any:
        seen.append((epsilon, fit(self, X, y, epsilon, record).privacy_loss_))
        return self

    monkeypatch.setattr(learner, "fit", spied)
    with config_context(enable_metadata_routing=routed):
        model: Any = learner(0.1, random_state=0, **declared(learner))
        if routed:
            model = make_pipeline(FunctionTransformer(), model.set_fit_request(epsilon=True))
        scores = cross_val_score(model, X, y, cv=folds, params={"epsilon": 100 * epsilon})
    assert scores.shape == (3,) and scores.min() > 0.5
    for (losses, spent), (train, _) in zip(seen, folds.split(X), strict=True):
        np.testing.assert_array_equal(losses, 100 * epsilon[train])
        np.testing.assert_allclose(spent, losses)


class Own(TransformerMixin, BaseEstimator):
    """A transformer that nobody knows."""

    def fit(self, X: Any, y: Any = None) -> Own:
        return self

    def transform(self, X: Any) -> Any:
        return X - X.min(0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


class OwnNormalizer(Normalizer):
    """A transformer of scikit-learn that was changed."""


RANGES = [[0.0] * 3, [2.0] * 3]
MINIMUM = FunctionTransformer(lambda X: (X - X.min(0)) / np.ptp(X, axis=0))


@pytest.mark.parametrize(
    ("step", "warned"),
    [
        (MinMaxScaler(), True),
        (StandardScaler(), True),
        (make_pipeline(PCA(2)), True),
        (MINIMUM, True),
        (FunctionTransformer(np.linalg.inv), True),
        (Own(), True),
        (OwnNormalizer(), True),
        (FrozenEstimator(MINIMUM), True),
        (FrozenEstimator(Own()), True),
        (FrozenEstimator(NMF(2)), True),
        (FrozenEstimator(make_pipeline(MinMaxScaler(), MINIMUM)), True),
        (FrozenEstimator(ColumnTransformer([("own", Own(), [0])])), True),
        (FrozenEstimator(MinMaxScaler().fit(RANGES)), False),
        (FrozenEstimator(make_pipeline(MinMaxScaler(), PCA(2)).fit(RANGES)), False),
        (FrozenEstimator(make_pipeline(FrozenEstimator(MinMaxScaler()), Normalizer())), False),
        (FrozenEstimator(ColumnTransformer([("age", MinMaxScaler(), [0])])), False),
        (FunctionTransformer(np.square), False),
        (FunctionTransformer(), False),
        (Schema([Number("age", 18, 64)]), False),
        (Normalizer(), False),
        ("passthrough", False),
        (None, False),
    ],
)
def test_pipeline_warns_of_steps_that_may_mix_records(step: Any, warned: bool) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        pipeline = private_pipeline(step, PersonalizedRidge())
    texts = [str(one.message) for one in said]
    name = pipeline.steps[0][0]
    text = f"step {name!r} is fitted on the data, or not known to go row by row, so that one record"
    text += " can move all others: put a Schema in its place, or fit one of scikit-learn's on"
    text += " public ranges and freeze it, by FrozenEstimator"
    assert texts == [text] * warned
    assert said == [] or said[0].filename == __file__
    assert [name for name, _ in pipeline.steps] == [
        name for name, _ in make_pipeline(step, PersonalizedRidge()).steps
    ]


def test_a_hopeless_fit_says_so_before_it_spends() -> None:
    """From public numbers alone: another data set gets the same sentence."""
    X, y, _ = data()
    said = set()
    for labels in (y, -y):
        with (
            accounts.Account(len(X)) as account,
            pytest.warns(UserWarning, match="^the fit will be mostly noise: of the lab") as found,
        ):
            PersonalizedRidge(epsilon=1e-3).fit(X, labels, record=np.arange(len(X)))
        said.add(str(found[0].message))
        assert found[0].filename == __file__ and account.releases == 1
    assert len(said) == 1
    with pytest.warns(UserWarning, match="it is longer than what all records can pull"):
        PrivateLogisticRegression(epsilon=1e-3, classes=(-1, 1)).fit(X / 3, np.sign(y))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PersonalizedRidge(epsilon=100.0).fit(X, y)
        PrivateLogisticRegression(epsilon=100.0, classes=(-1, 1)).fit(X / 3, np.sign(y))


# --- the classifier -----------------------------------------------------------------------------


LOGISTIC: dict[str, Any] = {"penalty": (0.0008, 0.0015), "classes": (("yes", "no"),)}


@pytest.mark.parametrize(
    "options", [*alternatives(PrivateLogisticRegression, LOGISTIC, "epsilon random_state")], ids=str
)
def test_classifier_is_one_release_that_keeps_exactly_what_was_promised(
    options: dict[str, Any],
) -> None:
    """By a formula of our own for the least favourable pull: at most the promise, and once equal to
    it.
    """
    X, y, epsilon = labelled()
    model = PrivateLogisticRegression(**{"classes": CLASSES, "random_state": 1, **options})
    clip = model.clip
    X = (3 if clip else 1) * X
    model.fit(X, y, epsilon=epsilon)
    penalty = 4 / epsilon.sum() if model.penalty is None else model.penalty
    assert model.penalty_ == penalty
    a = epsilon / epsilon.sum()
    signs = np.where(y == "yes", 1.0, -1.0)
    eta = model.eta_
    released = objective_perturbation(X, signs, a, eta, penalty, clip=clip).release(
        rng=estimators._generator(1)
    )
    np.testing.assert_array_equal(model.coef_, released[None])
    np.testing.assert_allclose(model.weights_, a)
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores, X @ model.coef_[0])
    np.testing.assert_array_equal(model.predict(X), np.where(scores > 0, "yes", "no"))
    chances = model.predict_proba(X)
    np.testing.assert_allclose(np.log(chances[:, 1] / chances[:, 0]), scores, atol=1e-9)
    assert model.classes_.tolist() == ["no", "yes"]
    q = np.linspace(0, 1, 20_001)
    loss = [w * eta + np.max(np.log1p(w / penalty * q * (1 - q)) - w * eta * q / 2) for w in a]
    np.testing.assert_allclose(model.privacy_loss_, loss, rtol=1e-6)
    assert (model.privacy_loss_ <= epsilon * (1 + 1e-12)).all() and np.isclose(
        model.privacy_loss_, epsilon
    ).any()
    assert (eta < epsilon.sum() * (1 - 1e-9)) == (penalty < 2 / epsilon.sum())


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (PersonalizedRidge(epsilon=0.0), "epsilon must be positive and finite, got 0.0"),
        (PersonalizedRidge(penalty=-1.0), "penalty must be positive and finite, got -1.0"),
        (
            PersonalizedRidge(arithmetic="floats"),
            "arithmetic must be 'exact' or 'ideal', got 'floats'",
        ),
        (
            PrivateLogisticRegression(classes=(0, 1)),
            "y must hold no label but the declared classes [0, 1]",
        ),
        (
            PrivateLogisticRegression(classes=("no", "no")),
            "classes must be two different labels that can be sorted, got ('no', 'no')",
        ),
        (
            PrivateLogisticRegression(1e-4, classes=CLASSES),
            "gives some record a slack above its epsilon: it must exceed",
        ),
    ],
)
def test_bad_options(model: Any, message: str) -> None:
    X, y, _ = data() if isinstance(model, PersonalizedRidge) else labelled()
    with pytest.raises(ValueError, match=re.escape(message)):
        model.fit(X, y)
    with pytest.raises(TypeError, match=r"^clip must be True or False, got 'ignore'"):
        clone(model).set_params(clip="ignore").fit(X, y)


def test_any_loss_that_floats_hold_is_one() -> None:
    X, y, _ = data()
    for epsilon in (1e20, np.full(300, 1e20)):
        model = PersonalizedRidge(0.1).fit(X, y, epsilon=epsilon)
        np.testing.assert_allclose(model.privacy_loss_, 1e20)
        assert np.isfinite(model.coef_).all()
    with pytest.raises(ValueError, match=r"^epsilon must be positive and finite, got inf"):
        PersonalizedRidge(0.1).fit(X, y, epsilon=math.inf)


@pytest.mark.parametrize(
    "model",
    [
        PersonalizedRidge(),
        PersonalizedRidge(feature_norm=2.0),
        PrivateLogisticRegression(1.0, classes=(0, 1)),
    ],
    ids=["box", "ball", "classifier"],
)
def test_a_column_of_text_is_named_and_a_cell_of_text_is_not(model: Any) -> None:
    """What a column holds is its type, which is public; that one record has a text in it is not."""
    table = pd.DataFrame({"age": [0.2, 0.4, 0.6, 0.5], "smoker": ["no", "yes", "no", "yes"]})
    y = np.array([0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"^column 'smoker' of X holds text: put a Schema before"):
        model.fit(table, y)
    odd = table.assign(smoker=[0.5, "yes", 0.0, None]).astype(object)
    for part in (odd, table[:1], table.to_numpy()):
        with pytest.raises(ValueError, match="X must") as told:
            model.fit(part, y[: len(part)])
        assert "smoker" not in str(told.value)
    clone(model).set_params(clip=True).fit(table, y)


@pytest.mark.filterwarnings(UNDECLARED)
def test_declared_classes_change_nothing_where_both_occur() -> None:
    X, y, epsilon = labelled()
    models = [
        PrivateLogisticRegression(random_state=0, classes=c).fit(X, y, epsilon)
        for c in (None, ("yes", "no"))
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
