"""Least error bounds against a conic solver, grids, certificates and differences; and what is done
with bad input.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hdpm_book.federated import aggregation_jax
from hdpm_book.records import page_functions
from hdpm_lib.aggregation import error_bound, least_error_weights, size_weights
from tests.bench.aggregation import conic_weights
from tests.support import generator, z_limit

Solver = Callable[..., np.ndarray]
LOOKS_AT = ["book/federated/aggregation.md"]
PAGE = page_functions("federated/aggregation", "opt_aggr_printed")
opt_aggr_printed = PAGE["opt_aggr_printed"]
WIDTH = 615  # coordinates of a gradient of five classes and 122 features


def market(n: int, rng: np.random.Generator, idle: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Losses and sizes with ties, spread over several orders of magnitude, some owners idle, but
    never all.
    """
    epsilon = np.exp(rng.choice([0.3, 2.0]) * rng.standard_normal(n)) * rng.choice([0.1, 1.0, 10.0])
    sizes = np.exp(rng.choice([0.1, 2.0]) * rng.standard_normal(n))
    if rng.random() < 0.4:
        epsilon = epsilon[rng.integers(0, n, n)]
    if rng.random() < 0.4:
        sizes = sizes[rng.integers(0, n, n)]
    if rng.random() < 0.1:
        sizes = epsilon**2  # everybody's noise fits her share
    epsilon = np.where((rng.random(n) < idle) & (np.arange(n) != rng.integers(n)), 0.0, epsilon)
    return epsilon, sizes


def shares_of(sizes: np.ndarray) -> np.ndarray:
    return np.asarray(sizes / sizes.sum(-1, keepdims=True))


# --- the least error bound ----------------------------------------------------------------------


