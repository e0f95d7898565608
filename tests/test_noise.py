"""Spherical Laplace noise: exact tests of the sampler and its density.

`law_checks` holds draws against `hdpm_book.privacy.laws.spherical_law`: radii, their sum, directions, isotropy,
independence of radius and direction, independence of consecutive draws. The mutants prove that each look can object.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

from hdpm_lib.noise import (
    coordinate_variance,
    log_density,
    norm_law,
    spherical_laplace,
)
from tests.support import (
    Check,
    Sampler,
    generator,
    laplace_by_coordinate,
    law_checks,
    objections,
    rate_as_scale,
    times,
    with_shape,
)

DRAWS = {1: 20_000, 2: 20_000, 12: 10_000, 30: 10_000, 615: 60_000}  # at 615 a shape of d + 1 takes that many


def cube_direction(d: int, rate: Any, *, rng: np.random.Generator, size: Any = ()) -> np.ndarray:
    radius = np.linalg.norm(spherical_laplace(d, rate, rng=rng, size=size), axis=-1)
    u = rng.uniform(-1, 1, (*radius.shape, d))
    return radius[..., None] * u / np.linalg.norm(u, axis=-1, keepdims=True)


def gaussian(d: int, rate: Any, *, rng: np.random.Generator, size: Any = ()) -> np.ndarray:
    shape = (size,) if isinstance(size, int) else tuple(size)
    return rng.standard_normal((*shape, d)) * np.sqrt(coordinate_variance(d, rate))[..., None]


def reused(d: int, rate: Any, *, rng: np.random.Generator, size: Any = ()) -> np.ndarray:
    """Every draw is handed out twice."""
    z = spherical_laplace(d, rate, rng=rng, size=size)
    if z.ndim > 1:
        z[1::2] = z[::2][: len(z[1::2])]
    return z


def one_sided(d: int, rate: Any, *, rng: np.random.Generator, size: Any = ()) -> np.ndarray:
    return np.abs(spherical_laplace(d, rate, rng=rng, size=size))


def stretched(d: int, rate: Any, *, rng: np.random.Generator, size: Any = ()) -> np.ndarray:
    z = spherical_laplace(d, rate, rng=rng, size=size)
    radius = np.linalg.norm(z, axis=-1, keepdims=True)
    z[..., 0] *= 1.3
    return z * radius / np.linalg.norm(z, axis=-1, keepdims=True)


def sorted_together(order: Callable[[np.ndarray], np.ndarray]) -> Sampler:
    """The right radii and the right directions, paired in order."""

    def draw(d: int, rate: Any, *, rng: np.random.Generator, size: Any = ()) -> np.ndarray:
        z = spherical_laplace(d, rate, rng=rng, size=size)
        radius = np.linalg.norm(z, axis=1)
        z /= radius[:, None]
        return rng.permutation(z[np.argsort(order(z[:, 0]))] * np.sort(radius)[:, None])

    return draw


# mutant, the dimensions in which it differs from the law, a look that has to object
MUTANTS: dict[str, tuple[Sampler, tuple[int, ...], str]] = {
    "shape d-1": (with_shape(-1), (2, 12, 30, 615), "sum of radii"),
    "shape d+1": (with_shape(1), (1, 2, 12, 30, 615), "sum of radii"),
    "shape d+1, by its law": (with_shape(1), (1, 2, 12, 30), "radius"),
    "rate taken for the scale": (rate_as_scale, (1, 2, 12, 30), "radius"),
    "10 % small": (times(0.9), (1, 2, 12, 30), "sum of radii"),
    "half the noise": (times(0.5), (1, 12), "radius"),
    "direction from the cube": (cube_direction, (2, 12, 30, 615), "projection 0"),
    "iid Laplace": (laplace_by_coordinate, (2, 12, 30), "radius"),
    "Gaussian": (gaussian, (1, 2, 12, 30), "radius"),
    "noise handed out twice": (reused, (1, 2, 12, 30), "consecutive radii"),
    "direction handed out twice": (reused, (1, 2, 12, 30), "consecutive directions"),
    "no negative noise": (one_sided, (1, 2, 12, 30), "mean direction"),
    "one axis stretched": (stretched, (2, 12, 30), "isotropy"),
    "radius tied to direction": (sorted_together(lambda t: t), (1, 2, 12, 30), "radius with direction"),
    "radius tied to axis": (sorted_together(np.abs), (2, 12, 30), "radius with squared projection 0"),
}


def sampled_law(sampler: Sampler, d: int, rate: float, rng: np.random.Generator) -> list[Check]:
    return law_checks(lambda k: rate * sampler(d, rate, rng=rng, size=k), DRAWS[d])


@pytest.mark.parametrize(("d", "rate"), [(1, 0.3), (2, 2.0), (12, 5.0), (30, 1e-3), (615, 40.0)])
def test_law(d: int, rate: float) -> None:
    assert objections(sampled_law(spherical_laplace, d, rate, generator(1, d))) == []


@pytest.mark.parametrize(("name", "d"), [(name, d) for name, (_, ds, _) in MUTANTS.items() for d in ds])
def test_broken_sampler_is_caught(name: str, d: int) -> None:
    sampler, _, look = MUTANTS[name]
    found = objections(sampled_law(sampler, d, 3.0, generator(2, d)))
    assert any(line.startswith(f"{look}:") for line in found), f"{name}, d={d}: {look} did not object, only {found}"


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


def test_shapes_and_seeds() -> None:
    for size, shape in (((), (2,)), (5, (5, 2)), ((3, 4), (3, 4, 2)), (0, (0, 2))):
        assert spherical_laplace(2, 1.0, rng=generator(), size=size).shape == shape
    draw = [spherical_laplace(7, 2.0, rng=generator(4)) for _ in range(2)]
    assert (draw[0] == draw[1]).all()
    rng = generator(4)
    spherical_laplace(7, 2.0, rng=rng)
    assert (spherical_laplace(7, 2.0, rng=rng) != draw[0]).all()


@pytest.mark.parametrize("d", [2, 30])
def test_every_digit_that_is_drawn_is_used(d: int) -> None:
    """Directions with fewer digits would have the right law to any test of it, and betray the estimate by the rest."""
    direction = (rng := generator(5)).standard_normal((100, d))
    expected = rng.gamma(d, 1 / 0.3, 100)[:, None] * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    np.testing.assert_allclose(spherical_laplace(d, 0.3, rng=generator(5), size=100), expected, rtol=1e-14)


# --- density ----------------------------------------------------------------------------------------------------------


def mass(density: Callable[[Any], Any], d: int, rate: float) -> float:
    """Integral of exp(density): over the line, over the plane, or over shells."""
    end = 45 / rate
    if d == 1:
        return sum(integrate.quad(lambda x: math.exp(density([x])), *ends)[0] for ends in ((-end, 0), (0, end)))
    if d == 2:
        quadrant = integrate.dblquad(lambda x, y: math.exp(density([x, y])), 0, end, 0, end, epsabs=1e-8, epsrel=1e-8)
        return 4 * quadrant[0]
    area = 2 * math.pi ** (d / 2) / special.gamma(d / 2)
    point = np.full(d, d**-0.5)
    return integrate.quad(lambda r: area * r ** (d - 1) * math.exp(density(r * point)), 0, 4 * d / rate + end)[0]


@pytest.mark.parametrize(("d", "rate"), [(1, 0.5), (1, 7.0), (2, 3.0), (3, 2.0), (12, 5.0), (30, 0.7)])
def test_density_integrates_to_one(d: int, rate: float) -> None:
    assert mass(lambda z: log_density(z, rate), d, rate) == pytest.approx(1, abs=1e-6)


def test_wrong_density_is_caught() -> None:
    for wrong in (lambda z: log_density(z, 3.0) - math.log(2), lambda z: log_density(z, 3.0) + 1e-4 * abs(z[0])):
        assert mass(wrong, 1, 3.0) != pytest.approx(1, abs=1e-6)


def test_density_on_rays() -> None:
    """The ratio of densities is what every guarantee rests on: at most rate times distance, attained on a ray."""
    rng = generator(8)
    z, step = rng.standard_normal((1000, 5)), rng.standard_normal(5)
    change = log_density(z + step, 2.0) - log_density(z, 2.0)
    assert np.abs(change).max() <= 2 * np.linalg.norm(step) * (1 + 1e-12)
    ray = 100 * step / np.linalg.norm(step)
    assert log_density(ray, 2.0) - log_density(ray + step, 2.0) == pytest.approx(2 * np.linalg.norm(step))
    assert log_density([0.3], 2.0) == pytest.approx(stats.laplace.logpdf(0.3, scale=0.5))
    assert log_density(z.reshape(10, 100, 5), 2.0).shape == (10, 100)


def test_law_of_lengths() -> None:
    law = norm_law(3, 2.0)
    assert law.mean() == pytest.approx(1.5, rel=1e-12) and law.var() == pytest.approx(0.75, rel=1e-12)
