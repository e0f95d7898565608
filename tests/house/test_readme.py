"""The first minute: what the README and ``help(hdpm_lib)`` say first is true, and runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import hdpm_lib
from tests.public import public_names
from tests.wheel import asked, brought

LOOKS_AT = ["README.md", "book/index.md", "hdpm_lib", "pyproject.toml"]
ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf8")


@pytest.fixture
def only_the_library(tmp_path: Path) -> Path:
    """A folder with the library and what ``pip install .`` brings, and nothing else."""
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "hdpm_lib").symlink_to(ROOT / "hdpm_lib")
    for name in brought(asked()):
        distribution = metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            (folder / top).symlink_to(Path(str(distribution.locate_file(top))))
    return folder


def pasted(lines: str, packages: Path) -> subprocess.CompletedProcess[str]:
    """What a fresh interpreter says to lines that are pasted into it."""
    return subprocess.run(
        [sys.executable, "-S", "-i", "-q"],
        input=lines,
        cwd=packages.parent,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


def test_the_lines_of_the_readme_run_as_they_are_printed(only_the_library: Path) -> None:
    ((lines, printed),) = re.findall(r"(?s)```python\n(.*?)```\n\n```\n(.*?)```\n", README)
    done = pasted(lines, only_the_library)
    assert "Error" not in done.stderr
    assert done.stdout == printed
    code = [line for line in lines.splitlines() if line.strip()]
    assert len(code) <= 12 and max(map(len, code)) <= 100


@pytest.mark.parametrize("lines", ["print(y)\n", "import matplotlib\n", "import hdpm_book\n"])
def test_what_is_not_there_is_seen(lines: str, only_the_library: Path) -> None:
    assert re.search("NameError|ModuleNotFoundError", pasted(lines, only_the_library).stderr)


def test_the_readme_begins_with_three_sentences_and_two_commands() -> None:
    title, first, commands = README.split("\n\n")[:3]
    assert title.startswith("# ")
    assert len(re.findall(r"[.?!](?=\s|$)", first)) == 3
    assert re.findall(r"(?m)^make (\w+)", commands) == ["test", "book"]


def test_the_first_screen_of_the_site_is_as_the_readme_says() -> None:
    (told,) = re.findall(r"(?s)(\*\*The site's first screen\*\*.*?)\n\n", README)
    words = re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", told)
    front = (ROOT / "book" / "index.md").read_text(encoding="utf8").partition("\n## ")[0]
    doors = re.findall(r"(?m)^:::\{card\} (.+)$", front)
    assert words == ["Does honesty pay?", *doors]
    assert "**Does honesty pay?**" in front and "```{verdicts} all" in front


# --- help(hdpm_lib) -----------------------------------------------------------------------------


def test_help_begins_with_the_verbs_and_names_what_is_public() -> None:
    told = hdpm_lib.__doc__ or ""
    verbs = re.findall(r"(?m)^(\w+)\n    ", told)
    assert verbs == ["release", "noise", "buy", "audit"]
    assert all(f"*{verb}*" in README for verb in verbs)
    named = set(re.findall(r"(?<!`)`(\w+)`(?!`)", told)) - {"epsilon"}
    assert len(named) > 10 and named <= set(public_names())
    assert len(told.splitlines()) <= 60


def test_the_version_is_known_from_a_checkout_that_is_not_installed(tmp_path: Path) -> None:
    """Also beside another version that is installed: what is imported says it."""
    (tmp_path / "hdpm_lib-9.9.dist-info").mkdir()
    (tmp_path / "hdpm_lib-9.9.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: hdpm-lib\nVersion: 9.9\n", encoding="utf8"
    )
    code = "import hdpm_lib; print(hdpm_lib.__version__)"
    said = subprocess.check_output(
        [sys.executable, "-c", code],
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
    )
    assert said.strip() == hdpm_lib.__version__
