"""The book as one PDF, from a small site: order, outline, and links that lead somewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pdf
import pytest

from tests.site import conftest

PAGES = [pdf.Part("index", "Front", 0), pdf.Part("a", "First", 0), pdf.Part("in/b", "Second", 1)]
LONG = "<p>Words.</p>" * 120
PLACE = f'<a href="#there">down</a>{LONG}<h2 id="there">There</h2>'
TEXTS = {
    "index": '<a href="a.html#there">first</a> <a href="aside.html#x">aside</a>',
    "a": f'<a href="https://example.org/">out</a> {PLACE}',
    "in/b": f'<a href="../a.html?x=1">back</a> {LONG} {PLACE}',
}

browser = conftest.browser  # skips where there is none


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory, browser: Any) -> tuple[Path, list[Path]]:
    """A site, and its pages as printed."""
    site = tmp_path_factory.mktemp("site")
    for name, text in TEXTS.items():
        path = site / f"{name}.html"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"<html lang=en><title>{name}</title><main>{text}{pdf.PLACE}</main>")
    files = []
    for part in PAGES:
        page = browser.new_page()
        page.goto((site / f"{part.name}.html").as_uri())
        files.append(site / f"{part.name.replace('/', '-')}.pdf")
        page.pdf(path=files[-1], **pdf.PAPER)
        page.close()
    return site, files


def read(printed: tuple[Path, list[Path]], address: str) -> Any:
    reader = pytest.importorskip("pypdf", reason="pypdf is not installed: `make pdf`").PdfReader
    site, files = printed
    pdf.merge(site, PAGES, files, address).write(site / pdf.NAME)
    return reader(site / pdf.NAME)


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


def test_pages_are_in_order_with_an_outline_and_links_inside(
    printed: tuple[Path, list[Path]],
) -> None:
    book = read(printed, "")
    count = len(book.pages)
    starts = [book.get_destination_page_number(entry) for entry in book.outline[:2]]
    (inner,) = book.outline[2]
    starts.append(book.get_destination_page_number(inner))
    assert [entry.title for entry in (*book.outline[:2], inner)] == ["Front", "First", "Second"]
    assert starts[:2] == [0, 1] and starts[2] > 2
    first, aside, out, down, back, down_there = targets(book)
    assert (first, back, out) == (1, 1, "https://example.org/") and aside is None
    # two places of one name, each in its own page
    assert 1 < down < starts[2] < down_there == count - 1
    assert book.metadata.title == "Markets for private data"
    assert b"file://" not in (printed[0] / pdf.NAME).read_bytes()


def test_a_published_site_is_named(printed: tuple[Path, list[Path]]) -> None:
    assert targets(read(printed, "https://example.org/book"))[1] == (
        "https://example.org/book/aside.html#x"
    )


def test_the_site_offers_it_once_it_is_there(printed: tuple[Path, list[Path]]) -> None:
    site, _ = printed
    (site / pdf.NAME).write_bytes(b"x" * 3_000_000)
    pdf.offer(site, 7)
    page = (site / "in" / "b.html").read_text()
    assert f'href="../{pdf.NAME}"' in page and "(7 pages, 3 MB)" in page and pdf.PLACE not in page
