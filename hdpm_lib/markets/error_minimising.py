r"""The error-minimising purchase: the least sum of mean squared error and expected payments.

A weighted mean of records of variance :math:`\tau^2` with noise has the error
:math:`\tau^2\sum_ia_i^2+\nu/\eta^2`, where seller :math:`i` loses :math:`\epsilon_i=a_i\eta` and
:math:`\nu` is the noise at a total privacy loss of 1. The buyer, who counts the virtual cost
:math:`\psi_i` of each seller, minimises

.. math:: \tau^2\sum_ia_i^2+\frac\nu{\eta^2}+\gamma\eta\sum_ia_i\psi_i

over weights :math:`a_i\ge0` with sum 1 and the total :math:`\eta`. It is the central mechanism of
A. Fallah, A. Makhdoumi, A. Malekian and A. Ozdaglar, "Optimal and Differentially Private Data
Acquisition: Central and Local Mechanisms" (2022, arXiv:2201.03968), and the fixed point of
:func:`hdpm_lib.markets.procurement.procure` with :math:`\mu=2\tau^2\lVert a\rVert` and
:math:`\sigma=2\nu/\eta` (:doc:`/book/beyond/market`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hdpm_lib.markets.outcome import Purchase
from hdpm_lib.markets.procurement import cheapest
from hdpm_lib.validation import Array, check_finite, check_number

RANGE = (1e-50, 1e50)  # of costs and constants: their products stay within floats


def error_minimising(
    virtual_costs: ArrayLike, variance: float, noise: float, gamma: float
) -> Purchase:
    r"""Find weights and total privacy loss of least mean squared error plus expected payments.

    The global minimum, in time :math:`O(n\log n)`.

    Parameters
    ----------
    virtual_costs : array of shape (..., n)
        Virtual costs of a unit of each seller's privacy loss, :math:`\psi_i`, positive, in units of
        money; a batch of markets on the leading axes.
    variance : float
        Variance of a record, :math:`\tau^2`, positive.
    noise : float
        Mean square :math:`\nu` of the noise at a total privacy loss of 1, positive. For records in
        a ball of diameter `s` in `d` dimensions it is :math:`d(d+1)s^2`.
    gamma : float
        Squared error :math:`\gamma` that the buyer takes to save a unit of money, positive.

    Returns
    -------
    Purchase
        Losses and their sum `eta`, weights, the cutoff, the minimum as `error`, and the total
        virtual cost as `cost`.

    Notes
    -----
    The best total for given weights has :math:`\eta^3=2\nu/(\gamma\sum a_i\psi_i)`. All local
    minima then have :math:`a_i=\alpha(\theta-\psi_i)^+`. While the :math:`k` cheapest are bought,
    with mean virtual cost `m` and sum of squared deviations `D`, :math:`\sum a_i\psi_i=m-\alpha D`,
    and stationarity is the quartic :math:`\alpha^3(m-\alpha D)=\nu\gamma^2/(4\tau^6)`, of which
    only the root up to :math:`3m/(4D)` can be a minimum.

    References
    ----------
    A. Fallah, A. Makhdoumi, A. Malekian and A. Ozdaglar, "Optimal and Differentially Private Data
    Acquisition: Central and Local Mechanisms", 2022, arXiv:2201.03968.

    Examples
    --------
    The seller at 1 sells 61 % of a total loss of 2.24, the one at 3 the rest:

    >>> best = error_minimising([1.0, 3.0], 1.0, 1.0, 0.1)
    >>> best.weights.round(4)
    array([0.6121, 0.3879])
    >>> print(best.eta.round(4))
    2.2415
    """
    least, most = RANGE
    psi = check_finite(virtual_costs, "virtual_costs", None, least, most)
    if psi.ndim == 0:
        raise ValueError(f"virtual_costs must hold at least one seller, got shape {psi.shape}")
    tau2 = check_number(variance, "variance", least, most)
    noise = check_number(noise, "noise", least, most)
    g = check_number(gamma, "gamma", least, most)
    level = noise * g**2 / (4 * tau2**3)

    # the pieces of the path: while the k cheapest are bought, alpha lies between low and high
    order = np.argsort(psi, axis=-1, kind="stable")
    u = np.take_along_axis(psi, order, -1)
    k, mean, spread, high = cheapest(u)
    low = np.append(high[..., 1:], np.zeros((*u.shape[:-1], 1)), axis=-1)
    top = np.minimum(high, _largest(mean, spread, level))

    # on each the root, if it is there; the least minimum of all
    slack = 1e-10 * level  # two pieces round their common end in different ways
    there = low <= top
    low = np.minimum(low, top)
    there &= _side(low, mean, spread) <= level + slack
    there &= _side(top, mean, spread) >= level - slack
    m = mean[there]
    D = spread[there]
    alpha = _root(low[there], top[there], m, D, level)
    square = 1 / np.broadcast_to(k, u.shape)[there] + alpha**2 * D  # of the weights
    price = m - alpha * D
    minima = np.full(u.shape, np.inf)
    minima[there] = tau2 * square + 3 * np.cbrt(noise * (g * price / 2) ** 2)
    bought = k <= 1 + np.argmin(minima, axis=-1, keepdims=True)

    # there again with direct sums
    count = bought.sum(-1, keepdims=True)
    m = u[..., :1] + ((u - u[..., :1]) * bought).sum(-1, keepdims=True) / count
    off = (u - m) * bought
    D = (off * off).sum(-1, keepdims=True)
    alpha = _root(np.zeros_like(m), _largest(m, D, level), m, D, level)
    sorted_weights = np.maximum(bought / count - alpha * off, 0)
    cutoff = (m + 1 / (count * alpha))[..., 0]
    weights = np.take_along_axis(sorted_weights, np.argsort(order, axis=-1), -1)
    price = (weights * psi).sum(-1)
    eta = np.asarray(np.cbrt(2 * noise / (g * price)))
    minimum = np.asarray(tau2 * (weights * weights).sum(-1) + noise / eta**2 + g * eta * price)
    return Purchase(
        weights * eta[..., None],
        cost=eta * price,
        error=minimum,
        weights=weights,
        eta=eta,
        cutoff=cutoff,
    )


def _side(alpha: Array, mean: Array, spread: Array) -> Array:
    """Return the left side of the quartic."""
    return np.asarray(alpha**3 * (mean - alpha * spread))


def _largest(mean: Array, spread: Array, level: float) -> Array:
    """Return the largest alpha that can be a minimum.

    From 3m/(4D) on the left side falls; up to there it is at least alpha^3 m/4.
    """
    with np.errstate(divide="ignore"):
        return np.minimum(np.cbrt(4 * level / mean), 0.75 * mean / spread)


def _root(low: Array, high: Array, mean: Array, spread: Array, level: float) -> Array:
    """Find where the left side reaches the level between two ends, or take the nearer end."""
    from scipy.optimize import elementwise  # loads slowly

    def excess(alpha: Array, mean: Array, spread: Array) -> Array:
        return _side(alpha, mean, spread) - level

    root = elementwise.find_root(excess, (low, high), args=(mean, spread)).x
    root = np.where(_side(high, mean, spread) <= level, high, root)
    return np.where(_side(low, mean, spread) >= level, low, root)
