"""nbval is the executor of the book: pytest collects the chapters of ``_toc.yml``, runs them and
keeps what passed. The examples in the docstrings of the book's modules are tests beside them.

Cells tagged ``nbval-check-output`` must print what ``tests/refs/`` says (``--update-refs`` rewrites
it), as ``tests/digits.py`` compares. Plain nbval would compare nothing here, because text notebooks
hold no outputs: the references take their place.
"""

from __future__ import annotations

import doctest
import hashlib
import importlib
import json
import sys
from collections import defaultdict
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent
BOOK = ROOT / "book"
sys.path.insert(0, str(BOOK / "_ext"))
import execution  # noqa: E402  before nbformat, for which it spares a second
import nbformat  # noqa: E402
from dependencies import Sources  # noqa: E402
from nbval.plugin import IPyNbCell, IPyNbFile, find_metadata_tags  # noqa: E402

from tests.digits import same  # noqa: E402

pytest_plugins = ["nbval.plugin"]
# noise_labels.py: it imports what one of the extras installs, and has no examples
collect_ignore = ["book/_ext", "book/__init__.py", "_build", "data", "tests/noise_labels.py"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-refs", action="store_true", help="rewrite tests/refs from this run")
    parser.addoption(
        "--reuse",
        action="store_true",
        help="take what has not changed from the last run, if it may",
    )
    parser.addoption(
        "--data-dependent", action="store_true", help="only chapters that declare data sets"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.option.nbval_lax = True  # compare tagged cells only
    config.option.nbval_current_env = True
    config.option.nbval_cell_timeout = 300
    KEPT.update(getattr(config, "workerinput", {}).get("kept", {}))
    if config.option.reuse:
        config.pluginmanager.register(Passes())


def pytest_report_header() -> str:
    kept = execution.can_keep(ROOT)
    return "" if kept else f"{ROOT} cannot be written to: what runs is not kept"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """No process beside this one if at most one file has to be run: each takes seconds to begin."""
    if not config.option.reuse:
        return None
    asked = [Path(name).resolve() for name in config.args]
    left_out = [ROOT / name for name in (*collect_ignore, *(config.option.ignore or ()))]
    files = [path for place in asked for path in place.rglob("*.py")]
    files += [
        page
        for page in execution.pages(ROOT)
        if any(map(page.is_relative_to, asked)) and execution.is_chapter(page)
    ]
    # all of them, not as far as the second that is missing, as they are handed on
    kept = [kept_at(path) for path in files if not any(map(path.is_relative_to, left_out))]
    return 0 if sum(not path.exists() for path in kept) < 2 else None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hand on to another process what has been found out for it."""
    node.workerinput["kept"] = KEPT


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    found = yield
    if file_path.suffix == ".md" and is_collected(file_path, parent.config):
        return [Chapter.from_parent(parent, path=file_path)]
    if file_path.suffix == ".py" and BOOK in file_path.parents:
        if parent.config.option.update_refs:
            return []
        return [BookModule.from_parent(parent, path=file_path)]
    return found


def is_collected(path: Path, config: pytest.Config) -> bool:
    """Whether a page is a chapter of this run."""
    if path not in execution.pages(ROOT) or not execution.is_chapter(path):
        return False
    return bool(not config.option.data_dependent or execution.data_sets(path))


@cache
def sources() -> Sources:
    """Return the code that there is when a session begins."""
    return Sources(ROOT)


KEPT: dict[str, str] = {}


def kept_at(path: Path) -> Path:
    """Where an execution of a chapter is kept, or that the tests of a file have passed."""
    if str(path) not in KEPT:
        find = execution.kept_at if path.suffix == ".md" else execution.mark
        KEPT[str(path)] = str(find(path, ROOT, sources()))
    return Path(KEPT[str(path)])


class Passes:
    """With ``--reuse``, files of tests are left out that have passed, if nothing that they depend
    on has changed since; but for those of their tests that were skipped, as what was missing may be
    there now.
    """

    def __init__(self) -> None:
        self.marks: dict[str, Path] = {}
        """Where it is noted of files that they have passed."""
        self.again: dict[str, list[str]] = {}
        """Of files that had passed, the tests that were skipped."""
        self.skipped: dict[str, list[str]] = {}
        self.failed: set[str] = set()
        self.ahead: dict[str, set[str]] | None = None
        """Of each file the tests that have not ended; nothing before all have been collected."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> bool | None:
        if collection_path.suffix != ".py" or any("::" in argument for argument in config.args):
            return None
        mark = kept_at(collection_path)
        skipped = execution.skipped(mark)
        if skipped == []:
            return True
        file = collection_path.relative_to(ROOT).as_posix()
        self.marks[file] = mark
        if skipped is not None:
            self.again[file] = skipped
        return None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    @pytest.hookimpl(tryfirst=True)  # before -k takes a part of a file
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.ahead = defaultdict(set)
        chosen = []
        for item in items:
            file = _file(item.nodeid)
            again = self.again.get(file)
            if again is None or item.nodeid in again or file in again:
                chosen.append(item)
                self.ahead[file].add(item.nodeid)
        items[:] = chosen

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)
        if report.when == "teardown" and self.ahead is not None:
            self.ahead[_file(report.nodeid)].discard(report.nodeid)

    def _note(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        file = _file(report.nodeid)
        if report.failed:
            self.failed.add(file)
        elif report.skipped and not hasattr(report, "wasxfail"):
            self.skipped.setdefault(file, []).append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        if self.ahead is None or not execution.can_keep(ROOT):  # stopped while files were read
            return
        for file, mark in self.marks.items():
            if file not in self.failed and not self.ahead[file]:
                execution.note(mark, self.skipped.get(file, []))


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


class BookModule(pytest.File):
    """A module of the book: pytest would import it under another name than it has."""

    def collect(self) -> Any:
        if ">>>" in self.path.read_text(encoding="utf8"):
            yield Examples.from_parent(self, name="examples")


class Examples(pytest.Item):
    """The examples in the docstrings of a module of the book."""

    def runtest(self) -> None:
        parts = self.path.relative_to(BOOK).with_suffix("").parts
        name = ".".join(("hdpm_book", *parts)).removesuffix(".__init__")
        failed, _ = doctest.testmod(importlib.import_module(name))
        assert failed == 0

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"{self.path.relative_to(ROOT)}::examples"


def reference_path(chapter: Path) -> Path:
    """File of a chapter's references; one for each source of data if it uses any."""
    source = execution.data_source(chapter)
    name = chapter.relative_to(ROOT / "book").with_suffix(f".{source}.json" if source else ".json")
    return ROOT / "tests" / "refs" / name


class Chapter(IPyNbFile):
    """A chapter: its code cells, and at the end one item that rejects references of cells that are
    gone.
    """

    def collect(self) -> Any:
        self.nb = execution.read(self.path)
        reuse = self.config.option.reuse and not self.config.option.update_refs
        # where it is kept depends on the code as it is now, not as it may be at the end of the run
        self.kept_at = kept_at(self.path)
        self.stored = execution.stored(self.kept_at) if reuse else None
        self.reference_path = reference_path(self.path)
        self.references: dict[str, Any] = {}
        if self.reference_path.exists():
            self.references = json.loads(self.reference_path.read_text(encoding="utf8"))
        self.printed: dict[str, Any] = {}
        self.stopped_at: int | None = None
        self.passed: list[ChapterCell] = []
        for number, cell in enumerate(execution.code_cells(self.nb)):
            options = defaultdict(bool, find_metadata_tags(cell.metadata))
            yield ChapterCell.from_parent(
                self, name=f"Cell {number}", cell_num=number, cell=cell, options=options
            )
        yield StaleReferences.from_parent(self, name="references")

    def setup(self) -> None:
        if self.stored is not None:
            return
        super().setup()
        execute = self.kernel.kc.execute
        # With a history, `expr;` stays silent as it does in a notebook; nbval runs without one.
        self.kernel.kc.execute = lambda *args, **kwargs: execute(
            *args, **{**kwargs, "store_history": True}
        )

    def teardown(self) -> None:
        if self.stored is not None:
            return
        super().teardown()
        if self.config.option.update_refs and self.stopped_at is None:
            self.reference_path.parent.mkdir(parents=True, exist_ok=True)
            if self.printed:
                text = json.dumps(self.printed, indent=1, ensure_ascii=False) + "\n"
                self.reference_path.write_text(text, encoding="utf8")
            else:
                self.reference_path.unlink(missing_ok=True)
        if len(self.passed) == len(execution.code_cells(self.nb)) and execution.can_keep(ROOT):
            for item in self.passed:
                item.cell.outputs = [_valid(output) for output in item.test_outputs or []]
                item.cell.execution_count = item.cell_num + 1
            execution.store(self.kept_at, self.nb)


class ChapterCell(IPyNbCell):
    """A code cell; it fails on an exception, on anything written to stderr, on more than a figure
    under a figure's name, and on a wrong or missing reference.
    """

    def setup(self) -> None:
        if self.parent.stopped_at is not None:
            pytest.skip(f"the chapter stopped at cell {self.parent.stopped_at}")

    def runtest(self) -> None:
        if self.parent.stored is not None:
            self.compare_stored()
            return
        update = self.config.option.update_refs
        checked = self.options["check"]
        key = _key(self.cell)
        self.cell.outputs, self.cell.execution_count = [], None
        if checked and not update:
            reference = self.parent.references.get(key)
            if reference is not None:
                self.cell.outputs = [_as_output(entry) for entry in reference["output"]]
                self.cell.execution_count = 1
        try:
            super().runtest()
        finally:
            outputs = self.test_outputs or []
            self.cell.outputs, self.cell.execution_count = [], None
            error = (
                any(output.output_type == "error" for output in outputs)
                and not self.options["check_exception"]
            )
            if error or self.parent.timed_out:
                self.parent.stopped_at = self.cell_num
        for output in outputs:
            if output.output_type == "stream" and output.name == "stderr":
                self.raise_cell_error("The cell wrote to stderr", output.text)
        shown = [x.get("data", {}).get("text/plain", "") for x in outputs if "data" in x]
        if len(shown) > 1 and "figure" in self.cell.metadata.get("mystnb", {}):
            self.raise_cell_error("The cell shows more than the figure it names", "\n".join(shown))
        if checked:
            self.parent.printed[key] = {
                "cell": _title(self.cell),
                "output": [_as_text(output) for output in outputs],
            }
            if not update and reference is None:
                self.raise_cell_error(
                    f"No reference in {self.parent.reference_path}: run pytest --update-refs"
                )
        self.parent.passed.append(self)

    def repr_failure(self, excinfo: Any) -> str:
        """Tell of a verdict that is not the ledger's in a sentence, without cell and traceback."""
        for output in self.test_outputs or []:
            if output.output_type == "error" and output.ename == "LedgerMismatch":
                return f"Cell {self.cell_num}: {output.evalue}"
        return super().repr_failure(excinfo)

    def compare_stored(self) -> None:
        """Hold what was printed in an earlier run against the reference."""
        if not self.options["check"]:
            return
        reference = self.parent.references.get(_key(self.cell))
        if reference is None:
            self.raise_cell_error(
                f"No reference in {self.parent.reference_path}: run pytest --update-refs"
            )
        cell = execution.code_cells(self.parent.stored)[self.cell_num]
        printed = [_as_text(output) for output in cell.outputs]
        if not _all_same(printed, reference["output"]):
            self.raise_cell_error(
                "Cell outputs differ from the reference", f"{printed}\n{reference['output']}"
            )

    def compare_outputs(self, test: Any, ref: Any, skip_compare: Any = None) -> bool:
        """Compare what a reference keeps, and so neither figures nor HTML; nbval would want every
        format there is.
        """
        printed = [_as_text(output) for output in test]
        if _all_same(printed, [_as_text(output) for output in ref]):
            return True
        return super().compare_outputs([_as_output(text) for text in printed], ref, skip_compare)


class StaleReferences(pytest.Item):
    """Fails when a stored reference belongs to no tagged cell: an edited cell would otherwise go
    unchecked.
    """

    def runtest(self) -> None:
        if self.config.option.update_refs:
            return
        tagged = {
            _key(item.cell)
            for item in self.session.items
            if item.parent is self.parent and _tagged(item)
        }
        if self.parent.stopped_at is None and (stale := set(self.parent.references) - tagged):
            titles = [self.parent.references[key]["cell"] for key in sorted(stale)]
            raise AssertionError(f"stale references in {self.parent.reference_path}: {titles}")

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"{self.path.relative_to(ROOT)}::references"


def _tagged(item: pytest.Item) -> bool:
    return isinstance(item, ChapterCell) and item.options["check"]


def _key(cell: nbformat.NotebookNode) -> str:
    return hashlib.sha256(cell.source.encode()).hexdigest()[:12]


def _title(cell: nbformat.NotebookNode) -> str:
    return next((line for line in cell.source.splitlines() if line.strip()), "")


def _as_text(output: nbformat.NotebookNode) -> dict[str, list[str]]:
    if output.output_type == "stream":
        return {output.name: output.text.splitlines()}
    if output.output_type == "error":  # of a cell tagged raises-exception
        return {"error": f"{output.ename}: {output.evalue}".splitlines()}
    return {"text/plain": output.data.get("text/plain", "").splitlines()}


def _all_same(printed: list[dict[str, list[str]]], reference: list[dict[str, list[str]]]) -> bool:
    """Whether outputs are those of the reference."""
    texts = []
    for outputs in (printed, reference):
        parts = [[kind, *lines] for entry in outputs for kind, lines in entry.items()]
        texts.append("\n".join(line for part in parts for line in part))
    return same(*texts)


def _as_output(entry: dict[str, list[str]]) -> nbformat.NotebookNode:
    ((kind, lines),) = entry.items()
    text = "\n".join(lines)
    if kind == "text/plain":
        return nbformat.v4.new_output("display_data", {"text/plain": text})
    return nbformat.v4.new_output("stream", name=kind, text=text + "\n")


def _valid(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """nbval records the messages of the kernel; the notebook format wants them a little cleaner."""
    if output.output_type == "execute_result":
        output.setdefault("execution_count", None)
    return nbformat.from_dict(output)
