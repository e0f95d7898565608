"""Designs at the same money against what is known of them, and the comparison as strangers call
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hdpm_lib.designs import rules
from hdpm_lib.designs.comparison import compare_markets, errors, law_of
from hdpm_lib.designs.rules import DESIGNS, LOCAL, Deal, Market, Task, with_delta
from hdpm_lib.gaussian import gaussian_epsilon, largest_mu
from hdpm_lib.learners.queries import linear_query
from hdpm_lib.learners.weighted_mean import population_error, sampling_error
from hdpm_lib.markets.mechanisms import vcg_contract
from tests.support import generator, mean_z, z_limit

LAW = stats.uniform(1, 4)
HARD = {"hard budget, All-in repaired", "FairQuery as released", "local, All-in repaired"}
M2 = "contracts, M2 as released"


def drawn(draws: int, n: int, seed: int, law: object = LAW) -> np.ndarray:
    return np.asarray(law.ppf(generator(1750, seed).random((draws, n))))  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def deals() -> tuple[Market, np.ndarray, dict[str, Deal]]:
    market = Market(Task(), LAW, 20.0)
    costs = drawn(30, 200, 0)
    return market, costs, {name: rule(market, costs) for name, rule in DESIGNS.items()}


@pytest.mark.parametrize("name", DESIGNS)
def test_each_design_spends_the_budget(
    name: str, deals: tuple[Market, np.ndarray, dict[str, Deal]]
) -> None:
    """By its own account of the money; that the account is right is tested below."""
    market, costs, found = deals
    deal = found[name]
    assert deal.privacy_loss.shape == deal.weights.shape == costs.shape
    np.testing.assert_allclose(deal.weights.sum(-1), (deal.privacy_loss.sum(-1) > 0), atol=1e-12)
    if name in HARD:
        assert (deal.money <= market.budget * (1 + 1e-12)).all()
        assert deal.money.mean() > 0.9 * market.budget
    elif name == "local menu":
        # sellers sell at once or not at all, so that the mean over the draws has steps
        assert deal.money.mean() == pytest.approx(market.budget, rel=0.05)
    else:
        assert deal.money.mean() == pytest.approx(market.budget, rel=1e-6)


def test_money_that_leaps_stays_within_the_budget() -> None:
    """Where one local report costs more than all the money, nothing is sold."""
    dear = Market(Task(1e-6, 1e-6, 2.0, 30), LAW, 5.0)
    deal = DESIGNS["local menu"](dear, drawn(5, 50, 3))
    assert deal.money.mean() <= 5.0
    assert (with_delta(deal, dear.task, 1e-6, "local menu").noise == np.inf).all()


# --- the money, apart from the rules that state it ----------------------------------------------


def histogram(counts: list[float], edges: list[float]) -> object:
    return stats.rv_histogram((np.array(counts) / np.diff(edges), np.array(edges)), density=True)


# regular ones; one whose virtual cost grows without bound, as the density vanishes; three whose
# virtual cost falls
LAWS: dict[str, object] = {
    "uniform": LAW,
    "beta, rising": stats.beta(2, 1, loc=1, scale=4),
    "vanishing at the ceiling": stats.beta(2, 3, loc=1, scale=4),
    "two groups": histogram([0.6, 0.1, 0.3], [0.0, 0.2, 0.7, 1.0]),
    "bimodal": histogram([0.5, 0.02, 0.48], [1.0, 1.5, 6.0, 7.0]),
    "a survey": law_of(np.random.default_rng(1754).lognormal(1, 0.8, 200).round(1)),
}


def tuned(name: str, market: Market, costs: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> float:
    """The free number at which a design spends the budget on these draws."""
    numbers = []
    search = rules.at_budget

    def noted(buy: Callable[[float], Deal], budget: float) -> Deal:
        return search(lambda x: (numbers.append(x), buy(x))[1], budget)

    with monkeypatch.context() as patch:
        patch.setattr(rules, "at_budget", noted)
        DESIGNS[name](market, costs)
    return numbers[-1]


def at(
    number: float, name: str, market: Market, costs: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> Deal:
    """What a design buys at a number that no report can change."""
    with monkeypatch.context() as patch:
        patch.setattr(rules, "at_budget", lambda buy, budget: buy(number))
        return DESIGNS[name](market, costs)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", ["error-minimising auction", "Algorithm 2", "local menu", M2])
def test_money_is_what_makes_truth_a_best_report(
    name: str, law: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A z test of 400 fresh draws of five sellers: their costs, and what each would sell at one
    random higher report.

    That over the density of the report is, on average, the integral in her envelope payment.
    """
    # type: ignore[attr-defined]
    market = Market(Task(), LAWS[law], 10 * LAWS[law].mean() / 3)
    draws = 400
    n = 5
    number = tuned(name, market, drawn(30, n, 6, LAWS[law]), monkeypatch)
    costs = drawn(draws, n, 7, LAWS[law])
    deal = at(number, name, market, costs, monkeypatch)
    paid = (costs * deal.privacy_loss).sum(-1)
    u = generator(1755).random((draws, n))
    above = market.ceiling - costs
    for i in range(n):
        lie = costs.copy()
        lie[:, i] += above[:, i] * u[:, i] ** 3  # most of them near the truth, where most is sold
        paid += (
            3
            * u[:, i] ** 2
            * above[:, i]
            * at(number, name, market, lie, monkeypatch).privacy_loss[:, i]
        )
    off = paid - deal.money
    assert abs(mean_z(off, 0.0)) < z_limit()
    assert off.std(ddof=1) / np.sqrt(draws) < 0.05 * deal.money.mean()


def test_the_contract_released_is_the_contract(
    deals: tuple[Market, np.ndarray, dict[str, Deal]],
) -> None:
    """Worst errors of M1 and M2 are those of the biased answer itself, in every draw, and M2 pays
    what VCG pays.
    """
    market, costs, found = deals
    n = costs.shape[-1]
    task = market.task
    for name in ("contracts, M1 as released", M2):
        deal = found[name]
        assert deal.shrink is not None
        _, worst = errors(deal, task, task)
        for i in (0, 7):
            shares = deal.weights[i] * deal.shrink[i] * n
            mechanism = linear_query(
                np.minimum(shares, 1), float(shares.sum() / deal.privacy_loss[i].sum())
            )
            np.testing.assert_allclose(mechanism.privacy_loss, deal.privacy_loss[i], rtol=1e-9)
            assert worst[i] == pytest.approx(mechanism.worst_case_mse / n**2, rel=1e-9)
    deal = found[M2]
    level = errors(deal, task, task)[1] * n**2
    np.testing.assert_allclose(level, level[0], rtol=1e-9)  # one accuracy for all draws
    again = vcg_contract(costs, float(level[0]), market.ceiling, power=1)
    np.testing.assert_allclose(deal.privacy_loss, again.privacy_loss, rtol=1e-6)
    np.testing.assert_allclose(deal.money, again.payments.sum(-1), rtol=1e-6)


@pytest.mark.parametrize("name", DESIGNS)
def test_units_and_dimensions_only_scale(name: str) -> None:
    """In a ball of diameter 2 errors are four times those in a ball of diameter 1, and money and
    losses the same.
    """
    costs = drawn(5, 50, 1)
    small = Task(0.1, 0.05, 1.0, 2)
    large = Task(0.4, 0.2, 2.0, 2)
    one, two = (DESIGNS[name](Market(task, LAW, 10.0), costs) for task in (small, large))
    np.testing.assert_allclose(two.money, one.money, rtol=1e-6)
    np.testing.assert_allclose(two.privacy_loss, one.privacy_loss, rtol=1e-6)
    np.testing.assert_allclose(
        errors(two, large, large), 4 * np.array(errors(one, small, small)), rtol=1e-6
    )


def test_noise_of_local_records_is_that_of_their_weighted_mean(
    deals: tuple[Market, np.ndarray, dict[str, Deal]],
) -> None:
    """By 20,000 draws of the noise of each record, within the false-alarm rate."""
    deal = deals[2]["local, All-in repaired"]
    rng = generator(1756)
    weights = deal.weights[0]
    loss = deal.privacy_loss[0]
    noise = rng.laplace(size=(20_000, (loss > 0).sum())) @ (weights[loss > 0] / loss[loss > 0])
    assert abs(mean_z(noise**2, deal.noise[0])) < z_limit()


def test_errors_are_those_of_drawn_data() -> None:
    """A z test of 20,000 markets at the false-alarm rate, with records drawn from a beta law."""
    market = Market(Task(), LAW, 5.0)
    costs = drawn(1, 40, 2)
    rng = generator(1751)
    law = stats.beta(2, 6)
    truth = Task(law.var(), (law.mean() - 0.5) ** 2)
    deal = DESIGNS["Algorithm 2"](market, costs)
    population, _ = errors(deal, market.task, truth)
    sampling = sampling_error(deal.weights, deal.noise, market.task.variance)
    shrink = float(market.task.distance / (market.task.distance + sampling[0]))
    records = law.rvs((20_000, 40), random_state=rng) - 0.5
    noise = rng.laplace(scale=np.sqrt(deal.noise[0] / 2), size=20_000)
    squares = (shrink * (records @ deal.weights[0] + noise) - (law.mean() - 0.5)) ** 2
    assert abs(mean_z(squares, population[0])) < z_limit()
    # by the guesses: wrong, and found
    plain = population_error(sampling, market.task.distance, shrink)
    assert abs(mean_z(squares, plain[0])) > 10


# --- the comparison -----------------------------------------------------------------------------


def test_a_stranger_gets_a_table() -> None:
    costs = generator(1752).lognormal(0, 1, 60)
    found = compare_markets(costs, Task(), 10.0, draws=6)
    assert list(found.index) == [*DESIGNS, "nothing is bought"]
    assert np.isfinite(found).all(axis=None)
    assert (found["rents"] >= -1e-9).all()
    assert found.loc["nothing is bought", ["error", "worst"]].to_numpy() == pytest.approx(
        [np.sqrt(1 / 12), 0.5]
    )
    again = compare_markets(costs, Task(), 10.0, draws=6, designs=["Algorithm 2"])
    assert (again.loc["Algorithm 2"] == found.loc["Algorithm 2"]).all()


def lost_at(deal: Deal, noise_sd: np.ndarray, task: Task, delta: float) -> np.ndarray:
    """What each seller loses by the noise as it is, shape (draws, n)."""
    mu = task.sensitivity * deal.weights / noise_sd
    return np.where(mu > 0, gaussian_epsilon(delta, mu), 0.0)


@pytest.mark.parametrize("name", DESIGNS)
def test_with_a_delta_everybody_loses_what_she_sold(name: str) -> None:
    """By the noise that a deal is said to have, a record being moved across the ball; and no more
    noise than that.
    """
    task = Task(sensitivity=2.0, dimension=3)
    market = Market(task, LAW, 400.0)
    bought = DESIGNS[name](market, drawn(3, 20, 8))
    deal = with_delta(bought, task, 1e-6, name)
    sold = deal.privacy_loss > 0
    assert sold.any() and (deal.privacy_loss == bought.privacy_loss).all()
    np.testing.assert_allclose(deal.weights.sum(-1), 1.0)
    if name in LOCAL:
        mu = largest_mu(deal.privacy_loss[sold], 1e-6)
        own = np.zeros_like(deal.weights)
        own[sold] = 3 * (2.0 * deal.weights[sold] / mu) ** 2
        np.testing.assert_allclose(deal.noise, own.sum(-1), rtol=1e-9)
        return
    noise_sd = np.sqrt(deal.noise / task.dimension)[:, None]
    lost = lost_at(deal, noise_sd, task, 1e-6)
    np.testing.assert_allclose(lost, deal.privacy_loss, rtol=1e-6, atol=1e-9)
    # broken on purpose: weights as they are without a delta
    broken = lost_at(bought, noise_sd, task, 1e-6)
    unequal = len(np.unique(deal.privacy_loss[0][sold[0]])) > 1
    assert (broken > deal.privacy_loss * (1 + 1e-3)).any() == unequal


