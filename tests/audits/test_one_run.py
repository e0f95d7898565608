"""Audits of one training, against the worst of all private trainings: by linear programs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import optimize, sparse, stats
from scipy.special import expit

from hdpm_lib import audit_one_run
from hdpm_lib.audits.one_run import (
    OneRunAudit,
    one_run_epsilon,
    one_run_p_value,
    plant_canaries,
)
from tests.support import generator, refusals

Rejects = Callable[[np.ndarray, np.ndarray], bool]  # of scores and coins


# --- the worst of all private trainings ---------------------------------------------------------


def largest_rejection(rejects: Rejects, epsilon: Any, delta: float, m: int = 4) -> float:
    """Largest probability to reject, over all trainings of `m` canaries that keep the promise.

    The output of a training is the order of the scores; what else it may show is of no use to the
    audit. The promise is one inequality for each pair of neighbours and each set of outputs: the
    sum over the outputs of what one probability exceeds the other by is at most delta.
    """
    outputs = [np.array(order, dtype=float) for order in itertools.permutations(range(m))]
    settings = [np.array(coins, dtype=bool) for coins in itertools.product((False, True), repeat=m)]
    where = {tuple(coins): k for k, coins in enumerate(settings)}
    losses = np.broadcast_to(epsilon, m)
    n = len(outputs)
    chances = len(settings) * n
    gain = np.zeros(chances + chances * m)
    rows, columns, values, limits = [], [], [], []
    for a, coins in enumerate(settings):
        for t, scores in enumerate(outputs):
            gain[a * n + t] = rejects(scores, coins) / len(settings)
        for i in range(m):
            turned = coins.copy()
            turned[i] = not coins[i]
            b = where[tuple(turned)]
            excess = chances + (a * m + i) * n
            for t in range(n):
                rows += [len(limits)] * 3
                columns += [a * n + t, b * n + t, excess + t]
                values += [1.0, -math.exp(losses[i]), -1.0]
                limits.append(0.0)
            rows += [len(limits)] * n
            columns += range(excess, excess + n)
            values += [1.0] * n
            limits.append(delta)
    shape = (len(limits), len(gain))
    promise = sparse.csr_array((values, (rows, columns)), shape=shape)
    total = sparse.csr_array(np.kron(np.eye(len(settings)), np.ones(n)))
    total.resize((len(settings), len(gain)))
    worst = optimize.linprog(
        -gain, A_ub=promise, b_ub=limits, A_eq=total, b_eq=np.ones(len(settings))
    )
    assert worst.success
    return float(-worst.fun)


def audited(epsilon: Any, delta: float, level: float, guesses: Any) -> Rejects:
    def rejects(scores: np.ndarray, coins: np.ndarray) -> bool:
        return audit_one_run(scores, coins, epsilon, delta, guesses=guesses, level=level).found

    return rejects


PROMISES = [(0.0, 0.0), (0.4, 0.0), (0.0, 0.02), (0.4, 0.05), (1.0, 0.01)]


@pytest.mark.parametrize(("epsilon", "delta"), PROMISES)
@pytest.mark.parametrize("guesses", [4, 3, 2, [4, 2]])
def test_no_training_that_keeps_its_promise_is_rejected_too_often(
    epsilon: float, delta: float, guesses: Any
) -> None:
    """At the levels at which some outcome is just rejected."""
    sizes = np.atleast_1d(guesses).tolist()
    rejected = 0
    for made, right in itertools.product(sizes, range(1, 5)):
        if right <= made:
            level = len(sizes) * one_run_p_value(right, made, 4, epsilon, delta) * (1 + 1e-12)
            if level < 0.9:
                found = largest_rejection(audited(epsilon, delta, level, guesses), epsilon, delta)
                assert found <= level + 1e-7
                rejected += found > 0
    assert rejected


def test_the_bound_exceeds_the_loss_as_rarely_as_it_says() -> None:
    """The same of the bound: it exceeds a loss just where a claim of this loss is rejected."""
    for epsilon, delta in PROMISES:
        wrong = min(0.9, 2 * one_run_p_value(4, 4, 4, epsilon, delta) * 1.001)

        def above(
            scores: np.ndarray, coins: np.ndarray, epsilon: float = epsilon, delta: float = delta
        ) -> bool:
            audit = audit_one_run(scores, coins, 0.0, delta, guesses=[4, 2])
            return audit.epsilon_lower(1 - wrong) > epsilon  # noqa: B023

        assert 0 < largest_rejection(above, epsilon, delta) <= wrong + 1e-7


def test_personal_promises_are_not_rejected_too_often() -> None:
    losses = np.array([0.0, 0.3, 0.8, 1.5])
    for delta, guesses, level in itertools.product((0.0, 0.03), (4, 2, [4, 2]), (0.3, 0.6)):
        found = largest_rejection(audited(losses, delta, level, guesses), losses, delta)
        assert found <= level + 1e-7
    # and at the level at which all right is just rejected
    all_right = float(expit(losses).prod())
    level = all_right * (1 + 1e-12)
    assert 0 < largest_rejection(audited(losses, 0.0, level, 4), losses, 0.0) <= level + 1e-7
    assert largest_rejection(audited(losses, 0.0, 0.99 * all_right, 4), losses, 0.0) == 0


FAULTY = 0.4, 0.05  # the promise that is kept
LEVEL = 1.001 * one_run_p_value(2, 2, 4, *FAULTY)
HIGHER = 1.001 * one_run_p_value(3, 4, 4, *FAULTY)
LOWER = 1.001 * one_run_p_value(4, 4, 4, FAULTY[0])


def off_by_one(scores: np.ndarray, coins: np.ndarray) -> bool:
    """The tail starts after what was found."""
    right = int(audit_one_run(scores, coins, *FAULTY, guesses=2).right[0])
    return one_run_p_value(min(right + 1, 2), 2, 4, *FAULTY) <= LEVEL


def chosen_after_looking(scores: np.ndarray, coins: np.ndarray) -> bool:
    """The number of guesses that does best counts as if no other had been tried."""
    audits = [audit_one_run(scores, coins, *FAULTY, guesses=made) for made in (4, 2)]
    return min(audit.p_value for audit in audits) <= HIGHER


def delta_forgotten(scores: np.ndarray, coins: np.ndarray) -> bool:
    """The claim has a delta, and the p-value has none."""
    return audit_one_run(scores, coins, FAULTY[0], guesses=4).p_value <= LOWER


def test_faults_are_seen() -> None:
    """For each of them a private training that the audit rejects too often."""
    for fault, level in (
        (off_by_one, LEVEL),
        (chosen_after_looking, HIGHER),
        (delta_forgotten, LOWER),
    ):
        excess = largest_rejection(fault, *FAULTY) - level
        assert excess > 0.01, f"{fault.__doc__} {excess:.4f}"


# --- the law of right guesses -------------------------------------------------------------------


def largest_tail(right: int, made: int, budget: float, epsilon: float) -> float:
    """Largest probability of so many right guesses, by a linear program in the law of their number.

    A private training may be mixed with itself, its canaries in another order and its coins turned:
    what comes out treats all canaries alike, and is private between two settings just if
    probabilities of one right guess more and less keep their distance. `budget` is m times delta.
    """
    p = np.arange(made + 1)
    step = np.arange(1, made + 1)
    more = sparse.lil_array((made, made + 1))  # a right guess exceeds a wrong one
    less = sparse.lil_array((made, made + 1))
    more[step - 1, step] = step
    more[step - 1, step - 1] = -math.exp(epsilon) * (made - step + 1)
    less[step - 1, step - 1] = made - step + 1.0
    less[step - 1, step] = -math.exp(epsilon) * step
    excess = -sparse.eye_array(2 * made)
    inequalities = sparse.hstack([sparse.vstack([more, less]), excess])
    total = np.concatenate([np.zeros(made + 1), np.ones(2 * made)])
    worst = optimize.linprog(
        -np.concatenate([p >= right, np.zeros(2 * made)]),
        A_ub=sparse.vstack([inequalities, sparse.csr_array(total[None])]).tocsr(),
        b_ub=np.append(np.zeros(2 * made), budget),
        A_eq=1 - total[None].clip(0, 1),
        b_eq=[1.0],
    )
    assert worst.success
    return float(-worst.fun)


@pytest.mark.parametrize("made", [1, 2, 5, 12, 30])
def test_no_smaller_p_value_will_do(made: int) -> None:
    """A private training attains it, for each number of right guesses."""
    canaries = 2 * made
    for epsilon, delta, right in itertools.product(
        (0.0, 0.5, 2.0), (0.0, 1e-3, 0.02), {1, made // 2 + 1, made - 1, made} - {0}
    ):
        p_value = one_run_p_value(right, made, canaries, epsilon, delta)
        attained = largest_tail(right, made, canaries * delta, epsilon)
        assert p_value == pytest.approx(attained, abs=2e-6)


def printed_p_value(right: int, made: int, canaries: int, epsilon: float, delta: float) -> float:
    """The paper's Corollary 5.4, as its Appendix D computes it."""
    tail = lambda v: stats.binom.sf(v - 1, made, expit(epsilon))  # noqa: E731
    i = np.arange(1, right + 1)
    slope = float(((tail(right - i) - tail(right)) / i).max())
    return float(tail(right) + 2 * canaries * delta * slope)


