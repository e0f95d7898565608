"""Outcomes of markets: privacy losses, payments, cost and error.

Every rule returns an :class:`Outcome`. None of it promises more than the rule's own page proves:
payments are truthful only where the rule says so, and `error` is that of ideal real arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from hdpm_lib.frozen import Frozen
from hdpm_lib.validation import Array


@dataclass(frozen=True, eq=False, repr=False)
class Outcome(Frozen):
    """Purchase by a rule. Sellers are on the last axis, a batch of markets on the axes before.

    All are arrays of floats, and numbers of type ``np.float64`` where there is one market; None if
    a rule never decides it.

    Parameters
    ----------
    privacy_loss : array of shape (..., n)
        Privacy loss of each seller.
    payments : array of shape (..., n), default None
        Payment to each seller, in units of money; None where a rule only allocates.
    cost : array of shape (...), default None
        Total cost of the privacy, in units of money, at the costs that the rule was given.
    error : array of shape (...), default None
        Error of the purchase: mean squared error or proxy loss, as the rule says.

    Attributes
    ----------
    privacy_loss, payments, cost, error
        The same, as floats.

    Examples
    --------
    >>> from hdpm_lib.markets.fair_query import fair_query
    >>> sale = fair_query([1.0, 2.0, 9.0], 4.0)
    >>> sale.privacy_loss, sale.payments
    (array([1., 1., 0.]), array([2., 2., 0.]))
    >>> print(sale.cost, sale.error)
    3.0 None
    """

    privacy_loss: Array
    payments: Any = None
    cost: Any = None
    error: Any = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                object.__setattr__(self, field.name, np.asarray(value, dtype=float)[()])
        super().__post_init__()


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Contract(Outcome):
    """Outcome of a biased answer, with its shares and its noise.

    The `error` is the largest mean squared error.

    Parameters
    ----------
    privacy_loss : array of shape (..., n)
        Privacy loss of each seller.
    payments : array of shape (..., n), default None
        Payment to each seller, in units of money; None where a rule only allocates.
    cost : array of shape (...)
        Total cost of the privacy, in units of money.
    error : array of shape (...)
        Error of the purchase.
    shares : array of shape (..., n)
        How much each seller's data count, in [0, 1]; the paper's :math:`a`.
    scale : array of shape (...)
        Scale of the Laplace noise, the paper's :math:`b`; 0 where none is needed, or where the
        least cost is a limit only.

    Attributes
    ----------
    privacy_loss, payments, cost, error, shares, scale
        The same, as floats.
    """

    shares: Array
    scale: Any


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Purchase(Outcome):
    """Outcome whose losses are in proportion to weights.

    The `error` is what the rule minimises, and `cost` is taken at virtual costs.

    Parameters
    ----------
    privacy_loss : array of shape (..., n)
        Privacy loss of each seller.
    payments : array of shape (..., n), default None
        Payment to each seller, in units of money; None where a rule only allocates.
    cost : array of shape (...)
        Total cost of the privacy, in units of money.
    error : array of shape (...)
        Error of the purchase.
    weights : array of shape (..., n)
        How much each seller's data count, with sum 1; the papers' :math:`a`.
    eta : array of shape (...)
        Sum of the privacy losses, the papers' :math:`\\eta`.
    cutoff : array of shape (...)
        Virtual cost from which on nothing is bought, but for rounding.

    Attributes
    ----------
    privacy_loss, payments, cost, error, weights, eta, cutoff
        The same, as floats.
    """

    weights: Array
    eta: Any
    cutoff: Any
