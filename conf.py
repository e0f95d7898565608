"""The settings of Sphinx that ``_config.yml`` stands for.

``jupyter-book build`` reads ``_config.yml`` itself and never this file. Whatever else builds the
book reads this one: one page, the notebooks, tests, and Sphinx alone (``make newest``). So the book
does not hang on jupyter-book, whose first version gets no more releases. Both mean the same
(``tests/house/test_conf.py``); sphinx-external-toc reads the contents, ``_toc.yml``, either way.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import yaml

# What jupyter-book sets by itself and the site uses.
DEFAULTS: dict[str, Any] = {
    "extensions": [
        "sphinx_togglebutton",
        "sphinx_copybutton",
        "myst_nb",
        "sphinx_external_toc",
        "sphinx_design",
        "sphinx_book_theme",
    ],
    "exclude_patterns": ["_build", "Thumbs.db", ".DS_Store", "**.ipynb_checkpoints"],
    "html_sourcelink_suffix": "",
    "html_theme": "sphinx_book_theme",
    "html_theme_options": {"search_bar_text": "Search this book..."},
    "numfig": True,
    "pygments_style": "sphinx",
}

# Where the keys of _config.yml go.
PLACES: dict[str, Any] = {
    "title": "html_title",
    "copyright": "copyright",
    "only_build_toc_files": "external_toc_exclude_missing",
    "exclude_patterns": "exclude_patterns",
    "bibtex_bibfiles": "bibtex_bibfiles",
    "execute": {
        "execute_notebooks": "nb_execution_mode",
        "timeout": "nb_execution_timeout",
        "allow_errors": "nb_execution_allow_errors",
        "stderr_output": "nb_output_stderr",
    },
    "parse": {"myst_enable_extensions": "myst_enable_extensions"},
    "html": {
        "favicon": "html_favicon",
        "use_issues_button": "html_theme_options.use_issues_button",
        "use_repository_button": "html_theme_options.use_repository_button",
        "use_edit_page_button": "html_theme_options.use_edit_page_button",
        "home_page_in_navbar": "html_theme_options.home_page_in_toc",
    },
    "latex": {"latex_engine": "latex_engine"},
}


def translate(section: dict[str, Any], places: dict[str, Any], settings: dict[str, Any]) -> None:
    """Put what a section of ``_config.yml`` says into the settings.

    Raises
    ------
    ValueError
        If a key has no place.
    """
    for key, value in section.items():
        if key not in places:
            raise ValueError(f"_config.yml: {key} has no place among the settings: see conf.py")
        if isinstance(places[key], dict):
            translate(value, places[key], settings)
            continue
        group, _, name = places[key].rpartition(".")
        place = settings[group] if group else settings
        place[name] = place[name] + value if name in place else value


def merge(settings: dict[str, Any], others: dict[str, Any]) -> None:
    """Put other settings into these, and what is nested into what is nested here."""
    for name, value in others.items():
        if isinstance(value, dict) and isinstance(settings.get(name), dict):
            merge(settings[name], value)
        else:
            settings[name] = value


def sphinx_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that the content of ``_config.yml`` stands for."""
    others = dict(config)
    direct = others.pop("sphinx", {})
    settings = copy.deepcopy(DEFAULTS)
    settings["extensions"] += direct.get("extra_extensions", [])
    settings["extensions"] += direct.get("local_extensions", {})
    if "bibtex_bibfiles" in config:
        settings["extensions"].append("sphinxcontrib.bibtex")
    translate(others, PLACES, settings)
    merge(settings, direct.get("config", {}))
    return settings


root = Path(__file__).resolve().parent
config_yml = yaml.safe_load((root / "_config.yml").read_text(encoding="utf8"))
for folder in config_yml["sphinx"]["local_extensions"].values():
    if str(root / folder) not in sys.path:
        sys.path.append(str(root / folder))
globals().update(sphinx_settings(config_yml))
