r"""An audit of any mechanism: is a promise of privacy broken between two neighbouring data sets?

In each run a fair coin chooses one of the two data sets and the mechanism releases. Training runs
teach several scores to tell the two apart and choose one rule that guesses the coin
(:mod:`hdpm_lib.audits.scores`); fresh runs test that rule alone, by exact binomial laws
(:mod:`hdpm_lib.audits.bounds`). Nothing depends on the scale of the output.

**What a false alarm costs.** A small test comes first, and larger ones follow until one finds a
violation or runs or time are used up. Each has training runs and test runs of its own, in numbers
that are fixed before, and a share of the level that is fixed before, too; the shares add up to at
most one. Given all that happened before a test, its rule is fixed and its runs are fresh, so that
it rejects a promise that is kept with a probability of at most its share of the level; a test that
time cuts short is not counted. By the union bound a mechanism that keeps its promise is called
broken with a probability of at most the level, whatever was tried in training and whenever the
audit stopped.

That no violation is found proves nothing about other data sets, rarer events or what the scores
cannot see: an audit never says that a mechanism is private. Without evidence, as when no guess was
made or when a release has parts that cannot be looked at, it says that nothing is decided.
:doc:`/book/privacy/audits` shows how to use it and what it finds. Runs are made in blocks where
:func:`hdpm_lib.spread.use` says; their results do not depend on it.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import joblib
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.audits.bounds import MOST_RUNS, detectable, guess_epsilon, guess_p_value, holm
from hdpm_lib.audits.outcomes import NanRule, Outcomes, stacked
from hdpm_lib.audits.pairs import Pair, replacements
from hdpm_lib.audits.scores import DIGIT, Goal, Rule, count_guesses, expected_bound, propose
from hdpm_lib.audits.sources import Marks, Source, find_source, repeats
from hdpm_lib.frozen import Frozen
from hdpm_lib.spread import each, width
from hdpm_lib.validation import (
    FALSE_ALARM,
    check_choice,
    check_count,
    check_finite,
    check_flag,
    check_number,
    check_positive,
)

Bits = NDArray[np.bool_]
# the seed and the number of runs, and when it is too late to make them
Block = tuple[np.random.SeedSequence, int, float]

_FIRST = 500  # runs of the first test
_GROWTH = 4  # how many times as many the next one has
_EARLY = 1 / 16  # share of what is left of the level for a test that is not the last
_LEAST = 200  # runs of a test
_BLOCK = 65_536  # runs handed over at once, at most
_BLOCKS = 16  # into how many parts a task is cut at least
_TRAINING = 1_000_000  # runs that teach a rule, at most
_NUMBERS = 10**8  # and numbers in them
_CANDIDATES = 24  # pairs to search among
_SEARCH = 200_000  # training runs of each
_FINALISTS = 2  # pairs that are looked at closely
_RULES = 12  # to choose among
_SIMPLER = 0.02  # how much less, relatively, is expected of a rule taken for its simpler score
_PLANNED = 0.8  # share of the time that is left


@dataclass(frozen=True)
class Look:
    """A test of one rule.

    Attributes
    ----------
    runs, made, right : int
        Fresh runs, guesses made in them, and right ones.
    share : float
        Of the level.
    sides : int
        How many of the two data sets the rule guesses.
    """

    runs: int
    made: int
    right: int
    share: float
    sides: int = 2

    def p_value(self, epsilon: float, delta: float) -> float:
        """Return the smallest level of the audit at which this test rejects its claim."""
        level = guess_p_value(self.right, self.made, self.runs, epsilon, delta, self.sides)
        return level / self.share


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Frozen):
    """Result of an audit, in numbers; as a string in words.

    Attributes
    ----------
    mechanism, pair, event : str
        The mechanism, the data sets that were compared, and the rule of the guesses.
    epsilon, delta, level : float
        The claim, and the probability of a false alarm.
    looks : tuple of Look
        The tests, up to the one that decided.
    planned, training : int
        Runs of the last test if none before decides, and runs that taught and chose rules.
    guessed : float
        Share of the runs that chose it in which the rule guessed.
    first, second : object
        The two data sets.
    seed : int
        With the same pair, seed and number of runs, and without time limit, the audit comes out the
        same again.
    replayable : bool
        True if the mechanism draws all its randomness from the generator it is given.
    repeats : bool
        True if equal releases follow each other, so that the runs are not independent.
    unseen : tuple of str
        Parts of releases that cannot be looked at.
    stopped : str
        Why there was no test, if there was none.
    seconds : float
        How long it took.
    """

    mechanism: str
    pair: str
    event: str
    epsilon: float
    delta: float
    level: float
    looks: tuple[Look, ...]
    planned: int
    training: int
    guessed: float
    first: Any = field(repr=False)
    second: Any = field(repr=False)
    seed: int
    replayable: bool
    repeats: bool
    unseen: tuple[str, ...]
    stopped: str
    seconds: float

    @property
    def _tested(self) -> list[Look]:
        """Tests that count."""
        if self.repeats:
            return []
        return [look for look in self.looks if look.share]

    @cached_property
    def p_value(self) -> float:
        """Smallest level at which the promise is rejected."""
        p_values = [look.p_value(self.epsilon, self.delta) for look in self._tested]
        return min([1.0, *p_values])

    @property
    def found(self) -> bool:
        """True if a violation was found."""
        return self.p_value <= self.level

    @property
    def undecided(self) -> str:
        """Why it is not decided whether there is a violation; empty if it is."""
        last = self.looks[-1]
        if self.repeats:
            return (
                "releases come back in a row, so the runs are not independent: is the noise seeded,"
                " by a clock?"
            )
        if self.found:
            return ""
        if self.unseen:
            return f"{' and '.join(self.unseen)} cannot be looked at"
        if self.stopped:
            return self.stopped
        if replace(last, right=last.made).p_value(self.epsilon, self.delta) > self.level:
            return (
                f"{last.made:,} guesses prove nothing at this claim and level, even if all of them"
                " are right"
            )
        return ""

    @property
    def passed(self) -> bool:
        """True if no violation was found where one could have been: a test asks for this."""
        return not self.found and not self.undecided

    def epsilon_lower(self, confidence: float = 1 - FALSE_ALARM) -> float:
        """Return a loss that the pair exceeds, at the delta of the claim.

        Parameters
        ----------
        confidence : float, default 1 - 1e-6
            Probability in (0, 1) that this is so.

        Returns
        -------
        float
            The bound; 0 if the guesses prove nothing.
        """
        wrong = 1 - check_number(confidence, "confidence", 0, 1, ends="()")
        largest = 0.0
        for look in self._tested:
            level = wrong * look.share
            bound = guess_epsilon(look.right, look.made, look.runs, level, self.delta, look.sides)
            largest = max(largest, float(bound))
        return largest

    def detectable(self, power: float = 0.9) -> float:
        """Return the loss that the last test would have found, in an event as frequent as its own.

        Parameters
        ----------
        power : float, default 0.9
            Probability in (0, 1) with which it would have been found.

        Returns
        -------
        float
            The loss; infinity if nothing is decided.
        """
        if self.undecided:
            return np.inf
        last = self.looks[-1]
        level = self.level * last.share
        return detectable(
            self.guessed, last.runs, self.epsilon, level, self.delta, last.sides, power
        )

    def __str__(self) -> str:
        claim = f"epsilon = {self.epsilon:.6g}"
        if self.delta:
            claim += f", delta = {self.delta:.3g}"
        verdict = "violation found" if self.found else "no violation found"
        if self.undecided:
            verdict = "not decided"
        last = self.looks[-1]
        guesses = f"{last.right:,} of {last.made:,} guesses were right in {last.runs:,} fresh runs"
        lines = [
            f"{verdict}: {self.mechanism}, claimed {claim}",
            f"  pair     {self.pair}",
            f"  event    {self.event}",
            f"  test     {guesses}: p = {self.p_value:.2g}, level {self.level:.2g}",
        ]
        if self.undecided:
            lines += [f"  why      {self.undecided}"]
        elif self.found:
            bounds = []
            for confidence in (0.9, 1 - self.level):
                bound = self.epsilon_lower(confidence)
                bounds.append(f"{bound:.4g} at confidence {confidence:.12g}")
            lines.append(f"  bound    the loss exceeds {', '.join(bounds)}")
            replay = f"the same call with seed={self.seed}, runs={self.planned}, time_limit=None"
            if not self.replayable:
                replay = "not possible: the mechanism draws noise of its own"
            lines.append(f"  replay   {replay}")
            if DIGIT in self.event:
                lines += ["  next     round the output to see whether anything else tells"]
            if self.unseen:
                lines += [f"  unseen   {' and '.join(self.unseen)}"]
        else:
            lines += [
                f"  power    a loss of {self.detectable():.4g} or more in such an event would have"
                " been found with probability 0.9",
                "  unseen   other pairs, rarer events, and whatever the scores do not show: see the"
                " page of limits",
            ]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False, repr=False)
class Audits(Frozen):
    """Results of audits of all records, each against a promise of her own; as a string in words.

    Attributes
    ----------
    sellers : tuple of Audit
        One for each record, in order.
    level : float
        Probability that any record whose promise is kept is named (Holm).
    """

    sellers: tuple[Audit, ...]
    level: float

    @property
    def found(self) -> Bits:
        """For whom a violation was found, shape (n,)."""
        return holm([audit.p_value for audit in self.sellers], self.level)

    @property
    def passed(self) -> bool:
        """True if no violation was found for anybody, and could have been for all."""
        return not self.found.any() and all(audit.passed for audit in self.sellers)

    def table(self, confidence: float = 1 - FALSE_ALARM) -> pd.DataFrame:
        """Tabulate claims, bounds, p-values and verdicts, a row a record, the worst first.

        Parameters
        ----------
        confidence : float, default 1 - 1e-6
            Probability in (0, 1) with which each bound holds.

        Returns
        -------
        pandas.DataFrame
            Columns "claimed", "at least" (the bound), "p" and "violation"; the index is the number
            of the record.
        """
        rows = {
            "claimed": [audit.epsilon for audit in self.sellers],
            "at least": [audit.epsilon_lower(confidence) for audit in self.sellers],
            "p": [audit.p_value for audit in self.sellers],
            "violation": self.found,
        }
        frame = pd.DataFrame(rows).rename_axis("record")
        excess = frame["at least"] - frame["claimed"]
        worst_first = np.lexsort((-excess, frame["p"]))
        return frame.iloc[worst_first]

    def __str__(self) -> str:
        found = self.found
        worst = self.table()
        undecided = sum(bool(audit.undecided) for audit in self.sellers)
        if found.any():
            head = f"violation found for {found.sum()} of {len(found)} records"
            if undecided:
                head += f", {undecided} not decided"
        elif undecided:
            head = f"not decided for {undecided} of {len(found)} records"
        else:
            head = "no violation found"
        lines = [f"{head}, at a level of {self.level:.2g} for all together"]
        for i in worst.index[: max(1, min(5, int(found.sum())))]:
            lines += [f"record {i}: {self.sellers[i]}"]
        return "\n".join(lines)


def audit(
    mechanism: Any,
    data: Any,
    neighbour: Any,
    epsilon: float | ArrayLike,
    delta: float = 0.0,
    *,
    among: Any = None,
    runs: int = 1_000_000,
    level: float = FALSE_ALARM,
    early: bool = True,
    nan: NanRule = "refuse",
    seed: int | None = None,
    time_limit: float | None = 60.0,
) -> Any:  # an Audit, or Audits for an array of claims
    r"""Audit the promise that releases tell neighbouring data sets apart by at most `epsilon`.

    Parameters
    ----------
    mechanism : function or estimator
        ``mechanism(data, rng=...)`` gives one release, ``mechanism(data, rng=..., size=n)`` gives
        `n` of them along the first axis; without `rng` it draws noise of its own. A tuple of data
        is handed on as several arguments: of this library's mechanisms ``release`` is such a
        function. An exception is an output like any other, with its message. An estimator of
        scikit-learn is fitted in each run. See :mod:`hdpm_lib.audits.sources`.
    data : object
        Data set on which the mechanism is run.
    neighbour : object, or "search"
        A data set that differs in one record, or "search" for the worst pair of those in `among`.
        With many promises: a sequence of `n` neighbours, a function from the number of a record to
        a neighbour that differs in it, or "search".
    epsilon : float, or array of shape (n,)
        The claim, not negative. An array has a claim for each record, and every one of them is
        audited. A run gives one guess, so that it takes some :math:`14e^\varepsilon` runs to reject
        a claim, however wrong: 300,000 at 10. Let such a mechanism take `size`.
    delta : float, default 0
        In [0, 1): the claim is :math:`(\varepsilon,\delta)`-differential privacy for this pair.
    among : Schema, array of records, tuple of these, or list of Pair, optional
        Set to search: all values of a record (:func:`~hdpm_lib.audits.pairs.replacements`), or
        pairs. If the data are no records but answers to queries, all of which one record moves:
        ``patterns(data)`` of :func:`~hdpm_lib.audits.pairs.patterns`.
    runs : int, default 1,000,000
        Runs of the last and largest test, from 200 to a million million. For each pair that is
        looked at closely, up to twice as many teach and choose what is tested.
    level : float, default 1e-6
        Probability of a false alarm in (0, 1), of all tests and records together.
    early : bool, default True
        Begin with smaller tests, and end the audit as soon as a violation is certain. Without,
        which takes ``time_limit=None``, there is one test of all runs and the bound is sharper.
    nan : {"refuse", "value"}
        Refuse not-a-number, or take it for an answer like any other.
    seed : int, optional
        Of everything that is random here, not negative; fresh if not given.
    time_limit : float or None, default 60
        Seconds (for each record), positive: the audit ends with the largest test that it had time
        for. What cannot be decided in it is said to be not decided. None makes all runs. One call
        of the mechanism and one look for rules are never cut short.

    Returns
    -------
    Audit or Audits
        Print it, or ask for ``found``, ``passed``, ``undecided``, ``p_value``,
        ``epsilon_lower(confidence)``, ``detectable(power)``.

    Raises
    ------
    ValueError
        For what cannot be judged: draws that are shared in a batch, an output that never changes, a
        function that ignores its generator, changes its data or refuses both data sets, batches of
        different kinds, NaN without a rule for it, two data sets that are the same.

    Notes
    -----
    Whatever a user sees of a release is part of it: values, the numbers inside texts, types,
    shapes, names and order. What cannot be looked into is named, and then the audit does not pass.
    Beside the release it does not look: at warnings, at what is printed or written, at how long a
    run takes; nor, of a release, at how an array lies in memory and whether it can be written to,
    at the bits of a NaN, and at the names of a named tuple's fields.
    The last digits count, too: noise that floats add to a number breaks the promise, so the example
    rounds, and what the library releases is exact (:mod:`hdpm_lib.exact`).
    Tests have fresh runs in numbers fixed before, and shares of the level that add up to at most
    one: by the union bound a promise that is kept is rejected with a probability of at most
    `level`. :mod:`hdpm_lib.audits.black_box` has the argument,
    :mod:`hdpm_lib.audits.bounds` the binomial law of each test.

    References
    ----------
    Bichsel, Steffen, Bogunovic, Vechev (2021), DP-Sniper: Black-Box Discovery of Differential
    Privacy Violations using Classifiers, IEEE S&P. Ding, Wang, Wang, Zhang, Kifer (2018), Detecting
    Violations of Differential Privacy, CCS.

    Examples
    --------
    >>> def mean(data, rng, size):   # noise for a range of 0.9 where the data have 1
    ...     return (data.mean() + rng.laplace(0, 0.9 / len(data), size)).round(3)
    >>> found = audit(mean, np.zeros(10), np.eye(10)[0], epsilon=1.0, runs=200_000, seed=0)
    >>> found.found, round(found.epsilon_lower(), 2)
    (True, 1.04)
    """
    check_count(runs, "runs", _LEAST, MOST_RUNS)
    check_number(level, "level", 0, 1, ends="()")
    check_number(delta, "delta", 0, 1, ends="[)")
    check_flag(early, "early")
    check_choice(nan, "nan", ("refuse", "value"))
    if time_limit is not None:
        check_positive(time_limit, "time_limit")
        if not early:
            raise ValueError("early must be True with a time_limit: time may not do for all runs")
    if seed is None:
        seed = secrets.randbits(48)
    plan = _Plan(
        mechanism, float(delta), int(runs), early, nan, check_count(seed, "seed", 0), time_limit
    )
    if np.ndim(epsilon) == 0:
        pairs = _pairs(data, neighbour, among, np.random.default_rng([plan.seed, 0]))
        return _audit(plan, pairs, check_number(epsilon, "epsilon", 0), level)
    claims = check_finite(epsilon, "epsilon", 1, 0)
    n = len(claims)
    jobs = []
    for i in range(n):
        pairs = _pairs_of(i, n, data, neighbour, among, plan.seed)
        jobs.append((pairs, claims[i]))
    audits = each(_audit_record, jobs, plan, level / n)
    return Audits(tuple(audits), float(level))


def _audit_record(job: tuple[list[Pair], float], plan: _Plan, level: float) -> Audit:
    """Audit one record's promise."""
    pairs, claim = job
    return _audit(plan, pairs, claim, level)


