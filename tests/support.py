"""What many tests share: seeded generators, checks at the shared false-alarm rate, wrong samplers."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from hdpm_lib.audits.laws import LAW_TESTS, LawTest, spherical_law
from hdpm_lib.noise import spherical_laplace
from hdpm_lib.validation import FALSE_ALARM

SEED = int(os.environ.get("HDPM_TEST_SEED", "0"))  # any other must pass as well
Sampler = Callable[..., np.ndarray]


def generator(*key: int) -> np.random.Generator:
    return np.random.default_rng([SEED, *key])


@dataclass(frozen=True)
class Check:
    """One look at `n` draws; it objects to a statistic outside [low, high]."""

    name: str
    n: int
    statistic: float
    low: float
    high: float

    @property
    def objects(self) -> bool:
        return not self.low <= self.statistic <= self.high

    def __str__(self) -> str:
        return f"{self.name}: n={self.n}, statistic={self.statistic:.6g}, allowed [{self.low:.6g}, {self.high:.6g}]"


def objections(checks: Iterable[Check]) -> list[str]:
    return [str(check) for check in checks if check.objects]


def z_limit(looks: int = 1) -> float:
    """Largest absolute z-score that `looks` two-sided tests together let pass, at the shared false-alarm rate."""
    return float(stats.norm.isf(FALSE_ALARM / looks / 2))


def z_check(name: str, n: int, z: float, looks: int) -> Check:
    return Check(name, n, z, -z_limit(looks), z_limit(looks))


def ks_check(name: str, values: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray], looks: int) -> Check:
    """Kolmogorov-Smirnov; the limit is Massart's, valid at every n."""
    n = len(values)
    distance = stats.ks_1samp(values, cdf, method="asymp").statistic
    return Check(name, n, float(distance), 0.0, math.sqrt(math.log(2 * looks / FALSE_ALARM) / (2 * n)))


def mean_z(samples: np.ndarray, mean: Any) -> np.ndarray:
    """Distance of sample means (axis 0) from `mean` in standard errors."""
    return (samples.mean(0) - mean) / (samples.std(0, ddof=1) / math.sqrt(len(samples)))


def law_checks(draws: Callable[[int], np.ndarray], n: int, looks: int = 1) -> list[Check]:
    """`spherical_law` of `n` vectors of rate one, each test as a check of its p-value.

    `draws(k)` gives the next `k` of them; `looks` is the number of such calls in one test.
    """
    chunk = min(n, 10_000)
    first = draws(chunk)
    noise = np.empty((n // chunk * chunk, first.shape[1]))  # one array: at d = 615 it is large
    noise[:chunk] = first
    for k in range(chunk, len(noise), chunk):
        noise[k : k + chunk] = draws(chunk)
    return p_checks(spherical_law(noise, 1.0), looks)


def p_checks(tests: Iterable[LawTest], looks: int = 1) -> list[Check]:
    """Checks that object to p-values, at the shared false-alarm rate over `looks` law tests."""
    level = FALSE_ALARM / (looks * LAW_TESTS)
    return [Check(test.name, test.draws, test.p_value, level, 1.0) for test in tests]


def with_shape(change: int) -> Sampler:
    def draw(d: int, rate: Any, *, rng: np.random.Generator, size: Any = ()) -> np.ndarray:
        z = spherical_laplace(d, 1.0, rng=rng, size=size)
        shape = z.shape[:-1]
        radius = rng.gamma(d + change, 1 / np.asarray(rate), size=shape)
        return z / np.linalg.norm(z, axis=-1, keepdims=True) * radius[..., None]

    return draw


def rate_as_scale(d: int, rate: Any, *, rng: np.random.Generator, size: Any = ()) -> np.ndarray:
    return spherical_laplace(d, 1 / np.asarray(rate), rng=rng, size=size)


def laplace_by_coordinate(d: int, rate: Any, *, rng: np.random.Generator, size: Any = ()) -> np.ndarray:
    shape = (size,) if isinstance(size, int) else tuple(size)
    return rng.laplace(0, 1 / np.asarray(rate)[..., None], (*shape, d))


def times(factor: float) -> Sampler:
    return lambda d, rate, *, rng, size=(): factor * spherical_laplace(d, rate, rng=rng, size=size)
