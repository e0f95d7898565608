"""How chapters are executed, shared by the tests and the book.

``pytest`` (see ``conftest.py``) executes every chapter under nbval and stores what passed, one file
a chapter. The file is named after all that its outputs depend on (``dependencies.py``), and after
where its data sets come from. While that stays as it is, the stored outputs are what the chapter
would print: the book shows them, and ``pytest --reuse`` compares them with the references. Likewise
a file of tests that has passed is left out until something changes that it depends on. Comments,
docstrings and layout of modules change neither, but for examples in docstrings, which are tests of
their own file.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import os
import re
import shutil
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import yaml
from dependencies import Sources, code_cells, python, read, source
from myst_nb.core.read import is_myst_markdown_notebook

import hdpm_book  # noqa: F401  it looks whether the library is its own
from hdpm_lib.validation import check_one_place

ROOT = Path(__file__).resolve().parents[2]
KEPT = 4  # executions of one chapter, and passes of one file of tests
# Tests with one of these names depend on more than they import, on pages or programs: on all that
# there is, or on what they say in LOOKS_AT.
LOOKS_AROUND = re.compile(
    r"\b(ROOT|__file__|cwd|chdir|resources|subprocess|multiprocessing|import_module|execution"
    r"|page_functions)\b"
)
# What decides that something has passed, with what each session imports.
JUDGES = (
    "conftest.py",
    "tests/digits.py",
    "book/_ext/execution.py",
    "book/_ext/dependencies.py",
    "book/__init__.py",
    "hdpm_lib/__init__.py",
    "hdpm_lib/validation.py",
)

# Pages run with the modules beside them. A small book that a test makes has none.
if (ROOT / "book" / "__init__.py").exists():
    check_one_place("the book", ROOT)

# Kernels inherit this. Small matrices are faster on one thread, and printed digits do not depend on
# the cores.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
# exploring is for one's own notebooks: tests and book hold to the ledger
os.environ.pop("HDPM_MODE", None)


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
        If a page has code cells but not the header that makes it a notebook: it would silently be
        shown as prose.
    """
    text = path.read_text(encoding="utf8")
    if is_myst_markdown_notebook(text):
        return True
    if "{code-cell}" in text:
        raise ValueError(f"{path} has code cells but no jupytext header, so nothing would run")
    return False


def data_sets(path: Path) -> tuple[str, ...]:
    """Names of the data sets a page declares in its header (``hdpm: {data: [...]}``)."""
    head = re.match(r"---\n(.*?)\n---\n", path.read_text(encoding="utf8"), re.S)
    return tuple(yaml.safe_load(head[1]).get("hdpm", {}).get("data", ())) if head else ()


def data_source(path: Path) -> str:
    """``""`` for a page without data, else ``"real"`` or ``"stand-in"`` (the latter if any of its
    data sets is one).
    """
    names = data_sets(path)
    if not names:
        return ""
    from hdpm_book import datasets

    return "real" if all(datasets.source_of(name) == "real" for name in names) else "stand-in"


# --- what the outputs of a chapter depend on ----------------------------------------------------


def fingerprint(path: Path, root: Path = ROOT, sources: Sources | None = None) -> str:
    """Return a digest of all that the outputs of a chapter depend on."""
    page = read(path)
    # cells count to the letter: a page shows them, and references are kept by their text
    cells = [cell.source for cell in code_cells(page)]
    return _digest([python(page)], [data_source(path), cells], sources or Sources(root))


def fingerprint_of_tests(path: Path, root: Path = ROOT, sources: Sources | None = None) -> str:
    """Return a digest of all that the tests of a file depend on."""
    sources = sources or Sources(root)
    codes = [path.read_text(encoding="utf8")]
    examples = source(codes[0]).examples
    codes.append("\n".join(example.source for example in examples))
    for folder in path.parents:
        if root in folder.parents and (folder / "conftest.py").exists():
            codes.append((folder / "conftest.py").read_text(encoding="utf8"))
    options = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf8"))
    known = sorted(item for item in os.environ.items() if item[0].startswith("HDPM_"))
    expected = [example.want for example in examples]
    around = sources.content(*_looked_at(path, codes[0], root, sources))
    return _digest(codes, [options, known, expected, around], sources)


def _looked_at(path: Path, code: str, root: Path, sources: Sources) -> list[Path]:
    """Return the files and folders that tests look at: what they say, or all if they look around
    and say nothing. Examples of a module look at what the module names.
    """
    for statement in ast.parse(code).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="LOOKS_AT")], value=value):
                return [root / name for name in ast.literal_eval(value)]
    own = [code] if "tests" in path.relative_to(root).parts else []
    helpers = [sources.code(name) for name in sources.reached(code) if name.startswith("tests.")]
    return [root] if any(map(LOOKS_AROUND.search, [*own, *helpers])) else []


