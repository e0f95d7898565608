r"""Learned sequential menus: an auction that is truthful whatever its network has learned.

Owners are served one after the other, the largest first. Each is offered a *schedule*: a price
:math:`p_i(\varepsilon)` for every privacy loss, from :math:`p_i(0)=0` upwards and never above the
money that is left. She gets the loss within her reported privacy budget that is best for her
reported valuation, and is paid its price. A small network draws the schedule from what is fixed
before she speaks: the sizes, the money left, and what her predecessors have sold. So a report only
picks a point of the schedule, and the truth picks the best one (:doc:`/book/federated/menus`).
Money that she leaves goes to those after her.

The functions of the network take arrays of NumPy, with which it runs here, or of JAX, with which
``hdpm_book.federated.menus_training`` trains it. Throughout, `weights` is a dict of arrays as in
``SHAPES``, such as :func:`trained_weights` gives.
"""

from __future__ import annotations

import io
import math
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.auctions.bids import (
    EXPONENTIAL,
    KEPT,
    QUADRATIC,
    Bids,
    check_budget,
    unit_valuation,
)
from hdpm_lib.markets.outcome import Outcome

Array = NDArray[np.float64]
Weights = dict[str, Any]

KNOTS = np.array([0, 3, 6, 10, 15, 21, 28, 36, 45, 55, 67, 80, 95, 112, 130, 150, 174, 200]) / 100
"""Privacy losses between which a schedule is linear; nobody is paid for more than the last."""

WIDTHS = np.diff(KNOTS)
_MIDDLES = (KNOTS[1:] + KNOTS[:-1]) / 2
TRAINED = resources.files("hdpm_lib") / "trained"
_NUMBERS = 12  # that the network is told in a turn
_HIDDEN = 32  # width of its hidden layers
SHAPES: dict[str, tuple[int, ...]] = {
    "exponent": (),
    "first": (_NUMBERS, _HIDDEN),
    "first_bias": (_HIDDEN,),
    "second": (_HIDDEN, _HIDDEN),
    "second_bias": (_HIDDEN,),
    "last": (_HIDDEN, len(WIDTHS) + 2),
    "last_bias": (len(WIDTHS) + 2,),
}
"""Names and shapes of the weights."""


class Place(NamedTuple):
    """Sums over sizes at each place in the queue, owners on the last axis."""

    share: Any
    successors: Any
    own: Any  # share to a learned power, to divide the money by
    rest: Any  # the same, summed over the successors
    squares: Any  # of the successors' shares, summed

    def at(self, i: int) -> Place:
        """Return the place of one owner in each queue."""
        return Place(
            self.share[..., i],
            self.successors[..., i],
            self.own[..., i],
            self.rest[..., i],
            self.squares[..., i],
        )


class Sold(NamedTuple):
    """State of an auction: four sums over the predecessors' sales."""

    share: Any  # of those who sold, where a small loss counts in part
    epsilon: Any  # privacy losses, weighted by share
    squares: Any  # of the privacy losses
    noise: Any  # roughly the variance that they bring


class Sales(NamedTuple):
    """Schedules that an auction offers, and its outcome.

    Attributes
    ----------
    prices : array of shape (..., n, knots)
        The schedule of each owner: prices at ``KNOTS``.
    outcome : Outcome
        Choices of the owners.
    """

    prices: Array
    outcome: Outcome


# --- the network, for NumPy and for JAX ---------------------------------------------------------


def _sum_after(x: Any) -> Any:
    """Sum over the successors of each owner."""
    xp = x.__array_namespace__()  # numpy or jax.numpy
    sums = xp.cumsum(x[..., :0:-1], -1)[..., ::-1]
    return xp.concatenate([sums, xp.zeros_like(x[..., :1])], -1)


def places(weights: Weights, shares: Any) -> Place:
    """Compute the sums at each place; `shares` (..., n) go from the largest to the smallest."""
    xp = shares.__array_namespace__()
    own = xp.exp(xp.clip(weights["exponent"] * xp.log(shares), -60, 60))
    successors = xp.broadcast_to(xp.arange(shares.shape[-1] - 1.0, -1.0, -1.0), shares.shape)
    return Place(shares, successors, own, _sum_after(own), _sum_after(shares**2))


def nothing_sold(money: Any) -> Sold:
    """Return the state before the first turn."""
    nothing = 0.0 * money
    return Sold(nothing, nothing, nothing, nothing)


def record_sale(sold: Sold, share: Any, epsilon: Any) -> Sold:
    """Return the state after one more turn."""
    weight = share * epsilon / (epsilon + 0.1)
    squares = epsilon**2
    return Sold(
        sold.share + weight,
        sold.epsilon + share * epsilon,
        sold.squares + squares,
        sold.noise + weight**2 / (squares + 0.01),
    )


