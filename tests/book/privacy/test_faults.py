"""Random faults: what can be replaced, how a fault is planted, and what is stored of the study."""

from __future__ import annotations

import ast
import json
import os
import signal
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdpm_book.privacy import faults, mutation
from hdpm_book.privacy.mutation import KINDS, MODULES, Fault, drawn, plant, possible
from hdpm_book.privacy.releases import EFFECTS, SCENES, Seen, difference, observe
from hdpm_lib.learners import ridge

# JAX warns of forks in the process that has loaded it for other tests; the children do not use it
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")

HALF = Fault("learners.ridge", "output_perturbation", "operator", "eps.sum() / constant", "eps.sum() * constant")


# --- what can be replaced ---------------------------------------------------------------------------------------------


def test_places_have_names_of_their_own_and_sources_compile() -> None:
    for module in MODULES:
        path, text = mutation.source_of(module)
        found = list(mutation._variants(module, ast.parse(text)))
        assert len({fault.name for fault, *_ in found}) == len(found) > 15
        assert not {fault.function for fault, *_ in found} & set(MODULES[module])
        for fault, (parent, field, index), new in found[::7]:
            assert fault.kind in KINDS and fault.before != fault.after
            there = getattr(parent, field) if index is None else getattr(parent, field)[index]
            assert type(there) is not type(new) or ast.dump(there) != ast.dump(new), fault.name
        assert Path(path).is_file()


def test_draw_is_even_and_always_the_same() -> None:
    chosen = drawn()
    assert chosen == drawn() and len(set(chosen)) == len(chosen) >= 300
    assert set(Counter(fault.kind for fault in chosen)) == set(KINDS)
    assert set(Counter(fault.module for fault in chosen)) == set(MODULES)
    assert {fault.name for fault in drawn(5)} <= {fault.name for fault in chosen}


@pytest.mark.parametrize(
    ("code", "kind", "after"),
    [
        ("x = a + b", "operator", "a - b"),
        ("x = -a", "operator", "a"),
        ("x = a < b", "comparison", "a <= b"),
        ("x = 3", "constant", "4"),
        ("x = True", "constant", "False"),
        ("if a:\n    b()", "branch", "if not a"),
        ("x += a", "branch", "pass"),
        ("x = a if b else c", "branch", "c"),
        ("x = np.minimum(a, b)", "function", "np.maximum"),
        ("x = f(a, b)", "argument", "f(b, a)"),
        ("x = f(a, clip=b)", "argument", "f(a)"),
        ("x = rng.gamma(a)", "dtype", "np.asarray(rng.gamma(a), dtype=np.float32).astype(float)"),
        ("x = f(a, rng=rng)", "seed", "f(a, rng=np.random.default_rng(0))"),
        ("x = rng.gamma(a)", "seed", "np.random.default_rng(rng.integers(2 ** 8)).gamma(a)"),
        ("x = weigh(a)", "cache", "_kept(weigh(a))"),
    ],
)
def test_replacements(code: str, kind: str, after: str) -> None:
    found = {
        (way, mutation._words(ast.unparse(ast.fix_missing_locations(new))))
        for node in ast.walk(ast.parse(code))
        for way, new in mutation._replacements(node)
    }
    assert (kind, after) in found


# --- planting ---------------------------------------------------------------------------------------------------------


def test_fault_is_planted_in_its_process_alone() -> None:
    def rate() -> float:
        from hdpm_lib.learners.ridge import output_perturbation

        return output_perturbation([[1.0]], [1.0], [2.0], 1.0).noise_rate

    def with_fault() -> float:
        plant(HALF)
        return rate()

    right = rate()
    assert faults.in_fork(with_fault, 20) == pytest.approx(4 / right)
    assert rate() == right and HALF in possible("learners.ridge")
    assert ridge.output_perturbation([[1.0]], [1.0], [2.0], 1.0).noise_rate == right
    with pytest.raises(LookupError, match=r"no place any more for 'learners\.ridge\.output_perturbation: a → b'"):
        plant(Fault("learners.ridge", "output_perturbation", "operator", "a", "b"))


def test_cache_keeps_the_first_of_each_shape() -> None:
    first = mutation._First()
    one, two = np.zeros(2), np.ones(2)
    assert first(one) is one and first(two) is one and first(np.ones(3)).all() and first(4) == first(5) == 4


def endless() -> None:
    while True:
        pass


