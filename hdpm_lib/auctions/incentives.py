"""Utilities of owners in an auction, and gains by lies, for any auction of bids.

For sellers with one cost per unit: :mod:`hdpm_lib.markets.incentives`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.auctions.bids import Bids, check_budget, unit_valuation
from hdpm_lib.markets.outcome import Outcome
from hdpm_lib.markets.payments import with_own_report
from hdpm_lib.validation import check_finite

Array = NDArray[np.float64]
Auction = Callable[[Bids, Array], Outcome]


def utility(truth: Bids, outcome: Outcome, delivered_sizes: ArrayLike | None = None) -> Array:
    """Return what owners gain, in money: payment minus true cost of what they deliver.

    The gain is minus infinity beyond what they can deliver. `delivered_sizes` are the records sold,
    if not all (Zheng et al. 2021, Section III-C).
    """
    sizes = truth.sizes
    if delivered_sizes is not None:
        sizes = check_finite(delivered_sizes, "delivered_sizes", low=0)
    with np.errstate(over="ignore", invalid="ignore"):  # beyond the limits
        cost = sizes * unit_valuation(truth.family, truth.rate, outcome.privacy_loss)
    too_much_privacy = outcome.privacy_loss > truth.privacy_budget * (1 + 1e-12)
    too_many_records = sizes > truth.sizes * (1 + 1e-12)
    return np.where(too_much_privacy | too_many_records, -np.inf, outcome.payments - cost)


def _one_lies_or_nobody(truth: Any, lies: Any) -> Any:
    """Stack reports in rows: in row `i` owner `i` lies, in the last row nobody does."""
    truth, lies = np.broadcast_arrays(truth, lies)
    return np.concatenate([with_own_report(truth, lies), truth[..., None, :]], -2)


def gains(auction: Auction, truth: Bids, lies: Bids, budget: ArrayLike) -> Array:
    """Return what each owner gains by her lie while the others tell the truth, shape (..., n).

    The budget stays the same. The gain is minus infinity for a lie that sells what she does not
    have or accept. An owner who reports fewer records delivers, and bears the cost of, those alone.
    The bids `truth` and `lies` are of shapes that fit.

    Notes
    -----
    All reports of a market, the truth among them, go through `auction` in one batch: a network
    gives the same market another last digit in a batch of another shape.

    Examples
    --------
    >>> from hdpm_lib.auctions.allin import all_in
    >>> from hdpm_lib.auctions.bids import bids
    >>> truth = bids("linear", [1.0, 1.4], 1.0, [10, 30])
    >>> lies = bids("linear", [0.1, 0.1], 1.0, [10, 30])
    >>> gains(all_in, truth, lies, 100.0)
    array([ 0., -9.])
    """
    money = check_budget(budget, truth)
    reports = Bids(
        _one_lies_or_nobody(truth.family, lies.family),
        _one_lies_or_nobody(truth.rate, lies.rate),
        _one_lies_or_nobody(truth.privacy_budget, lies.privacy_budget),
        _one_lies_or_nobody(truth.sizes, lies.sizes),
    )
    outcome = auction(reports, money[..., None])
    utilities = utility(truth[..., None, :], outcome, reports.sizes)
    of_liars = np.diagonal(utilities, axis1=-2, axis2=-1)
    return of_liars - utilities[..., -1, :]
