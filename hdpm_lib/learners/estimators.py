"""scikit-learn estimators that take a privacy loss for each sample.

In front of them nothing may learn from the data, which :func:`private_pipeline` sees to; what searches and refits spend
in all, an :class:`~hdpm_lib.accounts.Account` adds up. What the guarantees assume: :doc:`/book/privacy/limits`.

Throughout,

- `epsilon`: the privacy loss that each record accepts, positive. ``fit`` takes one for each, or one for all, in a
  pipeline by the name of the step, as in ``fit(X, y, personalizedridge__epsilon=epsilon)``; without it the parameter
  of the estimator is taken;
- `record`: numbers of the records in an open :class:`~hdpm_lib.accounts.Account`, integers, one for each sample;
- `out_of_range`: what to do with records outside the bounds. ``"raise"`` is an error, which tells that there are some,
  ``"clip"`` moves them in silence. Scale by *public* bounds before fitting; bounds taken from the data are not private.
  scikit-learn's ``check_estimator`` passes with ``"clip"`` only;
- `random_state`: source of the noise, a Generator, RandomState, int or None, which is the operating system's entropy,
  fresh for each fit. A clone gets a generator of its own. Give a seed in tests only: noise that can be predicted
  protects nobody, and all fits share it;
- ``coef_``: the noisy coefficients, all that may be published. Predictions on new data are post-processing and spend
  nothing. There is no intercept: add a constant feature, which counts like any other;
- ``weights_``, ``guarantee_``, shape (n_samples,): weight of each record, in proportion to `epsilon`, and its privacy
  loss by this one fit. Fitting again, as searches do, spends it again.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from hdpm_lib.accounts import charge
from hdpm_lib.learners.lattice import LatticeRidge, lattice_ridge
from hdpm_lib.learners.logistic import eta_within, objective_perturbation
from hdpm_lib.learners.ridge import Bound, OutputPerturbation, pdp_op
from hdpm_lib.validation import check_choice, check_epsilon, check_positive


def _generator(random_state: Any) -> np.random.Generator:
    """A generator of NumPy's new kind: of fresh entropy for None, else from what scikit-learn takes for a seed."""
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(2**32, size=8, dtype=np.uint32))


def private_pipeline(*steps: Any) -> Pipeline:
    """``sklearn.pipeline.make_pipeline``, with a UserWarning for each step but the last that would learn from the data.

    A private estimator sees neither the data before such a step nor the step: a scaler that is fitted on the records
    lets one of them move all others, and the promise does not hold. Fit it on public ranges instead, and freeze it.

    Examples
    --------
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> ages = MinMaxScaler(clip=True).fit([[18.0], [64.0]])   # the lowest and the highest, known without the data
    >>> model = private_pipeline(FrozenEstimator(ages), PersonalizedRidge(0.1))
    >>> model.fit([[18.0], [40.0]], [0.2, 0.3], personalizedridge__epsilon=0.5).predict([[50.0]]).shape
    (1,)
    """
    pipeline = make_pipeline(*steps)
    for name, step in pipeline.steps[:-1]:
        if not isinstance(step, str | None | FrozenEstimator) and get_tags(step).requires_fit:
            text = f"step {name!r} is fitted on the data, so that one record can move all others"
            warnings.warn(f"{text}: fit it on public ranges and freeze it, by FrozenEstimator", stacklevel=2)
    return pipeline


class _Private(BaseEstimator):
    """What the estimators share."""

    def __sklearn_clone__(self) -> Any:
        """A clone whose noise is its own: a copied generator would repeat that of the original."""
        new, source = super().__sklearn_clone__(), self.random_state
        if isinstance(source, np.random.RandomState):
            new.random_state = _generator(source)
        elif isinstance(source, np.random.Generator):
            new.random_state = np.random.default_rng(source.integers(2**32, size=8, dtype=np.uint32))
        return new

    def _losses(self, epsilon: ArrayLike | None, n_records: int) -> ArrayLike:
        """One privacy loss for each record, from what ``fit`` was given."""
        given = self.epsilon if epsilon is None else epsilon
        return np.full(n_records, check_positive(given, "epsilon")) if np.ndim(given) == 0 else given


