"""Market designs of papers and literature, each tuned to spend the same expected money.

A design is a purchase with its payments and a learner. Every one of them releases a weighted mean
with noise (:mod:`hdpm_lib.learners.weighted_mean`), central or, where sellers randomise their own
records, local. They differ in whose privacy they buy, and in whether the release is shrunk by its
own rule or by the buyer.

A design has one free number, a price or an accuracy, that must be fixed before anybody reports.
Here it is found on the very draws of the costs that are given, so that the mean payment over them
is the budget; give many draws. Truthful payments for what is bought *by virtual cost* cost on
average what is bought, at virtual costs, ironed ones included (:mod:`hdpm_lib.markets.costs`):
there no payment is integrated. M2 buys by reported cost, and it and the other designs count the
payments that they make.

Throughout, `market` is a :class:`Market` and `costs` of shape (draws, n), in the support of its
law, are what truthful sellers report.

The designs come from these papers:

- Khalili, Zhang and Liu (2021), Designing Contracts for Trading Private and Heterogeneous Data
  Using a Biased Differentially Private Algorithm: M1, M2 and M3
- Anjarlekar, Etesami and Srikant (2024), Striking a Balance: An Optimal Mechanism Design for
  Heterogenous Differentially Private Data Acquisition for Logistic Regression: Algorithm 2
- Zheng, Cao, Yoshikawa, Li and Yan (2021), FL-Market: Trading Private Models in Federated Learning:
  All-in, which is repaired here
- Fallah, Makhdoumi, Malekian and Ozdaglar (2022), Optimal and Differentially Private Data
  Acquisition: Central and Local Mechanisms: the error-minimising auction
- Ghosh and Roth (2011), Selling Privacy at Auction: FairQuery
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from hdpm_lib.auctions.allin import all_or_nothing
from hdpm_lib.gaussian import largest_mu
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
LEAP = 0.05  # how much more than the budget a tuned design may cost, as a share of it


@dataclass(frozen=True)
class Task:
    r"""A buyer's task: the mean of records in a ball, and public knowledge about it.

    The defaults are numbers in [0, 1], uniform as far as anybody knows.

    Parameters
    ----------
    variance : float, default 1/12
        :math:`\tau^2`: guess of the mean squared distance of a record from the mean of all,
        positive.
    distance : float, default 1/12
        :math:`B^2`: guess of the squared distance of that mean from the centre of the ball,
        positive.
    sensitivity : float, default 1.0
        `s`: diameter of the ball, positive. For numbers in an interval it is its length.
    dimension : int, default 1
        `d`: coordinates of a record.

    Examples
    --------
    Records are three numbers, in a ball of diameter 2:

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

    @property
    def gaussian_noise(self) -> float:
        r"""Mean square of Gaussian noise at a total :math:`\mu` of 1, :math:`ds^2`."""
        return self.dimension * self.sensitivity**2


def check_task(task: object, name: str) -> Task:
    """Return a task; anything else is an error."""
    if not isinstance(task, Task):
        raise TypeError(f"{name} must be a Task, such as hdpm_lib.Task(), got {reprlib.repr(task)}")
    return task


@dataclass(frozen=True)
class Market:
    """Public knowledge before the reports.

    Parameters
    ----------
    task : Task
        The buyer's task.
    law : scipy.stats law
        Of each cost, independent, as in :mod:`hdpm_lib.markets.costs`.
    budget : float
        Expected sum of payments, positive, or the sum itself where a design keeps to a hard budget.
    """

    task: Task
    law: Any
    budget: float

    def __post_init__(self) -> None:
        check_task(self.task, "task")
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


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Deal(Outcome):
    """Purchases of a design in each draw, and its releases.

    Parameters
    ----------
    privacy_loss : array of shape (draws, n)
        Privacy loss of each seller.
    payments, cost, error : None
        Not counted: see `money` for the sum of all payments.
    weights : array of shape (draws, n)
        Weight of each record in the release, with sum 1, or 0 where nothing is bought.
    noise : array of shape (draws,)
        Mean square of the noise before it is shrunk; infinite where nothing is bought.
    money : array of shape (draws,)
        Payments, or their mean: purchases at virtual costs.
    shrink : array of shape (draws,), optional
        The design's own factor; None if it is left to the buyer.
    """

    weights: Array
    noise: Array
    money: Array
    shrink: Array | None = None


