r"""Privacy losses of Gaussian releases, exactly, alone, together, and beside pure ones.

A release with Gaussian noise of standard deviation `s` on an answer that a neighbour moves by at
most `D`, in the L2 norm, is told apart by :math:`\mu=D/s` as a normal variable is from itself moved
by `mu`; several, also when each is chosen after the earlier ones, by
:math:`\mu^2=\sum_tD_t^2/s_t^2`. Then

.. math::

    \delta_\mu(\varepsilon)=\Phi(-\varepsilon/\mu+\mu/2)
    -e^\varepsilon\,\Phi(-\varepsilon/\mu-\mu/2)

is the smallest :math:`\delta` (Balle and Wang 2018, Theorem 5; Dong, Roth and Su 2022, Corollaries
2.13 and 3.3). With releases of a pure loss of `E` in all before, between or after it is, as no
`E`-private release tells more than a coin that shows the truth with probability
:math:`p=1/(1+e^{-E})`,

.. math:: p\,\delta_\mu(\varepsilon-E)+(1-p)\,\delta_\mu(\varepsilon+E).

These are the losses of real Gaussian noise; on a grid, :func:`discrete_gaussian_mu`. Throughout,
`epsilon`, `mu` and `pure`, the `E`, are not negative, and arrays are broadcast: one entry for each
seller, say. They are at most 1e100; a `mu` that is not 0, and a :math:`\delta` asked about, are at
least 1e-100. There :math:`\delta` is right to 1e-9 of it, where it is above 1e-300, and an
:math:`\varepsilon` or :math:`\mu` that is found to 1e-9 of it or has such a :math:`\delta`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erf, erfcx

from hdpm_lib.validation import check_finite, check_squared

Array = NDArray[np.float64]
ROUNDING = 3.0  # steps: standard deviation of the rounding that makes a Gaussian variable discrete


def _together(**given: Array) -> list[Array]:
    """Broadcast arrays to one shape; an error names them."""
    try:
        return list(np.broadcast_arrays(*given.values()))
    except ValueError:
        shapes = " and ".join(f"{name} {array.shape}" for name, array in given.items())
        raise ValueError(f"{shapes} are shapes that do not go together") from None


def gaussian_mu(sensitivity: ArrayLike, sd: ArrayLike) -> Array:
    r"""Return :math:`\mu` of several Gaussian releases together, shape (...).

    Both arguments have shape (..., releases). `sensitivity`, not negative, is the largest change of
    the answer in the L2 norm when a neighbour takes its place; `sd`, positive, the standard
    deviation of the noise on each coordinate.

    Examples
    --------
    >>> float(gaussian_mu([2.0] * 4, 2.0))
    2.0
    """
    moved, noise = _together(
        sensitivity=check_squared(sensitivity, "sensitivity"),
        sd=check_finite(sd, "sd", low=0, ends="()"),
    )
    ratio = check_squared(np.atleast_1d(moved / noise), "sensitivity / sd")
    return np.sqrt(np.square(ratio).sum(-1))


def discrete_gaussian_mu(sensitivity: ArrayLike, sd: ArrayLike) -> Array:
    r"""Return :math:`\mu` of releases in whole numbers with discrete Gaussian noise.

    Both arguments are in steps, `sd` is above 3.

    Notes
    -----
    A discrete Gaussian variable of parameter `s` is a Gaussian one of variance :math:`s^2-9`,
    randomly rounded with a parameter of 3 steps, up to factors within :math:`1\pm10^{-76}` of the
    probabilities (Poisson's sum; Peikert 2010, Theorem 3.1, is of this kind). Rounding tells
    nothing. So the losses are those of :math:`\mu^2=\sum D^2/(s^2-9)`, up to :math:`10^{-70}` in
    :math:`\varepsilon` for a million coordinates.

    Examples
    --------
    >>> float(discrete_gaussian_mu(8.0, 5.0))
    2.0
    """
    noise = check_finite(sd, "sd", low=ROUNDING, ends="()")
    return gaussian_mu(sensitivity, np.sqrt((noise - ROUNDING) * (noise + ROUNDING)))


def _composed(epsilon: Array, mu: Array, pure: Array) -> Array:
    """Compute the second formula of the module's head."""
    with np.errstate(over="ignore"):
        truth = 1 / (1 + np.exp(-pure))
    nearer = _delta(epsilon, pure, mu)
    farther = _delta(epsilon, -pure, mu)
    return np.asarray(truth * nearer + (1 - truth) * farther)


def _delta(epsilon: Array, less: Array, mu: Array) -> Array:
    """Compute the first formula of the module's head, at epsilon less another number."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        eps = np.abs(epsilon - less)
        low = np.minimum(epsilon - less, 0)
        x = _place(np.maximum(epsilon, less), np.minimum(epsilon, less), mu)
        after = eps / mu + mu / 2
        # e^epsilon times the density at `after` is the density at x: two tails that are nearly
        # equal keep their digits
        density = np.exp(-(x**2) / 2) / 2
        beyond = erfcx(after / math.sqrt(2))
        far = density * _fall(x, mu, beyond)
        between = (erf(-x / math.sqrt(2)) + erf(after / math.sqrt(2))) / 2
        near = between + density * beyond * np.expm1(-eps)
        delta = np.where(mu > 0, np.where(x > 0, far, near), 0)
        # below 0 by its value at -epsilon
        return np.clip(np.exp(low) * delta - np.expm1(low), 0, 1)


def _place(epsilon: Array, less: Array, mu: Array) -> Array:
    r"""Compute :math:`(\varepsilon-l)/\mu-\mu/2`, also the digits that a difference loses.

    The rounding errors of the square and the differences are computed, too (Dekker 1971).
    """
    high = mu * (2.0**27 + 1)
    high = high - (high - mu)  # the upper half of the digits
    low = mu - high
    square = mu * mu
    lost = ((high * high - square) + 2 * high * low) + low * low
    first, first_lost = _difference(epsilon, less)
    second, second_lost = _difference(first, square / 2)
    return np.asarray((second + (first_lost + second_lost - lost / 2)) / mu)


def _difference(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the difference of two floats, and what rounding takes off it (Knuth)."""
    difference = a - b
    part = difference - a
    return difference, (a - (difference - part)) - (b + part)


def _fall(x: Array, mu: Array, beyond: Array) -> Array:
    """Tell how much the scaled tail, `erfcx`, falls from x to x + mu, where it is `beyond`."""
    fall = erfcx(x / math.sqrt(2)) - beyond
    small = mu < 1e-3
    if small.any():  # by the first and the third derivative in the middle
        middle = np.minimum(x + mu / 2, 40)  # beyond, the density is 0
        tail = erfcx(middle / math.sqrt(2))
        first = middle * tail - math.sqrt(2 / math.pi)
        third = 2 * first + middle * (tail + middle * first)
        fall = np.where(small, -mu * (first + mu**2 / 24 * third), fall)
    return np.asarray(fall)


def _root(excess: Callable[..., Array], high: Array, *given: Array) -> Array:
    """Find where a function of one number, and of what is given, is 0 between 0 and `high`."""
    from scipy.optimize import elementwise  # loads slowly

    return elementwise.find_root(excess, (np.zeros(high.shape), high), args=given).x


def gaussian_delta(epsilon: ArrayLike, mu: ArrayLike, pure: ArrayLike = 0.0) -> Array:
    r"""Return the least :math:`\delta` of Gaussian and pure releases at an :math:`\varepsilon`.

    Parameters
    ----------
    epsilon : float or array
        The :math:`\varepsilon` asked about, not negative.
    mu : float or array that broadcasts with `epsilon`
        How far the Gaussian releases move a neighbour, in standard deviations, not negative: their
        :func:`gaussian_mu`.
    pure : float or array that broadcasts with `epsilon`, default 0
        Sum of the pure privacy losses of other releases, not negative.

    Returns
    -------
    array of that shape
        The :math:`\delta`, in [0, 1].

    Notes
    -----
    Theorem 5 of Balle and Wang; Corollaries 2.13 and 3.3 of Dong, Roth and Su for several releases.
    It is exact for the worst pair of neighbours, in real numbers. Nothing here sees data.

    References
    ----------
    Balle and Wang (2018), "Improving the Gaussian Mechanism for Differential Privacy", ICML.

    Dong, Roth and Su (2022), "Gaussian Differential Privacy", Journal of the Royal Statistical
    Society B 84.

    Examples
    --------
    >>> gaussian_delta([0.0, 1.0], 1.0).round(4)
    array([0.3829, 0.1269])
    """
    eps, m, e = _together(
        epsilon=check_finite(epsilon, "epsilon", low=0),
        mu=check_squared(mu, "mu"),
        pure=check_finite(pure, "pure", low=0),
    )
    return _composed(eps, m, e)


def gaussian_epsilon(delta: ArrayLike, mu: ArrayLike, pure: ArrayLike = 0.0) -> Array:
    r"""Return the least :math:`\varepsilon` of Gaussian and pure releases at a :math:`\delta`.

    Parameters
    ----------
    delta : float or array
        The :math:`\delta` asked about, in (0, 1).
    mu : float or array that broadcasts with `delta`
        How far the Gaussian releases move a neighbour, in standard deviations, not negative: their
        :func:`gaussian_mu`.
    pure : float or array that broadcasts with `delta`, default 0
        Sum of the pure privacy losses of other releases, not negative.

    Returns
    -------
    array of that shape
        The :math:`\varepsilon`, not negative.

    Notes
    -----
    The inverse of :func:`gaussian_delta`: Theorem 5 of Balle and Wang.

    References
    ----------
    Balle and Wang (2018), "Improving the Gaussian Mechanism for Differential Privacy", ICML.

    Dong, Roth and Su (2022), "Gaussian Differential Privacy", Journal of the Royal Statistical
    Society B 84.

    Examples
    --------
    >>> gaussian_epsilon(1e-5, [0.5, 1.0, 2.0]).round(3)   # twice mu is more than twice epsilon
    array([1.993, 4.377, 9.997])
    """
    d, m, e = _together(
        delta=check_finite(delta, "delta", low=0, high=1, ends="()"),
        mu=check_squared(mu, "mu"),
        pure=check_finite(pure, "pure", low=0),
    )
    most = e + m**2 / 2 + m * np.sqrt(-2 * np.log(d))  # enough, by the bound on a normal tail
    most = most * (1 + 1e-15)  # also where rounding took the last term away
    epsilon = _root(lambda eps, d, m, e: _composed(eps, m, e) - d, most, d, m, e)
    return np.where(_composed(np.zeros(d.shape), m, e) <= d, 0.0, epsilon)


def largest_mu(epsilon: ArrayLike, delta: ArrayLike, pure: ArrayLike = 0.0) -> Array:
    r"""Return the largest :math:`\mu` whose loss stays within (`epsilon`, `delta`).

    A pure loss of at most `epsilon` may stand beside it. Noise of the standard deviation `D` over
    :math:`\mu` is the least that this promise allows. `delta` lies in (0, 1).

    Examples
    --------
    >>> largest_mu([1.0, 8.0], 1e-5).round(4)
    array([0.2681, 1.666 ])
    """
    eps, d, e = _together(
        epsilon=check_finite(epsilon, "epsilon", low=0),
        delta=check_finite(delta, "delta", low=0, high=1, ends="()"),
        pure=check_finite(pure, "pure", low=0),
    )
    if (e > eps).any():
        raise ValueError(f"pure must be at most epsilon, got {e[e > eps].flat[0]}")
    most = (np.sqrt(2 * eps) + 120) * (1 + 1e-15)  # where delta is 1 to the last bit
    return _root(lambda m, eps, d, e: _composed(eps, m, e) - d, most, eps, d, e)
