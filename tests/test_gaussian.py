"""Losses of Gaussian releases: by integrals, sums over lattices, other programs, and guesses of an
audit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from scipy import integrate, stats

from hdpm_lib.audits.black_box import audit
from hdpm_lib.gaussian import (
    discrete_gaussian_mu,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    largest_mu,
)
from tests.support import SEED, generator, refusals

Array = np.ndarray

normal = stats.norm.pdf


def apart(
    first: Callable[..., Any], second: Callable[..., Any], epsilon: float, mu: float
) -> float:
    """By how much a density exceeds exp(epsilon) times another, in all."""
    x = np.linspace(-9, mu + 9, 300_001)
    return float(integrate.trapezoid(np.maximum(first(x) - math.exp(epsilon) * second(x), 0), x))


# no pure loss
CASES = [(0, 1, 0), (0.5, 0.3, 0), (1, 1, 0), (3, 0.7, 0), (2, 2, 0), (1, 4, 0), (8, 2.5, 0)]
CASES += [(0, 1, 1), (0.5, 1, 2), (2, 1, 0.5), (3, 0.5, 3), (1, 0, 2), (2, 0, 2)]


@pytest.mark.parametrize(("epsilon", "mu", "pure"), CASES)
def test_delta_is_the_integral_of_what_one_density_exceeds(
    epsilon: float, mu: float, pure: float
) -> None:
    """Of a Gaussian variable, and a coin that tells the truth with the odds of a pure loss beside
    it.
    """
    truth = 1 / (1 + math.exp(-pure))
    right = 0.0
    for p, q in ((truth, 1 - truth), (1 - truth, truth)):
        if mu:
            right += apart(
                lambda x, p=p: p * normal(x - mu), lambda x, q=q: q * normal(x), epsilon, mu
            )
        else:
            right += max(p - math.exp(epsilon) * q, 0)
    assert float(gaussian_delta(epsilon, mu, pure)) == pytest.approx(
        right, rel=1e-6, abs=1e-12 if pure else 1e-11
    )
    assert not mu or abs(float(gaussian_delta(epsilon, mu / 2, pure)) - right) > 1e-3 * right


def test_several_releases_are_one_of_the_root_of_squares() -> None:
    """Three releases, of vectors: by the law of the log-likelihood ratio, drawn and not derived."""
    moved = np.array([1.0, 0.5, 2.0])
    sd = np.array([2.0, 0.8, 3.0])
    mu = gaussian_mu(moved, sd)
    n = 400_000
    with pytest.raises(
        ValueError, match=r"sensitivity \(2,\) and sd \(3,\) are shapes that do not go"
    ):
        gaussian_mu(moved[:2], sd)
    assert (
        gaussian_mu([moved, 2 * moved], sd) == pytest.approx([mu, 2 * mu])
        and gaussian_mu(3.0, 2.0) == 1.5
    )
    x = moved + sd * generator(901).standard_normal((n, 3))
    ratio = (stats.norm.logpdf(x, moved, sd) - stats.norm.logpdf(x, 0, sd)).sum(1)
    for epsilon in (0.0, 0.5, 1.5):
        gap = np.maximum(1 - np.exp(epsilon - ratio), 0)
        error = gap.std() / math.sqrt(n)
        assert abs(gap.mean() - gaussian_delta(epsilon, mu)) < 6 * error
        assert abs(gap.mean() - gaussian_delta(epsilon, (moved / sd).max())) > 20 * error


def test_epsilon_and_mu_are_inverses_of_delta() -> None:
    mu = np.array([[0.05], [1.0], [7.0]])
    pure = np.array([0.0, 0.5, 3.0, 40.0])
    delta = np.array([1e-12, 1e-5, 0.01, 0.3])
    for d in delta:
        epsilon = gaussian_epsilon(d, mu, pure)
        assert epsilon.shape == (3, 4)
        np.testing.assert_allclose(gaussian_delta(epsilon, mu, pure)[epsilon > 0], d, rtol=1e-9)
        assert (gaussian_delta(0, mu, pure)[epsilon == 0] <= d).all()
        inside = (epsilon >= pure) & (epsilon > 0)
        found = largest_mu(epsilon[inside], d, np.broadcast_to(pure, epsilon.shape)[inside])
        np.testing.assert_allclose(found, np.broadcast_to(mu, epsilon.shape)[inside], rtol=1e-8)
        assert gaussian_delta(2.0, largest_mu(2.0, d, 1.5), 1.5) == pytest.approx(d, rel=1e-9)
    assert (
        gaussian_epsilon(0.3, 0.1) == gaussian_epsilon(1e-5, 0) == 0
        and gaussian_epsilon(1e-9, 0, 2) < 2
    )
    # where rounding hides what is added
    assert gaussian_epsilon(1e-99, 1e-12, 1e12) == pytest.approx(1e12)
    with pytest.raises(ValueError, match=r"pure must be at most epsilon, got 2\.0"):
        largest_mu(1.0, 1e-5, 2.0)


def test_the_accountant_of_another_library_agrees() -> None:
    accounting = pytest.importorskip(
        "dp_accounting", reason="`make nightly` installs dp-accounting"
    )
    spent = accounting.pld.PLDAccountant()
    spent.compose(accounting.GaussianDpEvent(2.0), 10)
    mu = gaussian_mu([1.0] * 10, 2.0)
    for delta in (1e-9, 1e-5, 0.01):
        assert float(gaussian_epsilon(delta, mu)) == pytest.approx(
            spent.get_epsilon(delta), rel=1e-6
        )
    for epsilon in (0.0, 1.0, 4.0):
        assert float(gaussian_delta(epsilon, mu)) == pytest.approx(
            spent.get_delta(epsilon), rel=1e-6
        )


# --- against 450 digits, over the whole range of use ------------------------------------------


@pytest.fixture
def digits() -> Iterator[None]:
    before = ctx.prec
    ctx.prec = 1500
    yield
    ctx.prec = before


def ball(number: float) -> arb:
    above, below = float(number).as_integer_ratio()
    return arb(above) / arb(below)


def one_delta(epsilon: arb, mu: arb) -> arb:
    """Theorem 5 of Balle and Wang; a tail that no exponential function holds by Tricomi's."""
    if epsilon < 0:
        return 1 - epsilon.exp() + epsilon.exp() * one_delta(-epsilon, mu)
    x = epsilon / mu - mu / 2
    far = (x + mu) / arb(2).sqrt()
    scaled = (far * far).hypgeom_u(arb(1) / 2, arb(1) / 2) / arb.pi().sqrt()
    return ((x / arb(2).sqrt()).erfc() - (-x * x / 2).exp() * scaled) / 2


