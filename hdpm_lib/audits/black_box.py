r"""An audit of anybody's mechanism: is a promise of privacy broken between two neighbouring data sets?

In each run a fair coin chooses one of the two data sets and the mechanism releases. Training runs teach several scores
to tell the two apart and choose one rule that guesses the coin (:mod:`hdpm_lib.audits.scores`); fresh runs test that
rule alone, by exact binomial laws (:mod:`hdpm_lib.audits.bounds`). So whatever was tried in training, a mechanism that
keeps its promise is called broken with a probability of at most the level. Nothing depends on the scale of the output.

That no violation is found proves nothing about other data sets, rarer events or what the scores cannot see: an audit
never says that a mechanism is private. :doc:`/book/privacy/own` shows how to use it, and :doc:`/book/privacy/benchmark`
what it finds. Runs are made in blocks where :func:`hdpm_lib.spread.use` says; their results do not depend on it.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.audits.bounds import detectable, guess_epsilon, guess_p_value
from hdpm_lib.audits.guesses import holm
from hdpm_lib.audits.outcomes import NanRule, Outcomes
from hdpm_lib.audits.pairs import Pair, patterns, replacements, same
from hdpm_lib.audits.scores import Goal, Rule, count_guesses, promised, propose
from hdpm_lib.audits.sources import Source, find_source
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
Block = tuple[np.random.SeedSequence, int]  # and number of runs

LOOKS = ((1 / 16, 1 / 8), (1 / 4, 1 / 8), (1.0, 3 / 4))
"""When the test looks at its runs, as a share of all, and the share of the level that it spends there."""

_BLOCK, _BLOCKS = 65_536, 16  # runs handed over at once, at most, and into how many parts a task is cut at least
_TRAINING, _LEAST_TRAINING, _LEAST = 1_000_000, 400, 200  # most and fewest training runs, fewest of the test
_CHOICE, _RULES = 1, 12  # most runs that choose among rules, in units of those of the test, and rules
_SEARCH, _FINALISTS, _CANDIDATES = 200_000, 2, 24  # training runs of a pair; pairs with full training; pairs
_FOR_SEARCH, _FOR_TRAINING, _FOR_CHOICE, _FOR_TEST = 0.1, 0.1, 0.2, 0.35  # of the time; classifiers need the rest
_SIMPLER = 0.02  # what a rule may promise less, relatively, and be taken as its score is simpler


@dataclass(frozen=True)
class Look:
    """Counts of the test after some of its runs: all of them, guesses made, right ones, and its share of the level."""

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
        The test, up to the look at which it was decided.
    planned, training : int
        Runs of the test if it is not decided before, and runs that were looked at to choose what is tested.
    guessed : float
        Share of the training runs in which the rule guessed.
    sides : int
        Whether the rule guesses one data set only or both.
    first, second : object
        The two data sets.
    seed : int
        With the same pair, seed and number of runs, and without time limit, the audit comes out the same again.
    replayable : bool
        Whether the mechanism draws all its randomness from the generator it is given: the same seed gave the same.
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
    seconds: float

    @cached_property
    def p_value(self) -> float:
        """Smallest level at which the promise is rejected."""
        values = [
            guess_p_value(look.right, look.made, look.runs, self.epsilon, self.delta, self.sides) / look.share
            for look in self.looks
        ]
        return min(1.0, *values)

    @property
    def found(self) -> bool:
        """Whether a violation was found."""
        return self.p_value <= self.level

    def epsilon_lower(self, confidence: float = 1 - FALSE_ALARM) -> float:
        """A loss that the pair exceeds at this confidence, at the delta of the claim; 0 if none."""
        wrong = 1 - check_number(confidence, "confidence", 0, 1, ends="()")
        bounds = [
            guess_epsilon(look.right, look.made, look.runs, wrong * look.share, self.delta, self.sides)
            for look in self.looks
        ]
        return max(0.0, *map(float, bounds))

    def detectable(self, power: float = 0.9) -> float:
        """Loss that would have been found with this probability, if it showed in an event as frequent as this one."""
        level = self.level * self.looks[-1].share
        return detectable(self.guessed, self.planned, self.epsilon, level, self.delta, self.sides, power)

    def __str__(self) -> str:
        claim = f"epsilon = {self.epsilon:.6g}" + (f", delta = {self.delta:.3g}" if self.delta else "")
        last = self.looks[-1]
        test = f"{last.right:,} of {last.made:,} guesses were right in {last.runs:,} fresh runs"
        lines = [f"{'violation found' if self.found else 'no violation found'}: {self.mechanism}, claimed {claim}"]
        lines += [f"  pair     {self.pair}", f"  event    {self.event}"]
        lines += [f"  test     {test}: p = {self.p_value:.2g}, level {self.level:.2g}"]
        if self.found:
            sure = [f"{self.epsilon_lower(c):.4g} at confidence {c:.6g}" for c in (0.9, 1 - self.level)]
            lines += [f"  bound    the loss exceeds {', '.join(sure)}"]
            again = f"the same call with seed={self.seed}, runs={self.planned}, time_limit=None"
            lines += [
                f"  replay   {again if self.replayable else 'not possible: the mechanism draws noise of its own'}"
            ]
        else:
            lines += [
                f"  power    a loss of {self.detectable():.4g} or more in such an event would have been found with "
                "probability 0.9",
                "  unseen   other pairs, rarer events, and whatever the scores do not show: see the page of limits",
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

    def table(self, confidence: float = 1 - FALSE_ALARM) -> pd.DataFrame:
        """A row for each record, the worst first: claim, bound at this confidence, p-value, whether it is broken."""
        rows = {
            "claimed": [audit.epsilon for audit in self.sellers],
            "at least": [audit.epsilon_lower(confidence) for audit in self.sellers],
            "p": [audit.p_value for audit in self.sellers],
            "violation": self.found,
        }
        frame = pd.DataFrame(rows).rename_axis("record")
        return frame.iloc[np.lexsort((-(frame["at least"] - frame["claimed"]), frame["p"]))]

    def __str__(self) -> str:
        found, worst = self.found, self.table()
        head = f"violation found for {found.sum()} of {len(found)} records" if found.any() else "no violation found"
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
    r"""Audit the promise that a mechanism's release tells neighbouring data sets apart by at most `epsilon`.

    Parameters
    ----------
    mechanism : function or estimator
        ``mechanism(data, rng=...)`` gives one release, ``mechanism(data, rng=..., size=n)`` gives `n` of them along the
        first axis; without `rng` it draws noise of its own. A tuple of data is handed on as several arguments. What is
        returned may be the release or an object with a method ``release(rng=..., size=...)``, like the learners of this
        library; an estimator of scikit-learn is fitted in each run. See :mod:`hdpm_lib.audits.sources`.
    data : object
        Data set on which the mechanism is run.
    neighbour : object, or "search"
        A data set that differs in one record, or "search" for the worst pair of those in `among`. With many
        promises: a sequence of `n` neighbours, a function from the number of a record to a neighbour that differs in
        it, or "search".
    epsilon : float, or array of shape (n,)
        The claim, not negative. An array has a claim for each record, and every one of them is audited.
    delta : float, default 0
        In [0, 1): the claim is :math:`(\varepsilon,\delta)`-differential privacy for this pair.
    among : Schema, array of records, tuple of these, or list of Pair, optional
        Where to search: what a record may be (:func:`~hdpm_lib.audits.pairs.replacements`), or pairs. Data that are one
        vector of answers have the patterns of :func:`~hdpm_lib.audits.pairs.patterns` if nothing is given.
    runs : int, default 1,000,000
        Most runs of the final test, at least 200; training has up to twice as many for
        each pair that is looked at closely.
    level : float, default 1e-6
        Probability of a false alarm, of all records together.
    early : bool, default True
        Stop as soon as a violation is certain at the level; without, all runs are made and the bound is sharper.
    nan : {"refuse", "value"}
        Whether not-a-number is an error or an answer like any other.
    seed : int, optional
        Of everything that is random here; fresh if not given.
    time_limit : float or None, default 60
        Seconds for which runs are planned (of each record), from the speed of the first ones; some hundred are always
        made. None makes all runs.

    Returns
    -------
    Audit or Audits
        Print it, or ask for ``found``, ``p_value``, ``epsilon_lower(confidence)``, ``detectable(power)``.

    Raises
    ------
    ValueError
        For what cannot be judged: draws that are shared in a batch, an output that never changes, a function that
        ignores its generator or changes its data, NaN without a rule for it, two data sets that are the same.

    Examples
    --------
    >>> def mean(data, rng, size):   # noise for a range of 0.9 where the data have 1
    ...     return data.mean() + rng.laplace(0, 0.9 / len(data), size)
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
    if not len(claims):
        raise ValueError("epsilon is empty: there is no promise to audit")
    asked = [_pairs_of(i, len(claims), data, neighbour, among, plan.seed) for i in range(len(claims))]
    jobs = list(zip(asked, claims, strict=True))
    return Audits(tuple(each(_audit_record, jobs, plan, level / len(claims), title="records")), float(level))


