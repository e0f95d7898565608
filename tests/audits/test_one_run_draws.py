"""Audits of one training, against true losses: by draws, and of trainings that are broken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from hdpm_lib import audit_one_run
from hdpm_lib.audits.one_run import one_run_epsilon, plant_canaries
from hdpm_lib.validation import FALSE_ALARM
from tests.support import generator

# --- against true losses ------------------------------------------------------------------------


def answers(coins: np.ndarray, epsilon: Any, rng: np.random.Generator) -> np.ndarray:
    """Randomised response to each coin, which loses just epsilon."""
    kept = rng.random(len(coins)) < expit(epsilon)
    return np.where(kept, coins, ~coins).astype(float)


def noisy_sum(coins: np.ndarray, epsilon: Any, rng: np.random.Generator) -> np.ndarray:
    """The sum of one-hot records with Laplace noise: each coordinate loses just epsilon."""
    return coins + rng.laplace(0, 1 / np.asarray(epsilon), len(coins))


def leaky_answers(coins: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Randomised response that tells the coin with probability delta."""
    told = rng.random(len(coins)) < DELTA
    return np.where(told, 4.0 * coins - 1.5, answers(coins, epsilon, rng))


DELTA = 0.01


@pytest.mark.parametrize("training", [answers, noisy_sum, leaky_answers])
@pytest.mark.parametrize("m", [60, 1000])
def test_true_claims_are_rejected_as_rarely_as_said(training: Any, m: int) -> None:
    """At a level of 0.2: no more often than binomial draws of probability 0.2 are, at the shared
    rate of false alarms. A bound is too high just where the true claim is rejected.
    """
    rng = generator(5, m)
    audits = 600
    delta = DELTA if training is leaky_answers else 0.0
    for epsilon in (0.3, 1.0, 3.0):
        rejected = 0
        for k in range(audits):
            coins = rng.random(m) < 0.5
            found = audit_one_run(training(coins, epsilon, rng), coins, epsilon, delta, level=0.2)
            rejected += found.found
            if k < 50:
                assert found.found == (found.epsilon_lower(0.8) > epsilon)
        assert stats.binom.sf(rejected - 1, audits, 0.2) > FALSE_ALARM, (epsilon, rejected)


def test_at_one_number_of_guesses_the_bound_has_just_its_confidence() -> None:
    """Randomised response on all canaries is the worst case: false alarms are as frequent as the
    steps of a binomial let them be, neither more nor much less.
    """
    rng = generator(6)
    audits = 4000
    for level in (0.2, 0.05):
        m = 500
        right = rng.binomial(m, expit(1.0), audits)
        bounds = {v: one_run_epsilon(v, m, m, level) for v in set(right.tolist())}
        above = sum(bounds[v] > 1.0 for v in right.tolist())
        v = np.arange(m + 1)
        tails = stats.binom.sf(v - 1, m, expit(1.0))
        size = tails[tails <= level].max()
        assert (
            min(stats.binom.sf(above - 1, audits, size), stats.binom.cdf(above, audits, size))
            > FALSE_ALARM / 2
        )
        assert size > 0.8 * level


SHARES = {1000: (0.65, 0.75, 0.75), 10_000: (0.88, 0.9, 0.9)}


@pytest.mark.parametrize("m", SHARES)
def test_bounds_reach_most_of_the_loss(m: int) -> None:
    """Mean bounds at confidence 0.95, as shares of the true losses 1, 2 and 4."""
    rng = generator(7, m)
    for training in (answers, noisy_sum):
        for epsilon, share in zip((1.0, 2.0, 4.0), SHARES[m], strict=True):
            bounds = []
            for _ in range(30):
                coins = rng.random(m) < 0.5
                found = audit_one_run(training(coins, epsilon, rng), coins, epsilon)
                bounds.append(found.epsilon_lower(0.95))
            assert share < np.mean(bounds) / epsilon < 1


# --- trainings ----------------------------------------------------------------------------------


def released(
    data: np.ndarray, rng: np.random.Generator, *, scale: float, clip: float
) -> np.ndarray:
    """A sum of records, clipped in the L1 norm, with Laplace noise."""
    norms = np.abs(data).sum(axis=1, keepdims=True)
    return (data * np.minimum(1, clip / norms)).sum(axis=0) + rng.laplace(0, scale, data.shape[1])


def along(model: np.ndarray, canaries: np.ndarray) -> np.ndarray:
    return canaries @ model


@pytest.mark.parametrize(
    ("scale", "clip", "broken"), [(1.0, 1.0, False), (0.1, 1.0, True), (1.0, np.inf, True)]
)
def test_broken_trainings_are_found(scale: float, clip: float, broken: bool) -> None:
    """Noise ten times too short, and a clip that was left out, for canaries of norm 10."""
    m = 400
    others = generator(8).uniform(-1, 1, (50, m))

    def train(data: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return released(data, rng, scale=scale, clip=clip)

    scores, coins = plant_canaries(train, others, 10 * np.eye(m), along, rng=generator(9))
    found = audit_one_run(scores, coins, 1.0)
    assert found.found is broken
    assert str(found).startswith("violation found") is broken
    assert (found.epsilon_lower() > 1.0) is broken


def test_a_promise_for_records_replaced() -> None:
    """One-hot records turn their sign: twice as far as left out, and twice the loss."""
    m = 2000

    def train(data: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return released(data, rng, scale=1.0, clip=1.0)

    here = np.eye(m)
    scores, coins = plant_canaries(
        train, np.zeros((0, m)), here, along, rng=generator(10), instead=-here
    )
    found = audit_one_run(scores, coins, 1.0)
    assert found.found and found.epsilon_lower() < 2.0
    assert not audit_one_run(scores, coins, 2.0).found


def test_a_broken_personal_promise_is_found() -> None:
    """A fifth of the canaries are promised 0.1 and lose 3, the others 3 and lose 3. One claim for
    all, 3, is kept; and who is promised 0.1 and loses 0.1 raises no alarm.
    """
    rng = generator(4)
    m = 2000
    careful = np.arange(m) % 5 == 0
    claims = np.where(careful, 0.1, 3.0)
    for lost, broken in ((np.full(m, 3.0), True), (claims, False)):
        coins = rng.random(m) < 0.5
        scores = answers(coins, lost, rng)
        assert audit_one_run(scores, coins, claims).found is broken
        assert not audit_one_run(scores, coins, 3.0).found
