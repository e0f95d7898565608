"""How chapters are executed, shared by the tests and the book.

``pytest`` (see ``conftest.py``) executes every chapter under nbval and stores what passed in a jupyter-cache; the book
takes the outputs from there and executes only what is missing. jupyter-cache recognises a chapter by its code alone, so
the folder of the cache is named after everything else the outputs depend on: the library, the data and which source
each data set comes from. When one of them changes, no old output can match.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from importlib.metadata import files
from pathlib import Path
from typing import Any

import nbformat
import yaml
from myst_nb.core.read import is_myst_markdown_notebook, read_myst_markdown_notebook
from myst_parser.config.main import MdParserConfig

ROOT = Path(__file__).resolve().parents[2]

# Kernels inherit this. Small matrices are faster on one thread, and printed digits do not depend on the cores.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.pop("HDPM_MODE", None)  # exploring is for one's own notebooks: tests and book hold to the ledger


def pages(root: Path = ROOT) -> list[Path]:
    """Every page named in ``_toc.yml``, in reading order."""
    found: list[Path] = []

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            for key in ("root", "file"):
                if key in node:
                    found.append(root / f"{node[key]}.md")
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(yaml.safe_load((root / "_toc.yml").read_text(encoding="utf8")))
    return found


def is_chapter(path: Path) -> bool:
    """Whether a page is a notebook.

    Raises
    ------
    ValueError
        If a page has code cells but not the header that makes it a notebook: it would silently be shown as prose.
    """
    text = path.read_text(encoding="utf8")
    if is_myst_markdown_notebook(text):
        return True
    if "{code-cell}" in text:
        raise ValueError(f"{path} has code cells but no jupytext header, so nothing would run")
    return False


def read(path: Path) -> nbformat.NotebookNode:
    """Read a chapter exactly as the book does, so that both compute the same key for the cache."""
    return read_myst_markdown_notebook(path.read_text(encoding="utf8"), config=MdParserConfig(), path=str(path))


def data_sets(path: Path) -> tuple[str, ...]:
    """Names of the data sets a page declares in its header (``hdpm: {data: [...]}``)."""
    return tuple(read(path).metadata.get("hdpm", {}).get("data", ()))


def data_source(path: Path) -> str:
    """``""`` for a page without data, else ``"real"`` or ``"stand-in"`` (the latter if any of its data sets is one)."""
    names = data_sets(path)
    if not names:
        return ""
    from hdpm_lib import datasets

    return "real" if all(datasets.source_of(name) == "real" for name in names) else "stand-in"


def fingerprint(root: Path = ROOT) -> str:
    """Digest of all that outputs depend on besides a chapter's own code."""
    digest = hashlib.sha256()
    for folder in ("hdpm_lib", "data"):
        for path in sorted((root / folder).rglob("*")):
            parts = path.relative_to(root).parts
            hidden = any(part.startswith((".", "__pycache__")) for part in parts)  # editors leave copies there
            if path.is_file() and not hidden and parts[:2] != ("data", "cache"):
                digest.update(f"{path.relative_to(root)}\0".encode())
                digest.update(path.read_bytes())
    if (lock := root / "requirements.txt").exists():
        digest.update(lock.read_bytes())
    for path in pages(root):
        if is_chapter(path):
            digest.update(data_source(path).encode())
    return digest.hexdigest()[:16]


def cache_folder(root: Path = ROOT) -> Path:
    """Folder of the jupyter-cache that is valid now."""
    return root / "_build" / "executed" / fingerprint(root)


def _use_cache(app: Any, config: Any) -> None:
    config.nb_execution_cache_path = str(cache_folder(Path(app.srcdir)))


def _copy_mathjax(app: Any) -> None:
    """One file of the locked package: whole MathJax would triple the size of the site."""
    if app.builder.format != "html":
        return
    name = "mathjax/tex-svg-full.js"
    source = next(f for f in files("sphinx-mathjax-offline") or () if str(f).endswith(f"static/{name}"))
    target = Path(app.outdir) / "_static" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(str(source.locate()), target)


def _leave_out_thebe(app: Any, config: Any) -> None:
    """jupyter-book connects sphinx-thebe even with ``thebe: false``; its script is an error in every page."""
    for event in ("env-before-read-docs", "doctree-resolved"):
        for listener in list(app.events.listeners[event]):
            if listener.handler.__module__ == "sphinx_thebe":
                app.disconnect(listener.id)


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("config-inited", _use_cache)
    app.connect("config-inited", _leave_out_thebe)
    app.connect("builder-inited", _copy_mathjax)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
