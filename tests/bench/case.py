"""What is measured: a function of the library on input of any size, and what a user would call
instead.
"""

from __future__ import annotations

import math
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median
from timeit import Timer
from typing import Any

import numpy as np

SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
REPEATS = 5
LONGEST = 1.0  # seconds of a call: a row ends where the next size would take longer
SHORTEST = 0.002  # what takes less is called several times at once
DISTURBED = 2.0  # times what an argsort of as many floats took in other rows

Array = np.ndarray
Generator = np.random.Generator
Arguments = tuple[Any, ...]
Row = dict[str, Any]


@dataclass(frozen=True)
class Peer:
    """What a user would call instead, with the arguments of the case."""

    name: str  # in words
    call: Callable[..., Any]
    n: int  # the size at which it is timed, if the case gets there
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
    ends: str = ""  # why there is no larger size, if the last is below a million

    @property
    def name(self) -> str:
        """The place of the function in its package, and the variant."""
        where = f"{self.function.__module__.partition('.')[2]}.{self.function.__name__}"
        return f"{where}, {self.variant}" if self.variant else where

    def arguments(self, n: int) -> Arguments:
        """Return the input of this size, the same each time."""
        return self.make(n, np.random.default_rng([0, n]))

    def run(self, arguments: Arguments) -> Any:
        return (self.call or self.function)(*arguments)


def in_turn(*calls: Callable[[], Any]) -> list[float]:
    """Seconds of each call, to four digits: the median of five rounds of all, after one that warms
    up.

    What slows the machine down for a while slows all of them down.
    """
    timers = [Timer(call, timer=time.process_time) for call in calls]
    numbers = [max(1, int(SHORTEST / max(timer.timeit(1), 1e-7))) for timer in timers]
    rounds = [
        [timer.timeit(number) / number for timer, number in zip(timers, numbers, strict=True)]
        for _ in range(REPEATS)
    ]
    return [float(f"{median(times):.4g}") for times in zip(*rounds, strict=True)]


def argsort(n: int) -> Callable[[], Any]:
    """One sort of so many random floats: what the machine does, whatever the library is."""
    return partial(np.argsort, np.random.default_rng(n).random(n))


def expected(sizes: list[Row], n: int) -> float:
    """Seconds of a call of size n, if they go on growing as they did from the last size but one;
    of the second size, if they grow in proportion.
    """
    *earlier, last = sizes
    rise = 1.0
    if earlier:
        ratio = last["seconds"] / earlier[-1]["seconds"]
        rise = max(0.0, math.log(ratio) / math.log(last["n"] / earlier[-1]["n"]))
    return float(last["seconds"] * (n / last["n"]) ** rise)


def growth(case: Case) -> tuple[list[Row], str]:
    """Seconds at each size, in turn with an argsort of as many floats; and why no size is
    larger.
    """
    sizes: list[Row] = []
    case.run(case.arguments(case.sizes[0]))  # what is loaded and compiled once
    for n in case.sizes:
        if sizes and (ahead := expected(sizes, n)) > LONGEST:
            return sizes, f"{n:,} would take about {float(f'{ahead:.1g}'):g} s"
        own, sort = in_turn(partial(case.run, case.arguments(n)), argsort(n))
        sizes.append({"n": n, "seconds": own, "argsort": sort})
    return sizes, case.ends


def memory(case: Case, n: int) -> int:
    """Bytes that a call takes at its peak beyond its arguments, its result among them."""
    arguments = case.arguments(n)
    tracemalloc.start()
    case.run(arguments)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def beside(case: Case, peer: Peer, n: int) -> Row:
    """Seconds of the library and of a peer on the same input, in turn with an argsort."""
    arguments = case.arguments(n)
    own, theirs, sort = in_turn(
        partial(case.run, arguments), partial(peer.call, *arguments), argsort(n)
    )
    row = {"name": peer.name, "n": n, "seconds": theirs, "library": own, "argsort": sort}
    if peer.off:
        off = peer.off(arguments, case.run(arguments), peer.call(*arguments))
        row |= {"off": float(f"{off:.3g}"), "measure": peer.measure}
    return row


def measure(case: Case) -> Row:
    """All of a case; in a process of its own, for its memory."""
    sizes, ends = growth(case)
    largest = sizes[-1]["n"]
    row = {"name": case.name, "counts": case.counts, "sizes": sizes, "ends": ends}
    row["memory"] = memory(case, largest)
    if case.peer:
        row["peer"] = beside(case, case.peer, min(case.peer.n, largest))
    return row


def sorts(row: Row) -> Iterator[tuple[int, float]]:
    """Return the argsorts of a row: how many floats, and seconds."""
    for timed in (*row["sizes"], *([row["peer"]] if "peer" in row else ())):
        yield timed["n"], timed["argsort"]


def disturbed(rows: Iterable[Row]) -> set[str]:
    """Names of the rows that were measured while the machine did something else: an argsort took
    twice as long as the median of those of other rows at the same n.
    """
    found = defaultdict(list)
    for row in rows:
        for n, seconds in sorts(row):
            found[n].append((row["name"], seconds))
    return {
        name
        for some in found.values()
        for name, seconds in some
        if (others := [other for row, other in some if row != name])
        and seconds > DISTURBED * median(others)
    }
