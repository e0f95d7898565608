r"""Spherical Laplace noise: draws in floats, the law, and the step of the grid on which releases
lie.

The law has density proportional to :math:`e^{-r\lVert z\rVert_2}` in :math:`\mathbb{R}^d`. The norm
follows a Gamma law of shape `d` and rate `r`, the direction is uniform and independent of it; for
:math:`d=1` it is the Laplace law of scale :math:`1/r`. Throughout, `dimension` is :math:`d\ge1` and
`rate` the noise rate `r` (no scale), positive.

Samples are floating-point numbers; the guarantees built on them are theorems about real numbers:
:doc:`/book/privacy/limits`. Mechanisms name their `arithmetic`: ``"exact"``, certain to the last
digit (:mod:`hdpm_lib.exact`), or ``"ideal"``, in floats as they are, for studies alone: the last
digits tell the data.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.validation import (
    check_count,
    check_finite,
    check_generator,
    check_positive,
    check_size,
)

Array = NDArray[np.float64]


def spherical_laplace(
    dimension: int, rate: ArrayLike, *, rng: np.random.Generator, size: int | tuple[int, ...] = ()
) -> Array:
    r"""Draws of shape (\*size, dimension): a Gamma radius times a uniform direction (Remark .1 of
    the ridge paper).

    An array of rates must broadcast to `size`. Floating-point numbers have gaps:
    :doc:`/book/privacy/limits`.

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


def grid_step(scale: float, reach: float) -> float:
    """The step of a grid that follows from public sizes: the power of two below `scale` over 2**30.

    If answers are as large as `reach`, it is at least that over 2**44, for floats are no finer
    there. An error says if no float is such a step.

    Examples
    --------
    >>> grid_step(2.0**30, 1.0), grid_step(2.0**30, 2.0**48)
    (1.0, 16.0)
    """
    with np.errstate(divide="ignore"):
        power = np.maximum(np.floor(np.log2(scale)) - 30, np.ceil(np.log2(reach)) - 44)
    if not -1000 <= power <= 900:
        raise ValueError(
            f"noise of size {scale:.3g} for answers up to {reach:.3g} needs other units: floats end"
        )
    return float(2.0**power)


def norm_law(dimension: int, rate: float) -> Any:
    """Law of the norm, a frozen Gamma law of SciPy."""
    return scipy.stats.gamma(
        check_count(dimension, "dimension"), scale=1.0 / check_positive(rate, "rate")
    )


def coordinate_variance(dimension: int, rate: ArrayLike) -> Array:
    """Variance of one coordinate, of the shape of `rate`: the covariance is :math:`(d+1)/r^2` times
    the identity.
    """
    return np.asarray(
        (check_count(dimension, "dimension") + 1)
        / check_finite(rate, "rate", low=0, ends="()") ** 2
    )


def log_density(z: ArrayLike, rate: float) -> Array:
    r"""Logarithm of the density at points of shape (..., d).

    It is :math:`d\log r - \log(d!\,V_d) - r\lVert z\rVert`, :math:`V_d` being the volume of the
    unit ball.

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
