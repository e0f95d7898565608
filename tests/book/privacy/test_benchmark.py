"""The mechanisms of the benchmark against their exact laws, and what is stored of their audits."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest

from hdpm_book.privacy import benchmark
from hdpm_book.privacy.benchmark import BENCHMARK, find


def test_the_geometric_mechanism_is_the_one_of_its_authors() -> None:
    """Neighbouring counts have probabilities with ratios of at most 1 + 2^-k, attained."""
    law = []
    for count in range(6):
        drawn = benchmark.geometric(np.array([count]), rng=np.random.default_rng(0), size=1)
        assert 0 <= drawn[0] <= 5
        edges = exact_edges(count)
        law.append(np.diff([0, *edges]) / edges[-1])
    ratios = [np.log(a / b) for a, b in itertools.pairwise(law)]
    assert np.abs(ratios).max() == pytest.approx(find("truncated geometric").true, rel=1e-12)


def exact_edges(count: int) -> list[int]:
    """Cumulative weights of the outcomes, read off the mechanism by asking for every possible draw in turn."""

    class Counter(np.random.Generator):
        def integers(self, low: Any, high: Any = None, size: Any = None, **_: Any) -> Any:
            self.total = high
            return np.array([low, high])

    rng = Counter(np.random.PCG64(0))
    benchmark.geometric(np.array([count]), rng=rng, size=2)
    total, edges = int(rng.total), []
    for value in range(6):
        low, high = 0, total  # the largest draw whose outcome is at most `value`
        while low < high:
            middle = (low + high + 1) // 2
            rng.integers = lambda *_, m=middle, **__: np.array([m])  # type: ignore[method-assign]
            low, high = (
                (middle, high)
                if benchmark.geometric(np.array([count]), rng=rng, size=1)[0] <= value
                else (low, middle - 1)
            )
        edges.append(low)
    return edges


def test_correct_mechanisms_are_kept_and_the_worst_broken_ones_found() -> None:
    for entry in BENCHMARK:
        if entry.answers == 1 or not entry.broken or entry.true > 5:
            options: dict[str, Any] = {"runs": 4000, "time_limit": None, "seed": 1}
            pairs = entry.pairs[:2]
            mechanism = partial(benchmark.rounded, mechanism=entry.mechanism)
            found = benchmark.audit(mechanism, np.ones(entry.answers), "search", entry.claim, among=pairs, **options)
            assert not (found.found and not entry.broken), entry.name
    assert benchmark.bound(find("noisy histogram 2"), runs=20_000).epsilon_lower(0.9) > 5


def test_what_is_stored_is_complete() -> None:
    stored, table = benchmark.recorded(), benchmark.compared()
    assert {name for name, _ in stored.index} == {entry.name for entry in BENCHMARK}
    assert len(stored) == len(BENCHMARK) + len(benchmark.RARE) and len(table) == 20
    assert (table.loc[table["broken"] == "correct", "rejected"] == "no").all()
    with pytest.raises(LookupError, match="no mechanism 'nothing'"):
        find("nothing")
