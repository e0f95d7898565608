"""What can be wrong on the pages on ridge regression: (claim, function, fault), one for every computed verdict."""

from __future__ import annotations

from tests.book.broken import times
from tests.book.dataflow import Fault

SMALL: dict[str, dict[str, int]] = {}
FAULTS: dict[str, list[tuple[str, str, Fault]]] = {}

SMALL["ridge/beyond"] = {"draws": 14, "size": 20, "worlds": 2}
FAULTS["ridge/beyond"] = [
    ("pdp-future-work", "release_objective_perturbation", times(0.0)),
]
