r"""Who notices random faults in the learners: releases at fixed seeds, the unit tests, the battery.

``python -m hdpm_book.privacy.faults`` plants the faults of :mod:`~hdpm_book.privacy.mutation`, one in a process, and
stores in ``data/studies`` what came. First the releases are compared with those of the library as it is
(:mod:`~hdpm_book.privacy.releases`). Where they differ, the unit tests of the module and the battery run, and where
neither notices, the tests that run through all learners. An interrupted study goes on after its last fault. What was
found by reading the faults that nobody notices stands in ``data/faults.yaml``.
"""

from __future__ import annotations

import argparse
import contextlib
import doctest
import io
import json
import os
import pickle
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from hdpm_book.privacy.mutation import EACH, FIRST, MODULES, Fault, drawn, full_name, plant, possible
from hdpm_book.records import provenance
from hdpm_lib.spread import each

ROOT = Path(__file__).resolve().parents[2]
STORED = Path(str(resources.files("hdpm_book.data")))
STUDY = STORED / "studies" / "faults.json"
SECONDS = {"releases": 15, "tests": 90, "battery": 40, "wider": 120}  # of the processor that a check may take
MEMORY = 8 * 2**30

TESTS = {"learners.gradients": ("learners/test_fedsgd.py",)}  # of a module; elsewhere those named after it
WIDER = ("test_fresh_draws.py", "test_accounts.py", "test_promises.py", "test_noise_in_use.py")  # of all learners
USERS = {  # scenes of releases that run through a module, if they are more than its own
    "learners.ridge": ("ridge", "jorgensen", "variants", "lattice", "estimators"),
    "learners.logistic": ("logistic", "estimators"),
    "learners.gradients": ("gradients", "fedsgd"),
    "learners.integer_answers": ("integer_answers", "gradients", "fedsgd", "lattice"),
    "learners.lattice": ("lattice", "estimators"),
    "noise": ("noise", "ridge", "logistic", "jorgensen", "variants"),
    "discrete": ("noise", "integer_answers", "lattice", "gradients"),
}
LEARNERS = {  # of the battery, that run through a module
    "learners.ridge": ("ridge", "sampling", "variants", "lattice", "estimators"),
    "learners.logistic": ("logistic", "estimators"),
    "learners.queries": ("sum",),
    "learners.gradients": ("gradients", "integers"),
    "learners.fedsgd": ("gradients",),
    "ridge.jorgensen": ("sampling",),
    "ridge.variants": ("variants",),
    "learners.integer_answers": ("integers", "gradients", "lattice"),
    "learners.lattice": ("lattice", "estimators"),
    "learners.estimators": ("estimators",),
    "noise": ("ridge", "sampling", "variants", "logistic", "estimators"),
    "discrete": ("integers", "lattice", "gradients"),
}
CHANGES = ("release", "refusal", "promise", "bounds")  # of what the library does with data, or says of it


# --- processes ------------------------------------------------------------------------------------------------------


def in_fork(task: Callable[[], Any], seconds: int) -> Any:
    """What a task gives in a forked process, or "time" if that took too much of the processor, or "died"."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.close(reading)
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(task(), pipe)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if not answer:
        return "time" if os.WIFSIGNALED(status) else "died"
    return pickle.loads(answer)


# --- who notices ------------------------------------------------------------------------------------------------------


def releases_check(fault: Fault) -> str:
    """How releases differ: one of `hdpm_book.privacy.releases.EFFECTS`, or "import" if the module does not load."""
    from hdpm_book.privacy import releases

    names = USERS.get(fault.module, (fault.module.rpartition(".")[2],))
    if names not in _right:
        _right[names] = list(releases.observe(names))

    def task() -> str:
        try:
            plant(fault)
        except Exception:
            return "import"
        from hdpm_book.privacy import releases

        return releases.difference(_right[names], releases.observe(names))

    found = in_fork(task, SECONDS["releases"])
    return "refusal" if found in ("time", "died") else str(found)


_right: dict[tuple[str, ...], list[Any]] = {}  # what the learners give as they are


@cache
def _loaded_tests() -> None:
    """Have all that the tests need loaded in this process, for all forks of it."""
    import pytest

    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    files = sorted({*WIDER, *(file for module in MODULES for file in _tests_of(module))})
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["--collect-only", "-q", "-p", "no:xdist", *(f"tests/{file}" for file in files)])


def _tests_of(module: str) -> tuple[str, ...]:
    """Files with the tests of a module."""
    wing, _, name = module.rpartition(".")
    own = f"{'book/' * (wing == 'ridge')}{wing}/test_{name}.py".lstrip("/")
    return TESTS.get(module, (own,))


def tests_check(fault: Fault) -> str:
    """The first of the module's examples and unit tests that fails, or nothing."""
    return _failing(fault, _tests_of(fault.module))


