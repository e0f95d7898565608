"""Examples of property tests: the same in each run, so that no reader's first one fails by chance,
and anew where a seed is given, as ``make nightly`` does (``--hypothesis-seed=...``).
"""

from __future__ import annotations

import pytest
from hypothesis import settings


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile(
        "hdpm",
        derandomize=config.getoption("--hypothesis-seed") is None,
        database=None,
        deadline=None,
        print_blob=True,
    )
    settings.load_profile("hdpm")
