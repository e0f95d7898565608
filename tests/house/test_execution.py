"""The executor of the book (``conftest.py``, ``book/_ext/execution.py``), tried on a tiny book.

Each way in which a chapter can go wrong must turn the run red and say why; the same chapter in order must be green.
Runs are shared between the tests, since each starts a kernel a chapter, and go side by side where they may.
"""

from __future__ import annotations

import ast
import base64
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import execution
import pytest
import yaml

from tests import apart

ROOT = Path(__file__).resolve().parents[2]
CHECKED = "nbval-check-output"
HEADER = """---
jupytext:
  text_representation: {{extension: .md, format_name: myst}}
kernelspec: {{display_name: Python 3, language: python, name: python3}}
{extra}---
# {title}
"""


def png(level: int) -> str:
    """A picture of one grey point, in base64."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(bytes([0, level]))) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + head + body).decode()


@dataclass(frozen=True)
class Book:
    """A book in a folder of its own, with its own ``hdpm_lib`` and ``hdpm_book``, which hide the installed ones."""

    root: Path

    @classmethod
    def new(cls, root: Path) -> Book:
        (root / "book" / "_ext").mkdir(parents=True)
        shutil.copy(ROOT / "conftest.py", root)
        shutil.copy(ROOT / "book" / "_ext" / "execution.py", root / "book" / "_ext")
        config = {
            "title": "Tiny",
            "author": "Nobody",
            "only_build_toc_files": True,
            "exclude_patterns": ["_build"],
            "execute": yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf8"))["execute"],
            "sphinx": {"local_extensions": {"execution": "book/_ext"}},
        }
        (root / "_config.yml").write_text(yaml.safe_dump(config), encoding="utf8")
        book = cls(root)
        book.write("pytest.ini", "[pytest]\naddopts = -p no:cacheprovider\nfilterwarnings = ignore:.*IPKernelApp.*\n")
        book.write("hdpm_lib/__init__.py", "CONSTANT = 41\n")
        (root / "hdpm_book").symlink_to("book")
        book.write("hdpm_lib/other.py", "")
        book.write(
            "book/datasets.py",
            'import os\n\n\ndef source_of(name):\n    return os.environ.get("HDPM_DATA", "real")\n',
        )
        book.write("data/number.txt", "7\n")
        return book

    def copy(self, root: Path) -> Book:
        shutil.copytree(self.root, root, symlinks=True)
        return Book(root)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf8")

    def chapter(self, name: str, *cells: tuple[str, str], header: bool = True, extra: str = "") -> None:
        """Write a chapter; a cell is its code and its tag (or nothing)."""
        text = HEADER.format(title=name, extra=extra) if header else f"# {name}\n"
        for code, tag in cells:
            tags = f":tags: [{tag}]\n" if tag else ""
            text += f"\n```{{code-cell}} python3\n{tags}{code}\n```\n"
        self.write(f"book/{name}.md", text)

    def toc(self, names: Iterable[str]) -> None:
        first, *others = names
        chapters = [{"file": f"book/{name}"} for name in others]
        self.write("_toc.yml", yaml.safe_dump({"format": "jb-book", "root": f"book/{first}", "chapters": chapters}))

    def references(self, name: str) -> Path:
        return self.root / "tests" / "refs" / f"{name}.json"

    def printed(self, name: str) -> list[list[dict[str, list[str]]]]:
        """What the checked cells must print, in order."""
        entries = json.loads(self.references(name).read_text(encoding="utf8"))
        return [entry["output"] for entry in entries.values()]

    def _start(self, program: str, *options: str, **environment: str) -> apart.Running:
        inherited = {key: value for key, value in os.environ.items() if key not in ("HDPM_DATA", "HDPM_DATA_DIR")}
        own = {"PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        return apart.start(program, *options, folder=self.root, environment=inherited | own | environment)

    def test(self, *options: str, **environment: str) -> Callable[[], Run]:
        """Start the tests of the book; what comes back waits for their end."""
        report = self.root / "report.xml"
        report.unlink(missing_ok=True)
        running = self._start(
            "pytest:console_main", "book", "--color=no", f"--junitxml={report}", *options, **environment
        )

        def end() -> Run:
            done = running.end()
            return Run(done.status, done.printed, _outcomes(report), self.stored())

        return end

    def build(self, **environment: str) -> Callable[[], Run]:
        running = self._start(
            "jupyter_book.cli.main:main", *"build . --all -W --keep-going -n -q".split(), **environment
        )

        def end() -> Run:
            done = running.end()
            return Run(done.status, done.printed, {}, self.stored())

        return end

    def stored(self) -> set[str]:
        """Names of the chapters that are stored."""
        return {file.name.partition(".")[0] for file in self.root.glob("_build/executed/*.ipynb")}

    def shown(self, name: str) -> str:
        """Outputs on the built page of a chapter."""
        html = (self.root / "_build" / "html" / "book" / f"{name}.html").read_text(encoding="utf8")
        return " ".join(re.findall(r'<div class="cell_output.*?</div>\n</div>', html, flags=re.DOTALL))


@dataclass(frozen=True)
class Run:
    """What a run did: exit status, all it printed, outcome of each item, chapters in the cache after it."""

    status: int
    printed: str
    outcomes: dict[tuple[str, str], tuple[str, str]]
    stored: set[str]

    def of(self, chapter: str) -> dict[str, str]:
        """Items of a chapter and how they ended."""
        return {item: outcome for (name, item), (outcome, _) in self.outcomes.items() if name == chapter}

    def message(self, chapter: str, item: str) -> str:
        outcome, text = self.outcomes[chapter, item]
        assert outcome == "failure", f"{chapter} {item}: {outcome}"
        return text


def _outcomes(report: Path) -> dict[tuple[str, str], tuple[str, str]]:
    found: dict[tuple[str, str], tuple[str, str]] = {}
    if report.exists():
        for case in ElementTree.parse(report).iter("testcase"):
            chapter = case.get("classname", "").removeprefix("book.").removesuffix(".md")
            results = [(node.tag, f"{node.get('message')}\n{node.text}") for node in case if node.tag != "system-out"]
            found[chapter, case.get("name", "")] = results[0] if results else ("passed", "")
    return found


# --- the book in order, and the same book with everything wrong in it -------------------------------------------------

PICTURE = f"""from IPython.display import display
pictures = {{'a': '{png(0)}', 'b': '{png(255)}'}}
print('one picture')
display({{'text/plain': '<Figure>', 'image/png': pictures[os.environ['OUTSIDE'][0]]}}, raw=True)"""
MARKUP = "display({'text/html': '<b>bold</b>'}, raw=True)"
SHOUT = "import warnings\nif x > 2: warnings.warn('look out')"
LATER = "open('later.txt', 'w').close()"


def in_order(root: Path) -> Book:
    book = Book.new(root)
    book.chapter(
        "numbers",
        ("import hdpm_lib\nx = 1 + 1", ""),
        ("print('number', x)", CHECKED),
        ("print('constant', hdpm_lib.CONSTANT)", CHECKED),
        (SHOUT, ""),
        ("z = 2", CHECKED),
        ("print('first')", CHECKED),
        ("print('second')", CHECKED),
    )
    book.chapter("exception", ("y = 1", ""), ("assert y == 1", ""), (LATER, ""))
    book.chapter(
        "outputs",
        ("1 / 0", f"raises-exception, {CHECKED}"),
        ("import os\nprint('outside', os.environ['OUTSIDE'])", ""),
        (PICTURE, CHECKED),
        ("v = 5\nv;", CHECKED),
        ("v", CHECKED),
        ("print('no end of line', end='')", CHECKED),
        (MARKUP, CHECKED),
        (LATER.replace("later", "expected"), ""),
    )
    book.chapter(
        "data",
        ("print('file', open('../data/number.txt').read())", ""),
        ("from hdpm_book import datasets\nprint('source', datasets.source_of('toy'))", CHECKED),
        extra="hdpm: {data: [toy]}\n",
    )
    book.toc(PAGES)
    return book


PAGES = ("numbers", "exception", "outputs", "data")


def put_wrong(book: Book) -> None:
    book.chapter(
        "numbers",
        ("import hdpm_lib\nx = 1 + 2", ""),
        ("print('number', x)", CHECKED),
        ("print('constant', hdpm_lib.CONSTANT)", CHECKED),
        (SHOUT, ""),
        ("z = 2", CHECKED),
        ("print('first')", CHECKED),
        ("print('second, edited')", ""),
    )
    book.write("hdpm_lib/__init__.py", "CONSTANT = 42\n")
    references = json.loads(book.references("numbers").read_text(encoding="utf8"))
    kept = {key: entry for key, entry in references.items() if entry["cell"] not in ("z = 2", "print('first')")}
    book.references("numbers").write_text(json.dumps(kept), encoding="utf8")
    book.chapter("exception", ("y = 2", ""), ("assert y == 1", ""), (LATER, ""))
    book.references("data.real").unlink()
    for name in ("later.txt", "expected.txt"):
        (book.root / "book" / name).unlink()


@dataclass(frozen=True)
class Runs:
    """The book in order and out of order, and the runs that the tests read."""

    book: Book
    wrong: Book
    other: Book  # on the stand-in
    updated: Run  # --update-refs with real data
    stand_in: Run  # --update-refs with the stand-in, only chapters with data
    good: Run
    bad: Run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    book = in_order(tmp_path_factory.mktemp("order") / "tiny")
    updated = book.test("--update-refs", OUTSIDE="a picture")()
    shutil.rmtree(book.root / "_build")
    wrong = book.copy(tmp_path_factory.mktemp("wrong") / "tiny")
    put_wrong(wrong)
    other = book.copy(tmp_path_factory.mktemp("other") / "tiny")
    stand_in = other.test("--update-refs", "--data-dependent", HDPM_DATA="stand-in")
    good, bad = book.test(OUTSIDE="before"), wrong.test(OUTSIDE="before")
    return Runs(book, wrong, other, updated, stand_in(), good(), bad())


@pytest.mark.parametrize("chapter", PAGES)
def test_chapter_in_order_passes_and_is_stored(runs: Runs, chapter: str) -> None:
    assert set(runs.good.of(chapter).values()) == {"passed"}, runs.good.printed
    assert chapter in runs.good.stored
    assert runs.good.status == 0


def test_seconds_of_cells_are_noted(runs: Runs) -> None:
    files = list((runs.book.root / "_build" / "executed").glob("numbers.*.ipynb"))
    assert files
    for file in files:
        page = json.loads(file.read_text(encoding="utf8"))
        code = [cell for cell in page["cells"] if cell["cell_type"] == "code"]
        assert len(page["metadata"]["seconds"]) == len(code)
        assert all(0 < seconds < 300 for seconds in page["metadata"]["seconds"])


def test_update_writes_references(runs: Runs) -> None:
    assert runs.updated.status == 0, runs.updated.printed
    said = ["number 2", "constant 41", None, "first", "second"]
    assert runs.book.printed("numbers") == [[{"stdout": [words]}] if words else [] for words in said]
    assert not runs.book.references("exception").exists()  # it has no checked cell


def test_wrong_number_fails(runs: Runs) -> None:
    message = runs.bad.message("numbers", "Cell 1")
    assert "Cell outputs differ" in message
    assert "number 2" in message
    assert "number 3" in message


def test_changed_library_fails(runs: Runs) -> None:
    message = runs.bad.message("numbers", "Cell 2")
    assert "constant 41" in message
    assert "constant 42" in message


def test_hidden_warning_fails(runs: Runs) -> None:
    message = runs.bad.message("numbers", "Cell 3")
    assert "The cell wrote to stderr" in message
    assert "look out" in message


def test_missing_reference_fails(runs: Runs) -> None:
    message = runs.bad.message("numbers", "Cell 5")
    assert "No reference in" in message
    assert "numbers.json" in message
    assert "No reference in" in runs.bad.message("numbers", "Cell 4")  # also of a cell that prints nothing


def test_stale_reference_fails(runs: Runs) -> None:
    assert runs.bad.of("numbers")["Cell 6"] == "passed"  # nothing wrong with the edited cell itself
    message = runs.bad.message("numbers", "references")
    assert "stale references" in message
    assert "print('second')" in message


def test_exception_fails_and_the_rest_of_the_chapter_is_not_run(runs: Runs) -> None:
    message = runs.bad.message("exception", "Cell 1")
    assert "Cell execution caused an exception" in message
    assert "AssertionError" in message
    ends = {"Cell 0": "passed", "Cell 1": "failure", "Cell 2": "skipped", "references": "passed"}
    assert runs.bad.of("exception") == ends
    assert "the chapter stopped at cell 1" in runs.bad.outcomes["exception", "Cell 2"][1]
    assert (runs.book.root / "book" / "later.txt").exists()  # the last cell writes it when all is well
    assert not (runs.wrong.root / "book" / "later.txt").exists()


def test_expected_exception_does_not_stop_the_chapter(runs: Runs) -> None:
    assert (runs.wrong.root / "book" / "expected.txt").exists()
    assert set(runs.bad.of("outputs").values()) == {"passed"}
    assert runs.book.printed("outputs")[0] == [{"error": ["ZeroDivisionError: division by zero"]}]


def test_failed_chapter_is_not_stored(runs: Runs) -> None:
    assert runs.bad.status == 1
    assert runs.bad.stored == {"outputs"}  # the one with nothing wrong


def test_references_are_chosen_by_source_of_data(runs: Runs) -> None:
    assert runs.stand_in.status == 0
    assert {chapter for chapter, _ in runs.stand_in.outcomes} == {"data"}  # --data-dependent
    for source in ("real", "stand-in"):
        assert runs.other.printed(f"data.{source}") == [[{"stdout": [f"source {source}"]}]]
    assert not runs.other.references("data").exists()
    assert "data.real.json" in runs.bad.message("data", "Cell 1")  # the stand-in's does not serve instead


def test_silenced_expression_stays_silent(runs: Runs) -> None:
    assert runs.book.printed("outputs")[2:4] == [[], [{"text/plain": ["5"]}]]


def test_figures_are_not_compared(runs: Runs) -> None:
    # `good` drew another picture than the run that wrote the references; the text beside it is compared.
    assert runs.good.of("outputs")["Cell 2"] == "passed"
    assert runs.book.printed("outputs")[1] == [{"stdout": ["one picture"]}, {"text/plain": ["<Figure>"]}]


def test_code_cells_without_a_header_fail(tmp_path: Path) -> None:
    book = Book.new(tmp_path / "tiny")
    book.chapter("plain", ("print(1)", ""), header=False)
    book.toc(["plain"])
    run = book.test("--collect-only")()
    assert run.status != 0
    assert "plain.md has code cells but no jupytext header" in run.printed
    book.chapter("plain", ("print(1)", ""))
    assert execution.is_chapter(book.root / "book" / "plain.md")


# --- the built book ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sequels:
    """Three copies of the tested book, and what has been started in them."""

    shown: tuple[Book, Callable[[], Run]]  # built as it is
    faulty: tuple[Book, Callable[[], Run]]  # built after changes
    reused: tuple[Book, Callable[[], Run]]  # tested once more


@pytest.fixture(scope="module")
def sequels(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Sequels:
    shown, faulty, reused = (runs.book.copy(tmp_path_factory.mktemp("sequel") / "tiny") for _ in range(3))
    shown.toc(["numbers", "outputs", "data"])
    faulty.write("data/number.txt", "8\n")
    faulty.chapter("exception", ("raise RuntimeError('no such market')", ""))
    faulty.chapter("numbers", ("x = 3", ""), (SHOUT, ""))
    faulty.toc(["data", "exception", "numbers"])
    reused.toc(["numbers", "outputs", "data"])
    (reused.root / "book" / "expected.txt").unlink()
    return Sequels(
        shown=(shown, shown.build(OUTSIDE="built")),
        faulty=(faulty, faulty.build()),
        reused=(reused, reused.test("--reuse", OUTSIDE="again")),
    )


def test_book_shows_what_was_tested_until_the_library_changes(sequels: Sequels) -> None:
    book, ended = sequels.shown
    run = ended()
    assert run.status == 0, run.printed
    assert "outside before" in book.shown("outputs")  # executed anew it would be "outside built"
    assert "constant 41" in book.shown("numbers")

    book.write("hdpm_lib/__init__.py", "CONSTANT = 43\n")  # the code of no chapter changes
    run = book.build(OUTSIDE="built")()
    assert run.status == 0, run.printed
    assert "constant 43" in book.shown("numbers")
    assert "constant 41" not in book.shown("numbers")
    assert "outside before" in book.shown("outputs")  # this chapter does not import the library


def test_book_shows_changed_data_and_fails_on_errors_and_warnings(sequels: Sequels) -> None:
    book, ended = sequels.faulty
    run = ended()
    assert run.status != 0
    assert re.search(r"exception\.md.*Executing notebook failed", run.printed)
    assert re.search(r"numbers\.md.*stderr was found in the cell outputs", run.printed)
    assert "data.md" not in run.printed
    assert "file 8" in book.shown("data")  # with --keep-going the other pages are there to look at


@pytest.mark.parametrize(
    ("name", "matters"),
    [
        ("hdpm_lib/__init__.py", True),
        ("hdpm_lib/wing/inner.py", True),
        ("hdpm_lib/wing/public.py", True),
        ("hdpm_lib/other.py", False),  # this chapter does not import it
        ("hdpm_lib/__pycache__/old.pyc", False),
        ("book/number.md", True),
        ("book/beside.py", True),
        ("data/number.txt", True),
        ("data/claims/new.yaml", True),
        ("data/others/new.yaml", False),
        ("data/cache/download.csv", False),
        ("requirements.txt", True),
    ],
)
def test_fingerprint_covers_what_outputs_depend_on(tmp_path: Path, name: str, matters: bool) -> None:
    book = Book.new(tmp_path / "tiny")
    chapter = book.root / "book" / "number.md"
    book.chapter("number", ("%matplotlib inline\nfrom hdpm_lib import public\nfrom hdpm_book import beside", ""))
    book.write("hdpm_lib/__init__.pyi", "from .wing.public import public as public")
    book.write("hdpm_lib/wing/public.py", "def public():\n    from hdpm_lib.wing import inner\n")
    book.write("hdpm_lib/wing/inner.py", "FILES = ('number.txt', 'claims/*.yaml')")
    book.write("book/beside.py", "")
    book.write("data/others/old.yaml", "")
    book.toc(["number"])
    before = execution.fingerprint(chapter, book.root)
    assert execution.fingerprint(chapter, book.root) == before
    if name == "book/number.md":
        book.chapter("number", ("%matplotlib inline\nfrom hdpm_lib import public\nx = 2", ""))
    else:
        kept = (book.root / name).read_text(encoding="utf8") if (book.root / name).exists() else ""
        book.write(name, kept + ("- {id: a, verdict: refuted}\n" if "claims" in name else "\n# changed\n"))
    assert (execution.fingerprint(chapter, book.root) != before) is matters


def test_words_of_the_ledger_do_not_matter_to_an_execution(tmp_path: Path) -> None:
    book = Book.new(tmp_path / "tiny")
    book.chapter("number", ("from hdpm_book import beside", ""))
    book.write("book/beside.py", "FOLDER = 'claims'")
    book.toc(["number"])
    digests = []
    for words in ("verdict: refuted, note: once", "verdict: refuted, note: twice", "verdict: partial, note: once"):
        book.write("data/claims/a.yaml", f"- {{id: a, {words}}}\n")
        digests.append(execution.fingerprint(book.root / "book" / "number.md", book.root))
    assert digests[0] == digests[1] != digests[2]


def test_fingerprint_covers_the_source_of_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = Book.new(tmp_path / "tiny")
    book.chapter("data", ("print(2)", ""), extra="hdpm: {data: [toy]}\n")
    book.toc(["data"])
    digests = set()
    for source in ("real", "stand-in"):
        monkeypatch.setattr("hdpm_book.datasets.source_of", lambda name, source=source: source)
        digests.add(execution.fingerprint(book.root / "book" / "data.md", book.root))
    assert len(digests) == 2


def chapters() -> list[Path]:
    return [path for path in execution.pages(ROOT) if execution.is_chapter(path)]


IMPORTS = """
import json, sys

