"""Running somebody's mechanism: how it wants to be called, and whether its draws can be judged.

A mechanism is a function of the data (a tuple is handed on as several arguments) and, where its signature has them, of
`rng`, a generator that all its randomness must come from, and of `size`, a number of independent releases along the
first axis. What it returns is the release, or something with a method ``release``. A scikit-learn estimator is
fitted anew in every run, with a seed of its own, and releases all fitted attributes that hold numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from hdpm_lib.audits.outcomes import NanRule, Outcomes, outcomes

_TRIED = 64  # releases that are compared when a mechanism is tried


@dataclass(frozen=True)
class Source:
    """A mechanism and how it is called.

    Attributes
    ----------
    mechanism : callable or estimator
    rng, size : bool
        Whether it takes a generator, and a number of releases.
    nan : {"refuse", "value"}
    replays : bool
        Whether the same seed gives the same releases.
    """

    mechanism: Any
    rng: bool
    size: bool
    nan: NanRule
    replays: bool = True

    def releases(self, data: Any, rng: np.random.Generator, size: int) -> Any:
        """So many independent releases of one data set, one along the first axis for each."""
        arguments = data if isinstance(data, tuple) else (data,)
        if isinstance(self.mechanism, BaseEstimator):
            return [_fitted(self.mechanism, arguments, rng) for _ in range(size)]
        call = partial(self.mechanism, *arguments, **({"rng": rng} if self.rng else {}))
        if self.size:
            return self._batch(call(size=size), size)
        made = call()
        if hasattr(made, "release"):
            return self._batch(made.release(rng=rng, size=size), size)
        return [made, *(call() for _ in range(size - 1))]

    def _batch(self, found: Any, size: int) -> Any:
        many = hasattr(found, "__len__") and not (isinstance(found, np.ndarray) and found.ndim == 0)
        got = len(found) if many else 1
        if got != size:
            raise ValueError(f"mechanism must give {size} releases along the first axis for size={size}, got {got}")
        return found

    def outcomes(self, pair: tuple[Any, Any], bits: NDArray[np.bool_], rng: np.random.Generator) -> Outcomes:
        """Releases of the first data set of a pair where the bit is 0, of the second one where it is 1."""
        found = []
        for data, which in zip(pair, (~bits, bits), strict=True):
            if count := int(which.sum()):
                found.append((outcomes(self.releases(data, rng, count), self.nan), which))
        columns = max(part.numbers.shape[1] for part, _ in found)
        wide = [(part.with_columns(columns), which) for part, which in found]
        numbers = np.empty((len(bits), columns))
        labels: NDArray[np.object_] | None = None
        if any(part.labels is not None for part, _ in wide):
            labels = np.full((len(bits), columns), None, dtype=object)
        for part, which in wide:
            numbers[which] = part.numbers
            if labels is not None and part.labels is not None:
                labels[which] = part.labels
        return Outcomes(numbers, labels)

    def block(
        self, pair: tuple[Any, Any], seed: np.random.SeedSequence, runs: int
    ) -> tuple[Outcomes, NDArray[np.bool_]]:
        """Outcomes of so many runs on data sets that fair coins choose, and the coins."""
        rng = np.random.default_rng(seed)
        bits = rng.integers(0, 2, runs).astype(bool)
        return self.outcomes(pair, bits, rng), bits


def _fitted(estimator: Any, arguments: tuple[Any, ...], rng: np.random.Generator) -> NDArray[np.float64]:
    """What a fresh copy of an estimator learns from the data."""
    seeds = {name: int(rng.integers(2**31)) for name in estimator.get_params() if name.endswith("random_state")}
    learned = vars(clone(estimator).set_params(**seeds).fit(*arguments))
    arrays = [np.asarray(value) for name, value in sorted(learned.items()) if name.endswith("_") and name[0] != "_"]
    numbers = [a.astype(float).ravel() for a in arrays if a.dtype.kind in "biuf"]
    if not numbers:
        raise ValueError(f"mechanism {type(estimator).__name__} learns no numbers: audit a function of its predictions")
    return np.concatenate(numbers)


def find_source(mechanism: Any, pair: tuple[Any, Any], seed: np.random.SeedSequence, nan: NanRule) -> Source:
    """How to call a mechanism; an error if its draws cannot be judged.

    It is tried with the first data set: it may not change them, must draw from the generator that it takes, and must
    draw each release of a batch afresh.
    """
    if isinstance(mechanism, BaseEstimator):
        taken: set[str] = {"rng"}
    elif callable(mechanism):
        taken = _taken(mechanism)
    else:
        raise TypeError(f"mechanism must be a function or an estimator, got {type(mechanism).__name__}")
    source = Source(mechanism, "rng" in taken, "size" in taken, nan)
    before = joblib.hash(pair[0])
    seeds = seed.spawn(2)
    first, again, other = (_few(source, pair[0], s) for s in (seeds[0], seeds[0], seeds[1]))
    if joblib.hash(pair[0]) != before:
        raise ValueError("mechanism changed its data: it must leave them as they are")
    source = replace(source, replays=first == again)
    if source.rng and not source.replays:
        raise ValueError(
            "mechanism ignores its generator: the same seed gave different outputs. Draw everything from `rng`, or "
            "take no `rng` if the noise comes from elsewhere: the audit can then not be replayed"
        )
    if len(set(first)) == len(set(other)) == 1 and first != other:
        raise ValueError("mechanism shares one draw in a batch: each release must be drawn afresh")
    return source


def _taken(mechanism: Callable[..., Any]) -> set[str]:
    """Which of `rng` and `size` a function takes and has not been given."""
    try:
        signature = inspect.signature(mechanism)
    except ValueError:  # a function in C that does not say
        return set()
    given = mechanism.keywords if isinstance(mechanism, partial) else {}
    return {name for name in ("rng", "size") if name in signature.parameters and name not in given}


def _few(source: Source, data: Any, seed: np.random.SeedSequence) -> tuple[bytes, ...]:
    """A few releases, in a form that can be compared."""
    found = outcomes(source.releases(data, np.random.default_rng(seed), _TRIED), source.nan)
    labels = found.labels if found.labels is not None else [()] * len(found)
    return tuple(row.tobytes() + repr(list(label)).encode() for row, label in zip(found.numbers, labels, strict=True))
