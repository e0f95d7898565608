"""scikit-learn estimators that take a privacy loss for each sample.

In front of them nothing may learn from the data, which :func:`private_pipeline` sees to; what
searches and refits spend in all, an :class:`~hdpm_lib.accounts.Account` adds up. What the
guarantees assume: :doc:`/book/privacy/limits`.

Throughout,

- `epsilon`: the privacy loss that each record accepts, positive. ``fit`` takes one for each, or one
  for all, in a pipeline by the name of the step, as in ``fit(X, y,
  personalizedridge__epsilon=epsilon)``; without it the parameter of the estimator is taken;
- `record`: numbers of the records in an open :class:`~hdpm_lib.accounts.Account`, integers, one for
  each sample;
- `out_of_range`: what to do with records outside the bounds. ``"raise"`` is an error, which tells
  that there are some, ``"clip"`` moves them in silence and takes whatever else is in a cell,
  missing, text or complex, for the middle of its range. Scale by *public* bounds before fitting;
  bounds taken from the data are not private. Predictions take every finite number as it is, and the
  rest alike. scikit-learn's ``check_estimator`` passes with ``"clip"`` only, but for the errors of
  complex numbers and of missing labels that it wants;
- `random_state`: source of the noise, a Generator, RandomState, int or None, which is the operating
  system's entropy, fresh for each fit. A clone gets a generator of its own. Give a seed in tests
  only: noise that can be predicted protects nobody, and all fits share it;
- ``coef_``: the noisy coefficients, all that may be published. Predictions on new data are
  post-processing and spend nothing. There is no intercept: add a constant feature, which counts
  like any other;
- ``weights_``, ``privacy_loss_``, shape (n_samples,): weight of each record, in proportion to
  `epsilon`, and what it loses by this one fit. Fitting again, as searches do, spends it again.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from hdpm_lib.accounts import records
from hdpm_lib.learners.logistic import eta_within, objective_perturbation
from hdpm_lib.learners.ridge import Bound, output_perturbation
from hdpm_lib.private import private_cells, private_doubles, private_places
from hdpm_lib.validation import check_choice, check_epsilon, check_positive


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
    """``sklearn.pipeline.make_pipeline``, with a UserWarning for each step but the last that would
    learn from the data.

    A private estimator sees neither the data before such a step nor the step: a scaler that is
    fitted on the records lets one of them move all others, and the promise does not hold. Fit it on
    public ranges instead, and freeze it.

    Examples
    --------
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> # the lowest and the highest, known without the data
    >>> ages = MinMaxScaler(clip=True).fit([[18.0], [64.0]])
    >>> model = private_pipeline(FrozenEstimator(ages), PersonalizedRidge(0.1))
    >>> model = model.fit([[18.0], [40.0]], [0.2, 0.3], personalizedridge__epsilon=0.5)
    >>> model.predict([[50.0]]).shape
    (1,)
    """
    pipeline = make_pipeline(*steps)
    for name, step in pipeline.steps[:-1]:
        if not isinstance(step, str | None | FrozenEstimator) and get_tags(step).requires_fit:
            text = f"step {name!r} is fitted on the data, so that one record can move all others"
            remedy = (
                "put a Schema in its place, or fit it on public ranges and freeze it, by"
                " FrozenEstimator"
            )
            warnings.warn(f"{text}: {remedy}", stacklevel=2)
    return pipeline


def _vector(y: Any) -> Any:
    """Labels, from a column if need be, with the warning that scikit-learn wants of it."""
    if getattr(y, "shape", ())[1:] == (1,):
        text = "A column-vector y was passed when a 1d array was expected"
        warnings.warn(text, DataConversionWarning, stacklevel=3)
        return getattr(y, "iloc", y)[:, 0]
    return y


def _text_column(table: Any, features: NDArray[np.float64]) -> Any:
    """The name of a column of a table that holds text and nothing else, if there is one."""
    # of a single record nothing is told
    names = getattr(table, "columns", ())
    several = len(features) > 1
    for place in np.flatnonzero(
        np.isnan(features).all(axis=0) & several & (len(names) == features.shape[1])
    ):
        if all(isinstance(cell, str) for cell in private_cells(table, "X", 2)[:, place]):
            return names[place]
    return None


def _two_labels(y: Any) -> NDArray[Any]:
    """The two labels that occur, sorted."""
    cells = private_cells(y, "y", 1)
    found = np.empty(0)
    with contextlib.suppress(Exception):  # labels that cannot be sorted
        found = np.unique(cells)
    if len(found) != 2 or (found != found).any():
        must = (
            "y must hold two labels, not one class, more or continuous numbers: declare the"
            " classes, as public facts"
        )
        raise ValueError(f"Only binary classification is supported: {must}")
    return np.asarray(found.tolist())


class _Private(BaseEstimator):
    """What the estimators share."""

    def __sklearn_clone__(self) -> Any:
        """A clone whose noise is its own: a copied generator would repeat that of the original."""
        new = super().__sklearn_clone__()
        source = self.random_state
        if isinstance(source, np.random.RandomState):
            new.random_state = _generator(source)
        elif isinstance(source, np.random.Generator):
            new.random_state = np.random.default_rng(
                source.integers(2**32, size=8, dtype=np.uint32)
            )
        return new

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = tags.input_tags.string = self.out_of_range == "clip"
        return tags

    def _columns(
        self, X: Any, y: Any = "no_validation", *, reset: bool = True
    ) -> NDArray[np.float64]:
        """Features as floats; scikit-learn is told names and number of the columns, and looks at no
        cell.
        """
        check_choice(self.out_of_range, "out_of_range", ("raise", "clip"))
        features = private_doubles(X, "X", 2)
        validate_data(self, X, y, reset=reset, skip_check_array=True)
        if self.out_of_range == "raise" and (name := _text_column(X, features)) is not None:
            raise ValueError(
                f"column {name!r} of X holds text: put a Schema before, in a private_pipeline, or"
                " clip"
            )
        return features

    def _scores(self, X: Any, middle: float) -> NDArray[np.float64]:
        """Products of records with the coefficients, cut where floats end."""
        check_is_fitted(self)
        features = self._columns(X, reset=False)
        if not (finite := np.isfinite(features)).all():
            if self.out_of_range == "raise":
                raise ValueError("X must be finite numbers: fill what is missing by a public rule")
            features = np.where(finite, features, middle)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.nan_to_num(features @ self.coef_.ravel())

    def _losses(self, epsilon: ArrayLike | None, n_records: int) -> ArrayLike:
        """One privacy loss for each record, from what ``fit`` was given."""
        given = self.epsilon if epsilon is None else epsilon
        return (
            np.full(n_records, check_positive(given, "epsilon")) if np.ndim(given) == 0 else given
        )


class PersonalizedRidge(RegressorMixin, _Private):
    """Ridge regression in which every record keeps its own privacy loss (PDP-OP).

    Parameters
    ----------
    penalty : float, positive, default 1.0
        Ridge penalty on the weighted mean of squared errors. A small one lets noise through, a
        large one pulls predictions to 0: where R^2 is below 0, :doc:`/book/use/pipeline` tells
        which it was.
    epsilon, out_of_range, random_state
    bound : {"sharp", "paper"}, default "sharp"
        Sensitivity bound that sets the noise; ``"paper"`` is Theorem 2.1 as printed.
    feature_norm : float, optional
        Public bound on the Euclidean norm of a feature vector, of any sign. If not given, features
        lie in [0, 1].
    label_bound : float, default 1.0, public bound on the absolute value of a label
        :class:`~hdpm_lib.schema.Schema` gives both bounds.
    project : bool, default True
        Pull the noisy coefficients onto the public ball that contains every noiseless estimate.
    arithmetic : {"exact", "ideal"}, default "exact"
        Certain to the last digit (:mod:`hdpm_lib.exact`); or in floats, for studies
        (:doc:`/book/privacy/limits`).

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    weights_, privacy_loss_
    noise_rate_ : float

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((1000, 2)); y = X @ [0.5, 0.3]
    >>> PersonalizedRidge(penalty=0.1).fit(X, y, epsilon=rng.uniform(0.1, 1, 1000)).coef_.shape
    (2,)
    """

    def __init__(
        self,
        penalty: float = 1.0,
        *,
        epsilon: float = 1.0,
        bound: Bound = "sharp",
        feature_norm: float | None = None,
        label_bound: float = 1.0,
        project: bool = True,
        out_of_range: Literal["raise", "clip"] = "raise",
        arithmetic: Literal["exact", "ideal"] = "exact",
        random_state: Any = None,
    ) -> None:
        self.penalty = penalty
        self.epsilon = epsilon
        self.bound = bound
        self.feature_norm = feature_norm
        self.label_bound = label_bound
        self.project = project
        self.out_of_range = out_of_range
        self.arithmetic = arithmetic
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        epsilon: ArrayLike | None = None,
        record: ArrayLike | None = None,
    ) -> PersonalizedRidge:
        """Fit with privacy."""
        features = self._columns(X, y)
        labels = private_doubles(_vector(y), "y", 1)
        options = {
            name: getattr(self, name)
            for name in ("penalty", "bound", "feature_norm", "label_bound", "arithmetic")
        }
        losses = self._losses(epsilon, len(labels))
        clip = self.out_of_range == "clip"
        mechanism = output_perturbation(features, labels, losses, clip=clip, **options)
        with records(record, self.random_state):
            self.coef_ = mechanism.release(rng=_generator(self.random_state), project=self.project)
        self.weights_ = mechanism.weights
        self.noise_rate_ = mechanism.noise_rate
        self.privacy_loss_ = mechanism.privacy_loss
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predicted labels, shape (n_samples,)."""
        return self._scores(X, 0.5 if self.feature_norm is None else 0.0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # on the tiny data of scikit-learn's own checks
        return tags


class PrivateLogisticRegression(ClassifierMixin, _Private):
    r"""Logistic regression in which every record keeps its own privacy loss, by objective
    perturbation.

    Parameters
    ----------
    penalty : float, positive, default 0.1
        The :math:`\Lambda` in :math:`\frac\Lambda2\lVert w\rVert^2`, on the weighted mean of the
        losses.
    epsilon, random_state
    classes : array of two labels, optional
        The two classes, as public facts: then every data set within the bounds is fitted, also one
        of a single class. Without them a UserWarning says that the labels in `y` become public by
        ``classes_``, and it is an error if they are not two.
    out_of_range : {"raise", "clip"}, default "raise"
        A feature vector is in range if its norm is at most 1. Clipping puts 0 for what is no number
        in it, and the first class for a label that was not declared.

    Attributes
    ----------
    coef_ : array of shape (1, n_features)
    classes_ : array of shape (2,), the two labels, sorted
    weights_
    eta_ : float, twice the rate of the noise
    privacy_loss_
        Slack included: at most `epsilon`, for all records equal to it if ``eta_ * penalty`` is 2 or
        more, and else for the one of least weight.

    Notes
    -----
    Weights follow `epsilon`, so a record that accepts far more than the others outweighs them; cap
    `epsilon` before fitting, with a number that is not taken from the labels or features. A
    `penalty` with which no amount of noise keeps the promises is an error that names the one
    needed. What the guarantee assumes: :doc:`/book/privacy/limits`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, (1000, 2)); y = np.where(X @ [1.0, 2.0] > 0, "yes", "no")
    >>> model = PrivateLogisticRegression(0.01, classes=("no", "yes"), random_state=0)
    >>> bool(model.fit(X, y, epsilon=rng.uniform(0.5, 2, 1000)).score(X, y) > 0.9)
    True
    """

    def __init__(
        self,
        penalty: float = 0.1,
        *,
        epsilon: float = 1.0,
        classes: ArrayLike | None = None,
        out_of_range: Literal["raise", "clip"] = "raise",
        random_state: Any = None,
    ) -> None:
        self.penalty = penalty
        self.epsilon = epsilon
        self.classes = classes
        self.out_of_range = out_of_range
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        epsilon: ArrayLike | None = None,
        record: ArrayLike | None = None,
    ) -> PrivateLogisticRegression:
        """Fit with privacy: labels are of two classes, or of one of those declared."""
        features, (self.classes_, code) = self._columns(X, y), self._encoded(_vector(y))
        eps = check_epsilon(self._losses(epsilon, len(code)), len(code))
        weights = eps / eps.sum()
        eta = eta_within(eps, weights, self.penalty)
        clip = self.out_of_range == "clip"
        mechanism = objective_perturbation(
            features, 2.0 * code - 1, weights, eta, self.penalty, clip=clip
        )
        with records(record, self.random_state):
            self.coef_ = mechanism.release(rng=_generator(self.random_state))[None]
        self.weights_ = weights
        self.eta_ = eta
        self.privacy_loss_ = mechanism.privacy_loss
        return self

    def _encoded(self, labels: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """The two classes, and which of them each label is."""
        if self.classes is None:
            text = "classes is not given: the labels that occur become public, as classes_"
            warnings.warn(
                f"{text}; declare the two classes, and every data set is fitted",
                UserWarning,
                stacklevel=3,
            )
            classes = _two_labels(labels)
        elif len(classes := np.unique(np.asarray(self.classes))) != 2:
            raise ValueError(f"classes must be two different labels, got {self.classes!r}")
        code = private_places(labels, "y", classes.tolist())
        if self.out_of_range == "raise" and (code < 0).any():
            raise ValueError(
                f"y must hold no label but the declared classes {classes.tolist()}, or clip"
            )
        return classes, np.maximum(code, 0)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Signed score of each row, positive for the second class, shape (n_samples,)."""
        return self._scores(X, 0.0)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predicted labels, shape (n_samples,)."""
        scores = self.decision_function(X)
        return np.asarray(self.classes_[(scores > 0).astype(int)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags
