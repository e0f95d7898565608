r"""Noise on integers, drawn exactly: no floating-point number decides what comes out.

Noise in floating-point numbers leaves gaps that show which data it was added to. The samplers here
return integers, and the probability of each is exactly the one stated, given uniform random
integers: those of a NumPy generator are uniform by rejection, as long as its bits are. PCG64,
NumPy's usual source of bits, is not cryptographic, so for a real release the generator needs
another one; and how long a draw takes depends on what is drawn (:doc:`/book/privacy/limits`).

Scales and rates are positive rationals, a Fraction or an int, for steps of 1: a float would be
rounded before it arrives here, and one should know in which direction. `size` is the shape of a
batch; ``()`` gives one draw. Draws are of 64 bits, and cut at :math:`\pm2^{62}`. An answer plus
noise, cut at a public bound, is then what uncut noise would have given, as long as the bound and
the largest answer are at most :math:`2^{62}` together.

What this noise costs in privacy is proved in :doc:`/book/privacy/arithmetic`: the loss is the
distance of two answers in the L1 norm over the scale, *equal* to it in the worst case. It serves
where several parties add up whole numbers; a trusted buyer's releases are those of
:mod:`hdpm_lib.exact`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Rational
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpm_lib.validation import check_generator, check_rational, check_size

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
LARGEST = 2**62  # numerator and denominator of a scale, and what a draw is cut at


def discrete_laplace(
    scale: Rational | int, *, rng: np.random.Generator, size: int | tuple[int, ...] = ()
) -> Integers:
    r"""Draw integers from the probabilities proportional to :math:`e^{-|k|/\text{scale}}`, exactly.

    Parameters
    ----------
    scale : Fraction or int
        Scale of the noise, in steps of 1; positive. Its numerator and denominator are at most
        :math:`2^{62}`.
    rng : numpy.random.Generator
        Source of uniform integers.
    size : int or tuple of int, default ()
        Shape of a batch; ``()`` gives one draw.

    Returns
    -------
    array of int64, shape (\*size,)
        Independent draws, cut at :math:`\pm2^{62}`.

    Notes
    -----
    Algorithm 2 of Canonne, Kamath and Steinke: a magnitude from a uniform and a geometric variable
    gets a random sign. "Minus 0" is drawn anew, or 0 would count twice. Added to an answer that a
    neighbour moves by at most `D` steps, the noise costs a privacy loss of `D` over the scale.

    References
    ----------
    Canonne, Kamath and Steinke (2020), "The Discrete Gaussian for Differential Privacy", NeurIPS.

    Examples
    --------
    >>> from fractions import Fraction
    >>> discrete_laplace(Fraction(7, 2), rng=np.random.default_rng(0), size=6).shape
    (6,)
    """
    value = check_rational(scale, "scale")
    if max(value.numerator, value.denominator) > LARGEST:
        raise ValueError(
            f"scale must have a numerator and a denominator of at most 2**62, got {value}"
        )
    shape = check_size(size)
    check_generator(rng)
    return draw_laplace(value.numerator, value.denominator, math.prod(shape), rng).reshape(shape)


def draw_laplace(
    t: int | Integers, s: int | Integers, count: int, rng: np.random.Generator
) -> Integers:
    """Draw as :func:`discrete_laplace` for the scale t/s, or for one scale each, unchecked.

    `t` and `s` are positive integers of at most ``2**62``, or arrays of `count` of them.
    """
    return np.clip(_uncut(t, s, count, rng), -LARGEST, LARGEST).astype(np.int64)


def _uncut(
    t: int | Integers, s: int | Integers, count: int, rng: np.random.Generator
) -> NDArray[Any]:
    """Draw at the scale t/s integers of 64 bits, or Python's if needed."""
    drawn: NDArray[Any] = np.zeros(count, dtype=np.int64)
    missing = np.arange(count)
    while missing.size:
        high = _at(t, missing)
        u = rng.integers(high, size=missing.size, dtype=np.int64)
        kept = _exp_coins(u, high, rng)  # of probability exp(-u/t)
        place = missing[kept]
        size = _magnitudes(u[kept], _at(t, place), _at(s, place), rng)
        sign = 1 - 2 * rng.integers(2, size=size.size, dtype=np.int64)
        new = (size > 0) | (sign > 0)  # no "minus 0"
        drawn = drawn.astype(np.promote_types(drawn.dtype, size.dtype), copy=False)
        drawn[place[new]] = (sign * size)[new]
        missing = np.concatenate([missing[~kept], place[~new]])  # anew
    return drawn


def _at(value: int | Integers, index: Integers) -> int | Integers:
    """Return the entries there, or the one number that holds for all."""
    if isinstance(value, np.ndarray):
        return value[index]
    return value


def _magnitudes(
    u: Integers, t: int | Integers, s: int | Integers, rng: np.random.Generator
) -> NDArray[Any]:
    """Draw the integers ``(u + t v) // s``, with a geometric variable `v` for each `u`."""
    v = np.zeros(len(u), dtype=np.int64)
    running = np.arange(len(u))
    while running.size:
        goes_on = _coins(running, lambda i: np.ones(i.size, dtype=bool), rng)  # probability 1/e
        running = running[goes_on]
        v[running] += 1
    if int(np.max(t, initial=1)) * (int(v.max(initial=0)) + 1) < 2**63:
        return np.asarray((u + t * v) // s)
    large = np.asarray((u.astype(object) + t * v.astype(object)) // s)
    if max(large) < 2**63:
        return large.astype(np.int64)
    return large


def _exp_coins(u: Integers, t: int | Integers, rng: np.random.Generator) -> Booleans:
    """Toss coins of probability exp(-u/t), for integers `u` from 0 to `t`."""

    def below(i: Integers) -> Booleans:
        return rng.integers(_at(t, i), size=i.size, dtype=np.int64) < u[i]

    return _coins(np.arange(u.size), below, rng)


def _coins(
    index: Integers, below: Callable[[Integers], Booleans], rng: np.random.Generator
) -> Booleans:
    """Toss coins of probability exp(-gamma); `below` tosses those of gamma.

    Algorithm 1 of Canonne, Kamath and Steinke (2020).
    """
    even = np.ones(len(index), dtype=bool)
    running = np.arange(len(index))
    k = 1
    while running.size:
        if k > 1:
            drawn = rng.integers(k, size=running.size, dtype=np.int64)
            running = running[drawn == 0]
        running = running[below(index[running])]
        even[running] ^= True
        k += 1
    return even
