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
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.markets.quadrature import panel_integrals
from hdpm_lib.validation import Array, check_finite, check_number, check_positive

CELLS = 1 << 20  # of profiles that are made at once
NODES = 10  # of a panel
Rule = Callable[[Array], Array]  # reports of shape (k, n) to amounts of shape (k, n)


def check_reports(reports: ArrayLike, ceiling: float, name: str = "reports") -> tuple[Array, float]:
    """Return reports in [0, ceiling] as a vector, and the ceiling as a float."""
    top = check_positive(ceiling, "ceiling")
    return check_finite(reports, name, 1, 0, top), top


def _answers(function: Rule, name: str, reports: Array, shape: tuple[int, ...]) -> Array:
    """Call a caller's function of reports; an error names it."""
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
    """Return the finite amounts of a rule at one profile of reports."""
    amounts = _answers(rule, "rule", reports[None], (1, len(reports)))[0]
    if not np.isfinite(amounts).all():
        raise ValueError(
            f"rule must give finite amounts, got {amounts} at the reports {reports}: no payment"
            " covers it"
        )
    return amounts


def with_own_report(reports: ArrayLike, own: ArrayLike) -> NDArray[Any]:
    """Let one seller lie: seller `i` reports ``own[i]`` and the others as before.

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


def _profiles(
    reports: Array, own: Array, sellers: NDArray[np.intp]
) -> Iterator[tuple[NDArray[np.intp], Array]]:
    """Make blocks of profiles, in each of which one seller reports anew, and who that is."""
    rows = max(CELLS // len(reports), 1)
    for first in range(0, len(own), rows):
        who = sellers[first : first + rows]
        block = np.tile(reports, (len(who), 1))
        block[np.arange(len(who)), who] = own[first : first + rows]
        yield who, block


def vcg_payments(
    reports: ArrayLike, ceiling: float, rule: Rule, least_cost: Callable[[Array], Array]
) -> Array:
    r"""Compute VCG payments with pivot `ceiling`, for a rule of least total reported cost.

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
    pivots = []
    for _, block in _profiles(c, np.full_like(c, top), np.arange(len(c))):
        pivots.append(_answers(least_cost, "least_cost", block, block.shape[:1]))
    return np.concatenate(pivots) - (own_cost.sum() - own_cost)


def envelope_payments(
    reports: ArrayLike, ceiling: float, rule: Rule, *, tolerance: float = 1e-9
) -> Array:
    r"""Compute envelope payments of any rule by adaptive quadrature, which finds every step.

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
        Of each payment, relative, in [1e-13, 1].

    Returns
    -------
    array of shape (n,)
        Payments :math:`\hat c_ix_i+\int_{\hat c_i}^{\bar c}x_i(s,\hat c_{-i})\,ds`, in units of
        money.

    Raises
    ------
    RuntimeError
        If the tolerance is not reached, as for a rule that buys more at a higher report.

    Notes
    -----
    The range is halved where what is bought at a few reports does not foresee what is bought
    between them, down to each step: :mod:`hdpm_lib.markets.quadrature`. :func:`step_payments` is
    exact where steps are known, and faster where they are many.

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
    accuracy = check_number(tolerance, "tolerance", 1e-13, 1)
    c, top = check_reports(reports, ceiling)
    sold = _amounts(rule, c)
    own_cost = c * sold

    def bought(seller: NDArray[np.intp], own: Array) -> Array:
        sellers = np.repeat(seller, own.shape[1])
        amounts = []
        for who, block in _profiles(c, own.ravel(), sellers):
            of_all = _answers(rule, "rule", block, block.shape)
            amounts.append(of_all[np.arange(len(block)), who])
        return np.concatenate(amounts).reshape(own.shape)

    everybody = np.arange(len(c))
    panels = np.stack([c, np.full_like(c, top)], axis=1)
    return own_cost + panel_integrals(
        bought,
        everybody,
        panels,
        own_cost,
        accuracy=accuracy,
        nodes=NODES,
        negligible=2.0**-52 * top * np.abs(sold),
    )


def step_payments(reports: ArrayLike, edges: ArrayLike, rule: Rule) -> Array:
    """Compute envelope payments of a rule that is constant in own reports between the edges.

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
