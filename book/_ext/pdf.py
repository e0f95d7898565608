"""The book as one PDF, and the library's reference as another: ``python book/_ext/pdf.py`` prints
the pages of the built site by Chromium, merges them with a cover, contents, page numbers and an
outline, and offers the files on the site.

The site says ``{pdf}`` where it offers them; until they are there, and after the site has been
built anew, nothing stands in that place.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urldefrag

import colophon
import execution
import yaml
from docutils import nodes
from docutils.parsers.rst import Directive
from pages import Part, parts

SITE = execution.ROOT / "_build" / "html"
STEM = "markets-for-private-data"
NAME = f"{STEM}.pdf"
PLACE = "<!-- the book as one PDF -->"
PAPER = {
    "format": "A4",
    "scale": 0.75,
    "print_background": True,  # colours of verdicts and of code
    "margin": {"top": "15mm", "right": "15mm", "bottom": "18mm", "left": "15mm"},
}
SHEET = {"format": "A4", "print_background": True}  # ours, which have margins of their own
# the cover says what stands at the foot of each page of the site
NO_FOOT = "html .bd-main footer.bd-footer-content.bd-footer-content { display: none !important; }"
STYLE = """<style>
  @page { size: A4; margin: 25mm; }
  body { margin: 0; font: 11pt/1.5 sans-serif; }
  h1 { font-size: 22pt; }
  .cover { padding-top: 55mm; }
  .cover h1 { margin: 0; font-size: 32pt; line-height: 1.2; }
  .cover :last-child { margin-top: 60mm; }
  .line { display: flex; gap: 1em; justify-content: space-between; margin: 0; break-inside: avoid; }
  .line a { color: inherit; text-decoration: none; }
  .depth-0 { margin-top: .6em; font-weight: bold; }
</style>"""
NUMBERS = """<style>
  @page { size: A4; margin: 0; }
  body { margin: 0; font: 7.5pt sans-serif; }
  div { box-sizing: border-box; height: 297mm; padding: 284mm 15mm 0; overflow: hidden; }
  div { text-align: right; break-after: page; }
  div:last-child { break-after: auto; }
