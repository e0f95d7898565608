"""The random-bit test: its theorem by enumeration, its counts by hand, false alarms and power by real audits.

What it would have exposed: against exact sums, closed forms, simulation and real audits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from hdpm_book.privacy.guesses import (
    BitTest,
    Release,
    Score,
    _exceeds,
    _power,
    _thresholds,
    bit_test,
    either,
    event,
    exponent,
    exposed_excess,
    log_ratio,
    power,
)
from hdpm_lib.audits.bounds import holm
from hdpm_lib.learners import queries, ridge
from hdpm_lib.learners.queries import linear_query
from hdpm_lib.learners.ridge import output_perturbation
from hdpm_lib.noise import log_density, spherical_laplace
from hdpm_lib.validation import FALSE_ALARM
from tests.support import Check, generator, laplace_by_coordinate, objections, times, with_shape, z_limit

# --- the theorem ------------------------------------------------------------------------------------------------------


def random_channel(outputs: int, loss: float, rng: np.random.Generator) -> np.ndarray:
    """Two laws on a few outputs whose probabilities differ by a factor of at most exp(loss), and often by that."""
    first = rng.dirichlet(np.ones(outputs))
    ratio = np.exp(rng.choice([-loss, loss, rng.uniform(-loss, loss)], outputs))
    up, down = (first * ratio)[ratio >= 1].sum(), (first * ratio)[ratio < 1].sum()
    if not 0 < down < 1 < up + down:  # pull the larger ones down until the sum is 1
        return np.stack([first, first])
    factor = (1 - down) / up
    second = first * np.where(ratio >= 1, ratio * factor, ratio)
    return np.stack([first, second])


def right_given_guess(channel: np.ndarray, guess: np.ndarray) -> float:
    """Probability that a guess is right, for the probabilities (2, outputs) of guessing each bit at each output."""
    made = 0.5 * (channel.sum(0) * guess.sum(0)).sum()
    return float(0.5 * (channel * guess).sum() / made)


def test_no_rule_guesses_better_than_the_bound() -> None:
    rng, best = generator(410), 0.0
    for _ in range(300):
        channel = random_channel(int(rng.integers(2, 6)), float(rng.uniform(0.1, 3)), rng)
        loss = np.abs(np.log(channel[1] / channel[0])).max()
        bound = math.exp(loss) / (1 + math.exp(loss))
        rules = rng.dirichlet(np.ones(3), (20, channel.shape[1])).transpose(0, 2, 1)[:, :2]  # the third: abstain
        sure = np.eye(3)[rng.integers(0, 3, (20, channel.shape[1]))].transpose(0, 2, 1)[:, :2]
        for guess in (*rules, *sure):
            if guess.any():
                right = right_given_guess(channel, guess)
                assert right <= bound * (1 + 1e-12)
                best = max(best, right / bound)
    assert best > 0.999  # attained
    wrong = right_given_guess(np.array([[0.9, 0.1], [0.1, 0.9]]), np.eye(2))
    assert wrong > math.exp(1) / (1 + math.exp(1))  # a larger loss than 1 shows


def test_p_value_and_lower_end() -> None:
    test = BitTest(1000, np.array([40, 10]), np.array([35, 5]), 0.5)
    p = math.exp(0.5) / (1 + math.exp(0.5))
    tail = sum(math.comb(40, c) * p**c * (1 - p) ** (40 - c) for c in range(35, 41))
    assert test.p_value == pytest.approx(2 * tail)
    lower = test.epsilon_lower(0.01)
    q = math.exp(lower) / (1 + math.exp(lower))
    assert sum(math.comb(40, c) * q**c * (1 - q) ** (40 - c) for c in range(35, 41)) == pytest.approx(0.005)
    assert BitTest(1000, np.array([0]), np.array([0]), 0.5).p_value == 1
    assert BitTest(1000, np.array([0, 9]), np.array([0, 4]), 0.5).epsilon_lower(0.01) == 0
    with pytest.raises(ValueError, match=r"level must lie in \(0, 1\), got 0"):
        test.epsilon_lower(0)


def test_holm_is_closed_testing() -> None:
    """A hypothesis is rejected if and only if Bonferroni's test rejects every intersection that contains it."""
    rng = generator(411)
    for _ in range(200):
        m = int(rng.integers(1, 6))
        p = rng.choice([0.0, 0.004, 0.01, 0.0125, 0.02, 0.05, 0.3, 1.0, rng.uniform(0, 0.05)], m)
        subsets = [s for k in range(1, m + 1) for s in itertools.combinations(range(m), k)]
        closed = [all(p[list(s)].min() <= 0.05 / len(s) for s in subsets if i in s) for i in range(m)]
        assert holm(p, 0.05).tolist() == closed
        assert (holm(p, 0.05) >= (p <= 0.05 / m)).all()
    assert holm([1e-7]).tolist() == [True] and holm([2e-6]).tolist() == [False]


