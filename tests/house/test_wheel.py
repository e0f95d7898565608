"""The wheel: what is in it, and that it imports with nothing but what it declares, and names the extra it misses.

Packages that are installed here but not declared are hidden from a fresh Python by a finder that refuses them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import execution
import package
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
MODULES = sorted(execution.modules(ROOT))
LIBRARY = [name for name in MODULES if name.startswith("hdpm_lib")]

IMPORT_ALL = """
import importlib, json, os, sys
from importlib import abc

import jax, matplotlib.pyplot, numpy, optax, pandas, scipy.stats, sklearn.base  # once for all; forgotten where hidden

class Hide(abc.MetaPathFinder):
    def __init__(self, hidden):
        self.hidden = hidden

    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in self.hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def answer(folder, modules, hidden, place):
    for name in list(sys.modules):
        if name.partition(".")[0] in hidden:
            del sys.modules[name]
    sys.meta_path.insert(0, Hide(hidden))
    sys.path.insert(0, folder)
    said = {}
    for module in modules:
        try:
            found = importlib.import_module(module)
            assert found.__file__.startswith(folder), found.__file__
        except ImportError as error:
            said[module] = f"{type(error).__name__}: {error}"
    with open(place, "w") as file:
        json.dump(said, file)

children = []
for question in json.load(sys.stdin):
    child = os.fork()
    if not child:
        answer(*question)
        sys.exit()
    children.append(child)
sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked."""
    built = tmp_path_factory.mktemp("built")
    file = package.build_wheel(ROOT, built)
    assert file.name == package.wheel_name(ROOT)
    with zipfile.ZipFile(file) as archive:
        archive.extractall(built / "unpacked")
    return built / "unpacked"


def declared(extras: list[str]) -> set[str]:
    """Names of all distributions that an installation with these extras brings."""
    lines = PROJECT["dependencies"] + [line for name in extras for line in PROJECT["optional-dependencies"][name]]
    found: set[str] = set()
    ahead = [Requirement(line) for line in lines]
    while ahead:
        wanted = ahead.pop()
        name = canonicalize_name(wanted.name)
        if name not in found and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            found.add(name)
            ahead += [Requirement(line) for line in metadata.requires(name) or ()]
    return found


@pytest.fixture(scope="module")
def refused(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What each module says that does not import, with some extras (or in a wheel with an import too many)."""
    broken, answers = tmp_path_factory.mktemp("broken") / "wheel", tmp_path_factory.mktemp("answers")
    shutil.copytree(wheel, broken)
    module = broken / "hdpm_lib" / "noise.py"
    source = module.read_text(encoding="utf8").replace(
        "import numpy as np\n", "import IPython\nimport numpy as np\n", 1
    )
    module.write_text(source, encoding="utf8")
    asked = {"": (wheel, MODULES), "book": (wheel, MODULES), "broken": (broken, ["hdpm_lib.noise"])}
    owners, questions = metadata.packages_distributions(), []
    for name, (folder, modules) in asked.items():
        there = declared(name.replace("broken", "").split())
        hidden = [top for top, names in owners.items() if not there & {canonicalize_name(owner) for owner in names}]
        hidden = [top for top in hidden if top not in execution.PACKAGES]
        questions.append((str(folder), modules, hidden, str(answers / f"{name}.json")))
    command = [sys.executable, "-W", "error::ImportWarning", "-c", IMPORT_ALL]
    subprocess.run(command, input=json.dumps(questions), text=True, check=True, cwd=wheel)
    return {name: json.loads((answers / f"{name}.json").read_text(encoding="utf8")) for name in asked}


def test_the_wheel_has_its_types_and_its_data(wheel: Path) -> None:
    there = {str(path.relative_to(wheel)) for path in wheel.rglob("*") if path.is_file()}
    folders = ["data", "hdpm_lib", "flower/hdpm_owner", "book"]
    listed = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True)
    wanted = set()
    for name in filter(lambda name: (ROOT / name).exists(), listed.stdout.split()):
        page = name.startswith("book/") and not name.endswith((".py", "py.typed"))
        if page or name.startswith("book/_ext"):
            continue
        place = name.replace("data/trained/", "hdpm_lib/trained/") if "trained" in name else name
        place = place.removeprefix("flower/")
        wanted.add(re.sub("^data/", "hdpm_book/data/", re.sub("^book/", "hdpm_book/", place)))
    assert {"hdpm_lib/py.typed", "hdpm_lib/__init__.pyi", "hdpm_book/data/claims/khalili.yaml"} <= wanted
    assert {name for name in there if name.startswith(("hdpm_lib/", "hdpm_owner/", "hdpm_book/"))} == wanted


def test_the_library_imports_with_what_it_declares(refused: dict[str, dict[str, str]]) -> None:
    assert {"hdpm_lib.learners.ridge", "hdpm_lib.auctions.menus"} <= set(LIBRARY)
    assert not refused[""].keys() & set(LIBRARY)


def test_the_book_imports_with_its_extra(refused: dict[str, dict[str, str]]) -> None:
    assert refused["book"] == {}
    for name in ("ledger", "plots", "retrieval"):  # the others import these
        assert refused[""][f"hdpm_book.{name}"].endswith('pip install "hdpm-lib[book]"')


def test_what_is_not_declared_is_found(refused: dict[str, dict[str, str]]) -> None:
    assert refused["broken"] == {"hdpm_lib.noise": "ModuleNotFoundError: No module named 'IPython'"}


def test_the_library_is_imported_at_once() -> None:
    def printed(code: str) -> str:
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    code = "import time; a = time.perf_counter(); import hdpm_lib; b = time.perf_counter(); print(b - a)"
    assert min(float(printed(code)) for _ in range(5)) < 0.05
    code = "import hdpm_lib, sys; print('numpy' in sys.modules); hdpm_lib.audit; print('numpy' in sys.modules)"
    assert printed(code) == "False\nTrue\n"


# --- the environment ---


def make_environment(folder: Path, uv: str, times: int) -> list[int]:
    """Exit statuses of several makes at once that want an environment, built by this stand-in for uv."""
    if shutil.which("make") is None:
        pytest.skip("no make")
    shutil.copy(ROOT / "Makefile", folder)
    for name in ("requirements.txt", "pyproject.toml"):
        (folder / name).touch()
    (folder / "uv").write_text(f"#!/bin/sh\n{uv}\n", encoding="utf8")
    (folder / "uv").chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}"}
    command = ["make", f"PYTHON={sys.executable}", ".venv/.ready"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    runs = [subprocess.Popen(command, cwd=folder, env=environment, **quiet) for _ in range(times)]
    return [run.wait(60) for run in runs]


def test_makes_at_the_same_time_build_the_environment_once(tmp_path: Path) -> None:
    uv = 'echo "$1 $2 begins" >> log; sleep 0.2; mkdir -p .venv; echo "$1 $2 ends" >> log'
    assert make_environment(tmp_path, uv, 3) == [0, 0, 0]
    steps = ("venv -q", "pip sync", "pip install")
    expected = [f"{step} {what}" for step in steps for what in ("begins", "ends")]
    assert (tmp_path / "log").read_text(encoding="utf8").splitlines() == expected


def test_an_environment_that_cannot_be_built_stops_make(tmp_path: Path) -> None:
    assert 0 not in make_environment(tmp_path, "exit 1", 2)
    assert not (tmp_path / ".venv" / ".ready").exists()
