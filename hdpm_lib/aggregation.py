r"""Weights for noisy gradients: the least error bound of FL-Market, exactly.

Owner :math:`i` has the share :math:`W_i` of all records and adds Laplace noise of scale :math:`2L/\varepsilon_i` to
every coordinate of a gradient whose norm is at most :math:`L`. With weights :math:`\lambda` on the simplex the bound is

.. math:: \mathrm{ERR}(\lambda)=\sum_i\lambda_i^2\sigma_i+L^2\Bigl(\sum_i|\lambda_i-W_i|\Bigr)^2,\qquad
   \sigma_i=\frac{8cL^2}{\varepsilon_i^2},

where the variance of :math:`c` coordinates is counted. The best weights depend on :math:`\varepsilon_i^2/c` and
:math:`W` only, not on :math:`L`. Put :math:`q_i=\varepsilon_i^2`, :math:`\kappa=1/(2c)`, :math:`S_0` for the shares of
owners who do not sell and, over the others, :math:`P(\alpha)=\sum(\alpha q_i-W_i)_+` and
:math:`N(\beta)=\sum(W_i-\beta q_i)_+`. The best weights are :math:`\max(\alpha q_i,\min(W_i,\beta q_i))` with
:math:`\beta=\alpha+\kappa P(\alpha)` and :math:`P(\alpha)-N(\beta)=S_0`: one increasing, piecewise linear equation.
Sorting :math:`W_i/q_i`, cumulative sums and bisection find the piece, a closed form the root: :math:`O(n\log n)`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.validation import check_count, check_finite, check_flag, check_positive

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Index = NDArray[np.intp]
NEGLIGIBLE = 1e-100  # squared loss in units of the largest; an owner below does not sell


def _checked(epsilon: ArrayLike, sizes: ArrayLike) -> tuple[Array, Array]:
    """Privacy losses and shares of one shape, or an error that names the argument and the value."""
    eps, size = check_finite(epsilon, "epsilon", low=0), check_finite(sizes, "sizes", low=0, ends="()")
    if eps.ndim == 0 or eps.shape[-1:] != size.shape[-1:]:
        raise ValueError(f"epsilon and sizes must have shape (..., n), got {eps.shape} and {size.shape}")
    eps, size = np.broadcast_arrays(eps, size)
    size = np.where(size.max(-1, keepdims=True) > 1e280, size * 2.0**-64, size)  # whose sum might be infinite
    return eps, size / size.sum(-1, keepdims=True)


def conv_aggr(epsilon: ArrayLike, sizes: ArrayLike) -> Array:
    """Weights proportional to the number of records, over the owners who sell: the baseline ConvAggr.

    Parameters
    ----------
    epsilon, sizes : arrays of shape (..., n)
        As for :func:`opt_aggr`, and so are the errors.

    Returns
    -------
    array of shape (..., n)
        Non-negative, with sum 1; the shares of all owners where nobody sells.

    Examples
    --------
    >>> conv_aggr([1.0, 2.0, 0.0], [10, 30, 60])
    array([0.25, 0.75, 0.  ])
    """
    eps, shares = _checked(epsilon, sizes)
    kept = np.where((eps > 0) | (eps == 0).all(-1, keepdims=True), shares, 0.0)
    return np.asarray(kept / kept.sum(-1, keepdims=True))


def error_bound(
    weights: ArrayLike, epsilon: ArrayLike, sizes: ArrayLike, clip_norm: float = 1.0, *, coordinates: int = 1
) -> Array:
    r"""Largest mean squared error of the weighted gradient: the objective of Problem 1.

    Parameters
    ----------
    weights, epsilon, sizes : arrays of shape (..., n)
        Finite weights of the noisy gradients; the others as for :func:`opt_aggr`, and so are the errors.
    clip_norm : float, default 1
        `L`, bound on the norm of a gradient, positive.
    coordinates : int, default 1
        Number of coordinates whose variance is counted: the length of the gradient for the squared error of the whole
        vector; 1 for the bound that the authors' published code computes.

    Returns
    -------
    array of shape (...)
        Infinite where an owner with privacy loss 0 has weight, or one so small that floats do not hold the bound.

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


def _count(test: Callable[[Index], Mask], n: int, shape: tuple[int, ...]) -> Index:
    """For each row the number of indices below `n` that pass `test`, which holds up to an index and fails beyond."""
    low, high = np.zeros(shape, dtype=np.intp), np.full(shape, n, dtype=np.intp)
    for _ in range(n.bit_length()):
        middle = (low + high) // 2
        passed = (middle < high) & test(middle)
        low, high = np.where(passed, middle + 1, low), np.where(passed, high, middle)
    return low


