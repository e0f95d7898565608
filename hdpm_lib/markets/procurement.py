r"""How much privacy to buy from whom: the least sum of excess risk and expected payments, exactly.

Seller :math:`i` has the virtual cost :math:`\psi_i`. The buyer chooses weights :math:`a_i\ge0` with
sum 1 and a rate :math:`\eta`; seller :math:`i` loses :math:`\epsilon_i=a_i\eta`. She minimises the
*proxy loss* (Eq. 11)

.. math:: \mu\lVert a\rVert+\frac\sigma\eta+\gamma\eta\sum_ia_i\psi_i,

perhaps under a cap on the weights. It is step 1 of Algorithm 2 in A. Anjarlekar, R. Etesami and R.
Srikant, "Mechanism Design for Heterogenous Differentially Private Data Acquisition for Logistic
Regression" (2025, arXiv:2309.10340v2), whose equations are meant here.

With the best :math:`\eta` all local minima lie on a path with one parameter,
:math:`a_i=\min\{\alpha(\theta-\psi_i)^+,\text{cap}\}`, where the *cutoff* :math:`\theta` makes the
sum 1. As :math:`\alpha`, in the code `s`, grows from 0, where all weights are equal, sellers reach
the cap in the order of their virtual costs and leave in the opposite order. Between two such events
lies a *piece* of the path, on which stationarity is a cubic in :math:`\alpha` of which only the
smallest positive root can be a minimum (:doc:`/book/logistic/market`). Looking at every piece finds
all of them.

In functions that do not say it themselves `psi` are virtual costs in ascending order, `kappa` is
:math:`\kappa=\sigma\gamma/\mu^2`, on which alone the weights depend, and `cap` the largest
admissible weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.bisection import count_while
from hdpm_lib.markets.outcome import Purchase
from hdpm_lib.validation import Array, check_cap, check_finite, check_positive

Indices = NDArray[np.intp]
TIE = 1e-12  # caps that fill the sum exactly, but for rounding
NEAR = 1e-9  # relative, how far off its piece rounding may move a root


def check_constants(mu: float, sigma: float, gamma: float) -> tuple[float, float, float]:
    """Return the constants as floats."""
    mu = check_positive(mu, "mu")
    sigma = check_positive(sigma, "sigma")
    gamma = check_positive(gamma, "gamma")
    return mu, sigma, gamma


def procure(
    virtual_costs: ArrayLike, mu: float, sigma: float, gamma: float, *, cap: float | None = None
) -> Purchase:
    r"""Find weights and rate of least proxy loss: how much privacy to buy from whom.

    The global minimum, also where there are several local ones, in time :math:`O(m\log m)`.

    Parameters
    ----------
    virtual_costs : array of shape (m,)
        :math:`\psi(c_i)`, the virtual cost of a unit of each seller's privacy loss, positive, in
        units of money; :func:`hdpm_lib.markets.costs.virtual_valuation` gives it, and so do the
        costs themselves if sellers are paid no more than these.
    mu : float
        The paper's :math:`\mu`, positive: excess risk for each unit of the norm of the weights. It
        and `sigma` are the buyer's, from experience with public data
        (:doc:`/book/logistic/cancer`).
    sigma : float
        The paper's :math:`\sigma`, positive: excess risk that noise adds at a total privacy loss of
        1.
    gamma : float
        The paper's :math:`\gamma`, positive: excess risk that the buyer takes to save a unit of
        money.
    cap : float, default None
        Largest admissible weight, the paper's :math:`k/m`, in [1/m, 1]; None is no cap.

    Returns
    -------
    Purchase
        Privacy losses :math:`a_i\eta` and their sum `eta`, the weights :math:`a`, the cutoff, the
        total virtual cost :math:`\sum\psi_ia_i\eta` as `cost`, and as `error` what is minimised,
        :math:`\mu\lVert a\rVert+\sigma/\eta+\gamma\cdot` `cost`. It decides no payments, as
        :func:`hdpm_lib.markets.procurement_auction.procurement_auction` does.

    Raises
    ------
    RuntimeError
        If no local minimum is found, which rounding alone could cause, as with costs that lie 30
        orders of magnitude apart.

    Notes
    -----
    Whoever sells nothing has the loss 0: leave her record out, and fit the others by
    :func:`~hdpm_lib.learners.objective.objective_perturbation` with these weights, `eta` and a
    penalty of at least ``2 / eta``, so that no slack is added to what was bought.

    Without a cap the minima solve Eqs. (13) and (14) of the paper, whose :math:`\lambda` is
    :math:`\gamma\theta`. The latter can have several roots: then the least value counts. On a piece
    :math:`\lVert a\rVert^2=B+\alpha^2Q` and :math:`\sum a_i\psi_i=C-\alpha Q`, where :math:`Q` is
    the sum of squared deviations of the costs of those bought below the cap. Stationarity reads
    :math:`Q\alpha^3-(C-\kappa Q)\alpha^2+\kappa B=0`.

    References
    ----------
    A. Anjarlekar, R. Etesami and R. Srikant, "Mechanism Design for Heterogenous Differentially
    Private Data Acquisition for Logistic Regression", 2025, arXiv:2309.10340v2, Algorithm 2.

    Examples
    --------
    Two sellers of whom the buyer counts 0.2 and 1.2 dollars for a unit of loss. A dollar is worth
    0.1 of excess risk to her:

    >>> best = procure([0.2, 1.2], mu=1.0, sigma=1.0, gamma=0.1)
    >>> best.weights.round(4)
    array([0.6597, 0.3403])
    >>> best.privacy_loss.round(4)
    array([2.8379, 1.4641])

    The first sells the loss 2.84 and the second 1.46, 4.3 in all, at a virtual cost of 2.32
    dollars. Risk and money come to 1.21:

    >>> print(f"{best.eta:.4f} {best.cost:.4f} {best.error:.4f}")
    4.3020 2.3245 1.2072

    With a cap of one half both must sell the same:

    >>> procure([0.2, 1.2], mu=1.0, sigma=1.0, gamma=0.1, cap=0.5).weights
    array([0.5, 0.5])
    """
    psi, kappa = check_market(virtual_costs, mu, sigma, gamma, cap)
    order = np.argsort(psi, kind="stable")
    minima = local_minima(psi[order], kappa, cap)
    if not len(minima.s):
        raise RuntimeError(
            "no local minimum found among the pieces of the path: are virtual_costs of like size?"
        )
    best = np.argmin(minima.loss)
    piece = int(minima.capped[best]), int(minima.bought[best])
    sorted_weights, cutoff = _polished(psi[order], piece, minima.cap, kappa)
    weights = np.empty_like(sorted_weights)
    weights[order] = sorted_weights
    mu, sigma, gamma = check_constants(mu, sigma, gamma)
    return purchase(psi, weights, cutoff, mu, sigma, gamma)


def check_market(
    virtual_costs: ArrayLike, mu: float, sigma: float, gamma: float, cap: float | None = None
) -> tuple[Array, float]:
    """Return the virtual costs, and `kappa`."""
    psi = check_finite(virtual_costs, "virtual_costs", 1)
    bad = psi <= 0
    if bad.any():
        raise ValueError(
            f"virtual_costs must be positive, got virtual_costs[{np.argmax(bad)}] = {psi[bad][0]}: "
            "privacy that costs nothing adds a branch on which eta grows without end"
        )
    check_finite(psi, "virtual_costs", 1, 0, ends="()")
    mu, sigma, gamma = check_constants(mu, sigma, gamma)
    fewest = 1  # sellers, whose weights can sum to 1
    if cap is not None:
        fewest = math.ceil((1 - 1e-9) / check_cap(cap, len(psi)))
    dearest = np.sort(psi)[fewest - 1]
    # beyond, all weights are equal, or those of the fewest and cheapest sellers are not 0, to the
    # last digits
    kappa = np.clip(sigma * gamma / mu**2, 1e-28 / psi.max(), 1e28 / dearest)
    return psi, float(kappa)


@dataclass(frozen=True, eq=False)
class Pieces:
    """The pieces of the path.

    Attributes
    ----------
    capped : array of int
        How many sellers are at the cap.
    bought : array of int
        From how many something is bought.
    low : array
        Value of `s` at which the piece begins.
    high : array
        Value of `s` at which it ends.
    cap : float
        Largest admissible weight, or 0 if there is none.
    """

    capped: Indices
    bought: Indices
    low: Array
    high: Array
    cap: float


@dataclass(frozen=True, eq=False)
class Minima:
    """Local minima along the path.

    Attributes
    ----------
    capped : array of int
        How many sellers are at the cap.
    bought : array of int
        From how many something is bought.
    s : array
        Place of the minimum on the path.
    loss : array
        Proxy loss over `mu`.
    cap : float
        Largest admissible weight, or 0 if there is none.
    """

    capped: Indices
    bought: Indices
    s: Array
    loss: Array
    cap: float


def local_minima(psi: Array, kappa: float, cap: float | None = None) -> Minima:
    """Find all local minima, for sorted costs; one on the border of two pieces twice.

    They are the stationary points of the pieces that are minima and lie on their piece: one cubic
    for each.
    """
    pieces = pieces_of(psi, cap)
    fixed, price, spread, noise = piece_sums(psi, pieces)
    root = smallest_root(fixed, price, spread, kappa)
    near = np.clip(root, pieces.low, pieces.high)
    with np.errstate(invalid="ignore", divide="ignore"):
        tolerance = NEAR + np.where(spread > 0, noise / spread, 0)
        on_piece = np.abs(root - near) <= tolerance * root
    s = near[on_piece]
    norm = np.sqrt(fixed[on_piece] + s**2 * spread[on_piece])
    cost = price[on_piece] - s * spread[on_piece]
    loss = norm + 2 * np.sqrt(kappa * cost)
    return Minima(pieces.capped[on_piece], pieces.bought[on_piece], s, loss, pieces.cap)


def _polished(psi: Array, piece: tuple[int, int], cap: float, kappa: float) -> tuple[Array, float]:
    """Compute weights and cutoff on a piece, or on a neighbour, from direct sums.

    A piece is how many are at the cap, and from how many something is bought.
    """
    for _ in range(50):
        capped, bought = piece
        inner = np.arange(capped, bought)
        weights, s, cutoff = settle(psi, np.arange(capped), inner, cap, kappa)
        if not np.isfinite(s):
            break
        if cap:
            capped = int(np.searchsorted(psi, cutoff - cap / s, "right"))
        bought = int(np.searchsorted(psi, cutoff))
        if (capped, bought) == piece:
            break
        piece = (capped, bought)
    return weights, cutoff


def pieces_of(psi: Array, cap: float | None) -> Pieces:
    """Return the pieces of the path for sorted costs; with a cap in the order of growing `s`."""
    m = len(psi)
    if cap is None:
        nobody = np.zeros(m, dtype=np.intp)
        bought = np.arange(1, m + 1)
        high = _leaving(psi)
        low = np.append(high[1:], 0.0)
        return Pieces(nobody, bought, low, high, 0.0)
    top = check_cap(cap, m)
    if m * top <= 1 + TIE:
        everybody = np.array([m])
        return Pieces(everybody, everybody, np.array([0.0]), np.array([np.inf]), top)
    leaving, reaching = _events(psi, top)
    low = np.sort(np.concatenate([[0.0], leaving, reaching]))
    capped = np.searchsorted(np.sort(reaching), low, "right")
    bought = m - np.searchsorted(np.sort(leaving), low, "right")
    return Pieces(capped, np.maximum(bought, capped), low, np.append(low[1:], np.inf), top)


def _leaving(psi: Array) -> Array:
    """Return the `s` from which on nothing is bought from a seller, if there is no cap."""
    apart = psi - psi[0]
    with np.errstate(divide="ignore"):
        return np.asarray(1 / (np.arange(1, len(psi) + 1) * apart - np.cumsum(apart)))


def _events(psi: Array, cap: float) -> tuple[Array, Array]:
    """Find the `s` at which sellers leave, and at which they reach the cap, if ever.

    A seller leaves when the cutoff meets her cost, and then the weights of the cheaper ones sum to
    1. She reaches the cap when the weights sum to 1 although those up to her are at it. Each is a
    search for how many others are at the cap, or are bought, at that point.
    """
    m = len(psi)
    apart = psi - psi[0]
    total = np.append(0, np.cumsum(apart))
    cheaper = np.searchsorted(psi, psi, "left")
    upto = np.searchsorted(psi, psi, "right")
    leaves = np.flatnonzero(cheaper * cap >= 1 - TIE)
    reaches = np.flatnonzero(upto * cap <= 1 + TIE)
    first = upto[reaches]

    def below(i: Indices) -> Array:  # of the cost of who leaves less that of the cheaper from i on
        return np.asarray((leaves - i) * apart[leaves] - (total[leaves] - total[i]))

    def above(j: Indices) -> Array:  # of the costs up to j less that of who reaches the cap
        return np.asarray(total[j] - total[first] - (j - first) * apart[reaches])

    def one_more_capped(i: Indices) -> NDArray[np.bool_]:
        s = cap / (apart[leaves] - apart[i])
        return (i + 1) * cap + s * below(i + 1) < 1 - TIE

    def one_more_bought(k: Indices) -> NDArray[np.bool_]:
        j = np.minimum(first + k, m - 1)
        s = cap / (apart[j] - apart[reaches])
        return (first + k < m) & (cap * j - s * above(j) <= 1 + TIE)

    with np.errstate(divide="ignore", invalid="ignore"):
        capped = count_while(one_more_capped, cheaper[leaves])
        leaving = (1 - capped * cap) / below(capped)
        bought = first + count_while(one_more_bought, m - first)
        reaching = np.maximum((bought * cap - 1) / above(bought), 0)
    return leaving, reaching


def piece_sums(psi: Array, pieces: Pieces) -> tuple[Array, Array, Array, Array]:
    """Return `fixed`, `price` and `spread` of every piece, and the rounding in `spread`.

    The squared norm is `fixed + s^2 spread`, the cost `price - s spread`.
    """
    p = pieces.capped
    q = pieces.bought
    cap = pieces.cap
    apart = psi - psi[0]
    first = np.append(0, np.cumsum(apart))
    second = np.append(0, np.cumsum(apart**2))
    n = q - p
    rest = 1 - p * cap
    divisor = np.maximum(n, 1)
    mean = (first[q] - first[p]) / divisor
    spread = np.maximum(second[q] - second[p] - divisor * mean**2, 0)
    equal = psi[q - 1] <= psi[np.minimum(p, len(psi) - 1)]
    spread[equal] = 0  # without rounding
    fixed = p * cap**2 + np.where(n > 0, rest**2 / divisor, 0)
    price = psi[0] + cap * first[p] + np.where(n > 0, rest * mean, 0)  # the total weight is 1
    noise = 1e-15 * np.sqrt(len(psi)) * second[q]
    return np.asarray(fixed), np.asarray(price), np.asarray(spread), np.asarray(noise)


def cheapest(psi: Array) -> tuple[Array, Array, Array, Array]:
    r"""Return each `k`, mean and sum of squared deviations of the `k` cheapest, and an end of `s`.

    Costs of shape (..., m) are sorted. Up to the end no weight :math:`1/k-s(\psi_i-\text{mean})` is
    negative.
    """
    k = np.arange(1, psi.shape[-1] + 1)
    apart = psi - psi[..., :1]
    first = np.cumsum(apart, axis=-1)
    spread = np.maximum(np.cumsum(apart**2, axis=-1) - first**2 / k, 0)
    mean = psi[..., :1] + first / k
    with np.errstate(divide="ignore"):
        end = 1 / np.maximum(k * apart - first, 0)
    return k, mean, spread, end


def smallest_root(fixed: Array, price: Array, spread: Array, kappa: float) -> Array:
    """Return the smallest positive root of the cubic on a piece, or NaN.

    The cubic is ``spread s^3 - (price - kappa spread) s^2 + kappa fixed``.
    """
    slope = price - kappa * spread
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = -1.5 * spread / slope * np.sqrt(3 * kappa * fixed / slope)
        inverse = 2 * np.sqrt(slope / (3 * kappa * fixed)) * np.cos(np.arccos(cosine) / 3)
        return np.asarray(1 / inverse)


def settle(
    psi: Array, capped: Indices, inner: Indices, cap: float, kappa: float
) -> tuple[Array, float, float]:
    """Compute weights, `s` and cutoff at the stationary point of a piece, from direct sums."""
    rest = 1 - cap * len(capped)
    n = len(inner)
    weights = np.zeros_like(psi)
    weights[capped] = cap
    if not n:
        cutoff = np.delete(psi, capped).min(initial=np.inf)
        return weights, np.inf, float(cutoff)
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
    """Return the outcome for weights, with the best rate."""
    weights = np.maximum(weights, 0)
    price = weights @ psi
    eta = np.sqrt(sigma / (gamma * price))
    error = mu * np.linalg.norm(weights) + 2 * np.sqrt(sigma * gamma * price)
    return Purchase(
        weights * eta, cost=eta * price, error=error, weights=weights, eta=eta, cutoff=cutoff
    )
