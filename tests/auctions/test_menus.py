"""Learned menus: the exact choice, schedules nobody moves by her own report, money that lasts,
whatever the weights.

The auction is run again owner by owner in plain loops; the search for profitable lies must catch
schedules that leak.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from hdpm_book.federated.partition import budget_of, draw_bids
from hdpm_lib.auctions.bids import Bids, bids, unit_valuation
from hdpm_lib.auctions.incentives import Auction, gains, utility
from hdpm_lib.auctions.menus import (
    KNOTS,
    SHAPES,
    TRAINED,
    Weights,
    choose,
    increments,
    menus,
    nothing_sold,
    places,
    record_sale,
    serve,
    trained_weights,
)
from hdpm_lib.markets.outcome import Outcome
from tests.support import false_bids, generator, largest_gain, random_weights, some_auctions

Array = np.ndarray
GRID = np.linspace(0, 2, 2001)


def schedules(market: Bids, budget: Array, weights: Weights) -> Array:
    """What each owner is offered."""
    return serve(market, budget, weights).prices


def both_weights(rng: np.random.Generator) -> list[Weights]:
    return [trained_weights(), random_weights(rng), random_weights(rng, 1.0)]


# --- the choice ---------------------------------------------------------------------------------


def some_schedules(count: int, rng: np.random.Generator) -> tuple[Array, Bids]:
    """Rising prices with flat pieces, and an owner of every family for each."""
    steps = rng.exponential(1, (count, len(KNOTS) - 1)) * (
        rng.random((count, len(KNOTS) - 1)) < 0.6
    )
    prices = np.concatenate([np.zeros((count, 1)), np.cumsum(steps, -1)], -1) * np.exp(
        rng.uniform(-3, 2, (count, 1))
    )
    owner = bids(
        np.arange(count) % 4,
        rng.uniform(0.5, 1.5, count),
        rng.uniform(0.02, 2.4, count),
        rng.uniform(1, 2, count),
    )
    return prices, owner


def test_choice_is_exact() -> None:
    prices, owner = some_schedules(1200, generator(440))
    chosen = choose(prices, owner)
    on_schedule = [
        np.interp(e, KNOTS, row) for e, row in zip(chosen.privacy_loss, prices, strict=True)
    ]
    assert np.allclose(chosen.payments, on_schedule, rtol=1e-12, atol=1e-14)
    assert (chosen.privacy_loss <= owner.privacy_budget).all() and (
        utility(owner, chosen) >= 0
    ).all()
    assert 0.2 < (chosen.privacy_loss > 0).mean() < 0.95
    # what the best of 2001 points within the privacy budget, and of the budget itself, gains beyond
    # the choice
    points = np.minimum(GRID, owner.privacy_budget[:, None])
    offered = np.array(
        [np.interp(row, KNOTS, price) for row, price in zip(points, prices, strict=True)]
    )
    cost = owner.sizes[:, None] * unit_valuation(owner.family[:, None], owner.rate[:, None], points)
    regret = (offered - cost).max(-1) - utility(owner, chosen)
    assert (regret <= 1e-13 * (1 + prices[:, -1])).all()
    # and the grid comes near, so that the choice is not above what is possible
    for family in range(4):
        assert np.median(regret[owner.family == family]) > -1e-3


def test_choice_at_the_edges() -> None:
    # utility 0 either way: no sale
    nothing = choose(10 * KNOTS, bids("linear", 5.0, [2.0], 1)[0])
    assert nothing.privacy_loss == nothing.payments == 0
    small = choose(10 * KNOTS, bids("linear", 1.0, [0.01], 1)[0])
    assert small.privacy_loss == 0.01 and np.isclose(small.payments, 0.1)


# --- the auction --------------------------------------------------------------------------------


def in_a_loop(reports: Bids, budget: float, weights: Weights) -> tuple[Array, Array]:
    """One auction, owner by owner."""
    n = len(reports.rate)
    left = budget * (1 - 1e-12)
    sold = nothing_sold(np.zeros(()))
    epsilon = np.zeros(n)
    payments = np.zeros(n)
    queue = sorted(range(n), key=lambda i: (-reports.sizes[i], i))
    queued = places(weights, reports.sizes[queue] / reports.sizes.sum())
    for k, i in enumerate(queue):
        place = queued.at(k)
        steps = (
            increments(weights, place, np.array(left / reports.sizes.sum()), sold)
            * reports.sizes.sum()
        )
        chosen = choose(np.append(0, np.cumsum(steps)), reports[i])
        epsilon[i], payments[i], left = chosen.privacy_loss, chosen.payments, left - chosen.payments
        sold = record_sale(sold, place.share, chosen.privacy_loss)
    return epsilon, payments


def test_auction_is_that_of_the_loop() -> None:
    rng = generator(441)
    for weights in both_weights(rng):
        for owners in (1, 2, 10, 23):
            truth, budget = some_auctions(12, rng, owners=owners)
            # many of equal size, the smallest first
            sizes = truth.sizes.copy()
            sizes[:4] = np.sort(sizes[:4]) // 40 + 1
            truth = replace(truth, sizes=sizes)
            done = menus(truth, budget, weights)
            for k in range(12):
                epsilon, payments = in_a_loop(truth[k], budget[k], weights)
                assert np.allclose(done.privacy_loss[k], epsilon, rtol=1e-7, atol=1e-9)
                assert np.allclose(done.payments[k], payments, rtol=1e-7, atol=1e-9 * budget[k])


def test_batches_and_the_order_of_owners_do_not_matter() -> None:
    rng = generator(442)
    truth, budget = some_auctions(6, rng)
    # no ties
    truth = bids(
        truth.family, truth.rate, truth.privacy_budget, truth.sizes + rng.random(truth.sizes.shape)
    )
    # to the last bit: no product of matrices depends on the shape of the batch
    for weights in both_weights(rng):
        done = menus(truth, budget, weights)
        shuffle = rng.permutation(10)
        shaped = menus(
            bids(*(x.reshape(2, 3, 10) for x in vars(truth).values())),
            budget.reshape(2, 3),
            weights,
        )
        assert (shaped.privacy_loss.reshape(6, 10) == done.privacy_loss).all()
        assert all(
            (menus(truth[k], budget[k], weights).payments == done.payments[k]).all()
            for k in range(6)
        )
        assert (gains(lambda r, b, w=weights: menus(r, b, w), truth, truth, budget) == 0).all()
        moved = menus(Bids(*(x[:, shuffle] for x in vars(truth).values())), budget, weights)
        assert np.allclose(moved.payments, done.payments[:, shuffle], rtol=1e-9)
        scaled = menus(
            bids(truth.family, 3 * truth.rate, truth.privacy_budget, truth.sizes),
            3 * budget,
            weights,
        )
        # money is measured in the unit of the rates
        assert not np.allclose(scaled.privacy_loss, done.privacy_loss)


def test_nobody_loses_and_the_money_lasts_whatever_the_weights() -> None:
    rng = generator(443)
    for scale in (0.0, 0.3, 3.0, 1000.0):
        for owners in (1, 2, 10, 40):
            sizes = np.exp(rng.uniform(0, 14, (200, owners)))
            truth = draw_bids(sizes, rng)
            budget = budget_of(truth, np.exp(rng.uniform(-9, 6, 200)))
            weights = random_weights(rng, scale)
            done = menus(truth, budget, weights)
            offered = schedules(truth, budget, weights)
            assert (done.payments.sum(-1) <= budget).all() and (utility(truth, done) >= 0).all()
            assert (np.diff(offered) >= 0).all() and (offered[..., 0] == 0).all()
            assert (offered[..., -1] <= budget[:, None]).all()
    assert (done.privacy_loss > 0).any()


def test_last_owner_is_offered_all_that_is_left() -> None:
    rng = generator(444)
    truth, budget = some_auctions(200, rng)
    for weights in both_weights(rng):
        done = menus(truth, budget, weights)
        offered = schedules(truth, budget, weights)
        last = np.argsort(-truth.sizes, kind="stable")[:, -1:]
        paid = done.payments.sum(-1) - np.take_along_axis(done.payments, last, -1)[:, 0]
        top = np.take_along_axis(offered[..., -1], last, -1)[:, 0]
        assert np.allclose(top, budget - paid, rtol=1e-6, atol=1e-11 * budget.max())


# --- incentives ---------------------------------------------------------------------------------


def test_a_report_moves_neither_the_own_schedule_nor_those_before() -> None:
    rng = generator(445)
    truth, budget = some_auctions(30, rng)
    moved = 0
    for weights in both_weights(rng):
        lies = false_bids(truth, 1, rng)[0]
        honest = schedules(truth, budget, weights)
        rank = np.argsort(np.argsort(-truth.sizes, kind="stable"))
        for i in range(10):
            liar = np.arange(10) == i
            reports = Bids(
                *(
                    np.where(liar, a, b)
                    for a, b in zip(vars(lies).values(), vars(truth).values(), strict=True)
                )
            )
            told = schedules(reports, budget, weights)
            before = rank <= rank[:, i : i + 1]
            assert np.array_equal(told[before], honest[before])
            moved += (told[~before] != honest[~before]).any(-1).sum()
    assert moved > 0  # those after her do see what she sold


def leaky(weights: Weights) -> Auction:
    """Schedules that peek at the owner's own reported rate."""

    def auction(reports: Bids, budget: Array) -> Outcome:
        return choose(
            schedules(reports, budget, weights) * np.clip(reports.rate, 0.1, 1.5)[..., None],
            reports,
        )

    return auction


