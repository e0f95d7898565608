"""The library on another Python, if one is here: ``python -m tests.another_python``.

Its wheel is installed there with what the lock has for that Python, each public name is imported
from it, and half a minute of the library's tests run. With ``--find`` it prints
where the newest other Python is, or nothing.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
from package import build_wheel  # noqa: E402

MINORS = (14, 13, 12, 11)
VERSION = "import sys; print(*sys.version_info[:2])"
NAMES = "import hdpm_lib; print(sum(hasattr(hdpm_lib, name) for name in hdpm_lib.__all__), 'names')"
TESTS = [  # of these none needs more than the wheel brings
    "hdpm_lib",
    "tests/test_discrete.py",
    "tests/test_frozen.py",
    "tests/learners/test_queries.py",
    "tests/learners/test_weighted_mean.py",
    "tests/markets/test_outcome.py",
    "tests/markets/test_payments.py",
]


def runs(program: str, minor: int) -> bool:
    """Return whether a program is this Python: pyenv has names for Pythons that do not run."""
    told = subprocess.run([program, "-c", VERSION], capture_output=True, text=True, check=False)
    return told.stdout.split() == ["3", str(minor)]


def at(minor: int) -> str | None:
    """Return this Python, on the path or one of pyenv's, if there is one."""
    places = [shutil.which(f"python3.{minor}")]
    places += map(str, Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3"))
    for place in places:
        if place is not None and runs(place, minor):
            return place
    return None


def find() -> str | None:
    """Return the newest Python beside this one, if there is one."""
    others = [at(minor) for minor in MINORS if minor != sys.version_info.minor]
    return next(filter(None, others), None)


def check(program: str) -> None:
    """Install the wheel under a Python, import it, and run tests of the library.

    Raises
    ------
    subprocess.CalledProcessError
        If a step fails; its own output says why.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        apart = folder / "apart"  # from the checkout: what is tested is what was installed
        shutil.copytree(ROOT / "tests", apart / "tests", ignore=shutil.ignore_patterns("site"))
        shutil.copy(ROOT / "pyproject.toml", apart)
        lock = (ROOT / "requirements.txt").read_text(encoding="utf8")
        versions = folder / "versions.txt"  # without hashes, which a wheel of ours has not
        versions.write_text("\n".join(re.findall(r"(?m)^\S+==[^\\\n]+", lock)), encoding="utf8")
        wheel = build_wheel(ROOT, folder)
        subprocess.run([program, "-m", "venv", folder / "venv"], check=True)
        python = folder / "venv" / "bin" / "python"
        install = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run(
            [*install, "-c", versions, wheel, "pytest", "hypothesis", "pyyaml"], check=True
        )
        subprocess.run([python, "-c", NAMES], cwd=apart, check=True)
        subprocess.run([python, "-m", "pytest", "-q", "--pyargs", *TESTS], cwd=apart, check=True)


if __name__ == "__main__":
    other = find()
    if "--find" in sys.argv:
        print(other or "")
    elif other is None:
        print("no other Python from 3.11 to 3.14 is here: nothing was run on a second one")
    else:
        print(f"on {other}")
        check(other)
