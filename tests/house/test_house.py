"""How the house is kept: the locks, the floors of the library, the pages and what is stored for
them.

A check that could miss what it looks for is a function that returns its complaints; it is asked
about bad examples too.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from graphlib import TopologicalSorter
from itertools import combinations
from pathlib import Path

import dependencies
import execution
import pages
import pytest
from packaging.utils import canonicalize_name

from tests.format_chapters import not_ignored
from tests.public import public_names

ROOT = Path(__file__).resolve().parents[2]
ALL = dependencies.Sources(ROOT)
SOURCES = {
    name: path.read_text(encoding="utf8") for name, path in dependencies.modules(ROOT).items()
}


# --- the locks ----------------------------------------------------------------------------------

LOCKS = ("requirements", "requirements-cluster", "requirements-flower", "requirements-simulation")
PINNED = re.compile(
    r"[\w.-]+(\[[\w,.-]+\])?==[\w.!+-]+( ; [^\\]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?"
)


def pins(name: str) -> dict[str, str]:
    found = re.findall(
        r"(?m)^([\w.-]+)(?:\[.*\])?==(\S+)", (ROOT / f"{name}.txt").read_text(encoding="utf8")
    )
    return {canonicalize_name(package): version for package, version in found}


@pytest.mark.parametrize("name", LOCKS)
def test_lock_is_complete_and_all_of_it_hashed_releases(name: str) -> None:
    lock, chosen = ((ROOT / f"{name}.{end}").read_text(encoding="utf8") for end in ("txt", "in"))
    assert [line for line in lock.splitlines() if not PINNED.fullmatch(line)] == []
    assert {canonicalize_name(package) for package in re.findall(r"(?m)^[\w.-]+", chosen)} <= pins(
        name
    ).keys()


def test_line_of_a_bad_lock_is_found() -> None:
    unhashed = ("numpy==2.0", "    --hash=md5:00")
    elsewhere = ("numpy @ https://example.org/numpy.whl \\", "-e .")
    assert not any(
        map(
            PINNED.fullmatch,
            (*unhashed, *elsewhere, "numpy>=2.0 \\", "--index-url https://example.org"),
        )
    )


def test_locks_agree() -> None:
    """What two locks name they pin to one version."""
    for one, other in combinations(map(pins, LOCKS), 2):
        shared = one.keys() & other.keys()
        assert len(shared) > 3 and all(one[package] == other[package] for package in shared)


# --- hdpm_lib, hdpm_owner and hdpm_book ---------------------------------------------------------

# What each part may import besides itself and the ground floor of the library, which is "".
MAY: dict[str, tuple[str, ...]] = {
    "": (),
    "learners": (),
    "markets": (),
    "auctions": ("markets",),
    "audits": ("learners",),
    # a whole market: purchase, payments and learner
    "designs": ("learners", "markets", "auctions"),
}
MAY |= {"hdpm_owner": tuple(MAY), "hdpm_book": (*MAY, "hdpm_owner")}


def part(module: str) -> str:
    package, _, rest = module.partition(".")
    folder = rest.partition(".")[0]
    return package if package != "hdpm_lib" else folder if folder in MAY else ""


def imported(source: str) -> set[str]:
    """Modules of ours that a source imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            above = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for name in (above + alias.name for alias in node.names):
                ways = [name.rsplit(".", k)[0] for k in range(name.count(".") + 1)]
                found |= {next((way for way in ways if way in SOURCES), "")}
    return found - {"", "hdpm_lib", "hdpm_owner", "hdpm_book"}


