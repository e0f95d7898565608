"""The weighted mean: what it promises against densities, its errors against brute force and simulation."""

from __future__ import annotations

import itertools
from collections.abc import Callable
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
    worst_error,
)
from hdpm_lib.noise import log_density
from tests.support import generator, z_limit

Array = np.ndarray


def simplex(n: int, rng: np.random.Generator) -> Array:
    """Weights of which some are 0."""
    w = rng.random(n) * (rng.random(n) < 0.8)
    w[rng.integers(n)] += 0.1
    return w / w.sum()


# --- privacy ----------------------------------------------------------------------------------------------------------


def largest_loss(mean: WeightedMean, i: int, answers: Array) -> float:
    """Largest log-ratio of densities, at some answers, when seller `i` moves along a diameter."""
    records = np.tile(mean.centre, (len(mean.weights), 1))
    end = mean.radius * np.eye(len(mean.centre))[0]
    logs = []
    for sign in (-1, 1):
        records[i] = mean.centre + sign * end
        middle = mean.centre + mean.shrink * (mean.weights @ (records - mean.centre))
        logs.append(log_density((answers - middle) / mean.shrink, mean.rate))
    return float(np.abs(logs[0] - logs[1]).max())


@pytest.mark.parametrize("d", [1, 2, 7])
def test_losses_are_attained_and_not_exceeded(d: int) -> None:
    rng = generator(1700, d)
    mean = WeightedMean(simplex(4, rng), 3.0, rng.standard_normal(d), 2.0, 0.6)
    far = 100 * np.eye(d)[:1]
    answers = np.concatenate([mean.centre + far, mean.centre + rng.standard_normal((500, d))])
    for i, promised in enumerate(mean.privacy_loss):
        found = largest_loss(mean, i, answers)
        assert found <= promised * (1 + 1e-9)
        assert found >= promised * (1 - 1e-2)
    half = WeightedMean(mean.weights, mean.rate, mean.centre, mean.radius / 2)
    assert half.privacy_loss.max() < largest_loss(
        mean, int(mean.weights.argmax()), answers
    )  # too small a ball is found


@pytest.mark.parametrize("d", [1, 3])
def test_release_has_the_mean_and_the_noise_it_states(d: int) -> None:
    """Two z tests and a chi-squared one of 20,000 releases, each at the false-alarm rate."""
    rng, draws = generator(1701, d), 20_000
    records = rng.standard_normal((5, d)) * 0.2
    mean = WeightedMean(simplex(5, rng), 4.0, np.full(d, 0.1), 2.0, 0.7)
    released = mean.release(records, rng=rng, size=draws)
    middle = mean.centre + 0.7 * (mean.weights @ (records - mean.centre))
    off = released - middle
    z = off.mean(0) / (off.std(0) / np.sqrt(draws))
    assert np.abs(z).max() < z_limit(d)
    square = (off**2).sum(-1)
    z = (square.mean() - 0.49 * mean.noise) / (square.std() / np.sqrt(draws))
    assert abs(z) < z_limit()
    assert abs(square.mean() - mean.noise) / (square.std() / np.sqrt(draws)) > 10  # noise that is not shrunk is found


