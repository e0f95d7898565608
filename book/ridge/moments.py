"""Exact moments of a quadratic form of spherical Laplace noise, and the squared loss of a model
that carries it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Mean and variance of a random number, or arrays of them."""

    mean: Array
    variance: Array

    @property
    def std(self) -> Array:
        """Standard deviation."""
        return np.sqrt(self.variance)


def quadratic_form_moments(matrix: ArrayLike, linear: ArrayLike, rate: ArrayLike) -> Moments:
    r"""Return the exact mean and variance of :math:`z^\top A z + g^\top z`, arrays of the broadcast
    leading shape.

    Here `matrix` is the symmetric `A`, shape (..., d, d), `linear` is `g`, shape (..., d), and
    `rate` has shape (...).

    Notes
    -----
    The mean is :math:`(d+1)\operatorname{tr}A/r^2` and the second moment
    :math:`(\operatorname{tr}^2A+2\operatorname{tr}A^2)(d+1)(d+3)/r^4 + \lVert g\rVert^2(d+1)/r^2`,
    as proved in :doc:`/book/ridge/accuracy`.

    Examples
    --------
    >>> quadratic_form_moments(np.eye(2), np.zeros(2), 1.0)   # the squared norm: mean d(d+1)
    Moments(mean=array(6.), variance=array(84.))
    """
    a = np.asarray(matrix)
    g = np.asarray(linear)
    r = np.asarray(rate)
    d = g.shape[-1]
    unit = (d + 1) / r**2
    trace = np.trace(a, axis1=-2, axis2=-1)
    trace_square = (a * np.swapaxes(a, -1, -2)).sum((-2, -1))
    mean = trace * unit
    second = (trace**2 + 2 * trace_square) * unit**2 * (d + 3) / (d + 1) + (g**2).sum(-1) * unit
    return Moments(np.asarray(mean), np.asarray(second - mean**2))


@dataclass(frozen=True)
class QuadraticLoss:
    r"""Mean squared error on a fixed data set as a quadratic in the estimate.

    Attributes
    ----------
    second : array of shape (d, d), the mean of :math:`xx^\top`
    cross : array of shape (d,), the mean of :math:`yx`
    label_square : float, the mean of :math:`y^2`, which is the loss of predicting zero
    """

    second: Array = field(repr=False)
    cross: Array = field(repr=False)
    label_square: float = field(repr=False)

    @classmethod
    def of(cls, X: ArrayLike, y: ArrayLike) -> QuadraticLoss:
        """Return the loss on records `X`, `y` (usually a test set)."""
        features = np.asarray(X, dtype=float)
        labels = np.asarray(y, dtype=float)
        n = len(labels)
        return cls(features.T @ features / n, features.T @ labels / n, float(labels @ labels / n))

    def __call__(self, theta: ArrayLike, penalty: ArrayLike = 0.0) -> Array:
        r"""Return the loss of estimates of shape (..., d), plus `penalty` times their squared norm
        (the *regularised* loss).
        """
        t = np.asarray(theta, dtype=float)
        square = ((t @ self.second) * t).sum(-1) + np.asarray(penalty) * (t**2).sum(-1)
        return np.asarray(self.label_square - 2 * t @ self.cross + square)

    def under_noise(
        self, theta: ArrayLike, noise_rate: ArrayLike, penalty: ArrayLike = 0.0
    ) -> Moments:
        r"""Return the exact mean and variance of the loss of `theta` plus spherical Laplace noise:
        no Monte Carlo needed.

        With :math:`A=\overline{xx^\top}+\lambda I` the mean is the loss of `theta` plus
        :math:`(d+1)\operatorname{tr}A/r^2`; the variance is that of a quadratic form
        (:func:`quadratic_form_moments`). `theta` has shape (..., d), rate and penalty (...);
        penalty 0 gives the unregularised loss.
        """
        t = np.asarray(theta, dtype=float)
        lam = np.asarray(penalty)
        matrix = self.second + lam[..., None, None] * np.eye(len(self.cross))
        gradient = 2 * ((matrix @ t[..., None])[..., 0] - self.cross)
        noise = quadratic_form_moments(matrix, gradient, noise_rate)
        return Moments(self(t, lam) + noise.mean, noise.variance)