def _sum(mask: Mask, values: Array) -> Array:
    return np.asarray(np.where(mask, values, 0.0).sum(-1, keepdims=True))


def _solve(eps: Array, shares: Array, coordinates: int, printed: bool = False) -> Array:
    """The best weights; in Problem 3 as printed half the share of those who do not sell is taken off P."""
    n, unit = eps.shape[-1], eps.max(-1, keepdims=True)
    q = (eps / np.where(unit > 0, unit, 1.0)) ** 2
    # beyond 1e125 the noise is too small to count, and its square too large for a float
    kappa, sells = np.minimum(unit, 1e125) ** 2 / (2 * check_count(coordinates, "coordinates")), q > NEGLIGIBLE
    idle = _sum(~sells, shares)
    less = idle / 2 if printed else np.zeros_like(idle)
    theta = np.where(sells, shares / np.where(sells, q, 1.0), np.inf)

    # Breakpoints in order, with P and N there as sums of positive terms; those who do not sell come last, without mass
    order = np.argsort(theta, axis=-1)
    mass = np.take_along_axis(np.where(sells, q, 0.0), order, -1)
    ranked = np.minimum(np.take_along_axis(theta, order, -1), np.where(sells, theta, 0.0).max(-1, keepdims=True))
    gaps, after = np.diff(ranked, axis=-1), np.cumsum(mass[..., ::-1], axis=-1)[..., ::-1]
    above, below = np.zeros_like(q), np.zeros_like(q)
    np.cumsum(np.cumsum(mass, axis=-1)[..., :-1] * gaps, axis=-1, out=above[..., 1:])
    below[..., :-1] = np.cumsum((after[..., 1:] * gaps)[..., ::-1], axis=-1)[..., ::-1]

    def alpha_beyond(j: Index) -> Mask:
        surplus = _take(above, j)
        beta = _take(ranked, j) + kappa * np.maximum(surplus - less, 0)
        k = _count(lambda k: _take(ranked, k) < beta, n, beta.shape)
        deficit = np.where(k < n, _take(below, k) + _take(after, k) * (_take(ranked, k) - beta), 0.0)
        return np.asarray(surplus - idle < deficit)

    j = _count(alpha_beyond, n, idle.shape)
    up = sells & ((theta < _take(ranked, j)) | (j == n))
    r_up, w_up = _sum(up, q), _sum(up, shares)

    def beta_reaches(k: Index) -> Mask:
        alpha = (_take(ranked, k) + kappa * (w_up + less)) / (1 + kappa * r_up)
        return np.asarray(alpha * r_up - w_up - idle <= _take(below, k))

    k = _count(beta_reaches, n, idle.shape)
    down = sells & (theta >= _take(ranked, k)) & (k < n) & ~up
    r_down, w_down = _sum(down, q), _sum(down, shares)

    # The root, and beta there, without cancellation
    total = r_up + r_down + kappa * r_up * r_down
    total, moving = np.where(total > 0, total, 1.0), w_up + w_down + idle
    alpha = (moving + kappa * r_down * (w_up + less)) / total
    beta = (moving + kappa * r_up * (w_down + idle - less)) / total
    kept = np.where(sells | (unit == 0), shares, 0.0)
    return np.where(up, alpha * q, np.where(down, beta * q, kept))


def opt_aggr(epsilon: ArrayLike, sizes: ArrayLike, *, coordinates: int = 1) -> Array:
    r"""Weights of least error bound: Problem 1 solved exactly, owners who do not sell included in the bias.

    Parameters
    ----------
    epsilon : array of shape (..., n)
        Privacy losses, finite, 0 for an owner who does not sell; leading axes are a batch.
    sizes : array of shape (..., n)
        Numbers of records, positive.
    coordinates : int, default 1
        As for :func:`error_bound`. The bound on the norm of a gradient does not matter for the weights.

    Returns
    -------
    array of shape (..., n)
        With sum 1, positive for all who sell and 0 for the others. Where nobody sells, where every bound is infinite,
        the shares of the records.

    Raises
    ------
    ValueError
        For a negative or non-finite loss, a size or number that is not positive, or shapes that do not fit.

    Notes
    -----
    Replaces the solver of Algorithm 2. A loss below :math:`10^{-50}` times the largest counts as 0.

    Examples
    --------
    >>> opt_aggr([2.0, 0.5, 0.0], [1, 1, 2]).round(5)
    array([0.86842, 0.13158, 0.     ])
    """
    eps, shares = _checked(epsilon, sizes)
    return _solve(eps, shares, coordinates)


