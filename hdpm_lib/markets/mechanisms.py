r"""Mechanisms for sellers who keep their valuations to themselves: M1, M2 and virtual pricing.

The first two are those of M. M. Khalili, X. Zhang and M. Liu, "Designing Contracts for Trading
Private and Heterogeneous Data Using a Biased Differentially Private Algorithm", IEEE Access 9,
2021, whose theorems and equations are meant here; the third follows R. Myerson, "Optimal Auction
Design", Mathematics of Operations Research 6, 1981. Sellers report valuations in
:math:`[0,\bar v]`; the cost of a loss :math:`\varepsilon` is :math:`v\varepsilon^r`.

- *M1*: Principle 1, the same loss for all. Nothing depends on the reports, so each is paid what the
  most demanding seller would bear.
- *M2*: Principle 2, the least reported cost. Its envelope payments (15) are VCG payments with pivot
  :math:`\bar v`.
- *Virtual pricing*: the law of the valuations is known; minimise virtual instead of true cost
  (Myerson).

In functions that do not say it themselves `valuations` of shape (..., n) are the reports in [0,
`ceiling`], with a batch of markets on the leading axes; `ceiling` is :math:`\bar v`, positive;
`max_mse` and `power` are :math:`K` and :math:`r` as in :mod:`hdpm_lib.markets.contracts`. Proofs:
:doc:`/book/contracts/mechanisms`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.bisection import count_while
from hdpm_lib.markets.contracts import (
    check_cost,
    check_power,
    check_valuations,
    equal_loss_contract,
    ratio_power,
    scaled_root,
    solved_contract,
    suffix_weights,
)
from hdpm_lib.markets.costs import (
    RESOLUTION,
    affine_slope,
    check_regular,
    ironed_virtual_valuation,
    virtual_valuation,
)
from hdpm_lib.markets.outcome import Contract, Outcome
from hdpm_lib.markets.payments import envelope_payments, step_payments
from hdpm_lib.validation import RANGE, Array, check_finite, check_flag, check_positive

Index = NDArray[np.intp]


def equal_loss_pricing(
    valuations: ArrayLike, max_mse: float, ceiling: float, *, power: float
) -> Outcome:
    r"""Buy equal losses, each paid what the most demanding seller would bear: M1.

    The payment is :math:`\bar v\hat\varepsilon^r` (Theorem 7), with the loss of Principle 1.

    Examples
    --------
    >>> # 10 times the square of the root of 6
    >>> equal_loss_pricing([1.0, 7.0], 0.25, 10.0, power=2).payments.round(6)
    array([60., 60.])
    """
    return paid_at_ceiling(equal_loss_contract, valuations, max_mse, ceiling, power)


def vcg_contract(
    valuations: ArrayLike, max_mse: float, ceiling: float, *, power: float
) -> Contract:
    r"""Find the contract of least reported cost, and payments with which truth is best: M2.

    Parameters
    ----------
    valuations : array of shape (..., n)
        Reported valuations :math:`\hat v_i` in [0, `ceiling`]: seller :math:`i` bears the cost
        :math:`v_i\varepsilon_i^r` for the privacy loss :math:`\varepsilon_i`, in units of money. A
        batch of markets on the leading axes.
    max_mse : float
        The paper's :math:`K`, positive: the largest mean squared error of the sum of the sellers'
        data, each of which lies in [0, 1].
    ceiling : float
        The paper's :math:`\bar v`, the largest possible valuation, positive.
    power : float
        The paper's :math:`r`, at least 1: 1 is a cost that grows in proportion to the loss.

    Returns
    -------
    Contract
        Privacy losses, shares and Laplace scale as :func:`~.contracts.least_cost_contract` gives
        them, with the payments in units of money. The `cost` is at the reports.

    Notes
    -----
    By Theorem 8 the payments are Eq. (15),
    :math:`\tau_i=\hat v_i\varepsilon_i^r+\int_{\hat v_i}^{\bar v}\varepsilon_i(s)^r\,ds`. They are
    computed as :math:`W(\bar v,\hat v_{-i})-W(\hat v)+\hat v_i\varepsilon_i^r`, with :math:`W` the
    least cost, in time :math:`O(n\log n)` for all sellers together. To look for lies that pay, by
    :func:`~hdpm_lib.markets.incentives.search_misreports`, a seller's amount is
    :math:`\varepsilon_i^r`, for what she bears is her valuation times that. The difference loses
    digits as the market grows: the relative rounding of a payment is about :math:`10^{-15}n`. It is
    an error if sellers at valuation 0 just reach the accuracy alone: no finite loss then attains
    the least cost.

    References
    ----------
    M. M. Khalili, X. Zhang and M. Liu, "Designing Contracts for Trading Private and Heterogeneous
    Data Using a Biased Differentially Private Algorithm", IEEE Access 9, 2021.

    Examples
    --------
    Two sellers say that a unit of privacy loss costs them one and two dollars; nobody's costs more
    than ten. The sum of their two numbers is wanted with a mean squared error of 1/4:

    >>> bought = vcg_contract([1.0, 2.0], 0.25, 10.0, power=1)
    >>> bought.privacy_loss.round(4)
    array([3.7947, 1.2649])
    >>> bought.payments.round(4)
    array([16.2318,  9.1667])

    The first loses 3.79, which costs her 3.79 dollars, and is paid 16.23. The answer is
    ``linear_query(bought.shares, bought.scale)``: it takes all of her number, a third of the
    other's, and Laplace noise:

    >>> bought.shares.round(4)
    array([1.    , 0.3333])
    >>> print(bought.scale.round(4))
    0.2635
    """
    v, K, top, r = _checked(valuations, max_mse, ceiling, power)
    best, rents = _rents(v, K, top, r)
    payments = _powers(v, best.privacy_loss, r) + rents
    return replace(best, payments=check_cost(payments, K, r))


def _rents(v: Array, K: float, top: float, r: float) -> tuple[Contract, Array]:
    """Return the least-cost contract, and how much it costs more if a valuation becomes `top`."""
    best = solved_contract(v, K, r)
    if not np.isfinite(best.privacy_loss).all():
        raise ValueError(
            "valuations: sellers at 0 reach the accuracy only with infinite loss; no contract"
            " attains it"
        )
    return best, pivot_costs(v, K, top, power=r) - best.cost[..., None]


def _checked(
    valuations: ArrayLike, max_mse: float, ceiling: float, power: float
) -> tuple[Array, float, float, float]:
    """Check the arguments of a rule for reports up to a ceiling."""
    top = check_positive(ceiling, "ceiling")
    v = check_valuations(valuations, top)
    K = check_positive(max_mse, "max_mse")
    return v, K, top, check_power(power)


def paid_at_ceiling(
    rule: Callable[[int, float], Contract],
    valuations: ArrayLike,
    max_mse: float,
    ceiling: float,
    power: float,
) -> Outcome:
    """Apply a rule that looks at no report, and pay what the most demanding seller would bear."""
    v, K, top, r = _checked(valuations, max_mse, ceiling, power)
    loss = np.broadcast_to(rule(v.shape[-1], K).privacy_loss, v.shape).copy()
    cost = _powers(v, loss, r).sum(-1)
    payments = check_cost(_powers(top, loss, r), K, r)
    return Outcome(loss, payments, cost, np.full(v.shape[:-1], K))


def _powers(valuation: Array | float, loss: Array, power: float) -> Array:
    """Return `valuation * loss ** power`, also where the power alone over- or underflows."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        plain = valuation * loss**power
        cost = (valuation ** (1 / power) * loss) ** power
        return np.where((plain > 0) & (plain < np.inf), plain, cost)