def _audit_record(job: tuple[list[Pair], float], plan: _Plan, level: float) -> Audit:
    """The audit of one record's promise."""
    pairs, claim = job
    return _audit(plan, pairs, claim, level)


def _pairs(data: Any, neighbour: Any, among: Any, rng: np.random.Generator, record: int | None = None) -> list[Pair]:
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
        raise ValueError('among is missing: neighbour="search" needs a schema, records or pairs to search among')
    different = [pair for pair in found if not same(pair.first, pair.second)]
    if not different:
        raise ValueError("neighbour is the same as data: there is nothing to tell apart")
    return different


def _pairs_of(i: int, n: int, data: Any, neighbour: Any, among: Any, seed: int) -> list[Pair]:
    """The pairs that differ in record `i`."""
    if callable(neighbour):
        neighbour = neighbour(i)
    elif not isinstance(neighbour, str):
        if len(neighbour) != n:
            raise ValueError(f"neighbour must have a data set for each of {n} records, got {len(neighbour)}")
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
    start = time.monotonic()
    trying, searching, training, testing = np.random.SeedSequence(plan.seed).spawn(4)
    source = find_source(plan.mechanism, (pairs[0].first, pairs[0].second), trying, plan.nan)
    pace = _pace(source, pairs[0], trying, plan.time_limit) * width()

    def affordable(share: float, least: int, most: int) -> int:
        return int(np.clip(share * pace, least, most))

    tested = affordable(_FOR_TEST, _LEAST, plan.runs)
    goal = Goal(tested, level * LOOKS[-1][1] if plan.early else level, plan.delta)
    seen = 0
    if len(pairs) > 1:
        runs = affordable(_FOR_SEARCH / len(pairs), _LEAST_TRAINING, min(_SEARCH, plan.runs))
        promises = []
        for pair, seed in zip(pairs, searching.spawn(len(pairs)), strict=True):
            rules = propose(*_runs(source, pair, seed, runs), goal, quick=True)
            promises.append(max((rule.promise for rule in rules), default=-np.inf))
            seen += runs
        pairs = [pairs[k] for k in np.argsort(-np.array(promises), kind="stable")[:_FINALISTS]]
    chosen: list[tuple[Rule, Pair]] = []
    for pair, seed in zip(pairs, training.spawn(len(pairs)), strict=True):
        runs = affordable(_FOR_TRAINING / len(pairs), _LEAST_TRAINING, min(_TRAINING, plan.runs))
        rules = propose(*_runs(source, pair, seed.spawn(1)[0], runs), goal)
        seen += runs
        if rules:
            runs = affordable(_FOR_CHOICE / len(pairs), _LEAST_TRAINING, _CHOICE * plan.runs)
            chosen.append((_chosen(source, pair, rules, seed.spawn(1)[0], runs, goal), pair))
            seen += runs
    if not chosen:
        raise ValueError(f"mechanism gave the same output in all {seen} training runs: there is nothing to judge")
    rule, pair = max(chosen, key=lambda one: one[0].promise)
    looks = _test(source, pair, rule, testing, tested, plan, epsilon, level)
    return Audit(
        mechanism=_name(plan.mechanism),
        pair=pair.words,
        event=rule.words,
        epsilon=epsilon,
        delta=plan.delta,
        level=level,
        looks=looks,
        planned=tested,
        training=seen,
        guessed=rule.guessed,
        sides=rule.sides,
        first=pair.first,
        second=pair.second,
        seed=plan.seed,
        replayable=source.replays,
        seconds=time.monotonic() - start,
    )


