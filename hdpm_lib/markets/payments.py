r"""Payments that make the truth the best report.

A procurement rule maps the reported costs :math:`\hat c` of the sellers to the amounts
:math:`x_i(\hat c)` they sell. A seller of type :math:`c_i` who is paid :math:`t_i` has the utility
:math:`t_i-c_ix_i`. If :math:`x_i` never rises in her own report, the *envelope payment*

.. math:: t_i=\hat c_ix_i(\hat c)+\int_{\hat c_i}^{\bar c}x_i(s,\hat c_{-i})\,ds

makes truth a best report whatever the others do (incentive compatibility), pays nobody less than
her cost (individual rationality), and is the least such payment when reports reach up to
:math:`\bar c`. If the rule minimises :math:`\sum_ic_ix_i`, with least value :math:`W`, it never
rises, and the envelope payment equals the *VCG payment* :math:`W(\bar c,\hat c_{-i})-\sum_{j\ne
i}\hat c_jx_j`: no integral. Proofs: :doc:`/book/contracts/mechanisms`.

Throughout, `reports` of shape (n,) lie in [0, `ceiling`], `ceiling` is the largest possible report,
and `rule` maps reports of shape (k, n) to amounts of shape (k, n). Payments have the shape (n,).
Infinite amounts are an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.validation import Array, check_finite, check_positive

CELLS = 1 << 20  # of profiles that are made at once
Rule = Callable[[Array], Array]  # reports of shape (k, n) to amounts of shape (k, n)


def check_reports(reports: ArrayLike, ceiling: float, name: str = "reports") -> tuple[Array, float]:
    """Reports in [0, ceiling] as a vector, and the ceiling as a float."""
    top = check_positive(ceiling, "ceiling")
    return check_finite(reports, name, 1, 0, top), top


def _answers(function: Rule, name: str, reports: Array, shape: tuple[int, ...]) -> Array:
    """What a caller's function makes of reports, or an error that names it."""
    if not callable(function):
        raise TypeError(f"{name} must be callable, got {function!r}")
    found = np.asarray(function(reports))
    if found.shape != shape or found.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must map reports of shape {reports.shape} to numbers of shape {shape}, got"
            f" {found.dtype} of shape {found.shape}"
        )
    return found


def _amounts(rule: Rule, reports: Array) -> Array:
    amounts = _answers(rule, "rule", reports[None], (1, len(reports)))[0]
    if not np.isfinite(amounts).all():
        raise ValueError(
            f"rule must give finite amounts, got {amounts} at the reports {reports}: no payment"
            " covers it"
        )
    return amounts


def with_own_report(reports: ArrayLike, own: ArrayLike) -> NDArray[Any]:
    """One seller lies: profiles in which seller `i` reports ``own[i]`` and the others as before.

    For `reports` of shape (..., n), and `own` of that shape or a number, the profiles have shape
    (..., n, n). On the axis before the last, the one at `i` is hers.

    Examples
    --------
    >>> with_own_report([1.0, 2.0], 9.0)
    array([[9., 2.],
           [1., 9.]])
    """
    truth, lies = np.broadcast_arrays(reports, own)
    return np.where(np.eye(truth.shape[-1], dtype=bool), lies[..., None, :], truth[..., None, :])


