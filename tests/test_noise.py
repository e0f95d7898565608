"""Spherical Laplace noise: exact tests of the sampler, its moments and density, and the squared loss under it.

`law_checks` holds draws against `hdpm_lib.audits.laws.spherical_law`: radii, their sum, directions, isotropy,
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
    Moments,
    QuadraticLoss,
    coordinate_variance,
    log_density,
    norm_law,
    quadratic_form_moments,
    spherical_laplace,
)
from tests.support import (
    Check,
    Sampler,
    generator,
    laplace_by_coordinate,
    law_checks,
    mean_z,
    objections,
    rate_as_scale,
    times,
    with_shape,
    z_check,
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


# --- moments ----------------------------------------------------------------------------------------------------------


def problem(d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    a = rng.standard_normal((d, d))
    return a + a.T + 4 * np.eye(d), rng.standard_normal(d)


def by_quadrature(matrix: np.ndarray, linear: np.ndarray, rate: float) -> Moments:
    """Mean and variance of the quadratic form in one or two dimensions: sums over radii and angles that are exact.

    Gauss and Laguerre's, as powers of a form are polynomials in the radius, and trigonometric ones in the angle.
    """
    d = len(linear)
    radii, weights = special.roots_genlaguerre(5, d - 1)
    angles = np.array([0.0, math.pi]) if d == 1 else np.arange(16) * 2 * math.pi / 16
    u = np.stack([np.cos(angles), np.sin(angles)], axis=-1)[:, :d]
    z = radii[:, None, None] / rate * u
    values = ((z @ matrix) * z).sum(-1) + z @ linear
    mean, second = (weights @ (values**k).mean(1) / weights.sum() for k in (1, 2))
    return Moments(np.array(mean), np.array(second - mean**2))


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("rate", [0.3, 4.0])
def test_quadratic_form_by_quadrature(d: int, rate: float) -> None:
    matrix, linear = problem(d, generator(5, d))
    found, expected = quadratic_form_moments(matrix, linear, rate), by_quadrature(matrix, linear, rate)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-11)
    np.testing.assert_allclose(found.variance, expected.variance, rtol=1e-11)


def test_quadratic_form_of_laplace_noise() -> None:
    """For d = 1, z is Laplace: E z^2 = 2/r^2, E z^4 = 24/r^4, so a z^2 + g z has variance 20 a^2/r^4 + 2 g^2/r^2."""
    a, g, r = 1.7, -0.4, 3.0
    found = quadratic_form_moments([[a]], [g], r)
    assert found.mean == pytest.approx(2 * a / r**2) and found.variance == pytest.approx(
        20 * a**2 / r**4 + 2 * g**2 / r**2
    )
    assert found.std == pytest.approx(math.sqrt(found.variance))
    assert coordinate_variance(1, r) == pytest.approx(stats.laplace(scale=1 / r).var())


@pytest.mark.parametrize("d", [1, 2, 12, 30])
def test_squared_norm(d: int) -> None:
    """The squared norm is the square of a Gamma variable, whose moments SciPy knows."""
    law, found = norm_law(d, 2.5), quadratic_form_moments(np.eye(d), np.zeros(d), 2.5)
    assert found.mean == pytest.approx(law.moment(2)) == pytest.approx(d * coordinate_variance(d, 2.5))
    assert found.variance == pytest.approx(law.moment(4) - law.moment(2) ** 2)


def moment_checks(d: int, n: int, expected: Callable[[Any, Any, Any], Moments]) -> list[Check]:
    rng = generator(6, d)
    matrix, linear = problem(d, rng)
    linear *= 10  # so that the odd part counts in the variance
    z = spherical_laplace(d, 2.0, rng=rng, size=n)
    values = ((z @ matrix) * z).sum(1) + z @ linear
    found = expected(matrix, linear, 2.0)
    return [
        z_check("mean", n, float(mean_z(values, found.mean)), 2),
        z_check("variance", n, float(mean_z((values - found.mean) ** 2, found.variance)), 2),
    ]


@pytest.mark.parametrize("d", [12, 30])
def test_quadratic_form_by_simulation(d: int) -> None:
    assert objections(moment_checks(d, 100_000, quadratic_form_moments)) == []


@pytest.mark.parametrize(
    ("look", "mutant"),
    [
        ("mean", lambda a, g, r: quadratic_form_moments(a + 0.2 * np.eye(len(g)), g, r)),
        ("variance", lambda a, g, r: quadratic_form_moments(a, 0 * g, r)),
        ("variance", lambda a, g, r: quadratic_form_moments(np.diag(np.diag(a)), g, r)),
        ("mean", lambda a, g, r: quadratic_form_moments(a, g, 1.1 * r)),
    ],
)
def test_wrong_moments_are_caught(look: str, mutant: Callable[[Any, Any, Any], Moments]) -> None:
    found = objections(moment_checks(12, 100_000, mutant))
    assert any(line.startswith(look) for line in found), found


def test_quadratic_form_batches() -> None:
    rng = generator(7)
    matrices, linears = zip(*(problem(4, rng) for _ in range(6)), strict=True)
    rates = rng.uniform(0.1, 9, 6)
    batch = quadratic_form_moments(
        np.reshape(matrices, (2, 3, 4, 4)), np.reshape(linears, (2, 3, 4)), rates.reshape(2, 3)
    )
    each = [quadratic_form_moments(a, g, r) for a, g, r in zip(matrices, linears, rates, strict=True)]
    assert batch.mean.shape == batch.variance.shape == (2, 3)
    np.testing.assert_allclose(batch.mean.ravel(), [m.mean for m in each], rtol=1e-13)
    np.testing.assert_allclose(batch.std.ravel(), [m.std for m in each], rtol=1e-13)
    shared = quadratic_form_moments(matrices[0], linears[0], rates)
    np.testing.assert_allclose(shared.mean[2], quadratic_form_moments(matrices[0], linears[0], rates[2]).mean)


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


# --- the squared loss -------------------------------------------------------------------------------------------------


def records(d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Test records and an estimate far from their best one."""
    rng = generator(41, d)
    return rng.random((25, d)), rng.uniform(-1, 1, 25), rng.standard_normal(d)


