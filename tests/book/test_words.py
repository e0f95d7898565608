"""Words are held by the run: numbers in the ledger's notes, on front pages and in leads, and what
is said of figures.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator
from functools import cache

import execution
import pytest

from hdpm_book.ledger import Claim, get, load
from tests.book.dataflow import BOOK

LOOKS_AT = ["_toc.yml", "book", "data/published", "tests/refs"]
REFS = execution.ROOT / "tests" / "refs"
PUBLISHED = execution.ROOT / "data" / "published"
NUMBER = re.compile(r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:e[-+]?\d+)?(?![\d])")
PLACES = (
    "Theorem|Lemma|Figure|Fig|Table|Section|Sect|Eq|Equation|Algorithm|Principle|Definition|Proposition|Corollary|"
    "Assumption|Remark|Example|Problem|Appendix|[Ll]ine|[Pp]age|[Ss]tep|[Ss]cenario|[Ff]ootnote|Chapter"
)
REFERENCE = re.compile(
    rf"\b(?:{PLACES})s?\.?[ ~]\(?[\dIVXA-Z][\w.]*\)?(?:(?:,| and| or| to)[ ~]\(?[\dIVX][\w.]*\)?)*"
)
NOT_SAID = re.compile(
    r"\(\d+\)|\b(?:19|20)\d\d\b|`[^`]*`|\{[\w:]+\}`[^`]*`|\]\([^)]*\)|[½¼]|\bL[12]\b|\d+-"
)
# where: numbers that no run prints, and why
EXCEPTIONS: dict[str, dict[str, str]] = {
    "use/classifier": dict.fromkeys(("569", "114"), "scikit-learn's records, and parts of them"),
}


def numbers(text: str) -> list[tuple[str, float]]:
    """Numbers that a text says: as written, and as such. Of a formula only those with a decimal
    point.
    """
    text = NOT_SAID.sub(" ", REFERENCE.sub(" ", text))
    formulas = " ; ".join(re.findall(r"\$([^$]+)\$", text))
    found = [number for number in NUMBER.findall(formulas) if "." in number]
    found += NUMBER.findall(re.sub(r"\$[^$]+\$", " ", text))
    return [
        (number, float(number.replace(",", ""))) for number in found if re.search(r"\d", number)
    ]


def printed_numbers(text: str) -> set[float]:
    """All numbers of an output or a table."""
    found = {
        float(x.replace(",", ""))
        for x in re.findall(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d*\.?\d+(?:e[-+]?\d+)?", text)
    }
    return {x for x in found if math.isfinite(x)}


def is_held(number: str, value: float, known: set[float]) -> bool:
    """Whether one of the numbers known is this one, or rounds to it; or does so as a share of a
    hundred.
    """
    digits = len(number.partition(".")[2].partition("e")[0])
    half = 0.5001 * 10.0**-digits * (10.0 ** int(number.partition("e")[2] or 0))
    return any(
        min(abs(x - value), abs(100 * x - value)) <= (1e-9 if x.is_integer() else half)
        for x in known
    )


@cache
def printed_on(page: str) -> frozenset[float]:
    """Numbers in the checked outputs of a page, or of all pages of a folder."""
    files = [
        *REFS.glob(f"{page}.json"),
        *REFS.glob(f"{page}.real.json"),
        *(REFS / page).glob("**/*.json"),
    ]
    texts = [
        json.dumps(json.loads(file.read_text(encoding="utf8")), ensure_ascii=False)
        for file in files
    ]
    return frozenset(printed_numbers(" ".join(texts)))


@cache
def published(paper: str) -> frozenset[float]:
    """Numbers that a paper prints: in the tables kept, and in its claims."""
    words = [file.read_text(encoding="utf8") for file in (PUBLISHED / paper).glob("*.csv")]
    words += [f"{claim.statement} {claim.printed_values} {claim.where}" for claim in load(paper)]
    return frozenset(printed_numbers(" ".join(words)))


def not_held(where: str, text: str, known: set[float]) -> list[str]:
    """Numbers of a text that nothing printed, and that no reason excepts."""
    excepted = EXCEPTIONS.get(where, {})
    return [n for n, value in numbers(text) if n not in excepted and not is_held(n, value, known)]


@cache
def printed_beside(claim: Claim) -> frozenset[float]:
    """Numbers in the outputs of the cells that decide a claim."""
    files = [REFS / f"{claim.page}.json", REFS / f"{claim.page}.real.json"]
    cells = [
        cell
        for file in files
        if file.exists()
        for cell in json.loads(file.read_text(encoding="utf8")).values()
    ]
    outputs = [json.dumps(cell["output"], ensure_ascii=False) for cell in cells]
    return frozenset(
        printed_numbers(" ".join(text for text in outputs if re.search(rf"\b{claim.id}\b", text)))
    )


def short(number: str) -> bool:
    """Whether a number has so few digits that a page prints it somewhere by accident."""
    return len(number.replace(",", "").replace(".", "").strip("0")) < 3


def words_of(page: str) -> str:
    """The prose of a page: neither its head, nor code, nor what directives that it calls are given
    as options.
    """
    text = (BOOK / f"{page}.md").read_text(encoding="utf8")
    text = re.sub(r"\A---\n.*?^---$", "", text, flags=re.S | re.M)
    text = re.sub(
        r"^```\{(?:code-cell|code-of|notation|verdicts|holds|bibliography)\}.*?^```$",
        "",
        text,
        flags=re.S | re.M,
    )
    return re.sub(r"^:[\w-]+:.*$", "", text, flags=re.M)


def rows_of(page: str) -> Iterator[tuple[str, str]]:
    """Rows of what holds on a page: a claim, what it says and why it holds or not."""
    text = (BOOK / f"{page}.md").read_text(encoding="utf8")
    for table in re.findall(r"^```\{holds\}[^\n]*\n(.*?)^```$", text, re.S | re.M):
        for line in table.splitlines():
            if line and not line.startswith(":"):
                name, _, said = line.partition(": ")
                yield name, f"{said} {get(name).why}"


FRONT = {page.relative_to(BOOK).with_suffix("").as_posix() for page in BOOK.glob("*/idea.md")}
HANDOUTS = {
    page.relative_to(BOOK).with_suffix("").as_posix() for page in BOOK.glob("teach/*.md")
} - {"teach/index"}


def held_by_folder(page: str) -> set[float]:
    """Numbers that the pages of a folder print, and the papers judged there; for the first page all
    there are.
    """
    folder = {"teach/joint": "logistic", "index": ""}.get(
        page, page.removeprefix("teach/").partition("/")[0]
    )
    papers = {claim.paper for claim in load() if (claim.page or "").startswith(folder)}
    return set(printed_on(folder).union(*map(published, papers)))


@pytest.mark.parametrize(
    "claim", [claim for claim in load() if claim.note], ids=lambda claim: claim.id
)
def test_numbers_in_notes_are_printed_where_the_claim_is_decided(claim: Claim) -> None:
    said = f"{claim.why or ''} {claim.note} {claim.correction or ''}"
    paper = published(claim.paper)
    page = printed_on(claim.page or "")
    beside = printed_beside(claim)
    if claim.verdict == "not testable":
        beside = page
    missing = not_held(claim.id, said, set(page | paper))
    printed = printed_numbers(f"{claim.statement} {claim.printed_values} {claim.where}")
    missing += [n for n in not_held(claim.id, said, set(beside) | printed) if short(n)]
    assert missing == []


@pytest.mark.parametrize("page", sorted(FRONT | HANDOUTS | {"index"}))
def test_numbers_on_front_pages_and_handouts_are_printed_by_a_page(page: str) -> None:
    missing = not_held(page, words_of(page), held_by_folder(page))
    claims = {claim.id: claim for claim in load()}
    for name, said in rows_of(page):
        there = printed_on(claims[name].page or "") | published(claims[name].paper)
        missing += [f"{name}: {number}" for number in not_held(page, said, set(there))]
    assert missing == []


def lead(page: str) -> str:
    """Return what stands above the first cell, box or section of a page."""
    text = (BOOK / f"{page}.md").read_text(encoding="utf8")
    text = re.sub(r"\A---\n.*?^---$", "", text, flags=re.S | re.M)
    return re.split(r"^(?:```\{|## )", text, maxsplit=1, flags=re.M)[0]


@pytest.mark.parametrize(
    "page",
    [
        path.relative_to(BOOK).with_suffix("").as_posix()
        for path in execution.pages()
        if execution.is_chapter(path) and path.parent not in (BOOK, BOOK / "teach")
    ],
)
def test_numbers_in_a_lead_are_printed_by_its_page(page: str) -> None:
    papers = {claim.paper for claim in load() if claim.page == page}
    assert not_held(page, lead(page), set(printed_on(page).union(*map(published, papers)))) == []


def test_a_number_that_nothing_prints_is_found() -> None:
    known = printed_numbers("the ratio is 1.352 at 2,000 draws, a share of 0.113")
    said = (
        "By 11.3 %, a ratio of 1.35 at 2,000 draws (Theorem 2.5), for $x^2\\le4$; but 1.3, 2 %,"
        " $y=0.7$."
    )
    assert not_held("here", said, known) == ["0.7", "1.3", "2"]


# --- figures ------------------------------------------------------------------------------------

ASSERTS = re.compile(
    r"\b(?:above|below|higher|lower|highest|lowest|larger|smaller|largest|smallest|greater|more|less|fewer|most|rises?|"
    r"rising|falls?|falling|grows?|growing|shrinks?|drops?|increas\w+|decreas\w+|never|always|everywhere|nowhere|"
    r"coincides?|together|equals?|twice|half|doubles?|reach|reaches|ends?|stays?|cross|crosses|flat|beats?|wins?|nearly|"
    r"almost|best|worst|better|worse|cheaper|dearer|far|close|zero|percent)\b"
)


def text_of(node: ast.AST | None) -> str:
    """A text in code, with a mark where something is filled in; empty for any other code."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "\0" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text_of(node.left) + text_of(node.right)
    return ""


