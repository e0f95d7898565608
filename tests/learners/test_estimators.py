"""The estimators in scikit-learn: its own checks, pipelines, cross-validation, and whose privacy
loss goes where.
"""

from __future__ import annotations

import copy
import math
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.datasets import load_iris
from sklearn.decomposition import NMF, PCA
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, RANSACRegressor
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.multioutput import RegressorChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, Normalizer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from hdpm_lib import accounts
from hdpm_lib.audits.meters import privacy_losses
from hdpm_lib.learners import estimators
from hdpm_lib.learners.estimators import (
    PersonalizedRidge,
    PrivateLogisticRegression,
    private_pipeline,
)
from hdpm_lib.learners.objective import (
    eta_within,
    minimisers,
    objective_perturbation,
    weights_within,
)
from hdpm_lib.learners.settings import default_clip_norm, expected_error, penalty_times_eta
from hdpm_lib.markets.fair_query import fair_query
from hdpm_lib.markets.outcome import Outcome
from hdpm_lib.noise import spherical_laplace
from hdpm_lib.schema import Number, Schema
from hdpm_lib.validation import FALSE_ALARM
from tests.audits.test_settings import alternatives
from tests.support import generator

LOOKS_AT = []


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
        PersonalizedRidge(clip=True, rng=0),
        PersonalizedRidge(clip=True, arithmetic="ideal", rng=0),
        PrivateLogisticRegression(clip=True, rng=0),
    ],
    expected_failed_checks=against_the_policy,
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
    """Records of two classes that a line separates, and privacy losses."""
    rng = generator(72)
    X = rng.random((n, 3))
    return X, np.where(X @ [0.6, -0.4, 0.2] > 0.2, "yes", "no"), rng.uniform(0.5, 5, n)