def test_what_does_not_come_back() -> None:
    began = time.monotonic()
    assert faults.in_fork(endless, 1) == "time" and time.monotonic() - began < 60
    assert faults.in_fork(lambda: os.kill(os.getpid(), signal.SIGKILL), 5) == "time"
    assert faults.in_fork(lambda: os._exit(3), 5) == faults.in_fork(lambda: 1 / 0, 5) == "died"


def test_checks_notice() -> None:
    assert faults.releases_check(HALF) == "release"
    assert faults.battery_check(HALF).startswith("ridge: ")


# --- releases ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCENES)
def test_releases_are_repeatable_and_errors_public(name: str) -> None:
    seen = list(observe([name]))
    assert difference(seen, observe([name])) == "none"
    inside = [one for one in seen if one.inside]
    assert np.mean([bool(one.error) for one in inside]) < 0.06 and not any(one.said for one in seen)
    assert {one.error.partition(":")[0] for one in inside} <= {"", "ValueError"}
    assert any(one.error for one in seen if not one.inside)


SEEN = Seen(True, [np.zeros(2)], [np.ones(1)], "", ())
REFUSED = Seen(False, [], [], "ValueError: no", ())


@pytest.mark.parametrize(
    ("right", "change", "effect"),
    [
        (SEEN, {}, "none"),
        (SEEN, {"released": [np.zeros(2) + 1e-300]}, "release"),
        (SEEN, {"released": [np.zeros((2, 1))]}, "release"),
        (SEEN, {"released": [], "told": [], "error": "ValueError: no"}, "refusal"),
        (SEEN, {"told": [np.ones(1) * 2]}, "promise"),
        (SEEN, {"told": [np.ones(1) * (1 + 1e-12)]}, "rounding"),
        (SEEN, {"said": ("careful",)}, "text"),
        (REFUSED, {}, "none"),
        (REFUSED, {"released": [np.zeros(1)], "error": ""}, "bounds"),
        (REFUSED, {"error": "ValueError: yes"}, "text"),
    ],
)
def test_difference(right: Seen, change: dict[str, Any], effect: str) -> None:
    assert effect in EFFECTS and difference([SEEN, right], [SEEN, replace(right, **change)]) == effect


# --- the study --------------------------------------------------------------------------------------------------------


def test_study_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def check(name: str, answers: dict[str, str]) -> None:
        def one(fault: Fault) -> str:
            asked.append((name, fault.kind))
            return answers.get(fault.kind, "")

        monkeypatch.setitem(faults.CHECKS, name, one)

    check("releases", dict.fromkeys(("operator", "seed", "cache"), "release") | {"branch": "none"})
    check("tests", {"operator": "test_one"})
    check("battery", {"seed": "ridge: repeats"})
    check("wider", {})
    chosen = drawn(9)
    by_kind = {fault.kind: fault for fault in chosen}
    monkeypatch.setattr(faults, "drawn", lambda each: list(by_kind.values()))
    faults.collect(list(by_kind.values())[:2], "releases", tmp_path)
    assert len(asked) == 2
    faults.main(["--folder", str(tmp_path)])
    counts = Counter(name for name, _ in asked)
    assert counts == {"releases": len(by_kind), "tests": 3, "battery": 3, "wider": 1}
    record = json.loads((tmp_path / "faults.json").read_text("utf8"))
    assert {"commit", "date", "hardware", "versions", "command"} <= set(record) and not list(tmp_path.glob("*.part"))
    assert [row["tests"] for row in record["faults"] if row["kind"] == "operator"] == ["test_one"]


def test_record_is_of_these_learners() -> None:
    frame, now = faults.recorded(), {fault.name for module in MODULES for fault in possible(module)}
    assert len(frame) >= 300 and set(frame["module"]) == set(MODULES) and set(frame["kind"]) == set(KINDS)
    gone = [name for name in frame.index if name not in now]
    assert len(gone) < 0.1 * len(frame), f"the sources have changed, run the study again: {gone}"


def test_most_faults_are_caught_and_all_others_read() -> None:
    frame, read = faults.recorded(), faults.readings()
    changing = frame[frame["law"]]
    for _, part in changing.groupby("sample"):
        assert part["caught"].mean() >= 0.95
    assert set(frame.index[~frame["caught"]]) <= set(read) <= set(frame.index)
    assert all(why for name, (_, why) in read.items() if not frame["caught"][name])
    assert not any(frame["caught"][name] for name, (law, _) in read.items() if law == "same")
    assert set(faults._read()["missed at first"]) <= set(changing.index)
