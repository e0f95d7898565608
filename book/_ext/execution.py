"""How chapters are executed, shared by the tests and the book.

``pytest`` (see ``conftest.py``) executes every chapter under nbval and stores what passed, one file
a chapter. The file is named after all that its outputs depend on: its code, the modules it imports
and those that they import, the data that these read, the lock, and where its data sets come from.
While that stays as it is, the stored outputs are what the chapter would print: the book shows them,
and ``pytest --reuse`` compares them with the references. Likewise a file of tests that has passed
is left out until something changes that it depends on. Comments, docstrings and layout of modules
change neither; examples in docstrings are tests of their own file.
"""

from __future__ import annotations

import ast
import doctest
import hashlib
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import yaml
from myst_nb.core.read import is_myst_markdown_notebook, read_myst_markdown_notebook
from myst_parser.config.main import MdParserConfig

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"hdpm_lib": "hdpm_lib", "hdpm_owner": "flower/hdpm_owner", "hdpm_book": "book"}
KEPT = 4  # executions of one chapter, and passes of one file of tests
# Tests with one of these names depend on more than they import: on pages, on programs, on whatever
# there is.
LOOKS_AROUND = re.compile(
    r"\b(ROOT|__file__|cwd|chdir|resources|subprocess|multiprocessing|import_module|execution)\b"
)

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


def read(path: Path) -> nbformat.NotebookNode:
    """Read a chapter exactly as the book does, so that both compute the same key for the cache."""
    return read_myst_markdown_notebook(
        path.read_text(encoding="utf8"), config=MdParserConfig(), path=str(path)
    )


def code_cells(page: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """The cells of a page that hold code, in order."""
    return [cell for cell in page.cells if cell.cell_type == "code"]


def python(page: nbformat.NotebookNode) -> str:
    """All code of a page; lines that only a notebook understands do nothing."""
    code = "\n".join(cell.source for cell in code_cells(page))
    return re.sub(r"(?m)^([ \t]*)[%!].*$", r"\1pass", code)


def data_sets(path: Path) -> tuple[str, ...]:
    """Names of the data sets a page declares in its header (``hdpm: {data: [...]}``)."""
    return tuple(read(path).metadata.get("hdpm", {}).get("data", ()))


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


def modules(root: Path = ROOT, packages: Mapping[str, str] = PACKAGES) -> dict[str, Path]:
    """Modules of the library and of the book by name."""
    found = {}
    for package, folder in packages.items():
        for path in (root / folder).rglob("*.py"):
            parts = path.relative_to(root / folder).with_suffix("").parts
            if not any(part.startswith((".", "_")) and part != "__init__" for part in parts):
                found[".".join((package, *parts)).removesuffix(".__init__")] = path
    return found


@cache
def _tree(source: str) -> ast.Module:
    """What a source does: its syntax tree, without docstrings and other constants that stand
    alone.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            body[:] = [
                statement
                for statement in body
                if not (
                    isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
                )
            ]
    return tree


@cache
def _digest_of(source: str) -> bytes:
    return hashlib.sha256(ast.dump(_tree(source)).encode()).digest()


def _examples(source: str) -> list[tuple[str, str]]:
    """The examples in the docstrings of a source, which are tests: code and what it prints."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]
    texts = [ast.get_docstring(node) or "" for node in nodes]
    parser = doctest.DocTestParser()
    return [
        (example.source, example.want) for text in texts for example in parser.get_examples(text)
    ]


@cache
def _read_names(source: str) -> tuple[frozenset[str], frozenset[str]]:
    """What a source imports, anywhere in it, with the names taken out; and its words."""
    imports = set()
    words = set()
    for node in ast.walk(_tree(source)):
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imports |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value
        ):
            words.add(node.value)
    return frozenset(imports), frozenset(words)


