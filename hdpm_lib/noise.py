r"""Spherical Laplace noise: the law, its exact moments, and the squared loss of a linear model that carries it.

The law has density proportional to :math:`e^{-r\lVert z\rVert_2}` in :math:`\mathbb{R}^d`. The norm follows a Gamma law
of shape `d` and rate `r`, the direction is uniform and independent of it; for :math:`d=1` it is the Laplace law of
scale :math:`1/r`. Throughout, `dimension` is :math:`d\ge1` and `rate` the noise rate `r` (no scale), positive.

Samples are floating-point numbers; the guarantees built on them are theorems about real numbers:
:doc:`/book/privacy/limits`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.validation import check_count, check_finite, check_generator, check_positive, check_size

Array = NDArray[np.float64]


def spherical_laplace(
    dimension: int, rate: ArrayLike, *, rng: np.random.Generator, size: int | tuple[int, ...] = ()
) -> Array:
    r"""Draws of shape (\*size, dimension): a Gamma radius times a uniform direction (Remark .1 of the ridge paper).

    An array of rates must broadcast to `size`. Floating-point numbers have gaps: :doc:`/book/privacy/limits`.

    Examples
    --------
    >>> spherical_laplace(3, 2.0, rng=np.random.default_rng(0), size=5).shape
    (5, 3)
    """
    d = check_count(dimension, "dimension")
    r = check_finite(rate, "rate", low=0, ends="()")
    shape = check_size(size)
    direction = check_generator(rng).standard_normal((*shape, d))
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    return rng.gamma(d, 1.0 / r, size=shape)[..., None] * direction


def norm_law(dimension: int, rate: float) -> Any:
    """Law of the norm, a frozen Gamma law of SciPy."""
    return scipy.stats.gamma(check_count(dimension, "dimension"), scale=1.0 / check_positive(rate, "rate"))


def coordinate_variance(dimension: int, rate: ArrayLike) -> Array:
    """Variance of one coordinate, of the shape of `rate`: the covariance is :math:`(d+1)/r^2` times the identity."""
    return np.asarray((check_count(dimension, "dimension") + 1) / check_finite(rate, "rate", low=0, ends="()") ** 2)


def log_density(z: ArrayLike, rate: float) -> Array:
    r"""Logarithm of the density at points of shape (..., d).

    It is :math:`d\log r - \log(d!\,V_d) - r\lVert z\rVert`, :math:`V_d` being the volume of the unit ball.

    Examples
    --------
    >>> round(float(np.exp(log_density([0.0], 3.0))), 6)   # the Laplace density at 0 is rate / 2
    1.5
    """
    points = np.atleast_1d(check_finite(z, "z"))
    d = points.shape[-1]
    log_volume = 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1)
    constant = d * math.log(check_positive(rate, "rate")) - math.lgamma(d + 1) - log_volume
    return np.asarray(constant - rate * np.linalg.norm(points, axis=-1))


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
    r"""Exact mean and variance of :math:`z^\top A z + g^\top z`, arrays of the broadcast leading shape.

    Here `matrix` is the symmetric `A`, shape (..., d, d), `linear` is `g`, shape (..., d), and `rate` has shape (...).

    Notes
    -----
    The mean is :math:`(d+1)\operatorname{tr}A/r^2` and the second moment
    :math:`(\operatorname{tr}^2A+2\operatorname{tr}A^2)(d+1)(d+3)/r^4 + \lVert g\rVert^2(d+1)/r^2`, as proved in
    :doc:`/book/ridge/accuracy`.

    Examples
    --------
    >>> quadratic_form_moments(np.eye(2), np.zeros(2), 1.0)   # the squared norm: mean d(d+1)
    Moments(mean=array(6.), variance=array(84.))
    """
    a, g = check_finite(matrix, "matrix"), check_finite(linear, "linear")
    d = g.shape[-1] if g.ndim else 0
    if a.shape[-2:] != (d, d):
        raise ValueError(f"matrix and linear must have shapes (..., d, d) and (..., d), got {a.shape} and {g.shape}")
    return _moments(a, g, check_finite(rate, "rate", low=0, ends="()"))


def _moments(a: Array, g: Array, r: Array) -> Moments:
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

        With :math:`A=\overline{xx^\top}+\lambda I` the mean is the loss of `theta` plus
        :math:`(d+1)\operatorname{tr}A/r^2`; the variance is that of a quadratic form (:func:`quadratic_form_moments`).
        `theta` has shape (..., d), rate and penalty (...); penalty 0 gives the unregularised loss.
        """
        t, lam = check_finite(theta, "theta"), check_finite(penalty, "penalty", low=0)
        if t.shape[-1:] != self.cross.shape:
            raise ValueError(f"theta must have shape (..., {len(self.cross)}), got {t.shape}")
        matrix = self.second + lam[..., None, None] * np.eye(len(self.cross))
        gradient = 2 * ((matrix @ t[..., None])[..., 0] - self.cross)
        noise = _moments(matrix, gradient, check_finite(noise_rate, "noise_rate", low=0, ends="()"))
        return Moments(self(t, lam) + noise.mean, noise.variance)
