"""scikit-learn estimators that take a privacy loss for each sample."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from hdpm_lib.lattice import LatticeRidge, lattice_ridge
from hdpm_lib.logistic import eta_within, objective_perturbation
from hdpm_lib.ridge import Bound, OutputPerturbation, pdp_op
from hdpm_lib.validation import check_choice, check_epsilon


def _generator(random_state: Any) -> np.random.Generator:
    """A generator of NumPy's new kind: of fresh entropy for None, else from what scikit-learn takes for a seed."""
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(2**32, size=8, dtype=np.uint32))


class PersonalizedRidge(RegressorMixin, BaseEstimator):
    r"""Ridge regression in which every record keeps its own privacy loss (PDP-OP).

    Parameters
    ----------
    penalty : float, default 1.0
        Ridge penalty, positive, on the weighted mean of squared errors.
    epsilon : float, default 1.0
        Privacy loss of each record when ``fit`` is not given any.
    bound : {"sharp", "paper"}, default "sharp"
        Sensitivity bound that sets the noise; ``"paper"`` is Theorem 2.1 as printed.
    feature_norm : float, optional
        Public bound on the Euclidean norm of a feature vector, of any sign. If not given, features lie in [0, 1].
    label_bound : float, default 1.0
        Public bound on the absolute value of a label. :class:`~hdpm_lib.schema.Schema` gives both bounds.
    project : bool, default True
        Pull the noisy coefficients onto the public ball that contains every noiseless estimate.
    out_of_range : {"raise", "clip"}, default "raise"
        What to do with records outside the bounds: an error, or clipping without a word.
        Scale by *public* bounds before fitting; bounds taken from the data are not private.
    spacing : float, optional
        A power of two such as :math:`2^{-20}`: compute in integers and add noise on a lattice of this step, for which
        the guarantee holds exactly (:func:`~hdpm_lib.lattice.lattice_ridge`). By default noise is a float, and the
        guarantee one for real numbers. At most 50 features.
    random_state : int, RandomState or None, default None
        Seed of the noise. Fix it in tests only: noise that can be predicted protects nobody.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Noisy coefficients; all that may be published.
    weights_ : array of shape (n_samples,)
    noise_rate_ : float
    guarantee_ : array of shape (n_samples,)
        Privacy loss promised to each record by this one fit; fitting again spends it again.
    n_features_in_ : int

    Notes
    -----
    There is no intercept: add a constant feature, which is penalised like any other. Predictions on new data are
    post-processing and spend nothing. What the guarantee assumes: :doc:`/book/privacy/limits`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((1000, 2)); y = X @ [0.5, 0.3]
    >>> model = PersonalizedRidge(penalty=0.1, random_state=0).fit(X, y, epsilon=rng.uniform(0.1, 1, 1000))
    >>> model.coef_.shape, bool(model.guarantee_.max() <= 1)
    ((2,), True)
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

    def fit(self, X: ArrayLike, y: ArrayLike, epsilon: ArrayLike | None = None) -> PersonalizedRidge:
        """Fit with privacy.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Features in [0, 1], or of norm at most `feature_norm`.
        y : array of shape (n_samples,)
            Labels in [-label_bound, label_bound].
        epsilon : array of shape (n_samples,), optional
            Privacy loss each record accepts; the parameter `epsilon` for everybody if not given.

        Returns
        -------
        PersonalizedRidge
            Itself.

        Raises
        ------
        ValueError
            For data outside the bounds (unless clipping) or a bad `epsilon`, `bound` or `out_of_range`.
        """
        check_choice(self.bound, "bound", ("sharp", "paper"))
        check_choice(self.out_of_range, "out_of_range", ("raise", "clip"))
        features, labels = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        eps = check_epsilon(np.full(len(labels), float(self.epsilon)) if epsilon is None else epsilon, len(labels))
        options: dict[str, Any] = {"bound": self.bound, "feature_norm": self.feature_norm}
        options |= {"label_bound": self.label_bound, "clip": self.out_of_range == "clip"}
        if self.spacing is None:
            mechanism: OutputPerturbation | LatticeRidge = pdp_op(features, labels, eps, self.penalty, **options)
        else:
            mechanism = lattice_ridge(features, labels, eps, self.penalty, spacing=self.spacing, **options)
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
        """Say that scores are poor on the tiny data of scikit-learn's own checks: privacy costs accuracy there."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


