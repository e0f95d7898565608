r"""All-in, repaired: an auction for owners who sell everything or nothing.

A *single-minded* owner bears the same cost `V` for any sale. She offers the amount
:math:`x=d\,\bar\varepsilon`, records times privacy budget, at the unit valuation :math:`V/x`.
Algorithm 4 of Zheng, Cao, Yoshikawa, Li and Yan (2021), FL-Market: Trading Private Models in
Federated Learning, takes owners in ascending order of it for as long as the budget, divided among
all taken, covers them, and pays out the whole budget. It is not truthful: a loser who asks for less
moves forward. The repaired rule pays all winners one price per unit, the highest at which each
would still win (:doc:`/book/federated/allin`).

Owners of equal unit valuation are taken in the order of their places; the paper does not say.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.auctions.bids import Bids, check_budget
from hdpm_lib.markets.outcome import Outcome
from hdpm_lib.validation import check_finite

Array = NDArray[np.float64]


def _checked(
    valuations: ArrayLike, amounts: ArrayLike, budget: ArrayLike
) -> tuple[Array, Array, Array]:
    """Check the arguments: arrays of shapes (..., n), (..., n) and (...)."""
    v = check_finite(valuations, "valuations", low=0)
    x = check_finite(amounts, "amounts", low=0, ends="()")
    money = check_finite(budget, "budget", low=0, ends="()")
    if v.ndim == 0 or v.shape[-1:] != x.shape[-1:]:
        raise ValueError(
            f"valuations and amounts must have shape (..., n), n >= 1, got {v.shape} and {x.shape}"
        )
    try:
        shape = np.broadcast_shapes(v.shape, x.shape, (*money.shape, 1))
    except ValueError:
        raise ValueError(
            f"valuations, amounts and budget must fit, got shapes {v.shape}, {x.shape} and"
            f" {money.shape}"
        ) from None
    return np.broadcast_to(v, shape), np.broadcast_to(x, shape), np.broadcast_to(money, shape[:-1])


def all_or_nothing(valuations: ArrayLike, amounts: ArrayLike, budget: ArrayLike) -> Outcome:
    r"""Decide who sells everything, and for how much: truth is a single-minded owner's best report.

    Parameters
    ----------
    valuations : array_like of shape (..., n)
        Reported costs of any sale, in money, not negative.
    amounts : array_like of shape (..., n)
        Reported amounts for sale, positive: privacy losses if everybody has one record, else
        records times privacy losses.
    budget : float or array_like of shape (...)
        The buyer's money for each auction, positive.

    Returns
    -------
    Outcome
        As `privacy_loss` the amounts sold, 0 for losers, and the `payments`. Payments cover the
        winners' valuations, up to rounding. Their sum is never above the budget, in whatever order
        floats are added.

    Notes
    -----
    Owners who ask for more than the whole budget are left out. The others stand in ascending order
    of :math:`u_i=V_i/x_i`, and the first :math:`k` win, where :math:`k` is the last with
    :math:`u_k\le B/(x_1+\dots+x_k)`. All are paid :math:`\min\{B/(x_1+\dots+x_k),\,u_{k+1}\}` per
    unit. Time :math:`O(n\log n)`. This repairs Algorithm 4 of the paper, All-in, which is not
    truthful.

    References
    ----------
    Zheng, S., Cao, Y., Yoshikawa, M., Li, H. and Yan, Q. (2021). FL-Market: Trading Private Models
    in Federated Learning. arXiv:2106.04384.

    Examples
    --------
    Three owners offer one unit each. The first two win, at the price that the third asks:

    >>> sale = all_or_nothing([1.0, 2.0, 4.0], [1.0, 1.0, 1.0], 10.0)
    >>> sale.privacy_loss, sale.payments
    (array([1., 1., 0.]), array([4., 4., 0.]))
    """
    v, x, money = _checked(valuations, amounts, budget)
    return _repaired(v, x, money)


def _repaired(v: Array, x: Array, money: Array) -> Outcome:
    """Apply the repaired rule to valuations `v` and amounts `x` of shape (..., n)."""
    # Who asks for more than the budget is left out; the others ascend by what they ask per unit
    asked = np.where(v <= money[..., None], v / x, np.inf)
    order = np.argsort(asked, axis=-1, kind="stable")
    value = np.take_along_axis(v, order, -1)
    amount = np.take_along_axis(x, order, -1)
    unit = np.take_along_axis(asked, order, -1)
    # The first k win, up to the first who is not covered
    total = np.cumsum(amount, axis=-1)
    covered = (value * total <= money[..., None] * amount) & np.isfinite(unit)
    winners = np.minimum.accumulate(covered, axis=-1).sum(-1, keepdims=True)
    # The price of a unit: the budget over what is sold, at most what the first loser asks. Sums of
    # n floats and their products are off by less than n + 3 last digits, which the buyer keeps.
    spent = money * (1 - (v.shape[-1] + 3) * np.finfo(float).eps)
    sold = np.take_along_axis(total, np.maximum(winners - 1, 0), -1)
    following = np.concatenate([unit, np.full((*money.shape, 1), np.inf)], axis=-1)
    price = np.minimum(spent[..., None] / sold, np.take_along_axis(following, winners, -1))
    wins = np.argsort(order, axis=-1) < winners
    return Outcome(np.where(wins, x, 0.0), np.where(wins, x * price, 0.0))


def all_in(bids: Bids, budget: ArrayLike) -> Outcome:
    """Buy whole privacy budgets, or nothing, from each owner: All-in, repaired.

    Parameters
    ----------
    bids : Bids
        Reports of the owners, as :func:`~hdpm_lib.auctions.bids.bids` makes them.
    budget : float or array_like of shape (...)
        The buyer's money for each auction, positive.

    Returns
    -------
    Outcome
        As `privacy_loss` an owner's privacy budget if she wins, else 0, and the `payments`, which
        sum to at most the budget.

    Notes
    -----
    This is :func:`all_or_nothing` with the full valuation as what a sale costs, and sizes times
    privacy budgets as amounts. Truth is a best report of owners who can only sell everything; who
    may sell less should be served by :func:`~hdpm_lib.auctions.posted_prices.posted_prices`.

    References
    ----------
    Zheng, S., Cao, Y., Yoshikawa, M., Li, H. and Yan, Q. (2021). FL-Market: Trading Private Models
    in Federated Learning. arXiv:2106.04384.

    Examples
    --------
    >>> from hdpm_lib.auctions.bids import bids
    >>> sale = all_in(bids("linear", [1.0, 2.0, 4.0], 0.5, [10, 30, 20]), 60.0)
    >>> sale.privacy_loss, sale.payments
    (array([0.5, 0. , 0. ]), array([20.,  0.,  0.]))
    """
    money = check_budget(budget, bids)
    sale = _repaired(bids.full_valuation, bids.sizes * bids.privacy_budget, money)
    return Outcome(np.where(sale.privacy_loss > 0, bids.privacy_budget, 0.0), sale.payments)
