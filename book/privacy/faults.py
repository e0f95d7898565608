r"""Who notices random faults in the learners: releases at fixed seeds, the unit tests, the battery.

``python -m hdpm_book.privacy.faults`` plants the faults of :mod:`~hdpm_book.privacy.mutation`, one in a process, and
stores in ``data/studies`` what came. First the releases are compared with those of the library as it is
(:mod:`~hdpm_book.privacy.releases`); where they differ, unit tests and battery run. An interrupted study goes on after
its last fault. What was found by reading the source of the faults that nobody notices stands in ``data/faults.yaml``.
"""

from __future__ import annotations

import argparse
import contextlib
import doctest
import io
import json
import os
import pickle
import platform
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import date
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from hdpm_book.privacy.mutation import EACH, KINDS, MODULES, Fault, drawn, plant

ROOT = Path(__file__).resolve().parents[2]
STORED = Path(str(resources.files("hdpm_book.data")))
STUDY = STORED / "studies" / "faults.json"
SECONDS = {"releases": 15, "tests": 90, "battery": 120}  # of the processor that a check may take
MEMORY = 8 * 2**30

TESTS = {  # besides those of the module itself
    "learners.gradients": ("learners/test_fedsgd.py",),
    "learners.ridge": ("test_noise_in_use.py",),
    "learners.estimators": ("test_accounts.py",),
    "noise": ("learners/test_ridge.py",),
}
USERS = {  # scenes of releases that run through a module, if they are more than its own
    "learners.ridge": ("ridge", "jorgensen", "ridge_variants", "lattice", "estimators"),
    "learners.logistic": ("logistic", "estimators"),
    "learners.gradients": ("gradients", "fedsgd"),
    "learners.integer_answers": ("integer_answers", "gradients", "fedsgd", "lattice"),
    "learners.lattice": ("lattice", "estimators"),
    "noise": ("noise", "ridge", "logistic", "jorgensen", "ridge_variants"),
    "discrete": ("noise", "integer_answers", "lattice", "gradients"),
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
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["--collect-only", "-q", "-p", "no:xdist", *sorted({f for m in MODULES for f in _tests_of(m)})])


def _tests_of(module: str) -> list[str]:
    """Files with the tests of a module."""
    own = f"learners/test_{module.partition('.')[2]}.py" if "." in module else f"test_{module}.py"
    files = [own, *TESTS.get(module, ()), "test_promises.py"]
    return [str(ROOT / "tests" / file) for file in files if (ROOT / "tests" / file).is_file()]


def tests_check(fault: Fault) -> str:
    """The first unit test that fails, or nothing: the module's examples, then its tests."""
    import pytest

    _loaded_tests()
    files = _tests_of(fault.module)

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
        module = sys.modules[f"hdpm_lib.{fault.module}"]
        if doctest.testmod(module, verbose=False).failed:
            return "examples"
        quiet = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what is loaded already
        watch = Watch()
        with contextlib.redirect_stdout(io.StringIO()):
            pytest.main(["-x", "-q", "--no-header", "--no-summary", "-p", "no:xdist", *files, *quiet], plugins=[watch])
        return watch.failed

    return str(in_fork(task, SECONDS["tests"]))


def battery_check(fault: Fault) -> str:
    """The first check of the battery that objects, or nothing."""
    import hdpm_book.privacy.battery  # noqa: F401  # with all that it needs, loaded once for all forks

    def task() -> str:
        plant(fault)
        from hdpm_book.privacy import battery

        for number, learner in enumerate(battery.BENCHES):
            try:
                found = battery.audit_learner(learner, rng=np.random.default_rng([4, number])).needed
            except Exception as error:
                return f"{learner}: {type(error).__name__}"
            if found:
                return f"{learner}: {', '.join(found)}"
        return ""

    return str(in_fork(task, SECONDS["battery"]))


CHECKS: dict[str, Callable[[Fault], str]] = {
    "releases": releases_check,
    "tests": tests_check,
    "battery": battery_check,
}


# --- the study --------------------------------------------------------------------------------------------------------


def provenance() -> dict[str, Any]:
    """Machine, commit and versions."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "commit": commit.stdout.strip(),
        "date": date.today().isoformat(),
        "hardware": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {name: metadata.version(name) for name in ("numpy", "scipy", "scikit-learn", "pytest")}
        | {"python": platform.python_version()},
    }


def _stored(part: Path) -> dict[str, str]:
    """What one check has found so far, by the names of faults."""
    return dict(json.loads(line) for line in part.read_text("utf8").splitlines()) if part.is_file() else {}


def collect(faults: Sequence[Fault], check: str, folder: Path) -> dict[str, str]:
    """What a check says of each fault; it goes on after the last one that the file of this check holds."""
    from tqdm import tqdm

    part = folder / f"faults-{check}.part"
    found = _stored(part)
    if check != "releases":
        seen = _stored(folder / "faults-releases.part")
        faults = [fault for fault in faults if seen.get(fault.name) in CHANGES]
    for fault in tqdm([fault for fault in faults if fault.name not in found], desc=check, unit="fault"):
        found[fault.name] = CHECKS[check](fault)
        with part.open("a", encoding="utf8") as file:
            file.write(json.dumps([fault.name, found[fault.name]]) + "\n")
    return {fault.name: found[fault.name] for fault in faults}


def main(arguments: list[str] | None = None) -> None:
    """Command line: plant all faults, run the checks, store what they found when all of them are done."""
    parser = argparse.ArgumentParser(prog="python -m hdpm_book.privacy.faults", description=main.__doc__)
    parser.add_argument("checks", nargs="*", default=list(CHECKS), help="default: all")
    parser.add_argument("--each", type=int, default=EACH, help="faults in a module; default: %(default)s")
    parser.add_argument("--folder", type=Path, default=STUDY.parent)
    given = parser.parse_args(arguments)
    faults = drawn(given.each)
    for check in given.checks:
        collect(faults, check, given.folder)
    parts = {check: given.folder / f"faults-{check}.part" for check in CHECKS}
    found = {check: _stored(part) for check, part in parts.items()}
    changing = [fault for fault in faults if found["releases"].get(fault.name) in CHANGES]
    if all(f.name in found["releases"] for f in faults) and all(f.name in found[c] for c in CHECKS for f in changing):
        rows = [vars(fault) | {check: found[check].get(fault.name) for check in CHECKS} for fault in faults]
        record = provenance() | {"command": "python -m hdpm_book.privacy.faults", "each": given.each, "faults": rows}
        text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        (given.folder / STUDY.name).write_text(text, encoding="utf8")
        for part in parts.values():
            part.unlink()


if __name__ == "__main__":
    main()