def _profiles(reports: Array, own: Array) -> Iterator[tuple[int, Array]]:
    """Blocks of :func:`with_own_report`, each with the number of its first seller."""
    rows = max(CELLS // len(reports), 1)
    for first in range(0, len(reports), rows):
        block = np.tile(reports, (min(rows, len(reports) - first), 1))
        place = np.arange(len(block))
        block[place, first + place] = own[first + place]
        yield first, block


def vcg_payments(
    reports: ArrayLike, ceiling: float, rule: Rule, least_cost: Callable[[Array], Array]
) -> Array:
    r"""VCG payments with pivot `ceiling`, for a rule that minimises the total reported cost.

    Parameters
    ----------
    reports : array of shape (n,)
        Reported costs :math:`\hat c` of a unit, in units of money, in [0, `ceiling`].
    ceiling : float
        Largest possible report :math:`\bar c`, positive.
    rule : callable
        Maps reports of shape (k, n), a market in each row, to finite amounts of that shape. It must
        minimise :math:`\sum_i\hat c_ix_i` over a set that does not depend on the reports.
    least_cost : callable
        Maps reports of shape (k, n) to that minimum :math:`W`, shape (k,).

    Returns
    -------
    array of shape (n,)
        Payments :math:`W(\bar c,\hat c_{-i})-\sum_{j\ne i}\hat c_jx_j`, in units of money. They are
        the envelope payments.

    References
    ----------
    W. Vickrey, "Counterspeculation, Auctions, and Competitive Sealed Tenders", The Journal of
    Finance 16, 1961; E. Clarke, "Multipart Pricing of Public Goods", Public Choice 11, 1971.

    Examples
    --------
    Buy one unit from the cheapest: she gets the second price.

    >>> cheapest = lambda c: (c == c.min(-1, keepdims=True)).astype(float)
    >>> vcg_payments([3.0, 5.0, 9.0], 10.0, cheapest, lambda c: c.min(-1))
    array([5., 0., 0.])
    """
    c, top = check_reports(reports, ceiling)
    own_cost = c * _amounts(rule, c)
    pivots = [
        _answers(least_cost, "least_cost", block, block.shape[:1])
        for _, block in _profiles(c, np.full_like(c, top))
    ]
    return np.concatenate(pivots) - (own_cost.sum() - own_cost)


def envelope_payments(
    reports: ArrayLike, ceiling: float, rule: Rule, *, tolerance: float = 1e-9
) -> Array:
    r"""Envelope payments of any rule by adaptive quadrature.

    Parameters
    ----------
    reports : array of shape (n,)
        Reported costs :math:`\hat c` of a unit, in units of money, in [0, `ceiling`].
    ceiling : float
        Largest possible report :math:`\bar c`, positive.
    rule : callable
        Maps reports of shape (k, n), a market in each row, to finite amounts of that shape. What it
        buys from a seller must not rise in her own report, or truth is no best report.
    tolerance : float, default 1e-9
        Of the integrals, relative to the largest, positive.

    Returns
    -------
    array of shape (n,)
        Payments :math:`\hat c_ix_i+\int_{\hat c_i}^{\bar c}x_i(s,\hat c_{-i})\,ds`, in units of
        money.

    Raises
    ------
    RuntimeError
        If the tolerance is not reached.

    Notes
    -----
    A step narrower than some thousandth of the range can be missed without notice;
    :func:`step_payments` misses none.

    References
    ----------
    P. Milgrom and I. Segal, "Envelope Theorems for Arbitrary Choice Sets", Econometrica 70, 2002.

    Examples
    --------
    One unit from the cheapest seller, at most at 10 dollars: she is paid what the second asks.

    >>> cheapest = lambda c: (c == c.min(-1, keepdims=True)).astype(float)
    >>> envelope_payments([3.0, 5.0, 9.0], 10.0, cheapest).round(6)
    array([5., 0., 0.])
    """
    accuracy = check_positive(tolerance, "tolerance")
    c, top = check_reports(reports, ceiling)
    own_cost = c * _amounts(rule, c)

    def amounts(t: float) -> Array:
        own = c + t * (top - c)
        bought = [
            np.diagonal(_answers(rule, "rule", block, block.shape), first)
            for first, block in _profiles(c, own)
        ]
        return (top - c) * np.concatenate(bought)

    integral, error, info = scipy.integrate.quad_vec(
        amounts, 0, 1, epsrel=accuracy, epsabs=1e-300, norm="max", limit=2000, full_output=True
    )
    if not info.success:
        raise RuntimeError(f"quadrature stopped at an error of {error:.3g}: {info.message}")
    return np.asarray(own_cost + integral)


def step_payments(reports: ArrayLike, edges: ArrayLike, rule: Rule) -> Array:
    """Envelope payments of a rule that is constant in each seller's report between the edges.

    They are an exact sum. The `edges`, of shape (m + 1,), do not fall; reports lie between the
    first and the last, the largest possible report.

    Examples
    --------
    >>> # one unit below a posted 0.5
    >>> step_payments([0.2, 0.9], [0.0, 0.5, 1.0], lambda c: (c < 0.5) * 1.0)
    array([0.5, 0. ])
    """
    ends = check_finite(edges, "edges", 1)
    if len(ends) < 2 or (np.diff(ends) < 0).any():
        raise ValueError(f"edges must be at least two numbers that do not fall, got {ends}")
    c = check_finite(reports, "reports", 1, max(ends[0], 0.0), ends[-1], why="between the edges")
    own_cost = c * _amounts(rule, c)
    # of each step, beyond one's own report
    left = np.maximum(ends[1:] - np.maximum(ends[:-1], c[:, None]), 0)
    integral = np.empty(len(c))
    for i in range(len(c)):
        profiles = np.tile(c, (len(ends) - 1, 1))
        profiles[:, i] = (ends[:-1] + ends[1:]) / 2
        integral[i] = left[i] @ _answers(rule, "rule", profiles, profiles.shape)[:, i]
    return own_cost + integral
