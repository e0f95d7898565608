"""What a notebook says of the places to which it links, where it is alone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import targets
from docutils import nodes
from sphinx.addnodes import pending_xref


def paragraph() -> nodes.paragraph:
    words = nodes.paragraph("", "At most ", nodes.math("", r"e^a"), nodes.Text(" ("))
    words += pending_xref("", nodes.Text("../idea"), reftype="doc", refexplicit=False)
    words += nodes.Text(").")
    return words


@pytest.fixture
def env() -> SimpleNamespace:
    """A book with a term, a theorem, a reference and a page."""
    term = nodes.term("", "loss", ids=["term-loss"])
    item = nodes.definition_list_item("", term, nodes.definition("", paragraph()))
    statement = nodes.admonition("", nodes.title("", "T"), nodes.section("", paragraph()))
    statement["ids"] = ["thm"]  # as sphinx-proof labels it
    entry = SimpleNamespace(
        persons={"author": ["Who, Ann"]}, fields={"year": "2020", "title": "A paper"}
    )
    cite = SimpleNamespace(citations=[SimpleNamespace(citation_id="id7", entry=entry)])
    return SimpleNamespace(
        proof_list={"thm": {"docname": "book/a/b"}},
        get_domain=lambda name: cite,
        found_docs={"book/use/glossary"},
        get_doctree=lambda page: nodes.section("", nodes.definition_list("", item), statement),
        titles={"book/a/c": nodes.title("", "All of it")},
    )


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("../use/glossary.html#term-loss", "At most $e^a$."),
        ("b.html#thm", "At most $e^a$."),
        ("../references.html#id7", "Who, Ann (2020). A paper."),
        ("../reference/x.html#hdpm_lib.audit", "`help(hdpm_lib.audit)` says what it does."),
        ("c.html", 'See the page "All of it" of the book.'),
    ],
)
def test_a_place_outside_is_told_in_a_line(env: SimpleNamespace, uri: str, said: str) -> None:
    listed = targets.Targets(env, "book/a/page")
    assert listed.place(uri, "words", "there.html") == "to-1"
    assert listed.place(uri, "words", "there.html") == "to-1"  # once
    assert f'- <a id="to-1"></a>**words**: {said} ([there](there.html))' in listed.markdown()


@pytest.mark.parametrize("uri", ["", "#here", "https://example.org/a.html", "../claims.csv"])
def test_the_web_and_places_inside_stay(env: SimpleNamespace, uri: str) -> None:
    listed = targets.Targets(env, "book/a/page")
    assert listed.place(uri, "words", uri) == "" and listed.markdown() == ""
