r"""A weighted mean of records with noise.

It is the learner to which every market with a trusted buyer comes down
(:doc:`/book/beyond/market`). Records :math:`x_1,\dots,x_n` lie in a ball of a known centre and
radius. The release is

.. math:: \text{centre}+W\Bigl(\sum_iw_i(x_i-\text{centre})+Z\Bigr),

with weights :math:`w_i\ge0` that sum to 1, spherical Laplace noise :math:`Z` of rate :math:`\eta`
(:mod:`hdpm_lib.noise`), and a factor :math:`W\in[0,1]` that *shrinks* the mean towards the centre.
Two records are at most :math:`s`, twice the radius, apart; seller :math:`i` loses exactly
:math:`\varepsilon_i=sw_i\eta` (for :math:`W>0`). To shrink costs nothing: it happens to a release.
By default releases are certain to the last digit (:mod:`hdpm_lib.exact`).

Two yardsticks measure the mean squared error. The *population error* is that to the mean of the law
the records are drawn from. The *worst error* is that to the sellers' own plain mean, on the worst
records in the ball.

Throughout, `weights` of shape (..., n) are :math:`w`; `noise` of shape (...), not negative, is the
mean square :math:`E\lVert Z\rVert^2`, for this release :math:`d(d+1)/\eta^2`; `shrink` of shape
(...) is :math:`W`. Sellers of whom nothing is bought have weight 0; if that is everybody, the noise
is infinite and the best factor 0. Public: weights, rate, factor, ball. Neighbours: one record
replaced by any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.accounts import charge
from hdpm_lib.exact import GRID, on_grid, weighted_products, with_noise
from hdpm_lib.frozen import Frozen
from hdpm_lib.noise import (
    coordinate_margin,
    coordinate_variance,
    grid_step,
    spherical_laplace,
)
from hdpm_lib.private import check_ball
from hdpm_lib.validation import (
    check_choice,
    check_finite,
    check_flag,
    check_generator,
    check_losses,
    check_number,
    check_numeric,
    check_positive,
)

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class WeightedMean(Frozen):
    r"""A weighted mean with noise, ready to be released, and what it promises.

    Parameters
    ----------
    weights : array of shape (n,)
        Weights of the records, not negative, with sum 1.
    noise_rate : float
        Rate :math:`\eta` of the spherical Laplace noise, positive, in one over the records' units.
    centre : array of shape (d,)
        Centre of the ball of records.
    radius : float
        Radius of the ball, positive.
    shrink : float, default 1
        Factor `W` in [0, 1], by which the mean is shrunk towards the centre.
    clip : bool, default False
        Move records outside the ball onto it, and what is not a number to the centre, instead of an
        error.
    arithmetic : {"exact", "ideal"}, default "exact"
        Certain to the last digit, or floats, for studies.

    Notes
    -----
    Seller `i` loses exactly :math:`2\,\text{radius}\cdot w_i\eta`; neighbours: one record replaced
    by any other in the ball. So weights in proportion to accepted losses, and the rate sum of the
    losses over twice the radius, give everybody what she accepts. Public: all parameters.

    References
    ----------
    The law of the noise: Chaudhuri, Monteleoni and Sarwate (2011), "Differentially Private
    Empirical Risk Minimization", Journal of Machine Learning Research 12.

    Examples
    --------
    >>> mean = WeightedMean([0.75, 0.25], 8.0, [0.5], 0.5)
    >>> mean.privacy_loss, mean.noise
    (array([6., 2.]), 0.03125)
    >>> mean.release([[0.2], [0.9]], rng=np.random.default_rng(0)).shape
    (1,)
    """

    weights: Array
    noise_rate: float
    centre: Array
    radius: float
    shrink: float = 1.0
    clip: bool = False
    arithmetic: Literal["exact", "ideal"] = "exact"

    def __post_init__(self) -> None:
        weights = check_finite(self.weights, "weights", 1, 0, 1)
        if abs(weights.sum() - 1) > 1e-9:
            raise ValueError(f"weights must sum to 1, got {weights.sum()}")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "centre", check_finite(self.centre, "centre", 1))
        super().__post_init__()
        check_positive(self.noise_rate, "noise_rate")
        check_positive(self.radius, "radius")
        check_number(self.shrink, "shrink", 0, 1)
        check_flag(self.clip, "clip")
        check_choice(self.arithmetic, "arithmetic", ("exact", "ideal"))
        if self.arithmetic == "exact":
            _ = self.step  # its error now, from public numbers, and not once the data are in

    @property
    def step(self) -> float:
        """Step of the grid on which exact releases lie, before they are shrunk."""
        return grid_step(1 / self.noise_rate, self.radius + 32 * len(self.centre) / self.noise_rate)

    @property
    def privacy_loss(self) -> Array:
        r"""Privacy loss of each seller, :math:`2\,\text{radius}\cdot w_i\eta`, shape (n,)."""
        return 2 * self.radius * self.noise_rate * self.weights

    @property
    def noise(self) -> float:
        """Mean square of the noise before it is shrunk."""
        return float(len(self.centre) * coordinate_variance(len(self.centre), self.noise_rate))

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the noise in one coordinate of a release."""
        return float(self.shrink * np.sqrt(coordinate_variance(len(self.centre), self.noise_rate)))

    def noise_margin(self, level: float = 0.95) -> float:
        """Return how far noise moves one coordinate of a release at most, with a probability.

        Parameters
        ----------
        level : float, default 0.95
            The probability, between 0 and 1.

        Returns
        -------
        float
            Half the length of an interval around the released number, for the shrunk weighted mean
            of these records.
        """
        return self.shrink * coordinate_margin(len(self.centre), self.noise_rate, level)

    def population_margin(self, level: float = 0.95) -> float:
        r"""Return how far one coordinate of a release is at most from a population's mean.

        Parameters
        ----------
        level : float, default 0.95
            The probability, between 0 and 1, at least; half of what is missing goes to the noise.

        Returns
        -------
        float
            Noise, sampling and shrinking together, if records are independent draws from one law in
            the ball: by Hoeffding's inequality sampling is at most
            :math:`W\,\text{radius}\sqrt{2\ln(2/\alpha)\sum_iw_i^2}` with the probability
            :math:`1-\alpha`.

        Examples
        --------
        >>> mean = WeightedMean(np.full(1000, 0.001), 1000.0, [0.5], 0.5)
        >>> round(mean.noise_margin(), 4), round(mean.population_margin(), 4)
        (0.003, 0.0505)
        """
        missing = (1 - check_number(level, "level", 0, 1, ends="()")) / 2
        squares = self.weights @ self.weights
        sampling = self.radius * np.sqrt(2 * np.log(2 / missing) * squares)
        shrinking = (1 - self.shrink) * self.radius
        return float(self.noise_margin(1 - missing) + self.shrink * sampling + shrinking)

    @np.errstate(under="ignore")
    def release(
        self, records: ArrayLike, *, rng: np.random.Generator, size: int | tuple[int, ...] = ()
    ) -> Array:
        r"""Release noisy means; each one spends the whole privacy loss.

        Parameters
        ----------
        records : array of shape (n, d)
            Records in the ball, private.
        rng : numpy.random.Generator
            Source of the noise.
        size : int or tuple of int, default ()
            Shape of a batch of means; ``()`` gives one.

        Returns
        -------
        array of shape (\*size, d)
            Means with independent noise, in the units of the records.
        """
        apart = check_ball(records, "records", self.centre, self.radius, clip=self.clip)
        if len(apart) != len(self.weights):
            raise ValueError(
                f"records must have {len(self.weights)} rows, one for each weight, got {len(apart)}"
            )
        charge(lambda: self.privacy_loss, check_generator(rng), size)
        d = len(self.centre)
        if self.arithmetic == "ideal":
            noisy = self.weights @ apart + spherical_laplace(d, self.noise_rate, rng=rng, size=size)
        else:
            exactly = self._exactly(apart)
            noisy = with_noise(exactly, d, self.noise_rate, self.step, rng=rng, size=size)
        return self.centre + self.shrink * noisy

    def _exactly(self, apart: Array) -> Callable[[int], list[arb]]:
        """Return the mean of records on the grid as a function of a precision."""
        steps = on_grid(apart, self.radius, ball=True)
        ones = np.ones((len(steps), 1), dtype=np.int64)
        total, weight = weighted_products(self.weights, ones, steps)

        def exactly(bits: int) -> list[arb]:
            return (total * (arb(self.radius) * weight / GRID)).entries()

        return exactly


