"""What audits would have exposed: against exact sums, closed forms, simulation and real audits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from hdpm_lib.audits import guesses
from hdpm_lib.audits.guesses import LAW_TESTS, event, exponent, exposed_excess, power, rate_resolution, training_runs
from hdpm_lib.audits.laws import laplace_law, spherical_law
from hdpm_lib.noise import spherical_laplace
from hdpm_lib.validation import FALSE_ALARM
from tests.support import generator, z_limit

# --- the law of noise -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d"), [(100, 1), (200, 3), (60, 12)])
def test_rate_resolution_is_exposed_nine_times_in_ten(n: int, d: int) -> None:
    rng, runs = generator(400, n), 300
    excess = float(rate_resolution(n, d))
    found = 0
    for _ in range(runs):
        z = spherical_laplace(d, 1 + excess, rng=rng, size=n)
        tests = spherical_law(z, 1.0)
        assert len(tests) <= LAW_TESTS
        found += next(t.p_value for t in tests if t.name == "sum of radii") < FALSE_ALARM / LAW_TESTS
    assert abs(found - 0.9 * runs) < z_limit(3) * math.sqrt(0.09 * runs)


def test_rate_resolution_in_broad_lines() -> None:
    assert len(laplace_law([[1.0, -2.0], [3.0, 0.5]], 1.0)) <= LAW_TESTS
    excess = rate_resolution([[100], [10_000]], [1, 2, 12])
    assert excess.shape == (2, 3) and (np.diff(excess, axis=0) < 0).all() and (np.diff(excess, axis=1) < 0).all()
    z = stats.norm.isf(FALSE_ALARM / LAW_TESTS / 2) + stats.norm.isf(0.1)  # the normal limit
    assert rate_resolution(10**6, 30) == pytest.approx(z / math.sqrt(3e7), rel=0.01)
    with pytest.raises(ValueError, match=r"draws must be finite and at least 1, got 0\.0"):
        rate_resolution(0, 3)
    with pytest.raises(ValueError, match=r"power must lie in \(0, 1\), got 1"):
        rate_resolution(10, 3, power=1)


# --- guessing ---------------------------------------------------------------------------------------------------------


def test_exponent_is_that_of_the_binomial_tail() -> None:
    claim, p = 1.0, math.e / (1 + math.e)
    for frequency in (p + 0.01, 0.8, 0.95):
        found = float(exponent(frequency, claim))
        n = int(600 / found)
        assert found == pytest.approx(-math.log(stats.binom.sf(round(frequency * n) - 1, n, p)) / n, rel=0.02)
    assert exponent([0.1, p], claim).tolist() == [0.0, 0.0]
    assert float(exponent(1.0, 800.0)) == 0  # nothing speaks against so large a claim


def in_one_dimension(t: float, loss: float) -> tuple[float, float]:
    """Probabilities of a log ratio of at least `t` under the second data set and the first."""
    return 1 - math.exp(-(loss - t) / 2) / 2, math.exp(-(loss + t) / 2) / 2


def by_adaptive_quadrature(t: float, loss: float, d: int) -> float:
    """Probability of a log ratio of at least `t` under the first data set: an integral over radius and angle."""
    area = integrate.quad(lambda a: math.sin(a) ** (d - 2), 0, math.pi)[0]

    def shell(radius: float) -> float:
        if radius < t:
            return 0.0
        cosine = (radius**2 + loss**2 - (radius - t) ** 2) / (2 * radius * loss)
        if cosine >= 1:
            return 0.0
        return integrate.quad(lambda a: math.sin(a) ** (d - 2), 0, math.acos(max(cosine, -1)))[0] / area

    start = (loss + t) / 2
    return integrate.quad(lambda r: stats.gamma.pdf(r, d) * shell(r), start, start + 80, limit=200)[0]


@pytest.mark.parametrize("loss", [0.1, 1.0, 6.0])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_probability_of_a_log_ratio(loss: float, d: int) -> None:
    t = loss * np.array([-0.9, -0.3, 0.02, 0.5, 0.9])
    found = guesses._exceeds(t, loss, d)
    if d == 1:
        expected = [in_one_dimension(value, loss)[1] for value in t]
    else:
        expected = [by_adaptive_quadrature(value, loss, d) for value in t]
    np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize(("loss", "claim", "d"), [(0.5, 0.4, 1), (2.0, 1.5, 2), (3.0, 1.0, 12), (6.0, 2.0, 30)])
def test_event_by_simulation(loss: float, claim: float, d: int) -> None:
    """A rule with these probabilities exists: found among all thresholds on the log ratio of real draws."""
    n, rng = 100_000, generator(401, d)
    z, centre = spherical_laplace(d, 1.0, rng=rng, size=n), loss * np.eye(d)[0]
    ratio = np.linalg.norm(z, axis=1) - np.linalg.norm(z - centre, axis=1)  # at the first data set
    made, right = event(loss, claim, d)
    t = np.quantile(ratio, 1 - made * (1 - right))
    other = np.linalg.norm(z + centre, axis=1) - np.linalg.norm(z, axis=1)  # at the second
    share = float((other >= t).mean())
    error = math.sqrt(made * right * (1 - made * right) / n) + made * (1 - right) / math.sqrt(n * made * (1 - right))
    assert abs(share - made * right) < z_limit(4) * 2 * error


def test_event_in_one_dimension() -> None:
    for loss, claim in ((0.5, 0.4), (3.0, 2.0)):
        made, right = event(loss, claim)
        values = [in_one_dimension(t, loss) for t in loss * np.linspace(0.02, 1, 50)]
        best = max(values, key=lambda pair: sum(pair) * float(exponent(pair[0] / sum(pair), claim)))
        assert (made, right) == pytest.approx((sum(best), best[0] / sum(best)), abs=1e-8)


def exact_power(claim: float, true: float, n: int, level: float) -> float:
    """Over every number of guesses and of right ones, with integers for the coefficients."""
    made, right = event(true, claim)
    p = math.exp(claim) / (1 + math.exp(claim))
    total = 0.0
    for k in range(n + 1):
        tails = np.cumsum([math.comb(k, c) * p**c * (1 - p) ** (k - c) for c in range(k, -1, -1)])[::-1]
        reject = sum(math.comb(k, c) * right**c * (1 - right) ** (k - c) for c in range(k + 1) if tails[c] <= level)
        total += math.comb(n, k) * made**k * (1 - made) ** (n - k) * reject
    return total


@pytest.mark.parametrize(("claim", "true"), [(0.2, 0.2), (0.2, 0.9), (1.0, 1.7), (2.0, 4.5)])
def test_power_is_an_exact_sum(claim: float, true: float) -> None:
    for sellers, scores in ((1, 1), (3, 2)):
        found = power(claim, true, 100, sellers=sellers, scores=scores, level=0.05)
        assert found == pytest.approx(exact_power(claim, true, 70, 0.05 / sellers / scores), abs=1e-5)
    assert power(claim, claim, 100, level=0.05) <= 0.05
    assert power(claim, true, 1000, train=0.9, level=0.05) == pytest.approx(
        exact_power(claim, true, 100, 0.05), abs=1e-5
    )


@pytest.mark.parametrize("d", [1, 2, 12])
def test_exposed_excess_inverts_the_power(d: int) -> None:
    excess = exposed_excess(0.7, 20_000, dimension=d)
    assert power(0.7, 0.7 * (1 + excess), 20_000, dimension=d) == pytest.approx(0.9, abs=2e-3)
    more = exposed_excess(0.7, 20_000, dimension=d, sellers=1000, scores=2), exposed_excess(0.7, 40_000, dimension=d)
    assert more[0] > excess > more[1]
    assert exposed_excess(0.7, 20_000, dimension=d, power=0.5) < excess < exposed_excess(0.7, 20_000, dimension=d + 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: event(0.0, 1.0), r"loss must be positive and finite, got 0\.0"),
        (lambda: event(1.0, 1.0, 0), r"dimension must be a positive integer, got 0"),
        (lambda: power(-1.0, 1.0, 1000), r"claim must be positive and finite, got -1\.0"),
        (lambda: power(1.0, math.nan, 1000), r"true must be positive and finite, got nan"),
        (lambda: power(1.0, 1.0, 10), r"runs must be .* 100, got 10"),
        (lambda: power(1.0, 1.0, 1000, sellers=0), r"sellers must be a positive integer, got 0"),
        (lambda: training_runs(1000, 1.0), r"train must lie in \(0, 1\), got 1\.0"),
        (lambda: exposed_excess(1.0, 1000, power=0.0), r"power must lie in \(0, 1\), got 0\.0"),
        (lambda: exposed_excess(30.0, 1000), r"runs = 1000 expose no excess of claim = 30\.0, however large"),
    ],
)
def test_bad_input(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
