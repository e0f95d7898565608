r"""Spherical Laplace noise: draws in floats, the law, and the grid on which releases lie.

The law has a density proportional to :math:`e^{-r\lVert z\rVert_2}` in :math:`\mathbb{R}^d`. The
norm follows a Gamma law of shape `d` and rate `r`, the direction is uniform and independent of it;
for :math:`d=1` it is the Laplace law of scale :math:`1/r`. Throughout, `dimension` is
:math:`d\ge1`, and `noise_rate` is `r`, positive, in units of one over those of the noise: more of
it is less noise.

Samples are floating-point numbers; the guarantees built on them are theorems about real numbers:
:doc:`/book/privacy/limits`. Mechanisms name their `arithmetic`: ``"exact"``, certain to the last
digit (:mod:`hdpm_lib.exact`), or ``"ideal"``, in floats as they are, for studies alone: the last
digits tell the data.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.validation import (
    check_count,
    check_finite,
    check_generator,
    check_number,
    check_positive,
    check_size,
)

Array = NDArray[np.float64]


def spherical_laplace(
    dimension: int,
    noise_rate: ArrayLike,
    *,
    rng: np.random.Generator,
    size: int | tuple[int, ...] = (),
) -> Array:
    r"""Draw spherical Laplace noise: a Gamma radius times a uniform direction.

    Parameters
    ----------
    dimension : int
        Number :math:`d\ge1` of coordinates.
    noise_rate : float or array that broadcasts to `size`
        Rate `r` of the noise, positive: a radius is :math:`d/r` on average.
    rng : numpy.random.Generator
        Source of random numbers.
    size : int or tuple of int, default ()
        Shape of a batch; ``()`` gives one vector.

    Returns
    -------
    array of shape (\*size, dimension)
        Independent draws, in floats, whose gaps may tell what they are added to.

    Notes
    -----
    Remark .1 of Acharya et al. Added to a vector that a neighbour moves by at most `D` in the
    Euclidean norm, the noise costs a privacy loss of `rD`, in real numbers
    (:doc:`/book/privacy/limits`).

    References
    ----------
    Acharya, Boenisch, Naidu and Ziani (2024), "Personalized Differential Privacy for Ridge
    Regression", arXiv:2401.17127.

    Examples
    --------
    >>> spherical_laplace(3, 2.0, rng=np.random.default_rng(0), size=5).shape
    (5, 3)
    """
    d = check_count(dimension, "dimension")
    rate = check_finite(noise_rate, "noise_rate", low=0, ends="()")
    shape = check_size(size)
    direction = check_generator(rng).standard_normal((*shape, d))
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    return rng.gamma(d, 1.0 / rate, size=shape)[..., None] * direction


def grid_step(spread: float, reach: float) -> float:
    """Choose the step of a grid from public sizes: a power of two, fine beside the noise.

    It is the power of two below the `spread` of the noise over 2**30. If answers are as large as
    `reach`, it is at least that over 2**44, for floats are no finer there. An error says if no
    float is such a step.

    Examples
    --------
    >>> grid_step(2.0**30, 1.0), grid_step(2.0**30, 2.0**48)
    (1.0, 16.0)
    """
    with np.errstate(divide="ignore"):
        of_noise = np.floor(np.log2(spread)) - 30
        of_answers = np.ceil(np.log2(reach)) - 44
    power = np.maximum(of_noise, of_answers)
    if not -1000 <= power <= 900:
        raise ValueError(
            f"noise of size {spread:.3g} for answers up to {reach:.3g} needs other units: floats"
            " end"
        )
    return float(2.0**power)


def norm_law(dimension: int, noise_rate: float) -> Any:
    """Return the law of the norm of the noise, a frozen Gamma law of SciPy."""
    rate = check_positive(noise_rate, "noise_rate")
    return scipy.stats.gamma(check_count(dimension, "dimension"), scale=1.0 / rate)


def coordinate_variance(dimension: int, noise_rate: ArrayLike) -> Array:
    """Return the variance :math:`(d+1)/r^2` of a coordinate; coordinates do not correlate."""
    rate = check_finite(noise_rate, "noise_rate", low=0, ends="()")
    return np.asarray((check_count(dimension, "dimension") + 1) / rate**2)


def coordinate_margin(dimension: int, noise_rate: float, level: float = 0.95) -> float:
    r"""Return what a coordinate of the noise stays below in absolute value with a probability.

    It holds for the noise in any one direction. There it is :math:`\sqrt V\,N`, where `N` is normal
    and `V` follows a Gamma law of shape :math:`(d+1)/2` and rate :math:`r^2/2`.

    Parameters
    ----------
    dimension : int
        Number :math:`d\ge1` of coordinates.
    noise_rate : float
        Rate `r`, positive.
    level : float, default 0.95
        The probability, between 0 and 1.

    Returns
    -------
    float
        In the units of the noise.

    Examples
    --------
    >>> round(coordinate_margin(1, 2.0), 6), round(math.log(20) / 2, 6)
    (1.497866, 1.497866)
    """
    rate = check_positive(noise_rate, "noise_rate")
    share = max(check_number(level, "level", 0, 1, ends="()"), 1e-300)  # enough for less, too
    return _margin(check_count(dimension, "dimension"), share) / rate


@cache
def _margin(d: int, level: float) -> float:
    """Compute :func:`coordinate_margin` at the rate 1."""
    # a coordinate is a normal variable whose variance is twice a Gamma variable: an integral over
    # the logarithm of that, of the smaller of the two chances, which keeps its digits
    shape = (d + 1) / 2
    law = scipy.stats.gamma(shape)
    low, high = np.log([law.ppf(1e-16 * level), law.isf(1e-16 * (1 - level))])
    if level < 0.5:
        side = scipy.special.erf
        chance = level
    else:
        side = scipy.special.erfc
        chance = 1 - level
    constant = scipy.special.gammaln(shape)

    def excess(margin: float) -> float:
        def density(log: float) -> float:
            within = side(margin / 2 * math.exp(-log / 2))
            return within * math.exp(shape * log - math.exp(log) - constant)

        integral, _ = scipy.integrate.quad(density, low, high, epsabs=0, epsrel=1e-9)
        return integral / chance - 1

    most = 2 * scipy.stats.gamma(d).ppf(level)  # that of the norm, twice
    return float(scipy.optimize.brentq(excess, 0, most, xtol=1e-300, rtol=1e-12))


def log_density(z: ArrayLike, noise_rate: float) -> Array:
    r"""Return the logarithm of the density at points of shape (..., d).

    It is :math:`d\log r - \log(d!\,V_d) - r\lVert z\rVert`, :math:`V_d` being the volume of the
    unit ball.

    Examples
    --------
    >>> round(float(np.exp(log_density([0.0], 3.0))), 6)   # half the rate
    1.5
    """
    points = np.atleast_1d(check_finite(z, "z"))
    rate = check_positive(noise_rate, "noise_rate")
    d = points.shape[-1]
    log_volume = 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1)
    constant = d * math.log(rate) - math.lgamma(d + 1) - log_volume
    return np.asarray(constant - rate * np.linalg.norm(points, axis=-1))
