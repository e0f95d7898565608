r"""Exact audits by lists: of all random integers that a program can draw, and of all data sets of a small domain.

:func:`exact_law` runs a program once for each sequence of integers it can draw. Programs that toss coins until they
stop have endless sequences; those below a given probability are left, and what is left is counted, so that every
probability lies between two exact numbers. :func:`farthest_moves` goes through every data set of a small domain, and
every pair that differs in one record. With discrete Laplace noise, or noise on a lattice, the exact loss of a pair is
its distance over the scale or times the rate.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


class _Unlikely(Exception):
    """The integers drawn so far have too small a probability."""


class _Scripted(np.random.Generator):
    """A generator whose integers follow a script: first that, then zeros, which are added to it."""

    def __init__(self, script: list[list[int]], most: int) -> None:
        super().__init__(np.random.PCG64(0))
        self.script, self.most, self.place, self.product = script, most, 0, 1

    def _next(self, count: int) -> int:
        if self.place == len(self.script):
            self.script.append([0, count])
        value, expected = self.script[self.place]
        if expected != count:
            raise ValueError("release must draw the same integers whenever those before are the same")
        self.place, self.product = self.place + 1, self.product * count
        if self.product > self.most:
            raise _Unlikely
        return value

    def integers(self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64) -> Any:
        """As ``numpy.random.Generator.integers``, for one range."""
        first, end = (0, int(low)) if high is None else (int(low), int(high))
        if size is None:
            return first + self._next(end - first)
        shape = (size,) if isinstance(size, int | np.integer) else tuple(size)
        drawn = [first + self._next(end - first) for _ in range(math.prod(shape))]
        return np.array(drawn, dtype=dtype).reshape(shape)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError("release must draw integers only: the law of anything else cannot be listed")

    random = uniform = normal = standard_normal = laplace = gamma = exponential = standard_gamma = _refuse
    standard_exponential = choice = permutation = permuted = shuffle = bytes = geometric = binomial = poisson = _refuse


@dataclass(frozen=True)
class ExactLaw:
    """What a program gives, and with which probability at least."""

    probabilities: Mapping[Hashable, Fraction]
    rest: Fraction


def exact_law(release: Callable[[np.random.Generator], Any], *, least: Fraction = Fraction(1, 10_000)) -> ExactLaw:
    r"""List every sequence of random integers that a release can draw, with what it gives and its probability."""
    most, script = math.floor(1 / least), list[list[int]]()
    found: defaultdict[Hashable, Fraction] = defaultdict(Fraction)
    rest = Fraction(0)
    while True:
        rng = _Scripted(script, most)
        try:
            output = release(rng)
        except _Unlikely:
            rest += Fraction(1, rng.product)
        else:
            found[_key(output)] += Fraction(1, rng.product)
        del script[rng.place :]
        while script and script[-1][0] == script[-1][1] - 1:  # the next sequence in the order of the alphabet
            script.pop()
        if not script:
            return ExactLaw(dict(found), rest)
        script[-1][0] += 1


def _key(output: Any) -> Hashable:
    """An output that can be looked up: numbers and tuples of them."""
    array = np.asarray(output)
    return array.item() if array.ndim == 0 else tuple(array.ravel().tolist())


def proved_loss(first: ExactLaw, second: ExactLaw) -> float:
    """The largest privacy loss between two laws that is certain, whatever the sequences that were left give."""
    largest = 0.0
    for one, two in ((first, second), (second, first)):
        for output, probability in one.probabilities.items():
            most = two.probabilities.get(output, Fraction(0)) + two.rest
            largest = max(largest, math.log(probability / most) if most else math.inf)
    return largest


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
