"""The ledger: its files, the verdicts it computes, who decides what, and the pages made from it."""

from __future__ import annotations

import ast
import csv
import json
import os
import re
import runpy
import shutil
import subprocess
from collections import Counter
from contextlib import nullcontext
from datetime import date
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import claims
import colophon
import execution
import numpy as np
import pytest
import slices
import yaml
from bs4 import BeautifulSoup
from docutils import nodes

from hdpm_book import ledger
from hdpm_book.ledger import Decision, LedgerMismatch, decide, get, judge, load, verdict
from tests import apart
from tests.format_chapters import not_ignored
from tests.site import conftest

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"
COUNTS = Counter(claim.paper for claim in load())
ALL = sum(COUNTS.values())

PAGE = "ridge/reproduction"
DECIDED = {"page": PAGE, "note": "Compared row by row."}
EDITS: dict[str, dict[str, Any]] = {
    "pdp-table01": {
        "verdict": "reproduced",
        **DECIDED,
        "statement": "a < b & <b>bold</b>",
        "why": "Every row within 3. It holds for all of them.",
    },
    "pdp-table02": {"verdict": "reproduced", **DECIDED, "data": ["medical_cost"]},
    "pdp-lemmaC3": {
        "verdict": "corrected",
        **DECIDED,
        "correction": "At most 2 sqrt(d) times as large.",
    },
    "pdp-thm25": {"verdict": "refuted", **DECIDED, "note": "Eq. 3 reads wrong in our text."},
    "pdp-thm21": {"verdict": "partial", **DECIDED, "correction": "Holds with a bounded loss."},
    "pdp-def11": {"verdict": "not testable", **DECIDED, "why": "Nothing to test."},
    "khalili-thm1": {
        "verdict": "partial",
        **DECIDED,
        "needs": "Ten hours & a proof.",
        "reply": "They meant $K>1$.",
        "uses": ["khalili-def1-dp"],
        "open": {"mu": "Print has no value & none can be read off.", "order": "Not printed."},
        "history": [
            {"date": date(2026, 11, 21), "was": "not testable", "because": "An order is printed."},
            {"date": date(2026, 11, 28), "was": "reproduced", "because": "Not for $K<1$ & so on."},
        ],
    },
}


