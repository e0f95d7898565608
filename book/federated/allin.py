"""All-in as printed for many markets at once.

It makes an outcome of valuations and amounts of shape (..., n) and a budget, as
:func:`hdpm_lib.auctions.allin.all_or_nothing` does: what it calls a privacy loss is the amount
sold.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hdpm_lib.auctions.bids import Bids
from hdpm_lib.markets.outcome import Outcome


def all_in_printed(
    valuations: ArrayLike, amounts: ArrayLike, budget: ArrayLike, *, stop: bool = False
) -> Outcome:
    """Hold All-in as printed (Algorithm 4): not truthful, with payments that sum to the budget if
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
    """Hold All-in as printed, of whole privacy budgets."""
    sale = all_in_printed(bids.full_valuation, bids.sizes * bids.privacy_budget, budget)
    return Outcome(np.where(sale.privacy_loss > 0, bids.privacy_budget, 0.0), sale.payments)
