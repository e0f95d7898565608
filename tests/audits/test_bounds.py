"""Exact bounds from right guesses: against enumeration of all counts, and against each other."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from hdpm_lib.audits.bounds import (
    detectable,
    guess_epsilon,
    guess_p_value,
    holm,
    most_right,
    power_of_guesses,
)

CASES = [(0.0, 0.0, 2), (1.0, 0.0, 1), (0.5, 0.1, 1), (0.5, 0.1, 2), (2.0, 0.02, 2)]


@pytest.mark.parametrize(("epsilon", "delta", "sides"), CASES)
def test_a_release_at_the_claim_attains_the_bound(epsilon: float, delta: float, sides: int) -> None:
    """With probability delta the release tells the bit, else it is randomised response; it may be
    silent by chance.
    """
    silent = 0.4
    p = expit(epsilon)
    if sides == 2:
        right = delta + (1 - delta) * (1 - silent) * p
        made = delta + (1 - delta) * (1 - silent)
    else:  # only the second data set is ever guessed: the other half of what tells is not used
        right = delta / 2 + (1 - delta) * (1 - silent) * p / 2
        made = delta / 2 + (1 - delta) * (1 - silent) / 2
    assert most_right(made, epsilon, delta, sides) == pytest.approx(right / made, abs=1e-12)


def largest_size(level: float, epsilon: float, delta: float, sides: int) -> float:
    """Probability of a p-value of at most `level` under the worst laws of the claim, by
    enumeration.
    """
    runs = 40
    worst = 0.0
    made = np.arange(runs + 1)
    small = [
        guess_epsilon(np.arange(k + 1), np.full(k + 1, k), runs, level, delta, sides) >= epsilon
        for k in made
    ]
    for guessed in (0.05, 0.2, 0.5, 0.9, 1.0):
        share = float(most_right(guessed, epsilon, delta, sides))
        size = [stats.binom.pmf(np.arange(k + 1), k, share) @ small[k] for k in made]
        worst = max(worst, float(stats.binom.pmf(made, runs, guessed) @ np.array(size)))
    return worst


@pytest.mark.parametrize(("epsilon", "delta", "sides"), CASES)
@pytest.mark.parametrize("level", [0.1, 0.01])
def test_false_alarms_keep_their_level(
    epsilon: float, delta: float, sides: int, level: float
) -> None:
    assert largest_size(level, epsilon, delta, sides) <= level * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "delta", "sides"), CASES)
def test_the_bound_is_where_the_test_stops_rejecting(
    epsilon: float, delta: float, sides: int
) -> None:
    for made, right in ((400, 390), (1000, 950), (1000, 990)):
        low = float(guess_epsilon(right, made, 1000, 1e-3, delta, sides))
        assert low > 0.1
        assert guess_p_value(right, made, 1000, low - 1e-4, delta, sides) <= 1e-3 * (1 + 1e-6)
        assert guess_p_value(right, made, 1000, low + 1e-4, delta, sides) >= 1e-3 * (1 - 1e-6)
        if delta:  # it rejects at the level that it is said to reject at
            level = guess_p_value(right, made, 1000, low, delta, sides)
            assert guess_epsilon(right, made, 1000, level, delta, sides) >= low


def test_no_guess_tells_nothing() -> None:
    assert guess_p_value(0, 0, 100, 1.0) == 1.0
    assert guess_epsilon(0, 0, 100, 0.1) == -np.inf
    assert detectable(1e-9, 100, 1.0, 1e-6) == np.inf


def test_more_runs_than_can_be_counted_are_refused() -> None:
    """Quantiles of binomials are not right there, and a search among them never ends."""
    with pytest.raises(ValueError, match="runs must be an integer from 1 to 1000000000000"):
        detectable(0.1, 1e308, 1.0, 1e-6)  # type: ignore[arg-type]
    assert 1 < detectable(0.1, 10**12, 1.0, 1e-6) < 1.001


def test_a_negative_loss_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^true must be finite and not negative, got -1.0$"):
        power_of_guesses(-1.0, 0.5, 100, 1.0, 1e-6)


def test_power_agrees_with_draws() -> None:
    """20,000 draws: a standard error of at most 0.0036, and a limit of 6 of them (two in a
    billion).
    """
    rng = np.random.default_rng(0)
    for true, guessed, delta in ((1.06, 0.7, 0.0), (1.3, 0.3, 0.02)):
        runs = 20_000
        expected = power_of_guesses(true, guessed, runs, 1.0, 1e-3, delta)
        right = rng.binomial(round(guessed * runs), most_right(guessed, true, delta), 20_000)
        counts, often = np.unique(right, return_counts=True)
        small = [
            guess_p_value(int(c), round(guessed * runs), runs, 1.0, delta) <= 1e-3 for c in counts
        ]
        assert abs(often @ np.array(small) / 20_000 - expected) < 6 * 0.0036


@pytest.mark.parametrize("runs", [500, 50_000, 10**9, 10**12])
def test_what_is_detectable_has_the_power_asked(runs: int) -> None:
    """And never less."""
    for delta in (0.0, 0.01):
        found = detectable(0.5, runs, 0.5, 1e-6, delta)
        assert 0.9 <= power_of_guesses(found, 0.5, runs, 0.5, 1e-6, delta) < 0.9 + 1e-5


def test_holm_rejects_what_is_rejected_beside_all_others() -> None:
    """The closure of Bonferroni's rule: a hypothesis goes if each set with it has a p-value small
    enough for its size.
    """
    rng = np.random.default_rng(0)
    for _ in range(200):
        p = 0.1 * rng.random(4)
        sets = [set(one) for k in range(1, 5) for one in combinations(range(4), k)]
        kept = set().union(*(one for one in sets if min(p[[*one]]) > 0.05 / len(one)))
        assert set(np.flatnonzero(~holm(p, 0.05))) == kept
