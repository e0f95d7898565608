r"""Noise laws and their exact moments.

The *spherical Laplace* law in :math:`\mathbb{R}^d` has density proportional to :math:`\exp(-r\lVert z\rVert_2)`, where
:math:`r` is the *noise rate*. Its norm follows a Gamma law of shape :math:`d` and rate :math:`r`, its direction is
uniform and independent of the norm; for :math:`d=1` it is the Laplace law of scale :math:`1/r`.

Samples are floating-point numbers; the guarantees built on them are theorems about real numbers:
:doc:`/book/privacy/limits`.

The squared loss of a linear model, and its exact mean and variance when the model carries noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from hdpm_lib.validation import check_count, check_finite, check_generator, check_positive, check_size

Array = NDArray[np.float64]


def spherical_laplace(
    dimension: int, rate: ArrayLike, *, rng: np.random.Generator, size: int | tuple[int, ...] = ()
) -> Array:
    r"""Draw from the density proportional to :math:`\exp(-\text{rate}\,\lVert z\rVert_2)`.

    Parameters
    ----------
    dimension : int
        Number of coordinates `d`, at least 1.
    rate : float or array
        Noise rate (a rate, not a scale), positive; an array must broadcast to `size`.
    rng : numpy.random.Generator
        Source of randomness.
    size : int or tuple of int
        Shape of the batch; ``()`` gives one vector.

    Returns
    -------
    array of shape (\*size, dimension)
        Independent draws.

    Raises
    ------
    ValueError
        If `dimension` or `rate` is not positive.

    Notes
    -----
    A Gamma radius times a uniform direction: Remark .1 of the ridge paper. Floating-point numbers have gaps:
    :doc:`/book/privacy/limits`.

    Examples
    --------
    >>> z = spherical_laplace(3, 2.0, rng=np.random.default_rng(0), size=5)
    >>> z.shape
    (5, 3)
    """
    d, r = check_count(dimension, "dimension"), check_finite(rate, "rate", low=0, ends="()")
    shape = check_size(size)
    direction = check_generator(rng).standard_normal((*shape, d))
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    return rng.gamma(d, 1.0 / r, size=shape)[..., None] * direction


def norm_law(dimension: int, rate: float) -> Any:
    """Law of the norm of spherical Laplace noise: Gamma of shape `dimension` and rate `rate`.

    Parameters
    ----------
    dimension : int
        Number of coordinates, at least 1.
    rate : float
        Noise rate, positive.

    Returns
    -------
    scipy frozen distribution
        With ``mean() == dimension / rate``.

    Examples
    --------
    >>> float(norm_law(12, 3.0).mean())
    4.0
    """
    return stats.gamma(check_count(dimension, "dimension"), scale=1.0 / check_positive(rate, "rate"))


def coordinate_variance(dimension: int, rate: ArrayLike) -> Array:
    r"""Variance of one coordinate: the covariance of the law is :math:`(d+1)/r^2` times the identity.

    Parameters
    ----------
    dimension : int
        Number of coordinates `d`, at least 1.
    rate : float or array
        Noise rate, positive.

    Returns
    -------
    array of the shape of `rate`
        Follows from :math:`\mathbb{E}\lVert z\rVert^2 = d(d+1)/r^2` and symmetry.

    Examples
    --------
    >>> float(coordinate_variance(1, 2.0))
    0.5
    """
    return np.asarray((check_count(dimension, "dimension") + 1) / check_finite(rate, "rate", low=0, ends="()") ** 2)


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
    r"""Exact mean and variance of :math:`z^\top A z + g^\top z` for spherical Laplace `z`.

    Parameters
    ----------
    matrix : array of shape (..., d, d)
        Symmetric `A`.
    linear : array of shape (..., d)
        `g`.
    rate : array of shape (...)
        Noise rate, positive.

    Returns
    -------
    Moments
        Arrays of the broadcast leading shape.

    Raises
    ------
    ValueError
        If `rate` is not positive.

    Notes
    -----
    Odd moments vanish by symmetry, and for a uniform direction `u`,
    :math:`\mathbb{E}(u^\top A u)^2 = (\operatorname{tr}^2A + 2\operatorname{tr}A^2)/(d(d+2))`. With
    :math:`\mathbb{E}\lVert z\rVert^4 = d(d+1)(d+2)(d+3)/r^4` this gives the mean :math:`(d+1)\operatorname{tr}A/r^2`
    and the second moment
    :math:`(\operatorname{tr}^2A+2\operatorname{tr}A^2)(d+1)(d+3)/r^4 + \lVert g\rVert^2(d+1)/r^2`.

    Examples
    --------
    >>> quadratic_form_moments(np.eye(2), np.zeros(2), 1.0)   # the squared norm: mean d(d+1)
    Moments(mean=array(6.), variance=array(84.))
    """
    a, g = check_finite(matrix, "matrix"), check_finite(linear, "linear")
    d = g.shape[-1] if g.ndim else 0
    if a.shape[-2:] != (d, d):
        raise ValueError(f"matrix and linear must have shapes (..., d, d) and (..., d), got {a.shape} and {g.shape}")
    unit = coordinate_variance(d, rate)
    trace = np.trace(a, axis1=-2, axis2=-1)
    trace_square = (a * np.swapaxes(a, -1, -2)).sum((-2, -1))
    mean = trace * unit
    second = (trace**2 + 2 * trace_square) * unit**2 * (d + 3) / (d + 1) + (g**2).sum(-1) * unit
    return Moments(np.asarray(mean), np.asarray(second - mean**2))


def log_density(z: ArrayLike, rate: float) -> Array:
    r"""Logarithm of the spherical Laplace density.

    Parameters
    ----------
    z : array of shape (..., d)
        Points.
    rate : float
        Noise rate, positive.

    Returns
    -------
    array of shape (...)
        :math:`d\log r - \log(d!\,V_d) - r\lVert z\rVert`, with :math:`V_d` the volume of the unit ball.

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
