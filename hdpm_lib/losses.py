"""The squared loss of a linear model, and its exact mean and variance when the model carries noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.noise import Moments, quadratic_form_moments
from hdpm_lib.validation import check_finite

Array = NDArray[np.float64]


@dataclass(frozen=True)
class QuadraticLoss:
    r"""Mean squared error on a fixed data set as a quadratic in the estimate.

    Attributes
    ----------
    second : array of shape (d, d)
        Mean of :math:`xx^\top`.
    cross : array of shape (d,)
        Mean of :math:`yx`.
    label_square : float
        Mean of :math:`y^2`, the loss of predicting zero.
    """

    second: Array
    cross: Array
    label_square: float

    @classmethod
    def of(cls, X: ArrayLike, y: ArrayLike) -> QuadraticLoss:
        """The loss on records `X`, `y` (usually a test set)."""
        features, labels = check_finite(X, "X", 2), check_finite(y, "y", 1)
        n = len(labels)
        if len(features) != n:
            raise ValueError(f"X has {len(features)} records and y has {n}")
        return cls(features.T @ features / n, features.T @ labels / n, float(labels @ labels / n))

    def __call__(self, theta: ArrayLike, penalty: ArrayLike = 0.0) -> Array:
        r"""Loss of estimates of shape (..., d), plus `penalty` times their squared norm (the *regularised* loss)."""
        t = np.asarray(theta, dtype=float)
        square = ((t @ self.second) * t).sum(-1) + np.asarray(penalty) * (t**2).sum(-1)
        return np.asarray(self.label_square - 2 * t @ self.cross + square)

    def under_noise(self, theta: ArrayLike, noise_rate: ArrayLike, penalty: ArrayLike = 0.0) -> Moments:
        r"""Exact mean and variance of the loss of `theta` plus spherical Laplace noise: no Monte Carlo needed.

        Parameters
        ----------
        theta : array of shape (..., d)
        noise_rate : array of shape (...)
        penalty : array of shape (...)
            0 for the unregularised loss.

        Returns
        -------
        Moments
            With :math:`A=\overline{xx^\top}+\lambda I`, the mean is the loss of `theta` plus
            :math:`(d+1)\operatorname{tr}A/\eta^2`; the variance is that of a quadratic form
            (:func:`hdpm_lib.noise.quadratic_form_moments`).
        """
        t, lam = check_finite(theta, "theta"), check_finite(penalty, "penalty", low=0)
        if t.shape[-1:] != self.cross.shape:
            raise ValueError(f"theta must have shape (..., {len(self.cross)}), got {t.shape}")
        matrix = self.second + lam[..., None, None] * np.eye(len(self.cross))
        gradient = 2 * ((matrix @ t[..., None])[..., 0] - self.cross)
        noise = quadratic_form_moments(matrix, gradient, check_finite(noise_rate, "noise_rate", low=0, ends="()"))
        return Moments(self(t, lam) + noise.mean, noise.variance)
