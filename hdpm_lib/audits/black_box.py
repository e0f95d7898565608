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

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

import joblib
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.audits.bounds import MOST_RUNS, detectable, guess_epsilon, guess_p_value, holm
from hdpm_lib.audits.outcomes import NanRule, Outcomes, stacked
from hdpm_lib.audits.pairs import Pair, replacements
from hdpm_lib.audits.scores import DIGIT, Goal, Rule, count_guesses, promised, propose
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
_SIMPLER = 0.02  # what a rule may promise less, relatively, and be taken as its score is simpler
_SURE = 0.8  # of the time that is left is planned for


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
        Whether the rule guesses one data set only or both.
    """

    runs: int
    made: int
    right: int
    share: float
    sides: int = 2

    def p_value(self, epsilon: float, delta: float) -> float:
        """Smallest level of the audit at which this test rejects its claim."""
        found = guess_p_value(self.right, self.made, self.runs, epsilon, delta, self.sides)
        return found / self.share


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Frozen):
    """What an audit found, in numbers; as a string in words.

    Attributes
    ----------
    mechanism, pair, event : str
        What was audited, which data sets were compared, and the rule of the guesses.
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
        Whether the mechanism draws all its randomness from the generator it is given: the same seed
        gave the same.
    repeats : bool
        Whether equal releases follow each other, so that the runs are not independent.
    unseen : tuple of str
        What was released and cannot be looked at.
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
        return [look for look in self.looks if look.share and not self.repeats]

    @cached_property
    def p_value(self) -> float:
        """Smallest level at which the promise is rejected."""
        return min([1.0, *(look.p_value(self.epsilon, self.delta) for look in self._tested)])

    @property
    def found(self) -> bool:
        """Whether a violation was found."""
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
        """Whether no violation was found where one could have been: what a test asks for."""
        return not self.found and not self.undecided

    def epsilon_lower(self, confidence: float = 1 - FALSE_ALARM) -> float:
        """A loss that the pair exceeds, at the delta of the claim.

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
        bounds = [
            guess_epsilon(
                look.right, look.made, look.runs, wrong * look.share, self.delta, look.sides
            )
            for look in self._tested
        ]
        return max([0.0, *map(float, bounds)])

    def detectable(self, power: float = 0.9) -> float:
        """Loss that the last test would have found, in an event as frequent as the one tested.

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
            lower = (
                f"{self.epsilon_lower(c):.4g} at confidence {c:.12g}" for c in (0.9, 1 - self.level)
            )
            again = f"the same call with seed={self.seed}, runs={self.planned}, time_limit=None"
            if not self.replayable:
                again = "not possible: the mechanism draws noise of its own"
            lines += [f"  bound    the loss exceeds {', '.join(lower)}", f"  replay   {again}"]
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
    """What audits of all records found, each against a promise of her own; as a string in words.

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
        """Whether no violation was found for anybody, and could have been for all."""
        return not self.found.any() and all(audit.passed for audit in self.sellers)

    def table(self, confidence: float = 1 - FALSE_ALARM) -> pd.DataFrame:
        """Claims, bounds, p-values and verdicts, a row for each record, the worst first.

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
        return frame.iloc[np.lexsort((-(frame["at least"] - frame["claimed"]), frame["p"]))]

    def __str__(self) -> str:
        found = self.found
        worst = self.table()
        waiting = sum(bool(audit.undecided) for audit in self.sellers)
        head = (
            f"not decided for {waiting} of {len(found)} records"
            if waiting
            else "no violation found"
        )
        if found.any():
            more = f", {waiting} not decided" if waiting else ""
            head = f"violation found for {found.sum()} of {len(found)} records{more}"
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
        Where to search: what a record may be (:func:`~hdpm_lib.audits.pairs.replacements`), or
        pairs. If the data are no records but answers to queries, all of which one record moves:
        ``patterns(data)`` of :func:`~hdpm_lib.audits.pairs.patterns`.
    runs : int, default 1,000,000
        Runs of the last and largest test, from 200 to a million million. For each pair that is
        looked at closely, up to twice as many teach and choose what is tested.
    level : float, default 1e-6
        Probability of a false alarm in (0, 1), of all tests and records together.
    early : bool, default True
        Whether smaller tests come first and end the audit as soon as a violation is certain.
        Without, which takes ``time_limit=None``, there is one test of all runs and the bound is
        sharper.
    nan : {"refuse", "value"}
        Whether not-a-number is an error or an answer like any other.
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
    own = secrets.randbits(48) if seed is None else check_count(seed, "seed", 0)
    plan = _Plan(mechanism, float(delta), int(runs), early, nan, own, time_limit)
    if np.ndim(epsilon) == 0:
        pairs = _pairs(data, neighbour, among, np.random.default_rng([plan.seed, 0]))
        return _audit(plan, pairs, check_number(epsilon, "epsilon", 0), level)
    claims = check_finite(epsilon, "epsilon", 1, 0)
    asked = [
        _pairs_of(i, len(claims), data, neighbour, among, plan.seed) for i in range(len(claims))
    ]
    jobs = list(zip(asked, claims, strict=True))
    return Audits(tuple(each(_audit_record, jobs, plan, level / len(claims))), float(level))