def by_hand(model: Any, X: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Features as the mechanism takes them, the bound on their norm, and where they are centred."""
    d = X.shape[1]
    ball = model.feature_norm
    if ball is None:
        X = np.clip(X, 0, 1)
    elif model.clip:
        X = X * np.minimum(1, ball / np.linalg.norm(X, axis=1, keepdims=True))
    if not model.fit_intercept:
        return X, ball or math.sqrt(d), 0.0
    middle = 0.5 if ball is None else 0.0
    norm = ball or math.sqrt(d) / 2
    constant = (1 if isinstance(model, PersonalizedRidge) else 2) * norm / math.sqrt(d)
    coded = np.column_stack([X - middle, np.full(len(X), constant)])
    return coded, math.hypot(norm, constant), middle


RIDGE: dict[str, Any] = {
    "penalty": (3.0,),
    "clip_norm": (0.2,),
    "feature_norm": (1.8,),
    "label_bound": (0.5,),
}


@pytest.mark.parametrize(
    "options", [*alternatives(PersonalizedRidge, RIDGE, "epsilon delta rng")], ids=str
)
def test_fit_is_one_release_of_the_mechanism(options: dict[str, Any]) -> None:
    X, y, epsilon = data()
    epsilon /= 1000  # so much noise that some predictions are cut
    model = PersonalizedRidge(**{"arithmetic": "ideal", "rng": 1, **options})
    y = model.label_bound * y
    X = (2.0 if model.clip else 1.0) * X
    model.fit(X, y, epsilon=epsilon)
    coded, norm, middle = by_hand(model, X)
    d = coded.shape[1]
    kind: dict[str, Any] = {"loss": "squared"}
    kind["clip_norm"] = model.clip_norm or default_clip_norm("squared", d, epsilon.sum())
    if model.penalty is None:
        product = penalty_times_eta("squared", d, epsilon.sum())
        weights, eta = weights_within(epsilon, product, **kind)
        penalty = product / eta
    else:
        weights = epsilon / epsilon.sum()
        penalty = model.penalty
        eta = eta_within(epsilon, weights, penalty, **kind)
    kind |= {"features": d, "clip": True, "arithmetic": model.arithmetic}
    mechanism = objective_perturbation(weights, eta, penalty, **kind)
    released = mechanism.release(coded / norm, y / model.label_bound, rng=estimators._generator(1))
    released *= model.label_bound / norm
    np.testing.assert_allclose(model.coef_, released[:3], rtol=1e-6)
    constant = coded[0, 3] * released[3] if model.fit_intercept else 0.0
    assert model.intercept_ == pytest.approx(constant - middle * model.coef_.sum())
    assert model.penalty_ == pytest.approx(mechanism.penalty)
    assert model.clip_norm_ == mechanism.clip_norm
    np.testing.assert_allclose(model.privacy_loss_, mechanism.privacy_loss, rtol=1e-13)
    assert (model.privacy_loss_ <= epsilon).all()
    if model.penalty is None:
        np.testing.assert_allclose(model.privacy_loss_, epsilon, rtol=1e-13)
    np.testing.assert_allclose(model.weights_, mechanism.weights)
    a = model.label_bound
    guesses = np.clip(X @ model.coef_ + model.intercept_, -a, a)
    np.testing.assert_allclose(model.predict(X), guesses)
    assert model.eta_ == pytest.approx(mechanism.eta)
    usual = penalty_times_eta("squared", d, epsilon.sum()) / mechanism.eta
    error = expected_error(d, mechanism.noise_rate, usual, mechanism.clip_norm)
    assert model.expected_error_ == pytest.approx(error)


@pytest.mark.parametrize("learner", [PersonalizedRidge, PrivateLogisticRegression])
def test_one_privacy_loss_for_everybody(learner: Any) -> None:
    X, y, _ = data() if learner is PersonalizedRidge else labelled()
    model = learner(epsilon=0.7, rng=0, **declared(learner)).fit(X, y)
    np.testing.assert_allclose(model.privacy_loss_, 0.7)
    for epsilon in (0.7, np.full(300, 0.7)):
        same = learner(rng=0, **declared(learner)).fit(X, y, epsilon=epsilon)
        np.testing.assert_array_equal(model.coef_, same.coef_)


@pytest.mark.parametrize("learner", [PersonalizedRidge, PrivateLogisticRegression])
def test_sources_of_noise(learner: Any) -> None:
    X, y, _ = data() if learner is PersonalizedRidge else labelled()

    def coefficients(state: Any) -> list[float]:
        return learner(rng=state, **declared(learner)).fit(X, y).coef_.tolist()

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
    original = PersonalizedRidge(rng=source(3))
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
    bounds: dict[str, Any] = {"feature_norm": 1.9, "arithmetic": "ideal"}
    model = PersonalizedRidge(0.4, fit_intercept=False, **bounds).fit(X, y, epsilon=epsilon)
    kept = pickle.dumps(model)
    for scale in (1.0, 1 / 1.9):
        assert (scale * by_noise(model, X / 1.9, y, np.zeros(3))).tobytes() not in kept


def by_noise(model: Any, X: np.ndarray, y: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Coefficients of a fit without intercept for this noise, on features over their bound."""
    settings = model.weights_, model.penalty_
    return minimisers(X, y, *settings, noise, 0.0, "squared", model.clip_norm_)


def stepped_back(model: Any, X: np.ndarray, fitted: Any) -> np.ndarray | None:
    """The noise of a model, from what is public; None if it holds no generator.

    Its generator is stepped back until a release of records that tell nothing ends where it is.
    """
    if not isinstance(model.rng, np.random.Generator):
        return None
    end = model.rng.bit_generator.state
    rate = fitted.eta_ / 2 / fitted.clip_norm_
    for steps in range(200):
        bits = np.random.PCG64()
        bits.state = end
        drawn = np.random.Generator(bits.advance(-steps))
        noise = spherical_laplace(X.shape[1], rate, rng=drawn)
        if bits.state == end:
            return noise
    return None


@pytest.mark.parametrize("source", [np.random.default_rng, int, np.random.RandomState])
def test_the_noise_cannot_be_stepped_back_to(source: Any) -> None:
    """Pickles and copies of a model hold nothing that its noise came from, in no attribute."""
    X, y, losses = data()
    norm = math.sqrt(X.shape[1])
    given: dict[str, Any] = {"fit_intercept": False, "arithmetic": "ideal"}
    model = PersonalizedRidge(1.0, rng=source(5), **given)
    model.fit(X, y, epsilon=losses)
    if source is np.random.default_rng:
        noise = stepped_back(model, X, model)
        assert noise is not None
        found = by_noise(model, X / norm, y, noise) / norm
        np.testing.assert_allclose(found, model.coef_, atol=1e-9)
    pipeline = make_pipeline(FunctionTransformer(), model)
    search = GridSearchCV(PersonalizedRidge(rng=source(5)), {"penalty": [1.0]}, cv=KFold(2)).fit(
        X, y
    )
    kept = [
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
        copy.copy(model),
        pickle.loads(pickle.dumps(pipeline))[-1],
        pickle.loads(pickle.dumps(search)).best_estimator_,
    ]
    for one in kept:
        assert one.rng is None and stepped_back(one, X, model) is None
        kinds = (np.random.Generator, np.random.RandomState, np.random.BitGenerator)
        assert not any(isinstance(part, kinds) for part in vars(one).values())
    np.testing.assert_array_equal(kept[0].coef_, model.coef_)


def test_a_model_without_a_fit_goes_elsewhere_with_a_generator_of_its_own() -> None:
    """Not with that of a fitted one that shares it, nor with the same one twice."""
    X, y, losses = data()
    given: dict[str, Any] = {"fit_intercept": False, "arithmetic": "ideal"}
    norm = math.sqrt(X.shape[1])

    def workers(shared: Any) -> list[Any]:
        fresh = PersonalizedRidge(1.0, rng=shared, **given)
        return [pickle.loads(pickle.dumps(fresh)), copy.copy(fresh), copy.deepcopy(fresh)]

    for source in (np.random.default_rng, np.random.RandomState):
        shared = source(5)
        fitted = PersonalizedRidge(1.0, rng=shared, **given).fit(X, y, epsilon=losses)
        there = workers(shared)
        for one in there:
            noise = stepped_back(one, X, fitted)
            assert noise is not None
            found = by_noise(fitted, X / norm, y, noise) / norm
            assert not np.allclose(found, fitted.coef_, atol=1e-6)
        fits = [one.fit(X, y, epsilon=losses).coef_.tolist() for one in there]
        assert len(set(map(tuple, fits))) == 3
        again = source(5)
        PersonalizedRidge(1.0, rng=again, **given).fit(X, y, epsilon=losses)
        assert fits == [one.fit(X, y, epsilon=losses).coef_.tolist() for one in workers(again)]
    assert [one.rng for one in workers(None)] == 3 * [None]
    assert [one.rng for one in workers(7)] == 3 * [7]


def test_no_tool_sets_the_seed_of_the_noise() -> None:
    """Ensembles and others set a `random_state` to integers, which they keep: there is none."""
    X, y, _ = data()
    for model in (PersonalizedRidge(), PrivateLogisticRegression()):
        names = make_pipeline(FunctionTransformer(), model).get_params()
        assert not [name for name in names if name.endswith("random_state")]

    def members(source: Any) -> list[tuple[float, ...]]:
        member = PersonalizedRidge(epsilon=50.0, clip=True, rng=source)
        options: dict[str, Any] = {"bootstrap": False, "random_state": 0, "n_estimators": 3}
        bagged = BaggingRegressor(member, **options).fit(X, y)
        boosted = AdaBoostRegressor(member, n_estimators=1, random_state=0).fit(X, y)
        chain = RegressorChain(member, random_state=0).fit(X, y[:, None])
        found = RANSACRegressor(member, random_state=0, min_samples=200).fit(X, y)
        fits = [*bagged.estimators_, *boosted.estimators_, *chain.estimators_, found.estimator_]
        return [tuple(fit.coef_.tolist()) for fit in fits]

    noises = [*members(None), *members(None), *members(np.random.default_rng(1))]
    assert len(set(noises)) == len(noises) == 18
    assert members(np.random.default_rng(1)) == noises[12:]


def test_a_third_argument_is_no_loss() -> None:
    """In scikit-learn it is `sample_weight`."""
    X, y, epsilon = data()
    for model in (PersonalizedRidge(), PrivateLogisticRegression(classes=CLASSES)):
        with pytest.raises(TypeError, match="takes 3 positional arguments but 4 were given"):
            model.fit(X, y, epsilon)  # type: ignore[misc]


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

    def spied(self: Any, X: Any, y: Any, *, epsilon: Any = None, record: Any = None) -> Any:
        seen.append((epsilon, fit(self, X, y, epsilon=epsilon, record=record).privacy_loss_))
        return self

    monkeypatch.setattr(learner, "fit", spied)
    with config_context(enable_metadata_routing=routed):
        model: Any = learner(0.1, rng=0, **declared(learner))
        if routed:
            model = make_pipeline(FunctionTransformer(), model.set_fit_request(epsilon=True))
        scores = cross_val_score(model, X, y, cv=folds, params={"epsilon": 100 * epsilon})
    assert scores.shape == (3,) and scores.min() > 0.5
    for (losses, spent), (train, _) in zip(seen, folds.split(X), strict=True):
        np.testing.assert_array_equal(losses, 100 * epsilon[train])
        np.testing.assert_allclose(spent, losses, rtol=1e-4)  # the penalty is not the default one


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
        pipeline = private_pipeline(step, PersonalizedRidge(feature_norm=1.0))
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


SCHEMA = Schema([Number("age", 18, 64), Number("bmi", 10, 60)])


@pytest.mark.parametrize("before", [(SCHEMA,), (SCHEMA, None), ("passthrough", SCHEMA)])
def test_pipeline_asks_for_the_norm_of_a_schema(before: tuple[Any, ...]) -> None:
    """Without it features would be taken in [0, 1], and with `clip` half of each range be lost."""
    for model in (PersonalizedRidge, PrivateLogisticRegression):
        for clip in (False, True):
            with pytest.raises(ValueError, match="needs the feature_norm of the Schema before it"):
                private_pipeline(*before, model(clip=clip))
            with pytest.raises(ValueError, match="needs the feature_norm of the Schema before it"):
                private_pipeline(*before, make_pipeline(model(clip=clip)))
            with pytest.warns(UserWarning, match="codes rows of norms up to 0.707107") as said:
                private_pipeline(*before, model(clip=clip, feature_norm=0.7))
            assert said[0].filename == __file__
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                private_pipeline(*before, model(clip=clip, feature_norm=SCHEMA.feature_norm))
                private_pipeline(*before, Normalizer(), model(clip=clip))
    rng = generator(77)
    table = pd.DataFrame({"age": rng.uniform(18, 64, 2000), "bmi": rng.uniform(10, 60, 2000)})
    y = (table.age - 41) / 46
    ridge = PersonalizedRidge(epsilon=50.0, clip=True, feature_norm=SCHEMA.feature_norm)
    assert private_pipeline(*before, ridge).fit(table, y).score(table, y) > 0.99


@pytest.mark.parametrize(
    ("last", "warned"),
    [
        (LinearRegression(), True),
        (TransformedTargetRegressor(PersonalizedRidge(), transformer=MinMaxScaler()), True),
        (CalibratedClassifierCV(PrivateLogisticRegression()), True),
        (StackingRegressor([("one", PersonalizedRidge())]), True),
        (GridSearchCV(PersonalizedRidge(), {"penalty": [1.0]}), True),
        (make_pipeline(Normalizer(), LinearRegression()), True),
        (make_pipeline(Normalizer(), PersonalizedRidge()), False),
        (PersonalizedRidge(), False),
        (PrivateLogisticRegression(), False),
        (FrozenEstimator(LinearRegression()), False),
        (Normalizer(), False),
        ("passthrough", False),
    ],
)
def test_pipeline_warns_of_what_learns_without_protection(last: Any, warned: bool) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        private_pipeline(Normalizer(), last)
    assert [str(one.message)[:4] for one in said] == ["step"] * warned
    for one in said:
        assert "is no private estimator of hdpm_lib, or stands around one" in str(one.message)
        assert one.filename == __file__


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("epsilon", -1.0),
        ("penalty", 0.0),
        ("feature_norm", 0.0),
        ("label_bound", -1.0),
        ("fit_intercept", "no"),
        ("clip", "no"),
        ("arithmetic", "floats"),
        ("rng", "seed"),
        ("classes", (0, 0)),
    ],
)
def test_public_numbers_are_checked_before_data_and_before_a_charge(
    option: str, value: Any
) -> None:
    """Whatever is in the data, the error is of the setting."""
    for learner in (PersonalizedRidge, PrivateLogisticRegression):
        model = learner(**declared(learner))
        if option not in model.get_params():
            continue
        model.set_params(**{option: value})
        for X in ([[0.5], [0.2]], [[7.0], [math.nan]]):
            with (
                accounts.Account(2) as account,
                pytest.raises((TypeError, ValueError), match=option if option != "rng" else value),
            ):
                model.fit(X, ["no", "maybe"], record=[0, 1])
            assert account.releases == 0


