r"""Gradients in exact arithmetic: integers are computed from data, and integers added.

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
import reprlib
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.accounts import charge
from hdpm_lib.discrete import LARGEST, draw_laplace
from hdpm_lib.learners.gradients import check_labels, check_tables, residuals, shortened
from hdpm_lib.private import private_doubles
from hdpm_lib.validation import (
    check_count,
    check_epsilon,
    check_finite,
    check_generator,
    check_positive,
)

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
MOST = 2**52  # of an answer before noise, and of 32 scales of the noise, in steps


def longest_gradient(clip_norm: float, spacing: float) -> int:
    """Return the largest L1 norm of a clipped gradient in steps, `M`, and check the arguments."""
    bound = check_positive(clip_norm, "clip_norm")
    step = check_positive(spacing, "spacing")
    if not 2.0**-500 <= step <= 2.0**500 or math.frexp(step)[0] != 0.5:
        raise ValueError(f"spacing must be a power of two, got {spacing}")
    most = math.floor(Fraction(bound) / Fraction(step))
    if not 1 <= most <= 2**40:
        raise ValueError(
            f"spacing must lie between clip_norm / 2**40 and clip_norm = {clip_norm}, got {spacing}"
        )
    return most


def cut(noisy: Integers) -> Integers:
    r"""Cut noisy answers at :math:`\pm2^{53}`, so that they are floats: post-processing.

    To refuse large *noise* instead would tell how far the answer is from the largest number ever
    released.
    """
    return np.clip(noisy, -2 * MOST, 2 * MOST)


# --- gradients of owners ------------------------------------------------------------------------


@np.errstate(under="ignore")
def grid_gradients(gradients: ArrayLike, clip_norm: float, spacing: float) -> Integers:
    """Clip gradients, shape (..., classes, features), to steps: of L1 norm `M` at most.

    They are clipped as in :func:`~hdpm_lib.learners.gradients.clipped` and cut towards zero; the
    zero vector takes the place of what is still too long.

    Examples
    --------
    >>> grid_gradients([[3.0, -1.1]], 1.0, 2.0**-4)
    array([[11, -4]])
    """
    most = longest_gradient(clip_norm, spacing)
    tables = check_tables(private_doubles(gradients, "gradients"))
    return whole_steps(tables, float(clip_norm), float(spacing), most)


def whole_steps(gradients: Array, clip_norm: float, spacing: float, most: int) -> Integers:
    """Compute :func:`grid_gradients` of what was checked, with `most` for `M`."""
    steps = np.trunc(shortened(gradients, clip_norm) / spacing).astype(np.int64)
    norms = np.abs(steps).sum(axis=(-2, -1), keepdims=True)
    return steps * (norms <= most)


def noise_scales(losses: Sequence[Fraction], most: int, spacing: float) -> Integers:
    r"""Return scales :math:`2M/\varepsilon_i` of noise in steps, never too small, as fractions.

    They are numerators and denominators, shape (2, n); 0 where the privacy loss is 0. An error says
    if the spacing is too small for them.
    """
    scales = []
    for loss in losses:
        scales.append(_scale_above(2 * most / loss) if loss else Fraction(0))
    if 32 * max(scales) > MOST:
        least = min(loss for loss in losses if loss)
        raise ValueError(
            f"spacing = {spacing} is too small for a privacy loss of {float(least):g}: noise of"
            f" {max(scales)}"
        )
    numerators = [scale.numerator for scale in scales]
    denominators = [scale.denominator for scale in scales]
    return np.array([numerators, denominators])


def _scale_above(value: Fraction) -> Fraction:
    """Return `value`, or a rational above it if it has many digits.

    Digits are many if the numerator or the denominator exceeds what the sampler takes. From 1 on
    the rational is above `value` by at most a part in 2**58.
    """
    if max(value.numerator, value.denominator) <= LARGEST:
        return value
    power = 2 ** max(0, 60 - math.floor(value).bit_length())
    return Fraction(math.ceil(value * power), power)


def gradient_noise(scales: Integers, shape: tuple[int, ...], rng: np.random.Generator) -> Integers:
    r"""Draw noise in steps for a gradient of that shape of each owner, shape (n, \*shape).

    It is independent on all coordinates, of the :func:`noise_scales`; 0 where they are 0.
    """
    sold = scales[0] > 0
    noise = np.zeros((len(sold), *shape), dtype=np.int64)
    t, s = np.repeat(scales[:, sold], math.prod(shape), axis=1)
    noise[sold] = draw_laplace(t, s, len(t), rng).reshape(-1, *shape)
    return noise


@np.errstate(under="ignore")
def integer_gradients(
    gradients: ArrayLike,
    epsilon: Sequence[float | Rational] | Array,
    clip_norm: float,
    *,
    spacing: float,
    rng: np.random.Generator,
) -> Array:
    r"""Release gradients that may leave their owners: clipped, on a grid, with discrete noise.

    Parameters
    ----------
    gradients : array of shape (n, classes, features)
        The gradient of each owner, private. Any values: one that is not finite counts as zero.
    epsilon : sequence of n float, int or Fraction
        Privacy losses :math:`\varepsilon_i`, positive.
    clip_norm : float
        Largest L1 norm `L` of a gradient, positive; longer ones are shortened to it.
    spacing : float
        Step `g` of the grid, a power of two from :math:`L/2^{40}` to `L`, in units of the
        gradients. Small enough is :math:`L/2^{20}`.
    rng : numpy.random.Generator
        Source of uniform integers.

    Returns
    -------
    array of shape (n, classes, features)
        The message: multiples of `spacing`, each clipped gradient with discrete Laplace noise of
        its own on each coordinate. May be published.

    Notes
    -----
    Whatever the data, two vectors of :func:`grid_gradients` are at most :math:`2M` apart in the L1
    norm, :math:`M=\lfloor L/g\rfloor`. So with noise of the scale :math:`2M/\varepsilon_i` the loss
    is at most :math:`\varepsilon_i`, in `T` rounds :math:`T\varepsilon_i`;
    :doc:`/book/privacy/arithmetic` says when it is less. Neighbours: all data of an owner replaced.
    Errors in the gradients do not matter. What is still assumed: :doc:`/book/privacy/limits`.

    References
    ----------
    Zheng, Cao, Yoshikawa, Li and Yan (2021), "FL-Market: Trading Private Models in Federated
    Learning", arXiv:2106.04384: the release, in real numbers (Algorithm 1, line 6).

    Canonne, Kamath and Steinke (2020), "The Discrete Gaussian for Differential Privacy", NeurIPS.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> integer_gradients(np.ones((2, 1, 3)), [0.5, 1.0], 1.0, spacing=2.0**-10, rng=rng).shape
    (2, 1, 3)
    """
    tables = private_doubles(gradients, "gradients", 3)
    losses = _losses(epsilon, len(tables))
    most = longest_gradient(clip_norm, spacing)
    scales = noise_scales(losses, most, spacing)
    charge(losses, check_generator(rng))
    steps = whole_steps(tables, float(clip_norm), float(spacing), most)
    noisy = steps + gradient_noise(scales, steps.shape[1:], rng)
    return float(spacing) * cut(noisy).astype(float)


def _losses(epsilon: Sequence[float | Rational] | Array, n: int) -> list[Fraction]:
    """Return privacy losses of `n` owners as exact numbers."""
    given = np.asarray(epsilon, dtype=object)
    kinds = Real | Decimal
    numbers = [isinstance(loss, kinds) and not isinstance(loss, bool) for loss in given.flat]
    if np.ma.isMaskedArray(epsilon) or given.ndim != 1 or not numbers or not all(numbers):
        raise TypeError(f"epsilon must hold one number for each owner, got {reprlib.repr(epsilon)}")
    check_positive(max(given), "epsilon")  # whether a float holds the largest of them
    check_epsilon(given, n)
    losses = []
    for loss in given:
        # of NumPy's numbers the whole ones are no floats, and the others not all
        exact = loss.item() if isinstance(loss, np.generic) else loss
        losses.append(Fraction(exact))
    return losses


# --- sums over records --------------------------------------------------------------------------


@np.errstate(under="ignore")
def record_steps(
    parameters: ArrayLike,
    features: ArrayLike,
    labels: ArrayLike,
    clip_norm: float,
    spacing: float,
    *,
    norm: int = 2,
) -> Integers:
    r"""Sum all records' clipped gradients in steps: each record is protected.

    Arguments are as in :mod:`~hdpm_lib.learners.gradients`, `parameters` of shape (classes,
    features), as the sum has. The gradient of each record is shortened to `clip_norm` in the L1 or
    the L2 norm, as `norm` says, and cut towards zero on the grid; one that is not finite, or still
    too long, counts as zero. It is private: add noise before it leaves.

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
    most = longest_gradient(clip_norm, spacing)
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
    if most * len(x) > MOST:
        raise ValueError(
            f"spacing = {spacing} is too small for {len(x)} records: their sum would not be a float"
        )
    exact = Fraction(float(clip_norm)) / Fraction(float(spacing))
    total = np.zeros(w.shape, dtype=np.int64)
    chunk = max(1, 2**20 // w.size)
    for start in range(0, len(x), chunk):
        rows = slice(start, start + chunk)
        steps = _clipped_steps(w, x[rows], y[rows], float(clip_norm), float(spacing), norm)
        long = (np.abs(steps) ** norm).sum(axis=(1, 2)) > math.floor(exact**norm)
        total += steps[~long].sum(axis=0)
    return total


def _clipped_steps(
    w: Array, x: Array, y: Integers, clip_norm: float, spacing: float, norm: int
) -> Integers:
    """Clip the gradients of some records to steps, shape (records, classes, features)."""
    with np.errstate(over="ignore", invalid="ignore"):
        gradient = residuals(w[None], x, y)[0].T[:, :, None] * x[:, None, :]
        length = np.linalg.norm(gradient.reshape(len(x), -1), norm, axis=1)
        gradient *= (clip_norm / np.maximum(length, clip_norm))[:, None, None]
    gradient[~np.isfinite(length)] = 0
    return np.trunc(gradient / spacing).astype(np.int64)