@pytest.mark.parametrize("d", [1, 2, 12, 30])
@pytest.mark.parametrize("penalty", [0.0, 0.7])
def test_loss_is_the_mean_squared_error(d: int, penalty: float) -> None:
    X, y, theta = records(d)
    direct = np.mean([(label - row @ theta) ** 2 for row, label in zip(X, y, strict=True)]) + penalty * theta @ theta
    assert QuadraticLoss.of(X, y)(theta, penalty) == pytest.approx(direct, rel=1e-12)
    assert QuadraticLoss.of(X, y)(np.zeros(d)) == pytest.approx((y**2).mean())
    assert QuadraticLoss.of(2 * X, y)(theta, penalty) != pytest.approx(direct, rel=1e-6)
    assert QuadraticLoss.of(X, -y)(theta, penalty) != pytest.approx(direct, rel=1e-6)


def test_loss_of_batches() -> None:
    X, y, _ = records(3)
    loss, thetas, penalties = QuadraticLoss.of(X, y), generator(42).standard_normal((4, 5, 3)), np.arange(5) / 3
    rates = np.linspace(0.5, 4, 5)
    found, noisy = loss(thetas, penalties), loss.under_noise(thetas, rates, penalties)
    assert found.shape == noisy.mean.shape == noisy.variance.shape == (4, 5)
    for i, j in np.ndindex(4, 5):
        assert found[i, j] == pytest.approx(((y - X @ thetas[i, j]) ** 2).mean() + j / 3 * thetas[i, j] @ thetas[i, j])
        one = loss.under_noise(thetas[i, j], rates[j], penalties[j])
        assert (noisy.mean[i, j], noisy.variance[i, j]) == (pytest.approx(one.mean), pytest.approx(one.variance))