def test_local_records_with_a_delta_count_by_what_they_tell() -> None:
    """No other weights have less error."""
    task = Task()
    market = Market(task, LAW, 2000.0)
    bought = DESIGNS["local menu"](market, drawn(1, 20, 9))
    deal = with_delta(bought, task, 1e-6, "local menu")
    mu = np.zeros(20)
    sold = deal.privacy_loss[0] > 0
    mu[sold] = largest_mu(deal.privacy_loss[0][sold], 1e-6)
    variance = np.full(20, np.inf)
    variance[sold] = task.variance + (task.sensitivity / mu[sold]) ** 2
    best = 1 / variance / (1 / variance).sum()
    np.testing.assert_allclose(deal.weights[0], best, rtol=1e-9)
    assert np.abs(bought.weights[0] - best).max() > 1e-3


def test_a_delta_changes_what_is_learned_and_not_what_is_bought() -> None:
    names = ["Algorithm 2", "one posted price", "local menu"]
    options: dict[str, Any] = {"sellers": 40, "draws": 5, "designs": names}
    same = ["money", "rents", "sellers", "mean_epsilon", "largest_epsilon"]
    for dimension, better in ((1, False), (100, True)):
        task = Task(dimension=dimension)
        pure = compare_markets(LAW, task, 400.0, **options)
        found = compare_markets(LAW, task, 400.0, delta=1e-6, **options)
        assert (found[same] == pure[same]).all(axis=None)
        assert (compare_markets(LAW, task, 400.0, delta=0.0, **options) == pure).all(axis=None)
        assert (found.loc["Algorithm 2", "error"] < pure.loc["Algorithm 2", "error"]) == better


def test_law_of_observed_costs() -> None:
    """The observed costs are spread as the law says: Kolmogorov's distance is at most one
    interval.
    """
    costs = generator(1753).exponential(2, 400)
    law = law_of(costs)
    assert law.support() == pytest.approx((costs.min(), costs.max()))
    assert stats.kstest(costs, law.cdf).statistic < 2 / 20
    assert stats.kstest(costs, stats.uniform(costs.min(), np.ptp(costs)).cdf).statistic > 2 / 20


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compare_markets([2.0, 2.0], Task(), 5.0), "costs must differ"),
        (lambda: compare_markets([1.0, 2.0], Task(), 5.0, sellers=3), "sellers must not be given"),
        (lambda: compare_markets(LAW, Task(), 5.0), "sellers"),
        (lambda: compare_markets(LAW, Task(), 5.0, sellers=0), "sellers"),
        (lambda: compare_markets(stats.norm(), Task(), 5.0, sellers=5), "law"),
        (lambda: compare_markets([1.0, 2.0], Task(), 5.0, designs=["Algorithm 3"]), "designs"),
        (lambda: compare_markets([1.0, 2.0], Task(), 5.0, draws=1), "draws"),
        (lambda: compare_markets([1.0, 2.0], Task(), -1.0), "budget"),
        (lambda: compare_markets([1.0, 2.0], 1, 20.0), "^task must be a Task, such as .* got 1$"),  # type: ignore[arg-type]
        (
            lambda: compare_markets([1.0, 2.0], Task(), 20.0, truth={"variance": 1.0}),  # type: ignore[arg-type]
            "^truth must be a Task, such as .* got {'variance': 1.0}",
        ),
        (lambda: compare_markets([1.0, 2.0], Task(), 20.0, delta=1.0), "delta"),
        (lambda: Task(variance=0.0), "variance"),
        (lambda: Task(dimension=0), "dimension"),
        (
            lambda: DESIGNS["costs known"](Market(Task(), LAW, 1e-60), drawn(5, 50, 3)),
            "budget = 1e-60 is out of reach",
        ),
    ],
)
def test_bad_arguments_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call()