for code in json.load(sys.stdin):
    for name in [name for name in sys.modules if name.startswith("hdpm_")]:
        del sys.modules[name]
    exec(code, {})
    print(json.dumps([name for name in sys.modules if name.startswith("hdpm_")]))
"""


def test_closure_holds_all_that_the_imports_of_a_page_load() -> None:
    """Python's own answer: what is loaded when the import statements of a page have run."""
    pages, ours = {}, []
    for path in chapters():
        cells = [cell.source for cell in execution.read(path).cells if cell.cell_type == "code"]
        code = pages[path] = re.sub(r"(?m)^\s*[%!].*$", "", "\n".join(cells))
        imports = [ast.unparse(n) for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Import | ast.ImportFrom)]
        ours.append("\n".join(line for line in imports if "hdpm_" in line))
    run = subprocess.run(
        [sys.executable, "-c", IMPORTS], input=json.dumps(ours), capture_output=True, text=True, check=True
    )
    there = execution.modules(ROOT).keys()
    for (page, code), said in zip(pages.items(), run.stdout.splitlines(), strict=True):
        assert there & json.loads(said) <= execution.closure(code, ROOT).keys(), page


# --- what is not executed again ---------------------------------------------------------------------------------------


def test_reuse_looks_at_references_and_executes_what_has_changed(sequels: Sequels) -> None:
    book, ended = sequels.reused
    again = ended()
    assert again.status == 0, again.printed
    assert not (book.root / "book" / "expected.txt").exists()  # the last cell of `outputs` writes it
    references = book.references("numbers")
    references.write_text(references.read_text(encoding="utf8").replace("number 2", "number 5"), encoding="utf8")
    book.write("data/number.txt", "8\n")
    changed = book.test("--reuse", OUTSIDE="again")()
    assert "number 5" in changed.message("numbers", "Cell 1")
    assert changed.of("numbers")["Cell 2"] == "passed"
    assert not (book.root / "book" / "expected.txt").exists()
    files = list(book.root.glob("_build/executed/data.*.ipynb"))
    assert len(files) == 2 and "file 8" in max(files, key=lambda file: file.stat().st_mtime).read_text(encoding="utf8")