def true_delta(epsilon: float, mu: float, pure: float = 0.0) -> arb:
    e, m, more = map(ball, (epsilon, mu, pure))
    truth = 1 / (1 + (-more).exp())
    return truth * one_delta(e - more, m) + (1 - truth) * one_delta(e + more, m)


Points = tuple[Array, Array, Array]


def points(key: int, count: int = 200) -> Points:
    """mu over the whole range, epsilon near and far from where delta falls, and pure losses."""
    rng = generator(906, key)
    reach = np.array([(-100, 100), (-20, 5), (-5, 3)])[rng.integers(3, size=count)]
    mu = np.minimum(10 ** rng.uniform(*reach.T), 1e49)
    z = np.where(rng.random(count) < 0.5, rng.uniform(-37, 37, count), rng.normal(size=count))
    pure = np.where(rng.random(count) < 0.3, 10 ** rng.uniform(-3, 3, count), 0.0)
    epsilon = np.maximum(mu**2 / 2 + z * mu + pure * rng.integers(0, 2, count), 0)
    return epsilon, mu, pure


def worst_delta(found: Array, epsilon: Array, mu: Array, pure: Array) -> float:
    """The largest relative error, where delta is above 1e-300."""
    worst = 0.0
    for said, *at in zip(found, epsilon, mu, pure, strict=True):
        true = true_delta(*at)
        if true > 1e-300:
            worst = max(worst, float(abs(ball(said) / true - 1).upper()))
    return worst


@pytest.mark.parametrize("key", range(2))
def test_delta_has_its_digits_over_the_whole_range(key: int, digits: None) -> None:
    """Both tails tiny, or nearly equal, exponentials that are no floats, squares that cancel."""
    given = points(key)
    found = gaussian_delta(*given)
    assert worst_delta(found, *given) < 1e-10
    assert worst_delta(found * (1 + 1e-9), *given) > 1e-10


def off(delta: float, low: tuple[float, ...], high: tuple[float, ...]) -> bool:
    """Whether delta is not between those at two points, the greater one first."""
    return not (true_delta(*high) <= ball(delta) <= true_delta(*low))