@pytest.mark.parametrize("option", ["epsilon", "penalty", "feature_norm", "label_bound"])
def test_an_error_of_public_numbers_costs_nothing(option: str) -> None:
    """At the ends of the floats a fit is refused before it is charged, or it has coefficients."""
    for learner in (PersonalizedRidge, PrivateLogisticRegression):
        if option not in learner().get_params():
            continue
        for size in (5e-324, 1e-300, 1e-160, 1e-99, 1e-50, 1e50, 1e99, 1e155, 1e300, 1.7e308):
            model = learner(**{"clip": True, **declared(learner), option: size})
            with accounts.Account(3) as account:
                try:
                    model.fit([[0.2], [0.4], [0.9]], ["no", "yes", "no"], record=np.arange(3))
                    assert account.releases == 1 and np.isfinite(model.coef_).all()
                except ValueError as error:
                    assert account.releases == 0 and re.search(
                        rf"{option}|noise_rate|penalty that epsilon", str(error)
                    )


def test_what_a_fit_lost_stays_as_it_was() -> None:
    """One buffer of losses for all rounds; an outcome of a market; and nobody writes to either."""
    for learner in (PersonalizedRidge, PrivateLogisticRegression):
        X, y, _ = data() if learner is PersonalizedRidge else labelled()
        buffer = np.empty(300)
        rounds = []
        for loss in (4.0, 2.0, 1.0):
            buffer[:] = loss
            rounds.append(learner(**declared(learner)).fit(X, y, epsilon=buffer))
        total = sum(model.privacy_loss_ for model in rounds)
        np.testing.assert_allclose(total, 7)
        bought = Outcome(np.full(300, 2.0))
        column = pd.DataFrame({"e": np.full(300, 2.0)})
        for given in (column["e"], bought, 2.0):
            model = learner(**declared(learner)).fit(X, y, epsilon=given)
            column.loc[:, "e"] = 99.0
            np.testing.assert_allclose(model.privacy_loss_, 2)
            with pytest.raises(ValueError, match="read-only"):
                model.privacy_loss_[:] = 0


