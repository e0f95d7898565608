r"""Noise on integers, drawn exactly: no floating-point number decides what comes out.

Noise in floating-point numbers leaves gaps that show which data it was added to. The samplers here return integers, and
the probability of each is exactly the one stated, given uniform random integers: those of a NumPy generator are uniform
by rejection, as long as its bits are. PCG64, NumPy's usual source of bits, is not cryptographic, so for a real release
the generator needs another one; and how long a draw takes depends on what is drawn (:doc:`/book/privacy/limits`).

Scales and rates are positive rationals, a Fraction or an int, for steps of 1: a float would be rounded before it
arrives here, and one should know in which direction. `size` is the shape of a batch; ``()`` gives one draw. Draws are
of 64 bits, and cut at :math:`\pm2^{62}`. An answer plus noise, cut at a public bound, is then what uncut noise would
have given, as long as the bound and the largest answer are at most :math:`2^{62}` together.

What this noise costs in privacy is proved in :doc:`/book/privacy/arithmetic`: the loss is the distance of two answers,
in the L1 norm over the scale or in the L2 norm times the rate, *equal* to it in the worst case.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from numbers import Rational

import numpy as np
from numpy.typing import NDArray

from hdpm_lib.validation import check_count, check_generator, check_rational, check_size

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
LARGEST = 2**62  # numerator and denominator of a scale, and what a draw is cut at
_BITS = 53  # of a uniform number that are drawn at a time; more only if these do not decide
_COORDINATES = 2**17  # proposed at a time
_WIDEST = 50  # dimension


def root_above(square: Rational | int, denominator: int) -> Fraction:
    """The least multiple of ``1 / denominator`` whose square is at least `square`."""
    value = Fraction(square) * denominator**2
    least = -(-value.numerator // value.denominator)
    return Fraction(math.isqrt(least - 1) + 1 if least > 0 else 0, denominator)


def discrete_laplace(scale: Rational | int, *, rng: np.random.Generator, size: int | tuple[int, ...] = ()) -> Integers:
    r"""Draw integers of shape `size` from the probabilities proportional to :math:`e^{-|k|/\text{scale}}`, exactly.

    Numerator and denominator of `scale` are at most :math:`2^{62}`.

    Notes
    -----
    Canonne, Kamath and Steinke 2020, Algorithm 2: a magnitude from a uniform and a geometric variable gets a random
    sign. "Minus 0" is drawn anew, or 0 would count twice.

    Examples
    --------
    >>> discrete_laplace(Fraction(7, 2), rng=np.random.default_rng(0), size=6).shape
    (6,)
    """
    value = check_rational(scale, "scale")
    t, s = value.numerator, value.denominator
    if max(t, s) > LARGEST:
        raise ValueError(f"scale must have a numerator and a denominator of at most 2**62, got {t}/{s}")
    shape = check_size(size)
    return _cut(_uncut(t, s, math.prod(shape), check_generator(rng))).reshape(shape)


def _cut(drawn: NDArray) -> Integers:
    return np.clip(drawn, -LARGEST, LARGEST).astype(np.int64)


def _uncut(t: int, s: int, count: int, rng: np.random.Generator) -> NDArray:
    """Draws of the scale t/s: of 64 bits, or Python integers if needed."""
    drawn: NDArray = np.zeros(count, dtype=np.int64)
    missing = np.arange(drawn.size)
    while missing.size:
        u = rng.integers(t, size=missing.size, dtype=np.int64)
        kept = _exp_coins(u, t, rng)  # of probability exp(-u/t)
        size = _magnitudes(u[kept], t, s, rng)
        sign = 1 - 2 * rng.integers(2, size=size.size, dtype=np.int64)
        new = (size > 0) | (sign > 0)  # no "minus 0"
        wide = np.promote_types(drawn.dtype, size.dtype)
        drawn = drawn.astype(wide, copy=False)
        drawn[missing[kept][new]] = (sign * size)[new]
        missing = np.concatenate([missing[~kept], missing[kept][~new]])  # anew
    return drawn


def _magnitudes(u: Integers, t: int, s: int, rng: np.random.Generator) -> NDArray:
    """The integers ``(u + t v) // s``, with a geometric variable `v` for each `u`."""
    v, running = np.zeros(len(u), dtype=np.int64), np.arange(len(u))
    while running.size:
        running = running[_coins(running, lambda i: np.ones(i.size, dtype=bool), rng)]  # each of probability 1/e
        v[running] += 1
    if t * (int(v.max(initial=0)) + 1) < 2**63:
        return (u + t * v) // s
    large = (u.astype(object) + t * v.astype(object)) // s
    return large if max(large) >= 2**63 else large.astype(np.int64)


def _exp_coins(u: Integers, t: int, rng: np.random.Generator) -> Booleans:
    """Coins of probability exp(-u/t), for integers `u` from 0 to `t`."""
    return _coins(np.arange(u.size), lambda i: rng.integers(t, size=i.size, dtype=np.int64) < u[i], rng)


def _coins(index: Integers, below: Callable[[Integers], Booleans], rng: np.random.Generator) -> Booleans:
    """Coins of probability exp(-gamma); `below` tosses those of gamma.

    Canonne, Kamath and Steinke 2020, Algorithm 1.
    """
    even, running, k = np.ones(len(index), dtype=bool), np.arange(len(index)), 1
    while running.size:
        if k > 1:
            drawn = rng.integers(k, size=running.size, dtype=np.int64)
            running = running[drawn == 0]
        running = running[below(index[running])]
        even[running] ^= True
        k += 1
    return even


