"""Every computed verdict turns if the library is wrong: a fault for each, in what its decision
rests on alone.

One fault a page, all with ``HDPM_NIGHTLY`` set, as ``make nightly`` does.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator

import execution
import matplotlib.pyplot as plt
import pytest
from slices import decided, rests_on, sets

from hdpm_book.ledger import LedgerMismatch
from tests.book.contracts import faults as contracts
from tests.book.dataflow import BOOK, Fault, run, smaller, statements
from tests.book.federated import faults as federated
from tests.book.logistic import faults as logistic
from tests.book.ridge import faults as ridge

LOOKS_AT = ["_toc.yml", "book", "tests/book"]
SMALL = contracts.SMALL | federated.SMALL | logistic.SMALL | ridge.SMALL
FAULTS = contracts.FAULTS | federated.FAULTS | logistic.FAULTS | ridge.FAULTS
ALL = [(page, *fault) for page, faults in FAULTS.items() for fault in faults]
if not os.environ.get("HDPM_NIGHTLY"):
    ALL = list({page: (page, *rest) for page, *rest in reversed(ALL)}.values())
pytestmark = pytest.mark.filterwarnings("ignore::hdpm_book.retrieval.StandInWarning")
CLAIMS = sorted({(page, claim) for page, claim, *_ in ALL})


@pytest.fixture(autouse=True)
def figures_are_closed() -> Iterator[None]:
    yield
    plt.close("all")


def only_on_real_data(page: str) -> None:
    if execution.data_source(BOOK / f"{page}.md") == "stand-in":
        pytest.skip("on a stand-in a decision that differs from the ledger is no error")


@pytest.mark.parametrize(("page", "claim"), CLAIMS)
def test_what_a_decision_rests_on_is_enough(page: str, claim: str) -> None:
    only_on_real_data(page)
    run(page, claim, SMALL[page])


@pytest.mark.parametrize(
    ("page", "claim", "name", "fault"), ALL, ids=[f"{claim}-{name}" for _, claim, name, _ in ALL]
)
def test_a_broken_function_turns_the_verdict(
    page: str, claim: str, name: str, fault: Fault
) -> None:
    only_on_real_data(page)
    with pytest.raises((LedgerMismatch, ValueError), match=r"ledger|alone decides nothing"):
        run(page, claim, SMALL[page], name, fault)


@pytest.mark.parametrize("page", FAULTS)
def test_every_computed_verdict_has_a_fault(page: str) -> None:
    computed = set().union(*map(decided, statements(page)))
    assert computed == {claim for claim, *_ in FAULTS[page]}


@pytest.mark.parametrize("page", FAULTS)
def test_a_page_has_the_numbers_that_are_made_smaller(page: str) -> None:
    before = [ast.unparse(one) for one in statements(page)]
    for name in SMALL[page]:
        changed = [ast.unparse(smaller(one, {name: -7})) for one in statements(page)]
        assert changed != before, f"{page} sets no number {name}"


@pytest.mark.parametrize(
    "code", ["x = [a for a in b]", "x = {a for a in b}", "x = {a: a for a in b}"]
)
def test_names_in_a_comprehension_are_its_own(code: str) -> None:
    (statement,) = ast.parse(code).body
    assert sets(statement) == {"x"} and rests_on(statement) == {"b"}