def wider_check(fault: Fault) -> str:
    """The first that fails of the tests that run through all learners, or nothing."""
    return _failing(fault, WIDER)


def _failing(fault: Fault, files: Sequence[str]) -> str:
    import pytest

    _loaded_tests()

    class Watch:
        failed = ""

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed:
                self.failed = report.nodeid.rpartition("/")[2]

        def pytest_collectreport(self, report: Any) -> None:
            if report.failed:
                self.failed = f"{Path(str(report.nodeid)).name} does not load"

    def task() -> str:
        plant(fault)
        module = sys.modules[full_name(fault.module)]
        if doctest.testmod(module, verbose=False).failed:
            return "examples"
        quiet = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what is loaded already
        watch = Watch()
        with contextlib.redirect_stdout(io.StringIO()):
            pytest.main(
                [
                    "-x",
                    "-q",
                    "--no-header",
                    "--no-summary",
                    "-p",
                    "no:xdist",
                    *(f"tests/{file}" for file in files),
                    *quiet,
                ],
                plugins=[watch],
            )
        return watch.failed

    return str(in_fork(task, SECONDS["tests"]))


def battery_check(fault: Fault) -> str:
    """The first check of the battery that objects, with the learner and the setting, or nothing."""
    import hdpm_book.privacy.battery  # noqa: F401  # with all that it needs, loaded once for all forks

    def task() -> str:
        plant(fault)
        from hdpm_book.privacy import battery

        for number, learner in enumerate(LEARNERS[fault.module]):
            if (found := battery.objection(learner, rng=np.random.default_rng([4, number]))) is not None:
                return f"{learner}: {', '.join(found)}"
        return ""

    return str(in_fork(task, SECONDS["battery"]))


CHECKS: dict[str, Callable[[Fault], str]] = {
    "releases": releases_check,
    "tests": tests_check,
    "battery": battery_check,
    "wider": wider_check,
}


# --- the study --------------------------------------------------------------------------------------------------------


def _stored(part: Path) -> dict[str, str]:
    """What one check has found so far, by the names of faults."""
    return dict(json.loads(line) for line in part.read_text("utf8").splitlines()) if part.is_file() else {}


def _due(faults: Sequence[Fault], check: str, found: Mapping[str, Mapping[str, str]]) -> list[Fault]:
    """Those that a check has to see.

    Unit tests and battery see those that change something, as releases or a reader say; the wider tests see those that
    neither notices and of which no reader says that they leave the law as it is.
    """
    if check == "releases":
        return list(faults)
    read = readings()
    harm = {name for name, (law, _) in read.items() if law == "changes"}
    changing = [f for f in faults if found["releases"].get(f.name) in CHANGES or f.name in harm]
    if check != "wider":
        return changing
    neither = [f for f in changing if found["tests"].get(f.name) == found["battery"].get(f.name) == ""]
    return [f for f in neither if f.name not in read or f.name in harm]


def collect(faults: Sequence[Fault], check: str, folder: Path) -> None:
    """Add to the file of a check what it says of the faults that the file does not hold.

    Until all are done answers lie in a folder beside it, and a study that was killed goes on after the last one.
    """
    found = {name: _stored(folder / f"faults-{name}.part") for name in CHECKS}
    due = [fault for fault in _due(faults, check, found) if fault.name not in found[check]]
    if due:
        answers = each(_checked, due, check, folder=folder / f"faults-{check}.parts")
        with (folder / f"faults-{check}.part").open("a", encoding="utf8") as file:
            for fault, answer in zip(due, answers, strict=True):
                file.write(json.dumps([fault.name, answer]) + "\n")
    shutil.rmtree(folder / f"faults-{check}.parts", ignore_errors=True)


def _checked(fault: Fault, check: str) -> str:
    return CHECKS[check](fault)


