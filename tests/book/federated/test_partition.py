"""Sizes and shares of owners: whole numbers that add up, and the laws they claim to follow."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from hdpm_book.federated import accuracy, partition
from hdpm_book.federated.partition import (
    KINDS,
    deal,
    dirichlet_counts,
    draw_sizes,
    lognormal_sizes,
    study_markets,
)
from hdpm_book.records import page_functions
from hdpm_lib.validation import FALSE_ALARM
from tests.support import generator, ks_check, objections, refusals

LOOKS_AT = ["book/federated/learning.md"]
PAGE = page_functions("federated/learning", *accuracy.CELLS)
TOTAL = 125_973


@pytest.mark.parametrize(
    ("total", "owners", "least"), [(TOTAL, 1000, 10), (7, 7, 1), (5, 3, 0), (1, 1, 0)]
)
def test_every_record_is_given_away(total: int, owners: int, least: int) -> None:
    found = lognormal_sizes(total, owners, generator(40, total), least=least)
    assert found.shape == (owners,) and found.sum() == total and found.min() >= least


def test_shares_follow_their_laws() -> None:
    """With totals so large that cutting to whole numbers cannot be seen: ratios of log-normal,
    Dirichlet shares.
    """
    normal = np.log(lognormal_sizes(10**15, 8000, generator(41), least=0)).reshape(-1, 2)
    rng = generator(43)
    classes = [10**9, 10**12]
    counts = np.stack([dirichlet_counts(classes, 4, rng, 0.5, extra=3) for _ in range(3000)])
    assert (counts.sum(axis=1) == classes).all() and (counts[..., 1] >= 3).all()
    checks = [ks_check("log-normal", np.diff(normal)[:, 0], stats.norm(0, 2 * np.sqrt(2)).cdf, 3)]
    checks += [
        ks_check(f"class {c}", counts[:, 0, c] / classes[c], stats.beta(0.5, 1.5).cdf, 3)
        for c in range(2)
    ]
    assert objections(checks) == []


@pytest.mark.parametrize("kind", KINDS)
def test_bidders_are_a_random_few_of_a_market(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shortcut of `draw_sizes` has the law of the long way: spread over all owners, pick
    some.
    """
    # all owners, all records
    assert (draw_sizes(kind, 2, generator(46), owners=5, of=5).sum(axis=1) == TOTAL).all()
    monkeypatch.setattr(partition, "NSL_KDD_COUNTS", {"a": 10_000, "b": 500})
    of = 20
    repeats = 2000
    short = draw_sizes(kind, repeats, generator(44), owners=2, of=of)
    assert short.shape == (repeats, 2) and short.min() >= 10
    rng = generator(45)
    if kind == "IID":
        markets = [lognormal_sizes(10_500, of, rng) for _ in range(repeats)]
    else:
        markets = [dirichlet_counts([10_000, 500], of, rng).sum(axis=1) for _ in range(repeats)]
    long = np.stack([rng.permutation(sizes)[:2] for sizes in markets])
    for f in (lambda s: s[:, 0], lambda s: s.sum(axis=1)):
        assert stats.ks_2samp(f(short), f(long)).pvalue > FALSE_ALARM
    assert (
        stats.ks_2samp(short[:, 0], draw_sizes(kind, repeats, rng, owners=2, of=10)[:, 0]).pvalue
        < FALSE_ALARM
    )


def test_dealt_rows_are_what_was_asked_for() -> None:
    rng = generator(47)
    labels = rng.integers(3, size=5000)
    counts = dirichlet_counts(np.bincount(labels), 30, rng)
    rows = deal(labels, counts, rng)
    assert np.array_equal([np.bincount(labels[own], minlength=3) for own in rows], counts)
    assert np.array_equal(np.sort(np.concatenate(rows)), np.arange(5000))
    by_size = deal(labels, [10, 0, 90], rng)
    assert [len(own) for own in by_size] == [10, 0, 90] and len(
        np.unique(np.concatenate(by_size))
    ) == 100
    first = np.array([deal(np.zeros(4), [2, 1], rng)[0] for _ in range(4000)])
    pairs = np.unique(first[:, 0] * 4 + first[:, 1], return_counts=True)[1]
    assert len(pairs) == 12 and stats.chisquare(pairs).pvalue > FALSE_ALARM  # at random


@pytest.mark.parametrize("law", KINDS)
def test_people_share_all_records(law: str) -> None:
    labels = generator(85).integers(5, size=400)
    markets, offers = PAGE["people"](labels, law, 2, generator(87), owners=12, least=1)
    for rows, sizes in zip(markets, offers.sizes, strict=True):
        assert [len(own) for own in rows] == sizes.tolist()
        assert len(np.unique(np.concatenate(rows))) == len(labels) == sizes.sum()
    asked = np.array([[[3, 5], [0, 1]]])
    expected = np.stack([offers.rate[0, [3, 5]], offers.rate[1, [0, 1]]])
    assert (PAGE["bids_of"](offers, asked).rate == expected[None]).all()


@pytest.mark.parametrize("law", KINDS)
def test_the_markets_of_the_pages_are_always_the_same(law: str) -> None:
    (few, some_money), (many, money) = (study_markets(count, law) for count in (5, 2000))
    assert all(
        (part == whole[:5]).all()
        for part, whole in zip(vars(few).values(), vars(many).values(), strict=True)
    )
    assert (
        (some_money == money[:5]).all()
        and many.sizes.shape == (2000, 10)
        and money.shape == (2000,)
    )
    factor = money / many.full_valuation.sum(-1)
    assert 0.1 <= factor.min() < 0.11 and 1.99 < factor.max() <= 2
    for found, low, high in (
        (many.rate, 0.5, 1.5),
        (many.privacy_budget, 0.5, 2.0),
        (factor, 0.1, 2.0),
    ):
        limits = ks_check("law", found.ravel(), stats.uniform(low, high - low).cdf, 6)
        assert objections([limits]) == []
    chances = np.bincount(many.family.ravel(), minlength=4)
    assert stats.chisquare(chances).pvalue > FALSE_ALARM / 2
    sizes = draw_sizes(law, 2000, generator(50))
    assert stats.ks_2samp(sizes[:, 0], many.sizes[:, 0]).pvalue > FALSE_ALARM
    assert (
        stats.ks_2samp(
            sizes[:, 0], study_markets(2000, KINDS[1 - KINDS.index(law)])[0].sizes[:, 0]
        ).pvalue
        < 1e-6
    )


RNG = generator(49)
test_bad_input_is_named = refusals(
    (lambda: lognormal_sizes(99, 10, RNG), "total must give 10 owners 10 records each, got 99"),
    (
        lambda: dirichlet_counts([5, 19], 2, RNG),
        "class_counts must give 2 owners 10 records .* got 19",
    ),
    (lambda: draw_sizes("IID", 2, RNG, owners=11, of=10), "owners must be an integer from 1 to 10"),
    (lambda: deal([0, 1], [3], RNG), "counts ask for 3 records, there are 2"),
    (lambda: deal([0, 1], [[1, 2]], RNG), "counts ask for 2 records of class 1, there are 1"),
    (lambda: study_markets(2001), "count must be an integer from 1 to 2000, got 2001"),
    (lambda: study_markets(3, "noniid"), "partition must be 'IID' or 'Non-IID', got 'noniid'"),
    (lambda: deal([[0]], [1], RNG), r"labels and counts must have shapes \(records,\)"),
)
