r"""Truth and participation in every design, with the library's search for misreports: forty
sellers, costs on [1, 5].

A purchase that minimises a risk plus :math:`\gamma\sum\psi_i\varepsilon_i` is paid without an
integral: its least value :math:`J` has the slope :math:`\gamma\varepsilon_i` in
:math:`\psi_i=2c_i-1`, so that the integral of what seller `i` still sells at higher reports is
:math:`(J(\psi_i=2\cdot5-1)-J)/(2\gamma)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize, stats

from hdpm_book.federated.allin import all_in_printed
from hdpm_lib.auctions.allin import all_or_nothing
from hdpm_lib.designs.comparison import errors
from hdpm_lib.designs.rules import DESIGNS, Market, Task
from hdpm_lib.markets.error_minimising import error_minimising
from hdpm_lib.markets.fair_query import fair_query
from hdpm_lib.markets.incentives import Incentives, search_misreports
from hdpm_lib.markets.local_menu import information, local_menu
from hdpm_lib.markets.mechanisms import equal_loss_pricing, vcg_contract
from hdpm_lib.markets.outcome import Outcome
from hdpm_lib.markets.procurement import procure

Array = NDArray[np.float64]
# virtual costs and gamma to losses and the least value
Purchase = Callable[[Array, float], tuple[Array, Array]]
Mechanism = Callable[[Array], tuple[Array, Array]]

TOP = 5.0
SELLERS = 40
BUDGET = 30.0
MARKET = Market(Task(), stats.uniform(1, TOP - 1), BUDGET)
# draws on which designs are tuned
OTHERS = 1 + (TOP - 1) * np.random.default_rng(12).random((40, SELLERS))
TUNED = "gamma tuned to the reports"
SMALL = np.array([0.01, 0.02, 0.05, 0.1])  # lies that a grid over the whole range would miss


def draws() -> list[Array]:
    """Return three draws of the sellers' costs."""
    return [1 + (TOP - 1) * np.random.default_rng([11, seed]).random(SELLERS) for seed in range(3)]


def lies(costs: Array) -> list[Array]:
    """Return for each seller 25 reports over the range, and small lies to both sides."""
    small = costs[:, None] + np.concatenate([-SMALL, SMALL])
    tried = np.c_[np.tile(np.linspace(1, TOP, 25), (len(costs), 1)), np.clip(small, 1, TOP)]
    return [np.unique(row[row != own]) for row, own in zip(tried, costs, strict=True)]


# --- purchases at virtual costs -----------------------------------------------------------------


def least_error(psi: Array, gamma: float) -> tuple[Array, Array]:
    """Return the error-minimising purchase."""
    found = error_minimising(psi, MARKET.task.variance, MARKET.task.noise, gamma)
    return found.privacy_loss, found.error


def algorithm2(psi: Array, gamma: float) -> tuple[Array, Array]:
    """Return the purchase of the logistic papers."""
    mu = np.sqrt(MARKET.task.variance)
    sigma = np.sqrt(MARKET.task.noise)
    found = [procure(row, mu, sigma, gamma) for row in psi]
    return np.stack([one.privacy_loss for one in found]), np.array([one.error for one in found])


def menu(psi: Array, gamma: float) -> tuple[Array, Array]:
    """Return the local menu at the worth 1 / gamma: the value of a market is the sum of its
    sellers'.
    """
    epsilon = local_menu(psi, MARKET.task.variance, MARKET.task.noise, 1 / gamma).privacy_loss
    told = information(epsilon, MARKET.task.variance, MARKET.task.noise)
    return epsilon, (gamma * psi * epsilon - told).sum(-1)


def penalty(buy: Purchase, costs: Array, near: float = 1e-3, factor: float = 1e6) -> float:
    """Return the gamma, within a factor of the one that is near, at which the mean bill over the
    draws is the budget.
    """
    psi = 2 * costs - 1

    def excess(log: float) -> float:
        return float(np.log(max((psi * buy(psi, np.exp(log))[0]).sum(-1).mean(), 1e-12) / BUDGET))

    return float(
        np.exp(optimize.brentq(excess, np.log(near / factor), np.log(near * factor), xtol=1e-12))
    )


@cache
def tuned(buy: Purchase) -> float:
    """Return that gamma for the other draws."""
    return penalty(buy, OTHERS)


