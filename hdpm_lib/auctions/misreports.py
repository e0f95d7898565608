r"""Search for profitable misreports in a learned auction, one owner at a time.

- :func:`printed_search` is the paper's: the last point of a gradient ascent (Appendix A).
- :func:`search` tries a list of structured misreports, climbs from the best one with valuations that rise from sub-bid
  to sub-bid, and keeps the best point.
- :func:`printed_regret` and :func:`noise_floor` say what the paper's estimator shows at a misreport, and without any.

Either search finds a lower bound: none sees all misreports. Owners are on the last axis, auctions on those before.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.auctions.bids import FAMILIES, Bids, check_budget
from hdpm_lib.auctions.reports import (
    Function,
    Parts,
    Played,
    Reports,
    Rule,
    alone,
    mean_cost,
    misreport,
    parts,
    play,
    true_costs,
)
from hdpm_lib.optional import extra
from hdpm_lib.validation import (
    check_choice,
    check_count,
    check_finite,
    check_flag,
    check_generator,
    check_number,
    check_positive,
)

with extra("learned"):
    import jax
    import jax.numpy as jnp
    import optax
    from jax import lax


Array = NDArray[np.float64]
CLAMPS = ("none", "sub-bids", "owners")
SCALES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.1, 1.5, 2.0, 4.0, 10.0)
BUDGET_SHARES = (0.25, 0.5, 0.75, 0.9, 1.1, 4 / 3, 2.0, 4.0, 8.0)
LOW = 1e-3  # least reported share of a privacy budget


def structured(market: Bids, levels: int) -> list[Reports]:
    """Misreports that :func:`search` begins with; the truth comes first.

    Scaled valuations, other families, a step at each level (all rising reports below a bound are mixtures of steps),
    smaller and larger privacy budgets, fewer records. Arguments as for :func:`~hdpm_lib.auctions.reports.misreport`.

    Examples
    --------
    >>> from hdpm_lib.auctions.bids import bids
    >>> len(structured(bids("linear", 1.0, [1.0], [50]), 8))
    56
    """
    levels = check_count(levels, "levels")
    options: list[dict[str, Any]] = [{}, *({"scale": s} for s in SCALES)]
    options += [{"family": f, "scale": s} for f in FAMILIES for s in (0.25, 1.0, 4.0)]
    options += [{"step": m} for m in range(1, levels + 1)]
    options += [{"budget_share": b, "scale": s} for b in BUDGET_SHARES for s in (0.25, 1.0)]
    options += [{"size_share": d, "scale": s} for d in (0.1, 0.5, 0.9) for s in (0.25, 1.0)]
    return [misreport(market, levels, **chosen) for chosen in options]


def printed_search(
    rule: Rule,
    market: Bids,
    budget: ArrayLike,
    *,
    steps: int = 100,
    rate: float = 0.1,
    clamp: str = "none",
    frozen: bool = False,
) -> Reports:
    """The paper's search: `steps` updates of all reports along the gradient of the own utility; the last point.

    Parameters
    ----------
    rule : Rule
    market : Bids
        True bids (..., n).
    budget : array of shape (...)
        Positive money.
    steps : int, default 100
        `J`; 0 gives the truth.
    rate : float, default 0.1
        Gamma, positive.
    clamp : {"none", "sub-bids", "owners"}
        Raise values so that they do not fall from sub-bid to sub-bid; or from owner to owner, as in the published code.
    frozen : bool, default False
        Take the outcomes as given and follow payments and delivered cost only, as in the published code's tests.

    Returns
    -------
    Reports
        Values not negative, privacy budgets and sizes at most the true ones.

    Raises
    ------
    ValueError
        For an option or a number out of range.
    """
    check_choice(clamp, "clamp", CLAMPS)
    check_count(steps, "steps", 0)
    options = (int(steps), check_positive(rate, "rate"), CLAMPS.index(clamp), check_flag(frozen, "frozen"))
    start, money = misreport(market, rule.levels), check_budget(budget, market)
    with jax.enable_x64(True):
        found = _printed(rule.guide, rule.weights, parts(market), start, money, *options)
        return Reports(*map(np.asarray, found))


def printed_regret(truth: Played, lie: Played, rng: np.random.Generator | None = None) -> Array:
    r"""The paper's empirical regret at given misreports, owner by owner.

    Parameters
    ----------
    truth, lie : Played
        Of :func:`~hdpm_lib.auctions.reports.play`.
    rng : numpy.random.Generator, optional
        Draw the outcomes of truth and misreport independently of each other, as the published code does. Without it,
        utilities are expected ones.

    Returns
    -------
    array of shape (..., n)
        :math:`\max(0,u_i(b')-u_i(b))/c_i`; 0 where both are 0.

    Raises
    ------
    ValueError
        If the shapes differ.
    """
    rng = None if rng is None else check_generator(rng)
    if truth.costs.shape != lie.costs.shape:
        raise ValueError(f"lie must have the shape of truth {truth.costs.shape}, got {lie.costs.shape}")
    honest, other = (x.utility if rng is None else x.payments - _drawn(x.outcomes, x.costs, rng) for x in (truth, lie))
    return truth.relative(np.maximum(other - honest, 0))


def _drawn(outcomes: Array, costs: Array, rng: np.random.Generator) -> Array:
    """Cost of a random level."""
    level = (rng.random(outcomes.shape[:-1])[..., None] > outcomes.cumsum(-1)[..., :-1]).sum(-1, keepdims=True)
    return np.asarray(np.take_along_axis(costs, level, -1)[..., 0])


def noise_floor(outcomes: ArrayLike, costs: ArrayLike) -> Array:
    r"""Exact mean of the regret from independent draws when nobody misreports: the Gini coefficient of the cost.

    Parameters
    ----------
    outcomes, costs : arrays of shape (..., M + 1)
        Probabilities of the levels, and what each costs.

    Returns
    -------
    array of shape (...)
        :math:`\mathbb E\max(0,V-V')/\mathbb E V` for independent costs :math:`V,V'`; 0 if the cost is always 0.

    Raises
    ------
    ValueError
        If the shapes differ, or something is negative or not finite.

    Notes
    -----
    With one level, the probability of selling nothing. With more, between that and the one of selling less than all.

    Examples
    --------
    >>> round(float(noise_floor([0.9, 0.1], [0.0, 7.0])), 12)
    0.9
    """
    z, v = check_finite(outcomes, "outcomes", low=0), check_finite(costs, "costs", low=0)
    if z.shape != v.shape or z.ndim == 0:
        raise ValueError(f"outcomes and costs must have one shape (..., M + 1), got {z.shape} and {v.shape}")
    gaps = np.einsum("...a,...b,...ab->...", z, z, np.maximum(v[..., :, None] - v[..., None, :], 0))
    mean = (z * v).sum(-1)
    return np.asarray(gaps / np.where(mean > 0, mean, 1.0))


def search(
    rule: Rule, market: Bids, budget: ArrayLike, *, steps: int = 25, reach: float = np.inf
) -> tuple[Array, Reports]:
    """The best misreport found among structured ones and on a path that climbs from the best of them.

    Parameters
    ----------
    rule : Rule
    market : Bids
        True bids (..., n).
    budget : array of shape (...)
        Positive money.
    steps : int, default 25
        Length of the path; 0 for structured misreports only.
    reach : float
        Above 1. If finite, values, privacy budgets and sizes stay within this factor of the true ones, and no privacy
        budget is exaggerated: misreports like those that networks are trained against.

    Returns
    -------
    gain : array of shape (..., n)
        Utility of the misreport minus that of truth, at least 0: a lower bound of the regret, in money.
    reports : Reports

    Raises
    ------
    ValueError
        As for :func:`~hdpm_lib.auctions.reports.play`, or for a `reach` not above 1.
    """
    check_count(steps, "steps", 0)
    if not (isinstance(reach, float) and reach == np.inf):
        check_number(reach, "reach", 1, ends="()")
    money, tries = check_budget(budget, market), structured(market, rule.levels)
    truth = tries[0]
    least = np.minimum(np.maximum(truth.sizes / reach, 1.0), truth.sizes)
    low = Reports(truth.values / reach, truth.privacy_budget * max(1 / reach, LOW), least)
    high = Reports(truth.values * reach, truth.privacy_budget * (1 if np.isfinite(reach) else np.inf), truth.sizes)
    tries = [Reports(*(np.clip(x, a, b) for x, a, b in zip(lies, low, high, strict=True))) for lies in tries]
    honest = best = play(rule, market, money, truth).utility
    with jax.enable_x64(True):
        fixed, chosen = (rule.weights, parts(market)), truth
        for lies in tries[1:]:
            found = np.asarray(_utility(rule.outcome, *fixed, lies, money))
            better = found > best
            best, chosen = np.where(better, found, best), _pick(np, better, lies, chosen)
        if steps:
            best, chosen = _climb(rule.outcome, rule.guide, *fixed, chosen, best, money, steps, low, high)
        return np.maximum(np.asarray(best) - honest, 0.0), Reports(*map(np.asarray, chosen))


# --- arrays of JAX, inside jit ----------------------------------------------------------------------------------------


def _pick(xp: Any, better: Any, new: Reports, old: Reports) -> Reports:
    return Reports(
        xp.where(better[..., None], new[0], old[0]),
        *(xp.where(better, a, b) for a, b in zip(new[1:], old[1:], strict=True)),
    )


@partial(jax.jit, static_argnums=0)
def _utility(outcome: Function, weights: Any, market: Parts, lies: Reports, budget: Any) -> Any:
    outcomes, payments = alone(outcome, weights, market, lies, budget)
    return payments - mean_cost(jnp, outcomes, true_costs(market, lies))


def _smooth_utility(guide: Function, frozen: Any, weights: Any, market: Parts, lies: Reports, budget: Any) -> Any:
    """Sum over owners and auctions: each owner's report moves her own utility only."""
    outcomes, payments = alone(guide, weights, market, lies, budget)
    outcomes = jnp.where(frozen, lax.stop_gradient(outcomes), outcomes)
    return (payments - (outcomes * true_costs(market, lies, limits=False)).sum(-1)).sum()