def weighted_mean(
    epsilon: ArrayLike,
    centre: ArrayLike,
    radius: float,
    *,
    shrink: float = 1.0,
    clip: bool = False,
    arithmetic: Literal["exact", "ideal"] = "exact",
) -> WeightedMean:
    r"""Calibrate a weighted mean in which every seller loses exactly what was bought from her.

    Parameters
    ----------
    epsilon : array of shape (n,), or Outcome
        Privacy losses, not negative: 0 leaves a seller out. An
        :class:`~hdpm_lib.markets.outcome.Outcome` stands for what a market has bought.
    centre : array of shape (d,)
        Centre of the ball of records.
    radius : float
        Radius of the ball, positive.
    shrink : float, default 1
        Factor in [0, 1], by which the mean is shrunk towards the centre.
    clip : bool, default False
        Move records outside the ball onto it, and what is not a number to the centre.
    arithmetic : {"exact", "ideal"}, default "exact"
        Certain to the last digit, or floats, for studies.

    Returns
    -------
    WeightedMean
        With weights in proportion to the losses; the rate of noise is
        :math:`\sum_i\varepsilon_i/2r`.

    Examples
    --------
    >>> from hdpm_lib.markets.fair_query import fair_query
    >>> weighted_mean(fair_query([1.0, 2.0, 9.0], 4.0), [0.5], 0.5).privacy_loss
    array([1., 1., 0.])
    """
    eps = check_losses(epsilon)
    total = eps.sum()
    rate = total / (2 * check_positive(radius, "radius"))
    check_positive(rate, "the sum of epsilon over twice the radius")
    return WeightedMean(eps / total, rate, centre, radius, shrink, clip, arithmetic)  # type: ignore[arg-type]


# --- the two yardsticks -------------------------------------------------------------------------


def _square(value: ArrayLike, name: str) -> Array:
    """Return a mean square, which may be infinite."""
    array = np.asarray(check_numeric(value, name), dtype=float)
    bad = ~(array >= 0)
    if bad.any():
        raise ValueError(f"{name} must not be negative, got {array[bad].flat[0]}")
    return array


def _weights(weights: ArrayLike) -> Array:
    """Return the weights of one seller or more."""
    w = check_finite(weights, "weights", low=0)
    if w.ndim == 0:
        raise ValueError(f"weights must hold at least one seller, got shape {w.shape}")
    return w


def _shrunk(factor: Array, square: Array) -> Array:
    """Multiply a mean square by the factor's square; 0 where the factor is 0."""
    nothing = np.zeros(np.broadcast_shapes(factor.shape, square.shape))
    return np.multiply(factor**2, square, out=nothing, where=factor > 0)


def sampling_error(weights: ArrayLike, noise: ArrayLike, variance: float) -> Array:
    r"""Return the mean squared error before shrinking, :math:`\tau^2\sum w_i^2+E\lVert Z\rVert^2`.

    Records are drawn from a law of that `variance`, :math:`\tau^2`. The inverse of the error, times
    the variance, is the *effective number* of records; where nothing is bought the error is
    infinite.
    """
    w = _weights(weights)
    tau2 = check_number(variance, "variance", 0)
    return np.asarray(tau2 * (w * w).sum(-1) + _square(noise, "noise"))


