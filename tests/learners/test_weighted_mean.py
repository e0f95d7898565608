"""The weighted mean: its errors against brute force and simulation; `test_defaults` has its
promise.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hdpm_lib.learners.weighted_mean import (
    WeightedMean,
    best_shrink,
    best_worst_shrink,
    population_error,
    sampling_error,
    weighted_mean,
    worst_error,
)
from hdpm_lib.markets.fair_query import fair_query
from hdpm_lib.validation import FALSE_ALARM
from tests.support import generator, refusals, z_limit

Array = np.ndarray


def simplex(n: int, rng: np.random.Generator) -> Array:
    """Weights of which some are 0."""
    w = rng.random(n) * (rng.random(n) < 0.8)
    w[rng.integers(n)] += 0.1
    return w / w.sum()


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="records must have 2 rows"):
        WeightedMean([0.5, 0.5], 1.0, [0.0, 0.0], 1.0).release(np.zeros((1, 2)), rng=generator())
    with pytest.raises(ValueError, match=r"weights must sum to 1, got 0\.9"):
        WeightedMean(np.array([0.5, 0.4]), 1.0, np.zeros(1), 1.0)
    with pytest.raises(ValueError, match="weights must hold at least one seller"):
        best_worst_shrink(0.5, 0.5, 0.5)


test_absurd_bounds_are_refused_without_the_data = refusals(
    (lambda: WeightedMean([1.0], 1.0, [0.0], 1e300, arithmetic="ideal"), "radius must have a size"),
    (lambda: WeightedMean([1.0], 1.0, [-1e300], 1.0), "centre must have a size"),
    (lambda: weighted_mean([1e-60], [0.0], 1e60), "sum of epsilon over twice the radius must have"),
    (lambda: WeightedMean([1.0], rate=1.0, centre=[0.0], radius=1.0), "unexpected .* 'rate'"),  # type: ignore[call-arg]
)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("arithmetic", ["exact", "ideal"])
def test_large_bounds_give_right_answers_in_silence(arithmetic: Any) -> None:
    mean = WeightedMean([0.5, 0.5], 1e-80, np.zeros(2), 1e99, arithmetic=arithmetic)
    for first in (1e99, 0.5e99, 0.0):
        found = mean.release([[first, 0.0], [0.0, -1e99]], rng=generator(1701))
        np.testing.assert_allclose(found, [first / 2, -0.5e99], atol=1e91)


# --- the two yardsticks -------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_worst_error_is_that_of_the_worst_records(n: int) -> None:
    """Brute force: in one dimension the worst records are at the ends of the interval."""
    rng = generator(1702, n)
    w = simplex(n, rng)
    W = rng.random()
    radius = 0.5
    noise = 0.03
    ends = np.array(list(itertools.product((-radius, radius), repeat=n)))
    bias = ends @ (W * w - 1 / n)
    assert worst_error(w, noise, radius, W) == pytest.approx((bias**2).max() + W**2 * noise)
    inside = rng.uniform(-radius, radius, (1000, n)) @ (W * w - 1 / n)
    assert (inside**2 + W**2 * noise).max() <= worst_error(w, noise, radius, W)


def test_best_worst_shrink() -> None:
    """In 200 markets no other factor out of 2,001 does better; that for the population does worse
    in many.
    """
    rng = generator(1703)
    grid = np.linspace(0, 1, 2001)
    gains = 0
    for _ in range(200):
        w = simplex(rng.integers(1, 9), rng)
        radius = rng.choice([0.5, 1.0, 3.0])
        noise = np.array(rng.choice([0, 1e-3, 0.1, 1, 30]))
        ours = worst_error(w, noise, radius, best_worst_shrink(w, noise, radius))
        assert worst_error(w[None], noise, radius, grid).min() >= ours * (1 - 1e-9)
        gains += ours < worst_error(w, noise, radius, best_shrink(noise, radius**2)) * (1 - 1e-9)
    assert gains > 50
    assert best_worst_shrink([[0.5, 0.5], [0.0, 0.0]], [0.5, np.inf], 0.5) == pytest.approx(
        [1 / 3, 0]
    )


def test_population_error_is_that_of_drawn_records() -> None:
    """A z test of 40,000 releases at the false-alarm rate; the same error without its bias is
    found.
    """
    rng = generator(1704)
    draws = 40_000
    w = simplex(6, rng)
    law = stats.beta(2, 5)
    centre = 0.5
    mean = WeightedMean(w, 9.0, [centre], 0.5, 0.8)
    records = law.rvs((draws, 6), random_state=rng)
    noise = rng.laplace(scale=1 / mean.noise_rate, size=draws)
    squares = (centre + mean.shrink * ((records - centre) @ w + noise) - law.mean()) ** 2
    error = sampling_error(w, mean.noise, law.var())
    stated = population_error(error, (law.mean() - centre) ** 2, mean.shrink)
    se = squares.std() / np.sqrt(draws)
    assert abs(squares.mean() - stated) < z_limit() * se
    assert abs(squares.mean() - mean.shrink**2 * error) > z_limit() * se
    factors = np.linspace(0, 1, 1001)
    best = population_error(error, 0.04, best_shrink(error, 0.04))
    assert best <= population_error(error, 0.04, factors).min()
    assert best == pytest.approx(0.04 * error / (0.04 + error))


def test_nothing_bought_is_the_centre() -> None:
    w = np.zeros((1, 3))
    noise = np.array([np.inf])
    error = sampling_error(w, noise, 0.1)
    assert np.isinf(error).all()
    assert best_shrink(error, 0.2) == 0
    assert population_error(error, 0.2, best_shrink(error, 0.2)) == pytest.approx(0.2)
    assert worst_error(w, noise, 0.5, best_worst_shrink(w, noise, 0.5)) == pytest.approx(0.25)
    assert WeightedMean([1.0], 2.0, np.zeros(3), 1.0).noise == pytest.approx(3)


# --- how far a release is off -------------------------------------------------------------------


@pytest.mark.parametrize("shrink", [1.0, 0.7])
def test_margins_cover(shrink: float) -> None:
    """Those of the noise exactly; those of a population, on the law that spreads most, at least."""
    rng = generator(331)
    n, d = 50, 3
    losses = rng.choice([0.0, 0.5, 2.0], n)
    mean = weighted_mean(losses, np.zeros(d), 1.0, shrink=shrink, arithmetic="ideal")
    np.testing.assert_allclose(mean.privacy_loss, losses)
    records = rng.choice([-1.0, 1.0], (n, 1)) * np.eye(d)[0]
    drawn = mean.release(records, rng=rng, size=20_000)
    off = np.abs(drawn - shrink * (mean.weights @ records))
    np.testing.assert_allclose(np.sqrt((off**2).mean(0)), mean.noise_sd, rtol=0.05)
    for level in (0.5, 0.95):
        inside = (off <= mean.noise_margin(level)).sum(0)
        ends = stats.binom.interval(1 - FALSE_ALARM / 12, 20_000, level)
        assert ((ends[0] <= inside) & (inside <= ends[1])).all()
    missed = 0
    for _ in range(2000):
        records = rng.choice([-1.0, 1.0], (n, 1), p=[0.2, 0.8]) * np.eye(d)[0]
        found = mean.release(records, rng=rng)[0]
        missed += abs(found - 0.6) > mean.population_margin(0.8)
    assert missed <= stats.binom.isf(FALSE_ALARM, 2000, 0.2)
    assert mean.population_margin(0.8) > mean.noise_margin(0.8)
    whole = weighted_mean(losses, np.zeros(d), 1.0)  # and by how much shrinking moves it
    expected = shrink * whole.population_margin(0.8) + (1 - shrink)
    assert mean.population_margin(0.8) == pytest.approx(expected)


def test_sampling_alone_is_within_hoeffdings_bound() -> None:
    """Almost without noise: half of the errors are allowed to sampling."""
    margin = WeightedMean(np.full(100, 0.01), 1e9, [0.0], 2.0).population_margin(0.9)
    assert margin == pytest.approx(2 * math.sqrt(2 * math.log(2 / 0.05) / 100))
    heads = np.arange(101)  # the law that spreads most in [-2, 2], by its exact distribution
    far = np.abs(4 * heads / 100 - 2) > margin
    assert stats.binom.pmf(heads, 100, 0.5)[far].sum() <= 0.05
    far = np.abs(4 * heads / 100 - 2) > margin / 2
    assert stats.binom.pmf(heads, 100, 0.5)[far].sum() > 0.05


def test_a_mean_takes_what_a_market_bought() -> None:
    sale = fair_query([1.0, 2.0, 9.0], 4.0)
    mean = weighted_mean(sale, [0.5], 0.5)
    np.testing.assert_array_equal(mean.privacy_loss, sale.privacy_loss)
    with pytest.raises(ValueError, match="epsilon must be positive for somebody"):
        weighted_mean([0.0, 0.0], [0.5], 0.5)
