"""What a release says of itself, and what it consists of: ``make release``.

A version is released by who writes so: ``Version 0.1.0 was released on 2027-01-31.`` into
``CHANGELOG.md``, the day into ``CITATION.cff``, and a commit with both. ``python -m tests.release
check`` refuses anything else; ``python -m tests.release pack`` puts the release into ``dist/``.

The version stands in ``hdpm_lib/__init__.py``, the authors in ``CITATION.cff``, the addresses in
``_config.yml``. What else names them must agree, released or not: a test holds it against this.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
import colophon  # noqa: E402
import package  # noqa: E402
import pdf  # noqa: E402

VERSION = re.compile(r'(?m)^__version__ = "(.+)"$')
RELEASED = re.compile(r"(?m)^Version (\S+) was released on (\d{4}-\d\d-\d\d)\.")
NOT_YET = "Nothing has been released yet"
NO_ADDRESS = "This copy of the book names no address"


def read(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf8")


def version(root: Path) -> str:
    """Return the version of the library in a checkout."""
    return VERSION.findall(read(root, "hdpm_lib/__init__.py"))[0]


def addresses(root: Path) -> dict[str, str]:
    """Return the addresses that ``_config.yml`` names."""
    return dict(yaml.safe_load(read(root, "_config.yml"))["sphinx"]["config"]["addresses"])


def expected_citation(root: Path) -> dict[str, Any]:
    """Return what ``CITATION.cff`` must say because another file says it; None: nothing."""
    released = dict(RELEASED.findall(read(root, "CHANGELOG.md")))
    this = version(root)
    known = addresses(root)
    return {
        "version": this,
        "date-released": date.fromisoformat(released[this]) if this in released else None,
        "url": known["site"] or None,
        "repository-code": known["repository"] or None,
    }


def expected_project(root: Path) -> dict[str, Any]:
    """Return what ``pyproject.toml`` must say because another file says it; None: nothing."""
    known = addresses(root)
    urls = {"Homepage": known["site"], "Source": known["repository"], "Issues": known["errors"]}
    citation = yaml.safe_load(read(root, "CITATION.cff"))
    return {
        "authors": [{"name": name} for name in colophon.authors(citation)],
        "urls": {name: url for name, url in urls.items() if url.startswith("https:")} or None,
    }


def disagreements(root: Path) -> list[str]:
    """Return what files say against each other of version, day, authors and addresses."""
    citation = yaml.safe_load(read(root, "CITATION.cff"))
    project = tomllib.loads(read(root, "pyproject.toml"))["project"]
    found = []
    for file, says, expected in [
        ("CITATION.cff", citation, expected_citation(root)),
        ("pyproject.toml", project, expected_project(root)),
    ]:
        for field, value in expected.items():
            if says.get(field) != value:
                wanted = f"must be {value}" if value else "must be left out"
                found.append(f"{file}: {field} {wanted}, got {says.get(field)}")
    changes = read(root, "CHANGELOG.md")
    if (NOT_YET in changes) == bool(RELEASED.search(changes)):
        found.append(f"CHANGELOG.md must either say {NOT_YET!r}, or which version was, and when")
    ask = addresses(root)["errors"] or NO_ADDRESS
    if ask not in read(root, "README.md"):
        found.append(f"README.md must say where to ask: {ask}")
    return found


def obstacles(root: Path) -> list[str]:
    """Return why this checkout is no release."""
    found = disagreements(root)
    this = version(root)
    if this not in dict(RELEASED.findall(read(root, "CHANGELOG.md"))):
        found.append(
            f"CHANGELOG.md does not say that version {this} is released: write 'Version {this} was"
            " released on <day>.' there, date-released: <day> into CITATION.cff, and commit both"
        )
    changed = subprocess.check_output(["git", "status", "--porcelain"], cwd=root, text=True)
    if changed:
        found.append(f"the tree is not clean; commit, or remove:\n{changed.rstrip()}")
    return found


def pack(root: Path, site: Path, folder: Path) -> list[Path]:
    """Put the source distribution, the wheel that it makes, the site and the PDFs into a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with tempfile.TemporaryDirectory() as name:
        shutil.unpack_archive(package.build_sdist(root, folder), name, filter="data")
        (unpacked,) = Path(name).iterdir()
        package.build_wheel(unpacked, folder)
    stem = f"markets-for-private-data-{version(root)}"
    shutil.make_archive(str(folder / stem), "zip", site)
    for volume in pdf.volumes([], ""):
        shutil.copy(site / volume.file, folder / volume.file.replace(pdf.STEM, stem))
    return sorted(folder.iterdir())


def main(step: str) -> int:
    """Check, or check and pack."""
    found = obstacles(ROOT)
    if found:
        print(*found, sep="\n")
        return 1
    if step == "pack":
        print(*pack(ROOT, pdf.SITE, ROOT / "dist"), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