def pivot_costs(valuations: ArrayLike, max_mse: float, ceiling: float, *, power: float) -> Array:
    r"""Compute for each seller the least cost :math:`W(\bar v,v_{-i})` if she were at the ceiling.

    One sort for all. Each is a binary search and one root, as replacing a seller only shifts the
    prefix sums. Where sellers are many the search is short, for all roots lie close together.
    """
    v, K, top, r = _checked(valuations, max_mse, ceiling, power)
    n = v.shape[-1]
    if n**2 <= 4 * K:
        return np.zeros(v.shape)
    order = np.argsort(v, axis=-1)
    u = np.take_along_axis(v, order, -1)
    column = np.zeros((*u.shape[:-1], 1))
    points = np.concatenate([u, column + top], axis=-1)
    spent = np.concatenate([column, np.cumsum(u, axis=-1)], axis=-1)
    weight = np.concatenate([suffix_weights(u, np.ones_like(u), r), column], axis=-1)

    def state(t: Index, place: Index) -> tuple[Array, Array, Array, Array]:
        """Return the next breakpoint, and `m`, cost at the cap and `B` of `one_root`.

        The valuation at `place` is replaced, and `t` others are at the cap.
        """
        j = t + (t >= place)
        own = u[..., place]
        point = np.take_along_axis(points, j, -1)
        ratio = np.divide(np.minimum(point, own), own, out=np.zeros_like(own), where=own > 0)
        B = np.take_along_axis(weight, j, -1) - np.where(place > j, ratio_power(ratio, r), 0.0)
        B = np.maximum(B, 0) + ratio_power(point / top, r)
        # her own term left out of the sum, so that a large one does not drown the others
        before = np.take_along_axis(spent, np.minimum(j, place), -1)
        after = np.take_along_axis(spent, j, -1) - spent[..., place + 1]
        cost = before + np.where(place < j, after, 0.0)
        return point, (n - t).astype(float), cost, B

    def others_at_cap(place: Index, least: Index, most: Index) -> Index:
        """Count the others at the cap at the root, from `least` to `most`."""

        def capped(more: Index) -> NDArray[np.bool_]:
            point, m, cost, B = state(least + more, place)
            return (point == 0) | ((m - B) * (cost + m * point) > 4 * K * point)

        return least + count_while(capped, most - least)

    # The less she asked, the more the threshold rises: all roots are between those for the dearest
    # and the cheapest
    none = np.zeros((*u.shape[:-1], 2), dtype=np.intp)
    everybody = np.arange(n)
    ends = others_at_cap(np.array([n - 1, 0]), none, none + n - 1)
    ends = np.clip(ends + np.array([-1, 1]), 0, n - 1)
    least = np.repeat(ends[..., :1], n, axis=-1)
    most = np.repeat(ends[..., 1:], n, axis=-1)
    point, m, spending, B = state(others_at_cap(everybody, least, most), everybody)
    _, _, cost = scaled_root(m, spending, point, B, K, r)
    # nothing where those who ask nothing suffice
    asking = (u > 0).sum(-1, keepdims=True) - (u > 0) + 1
    cost = check_cost(np.where(asking**2 <= 4 * K, 0.0, cost), K, r)
    pivots = np.empty_like(u)
    np.put_along_axis(pivots, order, cost, -1)
    return pivots


