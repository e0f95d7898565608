"""The book as one PDF, from a small site: order, contents, numbers, outline, and links that lead
somewhere.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pdf
import pytest

from tests.site import conftest

PAGES = [
    pdf.Part("index", "Front", 0),
    pdf.Part("a", "First", 0),
    pdf.Part("in/b", "Second", 1),
    pdf.Part("book/reference/index", "Library", 1),
    pdf.Part("book/reference/c", "Functions", 2),
]
LONG = "<p>Words.</p>" * 120
PLACE = f'<a href="#there">down</a>{LONG}<h2 id="there">There</h2>'
TEXTS = {
    "index": '<a href="a.html#there">first</a> <a href="aside.html#x">aside</a>',
    "a": f'<a href="https://example.org/">out</a> {PLACE}',
    "in/b": f'<a href="../a.html?x=1">back</a> {LONG} {PLACE}',
    "book/reference/index": "A table.",
    "book/reference/c": "A function.",
}

browser = conftest.browser  # skips where there is none


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site, with a foot on each page."""
    site = tmp_path_factory.mktemp("site")
    for name, text in TEXTS.items():
        path = site / f"{name}.html"
        path.parent.mkdir(exist_ok=True, parents=True)
        foot = '<div class="bd-main"><footer class="bd-footer-content">Cite it so.</footer></div>'
        path.write_text(f"<html lang=en><title>{name}</title><main>{text}{pdf.PLACE}</main>{foot}")
    return site


@pytest.fixture(scope="module", params=["", "https://example.org/book"])
def books(
    site: Path, request: Any, browser: Any, tmp_path_factory: pytest.TempPathFactory
) -> list[Any]:
    """Both volumes, of a site that has no address or has one."""
    reader = pytest.importorskip("pypdf", reason="pypdf is not installed: `make pdf`").PdfReader
    books = []
    for volume in pdf.volumes(PAGES, "A book"):
        folder = tmp_path_factory.mktemp("sheets")
        pdf.bind(browser, site, volume, request.param, folder).write(site / volume.file)
        books.append(reader(site / volume.file))
    return [request.param, *books]


def targets(book: Any) -> list[Any]:
    """Where the links of a PDF lead: a number of a page, an address, or None."""
    found = []
    for link in pdf.links(book.pages):
        place = link.get("/Dest")
        number = next(
            (n for n, page in enumerate(book.pages) if place and page == place[0].get_object()),
            None,
        )
        found.append(link.get("/A", {}).get("/URI") if place is None else number)
    return found


def test_a_book_has_a_cover_contents_and_numbers(books: list[Any], site: Path) -> None:
    address, book, _ = books
    texts = [page.extract_text() for page in book.pages]
    count = len(texts)
    assert "A book" in texts[0] and "Version" in texts[0] and address in texts[0]
    assert f"2 of {count}" not in texts[0]
    for number, text in enumerate(texts[1:], 2):
        assert f"A book, {number} of {count}" in text
    assert "Cite it so." not in "".join(texts)
    first = next(n for n, text in enumerate(texts, 1) if "out" in text.split())
    assert re.search(rf"First\s*{first}\b", texts[1])
    assert "Functions" not in "".join(texts)
    assert b"file://" not in (site / pdf.NAME).read_bytes()


def test_pages_are_in_order_with_an_outline_and_links_inside(books: list[Any]) -> None:
    address, book, _ = books
    count = len(book.pages)
    *entries, (inner,) = book.outline
    assert [entry.title for entry in (*entries, inner)] == [
        *("A book", "Contents", "Front", "First", "Second"),
    ]
    starts = [book.get_destination_page_number(entry) for entry in (*entries, inner)]
    assert starts[:4] == [0, 1, 2, 3] and starts[4] > 4
    *listed, first, aside, out, down, back, down_there = targets(book)
    assert listed == starts[2:]
    assert (first, back, out) == (3, 3, "https://example.org/")
    assert aside == (f"{address}/aside.html#x" if address else None)
    # two places of one name, each in its own page
    assert 3 < down < starts[4] < down_there == count - 1
    assert book.metadata.title == "A book"


def test_the_reference_of_the_library_is_a_book_of_its_own(books: list[Any]) -> None:
    _, _, library = books
    entry, listed, first, (second,) = library.outline
    assert [entry.title, listed.title, first.title, second.title] == [
        *("A book: the library", "Contents", "Library", "Functions"),
    ]


def test_what_is_missing_is_said_before_anything_is_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pdf.shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match="Chromium, which is not installed"):
        pdf.chromium()
    monkeypatch.setattr(pdf.shutil, "which", lambda name: name)
    monkeypatch.setattr(pdf, "find_spec", lambda name: None if name == "pypdf" else name)
    with pytest.raises(SystemExit, match="needs pypdf, which is not installed: `make pdf`"):
        pdf.chromium()


def test_the_site_offers_them_once_they_are_there(site: Path) -> None:
    volumes = pdf.volumes(PAGES, "A book")
    for volume in volumes:
        (site / volume.file).write_bytes(b"x" * 3_000_000)
    pdf.offer(site, [(volume, 7) for volume in volumes])
    page = (site / "in" / "b.html").read_text()
    for volume in volumes:
        assert f'href="../{volume.file}"' in page
    assert page.count("(7 pages, 3 MB)") == 2 and pdf.PLACE not in page