def main(arguments: list[str] | None = None) -> None:
    """Command line: plant all faults, run the checks, and store what they found when all of them are done."""
    parser = argparse.ArgumentParser(prog="python -m hdpm_book.privacy.faults", description=main.__doc__)
    parser.add_argument("checks", nargs="*", default=list(CHECKS), help="default: all")
    parser.add_argument("--each", type=int, default=EACH, help="faults in a module; default: %(default)s")
    parser.add_argument("--folder", type=Path, default=STUDY.parent)
    parser.add_argument("--again", action="store_true", help="print what the checks say of the faults named on stdin")
    given = parser.parse_args(arguments)
    if given.again:
        names, there = json.load(sys.stdin), {fault.name: fault for module in MODULES for fault in possible(module)}
        asked = {name: there[name] for name in names if name in there}
        print(json.dumps({name: {check: CHECKS[check](asked[name]) for check in given.checks} for name in asked}))
        return
    faults = drawn(given.each)
    for check in given.checks:
        collect(faults, check, given.folder)
    parts = {check: given.folder / f"faults-{check}.part" for check in CHECKS}
    found = {check: _stored(part) for check, part in parts.items()}
    if all(fault.name in found[check] for check in CHECKS for fault in _due(faults, check, found)):
        rows = [asdict(fault) | {check: found[check].get(fault.name, "") for check in CHECKS} for fault in faults]
        record = provenance("numpy", "scipy", "scikit-learn", "pytest") | {
            "command": "python -m hdpm_book.privacy.faults",
            "each": given.each,
            "faults": rows,
        }
        text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        (given.folder / STUDY.name).write_text(text, encoding="utf8")
        for part in parts.values():
            part.unlink()


# --- what was found ---------------------------------------------------------------------------------------------------


def recorded() -> pd.DataFrame:
    """The stored faults by name, with what the checks said of each and what reading it says.

    Columns are those of :class:`~hdpm_book.privacy.mutation.Fault` and of `CHECKS`, the wider tests under `tests`;
    `sample`, "first" or "second"; `law`, whether the fault changes the law of a release inside the bounds or what is
    promised with it; `caught`; `gap`, whether all checks missed it when they first saw it; and `why`, what was read.
    """
    frame = pd.DataFrame(json.loads(STUDY.read_text("utf8"))["faults"])
    frame.index = pd.Index([Fault(*fault).name for fault in frame[list(Fault.__dataclass_fields__)].to_numpy()])
    read, changes = readings(), frame["releases"].isin(CHANGES)
    frame["sample"] = np.where(frame.groupby("module").cumcount() < FIRST, "first", "second")
    frame["law"] = [read[name][0] == "changes" if name in read else changes[name] for name in frame.index]
    frame["why"] = [read[name][1] if name in read else "" for name in frame.index]
    frame["tests"] = frame["tests"].where(frame["tests"] != "", frame.pop("wider"))
    frame["caught"] = (frame["tests"] != "") | (frame["battery"] != "")
    frame["gap"] = frame.index.isin(_read()["missed at first"])
    return frame


def _read() -> dict[str, Any]:
    return dict(yaml.safe_load((STORED / "faults.yaml").read_text("utf8")))


def readings() -> dict[str, tuple[str, str]]:
    """What was read, by the names of faults: "same" or "changes", and why."""
    found = _read()
    return {name: (law, why) for law in ("same", "changes") for why, names in found[law].items() for name in names}


def shares(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """Of the faults that change the law: how many, who notices them, and what share somebody noticed at first.

    By the values of a column, and of all.
    """
    frame = frame[frame["law"]]
    rows = {}
    for name, part in [*frame.groupby(column, sort=False), ("all", frame)]:
        seen = {"unit tests": part["tests"] != "", "battery": part["battery"] != "", "either": part["caught"]}
        counts = {who: noticed.sum() for who, noticed in seen.items()}
        rows[name] = {"faults": len(part)} | counts | {"at first": f"{1 - part['gap'].mean():.0%}"}
    return pd.DataFrame(rows).T


def again(names: Sequence[str], checks: Sequence[str] = ("releases", "battery")) -> dict[str, dict[str, str]]:
    """What the checks say now of these faults, if their places are still there, planted in processes of their own."""
    command = [sys.executable, "-m", "hdpm_book.privacy.faults", *checks, "--again"]
    ran = subprocess.run(command, input=json.dumps(list(names)), capture_output=True, text=True, check=True)
    return dict(json.loads(ran.stdout))


if __name__ == "__main__":
    main()
