"""The mechanisms of the benchmark against their exact laws, and their audits."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hdpm_book.privacy import benchmark
from hdpm_book.privacy.benchmark import BENCHMARK, find


def exact_law(count: int) -> np.ndarray:
    """Probabilities of the outcomes, from what the mechanism makes of every possible draw."""
    asked: list[range] = []

    def outcome(draw: int) -> int:
        def integers(low: int, high: int, size: int, endpoint: bool) -> int:
            asked.append(range(low, high + endpoint))
            return draw

        return int(
            benchmark.geometric(np.array([count]), rng=SimpleNamespace(integers=integers), size=1)
        )

    outcome(1)
    draws = asked[0]
    return np.diff([0, *(bisect_right(draws, value, key=outcome) for value in range(6))]) / len(
        draws
    )


def test_the_geometric_mechanism_is_the_one_of_its_authors() -> None:
    """Neighbouring counts have probabilities with ratios of at most 1 + 2^-k, attained."""
    laws = [exact_law(count) for count in range(6)]
    assert all(law.sum() == 1 for law in laws)
    ratios = [np.log(a / b) for a, b in itertools.pairwise(laws)]
    assert np.abs(ratios).max() == pytest.approx(find("truncated geometric").true, rel=1e-12)


def test_correct_mechanisms_are_kept_and_the_worst_broken_ones_found() -> None:
    for entry in BENCHMARK:
        if not entry.broken:
            mechanism = partial(benchmark.rounded, mechanism=entry.mechanism)
            options: dict[str, Any] = {
                "runs": 2000,
                "time_limit": None,
                "seed": 1,
                "among": entry.pairs[:1],
            }
            assert not benchmark.audit(
                mechanism, np.ones(entry.answers), "search", entry.claim, **options
            ).found, entry
    assert benchmark.bound(find("noisy histogram 2"), runs=20_000).epsilon_lower(0.9) > 5
    with pytest.raises(LookupError, match="no mechanism 'nothing'"):
        find("nothing")
