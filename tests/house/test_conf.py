"""``conf.py`` and ``jupyter-book`` make the same settings of Sphinx from ``_config.yml``."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from sphinx.project import Project

LOOKS_AT = ["_config.yml", "conf.py"]
ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(sys.executable).with_name("jupyter-book")
CONF = runpy.run_path(str(ROOT / "conf.py"))

# What jupyter-book loads besides: itself, what makes LaTeX, numbers of parts, comments, buttons
# that run cells, and links to other books. The site has nothing of these.
OTHER_EXTENSIONS = {
    "jupyter_book",
    "sphinx_jupyterbook_latex",
    "sphinx_multitoc_numbering",
    "sphinx_comments",
    "sphinx_thebe",
    "sphinx.ext.intersphinx",
}
# What it sets besides: what is so anyway, or is of extensions and buttons that the site has not.
OTHER_SETTINGS = {
    "author": "The Jupyter Book community",  # replaced by the colophon
    "comments_config": {"hypothesis": False, "utterances": False},
    "external_toc_path": "_toc.yml",
    "html_baseurl": "",
    "html_logo": "",
    "myst_url_schemes": ["mailto", "http", "https"],
    "nb_execution_cache_path": "",
    "nb_execution_excludepatterns": [],
    "nb_execution_in_temp": False,
    "use_jupyterbook_latex": True,
    "use_multitoc_numbering": True,
}
OTHER_THEME_OPTIONS = {
    "analytics": {
        "google_analytics_id": "",
        "plausible_analytics_domain": "",
        "plausible_analytics_url": "https://plausible.io/js/script.js",
    },
    "announcement": "",
    "extra_footer": "",
    "launch_buttons": {
        "binderhub_url": "",
        "colab_url": "",
        "deepnote_url": "",
        "jupyterhub_url": "",
        "notebook_interface": "classic",
        "thebe": False,
    },
    "path_to_docs": "",
    "repository_branch": "master",
    "repository_url": "https://github.com/executablebooks/jupyter-book",
}


def of_jupyter_book(folder: Path) -> dict[str, Any]:
    """Return the settings that ``jupyter-book config sphinx`` writes."""
    for name in ("_config.yml", "_toc.yml"):
        shutil.copy(ROOT / name, folder)
    subprocess.run([COMMAND, "config", "sphinx", folder], check=True, capture_output=True)
    written = runpy.run_path(str(folder / "conf.py"))
    return {name: value for name, value in written.items() if not name.startswith("__")}


@pytest.mark.skipif(not COMMAND.exists(), reason="jupyter-book is not installed")
def test_jupyter_book_and_conf_py_mean_the_same(tmp_path: Path) -> None:
    theirs = of_jupyter_book(tmp_path)
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf8"))
    ours = CONF["sphinx_settings"](config)
    ours["exclude_patterns"] = sorted({*ours["exclude_patterns"]})
    assert [name for name in theirs["extensions"] if name not in OTHER_EXTENSIONS] == (
        ours["extensions"]
    )
    theirs["extensions"] = ours["extensions"]
    ours |= OTHER_SETTINGS
    ours["html_theme_options"] |= OTHER_THEME_OPTIONS
    assert theirs == ours


def test_a_key_that_says_something_to_jupyter_book_alone_is_refused() -> None:
    with pytest.raises(ValueError, match=r"_config\.yml: logo has no place among the settings"):
        CONF["sphinx_settings"]({"logo": "a.svg"})
    with pytest.raises(ValueError, match=r"_config\.yml: baseurl has no place among the settings"):
        CONF["sphinx_settings"]({"html": {"baseurl": "https://example.org"}})


def test_a_page_is_built_and_not_the_notebook_that_vs_code_keeps_beside_it(tmp_path: Path) -> None:
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf8"))
    folder = tmp_path / "book" / "ridge"
    folder.mkdir(parents=True)
    for file in (folder / "idea", folder.parent / "market"):
        for suffix in (".md", ".ipynb"):
            file.with_suffix(suffix).touch()
    project = Project(tmp_path, {".md": "myst-nb", ".ipynb": "myst-nb"})
    project.discover(CONF["sphinx_settings"](config)["exclude_patterns"], ["**"])
    pages = {str(project.doc2path(name, False)) for name in project.docnames}
    assert pages == {"book/market.md", "book/ridge/idea.md"}
