r"""What nobody can beat: a lower bound on the error of every purchase whose payments cover the
owners' costs.

Even a buyer who knows all valuations pays at least :math:`\sum_iv_i(\varepsilon_i)\le B`. With
:math:`s_i=\varepsilon_i^2` and weights :math:`\lambda` on the simplex she minimises, for
:math:`L=1`,

.. math::

    \sum_i\frac{8\lambda_i^2}{s_i}+\Bigl(\sum_i|\lambda_i-W_i|\Bigr)^2,
    \qquad 0\le s_i\le\bar\varepsilon_i^2.

The costs are replaced by :math:`k_is_i`, the largest multiple of :math:`s` below them, which makes
the problem convex. This relaxation has a dual with three multipliers and a closed form. *Every*
choice of them gives a lower bound, whatever the search for the best ones does. The proof is in
:doc:`/book/federated/allin`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.aggregation import error_bound, least_error_weights
from hdpm_lib.auctions.bids import EXPONENTIAL, Bids, check_budget

Array = NDArray[np.float64]

_TURN = 1.5936242600400401  # where (exp(x) - 1) / x^2 is least: 2 (exp(x) - 1) = x exp(x)
# steps of the search; relative distance to the optimum that ends it
_ROUNDS = 400
_GAP = 1e-9


def relaxed_rates(bids: Bids) -> Array:
    r"""Return, in money, the largest :math:`k_i` with :math:`v_i(\varepsilon)\ge k_i\varepsilon^2`
    on the privacy budget.
    """
    at = np.where(
        bids.family == EXPONENTIAL, np.minimum(bids.privacy_budget, _TURN), bids.privacy_budget
    )
    return bids.valuation(at) / at**2


def dual_value(
    multipliers: ArrayLike, shares: Array, largest: Array, costs: Array
) -> tuple[Array, Array]:
    r"""Return the value (...) of the dual at any multipliers, a lower bound on the relaxed problem,
    and a supergradient (..., 3).

    Parameters
    ----------
    multipliers : array of shape (..., 3)
        Of the budget, :math:`\mu\ge0`; of the bias, :math:`t\ge0`; of the sum of the weights,
        :math:`\nu`.
    shares, largest, costs : arrays of shape (..., n)
        :math:`W_i`; :math:`S_i=\bar\varepsilon_i^2`; rates :math:`k_i` over the budget.

    Notes
    -----
    The value is
    :math:`\nu-t^2-\mu+\sum_i\min_{\lambda,s}\{8\lambda^2/s+\mu
    k_is/B+2t|\lambda-W_i|-\nu\lambda\}`. On either side of :math:`W_i` the last two terms have one
    slope :math:`-g`, so that :math:`\lambda=gs/16` is best, with :math:`s` 0 or :math:`S_i`. At
    :math:`\lambda=W_i` the best is :math:`s=W_i\sqrt{8B/(\mu k_i)}` or :math:`S_i`.
    """
    mu, t, nu = np.moveaxis(np.asarray(multipliers, dtype=float)[..., None, :], -1, 0)
    price = mu * costs
    low = np.maximum(nu + 2 * t, 0)
    high = np.maximum(nu - 2 * t, 0)
    gain_low = low**2 / 32 - price
    gain_high = high**2 / 32 - price
    below = np.where(gain_low > 0, largest * low / 16, 0.0)
    above = np.where(gain_high > 0, largest * high / 16, 0.0)
    with np.errstate(divide="ignore"):
        kept = np.minimum(largest, shares * np.sqrt(8 / price))
    at_share = 8 * shares**2 / kept + price * kept - nu * shares
    cases = [below <= shares, above >= shares]
    weight = np.select(cases, [below, above], shares)
    s = np.select(cases, [np.where(gain_low > 0, largest, 0.0), largest], kept)
    terms = [
        2 * t * shares - largest * np.maximum(gain_low, 0),
        -2 * t * shares - largest * gain_high,
    ]
    value = np.select(cases, terms, at_share).sum(-1) + (nu - t**2 - mu)[..., 0]
    bias = np.abs(weight - shares).sum(-1)
    slope = np.stack([(costs * s).sum(-1) - 1, 2 * (bias - t[..., 0]), 1 - weight.sum(-1)], axis=-1)
    return value, slope


def lower_bound(bids: Bids, budget: ArrayLike) -> Array:
    """Return a number below the error bound of every purchase that costs at most `budget`, in each
    auction.

    It is for a clip norm of 1 and the variance of one coordinate, as
    :func:`hdpm_lib.aggregation.error_bound`.

    Notes
    -----
    The larger of two bounds: the error bound of all privacy budgets, and the best value of
    :func:`dual_value` met by an ellipsoid method with deep cuts. This stops when what is left of
    the ellipsoid holds no value larger by more than one part in a billion.

    Examples
    --------
    >>> from hdpm_lib.auctions.bids import bids
    >>> market = bids(["linear", "quadratic"], [1.0, 0.5], [1.0, 2.0], [10, 30])
    >>> [float(lower_bound(market, budget).round(4)) for budget in (10, 40, 80)]
    [12.25, 3.1795, 1.6071]
    """
    money = check_budget(budget, bids).ravel()
    n = bids.sizes.shape[-1]
    shares, largest, costs = (
        part.reshape(-1, n) for part in (bids.shares, bids.privacy_budget**2, relaxed_rates(bids))
    )
    costs = costs / money[:, None]
    best = error_bound(
        least_error_weights(bids.privacy_budget, bids.sizes), bids.privacy_budget, bids.sizes
    ).ravel()
    spending = (costs * largest).sum(-1)
    # error if all sell the same part of `largest`
    some = np.maximum(spending, 1) * (8 * shares**2 / largest).sum(-1)
    # the best multipliers are in [0, box]
    box = np.stack([some, np.full_like(some, 2), 2 * some + 4], axis=-1)
    left = np.flatnonzero(spending > 1)  # the others can buy everything
    centre = np.full((len(left), 3), 0.5)
    axes = np.tile(np.sqrt(0.75) * np.eye(3), (len(left), 1, 1))
    for _ in range(_ROUNDS):
        if not len(left):
            break
        unit = box[left]
        value, slope = dual_value(
            np.maximum(centre, 0) * unit, shares[left], largest[left], costs[left]
        )
        best[left] = np.maximum(best[left], value)
        # better points y have cut . (y - centre) >= depth
        cut = slope * unit
        depth = best[left] - value
        outside = (centre < 0).any(-1)
        cut[outside] = np.eye(3)[np.argmin(centre, axis=-1)[outside]]
        depth[outside] = -centre.min(-1)[outside]
        across = (cut[:, None, :] @ axes)[:, 0]  # of the ellipsoid centre + axes (unit ball)
        width = np.linalg.norm(across, axis=-1)
        going = (depth < width) & (outside | (width - depth > _GAP * best[left]))
        left = left[going]
        centre = centre[going]
        axes = axes[going]
        across = across[going] / width[going, None]
        share = (depth[going] / width[going])[:, None]
        along = (axes @ across[..., None])[..., 0]
        centre = centre + (1 + 3 * share) / 4 * along
        shrink = 1 - np.sqrt((1 - share) / (2 * (1 + share)))
        axes = np.sqrt(9 / 8 * (1 - share**2))[..., None] * (
            axes - (shrink * along)[..., None] * across[:, None, :]
        )
    return best.reshape(bids.sizes.shape[:-1])
