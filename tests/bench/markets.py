"""Markets: contracts, procurement and their payments, by the number of sellers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize, stats

from hdpm_book.contracts.study import conic_power
from hdpm_book.logistic.peer import conic_search
from hdpm_lib.markets.contracts import equal_loss_contract, least_cost_contract
from hdpm_lib.markets.costs import virtual_valuation
from hdpm_lib.markets.error_minimising import error_minimising
from hdpm_lib.markets.fair_query import fair_query
from hdpm_lib.markets.incentives import reports_to_try, search_misreports
from hdpm_lib.markets.local_menu import local_menu
from hdpm_lib.markets.mechanisms import equal_loss_pricing, myerson_contract, vcg_contract
from hdpm_lib.markets.payments import envelope_payments, vcg_payments
from hdpm_lib.markets.procurement import procure
from hdpm_lib.markets.procurement_auction import procurement_auction
from tests.bench.case import Arguments, Array, Case, Generator, Peer

# --- contracts: cost v eps^2, K = n^2 / 16 ----------------------------------------------------------------------------

POWER = 2.0


def contract(n: int, rng: Generator) -> Arguments:
    return rng.random(n), n**2 / 16


def excess(of: str) -> Callable[[Arguments, Any, Any], float]:
    return lambda _, ours, theirs: float(getattr(theirs, of) / getattr(ours, of) - 1)


def by_clarabel(v: Array, K: float) -> object:
    return conic_power(v, K, power=POWER)


def myerson(v: Array, K: float) -> object:
    return myerson_contract(v, K, stats.uniform(0, 1), power=POWER)


def cheapest_half(reports: Array) -> Array:
    """One unit from each of the cheaper half."""
    return (reports < np.median(reports, axis=-1, keepdims=True)) * 1.0


def externalities(c: Array) -> Array:
    return vcg_payments(c, 1.0, cheapest_half, lambda r: (r * cheapest_half(r)).sum(-1))


def smooth(reports: Array) -> Array:
    return np.asarray(np.exp(-reports))


# --- procurement: costs uniform on [1, 5], mu = sigma = 1, gamma = 0.01 -----------------------------------------------

LAW, SCALE = stats.uniform(1, 4), (1.0, 1.0, 0.01)
LOSS = "relative excess of the loss"


def virtual(n: int, rng: Generator) -> Arguments:
    return (virtual_valuation(LAW, LAW.rvs(n, random_state=rng), check=False),)


def by_rates(psi: Array) -> object:
    return conic_search(psi, *SCALE, cap=3 / len(psi), starts=4)


def under(law: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Costs that follow a law, and the auction that knows it."""
    return lambda n, rng: (law.rvs(n, random_state=rng),), lambda costs: procurement_auction(costs, law, *SCALE)


# --- other purchases --------------------------------------------------------------------------------------------------

TASK = 1 / 12, 2.0  # variance, and noise at loss 1


def prices(n: int, rng: Generator) -> Arguments:
    return (rng.uniform(1, 9, n),)


def by_slsqp(psi: Array) -> float:
    """The least loss by SciPy's solver from equal weights, over weights and the total."""
    n = len(psi)

    def loss(x: Array) -> float:
        return float(TASK[0] * (x[:n] ** 2).sum() + TASK[1] / x[n] ** 2 + 0.01 * x[n] * (x[:n] @ psi))

    bounds, sums = [(0, 1)] * n + [(1e-6, None)], {"type": "eq", "fun": lambda x: x[:n].sum() - 1}
    how = {"method": "SLSQP", "options": {"maxiter": 1000, "ftol": 1e-12}}
    return float(optimize.minimize(loss, [1 / n] * n + [1.0], bounds=bounds, constraints=[sums], **how).fun)


def searched(c: Array) -> object:
    """All lies in a first price."""
    return search_misreports(lambda reports: (np.ones_like(reports), reports), c, reports_to_try(c, 1.0))


def uniform(n: int, rng: Generator) -> Arguments:
    return (rng.random(n),)


FEW = (100, 300, 1_000, 3_000)
CASES = (
    Case(equal_loss_contract, lambda n, rng: (n, n**2 / 16)),
    Case(
        least_cost_contract,
        contract,
        lambda v, K: least_cost_contract(v, K, power=POWER),
        peer=Peer("Clarabel", by_clarabel, 1_000, excess("cost"), "relative excess of the cost"),
    ),
    Case(equal_loss_pricing, contract, lambda v, K: equal_loss_pricing(v, K, 1.0, power=POWER)),
    Case(vcg_contract, contract, lambda v, K: vcg_contract(v, K, 1.0, power=POWER), "all payments"),
    Case(myerson_contract, contract, myerson, "with payments", sizes=(2, 5, 10, 30)),
    Case(vcg_payments, uniform, externalities, "any rule", sizes=FEW),
    Case(envelope_payments, uniform, lambda c: envelope_payments(c, 1.0, smooth), "any rule", sizes=FEW[:-1]),
    Case(procure, virtual, lambda psi: procure(psi, *SCALE)),
    Case(
        procure,
        virtual,
        lambda psi: procure(psi, *SCALE, cap=3 / len(psi)),
        "with a cap",
        peer=Peer("Clarabel, and a search from 4 rates", by_rates, 1_000, excess("error"), LOSS),
    ),
    Case(procurement_auction, *under(LAW), "uniform costs"),
    Case(procurement_auction, *under(stats.truncexpon(4, loc=1, scale=1)), "exponential costs"),
    Case(
        error_minimising,
        prices,
        lambda psi: error_minimising(psi, *TASK, 0.01),
        peer=Peer("SciPy's SLSQP", by_slsqp, 100, lambda _, ours, least: float(least / ours.error - 1), LOSS),
    ),
    Case(fair_query, lambda n, rng: (*prices(n, rng), 2.0)),
    Case(local_menu, prices, lambda psi: local_menu(psi, *TASK, 100.0)),
    Case(search_misreports, uniform, searched, "of a first price", sizes=(10, 30, 100, 300)),
)
