"""scikit-learn estimators that take a privacy loss for each sample.

In front of them nothing may learn from the data, which :func:`private_pipeline` sees to; what
searches and refits spend in all, an :class:`~hdpm_lib.accounts.Account` adds up. What the
guarantees assume: :doc:`/book/privacy/limits`.

Both perturb an objective of clipped losses (:mod:`hdpm_lib.learners.objective`), or, with a `delta`
above 0, descend with noisy clipped gradients (:mod:`hdpm_lib.learners.noisy_descent`). Settings
follow from public numbers (:mod:`hdpm_lib.learners.settings`).

Both take features in [0, 1], or in a ball of a public radius around 0 (`feature_norm`), and add an
intercept themselves: features in [0, 1] are centred at 1/2, and a constant stands beside them. It
is as large as each of `d` features is at most if all are alike, for a classifier twice that; the
squared norm becomes larger by the part `1/d` or `4/d`. Either was chosen on drawn problems.

Predictions on new data are post-processing and spend nothing: they take every finite number as it
is. With ``clip=True`` and a seed both estimators pass scikit-learn's ``check_estimator``, but for
the errors of complex numbers and of missing labels that it wants; without `clip` they refuse data
that it thinks fine.

The noise comes from `rng`, and there is no `random_state`: scikit-learn's ensembles and others set
an argument of that name to integers of 31 bits, which they keep, and whoever has them would have
the noise.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from dataclasses import dataclass
from numbers import Integral
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
from hdpm_lib.gaussian import largest_mu
from hdpm_lib.learners.noisy_descent import NoisyDescent, noisy_descent
from hdpm_lib.learners.objective import (
    Loss,
    ObjectivePerturbation,
    eta_within,
    objective_perturbation,
    weights_within,
)
from hdpm_lib.learners.settings import (
    default_clip_norm,
    descent_clip_norm,
    expected_descent_error,
    expected_error,
    penalty_times_eta,
    rate_and_momentum,
    stopping_time,
)
from hdpm_lib.noise import norm_law
from hdpm_lib.private import (
    check_features,
    check_pairs,
    check_records,
    column_names,
    private_cells,
    private_doubles,
    private_places,
)
from hdpm_lib.schema import Schema
from hdpm_lib.validation import (
    check_flag,
    check_levels,
    check_losses,
    check_number,
    check_positive,
)

Array = NDArray[np.float64]

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


def _generator(rng: Any) -> np.random.Generator:
    """Return a Generator: of fresh entropy for None, else from a seed as scikit-learn takes it."""
    if rng is None:
        return np.random.default_rng()
    if isinstance(rng, np.random.Generator):
        return rng
    seed = check_random_state(rng).randint(2**32, size=8, dtype=np.uint32)
    return np.random.default_rng(seed)


def _child(rng: Any) -> Any:
    """Seed another generator, from which nobody comes back to this one; keep what is none."""
    if isinstance(rng, np.random.RandomState):
        return _generator(rng)
    if isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng.integers(2**32, size=8, dtype=np.uint32))
    return rng


def private_pipeline(*steps: Any) -> Pipeline:
    """Make a scikit-learn pipeline, and check what is public of it: its steps and settings.

    Parameters
    ----------
    *steps : transformers, and last an estimator
        As ``make_pipeline`` takes them. A UserWarning tells of each but the last that is fitted on
        the data, or is not known to compute from each row alone. Known are
        :class:`~hdpm_lib.schema.Schema`, what scikit-learn needs no fit for, what it has fitted on
        public ranges and ``FrozenEstimator`` holds, and its ``FunctionTransformer`` of a NumPy
        ufunc. A UserWarning tells, too, of a last step that is neither of these nor
        :class:`PersonalizedRidge` or :class:`PrivateLogisticRegression`; and of a `feature_norm`
        of theirs that is less than that of a Schema before them, for then rows are shortened.

    Returns
    -------
    sklearn.pipeline.Pipeline
        Of these steps.

    Raises
    ------
    ValueError
        If a Schema stands before an estimator of this module that has no `feature_norm`: a Schema
        codes around 0, and the estimator would take features in [0, 1].

    Notes
    -----
    A private estimator sees neither the data before such a step nor the step: a scaler that is
    fitted on the records, or a function that looks at their least, lets one of them move all
    others, and the promise does not hold. Nor does it see what stands around it: the scaler of
    labels in ``TransformedTargetRegressor``, the last model of ``StackingRegressor``, the
    calibration of ``CalibratedClassifierCV`` and the scores of a search learn from the records
    without protection. Whoever knows that a step is safe calls ``make_pipeline``.

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
    named = list(pipeline.steps)
    while named and type(named[-1][1]) is Pipeline:
        named += named.pop()[1].steps
    if not named:
        return pipeline
    before = named[:-1]
    last_name, last = named[-1]
    for name, step in before:
        if not _goes_by_rows(step):
            warnings.warn(
                f"step {name!r} is fitted on the data, or not known to go row by row, so that one"
                " record can move all others: put a Schema in its place, or fit one of"
                " scikit-learn's on public ranges and freeze it, by FrozenEstimator",
                stacklevel=2,
            )
    if type(last) in (PersonalizedRidge, PrivateLogisticRegression):
        # None and "passthrough" do nothing
        working = [step for _, step in before if step is not None and not isinstance(step, str)]
        if working and isinstance(working[-1], Schema):
            _check_norm(last_name, last.feature_norm, working[-1].feature_norm)
    elif not (type(last) is FrozenEstimator or _goes_by_rows(last)):
        warnings.warn(
            f"step {last_name!r} is no private estimator of hdpm_lib, or stands around one: what it"
            " learns from the records itself, such as a scale of labels, a score or a calibration,"
            " nothing protects; put PersonalizedRidge or PrivateLogisticRegression there",
            stacklevel=2,
        )
    return pipeline


