"""The conic oracle against worked examples, closed forms and grids; and what it does with bad input."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import clarabel
import numpy as np
import pytest

from hdpm_book.contracts import study
from hdpm_book.contracts.study import conic_power
from hdpm_lib.markets.contracts import least_cost_contract
from hdpm_lib.markets.outcome import Contract
from tests.support import generator

EXAMPLE1 = np.array([[1.0, 0.5], [0.5, 0.0]])  # sensitivities of the paper's Example 1


def grid(power: float, v: np.ndarray, K: float, delta: np.ndarray, w: np.ndarray, points: int = 41) -> float:
    """Least cost over a grid of shares, each with all the noise the accuracy admits."""
    shares = np.array(list(itertools.product(np.linspace(0, 1, points), repeat=len(w))))
    spare = K - ((1 - shares) @ w / 2) ** 2
    shares, spare = shares[spare > 0], spare[spare > 0]
    return float((v * (shares @ delta / np.sqrt(spare / 2)[:, None]) ** power).sum(1).min())


def market(n: int, q: int | None, rng: np.random.Generator) -> dict[str, Any]:
    """Valuations, some of them far apart, and a linear query, or one of `q` terms that share individuals."""
    ranges = rng.uniform(0.3, 3, q or n)
    delta = np.diag(ranges) if q is None else rng.random((q, n)) * (rng.random((q, n)) < 0.7)
    v = np.exp(rng.choice([0.5, 3.0]) * rng.standard_normal(n))
    return {"v": v, "K": rng.uniform(0.05, 0.95) * ranges.sum() ** 2 / 4, "delta": delta, "w": ranges}


def solve(m: dict[str, Any], power: float) -> Contract:
    return conic_power(m["v"], m["K"], power=power, sensitivity=m["delta"], ranges=m["w"])


def objections(found: Contract, m: dict[str, Any], power: float) -> list[str]:
    """What is wrong with an allocation: its fields, its accuracy, or that a grid of shares beats it."""
    v, K, delta, w = m["v"], m["K"], m["delta"], m["w"]
    wrong = {
        "shares": ((found.shares < 0) | (found.shares > 1)).any(),
        "accuracy": abs((w @ (1 - found.shares) / 2) ** 2 + 2 * found.scale**2 - K) > 1e-12 * K,
        "privacy loss": not np.allclose(found.privacy_loss, found.shares @ delta / found.scale, rtol=1e-12),
        "cost": not math.isclose(found.cost, (v * found.privacy_loss**power).sum(), rel_tol=1e-12),
        "not the least": found.cost > grid(power, v, K, delta, w) * (1 + 1e-6),
    }
    return [name for name, bad in wrong.items() if bad]


# --- known answers ----------------------------------------------------------------------------------------------------


def test_worked_examples() -> None:
    linear = conic_power([1, 2], 0.25, power=1)
    np.testing.assert_allclose(linear.shares, [1, 1 / 3], atol=1e-5)
    assert linear.scale == pytest.approx(math.sqrt(2.5) / 6, rel=1e-5)
    assert linear.cost == pytest.approx(10 / math.sqrt(2.5), rel=1e-9)
    quadratic = conic_power([1, 10], 0.3, power=2)
    np.testing.assert_allclose(quadratic.shares, [1, 0.2], atol=1e-5)
    assert quadratic.scale == pytest.approx(math.sqrt(0.07), rel=1e-5) and quadratic.cost == pytest.approx(20, rel=1e-9)


@pytest.mark.parametrize("power", [1, 1.5, 2, 3])
@pytest.mark.parametrize(("n", "K"), [(2, 0.25), (5, 0.1), (5, 6.0)])
def test_equal_valuations_get_theorem_4(n: int, K: float, power: float) -> None:
    found = conic_power(np.full(n, 7.0), K, power=power)
    epsilon = math.sqrt((2 * n**2 - 8 * K) / K) / n
    assert found.cost == pytest.approx(7 * n * epsilon**power, rel=1e-9)
    if power > 1:  # at power 1 only the sum is determined
        np.testing.assert_allclose(found.shares, 1 - 4 * K / n**2, rtol=1e-4)
    np.testing.assert_allclose(found.privacy_loss.sum(), n * epsilon, rtol=1e-5)


@pytest.mark.parametrize(
    ("K", "total"),
    list({0.05: 11.9164, 0.1: 7.8740, 0.2: 4.6904, 0.3: 2.9439, 0.35: 2.2361, 0.4: 1.8257, 0.5: 1.4142}.items()),
)
def test_example_1(K: float, total: float) -> None:
    """Problem (28): weights 1.5 and 0.5, so that the second term is full before the first counts at all."""
    found = conic_power([1, 1], K, power=1, sensitivity=EXAMPLE1)
    a = np.array([max(1 - 3 * K, 0), min(1, 2 - 2 * K)]) if K < 0.5 else np.array([0, 2 - 2 * K])
    b = math.sqrt((K - ((2 - a.sum()) / 2) ** 2) / 2)
    assert found.cost == pytest.approx((1.5 * a[0] + 0.5 * a[1]) / b, rel=1e-9) == pytest.approx(total, abs=6e-5)
    np.testing.assert_allclose(found.privacy_loss, a @ EXAMPLE1 / b, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("power", [1, 1.5, 2, 3, 6])
def test_exact_solver_agrees(power: float) -> None:
    rng = generator(81)
    for n in range(1, 21):
        m = market(n, None, rng)
        exact = least_cost_contract(m["v"], m["K"], power=power, ranges=m["w"])
        assert solve(m, power).cost == pytest.approx(exact.cost, rel=1e-7)


def test_data_that_cost_nothing() -> None:
    found = conic_power([0, 1, 0], 0.3, power=2)
    assert found.shares.tolist() == [1, 0, 1] and found.cost == 0
    assert found.scale == pytest.approx(math.sqrt(0.025))
    for free in (conic_power([0, 0], 0.3, power=3), conic_power([0, 1], 0.3, power=3, sensitivity=[[1, 0], [2, 0]])):
        assert free.shares.tolist() == [1, 1] and free.cost == 0 and free.scale == pytest.approx(math.sqrt(0.15))
    limit = conic_power([0, 1], 0.25, power=1)
    assert (
        limit.shares.tolist() == [1, 0]
        and limit.privacy_loss.tolist() == [math.inf, 0]
        and limit.cost == limit.scale == 0
    )
    some = conic_power([0, 1, 1], 0.3, power=2)  # the free one is used in full
    assert some.cost > 0 and some.shares[0] == pytest.approx(1)


@pytest.mark.parametrize("K", [1.0, 1.5])
def test_no_data_needed(K: float) -> None:
    found = conic_power([1.0, 2.0], K, power=1)
    assert not found.shares.any() and not found.privacy_loss.any() and found.cost == 0
    assert found.scale == math.sqrt((K - 1) / 2)


# --- grids, and programs broken on purpose ----------------------------------------------------------------------------


@pytest.mark.parametrize("power", [1, 1.5, 2, 3])
@pytest.mark.parametrize("q", [None, 2, 3])
def test_no_grid_point_is_better(q: int | None, power: float) -> None:
    rng = generator(82)
    for n in (1, 2, 3, 3):
        m = market(n, q, rng)
        found = solve(m, power)
        assert objections(found, m, power) == []
        assert grid(power, m["v"], m["K"], m["delta"], m["w"]) < 1.2 * found.cost + 0.1 * m["v"].max()


def change(row: int, factor: float) -> Callable[..., Any]:
    """Constraints with one row multiplied."""
    original = study.accuracy_cone

    def constraints(ranges: np.ndarray, max_mse: float) -> Any:
        A, right, cones = original(ranges, max_mse)
        A = A.tolil()
        A[row] = factor * A[row]
        return A.tocsr(), right, cones

    return constraints


BIAS, FIRST_CAP = -2, 3  # rows of the constraints for three terms


@pytest.mark.parametrize(("row", "factor"), [(BIAS, 2.0), (BIAS, 0.5), (BIAS, 0.0), (FIRST_CAP, 0.0)])
def test_broken_program_is_caught(monkeypatch: Any, row: int, factor: float) -> None:
    plain = {"delta": np.eye(3), "w": np.ones(3)}
    markets = [{"v": np.array([1.0, 5.0, 8.0]), "K": K, **plain} for K in (0.3, 0.6, 1.0)]
    assert [objections(solve(m, 2), m, 2) for m in markets] == [[]] * 3
    monkeypatch.setattr(study, "accuracy_cone", change(row, factor))
    found = []
    for m in markets:
        try:
            found += objections(solve(m, 2), m, 2)
        except RuntimeError:  # shares that leave no room for noise
            found += ["not the least"]
    assert "not the least" in found


def test_wrong_allocation_is_caught() -> None:
    m = {"v": np.array([1.0, 5.0]), "K": 0.4, "delta": np.eye(2), "w": np.ones(2)}
    right = solve(m, 2)
    a, b, epsilon, cost = right.shares, right.scale, right.privacy_loss, right.cost
    for wrong, complaint in (
        (replace(right, scale=b * 1.01, privacy_loss=epsilon / 1.01, cost=cost / 1.01**2), "accuracy"),
        (replace(right, privacy_loss=epsilon * 0.99, cost=cost * 0.99**2), "privacy loss"),
        (replace(right, cost=cost * 0.99), "cost"),
        (replace(right, shares=a * [1.1, 1]), "shares"),
        (
            Contract(
                np.full(2, math.sqrt(5)), cost=np.array(30.0), shares=np.ones(2), scale=np.asarray(math.sqrt(0.2))
            ),
            "not the least",
        ),
    ):
        assert complaint in objections(wrong, m, 2)


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"valuations": [1, -2]}, "valuations must be finite and not negative, got -2"),
        ({"valuations": [[1, 2]]}, "valuations must have 1 dimension"),
        ({"max_mse": 0}, "max_mse must be positive and finite, got 0"),
        ({"power": 0.5}, "power must be finite and at least 1 .*, got 0.5"),
        ({"ranges": [1, 0]}, "ranges must be positive and finite, got 0"),
        ({"ranges": [1, 2, 3]}, "ranges must be 2 positive numbers"),
        ({"sensitivity": [[1, 2, 3]]}, "sensitivity must have 2 columns"),
        ({"sensitivity": [[1, -2]]}, "sensitivity must be finite and not negative, got -2"),
        ({"sensitivity": [[1, 2]], "ranges": [1, 2]}, "ranges must be 1 positive numbers"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    given = {"valuations": [1, 2], "max_mse": 0.1, "power": 2, **arguments}
    with pytest.raises(ValueError, match=message):
        conic_power(**given)


def test_giving_up(monkeypatch: Any) -> None:
    default = clarabel.DefaultSettings

    def hasty() -> Any:
        settings = default()
        settings.max_iter = 1
        return settings

    monkeypatch.setattr(clarabel, "DefaultSettings", hasty)
    with pytest.raises(RuntimeError, match="stopped with status MaxIterations"):
        conic_power([1.0, 10.0], 0.3, power=2)