def lattice_laplace(
    dimension: int, rate: Rational | int, *, rng: np.random.Generator, size: int | tuple[int, ...] = ()
) -> Integers:
    r"""Draw integer vectors from the probabilities proportional to :math:`e^{-\text{rate}\,\lVert k\rVert_2}`, exactly.

    The law of :func:`~hdpm_lib.noise.spherical_laplace` on the lattice :math:`\mathbb{Z}^d`; shape (\*size, dimension).

    Parameters
    ----------
    dimension : int, from 1 to 50
        `d`. One draw takes about 3, 19, 170 and 2,700 proposals for `d` = 5, 12, 20 and 30.
    rate : Fraction or int
        :math:`\sqrt d/\text{rate}` must be below :math:`2^{50}` and above :math:`2^{-30}`.

    Notes
    -----
    Proposals have independent :func:`discrete_laplace` coordinates of a rational rate :math:`r\le\text{rate}/\sqrt d`.
    With :math:`x=\text{rate}\lVert k\rVert_2-r\lVert k\rVert_1\ge0`, each is accepted with probability :math:`e^{-x}`:
    by `m` coins :math:`e^{-x/m}` that all succeed, for an integer :math:`m\ge x`. They ask whether uniform numbers lie
    below :math:`x/m`. Floats answer only where the distance is above their error, at most
    :math:`(d+16)\,2^{-53}\,\text{rate}\lVert k\rVert_2/m`; else integers do, with more random bits as needed.

    Examples
    --------
    >>> lattice_laplace(12, Fraction(1, 1000), rng=np.random.default_rng(0), size=3).shape
    (3, 12)
    """
    d, exact = check_count(dimension, "dimension"), check_rational(rate, "rate")
    scale, shape = proposal_scale(d, exact), check_size(size)
    check_generator(rng)
    drawn, done = np.empty((math.prod(shape), d), dtype=np.int64), 0
    while done < len(drawn):
        enough = math.ceil((len(drawn) - done + 1) / acceptance(d))
        batch = min(enough, max(1, _COORDINATES // d))
        k = _uncut(scale.numerator, scale.denominator, batch * d, rng)
        k = k.reshape(batch, d)  # proposals
        k = k[_accepted(k, exact, 1 / scale, rng)][: len(drawn) - done]
        drawn[done : done + len(k)] = _cut(k)
        done += len(k)
    return drawn.reshape(*shape, d)


def proposal_scale(d: int, rate: Fraction) -> Fraction:
    """Scale of the proposals of :func:`lattice_laplace`, a rational above the root of `d` over `rate`; or an error."""
    if d > _WIDEST:
        raise ValueError(f"dimension must be at most {_WIDEST}, or a draw would take minutes, got {d}")
    square = d / rate**2
    if not Fraction(1, 2**60) < square < 2**100:
        raise ValueError(f"rate must lie between sqrt(dimension) / 2**50 and sqrt(dimension) * 2**30, got {rate}")
    return root_above(square, 2 ** max(0, 30 - math.isqrt(math.floor(square)).bit_length()))


def _bracket(points: NDArray, rate: Fraction, slow: Fraction) -> tuple[Array, Array, Array]:
    """Parts, at least `rate` times the L2 norm less `slow` times the L1 norm, and floats around the quotient."""
    size, d = np.abs(points), points.shape[1]
    if size.max(initial=0) > LARGEST // d:
        size = size.astype(object)  # their sum may need more than 64 bits
    length = float(rate) * np.sqrt(np.square(size.astype(float)).sum(1))
    x, error = length - float(slow) * size.sum(1).astype(float), (d + 16) * 2.0**-53 * length
    parts = np.maximum(np.ceil(x + error), 1)
    return parts, (x - error) / parts, (x + error) / parts


def _accepted(points: NDArray, rate: Fraction, slow: Fraction, rng: np.random.Generator) -> Booleans:
    """Coins of probability exp(-x), x being `rate` times the L2 norm less `slow` times the L1 norm of each point."""
    parts, low, high = _bracket(points, rate, slow)

    def below(index: Integers) -> Booleans:
        bits = rng.integers(2**_BITS, size=index.size, dtype=np.int64)
        found = (bits + 1) * 2.0**-_BITS <= low[index]
        for j in np.flatnonzero(~found & (bits * 2.0**-_BITS < high[index])):
            found[j] = _decided(points[index[j]].tolist(), int(parts[index[j]]), rate, slow, int(bits[j]), rng)
        return found

    kept = np.ones(len(points), dtype=bool)
    for toss in range(int(parts.max(initial=0))):
        due = np.flatnonzero(kept & (parts > toss))
        kept[due] = _coins(due, below, rng)
    return kept


def _decided(k: list[int], parts: int, rate: Fraction, slow: Fraction, bits: int, rng: np.random.Generator) -> bool:
    """Is a uniform number with these first bits below x over `parts`, for the x of point `k`? By integers alone."""
    square, start, scale = rate**2 * sum(j * j for j in k), slow * sum(map(abs, k)), 2**_BITS
    while True:
        if (start + Fraction(parts * (bits + 1), scale)) ** 2 <= square:
            return True
        if (start + Fraction(parts * bits, scale)) ** 2 >= square:
            return False
        bits, scale = bits * 2**_BITS + int(rng.integers(2**_BITS, dtype=np.int64)), scale * 2**_BITS


def acceptance(dimension: int) -> float:
    r"""Share of the proposals of :func:`lattice_laplace` that are accepted on a fine lattice.

    It is :math:`d!\,V_d/(2^dd^{d/2})`, :math:`V_d` being the volume of the unit ball.
    """
    d = check_count(dimension, "dimension")
    return math.exp(math.lgamma(d + 1) - math.lgamma(d / 2 + 1) + d / 2 * math.log(math.pi / (4 * d)))