def argument(call: ast.Call, name: str, place: int) -> list[ast.expr]:
    """An argument of a call, by name or by place, if it is there."""
    return [
        *call.args[place : place + 1],
        *(word.value for word in call.keywords if word.arg == name),
    ]


def keys_of(node: ast.expr, cell: ast.Module) -> list[str]:
    """The words that a dict holds, which stands in a call or is built in the cell under a name."""
    if isinstance(node, ast.Dict):
        return [text_of(key) for key in node.keys]
    if isinstance(node, ast.BinOp):
        return keys_of(node.left, cell) + keys_of(node.right, cell)
    found = []
    for part in ast.walk(cell):
        if isinstance(node, ast.Name) and isinstance(part, (ast.Assign, ast.AugAssign)):
            target = part.targets[0] if isinstance(part, ast.Assign) else part.target
            if isinstance(target, ast.Name) and target.id == node.id:
                found += keys_of(part.value, cell) if isinstance(part.value, ast.Dict) else []
            if isinstance(target, ast.Subscript) and ast.unparse(target.value) == node.id:
                found.append(text_of(target.slice))
    return found


def figures() -> Iterator[tuple[str, str, list[str]]]:
    """Of all cells that draw: page and number of the cell, words of caption and alt texts, and what
    is computed.
    """
    for path in filter(execution.is_chapter, execution.pages()):
        page = path.relative_to(BOOK).with_suffix("").as_posix()
        for number, cell in enumerate(execution.read(path).cells):
            if cell.cell_type != "code" or not re.search(r"plots\.(?:show|inline)\(", cell.source):
                continue
            tree = ast.parse(cell.source)
            calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
            drawn = [
                call for call in calls if ast.unparse(call.func) in ("plots.show", "plots.inline")
            ]
            caption = cell.metadata.get("mystnb", {}).get("figure", {}).get("caption", "")
            alts = [text_of(alt) for call in drawn for alt in argument(call, "alt", 1)]
            says = [
                words
                for call in drawn
                for given in argument(call, "says", 2)
                for words in keys_of(given, tree)
            ]
            yield (
                f"{page}, cell {number}",
                plain(" ; ".join([caption, *alts])),
                [plain(words) for words in says],
            )


