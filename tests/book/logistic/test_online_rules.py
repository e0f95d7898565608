"""Buying from sellers one by one: rules against the offline solver on quantiles, payments against quadrature."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import integrate, interpolate, optimize, stats

from hdpm_book.logistic.online_rules import OnlineRule, expected_rule, printed_rule, realised_loss
from hdpm_book.logistic.peer import count_minima, proxy_loss
from hdpm_lib.markets.costs import virtual_valuation
from hdpm_lib.markets.incentives import reports_to_try, search_misreports
from hdpm_lib.markets.procurement import procure
from tests.support import generator, mean_z, z_limit

Builder = Callable[..., OnlineRule]
CENT = math.exp(-4)
LAWS: dict[str, Any] = {
    "U[0,4]": stats.uniform(0, 4),
    "U[1,5]": stats.uniform(1, 4),
    "U[e^-4,5e^-4]": stats.uniform(CENT, 4 * CENT),
    "density 0 at both ends": stats.beta(2, 2),
    "from 1/2, falling to 0": stats.beta(1, 5, loc=0.5),
    "density rising from 0": stats.powerlaw(3),
    "density infinite at 0": stats.beta(0.5, 1),
    "exponential, cut": stats.truncexpon(3),
}
SETTINGS = [(100, 1.0, 1.0, 1.0), (20_000, 1.0, 1.0, 1.0), (50, 10.0, 100.0, 0.01), (3000, 0.3, 5.0, 0.2)]


# --- the rules --------------------------------------------------------------------------------------------------------


@cache
def quantiles(name: str, count: int = 200_000) -> np.ndarray:
    """Virtual costs in the middle of cells of equal probability: a law in which every sum is an expectation."""
    return virtual_valuation(LAWS[name], LAWS[name].ppf((np.arange(count) + 0.5) / count))


def off_by(build: Builder, name: str, setting: tuple[float, ...]) -> float:
    """Relative distance of a rule from the offline optimum on the quantiles: cutoff above the cheapest, and slope.

    With N sellers and sigma m / N in place of sigma, Eq. (14) of the offline problem is the expected one for m.
    """
    m, mu, sigma, gamma = setting
    psi, rule = quantiles(name), build(LAWS[name], *setting)
    share = m / len(psi)
    best = procure(psi, mu, sigma * share, gamma)
    low = LAWS[name].support()[0]
    slope = best.eta / np.maximum(best.cutoff - psi, 0).sum() / share**1.5
    return float(max(abs((best.cutoff - low) / (rule.cutoff - low) - 1), abs(slope / rule.slope - 1)))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", LAWS)
def test_expected_rule_is_the_optimum_on_the_quantiles(name: str, setting: tuple[float, ...]) -> None:
    assert off_by(expected_rule, name, setting) < 2e-3


MUTANTS: dict[str, Builder] = {
    "1 % more sellers": lambda law, m, *rest: expected_rule(law, round(1.01 * m), *rest),
    "1 % less slope": lambda *args: replace(rule := expected_rule(*args), slope=0.99 * rule.slope),
    "1 % more cutoff": lambda *args: replace(rule := expected_rule(*args), cutoff=1.01 * rule.cutoff),
    "costs for virtual costs": lambda *args: replace(rule := expected_rule(*args), cutoff=rule.cutoff / 2),
    "gamma once too often": lambda *args: replace(rule := expected_rule(*args), slope=args[-1] * rule.slope),
    "sigma and gamma exchanged": lambda law, m, mu, sigma, gamma: expected_rule(law, m, mu, gamma, sigma),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_wrong_rule_is_found(mutant: str) -> None:
    assert max(off_by(MUTANTS[mutant], name, SETTINGS[3]) for name in ("U[0,4]", "U[1,5]")) > 4e-3


def test_rule_does_not_drift_with_the_resolution() -> None:
    """The distance from the quantiles is theirs: it falls with their number."""
    rule = expected_rule(LAWS["U[0,4]"], 3000, 0.3, 5.0, 0.2)
    off = []
    for count in (10_000, 100_000, 1_000_000):
        best = procure(quantiles("U[0,4]", count), 0.3, 5.0 * 3000 / count, 0.2)
        off.append(abs(best.cutoff / rule.cutoff - 1))
    assert off[0] > 20 * off[1] > 400 * off[2]


def last_bought(law: Any, cutoff: float) -> float:
    """Report whose virtual cost is the cutoff, or the largest one."""
    low, high = law.support()

    def gap(z: float) -> float:
        return float(virtual_valuation(law, z, check=False)) - cutoff

    return high if gap(high) <= 0 else optimize.brentq(gap, low, high)


@pytest.mark.parametrize("name", ["U[0,4]", "U[1,5]", "exponential, cut"])
def test_expected_rule_has_the_least_loss_of_sums(name: str) -> None:
    """SciPy's optimiser over cutoff and slope, moments by plain quadrature over the reports bought."""
    law, (m, mu, sigma, gamma) = LAWS[name], (500, 2.0, 3.0, 0.5)

    at, weight = np.polynomial.legendre.leggauss(400)

    def loss(logs: np.ndarray) -> float:
        theta, slope = np.exp(logs)
        width = last_bought(law, theta) - law.support()[0]
        z = law.support()[0] + width * (1 + at) / 2
        psi, mass = virtual_valuation(law, z, check=False), m * width / 2 * weight * law.pdf(z)
        first, second, cost = mass @ (theta - psi), mass @ (theta - psi) ** 2, mass @ ((theta - psi) * psi)
        return mu * math.sqrt(second) / first + sigma / (slope * first) + gamma * slope * cost

    rule = expected_rule(law, m, mu, sigma, gamma)
    start = np.log([rule.cutoff, rule.slope])
    found = optimize.minimize(loss, start + np.array([0.05, -0.1]), method="Nelder-Mead", tol=1e-8)
    np.testing.assert_allclose(found.x, start, atol=2e-5)
    assert loss(start) <= found.fun * (1 + 1e-9)


