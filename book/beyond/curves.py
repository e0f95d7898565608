r"""What :math:`N` effective records cost: one curve for all tasks, market sizes and accuracies.

A buyer wants the mean of the records of `n` sellers as accurately as :math:`N` records without
noise would give it: mean squared error :math:`\tau^2/N`. All is measured in two units, the privacy
loss :math:`\varepsilon_0=s\sqrt\kappa/\tau` at which noise and record are equally spread, and the
money :math:`c_{\min}\varepsilon_0`. A central buyer who gets the losses :math:`\varepsilon_i` has

.. math:: N=\frac{\bigl(\sum_i\varepsilon_i\bigr)^2}{1+\sum_i\varepsilon_i^2}
   \qquad\text{effective records, a local one}\qquad
   N=\sum_i\frac{\varepsilon_i^2}{1+\varepsilon_i^2}.

:func:`cheapest_records` buys exactly in any market. The curves are its limit for many sellers with
costs uniform on [1, h], where seller quantile :math:`q` has the virtual cost :math:`1+2(h-1)q`.
They depend on :math:`N/n` and `h` only: derivations and proofs are in :doc:`/book/beyond/curves`.

Throughout, `wanted`, an array of any shape, is :math:`N/n`, in (0, 1), and `h`, at least 1, is the
largest cost over the smallest. Results are of the shape of `wanted`. :class:`StepLaws` are the same
limit for other regular laws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.validation import check_finite, check_flag, check_number

Array = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


@dataclass(frozen=True)
class Purchase:
    r"""The cheapest purchase of a number of effective records, in the units of the module.

    Attributes
    ----------
    privacy_loss : array of shape (..., n), in units of :math:`\varepsilon_0`
    cutoff : array of shape (...), virtual cost from which on nothing is bought
    virtual_cost : array of shape (...), mean virtual cost, weighted with the losses
    payment : array of shape (...), the sum of virtual costs times losses
    """

    privacy_loss: Array
    cutoff: Array
    virtual_cost: Array
    payment: Array


@dataclass(frozen=True)
class Curve:
    r"""A master curve at some values of :math:`N/n`.

    Attributes
    ----------
    payment : array, over :math:`\sqrt N` for a central buyer, over :math:`N` for a local one
    bought : array, the share of the sellers that sell
    virtual_cost : array, mean virtual cost of what is sold, weighted with the losses
    rents : array, the part of the payment that exceeds the sellers' costs
    """

    payment: Array
    bought: Array
    virtual_cost: Array
    rents: Array


def _check(wanted: ArrayLike, h: float) -> tuple[Array, float]:
    """Return N/n, and the slope of the virtual cost in the quantile."""
    share = check_finite(
        wanted, "wanted", None, 0, 1, ends="()", why="effective records per seller"
    )
    return share, 2 * (check_number(h, "h", 1, ends="[)") - 1)


def _rents(virtual_cost: Array) -> Array:
    """Return the rent over payment: of a virtual cost psi = 2c - 1 the seller bears c."""
    return (virtual_cost - 1) / (2 * virtual_cost)


def cheapest_records(virtual_costs: ArrayLike, records: float) -> Purchase:
    r"""Return the least payment for `records` effective records of a central buyer, and whom it
    buys from: exact, by one sort.

    Parameters
    ----------
    virtual_costs : array of shape (..., n), positive
        In units of the smallest cost; a batch of markets along the leading axes.
    records : float, in [1, n)
        :math:`N`.

    Notes
    -----
    With :math:`\psi_{(1)}\le\psi_{(2)}\le\dots` the cutoff is
    :math:`\theta=\min_{k>N}\sum_{i\le k}\psi_{(i)}/(k-N)`, and
    :math:`\varepsilon_i\propto(\theta-\psi_i)^+`. If the mean virtual cost of what is bought is
    :math:`m`, the payment is :math:`\sqrt{N\theta m}`.

    Examples
    --------
    >>> found = cheapest_records([1.0, 1.0, 5.0], 1.0)
    >>> found.privacy_loss.round(3), float(found.cutoff), round(float(found.payment), 3)
    (array([0.707, 0.707, 0.   ]), 2.0, 1.414)
    """
    psi = check_finite(virtual_costs, "virtual_costs", None, 0, ends="()")
    if psi.ndim == 0 or psi.shape[-1] < 2:
        raise ValueError(
            f"virtual_costs must have two sellers or more on the last axis, got shape {psi.shape}"
        )
    n = psi.shape[-1]
    N = check_number(
        records, "records", 1, n, ends="[)", why="one, and fewer than there are sellers"
    )
    count = np.arange(1, n + 1)
    sums = np.cumsum(np.sort(psi, axis=-1), axis=-1)[..., count > N]
    cutoff = (sums / (count[count > N] - N)).min(-1)
    weights = np.maximum(1 - psi / cutoff[..., None], 0)
    weights /= weights.sum(-1, keepdims=True)
    mean = np.asarray((weights * psi).sum(-1))
    total = np.sqrt(N * cutoff / mean)
    return Purchase(weights * total[..., None], np.asarray(cutoff), mean, np.asarray(total * mean))


def auction_curve(wanted: ArrayLike, h: float, *, known: bool = False) -> Curve:
    r"""Return the curve of the optimal central auction; with `known` costs, a buyer who need not
    ask and pays no rents.

    Examples
    --------
    >>> auction_curve([0.1, 0.5], 5.0).payment.round(4)
    array([2.4126, 6.2716])
    """
    share, slope = _check(wanted, h)
    if check_flag(known, "known"):
        slope /= 2
    # the cutoff less 1, while some are not bought
    y = share * slope + np.sqrt(share * slope * (share * slope + 2))
    # of all virtual costs
    mean = 1 + slope / 2
    variance = slope**2 / 12
    edge = slope / (2 * (1 + slope))  # from here on everybody is bought
    full = np.maximum(share, edge)
    cutoff = np.where(share >= edge, mean / (1 - full), 1 + y)
    virtual = np.where(share >= edge, mean - variance * (1 - full) / (full * mean), 1 + y / 3)
    bought = np.where(share >= edge, 1.0, y / (slope or 1))
    return Curve(
        np.sqrt(cutoff * virtual),
        bought,
        virtual,
        np.zeros_like(virtual) if known else _rents(virtual),
    )


def posted_curve(wanted: ArrayLike, h: float) -> Curve:
    """Return the curve of one posted price, and one privacy loss for all who take it.

    Examples
    --------
    >>> posted_curve([0.1, 0.5], 5.0).payment.round(4)
    array([2.5423, 6.851 ])
    """
    share, slope = _check(wanted, h)
    # slope times the share bought
    y = (3 * share * slope + np.sqrt(share * slope * (9 * share * slope + 16))) / 4
    edge = 2 * slope / (3 * slope + 2)  # from here on everybody is bought
    virtual = 1 + np.where(share >= edge, slope, y) / 2
    bought = np.where(share >= edge, 1.0, y / (slope or 1))
    return Curve(virtual / np.sqrt(1 - share / bought), bought, virtual, _rents(virtual))


def local_curve(wanted: ArrayLike, h: float) -> Curve:
    r"""Return the curve of sellers who trust nobody and add Laplace noise themselves: the menu of a
    buyer who averages their reports.

    The payment is over :math:`N`, not its root.

    Examples
    --------
    >>> local_curve([0.1, 0.5], 5.0).payment.round(4)
    array([3.329 , 7.9488])
    """
    share, slope = _check(wanted, h)
    last = np.sqrt(np.maximum(share / (1 - share), 1))  # the dearest seller loses at most this
    low = np.log(share)
    high = np.where(share <= 0.5, np.log(2 * share), np.log((1 + last**2) ** 2 / (4 * last)))
    for _ in range(60):
        middle = (low + high) / 2
        short = _menu(np.exp(middle), slope)[0] < share
        low = np.where(short, middle, low)
        high = np.where(short, high, middle)
    records, losses, payment = _menu(np.exp(high), slope)
    virtual = payment / losses
    return Curve(payment / records, np.minimum(np.exp(high), 1.0), virtual, _rents(virtual))


def _menu(reach: Array, slope: float) -> tuple[Array, Array, Array]:
    """Return records, losses and payment per seller, if a record is worth 2 psi(q) at q = reach, or
    2 psi(1) reach beyond.
    """
    cut = np.minimum(reach, 1)[..., None]
    worth = 2 * (1 + slope * cut) * np.maximum(reach, 1)[..., None]
    t = (1 + _NODES) / 2
    # the cheapest sell much: nodes crowd there
    quantile = cut * t**3
    weights = cut * 3 * t**2 * _WEIGHTS / 2
    psi = 1 + slope * quantile
    epsilon = _loss_sold(psi / worth)
    information = epsilon**2 / (1 + epsilon**2)
    return (
        (weights * information).sum(-1),
        (weights * epsilon).sum(-1),
        (weights * psi * epsilon).sum(-1),
    )


def _loss_sold(ratio: Array) -> Array:
    """Return the loss of at least 1 at which one more unit of it brings `ratio`, at most 1/2,
    records: by Newton's method.

    In logarithms the slope of the information is concave and falls, with slopes from -1 to -3; from
    the right of the root Newton's method goes straight to it.
    """
    u = np.log(2 / ratio) / 3
    for _ in range(7):
        square = np.exp(2 * u)
        u -= (np.log(2 / ratio) + u - 2 * np.log1p(square)) * (1 + square) / (1 - 3 * square)
    return np.asarray(np.exp(u))


@dataclass(frozen=True)
class StepLaws:
    """Regular laws whose virtual cost is a step function of the quantile.

    Attributes
    ----------
    virtual_costs, masses : arrays of shape (laws, steps)
        the costs rise along the steps, the masses sum to 1
    wanted : array of shape (laws,), N/n
    """

    virtual_costs: Array
    masses: Array
    wanted: Array

    def auction(self) -> Array:
        """Return the payment of the optimal auction over the root of N."""
        psi = self.virtual_costs
        mass = self.masses
        share = self.wanted[:, None]
        upto = mass.cumsum(1)
        total = (mass * psi).cumsum(1)
        enough = upto > share
        cutoff = np.where(enough, total / np.where(enough, upto - share, 1), np.inf).min(
            1, keepdims=True
        )
        sold = mass * np.maximum(cutoff - psi, 0)
        return np.sqrt(cutoff[:, 0] * (sold * psi).sum(1) / sold.sum(1))

    def posted(self) -> Array:
        """Return the payment of the best posted price over the root of N: on each step the best
        share that takes it, exactly.
        """
        psi = self.virtual_costs
        mass = self.masses
        share = self.wanted[:, None]
        end = mass.cumsum(1)
        # up to F on this step the virtual costs add up to below + psi F
        below = (mass * psi).cumsum(1) - end * psi
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = 1 / (2 / share + psi / below)
        inside = np.clip(
            np.where((below < 0) & (inside > 0), inside, 1), np.maximum(end - mass, share), end
        )
        best = np.full(len(psi), np.inf)
        for F in (inside, end):
            able = share * (1 + 1e-12) < F
            cost = (below / F + psi) / np.sqrt(np.where(able, 1 - share / F, 1))
            best = np.minimum(best, np.where(able, cost, np.inf).min(1))
        return best

    def local(self) -> Array:
        """Return the payment of the local menu over N: the worth of a record by bisection, one step
        of the law sells in part.
        """
        psi = self.virtual_costs
        mass = self.masses
        share = self.wanted
        low = np.log(psi[:, 0])
        high = np.log(1e3 * psi[:, -1] / (1 - share) ** 2)

        def bought(worth: Array) -> tuple[Array, Array]:
            ratio = psi / np.exp(worth)[:, None]
            epsilon = np.where(ratio <= 0.5, _loss_sold(np.minimum(ratio, 0.5)), 0.0)
            return (mass * epsilon**2 / (1 + epsilon**2)).sum(1), (mass * psi * epsilon).sum(1)

        for _ in range(70):
            middle = (low + high) / 2
            short = bought(middle)[0] < share
            low = np.where(short, middle, low)
            high = np.where(short, high, middle)
        records, payment = bought(low)
        return np.asarray((payment + np.exp(low) * (share - records)) / share)
