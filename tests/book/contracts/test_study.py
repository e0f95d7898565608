"""The theorem on M2 and M1, step by step; each step is shown to fail on something broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations_with_replacement, pairwise
from typing import Any

import numpy as np
import pytest

from hdpm_book.contracts import study
from hdpm_book.contracts.study import (
    climb,
    gap_of_two,
    largest_ratio,
    m1_total,
    m2_total,
    order_checks,
    order_threshold,
    profiles_to_try,
)
from hdpm_lib.markets.contracts import least_cost_contract
from hdpm_lib.markets.mechanisms import vcg_contract
from hdpm_lib.markets.outcome import Contract
from tests.support import generator

RISE, COMPLEMENTS, SUBSTITUTES = (
    "a rise lifts the others' shares, not her own",
    "complements while both are capped",
    "substitutes while not both are",
)
CAPPED, LEG, END = (
    "at most three are capped",
    "no leg of the climb lowers M2",
    "it ends at the top or with two capped",
)
FORM, AT_END = "two capped: the closed form", "two capped: least at an end"
ORDER, TIGHT = "the order, from the threshold on", "below it two at 0 break the order"


def failing() -> set[str]:
    table = order_checks(generator(91), 25)
    return set(table.index[table.failed > 0])


def test_every_step_holds() -> None:
    table = order_checks(generator(90), 100)
    assert list(table.index) == [RISE, COMPLEMENTS, SUBSTITUTES, CAPPED, LEG, END, FORM, AT_END, ORDER, TIGHT]
    assert (table.failed == 0).all() and (table.tried >= 20).all()
    assert table.tried[LEG] > 100_000 and table.tried[COMPLEMENTS] > 100


def test_three_are_capped_now_and_then() -> None:
    v = profiles_to_try(10, 1000, generator(92))
    shares = least_cost_contract(v, order_threshold(10), power=2).shares
    assert (shares == 1).sum(-1).max() == 3


@pytest.mark.parametrize(
    ("threshold", "step"),
    [
        (lambda n: n * (n - 1) * (n - 2) / (4 * n), TIGHT),
        (lambda n: n * (n - 1) * (n - 2) / (4 * (n + 2)), ORDER),
        (lambda n: 0.99 * order_threshold(n), ORDER),
        (lambda n: 0.8 * order_threshold(n), CAPPED),
    ],
)
def test_wrong_threshold_is_caught(
    threshold: Callable[[int], float], step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "order_threshold", threshold)
    assert step in failing()


def inverted(v: np.ndarray, K: float, *, power: float) -> Contract:
    best = least_cost_contract(v, K, power=power)
    return replace(best, privacy_loss=1 / (1 + best.privacy_loss))


def dampened(v: np.ndarray, K: float, *, power: float) -> Contract:
    best = least_cost_contract(v, K, power=power)
    return replace(best, shares=best.shares * v**2)


@pytest.mark.parametrize(("wrong", "steps"), [(inverted, {COMPLEMENTS, SUBSTITUTES}), (dampened, {RISE})])
def test_wrong_allocation_is_caught(monkeypatch: pytest.MonkeyPatch, wrong: Any, steps: set[str]) -> None:
    monkeypatch.setattr(study, "least_cost_contract", wrong)
    assert steps <= failing()


@pytest.mark.parametrize(
    ("wrong", "steps"),
    [(lambda u, n, K: gap_of_two(u, n, 1.001 * K), {FORM}), (lambda u, n, K: -gap_of_two(u, n, K), {FORM, AT_END})],
)
def test_wrong_gap_is_caught(monkeypatch: pytest.MonkeyPatch, wrong: Any, steps: set[str]) -> None:
    monkeypatch.setattr(study, "gap_of_two", wrong)
    assert steps <= failing()


@pytest.mark.parametrize(("n", "points"), [(3, 41), (4, 17)])
def test_order_on_a_grid_of_all_profiles(n: int, points: int) -> None:
    v = np.array(list(combinations_with_replacement(np.linspace(0, 1, points), n)))
    for factor in (0.98, 1.0001, 1.2, 1.5):
        K = factor * order_threshold(n)
        ratio = (m2_total(v, K) / m1_total(n, K)).max()
        assert (ratio > 1.005) if factor < 1 else (ratio < 1 + 1e-12)


def test_totals_are_those_of_the_mechanism() -> None:
    v = generator(93).random((200, 6))
    for r in (1, 1.5, 2):
        np.testing.assert_allclose(
            m2_total(v, 2.0, power=r), vcg_contract(v, 2.0, 1.0, power=r).payments.sum(-1), rtol=1e-11
        )


def test_climb_ends_where_it_says() -> None:
    K = 1.05 * order_threshold(8)
    path = climb(profiles_to_try(8, 500, generator(94)), K)
    last = path[-1]
    top = (last == 1).all(-1)
    pair = least_cost_contract(last, K, power=2).shares[:, :2].min(-1) > 1 - 1e-9
    assert (top ^ pair).all() and 20 < top.sum() < 480
    assert all((end >= start).all() for start, end in pairwise(path))


@pytest.mark.parametrize("power", [1.5, 2.5, 3.0])
def test_measured_thresholds(power: float) -> None:
    for n in (3, 5, 10):
        below, above = (largest_ratio(n, x * order_threshold(n, power), power, generator(95)) for x in (0.99, 1.0001))
        assert below > 1 + 1e-4 and above < 1 + 1e-9
    assert order_threshold(2, power) == order_threshold(1, power) == 0
    for n in range(3, 60):
        assert order_threshold(n, 2 + 1e-9) == pytest.approx(order_threshold(n), rel=1e-6)


def test_refused() -> None:
    with pytest.raises(ValueError, match="n must be a positive integer, got 0"):
        order_threshold(0)
    with pytest.raises(ValueError, match="power must be finite and at least 1"):
        order_threshold(3, 0.5)