def increments(weights: Weights, place: Place, money: Any, sold: Sold) -> Any:
    """Compute an owner's schedule: increments of the price on each piece, shape (..., pieces).

    The owner is the one at `place`, and has her turn. The increments are not negative. Their sum,
    the price of the last knot, is at most `money`, the rest of the budget per record of the market,
    and all of it for the last owner.

    Notes
    -----
    The network's output is added to the logarithms of a share of the money, of the loss beyond
    which the price hardly grows (the knee), and of the increments. It is clipped, so that whatever
    the weights are nothing overflows.
    """
    xp = weights["first"].__array_namespace__()
    left = xp.log(money + 1e-9)
    part = place.own / (place.own + place.rest)
    numbers = [
        left,
        xp.log(place.share),
        place.share,
        xp.log1p(place.successors),
        place.rest,
        xp.log(place.squares + 1e-6),
        xp.log(part),
        left + xp.log(part / place.share),
        sold.share,
        sold.epsilon,
        xp.log(sold.squares + 0.01),
        xp.log(sold.noise + 0.01),
    ]
    hidden = xp.stack(numbers, -1)
    for layer in ("first", "second"):
        hidden = xp.einsum("...i,ij->...j", hidden, weights[layer]) + weights[f"{layer}_bias"]
        hidden = 0.5 * hidden * (1 + xp.tanh(0.5 * hidden))  # SiLU, without overflow
    out = xp.einsum("...i,ij->...j", hidden, weights["last"]) + weights["last_bias"]
    out = xp.clip(out, -30, 30)
    cap = money * (place.own / (place.own + place.rest * xp.exp(-out[..., 0])))
    knee = math.log(0.74) + 0.5 * xp.log(cap / place.share + 1e-9) + out[..., 1]
    widths, middles = np.log(np.stack([WIDTHS, _MIDDLES]), dtype=out.dtype)
    beyond_knee = xp.clip(8 * (middles - knee[..., None]), -60, 60)
    steps = out[..., 2:] + widths - xp.log1p(xp.exp(beyond_knee))
    steps = xp.exp(steps - steps.max(-1, keepdims=True))
    return cap[..., None] * (steps / steps.sum(-1, keepdims=True))


# --- the auction --------------------------------------------------------------------------------


def choose(prices: ArrayLike, bids: Bids) -> Outcome:
    r"""Choose the point of each schedule that is best for its owner, exactly.

    Privacy losses lie in [0, privacy budget]; they and their prices are 0 where no sale gains
    anything.

    Parameters
    ----------
    prices : array_like of shape (..., n, knots)
        A schedule for each owner: prices at ``KNOTS``, from 0 upwards.
    bids : Bids
        Reports of the owners, of shape (..., n).

    Returns
    -------
    Outcome
        Privacy losses sold, and their prices as `payments`.

    Notes
    -----
    On a piece of slope `s` an end is best for linear and square-root owners, whose utility is
    convex in the loss; for the others it is the stationary point :math:`s/(2\alpha d)` or
    :math:`\log(s/(\alpha d))`, cut at the ends.

    Examples
    --------
    >>> from hdpm_lib.auctions.bids import bids
    >>> best = choose(10 * KNOTS, bids(["linear", "quadratic"], [4.0, 4.0], [1.5, 1.5], [1, 1]))
    >>> best.privacy_loss, best.payments
    (array([1.5 , 1.25]), array([15. , 12.5]))
    """
    price = np.asarray(prices, dtype=float)
    slope = np.diff(price) / WIDTHS
    owner = bids[..., None]
    start = KNOTS[:-1]
    end = np.minimum(KNOTS[1:], owner.privacy_budget)
    # Quadratic and exponential costs have a stationary point, the others the end of the piece
    quadratic = owner.family == QUADRATIC
    margin = slope / (owner.rate * owner.sizes)
    stationary = np.where(quadratic, margin / 2, np.log(np.maximum(margin, 1e-300)))
    inside = np.clip(stationary, start, end)
    epsilon = np.where(quadratic | (owner.family == EXPONENTIAL), inside, end)
    # The best of all pieces that she accepts
    paid = np.minimum(price[..., :-1] + slope * (epsilon - start), price[..., 1:])
    cost = owner.sizes * unit_valuation(owner.family, owner.rate, epsilon)
    gain = np.where(start < owner.privacy_budget, paid - cost, -np.inf)
    best = gain.argmax(-1)[..., None]
    sells = np.take_along_axis(gain, best, -1) > 0
    epsilon = np.where(sells, np.take_along_axis(epsilon, best, -1), 0.0)
    paid = np.where(sells, np.take_along_axis(paid, best, -1), 0.0)
    return Outcome(epsilon[..., 0], paid[..., 0])


