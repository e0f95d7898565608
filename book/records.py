"""Studies that are stored: rows collected job by job, on as many machines as there are, and where
they come from.

A record names the commit it was made at, versions, seconds, and a digest of each module that its
run had loaded, without docstrings and comments. :func:`changed` compares these with the code of
today. What is stored in the checkout is refused if files of it differ from the commit.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import date
from importlib import metadata, resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hdpm_lib.spread import each

Row = dict[str, Any]
# Jobs, what makes a row of one, and what the record says besides.
Study = tuple[Sequence[tuple[Any, ...]], Callable[..., Row], Row]
STUDIES = Path(str(resources.files("hdpm_book.data") / "studies"))
ROOT = STUDIES.parents[1]
RESULTS = ("data/studies", "data/networks", "hdpm_lib/trained")  # where records are
PACKAGES = ("hdpm_lib", "hdpm_book", "hdpm_owner", "hdpm_market", "tests")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_pages: dict[str, str] = {}
"""Digests of what was taken from pages, by page and names."""


def page_functions(page: str, *names: str) -> dict[str, Any]:
    """Return what a page such as ``"federated/regret"`` imports, and these functions and constants
    of its cells: a recorded run calls what the page shows.
    """
    file = Path(__file__).parent / f"{page}.md"
    if not file.exists():
        raise FileNotFoundError(
            f"the page {file} is not there: what a page shows is run in a checkout of the book,"
            " and an installed hdpm_book has no pages"
        )
    import jupytext  # of the environment that builds the book

    parts = _chosen(jupytext.read(file).cells, names)
    space: dict[str, Any] = {"__name__": page}
    for part in parts:
        exec(compile(ast.Module([part], []), page, "exec"), space)
    _pages[f"{page}: {' '.join(names)}"] = digest(ast.Module(parts, []))
    return space


def _chosen(cells: Sequence[Any], names: Sequence[str]) -> list[ast.stmt]:
    """Return what the code cells of a page import, and the definitions of some names."""
    chosen = []
    for cell in cells:
        if cell.cell_type != "code":
            continue
        for part in ast.parse(cell.source).body:
            match part:
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.FunctionDef(name=name):
                    wanted = name in names
                case _:
                    wanted = isinstance(part, ast.Import | ast.ImportFrom)
            if wanted:
                chosen.append(part)
    return chosen


def digest(tree: ast.Module) -> str:
    """Return a short digest of code, in which docstrings, comments and layout do not count."""
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:12]


def code() -> dict[str, str]:
    """Return digests of the modules of ours that are loaded, and of what was taken from pages."""
    found = {}
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.split(".")[0] in PACKAGES and file:
            found[name] = digest(ast.parse(Path(file).read_text(encoding="utf8")))
    return found | dict(sorted(_pages.items()))


def changed(record: Row) -> list[str]:
    """Return those modules and pages behind a record whose code is another today, or gone."""
    found = []
    for name, then in record["code"].items():
        page, colon, names = name.partition(": ")
        try:
            if colon:
                page_functions(page, *names.split())
                now = _pages[name]
            else:
                now = digest(ast.parse(_file_of(name).read_text(encoding="utf8")))
        except (OSError, NameError):
            now = ""
        if now != then:
            found.append(name)
    return found


def _file_of(module: str) -> Path:
    """Tell where a module is, also one that this process cannot import."""
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:
        spec = None
    if spec and spec.origin:
        return Path(spec.origin)
    place = Path(*module.split("."))
    files = [root / place.with_suffix(".py") for root in (ROOT, ROOT / "flower")]
    return next((file for file in files if file.exists()), files[0])


def record_file(name: str) -> Path:
    """Return the file of a record: of a study, or of networks that were trained."""
    trained = Path(str(resources.files("hdpm_lib"))) / "trained"
    for folder in (STUDIES, STUDIES.parent / "networks", trained):
        file = folder / f"{name}.json"
        if file.exists():
            return file
    raise LookupError(f"nothing is recorded under the name {name!r}")


def recorded(name: str) -> Row:
    """Return the record of a name."""
    found: Row = json.loads(record_file(name).read_text(encoding="utf8"))
    return found


def provenance(*packages: str, folder: Path = STUDIES) -> Row:
    """Return commit, date, machine, versions of Python and of some packages: stored beside numbers
    that took long, and taken before they are computed.

    Raises
    ------
    RuntimeError
        If the numbers go into this checkout, and it is not as committed, but for its records.
    """
    others = [f":!{results}" for results in RESULTS]
    made_at = commit()
    edited = _git("status", "--porcelain", "--untracked-files=no", "--", ".", *others)
    if folder.resolve().is_relative_to(ROOT.resolve()) and (edited or not made_at):
        raise RuntimeError(
            "a record names the commit that made it: commit first"
            + f" ({', '.join(line[3:] for line in edited.splitlines())})" * bool(edited)
        )
    return {
        "commit": made_at + "-dirty" * bool(edited),
        "date": date.today().isoformat(),
        "hardware": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {name: metadata.version(name) for name in packages}
        | {"python": platform.python_version()},
    }


def commit() -> str:
    """Return the commit of this checkout."""
    return _git("rev-parse", "HEAD")


def _git(*arguments: str) -> str:
    """Return what git says in this checkout; nothing where there is none."""
    ran = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return ran.stdout.rstrip()


def store(file: Path, record: Row) -> None:
    """Write a record, a row a line, with the digests of the code that is loaded if it has none."""
    record = {"code": code()} | record
    rows = record.pop("rows", None)
    text = json.dumps(record, indent=1, ensure_ascii=False)
    if rows is not None:
        lines = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in rows)
        text = text.removesuffix("\n}") + f',\n "rows": [\n  {lines}\n ]\n}}'
    file.write_text(text + "\n", encoding="utf8")


def collect(
    folder: Path,
    name: str,
    jobs: Sequence[tuple[Any, ...]],
    row: Callable[..., Row],
    about: Row,
    *packages: str,
) -> None:
    """Store a row for every job in ``NAME.json``, with where it comes from.

    Jobs run where :func:`hdpm_lib.spread.use` says. Rows are kept in ``NAME.parts`` until all are
    done: a study that was interrupted goes on. The callable `row` makes one from the parts of a
    job.
    """
    began = provenance(*packages, folder=folder)
    parts = folder / f"{name}.parts"
    told = json.dumps(about, default=str)
    done = each(_timed, jobs, row, told, folder=parts)
    rows, seconds = zip(*done, strict=True)
    record = began | about | {"cpu_seconds": round(sum(seconds), 3), "rows": list(rows)}
    store(folder / f"{name}.json", record)
    shutil.rmtree(parts)


def _timed(job: tuple[Any, ...], row: Callable[..., Row], about: str) -> tuple[Row, float]:
    """Return a row, which has seeds of its own, and the seconds of the processor."""
    began = time.process_time()
    return row(*job), time.process_time() - began
