"""The cases run, cover the public face of the library, and are those of the record; nothing is
timed here.
"""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest

import hdpm_lib
from tests.bench import case as bench
from tests.bench.__main__ import STUDY
from tests.bench.case import Arguments, Array, Case, Peer, Row
from tests.bench.cases import WINGS
from tests.public import public_names

ALL = [(wing, case) for wing, some in WINGS.items() for case in some]
CASES = [case for _, case in ALL]
RECORD = "a record or a bound object: what it holds is measured where it is made"
LEFT_OUT = {
    RECORD: "Account Outcome Task Category Number",
    "makes the input of the auctions": "bids",
    "names the records of a release": "records",
    "scaling and dummy columns: what NumPy takes to copy a table": "Schema",
    "a formula of one line": "size_weights error_bound gaussian_delta",
    "a root of that formula, by SciPy": "gaussian_epsilon",
    "all_or_nothing behind bids": "all_in",
    "sorts the scores, and takes a few tails of binomials from SciPy": "audit_one_run",
    "puts steps together, and computes nothing": "private_pipeline",
}


def test_every_public_algorithm_has_a_case_or_a_reason() -> None:
    measured = {
        name
        for name in public_names()
        for case in CASES
        if case.function is getattr(hdpm_lib, name)
    }
    assert sorted([*measured, *" ".join(LEFT_OUT.values()).split()]) == sorted(public_names())
    assert all(inspect.isclass(getattr(hdpm_lib, name)) for name in LEFT_OUT[RECORD].split())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_runs_with_its_peer(case: Case) -> None:
    """At the smallest size that both take; a peer that can be compared is near."""
    n = case.sizes[0]
    peer = case.peer
    found = case.run(case.arguments(n))
    assert found is not None
    assert (case.sizes[-1] == bench.SIZES[-1]) != bool(case.ends)
    if peer:
        other = peer.call(*case.arguments(n))
        assert peer.off is None or (
            abs(peer.off(case.arguments(n), found, other)) < 1 and peer.measure
        )


def test_a_peer_that_is_off_is_seen() -> None:
    peer, (epsilon, sizes) = CASES[0].peer, CASES[0].arguments(100)
    assert peer is not None and peer.off is not None
    assert peer.off((epsilon, sizes), CASES[0].run((epsilon, sizes)), sizes / sizes.sum()) > 1e-3


def test_cases_are_those_of_the_record() -> None:
    """Who adds a case runs `make bench`."""
    record = json.loads(STUDY.read_text("utf8"))
    stored = [
        (row["wing"], row["name"], row.get("peer", {}).get("name")) for row in record["cases"]
    ]
    assert stored == [
        (wing, case.name, case.peer.name if case.peer else None) for wing, case in ALL
    ]
    assert len({name for _, name, _ in stored}) == len(stored)


def test_a_row_has_growth_memory_and_a_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    def off(given: Arguments, ours: Array, theirs: Array) -> float:
        return float(np.abs(ours - theirs - given[0]).max())

    case = Case(
        double,
        lambda n, rng: (rng.random(n),),
        sizes=(100, 100_000),
        peer=Peer("x", np.copy, 100, off),
    )
    row = bench.measure(case)
    assert [size["n"] for size in row["sizes"]] == [100, 100_000]
    assert all(size["seconds"] > 0 < size["argsort"] for size in row["sizes"])
    assert 8e5 <= row["memory"] < 9e5  # the result
    assert row["peer"]["name"] == "x" and row["peer"]["off"] == 0
    assert row["peer"]["argsort"] > 0 and row["ends"] == ""
    monkeypatch.setattr(bench, "LONGEST", 0.0)
    sizes, ends = bench.growth(case)
    assert [size["n"] for size in sizes] == [100] and ends.startswith("100,000 would take about")


def timed(**seconds: float) -> list[Row]:
    """Sizes of a row: seconds by n."""
    return [{"n": int(n[1:]), "seconds": value} for n, value in seconds.items()]


@pytest.mark.parametrize(
    ("sizes", "seconds"),
    [
        (timed(n10=0.1), 10.0),  # of one size: in proportion
        (timed(n10=0.1, n100=0.2), 0.4),
        (timed(n10=0.001, n100=0.1), 10.0),
        (timed(n10=0.2, n100=0.1), 0.1),
    ],
)
def test_time_of_the_next_size(sizes: list[Row], seconds: float) -> None:
    assert bench.expected(sizes, 1000) == pytest.approx(seconds)


def test_a_row_measured_on_a_busy_machine_is_refused() -> None:
    def row(name: str, *sorts: float, peer: float | None = None) -> Row:
        sizes = [{"n": 10**k, "argsort": sort} for k, sort in enumerate(sorts)]
        return {"name": name, "sizes": sizes} | (
            {"peer": {"n": 1, "argsort": peer}} if peer else {}
        )

    quiet = [row(name, 1.0, 10.0) for name in "abc"]
    assert bench.disturbed([*quiet, row("d", 1.9, 19.0)]) == set()
    assert bench.disturbed([*quiet, row("d", 1.0, 21.0), row("e", 2.1)]) == {"d", "e"}
    assert bench.disturbed([*quiet, row("d", 1.0, peer=2.1)]) == {"d"}
    # at a size of its own nothing can be said
    assert bench.disturbed([*quiet, row("d", 1.0, 10.0, 99.0)]) == set()


def test_calls_are_timed_in_turn() -> None:
    order = []
    bench.in_turn(lambda: order.append("a"), lambda: order.append("b"))
    rounds = "".join(order).split("ba")
    assert order[:2] == ["a", "b"] and len(rounds) == bench.REPEATS + 1


def double(values: Array) -> Array:
    return 2 * values
