"""Biased Laplace answers: errors and losses by enumeration, the noise by its law."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hdpm_lib.learners.queries import BiasedLaplace, linear_query, nonlinear_query
from tests.listed import laplace_privacy_losses, sensitivity_on_grid, terms_on_grid
from tests.support import Check, generator, law_checks, mean_z, objections, z_check

SIZES = [(1, 1), (2, 1), (4, 1), (6, 1), (1, 2), (3, 2), (1, 3), (2, 3)]  # individuals, coordinates
CASES = [(n, m, seed) for n, m in SIZES for seed in range(5)]


def case(n: int, m: int, seed: int) -> tuple[np.ndarray, float, np.ndarray]:
    """Shares (now and then 0 or 1), a scale, and weights of both signs."""
    rng = generator(71, n, m, seed)
    shares = np.clip(rng.uniform(-0.3, 1.3, n), 0, 1)
    return shares, float(10 ** rng.uniform(-1, 1)), rng.choice([-1, 1], n) * 10 ** rng.uniform(-1, 1, n)


@functools.cache
def databases(n: int, m: int) -> np.ndarray:
    """All databases of data that are corners of the box or one point inside it: shape (n, g, ..., g, m)."""
    inside = generator(72, n, m).uniform(0, 1, (n, 1, m))
    corners = np.array(list(itertools.product((0.0, 1.0), repeat=m)))
    values = np.concatenate([np.broadcast_to(corners, (n, *corners.shape)), inside], axis=1)
    index = np.indices((values.shape[1],) * n)
    return np.stack([values[k][index[k]] for k in range(n)])


def weighted(weights: np.ndarray, data: np.ndarray) -> np.ndarray:
    """The terms of the query, on every database."""
    return weights.reshape(-1, *[1] * (data.ndim - 1)) * data


def answer(shares: np.ndarray, weights: np.ndarray, data: np.ndarray) -> np.ndarray:
    """The paper's answer before noise, term by term: share of the datum, half of the rest."""
    return np.sum([q * (a * d + (1 - a) / 2) for a, q, d in zip(shares, weights, data, strict=True)], axis=0)


