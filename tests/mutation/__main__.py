"""Spoil the library in one place at a time and see whether a test fails: ``python -m
tests.mutation``.

Cosmic Ray finds the places and makes the changes, by its own operators and those of
:mod:`tests.mutation.operators`. A seed draws equally many mutants of each module, as evenly over
the kinds of change as its places allow. Each is tried in a copy of the project, by the tests of its
module and by those that go through all learners or markets; these must pass on the library as it
is. What survives either stands in ``equivalent.yaml``, with the reason why nobody can see a
difference, or is a gap: exit status 1.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis  # noqa: F401  # as the next four: loaded once, for all tests
import numpy as np
import pandas  # noqa: F401
import pytest
import scipy.stats  # noqa: F401
import sklearn.linear_model
import sklearn.utils.estimator_checks  # noqa: F401
import yaml
from cosmic_ray.commands.init import init
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from tqdm import tqdm

from tests.mutation import operators  # noqa: F401  # has Cosmic Ray know them

ROOT = Path(__file__).resolve().parents[2]
STUDY = ROOT / "data" / "studies" / "mutation.json"
EQUIVALENT = Path(__file__).with_name("equivalent.yaml")
SECONDS = 180  # of a processor that the tests of one mutant may take; by the clock five times that
WINGS = {
    "learners/": (
        "ridge second_moments objective settings minimiser queries weighted_mean gradients fedsgd "
        "integer_answers estimators"
    ),
    "": "exact noise discrete aggregation bisection frozen accounts gaussian schema private "
    "validation",
    "markets/": (
        "contracts costs error_minimising fair_query local_menu mechanisms outcome payments "
        "procurement procurement_auction quadrature"
    ),
    "auctions/": "allin bids incentives menus posted_prices",
    "audits/": "black_box bounds objective meters one_run outcomes pairs ridge scores sources",
}
MODULES = [wing + name for wing, names in WINGS.items() for name in names.split()]
OWN = {
    "learners/gradients": ["learners/test_fedsgd.py", "learners/test_integer_answers.py"],
    "learners/minimiser": ["learners/test_objective.py", "learners/test_clipped.py"],
    "learners/objective": ["learners/test_objective.py", "learners/test_clipped.py"],
    "bisection": ["test_aggregation.py", "markets/test_contracts.py"],
    "noise": ["test_noise.py", "test_noise_in_use.py"],
    "learners/ridge": ["learners/test_ridge.py", "test_noise_in_use.py"],
    "auctions/bids": ["auctions/test_bids.py", "auctions/test_allin.py"],
    "auctions/incentives": ["auctions/test_allin.py", "auctions/test_bids.py"],
    "markets/procurement": ["markets/test_procurement.py", "markets/test_error_minimising.py"],
    "markets/quadrature": ["markets/test_payments.py", "markets/test_procurement_auction.py"],
    "markets/costs": ["markets/test_costs.py", "markets/test_mechanisms.py"],
    "private": ["test_ingress.py"],
    "audits/bounds": ["audits/test_bounds.py", "audits/test_black_box.py"],
    "audits/objective": ["audits/test_objective.py", "audits/test_meters.py"],
    "audits/ridge": ["audits/test_ridge.py", "audits/test_meters.py"],
    "audits/meters": [f"audits/test_{name}.py" for name in ("meters", "ridge", "objective")],
} | {
    f"audits/{name}": [
        f"audits/test_{file}.py" for file in ("black_box", "what_is_seen", "false_alarms")
    ]
    for name in ("black_box", "outcomes", "pairs", "scores", "sources")
}
WIDE = ["test_properties.py"]  # of all modules
PRIVATE = ["audits/test_settings.py", "test_fresh_draws.py", "test_promises.py", "test_ingress.py"]
PRIVATE += ["test_exact.py", "learners/test_defaults.py", *WIDE]  # of all learners


def tests_of(module: str) -> list[str]:
    """Files of tests that look at a module, its examples and its own tests first."""
    wing, _, name = module.rpartition("/")
    own = OWN.get(module, [f"{wing}/test_{name}.py".lstrip("/")])
    wide = WIDE if wing in ("markets", "auctions", "audits") else PRIVATE
    return [str(path_of(module)), *(f"tests/{file}" for file in own + wide)]


@dataclass(frozen=True)
class Mutant:
    """One change: a module, an operator of Cosmic Ray's, and which of its places."""

    module: str
    operator: str
    occurrence: int
    line: int
    definition: str

    def source(self) -> str | None:
        """Return the module with the change."""
        text = (ROOT / path_of(self.module)).read_text("utf8")
        return mutate_code(text, get_operator(self.operator)(), self.occurrence)