def central(market: Market, epsilon: Array, money: Array, shrink: Array | None = None) -> Deal:
    """Release once with all privacy that is bought.

    Weights are in proportion to it, and the noise goes by its total.
    """
    weights, noise = _together(epsilon, market.task.noise)
    return Deal(epsilon, weights=weights, noise=noise, money=money, shrink=shrink)


def _together(bought: Array, noise_at_one: float) -> tuple[Array, Array]:
    """Return weights and noise of one release, of losses or of what moves Gaussian noise."""
    total = bought.sum(-1)
    with np.errstate(divide="ignore"):
        noise = noise_at_one / total**2
    return bought / np.where(total > 0, total, 1.0)[:, None], noise


def local(market: Market, epsilon: Array, money: Array) -> Deal:
    """Release records that everybody randomises herself; weights go by what each tells."""
    weights, noise = _apart(epsilon, market.task.variance, market.task.noise)
    return Deal(epsilon, weights=weights, noise=noise, money=money)


def _apart(bought: Array, variance: float, noise_at_one: float) -> tuple[Array, Array]:
    """Return weights and noise of records that are randomised one by one."""
    sold = bought > 0
    told = np.where(sold, information(bought, variance, noise_at_one), 0.0)
    total = told.sum(-1)
    weights = told / np.where(total > 0, total, 1.0)[:, None]
    noise = np.zeros_like(bought)
    np.divide(weights**2 * noise_at_one, bought**2, out=noise, where=sold)
    return weights, np.where(total > 0, noise.sum(-1), np.inf)


def with_delta(deal: Deal, task: Task, delta: float, design: str) -> Deal:
    r"""Return the same purchase with a learner that keeps (:math:`\varepsilon_i,\delta`).

    With Gaussian noise :math:`\mu_i`, the largest that the promise allows
    (:func:`hdpm_lib.gaussian.largest_mu`), takes the place of :math:`\varepsilon_i` in weights and
    noise.
    """
    sold = deal.privacy_loss > 0
    mu = np.zeros_like(deal.privacy_loss)
    if sold.any():
        losses, places = np.unique(deal.privacy_loss[sold], return_inverse=True)
        mu[sold] = largest_mu(losses, delta)[places]
    if design in LOCAL:
        weights, noise = _apart(mu, task.variance, task.gaussian_noise)
    else:
        weights, noise = _together(mu, task.gaussian_noise)
    return replace(deal, weights=weights, noise=noise)


def at_budget(buy: Callable[[float], Deal], budget: float) -> Deal:
    """Find the deal whose mean payment is the budget.

    `buy` gives a deal for each positive number, with more money for more. Where the payment leaps
    over the budget, by more than a twentieth of it, the deal before the leap is taken. A budget so
    far from the costs that no number is found is an error.
    """
    buy = lru_cache(4)(buy)  # the ends and the root are asked for twice

    def excess(log: float) -> float:
        money = buy(float(np.exp(log))).money.mean()
        return float(np.log(np.maximum(money, 1e-300) / budget))

    if not excess(-60) < 0 < excess(60):
        raise ValueError(
            f"budget = {budget:g} is out of reach for these costs and this task: is its unit that"
            " of the costs?"
        )
    log = optimize.brentq(excess, -60, 60, xtol=1e-10, rtol=1e-12)
    if excess(log) > np.log(1 + LEAP):
        log -= 1e-8  # before the leap
    return buy(float(np.exp(log)))


# --- purchases at virtual costs -----------------------------------------------------------------


def _at_prices(
    market: Market,
    prices: Array,
    losses: Callable[[float], Array],
    release: Callable[[Market, Array, Array], Deal] = central,
) -> Deal:
    """Buy at these prices for the whole budget.

    `losses` are those that the buyer buys if an error of 1 is worth so much money to her.
    """

    def buy(worth: float) -> Deal:
        epsilon = losses(worth)
        return release(market, epsilon, (prices * epsilon).sum(-1))

    return at_budget(buy, market.budget)


