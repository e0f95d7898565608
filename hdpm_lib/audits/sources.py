"""Running somebody's mechanism: how it wants to be called, and whether its draws can be judged.

A mechanism is a function of the data (a tuple is handed on as several arguments) and, where its
signature has them, of `rng`, a generator that all its randomness must come from, and of `size`, a
number of independent releases along the first axis. A scikit-learn estimator is fitted anew in
every run, with a seed of its own, and releases all fitted attributes, with what is inside objects.
An exception is a release as well, of its type and its message, as users see both.

What the releases of one call with `size` have in common, such as the type of an array, says nothing
of a single one, and may depend on all of them: if it is not always the same, they must be asked for
one by one.
"""

from __future__ import annotations

import inspect
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.base import BaseEstimator, clone

from hdpm_lib.audits.outcomes import (
    ABSENT,
    MOST_COLUMNS,
    UNSEEN,
    NanRule,
    Outcomes,
    Parts,
    flat,
    in_common,
    outcomes,
    stacked,
)
from hdpm_lib.audits.pairs import Pair

Marks = tuple[list[int], list[int]]

# releases of each data set that are compared when a mechanism is tried, and in each block of runs
_TRIED = 64
# of the time, for each of a few such trials: a slow mechanism is tried less often
_FOR_TRIAL = 0.01


class Refusal(tuple[str, str]):
    """Type and message of an exception."""


@dataclass(frozen=True)
class Source:
    """A mechanism and how it is called.

    Attributes
    ----------
    mechanism : callable or estimator
    rng, size : bool
        True if it takes a generator, and a number of releases.
    nan : {"refuse", "value"}
    replays : bool
        True if the same seed gives the same releases.
    common : str, or None
        Type and shape that all releases of a call must share; None if each has a call of its own.
    columns : int
        Of a release.
    """

    mechanism: Any
    rng: bool
    size: bool
    nan: NanRule
    replays: bool = True
    common: str | None = None
    columns: int = 1

    def releases(self, data: Any, rng: np.random.Generator, size: int) -> Any:
        """Make `size` independent releases of one data set, one along the first axis for each."""
        arguments = data if isinstance(data, tuple) else (data,)
        if isinstance(self.mechanism, BaseEstimator):
            fit = partial(_fitted, self.mechanism, arguments, rng)
            return [_learned(_result(fit)) for _ in range(size)]
        call = partial(self.mechanism, *arguments)
        if self.rng:
            call = partial(call, rng=rng)
        if self.size:
            return _batch(call, size)
        return [_result(call) for _ in range(size)]

    def block(
        self, pair: Pair, seed: np.random.SeedSequence, runs: int
    ) -> tuple[Outcomes, NDArray[np.bool_], Marks]:
        """Run on data sets that fair coins choose: outcomes, the coins, and marks of some."""
        rng = np.random.default_rng(seed)
        bits = rng.integers(0, 2, runs).astype(bool)
        of_second = int(bits.sum())
        batches = []
        for data, count in ((pair.first, runs - of_second), (pair.second, of_second)):
            if count:
                batches.append(self.releases(data, rng, count))
        for batch in batches:
            self.check_common(batch)
        by_data_set = stacked([outcomes(batch, self.nan) for batch in batches])
        seen = by_data_set[np.argsort(np.argsort(bits, kind="stable"))]
        return seen, bits, (_marks(seen[~bits]), _marks(seen[bits]))

    def check_common(self, batch: Any) -> None:
        """Refuse a batch whose releases have other things in common than those of other batches."""
        if self.common is None or _refused(batch):
            return
        common = in_common(batch)
        if common != self.common:
            raise ValueError(
                f"mechanism gives batches of different kinds, {self.common} and {common}: take no"
                " `size`, to tell which release is of which kind"
            )


def _result(call: Callable[..., Any], **options: int) -> Any:
    """Return what a call gives, or its refusal."""
    try:
        return call(**options)
    except Exception as error:
        return Refusal((f"raised {type(error).__name__}", str(error)))


def _batch(call: Callable[..., Any], size: int) -> Any:
    """Make `size` releases by one call, or as many refusals if data are always refused."""
    batch = _result(call, size=size)
    if isinstance(batch, Refusal):
        again = _result(call, size=1)
        if not isinstance(again, Refusal) or again[0] != batch[0]:
            raise ValueError(
                f"mechanism {': '.join(batch)}, at times: take no `size`, to tell which release is"
                " refused"
            )
        return [again] * size
    count = 1
    scalar = isinstance(batch, np.ndarray) and batch.ndim == 0
    if hasattr(batch, "__len__") and not scalar:
        count = len(batch)
    if count != size:
        raise ValueError(
            f"mechanism must give {size} releases along the first axis for size={size}, got {count}"
        )
    return batch


def _fitted(estimator: Any, arguments: tuple[Any, ...], rng: np.random.Generator) -> Any:
    """Fit a fresh copy of an estimator to the data, with seeds of its own."""
    seeds = {}
    for name in estimator.get_params():
        if name.split("__")[-1] in ("random_state", "rng"):
            seeds[name] = int(rng.integers(2**31))
    return clone(estimator).set_params(**seeds).fit(*arguments)


def _refused(batch: Any) -> bool:
    """Tell whether a batch is of refusals."""
    return isinstance(batch, list) and isinstance(batch[0], Refusal)


def _all_refused(batch: Any) -> bool:
    """Tell whether each release of a batch is a refusal."""
    return isinstance(batch, list) and all(isinstance(release, Refusal) for release in batch)


