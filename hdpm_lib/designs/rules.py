r"""The designs of the five papers and of the literature, each tuned to spend the same expected
money.

A design is a purchase with its payments and a learner. Every one of them releases a weighted mean
with noise (:mod:`hdpm_lib.learners.weighted_mean`), central or, where sellers randomise their own
records, local. They differ in whose privacy they buy, and in whether the release is shrunk by its
own rule or by the reader.

A design has one free number, a price or an accuracy, that must be fixed before anybody reports.
Here it is found on the very draws of the costs that are given, so that the mean payment over them
is the budget; give many draws. Truthful payments for what is bought *by virtual cost* cost on
average what is bought, at virtual costs, ironed ones included (:mod:`hdpm_lib.markets.costs`):
there no payment is integrated. M2 buys by reported cost, and it and the other designs count the
payments that they make.

Throughout, `market` is a :class:`Market` and `costs` of shape (draws, n), in the support of its
law, are what truthful sellers report.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from hdpm_lib.auctions.allin import all_or_nothing
from hdpm_lib.learners.weighted_mean import best_shrink, population_error, sampling_error
from hdpm_lib.markets.costs import (
    check_law,
    check_regular,
    ironed_virtual_valuation,
    virtual_valuation,
)
from hdpm_lib.markets.error_minimising import error_minimising
from hdpm_lib.markets.fair_query import fair_query
from hdpm_lib.markets.local_menu import information, local_menu
from hdpm_lib.markets.mechanisms import vcg_contract
from hdpm_lib.markets.outcome import Outcome
from hdpm_lib.markets.procurement import procure
from hdpm_lib.validation import check_count, check_positive

Array = NDArray[np.float64]
LEAP = 0.05  # how much more than the budget a tuned design may cost, as a part of it


@dataclass(frozen=True)
class Task:
    r"""What the buyer wants to know, the mean of records in a ball, and what is public about it.

    Attributes
    ----------
    variance : float, positive
        :math:`\tau^2`: guess of the mean squared distance of a record from the mean of all.
    distance : float, positive
        :math:`B^2`: guess of the squared distance of that mean from the centre of the ball.
    sensitivity : float, positive
        `s`: diameter of the ball. For numbers in an interval it is its length.
    dimension : int
        `d`: coordinates of a record.

    The defaults are numbers in [0, 1], uniform as far as anybody knows.

    Examples
    --------
    >>> Task(sensitivity=2.0, dimension=3).noise
    48.0
    """

    variance: float = 1 / 12
    distance: float = 1 / 12
    sensitivity: float = 1.0
    dimension: int = 1

    def __post_init__(self) -> None:
        for name in ("variance", "distance", "sensitivity"):
            check_positive(getattr(self, name), name)
        check_count(self.dimension, "dimension")

    @property
    def noise(self) -> float:
        r"""Mean square of the noise at a total privacy loss of 1, :math:`d(d+1)s^2`."""
        return self.dimension * (self.dimension + 1) * self.sensitivity**2


@dataclass(frozen=True)
class Market:
    """What everybody knows before the reports.

    Attributes
    ----------
    task : Task
    law : scipy.stats law of each cost, independent, as in :mod:`hdpm_lib.markets.costs`
    budget : float, positive, the expected sum of payments, or the sum itself where a design keeps
    to a hard budget
    """

    task: Task
    law: Any
    budget: float

    def __post_init__(self) -> None:
        check_law(self.law)
        check_positive(self.budget, "budget")

    @cached_property
    def ceiling(self) -> float:
        """Largest possible cost."""
        return float(self.law.support()[1])

    @cached_property
    def virtual(self) -> Callable[[Array], Array]:
        """Virtual costs of costs, ironed where they would fall."""
        try:
            check_regular(self.law)
        except ValueError:
            return partial(ironed_virtual_valuation, self.law)
        return partial(virtual_valuation, self.law, check=False)


@dataclass(frozen=True, kw_only=True)
class Deal(Outcome):
    """What a design buys in each draw, without the single payments, and what it releases.

    Attributes
    ----------
    weights : array of shape (draws, n), with sum 1, or 0 where nothing is bought
    noise : array of shape (draws,), mean square of the noise before it is shrunk
    money : array of shape (draws,)
        payments, or what they are on average: what is bought, at virtual costs
    shrink : array of shape (draws,), the design's own factor, or None if it is left to the reader
    """

    weights: Array
    noise: Array
    money: Array
    shrink: Array | None = None


def central(market: Market, epsilon: Array, money: Array, shrink: Array | None = None) -> Deal:
    """All privacy that is bought goes into one release: weights in proportion to it, and noise by
    its total.
    """
    total = epsilon.sum(-1)
    with np.errstate(divide="ignore"):
        noise = market.task.noise / total**2
    weights = epsilon / np.where(total > 0, total, 1.0)[:, None]
    return Deal(epsilon, weights=weights, noise=noise, money=money, shrink=shrink)


def local(market: Market, epsilon: Array, money: Array) -> Deal:
    """Everybody randomises her own record; weights by what each tells, and the noise of all."""
    told = np.where(epsilon > 0, information(epsilon, market.task.variance, market.task.noise), 0.0)
    total = told.sum(-1)
    weights = told / np.where(total > 0, total, 1.0)[:, None]
    own = np.divide(
        weights**2 * market.task.noise, epsilon**2, out=np.zeros_like(epsilon), where=epsilon > 0
    )
    noise = np.where(total > 0, own.sum(-1), np.inf)
    return Deal(epsilon, weights=weights, noise=noise, money=money)


def at_budget(buy: Callable[[float], Deal], budget: float) -> Deal:
    """The deal whose mean payment is the budget, `buy` being a deal for each positive number, with
    more money for more.

    Where the payment leaps over the budget, by more than a twentieth of it, the deal before the
    leap is taken. A budget so far from the costs that no number is found is an error.
    """
    buy = lru_cache(4)(buy)  # the ends and the root are asked for twice

    def excess(log: float) -> float:
        return float(np.log(np.maximum(buy(float(np.exp(log))).money.mean(), 1e-300) / budget))

    if not excess(-60) < 0 < excess(60):
        raise ValueError(
            f"budget = {budget:g} is out of reach for these costs and this task: is its unit that"
            " of the costs?"
        )
    log = optimize.brentq(excess, -60, 60, xtol=1e-10, rtol=1e-12)
    return buy(float(np.exp(log - 1e-8 if excess(log) > np.log(1 + LEAP) else log)))


# --- purchases at virtual costs -----------------------------------------------------------------


def _at_prices(
    market: Market,
    prices: Array,
    losses: Callable[[float], Array],
    release: Callable[..., Deal] = central,
) -> Deal:
    """What is bought at these prices by a buyer to whom an error is worth so much that she spends
    the budget.
    """

    def buy(worth: float) -> Deal:
        epsilon = losses(worth)
        return release(market, epsilon, (prices * epsilon).sum(-1))

    return at_budget(buy, market.budget)


def _error_minimising(market: Market, prices: Array) -> Deal:
    parts = market.task.variance, market.task.noise
    return _at_prices(
        market, prices, lambda worth: error_minimising(prices, *parts, 1 / worth).privacy_loss
    )


def costs_known(market: Market, costs: Array) -> Deal:
    """The error-minimising purchase by a buyer who knows every cost and pays no more: what no
    market can beat.
    """
    return _error_minimising(market, costs)


def error_minimising_auction(market: Market, costs: Array) -> Deal:
    """The error-minimising purchase at virtual costs (Fallah et al. 2022, central)."""
    return _error_minimising(market, market.virtual(costs))


def algorithm2(market: Market, costs: Array) -> Deal:
    r"""Algorithm 2 of the logistic papers, with :math:`\mu=\tau` and :math:`\sigma` the root of the
    noise at loss 1.
    """
    psi = market.virtual(costs)
    mu = float(np.sqrt(market.task.variance))
    sigma = float(np.sqrt(market.task.noise))
    return _at_prices(
        market,
        psi,
        lambda worth: np.stack([procure(row, mu, sigma, 1 / worth).privacy_loss for row in psi]),
    )


def posted_price(market: Market, costs: Array) -> Deal:
    """One loss and one price for it, posted to all: who finds it worth her cost sells. Both follow
    from the law.
    """
    task = market.task
    n = costs.shape[-1]

    def error(share: Any) -> Any:
        return (
            task.variance / (n * share) + task.noise * (market.law.ppf(share) / market.budget) ** 2
        )

    shares = np.linspace(0, 1, 401)[1:]
    near = shares[np.argmin(error(shares))]
    ends = max(near - 1 / 400, 1e-6), min(near + 1 / 400, 1.0)
    share = float(
        optimize.minimize_scalar(error, bounds=ends, method="bounded", options={"xatol": 1e-9}).x
    )
    price = float(market.law.ppf(share))
    sells = costs <= price
    epsilon = np.where(
        sells, market.budget / (price * max(sells.sum(-1).mean(), 1 / len(costs))), 0.0
    )
    return central(market, epsilon, price * epsilon.sum(-1))


def everyone_at_ceiling(market: Market, costs: Array) -> Deal:
    """The same loss from everybody, each paid what the most demanding seller would bear; shrunk by
    the reader.
    """
    epsilon = np.full(costs.shape, market.budget / (costs.shape[-1] * market.ceiling))
    return central(market, epsilon, market.ceiling * epsilon.sum(-1))


# --- contracts ----------------------------------------------------------------------------------


def _accuracy(loss: float, n: int) -> float:
    """The contract paper's K at which Principle 1 asks for this loss, Eq. (7)."""
    return 2 / (loss**2 + 8 / n**2)


