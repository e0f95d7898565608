"""Weights of least excess risk against conic and general solvers, and the constants of the bound against their proofs.

`complaints` looks at a rule for weights, `violations` at the constants of a bound; the mutants prove that they object.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import clarabel
import numpy as np
import pytest
from scipy import optimize, sparse, stats

from hdpm_book.logistic.excess_risk import (
    ExcessRisk,
    choose_weights,
    printed_constants,
    proof_constants,
    shorter_constants,
    survival_inverse,
    weights_for_losses,
)
from hdpm_lib.noise import spherical_laplace
from hdpm_lib.validation import FALSE_ALARM
from tests.support import generator

KINDS = ("uniform", "ties", "lognormal", "heavy", "equal")
Rule = Callable[[np.ndarray, float], tuple[np.ndarray, float]]
Constants = Callable[[float, int, float, float], ExcessRisk]


def requirements(kind: str, m: int, rng: np.random.Generator) -> np.ndarray:
    """Privacy losses: uniform, with many ties, spread over decades, or all equal."""
    if kind == "ties":
        return rng.integers(1, 4, m).astype(float)
    if kind == "heavy":
        return 10 ** rng.uniform(-3, 3, m)
    return {"uniform": rng.uniform(0.01, 1, m), "lognormal": rng.lognormal(0, 1.5, m), "equal": np.full(m, 0.7)}[kind]


def value(weights: np.ndarray, eta: float, losses: Any, mu: float, sigma: float) -> float:
    return float(np.sum(weights * losses) + mu * np.linalg.norm(weights) + sigma / eta)


def conic(epsilon: np.ndarray, losses: np.ndarray, mu: float, sigma: float) -> float:
    """Least value by an interior-point solver: in `(a, 1/eta, norm)` everything is linear but one cone."""
    m = len(epsilon)
    eye, one, zero = sparse.eye_array(m), np.ones((1, m)), np.zeros((m, 1))
    rows = [[one, None, None], [eye, -epsilon[:, None], None], [-eye, None, zero]]
    cone = [[None, None, [[-1]]], [-eye, zero, zero]]
    A = sparse.csc_array(sparse.block_array([*rows, *cone]))
    right = np.append(1.0, np.zeros(3 * m + 1))
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * m), clarabel.SecondOrderConeT(m + 1)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    linear = np.concatenate([losses, [sigma, mu]])
    solver = clarabel.DefaultSolver(sparse.csc_array((m + 2, m + 2)), linear, A, right, cones, settings)
    return float(solver.solve().obj_val)


@functools.cache
def instances(count: int = 300) -> list[tuple[np.ndarray, float, float]]:
    """Requirements of up to 30 sellers, a ratio sigma / mu on both sides of where it matters, and the least value."""
    rng, found = generator(101), []
    for i in range(count):
        eps = requirements(KINDS[i % 5], int(rng.integers(1, 31)), rng)
        ratio = float(10 ** rng.uniform(-2, 2) * np.median(eps))
        found.append((eps, ratio, conic(eps, np.zeros_like(eps), 1.0, ratio)))
    return found


def complaints(rule: Rule) -> dict[str, int]:
    """In how many markets each look at the weights objects."""
    found: dict[str, int] = {}
    for eps, ratio, oracle in instances():
        a, eta = rule(eps, ratio)
        kept = a * eta
        tau = kept.max()
        slope = (kept * (tau - kept)).sum() / np.linalg.norm(kept)
        looks = {
            "weights": (a <= 0).any() or abs(a.sum() - 1) > 1e-12,
            "privacy": (kept > eps * (1 + 1e-12)).any(),
            "form": (np.abs(kept - np.minimum(eps, tau)) > 1e-9 * eps).any(),
            "root": slope > ratio * (1 + 1e-9) or (tau < eps.max() * (1 - 1e-12) and slope < ratio * (1 - 1e-9)),
            "above the oracle": value(a, eta, 0, 1, ratio) > oracle * (1 + 1e-7),
            "below the oracle": value(a, eta, 0, 1, ratio) < oracle * (1 - 1e-7),
        }
        for name in (name for name, objects in looks.items() if objects):
            found[name] = found.get(name, 0) + 1
    return found


def test_chosen_weights_are_optimal() -> None:
    assert complaints(choose_weights) == {}


def of_kept(change: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Rule:
    """The rule, with its `weights * eta` changed."""

    def rule(eps: np.ndarray, ratio: float) -> tuple[np.ndarray, float]:
        a, eta = choose_weights(eps, ratio)
        kept = change(a * eta, eps)
        return kept / kept.sum(), float(kept.sum())

    return rule


@pytest.mark.parametrize(
    ("look", "mutant", "least"),
    [
        ("root", of_kept(lambda kept, eps: np.minimum(1.1 * kept.max(), eps)), 60),
        ("root", of_kept(lambda kept, eps: np.minimum(kept.max() / 1.1, eps)), 60),
        ("above the oracle", of_kept(lambda kept, eps: np.minimum(1.1 * kept.max(), eps)), 60),
        ("above the oracle", of_kept(lambda kept, eps: np.minimum(kept.max() / 1.1, eps)), 60),
        ("above the oracle", lambda eps, ratio: choose_weights(eps, 0.0), 100),
        ("above the oracle", lambda eps, ratio: choose_weights(eps, math.inf), 60),
        ("above the oracle", lambda eps, ratio: choose_weights(eps, 2 * ratio), 60),
        ("privacy", of_kept(lambda kept, eps: kept * 1.001), 290),
        ("below the oracle", of_kept(lambda kept, eps: kept * 1.001), 200),
        ("form", of_kept(lambda kept, eps: np.sqrt(kept * kept.min())), 150),
        ("weights", lambda eps, ratio: (choose_weights(eps, ratio)[0] * 1.001, choose_weights(eps, ratio)[1]), 290),
    ],
)
def test_wrong_weights_are_noticed(look: str, mutant: Rule, least: int) -> None:
    assert complaints(mutant).get(look, 0) >= least


def test_chosen_weights_against_general_solvers() -> None:
    """SLSQP in (a, 1/eta), and a fine grid of the one number that the rule is about."""
    rng = generator(102)
    for i in range(20):
        eps = requirements(KINDS[i % 3], int(rng.integers(2, 9)), rng)
        eps /= eps.mean()
        ratio = float(10 ** rng.uniform(-1, 1))
        best = value(*choose_weights(eps, ratio), 0, 1, ratio)
        constraints = [
            {"type": "eq", "fun": lambda z: z[:-1].sum() - 1},
            {"type": "ineq", "fun": lambda z, eps=eps: eps * z[-1] - z[:-1]},
        ]
        found = optimize.minimize(
            lambda z, ratio=ratio: np.linalg.norm(z[:-1]) + ratio * z[-1],
            np.append(eps, 1) / eps.sum(),
            bounds=[(0, None)] * (len(eps) + 1),
            constraints=constraints,
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-12},
        )
        assert best <= found.fun * (1 + 1e-7) and found.fun == pytest.approx(best, rel=1e-4)
        kept = np.minimum(eps, np.linspace(eps.min(), eps.max(), 100_001)[:, None])
        on_grid = ((np.linalg.norm(kept, axis=1) + ratio) / kept.sum(1)).min()
        assert best == pytest.approx(on_grid, rel=1e-8) and best <= on_grid * (1 + 1e-12)


def test_limits_and_symmetries() -> None:
    rng = generator(103)
    eps = rng.lognormal(0, 1, 25)
    a, eta = choose_weights(eps, 0.0)
    np.testing.assert_allclose(a, 1 / 25, rtol=1e-12)
    assert eta == pytest.approx(25 * eps.min())
    a, eta = choose_weights(eps, np.inf)
    np.testing.assert_allclose(a * eta, eps)
    assert choose_weights([2.0], 3.0) == (np.array([1.0]), 2.0)
    a, eta = choose_weights(np.full(7, 0.3), 0.1)
    np.testing.assert_allclose(a, 1 / 7, rtol=1e-12)
    assert eta == pytest.approx(2.1)
    a, eta = choose_weights(eps, 0.8)
    scaled = choose_weights(1e3 * eps, 0.8e3)
    np.testing.assert_allclose(scaled[0], a, rtol=1e-12)
    assert scaled[1] == pytest.approx(1e3 * eta)
    order = rng.permutation(25)
    np.testing.assert_allclose(choose_weights(eps[order], 0.8)[0], a[order], rtol=1e-14)
    path = [choose_weights(eps, ratio) for ratio in np.linspace(0, 20, 41)]
    assert (np.diff([eta for _, eta in path]) >= 0).all()  # more weight on noise: less noise, less even weights
    assert (np.diff([np.linalg.norm(a) for a, _ in path]) >= -1e-15).all()


def test_requirements_far_apart() -> None:
    eps = 10.0 ** generator(104).uniform(-12, 6, 200)
    for ratio in 10.0 ** np.arange(-12, 8):
        a, eta = choose_weights(eps, ratio)
        kept = a * eta
        slope = (kept * (kept.max() - kept)).sum() / np.linalg.norm(kept)
        assert slope == pytest.approx(ratio, rel=1e-8) or (kept.max() == pytest.approx(eps.max()) and slope < ratio)


def test_million_sellers() -> None:
    eps = generator(105).random(10**6) + 1e-6
    start = time.perf_counter()
    a, eta = choose_weights(eps, 100.0)
    assert time.perf_counter() - start < 5
    kept = a * eta
    assert (kept * (kept.max() - kept)).sum() / np.linalg.norm(kept) == pytest.approx(100, rel=1e-9)


# --- weights for given losses -----------------------------------------------------------------------------------------


def losses_of(count: int = 150) -> list[tuple[np.ndarray, np.ndarray, float, float]]:
    rng, found = generator(106), []
    for i in range(count):
        eps = requirements(KINDS[i % 5], int(rng.integers(1, 31)), rng)
        losses = rng.exponential(10 ** rng.uniform(-2, 1), len(eps)) * (rng.random(len(eps)) < 0.8)
        found.append((eps, losses, 10 ** rng.uniform(-2, 2), float(10 ** rng.uniform(-2, 2) * np.median(eps))))
    return found


def test_weights_for_losses_are_optimal() -> None:
    dropped = 0
    for eps, losses, mu, sigma in losses_of():
        a, eta = weights_for_losses(eps, losses, mu, sigma)
        assert (a >= 0).all() and abs(a.sum() - 1) < 1e-12 and (a * eta <= eps * (1 + 1e-12)).all()
        best, least = value(a, eta, losses, mu, sigma), conic(eps, losses, mu, sigma)
        assert best == pytest.approx(least, rel=1e-6)
        for wrong in (choose_weights(eps, sigma / mu), (np.full(len(eps), 1 / len(eps)), len(eps) * eps.min())):
            assert value(*wrong, losses, mu, sigma) >= best * (1 - 1e-12)
        free = a * eta < eps * (1 - 1e-9)  # e_i = |e| (value - loss_i) / mu where it is free
        wanted = np.linalg.norm(a) * eta * np.maximum(best - losses, 0) / mu
        np.testing.assert_allclose(a[free] * eta, wanted[free], rtol=1e-4, atol=1e-9 * eta)
        dropped += (a == 0).any()
    assert dropped > 20


def test_weights_for_equal_losses_are_the_chosen_ones() -> None:
    for eps, _, mu, sigma in losses_of(50):
        for level in (0.0, 2.5):
            a, eta = weights_for_losses(eps, np.full(len(eps), level), mu, sigma)
            expected = choose_weights(eps, sigma / mu)
            np.testing.assert_allclose(a * eta, expected[0] * expected[1], rtol=1e-6)


# --- the constants ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [1, 2, 5, 30, 200])
def test_survival_inverse_inverts_the_printed_sum(dimension: int) -> None:
    def v(t: float) -> float:
        terms = np.cumsum(np.append(0, np.log(t / 2) - np.log(np.arange(1, dimension))))
        return float(np.exp(terms - t / 2).sum())

    values = np.array([v(t) for t in np.linspace(0.1, 6 * dimension + 30, 500)])
    assert (np.diff(values[(values > 1e-9) & (values < 1 - 1e-9)]) < 0).all()
    for probability in (1e-6, 0.01, 0.3, 0.9):
        assert v(survival_inverse(probability, dimension)) == pytest.approx(probability, rel=1e-9)


@pytest.mark.parametrize(("dimension", "eta"), [(1, 0.4), (3, 10.0), (30, 455.0)])
def test_noise_is_longer_as_often_as_promised(dimension: int, eta: float) -> None:
    draws, probability = 40_000, 0.05
    noise = spherical_laplace(dimension, eta / 2, rng=generator(107, dimension), size=draws)
    longer = int((np.linalg.norm(noise, axis=1) > survival_inverse(probability, dimension) / eta).sum())
    low, high = stats.binom(draws, probability).ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2])
    assert low <= longer <= high
    twice = int((np.linalg.norm(noise, axis=1) > survival_inverse(probability, dimension) / (2 * eta)).sum())
    assert not low <= twice <= high  # rate eta in place of eta / 2


@pytest.mark.parametrize(
    ("beta", "mu", "natural", "sigma", "shorter"),
    [(1, 13.5, 9.79, 2168, (4.65, 79)), (5, 53.1, 39.0, 10842, (23.3, 395)), (10, 106, 78.0, 21684, (46.5, 791))],
)
def test_values_at_thirty_features(
    beta: float, mu: float, natural: float, sigma: float, shorter: tuple[float, float]
) -> None:
    printed = printed_constants(beta, 30, 0.05, 0.05)
    assert printed.mu == pytest.approx(mu, rel=5e-3) and printed.sigma == pytest.approx(sigma, rel=5e-4)
    assert printed_constants(beta, 30, 0.05, 0.05, log_base=math.e).mu == pytest.approx(natural, rel=1e-3)
    ours = shorter_constants(beta, 30, 0.05, 0.05)
    assert (ours.mu, ours.sigma) == pytest.approx(shorter, rel=1e-2)
    L, log2, spread = math.log(20), math.log2(1 + math.exp(beta)), 2 * stats.gamma(30).isf(0.05)
    written = proof_constants(beta, 30, 0.05, 0.05)
    assert written.mu == pytest.approx(3 * math.sqrt(L / 2) * log2 + 2 * beta / math.log(2))
    assert written.sigma == pytest.approx((3 * math.sqrt(L / 2) + 1) * 2 * beta * spread)
    assert (printed.confidence, written.confidence, ours.confidence) == pytest.approx((0.9, 0.85, 0.9025))
    assert ours(np.full((3, 4), 0.25), 10.0) == pytest.approx(ours.mu / 2 + ours.sigma / 10)


def test_which_constants_dominate_which() -> None:
    """The printed ones are at least ours up to delta = .466, and at least the written proof's up to .161."""
    root = ((1 + math.sqrt(1 + 12 * math.sqrt(2))) / 6) ** 2
    assert math.exp(-root) == pytest.approx(0.4665, abs=5e-5)
    root_proof = ((1 + math.sqrt(1 + 4 * math.sqrt(2) / 3)) / 2) ** 2
    assert math.exp(-root_proof) == pytest.approx(0.1619, abs=5e-5)
    grid = 10.0 ** np.linspace(-4, 2.5, 40)

    def ahead(other: Constants, delta: float) -> bool:
        pairs = [(printed_constants(b, 5, delta, 0.1), other(b, 5, delta, 0.1)) for b in grid]
        return all(p.mu >= o.mu * (1 - 1e-12) and p.sigma >= o.sigma for p, o in pairs)

    for delta in (1e-9, 0.01, 0.1, 0.161):
        assert ahead(shorter_constants, delta) and ahead(proof_constants, delta)
    assert ahead(shorter_constants, 0.466) and not ahead(shorter_constants, 0.467)
    assert not ahead(proof_constants, 0.163)
    assert all(
        shorter_constants(b, 5, d, 0.1).mu < proof_constants(b, 5, d, 0.1).mu for b in grid for d in (0.01, 0.5, 0.9)
    )


