"""What many tests share: seeded generators, checks at the shared false-alarm rate, wrong
samplers.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from hdpm_book.federated.partition import budget_of, draw_bids, draw_sizes
from hdpm_book.federated.regretnet import Network
from hdpm_book.privacy.laws import LAW_TESTS, LawTest, spherical_law
from hdpm_lib.auctions.bids import Bids
from hdpm_lib.auctions.incentives import Auction, gains
from hdpm_lib.auctions.menus import SHAPES, Weights
from hdpm_lib.noise import spherical_laplace
from hdpm_lib.validation import FALSE_ALARM

SEED = int(os.environ.get("HDPM_TEST_SEED", "0"))  # any other must pass as well
Sampler = Callable[..., np.ndarray]


def generator(*key: int) -> np.random.Generator:
    return np.random.default_rng([SEED, *key])


def refusals(*cases: tuple[Callable[[], Any], str]) -> Callable[..., None]:
    """Make a test that each of these calls is refused, in words that this expression matches."""

    @pytest.mark.parametrize(("call", "message"), cases)
    def test(call: Callable[[], Any], message: str) -> None:
        with pytest.raises((ValueError, TypeError), match=message):
            call()

    return test


@dataclass(frozen=True)
class Check:
    """One look at `n` draws; it objects to a statistic outside [low, high]."""

    name: str
    n: int
    statistic: float
    low: float
    high: float

    def __str__(self) -> str:
        return (
            f"{self.name}: n={self.n}, statistic={self.statistic:.6g}, allowed [{self.low:.6g},"
            f" {self.high:.6g}]"
        )


def objections(checks: Iterable[Check]) -> list[str]:
    return [str(check) for check in checks if not check.low <= check.statistic <= check.high]


def z_limit(looks: int = 1) -> float:
    """Largest absolute z-score that `looks` two-sided tests together let pass, at the shared
    false-alarm rate.
    """
    return float(stats.norm.isf(FALSE_ALARM / looks / 2))


def z_check(name: str, n: int, z: float, looks: int) -> Check:
    return Check(name, n, z, -z_limit(looks), z_limit(looks))


def ks_check(
    name: str, values: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray], looks: int
) -> Check:
    """Kolmogorov-Smirnov; the limit is Massart's, valid at every n."""
    n = len(values)
    distance = stats.ks_1samp(values, cdf, method="asymp").statistic
    return Check(
        name, n, float(distance), 0.0, math.sqrt(math.log(2 * looks / FALSE_ALARM) / (2 * n))
    )


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
    """Return the checks that object to p-values, at the shared false-alarm rate over `looks` law
    tests.
    """
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


def laplace_by_coordinate(
    d: int, rate: Any, *, rng: np.random.Generator, size: Any = ()
) -> np.ndarray:
    shape = (size,) if isinstance(size, int) else tuple(size)
    return rng.laplace(0, 1 / np.asarray(rate)[..., None], (*shape, d))


def times(factor: float) -> Sampler:
    return lambda d, rate, *, rng, size=(): factor * spherical_laplace(d, rate, rng=rng, size=size)


def p_value(drawn: np.ndarray, points: np.ndarray, probabilities: np.ndarray) -> float:
    """Chi-square; whatever is expected less than ten times makes one cell, with all that is not
    listed.
    """
    often = probabilities * len(drawn) >= 10
    seen = Counter(map(tuple, drawn.tolist()))
    counts = [seen[tuple(point)] for point in points[often].tolist()]
    expected = np.append(probabilities[often], 1 - probabilities[often].sum()) * len(drawn)
    return float(stats.chisquare([*counts, len(drawn) - sum(counts)], expected).pvalue)