def _scale(task: Task) -> float:
    """A contract's losses, for numbers in [0, 1], times this are those of the task's noise and
    ball.
    """
    return float(np.sqrt(task.noise / 2) / task.sensitivity)


def m1_released(market: Market, costs: Array) -> Deal:
    """M1 of the contract paper: the same loss from everybody, and the bias of Principle 1."""
    plain = everyone_at_ceiling(market, costs)
    n = costs.shape[-1]
    share = 1 - 4 * _accuracy(float(plain.privacy_loss[0, 0]) / _scale(market.task), n) / n**2
    return replace(plain, shrink=np.full(len(costs), share))


def m3_released(market: Market, costs: Array) -> Deal:
    """M3 of the contract paper: the same loss from everybody, without bias."""
    return replace(everyone_at_ceiling(market, costs), shrink=np.ones(len(costs)))


def m2_released(market: Market, costs: Array) -> Deal:
    """M2 of the contract paper for linear costs: the least reported cost for a worst error, and its
    bias.
    """
    n = costs.shape[-1]
    scale = _scale(market.task)

    def buy(loss: float) -> Deal:
        sale = vcg_contract(costs, _accuracy(loss, n), market.ceiling, power=1)
        return central(
            market, sale.privacy_loss * scale, sale.payments.sum(-1) * scale, sale.shares.mean(-1)
        )

    return at_budget(buy, market.budget)


