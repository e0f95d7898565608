"""How the house is kept: the lock, the floors of the library, the pages and what is stored for them.

Each check is a function that returns its complaints; it is asked about the repository, and about a bad example.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterable
from itertools import combinations, pairwise
from pathlib import Path

import execution
import pytest
import yaml

from tests.format_chapters import not_ignored
from tests.house.volume import lines_of_code, public_names, volume
from tests.site import check

ROOT = Path(__file__).resolve().parents[2]
WINGS = ("learners", "markets", "auctions", "audits", "designs")
# What the folders of the library may import besides the ground floor and themselves.
MAY = {
    "learners": (),
    "markets": (),
    "auctions": ("markets",),
    "audits": ("learners",),
    "designs": ("learners", "markets", "auctions"),  # a whole market: purchase, payments and learner
}
TAGS = set(
    """nbval-check-output raises-exception hide-input hide-output hide-cell remove-input remove-output remove-cell
    full-width margin output_scroll""".split()
)


# --- requirements.txt -------------------------------------------------------------------------------------------------


def lock_complaints(lock: str, chosen: str) -> list[str]:
    """Lines of a lock that are not a hashed release from the index, and chosen packages that are not in it."""
    found, locked = [], set()
    for line in re.sub(r"\\\n", " ", lock).splitlines():
        line = line.split(" #")[0].strip()
        if not line or line.startswith("#"):
            continue
        release, *hashes = line.split(" --hash=")
        match = re.fullmatch(r"([\w.-]+)(\[[\w,.-]+\])?==[\w.!+-]+(\s*;.*)?", release.strip())
        if match is None:
            found.append(f"not a pinned release from the index: {line[:80]}")
        elif not hashes or not all(re.fullmatch(r"sha256:[0-9a-f]{64}", value.strip()) for value in hashes):
            found.append(f"without a sha256 hash: {release.strip()}")
        else:
            locked.add(_canonical(match[1]))
    names = [re.match(r"[\w.-]+", line) for line in chosen.splitlines() if not line.lstrip().startswith("#")]
    wanted = {_canonical(name[0]) for name in names if name}
    return found + [f"not in the lock: {name}" for name in sorted(wanted - locked)]


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


EXTRAS = ("cluster", "flower", "simulation")


def test_lock_is_hashed_and_complete() -> None:
    for name in ("requirements", *(f"requirements-{extra}" for extra in EXTRAS)):
        lock, chosen = ((ROOT / f"{name}.{end}").read_text(encoding="utf8") for end in ("txt", "in"))
        assert lock_complaints(lock, chosen) == []


def test_locks_agree() -> None:
    """What two locks name they pin to one version."""
    pins = []
    for name in ("requirements.txt", *(f"requirements-{extra}.txt" for extra in EXTRAS)):
        found = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / name).read_text(encoding="utf8"), flags=re.M)
        pins.append({_canonical(package): version for package, version in found})
    for one, other in combinations(pins, 2):
        shared = one.keys() & other.keys()
        assert len(shared) > 3
        assert {package: one[package] for package in shared} == {package: other[package] for package in shared}


HASH = "--hash=sha256:" + "0" * 64


@pytest.mark.parametrize(
    "lock",
    [
        "numpy==2.0",
        "numpy==2.0 --hash=md5:00",
        f"numpy>=2.0 \\\n    {HASH}",
        f"numpy @ https://example.org/numpy.whl {HASH}",
        f"./numpy.whl {HASH}",
        f"-e .\nnumpy==2.0 {HASH}",
        f"--index-url https://example.org\nnumpy==2.0 {HASH}",
        f"--find-links=/wheels\nnumpy==2.0 {HASH}",
        f"scipy==1.0 {HASH}",
    ],
)
def test_bad_lock_is_found(lock: str) -> None:
    good = f"numpy==2.0 ; python_version < '4' \\\n    {HASH} \\\n    {HASH}\n"
    assert lock_complaints(good, "# the library\nNumPy<3  # one version\n") == []
    assert lock_complaints(lock, "numpy") != []


# --- hdpm_lib and hdpm_book -------------------------------------------------------------------------------------------


def wing(module: str) -> str:
    """Folder of a module of the library; none on the ground floor."""
    part = module.split(".")[1:2]
    return part[0] if part and part[0] in WINGS else ""


def module_complaints(name: str, source: str, there: Iterable[str]) -> list[str]:
    """Imports that the house does not allow: up to the book or into a wing that does not concern this one."""
    found = [f"{name} imports {way}: write the module in full" for way in shortcuts(source, there)]
    for other in sorted(imported(source, there) - {name}):
        if name.startswith("hdpm_book"):
            continue
        if other.startswith("hdpm_book"):
            found.append(f"{name} imports {other}: the library does not know the book")
        elif name.startswith("hdpm_owner"):
            continue
        elif other.startswith("hdpm_owner"):
            found.append(f"{name} imports {other}: the library does not know the owners of a federation")
        elif wing(other) not in ("", wing(name), *MAY.get(wing(name), ())):
            found.append(f"{name} imports {other}: {wing(name) or 'the ground floor'} does not know {wing(other)}")
    return found


def shortcuts(source: str, there: Iterable[str]) -> list[str]:
    """Imports that hide where they lead: relative ones, and those through the public face of the library."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names if f"hdpm_lib.{alias.name}" not in there]
            if node.level:
                found.append("." * node.level + (node.module or ""))
            elif node.module == "hdpm_lib":
                found += [f"hdpm_lib.{name}" for name in names]
    return found


