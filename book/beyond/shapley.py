r"""Paid by Shapley value: the auction's purchase, its money shared by what each seller's record is
worth to the estimate (:doc:`/book/beyond/market`).

A *coalition* of sellers who lose :math:`\varepsilon_i` is worth the fall of the mean squared error
that its weighted mean brings, shrunk by the buyer. This depends on two sums, :math:`S=\sum
\varepsilon_i` and :math:`Q=\sum\varepsilon_i^2`. A seller's *value* is what she adds, on average
over all orders in which the sellers may come (Shapley 1953, "A Value for n-Person Games").
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hdpm_book.beyond import incentives, market
from hdpm_lib.designs.rules import DESIGNS, Market, Task
from hdpm_lib.markets.incentives import search_misreports

Array = NDArray[np.float64]
Worth = Callable[[Array, Array], Array]  # of the sums S and Q of coalitions
AUCTION = "error-minimising auction"
NAME = "paid by Shapley value"
SHOWN = [
    ("Shapley", "the truth"),
    ("Shapley", "one lies about her cost"),
    ("Shapley", "all lie in turn"),
    ("Shapley", "one comes twice"),
    ("auction", "the truth"),
    ("auction", "one comes twice"),
]
SMALLEST_GAIN = 0.01  # for less money nobody changes her report; the budget is 30


def fall_of_error(total: Array, squares: Array, task: Task = market.TASK) -> Array:
    """Return by how much coalitions lower the mean squared error, from their sums S and Q."""
    spread = task.variance * squares + task.noise
    return task.distance**2 * total**2 / (task.distance * total**2 + spread)


# --- the value ----------------------------------------------------------------------------------


def exact_values(epsilon: Array, worth: Worth = fall_of_error) -> Array:
    """Return the Shapley value of each seller, from all coalitions: for up to some 15 sellers."""
    n = len(epsilon)
    member = (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1
    values = worth(member @ epsilon, member @ epsilon**2)
    size = member.sum(-1)
    found = np.zeros(n)
    for i in range(n):
        without = np.flatnonzero(~member[:, i])
        # the chance that she meets this coalition: she has any place in the order, all alike
        chance = np.array([1 / (n * comb(n - 1, k)) for k in range(n)])[size[without]]
        found[i] = chance @ (values[without + 2**i] - values[without])
    return found


class Sampled(NamedTuple):
    """Shapley values from sampled orders, and their standard errors."""

    values: Array
    standard_errors: Array


def sampled_values(
    epsilon: Array, circles: NDArray[np.intp], worth: Worth = fall_of_error
) -> Sampled:
    """Return what each seller adds on average in sampled orders.

    Each row of `circles` holds all sellers in a random order. Taken as a circle it gives 2n orders:
    from every seller on, in both directions. So everybody comes at every place equally often.
    """
    count, n = circles.shape
    place = np.arange(n)
    from_each = (place[:, None] + place) % n  # who comes at which place, from each start
    start_of = (place[:, None] - place) % n  # the start from which she comes at a place
    added = np.zeros((count, n))
    for circle in (circles, circles[:, ::-1]):
        losses = epsilon[circle][:, from_each]
        values = worth(losses.cumsum(-1), (losses**2).cumsum(-1))
        gain = np.diff(values, axis=-1, prepend=0.0)
        mean = gain[:, start_of, place].mean(-1)  # over the starts, for each seat of the circle
        rows = np.arange(count)[:, None]
        added[rows, circle] += mean / 2
    standard_errors = added.std(0, ddof=1) / np.sqrt(count)
    return Sampled(added.mean(0), standard_errors)


def random_circles(count: int, n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return random orders of n sellers, one a row."""
    return rng.random((count, n)).argsort(-1)


# --- the market ---------------------------------------------------------------------------------