def _pairs(
    data: Any, neighbour: Any, among: Any, rng: np.random.Generator, record: int | None = None
) -> list[Pair]:
    """Return the pairs to look at."""
    if not (isinstance(neighbour, str) and neighbour == "search"):
        found = [Pair(data, neighbour, "the data and the neighbour given")]
    elif isinstance(among, list) and all(isinstance(pair, Pair) for pair in among):
        found = among
    elif among is not None:
        found = replacements(data, among, _CANDIDATES, rng, record)
    else:
        raise ValueError(
            'among is missing: neighbour="search" needs a schema or records, or for answers to '
            "queries pairs.patterns(data), to search among"
        )
    different = [pair for pair in found if joblib.hash(pair.first) != joblib.hash(pair.second)]
    if not different:
        raise ValueError("neighbour is the same as data: there is nothing to tell apart")
    return different


def _pairs_of(i: int, n: int, data: Any, neighbour: Any, among: Any, seed: int) -> list[Pair]:
    """Return the pairs that differ in record `i`."""
    if callable(neighbour):
        neighbour = neighbour(i)
    elif not isinstance(neighbour, str):
        if len(neighbour) != n:
            raise ValueError(
                f"neighbour must have a data set for each of {n} records, got {len(neighbour)}"
            )
        neighbour = neighbour[i]
    return _pairs(data, neighbour, among, np.random.default_rng([seed, 0, i]), i)