class PrivateLogisticRegression(ClassifierMixin, BaseEstimator):
    r"""Logistic regression in which every record keeps its own privacy loss, by objective perturbation.

    Parameters
    ----------
    penalty : float, default 0.1
        Positive, :math:`\Lambda` in :math:`\frac\Lambda2\lVert w\rVert^2`, on the weighted mean of the losses.
    epsilon : float, default 1.0
        Privacy loss of each record when ``fit`` is not given any.
    classes : array of two labels, optional
        The two classes, as public facts: then every data set within the bounds is fitted, also one of a single class.
        Without them the classes are those in `y`, taken as public, and a single class is an error, which tells whoever
        sees it that all labels are equal.
    out_of_range : {"raise", "clip"}, default "raise"
        What to do with feature vectors of norm above 1: an error, or shortening them, which is not said. Scale by
        *public* bounds before fitting; bounds taken from the data are not private. scikit-learn's ``check_estimator``
        fits longer vectors, and so passes with ``"clip"`` only.
    random_state : int, RandomState or None, default None
        Seed of the noise. Fix it in tests only: noise that can be predicted protects nobody.

    Attributes
    ----------
    coef_ : array of shape (1, n_features)
        Noisy coefficients; all that may be published.
    classes_ : array of shape (2,)
        The two labels, sorted.
    weights_ : array of shape (n_samples,)
        Proportional to `epsilon`.
    eta_ : float
        Twice the rate of the noise.
    guarantee_ : array of shape (n_samples,)
        Proved privacy loss of each record by this one fit, slack included: at most `epsilon`, for all records equal to
        it if ``eta_ * penalty`` is 2 or more, and else for the one of least weight. Fitting again spends it again.
    n_features_in_ : int

    Notes
    -----
    There is no intercept: add a constant feature, which counts in the norm. Weights follow `epsilon`, so a record that
    accepts far more than the others outweighs them; cap `epsilon` before fitting, with a number that is not taken from
    the labels or features. Predictions on new data are post-processing and spend nothing. What the guarantee assumes:
    :doc:`/book/privacy/limits`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, (1000, 2)); y = np.where(X @ [1.0, 2.0] > 0, "yes", "no")
    >>> epsilon = rng.uniform(0.5, 2, 1000)
    >>> model = PrivateLogisticRegression(0.01, classes=("no", "yes"), random_state=0).fit(X, y, epsilon=epsilon)
    >>> model.coef_.shape, bool(np.allclose(model.guarantee_, epsilon)), model.score(X, y) > 0.9
    ((1, 2), True, True)
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

    def fit(self, X: ArrayLike, y: ArrayLike, epsilon: ArrayLike | None = None) -> PrivateLogisticRegression:
        """Fit with privacy.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Features, each row of norm at most 1.
        y : array of shape (n_samples,)
            Labels of two classes, or of one of those declared.
        epsilon : array of shape (n_samples,), optional
            Privacy loss each record accepts; the parameter `epsilon` for everybody if not given.

        Returns
        -------
        PrivateLogisticRegression
            Itself.

        Raises
        ------
        ValueError
            For data outside the bounds (unless clipping), labels outside the declared classes or, without them, not
            exactly two classes, a bad `epsilon`, `classes` or `out_of_range`, or a `penalty` with which no amount of
            noise keeps the promises, naming the one that is needed.
        """
        check_choice(self.out_of_range, "out_of_range", ("raise", "clip"))
        features, labels = validate_data(self, X, y, dtype=np.float64)
        self.classes_, code = self._encoded(labels)
        eps = check_epsilon(np.full(len(labels), float(self.epsilon)) if epsilon is None else epsilon, len(labels))
        weights, clip = eps / eps.sum(), self.out_of_range == "clip"
        eta = eta_within(eps, weights, self.penalty)
        mechanism = objective_perturbation(features, 2.0 * code - 1, weights, eta, self.penalty, clip=clip)
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
            raise ValueError("y holds a single class: declare both classes, as public facts, with the argument classes")
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
        """Say that there are two classes, and that scores are poor on the tiny data of scikit-learn's own checks."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags
