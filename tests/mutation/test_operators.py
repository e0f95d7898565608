"""Our operators for Cosmic Ray make the changes they show, and programs that compile."""

from __future__ import annotations

import pytest

pytest.importorskip("cosmic_ray")

from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

from tests.mutation.operators import OPERATORS


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_makes_the_changes_it_shows(name: str) -> None:
    operator = get_operator(f"hdpm/{name}")
    for example in operator.examples():
        found = [mutate_code(example.pre_mutation_code, operator(), k) for k in range(6)]
        assert example.post_mutation_code in found
        assert any(text is None for text in found)
        for text in found:
            compile(text or "", name, "exec")


@pytest.mark.parametrize(
    "code", ["x = check_number(a, b)", "def f(a: int = 1) -> None: ...", "f(a, a)", "import sum"]
)
def test_what_is_left_alone(code: str) -> None:
    for operator in OPERATORS.values():
        assert mutate_code(code, operator(), 0) is None, operator
