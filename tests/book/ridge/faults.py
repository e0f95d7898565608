"""What can be wrong on the pages on ridge regression: (claim, function, fault), one for every computed verdict."""

from __future__ import annotations

from tests.book.dataflow import Fault

SMALL: dict[str, dict[str, int]] = {}
FAULTS: dict[str, list[tuple[str, str, Fault]]] = {}
