"""The cases run, cover the public face of the library, and are those of the record; nothing is timed here."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest

import hdpm_lib
from tests.bench import case as bench
from tests.bench.__main__ import STUDY, cases, in_process
from tests.bench.case import Case, Peer
from tests.bench.goals import GOALS
from tests.bench.pages import seconds_of_pages
from tests.house.volume import public_names

CASES = [case for _, _, case in cases()]
RECORD = "a record or a bound object: what it holds is measured where it is made"
FORMULA = "a formula of one line"
LEFT_OUT = {
    "Account": RECORD,
    "bids": "makes the input of the auctions",
    "records": "names the records of a release",
    "Outcome": RECORD,
    "Task": RECORD,
    "Category": RECORD,
    "Number": RECORD,
    "Schema": "scaling and dummy columns: what NumPy takes to copy a table",
    "size_weights": FORMULA,
    "error_bound": FORMULA,
    "all_in": "all_or_nothing behind bids",
    "PersonalizedRidge": "output_perturbation behind scikit-learn's checks",
    "PrivateLogisticRegression": "objective_perturbation behind scikit-learn's checks",
    "private_pipeline": "puts steps together, and computes nothing",
}


def coverage_complaints(names: Iterable[str], measured: Iterable[str], left_out: Iterable[str]) -> list[str]:
    """Public algorithms that are neither measured nor left out with a reason, and reasons that are not needed."""
    names, measured, left_out = set(names), set(measured), set(left_out)
    found = [f"{name} has no case and no reason" for name in sorted(names - measured - left_out)]
    return found + [f"{name} is left out for no need" for name in sorted(left_out & measured | left_out - names)]


def test_every_public_algorithm_has_a_case() -> None:
    names = public_names()
    measured = {name for name in names for case in CASES if case.function is getattr(hdpm_lib, name)}
    assert coverage_complaints(names, measured, LEFT_OUT) == []
    assert all(inspect.isclass(getattr(hdpm_lib, name)) for name in names if LEFT_OUT.get(name) == RECORD)
    assert coverage_complaints(["a", "b", "c"], ["a"], ["b", "gone"]) == [
        "c has no case and no reason",
        "gone is left out for no need",
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_runs_with_its_peers(case: Case) -> None:
    """At the smallest size; a peer that can be compared is near."""
    arguments = case.arguments(case.sizes[0])
    found = case.run(arguments)
    assert found is not None
    for peer in case.peers:
        assert peer.n in case.sizes
        if (other := peer.call(*case.arguments(case.sizes[0]))) is not None and peer.off:
            assert abs(peer.off(arguments, found, other)) < 1 and peer.measure


def test_a_peer_that_is_off_is_seen() -> None:
    (peer, *_), arguments = next(case.peers for case in CASES if case.peers), CASES[0].arguments(100)
    sizes = arguments[1]
    assert peer.off is not None and peer.off(arguments, None, sizes / sizes.sum()) > 1e-3


def test_cases_and_goals_are_those_of_the_record() -> None:
    """Who adds a case runs `make bench`."""
    record = json.loads(STUDY.read_text("utf8"))
    told = [(wing, case.name, [peer.name for peer in case.peers]) for wing, _, case in cases()]
    assert len({name for _, name, _ in told}) == len(told)
    stored = {row["name"]: row for row in record["cases"]["found"]}
    assert [(row["wing"], row["name"]) for row in stored.values()] == [(wing, name) for wing, name, _ in told]
    for _, name, peers in told:
        missing = set(peers) - {peer["name"] for peer in stored[name]["peers"]}
        assert all("cvxpylayers" in peer for peer in missing)
    assert [row["work"] for row in record["goals"]["found"]] == [goal.work for goal in GOALS]


# --- the runner -------------------------------------------------------------------------------------------------------


def double(values: np.ndarray) -> np.ndarray:
    return 2 * values


def made(**changed: Any) -> Case:
    return Case(double, lambda n, rng: (rng.random(n),), **{"sizes": (100, 100_000)} | changed)


def test_a_row_has_growth_memory_and_peers() -> None:
    near = Peer("a sum", lambda x: x + x, 100, lambda _, ours, theirs: float(np.abs(ours - theirs).max()), "difference")
    row = bench.measure(made(peers=(near, Peer("not installed", lambda x: None, 100))))
    assert [size["n"] for size in row["sizes"]] == [100, 100_000]
    assert all(0 < low <= middle for size in row["sizes"] for low, middle in (size["seconds"], size["argsort"]))
    assert 8e5 <= row["memory"] < 9e5  # the result
    assert [(peer["name"], peer["off"], peer["repeats"]) for peer in row["peers"]] == [("a sum", 0.0, 5)]


def test_sizes_end_where_calls_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "LONGEST", 0.0)
    assert [row["n"] for row in bench.growth(made())] == [100]


def test_the_input_of_a_size_is_the_same_each_time() -> None:
    case = made()
    assert np.array_equal(case.arguments(10), case.arguments(10))


def test_the_library_of_another_checkout_is_measured(tmp_path: Path) -> None:
    (tmp_path / "hdpm_lib").mkdir()
    (tmp_path / "hdpm_lib" / "__init__.py").write_text("ANSWER = 42\n")
    assert in_process("case", "__import__('hdpm_lib').ANSWER", tmp_path) == 42


# --- the book ---------------------------------------------------------------------------------------------------------

PAGE = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
---
# A page
"""


def test_seconds_of_pages_come_from_their_executions(tmp_path: Path) -> None:
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: book/one\n")
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "one.md").write_text(PAGE)
    with pytest.raises(FileNotFoundError, match=r"one has no times yet: run pytest book/one\.md"):
        seconds_of_pages(tmp_path)
    code = nbformat.v4.new_code_cell
    nb = nbformat.v4.new_notebook(
        cells=[code("import numpy\n\nnumpy.sort(x)"), nbformat.v4.new_markdown_cell("a"), code("f()")]
    )
    nb.metadata["seconds"] = [0.5, 2.25]
    kept = tmp_path / "_build" / "executed"
    kept.mkdir(parents=True)
    nbformat.write(nb, kept / "one.0123456789abcdef.ipynb")
    found = seconds_of_pages(tmp_path)
    assert found["pages"] == {"one": 2.75}
    assert found["cells"] == [
        {"seconds": 2.25, "page": "one", "cell": "f()"},
        {"seconds": 0.5, "page": "one", "cell": "numpy.sort(x)"},
    ]
