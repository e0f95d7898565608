r"""Learned sequential menus: an auction that is truthful whatever its network has learned.

Owners are served one after the other, the largest first. Each is offered a *schedule*: a price
:math:`p_i(\varepsilon)` for every privacy loss, from :math:`p_i(0)=0` upwards and never above the
money that is left. She gets the loss within her reported privacy budget that is best for her
reported valuation, and is paid its price. A small network draws the schedule from what is fixed
before she speaks: the sizes, the money left, and what her predecessors have sold. So a report only
picks a point of the schedule, and the truth picks the best one (:doc:`/book/federated/menus`).
Money that she leaves goes to those after her.

The functions of the network take `xp`, ``numpy`` or ``jax.numpy``: what runs here is trained by
``hdpm_book.federated.menus_training``. Throughout, `weights` is a dict of arrays as in ``SHAPES``,
such as :func:`trained_weights` gives.
"""

from __future__ import annotations

import math
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.auctions.bids import Bids, check_budget, unit_valuation
from hdpm_lib.markets.outcome import Outcome

Array = NDArray[np.float64]
Weights = dict[str, Any]

KNOTS = np.array(
    [
        0,
        0.03,
        0.06,
        0.1,
        0.15,
        0.21,
        0.28,
        0.36,
        0.45,
        0.55,
        0.67,
        0.8,
        0.95,
        1.12,
        1.3,
        1.5,
        1.74,
        2,
    ]
)
"""Privacy losses between which a schedule is linear; nobody is paid for more than the last."""

WIDTHS = np.diff(KNOTS)
_MIDDLES = (KNOTS[1:] + KNOTS[:-1]) / 2
_KEPT = 1e-12  # share of the money that stays with the buyer, so that rounding cannot overspend
TRAINED = Path(str(resources.files("hdpm_lib.trained")))
_NUMBERS = 12
_HIDDEN = 32
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


class Public(NamedTuple):
    """What the sizes say at each turn, owners on the last axis."""

    share: Any
    successors: Any
    own: Any  # share to a learned power, to divide the money by
    rest: Any  # the same, summed over the successors
    squares: Any  # of the successors' shares, summed


class Sold(NamedTuple):
    """What is known of the predecessors' sales: four sums over them."""

    share: Any  # of those who sold, where a small loss counts in part
    epsilon: Any  # privacy losses, weighted by share
    squares: Any  # of the privacy losses
    noise: Any  # roughly the variance that they bring


# --- the network, for NumPy and for JAX ---------------------------------------------------------


def _after(x: Any, xp: ModuleType) -> Any:
    """Sums over the successors of each owner."""
    sums = xp.cumsum(x[..., :0:-1], -1)[..., ::-1]
    return xp.concatenate([sums, xp.zeros_like(x[..., :1])], -1)


def public(weights: Weights, shares: Any, xp: ModuleType) -> Public:
    """What the sizes say at each turn; `shares` (..., n) from the largest to the smallest."""
    own = xp.exp(xp.clip(weights["exponent"] * xp.log(shares), -60, 60))
    successors = xp.broadcast_to(xp.arange(shares.shape[-1] - 1.0, -1.0, -1.0), shares.shape)
    return Public(shares, successors, own, _after(own, xp), _after(shares**2, xp))


def nothing_sold(money: Any, xp: ModuleType) -> Sold:
    """The state before the first turn."""
    return Sold(*(xp.zeros_like(money) for _ in Sold._fields))


def record_sale(sold: Sold, share: Any, epsilon: Any) -> Sold:
    """The state after one more turn."""
    weight = share * epsilon / (epsilon + 0.1)
    squares = epsilon**2
    return Sold(
        sold.share + weight,
        sold.epsilon + share * epsilon,
        sold.squares + squares,
        sold.noise + weight**2 / (squares + 0.01),
    )


def increments(weights: Weights, turn: Public, money: Any, sold: Sold, xp: ModuleType) -> Any:
    """What each piece of the schedule adds to the price for the owner whose turn it is, shape (...,
    pieces).

    The increments are not negative. Their sum, the price of the last knot, is at most `money`, what
    is left per record of the market, and all of it for the last owner.

    Notes
    -----
    The network's output is added to the logarithms of a share of the money, of the loss beyond
    which the price hardly grows (the knee), and of the increments. It is clipped, so that whatever
    the weights are nothing overflows.
    """
    left = xp.log(money + 1e-9)
    part = turn.own / (turn.own + turn.rest)
    numbers = [
        left,
        xp.log(turn.share),
        turn.share,
        xp.log1p(turn.successors),
        turn.rest,
        xp.log(turn.squares + 1e-6),
        xp.log(part),
        left + xp.log(part / turn.share),
        sold.share,
        sold.epsilon,
        xp.log(sold.squares + 0.01),
        xp.log(sold.noise + 0.01),
    ]
    hidden = xp.stack(numbers, -1)
    for layer in ("first", "second"):
        hidden = xp.einsum("...i,ij->...j", hidden, weights[layer]) + weights[f"{layer}_bias"]
        hidden = 0.5 * hidden * (1 + xp.tanh(0.5 * hidden))  # SiLU, without overflow
    out = xp.clip(
        xp.einsum("...i,ij->...j", hidden, weights["last"]) + weights["last_bias"], -30, 30
    )
    cap = money * (turn.own / (turn.own + turn.rest * xp.exp(-out[..., 0])))
    knee = math.log(0.74) + 0.5 * xp.log(cap / turn.share + 1e-9) + out[..., 1]
    widths, middles = np.log(np.stack([WIDTHS, _MIDDLES]), dtype=out.dtype)
    steps = (
        out[..., 2:] + widths - xp.log1p(xp.exp(xp.clip(8 * (middles - knee[..., None]), -60, 60)))
    )
    steps = xp.exp(steps - steps.max(-1, keepdims=True))
    return cap[..., None] * (steps / steps.sum(-1, keepdims=True))


