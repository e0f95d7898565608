"""The executor of the book (``conftest.py``, ``book/_ext/execution.py``), tried on a tiny book.

Each way in which a chapter can go wrong must turn the run red and say why; the same chapter in
order must be green. Runs are shared between the tests, since each starts a kernel a chapter, and go
side by side where they may.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import execution
import pytest
import yaml

from tests import apart

LOOKS_AT = ["_config.yml", "_toc.yml", "book/_ext", "conf.py", "conftest.py", "tests/digits.py"]
ROOT = Path(__file__).resolve().parents[2]
CHECKED = ":tags: [nbval-check-output]\n"
HEADER = """---
jupytext:
  text_representation: {{extension: .md, format_name: myst}}
kernelspec: {{display_name: Python 3, language: python, name: python3}}
{extra}---
# {title}
"""


@dataclass(frozen=True)
class Book:
    """A book in a folder of its own, with its own ``hdpm_lib`` and ``hdpm_book``, which hide the
    installed ones.
    """

    root: Path

    @classmethod
    def new(cls, root: Path) -> Book:
        (root / "book" / "_ext").mkdir(parents=True)
        (root / "tests").mkdir()
        for name in ("conf.py", "conftest.py", "tests/digits.py"):
            shutil.copy(ROOT / name, root / name)
        for name in ("dependencies.py", "execution.py"):
            shutil.copy(ROOT / "book" / "_ext" / name, root / "book" / "_ext")
        config = {
            "only_build_toc_files": True,
            "execute": yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf8"))["execute"],
            "sphinx": {"local_extensions": {"execution": "book/_ext"}},
        }
        (root / "hdpm_book").symlink_to("book")
        book = cls(root)
        book.write("_config.yml", yaml.safe_dump(config))
        options = '"-p no:cacheprovider --import-mode=importlib --color=no"'
        warnings = '["ignore:.*IPKernelApp.*"]'
        book.write(
            "pyproject.toml",
            f"[tool.pytest.ini_options]\naddopts = {options}\nfilterwarnings = {warnings}\n",
        )
        book.write("hdpm_lib/__init__.py", "from hdpm_lib.constants import CONSTANT\n")
        book.write("hdpm_lib/constants.py", "CONSTANT = 41\n")
        book.write("hdpm_lib/other.py", "")
        book.write(
            "book/datasets.py",
            "import os\nsource_of = lambda name: os.environ.get('HDPM_DATA', 'real')\n",
        )
        book.write("data/number.txt", "7\n")
        return book

    def copy(self, root: Path) -> Book:
        shutil.copytree(self.root, root, symlinks=True)
        return Book(root)

    def read(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf8")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf8")

    def chapter(self, name: str, *cells: str, extra: str = "") -> None:
        fenced = [f"\n```{{code-cell}} python3\n{code}\n```\n" for code in cells]
        self.write(f"book/{name}.md", HEADER.format(title=name, extra=extra) + "".join(fenced))

    def toc(self, names: Iterable[str]) -> None:
        first, *others = names
        chapters = [{"file": f"book/{name}"} for name in others]
        self.write(
            "_toc.yml",
            yaml.safe_dump({"format": "jb-book", "root": f"book/{first}", "chapters": chapters}),
        )

    def printed(self, name: str) -> list[list[dict[str, list[str]]]]:
        """What the checked cells must print, in order."""
        return [
            entry["output"] for entry in json.loads(self.read(f"tests/refs/{name}.json")).values()
        ]

    def _run(self, program: str, *options: str, **environment: str) -> apart.Ended:
        """Run a program in the book; pytest takes seconds to load plugins that nothing here
        needs.
        """
        inherited = {
            key: value
            for key, value in os.environ.items()
            if key not in ("HDPM_DATA", "HDPM_DATA_DIR")
        }
        own = {
            "PYTHONPATH": str(self.root),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        return apart.start(
            program, *options, folder=self.root, environment=inherited | own | environment
        ).end()

    def test(self, *options: str, where: str = "book", **environment: str) -> SimpleNamespace:
        """Exit status of a run, all it printed, outcome of each item, and chapters that are stored
        after it.
        """
        report = self.root.parent / f"{environment.get('HDPM_DATA', 'real')}.xml"
        done = self._run(
            "pytest:console_main", where, f"--junitxml={report}", *options, **environment
        )
        found: dict[tuple[str, str], tuple[str, str]] = {}
        for case in ElementTree.parse(report).iter("testcase"):
            chapter = case.get("classname", "").removeprefix("book.").removesuffix(".md")
            results = [
                (node.tag, f"{node.get('message')}\n{node.text}")
                for node in case
                if node.tag != "system-out"
            ]
            found[chapter, case.get("name", "")] = results[0] if results else ("passed", "")
        stored = {file.name.partition(".")[0] for file in self.executed()}
        return SimpleNamespace(
            status=done.status, printed=done.printed, outcomes=found, stored=stored
        )

    def build(self, **environment: str) -> apart.Ended:
        options = "-E -W --keep-going -n -q -d _build/.doctrees . _build/html".split()
        return self._run("sphinx.cmd.build:main", *options, **environment)

    def executed(self, chapter: str = "*") -> list[Path]:
        """What is stored of a chapter, the oldest first."""
        return sorted(
            self.root.glob(f"_build/executed/{chapter}.*.ipynb"),
            key=lambda file: file.stat().st_mtime,
        )

    def shown(self, name: str) -> str:
        """Outputs on the built page of a chapter."""
        html = self.read(f"_build/html/book/{name}.html")
        return " ".join(
            re.findall(r'<div class="cell_output.*?</div>\n</div>', html, flags=re.DOTALL)
        )


# --- the book in order, and the same book with everything wrong in it ---------------------------

SHOUT = "import warnings\nif x > 2: warnings.warn('look out')"
NAMED = "---\nmystnb: {figure: {caption: One., name: fig-one}}\n---\n"
LATER = "open('later.txt', 'w').close()"
PAGES = ("numbers", "exception", "outputs", "verdict", "data")
DECIDES = """import hdpm_lib
class LedgerMismatch(Exception):
    pass
