"""The meters of learned auctions: rules whose regret is known, draws, and auctions that are held one by one.

A rule here is a small function of JAX: posted prices, a first price, a fixed lottery. What it does to an owner who lies
alone is also computed anew with NumPy from reported bids, `hdpm_book.federated.regretnet.run` and
`hdpm_lib.auctions.bids.utility`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hdpm_book.federated import meters
from hdpm_book.federated.partition import budget_of, draw_bids
from hdpm_book.federated.regretnet import Network, run
from hdpm_book.federated.reports import (
    Played,
    Reports,
    Rule,
    learned,
    misreport,
    play,
    printed_search,
    search,
    structured,
)
from hdpm_lib.aggregation import error_bound, least_error_weights, size_weights
from hdpm_lib.auctions.bids import FAMILIES, Bids, bids, utility
from tests.support import generator, refusals, z_limit

OWNERS, PRICE, MONEY = 3, 1.3, np.ones(40)


def market_of(rng: np.random.Generator, family: str | None = None) -> Bids:
    drawn = draw_bids(rng.integers(20, 400, (40, OWNERS)), rng)
    return drawn if family is None else bids(family, drawn.rate, drawn.privacy_budget, drawn.sizes)


def network_of(kind: str, rng: np.random.Generator) -> tuple[Network, dict[str, Any]]:
    network = Network(kind, owners=OWNERS, levels=1 if kind == "RegretNet" else 4, hidden=(20, 20))
    return network, {name: rng.normal(0, 2 / np.sqrt(shape[0]), shape) for name, shape in network.shapes.items()}


def all_or_nothing(bound: Callable[[Any], Any], pay: Callable[[Any, Any], Any], width: float) -> Rule:
    """Buys the whole reported budget of who asks for less than a bound; also smoothed, over a width."""

    def function(smooth: bool) -> Callable[..., Any]:
        def sell(_: Any, __: Any, told: Reports, ___: Any) -> tuple[Any, Any]:
            asked, most = told.values[..., -1], bound(told.privacy_budget)
            sold = jax.nn.sigmoid((most - asked) / width) if smooth else (asked <= most).astype(asked.dtype)
            return jnp.stack([1 - sold, sold], -1), sold * pay(asked, most) * told.sizes

        return sell

    return Rule(1, function(False), function(True))


POSTED = all_or_nothing(lambda limit: PRICE * limit, lambda asked, most: most, 0.05)  # for a unit of loss of a record
FIRST = all_or_nothing(lambda limit: PRICE + 0 * limit, lambda asked, most: asked, 0.02)  # for a record


def lottery(shares: np.ndarray, price: Callable[[Any], Any]) -> Rule:
    """Whatever the values, levels have these chances; a record has a price, which may depend on the budget."""

    def draw(_: Any, __: Any, told: Reports, ___: Any) -> tuple[Any, Any]:
        limit = told.privacy_budget
        return jnp.broadcast_to(shares, (*limit.shape, len(shares))), price(limit) * told.sizes

    return Rule(len(shares) - 1, draw, draw)


def gain_of(rule: Rule, market: Bids, lies: Any, budget: Any = MONEY) -> np.ndarray:
    return np.maximum(play(rule, market, budget, lies).utility - play(rule, market, budget).utility, 0)


LIES: list[dict[str, Any]] = [{}, {"scale": 0.25}, {"family": "exponential", "scale": 2.0}, {"budget_share": 0.6}]
LIES += [{"size_share": 0.5, "scale": 3.0}, {"budget_share": 1.5}, {"size_share": 1.2}]


@pytest.mark.parametrize("kind", ["M-RegretNet", "DM-RegretNet"])
def test_lone_lies_agree_with_auctions_held_one_by_one(kind: str) -> None:
    rng = generator(400, len(kind))
    market, (network, weights) = market_of(rng), network_of(kind, rng)
    budget, rule = budget_of(market, rng.uniform(0.1, 2, 40)), learned(network, weights)
    truth, level = play(rule, market, budget), np.arange(5) / 4
    assert np.allclose(truth.costs, np.stack([market.valuation(m * market.privacy_budget) for m in level], -1))
    mean = run(network, weights, market, budget).privacy_loss
    assert np.allclose(truth.outcomes @ level * market.privacy_budget, mean, rtol=1e-12)
    for options in LIES:
        found = play(rule, market, budget, misreport(market, 4, **options))
        too_much = max(options.get("budget_share", 0), options.get("size_share", 0)) > 1
        for i in range(OWNERS):
            family, rate, limit, sizes = (1 * part for part in vars(market).values())
            rate[:, i] *= options.get("scale", 1.0)
            limit[:, i] *= options.get("budget_share", 1.0)
            sizes[:, i] = sizes[:, i] * options.get("size_share", 1.0)
            if "family" in options:
                family[:, i] = FAMILIES.index(options["family"])
                unit = market.full_valuation[:, i] / market.sizes[:, i]
                rate[:, i] *= unit / np.expm1(limit[:, i]) / market.rate[:, i]
            outcome = run(network, weights, bids(family, rate, limit, sizes), budget)
            assert np.allclose(found.payments[:, i], outcome.payments[:, i], rtol=1e-10)
            if kind == "DM-RegretNet":
                expected = utility(market, outcome, sizes)[:, i]
                assert np.allclose(found.utility[:, i], expected, rtol=1e-10, atol=1e-8 * market.full_valuation.max())
            else:  # every level has a chance: whoever may have to deliver too much loses infinitely much
                assert (np.isinf(found.utility[:, i]) == too_much).all()


@pytest.mark.parametrize("family", ["quadratic", "linear", "square root"])
def test_posted_price(family: str) -> None:
    """With a quadratic valuation an owner would sell PRICE / (2 rate), or her budget; else all or nothing is best."""
    market = market_of(generator(402), family=family)
    best = np.minimum(PRICE / (2 * market.rate), market.privacy_budget)
    full = np.maximum(PRICE * market.privacy_budget - market.rate * market.privacy_budget**2, 0)
    known = market.sizes * (PRICE * best - market.rate * best**2 - full) * (family == "quadratic")
    structured_only, _ = search(POSTED, market, MONEY, steps=0)
    (start, _, gain), reports = search(POSTED, market, MONEY, steps=(0, 10, 40))
    slack = 1e-9 * market.full_valuation
    assert (gain <= known + slack).all() and (gain >= structured_only).all() and (start == structured_only).all()
    assert gain.sum() >= 0.99 * known.sum() >= 1.005 * structured_only.sum() - slack.sum()
    assert np.allclose(gain_of(POSTED, market, reports), gain, atol=slack.max())


def test_first_price() -> None:
    market = market_of(generator(404), family="linear")
    unit = market.full_valuation / market.sizes
    known = market.sizes * np.where(unit <= PRICE, PRICE - unit, 0)  # by the value alone
    gain, _ = search(FIRST, market, MONEY, steps=40)
    assert gain[known > 0].sum() > 0.95 * known.sum() and (gain[unit <= PRICE / 1.5] > 0).all()
    assert (gain <= market.sizes * PRICE).all()  # nobody can do better than sell next to nothing at PRICE a record


def test_over_reported_budgets_pay_only_below_the_true_one() -> None:
    """A rule that buys a quarter of the reported budget and pays for it is best told four times the true one."""
    market = market_of(generator(406), family="linear")
    rule = lottery(np.eye(5)[1], lambda limit: 5 * limit)
    gain, reports = search(rule, market, MONEY, steps=0)
    unit = market.sizes * market.privacy_budget
    assert np.allclose(gain, 3 * (5 * unit - market.rate * 2 * unit / 4))
    assert np.allclose(reports.privacy_budget, 4 * market.privacy_budget)
    for lie in ({"budget_share": 4.1}, {"size_share": 1.1}):
        assert np.isneginf(play(rule, market, MONEY, misreport(market, 4, **lie)).utility).all()


def sampled_mean(truth: Played, lie: Played) -> np.ndarray:
    """Mean of the regret from independent draws, over all pairs of outcomes."""
    gain = (lie.payments - truth.payments)[..., None, None] + truth.costs[..., None] - lie.costs[..., None, :]
    chances = truth.outcomes[..., None] * lie.outcomes[..., None, :]
    return (chances * np.maximum(gain, 0)).sum((-1, -2)) / truth.smooth_cost


@pytest.mark.parametrize("kind", ["M-RegretNet", "DM-RegretNet"])
def test_sampled_regret(kind: str) -> None:
    rng = generator(408, len(kind))
    market, (network, weights) = market_of(rng), network_of(kind, rng)
    rule, budget = learned(network, weights), budget_of(market, 1.0)
    truth = play(rule, market, budget)
    lie = play(rule, market, budget, misreport(market, network.levels, scale=0.5, budget_share=0.8))
    for other in (truth, lie):
        draws = np.array([meters.printed_regret(truth, other, rng).mean() for _ in range(2000)])
        exact = sampled_mean(truth, other)
        error = draws.std(ddof=1) / math.sqrt(2000)
        assert abs(draws.mean() - exact.mean()) <= z_limit(4) * error + 1e-12
        assert (exact >= meters.printed_regret(truth, other) - 1e-12).all()  # Jensen
        assert kind != "DM-RegretNet" or np.allclose(exact, meters.printed_regret(truth, other))  # which draws nothing
    floor = meters.noise_floor(truth.outcomes, truth.costs)
    assert np.allclose(floor, sampled_mean(truth, truth))
    assert floor.mean() > 0.05 if kind != "DM-RegretNet" else not floor.any()  # regret where nobody misreports


def test_printed_search_follows_the_gradient_and_keeps_bounds() -> None:
    rng = generator(410)
    market, (network, weights) = market_of(rng), network_of("M-RegretNet", rng)
    rule, budget = learned(network, weights), budget_of(market, 1.0)
    start, rate, nudge = misreport(market, 4), 1e-7, 1e-5
    same = printed_search(rule, market, budget, steps=0)
    assert all(np.array_equal(a, b) for a, b in zip(same, start, strict=True))
    moved = printed_search(rule, market, budget, steps=1, rate=rate)
    for m in range(4):
        up, down = (
            play(rule, market, budget, start._replace(values=start.values + sign * nudge * np.eye(4)[m])).utility
            for sign in (1, -1)
        )
        slope, step = (up - down) / (2 * nudge), (moved.values - start.values)[..., m] / rate
        assert np.allclose(step, slope, rtol=1e-3, atol=1e-5 * np.abs(slope).max())
    shrunk = start._replace(privacy_budget=start.privacy_budget * (1 - 1e-6))
    fall = play(rule, market, budget, start).utility - play(rule, market, budget, shrunk).utility
    slope, step = fall / (1e-6 * market.privacy_budget), (moved.privacy_budget - market.privacy_budget) / rate
    assert np.allclose(step, np.minimum(slope, 0), rtol=1e-2, atol=1e-4 * np.abs(slope).max())  # capped at the truth
    for clamp, axis in (("sub-bids", -1), ("owners", -2)):
        found = printed_search(rule, market, budget, steps=20, clamp=clamp)
        assert (np.diff(found.values, axis=axis) >= 0).all()
        assert (found.values >= 0).all() and (found.privacy_budget <= market.privacy_budget).all()
        assert ((found.sizes <= market.sizes) & (found.sizes >= 1)).all()


def test_frozen_outcomes_hide_what_depends_on_them() -> None:
    """If only what is bought depends on the values, who takes it as given sees no reason to change them."""

    def paid_anyway(*given: Any) -> tuple[Any, Any]:
        return POSTED.guide(*given)[0], PRICE * given[2].privacy_budget * given[2].sizes

    market, rule = market_of(generator(413)), Rule(1, paid_anyway, paid_anyway)
    free, frozen = (
        printed_search(rule, market, MONEY, steps=3, rate=1e-4, frozen=frozen).values - misreport(market, 1).values
        for frozen in (False, True)
    )
    assert np.abs(free).max() > 1e-6 and not frozen.any()


def test_violations_in_closed_form() -> None:
    market, z, price = market_of(generator(414)), 0.3, 0.4
    truth = play(lottery(np.array([1 - z, z]), lambda limit: price), market, MONEY)
    full, paid = market.full_valuation, price * market.sizes
    assert np.allclose(meters.ir_violation(truth), np.maximum(z * full - paid, 0) / (z * full))
    assert np.allclose(meters.ir_violation(truth, ex_post=True), np.maximum(1 - paid / full, 0))
    assert np.allclose(truth.invalid, (1 - z) ** OWNERS)
    nothing = play(lottery(np.array([1.0, 0.0]), lambda limit: 0.0), market, MONEY)
    assert (meters.ir_violation(nothing) == 0).all()


@pytest.mark.parametrize("kind", ["M-RegretNet", "DM-RegretNet"])
def test_metrics_put_the_pieces_together(kind: str) -> None:
    rng = generator(416, len(kind))
    market, (network, weights) = market_of(rng), network_of(kind, rng)
    budget, rule = budget_of(market, 0.3), learned(network, weights)
    found = meters.metrics(network, weights, market, budget, rng=np.random.default_rng(1), steps=5, printed_steps=5)
    truth, outcome = play(rule, market, budget), run(network, weights, market, budget)
    cost = (truth.outcomes * truth.costs).sum(-1)
    limits = (math.inf, 20.0, 3.0)
    (far, _), (near, _), (gain, told) = (search(rule, market, budget, steps=5, reach=reach) for reach in limits)
    for lie, true, most in zip(told, misreport(market, 4), (3, 1, 1), strict=True):
        assert (lie >= true / 3 * (1 - 1e-9)).all() and (lie <= true * most * (1 + 1e-9)).all()
    assert gain.sum() < far.sum() or kind == "DM-RegretNet"
    assert np.allclose(gain_of(rule, market, told, budget), gain, atol=1e-9 * market.full_valuation.max())
    lies = printed_search(rule, market, budget, steps=5, clamp="owners", frozen=True)
    sampled = meters.printed_regret(truth, play(rule, market, budget, lies), np.random.default_rng(1))
    bought = outcome.privacy_loss / market.privacy_budget
    expected = {
        "published": meters.estimate(sampled),
        "regret": meters.over_cost(far, truth.cost),
        "near": meters.over_cost(near, truth.cost),
        "regret_over_full": meters.estimate(far / market.full_valuation),
        "near_over_full": meters.estimate(near / market.full_valuation),
        "regret_of_sums": meters.estimate(far, truth.cost),
        "overspent": meters.estimate(cost.sum(-1) > budget),
        "underpaid": meters.estimate(cost > truth.payments),
    }
    assert found | expected == found
    assert (found["no_misreport"].value == 0) == (kind == "DM-RegretNet")
    assert found["ex_post_violation"].value >= found["ir_violation"].value - 1e-12
    assert math.isclose(found["bought"].value, bought.mean(), rel_tol=1e-9)


def test_estimate_has_the_error_it_says() -> None:
    rng = generator(417)
    tops, bottoms = rng.exponential(1, (4000, 50, 2)), rng.exponential(2, (4000, 50, 2)) + 1
    ratios = [meters.estimate(a, b) for a, b in zip(tops, bottoms, strict=True)]
    spread = np.std([r.value for r in ratios], ddof=1)
    assert math.isclose(spread, np.mean([r.error for r in ratios]), rel_tol=0.15)
    assert math.isclose(meters.estimate(tops[0]).error, tops[0].mean(-1).std(ddof=1) / math.sqrt(50))
    gain, cost = np.array([[1.0, 3.0], [0.0, 2.0]]), np.array([[2.0, 0.0], [4.0, 8.0]])
    assert math.isclose(meters.over_cost(gain, cost).value, (0.5 + 0 + 0.25) / 3)  # of those who sell
    assert math.isnan(meters.over_cost(gain, np.zeros((2, 2))).value)


def test_errors_of_valid_profiles() -> None:
    loss, sizes = np.array([[0.0, 0.5], [0.0, 0.0], [1.0, 2.0]]), np.array([[10.0, 30.0], [10.0, 10.0], [1.0, 2.0]])
    for name, aggregate in (("OptAggr", least_error_weights), ("ConvAggr", size_weights)):
        error, invalid = meters.error_of_valid(loss, sizes, name)
        assert math.isclose(invalid.value, 1 / 3)
        bounds = [float(error_bound(aggregate(e, d), e, d)) for e, d in zip(loss, sizes, strict=True)]
        assert math.isclose(error.value, (bounds[0] + bounds[2]) / 2) and math.isinf(bounds[1])


def test_structured_misreports_are_what_they_say() -> None:
    market = bids("quadratic", 1.0, [2.0], [10.0])
    tries = structured(market, 2)
    assert np.array_equal(tries[0].values, [[1.0, 4.0]])  # others are in `LIES`
    assert all((np.diff(lies.values, axis=-1) >= 0).all() for lies in tries)
    assert np.array_equal(misreport(market, 2, step=2).values, [[0.0, 4.0]])
    assert {float(lies.sizes[0]) for lies in tries} == {10.0, 1.0, 5.0, 9.0}


MARKET = bids("linear", 1.0, np.ones((2, 3)), np.full((2, 3), 10.0))
COIN = lottery(np.array([0.5, 0.5]), lambda limit: math.nan)


test_bad_input_is_named = refusals(
    (lambda: misreport(MARKET, 2, family="cubic"), "family .* 'cubic'"),
    (lambda: misreport(MARKET, 2, step=3), "step must be at most 2.* got 3"),
    (lambda: play(POSTED, MARKET, [1.0, 1.0, 1.0]), "budget .* got \\(3,\\)"),
    (lambda: play(POSTED, MARKET, 1.0, misreport(MARKET, 2)), "lies .* got"),
    (lambda: play(POSTED, MARKET, 1.0, misreport(MARKET[:1], 1)), "lies .* got"),
    (lambda: search(POSTED, MARKET, 1.0, reach=math.nan), "reach .* got nan"),
    (lambda: printed_search(POSTED, MARKET, 1.0, clamp="items"), "clamp .* 'items'"),
    (lambda: meters.error_of_valid(np.ones((2, 3)), np.ones((2, 3)), "Opt"), "aggregation .* 'Opt'"),
    (lambda: play(COIN, MARKET, 1.0), "not a number in 6"),
    (lambda: meters.printed_regret(play(POSTED, MARKET, 1.0), play(POSTED, MARKET[:1], 1.0)), "lie .* got"),
    (lambda: meters.noise_floor([0.5, 0.5], [1.0]), "costs .* got"),
    (lambda: meters.estimate([1.0]), "at least 2 profiles"),
    (lambda: meters.estimate([1.0, 2.0], [1.0]), "shape of bottom"),
    (lambda: meters.estimate([1.0, 2.0], [1.0, -1.0]), "bottom must not be negative"),
)
