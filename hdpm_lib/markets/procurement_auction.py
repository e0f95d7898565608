r"""Truthful payments for bought privacy, of all sellers at once.

It is Algorithm 2 of A. Anjarlekar, R. Etesami and R. Srikant, "Mechanism Design for Heterogenous
Differentially Private Data Acquisition for Logistic Regression" (2025, arXiv:2309.10340v2), whose
equations are meant here; step 1 is :mod:`hdpm_lib.markets.procurement`.

A seller of cost :math:`c_i` is paid :math:`t_i=c_i\epsilon_i+\int_{c_i}^{\bar c}\epsilon_i(z)\,dz`,
where :math:`\epsilon_i(z)` is what the optimal procurement buys from her if she reports :math:`z`,
and :math:`\bar c` is the largest cost the law allows: a seller who is still bought there is bought
less at no admissible report.

The least proxy loss is a concave function :math:`V` of one's own virtual cost, with the slope
:math:`\gamma\epsilon_i`. If the virtual cost is affine in the cost, as under a uniform law, then

.. math:: t_i=c_i\epsilon_i+\frac{V(\psi(\bar c))-V(\psi(c_i))}{\gamma\psi'},

without an integral, and true even where the optimal purchase jumps (:doc:`/book/logistic/market`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.markets.costs import affine_slope, check_law, check_regular, virtual_valuation
from hdpm_lib.markets.outcome import Purchase
from hdpm_lib.markets.procurement import (
    TIE,
    check_constants,
    piece_sums,
    pieces_of,
    procure,
    smallest_root,
)
from hdpm_lib.markets.quadrature import panel_integrals
from hdpm_lib.validation import RANGE, Array, check_cap, check_finite

Indices = NDArray[np.intp]

ACCURACY = 1e-8  # of the quadrature, relative to the payment
NODES = 8  # of a panel
HALVINGS = 60  # of a stretch of the path, at most
BISECTIONS = 30  # towards the report at which a seller leaves: what is left of it is a panel's
STEPS = 100  # towards an optimum after a change, at most
ROUNDING = 1e-11  # relative, at most, in an optimum by prefix sums
IRONED = (
    "take a regular law, or buy by procure at ironed_virtual_valuation and pay by step_payments"
)


class _Changed(NamedTuple):
    """The optima after some changes of one virtual cost each; arrays of one shape."""

    cutoff: Array
    loss: Array
    privacy_loss: Array  # what is bought from the seller whose virtual cost is changed


# of virtual costs of sellers, and of what replaces each of them alone
_Change: TypeAlias = Callable[[Array, Array], _Changed]


def procurement_auction(
    costs: ArrayLike, law: Any, mu: float, sigma: float, gamma: float, *, cap: float | None = None
) -> Purchase:
    r"""Buy privacy optimally, with payments that make the truth everybody's best report.

    Parameters
    ----------
    costs : array of shape (m,)
        Reported costs :math:`c_i` of a unit of privacy loss, in units of money and in the support
        of `law`; no virtual cost may be 0.
    law : scipy.stats law
        Of each cost, independent of the others, as in :mod:`hdpm_lib.markets.costs`; regular.
    mu : float
        The paper's :math:`\mu`, positive: excess risk for each unit of the norm of the weights.
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
        The decision of :func:`~.procurement.procure` at the virtual costs :math:`\psi(c_i)`, with
        the payments in units of money. Nothing is bought where the law has density 0.

    Raises
    ------
    RuntimeError
        If the quadrature of a payment does not settle.

    Notes
    -----
    Step 1 of Algorithm 2 buys, step 2 pays by Eq. (8). Under an affine virtual cost payments are
    exact. Otherwise each is integrated to 1e-8 of it, also across jumps. Truth is then a best
    report whatever the others say, and no seller is paid less than :math:`c_i\epsilon_i`. Payments
    tell about the reports, not about the data.

    References
    ----------
    A. Anjarlekar, R. Etesami and R. Srikant, "Mechanism Design for Heterogenous Differentially
    Private Data Acquisition for Logistic Regression", 2025, arXiv:2309.10340v2, Algorithm 2.

    Examples
    --------
    Costs of a unit of loss are known to lie between 0 and 1 dollar. Two sellers say 0.1 and 0.6;
    the buyer counts the virtual costs 0.2 and 1.2:

    >>> from scipy import stats
    >>> bought = procurement_auction([0.1, 0.6], stats.uniform(0, 1), 1.0, 1.0, 0.1)
    >>> bought.privacy_loss.round(4)
    array([2.8379, 1.4641])
    >>> bought.payments.round(4)
    array([1.7472, 1.2568])

    The first bears a cost of 0.28 dollars and is paid 1.75: what she could not have raised by
    another report.
    """
    low, high = check_law(law)
    c = check_finite(costs, "costs", 1, low, high)
    check_regular(law, IRONED)
    psi = virtual_valuation(law, c, check=False)
    sells = np.isfinite(psi)  # where the density is 0 nothing is bought
    if not sells.any():
        raise ValueError(
            f"costs must not all lie where law has density 0, got costs[0] = {c[0]}: no finite"
            " price buys there; take a law with a positive density at some of them"
        )
    c = c[sells]
    psi = psi[sells]
    mu, sigma, gamma = check_constants(mu, sigma, gamma)

    # Step 1: what is bought at the reported costs
    truth = procure(psi, mu, sigma, gamma, cap=cap)

    # Step 2: each seller's cost, and the integral over all higher reports
    top = virtual_valuation(law, high, check=False)
    optima = _Optima.of(psi, truth, (mu, sigma, gamma), cap, float(top))
    sold = np.flatnonzero(truth.weights > 0)
    own_cost = c[sold] * truth.privacy_loss[sold]
    slope = affine_slope(law)
    if slope:  # by values, without an integral
        without_her = optima(psi[sold], np.full(len(sold), top)).loss
        with_her = optima(psi[sold[:1]], psi[sold[:1]]).loss
        integrals = (without_her - with_her) / (gamma * slope)
    else:
        integrals = _integral(law, c[sold], psi[sold], own_cost, optima)
    payments = np.zeros_like(c)
    payments[sold] = own_cost + integrals

    def among_all(values: Array) -> Array:
        of_all = np.zeros(len(sells))
        of_all[sells] = values
        return of_all

    return replace(
        truth,
        privacy_loss=among_all(truth.privacy_loss),
        weights=among_all(truth.weights),
        payments=among_all(payments),
    )


def _integral(law: Any, c: Array, psi: Array, own_cost: Array, change: _Change) -> Array:
    """Integrate what is bought from each seller over her own report."""

    def bought(i: Indices, z: Array) -> Array:
        own = virtual_valuation(law, z, check=False)
        changed = change(np.repeat(psi[i], NODES), own.ravel())
        return changed.privacy_loss.reshape(z.shape)

    # Where each seller leaves, or above which she does by a drop: there one of two panels ends
    top = np.full_like(c, law.support()[1])
    leave = change(psi, np.full_like(psi, np.inf)).cutoff
    inside = c
    outside = top
    for _ in range(BISECTIONS):
        middle = (inside + outside) / 2
        stays = virtual_valuation(law, middle, check=False) < leave
        inside = np.where(stays, middle, inside)
        outside = np.where(stays, outside, middle)

    seller = np.tile(np.arange(len(c)), 2)
    start = np.append(c, outside)
    end = np.append(outside, top)
    panels = np.stack([start, end], 1)
    return panel_integrals(bought, seller, panels, own_cost, accuracy=ACCURACY, nodes=NODES)


class _Points(NamedTuple):
    """Points of the path, see :mod:`hdpm_lib.markets.procurement`, one of each changed market."""

    cutoff: Array
    s: Array
    mean: Array  # virtual cost of those bought below the cap
    share: Array  # their mean weight
    number: Array  # of them
    spread: Array  # squared deviations of their virtual costs
    fixed: Array  # of the squared norm of the weights, but for `spread`
    linear: Array  # sum of weights times virtual costs, but for `spread`
    own: Array  # weight of the seller who is changed
    rounding: Array  # relative

    @property
    def square(self) -> Array:
        """Squared norm of the weights."""
        return self.fixed + self.s**2 * self.spread

    @property
    def price(self) -> Array:
        """Sum of weights times virtual costs."""
        return self.linear - self.s * self.spread

    def chosen(self, which: NDArray[np.bool_]) -> _Points:
        """Return some of the points."""
        return _Points._make(array[which] for array in self)

    def joined(self, others: _Points) -> _Points:
        """Return these points and others after them."""
        pairs = zip(self, others, strict=True)
        return _Points._make(np.append(first, second) for first, second in pairs)


@dataclass(frozen=True, eq=False)
class _Optima:
    r"""The optima after changes of one virtual cost each to a higher one, from one sort.

    Along the path, as `s` grows and the cutoff falls, the norm of the weights rises and their price
    falls. Stationary points are the fixed points of :math:`T(s)=\sqrt{\kappa\,\text{square}/
    \text{price}}`, which therefore rises, too: those on a stretch lie between its values at the
    ends. In logarithms its slope is :math:`\text{spread}\,(s^2/\text{square}+s/(2\,\text{price}))`,
    where the spread falls, as those bought below the cap become fewer. Where this is below 1 on a
    whole stretch it has one fixed point, which is a minimum; where it is at least 1 it has none
    that is. What is undecided is halved, until it has two pieces of the path.
    """

    psi: Array  # sorted
    sums: Array  # of powers 0, 1 and 2 of the distances to `psi[base]`, over the sellers up to each
    base: int
    cap: float
    scale: tuple[float, float, float]
    kappa: float
    ends: tuple[float, float]  # of `s`, between which every optimum lies
    losses: tuple[float, float]  # likewise
    dearest: float  # virtual cost that no change exceeds

    @classmethod
    def of(
        cls,
        virtual_costs: Array,
        truth: Purchase,
        scale: tuple[float, float, float],
        cap: float | None,
        dearest: float,
    ) -> _Optima:
        r"""Prepare for changes of a market whose optimum is `truth`, up to the cost `dearest`.

        No change raises the least loss above `most`, what it is if the cheapest seller becomes the
        dearest. For a given :math:`\eta` the loss is :math:`\sigma/\eta+\varphi(\eta)`, where
        :math:`\varphi` rises and no change lowers it. So no optimum has an :math:`\eta` at which
        this is more than `most` already before the change. At an optimum of loss :math:`V` the
        `s` is :math:`(\eta V-2\sigma)\gamma/\mu^2`.
        """
        mu, sigma, gamma = scale
        psi = np.sort(virtual_costs)
        top = check_cap(cap, len(psi))
        dearest = min(max(dearest, psi[-1]), RANGE[1])
        least = float(truth.error)
        most = float(procure(np.append(psi[1:], dearest), mu, sigma, gamma, cap=cap).error)

        # Between which eta the optima lie: by the pieces of the path before the change
        pieces = pieces_of(psi, cap)
        fixed, price, spread, _ = piece_sums(psi, pieces)
        largest = most / (gamma * psi[0])
        s = np.stack([pieces.low, np.minimum(pieces.high, gamma * largest / mu)])
        with np.errstate(divide="ignore", invalid="ignore"):
            norm = np.hypot(np.sqrt(fixed), s * np.sqrt(spread))
            eta = mu * s / (gamma * norm)
            value = mu * norm[0] + gamma * eta[0] * (price - s[0] * spread)
            near = (s[0] <= s[1]) & (sigma / eta[1] + value <= most * (1 + 1e-9))
        low = eta[0, near].min()
        high = eta[1, near].max()

        # Between which s: by that, and as T lies between its values for the extreme weights
        kappa = sigma * gamma / mu**2
        low = max((low * least - 2 * sigma) * gamma / mu**2, np.sqrt(kappa / dearest / len(psi)))
        high = min((high * most - 2 * sigma) * gamma / mu**2, np.sqrt(kappa / psi[0]))
        ends = float(low) * (1 - 1e-9), float(high) * (1 + 1e-9)

        # Sums over sellers, from the first below the cap, so that they are small near the cutoff
        base = 0
        if top < 1:
            capped = int((truth.weights > top * (1 - 1e-9)).sum())
            base = min(capped, len(psi) - 1)
        powers = _powers(psi - psi[base])
        below = np.cumsum(powers[:, :base][:, ::-1], axis=1)[:, ::-1]
        above = np.cumsum(powers[:, base:], axis=1)
        sums = np.concatenate([-below, np.zeros((3, 1)), above], axis=1)
        return cls(psi, sums, base, top, scale, kappa, ends, (least, most), dearest)

    def __call__(self, old: Array, own: Array) -> _Changed:
        """Return the optima if virtual costs `old`, of one seller each, are replaced by `own`."""
        mu, sigma, gamma = self.scale
        own = np.minimum(own, self.dearest)
        with np.errstate(all="ignore"):  # what comes to nothing is left to `procure`
            row, at = self._minima(old, own)
            loss = mu * np.sqrt(at.square) + 2 * np.sqrt(sigma * gamma * at.price)
            bought = at.own * np.sqrt(sigma / (gamma * at.price))
            least, most = self.losses
            certain = (loss >= least * (1 - ROUNDING)) & (loss <= most * (1 + ROUNDING))
            certain &= at.rounding < ROUNDING

        # The point of least loss for each change
        order = np.lexsort((loss, row))
        row, first = np.unique(row[order], return_index=True)
        best = order[first]
        cutoffs = np.full(len(own), np.nan)
        losses = np.full(len(own), np.nan)
        amounts = np.full(len(own), np.nan)
        row = row[certain[best]]
        best = best[certain[best]]
        cutoffs[row] = at.cutoff[best]
        losses[row] = loss[best]
        amounts[row] = bought[best]

        # Where there is none for certain, the market is solved anew
        for i in np.flatnonzero(np.isnan(cutoffs)):
            others = np.delete(self.psi, np.searchsorted(self.psi, old[i]))
            cap = self.cap if self.cap < 1 else None
            optimum = procure(np.append(others, own[i]), mu, sigma, gamma, cap=cap)
            cutoffs[i] = optimum.cutoff
            losses[i] = optimum.error
            amounts[i] = optimum.privacy_loss[-1]
        return _Changed(cutoffs, losses, amounts)

    def _minima(self, old: Array, own: Array) -> tuple[Indices, _Points]:
        """Find all points that may be optima, and of which change each is; some are no minima."""
        row, cutoff, low, high, fixed = self._starts(old, own)
        for step in range(STEPS):
            at = self._at(cutoff, old[row], own[row])
            above = self._image(at) > at.s  # then the fixed point is at a lower cutoff
            high = np.where(above, cutoff, high)
            low = np.where(above, low, cutoff)
            move = self._minimum(at)
            narrow = high <= low * (1 + 1e-14)
            still = np.abs(move - cutoff) <= 1e-14 * cutoff
            settled = fixed | narrow | still
            if settled.all():
                break
            inside = (move > low) & (move < high) & (step % 8 < 7)
            move = np.where(inside, move, np.sqrt(low * high))
            cutoff = np.where(settled, cutoff, move)
        return row, at

    def _starts(self, old: Array, own: Array) -> tuple[NDArray[Any], ...]:
        """Find points near all minima: of which change, cutoff, and stretch where it is alone.

        The stretch is two cutoffs. Last comes whether the minimum is the cutoff itself or none.
        """
        row = np.arange(len(own))
        low, high = self._cutoffs(old, own)
        bottom = self._at(high, old, own)  # where `s` is least
        top = self._at(low, old, own)
        starts = []
        for _ in range(HALVINGS):
            # Between which `s` fixed points are, and bounds of the slope there
            after_bottom = self._image(bottom)
            after_top = self._image(top)
            low = np.maximum(bottom.s, after_bottom * (1 - TIE))
            high = np.minimum(top.s, after_top * (1 + TIE))
            least = top.spread * (low**2 / top.square + low / (2 * bottom.price))
            most = bottom.spread * (high**2 / bottom.square + high / (2 * top.price))
            crosses = (bottom.s <= after_bottom * (1 + TIE)) & (after_top <= top.s * (1 + TIE))
            left = (low <= high) & (least < 1) & (crosses | (most >= 1))

            # One fixed point, or at most two pieces, each with a minimum of its own
            one_minimum = left & (most < 1)
            near = bottom.cutoff <= top.cutoff * (1 + TIE)
            two_pieces = left & ~one_minimum & (near | (bottom.number <= top.number + 1))
            for which, at in ((one_minimum | two_pieces, bottom), (two_pieces, top)):
                start = np.fmin(self._minimum(at), bottom.cutoff)
                start = np.maximum(start, top.cutoff)
                columns = row, start, top.cutoff, bottom.cutoff, two_pieces
                starts.append([column[which] for column in columns])

            # Halves of the others
            more = left & ~one_minimum & ~two_pieces
            if not more.any():
                break
            row = row[more]
            bottom = bottom.chosen(more)
            top = top.chosen(more)
            middle = self._at(np.sqrt(bottom.cutoff * top.cutoff), old[row], own[row])
            row = np.tile(row, 2)
            bottom = bottom.joined(middle)
            top = middle.joined(top)
        return tuple(np.concatenate(column) for column in zip(*starts, strict=True))

    def _cutoffs(self, old: Array, own: Array) -> tuple[Array, Array]:
        """Return cutoffs between which all `s` between the ends are.

        At the higher all others are at the cap, and at the lower what `k - 1` sellers at the cap
        leave to the dearer ones is just bought from these.
        """
        m = len(self.psi)
        k = math.ceil((1 - TIE) / self.cap)
        last = self.psi[k - 1]
        following = self.psi[k] if k < m else np.inf
        dearer = np.where(old <= last, np.clip(own, last, following), last)
        left = 1 - (k - 1) * self.cap
        low = dearer + left / ((m - k + 1) * self.ends[1])
        others = np.full_like(own, self.psi[-1])
        if (m - 1) * self.cap < 1:  # then she is needed
            others = np.maximum(own, others)
        return low, others + self.cap / self.ends[0]

    def _image(self, at: _Points) -> Array:
        """Apply the map `T` to points."""
        return np.asarray(np.sqrt(self.kappa * at.square / at.price))

    def _minimum(self, at: _Points) -> Array:
        """Return the cutoff of the minimum of the piece on which a point lies, or NaN."""
        root = smallest_root(at.fixed, at.linear, at.spread, self.kappa)
        return np.where(at.number > 0, at.mean + at.share / root, np.nan)

    def _at(self, cutoff: Array, old: Array, own: Array) -> _Points:
        """Compute the points of the path with these cutoffs."""
        cap = self.cap
        cost = self.psi[self.base]
        bought = self._sums(cutoff, old, own)
        capped = np.tile(self.sums[:, :1], len(cutoff))

        # At the cap is who is `width` below the cutoff; the sum of the weights is concave in it, so
        # that Newton's method falls to the root
        width = np.full_like(cutoff, np.inf)
        for _ in range(STEPS):
            n, first, second = bought - capped
            rest = 1 - cap * (capped[0] - self.sums[0, 0])
            less = cap * (n * (cutoff - cost) - first) / rest
            falls = (n > 0) & (less < width * (1 - 1e-15))
            width = np.where(falls, less, width)
            if cap == 1 or not falls.any():
                break
            capped = np.where(falls, self._sums(cutoff - width, old, own), capped)
        s = cap / width

        # Sums over those bought below the cap, and over those at it
        n, first, second = bought - capped
        full, spent, _ = capped - self.sums[:, :1]
        divisor = np.maximum(n, 1)
        mean = cost + first / divisor
        rest = np.where(n > 0, 1 - cap * full, 0)
        share = rest / divisor
        spread = second - first**2 / divisor
        spread = np.where((n > 1) & (spread > 1e-14 * second), spread, 0)
        fixed = full * cap**2 + share * rest
        linear = cap * (spent + full * cost) + rest * mean
        weight = np.where(n > 0, np.minimum(share - s * (own - mean), cap), cap)
        weight = np.where(own < cutoff, weight, 0)
        at = _Points(cutoff, s, mean, share, n, spread, fixed, linear, weight, cutoff)
        rounding = s**2 * second / at.square + (cutoff + cost) / at.price + cutoff * s / cap
        return at._replace(rounding=1e-15 * rounding)

    def _sums(self, cutoff: Array, old: Array, own: Array) -> Array:
        """Sum powers of the distances to the base over the sellers below a cutoff."""
        cost = self.psi[self.base]
        sums = self.sums[:, np.searchsorted(self.psi, cutoff)]
        sums += np.where(own < cutoff, _powers(own - cost), 0)
        sums -= np.where(old < cutoff, _powers(old - cost), 0)
        return sums


def _powers(distance: Array) -> Array:
    """Return powers 0, 1 and 2, on a new first axis."""
    return np.stack([np.ones_like(distance), distance, distance * distance])
