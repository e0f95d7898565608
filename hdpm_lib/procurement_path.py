r"""The path on which all optimal weights lie: ``min(s (cutoff - virtual cost)^+, cap)``, one parameter `s`.

As `s` grows from 0, where all weights are equal, sellers reach the cap in the order of their virtual costs and leave in
the opposite order. Between two such events the sellers keep their roles: that is a *piece*.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hdpm_lib.validation import check_cap

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

TIE = 1e-12  # caps that fill the sum exactly, but for rounding


def pieces(psi: Array, cap: float | None) -> tuple[Indices, Indices, Array, Array, float]:
    """All pieces of the path, for sorted virtual costs.

    Parameters
    ----------
    psi : array of shape (m,)
        Positive, ascending.
    cap : float, optional
        In [1/m, 1]; None for no cap.

    Returns
    -------
    tuple
        Number of capped sellers and of bought ones, start and end of `s`, each of shape (pieces,); and the cap.

    Raises
    ------
    ValueError
        For a cap out of range.
    """
    m = len(psi)
    apart = psi - psi[0]
    total = np.append(0, np.cumsum(apart))
    if cap is None:
        q = np.arange(1, m + 1)
        with np.errstate(divide="ignore"):
            high = 1 / (q * apart - total[1:])
            low = np.append(1 / (q[:-1] * apart[1:] - total[1:-1]), 0.0)
        return np.zeros(m, dtype=np.intp), q, low, high, 0.0
    top = check_cap(cap, m)
    if m * top <= 1 + TIE:
        return np.array([m]), np.array([m]), np.array([0.0]), np.array([np.inf]), top
    index = np.arange(m)
    below, upto = np.searchsorted(psi, psi, "left"), np.searchsorted(psi, psi, "right")

    def sum_below(i: Indices, k: Indices) -> Array:  # of psi_k - psi_j over j between i and k
        return np.asarray((k - i) * apart[k] - (total[k] - total[i]))

    leaves = index[
        below * top >= 1 - TIE
    ]  # sellers for whom the others suffice: when the cutoff meets their virtual cost
    with np.errstate(divide="ignore", invalid="ignore"):
        capped = _count(
            lambda i: (i + 1) * top + top / (apart[leaves] - apart[i]) * sum_below(i + 1, leaves) < 1 - TIE,
            below[leaves],
        )
        s_leave = (1 - capped * top) / sum_below(capped, leaves)
        reach = index[upto * top <= 1 + TIE]  # sellers that can be capped: when they reach it
        ends = upto[reach]

        def short(k: Indices) -> NDArray[np.bool_]:
            j = np.minimum(ends + k, m - 1)
            s = top / (apart[j] - apart[reach])
            return (ends + k < m) & (top * j - s * (total[j] - total[ends] - (j - ends) * apart[reach]) <= 1 + TIE)

        last = ends + _count(short, m - ends)
        s_reach = (last * top - 1) / (total[last] - total[ends] - (last - ends) * apart[reach])
    s_reach = np.maximum(s_reach, 0)
    events = np.sort(np.concatenate([[0.0], s_leave, s_reach]))
    p = np.searchsorted(np.sort(s_reach), events, "right")
    q = m - np.searchsorted(np.sort(s_leave), events, "right")
    return p, np.maximum(q, p), events, np.append(events[1:], np.inf), top


def sums(psi: Array, p: Indices, q: Indices, cap: float) -> tuple[Array, Array, Array, Array]:
    """Norm and cost of the weights on every piece, as functions of `s`, from prefix sums.

    Parameters
    ----------
    psi : array of shape (m,)
        Ascending.
    p, q : arrays of int, shape (pieces,)
        Numbers of capped and of bought sellers.
    cap : float

    Returns
    -------
    tuple of arrays
        `fixed`, `price`, `spread`: the squared norm is ``fixed + s^2 spread``, the cost ``price - s spread``; and what
        may be rounding in `spread`.
    """
    apart = psi - psi[0]
    first = np.append(0, np.cumsum(apart))
    second = np.append(0, np.cumsum(apart**2))
    n, rest = q - p, 1 - p * cap
    one = np.maximum(n, 1)
    mean = (first[q] - first[p]) / one
    spread = np.maximum(second[q] - second[p] - one * mean**2, 0)
    spread[psi[q - 1] <= psi[np.minimum(p, len(psi) - 1)]] = 0  # equal costs, without rounding
    fixed = p * cap**2 + np.where(n > 0, rest**2 / one, 0)
    price = psi[0] + cap * first[p] + np.where(n > 0, rest * mean, 0)  # the total weight is 1
    noise = 1e-15 * np.sqrt(len(psi)) * second[q]
    return np.asarray(fixed), np.asarray(price), np.asarray(spread), np.asarray(noise)


def _count(true_at: Callable[[Indices], NDArray[np.bool_]], limit: Indices) -> Indices:
    """For each entry, how many of 0, 1, ..., limit - 1 fulfil a condition that is true first and false after."""
    low, high = np.zeros_like(limit), limit.copy()
    while (open_ := low < high).any():
        middle = (low + high) // 2
        holds = true_at(np.where(open_, middle, 0)) & open_
        low, high = np.where(holds, middle + 1, low), np.where(open_ & ~holds, middle, high)
    return low