def plain(words: str) -> str:
    return " ".join(words.split())


def not_computed(words: str, says: list[str]) -> list[str]:
    """What a caption or an alt text asserts, in so far as nothing computes it."""
    for said in sorted(says, key=len, reverse=True):
        words = words.replace(said, " ; ")
    words = NOT_SAID.sub(" ", REFERENCE.sub(" ", words))
    words = re.sub(r"\$[^$]*\$|\[[^\]]*\]|\0", " ", words)
    return [*ASSERTS.findall(words), *(n for n in NUMBER.findall(words) if n)]


FIGURES = list(figures())


@pytest.mark.parametrize(("where", "words", "says"), FIGURES, ids=[where for where, *_ in FIGURES])
def test_what_is_said_of_a_figure_is_computed(where: str, words: str, says: list[str]) -> None:
    assert not_computed(words, says) == [], words
    assert [said for said in says if said not in words] == [], "computed, and said nowhere"


def test_what_nothing_computes_is_found() -> None:
    caption = "M2 is cheaper than M1, everywhere. Ten sellers (Figure 3)."
    assert not_computed(caption, []) == ["cheaper", "everywhere"]
    assert not_computed(caption, ["M2 is cheaper than M1"]) == ["everywhere"]
    assert not_computed(caption, ["M2 is cheaper than M1, everywhere"]) == []
    # a caption fills nothing in
    assert not_computed("It ends at 0.6.", ["It ends at \0."]) == ["ends", "0.6"]
    assert not_computed("It ends at \0.", ["It ends at \0."]) == []
