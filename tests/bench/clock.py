"""How long a call takes, on whatever else the machine is doing."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any


def once(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of one call, and its result."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def timed(function: Callable[[], Any], seconds: float = 0.5) -> tuple[float, Any]:
    """Median seconds of at least five calls, over about that much time; and the last result."""
    function()  # caches warm
    spent: list[float] = []
    while len(spent) < 5 or sum(spent) < seconds:
        took, result = once(function)
        spent.append(took)
    return median(spent), result