</style>"""


class Volume(NamedTuple):
    """A PDF: the file, what it is, and the pages of the site in it."""

    file: str
    title: str
    pages: Sequence[Part]


def volumes(pages: Sequence[Part], title: str) -> tuple[Volume, Volume]:
    """Return the book, and apart from it the reference of its library."""
    reference = [part for part in pages if part.name.startswith("book/reference/")]
    book = [part for part in pages if part not in reference]
    highest = min((part.depth for part in reference), default=0)
    reference = [replace(part, depth=part.depth - highest) for part in reference]
    return (
        Volume(NAME, title, book),
        Volume(f"{STEM}-library.pdf", f"{title}: the library", reference),
    )


def chromium() -> str:
    """Return where Chromium is; stop before anything is printed if something is missing."""
    installed = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
    if (found := next(filter(None, installed), None)) is None:
        sys.exit("a PDF is printed by Chromium, which is not installed")
    for name in ("playwright", "pypdf"):
        if find_spec(name) is None:
            sys.exit(f"a PDF needs {name}, which is not installed: `make pdf` installs it")
    return found


def print_page(browser: Any, page: Path, file: Path, **paper: Any) -> Path:
    """Print a page from disk into a file."""
    tab = browser.new_page()
    tab.goto(page.as_uri())
    tab.add_style_tag(content=NO_FOOT)
    tab.pdf(path=file, **paper)
    tab.close()
    return file


def cover(title: str, address: str) -> str:
    """Return the first sheet: title, what the book is, authors, version and date."""
    book = colophon.citation()
    names = ", ".join(colophon.authors(book))
    day = colophon.in_words(colophon.day_of_build())
    lines = [book["abstract"], names, f"Version {book['version']}, {day}. {address}"]
    words = "".join(f"<p>{escape(line)}</p>" for line in lines)
    return f'<title>Cover</title>{STYLE}<div class="cover"><h1>{escape(title)}</h1>{words}</div>'


def contents(site: Path, pages: Sequence[Part], starts: Sequence[int]) -> str:
    """Return the list of contents: each page of the site, and the number of its first sheet."""
    lines = [
        f'<p class="line depth-{part.depth}" style="padding-left: {1.5 * part.depth}em">'
        f'<a href="{(site / f"{part.name}.html").as_uri()}">{escape(part.title)}</a>'
        f"<span>{start}</span></p>"
        for part, start in zip(pages, starts, strict=True)
    ]
    return f"<title>Contents</title>{STYLE}<h1>Contents</h1>{''.join(lines)}"


def numbers(title: str, count: int) -> str:
    """Return what is laid over the sheets: title and number of each but the cover."""
    sheets = [f"{escape(title)}, {number} of {count}" for number in range(2, count + 1)]
    return f"<title>Numbers</title>{NUMBERS}" + "".join(
        f"<div>{words}</div>" for words in ("", *sheets)
    )


def bind(browser: Any, site: Path, volume: Volume, address: str, folder: Path) -> Any:
    """Print the pages of a volume, and put them together with cover, contents and page numbers."""
    from pypdf import PdfReader

    def ours(name: str, text: str) -> Path:
        sheet = folder / f"{name}.html"
        sheet.write_text(
            f"<!doctype html><html lang=en><meta charset=utf-8>{text}", encoding="utf8"
        )
        return print_page(browser, sheet, folder / f"{name}.pdf", **SHEET)

    files = [
        print_page(browser, site / f"{part.name}.html", folder / f"{number}.pdf", **PAPER)
        for number, part in enumerate(volume.pages)
    ]
    lengths = [len(PdfReader(file).pages) for file in files]
    # the list is as long with any numbers in it
    draft = ours("contents", contents(site, volume.pages, lengths))
    starts = [2 + len(PdfReader(draft).pages)]
    for length in lengths[:-1]:
        starts.append(starts[-1] + length)
    listed = ours("contents", contents(site, volume.pages, starts))
    first = ours("cover", cover(volume.title, address))
    front = [Part("cover", volume.title, 0), Part("contents", "Contents", 0)]
    book = merge(site, [*front, *volume.pages], [first, listed, *files], address)
    over = PdfReader(ours("numbers", numbers(volume.title, len(book.pages))))
    for sheet, number in zip(book.pages, over.pages, strict=True):
        sheet.merge_page(number)
    book.compress_identical_objects()
    names = ", ".join(colophon.authors(colophon.citation()))
    book.add_metadata({"/Title": volume.title, "/Author": names})
    return book


def merge(site: Path, pages: Sequence[Part], files: Sequence[Path], address: str) -> Any:
    """Put the files together; links between pages lead to the page in the PDF, and to other pages
    of the site where the site is published, if it is.
    """
    from pypdf import PdfReader, PdfWriter
    from pypdf.generic import ArrayObject, NameObject, NullObject, TextStringObject

    writer = PdfWriter()
    starts: dict[str, int] = {}
    outline: list[Any] = []
    for part, file in zip(pages, files, strict=True):
        reader = PdfReader(file)
        named = reader.named_destinations
        for link in links(reader.pages):  # names are those of one file: no other has the same
            if (target := named.get(link.get("/Dest"))) is not None:
                link[NameObject("/Dest")] = target.dest_array
        start = starts[f"{part.name}.html"] = len(writer.pages)
        writer.append(reader, import_outline=False)
        del outline[part.depth :]
        above = outline[-1] if outline else None
        outline.append(writer.add_outline_item(title=part.title, page_number=start, parent=above))
    prefix = f"{site.as_uri()}/"
    for link in links(writer.pages):
        uri = link.get("/A", {}).get("/URI", "")
        if uri.startswith(prefix):
            name, place = urldefrag(uri.removeprefix(prefix))
            if name.split("?")[0] in starts:
                sheet = writer.pages[starts[name.split("?")[0]]].indirect_reference
                at = (NameObject("/XYZ"), NullObject(), NullObject(), NullObject())
                link[NameObject("/Dest")] = ArrayObject([sheet, *at])
                del link[NameObject("/A")]
            elif address:
                there = f"{address.rstrip('/')}/{name}{'#' * bool(place)}{place}"
                link["/A"][NameObject("/URI")] = TextStringObject(there)
            else:
                del link[NameObject("/A")]
    return writer


def links(pages: Any) -> Iterator[Any]:
    """Links of the pages of a PDF."""
    for page in pages:
        for annotation in page.get("/Annots", ()):
            if (link := annotation.get_object()).get("/Subtype") == "/Link":
                yield link


def offer(site: Path, counts: Sequence[tuple[Volume, int]]) -> None:
    """Fill the places in the site's pages that offer the files."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf8")
        if PLACE in text:
            up = "../" * (len(page.relative_to(site).parts) - 1)
            links = []
            for volume, count in counts:
                size = (site / volume.file).stat().st_size / 1e6
                what = "The book" if volume.file == NAME else "Its library"
                words = f"{what} as one PDF ({count} pages, {size:.0f} MB)"
                links.append(f'<a href="{up}{volume.file}" download>{words}</a>')
            page.write_text(text.replace(PLACE, f"<p>{'<br>'.join(links)}</p>"), encoding="utf8")


def main() -> None:
    """Print the built site."""
    if not (SITE / "index.html").exists():
        sys.exit(f"there is no site in {SITE}: run `make book` first")
    path = chromium()
    from playwright.sync_api import sync_playwright

    toc = yaml.safe_load((execution.ROOT / "_toc.yml").read_text(encoding="utf8"))
    config = yaml.safe_load((execution.ROOT / "_config.yml").read_text(encoding="utf8"))
    address = config["sphinx"]["config"]["addresses"]["site"]
    counts = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"]
        )
        for volume in volumes([*parts(toc, config["title"])], config["title"]):
            with tempfile.TemporaryDirectory() as folder:
                book = bind(browser, SITE, volume, address, Path(folder))
                book.write(SITE / volume.file)
            counts.append((volume, len(book.pages)))
            print(SITE / volume.file)
        browser.close()
    offer(SITE, counts)


# --- for Sphinx ---


class PdfDirective(Directive):
    """``{pdf}``: where the site offers the PDF."""

    def run(self) -> list[nodes.Node]:
        return [nodes.raw("", PLACE, format="html")]


def forget(app: Any, error: Exception | None) -> None:
    """Remove the PDF of the site before, which would say something else."""
    for volume in volumes([], ""):
        (Path(app.outdir) / volume.file).unlink(missing_ok=True)


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_directive("pdf", PdfDirective)
    app.connect("build-finished", forget)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    main()