def _audit_record(job: tuple[list[Pair], float], plan: _Plan, level: float) -> Audit:
    """The audit of one record's promise."""
    pairs, claim = job
    return _audit(plan, pairs, claim, level)


def _pairs(
    data: Any, neighbour: Any, among: Any, rng: np.random.Generator, record: int | None = None
) -> list[Pair]:
    """The pairs to look at."""
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
    """The pairs that differ in record `i`."""
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
    """What all audits of one call have in common."""

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
        What was tested last.
    looks : list of Look
    training : int
        Runs that taught and chose rules.
    marks : list of Marks
    unseen : set of str
    constant : bool
        Whether all training runs of a pair gave the same.
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
        """Outcomes and bits of training runs."""
        found, bits, marks = zip(
            *_in_time(_looked_at, _blocks(seed, count, self.end), self.source, pair), strict=True
        )
        self.training += count
        self.marks += marks
        return stacked(found), np.concatenate(bits)

    def counts(
        self, pair: Pair, rules: list[Rule], seed: np.random.SeedSequence, count: int
    ) -> NDArray[np.int64]:
        """Guesses made and right ones of each rule in fresh runs, shape (rules, 2)."""
        blocks = _blocks(seed, count, self.end)
        found, marks = zip(*_in_time(_counted, blocks, self.source, pair, rules), strict=True)
        self.marks += marks
        return np.sum(found, axis=0)

    def learned(self, seen: Outcomes, bits: Bits, goal: Goal, quick: bool = False) -> list[Rule]:
        """Rules that training runs propose, if there is time to learn."""
        start = time.time()
        if start + self.learning * goal.runs > self.end:
            raise _Late
        rules = propose(seen, bits, goal, quick=quick)
        self.learning = (time.time() - start) / goal.runs
        return rules


def _audit(plan: _Plan, pairs: list[Pair], epsilon: float, level: float) -> Audit:
    """Tests on ever more runs, each of a rule that others have taught, until one decides."""
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
        cost = (time.time() - begun) / size / _SURE
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
    in_order = [list(chain(*one)) for one in zip(*work.marks, strict=True)]
    return Audit(
        mechanism=_name(plan.mechanism),
        pair=work.pair.words,
        event=work.rule.words if work.rule else "none",
        epsilon=epsilon,
        delta=plan.delta,
        level=level,
        looks=tuple(work.looks) or (Look(0, 0, 0, 0.0),),
        planned=work.planned,
        training=work.training,
        guessed=work.rule.guessed if work.rule else 0.0,
        first=work.pair.first,
        second=work.pair.second,
        seed=plan.seed,
        replayable=source.replays,
        repeats=min(map(repeats, in_order), default=1.0) <= FALSE_ALARM / 2,
        unseen=tuple(sorted(work.unseen)),
        stopped="" if work.looks else stopped,
        seconds=time.time() - start,
    )


def _sizes(plan: _Plan) -> list[int]:
    """Runs of each test: ever more up to what was asked for, or all at once."""
    sizes = []
    size = _FIRST
    while plan.early and 2 * size <= plan.runs:
        sizes.append(size)
        size *= _GROWTH
    return [*sizes, plan.runs]


def _first_cost(source: Source, pairs: list[Pair], seed: np.random.SeedSequence) -> float:
    """Seconds that the first test takes for each of its runs, by the speed of a few runs."""
    start = time.time()
    source.block(pairs[0], seed, _BLOCKS)
    searched = len(pairs) * (len(pairs) > 1)
    runs = 1 + searched + 2 * min(len(pairs), _FINALISTS)
    return (time.time() - start) / _BLOCKS / width() * runs / _SURE


