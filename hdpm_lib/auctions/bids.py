r"""Bids of owners of data: a valuation of privacy loss, a limit to it, and the size of their data.

An owner with `d` records who loses :math:`\varepsilon` bears a cost
:math:`v(\varepsilon,d)=\alpha\,d\,b(\varepsilon)` with a rate :math:`\alpha` and one of four base
functions `b`: linear :math:`2\varepsilon`, quadratic :math:`\varepsilon^2`, square root
:math:`2\sqrt\varepsilon`, exponential :math:`e^\varepsilon-1`. She accepts no loss above her
privacy budget :math:`\bar\varepsilon`. These are the bids of Zheng, Cao, Yoshikawa, Li and Yan
(2021), FL-Market: Trading Private Models in Federated Learning.

An *auction* is a function from bids and the buyer's money to an
:class:`~hdpm_lib.markets.outcome.Outcome`: privacy losses and payments. Throughout this package
owners are on the last axis of an array and auctions on the axes before; `market`, `bids` (reports)
and `truth` are of shape (..., n), and a budget, the buyer's money, is a positive float or an array
of shape (...).
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.frozen import Frozen
from hdpm_lib.validation import check_finite

Array = NDArray[np.float64]

FAMILIES = ("linear", "quadratic", "square root", "exponential")
LINEAR = FAMILIES.index("linear")
QUADRATIC = FAMILIES.index("quadratic")
SQUARE_ROOT = FAMILIES.index("square root")
EXPONENTIAL = FAMILIES.index("exponential")
# a privacy budget whose exponential, times a rate and a size, is still a float
LARGEST_EXPONENT = 500
# share of the money that stays with the buyer where owners are served in turn, so that rounding
# cannot overspend
KEPT = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class Bids(Frozen):
    """Bids of n owners in one or many auctions, made by :func:`bids`.

    Parameters
    ----------
    family : int array of shape (..., n)
        Places of the base functions in ``FAMILIES``.
    rate : array of shape (..., n)
        Money for one unit of the base function and one record.
    privacy_budget : array of shape (..., n)
        Largest privacy loss that the owner accepts.
    sizes : array of shape (..., n)
        Numbers of records.

    Examples
    --------
    >>> market = bids("linear", [1.0, 2.0, 4.0], 0.5, [10, 30, 20])
    >>> market.valuation([0.1, 0.2, 0.3])
    array([ 2., 24., 48.])
    """

    family: NDArray[np.int64]
    rate: Array
    privacy_budget: Array
    sizes: Array

    @property
    def shares(self) -> Array:
        """Sizes over their sum, `W` of the paper: the weights of gradients without noise."""
        return self.sizes / self.sizes.sum(axis=-1, keepdims=True)

    def valuation(self, epsilon: ArrayLike) -> Array:
        """Return the cost of privacy losses, in money.

        Parameters
        ----------
        epsilon : array_like of shape (..., n)
            Privacy losses, finite and not negative.

        Returns
        -------
        array of shape (..., n)
            The cost to each owner: 0 for a loss of 0, infinite for an exponential beyond all
            numbers.
        """
        unit = unit_valuation(self.family, self.rate, check_finite(epsilon, "epsilon", low=0))
        with np.errstate(over="ignore"):
            return np.asarray(self.sizes * unit)

    @property
    def full_valuation(self) -> Array:
        """Cost of the whole privacy budget."""
        return self.valuation(self.privacy_budget)

    def __getitem__(self, key: Any) -> Bids:
        """Return the bids of some of the auctions: `key` goes to the leading axes."""
        return Bids(self.family[key], self.rate[key], self.privacy_budget[key], self.sizes[key])

    def in_order(self, order: NDArray[np.intp]) -> Bids:
        """Return the same bids with the owners of each auction in another order.

        Parameters
        ----------
        order : int array of shape (..., n)
            The place in these bids of each owner there.

        Returns
        -------
        Bids
            Of the same shape.
        """
        return Bids(
            np.take_along_axis(self.family, order, -1),
            np.take_along_axis(self.rate, order, -1),
            np.take_along_axis(self.privacy_budget, order, -1),
            np.take_along_axis(self.sizes, order, -1),
        )


def unit_valuation(family: Any, rate: Any, epsilon: Any, xp: Any = np) -> Any:
    """Return the cost for one record of privacy losses, not negative.

    The arrays are those of `xp`, ``numpy`` or ``jax.numpy``. `family` and `rate` are as in
    :class:`Bids`; all are broadcast.

    Examples
    --------
    >>> unit_valuation([0, 1, 2, 3], 0.5, 1.0).round(4)
    array([1.    , 0.5   , 1.    , 0.8591])
    """
    eps = xp.asarray(epsilon, dtype=float)
    place = xp.asarray(family, dtype=int)
    with np.errstate(over="ignore"):  # infinite, or of another family
        curved = xp.where(place == QUADRATIC, eps**2, xp.expm1(eps))
        convex = xp.where(place == LINEAR, 2 * eps, curved)
        base = xp.where(place == SQUARE_ROOT, 2 * xp.sqrt(eps), convex)
        return xp.asarray(rate) * base


def bids(
    family: str | Sequence[str] | ArrayLike,
    rate: ArrayLike,
    privacy_budget: ArrayLike,
    sizes: ArrayLike,
) -> Bids:
    """Make bids of owners from their parts, checked and broadcast.

    Parameters
    ----------
    family : str, or array_like of str or int, of shape (..., n)
        How an owner's cost grows with her privacy loss, as a name or its place in ``FAMILIES``:
        "linear" (0), "quadratic" (1), "square root" (2) or "exponential" (3).
    rate : array_like of shape (..., n)
        Money for one unit of the base function and one record, positive.
    privacy_budget : array_like of shape (..., n)
        Largest privacy loss that the owner accepts, positive; at most 500 for an exponential cost,
        beyond which floats end.
    sizes : array_like of shape (..., n)
        Numbers of records, positive.

    Returns
    -------
    Bids
        The four parts as arrays of shape (..., n).

    Notes
    -----
    With rate a, size d and privacy loss e the cost is a d times 2 e, e squared, 2 sqrt(e) or
    exp(e) - 1. Owners are on the last axis, auctions on the axes before.

    References
    ----------
    Zheng, S., Cao, Y., Yoshikawa, M., Li, H. and Yan, Q. (2021). FL-Market: Trading Private Models
    in Federated Learning. arXiv:2106.04384.

    Examples
    --------
    >>> market = bids(["linear", "quadratic"], [1.0, 0.5], [1.0, 2.0], [10, 30])
    >>> market.full_valuation, market.shares
    (array([20., 60.]), array([0.25, 0.75]))
    """
    parts: dict[str, NDArray[Any]] = {}
    for name, value in (("rate", rate), ("privacy_budget", privacy_budget), ("sizes", sizes)):
        parts[name] = check_finite(value, name, low=0, ends="()")
    parts = {"family": _places(family), **parts}
    shapes = {name: part.shape for name, part in parts.items()}
    try:
        shape = np.broadcast_shapes(*shapes.values())
    except ValueError:
        raise ValueError(f"the parts of bids must have shapes that fit, got {shapes}") from None
    if shape == ():
        raise ValueError("bids must have at least one owner on the last axis, got shape ()")
    made = Bids(**{name: np.broadcast_to(part, shape).copy() for name, part in parts.items()})
    steep = made.privacy_budget[made.family == EXPONENTIAL]
    if (steep > LARGEST_EXPONENT).any():
        raise ValueError(
            f"privacy_budget must be at most {LARGEST_EXPONENT} for exponential costs, got"
            f" {steep.max()}"
        )
    return made


def _places(family: str | Sequence[str] | ArrayLike) -> NDArray[np.int64]:
    """Return places in ``FAMILIES``, from names of any kind of text or from places."""
    given = np.asarray(family)
    if given.dtype.kind in "OTU":
        names = np.array([str(name) for name in given.flat], dtype=str).reshape(given.shape)
        matches = names[..., None] == np.array(FAMILIES)
        unknown = names[~matches.any(-1)]
        if unknown.size:
            raise ValueError(f"family must be one of {FAMILIES}, got {str(unknown[0])!r}")
        given = matches.argmax(-1)
    whole = given.size > 0 and given.dtype.kind in "iu" and not np.ma.isMaskedArray(family)
    if not (whole and (given >= 0).all() and (given < len(FAMILIES)).all()):
        raise ValueError(
            f"family must hold names from {FAMILIES} or their places, got {reprlib.repr(family)}"
        )
    return given.astype(np.int64)


def check_budget(budget: ArrayLike, market: Bids) -> Array:
    """Return the buyer's money for each auction, positive, in the shape of the auctions."""
    if not isinstance(market, Bids):
        raise TypeError(
            "bids must be Bids, such as hdpm_lib.bids(family, rate, privacy_budget, sizes), got"
            f" {reprlib.repr(market)}"
        )
    money = check_finite(budget, "budget", low=0, ends="()")
    auctions = market.rate.shape[:-1]
    try:
        return np.broadcast_to(money, auctions)
    except ValueError:
        raise ValueError(
            f"budget must have one value for each auction, shape {auctions}, got {money.shape}"
        ) from None
