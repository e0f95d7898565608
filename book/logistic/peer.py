r"""Other ways to the optimal procurement, to compare :mod:`hdpm_lib.markets.procurement` with.

The problem is

.. math:: \min_{a,\eta}\ \mu\lVert a\rVert+\frac\sigma\eta+\gamma\eta\sum_ia_i\psi_i,
    \qquad\sum_ia_i=1,\quad0\le a_i\le\text{cap},

with `virtual_costs` :math:`\psi` of shape (m,), `mu`, `sigma` and `gamma` positive, and a `cap` in
[1/m, 1] or none. :func:`conic_search` minimises the loss over the weights for each rate, a convex
problem, by an interior-point solver, and follows every local minimum along the rate that it sees
between its starts; it shares nothing with the exact solver but the problem. :func:`procure_fast`
does not sort, and is content with a local minimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, sparse

from hdpm_book.contracts.conic import solve_cone
from hdpm_lib.markets.outcome import Purchase
from hdpm_lib.markets.procurement import (
    check_constants,
    check_market,
    local_minima,
    purchase,
    settle,
    smallest_root,
)
from hdpm_lib.validation import check_cap, check_count, check_finite, extra

with extra("book"):
    import clarabel


Array = NDArray[np.float64]

LOOSEST = 1e-6  # tolerance of the conic solver that may do where rounding ends it


def proxy_loss(
    weights: ArrayLike,
    eta: ArrayLike,
    virtual_costs: ArrayLike,
    mu: float,
    sigma: float,
    gamma: float,
) -> Array:
    """Return the proxy loss, Eq. (11), of shape (...), for weights and costs (..., m) and rates
    (...). Nothing is checked.
    """
    a = np.asarray(weights, dtype=float)
    psi = np.asarray(virtual_costs, dtype=float)
    rate = np.asarray(eta, dtype=float)
    return np.asarray(
        mu * np.linalg.norm(a, axis=-1) + sigma / rate + gamma * rate * (a * psi).sum(-1)
    )


def count_minima(
    virtual_costs: ArrayLike, mu: float, sigma: float, gamma: float, *, cap: float | None = None
) -> int:
    """Tell how many local minima the proxy loss has."""
    psi, kappa = check_market(virtual_costs, mu, sigma, gamma, cap)
    s = np.sort(local_minima(np.sort(psi), kappa, cap).s)
    return 1 + int((np.diff(s) > 1e-9 * s[1:]).sum())


def procure_fast(virtual_costs: ArrayLike, mu: float, sigma: float, gamma: float) -> Purchase:
    """Return a local minimum of the proxy loss without a cap, in time :math:`O(m)`: the global one
    where there is only one.

    :func:`hdpm_lib.markets.procurement.procure` is certain, and sorts. This is Newton's method on
    Eq. (14) with the cubic of the present piece in place of its tangent, inside a bracket; sellers
    above it are dropped as it shrinks.
    """
    psi, kappa = check_market(virtual_costs, mu, sigma, gamma)
    least = psi.min()
    near = psi - least
    low = 0.0
    high = float((1 + np.sqrt(1 + 4 * kappa * least)) / (2 * kappa))  # Eq. (14) is negative there
    t = high
    while True:
        bought = near[near < t]
        n = len(bought)
        mean = float(bought.mean())
        spread = float(((bought - mean) ** 2).sum())
        x = t - mean
        if n * ((least + mean) * x - spread / n - kappa * x * (n * x**2 + spread)) > 0:
            low = t
        else:
            high = t
            near = bought
        s = float(smallest_root(np.array(1 / n), np.array(least + mean), np.array(spread), kappa))
        guess = mean + 1 / (n * s)  # not a number if the piece has no stationary point
        if bought.max() < guess and int((near < guess).sum()) == n:
            break
        t = guess if low < guess < high else (low + high) / 2
        if high - low <= 4e-16 * (least + high):
            break
    inner = np.flatnonzero(psi - least <= bought.max())
    weights, _, cutoff = settle(psi, np.empty(0, dtype=np.intp), inner, 0.0, kappa)
    return purchase(psi, weights, cutoff, mu, sigma, gamma)


@dataclass(frozen=True)
class Searched:
    """The best weights and rate that a search has found.

    Attributes
    ----------
    weights, eta, error : array of shape (m,), float, float
    minima : array of shape (k,)
        Losses of all local minima along the rate that were seen, in the order of their rates.
    """

    weights: Array
    eta: float
    error: float
    minima: Array

    @property
    def privacy_loss(self) -> Array:
        """Privacy losses, of shape (m,)."""
        return self.weights * self.eta


def conic_search(
    virtual_costs: ArrayLike,
    mu: float,
    sigma: float,
    gamma: float,
    *,
    cap: float | None = None,
    starts: int = 16,
) -> Searched:
    r"""Return the optimal procurement by a conic solver for each rate, with several starts along
    the rate.

    Parameters
    ----------
    virtual_costs : array of shape (m,)
        Positive.
    mu, sigma, gamma, cap
    starts : int, default 16
        Rates to start from, at least 2. Two local minima between neighbouring starts are seen as
        one.

    Raises
    ------
    RuntimeError
        If the solver gives up, with its status.

    Notes
    -----
    Write :math:`\pi=\sum_ia_i\psi_i` for the mean virtual cost bought. At the best weights for a
    rate the derivative along the rate is :math:`\gamma\pi-\sigma/\eta^2`. As :math:`\pi` lies
    between that of the cheapest weights that the cap allows and that of equal weights, it is
    negative below all rates and positive above all rates of :math:`\sqrt{\sigma/(\gamma\pi)}`.
    Starts are spread evenly in the logarithm, and between any two where the sign changes from
    negative to positive the root is found by Brent's method.

    Examples
    --------
    >>> best = conic_search([0.2, 1.2], 1.0, 1.0, 0.1)
    >>> round(best.eta, 4), best.weights.round(4), round(best.error, 6)
    (4.302, array([0.6597, 0.3403]), 1.207186)
    """
    psi = check_finite(virtual_costs, "virtual_costs", 1, 0, ends="()")
    check_constants(mu, sigma, gamma)
    top = check_cap(cap, len(psi))
    full = int(1 / top)
    cheapest = np.sort(psi)[: full + 1]
    least = cheapest @ np.append(np.full(full, top), 1 - full * top)[: len(cheapest)]
    low, high = (0.5 * float(np.log(sigma / (gamma * p))) for p in (psi.mean(), least))
    weights = _conic_program(psi, mu, top)

    def slope(log_eta: float) -> float:
        eta = np.exp(log_eta)
        return float(gamma * eta * (weights(gamma * eta) @ psi) - sigma / eta)

    tried = np.linspace(low - 1e-6, high + 1e-6, check_count(starts, "starts", 2))
    slopes = np.array([slope(t) for t in tried])
    roots = [
        float(optimize.brentq(slope, tried[k], tried[k + 1], xtol=1e-10))
        for k in np.flatnonzero((slopes[:-1] < 0) & (slopes[1:] >= 0))
    ]
    rates = np.exp(roots)
    found = [weights(gamma * np.exp(root)) for root in roots]
    losses = np.array(
        [
            mu * np.linalg.norm(a) + sigma / eta + gamma * eta * (a @ psi)
            for a, eta in zip(found, rates, strict=True)
        ]
    )
    best = int(np.argmin(losses))
    return Searched(found[best], float(rates[best]), float(losses[best]), losses)


def _conic_program(psi: Array, mu: float, top: float) -> Callable[[float], Array]:
    """Map a price to the weights in [0, top] that minimise `mu norm(a) + price a.psi`: a
    second-order cone program.
    """
    m = len(psi)
    weights = sparse.eye_array(m, m + 1, k=1)
    A = sparse.csc_matrix(
        sparse.vstack([weights.sum(axis=0)[None], -weights, weights, -sparse.eye_array(m + 1)])
    )
    right = np.repeat([1.0, 0.0, top, 0.0], [1, m, m, m + 1])
    cones = [
        clarabel.ZeroConeT(1),
        clarabel.NonnegativeConeT(2 * m),
        clarabel.SecondOrderConeT(m + 1),
    ]

    def minimiser(price: float) -> Array:
        cost = np.append(mu, price * psi)
        try:
            found = solve_cone(cost / cost.max(), A, right, cones, loosest=LOOSEST)
        except RuntimeError as error:
            raise RuntimeError(f"{error} at gamma * eta = {price}") from None
        a = np.clip(found[1:], 0, top)
        return a / a.sum()

    return minimiser
