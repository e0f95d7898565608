"""Spherical Laplace noise: exact tests of the sampler and its density.

`law_checks` holds draws against `hdpm_book.privacy.laws.spherical_law`: radii, their sum,
directions, isotropy, independence of radius and direction, independence of consecutive draws. The
mutants prove that each look can object.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

from hdpm_lib.learners.queries import linear_query
from hdpm_lib.learners.ridge import output_perturbation, weighted_ridge
from hdpm_lib.noise import (
    coordinate_margin,
    coordinate_variance,
    log_density,
    norm_law,
    spherical_laplace,
)
from hdpm_lib.validation import FALSE_ALARM
from tests.support import (
    Sampler,
    generator,
    laplace_by_coordinate,
    law_checks,
    objections,
    rate_as_scale,
    times,
    with_shape,
)

# at 615 a shape of d + 1 takes that many
DRAWS = {1: 20_000, 2: 20_000, 12: 10_000, 30: 10_000, 615: 60_000}


def cube_direction(d: int, rate: Any, *, rng: np.random.Generator, size: int) -> np.ndarray:
    radius = rng.gamma(d, 1 / rate, (size, 1))
    u = rng.uniform(-1, 1, (size, d))
    return radius * u / np.linalg.norm(u, axis=1, keepdims=True)


def reused(d: int, rate: Any, *, rng: np.random.Generator, size: int) -> np.ndarray:
    """Every draw is handed out twice."""
    return np.repeat(spherical_laplace(d, rate, rng=rng, size=size // 2), 2, axis=0)


def stretched(d: int, rate: Any, *, rng: np.random.Generator, size: int) -> np.ndarray:
    z = spherical_laplace(d, rate, rng=rng, size=size)
    longer = z * np.where(np.arange(d) == 0, 1.3, 1)
    return longer * (np.linalg.norm(z, axis=1) / np.linalg.norm(longer, axis=1))[:, None]


def sorted_together(order: Callable[[np.ndarray], np.ndarray]) -> Sampler:
    """The right radii and the right directions, paired in order."""

    def draw(d: int, rate: Any, *, rng: np.random.Generator, size: int) -> np.ndarray:
        z = spherical_laplace(d, rate, rng=rng, size=size)
        radius = np.linalg.norm(z, axis=1)
        z /= radius[:, None]
        return rng.permutation(z[np.argsort(order(z[:, 0]))] * np.sort(radius)[:, None])

    return draw


# mutant, the dimensions in which it differs from the law, the look that has to object
MUTANTS: dict[str, tuple[Sampler, tuple[int, ...], str]] = {
    "shape d-1": (with_shape(-1), (2, 30), "sum of radii"),
    "shape d+1": (with_shape(1), (1, 12, 615), "sum of radii"),
    "rate taken for the scale": (rate_as_scale, (1, 30), "radius"),
    "10 % small": (times(0.9), (1, 30), "sum of radii"),
    "iid Laplace": (laplace_by_coordinate, (2, 30), "radius"),
    "direction from the cube": (cube_direction, (2, 12), "projection 0"),
    "noise handed out twice": (reused, (1, 30), "consecutive radii"),
    "direction handed out twice": (reused, (1, 30), "consecutive directions"),
    "no negative noise": (
        lambda *law, **how: np.abs(spherical_laplace(*law, **how)),
        (1, 30),
        "mean direction",
    ),
    "one axis stretched": (stretched, (2, 30), "isotropy"),
    "radius tied to direction": (sorted_together(lambda t: t), (1, 30), "radius with direction"),
    "radius tied to axis": (sorted_together(np.abs), (2, 30), "radius with squared projection 0"),
}


def found_in(sampler: Sampler, d: int, rate: float, rng: np.random.Generator) -> list[str]:
    return objections(law_checks(lambda k: rate * sampler(d, rate, rng=rng, size=k), DRAWS[d]))


@pytest.mark.parametrize(("d", "rate"), [(1, 0.3), (2, 2.0), (12, 5.0), (30, 1e-3), (615, 40.0)])
def test_law(d: int, rate: float) -> None:
    assert found_in(spherical_laplace, d, rate, generator(1, d)) == []


@pytest.mark.parametrize(
    ("name", "d"), [(name, d) for name, (_, ds, _) in MUTANTS.items() for d in ds]
)
def test_broken_sampler_is_caught(name: str, d: int) -> None:
    sampler, _, look = MUTANTS[name]
    found = found_in(sampler, d, 3.0, generator(2, d))
    assert any(line.startswith(f"{look}:") for line in found), (
        f"{name}, d={d}: {look} did not object, only {found}"
    )


@pytest.mark.parametrize("broken", [False, True])
def test_batches_with_a_rate_for_each(broken: bool) -> None:
    rates = np.array([0.01, 1.0, 30.0, 400.0])
    z = spherical_laplace(3, rates.mean() if broken else rates, rng=generator(3), size=(10_000, 4))
    assert z.shape == (10_000, 4, 3)
    for j, rate in enumerate(rates):
        found = objections(law_checks(lambda k, z=z[:, j], r=rate: r * z[:k], 10_000, looks=5))
        assert bool(found) == broken, found
    flat = (rates[:, None] * z).reshape(-1, 3)  # across the batch nothing is shared either
    halves = iter(np.split(flat, 4))
    assert bool(objections(law_checks(lambda k: next(halves), 40_000, looks=5))) == broken


def test_shapes() -> None:
    for size in ((), (5,), (3, 4), (0,)):
        assert spherical_laplace(2, 1.0, rng=generator(), size=size).shape == (*size, 2)


@pytest.mark.parametrize("d", [2, 30])
def test_every_digit_that_is_drawn_is_used(d: int) -> None:
    """Directions with fewer digits would have the right law to any test of it, and betray the
    estimate by the rest.
    """
    direction = (rng := generator(5)).standard_normal((100, d))
    expected = (
        rng.gamma(d, 1 / 0.3, 100)[:, None]
        * direction
        / np.linalg.norm(direction, axis=1, keepdims=True)
    )
    np.testing.assert_allclose(
        spherical_laplace(d, 0.3, rng=generator(5), size=100), expected, rtol=1e-14
    )


# --- density ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "rate"), [(1, 0.5), (3, 2.0), (12, 5.0), (30, 0.7)])
def test_density_integrates_to_one_over_shells(d: int, rate: float) -> None:
    area = 2 * math.pi ** (d / 2) / special.gamma(d / 2)
    point = np.full(d, d**-0.5)
    shells = integrate.quad(
        lambda r: area * r ** (d - 1) * math.exp(log_density(r * point, rate)),
        0,
        (4 * d + 45) / rate,
    )
    assert shells[0] == pytest.approx(1, abs=1e-6)


def test_density_integrates_to_one_over_the_plane() -> None:
    quadrant = integrate.dblquad(
        lambda x, y: math.exp(log_density([x, y], 3.0)), 0, 15, 0, 15, epsabs=1e-8, epsrel=1e-8
    )
    assert 4 * quadrant[0] == pytest.approx(1, abs=1e-6)


def test_density_on_rays() -> None:
    """The ratio of densities is what every guarantee rests on: at most rate times distance,
    attained on a ray.
    """
    rng = generator(8)
    z = rng.standard_normal((1000, 5))
    step = rng.standard_normal(5)
    change = log_density(z + step, 2.0) - log_density(z, 2.0)
    assert np.abs(change).max() <= 2 * np.linalg.norm(step) * (1 + 1e-12)
    ray = 100 * step / np.linalg.norm(step)
    assert log_density(ray, 2.0) - log_density(ray + step, 2.0) == pytest.approx(
        2 * np.linalg.norm(step)
    )
    assert log_density([0.3], 2.0) == pytest.approx(stats.laplace.logpdf(0.3, scale=0.5))
    assert log_density(z.reshape(10, 100, 5), 2.0).shape == (10, 100)


def test_moments_of_lengths_and_coordinates() -> None:
    law = norm_law(3, 2.0)
    assert law.mean() == pytest.approx(1.5, rel=1e-12) and law.var() == pytest.approx(
        0.75, rel=1e-12
    )
    np.testing.assert_allclose(
        3 * coordinate_variance(3, [2.0, 0.5]), (0.75 + 1.5**2) * np.array([1, 16])
    )


# --- margins ------------------------------------------------------------------------------------


@pytest.mark.parametrize("log", [1e-99, 1e-9, 0.01, 3.0, 36.0])
def test_a_margin_has_its_digits_at_all_levels(log: float) -> None:
    """With one coordinate the chance of more than t is exp(-t), with three (1 + t / 2) exp(-t)."""
    level = -math.expm1(-log)
    beyond = -math.log1p(-level)
    assert coordinate_margin(1, 2.0, level) == pytest.approx(max(beyond, 1e-300) / 2, rel=1e-10)
    margin = coordinate_margin(3, 1.0, level)
    if log > 0.001:
        assert margin - math.log1p(margin / 2) == pytest.approx(beyond, rel=1e-8)


@pytest.mark.parametrize("d", [2, 12, 400])
@pytest.mark.parametrize("level", [0.01, 0.5, 0.95, 0.9999])
def test_a_margin_of_one_coordinate_is_that_of_the_law(d: int, level: float) -> None:
    """By another integral: the radius follows a Gamma law, the square of the direction's coordinate
    a Beta law.
    """
    margin = coordinate_margin(d, 2.0, level)
    square = stats.beta(0.5, (d - 1) / 2)
    # at quantiles of the radius, so that no peak is missed
    radii = norm_law(d, 2.0).ppf((np.arange(20_000) + 0.5) / 20_000)
    inside = square.cdf(np.minimum(1, (margin / radii) ** 2)).mean()
    assert 1 - inside == pytest.approx(1 - level, rel=0.05 if level > 0.99 else 1e-3)


MARGINS: dict[str, Any] = {
    "sum": (linear_query([1.0, 0.5], 2.0, arithmetic="ideal"), ([0.2, 0.4],), 0.4),
    "ridge": (
        output_perturbation([1.0], 0.5, features=1, arithmetic="ideal"),
        ([[0.5]], [0.5]),
        weighted_ridge([[0.5]], [0.5], [1.0], 0.5)[0],
    ),
}


@pytest.mark.parametrize("name", MARGINS)
def test_margins_of_releases_cover(name: str) -> None:
    mechanism, data, truth = MARGINS[name]
    off = np.ravel(mechanism.release(*data, rng=generator(34), size=20_000)) - truth
    assert off.std() == pytest.approx(mechanism.noise_sd, rel=0.05)
    for level in (0.5, 0.95):
        inside = (np.abs(off) <= mechanism.noise_margin(level)).sum()
        low, high = stats.binom.interval(1 - FALSE_ALARM / 4, 20_000, level)
        assert low <= inside <= high
