r"""How much privacy to buy from whom: the least sum of excess risk and expected payments, exactly.

Seller :math:`i` has the virtual cost :math:`\psi_i`. The buyer chooses weights :math:`a_i\ge0` with sum 1 and a rate
:math:`\eta`; seller :math:`i` loses :math:`\epsilon_i=a_i\eta`. She minimises the *proxy loss* (Eq. 11)

.. math:: \mu\lVert a\rVert+\frac\sigma\eta+\gamma\eta\sum_ia_i\psi_i,

perhaps under a cap on the weights. With the best :math:`\eta` all local minima lie on a path with one parameter,
:math:`a_i=\min\{\alpha(\theta-\psi_i)^+,\text{cap}\}`, where the *cutoff* :math:`\theta` makes the sum 1. As
:math:`\alpha`, in the code `s`, grows from 0, where all weights are equal, sellers reach the cap in the order of their
virtual costs and leave in the opposite order. Between two such events lies a *piece* of the path, on which stationarity
is a cubic in :math:`\alpha` of which only the smallest positive root can be a minimum (:doc:`/book/logistic/market`).
Looking at every piece finds all of them.

Throughout, `virtual_costs` of shape (m,) are :math:`\psi`, positive; `mu`, `sigma` and `gamma`, positive, are the
weights of the norm, of the noise and of the payments; `cap` is the largest admissible weight, the paper's k/m, in [1/m,
1], or None for no cap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.validation import check_cap, check_finite, check_number, check_positive

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
TIE = 1e-12  # caps that fill the sum exactly, but for rounding
RANGE = (1e-100, 1e100)  # of costs and constants: their products stay within floats


@dataclass(frozen=True)
class Procurement:
    """What is bought from each seller, and what it costs by the proxy loss.

    Attributes
    ----------
    weights : array of shape (m,), with sum 1
    eta : float, the sum of the privacy losses
    loss : float, the proxy loss
    cutoff : float, virtual cost from which on nothing is bought; at most one unit in the last place off
    minima : int, number of local minima among which this one is the least; 0 where they were not counted
    """

    weights: Array
    eta: float
    loss: float
    cutoff: float
    minima: int

    @property
    def epsilon(self) -> Array:
        """Privacy losses, weights times eta, shape (m,)."""
        return self.weights * self.eta


def check_constants(mu: float, sigma: float, gamma: float) -> tuple[float, float, float]:
    """The constants as floats; an error names one that is not positive, or so far from 1 that powers overflow."""
    named = ((mu, "mu"), (sigma, "sigma"), (gamma, "gamma"))
    mu, sigma, gamma = (check_number(check_positive(value, name), name, *RANGE) for value, name in named)
    return mu, sigma, gamma


def proxy_loss(
    weights: ArrayLike, eta: ArrayLike, virtual_costs: ArrayLike, mu: float, sigma: float, gamma: float
) -> Array:
    """Proxy loss, Eq. (11), of shape (...), for weights and costs (..., m) and rates (...). Nothing is checked."""
    a, psi = np.asarray(weights, dtype=float), np.asarray(virtual_costs, dtype=float)
    rate = np.asarray(eta, dtype=float)
    return np.asarray(mu * np.linalg.norm(a, axis=-1) + sigma / rate + gamma * rate * (a * psi).sum(-1))


def procure(
    virtual_costs: ArrayLike, mu: float, sigma: float, gamma: float, *, cap: float | None = None
) -> Procurement:
    r"""The global minimum of the proxy loss, by a scan of all pieces of the path in time :math:`O(m\log m)`.

    If no local minimum is found, which rounding alone could cause, that is a RuntimeError.

    Notes
    -----
    Without a cap the minima solve Eqs. (13) and (14). The latter can have several roots: then the least value counts.
    On a piece :math:`\lVert a\rVert^2=B+\alpha^2Q` and :math:`\sum a_i\psi_i=C-\alpha Q`, where :math:`Q` is the sum of
    squared deviations of the costs of those bought below the cap. Stationarity reads
    :math:`Q\alpha^3-(C-\kappa Q)\alpha^2+\kappa B=0` with :math:`\kappa=\sigma\gamma/\mu^2`.

    Examples
    --------
    >>> best = procure([0.2, 1.2], 1.0, 1.0, 0.1)
    >>> best.weights.round(4), round(best.eta, 4), best.minima
    (array([0.6597, 0.3403]), 4.302, 1)
    """
    psi, kappa = _check(virtual_costs, mu, sigma, gamma, cap)
    order = np.argsort(psi, kind="stable")
    pieces = _pieces(psi[order], cap)  # one for each set of sellers on the path
    minima = _local_minima(psi[order], pieces, kappa)  # one cubic for each piece
    if not len(minima.piece):
        raise RuntimeError("no local minimum found among the pieces of the path: are virtual_costs of like size?")
    best = minima.piece[np.argmin(minima.loss)]  # the least of them
    weights, cutoff = _polished(psi[order], pieces, best, kappa)
    unsorted = np.empty_like(weights)
    unsorted[order] = weights
    return _procurement(psi, unsorted, cutoff, (mu, sigma, gamma), minima.count)


def procure_fast(virtual_costs: ArrayLike, mu: float, sigma: float, gamma: float) -> Procurement:
    """A local minimum of the proxy loss without a cap, in time :math:`O(m)`: the global one where there is only one.

    The minima are not counted (``minima = 0``); :func:`procure` is certain, and sorts. This is Newton's method on Eq.
    (14) with the cubic of the present piece in place of its tangent, inside a bracket; sellers above it are dropped as
    it shrinks.
    """
    psi, kappa = _check(virtual_costs, mu, sigma, gamma)
    least = psi.min()
    near = psi - least
    low = 0.0
    high = float((1 + np.sqrt(1 + 4 * kappa * least)) / (2 * kappa))  # Eq. (14) is negative there
    t = high
    while True:
        bought = near[near < t]
        n, mean = len(bought), float(bought.mean())
        spread = float(((bought - mean) ** 2).sum())
        x = t - mean
        if n * ((least + mean) * x - spread / n - kappa * x * (n * x**2 + spread)) > 0:
            low = t
        else:
            high, near = t, bought
        s = float(smallest_root(np.array(1 / n), np.array(least + mean), np.array(spread), kappa))
        guess = mean + 1 / (n * s)  # not a number if the piece has no stationary point
        if bought.max() < guess and int((near < guess).sum()) == n:
            break
        t = guess if low < guess < high else (low + high) / 2
        if high - low <= 4e-16 * (least + high):
            break
    inner = np.flatnonzero(psi - least <= bought.max())
    weights, _, cutoff = _settle(psi, np.empty(0, dtype=np.intp), inner, 0.0, kappa)
    return _procurement(psi, weights, cutoff, (mu, sigma, gamma), 0)


def residuals(
    found: Procurement, virtual_costs: ArrayLike, mu: float, sigma: float, gamma: float
) -> tuple[float, float]:
    """How far Eqs. (13) and (14) are from holding without a cap, each relative to its largest term."""
    multiplier = gamma * found.cutoff
    u = np.maximum(multiplier - gamma * np.asarray(virtual_costs, dtype=float), 0)
    square, total = u @ u, u.sum()
    printed = mu * u / (np.sqrt(square) * total)
    eq13 = np.abs(found.epsilon - printed).max() / printed.max()
    return float(eq13), float(abs(multiplier - sigma / mu**2 * square - square / total) / multiplier)


def _check(
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
    dearest = np.sort(psi)[0 if cap is None else math.ceil((1 - 1e-9) / check_cap(cap, len(psi))) - 1]
    # beyond, all weights are equal, or those of the fewest and cheapest sellers are not 0, to the last digits
    return psi, float(np.clip(sigma * gamma / mu**2, 1e-28 / psi.max(), 1e28 / dearest))


@dataclass(frozen=True)
class _Pieces:
    """The pieces of the path: numbers of capped and of bought sellers, start and end of `s`; and the cap, or 0."""

    capped: Indices
    bought: Indices
    low: Array
    high: Array
    cap: float


@dataclass(frozen=True)
class _Minima:
    """Local minima along the path: the piece each was found on, its `s` and its loss over mu."""

    piece: Indices
    s: Array
    loss: Array

    @property
    def count(self) -> int:
        """How many there are: one on the border of two pieces is found twice."""
        return 1 + int((np.diff(np.sort(self.s)) > 1e-9 * np.sort(self.s)[1:]).sum())


def _local_minima(psi: Array, pieces: _Pieces, kappa: float) -> _Minima:
    """The stationary points of all pieces, for sorted costs, that are minima and lie on their piece."""
    low, high = pieces.low, pieces.high
    fixed, price, spread, noise = _sums(psi, pieces.capped, pieces.bought, pieces.cap)
    slope = price - kappa * spread

    def falling(s: Array) -> tuple[Array, Array]:
        """Minus the slope of the loss along `s`, up to a positive factor, and how much of it may be rounding."""
        with np.errstate(invalid="ignore", over="ignore"):
            terms = np.stack([spread * s**3, -slope * s**2, kappa * fixed])
            rounding = 1e-11 * np.abs(terms).sum(0) + noise * (s**3 + kappa * s**2)
            return np.where(np.isinf(s), -np.inf, terms.sum(0)), rounding

    root = smallest_root(fixed, price, spread, kappa)
    at_low, slack_low = falling(low)
    at_high, slack_high = falling(high)
    with np.errstate(divide="ignore", invalid="ignore"):
        turn = np.where(spread > 0, 2 * slope / (3 * spread), np.inf)
    inside = np.isfinite(root) & (low <= turn) & (at_low >= -slack_low) & ((high >= turn) | (at_high <= slack_high))
    found = np.flatnonzero(inside)
    s = np.clip(root[found], low[found], high[found])
    loss = np.sqrt(fixed[found] + s**2 * spread[found]) + 2 * np.sqrt(kappa * (price[found] - s * spread[found]))
    return _Minima(found, s, loss)


def _polished(psi: Array, pieces: _Pieces, best: np.intp, kappa: float) -> tuple[Array, float]:
    """Weights and cutoff of the minimum on a piece, from direct sums: prefix sums may have chosen a neighbour of it."""
    at = (int(pieces.capped[best]), int(pieces.bought[best]))
    for _ in range(50):
        i, j = at
        weights, at_s, cutoff = _settle(psi, np.arange(i), np.arange(i, j), pieces.cap, kappa)
        if not np.isfinite(at_s):
            break
        i = int(np.searchsorted(psi, cutoff - pieces.cap / at_s, "right")) if pieces.cap else 0
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
    below, upto = np.searchsorted(psi, psi, "left"), np.searchsorted(psi, psi, "right")

    def sum_below(i: Indices, k: Indices) -> Array:  # of psi_k - psi_j over j between i and k
        return np.asarray((k - i) * apart[k] - (total[k] - total[i]))

    leaves = index[below * top >= 1 - TIE]  # sellers for whom the others suffice, when the cutoff meets their cost
    reach = index[upto * top <= 1 + TIE]  # sellers that can be capped, when they reach it
    ends = upto[reach]

    def too_little(i: Indices) -> NDArray[np.bool_]:
        s = top / (apart[leaves] - apart[i])
        return (i + 1) * top + s * sum_below(i + 1, leaves) < 1 - TIE

    def short(k: Indices) -> NDArray[np.bool_]:
        j = np.minimum(ends + k, m - 1)
        s = top / (apart[j] - apart[reach])
        return (ends + k < m) & (top * j - s * (total[j] - total[ends] - (j - ends) * apart[reach]) <= 1 + TIE)

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


def count_while(holds: Callable[[Indices], NDArray[np.bool_]], limit: Indices) -> Indices:
    """For each entry, how many of 0, 1, ..., limit - 1 fulfil a condition that is true first and false after."""
    low, high = np.zeros_like(limit), limit.copy()
    while (open_ := low < high).any():
        middle = (low + high) // 2
        true = holds(np.where(open_, middle, 0))
        low, high = np.where(open_ & true, middle + 1, low), np.where(open_ & ~true, middle, high)
    return low


def _sums(psi: Array, p: Indices, q: Indices, cap: float) -> tuple[Array, Array, Array, Array]:
    """Squared norm `fixed + s^2 spread` and cost `price - s spread` on every piece, and the rounding in `spread`."""
    apart = psi - psi[0]
    first = np.append(0, np.cumsum(apart))
    second = np.append(0, np.cumsum(apart**2))
    n, rest = q - p, 1 - p * cap
    one = np.maximum(n, 1)
    mean = (first[q] - first[p]) / one
    spread = np.maximum(second[q] - second[p] - one * mean**2, 0)
    spread[psi[q - 1] <= psi[np.minimum(p, len(psi) - 1)]] = 0  # equal costs, without rounding
    fixed = p * cap**2 + np.where(n > 0, rest**2 / one, 0)
    price = psi[0] + cap * first[p] + np.where(n > 0, rest * mean, 0)  # the total weight is 1
    noise = 1e-15 * np.sqrt(len(psi)) * second[q]
    return np.asarray(fixed), np.asarray(price), np.asarray(spread), np.asarray(noise)


def smallest_root(fixed: Array, price: Array, spread: Array, kappa: float) -> Array:
    """Smallest positive root `s` of ``spread s^3 - (price - kappa spread) s^2 + kappa fixed``, or NaN."""
    slope = price - kappa * spread
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = -1.5 * spread / slope * np.sqrt(3 * kappa * fixed / slope)
        inverse = 2 * np.sqrt(slope / (3 * kappa * fixed)) * np.cos(np.arccos(cosine) / 3)
        return np.asarray(1 / inverse)


def _settle(psi: Array, capped: Indices, inner: Indices, cap: float, kappa: float) -> tuple[Array, float, float]:
    """Weights, `s` and cutoff at the stationary point of one piece of the path, from direct sums."""
    rest, n = 1 - cap * len(capped), len(inner)
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


def _procurement(psi: Array, weights: Array, cutoff: float, scale: tuple[float, ...], minima: int) -> Procurement:
    mu, sigma, gamma = scale
    weights = np.maximum(weights, 0)
    cost = float(weights @ psi)
    eta = float(np.sqrt(sigma / (gamma * cost)))
    loss = float(mu * np.linalg.norm(weights) + 2 * np.sqrt(sigma * gamma * cost))
    return Procurement(weights, eta, loss, cutoff, minima)