def _name(mechanism: Any) -> str:
    """What a mechanism is called."""
    function = getattr(mechanism, "func", mechanism)  # of a partial
    return getattr(function, "__name__", type(function).__name__)


def _pace(source: Source, pair: Pair, seed: np.random.SeedSequence, limit: float | None) -> float:
    """Runs in the time allowed, by the speed of the first ones."""
    if limit is None:
        return np.inf
    runs, seconds = 4, 0.0
    while (seconds < 0.02 and runs < _BLOCK) or runs < 32:  # the first calls load things
        runs *= 2
        start = time.perf_counter()
        source.block((pair.first, pair.second), seed, runs)
        seconds = time.perf_counter() - start
    return limit * runs / seconds


def _blocks(seed: np.random.SeedSequence, runs: int) -> list[Block]:
    """Parts of a task, each with a seed: they depend on the number of runs only."""
    size = min(_BLOCK, -(-runs // _BLOCKS))
    sizes = [size] * (runs // size) + [runs % size] * (runs % size > 0)
    return list(zip(seed.spawn(len(sizes)), sizes, strict=True))


def _runs(source: Source, pair: Pair, seed: np.random.SeedSequence, runs: int) -> tuple[Outcomes, Bits]:
    """Outcomes and bits of training runs."""
    parts = each(_looked_at, _blocks(seed, runs), source, pair, title="training")
    columns = max(outcomes.numbers.shape[1] for outcomes, _ in parts)
    wide = [outcomes.with_columns(columns) for outcomes, _ in parts]
    labels = None
    if any(part.labels is not None for part in wide):
        none = [np.full(part.numbers.shape, None, dtype=object) for part in wide]
        labels = np.concatenate([n if part.labels is None else part.labels for part, n in zip(wide, none, strict=True)])
    return Outcomes(np.concatenate([part.numbers for part in wide]), labels), np.concatenate(
        [bits for _, bits in parts]
    )


def _looked_at(block: Block, source: Source, pair: Pair) -> tuple[Outcomes, Bits]:
    """Outcomes and bits of a block of runs."""
    return source.block((pair.first, pair.second), *block)


def _counted(block: Block, source: Source, pair: Pair, rules: list[Rule]) -> NDArray[np.int64]:
    """Guesses made and right ones of each rule in a block of runs, shape (rules, 2)."""
    return count_guesses(rules, *_looked_at(block, source, pair))


def _chosen(
    source: Source,
    pair: Pair,
    rules: list[Rule],
    seed: np.random.SeedSequence,
    runs: int,
    goal: Goal,
) -> Rule:
    """Of the most promising rules the one that promises most on fresh runs, or a simpler one that promises as much."""
    order = np.sort(np.argsort([-rule.promise for rule in rules], kind="stable")[:_RULES])
    best = [rules[k] for k in order]
    counts = sum(each(_counted, _blocks(seed, runs), source, pair, best, title="choice"))
    made, right = np.maximum(counts, 1e-9).T
    promises = promised(made, right, runs, [rule.sides for rule in best], goal)
    most = float(promises.max())
    k = int(np.argmax(promises >= most - _SIMPLER * abs(most)))
    return replace(best[k], guessed=float(made[k] / runs), promise=float(promises[k]))


def _test(
    source: Source, pair: Pair, rule: Rule, seed: np.random.SeedSequence, runs: int, plan: _Plan,
    epsilon: float, level: float,
) -> tuple[Look, ...]:  # fmt: skip
    """Fresh runs, looked at a few times, until a violation is certain."""
    looks: list[Look] = []
    counts = np.zeros(3, dtype=int)  # runs, guesses, right ones
    for (until, share), own in zip(LOOKS, seed.spawn(len(LOOKS)), strict=True):
        if not plan.early:
            until, share = 1.0, 1.0
        blocks = _blocks(own, round(until * runs) - int(counts[0]))
        for part, (_, size) in zip(each(_counted, blocks, source, pair, [rule], title="audit"), blocks, strict=True):
            counts += [size, *part[0]]
        n, made, right = map(int, counts)
        looks.append(Look(n, made, right, share))
        p = guess_p_value(right, made, n, epsilon, plan.delta, rule.sides)
        if n == runs or p <= share * level:
            break
    return tuple(looks)