def law_of(scale: Fraction, reach: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of discrete Laplace noise from their closed form."""
    k = np.arange(-reach, reach + 1)
    return k[:, None], np.tanh(0.5 / float(scale)) * np.exp(-np.abs(k) / float(scale))


# --- auctions -----------------------------------------------------------------------------------


def some_auctions(
    count: int, rng: np.random.Generator, kind: str = "IID", owners: int = 10
) -> tuple[Bids, np.ndarray]:
    """Bids of the paper's setting, and budgets by factors from its range."""
    truth = draw_bids(draw_sizes(kind, count, rng, owners=owners), rng)
    return truth, budget_of(truth, rng.uniform(0.1, 2, count))


def false_bids(truth: Bids, count: int, rng: np.random.Generator) -> Bids:
    """Valuations of any family and rate, and privacy budgets up and down; some keep a part of the
    truth.
    """
    shape = (count, *truth.rate.shape)
    keep = rng.random((3, *shape)) < 0.3
    return Bids(
        np.where(keep[0], truth.family, rng.integers(0, 4, shape)),
        np.where(keep[1], truth.rate, truth.rate * np.exp(rng.uniform(-3, 2, shape))),
        np.where(
            keep[2], truth.privacy_budget, truth.privacy_budget * rng.uniform(0.02, 1.5, shape)
        ),
        np.broadcast_to(truth.sizes, shape),
    )


def largest_gain(auction: Auction, truth: Bids, budget: np.ndarray, lies: Bids) -> float:
    """Over all owners and lies, in units of the full valuation."""
    return float((gains(auction, truth, lies, budget) / truth.full_valuation).max())


def some_network(
    kind: str,
    rng: np.random.Generator,
    scale: float = 1.0,
    *,
    owners: int = 3,
    hidden: tuple[int, ...] = (7, 6, 5),
) -> Network:
    """Draw a network with independent normal weights; four levels, but for RegretNet."""
    levels = 1 if kind == "RegretNet" else 4
    weights = {}
    for part, last in (("allocation", owners * (levels + 1)), ("payment", owners + 1)):
        shapes = pairwise((owners * (levels + 2) + 1, *hidden, last))
        weights[part] = tuple(
            (rng.normal(0, scale, shape), rng.normal(0, scale, shape[1])) for shape in shapes
        )
    return Network(kind, weights)


def seen_by_hand(truth: Bids, budget: float, levels: int) -> np.ndarray:
    """Return what the auction networks see of one market, owner by owner."""
    n = len(truth.sizes)
    x = list[float]()

    def scaled(value: float, of: np.ndarray) -> float:
        span = max(of) - min(of)
        return (value - sum(of) / len(of)) / span if span > 0 else 0.0

    record = replace(truth, sizes=np.ones(n))
    values = np.array(
        [record.valuation(truth.privacy_budget * (m / levels)) for m in range(1, levels + 1)]
    )
    for i in range(n):
        x += [scaled(value, values.ravel()) for value in values[:, i]]
        x += [scaled(told[i], told[: n - 1]) for told in (truth.privacy_budget, truth.sizes)]
    return np.array([*x, scaled(budget / sum(truth.sizes), values.ravel())])


def by_hand(network: Network, truth: Bids, budget: float) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and payments of an auction network for one market, layer by layer."""
    last = {}
    outcomes = network.levels + 1
    for part, (*layers, (slope, offset)) in network.weights.items():
        y = seen_by_hand(truth, budget, network.levels)
        for into, add in layers:
            y = np.tanh(add + y @ into)
        last[part] = offset + y @ slope
    own = [
        special.softmax(last["allocation"][i * outcomes : (i + 1) * outcomes])
        for i in range(len(truth.sizes))
    ]
    return np.array(own), special.softmax(last["payment"])[1:] * budget


# --- markets ---

KINDS = ("uniform", "ties", "zeros", "heavy")


def valuations(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Uniform, or with many ties, or many at 0, or with tails so heavy that they have no mean."""
    if kind == "ties":
        return rng.integers(1, 4, n).astype(float)
    if kind == "heavy":
        return 1 + rng.pareto(0.5, n)
    v = rng.random(n)
    return np.where(rng.random(n) < 0.5, 0.0, v) if kind == "zeros" else v


def random_weights(rng: np.random.Generator, scale: float = 0.3) -> Weights:
    """Weights of menus that nobody has trained: independent normal numbers with this standard
    deviation.
    """
    return {name: scale * rng.standard_normal(shape) for name, shape in SHAPES.items()}
