"""How far a learned auction is from truthfulness, individual rationality and its budget: two ways
to measure.

*As published* (Section V and Appendix A of FL-Market, and the code of its authors): the gain of a
misreport over the cost of what is sold, where the outcomes of truth and misreport are drawn
independently; here the exact mean over the draws. *Over the lottery*: expected utilities at the
best misreport of :func:`~hdpm_book.federated.reports.search`. Every regret found is a **lower
bound**.

Every mean comes with its standard error over the `k` profiles, of which there must be at least two.
Throughout, `market` holds the true bids, and `truth` and `lie` are what an auction does with them
and with misreports.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_book.federated.reports import Played, Rule, play, printed_search
from hdpm_lib.aggregation import error_bound, least_error_weights, size_weights
from hdpm_lib.auctions.bids import Bids
from hdpm_lib.validation import check_choice, check_finite

Array = NDArray[np.float64]
AGGREGATIONS = {"OptAggr": least_error_weights, "ConvAggr": size_weights}


class Estimate(NamedTuple):
    """A mean, or a ratio of means, and its standard error over the profiles."""

    value: float
    error: float


def estimate(top: ArrayLike, bottom: ArrayLike | None = None) -> Estimate:
    """Mean over profiles and owners, or ratio of two such means, with the standard error over
    profiles.

    The error of a ratio is that of its first-order expansion. Both arrays are of one shape (k,
    ...), and `bottom` is not negative; if it sums to 0, the result is not a number.

    Examples
    --------
    >>> estimate([1.0, 3.0]), estimate([1.0, 2.0], [4.0, 8.0])
    (Estimate(value=2.0, error=1.0), Estimate(value=0.25, error=0.0))
    """
    a = check_finite(np.asarray(top, float), "top")
    b = np.ones(a.shape) if bottom is None else check_finite(np.asarray(bottom, float), "bottom")
    if (b < 0).any():
        raise ValueError(f"bottom must not be negative, got {b.min()}")
    if a.ndim == 0 or len(a) < 2 or a.shape != b.shape:
        raise ValueError(
            f"top must have at least 2 profiles and the shape of bottom, got {a.shape} and"
            f" {b.shape}"
        )
    up, down = (x.reshape(len(x), -1).sum(1) for x in (a, b))
    if down.sum() == 0:
        return Estimate(np.nan, np.nan)
    ratio = up.sum() / down.sum()
    return Estimate(
        float(ratio), float((up - ratio * down).std(ddof=1) / np.sqrt(len(a)) / down.mean())
    )


def over_cost(gain: ArrayLike, cost: ArrayLike) -> Estimate:
    """Mean of gain over cost, of the owners whose sale costs something; both of shape (k, n)."""
    gained = check_finite(gain, "gain", 2)
    costs = check_finite(cost, "cost", 2, 0)
    sells = costs > 0
    return estimate(np.where(sells, gained / np.where(sells, costs, 1), 0), sells)


def published_regret(truth: Played, lie: Played) -> Array:
    r"""The published regret :math:`\max(0,u_i(b')-u_i(b))/c_i` of shape (k, n), its mean over
    independent draws.

    Truth and misreport draw their outcomes independently of each other; it is 0 where both numbers
    are 0.
    """
    paid = (lie.payments - truth.payments)[..., None, None]
    gain = np.maximum(paid + truth.costs[..., :, None] - lie.costs[..., None, :], 0)
    return truth.relative(np.einsum("...a,...b,...ab->...", truth.outcomes, lie.outcomes, gain))


def gini(outcomes: ArrayLike, costs: ArrayLike) -> Array:
    r"""Published regret when nobody misreports: the Gini coefficient of the cost, 0 if nothing is
    ever sold.

    `outcomes` (..., M + 1) are the probabilities of the levels, `costs` what each costs, rising
    from 0 (:doc:`/book/federated/regret`).

    Examples
    --------
    >>> round(float(gini([0.9, 0.1], [0.0, 7.0])), 12)
    0.9
    """
    rises = np.diff(np.asarray(costs), axis=-1)
    below = np.asarray(outcomes).cumsum(-1)[..., :-1]
    mean = (rises * (1 - below)).sum(-1)
    return np.asarray((rises * below * (1 - below)).sum(-1) / np.where(mean > 0, mean, 1))


def ir_violation(truth: Played) -> Array:
    """Loss after the draw over the mean cost, of shape (k, n), its mean over the draws; 0 where
    both are 0.
    """
    loss = np.maximum(truth.costs - truth.payments[..., None], 0)
    return truth.relative((truth.outcomes * loss).sum(-1))


def as_published(
    rule: Rule, market: Bids, budget: ArrayLike, rng: np.random.Generator, steps: int = 100
) -> dict[str, Estimate]:
    """One row of Table I by the procedure of the published code, and what it shows of truth alone.

    Returns
    -------
    dict
        - ``regret``, ``violation``: the two printed numbers, both after draws
        - ``truthful``: the same regret if nobody misreports
        - ``expected``: the gain of the same misreports in expected utilities
        - ``loss``: IR violation in expected utilities
        - ``bought``: mean share of the privacy budgets that is bought; ``invalid``: probability
          that nobody sells
    """
    truth = play(rule, market, budget)
    lie = play(
        rule,
        market,
        budget,
        printed_search(rule, market, budget, steps=steps, clamp="owners", rng=rng),
    )
    return {
        "regret": estimate(published_regret(truth, lie)),
        "violation": estimate(ir_violation(truth)),
        "truthful": estimate(gini(truth.outcomes, truth.costs)),
        "expected": estimate(truth.relative(np.maximum(lie.utility - truth.utility, 0))),
        "loss": estimate(truth.relative(np.maximum(-truth.utility, 0))),
        "bought": estimate(truth.outcomes @ np.linspace(0, 1, rule.levels + 1)),
        "invalid": estimate(truth.invalid),
    }


def error_of_valid(
    epsilon: ArrayLike, sizes: ArrayLike, aggregation: str = "OptAggr"
) -> tuple[Estimate, Estimate]:
    """The error bound as in Figure 7, of the profiles in which somebody sells, and the share of the
    others.

    The error is not a number if nobody ever sells. `epsilon` (privacy losses sold) and `sizes` are
    of shape (k, n); `aggregation` is "OptAggr" or "ConvAggr".
    """
    check_choice(aggregation, "aggregation", tuple(AGGREGATIONS))
    eps = check_finite(epsilon, "epsilon", 2, 0)
    size = check_finite(sizes, "sizes", 2, 0, ends="()")
    if eps.shape != size.shape:
        raise ValueError(f"epsilon and sizes must have one shape, got {eps.shape} and {size.shape}")
    bound = error_bound(AGGREGATIONS[aggregation](eps, size), eps, size)
    valid = np.isfinite(bound)
    return estimate(np.where(valid, bound, 0), valid), estimate(~valid)
