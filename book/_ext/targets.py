"""What the links of a notebook say of other pages, for those who have the notebook alone: a word of
the glossary is explained, a theorem stated, a reference given, a function of the library named.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any
from urllib.parse import urlsplit

from docutils import nodes
from sphinx.addnodes import pending_xref

TITLE = "## Where the links lead"
LEAD = (
    "This notebook may be all that you have of the book. Where it lies in the book's folder, "
    "*there* leads to the page."
)


def plain(node: nodes.Node) -> str:
    """Return the words and formulas of a node in one line of Markdown."""
    if isinstance(node, nodes.math | nodes.math_block):
        return f"${' '.join(node.astext().split())}$"
    unnamed = isinstance(node, pending_xref) and not node.get("refexplicit")
    if unnamed and node["reftype"] in ("doc", "ref"):
        return ""  # it would be the name of a file or a label
    if isinstance(node, nodes.Text):
        return str(node.astext().replace("\n", " "))
    space = "" if isinstance(node, nodes.TextElement) else " "
    return re.sub(r" ?\(\)", "", space.join(filter(None, map(plain, node.children))))


def definitions(env: Any, docname: str) -> dict[str, str]:
    """Return what a glossary says of each term, by the term's place on the page."""
    return {
        name: plain(item[-1])
        for item in env.get_doctree(docname).findall(nodes.definition_list_item)
        for term in item.findall(nodes.term)
        for name in term["ids"]
    }


def statements(env: Any, docname: str) -> dict[str, str]:
    """Return what the labelled statements of a page say, by label; read once in a build."""
    if not hasattr(env, "hdpm_statements"):
        env.hdpm_statements = {}
    if docname not in env.hdpm_statements:
        labels = {name for name, one in env.proof_list.items() if one["docname"] == docname}
        env.hdpm_statements[docname] = {
            label: plain(node[-1])
            for node in env.get_doctree(docname).findall(nodes.Element)
            for label in labels.intersection(node.get("ids", ()))
            if len(node)
        }
    return env.hdpm_statements[docname]


def description(env: Any, page: str, name: str) -> str:
    """Return what stands at a place of another page, as far as one line can say it."""
    statement = getattr(env, "proof_list", {}).get(name)
    if statement and statement["docname"] == page and name in statements(env, page):
        return statements(env, page)[name]
    for citation in env.get_domain("cite").citations:
        if citation.citation_id == name:
            entry = citation.entry
            authors = ", ".join(map(str, entry.persons.get("author", ())))
            return f"{authors} ({entry.fields.get('year', '')}). {entry.fields.get('title', '')}."
    if name.startswith(("hdpm_lib", "hdpm_book")):
        return f"`help({name})` says what it does."
    is_term = name.startswith("term-") and page in env.found_docs
    if is_term and (found := definitions(env, page).get(name)):
        return found
    title = env.titles[page].astext() if page in env.titles else page
    return f'See the page "{title}" of the book.'


class Targets:
    """The places outside a notebook to which it links, in the order of the first link.

    Parameters
    ----------
    env : BuildEnvironment
    docname : str
        The page.
    """

    def __init__(self, env: Any, docname: str) -> None:
        self.env = env
        self.docname = docname
        self.lines: dict[str, str] = {}

    def place(self, uri: str, words: str, address: str) -> str:
        """Return the place in this notebook that stands for one outside; empty for the web, and
        for what is in this notebook.
        """
        parts = urlsplit(uri)
        if parts.scheme or parts.netloc or not parts.path.endswith(".html"):
            return ""
        if address not in self.lines:
            path = posixpath.join(posixpath.dirname(self.docname), parts.path)
            page = posixpath.normpath(path).removesuffix(".html")
            said = description(self.env, page, parts.fragment)
            self.lines[address] = f"**{words}**: {said} ([there]({address}))"
        return f"to-{[*self.lines].index(address) + 1}"

    def markdown(self) -> str:
        """Return the list of all places, or nothing if there is none."""
        lines = [
            f'- <a id="to-{number}"></a>{line}'
            for number, line in enumerate(self.lines.values(), 1)
        ]
        return "\n\n".join([TITLE, LEAD, "\n".join(lines)]) if lines else ""
