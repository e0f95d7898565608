r"""Answers to a query with Laplace noise and with a bias that buys privacy: of every term they use
a share.

A query is a sum of terms: one for each individual (linear), or functions of everybody's data
(non-linear). Term `k` lies in a known interval with the middle :math:`c_k`. The *biased* answer
uses the share :math:`a_k` of its true value,

.. math:: A(D) = \sum_k \bigl(a_k t_k(D) + (1 - a_k)\,c_k\bigr) + N(b),

with one Laplace variable :math:`N(b)` of scale `b`. Shares 1 give the usual unbiased answer, shares
0 a constant.

Public: shares, scale, intervals and sensitivities, so none of them may be computed from the data.
Neighbours: the datum of one individual replaced by any other.

By default releases are certain to the last digit (:mod:`hdpm_lib.exact`). ``arithmetic="ideal"`` is
the answer in floats, for studies: its last digits tell the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from flint import arb, ctx
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.accounts import charge
from hdpm_lib.exact import MARGIN, balls, released, spherical
from hdpm_lib.noise import grid_step
from hdpm_lib.private import check_inside, private_floats
from hdpm_lib.validation import (
    check_choice,
    check_count,
    check_finite,
    check_flag,
    check_generator,
    check_number,
    check_size,
)

Array = NDArray[np.float64]


def _require(good: NDArray[np.bool_], array: Array, name: str, rule: str) -> None:
    if not good.all():
        index = np.argwhere(~good)[0].tolist()
        raise ValueError(f"{name} must {rule}, got {name}{index} = {array[tuple(index)]}")


@dataclass(frozen=True)
class BiasedLaplace:
    r"""A biased answer with Laplace noise, and its guarantees.

    Attributes
    ----------
    shares : array of shape (q,), in [0, 1]
        `a`: how much the true value of each term counts.
    scale : float
        `b`: scale of the Laplace noise, positive; 0 is allowed if all shares are 0.
    sensitivity : array of shape (q, n), not negative
        :math:`\Delta_k^j`: bounds on how far individual `j` can move term `k`.
    ranges, lower : array of shape (q,)
        Lengths (positive) and lower ends of the terms' intervals.
    dimension : int, default 1
        Number `m` of coordinates of a datum. Every coordinate is answered, with noise of its own.
    clip : bool, default False
        Move terms outside their intervals onto the ends, and what is not a number to the middle: no
        error.
    arithmetic : {"exact", "ideal"}
    """

    shares: Array
    scale: float
    sensitivity: Array
    ranges: Array
    lower: Array
    dimension: int = 1
    clip: bool = False
    arithmetic: Literal["exact", "ideal"] = "exact"

    def __post_init__(self) -> None:
        for name, ndim in (("shares", 1), ("sensitivity", 2), ("ranges", 1), ("lower", 1)):
            array = check_finite(getattr(self, name), name, ndim)
            if len(array) != len(self.shares):
                raise ValueError(f"{name} has {len(array)} rows for {len(self.shares)} shares")
            object.__setattr__(self, name, array)
        _require((self.shares >= 0) & (self.shares <= 1), self.shares, "shares", "lie in [0, 1]")
        _require(self.sensitivity >= 0, self.sensitivity, "sensitivity", "not be negative")
        _require(self.ranges > 0, self.ranges, "ranges", "be positive")
        check_number(self.scale, "scale", 0)
        if not (self.scale > 0 or self.scale == self.shares.max() == 0):
            raise ValueError(
                f"scale must be positive and finite (or 0, with every share 0), got {self.scale}"
            )
        check_count(self.dimension, "dimension")
        check_flag(self.clip, "clip")
        check_choice(self.arithmetic, "arithmetic", ("exact", "ideal"))
        if self.arithmetic == "exact" and self.scale:
            _ = self.step  # its error now, from public numbers, and not once the data are in

    @property
    def step(self) -> float:
        """Step of the grid on which exact releases lie, before what is known of the answer is
        added.
        """
        return grid_step(self.scale, float(self.shares @ self.ranges) + 32 * self.scale)

    @property
    def privacy_loss(self) -> Array:
        r"""Privacy loss of each individual, :math:`\frac mb\sum_k a_k\Delta_k^j`, shape (n,).

        Exact for linear queries (Theorems 3, 11): a whole datum that goes from 0 to 1 attains it.
        An upper bound for non-linear ones (Theorem 10), as nobody need be able to move all terms by
        the most and in one direction.
        """
        total = self.dimension * self.shares @ self.sensitivity
        return total / self.scale if self.scale > 0 else np.zeros(len(total))

    @property
    def worst_case_mse(self) -> float:
        r"""Mean squared error on the worst data,
        :math:`\bigl(\sum_k\tfrac12(1-a_k)q_k\bigr)^2+2b^2` for ranges `q`.

        With `m` coordinates, their average (Definition 4). Exact for linear queries, where all
        terms can be at the same end of their intervals (Theorems 3, 12); an upper bound for
        non-linear ones (Theorem 10).
        """
        return float(((1 - self.shares) @ self.ranges / 2) ** 2 + 2 * self.scale**2)

    def mean(self, terms: ArrayLike) -> Array:
        """The answer before noise, shape (...), which is private, for terms (q, ...) inside their
        intervals.
        """
        middle = self.lower + self.ranges / 2
        return np.asarray(middle.sum() + np.tensordot(self.shares, self._centred(terms), 1))

    def bias(self, terms: ArrayLike) -> Array:
        """Mean error of the answer, which is private as well; shapes as for :meth:`mean`."""
        return np.asarray(np.tensordot(self.shares - 1, self._centred(terms), 1))

    def release(
        self, terms: ArrayLike, *, rng: np.random.Generator, size: int | tuple[int, ...] = ()
    ) -> Array:
        r"""Noisy answers that may be published; each one spends the whole loss
        (:doc:`/book/privacy/limits`).

        Terms (for a linear query, weights times data) have shape (q,), and answers (\*size,); for a
        dimension `m` above 1 they have shape (q, m) and (\*size, m).
        """
        shape = (len(self.shares), self.dimension)[: 1 + (self.dimension > 1)]
        t = private_floats(terms, "terms", len(shape))
        if t.shape != shape:
            raise ValueError(f"terms must have shape {shape}, got {t.shape}")
        rng = check_generator(rng)
        batch = check_size(size) + shape[1:]
        inside = self._inside(t)
        charge(lambda: self.privacy_loss, rng, size)
        if self.arithmetic == "ideal" or not self.scale:
            return np.asarray(self.mean(t) + rng.laplace(scale=self.scale, size=batch))
        m = self.dimension
        middle = self.lower + self.ranges / 2
        known = float(self.shares @ middle)  # public, so that its rounding tells nothing
        noisy = released(
            self._enclose(inside, known), m, 2 * m, self.step, rng=rng, size=size
        ).reshape(batch)
        return np.asarray(middle.sum() + noisy)

    def _enclose(self, terms: Array, known: float) -> Callable[[list[arb]], list[arb]]:
        r"""From enclosures of uniform numbers to those of :math:`\sum_ka_kt_k+N(b)` less a known
        number.

        See :mod:`hdpm_lib.exact`.
        """
        shares = balls(self.shares[None])
        parts = balls(terms.reshape(len(self.shares), -1))
        rate = (1 - MARGIN - len(self.shares) * 2.0**-52) / self.scale

        @cache
        def answer(bits: int) -> list[arb]:
            return [part - known for part in (shares * parts).entries()]

        def enclose(uniforms: list[arb]) -> list[arb]:
            pairs = zip(uniforms[::2], uniforms[1::2], strict=True)
            noise = [spherical(pair, 1, rate)[0] for pair in pairs]
            return [x + z for x, z in zip(answer(ctx.prec), noise, strict=True)]

        return enclose

    def _centred(self, terms: ArrayLike) -> Array:
        """Terms less the middles of their intervals."""
        t = self._inside(terms)
        return np.asarray(t - (self.lower + self.ranges / 2).reshape(-1, *[1] * (t.ndim - 1)))

    def _inside(self, terms: ArrayLike) -> Array:
        """Terms inside their intervals, where they lie or are moved."""
        t = private_floats(terms, "terms")
        if t.ndim == 0 or len(t) != len(self.shares):
            raise ValueError(
                f"terms must have {len(self.shares)} rows, one for each share, got shape {t.shape}"
            )
        low, length = (end.reshape(-1, *[1] * (t.ndim - 1)) for end in (self.lower, self.ranges))
        top = low + length
        # no longer than the interval, in real numbers
        top = np.where(top - low > length, np.nextafter(top, low), top)
        return check_inside(t, "terms", low, top, "lie in their intervals", clip=self.clip)


def linear_query(
    shares: ArrayLike,
    scale: float,
    *,
    weights: ArrayLike | None = None,
    dimension: int = 1,
    clip: bool = False,
    arithmetic: Literal["exact", "ideal"] = "exact",
) -> BiasedLaplace:
    r"""The biased answer to :math:`\sum_k q_kd_k` for data in :math:`[0,1]^m` (Theorems 3, 11 and
    12).

    Individual `k` loses exactly :math:`m\,a_k|q_k|/b` (:doc:`/book/privacy/limits`).

    Parameters
    ----------
    shares, scale, dimension, clip, arithmetic
        As in :class:`BiasedLaplace`, with one term for each individual. Shares 1 are the unbiased
        answer (Theorem 2).
    weights : array of shape (n,), optional
        `q`, of either sign but not 0; all 1 if not given. Term :math:`q_kd_k` lies between 0 and
        :math:`q_k`.

    Examples
    --------
    >>> mechanism = linear_query([1.0, 0.25], 0.5, weights=[1.0, -2.0])
    >>> mechanism.privacy_loss, mechanism.worst_case_mse
    (array([2., 1.]), 1.0625)
    """
    a = check_finite(shares, "shares", 1)
    q = np.ones(len(a)) if weights is None else check_finite(weights, "weights", 1)
    if len(q) != len(a):
        raise ValueError(f"weights has {len(q)} entries for {len(a)} shares")
    _require(q != 0, q, "weights", "not be 0 (leave that individual out)")
    return BiasedLaplace(
        a, scale, np.diag(np.abs(q)), np.abs(q), np.minimum(q, 0), dimension, clip, arithmetic
    )


def nonlinear_query(
    shares: ArrayLike,
    scale: float,
    sensitivity: ArrayLike,
    *,
    clip: bool = False,
    arithmetic: Literal["exact", "ideal"] = "exact",
) -> BiasedLaplace:
    r"""The biased answer (21) to a sum of functions of the database with values in [0, 1] (Theorem
    10).

    Arguments as in :class:`BiasedLaplace`. Privacy rests on `sensitivity`: individual `j` must not
    be able to change function `k` by more than :math:`\Delta_k^j`, whatever the other data
    (:doc:`/book/privacy/limits`).

    Examples
    --------
    >>> nonlinear_query([1, 1], 1.0, [[1, 0.5], [0.5, 0]]).privacy_loss   # Example 1
    array([1.5, 0.5])
    """
    a = check_finite(shares, "shares", 1)
    bounds = check_finite(sensitivity, "sensitivity", 2)
    return BiasedLaplace(
        a, scale, bounds, np.ones(len(a)), np.zeros(len(a)), clip=clip, arithmetic=arithmetic
    )
