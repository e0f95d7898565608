"""Examples of property tests are drawn as ``tests/conftest.py`` says, and nowhere otherwise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
LOOKS_AT = ["tests"]


def overridden(text: str) -> list[str]:
    """Return the settings in a file of tests that decide how its examples are drawn."""
    return re.findall(r"\bsettings\([^()]*\b(derandomize|database|deadline)=", text)


def test_no_test_draws_in_a_way_of_its_own() -> None:
    for file in (ROOT / "tests").rglob("*.py"):
        if file != ROOT / "tests" / "conftest.py":
            assert overridden(file.read_text(encoding="utf8")) == [], file
    assert overridden("@settings(max_examples=40, deadline" + "=None)") == ["deadline"]


def test_examples_are_the_same_in_each_run_unless_a_seed_is_given(
    request: pytest.FixtureRequest,
) -> None:
    seed = request.config.getoption("--hypothesis-seed")
    drawn: list[list[int]] = []
    for _ in range(2):
        drawn.append([])

        @settings(max_examples=20)
        @given(st.integers())
        def draw(number: int) -> None:
            drawn[-1].append(number)

        draw()
    assert drawn[0] == drawn[1] and len(set(drawn[0])) > 5
    assert settings().derandomize == (seed is None)