def serve(bids: Bids, budget: ArrayLike, weights: Weights) -> Sales:
    """Serve owners in turn, as :func:`menus`, and return what was offered, too.

    Parameters
    ----------
    bids : Bids
        Reports of the owners, of shape (..., n).
    budget : float or array_like of shape (...)
        The buyer's money for each auction, positive.
    weights : dict of arrays
        Those of the network, as in ``SHAPES``.

    Returns
    -------
    Sales
        The schedules, and what the owners choose from them.

    Examples
    --------
    >>> from hdpm_lib.auctions.bids import bids
    >>> market = bids("quadratic", [1.0, 0.7, 1.2], [1.0, 2.0, 1.5], [50, 30, 20])
    >>> sales = serve(market, 60.0, trained_weights())
    >>> sales.prices.shape == (3, len(KNOTS))
    True
    >>> bool((sales.outcome.payments <= sales.prices[:, -1]).all())
    True
    """
    check_weights(weights)
    weights = {name: np.asarray(weights[name]) for name in SHAPES}
    left = check_budget(budget, bids) * (1 - KEPT)
    order = np.argsort(-bids.sizes, axis=-1, kind="stable")
    queue = bids.in_order(order)
    queue_places = places(weights, queue.shares)
    records = bids.sizes.sum(-1)
    prices = np.zeros((*order.shape, len(KNOTS)))
    epsilon = np.empty(order.shape)
    payments = np.empty(order.shape)
    sold = nothing_sold(left)
    for i in range(order.shape[-1]):
        # Her schedule, from what is fixed before she speaks: sizes, the money left, what was sold
        place = queue_places.at(i)
        steps = increments(weights, place, left / records, sold) * records[..., None]
        prices[..., i, 1:] = np.cumsum(steps, -1)
        # She gets the point that is best for her, and the rest of the money goes on
        choice = choose(prices[..., i, :], queue[..., i])
        epsilon[..., i] = choice.privacy_loss
        payments[..., i] = choice.payments
        left = np.maximum(left - choice.payments, 0)
        sold = record_sale(sold, place.share, choice.privacy_loss)
    # Back from the queue to the order of the bids
    back = np.argsort(order, axis=-1)
    epsilon = np.take_along_axis(epsilon, back, -1)
    payments = np.take_along_axis(payments, back, -1)
    prices = np.take_along_axis(prices, back[..., None], -2)
    return Sales(prices, Outcome(epsilon, payments))


def menus(bids: Bids, budget: ArrayLike, weights: Weights) -> Outcome:
    """Serve owners in turn, each with a schedule of prices that a network draws.

    Parameters
    ----------
    bids : Bids
        Reports of the owners, as :func:`~hdpm_lib.auctions.bids.bids` makes them, for any number of
        owners. Sizes must be verified.
    budget : float or array_like of shape (...)
        The buyer's money for each auction, positive, set before the bids.
    weights : dict of arrays
        Those of the network, as in ``SHAPES``, such as :func:`trained_weights` gives.

    Returns
    -------
    Outcome
        The `privacy_loss` of each owner, within her privacy budget, and her payment, at least her
        reported valuation of it. The `payments` sum to at most the budget.

    Notes
    -----
    Owners are served in the order of their sizes, the largest first, equal ones in the order of
    their places. No owner gains by reporting another valuation or privacy budget, whatever the
    weights. Valuations are those that `Bids` can express.

    Examples
    --------
    >>> from hdpm_lib.auctions.bids import bids
    >>> market = bids("quadratic", [1.0, 0.7, 1.2], [1.0, 2.0, 1.5], [50, 30, 20])
    >>> bought = menus(market, 60.0, trained_weights())
    >>> paid_enough = bought.payments >= market.valuation(bought.privacy_loss)
    >>> bool(bought.payments.sum() <= 60), bool(paid_enough.all())
    (True, True)
    """
    return serve(bids, budget, weights).outcome


# --- weights ------------------------------------------------------------------------------------


def trained_weights() -> Weights:
    """Return the weights of the recorded run of ``hdpm_book.federated.menus_training``."""
    stored = io.BytesIO((TRAINED / "menus.npz").read_bytes())  # the library may lie in a zip
    with np.load(stored) as arrays:
        return {name: arrays[name].astype(float) for name in SHAPES}


def check_weights(weights: Weights) -> None:
    """Refuse weights of which an array is missing, not as in ``SHAPES``, or too large."""
    for name, shape in SHAPES.items():
        if name not in weights:
            raise ValueError(f"weights lack {name!r}")
        if np.shape(weights[name]) != shape:
            raise ValueError(
                f"weights[{name!r}] must have shape {shape}, got {np.shape(weights[name])}"
            )
        array = np.asarray(weights[name], dtype=float)
        bad = ~(np.abs(array) < 1e6)
        if bad.any():
            raise ValueError(
                f"weights[{name!r}] must be finite and below a million, got {array[bad].flat[0]}"
            )