def m2_shrunk(market: Market, costs: Array) -> Deal:
    """What M2 buys, its bias taken back and shrunk by the reader instead."""
    return replace(m2_released(market, costs), shrink=None)


# --- hard budgets -------------------------------------------------------------------------------


def fair_query_released(market: Market, costs: Array) -> Deal:
    """FairQuery of Ghosh and Roth (2011): it never spends more than the budget and needs no law."""
    sale = fair_query(costs, market.budget)
    bought = (sale.privacy_loss > 0).mean(-1)
    return central(market, sale.privacy_loss, sale.payments.sum(-1), bought)


def _proportional(
    market: Market, costs: Array, release: Callable[[Market, Array, Array], Deal]
) -> Deal:
    """Everybody offers one loss to All-in, repaired; the loss that is best on average over the
    draws.
    """
    task = market.task

    def sale(log: float) -> Deal:
        loss = float(np.exp(log))
        sold = all_or_nothing(
            loss * costs, np.full(costs.shape, loss), np.full(len(costs), market.budget)
        )
        return release(market, sold.privacy_loss, sold.payments.sum(-1))

    def error(log: float) -> float:
        deal = sale(log)
        sampling = sampling_error(deal.weights, deal.noise, task.variance)
        return float(
            population_error(sampling, task.distance, best_shrink(sampling, task.distance)).mean()
        )

    even = np.log(market.budget / (market.ceiling * costs.shape[-1]))
    grid = np.linspace(even - 1, even + 12, 40)
    near = int(np.argmin([error(log) for log in grid]))
    ends = grid[max(near - 1, 0)], grid[min(near + 1, len(grid) - 1)]
    return sale(float(optimize.minimize_scalar(error, bounds=ends, method="bounded").x))


def hard_budget(market: Market, costs: Array) -> Deal:
    """FL-Market's repaired All-in with a trusted buyer: one loss for all who win, within the budget
    in every draw.
    """
    return _proportional(market, costs, central)


# --- nobody is trusted --------------------------------------------------------------------------


def local_hard_budget(market: Market, costs: Array) -> Deal:
    """The same, each winner randomising her own record, as in FL-Market."""
    return _proportional(market, costs, local)


def best_local_menu(market: Market, costs: Array) -> Deal:
    """The best price list for sellers who trust nobody."""
    psi = market.virtual(costs)
    parts = (market.task.variance, market.task.noise)
    return _at_prices(market, psi, lambda worth: local_menu(psi, *parts, worth).privacy_loss, local)


DESIGNS: dict[str, Callable[[Market, Array], Deal]] = {
    "costs known": costs_known,
    "error-minimising auction": error_minimising_auction,
    "Algorithm 2": algorithm2,
    "one posted price": posted_price,
    "hard budget, All-in repaired": hard_budget,
    "contracts, M2 as released": m2_released,
    "contracts, M2 shrunk by the reader": m2_shrunk,
    "contracts, M1 as released": m1_released,
    "contracts, M3 as released": m3_released,
    "everyone at the highest cost, shrunk": everyone_at_ceiling,
    "FairQuery as released": fair_query_released,
    "local menu": best_local_menu,
    "local, All-in repaired": local_hard_budget,
}