if hdpm_lib.CONSTANT > 41: raise LedgerMismatch('the ledger says 41')"""


def in_order(root: Path) -> Book:
    book = Book.new(root)
    book.chapter(
        "numbers",
        "import hdpm_lib\nx = 1 + 1",
        CHECKED + "print('number', x)",
        CHECKED + "print('constant', hdpm_lib.CONSTANT)",
        SHOUT,
        CHECKED + "z = 2",
        CHECKED + "print('first')",
        CHECKED + "print('second')",
        NAMED + "for _ in range(x - 1): display('drawn')",
    )
    book.chapter("exception", "y = 1", "assert y == 1", LATER)
    book.chapter("verdict", DECIDES)
    book.chapter(
        "outputs",
        CHECKED.replace("[", "[raises-exception, ") + "1 / 0",
        "import os\nprint('outside', os.environ['OUTSIDE'])",
        CHECKED + "print('drawn')\ndisplay({'text/html': os.environ['OUTSIDE']}, raw=True)",
        CHECKED + "v = 5\nv;",
        CHECKED + "v",
        CHECKED + "print('no end of line', end='')",
        LATER.replace("later", "expected"),
    )
    book.chapter(
        "data",
        "print('file', open('../data/number.txt').read())",
        CHECKED + "from hdpm_book import datasets\nprint('source', datasets.source_of('toy'))",
        extra="hdpm: {data: [toy]}\n",
    )
    book.toc(PAGES)
    return book


def put_wrong(book: Book) -> None:
    shutil.rmtree(book.root / "_build")
    page = (
        book.read("book/numbers.md")
        .replace("1 + 1", "1 + 2")
        .replace("z = 2", "z = 3")
        .replace("first", "1st")
    )
    book.write(
        "book/numbers.md", page.replace(CHECKED + "print('second')", "print('second, edited')")
    )
    book.write("hdpm_lib/constants.py", "CONSTANT = 42\n")
    book.chapter("exception", "y = 2", "assert y == 1", LATER)
    for name in ("tests/refs/data.real.json", "book/later.txt", "book/expected.txt"):
        (book.root / name).unlink()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The book in order, the book with everything wrong, and the runs that the tests read."""
    book = in_order(tmp_path_factory.mktemp("order") / "tiny")
    wrong = tmp_path_factory.mktemp("wrong") / "tiny"
    found = SimpleNamespace(book=book)
    with ThreadPoolExecutor() as pool:
        stand_in = pool.submit(book.test, "--update-refs", "--data-dependent", HDPM_DATA="stand-in")
        found.updated = book.test("--update-refs", OUTSIDE="a picture")
        found.stand_in = stand_in.result()
        found.wrong = book.copy(wrong)
        put_wrong(found.wrong)
        found.good, found.bad = pool.map(
            lambda one: one.test(OUTSIDE="before"), (book, found.wrong)
        )
    return found


