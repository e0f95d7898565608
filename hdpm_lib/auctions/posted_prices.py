"""Posted prices: a truthful way to buy privacy with a fixed amount of money.

Owners are served one after the other, the largest first. Each is shown a price for a unit of
privacy loss and a cap on what she can earn, and she sells what is best for her. Price and cap
depend on public sizes, on the buyer's money and on what was bought *before* her, never on her own
report. So the truth is her best report, she does not lose, and the money lasts. Money that she
leaves goes to those after her. The proof is in :doc:`/book/federated/allin`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.auctions.bids import Bids, check_budget, unit_valuation
from hdpm_lib.markets.outcome import Outcome

Array = NDArray[np.float64]

# Chosen on markets drawn for that purpose; any other positive numbers are as truthful.
SCALE = 1.1
EXTRA = 0.2
POWER = 2 / 3
_KEPT = 1e-12  # share of the money that stays with the buyer, so that rounding cannot overspend


def best_sale(
    family: ArrayLike, rate: ArrayLike, privacy_budget: ArrayLike, price: ArrayLike, cap: ArrayLike
) -> Array:
    r"""What an owner sells who is paid `price` for a unit of privacy loss, up to `cap`, all for one
    record.

    It is the privacy loss in [0, privacy budget] with the largest payment minus valuation, exact; 0
    if none gains. Arguments are broadcast and not checked: `family` as in
    :class:`~hdpm_lib.auctions.bids.Bids`, the others positive.

    Notes
    -----
    An end point is best for linear and square-root owners, whose utility is convex in the loss; for
    the others it is the stationary point :math:`q/(2\alpha)` or :math:`\log(q/\alpha)`, for a price
    of `q`, cut at the ends.

    Examples
    --------
    >>> best_sale([0, 1, 2, 3], 1.0, 1.5, 2.5, 3.0).round(4)
    array([1.2   , 1.2   , 1.2   , 0.9163])
    """
    kind, (alpha, q) = np.asarray(family), (np.asarray(x, dtype=float) for x in (rate, price))
    top = np.minimum(privacy_budget, np.asarray(cap, dtype=float) / q)
    quadratic = np.minimum(top, q / (2 * alpha))
    exponential = np.clip(np.log(q / alpha), 0, top)
    epsilon = np.choose(kind, [top, quadratic, top, exponential])
    return np.where(q * epsilon >= unit_valuation(kind, alpha, epsilon), epsilon, 0.0)


def posted_prices(bids: Bids, budget: ArrayLike) -> Outcome:
    r"""Serve owners in the order of their sizes, each at a price and with a cap that she cannot
    influence.

    Payments sum to at most `budget` and cover every owner's reported valuation. Sizes must be
    verified, and the budget set before the bids.

    Notes
    -----
    Let :math:`R_i` be the records of owner :math:`i` and of those after her, and :math:`M_i` the
    money left. With :math:`m=M_i/R_i` the price of a unit of privacy loss is
    :math:`(1.1+0.2\,d_i/R_i)\,m^{2/3}` per record and the cap is :math:`m` per record. Owners of
    equal size are served in the order of their places. Time :math:`O(n\log n)`.

    Examples
    --------
    >>> from hdpm_lib.auctions.bids import bids
    >>> market = bids(["linear", "quadratic"], [1.0, 0.5], [1.0, 2.0], [30, 10])
    >>> bought = posted_prices(market, 100.0)
    >>> bought.privacy_loss.round(3), bought.payments.round(3)
    (array([1.   , 1.121]), array([69.076, 30.924]))
    """
    money = check_budget(budget, bids) * (1 - _KEPT)
    order = np.argsort(-bids.sizes, axis=-1, kind="stable")
    parts = (np.take_along_axis(part, order, -1) for part in vars(bids).values())
    family, rate, limit, sizes = parts
    waiting = np.cumsum(sizes[..., ::-1], axis=-1)[..., ::-1]
    epsilon = np.zeros(sizes.shape)
    payments = np.zeros(sizes.shape)
    for i in range(sizes.shape[-1]):
        # price and cap, from public sizes and the money left
        cap = money / waiting[..., i]
        price = (SCALE + EXTRA * sizes[..., i] / waiting[..., i]) * cap**POWER
        # she sells what is best for her, and the rest of the money goes on
        epsilon[..., i] = best_sale(family[..., i], rate[..., i], limit[..., i], price, cap)
        payments[..., i] = sizes[..., i] * price * epsilon[..., i]
        money = money - payments[..., i]
    place = np.argsort(order, axis=-1)
    return Outcome(np.take_along_axis(epsilon, place, -1), np.take_along_axis(payments, place, -1))
