r"""Least-cost contracts for a biased answer: whose privacy a buyer uses, and how much of it.

They are those of M. M. Khalili, X. Zhang and M. Liu, "Designing Contracts for Trading Private and
Heterogeneous Data Using a Biased Differentially Private Algorithm", IEEE Access 9, 2021, whose
theorems and equations are meant here; there all ranges are 1.

A buyer wants the sum :math:`\sum_kq_kd_k` of the sellers' data with a mean squared error of at most
:math:`K` on every database. The biased answer gives the shares :math:`a_k\in[0,1]` and the Laplace
scale :math:`b`: seller :math:`k` loses :math:`\varepsilon_k=a_kq_k/b` at the cost
:math:`v_k\varepsilon_k^r`, and the error is at most :math:`(T/2)^2+2b^2` with
:math:`T=\sum_kq_k(1-a_k)`.

*Principle 1* asks for equal losses, and has a closed form. *Principle 2* asks for the least total
cost, problem (10). With :math:`u_k=v_kq_k^{r-1}` its shares are
:math:`a_k=\min(1,(\theta/u_k)^{1/(r-1)})`, where the threshold :math:`\theta` is the only root of

.. math:: \sum_kq_k(1-a_k)=\frac{4K\theta}{\sum_kq_k\min(u_k,\theta)}.

A sort finds it in time :math:`O(n\log n)`; :doc:`/book/contracts/allocation` has the proof.

In functions that do not say it themselves `v` of shape (..., n) are valuations, with a batch of
markets on the leading axes, `u` those of a unit of the range, `q` the ranges, `K` the largest mean
squared error and `r` the power of the cost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hdpm_lib.markets.outcome import Contract
from hdpm_lib.validation import Array, check_count, check_finite, check_number, check_positive


def check_valuations(valuations: ArrayLike, ceiling: float = np.inf) -> Array:
    """Return valuations from 0 to `ceiling` as floats, sellers on the last axis."""
    v = check_finite(valuations, "valuations", None, 0, ceiling)
    if v.ndim == 0:
        raise ValueError(f"valuations must hold at least one seller, got shape {v.shape}")
    return v


def check_power(power: float) -> float:
    """Return the power of the cost as a float; below 1 the cost is not convex."""
    return check_number(power, "power", 1, why="a convex cost")


def check_cost(cost: Array, max_mse: float, power: float) -> Array:
    """Return a cost that floats hold; at a tiny error and a high power they may not."""
    if not np.isfinite(cost).all():
        raise ValueError(
            f"max_mse = {max_mse:g} at power = {power:g} gives a cost or payment too large for a"
            " float"
        )
    return cost


# --- Principle 1 --------------------------------------------------------------------------------


def equal_loss_contract(n: int, max_mse: float) -> Contract:
    r"""Buy the same privacy loss from all, as small as the accuracy allows: Principle 1.

    Parameters
    ----------
    n : int
        Number of sellers, each of whose data lies in [0, 1].
    max_mse : float
        The paper's :math:`K`, positive: the largest mean squared error of the sum of their data.

    Returns
    -------
    Contract
        Privacy losses, shares and Laplace scale; the `cost` is the total loss.

    Notes
    -----
    By Theorem 4, Eqs. (6) and (7), :math:`\hat a=1-4K/n^2`, :math:`\hat b=\sqrt{K\hat a/2}` and
    :math:`\hat\varepsilon=\frac1n\sqrt{2n^2/K-8}`; from :math:`K=n^2/4` on nobody's data are
    needed.

    References
    ----------
    M. M. Khalili, X. Zhang and M. Liu, "Designing Contracts for Trading Private and Heterogeneous
    Data Using a Biased Differentially Private Algorithm", IEEE Access 9, 2021.

    Examples
    --------
    For a mean squared error of 1/4 each of two sellers loses the square root of 6:

    >>> equal_loss_contract(2, 0.25).privacy_loss.round(4)
    array([2.4495, 2.4495])
    """
    n = check_count(n, "n")
    K = check_positive(max_mse, "max_mse")
    share = 1 - 4 * K / n**2
    if share <= 0:
        return _zero_loss((n,), K, n)
    scale = np.sqrt(K * share / 2)
    loss = np.full(n, share / scale)
    return Contract(loss, cost=loss.sum(), error=K, shares=np.full(n, share), scale=scale)


def _zero_loss(shape: tuple[int, ...], max_mse: float, total_range: float) -> Contract:
    """Answer with the middle of the range; noise only brings the error up to `max_mse`."""
    scale = np.full(shape[:-1], np.sqrt(max(max_mse - (total_range / 2) ** 2, 0.0) / 2))
    nothing = np.zeros(shape)
    error = np.full(shape[:-1], max_mse)
    return Contract(nothing, cost=nothing.sum(-1), error=error, shares=nothing, scale=scale)


# --- Principle 2 --------------------------------------------------------------------------------


def least_cost_contract(
    valuations: ArrayLike, max_mse: float, *, power: float, ranges: ArrayLike | None = None
) -> Contract:
    r"""Choose whose privacy to use for an accurate sum, at the least total cost: Principle 2.

    Parameters
    ----------
    valuations : array of shape (..., n)
        The paper's :math:`v`, finite and not negative: seller :math:`k` bears the cost
        :math:`v_k\varepsilon_k^r` for the privacy loss :math:`\varepsilon_k`, in units of money. A
        batch of markets on the leading axes.
    max_mse : float
        The paper's :math:`K`, positive: the largest mean squared error of the sum of the sellers'
        data.
    power : float
        The paper's :math:`r`, at least 1.
    ranges : array of shape (n,), default None
        Length :math:`q_k` of the interval in which each seller's data lies, positive, or her weight
        in the sum; 1 each for None, as in the paper.

    Returns
    -------
    Contract
        Privacy losses, shares :math:`a`, Laplace scale :math:`b`, and the least cost. It pays
        nobody: :func:`hdpm_lib.markets.mechanisms.vcg_contract` does.

    Notes
    -----
    Solves problem (10) exactly, in the time of a sort. It replaces Theorem 5
    (:math:`r=1`) and Theorem 6 with Algorithm 1 (:math:`r>1`). The constraint of (10) is an
    equality; "at most :math:`K`" has the same optimum when :math:`K<(\sum q/2)^2`.

    Sellers with equal valuations and ranges get equal losses, also at power 1, where any split
    between them costs the same. Where :math:`K\ge(\sum q/2)^2` nobody's data are needed and the
    cost is 0. It is 0 as well where the sellers with positive valuation have a total range of at
    most :math:`2\sqrt K`: data that cost nothing are used alone. At exactly :math:`2\sqrt K` this
    is a limit that no finite loss attains, and `scale` is 0. A least cost beyond the range of
    floats is an error.

    References
    ----------
    M. M. Khalili, X. Zhang and M. Liu, "Designing Contracts for Trading Private and Heterogeneous
    Data Using a Biased Differentially Private Algorithm", IEEE Access 9, 2021.

    Examples
    --------
    A loss of :math:`\varepsilon` costs one seller :math:`\varepsilon^2` dollars and the other
    :math:`10\varepsilon^2`. All of the first one's number is used, a fifth of the other's, and
    noise, at a cost of 20 dollars:

    >>> best = least_cost_contract([1.0, 10.0], 0.3, power=2)
    >>> best.shares.round(6)
    array([1. , 0.2])
    >>> best.privacy_loss.round(4)
    array([3.7796, 0.7559])
    >>> print(best.cost.round(6))
    20.0
    """
    v = check_valuations(valuations)
    K = check_positive(max_mse, "max_mse")
    r = check_power(power)
    if ranges is None:
        return solved_contract(v, K, r)
    weights = check_finite(ranges, "ranges", 1, 0, ends="()")
    if weights.shape != v.shape[-1:]:
        raise ValueError(f"ranges must have shape {v.shape[-1:]}, got {weights.shape}")
    return solved_contract(v, K, r, weights)


def solved_contract(v: Array, K: float, r: float, weights: Array | None = None) -> Contract:
    """Compute :func:`least_cost_contract` for arguments that are checked."""
    ranges = np.ones(v.shape[-1]) if weights is None else weights
    if ranges.sum() ** 2 <= 4 * K:
        return _zero_loss(v.shape, K, ranges.sum())

    # The segment of the equation that holds the root, and the root
    u = _priced(v, ranges, r)
    point, spent, mass, B = _root_segment(u, ranges, K, r)
    share, scale, cost = scaled_root(mass, spent, point, B, K, r)
    unit = np.where(point > 0, point, 1.0)
    others = np.minimum(1.0, ratio_power(unit / np.maximum(u, unit), r) * share)
    shares = np.where(u < point, 1.0, others)

    # Sellers who ask nothing, where they suffice
    rest = (ranges * (u > 0)).sum(-1, keepdims=True)
    free = rest**2 <= 4 * K
    free_scale = np.sqrt(np.maximum(K - (rest / 2) ** 2, 0) / 2)
    shares = np.where(free, u == 0, shares)
    scale = np.where(free, free_scale, scale)
    cost = check_cost(np.where(free, 0.0, cost), K, r)

    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.where(shares > 0, ranges * shares / scale, 0.0)
    return Contract(
        loss, cost=cost[..., 0], error=np.full(v.shape[:-1], K), shares=shares, scale=scale[..., 0]
    )


def _priced(v: Array, q: Array, r: float) -> Array:
    """Return the valuations :math:`u_k=v_kq_k^{r-1}` of a unit of the range; floats hold them."""
    with np.errstate(over="ignore", under="ignore"):
        u: Array = v * q ** (r - 1)
    too_large = ~(u <= largest_valuation(q.sum()))
    too_small = (u == 0) & (v > 0)
    bad = too_large | too_small
    if bad.any():
        raise ValueError(
            "valuations times ranges ** (power - 1) leave the range of floats at valuation"
            f" {v[bad][0]}"
        )
    return u


class _Segment(NamedTuple):
    """The part of the equation that holds the root, each field of shape (..., 1)."""

    point: Array  # the least valuation that the threshold does not exceed
    spent: Array  # what the sellers below it cost, who are at the cap
    mass: Array  # total range of the others
    B: Array  # sum of q * (point / u) ** (1 / (r - 1)) over the others


def _root_segment(u: Array, q: Array, K: float, r: float) -> _Segment:
    """Find the segment that holds the root, from both sides of the equation at each breakpoint."""
    order = np.argsort(u, axis=-1)
    u = np.take_along_axis(u, order, -1)
    q = q[order]
    spent = np.zeros_like(u)
    np.cumsum((q * u)[..., :-1], axis=-1, out=spent[..., 1:])
    mass = np.cumsum(q[..., ::-1], axis=-1)[..., ::-1]

    # Below the root the left side exceeds the right side
    left = mass - suffix_weights(u, q, r)
    capped = (u == 0) | (left * (spent + mass * u) > 4 * K * u)
    first = np.minimum(capped.sum(-1, keepdims=True), u.shape[-1] - 1)

    point = np.take_along_axis(u, first, -1)
    unit = np.where(point > 0, point, 1.0)
    weights = ratio_power(unit / np.maximum(u, unit), r)
    weights = np.where(np.arange(u.shape[-1]) < first, 0.0, weights)
    return _Segment(
        point,
        np.take_along_axis(spent, first, -1),
        np.take_along_axis(mass, first, -1),
        (q * weights).sum(-1, keepdims=True),
    )


def largest_valuation(total_range: float) -> float:
    """Return the valuation up to which the sums stay within the range of floats."""
    return float(np.finfo(float).max) / (4 * max(total_range, 1.0) ** 2)


def ratio_power(ratio: Array, power: float) -> Array:
    """Raise a ratio up to 1 to ``1 / (power - 1)``; at power 1 to its limit: 1 at 1, 0 below."""
    if power == 1:
        return (ratio == 1).astype(float)
    return ratio ** (1 / (power - 1))


def suffix_weights(u: Array, q: Array, power: float) -> Array:
    r"""Sum :math:`q_k(u_j/u_k)^{1/(r-1)}` over :math:`k\ge j`, for sorted `u` and every `j`.

    The sums mean nothing where `u` is 0. They are taken in logarithms where powers of heavy tails
    would overflow.
    """
    if power == 1:
        return _sums_over_ties(u, q)
    positive = np.where(u > 0, u, 1.0)
    p = 1 / (power - 1)
    if max(p, 1) * (np.log(positive.max()) - np.log(positive.min())) < 500:
        power_of = (positive / positive.max()) ** p
        return np.cumsum((q / power_of)[..., ::-1], axis=-1)[..., ::-1] * power_of
    logs = p * np.log(positive)
    total = np.logaddexp.accumulate((np.log(q) - logs)[..., ::-1], axis=-1)[..., ::-1]
    return np.exp(np.where(u > 0, total + logs, 0.0))


def _sums_over_ties(u: Array, q: Array) -> Array:
    """Sum `q` over the sellers from `j` on whose valuation is that of `j`, for sorted `u`."""
    n = u.shape[-1]
    last = np.full((*u.shape[:-1], 1), n)
    changes = np.where(u[..., 1:] != u[..., :-1], np.arange(1, n), n)
    next_change = np.concatenate([changes, last], axis=-1)
    next_change = np.minimum.accumulate(next_change[..., ::-1], axis=-1)[..., ::-1]
    nothing = np.zeros((*q.shape[:-1], 1))
    mass = np.concatenate([np.cumsum(q[..., ::-1], axis=-1)[..., ::-1], nothing], axis=-1)
    return mass[..., :-1] - np.take_along_axis(mass, next_change, -1)


def scaled_root(
    m: Array, before: Array, point: Array, B: Array, max_mse: float, power: float
) -> tuple[Array, Array, Array]:
    """Compute :func:`one_root` in units of money.

    The cost of those at the cap is `before`, the next breakpoint `point`. Valuations and powers may
    lie so far apart that floats do not hold their ratios: the unit is then one between.
    """
    K = max_mse
    r = power
    tiny = np.finfo(float).tiny
    with np.errstate(all="ignore"):
        far = (before > 0) & (before / point < tiny)
        if r < 2:
            # those not at the cap then matter at the breakpoint or not at all
            far &= m**2 < 4 * K
            unit = np.where(far, before, point)
            top = np.where(far, 2 * m / (4 * K - m**2), 1.0)
        else:
            unit = np.where(far, np.sqrt(before) * np.sqrt(point), point)
            top = point / unit
        lift: Array | float = 1.0
        if r > 1:
            lift = np.where(far, (unit / point) ** (1 / (r - 1)), 1.0)
        share, scale, cost = one_root(m, before / unit, B * lift, K, r, top=top)
        cost = unit * cost
        # the same cost where powers overflow or underflow on the way
        at_cap = (before ** (1 / r) / scale) ** r
        others = B * lift * (unit ** (1 / r) * share / scale) ** r
        held = (cost > tiny) & (cost < np.inf)
        return share * lift, scale, np.where(held, cost, at_cap + others)


def one_root(
    m: Array, s: Array, B: Array, max_mse: float, power: float, *, top: Array | float = 1.0
) -> tuple[Array, Array, Array]:
    """Return the share of a seller at the next breakpoint :math:`u`, Laplace scale and least cost.

    It is known who is at the cap. Money is in units of :math:`u`, or `top` is the next breakpoint
    in another unit. `m` is the range of those below the cap, `s` the cost of those at it, and `B`
    the sum of :math:`q_k(u/u_k)^{1/(r-1)}` over the former. Not a number where the free data
    suffice.
    """
    K = max_mse
    r = power
    with np.errstate(all="ignore"):
        x, share = _root(m, s, B, K, r, top)
        spent = s + x * (share * B)
        # where nobody is at the cap x cancels, which may be too small for a float
        scale = np.sqrt(K / 2 * np.where(s > 0, spent / (s + m * x), share * B / m))
        return share, scale, spent / scale**r


def _root(
    m: Array, s: Array, B: Array, K: float, r: float, top: Array | float
) -> tuple[Array, Array]:
    """Solve `(m - x^p B)(s + m x) = 4 K x`, `p = 1/(r-1)`, for `x` and the share `x^p`."""
    if r == 1:
        return _step_root(m, s, B, K, top)
    if r == 2:
        x = _quadratic_root(m, s, B, K)
        return x, x
    share = np.maximum((m - 4 * K / m) / B, 0)  # where nobody is at the cap
    x = share ** (r - 1)
    inner = s > 0
    if inner.any():
        start = np.broadcast_to(top, s.shape)[inner]
        x[inner], share[inner] = _newton_root(m[inner], s[inner], B[inner], K, r, start)
    return x, share


def _step_root(m: Array, s: Array, B: Array, K: float, top: Array | float) -> tuple[Array, Array]:
    """Solve it at power 1, where `x^p` is a step at `top`."""
    slack = 4 * K - m**2
    x = np.where(m * s >= slack * top, top, m * s / np.where(slack > 0, slack, 1.0))
    at_top = np.maximum(m * s + (m**2 - 4 * K) * x, 0) / (s + m * x) / B
    return x, at_top * (x == top)


def _quadratic_root(m: Array, s: Array, B: Array, K: float) -> Array:
    """Solve it at power 2, where it is a quadratic equation."""
    half = m**2 - B * s - 4 * K
    root = np.sqrt(half**2 + 4 * m**2 * B * s)
    root = np.where(root > 0, root, 2 * m * np.sqrt(B) * np.sqrt(s))  # a product that underflows
    # The same number twice: each form is free of cancellation for one sign of `half`
    positive = (half + root) / (2 * m * B)
    negative = 2 * m * s / np.where(root > half, root - half, 1.0)
    return np.where(half > 0, positive, negative)


def _newton_root(
    m: Array, s: Array, B: Array, K: float, r: float, top: Array
) -> tuple[Array, Array]:
    """Solve it at other powers, by Newton's method from `top`, which is near if sellers are many.

    The unknown `z` is what cannot underflow: at large powers the share, at small ones `x`.
    """
    power_x = 1.0
    power_share = 1 / (r - 1)
    if r > 2:
        power_x = r - 1
        power_share = 1.0

    def gap(z: Array, m: Array, s: Array, B: Array) -> Array:
        x = z**power_x
        return (m * s + (m**2 - 4 * K) * x) / (s + m * x) - z**power_share * B

    def slope(z: Array) -> Array:  # of minus the gap in the logarithm of z
        x = z**power_x
        of_sum = power_x * 4 * K * s * x / (s + m * x) ** 2
        of_share = power_share * z**power_share * B
        return of_sum + of_share

    z = top ** (1 / power_x)
    for _ in range(8):
        step = gap(z, m, s, B) / slope(z)
        z = z + step * z
        near = (np.abs(step) < 1e-12) & (z > 0)
        if near.all():
            break
    else:
        from scipy.optimize import elementwise  # loads slowly

        far = ~near
        most = (2.0 * top[far]) ** (1 / power_x)
        ends = np.zeros_like(most), most
        z[far] = elementwise.find_root(gap, ends, args=(m[far], s[far], B[far])).x
    return z**power_x, z**power_share