def imported(source: str, there: Iterable[str]) -> set[str]:
    """Modules among those `there` that a source imports, anywhere in it."""
    found, known = set(), set(there)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            ways = [name.rsplit(".", k)[0] for k in range(name.count(".") + 1)]
            found |= {next((way for way in ways if way in known), "")} - {"", "hdpm_lib", "hdpm_owner", "hdpm_book"}
    return found


def circles(imports: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle: those left when all that import none of the rest have gone."""
    left = dict(imports)
    while free := [name for name, others in left.items() if not others & (left.keys() - {name})]:
        left = {name: others for name, others in left.items() if name not in free}
    return sorted(left)


SOURCES = {name: path.read_text(encoding="utf8") for name, path in execution.modules(ROOT).items()}


@pytest.mark.parametrize("name", SOURCES)
def test_module_stands_in_its_wing(name: str) -> None:
    assert module_complaints(name, SOURCES[name], SOURCES) == []


def test_no_circles() -> None:
    assert circles({name: imported(source, SOURCES) for name, source in SOURCES.items()}) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("hdpm_lib.noise", "from hdpm_lib.learners.ridge import output_perturbation"),
        ("hdpm_lib.noise", "def f():\n    from hdpm_lib.learners import ridge"),
        ("hdpm_lib.noise", "import hdpm_lib.learners.ridge as r"),
        ("hdpm_lib.noise", "from .learners.ridge import output_perturbation"),
        ("hdpm_lib.noise", "from . import learners"),
        ("hdpm_lib.noise", "from hdpm_lib import output_perturbation"),
        ("hdpm_lib.auctions.allin", "from hdpm_lib.learners.ridge import output_perturbation"),
        ("hdpm_lib.learners.fedsgd", "from hdpm_lib.auctions.allin import all_in"),
        ("hdpm_lib.markets.costs", "from hdpm_lib.auctions import bids"),
        ("hdpm_lib.learners.ridge", "from hdpm_lib.audits.ridge import ridge_pair_loss"),
        ("hdpm_lib.learners.ridge", "from hdpm_book import plots"),
        ("hdpm_lib.validation", "from hdpm_book.ledger import decide"),
        ("hdpm_owner.owner", "from hdpm_book.ledger import decide"),
        ("hdpm_lib.accounts", "from hdpm_owner.ledger import Ledger"),
    ],
)
def test_bad_module_is_found(name: str, source: str) -> None:
    good = "import numpy\nfrom hdpm_lib import validation\nfrom hdpm_lib.learners.queries import linear_query"
    assert module_complaints("hdpm_lib.audits.meters", good, SOURCES) == []
    assert len(module_complaints(name, source, SOURCES)) == 1


def test_the_library_is_thin() -> None:
    """What design and users ask for: an afternoon's reading, and about forty names."""
    assert (
        lines_of_code(
            '"""Words."""\n\n# why\nx = (\n    1,\n)\n\n\ndef f() -> int:\n    """What."""\n    return x[0]\n'
        )
        == 5
    )
    code, everything = volume()["all"]
    assert code <= 5000 and everything <= 9500
    assert 40 <= len(public_names()) <= 45


def test_every_module_is_on_a_reference_page() -> None:
    shown = "\n".join(path.read_text(encoding="utf8") for path in (ROOT / "book" / "reference").rglob("*.md"))
    listed = re.findall(r"(?m)^\.\. automodule:: (\S+)$", shown)
    packages = {name.rpartition(".")[0] for name in SOURCES}
    assert sorted(listed) == sorted(set(SOURCES) - packages)


LIMITS = ":doc:`/book/privacy/limits`"
NOISE = {"laplace", "spherical_laplace", "discrete_laplace", "lattice_laplace", "release"}


def limits_complaints(source: str) -> list[str]:
    """Public functions and methods that draw noise, or publish something noisy, without a link to the limits page."""
    tree, found = ast.parse(source), []
    places = [(tree, "")] + [
        (node, ast.get_docstring(node) or "") for node in tree.body if isinstance(node, ast.ClassDef)
    ]
    for place, above in places:
        for function in place.body:
            if not isinstance(function, ast.FunctionDef) or function.name.startswith("_"):
                continue
            calls = {
                node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                for node in ast.walk(function)
                if isinstance(node, ast.Call)
            }
            if calls & NOISE and LIMITS not in above + (ast.get_docstring(function) or ""):
                found.append(f"{function.name} draws noise and does not link to the limits page")
    return found


LEARNING = (
    "hdpm_book.ridge.variants",
    "hdpm_book.ridge.jorgensen",
    "hdpm_lib.noise",
    *(
        f"hdpm_lib.learners.{name}"
        for name in "ridge queries logistic fedsgd estimators lattice integer_answers".split()
    ),
)


@pytest.mark.parametrize("name", LEARNING)
def test_private_functions_say_their_limits(name: str) -> None:
    source = SOURCES[name]
    assert limits_complaints(source) == []
    assert LIMITS in source  # those that only calibrate the noise say it at the top of their module


PRIVATE = {
    "ridge": {"output_perturbation"},
    "queries": {"linear_query", "nonlinear_query"},
    "logistic": {"objective_perturbation"},
    "fedsgd": {"fedsgd"},
    "estimators": {"PersonalizedRidge", "PrivateLogisticRegression"},
    "lattice": {"lattice_ridge"},
    "integer_answers": {"integer_sum", "integer_gradients"},
}


@pytest.mark.parametrize("name", PRIVATE)
def test_private_learners_say_their_limits(name: str) -> None:
    tree = ast.parse(SOURCES[f"hdpm_lib.learners.{name}"])
    docs = {
        node.name: ast.get_docstring(node) or ""
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    assert [learner for learner in sorted(PRIVATE[name]) if LIMITS not in docs[learner]] == []


def test_function_without_limits_is_found() -> None:
    good = f'def f(rng):\n    """Noise ({LIMITS})."""\n    return rng.laplace()'
    inside = f'class A:\n    """{LIMITS}"""\n    def f(self, rng):\n        return spherical_laplace(1, 1, rng=rng)'
    for source in (good, inside):
        assert limits_complaints(source) == []
        assert len(limits_complaints(source.replace(LIMITS, "nothing"))) == 1


# --- pages, and what is stored for them -------------------------------------------------------------------------------


def page_complaints(root: Path) -> list[str]:
    """Pages not there, not in the contents, in them twice or with two titles, and references of pages that are gone."""
    named = execution.pages(root)
    written = not_ignored((root / "book").rglob("*.md"))
    there = {path for path in written if path.relative_to(root / "book").parts[0][0] != "_"}
    found = [f"in _toc.yml, but not there: {path.relative_to(root)}" for path in named if not path.exists()]
    found += [f"not in _toc.yml: {path.relative_to(root)}" for path in sorted(there - set(named))]
    found += [
        f"twice in _toc.yml: {path.relative_to(root)}" for path in sorted({p for p in named if named.count(p) > 1})
    ]
    lines = (root / "_toc.yml").read_text(encoding="utf8").splitlines()
    found += [
        f"overrides the line before it in _toc.yml: {line.strip()}"
        for before, line in pairwise(lines)
        if line.split(":")[0] == before.split(":")[0] and not line.lstrip().startswith("-")
    ]
    for path in sorted((root / "tests" / "refs").rglob("*")):
        page = root / "book" / path.relative_to(root / "tests" / "refs")
        names = {page.name.removesuffix(f"{source}json") + "md" for source in ("", "real.", "stand-in.")}
        if path.is_file() and not any(page.with_name(name) in named for name in names):
            found.append(f"references of no page: {path.relative_to(root)}")
    return found


def chapter_complaints(text: str, library: Iterable[str], in_folder: bool = True) -> list[str]:
    """Tags of cells that nobody knows, functions that are the library's, and a paper's code that does not use it."""
    found = []
    cells = [cell for cell in _notebook(text) if cell.cell_type == "code"]
    for cell in cells:
        found += [f"unknown tag {tag}" for tag in cell.metadata.get("tags", []) if tag not in TAGS]
        if "NBVAL_" in cell.source:
            found.append("marks of nbval are tags here, not comments")
    source = "\n".join(re.sub(r"(?m)^\s*[%!].*$", "", cell.source) for cell in cells)
    defined = {
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    found += [f"defines {name}, which hdpm_lib has" for name in sorted(defined & set(library))]
    if cells and in_folder and not execution.closure(source).keys() & SOURCES.keys() - {"hdpm_lib", "hdpm_book"}:
        found.append("does not import from hdpm_lib")
    return found


def _notebook(text: str) -> list:
    return execution.read_myst_markdown_notebook(text, config=execution.MdParserConfig(), path="page.md").cells


def library_names() -> set[str]:
    """Public functions and classes of the library."""
    found = set()
    for name, source in SOURCES.items():
        for node in ast.parse(source).body if name.startswith("hdpm_lib") else []:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                found.add(node.name)
    return found


def test_pages_and_references_match_the_contents() -> None:
    assert page_complaints(ROOT) == []


def test_bad_contents_are_found(tmp_path: Path) -> None:
    def write(name: str, text: str = "") -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf8")

    def contents(*names: str) -> None:
        write("_toc.yml", yaml.safe_dump({"root": "book/index", "chapters": [{"file": name} for name in names]}))

    for name in ("book/index.md", "book/ridge/idea.md", "book/_ext/notes.md", "tests/refs/index.json"):
        write(name)
    for source in ("real", "stand-in"):
        write(f"tests/refs/ridge/idea.{source}.json")
    contents("book/ridge/idea")
    assert page_complaints(tmp_path) == []
    contents()
    assert page_complaints(tmp_path) == [
        "not in _toc.yml: book/ridge/idea.md",
        "references of no page: tests/refs/ridge/idea.real.json",
        "references of no page: tests/refs/ridge/idea.stand-in.json",
    ]
    contents("book/ridge/idea", "book/ridge/idea", "book/gone")
    assert page_complaints(tmp_path) == [
        "in _toc.yml, but not there: book/gone.md",
        "twice in _toc.yml: book/ridge/idea.md",
    ]
    write("_toc.yml", "root: book/index\nchapters:\n- file: book/ridge/idea\n  title: The paper\n  title: Appendix\n")
    assert page_complaints(tmp_path) == ["overrides the line before it in _toc.yml: title: Appendix"]
    write("book/ridge/.ipynb_checkpoints/idea-checkpoint.md")  # an editor's copy
    contents("book/ridge/idea")
    assert page_complaints(tmp_path) == ["not in _toc.yml: book/ridge/.ipynb_checkpoints/idea-checkpoint.md"]
    shutil.copy(ROOT / ".gitignore", tmp_path)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert page_complaints(tmp_path) == []
    write("tests/refs/gone.json")
    assert page_complaints(tmp_path) == ["references of no page: tests/refs/gone.json"]


def author_complaints(front: str, references: str) -> list[str]:
    """Papers on the front page that do not stand under the authors and the year that the references have."""
    found, wanted = [], {}
    for entry in references.split("\n@"):
        fields = {name: re.sub("[{}]", "", value) for name, value in re.findall(r"(?m)^ *(\w+) *= *(\{.*\}),?$", entry)}
        people = [name.split(",")[0] if "," in name else name.split()[-1] for name in fields["author"].split(" and ")]
        wanted[fields["title"]] = f"{' and '.join([', '.join(people[:-1]), people[-1]])}, {fields['year']}"
    cards = re.findall(r"(?m)^::::\{grid-item-card\} (.+)\n(?::.+\n)+\n(.+)$", front.split("## The five papers")[1])
    for title, line in cards[:5]:
        if not line.startswith(wanted[title]):
            found.append(f"{title}: {line}, not {wanted[title]}")
    return found


def test_papers_stand_under_their_authors_names() -> None:
    front, references = ((ROOT / "book" / name).read_text(encoding="utf8") for name in ("index.md", "references.bib"))
    assert author_complaints(front, references) == []
    assert "Anonymous authors" not in front + references
    bad = author_complaints(front.replace("Khalili, Zhang and Liu", "Anonymous authors"), references)
    assert len(bad) == 1
    assert bad[0].endswith(": Anonymous authors, 2021, not Khalili, Zhang and Liu, 2021")


def chapters() -> list[Path]:
    return [path for path in execution.pages(ROOT) if path.exists() and execution.is_chapter(path)]


@pytest.mark.parametrize("path", chapters(), ids=lambda path: path.stem)
def test_chapter_leaves_the_work_to_the_library(path: Path) -> None:
    in_folder = path.parent.name != "book"
    assert chapter_complaints(path.read_text(encoding="utf8"), library_names(), in_folder) == []


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        (
            "from hdpm_lib.noise import laplace\ndef output_perturbation(x):\n    return x",
            "defines output_perturbation, which hdpm_lib has",
        ),
        (":tags: [nbval-check-outputs]\nimport hdpm_lib.noise", "unknown tag nbval-check-outputs"),
        (":tags: [nbval-skip]\nimport hdpm_lib.noise", "unknown tag nbval-skip"),
        ("# NBVAL_CHECK_OUTPUT\nimport hdpm_lib.noise", "marks of nbval are tags here, not comments"),
        ("import numpy as np", "does not import from hdpm_lib"),
    ],
)
def test_bad_chapter_is_found(code: str, complaint: str) -> None:
    head = "---\njupytext:\n  text_representation: {extension: .md, format_name: myst}\n---\n"
    good = (
        ":tags: [hide-input]\n%matplotlib inline\nfrom hdpm_lib import output_perturbation\ndef ours(x):\n    return x"
    )
    assert chapter_complaints(f"{head}```{{code-cell}}\n{good}\n```\n", ["output_perturbation"]) == []
    assert chapter_complaints(f"{head}```{{code-cell}}\n{code}\n```\n", ["output_perturbation"]) == [complaint]


def comments(text: str) -> list[str]:
    """Lines of a page's text that begin with a percent sign, which makes them comments that nobody sees."""
    return [line for part in check.prose(text) for line in part.splitlines() if line.lstrip().startswith("%")]


def test_no_line_of_a_page_is_a_comment() -> None:
    lines = {path.stem: comments(path.read_text(encoding="utf8")) for path in execution.pages(ROOT)}
    assert {page: found for page, found in lines.items() if found} == {}


def test_comment_is_found() -> None:
    assert comments("---\n% here\n---\n5 % and\n\n```{code-cell}\n%matplotlib\n```\nand 6\n% of it\n") == ["% of it"]


# --- git --------------------------------------------------------------------------------------------------------------


def tracked_complaints(names: Iterable[str]) -> list[str]:
    """Files that do not belong into the repository: notebooks with outputs, and what is built or downloaded."""
    built = ("_build/", ".venv/", "data/cache/")
    return [name for name in names if name.endswith((".ipynb", ".pyc")) or name.startswith(built)]


def test_no_notebook_and_nothing_built_is_tracked() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git repository")
    assert tracked_complaints(listed.stdout.splitlines()) == []
    assert tracked_complaints(["a.md", "a.ipynb", "_build/a.html"]) == ["a.ipynb", "_build/a.html"]