@cache
def _public(stub: str) -> dict[str, str]:
    """From the library's public names to where they are defined, by its stub."""
    found = {}
    for node in ast.walk(ast.parse(stub)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {
                f"hdpm_lib.{alias.name}": f"hdpm_lib.{node.module}.{alias.name}"
                for alias in node.names
            }
    return found


def closure(
    source: str, root: Path = ROOT, packages: Mapping[str, str] = PACKAGES
) -> dict[str, Path]:
    """Modules of the library and of the book that a source imports, and all that they import."""
    there = modules(root, packages)
    stub = root / "hdpm_lib" / "__init__.pyi"
    public = _public(stub.read_text(encoding="utf8")) if stub.exists() else {}
    found: dict[str, Path] = {}
    ahead = list(_read_names(source)[0])
    while ahead:
        name = ahead.pop()
        parts = public.get(name, name).split(".")
        # packages on the way are imported too
        for module in (".".join(parts[:k]) for k in range(1, len(parts) + 1)):
            if module in there and module not in found:
                found[module] = there[module]
                ahead += _read_names(there[module].read_text(encoding="utf8"))[0]
    return found


def fingerprint(path: Path, root: Path = ROOT) -> str:
    """Digest of all that the outputs of a chapter depend on."""
    page = read(path)
    code = python(page)
    cells = [cell.source for cell in code_cells(page)]
    used = closure(code, root)
    modules = [used[name].read_text(encoding="utf8") for name in sorted(used)]
    # cells count to the letter: a page shows them, and references are kept by their text
    return _digest([code, *modules], repr([data_source(path), cells]), root)


def fingerprint_of_tests(path: Path, root: Path = ROOT) -> str | None:
    """Digest of all that the tests of a file depend on; None of tests that look around."""
    files = [path, *(folder / "conftest.py" for folder in path.parents if root in folder.parents)]
    own = [file.read_text(encoding="utf8") for file in files if file.exists()]
    used = closure("\n".join(own), root, PACKAGES | {"tests": "tests"})
    sources = {name: used[name].read_text(encoding="utf8") for name in sorted(used)}
    beside = [source for name, source in sources.items() if name.startswith("tests.")]
    if any(map(LOOKS_AROUND.search, (*own, *beside))):
        return None
    known = {key: value for key, value in os.environ.items() if key.startswith("HDPM_")}
    options = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf8"))
    executor = _digest_of((root / "conftest.py").read_text(encoding="utf8"))
    settings = repr([sorted(known.items()), options, executor, _examples(own[0])])
    return _digest([*own, *sources.values()], settings, root)


def _digest(sources: list[str], settings: str, root: Path) -> str:
    """Digest of sources, of the data that they name, and of the lock."""
    words = {word for source in sources for word in _read_names(source)[1]}
    digest = hashlib.sha256(f"{sys.version_info[:2]} {settings}".encode())
    for source in sources:
        digest.update(_digest_of(source))
    for place in sorted((root / "data").iterdir()):  # read by those who name it
        if place.name != "cache" and any(place.name in word for word in words):
            for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
                if (
                    file.is_file()
                    and "__pycache__" not in file.parts
                    and not file.name.startswith(".")
                ):
                    content = _verdicts(file) if place.name == "claims" else file.read_bytes()
                    digest.update(f"{file.relative_to(root)}\0".encode() + content)
    if (lock := root / "requirements.txt").exists():
        digest.update(lock.read_bytes())
    return digest.hexdigest()[:16]


def _verdicts(file: Path) -> bytes:
    """What an execution takes from a file of the ledger; its words are put into boxes when the book
    is built.
    """
    claims = (
        yaml.load(
            file.read_text(encoding="utf8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        )
        or ()
    )
    return repr(
        [[claim[key] for key in ("id", "verdict", "data") if key in claim] for claim in claims]
    ).encode()


# --- what has been executed ---------------------------------------------------------------------


def _file(path: Path, root: Path) -> Path:
    name = ".".join(path.relative_to(root / "book").with_suffix("").parts)
    return root / "_build" / "executed" / f"{name}.{fingerprint(path, root)}.ipynb"


def store(path: Path, nb: nbformat.NotebookNode, root: Path = ROOT) -> None:
    """Keep a chapter with its outputs, and of the same chapter the last few others."""
    file = _file(path, root)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    nbformat.write(nb, part)
    part.replace(file)
    _forget_old(file)


def _forget_old(file: Path) -> None:
    others = file.parent.glob(f"{file.stem.rpartition('.')[0]}.*{file.suffix}")
    for old in sorted(others, key=lambda other: other.stat().st_mtime)[:-KEPT]:
        old.unlink(missing_ok=True)


def stored(path: Path, root: Path = ROOT) -> nbformat.NotebookNode | None:
    """A chapter with the outputs that it still has."""
    file = _file(path, root)
    return nbformat.read(file, as_version=4) if file.exists() else None


def mark(path: Path, root: Path = ROOT) -> Path | None:
    """Where it is noted that the tests of a file have passed as they are; None if that says
    nothing.
    """
    fingerprint = fingerprint_of_tests(path, root)
    name = ".".join(path.relative_to(root).with_suffix("").parts)
    return root / "_build" / "passed" / f"{name}.{fingerprint}.txt" if fingerprint else None


def note(marked: Path) -> None:
    """Note that tests have passed."""
    marked.parent.mkdir(parents=True, exist_ok=True)
    marked.touch()
    _forget_old(marked)


def _fill_cache(app: Any, config: Any) -> None:
    """Give the book a jupyter-cache that holds what is stored; what is missing is executed, and
    kept there.
    """
    if config.nb_execution_mode == "off":
        return
    from jupyter_cache import get_cache  # brings a database, which no test needs
    from jupyter_cache.base import CacheBundleIn

    root = Path(app.srcdir)
    chapters = [path for path in pages(root) if is_chapter(path)]
    digest = hashlib.sha256(
        "".join(fingerprint(path, root) for path in chapters).encode()
    ).hexdigest()[:16]
    folder = root / "_build" / "jupyter-cache" / digest
    for old in folder.parent.glob("*"):
        if old != folder:
            shutil.rmtree(old)
    known = get_cache(str(folder))
    found = {path: stored(path, root) for path in chapters}
    for path, nb in found.items():
        if nb is not None:
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
    app.connect("config-inited", _fill_cache)
    app.connect("config-inited", _leave_out_thebe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
