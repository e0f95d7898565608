"""Every computed verdict turns if the library is wrong: a fault for each, in what its decision rests on alone."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hdpm_book.ledger import LedgerMismatch
from tests.book.dataflow import Fault, decided, needed, run, statements


def other(**changes: Callable[[Any], Any]) -> Fault:
    """Fields of what a function returns, changed."""

    def broken(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            found = function(*arguments, **options)
            return replace(found, **{name: change(getattr(found, name)) for name, change in changes.items()})

        return call

    return broken


def times(factor: float) -> Fault:
    """A number that a function returns, times another one."""
    return lambda function: lambda *arguments, **options: function(*arguments, **options) * factor


dearer = other(cost=lambda cost: 1.01 * cost)
flat = other(shares=lambda a: np.ones_like(a))
late = other(privacy_loss=lambda loss: loss[..., ::-1])
less = other(privacy_loss=lambda loss: 0.5 * loss)
more = other(privacy_loss=lambda loss: 2.0 * loss)

SMALL = {"contracts/allocation": {"markets": 16, "draws": 100}}
FAULTS: dict[str, list[tuple[str, str, Fault]]] = {
    "contracts/allocation": [
        ("khalili-eq10-problem", "least_cost_contract", dearer),
        ("khalili-eq10-problem", "conic_power", dearer),
        ("khalili-thm6-ratio-condition", "conic_power", other(shares=lambda a: a**2)),
        ("khalili-ex-p2", "least_cost_contract", less),
        ("khalili-ex-p2", "theorem5_terms", times(1.01)),
        ("khalili-ex-totals", "equal_loss_contract", more),
        ("khalili-thm5", "least_cost_contract", flat),
        ("khalili-thm5-single-fractional", "conic_power", other(shares=lambda a: a / 2 + 0.01)),
        ("khalili-alg1", "one_root", lambda f: lambda *a: (f(*a)[0], f(*a)[1], 1.01 * f(*a)[2])),
        ("khalili-thm6", "least_cost_contract", dearer),
        ("khalili-eq12-contract-p2", "least_cost_contract", less),
        ("khalili-comparison-p2-vs-au", "unbiased_contract", other(privacy_loss=lambda loss: 0.01 * loss)),
        ("khalili-p2-heterogeneous-loss", "least_cost_contract", late),
        ("khalili-abstract-both-benefit", "equal_loss_contract", more),
    ],
}
ALL = [(page, *fault) for page, faults in FAULTS.items() for fault in faults]
CLAIMS = sorted({(page, claim) for page, claim, *_ in ALL})


@pytest.mark.parametrize(("page", "claim"), CLAIMS)
def test_what_a_decision_rests_on_is_enough(page: str, claim: str) -> None:
    run(page, claim, SMALL[page])


@pytest.mark.parametrize(("page", "claim", "name", "fault"), ALL, ids=[f"{claim}-{name}" for _, claim, name, _ in ALL])
def test_a_broken_function_turns_the_verdict(page: str, claim: str, name: str, fault: Fault) -> None:
    with pytest.raises((LedgerMismatch, ValueError), match=r"ledger|alone decides nothing"):
        run(page, claim, SMALL[page], name, fault)


@pytest.mark.parametrize("page", FAULTS)
def test_every_computed_verdict_has_a_fault(page: str) -> None:
    computed = {decided(statement) for statement in statements(page)} - {""}
    assert computed == {claim for claim, *_ in FAULTS[page]}


def test_only_what_matters_runs() -> None:
    code = "import numpy as np\na = np.ones(2)\nb = a + 1\na[0] = 3\nprint(b)\nrows = []\nrows.append(a)\n"
    kept = needed(ast.parse(code + "decide('x', '', printed=rows)").body, "x")
    wanted = ["import numpy as np", "a = np.ones(2)", "a[0] = 3", "rows = []", "rows.append(a)"]
    assert [ast.unparse(statement) for statement in kept[:-1]] == wanted
