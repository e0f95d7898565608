"""What owners may report to a learned auction, what it then does, and which misreports pay.

A report is a valuation of one record at each sub-bid, a privacy budget and a size. The true cost of
a misreport is that of what is really delivered: the reported number of records, at a level of the
*reported* privacy budget. Whoever would have to deliver more than she has loses infinitely much, as
in the paper. One owner misreports at a time.

Two searches look for profitable misreports: the paper's (Appendix A), which follows :func:`slopes`
on :doc:`/book/federated/regret`, and :func:`search`, whose path keeps valuations rising from
sub-bid to sub-bid. Either finds a lower bound: none sees all misreports.

Throughout, `market` holds the true bids, of shape (..., n), `budget` is the buyer's money and
`levels` the number of sub-bids `M`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_book.federated.regretnet import Network, certain, forward, smooth, sub_bid_values
from hdpm_lib.auctions.bids import FAMILIES, LARGEST_EXPONENT, Bids, check_budget, unit_valuation
from hdpm_lib.validation import (
    check_choice,
    check_count,
    check_finite,
    check_number,
    check_positive,
    extra,
)

with extra("book"):
    import jax
    import jax.numpy as jnp
    import optax
    from jax import lax


Array = NDArray[np.float64]
Function = Callable[..., tuple[Any, Any]]
Parts = tuple[Any, Any, Any, Any]
SCALES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.1, 1.5, 2.0, 4.0, 10.0)
BUDGET_SHARES = (0.25, 0.5, 0.75, 0.9, 1.1, 4 / 3, 2.0, 4.0, 8.0)
LOW = 1e-3  # least reported share of a privacy budget
CLIMBER = optax.adam(0.1)


class Reports(NamedTuple):
    """Values (..., n, M) of one record at the sub-bids, privacy budgets (..., n) and sizes (...,
    n), as reported.
    """

    values: Any
    privacy_budget: Any
    sizes: Any


@dataclass(frozen=True)
class Rule:
    """An auction of privacy by levels; :func:`learned` makes it of a network.

    Attributes
    ----------
    levels : int
    outcome : callable
        `weights`, truthful :class:`Reports`, lies and money to what each owner gets in the auction
        in which she alone makes her report of the lies: probabilities of the outcomes (..., n, M +
        1), of which the first is to sell nothing, and payments (..., n); in JAX.
    guide : callable, the same made differentiable: what a search climbs along
    weights : passed on to both: what differs between rules of one form
    """

    levels: int
    outcome: Function
    guide: Function
    weights: Any = None


def learned(network: Network) -> Rule:
    """Return the rule of a network: RegretNet and M-RegretNet as lotteries, DM-RegretNet with its
    most probable level.
    """
    certainly = network.kind == "DM-RegretNet"
    return Rule(network.levels, _outcome, _guide, (certainly, network.temperature, network.weights))


def _alone(weights: Any, truth: Reports, lies: Reports, budget: Any) -> tuple[Any, Any]:
    """Return her own probabilities and payment, of each owner in the auction in which she alone
    lies.
    """
    liar = jnp.eye(truth.sizes.shape[-1], dtype=bool)
    masks = liar[..., None], liar, liar
    axis = truth.sizes.ndim - 1
    told = Reports(
        *(
            jnp.where(mask, jnp.expand_dims(lie, axis), jnp.expand_dims(true, axis))
            for mask, lie, true in zip(masks, lies, truth, strict=True)
        )
    )
    chances, payments = forward(weights, *told, budget[..., None], jnp)
    return jnp.einsum("...iim->...im", chances), jnp.einsum("...ii->...i", payments)


def _outcome(weights: Any, *told: Any) -> tuple[Any, Any]:
    certainly, _, arrays = weights
    chances, payments = _alone(arrays, *told)
    return jnp.where(certainly, certain(chances, jnp), chances), payments


def _guide(weights: Any, *told: Any) -> tuple[Any, Any]:
    certainly, temperature, arrays = weights
    chances, payments = _alone(arrays, *told)
    return jnp.where(certainly, smooth(chances, temperature, jnp), chances), payments


@dataclass(frozen=True)
class Played:
    """What an auction does with reports.

    Attributes
    ----------
    outcomes : array of shape (..., n, M + 1), probabilities of the levels from 0 upwards
    payments : array of shape (..., n)
    costs : array of shape (..., n, M + 1), true cost of each level in money; infinite for what the
    owner does not have
    """

    outcomes: Array
    payments: Array
    costs: Array

    @property
    def cost(self) -> Array:
        """Mean cost of what is sold, shape (..., n)."""
        return np.asarray(mean_cost(np, self.outcomes, self.costs))

    @property
    def utility(self) -> Array:
        """Expected utility, shape (..., n)."""
        return self.payments - self.cost

    def relative(self, money: Array) -> Array:
        """Return the money (..., n) over the mean cost; 0 where it is 0."""
        money = check_finite(money, "money", low=0)
        with np.errstate(divide="ignore"):
            return np.divide(money, self.cost, out=np.zeros_like(money), where=money > 0)

    @property
    def invalid(self) -> Array:
        """Probability that nobody sells, shape (...)."""
        return np.asarray(self.outcomes[..., 0].prod(-1))


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
    """Return one report of every owner; with the defaults, the truth.

    Parameters
    ----------
    scale : float, not negative, reported over true valuation
    family : str, optional
        Report this base function, with the same valuation of the whole reported privacy budget.
    step : int, optional
        Report 0 below this level, from 1 to `M`, and from it on the valuation of the whole reported
        privacy budget.
    budget_share, size_share : float, positive, reported over true privacy budget and size

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
        raise ValueError(
            f"budget_share must keep privacy budgets below {LARGEST_EXPONENT}, got {budget_share}"
        )
    kind = market.family
    rate = market.rate
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


