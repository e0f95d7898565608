r"""Weights for noisy gradients: the least error bound of FL-Market, exactly.

Owner :math:`i` has the share :math:`W_i` of all records and adds Laplace noise of scale
:math:`2L/\varepsilon_i` to every coordinate of a gradient whose norm is at most :math:`L`. With
weights :math:`\lambda` on the simplex the bound is

.. math::

   \mathrm{ERR}(\lambda)=\sum_i\lambda_i^2\sigma_i+L^2\Bigl(\sum_i|\lambda_i-W_i|\Bigr)^2,\qquad
   \sigma_i=\frac{8DL^2}{\varepsilon_i^2},

where the variance of :math:`D` coordinates is counted. Put :math:`q_i=\varepsilon_i^2`,
:math:`\kappa=1/(2D)`, :math:`S_0` for the shares of owners who do not sell and, over the others,
:math:`P_+(\alpha)=\sum\max(0,\alpha q_i-W_i)` and :math:`P_-(\beta)=\sum\max(0,W_i-\beta q_i)`. The
best weights are :math:`\max(\alpha q_i,\min(W_i,\beta q_i))` with :math:`\beta=\alpha+\kappa
P_+(\alpha)` and :math:`P_+(\alpha)-P_-(\beta)=S_0`, one increasing, piecewise linear equation that
takes time :math:`O(n)` on average: :doc:`/book/federated/aggregation`. None of this depends on
:math:`L`. The search is not that of :mod:`hdpm_lib.markets.contracts`: an owner has three fates
where a seller has two. A sort instead takes three times as long at a million.

Throughout, all of shape (..., n) with owners last: `epsilon` holds privacy losses, finite, 0 for an
owner who does not sell, and `sizes` positive numbers of records. `coordinates` is :math:`D`: the
length of the gradient for the squared error of the whole vector, 1 for the bound that the authors'
published code computes. `clip_norm`, positive, is :math:`L`. Where nobody sells every bound is
infinite, and the weights are the shares of the records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.validation import check_count, check_finite, check_positive

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Index = NDArray[np.intp]
NEGLIGIBLE = 1e-100  # squared loss in units of the largest; an owner below does not sell
FEW = 1000  # owners whom a sort takes no longer than a search


def _checked(epsilon: ArrayLike, sizes: ArrayLike) -> tuple[Array, Array]:
    """Privacy losses and shares of one shape."""
    eps = check_finite(epsilon, "epsilon", low=0)
    size = check_finite(sizes, "sizes", low=0, ends="()")
    if eps.ndim == 0 or eps.shape[-1:] != size.shape[-1:]:
        raise ValueError(
            f"epsilon and sizes must have shape (..., n), got {eps.shape} and {size.shape}"
        )
    eps, size = np.broadcast_arrays(eps, size)
    # whose sum might be infinite
    size = np.where(size.max(-1, keepdims=True) > 1e280, size * 2.0**-64, size)
    return eps, size / size.sum(-1, keepdims=True)


def size_weights(epsilon: ArrayLike, sizes: ArrayLike) -> Array:
    """Weights proportional to the number of records, over the owners who sell: the baseline
    ConvAggr.

    Examples
    --------
    >>> size_weights([1.0, 2.0, 0.0], [10, 30, 60])
    array([0.25, 0.75, 0.  ])
    """
    return _among_sellers(*_checked(epsilon, sizes))


def _among_sellers(eps: Array, shares: Array) -> Array:
    kept = np.where((eps > 0) | (eps == 0).all(-1, keepdims=True), shares, 0.0)
    return np.asarray(kept / kept.sum(-1, keepdims=True))


def error_bound(
    weights: ArrayLike,
    epsilon: ArrayLike,
    sizes: ArrayLike,
    clip_norm: float = 1.0,
    *,
    coordinates: int = 1,
) -> Array:
    """Largest mean squared error of the gradient with finite `weights` (..., n): the objective of
    Problem 1.

    It is infinite where an owner with privacy loss 0 has weight, or one so small that floats do not
    hold the bound.

    Examples
    --------
    >>> float(error_bound([0.5, 0.5, 0.0], [2.0, 2.0, 0.0], [1, 3, 4]))
    2.0
    """
    eps, shares = _checked(epsilon, sizes)
    weight = check_finite(weights, "weights")
    if weight.shape[-1:] != eps.shape[-1:]:
        raise ValueError(f"weights must have shape (..., {eps.shape[-1]}), got {weight.shape}")
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        noise = (np.where(weight == 0, 0.0, weight / eps) ** 2).sum(-1)
    bias = np.abs(weight - shares).sum(-1)
    scale = check_positive(clip_norm, "clip_norm") ** 2
    return np.asarray(scale * (8 * check_count(coordinates, "coordinates") * noise + bias**2))


def _take(array: Array, index: Index) -> Array:
    return np.take_along_axis(array, np.minimum(index, array.shape[-1] - 1), -1)


def _sum(mask: Mask, values: Array) -> Array:
    return np.asarray((mask * values).sum(-1, keepdims=True))


class _Breakpoints(NamedTuple):
    """The `theta` in order, with `P_+` and `P_-` there, sums of positive terms, and the mass of `q`
    from each on.
    """

    theta: Array
    plus: Array
    minus: Array
    mass: Array

    def deficit(self, beta: Array) -> Array:
        """`P_-` at any `beta`."""
        k = (self.theta < beta).sum(-1, keepdims=True)
        beyond = _take(self.minus, k) + _take(self.mass, k) * (_take(self.theta, k) - beta)
        return np.where(k < self.theta.shape[-1], beyond, 0.0)


def _breakpoints(theta: Array, q: Array) -> _Breakpoints:
    order = np.argsort(theta, axis=-1)
    ranked = np.take_along_axis(theta, order, -1)
    mass = np.take_along_axis(q, order, -1)
    gaps = np.diff(ranked, axis=-1)
    after = np.cumsum(mass[..., ::-1], axis=-1)[..., ::-1]
    above = np.zeros_like(mass)
    below = np.zeros_like(mass)
    np.cumsum(np.cumsum(mass, axis=-1)[..., :-1] * gaps, axis=-1, out=above[..., 1:])
    below[..., :-1] = np.cumsum((after[..., 1:] * gaps)[..., ::-1], axis=-1)[..., ::-1]
    return _Breakpoints(ranked, above, below, after)


def _condensed(
    theta: Array, q: Array, kappa: Array, idle: Array
) -> tuple[Array, Array, list[float]]:
    """At most `FEW` owners with the same equation, in expected time :math:`O(n)`; and up to which
    `theta` the others are raised for certain, from which on lowered, and from where to where they
    keep their shares.

    The equation at the median of a sample tells whether an owner there is raised, is lowered, or
    keeps her share. One owner with their total `q` and their mean `theta` stands for all with the
    same fate.
    """
    raised, lowered, kept_from, kept_to = ends = [-np.inf, np.inf, np.inf, -np.inf]
    if theta.shape[-1] >= 100 * FEW:  # those of a hundredth of the owners are near
        ends = _condensed(theta[::100], 100 * q[::100], kappa, idle)[2]
    guesses = [end for end in reversed(ends) if np.isfinite(end)]
    while theta.shape[-1] > FEW:
        sample = np.sort(theta[:: len(theta) // 100 + 1])
        below = sample[sample < kept_from]
        beyond = sample[sample > kept_to]
        side = below if len(below) >= len(beyond) else beyond
        pivot = guesses.pop() if guesses else float(side[len(side) // 2])
        moment = q * (theta - pivot)
        plus = -np.minimum(moment, 0).sum()
        minus = np.maximum(moment, 0).sum()
        alpha = pivot - kappa * (minus + idle)
        beta = pivot + kappa * plus
        if plus - idle < (q * np.maximum(theta - beta, 0)).sum():
            raised = max(raised, pivot)
            others = theta > pivot
            apart = -plus
        elif minus + idle <= (q * np.maximum(alpha - theta, 0)).sum():
            lowered = min(lowered, pivot)
            others = theta < pivot
            apart = minus
        else:
            kept_from = min(kept_from, pivot)
            kept_to = max(kept_to, pivot)
            others = (theta < kept_from) | (kept_to < theta)
            apart = 0.0
        mass = (q * ~others).sum()
        mean = pivot + apart / max(mass, np.finfo(float).tiny)
        theta = np.append(np.compress(others, theta), mean)
        q = np.append(np.compress(others, q), mass)
    return theta, q, [raised, lowered, kept_from, kept_to]


def count_while(holds: Callable[[Index], Mask], limit: Index) -> Index:
    """For each entry, how many of 0, 1, ..., limit - 1 fulfil a condition that is true first and
    false after.
    """
    low = np.zeros_like(limit)
    high = limit.copy()
    while (open_ := low < high).any():
        middle = (low + high) // 2
        true = holds(np.where(open_, middle, 0))
        low = np.where(open_ & true, middle + 1, low)
        high = np.where(open_ & ~true, middle, high)
    return low


def _solve(eps: Array, shares: Array, coordinates: int) -> Array:
    """The best weights."""
    # 1. Who sells; q in units of the largest, so that kappa stands for the 1/2 of the theorem
    n = eps.shape[-1]
    unit = eps.max(-1, keepdims=True)
    if n > FEW and eps.ndim > 1:
        rows = zip(eps.reshape(-1, n), shares.reshape(-1, n), strict=True)
        return np.reshape([_solve(e, w, coordinates) for e, w in rows], eps.shape)
    q = (eps / np.where(unit > 0, unit, 1.0)) ** 2
    sells = q > NEGLIGIBLE
    most = 1e125  # a loss beyond which the noise is too small to count
    kappa = np.minimum(unit, most) ** 2 / (2 * coordinates)
    idle = _sum(~sells, shares)

    # 2. Sort the owners, of many those whose fate is open; cumulative sums give P_+ (plus) and P_-
    # (minus)
    theta = shares / (q + ~sells)
    *few, (raised, lowered, *_) = _condensed(theta, q * sells, kappa, idle)
    at = _breakpoints(*few)

    # 3. Bisect for the last theta with h < 0: up to there owners are raised
    def negative(j: Index) -> Mask:
        surplus = _take(at.plus, j)
        beta = _take(at.theta, j) + kappa * surplus
        return np.asarray(surplus - idle < at.deficit(beta))

    n = at.theta.shape[-1]
    j = count_while(negative, np.full(idle.shape, n))
    up = sells & (theta <= np.maximum(raised, np.where(j > 0, _take(at.theta, j - 1), -np.inf)))
    r_up = _sum(up, q)
    w_up = _sum(up, shares)

    # 4. Given them, the first theta that beta does not reach: from there owners are lowered
    alpha = (at.theta + kappa * w_up) / (1 + kappa * r_up)
    k = (alpha * r_up - w_up - idle <= at.minus).sum(-1, keepdims=True)
    down = sells & (theta >= np.minimum(lowered, np.where(k < n, _take(at.theta, k), np.inf))) & ~up
    r_down = _sum(down, q)
    w_down = _sum(down, shares)

    # 5. The root, and beta there, without cancellation
    total = r_up + r_down + kappa * r_up * r_down
    total = np.where(total > 0, total, 1.0)
    moving = w_up + w_down + idle
    alpha = (moving + kappa * r_down * w_up) / total
    beta = (moving + kappa * r_up * (w_down + idle)) / total
    kept = shares * (sells | (unit == 0))
    return np.where(up, alpha * q, np.where(down, beta * q, kept))


def least_error_weights(epsilon: ArrayLike, sizes: ArrayLike, *, coordinates: int = 1) -> Array:
    r"""OptAggr, the weights of least error bound: Problem 1 solved exactly, with owners who do not
    sell in the bias.

    They sum to 1, and are positive for all who sell and 0 for the others; a loss below
    :math:`10^{-50}` times the largest does not count. This replaces the solver of Algorithm 2.

    Examples
    --------
    >>> least_error_weights([2.0, 0.5, 0.0], [1, 1, 2]).round(5)
    array([0.86842, 0.13158, 0.     ])
    """
    eps, shares = _checked(epsilon, sizes)
    return _solve(eps, shares, check_count(coordinates, "coordinates"))
