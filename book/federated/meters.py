"""Means over profiles with their standard errors, and the two rules of aggregation.

Every mean comes with its standard error over the `k` profiles, of which there must be at least two.
The meters themselves stand in :doc:`/book/federated/regret`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.aggregation import least_error_weights, size_weights
from hdpm_lib.validation import check_finite

Array = NDArray[np.float64]
AGGREGATIONS = {"OptAggr": least_error_weights, "ConvAggr": size_weights}


class Estimate(NamedTuple):
    """A mean, or a ratio of means, and its standard error over the profiles."""

    value: float
    error: float


def estimate(top: ArrayLike, bottom: ArrayLike | None = None) -> Estimate:
    """Return the mean over profiles and owners, or ratio of two such means, with the standard error
    over profiles.

    The error of a ratio is that of its first-order expansion. Both arrays are of one shape (k,
    ...), and `bottom` is not negative; if it sums to 0, the result is not a number.

    Examples
    --------
    >>> estimate([1.0, 3.0]), estimate([1.0, 2.0], [4.0, 8.0])
    (Estimate(value=2.0, error=1.0), Estimate(value=0.25, error=0.0))
    """
    a = check_finite(np.asarray(top, float), "top")
    b = np.ones(a.shape) if bottom is None else check_finite(np.asarray(bottom, float), "bottom")
    if (b < 0).any():
        raise ValueError(f"bottom must not be negative, got {b.min()}")
    if a.ndim == 0 or len(a) < 2 or a.shape != b.shape:
        raise ValueError(
            f"top must have at least 2 profiles and the shape of bottom, got {a.shape} and"
            f" {b.shape}"
        )
    up, down = (x.reshape(len(x), -1).sum(1) for x in (a, b))
    if down.sum() == 0:
        return Estimate(np.nan, np.nan)
    ratio = up.sum() / down.sum()
    return Estimate(
        float(ratio), float((up - ratio * down).std(ddof=1) / np.sqrt(len(a)) / down.mean())
    )


def over_cost(gain: ArrayLike, cost: ArrayLike) -> Estimate:
    """Return the mean of gain over cost, of the owners whose sale costs something; both of shape
    (k, n).
    """
    gained = check_finite(gain, "gain", 2)
    costs = check_finite(cost, "cost", 2, 0)
    sells = costs > 0
    return estimate(np.where(sells, gained / np.where(sells, costs, 1), 0), sells)
