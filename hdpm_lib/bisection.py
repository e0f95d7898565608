"""Bisection over whole numbers, for many problems at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.intp]


def count_while(holds: Callable[[Index], NDArray[np.bool_]], limit: Index) -> Index:
    """Count for each entry how many of 0, 1, ..., `limit` - 1 fulfil a condition.

    The condition `holds` is true first and false after; it is asked about arrays of the shape of
    `limit`.

    Examples
    --------
    >>> count_while(lambda k: k**2 < np.array([10, 30]), np.array([100, 4]))
    array([4, 4])
    """
    low = np.zeros_like(limit)
    high = limit.copy()
    while True:
        undecided = low < high
        if not undecided.any():
            return low
        middle = (low + high) // 2
        true = holds(np.where(undecided, middle, 0))
        low = np.where(undecided & true, middle + 1, low)
        high = np.where(undecided & ~true, middle, high)
