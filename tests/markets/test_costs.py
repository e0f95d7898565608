"""Virtual valuations against closed forms, the identity that defines them, and a convex hull."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.spatial import ConvexHull

from hdpm_lib.designs.comparison import compare_markets
from hdpm_lib.designs.rules import Task
from hdpm_lib.markets import costs
from hdpm_lib.markets.costs import ironed_virtual_valuation, virtual_valuation

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
# A dip of the density, and a gap. The law of DIP is uniform but for a third of the density in the
# middle.
DIP = stats.rv_histogram((np.array([3.0, 1.0, 3.0]), np.array([0.0, 1.0, 2.0, 3.0])), density=False)
RISE = stats.rv_histogram(
    (np.array([1.0, 3.0, 1.0]), np.array([0.0, 1.0, 2.0, 3.0])), density=False
)
GAP = stats.rv_histogram((np.array([1.0, 0.0, 1.0]), np.array([1.0, 2.0, 3.0, 4.0])), density=False)
IRREGULAR = {
    "dip": (DIP, 2.0),
    "rise": (RISE, 1.0),
    "gap": (GAP, 3.0),
    "arcsine": (stats.arcsine(), None),
}


# --- regular laws -------------------------------------------------------------------------------


def test_closed_forms() -> None:
    v = np.linspace(0, 10, 21).reshape(3, 7)
    np.testing.assert_allclose(virtual_valuation(stats.uniform(0, 10), v), 2 * v, rtol=1e-13)
    np.testing.assert_allclose(
        virtual_valuation(stats.uniform(2, 9), v[v >= 2]), 2 * v[v >= 2] - 2, atol=1e-13
    )
    for k in (0.3, 1, 4):
        np.testing.assert_allclose(
            virtual_valuation(stats.powerlaw(k, scale=10), v), (1 + 1 / k) * v, rtol=1e-12
        )


@pytest.mark.parametrize("name", REGULAR)
def test_the_lowest_valuation_is_its_own_virtual_one(name: str) -> None:
    law = REGULAR[name]
    low, high = law.support()
    assert virtual_valuation(law, low) == low
    assert virtual_valuation(law, high) == (
        math.inf if law.pdf(high) == 0 else high + 1 / law.pdf(high)
    )


@pytest.mark.parametrize("name", REGULAR)
def test_paying_the_threshold_costs_the_virtual_valuation(name: str) -> None:
    """E[phi(V); V <= x] = x F(x): a buyer pays x to all who ask less."""
    law = REGULAR[name]

    def paid(v: float) -> float:
        return float(virtual_valuation(law, v, check=False) * law.pdf(v))

    for x in law.ppf([0.1, 0.5, 0.9]):
        found, _ = integrate.quad(paid, law.support()[0], x, epsabs=0, epsrel=1e-9)
        assert found == pytest.approx(x * law.cdf(x), rel=1e-7)


# --- irregular laws -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", IRREGULAR)
def test_the_place_is_named(name: str) -> None:
    law, place = IRREGULAR[name]
    with pytest.raises(
        ValueError, match=r"the law is irregular: .* falls at v = .*; use ironed"
    ) as error:
        virtual_valuation(law, place or 1.0)
    named = float(str(error.value).split("v = ")[1].split(";")[0])
    assert place is None or named == pytest.approx(place, abs=0.02)


@pytest.mark.parametrize("cells", [60, 700])
@pytest.mark.parametrize("name", [*IRREGULAR, *REGULAR])
def test_ironing_is_the_convex_hull(name: str, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over quantiles its integral is the greatest convex function below H(s) = s ppf(s)."""
    law = IRREGULAR[name][0] if name in IRREGULAR else REGULAR[name]
    s = np.arange(cells + 1) / cells
    H = s * np.append(law.ppf(s[:-1]) * (s[:-1] > 0), law.support()[1])
    monkeypatch.setattr(costs, "RESOLUTION", cells)
    values = ironed_virtual_valuation(law, law.ppf((s[:-1] + s[1:]) / 2))
    lower = (equations := ConvexHull(np.column_stack([s, H])).equations)[equations[:, 1] < -1e-12]
    minorant = (-(np.outer(s, lower[:, 0]) + lower[:, 2]) / lower[:, 1]).max(axis=1)
    np.testing.assert_allclose(np.append(0, np.cumsum(values) / cells), minorant, rtol=0, atol=1e-9)
    assert (np.diff(values) >= -1e-9).all()


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [virtual_valuation, ironed_virtual_valuation])
def test_refusals(function: Any) -> None:
    with pytest.raises(ValueError, match="law must be a continuous law of"):
        function(stats.poisson(3), 1.0)
    with pytest.raises(
        ValueError, match=r"v must lie in \[2, 5\] \(valuations in the support of the law\), got"
    ):
        function(stats.uniform(2, 3), [3.0, 1.9])
    with pytest.raises(
        ValueError,
        match=r"bounded support .* got \[0.0, inf\]; .* take a sample, law_of\(law.rvs\(1000",
    ):
        function(stats.lognorm(1, scale=2), 1.0)
    with pytest.raises(ValueError, match=r"bounded support in \[0, infinity\), got \[-inf, inf\]$"):
        function(stats.norm(3), 1.0)
    with pytest.raises(ValueError, match=r"single numbers as parameters, .* of shape \(2,\)$"):
        function(stats.uniform([0, 1], [1, 1]), 0.5)


@pytest.mark.skipif(not hasattr(stats, "Uniform"), reason="laws of SciPy 1.15")
def test_laws_of_the_newer_kind_are_named() -> None:
    """They are continuous laws of scipy.stats with their parameters, as well."""
    law = stats.truncate(stats.Normal(mu=0.5, sigma=0.2), lb=0, ub=1)
    for refused in (
        lambda: virtual_valuation(law, 0.5),
        lambda: compare_markets(law, Task(), 1.0, sellers=3),
    ):
        with pytest.raises(ValueError, match=r"of its newer kind: take one with a ppf$"):
            refused()
