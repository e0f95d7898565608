r"""Least-cost contracts for a biased answer: whose privacy a buyer uses, and how much of it.

A buyer wants the sum :math:`\sum_k q_kd_k` of the sellers' data with a mean squared error of at most :math:`K` on every
database. The biased answer gives the shares :math:`a_k\in[0,1]` and the Laplace scale :math:`b`: seller :math:`k` loses
:math:`\varepsilon_k=a_kq_k/b`, and the error is at most :math:`(T/2)^2+2b^2` with :math:`T=\sum_kq_k(1-a_k)`. Every
seller has the cost :math:`v_k\varepsilon_k^r`.

*Principle 1* asks for equal losses, and has a closed form. *Principle 2* asks for the least total cost, problem (10) of
the paper: :mod:`hdpm_lib.contracts_exact` solves it for this cost, :mod:`hdpm_lib.contracts_conic` for any convex one,
and :mod:`hdpm_lib.contracts_printed` holds the paper's own rules.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.validation import check_count, check_finite, check_number, check_positive

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Allocation:
    """Shares, noise and privacy losses, for one market or a batch of them.

    Attributes
    ----------
    shares : array of shape (..., n)
        `a`: how much each seller's data counts, in [0, 1].
    scale : array of shape (...)
        `b`: scale of the Laplace noise. It is 0 where no noise is needed, or where the least cost is a limit only.
    epsilon : array of shape (..., n)
        Privacy losses `a q / b`.
    cost : array of shape (...)
        Total privacy cost.
    """

    shares: Array
    scale: Array
    epsilon: Array
    cost: Array


def check_valuations(valuations: ArrayLike, ceiling: float | None = None) -> Array:
    """Privacy valuations as floats, sellers on the last axis; an error names the first bad one.

    Raises
    ------
    ValueError
        For no sellers, and for a valuation that is negative, not finite, or above `ceiling`.
    """
    top = np.inf if ceiling is None else check_positive(ceiling, "ceiling")
    v = check_finite(valuations, "valuations", None, 0)
    if v.ndim == 0:
        raise ValueError(f"valuations must hold at least one seller, got shape {v.shape}")
    if (bad := v > top).any():
        raise ValueError(f"valuations must not exceed ceiling = {top}, got {v[bad].flat[0]}")
    return v


def check_power(power: float) -> float:
    """The power `r` of the cost as a float; an error names a value below 1, for which the cost is not convex."""
    return check_number(power, "power", 1, why="a convex cost")


def check_cost(cost: Array, max_mse: float, power: float) -> Array:
    """`cost`, or an error where it is beyond the range of floats, as at a tiny error and a high power."""
    if not np.isfinite(cost).all():
        raise ValueError(f"max_mse = {max_mse:g} at power = {power:g} gives a cost or payment too large for a float")
    return cost


def zero_loss(shape: tuple[int, ...], max_mse: float, total_range: float) -> Allocation:
    """Answer the middle of the range and use nobody's data: accurate enough from (total range / 2)^2 on.

    Footnote 1 of the paper, for valuations of that shape. Privacy does not need the noise: it only brings the error up
    to `max_mse`.
    """
    scale = np.full(shape[:-1], np.sqrt(max(max_mse - (total_range / 2) ** 2, 0.0) / 2))
    return Allocation(np.zeros(shape), scale, np.zeros(shape), np.zeros(shape[:-1]))


def principle1(n: int, max_mse: float) -> Allocation:
    r"""The same privacy loss for everybody, as small as the accuracy allows (Theorem 4).

    Parameters
    ----------
    n : int
        Number of sellers.
    max_mse : float
        `K`, the largest admissible mean squared error, positive. At :math:`n^2/4` and above nobody's data are needed.

    Returns
    -------
    Allocation
        :math:`\hat a=1-4K/n^2`, :math:`\hat b=\sqrt{K\hat a/2}` and :math:`\hat\varepsilon=\frac1n\sqrt{2n^2/K-8}`,
        as in (6) and (7). Its `cost` is the total loss :math:`n\hat\varepsilon`.

    Raises
    ------
    ValueError
        If `n` is not a positive integer, or `max_mse` not positive and finite.

    Examples
    --------
    >>> principle1(2, 0.25).epsilon.round(4)   # the square root of 6
    array([2.4495, 2.4495])
    """
    n, K = check_count(n, "n"), check_positive(max_mse, "max_mse")
    share = 1 - 4 * K / n**2
    if share <= 0:
        return zero_loss((n,), K, n)
    scale = np.sqrt(K * share / 2)
    epsilon = np.full(n, share / scale)
    return Allocation(np.full(n, share), np.asarray(scale), epsilon, epsilon.sum())


def unbiased(n: int, max_mse: float) -> Allocation:
    """The same for the unbiased answer: shares 1 and loss `sqrt(2 / max_mse)` each, (13) of the paper.

    Arguments, shapes and errors as for :func:`principle1`.

    Examples
    --------
    >>> unbiased(2, 0.25).epsilon.round(4)
    array([2.8284, 2.8284])
    """
    n, K = check_count(n, "n"), check_positive(max_mse, "max_mse")
    epsilon = np.full(n, np.sqrt(2 / K))
    return Allocation(np.ones(n), np.asarray(np.sqrt(K / 2)), epsilon, epsilon.sum())


def kkt_residual(allocation: Allocation, valuations: ArrayLike, max_mse: float, *, power: float) -> Array:
    r"""How far an allocation is from the conditions that single out the optimum of (10), relative to their terms.

    Parameters
    ----------
    allocation : Allocation
        For the plain sum (ranges 1), with finite losses.
    valuations : array of shape (..., n)
    max_mse, power : float
        As for :func:`hdpm_lib.contracts_exact.principle2`.

    Returns
    -------
    array of shape (...)
        The largest of: error of the accuracy constraint over `K`; and, with :math:`C=\sum va^r`, the amount by which
        :math:`v_ka_k^{r-1}(4K-T^2)` differs from :math:`TC`, or lies on the wrong side of it where :math:`a_k` is 0 or
        1, over the largest of their terms. The problem is convex, so 0 means optimal. It is measured from the shares,
        which are rounded to 1e-16: below :math:`K\approx10^{-3}n^2/4`, where `T` is small, that rounding shows.

    Raises
    ------
    ValueError
        For valuations, an accuracy or a power that :func:`hdpm_lib.contracts_exact.principle2` refuses.
    """
    v, K, r = check_valuations(valuations), check_positive(max_mse, "max_mse"), check_power(power)
    T = (1 - allocation.shares).sum(-1, keepdims=True)
    most = allocation.shares.max(-1, keepdims=True)
    a = allocation.shares / np.where(most > 0, most, 1.0)  # the conditions scale; powers of small shares underflow
    accuracy = np.abs((T[..., 0] / 2) ** 2 + 2 * allocation.scale**2 - K) / K
    tiny = np.finfo(float).tiny if r > 1 else 0.0  # a share of 0 is then one too small for a float
    marginal = v * np.maximum(a, tiny) ** (r - 1)
    trade = T * most * (v * a**r).sum(-1, keepdims=True)
    gap = marginal * (4 * K - T**2) - trade
    gap = np.where(allocation.shares >= 1, np.maximum(gap, 0), np.where(a <= tiny, np.maximum(-gap, 0), np.abs(gap)))
    size = np.maximum((4 * K * marginal + T**2 * marginal).max(-1, keepdims=True), trade)
    stationarity = np.divide(gap, size, out=np.zeros_like(gap), where=size > 0).max(-1)
    return np.asarray(np.maximum(accuracy, stationarity))
