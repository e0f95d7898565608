"""The audit of any mechanism: kinds of output, traps, search, personal budgets, estimators, replay, false alarms."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import StandardScaler

from hdpm_lib import Category, Number, PersonalizedRidge, Schema, audit, integer_sum, pdp_op, spread
from hdpm_lib.audits import black_box
from hdpm_lib.audits.bounds import guess_p_value
from hdpm_lib.audits.outcomes import outcomes
from hdpm_lib.audits.pairs import patterns, replacements
from hdpm_lib.audits.scores import Goal, count_guesses, propose
from hdpm_lib.validation import FALSE_ALARM
from tests.support import SEED

Rng = np.random.Generator
ZERO, ONE = np.zeros(1), np.ones(1)
few: Any = partial(audit, runs=20_000, time_limit=None, seed=SEED)


def laplace(data: np.ndarray, rng: Rng, size: int, scale: float = 1.0) -> np.ndarray:
    return data.sum() + rng.laplace(0, scale, size)


def one_at_a_time(data: np.ndarray, rng: Rng) -> float:
    return float(data.sum() + rng.laplace())


# --- what it finds, and what it does not ------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [1e-10, 1.0, 1e10])
def test_a_scale_too_small_is_found_in_any_unit(unit: float) -> None:
    wrong = few(lambda data, rng, size: unit * laplace(data, rng, size, 0.5), ZERO, ONE, 1.0)
    right = few(lambda data, rng, size: unit * laplace(data, rng, size), ZERO, ONE, 1.0)
    assert wrong.found and 1.2 < wrong.epsilon_lower() < wrong.epsilon_lower(0.9) < 2
    assert not right.found and right.epsilon_lower() < 1
    assert str(wrong).startswith("violation found") and str(right).startswith("no violation found")
    assert "private" not in str(right)


def test_no_noise_at_all_is_found() -> None:
    assert few(lambda data, rng: float(data.sum()), ZERO, 1e-10 * ONE, 5.0).found


def answers(kind: str, data: np.ndarray, rng: Rng, size: int, claim: float) -> Any:
    """Randomised response in many clothes: the second answer is given with odds e^claim on the second data set."""
    p = 1 / (1 + np.exp(-claim))
    other = (rng.random(size) < p) == (data.sum() > 0)
    dress = {
        "booleans": lambda: other,
        "integers": lambda: np.where(other, 7, 3),
        "strings": lambda: np.where(other, "yes", "no").tolist(),
        "missing": lambda: [1.5 if o else None for o in other],
        "sequences": lambda: [[1, "a"] if o else ["a"] for o in other],
        "frames": lambda: pd.DataFrame({"a": rng.normal(size=size), "b": other}),
        "vectors": lambda: np.column_stack([rng.normal(size=size), other, rng.normal(size=size)]),
        "infinite": lambda: np.where(other, np.inf, 0.0),
        "not-a-number": lambda: np.where(other, np.nan, 0.0),
        "complex": lambda: rng.normal(size=size) + 1j * other,
        "atom": lambda: np.where(other, 0.25, rng.normal(size=size)),
    }
    return dress[kind]()


KINDS = "booleans integers strings missing sequences frames vectors infinite complex not-a-number atom".split()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_output(kind: str) -> None:
    option = {"nan": "value"} if kind == "not-a-number" else {}
    found = few(lambda data, rng, size: answers(kind, data, rng, size, 1.0), ZERO, ONE, 0.7, **option)
    kept = few(lambda data, rng, size: answers(kind, data, rng, size, 1.0), ZERO, ONE, 1.0, **option)
    assert found.found and not kept.found


def test_approximate_privacy() -> None:
    """The Gaussian mechanism of Balle and Wang (2018): exact at its sigma, broken with a third less."""

    def gauss(data: np.ndarray, rng: Rng, size: int, sigma: float) -> np.ndarray:
        return data.sum() + sigma * rng.standard_normal(size)

    sigma, epsilon = 1.2, 0.5
    delta = stats.norm.cdf(0.5 / sigma - epsilon * sigma) - np.exp(epsilon) * stats.norm.cdf(
        -0.5 / sigma - epsilon * sigma
    )
    assert not few(partial(gauss, sigma=sigma), ZERO, ONE, epsilon, delta).found
    assert few(partial(gauss, sigma=0.67 * sigma), ZERO, ONE, epsilon, delta).found
    assert few(partial(gauss, sigma=sigma), ZERO, ONE, epsilon, 0.0, runs=200_000).found  # no pure privacy


# --- traps ------------------------------------------------------------------------------------------------------------


def test_what_cannot_be_judged_is_refused() -> None:
    noise = np.random.default_rng(0)
    cases: list[tuple[Any, str]] = [
        (lambda data, rng, size: np.full(size, data.sum() + rng.laplace()), "shares one draw in a batch"),
        (lambda data, rng, size: np.full(size, 3.0), "the same output in all"),
        (lambda data, rng: data.sum() + noise.laplace(), "ignores its generator"),
        (lambda data, rng, size: data.sum() + rng.laplace(), "must give 64 releases along the first axis"),
        (lambda data, rng, size: np.where(rng.random(size) < 0.5, np.nan, 1.0), 'nan="value"'),
        (lambda data, rng: object(), "gave a object"),
    ]
    for mechanism, message in cases:
        with pytest.raises((ValueError, TypeError), match=message):
            few(mechanism, ZERO, ONE, 1.0)

    def changes(data: np.ndarray, rng: Rng) -> float:
        data += 1
        return float(rng.laplace())

    with pytest.raises(ValueError, match="changed its data"):
        few(changes, np.zeros(1), ONE, 1.0)
    with pytest.raises(ValueError, match="neighbour is the same as data"):
        few(laplace, ZERO, np.zeros(1), 1.0)
    with pytest.raises(ValueError, match="among is missing"):
        few(laplace, np.zeros((2, 2)), "search", 1.0)
    with pytest.raises(TypeError, match="mechanism must be a function or an estimator, got int"):
        few(3, ZERO, ONE, 1.0)


def test_rare_answers_are_no_shared_draws() -> None:
    rare = lambda data, rng, size: (rng.random(size) < 0.001).astype(int)  # noqa: E731
    assert not few(rare, ZERO, ONE, 0.1).found


# --- pairs, sellers, learners -----------------------------------------------------------------------------------------


def test_patterns_are_neighbours() -> None:
    for alone in (True, False):
        for pair in patterns(np.arange(6.0), alone=alone):
            moved = np.abs(pair.first - pair.second)
            assert 0 < moved.max() <= 1 and (not alone or (moved > 0).sum() == 1)


def test_the_search_finds_the_record_that_is_not_hidden() -> None:
    """Only the last label is used without noise enough, and only if her group is "b"."""
    table = pd.DataFrame({"age": [20.0, 30, 40], "group": ["a", "a", "b"]})

    def mean(data: pd.DataFrame, rng: Rng, size: int) -> np.ndarray:
        leak = 3.0 * (data["group"].iloc[2] == "b")
        return data["age"].mean() / 100 + leak + rng.laplace(0, 1, size)

    public = Schema([Number("age", 0, 100), Category("group", ("a", "b"))], intercept=False)
    found = few(mean, table, "search", 1.0, among=public)
    assert found.found and "record 2" in found.pair and "'a'" in found.pair
    assert len(replacements(table, public, 100, np.random.default_rng(0))) == 12


def test_every_seller_against_her_own_promise() -> None:
    """Four of five promises are kept exactly; the fourth loses half more."""
    promised = np.array([0.2, 0.5, 1.0, 1.0, 2.0])
    lost = promised * [1, 1, 1, 1.5, 1]
    release = lambda data, rng, size: data @ lost + rng.laplace(0, 1, size)  # noqa: E731
    found = few(release, np.zeros(5), lambda i: np.eye(5)[i], promised)
    assert found.found.tolist() == [False, False, False, True, False]
    assert found.table().index[0] == 3 and "record 3" in str(found)
    listed = few(release, np.zeros(5), list(np.eye(5)), promised)
    assert [one.looks for one in listed.sellers] == [one.looks for one in found.sellers]
    searched = few(release, np.zeros(5), "search", promised, among=np.array([0.0, 1.0]))
    assert searched.found.tolist() == found.found.tolist()
    with pytest.raises(ValueError, match="neighbour must have a data set for each of 5 records, got 2"):
        few(release, np.zeros(5), list(np.eye(5)[:2]), promised)


X, y = np.full((6, 1), 1.0), np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
TURNED = np.array([-1.0, 0.0, 0.0, 0.0, 0.0, 0.0])


class Silent(BaseEstimator):
    def fit(self, X: Any) -> Silent:
        return self


def test_learners_and_estimators_as_they_are() -> None:
    learner = partial(pdp_op, epsilon=np.full(6, 0.5), penalty=1e4)
    kept = few(learner, (X, y), (X, TURNED), 0.5)
    assert not kept.found and kept.replayable and kept.mechanism == "pdp_op"
    assert few(learner, (X, y), (X, TURNED), 0.3, runs=200_000).found
    ridge = PersonalizedRidge(epsilon=0.5, penalty=1e4)
    kept = audit(ridge, (X, y), (X, TURNED), 0.5, runs=400, time_limit=None, seed=SEED)
    assert not kept.found and kept.mechanism == "PersonalizedRidge" and kept.replayable
    features = X + np.arange(6)[:, None]
    assert audit(LinearRegression(), (features, y), (features, TURNED), 2.0, runs=400, time_limit=None).found
    assert audit(StandardScaler(), features, features + 1.0, 2.0, runs=400, time_limit=None).found  # data are no tuple
    with pytest.raises(ValueError, match="mechanism Silent learns no numbers"):
        few(Silent(), [[1.0]], [[2.0]], 1.0)
    exact = integer_sum(np.ones(2), 2.0)
    assert not few(
        lambda data, rng, size: exact.release(data, rng=rng, size=size), np.zeros(2), np.array([1.0, 0]), 0.5
    ).found


# --- replay, stopping, time -------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_audit_in_any_number_of_processes() -> None:
    first = few(laplace, ZERO, ONE, 0.8)
    for processes in (1, 2):
        spread.use(processes)
        try:
            again = few(laplace, ZERO, ONE, 0.8, seed=first.seed, runs=first.planned)
        finally:
            spread.use(1)
        assert (again.looks, again.event) == (first.looks, first.event)
    assert audit(one_at_a_time, ZERO, ONE, 1.0, runs=200).seed != audit(one_at_a_time, ZERO, ONE, 1.0, runs=200).seed
    assert not audit(lambda data: data.sum() + np.random.default_rng().laplace(), ZERO, ONE, 1.0, runs=200).replayable


def test_it_stops_early_only_if_asked() -> None:
    wrong = partial(laplace, scale=0.2)
    assert few(wrong, ZERO, ONE, 1.0).looks[-1].runs < 20_000
    assert few(wrong, ZERO, ONE, 1.0, early=False).looks[-1].runs == 20_000
    assert sum(share for _, share in black_box.LOOKS) == 1


def test_a_time_limit_is_kept() -> None:
    def slow(data: np.ndarray, rng: Rng) -> float:
        sum(range(20_000))
        return one_at_a_time(data, rng)

    found = audit(slow, ZERO, ONE, 1.0, time_limit=1.0, seed=SEED)
    assert found.planned < 100_000 and found.seconds < 20


@pytest.mark.parametrize("level", [0.05, 0.01])
def test_false_alarms(level: float) -> None:
    """100 audits of a mechanism at its exact claim; more objections than the binomial law of the level allows fail."""
    runs = partial(audit, runs=1000, time_limit=None, level=level)
    count = sum(runs(laplace, ZERO, ONE, 1.0, seed=1000 * SEED + k).found for k in range(100))
    assert count <= stats.binom.isf(FALSE_ALARM, 100, level)


def test_rules_tested_where_they_were_learned_cry_wolf() -> None:
    """The same count for rules that are tested on the runs that chose them."""
    count = 0
    for k in range(60):
        rng = np.random.default_rng([SEED, k])
        seen, bits = outcomes(rng.normal(size=(400, 20))), rng.integers(0, 2, 400).astype(bool)
        rule = max(propose(seen, bits, Goal(400, 0.05, 0.0)), key=lambda one: one.promise)
        ((made, right),) = count_guesses([rule], seen, bits)
        count += guess_p_value(int(right), int(made), 400, 0.0) <= 0.05
    assert count > stats.binom.isf(FALSE_ALARM, 60, 0.05)


def test_outcomes_keep_numbers_and_labels_apart() -> None:
    seen = outcomes([(1, "a"), (2.5,), (None, "b")])
    assert seen.numbers.tolist() == [[1, 0], [2.5, 0], [0, 0]]
    assert seen.labels is not None and seen.labels.tolist() == [[None, "a"], [None, "absent"], ["None", "b"]]
