r"""How much privacy an accurate answer must cost, whatever the algorithm, and the best that is known to suffice.

An algorithm is `K`-accurate for the sum of `n` data in [0, 1] if its mean squared error is at most `K` on every
database. Individual `i` loses :math:`\varepsilon_i`. Every group :math:`I` of `m` individuals then loses

.. math:: \sum_{i\in I}\varepsilon_i\ge B_m=2\operatorname{arcosh}\max\Bigl(\frac m{2\sqrt K},1\Bigr).

The bounds of this module are these inequalities, alone and together; proofs are in :doc:`/book/contracts/idea`, and
:func:`hdpm_book.contracts.conic.least_cost_bound` puts prices to them. Throughout, `n` is the number of
individuals and `max_mse` is `K`, positive, in any shape, which the result has too. From :math:`K=n^2/4` on the results
for `n` individuals are 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.validation import check_count, check_finite

Array = NDArray[np.float64]

PEAK = 1.8101705806989775  # of arcosh(x) / x: cosh(t) with t tanh(t) = 1


def _check_max_mse(max_mse: ArrayLike) -> Array:
    return check_finite(max_mse, "max_mse", None, 0, ends="()")


def total_loss_bound(n: int, max_mse: ArrayLike) -> Array:
    r"""The least total loss as the paper bounds it (Theorem 1), :math:`\ln\frac{(n-\sqrt K)^2}K`.

    Examples
    --------
    >>> total_loss_bound(10, [12.5, 25.0]).round(4)
    array([1.2069, 0.    ])
    """
    errors = float(check_count(n, "n")) / np.sqrt(_check_max_mse(max_mse))
    return np.asarray(2 * np.log(np.maximum(errors - 1, 1)))


def group_loss_bound(width: ArrayLike, max_mse: ArrayLike) -> Array:
    r"""The least sum of the privacy losses of a group, :math:`2\operatorname{arcosh}\max(w/(2\sqrt K),1)`.

    The `width`, positive, is :math:`w`, how far the group's data can move the query: its number of members, or the sum
    of their absolute weights. Its shape fits that of `max_mse`.

    Examples
    --------
    >>> group_loss_bound([2, 3, 10], 1.0).round(4)
    array([0.    , 1.9248, 4.5849])
    """
    w, K = check_finite(width, "width", None, 0, ends="()"), _check_max_mse(max_mse)
    try:
        np.broadcast_shapes(w.shape, K.shape)
    except ValueError:
        raise ValueError(f"width and max_mse must broadcast, got shapes {w.shape} and {K.shape}") from None
    with np.errstate(over="ignore"):
        u = w / (2 * np.sqrt(K))
    large = 2 * np.log(w) - np.log(K)  # the same from 1e9 on, to rounding
    return np.asarray(np.where(u < 1e9, 2 * np.arccosh(np.clip(u, 1, 1e9)), large))


def least_total_loss(n: int, max_mse: ArrayLike) -> Array:
    r"""A bound below the total privacy loss of every `K`-accurate algorithm: :math:`\max_{m\le n}\frac nmB_m`.

    Not from the paper; never below :func:`total_loss_bound`. The best `m` is next to the peak of
    :math:`\operatorname{arcosh}(x)/x` at :math:`x=m/(2\sqrt K)=1.81`, or `n` below it.

    Examples
    --------
    >>> least_total_loss(10, [0.01, 1.0, 12.5]).round(4)
    array([45.8486,  6.5848,  1.7627])
    """
    n = check_count(n, "n")
    K = _check_max_mse(max_mse)
    peak = PEAK * 2 * np.sqrt(K)
    m = np.clip([np.floor(peak), np.ceil(peak)], 1, n)
    return np.asarray((n / m * group_loss_bound(m, K)).max(axis=0))


def staircase_mse(epsilon: ArrayLike) -> Array:
    r"""The least variance of noise that makes a number that one individual moves by at most 1 private.

    That of staircase noise, :math:`\bigl(2^{-2/3}\beta^{2/3}(1+\beta)^{2/3}+\beta\bigr)/(1-\beta)^2` with
    :math:`\beta=e^{-\varepsilon}` (Geng and Viswanath 2014), for positive privacy losses, in any shape.

    Examples
    --------
    >>> staircase_mse([1.0, 10.0]).round(4)   # Laplace noise has 2 and 0.02
    array([1.9181e+00, 8.0000e-04])
    """
    return np.exp(_log_staircase_mse(check_finite(epsilon, "epsilon", None, 0, ends="()")))


def _log_staircase_mse(eps: Array) -> Array:
    """In logarithms, as the tail of the noise underflows."""
    beta = np.exp(-eps)
    return np.log(2 ** (-2 / 3) * (1 + beta) ** (2 / 3) + np.cbrt(beta)) - 2 * (eps / 3 + np.log(-np.expm1(-eps)))


def staircase_loss(n: int, max_mse: ArrayLike) -> Array:
    """Privacy loss of each individual under the biased answer with staircase noise, accurate to `K`.

    It is the loss at which :func:`staircase_mse` is :math:`K/(1-4K/n^2)`.

    Examples
    --------
    >>> 10 * staircase_loss(10, [0.01, 1.0, 12.5]).round(4)   # beside the bound of least_total_loss
    array([64.727, 13.349,  2.824])
    """
    K = _check_max_mse(max_mse)
    spare = 1 - 4 * K / check_count(n, "n") ** 2
    if not (needed := spare > 0).any():
        return np.zeros(K.shape)
    variance = np.where(needed, K / np.where(needed, spare, 1.0), 1.0)
    ends = np.full(K.shape, -40.0), np.full(K.shape, 8.0)  # of the logarithm of the loss
    from scipy.optimize import elementwise  # loads slowly

    found = elementwise.find_root(lambda t, V: _log_staircase_mse(np.exp(t)) - np.log(V), ends, args=(variance,))
    return np.where(needed, np.exp(found.x), 0.0)
