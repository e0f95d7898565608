"""scikit-learn estimators that take a privacy loss for each sample.

In front of them nothing may learn from the data, which :func:`private_pipeline` sees to; what
searches and refits spend in all, an :class:`~hdpm_lib.accounts.Account` adds up. What the
guarantees assume: :doc:`/book/privacy/limits`.

Both take features in [0, 1], or in a ball of a public radius around 0 (`feature_norm`), and add an
intercept themselves: features in [0, 1] are centred at 1/2, and a constant stands beside them. It
is as large as each of `d` features is at most if all are alike, for a classifier twice that; the
squared norm becomes larger by the part `1/d` or `4/d`. Either was chosen on drawn problems.

Predictions on new data are post-processing and spend nothing: they take every finite number as it
is. With ``clip=True`` both estimators pass scikit-learn's ``check_estimator``, but for the errors
of complex numbers and of missing labels that it wants; without it they refuse data that it thinks
fine.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from hdpm_lib.accounts import charge, records
from hdpm_lib.learners.logistic import eta_within, objective_perturbation, weighted_logistic
from hdpm_lib.learners.second_moments import expected_error, second_moments
from hdpm_lib.noise import coordinate_margin, norm_law
from hdpm_lib.private import (
    check_features,
    check_pairs,
    check_records,
    private_cells,
    private_doubles,
    private_places,
)
from hdpm_lib.validation import (
    check_flag,
    check_losses,
    check_number,
    check_ordered,
    check_positive,
)

# where what is fitted is, or what needs no fit, and transforms each row alone
BY_ROWS = (
    "hdpm_lib.schema",
    "sklearn.compose.",
    "sklearn.decomposition._pca",
    "sklearn.feature_",
    "sklearn.impute.",
    "sklearn.kernel_approximation",
    "sklearn.pipeline",
    "sklearn.preprocessing.",
    "sklearn.random_projection",
)


def _generator(random_state: Any) -> np.random.Generator:
    """A generator of NumPy's new kind: of fresh entropy for None, else from what scikit-learn takes
    for a seed.
    """
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(
        check_random_state(random_state).randint(2**32, size=8, dtype=np.uint32)
    )


def private_pipeline(*steps: Any) -> Pipeline:
    """``sklearn.pipeline.make_pipeline``, with a warning of each step that may mix records.

    Parameters
    ----------
    *steps : transformers, and last an estimator
        As ``make_pipeline`` takes them. A UserWarning tells of each but the last that is fitted on
        the data, or is not known to compute from each row alone. Known are
        :class:`~hdpm_lib.schema.Schema`, what scikit-learn needs no fit for, what it has fitted on
        public ranges and ``FrozenEstimator`` holds, and its ``FunctionTransformer`` of a NumPy
        ufunc.

    Returns
    -------
    sklearn.pipeline.Pipeline
        Of these steps.

    Notes
    -----
    A private estimator sees neither the data before such a step nor the step: a scaler that is
    fitted on the records, or a function that looks at their least, lets one of them move all
    others, and the promise does not hold. Whoever knows that a function goes row by row calls
    ``make_pipeline``.

    Examples
    --------
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> # the lowest and the highest, known without the data
    >>> ages = MinMaxScaler(clip=True).fit([[18.0], [64.0]])
    >>> model = private_pipeline(FrozenEstimator(ages), PersonalizedRidge(0.1))
    >>> model = model.fit([[18.0], [40.0]], [0.2, 0.3], personalizedridge__epsilon=500.0)
    >>> model.predict([[50.0]]).shape
    (1,)
    """
    pipeline = make_pipeline(*steps)
    for name, step in pipeline.steps[:-1]:
        if not _goes_by_rows(step):
            warnings.warn(
                f"step {name!r} is fitted on the data, or not known to go row by row, so that one"
                " record can move all others: put a Schema in its place, or fit one of"
                " scikit-learn's on public ranges and freeze it, by FrozenEstimator",
                stacklevel=2,
            )
    return pipeline


def _goes_by_rows(step: Any, *, frozen: bool = False) -> bool:
    """Whether a step is known to compute from each row alone."""
    if step is None or isinstance(step, str):
        return True
    if type(step) is FrozenEstimator:
        return _goes_by_rows(step.estimator, frozen=True)
    if type(step) is FunctionTransformer:
        function = step.func
        return function is None or (isinstance(function, np.ufunc) and function.signature is None)
    if not type(step).__module__.startswith(BY_ROWS):
        return False
    if not frozen:
        return not get_tags(step).requires_fit
    steps = [value for value in step.get_params().values() if hasattr(value, "fit")]
    return all(_goes_by_rows(inner, frozen=True) for inner in steps)


def _vector(y: Any) -> Any:
    """Labels, from a column if need be, with the warning that scikit-learn wants of it."""
    if getattr(y, "shape", ())[1:] == (1,):
        text = "A column-vector y was passed when a 1d array was expected"
        warnings.warn(text, DataConversionWarning, stacklevel=3)
        return getattr(y, "iloc", y)[:, 0]
    return y


def _text_column(table: Any, features: NDArray[np.float64]) -> Any:
    """The name of a column of a table that holds text and nothing else, if there is one."""
    names = getattr(table, "columns", ())
    if len(features) == 1 or len(names) != features.shape[1]:
        return None  # of a single record nothing is told
    for place in np.flatnonzero(np.isnan(features).all(axis=0)):
        if all(isinstance(cell, str) for cell in private_cells(table, "X", 2)[:, place]):
            return names[place]
    return None


def _that_occur(y: Any) -> NDArray[Any]:
    """The labels that occur, sorted."""
    cells = private_cells(y, "y", 1)
    labels = np.empty(0)
    with contextlib.suppress(Exception):  # labels that cannot be sorted
        labels = np.unique(cells)
    numbers = labels.dtype.kind == "f"
    endless = (labels != labels).any() or (numbers and not np.isfinite(labels).all())
    continuous = numbers and len(labels) > 2 and (labels % 1 != 0).any()
    if len(labels) < 2 or endless or continuous:
        raise ValueError(
            "Unknown label type: y must hold two classes or more, not one class or continuous"
            " numbers: declare the classes, as public facts"
        )
    return np.asarray(labels.tolist())


def _declared(classes: Any) -> NDArray[Any]:
    """The classes that were declared, sorted."""
    given = []
    labels: list[Any] = []
    with contextlib.suppress(TypeError):  # what is no list, or cannot be sorted
        given = np.asarray(classes, dtype=object).ravel().tolist()
        labels = sorted(set(given))
    if not 2 <= len(labels) == len(given) or any(label != label for label in labels):
        raise ValueError(
            "classes must be two labels or more, all different, that can be sorted, got"
            f" {classes!r}"
        )
    return np.asarray(labels)


PLAIN = "not private"
TAME = 1000.0  # a loss at which the noise is nothing: its penalty is that of fits without noise
HOPELESS = 0.95  # error over the variance of labels from which a fit is no better than a constant


def _warn_of_noise(what: str, total: float, features: int) -> None:
    """Before anything is spent, from public numbers."""
    warnings.warn(
        f"the fit will be mostly noise: {what} with {features} features and losses that sum to"
        f" {total:g}; take more records, larger losses or fewer features",
        UserWarning,
        stacklevel=3,
    )


class _Private(BaseEstimator):
    """What the estimators share."""

    _constant: float  # of an intercept, next to what a feature may be
    _has_seeded = False  # a clone, from the generator in random_state

    def __sklearn_clone__(self) -> Any:
        """A clone whose noise is its own: a copied generator would repeat that of the original."""
        clone = super().__sklearn_clone__()
        source = self.random_state
        if isinstance(source, np.random.RandomState):
            clone.random_state = _generator(source)
        elif isinstance(source, np.random.Generator):
            clone.random_state = np.random.default_rng(
                source.integers(2**32, size=8, dtype=np.uint32)
            )
        self._has_seeded = clone.random_state is not source
        return clone

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled and copied: not what the noise of this model, or of a clone, came from.

        Generators can be stepped back.
        """
        state = dict(super().__getstate__())
        if self._has_seeded or "coef_" in state:
            state["random_state"] = None
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = tags.input_tags.string = bool(self.clip)
        return tags

    def _columns(
        self, X: Any, y: Any = "no_validation", *, reset: bool = True
    ) -> NDArray[np.float64]:
        """Features as floats; scikit-learn is told names and number of the columns, and looks at no
        cell.
        """
        check_flag(self.clip, "clip")
        features = private_doubles(X, "X", 2)
        validate_data(self, X, y, reset=reset, skip_check_array=True)
        name = None if self.clip else _text_column(X, features)
        if name is not None:
            raise ValueError(
                f"column {name!r} of X holds text: put a Schema before, in a private_pipeline, or"
                " clip"
            )
        return features

    def _coded(self, features: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Features inside their bounds as the mechanisms take them, and the bound on their norm."""
        d = features.shape[1]
        norm = math.sqrt(d) if self.feature_norm is None else float(self.feature_norm)
        if not check_flag(self.fit_intercept, "fit_intercept"):
            return features, norm
        if self.feature_norm is None:
            features = features - 0.5
            norm /= 2
        constant = self._constant * norm / math.sqrt(d)
        coded = np.column_stack([features, np.full(len(features), constant)])
        return coded, math.hypot(norm, constant)

    def _units(self, norm: float, d: int) -> NDArray[np.float64]:
        """From coefficients on coded features to those on features, and the intercept.

        The matrix has a row for each of the latter.
        """
        units = np.eye(d + 1, d + self.fit_intercept)
        if self.fit_intercept:
            units[d, :d] = -0.5 * (self.feature_norm is None)
            units[d, d] = self._constant * norm / math.sqrt(d + self._constant**2)
        return units

    def _finite(self, X: Any) -> NDArray[np.float64]:
        """Features of new records, every finite number as it is."""
        check_is_fitted(self)
        features = self._columns(X, reset=False)
        finite = np.isfinite(features)
        if not (self.clip or finite.all()):
            raise ValueError("X must be finite numbers: fill what is missing by a public rule")
        return np.where(finite, features, 0.5 if self.feature_norm is None else 0.0)

    def _rows(self, X: Any) -> NDArray[np.float64]:
        """Features of records and a constant 1; of each coefficient, without records."""
        if X is None:
            check_is_fitted(self)
            return np.eye(self.n_features_in_, self.n_features_in_ + 1)
        features = self._finite(X)
        return np.column_stack([features, np.ones(len(features))])

    def _scores(self, X: Any) -> NDArray[np.float64]:
        """Scores of records, of shape (n, scores), cut where floats end."""
        features = self._finite(X)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = features @ np.atleast_2d(self.coef_).T + self.intercept_
        return np.nan_to_num(scores)

    def _losses(self, epsilon: Any, n_records: int) -> NDArray[np.float64] | None:
        """One privacy loss for each record, from what ``fit`` was given; None for a plain fit."""
        given = self.epsilon if epsilon is None else epsilon
        if isinstance(given, str) and given == PLAIN:
            warnings.warn(
                "not private: this fit tells of its records, and is for comparison only",
                UserWarning,
                stacklevel=3,
            )
            charge(lambda: np.full(n_records, np.inf))
            return None
        bought: Any = getattr(given, "privacy_loss", given)
        if np.ndim(bought):
            return check_losses(bought, n_records)
        return np.full(n_records, check_positive(bought, "epsilon"))


class PersonalizedRidge(RegressorMixin, _Private):
    r"""Ridge regression in which every record keeps its own privacy loss.

    Parameters
    ----------
    penalty : float, optional
        Ridge penalty on the weighted mean of squared errors, positive. Without it, it follows from
        the noise (:func:`~hdpm_lib.learners.second_moments.noise_penalty`).
    epsilon : float or "not private", default 1.0
        Privacy loss that each record accepts, positive, where ``fit`` is not told. With "not
        private" the same model is fitted without noise, for comparison: a UserWarning says so, and
        no :class:`~hdpm_lib.accounts.Account` takes it.
    feature_norm : float, optional
        Public bound on the Euclidean norm of a feature vector, of any sign. If not given, features
        lie in [0, 1].
    label_bound : float, default 1.0
        Public bound on the absolute value of a label, positive.
        :class:`~hdpm_lib.schema.Schema` gives both bounds.
    fit_intercept : bool, default True
        Add a constant feature of the model's own, which counts like any other.
    clip : bool, default False
        What to do with records outside the bounds. False is an error, which tells that there are
        some; True moves them in silence and takes whatever is no number in a
        cell, missing or complex, for the middle of its range. Text that reads as a number is one.
    arithmetic : {"exact", "ideal"}, default "exact"
        Certain to the last digit (:mod:`hdpm_lib.exact`); or in floats, for studies
        (:doc:`/book/privacy/limits`).
    random_state : Generator, RandomState, int or None, default None
        Source of the noise. None is the operating system's entropy, fresh for each fit. Give a seed
        in tests only: noise that can be predicted protects nobody, and all fits share it. A clone
        gets a generator of its own. Pickles and copies of a fitted model hold None: a generator
        could be stepped back to the noise.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        The noisy coefficients.
    intercept_ : float
        The noisy constant, 0 without `fit_intercept`.
    noise_covariance_ : array of shape (n_features + 1, n_features + 1)
        Covariance of what the noise did to coefficients and intercept, from what is released.
    weights_ : array of shape (n_samples,)
        Weight of each record, in proportion to its `epsilon`.
    noise_rate_ : float
        Rate of the spherical Laplace noise on the moments.
    penalty_ : float
        The penalty.
    expected_error_ : float
        Expected error over the variance of the labels in a reference population, of whose
        variance a quarter depends on the features: between 0.75, the noise being nothing, and 1,
        where a constant is as good (:func:`~hdpm_lib.learners.second_moments.expected_error`). It
        is from public numbers, and no estimate of this model's error. Above 0.95 a UserWarning says
        so before anything is spent.
    privacy_loss_ : array of shape (n_samples,)
        What each record loses by this one fit. Fitting again, as searches do, spends it again.

    Notes
    -----
    What is released are noisy second moments (:mod:`hdpm_lib.learners.second_moments`), and the
    rest is post-processing: all attributes of a private fit may be published. At equal losses that
    leaves less error than the output perturbation of Acharya et al., which is
    :func:`~hdpm_lib.learners.ridge.output_perturbation` (:doc:`/book/use/better`). Public are the
    number of records, every `epsilon` and the parameters. Neighbours differ in one record, replaced
    by any other within the bounds. Scale by *public* bounds before fitting; bounds taken from the
    data are not private.

    References
    ----------
    Personal losses by weights: Acharya, Boenisch, Naidu and Ziani (2024), "Personalized
    Differential Privacy for Ridge Regression". A penalty from the noise: Wang (2018), "Revisiting
    Differentially Private Linear Regression".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((1000, 2))
    >>> y = X @ [0.5, 0.3]
    >>> PersonalizedRidge().fit(X, y, epsilon=rng.uniform(0.1, 1, 1000)).coef_.shape
    (2,)
    """

    _constant = 1.0

    def __init__(
        self,
        penalty: float | None = None,
        *,
        epsilon: float | Literal["not private"] = 1.0,
        feature_norm: float | None = None,
        label_bound: float = 1.0,
        fit_intercept: bool = True,
        clip: bool = False,
        arithmetic: Literal["exact", "ideal"] = "exact",
        random_state: Any = None,
    ) -> None:
        self.penalty = penalty
        self.epsilon = epsilon
        self.feature_norm = feature_norm
        self.label_bound = label_bound
        self.fit_intercept = fit_intercept
        self.clip = clip
        self.arithmetic = arithmetic
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        epsilon: Any = None,
        record: ArrayLike | None = None,
    ) -> PersonalizedRidge:
        """Fit with privacy.

        Parameters
        ----------
        X : array, table or lists of shape (n_samples, n_features)
            Features, private.
        y : array of shape (n_samples,)
            Labels, private.
        epsilon : float, array of shape (n_samples,) or Outcome, optional
            Privacy loss that each record accepts, public and not negative: 0 leaves it out. What a
            market has bought is taken as it is, an :class:`~hdpm_lib.markets.outcome.Outcome`;
            without any it is that of the estimator. In a pipeline it goes by the name of the step,
            as in ``fit(X, y, personalizedridge__epsilon=epsilon)``.
        record : array of shape (n_samples,), optional
            Numbers of the records in the open :class:`~hdpm_lib.accounts.Account`, integers. To
            give if, and only if, there is one.

        Returns
        -------
        PersonalizedRidge
            Itself.

        Examples
        --------
        >>> model = PersonalizedRidge().fit([[0.2], [0.8]], [0.1, 0.4], epsilon=[500.0, 2000.0])
        >>> model.privacy_loss_.tolist(), round(model.penalty_, 4)
        ([500.0, 2000.0], 0.0009)
        """
        features, labels = check_records(
            self._columns(X, y),
            private_doubles(_vector(y), "y", 1),
            feature_norm=self.feature_norm,
            label_bound=self.label_bound,
            clip=self.clip,
        )
        losses = self._losses(epsilon, len(labels))
        d = features.shape[1]
        coded, norm = self._coded(features)
        mechanism = second_moments(
            np.full(len(labels), TAME) if losses is None else losses,
            self.penalty,
            features=coded.shape[1],
            feature_norm=norm,
            label_bound=self.label_bound,
            clip=True,  # what rounding leaves
            arithmetic=self.arithmetic,
        )
        total = float(mechanism.epsilon.sum())
        error = expected_error(coded.shape[1], total, norm)
        if error > HOPELESS:
            _warn_of_noise(
                f"of the labels' variance at most {1 - error:.1%} is expected to be explained",
                total,
                d,
            )
        if losses is None:
            moments = mechanism.without_noise(coded, labels)
        else:
            with records(record, self.random_state):
                rng = _generator(self.random_state)
                moments = mechanism.release_moments(coded, labels, rng=rng)
        units = self._units(norm, d)
        found = units @ moments.coefficients(mechanism.penalty)
        self.coef_ = found[:d]
        self.intercept_ = float(found[d])
        self.noise_covariance_ = units @ moments.noise_covariance(mechanism.penalty) @ units.T
        self.penalty_ = mechanism.penalty
        self.expected_error_ = error
        self.weights_ = mechanism.weights
        self.noise_rate_ = math.inf if losses is None else mechanism.noise_rate
        self.privacy_loss_ = np.full(len(labels), np.inf) if losses is None else losses
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predicted labels, at no loss of privacy.

        Parameters
        ----------
        X : array, table or lists of shape (n_samples, n_features)
            Features. Every finite number is taken as it is; with `clip` the rest counts as the
            middle.

        Returns
        -------
        array of shape (n_samples,)
            Within the range of labels.

        Examples
        --------
        >>> model = PersonalizedRidge(epsilon=500.0).fit([[0.2], [0.8]], [0.1, 0.4])
        >>> model.predict([[0.0], [0.5]]).shape
        (2,)
        """
        return np.clip(self._scores(X)[:, 0], -self.label_bound, self.label_bound)

    def noise_sd(self, X: ArrayLike | None = None) -> NDArray[np.float64]:
        """Standard deviation of what the noise did, at no loss of privacy.

        It is of the noise alone, to first order in it, and not of the sampling of records.

        Parameters
        ----------
        X : array, table or lists of shape (n_samples, n_features), optional
            Features of records, for the standard deviations of their predictions.

        Returns
        -------
        array of shape (n_features,), or (n_samples,)
            Of the coefficients, or of the predictions before they are cut to the range of labels.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> X = rng.random((1000, 2))
        >>> model = PersonalizedRidge(random_state=0).fit(X, X @ [0.5, 0.3])
        >>> model.noise_sd().round(1), model.noise_sd([[0.5, 0.5]]).round(2)
        (array([0.1, 0.1]), array([0.01]))
        """
        rows = self._rows(X)
        return np.sqrt(np.einsum("ij,jk,ik->i", rows, self.noise_covariance_, rows))

    def noise_margin(
        self, X: ArrayLike | None = None, *, level: float = 0.95
    ) -> NDArray[np.float64]:
        """By how much the noise moved a number at most, with that probability.

        Parameters
        ----------
        X : array, table or lists of shape (n_samples, n_features), optional
            Features of records, for the margins of their predictions.
        level : float, default 0.95
            The probability, between 0 and 1, to first order in the noise.

        Returns
        -------
        array of shape (n_features,), or (n_samples,)
            Half the length of an interval around each coefficient, or prediction, for the ridge
            regression of these records with this penalty and no noise.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> X = rng.random((1000, 2))
        >>> model = PersonalizedRidge(random_state=0).fit(X, X @ [0.5, 0.3])
        >>> model.noise_margin().round(1)
        array([0.2, 0.2])
        """
        d = self._rows(X).shape[1] - 1 + self.fit_intercept
        moments = d * (d + 3) // 2
        return coordinate_margin(moments, math.sqrt(moments + 1), level) * self.noise_sd(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # on the tiny data of scikit-learn's own checks
        return tags


class PrivateLogisticRegression(ClassifierMixin, _Private):
    r"""Logistic regression in which every record keeps its own privacy loss.

    Parameters
    ----------
    penalty : float, optional
        The :math:`\Lambda` in :math:`\frac\Lambda2\lVert w\rVert^2`, on the weighted mean of the
        losses, positive; `w` are the coefficients on features over the bound of their norm. Without
        it, it is 4 over the sum of all `epsilon`: twice the least one without slack.
    epsilon : float or "not private", default 1.0
        Privacy loss that each record accepts, positive, where ``fit`` is not told. With "not
        private" the same model is fitted without noise, for comparison: a UserWarning says so, and
        no :class:`~hdpm_lib.accounts.Account` takes it.
    feature_norm : float, optional
        Public bound on the Euclidean norm of a feature vector, of any sign. If not given, features
        lie in [0, 1]. :class:`~hdpm_lib.schema.Schema` gives it.
    classes : array of two labels or more, optional
        The classes, as public facts: then every data set within the bounds is fitted, also one
        of a single class. A label is of the class that it is equal to, or else of one that reads as
        the same number, as "1" and 1 do. Without them a UserWarning says that the labels in `y`
        become public by ``classes_``, and it is an error if there is only one.
    fit_intercept : bool, default True
        Add a constant feature of the model's own, which counts like any other.
    clip : bool, default False
        What to do with records outside the bounds. False is an error, which tells that there are
        some; True moves them in silence and takes the middle for what is no number, and the first
        class for a label that was not declared.
    random_state : Generator, RandomState, int or None, default None
        Source of the noise. None is the operating system's entropy, fresh for each fit. Give a seed
        in tests only: noise that can be predicted protects nobody, and all fits share it. A clone
        gets a generator of its own. Pickles and copies of a fitted model hold None: a generator
        could be stepped back to the noise.

    Attributes
    ----------
    coef_ : array of shape (1, n_features), or (n_classes, n_features)
        The noisy coefficients; of more than two classes each against the rest.
    intercept_ : array of shape (1,), or (n_classes,)
        The noisy constants, 0 without `fit_intercept`.
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    weights_ : array of shape (n_samples,)
        Weight of each record, in proportion to its `epsilon`.
    eta_ : float
        Twice the rate of the noise.
    penalty_ : float
        The penalty.
    privacy_loss_ : array of shape (n_samples,)
        What each record loses by this one fit, slack included: at most `epsilon`, for all records
        equal to it if ``eta_ * penalty_`` is 2 or more, and else for the one of least weight.

    Notes
    -----
    Objective perturbation (:mod:`hdpm_lib.learners.logistic`). All attributes of a private fit may
    be published. Public are the number of records, every `epsilon` and the parameters. Neighbours
    differ in one record, replaced by any other within the bounds. More than two classes are fitted
    one against the rest, each with an equal part of every `epsilon`.

    Weights follow `epsilon`, so a record that accepts far more than the others outweighs them; cap
    `epsilon` before fitting, with a number that is not taken from the labels or features. A
    `penalty` with which no amount of noise keeps the promises is an error that names the one
    needed. A UserWarning says before anything is spent that noise is longer than what all records
    together can pull: where the losses of a class sum to less than 4 for each feature. What the
    guarantee assumes: :doc:`/book/privacy/limits`.

    References
    ----------
    Anjarlekar, Etesami and Srikant (2024), "Striking a Balance: An Optimal Mechanism Design for
    Heterogenous Differentially Private Data Acquisition for Logistic Regression", Algorithm 1.
    Chaudhuri, Monteleoni and Sarwate (2011), "Differentially Private Empirical Risk Minimization".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((1000, 2))
    >>> y = np.where(X @ [1.0, 2.0] > 1.5, "yes", "no")
    >>> model = PrivateLogisticRegression(classes=("no", "yes"), random_state=0)
    >>> bool(model.fit(X, y, epsilon=rng.uniform(0.5, 2, 1000)).score(X, y) > 0.9)
    True
    """

    _constant = 2.0

    def __init__(
        self,
        penalty: float | None = None,
        *,
        epsilon: float | Literal["not private"] = 1.0,
        feature_norm: float | None = None,
        classes: ArrayLike | None = None,
        fit_intercept: bool = True,
        clip: bool = False,
        random_state: Any = None,
    ) -> None:
        self.penalty = penalty
        self.epsilon = epsilon
        self.feature_norm = feature_norm
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.clip = clip
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        epsilon: Any = None,
        record: ArrayLike | None = None,
    ) -> PrivateLogisticRegression:
        """Fit with privacy.

        Parameters
        ----------
        X : array, table or lists of shape (n_samples, n_features)
            Features, private.
        y : array of shape (n_samples,)
            Labels, private.
        epsilon : float, array of shape (n_samples,) or Outcome, optional
            Privacy loss that each record accepts, public and not negative: 0 leaves it out. What a
            market has bought is taken as it is, an :class:`~hdpm_lib.markets.outcome.Outcome`;
            without any it is that of the estimator. In a pipeline it goes by the name of the step,
            as in ``fit(X, y, privatelogisticregression__epsilon=epsilon)``.
        record : array of shape (n_samples,), optional
            Numbers of the records in the open :class:`~hdpm_lib.accounts.Account`, integers. To
            give if, and only if, there is one.

        Returns
        -------
        PrivateLogisticRegression
            Itself.

        Examples
        --------
        >>> model = PrivateLogisticRegression(classes=("no", "yes"))
        >>> model.fit([[0.2], [0.8]], ["no", "yes"], epsilon=[2.0, 8.0]).privacy_loss_.round(12)
        array([2., 8.])
        """
        features = check_features(self._columns(X, y), self.feature_norm, clip=self.clip)
        classes, code = self._encoded(_vector(y))
        check_pairs(features, code)
        losses = self._losses(epsilon, len(code))
        coded, norm = self._coded(features)
        unit = coded / norm
        d = features.shape[1]
        fits = 1 if len(classes) == 2 else len(classes)
        part = (np.full(len(code), TAME) if losses is None else losses) / fits
        total = float(part.sum())
        weights = part / total
        penalty = 4 / total if self.penalty is None else self.penalty
        eta = eta_within(part, weights, penalty)
        mechanism = objective_perturbation(weights, eta, penalty, features=unit.shape[1], clip=True)
        # of two classes the second; `clip` is for what rounding leaves
        signs = [np.where(code == one, 1.0, -1.0) for one in range(len(classes))[-fits:]]
        if total < 4 * coded.shape[1]:
            _warn_of_noise("it is longer than what all records can pull", total, d)
        if losses is None:
            found = [weighted_logistic(unit, y, weights, penalty, clip=True) for y in signs]
        else:
            rng = _generator(self.random_state)
            with records(record, self.random_state):
                found = [mechanism.release(unit, y, rng=rng) for y in signs]
        in_units = np.array(found) @ self._units(norm, d).T / norm
        self.coef_ = in_units[:, :d]
        self.intercept_ = in_units[:, d]
        self.classes_ = classes
        self.weights_ = weights
        self.eta_ = math.inf if losses is None else eta
        self.penalty_ = penalty
        lost = fits * mechanism.privacy_loss
        self.privacy_loss_ = np.full(len(code), np.inf) if losses is None else lost
        return self

    def _encoded(self, labels: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """The classes, and which of them each label is."""
        if self.classes is None:
            warnings.warn(
                "classes is not given: the labels that occur become public, as classes_; declare"
                " the classes, and every data set is fitted",
                UserWarning,
                stacklevel=3,
            )
            classes = _that_occur(labels)
        else:
            classes = _declared(check_ordered(self.classes, "classes"))
        code = private_places(labels, "y", classes.tolist())
        if not self.clip and (code < 0).any():
            raise ValueError(
                f"y must hold no label but the declared classes {classes.tolist()}, or clip"
            )
        return classes, np.maximum(code, 0)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Signed score of each row, at no loss of privacy.

        Parameters
        ----------
        X : array, table or lists of shape (n_samples, n_features)
            Features. Every finite number is taken as it is; with `clip` the rest counts as the
            middle.

        Returns
        -------
        array of shape (n_samples,), or (n_samples, n_classes)
            Logarithms of odds: of the second class, or of more than two classes of each against the
            rest.

        Examples
        --------
        >>> model = PrivateLogisticRegression(epsilon=9, classes=(0, 1)).fit([[0.2], [0.8]], [0, 1])
        >>> model.decision_function([[0.0], [0.5]]).shape
        (2,)
        """
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Chances of the classes by the model, at no loss of privacy.

        Parameters
        ----------
        X : array, table or lists of shape (n_samples, n_features)
            Features, as for :meth:`decision_function`.

        Returns
        -------
        array of shape (n_samples, n_classes)
            In the order of ``classes_``, with sum 1. Noise makes them more extreme than they should
            be.

        Examples
        --------
        >>> model = PrivateLogisticRegression(classes=(0, 1), epsilon=100.0, fit_intercept=False)
        >>> model.fit([[0.2], [0.8]], [0, 1]).predict_proba([[0.0]])
        array([[0.5, 0.5]])
        """
        scores = self._scores(X)
        if len(self.classes_) == 2:
            scores = np.column_stack([-scores, scores])
        chances = expit(np.maximum(scores, -700))  # below, floats have no chance left
        return chances / chances.sum(axis=1, keepdims=True)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predicted labels, at no loss of privacy.

        Parameters
        ----------
        X : array, table or lists of shape (n_samples, n_features)
            Features, as for :meth:`decision_function`.

        Returns
        -------
        array of shape (n_samples,)
            Of the classes.

        Examples
        --------
        >>> model = PrivateLogisticRegression(epsilon=9, classes=(0, 1)).fit([[0.2], [0.8]], [0, 1])
        >>> model.predict([[0.0], [0.5]]).shape
        (2,)
        """
        scores = self._scores(X)
        if len(self.classes_) == 2:
            return np.asarray(self.classes_[(scores[:, 0] > 0).astype(int)])
        return np.asarray(self.classes_[scores.argmax(axis=1)])

    def noise_margin(
        self, X: ArrayLike | None = None, *, level: float = 0.95
    ) -> NDArray[np.float64]:
        """By how much the noise moved a number at most, with that probability or a larger one.

        How far the noise moves a model depends on the records, and is private; this is as far as it
        can (:meth:`~hdpm_lib.learners.logistic.ObjectivePerturbation.noise_margin`), and holds for
        all coefficients and scores of a class at once.

        Parameters
        ----------
        X : array, table or lists of shape (n_samples, n_features), optional
            Features of records, for the margins of their scores.
        level : float, default 0.95
            The probability, between 0 and 1.

        Returns
        -------
        array of shape (n_features,), or (n_samples,)
            Half the length of an interval around each coefficient, or score, of any class, for the
            model of these records with this penalty and no noise.

        Examples
        --------
        >>> model = PrivateLogisticRegression(classes=(0, 1), epsilon=100.0)
        >>> model.fit([[0.2], [0.8]], [0, 1]).noise_margin([[0.0], [0.5]]).round(2)
        array([2.37, 2.12])
        """
        rows = self._rows(X)
        d = rows.shape[1] - 1
        _, norm = self._coded(np.zeros((1, d)))
        lengths = np.linalg.norm(rows @ self._units(norm, d), axis=1) / norm
        share = check_number(level, "level", 0, 1, ends="()")
        if self.eta_ == math.inf:
            return 0 * lengths
        return lengths * norm_law(d + self.fit_intercept, self.eta_ / 2).ppf(share) / self.penalty_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags
