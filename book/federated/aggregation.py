"""Problem 3 of FL-Market, for many markets at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.aggregation import size_weights

Array = NDArray[np.float64]


def opt_aggr_printed(epsilon: ArrayLike, sizes: ArrayLike, *, renormalised: bool = False) -> Array:
    r"""Weights that solve Problem 3, which leaves owners who do not sell out of the bias.

    They are those of :func:`~hdpm_lib.aggregation.least_error_weights` where everybody sells. With
    `renormalised` shares are among the owners who sell, as in the authors' published code, and not
    among all, as printed.

    Notes
    -----
    As in :mod:`hdpm_lib.aggregation`, but :math:`\beta=\alpha+\kappa(P_+(\alpha)-S_0/2)^+`: the
    equation is solved by bisection.

    Examples
    --------
    >>> opt_aggr_printed([2.0, 0.5, 0.0], [1, 1, 2]).round(5)
    array([0.89474, 0.10526, 0.     ])
    """
    eps, size = np.broadcast_arrays(
        np.asarray(epsilon, dtype=float), np.asarray(sizes, dtype=float)
    )
    shares = size / size.sum(-1, keepdims=True)
    sells = eps > 0
    anybody = np.asarray(sells.any(-1))
    if renormalised:
        shares = size_weights(eps, shares)
    unit = np.where(anybody, eps.max(-1), 1.0)[..., None]
    q = (eps / unit) ** 2
    kappa = unit[..., 0] ** 2 / 2
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
        low = np.where(below, middle, low)
        high = np.where(below, high, middle)
    alpha = high
    weights = np.maximum(alpha[..., None] * q, np.minimum(shares, beta(alpha)[..., None] * q))
    return np.where(anybody[..., None], weights * sells, shares)