def _error_minimising(market: Market, prices: Array) -> Deal:
    """Buy at these prices what minimises the error."""
    task = market.task

    def losses(worth: float) -> Array:
        return error_minimising(prices, task.variance, task.noise, 1 / worth).privacy_loss

    return _at_prices(market, prices, losses)


def costs_known(market: Market, costs: Array) -> Deal:
    """Buy error-minimising as a buyer who knows every cost and pays no more.

    No market can beat it.
    """
    return _error_minimising(market, costs)


def error_minimising_auction(market: Market, costs: Array) -> Deal:
    """Buy error-minimising at virtual costs (Fallah et al. 2022, central)."""
    return _error_minimising(market, market.virtual(costs))


def algorithm2(market: Market, costs: Array) -> Deal:
    r"""Buy by Algorithm 2 of the logistic papers (Anjarlekar et al. 2024).

    Here :math:`\mu=\tau`, and :math:`\sigma` is the root of the noise at a total loss of 1.
    """
    psi = market.virtual(costs)
    mu = float(np.sqrt(market.task.variance))
    sigma = float(np.sqrt(market.task.noise))

    def losses(worth: float) -> Array:
        return np.stack([procure(row, mu, sigma, 1 / worth).privacy_loss for row in psi])

    return _at_prices(market, psi, losses)


def posted_price(market: Market, costs: Array) -> Deal:
    """Post one loss and one price for it to all: who finds it worth her cost sells.

    Both follow from the law: the price is that at which the expected share of sellers is best.
    """
    task = market.task
    n = costs.shape[-1]

    def error(share: Any) -> Any:
        price = market.law.ppf(share)
        return task.variance / (n * share) + task.noise * (price / market.budget) ** 2

    shares = np.linspace(0, 1, 401)[1:]
    near = shares[np.argmin(error(shares))]
    ends = (max(near - 1 / 400, 1e-6), min(near + 1 / 400, 1.0))
    best = optimize.minimize_scalar(error, bounds=ends, method="bounded", options={"xatol": 1e-9})
    price = float(market.law.ppf(float(best.x)))
    sells = costs <= price
    sellers = max(sells.sum(-1).mean(), 1 / len(costs))
    epsilon = np.where(sells, market.budget / (price * sellers), 0.0)
    return central(market, epsilon, price * epsilon.sum(-1))


def everyone_at_ceiling(market: Market, costs: Array) -> Deal:
    """Buy the same loss from everybody, each paid what the most demanding seller would bear.

    The buyer shrinks it.
    """
    epsilon = np.full(costs.shape, market.budget / (costs.shape[-1] * market.ceiling))
    return central(market, epsilon, market.ceiling * epsilon.sum(-1))


# --- contracts ----------------------------------------------------------------------------------


def _accuracy(loss: float, n: int) -> float:
    """Return the K at which Principle 1 asks for this loss, Eq. (7) of Khalili et al. (2021)."""
    return 2 / (loss**2 + 8 / n**2)


def _scale(task: Task) -> float:
    """Return the factor from a contract's losses, for numbers in [0, 1], to those of the task."""
    return float(np.sqrt(task.noise / 2) / task.sensitivity)


def m1_released(market: Market, costs: Array) -> Deal:
    """Buy the same loss from everybody, with the bias of Principle 1: M1 of Khalili et al."""
    plain = everyone_at_ceiling(market, costs)
    n = costs.shape[-1]
    loss = float(plain.privacy_loss[0, 0]) / _scale(market.task)
    share = 1 - 4 * _accuracy(loss, n) / n**2
    return replace(plain, shrink=np.full(len(costs), share))


def m3_released(market: Market, costs: Array) -> Deal:
    """Buy the same loss from everybody, without bias: M3 of Khalili et al. (2021)."""
    return replace(everyone_at_ceiling(market, costs), shrink=np.ones(len(costs)))