class Paid(NamedTuple):
    """Who sells in the market of a thousand sellers, and who is paid less than her cost."""

    sellers: float  # mean number over the draws of costs
    at_a_loss: float  # of them
    price: float  # mean payment for a unit of loss
    standard_error: float  # of a payment, as a share of it; the median over sellers
    without_them: float  # error if all who are paid less than their cost leave, over that with them


def paid(budget: float, circles: int = 4) -> Paid:
    """Return how the auction's purchase is paid in the draws of costs of the page's table."""
    draw = np.random.default_rng([7, 0])
    costs = market.LAW.ppf(draw.random((market.DRAWS, market.SELLERS)))
    deal = DESIGNS[AUCTION](Market(market.TASK, market.LAW, budget), costs)
    rng = np.random.default_rng(8)
    rows = []
    for losses, cost in zip(deal.privacy_loss, costs, strict=True):
        sells = losses > 0
        sold = losses[sells]
        values, errors = sampled_values(sold, random_circles(circles, len(sold), rng))
        payments = budget * values / values.sum()
        stays = payments >= cost[sells] * sold
        rows.append(
            (
                len(sold),
                len(sold) - stays.sum(),
                budget / sold.sum(),
                np.median(errors / values),
                error_of(sold[stays]) / error_of(sold),
            )
        )
    return Paid(*np.mean(rows, axis=0).tolist())


def with_row(table: pd.DataFrame, budget: float) -> pd.DataFrame:
    """Return the table of the designs with one more: the auction's purchase, paid by value."""
    row = table.loc[AUCTION].copy()
    cost = row["money"] - row["rents"]
    row["money"] = budget  # in every draw
    row["rents"] = budget - cost
    above = table.index.get_loc(AUCTION) + 1
    return pd.concat([table[:above], row.to_frame(NAME).T, table[above:]])


# --- lies, in the market of forty sellers -------------------------------------------------------


def shares(keys: Array) -> incentives.Mechanism:
    """Return the mechanism: reported costs to losses and payments.

    The `keys`, a row for each circle and a column for each seller, fix the orders.
    """
    gamma = incentives.tuned(incentives.least_error)

    def mechanism(profiles: Array) -> tuple[Array, Array]:
        epsilon, _ = incentives.least_error(2 * profiles - 1, gamma)
        payments = np.zeros_like(epsilon)
        for k, losses in enumerate(epsilon):
            sells = losses > 0
            orders = keys[:, : len(losses)][:, sells]
            values = sampled_values(losses[sells], orders.argsort(-1)).values
            payments[k, sells] = incentives.BUDGET * values / values.sum()
        return epsilon, payments

    return mechanism


def error_of(losses: Array, names: NDArray[np.intp] | None = None) -> float:
    """Return the root of the population error by the buyer's guesses.

    If somebody has several names, `names` says whose each loss is: her record counts once for all.
    """
    task = market.TASK
    own = losses if names is None else np.bincount(names, losses)
    spread = (task.variance * (own**2).sum() + task.noise) / losses.sum() ** 2
    return float(np.sqrt(task.distance * spread / (task.distance + spread)))


def everybody_lies(mechanism: incentives.Mechanism, costs: Array) -> Array:
    """Return reports from which no other report on a grid gains a seller much: all lie in turn."""
    reports = costs.copy()
    grid = np.linspace(1, incentives.TOP, 25)
    losses, payments = (part[0] for part in mechanism(costs[None]))
    sells = losses > 0
    dearest = 1.5 * (payments[sells] / losses[sells]).max()  # nobody is paid so much for a unit
    for _ in range(20):
        before = reports.copy()
        for i in np.flatnonzero(costs < dearest):
            tried = np.tile(reports, (len(grid) + 1, 1))
            tried[1:, i] = grid
            losses, payments = mechanism(tried)
            utility = payments[:, i] - costs[i] * losses[:, i]
            if utility.max() > utility[0] + SMALLEST_GAIN:
                reports[i] = tried[utility.argmax(), i]
        if (reports == before).all():
            return reports
    raise RuntimeError("reports do not settle in 20 rounds")