@dataclass(frozen=True)
class _Plan:
    """Settings that all audits of one call share."""

    mechanism: Any
    delta: float
    runs: int
    early: bool
    nan: NanRule
    seed: int
    time_limit: float | None


class _Late(Exception):
    """There is no time for what comes next."""


@dataclass
class _Work:
    """A mechanism at work, until time is over, and what has come of it.

    Attributes
    ----------
    source : Source
    end : float
        When it must be done.
    planned : int
        Runs of the last test.
    pair, rule : Pair, Rule
        The last ones that were tested.
    looks : list of Look
    training : int
        Runs that taught and chose rules.
    marks : list of Marks
    unseen : set of str
    constant : bool
        True if all training runs of a pair gave the same.
    learning : float
        Seconds that it took to learn from the last training runs, for each run of their test.
    """

    source: Source
    end: float
    planned: int
    pair: Pair
    rule: Rule | None = None
    looks: list[Look] = field(default_factory=list)
    training: int = 0
    marks: list[Marks] = field(default_factory=list)
    unseen: set[str] = field(default_factory=set)
    constant: bool = True
    learning: float = 0.0

    def runs(self, pair: Pair, seed: np.random.SeedSequence, count: int) -> tuple[Outcomes, Bits]:
        """Make training runs: their outcomes and bits."""
        blocks = _in_time(_run_block, _blocks(seed, count, self.end), self.source, pair)
        seen = []
        bits = []
        for block_seen, block_bits, marks in blocks:
            seen.append(block_seen)
            bits.append(block_bits)
            self.marks.append(marks)
        self.training += count
        return stacked(seen), np.concatenate(bits)

    def counts(
        self, pair: Pair, rules: list[Rule], seed: np.random.SeedSequence, count: int
    ) -> NDArray[np.int64]:
        """Count guesses made, and right ones, of each rule in fresh runs, shape (rules, 2)."""
        blocks = _in_time(_count_block, _blocks(seed, count, self.end), self.source, pair, rules)
        counts = []
        for block_counts, marks in blocks:
            counts.append(block_counts)
            self.marks.append(marks)
        return np.sum(counts, axis=0)

    def learned(self, seen: Outcomes, bits: Bits, goal: Goal, quick: bool = False) -> list[Rule]:
        """Learn rules from training runs, if there is time."""
        start = time.time()
        if start + self.learning * goal.runs > self.end:
            raise _Late
        rules = propose(seen, bits, goal, quick=quick)
        self.learning = (time.time() - start) / goal.runs
        return rules


