r"""Answers to a query with Laplace noise and with a bias that buys privacy.

A query is a sum of terms: one for each individual (linear), or functions of everybody's data
(non-linear). Term `k` lies in a known interval with the middle :math:`c_k`. The *biased* answer
uses the share :math:`a_k` of its true value,

.. math:: A(D) = \sum_k \bigl(a_k t_k(D) + (1 - a_k)\,c_k\bigr) + N(b),

with one Laplace variable :math:`N(b)` of scale `b`. Shares 1 give the usual unbiased answer, shares
0 a constant. Theorems and equations are those of Khalili, Zhang and Liu (2021), "Designing
Contracts for Trading Private and Heterogeneous Data Using a Biased Differentially Private
Algorithm", IEEE Access 9.

Public: shares, scale, intervals and sensitivities, so none of them may be computed from the data.
Neighbours: the datum of one individual replaced by any other.

By default releases are certain to the last digit (:mod:`hdpm_lib.exact`). ``arithmetic="ideal"`` is
the answer in floats, for studies: its last digits tell the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from flint import arb, ctx
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.accounts import charge
from hdpm_lib.exact import MARGIN, inner_products, released, spherical
from hdpm_lib.frozen import Frozen
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


@dataclass(frozen=True, eq=False, repr=False)
class BiasedLaplace(Frozen):
    r"""A biased answer with Laplace noise, and its guarantees.

    Parameters
    ----------
    shares : array of shape (q,)
        The shares :math:`a_k`, in [0, 1]: how much the true value of each term counts.
    scale : float
        Scale `b` of the Laplace noise, positive; 0 is allowed if all shares are 0.
    sensitivity : array of shape (q, n) or (q,)
        Bounds :math:`\Delta_k^j` on how far individual `j` can move term `k`, not negative. A
        vector is the diagonal of a table that is 0 elsewhere: individual `k` moves term `k` alone.
    ranges : array of shape (q,)
        Lengths of the terms' intervals, positive.
    lower : array of shape (q,)
        Lower ends of the terms' intervals.
    dimension : int, default 1
        Number `m` of coordinates of a datum. Every coordinate is answered, with noise of its own.
    clip : bool, default False
        Move terms outside their intervals onto the ends, and what is not a number to the middle,
        instead of an error.
    arithmetic : {"exact", "ideal"}, default "exact"
        Certain to the last digit, or floats, for studies.

    Notes
    -----
    Definition 3 of Khalili, Zhang and Liu. :func:`linear_query` and :func:`nonlinear_query` make
    the two kinds of the paper.

    References
    ----------
    Khalili, Zhang and Liu (2021), "Designing Contracts for Trading Private and Heterogeneous Data
    Using a Biased Differentially Private Algorithm", IEEE Access 9.

    Examples
    --------
    >>> mechanism = BiasedLaplace([1.0, 0.5], 2.0, [3.0, 1.0], [3.0, 1.0], [0.0, -1.0])
    >>> mechanism.privacy_loss, mechanism.worst_case_mse
    (array([1.5 , 0.25]), 8.0625)
    >>> float(mechanism.mean([3.0, 0.0]))   # before noise: not private
    2.75
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
        shares = check_finite(self.shares, "shares", 1, 0, 1)
        sensitivity = check_finite(self.sensitivity, "sensitivity", None, 0)
        ranges = check_finite(self.ranges, "ranges", 1, 0, ends="()")
        lower = check_finite(self.lower, "lower", 1)
        if sensitivity.ndim != 1:
            check_finite(sensitivity, "sensitivity", 2)
        arrays = {"shares": shares, "sensitivity": sensitivity, "ranges": ranges, "lower": lower}
        for name, array in arrays.items():
            if len(array) != len(shares):
                raise ValueError(f"{name} has {len(array)} rows for {len(shares)} shares")
            object.__setattr__(self, name, array)
        super().__post_init__()
        scale = check_number(self.scale, "scale", 0)
        if scale == 0 and shares.any():
            raise ValueError("scale must be positive and finite (or 0, with every share 0), got 0")
        check_count(self.dimension, "dimension")
        check_flag(self.clip, "clip")
        check_choice(self.arithmetic, "arithmetic", ("exact", "ideal"))
        if self.arithmetic == "exact" and scale:
            _ = self.step  # its error now, from public numbers, and not once the data are in

    @property
    def step(self) -> float:
        """Step of the grid on which exact releases lie, but for a known number."""
        return grid_step(self.scale, float(self.shares @ self.ranges) + 32 * self.scale)

    @property
    def privacy_loss(self) -> Array:
        r"""Privacy loss of each individual, :math:`\frac mb\sum_k a_k\Delta_k^j`, shape (n,).

        Exact for linear queries (Theorems 3, 11): a whole datum that goes from 0 to 1 attains it.
        An upper bound for non-linear ones (Theorem 10), as nobody need be able to move all terms by
        the most and in one direction.
        """
        weights = self.dimension * self.shares
        if self.sensitivity.ndim == 1:
            total = weights * self.sensitivity
        else:
            total = weights @ self.sensitivity
        if self.scale == 0:  # then all shares are 0
            return 0 * total
        return total / self.scale

    @property
    def worst_case_mse(self) -> float:
        r"""Mean squared error on the worst data, :math:`(\sum_k(1-a_k)q_k/2)^2+2b^2`.

        The `q` are the ranges; with `m` coordinates it is their average (Definition 4). Exact for
        linear queries, where all terms can be at the same end of their intervals (Theorems 3, 12);
        an upper bound for non-linear ones (Theorem 10).
        """
        return float(((1 - self.shares) @ self.ranges / 2) ** 2 + 2 * self.scale**2)

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the noise in one coordinate of a release."""
        return math.sqrt(2) * self.scale

    def noise_margin(self, level: float = 0.95) -> float:
        """Return how far noise moves one coordinate of a release at most, with a probability.

        Parameters
        ----------
        level : float, default 0.95
            The probability, between 0 and 1.

        Returns
        -------
        float
            Half the length of an interval around the released number, for the answer before noise;
            the bias is at most the root of what :attr:`worst_case_mse` has beside the noise.
        """
        return -self.scale * math.log1p(-check_number(level, "level", 0, 1, ends="()"))

    @np.errstate(under="ignore")
    def mean(self, terms: ArrayLike) -> Array:
        """Return the answer before noise, which is private.

        Parameters
        ----------
        terms : array of shape (q, ...)
            Terms inside their intervals.

        Returns
        -------
        array of shape (...)
            Mean of what :meth:`release` gives.
        """
        return self._mean(self._inside(private_floats(terms, "terms")))

    def bias(self, terms: ArrayLike) -> Array:
        """Return the mean error of the answer, which is private as well.

        Parameters
        ----------
        terms : array of shape (q, ...)
            Terms inside their intervals.

        Returns
        -------
        array of shape (...)
            Mean of the answer less the sum of the terms.
        """
        inside = self._inside(private_floats(terms, "terms"))
        return np.asarray(np.tensordot(self.shares - 1, self._centred(inside), 1))

    @np.errstate(under="ignore")
    def release(
        self, terms: ArrayLike, *, rng: np.random.Generator, size: int | tuple[int, ...] = ()
    ) -> Array:
        r"""Release noisy answers; each one spends the whole privacy loss.

        Parameters
        ----------
        terms : array of shape (q,), or (q, m) for a dimension `m` above 1
            Terms inside their intervals: for a linear query, weights times data.
        rng : numpy.random.Generator
            Source of the noise.
        size : int or tuple of int, default ()
            Shape of a batch of answers; ``()`` gives one.

        Returns
        -------
        array of shape (\*size,), or (\*size, m)
            Answers with independent noise (:doc:`/book/privacy/limits`).
        """
        shape: tuple[int, ...] = (len(self.shares),)
        if self.dimension > 1:
            shape = (len(self.shares), self.dimension)
        inside = self._inside(private_floats(terms, "terms", len(shape)))
        if inside.shape != shape:
            raise ValueError(f"terms must have shape {shape}, got {inside.shape}")
        batch = check_size(size) + shape[1:]
        charge(lambda: self.privacy_loss, check_generator(rng), size)
        if self.arithmetic == "ideal" or not self.scale:
            return np.asarray(self._mean(inside) + rng.laplace(scale=self.scale, size=batch))
        m = self.dimension
        middle = self.lower + self.ranges / 2
        known = float(self.shares @ middle)  # public, so that its rounding tells nothing
        enclose = self._enclose(inside, known)
        noisy = released(enclose, m, 2 * m, self.step, rng=rng, size=size)
        return np.asarray(middle.sum() + noisy.reshape(batch))

    def _enclose(self, terms: Array, known: float) -> Callable[[list[arb]], list[arb]]:
        r"""Return a function from uniform numbers to the answer less a known number, enclosed.

        The balls enclose :math:`\sum_ka_kt_k+N(b)` less it. See :mod:`hdpm_lib.exact`.
        """
        values = terms.reshape(len(self.shares), -1)
        rate = (1 - MARGIN - len(self.shares) * 2.0**-52) / self.scale

        @cache
        def answer(bits: int) -> list[arb]:
            return [value - known for value in inner_products(self.shares, values)]

        def enclose(uniforms: list[arb]) -> list[arb]:
            noisy = []
            for k, x in enumerate(answer(ctx.prec)):
                noise = spherical(uniforms[2 * k : 2 * k + 2], 1, rate)
                noisy.append(x + noise[0])
            return noisy

        return enclose

    def _mean(self, inside: Array) -> Array:
        """Compute :meth:`mean` of terms inside their intervals."""
        middle = self.lower + self.ranges / 2
        return np.asarray(middle.sum() + np.tensordot(self.shares, self._centred(inside), 1))

    def _centred(self, inside: Array) -> Array:
        """Subtract the middles of the intervals; the ends of half a length are not rounded."""
        half = _rows(self.ranges / 2, inside.ndim)
        middle = _rows(self.lower + self.ranges / 2, inside.ndim)
        return np.clip(inside - middle, -half, half)

    def _inside(self, terms: Array) -> Array:
        """Return terms inside their intervals, where they lie or are moved."""
        if terms.ndim == 0 or len(terms) != len(self.shares):
            raise ValueError(
                f"terms must have {len(self.shares)} rows, one for each share, got shape"
                f" {terms.shape}"
            )
        low = _rows(self.lower, terms.ndim)
        length = _rows(self.ranges, terms.ndim)
        top = low + length
        # no longer than the interval, in real numbers
        top = np.where(top - low > length, np.nextafter(top, low), top)
        return check_inside(terms, "terms", low, top, "lie in their intervals", clip=self.clip)


def _rows(vector: Array, ndim: int) -> Array:
    """Return a vector as the first of `ndim` dimensions."""
    return np.expand_dims(vector, tuple(range(1, ndim)))


def linear_query(
    shares: ArrayLike,
    scale: float,
    *,
    weights: ArrayLike | None = None,
    dimension: int = 1,
    clip: bool = False,
    arithmetic: Literal["exact", "ideal"] = "exact",
) -> BiasedLaplace:
    r"""Answer :math:`\sum_k q_kd_k` with a bias, for data in :math:`[0,1]^m`.

    Parameters
    ----------
    shares : array of shape (n,)
        The shares :math:`a_k`, in [0, 1]: how much each datum counts. Shares 1 are the unbiased
        answer (Theorem 2).
    scale : float
        Scale `b` of the Laplace noise, positive; 0 is allowed if all shares are 0.
    weights : array of shape (n,), optional
        The weights :math:`q_k`, of either sign but not 0; all 1 if not given. Term :math:`q_kd_k`
        lies between 0 and :math:`q_k`.
    dimension : int, default 1
        Number `m` of coordinates of a datum. Every coordinate is answered, with noise of its own.
    clip : bool, default False
        Move terms outside their intervals onto the ends, and what is not a number to the middle,
        instead of an error.
    arithmetic : {"exact", "ideal"}, default "exact"
        Certain to the last digit, or floats, for studies.

    Returns
    -------
    BiasedLaplace
        Its `release` takes the terms :math:`q_kd_k`; its `privacy_loss` says what each individual
        loses.

    Notes
    -----
    Theorems 3, 11 and 12 of Khalili, Zhang and Liu. Individual `k` loses exactly
    :math:`m\,a_k|q_k|/b`; neighbours: one datum replaced by any other. Everything but the data is
    public (:doc:`/book/privacy/limits`).

    References
    ----------
    Khalili, Zhang and Liu (2021), "Designing Contracts for Trading Private and Heterogeneous Data
    Using a Biased Differentially Private Algorithm", IEEE Access 9.

    Examples
    --------
    >>> mechanism = linear_query([1.0, 0.25], 0.5, weights=[1.0, -2.0])
    >>> mechanism.privacy_loss, mechanism.worst_case_mse
    (array([2., 1.]), 1.0625)
    """
    a = check_finite(shares, "shares", 1)
    q = np.ones(len(a))
    if weights is not None:
        q = check_finite(weights, "weights", 1)
    if len(q) != len(a):
        raise ValueError(f"weights has {len(q)} entries for {len(a)} shares")
    if not q.all():
        raise ValueError(
            f"weights must not be 0 (leave that individual out), got weights[{np.argmin(q != 0)}]"
            " = 0.0"
        )
    size = check_finite(np.abs(q), "weights", 1, 0, ends="()")
    return BiasedLaplace(a, scale, size, size, np.minimum(q, 0), dimension, clip, arithmetic)


def nonlinear_query(
    shares: ArrayLike,
    scale: float,
    sensitivity: ArrayLike,
    *,
    clip: bool = False,
    arithmetic: Literal["exact", "ideal"] = "exact",
) -> BiasedLaplace:
    r"""Answer a sum of functions of the database with values in [0, 1] with a bias.

    Parameters
    ----------
    shares : array of shape (q,)
        The shares :math:`a_k`, in [0, 1]: how much each function counts.
    scale : float
        Scale `b` of the Laplace noise, positive; 0 is allowed if all shares are 0.
    sensitivity : array of shape (q, n) or (q,)
        Bounds :math:`\Delta_k^j`, not negative: individual `j` must not be able to change function
        `k` by more, whatever the other data. A vector is the diagonal of a table that is 0
        elsewhere.
    clip : bool, default False
        Move values outside [0, 1] onto the ends, and what is not a number to the middle, instead of
        an error.
    arithmetic : {"exact", "ideal"}, default "exact"
        Certain to the last digit, or floats, for studies.

    Returns
    -------
    BiasedLaplace
        Its `release` takes the values of the functions; its `privacy_loss` bounds what each
        individual loses.

    Notes
    -----
    The answer (21) and Theorem 10 of Khalili, Zhang and Liu. Privacy rests on `sensitivity`, which
    nobody checks (:doc:`/book/privacy/limits`); neighbours: one datum replaced by any other.

    References
    ----------
    Khalili, Zhang and Liu (2021), "Designing Contracts for Trading Private and Heterogeneous Data
    Using a Biased Differentially Private Algorithm", IEEE Access 9.

    Examples
    --------
    >>> nonlinear_query([1, 1], 1.0, [[1, 0.5], [0.5, 0]]).privacy_loss   # Example 1
    array([1.5, 0.5])
    """
    a = check_finite(shares, "shares", 1)
    bounds = check_finite(sensitivity, "sensitivity")
    ranges = np.ones(len(a))
    lower = np.zeros(len(a))
    return BiasedLaplace(a, scale, bounds, ranges, lower, 1, clip, arithmetic)