def test_update_writes_references(runs: SimpleNamespace) -> None:
    assert runs.updated.status == 0, runs.updated.printed
    said = ["number 2", "constant 41", None, "first", "second"]
    assert runs.book.printed("numbers") == [
        [{"stdout": [words]}] if words else [] for words in said
    ]
    # it has no checked cell
    assert not (runs.book.root / "tests" / "refs" / "exception.json").exists()
    assert runs.book.printed("outputs") == [
        [{"error": ["ZeroDivisionError: division by zero"]}],
        [{"stdout": ["drawn"]}, {"text/plain": []}],  # pictures and HTML are not kept
        [],
        [{"text/plain": ["5"]}],
        [{"stdout": ["no end of line"]}],
    ]


def test_a_book_in_order_passes_and_is_stored(runs: SimpleNamespace) -> None:
    """With another picture than when the references were written."""
    assert set(dict(runs.good.outcomes.values())) == {"passed"}, runs.good.printed
    assert runs.good.status == 0 and runs.good.stored == set(PAGES)


WRONG = {
    ("numbers", "Cell 1"): ["Cell outputs differ", "number 2", "number 3"],
    ("numbers", "Cell 2"): ["constant 41", "constant 42"],  # the library has changed
    ("numbers", "Cell 3"): ["The cell wrote to stderr", "look out"],
    ("numbers", "Cell 4"): ["No reference in"],  # a cell that prints nothing
    ("numbers", "Cell 5"): ["No reference in", "numbers.json"],
    ("numbers", "Cell 7"): ["shows more than the figure", "drawn"],
    ("numbers", "references"): ["stale references", "print('second')"],
    ("exception", "Cell 1"): ["Cell execution caused an exception", "AssertionError"],
    ("verdict", "Cell 0"): ["Cell 0: the ledger says 41"],
    # the stand-in's does not serve instead
    ("data", "Cell 1"): ["No reference in", "data.real.json"],
}


@pytest.mark.parametrize(("chapter", "item"), WRONG)
def test_what_is_wrong_fails_and_says_why(runs: SimpleNamespace, chapter: str, item: str) -> None:
    outcome, message = runs.bad.outcomes[chapter, item]
    assert outcome == "failure" and all(words in message for words in WRONG[chapter, item]), message
    assert chapter != "verdict" or len(message.splitlines()) < 4


def test_nothing_else_fails_or_is_stored_and_an_exception_stops_its_chapter(
    runs: SimpleNamespace,
) -> None:
    assert {
        item for item, (outcome, _) in runs.bad.outcomes.items() if outcome == "failure"
    } == WRONG.keys()
    assert runs.bad.status == 1 and runs.bad.stored == {"outputs"}
    outcome, message = runs.bad.outcomes["exception", "Cell 2"]
    assert outcome == "skipped" and "the chapter stopped at cell 1" in message
    # the last cell writes it when all is well
    assert (runs.book.root / "book" / "later.txt").exists()
    assert not (runs.wrong.root / "book" / "later.txt").exists()
    assert (runs.wrong.root / "book" / "expected.txt").exists()  # unless it is expected


def test_references_are_chosen_by_source_of_data(runs: SimpleNamespace) -> None:
    assert runs.stand_in.status == 0
    assert {chapter for chapter, _ in runs.stand_in.outcomes} == {"data"}  # --data-dependent
    for source in ("real", "stand-in"):
        assert runs.book.printed(f"data.{source}") == [[{"stdout": [f"source {source}"]}]]
    assert not (runs.book.root / "tests" / "refs" / "data.json").exists()


def test_code_cells_without_a_header_fail(tmp_path: Path) -> None:
    (tmp_path / "plain.md").write_text("```{code-cell} python3\nprint(1)\n```\n", encoding="utf8")
    with pytest.raises(ValueError, match=r"plain\.md has code cells but no jupytext header"):
        execution.is_chapter(tmp_path / "plain.md")  # pytest asks of each page