def _check_norm(name: str, feature_norm: Any, longest: float) -> None:
    """Compare the bound of an estimator with the longest row of the schema before it."""
    if feature_norm is None:
        raise ValueError(
            f"step {name!r} needs the feature_norm of the Schema before it, {longest:.6g}: rows are"
            " coded around 0, and without feature_norm features lie in [0, 1]"
        )
    if check_positive(feature_norm, "feature_norm") < longest * (1 - 1e-9):
        warnings.warn(
            f"step {name!r} has feature_norm = {feature_norm}, and the Schema before it codes rows"
            f" of norms up to {longest:.6g}: with clip they are shortened in silence",
            stacklevel=3,
        )


def _goes_by_rows(step: Any, *, frozen: bool = False) -> bool:
    """Tell whether a step is known to compute from each row alone."""
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
    """Take labels from a column if need be, with the warning that scikit-learn wants of it."""
    if getattr(y, "shape", ())[1:] == (1,):
        text = "A column-vector y was passed when a 1d array was expected"
        warnings.warn(text, DataConversionWarning, stacklevel=3)
        return getattr(y, "iloc", y)[:, 0]
    return y


def _text_column(table: Any, features: Array) -> Any:
    """Name a column of a table that holds text and nothing else, if there is one."""
    names = column_names(table) or []
    if len(features) == 1 or len(names) != features.shape[1]:
        return None  # of a single record nothing is told
    without_numbers = np.isnan(features).all(axis=0)
    if not without_numbers.any():
        return None
    cells = private_cells(table, "X", 2)
    for place in np.flatnonzero(without_numbers):
        if all(isinstance(cell, str) for cell in cells[:, place]):
            return names[place]
    return None


def _that_occur(y: Any) -> NDArray[Any]:
    """Return the labels that occur, sorted."""
    cells = private_cells(y, "y", 1)
    labels = np.empty(0)
    with contextlib.suppress(Exception):  # labels that cannot be sorted
        labels = np.unique(cells)
    missing = (labels != labels).any()
    infinite = False
    continuous = False
    if labels.dtype.kind == "f":
        infinite = not np.isfinite(labels).all()
        continuous = len(labels) > 2 and (labels % 1 != 0).any()
    if len(labels) < 2 or missing or infinite or continuous:
        raise ValueError(
            "Unknown label type: y must hold two classes or more, not one class or continuous"
            " numbers: declare the classes, as public facts"
        )
    return np.asarray(labels.tolist())


def _declared(classes: Any) -> NDArray[Any]:
    """Return the classes that were declared, sorted."""
    labels: list[Any] = list(check_levels(classes, "classes"))
    try:
        labels.sort()
    except TypeError:
        raise ValueError(f"classes must be labels that can be sorted, got {labels}") from None
    array = np.asarray(labels)
    if array.tolist() != labels:  # NumPy has changed them to one type
        array = np.asarray(labels, dtype=object)
    return array


# by what fits a classifier on other labels than its user's
ENCODERS = (
    "scikit-learn's ensembles, voting, stacking and cross_val_predict of chances or scores hand"
    " over 0, 1, ... in place of labels: for them, code the labels so and declare these"
)


def _warn_of_codes(classes: NDArray[Any]) -> None:
    """Warn in a copy that scikit-learn made: it may code labels by other numbers than declared."""
    numbers = private_doubles(classes.tolist(), "classes", 1)
    if np.isnan(numbers).all() or np.array_equal(numbers, np.arange(len(classes))):
        return  # the type of codes tells, or they are right
    warnings.warn(
        f"with clip a label that is not declared counts as {classes.tolist()[0]!r}; {ENCODERS}",
        UserWarning,
        stacklevel=4,
    )


PLAIN = "not private"
TAME = 1000.0  # a loss at which the noise is nothing: its penalty is that of fits without noise
HOPELESS = 0.95  # error over the variance of labels from which a fit is no better than a constant


def _warn_of_noise(what: str, total: float, features: int) -> None:
    """Warn before anything is spent, from public numbers."""
    warnings.warn(
        f"the fit will be mostly noise: {what} with {features} features and losses that sum to"
        f" {total:g}; take more records, larger losses or fewer features",
        UserWarning,
        stacklevel=3,
    )


