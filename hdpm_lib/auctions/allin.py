r"""All-in, an auction for owners who sell everything or nothing: as printed, and repaired.

A *single-minded* owner bears the same cost `V` for any sale. She offers the amount :math:`x=d\,\bar\varepsilon`,
records times privacy budget, at the unit valuation :math:`V/x`. The printed rule takes owners in ascending order of it
for as long as the budget, divided among all taken, covers them, and pays out the whole budget. It is not truthful: a
loser who asks for less moves forward. The repaired rule pays all winners one price per unit, the highest at which each
would still win (:doc:`/book/federated/allin`).

Throughout, `valuations` (not negative) and `amounts` (positive) are what `n` owners report, of shape (..., n), `budget`
is the buyer's money, and a `rule` makes a :class:`Sale` of these three. Owners of equal unit valuation are taken in the
order of their places; the paper does not say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.auctions.bids import Bids, check_budget, utility
from hdpm_lib.markets.payments import Outcome, with_own_report
from hdpm_lib.validation import check_finite, check_flag

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Sale:
    """Who sells everything, and for how much.

    Attributes
    ----------
    wins : boolean array of shape (..., n)
    payments : array of shape (..., n), 0 for those who do not sell
    """

    wins: NDArray[np.bool_]
    payments: Array


Rule = Callable[[Array, Array, Array], Sale]
Auction = Callable[[Bids, Array], Outcome]


def _checked(valuations: ArrayLike, amounts: ArrayLike, budget: ArrayLike) -> tuple[Array, Array, Array]:
    """Arrays of shapes (..., n), (..., n) and (...), or an error that names the argument and the value."""
    v = check_finite(valuations, "valuations", low=0)
    x = check_finite(amounts, "amounts", low=0, ends="()")
    money = check_finite(budget, "budget", low=0, ends="()")
    if v.ndim == 0 or v.shape[-1:] != x.shape[-1:]:
        raise ValueError(f"valuations and amounts must have shape (..., n), n >= 1, got {v.shape} and {x.shape}")
    try:
        shape = np.broadcast_shapes(v.shape, x.shape, (*money.shape, 1))
    except ValueError:
        raise ValueError(
            f"valuations, amounts and budget must fit, got shapes {v.shape}, {x.shape} and {money.shape}"
        ) from None
    return np.broadcast_to(v, shape), np.broadcast_to(x, shape), np.broadcast_to(money, shape[:-1])


def all_in(valuations: ArrayLike, amounts: ArrayLike, budget: ArrayLike, *, stop: bool = False) -> Sale:
    """All-in as printed (Algorithm 4): not truthful, with payments that sum to the budget if anybody wins.

    Parameters
    ----------
    stop : bool
        End at the first owner who is not covered, instead of passing over her.

    Examples
    --------
    >>> all_in([100.0, 2.0], [100.0, 1.0], 100.0)
    Sale(wins=array([ True, False]), payments=array([100.,   0.]))
    >>> all_in([100.0, 0.5], [100.0, 1.0], 100.0)   # the loser asks for less than her valuation, 2
    Sale(wins=array([False,  True]), payments=array([  0., 100.]))
    """
    check_flag(stop, "stop")
    v, x, money = _checked(valuations, amounts, budget)
    # lines 1 and 2: ascending unit valuations
    order = np.argsort(v / x, axis=-1, kind="stable")
    value, amount = np.take_along_axis(v, order, -1), np.take_along_axis(x, order, -1)
    # lines 3 to 5: who is covered by the budget, shared among all taken and her, is taken
    taken, going = np.zeros(money.shape), np.ones(money.shape, dtype=bool)
    accepted = np.zeros(v.shape, dtype=bool)
    for i in range(v.shape[-1]):
        covered = value[..., i] * (taken + amount[..., i]) <= money * amount[..., i]
        going &= covered | (not stop)
        accepted[..., i] = covered & going
        taken = taken + np.where(accepted[..., i], amount[..., i], 0.0)
    # lines 6 and 7: what winners sell, and the price of a unit
    wins = np.take_along_axis(accepted, np.argsort(order, axis=-1), -1)
    price = money / np.where(taken > 0, taken, np.inf)
    return Sale(wins, np.where(wins, x * price[..., None], 0.0))


def all_in_repaired(valuations: ArrayLike, amounts: ArrayLike, budget: ArrayLike) -> Sale:
    r"""All-in with payments that make truth the best report of single-minded owners.

    Payments sum to at most the budget and cover the winners' valuations.

    Notes
    -----
    Owners who ask for more than the whole budget are left out. The others stand in ascending order of
    :math:`u_i=V_i/x_i`, and the first :math:`k` win, where :math:`k` is the last with
    :math:`u_k\le B/(x_1+\dots+x_k)`. All are paid :math:`\min\{B/(x_1+\dots+x_k),\,u_{k+1}\}` per unit. Time
    :math:`O(n\log n)`.

    Examples
    --------
    >>> all_in_repaired([100.0, 0.5], [100.0, 1.0], 100.0)
    Sale(wins=array([False,  True]), payments=array([0., 1.]))
    """
    v, x, money = _checked(valuations, amounts, budget)
    # who asks for more than the budget is left out; the others ascend by what they ask per unit
    invited = v <= money[..., None]
    unit = np.where(invited, v / x, np.inf)
    order = np.argsort(unit, axis=-1, kind="stable")
    value, amount, unit = (np.take_along_axis(part, order, -1) for part in (v, x, unit))
    # the first k win, up to the first who is not covered
    total = np.cumsum(amount, axis=-1)
    covered = (value * total <= money[..., None] * amount) & np.isfinite(unit)
    winners = np.minimum.accumulate(covered, axis=-1).sum(-1, keepdims=True)
    # the price of a unit: the budget over what is sold, at most what the first loser asks
    sold = np.take_along_axis(total, np.maximum(winners - 1, 0), -1)
    following = np.concatenate([unit, np.full((*money.shape, 1), np.inf)], axis=-1)
    price = np.minimum(money[..., None] / sold, np.take_along_axis(following, winners, -1))
    wins = np.argsort(order, axis=-1) < winners
    return Sale(wins, np.where(wins, x * price, 0.0))


def single_minded(bids: Bids, budget: ArrayLike, rule: Rule = all_in_repaired) -> Outcome:
    """Sell to owners as if each had only her full valuation and her whole privacy budget to report."""
    sale = rule(bids.full_valuation, bids.sizes * bids.privacy_budget, check_budget(budget, bids))
    return Outcome(np.where(sale.wins, bids.privacy_budget, 0.0), sale.payments)


def _one_lies_or_nobody(truth: Any, lies: Any) -> Any:
    """Reports in rows: in row `i` owner `i` lies, in the last row nobody does."""
    truth, lies = np.broadcast_arrays(truth, lies)
    return np.concatenate([with_own_report(truth, lies), truth[..., None, :]], -2)


def gains(auction: Auction, truth: Bids, lies: Bids, budget: ArrayLike) -> Array:
    """What each owner gains by her lie while the others tell the truth and the budget stays the same, shape (..., n).

    It is minus infinity for a lie that sells what she does not have or accept. An owner who reports fewer records
    delivers, and bears the cost of, those alone. The bids `truth` and `lies` are of shapes that fit.

    Notes
    -----
    All reports of a market, the truth among them, go through `auction` in one batch: a network gives the same market
    another last digit in a batch of another shape.

    Examples
    --------
    >>> from hdpm_lib.auctions.bids import bids
    >>> truth, lies = (bids("linear", rate, 1.0, [10, 30]) for rate in ([1.0, 1.4], [0.1, 0.1]))
    >>> gains(single_minded, truth, lies, 100.0)
    array([ 0., -9.])
    """
    parts = zip(vars(truth).values(), vars(lies).values(), strict=True)
    reports = Bids(*(_one_lies_or_nobody(*pair) for pair in parts))
    money = check_budget(budget, truth)
    told = utility(truth[..., None, :], auction(reports, money[..., None]), reports.sizes)
    return np.diagonal(told, axis1=-2, axis2=-1) - told[..., -1, :]


def single_minded_gains(
    rule: Rule,
    valuations: ArrayLike,
    amounts: ArrayLike,
    lies: tuple[ArrayLike, ArrayLike],
    budget: ArrayLike,
) -> Array:
    """What each single-minded owner gains by her lie while the others tell the truth, `valuations` and `amounts`.

    It is minus infinity for an amount above the truth. The cost of a sale is the true valuation, whatever the amount.

    Parameters
    ----------
    lies : tuple of reported valuations and amounts

    Examples
    --------
    >>> single_minded_gains(all_in, [100.0, 2.0], [100.0, 1.0], ([100.0, 0.5], [100.0, 1.0]), 100.0)
    array([ 0., 98.])
    """
    v, x, money = _checked(valuations, amounts, budget)
    value, amount = (with_own_report(true, lie) for true, lie in zip((v, x), lies, strict=True))
    honest, sale = rule(v, x, money), rule(value, amount, np.broadcast_to(money[..., None], value.shape[:-1]))
    told = sale.payments - np.where(sale.wins, v[..., None, :], 0.0)
    excess = amount > x[..., None, :] * (1 + 1e-12)
    told = np.diagonal(np.where(excess, -np.inf, told), axis1=-2, axis2=-1)
    return told - (honest.payments - np.where(honest.wins, v, 0.0))
