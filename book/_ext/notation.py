r"""The directive ``{notation}``: symbols, their names in code and their meaning, from one file a
chapter.

``book/<chapter>/notation.yaml`` holds ``symbols``, in the order of the table, and ``local``,
letters of indices and of single boxes. A row is printed on the page that it names; those that name
none are the chapter's, and are printed by ``{notation} chapter``::

    symbols:
    - {symbol: '\varepsilon_i', code: epsilon, means: 'privacy loss of seller $i$'}
    - {symbol: '\beta', code: radius, means: 'bound on $\lVert w\rVert$', page: joint}
    local: i j n

``used`` reads the letters off a page's formulas, so that a test can compare them with the file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

FIELDS = {"symbol", "code", "means", "page"}
GREEK = set(
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi"
    " pi varpi rho varrho sigma varsigma tau upsilon phi varphi chi psi omega ell Gamma Delta Theta"
    " Lambda Xi Pi Sigma Upsilon Phi Psi Omega".split()
)
STANDARD = {r"\mathbb E", r"\mathbb R"}  # need no row
FACES = "mathcal mathbb mathbf boldsymbol"
WORDS = (
    r"\\(?:text|textit|textbf|textrm|mathrm|mathsf|mathtt|operatorname\*?|label|tag|begin|end|quad|href)"
    r"\s*\{[^{}]*\}"
)


def read(path: Path) -> tuple[list[dict[str, str]], set[str]]:
    """Rows and local letters of a file.

    Raises
    ------
    ValueError
        If a row has other fields than it should, or two rows have one symbol.
    """
    content = yaml.safe_load(path.read_text(encoding="utf8"))
    rows = content["symbols"]
    for row in rows:
        if not {"symbol", "means"} <= row.keys() <= FIELDS:
            raise ValueError(
                f"{path.name}: a row needs symbol and means and may have code and page: {row}"
            )
    symbols = [row["symbol"] for row in rows]
    if twice := {symbol for symbol in symbols if symbols.count(symbol) > 1}:
        raise ValueError(f"{path.name}: twice: {sorted(twice)}")
    return rows, set(str(content.get("local", "")).split())


def letters(formula: str) -> set[str]:
    r"""Return the letters of a formula, Greek ones and those of another face by their command.

    Examples
    --------
    >>> formula = r"\sum_i a_i \ell_i(w) + \mathcal{A}\text{ if } \eps = \tfrac{\varepsilon}{2}"
    >>> sorted(letters(formula))
    ['\\ell', '\\mathcal A', '\\varepsilon', 'a', 'i', 'w']
    """
    rest = re.sub(WORDS, " ", formula)
    faces = rf"\\({FACES.replace(' ', '|')})\s*\{{?\s*(\\?[A-Za-z]+)\s*\}}?"
    found = {rf"\{face} {letter}" for face, letter in re.findall(faces, rest)}
    rest = re.sub(faces, " ", rest)
    found |= {rf"\{name}" for name in re.findall(r"\\([A-Za-z]+)", rest) if name in GREEK}
    return found | set(re.findall(r"[A-Za-z]", re.sub(r"\\[A-Za-z]+", " ", rest)))


def used(text: str) -> set[str]:
    r"""Return the letters in the formulas of a page.

    Examples
    --------
    >>> sorted(used("Let $x>0$; `$y$` is code.\n\n$$\nz\n$$ (eq-a)\n\n```python\n$q$\n```\n"))
    ['x', 'z']
    """
    prose = re.sub(
        r"^(`{3,})(\{code-cell\}|python|bash|text).*?^\1\s*$", " ", text, flags=re.M | re.S
    )
    prose = re.sub(r"`[^`\n]+`", " ", prose)
    shown = re.findall(r"\$\$(.+?)\$\$", prose, flags=re.S)
    inline = re.findall(r"(?<!\\)\$([^$]+)\$", re.sub(r"\$\$.+?\$\$", " ", prose, flags=re.S))
    return set().union(*map(letters, [*shown, *inline]))


class Notation(SphinxDirective):
    """The rows of the chapter's file that belong on this page, or those of the whole chapter."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        page = Path(self.env.doc2path(self.env.docname))
        path = page.with_name("notation.yaml")
        self.env.note_dependency(str(path))
        try:
            wanted = None if self.arguments == ["chapter"] else page.stem
            rows = [row for row in read(path)[0] if row.get("page") == wanted]
        except (OSError, ValueError, KeyError, yaml.YAMLError) as error:
            raise self.error(f"notation: {error}") from None
        if not rows:
            raise self.error(f"notation: {path.name} has no row for {page.stem}")
        body = [
            (f"${row['symbol']}$", f"`{row['code']}`" if row.get("code") else "", row["means"])
            for row in rows
        ]
        return [self.table([("Symbol", "In the code", "Meaning"), *body])]

    def table(self, rows: list[tuple[str, ...]]) -> nodes.table:
        """Return a table of which the first row is the head."""
        head, *body = [nodes.row("", *map(self.cell, row)) for row in rows]
        columns = [nodes.colspec(colwidth=width) for width in (1, 1, 4)]
        parts = [*columns, nodes.thead("", head), nodes.tbody("", *body)]
        return nodes.table("", nodes.tgroup("", *parts, cols=3), classes=["hdpm-notation"])

    def cell(self, text: str) -> nodes.entry:
        words = self.state.inline_text(text, self.lineno)[0] if text else []
        return nodes.entry("", nodes.paragraph("", "", *words))


def setup(app: Any) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("notation", Notation)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