def truthful(buy: Purchase, gamma: float, costs: Array) -> Mechanism:
    """Return a purchase with its envelope payments; in a profile with a lie only the liar's is
    right.
    """

    def raised(profiles: Array, who: NDArray[np.intp]) -> Array:
        rows = np.arange(len(profiles))
        changed = profiles.copy()
        changed[rows, who] = TOP
        return buy(2 * changed - 1, gamma)[1]

    def mechanism(profiles: Array) -> tuple[Array, Array]:
        epsilon, value = buy(2 * profiles - 1, gamma)
        payments = profiles * epsilon
        if (profiles == costs).all():
            everybody = raised(np.tile(costs, (len(costs), 1)), np.arange(len(costs)))
            return epsilon, payments + (everybody - value[:, None]) / (2 * gamma)
        liar = np.argmax(profiles != costs, axis=-1)
        payments[np.arange(len(profiles)), liar] += (raised(profiles, liar) - value) / (2 * gamma)
        return epsilon, payments

    return mechanism


# --- the designs --------------------------------------------------------------------------------


def _both(outcome: Outcome) -> tuple[Array, Array]:
    return outcome.privacy_loss, outcome.payments


def all_in_with(rule: Callable[..., Outcome], loss: float) -> Mechanism:
    """Let everybody offer one loss to All-in, at the cost of it."""

    def mechanism(profiles: Array) -> tuple[Array, Array]:
        return _both(
            rule(loss * profiles, np.full(profiles.shape, loss), np.full(len(profiles), BUDGET))
        )

    return mechanism


@cache
def free_numbers() -> tuple[float, ...]:
    """Return the posted price and amount, what is offered to All-in, and the accuracies of M1 and
    M2.
    """
    posted, sold, *contracts = (
        DESIGNS[name](MARKET, OTHERS)
        for name in (
            "one posted price",
            "hard budget, All-in repaired",
            "contracts, M1 as released",
            "contracts, M2 as released",
        )
    )
    price = float(posted.money.sum() / posted.privacy_loss.sum())
    worst = (float(errors(deal, MARKET.task, MARKET.task)[1][0]) * SELLERS**2 for deal in contracts)
    return price, float(posted.privacy_loss.max()), float(sold.privacy_loss.max()), *worst


def designs(costs: Array) -> dict[str, Mechanism]:
    """Return every design for these sellers; its free number is found on 40 other draws."""
    price, amount, offered, K1, K2 = free_numbers()

    def one_price(profiles: Array) -> tuple[Array, Array]:
        epsilon = np.where(profiles <= price, amount, 0.0)
        return epsilon, price * epsilon

    paid = {"error-minimising auction": least_error, "Algorithm 2": algorithm2, "local menu": menu}
    return {name: truthful(buy, tuned(buy), costs) for name, buy in paid.items()} | {
        "one posted price": one_price,
        "hard budget, All-in repaired": all_in_with(all_or_nothing, offered),
        "contracts, M2": lambda profiles: _both(vcg_contract(profiles, K2, TOP, power=1)),
        "contracts, M1": lambda profiles: _both(equal_loss_pricing(profiles, K1, TOP, power=1)),
        "FairQuery": lambda profiles: _both(fair_query(profiles, BUDGET)),
    }


def failing(costs: Array) -> dict[str, Mechanism]:
    """Return three rules that look like designs and are none."""
    gamma = tuned(least_error)

    def virtual_price(profiles: Array) -> tuple[Array, Array]:
        epsilon, _ = least_error(2 * profiles - 1, gamma)
        return epsilon, (2 * profiles - 1) * epsilon

    def retuned(profiles: Array) -> tuple[Array, Array]:
        parts = []
        for row in profiles[:, None]:
            own = truthful(least_error, penalty(least_error, row, gamma, 2.0), costs)
            parts.append(own(row))
        epsilon, payments = (np.concatenate(part) for part in zip(*parts, strict=True))
        return epsilon, payments

    return {
        "virtual cost times loss": virtual_price,
        TUNED: retuned,
        "All-in as printed": all_in_with(all_in_printed, 0.5),
    }


def searched(mechanisms: Callable[[Array], dict[str, Mechanism]]) -> pd.DataFrame:
    """Return over the three draws, for all sellers: the largest gain, how many gain, and the least
    utility of the truth.

    Of the rule that is tuned to the reports, which takes an optimum for each, the first draw and
    two lies.
    """
    found: dict[str, list[Incentives]] = {}
    for number, costs in enumerate(draws()):
        for name, rule in mechanisms(costs).items():
            tuned = name == TUNED
            if tuned and number:
                continue
            tries = (
                list(np.c_[np.maximum(costs - 0.02, 1), np.maximum(costs - 0.1, 1)])
                if tuned
                else lies(costs)
            )
            found.setdefault(name, []).append(search_misreports(rule, costs, tries, refine=False))
    return pd.DataFrame({name: _row(results) for name, results in found.items()}).T


def _row(results: Iterable[Incentives]) -> dict[str, float]:
    gains, utilities = (
        np.concatenate([getattr(r, part) for r in results]) for part in ("gain", "utility")
    )
    return {
        "largest gain": gains.max(),
        "sellers who gain": (gains > 1e-9).sum(),
        "of": len(gains),
        "least utility of truth": utilities.min(),
    }