# --- the built book, and what is not executed again ---------------------------------------------


def test_book_shows_what_was_tested_and_fails_on_errors(
    runs: SimpleNamespace, tmp_path: Path
) -> None:
    book = runs.book.copy(tmp_path / "tiny")
    book.toc(["numbers", "outputs", "data"])
    run = book.build(OUTSIDE="built")
    assert run.status == 0, run.printed
    assert "constant 41" in book.shown("numbers")
    book.write("hdpm_lib/constants.py", "CONSTANT = 43\n")  # the code of no chapter changes
    book.write("data/number.txt", "8\n")
    book.chapter("exception", "raise RuntimeError('no such market')")
    book.chapter("warning", "x = 3", SHOUT)
    book.toc([*PAGES, "warning"])
    run = book.build(OUTSIDE="built")
    assert run.status != 0
    assert re.search(r"exception\.md.*Executing notebook failed", run.printed)
    assert re.search(r"warning\.md.*stderr was found in the cell outputs", run.printed)
    assert not re.search(r"(numbers|outputs|data)\.md", run.printed)
    # with --keep-going the other pages are there to look at
    assert "constant 43" in book.shown("numbers")
    assert "file 8" in book.shown("data")
    # it does not import the library; anew it would be "outside built"
    assert "outside before" in book.shown("outputs")


def test_reuse_looks_at_references_and_executes_what_has_changed(
    runs: SimpleNamespace, tmp_path: Path
) -> None:
    book = runs.book.copy(tmp_path / "tiny")
    book.toc(["numbers", "outputs", "data"])
    (book.root / "book" / "expected.txt").unlink()
    again = book.test("--reuse", OUTSIDE="again")
    assert again.status == 0, again.printed
    # the last cell of `outputs` writes it
    assert not (book.root / "book" / "expected.txt").exists()
    book.write(
        "tests/refs/numbers.json",
        book.read("tests/refs/numbers.json").replace("number 2", "number 5"),
    )
    book.write("data/number.txt", "8\n")
    changed = book.test("--reuse", OUTSIDE="again")
    outcome, message = changed.outcomes["numbers", "Cell 1"]
    assert outcome == "failure" and "number 5" in message
    assert changed.outcomes["numbers", "Cell 2"][0] == "passed"
    assert not (book.root / "book" / "expected.txt").exists()
    assert "file 8" in book.executed("data")[-1].read_text(encoding="utf8")


def test_examples_of_the_modules_of_the_book_are_tests_of_their_own(tmp_path: Path) -> None:
    book = Book.new(tmp_path / "tiny")
    book.toc(["none"])
    for name, value in (("good", 2), ("bad", 3)):
        book.write(
            f"book/{name}.py",
            f'def two():\n    """\n    >>> two()\n    {value}\n    """\n    return 2\n',
        )
    book.write("book/none.py", "def two():\n    return 2\n")

    def run() -> dict[str, str]:
        found = book.test("--reuse").outcomes
        return {
            place.rpartition(".")[0] or place: outcome for (place, _), (outcome, _) in found.items()
        }

    assert run() == {"good": "passed", "bad": "failure"}
    assert run() == {"bad": "failure"}
    book.write("book/good.py", book.read("book/good.py").replace("    2\n", "    3\n", 1))
    assert run() == {"good": "failure", "bad": "failure"}


TESTS = {
    "right": (
        "from hdpm_lib.other import VALUE\ndef test_value(): assert VALUE\ndef test_more():"
        " assert 2"
    ),
    "wrong": "def test_wrong(): assert 0",
    "partly": (
        "import os, pytest\ndef test_one(): pass\ndef test_other():\n"
        "    if not os.path.exists('browser'): pytest.skip('no browser')\n"
        "    assert open('browser').read() == 'fast'"
    ),
    "absent": "import pytest\npytest.importorskip('absent')\ndef test_absent(): pass",
    "none": "open('re' + 'ad', 'a').write('once')",
    "broken": "import pytest\n@pytest.mark.xfail(strict=True)\ndef test_broken(): assert 0",
    "around": "def test_here(): assert open(__file__)",
}