@pytest.mark.parametrize("key", range(2))
def test_epsilon_and_mu_have_their_digits_over_the_whole_range(key: int, digits: None) -> None:
    """A part in 1e9 more and less is on either side, or the delta has as many digits."""
    rng = generator(907, key)
    _, mu, pure = points(key)
    share = rng.random(len(mu))
    delta = np.where(rng.random(len(mu)) < 0.5, 10 ** (-100 * share), 1e-100 + 0.99 * share)
    near = 1 + np.array([-1e-9, 1e-9])
    for d, m, p, e in zip(delta, mu, pure, gaussian_epsilon(delta, mu, pure), strict=True):
        if e == 0:
            assert true_delta(0.0, m, p) <= ball(d) * (1 + ball(1e-9))
        elif abs(true_delta(e, m, p) / ball(d) - 1) > 1e-9:
            low, high = e * near
            assert not off(d, (low, m, p), (high, m, p)), (e, d, m, p)
    epsilon = 10 ** rng.uniform(-100, 99, len(mu))
    pure = epsilon * rng.choice([0.0, 0.0, 0.5, 1.0], len(mu))
    for e, d, p, m in zip(epsilon, delta, pure, largest_mu(epsilon, delta, pure), strict=True):
        if abs(true_delta(e, m, p) / ball(d) - 1) > 1e-9:
            low, high = m * near
            assert not off(d, (e, high, p), (e, low, p)), (e, d, p, m)


def test_small_losses_are_not_lost() -> None:
    """What was said a hundred thousand times too small, NaN or infinite."""
    assert gaussian_epsilon(1e-20, 1e-16) == pytest.approx(3.3630153e-16, rel=1e-7)
    assert gaussian_epsilon(1e-5, 1e80) == pytest.approx(5e159)


test_what_is_out_of_the_range_of_use_is_refused = refusals(
    (lambda: gaussian_epsilon(1e-5, 1e155), "mu must have a size from 1e-100 to 1e[+]100"),
    (lambda: gaussian_delta(1.0, [1.0, 1e-170]), "mu must have a size .* got 1e-170"),
    (lambda: gaussian_epsilon(5e-324, 1.0), "delta must have a size"),
    (lambda: gaussian_mu(1e-80, 1e80), "sensitivity / sd must have a size .* got 1e-160"),
    (lambda: gaussian_mu(1e80, 1e-80), "sensitivity / sd must have a size .* got 1e[+]160"),
    (lambda: largest_mu(1e101, 1e-5), "epsilon must have a size"),
)


def on_integers(epsilon: float, shift: int, sd: float) -> float:
    """What discrete Gaussian noise loses, summed over the integers."""
    k = np.arange(-round(40 * sd), shift + round(40 * sd) + 1)
    weights = np.exp(-np.square([k - shift, k]) / (2 * sd**2))
    moved, there = weights / weights[1].sum()
    return float(np.maximum(moved - math.exp(epsilon) * there, 0).sum())


@pytest.mark.parametrize("sd", [3.2, 4.0, 10.0, 100.0])
@pytest.mark.parametrize("far", [0.25, 1.0, 3.0])
def test_integers_lose_no_more_than_is_said(sd: float, far: float) -> None:
    """And hardly less for wide noise. That the variance alone would say too little is seen, too."""
    shift = max(1, round(far * sd))
    mu = float(discrete_gaussian_mu(shift, sd))
    grid = np.linspace(0, far**2 / 2 + 3 * far, 100)
    exact = np.array([on_integers(epsilon, shift, sd) for epsilon in grid])
    said = gaussian_delta(grid, mu)
    without = gaussian_delta(grid, shift / sd)
    assert (exact <= said * (1 + 1e-12)).all()
    assert (exact > without * (1 + 1e-6)).any()
    assert (exact > gaussian_delta(grid, shift / sd / 2)).any()
    assert sd < 100 or (exact >= 0.99 * said).all()


def test_an_audit_finds_a_mu_that_is_half_and_not_the_right_one() -> None:
    """False alarms: once in 10**6. Releases are rounded, as the last digits of floats would
    tell.
    """

    def mechanism(data, rng, size):
        return np.rint((data.sum() + rng.normal(0, 2, size)) * 2**20) / 2**20

    look: Any = partial(
        audit, mechanism, np.zeros(1), 2 * np.ones(1), runs=60_000, time_limit=None, seed=SEED
    )
    for epsilon in (0.2, 1.0):
        right, half = (
            float(gaussian_delta(epsilon, gaussian_mu(moved, 2.0))) for moved in (2.0, 1.0)
        )
        assert look(epsilon, right, level=1e-6).passed and look(epsilon, half, level=1e-6).found
