"""Posted prices: the exact choice, no profitable lie, the money lasts. What fails without its
conditions: allin.md.
"""

from __future__ import annotations

import numpy as np
import pytest

from hdpm_book.federated.partition import budget_of
from hdpm_lib.auctions.bids import Bids, bids, unit_valuation
from hdpm_lib.auctions.incentives import utility
from hdpm_lib.auctions.posted_prices import EXTRA, POWER, SCALE, best_sale, posted_prices
from hdpm_lib.markets.outcome import Outcome
from tests.support import false_bids, generator, largest_gain, some_auctions

Array = np.ndarray


def rolling(reports: Bids, budget: Array) -> Outcome:
    """The mechanism again, owner by owner."""
    flat = [a.reshape(-1, a.shape[-1]) for a in vars(reports).values()]
    epsilon = np.zeros(flat[0].shape)
    payments = np.zeros(flat[0].shape)
    for k, left in enumerate(np.broadcast_to(budget, reports.rate.shape[:-1]).ravel()):
        family, rate, limit, sizes = (a[k] for a in flat)
        for i in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
            served = [j for j in range(len(sizes)) if (-sizes[j], j) < (-sizes[i], i)]
            waiting = sizes.sum() - sizes[served].sum()
            cap = (left - payments[k, served].sum()) / waiting
            price = (SCALE + EXTRA * sizes[i] / waiting) * cap**POWER
            epsilon[k, i] = best_sale(family[i], rate[i], limit[i], price, cap)
            payments[k, i] = sizes[i] * price * epsilon[k, i]
    return Outcome(epsilon.reshape(reports.rate.shape), payments.reshape(reports.rate.shape))


# --- the choice, and the rule -------------------------------------------------------------------


def test_best_sale_is_the_best_on_a_fine_grid() -> None:
    rng = generator(420)
    family = np.repeat(np.arange(4), 500)
    count = 2000
    rate, limit, price, cap = np.exp(rng.uniform(-1.5, 1.5, (4, count)))
    sold = best_sale(family, rate, limit, price, cap)
    assert (sold >= 0).all() and (sold <= limit).all() and (price * sold <= cap * (1 + 1e-15)).all()
    best = price * sold - unit_valuation(family, rate, sold)
    grid = np.linspace(0, 1, 2001)[:, None] * np.minimum(limit, cap / price)
    rough = price * grid - unit_valuation(family, rate, grid)
    assert (best >= rough.max(0) - 1e-15).all() and (best >= 0).all()
    assert (best <= rough.max(0) + 2e-3 * price * limit).all()
    assert 0.1 < (sold > 0).mean() < 0.95 and ((sold > 0) & (sold < limit * 0.99)).any()


def test_choice_at_a_tie() -> None:
    assert best_sale(0, 1.0, 1.0, 2.0, 2.0) == 1  # utility 0 either way
    assert best_sale(2, 1.0, 1.0, 2.0, 2.0) == 1 and best_sale(2, 1.0, 1.0, 1.999, 2.0) == 0
    assert best_sale(3, 1.0, 1.0, 1.0, 2.0) == 0


def test_rule_is_that_of_the_loop() -> None:
    rng = generator(421)
    for kind in ("IID", "Non-IID"):
        truth, budget = some_auctions(60, rng, kind)
        sale = posted_prices(truth, budget)
        again = rolling(truth, budget)
        assert np.allclose(sale.privacy_loss, again.privacy_loss, rtol=1e-9, atol=1e-12)
        assert np.allclose(sale.payments, again.payments, rtol=1e-9)
    equal = bids("quadratic", 1.0, [1.0, 1.0, 1.0], 20)
    assert np.allclose(
        posted_prices(equal, 30.0).privacy_loss, rolling(equal, np.array(30.0)).privacy_loss
    )
    # of the first, whose share of the money is 0.5 a record
    price = (1.1 + 0.2 / 3) * 0.5 ** (2 / 3)
    assert posted_prices(equal, 30.0).privacy_loss[0] == pytest.approx(price / 2)
    several = posted_prices(truth[None], budget)
    assert several.privacy_loss.shape == (1, 60, 10) and np.array_equal(
        several.privacy_loss[0], sale.privacy_loss
    )


def test_one_market_is_served_as_in_a_batch() -> None:
    """Plain floats for the one, arrays for the other: equal but for the last digits."""
    rng = generator(424)
    for owners in (1, 2, 10, 1000):
        truth, budget = some_auctions(max(1, 100 // owners), rng, owners=owners)
        together = posted_prices(truth, budget)
        for k in range(len(budget)):
            alone = posted_prices(truth[k], budget[k])
            for one, other in (
                (alone.privacy_loss, together.privacy_loss[k]),
                (alone.payments, together.payments[k]),
            ):
                assert one.dtype == other.dtype == float and one.shape == other.shape
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=0)


def test_nothing_is_sold_where_nothing_is_left() -> None:
    """One owner has so many records that the others' are lost beside hers, and takes all."""
    rng = generator(425)
    sizes = np.stack([1e20 * rng.random(200) + 1e18, *np.ones((3, 200))], -1)
    truth = bids(rng.integers(0, 4, (200, 4)), 1e-30, 50.0, sizes)
    budget = rng.uniform(1, 9, 200)
    together = posted_prices(truth, budget)
    alone = [posted_prices(truth[k], budget[k]) for k in range(200)]
    for paid in (together.payments, np.stack([sale.payments for sale in alone])):
        assert (paid >= 0).all() and (paid.sum(-1) <= budget).all()
        assert (paid[:, 0] > 0.9 * budget).any()


def test_nobody_loses_somebody_sells_and_the_money_lasts() -> None:
    rng = generator(422)
    for kind in ("IID", "Non-IID"):
        truth, _ = some_auctions(2000, rng, kind)
        for factor in (0.01, 0.1, 0.5, 2.0, 50.0):
            budget = budget_of(truth, factor)
            outcome = posted_prices(truth, budget)
            assert (outcome.payments.sum(-1) <= budget).all()
            assert (utility(truth, outcome) >= -1e-15 * truth.full_valuation).all()
            assert factor < 0.1 or (outcome.privacy_loss > 0).any(-1).all()
    wide = bids(
        rng.integers(0, 4, (500, 40)),
        rng.uniform(0.5, 1.5, (500, 40)),
        1.0,
        10 ** rng.uniform(0, 7, (500, 40)),
    )
    budget = budget_of(wide, 0.3)
    assert (posted_prices(wide, budget).payments.sum(-1) <= budget).all()


# --- lies ---------------------------------------------------------------------------------------


def test_no_lie_gains_in_two_hundred_thousand() -> None:
    rng = generator(423)
    for kind in ("IID", "Non-IID"):
        truth, budget = some_auctions(100, rng, kind)
        assert largest_gain(posted_prices, truth, budget, false_bids(truth, 100, rng)) <= 1e-12
