"""The guide: what a market expects against what comes, laws of costs, and what is stored."""

from __future__ import annotations

import re
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy import stats

from hdpm_book import plots
from hdpm_book.beyond import guide
from hdpm_book.beyond.tied import tied_error
from hdpm_lib.designs.comparison import compare_markets, errors, tied_errors
from hdpm_lib.designs.rules import DESIGNS, Market, Task
from tests.book.dataflow import BOOK, CELL
from tests.support import generator

LAW = stats.uniform(1, 4)


@pytest.mark.parametrize("tie", [-0.7, 0.0, 0.4, 1.0])
@pytest.mark.parametrize(
    "design", ["error-minimising auction", "contracts, M2 as released", "FairQuery as released"]
)
def test_expected_errors_are_those_of_normal_records(design: str, tie: float) -> None:
    """By quadrature over the records of each seller, and without a tie as everywhere else."""
    task = Task(variance=0.01, distance=0.04)
    costs = LAW.ppf(generator(701).random((6, 60)))
    deal = DESIGNS[design](Market(task, LAW, 30.0), costs)
    found = tied_errors(deal, LAW.cdf(costs), task, task, tie)
    known = tied_error(deal, costs, LAW, lambda u: 0.7 + 0.1 * stats.norm.ppf(u), 0.5, tie, task)
    np.testing.assert_allclose(found, known, rtol=2e-2)
    if tie == 0:
        np.testing.assert_allclose(found, errors(deal, task, task)[0], rtol=1e-12)


def test_each_line_of_the_tree_is_a_text_that_the_browser_places() -> None:
    """Its letters have another width than those matplotlib measures: only an anchor in the middle
    centres a line.
    """
    page = CELL.findall((BOOK / "beyond/guide.md").read_text("utf8"))
    drawn = []
    with mock.patch.object(
        plots, "show", lambda figure, alt: drawn.append(plots.inline(figure, alt).svg)
    ):
        names: dict[str, Any] = {}
        exec("\n".join([page[0], *(cell for cell in page if "questions = (" in cell)]), names)
    lines = re.findall(r"<text style=\"([^\"]*)\"[^>]*>([^<]+)<", drawn[0])
    texts = {line for _, line in lines}
    for question, _, answer in names["questions"]:
        assert texts >= {*question.split("\n"), *answer.split("\n")}
    # beside an arrow
    assert {line for style, line in lines if "text-anchor: middle" not in style} == {"yes", "no"}


def test_a_tie_is_a_correlation() -> None:
    with pytest.raises(ValueError, match=r"tie must lie in \[-1, 1\], got 1.5"):
        compare_markets(LAW, Task(), 1.0, sellers=5, tie=1.5)


def test_what_is_stored_is_what_the_code_gives() -> None:
    stored = guide.recorded()
    assert {name: len(some) for name, some in stored.groupby("set")} == {
        k: n for k, (_, n) in guide.SETS.items()
    }
    for name, k in (("derived on", 0), ("fresh", 10), ("fresh", 14)):
        row = stored[stored["set"] == name].iloc[k]
        again = guide.regret((guide.SETS[name][0], k))
        assert (row["advised"], row["best"]) == (again["advised"], again["best"])
        assert row["regret"] == pytest.approx(again["regret"], rel=1e-4)
