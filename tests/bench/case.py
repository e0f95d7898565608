"""What is measured: a function of the library on input of any size, and what a user would call
instead.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median
from timeit import Timer
from typing import Any

import numpy as np

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
REPEATS = 5
LONGEST = 0.4  # seconds of a call; a size at which it would take longer is left out
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
    # from arguments and what both return: how far off it is
    off: Callable[[Arguments, Any, Any], float] | None = None
    measure: str = ""  # what that number is, in words


@dataclass(frozen=True)
class Case:
    """A function of the library as it is called."""

    function: Callable[..., Any]
    make: Callable[[int, Generator], Arguments]  # from a size to the arguments
    # what is timed with them: by default the function itself
    call: Callable[..., Any] | None = None
    variant: str = ""  # which one of several uses of the function
    counts: str = "sellers"  # what the size counts
    sizes: tuple[int, ...] = SIZES
    peer: Peer | None = None

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


def seconds(call: Callable[[], Any]) -> float:
    """Median of five calls, to four digits, after one that warms up."""
    timer = Timer(call, timer=time.process_time)
    number = max(1, int(SHORTEST / max(timer.timeit(1), 1e-7)))
    return float(f"{median(timer.repeat(REPEATS, number)) / number:.4g}")


def growth(case: Case) -> Iterator[dict[str, Any]]:
    """Seconds at each size, beside one sort of as many random floats, up to where a call would take
    too long.
    """
    last = 0.0
    case.run(case.arguments(case.sizes[0]))  # what is loaded and compiled once
    for n in case.sizes:
        arguments = case.arguments(n)
        floats = np.random.default_rng(n).random(n)
        own = seconds(partial(case.run, arguments))
        yield {"n": n, "seconds": own, "argsort": seconds(partial(np.argsort, floats))}
        rise = own / last if last else 10.0
        if max(rise, 1.0) * own > LONGEST:
            return
        last = own


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
    own, theirs = (
        seconds(partial(call, *arguments)) for call in (case.call or case.function, peer.call)
    )
    row = {"name": peer.name, "n": peer.n, "seconds": theirs, "library": own}
    if peer.off:
        off = peer.off(arguments, case.run(arguments), peer.call(*arguments))
        row |= {"off": float(f"{off:.3g}"), "measure": peer.measure}
    return row


def measure(case: Case) -> dict[str, Any]:
    """All of a case; in a process of its own, for its memory."""
    rows = list(growth(case))
    row = {
        "name": case.name,
        "counts": case.counts,
        "sizes": rows,
        "memory": memory(case, rows[-1]["n"]),
    }
    return row | ({"peer": beside(case, case.peer)} if case.peer else {})
