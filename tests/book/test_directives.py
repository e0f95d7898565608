"""What pages show by a directive: the code of a function, the symbols of a chapter, numbers by
chapter.
"""

from __future__ import annotations

import doctest
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace

import code_of
import hour
import indexes
import notation
import numbering
import pages
import pytest
import recorded
import yaml
from docutils import nodes
from docutils.utils import new_document
from jinja2 import Environment, FileSystemLoader

from hdpm_book import records

LOOKS_AT = ["_config.yml", "_toc.yml", "book"]
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "module",
    [code_of, indexes, notation, numbering, pages, recorded],
    ids=lambda module: module.__name__,
)
def test_examples(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0 < doctest.testmod(module).attempted


def test_a_record_says_what_has_changed_since() -> None:
    made = {"date": "2026-11-29", "commit": "0123456789"}
    assert recorded.sentences(made).endswith("cannot be compared with today's.")
    today = made | {"code": records.code()}
    assert recorded.sentences(today).endswith("The code that it ran is that of this build.")
    renewed = today | {"again": {"date": "2026-11-30", "commit": "abcdef0123"}}
    assert "came out again on 30 November 2026, at commit abcdef0." in recorded.sentences(renewed)
    other = dict.fromkeys(today["code"], "another")
    assert f"{len(other)} have changed since" in recorded.sentences(made | {"code": other})


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(LookupError, match=r"^no module for nothing\.here$"):
        code_of.named("nothing.here")
    with pytest.raises(LookupError, match="Path'> is no function"):
        code_of.code_of(Path)


def test_folded_code_that_shows_nothing_is_folded_with_the_next() -> None:
    def cell(code: str, *shown: nodes.Node, mode: str = "input") -> nodes.container:
        source = nodes.container("", nodes.literal_block(code, code), nb_element="cell_code_source")
        return nodes.container("", source, *shown, hide_mode=mode)

    document = new_document("page")
    cells = [
        cell("a"),
        cell("b"),
        cell("c", nodes.paragraph()),
        cell("d"),
        nodes.paragraph(),
        cell("e"),
    ]
    document += nodes.section(
        "", *cells, cell("f", mode="output"), cell("g"), cell("h", nodes.paragraph())
    )
    code_of.OneFold(document).run()
    code = [block.astext() for block in document.findall(nodes.literal_block)]
    assert code == ["a\n\nb\n\nc", "d", "e", "f", "g\n\nh"]
    assert len(document[0]) == 6


# --- symbols ---


def complaints(folder: Path) -> list[str]:
    """Letters in a chapter's formulas that its file does not have, and those it has and no formula
    uses.
    """
    rows, local = notation.read(folder / "notation.yaml")
    declared = set().union(local, *(notation.letters(row["symbol"]) for row in rows))
    pages = {
        path.stem: notation.used(path.read_text(encoding="utf8"))
        for path in sorted(folder.glob("*.md"))
    }
    missing = {page: sorted(there - declared - notation.STANDARD) for page, there in pages.items()}
    found = [f"{page}: {' '.join(letters)}" for page, letters in missing.items() if letters]
    found += [f"not used: {letter}" for letter in sorted(declared - set().union(*pages.values()))]
    shown = {
        path.stem
        for path in folder.glob("*.md")
        if "{notation}\n" in path.read_text(encoding="utf8")
    }
    return found + [
        f"{row['page']} does not show {row['symbol']}"
        for row in rows
        if row.get("page") not in {None, *shown}
    ]


CHAPTERS = sorted(path.parent for path in (ROOT / "book").glob("*/notation.yaml"))


@pytest.mark.parametrize("folder", CHAPTERS, ids=lambda folder: folder.name)
def test_every_symbol_of_a_chapter_is_in_its_table(folder: Path) -> None:
    assert complaints(folder) == []


def test_a_missing_symbol_is_found(tmp_path: Path) -> None:
    content = {
        "symbols": [{"symbol": r"\lambda_i", "means": "x"}, {"symbol": "b", "means": "y"}],
        "local": "i",
    }
    (tmp_path / "notation.yaml").write_text(yaml.safe_dump(content), encoding="utf8")
    (tmp_path / "idea.md").write_text("$\\lambda_i b$", encoding="utf8")
    assert complaints(tmp_path) == []
    (tmp_path / "idea.md").write_text("$\\lambda_i + \\mu^2$", encoding="utf8")
    assert complaints(tmp_path) == ["idea: \\mu", "not used: b"]
    for rows in (
        [{"symbol": "b"}],
        [{"symbol": "b", "means": "y", "unit": "z"}],
        [content["symbols"][1]] * 2,
    ):
        (tmp_path / "notation.yaml").write_text(yaml.safe_dump({"symbols": rows}), encoding="utf8")
        with pytest.raises(ValueError, match=r"notation\.yaml"):
            notation.read(tmp_path / "notation.yaml")


# --- the hour ---


def foot(page: str) -> str:
    """The foot of a page of the hour as its template has it."""
    templates = Environment(loader=FileSystemLoader(ROOT / "book" / "_templates"), autoescape=True)
    made = templates.get_template("hour.html").render(
        hour=hour.stop(ROOT, page), pathto=lambda name: f"{name}.html"
    )
    return " ".join(made.split())


def test_each_page_of_the_hour_leads_to_the_next() -> None:
    names = list(hour.hour(ROOT))
    assert names[0] == hour.FIRST and set(names) <= hour.titles(ROOT).keys()
    for number, (name, after) in enumerate(pairwise([*names, ""]), 1):
        said = foot(name)
        whole = f'<a href="{hour.FIRST}.html#the-hour">the hour</a>'
        assert f"Page {number} of {len(names)} of {whole}." in said
        assert (f'Next: <a href="{after}.html">{hour.titles(ROOT).get(after)}</a>' in said) == (
            after != ""
        )
    assert 'Next: <a href="book/ridge/idea.html">Ridge regression</a>' in foot("book/privacy/idea")
    assert foot("book/index") == ""


def test_the_list_of_the_hour_leads_to_all_but_the_page_it_stands_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    env = SimpleNamespace(srcdir=str(ROOT), docname=hour.FIRST)
    directive = object.__new__(hour.Hour)
    monkeypatch.setattr(hour.Hour, "env", env, raising=False)
    directive.content_offset = 0
    read: list[str] = []
    directive.state = SimpleNamespace(nested_parse=lambda lines, *_: read.extend(lines))
    directive.run()
    first, *others = hour.hour(ROOT).items()
    assert read[0] == f"1. This page: {first[1]}."
    assert read[1:] == [
        f"{number}. {{doc}}`/{name}`: {says}." for number, (name, says) in enumerate(others, 2)
    ]


# --- numbers ---


def test_pages_of_a_chapter_continue_its_numbers(tmp_path: Path) -> None:
    first = {"file": "a", "title": "1. One", "sections": [{"file": "b", "title": "A page"}]}
    contents = {"root": "index", "chapters": [first, {"file": "c", "title": "2. Two"}]}
    (tmp_path / "_toc.yml").write_text(yaml.safe_dump(contents), encoding="utf8")
    through = {
        "index": {"figure": {"x": (1,)}},
        "a": {"figure": {"y": (2,), "z": (3,)}, "theorem": {"t": (1,)}},
        "b": {"figure": {"u": (4,)}},
        "c": {"figure": {"v": (5,)}},
    }
    numbering.renumber(
        SimpleNamespace(srcdir=str(tmp_path)), SimpleNamespace(toc_fignumbers=through)
    )
    assert through == {
        "index": {"figure": {"x": (1,)}},
        "a": {"figure": {"y": (1, 1), "z": (1, 2)}, "theorem": {"t": (1, 1)}},
        "b": {"figure": {"u": (1, 3)}},
        "c": {"figure": {"v": (2, 1)}},
    }
