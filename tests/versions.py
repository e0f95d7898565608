"""The library's tests with the oldest and the newest packages that ``pyproject.toml`` admits.

``python -m tests.versions`` makes an environment for each, outside of the checkout, and removes it.
The oldest are the lower bounds themselves, on the oldest Python that is here; what comes along with
them is as new as they bear. Pages print their digits under the lock alone, and are not run.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tests.another_python import MINORS, at
from tests.wheel import asked

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("cluster", "owner", "parquet", "book")  # but for Flower, whose tests `make extras` runs
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "jupytext", "setuptools>=77")
FOLDERS = "hdpm_lib tests/learners tests/markets tests/auctions tests/audits tests/designs"
# what new packages say of old ones is not about us
QUIET = {"oldest": ["-W", "ignore::DeprecationWarning"], "newest": []}


def bounds(requirements: list[str]) -> list[str]:
    """Return requirements of the lowest versions that others admit.

    Examples
    --------
    >>> bounds(["numpy>=2.0", "flwr>=1.41,<1.42"])
    ['numpy==2.0', 'flwr==1.41']
    """
    return [line.partition(",")[0].replace(">=", "==") for line in requirements]


def check(which: str, program: str) -> None:
    """Run the tests of the library with the oldest or the newest packages.

    Raises
    ------
    subprocess.CalledProcessError
        If a step fails; its own output says why.
    """
    wanted = asked(*EXTRAS)
    packages = bounds(wanted) if which == "oldest" else wanted
    with tempfile.TemporaryDirectory() as name:
        subprocess.run([program, "-m", "venv", name], check=True)
        python = Path(name) / "bin" / "python"
        install = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*install, *packages, *TOOLS], check=True)
        subprocess.run([*install, "--no-deps", "--no-build-isolation", "-e", ROOT], check=True)
        subprocess.run([python, "-m", "pip", "freeze", "--exclude-editable"], check=True)
        # the root's conftest.py runs pages, and asks for what the book is built with
        run = [python, "-m", "pytest", "-q", "-n", "auto", "--confcutdir=tests", *QUIET[which]]
        ground = [file.relative_to(ROOT) for file in sorted(ROOT.glob("tests/test_*.py"))]
        subprocess.run([*run, *FOLDERS.split(), *ground, "tests/federation"], cwd=ROOT, check=True)


if __name__ == "__main__":
    for which, minors in (("oldest", MINORS[::-1]), ("newest", MINORS)):
        python = next(filter(None, map(at, minors)))
        print(f"{which} packages on {python}", flush=True)
        check(which, python)
