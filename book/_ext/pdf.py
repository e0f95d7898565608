"""The book as one PDF: ``python book/_ext/pdf.py`` prints the pages of the built site by Chromium,
merges them with an outline, and offers the file on the site.

The site says ``{pdf}`` where it offers it; until the file is there, and after the site has been
built anew, nothing stands in that place.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag

import colophon
import execution
import yaml
from docutils import nodes
from docutils.parsers.rst import Directive
from pages import Part, parts

SITE = execution.ROOT / "_build" / "html"
NAME = "markets-for-private-data.pdf"
PLACE = "<!-- the book as one PDF -->"
PAPER = {
    "format": "A4",
    "scale": 0.75,
    "print_background": True,  # colours of verdicts and of code
    "margin": {"top": "15mm", "right": "15mm", "bottom": "18mm", "left": "15mm"},
    "display_header_footer": True,
    "header_template": "<span></span>",
    "footer_template": (
        '<p style="width: 100%; margin: 0 15mm; font-size: 8px; text-align: right"><span'
        ' class="title"></span>, <span class="pageNumber"></span> of <span'
        ' class="totalPages"></span></p>'
    ),
}


def print_pages(site: Path, pages: Sequence[Part], folder: Path) -> list[Path]:
    """Print pages of a site, each into a file of its own."""
    from playwright.sync_api import sync_playwright

    installed = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
    if (chromium := next(filter(None, installed), None)) is None:
        sys.exit("a PDF is printed by Chromium, which is not installed")
    files = [folder / f"{number}.pdf" for number, _ in enumerate(pages)]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        for part, file in zip(pages, files, strict=True):
            page.goto((site / f"{part.name}.html").as_uri())
            page.pdf(path=file, **PAPER)
        browser.close()
    return files


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
    writer.compress_identical_objects()
    book = colophon.citation()
    authors = ", ".join(colophon.authors(book))
    writer.add_metadata({"/Title": book["title"], "/Author": authors})
    return writer


def links(pages: Any) -> Iterator[Any]:
    """Links of the pages of a PDF."""
    for page in pages:
        for annotation in page.get("/Annots", ()):
            if (link := annotation.get_object()).get("/Subtype") == "/Link":
                yield link


def offer(site: Path, count: int) -> None:
    """Fill the places in the site's pages that offer the file."""
    size = (site / NAME).stat().st_size / 1e6
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf8")
        if PLACE in text:
            up = "../" * (len(page.relative_to(site).parts) - 1)
            words = f"The book as one PDF ({count} pages, {size:.0f} MB)"
            link = f'<p><a href="{up}{NAME}" download>{words}</a></p>'
            page.write_text(text.replace(PLACE, link), encoding="utf8")


def main() -> None:
    """Print the built site."""
    if not (SITE / "index.html").exists():
        sys.exit(f"there is no site in {SITE}: run `make book` first")
    contents = yaml.safe_load((execution.ROOT / "_toc.yml").read_text(encoding="utf8"))
    config = yaml.safe_load((execution.ROOT / "_config.yml").read_text(encoding="utf8"))
    pages = [*parts(contents, config["title"])]
    with tempfile.TemporaryDirectory() as folder:
        files = print_pages(SITE, pages, Path(folder))
        book = merge(SITE, pages, files, config["sphinx"]["config"]["addresses"]["site"])
        book.write(SITE / NAME)
    offer(SITE, len(book.pages))
    print(SITE / NAME)


# --- for Sphinx ---


class PdfDirective(Directive):
    """``{pdf}``: where the site offers the PDF."""

    def run(self) -> list[nodes.Node]:
        return [nodes.raw("", PLACE, format="html")]


def forget(app: Any, error: Exception | None) -> None:
    """A new site has no PDF: one of the site before would say something else."""
    (Path(app.outdir) / NAME).unlink(missing_ok=True)


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_directive("pdf", PdfDirective)
    app.connect("build-finished", forget)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    main()
