"""Virtual valuations against closed forms, the identity that defines them, and a convex hull."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.spatial import ConvexHull

from hdpm_lib.markets import costs
from hdpm_lib.markets.costs import check_regular, ironed_virtual_valuation, virtual_valuation

REGULAR = {
    "uniform": stats.uniform(0, 10),
    "uniform from 2": stats.uniform(2, 3),
    "power 3": stats.powerlaw(3, scale=4),
    "power 1/2": stats.powerlaw(0.5, scale=4),
    "beta 2 2": stats.beta(2, 2),
    "beta 5 2": stats.beta(5, 2),
    "beta 1 3": stats.beta(1, 3),
    "exponential cut": stats.truncexpon(b=5, scale=0.2),
}
# A dip of the density, and a gap. The law of DIP is uniform but for a third of the density in the middle.
DIP = stats.rv_histogram((np.array([3.0, 1.0, 3.0]), np.array([0.0, 1.0, 2.0, 3.0])), density=False)
RISE = stats.rv_histogram((np.array([1.0, 3.0, 1.0]), np.array([0.0, 1.0, 2.0, 3.0])), density=False)
GAP = stats.rv_histogram((np.array([1.0, 0.0, 1.0]), np.array([1.0, 2.0, 3.0, 4.0])), density=False)
IRREGULAR = {"dip": (DIP, 2.0), "rise": (RISE, 1.0), "gap": (GAP, 3.0), "arcsine": (stats.arcsine(), None)}


def ironed_in(law: Any, v: Any, cells: int) -> np.ndarray:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(costs, "RESOLUTION", cells)
        return ironed_virtual_valuation(law, v)


# --- regular laws -----------------------------------------------------------------------------------------------------


def test_closed_forms() -> None:
    v = np.linspace(0, 10, 21).reshape(3, 7)
    np.testing.assert_allclose(virtual_valuation(stats.uniform(0, 10), v), 2 * v, rtol=1e-13)
    np.testing.assert_allclose(virtual_valuation(stats.uniform(2, 9), v[v >= 2]), 2 * v[v >= 2] - 2, atol=1e-13)
    for k in (0.3, 1, 4):
        np.testing.assert_allclose(virtual_valuation(stats.powerlaw(k, scale=10), v), (1 + 1 / k) * v, rtol=1e-12)


@pytest.mark.parametrize("name", REGULAR)
def test_the_lowest_valuation_is_its_own_virtual_one(name: str) -> None:
    law = REGULAR[name]
    low, high = law.support()
    assert virtual_valuation(law, low) == low
    assert virtual_valuation(law, high) == (math.inf if law.pdf(high) == 0 else high + 1 / law.pdf(high))


def identity_error(law: Any, virtual: Any) -> float:
    """Largest error of E[phi(V); V <= x] = x F(x): a buyer who pays x to all who ask less, relative to x F(x)."""
    low = law.support()[0]
    errors = []
    for x in law.ppf([0.1, 0.5, 0.9]):
        found, _ = integrate.quad(lambda v: float(virtual(law, v) * law.pdf(v)), low, x, epsabs=0, epsrel=1e-9)
        errors.append(abs(found / (x * law.cdf(x)) - 1))
    return max(errors)


@pytest.mark.parametrize("name", REGULAR)
def test_paying_the_threshold_costs_the_virtual_valuation(name: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(costs, "check_regular", lambda law: None)  # once is enough
    assert identity_error(REGULAR[name], virtual_valuation) < 1e-7


@pytest.mark.parametrize(
    "broken",
    [
        lambda law, v: v,
        lambda law, v: v - (1 - law.cdf(v)) / law.pdf(v),  # the one of a sale
        lambda law, v: v + law.cdf(v),
        lambda law, v: v + 0.99 * law.cdf(v) / law.pdf(v),
    ],
)
def test_another_virtual_valuation_is_caught(broken: Any) -> None:
    assert identity_error(stats.beta(2, 2), broken) > 1e-4


@pytest.mark.parametrize("name", REGULAR)
def test_ironing_leaves_a_regular_law(name: str) -> None:
    """Up to the resolution: between the virtual valuations at the ends of each cell."""
    law, cells = REGULAR[name], 512
    check_regular(law)
    s = np.arange(cells + 1) / cells
    ironed = ironed_in(law, law.ppf(s[:-1] + 0.5 / cells), cells)
    ends = virtual_valuation(law, law.ppf(s))
    assert (ironed >= ends[:-1] - 1e-9).all() and (ironed <= ends[1:] + 1e-9).all()


# --- irregular laws ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", IRREGULAR)
def test_the_place_is_named(name: str) -> None:
    law, place = IRREGULAR[name]
    with pytest.raises(ValueError, match=r"the law is irregular: .* falls at v = .*; use ironed") as error:
        virtual_valuation(law, 1.0 if place is None else place)
    if place is not None:
        named = float(str(error.value).split("v = ")[1].split(";")[0])
        assert named == pytest.approx(place, abs=0.02)


def ironing_complaints(law: Any, ironed: Any, cells: int) -> list[str]:
    """The integral of `ironed` over quantiles has to be the greatest convex function below H(s) = s ppf(s)."""
    s = np.arange(cells + 1) / cells
    H = s * np.append(law.ppf(s[:-1]) * (s[:-1] > 0), law.support()[1])
    values = ironed(law, law.ppf((s[:-1] + s[1:]) / 2), cells)
    total = np.append(0, np.cumsum(values) / cells)
    hull = ConvexHull(np.column_stack([s, H]))
    lower = hull.equations[hull.equations[:, 1] < -1e-12]
    minorant = (-(np.outer(s, lower[:, 0]) + lower[:, 2]) / lower[:, 1]).max(axis=1)
    touches = np.append(np.diff(values) > 1e-9, True)
    wrong = {
        "falls": (np.diff(values) < -1e-9).any(),
        "above H": (total > H + 1e-9).any(),
        "total": abs(total[-1] - law.support()[1]) > 1e-9,
        "not equal where it rises": not np.allclose(total[1:][touches], H[1:][touches], atol=1e-9),
        "not the hull": not np.allclose(total, minorant, atol=1e-9),
    }
    return [name for name, bad in wrong.items() if bad]


@pytest.mark.parametrize("cells", [60, 700])
@pytest.mark.parametrize("name", [*IRREGULAR, *REGULAR])
def test_ironing_is_the_convex_hull(name: str, cells: int) -> None:
    law = IRREGULAR[name][0] if name in IRREGULAR else REGULAR[name]
    assert ironing_complaints(law, ironed_in, cells) == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda values: values[::-1], "falls"),
        (lambda values: 1.01 * values, "total"),
        (lambda values: np.maximum.accumulate(values), "not the hull"),
        (lambda values: np.full_like(values, values.mean()), "not the hull"),
        (lambda values: np.sort(values), "not the hull"),
    ],
)
def test_wrong_ironing_is_caught(change: Any, complaint: str) -> None:
    def broken(law: Any, v: np.ndarray, cells: int) -> np.ndarray:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(costs, "RESOLUTION", cells)
            return change(costs._cell_means(law))

    assert complaint in ironing_complaints(DIP, broken, 60)


def test_a_dip_by_hand() -> None:
    """Three thirds of quantile 3/7, 1/7, 3/7: H rises with 14/3 s at first, and the dip's average is levelled out."""
    below, flat, still, top = ironed_in(DIP, [0.3, 1.5, 2.1, 3.0], 7 * 512)
    assert below == pytest.approx(0.6, abs=0.01)
    assert below < flat == still < top