class PersonalizedRidge(RegressorMixin, _Private):
    """Ridge regression in which every record keeps its own privacy loss (PDP-OP).

    Parameters
    ----------
    penalty : float, positive, default 1.0
        Ridge penalty on the weighted mean of squared errors.
    epsilon, out_of_range, random_state
    bound : {"sharp", "paper"}, default "sharp"
        Sensitivity bound that sets the noise; ``"paper"`` is Theorem 2.1 as printed.
    feature_norm : float, optional
        Public bound on the Euclidean norm of a feature vector, of any sign. If not given, features lie in [0, 1].
    label_bound : float, default 1.0, public bound on the absolute value of a label
        :class:`~hdpm_lib.schema.Schema` gives both bounds.
    project : bool, default True
        Pull the noisy coefficients onto the public ball that contains every noiseless estimate.
    spacing : float, optional
        A power of two such as :math:`2^{-20}`: compute in integers and add noise on a lattice of this step, for which
        the guarantee holds exactly (:func:`~hdpm_lib.learners.lattice.lattice_ridge`); at most 50 features. By default
        the guarantee is one for real numbers (:doc:`/book/privacy/limits`).

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    weights_, guarantee_
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
        spacing: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.penalty = penalty
        self.epsilon = epsilon
        self.bound = bound
        self.feature_norm = feature_norm
        self.label_bound = label_bound
        self.project = project
        self.out_of_range = out_of_range
        self.spacing = spacing
        self.random_state = random_state

    def fit(
        self, X: ArrayLike, y: ArrayLike, epsilon: ArrayLike | None = None, record: ArrayLike | None = None
    ) -> PersonalizedRidge:
        """Fit with privacy."""
        check_choice(self.out_of_range, "out_of_range", ("raise", "clip"))
        features, labels = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        options = {name: getattr(self, name) for name in ("penalty", "bound", "feature_norm", "label_bound")}
        options |= {"epsilon": self._losses(epsilon, len(labels)), "clip": self.out_of_range == "clip"}
        mechanism: OutputPerturbation | LatticeRidge
        if self.spacing is None:
            mechanism = pdp_op(features, labels, **options)
        else:
            mechanism = lattice_ridge(features, labels, spacing=self.spacing, **options)
        charge(record, mechanism.guarantee, self.random_state)
        self.coef_ = mechanism.release(rng=_generator(self.random_state), project=self.project)
        self.weights_ = mechanism.weights
        self.noise_rate_ = mechanism.noise_rate
        self.guarantee_ = mechanism.guarantee
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predicted labels, shape (n_samples,)."""
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, reset=False, dtype=np.float64) @ self.coef_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # on the tiny data of scikit-learn's own checks
        return tags


class PrivateLogisticRegression(ClassifierMixin, _Private):
    r"""Logistic regression in which every record keeps its own privacy loss, by objective perturbation.

    Parameters
    ----------
    penalty : float, positive, default 0.1
        The :math:`\Lambda` in :math:`\frac\Lambda2\lVert w\rVert^2`, on the weighted mean of the losses.
    epsilon, random_state
    classes : array of two labels, optional
        The two classes, as public facts: then every data set within the bounds is fitted, also one of a single class.
        Without them those in `y` are taken, as if public, and a single class is an error, which tells that it is one.
    out_of_range : {"raise", "clip"}, default "raise"
        A feature vector is in range if its norm is at most 1.

    Attributes
    ----------
    coef_ : array of shape (1, n_features)
    classes_ : array of shape (2,), the two labels, sorted
    weights_
    eta_ : float, twice the rate of the noise
    guarantee_
        Slack included: at most `epsilon`, for all records equal to it if ``eta_ * penalty`` is 2 or more, and else for
        the one of least weight.

    Notes
    -----
    Weights follow `epsilon`, so a record that accepts far more than the others outweighs them; cap `epsilon` before
    fitting, with a number that is not taken from the labels or features. A `penalty` with which no amount of noise
    keeps the promises is an error that names the one needed. What the guarantee assumes: :doc:`/book/privacy/limits`.

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
        self, X: ArrayLike, y: ArrayLike, epsilon: ArrayLike | None = None, record: ArrayLike | None = None
    ) -> PrivateLogisticRegression:
        """Fit with privacy: labels are of two classes, or of one of those declared."""
        check_choice(self.out_of_range, "out_of_range", ("raise", "clip"))
        features, labels = validate_data(self, X, y, dtype=np.float64)
        self.classes_, code = self._encoded(labels)
        eps = check_epsilon(self._losses(epsilon, len(labels)), len(labels))
        weights = eps / eps.sum()
        eta = eta_within(eps, weights, self.penalty)
        clip = self.out_of_range == "clip"
        mechanism = objective_perturbation(features, 2.0 * code - 1, weights, eta, self.penalty, clip=clip)
        charge(record, mechanism.guarantee, self.random_state)
        self.coef_ = mechanism.release(rng=_generator(self.random_state))[None]
        self.weights_ = weights
        self.eta_ = eta
        self.guarantee_ = mechanism.guarantee
        return self

    def _encoded(self, labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The two classes, and which of them each label is."""
        if self.classes is not None:
            classes = np.unique(np.asarray(self.classes))
            if len(classes) != 2:
                raise ValueError(f"classes must be two different labels, got {self.classes!r}")
            code = (labels == classes[1]).astype(int)
            if not ((labels == classes[0]) | (code == 1)).all():
                raise ValueError(f"y must hold no label but the declared classes {classes.tolist()}")
            return classes, code
        check_classification_targets(labels)
        if (kind := type_of_target(labels, input_name="y")) != "binary":
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        found, code = np.unique(labels, return_inverse=True)
        if len(found) < 2:
            raise ValueError("y holds one class: declare both classes, as public facts, with the argument classes")
        return found, code

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Signed score of each row, positive for the second class, shape (n_samples,)."""
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, reset=False, dtype=np.float64) @ self.coef_[0])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predicted labels, shape (n_samples,)."""
        scores = self.decision_function(X)
        return np.asarray(self.classes_[(scores > 0).astype(int)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags
