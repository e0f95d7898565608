r"""Bounds on the privacy loss of two data sets from right guesses of a bit, with any delta.

Fair coins choose one of two data sets in each of `runs` independent runs; a fixed rule looks at the
release and guesses the coin, or abstains. With :math:`p=e^\varepsilon/(1+e^\varepsilon)` and a
guess made with probability `G`, an :math:`(\varepsilon,\delta)`-private release lets a guess be
right with a probability of at most

.. math:: p+(1-p)\frac{\delta s}{2G},

where `s` is 1 if the rule only ever guesses one of the coin's sides and 2 if both:
:doc:`/book/privacy/audits` has the proof. Given the number of guesses, right ones are binomial; `G`
is bounded from below at a tenth of the level.

Throughout, `made` and `right` are numbers of guesses made and of right ones, arrays of one shape,
`epsilon` is not negative, `delta` in [0, 1), and `level` in (0, 1) is the probability of a false
alarm or of a wrong bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats
from scipy.special import expit, logit

from hdpm_lib.validation import FALSE_ALARM, check_count, check_finite, check_number, check_positive

Array = NDArray[np.float64]
Bits = NDArray[np.bool_]

_SHARE = 0.1  # of the level, for the bound on the probability of a guess, where delta is positive
MOST_RUNS = 10**12  # far beyond, SciPy's quantiles of a binomial fail


def _least_made(made: ArrayLike, runs: float, level: float) -> Array:
    """Bound the probability of a guess from below (Clopper and Pearson)."""
    k = np.asarray(made, dtype=float)
    return np.where(k > 0, stats.beta.ppf(level, np.maximum(k, 1e-300), runs - k + 1), 0.0)


def most_right(guessed: ArrayLike, epsilon: float, delta: float = 0.0, sides: int = 2) -> Array:
    """Return the largest probability that a guess is right, if a share of the runs is guessed.

    The share `guessed` is in (0, 1].

    Examples
    --------
    >>> most_right([0.5, 1.0], 0.0, delta=0.1)
    array([0.6 , 0.55])
    """
    p = expit(check_number(epsilon, "epsilon", 0))
    free = check_number(delta, "delta", 0, 1, ends="[)") * check_count(sides, "sides", 1, 2) / 2
    share = check_finite(guessed, "guessed", low=0, high=1)
    given: Array | float = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        if free:
            given = free / share
        # NaN where nobody guesses and every guess would be right
        return np.asarray(np.fmin(1.0, p + (1 - p) * given))


def guess_p_value(
    right: int, made: int, runs: int, epsilon: float, delta: float = 0.0, sides: int = 2
) -> float:
    """Return the smallest level at which guesses reject that data sets are as close as claimed.

    Examples
    --------
    >>> round(guess_p_value(60, 80, 100, 0.0), 9)
    4.29e-06
    >>> round(guess_p_value(60, 80, 100, 0.0, delta=0.1), 3)
    0.001
    """
    n = check_count(runs, "runs", 1, MOST_RUNS)
    k = check_count(made, "made", 0, n)
    c = check_count(right, "right", 0, k)
    most_right(1.0, epsilon, delta, sides)  # checks the claim
    if k == 0:
        return 1.0

    def tail(level: float) -> float:
        least = 1.0 if delta == 0 else float(_least_made(k, n, _SHARE * level))
        return float(stats.binom.sf(c - 1, k, most_right(least, epsilon, delta, sides)))

    if delta == 0:
        return tail(1.0)
    if tail(1.0) > 1 - _SHARE:
        return 1.0

    def above(x: float) -> float:
        return float(np.log(max(tail(np.exp(x)), 1e-300) / (1 - _SHARE)) - x)

    low = -690.0  # the smallest normal doubles are at e^-708
    if above(low) < 0:
        return float(np.exp(low))
    root = optimize.brentq(above, low, 0.0, xtol=1e-9)
    return min(1.0, float(np.exp(root + 2e-9)))  # too high by its tolerance, rather than too low


def guess_epsilon(
    right: ArrayLike, made: ArrayLike, runs: float, level: float, delta: float = 0.0, sides: int = 2
) -> Array:
    """Bound the loss of the pair at this `delta` from below, too high with probability `level`.

    The bound is negative where the guesses are no better than those of a coin, and minus infinity
    where none was made. Numbers of guesses may be expected ones, and need not be whole.

    Examples
    --------
    >>> guess_epsilon([60, 70], 80, 100, 0.05).round(3)
    array([0.654, 1.369])
    """
    most = check_number(level, "level", 0, 1, ends="()")
    free = check_number(delta, "delta", 0, 1, ends="[)") * check_count(sides, "sides", 1, 2) / 2
    n = check_positive(runs, "runs")
    k = check_finite(made, "made", low=0, high=n)
    c = check_finite(right, "right", low=0)
    if c.ndim and k.ndim and c.shape != k.shape:
        raise ValueError(f"right must have the shape of made, {k.shape}, or none, got {c.shape}")
    k, c = np.broadcast_arrays(k, c)
    if (c > k).any():
        raise ValueError(f"right must not exceed made, got {c[c > k][0]:g} right guesses")
    share = (1 - _SHARE) * most if free else most
    rate = np.where(c > 0, stats.beta.ppf(share, np.maximum(c, 1e-300), k - c + 1), 0.0)
    if free:
        with np.errstate(divide="ignore"):
            given = np.minimum(free / _least_made(k, n, _SHARE * most), 1.0)
        rate = np.where(rate > given, (rate - given) / np.maximum(1 - given, 1e-300), 0.0)
    return np.asarray(logit(rate))


def power_of_guesses(
    true: float,
    guessed: ArrayLike,
    runs: int,
    epsilon: float,
    level: float,
    delta: float = 0.0,
    sides: int = 2,
) -> Any:  # of the shape of `guessed`
    """Return the probability that guesses as often right as a loss allows reject a claim.

    The loss is `true`. The number of guesses is taken to be the expected one of a rule that guesses
    in a share `guessed` of the runs.

    Examples
    --------
    >>> power_of_guesses(1.05, [0.7, 0.8], 100_000, 1.0, 1e-6).round(2)
    array([0.86, 0.93])
    """
    most = check_number(level, "level", 0, 1, ends="()")
    most_right(1.0, epsilon, delta, sides)  # checks the claim
    loss = check_number(true, "true", 0)
    share = check_finite(guessed, "guessed", low=0, high=1)
    made = np.round(share * check_count(runs, "runs", 1, MOST_RUNS))
    least = share
    if delta > 0:
        least = _least_made(made, runs, _SHARE * most)
        most = (1 - _SHARE) * most
    critical = stats.binom.isf(most, made, most_right(least, epsilon, delta, sides))
    power = stats.binom.sf(critical, made, most_right(share, loss, delta, sides))
    return np.where(made > 0, power, 0.0)[()]


def detectable(
    guessed: float,
    runs: int,
    epsilon: float,
    level: float,
    delta: float = 0.0,
    sides: int = 2,
    power: float = 0.9,
) -> float:
    """Return the smallest loss that a rule exposes which guesses this often, or infinity.

    It is exposed with probability `power`.

    Examples
    --------
    >>> round(detectable(0.7, 100_000, 1.0, 1e-6), 3)
    1.052
    """
    wanted = check_number(power, "power", 0, 1, ends="()")
    claim = check_number(epsilon, "epsilon", 0)
    # checks the other arguments
    power_of_guesses(epsilon, guessed, runs, epsilon, level, delta, sides)

    def short(excess: float) -> float:
        chance = power_of_guesses(claim + excess, guessed, runs, claim, level, delta, sides)
        return float(chance - wanted)

    if claim > 690 or short(700.0 - claim) < 0:
        return np.inf
    top = 1e-12
    while short(top) < 0:
        top *= 4
    excess = float(optimize.brentq(short, 0.0, top, xtol=1e-9 * top))
    return claim + excess + 2e-9 * top


def holm(p_values: ArrayLike, level: float = FALSE_ALARM) -> Bits:
    """Tell which of several hypotheses to reject: any true one with probability at most `level`.

    By the rule of Holm (1979, A simple sequentially rejective multiple test procedure); the
    p-values, of shape (m,), may depend on each other.

    Examples
    --------
    >>> holm([0.03, 0.004, 0.02], 0.05)
    array([ True,  True,  True])
    """
    p = check_finite(p_values, "p_values", 1, 0, 1)
    most = check_number(level, "level", 0, 1, ends="()")
    order = np.argsort(p)
    below = p[order] <= most / np.arange(len(p), 0, -1)
    rejected = np.zeros(len(p), dtype=bool)
    rejected[order] = np.minimum.accumulate(below)  # up to the first that is not
    return rejected
