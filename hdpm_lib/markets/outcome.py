"""What a market decides: whose privacy is bought, what is paid for it, what it costs, and how good
the result is.

Every rule returns an :class:`Outcome`, and None for what it does not decide. None of it promises
more than the rule's own page proves: payments are truthful only where the rule says so, and `error`
is that of ideal real arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """What a rule buys. Sellers are on the last axis, a batch of markets on the axes before.

    Attributes
    ----------
    privacy_loss : array of shape (..., n)
        What each seller loses.
    payments : array of shape (..., n) or None
        To the sellers, in the unit of their costs; None where a rule only allocates.
    cost : array of shape (...) or None
        Total cost of the privacy at the costs that the rule was given.
    error : array of shape (...) or None
        What the buyer gets: mean squared error or proxy loss, as the rule says.

    Examples
    --------
    >>> from hdpm_lib.markets.fair_query import fair_query
    >>> fair_query([1.0, 2.0, 9.0], 4.0)
    Outcome(privacy_loss=array([1., 1., 0.]), payments=array([2., 2., 0.]), cost=None, error=None)
    """

    privacy_loss: Array
    payments: Any = None
    cost: Any = None
    error: Any = None


@dataclass(frozen=True, kw_only=True)
class Contract(Outcome):
    """Outcome with the shares and the noise of a biased answer; `error` is the largest mean squared
    error.

    Attributes
    ----------
    shares : array of shape (..., n), how much each seller's data counts, in [0, 1]
    scale : array of shape (...), of the Laplace noise; 0 where none is needed, or where the least
    cost is a limit only
    """

    shares: Array
    scale: Array


@dataclass(frozen=True, kw_only=True)
class Purchase(Outcome):
    """Outcome whose losses are in proportion to weights; `error` is what is minimised, `cost` at
    virtual costs.

    Attributes
    ----------
    weights : array of shape (..., n), with sum 1
    eta : array of shape (...), the sum of the privacy losses
    cutoff : array of shape (...), virtual cost from which on nothing is bought, but for rounding
    """

    weights: Array
    eta: Any
    cutoff: Any