# --- counts -----------------------------------------------------------------------------------------------------------


def by_hand(values: np.ndarray, bits: np.ndarray, claim: float, rule: tuple[float, float, bool, bool]) -> float:
    """Evidence of a rule in the training part, run by run."""
    low, high, bit_low, bit_high = rule
    made = right = 0
    for value, bit in zip(values, bits, strict=True):
        if value >= high or value <= low:
            made += 1
            right += bit == (bit_high if value >= high else bit_low)
    p, f = math.exp(claim) / (1 + math.exp(claim)), right / max(made, 1)
    if f <= p:
        return 0.0
    return made * (f * math.log(f / p) + ((1 - f) * math.log((1 - f) / (1 - p)) if f < 1 else 0.0))


@pytest.mark.parametrize("kind", ["continuous", "few values", "constant", "reversed", "one side"])
def test_thresholds_have_the_most_evidence(kind: str) -> None:
    """No rule that takes its thresholds from the data, and guesses either bit beyond them, has much more."""
    rng = generator(412)
    bits = rng.random(60) < 0.5
    values = {
        "continuous": rng.normal(bits),
        "few values": rng.integers(0, 4, 60) + 1.0 * bits,
        "constant": np.ones(60),
        "reversed": -rng.normal(2.0 * bits),
        "one side": np.where(bits & (rng.random(60) < 0.8), 9.0, rng.random(60)),
    }[kind]
    rule = _thresholds(values, bits, 0.3)
    assert rule[0] < rule[1]
    ends = [-np.inf, *np.unique(values), np.inf]
    rules = [(a, b, s, t) for a in ends for b in ends if a < b for s in (False, True) for t in (False, True)]
    outermost = [
        r for r in rules if all(count == 0 or count >= 20 for count in (sum(values <= r[0]), sum(values >= r[1])))
    ]
    best = max(by_hand(values, bits, 0.3, r) for r in outermost)
    assert (
        by_hand(values, bits, 0.3, rule) >= best - 6.5
    )  # what a balanced rule gets in advance, and the steps of tails
    if kind == "reversed":
        assert rule[2] and not rule[3]


