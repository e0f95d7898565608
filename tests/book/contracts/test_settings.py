"""Other settings than the printed ones: what the pages on contracts then compute, and that they
decide nothing.
"""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest
from slices import sets, shows

from hdpm_book import ledger
from tests.book.contracts.faults import SMALL
from tests.book.dataflow import run, smaller, statements


def after(page: str, last: str, changed: dict[str, str]) -> dict[str, Any]:
    """Names of a page up to a statement that sets `last`, some statements replaced, nothing
    shown.
    """
    space: dict[str, Any] = {"__name__": page}
    for statement in statements(page):
        if shows(statement):
            continue
        unchanged = ast.unparse(smaller(statement, SMALL[page]))
        code = next(
            (code for name, code in changed.items() if sets(statement) == {name}), unchanged
        )
        exec(compile(code, page, "exec"), space)
        if last in sets(statement):
            return space
    raise LookupError(f"{page} sets no {last}")


def test_another_query() -> None:
    """The unbiased answer loses the sum of the sensitivities over the scale, by the bounds and
    exactly.
    """
    other = {"terms": "terms = np.stack([d1 * d2, 1 - d1])"}
    page = after("contracts/queries", "example1", other)
    assert page["by_error"].loc["0.05"][["biased", "unbiased"]].tolist() == ["18.1108", "18.9737"]
    np.testing.assert_allclose(page["unbiased"]["bounds"], 3 * np.sqrt(2 / page["accuracies"]))
    np.testing.assert_allclose(
        page["unbiased"]["exact losses"], 2 * np.sqrt(2 / page["accuracies"])
    )
    assert page["lower"] and not page["example1"]
    assert all(ratio[-1] <= min(page["factors"]) for ratio in page["ratios"].values())


@pytest.mark.parametrize("terms", ["[d1]", "[d1, d2, d1 * d2]"])
def test_other_numbers_of_terms(terms: str) -> None:
    page = after("contracts/queries", "lower", {"terms": f"terms = np.stack({terms})"})
    assert page["lower"] and page["accuracies"].max() < len(page["terms"]) ** 2 / 4


@pytest.mark.parametrize(
    ("page", "claim", "sizes"),
    [
        ("mechanisms", "khalili-exp-asym", {"sellers": 20}),  # not the printed number
        ("mechanisms", "khalili-fig3", {"sellers": 20}),
        # which does not show the error of Theorem 5
        ("queries", "khalili-eq22-24", {"problems": 1}),
        ("allocation", "khalili-thm5", {"linear_markets": 1}),
        ("allocation", "khalili-alg1", {"omission_markets": 2, "sellers": 2}),
        ("answer", "khalili-thm3", {"releases": 200}),
    ],
)
def test_other_settings_and_few_draws_decide_nothing(
    page: str, claim: str, sizes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[ledger.Decision] = []
    monkeypatch.setenv("HDPM_MODE", "explore")
    monkeypatch.setattr(ledger, "display", shown.append)
    run(f"contracts/{page}", claim, SMALL[f"contracts/{page}"] | sizes)
    (found,) = [decision for decision in shown if decision.claim.id == claim]
    assert found.undecided


def test_losses_from_the_largest_error_on() -> None:
    total_losses = after("contracts/answer", "total_losses", {})["total_losses"]
    for n in (1, 3, 10):
        for K in n**2 / 4 * np.array([1, 1.5, 4, 9]):
            unbiased = {"unbiased": pytest.approx(n * np.sqrt(2 / K))}
            assert total_losses(n, K) == dict.fromkeys(total_losses(n, K), 0) | unbiased


@pytest.mark.parametrize("power", [1.5, 2, 3])
def test_algorithm_1_misses_exactly_if_somebody_is_below_the_threshold(power: float) -> None:
    """Ties, zeros, and valuations at the threshold, where line 15 is right."""
    page = after("contracts/allocation", "has_cheap", {})
    rng = np.random.default_rng(5)
    for trial in range(60):
        n = int(rng.integers(2, 8))
        v = np.sort(rng.integers(1, 5, n) * (rng.random(n) < 0.8)).astype(float)
        positive = v[v > 0]
        if not positive.size:
            continue
        m = len(positive)
        K = m * (m - ((positive[0] / positive) ** (1 / (power - 1))).sum()) / 4  # at the threshold
        if trial % 2 or K < 1e-9:
            K = m**2 / 4 * rng.uniform(0.02, 0.98)
        best = page["least_cost_contract"](v, K, power=power)
        missed = page["algorithm1"](v, K, power)[2] > best.cost * (1 + 1e-9)
        assert missed == page["has_cheap"](v, best.shares, power)
