r"""The least-cost contract of Principle 2, exactly.

Problem (10) of the paper, with cost :math:`v_k\varepsilon_k^r` and weights :math:`q_k` of the sellers' data, has one
unknown, a threshold :math:`\theta`. With :math:`u_k=v_kq_k^{r-1}` the optimal shares are
:math:`a_k=\min(1,(\theta/u_k)^{1/(r-1)})`, and :math:`\theta` is the only root of

.. math:: \sum_kq_k(1-a_k)=\frac{4K\theta}{\sum_kq_k\min(u_k,\theta)}.

The left side falls and the right side rises. Sorting and prefix sums find the breakpoint below the root, and one
equation in one unknown the rest: :math:`O(n\log n)`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import elementwise

from hdpm_lib.contracts import Allocation, check_power, check_valuations, zero_loss
from hdpm_lib.validation import check_positive

Array = NDArray[np.float64]


def _root(m: Array, s: Array, B: Array, K: float, r: float) -> Array:
    """Root `x` of `(m - x^p B)(s + m x) = 4 K x`, `p = 1/(r-1)`; at power 1 the step at 1 counts as a root."""
    if r == 1:
        slack = 4 * K - m**2
        return np.where(m * (s + m) >= 4 * K, 1.0, m * s / np.where(slack > 0, slack, 1.0))
    if r == 2:
        half = m**2 - B * s - 4 * K
        root = np.sqrt(half**2 + 4 * m**2 * B * s)
        # the same number twice: each form is free of cancellation for one sign of `half`
        return np.where(half > 0, (half + root) / (2 * m * B), 2 * m * s / np.where(root > half, root - half, 1.0))
    x = np.maximum((m - 4 * K / m) / B, 0) ** (r - 1)
    if (inner := s > 0).any():

        def gap(x: Array, m: Array, s: Array, B: Array) -> Array:
            return (m * s + (m**2 - 4 * K) * x) / (s + m * x) - x ** (1 / (r - 1)) * B

        start = (np.zeros(inner.sum()), np.full(inner.sum(), 2.0))
        with np.errstate(over="ignore"):  # at the far end of the bracket, for powers just above 1
            x[inner] = elementwise.find_root(gap, start, args=(m[inner], s[inner], B[inner])).x
    return x


def one_root(m: Array, s: Array, B: Array, max_mse: float, power: float) -> tuple[Array, Array, Array]:
    r"""Least cost once it is known who is at the cap, in units of the next breakpoint :math:`u`.

    Parameters
    ----------
    m, s, B : arrays of one shape
        Range of those below the cap, cost of those at it, and sum of :math:`q_k(u/u_k)^{1/(r-1)}` over the former.
    max_mse, power : float

    Returns
    -------
    tuple of arrays
        Share of a seller at the breakpoint, Laplace scale, and least cost over :math:`u`. Not a number where sellers
        who ask nothing suffice.
    """
    K, r = max_mse, power
    with np.errstate(divide="ignore", invalid="ignore"):
        x = _root(m, s, B, K, r)
        total = s + m * x
        left = np.maximum(m * s + (m**2 - 4 * K) * x, 0) / total  # sum of the shares below the cap
        share = left / B * (x == 1) if r == 1 else x ** (1 / (r - 1))
        spent = s + x * share * B
        scale = np.sqrt(K * spent / (2 * total))
        return share, scale, spent / scale**r


def ratio_power(ratio: Array, power: float) -> Array:
    """``ratio ** (1 / (power - 1))``, entry by entry; at power 1 its limit for ratios up to 1: 1 at 1 and 0 below."""
    return (ratio == 1).astype(float) if power == 1 else ratio ** (1 / (power - 1))


def suffix_weights(u: Array, q: Array, power: float) -> Array:
    r"""For sorted `u` and every `j` the sum of :math:`q_k(u_j/u_k)^{1/(r-1)}`, :math:`k\ge j`; at power 1 over ties.

    `u` and `q`, positive, have the shape (..., n), and so has the result.
    Taken in logarithms where powers of heavy-tailed valuations would overflow. Entries where `u` is 0 mean nothing.
    """
    if power == 1:
        n = u.shape[-1]
        after = np.where(u[..., 1:] != u[..., :-1], np.arange(1, n), n)
        after = np.concatenate([after, np.full((*u.shape[:-1], 1), n)], axis=-1)
        after = np.minimum.accumulate(after[..., ::-1], axis=-1)[..., ::-1]
        mass = np.concatenate([np.cumsum(q[..., ::-1], axis=-1)[..., ::-1], np.zeros((*q.shape[:-1], 1))], axis=-1)
        return mass[..., :-1] - np.take_along_axis(mass, after, -1)
    positive, p = np.where(u > 0, u, 1.0), 1 / (power - 1)
    if max(p, 1) * (np.log(positive.max()) - np.log(positive.min())) < 500:
        power_of = (positive / positive.max()) ** p
        return np.cumsum((q / power_of)[..., ::-1], axis=-1)[..., ::-1] * power_of
    logs = p * np.log(positive)
    total = np.logaddexp.accumulate((np.log(q) - logs)[..., ::-1], axis=-1)[..., ::-1]
    return np.exp(np.where(u > 0, total + logs, 0.0))


def principle2(valuations: ArrayLike, max_mse: float, *, power: float, ranges: ArrayLike | None = None) -> Allocation:
    r"""Least total cost :math:`\sum_kv_k\varepsilon_k^r` for the accuracy: problem (10), solved exactly.

    Parameters
    ----------
    valuations : array of shape (..., n)
        Cost of privacy of each seller, finite and not negative; leading axes are a batch of markets.
    max_mse : float
        `K`, the largest admissible mean squared error, positive.
    power : float
        `r`, at least 1.
    ranges : array of shape (n,), optional
        `q`, the positive weight of each seller's datum in the query; 1 each if not given.

    Returns
    -------
    Allocation
        Of the batch's shape. Sellers with equal valuations and ranges get equal losses, also at power 1, where any
        split between them costs the same. Where :math:`K\ge(\sum q/2)^2` nobody's data are needed and the cost is 0.
        It is 0 as well where the sellers with positive valuation have a total range of at most :math:`2\sqrt K`: data
        that cost nothing are used alone. At exactly :math:`2\sqrt K` this is a limit that no finite loss attains, and
        `scale` is 0.

    Raises
    ------
    ValueError
        For a negative or non-finite valuation, a non-positive `max_mse` or range, or a power below 1.

    Notes
    -----
    Replaces Theorem 5 (:math:`r=1`) and Theorem 6 with Algorithm 1 (:math:`r>1`). The constraint of (10) is an
    equality; for costs that are convex and do not fall, "at most :math:`K`" has the same optimum when
    :math:`K<(\sum q/2)^2`. With :math:`C=\sum u_kq_ka_k^r` the stationarity conditions also give
    :math:`b^2=KC/(2\sum q_k\min(u_k,\theta))`, which is free of cancellation, and for :math:`r=2` the least cost
    :math:`(2/K)\sum q_k\min(u_k,\theta)`.

    Examples
    --------
    >>> best = principle2([1.0, 10.0], 0.3, power=2)
    >>> best.shares.round(6), round(float(best.cost), 6)
    (array([1. , 0.2]), 20.0)
    """
    v, K, r = check_valuations(valuations), check_positive(max_mse, "max_mse"), check_power(power)
    weights = np.ones(v.shape[-1]) if ranges is None else np.asarray(ranges, dtype=float)
    if weights.shape != v.shape[-1:] or not (np.isfinite(weights) & (weights > 0)).all():
        raise ValueError(f"ranges must be {v.shape[-1]} positive finite numbers, got {ranges!r}")
    if weights.sum() ** 2 <= 4 * K:
        return zero_loss(v.shape, K, weights.sum())

    # Sort; sums over those at their cap (before) and below it (from) each breakpoint
    u = v * weights ** (r - 1)
    order = np.argsort(u, axis=-1)
    u, q = np.take_along_axis(u, order, -1), weights[order]
    before = np.zeros_like(u)
    np.cumsum((q * u)[..., :-1], axis=-1, out=before[..., 1:])
    mass = np.cumsum(q[..., ::-1], axis=-1)[..., ::-1]

    # Breakpoints below the root: there the left side still exceeds the right side
    left = mass - suffix_weights(u, q, r)
    capped = (u == 0) | (left * (before + mass * u) > 4 * K * u)
    j = np.minimum(capped.sum(-1, keepdims=True), u.shape[-1] - 1)

    # The root beyond the last of them
    at_cap = np.arange(u.shape[-1]) < j
    point = np.take_along_axis(u, j, -1)
    unit = np.where(point > 0, point, 1.0)
    s, m = np.take_along_axis(before, j, -1) / unit, np.take_along_axis(mass, j, -1)
    below = np.where(at_cap, 0.0, ratio_power(unit / np.where(at_cap | (u == 0), unit, u), r))
    B = (q * below).sum(-1, keepdims=True)
    share, scale, cost = one_root(m, s, B, K, r)
    shares = np.where(at_cap, 1.0, np.minimum(1.0, below * share))

    # Sellers who ask nothing, where they suffice
    rest = (q * (u > 0)).sum(-1, keepdims=True)
    free = rest**2 <= 4 * K
    shares = np.where(free, u == 0, shares)
    scale = np.where(free, np.sqrt(np.maximum(K - (rest / 2) ** 2, 0) / 2), scale)
    cost = np.where(free, 0.0, unit * cost)
    result = np.empty_like(u)
    np.put_along_axis(result, order, shares, -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        epsilon = np.where(result > 0, weights * result / scale, 0.0)
    return Allocation(result, scale[..., 0], epsilon, cost[..., 0])