def _audit(plan: _Plan, pairs: list[Pair], epsilon: float, level: float) -> Audit:
    """Test on ever more runs, each time a rule that others have taught, until one decides."""
    start = time.time()
    limit = np.inf if plan.time_limit is None else plan.time_limit
    trying, *seeds = np.random.SeedSequence(plan.seed).spawn(4)
    source = find_source(plan.mechanism, pairs[0], trying, plan.nan, limit)
    work = _Work(source, start + limit, plan.runs, pairs[0])
    cost = 0.0 if np.isinf(limit) else _first_cost(source, pairs, trying)
    stopped = ""
    for asked in _sizes(plan):
        size = _affordable(work, asked, cost)
        if not size:
            break
        begun = time.time()
        try:
            _test(work, pairs, seeds, size, level, plan.delta)
        except _Late:
            stopped = f"time ran out before {size:,} runs were tested"
            break
        cost = (time.time() - begun) / size / _PLANNED
        rejected = work.looks and work.looks[-1].p_value(epsilon, plan.delta) <= level
        if rejected or size == work.planned:
            break
    if not work.looks and not stopped:
        if work.constant:
            raise ValueError(
                f"mechanism gave the same output in all {work.training} training runs: there is"
                " nothing to judge"
            )
        stopped = f"nothing in {work.training:,} runs came back often enough to guess from"
    event = "none"
    guessed = 0.0
    if work.rule:
        event = work.rule.words
        guessed = work.rule.guessed
    return Audit(
        mechanism=_name(plan.mechanism),
        pair=work.pair.words,
        event=event,
        epsilon=epsilon,
        delta=plan.delta,
        level=level,
        looks=tuple(work.looks) or (Look(0, 0, 0, 0.0),),
        planned=work.planned,
        training=work.training,
        guessed=guessed,
        first=work.pair.first,
        second=work.pair.second,
        seed=plan.seed,
        replayable=source.replays,
        repeats=_any_repeats(work.marks),
        unseen=tuple(sorted(work.unseen)),
        stopped="" if work.looks else stopped,
        seconds=time.time() - start,
    )


