"""Meters of incentives: does a seller gain by a misreport, or lose by taking part?

Any mechanism can be searched that maps a batch of reports to amounts and payments. The search takes
one seller at a time and lets the others tell the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from hdpm_lib.frozen import Frozen
from hdpm_lib.markets.payments import check_reports
from hdpm_lib.validation import Array, check_count, check_finite, check_flag


@dataclass(frozen=True, eq=False, repr=False)
class Incentives(Frozen):
    """Result of a search over misreports, seller by seller, in arrays of shape (n,).

    Parameters
    ----------
    gain : array of shape (n,)
        Largest utility of a misreport less that of truth, in units of money; negative if every
        misreport tried does worse.
    report : array of shape (n,)
        The misreport that reaches it.
    utility : array of shape (n,)
        That of truth, in units of money: individual rationality asks that it is not negative.
    payment : array of shape (n,)
        At truth: the scale to read the gain against.
    tried : int
        Number of misreports.

    Attributes
    ----------
    gain, report, utility, payment, tried
        The same.

    Examples
    --------
    One of two sellers gains 0.8 by a lie where payments go up to 2:

    >>> two = np.array([0.8, 0.0]), np.array([1.0, 0.3]), np.zeros(2), np.array([2.0, 0.5])
    >>> Incentives(*two, tried=40).relative_gain
    0.4
    """

    gain: Array
    report: Array
    utility: Array
    payment: Array
    tried: int

    @property
    def relative_gain(self) -> float:
        """Largest gain over the largest payment at truth; the gain itself if nothing is paid."""
        with np.errstate(over="ignore"):  # of payments next to 0
            return float(self.gain.max() / (np.abs(self.payment).max() or 1.0))


def reports_to_try(
    types: ArrayLike, ceiling: float, *, grid: int = 101, special: Sequence[ArrayLike] = ()
) -> list[Array]:
    """Return misreports for each seller, sorted and without the truth.

    They are a grid, and special points with a point on either side. Special are the others' reports
    and what the caller adds: points where the allocation changes its form, so that a gain which
    lives on a short interval begins there, or the best misreport where theory names one.

    Parameters
    ----------
    types : array of shape (n,)
        True costs in [0, `ceiling`].
    ceiling : float
        Largest possible report, positive.
    grid : int, default 101
        Points over [0, `ceiling`] with both ends, at least 2.
    special : sequence of n arrays, default ()
        More special points for each seller.

    Returns
    -------
    list of n arrays
        The misreports.
    """
    c, top = check_reports(types, ceiling, "types")
    points = check_count(grid, "grid", 2, 2**31)
    _check_sets(special, "special")
    if len(special) not in (0, len(c)):
        raise ValueError(
            f"special must hold one set of reports for each of {len(c)} sellers, got {len(special)}"
        )
    nudge = 1e-7 * top * np.array([[-1], [0], [1]])
    misreports = []
    for i, truth in enumerate(c):
        special_points = c
        if len(special) and np.size(special[i]):
            special_points = np.append(c, check_finite(special[i], "special", 1))
        reports = np.append(special_points + nudge, np.linspace(0, top, points))
        inside = (reports >= 0) & (reports <= top)
        misreports.append(np.unique(reports[inside & (reports != truth)]))
    return misreports


def _check_sets(value: object, name: str) -> None:
    """Refuse what is no list with a set of reports for each seller."""
    if not isinstance(value, list | tuple | np.ndarray):
        raise TypeError(f"{name} must be a list with an array for each seller, got {value!r}")


def search_misreports(
    mechanism: Callable[[Array], tuple[Array, Array]],
    types: ArrayLike,
    candidates: Sequence[ArrayLike],
    *,
    refine: bool = True,
) -> Incentives:
    r"""Look for a profitable lie, and for a loss at truth, while all others are truthful.

    A gain is proof that truth is not a best report. No gain is a search that found none, not a
    proof.

    Parameters
    ----------
    mechanism : callable
        Maps reports of shape (k, n), a market in each row, to amounts and payments, each of that
        shape. A seller's utility, her payment less her cost of a unit times her amount, must be a
        number. Where she bears :math:`v\varepsilon^r` (the contracts of ``markets.mechanisms``) the
        amount is :math:`\varepsilon^r`, not the privacy loss.
    types : array of shape (n,)
        True costs of a unit, in units of money.
    candidates : sequence of n arrays
        Misreports to try for each seller, such as
        :func:`hdpm_lib.markets.incentives.reports_to_try` gives.
    refine : bool, default True
        Follow the best misreport to a local maximum between its neighbours.

    Returns
    -------
    Incentives
        For each seller the best misreport and its gain, utility and payment at truth.

    Examples
    --------
    Paid what they report, everybody exaggerates: at a true cost of 0.2 a report of 1 gains 0.8.

    >>> from hdpm_lib.markets.incentives import reports_to_try
    >>> first_price = lambda c: (np.ones_like(c), c)
    >>> truth = np.array([0.2, 0.5])
    >>> search_misreports(first_price, truth, reports_to_try(truth, 1.0)).gain
    array([0.8, 0.5])
    """
    truth = check_finite(types, "types", 1)
    refine = check_flag(refine, "refine")
    if not callable(mechanism):
        raise TypeError(f"mechanism must be callable, got {mechanism!r}")
    _check_sets(candidates, "candidates")
    sizes = [np.size(reports) for reports in candidates]
    if len(sizes) != len(truth) or not all(sizes):
        raise ValueError(
            f"candidates must hold misreports for each of {len(truth)} sellers, got {sizes}"
        )

    def outcome(profiles: Array) -> Array:
        answer = np.array(mechanism(profiles))
        if answer.shape != (2, *profiles.shape) or answer.dtype.kind not in "biuf":
            raise ValueError(
                f"mechanism must give amounts and payments of shape {profiles.shape}, got"
                f" {answer.dtype} of shape {answer.shape}"
            )
        return answer

    def utilities(i: int, reports: Array, amounts: Array, payments: Array) -> Array:
        utility = payments - truth[i] * amounts
        bad = np.isnan(utility)
        if bad.any():
            raise ValueError(
                f"mechanism gives seller {i} no utility (not a number) at her report"
                f" {reports[bad][0]}"
            )
        return utility

    def utilities_of_reports(i: int, reports: Array) -> Array:
        profiles = np.tile(truth, (len(reports), 1))
        profiles[:, i] = reports
        amounts, payments = outcome(profiles)
        return utilities(i, reports, amounts[:, i], payments[:, i])

    sold, paid = outcome(truth[None].copy())[:, 0]
    gain = np.empty(len(truth))
    report = np.empty(len(truth))
    utility = np.empty(len(truth))
    tried = 0
    for i in range(len(truth)):
        own = slice(i, i + 1)
        reports = check_finite(candidates[i], "candidates", 1)
        utility[own] = utilities(i, truth[own], sold[own], paid[own])
        gains = utilities_of_reports(i, reports) - utility[i]
        tried += len(reports)
        best = int(np.argmax(gains))
        gain[i] = gains[best]
        report[i] = reports[best]
        if refine:
            # between the neighbours of the best one
            ordered = np.sort(reports)
            place = int(np.searchsorted(ordered, report[i]))
            low = ordered[max(place - 1, 0)]
            high = ordered[min(place + 1, len(ordered) - 1)]
            found = scipy.optimize.minimize_scalar(
                lambda s, i=i: utility[i] - utilities_of_reports(i, np.array([s]))[0],
                bounds=(low, high),
                method="bounded",
                options={"xatol": 1e-4 * (high - low)},  # in whatever unit costs are
            )
            tried += found.nfev
            if -found.fun > gain[i] and found.x != truth[i]:
                gain[i] = -found.fun
                report[i] = found.x
    return Incentives(gain, report, utility, np.array(paid), tried)
