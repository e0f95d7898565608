"""All-in as printed for many markets at once, and the gains of lies under it.

A rule makes an outcome of valuations and amounts of shape (..., n) and a budget, as
:func:`hdpm_lib.auctions.allin.all_or_nothing` does: what it calls a privacy loss is the amount
sold.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.auctions.bids import Bids
from hdpm_lib.markets.outcome import Outcome
from hdpm_lib.markets.payments import with_own_report

Array = NDArray[np.float64]
Rule = Callable[[Array, Array, Array], Outcome]


def all_in_printed(
    valuations: ArrayLike, amounts: ArrayLike, budget: ArrayLike, *, stop: bool = False
) -> Outcome:
    """All-in as printed (Algorithm 4): not truthful, with payments that sum to the budget if
    anybody wins.

    Owners of equal unit valuation are taken in the order of their places; the paper does not say.
    With `stop` the auction ends at the first owner who is not covered, instead of passing over her.

    Examples
    --------
    >>> all_in_printed([100.0, 2.0], [100.0, 1.0], 100.0).payments
    array([100.,   0.])
    >>> # the loser asks for less than her valuation, 2
    >>> all_in_printed([100.0, 0.5], [100.0, 1.0], 100.0).payments
    array([  0., 100.])
    """
    money = np.asarray(budget, dtype=float)
    v, x, _ = np.broadcast_arrays(valuations, amounts, money[..., None])
    # lines 1 and 2: ascending unit valuations
    order = np.argsort(v / x, axis=-1, kind="stable")
    value = np.take_along_axis(v, order, -1)
    amount = np.take_along_axis(x, order, -1)
    # lines 3 to 5: who is covered by the budget, shared among all taken and her, is taken
    taken = np.zeros(v.shape[:-1])
    going = np.ones(v.shape[:-1], dtype=bool)
    accepted = np.zeros(v.shape, dtype=bool)
    for i in range(v.shape[-1]):
        covered = value[..., i] * (taken + amount[..., i]) <= money * amount[..., i]
        going &= covered | (not stop)
        accepted[..., i] = covered & going
        taken = taken + np.where(accepted[..., i], amount[..., i], 0.0)
    # lines 6 and 7: what winners sell, and the price of a unit
    sold = np.where(np.take_along_axis(accepted, np.argsort(order, axis=-1), -1), x, 0.0)
    price = money / np.where(taken > 0, taken, np.inf)
    return Outcome(sold, sold * price[..., None])


def printed_for_bids(bids: Bids, budget: ArrayLike) -> Outcome:
    """All-in as printed, of whole privacy budgets."""
    sale = all_in_printed(bids.full_valuation, bids.sizes * bids.privacy_budget, budget)
    return Outcome(np.where(sale.privacy_loss > 0, bids.privacy_budget, 0.0), sale.payments)


def single_minded_gains(
    rule: Rule,
    valuations: ArrayLike,
    amounts: ArrayLike,
    lies: tuple[ArrayLike, ArrayLike],
    budget: ArrayLike,
) -> Array:
    """What each single-minded owner gains by her lie while the others tell the truth, `valuations`
    and `amounts`.

    It is minus infinity for an amount above the truth. The cost of a sale is the true valuation,
    whatever the amount.

    Parameters
    ----------
    lies : tuple of reported valuations and amounts

    Examples
    --------
    >>> lies = ([100.0, 0.5], [100.0, 1.0])
    >>> single_minded_gains(all_in_printed, [100.0, 2.0], [100.0, 1.0], lies, 100.0)
    array([ 0., 98.])
    """
    v, x, money = (np.asarray(part, dtype=float) for part in (valuations, amounts, budget))
    value, amount = (with_own_report(true, lie) for true, lie in zip((v, x), lies, strict=True))
    honest = rule(v, x, money)
    sale = rule(value, amount, np.broadcast_to(money[..., None], value.shape[:-1]))
    told = sale.payments - np.where(sale.privacy_loss > 0, v[..., None, :], 0.0)
    excess = amount > x[..., None, :] * (1 + 1e-12)
    told = np.diagonal(np.where(excess, -np.inf, told), axis1=-2, axis2=-1)
    return told - (honest.payments - np.where(honest.privacy_loss > 0, v, 0.0))