def opt_aggr_printed(epsilon: ArrayLike, sizes: ArrayLike, *, renormalised: bool = False) -> Array:
    r"""Weights that solve Problem 3, which leaves owners who do not sell out of the bias.

    Parameters
    ----------
    epsilon, sizes : arrays of shape (..., n)
        As for :func:`opt_aggr`, and so are the errors.
    renormalised : bool, default False
        Take the shares among the owners who sell, as the authors' published code does, and not among all, as printed.

    Returns
    -------
    array of shape (..., n)
        As for :func:`opt_aggr`, which gives the same where everybody sells.

    Notes
    -----
    Minimises :math:`\sum_{i\le k}\lambda_i^2\sigma_i+L^2(\sum_{i\le k}|\lambda_i-W_i|)^2` over weights of the first `k`
    owners, those who sell, with sum 1. As printed, :math:`\beta=\alpha+\kappa(P(\alpha)-S_0/2)`.

    Examples
    --------
    >>> opt_aggr_printed([2.0, 0.5, 0.0], [1, 1, 2]).round(5)
    array([0.89474, 0.10526, 0.     ])
    """
    check_flag(renormalised, "renormalised")
    eps, shares = _checked(epsilon, sizes)
    return _solve(eps, conv_aggr(epsilon, sizes) if renormalised else shares, 1, printed=True)


def weights_jacobian(epsilon: ArrayLike, sizes: ArrayLike, *, coordinates: int = 1) -> Array:
    r"""Derivative of the weights of :func:`opt_aggr` with respect to the privacy losses.

    Parameters
    ----------
    epsilon, sizes, coordinates
        As for :func:`opt_aggr`, and so are the errors.

    Returns
    -------
    array of shape (..., n, n)
        Entry `i`, `j` for weight `i` and loss `j`. Zeros where nobody sells, although the weights jump there.

    Notes
    -----
    By implicit differentiation. At kinks, where an owner begins or ceases to keep her share, of one adjacent piece.

    Examples
    --------
    >>> weights_jacobian([1.0, 1.0], [1, 1])
    array([[ 0.4, -0.4],
           [-0.4,  0.4]])
    """
    eps, shares = _checked(epsilon, sizes)
    weights, sells = _solve(eps, shares, coordinates), eps > 0
    up, down = sells & (weights > shares), sells & (weights < shares)
    q, kappa = eps**2, 1 / (2 * coordinates)
    most, first = (q / shares).max(-1, keepdims=True), np.arange(eps.shape[-1]) == 0
    level = most - (q / shares).min(-1, keepdims=True) < 1e-14 * most
    up, down = np.where(level, first, up), np.where(level, ~first, down)  # all breakpoints are one: any split
    r_up, r_down = _sum(up, q), _sum(down, q)
    total = r_up + r_down + kappa * r_up * r_down
    own = np.where(up | down, weights / np.where(q > 0, q, 1.0), 0.0)  # alpha or beta of each owner
    alpha = -own * np.where(up, 1 + kappa * r_down, 1.0) / np.where(total > 0, total, 1.0)
    beta = (1 + kappa * r_up) * alpha + kappa * own * up
    both = np.where(up[..., None], alpha[..., None, :], np.where(down[..., None], beta[..., None, :], 0.0))
    return np.asarray(2 * eps[..., None, :] * (q[..., None] * both + own[..., None] * np.eye(eps.shape[-1])))


def least_error_gradient(
    epsilon: ArrayLike, sizes: ArrayLike, clip_norm: float = 1.0, *, coordinates: int = 1
) -> Array:
    r"""Derivative of the least error bound with respect to the privacy losses.

    Parameters
    ----------
    epsilon, sizes, clip_norm, coordinates
        As for :func:`error_bound`, and so are the errors.

    Returns
    -------
    array of shape (..., n)
        Not positive; 0 for an owner whose loss is 0, and everywhere where nobody sells.

    Notes
    -----
    By the envelope theorem it is :math:`-16cL^2\lambda_i^2/\varepsilon_i^3`: that the weights move does not count.

    Examples
    --------
    >>> least_error_gradient([2.0, 2.0, 0.0], [1, 3, 4])
    array([-0.5, -0.5,  0. ])
    """
    weights, scale = opt_aggr(epsilon, sizes, coordinates=coordinates), check_positive(clip_norm, "clip_norm") ** 2
    eps, _ = _checked(epsilon, sizes)
    safe = np.where(eps > 0, eps, 1.0)
    return np.where(eps > 0, -16 * coordinates * scale * (weights / safe) ** 2 / safe, 0.0)