def test_the_correction_is_at_most_half_of_the_printed_one() -> None:
    """Where guesses prove something, that is where the tail is a half or less; and not elsewhere:
    there the printed one can be too small.
    """
    for made, epsilon in itertools.product((1, 2, 5, 20, 100, 1000), (0.0, 0.1, 1.0, 3.0)):
        for right in range(1, made + 1):
            pure = one_run_p_value(right, made, made, epsilon)
            if 1e-90 < pure <= 0.5:
                delta = 1e-3 * pure / made
                ours = one_run_p_value(right, made, made, epsilon, delta) - pure
                printed = printed_p_value(right, made, made, epsilon, delta) - pure
                assert 0 < ours <= printed / 2 * (1 + 1e-9)
    # one of two right, at most: a training that keeps (1.5, 0.01) does it more often than printed
    attained = largest_tail(1, 2, 2 * 0.01, 1.5)
    assert attained > printed_p_value(1, 2, 2, 1.5, 0.01) + 8e-4


def test_the_papers_own_numbers() -> None:
    """Bounds that the paper prints, in Appendix D and Section 7: by its formula, and by ours."""
    for (made, right, canaries, delta), printed in {
        (100, 75, 1000, 1e-4): 0.673,
        (1510, 1439, 100_000, 1e-5): 2.675,
    }.items():
        assert printed_p_value(right, made, canaries, printed, delta) == pytest.approx(
            0.05, abs=2e-4
        )
        ours = one_run_epsilon(right, made, canaries, 0.05, delta)
        pure = one_run_epsilon(right, made, canaries, 0.05)
        assert printed + 0.01 < ours < pure