def structured(market: Bids, levels: int) -> list[Reports]:
    """Return misreports that :func:`search` begins with; the truth comes first.

    Scaled valuations, other families, a step at each level (all rising reports below a bound are
    mixtures of steps), smaller and larger privacy budgets, fewer records.
    """
    levels = check_count(levels, "levels")
    options: list[dict[str, Any]] = [{}, *({"scale": s} for s in SCALES)]
    options += [{"family": f, "scale": s} for f in FAMILIES for s in (0.25, 1.0, 4.0)]
    options += [{"step": m} for m in range(1, levels + 1)]
    options += [{"budget_share": b, "scale": s} for b in BUDGET_SHARES for s in (0.25, 1.0)]
    options += [{"size_share": d, "scale": s} for d in (0.1, 0.5, 0.9) for s in (0.25, 1.0)]
    return [misreport(market, levels, **chosen) for chosen in options]


def play(rule: Rule, market: Bids, budget: ArrayLike, lies: Reports | None = None) -> Played:
    """Return the auction with truthful reports; or, for each owner, the one in which she alone
    makes her misreport of `lies`.

    An outcome that is not a number raises a ValueError.
    """
    shape = (*market.sizes.shape, rule.levels)
    money = check_budget(budget, market)
    given = misreport(market, rule.levels) if lies is None else lies
    if (
        given.values.shape != shape
        or given.privacy_budget.shape != shape[:-1]
        or given.sizes.shape != shape[:-1]
    ):
        raise ValueError(
            f"lies must have values of shape {shape}, got {tuple(np.shape(x) for x in given)}"
        )
    with jax.enable_x64(True):
        found = _play(rule.outcome, rule.weights, parts(market), given, money)
        played = Played(*map(np.asarray, found))
    if np.isnan(played.utility).any():
        raise ValueError(
            f"rule gives a utility that is not a number in {np.isnan(played.utility).sum()} cases"
        )
    return played


def slopes(
    rule: Rule, market: Bids, budget: ArrayLike, lies: Reports, draw: ArrayLike | None = None
) -> Reports:
    """Tell how each owner's expected utility rises with her own report, at her misreport of `lies`.

    Parameters
    ----------
    draw : array of shape (..., n), uniform numbers between 0 and 1, optional
        Draw with these what is sold, and take payments and the cost of that, which no report moves.
    """
    function = rule.guide if draw is None else rule.outcome
    money = check_budget(budget, market)
    with jax.enable_x64(True):
        found = _slopes(function, rule.weights, parts(market), lies, money, draw)
        return Reports(*map(np.asarray, found))