def path_of(module: str) -> Path:
    """Of a module, from the project's root."""
    return Path("hdpm_lib") / f"{module}.py"


def kind(operator: str) -> str:
    """Return the kind of change: operators that replace one arithmetic operator by another are one
    kind.
    """
    return operator.rpartition("/")[2].partition("_")[0]


def possible(module: str) -> list[Mutant]:
    """All mutants of a module, but for types, which nobody runs, and lines that make a class, raise
    or import.
    """
    lines = [line.strip() for line in (ROOT / path_of(module)).read_text("utf8").splitlines()]
    with (
        tempfile.TemporaryDirectory() as folder,
        use_db(Path(folder) / "work.sqlite", WorkDB.Mode.create) as base,
    ):
        init([ROOT / path_of(module)], base, {})
        specs = [spec for item in base.work_items for spec in item.mutations]
    return [
        Mutant(module, s.operator_name, s.occurrence, s.start_pos[0], s.definition_name or "")
        for s in specs
        if "BitOr" not in s.operator_name
        and not lines[s.start_pos[0] - 1].startswith(("@dataclass", "raise ", "from ", "import "))
    ]


def drawn(each: int, seed: int, modules: list[str]) -> list[Mutant]:
    """So many mutants of each module, as evenly over the kinds as there are places."""
    chosen = []
    for module in modules:
        mutants = possible(module)
        ranks = Counter[str]()
        order = []
        for k in np.random.default_rng([seed, *module.encode()]).permutation(len(mutants)):
            ranks[kind(mutants[k].operator)] += 1
            order.append((ranks[kind(mutants[k].operator)], k))
        chosen += [mutants[k] for _, k in sorted(order, key=lambda pair: pair[0])[:each]]
    return chosen


_copy: Path | None = None


def _prepare(folder: str) -> None:
    """Copy the project for this process."""
    global _copy
    _copy = Path(folder) / str(os.getpid())
    left = shutil.ignore_patterns(
        "_build", ".venv", ".git", "node_modules", "__pycache__", ".*_cache"
    )
    shutil.copytree(ROOT, _copy, ignore=left)
    # where Python finds them before those of the project that is installed
    (_copy / "hdpm_book").symlink_to("book")
    (_copy / "book" / "data").symlink_to("../data")


def _tests(copy: Path, files: tuple[str, ...], said: Path) -> None:
    """Run tests in a process of its own, which has loaded all but the project."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    os.chdir(copy)
    sys.path[:] = [str(copy), *(entry for entry in sys.path if entry not in ("", str(ROOT)))]
    sys.stdout = sys.stderr = said.open("w")
    quiet = ["-W", "ignore::SyntaxWarning", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    status = pytest.main(
        ["-x", "-q", "-p", "no:xdist", "--no-header", "--tb=no", "-rfE", *quiet, *files]
    )
    sys.stdout.flush()
    os._exit(int(status))


def failing(*files: str) -> str:
    """Return the first of the tests in these files that fails in the copy, "time" or "error";
    nothing if all pass.
    """
    assert _copy is not None
    said = _copy / "said.txt"
    child = multiprocessing.get_context("fork").Process(target=_tests, args=(_copy, files, said))
    child.start()
    child.join(5 * SECONDS)
    if child.is_alive():
        child.kill()
        child.join()
    if child.exitcode == -signal.SIGKILL:
        return "time"
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", said.read_text("utf8"), re.M)
    return "" if child.exitcode == 0 else found.group(1).rpartition("/")[2] if found else "error"


def tried(mutant: Mutant) -> dict[str, Any]:
    """Return what the tests say of a mutant."""
    assert _copy is not None
    path = _copy / path_of(mutant.module)
    begin = time.perf_counter()
    text = path.read_text("utf8")
    spoilt = mutant.source() or ""
    row: dict[str, Any] = {
        "module": mutant.module,
        "operator": kind(mutant.operator),
        "function": mutant.definition,
        "line": mutant.line,
        "change": changed(text, spoilt),
    }
    try:
        compile(spoilt, str(path), "exec")
    except SyntaxError:
        return row | {"outcome": "no program"}
    try:
        path.write_text(spoilt, "utf8")
        by = failing(*tests_of(mutant.module))
    finally:
        path.write_text(text, "utf8")
    outcome = "killed" if by else "survived"
    return row | {"outcome": outcome, "by": by, "seconds": round(time.perf_counter() - begin, 1)}


def changed(before: str, after: str) -> str:
    """Return the lines that differ, in words."""
    old = before.splitlines()
    new = after.splitlines()
    start = next(
        (k for k, (a, b) in enumerate(zip(old, new, strict=False)) if a != b),
        min(len(old), len(new)),
    )
    end = 1
    while end <= min(len(old), len(new)) - start and old[-end] == new[-end]:
        end += 1
    one, two = (
        " ".join(" ".join(text[start : len(text) - end + 1]).split()) for text in (old, new)
    )
    return f"{one} -> {two}"


def known() -> dict[str, str]:
    """Why mutants change nothing, by module and change."""
    found = yaml.safe_load(EQUIVALENT.read_text("utf8")) if EQUIVALENT.is_file() else {}
    return {
        f"{module}: {change}": why
        for module, of in (found or {}).items()
        for change, why in of.items()
    }


def main(arguments: list[str] | None = None) -> int:
    """Command line: draw, spoil, test, store."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=main.__doc__)
    parser.add_argument(
        "--each", type=int, default=16, help="mutants of each module; default: %(default)s"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the draw; default: %(default)s")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="side by side; default: %(default)s"
    )
    parser.add_argument(
        "--modules",
        nargs="*",
        default=[""],
        help="only those that contain one of these words; of others what is stored stays",
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="only survivors of the stored study that have no reason",
    )
    parser.add_argument("--store", action="store_true", help=f"write {STUDY.relative_to(ROOT)}")
    given = parser.parse_args(arguments)
    why = known()
    asked = [name for name in MODULES if any(word in name for word in given.modules)]
    chosen = drawn(given.each, given.seed, asked)
    stored = json.loads(STUDY.read_text("utf8"))["rows"]
    rows = [row for row in stored if row["module"] in set(MODULES) - set(asked)]
    if given.again:
        rows += [
            row
            for row in stored
            if row["module"] in asked
            and (row["outcome"] != "survived" or f"{row['module']}: {row['change']}" in why)
        ]
        settled = {(row["module"], row["change"]) for row in rows}
        texts = {module: (ROOT / path_of(module)).read_text("utf8") for module in MODULES}
        chosen = [
            m
            for m in chosen
            if (m.module, changed(texts[m.module], m.source() or "")) not in settled
        ]
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(given.jobs, initializer=_prepare, initargs=(folder,)) as pool,
    ):
        files = sorted({file for mutant in chosen for file in tests_of(mutant.module)})
        if bad := [
            f"{file}: {by}" for file, by in zip(files, pool.map(failing, files), strict=True) if by
        ]:
            raise RuntimeError(f"tests fail on the library as it is: {', '.join(bad)}")
        for done in tqdm(
            as_completed([pool.submit(tried, m) for m in chosen]), total=len(chosen), unit="mutant"
        ):
            rows.append(done.result())
            if rows[-1]["outcome"] == "survived":
                tqdm.write(f"survived: {rows[-1]['module']}: {rows[-1]['change']}")
    rows.sort(key=lambda row: (row["module"], row["line"], row["operator"], row["change"]))
    rows = [row for row in rows if row["outcome"] != "no program"]
    for row in rows:
        reason = why.get(f"{row['module']}: {row['change']}", row.get("equivalent", ""))
        row["equivalent"] = reason if row["outcome"] == "survived" else ""
    open_ = [row for row in rows if row["outcome"] == "survived" and not row["equivalent"]]
    print(
        f"{len(rows)} mutants, {sum(row['outcome'] == 'killed' for row in rows)} killed,", end=" "
    )
    print(f"{sum(bool(row['equivalent']) for row in rows)} equivalent, {len(open_)} survive")
    for row in open_:
        print(f"  {row['module']}: {row['change']}")
    if given.store:
        # not before: the copies load their own library
        from hdpm_book.records import provenance, store

        record = provenance("cosmic-ray", "numpy", "scipy", "pytest")
        command = "python -m tests.mutation --store; --again --store after new tests"
        record |= {"command": command, "seed": given.seed, "rows": rows}
        store(STUDY, record)
    return int(bool(open_))


if __name__ == "__main__":
    sys.exit(main())