def test_only_the_later_runs_count_by_rules_of_the_earlier() -> None:
    seen: dict[str, np.ndarray] = {}

    def release(bits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        seen["bits"], seen["outputs"] = bits, rng.laplace(1.0 * bits)
        return seen["outputs"]

    scores = [lambda o: o, lambda o: -(o**3)]
    test = bit_test(release, scores, 0.8, 1000, rng=generator(413), digits=None)
    assert abs(seen["bits"].mean() - 0.5) < z_limit() / math.sqrt(4 * 1000)
    for j, score in enumerate(scores):
        values, bits = score(seen["outputs"]), seen["bits"]
        low, high, bit_low, bit_high = _thresholds(values[:300], bits[:300], 0.8)
        rest = list(zip(values[300:], bits[300:], strict=True))
        assert test.guesses[j] == sum(v <= low or v >= high for v, _ in rest)
        right = sum(b == bit_low for v, b in rest if v <= low) + sum(b == bit_high for v, b in rest if v >= high)
        assert test.correct[j] == right


def test_either_and_log_ratio() -> None:
    rng, bits = generator(414), np.array([True, False, False, True])
    outputs = either(lambda _, n: np.zeros((n, 2)), lambda _, n: np.ones((n, 2)))(bits, rng)
    assert outputs.tolist() == [[1, 1], [0, 0], [0, 0], [1, 1]]
    points, (one, two) = rng.standard_normal((50, 3)), rng.standard_normal((2, 3))
    expected = log_density(points - two, 1.7) - log_density(points - one, 1.7)
    np.testing.assert_allclose(log_ratio(one, two, 1.7)(points), expected, rtol=1e-12, atol=1e-12)
    line = log_density(points[:, :1] - two[0], 1.7) - log_density(points[:, :1] - one[0], 1.7)
    np.testing.assert_allclose(log_ratio(one[0], two[0], 1.7)(points[:, 0]), line, rtol=1e-12, atol=1e-12)


# --- false alarms and power -------------------------------------------------------------------------------------------


def sum_audit(claim: float, true: float) -> tuple[Release, list[Score]]:
    """A biased sum of three, the first of whom loses `true`."""
    mechanism = linear_query([0.5, 1.0, 0.2], 0.5 / true, arithmetic="ideal")
    zero, one = np.array([0.0, 0.3, 1.0]), np.array([1.0, 0.3, 1.0])
    release = either(
        lambda rng, n: mechanism.release(zero, rng=rng, size=n), lambda rng, n: mechanism.release(one, rng=rng, size=n)
    )
    return release, [log_ratio(float(mechanism.mean(zero)), float(mechanism.mean(one)), claim / 0.5)]


def ridge_audit(d: int, own: float) -> tuple[Release, list[Score], float]:
    """Two data sets that differ in a label of the first seller, and what she really loses between them."""
    X, y = np.zeros((3, d)), np.array([1.0, 0.0, 0.0])
    X[0] = 1.0
    one, two = (output_perturbation(X, label, [own, 1.0, 1.0], 1e4) for label in (-y, y))
    release = either(lambda rng, n: one.release(rng=rng, size=n), lambda rng, n: two.release(rng=rng, size=n))
    scores: list[Score] = [log_ratio(one.theta, two.theta, one.noise_rate), lambda o: 1e4 * o[:, 0]]
    return release, scores, float(one.noise_rate * np.linalg.norm(one.theta - two.theta))


def shared_by_ten(release: Release, shift: float) -> Release:
    """Ten runs after each other have the same noise; outputs of the two data sets lie `shift` apart."""

    def draw(bits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        noise = release(np.zeros_like(bits), rng)
        return np.repeat(noise[::10], 10) + shift * bits

    return draw


def alarm_checks(release: Release, scores: list[Score], claim: float, audits: int, runs: int, *key: int) -> list[Check]:
    """Shares of p-values below some levels, which must not be above them but for chance."""
    rng = generator(415, *key)
    p = np.array([bit_test(release, scores, claim, runs, rng=rng).p_value for _ in range(audits)])
    return [
        Check(f"p < {level}", audits, (p < level).sum(), 0, stats.binom.isf(FALSE_ALARM / 10, audits, level))
        for level in (0.2, 0.05, 0.01)
    ]


def test_false_alarms() -> None:
    release, scores = sum_audit(0.7, 0.7)
    assert objections(alarm_checks(release, scores, 0.7, 500, 1000)) == []
    release, scores, loss = ridge_audit(2, 0.5)
    assert objections(alarm_checks(release, scores, loss, 200, 1000)) == []
    assert objections(alarm_checks(release, scores, 0.7 * loss, 300, 10_000)) != []  # the claim is too small


def test_runs_must_be_independent() -> None:
    """A correct mechanism whose runs come in tens of equal noise: too many small p-values."""
    release, scores = sum_audit(2.0, 2.0)
    assert objections(alarm_checks(release, scores, 2.0, 300, 1000)) == []
    found = alarm_checks(shared_by_ten(release, 0.5), scores, 2.0, 300, 1000)
    assert objections(found) != [], found


@pytest.mark.parametrize(("claim", "true"), [(0.5, 0.7), (1.0, 1.22), (3.0, 3.6)])
def test_power_of_real_audits(claim: float, true: float) -> None:
    """Rejections of 150 real audits, thresholds learned in each, against the exact binomials at the known event."""
    release, scores = sum_audit(claim, true)
    rng, audits = generator(417, int(10 * claim)), 150
    found = sum(bit_test(release, scores, claim, 10_000, rng=rng).p_value <= FALSE_ALARM for _ in range(audits))
    expected = power(claim, true, 10_000)
    assert 0.7 < expected < 0.999
    error = math.sqrt(expected * (1 - expected) / audits)
    assert -z_limit(3) * error - 0.1 * expected < found / audits - expected < z_limit(3) * error


def caught(d: int, own: float, runs: int = 40_000) -> bool:
    release, scores, _ = ridge_audit(d, own)
    return bit_test(release, scores, own, runs, rng=generator(418, d)).p_value <= FALSE_ALARM


always = spherical_laplace(2, 1.0, rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("name", "value", "dimensions"),
    [
        ("spherical_laplace", times(0.5), (1, 2)),
        ("spherical_laplace", with_shape(-1), (1, 2)),
        ("spherical_laplace", laplace_by_coordinate, (2,)),
        ("spherical_laplace", lambda d, rate, *, rng, size=(): np.resize(always[:d] / rate, (size, d)), (1, 2)),
        ("personalized_weights", lambda eps: np.full(len(eps), 1 / len(eps)), (1, 2)),
    ],
    ids=["half the noise", "shape d-1", "i.i.d. Laplace", "constant noise", "equal weights"],
)
def test_broken_ridge_is_caught(
    name: str, value: Callable[..., Any], dimensions: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not caught(1, 0.5) and not caught(2, 0.5)
    monkeypatch.setattr(ridge, name, value)
    assert [d for d in (1, 2) if caught(d, 0.5)] == list(dimensions)


def test_broken_sum_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    release, scores = sum_audit(0.5, 0.5)
    assert bit_test(release, scores, 0.5, 20_000, rng=generator(419)).p_value > FALSE_ALARM
    answer = queries.BiasedLaplace.mean
    monkeypatch.setattr(queries.BiasedLaplace, "mean", lambda self, terms: 2 * answer(self, terms))
    assert bit_test(sum_audit(0.5, 0.5)[0], scores, 0.5, 20_000, rng=generator(419)).p_value <= FALSE_ALARM


def test_unrounded_scores_see_floating_point() -> None:
    """Correct in ideal arithmetic, and told apart far better than that by the last digits of its outputs."""
    mechanism = linear_query([1.0], 10.0, arithmetic="ideal")
    release = either(
        lambda rng, n: 0.3 + mechanism.release([0.0], rng=rng, size=n),
        lambda rng, n: 0.3 + mechanism.release([1.0], rng=rng, size=n),
    )
    scores: list[Score] = [log_ratio(0.3, 1.3, 0.1)]
    rounded, raw = (bit_test(release, scores, 0.1, 20_000, rng=generator(420), digits=k) for k in (9, None))
    assert rounded.p_value > FALSE_ALARM
    assert raw.p_value < FALSE_ALARM and raw.epsilon_lower() > 0.3


@pytest.mark.parametrize("unit", [1e-300, 1e-10, 1.0, 1e10])
def test_units_of_scores_do_not_matter(unit: float) -> None:
    """No noise at all, and a hundredth of it, are seen in any unit; the right noise is not."""

    def audit(noise: float, claim: float = 0.5) -> float:
        release = either(*(lambda rng, n, c=c: unit * (c + rng.laplace(0, noise, n)) for c in (0.0, 1.0)))
        return bit_test(release, [lambda o: o], claim, 4000, rng=generator(421)).p_value

    assert audit(0.0) < 1e-20 and audit(0.02) < 1e-20 and audit(2.0) > FALSE_ALARM


@pytest.mark.parametrize("value", [0.0, 3.0, 1e-300])
def test_constant_scores_are_refused(value: float) -> None:
    release = either(*(lambda rng, n, tiny=tiny: np.full(n, value * (1 + tiny)) for tiny in (0.0, 1e-13)))
    with pytest.raises(ValueError, match="scores are the same in all runs, to 9 digits"):
        bit_test(release, [lambda o: o], 0.5, 1000, rng=generator(422))


def test_runs_that_share_a_draw_are_refused() -> None:
    """One release a call, of a correct mean: as a scalar, and spread over the runs. No noise at all is still seen."""

    def one_mean(c: float, spread: bool) -> Any:
        return lambda rng, n: np.full(n, c + rng.laplace(0, 2.0)) if spread else c + rng.laplace(0, 2.0)

    scores: list[Score] = [lambda o: o]
    for spread, message in ((False, r"sampler must give \d+ outputs, .*, got shape \(\)"), (True, "share one draw")):
        with pytest.raises(ValueError, match=message):
            bit_test(either(one_mean(0.0, spread), one_mean(1.0, spread)), scores, 0.5, 1000, rng=generator(423))
    wrong = either(lambda rng, n: rng.laplace(size=n - 1), lambda rng, n: rng.laplace(size=n))
    with pytest.raises(ValueError, match=r"sampler must give \d+ outputs, one for each run, got shape \(\d+,\)"):
        bit_test(wrong, scores, 0.5, 1000, rng=generator(423))
    without = either(lambda rng, n: np.zeros((n, 2)), lambda rng, n: np.ones((n, 2)))
    assert bit_test(without, [lambda o: o[:, 0]], 0.5, 1000, rng=generator(423)).p_value < 1e-20


# --- what it exposes --------------------------------------------------------------------------------------------------


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
    found = _exceeds(t, loss, d)
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
    for level in (0.05, 0.05 / 6):
        assert _power(claim, true, 70, 1, level) == pytest.approx(exact_power(claim, true, 70, level), abs=1e-5)
    assert _power(claim, claim, 70, 1, 0.05) <= 0.05
    assert power(claim, true, 1000, sellers=3, scores=2) == _power(claim, true, 700, 1, FALSE_ALARM / 6)


@pytest.mark.parametrize("d", [1, 2, 12])
def test_exposed_excess_inverts_the_power(d: int) -> None:
    excess = exposed_excess(0.7, 20_000, dimension=d)
    assert power(0.7, 0.7 * (1 + excess), 20_000, dimension=d) == pytest.approx(0.9, abs=2e-3)
    more = exposed_excess(0.7, 20_000, dimension=d, sellers=1000, scores=2), exposed_excess(0.7, 40_000, dimension=d)
    assert more[0] > excess > more[1]
    assert exposed_excess(0.7, 20_000, dimension=d, power=0.5) < excess < exposed_excess(0.7, 20_000, dimension=d + 1)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": []}, r"scores is empty"),
        ({"release": lambda bits, rng: np.zeros(7)}, r"release gave 7 outputs for 200 bits"),
        ({"scores": [lambda o: o, lambda o: o[:5]]}, r"scores\[1\] must give 200 finite numbers, got shape \(5,\)"),
        ({"scores": [lambda o: o * math.nan]}, r"scores\[0\] must give 200 finite numbers"),
    ],
)
def test_bad_audit(change: dict[str, Any], message: str) -> None:
    release, scores = sum_audit(1.0, 1.0)
    given = {"release": release, "scores": scores, "claim": 1.0, "runs": 200, "rng": generator()} | change
    with pytest.raises(ValueError, match=message):
        bit_test(given.pop("release"), given.pop("scores"), given.pop("claim"), given.pop("runs"), **given)


def test_nothing_is_exposed() -> None:
    with pytest.raises(ValueError, match=r"runs = 1000 expose no excess of claim = 30\.0, however large"):
        exposed_excess(30.0, 1000)