# --- coverage ---------------------------------------------------------------------------------------------------------

DRAWS = 2000
MIXED = {"records": 60, "useful": 0.5, "chance": 0.7, "beta": 3.0}
FEW = {"records": 3, "useful": 1.0, "chance": 0.5, "beta": 5.0, "rate": 1e6}


def violations(
    constants: Constants, *, base: float, rate: float, beta: float, records: int, useful: float, chance: float
) -> tuple[int, float]:
    """How often the bound fails for some coefficient, of `DRAWS`, and how often it may.

    The one feature is 1 with probability `useful`, else 0, and the label 1 with probability `chance`. So error and
    objective are exact for every coefficient of a fine grid.
    """
    rng = generator(108)
    a = np.full(records, 1 / records)
    bound = constants(beta, 1, 0.1, 0.1)
    x = rng.random((DRAWS, records)) < useful
    label = rng.random((DRAWS, records)) < chance
    noise = spherical_laplace(1, rate / 2, rng=rng, size=DRAWS)
    grid = np.linspace(-beta, beta, 301)
    losses = np.logaddexp(0, [-grid, grid, 0 * grid]) / math.log(base)
    objective = np.stack([x & label, x & ~label, ~x]).mean(-1).T @ losses + noise * grid
    error = 1 - useful + useful * np.where(grid > 0, 1 - chance, np.where(grid < 0, chance, 1.0))
    return int((error > objective + bound(a, rate)).any(1).sum()), 1 - bound.confidence