def test_a_fitted_model_does_not_follow_its_parameters() -> None:
    later = {"feature_norm": 9.0, "fit_intercept": False}
    for learner in (PersonalizedRidge, PrivateLogisticRegression):
        X, y, _ = data() if learner is PersonalizedRidge else labelled()
        model = learner(rng=0, **declared(learner)).fit(X, y)

        def told(model: Any = model, X: Any = X, y: Any = y) -> list[list[Any]]:
            parts = [model.predict(X), model.noise_margin(), model.noise_margin(X)]
            return [part.tolist() for part in (*parts, privacy_losses(model, X, y).found)]

        before = told()
        model.set_params(**later)
        if learner is PersonalizedRidge:
            model.set_params(label_bound=0.01)
        else:
            model.set_params(classes=("a", "b"))
        assert told() == before


@pytest.mark.parametrize("learner", [PersonalizedRidge, PrivateLogisticRegression])
def test_a_column_of_losses_is_no_outcome(learner: Any) -> None:
    """Whatever its rows are called."""
    y = [0, 1, 0] if learner is PersonalizedRidge else ["no", "yes", "no"]
    column = pd.Series([0.1, 0.2, 900.0], index=["a", "b", "privacy_loss"])
    model = learner(**declared(learner)).fit([[0.2], [0.4], [0.5]], y, epsilon=column)
    np.testing.assert_allclose(model.privacy_loss_, column.to_numpy())


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
        PrivateLogisticRegression(epsilon=1e-3, classes=(-1, 1)).fit(X, np.sign(y))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PersonalizedRidge(epsilon=100.0).fit(X, y)
        PrivateLogisticRegression(epsilon=100.0, classes=(-1, 1)).fit(X, np.sign(y))