def write_ledger(folder: Path, edits: dict[str, dict[str, Any]]) -> Path:
    """Write the real claims, all pending but for `edits`, into a new folder."""
    folder.mkdir(parents=True)
    for path in ledger.CLAIMS.glob("*.yaml"):
        entries = yaml.load(
            path.read_text(encoding="utf8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        )
        for entry in entries:
            for field in ("uses", "correction", "data", "needs", "open", "history"):
                entry.pop(field, None)
            entry.update(
                {"verdict": "pending", "page": None, "note": None} | edits.get(entry["id"], {})
            )
        text = yaml.dump(
            entries, sort_keys=False, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        )
        (folder / path.name).write_text(text, encoding="utf8")
    return folder


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the library read the ledger with `EDITS`, and with one pending claim that rests on
    data.
    """
    folder = write_ledger(tmp_path / "claims", EDITS | {"pdp-table04": {"data": ["medical_cost"]}})
    monkeypatch.setattr(ledger, "CLAIMS", folder)
    return folder


def soup(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(encoding="utf8"), "html.parser")


# --- the files ---


def test_every_claim_is_there_once() -> None:
    assert set(COUNTS) == set(ledger.PAPERS)
    assert len({claim.id.lower() for claim in load()}) == ALL
    # the front page computes it
    for page, numbers in (("README.md", [str(ALL)]), ("book/index.md", [])):
        assert re.findall(r"(\d+)\s+claims", (ROOT / page).read_text("utf8")) == numbers


GOOD = {
    "id": "khalili-x",
    "paper": "khalili",
    "kind": "theorem",
    "where": "Theorem 1",
    "statement": "So it is.",
    "printed_values": {},
    "check": "Try.",
    "suspected_issue": None,
    "verdict": "reproduced",
    "page": "contracts/idea",
    "note": "Yes.",
}
BAD = {
    "unknown field": ({"verdikt": "x"}, "verdikt"),
    "unknown kind": ({"kind": "lemma"}, "kind"),
    "unknown verdict": ({"verdict": "true"}, "verdict"),
    "other paper": ({"paper": "fl-market"}, "paper"),
    "no page": ({"page": None}, "page"),
    "no note": ({"note": None}, "note"),
    "blank note": ({"note": " "}, "note"),
    "page that climbs": ({"page": "../idea"}, "page"),
    "corrected without correction": ({"verdict": "corrected"}, "correction"),
    "correction of what holds": ({"correction": "Or so."}, "correction"),
    "page on pending": ({"verdict": "pending", "note": None}, "page"),
    "data no list": ({"data": "medical_cost"}, "data"),
    "values no mapping": ({"printed_values": [1]}, "printed_values"),
    "needs of what is decided": ({"needs": "Ten hours."}, "needs"),
    "open no mapping": ({"open": ["mu"]}, "open"),
    "open without words": ({"open": {"mu": None}}, "open"),
    "anchor of one end": ({"anchor": ["In the"]}, "anchor"),
    "anchor no list": ({"anchor": "In the"}, "anchor"),
    "uses no list": ({"uses": "khalili-thm1"}, "uses"),
    "uses of another paper": ({"uses": ["pdp-thm21"]}, "uses"),
    "uses itself": ({"uses": ["khalili-x"]}, "uses"),
    "history no list": ({"history": {"date": "2026-11-28"}}, "history"),
    "history without a reason": (
        {"history": [{"date": date(2026, 11, 28), "was": "partial"}]},
        "history",
    ),
    "history of no change": (
        {"history": [{"date": date(2026, 11, 28), "was": "reproduced", "because": "So."}]},
        "history",
    ),
    "history without order": (
        {
            "history": [
                {"date": date(2026, 11, day), "was": was, "because": "So."}
                for day, was in ((28, "partial"), (27, "refuted"))
            ]
        },
        "history",
    ),
    "bad id": ({"id": "khalili x"}, "id"),
    "empty statement": ({"statement": ""}, "statement"),
    "missing field": ({"check": ...}, "check"),
}


def read(folder: Path, entries: Any) -> tuple[ledger.Claim, ...]:
    text = entries if isinstance(entries, str) else yaml.safe_dump(entries)
    (folder / "khalili.yaml").write_text(text, encoding="utf8")
    return load(folder=folder)


@pytest.mark.parametrize("change, field", BAD.values(), ids=BAD)
def test_a_bad_entry_is_named(change: dict[str, Any], field: str, tmp_path: Path) -> None:
    assert read(tmp_path, [GOOD])[0].page == "contracts/idea"
    entry = {key: value for key, value in (GOOD | change).items() if value is not ...}
    with pytest.raises(
        ValueError, match=rf"^khalili\.yaml: claim '{entry['id']}': field '{field}': "
    ):
        read(tmp_path, [entry])


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([GOOD, GOOD], r"khalili-x': field 'id': also in khalili\.yaml"),
        (
            yaml.safe_dump([GOOD]) + "  verdict: refuted\n",
            r"khalili\.yaml: line 1: field given twice",
        ),
        ("- id: [", r"^khalili\.yaml: while parsing"),
        (GOOD, "an entry must be a mapping"),
    ],
    ids=["claim twice", "field twice", "broken", "mapping"],
)
def test_bad_files_are_named(entries: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read(tmp_path, entries)


def test_a_stray_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.yaml").touch()
    monkeypatch.setattr(ledger, "CLAIMS", tmp_path)
    with pytest.raises(ValueError, match=r"other\.yaml: no such paper"):
        load()


# --- verdicts ---

BY_FINDINGS = {  # printed, corrected, reading; all others are refused
    "reproduced": "TNN TFF TFN TNF",
    "corrected": "FTN FTF",
    "partial": "FNT NNT FFT",
    "refuted": "FNN FFF FFN FNF",
}
EXPECTED = {
    letters: expected for expected, found in BY_FINDINGS.items() for letters in found.split()
}


@pytest.mark.parametrize("letters", ["".join(found) for found in product("TFN", repeat=3)])
@pytest.mark.parametrize("kind", [bool, np.bool_])
def test_the_verdict_is_computed(letters: str, kind: Any) -> None:
    found = [None if letter == "N" else kind(letter == "T") for letter in letters]
    given: dict[str, Any] = dict(zip(("printed", "corrected", "reading"), found, strict=True))
    with nullcontext() if letters in EXPECTED else pytest.raises(ValueError):
        assert verdict(**given) == EXPECTED[letters]


def test_a_decision_agrees_with_the_ledger_or_raises(edited: Path) -> None:
    assert (
        repr(judge("pdp-table01", " 15 of 15 rows ", printed=True))
        == "pdp-table01  reproduced  15 of 15 rows"
    )
    assert judge("pdp-lemmaC3", "ratio 2.1", printed=False, corrected=True).verdict == "corrected"
    with pytest.raises(
        LedgerMismatch, match=r"pdp-table01: this run finds 'refuted', .* 'reproduced'.*: 3 of 15"
    ):
        judge("pdp-table01", "3 of 15 rows", printed=False)
    with pytest.raises(
        LedgerMismatch, match=r"table03: .* 'refuted', .*'pending'; write it .*claims/pdp-ridge"
    ):
        judge("pdp-table03", "3 of 7 rows", printed=False)
    with pytest.raises(ValueError, match="pdp-table01: printed and reading contradict"):
        judge("pdp-table01", "3 of 7 rows", printed=True, reading=True)
    for evidence in ("", "  ", "two\nlines", None):
        with pytest.raises(ValueError, match="pdp-table01: evidence must be one line"):
            judge("pdp-table01", evidence, printed=True)  # type: ignore[arg-type]


def test_what_was_tried_is_what_the_ledger_leaves_open(edited: Path) -> None:
    found = judge("khalili-thm1", "9 of 10", reading=True, over={"mu": [1, 0.12345678, "1/L"]})
    assert repr(found).splitlines() == [
        "khalili-thm1  partial  9 of 10",
        "    over mu: 1, 0.1235, 1/L",
    ]
    with pytest.raises(ValueError, match=r"over has 'nu'; .* leaves mu, order open"):
        judge("khalili-thm1", "9 of 10", reading=True, over={"nu": [1]})
    with pytest.raises(ValueError, match=r"over has 'mu'; .* leaves nothing open"):
        judge("pdp-table01", "15 of 15", printed=True, over={"mu": [1]})
    for values in ([], "1, 2"):
        with pytest.raises(ValueError, match=r"over\['mu'\] must be a list of values"):
            judge("khalili-thm1", "9 of 10", reading=True, over={"mu": values})


def test_how_strong_the_evidence_is_is_said(edited: Path) -> None:
    found = judge(
        "khalili-thm1", "9 of 10", reading=True, strength="proof a-thm, b", over={"mu": [1]}
    )
    assert repr(found).splitlines() == [
        "khalili-thm1  partial  9 of 10",
        "    by proof a-thm, b",
        "    over mu: 1",
    ]
    assert "Decided by:</span> proof a-thm, b" in found._repr_html_()
    for strength in ("proof", "proof ", "certain of it", "", "search a; prof b-thm-c"):
        with pytest.raises(ValueError, match="khalili-thm1: strength must be one of machine-che"):
            judge("khalili-thm1", "9 of 10", reading=True, strength=strength)
    with pytest.raises(ValueError, match="khalili-thm1: the weaker half of strength must come"):
        judge("khalili-thm1", "9 of 10", reading=True, strength="proof a-thm-b; search c")


def without_strength(code: str) -> list[str]:
    """Claims that can be proved and are decided in code that names no strength."""
    kinds = {claim.id: claim.kind for claim in load()}
    found = []
    for statement in ast.parse(code).body:
        names = [n for n in slices.decided(statement) if kinds[n] in ledger.STATEMENTS]
        for call in ast.walk(statement):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "decide" and names:
                first = call.args[0]
                decided = [first.value] if isinstance(first, ast.Constant) else names
                if not any(given.arg == "strength" for given in call.keywords):
                    found += [name for name in decided if name in names]
    return found


@pytest.mark.parametrize("page", sorted({claim.page for claim in load() if claim.page}))
def test_what_can_be_proved_says_how_strong_its_evidence_is(page: str) -> None:
    code = execution.python(execution.read(BOOK / f"{page}.md"))
    assert without_strength(code) == []


def test_what_is_machine_checked_has_a_file_and_what_has_one_is() -> None:
    """Where all statements that decide a claim have been checked, its page says so."""
    checked = {path.stem.replace("_", "-") for path in (ROOT / "proofs").glob("*.v")}
    wrong = []
    for page in BOOK.glob("*/*.md"):
        for strength in re.findall(r'strength="([^"]*)"', page.read_text("utf8")):
            for half in strength.split("; "):
                labels = set(claims.labels_in(half))
                if half.startswith(ledger.PROVED) and (
                    not labels or half.startswith("machine-checked") != (labels <= checked)
                ):
                    wrong.append((page.name, half))
    assert wrong == []


def test_a_decision_without_strength_is_found() -> None:
    bare = "decide('pdp-thm21', 'x', printed=True)"
    told = "decide('pdp-thm21', 'x', printed=True, strength='proof a')"
    loop = "for name in ('pdp-thm21', 'pdp-table01'):\n    decide(name, 'x', printed=True)"
    assert without_strength(f"{bare}\n{told}\n{loop}") == ["pdp-thm21", "pdp-thm21"]


def test_a_run_that_is_too_small_refutes_nothing(edited: Path) -> None:
    for found in (True, False):  # even if it happens to agree
        with pytest.raises(
            LedgerMismatch,
            match=r"table01: too small a run to decide, .* 'reproduced'. Evidence: 9",
        ):
            judge("pdp-table01", "9 draws", printed=found, enough=np.bool_(False))
    assert judge("pdp-table01", "9,000 draws", printed=True, enough=True).outcome == "reproduced"
    assert (
        "stand-in"
        in judge("pdp-table02", "9 draws", printed=True, enough=False, source="stand-in").outcome
    )
    for wrong in (None, 9, "yes"):
        with pytest.raises(TypeError, match="pdp-table01: enough must be True or False"):
            judge("pdp-table01", "9 draws", printed=True, enough=wrong)  # type: ignore[arg-type]


def test_exploring_shows_what_differs_and_goes_on(
    edited: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HDPM_MODE", "explore")
    decide("pdp-table01", "9 draws", printed=False, enough=False)
    decide("pdp-table03", "3 of 7 rows", printed=False)
    decide("pdp-table01", "15 of 15 rows", printed=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "pdp-table01  too small a run to decide (ledger: reproduced)  9 draws",
        "pdp-table03  this run finds refuted (ledger: pending)  3 of 7 rows",
        "pdp-table01  reproduced  15 of 15 rows",
    ]
    # so that a build finds them, and refuses
    assert all(claims.LINE.fullmatch(line) for line in lines)
    # what an author may not write, a reader's numbers may give
    decide("pdp-thm21", "3 of 7", reading=False)
    decide("pdp-thm21", "3 of 7", printed=False, reading=True)
    decide("pdp-thm21", "3 of 7", printed=False, reading=False)  # nor are all readings tried
    decide("pdp-thm25", "3 of 7", printed=True, corrected=True)
    decide("pdp-thm25", "3 of 7", printed=np.float64("nan") > 1, corrected=np.bool_(True))
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "pdp-thm21  this run cannot say (ledger: partial)  3 of 7",
        "pdp-thm21  partial  3 of 7",
        "pdp-thm21  this run cannot say (ledger: partial)  3 of 7",
        "pdp-thm25  this run finds reproduced (ledger: refuted)  3 of 7",
        "pdp-thm25  this run finds corrected (ledger: refuted)  3 of 7",
    ]
    assert all(claims.LINE.fullmatch(line) for line in lines)
    box = judge("pdp-table01", "9 draws", printed=False, enough=False)._repr_html_()
    assert "hdpm-pending" in box and "too small a run to decide (ledger: reproduced)" in box
    monkeypatch.setenv("HDPM_MODE", "play")
    with pytest.raises(ValueError, match="HDPM_MODE must be 'explore' or not set, got 'play'"):
        judge("pdp-table01", "3 of 15 rows", printed=False)


def test_tests_and_book_do_not_explore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HDPM_MODE", "explore")
    runpy.run_path(execution.__file__)
    assert "HDPM_MODE" not in os.environ


def test_standin_data_decides_nothing(edited: Path) -> None:
    line = "pdp-table02  not decided here: stand-in data (ledger: reproduced)  3 of 12 rows"
    for source in ("stand-in", ["local", "stand-in"]):
        decision = judge("pdp-table02", "3 of 12 rows", printed=False, source=source)
        assert repr(decision) == line and decision.undecided
    assert not judge("pdp-table02", "12 of 12 rows", printed=True, source="local").undecided
    # table01 does not rest on data
    for name, source in (("pdp-table02", "local"), ("pdp-table01", "stand-in")):
        with pytest.raises(LedgerMismatch):
            judge(name, "3 of 12 rows", printed=False, source=source)
    with pytest.raises(ValueError, match="pdp-table02 rests on medical_cost: pass source="):
        judge("pdp-table02", "12 of 12 rows", printed=True)
    with pytest.raises(ValueError, match="contradict"):  # nonsense is an error on any data
        judge("pdp-table02", "3 of 12 rows", printed=True, reading=True, source="stand-in")
    with pytest.raises(LedgerMismatch, match="pending"):
        judge("pdp-table04", "12 of 12 rows", printed=True, source="stand-in")


def test_the_box_in_a_notebook_of_ones_own(
    edited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "_build" / "notebooks" / "book" / "ridge"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HDPM_MODE", "explore")

    def box() -> BeautifulSoup:
        return BeautifulSoup(
            judge("pdp-table01", "3 rows", printed=False)._repr_html_(), "html.parser"
        )

    assert box().style and not box().a  # legible without the site's style; no site, no link
    site = tmp_path / "_build" / "html" / "book" / "claims"
    site.mkdir(parents=True)
    assert (folder / box().a["href"]).resolve() == site / "pdp-table01.html"


# --- who decides what ---


def chapter(*cells: str) -> str:
    head = "---\njupytext:\n  text_representation: {extension: .md, format_name: myst}\n"
    head += "kernelspec: {display_name: Python 3, language: python, name: python3}\n---\n# A page\n"
    return head + "".join(f"\n```{{code-cell}} ipython3\n{cell}\n```\n" for cell in cells)


def test_decisions_are_read_off_a_page() -> None:
    text = chapter(
        ":tags: [hide-input]\n%matplotlib inline\nledger.decide('pdp-thm21', 'x', printed=True)",
        "---\ntags: [hide-input]\n---\ntables = {'pdp-table01': 1, 'pdp-table02': 2}",
        "for name, table in tables.items():\n    decide(name, f'{table}', printed=True)",
        "for k, name in enumerate(['pdp-fig01', 'pdp-table03']):\n    if k:\n        decide(name,"
        " 'pdp-table04')",
        # another ledger's
        "decide('mine-thm1', 'x', printed=True, folder='claims')\ndecide(mine, 'x', folder=folder)",
    )
    prose = "\n```python\ndecide('pdp-table05', 'x')\n```\nand `decide('pdp-table06', 'x')`\n"
    expected = ["pdp-thm21", "pdp-table01", "pdp-table02", "pdp-fig01", "pdp-table03"]
    assert claims.decided_claims(text + prose) == expected
    for hidden in (
        "decide(f'pdp-table{1:02d}', 'x')",
        "decide(claim_id='pdp-table01', evidence='x')",
        "[decide(n, 'x') for n in ('pdp-table01',)]",
        "for n in range(3):\n    decide(n, 'x')",
    ):
        with pytest.raises(ValueError, match="write the name of the claim out"):
            claims.decided_claims(chapter(hidden))
    with pytest.raises(ValueError, match="not Python"):
        claims.decided_claims(chapter("decide("))


def test_every_claim_has_a_verdict_that_is_decided_on_its_page_and_there_only() -> None:
    book = ROOT / "book"
    texts = {
        path.relative_to(book): path.read_text(encoding="utf8")
        for path in not_ignored(book.rglob("*.md"))
    }
    decided = {
        str(path.with_suffix("")): claims.decided_claims(text) for path, text in texts.items()
    }
    assert claims.problems(decided) == []
    for claim in load():
        assert claim.verdict != "pending" and claim.page in decided, claim.id


def test_what_is_missing_or_misplaced_is_found(edited: Path) -> None:
    every = [name for name in EDITS if name != "pdp-def11"]
    first, *others = every

    def found(here: list[str], *elsewhere: str) -> list[str]:
        return [message for _, message in claims.problems({PAGE: here, "ridge/idea": elsewhere})]

    misplaced = f"{first} is decided on ridge/idea, but the ledger gives it to {PAGE}"
    assert found(every) == []
    assert found(others) == [f"{first} is reproduced in the ledger, but {PAGE} does not decide it"]
    assert found([*every, first]) == [f"{first} is decided 2 times, on {PAGE}, {PAGE}"]
    assert found(every, first) == [f"{first} is decided 2 times, on {PAGE}, ridge/idea", misplaced]
    assert found(others, first) == [misplaced]
    assert found(every, "pdp-thm99", "pdp-def12") == [
        "pdp-thm99 is decided, but the ledger has no such claim",
        "pdp-def12 is decided on ridge/idea, but the ledger says it is pending",
    ]


# --- the pages, from a small book ---

CALLS = {
    "pdp-table01": 'decide("pdp-table01", "15 of 15 rows < 3 & <i>more", printed=True)',
    "pdp-table02": 'decide("pdp-table02", "3 of 12 rows", printed=False, source="stand-in")',
    "pdp-lemmaC3": 'decide("pdp-lemmaC3", "ratio 2.1", printed=False, corrected=True)',
    "pdp-thm25": 'decide("pdp-thm25", "loss 4.2 above 3.9", printed=False)',
    "pdp-thm21": 'decide("pdp-thm21", "slack 0.2", printed=False, reading=True)',
    "khalili-thm1": 'decide("khalili-thm1", f"holds for {count} of 10", reading=True,'
    ' strength="search drawn $K$", over={"mu": [1, 2.5]})',
}
PARTS = """
```{holds}
pdp-table01: All rows & more.
pdp-def11: A definition of $w$.
```

```{decided}
```

```{code-of} hdpm_lib.learners.ridge.output_perturbation
```

```{notation}
```

$$
\\lambda_i > 0
$$ (eq-small)

See {eq}`eq-small`. A claim ({claim}`pdp-table01`), and another: {claim}`pdp-def11`. So be it.
"""
SYMBOLS = r"""
symbols:
- {symbol: '\lambda', code: penalty, means: 'weight of $w$ & more', page: reproduction}
- {symbol: '\mu', means: on another page}
"""


def build(folder: Path, cells: list[str], parts: str = "") -> apart.Running:
    """Start to build a book with the real page of the ledger and a chapter of these cells, warnings
    as errors.
    """
    book = folder / "book"
    (book / PAGE).parent.mkdir(parents=True)
    setup = (
        "from pathlib import Path\nfrom hdpm_book import ledger\nledger.CLAIMS ="
        f" Path({str(folder / 'claims')!r})"
    )
    setup += "\nfrom hdpm_book.ledger import decide"
    (book / f"{PAGE}.md").write_text(chapter(setup, *cells) + parts, encoding="utf8")
    (book / "ridge" / "notation.yaml").write_text(SYMBOLS, encoding="utf8")
    (book / "index.md").write_text("# A small book\n\nWords.\n", encoding="utf8")
    for name in ("ledger", "map"):
        shutil.copy(ROOT / "book" / f"{name}.md", book)
    files = [{"file": f"book/{name}", "title": f"1. {name}"} for name in (PAGE, "ledger", "map")]
    toc = {"format": "jb-book", "root": "book/index", "chapters": files}
    config = {
        "title": "A small book",
        "only_build_toc_files": True,
        "execute": {"execute_notebooks": "force", "stderr_output": "error"},
        "parse": {"myst_enable_extensions": ["colon_fence", "dollarmath"]},
        "sphinx": {
            "local_extensions": dict.fromkeys(
                "claims code_of notation numbering".split(), str(ROOT / "book" / "_ext")
            ),
            "config": {
                "html_static_path": [str(ROOT / "book" / "_static")],
                "addresses": {"site": "https://example.org", "errors": "mailto:a@example.org"},
                "claims_folder": str(write_ledger(folder / "claims", EDITS)),
                "language": "en",
                # the reference is not part of this book
                "nitpick_ignore_regex": [["py:func", r"hdpm_lib\..*"]],
            },
        },
    }
    (folder / "_config.yml").write_text(yaml.safe_dump(config), encoding="utf8")
    (folder / "_toc.yml").write_text(yaml.safe_dump(toc), encoding="utf8")
    shutil.copy(ROOT / "conf.py", folder)
    options = "-E -W -n --keep-going -d _build/.doctrees . _build/html".split()
    return apart.start("sphinx.cmd.build:main", *options, folder=folder)


Builds = tuple[Path, apart.Running, apart.Running]


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Builds:
    """Where a book is built whose pages and ledger agree; that build; and the build of one where
    they do not.
    """
    folder, (first, *others) = tmp_path_factory.mktemp("site"), CALLS.values()
    calls = [call for name, call in CALLS.items() if name not in ("pdp-thm21", "khalili-thm1")]
    old = "from dataclasses import replace\nfrom hdpm_book.ledger import Decision, get"
    old += (
        '\ndisplay(Decision(replace(get("pdp-thm21"), verdict="refuted"), "refuted", "an old run"))'
    )
    old += (
        '\ndisplay(Decision(get("pdp-def11"), "not testable", "3 draws", "too small a run to'
        ' decide"))'
    )
    good = build(folder, ["count, spare = 9, 1", first, "\n".join(others)], PARTS)
    return folder, good, build(tmp_path_factory.mktemp("wrong"), [*calls, old])


@pytest.fixture(scope="module")
def site(builds: Builds) -> Path:
    folder, good, _ = builds
    result = good.end()
    assert result.status == 0, result.printed[-3000:]
    return folder / "_build" / "html" / "book"


def test_the_ledger_page_has_every_claim_and_the_evidence_of_the_build(site: Path) -> None:
    page = soup(site / "ledger.html")
    rows = {row["id"]: row for row in page.select(".hdpm-claims tbody tr")}
    # what is wrong, in part, right, and what cannot be tested; the places are the papers'
    assert list(rows)[: len(EDITS)] == [
        *("pdp-thm25", "pdp-lemmaC3", "pdp-thm21", "khalili-thm1"),
        *("pdp-table01", "pdp-table02", "pdp-def11"),
    ]
    places = {claim.id: str(place) for place, claim in enumerate(load())}
    assert {name: row["data-place"] for name, row in rows.items()} == places
    row = rows["pdp-table01"]
    assert (row["data-paper"], row["data-kind"], row["data-verdict"]) == (
        "pdp-ridge",
        "table",
        "reproduced",
    )
    found = [row.select_one(f".hdpm-{part}").text for part in ("evidence", "verdict")]
    assert found == ["15 of 15 rows < 3 & <i>more", "✓ reproduced"]
    words = ("a < b & <b>bold</b>", "Table 1", "Compared row by row.")
    assert all(part in row.text for part in words) and "may be damage" not in row.text
    assert "not decided here: stand-in data (ledger: reproduced)" in rows["pdp-table02"].text
    assert "pending" in rows["pdp-table03"].text
    assert rows["pdp-def11"].text.count("Compared row by row.") == 1 and not rows[
        "pdp-table03"
    ].select("td a")
    assert (
        "Built on stand-in data" in page.text and "1 claim was therefore not decided" in page.text
    )
    chapter_page = soup(site / f"{PAGE}.html")
    for name in EDITS:  # there and back; what cannot be tested has a page, and no place on it
        path, _, anchor = rows[name].select_one("td a")["href"].partition("#")
        assert (site / path).resolve() == (site / f"{PAGE}.html").resolve() and bool(anchor) == (
            name != "pdp-def11"
        )
        for link in chapter_page.select(f"#{anchor} a") if anchor else ():
            assert link["href"] == f"../claims/{name}.html"


def test_a_page_shows_decisions_main_claims_code_symbols_and_the_chapter_s_numbers(
    site: Path,
) -> None:
    page = soup(site / f"{PAGE}.html")
    box = page.select_one("div#claim-pdp-table01")
    shown = [box.select_one(f".hdpm-{part}").text for part in ("verdict", "statement", "evidence")]
    assert shown == ["✓ reproduced", "a < b & <b>bold</b>", "This run: 15 of 15 rows < 3 & <i>more"]
    main, of_this_page = page.select(".hdpm-holds")
    tested, untested = main.select("li")
    assert (
        tested.p.text.startswith("All rows & more.")
        and tested.p.a["href"] == "../claims/pdp-table01.html"
    )
    assert tested.select_one(".hdpm-verdict").text == "✓ reproduced"
    assert tested.summary.text == "Every row within 3."
    assert tested.details.text.strip().startswith(
        "Every row within 3.It holds for all of them. See "
    )
    assert tested.select("details a")[-1]["href"].endswith("#claim-pdp-table01")
    assert "not testable" in untested.text and "\\(w\\)" in untested.text
    decided = {row.p.a["href"]: row.select_one(".hdpm-verdict").text for row in of_this_page("li")}
    testable = EDITS.keys() - {"pdp-def11"}
    assert decided.keys() == {f"../claims/{name}.html" for name in testable}
    assert any(row.p.text.startswith("a < b & <b>bold</b> ") for row in of_this_page("li"))
    assert decided["../claims/pdp-table01.html"] == "✓ reproduced"
    code = page.select_one(".hdpm-code pre").text
    assert code.startswith("def output_perturbation(") and '"""' not in code and ": np" not in code
    assert "return" in code and "  # " in code
    (row,) = page.select(".hdpm-notation tbody tr")
    assert [cell.text.strip() for cell in row.select("td")] == [
        "\\(\\lambda\\)",
        "penalty",
        "weight of \\(w\\) & more",
    ]
    assert page.select_one(".eqno").text.startswith("(1.1)") and "See (1.1)." in page.text
    # a mark does not begin a line
    assert [kept.text for kept in page.select(".hdpm-kept")] == [
        "✓ reproduced),",
        "– not testable.",
    ]
    assert "✓ reproduced), and another: " in page.text and "testable. So be it." in page.text


def test_the_ledger_page_counts_and_says_what_waits_for_work(site: Path) -> None:
    page = soup(site / "ledger.html")
    note = next(p for p in page.select(".hdpm-ledger p") if "wait for compute" in p.text)
    assert (
        "Of 3 claims that are partial or not testable 2 are so for reasons of content" in note.text
    )
    items = note.find_next_sibling("ul").select("li")
    assert [item.a["href"] for item in items] == [
        "claims/khalili-thm1.html"
    ] and "Ten hours & a proof." in items[0].text
    rows = {
        row.th.text: [int(cell.text) for cell in row.select("td")]
        for row in page.select(".hdpm-summary tbody tr")
    }
    of_paper = COUNTS["pdp-ridge"]
    assert rows["Personalized DP for ridge regression"] == [2, 1, 1, 1, 1, of_paper - 6, of_paper]
    assert rows["All papers"] == [2, 1, 1, 2, 1, ALL - 7, ALL]
    assert [row[-1] for row in list(rows.values())[:-1]] == list(COUNTS.values())


def test_what_is_wrong_as_printed_is_marked_with_what_is_right(site: Path) -> None:
    rows = {str(row["id"]): row for row in soup(site / "ledger.html").select("tr[data-groups]")}
    grouped = {name: row["data-groups"] for name, row in rows.items() if row["data-groups"]}
    both = "wrong correction"
    assert grouped == {"pdp-lemmaC3": both, "pdp-thm21": "correction", "pdp-thm25": "wrong"}
    statement = BeautifulSoup(ledger.markup(get("pdp-lemmaC3").statement), "html.parser").text
    assert all(
        part in rows["pdp-lemmaC3"].text for part in (statement, "At most 2 sqrt(d)", "ratio 2.1")
    )
    words = ("No statement near it is known to hold.", "may be damage to our copy")
    assert all(part in rows["pdp-thm25"].text for part in words)


def test_the_map_page_counts_what_is_decided_by_what(site: Path) -> None:
    page = soup(site / "map.html")
    rows = {row.th.text.partition(":")[0]: row for row in page.select(".hdpm-summary tbody tr")}
    assert list(rows) == list(ledger.STRENGTHS)
    (link,) = rows["search"].select("td a")
    assert link["href"] == "ledger.html?verdict=partial&strength=search" and link.text == "1"
    assert [item.text.split(" ◐")[0] for item in page.select("ul:has(.hdpm-verdict) li")] == [
        get("khalili-thm1").place
    ]


def test_other_programs_read_the_ledger_too(site: Path) -> None:
    rows = {row["id"]: row for row in json.loads((site / "claims.json").read_text(encoding="utf8"))}
    assert list(rows) == [claim.id for claim in load()] and set(rows["pdp-table01"]) == set(
        claims.FIELDS
    )
    row = rows["pdp-table01"]
    assert (row["verdict"], row["evidence"]) == ("reproduced", "15 of 15 rows < 3 & <i>more")
    page, anchor = row["section"].split("#")
    assert soup(site / page).find(id=anchor) and row["link"] == "claims/pdp-table01.html"
    assert [(c["was"], c["now"]) for c in rows["khalili-thm1"]["history"]] == [
        ("not testable", "reproduced"),
        ("reproduced", "partial"),
    ]
    with (site / "claims.csv").open(encoding="utf8", newline="") as file:
        table = {row["id"]: row for row in csv.DictReader(file)}
    assert table["khalili-thm1"]["history"].startswith(
        "2026-11-21: not testable -> reproduced. An order is printed. 2026-11-28: reproduced"
    )
    assert rows["khalili-thm1"]["strength"] == "search drawn $K$"
    mu = {"name": "mu", "why": "Print has no value & none can be read off.", "tried": "1, 2.5"}
    assert rows["khalili-thm1"]["open"] == [
        mu,
        {"name": "order", "why": "Not printed.", "tried": ""},
    ]
    assert table["khalili-thm1"]["open"].endswith("read off. 1, 2.5 order: Not printed.")
    texts = {
        name: {
            part: row[part]
            for part in ("anchor", "uses", "functions", "records", "open", "history")
        }
        for name, row in table.items()
    }
    plain = {name: row | texts[name] for name, row in rows.items()}
    assert table == plain
    links = [str(link["href"]) for link in soup(site / "ledger.html").select("a[download]")]
    assert sorted(links) == ["claims.csv", "claims.json"]
    for name, needed in (("ledger", True), (PAGE, False)):  # the script, where it is of use
        assert ("ledger.js" in (site / f"{name}.html").read_text(encoding="utf8")) == needed


def test_each_claim_has_a_page_that_says_all_of_it(site: Path) -> None:
    assert {path.stem for path in (site / "claims").glob("*.html")} == {
        *(claim.id for claim in load()),
        *ledger.PAPERS,
    }
    page = soup(site / "claims" / "khalili-thm1.html").select_one("article")
    assert page.h1.text.replace("\u2011", "-") == get("khalili-thm1").place
    assert [heading["id"] for heading in page.select("h2")] == [
        *("uses", "open", "code", "change", "reply", "history", "cite")
    ]
    left_open = [re.sub(r"\s+", " ", item.text).strip() for item in page.select("#open + ul li")]
    assert left_open == [
        "mu: Print has no value & none can be read off. Tried: 1, 2.5.",
        "order: Not printed.",
    ]
    (code,) = page.select("#code ~ .highlight")  # with what makes `count`, and no other decision
    lines = [line for line in code.text.splitlines() if line]
    assert lines == ["count, spare = 9, 1", CALLS["khalili-thm1"]]
    assert page.form["action"] == "../../search.html" and page.form.input["name"] == "q"
    (items,) = page.select("#change + ul")
    assert "What we did not have: Ten hours & a proof." in items.text
    cells = [[cell.text.strip() for cell in row] for row in page.select(".hdpm-changes tbody tr")]
    rows = [re.sub(r"\s+", " ", " ".join(cells_of_one)).strip() for cells_of_one in cells]
    assert [row[:40] for row in rows] == [
        "28 November 2026 ✓ reproduced → ◐ partia",
        "21 November 2026 – not testable → ✓ repr",
    ]
    assert page.select_one("#cite + p").text.startswith(colophon.authors(colophon.citation())[0])
    (answer,) = page.select("a[href^='mailto:']")
    assert answer["href"] == "mailto:a@example.org?subject=khalili-thm1%3A%20partial"
    assert "https://example.org/book/claims/khalili-thm1.html" in page.select_one("#cite + p").text
    for link in page.select("a[href]:not([href^='mailto:'])"):
        path, _, place = str(link["href"]).partition("#")
        target = soup((site / "claims" / path).resolve()) if path else page
        assert not place or target.find(id=place), link
    # a verdict that never changed has no history, a claim that no cell decides no code
    bare = soup(site / "claims" / "pdp-def11.html")
    assert [heading["id"] for heading in bare.select("article h2")] == ["change", "cite"]
    assert "Explained in" in bare.text and "Decided in" in page.text
    of_one = soup(site / "claims" / "khalili.html")
    rows = of_one.select(".hdpm-claims tbody tr")
    assert {row["id"] for row in rows} == {claim.id for claim in load("khalili")}
    unchanged = "No verdict on this paper has changed."
    assert unchanged not in of_one.text and len(of_one.select(".hdpm-changes tbody tr")) == 2
    assert of_one.find(id=of_one.select_one("section > p a")["href"].removeprefix("#")).name == "h2"
    other = soup(site / "claims" / "pdp-ridge.html")
    assert unchanged in other.text and not other.select(".hdpm-changes")


def test_each_claim_is_a_square(site: Path, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto((site / "ledger.html").as_uri())
    squares = page.locator(".hdpm-squares span")
    kinds = [
        name.removeprefix("hdpm-") for name in squares.evaluate_all("s => s.map(e => e.className)")
    ]
    assert Counter(kinds) == Counter(claim.verdict.replace(" ", "-") for claim in load_edited(site))
    # what the filters leave out is faint
    page.get_by_label("Verdict", exact=True).select_option("corrected")
    assert squares.count() - page.locator(".hdpm-squares .hdpm-out").count() == 1
    # by keyboard: the second, which is pdp-lemmaC3, and its row is gone to
    page.locator(".hdpm-squares").focus()
    assert page.locator(".hdpm-square").text_content().endswith("Theorem 2.5: refuted")
    page.keyboard.press("ArrowRight")
    assert page.locator(".hdpm-here").get_attribute("id") == "square-pdp-lemmaC3"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_function("location.hash === '#pdp-lemmaC3'")
    assert page.locator("#pdp-lemmaC3").is_visible()
    squares.nth(0).click()  # one that the filter leaves out
    page.wait_for_function("location.hash === '#pdp-thm25'")
    page.wait_for_selector("#pdp-thm25", state="visible")
    page.close()


def load_edited(site: Path) -> list[SimpleNamespace]:
    """The claims as the small book has them."""
    rows = json.loads((site / "claims.json").read_text(encoding="utf8"))
    return [SimpleNamespace(**row) for row in rows]


def test_what_would_change_a_verdict_is_said_of_every_claim() -> None:
    said = {claim.id: claims.would_change(claim) for claim in load()}
    assert all(said.values())
    for claim in load():
        words = " ".join(said[claim.id])
        assert (claim.needs is None) or claim.needs in words
        assert ("our text of the paper may be damaged" in words) == (
            claims.DAMAGE in f"{claim.note} {claim.correction}"
        )
        assert all(name in words for name in claim.data)


def test_what_would_change_a_verdict_fits_the_kind_of_the_claim() -> None:
    """A table has no counterexample, a theorem no settings."""
    for claim in load():
        words = " ".join(claims.would_change(claim))
        run = claim.kind in ("worked-example", "table", "figure", "experiment-setting")
        assert not (run and "counterexample" in words), claim.id
        assert not (claim.kind == "theorem" and "settings" in words), claim.id


def test_the_ledger_is_written_for_those_who_read_one_claim() -> None:
    """Abbreviations stand with what they mean, dates and values as in a text."""
    meaning = {"IR": "individual", "IC": "incentive", "BF": "budget"}
    for claim in load():
        for short in re.findall(r"\b(?:IR|IC|BF)\b", claim.statement):
            assert meaning[short] in claim.statement.lower(), claim.id
        because = [change.because for change in claim.history]
        for text in (claim.statement, claim.note or "", claim.correction or "", *because):
            assert not re.search(r"\d{4}-\d\d-\d\d|(?<!https://)github\.com", text), claim.id


def test_what_is_accused_or_run_says_what_print_leaves_open() -> None:
    kinds = ("table", "figure", "qualitative-claim")
    for claim in load():
        decided = claim.verdict not in ("not testable", "pending")
        if claim.verdict in ("corrected", "partial") or (decided and claim.kind in kinds):
            assert claim.open, claim.id
        assert "nothing" not in claim.open or len(claim.open) == 1, claim.id


def test_a_plan_has_no_truth_value() -> None:
    plans = [claim for claim in load() if claim.statement.startswith("Future work")]
    assert {claim.verdict for claim in plans} == {"not testable"}


def test_what_holds_as_printed_is_reproduced_whatever_else_there_is_to_say() -> None:
    excuses = re.compile(r"caveat|not an error|paper does not claim|valid as bounds", re.IGNORECASE)
    excused = {claim.id for claim in load() if excuses.search(claim.note or "")}
    assert {"pdp-thm23", "khalili-future-work"} <= excused
    assert {get(name).verdict for name in excused} == {"reproduced"}


def test_the_code_that_decides_is_what_it_uses() -> None:
    cells = [
        "%matplotlib inline\nimport numpy as np",
        "x = 1\ndecide('pdp-table02', 'x', printed=True)",
        "def double(y):\n    x = y\n    return 2 * y",
        "unused = [x for x in range(3)]",
        "seen = double(x)\ndecide('pdp-table01', f'{x}', printed=[y for y in (seen,)] == [2])",
    ]
    decision = (
        "seen = double(x)\ndecide('pdp-table01', f'{x}', printed=[y for y in (seen,)] == [2])"
    )
    made = "x = 1\n\ndef double(y):\n    x = y\n    return 2 * y"
    assert claims.rests_on(cells, "pdp-table01")[0] == f"{made}\n\n{decision}"
    assert claims.rests_on(cells[:2], "pdp-table02")[0] == cells[1]
    two = "decide(\n    'pdp-table01',\n    'x',\n)\ndecide('pdp-table02', 'y')"
    assert claims.rests_on([two], "pdp-table02")[0] == "decide('pdp-table02', 'y')"


def test_what_a_decision_rests_on_is_read_off_its_cells() -> None:
    cells = [
        "from hdpm_book.records import recorded\nfrom hdpm_lib import noise",
        "from hdpm_lib.spread import each",
        "stored = recorded('levels')",
        "def trial():\n    return noise.laplace(stored)",
        "other = each(trial)",
        "decide('pdp-table01', 'x', printed=trial() > 0)",
    ]
    _, functions, records = claims.rests_on(cells, "pdp-table01")
    assert functions == ["hdpm_lib.noise.laplace"] and records == ["levels"]


def test_what_rests_on_what_is_wrong_is_touched(edited: Path) -> None:
    path = ledger.CLAIMS / "pdp-ridge.yaml"
    entries = yaml.safe_load(path.read_text(encoding="utf8"))
    uses = {"pdp-table01": ["pdp-table02"], "pdp-table02": ["pdp-lemmaC3"], "pdp-lemmaC3": []}
    for entry in entries:
        entry["uses"] = uses.get(entry["id"], [])
    path.write_text(yaml.safe_dump(entries), encoding="utf8")
    ledger._own.cache_clear()
    groups = {name: claims.groups(get(name)) for name in uses}
    assert groups == {
        "pdp-table01": ["touched"],
        "pdp-table02": ["touched"],
        "pdp-lemmaC3": ["wrong", "correction"],
    }
    assert [claim.id for claim in claims.used_by(get("pdp-lemmaC3"))] == ["pdp-table02"]


PAPER_FILES = {
    "pdp-ridge": "pdp-ridge-regression.txt",
    "khalili": "khalili-contracts-biased-dp.txt",
    "anjarlekar-journal": "anjarlekar-mechanism-logistic-journal.txt",
    "anjarlekar-tmlr": "anjarlekar-mechanism-logistic-tmlr.txt",
    "fl-market": "fl-market.txt",
}
PASSAGE = 3000  # characters within which a passage ends


def anchored(text: str, anchor: tuple[str, ...]) -> bool:
    """Whether a passage with these first and last words is in a text."""
    first, last = (" ".join(words.split()) for words in anchor)
    start = text.find(first)
    while start >= 0:
        if last in text[start + len(first) : start + PASSAGE]:
            return True
        start = text.find(first, start + 1)
    return False


@pytest.mark.skipif("HDPM_PAPERS_DIR" not in os.environ, reason="no texts of the papers")
@pytest.mark.parametrize("paper", ledger.PAPERS)
def test_anchors_are_in_the_paper(paper: str) -> None:
    text = (Path(os.environ["HDPM_PAPERS_DIR"]) / PAPER_FILES[paper]).read_text(encoding="utf8")
    text = " ".join(text.split())
    missing = [c.id for c in load(paper) if c.anchor and not anchored(text, c.anchor)]
    assert not missing
    assert not anchored(text, ("In the beginning", "there was light"))


def test_nearly_every_claim_has_an_anchor() -> None:
    """Where only a figure has the words there can be none."""
    assert sum(not claim.anchor for claim in load()) <= 5


def test_the_latest_change_is_first_on_the_ledger_page(site: Path) -> None:
    rows = [row.text for row in soup(site / "ledger.html").select(".hdpm-changes tbody tr")]
    assert ["28 November" in rows[0], "21 November" in rows[1], len(rows)] == [True, True, 2]


def moves_in_the_repository() -> set[tuple[str, str, str]]:
    """Of claims that were decided before: id, the verdict that was, the one that came."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout

    commits = git("log", "--first-parent", "-m", "--reverse", "--format=%H", "--", "data/claims")
    last = dict[str, str]()
    found = set()
    for commit in [*dict.fromkeys(commits.split()), ""]:  # and the files as they are
        lines = git(
            "grep", "-hE", "^(- id|  verdict): ", *[commit] * bool(commit), "--", "data/claims"
        )
        name = ""
        for field, value in (line.strip("- ").split(": ", 1) for line in lines.splitlines()):
            if field == "id":
                name = value
            elif last.get(name, "pending") not in ("pending", value):
                found.add((name, last[name], value))
            if field == "verdict":
                last[name] = value
    return found


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no repository")
def test_the_history_is_that_of_the_repository() -> None:
    told = {(c.id, change.was, change.now) for c in load() for change in c.history}
    assert moves_in_the_repository() <= told


def test_the_map_has_an_arc_for_each_claim_that_another_rests_on() -> None:
    for paper in ledger.PAPERS:
        shown = {"shown": {}, "own": "claims/", "page": "ledger.html"}
        drawn = BeautifulSoup(claims.part(kind="map", paper=paper, **shown), "html.parser")
        links = [str(link["href"]) for link in drawn.select("a")]
        edges = [(claim.id, name) for claim in load(paper) for name in claim.uses]
        assert len(drawn.select("svg > path")) == len(edges)
        assert {name for edge in edges for name in edge} == {Path(link).stem for link in links}
        for path in drawn.select("svg > path"):  # inside the picture, left of the claims
            _, _, _, _, width, *_ = str(path["d"]).split()
            assert 0 < float(width) <= claims.GUTTER


def test_what_is_proved_nowhere_is_counted_and_listed() -> None:
    runs = {
        "khalili-thm1": claims.Shown("khalili-thm1", "reproduced", "x", "a", strength="proof b"),
        "khalili-thm2": claims.Shown("khalili-thm2", "reproduced", "x", "a", strength="search c"),
    }
    assert [claim.id for claim in claims.tried(runs)] == ["khalili-thm2"]
    found = dict(claims.tally(runs))
    verdict = get("khalili-thm1").verdict
    assert dict(found["proof"])[verdict] == 1 and sum(dict(found["exact"]).values()) == 0


def test_a_bar_counts_verdicts_and_links_to_them(edited: Path) -> None:
    bar = BeautifulSoup(
        claims.part(kind="verdicts", paper="pdp-ridge", page="ledger.html"), "html.parser"
    )
    counted = {
        str(a["href"]).split("verdict=")[1].replace("+", " "): int(a.text.split()[0])
        for a in bar.select("a")
    }
    assert [int(str(part["style"]).split()[-1]) for part in bar.select("div span")] == [
        *counted.values()
    ]
    verdicts = Counter(claim.verdict for claim in load("pdp-ridge"))
    assert counted == {v: n for v, n in verdicts.items() if v != "pending"}
    assert bar.a["href"] == "ledger.html?paper=pdp-ridge&verdict=reproduced"
    assert bar.nav["aria-label"] == "Claims by verdict, Personalized DP for ridge regression"


def test_the_book_fails_when_pages_and_ledger_disagree(builds: Builds) -> None:
    """With what `claims.problems` finds, tried above, and old executions."""
    result = builds[2].end()
    assert result.status != 0
    for words in (
        f"khalili-thm1 is partial in the ledger, but {PAGE} does not decide it",
        "pdp-thm21 is shown as 'refuted', but the ledger says 'partial': an old execution?",
        (
            "pdp-def11 is shown as 'too small a run to decide (ledger: not testable)', but the"
            " ledger says"
        ),
    ):
        assert words in result.printed


def test_a_box_has_the_words_that_the_ledger_has_now(edited: Path) -> None:
    undecided = judge("pdp-table02", "3 of 12 rows", printed=False, source="stand-in")
    old = Decision(get("pdp-thm21"), "refuted", "an old run")
    for decision in (judge("pdp-table01", "15 < 16", printed=True), undecided, old):
        line = claims.LINE.fullmatch(repr(decision))
        assert line and claims.box(claims.Shown(*line.groups(), "book/a")) == decision._repr_html_()


def test_boxes_of_another_ledger_are_no_decisions_of_this_one(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        yaml.safe_dump([GOOD | {"id": "mine-x", "paper": "mine"}]), encoding="utf8"
    )
    ours = judge("pdp-table01", "15 of 15 rows", printed=True)
    mine = judge("mine-x", "7 of 7", printed=True, folder=tmp_path)
    page = nodes.container()
    for decision in (mine, ours):
        kinds = {"text/html": decision._repr_html_(), "text/plain": repr(decision)}
        parts = [
            nodes.container("", nodes.raw("", text), mime_type=kind) for kind, text in kinds.items()
        ]
        page += nodes.container("", *parts, nb_element="mime_bundle")
    assert [shown.claim_id for shown in claims.printed_decisions(page, "book/ridge/tables")] == [
        "pdp-table01"
    ]


def test_decisions_follow_their_page_through_rebuilds_and_parallel_reading() -> None:
    here = SimpleNamespace()
    there = SimpleNamespace()
    line = claims.Shown("pdp-table01", "reproduced", "15 of 15 rows", "book/a")
    claims.decisions(there).update({"book/a": [line], "book/other": [line]})
    claims.ledger_pages(there).add("book/a")
    claims.merge(None, here, ["book/a"], there)
    assert claims.decisions(here) == {"book/a": [line]} and claims.ledger_pages(here) == {"book/a"}
    claims.purge(None, here, "book/a")
    assert claims.decisions(here) == {} and claims.ledger_pages(here) == set()


browser = conftest.browser


def test_the_filters_work_from_disk(site: Path, browser: Any) -> None:
    url = (site / "ledger.html").as_uri()
    page = browser.new_page()
    errors: list[str] = []
    page.on(
        "pageerror",
        lambda error: errors.extend([error.stack] * ("ledger.js" in (error.stack or ""))),
    )

    def count(found: int) -> None:
        visible = page.locator(".hdpm-claims tbody tr:visible").count()
        assert visible == min(found, 30)  # so many at a time
        of = f"{found} found, of {ALL}" if found < ALL else str(ALL)
        assert page.locator(".hdpm-filters output").inner_text() == f"showing {visible} of {of}"

    def first(words: str) -> str:
        page.get_by_label("Words").fill(words)
        return str(page.locator(".hdpm-claims tbody tr:visible").first.get_attribute("id"))

    page.goto(f"{url}?paper=pdp-ridge")
    count(COUNTS["pdp-ridge"])
    page.get_by_label("Verdict", exact=True).select_option("not testable")
    count(1)
    assert "verdict=not+testable" in page.url
    page.get_by_role("button", name="Show all").click()
    page.wait_for_function(
        "document.querySelector('.hdpm-filters output').textContent"
        f".startsWith('showing 30 of {ALL}')"
    )
    assert "verdict" not in page.url
    page.get_by_role("button", name="Show 30 more").click()
    assert page.locator(".hdpm-claims tbody tr:visible").count() == 60
    # the first of those that came
    assert page.evaluate("document.activeElement.closest('tr').rowIndex") == 31
    page.get_by_label("Words").fill("bold TABLE")
    count(1)
    assert first("khalili-thm5") == "khalili-thm5"  # an id is first, then a place as one phrase
    assert first("theorem 5").startswith("khalili-thm5") and first("Table 1").startswith(
        "pdp-table01"
    )
    assert first("khalili theorem 5").startswith("khalili-thm5")
    assert first("is the lemma true?") == "pdp-lemmaC3"  # decided, before definitions
    page.get_by_label("Words").fill("")
    assert page.locator(".hdpm-claims tbody tr").first.get_attribute("id") == "pdp-thm25"
    page.get_by_label("Order", exact=True).select_option("paper")
    assert page.locator(".hdpm-claims tbody tr").first.get_attribute("id") == load()[0].id
    assert "order=paper" in page.url
    page.goto(f"{url}?paper=khalili#pdp-table01")  # the row asked for is not filtered away
    assert page.locator("#pdp-table01").is_visible()
    page.goto(f"{url}#{load()[-1].id}")  # nor is one far below
    assert page.locator(f"#{load()[-1].id}").is_visible()
    for group, found in (("wrong", 2), ("correction", 2), ("nothing", ALL)):
        page.goto(f"{url}?verdict={group}")
        count(found)
    page.goto(f"{url}?paper=nobody")
    count(ALL)
    page.get_by_role("link", name="2 partial, All papers").click()
    count(2)
    page.goto(url)
    for key in ("/", *"lemmac3", "Tab"):  # by keyboard: under ten strokes to a verdict
        page.keyboard.press(key)
    assert page.locator(".hdpm-claims tbody tr:visible").first.get_attribute("id") == "pdp-lemmaC3"
    narrow = browser.new_page(viewport={"width": 390, "height": 900})
    narrow.goto(f"{url}?paper=pdp-ridge")
    assert narrow.locator(".hdpm-summary tbody tr:visible").count() == len(ledger.PAPERS) + 1
    assert narrow.locator("#pdp-thm25 th").inner_text().split("\n")[-1] == "theorem"
    assert errors == []
    bare = browser.new_context(java_script_enabled=False).new_page()
    bare.goto(url)
    assert bare.locator(".hdpm-claims tbody tr:visible").count() == ALL
    assert not bare.locator(".hdpm-filters").is_visible()