def _learned(model: Any) -> Any:
    """Return what an estimator has learned, or its refusal."""
    if isinstance(model, Refusal):
        return model
    values, form = flat(model)
    if not values:
        raise ValueError(
            f"mechanism {type(model).__name__} learns no numbers: audit a function of its"
            " predictions"
        )
    if len(values) > MOST_COLUMNS:
        values[MOST_COLUMNS - 1 :] = [f"{UNSEEN}the rest of many numbers"]
    return Parts(values, form)


def repeats(marks: list[int]) -> float:
    """Return a p-value of independent releases: marks equal the next as often as a late one."""
    third = len(marks) // 3
    pairs = np.reshape(marks[: 2 * third], (-1, 2))
    mark = pairs[:, 0]
    following = pairs[:, 1]
    late = np.array(marks[2 * third : 3 * third])
    like_following = np.sum((mark == following) & (mark != late))
    like_late = np.sum((mark == late) & (mark != following))
    return float(stats.binom.sf(like_following - 1, like_following + like_late, 0.5))


def find_source(
    mechanism: Any, pair: Pair, seed: np.random.SeedSequence, nan: NanRule, limit: float
) -> Source:
    """Find out how to call a mechanism, and whether its draws can be judged.

    It is tried with the first data set: it may not change them, must draw from the generator that
    it takes, and must draw each release of a batch afresh; it may refuse one data set, but not
    both.
    """
    if isinstance(mechanism, BaseEstimator):
        taken: set[str] = {"rng"}
    elif callable(mechanism):
        taken = _taken(mechanism, len(pair.first) if isinstance(pair.first, tuple) else 1)
    else:
        raise TypeError(
            f"mechanism must be a function or an estimator, got {type(mechanism).__name__}"
        )
    source = Source(mechanism, "rng" in taken, "size" in taken, nan)
    before = joblib.hash(pair.first)
    seeds = seed.spawn(2)
    tried = _TRIED
    if not source.size:
        for _ in range(2):  # the first call loads things
            start = time.monotonic()
            source.releases(pair.first, np.random.default_rng(seeds[1]), 1)
            seconds = max(time.monotonic() - start, 1e-9)
        tried = int(np.clip(_FOR_TRIAL * limit / seconds, 2, _TRIED))
    first = source.releases(pair.first, np.random.default_rng(seeds[0]), tried)
    again = source.releases(pair.first, np.random.default_rng(seeds[0]), tried)
    other = source.releases(pair.first, np.random.default_rng(seeds[1]), tried)
    if joblib.hash(pair.first) != before:
        raise ValueError("mechanism changed its data: it must leave them as they are")
    second = source.releases(pair.second, np.random.default_rng(seeds[1]), tried)
    if _all_refused(first) and _all_refused(second):
        raise ValueError(
            f"mechanism {': '.join(first[0])}, and so on both data sets: there is nothing to judge"
        )
    if source.size or not isinstance(first, list):
        source = replace(source, common=in_common(second if _refused(first) else first))
        source.check_common(second)
    seen = outcomes(first, nan)
    marks = _marks(seen)
    marks_again = _marks(outcomes(again, nan))
    marks_other = _marks(outcomes(other, nan))
    if source.rng and marks != marks_again:
        raise ValueError(
            "mechanism ignores its generator: the same seed gave different outputs. Draw everything"
            " from `rng`, or take no `rng` if the noise comes from elsewhere: the audit can then"
            " not be replayed"
        )
    kinds = len(set(marks))
    one_a_batch = source.size and kinds == len(set(marks_other)) == 1 and marks != marks_other
    one_in_all_calls = kinds == tried and marks == marks_other
    if tried == _TRIED and (one_a_batch or one_in_all_calls):
        raise ValueError(
            "mechanism shares one draw in a batch, or in all calls: each release must be drawn"
            " afresh"
        )
    labels = [str(label) for label in seen.all_labels().ravel()]
    if labels and all(label.startswith(UNSEEN) for label in labels):
        raise TypeError(
            f"mechanism gave a {labels[0].removeprefix(UNSEEN)}, which is no number, label or"
            " anything that has such parts"
        )
    columns = max(1, seen.numbers.shape[1])
    return replace(source, replays=marks == marks_again, columns=columns)


def _taken(mechanism: Callable[..., Any], count: int) -> set[str]:
    """Tell which of `rng` and `size` a function takes after so many arguments, if not given."""
    try:
        signature = inspect.signature(mechanism)
    except ValueError:  # a function in C that does not say
        return set()
    given = mechanism.keywords if isinstance(mechanism, partial) else {}
    taken = {name for name in ("rng", "size") if name in signature.parameters and name not in given}
    try:
        signature.bind(*range(count), **dict.fromkeys(taken))
    except TypeError as error:
        raise TypeError(
            f"mechanism must take the data ({count} positional) and, by these names, `rng` and"
            f" `size`: {error}"
        ) from None
    return taken


def _marks(seen: Outcomes) -> list[int]:
    """Mark the first releases: marks are equal where these are, however long others are."""
    few = seen[:_TRIED]
    rows = zip(few.numbers, few.all_labels(), few.forms, strict=True)
    marks = []
    for numbers, labels, form in rows:
        there = labels != ABSENT
        told = f"{labels[there].tolist()}{form}".encode()
        marks.append(zlib.crc32(numbers[there].tobytes() + told))
    return marks
