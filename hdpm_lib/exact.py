r"""Releases that are certain to the last digit.

They are what the ideal mechanism gives, rounded to a public grid.

*Theorem.* Let :math:`M` be a mechanism in real numbers that loses at most :math:`\varepsilon_i` for
record `i`, and `g` a step that does not depend on the data. The release :math:`g\lfloor
M(D)/g+\tfrac12\rfloor`, coordinate by coordinate, loses at most :math:`\varepsilon_i` as well, and
a program that computes it without error keeps that promise.

*Proof.* Rounding is a function of what :math:`M` gives, so it cannot tell more (post-processing).
The program draws the bits of uniform numbers and encloses :math:`M(D)` in balls, which hold the
true value whatever the bits that are not yet drawn (python-flint's ``arb``, which rounds outwards).
Where a ball lies within one cell of the grid, that cell is :math:`M(D)`'s. Where it does not, more
bits are drawn and more digits computed: the balls shrink by a factor of :math:`2^{64}` or more, and
the noise has a density, so it ends with probability 1; after the last one of `BITS` the chance that
it has not is below :math:`2^{-1000}`, and it is an error. ∎

Haney, Desfontaines, Hartman, Shrestha and Hay (2022, "Precision-based attacks and interval
refining") do so for one number plus noise; here it is done for vectors, estimates and minimisers.
Steps on one record alone, such as clipping or :func:`on_grid`, may be any function with a range
that is exactly as promised: neighbours stay neighbours.

Assumed are uniform random bits; how long a release takes is not hidden
(:doc:`/book/privacy/limits`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from threading import RLock

import numpy as np
from flint import arb, arb_mat, ctx
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.validation import check_size

Array = NDArray[np.float64]
BITS = (96, 192, 384, 768, 1536)  # of uniform numbers and all that is computed, until they decide
GRID = 2**30  # steps of a record from 0 to its bound
MARGIN = 2.0**-44  # by which noise is larger than asked, for public numbers that floats rounded
_LIMB = 18  # binary digits of a limb
_ADDED = 2**17  # rows whose products of limbs floats add up without rounding
MOST = 2**53  # steps: floats hold every whole number up to here
ALONE = RLock()  # the precision of flint is one for all threads
# a process is forked between two releases, not within one
os.register_at_fork(
    before=ALONE.acquire, after_in_parent=ALONE.release, after_in_child=ALONE.release
)


def on_grid(values: ArrayLike, bound: float, *, ball: bool = False) -> NDArray[np.int64]:
    """Round records to steps of ``bound / GRID``, towards 0, exactly within the bound.

    They have the shape (n, d) or (n,). Entries are at most `bound` in size, or with `ball` the
    Euclidean norms of rows, but for what floats have rounded.
    """
    steps = np.trunc(np.asarray(values) / bound * GRID).astype(np.int64)
    if not ball:
        return np.clip(steps, -GRID, GRID)
    while True:
        too_long = (steps * steps).sum(axis=1) > GRID**2  # by a rounding
        if not too_long.any():
            return steps
        steps[too_long] -= np.sign(steps[too_long])


def balls(values: ArrayLike) -> arb_mat:
    """Return numbers of shape (n, d) as balls of radius 0; exact for whole numbers and floats."""
    return arb_mat(np.asarray(values).tolist())


def weighted_products(
    weights: Array, left: NDArray[np.int64], right: NDArray[np.int64]
) -> tuple[arb_mat, float]:
    r"""Compute :math:`\sum_iw_ia_ib_i^\top` of integer rows, exactly, and the unit of the sums.

    The rows have the shapes (n, d) and (n, e). Weights are cut, downwards, to 53 binary digits of
    the largest; rows are below ``2**31`` in size. All is split into limbs of 18 digits, whose
    products floats add up without rounding.
    """
    unit = 2.0 ** (math.frexp(np.abs(weights).max())[1] - 53)
    whole = np.floor(weights / unit).astype(np.int64)
    total = np.zeros((left.shape[1], right.shape[1]), dtype=object)
    for start in range(0, len(whole), _ADDED):
        rows = slice(start, start + _ADDED)
        second = _limbs(right[rows])
        for i, weight in enumerate(_limbs(whole[rows])):
            for j, a in enumerate(_limbs(weight.astype(np.int64)[:, None] * left[rows])):
                for k, b in enumerate(second):
                    total += (a.T @ b).astype(np.int64).astype(object) << _LIMB * (i + j + k)
    return arb_mat(total.tolist()), unit


def inner_products(weights: Array, values: Array) -> list[arb]:
    """Sum the columns of `values`, (n, m), with weights, exactly but for the precision set.

    Both are floats of any size. Each product is one of two whole numbers and a power of two; those
    of one power are added up in limbs, as in :func:`weighted_products`.
    """
    sums_of_columns = []
    left, left_power = _whole(weights)
    for column in values.T:
        right, right_power = _whole(column)
        power = left_power + right_power
        least = int(power.min())
        total = 0
        for start in range(0, len(power), _ADDED):
            rows = slice(start, start + _ADDED)
            place = power[rows] - least
            second = _limbs(right[rows])
            for i, a in enumerate(_limbs(left[rows])):
                for j, b in enumerate(second):
                    sums = np.bincount(place, a * b)
                    for k in np.flatnonzero(sums).tolist():
                        total += int(sums[k]) << _LIMB * (i + j) + k
        sums_of_columns.append(arb(total) * arb(2) ** least)
    return sums_of_columns


def _whole(values: Array) -> tuple[NDArray[np.int64], NDArray[np.intc]]:
    """Split floats into whole numbers of at most 53 digits, and powers of two that they are times.

    The second array holds the exponents.
    """
    fraction, power = np.frexp(values)
    return (fraction * 2.0**53).astype(np.int64), power - 53


def _limbs(whole: NDArray[np.int64]) -> list[Array]:
    """Split whole numbers into digits to the base ``2**18``, lowest first, the sign in the last."""
    limbs = []
    size = int(np.abs(whole).max(initial=0)).bit_length()
    for _ in range(size // _LIMB):
        limbs.append((whole & (2**_LIMB - 1)).astype(float))
        whole = whole >> _LIMB
    limbs.append(whole.astype(float))
    return limbs


class Uniforms:
    """Uniform numbers in (0, 1), of which more bits are drawn when they are asked for."""

    def __init__(self, count: int, rng: np.random.Generator) -> None:
        self.rng = rng
        self.bits = 0
        self.digits = [0] * count

    def enclosed(self, bits: int) -> list[arb]:
        """Return balls that hold the numbers, of radius at most ``2**(1 - bits)``."""
        size = math.ceil(max(bits - self.bits, 0) / 8)  # bytes to draw for each
        drawn = self.rng.bytes(size * len(self.digits))
        for k, digits in enumerate(self.digits):
            more = int.from_bytes(drawn[k * size : (k + 1) * size], "big")
            self.digits[k] = (digits << 8 * size) | more
        self.bits += 8 * size
        unit = arb(2) ** (-self.bits - 1)
        return [arb(2 * digits + 1, 1) * unit for digits in self.digits]


def spherical_uniforms(dimension: int) -> int:
    """Return how many uniform numbers :func:`spherical` takes."""
    if dimension == 1:
        return 2
    return dimension + normal_uniforms(dimension)


def normal_uniforms(dimension: int) -> int:
    """Return how many uniform numbers :func:`normals` takes: two for two."""
    return 2 * math.ceil(dimension / 2)


def normals(uniforms: Sequence[arb], dimension: int) -> list[arb]:
    """Return independent standard normal numbers, two from two uniform ones (Box and Muller)."""
    normal: list[arb] = []
    for first, second in zip(uniforms[::2], uniforms[1::2], strict=True):
        length = (-2 * first.log()).sqrt()
        sine, cosine = (2 * second).sin_cos_pi()
        normal += [length * sine, length * cosine]
    return normal[:dimension]


def spherical(uniforms: Sequence[arb], dimension: int, rate: float) -> list[arb]:
    r"""Make spherical Laplace noise: density proportional to :math:`e^{-r\lVert z\rVert}`.

    `r` is the rate. The radius is a sum of exponential variables, the direction that of normal
    ones; in one dimension the sign is a uniform number below a half.
    """
    radius = -sum((u.log() for u in uniforms[:dimension]), arb(0)) / arb(rate)
    if dimension == 1:
        return [radius * (1 - 2 * (2 * uniforms[1]).floor())]
    direction = normals(uniforms[dimension:], dimension)
    size = sum((z * z for z in direction), arb(0)).sqrt()
    return [radius * z / size for z in direction]


def released(
    enclose: Callable[[list[arb]], list[arb]],
    dimension: int,
    count: int,
    step: float,
    *,
    rng: np.random.Generator,
    size: int | tuple[int, ...] = (),
) -> Array:
    r"""Release vectors, shape (\*size, dimension), multiples of a step, a power of two.

    They are cut at :math:`\pm2^{53}` steps.

    Parameters
    ----------
    enclose : callable
        From enclosures of `count` uniform numbers to those of the `dimension` coordinates of the
        ideal release. It is called with the precision of flint set, and again with a higher one
        where the result does not decide.
    """
    shape = check_size(size)
    with ALONE:
        before = ctx.prec
        try:
            points = []
            for _ in range(math.prod(shape)):
                points.append(_decided(enclose, Uniforms(count, rng), step))
        finally:
            ctx.prec = before
    whole = np.clip(np.array(points, dtype=object), -MOST, MOST).astype(float)
    return step * whole.reshape(*shape, dimension)


def with_noise(
    exactly: Callable[[int], list[arb]],
    dimension: int,
    noise_rate: float,
    step: float,
    *,
    rng: np.random.Generator,
    size: int | tuple[int, ...] = (),
) -> Array:
    r"""Release a vector plus spherical Laplace noise, as :func:`released`.

    Parameters
    ----------
    exactly : callable
        From a precision in bits, which is that of flint, to enclosures of the coordinates.
    """
    known = cache(exactly)

    def enclose(uniforms: list[arb]) -> list[arb]:
        noise = spherical(uniforms, dimension, noise_rate * (1 - MARGIN))
        return [x + z for x, z in zip(known(ctx.prec), noise, strict=True)]

    return released(enclose, dimension, spherical_uniforms(dimension), step, rng=rng, size=size)


def grid_points(values: list[arb], step: float) -> list[int] | None:
    """Round balls to the grid, in steps, or return None if a ball lies in several cells."""
    points = []
    for value in values:
        point = (value / step + arb(0.5)).floor().unique_fmpz()
        if point is None:
            return None
        points.append(int(point))
    return points


def _decided(
    enclose: Callable[[list[arb]], list[arb]], uniforms: Uniforms, step: float
) -> list[int]:
    """Draw bits of the uniform numbers until they decide the grid point of each coordinate."""
    for bits in BITS:
        ctx.prec = bits
        with suppress(ZeroDivisionError):  # of a matrix that is singular at this precision
            points = grid_points(enclose(uniforms.enclosed(bits)), step)
            if points is not None:
                return points
    raise ArithmeticError("the release was not decided; the chance of that is below 2**-1000")