def beaten(solver: Solver, instances: int = 40) -> list[str]:
    """How a solver of Problem 1 loses against the conic one: a higher bound, or weights off the
    simplex.
    """
    rng = generator(1)
    wrong = []
    excess = []
    for n, coordinates in itertools.product((1, 2, 5, 10, 50), (1, WIDTH)):
        for k in range(instances // 2):
            epsilon, sizes = market(n, rng)
            weights = solver(epsilon, sizes, coordinates=coordinates)
            oracle = conic_weights(epsilon, shares_of(sizes), coordinates)
            mine, best = (
                float(error_bound(w, epsilon, sizes, coordinates=coordinates))
                for w in (weights, oracle)
            )
            if not (
                mine <= best * (1 + 1e-10)
                and abs(weights.sum() - 1) < 1e-12
                and (weights >= 0).all()
            ):
                wrong.append(f"n={n}, instance {k}: {mine:.15g} against {best:.15g}")
            excess.append(best / mine - 1)
    assert np.quantile(excess, 0.95) < 1e-9  # an oracle that fails more often shows nothing
    return wrong


def test_no_worse_than_a_conic_solver() -> None:
    assert beaten(least_error_weights) == []


@pytest.mark.parametrize(
    "broken",
    [
        # shares of the idle left out
        lambda e, d, coordinates: opt_aggr_printed(e * coordinates**-0.5, d),
        lambda e, d, coordinates: opt_aggr_printed(e * coordinates**-0.5, d, renormalised=True),
        lambda e, d, coordinates: least_error_weights(e, d, coordinates=2 * coordinates),
        lambda e, d, coordinates: least_error_weights(e, d),
        lambda e, d, coordinates: size_weights(e, d),
        lambda e, d, coordinates: e**2 / (e**2).sum(),
        lambda e, d, coordinates: 1.001 * least_error_weights(e, d, coordinates=coordinates),
    ],
)
def test_broken_solvers_are_beaten(broken: Solver) -> None:
    assert len(beaten(broken, 10)) > 5


def certified_excess(weights: np.ndarray, epsilon: np.ndarray, sizes: np.ndarray) -> float:
    """Upper bound on the relative excess of the bound over its minimum, from a subgradient at the
    weights.

    A convex function lies above its tangents, and the least value of a tangent on the simplex
    stands at a corner.
    """
    shares = shares_of(sizes)
    sells = epsilon > 0
    weight = weights[sells]
    share = shares[sells]
    noise = 16 * weight / epsilon[sells] ** 2
    reach = 2 * np.abs(weights - shares).sum()
    moved = weight != share
    level = np.mean((noise + reach * np.sign(weight - share))[moved])
    slope = noise + np.where(
        moved, reach * np.sign(weight - share), np.clip(level - noise, -reach, reach)
    )
    return float((slope @ weight - slope.min()) / error_bound(weights, epsilon, sizes))


# --- many owners --------------------------------------------------------------------------------


def test_many_owners() -> None:
    """Certified where a conic solver would take too long, and alike in rows of a batch."""
    rng = generator(17)
    for i in range(24):
        epsilon, sizes = market(int(10 ** rng.uniform(3.1, 4.7)), rng, idle=(0.0, 0.3, 0.99)[i % 3])
        coordinates = (1, WIDTH, 10**7)[i // 3 % 3]
        weights = least_error_weights(epsilon, sizes, coordinates=coordinates)
        assert certified_excess(weights, epsilon * coordinates**-0.5, sizes) < 1e-9
    assert (least_error_weights(np.zeros(2000), np.ones(2000)) == 1 / 2000).all()
    np.testing.assert_allclose(
        least_error_weights(np.ones(2000), np.ones(2000)), 1 / 2000, rtol=1e-14
    )
    epsilon = rng.uniform(0.2, 2, (2, 2, 1500))
    sizes = rng.lognormal(0, 1, 1500)
    batch = least_error_weights(epsilon, sizes)
    for i in np.ndindex(2, 2):
        np.testing.assert_allclose(batch[i], least_error_weights(epsilon[i], sizes), rtol=1e-13)


def test_certificate_objects_to_other_weights() -> None:
    epsilon, sizes = market(2000, generator(18))
    weights = least_error_weights(epsilon, sizes)
    moved = weights * np.where(np.arange(2000) < 1000, 1.01, 1.0)
    assert certified_excess(moved / moved.sum(), epsilon, sizes) > 1e-9


def test_known_answers() -> None:
    exact = np.array([33 / 38, 5 / 38, 0])
    np.testing.assert_allclose(least_error_weights([2, 0.5, 0], [1, 1, 2]), exact, rtol=1e-14)
    np.testing.assert_allclose(
        least_error_weights([[2, 2, 0]], [1, 3, 4]), [[0.5, 0.5, 0]], rtol=1e-14
    )
    np.testing.assert_array_equal(least_error_weights([3.0], [7]), [1.0])
    np.testing.assert_allclose(least_error_weights([0, 3.0], [7, 1]), [0, 1], rtol=1e-14)
    np.testing.assert_array_equal(least_error_weights([0, 0], [1, 3]), [0.25, 0.75])
    np.testing.assert_array_equal(least_error_weights([1, 1, 1], [2, 2, 2]), np.full(3, 1 / 3))
    assert error_bound([0.25, 0.75], [0, 0], [1, 3]) == np.inf
    assert error_bound([0, 1], [0, 2], [1, 3], 3.0, coordinates=5) == pytest.approx(
        9 * (8 * 5 / 4 + 0.5**2)
    )
    np.testing.assert_array_equal(
        size_weights([[1, 0, 2], [0, 0, 0]], [1, 2, 3]), [[0.25, 0, 0.75], [1 / 6, 2 / 6, 3 / 6]]
    )


def test_limits() -> None:
    rng = generator(5)
    epsilon = rng.uniform(0.5, 2, (50, 6))
    sizes = rng.uniform(1, 9, (50, 6))
    noisy = least_error_weights(epsilon, sizes, coordinates=10**12)
    exact = least_error_weights(1e6 * epsilon, sizes)
    np.testing.assert_allclose(noisy, epsilon**2 / (epsilon**2).sum(-1, keepdims=True), rtol=1e-9)
    np.testing.assert_allclose(exact, shares_of(sizes), rtol=1e-9)
    tiny = least_error_weights(1e-80 * epsilon, sizes)
    far = least_error_weights([1.0, 1e-60, 1.0], [1, 9, 1])
    np.testing.assert_allclose(tiny, noisy, rtol=1e-9)
    np.testing.assert_allclose(far, [0.5, 0, 0.5], rtol=1e-14)


def test_batches() -> None:
    rng = generator(6)
    rows = [market(10, rng) for _ in range(60)]
    epsilon, sizes = (np.array(part).reshape(4, 15, 10) for part in zip(*rows, strict=True))
    for function in (least_error_weights, opt_aggr_printed, size_weights):
        single = np.array([function(e, d) for e, d in rows])
        np.testing.assert_allclose(
            function(epsilon, sizes).reshape(single.shape), single, rtol=1e-13, atol=1e-300
        )
    weights = least_error_weights(epsilon, sizes[0, 0])  # sizes that all share
    assert weights.shape == epsilon.shape and error_bound(weights, epsilon, sizes).shape == (4, 15)
    np.testing.assert_allclose(
        least_error_weights(epsilon[1, 2], sizes)[3, 4],
        least_error_weights(epsilon[1, 2], sizes[3, 4]),
        rtol=1e-13,
    )


# --- the error itself ---------------------------------------------------------------------------


def simulated_z(coordinates: int) -> float:
    """Standard errors between the simulated squared error of a worst case, in four dimensions, and
    the bound.
    """
    rng = generator(7)
    clip = 1.5
    dimension = 4
    draws = 40_000
    epsilon = np.array([2.0, 1.0, 0.7, 0.0])
    sizes = np.array([1.0, 4.0, 2.0, 1.0])
    weights = least_error_weights(epsilon, sizes)
    shares = shares_of(sizes)
    gradients = np.zeros((4, dimension))
    gradients[:, 1] = clip * np.where(weights >= shares, 1, -1)
    sells = epsilon > 0
    noise = rng.laplace(size=(draws, sells.sum(), dimension)) * (2 * clip / epsilon[sells])[:, None]
    error = (gradients[sells] + noise).transpose(0, 2, 1) @ weights[sells] - shares @ gradients
    squared = (error**2).sum(1)
    bound = error_bound(weights, epsilon, sizes, clip, coordinates=coordinates)
    return float((squared.mean() - bound) / squared.std() * draws**0.5)


def test_bound_is_the_mean_squared_error_of_the_worst_case() -> None:
    assert abs(simulated_z(4)) < z_limit()
    assert simulated_z(1) > z_limit()


# --- Problem 3 as printed, and as coded ---------------------------------------------------------


@pytest.mark.parametrize("renormalised", [False, True])
def test_printed_problem_against_a_conic_solver(renormalised: bool) -> None:
    rng = generator(9)
    excess = []
    for n, _ in itertools.product((1, 2, 5, 10), range(30)):
        epsilon, sizes = market(n, rng, idle=0.5)
        shares = size_weights(epsilon, sizes) if renormalised else shares_of(sizes)
        sells = epsilon > 0
        mine = opt_aggr_printed(epsilon, sizes, renormalised=renormalised)
        oracle = conic_weights(epsilon, shares, printed=True)
        both = np.array([oracle, mine])[:, sells]
        best, found = (
            8 * (both**2 / epsilon[sells] ** 2).sum(1) + np.abs(both - shares[sells]).sum(1) ** 2
        )
        excess.append(best / found - 1)
        assert (
            mine.sum() == pytest.approx(1, rel=1e-12)
            and (mine[~sells] == 0).all()
            and (mine[sells] > 0).all()
        )
    assert min(excess) > -1e-10 and np.quantile(excess, 0.95) < 1e-9


def test_all_three_agree_where_everybody_sells_and_only_there() -> None:
    rng = generator(10)
    epsilon = rng.uniform(0.5, 2, (500, 6))
    sizes = rng.lognormal(0, 1, (500, 6))
    for renormalised in (False, True):
        printed = opt_aggr_printed(epsilon, sizes, renormalised=renormalised)
        np.testing.assert_allclose(printed, least_error_weights(epsilon, sizes), rtol=1e-12)
        some = np.where(np.arange(6) < 4, epsilon, 0.0)
        worse = error_bound(opt_aggr_printed(some, sizes, renormalised=renormalised), some, sizes)
        ratio = worse / error_bound(least_error_weights(some, sizes), some, sizes)
        assert (ratio > 1 - 1e-12).all() and ratio.max() > 1.001
    np.testing.assert_allclose(
        opt_aggr_printed([2, 0.5, 0], [1, 1, 2]), [17 / 19, 2 / 19, 0], rtol=1e-14
    )
    np.testing.assert_allclose(opt_aggr_printed([2, 2, 0], [1, 3, 4]), [0.5, 0.5, 0], rtol=1e-14)
    np.testing.assert_allclose(
        opt_aggr_printed([2, 2, 0], [1, 3, 4], renormalised=True), [0.375, 0.625, 0], rtol=1e-14
    )


# --- JAX ----------------------------------------------------------------------------------------


def envelope(epsilon: np.ndarray, sizes: np.ndarray, clip_norm: float = 1.0) -> np.ndarray:
    """Gradient of the least error bound in the losses, by the envelope theorem; 0 at a loss of
    0.
    """
    safe = np.where(epsilon > 0, epsilon, np.inf)
    return np.asarray(-16 * clip_norm**2 * (least_error_weights(epsilon, sizes) / safe) ** 2 / safe)


@jax.jit
def everything(epsilon: jax.Array, shares: jax.Array) -> dict[str, jax.Array]:
    return {
        "weights": aggregation_jax.least_error_weights(epsilon, shares),
        "error": aggregation_jax.least_error(epsilon, shares, 3.0),
        "gradient": jax.grad(lambda e: aggregation_jax.least_error(e, shares, 3.0).sum())(epsilon),
    }


def in_jax(epsilon: np.ndarray, sizes: np.ndarray, kind: Any) -> dict[str, np.ndarray]:
    with jax.enable_x64(kind is np.float64):
        found = everything(jnp.asarray(epsilon, kind), jnp.asarray(shares_of(sizes), kind))
        assert {part.dtype for part in found.values()} == {np.dtype(kind)}
        return {name: np.asarray(part) for name, part in found.items()}


def test_jax_agrees() -> None:
    """The same weights, errors and derivatives in both precisions, also where some, or all, sell
    nothing.
    """
    rng = generator(16)
    epsilon, sizes = (
        np.array(part) for part in zip(*(market(10, rng) for _ in range(300)), strict=True)
    )
    epsilon[0], epsilon[1], sizes[1] = 0, 1, 1  # nobody sells; all are equal
    epsilon[2], epsilon[3] = 1e-12, 0
    epsilon[2, 0], epsilon[3, :2] = 1, (1e-25, 1e-30)
    weights = least_error_weights(epsilon, sizes)
    gradient = envelope(epsilon, sizes, 3.0)
    error = error_bound(weights, epsilon, sizes, 3.0)
    found = in_jax(epsilon, sizes, np.float64)
    np.testing.assert_allclose(found["weights"], weights, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(found["error"], error, rtol=1e-12)
    np.testing.assert_allclose(found["gradient"], gradient, rtol=1e-9)

    flat = in_jax(epsilon, sizes, np.float32)
    np.testing.assert_allclose(flat["weights"], weights, atol=2e-5)
    np.testing.assert_allclose(flat["error"][4:], error[4:], rtol=1e-3)
    usual = (epsilon == 0) | (epsilon > 1e-3)
    np.testing.assert_allclose(flat["gradient"][4:][usual[4:]], gradient[4:][usual[4:]], rtol=1e-2)
    assert all(
        np.isfinite(flat[name][np.arange(300) != 3]).all() for name in flat if name != "error"
    )
    assert np.isposinf(flat["error"][0]) and (flat["gradient"][0] == 0).all()


# --- bad input ----------------------------------------------------------------------------------


def test_bad_shapes() -> None:
    """Beyond what `tests/test_properties.py` tries: numbers, and a column beside a row."""
    for epsilon, sizes in ((1.0, 2.0), ([1.0, 2.0], [[1], [2]])):
        for call in (partial(error_bound, [0.5, 0.5]), least_error_weights, size_weights):
            with pytest.raises(
                ValueError, match=r"epsilon and sizes must have shape \(..., n\), got"
            ):
                call(epsilon, sizes)
