"""``make help`` lists the targets of the Makefile, and what is told to be made exists."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

LOOKS_AT = ["Makefile", "README.md", "CONTRIBUTING.md", ".ci", ".github", "book"]
ROOT = Path(__file__).resolve().parents[2]


def targets(makefile: str) -> list[str]:
    """Targets that are no files, in the order of their rules."""
    return re.findall(r"(?m)^(\w[\w.-]*):(?!=)", makefile)


def phony(makefile: str) -> list[str]:
    """What the Makefile declares to be no file."""
    return re.findall(r"(?m)^\.PHONY: (.*)$", makefile)[0].split()


def helped(folder: Path) -> dict[str, str]:
    """What ``make help`` says of each target."""
    said = subprocess.check_output(["make", "-s", "help"], cwd=folder, text=True)
    return dict(re.findall(r"(?m)^make (\S+) +(.+)$", said))


needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="no make")


@needs_make
def test_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf8")
    assert list(helped(ROOT)) == targets(makefile)
    assert sorted(targets(makefile)) == sorted(phony(makefile))
    assert targets(makefile)[0] == "all"  # what make does when it is told no more
    assert max(map(len, helped(ROOT).values())) <= 100


@needs_make
def test_a_target_without_a_line_is_found(tmp_path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf8")
    changed = re.sub(r"(?m)^pdf:(.*?)  ##.*$", r"pdf:\1", makefile)
    (tmp_path / "Makefile").write_text(changed, encoding="utf8")
    assert set(targets(changed)) - set(helped(tmp_path)) == {"pdf"}


def test_what_is_told_to_be_made_can_be_made() -> None:
    known = targets((ROOT / "Makefile").read_text(encoding="utf8"))
    told = set(re.findall(r"(?m)^make ([a-z-]+)", (ROOT / ".ci" / "run").read_text("utf8")))
    for file in [*ROOT.glob("*.md"), *(ROOT / "book").rglob("*.md"), *ROOT.glob(".github/*/*")]:
        text = file.read_text(encoding="utf8")
        told |= set(re.findall(r"(?:`|run: |&& )make ([a-z-]+)", text))
    assert {"test", "book", "pdf", "nightly"} <= told <= set(known)
