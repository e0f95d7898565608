r"""An audit of anybody's mechanism: is a promise of privacy broken between two neighbouring data
sets?

In each run a fair coin chooses one of the two data sets and the mechanism releases. Training runs
teach several scores to tell the two apart and choose one rule that guesses the coin
(:mod:`hdpm_lib.audits.scores`); fresh runs test that rule alone, by exact binomial laws
(:mod:`hdpm_lib.audits.bounds`). So whatever was tried in training, a mechanism that keeps its
promise is called broken with a probability of at most the level. Nothing depends on the scale of
the output.

That no violation is found proves nothing about other data sets, rarer events or what the scores
cannot see: an audit never says that a mechanism is private. Without evidence, as when no guess was
made, it says that nothing is decided. :doc:`/book/privacy/audits` shows how to use it and what it
finds. Runs are made in blocks where :func:`hdpm_lib.spread.use` says; their results do not depend
on it.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

import joblib
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.audits.bounds import detectable, guess_epsilon, guess_p_value, holm
from hdpm_lib.audits.outcomes import NanRule, Outcomes, stacked
from hdpm_lib.audits.pairs import Pair, patterns, replacements
from hdpm_lib.audits.scores import DIGIT, Ends, Goal, Rule, Value, count_guesses, promised, propose
from hdpm_lib.audits.sources import Marks, Source, find_source, repeats
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
# and number of runs, and when it is too late to make them
Block = tuple[np.random.SeedSequence, int, float]

LOOKS = ((1 / 16, 1 / 8), (1 / 4, 1 / 8), (1.0, 3 / 4))
"""When the test looks at its runs, as a share of all, and the share of the level spent there."""

# runs handed over at once, at most, and into how many parts a task is cut at least
_BLOCK = 65_536
_BLOCKS = 16
# most and fewest training runs, fewest of the test
_TRAINING = 1_000_000
_LEAST_TRAINING = 400
_LEAST = 200
# most runs that choose among rules, in units of those of the test, and rules
_CHOICE = 1
_RULES = 12
# training runs of a pair; pairs with full training; pairs
_SEARCH = 200_000
_FINALISTS = 2
_CANDIDATES = 24
# of the time; classifiers need the rest
_FOR_SEARCH = 0.1
_FOR_TRAINING = 0.1
_FOR_CHOICE = 0.2
_FOR_TEST = 0.35
# of what is left: for the test; of all: when training, choice and test must end
_SURE = 0.8
_ENDS = (0.6, 0.75, 1.05)
_SIMPLER = 0.02  # what a rule may promise less, relatively, and be taken as its score is simpler


@dataclass(frozen=True)
class Look:
    """Counts of the test after some of its runs: all of them, guesses made, right ones, and its
    share of the level.
    """

    runs: int
    made: int
    right: int
    share: float


@dataclass(frozen=True)
class Audit:
    """What an audit found, in numbers; as a string in words.

    Attributes
    ----------
    mechanism, pair, event : str
        What was audited, which data sets were compared, and the rule of the guesses.
    epsilon, delta, level : float
        The claim, and the probability of a false alarm.
    looks : tuple of Look
        The test, up to the look at which it was decided; a last one with no share of the level if
        time ran out.
    planned, training : int
        Runs of the test if it is not decided before, and runs that were looked at to choose what is
        tested.
    guessed : float
        Share of the training runs in which the rule guessed.
    sides : int
        Whether the rule guesses one data set only or both.
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
        Types of objects that were released and could not be looked into.
    seconds : float
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
    sides: int
    first: Any = field(repr=False)
    second: Any = field(repr=False)
    seed: int
    replayable: bool
    repeats: bool
    unseen: tuple[str, ...]
    seconds: float

    @property
    def _tested(self) -> list[Look]:
        """Looks that have a share of the level."""
        return [look for look in self.looks if look.share and not self.repeats]

    @cached_property
    def p_value(self) -> float:
        """Smallest level at which the promise is rejected."""
        values = [
            guess_p_value(look.right, look.made, look.runs, self.epsilon, self.delta, self.sides)
            / look.share
            for look in self._tested
        ]
        return min([1.0, *values])

    @property
    def found(self) -> bool:
        """Whether a violation was found."""
        return self.p_value <= self.level

    @property
    def undecided(self) -> str:
        """Why it is not decided whether there is a violation; empty if it is."""
        last = self.looks[-1]
        claim = (self.epsilon, self.delta, self.sides)
        if self.repeats:
            return (
                "releases come back in a row, so the runs are not independent: is the noise seeded,"
                " by a clock?"
            )
        if self.found:
            return ""
        if last.runs < (planned := max(self.planned, _LEAST)):
            return f"time ran out after {last.runs:,} of {planned:,} runs of the test"
        if guess_p_value(last.made, last.made, last.runs, *claim) > self.level * last.share:
            return (
                f"{last.made:,} guesses prove nothing at this claim and level, even if all of them"
                " are right"
            )
        return ""

    @property
    def passed(self) -> bool:
        """Whether no violation was found where one could have been: what a test of a mechanism asks
        for.
        """
        return not self.found and not self.undecided

    def epsilon_lower(self, confidence: float = 1 - FALSE_ALARM) -> float:
        """A loss that the pair exceeds at this confidence, at the delta of the claim; 0 if none."""
        wrong = 1 - check_number(confidence, "confidence", 0, 1, ends="()")
        bounds = [
            guess_epsilon(
                look.right, look.made, look.runs, wrong * look.share, self.delta, self.sides
            )
            for look in self._tested
        ]
        return max([0.0, *map(float, bounds)])

    def detectable(self, power: float = 0.9) -> float:
        """Loss that would have been found with this probability, if it showed in an event as
        frequent as this one.
        """
        if self.undecided:
            return np.inf
        level = self.level * self.looks[-1].share
        return detectable(
            self.guessed, self.planned, self.epsilon, level, self.delta, self.sides, power
        )

    def __str__(self) -> str:
        claim = f"epsilon = {self.epsilon:.6g}" + (
            f", delta = {self.delta:.3g}" if self.delta else ""
        )
        last = self.looks[-1]
        test = f"{last.right:,} of {last.made:,} guesses were right in {last.runs:,} fresh runs"
        verdict = (
            "not decided"
            if self.undecided
            else "violation found"
            if self.found
            else "no violation found"
        )
        lines = [f"{verdict}: {self.mechanism}, claimed {claim}"]
        lines += [f"  pair     {self.pair}", f"  event    {self.event}"]
        lines += [f"  test     {test}: p = {self.p_value:.2g}, level {self.level:.2g}"]
        if self.undecided:
            lines += [f"  why      {self.undecided}"]
        elif self.found:
            sure = [
                f"{self.epsilon_lower(c):.4g} at confidence {c:.6g}" for c in (0.9, 1 - self.level)
            ]
            lines += [f"  bound    the loss exceeds {', '.join(sure)}"]
            again = f"the same call with seed={self.seed}, runs={self.planned}, time_limit=None"
            own = "not possible: the mechanism draws noise of its own"
            lines += [f"  replay   {again if self.replayable else own}"]
            if DIGIT in self.event:
                lines += ["  next     round the output to see whether anything else tells"]
        else:
            lines += [
                (
                    f"  power    a loss of {self.detectable():.4g} or more in such an event would"
                    " have been found with probability 0.9"
                ),
                (
                    "  unseen   other pairs, rarer events, and whatever the scores do not show: see"
                    " the page of limits"
                ),
            ]
        if self.unseen:
            lines += [
                f"  ignored  what is inside {', '.join(self.unseen)}: it cannot be looked into"
            ]
        return "\n".join(lines)