def myerson_contract(
    valuations: ArrayLike, max_mse: float, law: Any, *, power: float, ironed: bool = False
) -> Outcome:
    r"""Buy at the least expected payment when the law of the valuations is known.

    Parameters
    ----------
    valuations : array of shape (n,)
        Reported valuations in the support of `law`: seller :math:`i` bears the cost
        :math:`v_i\varepsilon_i^r` for the privacy loss :math:`\varepsilon_i`, in units of money.
    max_mse : float
        The largest mean squared error :math:`K` of the sum of the sellers' data, each of which lies
        in [0, 1], positive.
    law : scipy.stats law
        Of each valuation, independent of the others, as in :mod:`hdpm_lib.markets.costs`.
    power : float
        The power :math:`r` of the cost, at least 1.
    ironed : bool, default False
        Iron the virtual valuation first. Otherwise it is an error if it falls somewhere, or is
        infinite at a report.

    Returns
    -------
    Outcome
        Privacy losses, payments in units of money, and cost at the reports; the error is `max_mse`.

    Notes
    -----
    The losses minimise the total virtual cost: problem (10) of Khalili, Zhang and Liu at the
    virtual valuations of :mod:`hdpm_lib.markets.costs`. They are paid by their envelope payments:
    exactly where the virtual valuation is affine, as under a uniform law, and for an ironed law,
    for which it is a step function, otherwise by quadrature (:doc:`/book/contracts/beyond`).

    References
    ----------
    R. Myerson, "Optimal Auction Design", Mathematics of Operations Research 6, 1981.

    M. M. Khalili, X. Zhang and M. Liu, "Designing Contracts for Trading Private and Heterogeneous
    Data Using a Biased Differentially Private Algorithm", IEEE Access 9, 2021.

    Examples
    --------
    Valuations are known to lie between 0.5 and 1:

    >>> from scipy import stats
    >>> bought = myerson_contract([0.5, 0.9], 0.25, stats.uniform(0.5, 0.5), power=2)
    >>> bought.privacy_loss.round(4)
    array([3.3683, 1.5393])
    >>> bought.payments.round(4)
    array([9.6533, 2.3616])
    """
    v = check_valuations(check_finite(valuations, "valuations", 1))
    K = check_positive(max_mse, "max_mse")
    r = check_power(power)
    ironed = check_flag(ironed, "ironed")

    def virtual(reports: Array) -> Array:
        if ironed:
            return ironed_virtual_valuation(law, reports)
        return virtual_valuation(law, reports, check=False)

    def losses(reports: Array) -> Array:
        # infinite where the law ends with a density of 0
        prices = check_valuations(np.minimum(virtual(reports), RANGE[1]))
        return solved_contract(prices, K, r).privacy_loss

    def amounts(reports: Array) -> Array:
        return losses(reports) ** r

    infinite = ~np.isfinite(virtual(v))
    if infinite.any():
        raise ValueError(
            f"valuations: the law has density 0 at {v[infinite][0]}, so that no finite price is"
            " enough there"
        )
    loss = losses(v)
    cost = _powers(v, loss, r)
    top = law.support()[1]
    slope = None
    if not ironed:
        check_regular(law)
        slope = affine_slope(law)
    if ironed:  # constant on cells of equal probability
        payments = step_payments(v, law.ppf(np.linspace(0, 1, RESOLUTION + 1)), amounts)
    elif slope:  # differences of the least virtual cost
        most = float(virtual(np.array(top)))
        _, rents = _rents(np.minimum(virtual(v), most), K, most, r)
        payments = check_cost(cost + rents / slope, K, r)
    else:
        payments = envelope_payments(v, float(top), amounts)
    return Outcome(loss, payments, cost.sum(), K)
