r"""Tests of the law of noise: is the noise that a learner really used the noise that its guarantee
is about?

Whoever knows the data can take the noise back out of a release: the *implied noise* is what remains
when the part without noise, computed apart from the learner, is subtracted. The tests look at it in
every way that a broken sampler, a wrong rate or a wrong centre would show
(:doc:`/book/privacy/audits`). Each gives a p-value; together they are one test. That it passes says
nothing about the sensitivity that the rate rests on: that is the task of a meter.

Throughout, `noise` of shape (N, d) holds at least two draws, in the order in which they were made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import betainc, chdtrc, gammaln, ndtr

from hdpm_lib.validation import FALSE_ALARM, check_finite, check_number, check_positive

Array = NDArray[np.float64]

LAW_TESTS = 16  # at least as many as one law makes
COMMONEST = -40 * math.log(2)  # logarithm of what no single number may exceed in probability
_BLOCK = 10_000  # draws whose directions are held at a time
_ISOTROPY = 30  # largest dimension in which the whole matrix of second moments is tested


@dataclass(frozen=True)
class LawTest:
    """One look at so many draws; the p-value is the probability of a statistic as far out, if the
    law is right.
    """

    name: str
    draws: int
    statistic: float
    p_value: float

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.draws} draws, statistic {self.statistic:.6g}, p ="
            f" {self.p_value:.3g}"
        )


def smallest_p(tests: Sequence[LawTest]) -> float:
    """Return the p-value of several tests together: the smallest, times their number (Bonferroni).

    Examples
    --------
    >>> smallest_p([LawTest("a", 10, 0.1, 0.5), LawTest("b", 10, 9.0, 1e-4)])
    0.0002
    """
    if not tests:
        raise ValueError("tests is empty: nothing was looked at")
    return min(1.0, len(tests) * min(test.p_value for test in tests))


def spherical_law(noise: ArrayLike, rate: float) -> tuple[LawTest, ...]:
    r"""Test that draws are independent, with the density proportional to
    :math:`\exp(-\text{rate}\,\lVert z\rVert_2)`.

    The sum of the radii, times the rate, has the Gamma law of shape :math:`Nd` exactly; the limits
    of the Kolmogorov-Smirnov tests are Massart's, and hold at every N. The others are normal or
    chi-square for large N, as :doc:`/book/privacy/audits` lists; *levels* are values of a
    distribution function, less one half. Repeated numbers are counted exactly: if no number has a
    probability above :math:`2^{-40}`, `k` of N numbers repeat an earlier one with a probability of
    at most :math:`(N^22^{-41})^k/k!`.

    Examples
    --------
    >>> from hdpm_lib.noise import spherical_laplace
    >>> z = spherical_laplace(3, 2.0, rng=np.random.default_rng(0), size=1000)
    >>> smallest_p(spherical_law(z, 2.0)) > 0.01, smallest_p(spherical_law(z, 2.6)) < 1e-6
    (True, True)
    """
    z = _draws(noise)
    r = check_positive(rate, "rate")
    n, d = z.shape
    radius = r * np.linalg.norm(z, axis=1)
    level = stats.gamma.cdf(radius, d) - 0.5  # uniform on [-1/2, 1/2]
    oblique = np.sqrt(np.arange(1.0, d + 1))
    axes = np.stack(
        [np.eye(d)[0], np.eye(d)[-1], np.full(d, d**-0.5), oblique / np.linalg.norm(oblique)]
    )
    mean = np.zeros(d)
    with_radius = np.zeros(d)
    second = np.zeros((d, d))
    follow = 0.0
    last = np.empty((0, d))
    angles = []
    for k in range(0, n, _BLOCK):
        part = slice(k, k + _BLOCK)
        length = radius[part, None] / r  # 0 also where squares underflow
        u = z[part] / np.where(length > 0, length, np.inf)
        mean = mean + u.sum(0)
        with_radius = with_radius + level[part] @ u
        joined = np.concatenate([last, u])
        follow += float((joined[1:] * joined[:-1]).sum())
        last = u[-1:]
        angles.append(u @ axes.T)
        if d <= _ISOTROPY:
            second = second + u.T @ u
    tests = [
        _distance("radius", n, radius, stats.gamma, d),
        _two_sided("sum of radii", n, float(radius.sum()), stats.gamma, n * d),
        _chi_square("mean direction", n, float(d * mean @ mean / n), d),
        _chi_square(
            "radius with direction", n, float(d * with_radius @ with_radius / (level @ level)), d
        ),
        _normal("consecutive radii", n, 12 * float(level[1:] @ level[:-1]) / math.sqrt(n - 1)),
        _normal("consecutive directions", n, math.sqrt(d / (n - 1)) * follow),
        _repeats(z[:, [0, -1]] if d > 1 else z),
    ]
    if d > 1:
        t = np.concatenate(angles)
        # levels of the squared projections
        far = betainc(0.5, (d - 1) / 2, np.minimum(t**2, 1)) - 0.5
        for j in range(4):
            tests.append(
                _distance(
                    f"projection {j}", n, t[:, j], stats.beta, (d - 1) / 2, (d - 1) / 2, -1, 2
                )
            )
            both = 12 * float(level @ far[:, j]) / math.sqrt(n)
            tests.append(_normal(f"radius with squared projection {j}", n, both))
    if 1 < d <= _ISOTROPY:
        off = float(((second / n - np.eye(d) / d) ** 2).sum())
        tests.append(
            _two_sided("isotropy", n, n * d * (d + 2) / 2 * off, stats.chi2, (d - 1) * (d + 2) / 2)
        )
    return tuple(tests)


def laplace_law(noise: ArrayLike, scale: float) -> tuple[LawTest, ...]:
    r"""Test that all numbers of all draws are independent Laplace variables of one scale.

    Exact at every N: the total size is Gamma of shape :math:`Nd`, that of one coordinate Gamma of
    shape :math:`N`, and numbers of signs, as well as of equal signs of neighbours, are binomial.
    Products of the levels of neighbours are normal for large N.

    Examples
    --------
    >>> z = np.random.default_rng(0).laplace(scale=2.0, size=(500, 4))
    >>> smallest_p(laplace_law(z, 2.0)) > 0.01
    True
    """
    z = _draws(noise)
    b = check_positive(scale, "scale")
    n, d = z.shape
    size = np.abs(z) / b
    positive = z > 0
    level = -np.expm1(-size) - 0.5
    tests = [
        _distance("values", n, z.ravel() / b, stats.laplace),
        _two_sided("total size", n, float(size.sum()), stats.gamma, n * d),
        _signs("signs", n, positive),
        _signs("signs of consecutive draws", n, positive[1:] == positive[:-1]),
        _normal(
            "sizes of consecutive draws",
            n,
            12 * float((level[1:] * level[:-1]).sum()) / math.sqrt((n - 1) * d),
        ),
        _normal(
            "size with sign",
            n,
            math.sqrt(12 / (n * d)) * float((level * np.where(positive, 1, -1)).sum()),
        ),
        _repeats(z[:, [0, -1]] if d > 1 else z),
    ]
    if d > 1:
        products = 12 * float((level[:, 1:] * level[:, :-1]).sum()) / math.sqrt(n * (d - 1))
        tests += [
            _worst("size of a coordinate", n, size.sum(0), stats.gamma, n),
            _worst("signs of a coordinate", n, positive.sum(0), stats.binom, n, 0.5),
            _signs("signs of neighbouring coordinates", n, positive[:, 1:] == positive[:, :-1]),
            _normal("sizes of neighbouring coordinates", n, products),
        ]
    return tuple(tests)


def rate_resolution(draws: ArrayLike, dimension: ArrayLike, *, level: float = FALSE_ALARM) -> Array:
    """Return the smallest relative excess of the rate (noise too small) that a law of noise exposes
    nine times in ten.

    It follows from the exact law of the sum of the radii, or of the total size. `level`, between 0
    and 1, is that of all tests together; `draws` and `dimension`, positive integers, broadcast.

    Examples
    --------
    >>> rate_resolution([100, 10_000], 12).round(3)
    array([0.218, 0.02 ])
    """
    shapes = check_finite(draws, "draws", low=1), check_finite(dimension, "dimension", low=1)
    check_number(level, "level", 0, 1, ends="()")
    try:
        shape = np.multiply(*shapes)
    except ValueError:
        raise ValueError(
            f"draws and dimension must broadcast, got {shapes[0].shape} and {shapes[1].shape}"
        ) from None
    limit = stats.gamma.ppf(level / LAW_TESTS / 2, shape)
    return np.asarray(stats.gamma.ppf(0.9, shape) / limit - 1)


def _draws(noise: ArrayLike) -> Array:
    z = check_finite(noise, "noise", 2)
    if len(z) < 2:
        raise ValueError(f"noise must hold at least 2 draws, got {len(z)}")
    return z


def _distance(name: str, n: int, values: Array, law: Any, *given: float) -> LawTest:
    """Test values against a law by Kolmogorov-Smirnov, with Massart's bound, valid at every N."""
    distance = float(stats.ks_1samp(values, law.cdf, given, method="asymp").statistic)
    return LawTest(name, n, distance, min(1.0, 2 * math.exp(-2 * len(values) * distance**2)))