@dataclass(frozen=True)
class _Coding:
    """How features come to the mechanism, for all that is done with a fitted model.

    `constant` is that of an intercept, next to what a feature may be.
    """

    d: int
    feature_norm: float | None
    intercept: bool
    constant: float

    @property
    def columns(self) -> int:
        """Number of coded features."""
        return self.d + self.intercept

    @property
    def middle(self) -> float:
        """Value for a missing feature of a record to predict."""
        return 0.5 if self.feature_norm is None else 0.0

    @property
    def _norm(self) -> float:
        """Bound on the norm of a coded row without the constant."""
        if self.feature_norm is not None:
            return self.feature_norm
        norm = math.sqrt(self.d)  # of features in [0, 1]
        if self.intercept:
            return norm / 2  # centred at 1/2
        return norm

    @property
    def _column(self) -> float:
        """The constant."""
        return self.constant * self._norm / math.sqrt(self.d)

    @property
    def norm(self) -> float:
        """Bound on the norm of a coded row."""
        if not self.intercept:
            return self._norm
        return math.hypot(self._norm, self._column)

    def coded(self, features: Array) -> Array:
        """Code features inside their bounds as the mechanisms take them."""
        if not self.intercept:
            return features
        if self.feature_norm is None:
            features = features - 0.5
        return np.column_stack([features, np.full(len(features), self._column)])

    def units(self) -> Array:
        """Return the matrix from coefficients on coded features to those on features.

        It has a row for each of the latter, and for the intercept.
        """
        units = np.eye(self.d + 1, self.columns)
        if self.intercept:
            if self.feature_norm is None:
                units[self.d, : self.d] = -0.5
            units[self.d, self.d] = self.constant * self.norm / math.sqrt(self.d + self.constant**2)
        return units


