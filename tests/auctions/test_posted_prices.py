"""Posted prices: the exact choice, no profitable lie, the money lasts; and what fails when a condition is dropped."""

from __future__ import annotations

import numpy as np

from hdpm_book.federated.partition import budget_of
from hdpm_lib.auctions.allin import gains
from hdpm_lib.auctions.bids import Bids, bids, unit_valuation, utility
from hdpm_lib.auctions.posted_prices import EXTRA, POWER, SCALE, best_sale, posted_prices
from hdpm_lib.markets.outcome import Outcome
from tests.support import false_bids, generator, largest_gain, some_auctions

Array = np.ndarray


def rolling(reports: Bids, budget: Array) -> Outcome:
    """The mechanism again, owner by owner."""
    flat = [a.reshape(-1, a.shape[-1]) for a in vars(reports).values()]
    epsilon, payments = np.zeros(flat[0].shape), np.zeros(flat[0].shape)
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


# --- the choice, and the rule ---------------------------------------------------------------------------------------


def test_best_sale_is_the_best_on_a_fine_grid() -> None:
    rng = generator(420)
    family, count = np.repeat(np.arange(4), 500), 2000
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
        sale, again = posted_prices(truth, budget), rolling(truth, budget)
        assert np.allclose(sale.privacy_loss, again.privacy_loss, rtol=1e-9, atol=1e-12)
        assert np.allclose(sale.payments, again.payments, rtol=1e-9)
    equal = bids("quadratic", 1.0, [1.0, 1.0, 1.0], 20)
    assert np.allclose(posted_prices(equal, 30.0).privacy_loss, rolling(equal, np.array(30.0)).privacy_loss)
    several = posted_prices(truth[None], budget)
    assert several.privacy_loss.shape == (1, 60, 10) and np.array_equal(several.privacy_loss[0], sale.privacy_loss)


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
        rng.integers(0, 4, (500, 40)), rng.uniform(0.5, 1.5, (500, 40)), 1.0, 10 ** rng.uniform(0, 7, (500, 40))
    )
    budget = budget_of(wide, 0.3)
    assert (posted_prices(wide, budget).payments.sum(-1) <= budget).all()


# --- lies -------------------------------------------------------------------------------------------------------------


def test_no_lie_gains_in_half_a_million() -> None:
    rng, tried = generator(423), 0
    for kind in ("IID", "Non-IID"):
        truth, budget = some_auctions(100, rng, kind)
        for _ in range(10):
            lies = false_bids(truth, 26, rng)
            assert largest_gain(posted_prices, truth, budget, lies) <= 1e-12
            tried += lies.rate.size
    assert tried >= 500_000


# --- what each condition is for ---------------------------------------------------------------------------------------


def test_a_budget_from_reports_makes_lies_pay() -> None:
    truth = bids("quadratic", 1.0, [1.0, 1.0], [10, 10])
    lies = bids("quadratic", [1.5, 1.5], [1.0, 1.0], [10, 10])

    def from_reports(reports: Bids, _: Array) -> Outcome:
        return posted_prices(reports, budget_of(reports, 0.5))

    assert gains(from_reports, truth, lies, 1.0).max() > 0.1
    assert gains(posted_prices, truth, lies, budget_of(truth, 0.5)).max() <= 0


def test_sizes_must_be_verified() -> None:
    truth = bids("quadratic", 1.0, [2.0, 2.0], [20, 10])
    lies = bids("quadratic", 1.0, [2.0, 2.0], [9, 10])  # she moves to the end and finds more money for each record
    assert gains(posted_prices, truth, lies, 10.0)[0] > 0.1
    rng = generator(425)
    truth, budget = some_auctions(200, rng)
    less = Bids(truth.family, truth.rate, truth.privacy_budget, truth.sizes * 0.5)
    assert (gains(posted_prices, truth, less, budget) > 1e-9).mean() > 0.02


def test_one_owner_one_name() -> None:
    one = bids("quadratic", 1.0, [2.0, 2.0], [20, 10])
    two = bids("quadratic", 1.0, [2.0, 2.0, 2.0], [10, 10, 10])  # the first owner under two names, half the data each
    whole = utility(one, posted_prices(one, 10.0))[0]
    halves = utility(two, posted_prices(two, 10.0))
    assert max(halves[:2].sum(), halves[1:].sum()) > whole + 0.01  # whichever places her names take


def test_the_limit_must_be_hard() -> None:
    truth = bids("quadratic", 1.0, [0.5, 0.5], [10, 10])
    lies = bids("quadratic", 1.0, [1.0, 1.0], [10, 10])
    assert (gains(posted_prices, truth, lies, 30.0) == -np.inf).all()
    soft = bids("quadratic", 1.0, [9.0, 9.0], [10, 10])  # the same cost, and no limit
    honest, told = posted_prices(truth, 30.0), posted_prices(lies, 30.0)
    assert utility(soft, told)[0] > utility(soft, honest)[0] + 0.5