def test_the_bound_is_the_largest_claim_that_is_rejected() -> None:
    sizes = (75, 100), (100, 100), (600, 1000), (9990, 10_000), (10**6, 10**6)
    for (right, made), delta in itertools.product(sizes, (0.0, 1e-9, 1e-6)):
        m = 2 * made
        bound = one_run_epsilon(right, made, m, 0.01, delta)
        assert bound > 0.2
        assert one_run_p_value(right, made, m, bound, delta) <= 0.01 * (1 + 1e-9)
        assert one_run_p_value(right, made, m, bound + 1e-6, delta) > 0.01
    assert one_run_epsilon(0, 0, 10, 0.05) == one_run_epsilon(5, 10, 10, 0.05) == 0
    assert one_run_epsilon(10, 10, 10, 0.05, delta=0.5) == 0
    assert one_run_p_value(0, 10, 10, 1.0) == one_run_p_value(0, 0, 10, 1.0) == 1


def test_p_values_beyond_the_floats() -> None:
    """They fall with each right guess, rise with claim and delta, and warn of nothing."""
    for made in (10, 1000, 10**6):
        for epsilon in (0.0, 1.0, 50.0, 1e3):
            right = np.unique(np.linspace(0, made, 30).astype(int))
            for delta in (0.0, 1e-12, 0.3):
                p = np.array([one_run_p_value(int(v), made, made, epsilon, delta) for v in right])
                higher = [one_run_p_value(int(v), made, made, epsilon + 1, delta) for v in right]
                assert ((p >= 0) & (p <= 1)).all() and (np.diff(p) <= 1e-12).all()
                assert (p <= np.array(higher) + 1e-12).all()