@pytest.mark.parametrize("penalty", [0.0, 0.7])
@pytest.mark.parametrize("rate", [0.4, 3.0])
def test_loss_in_one_dimension(penalty: float, rate: float) -> None:
    """By quadrature over the Laplace law, and in closed form: a z^2 + g z has variance 20 a^2/r^4 + 2 g^2/r^2."""
    X, y, theta = records(1)
    found = QuadraticLoss.of(X, y).under_noise(theta, rate, penalty)

    def loss(z: float) -> float:
        return float(((y - X[:, 0] * (theta[0] + z)) ** 2).mean() + penalty * (theta[0] + z) ** 2)

    def expectation(power: int, centre: float) -> float:
        law = stats.laplace(scale=1 / rate)
        halves = ((-60 / rate, 0), (0, 60 / rate))
        return sum(
            integrate.quad(lambda z: (loss(z) - centre) ** power * law.pdf(z), *half, epsabs=0, epsrel=1e-11)[0]
            for half in halves
        )

    mean = expectation(1, 0.0)
    assert found.mean == pytest.approx(mean, rel=1e-9)
    assert found.variance == pytest.approx(expectation(2, mean), rel=1e-9)
    a = (X**2).mean() + penalty
    g = 2 * (a * theta[0] - (y * X[:, 0]).mean())
    assert found.mean == pytest.approx(loss(0.0) + 2 * a / rate**2)
    assert found.variance == pytest.approx(20 * a**2 / rate**4 + 2 * g**2 / rate**2)


Law = Callable[[QuadraticLoss, np.ndarray, float, float], Moments]


def noise_checks(d: int, penalty: float, under_noise: Law = QuadraticLoss.under_noise, n: int = 100_000) -> list[Check]:
    """Closed form against losses of noisy estimates, computed record by record."""
    X, y, theta = records(d)
    rate = 2.0 * d
    noisy = theta + spherical_laplace(d, rate, rng=generator(43, d), size=n)
    losses = ((y - noisy @ X.T) ** 2).mean(1) + penalty * (noisy**2).sum(1)
    found = under_noise(QuadraticLoss.of(X, y), theta, rate, penalty)
    name = f"d={d}, penalty={penalty}"
    return [
        z_check(f"{name}, mean", n, float(mean_z(losses, found.mean)), 2),
        z_check(f"{name}, variance", n, float(mean_z((losses - found.mean) ** 2, found.variance)), 2),
    ]


@pytest.mark.parametrize("d", [12, 30])
@pytest.mark.parametrize("penalty", [0.0, 0.7])
def test_loss_under_noise_by_simulation(d: int, penalty: float) -> None:
    assert objections(noise_checks(d, penalty)) == []


@pytest.mark.parametrize(
    ("look", "mutant"),
    [
        ("mean", lambda loss, t, r, p: loss.under_noise(t, r, 0.0)),  # penalty lost
        ("variance", lambda loss, t, r, p: loss.under_noise(0 * t, r, p)),  # the gradient of another estimate
        ("mean", lambda loss, t, r, p: Moments(loss(t, p), loss.under_noise(t, r, p).variance)),  # noise lost
        ("variance", lambda loss, t, r, p: loss.under_noise(t, 1.1 * r, p)),  # noise 10 % small
        (
            "mean",  # iid Laplace: covariance 2/r^2
            lambda loss, t, r, p: Moments(
                loss(t, p) + 2 * (np.trace(loss.second) + len(t) * p) / r**2, loss.under_noise(t, r, p).variance
            ),
        ),
    ],
)
def test_wrong_closed_form_is_caught(look: str, mutant: Law) -> None:
    found = objections(noise_checks(12, 0.7, mutant))
    assert any(f", {look}:" in line for line in found), found


def test_loss_without_noise_is_the_limit_of_large_rates() -> None:
    X, y, theta = records(4)
    loss = QuadraticLoss.of(X, y)
    quiet = loss.under_noise(theta, 1e12, 0.3)
    assert quiet.mean == pytest.approx(loss(theta, 0.3)) and quiet.std == pytest.approx(0, abs=1e-9)


def test_loss_refuses_records_without_labels() -> None:
    with pytest.raises(ValueError, match="X has 4 records and y has 3"):
        QuadraticLoss.of(np.ones((4, 2)), np.ones(3))
