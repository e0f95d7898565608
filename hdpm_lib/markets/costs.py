r"""Laws of privacy valuations, and what a buyer who knows the law counts instead of the valuation.

A seller's valuation is drawn from a law with distribution function :math:`F` and density :math:`f`.
Truthful payments cost the buyer on average as much as if every seller asked her *virtual valuation*

.. math:: \varphi(v)=v+\frac{F(v)}{f(v)}

(R. Myerson, "Optimal Auction Design", Mathematics of Operations Research 6, 1981, for
procurement). A law is *regular* if :math:`\varphi` does not fall. Otherwise the
contract that is best for :math:`\varphi` would let a seller gain by asking more, and
:math:`\varphi` has to be *ironed*: levelled out where it falls (:doc:`/book/contracts/beyond`).

Throughout, `law` is a continuous one of ``scipy.stats`` with its parameters, of bounded support in
[0, infinity), such as ``stats.uniform(0, 10)``; `v` are valuations in its support, in an array of
any shape, which the result has too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from hdpm_lib.validation import Array, check_finite, check_flag

RESOLUTION = 4096  # cells of equal probability
# a fall of the virtual valuation by less than this part of the largest valuation is rounding
TOLERANCE = 1e-9
AFFINE = 1e-12  # largest bend of the virtual valuation, relative, that counts as none


def check_law(law: Any) -> tuple[float, float]:
    """Check a law, and return the ends of its support."""
    if not all(hasattr(law, name) for name in ("pdf", "cdf", "ppf", "support")):
        instead = ""
        if hasattr(law, "icdf"):  # of SciPy 1.15
            instead = ", which is of its newer kind: take one with a ppf"
        raise ValueError(
            "law must be a continuous law of scipy.stats with its parameters, such as"
            f" stats.uniform(0, 10), got {law!r}{instead}"
        )
    ends = law.support()
    if any(np.ndim(end) for end in ends):
        raise ValueError(
            "law must have single numbers as parameters, for all sellers have one law, got arrays"
            f" of shape {np.shape(ends[0])}"
        )
    low = float(ends[0])
    high = float(ends[1])
    if not 0 <= low < high < np.inf:
        instead = ""
        if low >= 0 and high == np.inf:
            instead = "; of a law without end take a sample, law_of(law.rvs(1000))"
        raise ValueError(
            f"law must have a bounded support in [0, infinity), got [{low}, {high}]{instead}"
        )
    return low, high


def _check_valuations(law: Any, v: ArrayLike) -> Array:
    """Return valuations in the support of a law."""
    low, high = check_law(law)
    return check_finite(v, "v", None, low, high, why="valuations in the support of the law")


def _cell_means(law: Any) -> Array:
    """Return the mean virtual valuation in each cell: the slopes of `H`."""
    s = np.arange(1, RESOLUTION + 1) / RESOLUTION
    return np.diff(s * law.ppf(s), prepend=0.0) * RESOLUTION


def check_regular(law: Any, instead: str = "use ironed_virtual_valuation") -> None:
    """Refuse a law whose virtual valuation falls; the error names the first place where it does.

    It ends with what to do `instead`. Of 4096 cells of equal probability none must have a smaller
    mean than the one before, but for 1e-9 of the largest valuation; what happens inside a cell is
    not seen.
    """
    _, high = check_law(law)
    falls = np.diff(_cell_means(law)) < -TOLERANCE * high
    if falls.any():
        place = law.ppf((np.argmax(falls) + 1) / RESOLUTION)
        what = f"its virtual valuation falls at v = {place:.6g}"
        raise ValueError(f"the law is irregular: {what}; {instead}")


def virtual_valuation(law: Any, v: ArrayLike, *, check: bool = True) -> Array:
    """Compute virtual valuations :math:`v+F(v)/f(v)` of a regular law.

    They are infinite where the density is 0 above the lower end. With `check` an irregular law is
    an error, see :func:`check_regular`; once is enough for many calls with one law.

    Examples
    --------
    >>> from scipy import stats
    >>> virtual_valuation(stats.uniform(0, 10), [0.0, 2.5, 10.0])
    array([ 0.,  5., 20.])
    """
    values = _check_valuations(law, v)
    if check_flag(check, "check"):
        check_regular(law)
    below = np.asarray(law.cdf(values))
    density = np.asarray(law.pdf(values))
    rent = np.zeros_like(values)
    with np.errstate(divide="ignore"):
        np.divide(below, density, out=rent, where=below > 0)
    return values + rent


def affine_slope(law: Any) -> float | None:
    """Return the slope of an affine virtual valuation, as under a uniform law; else None."""
    low, high = law.support()
    z = np.linspace(low, high, 65)
    phi = virtual_valuation(law, z, check=False)
    if not np.isfinite(phi).all():
        return None
    line = np.interp(z, [low, high], phi[[0, -1]])
    if np.abs(phi - line).max() > AFFINE * phi[-1]:
        return None
    return float((phi[-1] - phi[0]) / (high - low))


def ironed_virtual_valuation(law: Any, v: ArrayLike) -> Array:
    """Compute virtual valuations, ironed: levelled out where they would fall.

    They are the slopes of the greatest convex function below :math:`H(s)=sF^{-1}(s)`, by isotonic
    regression: constant in each of 4096 cells of equal probability and, where nothing is levelled
    out, the mean over the cell.

    Examples
    --------
    >>> from scipy import stats
    >>> ironed_virtual_valuation(stats.uniform(0, 10), [2.5, 5.0]).round(1)
    array([ 5., 10.])
    """
    values = _check_valuations(law, v)
    ironed = scipy.optimize.isotonic_regression(_cell_means(law)).x
    cell = (law.cdf(values) * RESOLUTION).astype(int)
    return ironed[np.minimum(cell, RESOLUTION - 1)]
