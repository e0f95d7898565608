"""How chapters are executed, shared by the tests and the book.

``pytest`` (see ``conftest.py``) executes every chapter under nbval and stores what passed, one file
a chapter. The file is named after all that its outputs depend on: its code, the modules it imports
and those that they import, the data that these read, the lock, and where its data sets come from.
While that stays as it is, the stored outputs are what the chapter would print: the book shows them,
and ``pytest --reuse`` compares them with the references. Likewise a file of tests that has passed
is left out until something changes that it depends on. Both depend on the functions that they may
come to (``dependencies.py``). Comments, docstrings and layout of modules change neither; examples
in docstrings are tests of their own file.
"""

from __future__ import annotations

import gc
import hashlib
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

# jsonschema asks for it when imported, and it takes a second to make ready checks of addresses
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
import nbformat  # noqa: E402
import yaml  # noqa: E402
from dependencies import Part, Place, Sources  # noqa: E402
from myst_nb.core.read import (  # noqa: E402
    is_myst_markdown_notebook,
    read_myst_markdown_notebook,
)
from myst_parser.config.main import MdParserConfig  # noqa: E402

import hdpm_book  # noqa: E402, F401  it looks whether the library is its own
from hdpm_lib.validation import check_one_place  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
KEPT = 4  # executions of one chapter, and passes of one file of tests
# Tests with one of these names depend on more than they import, on pages or programs: on all that
# there is, or on what they say in LOOKS_AT.
LOOKS_AROUND = re.compile(
    r"\b(ROOT|__file__|cwd|chdir|resources|subprocess|multiprocessing|import_module|execution"
    r"|page_functions)\b"
)
PASSING = ("_build", "__pycache__", "node_modules", "cache")  # folders that nothing depends on
# Data of which those entries count that are named, unless all are taken: the module that reads
# them, its names that take all, and what of an entry counts.
ENTRIES = {
    "claims": ("hdpm_book.ledger", ("CLAIMS", "load", "read"), ("id", "verdict", "data")),
    "exercises.yaml": ("hdpm_book.exercises", ("exercises",), ("id", "answer", "within")),
}

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


def closure(source: str, root: Path = ROOT, sources: Sources | None = None) -> set[str]:
    """Modules of the library and of the book that are loaded when a source runs."""
    return {module for module, _ in (sources or Sources(root)).reached(source)}


def fingerprint(path: Path, root: Path = ROOT, sources: Sources | None = None) -> str:
    """Digest of all that the outputs of a chapter depend on."""
    page = read(path)
    cells = [cell.source for cell in code_cells(page)]
    # cells count to the letter: a page shows them, and references are kept by their text
    settings = repr([data_source(path), cells])
    return _digest([python(page)], settings, root, sources or Sources(root))


def fingerprint_of_tests(path: Path, root: Path = ROOT, sources: Sources | None = None) -> str:
    """Digest of all that the tests of a file depend on."""
    sources = sources or Sources(root)
    files = [path, *(folder / "conftest.py" for folder in path.parents if root in folder.parents)]
    own = [file.read_text(encoding="utf8") for file in files if file.exists()]
    module = sources.taken_apart(own[0])
    own[0] = "\n".join([own[0], *(code for code, _ in module.examples)])
    names = set().union(*(closure(source, root, sources) for source in own))
    helpers = [sources.there[name] for name in names if name.startswith("tests.")]
    texts = [file.read_text(encoding="utf8") for file in (path, *helpers) if "tests" in file.parts]
    seen = module.looks_at
    if seen is None:
        seen = ["."] if any(map(LOOKS_AROUND.search, texts)) else []
    around = [(name, _content(root / name, sources)) for name in seen]
    known = {key: value for key, value in os.environ.items() if key.startswith("HDPM_")}
    options = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf8"))
    executor = _content(root / "conftest.py", sources)
    settings = repr([sorted(known.items()), options, executor, module.examples, around])
    return _digest(own, settings, root, sources)


def _files(place: Path) -> list[Path]:
    """A file, or all below a folder but for what is hidden, built, installed or fetched."""
    if place.is_file():
        return [place]
    found = []
    for folder, inside, files in os.walk(place):
        inside[:] = [one for one in inside if one[0] != "." and one not in PASSING]
        found += [Path(folder, file) for file in files if file[0] != "."]
    return sorted(found, key=str)


def _content(place: Path, sources: Sources) -> bytes:
    """Digest of a file or of all below a folder; of modules, of what they do."""
    if place not in sources.contents:
        digest = hashlib.sha256()
        for file in _files(place):
            content = file.read_bytes()
            if file.suffix == ".py":
                content = repr([part.digest for part in _parts(content.decode(), sources)]).encode()
            digest.update(f"{file.relative_to(place)}\0{len(content)}\0".encode() + content)
        sources.contents[place] = digest.digest()
    return sources.contents[place]


def _parts(source: str, sources: Sources) -> list[Part]:
    return list(sources.taken_apart(source).parts.values())


def _digest(own: list[str], settings: str, root: Path, sources: Sources) -> str:
    """Digest of sources, of what they come to, of the data that this names, and of the lock."""
    parts = [(("", ""), part) for source in own for part in _parts(source, sources)]
    for source in own:
        parts += sources.reached(source).items()
    digest = hashlib.sha256(f"{sys.version_info[:2]} {settings}".encode())
    for place, part in parts:
        digest.update(repr(place).encode() + part.digest)
    words = set().union(*(part.words for _, part in parts))
    stored = [*(root / "data").iterdir(), root / "hdpm_lib" / "trained"]
    for place in sorted(stored):  # read by those who name it
        if place.name not in PASSING and any(place.name in word for word in words):
            named = place.name in ENTRIES
            content = _entries(place, parts, sources) if named else _content(place, sources)
            digest.update(place.name.encode() + content)
    if (lock := root / "requirements.txt").exists():
        digest.update(lock.read_bytes())
    return digest.hexdigest()[:16]


def _entries(place: Path, parts: list[tuple[Place, Part]], sources: Sources) -> bytes:
    """What an execution takes from files of entries; their words are shown when the book is
    built.
    """
    home, takes_all, fields = ENTRIES[place.name]
    others = [part for (module, _), part in parts if module != home]
    names = set().union(*(part.foreign for part in others))
    words = set().union(*(part.words for part in others))
    everything = any(place.name in word for word in words) or any(
        name.startswith(f"{home}.") and name.split(".")[2] in takes_all for name in names
    )
    if place not in sources.entries:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        sources.entries[place] = [
            entry
            for file in _files(place)
            for entry in yaml.load(file.read_text(encoding="utf8"), Loader=loader) or ()
        ]
    return repr(
        [
            [entry[key] for key in fields if key in entry]
            for entry in sources.entries[place]
            if everything or entry["id"] in words
        ]
    ).encode()


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
    """A chapter with the outputs that are kept for it."""
    return nbformat.read(file, as_version=4) if file.exists() else None


def last_run(
    path: Path, root: Path = ROOT, sources: Sources | None = None
) -> nbformat.NotebookNode:
    """A page with the outputs of its last run; without, where that is another page's or none."""
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
    """Tests of a file that were skipped when the others passed; nothing if these have not."""
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
