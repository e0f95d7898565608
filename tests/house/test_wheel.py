"""The wheel: what is in it, and that it imports with nothing but what it declares, and names the
extra it misses.

Packages that are installed here but not declared are hidden from a fresh Python by a finder that
refuses them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipapp
import zipfile
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import dependencies
import package
import pytest

import hdpm_lib
from hdpm_lib.auctions.menus import SHAPES
from hdpm_lib.validation import extra
from tests.wheel import HIDE, ROOT, asked, beside, brought

MODULES = sorted(dependencies.modules(ROOT))
LIBRARY = [name for name in MODULES if name.startswith("hdpm_lib")]

IMPORT_ALL = f"""
import importlib, json, sys

folder, modules, hidden = json.load(sys.stdin)
{HIDE}
sys.path.insert(0, folder)
said = {{}}
for module in modules:
    try:
        found = importlib.import_module(module)
        assert found.__file__.startswith(folder), found.__file__
    except ImportError as error:
        said[module] = f"{{type(error).__name__}}: {{error}}"
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as the site offers it, unpacked."""
    built = tmp_path_factory.mktemp("built")
    app = SimpleNamespace(builder=SimpleNamespace(format="html"), srcdir=ROOT, outdir=built)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONWARNINGS", "error")  # setuptools warns of packages that it has to guess
        package.put_files(app, None)
    with zipfile.ZipFile(built / package.wheel_name(ROOT)) as archive:
        archive.extractall(built / "unpacked")
    return built / "unpacked"


@pytest.fixture(scope="module")
def refused(wheel: Path) -> dict[str, dict[str, str]]:
    """What each module says that does not import: with nothing but the library, with the book,
    without SciPy, and from the wheel as it is, which is a zip.
    """
    packed = wheel.parent / package.wheel_name(ROOT)
    cases = {
        "library": (wheel, brought(asked())),
        "book": (wheel, brought(asked("book", "owner"))),
        "no SciPy": (wheel, brought(asked()) - {"scipy"}),
        "zip": (packed, brought(asked("book", "owner"))),
    }
    command = [sys.executable, "-W", "error::ImportWarning", "-c", IMPORT_ALL]

    def answer(case: tuple[Path, set[str]]) -> dict[str, str]:
        place, there = case
        words = json.dumps([str(place), MODULES, beside(there)])
        return dict(json.loads(subprocess.check_output(command, input=words, text=True, cwd=wheel)))

    with ThreadPoolExecutor() as pool:
        return dict(zip(cases, pool.map(answer, cases.values()), strict=True))


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no repository")
def test_the_wheel_has_its_types_and_its_data(wheel: Path) -> None:
    there = {str(path.relative_to(wheel)) for path in wheel.rglob("*") if path.is_file()}
    folders = ["data", "hdpm_lib", "flower/hdpm_owner", "book"]
    listed = subprocess.check_output(["git", "ls-files", *folders], cwd=ROOT, text=True)
    wanted = set()
    for name in filter(lambda name: (ROOT / name).exists(), listed.split()):
        page = name.startswith("book/") and not name.endswith((".py", "py.typed"))
        if not page and not name.startswith("book/_ext"):
            place = name.removeprefix("flower/")
            wanted.add(re.sub("^data/", "hdpm_book/data/", re.sub("^book/", "hdpm_book/", place)))
    assert {
        "hdpm_lib/py.typed",
        "hdpm_lib/__init__.pyi",
        "hdpm_book/data/claims/khalili.yaml",
    } <= wanted
    assert {
        name for name in there if name.startswith(("hdpm_lib/", "hdpm_owner/", "hdpm_book/"))
    } == wanted


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no repository")
def test_the_source_distribution_is_the_whole_project(tmp_path: Path) -> None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.check_output(command, cwd=ROOT, text=True)
    known = {name for name in listed.splitlines() if (ROOT / name).exists()}
    with tarfile.open(package.build_sdist(ROOT, tmp_path)) as archive:
        packed = {file.name.partition("/")[2] for file in archive if file.isfile()}
    made = {name for name in packed if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    assert packed == known | made


def test_the_site_may_lie_on_github_pages(wheel: Path) -> None:
    """Which would leave out folders that begin with an underscore."""
    names = {path.name for path in wheel.parent.iterdir()} - {wheel.name}
    assert names == {".nojekyll", "flower.zip", package.wheel_name(ROOT)}


def test_what_a_market_runs_is_packed(tmp_path: Path) -> None:
    with zipfile.ZipFile(package.pack_market(ROOT, tmp_path)) as archive:
        packed = {name for name in archive.namelist() if not name.endswith("/")}
    known = {file.relative_to(ROOT).as_posix() for file in (ROOT / "flower").rglob("*")}
    assert {"flower/README.md", "flower/certificates.py", "flower/hdpm_market/server.py"} <= known
    assert packed == {
        name for name in known if (ROOT / name).is_file() and "__pycache__" not in name
    }


def test_the_library_imports_with_what_it_declares(refused: dict[str, dict[str, str]]) -> None:
    assert {"hdpm_lib.learners.ridge", "hdpm_lib.auctions.menus"} <= set(LIBRARY)
    assert not refused["library"].keys() & set(LIBRARY)
    assert refused["no SciPy"]["hdpm_lib.noise"] == "ModuleNotFoundError: No module named 'scipy'"


def test_the_book_imports_with_its_extra(refused: dict[str, dict[str, str]]) -> None:
    assert refused["book"] == {}
    for name in ("ledger", "plots", "retrieval"):  # the others import these
        told = refused["library"][f"hdpm_book.{name}"]
        assert re.search(r'pip install "hdpm-lib\[book\] @ file:///\S+"$', told)


def test_the_library_imports_from_a_zip_and_the_book_says_that_it_does_not(
    refused: dict[str, dict[str, str]],
) -> None:
    told = refused["zip"]
    assert told.keys() == {name for name in MODULES if name.startswith("hdpm_book")}
    assert "install or unpack" in told["hdpm_book"] and ".whl" in told["hdpm_book"]


def test_a_zip_application_finds_all_names_and_the_trained_weights(
    wheel: Path, tmp_path: Path
) -> None:
    shutil.copytree(wheel / "hdpm_lib", tmp_path / "app" / "hdpm_lib")
    code = """
import hdpm_lib
from hdpm_lib.auctions.menus import TRAINED, trained_weights
print(hdpm_lib.__file__, TRAINED)
print(len([getattr(hdpm_lib, name) for name in hdpm_lib.__all__]), len(trained_weights()))
"""
    (tmp_path / "app" / "__main__.py").write_text(code, encoding="utf8")
    zipapp.create_archive(tmp_path / "app", tmp_path / "app.pyz")
    command = [sys.executable, str(tmp_path / "app.pyz")]
    places, counts = subprocess.check_output(command, text=True, cwd=tmp_path).splitlines()
    assert places.count(str(tmp_path / "app.pyz")) == 2
    assert counts == f"{len(hdpm_lib.__all__)} {len(SHAPES)}"


@pytest.mark.parametrize(
    ("noted", "place"),
    [
        ('{"url": "https://example.org/a.whl"}', "https://example.org/a.whl"),
        (None, f"file:///path/to/{package.wheel_name(ROOT)}"),
    ],
)
def test_an_extra_is_asked_for_where_the_library_came_from(
    monkeypatch: pytest.MonkeyPatch, noted: str | None, place: str
) -> None:
    installed = SimpleNamespace(read_text=lambda name: noted)
    monkeypatch.setattr(metadata, "distribution", lambda name: installed)
    with (
        pytest.raises(ModuleNotFoundError, match=re.escape(f'"hdpm-lib[owner] @ {place}"')),
        extra("owner"),
    ):
        raise ModuleNotFoundError("No module named 'nowhere'", name="nowhere")


def test_makes_at_the_same_time_build_the_environment_once(tmp_path: Path) -> None:
    if shutil.which("make") is None:
        pytest.skip("no make")
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("requirements.txt", "pyproject.toml"):
        (tmp_path / name).touch()
    # stands in for it
    uv = 'echo "$1 $2 begins" >> log; sleep 0.2; mkdir -p .venv; echo "$1 $2 ends" >> log'
    (tmp_path / "uv").write_text(f"#!/bin/sh\n{uv}\n", encoding="utf8")
    (tmp_path / "uv").chmod(0o755)
    command = ["make", "-s", f"PYTHON={sys.executable}", ".venv/.ready"]
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    makes = [subprocess.Popen(command, cwd=tmp_path, env=environment) for _ in range(3)]
    assert [make.wait(60) for make in makes] == [0, 0, 0]
    expected = [
        f"{step} {what}"
        for step in ("venv -q", "pip sync", "pip install")
        for what in ("begins", "ends")
    ]
    assert (tmp_path / "log").read_text(encoding="utf8").splitlines() == expected