def population_error(error: ArrayLike, distance: float, shrink: ArrayLike) -> Array:
    r"""Return the population error :math:`(1-W)^2B^2+W^2X` for a sampling error `X`.

    `distance`, :math:`B^2`, is the squared distance of mean and centre.

    Examples
    --------
    >>> error = sampling_error([0.5, 0.5], 0.02, 1 / 12)
    >>> population_error(error, 1 / 12, best_shrink(error, 1 / 12)).round(4)
    np.float64(0.0354)
    """
    W = check_finite(shrink, "shrink", None, 0, 1)
    missed = check_number(distance, "distance", 0)
    return np.asarray((1 - W) ** 2 * missed + _shrunk(W, _square(error, "error")))


def best_shrink(error: ArrayLike, distance: float) -> Array:
    """Return the factor of the least population error: distance / (distance + error).

    `distance` is a guess of the squared distance of mean and centre.
    """
    guess = check_positive(distance, "distance")
    return np.asarray(guess / (guess + _square(error, "error")))


def worst_error(weights: ArrayLike, noise: ArrayLike, radius: float, shrink: ArrayLike) -> Array:
    r"""Return the worst error :math:`(r\sum_i|Ww_i-1/n|)^2+W^2E\lVert Z\rVert^2` in a ball.

    The radius of the ball is `r`. The error is attained: all records lie at the two ends of one
    diameter, on the side of the sign of :math:`Ww_i-1/n`.

    Examples
    --------
    >>> float(worst_error([1.0, 0.0], 0.0, 0.5, 1.0))   # all weight on one of two sellers
    0.25
    """
    w = _weights(weights)
    W = check_finite(shrink, "shrink", None, 0, 1)
    r = check_positive(radius, "radius")
    check_finite(r * w, "radius * weights")
    bias = r * np.abs(W[..., None] * w - 1 / w.shape[-1]).sum(-1)
    return np.asarray(bias**2 + _shrunk(W, _square(noise, "noise")))


def best_worst_shrink(weights: ArrayLike, noise: ArrayLike, radius: float) -> Array:
    r"""Return the factor of the least worst error, exact in time :math:`O(n\log n)`.

    Notes
    -----
    The worst error is convex in :math:`W`, and between two of the points :math:`1/(nw_i)` a
    parabola :math:`(r(pW+q))^2+W^2E\lVert Z\rVert^2`. On the first piece with a minimum before its
    end it has the least value.

    Examples
    --------
    >>> best_worst_shrink([0.5, 0.5], 0.5, 0.5).round(4)
    np.float64(0.3333)
    """
    w = _weights(weights)
    square = _square(noise, "noise")
    r = check_positive(radius, "radius")
    check_finite(r * w, "radius * weights")
    n = w.shape[-1]
    falling = -np.sort(-w, axis=-1)  # who turns from below to above 1/n first
    with np.errstate(divide="ignore", over="ignore"):
        turns = np.minimum(1 / (n * falling), 1.0)
    ends = np.append(turns, np.ones((*w.shape[:-1], 1)), axis=-1)
    above = np.append(np.zeros((*w.shape[:-1], 1)), np.cumsum(falling, axis=-1), axis=-1)
    # slope and height of the sum
    p = 2 * above - w.sum(-1, keepdims=True)
    q = 1 - 2 * np.arange(n + 1) / n
    curve = (r * p) ** 2 + square[..., None]
    lowest = np.full(curve.shape, np.inf)  # where the parabola has its minimum
    np.divide(-(r**2) * p * q, curve, out=lowest, where=curve > 0)
    first = np.argmax((lowest <= ends) | (ends >= 1), axis=-1)[..., None]
    starts = np.append(np.zeros((*w.shape[:-1], 1)), ends[..., :-1], axis=-1)
    return np.take_along_axis(np.clip(lowest, starts, ends), first, -1)[..., 0]
