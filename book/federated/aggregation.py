"""Problem 3 of FL-Market for many markets at once, and derivatives of the best weights and of the least error bound."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.aggregation import least_error_weights, size_weights

Array = NDArray[np.float64]


def _market(epsilon: ArrayLike, sizes: ArrayLike) -> tuple[Array, Array]:
    """Privacy losses and shares of the records, of one shape."""
    eps, size = np.broadcast_arrays(np.asarray(epsilon, dtype=float), np.asarray(sizes, dtype=float))
    return eps, size / size.sum(-1, keepdims=True)


def opt_aggr_printed(epsilon: ArrayLike, sizes: ArrayLike, *, renormalised: bool = False) -> Array:
    r"""Weights that solve Problem 3, which leaves owners who do not sell out of the bias.

    They are those of :func:`~hdpm_lib.aggregation.least_error_weights` where everybody sells. With `renormalised`
    shares are among the owners who sell, as in the authors' published code, and not among all, as printed.

    Notes
    -----
    As in :mod:`hdpm_lib.aggregation`, but :math:`\beta=\alpha+\kappa(P_+(\alpha)-S_0/2)^+`: the equation is solved by
    bisection.

    Examples
    --------
    >>> opt_aggr_printed([2.0, 0.5, 0.0], [1, 1, 2]).round(5)
    array([0.89474, 0.10526, 0.     ])
    """
    eps, shares = _market(epsilon, sizes)
    sells = eps > 0
    anybody = np.asarray(sells.any(-1))
    if renormalised:
        shares = size_weights(eps, shares)
    unit = np.where(anybody, eps.max(-1), 1.0)[..., None]
    q, kappa = (eps / unit) ** 2, unit[..., 0] ** 2 / 2
    idle = (shares * ~sells).sum(-1)
    theta = shares / np.where(sells, q, np.inf)

    def beta(alpha: Array) -> Array:
        raised = np.maximum(alpha[..., None] * q - shares, 0) * sells
        return np.asarray(alpha + kappa * np.maximum(raised.sum(-1) - idle / 2, 0))

    def left(alpha: Array) -> Array:
        raised = np.maximum(alpha[..., None] * q - shares, 0) * sells
        lowered = np.maximum(shares - beta(alpha)[..., None] * q, 0) * sells
        return np.asarray(raised.sum(-1) - idle - lowered.sum(-1))

    low = np.zeros(q.shape[:-1])
    high = 2 * (theta.max(-1) + np.where(anybody, idle / np.maximum(q.sum(-1), 1e-300), 1.0))
    for _ in range(300):
        middle = (low + high) / 2
        below = left(middle) < 0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    alpha = high
    weights = np.maximum(alpha[..., None] * q, np.minimum(shares, beta(alpha)[..., None] * q))
    return np.where(anybody[..., None], weights * sells, shares)


def weights_jacobian(epsilon: ArrayLike, sizes: ArrayLike, *, coordinates: int = 1) -> Array:
    r"""Derivative of weight `i` of :func:`~hdpm_lib.aggregation.least_error_weights` with respect to privacy loss `j`,
    shape (..., n, n).

    At kinks, where an owner begins or ceases to keep her share, it is that of one adjacent piece. All entries are 0
    where nobody sells, although the weights jump there.

    Examples
    --------
    >>> weights_jacobian([1.0, 1.0], [1, 1])
    array([[ 0.4, -0.4],
           [-0.4,  0.4]])
    """
    eps, shares = _market(epsilon, sizes)
    weights = least_error_weights(eps, sizes, coordinates=coordinates)
    sells = eps > 0
    up, down = sells & (weights > shares), sells & (weights < shares)
    q, kappa = eps**2, 1 / (2 * coordinates)
    most, first = (q / shares).max(-1, keepdims=True), np.arange(eps.shape[-1]) == 0
    level = most - (q / shares).min(-1, keepdims=True) < 1e-14 * most
    up, down = np.where(level, first, up), np.where(level, ~first, down)  # all breakpoints are one: any split
    r_up, r_down = (q * up).sum(-1, keepdims=True), (q * down).sum(-1, keepdims=True)
    total = r_up + r_down + kappa * r_up * r_down
    own = np.where(up | down, weights / np.where(q > 0, q, 1.0), 0.0)  # alpha or beta of each owner
    alpha = -own * np.where(up, 1 + kappa * r_down, 1.0) / np.where(total > 0, total, 1.0)
    beta = (1 + kappa * r_up) * alpha + kappa * own * up
    both = np.where(up[..., None], alpha[..., None, :], np.where(down[..., None], beta[..., None, :], 0.0))
    return np.asarray(2 * eps[..., None, :] * (q[..., None] * both + own[..., None] * np.eye(eps.shape[-1])))


def least_error_gradient(
    epsilon: ArrayLike, sizes: ArrayLike, clip_norm: float = 1.0, *, coordinates: int = 1
) -> Array:
    r"""Derivative of the least error bound with respect to the privacy losses, not positive.

    It is 0 for an owner whose loss is 0, and everywhere where nobody sells. By the envelope theorem it is
    :math:`-16DL^2\lambda_i^2/\varepsilon_i^3`: that the weights move does not count.

    Examples
    --------
    >>> least_error_gradient([2.0, 2.0, 0.0], [1, 3, 4])
    array([-0.5, -0.5,  0. ])
    """
    eps, _ = _market(epsilon, sizes)
    weights = least_error_weights(eps, sizes, coordinates=coordinates)
    scale = clip_norm**2
    safe = np.where(eps > 0, eps, 1.0)
    return np.where(eps > 0, -16 * coordinates * scale * (weights / safe) ** 2 / safe, 0.0)
