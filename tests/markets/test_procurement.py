"""The optimal procurement: global, whatever the number of local minima, with a cap and without.

The oracle minimises over the simplex with SciPy from many starts; optimality is also read off the
KKT conditions.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from hdpm_book.logistic.peer import count_minima, procure_fast, proxy_loss
from hdpm_lib.markets.outcome import Purchase
from hdpm_lib.markets.procurement import procure
from tests.support import generator

Array = np.ndarray


def market(rng: np.random.Generator, m: int, kind: int) -> Array:
    """Virtual costs of four kinds; those in two clusters often have several local minima."""
    if kind == 0:
        return rng.uniform(0.1, 9, m)
    if kind == 1:
        return rng.exponential(1, m) + 1e-3
    if kind == 2:
        return np.where(rng.random(m) < 0.2, rng.uniform(1e-3, 1e-2, m), rng.uniform(1, 1.01, m))
    return rng.integers(1, 4, m).astype(float)  # many ties


def scale(rng: np.random.Generator) -> list[float]:
    return (10 ** rng.uniform(-2, 2, 3)).tolist()


def kkt_excess(
    found: Purchase, psi: Array, mu: float, sigma: float, gamma: float, cap: float = np.inf
) -> float:
    """How much the conditions of a local minimum are broken, relative to the largest marginal
    loss.
    """
    a = found.weights
    if not abs(a.sum() - 1) < 1e-6:
        return np.inf
    marginal = mu * a / np.linalg.norm(a) + gamma * found.eta * psi
    inner = (a > 0) & (a < cap * (1 - 1e-9))
    level = marginal[inner].mean() if inner.any() else marginal[a > 0].max()
    broken = [
        np.abs(marginal[inner] - level).max(initial=0),
        (level - marginal[a == 0]).max(initial=0),
    ]
    broken.append((marginal[a >= cap * (1 - 1e-9)] - level).max(initial=0))
    rate = abs(gamma * (a @ psi) * found.eta**2 / sigma - 1)
    return float(max(max(broken) / marginal.max(), rate, abs(a.sum() - 1)))


def by_many_starts(
    psi: Array, mu: float, sigma: float, gamma: float, cap: float, rng: np.random.Generator
) -> float:
    m = len(psi)
    best = np.inf

    def loss(a: Array) -> float:
        return mu * float(np.linalg.norm(a)) + 2 * float(
            np.sqrt(sigma * gamma * max(a @ psi, 1e-300))
        )

    def slope(a: Array) -> Array:
        return mu * a / np.linalg.norm(a) + np.sqrt(sigma * gamma / max(a @ psi, 1e-300)) * psi

    cheapest = psi == psi.min()
    simplex = {"type": "eq", "fun": lambda a: a.sum() - 1, "jac": np.ones_like}
    how = {"method": "SLSQP", "bounds": [(0, cap)] * m, "options": {"maxiter": 500, "ftol": 1e-14}}
    for start in [np.full(m, 1 / m), *rng.dirichlet(np.full(m, 0.3), 4), cheapest / cheapest.sum()]:
        done = optimize.minimize(
            loss, np.clip(start, 0, cap), jac=slope, constraints=simplex, **how
        )
        if done.success or np.abs(done.x.sum() - 1) < 1e-9:
            a = np.clip(done.x, 0, cap)
            best = min(best, loss(a / a.sum()))
    return best


@pytest.mark.parametrize("capped", [False, True])
def test_no_start_of_the_oracle_does_better(capped: bool) -> None:
    rng = generator(70, capped)
    agree = several = 0
    for trial in range(80):
        m = int(rng.integers(1, 13))
        psi = market(rng, m, trial % 4)
        constants = scale(rng)
        cap = min(1.0, rng.uniform(1, 4) / m) if capped else None
        found = procure(psi, *constants, cap=cap)
        oracle = by_many_starts(psi, *constants, cap or 1.0, rng)
        assert found.error <= oracle * (1 + 1e-7)
        agree += oracle <= found.error * (1 + 1e-7)
        several += count_minima(psi, *constants, cap=cap) > 1
    assert agree >= 75  # the oracle itself may stop too early
    assert capped or several > 0


def test_conditions_hold_to_rounding() -> None:
    rng = generator(71)
    for trial in range(400):
        m = int(10 ** rng.uniform(0, 3))
        psi = market(rng, m, trial % 4)
        constants = scale(rng)
        free = procure(psi, *constants)
        assert kkt_excess(free, psi, *constants) < 1e-11
        excess = np.maximum(free.cutoff - psi, 0)
        rounding = 1e-15 * free.cutoff / excess.max()
        np.testing.assert_allclose(
            free.weights, excess / excess.sum(), rtol=0, atol=max(1e-12, rounding)
        )
        assert free.error == pytest.approx(
            float(proxy_loss(free.weights, free.eta, psi, *constants)), rel=1e-13
        )
        cap = min(1.0, rng.uniform(1, 5) / m)
        bound = procure(psi, *constants, cap=cap)
        assert kkt_excess(bound, psi, *constants, cap=cap) < 1e-10
        assert bound.weights.max() <= cap * (1 + 1e-12) and bound.error >= free.error * (1 - 1e-13)
        edge = np.append(psi, free.cutoff * (1 - 1e-14))  # rounding alone says whether she sells
        assert kkt_excess(procure(edge, *constants), edge, *constants) < 1e-11


def test_the_least_of_several_minima() -> None:
    psi = np.append(0.001, np.ones(200))
    found = procure(psi, 1.0, 1.0, 0.01)
    assert count_minima(psi, 1.0, 1.0, 0.01) == 2 and (found.weights > 0).all()
    assert found.error == pytest.approx(0.269683, abs=1e-6)
    alone = procure(psi[:1], 1.0, 1.0, 0.01)  # the other one: all from the cheapest
    assert alone.error == pytest.approx(1.0063246, abs=1e-6)
    jump = procure([0.2, 2.0], 1.0, 1.0, 0.1)
    assert jump.weights.tolist() == [1.0, 0.0]


def test_fast_path_is_the_scan_where_there_is_one_minimum() -> None:
    rng = generator(73)
    single = 0
    for trial in range(300):
        psi = market(rng, int(10 ** rng.uniform(0, 3.5)), trial % 4)
        constants = scale(rng)
        scanned = procure(psi, *constants)
        fast = procure_fast(psi, *constants)
        assert fast.error >= scanned.error * (1 - 1e-13)
        assert kkt_excess(fast, psi, *constants) < 1e-11
        if count_minima(psi, *constants) == 1:
            single += 1
            assert fast.error == pytest.approx(scanned.error, rel=1e-12)
    assert single > 200


def test_limits_and_scales() -> None:
    rng = generator(74)
    psi = market(rng, 30, 0)
    weights = procure(psi, 1.0, 2.0, 0.3).weights
    for same in (
        procure(psi, 7.0, 14.0, 2.1),
        procure(psi * 10, 1.0, 2.0, 0.03),
        procure(psi, 1.0, 2.0, 0.3, cap=1.0),
    ):
        assert np.allclose(same.weights, weights, atol=1e-13)
    for even in (procure(psi, 1.0, 2.0, 0.3, cap=1 / 30), procure(np.full(30, 2.0), 1.0, 2.0, 0.3)):
        assert np.allclose(even.weights, 1 / 30)
    shuffled = rng.permutation(30)
    assert np.allclose(procure(psi[shuffled], 1.0, 2.0, 0.3).weights, weights[shuffled], atol=1e-15)
    assert procure([3.0], 2.0, 1.0, 1.0).error == pytest.approx(2 + 2 * np.sqrt(3))
    # noise and payments dear: the four cheapest, at the cap
    two = procure(psi, 1.0, 100.0, 100.0, cap=0.25)
    assert sorted(two.weights)[-4:] == [0.25] * 4 and two.cutoff == np.sort(psi)[4]


def test_privacy_that_costs_nothing_is_refused() -> None:
    for solve in (procure, procure_fast):
        with pytest.raises(
            ValueError, match=r"virtual_costs\[1\] = 0.0: privacy that costs nothing"
        ):
            solve([1.0, 0.0], 1.0, 1.0, 1.0)
