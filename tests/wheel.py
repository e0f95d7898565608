"""What an installation of the wheel brings, in an environment in which more is installed."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import dependencies
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]

# Program text: `hidden` are modules that a Python refuses, as if they were not installed.
HIDE = """
import sys

class Hide:
    def find_spec(name, path, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hide)
"""


def asked(*extras: str) -> list[str]:
    """Return the requirements of the project with some of its extras."""
    lines = list(PROJECT["dependencies"])
    for name in extras:
        lines += PROJECT["optional-dependencies"][name]
    return lines


def brought(requirements: Iterable[str]) -> set[str]:
    """Return the names of all distributions that come with some requirements."""
    found: set[str] = set()
    ahead = [Requirement(line) for line in requirements]
    while ahead:
        wanted = ahead.pop()
        name = canonicalize_name(wanted.name)
        if name not in found and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            found.add(name)
            ahead += [Requirement(line) for line in metadata.requires(name) or ()]
    return found


def beside(there: set[str]) -> list[str]:
    """Return the modules, by their first names, that come with none of some distributions."""
    hidden = []
    for module, distributions in metadata.packages_distributions().items():
        is_there = there & {canonicalize_name(name) for name in distributions}
        if not is_there and module not in dependencies.PACKAGES:
            hidden.append(module)
    return hidden
