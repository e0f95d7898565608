"""Whose the book is, its version, licence and date, how to cite and how to answer: at the foot of
every page, and on the page of every claim.

``CITATION.cff`` says most of it, and who the authors are. Where the site is published and where
errors are reported, a page or ``mailto:``, is said once, in ``_config.yml``: ``addresses``. Where
one of the two is empty, pages say less, and ``{answer}`` that there is no address.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import execution
import yaml
from docutils import nodes
from markupsafe import Markup
from sphinx.util.docutils import SphinxDirective

LICENCE = "LICENSE.txt"
ADDRESSES = ("site", "errors", "repository", "notebooks")
# lists, and pages that say themselves how to cite them
NOT_CITED = ("genindex", "prf-prf", "search", "py-modindex", "_modules/", "book/claims/")


@cache
def citation() -> dict[str, Any]:
    """Read ``CITATION.cff``."""
    return yaml.safe_load((execution.ROOT / "CITATION.cff").read_text(encoding="utf8"))


def authors(book: dict[str, Any]) -> list[str]:
    """Return the names of the authors that a citation has: of persons, or of a group.

    Examples
    --------
    >>> group = {"name": "The authors"}
    >>> person = {"family-names": "Who", "given-names": "Ann"}
    >>> authors({"authors": [group, person]})
    ['The authors', 'Ann Who']
    """
    return [
        author.get("name") or f"{author['given-names']} {author['family-names']}"
        for author in book["authors"]
    ]


def day_of_build() -> date:
    """Today, or the day that ``SOURCE_DATE_EPOCH`` names, as reproducible builds ask."""
    seconds = float(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    return datetime.fromtimestamp(seconds, UTC).date()


def in_words(day: date) -> str:
    """Write a date as in a text.

    Examples
    --------
    >>> in_words(date(2026, 11, 8))
    '8 November 2026'
    """
    return f"{day.day} {day:%B %Y}"


@dataclass(frozen=True)
class Reference:
    """How to cite a page, or with no title the book; `site` is empty if it is not published."""

    title: str
    name: str
    site: str = ""

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"{self.site.rstrip('/')}/{self.name}.html" if self.site else ""

    def parts(self) -> tuple[str, str, date]:
        """Return authors, the book with its version, and the day of the build."""
        book = citation()
        names = " and ".join(authors(book))
        return names, f"{book['title']}, version {book['version']}", day_of_build()

    def __str__(self) -> str:
        names, book, day = self.parts()
        title = f"{self.title}. In: " if self.title else ""
        return f"{names} ({day.year}). {title}{book}, {in_words(day)}. {self.address}".rstrip()

    def bibtex(self) -> str:
        """Return the same for BibTeX."""
        _, book, day = self.parts()
        fields = {
            "author": " and ".join(f"{{{name}}}" for name in authors(citation())),
            "title": f"{{{self.title or book}}}",
        }
        if self.title:
            fields["howpublished"] = f"In: {book}"
        fields["year"] = str(day.year)
        fields["note"] = f"Version of {in_words(day)}"
        if self.site:
            fields["url"] = self.address
        key = re.sub(r"\W+", "-", self.name.removeprefix("book/"))
        lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items())
        return f"@misc{{hdpm-{key},\n{lines}}}"


def answer(errors: str, subject: str) -> str:
    """Return the address to report an error at, with a subject.

    Examples
    --------
    >>> answer("mailto:us@example.org", "A page")
    'mailto:us@example.org?subject=A%20page'
    >>> answer("https://example.org/new", "A page"), answer("", "A page")
    ('https://example.org/new?title=A%20page', '')
    """
    field = "subject" if errors.startswith("mailto:") else "title"
    return f"{errors}?{field}={quote(subject)}" if errors else ""


def foot(config: Any, pagename: str, title: str, cited: bool) -> dict[str, Any]:
    """Return what a template says of a page."""
    book = citation()
    reference = Reference(title, pagename, config.addresses["site"])
    return {
        "title": book["title"],
        "version": book["version"],
        "day": in_words(day_of_build()),
        "licence": book["license"],
        "file": "../" * pagename.count("/") + LICENCE,
        "place": reference.address or f"page {pagename.removeprefix('book/')}",
        "reference": reference if cited else None,
        "errors": answer(config.addresses["errors"], f"{pagename} ({book['version']})"),
    }


def add(app: Any, pagename: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Give the template of the foot what it needs."""
    title = Markup(context.get("title", "")).striptags()
    context["colophon"] = foot(app.config, pagename, title, not pagename.startswith(NOT_CITED))


class Colophon(SphinxDirective):
    """``{colophon}``: how to cite the book, under which licence it stands, how to answer."""

    def run(self) -> list[nodes.Node]:
        book, addresses = citation(), self.config.addresses
        up = "../" * self.env.docname.count("/")
        whole = Reference("", "index", addresses["site"])
        errors = answer(addresses["errors"], f"{book['title']} ({book['version']})")
        html = (
            f"<p>{whole}</p><pre>{whole.bibtex()}</pre>"
            f'<p>As a file: <a href="{up}CITATION.cff" download>CITATION.cff</a>. Licence of text,'
            f' code and data: <a href="{up}{LICENCE}">{book["license"]}</a>.</p>'
            + f'<p><a href="{errors}">Report an error.</a></p>'
            * bool(errors)
        )
        return [nodes.raw("", html, format="html")]


class Answer(SphinxDirective):
    """``{answer}``: where to send what speaks against a verdict."""

    def run(self) -> list[nodes.Node]:
        errors = self.config.addresses["errors"]
        told = f"The address is that of whoever publishes this copy of {citation()['title']}"
        if errors:
            name = errors.removeprefix("mailto:")
            told += f': <a href="{answer(errors, "A verdict")}">{name}</a>.'
        else:
            told += ". The copy itself names none."
        return [nodes.raw("", f"<p>{told}</p>", format="html")]


def put_files(app: Any, error: Exception | None) -> None:
    """Put licence and citation into the site."""
    if not error and app.builder.format == "html":
        shutil.copy(execution.ROOT / "LICENSE", Path(app.outdir) / LICENCE)
        shutil.copy(execution.ROOT / "CITATION.cff", app.outdir)


def publish(app: Any, config: Any) -> None:
    """Tell whatever else asks where the site is, and whose."""
    config.html_baseurl = config.addresses["site"]
    config.author = ", ".join(authors(citation()))


def setup(app: Any) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_config_value("addresses", dict.fromkeys(ADDRESSES, ""), "env")
    app.add_directive("colophon", Colophon)
    app.add_directive("answer", Answer)
    app.connect("config-inited", publish)
    app.connect("html-page-context", add)
    app.connect("build-finished", put_files)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
