"""Posted prices: a truthful way to buy privacy with a fixed amount of money.

Owners are served one after the other, the largest first. Each is shown a price for a unit of
privacy loss and a cap on what she can earn, and she sells what is best for her. Price and cap
depend on public sizes, on the buyer's money and on what was bought *before* her, never on her own
report. So the truth is her best report, she does not lose, and the money lasts. Money that she
leaves goes to those after her. The proof is in :doc:`/book/federated/allin`. The rule is not one of
Zheng, Cao, Yoshikawa, Li and Yan (2021), FL-Market, whose bids it takes.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.auctions.bids import EXPONENTIAL, KEPT, QUADRATIC, Bids, check_budget, unit_valuation
from hdpm_lib.markets.outcome import Outcome

Array = NDArray[np.float64]

# Price and cap of an owner; chosen on markets drawn for that purpose, any other positive numbers
# are as truthful.
SCALE = 1.1
EXTRA = 0.2
POWER = 2 / 3
# the base functions of the families, for floats
_BASES = (lambda e: 2 * e, lambda e: e * e, lambda e: 2 * math.sqrt(e), math.expm1)


def best_sale(
    family: ArrayLike, rate: ArrayLike, privacy_budget: ArrayLike, price: ArrayLike, cap: ArrayLike
) -> Array:
    r"""Return what an owner sells who is paid `price` for a unit of privacy loss, up to `cap`.

    This is the privacy loss in [0, privacy budget] with the largest payment minus valuation, exact;
    0 if none gains. Price and cap are for one record. Arguments are broadcast and not checked:
    `family` as in :class:`~hdpm_lib.auctions.bids.Bids`, the others positive; the cap, and with it
    the price, may be 0.

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
    alpha = np.asarray(rate, dtype=float)
    q = np.asarray(price, dtype=float)
    top = np.minimum(privacy_budget, np.asarray(cap, dtype=float) / np.maximum(q, 1e-300))
    quadratic = np.minimum(top, q / (2 * alpha))
    exponential = np.minimum(top, np.log(np.maximum(q / alpha, 1)))
    epsilon = np.choose(np.asarray(family), [top, quadratic, top, exponential])
    return np.where(q * epsilon >= unit_valuation(family, alpha, epsilon), epsilon, 0.0)


def posted_prices(bids: Bids, budget: ArrayLike) -> Outcome:
    r"""Buy privacy with a fixed budget at prices that no owner can influence.

    Parameters
    ----------
    bids : Bids
        Reports of the owners, as :func:`~hdpm_lib.auctions.bids.bids` makes them. Sizes must be
        verified.
    budget : float or array_like of shape (...)
        The buyer's money for each auction, positive, set before the bids.

    Returns
    -------
    Outcome
        The `privacy_loss` of each owner, within her privacy budget, and her payment, at least her
        reported valuation of it. The `payments` sum to at most the budget.

    Notes
    -----
    Owners are served in the order of their sizes, the largest first, equal ones in the order of
    their places. Let :math:`R_i` be the records of owner :math:`i` and of those after her, and
    :math:`M_i` the money left. With :math:`m=M_i/R_i` the price of a unit of privacy loss is
    :math:`(1.1+0.2\,d_i/R_i)\,m^{2/3}` per record; of what costs at most :math:`m` per record at
    that price the owner sells the loss that is best for her. Whatever the others report, no owner
    gains by reporting another valuation or privacy budget. The constants suit FL-Market's bids, and
    the power makes them depend on the unit of money: give it in one in which a unit of privacy loss
    costs an owner about 1 per record. `cost` and `error` are not decided. Time
    :math:`O(n\log n)`.

    The bids are those of FL-Market; the rule is proved at :doc:`/book/federated/allin`.

    References
    ----------
    Zheng, S., Cao, Y., Yoshikawa, M., Li, H. and Yan, Q. (2021). FL-Market: Trading Private Models
    in Federated Learning. arXiv:2106.04384.

    Examples
    --------
    Two hospitals sell gradients to a buyer who has 100.0. The first has 30 records, loses 2.0 in
    money per record and unit of privacy loss, and accepts a loss of at most 1.0. The second has 10
    records, and her cost is half the square of the loss, per record:

    >>> from hdpm_lib.auctions.bids import bids
    >>> market = bids(["linear", "quadratic"], [1.0, 0.5], [1.0, 2.0], sizes=[30, 10])
    >>> bought = posted_prices(market, budget=100.0)
    >>> bought.privacy_loss.round(3), bought.payments.round(3)
    (array([1.   , 1.121]), array([69.076, 30.924]))
    >>> market.valuation(bought.privacy_loss).round(3)    # what the losses cost them
    array([60.  ,  6.28])
    """
    money = check_budget(budget, bids) * (1 - KEPT)
    order = np.argsort(-bids.sizes, axis=-1, kind="stable")
    queue = bids.in_order(order)
    waiting = np.cumsum(queue.sizes[..., ::-1], axis=-1)[..., ::-1]
    epsilon = np.empty(order.shape)
    payments = np.empty(order.shape)
    if money.ndim == 0:
        sold = _one_market(queue, waiting, float(money))
        epsilon[:] = sold.privacy_loss
        payments[:] = sold.payments
    else:
        for i in range(order.shape[-1]):
            # Price and cap, from public sizes and the money left
            owner = queue[..., i]
            cap = money / waiting[..., i]
            price = (SCALE + EXTRA * owner.sizes / waiting[..., i]) * cap**POWER
            # She sells what is best for her, and the rest of the money goes on
            epsilon[..., i] = best_sale(owner.family, owner.rate, owner.privacy_budget, price, cap)
            payments[..., i] = owner.sizes * price * epsilon[..., i]
            money = np.maximum(money - payments[..., i], 0)
    # Back from the queue to the order of the bids
    back = np.argsort(order, axis=-1)
    epsilon = np.take_along_axis(epsilon, back, -1)
    payments = np.take_along_axis(payments, back, -1)
    return Outcome(epsilon, payments)


def _one_market(queue: Bids, waiting: Array, money: float) -> Outcome:
    """Serve the owners of one market by the same steps in plain floats.

    Arrays of one number each would take thirty times as long.
    """
    losses = []
    payments = []
    owners = zip(
        queue.family.tolist(),
        queue.rate.tolist(),
        queue.privacy_budget.tolist(),
        queue.sizes.tolist(),
        waiting.tolist(),
        strict=True,
    )
    for family, rate, limit, size, rest in owners:
        cap = money / rest
        price = (SCALE + EXTRA * size / rest) * cap**POWER
        loss = min(limit, cap / max(price, 1e-300))
        if family == QUADRATIC:
            loss = min(loss, price / (2 * rate))
        elif family == EXPONENTIAL:
            loss = min(loss, math.log(max(price / rate, 1)))
        if price * loss < rate * _BASES[family](loss):
            loss = 0.0
        payment = size * price * loss
        losses.append(loss)
        payments.append(payment)
        money = max(money - payment, 0)
    return Outcome(np.array(losses), np.array(payments))