def test_reuse_leaves_out_tests_that_have_passed_until_something_changes(tmp_path: Path) -> None:
    book = Book.new(tmp_path / "tiny")
    book.toc(["none"])
    book.write("hdpm_lib/other.py", "VALUE = 1\n")
    for name, code in TESTS.items():
        book.write(f"tests/test_{name}.py", code + "\n")

    def run(*options: str, where: str = "tests") -> set[str]:
        """Tests that were run, or skipped because of what is missing."""
        return {name for _, name in book.test("--reuse", *options, where=where).outcomes}

    every = {
        "test_value",
        "test_more",
        "test_wrong",
        "test_one",
        "test_other",
        "test_broken",
        "test_here",
        "tests.test_absent",
    }
    again = {"test_wrong", "test_other", "tests.test_absent"}
    assert run(where="tests/test_right.py::test_more") == {"test_more"}
    assert run("-k", "more") == {
        "test_more",
        "tests.test_absent",
    }  # neither of these was the whole file
    assert run() == every
    read = book.read("read")
    assert run() == again and book.read("read") == read  # it has no tests
    book.write("hdpm_lib/other.py", '"""Words."""\n\nVALUE = 1  # words\n')
    assert run() == again
    book.write("hdpm_lib/another.py", "OTHER = 1\n")
    assert run() == again | {"test_here"}  # which looks around
    book.write("hdpm_lib/other.py", "VALUE = 2\n")
    assert run() == every - {"test_one", "test_broken"}
    # what was missing is there
    book.write("absent.py", "")
    book.write("browser", "slow")
    seen = {"test_one", "test_other"}  # whose file names the browser
    assert run() == seen | {"test_wrong", "test_absent", "test_here"}
    book.write("browser", "fast")
    assert run() == seen | {"test_wrong", "test_here"}
    assert run() == {"test_wrong"}


def test_processes_begin_for_what_has_to_be_run(tmp_path: Path) -> None:
    book = Book.new(tmp_path / "tiny")
    book.chapter("one", "1")
    book.toc(["one"])
    book.write("hdpm_lib/other.py", "VALUE = 1\n")
    for name, value in (("a", 1), ("b", 1), ("c", 2)):
        book.write(
            f"tests/test_{name}.py",
            f"from hdpm_lib.other import VALUE\ndef test_{name}(): assert VALUE == {value}\n",
        )

    def run() -> tuple[bool, set[str]]:
        """Whether processes were started, and the tests that were run."""
        done = book.test("--reuse", *"-p xdist.plugin -n auto --dist loadfile".split(), where=".")
        return bool(re.search(r"\d workers? \[", done.printed)), {
            name for chapter, name in done.outcomes if chapter != "one"
        }

    assert run() == (True, {"test_a", "test_b", "test_c"})
    assert run() == (False, {"test_c"})
    book.write("hdpm_lib/other.py", "VALUE = 2\n")
    assert run() == (True, {"test_a", "test_b", "test_c"})
    assert run() == (True, {"test_a", "test_b"})


# --- what outputs and passes depend on ----------------------------------------------------------

