"""Auctions of FL-Market: by the number of owners, in one market or in many markets of ten."""

from __future__ import annotations

import numpy as np

from hdpm_book.federated.allin import all_in_printed
from hdpm_book.federated.partition import budget_of, draw_bids
from hdpm_lib.auctions.allin import all_or_nothing
from hdpm_lib.auctions.bids import Bids
from hdpm_lib.auctions.menus import menus, trained_weights
from hdpm_lib.auctions.posted_prices import posted_prices
from tests.bench.case import SIZES, Arguments, Array, Case, Generator, Peer

OF_TEN = ("markets of ten", "owners, ten a market")


def offers(n: int, rng: Generator) -> Arguments:
    """Valuations and losses of one market, and money for about half of it."""
    amounts = rng.uniform(0.5, 2, n)
    valuations = amounts * rng.uniform(0.5, 1.5, n)
    return valuations, amounts, 0.5 * float(valuations.sum())


def markets(n: int, rng: Generator) -> tuple[Bids, Array]:
    """The paper's laws of bids, in markets of ten, with a budget factor of one half."""
    bids = draw_bids(np.maximum(10, rng.lognormal(3, 2, (n // 10, 10))), rng)
    return bids, np.asarray(budget_of(bids, 0.5))


CASES = (
    Case(all_or_nothing, offers, counts="owners", peer=Peer("All-in as printed", all_in_printed, 10_000)),
    Case(posted_prices, markets, None, *OF_TEN),
    Case(menus, markets, lambda bids, money: menus(bids, money, trained_weights()), *OF_TEN, SIZES[:-1]),
)
