"""SingleMindedQuery on the page of All-in: offers against a search over all pairs, the law against
draws, and the condition that its paper asks of the law.
"""

from __future__ import annotations

import numpy as np
import pytest

from hdpm_book.federated.partition import draw_bids
from hdpm_book.records import page_functions
from hdpm_lib.auctions.bids import unit_valuation
from tests.support import generator

LOOKS_AT = ["book/federated/allin.md"]
NAMES = ("single_minded_offers", "single_minded_query", "all_in_query", "gains_found")
PAGE = page_functions("federated/allin", *NAMES)
offers = PAGE["single_minded_offers"]
query = PAGE["single_minded_query"]
Array = np.ndarray


def chance(offer: Array, sizes: Array, limit: Array) -> Array:
    """Probability that an offer is at least the cost of the whole privacy budget."""
    per_record = offer / sizes
    law = np.zeros(np.broadcast_shapes(offer.shape, limit.shape))
    for family in range(4):
        base = unit_valuation(family, 1.0, limit)
        law += np.clip(per_record / base - 0.5, 0, 1) / 4
    return law


def test_law_is_that_of_the_draws() -> None:
    rng = generator(701)
    truth = draw_bids(np.full(200_000, 30.0), rng)
    # the same privacy budget for all, so that their costs have one law
    cost = 30.0 * unit_valuation(truth.family, truth.rate, 1.3)
    for offer in (20.0, 60.0, 90.0, 120.0):
        share = (cost <= offer).mean()
        law = float(chance(np.array(offer), np.array(30.0), np.array(1.3)))
        assert share == pytest.approx(law, abs=5 * 0.5 / np.sqrt(cost.size))


@pytest.mark.parametrize("money", [15.0, 60.0, 150.0, 600.0])
def test_no_pair_of_offers_buys_more_on_average(money: float) -> None:
    """A price of money leaves the best of what it buys, except for what it leaves unspent."""
    sizes = np.array([[20.0, 35.0]])
    limit = np.array([[0.7, 1.6]])
    made = offers(sizes, limit, np.array([money]))
    bought = (sizes * limit * chance(made, sizes, limit)).sum()
    spent = (made * chance(made, sizes, limit)).sum()
    assert spent <= money * (1 + 1e-6)
    grid = np.linspace(0, 1, 801)
    first, second = np.meshgrid(grid * 140, grid * 300, indexing="ij")
    pairs = np.stack([first, second], -1)
    chances = chance(pairs, sizes, limit)
    value = (sizes * limit * chances).sum(-1)
    cost = (pairs * chances).sum(-1)
    # with the money that it spends, nothing beats it
    assert value[cost <= spent].max() <= bought * (1 + 1e-6)


def test_offer_does_not_hang_on_the_own_valuation() -> None:
    rng = generator(702)
    truth = draw_bids(rng.integers(10, 99, (30, 5)).astype(float), rng)
    budget = 0.6 * truth.full_valuation.sum(-1)
    made = offers(truth.sizes, truth.privacy_budget, budget)
    paid = query(truth.full_valuation, truth.sizes, truth.privacy_budget, budget)
    assert (paid == np.where(made >= truth.full_valuation, made, 0)).all()
    assert ((paid == 0) | (paid >= truth.full_valuation)).all()
    found = PAGE["gains_found"](query, truth, budget)
    assert not found["valuation"].any()


def test_search_finds_lies_that_pay() -> None:
    """An auction that pays what is asked, as long as the money lasts, must be found out."""

    def paid_as_asked(V: Array, sizes: Array, limit: Array, money: Array) -> Array:
        return np.where(money[:, None] >= V, V, 0.0)

    rng = generator(703)
    truth = draw_bids(rng.integers(10, 99, (20, 4)).astype(float), rng)
    found = PAGE["gains_found"](paid_as_asked, truth, 2 * truth.full_valuation.sum(-1))
    assert found["valuation"].all()


def test_condition_of_the_paper_is_not_that_of_its_proof() -> None:
    """Assumption (A2) asks that f/(1 - F) never falls. Here it rises, and yet two equal offers,
    which fulfil Eqs. (14) and (15), buy less than two different ones. Theorem 1 needs theta + F/f
    to rise.
    """
    low, high = 0.1, 1.9  # the density on [0, 1/2] and on [1/2, 1]

    def law(offer: Array) -> Array:
        return np.where(offer <= 0.5, low * offer, low / 2 + high * (offer - 0.5))

    offer = np.linspace(0, 0.999, 2000)
    density = np.where(offer <= 0.5, low, high)
    assert (np.diff(density / (1 - law(offer))) > 0).all()
    assert (np.diff(offer + law(offer) / density) < 0).any()
    budget = 0.049
    equal = np.sqrt(budget / 2 / low)
    assert equal < 0.5 and 2 * equal * law(equal) == pytest.approx(budget)
    apart = np.array([0.27, 0.5157])
    assert (apart * law(apart)).sum() <= budget
    assert law(apart).sum() > 1.05 * 2 * law(equal)