@partial(jax.jit, static_argnums=0)
def _printed(
    guide: Function, weights: Any, market: Parts, start: Reports, budget: Any, steps: int, rate: float, clamp: int,
    frozen: bool,
) -> Reports:  # fmt: skip
    slopes = jax.grad(lambda lies: _smooth_utility(guide, frozen, weights, market, lies, budget))

    def step(_: int, lies: Reports) -> Reports:
        moved = Reports(*(x + rate * slope for x, slope in zip(lies, slopes(lies), strict=True)))
        values = jnp.maximum(moved.values, 0)
        rising = [values, lax.cummax(values, axis=values.ndim - 1), lax.cummax(values, axis=values.ndim - 2)]
        ceiling = jnp.clip(moved.privacy_budget, LOW * market[2], market[2])
        return Reports(lax.select_n(clamp, *rising), ceiling, jnp.clip(moved.sizes, 1.0, market[3]))

    return lax.fori_loop(0, steps, step, start)


@partial(jax.jit, static_argnums=(0, 1))
def _climb(
    outcome: Function, guide: Function, weights: Any, market: Parts, start: Reports, best: Any, budget: Any, steps: int,
    low: Reports, high: Reports,
) -> tuple[Any, Reports]:  # fmt: skip
    """Ascent in the logarithms of the rises of the values, of the privacy budget and of the size; best point."""
    rises = jnp.maximum(jnp.diff(start.values, axis=-1, prepend=0.0), 1e-9)
    top = jnp.maximum(start.privacy_budget, market[2])
    bounds = (1e-9, *low[1:]), (1e9, top, market[3])
    least, most = (tuple(map(jnp.log, bound)) for bound in bounds)
    first = (jnp.log(rises), jnp.log(start.privacy_budget), jnp.log(start.sizes))

    def reports(at: tuple[Any, Any, Any]) -> Reports:
        return Reports(jnp.clip(jnp.exp(at[0]).cumsum(-1), low[0], high[0]), jnp.exp(at[1]), jnp.exp(at[2]))

    slopes = jax.grad(lambda at: -_smooth_utility(guide, False, weights, market, reports(at), budget))
    climber = optax.adam(0.1)

    def step(_: int, carry: Any) -> Any:
        at, state, best, chosen = carry
        updates, state = climber.update(slopes(at), state)
        at = tuple(jnp.clip(x + u, a, b) for x, u, a, b in zip(at, updates, least, most, strict=True))
        lies = reports(at)
        found = _utility(outcome, weights, market, lies, budget)
        better = found > best
        return at, state, jnp.where(better, found, best), _pick(jnp, better, lies, chosen)

    carry = lax.fori_loop(0, steps, step, (first, climber.init(first), best, start))
    return carry[2], carry[3]