@pytest.mark.parametrize("kind", ["IID", "Non-IID"])
def test_no_lie_about_valuation_or_privacy_budget_pays(kind: str) -> None:
    rng = generator(446, len(kind))
    truth, budget = some_auctions(40, rng, kind)
    for weights in both_weights(rng):
        lies = false_bids(truth, 20, rng)
        assert largest_gain(lambda r, b, w=weights: menus(r, b, w), truth, budget, lies) <= 1e-12
        assert largest_gain(leaky(weights), truth, budget, false_bids(truth, 5, rng)) > 1e-3


# --- the recorded weights -----------------------------------------------------------------------


def test_the_network_sees_what_it_was_trained_on() -> None:
    """What the stored weights make of one market: they are worth nothing with other features."""
    market = bids(
        [0, 1, 2, 3], [0.6, 0.9, 1.1, 1.4], [0.5, 1.0, 1.5, 2.0], [100.0, 200.0, 150.0, 50.0]
    )
    paid = menus(market, 1000.0, trained_weights()).payments
    np.testing.assert_allclose(paid, [0.0, 450.70857, 472.90662, 64.45279], rtol=1e-6)


def test_provenance_is_stored() -> None:
    about = json.loads((TRAINED / "menus.json").read_text("utf8"))
    assert about["settings"]["partition"] == "IID" and about["commit"] and about["hardware"]
    assert about["versions"]["jax"]
    assert len(about["log"]) * about["settings"]["log"] == about["settings"]["steps"]


# --- bad input ----------------------------------------------------------------------------------


def test_bad_weights() -> None:
    truth = bids("linear", 1.0, [1.0, 2.0], 10)
    good = random_weights(generator(451))
    menus(truth, 5.0, good)
    for name, shape in SHAPES.items():
        with pytest.raises(ValueError, match=f"weights lack '{name}'"):
            menus(truth, 5.0, {key: array for key, array in good.items() if key != name})
        with pytest.raises(ValueError, match=rf"weights\['{name}'\] must have shape"):
            menus(truth, 5.0, good | {name: np.zeros((*shape, 1))})
        for bad in (np.nan, np.inf, -1e7):
            with pytest.raises(
                ValueError, match=rf"weights\['{name}'\] must be finite and below a million, got"
            ):
                spoilt = np.array(good[name])
                spoilt.flat[-1] = bad
                menus(truth, 5.0, good | {name: spoilt})