def search(
    rule: Rule,
    market: Bids,
    budget: ArrayLike,
    *,
    steps: int | Sequence[int] = 25,
    reach: float = np.inf,
) -> tuple[Array, Reports]:
    """Return the largest gain found, and its misreport, among structured ones and on a path that
    climbs from the best of them.

    The gain (..., n) is the utility of the misreport minus that of truth, at least 0: a lower bound
    of the regret, in money.

    Parameters
    ----------
    steps : int, or sequence of int
        Length of the path; 0 for structured misreports only. For several, gains are of shape
        (lengths, ..., n), and the misreport is that of the longest.
    reach : float, above 1
        If finite, values, privacy budgets and sizes stay within this factor of the true ones, and
        no privacy budget is exaggerated: misreports like those that networks are trained against.
    """
    ends = np.array([check_count(length, "steps", 0) for length in np.ravel(steps)]).reshape(
        np.shape(steps)
    )
    if not (isinstance(reach, float) and reach == np.inf):
        check_number(reach, "reach", 1, ends="()")
    money = check_budget(budget, market)
    tries = structured(market, rule.levels)
    truth = tries[0]
    least = np.minimum(np.maximum(truth.sizes / reach, 1.0), truth.sizes)
    low = Reports(truth.values / reach, truth.privacy_budget * max(1 / reach, LOW), least)
    high = Reports(
        truth.values * reach,
        truth.privacy_budget * (1 if np.isfinite(reach) else np.inf),
        truth.sizes,
    )
    tries = [
        Reports(*(np.clip(x, a, b) for x, a, b in zip(lies, low, high, strict=True)))
        for lies in tries
    ]
    honest = best = play(rule, market, money, truth).utility
    with jax.enable_x64(True):
        fixed = (rule.weights, parts(market))
        chosen = truth
        for lies in tries[1:]:
            found = np.asarray(_utility(rule.outcome, *fixed, lies, money))
            better = found > best
            best = np.where(better, found, best)
            chosen = _pick(better, lies, chosen)
        after, chosen = _climb(rule, market, money, chosen, best, low, high, int(ends.max()))
        return np.maximum(after[ends] - honest, 0.0), Reports(*map(np.asarray, chosen))


def _climb(
    rule: Rule,
    market: Bids,
    money: Array,
    start: Reports,
    best: Array,
    low: Reports,
    high: Reports,
    steps: int,
) -> tuple[Array, Reports]:
    """Climb in the logarithms of the rises of the values, of the privacy budget and of the size.

    The best utilities so far, at the start and after each step, and the best point.
    """
    rises = np.maximum(np.diff(start.values, axis=-1, prepend=0.0), 1e-9)
    at: Any = tuple(map(np.log, (rises, *start[1:])))
    top = np.maximum(start.privacy_budget, market.privacy_budget)
    bounds = [tuple(map(np.log, ends)) for ends in ((1e-9, *low[1:]), (1e9, top, market.sizes))]
    state = CLIMBER.init(at)
    path = [best]
    chosen = lies = start
    for _ in range(steps):
        rise = slopes(rule, market, money, lies)
        at, state, lies = _uphill(at, state, rise, bounds, (low.values, high.values))
        found = np.asarray(_utility(rule.outcome, rule.weights, parts(market), lies, money))
        better = found > best
        best = np.where(better, found, best)
        chosen = _pick(better, lies, chosen)
        path.append(best)
    return np.array(path), chosen


def _pick(better: Any, new: Reports, old: Reports) -> Reports:
    values = np.where(better[..., None], new.values, old.values)
    return Reports(values, *(np.where(better, a, b) for a, b in zip(new[1:], old[1:], strict=True)))


# --- arrays of JAX, inside jit ------------------------------------------------------------------


def parts(market: Bids) -> Parts:
    """Return bids as a tuple of arrays, which JAX can take."""
    return market.family, market.rate, market.privacy_budget, market.sizes


