"""The meters of learned auctions: rules whose regret is known, draws, and auctions that are held
one by one.

A rule here is a small function of JAX: posted prices, a first price, a fixed lottery. What it does
to an owner who lies alone is also computed anew with NumPy from reported bids,
`hdpm_book.federated.regretnet.run` and `hdpm_lib.auctions.incentives.utility`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from hdpm_book.federated import meters, reports
from hdpm_book.federated.partition import budget_of, draw_bids
from hdpm_book.federated.regretnet import KINDS, Network, draw, run
from hdpm_book.federated.reports import (
    Played,
    Reports,
    Rule,
    learned,
    misreport,
    play,
    search,
    structured,
)
from hdpm_book.federated.study import CELLS
from hdpm_book.records import page_functions
from hdpm_lib.aggregation import error_bound, least_error_weights, size_weights
from hdpm_lib.auctions.bids import FAMILIES, Bids, bids
from hdpm_lib.auctions.incentives import utility
from hdpm_lib.validation import FALSE_ALARM
from tests.support import generator, refusals, some_network, z_limit

LOOKS_AT = ["book/federated/regret.md"]
shown = SimpleNamespace(**page_functions("federated/regret", *CELLS, "error_of_valid"))
OWNERS = 3
PRICE = 1.3
MONEY = np.ones(40)


def market_of(rng: np.random.Generator, family: str | None = None) -> Bids:
    drawn = draw_bids(rng.integers(20, 400, (40, OWNERS)), rng)
    return drawn if family is None else bids(family, drawn.rate, drawn.privacy_budget, drawn.sizes)


def network_of(kind: str, rng: np.random.Generator) -> Network:
    return some_network(kind, rng, 1.0, owners=OWNERS, hidden=(9, 8, 7))


def all_or_nothing(
    bound: Callable[[Any], Any], pay: Callable[[Any, Any], Any], width: float
) -> Rule:
    """Buys the whole reported budget of who asks for less than a bound; also smoothed, over a
    width.
    """

    def function(smooth: bool) -> Callable[..., Any]:
        def sell(_: Any, __: Any, told: Reports, ___: Any) -> tuple[Any, Any]:
            asked = told.values[..., -1]
            most = bound(told.privacy_budget)
            sold = (
                jax.nn.sigmoid((most - asked) / width)
                if smooth
                else (asked <= most).astype(asked.dtype)
            )
            return jnp.stack([1 - sold, sold], -1), sold * pay(asked, most) * told.sizes

        return sell

    return Rule(1, function(False), function(True))


# for a unit of loss of a record
POSTED = all_or_nothing(lambda limit: PRICE * limit, lambda asked, most: most, 0.05)
# for a record
FIRST = all_or_nothing(lambda limit: PRICE + 0 * limit, lambda asked, most: asked, 0.02)


def lottery(shares: np.ndarray, price: Callable[[Any], Any]) -> Rule:
    """Whatever the values, levels have these chances; a record has a price, which may depend on the
    budget.
    """

    def draw(_: Any, __: Any, told: Reports, ___: Any) -> tuple[Any, Any]:
        limit = told.privacy_budget
        return jnp.broadcast_to(shares, (*limit.shape, len(shares))), price(limit) * told.sizes

    return Rule(len(shares) - 1, draw, draw)


def gain_of(rule: Rule, market: Bids, lies: Any, budget: Any = MONEY) -> np.ndarray:
    return np.maximum(
        play(rule, market, budget, lies).utility - play(rule, market, budget).utility, 0
    )


LIES: list[dict[str, Any]] = [
    {},
    {"scale": 0.25},
    {"family": "exponential", "scale": 2.0},
    {"budget_share": 0.6},
]
LIES += [{"size_share": 0.5, "scale": 3.0}, {"budget_share": 1.5}, {"size_share": 1.2}]


@pytest.mark.parametrize("kind", ["M-RegretNet", "DM-RegretNet"])
def test_lone_lies_agree_with_auctions_held_one_by_one(kind: str) -> None:
    rng = generator(400, len(kind))
    market = market_of(rng)
    network = network_of(kind, rng)
    budget = budget_of(market, rng.uniform(0.1, 2, 40))
    rule = learned(network)
    truth = play(rule, market, budget)
    level = np.arange(5) / 4
    assert np.allclose(
        truth.costs, np.stack([market.valuation(m * market.privacy_budget) for m in level], -1)
    )
    mean = run(network, market, budget).privacy_loss
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
            outcome = run(network, bids(family, rate, limit, sizes), budget)
            assert np.allclose(found.payments[:, i], outcome.payments[:, i], rtol=1e-10)
            if kind == "DM-RegretNet":
                expected = utility(market, outcome, sizes)[:, i]
                assert np.allclose(
                    found.utility[:, i],
                    expected,
                    rtol=1e-10,
                    atol=1e-8 * market.full_valuation.max(),
                )
            else:
                # every level has a chance: whoever may have to deliver too much loses infinitely
                # much
                assert (np.isinf(found.utility[:, i]) == too_much).all()


@pytest.mark.parametrize("family", ["quadratic", "linear", "square root"])
def test_posted_price(family: str) -> None:
    """With a quadratic valuation an owner would sell PRICE / (2 rate), or her budget; else all or
    nothing is best.
    """
    market = market_of(generator(402), family=family)
    best = np.minimum(PRICE / (2 * market.rate), market.privacy_budget)
    full = np.maximum(PRICE * market.privacy_budget - market.rate * market.privacy_budget**2, 0)
    known = market.sizes * (PRICE * best - market.rate * best**2 - full) * (family == "quadratic")
    structured_only, _ = search(POSTED, market, MONEY, steps=0)
    (start, _, gain), reports = search(POSTED, market, MONEY, steps=(0, 10, 40))
    slack = 1e-9 * market.full_valuation
    assert (
        (gain <= known + slack).all()
        and (gain >= structured_only).all()
        and (start == structured_only).all()
    )
    assert gain.sum() >= 0.99 * known.sum() >= 1.005 * structured_only.sum() - slack.sum()
    assert np.allclose(gain_of(POSTED, market, reports), gain, atol=slack.max())


def test_first_price() -> None:
    market = market_of(generator(404), family="linear")
    unit = market.full_valuation / market.sizes
    known = market.sizes * np.where(unit <= PRICE, PRICE - unit, 0)  # by the value alone
    gain, _ = search(FIRST, market, MONEY, steps=40)
    assert gain[known > 0].sum() > 0.95 * known.sum() and (gain[unit <= PRICE / 1.5] > 0).all()
    # nobody can do better than sell next to nothing at PRICE a record
    assert (gain <= market.sizes * PRICE).all()


def test_over_reported_budgets_pay_only_below_the_true_one() -> None:
    """A rule that buys a quarter of the reported budget and pays for it is best told four times the
    true one.
    """
    market = market_of(generator(406), family="linear")
    rule = lottery(np.eye(5)[1], lambda limit: 5 * limit)
    gain, reports = search(rule, market, MONEY, steps=0)
    unit = market.sizes * market.privacy_budget
    assert np.allclose(gain, 3 * (5 * unit - market.rate * 2 * unit / 4))
    assert np.allclose(reports.privacy_budget, 4 * market.privacy_budget)
    for lie in ({"budget_share": 4.1}, {"size_share": 1.1}):
        assert np.isneginf(play(rule, market, MONEY, misreport(market, 4, **lie)).utility).all()


def some_play(kind: str, seed: int) -> tuple[Rule, Bids, np.ndarray, Played, Played]:
    """A network's rule, markets and money; what it does with the truth, and with smaller values and
    privacy budgets.
    """
    rng = generator(seed, len(kind))
    market = market_of(rng)
    rule = learned(network_of(kind, rng))
    budget = budget_of(market, rng.uniform(0.1, 2, 40))
    lies = misreport(market, rule.levels, scale=0.5, budget_share=0.8)
    return rule, market, budget, play(rule, market, budget), play(rule, market, budget, lies)


@pytest.mark.parametrize("kind", KINDS)
def test_published_regret_is_the_mean_over_independent_draws(kind: str) -> None:
    (_, _, _, truth, lie), rng, count = some_play(kind, 408), generator(409), 4000
    cost = (truth.outcomes * truth.costs).sum(-1)

    def drawn(one: Played) -> np.ndarray:
        levels = draw(np.broadcast_to(one.outcomes, (count, *one.outcomes.shape)), rng)[..., None]
        return one.payments - np.take_along_axis(one.costs[None], levels, -1)[..., 0]

    for other in (truth, lie):
        found = shown.published_regret(truth, other)
        exact = np.zeros(cost.shape)
        simulated = (np.maximum(drawn(other) - drawn(truth), 0) / cost).mean((1, 2))
        error = simulated.std(ddof=1) / math.sqrt(count)
        assert abs(simulated.mean() - found.mean()) <= z_limit(6) * error + 1e-12
        for a, b in product(range(truth.outcomes.shape[-1]), repeat=2):
            gain = other.payments - other.costs[..., b] - truth.payments + truth.costs[..., a]
            exact += truth.outcomes[..., a] * other.outcomes[..., b] * np.maximum(gain, 0) / cost
        assert np.allclose(found, exact, atol=1e-12)
        gain = np.maximum(other.utility - truth.utility, 0) / cost
        assert (found >= gain - 1e-12).all()  # Jensen
        assert kind != "DM-RegretNet" or np.allclose(found, gain)  # which draws nothing


@pytest.mark.parametrize("kind", KINDS)
def test_gini_is_the_published_regret_of_the_truth(kind: str) -> None:
    *_, truth, _ = some_play(kind, 411)
    found = shown.gini(truth.outcomes, truth.costs)
    assert np.allclose(found, shown.published_regret(truth, truth), atol=1e-12)
    assert found.mean() > 0.05 if kind != "DM-RegretNet" else not found.any()
    for z, costs, one in zip(truth.outcomes[0], truth.costs[0], found[0], strict=True):
        apart = z @ np.abs(costs[:, None] - costs) @ z
        assert math.isclose(one, apart / 2 / (z @ costs), rel_tol=1e-9, abs_tol=1e-12)
    assert shown.gini([1.0, 0.0], [0.0, 5.0]) == 0


def test_violations_in_closed_form() -> None:
    market = market_of(generator(414))
    z = np.array([0.5, 0.2, 0.3])
    price = 0.4
    truth = play(lottery(z, lambda limit: price), market, MONEY)
    half = market.valuation(market.privacy_budget / 2)
    full = market.full_valuation
    paid = price * market.sizes
    loss = 0.2 * np.maximum(half - paid, 0) + 0.3 * np.maximum(full - paid, 0)
    assert (
        np.allclose(shown.ir_violation(truth), loss / (0.2 * half + 0.3 * full))
        and 0.1 < (loss > 0).mean() < 1
    )
    assert np.allclose(truth.invalid, 0.5**OWNERS)
    nothing = play(lottery(np.array([1.0, 0.0]), lambda limit: 0.0), market, MONEY)
    for found in (shown.ir_violation(nothing), shown.published_regret(nothing, nothing)):
        assert (found == 0).all()


# --- the published search -----------------------------------------------------------------------


def slopes(worth: Callable[[Reports], np.ndarray], at: Reports) -> tuple[np.ndarray, np.ndarray]:
    """Slopes of a quantity by differences: in the values of the levels, and in the privacy budget
    from below.
    """
    by_value = []
    for unit in np.eye(at.values.shape[-1]):
        down, up = (worth(at._replace(values=at.values + sign * 1e-5 * unit)) for sign in (-1, 1))
        by_value.append((up - down) / 2e-5)
    less = at._replace(privacy_budget=at.privacy_budget * (1 - 1e-6))
    return np.stack(by_value, -1), (worth(at) - worth(less)) / (1e-6 * at.privacy_budget)


def check_step(
    rule: Rule, market: Bids, worth: Callable[[Reports], np.ndarray], found: Reports, rate: float
) -> None:
    """One step goes along the slopes; the privacy budget only down."""
    start = misreport(market, rule.levels)
    by_value, by_limit = slopes(worth, start)
    step = (found.values - start.values) / rate
    assert np.allclose(step, by_value, rtol=1e-3, atol=1e-5 * np.abs(by_value).max()) and step.any()
    step = (found.privacy_budget - market.privacy_budget) / rate
    by_limit = np.minimum(by_limit, 0)
    assert np.allclose(step, by_limit, rtol=1e-2, atol=1e-4 * np.abs(by_limit).max())


def check_search() -> None:
    rule, market, budget, *_ = some_play("M-RegretNet", 410)
    found = shown.printed_search(rule, market, budget, J=1, gamma=1e-7)
    check_step(rule, market, lambda lies: play(rule, market, budget, lies).utility, found, 1e-7)


def check_drawn_search() -> None:
    """Where nothing is left to chance: along the payment, and the cost of the level that is sold at
    the start.
    """
    rule, market, budget, truth, _ = some_play("DM-RegretNet", 412)

    def worth(lies: Reports) -> np.ndarray:
        now = play(rule, market, budget, lies)
        return now.payments - (truth.outcomes * now.costs).sum(-1)

    found = shown.printed_search(rule, market, budget, J=1, gamma=1e-7, rng=generator(0))
    check_step(rule, market, worth, found, 1e-7)


def check_draws_of_the_search() -> None:
    """Without pay the size falls by the cost of a record that is sold: twice, each time with a
    chance of 0.3.
    """
    market = market_of(generator(415))
    rate = 1e-8
    market = Bids(*(np.tile(part, (40, 1)) for part in vars(market).values()))
    rule = lottery(np.array([0.7, 0.3]), lambda limit: 0 * limit)
    found = shown.printed_search(rule, market, np.ones(1600), J=2, gamma=rate, rng=generator(416))
    times = (market.sizes - found.sizes) / rate / (market.full_valuation / market.sizes)
    assert np.allclose(times, np.rint(times), atol=1e-3)
    seen = np.bincount(np.rint(times).astype(int).ravel(), minlength=3)
    assert stats.chisquare(seen, np.array([0.49, 0.42, 0.09]) * times.size).pvalue > FALSE_ALARM
    again, other = (
        shown.printed_search(rule, market, np.ones(1600), J=2, gamma=rate, rng=generator(key)).sizes
        for key in (416, 417)
    )
    assert (again == found.sizes).all() and (again != other).any()


def test_printed_search_follows_its_slopes() -> None:
    check_search()
    check_drawn_search()
    check_draws_of_the_search()


def test_where_nothing_is_drawn_a_generator_changes_nothing() -> None:
    market = market_of(generator(418))
    rule = lottery(np.eye(5)[2], lambda limit: 0.5 * limit)
    one, other = (
        shown.printed_search(rule, market, MONEY, J=5, gamma=1e-3, rng=rng)
        for rng in (None, generator(0))
    )
    assert all(np.allclose(a, b, rtol=1e-12) for a, b in zip(one, other, strict=True))
    assert (one.privacy_budget < market.privacy_budget).any()


def test_draws_hide_what_depends_on_them() -> None:
    """If only what is bought depends on the values, who takes it as drawn sees no reason to change
    them.
    """

    def paid_anyway(*given: Any) -> tuple[Any, Any]:
        return POSTED.guide(*given)[0], PRICE * given[2].privacy_budget * given[2].sizes

    market = market_of(generator(413))
    rule = Rule(1, paid_anyway, paid_anyway)
    free, drawn = (
        shown.printed_search(rule, market, MONEY, J=3, gamma=1e-4, rng=rng).values
        - misreport(market, 1).values
        for rng in (None, generator(1))
    )
    assert np.abs(free).max() > 1e-6 and not drawn.any()


@pytest.mark.parametrize("drawn", [False, True])
def test_printed_search_keeps_its_bounds(drawn: bool) -> None:
    rule, market, budget, *_ = some_play("M-RegretNet", 419)
    start = misreport(market, 4)
    rng = generator(2) if drawn else None
    same = shown.printed_search(rule, market, budget, J=0, rng=rng)
    assert all(np.array_equal(a, b) for a, b in zip(same, start, strict=True))
    for clamp, axis in ((None, None), ("sub-bids", -1), ("owners", -2)):
        found = shown.printed_search(rule, market, budget, J=20, clamp=clamp, rng=rng)
        assert axis is None or (np.diff(found.values, axis=axis) >= 0).all()
        assert (found.values >= 0).all() and (found.privacy_budget <= market.privacy_budget).all()
        assert ((found.sizes <= market.sizes) & (found.sizes >= 1)).all()


def test_search_stays_within_its_reach() -> None:
    rule, market, budget, *_ = some_play("M-RegretNet", 420)
    (far, _), (gain, told) = (
        search(rule, market, budget, steps=5, reach=reach) for reach in (math.inf, 3.0)
    )
    for lie, true, most in zip(told, misreport(market, 4), (3, 1, 1), strict=True):
        assert (lie >= true / 3 * (1 - 1e-9)).all() and (lie <= true * most * (1 + 1e-9)).all()
    assert 0 < gain.sum() < far.sum()
    assert np.allclose(
        gain_of(rule, market, told, budget), gain, atol=1e-9 * market.full_valuation.max()
    )


@pytest.mark.parametrize("kind", ["M-RegretNet", "DM-RegretNet"])
def test_a_row_as_published(kind: str) -> None:
    rule, market, budget, truth, _ = some_play(kind, 421)
    lies = shown.printed_search(rule, market, budget, J=4, clamp="owners", rng=generator(3))
    found = shown.as_published(rule, market, budget, lies)
    lie = play(rule, market, budget, lies)
    cost = (truth.outcomes * truth.costs).sum(-1)
    expected = {
        "regret": shown.published_regret(truth, lie),
        "violation": shown.ir_violation(truth),
        "truthful": shown.published_regret(truth, truth),
        "expected": np.maximum(lie.utility - truth.utility, 0) / cost,
        "loss": np.maximum(cost - truth.payments, 0) / cost,
        "bought": truth.outcomes @ np.arange(5) / 4,
    }
    assert found.keys() == expected.keys() | {"invalid"}
    for name, values in expected.items():
        assert found[name].value == pytest.approx(values.mean(), abs=1e-12), name
        assert found[name].error == pytest.approx(
            values.mean(-1).std(ddof=1) / math.sqrt(40), abs=1e-12
        )
    assert found["invalid"].value == pytest.approx(truth.outcomes[..., 0].prod(-1).mean())
    assert (found["invalid"].value == 0) == (kind == "DM-RegretNet")


def same_draw(truth: Played, lie: Played) -> np.ndarray:
    gain = (lie.payments - truth.payments)[..., None] - lie.costs + truth.costs
    return truth.relative((truth.outcomes * np.maximum(gain, 0)).sum(-1))


Check = Callable[[], None]
Fault = Callable[[Any], Any]
REGRET: Check = lambda: test_published_regret_is_the_mean_over_independent_draws("M-RegretNet")  # noqa: E731
GINI: Check = lambda: test_gini_is_the_published_regret_of_the_truth("M-RegretNet")  # noqa: E731
POST: Check = lambda: test_posted_price("quadratic")  # noqa: E731
BIDS: Check = lambda: test_lone_lies_agree_with_auctions_held_one_by_one("DM-RegretNet")  # noqa: E731
ENDS: Check = lambda: test_printed_search_keeps_its_bounds(False)  # noqa: E731
OVER: Check = test_over_reported_budgets_pay_only_below_the_true_one
WRONG: dict[str, tuple[Check, str, Fault]] = {
    "one draw for both": (REGRET, "shown.published_regret", lambda _: same_draw),
    "expected utilities": (
        REGRET,
        "shown.published_regret",
        lambda _: lambda a, b: a.relative(np.maximum(b.utility - a.utility, 0)),
    ),
    "twice the Gini coefficient": (GINI, "shown.gini", lambda f: lambda *given: 2 * f(*given)),
    "expected loss": (
        test_violations_in_closed_form,
        "shown.ir_violation",
        lambda _: lambda a: a.relative(np.maximum(-a.utility, 0)),
    ),
    "steps of means": (
        check_drawn_search,
        "reports._drawn_utility",
        lambda _: lambda function, *given: reports._smooth_utility(reports._guide, *given[:-1]),
    ),
    "the same draw in each step": (
        check_draws_of_the_search,
        "reports._drawn_utility",
        lambda f: lambda *given: f(*given[:-1], generator(0).random(given[2][0].shape)),
    ),
    "a step too far": (
        check_search,
        "reports._smooth_utility",
        lambda f: lambda *given: 1.1 * f(*given),
    ),
    "costs that are too low": (POST, "reports.mean_cost", lambda f: lambda *given: 0.9 * f(*given)),
    "nobody has too little": (
        OVER,
        "reports.true_costs",
        lambda f: lambda market, lies, *_: f(market, lies, False),
    ),
    "others lie as well": (
        BIDS,
        "reports._lying",
        lambda _: lambda function, weights, __, lies, budget: function(weights, lies, lies, budget),
    ),
    "values that fall": (
        ENDS,
        "shown.printed_search",
        lambda f: lambda *a, **k: (found := f(*a, **k))._replace(values=found.values[..., ::-1]),
    ),
}


@pytest.fixture
def compiled_anew() -> Iterator[Callable[[], None]]:
    def forget() -> None:
        for function in (reports._play, reports._utility, reports._slopes):
            function.clear_cache()

    yield forget
    forget()


@pytest.mark.parametrize("name", WRONG)
def test_broken_meters_are_caught(
    name: str, monkeypatch: pytest.MonkeyPatch, compiled_anew: Callable[[], None]
) -> None:
    check, place, fault = WRONG[name]
    module, _, thing = place.partition(".")
    whole = {"shown": shown, "reports": reports}[module]
    monkeypatch.setattr(whole, thing, fault(getattr(whole, thing)))
    if whole is reports:
        compiled_anew()
    with pytest.raises(AssertionError):
        check()


# --- means --------------------------------------------------------------------------------------


def test_estimate_has_the_error_it_says() -> None:
    rng = generator(417)
    tops = rng.exponential(1, (4000, 50, 2))
    bottoms = rng.exponential(2, (4000, 50, 2)) + 1
    ratios = [meters.estimate(a, b) for a, b in zip(tops, bottoms, strict=True)]
    spread = np.std([r.value for r in ratios], ddof=1)
    assert math.isclose(spread, np.mean([r.error for r in ratios]), rel_tol=0.15)
    assert math.isclose(
        meters.estimate(tops[0]).error, tops[0].mean(-1).std(ddof=1) / math.sqrt(50)
    )
    gain = np.array([[1.0, 3.0], [0.0, 2.0]])
    cost = np.array([[2.0, 0.0], [4.0, 8.0]])
    # of those who sell
    assert math.isclose(meters.over_cost(gain, cost).value, (0.5 + 0 + 0.25) / 3)
    assert math.isnan(meters.over_cost(gain, np.zeros((2, 2))).value)


def test_errors_of_valid_profiles() -> None:
    loss = np.array([[0.0, 0.5], [0.0, 0.0], [1.0, 2.0]])
    sizes = np.array([[10.0, 30.0], [10.0, 10.0], [1.0, 2.0]])
    for name, aggregate in (("OptAggr", least_error_weights), ("ConvAggr", size_weights)):
        error, invalid = shown.error_of_valid(loss, sizes, name)
        assert math.isclose(invalid.value, 1 / 3)
        bounds = [
            float(error_bound(aggregate(e, d), e, d)) for e, d in zip(loss, sizes, strict=True)
        ]
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
    (lambda: play(COIN, MARKET, 1.0), "not a number in 6"),
    (lambda: meters.over_cost(np.ones((2, 3)), -np.ones((2, 3))), "cost .* got -1"),
    (lambda: meters.estimate([1.0]), "at least 2 profiles"),
    (lambda: meters.estimate([1.0, 2.0], [1.0]), "shape of bottom"),
    (lambda: meters.estimate([1.0, 2.0], [1.0, -1.0]), "bottom must not be negative"),
)