INNER = """
FILES = ('number.txt', 'claims/*.yaml', 'trained', 'cache')
FEW = 3

def told(x):
    return FEW * x
"""
NAMES_IN_TEXTS = """
PATCHED = 'hdpm_lib.wing.patched.function'
STARTED = 'import os; from hdpm_lib.wing import started'
READ = 'terms.yaml'
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Book:
    """A chapter and a file of tests, with something of each kind that they depend on."""
    book = Book.new(tmp_path / "tiny")
    book.chapter(
        "number",
        "%matplotlib inline\nfrom hdpm_lib import public\nfrom hdpm_book import beside\n"
        "public()\nbeside.shown",
    )
    book.write("hdpm_lib/__init__.pyi", "from .wing.public import public as public")
    book.write(
        "hdpm_lib/wing/public.py",
        'def public():\n    """What it is."""\n    from hdpm_lib.wing import inner\n'
        "    return inner.FILES, inner.told(1)\n",
    )
    book.write("hdpm_lib/wing/inner.py", INNER)
    for name in ("patched", "started"):
        book.write(f"hdpm_lib/wing/{name}.py", "")
    book.write("notes/terms.yaml", "")
    book.write("book/beside.py", "shown = 1\n")
    book.write("data/claims/old.yaml", "- id: a\n  verdict: refuted\n")
    book.write("data/others/old.yaml", "")
    book.write("data/cache/raw.csv", "")
    book.write(
        "tests/room/test_it.py",
        '"""Of it.\n\n>>> 1 + 1\n2\n"""\n\nfrom tests import helper\n\nhelper.help()\n',
    )
    book.write("tests/room/conftest.py", "import hdpm_book.beside\n\nhdpm_book.beside.shown\n")
    book.write("tests/helper.py", "from hdpm_lib import public\n\ndef help():\n    public()\n")
    book.write("tests/room/conftest.py", NAMES_IN_TEXTS + book.read("tests/room/conftest.py"))
    return book


def fingerprints(book: Book) -> list[str]:
    """Of the chapter, and of the tests."""
    chapter, tests = (book.root / name for name in ("book/number.md", "tests/room/test_it.py"))
    return [
        execution.fingerprint(chapter, book.root),
        execution.fingerprint_of_tests(tests, book.root),
    ]


@pytest.mark.parametrize(
    ("name", "added", "matters"),  # to the chapter, and to the tests
    [
        ("hdpm_lib/__init__.py", "print('runs')", (True, True)),
        ("hdpm_lib/__init__.py", "CHANGED = 1", (True, True)),
        ("hdpm_lib/wing/inner.py", "FILES += ('more',)", (True, True)),
        ("hdpm_lib/wing/inner.py", "FEW = 4", (True, True)),
        ("hdpm_lib/wing/patched.py", "CHANGED = 1", (False, True)),  # a test puts something there
        ("hdpm_lib/wing/started.py", "CHANGED = 1", (False, True)),  # or starts it
        ("hdpm_lib/wing/inner.py", "def unused(): return 2", (True, True)),
        ("hdpm_lib/other.py", "print('runs')", (False, False)),  # neither imports it
        ("hdpm_lib/other.py", "CHANGED = 1", (False, False)),
        ("book/number.md", "```{code-cell} python3\nx = 2\n```", (True, False)),
        ("book/number.md", "```{code-cell} python3\n# shown\n```", (True, False)),
        ("book/number.md", "Words.", (False, False)),
        ("book/beside.py", "shown = 2", (True, True)),
        ("data/number.txt", "8", (True, True)),
        ("data/claims/old.yaml", "  verdict: partial", (True, True)),
        ("data/claims/new.yaml", "- {id: b, verdict: refuted}", (True, True)),
        ("data/others/new.yaml", "", (False, False)),
        ("data/cache/download.csv", "", (False, False)),
        ("hdpm_lib/trained/weights.csv", "1", (True, True)),
        ("requirements.txt", "numpy", (True, True)),
        ("tests/room/test_it.py", "CHANGED = 1", (False, True)),
        ("tests/room/conftest.py", "CHANGED = 1", (False, True)),
        ("tests/helper.py", "def help(): pass", (False, True)),
        ("tests/test_other.py", "CHANGED = 1", (False, False)),
        ("conftest.py", "CHANGED = 1", (True, True)),
        ("notes/terms.yaml", "CHANGED: 1", (False, True)),
        ("notes/others.yaml", "CHANGED: 1", (False, False)),
        ("pyproject.toml", "minversion = '1'", (False, True)),
    ],
)
def test_fingerprints_cover_what_matters(
    tiny: Book, name: str, added: str, matters: tuple[bool, bool]
) -> None:
    before = fingerprints(tiny)
    assert fingerprints(tiny) == before
    kept = tiny.read(name) if (tiny.root / name).exists() else ""
    tiny.write(name, f"{kept}{added}\n")
    assert tuple(a != b for a, b in zip(before, fingerprints(tiny), strict=True)) == matters


@pytest.mark.parametrize(
    "name",
    [
        "hdpm_lib/__init__.py",
        "hdpm_lib/wing/public.py",
        "book/beside.py",
        "tests/room/test_it.py",
        "tests/room/conftest.py",
        "tests/helper.py",
        "conftest.py",
        "pyproject.toml",
    ],
)
def test_comments_docstrings_and_layout_change_no_fingerprint(tiny: Book, name: str) -> None:
    before = fingerprints(tiny)
    changed = tiny.read(name).replace("What it is", "Changed").replace("Of it", "Changed")
    tiny.write(name, f"# changed\n\n{changed}\n\n# changed\n")
    assert fingerprints(tiny) == before


@pytest.mark.parametrize(
    ("old", "new", "matters"),
    [
        # the example in a docstring is a test, of its own file
        ("1 + 1", "1 + 2", (False, True)),
        ("\n2\n", "\n3\n", (False, True)),
        ("from tests import helper", "from tests import other as helper", (False, True)),
    ],
)
def test_examples_are_tests(tiny: Book, old: str, new: str, matters: tuple[bool, bool]) -> None:
    before = fingerprints(tiny)
    tiny.write("tests/room/test_it.py", tiny.read("tests/room/test_it.py").replace(old, new))
    assert tuple(a != b for a, b in zip(before, fingerprints(tiny), strict=True)) == matters


def test_what_an_example_alone_calls_counts(tiny: Book) -> None:
    own = tiny.read("tests/room/test_it.py").replace("1 + 1", "outside()")
    line = "from tests import helper"
    tiny.write("tests/room/test_it.py", own.replace(line, f"{line}\nfrom tests.far import outside"))
    found = []
    for number in (2, 3):
        tiny.write("tests/far.py", f"def outside():\n    return {number}\n")
        found.append(fingerprints(tiny)[1])
    assert found[0] != found[1]


def test_fingerprints_cover_settings(tiny: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.chapter("number", "x = 1", extra="hdpm: {data: [toy]}\n")
    found = set()
    for source, seed in (("real", "0"), ("stand-in", "1")):
        monkeypatch.setattr("hdpm_book.datasets.source_of", lambda name, source=source: source)
        monkeypatch.setenv("HDPM_TEST_SEED", seed)
        found |= set(fingerprints(tiny))
    assert len(found) == 4


def test_tests_that_look_around_depend_on_all_or_on_what_they_say(tiny: Book) -> None:
    def depends_on(name: str) -> bool:
        before = fingerprints(tiny)[1]
        tiny.write(name, f"{tiny.read(name)}\n# {name}\nCHANGED = '{len(tiny.read(name))}'\n")
        return fingerprints(tiny)[1] != before

    tiny.write("book/_ext/other.py", "")
    own = tiny.read("tests/room/test_it.py")
    for looked_at, found in (("", True), ("LOOKS_AT = []\n", False), ("LOOKS_AT = ['book']", True)):
        tiny.write("tests/room/test_it.py", own + looked_at)
        tiny.write(
            "tests/helper.py", f"from subprocess import run\ndef help():\n    run({found})\n"
        )
        assert depends_on("book/_ext/other.py") == found
        assert depends_on("hdpm_lib/other.py") == (looked_at == "")


def test_of_a_ledger_the_entries_count_that_are_named(tiny: Book) -> None:
    tiny.write(
        "book/ledger.py",
        "CLAIMS = 'claims'\ndef load(): return CLAIMS\ndef decide(claim): return claim in load()\n",
    )
    tiny.write("data/claims/old.yaml", "- {id: a, verdict: refuted}\n- {id: b, verdict: partial}\n")
    for call, one in (("decide('a')", True), ("load()", False)):
        tiny.chapter("number", f"from hdpm_book import ledger\nledger.{call}")
        before = fingerprints(tiny)[0]
        for name, matters in (("a", True), ("b", not one)):
            kept = tiny.read("data/claims/old.yaml")
            changed = kept.replace(f"id: {name}, verdict: ", f"id: {name}, verdict: not ")
            assert changed != kept
            tiny.write("data/claims/old.yaml", changed)
            assert (fingerprints(tiny)[0] != before) is matters, (call, name)
            tiny.write("data/claims/old.yaml", kept)


SEEN = """
import sys
from pathlib import Path
from tests import apart

apart._context.set_forkserver_preload(["hdpm_book.plots", "numpy"])  # as if others were first
said = apart.start("seen:tell", folder=Path(sys.argv[1])).end()
print(said.printed)
sys.exit(said.status)
"""


def test_a_program_apart_has_no_modules_of_ours_whoever_was_first(tmp_path: Path) -> None:
    code = (
        "import sys\n\ndef tell():\n    ours = [n for n in sys.modules if n.startswith('hdpm_')]\n"
        "    print(ours, 'numpy' in sys.modules)\n"
    )
    (tmp_path / "seen.py").write_text(code, "utf8")
    run = subprocess.run(
        [sys.executable, "-c", SEEN, str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert run.stdout.strip() == "[] True", run.stderr
