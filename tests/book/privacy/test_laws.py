"""Laws of the noise that learners used: p-values that are right, learners that pass, and errors
that do not.

The spherical law has its broken samplers in test_noise.py, and the ridge learner its own in
test_noise_in_use.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hdpm_book.privacy import laws
from hdpm_book.privacy.laws import (
    LAW_TESTS,
    LawTest,
    laplace_law,
    rate_resolution,
    smallest_p,
    spherical_law,
)
from hdpm_lib.noise import spherical_laplace
from hdpm_lib.validation import FALSE_ALARM
from tests.support import generator, objections, p_checks, z_limit

Maker = Callable[[np.random.Generator, int, int], np.ndarray]


def named(tests: Iterable[LawTest], name: str) -> LawTest:
    return next(test for test in tests if test.name == name)


EXACT = {"sum of radii", "total size"}  # uniform at every N, but for the two tails


@pytest.mark.parametrize("law", ["spherical 1", "spherical 3", "laplace 1", "laplace 4"])
def test_p_values_are_not_too_small(law: str) -> None:
    name, width = law.split()
    rng = generator(430, int(width), len(name))
    runs = 300
    n = 200
    values: dict[str, list[float]] = {}
    for _ in range(runs):
        if name == "spherical":
            tests = spherical_law(spherical_laplace(int(width), 3.0, rng=rng, size=n), 3.0)
        else:
            tests = laplace_law(rng.laplace(scale=3.0, size=(n, int(width))), 3.0)
        assert len(tests) <= LAW_TESTS
        for test in tests:
            values.setdefault(test.name, []).append(test.p_value)
        values.setdefault("together", []).append(smallest_p(tests))
    looks = 3 * len(values)
    for test_name, p in values.items():
        for level in (0.2, 0.05, 0.01):
            count = (np.array(p) < level).sum()
            assert count <= stats.binom.isf(FALSE_ALARM / looks, runs, level), (test_name, level)
        if test_name in EXACT:
            distance = stats.kstest(p, stats.uniform.cdf).statistic
            assert distance < math.sqrt(math.log(2 * looks / FALSE_ALARM) / (2 * runs)), test_name


def exact_repeats(numbers: int, values: int) -> np.ndarray:
    """Probability of at least k repeats among equally likely values: the number of different ones
    is a Markov chain.
    """
    different = np.zeros(numbers + 1)
    different[0] = 1.0
    for _ in range(numbers):
        stay = different * np.arange(numbers + 1) / values
        different = stay + np.concatenate(
            [[0.0], (different * (1 - np.arange(numbers + 1) / values))[:-1]]
        )
    return np.cumsum(different)[::-1]  # at least k repeats: at most numbers - k different ones


@pytest.mark.parametrize(("numbers", "bits"), [(8, 8), (40, 12), (200, 16)])
def test_repeats_are_bounded(numbers: int, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laws, "COMMONEST", -bits * math.log(2))
    exact = exact_repeats(numbers, 2**bits)
    for k in range(min(numbers, 8)):
        draws = np.maximum(np.arange(numbers), k)[:, None] * 1.0  # k numbers repeat
        found = named(spherical_law(draws + 1, 1.0), "repeats")
        assert found.statistic == k and exact[k] <= found.p_value * (1 + 1e-9)
        if k == 0:
            assert found.p_value == 1
        elif k <= 2 and exact[k] < 0.1:
            assert found.p_value < 3 * exact[k]  # and not for nothing


def twice(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    return np.repeat(rng.laplace(size=(n // 2, k)), 2, axis=0)


def later_again(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    """Noise that comes back two draws later."""
    z = rng.laplace(size=(n, k))
    z[2::4], z[3::4] = z[::4][: len(z[2::4])], z[1::4][: len(z[3::4])]
    return z


BROKEN: dict[str, tuple[Maker, str]] = {
    "7 % small": (lambda rng, n, k: rng.laplace(scale=0.93, size=(n, k)), "total size"),
    "scale of a standard deviation": (
        lambda rng, n, k: rng.laplace(scale=2**-0.5, size=(n, k)),
        "values",
    ),
    "Gaussian": (lambda rng, n, k: rng.normal(scale=1.25, size=(n, k)), "values"),
    "one-sided": (lambda rng, n, k: rng.exponential(size=(n, k)), "signs"),
    "off centre": (lambda rng, n, k: rng.laplace(0.2, size=(n, k)), "signs"),
    "skewed": (
        lambda rng, n, k: np.maximum(*(rng.laplace(scale=b, size=(n, k)) for b in (1.2, 1))),
        "size with sign",
    ),
    "each twice": (twice, "signs of consecutive draws"),
    "sizes twice": (
        lambda rng, n, k: twice(rng, n, k) * rng.choice([-1, 1], (n, k)),
        "sizes of consecutive draws",
    ),
    "later again": (later_again, "repeats"),
    "one large": (
        lambda rng, n, k: rng.laplace(scale=np.r_[1.3, np.ones(k - 1)], size=(n, k)),
        "size of a coordinate",
    ),
    "one positive": (
        lambda rng, n, k: np.c_[rng.exponential(size=n), rng.laplace(size=(n, k - 1))],
        "signs of a coordinate",
    ),
    "one number for all": (
        lambda rng, n, k: rng.laplace(size=(n, 1)) * np.ones(k),
        "signs of neighbouring coordinates",
    ),
    "one size for all": (
        lambda rng, n, k: rng.laplace(size=(n, 1)) * rng.choice([-1, 1], (n, k)),
        "sizes of neighbouring coordinates",
    ),
}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", BROKEN)
def test_broken_laplace_noise_is_caught(name: str, wide: bool) -> None:
    make, look = BROKEN[name]
    k = (5, 100)[wide] if "coordinate" in look else (1, 5)[wide]
    found = objections(
        p_checks(laplace_law(make(generator(431, k), 10_000 if k < 50 else 2000, k), 1.0))
    )
    assert any(line.startswith(f"{look}:") for line in found), found


def test_repeats_far_apart() -> None:
    z = spherical_laplace(3, 1.0, rng=generator(433), size=3000)
    assert objections(p_checks(spherical_law(z, 1.0))) == []
    z[2000:2005] = z[:5]
    assert [line.split(":")[0] for line in objections(p_checks(spherical_law(z, 1.0)))] == [
        "repeats"
    ]


@pytest.mark.parametrize(("n", "d"), [(100, 1), (200, 3), (60, 12)])
def test_rate_resolution_is_exposed_nine_times_in_ten(n: int, d: int) -> None:
    runs = 2000
    excess = float(rate_resolution(n, d))
    noises = spherical_laplace(d, 1 + excess, rng=generator(400, n), size=(runs, n))
    total = np.linalg.norm(noises, axis=-1).sum(1)
    p = 2 * np.minimum(stats.gamma.cdf(total, n * d), stats.gamma.sf(total, n * d))
    for noise, expected in zip(noises[:5], p, strict=False):
        assert named(spherical_law(noise, 1.0), "sum of radii").p_value == pytest.approx(expected)
    exposed = (p < FALSE_ALARM / LAW_TESTS).sum()
    assert abs(exposed - 0.9 * runs) < z_limit(3) * math.sqrt(0.09 * runs)


@pytest.mark.parametrize("law", [spherical_law, laplace_law])
def test_bad_noise(law: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="noise must hold at least 2 draws, got 1"):
        law(np.zeros((1, 3)), 1.0)
    with pytest.raises(ValueError, match="noise must be finite, got nan"):
        law([[1.0], [math.nan]], 1.0)
    with pytest.raises(ValueError, match="tests is empty"):
        smallest_p([])
