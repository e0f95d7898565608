r"""What owners of data bid in FL-Market: a valuation of privacy loss, a limit to it, and the size
of their data.

An owner with `d` records who loses :math:`\varepsilon` bears a cost
:math:`v(\varepsilon,d)=\alpha\,d\,b(\varepsilon)` with a rate :math:`\alpha` and one of four base
functions `b`: linear :math:`2\varepsilon`, quadratic :math:`\varepsilon^2`, square root
:math:`2\sqrt\varepsilon`, exponential :math:`e^\varepsilon-1`. She accepts no loss above her
privacy budget :math:`\bar\varepsilon`.

An *auction* is a function from bids and the buyer's money to an
:class:`~hdpm_lib.markets.outcome.Outcome`: privacy losses and payments. Throughout this package
owners are on the last axis of an array and auctions on the axes before; `market`, `bids` (reports)
and `truth` are of shape (..., n), and a budget, the buyer's money, is a positive float or an array
of shape (...).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.markets.outcome import Outcome
from hdpm_lib.validation import check_finite

Array = NDArray[np.float64]

FAMILIES = ("linear", "quadratic", "square root", "exponential")
EXPONENTIAL = FAMILIES.index("exponential")
# a privacy budget whose exponential, times a rate and a size, is still a float
LARGEST_EXPONENT = 500


@dataclass(frozen=True)
class Bids:
    """Bids of `n` owners in one or many auctions, arrays of shape (..., n); made by :func:`bids`.

    Attributes
    ----------
    family : integer array, places of the base functions in ``FAMILIES``
    rate : array, money for one unit of the base function and one record
    privacy_budget : array, largest privacy loss that the owner accepts
    sizes : array, records
    """

    family: NDArray[np.int64]
    rate: Array
    privacy_budget: Array
    sizes: Array

    @property
    def shares(self) -> Array:
        """Sizes over their sum, `W` of the paper: what gradients would count for without noise."""
        return self.sizes / self.sizes.sum(axis=-1, keepdims=True)

    def valuation(self, epsilon: ArrayLike) -> Array:
        """Cost of privacy losses (..., n) in money; 0 for a loss of 0, infinite for exponentials
        beyond all numbers.
        """
        unit = unit_valuation(self.family, self.rate, check_finite(epsilon, "epsilon", low=0))
        with np.errstate(over="ignore"):
            return np.asarray(self.sizes * unit)

    @property
    def full_valuation(self) -> Array:
        """Cost of the whole privacy budget."""
        return self.valuation(self.privacy_budget)

    def __getitem__(self, key: Any) -> Bids:
        """Bids of some of the auctions: `key` goes to the leading axes."""
        parts = (self.family, self.rate, self.privacy_budget, self.sizes)
        return Bids(*(part[key] for part in parts))


def unit_valuation(family: Any, rate: Any, epsilon: Any, xp: Any = np) -> Any:
    """Cost for one record of privacy losses, not negative, by `xp`, which is ``numpy`` or
    ``jax.numpy``.

    `family` and `rate` are as in :class:`Bids`; all are broadcast.

    Examples
    --------
    >>> unit_valuation([0, 1, 2, 3], 0.5, 1.0).round(4)
    array([1.    , 0.5   , 1.    , 0.8591])
    """
    eps = xp.asarray(epsilon, dtype=float)
    place = xp.asarray(family, dtype=int)
    with np.errstate(over="ignore"):  # infinite, or of another family
        convex = xp.where(place == 0, 2 * eps, xp.where(place == 1, eps**2, xp.expm1(eps)))
        return xp.asarray(rate) * xp.where(place == 2, 2 * xp.sqrt(eps), convex)


def bids(
    family: str | Sequence[str] | ArrayLike,
    rate: ArrayLike,
    privacy_budget: ArrayLike,
    sizes: ArrayLike,
) -> Bids:
    """Bids from their parts, checked; the parts are broadcast.

    Parameters
    ----------
    family : str, or array of str or int
        Names from ``FAMILIES``, or their places there.
    rate, privacy_budget, sizes : arrays, positive
        For an exponential cost the privacy budget is at most 500, beyond which floats end.

    Examples
    --------
    >>> market = bids(["linear", "quadratic"], [1.0, 0.5], [1.0, 2.0], [10, 30])
    >>> market.full_valuation, market.shares
    (array([20., 60.]), array([0.25, 0.75]))
    """
    numbers = {"rate": rate, "privacy_budget": privacy_budget, "sizes": sizes}
    arrays = {name: check_finite(value, name, low=0, ends="()") for name, value in numbers.items()}
    places = _places(family)
    try:
        parts = np.broadcast_arrays(places, *arrays.values())
    except ValueError:
        shapes = {"family": places.shape} | {name: array.shape for name, array in arrays.items()}
        raise ValueError(f"the parts of bids must have shapes that fit, got {shapes}") from None
    if ((parts[0] == EXPONENTIAL) & (parts[2] > LARGEST_EXPONENT)).any():
        raise ValueError(
            f"privacy_budget must be at most {LARGEST_EXPONENT} for exponential costs, got"
            f" {parts[2].max()}"
        )
    if parts[0].ndim == 0:
        raise ValueError(
            f"bids must have at least one owner on the last axis, got shape {parts[0].shape}"
        )
    return Bids(*(part.copy() for part in parts))


def _places(family: str | Sequence[str] | ArrayLike) -> NDArray[np.int64]:
    given = np.asarray(family)
    if given.size == 0 or np.ma.isMaskedArray(family):
        raise ValueError(f"family must hold a name or place for each owner, got {family!r}")
    if given.dtype.kind == "U":
        if (unknown := ~np.isin(given, FAMILIES)).any():
            raise ValueError(
                f"family must be one of {FAMILIES}, got {str(given[unknown].flat[0])!r}"
            )
        return np.argmax(given[..., None] == np.array(FAMILIES), axis=-1)
    if given.dtype.kind not in "iu" or (given < 0).any() or (given >= len(FAMILIES)).any():
        raise ValueError(f"family must hold names from {FAMILIES} or their places, got {family!r}")
    return given.astype(np.int64)


def check_budget(budget: ArrayLike, market: Bids) -> Array:
    """The buyer's money for each auction, positive and finite, in the shape of the auctions, or an
    error.
    """
    money = check_finite(budget, "budget", low=0, ends="()")
    auctions = market.rate.shape[:-1]
    try:
        return np.broadcast_to(money, auctions)
    except ValueError:
        raise ValueError(
            f"budget must have one value for each auction, shape {auctions}, got {money.shape}"
        ) from None


def utility(truth: Bids, outcome: Outcome, delivered_sizes: ArrayLike | None = None) -> Array:
    """What owners gain, in money: payment minus true cost of what they deliver (Section III-C of
    the paper).

    It is minus infinity beyond what they can deliver. `delivered_sizes` are the records sold, if
    not all.
    """
    sizes = (
        truth.sizes
        if delivered_sizes is None
        else check_finite(delivered_sizes, "delivered_sizes", low=0)
    )
    with np.errstate(over="ignore", invalid="ignore"):  # beyond the limits
        cost = sizes * unit_valuation(truth.family, truth.rate, outcome.privacy_loss)
    beyond = (outcome.privacy_loss > truth.privacy_budget * (1 + 1e-12)) | (
        sizes > truth.sizes * (1 + 1e-12)
    )
    return np.where(beyond, -np.inf, outcome.payments - cost)