@dataclass(frozen=True)
class Audits:
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
        """A row for each record, the worst first: claim, bound at this confidence, p-value, whether
        it is broken.
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
    r"""Audit the promise that a mechanism's release tells neighbouring data sets apart by at most
    `epsilon`.

    Parameters
    ----------
    mechanism : function or estimator
        ``mechanism(data, rng=...)`` gives one release, ``mechanism(data, rng=..., size=n)`` gives
        `n` of them along the first axis; without `rng` it draws noise of its own. A tuple of data
        is handed on as several arguments. An exception is an output like any other, with its
        message. What is returned may be the release or an object with a method ``release(rng=...,
        size=...)``, like the learners of this library; an estimator of scikit-learn is fitted in
        each run. See :mod:`hdpm_lib.audits.sources`.
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
        pairs. Data that are one vector of answers have the patterns of
        :func:`~hdpm_lib.audits.pairs.patterns` if nothing is given.
    runs : int, default 1,000,000
        Most runs of the final test, at least 200; training has up to twice as many for
        each pair that is looked at closely.
    level : float, default 1e-6
        Probability of a false alarm, of all records together.
    early : bool, default True
        Stop as soon as a violation is certain at the level; without, all runs are made and the
        bound is sharper.
    nan : {"refuse", "value"}
        Whether not-a-number is an error or an answer like any other.
    seed : int, optional
        Of everything that is random here; fresh if not given.
    time_limit : float or None, default 60
        Seconds (for each record). What cannot be decided in it is said to be not decided. None
        makes all runs.

    Returns
    -------
    Audit or Audits
        Print it, or ask for ``found``, ``passed``, ``undecided``, ``p_value``,
        ``epsilon_lower(confidence)``, ``detectable(power)``.

    Raises
    ------
    ValueError
        For what cannot be judged: draws that are shared in a batch, an output that never changes, a
        function that ignores its generator, changes its data or refuses both data sets, NaN without
        a rule for it, two data sets that are the same.

    Examples
    --------
    >>> def mean(data, rng, size):   # noise for a range of 0.9 where the data have 1
    ...     return (data.mean() + rng.laplace(0, 0.9 / len(data), size)).round(3)
    >>> found = audit(mean, np.zeros(10), np.eye(10)[0], epsilon=1.0, runs=200_000, seed=0)
    >>> found.found, round(found.epsilon_lower(), 2)
    (True, 1.03)
    """
    check_count(runs, "runs", _LEAST)
    check_number(level, "level", 0, 1, ends="()")
    check_number(delta, "delta", 0, 1, ends="[)")
    check_flag(early, "early")
    check_choice(nan, "nan", ("refuse", "value"))
    if time_limit is not None:
        check_positive(time_limit, "time_limit")
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
    elif record is None and np.ndim(data) == 1:
        found = patterns(data)
    else:
        raise ValueError(
            'among is missing: neighbour="search" needs a schema, records or pairs to search among'
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


def _audit(plan: _Plan, pairs: list[Pair], epsilon: float, level: float) -> Audit:
    """Learn on some runs which rule tells most about which pair, and test it on others."""
    start = time.time()
    limit = np.inf if plan.time_limit is None else plan.time_limit
    ends = [start + share * limit for share in _ENDS]
    trying, searching, training, testing = np.random.SeedSequence(plan.seed).spawn(4)
    source = find_source(plan.mechanism, pairs[0], trying, plan.nan, limit)
    pace = _pace(source, pairs[0], trying, limit) * width()
    each_ = limit

    def affordable(share: float, least: int, most: int) -> int:
        few = max(_BLOCKS, min(least, _FOR_CHOICE * each_ * pace))
        return int(np.clip(share * each_ * pace, few, max(few, most)))

    tested = affordable(_FOR_TEST, _LEAST, plan.runs)
    goal = Goal(tested, level * LOOKS[-1][1] if plan.early else level, plan.delta)
    each_ = limit / len(pairs)
    seen = 0
    if len(pairs) > 1:
        runs = affordable(_FOR_SEARCH, _LEAST_TRAINING, min(_SEARCH, plan.runs))
        promises = []
        for pair, seed in zip(pairs, searching.spawn(len(pairs)), strict=True):
            found, bits, _ = _runs(source, pair, seed, runs, ends[0])
            rules = propose(found, bits, goal, each_, quick=True) if len(bits) >= _BLOCKS else []
            promises.append(max((rule.promise for rule in rules), default=-np.inf))
            seen += len(bits)
        pairs = [pairs[k] for k in np.argsort(-np.array(promises), kind="stable")[:_FINALISTS]]
        each_ = limit / len(pairs)
    chosen: list[tuple[Rule, Pair, list[Marks], float]] = []
    for pair, seed in zip(pairs, training.spawn(len(pairs)), strict=True):
        runs = affordable(_FOR_TRAINING, _LEAST_TRAINING, min(_TRAINING, plan.runs))
        found, bits, marks = _runs(source, pair, seed.spawn(1)[0], runs, ends[0])
        rules = propose(found, bits, goal, each_) if len(bits) >= _BLOCKS else []
        seen += len(bits)
        if rules:
            runs = affordable(_FOR_CHOICE, _LEAST_TRAINING, _CHOICE * plan.runs)
            begun = time.time()
            rule, made, more = _chosen(source, pair, rules, seed.spawn(1)[0], runs, goal, ends[1])
            chosen.append((rule, pair, marks + more, made / max(time.time() - begun, 1e-9)))
            seen += made
    looks: tuple[Look, ...] = (Look(0, 0, 0, 0.0),)
    if not chosen and time.time() < ends[0]:
        raise ValueError(
            f"mechanism gave the same output in all {seen} training runs: there is nothing to judge"
        )
    # if there was no time to find one
    none = Rule(Value(0, ""), 1, Ends(-np.inf, np.inf, False, True), 0.0, 0.0)
    rule, pair, marks, pace = max(
        chosen, key=lambda one: one[0].promise, default=(none, pairs[0], [], 0.0)
    )
    if chosen:
        tested = int(np.clip(_SURE * (start + limit - time.time()) * pace, _BLOCKS, plan.runs))
        looks, more = _test(source, pair, rule, testing, tested, plan, epsilon, level, ends[2])
        marks += more
    in_order = [list(chain(*one)) for one in zip(*marks, strict=True)]
    return Audit(
        mechanism=_name(plan.mechanism),
        pair=pair.words,
        event=rule.words or "none",
        epsilon=epsilon,
        delta=plan.delta,
        level=level,
        looks=looks,
        planned=tested,
        training=seen,
        guessed=rule.guessed,
        sides=rule.ends.sides,
        first=pair.first,
        second=pair.second,
        seed=plan.seed,
        replayable=source.replays,
        repeats=min(map(repeats, in_order), default=1.0) <= FALSE_ALARM / 2,
        unseen=source.unseen,
        seconds=time.time() - start,
    )


def _name(mechanism: Any) -> str:
    """What a mechanism is called."""
    function = getattr(mechanism, "func", mechanism)  # of a partial
    return getattr(function, "__name__", type(function).__name__)


def _pace(source: Source, pair: Pair, seed: np.random.SeedSequence, limit: float) -> float:
    """Runs a second, by the speed of the first ones."""
    if np.isinf(limit):
        return np.inf
    runs = 1
    seconds = 0.0
    # the first calls load things
    while seconds < 0.02 * min(limit, 1.0 if runs < 32 else 0.1) and runs < _BLOCK:
        runs *= 2
        start = time.perf_counter()
        source.block(pair, seed, runs)
        seconds = time.perf_counter() - start
    return runs / seconds


def _blocks(seed: np.random.SeedSequence, runs: int, until: float) -> list[Block]:
    """Parts of a task, each with a seed: they depend on the number of runs only. The first one is
    never too late.
    """
    size = min(_BLOCK, -(-runs // _BLOCKS))
    sizes = [size] * (runs // size) + [runs % size] * (runs % size > 0)
    return list(
        zip(seed.spawn(len(sizes)), sizes, [np.inf] + [until] * (len(sizes) - 1), strict=True)
    )


def _in_time(function: Any, blocks: list[Block], *shared: Any) -> list[Any]:
    """What a function makes of the blocks that are not too late."""
    return [part for part in each(function, blocks, *shared) if part is not None]


def _runs(
    source: Source, pair: Pair, seed: np.random.SeedSequence, runs: int, until: float
) -> tuple[Outcomes, Bits, list[Marks]]:
    """Outcomes, bits and marks of training runs."""
    found, bits, marks = zip(
        *_in_time(_looked_at, _blocks(seed, runs, until), source, pair), strict=True
    )
    return stacked(found), np.concatenate(bits), list(marks)


def _looked_at(block: Block, source: Source, pair: Pair) -> tuple[Outcomes, Bits, Marks] | None:
    """Outcomes, bits and marks of a block of runs."""
    seed, runs, until = block
    return None if time.time() > until else source.block(pair, seed, runs)


def _counted(
    block: Block, source: Source, pair: Pair, rules: list[Rule]
) -> tuple[NDArray[np.int64], Marks] | None:
    """Runs of a block, guesses made and right ones, of each rule, shape (rules, 3), and marks."""
    if (found := _looked_at(block, source, pair)) is None:
        return None
    counts = count_guesses(rules, *found[:2])
    return np.column_stack([np.full(len(rules), block[1]), counts]), found[2]


def _chosen(
    source: Source,
    pair: Pair,
    rules: list[Rule],
    seed: np.random.SeedSequence,
    runs: int,
    goal: Goal,
    until: float,
) -> tuple[Rule, int, list[Marks]]:
    """Of the most promising rules the one that promises most on fresh runs, or a simpler one that
    promises as much.
    """
    order = np.sort(np.argsort([-rule.promise for rule in rules], kind="stable")[:_RULES])
    best = [rules[k] for k in order]
    counts, marks = zip(
        *_in_time(_counted, _blocks(seed, runs, until), source, pair, best), strict=True
    )
    (runs, *_), made, right = np.maximum(sum(counts), 1e-9).T
    promises = promised(made, right, runs, [rule.ends.sides for rule in best], goal)
    most = float(promises.max())
    k = int(np.argmax(promises >= most - _SIMPLER * abs(most)))
    return (
        replace(best[k], guessed=float(made[k] / runs), promise=float(promises[k])),
        int(runs),
        list(marks),
    )


def _test(
    source: Source,
    pair: Pair,
    rule: Rule,
    seed: np.random.SeedSequence,
    runs: int,
    plan: _Plan,
    epsilon: float,
    level: float,
    end: float,
) -> tuple[tuple[Look, ...], list[Marks]]:
    """Fresh runs, looked at a few times, until a violation is certain or time is over."""
    looks: list[Look] = []
    marks: list[Marks] = []
    counts = np.zeros(3, dtype=int)  # runs, guesses, right ones
    for (until, share), own in zip(LOOKS, seed.spawn(len(LOOKS)), strict=True):
        if not plan.early:
            until = 1.0
            share = 1.0
        blocks = _blocks(own, round(until * runs) - int(counts[0]), end)
        parts = _in_time(_counted, blocks, source, pair, [rule])
        counts += sum(part[0][0] for part in parts)
        marks += [part[1] for part in parts]
        n, made, right = map(int, counts)
        late = len(parts) < len(blocks)
        looks.append(Look(n, made, right, 0.0 if late else share))
        if (
            late
            or n == runs
            or guess_p_value(right, made, n, epsilon, plan.delta, rule.ends.sides) <= share * level
        ):
            break
    return tuple(looks), marks
