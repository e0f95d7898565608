r"""FairQuery, the first market for private data: a fixed budget, and no law of the costs.

It is by A. Ghosh and A. Roth, "Selling Privacy at Auction", ACM Conference on Electronic Commerce,
2011. Sellers hold numbers in :math:`[0,1]` and bear the cost :math:`c_i\varepsilon_i`. The `k`
cheapest sell the loss :math:`1/(n-k)` each. The answer to the sum takes their numbers, one half for
everybody else, and Laplace noise of scale :math:`n-k`: it is
:func:`hdpm_lib.learners.queries.linear_query` with shares 1 and 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hdpm_lib.markets.outcome import Outcome
from hdpm_lib.validation import check_finite, check_positive


def fair_query(costs: ArrayLike, budget: float) -> Outcome:
    r"""Buy as much privacy of the cheapest sellers as a budget pays for.

    Truth is a best report. Payments cover the costs, up to rounding, and sum to at most the
    budget, in whatever order floats are added.

    Parameters
    ----------
    costs : array of shape (..., n)
        Reported costs :math:`c_i` of a unit of privacy loss, in units of money, not negative; a
        batch of markets on the leading axes.
    budget : float
        The most to pay in all, :math:`B`, in units of money, positive.

    Returns
    -------
    Outcome
        Losses, payments, and their cost at the reports.

    Notes
    -----
    With costs in ascending order `k` is the largest number below `n` with :math:`c_k/(n-k)\le B/k`,
    and each of the cheapest `k` is paid :math:`\min\{B/k,\,c_{k+1}/(n-k)\}`. Sellers of equal cost
    are taken in the order of their places.

    References
    ----------
    A. Ghosh and A. Roth, "Selling Privacy at Auction", ACM Conference on Electronic Commerce, 2011.

    Examples
    --------
    Of four dollars two each go to the two cheapest sellers, for a loss of 1 that costs them one and
    two dollars:

    >>> sale = fair_query([1.0, 2.0, 9.0], 4.0)
    >>> sale.privacy_loss, sale.payments
    (array([1., 1., 0.]), array([2., 2., 0.]))
    """
    c = check_finite(costs, "costs", None, 0)
    money = check_positive(budget, "budget")
    if c.ndim == 0:
        raise ValueError(f"costs must hold at least one seller, got shape {c.shape}")
    order = np.argsort(c, axis=-1, kind="stable")
    ordered = np.take_along_axis(c, order, -1)
    n = c.shape[-1]
    k = np.arange(1, n)
    affordable = ordered[..., :-1] / (n - k) <= money / k
    sold = np.where(affordable, k, 0).max(-1, keepdims=True, initial=0)
    loss = 1 / (n - sold)
    following = np.take_along_axis(ordered, sold, -1)
    # sums of n floats are off by less than n + 1 last digits, which the buyer keeps
    spent = money * (1 - (n + 1) * np.finfo(float).eps)
    price = np.minimum(spent / np.maximum(sold, 1), following * loss)
    sells = np.argsort(order, axis=-1) < sold
    loss = np.where(sells, loss, 0.0)
    return Outcome(loss, np.where(sells, price, 0.0), (c * loss).sum(-1))