def m2_released(market: Market, costs: Array) -> Deal:
    """Buy at the least reported cost for a worst error: M2 of Khalili et al. (2021).

    Costs are linear, and the bias stays.
    """
    n = costs.shape[-1]
    scale = _scale(market.task)

    def buy(loss: float) -> Deal:
        sale = vcg_contract(costs, _accuracy(loss, n), market.ceiling, power=1)
        money = sale.payments.sum(-1) * scale
        return central(market, sale.privacy_loss * scale, money, sale.shares.mean(-1))

    return at_budget(buy, market.budget)


def m2_shrunk(market: Market, costs: Array) -> Deal:
    """Buy as M2; its bias is taken back, and the buyer shrinks instead."""
    return replace(m2_released(market, costs), shrink=None)


# --- hard budgets -------------------------------------------------------------------------------


def fair_query_released(market: Market, costs: Array) -> Deal:
    """Buy by FairQuery of Ghosh and Roth (2011): never beyond the budget, and without a law."""
    sale = fair_query(costs, market.budget)
    bought = (sale.privacy_loss > 0).mean(-1)
    return central(market, sale.privacy_loss, sale.payments.sum(-1), bought)


def _one_loss_for_all(
    market: Market, costs: Array, release: Callable[[Market, Array, Array], Deal]
) -> Deal:
    """Let everybody offer one loss to All-in, repaired: the best on average over the draws.

    The error is that of the `release`.
    """
    task = market.task
    budgets = np.full(len(costs), market.budget)

    def sale(log: float) -> Deal:
        loss = float(np.exp(log))
        sold = all_or_nothing(loss * costs, np.full(costs.shape, loss), budgets)
        return release(market, sold.privacy_loss, sold.payments.sum(-1))

    def error(log: float) -> float:
        deal = sale(log)
        sampling = sampling_error(deal.weights, deal.noise, task.variance)
        shrink = best_shrink(sampling, task.distance)
        return float(population_error(sampling, task.distance, shrink).mean())

    even = np.log(market.budget / (market.ceiling * costs.shape[-1]))
    grid = np.linspace(even - 1, even + 12, 40)
    near = int(np.argmin([error(log) for log in grid]))
    ends = (grid[max(near - 1, 0)], grid[min(near + 1, len(grid) - 1)])
    best = optimize.minimize_scalar(error, bounds=ends, method="bounded")
    return sale(float(best.x))


def hard_budget(market: Market, costs: Array) -> Deal:
    """Buy by All-in of FL-Market, repaired, as a trusted buyer.

    All who win sell one loss, and payments are within the budget in every draw.
    """
    return _one_loss_for_all(market, costs, central)


# --- nobody is trusted --------------------------------------------------------------------------


def local_hard_budget(market: Market, costs: Array) -> Deal:
    """Buy by All-in, repaired, from winners who randomise their own records, as in FL-Market."""
    return _one_loss_for_all(market, costs, local)


def best_local_menu(market: Market, costs: Array) -> Deal:
    """Post the best price list for sellers who trust nobody."""
    psi = market.virtual(costs)
    task = market.task

    def losses(worth: float) -> Array:
        return local_menu(psi, task.variance, task.noise, worth).privacy_loss

    return _at_prices(market, psi, losses, local)


DESIGNS: dict[str, Callable[[Market, Array], Deal]] = {
    "costs known": costs_known,
    "error-minimising auction": error_minimising_auction,
    "Algorithm 2": algorithm2,
    "one posted price": posted_price,
    "hard budget, All-in repaired": hard_budget,
    "contracts, M2 as released": m2_released,
    "contracts, M2 shrunk by the buyer": m2_shrunk,
    "contracts, M1 as released": m1_released,
    "contracts, M3 as released": m3_released,
    "everyone at the highest cost, shrunk": everyone_at_ceiling,
    "FairQuery as released": fair_query_released,
    "local menu": best_local_menu,
    "local, All-in repaired": local_hard_budget,
}
LOCAL = ("local menu", "local, All-in repaired")  # where sellers randomise their own records