# --- the auction --------------------------------------------------------------------------------


def choose(prices: ArrayLike, bids: Bids) -> Outcome:
    r"""The point of her schedule that is best for each owner, exactly.

    Privacy losses lie in [0, privacy budget]; they and their prices are 0 where no sale gains
    anything.

    Parameters
    ----------
    prices : array of shape (..., knots), at ``KNOTS`` and from 0 upwards, one schedule for each
    owner in `bids`

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
    start = KNOTS[:-1]
    family, rate, limit, size = (part[..., None] for part in vars(bids).values())
    end = np.minimum(KNOTS[1:], limit)
    margin = slope / (rate * size)
    # quadratic and exponential costs have a stationary point, the others the end of the piece
    stationary = np.where(family == 1, margin / 2, np.log(np.maximum(margin, 1e-300)))
    epsilon = np.where((family == 1) | (family == 3), np.clip(stationary, start, end), end)
    paid = np.minimum(price[..., :-1] + slope * (epsilon - start), price[..., 1:])
    gain = np.where(start < limit, paid - size * unit_valuation(family, rate, epsilon), -np.inf)
    best = gain.argmax(-1)[..., None]
    sells = np.take_along_axis(gain, best, -1) > 0
    sold = (np.where(sells, np.take_along_axis(x, best, -1), 0.0) for x in (epsilon, paid))
    return Outcome(*(x[..., 0] for x in sold))


def serve(bids: Bids, budget: ArrayLike, weights: Weights) -> tuple[Array, Outcome]:
    """What :func:`menus` offers, prices at ``KNOTS`` of shape (..., n, knots), and what the owners
    choose from that.

    Examples
    --------
    >>> from hdpm_lib.auctions.bids import bids
    >>> market = bids("quadratic", [1.0, 0.7, 1.2], [1.0, 2.0, 1.5], [50, 30, 20])
    >>> offered, bought = serve(market, 60.0, trained_weights())
    >>> offered.shape == (3, len(KNOTS)), bool((bought.payments <= offered[:, -1]).all())
    (True, True)
    """
    check_weights(weights)
    money = check_budget(budget, bids)
    order = np.argsort(-bids.sizes, axis=-1, kind="stable")
    queue = Bids(*(np.take_along_axis(part, order, -1) for part in vars(bids).values()))
    records = bids.sizes.sum(-1)
    turns = public(weights, queue.shares, np)
    left = money * (1 - _KEPT)
    served = []
    sold = nothing_sold(left, np)
    for i in range(order.shape[-1]):
        # her schedule, from what is fixed before she speaks: sizes, the money left, what was sold
        turn = Public._make(part[..., i] for part in turns)
        steps = increments(weights, turn, left / records, sold, np) * records[..., None]
        prices = np.concatenate([np.zeros_like(steps[..., :1]), np.cumsum(steps, -1)], -1)
        # she gets the point that is best for her, and the rest of the money goes on
        outcome = choose(prices, queue[..., i])
        left = np.maximum(left - outcome.payments, 0)
        sold = record_sale(sold, turn.share, outcome.privacy_loss)
        bought = np.stack([outcome.privacy_loss, outcome.payments], -1)
        served.append(np.concatenate([prices, bought], -1))
    back = np.argsort(order, axis=-1)[..., None]
    done = np.take_along_axis(np.stack(served, -2), back, -2)
    return done[..., :-2], Outcome(done[..., -2], done[..., -1])


def menus(bids: Bids, budget: ArrayLike, weights: Weights) -> Outcome:
    """Serve any number of owners, the largest first (equal ones by index), each with a schedule of
    the network.

    Payments sum to at most `budget` and cover every owner's reported valuation.

    Notes
    -----
    With sizes verified and money set before the bids, no owner gains by reporting another valuation
    or privacy budget, whatever the weights. Valuations are those that `Bids` can express.

    Examples
    --------
    >>> from hdpm_lib.auctions.bids import bids
    >>> market = bids("quadratic", [1.0, 0.7, 1.2], [1.0, 2.0, 1.5], [50, 30, 20])
    >>> bought = menus(market, 60.0, trained_weights())
    >>> paid_enough = bought.payments >= market.valuation(bought.privacy_loss)
    >>> bool(bought.payments.sum() <= 60), bool(paid_enough.all())
    (True, True)
    """
    return serve(bids, budget, weights)[1]


# --- weights ------------------------------------------------------------------------------------


def trained_weights() -> Weights:
    """The weights of the recorded run of ``hdpm_book.federated.menus_training``, in float64."""
    with np.load(TRAINED / "menus.npz") as arrays:
        return {name: arrays[name].astype(float) for name in SHAPES}


def check_weights(weights: Weights) -> None:
    """An error that names the first array that is missing, of another shape, or holds anything but
    moderate numbers.
    """
    for name, shape in SHAPES.items():
        if name not in weights:
            raise ValueError(f"weights lack {name!r}")
        if np.shape(weights[name]) != shape:
            raise ValueError(
                f"weights[{name!r}] must have shape {shape}, got {np.shape(weights[name])}"
            )
        array = np.asarray(weights[name], dtype=float)
        if (bad := ~(np.abs(array) < 1e6)).any():
            raise ValueError(
                f"weights[{name!r}] must be finite and below a million, got {array[bad].flat[0]}"
            )
