"""The audit of any mechanism: traps, evidence, last digits, the search for a pair."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import BaseEstimator

from hdpm_lib import Category, Number, Schema
from hdpm_lib.audits.black_box import _LEAST, Audits, Look, _affordable, _best_on_fresh_runs, _Work
from hdpm_lib.audits.outcomes import Column, outcomes
from hdpm_lib.audits.pairs import patterns, replacements
from hdpm_lib.audits.scores import (
    Counts,
    Ends,
    Goal,
    Learned,
    Rule,
    Value,
    _additive,
    _boosted,
    best_rules,
    last_digits,
)
from hdpm_lib.audits.sources import _TRIED, repeats
from hdpm_lib.validation import FALSE_ALARM
from tests.audits.mechanisms import ONE, ZERO, Rng, few, fine, laplace, one_at_a_time
from tests.support import SEED, refusals

# --- traps --------------------------------------------------------------------------------------


class Silent(BaseEstimator):
    def fit(self, X: Any) -> Silent:
        return self


def changes(data: np.ndarray, rng: Rng) -> float:
    data += 1
    return float(rng.laplace())


NOISE = np.random.default_rng(0)
SAME: Any = lambda data, size: data.sum() + np.random.default_rng(0).laplace(size=size)  # noqa: E731


def judged(*arguments: Any) -> Callable[[], Any]:
    """An audit of these, and of neighbours and a claim if they are missing."""
    return lambda: few(*arguments, *(ZERO, ONE, 1.0)[len(arguments) - 1 :])


test_what_cannot_be_judged_is_refused = refusals(
    (
        judged(lambda data, rng, size: np.full(size, data.sum() + rng.laplace())),
        "shares one draw in a batch",
    ),
    (judged(SAME), "shares one draw .* in all calls"),
    (judged(lambda data, rng, size: np.full(size, 3.0)), "the same output in all"),
    (judged(lambda data, rng: data.sum() + NOISE.laplace()), "ignores its generator"),
    (
        judged(lambda data, rng, size: data.sum() + rng.laplace()),
        "must give 64 releases along the first axis",
    ),
    (judged(lambda data, rng, size: np.where(rng.random(size) < 0.5, np.nan, 1.0)), 'nan="value"'),
    (judged(lambda data, rng: object()), "gave a object"),
    (judged(lambda data, rng: data["missing"]), "raised IndexError: .*, and so on both"),
    (judged(changes, np.zeros(1)), "changed its data"),
    (judged(laplace, ZERO, np.zeros(1)), "neighbour is the same as data"),
    (judged(laplace, np.zeros(3), "search"), "among is missing"),
    (lambda: few(laplace, ZERO, ONE, 1.0, runs=10**400), "runs must be an integer from 200 to"),
    (judged(lambda data, gen: data.sum()), "by these names, `rng` and `size`: missing .*'gen'"),
    (judged(3), "mechanism must be a function or an estimator, got int"),
    (judged(Silent(), [[1.0]], [[2.0]]), "mechanism Silent learns no numbers"),
    (
        judged(laplace, np.zeros(5), list(np.eye(5)[:2]), np.ones(5)),
        "a data set for each of 5 records, got 2",
    ),
)


# --- no pass without evidence -------------------------------------------------------------------


@pytest.mark.parametrize("calls", [_TRIED, 1000])
def test_noise_seeded_by_a_clock_is_not_decided(calls: int) -> None:
    """The same noise in all runs between two ticks, also if the clock ticks just between the
    trials.
    """
    ticks = itertools.count(_TRIED - 2)  # two calls come before the trials

    def clock(data: np.ndarray) -> float:
        return float(fine(data.sum() + np.random.default_rng(next(ticks) // calls).laplace()))

    found = few(clock, ZERO, ONE, 1.0, runs=10_000, early=False)
    assert found.repeats and not found.found and not found.passed and found.epsilon_lower() == 0
    text = str(found)
    assert (
        text.startswith("not decided")
        and "releases come back in a row" in text
        and "power" not in text
    )


def test_equal_releases_of_independent_runs_are_no_repeats() -> None:
    """Of 2,000 series each, at a level of .05: a coin, rare answers, constants; and one with
    pairs.
    """
    rng = np.random.default_rng(SEED)
    for share in (0.5, 0.02, 0.0):
        alarms = sum(
            repeats((rng.random(600) < share).astype(int).tolist()) <= 0.05 for _ in range(2000)
        )
        assert alarms <= stats.binom.isf(FALSE_ALARM, 2000, 0.05)
    assert repeats(np.repeat(rng.random(300), 2).tolist()) < FALSE_ALARM
    assert repeats([]) == repeats([1, 2]) == 1
    assert few(
        lambda data, rng, size: (rng.random(size) < 0.001).astype(int), ZERO, ONE, 0.1
    ).passed


def test_too_few_guesses_are_no_pass() -> None:
    """A claim of 10 needs some 300,000 guesses, however wrong it is: with `size` they take a
    second.
    """
    none = lambda data, rng, size: data.sum() + np.zeros(size)  # noqa: E731
    found = few(none, ZERO, ONE, 10.0)
    assert (
        found.undecided.startswith("20,000 guesses prove nothing at this claim")
        and not found.passed
    )
    assert found.detectable() == np.inf
    assert str(found).startswith("not decided") and "power" not in str(found)
    wrong = few(none, ZERO, ONE, 10.0, runs=400_000)
    assert wrong.found
    for audits, shown in (([found] * 7, 1), ([wrong] * 2, 2), ([wrong] * 7, 5)):
        assert str(Audits(tuple(audits), FALSE_ALARM)).count("\nrecord ") == shown
    several = few(none, ZERO, [ONE, ONE], np.array([10.0, 1.0]))
    assert (
        str(several).startswith("violation found for 1 of 2 records, 1 not decided")
        and not several.passed
    )
    assert str(few(none, ZERO, [ONE, ONE], np.array([10.0, 11.0]))).startswith(
        "not decided for 2 of 2 records"
    )
    assert few(laplace, ZERO, [ONE, ONE], np.array([1.0, 2.0])).passed


def test_a_refusal_is_an_output() -> None:
    """One data set is refused, or both with another message, or one more often; by single calls and
    in a batch.
    """

    def refuses(data: np.ndarray, rng: Rng) -> float:
        if data.sum() > 0.5:
            raise ValueError("one class only")
        return one_at_a_time(data, rng)

    def batches(data: np.ndarray, rng: Rng, size: int) -> np.ndarray:
        refuses(data, rng)
        return laplace(data, rng, size)

    def sometimes(data: np.ndarray, rng: Rng, often: float, message: str = "no") -> float:
        if rng.random() < (often if data.sum() else 0.1):
            raise ValueError(message.format(data.sum()))
        return float(rng.integers(9))

    for mechanism in (
        refuses,
        batches,
        partial(sometimes, often=0.5),
        partial(sometimes, often=0.1, message="at {}"),
    ):
        found = few(mechanism, ZERO, ONE, 1.0, runs=5000)
        assert found.found and few(mechanism, ONE, ZERO, 1.0, runs=5000).found
        assert ("raised ValueError" in found.event) or "output[" in found.event
    assert few(partial(sometimes, often=0.1 * np.e), ZERO, ONE, 1.0, runs=5000).passed
    with pytest.raises(ValueError, match="raised ValueError: no, at times: take no `size`"):
        few(lambda data, rng, size: rng.random(size) + sometimes(data, rng, 0.1), ZERO, ONE, 1.0)


# --- last digits --------------------------------------------------------------------------------


def test_last_digits_are_exact() -> None:
    numbers = [1.0, -3.0, 0.1, 96.0, 5e-324, 2.0**60, 0.0]
    # 0.1 is 0x1.999999999999ap-4, and the a ends in 10: -4 - 52 + 1
    expected = [0, 0, -55, 5, -1074, 60, 1024]
    assert last_digits(outcomes(np.array(numbers)), 0).numbers[:, 1].tolist() == expected


FLOATS = {
    "Laplace": lambda data, rng, size: data.sum() + rng.laplace(0, 1, size),
    "normal": lambda data, rng, size: data.sum() + rng.normal(0, 4, size),
    "inverse": lambda data, rng, size: data.sum() - np.log(rng.random(size) / rng.random(size)),
    "vector": lambda data, rng, size: (
        np.array([0.3, data.sum(), 7.0]) + rng.laplace(0, 1, (size, 3))
    ),
}


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize(("first", "second"), [(0.1, 1.1), (0.0, 1.0), (0.375, 0.1)])
def test_last_digits_betray_floats(name: str, first: float, second: float) -> None:
    """The promise holds in real arithmetic, by far in all but the first; rounded releases keep
    it.
    """
    mechanism = FLOATS[name]
    found = few(mechanism, ZERO + first, ZERO + second, 1.0)
    assert found.found and "last binary digit" in found.event and found.epsilon_lower() > 1
    assert str(found).endswith("\n  next     round the output to see whether anything else tells")
    rounded = few(
        lambda data, rng, size: fine(mechanism(data, rng, size)), ZERO + first, ZERO + second, 1.0
    )
    assert rounded.passed
    leak = few(lambda data, rng, size: fine(mechanism(3 * data, rng, size)), ZERO, ZERO + 9, 1.0)
    assert leak.found and "next" not in str(leak)  # what is rounded already has no such advice


def test_a_rule_says_when_it_guesses_what() -> None:
    none = np.empty(0)
    columns = [Column(("a", "b"), none, none), Column(("absent",), np.array([7.0]), none)]
    counts = Counts(columns, ["x", "y"], np.array([0, 2, 5]), np.array([-1.0, -1.0, 2.0]))
    assert counts.words(-1.0, 2.0) == (
        "the output is (a); or x is a and y is another number",
        "the output is (b, 7)",
    )
    trees = Learned("trees", None, None).words(0.0, np.log(3))
    assert trees == ("trees gives odds of at most 1", "trees gives odds of at least 3")
    for low, high, words in (
        (-np.inf, 3.0, "second data set if x is at least 3"),
        (1.0, np.inf, "first data set if x is at most 1"),
    ):
        rule = Rule(Value(0, "x"), 1, False, Ends(low, high, False, True), 1.0, 0.0)
        assert rule.words == words


@pytest.mark.parametrize("learn", [_additive, _boosted])
def test_classifiers_learn_from_the_runs_that_they_are_given(learn: Any) -> None:
    seen = outcomes(np.random.default_rng(0).integers(-1, 2, (300, 2)) + 0.5)
    second = seen.numbers[:, 0] > seen.numbers[:, 1]
    for bits in (second, ~second):
        assert ((learn(seen, bits).values(seen) > 0) == bits).all()


def test_rules_are_proposed_for_frequent_and_for_rare_guesses() -> None:
    x = np.random.default_rng(0).laplace(size=4000)
    rules = best_rules(Value(0, "x"), outcomes(x), x > 0, Goal(4000, 1e-6, 0.0))
    bands = np.digitize([rule.guessed for rule in rules], [0.01, 0.03, 0.1, 0.3])
    assert bands.tolist() == [4, 3, 2, 1, 0]


def test_what_fresh_runs_say_of_rules_counts_and_not_what_they_promised() -> None:
    """Of two that are as good the simpler one is taken."""
    ends = Ends(-np.inf, 0.0, False, True)
    rules = [Rule(Value(k, "x"), 1, False, ends, 0.1, 9.0 - k) for k in range(3)]
    counts = np.array([[90, 60], [80, 79], [80, 79]])
    work: Any = SimpleNamespace(training=0, counts=lambda *_: counts)
    chosen = _best_on_fresh_runs(work, None, rules, None, Goal(100, 0.05, 0.0))  # type: ignore[arg-type]
    assert chosen.score == Value(1, "x") and chosen.guessed == 0.8 and 1 < chosen.expected_bound < 8


def test_the_last_test_takes_the_time_that_is_left() -> None:
    """If it is twice as large as the one before, at least."""
    work: Any = _Work(None, time.time() + 1000, 10**6, None)  # type: ignore[arg-type]
    assert _affordable(work, 500, 1.0) == 500 and work.planned == 10**6
    assert _affordable(work, 5000, 100.0) == work.planned == _LEAST
    work.looks = [Look(runs, 0, 0, 0.0) for runs in (100, 300)]
    assert 900 < _affordable(work, 5000, 1.0) == work.planned <= 1000
    work.looks = [Look(runs, 0, 0, 0.0) for runs in (100, 300, 600)]
    assert _affordable(work, 5000, 1.0) == 0


# --- pairs, sellers, learners -------------------------------------------------------------------


def test_patterns_are_neighbours() -> None:
    pairs = patterns(np.arange(6.0))
    for number, pair in enumerate(pairs):
        moved = np.abs(pair.first - pair.second)
        assert 0 < moved.max() <= 1 and ((moved > 0).sum() == 1) == (number < 2)
    assert len(pairs) == 8 and len(patterns([3.0])) == 2
    four = patterns(np.zeros(4))
    assert [(pair.second - pair.first).tolist() for pair in four] == [
        [-1, 0, 0, 0],
        [1, 0, 0, 0],
        [1, -1, -1, -1],
        [-1, 1, 1, 1],
        [1, 1, -1, -1],
        [1, 1, 1, 1],
        [-1, -1, -1, -1],
        [-1, -1, 1, 1],
    ]
    assert four[-1].second.tolist() == four[-1].first[::-1].tolist()


def test_the_search_finds_the_record_that_is_not_hidden() -> None:
    """Only the last label is used without noise enough, and only if her group is "b"."""
    table = pd.DataFrame({"age": [20.0, 30, 40], "group": ["a", "a", "b"]})

    def mean(data: pd.DataFrame, rng: Rng, size: int) -> np.ndarray:
        leak = 3.0 * (data["group"].iloc[2] == "b")
        return data["age"].mean() / 100 + leak + rng.laplace(0, 1, size)

    public = Schema([Number("age", 0, 100), Category("group", ("a", "b"))])
    found = few(mean, table, "search", 1.0, among=public)
    assert found.found and "record 2" in found.pair and "'a'" in found.pair
    assert len(replacements(table, public, 100, np.random.default_rng(0))) == 12


def test_replacements_are_all_that_a_record_may_be() -> None:
    """Parts of a tuple change together; of another set of records, others come."""
    X = np.zeros((2, 2))
    y = np.zeros(2)
    for shift in (1.0, 2.0):
        rows = np.eye(2) + shift
        found = replacements((X, y), (rows, np.array([shift])), 9, np.random.default_rng(0))
        moved = [(i, *x[i], y[i]) for x, y in (p.second for p in found) for i in np.flatnonzero(y)]
        assert moved == [(i, *row, shift) for i in (0, 1) for row in rows]
    for among, message in (
        (rows, "among must have 2 parts like the data, got 1"),
        ((rows, []), "among must be records of shape"),
        ((rows[0], [1.0]), r"among must be records of shape \(2,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            replacements((X, y), among, 9, np.random.default_rng(0))
