"""The notebooks of the site, as a stranger runs them: from the wheel alone, in an empty folder.

Her environment holds the wheel, and borrows packages from this one by a line in a ``.pth`` file.
Python reads no further ``.pth`` files where such a line leads, so the project that is installed
here, from its checkout, is not in it. A finder refuses whatever is not brought by the wheel, by
what the notebook's first cell installs, or by a kernel.

``make extras`` runs ten notebooks, each week others (those of six weeks are all), and
``make nightly`` runs all.
"""

from __future__ import annotations

import ast
import json
import os
import random
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import date
from pathlib import Path

import execution
import nbformat
import notebooks
import package
import pytest
from jupyter_core.utils import ensure_event_loop
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook

from tests.wheel import HIDE, ROOT, asked, beside, brought

LOOKS_AT = ["."]
# What starts a kernel leaves sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
HIDDEN = "HDPM_HIDDEN"  # names the modules that a kernel refuses
WITHIN = 300  # seconds for a cell
# The last cell: it prints where the modules of the project are, those of its data among them.
PLACES = """
import hdpm_lib, sys
from importlib import resources

resources.files("hdpm_book.data")
print(*{m.__file__ for n, m in [*sys.modules.items()] if n.startswith("hdpm_")}, sep="\\n")
"""


def drawn() -> list[str]:
    """Return the pages whose notebooks are run: all in nightly, else ten of this week."""
    pages = sorted(notebooks.with_code(ROOT))
    if os.environ.get("HDPM_NIGHTLY"):
        return pages
    shuffled = random.Random(0).sample(pages, len(pages))
    week = date.today().toordinal() // 7
    return [shuffled[(10 * week + place) % len(pages)] for place in range(10)]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of packages of an environment that a stranger makes with the wheel, and with a
    kernel.
    """
    folder = tmp_path_factory.mktemp("stranger")
    venv.create(folder, symlinks=True)
    place = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", "venv", place))
    with zipfile.ZipFile(package.build_wheel(ROOT, folder)) as wheel:
        wheel.extractall(packages)
    borrowed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "borrowed.pth").write_text("\n".join(borrowed), encoding="utf8")
    refuse = f"import os\nhidden = os.environ[{HIDDEN!r}].split()\n{HIDE}"
    (packages / "refuse.py").write_text(refuse, encoding="utf8")
    (packages / "refuse.pth").write_text("import refuse", encoding="utf8")
    kernel = {
        "argv": [str(folder / "bin" / "python"), *"-m ipykernel_launcher -f".split()],
        "display_name": "of the wheel",
        "language": "python",
    }
    kernel["argv"].append("{connection_file}")
    (folder / "kernels" / "stranger").mkdir(parents=True)
    spec = folder / "kernels" / "stranger" / "kernel.json"
    spec.write_text(json.dumps(kernel), encoding="utf8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(folder))
        yield packages


def run(nb: nbformat.NotebookNode, folder: Path, needs: list[str]) -> None:
    """Run a notebook in a folder, where what it needs is installed besides the wheel."""
    there = brought([*asked(), *needs, "ipykernel"])
    settings = {HIDDEN: " ".join(beside(there))}
    for name, value in os.environ.items():
        if not name.startswith("PYTHON") and name != "HDPM_MODE":
            settings[name] = value
    about = {"metadata": {"path": str(folder)}}
    client = NotebookClient(nb, kernel_name="stranger", timeout=WITHIN, resources=about)
    try:
        client.execute(env=settings)
    finally:  # what speaks to a kernel leaves the thread's event loop open
        ensure_event_loop().close()


def run_alone(page: str, folder: Path) -> list[str]:
    """Run the notebook of a page, and return the files of the project's modules that it loads."""
    nb = nbformat.read(ROOT / "_build" / "notebooks" / f"{page}.ipynb", as_version=4)
    if notebooks.is_changed(nb):
        pytest.skip(f"{page} has been changed by its reader")
    (needs,) = re.findall(r"(?s)^needs = (\{.*?\})$", nb.cells[1].source, re.M)
    nb.cells.append(new_code_cell(PLACES))
    run(nb, folder, list(ast.literal_eval(needs).values()))
    for cell in execution.code_cells(nb):
        for output in cell.outputs:
            assert output.get("name") != "stderr", f"{cell.source}\n\n{output.text}"
    return "".join(output.text for output in nb.cells[-1].outputs).splitlines()


@pytest.fixture(scope="module")
def runs(
    environment: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Future[list[str]]]:
    """What came of the notebooks: they are run side by side."""
    subprocess.run([sys.executable, notebooks.__file__], check=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return {
            page: pool.submit(run_alone, page, tmp_path_factory.mktemp("empty")) for page in drawn()
        }


@pytest.mark.parametrize("page", drawn())
def test_a_notebook_runs_from_the_wheel_alone(
    page: str, runs: dict[str, Future[list[str]]], environment: Path
) -> None:
    files = runs[page].result()
    assert files and all(Path(file).is_relative_to(environment) for file in files)


@pytest.mark.parametrize(
    ("code", "refusal"),
    [
        (
            "from importlib import resources\n"
            "(resources.files('hdpm_book.data') / 'studies' / 'rivals.json').read_text()",
            "No such file",
        ),
        ("import hdpm_book._ext.package", "No module named 'hdpm_book._ext'"),
        ("import jax", "No module named 'jax'"),
    ],
)
def test_what_the_wheel_lacks_is_missed(
    environment: Path, tmp_path: Path, code: str, refusal: str
) -> None:
    """A file that is taken out of it, a module of the checkout, and what was not asked for."""
    recorded = environment / "hdpm_book" / "data" / "studies" / "rivals.json"
    content = recorded.read_bytes()
    recorded.unlink()
    try:
        with pytest.raises(CellExecutionError, match=refusal):
            run(new_notebook(cells=[new_code_cell(code)]), tmp_path, [])
    finally:
        recorded.write_bytes(content)