def test_printed_rule_is_the_expected_one_for_a_constant_density() -> None:
    rng = generator(61)
    for _ in range(50):
        top = 10 ** rng.uniform(-2, 2)
        mu, sigma, gamma = 10 ** rng.uniform(-1, 1, 3)
        m = math.ceil(2 * mu**2 / (sigma * gamma * top) * 10 ** rng.uniform(0, 6))  # the cutoff is at most 2 top
        printed = printed_rule(m, 1 / (2 * top), mu, sigma, gamma)
        rule = expected_rule(stats.uniform(0, top), m, mu, sigma, gamma)
        np.testing.assert_allclose([printed.cutoff, printed.slope], [rule.cutoff, rule.slope], rtol=1e-10)
        A1, A2 = m * printed.cutoff**2 / (4 * top), m * printed.cutoff**3 / (6 * top)
        assert printed.slope == pytest.approx(mu / (gamma * math.sqrt(A2) * A1), rel=1e-12)  # Eq. (13)


def test_printed_rule_is_right_in_the_limit_for_a_smooth_density() -> None:
    law, gaps = LAWS["exponential, cut"], []
    for m in (10**4, 10**6, 10**8):
        printed, rule = printed_rule(m, float(law.pdf(0)) / 2, 1.0, 1.0, 1.0), expected_rule(law, m, 1.0, 1.0, 1.0)
        gaps.append(max(abs(printed.cutoff / rule.cutoff - 1), abs(printed.slope / rule.slope - 1)))
    assert gaps[0] < 0.1 and gaps[0] > 5 * gaps[1] > 25 * gaps[2]


