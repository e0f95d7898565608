"""What is measured: a function of the library on input of any size, and what a user would call instead."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from timeit import Timer
from typing import Any

import numpy as np

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
REPEATS = 5
LONGEST = 0.4  # seconds of a call; a size at which it would take longer is left out
PATIENCE = 0.5  # seconds of a peer, beyond which it is called once
SHORTEST = 0.002  # what takes less is called several times at once

Array = np.ndarray
Generator = np.random.Generator
Arguments = tuple[Any, ...]


@dataclass(frozen=True)
class Peer:
    """What a user would call instead, with the arguments of the case."""

    name: str  # in words
    call: Callable[..., Any]
    n: int  # one of the sizes of the case, at which it is timed
    off: Callable[[Arguments, Any, Any], float] | None = None  # from arguments and what both return: how far off it is
    measure: str = ""  # what that number is, in words


@dataclass(frozen=True)
class Case:
    """A function of the library as it is called."""

    function: Callable[..., Any]
    make: Callable[[int, Generator], Arguments]  # from a size to the arguments
    call: Callable[..., Any] | None = None  # what is timed with them: by default the function itself
    variant: str = ""  # which one of several uses of the function
    counts: str = "sellers"  # what the size counts
    sizes: tuple[int, ...] = SIZES
    peers: tuple[Peer, ...] = ()

    def beside(self, *peer: Any) -> Case:
        """The case with one peer more."""
        return replace(self, peers=(*self.peers, Peer(*peer)))

    @property
    def name(self) -> str:
        """The place of the function in its package, and the variant."""
        where = f"{self.function.__module__.partition('.')[2]}.{self.function.__name__}"
        return f"{where}, {self.variant}" if self.variant else where

    def arguments(self, n: int) -> Arguments:
        """The input of this size, the same each time."""
        return self.make(n, np.random.default_rng([0, n]))

    def run(self, arguments: Arguments) -> Any:
        return (self.call or self.function)(*arguments)


def repeated(*functions: Callable[[], Any], once: float = np.inf) -> list[list[float]]:
    """Least and median seconds of each function after a call that warms up; they take turns.

    Nothing is repeated if the first function takes longer than `once`.
    """
    timers = [Timer(function, timer=time.process_time) for function in functions]
    rounds = [[timer.timeit(1) for timer in timers]]
    if rounds[0][0] <= once:
        turns = [(timer, max(1, int(SHORTEST / max(t, 1e-7)))) for timer, t in zip(timers, rounds[0], strict=True)]
        rounds = [[timer.timeit(number) / number for timer, number in turns] for _ in range(REPEATS)]
    return [least_and_median(seconds) for seconds in zip(*rounds, strict=True)]


def least_and_median(seconds: Sequence[float]) -> list[float]:
    """Both to four digits."""
    return [float(f"{value:.4g}") for value in (min(seconds), median(seconds))]


def growth(case: Case) -> Iterator[dict[str, Any]]:
    """Seconds at each size, beside one sort of as many random floats, up to where a call would take too long."""
    last = 0.0
    case.run(case.arguments(case.sizes[0]))  # what is loaded and compiled once
    for n in case.sizes:
        arguments, floats = case.arguments(n), np.random.default_rng(n).random(n)
        own, sort = repeated(partial(case.run, arguments), partial(np.argsort, floats), once=LONGEST)
        yield {"n": n, "seconds": own, "argsort": sort}
        rise = own[1] / last if last else 10.0
        if max(rise, 1.0) * own[1] > LONGEST:
            return
        last = own[1]


def memory(case: Case, n: int) -> int:
    """Bytes that a call takes at its peak beyond its arguments, its result among them."""
    arguments = case.arguments(n)
    tracemalloc.start()
    case.run(arguments)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def beside(case: Case, peer: Peer) -> dict[str, Any]:
    """Seconds of a peer and of the library on the same input."""
    arguments = case.arguments(peer.n)
    ours, own = case.run(arguments), repeated(partial(case.run, arguments))[0]
    began = time.process_time()
    theirs = peer.call(*arguments)
    seconds = least_and_median([time.process_time() - began])
    if again := seconds[0] <= PATIENCE:
        seconds = repeated(partial(peer.call, *arguments))[0]
    row = {"name": peer.name, "n": peer.n, "repeats": REPEATS if again else 1, "seconds": seconds, "library": own}
    if peer.off:
        row |= {"off": float(f"{peer.off(arguments, ours, theirs):.3g}"), "measure": peer.measure}
    return row


def measure(case: Case) -> dict[str, Any]:
    """All of a case; in a process of its own, for its memory."""
    rows = list(growth(case))
    row = {"name": case.name, "counts": case.counts, "sizes": rows, "memory": memory(case, rows[-1]["n"])}
    return row | {"peers": [beside(case, peer) for peer in case.peers]}
