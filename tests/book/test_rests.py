"""A fault in the library turns only verdicts that name the function, or one that comes to its
module.

One fault, all with ``HDPM_NIGHTLY`` set, as ``make nightly`` does.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from dependencies import Sources
from slices import called, decided, needed

from tests.book.broken import remade
from tests.book.contracts import faults as contracts
from tests.book.dataflow import run, statements
from tests.book.ridge import faults as ridge

LOOKS_AT = ["_toc.yml", "book", "tests/book"]
SMALL = contracts.SMALL | ridge.SMALL
MUTANTS = [  # page, function of the library, what it then returns
    ("contracts/queries", "hdpm_lib.learners.queries.nonlinear_query", lambda found: None),
    ("ridge/guarantee", "hdpm_lib.noise.norm_law", lambda found: None),
    ("ridge/guarantee", "hdpm_lib.learners.ridge.estimate_norm_bound", lambda found: found / 2),
]
if not os.environ.get("HDPM_NIGHTLY"):
    MUTANTS = MUTANTS[:1]


def plant(
    monkeypatch: pytest.MonkeyPatch, module: str, name: str, change: Callable[[Any], Any]
) -> None:
    """Break a function wherever a module of ours has it."""
    function = getattr(importlib.import_module(module), name)
    broken = remade(change)(function)
    for other in list(sys.modules.values()):
        if getattr(other, "__name__", "").startswith("hdpm_"):
            for key, value in list(vars(other).items()):
                if value is function:
                    monkeypatch.setattr(other, key, broken)


@pytest.mark.parametrize(("page", "path", "change"), MUTANTS)
def test_a_fault_of_the_library_turns_only_what_names_it(
    page: str, path: str, change: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    all_sources = Sources(Path(__file__).resolve().parents[2])
    module, _, name = path.rpartition(".")
    cells = statements(page)
    claims = sorted(set[str]().union(*map(decided, cells)))
    functions = {}
    for claim in claims:
        kept = needed(cells, claim)
        functions[claim] = called(kept, "hdpm_lib") + called(kept, "hdpm_book")
    plant(monkeypatch, module, name, change)
    turned = set()
    for claim in claims:
        try:
            run(page, claim, SMALL[page])
        except Exception:  # a fault may end in any error
            turned.add(claim)
        plt.close("all")
    named = set()
    for claim in claims:
        imports = [f"import {name}" for name in functions[claim]]
        if module in all_sources.reached("\n".join(imports)):
            named.add(claim)
    assert turned
    assert turned <= named
    assert named < set(claims)  # or the map says nothing