# --- personal promises --------------------------------------------------------------------------


def test_personal_p_values_are_those_of_independent_guesses() -> None:
    """Against the sum over all outcomes; and against a binomial where all claims are the same."""
    rng = generator(3)
    for _ in range(20):
        m = 9
        claims = rng.uniform(0, 3, m)
        scores = rng.permutation(m).astype(float)
        coins = rng.random(m) < 0.5
        made = int(rng.integers(1, m + 1))
        found = audit_one_run(scores, coins, claims, guesses=made)
        order = np.argsort(-scores)
        guessed = np.concatenate([order[: -(-made // 2)], order[m - made // 2 :]])
        tail = 0.0
        for outcome in itertools.product((False, True), repeat=made):
            if sum(outcome) >= found.right[0]:
                p = expit(claims[guessed])
                tail += np.where(outcome, p, 1 - p).prod()
        assert found.p_value == pytest.approx(tail, rel=1e-12)
        free = audit_one_run(scores, coins, claims, 1e-3, guesses=made).p_value
        assert free == pytest.approx(min(1.0, tail + 1e-3 * (1 - expit(claims)).sum()), rel=1e-12)
        same = np.full(m, claims[0])
        plain = audit_one_run(scores, coins, claims[0], 1e-3, guesses=made).p_value
        assert audit_one_run(scores, coins, same, 1e-3, guesses=made).p_value == plain
        barely = same + 1e-13 * np.arange(m)
        assert audit_one_run(scores, coins, barely, guesses=made).p_value == pytest.approx(
            audit_one_run(scores, coins, same, guesses=made).p_value, rel=1e-9
        )


# --- trainings ----------------------------------------------------------------------------------


def along(model: np.ndarray, canaries: np.ndarray) -> np.ndarray:
    return canaries @ model


def test_what_is_trained() -> None:
    """Once: others, then in order the canaries that are in, or what stands in their places."""
    seen = []

    def train(data: Any, rng: np.random.Generator) -> float:
        seen.append(data)
        return float(rng.random())

    def score(model: float, canaries: Any) -> np.ndarray:
        assert canaries is planted
        return np.full(6, model)

    X, y = np.arange(4.0).reshape(2, 2), np.array(["a", "b"])
    planted = 10 + np.arange(12.0).reshape(6, 2), np.array(list("cdefgh"))
    scores, coins = plant_canaries(train, (X, y), planted, score, rng=generator(11))
    assert len(seen) == 1 and (scores == scores[0]).all()
    np.testing.assert_array_equal(seen[0][0], np.concatenate([X, planted[0][coins]]))
    assert seen[0][1].tolist() == ["a", "b", *planted[1][coins]]
    instead = -planted[0], np.array(list("CDEFGH"))
    again = plant_canaries(train, (X, y), planted, score, rng=generator(11), instead=instead)
    np.testing.assert_array_equal(again[0], scores)  # the same coins, the same training
    np.testing.assert_array_equal(again[1], coins)
    np.testing.assert_array_equal(seen[1][0][2:], np.where(coins[:, None], planted[0], instead[0]))
    assert "".join(seen[1][1][2:]).lower() == "cdefgh"
    assert [letter.islower() for letter in seen[1][1][2:]] == coins.tolist()


def test_ties_are_broken_without_the_coins() -> None:
    coins = np.array([True, False, True, False])
    for turned in (coins, ~coins):
        assert audit_one_run(np.zeros(4), turned, 1.0, guesses=2).right.tolist() == [
            int(turned[0]) + int(~turned[3])
        ]
    assert audit_one_run([3, 2, 1, 0], coins, 1.0, guesses=[4, 3, 1]).right.tolist() == [2, 2, 1]


def test_default_numbers_of_guesses() -> None:
    for m, made in {
        1: [1],
        19: [19],
        50: [50, 25, 12],
        10_000: [10_000, 5000, 2500, 1250, 625],
    }.items():
        coins = generator(12).random(m) < 0.5
        assert audit_one_run(np.zeros(m), coins, 1.0).made.tolist() == made


def test_what_it_says() -> None:
    coins = np.arange(40) >= 20
    claims = np.linspace(0.5, 1, 40)
    found = audit_one_run(np.arange(40.0), coins, claims, 1e-3)
    assert isinstance(found, OneRunAudit) and "epsilon from 0.5 to 1, delta = 0.001" in str(found)
    nothing = audit_one_run(np.zeros(40), coins, 1.0)
    assert nothing.epsilon_lower(0.5) == 0 and nothing.p_value == 1.0
    assert str(nothing).startswith("no violation found")
    with pytest.raises(ValueError, match="read-only"):
        found.right[0] = 0


FOUR = np.array([True, False, True, False])
test_bad_arguments_are_refused = refusals(
    (lambda: audit_one_run(np.zeros(4), [1, 0, 1, 0], 1.0), "included must be booleans"),
    (lambda: audit_one_run(np.zeros(3), FOUR, 1.0), r"shape of scores, \(3,\), got bool of shape"),
    (lambda: audit_one_run([0.0, np.nan, 0, 0], FOUR, 1.0), "scores must be finite"),
    (lambda: audit_one_run(np.zeros(4), FOUR, [1.0, 2.0]), "one for each of 4 canaries"),
    (lambda: audit_one_run(np.zeros(4), FOUR, -1.0), "epsilon must be finite and not negative"),
    (lambda: audit_one_run(np.zeros(4), FOUR, 1.0, guesses=5), "guesses must be an integer from"),
    (lambda: audit_one_run(np.zeros(4), FOUR, 1.0, guesses=[]), "guesses must be numbers"),
    (lambda: audit_one_run(np.zeros(4), FOUR, 1.0, guesses=[2.5]), "guesses must be an integer"),
    (lambda: audit_one_run(np.zeros(99), np.ones(99, bool), 1.0), "fair coins.* got 99 of 99"),
    (lambda: one_run_p_value(3, 2, 4, 1.0), "right must be an integer from 0 to 2, got 3"),
    (lambda: one_run_p_value(1, 5, 4, 1.0), "made must be an integer from 0 to 4, got 5"),
    (
        lambda: plant_canaries(along, np.zeros(3), (FOUR, FOUR), along, rng=generator(0)),
        "data must have 2 parts like canaries, got 1",
    ),
    (
        lambda: plant_canaries(along, FOUR, FOUR, along, rng=generator(0), instead=FOUR[:3]),
        "instead must have the shape of canaries",
    ),
    (
        lambda: plant_canaries(along, (FOUR, FOUR[:1]), (FOUR, FOUR), along, rng=generator(0)),
        "data must have as many records in each part",
    ),
    (
        lambda: plant_canaries(
            lambda data, rng: data, FOUR, FOUR, lambda model, them: np.zeros(3), rng=generator(0)
        ),
        r"scores must have shape \(4,\), one for each canary",
    ),
)
