"""The mechanisms of the benchmark against their exact laws, and what is stored of their audits."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hdpm_book.privacy import benchmark
from hdpm_book.privacy.benchmark import BENCHMARK, find
from hdpm_lib.validation import FALSE_ALARM
from tests.support import generator

UP, DOWN = np.array([2.0] * 5 + [0.0] * 5), np.array([0.0] * 5 + [2.0] * 5)


@pytest.mark.parametrize("name", ["SVT 4", "SVT 6"])
@pytest.mark.parametrize("answers", [np.ones(10), UP])
def test_flags_have_the_law_of_the_quadrature(name: str, answers: np.ndarray) -> None:
    """100,000 releases, a chi-square test of all series of flags."""
    law = benchmark._LAWS[name](answers)
    assert law.sum() == pytest.approx(1, abs=1e-9)
    drawn = find(name).mechanism(answers, rng=generator(1), size=100_000)
    if name == "SVT 4":
        places = np.where((drawn == 1).any(1), (drawn == 1).argmax(1), 10)
    else:
        series = {flags: k for k, flags in enumerate(itertools.product((0.0, 1.0), repeat=10))}
        places = np.array([series[tuple(row)] for row in drawn])
    counts = np.bincount(places, minlength=len(law))
    order = np.argsort(law)
    law, counts = law[order] / law.sum(), counts[order]
    rare = max(1, int(np.searchsorted(np.cumsum(law), 1e-3)))  # together one cell
    law, counts = (np.append(values[:rare].sum(), values[rare:]) for values in (law, counts))
    assert stats.chisquare(counts, law * 100_000).pvalue > FALSE_ALARM


def test_losses_of_exact_laws_are_those_stated() -> None:
    for name, pair in (("noisy maximum 3", "all answers up"), ("prefix sums", "all answers up")):
        entry = find(name)
        chosen = next(p for p in entry.pairs if p.words == pair)
        first, second = (benchmark._LAWS[name](data) for data in (chosen.first, chosen.second))
        seen = (first > 1e-12) & (second > 1e-12)
        assert np.abs(np.log(first[seen] / second[seen])).max() == pytest.approx(entry.true, rel=1e-3)
    losses = [
        np.log(np.divide(*(benchmark._LAWS["SVT 4"](d) for d in (p.first, p.second)))) for p in find("SVT 4").pairs
    ]
    assert 0.97 * find("SVT 4").true < np.abs(losses).max() <= find("SVT 4").true


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


def test_the_best_event_beats_every_other_one() -> None:
    """All events of a small law by brute force, at the expected counts."""
    rng = np.random.default_rng(0)
    first, second = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6))
    best = benchmark.best_bound(first, second, 10_000)
    for guess in itertools.product((None, False, True), repeat=6):
        sides = [np.array([g is side for g in guess]) for side in (False, True)]
        right = (first[sides[0]].sum() + second[sides[1]].sum()) / 2
        wrong = (second[sides[0]].sum() + first[sides[1]].sum()) / 2
        if right > 0:
            made = min(right + wrong, 1.0) * 1e4
            assert benchmark.guess_epsilon(min(right * 1e4, made), made, 1e4, 0.1) <= best + 1e-9


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
    stored = benchmark.recorded()
    assert {name for name, _ in stored.index} == {entry.name for entry in BENCHMARK}
    assert len(stored) == len(BENCHMARK) + len(benchmark.RARE)
    alarms = benchmark.false_alarms().drop(columns="audits").astype(float)
    counts = benchmark.false_alarms()["audits"]
    for name, row in alarms.iterrows():
        for level, share in zip(benchmark.LEVELS, row, strict=True):
            assert share * counts[name] <= stats.binom.isf(FALSE_ALARM, counts[name], level)
    with pytest.raises(LookupError, match="no mechanism 'nothing'"):
        find("nothing")