def too_often(constants: Constants, base: float = 2.0, rate: float = 20.0, **law: Any) -> bool:
    count, allowed = violations(constants, base=base, rate=rate, **(law or MIXED))
    return bool(stats.binom(DRAWS, allowed).sf(count - 1) < FALSE_ALARM)


@pytest.mark.parametrize("constants", [printed_constants, proof_constants, shorter_constants])
@pytest.mark.parametrize("law", [{}, FEW, {**MIXED, "rate": 0.5}, {**MIXED, "beta": 0.1, "rate": 1e6}])
def test_bound_covers(constants: Constants, law: dict[str, Any]) -> None:
    assert not too_often(constants, **law)


def shrunk(mu: float, sigma: float) -> Constants:
    def constants(*args: Any) -> ExcessRisk:
        ours = shorter_constants(*args)
        return replace(ours, mu=mu * ours.mu, sigma=sigma * ours.sigma)

    return constants


def test_coverage_notices_small_constants() -> None:
    assert too_often(shrunk(0.0, 1.0), **FEW)
    assert too_often(shrunk(0.0, 0.5), **{**MIXED, "rate": 0.5})
    assert too_often(shorter_constants, math.e, **{**MIXED, "beta": 0.1, "rate": 1e6})


@pytest.mark.parametrize("beta", [0.1, 1.0, 5.0])
def test_natural_logarithm_fails(beta: float) -> None:
    """One point, label 1, coefficient slightly below 0: the error is 1 and the bound goes to ln 2."""
    printed = printed_constants(beta, 1, 0.1, 0.1, log_base=math.e)
    m = math.ceil((printed.mu / 0.3) ** 2)
    bound = np.logaddexp(0, 1e-9) + printed(np.full(m, 1 / m), 1e9)
    assert bound < 1
    assert np.logaddexp(0, 0) / math.log(2) == 1  # and to 1 with logarithms to base 2