def _any_repeats(marks: list[Marks]) -> bool:
    """Tell whether releases of either data set come back in a row, over the marks of all blocks."""
    first: list[int] = []
    second: list[int] = []
    for of_first, of_second in marks:
        first += of_first
        second += of_second
    return bool(marks) and min(repeats(first), repeats(second)) <= FALSE_ALARM / 2


def _sizes(plan: _Plan) -> list[int]:
    """Return the runs of each test: ever more up to what was asked for, or all at once."""
    sizes = []
    size = _FIRST
    while plan.early and 2 * size <= plan.runs:
        sizes.append(size)
        size *= _GROWTH
    sizes.append(plan.runs)
    return sizes


def _first_cost(source: Source, pairs: list[Pair], seed: np.random.SeedSequence) -> float:
    """Predict the seconds of the first test for each of its runs, by the speed of a few runs."""
    start = time.time()
    source.block(pairs[0], seed, _BLOCKS)
    searched = len(pairs) if len(pairs) > 1 else 0
    runs = 1 + searched + 2 * min(len(pairs), _FINALISTS)
    return (time.time() - start) / _BLOCKS / width() * runs / _PLANNED


def _affordable(work: _Work, size: int, cost: float) -> int:
    """Return the runs of the next test: the last one takes the time that is left, or 0."""
    left = work.end - time.time()
    if cost * size <= left:
        return size
    size = int(left / cost)
    if work.looks and size < 2 * work.looks[-1].runs:
        return 0
    work.planned = max(size, _LEAST)
    return work.planned