def errors(shares: np.ndarray, scale: float, weights: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Mean squared error on every database, averaged over coordinates."""
    distance = answer(shares, weights, data) - np.sum([q * d for q, d in zip(weights, data, strict=True)], axis=0)
    return (distance**2).mean(-1) + stats.laplace(scale=scale).var()


# --- accuracy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "m", "seed"), CASES)
def test_worst_error_by_enumeration(n: int, m: int, seed: int) -> None:
    (shares, scale, weights), data = case(n, m, seed), databases(n, m)
    mechanism, terms = linear_query(shares, scale, weights=weights, dimension=m), weighted(weights, data)
    np.testing.assert_allclose(mechanism.mean(terms), answer(shares, weights, data), rtol=0, atol=1e-12)
    found = errors(shares, scale, weights, data)
    np.testing.assert_allclose(mechanism.bias(terms), answer(shares, weights, data) - terms.sum(0), rtol=0, atol=1e-12)
    assert found.max() == pytest.approx(mechanism.worst_case_mse, rel=1e-12)
    for sign in (-1, 1):  # attained where all terms are at the same end
        ends = np.where(sign * weights > 0, 1.0, 0.0)[:, None] * np.ones(m)
        assert errors(shares, scale, weights, ends) == pytest.approx(mechanism.worst_case_mse, rel=1e-12)


BROKEN_ANSWERS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
    "nothing in place of the rest": lambda a, q, t: np.tensordot(a, t, 1),
    "the middle taken as 1/2 of |q|": lambda a, q, t: np.tensordot(a, t, 1) + (1 - a) @ np.abs(q) / 2,
    "the upper end for the middle": lambda a, q, t: np.tensordot(a, t, 1) + (1 - a) @ np.maximum(q, 0),
}


@pytest.mark.parametrize("name", BROKEN_ANSWERS)
def test_enumeration_flags_a_broken_answer(name: str) -> None:
    shares, scale, weights = np.array([0.5, 0.9, 0.2]), 0.3, np.array([1.0, -2.0, 0.7])
    terms = weighted(weights, databases(3, 1)[..., 0])
    bias = BROKEN_ANSWERS[name](shares, weights, terms) - terms.sum(0)
    assert (bias**2).max() + 2 * scale**2 > linear_query(shares, scale, weights=weights).worst_case_mse * 1.1


def test_special_cases() -> None:
    """Theorem 2, Principle 1 at n = 2 and K = 1/4, and the constant: no bias, the printed loss, no loss."""
    plain = linear_query(np.ones(4), 0.5)
    assert (plain.bias(databases(4, 1)[..., 0]) == 0).all()
    assert plain.worst_case_mse == 0.5 and plain.privacy_loss.tolist() == [2] * 4
    equal = linear_query([0.75, 0.75], math.sqrt(1.5) / 4)
    assert equal.worst_case_mse == pytest.approx(0.25) and equal.privacy_loss.tolist() == pytest.approx([6**0.5] * 2)
    constant = linear_query([0, 0, 0], 0)
    assert constant.worst_case_mse == 1.5**2 and constant.privacy_loss.tolist() == [0, 0, 0]
    assert constant.release([0, 1, 0.3], rng=generator(), size=4).tolist() == [1.5] * 4


# --- privacy ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "m", "seed"), CASES)
def test_losses_by_enumeration(n: int, m: int, seed: int) -> None:
    """Exact: a linear query attains m a |q| / b, and no pair of databases loses more."""
    shares, scale, weights = case(n, m, seed)
    promised = linear_query(shares, scale, weights=weights, dimension=m).privacy_loss
    np.testing.assert_allclose(promised, m * shares * np.abs(weights) / scale, rtol=1e-12)
    means = answer(shares, weights, databases(n, m))
    measured = laplace_privacy_losses(means, scale, vector=True)
    np.testing.assert_allclose(measured, promised, rtol=1e-10, atol=1e-12)
    if m == 1:
        np.testing.assert_allclose(laplace_privacy_losses(means[..., 0], scale), measured, rtol=1e-12)


BROKEN_RELEASES: dict[str, Callable[[BiasedLaplace], BiasedLaplace]] = {
    "half the noise": lambda mechanism: replace(mechanism, scale=mechanism.scale / 2),
    "noise 1 % small": lambda mechanism: replace(mechanism, scale=0.99 * mechanism.scale),
    "a share forgotten": lambda mechanism: replace(mechanism, shares=np.append(mechanism.shares[:-1], 1.0)),
    "shares squared away": lambda mechanism: replace(mechanism, shares=np.sqrt(mechanism.shares)),
    "shares in another order": lambda mechanism: replace(mechanism, shares=mechanism.shares[::-1]),
}


@pytest.mark.parametrize("name", BROKEN_RELEASES)
@pytest.mark.parametrize("m", [1, 2])
def test_meter_flags_a_broken_mechanism(name: str, m: int) -> None:
    mechanism = linear_query([0.9, 0.5, 0.2], 0.7, dimension=m)
    broken, data = BROKEN_RELEASES[name](mechanism), databases(3, m)
    share = laplace_privacy_losses(mechanism.mean(data), mechanism.scale, vector=True) / mechanism.privacy_loss
    assert share.max() == pytest.approx(1)
    share = laplace_privacy_losses(broken.mean(data), broken.scale, vector=True) / mechanism.privacy_loss
    assert share.max() > 1.01


def density_losses(means: np.ndarray, scale: float) -> np.ndarray:
    """Largest log ratio of densities that SciPy finds on a fine line of outputs, for all pairs along each axis."""
    line = np.linspace(means.min() - 1, means.max() + 1, 2001)
    log_density = stats.laplace.logpdf(line, means[..., None], scale)
    worst = []
    for j in range(means.ndim):
        rows = np.moveaxis(log_density, j, 0)
        worst.append(max((one - other).max() for one, other in itertools.permutations(rows, 2)))
    return np.array(worst)


@pytest.mark.parametrize("seed", range(4))
def test_meter_against_densities_on_a_line(seed: int) -> None:
    """Answers with no structure at all: what the meter finds is what an observer of the output can see."""
    rng = generator(73, seed)
    means, scale = rng.standard_normal((3, 2, 4)), float(rng.uniform(0.2, 3))
    found = laplace_privacy_losses(means, scale)
    np.testing.assert_allclose(density_losses(means, scale), found, rtol=1e-10)
    assert not np.allclose(density_losses(means, 2 * scale), found, rtol=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_vector_meter_against_densities_on_a_plane(seed: int) -> None:
    rng = generator(74, seed)
    means, scale = rng.standard_normal((2, 3, 2)), float(rng.uniform(0.2, 3))
    line = np.linspace(means.min() - 1, means.max() + 1, 101)
    marginal = stats.laplace.logpdf(line, means[..., None], scale)  # (2, 3, coordinate, line)
    joint = marginal[..., 0, :, None] + marginal[..., 1, None, :]
    worst = []
    for j in (0, 1):
        pairs = itertools.permutations(np.moveaxis(joint, j, 0), 2)
        worst.append(max((one - other).max() for one, other in pairs))
    np.testing.assert_allclose(laplace_privacy_losses(means, scale, vector=True), worst, rtol=1e-10)
    blind = np.linalg.norm(means[0] - means[1], axis=-1).max() / scale  # Euclidean distance would miss some
    assert blind < worst[0] * (1 - 1e-6)


def test_half_lines_attain_the_loss() -> None:
    """Definition 1 speaks of sets of outputs: that below both answers has the worst ratio of probabilities."""
    mechanism = linear_query([0.8, 0.3], 0.4, weights=[1.0, -2.0])
    ends = mechanism.mean(np.array([[0.0, 1.0, 0.0], [-2.0, -2.0, 0.0]]))  # both low, first moved, second moved
    below = stats.laplace.logcdf(ends.min(), ends, 0.4)
    np.testing.assert_allclose(np.abs(below[1:] - below[0]), mechanism.privacy_loss, rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_group_privacy(seed: int) -> None:
    """Losses add up over those who differ, with equality where all their terms move to the same other end."""
    (shares, scale, weights), rng = case(5, 1, seed), generator(75, seed)
    mechanism = linear_query(shares, scale, weights=weights)
    line = np.linspace(-np.abs(weights).sum() - 1, np.abs(weights).sum() + 1, 2001)
    for size, extreme in itertools.product(range(1, 6), (False, True)):
        group = rng.choice(5, size, replace=False)
        data = np.repeat(rng.random((5, 1)), 2, axis=1)
        data[group] = (weights[group, None] > 0) == [False, True] if extreme else rng.random((size, 2))
        one, other = stats.laplace.logpdf(line, mechanism.mean(weighted(weights, data))[:, None], scale)
        loss, limit = np.abs(one - other).max(), mechanism.privacy_loss[group].sum()
        if extreme or limit == 0:
            assert loss == pytest.approx(limit, rel=1e-10, abs=1e-12)
        else:
            assert loss < limit * (1 - 1e-6)


# --- release ----------------------------------------------------------------------------------------------------------

DRAWS = 20_000
SETTINGS = [(3, 1), (1, 1), (4, 2), (2, 3)]
Release = Callable[..., np.ndarray]


def release_checks(n: int, m: int, release: Release = BiasedLaplace.release) -> list[Check]:
    """The noise of releases at the database with the worst error: its law, its independence, and the error itself.

    Together they fail without cause with the probability `FALSE_ALARM` at most. Squares of Laplace variables are
    skewed: at 20 000 draws the normal tail is too light by a factor of about 20, and the error's limit allows for 100.
    """
    (shares, scale, weights), rng = case(n, m, 9), generator(76, n, m)
    mechanism = linear_query(shares, scale, weights=weights, dimension=m)
    data = np.where(weights > 0, 1.0, 0.0)[:, None] * np.ones(m)
    terms = weighted(weights, data)[:, 0] if m == 1 else weighted(weights, data)
    released = release(mechanism, terms, rng=rng, size=DRAWS).reshape(DRAWS, m)
    noise = (released - answer(shares, weights, data)) / scale
    square = ((released - weights @ data) ** 2).mean(1)
    flat = iter(np.split(noise.reshape(-1, 1), 2 * m))  # coordinates in turn: consecutive draws tell if they are shared
    return [
        *law_checks(lambda k: next(flat), DRAWS * m, looks=2),
        z_check("mean squared error", DRAWS, float(mean_z(square, mechanism.worst_case_mse)), 400),
        z_check("mean", DRAWS, float(mean_z(noise.mean(1), 0)), 4),
    ]


@pytest.mark.parametrize(("n", "m"), SETTINGS)
def test_release(n: int, m: int) -> None:
    assert objections(release_checks(n, m)) == []


def shared_noise(self: BiasedLaplace, terms: Any, *, rng: np.random.Generator, size: int) -> np.ndarray:
    return self.mean(terms) + rng.laplace(scale=self.scale, size=(size, 1))


def gaussian_noise(self: BiasedLaplace, terms: Any, *, rng: np.random.Generator, size: int) -> np.ndarray:
    return self.mean(terms) + rng.normal(scale=2**0.5 * self.scale, size=(size, 2))


def half_noise(self: BiasedLaplace, terms: Any, **more: Any) -> np.ndarray:
    return replace(self, scale=self.scale / 2).release(terms, **more)


def no_bias(self: BiasedLaplace, terms: Any, **more: Any) -> np.ndarray:
    return replace(self, shares=np.ones_like(self.shares)).release(terms, **more)


@pytest.mark.parametrize(
    ("release", "look"),
    [
        (shared_noise, "consecutive radii"),
        (gaussian_noise, "radius"),
        (half_noise, "mean squared error"),
        (no_bias, "mean"),
    ],
)
def test_broken_release_is_flagged(release: Release, look: str) -> None:
    found = objections(release_checks(4, 2, release))
    assert any(line.startswith(f"{look}:") for line in found), found


def test_shapes_and_seeds() -> None:
    for size, batch in (((), ()), (5, (5,)), ((3, 4), (3, 4)), (0, (0,))):
        assert linear_query([1.0, 0.5], 1).release([0, 1], rng=generator(), size=size).shape == batch
        vectors = linear_query([1.0, 0.5], 1, dimension=3).release(np.zeros((2, 3)), rng=generator(), size=size)
        assert vectors.shape == (*batch, 3)
    mechanism = linear_query([1.0], 1.0)
    one, again, other = (mechanism.release([0.5], rng=generator(k)) for k in (1, 1, 2))
    assert one == again != other


# --- non-linear queries -----------------------------------------------------------------------------------------------

EXAMPLE = [lambda d: d[0] / (1 + d[1] ** 2), lambda d: 1 / (1 + d[0] ** 2)]
POINTS = 41


def test_example_1() -> None:
    terms = terms_on_grid(EXAMPLE, 2, POINTS)
    assert terms.shape == (2, POINTS, POINTS)
    sensitivity = sensitivity_on_grid(terms)
    np.testing.assert_allclose(sensitivity, [[1, 0.5], [0.5, 0]], rtol=0, atol=1e-15)
    b = 0.3
    plain = nonlinear_query([1, 1], b, sensitivity)
    np.testing.assert_allclose(plain.privacy_loss, [1.5 / b, 0.5 / b])
    # f1 rises and f2 falls in d1: together they move by a half at most
    np.testing.assert_allclose(laplace_privacy_losses(plain.mean(terms), b), [0.5 / b, 0.5 / b])


@pytest.mark.parametrize("shares", [(1.0, 1.0), (0.4, 1.0), (0.0, 0.7), (0.3, 0.2), (0.0, 0.0)])
def test_theorem_10_bounds_example_1(shares: tuple[float, float]) -> None:
    terms, b = terms_on_grid(EXAMPLE, 2, POINTS), 0.3
    mechanism = nonlinear_query(shares, b, sensitivity_on_grid(terms))
    a1, a2 = shares
    np.testing.assert_allclose(mechanism.privacy_loss, [(a1 + a2 / 2) / b, a1 / 2 / b])  # (27)
    assert mechanism.worst_case_mse == pytest.approx(((2 - a1 - a2) / 2) ** 2 + 2 * b**2)
    means = a1 * terms[0] + a2 * terms[1] + (1 - a1) / 2 + (1 - a2) / 2
    np.testing.assert_allclose(mechanism.mean(terms), means, atol=1e-12)
    error = (means - terms.sum(0)) ** 2 + 2 * b**2
    np.testing.assert_allclose(mechanism.bias(terms) ** 2 + 2 * b**2, error, atol=1e-12)
    assert error.max() <= mechanism.worst_case_mse + 1e-12
    assert (laplace_privacy_losses(means, b) <= mechanism.privacy_loss + 1e-12).all()


def test_a_constant_answers_example_1() -> None:
    """The query lies in [1, 1.5], so 1.25 is within 1/4 of it and costs no privacy."""
    query = terms_on_grid(EXAMPLE, 2, POINTS).sum(0)
    assert query.min() == 1 and query.max() == 1.5
    constant = BiasedLaplace([0.0], 0.0, [[0.5, 0.5]], [0.5], [1.0])  # type: ignore[arg-type]
    assert constant.worst_case_mse == 1 / 16 == (constant.bias(query[None]) ** 2).max()
    assert constant.privacy_loss.tolist() == [0, 0]
    assert (constant.mean(query[None]) == 1.25).all()


def test_understated_sensitivity_is_flagged() -> None:
    terms, b = terms_on_grid([lambda d: d[0] * d[1], lambda d: d[1] ** 2], 2, 5), 0.5
    sensitivity = sensitivity_on_grid(terms)
    found = laplace_privacy_losses(nonlinear_query([1, 1], b, sensitivity).mean(terms), b)
    np.testing.assert_allclose(found, nonlinear_query([1, 1], b, sensitivity).privacy_loss)
    assert (found > nonlinear_query([1, 1], b, 0.9 * sensitivity).privacy_loss).all()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_sensitivity_by_all_pairs(n: int) -> None:
    functions = [lambda d: np.sin(5 * d.sum(0)), lambda d: d[0], lambda d: 0.25]
    values = terms_on_grid(functions, n, 4)
    grid = list(itertools.product(range(4), repeat=n))
    for k, function in enumerate(functions):
        expected = np.zeros(n)
        for D, E in itertools.product(grid, grid):
            differ = [j for j in range(n) if D[j] != E[j]]
            if len(differ) == 1:
                change = abs(function(np.array(D) / 3) - function(np.array(E) / 3))
                expected[differ[0]] = max(expected[differ[0]], change)
        np.testing.assert_allclose(sensitivity_on_grid(values)[k], expected, atol=1e-14)
        assert values[k][(1,) * n] == pytest.approx(function(np.full(n, 1 / 3)))


# --- what is refused --------------------------------------------------------------------------------------------------


REFUSED = "^terms must lie in their intervals: scale by public bounds, or clip$"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: linear_query([0.5, 1.2], 1.0), r"shares must lie in \[0, 1\], got shares\[1\] = 1\.2"),
        (lambda: linear_query([0.0, 0.5], 0.0), r"scale must be positive .*every share 0\), got 0\.0"),
        (lambda: linear_query([0.5], 1.0, weights=[0.0]), r"weights must not be 0 .*, got weights\[0\] = 0\.0"),
        (lambda: nonlinear_query([1, 1], 1.0, [[1.0, -2.0], [0, 0]]), r"got sensitivity\[0, 1\] = -2\.0"),
        (lambda: nonlinear_query([1, 1], 1.0, [[1.0]]), "sensitivity has 1 rows for 2 shares"),
        (lambda: BiasedLaplace([1], 1, [[1]], [0.0], [0]), r"ranges must be positive, got ranges\[0\] = 0\.0"),  # type: ignore[arg-type]
        (lambda: BiasedLaplace([1], 1, [[1]], [1], [0, 0]), "lower has 2 rows for 1 shares"),  # type: ignore[arg-type]
        (lambda: linear_query([1, 1], 1.0).mean([0.5, 1.01]), REFUSED),
        (lambda: linear_query([1], 1.0, weights=[-1]).bias([0.5]), REFUSED),
        (lambda: linear_query([1, 1], 1.0).bias([math.nan, 0]), REFUSED),
        (lambda: linear_query([1, 1], 1.0).mean(0.5), r"terms must have 2 rows, .*, got shape \(\)"),
        (
            lambda: linear_query([1, 1], 1.0, dimension=2).release([[0, 0], [0, -3]], rng=generator()),
            REFUSED,
        ),
        (
            lambda: linear_query([1, 1], 1.0).release([0.5], rng=generator()),
            r"terms must have shape \(2,\), got \(1,\)",
        ),
        (
            lambda: linear_query([1, 1], 1.0, dimension=3).release([0.5, 0.5], rng=generator()),
            "terms must be an array, a table or lists, with rows of one length",
        ),
    ],
)
def test_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("arithmetic", ["lattice", "ideal"])
def test_nobody_who_sells_is_released_as_a_constant(arithmetic: Any) -> None:
    query = linear_query([0.0, 0.0], 1.0, arithmetic=arithmetic)
    assert (query.privacy_loss == 0).all()
    released = query.release([0.3, 0.9], rng=generator(71), size=3)
    assert released.shape == (3,) and len(np.unique(released)) == 3


def test_by_default_a_datum_outside_is_refused() -> None:
    plain = BiasedLaplace(np.ones(1), 1.0, np.ones((1, 1)), np.ones(1), np.zeros(1))
    for query in (plain, linear_query([1.0], 1.0), nonlinear_query([1.0], 1.0, [[1.0]])):
        with pytest.raises(ValueError, match="must lie in"):
            query.mean([2.0])