def two_names(rule: Callable[[Array], incentives.Mechanism], costs: Array) -> tuple[Array, float]:
    """Return what each seller gains by coming twice with one record, and the error if the one does
    who gains most. The names' losses add up, and so do their costs.
    """
    losses, payments = (part[0] for part in rule(costs)(costs[None]))
    honest = payments - costs * losses
    gain = np.zeros(len(costs))
    errors = np.zeros(len(costs))
    for i in np.flatnonzero(losses):  # who sells nothing once sells nothing twice
        twice = np.append(costs, costs[i])
        losses, payments = (part[0] for part in rule(twice)(twice[None]))
        names = np.append(np.arange(len(costs)), i)
        gain[i] = (payments - twice * losses)[names == i].sum() - honest[i]
        errors[i] = error_of(losses, names)
    return gain, float(errors[gain.argmax()])


def lies(circles: int = 4) -> pd.DataFrame:
    """Return what lies bring under two ways to pay for the auction's purchase.

    Over three draws of the costs: the largest gain, how many gain, how many sell, how many of them
    are paid less than their cost, and the means of rents and error. That no lie about a cost gains
    under the auction's own payments is checked in :mod:`hdpm_book.beyond.incentives`.
    """
    keys = np.random.default_rng(9).random((circles, incentives.SELLERS + 1))
    gamma = incentives.tuned(incentives.least_error)

    def by_value(costs: Array) -> incentives.Mechanism:
        return shares(keys)

    def envelope(costs: Array) -> incentives.Mechanism:
        return incentives.truthful(incentives.least_error, gamma, costs)

    rows: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for costs in incentives.draws():
        for name, rule in (("Shapley", by_value), ("auction", envelope)):
            losses, payments = (part[0] for part in rule(costs)(costs[None]))
            rows.setdefault((name, "the truth"), []).append(
                (0.0, 0, *_outcome(losses, payments, costs))
            )
            gain, error = two_names(rule, costs)
            gainers = int((gain > 1e-9).sum())
            rows.setdefault((name, "one comes twice"), []).append(
                (float(gain.max()), gainers, np.nan, np.nan, np.nan, error)
            )
        mechanism = shares(keys)
        search = search_misreports(mechanism, costs, incentives.lies(costs), refine=False)
        liar = int(search.gain.argmax())
        reports = costs.copy()
        reports[liar] = search.report[liar]
        losses, _ = mechanism(reports[None])
        gainers = int((search.gain > 1e-9).sum())
        rows.setdefault(("Shapley", "one lies about her cost"), []).append(
            (float(search.gain[liar]), gainers, np.nan, np.nan, np.nan, error_of(losses[0]))
        )
        losses, payments = (part[0] for part in mechanism(everybody_lies(mechanism, costs)[None]))
        rows.setdefault(("Shapley", "all lie in turn"), []).append(
            (np.nan, np.nan, *_outcome(losses, payments, costs))
        )
    table = pd.DataFrame({key: _summary(found) for key, found in rows.items()}).T
    return table.loc[SHOWN]


def _outcome(losses: Array, payments: Array, costs: Array) -> tuple[int, int, float, float]:
    """Return how many sell, how many are paid less than their cost, the rents, and the error."""
    utility = payments - costs * losses
    sellers = int((losses > 0).sum())
    at_a_loss = int((utility < -1e-9).sum())
    return sellers, at_a_loss, float(utility.sum()), error_of(losses)


def _summary(rows: list[tuple[float, ...]]) -> dict[str, float]:
    """Return one row of the table, from those of the draws."""
    gain, gainers, sellers, at_a_loss, rents, error = np.array(rows, dtype=float).T
    return {
        "largest gain": gain.max(),
        "sellers who gain": gainers.sum(),
        "who sell": sellers.sum(),
        "paid less than cost": at_a_loss.sum(),
        "rents": rents.mean(),
        "error": error.mean(),
    }