def true_costs(market: Parts, lies: Reports, limits: bool = True) -> Any:
    """Return true costs (..., n, M + 1) of the levels; with `limits` infinite beyond what the owner
    has.
    """
    levels = lies.values.shape[-1]
    curve = (
        sub_bid_values(market[0], market[1], lies.privacy_budget, levels, jnp)
        * lies.sizes[..., None]
    )
    costs = jnp.concatenate([jnp.zeros_like(curve[..., :1]), curve], -1)
    if not limits:
        return costs
    delivered = lies.privacy_budget[..., None] * (jnp.arange(levels + 1) / levels)
    too_many = lies.sizes > market[3] * (1 + 1e-12)
    return jnp.where(
        (delivered > market[2][..., None] * (1 + 1e-12)) | too_many[..., None], jnp.inf, costs
    )


def mean_cost(xp: Any, outcomes: Any, costs: Any) -> Any:
    """Return the expected cost, where an infinite cost with probability 0 counts nothing; `xp` is
    NumPy or JAX's.
    """
    return xp.where(outcomes > 0, outcomes * xp.where(outcomes > 0, costs, 0), 0).sum(-1)


def _lying(
    function: Function, weights: Any, market: Parts, lies: Reports, budget: Any
) -> tuple[Any, Any]:
    family, rate, ceiling, sizes = market
    truth = Reports(
        sub_bid_values(family, rate, ceiling, lies.values.shape[-1], jnp), ceiling, sizes
    )
    return function(weights, truth, lies, budget)


@partial(jax.jit, static_argnums=0)
def _play(
    outcome: Function, weights: Any, market: Parts, lies: Reports, budget: Any
) -> tuple[Any, Any, Any]:
    outcomes, payments = _lying(outcome, weights, market, lies, budget)
    return outcomes, payments, true_costs(market, lies)


@partial(jax.jit, static_argnums=0)
def _utility(outcome: Function, weights: Any, market: Parts, lies: Reports, budget: Any) -> Any:
    outcomes, payments = _lying(outcome, weights, market, lies, budget)
    return payments - mean_cost(jnp, outcomes, true_costs(market, lies))


def _smooth_utility(
    guide: Function, weights: Any, market: Parts, lies: Reports, budget: Any
) -> Any:
    """Sum over owners and auctions: each owner's report moves her own utility only."""
    outcomes, payments = _lying(guide, weights, market, lies, budget)
    return (payments - (outcomes * true_costs(market, lies, limits=False)).sum(-1)).sum()


def _drawn_utility(
    outcome: Function, weights: Any, market: Parts, lies: Reports, budget: Any, draw: Any
) -> Any:
    """Return the same at one draw of what is sold, which no report moves."""
    outcomes, payments = _lying(outcome, weights, market, lies, budget)
    level = (draw[..., None] > lax.stop_gradient(outcomes).cumsum(-1)[..., :-1]).sum(-1)
    costs = true_costs(market, lies, limits=False)
    return (payments - jnp.take_along_axis(costs, level[..., None], -1)[..., 0]).sum()


@partial(jax.jit, static_argnums=0)
def _slopes(
    function: Function, weights: Any, market: Parts, lies: Reports, budget: Any, draw: Any
) -> Reports:
    def utility(told: Reports) -> Any:
        if draw is None:
            return _smooth_utility(function, weights, market, told, budget)
        return _drawn_utility(function, weights, market, told, budget, draw)

    found: Reports = jax.grad(utility)(lies)
    return found


@jax.jit
def _uphill(at: Any, state: Any, rise: Reports, bounds: Any, values: Any) -> tuple[Any, Any, Any]:
    """Return a step of the climber from these logarithms, along how utilities rise with the reports
    there; and the reports where it ends.
    """

    def reports(at: Any) -> Reports:
        rises, *others = map(jnp.exp, at)
        return Reports(jnp.clip(rises.cumsum(-1), *values), *others)

    _, back = jax.vjp(reports, at)
    updates, state = CLIMBER.update(*back(Reports(*(-x for x in rise))), state)
    at = tuple(jnp.clip(x + u, a, b) for x, u, a, b in zip(at, updates, *bounds, strict=True))
    return at, state, reports(at)