def _test(
    work: _Work,
    pairs: list[Pair],
    seeds: Sequence[np.random.SeedSequence],
    size: int,
    level: float,
    delta: float,
) -> None:
    """Choose a pair and a rule, and test it on fresh runs, with a share of what level is left.

    All of them have new runs, and the rule, the size and the share are fixed before the test.
    """
    searching, training, testing = seeds
    left = 1 - sum(look.share for look in work.looks)
    share = left if size == work.planned else _EARLY * left
    goal = Goal(size, level * share, delta)
    chosen = _which_rule(work, _which_pairs(work, pairs, searching, goal), training, goal)
    if chosen is None:
        return
    rule, pair = chosen
    made, right = work.counts(pair, [rule], testing.spawn(1)[0], size)[0].tolist()
    work.looks.append(Look(size, made, right, share, rule.ends.sides))
    work.rule = rule
    work.pair = pair


def _which_pairs(
    work: _Work, pairs: list[Pair], seed: np.random.SeedSequence, goal: Goal
) -> list[Pair]:
    """Choose the pairs of the largest expected bounds, after a short look at each."""
    if len(pairs) == 1:
        return pairs
    bounds = []
    count = _training_runs(work, min(goal.runs, _SEARCH))
    for pair, pair_seed in zip(pairs, seed.spawn(len(pairs)), strict=True):
        seen, bits = work.runs(pair, pair_seed, count)
        rules = work.learned(seen, bits, goal, quick=True)
        bounds.append(max((rule.expected_bound for rule in rules), default=-np.inf))
    order = np.argsort(-np.array(bounds), kind="stable")
    return [pairs[k] for k in order[:_FINALISTS]]