def _two_sided(name: str, n: int, statistic: float, law: Any, *given: float) -> LawTest:
    tail = float(min(law.cdf(statistic, *given), law.sf(statistic, *given)))
    return LawTest(name, n, statistic, min(1.0, 2 * tail))


def _chi_square(name: str, n: int, statistic: float, freedom: float) -> LawTest:
    return LawTest(name, n, statistic, float(chdtrc(freedom, statistic)))


def _normal(name: str, n: int, z: float) -> LawTest:
    return LawTest(name, n, z, 2 * float(ndtr(-abs(z))))


def _signs(name: str, n: int, positive: NDArray[np.bool_]) -> LawTest:
    """Test the number of successes among fair and independent ones."""
    count = int(positive.sum())
    tries = positive.size
    tail = float(min(stats.binom.cdf(count, tries, 0.5), stats.binom.sf(count - 1, tries, 0.5)))
    return LawTest(name, n, count, min(1.0, 2 * tail))


def _worst(name: str, n: int, statistics: Array, law: Any, *given: float) -> LawTest:
    """Test the coordinate that is furthest out, each by its exact law."""
    tails = np.minimum(
        law.cdf(statistics, *given), law.sf(statistics - (statistics.dtype.kind == "i"), *given)
    )
    j = int(np.argmin(tails))
    return LawTest(name, n, float(statistics[j]), min(1.0, 2 * len(tails) * float(tails[j])))


def _repeats(numbers: Array) -> LawTest:
    """Test how many numbers stood before, exactly."""
    size = numbers.size
    repeated = numbers.size - len(np.unique(numbers))
    bound = repeated * (2 * math.log(size) - math.log(2) + COMMONEST) - gammaln(repeated + 1)
    return LawTest("repeats", len(numbers), repeated, math.exp(min(0.0, bound)))
