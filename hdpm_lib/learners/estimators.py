"""scikit-learn estimators that take a privacy loss for each sample.

In front of them nothing may learn from the data, which :func:`private_pipeline` sees to; what
searches and refits spend in all, an :class:`~hdpm_lib.accounts.Account` adds up. What the
guarantees assume: :doc:`/book/privacy/limits`.

Predictions on new data are post-processing and spend nothing: they take every finite number as it
is. With ``clip=True`` both estimators pass scikit-learn's ``check_estimator``, but for the errors
of complex numbers and of missing labels that it wants; without it they refuse data that it thinks
fine.
"""

from __future__ import annotations

import contextlib
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

from hdpm_lib.accounts import records
from hdpm_lib.learners.logistic import eta_within, objective_perturbation
from hdpm_lib.learners.second_moments import expected_error, second_moments
from hdpm_lib.private import private_cells, private_doubles, private_places
from hdpm_lib.validation import check_epsilon, check_flag, check_ordered, check_positive

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


def _two_labels(y: Any) -> NDArray[Any]:
    """The two labels that occur, sorted."""
    cells = private_cells(y, "y", 1)
    labels = np.empty(0)
    with contextlib.suppress(Exception):  # labels that cannot be sorted
        labels = np.unique(cells)
    if len(labels) != 2 or (labels != labels).any():
        raise ValueError(
            "Only binary classification is supported: y must hold two labels, not one class, more"
            " or continuous numbers: declare the classes, as public facts"
        )
    return np.asarray(labels.tolist())


def _declared(classes: Any) -> NDArray[Any]:
    """The two classes that were declared, sorted."""
    labels: list[Any] = []
    with contextlib.suppress(TypeError):  # what is no list, or cannot be sorted
        labels = sorted(set(np.asarray(classes, dtype=object).ravel().tolist()))
    if len(labels) != 2 or any(label != label for label in labels):
        raise ValueError(
            f"classes must be two different labels that can be sorted, got {classes!r}"
        )
    return np.asarray(labels)


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

    def _scores(self, X: Any, middle: float) -> NDArray[np.float64]:
        """Products of records with the coefficients, cut where floats end."""
        check_is_fitted(self)
        features = self._columns(X, reset=False)
        finite = np.isfinite(features)
        if not (self.clip or finite.all()):
            raise ValueError("X must be finite numbers: fill what is missing by a public rule")
        features = np.where(finite, features, middle)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.nan_to_num(features @ self.coef_.ravel())

    def _losses(self, epsilon: ArrayLike | None, n_records: int) -> ArrayLike:
        """One privacy loss for each record, from what ``fit`` was given."""
        given = self.epsilon if epsilon is None else epsilon
        if np.ndim(given):
            return given
        return np.full(n_records, check_positive(given, "epsilon"))