class _Private(BaseEstimator):
    """Base of the estimators."""

    _constant: float  # of an intercept, next to what a feature may be
    _loss: Loss
    _coding: _Coding  # of the last fit
    _label_bound = 1.0
    _is_clone = False  # what fits it may have coded its labels

    def __sklearn_clone__(self) -> Any:
        """Clone with noise of its own: a copied generator would repeat that of the original."""
        clone = super().__sklearn_clone__()
        clone.rng = _child(self.rng)
        clone._is_clone = True
        return clone

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled and copied: not the generator of this model's noise.

        Generators can be stepped back, and others may share it. A model without a fit is fitted
        elsewhere, and goes with a generator of its own.
        """
        state = dict(super().__getstate__())
        state["rng"] = None if "coef_" in state else _child(self.rng)
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = bool(self.clip)
        tags.input_tags.string = bool(self.clip)
        tags.non_deterministic |= not isinstance(self.rng, Integral)
        return tags

    def _doubles(self, X: Any, y: Any = "no_validation", *, reset: bool = True) -> Array:
        """Return features as floats; scikit-learn sees names and number of columns, and no cell."""
        check_flag(self.clip, "clip")
        features = private_doubles(X, "X", 2)
        validate_data(self, X, y, reset=reset, skip_check_array=True)
        return features

    def _coding_of(self, d: int) -> _Coding:
        """Return how `d` features are coded, by the parameters as they are now."""
        norm = self.feature_norm
        if norm is not None:
            norm = check_positive(norm, "feature_norm")
        return _Coding(d, norm, check_flag(self.fit_intercept, "fit_intercept"), self._constant)

    def _check_text(self, X: Any, features: Array) -> None:
        """Refuse a column of text, and name it: it is public as its type is."""
        if self.clip:
            return
        name = _text_column(X, features)
        if name is not None:
            raise ValueError(
                f"column {name!r} of X holds text: put a Schema before, in a private_pipeline, or"
                " clip"
            )

    def _finite(self, X: Any) -> Array:
        """Return features of new records, every finite number as it is."""
        check_is_fitted(self)
        features = self._doubles(X, reset=False)
        self._check_text(X, features)
        finite = np.isfinite(features)
        if not (self.clip or finite.all()):
            raise ValueError("X must be finite numbers: fill what is missing by a public rule")
        return np.where(finite, features, self._coding.middle)

    def _rows(self, X: Any) -> Array:
        """Return features of records and a constant 1; without records, of each coefficient."""
        if X is None:
            check_is_fitted(self)
            return np.eye(self.n_features_in_, self.n_features_in_ + 1)
        features = self._finite(X)
        return np.column_stack([features, np.ones(len(features))])

    def _scores(self, X: Any) -> Array:
        """Return scores of records, of shape (n, scores), cut where floats end."""
        features = self._finite(X)
        with np.errstate(all="ignore"):
            scores = features @ np.atleast_2d(self.coef_).T + self.intercept_
        return np.nan_to_num(scores)

    def _losses(self, epsilon: Any, n_records: int) -> Array | None:
        """Return one privacy loss for each record, from the arguments; None for a plain fit."""
        given = self.epsilon if epsilon is None else epsilon
        if isinstance(given, str) and given == PLAIN:
            warnings.warn(
                "not private: this fit tells of its records, and is for comparison only",
                UserWarning,
                stacklevel=3,
            )
            charge(lambda: np.full(n_records, np.inf))
            return None
        if np.ndim(given) == 0 and not hasattr(given, "privacy_loss"):
            given = np.full(n_records, check_positive(given, "epsilon"))
        return check_losses(given, n_records)

    def _calibrated(
        self, losses: Array, features: int, fits: int = 1
    ) -> ObjectivePerturbation | NoisyDescent:
        """Return the mechanism that these losses pay for, in so many fits, of public numbers."""
        delta = check_number(self.delta, "delta", 0, 1, ends="[)")
        if delta > 0:
            return self._descent(losses, delta, features, fits)
        return self._perturbation(losses / fits, features)

    @np.errstate(under="ignore")
    def _descent(self, losses: Array, delta: float, features: int, fits: int) -> NoisyDescent:
        """Return noisy descent that keeps (loss, delta) for each record, in all fits together."""
        if self.penalty is not None:
            raise ValueError(
                f"penalty = {self.penalty} is for delta = 0: with a delta descent stops early, and"
                " has none; leave it out"
            )
        different, places = np.unique(losses, return_inverse=True)
        accepted = different > 0
        mu = np.zeros(len(different))
        mu[accepted] = largest_mu(different[accepted], delta)
        mu *= 1 - 2.0**-29  # a trifle less, for what the search leaves
        mu /= math.sqrt(fits)  # fits add up in squares
        mu = mu[places]
        total = float(mu.sum())
        clip_norm = self.clip_norm
        if clip_norm is None:
            clip_norm = descent_clip_norm(self._loss, total)
        time = stopping_time(self._loss, features, int((mu > 0).sum()), total)
        learning_rate, momentum = rate_and_momentum(self._loss, time)
        return noisy_descent(
            mu,
            delta,
            features=features,
            learning_rate=learning_rate,
            momentum=momentum,
            loss=self._loss,
            clip_norm=clip_norm,
            clip=True,  # what rounding leaves
            arithmetic=self.arithmetic,
        )

    def _perturbation(self, losses: Array, features: int) -> ObjectivePerturbation:
        """Return objective perturbation that keeps these losses."""
        total = float(losses.sum())
        clip_norm = self.clip_norm
        if clip_norm is None:
            clip_norm = default_clip_norm(self._loss, features, total)
        promises = losses * (1 - 2.0**-48)  # a trifle less, for what rounding adds
        if self.penalty is None:
            product = penalty_times_eta(self._loss, features, total)
            weights, eta = weights_within(promises, product, loss=self._loss, clip_norm=clip_norm)
            penalty = check_positive(product / eta, "the penalty that epsilon asks for")
        else:
            weights = losses / total
            penalty = self.penalty
            eta = eta_within(promises, weights, penalty, loss=self._loss, clip_norm=clip_norm)
        return objective_perturbation(
            weights,
            eta,
            penalty,
            features=features,
            loss=self._loss,
            clip_norm=clip_norm,
            clip=True,  # what rounding leaves
            arithmetic=self.arithmetic,
        )

    def _fitted(
        self,
        mechanism: ObjectivePerturbation | NoisyDescent,
        coding: _Coding,
        features: Array,
        labels: list[Array],
        private: bool,
        record: ArrayLike | None,
        rng: np.random.Generator,
    ) -> Array:
        """Fit once for each vector of labels, and keep what the fits have in common.

        Returns coefficients and intercepts, of shape (fits, d + 1), for labels over their bound.
        """
        unit = coding.coded(features) / coding.norm
        coefficients = []  # on coded features
        if private:
            with records(record, self.rng):
                for y in labels:
                    coefficients.append(mechanism.release(unit, y, rng=rng))
        else:
            for y in labels:
                coefficients.append(mechanism._without_noise(unit, y))
        self._coding = coding
        self._keep(mechanism, len(labels), private)
        return np.asarray(np.array(coefficients) @ coding.units().T / coding.norm)

    def _keep(
        self, mechanism: ObjectivePerturbation | NoisyDescent, fits: int, private: bool
    ) -> None:
        """Keep the public numbers of a fit, and none of an earlier one with another mechanism."""
        for name in ("eta_", "penalty_", "expected_error_", "mu_"):
            if hasattr(self, name):
                delattr(self, name)
        self.weights_ = mechanism.weights
        self.clip_norm_ = mechanism.clip_norm
        without_noise = np.full(len(mechanism.weights), np.inf)
        if isinstance(mechanism, NoisyDescent):
            self.delta_ = mechanism.delta
            mu = math.sqrt(fits) * mechanism.mu if private else without_noise
            self.mu_ = _read_only(mu)
            losses = mechanism.loss_of_releases(fits) if private else without_noise
        else:
            self.delta_ = 0.0
            self.eta_ = mechanism.eta if private else math.inf
            self.penalty_ = mechanism.penalty
            losses = fits * mechanism.privacy_loss if private else without_noise
        self.privacy_loss_ = _read_only(losses)

    def noise_margin(self, X: ArrayLike | None = None, *, level: float = 0.95) -> Array:
        """Return how far the noise moved a number at most, with that probability or a larger one.

        How far the noise moves a model depends on the records, and is private; this is as far as it
        can (:meth:`~hdpm_lib.learners.objective.ObjectivePerturbation.noise_margin`), and holds for
        all coefficients and predictions, or scores of a class, at once.

        Parameters
        ----------
        X : array, table or lists of shape (n_samples, n_features), optional
            Features of records, for the margins of their predictions or scores.
        level : float, default 0.95
            The probability, between 0 and 1.

        Returns
        -------
        array of shape (n_features,), or (n_samples,)
            Half the length of an interval around each coefficient, prediction, or score of any
            class, for the model of these records with these settings and no noise.

        Raises
        ------
        ValueError
            If the model was fitted with a `delta` above 0.

        Examples
        --------
        >>> model = PrivateLogisticRegression(classes=(0, 1), epsilon=100.0)
        >>> model.fit([[0.2], [0.8]], [0, 1]).noise_margin([[0.0], [0.5]]).round(2)
        array([3.8 , 3.39])
        """
        rows = self._rows(X)
        if self.delta_ > 0:
            raise ValueError(
                "noise_margin is known for delta = 0 alone: clipped descent has no bound of use on"
                " how far noise moves it"
            )
        coding = self._coding
        lengths = self._label_bound * np.linalg.norm(rows @ coding.units(), axis=1) / coding.norm
        share = check_number(level, "level", 0, 1, ends="()")
        if self.eta_ == math.inf:
            return 0 * lengths
        rate = self.eta_ / 2 / self.clip_norm_
        return lengths * norm_law(coding.columns, rate).ppf(share) / self.penalty_


def _read_only(values: Array) -> Array:
    """Return a copy that cannot be written to, to stay with a fit."""
    copy = values.copy()
    copy.flags.writeable = False
    return copy


def _expected_error(mechanism: ObjectivePerturbation | NoisyDescent, total_loss: float) -> float:
    """Return the expected error in the reference population, with the default settings but clip."""
    columns = mechanism.features
    clip_norm = mechanism.clip_norm
    if isinstance(mechanism, NoisyDescent):
        total_mu = float(mechanism.mu.sum())
        time = stopping_time("squared", columns, int((mechanism.mu > 0).sum()), total_mu)
        return expected_descent_error(columns, time, clip_norm, total_mu)
    usual = penalty_times_eta("squared", columns, total_loss) / mechanism.eta
    return expected_error(columns, mechanism.noise_rate, usual, clip_norm)


def _is_drowned(mechanism: ObjectivePerturbation | NoisyDescent, total_loss: float) -> bool:
    """Return whether noise is longer than half of what all records together can pull."""
    if isinstance(mechanism, NoisyDescent):
        # both over all steps: noise adds up in squares
        return float(mechanism.mu.sum()) < 4 * math.sqrt(mechanism.features)
    return total_loss < 4 * mechanism.features


class PersonalizedRidge(RegressorMixin, _Private):
    r"""Ridge regression in which every record keeps its own privacy loss.

    Parameters
    ----------
    penalty : float, optional
        Ridge penalty :math:`\Lambda` on the weighted mean of squared errors, positive, for features
        and labels over their bounds. By default it follows from
        :func:`~hdpm_lib.learners.settings.penalty_times_eta`.
    epsilon : float or "not private", default 1.0
        Privacy loss that each record accepts, positive, where ``fit`` is not told. With "not
        private" the same model is fitted without noise, for comparison: a UserWarning says so, and
        no :class:`~hdpm_lib.accounts.Account` takes it.
    delta : float, default 0.0
        Public, in [0, 1): with what chance, about, a record may lose more than its `epsilon`; far
        below one over the number of records. With 0 a promise is one without exception. Above it
        noise is Gaussian, and the fit another: noisy descent, without a `penalty`. An open
        :class:`~hdpm_lib.accounts.Account` counts it by its `mu`, and needs a delta of its own for
        a limit.
    feature_norm : float, optional
        Public bound on the Euclidean norm of a feature vector, of any sign. If not given, features
        lie in [0, 1].
    label_bound : float, default 1.0
        Public bound on the absolute value of a label, positive.
        :class:`~hdpm_lib.schema.Schema` gives both bounds.
    clip_norm : float, optional
        How long the gradient of a record is at most, positive, for features and labels over their
        bounds: squared errors are clipped, as Huber's. Without it,
        :func:`~hdpm_lib.learners.settings.default_clip_norm`, at most 1.
    fit_intercept : bool, default True
        Add a constant feature of the model's own, which counts like any other.
    clip : bool, default False
        Treatment of records outside the bounds. False is an error, which tells that there are some;
        True moves them in silence and takes whatever is no number in a cell, missing or complex,
        for the middle of its range. Text that reads as a number is one. With True a bound that is
        forgotten or in another unit is not noticed: fit records that are public or made up without
        it first.
    arithmetic : {"exact", "ideal"}, default "exact"
        Certain to the last digit (:mod:`hdpm_lib.exact`); or in floats, for studies
        (:doc:`/book/privacy/limits`).
    rng : Generator, RandomState, int or None, default None
        Source of the noise. None is the operating system's entropy, fresh for each fit. Give a seed
        in tests only: noise that can be predicted protects nobody, and all fits share it. A clone,
        a pickle and a copy get generators of their own. Those of a fitted model hold None: a
        generator could be stepped back to the noise.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        The noisy coefficients.
    intercept_ : float
        The noisy constant, 0 without `fit_intercept`.
    weights_ : array of shape (n_samples,)
        Weight of each record, by default about in proportion to its `epsilon`, with a `penalty` of
        one's own just so, and with a `delta` in proportion to its ``mu_``.
    clip_norm_ : float
        The clip norm.
    eta_, penalty_ : float
        Twice the rate of the noise, times the clip norm, and the penalty. With a `delta` there are
        none.
    expected_error_ : float
        Expected error over the variance of the labels in a reference population, of whose
        variance a quarter depends on the features: 0.75, if the noise is nothing, and 1 or more,
        where a constant is as good (:func:`~hdpm_lib.learners.settings.expected_error`, at the
        default penalty, or :func:`~hdpm_lib.learners.settings.expected_descent_error`). It is from
        public numbers, and no estimate of this model's error. Above 0.95 a UserWarning says so
        before anything is spent.
    privacy_loss_ : array of shape (n_samples,)
        Privacy loss of each record by this one fit: by default its `epsilon`, and with a `penalty`
        of one's own at most that. Fitting again, as searches do, spends it again.
    delta_ : float
        The `delta` of the fit: ``privacy_loss_`` holds at it.
    mu_ : array of shape (n_samples,)
        With a `delta` alone: how far the fit may move each record, in standard deviations; what
        several fits lose together follows from their squares (:mod:`hdpm_lib.gaussian`).

    Notes
    -----
    Objective perturbation of clipped squared losses (:mod:`hdpm_lib.learners.objective`). All
    attributes of a private fit may be published. At equal losses that leaves less error than noisy
    second moments and than the output perturbation of Acharya et al.
    (:func:`~hdpm_lib.learners.second_moments.second_moments`,
    :func:`~hdpm_lib.learners.ridge.output_perturbation`; :doc:`/book/use/better`). As losses are
    Huber's, labels far from the others count as many, not as far: where labels are skewed or in two
    groups, and losses small, predictions lie nearer to the larger group than a mean would. Public
    are the number of records, every `epsilon` and the parameters. Neighbours differ in one record,
    replaced by any other within the bounds. Scale by *public* bounds before fitting; bounds taken
    from the data are not private.

    A `penalty` with which no amount of noise keeps the promises is an error that names the one
    needed.

    With a `delta` the fit is descent with noisy gradients (:mod:`hdpm_lib.learners.noisy_descent`),
    with the weights, clip norm and stopping time of :mod:`hdpm_lib.learners.settings`. On drawn
    problems that leaves less error where losses are small, as long as ``mu_`` sums to less than
    about 300.

    References
    ----------
    Personal losses by weights: Acharya, Boenisch, Naidu and Ziani (2024), "Personalized
    Differential Privacy for Ridge Regression". Noise in the objective: Chaudhuri, Monteleoni and
    Sarwate (2011), "Differentially Private Empirical Risk Minimization". The loss: Huber (1964),
    "Robust Estimation of a Location Parameter". With a `delta`: Abadi et al. (2016), "Deep Learning
    with Differential Privacy"; Dong, Roth and Su (2022), "Gaussian Differential Privacy".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((1000, 2))
    >>> y = X @ [0.5, 0.3]
    >>> PersonalizedRidge().fit(X, y, epsilon=rng.uniform(0.1, 1, 1000)).coef_.shape
    (2,)
    """

    _constant = 1.0
    _loss: Loss = "squared"

    def __init__(
        self,
        penalty: float | None = None,
        *,
        epsilon: float | Literal["not private"] = 1.0,
        delta: float = 0.0,
        feature_norm: float | None = None,
        label_bound: float = 1.0,
        clip_norm: float | None = None,
        fit_intercept: bool = True,
        clip: bool = False,
        arithmetic: Literal["exact", "ideal"] = "exact",
        rng: Any = None,
    ) -> None:
        self.penalty = penalty
        self.epsilon = epsilon
        self.delta = delta
        self.feature_norm = feature_norm
        self.label_bound = label_bound
        self.clip_norm = clip_norm
        self.fit_intercept = fit_intercept
        self.clip = clip
        self.arithmetic = arithmetic
        self.rng = rng

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
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
        >>> model.privacy_loss_.round(9).tolist(), round(model.penalty_, 4)
        ([500.0, 2000.0], 0.0012)
        """
        given = self._doubles(X, y)
        n, d = given.shape
        losses = self._losses(epsilon, n)
        coding = self._coding_of(d)
        bound = check_positive(self.label_bound, "label_bound")
        rng = _generator(self.rng)
        spent = np.full(n, TAME) if losses is None else losses
        mechanism = self._calibrated(spent, coding.columns)
        total = float(spent.sum())
        error = _expected_error(mechanism, total)
        if error > HOPELESS:
            _warn_of_noise(
                f"of the labels' variance at most {max(1 - error, 0):.1%} is expected to be"
                " explained",
                total,
                d,
            )
        # the data only now: what public numbers decide is decided
        self._check_text(X, given)
        features, labels = check_records(
            given,
            private_doubles(_vector(y), "y", 1),
            feature_norm=self.feature_norm,
            label_bound=bound,
            clip=self.clip,
        )
        private = losses is not None
        with np.errstate(all="ignore"):
            coefficients = bound * self._fitted(
                mechanism, coding, features, [labels / bound], private, record, rng
            )
        self._label_bound = bound
        self.coef_ = coefficients[0, :d]
        self.intercept_ = float(coefficients[0, d])
        self.expected_error_ = error
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Predict labels, at no loss of privacy.

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
        return np.clip(self._scores(X)[:, 0], -self._label_bound, self._label_bound)

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
        losses, positive; `w` are the coefficients on features over the bound of their norm. By
        default it follows from :func:`~hdpm_lib.learners.settings.penalty_times_eta`.
    epsilon : float or "not private", default 1.0
        Privacy loss that each record accepts, positive, where ``fit`` is not told. With "not
        private" the same model is fitted without noise, for comparison: a UserWarning says so, and
        no :class:`~hdpm_lib.accounts.Account` takes it.
    delta : float, default 0.0
        Public, in [0, 1): with what chance, about, a record may lose more than its `epsilon`; far
        below one over the number of records. With 0 a promise is one without exception. Above it
        noise is Gaussian, and the fit another: noisy descent, without a `penalty`. An open
        :class:`~hdpm_lib.accounts.Account` counts it by its `mu`, and needs a delta of its own for
        a limit.
    feature_norm : float, optional
        Public bound on the Euclidean norm of a feature vector, of any sign. If not given, features
        lie in [0, 1]. :class:`~hdpm_lib.schema.Schema` gives it.
    classes : array of two labels or more, optional
        The classes, as public facts: then every data set within the bounds is fitted, also one
        of a single class. A label is of the class that it is equal to, or else of one that reads as
        the same number, as "1" and 1 do. Without them a UserWarning says that the labels in `y`
        become public by ``classes_``, and it is an error if there is only one. Scikit-learn's
        ensembles, voting, stacking and ``cross_val_predict`` of chances or scores hand over 0, 1,
        ... in place of the labels: for them, code the labels so and declare ``classes=(0, 1)``.
    clip_norm : float, optional
        How long the gradient of a record is at most, for features over the bound of their norm, in
        (0, 1]; 1 clips nothing. Without it,
        :func:`~hdpm_lib.learners.settings.default_clip_norm`.
    fit_intercept : bool, default True
        Add a constant feature of the model's own, which counts like any other.
    clip : bool, default False
        Treatment of records outside the bounds. False is an error, which tells that there are some;
        True moves them in silence and takes the middle for what is no number, and the first class
        for a label that was not declared. With True a bound in another unit, or labels that are
        spelled or coded in another way, are not noticed: fit records that are public or made up
        without it first. Only types and settings are looked at: labels whose type holds none of the
        classes, as whole numbers hold no text, are a TypeError, and a UserWarning is given in a
        clone, which scikit-learn may fit on 0, 1, ..., if these are not the declared numbers.
    rng : Generator, RandomState, int or None, default None
        Source of the noise. None is the operating system's entropy, fresh for each fit. Give a seed
        in tests only: noise that can be predicted protects nobody, and all fits share it. A clone,
        a pickle and a copy get generators of their own. Those of a fitted model hold None: a
        generator could be stepped back to the noise.

    Attributes
    ----------
    coef_ : array of shape (1, n_features), or (n_classes, n_features)
        The noisy coefficients; of more than two classes each against the rest.
    intercept_ : array of shape (1,), or (n_classes,)
        The noisy constants, 0 without `fit_intercept`.
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    weights_ : array of shape (n_samples,)
        Weight of each record, by default about in proportion to its `epsilon`, with a `penalty` of
        one's own just so, and with a `delta` in proportion to its ``mu_``.
    clip_norm_ : float
        The clip norm.
    eta_, penalty_ : float
        Twice the rate of the noise, times the clip norm, and the penalty. With a `delta` there are
        none.
    privacy_loss_ : array of shape (n_samples,)
        Privacy loss of each record by this one fit: by default its `epsilon`, and with a `penalty`
        of one's own at most that.
    delta_ : float
        The `delta` of the fit: ``privacy_loss_`` holds at it.
    mu_ : array of shape (n_samples,)
        With a `delta` alone: how far the fit may move each record, in standard deviations; what
        several fits lose together follows from their squares (:mod:`hdpm_lib.gaussian`).

    Notes
    -----
    Objective perturbation of clipped logistic losses (:mod:`hdpm_lib.learners.objective`): beyond a
    slope they go on as straight lines, so that records that the model gets wrong by much count as
    many, not as far. Scores are therefore smaller than logarithms of odds.
    All attributes of a private fit may
    be published. Public are the number of records, every `epsilon` and the parameters. Neighbours
    differ in one record, replaced by any other within the bounds. More than two classes are fitted
    one against the rest, each with an equal part of every `epsilon`, or with a `delta` of the
    square of every ``mu_``. With a `delta` the fit is descent with noisy gradients
    (:mod:`hdpm_lib.learners.noisy_descent`): on drawn problems about as good as the pure one, and
    far better on the thirty features of breast cancer (:doc:`/book/use/better`).

    Weights follow `epsilon`, so a record that accepts far more than the others outweighs them; cap
    `epsilon` before fitting, with a number that is not taken from the labels or features. A
    `penalty` with which no amount of noise keeps the promises is an error that names the one
    needed. A UserWarning says before anything is spent that noise is longer than what all records
    together can pull: where the losses of a class sum to less than 4 for each feature, or, with a
    `delta`, all `mu` of a class to less than 4 times the root of their number. What the guarantee
    assumes: :doc:`/book/privacy/limits`.

    References
    ----------
    Anjarlekar, Etesami and Srikant (2024), "Striking a Balance: An Optimal Mechanism Design for
    Heterogenous Differentially Private Data Acquisition for Logistic Regression", Algorithm 1.
    Chaudhuri, Monteleoni and Sarwate (2011), "Differentially Private Empirical Risk Minimization".
    With a `delta`: Abadi et al. (2016), "Deep Learning with Differential Privacy"; Dong, Roth and
    Su (2022), "Gaussian Differential Privacy".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((1000, 2))
    >>> y = np.where(X @ [1.0, 2.0] > 1.5, "yes", "no")
    >>> model = PrivateLogisticRegression(classes=("no", "yes"), rng=0)
    >>> bool(model.fit(X, y, epsilon=rng.uniform(0.5, 2, 1000)).score(X, y) > 0.9)
    True
    """

    _constant = 2.0
    _loss: Loss = "logistic"
    arithmetic: Literal["exact", "ideal"] = "exact"

    def __init__(
        self,
        penalty: float | None = None,
        *,
        epsilon: float | Literal["not private"] = 1.0,
        delta: float = 0.0,
        feature_norm: float | None = None,
        classes: ArrayLike | None = None,
        clip_norm: float | None = None,
        fit_intercept: bool = True,
        clip: bool = False,
        rng: Any = None,
    ) -> None:
        self.penalty = penalty
        self.epsilon = epsilon
        self.delta = delta
        self.feature_norm = feature_norm
        self.classes = classes
        self.clip_norm = clip_norm
        self.fit_intercept = fit_intercept
        self.clip = clip
        self.rng = rng

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
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
        given = self._doubles(X, y)
        n, d = given.shape
        losses = self._losses(epsilon, n)
        coding = self._coding_of(d)
        rng = _generator(self.rng)
        labels = _vector(y)
        classes = self._public_classes(labels)
        fits = 1 if len(classes) == 2 else len(classes)
        spent = np.full(n, TAME) if losses is None else losses
        mechanism = self._calibrated(spent, coding.columns, fits)
        total = float((spent / fits).sum())
        if _is_drowned(mechanism, total):
            _warn_of_noise("it is longer than what all records can pull", total, d)
        # the data only now: what public numbers decide is decided
        self._check_text(X, given)
        features = check_features(given, self.feature_norm, clip=self.clip)
        code = self._encoded(labels, classes)
        check_pairs(features, code)
        # of two classes the second alone
        positive = [1] if fits == 1 else range(fits)
        signs = [np.where(code == place, 1.0, -1.0) for place in positive]
        private = losses is not None
        with np.errstate(all="ignore"):
            coefficients = self._fitted(mechanism, coding, features, signs, private, record, rng)
        self.coef_ = coefficients[:, :d]
        self.intercept_ = coefficients[:, d]
        self.classes_ = classes
        return self

    def _public_classes(self, labels: Any) -> NDArray[Any]:
        """Return the classes, sorted: those that were declared, else those that occur."""
        if self.classes is None:
            warnings.warn(
                "classes is not given: the labels that occur become public, as classes_; declare"
                " the classes, and every data set is fitted",
                UserWarning,
                stacklevel=3,
            )
            return _that_occur(labels)
        classes = _declared(self.classes)
        if self._is_clone and self.clip:
            _warn_of_codes(classes)
        return classes

    def _encoded(self, labels: Any, classes: NDArray[Any]) -> NDArray[np.intp]:
        """Return the place of each label among the classes."""
        code = private_places(labels, "y", classes.tolist(), f"; {ENCODERS}")
        if not self.clip and (code < 0).any():
            raise ValueError(
                f"y must hold no label but the declared classes {classes.tolist()}: recode it, or"
                f" clip; {ENCODERS}"
            )
        return np.maximum(code, 0)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of labels predicted rightly; no loss if the records are public.

        Parameters
        ----------
        X : array, table or lists of shape (n_samples, n_features)
            Features, as for :meth:`decision_function`.
        y : array of shape (n_samples,)
            Labels, read as in ``fit``; one that is no class is predicted by nobody.
        sample_weight : array of shape (n_samples,), optional
            How much each counts.

        Returns
        -------
        float
            Between 0 and 1.

        Examples
        --------
        >>> model = PrivateLogisticRegression(epsilon=900.0, classes=(0, 1), fit_intercept=False)
        >>> model.fit([[0.0], [1.0]], ["0", "1"]).score([[0.9], [0.8]], ["1", "0"])
        0.5
        """
        predicted = self.predict(X)
        code = private_places(_vector(y), "y", self.classes_.tolist(), f"; {ENCODERS}")
        check_pairs(predicted, code)
        right = (code >= 0) & (predicted == self.classes_[code])
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        return float(np.average(right, weights=weights))

    def decision_function(self, X: ArrayLike) -> Array:
        """Return the signed score of each row, at no loss of privacy.

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
        if len(self.classes_) == 2:
            return scores[:, 0]
        return scores

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the chances of the classes by the model, at no loss of privacy.

        Parameters
        ----------
        X : array, table or lists of shape (n_samples, n_features)
            Features, as for :meth:`decision_function`.

        Returns
        -------
        array of shape (n_samples, n_classes)
            In the order of ``classes_``, with sum 1, the largest where ``predict`` says. Noise
            makes them more extreme than they should be.

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
        chances /= chances.sum(axis=1, keepdims=True)
        # where chances in floats show no difference, scores may
        likeliest = scores.argmax(axis=1)
        tied = np.flatnonzero(chances.argmax(axis=1) != likeliest)
        chances[tied, likeliest[tied]] = np.nextafter(chances[tied].max(axis=1), 1)
        return np.asarray(chances)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict labels, at no loss of privacy.

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags
