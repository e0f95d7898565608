"""One checkout: library, book and data are found together, and of two checkouts nothing is mixed in
silence.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import package
import pytest

LOOKS_AT = ["book/__init__.py", "book/_ext", "data/__init__.py", "flower/hdpm_owner/__init__.py"]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another checkout than the one that is installed."""
    folder = tmp_path_factory.mktemp("other").resolve()
    for name in ("hdpm_lib", "book", "data"):
        shutil.copytree(ROOT / name, folder / name, ignore=package.IGNORED)
    return folder


def last_line(code: str, *path: Path) -> str:
    """Return what a Python that is led to some folders prints at last."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True)
    return (done.stdout + done.stderr).splitlines()[-1]


@pytest.mark.parametrize("module", ["hdpm_book.ledger", "hdpm_book.data", "hdpm_owner.terms"])
def test_the_library_of_one_and_the_book_of_another_is_one_sentence(
    other: Path, module: str
) -> None:
    found = f"hdpm_lib is found in {other} and {module.partition('.')[0]} in {ROOT}"
    assert last_line(f"import {module}", other).startswith(f"ImportError: {found}, which belong")


def test_the_book_of_one_and_the_data_of_another_is_one_sentence(
    other: Path, tmp_path: Path
) -> None:
    (tmp_path / "hdpm_book").symlink_to(other / "book")
    told = last_line("from hdpm_book import ledger; print(ledger.CLAIMS)", other, tmp_path)
    assert f"hdpm_lib is found in {other} and hdpm_book.data in {ROOT}" in told


def test_the_library_reads_the_weights_beside_it(other: Path) -> None:
    code = "from hdpm_lib.auctions import menus; menus.trained_weights(); print(menus.TRAINED)"
    assert last_line(code, other) == str(other / "hdpm_lib" / "trained")


def test_pages_are_not_run_with_the_modules_of_another(other: Path) -> None:
    told = last_line("import execution", other / "book" / "_ext")
    assert f"hdpm_lib is found in {ROOT} and the book in {other}" in told