def module_complaints(name: str, source: str) -> list[str]:
    """Imports up to the book or of a part that does not concern this one; and those that hide where
    they lead.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            public = node.module == "hdpm_lib" and any(
                f"hdpm_lib.{alias.name}" not in SOURCES for alias in node.names
            )
            found += (
                [f"{name}: {ast.unparse(node)}: write the module in full"]
                if node.level or public
                else []
            )
    known = ("", part(name), *MAY[part(name)])
    return found + [
        f"{name} imports {other}" for other in sorted(imported(source)) if part(other) not in known
    ]


@pytest.mark.parametrize("name", SOURCES)
def test_module_stands_in_its_part(name: str) -> None:
    assert module_complaints(name, SOURCES[name]) == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    TopologicalSorter(
        {name: imported(source) - {name} for name, source in SOURCES.items()}
    ).prepare()


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("hdpm_lib.noise", "def f():\n    from hdpm_lib.learners import ridge"),
        ("hdpm_lib.noise", "import hdpm_lib.learners.ridge as r"),
        ("hdpm_lib.noise", "from .learners.ridge import output_perturbation"),
        ("hdpm_lib.noise", "from hdpm_lib import output_perturbation"),
        ("hdpm_lib.learners.fedsgd", "from hdpm_lib.auctions.allin import all_in"),
        ("hdpm_lib.learners.ridge", "from hdpm_book import plots"),
        ("hdpm_lib.accounts", "from hdpm_owner.ledger import Ledger"),
    ],
)
def test_bad_module_is_found(name: str, source: str) -> None:
    good = (
        "import numpy\nfrom hdpm_lib import validation\nfrom hdpm_lib.learners.queries import"
        " linear_query"
    )
    assert module_complaints("hdpm_lib.audits.meters", good) == []
    assert len(module_complaints(name, source)) == 1


def test_the_face_of_the_library_is_small() -> None:
    assert 40 <= len(public_names()) <= 45


def test_every_module_is_on_a_reference_page() -> None:
    shown = "\n".join(
        path.read_text(encoding="utf8") for path in (ROOT / "book" / "reference").rglob("*.md")
    )
    listed = re.findall(r"(?m)^\.\. automodule:: (\S+)$", shown)
    packages = {name.rpartition(".")[0] for name in SOURCES}
    assert sorted(listed) == sorted(set(SOURCES) - packages)


# --- pages, and what is stored for them ---------------------------------------------------------


def page_complaints(root: Path) -> list[str]:
    """Pages that are not in the contents, and references of pages that are gone."""
    named = execution.pages(root)
    references = root / "tests" / "refs"
    written = not_ignored((root / "book").rglob("*.md"))
    there = {path for path in written if path.relative_to(root / "book").parts[0][0] != "_"}
    found = [f"not in _toc.yml: {path.relative_to(root)}" for path in sorted(there - set(named))]
    for path in sorted(references.rglob("*.json")):
        page = (root / "book" / path.relative_to(references)).with_suffix("")
        names = {page.name.removesuffix(source) + ".md" for source in ("", ".real", ".stand-in")}
        if not any(page.with_name(name) in named for name in names):
            found.append(f"references of no page: {path.relative_to(root)}")
    return found


def test_pages_and_references_match_the_contents() -> None:
    assert page_complaints(ROOT) == []


def test_each_page_has_a_sentence_and_a_title_of_its_own() -> None:
    contents = re.findall(r"title: (.*)", (ROOT / "_toc.yml").read_text(encoding="utf8"))
    headlines = [
        re.findall(r"(?m)^# .*$", execution.read(page).cells[0].source)[0]
        for page in execution.pages(ROOT)
    ]
    sentences = [pages.head(page).get("description", "") for page in execution.pages(ROOT)]
    assert [words for words in sentences if not 20 <= len(words) <= 160] == []
    assert [
        words for words, times in Counter([*contents, *headlines, *sentences]).items() if times > 1
    ] == []


def test_bad_contents_are_found(tmp_path: Path) -> None:
    names = ["index.json", "ridge/idea.real.json", "ridge/idea.stand-in.json"]
    pages = ["index.md", "ridge/idea.md", "_ext/notes.md"]
    for path in [tmp_path / "book" / name for name in pages] + [
        tmp_path / "tests" / "refs" / name for name in names
    ]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "_toc.yml").write_text(
        "root: book/index\nchapters:\n- file: book/ridge/idea\n", encoding="utf8"
    )
    assert page_complaints(tmp_path) == []
    (tmp_path / "_toc.yml").write_text("root: book/index\n", encoding="utf8")
    assert page_complaints(tmp_path) == [
        "not in _toc.yml: book/ridge/idea.md",
        "references of no page: tests/refs/ridge/idea.real.json",
        "references of no page: tests/refs/ridge/idea.stand-in.json",
    ]


TAGS = set(
    """nbval-check-output raises-exception hide-input hide-output hide-cell remove-input
    remove-output remove-cell full-width margin output_scroll""".split()
)


def chapter_complaints(path: Path) -> list[str]:
    """Tags of cells that nobody knows, and a paper's code that does not use the library."""
    page = execution.read(path)
    cells = execution.code_cells(page)
    found = [
        f"unknown tag {tag}"
        for cell in cells
        for tag in cell.metadata.get("tags", [])
        if tag not in TAGS
    ]
    found += [
        "marks of nbval are tags here, not comments" for cell in cells if "NBVAL_" in cell.source
    ]
    used = ALL.reached(execution.python(page)) & SOURCES.keys() - {"hdpm_lib", "hdpm_book"}
    return found + (
        ["does not import from hdpm_lib"]
        if cells and path.parent.name != "book" and not used
        else []
    )


CHAPTERS = [path for path in execution.pages(ROOT) if execution.is_chapter(path)]


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_chapter_leaves_the_work_to_the_library(path: Path) -> None:
    assert chapter_complaints(path) == []


@pytest.mark.parametrize(
    ("code", "complaints"),
    [
        (
            (
                ":tags: [hide-input]\n%matplotlib inline\nfrom hdpm_lib import procure\ndef"
                " ours(x):\n    return x"
            ),
            [],
        ),
        (
            ":tags: [nbval-check-outputs]\nimport hdpm_lib.noise",
            ["unknown tag nbval-check-outputs"],
        ),
        (
            "# NBVAL_CHECK_OUTPUT\nimport hdpm_lib.noise",
            ["marks of nbval are tags here, not comments"],
        ),
        ("import numpy as np", ["does not import from hdpm_lib"]),
    ],
    ids=["good", "tag", "comment", "import"],
)
def test_bad_chapter_is_found(tmp_path: Path, code: str, complaints: list[str]) -> None:
    head = "---\njupytext:\n  text_representation: {extension: .md, format_name: myst}\n---\n"
    (tmp_path / "page.md").write_text(f"{head}```{{code-cell}}\n{code}\n```\n", encoding="utf8")
    assert chapter_complaints(tmp_path / "page.md") == complaints


def test_of_jupyter_book_nothing_is_used_but_the_command() -> None:
    """Its first version gets no more releases: the book must do without it one day."""
    found = [
        path
        for folder in ("book", "hdpm_lib", "flower", "tests")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"(import|from) jupyter_book|jupyter_book\.", path.read_text(encoding="utf8"))
    ]
    assert found == []


def test_no_notebook_is_tracked() -> None:
    assert not subprocess.run(
        ["git", "ls-files", "*.ipynb"], cwd=ROOT, stdout=subprocess.PIPE, check=False
    ).stdout
