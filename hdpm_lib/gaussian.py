r"""What Gaussian releases lose, exactly, and several of them together, beside releases of pure
privacy loss.

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
seller, say.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erf, erfcx

from hdpm_lib.validation import check_finite

Array = NDArray[np.float64]
# steps: standard deviation of the rounding that turns a Gaussian variable into a discrete one
ROUNDING = 3.0


def _together(**given: Array) -> list[Array]:
    """Arrays of one shape, or an error that names them."""
    try:
        return list(np.broadcast_arrays(*given.values()))
    except ValueError:
        shapes = " and ".join(f"{name} {array.shape}" for name, array in given.items())
        raise ValueError(f"{shapes} are shapes that do not go together") from None


def gaussian_mu(sensitivity: ArrayLike, sd: ArrayLike) -> Array:
    r""":math:`\mu` of several Gaussian releases together: of shape (...), from arrays of shape
    (..., releases).

    `sensitivity`, not negative, is the largest change of the answer in the L2 norm when a neighbour
    takes its place; `sd`, positive, the standard deviation of the noise on each coordinate.

    Examples
    --------
    >>> float(gaussian_mu([2.0] * 4, 2.0))
    2.0
    """
    moved, noise = _together(
        sensitivity=check_finite(sensitivity, "sensitivity", low=0),
        sd=check_finite(sd, "sd", low=0, ends="()"),
    )
    return np.sqrt(np.square(np.atleast_1d(moved / noise)).sum(-1))


def discrete_gaussian_mu(sensitivity: ArrayLike, sd: ArrayLike) -> Array:
    r""":math:`\mu` of releases in whole numbers with discrete Gaussian noise; both arguments in
    steps, `sd` above 3.

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


def _delta(epsilon: Array, mu: Array) -> Array:
    """The formula of the module's head; epsilon may be negative."""
    eps = np.abs(epsilon)
    low = np.minimum(epsilon, 0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        x = eps / mu - mu / 2
        # e^epsilon times the density at x + mu is the density at x: two tails that are nearly equal
        # keep their digits
        density = np.exp(-(x**2) / 2) / 2
        beyond = erfcx((x + mu) / math.sqrt(2))
        far = density * (erfcx(x / math.sqrt(2)) - beyond)
        near = (
            erf(-x / math.sqrt(2)) + erf((x + mu) / math.sqrt(2))
        ) / 2 + density * beyond * np.expm1(-eps)
        found = np.where(mu > 0, np.where(x > 0, far, near), 0)
    return np.clip(np.exp(low) * found - np.expm1(low), 0, 1)  # below 0 by its value at -epsilon


def gaussian_delta(epsilon: ArrayLike, mu: ArrayLike, pure: ArrayLike = 0.0) -> Array:
    r"""The smallest :math:`\delta` at `epsilon`.

    Examples
    --------
    >>> gaussian_delta([0.0, 1.0], 1.0).round(4)
    array([0.3829, 0.1269])
    """
    eps, m, e = _together(
        epsilon=check_finite(epsilon, "epsilon", low=0),
        mu=check_finite(mu, "mu", low=0),
        pure=check_finite(pure, "pure", low=0),
    )
    with np.errstate(over="ignore"):
        truth = 1 / (1 + np.exp(-e))
    return np.asarray(truth * _delta(eps - e, m) + (1 - truth) * _delta(eps + e, m))


def gaussian_epsilon(delta: ArrayLike, mu: ArrayLike, pure: ArrayLike = 0.0) -> Array:
    r"""The smallest :math:`\varepsilon` at `delta`, which lies in (0, 1).

    Examples
    --------
    >>> gaussian_epsilon(1e-5, [0.5, 1.0, 2.0]).round(3)   # twice mu is more than twice epsilon
    array([1.993, 4.377, 9.997])
    """
    d, m, e = _together(
        delta=check_finite(delta, "delta", low=0, high=1, ends="()"),
        mu=check_finite(mu, "mu", low=0),
        pure=check_finite(pure, "pure", low=0),
    )
    from scipy.optimize import elementwise  # loads slowly

    most = e + m**2 / 2 + m * np.sqrt(2 * np.log(1 / d))  # enough, by the bound on a normal tail
    most = most * (1 + 1e-15) + 1e-12  # also where rounding took the last term away
    found = elementwise.find_root(
        lambda eps, d, m, e: gaussian_delta(eps, m, e) - d,
        (np.zeros(d.shape), most),
        args=(d, m, e),
    ).x
    return np.where(gaussian_delta(np.zeros(d.shape), m, e) <= d, 0.0, found)


def largest_mu(epsilon: ArrayLike, delta: ArrayLike, pure: ArrayLike = 0.0) -> Array:
    r"""The largest :math:`\mu` whose loss stays within (`epsilon`, `delta`), beside a pure loss of
    at most `epsilon`.

    Noise of the standard deviation `D` over it is the least that this promise allows. `delta` lies
    in (0, 1).

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
    from scipy.optimize import elementwise

    most = np.sqrt(2 * eps) + 2 * math.sqrt(2) * 40  # where delta is 1 to the last bit
    return elementwise.find_root(
        lambda m, eps, d, e: gaussian_delta(eps, m, e) - d,
        (np.zeros(d.shape), most),
        args=(eps, d, e),
    ).x
