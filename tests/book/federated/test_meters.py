"""The meters of learned auctions: rules whose regret is known, Monte Carlo, and meters broken on purpose.

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
from scipy import special

from hdpm_book.federated.meters import (
    Estimate,
    error_of_valid,
    estimate,
    ir_violation,
    metrics,
    noise_floor,
    over_cost,
    printed_regret,
)
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
from tests.support import generator, z_limit

OWNERS, PRICE = 3, 1.3


def market_of(rng: np.random.Generator, profiles: int = 40, family: str | None = None) -> Bids:
    drawn = draw_bids(rng.integers(20, 400, (profiles, OWNERS)), rng)
    return drawn if family is None else bids(family, drawn.rate, drawn.privacy_budget, drawn.sizes)


def network_of(kind: str, rng: np.random.Generator) -> tuple[Network, dict[str, Any]]:
    network = Network(kind, owners=OWNERS, levels=1 if kind == "RegretNet" else 4, hidden=(20, 20))
    return network, {name: rng.normal(0, 2 / np.sqrt(shape[0]), shape) for name, shape in network.shapes.items()}


def levels_of(sold: Any, levels: int = 1) -> Any:
    """Outcomes of M + 1 levels: all of it with chance `sold`, else nothing."""
    middle = jnp.zeros((*sold.shape, levels - 1), sold.dtype)
    return jnp.concatenate([1 - sold[..., None], middle, sold[..., None]], -1)


def posted(_: Any, values: Any, limit: Any, sizes: Any, __: Any) -> tuple[Any, Any]:
    """`PRICE` for a unit of privacy loss of a record; sells the whole reported budget, or nothing."""
    sold = (values[..., -1] <= PRICE * limit).astype(values.dtype)
    return levels_of(sold), sold * PRICE * limit * sizes


def posted_smoothly(_: Any, values: Any, limit: Any, sizes: Any, __: Any) -> tuple[Any, Any]:
    sold = jax.nn.sigmoid((PRICE * limit - values[..., -1]) / 0.05)
    return levels_of(sold), sold * PRICE * limit * sizes


def first_price(_: Any, values: Any, limit: Any, sizes: Any, __: Any) -> tuple[Any, Any]:
    """Pays what is reported, up to `PRICE` a record."""
    sold = (values[..., -1] <= PRICE).astype(values.dtype)
    return levels_of(sold), sold * values[..., -1] * sizes


def first_price_smoothly(_: Any, values: Any, limit: Any, sizes: Any, __: Any) -> tuple[Any, Any]:
    sold = jax.nn.sigmoid((PRICE - values[..., -1]) / 0.02)
    return levels_of(sold), sold * values[..., -1] * sizes


def rewards_low_reports(_: Any, values: Any, limit: Any, sizes: Any, __: Any) -> tuple[Any, Any]:
    """Always buys half of the budget, and pays the more the less is asked for; only the first owner has one price."""
    shares = jnp.broadcast_to(jnp.array([0.0, 1.0, 0.0], values.dtype), (*limit.shape, 3))
    return shares, 9 * limit * sizes / (1 + jnp.where(jnp.arange(OWNERS) == 0, 1.0, values[..., 0]))


def fixed_lottery(weights: Any, values: Any, limit: Any, sizes: Any, __: Any) -> tuple[Any, Any]:
    """Nothing depends on the values; `weights` are the chances of the levels and the price of a record."""
    shares, price = weights
    return jnp.broadcast_to(shares, (*limit.shape, shares.shape[-1])), price * sizes


POSTED = Rule(1, posted, posted_smoothly)
FIRST = Rule(1, first_price, first_price_smoothly)
LOW = Rule(2, rewards_low_reports, rewards_low_reports)


def lottery(shares: np.ndarray, price: float) -> Rule:
    return Rule(len(shares) - 1, fixed_lottery, fixed_lottery, (shares, price))


# --- a lie, computed anew ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["M-RegretNet", "DM-RegretNet"])
def test_lone_lies_agree_with_auctions_held_one_by_one(kind: str) -> None:
    rng = generator(400, len(kind))
    market, (network, weights) = market_of(rng), network_of(kind, rng)
    budget = budget_of(market, rng.uniform(0.1, 2, 40))
    levels = network.levels
    for options in ({}, {"scale": 0.25}, {"family": "exponential", "scale": 2.0}, {"budget_share": 0.6},
                    {"size_share": 0.5, "scale": 3.0}, {"budget_share": 1.5}, {"size_share": 1.2}):  # fmt: skip
        found = play(learned(network, weights), market, budget, misreport(market, levels, **options))
        for i in range(OWNERS):
            own = np.eye(OWNERS, dtype=bool)[i]
            limit = np.where(own, market.privacy_budget * options.get("budget_share", 1), market.privacy_budget)
            sizes = np.where(own, market.sizes * options.get("size_share", 1), market.sizes)
            family, rate = market.family.copy(), market.rate.copy()
            rate[:, i] *= options.get("scale", 1.0)
            if "family" in options:
                family[:, i] = FAMILIES.index(options["family"])
                rate[:, i] *= (
                    market.full_valuation[:, i] / market.sizes[:, i] / np.expm1(limit[:, i]) / market.rate[:, i]
                )
            outcome = run(network, weights, bids(family, rate, limit, sizes), budget)
            assert np.allclose(found.payments[:, i], outcome.payments[:, i], rtol=1e-10)
            if kind == "DM-RegretNet":
                expected = utility(market, outcome, sizes)[:, i]
                assert np.allclose(found.utility[:, i], expected, rtol=1e-10, atol=1e-8 * market.full_valuation.max())
            else:  # every level has a chance: whoever may have to deliver too much loses infinitely much
                assert np.isinf(found.utility[:, i]).all() == (("size_share" in options and options["size_share"] > 1)
                                                               or options.get("budget_share", 1) > 1)  # fmt: skip


def test_truth_played_together_and_alone_is_the_same() -> None:
    rng = generator(401)
    market, (network, weights) = market_of(rng), network_of("M-RegretNet", rng)
    rule, budget = learned(network, weights), budget_of(market, 0.7)
    together, alone = play(rule, market, budget), play(rule, market, budget, misreport(market, 4))
    for name in ("outcomes", "payments", "costs", "smooth_cost"):
        assert np.allclose(getattr(together, name), getattr(alone, name), rtol=1e-12)
    mean = run(network, weights, market, budget).privacy_loss
    assert np.allclose(together.outcomes @ (np.arange(5) / 4) * market.privacy_budget, mean, rtol=1e-12)
    level = np.eye(5)[:, None, None, :] + np.zeros((5, 40, OWNERS, 5))
    for m in range(5):
        assert np.allclose((level[m] * together.costs).sum(-1), market.valuation(m / 4 * market.privacy_budget))


# --- regret that is known ---------------------------------------------------------------------------------------------


def known_regret(market: Bids) -> np.ndarray:
    """Of posted prices to owners with quadratic valuations: she would sell PRICE / (2 rate), or her budget if less."""
    best = np.minimum(PRICE / (2 * market.rate), market.privacy_budget)
    full = np.maximum(PRICE * market.privacy_budget - market.rate * market.privacy_budget**2, 0)
    return np.asarray(market.sizes * (PRICE * best - market.rate * best**2 - full))


def test_posted_price_for_convex_valuations() -> None:
    market = market_of(generator(402), family="quadratic")
    known = known_regret(market)
    structured_only, _ = search(POSTED, market, np.ones(40), steps=0)
    gain, reports = search(POSTED, market, np.ones(40), steps=40)
    slack = 1e-9 * market.full_valuation
    assert (gain <= known + slack).all()
    assert (gain >= structured_only).all()
    assert gain.sum() > 0.99 * known.sum() > 1.005 * structured_only.sum()
    again = play(POSTED, market, np.ones(40), reports).utility - play(POSTED, market, np.ones(40)).utility
    assert np.allclose(np.maximum(again, 0), gain, atol=slack.max())


@pytest.mark.parametrize("family", ["linear", "square root"])
def test_posted_price_where_the_whole_budget_is_best(family: str) -> None:
    """Linear and concave costs: all or nothing is best, so the posted price is truthful."""
    market = market_of(generator(403), family=family)
    gain, _ = search(POSTED, market, np.ones(40), steps=10)
    assert (gain <= 1e-9 * market.full_valuation).all()
    sells = PRICE * market.privacy_budget >= market.full_valuation / market.sizes
    assert np.array_equal(play(POSTED, market, np.ones(40)).cost > 0, sells)


def test_first_price() -> None:
    market = market_of(generator(404), family="linear")
    unit = market.full_valuation / market.sizes
    known = market.sizes * np.where(unit <= PRICE, PRICE - unit, 0)  # by the value alone
    gain, _ = search(FIRST, market, np.ones(40), steps=40)
    assert gain[known > 0].sum() > 0.95 * known.sum()
    # nobody is paid more than PRICE a record, or can do better than to be paid it for next to nothing
    assert (gain <= market.sizes * PRICE).all()
    assert (gain[(unit <= PRICE / 1.5)] > 0).all()


def test_rule_without_values_has_no_regret_and_a_lottery_no_gain() -> None:
    rng = generator(405)
    market = market_of(rng)
    shares = rng.dirichlet(np.ones(5))
    rule = lottery(shares, 2.0)
    gain, _ = search(rule, market, np.ones(40), steps=0)
    # fewer records would be paid less than they cost only where the price is below cost; a smaller budget costs less
    cost = play(rule, market, np.ones(40)).cost
    assert (gain <= cost).all()
    scaled = play(rule, market, np.ones(40), misreport(market, 4, scale=0.25))
    assert (printed_regret(play(rule, market, np.ones(40)), scaled) == 0).all()


def test_search_within_reach() -> None:
    rng = generator(418)
    market, (network, weights) = market_of(rng), network_of("M-RegretNet", rng)
    rule, budget, truth = learned(network, weights), budget_of(market, 1.0), misreport(market, 4)
    near, lies = search(rule, market, budget, steps=5, reach=3.0)
    far, _ = search(rule, market, budget, steps=5)
    assert near.sum() < far.sum()
    for told, true in zip(lies, truth, strict=True):
        assert (told >= true / 3 * (1 - 1e-9)).all() and (told <= true * 3 * (1 + 1e-9)).all()
    for told, true in zip(lies[1:], truth[1:], strict=True):
        assert (told <= true * (1 + 1e-12)).all()
    again = play(rule, market, budget, lies).utility - play(rule, market, budget).utility
    assert np.allclose(np.maximum(again, 0), near, atol=1e-9 * market.full_valuation.max())


def test_over_reported_budgets_pay_only_below_the_true_one() -> None:
    """A rule that buys a quarter of the reported budget and pays for it is best told four times the true one."""

    def quarter(_: Any, values: Any, limit: Any, sizes: Any, __: Any) -> tuple[Any, Any]:
        shares = jnp.broadcast_to(jnp.array([0.0, 1.0, 0.0, 0.0, 0.0], values.dtype), (*limit.shape, 5))
        return shares, 5 * limit * sizes

    market = market_of(generator(406), family="linear")
    rule = Rule(4, quarter, quarter)
    gain, reports = search(rule, market, np.ones(40), steps=0)
    unit = market.sizes * market.privacy_budget
    assert np.allclose(gain, 3 * (5 * unit - market.rate * 2 * unit / 4))
    assert np.allclose(reports.privacy_budget, 4 * market.privacy_budget)
    too_much = play(rule, market, np.ones(40), misreport(market, 4, budget_share=4.1))
    assert np.isneginf(too_much.utility).all()
    assert np.isneginf(play(rule, market, np.ones(40), misreport(market, 4, size_share=1.1)).utility).all()


# --- the sampled estimator --------------------------------------------------------------------------------------------


def gini_by_steps(z: np.ndarray, v: np.ndarray) -> float:
    """Integral of F (1 - F) over the mean, level by level."""
    below = z.cumsum()[:-1]
    return float((np.diff(v) * below * (1 - below)).sum() / (np.diff(v) * (1 - below)).sum())


def test_noise_floor_is_the_gini_coefficient_between_its_bounds() -> None:
    rng = generator(407)
    for levels in (1, 1, 2, 8, 16):
        z, v = rng.dirichlet(np.full(levels + 1, 0.5)), np.append(0, np.sort(rng.exponential(1, levels)))
        floor = float(noise_floor(z, v))
        assert math.isclose(floor, gini_by_steps(z, v), abs_tol=1e-12)
        assert z[0] - 1e-12 <= floor <= 1 - z[-1] + 1e-12
        if levels == 1:
            assert math.isclose(floor, 1 - z[1], abs_tol=1e-12)
    assert noise_floor([1.0, 0.0], [0.0, 3.0]) == 0  # nothing is ever sold
    assert noise_floor([0.0, 1.0, 0.0], [0.0, 1.0, 2.0]) == 0  # no lottery


@pytest.mark.parametrize("kind", ["RegretNet", "M-RegretNet", "DM-RegretNet"])
def test_sampled_regret_of_truth_against_truth(kind: str) -> None:
    rng = generator(408, len(kind))
    market, (network, weights) = market_of(rng), network_of(kind, rng)
    truth = play(learned(network, weights), market, budget_of(market, 1.0))
    exact = noise_floor(truth.outcomes, truth.costs)
    draws = np.stack([printed_regret(truth, truth, rng) for _ in range(2000)])
    assert (printed_regret(truth, truth) == 0).all()
    if kind == "DM-RegretNet":
        assert (draws == 0).all() and (exact == 0).all()
        return
    if kind == "RegretNet":
        assert np.allclose(exact, truth.outcomes[..., 0])
    z = (draws.mean((1, 2)).mean() - exact.mean()) / (draws.mean((1, 2)).std(ddof=1) / math.sqrt(len(draws)))
    assert abs(z) < z_limit(2)
    assert draws.mean() > 0.05  # a meter that draws independently sees regret where nobody misreports


def test_independent_draws_never_lower_the_mean() -> None:
    """Jensen: at any misreport the mean of the sampled regret is at least the regret over the lottery."""
    rng = generator(409)
    market, (network, weights) = market_of(rng), network_of("M-RegretNet", rng)
    rule, budget = learned(network, weights), budget_of(market, 0.5)
    truth, lie = play(rule, market, budget), play(rule, market, budget, misreport(market, 4, scale=0.5))
    draws = np.stack([printed_regret(truth, lie, rng) for _ in range(2000)])
    z = (draws.mean(0) - printed_regret(truth, lie)) / np.maximum(draws.std(0) / math.sqrt(2000), 1e-300)
    assert z.min() > -z_limit(z.size)


# --- the printed search, and its mutants ------------------------------------------------------------------------------


def test_printed_search_follows_the_gradient_and_keeps_bounds() -> None:
    rng = generator(410)
    market, (network, weights) = market_of(rng), network_of("M-RegretNet", rng)
    rule, budget = learned(network, weights), budget_of(market, 1.0)
    start, rate, nudge = misreport(market, 4), 1e-7, 1e-5
    same = printed_search(rule, market, budget, steps=0)
    assert all(np.array_equal(a, b) for a, b in zip(same, start, strict=True))
    moved = printed_search(rule, market, budget, steps=1, rate=rate)
    for m in range(4):
        ends = []
        for sign in (1, -1):
            values = start.values.copy()
            values[..., m] += sign * nudge
            ends.append(play(rule, market, budget, start._replace(values=values)).utility)
        slope = (ends[0] - ends[1]) / (2 * nudge)
        assert np.allclose(
            (moved.values - start.values)[..., m] / rate, slope, rtol=1e-3, atol=1e-5 * np.abs(slope).max()
        )
    shrunk = start._replace(privacy_budget=start.privacy_budget * (1 - 1e-6))
    slope = (play(rule, market, budget, start).utility - play(rule, market, budget, shrunk).utility) / (
        1e-6 * market.privacy_budget
    )
    step = (moved.privacy_budget - market.privacy_budget) / rate
    assert np.allclose(step, np.minimum(slope, 0), rtol=1e-2, atol=1e-4 * np.abs(slope).max())  # capped at the truth
    for clamp, axis in (("sub-bids", -1), ("owners", -2)):
        found = printed_search(rule, market, budget, steps=20, clamp=clamp)
        assert (np.diff(found.values, axis=axis) >= 0).all()
        assert (found.values >= 0).all() and (found.privacy_budget <= market.privacy_budget).all()
        assert ((found.sizes <= market.sizes) & (found.sizes >= 1)).all()


def gain_of(rule: Rule, market: Bids, lies: Reports) -> np.ndarray:
    money = np.ones(len(market.sizes))
    return np.asarray(play(rule, market, money, lies).utility - play(rule, market, money).utility)


def test_meter_that_sorts_owners_misses_what_low_reports_gain() -> None:
    """The gain is in small values; order along the owners forces them up to those of the first owner."""
    market, budget = market_of(generator(411), family="linear"), np.ones(40)
    right, wrong = (
        np.maximum(gain_of(LOW, market, printed_search(LOW, market, budget, clamp=clamp, frozen=True)), 0)[:, 1:]
        for clamp in ("sub-bids", "owners")
    )
    one = np.maximum(gain_of(LOW, market, misreport(market, 2, scale=0.25)), 0)[:, 1:]
    best, _ = search(LOW, market, budget, steps=0)
    assert wrong.sum() < 0.5 * one.sum() < 0.5 * right.sum()
    assert (best[:, 1:] >= one - 1e-9 * market.full_valuation[:, 1:]).all()
    assert best[:, 1:].sum() >= right.sum() * (1 - 1e-6)


def test_meter_that_keeps_the_last_point_can_find_nothing() -> None:
    """With a long step the path jumps over the first price and ends where nothing is sold."""
    market = market_of(generator(412), family="linear")
    cheap = bids("linear", 0.3 * market.rate, market.privacy_budget * 0.5, market.sizes)
    last = gain_of(FIRST, cheap, printed_search(FIRST, cheap, np.ones(40), steps=100, rate=0.1))
    best, _ = search(FIRST, cheap, np.ones(40), steps=25)
    assert (best > 0).all()
    assert np.maximum(last, 0).sum() < 0.5 * best.sum()


def test_frozen_outcomes_hide_what_depends_on_them() -> None:
    """Posted prices pay for what is bought: who takes the purchase as given sees no reason to change her values."""
    market = market_of(generator(413))
    free = printed_search(POSTED, market, np.ones(40), steps=3, rate=1e-4)
    assert np.abs(free.values - misreport(market, 1).values).max() > 1e-6
    rule = Rule(
        1, lambda *a: (posted(*a)[0], PRICE * a[2] * a[3]), lambda *a: (posted_smoothly(*a)[0], PRICE * a[2] * a[3])
    )
    frozen = printed_search(rule, market, np.ones(40), steps=3, rate=1e-4, frozen=True)
    assert np.array_equal(frozen.values, misreport(market, 1).values)


# --- other meters -----------------------------------------------------------------------------------------------------


def test_ir_violation_in_closed_form_and_by_draws() -> None:
    rng = generator(414)
    market, z, price = market_of(rng), 0.3, 0.4
    truth = play(lottery(np.array([1 - z, z]), price), market, np.ones(40))
    full, paid = market.full_valuation, price * market.sizes
    assert np.allclose(ir_violation(truth), np.maximum(z * full - paid, 0) / (z * full))
    assert np.allclose(ir_violation(truth, ex_post=True), np.maximum(1 - paid / full, 0))
    sold = rng.random((4000, *full.shape)) < z
    lost = np.maximum(sold * full - paid, 0) / (z * full)
    error = lost.mean((1, 2)).std(ddof=1) / math.sqrt(4000)
    assert abs(lost.mean() - ir_violation(truth, ex_post=True).mean()) < z_limit() * error
    nothing = play(lottery(np.array([1.0, 0.0]), 0.0), market, np.ones(40))
    assert (ir_violation(nothing) == 0).all() and (nothing.invalid == 1).all()


def test_invalid_rate_is_the_frequency_of_empty_draws() -> None:
    rng = generator(415)
    market, (network, weights) = market_of(rng), network_of("RegretNet", rng)
    budget = budget_of(market, 1.0)
    exact = play(learned(network, weights), market, budget).invalid
    empty = np.stack([(run(network, weights, market, budget, rng).privacy_loss == 0).all(-1) for _ in range(200)])
    z = (empty.sum() - 200 * exact.sum()) / math.sqrt(200 * (exact * (1 - exact)).sum())
    assert abs(z) < z_limit()


def test_metrics_put_the_pieces_together() -> None:
    rng = generator(416)
    for kind in ("M-RegretNet", "DM-RegretNet"):
        market, (network, weights) = market_of(rng), network_of(kind, rng)
        budget, rule = budget_of(market, 0.3), learned(network, weights)
        found = metrics(network, weights, market, budget, rng=np.random.default_rng(1), steps=5, printed_steps=5)
        truth = play(rule, market, budget)
        far, near = (search(rule, market, budget, steps=5, reach=reach)[0] for reach in (math.inf, 20.0))
        assert found["regret"] == over_cost(far, truth.cost) and found["near"] == over_cost(near, truth.cost)
        assert found["regret_over_full"] == estimate(far / market.full_valuation)
        assert found["regret_of_sums"] == estimate(far, truth.cost)
        assert found["overspent"] == estimate(run_cost(truth).sum(-1) > budget)
        assert found["underpaid"] == estimate(run_cost(truth) > truth.payments)
        assert (found["no_misreport"].value == 0) == (kind == "DM-RegretNet")
        assert found["ex_post_violation"].value >= found["ir_violation"].value - 1e-12
        outcome = run(network, weights, market, budget)
        assert math.isclose(found["bought"].value, (outcome.privacy_loss / market.privacy_budget).mean(), rel_tol=1e-9)
        lies = printed_search(rule, market, budget, steps=5, clamp="owners", frozen=True)
        sampled = printed_regret(truth, play(rule, market, budget, lies), np.random.default_rng(1))
        assert found["published"] == estimate(sampled)


def run_cost(truth: Played) -> np.ndarray:
    return np.asarray((truth.outcomes * truth.costs).sum(-1))


def test_gain_over_cost_is_that_of_those_who_sell() -> None:
    gain, cost = np.array([[1.0, 3.0], [0.0, 2.0]]), np.array([[2.0, 0.0], [4.0, 8.0]])
    assert math.isclose(over_cost(gain, cost).value, (0.5 + 0 + 0.25) / 3)
    assert math.isnan(over_cost(gain, np.zeros((2, 2))).value)


def test_estimate_has_the_error_it_says() -> None:
    rng = generator(417)
    draws = rng.exponential(1, (4000, 50, 2)), rng.exponential(2, (4000, 50, 2)) + 1
    ratios = [estimate(a, b) for a, b in zip(*draws, strict=True)]
    spread = np.std([r.value for r in ratios], ddof=1)
    assert math.isclose(spread, np.mean([r.error for r in ratios]), rel_tol=0.15)
    plain = estimate(draws[0][0])
    assert math.isclose(plain.error, draws[0][0].mean(-1).std(ddof=1) / math.sqrt(50))


def test_errors_of_valid_profiles() -> None:
    market = bids("linear", 1.0, [[1.0, 1.0], [2.0, 1.0]], [[10.0, 30.0], [10.0, 10.0]])
    loss = np.array([[0.0, 0.5], [0.0, 0.0]])
    three = [np.vstack([x, [[1.0, 2.0]]]) for x in (loss, market.sizes)]
    for name, aggregate in (("OptAggr", least_error_weights), ("ConvAggr", size_weights)):
        error, invalid = error_of_valid(*three, name)
        assert math.isclose(invalid.value, 1 / 3)
        bounds = [float(error_bound(aggregate(e, d), e, d)) for e, d in zip(*three, strict=True)]
        assert math.isclose(error.value, (bounds[0] + bounds[2]) / 2) and math.isinf(bounds[1])


# --- bad input --------------------------------------------------------------------------------------------------------

MARKET = bids("linear", 1.0, np.ones((2, 3)), np.full((2, 3), 10.0))
TRUTH = misreport(MARKET, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: misreport(MARKET, 2, family="cubic"), "family .* 'cubic'"),
        (lambda: misreport(MARKET, 2, step=3), "step must be at most 2.* got 3"),
        (lambda: play(POSTED, MARKET, [1.0, 1.0, 1.0]), "budget .* got \\(3,\\)"),
        (lambda: play(POSTED, MARKET, 1.0, misreport(MARKET, 2)), "lies .* got"),
        (lambda: play(POSTED, MARKET, 1.0, misreport(MARKET[:1], 1)), "lies .* got"),
        (lambda: play(lottery(np.array([0.5, 0.5]), math.nan), MARKET, 1.0), "not a number in 6"),
        (lambda: search(POSTED, MARKET, 1.0, reach=math.nan), "reach .* got nan"),
        (lambda: printed_search(POSTED, MARKET, 1.0, clamp="items"), "clamp .* 'items'"),
        (lambda: printed_regret(play(POSTED, MARKET, 1.0), play(LOW, MARKET, 1.0)), "lie .* got"),
        (lambda: noise_floor([0.5, 0.5], [1.0]), "costs .* got"),
        (lambda: estimate([1.0]), "at least 2 profiles"),
        (lambda: estimate([1.0, 2.0], [1.0]), "shape of bottom"),
        (lambda: error_of_valid(np.ones((2, 3)), np.ones((2, 3)), "Opt"), "aggregation .* 'Opt'"),
    ],
)
def test_bad_input_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_structured_misreports_are_what_they_say() -> None:
    market = bids("quadratic", 1.0, [2.0], [10.0])
    tries = structured(market, 2)
    assert np.array_equal(tries[0].values, [[1.0, 4.0]])
    assert all((np.diff(lies.values, axis=-1) >= 0).all() for lies in tries)
    assert np.array_equal(misreport(market, 2, step=2).values, [[0.0, 4.0]])
    assert np.allclose(misreport(market, 2, family="linear").values, [[2.0, 4.0]])
    assert np.allclose(misreport(market, 2, budget_share=0.5, scale=2.0).values, [[0.5, 2.0]])
    assert {float(lies.sizes[0]) for lies in tries} == {10.0, 1.0, 5.0, 9.0}
    assert Estimate(1.0, 2.0).error == 2.0 and special.expit(0) == 0.5
