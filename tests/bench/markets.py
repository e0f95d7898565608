"""Markets: contracts, procurement and their payments, by the number of sellers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import integrate, optimize, stats

from hdpm_book.contracts.study import conic_power
from hdpm_book.logistic.peer import conic_search, procure_fast
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
from tests.bench.case import SIZES, Arguments, Array, Case, Generator

# --- contracts: cost v eps^2, K = n^2 / 16 ----------------------------------------------------------------------------

POWER = 2.0
COST = "relative excess of the cost"


def contract(n: int, rng: Generator) -> Arguments:
    return rng.random(n), n**2 / 16


def excess(of: str) -> Callable[[Arguments, Any, Any], float]:
    return lambda _, ours, theirs: float(getattr(theirs, of) / getattr(ours, of) - 1)


def one_by_one(v: Array, K: float) -> Array:
    """M2's payments by their definition: the contract solved again without each seller, who reports the ceiling."""
    own = v * least_cost_contract(v, K, power=POWER).privacy_loss ** POWER
    without = [
        least_cost_contract(np.where(np.arange(len(v)) == i, 1.0, v), K, power=POWER).cost for i in range(len(v))
    ]
    return np.array(without) - (own.sum() - own)


def largest_difference(_: Arguments, ours: Any, payments: Array) -> float:
    paid = getattr(ours, "payments", ours)
    return float(np.abs(payments - paid).max() / paid.max())


DIFFERENCE = "largest relative difference of a payment"


def myerson(v: Array, K: float) -> object:
    return myerson_contract(v, K, stats.uniform(0, 1), power=POWER)


def cheapest_half(reports: Array) -> Array:
    """One unit from each of the cheaper half."""
    return (reports < np.median(reports, axis=-1, keepdims=True)) * 1.0


def externalities(c: Array) -> Array:
    return vcg_payments(c, 1.0, cheapest_half, lambda r: (r * cheapest_half(r)).sum(-1))


def smooth(reports: Array) -> Array:
    return np.asarray(np.exp(-reports))


def integrated(reports: Array) -> Array:
    """Envelope payments seller by seller."""
    return np.array([c * np.exp(-c) + integrate.quad(lambda s: np.exp(-s), c, 1.0)[0] for c in reports])


# --- procurement: costs uniform on [1, 5], mu = sigma = 1, gamma = 0.01 -----------------------------------------------

LAW, SCALE = stats.uniform(1, 4), (1.0, 1.0, 0.01)
LOSS = "relative excess of the loss"


def virtual(n: int, rng: Generator) -> Arguments:
    return (virtual_valuation(LAW, LAW.rvs(n, random_state=rng), check=False),)


def by_definition(costs: Array) -> Array:
    """Envelope payments by adaptive quadrature over a whole procurement at each node."""

    def amount(report: float, i: int) -> float:
        reports = np.where(np.arange(len(costs)) == i, report, costs)
        return float(procure_fast(virtual_valuation(LAW, reports, check=False), *SCALE).privacy_loss[i])

    paid = [own * amount(own, i) + integrate.quad(amount, own, 5.0, (i,), limit=200)[0] for i, own in enumerate(costs)]
    return np.array(paid)


def under(law: Any) -> tuple[Callable[..., Any], ...]:
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


def each_alone(psi: Array) -> Array:
    """The best loss of each seller by SciPy's bounded search."""

    def bill(e: float, price: float) -> float:
        return price * e - 100 * e * e / (TASK[0] * e * e + TASK[1])

    found = [optimize.minimize_scalar(bill, args=(price,), bounds=(0, 100), method="bounded") for price in psi]
    return np.array([one.x if one.fun < 0 else 0.0 for one in found])


def by_loop(costs: Array, budget: float) -> Array:
    """FairQuery as printed, in a loop over the sellers."""
    ordered, n, sold = np.sort(costs), len(costs), 0
    for k in range(1, n):
        if ordered[k - 1] / (n - k) <= budget / k:
            sold = k
    return (costs < ordered[sold]) / (n - sold)


def searched(c: Array) -> object:
    """All lies in a first price."""
    return search_misreports(lambda reports: (np.ones_like(reports), reports), c, reports_to_try(c, 1.0))


def uniform(n: int, rng: Generator) -> Arguments:
    return (rng.random(n),)


FEW = (100, 300, 1_000, 3_000)
CASES = (
    Case(equal_loss_contract, lambda n, rng: (n, n**2 / 16)),
    Case(least_cost_contract, contract, lambda v, K: least_cost_contract(v, K, power=POWER)).beside(
        "Clarabel", lambda v, K: conic_power(v, K, power=POWER), 1_000, excess("cost"), COST
    ),
    Case(equal_loss_pricing, contract, lambda v, K: equal_loss_pricing(v, K, 1.0, power=POWER)),
    Case(vcg_contract, contract, lambda v, K: vcg_contract(v, K, 1.0, power=POWER), "all payments").beside(
        "a contract solved for each seller", one_by_one, 1_000, largest_difference, DIFFERENCE
    ),
    Case(myerson_contract, contract, myerson, "with payments", sizes=(2, 5, 10, 30)),
    Case(vcg_payments, uniform, externalities, "any rule", sizes=FEW),
    Case(envelope_payments, uniform, lambda c: envelope_payments(c, 1.0, smooth), "any rule", sizes=FEW[:-1]).beside(
        "SciPy's quad for each seller", integrated, 300, largest_difference, DIFFERENCE
    ),
    Case(procure, virtual, lambda psi: procure(psi, *SCALE)),
    Case(procure, virtual, lambda psi: procure(psi, *SCALE, cap=3 / len(psi)), "with a cap").beside(
        "Clarabel, and a search from 4 rates",
        lambda psi: conic_search(psi, *SCALE, cap=3 / len(psi), starts=4),
        1_000,
        excess("error"),
        LOSS,
    ),
    Case(procurement_auction, *under(LAW), "uniform costs", sizes=(10, *SIZES)).beside(
        "SciPy's quad over procure_fast", by_definition, 10, largest_difference, DIFFERENCE
    ),
    Case(procurement_auction, *under(stats.truncexpon(4, loc=1, scale=1)), "exponential costs"),
    Case(error_minimising, prices, lambda psi: error_minimising(psi, *TASK, 0.01)).beside(
        "SciPy's SLSQP", by_slsqp, 100, lambda _, ours, least: float(least / ours.error - 1), LOSS
    ),
    Case(fair_query, lambda n, rng: (*prices(n, rng), 2.0)).beside("a loop, as printed", by_loop, 100_000),
    Case(local_menu, prices, lambda psi: local_menu(psi, *TASK, 100.0)).beside(
        "SciPy's bounded search for each seller",
        each_alone,
        1_000,
        lambda _, ours, found: float(np.abs(found - ours.privacy_loss).max()),
        "largest difference of a loss",
    ),
    Case(search_misreports, uniform, searched, "of a first price", sizes=(10, 30, 100, 300)),
)
