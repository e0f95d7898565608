r"""What owners may report to a learned auction, and what the auction then does.

A report is a valuation of one record at each sub-bid, a privacy budget and a size. The true cost of a misreport is that
of what is really delivered: the reported number of records, at a level of the *reported* privacy budget. Whoever would
have to deliver more than she has loses infinitely much, as in the paper. One owner misreports at a time.

Owners are on the last axis, auctions on the axes before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.auctions.bids import FAMILIES, LARGEST_EXPONENT, Bids, check_budget, unit_valuation
from hdpm_lib.auctions.networks import Network, Weights, allocation, forward, smooth_allocation, sub_bid_values
from hdpm_lib.optional import extra
from hdpm_lib.validation import check_choice, check_count, check_finite, check_number, check_positive

with extra("learned"):
    import jax
    import jax.numpy as jnp


Array = NDArray[np.float64]
Function = Callable[..., tuple[Any, Any]]
Parts = tuple[Any, Any, Any, Any]


class Reports(NamedTuple):
    """Values (..., n, M) of one record at the sub-bids, privacy budgets (..., n) and sizes (..., n), as reported."""

    values: Any
    privacy_budget: Any
    sizes: Any


@dataclass(frozen=True)
class Rule:
    """An auction of privacy by levels; :func:`learned` makes it of a network.

    Attributes
    ----------
    levels : int
        Number of sub-bids `M`.
    outcome : callable
        `weights`, values, privacy budgets, sizes and money to probabilities of the outcomes (..., n, M + 1), of which
        the first is to sell nothing, and to payments (..., n); in JAX.
    guide : callable
        The same, made differentiable: what a search climbs along.
    weights : optional
        Passed on to both: what differs between rules of one form.
    """

    levels: int
    outcome: Function
    guide: Function
    weights: Any = None


@dataclass(frozen=True)
class Played:
    """What an auction does with reports.

    Attributes
    ----------
    outcomes : array of shape (..., n, M + 1)
        Probabilities of the levels from 0 upwards.
    payments : array of shape (..., n)
    costs : array of shape (..., n, M + 1)
        True cost of each level in money; infinite for what the owner does not have.
    smooth_cost : array of shape (..., n)
        The paper's normaliser `c`: mean cost under the *smoothed* outcomes.
    """

    outcomes: Array
    payments: Array
    costs: Array
    smooth_cost: Array

    @property
    def cost(self) -> Array:
        """Mean cost of what is sold, shape (..., n)."""
        return np.asarray(mean_cost(np, self.outcomes, self.costs))

    @property
    def utility(self) -> Array:
        """Expected utility, shape (..., n)."""
        return self.payments - self.cost

    def relative(self, money: Array) -> Array:
        """Money (..., n) over the smooth cost; 0 where it is 0."""
        money = check_finite(money, "money", low=0)
        with np.errstate(divide="ignore"):
            return np.divide(money, self.smooth_cost, out=np.zeros_like(money), where=money > 0)

    @property
    def invalid(self) -> Array:
        """Probability that nobody sells, shape (...)."""
        return np.asarray(self.outcomes[..., 0].prod(-1))


def learned(network: Network, weights: Weights) -> Rule:
    """The rule of a network: RegretNet and M-RegretNet as lotteries, DM-RegretNet with its most probable outcome."""
    arrays = {name: np.asarray(w, float) for name, w in weights.items()}
    outcome, guide = _functions(replace(network, kind="DM-RegretNet"))
    return Rule(network.levels, outcome, guide, (network.kind == "DM-RegretNet", arrays))


@lru_cache
def _functions(network: Network) -> tuple[Function, Function]:
    """Outcome and guide of networks of that shape; whether a network is deterministic is data, to compile once."""

    def outcome(weights: tuple[Any, Weights], *reports: Any) -> tuple[Any, Any]:
        probabilities, payments = forward(network, weights[1], *reports)
        return jnp.where(weights[0], allocation(network, probabilities), probabilities), payments

    def guide(weights: tuple[Any, Weights], *reports: Any) -> tuple[Any, Any]:
        probabilities, payments = forward(network, weights[1], *reports)
        return jnp.where(weights[0], smooth_allocation(network, probabilities), probabilities), payments

    return outcome, guide


def misreport(
    market: Bids,
    levels: int,
    *,
    scale: float = 1.0,
    family: str | None = None,
    step: int | None = None,
    budget_share: float = 1.0,
    size_share: float = 1.0,
) -> Reports:
    """One report of every owner; with the defaults, the truth.

    Parameters
    ----------
    market : Bids
        True bids (..., n).
    levels : int
        Number of sub-bids `M`.
    scale : float
        Reported over true valuation, not negative.
    family : str, optional
        Report this base function, with the same valuation of the whole reported privacy budget.
    step : int, optional
        Report 0 below this level, from 1 to `M`, and from it on the valuation of the whole reported privacy budget.
    budget_share, size_share : float
        Reported over true privacy budget and size, positive.

    Returns
    -------
    Reports

    Raises
    ------
    ValueError
        For a number out of range or an unknown family.

    Examples
    --------
    >>> from hdpm_lib.auctions.bids import bids
    >>> misreport(bids("linear", 1.0, [1.0], [50]), 2, scale=0.25).values
    array([[0.25, 0.5 ]])
    """
    check_count(levels, "levels")
    check_number(scale, "scale", 0)
    ceiling = market.privacy_budget * check_positive(budget_share, "budget_share")
    if ceiling.max() > LARGEST_EXPONENT:
        raise ValueError(f"budget_share must keep privacy budgets below {LARGEST_EXPONENT}, got {budget_share}")
    kind, rate = market.family, market.rate
    top = unit_valuation(kind, rate, ceiling)
    if family is not None:
        check_choice(family, "family", FAMILIES)
        kind = np.full_like(kind, FAMILIES.index(family))
        rate = top / unit_valuation(kind, 1.0, ceiling)
    values = sub_bid_values(kind, rate, ceiling, levels)
    if step is not None:
        if check_count(step, "step") > levels:
            raise ValueError(f"step must be at most {levels}, the number of levels, got {step}")
        values = np.where(np.arange(1, levels + 1) >= step, top[..., None], 0.0)
    return Reports(scale * values, ceiling, market.sizes * check_positive(size_share, "size_share"))


def play(rule: Rule, market: Bids, budget: ArrayLike, lies: Reports | None = None) -> Played:
    """The auction with truthful reports; or for each owner the auction in which she alone makes her misreport.

    Parameters
    ----------
    rule : Rule
    market : Bids
        True bids (..., n).
    budget : array of shape (...)
        Positive money.
    lies : Reports, optional
        Such as of :func:`misreport`.

    Returns
    -------
    Played

    Raises
    ------
    ValueError
        For a budget or reports that do not fit, or an outcome that is not a number.
    """
    shape, money = (*market.sizes.shape, rule.levels), check_budget(budget, market)
    given = misreport(market, rule.levels) if lies is None else lies
    if given.values.shape != shape or given.privacy_budget.shape != shape[:-1] or given.sizes.shape != shape[:-1]:
        raise ValueError(f"lies must have values of shape {shape}, got {tuple(np.shape(x) for x in given)}")
    with jax.enable_x64(True):
        found = _play(rule.outcome, rule.guide, lies is None, rule.weights, parts(market), given, money)
        played = Played(*map(np.asarray, found))
    if np.isnan(played.utility).any():
        raise ValueError(f"rule gives a utility that is not a number in {np.isnan(played.utility).sum()} cases")
    return played


# --- arrays of JAX, inside jit ----------------------------------------------------------------------------------------


def parts(market: Bids) -> Parts:
    """Bids as a tuple of arrays, which JAX can take."""
    return market.family, market.rate, market.privacy_budget, market.sizes


def _truth(market: Parts, levels: int) -> Reports:
    family, rate, ceiling, sizes = market
    return Reports(sub_bid_values(family, rate, ceiling, levels), ceiling, sizes)


def alone(function: Function, weights: Any, market: Parts, lies: Reports, budget: Any) -> tuple[Any, Any]:
    """Outcomes (..., n, M + 1) and payments (..., n) of each owner in the auction in which she alone misreports."""
    truth = _truth(market, lies.values.shape[-1])
    liar = jnp.eye(lies.sizes.shape[-1], dtype=bool)
    values = jnp.where(liar[..., None], lies.values[..., None, :, :], truth.values[..., None, :, :])
    rest = [jnp.where(liar, a[..., None, :], b[..., None, :]) for a, b in zip(lies[1:], truth[1:], strict=True)]
    money = jnp.broadcast_to(budget[..., None], rest[0].shape[:-1])
    outcomes, payments = function(weights, values, *rest, money)
    return jnp.einsum("...iim->...im", outcomes), jnp.einsum("...ii->...i", payments)


def true_costs(market: Parts, lies: Reports, limits: bool = True) -> Any:
    """True costs (..., n, M + 1) of the levels; with `limits` infinite beyond what the owner has."""
    levels = lies.values.shape[-1]
    curve = sub_bid_values(market[0], market[1], lies.privacy_budget, levels) * lies.sizes[..., None]
    costs = jnp.concatenate([jnp.zeros_like(curve[..., :1]), curve], -1)
    if not limits:
        return costs
    delivered = lies.privacy_budget[..., None] * (jnp.arange(levels + 1) / levels)
    too_many = lies.sizes > market[3] * (1 + 1e-12)
    return jnp.where((delivered > market[2][..., None] * (1 + 1e-12)) | too_many[..., None], jnp.inf, costs)


def mean_cost(xp: Any, outcomes: Any, costs: Any) -> Any:
    """Expected cost, where an infinite cost with probability 0 counts nothing; `xp` is NumPy or JAX's."""
    return xp.where(outcomes > 0, outcomes * xp.where(outcomes > 0, costs, 0), 0).sum(-1)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _play(
    outcome: Function, guide: Function, truthful: bool, weights: Any, market: Parts, lies: Reports, budget: Any
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    def one(function: Function) -> tuple[Any, Any]:
        if truthful:
            return function(weights, *lies, budget)
        return alone(function, weights, market, lies, budget)

    (outcomes, payments), costs = one(outcome), true_costs(market, lies)
    return outcomes, payments, costs, mean_cost(jnp, one(guide)[0], costs)
