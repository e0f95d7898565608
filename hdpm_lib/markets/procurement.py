r"""How much privacy to buy from whom: the least sum of excess risk and expected payments, exactly.

Seller :math:`i` has the virtual cost :math:`\psi_i`. The buyer chooses weights :math:`a_i\ge0` with
sum 1 and a rate :math:`\eta`; seller :math:`i` loses :math:`\epsilon_i=a_i\eta`. She minimises the
*proxy loss* (Eq. 11)

.. math:: \mu\lVert a\rVert+\frac\sigma\eta+\gamma\eta\sum_ia_i\psi_i,

perhaps under a cap on the weights. With the best :math:`\eta` all local minima lie on a path with
one parameter, :math:`a_i=\min\{\alpha(\theta-\psi_i)^+,\text{cap}\}`, where the *cutoff*
:math:`\theta` makes the sum 1. As :math:`\alpha`, in the code `s`, grows from 0, where all weights
are equal, sellers reach the cap in the order of their virtual costs and leave in the opposite
order. Between two such events lies a *piece* of the path, on which stationarity is a cubic in
:math:`\alpha` of which only the smallest positive root can be a minimum
(:doc:`/book/logistic/market`). Looking at every piece finds all of them.

Throughout, `virtual_costs` of shape (m,) are :math:`\psi`, positive; `mu`, `sigma` and `gamma`,
positive, are the weights of the norm, of the noise and of the payments; `cap` is the largest
admissible weight, the paper's k/m, in [1/m, 1], or None for no cap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.bisection import count_while
from hdpm_lib.markets.outcome import Purchase
from hdpm_lib.validation import check_cap, check_finite, check_number, check_positive

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
TIE = 1e-12  # caps that fill the sum exactly, but for rounding
NEAR = 1e-9  # relative, how far off its piece rounding may move a root
RANGE = (1e-100, 1e100)  # of costs and constants: their products stay within floats


def check_constants(mu: float, sigma: float, gamma: float) -> tuple[float, float, float]:
    """The constants as floats; an error names one that is not positive, or so far from 1 that
    powers overflow.
    """
    named = ((mu, "mu"), (sigma, "sigma"), (gamma, "gamma"))
    mu, sigma, gamma = (
        check_number(check_positive(value, name), name, *RANGE) for value, name in named
    )
    return mu, sigma, gamma


def procure(
    virtual_costs: ArrayLike, mu: float, sigma: float, gamma: float, *, cap: float | None = None
) -> Purchase:
    r"""The global minimum of the proxy loss, by a scan of all pieces of the path in time
    :math:`O(m\log m)`.

    If no local minimum is found, which rounding alone could cause, that is a RuntimeError.

    Notes
    -----
    Without a cap the minima solve Eqs. (13) and (14). The latter can have several roots: then the
    least value counts. On a piece :math:`\lVert a\rVert^2=B+\alpha^2Q` and :math:`\sum
    a_i\psi_i=C-\alpha Q`, where :math:`Q` is the sum of squared deviations of the costs of those
    bought below the cap. Stationarity reads :math:`Q\alpha^3-(C-\kappa Q)\alpha^2+\kappa B=0` with
    :math:`\kappa=\sigma\gamma/\mu^2`.

    Examples
    --------
    >>> best = procure([0.2, 1.2], 1.0, 1.0, 0.1)
    >>> best.weights.round(4), round(best.eta, 4), round(best.error, 4)
    (array([0.6597, 0.3403]), 4.302, 1.2072)
    """
    psi, kappa = check_market(virtual_costs, mu, sigma, gamma, cap)
    order = np.argsort(psi, kind="stable")
    minima = local_minima(psi[order], kappa, cap)
    if not len(minima.s):
        raise RuntimeError(
            "no local minimum found among the pieces of the path: are virtual_costs of like size?"
        )
    best = np.argmin(minima.loss)
    at = int(minima.capped[best]), int(minima.bought[best])
    weights, cutoff = _polished(psi[order], at, minima.cap, kappa)
    unsorted = np.empty_like(weights)
    unsorted[order] = weights
    return purchase(psi, unsorted, cutoff, mu, sigma, gamma)


def check_market(
    virtual_costs: ArrayLike, mu: float, sigma: float, gamma: float, cap: float | None = None
) -> tuple[Array, float]:
    """The virtual costs, and `kappa`."""
    psi = check_finite(virtual_costs, "virtual_costs", 1)
    if (bad := psi <= 0).any():
        raise ValueError(
            f"virtual_costs must be positive, got virtual_costs[{np.argmax(bad)}] = {psi[bad][0]}: "
            "privacy that costs nothing adds a branch on which eta grows without end"
        )
    check_finite(psi, "virtual_costs", 1, *RANGE)
    check_constants(mu, sigma, gamma)
    dearest = np.sort(psi)[
        0 if cap is None else math.ceil((1 - 1e-9) / check_cap(cap, len(psi))) - 1
    ]
    # beyond, all weights are equal, or those of the fewest and cheapest sellers are not 0, to the
    # last digits
    return psi, float(np.clip(sigma * gamma / mu**2, 1e-28 / psi.max(), 1e28 / dearest))


@dataclass(frozen=True)
class _Pieces:
    """The pieces of the path: numbers of capped and of bought sellers, start and end of `s`; and
    the cap, or 0.
    """

    capped: Indices
    bought: Indices
    low: Array
    high: Array
    cap: float


@dataclass(frozen=True)
class Minima:
    """Local minima along the path: numbers of capped and of bought sellers, `s`, and the loss over
    mu; and the cap.
    """

    capped: Indices
    bought: Indices
    s: Array
    loss: Array
    cap: float


def local_minima(psi: Array, kappa: float, cap: float | None = None) -> Minima:
    """All local minima, for sorted costs; one on the border of two pieces is found twice.

    They are the stationary points of the pieces that are minima and lie on their piece: one cubic
    for each.
    """
    pieces = _pieces(psi, cap)
    low = pieces.low
    high = pieces.high
    fixed, price, spread, noise = _sums(psi, pieces.capped, pieces.bought, pieces.cap)
    root = smallest_root(fixed, price, spread, kappa)
    near = np.clip(root, low, high)
    with np.errstate(invalid="ignore", divide="ignore"):
        inside = np.abs(root - near) <= (NEAR + np.where(spread > 0, noise / spread, 0)) * root
    found = np.flatnonzero(inside)
    s = near[found]
    loss = np.sqrt(fixed[found] + s**2 * spread[found]) + 2 * np.sqrt(
        kappa * (price[found] - s * spread[found])
    )
    return Minima(pieces.capped[found], pieces.bought[found], s, loss, pieces.cap)


def _polished(psi: Array, at: tuple[int, int], cap: float, kappa: float) -> tuple[Array, float]:
    """Weights and cutoff of the minimum on a piece, from direct sums: prefix sums may have chosen a
    neighbour of it.
    """
    for _ in range(50):
        i, j = at
        weights, at_s, cutoff = settle(psi, np.arange(i), np.arange(i, j), cap, kappa)
        if not np.isfinite(at_s):
            break
        i = int(np.searchsorted(psi, cutoff - cap / at_s, "right")) if cap else 0
        j = int(np.searchsorted(psi, cutoff))
        if (i, j) == at:
            break
        at = (i, j)
    return weights, cutoff


def _pieces(psi: Array, cap: float | None) -> _Pieces:
    """The pieces of the path for sorted costs."""
    m = len(psi)
    apart = psi - psi[0]
    total = np.append(0, np.cumsum(apart))
    if cap is None:
        q = np.arange(1, m + 1)
        with np.errstate(divide="ignore"):
            high = 1 / (q * apart - total[1:])
            low = np.append(1 / (q[:-1] * apart[1:] - total[1:-1]), 0.0)
        return _Pieces(np.zeros(m, dtype=np.intp), q, low, high, 0.0)
    top = check_cap(cap, m)
    if m * top <= 1 + TIE:
        return _Pieces(np.array([m]), np.array([m]), np.array([0.0]), np.array([np.inf]), top)
    index = np.arange(m)
    below = np.searchsorted(psi, psi, "left")
    upto = np.searchsorted(psi, psi, "right")

    def sum_below(i: Indices, k: Indices) -> Array:  # of psi_k - psi_j over j between i and k
        return np.asarray((k - i) * apart[k] - (total[k] - total[i]))

    # sellers for whom the others suffice, when the cutoff meets their cost
    leaves = index[below * top >= 1 - TIE]
    reach = index[upto * top <= 1 + TIE]  # sellers that can be capped, when they reach it
    ends = upto[reach]

    def too_little(i: Indices) -> NDArray[np.bool_]:
        s = top / (apart[leaves] - apart[i])
        return (i + 1) * top + s * sum_below(i + 1, leaves) < 1 - TIE

    def short(k: Indices) -> NDArray[np.bool_]:
        j = np.minimum(ends + k, m - 1)
        s = top / (apart[j] - apart[reach])
        return (ends + k < m) & (
            top * j - s * (total[j] - total[ends] - (j - ends) * apart[reach]) <= 1 + TIE
        )

    with np.errstate(divide="ignore", invalid="ignore"):
        capped = count_while(too_little, below[leaves])
        s_leave = (1 - capped * top) / sum_below(capped, leaves)
        last = ends + count_while(short, m - ends)
        s_reach = (last * top - 1) / (total[last] - total[ends] - (last - ends) * apart[reach])
    s_reach = np.maximum(s_reach, 0)
    events = np.sort(np.concatenate([[0.0], s_leave, s_reach]))
    p = np.searchsorted(np.sort(s_reach), events, "right")
    q = m - np.searchsorted(np.sort(s_leave), events, "right")
    return _Pieces(p, np.maximum(q, p), events, np.append(events[1:], np.inf), top)


def _sums(psi: Array, p: Indices, q: Indices, cap: float) -> tuple[Array, Array, Array, Array]:
    """Squared norm `fixed + s^2 spread` and cost `price - s spread` on every piece, and the
    rounding in `spread`.
    """
    apart = psi - psi[0]
    first = np.append(0, np.cumsum(apart))
    second = np.append(0, np.cumsum(apart**2))
    n = q - p
    rest = 1 - p * cap
    one = np.maximum(n, 1)
    mean = (first[q] - first[p]) / one
    spread = np.maximum(second[q] - second[p] - one * mean**2, 0)
    spread[psi[q - 1] <= psi[np.minimum(p, len(psi) - 1)]] = 0  # equal costs, without rounding
    fixed = p * cap**2 + np.where(n > 0, rest**2 / one, 0)
    price = psi[0] + cap * first[p] + np.where(n > 0, rest * mean, 0)  # the total weight is 1
    noise = 1e-15 * np.sqrt(len(psi)) * second[q]
    return np.asarray(fixed), np.asarray(price), np.asarray(spread), np.asarray(noise)


def cheapest(psi: Array) -> tuple[Array, Array, Array, Array]:
    r"""For sorted costs (..., m) and each `k`: of the `k` cheapest the mean and the sum of squared
    deviations, and the `s` up to which no weight :math:`1/k-s(\psi_i-\text{mean})` is negative.
    """
    k = np.arange(1, psi.shape[-1] + 1)
    apart = psi - psi[..., :1]
    first = np.cumsum(apart, axis=-1)
    spread = np.maximum(np.cumsum(apart**2, axis=-1) - first**2 / k, 0)
    with np.errstate(divide="ignore"):
        return k, psi[..., :1] + first / k, spread, 1 / np.maximum(k * apart - first, 0)


def smallest_root(fixed: Array, price: Array, spread: Array, kappa: float) -> Array:
    """Smallest positive root `s` of ``spread s^3 - (price - kappa spread) s^2 + kappa fixed``, or
    NaN.
    """
    slope = price - kappa * spread
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = -1.5 * spread / slope * np.sqrt(3 * kappa * fixed / slope)
        inverse = 2 * np.sqrt(slope / (3 * kappa * fixed)) * np.cos(np.arccos(cosine) / 3)
        return np.asarray(1 / inverse)


def settle(
    psi: Array, capped: Indices, inner: Indices, cap: float, kappa: float
) -> tuple[Array, float, float]:
    """Weights, `s` and cutoff at the stationary point of one piece of the path, from direct
    sums.
    """
    rest = 1 - cap * len(capped)
    n = len(inner)
    weights = np.zeros_like(psi)
    weights[capped] = cap
    if not n:
        return weights, np.inf, float(np.delete(psi, capped).min(initial=np.inf))
    least = psi[inner].min()
    mean = (psi[inner] - least).mean()
    apart = (psi[inner] - least) - mean
    fixed = len(capped) * cap**2 + rest**2 / n
    price = cap * psi[capped].sum() + rest * (least + mean)
    spread = (apart * apart).sum()
    s = float(smallest_root(np.array(fixed), np.array(price), np.array(spread), kappa))
    weights[inner] = rest / n - s * apart
    return weights, s, float(least + mean + rest / (n * s))


def purchase(
    psi: Array, weights: Array, cutoff: float, mu: float, sigma: float, gamma: float
) -> Purchase:
    """The outcome for weights, with the best rate."""
    weights = np.maximum(weights, 0)
    price = float(weights @ psi)
    eta = float(np.sqrt(sigma / (gamma * price)))
    error = float(mu * np.linalg.norm(weights) + 2 * np.sqrt(sigma * gamma * price))
    return Purchase(
        weights * eta, cost=eta * price, error=error, weights=weights, eta=eta, cutoff=cutoff
    )
