"""Auctions of FL-Market: by the number of owners, in one market or in many markets of ten."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import numpy as np

from hdpm_lib.auctions import training
from hdpm_lib.auctions.allin import all_in, all_in_repaired
from hdpm_lib.auctions.bids import Bids, budget_of, draw_bids
from hdpm_lib.auctions.lower_bound import lower_bound
from hdpm_lib.auctions.menus import menus, trained_weights
from hdpm_lib.auctions.networks import Network, init, run
from hdpm_lib.auctions.posted_prices import posted_prices
from tests.bench.case import Arguments, Case, Peer

OWNERS = 10
Array = np.ndarray
Generator = np.random.Generator


def offers(n: int, rng: Generator) -> Arguments:
    """Valuations and losses of one market, and money for about half of it."""
    amounts = rng.uniform(0.5, 2, n)
    valuations = amounts * rng.uniform(0.5, 1.5, n)
    return valuations, amounts, 0.5 * float(valuations.sum())


def markets(n: int, rng: Generator) -> tuple[Bids, Array]:
    """The paper's laws of bids, in markets of ten, with a budget factor of one half."""
    bids = draw_bids(np.maximum(10, rng.lognormal(3, 2, (n // OWNERS, OWNERS))), rng)
    return bids, np.asarray(budget_of(bids, 0.5))


@cache
def network() -> tuple[Network, Any]:
    """DM-RegretNet with random weights: what they are does not matter to the time."""
    shape = Network("DM-RegretNet")
    return shape, jax.tree.map(np.asarray, init(shape, jax.random.key(0)))


# --- one step of the search for misreports, with which networks are trained -------------------------------------------

STEPS = 5  # of the ascent, timed together


@cache
def ascent(profiles: int) -> Any:
    """Settings with so many markets, and the compiled search."""
    settings = training.Settings(Network("DM-RegretNet"), batches=1, profiles=profiles, search=STEPS)
    return settings, jax.jit(lambda *given: training.search(settings, *given))


def training_batch(n: int, _: Generator) -> Arguments:
    """Weights, markets and misreports of one iteration."""
    settings = ascent(n // OWNERS)[0]
    state = training.start(settings, 0)
    market = jax.tree.map(lambda part: part[0], training.draw_markets(settings, 0))
    return state["weights"], market, state["misreports"][0]


def climb(weights: Any, market: Any, misreports: Any) -> Any:
    """Five steps of the ascent."""
    return ascent(len(misreports))[1](weights, market, misreports).block_until_ready()


OF_TEN = "owners, ten a market"
BATCHES = (100, 1_000, 10_000, 100_000)
CASES = (
    Case(all_in_repaired, offers, counts="owners", peers=(Peer("All-in as printed", all_in, 10_000),)),
    Case(posted_prices, markets, variant="markets of ten", counts=OF_TEN),
    Case(
        menus,
        markets,
        lambda bids, money: menus(bids, money, trained_weights()),
        variant="markets of ten",
        counts=OF_TEN,
        sizes=BATCHES,
    ),
    Case(lower_bound, markets, variant="markets of ten", counts=OF_TEN, sizes=BATCHES),
    Case(
        run,
        markets,
        lambda bids, money: run(*network(), bids, money),
        variant="DM-RegretNet, markets of ten",
        counts=OF_TEN,
        sizes=BATCHES[1:],
        jax=True,
    ),
    Case(
        training.search,
        training_batch,
        climb,
        variant="five steps, markets of ten",
        counts=OF_TEN,
        sizes=(640, 2_560, 10_240),
        jax=True,
    ),
)
