r"""What an audit would have exposed: the smallest errors that its tests find, and with what probability.

A test that passes says something only together with its power. Both tests here run at the level `FALSE_ALARM` of the
whole book unless told otherwise. Their power is that of exact Gamma and binomial laws.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats
from scipy.special import betainc, expit, xlogy

from hdpm_lib.ledger import FALSE_ALARM
from hdpm_lib.validation import check_count, check_finite, check_number, check_positive

Array = NDArray[np.float64]

LAW_TESTS = 16  # at least as many as a test of the law of noise makes
TRAIN = 0.3  # share of the runs of a random-bit test that choose its thresholds


def rate_resolution(draws: ArrayLike, dimension: ArrayLike, *, power: float = 0.9, level: float = FALSE_ALARM) -> Array:
    """Smallest relative excess of the rate (noise too small) that a test of the law of noise exposes with that power.

    Parameters
    ----------
    draws, dimension : integer array
        Numbers of draws and of coordinates, positive; broadcast.
    power : float, default 0.9
        Between 0 and 1.
    level : float
        Of all tests together.

    Returns
    -------
    array of the broadcast shape
        By the exact law of the sum of the radii (in :func:`hdpm_lib.audit_noise.laplace_law`: of the total size).

    Examples
    --------
    >>> rate_resolution([100, 10_000], 12).round(3)
    array([0.218, 0.02 ])
    """
    shapes = check_finite(draws, "draws", low=1), check_finite(dimension, "dimension", low=1)
    check_number(power, "power", 0, 1, ends="()"), check_number(level, "level", 0, 1, ends="()")
    try:
        shape = np.multiply(*shapes)
    except ValueError:
        raise ValueError(f"draws and dimension must broadcast, got {shapes[0].shape} and {shapes[1].shape}") from None
    limit = stats.gamma.ppf(level / LAW_TESTS / 2, shape)
    return np.asarray(stats.gamma.ppf(power, shape) / limit - 1)


def exponent(frequency: ArrayLike, claim: float) -> Array:
    r"""Evidence of each guess that guesses are right more often than a claim allows.

    Parameters
    ----------
    frequency : array of shape (...)
        Of right guesses among those made, in [0, 1].
    claim : float
        Privacy loss, not negative.

    Returns
    -------
    array of shape (...)
        Relative entropy of the frequency to :math:`e^\varepsilon/(1+e^\varepsilon)`, 0 below it: `K` guesses with
        that frequency have a binomial tail of about its exponential, raised to the power `-K`.

    Examples
    --------
    >>> exponent([0.5, 1.0], 0.0).round(4)
    array([0.    , 0.6931])
    """
    check_number(claim, "claim", 0)
    f = np.maximum(check_finite(frequency, "frequency", low=0, high=1), expit(claim))
    entropy = xlogy(f, f / expit(claim)) + xlogy(1 - f, (1 - f) / max(expit(-claim), 1e-300))
    return np.where(f > expit(claim), np.maximum(entropy, 0), 0.0)


def training_runs(runs: int, train: float = TRAIN) -> int:
    """Number of runs of a random-bit test, of at least 100, that only choose its thresholds.

    Examples
    --------
    >>> training_runs(1000)
    300
    """
    check_count(runs, "runs", 100)
    check_number(train, "train", 0, 1, ends="()")
    return round(train * runs)


def event(loss: float, claim: float, dimension: int = 1) -> tuple[float, float]:
    r"""The guessing rule that tells most against a claim, for spherical Laplace noise of a known exact loss.

    Parameters
    ----------
    loss, claim : float
        Exact privacy loss of the pair, and what is claimed; positive.
    dimension : int, default 1

    Returns
    -------
    tuple of float
        Probability that a guess is made, and that a guess is right.

    Notes
    -----
    It guesses where the log ratio of the densities is beyond :math:`\pm t`; of 50 shares :math:`t/\text{loss}` the one
    with the most expected evidence is taken. With rate one and centres :math:`\varepsilon` apart, the log ratio at the
    radius :math:`\rho` around the first centre is at least `t` where the cosine of the direction is at least

    .. math:: \frac{\varepsilon^2+2\rho t-t^2}{2\rho\varepsilon}\qquad(2\rho\ge\varepsilon+t),

    which leaves a quadrature over the radius. The second centre sees the first turned around.

    Examples
    --------
    >>> made, right = event(1.2, 1.0)   # in one dimension close to everything beyond the two centres
    >>> round(made, 2), round(float(np.log(right / (1 - right))), 2)
    (0.68, 1.2)
    """
    check_positive(loss, "loss"), check_positive(claim, "claim"), check_count(dimension, "dimension")
    t = loss * np.linspace(0.02, 1, 50)
    one, zero = 1 - _exceeds(-t, loss, dimension), _exceeds(t, loss, dimension)
    made = one + zero
    right = one / np.maximum(made, 1e-300)
    best = int(np.argmax(made * exponent(np.clip(right, 0, 1), claim)))
    return float(made[best]), float(right[best])


def _exceeds(t: Array, loss: float, dimension: int) -> Array:
    """Probability, under the first data set, that the log ratio is at least each of some `t`."""
    nodes, weights = _legendre()
    end = np.sqrt(dimension + 12 * np.sqrt(dimension) + 40)
    root, weights = (nodes + 1) / 2 * end, weights * end / 2
    radius = (loss + t)[:, None] / 2 + root**2  # its root, as the integrand starts with a root
    a, cosine = (dimension - 1) / 2, (loss**2 + 2 * radius * t[:, None] - t[:, None] ** 2) / (2 * radius * loss)
    cap = betainc(a, a, np.clip((1 - cosine) / 2, 0, 1)) if dimension > 1 else 0.5
    return np.asarray((stats.gamma.pdf(radius, dimension) * cap) @ (2 * root * weights))


@cache
def _legendre() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(120)
    return nodes, weights


def power(
    claim: float,
    true: float,
    runs: int,
    *,
    dimension: int = 1,
    sellers: int = 1,
    scores: int = 1,
    train: float = TRAIN,
    level: float = FALSE_ALARM,
) -> float:
    """Probability that a random-bit test rejects a claim about spherical Laplace noise, by exact binomials.

    Parameters
    ----------
    claim, true : float
        Privacy loss claimed and exact privacy loss of the pair, positive.
    runs : int
        All runs. Those of the training part are not counted again, and :func:`event` is taken for what they chose.
    dimension : int, default 1
    sellers, scores : int, default 1
        The level is shared by so many sellers (Bonferroni), with so many scores each.
    train, level : float

    Returns
    -------
    float

    Examples
    --------
    >>> round(power(1.0, 1.06, 100_000), 3)
    0.838
    """
    check_positive(claim, "claim"), check_positive(true, "true"), check_number(level, "level", 0, 1, ends="()")
    tests, n = check_count(sellers, "sellers") * check_count(scores, "scores"), runs - training_runs(runs, train)
    made, right = event(true, claim, dimension)
    middle, spread = n * made, 5 * np.sqrt(n * made * max(1 - made, 0.0))
    guesses = np.unique(np.clip(np.linspace(middle - spread, middle + spread, 401), 0, n).round())
    weight = stats.binom.pmf(guesses, n, made)
    critical = stats.binom.isf(level / tests, guesses, expit(claim))
    return float(weight @ stats.binom.sf(critical, guesses, right) / weight.sum())


def exposed_excess(
    claim: float, runs: int, *, sellers: int = 1, level: float = FALSE_ALARM, power: float = 0.9, **options: Any
) -> float:
    """Smallest relative excess of the exact privacy loss that a random-bit test exposes with that power.

    Parameters
    ----------
    claim, runs, sellers, level
        As for :func:`hdpm_lib.audit_power.power`; so are further `options`.
    power : float, default 0.9
        With the best thresholds known. Learned ones reach it in one dimension; in two they lose up to a sixth of it,
        and an excess for 0.98 is found with 0.9.

    Returns
    -------
    float
        0.05 if a loss of 1.05 times the claim is found with that probability.

    Examples
    --------
    >>> round(exposed_excess(1.0, 100_000), 3)
    0.063
    """
    check_positive(claim, "claim"), check_number(level, "level", 0, 1, ends="()")
    check_number(power, "power", 0, 1, ends="()")

    def short(log_factor: float) -> float:
        return _power(claim, claim * np.exp(log_factor), runs, sellers=sellers, level=level, **options) - power

    top = 0.1
    while short(top) < 0:
        top *= 2
        if top > 10:
            raise ValueError(f"runs = {runs} expose no excess of claim = {claim}, however large")
    return float(np.expm1(optimize.brentq(short, 0.0, top, xtol=1e-5)))


_power = power
