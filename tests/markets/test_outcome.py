"""What rules return: floats of one type each, for one market and for batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hdpm_lib.markets.contracts import equal_loss_contract, least_cost_contract
from hdpm_lib.markets.error_minimising import error_minimising
from hdpm_lib.markets.fair_query import fair_query
from hdpm_lib.markets.local_menu import local_menu
from hdpm_lib.markets.mechanisms import equal_loss_pricing, myerson_contract, vcg_contract
from hdpm_lib.markets.outcome import Contract, Outcome, Purchase
from hdpm_lib.markets.procurement import procure
from hdpm_lib.markets.procurement_auction import procurement_auction

LAW = stats.uniform(0, 10)
ONE = np.array([1.0, 2.0, 4.0])
BATCH = np.stack([ONE, 2 * ONE])
BATCHED: dict[str, Callable[[np.ndarray], Outcome]] = {
    "least_cost_contract": lambda v: least_cost_contract(v, 0.3, power=2),
    "least_cost_contract, free": lambda v: least_cost_contract(v, 9.0, power=2),
    "vcg_contract": lambda v: vcg_contract(v, 0.3, 10.0, power=2),
    "equal_loss_pricing": lambda v: equal_loss_pricing(v, 0.3, 10.0, power=2),
    "error_minimising": lambda v: error_minimising(v, 1.0, 1.0, 0.1),
    "fair_query": lambda v: fair_query(v, 4.0),
    "local_menu": lambda v: local_menu(v, 1.0, 1.0, 5.0),
}
SINGLE: dict[str, Callable[[], Outcome]] = {
    "equal_loss_contract": lambda: equal_loss_contract(3, 0.3),
    "equal_loss_contract, free": lambda: equal_loss_contract(3, 9.0),
    "myerson_contract": lambda: myerson_contract(ONE, 0.3, LAW, power=2),
    "procure": lambda: procure(ONE, 1.0, 1.0, 0.1),
    "procurement_auction": lambda: procurement_auction(ONE, LAW, 1.0, 1.0, 0.1, cap=0.5),
}
OF_SELLERS = "privacy_loss payments shares weights".split()


def check_types(found: Outcome, batch: tuple[int, ...]) -> None:
    always = [] if type(found) is Outcome else ["cost", "error"]
    for field in fields(found):
        value: Any = getattr(found, field.name)
        if value is None:
            assert field.name in {"payments", "cost", "error"} - set(always)
            continue
        of_sellers = field.name in OF_SELLERS
        assert type(value) is (np.ndarray if of_sellers or batch else np.float64), field.name
        assert value.dtype == np.float64
        assert value.shape == (*batch, 3)[: len(batch) + of_sellers], field.name


@pytest.mark.parametrize("name", BATCHED)
def test_numbers_of_one_market_and_arrays_of_many(name: str) -> None:
    rule = BATCHED[name]
    check_types(rule(ONE), ())
    check_types(rule(BATCH), (2,))
    for field in fields(rule(ONE)):
        one, both = (getattr(rule(v), field.name) for v in (ONE, BATCH))
        assert (one is None) == (both is None)


@pytest.mark.parametrize("name", SINGLE)
def test_numbers_of_one_market(name: str) -> None:
    check_types(SINGLE[name](), ())


def test_costs_are_at_what_the_rule_was_given() -> None:
    for found in (
        fair_query(ONE, 4.0),
        procure(ONE, 1.0, 1.0, 0.1),
        error_minimising(ONE, 1.0, 1.0, 0.1),
    ):
        assert found.cost == pytest.approx(ONE @ found.privacy_loss, rel=1e-12)
    for found in (
        vcg_contract(ONE, 0.3, 10.0, power=2),
        equal_loss_pricing(ONE, 0.3, 10.0, power=2),
        myerson_contract(ONE, 0.3, LAW, power=2),
    ):
        assert found.cost == pytest.approx(ONE @ found.privacy_loss**2, rel=1e-12)


def test_integers_become_floats() -> None:
    found = Outcome(np.array([1, 2]), cost=3)  # type: ignore[arg-type]
    assert found.privacy_loss.dtype == np.float64 and type(found.cost) is np.float64
    assert {Contract.__bases__, Purchase.__bases__} == {(Outcome,)}