# --- errors -----------------------------------------------------------------------------------------------------------

FUNCTIONS = {
    "virtual": virtual_valuation,
    "ironed": ironed_virtual_valuation,
    "check": lambda law, v: check_regular(law),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=list(FUNCTIONS))
@pytest.mark.parametrize(
    ("law", "message"),
    [
        (stats.expon(), r"bounded, got \[0.0, inf\]"),
        (stats.norm(), r"bounded, got \[-inf, inf\]"),
        (stats.uniform(-1, 3), r"bounded, got \[-1.0, 2.0\]"),
        (stats.poisson(3), "continuous law of scipy.stats with its parameters"),
        (3.0, "law must be a continuous law of scipy.stats with its parameters, got 3.0"),
    ],
)
def test_bad_laws(function: Any, law: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        function(law, 1.0)


@pytest.mark.parametrize("function", [virtual_valuation, ironed_virtual_valuation])
@pytest.mark.parametrize("v", [1.9, 5.1, math.nan, [3.0, 9.0]])
def test_valuation_outside_the_support(function: Any, v: Any) -> None:
    bad = v[1] if isinstance(v, list) else v
    with pytest.raises(
        ValueError, match=rf"v must lie in \[2, 5\] \(valuations in the support of the law\), got {bad}"
    ):
        function(stats.uniform(2, 3), v)