# --- the classifier -----------------------------------------------------------------------------


LOGISTIC: dict[str, Any] = {
    "penalty": (0.0008, 0.0015),
    "clip_norm": (0.2, 1.0),
    "classes": (("yes", "no"),),
    "feature_norm": (1.8,),
}


@pytest.mark.parametrize(
    "options", [*alternatives(PrivateLogisticRegression, LOGISTIC, "epsilon delta rng")], ids=str
)
def test_classifier_is_one_release_that_keeps_exactly_what_was_promised(
    options: dict[str, Any],
) -> None:
    """By a formula of our own for the least favourable pull: at most the promise, and once equal to
    it.
    """
    X, y, epsilon = labelled()
    model = PrivateLogisticRegression(**{"classes": CLASSES, "rng": 1, **options})
    X = (3 if model.clip else 1) * X
    model.fit(X, y, epsilon=epsilon)
    coded, norm, middle = by_hand(model, X)
    d = coded.shape[1]
    signs = np.where(y == "yes", 1.0, -1.0)
    eta = model.eta_
    c = model.clip_norm_
    assert c == (model.clip_norm or default_clip_norm("logistic", d, epsilon.sum()))
    a = epsilon / epsilon.sum()
    penalty = model.penalty_
    if model.penalty is None:
        a = model.weights_
        assert penalty * eta == pytest.approx(penalty_times_eta("logistic", d, epsilon.sum()))
        np.testing.assert_allclose(model.privacy_loss_, epsilon, rtol=1e-13)
    else:
        assert penalty == model.penalty
    mechanism = objective_perturbation(a, eta, penalty, features=d, clip_norm=c, clip=True)
    released = mechanism.release(coded / norm, signs, rng=estimators._generator(1)) / norm
    np.testing.assert_allclose(model.coef_, released[None, :3])
    constant = coded[0, 3] * released[3] if model.fit_intercept else 0.0
    assert model.intercept_[0] == pytest.approx(constant - middle * model.coef_.sum())
    np.testing.assert_allclose(model.weights_, a)
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores, X @ model.coef_[0] + model.intercept_)
    np.testing.assert_array_equal(model.predict(X), np.where(scores > 0, "yes", "no"))
    chances = model.predict_proba(X)
    np.testing.assert_allclose(np.log(chances[:, 1] / chances[:, 0]), scores, atol=1e-9)
    assert model.classes_.tolist() == ["no", "yes"]
    pull = c * np.linspace(0, 1, 20_001)
    loss = []
    for w in a:
        slack = np.log1p(w / penalty * pull * (1 - pull)) - w * eta / 2 * (1 - pull / c)
        loss.append(w * eta + slack.max())
    np.testing.assert_allclose(model.privacy_loss_, loss, rtol=1e-6)
    assert (model.privacy_loss_ <= epsilon * (1 + 1e-12)).all() and np.isclose(
        model.privacy_loss_, epsilon
    ).any()
    if c == 1 and model.penalty is not None:
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
            "classes must be two labels or more, all different and none missing, got ['no', 'no']",
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


