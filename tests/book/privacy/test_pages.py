"""Modules beside the pages on privacy: what they count, on examples that are counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from hdpm_book.privacy.appendix import Tried
from hdpm_book.privacy.arithmetic import Quotients, is_quotient, rare_column
from hdpm_book.privacy.battery import Survey
from hdpm_book.privacy.meters import Tight, tight_instances
from hdpm_book.privacy.mutants import BUDGET, GRID, METER, MUTANTS
from tests.support import generator


def test_one_per_cent_shows_on_tight_instances() -> None:
    for name, found in tight_instances().items():
        assert isinstance(found, Tight) and found.correct.max() <= 1 + 1e-9 < 1.003 < found.broken, name
        assert found.correct.min() >= 0.998, name


def test_pairs_above_are_counted() -> None:
    tried = Tried({"sum": np.array([0.5, 1 + 1e-12]), "ridge, a": np.array([1.1]), "ridge, b": np.array([0.9, 2.0])})
    assert [tried.above(learner) for learner in ("sum", "ridge")] == [(2, 0), (3, 2)]
    assert tried.table()["largest share"].tolist() == ["1.000", "1.100", "2.000"]


def test_quotients_are_recognised() -> None:
    b = generator(340).standard_normal(1000)
    assert is_quotient(b / 0.01, 0.01).all()
    assert 0.5 < is_quotient(b, 0.01).mean() < 1  # not every double is one
    assert is_quotient(b, 0.5).all()  # a power of two leaves the digits as they are


@pytest.mark.parametrize(("nobody", "seller", "low", "high"), [(0, 5000, 5, 7), (5000, 5000, -0.5, 0)])
def test_log_ratio_of_quotients(nobody: int, seller: int, low: float, high: float) -> None:
    assert low < Quotients(10_000, 1.0, nobody, seller).log_ratio_lower < high


def test_data_sets_with_a_rare_column_differ_in_one_record() -> None:
    (X, y), (X2, y2) = rare_column(generator(341))
    assert (X != X2).any(axis=1).nonzero()[0].tolist() == [0] and (y != y2).nonzero()[0].tolist() == [0]
    assert X[:, -1].max() == 0 and X2[0, -1] == 1


def test_survey_counts() -> None:
    needed = [dict.fromkeys(m.caught_by, 0) for m in MUTANTS]
    counts = Survey(tuple(needed)).counts()
    assert all(right == of for right, of in counts.values()) and sum(of for _, of in counts.values()) == len(MUTANTS)
    harmless = next(k for k, m in enumerate(MUTANTS) if not m.harm)
    unseen = next(k for k, m in enumerate(MUTANTS) if m.harm and not m.caught_by)
    caught = next(k for k, m in enumerate(MUTANTS) if m.caught_by == (GRID,))
    needed[harmless], needed[unseen], needed[caught] = {BUDGET: 0}, {METER: 0}, {}
    assert [of - right for right, of in Survey(tuple(needed)).counts().values()] == [1, 1, 1]


def test_best_sets_catch_more_and_more() -> None:
    survey = Survey(tuple(dict.fromkeys(m.caught_by, 0) for m in MUTANTS))
    catches = survey.best_sets()["catches"].tolist()
    assert catches == sorted(catches) and catches[-1] == len(survey.seen)
    assert survey.groups().sum() == len(survey.seen)
    assert survey.by_check()["catches"].max() == catches[0]