def _digest(codes: list[str], settings: list[Any], sources: Sources) -> str:
    """Return a short digest of codes with all that they depend on, of settings, and of what every
    run depends on.
    """
    always = [sources.root / name for name in ("requirements.txt", *JUDGES)]
    parts = [sources.digest(*codes), settings, sources.content(*always)]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


# --- what has been executed ---------------------------------------------------------------------


def kept_at(path: Path, root: Path = ROOT, sources: Sources | None = None) -> Path:
    """Where a chapter is kept with the outputs that it has as it now is."""
    name = ".".join(path.relative_to(root / "book").with_suffix("").parts)
    return root / "_build" / "executed" / f"{name}.{fingerprint(path, root, sources)}.ipynb"


def can_keep(root: Path = ROOT) -> bool:
    """Return whether what runs can be kept: not in a checkout that may only be read."""
    build = root / "_build"
    return os.access(build if build.exists() else root, os.W_OK)


def store(file: Path, nb: nbformat.NotebookNode) -> None:
    """Keep a chapter with its outputs, and of the same chapter the last few others."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    nbformat.write(nb, part)
    part.replace(file)
    _forget_old(file)


def _forget_old(file: Path) -> None:
    others = file.parent.glob(f"{file.stem.rpartition('.')[0]}.*{file.suffix}")
    for old in sorted(others, key=lambda other: other.stat().st_mtime)[:-KEPT]:
        old.unlink(missing_ok=True)


def stored(file: Path) -> nbformat.NotebookNode | None:
    """Return a chapter with the outputs that are kept for it."""
    return nbformat.read(file, as_version=4) if file.exists() else None


def last_run(
    path: Path, root: Path = ROOT, sources: Sources | None = None
) -> nbformat.NotebookNode:
    """Return a page with the outputs of its last run; without, where that is another page's or
    none.
    """
    return stored(kept_at(path, root, sources)) or read(path)


def mark(path: Path, root: Path = ROOT, sources: Sources | None = None) -> Path:
    """Where it is noted that the tests of a file have passed as they are."""
    name = ".".join(path.relative_to(root).with_suffix("").parts)
    fingerprint = fingerprint_of_tests(path, root, sources)
    return root / "_build" / "passed" / f"{name}.{fingerprint}.txt"


def note(marked: Path, skipped: Iterable[str]) -> None:
    """Note that tests have passed, and which of them were skipped."""
    marked.parent.mkdir(parents=True, exist_ok=True)
    marked.write_text("\n".join(sorted(skipped)), encoding="utf8")
    _forget_old(marked)


def skipped(marked: Path) -> list[str] | None:
    """Return the tests of a file that were skipped when the others passed; nothing if these have
    not.
    """
    return marked.read_text(encoding="utf8").splitlines() if marked.exists() else None


def _fill_cache(app: Any, config: Any) -> None:
    """Give the book a jupyter-cache that holds what is stored; what is missing is executed, and
    kept there.
    """
    if config.nb_execution_mode == "off":
        return
    from jupyter_cache import get_cache  # brings a database, which no test needs
    from jupyter_cache.base import CacheBundleIn

    root = Path(app.srcdir)
    sources = Sources(root)
    chapters = {path: kept_at(path, root, sources) for path in pages(root) if is_chapter(path)}
    names = "".join(file.name for file in chapters.values())
    folder = root / "_build" / "jupyter-cache" / hashlib.sha256(names.encode()).hexdigest()[:16]
    for old in folder.parent.glob("*"):
        if old != folder:
            shutil.rmtree(old)
    known = get_cache(str(folder))
    for path, file in chapters.items():
        if (nb := stored(file)) is not None:
            nb.metadata = read(path).metadata  # by which it is found, and which may have changed
            bundle = CacheBundleIn(nb, str(path), data={"execution_seconds": 0.0})
            known.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
    config.nb_execution_cache_path = str(folder)


def _leave_out_thebe(app: Any, config: Any) -> None:
    """jupyter-book connects sphinx-thebe even with ``thebe: false``; its script is an error in
    every page.
    """
    for event in ("env-before-read-docs", "doctree-resolved"):
        for listener in list(app.events.listeners[event]):
            if listener.handler.__module__ == "sphinx_thebe":
                app.disconnect(listener.id)


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    import pybtex.plugin

    # Millions of nodes live as long as their pages: to look for those that do not took a third
    # of the time.
    gc.set_threshold(200_000, 20, 100)
    # Each citation asks it, and it looks through all that is installed.
    pybtex.plugin.entry_points = cache(pybtex.plugin.entry_points)
    app.connect("config-inited", _fill_cache)
    app.connect("config-inited", _leave_out_thebe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