class Arrow:
    """A table as pyarrow's: its `columns` are the cells."""

    column_names = ("age", "smoker")
    columns = ([0.2, 0.4], ["no", "yes"])

    def __len__(self) -> int:
        return 2

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.columns, dtype=object).T


def test_no_cell_is_taken_for_the_name_of_its_column() -> None:
    features = np.array([[0.2, np.nan], [0.4, np.nan]])
    assert estimators._text_column(Arrow(), features) == "smoker"


@pytest.mark.filterwarnings(UNDECLARED)
def test_declared_classes_change_nothing_where_both_occur() -> None:
    X, y, epsilon = labelled()
    models = [
        PrivateLogisticRegression(rng=0, classes=c).fit(X, y, epsilon=epsilon)
        for c in (None, ("yes", "no"))
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_at_most_what_was_accepted_is_lost() -> None:
    """To the last bit, with slack and without, of two classes and of three."""
    X = generator(78).random((40, 2))
    for k in range(200):
        epsilon = generator(79, k).uniform(0.1, 5, 40)
        classes = (0, 1, 2)[: 2 + k % 2]
        for share in (None, 1.2):
            penalty = None if share is None else share / epsilon.sum()
            model = PrivateLogisticRegression(penalty, classes=classes)
            model.fit(X, np.resize(classes, 40), epsilon=epsilon)
            assert (model.privacy_loss_ <= epsilon).all()
            assert (model.privacy_loss_ >= epsilon * (1 - 1e-12)).any()


CODERS: dict[str, Any] = {
    "bagging": lambda one: BaggingClassifier(one, n_estimators=2),
    "voting": lambda one: VotingClassifier([("one", one)]),
    "stacking": lambda one: StackingClassifier([("one", one)]),
}


def shares_right(one: Any, X: np.ndarray, y: np.ndarray) -> Iterator[float]:
    """Of scikit-learn's tools that hand over 0, 1, ... in place of labels."""
    for coder in CODERS.values():
        yield coder(one).fit(X, y).score(X, y)
    chances = cross_val_predict(one, X, y, method="predict_proba", cv=KFold(3))
    yield (np.unique(y)[chances.argmax(axis=1)] == y).mean()


@pytest.mark.parametrize("clip", [False, True])
def test_coded_labels_are_no_text(clip: bool) -> None:
    """They would all be of the first class: their type tells, before anything is charged."""
    X, y, _ = labelled()
    one = PrivateLogisticRegression(epsilon=50.0, classes=CLASSES, clip=clip)
    assert one.fit(X, y).score(X, y) > 0.9
    said = (
        r"^y has dtype int64, which holds none of \['no', 'yes'\].*code the labels so and declare"
    )
    for coder in CODERS.values():
        with pytest.raises(TypeError, match=said):
            coder(one).fit(X, y)
    with pytest.raises(TypeError, match=said):
        cross_val_predict(one, X, y, method="predict_proba", cv=KFold(3))
    for codes in ((y == "yes"), (y == "yes").astype(np.uint8)):
        with accounts.Account(300) as account, pytest.raises(TypeError, match=r"^y has dtype "):
            one.fit(X, codes, record=np.arange(300))
        assert account.releases == 0


def test_coded_labels_are_declared_as_such() -> None:
    """Or a clone warns that they count as the first class."""
    X, y, _ = labelled()
    codes = (y == "yes").astype(int)
    for classes in ((0, 1), (False, True)):
        one = PrivateLogisticRegression(epsilon=50.0, classes=classes, clip=True)
        assert min(shares_right(one, X, codes)) > 0.9
    one = PrivateLogisticRegression(epsilon=50.0, classes=(1, 2), clip=True)
    for coder in CODERS.values():
        with pytest.warns(UserWarning, match="with clip a label that is not declared counts as 1;"):
            coder(one).fit(X, codes + 1)
    with pytest.warns(UserWarning, match="hand over 0, 1, ... in place of labels"):
        clone(one).fit(X, codes + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert one.fit(X, codes + 1).score(X, codes + 1) > 0.9
        clone(one).set_params(clip=False).fit(X, codes + 1)
    with pytest.raises(ValueError, match=r"^y must hold no label but the declared .* hand over 0,"):
        PrivateLogisticRegression(classes=(1, 2)).fit(X, codes)


def test_labels_that_are_fitted_can_be_scored() -> None:
    """In whatever form they read as their classes; what is no class is predicted by nobody."""
    X, y, _ = labelled()
    codes = (y == "yes").astype(int)
    folds = KFold(3)
    for classes, labels in (
        ((0, 1), codes.astype(str)),
        ((False, True), np.where(codes, "True", "False")),
        (("0", "1"), codes),
        ((0, 1), list(map(Fraction, codes.tolist()))),
    ):
        model = PrivateLogisticRegression(epsilon=50.0, classes=classes).fit(X, labels)
        assert model.score(X, labels) == (model.predict(X) == np.array(classes)[codes]).mean()
        assert model.score(X, labels, sample_weight=codes) == model.score(
            X[codes == 1], codes[codes == 1]
        )
        assert cross_val_score(clone(model), X, np.asarray(labels), cv=folds).min() > 0.8
    assert model.score(X, np.where(codes, "a", "b")) == 0
    with pytest.raises(ValueError, match="X has 300 records and y has 2"):
        model.score(X, [0, 1])


@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_likeliest_class_is_the_predicted_one(k: int) -> None:
    """Also where scores are so large, or so near to each other, that chances are equal floats."""
    X = generator(80).uniform(-1, 1, (400, 2))
    model = PrivateLogisticRegression(epsilon=90.0, classes=tuple(range(k)), clip=True, rng=0)
    model.fit(X, np.resize(np.arange(k), 400))
    model.intercept_[:] = 0
    for scale in (1e-17, 1e-8, 1.0, 1e3, 1e6, 1e300):
        chances = model.predict_proba(scale * X)
        assert (chances.argmax(axis=1) == model.predict(scale * X)).all()
        np.testing.assert_allclose(chances.sum(axis=1), 1)


def test_more_than_two_classes_are_each_against_the_rest() -> None:
    """Each with an equal part of every loss; the whole is what was accepted."""
    X, _, epsilon = labelled()
    y = np.resize(["a", "b", "c"], 300)
    model = PrivateLogisticRegression(classes=("c", "a", "b"), rng=1)
    with accounts.Account(300) as account:
        model.set_params(rng=generator(73)).fit(X, y, epsilon=epsilon, record=np.arange(300))
    np.testing.assert_allclose(account.total, epsilon)
    np.testing.assert_allclose(model.privacy_loss_, epsilon)
    assert model.classes_.tolist() == ["a", "b", "c"] and model.coef_.shape == (3, 3)
    rng = generator(73)
    for k, one in enumerate("abc"):
        alone = PrivateLogisticRegression(classes=(-1, 1), rng=rng)
        alone.fit(X, np.where(y == one, 1, -1), epsilon=epsilon / 3)
        np.testing.assert_allclose(model.coef_[k], alone.coef_[0])
        np.testing.assert_allclose(model.intercept_[k], alone.intercept_[0])
    chances = model.predict_proba(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    scores = model.decision_function(X)
    assert (model.predict(X) == model.classes_[scores.argmax(axis=1)]).all()
    assert (chances.argmax(axis=1) == scores.argmax(axis=1)).all()
    model.coef_ *= -1e6  # scores of which floats hold no chance
    model.intercept_[:] = -1e9
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_iris_in_a_few_lines() -> None:
    """Three classes, declared ranges, nothing tuned."""
    iris = load_iris(as_frame=True)
    ranges = [Number(name, 0, 8) for name in iris.data]
    model = private_pipeline(
        Schema(ranges),
        PrivateLogisticRegression(
            feature_norm=Schema(ranges).feature_norm, classes=(0, 1, 2), epsilon=20, rng=0
        ),
    )
    assert model.fit(iris.data, iris.target).score(iris.data, iris.target) > 0.8


# --- what the noise did -------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 0.0])
def test_the_noise_moves_a_ridge_no_further_than_said(scale: float) -> None:
    """With probability 1/2 at least; on records of 0, which nothing holds, just as far."""
    X, y, epsilon = data()
    given: dict[str, Any] = {"feature_norm": 1.8, "label_bound": 2.0, "fit_intercept": False}
    model = PersonalizedRidge(rng=generator(76), arithmetic="ideal", **given)
    off = []
    for _ in range(400):
        model.fit(scale * X, y, epsilon=epsilon)
        still = by_noise(model, scale * X / 1.8, y / 2, np.zeros(3)) * 2 / 1.8
        off.append(np.linalg.norm(model.coef_ - still))
    margin = model.noise_margin(level=0.5)
    assert (margin == margin[0]).all()
    inside = (np.array(off) <= margin[0]).sum()
    assert inside >= stats.binom.ppf(FALSE_ALARM, 400, 0.5)
    assert scale or inside <= stats.binom.isf(FALSE_ALARM, 400, 0.5)
    rows = np.array([[1.8, 0, 0], [0, 0, 0.9]])
    expected = margin[0] * np.array([1.8, 0.9])
    np.testing.assert_allclose(model.noise_margin(rows, level=0.5), expected)


def test_the_noise_moves_a_classifier_no_further_than_said() -> None:
    """With probability 1/2 at least; on records of 0, which nothing holds, just as far."""
    X, y, epsilon = labelled()
    for scale in (1.0, 0.0):
        given: dict[str, Any] = {"classes": CLASSES, "feature_norm": 1.8, "fit_intercept": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = PrivateLogisticRegression(rng=generator(75), **given)
            model.fit(scale * X, y, epsilon=epsilon)
            same = {"clip_norm": model.clip_norm_, "epsilon": "not private", **given}
            still = PrivateLogisticRegression(model.penalty_, **same).fit(scale * X, y)
        off = []
        for _ in range(400):
            model.fit(scale * X, y, epsilon=epsilon)
            off.append(np.linalg.norm(model.coef_ - still.coef_))
        margin = model.noise_margin(level=0.5)
        assert (margin == margin[0]).all()
        inside = (np.array(off) <= margin[0]).sum()
        assert inside >= stats.binom.ppf(FALSE_ALARM, 400, 0.5)
        assert scale or inside <= stats.binom.isf(FALSE_ALARM, 400, 0.5)
        rows = np.array([[1.8, 0, 0], [0, 0, 0.9]])
        np.testing.assert_allclose(
            model.noise_margin(rows, level=0.5), margin[0] * np.array([1.8, 0.9])
        )


# --- without privacy, and from a market ---------------------------------------------------------


@pytest.mark.parametrize("learner", [PersonalizedRidge, PrivateLogisticRegression])
def test_the_plain_baseline_says_what_it_is(learner: Any) -> None:
    X, y, _ = data() if learner is PersonalizedRidge else labelled()
    model = learner(epsilon="not private", **declared(learner))
    with pytest.warns(UserWarning, match="^not private: this fit tells of its records") as said:
        model.fit(X, y)
    assert said[0].filename == __file__ and np.isinf(model.privacy_loss_).all()
    assert (model.noise_margin() == 0).all() and (model.noise_margin(X) == 0).all()
    if learner is PersonalizedRidge:
        np.testing.assert_allclose(model.coef_, LinearRegression().fit(X, y).coef_, atol=2e-3)
    else:
        peer = LogisticRegression(C=1e3, max_iter=10_000).fit(X, y)
        assert model.score(X, y) >= peer.score(X, y) - 0.01
    close = learner(epsilon=1e7, rng=0, **declared(learner))
    close.set_params(penalty=model.penalty_).fit(X, y)
    np.testing.assert_allclose(model.coef_, close.coef_, rtol=1e-2)
    with (
        accounts.Account(300) as account,
        pytest.warns(UserWarning, match="^not private"),
        pytest.raises(ValueError, match="this release promises nothing, so that no account"),
    ):
        model.fit(X, y, record=np.arange(300))
    assert account.releases == 0
    with pytest.raises((TypeError, ValueError), match="epsilon must be"):
        learner(epsilon="private", **declared(learner)).fit(X, y)


@pytest.mark.parametrize("learner", [PersonalizedRidge, PrivateLogisticRegression])
def test_what_a_market_bought_is_what_records_lose(learner: Any) -> None:
    """Who sold nothing is left out: her record changes nothing."""
    X, y, _ = data() if learner is PersonalizedRidge else labelled()
    bought = fair_query(generator(76).uniform(1, 5, 300), 600.0)
    assert 0 < (bought.privacy_loss == 0).sum() < 300
    models = []
    for changed in (False, True):
        if changed:
            X = np.where(bought.privacy_loss[:, None] == 0, 1 - X, X)
        model = learner(rng=0, **declared(learner)).fit(X, y, epsilon=bought)
        np.testing.assert_allclose(model.privacy_loss_, bought.privacy_loss)
        models.append(model)
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_a_search_is_counted_and_tables_come_out_as_tables() -> None:
    """Names of columns, `set_output`, and a grid whose fits an account adds up."""
    X, y, _ = data()
    table = pd.DataFrame(18 + 46 * X, columns=["a", "b", "c"])
    schema = Schema([Number(name, 18, 64) for name in table]).set_output(transform="pandas")
    assert schema.fit_transform(table).columns.tolist() == ["a", "b", "c"]
    ridge = PersonalizedRidge(feature_norm=schema.feature_norm, epsilon=50.0)
    model = private_pipeline(schema, ridge).fit(table, y)
    assert model[-1].feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="has no column 'a'"):
        model.predict(table.rename(columns={"a": "d"}))
    search = GridSearchCV(model, {"personalizedridge__penalty": [0.01, 0.1]}, cv=KFold(3))
    with accounts.Account(300) as account:
        search.fit(table, y, personalizedridge__record=np.arange(300))
    np.testing.assert_allclose(account.total, 50 * (2 * 2 + 1))
    assert account.releases == 7
