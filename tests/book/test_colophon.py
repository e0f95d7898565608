"""Whose a page is, how to cite it, and where to answer: with addresses and without."""

from __future__ import annotations

import doctest
import re
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import colophon
import pytest
import yaml
from bs4 import BeautifulSoup
from jinja2 import Environment, FileSystemLoader

import hdpm_lib

ROOT = Path(__file__).resolve().parents[2]
CITATION = colophon.citation()
NONE = dict.fromkeys(colophon.ADDRESSES, "")
BOTH = NONE | {"site": "https://example.org/book/", "errors": "https://example.org/new"}


def foot(addresses: dict[str, str], cited: bool = True) -> BeautifulSoup:
    """The foot of a page as its template has it."""
    said = colophon.foot(
        SimpleNamespace(addresses=addresses), "book/ridge/idea", "One limit for each", cited
    )
    templates = Environment(loader=FileSystemLoader(ROOT / "book" / "_templates"), autoescape=True)
    made = templates.get_template("colophon.html").render(
        colophon=said, pathto=lambda name: f"../{name.split('/')[-1]}.html"
    )
    return BeautifulSoup(made, "html.parser")


@pytest.fixture(autouse=True)
def day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")


def test_examples() -> None:
    assert doctest.testmod(colophon).failed == 0 < doctest.testmod(colophon).attempted
    assert colophon.day_of_build() == date(2023, 11, 14)


def test_the_site_offers_the_citation_as_it_is_and_a_build_is_no_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "LICENSE").touch()
    told = "cff-version: 1.2.0\ndate-released: 2022-02-02\n"
    (tmp_path / "CITATION.cff").write_text(told, encoding="utf8")
    monkeypatch.setattr(colophon.execution, "ROOT", tmp_path)
    site = tmp_path / "site"
    site.mkdir()
    colophon.put_files(SimpleNamespace(builder=SimpleNamespace(format="html"), outdir=site), None)
    assert (site / "CITATION.cff").read_text(encoding="utf8") == told


def test_authors_may_be_persons(monkeypatch: pytest.MonkeyPatch) -> None:
    from pybtex.database import parse_string

    persons = [{"family-names": "Who", "given-names": "Ann"}, {"name": "The others"}]
    monkeypatch.setattr(colophon, "citation", lambda: {**CITATION, "authors": persons})
    made = colophon.Reference("One limit for each", "book/ridge/idea")
    assert str(made).startswith("Ann Who and The others (2023). One limit for each.")
    (entry,) = parse_string(made.bibtex(), "bibtex").entries.values()
    assert [str(person) for person in entry.persons["author"]] == ["{Ann Who}", "{The others}"]
    config = SimpleNamespace(addresses=NONE)
    colophon.publish(None, config)
    assert config.author == "Ann Who, The others"


def test_a_page_says_version_date_and_licence_and_without_addresses_no_more() -> None:
    page = foot(NONE)
    assert f"version {hdpm_lib.__version__}, 14 November 2023" in page.text
    links = [str(link["href"]) for link in page.select("a")]
    assert links == ["../../LICENSE.txt", "../about.html"]
    assert "http" not in page.text and "Report" not in page.text
    assert page.select_one(".onlyprint").text == "page ridge/idea"
    assert not foot(NONE, cited=False).select("details")


def test_with_addresses_a_page_says_where_it_is_and_where_to_answer() -> None:
    page = foot(BOTH)
    place = "https://example.org/book/book/ridge/idea.html"
    assert place in page.select_one("details p").text and place in page.pre.text
    assert page.select_one(".onlyprint").text == place
    (answer,) = page.select("a[href^=http]")
    assert answer["href"].startswith("https://example.org/new?title=book/ridge/idea")
    assert foot(BOTH | {"errors": "mailto:a@example.org"}).select("a[href^='mailto:a@example.org']")


@pytest.mark.parametrize("errors", ["", "https://example.org/new", "mailto:a@example.org"])
def test_who_doubts_a_verdict_is_told_where_to_write_or_that_no_address_is_named(
    errors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = SimpleNamespace(addresses={"site": "", "errors": errors})
    monkeypatch.setattr(colophon.Answer, "config", addresses, raising=False)
    (node,) = colophon.Answer.run(object.__new__(colophon.Answer))
    told = BeautifulSoup(node.astext(), "html.parser")
    assert told.text.startswith("The address is that of whoever publishes this copy")
    assert ("names none" in told.text) == (not errors)
    assert [link.text for link in told.select("a")] == [errors.removeprefix("mailto:")] * bool(
        errors
    )
    assert all(str(link["href"]).startswith(errors + "?") for link in told.select("a"))
    # the page says what to send
    about = (ROOT / "book" / "about.md").read_text(encoding="utf8")
    (told_before,) = re.findall(r"## Answer\n(.*?)```\{answer\}", about, re.DOTALL)
    assert all(words in told_before for words in ("id of the claim", "place", "number", "proof"))


@pytest.mark.parametrize("addresses", [NONE, BOTH])
@pytest.mark.parametrize("title", ["One limit for each", ""])
def test_bibtex_can_be_read(addresses: dict[str, str], title: str) -> None:
    from pybtex.database import parse_string

    made = colophon.Reference(title, "book/ridge/idea", addresses["site"])
    (entry,) = parse_string(made.bibtex(), "bibtex").entries.values()
    names = [re.sub("[{}]", "", str(person)) for person in entry.persons["author"]]
    assert names == colophon.authors(CITATION)
    assert entry.fields["year"] == "2023" and ("url" in entry.fields) == bool(addresses["site"])
    assert (title or colophon.citation()["title"]) in entry.fields["title"]
    assert entry.fields["note"] == "Version of 14 November 2023"
    assert ("howpublished" in entry.fields) == bool(title)  # a page is published in the book
    assert (title or "The authors") in str(made) and str(made).count("Markets") >= 1


def test_the_book_has_one_setting_for_addresses() -> None:
    config: dict[str, Any] = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf8"))
    addresses = config["sphinx"]["config"]["addresses"]
    assert addresses.keys() == NONE.keys() and "baseurl" not in config["html"]
    assert "author" not in config  # CITATION.cff names them