def _affordable(work: _Work, size: int, cost: float) -> int:
    """Runs of the next test: the last one takes the time that is left, if that gets anywhere."""
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
    """Which pair, which rule, and a test of it on fresh runs, with a share of what level is left.

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
    """The pairs that promise most after a short look at each."""
    if len(pairs) == 1:
        return pairs
    promises = []
    for pair, own in zip(pairs, seed.spawn(len(pairs)), strict=True):
        count = _training_runs(work, min(goal.runs, _SEARCH))
        rules = work.learned(*work.runs(pair, own, count), goal, quick=True)
        promises.append(max((rule.promise for rule in rules), default=-np.inf))
    order = np.argsort(-np.array(promises), kind="stable")
    return [pairs[k] for k in order[:_FINALISTS]]


def _which_rule(
    work: _Work, pairs: list[Pair], seed: np.random.SeedSequence, goal: Goal
) -> tuple[Rule, Pair] | None:
    """The rule that promises most, and for which pair: taught by some runs, chosen by others."""
    found = []
    unseen: set[str] = set()
    for pair, own in zip(pairs, seed.spawn(len(pairs)), strict=True):
        seen, bits = work.runs(pair, own.spawn(1)[0], _training_runs(work, goal.runs))
        work.constant = work.constant and seen.constant()
        unseen |= seen.unseen()
        rules = work.learned(seen, bits, goal)
        if rules:
            found.append((_chosen(work, pair, rules, own.spawn(1)[0], goal), pair))
    work.unseen = unseen
    return max(found, key=lambda one: one[0].promise, default=None)


def _training_runs(work: _Work, count: int) -> int:
    """So many, as far as they help and find room."""
    return min(count, _TRAINING, _NUMBERS // work.source.columns)


def _chosen(
    work: _Work, pair: Pair, rules: list[Rule], seed: np.random.SeedSequence, goal: Goal
) -> Rule:
    """Of the most promising rules the one that promises most on fresh runs, or a simpler one."""
    order = np.sort(np.argsort([-rule.promise for rule in rules], kind="stable")[:_RULES])
    best = [rules[k] for k in order]
    made, right = np.maximum(work.counts(pair, best, seed, goal.runs), 1e-9).T
    work.training += goal.runs
    promises = promised(made, right, goal.runs, [rule.ends.sides for rule in best], goal)
    most = float(promises.max())
    k = int(np.argmax(promises >= most - _SIMPLER * abs(most)))
    guessed = float(made[k] / goal.runs)
    return replace(best[k], guessed=guessed, promise=float(promises[k]))


def _blocks(seed: np.random.SeedSequence, runs: int, until: float) -> list[Block]:
    """Parts of a task, each with a seed: they depend on the number of runs only."""
    size = min(_BLOCK, -(-runs // _BLOCKS))
    sizes = [size] * (runs // size) + [runs % size] * (runs % size > 0)
    seeds = seed.spawn(len(sizes))
    return [(own, count, until) for own, count in zip(seeds, sizes, strict=True)]


def _in_time(function: Any, blocks: list[Block], *shared: Any) -> list[Any]:
    """What a function makes of all blocks."""
    found = each(function, blocks, *shared)
    if any(part is None for part in found):
        raise _Late
    return found


def _looked_at(block: Block, source: Source, pair: Pair) -> tuple[Outcomes, Bits, Marks] | None:
    """Outcomes, bits and marks of a block of runs, or None if it is too late."""
    seed, runs, until = block
    return None if time.time() > until else source.block(pair, seed, runs)


def _counted(
    block: Block, source: Source, pair: Pair, rules: list[Rule]
) -> tuple[NDArray[np.int64], Marks] | None:
    """Guesses made and right ones of each rule in a block of runs, shape (rules, 2), and marks."""
    found = _looked_at(block, source, pair)
    return None if found is None else (count_guesses(rules, *found[:2]), found[2])


def _name(mechanism: Any) -> str:
    """What a mechanism is called."""
    function = getattr(mechanism, "func", mechanism)  # of a partial
    return getattr(function, "__name__", type(function).__name__)
