r"""Which floating-point numbers an answer with noise can be, and what that tells about the data.

A release is ``centre + noise`` in double precision. Not every double is such a sum: each centre has
holes of its own, and an output in a hole proves that the centre was another
(:doc:`/book/privacy/arithmetic`). :func:`~hdpm_book.privacy.digits.on_grid` finds the holes of
every sampler that adds a double to a double; :func:`~hdpm_book.privacy.digits.could_be` finds all
holes of NumPy's Laplace sampler, from a model of it.

Throughout, `outputs` of any shape are finite, and `loc` and `scale` are centre and scale of the
noise.
"""

from __future__ import annotations

import copy
import math

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from hdpm_lib.validation import check_finite, check_generator, check_number, check_positive

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

WIDEST = 2**20  # most neighbours tried for one output
BLOCK = 16  # neighbours tried at once


def _log(x: Array) -> Array:
    """Return logarithms by the C library, as the generator takes them; `numpy.log` has its own and
    rounds differently.
    """
    return np.array([math.log(value) for value in x.ravel().tolist()]).reshape(x.shape)


def numpy_laplace(uniform: ArrayLike, loc: float, scale: float) -> Array:
    r"""Return what ``Generator.laplace`` makes of uniform numbers, multiples of :math:`2^{-53}` in
    (0, 1).

    It takes the logarithm of :math:`j2^{-53}`. For a uniform number below 1/2, `j` is even. Above,
    it computes ``(2 - U) - U``, and rounding leaves only the residues 0, 1, 4 and 7 modulo 8 for
    `j`.

    Examples
    --------
    >>> numpy_laplace([0.25, 0.5, 0.75], 10.0, 2.0).round(3).tolist()
    [8.614, 10.0, 11.386]
    """
    u = check_finite(uniform, "uniform", low=0, high=1, ends="()")
    centre = check_number(loc, "loc")
    s = check_positive(scale, "scale")
    upper = u >= 0.5
    noise = s * _log(np.where(upper, (2.0 - u) - u, u + u))
    return np.where(upper, centre - noise, centre + noise)


def model_holds(loc: float, scale: float, *, rng: np.random.Generator) -> bool:
    """Tell whether 20,000 fresh draws of ``rng.laplace`` equal
    :func:`~hdpm_book.privacy.digits.numpy_laplace` bit for bit.

    They do with the C library's logarithm and without fused multiplication. Elsewhere the model
    says nothing.
    """
    check_generator(rng)
    expected = numpy_laplace(copy.deepcopy(rng).random(20_000), loc, scale)
    return bool(np.array_equal(rng.laplace(loc, scale, 20_000), expected))


def could_be(outputs: ArrayLike, loc: float, scale: float) -> Flags:
    r"""Tell which numbers ``Generator.laplace(loc, scale)`` can return at all, if
    :func:`model_holds`.

    All uniform numbers are tried that rounding can bring to an output, with some to spare: given
    the model, "no" is a proof. It is an error if the scale is so small beside the outputs that they
    cannot be told apart.

    Examples
    --------
    >>> outputs = np.random.default_rng(0).laplace(0.0, 10.0, 1000)
    >>> possible = could_be(outputs, 1.0, 10.0)  # only about a fifth are
    """
    o = check_finite(outputs, "outputs")
    centre = check_number(loc, "loc")
    s = check_positive(scale, "scale")
    flat = o.ravel()
    distance = np.abs(flat - centre) / s
    slack = np.spacing(np.abs(flat)) / s + distance * 2.0**-50 + 2.0**-50
    low, middle, high = (
        np.rint(np.ldexp(np.exp(-np.maximum(t, 0)), 53)).astype(np.int64)
        for t in (distance + slack, distance, distance - slack)
    )
    width = np.maximum(high - middle, middle - low) + 2
    if (width > WIDEST).any():
        raise ValueError(
            f"scale is too small beside outputs such as {flat[np.argmax(width)]}, got {scale}"
        )
    found = np.zeros(flat.shape, dtype=bool)
    open_ = np.arange(flat.size)
    for start in range(0, width.max(initial=0) + 1, BLOCK):
        steps = np.r_[start : start + BLOCK, -start : -start - BLOCK : -1]
        open_ = open_[~found[open_] & (width[open_] >= start)]
        if not open_.size:
            break
        j = middle[open_, None] + steps
        near = (np.abs(steps) <= width[open_, None]) & (j >= 1) & (j <= 2**53)
        value = flat[open_, None]
        for sign, residues in ((1.0, j % 2 == 0), (-1.0, np.isin(j % 8, (0, 1, 4, 7)))):
            row, column = np.nonzero(near & residues & (sign * (centre - value) >= 0))
            made = centre + sign * (s * _log(np.ldexp(j[row, column], -53)))
            found[open_[row[made == value[row, 0]]]] = True
    return found.reshape(o.shape)


def on_grid(outputs: ArrayLike, centre: ArrayLike, noise: DTypeLike = np.float64) -> Flags:
    r"""Tell which doubles are the centre plus some floating-point number of the type `noise`,
    rounded once.

    It needs no model of the sampler. `outputs` and `centre` broadcast; for vectors one "no" in any
    coordinate is a proof that the centre was another. Noise that was a ``numpy.float32`` leaves far
    fewer possibilities. Only the number nearest to the difference and its two neighbours are tried:
    what any number reaches, one of these does.

    Examples
    --------
    >>> on_grid([1 - 0.9, 0.1], 1.0).tolist()   # 0.1 has digits that no sum with 1 leaves
    [True, False]
    """
    o, c = _check_broadcast(outputs, centre)
    ends = (np.asarray(end, dtype=noise) for end in (np.inf, -np.inf))
    with np.errstate(over="ignore"):  # beyond the largest number lies no answer
        nearest = (o - c).astype(noise)
        up, down = (np.nextafter(nearest, end) for end in ends)
    return np.asarray((c + nearest == o) | (c + up == o) | (c + down == o))


def _check_broadcast(outputs: ArrayLike, centre: ArrayLike) -> tuple[Array, Array]:
    """Return the two as arrays, or an error if they do not broadcast."""
    o = check_finite(outputs, "outputs")
    c = check_finite(centre, "centre")
    try:
        np.broadcast_shapes(o.shape, c.shape)
    except ValueError:
        raise ValueError(
            f"outputs and centre must broadcast, got shapes {o.shape} and {c.shape}"
        ) from None
    return o, c
