r"""Noise laws and their exact moments.

The *spherical Laplace* law in :math:`\mathbb{R}^d` has density proportional to :math:`\exp(-r\lVert z\rVert_2)`, where
:math:`r` is the *noise rate*. Its norm follows a Gamma law of shape :math:`d` and rate :math:`r`, its direction is
uniform and independent of the norm; for :math:`d=1` it is the Laplace law of scale :math:`1/r`.

Samples are floating-point numbers; the guarantees built on them are theorems about real numbers:
:doc:`/book/privacy/limits`.
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