class PersonalizedRidge(RegressorMixin, _Private):
    r"""Ridge regression in which every record keeps its own privacy loss.

    Parameters
    ----------
    penalty : float, optional
        Ridge penalty on the weighted mean of squared errors, positive. Without it, it follows from
        the noise (:func:`~hdpm_lib.learners.second_moments.noise_penalty`).
    epsilon : float, default 1.0
        Privacy loss that each record accepts, positive, where ``fit`` is not told.
    feature_norm : float, optional
        Public bound on the Euclidean norm of a feature vector, of any sign. If not given, features
        lie in [0, 1].
    label_bound : float, default 1.0
        Public bound on the absolute value of a label, positive.
        :class:`~hdpm_lib.schema.Schema` gives both bounds.
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
        The noisy coefficients, all that may be published. There is no intercept: add a constant
        feature, which counts like any other.
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
    rest is post-processing. At equal losses that leaves less error than the output perturbation of
    Acharya et al., which is :func:`~hdpm_lib.learners.ridge.output_perturbation`
    (:doc:`/book/use/better`). Public are the number of records, every `epsilon` and the parameters.
    Neighbours differ in one record, replaced by any other within the bounds. Scale by *public*
    bounds before fitting; bounds taken from the data are not private.

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

    def __init__(
        self,
        penalty: float | None = None,
        *,
        epsilon: float = 1.0,
        feature_norm: float | None = None,
        label_bound: float = 1.0,
        clip: bool = False,
        arithmetic: Literal["exact", "ideal"] = "exact",
        random_state: Any = None,
    ) -> None:
        self.penalty = penalty
        self.epsilon = epsilon
        self.feature_norm = feature_norm
        self.label_bound = label_bound
        self.clip = clip
        self.arithmetic = arithmetic
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        epsilon: ArrayLike | None = None,
        record: ArrayLike | None = None,
    ) -> PersonalizedRidge:
        """Fit with privacy.

        Parameters
        ----------
        X : array, table or lists of shape (n_samples, n_features)
            Features, private.
        y : array of shape (n_samples,)
            Labels, private.
        epsilon : float or array of shape (n_samples,), optional
            Privacy loss that each record accepts, positive and public; without it that of the
            estimator. In a pipeline it goes by the name of the step, as in ``fit(X, y,
            personalizedridge__epsilon=epsilon)``.
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
        features = self._columns(X, y)
        labels = private_doubles(_vector(y), "y", 1)
        mechanism = second_moments(
            features,
            labels,
            self._losses(epsilon, len(labels)),
            self.penalty,
            feature_norm=self.feature_norm,
            label_bound=self.label_bound,
            clip=self.clip,
            arithmetic=self.arithmetic,
        )
        total = float(mechanism.epsilon.sum())
        error = expected_error(features.shape[1], total, mechanism.feature_norm)
        if error > HOPELESS:
            _warn_of_noise(
                f"of the labels' variance at most {1 - error:.1%} is expected to be explained",
                total,
                features.shape[1],
            )
        with records(record, self.random_state):
            self.coef_ = mechanism.release(rng=_generator(self.random_state))
        self.penalty_ = mechanism.penalty
        self.expected_error_ = error
        self.weights_ = mechanism.weights
        self.noise_rate_ = mechanism.noise_rate
        self.privacy_loss_ = mechanism.privacy_loss
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
        scores = self._scores(X, 0.5 if self.feature_norm is None else 0.0)
        return np.clip(scores, -self.label_bound, self.label_bound)

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
        losses, positive. Without it, it is 4 over the sum of all `epsilon`: twice the least one
        without slack.
    epsilon : float, default 1.0
        Privacy loss that each record accepts, positive, where ``fit`` is not told.
    classes : array of two labels, optional
        The two classes, as public facts: then every data set within the bounds is fitted, also one
        of a single class. A label is of the class that it is equal to, or else of one that reads as
        the same number, as "1" and 1 do. Without them a UserWarning says that the labels in `y`
        become public by ``classes_``, and it is an error if they are not two.
    clip : bool, default False
        What to do with records outside the bounds. False is an error, which tells that there are
        some; True moves them in silence and takes 0 for what is no number, and the first
        class for a label that was not declared. A feature vector is in range if its norm is at most
        1.
    random_state : Generator, RandomState, int or None, default None
        Source of the noise. None is the operating system's entropy, fresh for each fit. Give a seed
        in tests only: noise that can be predicted protects nobody, and all fits share it. A clone
        gets a generator of its own. Pickles and copies of a fitted model hold None: a generator
        could be stepped back to the noise.

    Attributes
    ----------
    coef_ : array of shape (1, n_features)
        The noisy coefficients, all that may be published. There is no intercept: add a constant
        feature, which counts like any other.
    classes_ : array of shape (2,)
        The two labels, sorted.
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
    Objective perturbation (:mod:`hdpm_lib.learners.logistic`). Public are the number of records,
    every `epsilon` and the parameters. Neighbours differ in one record, replaced by any other
    within the bounds.

    Weights follow `epsilon`, so a record that accepts far more than the others outweighs them; cap
    `epsilon` before fitting, with a number that is not taken from the labels or features. A
    `penalty` with which no amount of noise keeps the promises is an error that names the one
    needed. A UserWarning says before anything is spent that noise is longer than what all records
    together can pull: where the losses sum to less than 4 for each feature. For more than two
    classes put it into scikit-learn's ``OneVsRestClassifier``, which spends each loss once for a
    class. What the guarantee assumes: :doc:`/book/privacy/limits`.

    References
    ----------
    Anjarlekar, Etesami and Srikant (2024), "Striking a Balance: An Optimal Mechanism Design for
    Heterogenous Differentially Private Data Acquisition for Logistic Regression", Algorithm 1.
    Chaudhuri, Monteleoni and Sarwate (2011), "Differentially Private Empirical Risk Minimization".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, (1000, 2))
    >>> y = np.where(X @ [1.0, 2.0] > 0, "yes", "no")
    >>> model = PrivateLogisticRegression(classes=("no", "yes"), random_state=0)
    >>> bool(model.fit(X, y, epsilon=rng.uniform(0.5, 2, 1000)).score(X, y) > 0.9)
    True
    """

    def __init__(
        self,
        penalty: float | None = None,
        *,
        epsilon: float = 1.0,
        classes: ArrayLike | None = None,
        clip: bool = False,
        random_state: Any = None,
    ) -> None:
        self.penalty = penalty
        self.epsilon = epsilon
        self.classes = classes
        self.clip = clip
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        epsilon: ArrayLike | None = None,
        record: ArrayLike | None = None,
    ) -> PrivateLogisticRegression:
        """Fit with privacy.

        Parameters
        ----------
        X : array, table or lists of shape (n_samples, n_features)
            Features, private.
        y : array of shape (n_samples,)
            Labels of two classes, or of one of those declared, private.
        epsilon : float or array of shape (n_samples,), optional
            Privacy loss that each record accepts, positive and public; without it that of the
            estimator. In a pipeline it goes by the name of the step, as in ``fit(X, y,
            privatelogisticregression__epsilon=epsilon)``.
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
        features = self._columns(X, y)
        classes, code = self._encoded(_vector(y))
        eps = check_epsilon(self._losses(epsilon, len(code)), len(code))
        total = float(eps.sum())
        weights = eps / total
        penalty = 4 / total if self.penalty is None else self.penalty
        eta = eta_within(eps, weights, penalty)
        mechanism = objective_perturbation(
            features, 2.0 * code - 1, weights, eta, penalty, clip=self.clip
        )
        if total < 4 * features.shape[1]:
            _warn_of_noise("it is longer than what all records can pull", total, features.shape[1])
        with records(record, self.random_state):
            self.coef_ = mechanism.release(rng=_generator(self.random_state))[None]
        self.classes_ = classes
        self.weights_ = weights
        self.eta_ = eta
        self.penalty_ = penalty
        self.privacy_loss_ = mechanism.privacy_loss
        return self

    def _encoded(self, labels: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """The two classes, and which of them each label is."""
        if self.classes is None:
            warnings.warn(
                "classes is not given: the labels that occur become public, as classes_; declare"
                " the two classes, and every data set is fitted",
                UserWarning,
                stacklevel=3,
            )
            classes = _two_labels(labels)
        else:
            classes = _declared(check_ordered(self.classes, "classes"))
        code = private_places(labels, "y", classes.tolist())
        if not self.clip and (code < 0).any():
            raise ValueError(
                f"y must hold no label but the declared classes {classes.tolist()}, or clip"
            )
        return classes, np.maximum(code, 0)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Signed score of each row, positive for the second class, at no loss of privacy.

        Parameters
        ----------
        X : array, table or lists of shape (n_samples, n_features)
            Features. Every finite number is taken as it is; with `clip` the rest counts as 0.

        Returns
        -------
        array of shape (n_samples,)
            Logarithms of odds.

        Examples
        --------
        >>> model = PrivateLogisticRegression(epsilon=9, classes=(0, 1)).fit([[0.2], [0.8]], [0, 1])
        >>> model.decision_function([[0.0], [0.5]]).shape
        (2,)
        """
        return self._scores(X, 0.0)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Chances of the two classes by the model, at no loss of privacy.

        Parameters
        ----------
        X : array, table or lists of shape (n_samples, n_features)
            Features, as for :meth:`decision_function`.

        Returns
        -------
        array of shape (n_samples, 2)
            In the order of ``classes_``. Noise makes them more extreme than they should be.

        Examples
        --------
        >>> model = PrivateLogisticRegression(classes=(0, 1), epsilon=100.0)
        >>> model.fit([[0.2], [0.8]], [0, 1]).predict_proba([[0.0]])
        array([[0.5, 0.5]])
        """
        scores = self.decision_function(X)
        return np.column_stack([expit(-scores), expit(scores)])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predicted labels, at no loss of privacy.

        Parameters
        ----------
        X : array, table or lists of shape (n_samples, n_features)
            Features, as for :meth:`decision_function`.

        Returns
        -------
        array of shape (n_samples,)
            Of the two classes.

        Examples
        --------
        >>> model = PrivateLogisticRegression(epsilon=9, classes=(0, 1)).fit([[0.2], [0.8]], [0, 1])
        >>> model.predict([[0.0], [0.5]]).shape
        (2,)
        """
        second = self.decision_function(X) > 0
        return np.asarray(self.classes_[second.astype(int)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags
