"""scikit-learn estimators that take a privacy loss for each sample."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from hdpm_lib.ridge import Bound, pdp_op
from hdpm_lib.validation import check_choice, check_epsilon


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
        Public bound on the Euclidean norm of a feature vector; :math:`\sqrt d` if not given.
    project : bool, default True
        Pull the noisy coefficients onto the public ball that contains every noiseless estimate.
    out_of_range : {"raise", "clip"}, default "raise"
        What to do with features outside [0, 1] or labels outside [-1, 1]: an error, or clipping with one warning.
        Scale by *public* bounds before fitting; bounds taken from the data are not private.
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
    post-processing and spend nothing.

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
        project: bool = True,
        out_of_range: Literal["raise", "clip"] = "raise",
        random_state: Any = None,
    ) -> None:
        self.penalty = penalty
        self.epsilon = epsilon
        self.bound = bound
        self.feature_norm = feature_norm
        self.project = project
        self.out_of_range = out_of_range
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, epsilon: ArrayLike | None = None) -> PersonalizedRidge:
        """Fit with privacy.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Features in [0, 1].
        y : array of shape (n_samples,)
            Labels in [-1, 1].
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
        mechanism = pdp_op(
            features,
            labels,
            eps,
            self.penalty,
            bound=self.bound,
            feature_norm=self.feature_norm,
            clip=self.out_of_range == "clip",
        )
        seed = check_random_state(self.random_state).randint(2**32, size=8, dtype=np.uint32)
        self.coef_ = mechanism.release(rng=np.random.default_rng(seed), project=self.project)
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