def test_records_outside_are_refused_or_moved_onto_the_ball() -> None:
    rng = np.random.default_rng(0)
    plain = WeightedMean([0.5, 0.5], 1.0, [0.0, 0.0], 1.0)
    outside = np.array([[3.0, 4.0], [0.0, 0.0]])
    with pytest.raises(ValueError, match=r"records must lie in the ball of radius 1\.0"):
        plain.release(outside, rng=rng)
    with pytest.raises(ValueError, match="records must have 2 rows"):
        plain.release(outside[1:], rng=rng)
    total = WeightedMean([0.5, 0.5], 1e9, [0.0, 0.0], 1.0, clip=True)
    assert total.release(outside, rng=rng) == pytest.approx([0.3, 0.4], abs=1e-6)
    strange = np.array([[np.nan, -np.inf], [1e308, 1e308]])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        released = total.release(strange, rng=rng)
    assert released == pytest.approx([0.5 / np.sqrt(2), 0.5 / np.sqrt(2) - 0.5], abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5, 0.4], 1.0, [0.0], 1.0), "weights must sum to 1, got 0.9"),
        (([1.5, -0.5], 1.0, [0.0], 1.0), "weights"),
        (([0.5, 0.5], 0.0, [0.0], 1.0), "rate"),
        (([0.5, 0.5], 1.0, [0.0], -1.0), "radius"),
        (([0.5, 0.5], 1.0, [np.nan], 1.0), "centre"),
        (([0.5, 0.5], 1.0, [0.0], 1.0, 1.5), "shrink"),
    ],
)
def test_bad_releases_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WeightedMean(*arguments)


# --- the two yardsticks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_worst_error_is_that_of_the_worst_records(n: int) -> None:
    """Brute force: in one dimension the worst records are at the ends of the interval."""
    rng = generator(1702, n)
    w, W, radius, noise = simplex(n, rng), rng.random(), 0.5, 0.03
    ends = np.array(list(itertools.product((-radius, radius), repeat=n)))
    bias = ends @ (W * w - 1 / n)
    assert worst_error(w, noise, radius, W) == pytest.approx((bias**2).max() + W**2 * noise)
    inside = rng.uniform(-radius, radius, (1000, n)) @ (W * w - 1 / n)
    assert (inside**2 + W**2 * noise).max() <= worst_error(w, noise, radius, W)


def shrink_complaints(shrink: Callable[[Array, Array, float], Array]) -> int:
    """Markets of 200 in which another factor out of 2,001 does better."""
    rng, grid, found = generator(1703), np.linspace(0, 1, 2001), 0
    for _ in range(200):
        w, radius = simplex(rng.integers(1, 9), rng), rng.choice([0.5, 1.0, 3.0])
        noise = np.array(rng.choice([0, 1e-3, 0.1, 1, 30]))
        ours = worst_error(w, noise, radius, shrink(w, noise, radius))
        found += bool(worst_error(w[None], noise, radius, grid).min() < ours * (1 - 1e-9))
    return found


def test_best_worst_shrink() -> None:
    assert shrink_complaints(best_worst_shrink) == 0
    assert shrink_complaints(lambda w, noise, radius: best_shrink(noise, radius**2)) > 50
    assert best_worst_shrink([[0.5, 0.5], [0.0, 0.0]], [0.5, np.inf], 0.5) == pytest.approx([1 / 3, 0])


def test_population_error_is_that_of_drawn_records() -> None:
    """A z test of 40,000 releases at the false-alarm rate; the same error without its bias is found."""
    rng, draws = generator(1704), 40_000
    w, law, centre = simplex(6, rng), stats.beta(2, 5), 0.5
    mean = WeightedMean(w, 9.0, [centre], 0.5, 0.8)
    records = law.rvs((draws, 6), random_state=rng)
    noise = rng.laplace(scale=1 / mean.rate, size=draws)
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
    w, noise = np.zeros((1, 3)), np.array([np.inf])
    error = sampling_error(w, noise, 0.1)
    assert np.isinf(error).all()
    assert best_shrink(error, 0.2) == 0
    assert population_error(error, 0.2, best_shrink(error, 0.2)) == pytest.approx(0.2)
    assert worst_error(w, noise, 0.5, best_worst_shrink(w, noise, 0.5)) == pytest.approx(0.25)
    assert WeightedMean([1.0], 2.0, np.zeros(3), 1.0).noise == pytest.approx(3)


def test_a_single_number_is_no_weights() -> None:
    with pytest.raises(ValueError, match="weights must hold at least one seller"):
        best_worst_shrink(0.5, 0.5, 0.5)