def _which_rule(
    work: _Work, pairs: list[Pair], seed: np.random.SeedSequence, goal: Goal
) -> tuple[Rule, Pair] | None:
    """Choose the rule of the largest expected bound, and its pair.

    Some runs teach the rules, others choose among them.
    """
    best: tuple[Rule, Pair] | None = None
    unseen: set[str] = set()
    for pair, pair_seed in zip(pairs, seed.spawn(len(pairs)), strict=True):
        count = _training_runs(work, goal.runs)
        seen, bits = work.runs(pair, pair_seed.spawn(1)[0], count)
        work.constant = work.constant and seen.constant()
        unseen |= seen.unseen()
        rules = work.learned(seen, bits, goal)
        if not rules:
            continue
        rule = _best_on_fresh_runs(work, pair, rules, pair_seed.spawn(1)[0], goal)
        if best is None or rule.expected_bound > best[0].expected_bound:
            best = rule, pair
    work.unseen = unseen
    return best


def _training_runs(work: _Work, count: int) -> int:
    """Return `count`, or fewer training runs if these are all that help or find room."""
    return min(count, _TRAINING, _NUMBERS // work.source.columns)


def _best_on_fresh_runs(
    work: _Work, pair: Pair, rules: list[Rule], seed: np.random.SeedSequence, goal: Goal
) -> Rule:
    """Choose the rule of the largest expected bound on fresh runs, or a simpler one near it."""
    by_bound = np.argsort([-rule.expected_bound for rule in rules], kind="stable")
    tried = [rules[k] for k in np.sort(by_bound[:_RULES])]  # simple scores first, as in `rules`
    made, right = np.maximum(work.counts(pair, tried, seed, goal.runs), 1e-9).T
    work.training += goal.runs
    sides = [rule.ends.sides for rule in tried]
    bounds = expected_bound(made, right, goal.runs, sides, goal)
    largest = float(bounds.max())
    k = int(np.argmax(bounds >= largest - _SIMPLER * abs(largest)))
    guessed = float(made[k] / goal.runs)
    return replace(tried[k], guessed=guessed, expected_bound=float(bounds[k]))


def _blocks(seed: np.random.SeedSequence, runs: int, until: float) -> list[Block]:
    """Cut a task into parts, each with a seed: they depend on the number of runs only."""
    size = min(_BLOCK, math.ceil(runs / _BLOCKS))
    sizes = [size] * (runs // size)
    if runs % size:
        sizes.append(runs % size)
    seeds = seed.spawn(len(sizes))
    return [(part, count, until) for part, count in zip(seeds, sizes, strict=True)]


def _in_time(function: Any, blocks: list[Block], *shared: Any) -> list[Any]:
    """Call a function of each block, unless time runs out."""
    results = each(function, blocks, *shared)
    if any(result is None for result in results):
        raise _Late
    return results


def _run_block(block: Block, source: Source, pair: Pair) -> tuple[Outcomes, Bits, Marks] | None:
    """Return outcomes, bits and marks of a block of runs, or None if it is too late."""
    seed, runs, until = block
    if time.time() > until:
        return None
    return source.block(pair, seed, runs)


def _count_block(
    block: Block, source: Source, pair: Pair, rules: list[Rule]
) -> tuple[NDArray[np.int64], Marks] | None:
    """Count each rule's guesses in a block of runs, made and right ones, and return its marks."""
    run = _run_block(block, source, pair)
    if run is None:
        return None
    seen, bits, marks = run
    return count_guesses(rules, seen, bits), marks


def _name(mechanism: Any) -> str:
    """Name a mechanism."""
    function = getattr(mechanism, "func", mechanism)  # of a partial
    return getattr(function, "__name__", type(function).__name__)
