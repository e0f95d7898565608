"""How far a learned auction is from truthfulness, individual rationality and its budget: two ways to measure.

*As printed* (Section V and Appendix A of the paper): the gain of a misreport over the cost of what is sold, from
expected utilities; or, as in the published code, from outcomes of truth and misreport that are drawn independently.
:func:`noise_floor` is the exact mean of the latter when nobody misreports.

*Over the lottery*: exact expected utilities at the best misreport of :func:`~hdpm_book.federated.reports.search`.
Every regret found is a **lower bound**.

Every mean comes with its standard error over the `k` profiles, of which there must be at least two. Throughout,
`market` holds the true bids, and `truth` and `lie` are what an auction does with them and with misreports.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_book.federated.regretnet import Network, Weights
from hdpm_book.federated.reports import Played, learned, play, printed_search, search
from hdpm_lib.aggregation import error_bound, least_error_weights, size_weights
from hdpm_lib.auctions.bids import Bids, check_budget
from hdpm_lib.validation import check_choice, check_count, check_finite, check_flag, check_generator

Array = NDArray[np.float64]
REACH = 20.0  # factor by which misreports in the training of our networks leave the truth
AGGREGATIONS = {"OptAggr": least_error_weights, "ConvAggr": size_weights}


class Estimate(NamedTuple):
    """A mean, or a ratio of means, and its standard error over the profiles."""

    value: float
    error: float


def _counted(value: ArrayLike, name: str) -> Array:
    """Finite numbers, or flags, which count as 0 and 1."""
    flags = isinstance(value, np.ndarray) and value.dtype == bool and not np.ma.isMaskedArray(value)
    return check_finite(np.asarray(value, dtype=float) if flags else value, name)


def estimate(top: ArrayLike, bottom: ArrayLike | None = None) -> Estimate:
    """Mean over profiles and owners, or ratio of two such means, with the standard error over profiles.

    The error of a ratio is that of its first-order expansion. Both arrays are of one shape (k, ...), and `bottom` is
    not negative; if it sums to 0, the result is not a number.

    Examples
    --------
    >>> estimate([1.0, 3.0]), estimate([1.0, 2.0], [4.0, 8.0])
    (Estimate(value=2.0, error=1.0), Estimate(value=0.25, error=0.0))
    """
    a = _counted(top, "top")
    b = np.ones(a.shape) if bottom is None else _counted(bottom, "bottom")
    if (b < 0).any():
        raise ValueError(f"bottom must not be negative, got {b.min()}")
    if a.ndim == 0 or len(a) < 2 or a.shape != b.shape:
        raise ValueError(f"top must have at least 2 profiles and the shape of bottom, got {a.shape} and {b.shape}")
    up, down = (x.reshape(len(x), -1).sum(1) for x in (a, b))
    if down.sum() == 0:
        return Estimate(np.nan, np.nan)
    ratio = up.sum() / down.sum()
    return Estimate(float(ratio), float((up - ratio * down).std(ddof=1) / np.sqrt(len(a)) / down.mean()))


# --- as printed -------------------------------------------------------------------------------------------------------


def printed_regret(truth: Played, lie: Played, rng: np.random.Generator | None = None) -> Array:
    r"""The paper's empirical regret at given misreports, :math:`\max(0,u_i(b')-u_i(b))/c_i`, shape (..., n).

    It is 0 where both are 0. Utilities are expected ones; with `rng` the outcomes of truth and misreport are drawn
    independently of each other, as the published code does.
    """
    if truth.costs.shape != lie.costs.shape:
        raise ValueError(f"lie must have the shape of truth {truth.costs.shape}, got {lie.costs.shape}")
    if rng is None:
        honest, other = truth.utility, lie.utility
    else:  # one draw for the truth, and another one for the misreport
        check_generator(rng)
        honest = truth.payments - _drawn(truth.outcomes, truth.costs, rng)
        other = lie.payments - _drawn(lie.outcomes, lie.costs, rng)
    return truth.relative(np.maximum(other - honest, 0))


def _drawn(outcomes: Array, costs: Array, rng: np.random.Generator) -> Array:
    """Cost of a random level."""
    level = (rng.random(outcomes.shape[:-1])[..., None] > outcomes.cumsum(-1)[..., :-1]).sum(-1, keepdims=True)
    return np.asarray(np.take_along_axis(costs, level, -1)[..., 0])


def noise_floor(outcomes: ArrayLike, costs: ArrayLike) -> Array:
    r"""Exact mean of the regret from independent draws when nobody misreports: the Gini coefficient of the cost.

    It is :math:`\mathbb E\max(0,V-V')/\mathbb E V` for independent costs :math:`V,V'` (:doc:`/book/federated/regret`),
    or 0 if the cost is always 0. `outcomes` (..., M + 1) are the probabilities of the levels, `costs` what each costs.

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


def ir_violation(truth: Played, *, ex_post: bool = False) -> Array:
    r"""The paper's IR violation, :math:`\max(0,-u_i(b))/c_i`, shape (..., n); 0 where both are 0.

    With `ex_post`, the mean over the draws of the loss after the draw, instead of the loss in expectation.
    """
    check_flag(ex_post, "ex_post")
    if not ex_post:
        return truth.relative(np.maximum(-truth.utility, 0))
    loss = np.maximum(truth.costs - truth.payments[..., None], 0)
    return truth.relative((truth.outcomes * loss).sum(-1))


# --- over the lottery -------------------------------------------------------------------------------------------------


def over_cost(gain: ArrayLike, cost: ArrayLike) -> Estimate:
    """Mean of gain over cost, of the owners whose sale costs something; both of shape (k, n)."""
    gained, costs = check_finite(gain, "gain", 2), check_finite(cost, "cost", 2, 0)
    sells = costs > 0
    return estimate(np.where(sells, gained / np.where(sells, costs, 1), 0), sells)


def metrics(
    network: Network,
    weights: Weights,
    market: Bids,
    budget: ArrayLike,
    *,
    rng: np.random.Generator,
    steps: int = 25,
    printed_steps: int = 100,
) -> dict[str, Estimate]:
    """Measure a network as printed, with draws of `rng`, and over the lottery.

    `printed_steps` are the `J` of :func:`~hdpm_book.federated.reports.printed_search`, and `steps` are those of
    :func:`~hdpm_book.federated.reports.search`.

    Returns
    -------
    dict
        - ``published``: regret by the procedure of the published code; ``no_misreport``: its exact mean when nobody
          misreports
        - ``regret``, ``regret_over_full``, ``regret_of_sums``: over the lottery, lower bounds: by :func:`over_cost`,
          gain over full valuation, and all gains over all costs
        - ``near``, ``near_over_full``: the same with misreports within the reach of training, `REACH`
        - ``ir_violation``, ``ex_post_violation``: in expectation over the lottery, and after the draw
        - ``underpaid``: share of owners who are paid less than what they sell costs them on average
        - ``overspent``: share of profiles in which what is bought costs its owners more than the whole budget
        - ``invalid``: probability that nobody sells
        - ``bought``: mean share of the privacy budgets that is bought

    """
    check_generator(rng)
    check_count(steps, "steps", 0)
    check_count(printed_steps, "printed_steps", 0)
    rule, money = learned(network, weights), check_budget(budget, market)
    truth = play(rule, market, money)
    far, near = (search(rule, market, money, steps=steps, reach=reach)[0] for reach in (np.inf, REACH))
    lies = printed_search(rule, market, money, steps=printed_steps, clamp="owners", frozen=True)
    levels = np.arange(rule.levels + 1) / rule.levels
    return {
        "published": estimate(printed_regret(truth, play(rule, market, money, lies), rng)),
        "no_misreport": estimate(noise_floor(truth.outcomes, truth.costs)),
        "regret": over_cost(far, truth.cost),
        "regret_over_full": estimate(far / market.full_valuation),
        "regret_of_sums": estimate(far, truth.cost),
        "near": over_cost(near, truth.cost),
        "near_over_full": estimate(near / market.full_valuation),
        "ir_violation": estimate(ir_violation(truth)),
        "ex_post_violation": estimate(ir_violation(truth, ex_post=True)),
        "underpaid": estimate(truth.utility < 0),
        "overspent": estimate(truth.cost.sum(-1) > money),
        "invalid": estimate(truth.invalid),
        "bought": estimate(truth.outcomes @ levels),
    }


# --- what the book asks besides ---------------------------------------------------------------------------------------


def error_of_valid(epsilon: ArrayLike, sizes: ArrayLike, aggregation: str = "OptAggr") -> tuple[Estimate, Estimate]:
    """The error bound as in Figure 7, of the profiles in which somebody sells, and the share of the others.

    The error is not a number if nobody ever sells. `epsilon` (privacy losses sold) and `sizes` are of shape (k, n);
    `aggregation` is "OptAggr" or "ConvAggr".
    """
    check_choice(aggregation, "aggregation", tuple(AGGREGATIONS))
    eps = check_finite(epsilon, "epsilon", 2, 0)
    size = check_finite(sizes, "sizes", 2, 0, ends="()")
    if eps.shape != size.shape:
        raise ValueError(f"epsilon and sizes must have one shape, got {eps.shape} and {size.shape}")
    bound = error_bound(AGGREGATIONS[aggregation](eps, size), eps, size)
    valid = np.isfinite(bound)
    return estimate(np.where(valid, bound, 0), valid), estimate(~valid)
