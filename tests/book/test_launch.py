"""Buttons that open a page in Binder or Colab, if their addresses are set; what Binder needs."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import colophon
import launch
import pytest
from bs4 import BeautifulSoup
from packaging.specifiers import SpecifierSet
from sphinx.errors import ConfigError

from tests.site import check

LOOKS_AT = [".binder", "Makefile", "book/_ext", "pyproject.toml"]
ROOT = Path(__file__).resolve().parents[2]
EMPTY = dict.fromkeys(colophon.ADDRESSES, "")
FULL = {
    "site": "https://example.org/book/",
    "errors": "",
    "repository": "https://github.com/us/book",
    "notebooks": "https://github.com/us/book/tree/gh-pages/_sources",
}
CONF = """import sys
sys.path.insert(0, {extensions!r})
extensions = ["sphinx_external_toc", "myst_nb", "sphinx_book_theme", "colophon", "launch"]
html_theme = "sphinx_book_theme"
html_theme_options = {{"search_as_you_type": False}}
addresses = {addresses!r}
nb_execution_mode = "off"
"""
CODE = """---
kernelspec: {display_name: Python 3, name: python3}
jupytext: {text_representation: {extension: .md, format_name: myst}}
---
# Code

```{code-cell} python3
1
```
"""


def build(root: Path, addresses: dict[str, str]) -> Path:
    """Build a site with a page that has code and one that has none."""
    texts = {
        "conf.py": CONF.format(extensions=str(ROOT / "book" / "_ext"), addresses=addresses),
        "_toc.yml": "format: jb-book\nroot: index\nchapters:\n- file: code\n",
        "index.md": "# Words\n",
        "code.md": CODE,
    }
    for name, text in texts.items():
        (root / name).write_text(text, encoding="utf8")
    command = [sys.executable, "-m", "sphinx", "-q", str(root), str(root / "html")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return root / "html"


def buttons(page: Path) -> dict[str, str]:
    """Where the buttons of a page lead that open it elsewhere."""
    soup = BeautifulSoup(page.read_text(encoding="utf8"), "html.parser")
    links = soup.select(".dropdown-launch-buttons a")
    assert all(link["href"].startswith("https://") for link in links)
    return {link.text.strip(): str(link["href"]) for link in links}


def test_examples() -> None:
    assert doctest.testmod(launch).failed == 0 < doctest.testmod(launch).attempted


def test_with_addresses_a_page_with_code_opens_in_binder_and_colab(tmp_path: Path) -> None:
    site = build(tmp_path, FULL)
    assert buttons(site / "code.html") == {
        "Binder": launch.binder(FULL["repository"], "code"),
        "Colab": launch.colab(FULL["notebooks"], "code"),
    }
    assert buttons(site / "index.html") == {}
    assert check.loads_from_outside(site) == []  # a button is a link


def test_without_addresses_no_page_names_binder_or_colab(tmp_path: Path) -> None:
    site = build(tmp_path, EMPTY)
    for page in check.pages(site):
        assert not re.search("binder|colab", page.read_text(encoding="utf8"), re.IGNORECASE)
    assert check.loads_from_outside(site) == []


@pytest.mark.parametrize("missing", ["repository", "notebooks"])
def test_each_button_has_an_address_of_its_own(missing: str) -> None:
    (button,) = launch.buttons(FULL | {missing: ""}, "book/market")
    assert button["text"] == {"repository": "Colab", "notebooks": "Binder"}[missing]


@pytest.mark.parametrize(
    ("addresses", "message"),
    [
        ({"repository": "git@github.com:us/book"}, "repository must be the https:// address"),
        ({"notebooks": "https://github.com/us/book"}, "must be a folder on GitHub, .*/tree/"),
        ({"notebooks": "https://gitlab.com/us/book/tree/a/b"}, "Colab opens no other"),
        ({"site": ""}, "notebooks needs site"),
    ],
)
def test_addresses_that_open_nothing_are_refused(addresses: dict[str, str], message: str) -> None:
    for good in (FULL, EMPTY):
        launch.check(None, SimpleNamespace(addresses=good))
    with pytest.raises(ConfigError, match=message):
        launch.check(None, SimpleNamespace(addresses=FULL | addresses))


# --- what Binder makes --------------------------------------------------------------------------


def test_binder_has_a_python_that_the_project_admits() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
    python = (ROOT / ".binder" / "runtime.txt").read_text(encoding="utf8").strip()
    assert python.removeprefix("python-") in SpecifierSet(project["requires-python"])


def test_binder_makes_the_notebooks_and_runs_them_in_the_environment_of_the_lock(
    tmp_path: Path,
) -> None:
    """With programs that note what they are asked in the place of make and Python."""
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for name in ("make", "python3", ".venv/bin/python"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho {name} "$@" >> asked; echo its-prefix\n')
        program.chmod(0o755)
    subprocess.run(
        [ROOT / ".binder" / "postBuild"],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        check=True,
    )
    _, made, kernel = (tmp_path / "asked").read_text(encoding="utf8").splitlines()
    target = made.removeprefix("make ")
    assert f"NOTEBOOKS := {target}\n" in (ROOT / "Makefile").read_text(encoding="utf8")
    assert kernel == ".venv/bin/python -m ipykernel install --prefix its-prefix"
