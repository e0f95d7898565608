"""Exact audits by lists of all data sets of a small domain, and every pair that differs in one record.

With discrete Laplace noise, or noise on a lattice, the exact loss of a pair is its distance over the scale or times the
rate.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def farthest(points: NDArray[Any], euclidean: bool = False) -> list[Any]:
    """For each axis but the last, how far apart two points are that differ along it only: in L1, or L2 squared."""
    found = []
    for axis in range(points.ndim - 1):
        rows = np.moveaxis(points, axis, 0)
        apart = [rows[k + 1 :] - rows[k] for k in range(len(rows) - 1)]
        found.append(max(((x * x if euclidean else abs(x)).sum(-1).max() for x in apart), default=0))
    return found


class Moves(NamedTuple):
    """How far answers move when one record is replaced, by record; and all noises that there are."""

    farthest: list[int]
    noises: set[Hashable]


def farthest_moves(
    learn: Callable[[tuple[Any, ...]], tuple[Any, Hashable]], domains: Sequence[Sequence[Any]], euclidean: bool = False
) -> Moves:
    """Compare the answers, in integers, of every pair of data sets of a domain that differ in one record."""
    answers, noises = [], set()
    for data in itertools.product(*domains):
        answer, noise = learn(data)
        array = np.asarray(answer)
        assert array.dtype.kind in "iu", array.dtype
        answers.append(array.ravel().astype(object))
        noises.add(noise)
    return Moves(farthest(np.array(answers, dtype=object).reshape(*map(len, domains), -1), euclidean), noises)


def laplace_privacy_losses(answers: ArrayLike, scale: float, *, vector: bool = False) -> Array:
    r"""Privacy loss of each individual, shape (n,), on a finite domain of databases, for an answer plus Laplace noise.

    It is the largest L1 distance of two answers that differ along her axis only, over `scale`, positive. A domain that
    is part of a larger one gives a lower end for that.
    """
    x = np.asarray(answers, dtype=float)
    return np.array(farthest(x if vector else x[..., None]), dtype=float) / scale


def lattice_law(dimension: int, rate: Fraction | int, reach: int) -> tuple[NDArray[np.int64], Array]:
    r"""Points with coordinates from `-reach` to `reach`, and their probabilities under
    :func:`~hdpm_lib.discrete.lattice_laplace`.

    By enumeration, in floats; one row for each point. What lies outside counts as 0, so
    :math:`e^{-\text{rate}\times\text{reach}}` must be small.
    """
    d, r = dimension, float(rate)
    points = np.indices((2 * reach + 1,) * d).reshape(d, -1).T - reach
    mass = np.exp(-r * np.sqrt((points**2).sum(1)))
    return points, mass / mass.sum()
