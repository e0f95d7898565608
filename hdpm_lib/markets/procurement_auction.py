r"""Truthful payments for bought privacy, of all sellers at once.

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

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.markets.costs import check_law, check_regular, virtual_valuation
from hdpm_lib.markets.outcome import Purchase
from hdpm_lib.markets.procurement import RANGE, cheapest, procure, smallest_root
from hdpm_lib.validation import check_finite

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

AFFINE = 1e-12  # largest bend of the virtual cost, relative, that counts as none
ACCURACY = 1e-8  # of the quadrature, relative to the payment
# of a panel, and how often it is halved at most
NODES = 8
HALVINGS = 60
PANELS = 10_000  # a seller, on average, at most
BISECTIONS = 30  # towards the report at which a seller leaves: what is left of it is a panel's
CELLS = 1 << 16  # of sellers in markets that are solved together
# of the stretch on which the optimum must have no rival
REFINEMENTS = 6
PARTS = 1_000
IRONED = (
    "take a regular law, or buy by procure at ironed_virtual_valuation and pay by step_payments"
)


class _Changed(NamedTuple):
    """The optima after some changes of one virtual cost each; arrays of one shape."""

    cutoff: Array
    loss: Array
    privacy_loss: Array  # what is bought from the seller whose virtual cost is changed


# of virtual costs, and of what replaces each, alone
Change: TypeAlias = Callable[[Array, Array], _Changed]


def procurement_auction(
    costs: ArrayLike, law: Any, mu: float, sigma: float, gamma: float, *, cap: float | None = None
) -> Purchase:
    """The optimal purchase (Algorithm 2, step 1) and its truthful payments (step 2, Eq. 8).

    The other arguments are those of :mod:`hdpm_lib.markets.procurement`. Under an affine virtual
    cost payments are exact. Otherwise each is integrated to 1e-8 of it, also across jumps, and a
    RuntimeError says that a quadrature does not settle; with a cap that takes one optimum for every
    point and seller.

    Parameters
    ----------
    costs : array of shape (m,), in the support of `law`
        Reported costs of a unit of privacy loss; no virtual cost may be 0.
    law : scipy.stats law
        Of the costs, as in :mod:`hdpm_lib.markets.costs`; regular.

    Examples
    --------
    >>> from scipy import stats
    >>> bought = procurement_auction([0.1, 0.6], stats.uniform(0, 1), 1.0, 1.0, 0.1)
    >>> bought.privacy_loss.round(4), bought.payments.round(4)
    (array([2.8379, 1.4641]), array([1.7472, 1.2568]))
    """
    c = check_finite(costs, "costs", 1, *check_law(law))
    check_regular(law, IRONED)
    psi = virtual_valuation(law, c, check=False)
    sells = np.isfinite(psi)  # where the density is 0 nothing is bought
    if not sells.any():
        where = f"costs must not all lie where law has density 0, got costs[0] = {c[0]}"
        raise ValueError(
            f"{where}: no finite price buys there; take a law with a positive density at some of"
            " them"
        )
    c = c[sells]
    psi = psi[sells]
    truth = procure(psi, mu, sigma, gamma, cap=cap)  # step 1: what is bought at the reported costs
    sold = np.flatnonzero(truth.weights > 0)
    # step 2: each seller's cost, and the integral over all higher reports
    payments = np.zeros_like(c)
    own_cost = c[sold] * truth.privacy_loss[sold]
    payments[sold] = own_cost + _integrals(c, psi, sold, law, truth, (mu, sigma, gamma), cap)
    everybody = np.zeros((3, len(sells)))
    everybody[:, sells] = truth.privacy_loss, truth.weights, payments
    return replace(truth, privacy_loss=everybody[0], weights=everybody[1], payments=everybody[2])


def _integrals(
    c: Array,
    psi: Array,
    sold: Indices,
    law: Any,
    truth: Purchase,
    scale: tuple[float, float, float],
    cap: float | None,
) -> Array:
    """For each seller who sold: what is bought from her, integrated over all reports above her
    own.
    """
    change = _change(psi, truth, scale, cap)
    if slope := _slope(law):  # by values, without an integral
        top = np.full(len(sold), virtual_valuation(law, law.support()[1], check=False))
        gain = change(psi[sold], top).loss - change(psi[sold[:1]], psi[sold[:1]]).loss
        return np.asarray(gain / (scale[2] * slope))
    return _integral(law, c[sold], psi[sold], c[sold] * truth.privacy_loss[sold], change)


def _change(
    psi: Array, truth: Purchase, scale: tuple[float, float, float], cap: float | None
) -> Change:
    """What finds the optima after changes of one virtual cost each."""
    if cap is None and len(psi) > 1:
        branch = _Branch.of(psi, truth, scale)
        return branch.follow if branch.certain else branch.scan

    def anew(old: Array, own: Array) -> _Changed:
        rows = [
            np.append(np.delete(psi, np.argmax(psi == one)), new)
            for one, new in zip(old, own, strict=True)
        ]
        found = [procure(np.minimum(row, RANGE[1]), *scale, cap=cap) for row in rows]
        return _Changed(
            *np.array([(one.cutoff, one.error, one.privacy_loss[-1]) for one in found]).T
        )

    return anew


def _slope(law: Any) -> float | None:
    """Slope of the virtual cost if it is affine."""
    low, high = law.support()
    z = np.linspace(low, high, 65)
    psi = virtual_valuation(law, z, check=False)
    if not np.isfinite(psi).all():
        return None
    bend = np.abs(psi - np.interp(z, [low, high], psi[[0, -1]])).max()
    return float((psi[-1] - psi[0]) / (high - low)) if bend <= AFFINE * psi[-1] else None


def _integral(law: Any, c: Array, psi: Array, own_cost: Array, change: Change) -> Array:
    """Integrals of what is bought over one's own report, on panels halved where they do not foresee
    what is between.

    What is bought never rises, and panels have nodes at their ends: it cannot drop unseen.
    """
    at, weight, foresee = _lobatto()

    def bought(i: Indices, panels: Array) -> Array:
        z = np.minimum(panels[:, :1] + np.diff(panels) * at, panels[:, 1:])
        own = virtual_valuation(law, z, check=False)
        return change(np.repeat(psi[i], NODES), own.ravel()).privacy_loss.reshape(z.shape)

    top = np.full_like(c, law.support()[1])
    # there, or by a drop above it, she leaves
    leave = change(psi, np.full_like(psi, np.inf)).cutoff
    inside = c
    outside = top
    for _ in range(BISECTIONS):
        middle = (inside + outside) / 2
        stays = virtual_valuation(law, middle, check=False) < leave
        inside = np.where(stays, middle, inside)
        outside = np.where(stays, outside, middle)
    i = np.tile(np.arange(len(c)), 2)
    panels = np.stack([np.append(c, outside), np.append(outside, top)], 1)
    coarse = bought(i, panels)
    total = np.zeros_like(c)
    for _ in range(HALVINGS):
        (low, high), middle = panels.T, panels.mean(1)
        halves = np.stack([low, middle, middle, high], 1).reshape(-1, 2)
        fine = bought(np.repeat(i, 2), halves).reshape(len(i), -1)
        sums = fine @ weight * (high - low)
        errors = np.abs(fine - coarse @ foresee) @ weight * (high - low)
        paid = own_cost + total + np.bincount(i, sums, len(c))
        left = errors * np.bincount(i)[i] > ACCURACY * paid[i]
        total += np.bincount(i[~left], sums[~left], len(c))
        if not left.any():
            return total
        if left.sum() > PANELS * len(c):
            break
        i = np.repeat(i[left], 2)
        panels = halves[np.repeat(left, 2)]
        coarse = fine[left].reshape(-1, NODES)
    raise RuntimeError(f"the payment of the seller of cost {c[i[0]]} did not settle to {ACCURACY}")


@cache
def _lobatto() -> tuple[Array, Array, Array]:
    """Gauss-Lobatto rule: nodes in [0, 1], weights on two halves, and from values at nodes to those
    on both halves.
    """
    legendre = np.polynomial.legendre
    basis = legendre.Legendre.basis(NODES - 1)
    at = np.concatenate([[-1.0], np.sort(basis.deriv().roots()), [1.0]])
    weight = 1 / (NODES * (NODES - 1) * basis(at) ** 2)
    halves = legendre.legvander(np.append(at - 1, at + 1) / 2, NODES - 1)
    foresee = np.asarray(
        np.linalg.solve(legendre.legvander(at, NODES - 1).T, halves.T), dtype=float
    )
    return (at + 1) / 2, np.tile(weight, 2) / 2, foresee


@dataclass(frozen=True)
class _Branch:
    """The optimum as a function of one seller's virtual cost, and whether it is certain to have no
    rival.
    """

    psi: Array  # sorted
    first: Array  # prefix sums of the distances to the cutoff at truth
    second: Array  # and of their squares
    truth: float  # that cutoff
    ends: tuple[float, float]  # between which every optimum has its cutoff
    certain: bool
    scale: tuple[float, float, float]

    @classmethod
    def of(
        cls, virtual_costs: Array, truth: Purchase, scale: tuple[float, float, float]
    ) -> _Branch:
        """The branch through `truth`, for any higher virtual cost of one seller.

        No optimum then has a loss above `most`, the least one without the cheapest seller. That
        leaves some stretch of the path; if the ratio of mean virtual cost and sum of squares
        certainly falls on it, Eq. (14) has one root there.
        """
        mu, sigma, gamma = scale
        psi = np.sort(virtual_costs)
        most = procure(psi[1:], mu, sigma, gamma).error
        apart = psi - truth.cutoff
        first = np.append(0, np.cumsum(apart))
        second = np.append(0, np.cumsum(apart**2))
        kappa = sigma * gamma / mu**2 * (len(psi) - 1)
        # Eq. (14) is negative from here on
        end = psi[-1] + (1 + np.sqrt(1 + 4 * kappa * psi[-1])) / (2 * kappa)
        branch = cls(psi, first, second, truth.cutoff, (psi[0], end), False, scale)
        edges = np.append(psi, end)
        for _ in range(REFINEMENTS):  # whole pieces first, then parts of those that are left
            losses, single = branch._bounds(edges)
            near = np.flatnonzero(losses <= most)
            single = single[near[0] : near[-1] + 1]
            edges = edges[near[0] : near[-1] + 2]
            if single.all() or len(edges) > PARTS:
                break
            edges = np.interp(np.arange(8 * len(edges) - 7) / 8, np.arange(len(edges)), edges)
        return replace(branch, ends=(float(edges[0]), float(edges[-1])), certain=bool(single.all()))

    def _bounds(self, edges: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Between neighbouring cutoffs: a lower end of the loss, and whether the ratio falls,
        whoever is changed.
        """
        mu, sigma, gamma = self.scale
        low = edges[:-1]
        high = edges[1:]
        j = np.searchsorted(self.psi, low, "right")
        sums_low, squares_low, sums_high, squares_high = (
            np.maximum(part, 0)
            for t in (low - self.truth, high - self.truth)
            for part in (j * t - self.first[j], j * t**2 - 2 * t * self.first[j] + self.second[j])
        )
        own = high - self.psi[0]  # no seller has more weight, before scaling
        price = (
            low * sums_low - squares_low - np.where(own < high / 2, own * (high - own), high**2 / 4)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = np.sqrt(np.maximum(squares_low - (low - self.psi[0]) ** 2, 0)) / sums_high
            cost = np.maximum(np.nan_to_num(price / sums_high), self.psi[0])
            rise = (np.cumsum(self.psi)[j - 1] + own) / price
            fall = (j - 1) / sums_high + 2 * np.maximum(sums_low - own, 0) / squares_high
            losses = mu * np.fmax(spread, 1 / np.sqrt(j)) + 2 * np.sqrt(sigma * gamma * cost)
        return np.asarray(losses), np.asarray((price > 0) & (rise < fall))

    def _solve(self, psi: Array, own: Array) -> tuple[Array, Array, Array, Array]:
        """Cutoff, sum and sum of squares of the weights before scaling, and her own, if `psi` is
        replaced by `own`.
        """
        mu, sigma, gamma = self.scale
        kappa = sigma * gamma / mu**2
        low, high = (np.full_like(psi, end) for end in self.ends)
        cutoff = np.full_like(psi, self.truth)
        for step in range(200):
            t = cutoff - self.truth
            k = np.searchsorted(self.psi, cutoff)
            before = np.maximum(cutoff - psi, 0)
            after = np.maximum(cutoff - own, 0)
            total = k * t - self.first[k] - before + after
            square = k * t**2 - 2 * t * self.first[k] + self.second[k] - before**2 + after**2
            left = cutoff * total - square - kappa * total * square
            low = np.where(left >= 0, cutoff, low)
            high = np.where(left <= 0, cutoff, high)
            count = k - (before > 0) + (after > 0)
            slope = cutoff * count - total - kappa * (count * square + 2 * total**2)
            with np.errstate(divide="ignore", invalid="ignore"):
                move = cutoff - left / slope
            move = np.where((move > low) & (move < high) & (step % 8 < 7), move, (low + high) / 2)
            move = np.where(left == 0, cutoff, move)
            if (np.abs(move - cutoff) <= 4e-16 * cutoff).all():
                return cutoff, total, square, after
            cutoff = move
        raise RuntimeError("the optimum for a changed report did not settle")

    def follow(self, psi: Array, own: Array) -> _Changed:
        """The optima if virtual costs `psi` (one of the sellers each) are replaced by `own`;
        without a rival.
        """
        mu, sigma, gamma = self.scale
        cutoff, total, square, after = self._solve(psi, own)
        loss = mu * np.sqrt(square) / total + 2 * np.sqrt(sigma * gamma * (cutoff - square / total))
        return _Changed(cutoff, loss, mu * after / (gamma * np.sqrt(square) * total))  # Eq. (13)

    def scan(self, psi: Array, own: Array) -> _Changed:
        """The same with rivals, from all pieces of the path: see
        :func:`hdpm_lib.markets.procurement.procure`.
        """
        near = self.psi[self.psi < self.ends[1]]  # nothing is bought from others
        rows = max(CELLS // len(near), 1)
        parts = [
            self._scan(near, psi[k : k + rows], own[k : k + rows]) for k in range(0, len(psi), rows)
        ]
        return _Changed(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _scan(self, near: Array, psi: Array, own: Array) -> _Changed:
        mu, sigma, gamma = self.scale
        kappa = sigma * gamma / mu**2
        rows = np.arange(len(psi))
        markets = np.tile(near, (len(psi), 1))
        markets[rows, np.searchsorted(near, psi)] = np.minimum(own, self.ends[1])
        markets.sort(axis=1)
        n, mean, spread, high = cheapest(markets)
        # the last weight is not negative, so all are feasible
        with np.errstate(divide="ignore", invalid="ignore"):
            s = np.minimum(smallest_root(1 / n, mean, spread, kappa), high)
            price = mean - s * spread
            loss = mu * np.sqrt(1 / n + s**2 * spread) + 2 * np.sqrt(sigma * gamma * price)
        best = rows, np.nanargmin(loss, axis=1)
        cutoff = mean[best] + 1 / (n[best[1]] * s[best])
        eta = np.sqrt(sigma / (gamma * price[best]))
        return _Changed(cutoff, loss[best], s[best] * np.maximum(cutoff - own, 0) * eta)