class Clusters:
    """Half of the virtual costs near 0.001 and half near 1, smooth and increasing: Eq. (14) then has several roots."""

    def __init__(self) -> None:
        s = np.linspace(0, 1, 4001)
        psi = 0.001 * (1 + s) + stats.norm.cdf((s - 0.01) / 0.003)
        cost = np.append(psi[0], integrate.cumulative_trapezoid(psi, s) / s[1:])
        self.cdf = interpolate.PchipInterpolator(cost, s)
        self.ppf = interpolate.PchipInterpolator(s, cost)
        self.pdf = self.cdf.derivative()
        self.support = lambda: (float(cost[0]), float(cost[-1]))


def test_least_of_several_roots() -> None:
    law, count = Clusters(), 200_000
    psi = virtual_valuation(law, law.ppf((np.arange(count) + 0.5) / count), check=False)
    cutoffs = []
    for gamma in (0.2, 0.3):
        best = procure(psi, 1.0, 200 / count, gamma)
        assert count_minima(psi, 1.0, 200 / count, gamma) > 1
        cutoffs.append(expected_rule(law, 200, 1.0, 1.0, gamma).cutoff)
        assert cutoffs[-1] == pytest.approx(best.cutoff, rel=1e-2)
    assert cutoffs[0] > 1 > 0.5 > cutoffs[1]


# --- payments ---------------------------------------------------------------------------------------------------------

RULES = [(name, setting) for name in LAWS for setting in (SETTINGS[0], SETTINGS[2])]


def losses(rule: OnlineRule, law: Any, z: Any) -> Any:
    return rule.epsilon(virtual_valuation(law, z, check=False))


@pytest.mark.parametrize(("name", "setting"), RULES)
def test_payments_by_quadrature(name: str, setting: tuple[float, ...]) -> None:
    """Against the area under the privacy loss, and Eq. (8) as a Stieltjes integral with its jump at the end."""
    law, rule = LAWS[name], expected_rule(LAWS[name], *setting)
    high = law.support()[1]
    costs = law.ppf(generator(62).random(5) * min(1, 2 * float(law.cdf(rule.cutoff))))
    paid = rule.payments(costs, law)
    ends = (high, min(high, rule.cutoff))  # a virtual cost is no less than the cost: nothing is bought beyond
    z = np.unique(np.concatenate([np.linspace(costs.min(), end, 40_001) for end in ends]))
    jump = high * losses(rule, law, high)
    for c, t in zip(costs, paid, strict=True):
        bought = losses(rule, law, z) > 0
        last = z[bought][-1] if bought.any() else c
        area = integrate.quad(lambda s: float(losses(rule, law, s)), c, max(c, last), epsabs=0, epsrel=1e-9, limit=200)
        scale = paid.max() or 1.0
        assert t == pytest.approx(float(c * losses(rule, law, c)) + area[0], abs=1e-5 * scale)
        above = z[z >= c]
        steps = losses(rule, law, above)
        stieltjes = -((above[1:] + above[:-1]) / 2 * np.diff(steps)).sum() + jump
        assert t == pytest.approx(stieltjes, abs=2e-3 * scale)


def test_payments_in_closed_form() -> None:
    """Uniform costs from 0: the rent is slope (z - c)^2 with z the last report bought."""
    law, costs = LAWS["U[0,4]"], np.append(generator(63).uniform(0, 4, 10_000), [0.0, 4.0])
    rule = OnlineRule(3.0, 0.7)
    expected = np.where(costs < 1.5, costs * rule.epsilon(2 * costs) + 0.7 * (1.5 - costs) ** 2, 0)
    np.testing.assert_allclose(rule.payments(costs, law), expected, rtol=1e-12, atol=1e-14)
    everybody = OnlineRule(10.0, 0.7)  # costs end at 4, where 2 are still bought
    rent = 0.7 * ((5 - costs) ** 2 - 1)
    np.testing.assert_allclose(everybody.payments(costs, law), costs * everybody.epsilon(2 * costs) + rent, rtol=1e-12)
    assert (OnlineRule(0.5, 1.0).payments([1.0, 5.0], LAWS["U[1,5]"]) == 0).all()


