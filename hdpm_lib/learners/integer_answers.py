r"""Gradients in exact arithmetic: what is computed from data, and what is added to it, are
integers.

The guarantees of :mod:`~hdpm_lib.learners.gradients` hold for real numbers, these here for the
program (:doc:`/book/privacy/arithmetic`). Gradients are put on a public grid, and noise is that of
:mod:`~hdpm_lib.discrete`. Where a number has to be rounded it is rounded towards less privacy loss.
A float appears only after the release, as a multiple of a public spacing. So several owners can add
up what nobody holds in one place.

Public: all arguments but the data. To move a datum onto the grid loses no privacy, as it depends on
nobody else's data: neighbours stay neighbours. The promise rests on uniform random integers, and on
nobody seeing how long a release took (:doc:`/book/privacy/limits`).

`clip_norm` is `L`, positive, and `spacing` is `g`, a power of two from :math:`L/2^{40}` to `L`.
Privacy losses are floats or Fractions, one for each of `n` owners. Neighbours: the *whole* data of
an owner replaced; her clipped gradient has at most :math:`M=\lfloor L/g\rfloor` steps. Only in
:func:`record_steps` it is one *record*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Rational

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.accounts import charge
from hdpm_lib.discrete import LARGEST, discrete_laplace
from hdpm_lib.learners.gradients import check_labels, clipped, residuals
from hdpm_lib.private import private_doubles
from hdpm_lib.validation import (
    check_count,
    check_epsilon,
    check_finite,
    check_generator,
    check_number,
    check_positive,
    check_size,
)

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
MOST = 2**52  # of an answer before noise, and of 32 scales of the noise, in steps


def power_of_two(value: float, name: str) -> Fraction:
    """A power of two, whose multiples are floats, as a fraction; or an error that names `name` and
    the value.
    """
    if not 2.0**-500 <= check_positive(value, name) <= 2.0**500 or math.frexp(value)[0] != 0.5:
        raise ValueError(f"{name} must be a power of two, got {value}")
    return Fraction(value)


def _scale_above(value: Fraction) -> Fraction:
    """`value`, or if its numbers are too large a rational above it: from 1 on, by at most a part in
    2**58.
    """
    if max(value.numerator, value.denominator) <= LARGEST:
        return value
    power = 2 ** max(0, 60 - math.floor(value).bit_length())
    return Fraction(-(-value.numerator * power // value.denominator), power)


def cut(noisy: Integers) -> Integers:
    r"""Answers with noise, cut at :math:`\\pm2^{53}` so that they are floats without rounding:
    post-processing.

    To refuse large *noise* instead would tell how far the answer is from the largest number ever
    released.
    """
    return np.clip(noisy, -2 * MOST, 2 * MOST)


def grid_gradients(gradients: ArrayLike, clip_norm: float, spacing: float) -> Integers:
    """Clipped gradients of shape (..., classes, features) in steps: integers of L1 norm `M` at
    most.

    Clipped as in :func:`~hdpm_lib.learners.gradients.clipped` and cut towards zero; the zero vector
    takes the place of what is still too long.

    Examples
    --------
    >>> grid_gradients([[3.0, -1.1]], 1.0, 2.0**-4)
    array([[11, -4]])
    """
    most = _longest(clip_norm, spacing)
    steps = np.trunc(clipped(private_doubles(gradients, "gradients"), clip_norm) / spacing).astype(
        np.int64
    )
    return steps * (np.abs(steps).sum(axis=(-2, -1), keepdims=True) <= most)


def record_steps(
    parameters: ArrayLike,
    features: ArrayLike,
    labels: ArrayLike,
    clip_norm: float,
    spacing: float,
    *,
    norm: int = 2,
) -> Integers:
    r"""The sum of all records' clipped gradients in steps, shape (classes, features): each record
    is protected.

    Arguments are as in :mod:`~hdpm_lib.learners.gradients`, `parameters` of shape (classes,
    features). The gradient of each record is shortened to `clip_norm` in the L1 or the L2 norm, as
    `norm` says, and cut towards zero on the grid; one that is not finite, or still too long, counts
    as zero. It is private: add noise before it leaves.

    Notes
    -----
    A record in the place of another moves the sum by at most :math:`2L/g` steps in that norm. With
    Laplace noise of scale `b` and the L1 norm the loss of a record is :math:`2M/b`, with noise of
    standard deviation `s` and the L2 norm it is that of
    :func:`~hdpm_lib.gaussian.discrete_gaussian_mu`. The number of records is public.

    Examples
    --------
    >>> x, y = np.array([[3.0, 1.0], [0.0, 1.0]]), np.array([0, 1])
    >>> record_steps(np.zeros((2, 2)), x, y, 1.0, 2.0**-4, norm=1)
    array([[-6,  6],
           [ 6, -6]])
    """
    most = _longest(clip_norm, spacing)
    w = check_finite(parameters, "parameters", 2)
    if check_count(norm, "norm", 1, 2) == 2 and most > 2**30:
        raise ValueError(
            f"spacing must be at least clip_norm / 2**30 for the L2 norm, got {spacing}"
        )
    x = private_doubles(features, "features", 2)
    if x.shape[1] != w.shape[1]:
        raise ValueError(
            f"features must have {w.shape[1]} columns, as parameters have, got {x.shape[1]}"
        )
    y = check_labels(labels, x, len(w))
    total = np.zeros(w.shape, dtype=np.int64)
    if most * len(x) > MOST:
        raise ValueError(
            f"spacing = {spacing} is too small for {len(x)} records: their sum would not be a float"
        )
    limit = most if norm == 1 else math.floor((Fraction(float(clip_norm)) / Fraction(spacing)) ** 2)
    chunk = max(1, 2**20 // w.size)
    for start in range(0, len(x), chunk):
        rows = x[start : start + chunk]
        with np.errstate(over="ignore", invalid="ignore"):
            gradient = (
                residuals(w[None], rows, y[start : start + chunk])[0].T[:, :, None]
                * rows[:, None, :]
            )
            length = np.linalg.norm(gradient.reshape(len(rows), -1), norm, axis=1)
            gradient *= (clip_norm / np.maximum(length, clip_norm))[:, None, None]
        gradient[~np.isfinite(length)] = 0
        steps = np.trunc(gradient / spacing).astype(np.int64)
        long = (np.abs(steps) ** norm).sum(axis=(1, 2)) > limit
        total += steps[~long].sum(axis=0)
    return total


def _longest(clip_norm: float, spacing: float) -> int:
    """Largest L1 norm of a clipped gradient in steps."""
    most = math.floor(
        Fraction(check_positive(clip_norm, "clip_norm")) / power_of_two(spacing, "spacing")
    )
    if not 1 <= most <= 2**40:
        raise ValueError(
            f"spacing must lie between clip_norm / 2**40 and clip_norm = {clip_norm}, got {spacing}"
        )
    return most


def gradient_noise(
    epsilon: Sequence[float | Rational] | Array,
    shape: tuple[int, ...],
    clip_norm: float,
    spacing: float,
    *,
    rng: np.random.Generator,
) -> Integers:
    r"""Noise in steps for gradients of that shape, one for each owner, shape (n, \*shape); 0 where
    `epsilon` is 0.

    Independent on all coordinates, of the scale :math:`2M/\varepsilon_i`
    (:doc:`/book/privacy/limits`).
    """
    losses = _losses(epsilon)
    check_generator(rng)
    return _noise(losses, check_size(shape), clip_norm, spacing, rng)


def _losses(epsilon: Sequence[float | Rational] | Array) -> list[Fraction]:
    """Privacy losses as exact numbers, or an error that names the argument."""
    given = np.asarray(epsilon, dtype=object)
    if np.ma.isMaskedArray(epsilon) or given.ndim != 1 or not given.size:
        raise ValueError(
            f"epsilon must be a sequence of numbers, one for each owner, got {epsilon!r}"
        )
    for eps in given:
        check_number(eps, "epsilon", 0)
    return [Fraction(eps) if isinstance(eps, Rational) else Fraction(float(eps)) for eps in given]


def _noise(
    losses: list[Fraction],
    shape: tuple[int, ...],
    clip_norm: float,
    spacing: float,
    rng: np.random.Generator,
) -> Integers:
    noise = np.zeros((len(losses), *shape), dtype=np.int64)
    most = _longest(clip_norm, spacing)
    for row, loss in zip(noise, losses, strict=True):
        if loss > 0:
            scale = _scale_above(2 * most / loss)
            if 32 * scale > MOST:
                small = f"spacing = {spacing} is too small for a privacy loss of {float(loss):g}"
                raise ValueError(f"{small}: noise of {scale}")
            row[...] = discrete_laplace(scale, rng=rng, size=shape)
    return noise


def integer_gradients(
    gradients: ArrayLike,
    epsilon: Sequence[float | Rational] | Array,
    clip_norm: float,
    *,
    spacing: float,
    rng: np.random.Generator,
) -> Array:
    r"""Gradients that may leave their owners: clipped, on a grid, with discrete Laplace noise on
    each coordinate.

    Gradients, of shape (n, classes, features), can have any values: one that is not finite counts
    as zero. What is sent has the same shape, in multiples of `spacing`. Privacy losses are
    positive.

    Notes
    -----
    Whatever the data, two vectors of :func:`grid_gradients` are at most :math:`2M` apart in the L1
    norm. So with noise of the scale :math:`2M/\varepsilon_i` the loss is at most
    :math:`\varepsilon_i`, in `T` rounds :math:`T\varepsilon_i`; :doc:`/book/privacy/arithmetic`
    says when it is less. Errors in the gradients do not matter. What is still assumed:
    :doc:`/book/privacy/limits`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> integer_gradients(np.ones((2, 1, 3)), [0.5, 1.0], 1.0, spacing=2.0**-10, rng=rng).shape
    (2, 1, 3)
    """
    array = private_doubles(gradients, "gradients", 3)
    losses = _losses(epsilon)
    check_epsilon([float(loss) for loss in losses], len(array))
    steps = grid_gradients(array, clip_norm, spacing)
    charge(losses, rng)
    return spacing * cut(steps + _noise(losses, steps.shape[1:], clip_norm, spacing, rng)).astype(
        float
    )
