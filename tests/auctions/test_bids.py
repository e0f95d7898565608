"""Bids of FL-Market: the four valuations, the laws they are drawn from, the budget and the
utility.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from hdpm_book.federated.partition import budget_of, draw_bids
from hdpm_lib.auctions.allin import all_in
from hdpm_lib.auctions.bids import FAMILIES, bids, check_budget, unit_valuation
from hdpm_lib.auctions.incentives import utility
from hdpm_lib.auctions.menus import menus, trained_weights
from hdpm_lib.auctions.posted_prices import posted_prices
from hdpm_lib.markets.outcome import Outcome
from hdpm_lib.validation import FALSE_ALARM
from tests.support import generator, ks_check, objections


def test_valuations_are_the_four_of_the_paper() -> None:
    market = bids(list(FAMILIES), 1.25, [0.5, 1.0, 1.5, 2.0], [10, 20, 30, 40])
    eps = np.array([0.3, 0.7, 0.25, 1.1])
    expected = [2 * 10 * 0.3, 20 * 0.7**2, 2 * 30 * np.sqrt(0.25), 40 * (np.exp(1.1) - 1)]
    np.testing.assert_allclose(market.valuation(eps), 1.25 * np.array(expected), rtol=1e-14)
    np.testing.assert_allclose(
        market.full_valuation, market.valuation(market.privacy_budget), rtol=0
    )
    assert (market.valuation(np.zeros(4)) == 0).all()
    np.testing.assert_allclose(market.shares, [0.1, 0.2, 0.3, 0.4], rtol=1e-15)
    assert np.array_equal(bids([0, 1, 2, 3], 1.25, 1.0, [10, 20, 30, 40]).family, market.family)
    assert unit_valuation(3, 1.0, 1e-12) == pytest.approx(1e-12, rel=1e-9)  # no cancellation near 0
    dear = bids("exponential", 1.0, 1.0, [1e6])
    # in the product, in the exponential
    assert dear.valuation([697.8]) == dear.valuation([710.0]) == np.inf


def test_bids_follow_the_laws_of_the_paper() -> None:
    market = draw_bids(np.full((500, 10), 7), generator(50))
    checks = [
        ks_check("rate", market.rate.ravel(), stats.uniform(0.5, 1).cdf, 2),
        ks_check("privacy budget", market.privacy_budget.ravel(), stats.uniform(0.5, 1.5).cdf, 2),
    ]
    assert objections(checks) == []
    assert stats.chisquare(np.bincount(market.family.ravel())).pvalue > FALSE_ALARM
    assert np.array_equal(market[3].rate, market.rate[3])
    np.testing.assert_allclose(
        budget_of(market, 2.0), 2 * market.full_valuation.sum(axis=1), rtol=1e-14
    )


def test_utility_is_payment_minus_cost_and_minus_infinity_beyond_the_limits() -> None:
    truth = bids("quadratic", 1.0, [1.0, 1.0, 1.0], [10, 10, 10])
    outcome = Outcome(np.array([0.0, 0.5, 1.1]), np.array([0.0, 4.0, 100.0]))
    assert utility(truth, outcome).tolist() == [0.0, 1.5, -np.inf]
    assert utility(truth, outcome, [11, 4, 4]).tolist() == [-np.inf, 3.0, -np.inf]
    dear = bids("exponential", 1.0, 1.0, [10, 10, 1e6])
    loss = np.array([1.0, 800.0, 697.8])
    assert utility(dear, Outcome(loss, np.ones(3)), [10, 0, 1e6])[1:].tolist() == [-np.inf, -np.inf]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bids([4], 1, 1, [1]), r"family must hold names .* got \[4\]"),
        (lambda: bids("linear", 1, 1, 1), "at least one owner"),
        (
            lambda: check_budget([1, 2], bids("linear", 1, 1, [1])),
            "budget must have one value for each auction",
        ),
        (
            lambda: bids(["linear", "exponential"], 1, [5, 900], [1, 1]),
            "privacy_budget must be at most",
        ),
    ],
)
def test_bad_input_is_named(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "text",
    [
        list,
        pd.Series,
        lambda names: pd.DataFrame({"family": names})["family"],
        lambda names: pd.Series(names, dtype="category"),
        lambda names: pd.Series(names, dtype=object),
        lambda names: np.array(names, dtype=object),
        lambda names: np.array(names, dtype=np.dtypes.StringDType()),
    ],
)
def test_names_may_be_text_of_any_kind(text: Callable[[list[str]], Any]) -> None:
    family = text(["linear", "exponential", "square root", "quadratic"])
    assert bids(family, 1, 1, [1, 1, 1, 1]).family.tolist() == [0, 3, 2, 1]
    with pytest.raises(ValueError, match=r"family must be one of .*, got 'cubic'"):
        bids(text(["linear", "cubic"]), 1, 1, [1, 1])


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, 1])
def test_what_is_beside_names_is_refused(missing: object) -> None:
    with pytest.raises(ValueError, match="family must be one of"):
        bids(pd.Series(["linear", missing], dtype=object), 1, 1, [1, 1])


@pytest.mark.parametrize("market", [[1, 2], None, {"rate": [1.0]}])
def test_what_are_no_bids_is_refused(market: Any) -> None:
    for auction in (posted_prices, all_in, partial(menus, weights=trained_weights())):
        with pytest.raises(TypeError, match=r"^bids must be Bids, such as hdpm_lib\.bids"):
            auction(market, 5.0)


def test_shares_of_a_batch_are_those_of_each_market() -> None:
    # only an exponential cost would overflow
    assert bids("linear", 1, [5, 900], [1, 1]).shares.sum() == 1
    found = bids(
        "linear", np.ones((2, 2)), privacy_budget=np.ones((2, 2)), sizes=[[1.0, 3.0], [4.0, 4.0]]
    )
    assert found.shares.tolist() == [[0.25, 0.75], [0.5, 0.5]]