@pytest.mark.parametrize(("name", "setting"), RULES)
def test_mean_payment_is_mean_virtual_cost(name: str, setting: tuple[float, ...]) -> None:
    """Eq. (9), by quadrature over the quantiles instead of by simulation."""
    law, rule = LAWS[name], expected_rule(LAWS[name], *setting)
    low, high = law.support()
    near = last_bought(law, rule.cutoff)
    t, weight = np.polynomial.legendre.leggauss(400)
    z = low + (near - low) * ((1 + t) / 2) ** 2
    mass = weight * (near - low) * (1 + t) / 2 * law.pdf(z)
    psi = virtual_valuation(law, z, check=False)
    owed = mass @ (psi * rule.epsilon(psi))
    assert mass @ rule.payments(z, law) == pytest.approx(owed, rel=1e-8)
    if float(virtual_valuation(law, high, check=False)) < rule.cutoff:  # the two wrong readings of the upper limit
        own = z * rule.epsilon(psi)
        short = rule.payments(z, law) - high * losses(rule, law, high)
        assert (short < own).any() and mass @ short < 0.99 * owed


@pytest.mark.parametrize(("name", "setting"), RULES)
def test_truth_is_a_best_report(name: str, setting: tuple[float, ...]) -> None:
    law, rule = LAWS[name], expected_rule(LAWS[name], *setting)
    low, high = law.support()
    types = law.ppf(np.array([0.001, 0.02, 0.1, 0.5, 0.95]))
    tries = [t[t >= low] for t in reports_to_try(types, high, grid=301)]

    def mechanism(pay: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Any:
        def run(c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            amounts = losses(rule, law, c)
            return amounts, pay(c, amounts)

        return run

    found = search_misreports(
        mechanism(lambda c, _: rule.payments(c.ravel(), law).reshape(c.shape)), types, tries, refine=False
    )
    assert found.relative_gain < 1e-9 and found.utility.min() > -1e-9 * found.payment.max()
    if found.payment.max() > 0:  # the virtual cost itself as the price is not truthful
        wrong = mechanism(lambda c, a: np.where(a > 0, rule.cutoff - a / rule.slope, 0) * a)
        assert search_misreports(wrong, types, tries, refine=False).relative_gain > 1e-4


def test_a_million_payments() -> None:
    law = LAWS["density 0 at both ends"]
    rule, costs = OnlineRule(2.0, 1.0), law.rvs(10**6, random_state=generator(64))
    start = time.perf_counter()
    paid = rule.payments(costs, law)
    assert time.perf_counter() - start < 20
    assert paid.shape == (10**6,) and (paid >= costs * losses(rule, law, costs)).all()


# --- what is realised -------------------------------------------------------------------------------------------------


def test_realised_loss() -> None:
    rng = generator(65)
    rule, psi = OnlineRule(1.3, 0.4), rng.uniform(0, 5, (6, 40))
    found = realised_loss(rule, psi, 2.0, 3.0, 0.5)
    for row, loss in zip(psi, found, strict=True):
        eps = rule.epsilon(row)
        assert loss == pytest.approx(2 * np.linalg.norm(eps) / eps.sum() + 3 / eps.sum() + 0.5 * eps @ row)
        assert loss == pytest.approx(float(proxy_loss(eps / eps.sum(), eps.sum(), row, 2.0, 3.0, 0.5)))
        assert loss >= procure(row, 2.0, 3.0, 0.5).error
    assert realised_loss(rule, [2.0, math.inf], 1.0, 1.0, 1.0) == math.inf
    assert realised_loss(rule, [[2.0, 3.0], [0.3, math.inf]], 1.0, 1.0, 1.0).tolist()[0] == math.inf
    assert np.isfinite(realised_loss(rule, [0.3, math.inf], 1.0, 1.0, 1.0))


def total_z(factor: float, draws: int = 4000) -> float:
    """Distance, in standard errors, of the mean of sum epsilon from its expectation mu / (gamma root A2)."""
    m, (mu, sigma, gamma) = 400, (1.0, 2.0, 0.5)
    rule = expected_rule(LAWS["U[1,5]"], m, mu, sigma, gamma)
    psi = generator(66).uniform(1, 9, (draws, m))
    second = m * (rule.cutoff - 1) ** 3 / 24
    return float(mean_z(factor * rule.epsilon(psi).sum(-1), mu / (gamma * math.sqrt(second))))


def test_total_bought_in_expectation() -> None:
    assert abs(total_z(1.0)) < z_limit()
    assert abs(total_z(1.1)) > z_limit() < abs(total_z(0.9))


# --- what is refused --------------------------------------------------------------------------------------------------

NAN, INF = math.nan, math.inf
GOOD: dict[str, Any] = {"m": 100, "mu": 1.0, "sigma": 1.0, "gamma": 1.0}
BAD: list[tuple[str, Any, str]] = [
    ("m", 2.5, "m must be a positive integer, got 2.5"),
    *((name, 0.0, f"{name} must be positive and finite, got 0.0") for name in ("mu", "sigma", "gamma")),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD)
def test_rules_refuse(name: str, value: Any, message: str) -> None:
    bad = {**GOOD, name: value}
    with pytest.raises(ValueError, match=re.escape(message)):
        printed_rule(density_at_zero=0.125, **bad)
    with pytest.raises(ValueError, match=re.escape(message)):
        expected_rule(LAWS["U[1,5]"], **bad)
    if name != "m":
        with pytest.raises(ValueError, match=re.escape(message)):
            realised_loss(OnlineRule(1.0, 1.0), [0.5], **{k: v for k, v in bad.items() if k != "m"})


@pytest.mark.parametrize("value", [0.0, -0.1, NAN, INF])
def test_printed_rule_needs_a_density_at_zero(value: float) -> None:
    with pytest.raises(ValueError, match=rf"density_at_zero must be positive and finite \(Algorithm 3 .*, got {value}"):
        printed_rule(density_at_zero=value, **GOOD)


def test_expected_rule_refuses() -> None:
    for law, message in (
        (stats.norm(), "law must have a support in [0, infinity), bounded"),
        (stats.beta(0.1, 0.1), "the law is irregular"),
        (None, "law must be a continuous law of scipy.stats"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            expected_rule(law, **GOOD)
    with pytest.raises(ValueError, match=r"m = 1\d+ puts the cutoff too close to the least cost 0\.0"):
        expected_rule(LAWS["U[0,4]"], **{**GOOD, "m": 1e40})


def test_rule_refuses() -> None:
    for cutoff, slope, message in (
        (0.0, 1.0, "cutoff must be positive and finite, got 0.0"),
        (NAN, 1.0, "cutoff must be positive and finite, got nan"),
        (1.0, -2.0, "slope must be positive and finite, got -2.0"),
        (1.0, INF, "slope must be positive and finite, got inf"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            OnlineRule(cutoff, slope)
    rule = OnlineRule(1.0, 1.0)
    for psi, value in (([0.5, NAN], "nan"), ([-0.5], "-0.5")):
        with pytest.raises(ValueError, match=f"virtual_costs must not be negative, got {value}"):
            rule.epsilon(psi)
        with pytest.raises(ValueError, match=f"virtual_costs must not be negative, got {value}"):
            realised_loss(rule, psi, 1.0, 1.0, 1.0)
    for costs, message in (
        ([0.5], "costs must lie in [1, 5], got 0.5"),
        ([2.0, NAN], "costs must lie in [1, 5], got nan"),
        ([[2.0]], "costs must have 1 dimension(s), got shape (1, 1)"),
        ([], "costs is empty (shape (0,))"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            rule.payments(costs, LAWS["U[1,5]"])
