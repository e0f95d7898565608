"""The ledger, made from what the chapters printed in this build.

A chapter shows decisions with ``hdpm_book.ledger.decide``. While Sphinx reads the pages, this
extension keeps the lines that these decisions printed; the directives ``{ledger}``, ``{needs}``,
``{verdicts}`` and ``{holds}`` put them beside the ledger's entries. A claim that is decided twice,
on another page than the ledger says, nowhere, by too few draws, or with another verdict than the
ledger's is a warning, which ends a build under ``-W``.

``decided_claims`` and ``problems`` do the same bookkeeping on the text of the pages, without
running them.

Claims that cannot be tested are decided by no cell: the ledger links them to the page that uses or
explains them.
"""

from __future__ import annotations

import ast
import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import execution
import slices
from colophon import Reference, answer, in_words
from docutils import nodes
from docutils.parsers.rst import Directive
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup
from myst_nb.core.read import read_myst_markdown_notebook
from myst_parser.config.main import MdParserConfig
from sphinx.util import logging

from hdpm_book import ledger

LOGGER = logging.getLogger(__name__)
LINE = re.compile(rf"(\S+)  ({'|'.join(ledger.VERDICTS)}|\S[^()]+ \(ledger: [a-z ]+\))  (.+)")
DAMAGE = "reads wrong in our text"
LINKED = re.compile(r'href="(\.\./)*claims/')  # in a box: a claim of this book
MARK = re.compile("[.,;:!?)]+")
PLAIN = re.compile('<span class="[npw]">([^<]*)</span>')  # names and brackets, coloured as all text
DECIDE_NOTHING = tuple(f"hdpm_book.{name}" for name in "ledger notebook plots records".split())
LEDGER = "book/ledger"
CLAIMS = "book/claims"


class Shown(NamedTuple):
    """A decision as a page printed it."""

    claim_id: str
    outcome: str
    evidence: str
    docname: str
    code: str = ""
    """The cell that decided."""
    over: Mapping[str, str] = {}
    """The values tried of what the paper leaves open."""
    strength: str = ""
    """How strong the evidence is."""
    functions: Sequence[str] = ()
    """Functions of the library and of the book that the cells call."""
    records: Sequence[str] = ()
    """Records that they read."""


# --- who decides what ---


def decided_claims(source_text: str) -> list[str]:
    """Names of the claims that a page decides, read from its code cells without running them.

    A name is written in the call, ``decide("pdp-table01", ...)``, or is the variable of a ``for``
    loop around the call; the names are then written in the head of the loop, or in what the page
    assigns to a variable that stands there. A call with a ``folder`` decides a claim of another
    ledger. Every other call is an error, so that no call escapes the count. Code that is never
    reached does not escape either: the build compares the ledger with what the cells printed.

    Parameters
    ----------
    source_text : str
        A chapter in MyST Markdown.

    Returns
    -------
    list of str
        In the order of the page, with repetitions.

    Raises
    ------
    ValueError
        If the name in a call cannot be read off, or the code cells are not Python.

    Examples
    --------
    >>> cell = "```{code-cell}\\nfor name in ('pdp-table01', 'pdp-table02'):\\n"
    >>> cell += "    decide(name, '15 rows')\\n```"
    >>> decided_claims(cell)
    ['pdp-table01', 'pdp-table02']
    """
    page = read_myst_markdown_notebook(source_text, config=MdParserConfig())
    try:
        tree = ast.parse(execution.python(page))
    except SyntaxError as error:
        raise ValueError(f"a code cell is not Python: {error.msg}: {error.text}") from None
    ids = {claim.id for claim in ledger.load()}
    assigned: dict[str, list[ast.AST]] = {}
    for node in ast.walk(tree):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Name):
                assigned.setdefault(target.id, []).append(node.value)

    def strings(node: ast.AST) -> list[str]:
        return [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and n.value in ids]

    def visit(node: ast.AST, loops: dict[str, list[str]]) -> Iterator[str]:
        if isinstance(node, ast.For):
            heads = [
                value
                for n in ast.walk(node.iter)
                if isinstance(n, ast.Name)
                for value in assigned.get(n.id, ())
            ]
            names = [name for head in (node.iter, *heads) for name in strings(head)]
            loops = {
                **loops,
                **{n.id: names for n in ast.walk(node.target) if isinstance(n, ast.Name)},
            }
        if isinstance(node, ast.Call) and _decides(node):
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value
            elif isinstance(first, ast.Name) and loops.get(first.id):
                yield from loops[first.id]
            else:
                raise ValueError(f"write the name of the claim out: {ast.unparse(node)[:80]}")
        for child in ast.iter_child_nodes(node):
            yield from visit(child, loops)

    return list(visit(tree, {}))


def _decides(call: ast.Call) -> bool:
    """Whether a call decides a claim of this book."""
    named = getattr(call.func, "attr", getattr(call.func, "id", "")) == "decide"
    return named and not any(given.arg == "folder" for given in call.keywords)


def problems(decided: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Where ledger and pages disagree on who decides what.

    Parameters
    ----------
    decided : mapping of str to sequence of str
        For each page, like ``ridge/reproduction``, the claims it decides.

    Returns
    -------
    list of (page, message)
        A claim decided twice, elsewhere than the ledger says or nowhere although it has a verdict;
        a decision on a claim that the ledger does not have or calls pending.
    """
    claims = {claim.id: claim for claim in ledger.load()}
    pages: dict[str, list[str]] = {}
    for page, ids in decided.items():
        for claim_id in ids:
            pages.setdefault(claim_id, []).append(page)
    found = []
    for claim_id, on in pages.items():
        claim = claims.get(claim_id)
        if claim is None:
            found.append((on[0], f"{claim_id} is decided, but the ledger has no such claim"))
            continue
        if len(on) > 1:
            found.append((on[-1], f"{claim_id} is decided {len(on)} times, on {', '.join(on)}"))
        for page in sorted({*on} - {claim.page}):
            owner = f"gives it to {claim.page}" if claim.page else "says it is pending"
            found.append((page, f"{claim_id} is decided on {page}, but the ledger {owner}"))
    for claim in claims.values():
        if claim.page and claim.id not in pages and claim.verdict != "not testable":
            message = (
                f"{claim.id} is {claim.verdict} in the ledger, but {claim.page} does not decide it"
            )
            found.append((claim.page, message))
    return found


# --- what the pages of this build printed ---


def page_of(docname: str) -> str:
    """Return the name a page has in the ledger: relative to ``book/``."""
    return docname.removeprefix("book/")


def printed_decisions(doctree: nodes.Node, docname: str) -> Iterator[Shown]:
    """Return the decisions among the outputs of a page, before myst-nb picks one of their formats.

    Their boxes are drawn anew: the words of the ledger may have changed since the page was
    executed. One of another ledger has no link into this one, and stays as it is.
    """
    for bundle in doctree.findall(
        lambda n: isinstance(n, nodes.container) and n.get("nb_element") == "mime_bundle"
    ):
        part = {part.get("mime_type"): part for part in bundle.children}
        drawn = part["text/html"].astext() if "text/html" in part else ""
        if 'class="hdpm-decision' in drawn and LINKED.search(drawn):
            text = part["text/plain"].astext().strip() if "text/plain" in part else ""
            line, *more = text.splitlines() or [""]
            if (match := LINE.fullmatch(line)) is None:
                LOGGER.warning("a decision cannot be read: %r", line, location=docname)
            else:
                name, outcome, evidence = match.groups()
                code, functions, records = rests_on(code_before(bundle, doctree), name)
                over, strength = {}, ""
                for row in more:
                    if row.startswith(ledger.BY):
                        strength = row.removeprefix(ledger.BY)
                    else:
                        left_open, values = row.removeprefix(ledger.OVER).split(": ", 1)
                        over[left_open] = values
                shown = Shown(
                    *(name, outcome, evidence, docname),
                    code,
                    over,
                    strength,
                    functions,
                    records,
                )
                next(part["text/html"].findall(nodes.raw)).children = [nodes.Text(box(shown))]
                yield shown


def code_before(output: nodes.Node, doctree: nodes.Node) -> list[str]:
    """Return the code of the cells of a page, up to the one that printed something."""
    found = []
    for cell in doctree.findall(
        lambda n: isinstance(n, nodes.container) and n.get("nb_element") == "cell_code"
    ):
        inputs = (n for n in cell.children if "cell_input" in n.get("classes", ()))
        blocks = (n.astext() for part in inputs for n in part.findall(nodes.literal_block))
        found.append("\n".join(blocks))
        if output.parent in cell.children:
            return found
    return []


def rests_on(cells: Sequence[str], claim_id: str) -> tuple[str, list[str], list[str]]:
    """Return what a decision rests on: the last of these cells, without decisions on others, after
    those that make what it uses; the functions of the library and of the book that they call; the
    records that they read.

    Examples
    --------
    >>> cells = ["from hdpm_lib.noise import laplace", "rows = laplace(15)", "other = 3"]
    >>> decisions = "decide('pdp-table01', rows)\\ndecide('pdp-table02', other)"
    >>> code, functions, _ = rests_on([*cells, decisions], "pdp-table01")
    >>> print(code)
    rows = laplace(15)
    <BLANKLINE>
    decide('pdp-table01', rows)
    >>> functions
    ['hdpm_lib.noise.laplace']
    """
    plain = [re.sub(r"(?m)^%.*$", "", cell) for cell in cells]
    statements = [(k, part) for k, cell in enumerate(plain) for part in ast.parse(cell).body]
    parts = [part for _, part in statements]
    if not any(claim_id in slices.decided(part) for part in parts):
        return "", [], []  # another page's decision, or an old output
    kept = slices.needed(parts, claim_id)
    chosen = {id(part) for part in kept if not isinstance(part, ast.Import | ast.ImportFrom)}
    shown = {k for k, part in statements if id(part) in chosen}
    code = "\n\n".join(_without_others(plain[k], claim_id).strip() for k in sorted(shown))
    records = {
        str(call.args[0].value)
        for part in kept
        for call in ast.walk(part)
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) == "recorded"
        and isinstance(call.args[0], ast.Constant)
    }
    used = slices.called(kept, "hdpm_book")
    helpers = [name for name in used if not name.startswith(DECIDE_NOTHING)]
    return code, slices.called(kept, "hdpm_lib") + helpers, sorted(records)


def _without_others(cell: str, claim_id: str) -> str:
    """Return a cell without its decisions on other claims."""
    lines = cell.splitlines()
    for node in reversed(ast.parse(cell).body):
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and _decides(call):
            name = call.args[0] if call.args else None
            if isinstance(name, ast.Constant) and name.value != claim_id:
                del lines[node.lineno - 1 : node.end_lineno]
    return "\n".join(lines)


def box(shown: Shown) -> str:
    """Draw the box of a decision, with what the ledger says of the claim now."""
    claim = ledger.get(shown.claim_id)
    outcome = shown.outcome.removesuffix(f" (ledger: {claim.verdict})").removeprefix(
        "this run finds "
    )
    verdict, undecided = (outcome, "") if outcome in ledger.VERDICTS else (claim.verdict, outcome)
    run = ledger.Decision(claim, verdict, shown.evidence, undecided, shown.over, shown.strength)
    return run._repr_html_()


def decisions(env: Any) -> dict[str, list[Shown]]:
    """Decisions of this build by page, kept with Sphinx's environment."""
    if not hasattr(env, "hdpm_decisions"):
        env.hdpm_decisions = {}
    return env.hdpm_decisions


def ledger_pages(env: Any) -> set[str]:
    """Pages that hold one of the directives."""
    if not hasattr(env, "hdpm_ledger_pages"):
        env.hdpm_ledger_pages = set()
    return env.hdpm_ledger_pages


def collect(app: Any, doctree: nodes.document) -> None:
    docname = app.env.docname
    if shown := [*printed_decisions(doctree, docname)]:
        decisions(app.env)[docname] = shown


def purge(app: Any, env: Any, docname: str) -> None:
    decisions(env).pop(docname, None)
    ledger_pages(env).discard(docname)


def merge(app: Any, env: Any, docnames: Iterable[str], other: Any) -> None:
    """Take over what a parallel reader found on its own pages."""
    for docname in docnames:
        if docname in decisions(other):
            decisions(env)[docname] = decisions(other)[docname]
        if docname in ledger_pages(other):
            ledger_pages(env).add(docname)


def check(app: Any, env: Any) -> None:
    """Warn where the build and the ledger disagree; one that runs no page cannot."""
    if app.config.nb_execution_mode == "off":
        return
    docnames = {page_of(docname): docname for docname in env.found_docs}
    shown = decisions(env)
    for page, message in problems(
        {page_of(d): [s.claim_id for s in shown[d]] for d in sorted(shown)}
    ):
        LOGGER.warning("ledger: %s", message, location=docnames.get(page))
    claims = {claim.id: claim for claim in ledger.load()}
    statements = getattr(env, "proof_list", {})
    for line in (line for lines in shown.values() for line in lines if line.claim_id in claims):
        for half in line.strength.split("; "):
            if half.startswith(ledger.PROVED) and not labels_in(half):
                LOGGER.warning("%s names no proof", line.claim_id, location=line.docname)
        for label in labels_in(line.strength):
            if label not in statements:
                LOGGER.warning(
                    "%s is decided by %r, which labels no statement",
                    *(line.claim_id, label),
                    location=line.docname,
                )
        verdict = claims[line.claim_id].verdict
        if line.outcome not in (verdict, f"{ledger.STANDIN} (ledger: {verdict})"):
            LOGGER.warning(
                "ledger: %s is shown as %r, but the ledger says %r: an old execution?",
                *(line.claim_id, line.outcome, verdict),
                location=line.docname,
            )


# --- for other programs ---


FIELDS = (
    "id",
    "paper",
    "place",
    "kind",
    "anchor",
    "statement",
    "uses",
    "verdict",
    "correction",
    "why",
    "note",
    "link",
    "section",
    "evidence",
    "strength",
    "functions",
    "records",
    "would_change",
    "reply",
    "open",
    "history",
)


def listed(env: Any) -> list[dict[str, Any]]:
    """All claims with what this build found, as rows of `FIELDS`; links are relative to the
    ledger's page.
    """
    shown = {s.claim_id: s for lines in decisions(env).values() for s in lines}
    found = []
    for claim in ledger.load():
        run = shown.get(claim.id)
        row = {name: getattr(claim, name, None) or "" for name in FIELDS}
        row["anchor"] = list(claim.anchor)
        row["uses"] = list(claim.uses)
        row["functions"] = list(run.functions) if run else []
        row["records"] = list(run.records) if run else []
        row["link"] = f"claims/{claim.id}.html"
        tried = run.over if run else {}
        row["open"] = [
            {"name": name, "why": why, "tried": tried.get(name, "")}
            for name, why in claim.open.items()
        ]
        row["would_change"] = " ".join(would_change(claim))
        row["history"] = [change._asdict() for change in claim.history]
        if run:
            row |= {
                "section": f"{page_of(run.docname)}.html#claim-{claim.id}",
                "evidence": run.evidence,
                "strength": run.strength,
            }
        found.append(row)
    return found


def export(app: Any, error: Exception | None) -> None:
    """Write the ledger as JSON and CSV beside its page."""
    folder = Path(app.outdir) / "book"
    if error or app.builder.format != "html" or not (folder / "ledger.html").is_file():
        return
    rows = listed(app.env)
    (folder / "claims.json").write_text(
        json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf8"
    )
    with (folder / "claims.csv").open("w", encoding="utf8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        for row in rows:  # a cell holds a text
            history = ("{date}: {was} -> {now}. {because}".format_map(c) for c in row["history"])
            left_open = ("{name}: {why} {tried}".format_map(c).strip() for c in row["open"])
            texts = {
                "anchor": " ... ".join(row["anchor"]),
                "uses": " ".join(row["uses"]),
                "functions": " ".join(row["functions"]),
                "records": " ".join(row["records"]),
                "open": " ".join(left_open),
                "history": " ".join(history),
            }
            writer.writerow(row | texts)


# --- the page, and parts of it on others ---


class table(nodes.General, nodes.Element):
    """Stands for a part of the ledger until all pages have been read."""


class LedgerDirective(Directive):
    """``{ledger}``: all claims in one table, with a summary and filters."""

    def run(self) -> list[nodes.Node]:
        env = self.state.document.settings.env
        ledger_pages(env).add(env.docname)
        for path in sorted(ledger.CLAIMS.glob("*.yaml")):
            env.note_dependency(str(path))
        return self.parts()

    def parts(self) -> list[nodes.Node]:
        return [table(kind="ledger")]


class HoldsDirective(LedgerDirective):
    """``{holds}``: a paper's main claims, a line ``id: what it says`` each, as a table with the
    ledger's verdict and why it holds or not.
    """

    has_content = True

    def parts(self) -> list[nodes.Node]:
        entries = []
        for number, line in enumerate(self.content, self.content_offset + 1):
            if line.strip():
                name, _, says = line.partition(": ")
                claim = next((claim for claim in ledger.load() if claim.id == name), None)
                if claim is None or not claim.why or not says:
                    raise self.error(
                        f"holds: line {number} is not `id of a claim that has a why: what it"
                        f" says`: {line!r}"
                    )
                entries.append((claim, says.strip()))
        return [table(kind="holds", entries=entries)]


class DecidedDirective(LedgerDirective):
    """``{decided}``: what the papers claim on the subject of this page, and whether it holds; what
    nothing can test is left out.
    """

    def parts(self) -> list[nodes.Node]:
        page = page_of(self.state.document.settings.env.docname)
        entries = []
        for claim in ledger.load():
            if claim.page == page and claim.verdict != "not testable":
                entries.append((claim, claim.statement))
        if not entries:
            raise self.error(f"decided: the ledger has no claim that is decided on {page}")
        return [table(kind="decided", entries=entries)]


class VerdictsDirective(LedgerDirective):
    """``{verdicts} PAPER``: how many of a paper's claims, or of all, have which verdict: a bar that
    links to them.
    """

    required_arguments = 1

    def parts(self) -> list[nodes.Node]:
        if (paper := self.arguments[0]) not in (*ledger.PAPERS, "all"):
            raise self.error(f"verdicts: {paper!r} is no paper of the ledger, nor 'all'")
        return [table(kind="verdicts", paper="" if paper == "all" else paper)]


class NeedsDirective(LedgerDirective):
    """``{needs}``: claims that more compute or work could decide further."""

    def parts(self) -> list[nodes.Node]:
        return [table(kind="needs")]


class PapersDirective(LedgerDirective):
    """``{papers}``: the address that has all claims of a paper, for each paper."""

    def parts(self) -> list[nodes.Node]:
        return [table(kind="papers")]


class ChangesDirective(LedgerDirective):
    """``{changes}``: verdicts that have changed, the latest first."""

    def parts(self) -> list[nodes.Node]:
        return [table(kind="changes")]


class StrengthsDirective(LedgerDirective):
    """``{strengths}``: how many verdicts rest on which kind of evidence, and what is proved
    nowhere.
    """

    def parts(self) -> list[nodes.Node]:
        return [table(kind="strengths")]


class MapDirective(LedgerDirective):
    """``{map} PAPER``: which of a paper's claims the paper rests on which, as a picture."""

    required_arguments = 1

    def parts(self) -> list[nodes.Node]:
        if (paper := self.arguments[0]) not in ledger.PAPERS:
            raise self.error(f"map: {paper!r} is no paper of the ledger")
        return [table(kind="map", paper=paper)]


def claim_role(name: str, raw: str, text: str, line: int, inliner: Any, *_: Any) -> Any:
    """``{claim}`flm-prop2```: a link to the page of a claim, with its verdict."""
    if text not in {claim.id for claim in ledger.load()}:
        return [], [inliner.reporter.error(f"claim: the ledger has no {text!r}", line=line)]
    return [table(kind="claim", claim=ledger.get(text))], []


def order(claim: ledger.Claim) -> tuple[int, bool]:
    """Where a claim stands in a list by use: what is wrong, what holds in part, what holds, what
    cannot be tested.
    """
    return list(CHANGES).index(claim.verdict), not claim.correction


CHANGES = {  # what would change a verdict on a statement, and on what was run, drawn or printed
    "refuted": (
        "A place in the paper that excludes our counterexample, or a statement near the printed one"
        " that holds.",
        "The numbers or the settings as the authors have them, or others near them that come out.",
    ),
    "corrected": (
        "A place in the paper that excludes our counterexample. A better correction would replace"
        " ours.",
        "The numbers or the settings as the authors have them. A better correction would replace"
        " ours.",
    ),
    "partial": (
        "A place in the paper that states the reading under which the claim holds, or excludes the"
        " case in which it fails.",
        "The settings or the numbers that the paper does not print, as the authors have them.",
    ),
    "reproduced": (
        "A case within the claim's own assumptions in which it fails.",
        "A run with the printed settings that gives something else.",
    ),
    "not testable": ("A printed statement, or printed numbers, that a run can be compared with.",)
    * 2,
    "pending": ("A run that decides it.",) * 2,
}
RUN = ("worked-example", "table", "figure", "experiment-setting")


def would_change(claim: ledger.Claim) -> list[str]:
    """Say what would change a verdict, in sentences for those who doubt it."""
    if claim.kind == "definition" and claim.verdict == "not testable":
        found = ["Nothing can: it is a definition. If we read it wrongly, please tell."]
    else:
        found = [CHANGES[claim.verdict][claim.kind in RUN]]
    if claim.verdict not in ("not testable", "pending"):
        found.append("A mistake in the code that decides it.")
    if DAMAGE in f"{claim.note} {claim.correction}":
        found.append("The formula as its authors wrote it: our text of the paper may be damaged.")
    if claim.needs:
        found.append(f"What we did not have: {claim.needs}")
    if claim.data:
        found.append(f"Other data than those that we used ({', '.join(claim.data)}).")
    return found


WRONG = ("corrected", "refuted")
GROUPS = {  # of claims, which one can filter by as by a verdict
    "wrong": "wrong as printed: corrected, refuted",
    "correction": "all that have a correction",
    "touched": "touched: in the paper it rests on what is wrong as printed",
}


def groups(claim: ledger.Claim) -> list[str]:
    """Which of `GROUPS` a claim belongs to."""
    found = []
    if claim.verdict in WRONG:
        found.append("wrong")
    if claim.correction:
        found.append("correction")
    if any(other.verdict in WRONG for other in foundations(claim)):
        found.append("touched")
    return found


def used(claim: ledger.Claim) -> list[ledger.Claim]:
    """Return the claims on which the paper itself rests a claim, direct only."""
    return [ledger.get(name) for name in claim.uses]


def used_by(claim: ledger.Claim) -> list[ledger.Claim]:
    """Return the claims that the paper rests on a claim, direct only."""
    return [other for other in ledger.load(claim.paper) if claim.id in other.uses]


def foundations(claim: ledger.Claim) -> list[ledger.Claim]:
    """All claims on which the paper rests a claim, direct or not."""
    found = dict[str, ledger.Claim]()
    waiting = used(claim)
    while waiting:
        other = waiting.pop()
        if other.id not in found:
            found[other.id] = other
            waiting.extend(used(other))
    return list(found.values())


STATEMENT = re.compile(r"\b(?:[a-z]+-)*(?:thm|prop|lem|cor|alg)-[a-z0-9-]+")  # a label of ours


def labels_in(strength: str) -> list[str]:
    """Return the labels of the statements that a strength names.

    Examples
    --------
    >>> labels_in("search drawn markets (print fails); proof ct-idea-thm-p1")
    ['ct-idea-thm-p1']
    """
    return STATEMENT.findall(strength)


def strong(claim: ledger.Claim, shown: Mapping[str, Shown]) -> str:
    """Return the kind of evidence behind a verdict in this build; empty where none is named."""
    run = shown.get(claim.id)
    return run.strength.partition(" ")[0] if run else ""


def tally(shown: Mapping[str, Shown]) -> list[tuple[str, list[tuple[str, int]]]]:
    """For each strength how many claims have which verdict."""
    claims = ledger.load()
    found = Counter((strong(claim, shown), claim.verdict) for claim in claims)
    verdicts = [v for v in ledger.VERDICTS if v != "not testable"]
    return [(s, [(v, found[s, v]) for v in verdicts]) for s in ledger.STRENGTHS]


def tried(shown: Mapping[str, Shown]) -> list[ledger.Claim]:
    """Return theorems and equations whose verdict rests on trials or draws, in whole or in part."""
    return [
        claim
        for claim in ledger.load()
        if claim.kind in ("theorem", "equation") and strong(claim, shown) in ("search", "measured")
    ]


def parted(words: str) -> tuple[str, str]:
    """Part a text into its first sentence and the rest.

    Examples
    --------
    >>> parted("True for $a$. Not for $b$.")
    ('True for $a$.', 'Not for $b$.')
    """
    first, *rest = re.split(r"(?<=[.?!]) +(?=[A-Z$])", words, maxsplit=1)
    return first, " ".join(rest)


def briefly(claim: ledger.Claim) -> str:
    """Return where in its paper a claim is printed, without equations and proof."""
    first = re.sub(r", Eqs?\. .*", "", claim.where.partition(";")[0])
    return f"Section {first}" if re.fullmatch(r"[\dIVX.A-Z-]+", first) else first


ROW = 24  # pixels of the map for a claim
GUTTER = 110  # for the arcs, left of the claims


def arcs(claims: Sequence[ledger.Claim]) -> list[tuple[str, bool]]:
    """Draw the map as paths, one from each claim to each claim on which the paper rests it, and
    whether that one is wrong as printed.
    """
    place = {claim.id: (k + 0.5) * ROW for k, claim in enumerate(claims)}
    found = []
    for claim in claims:
        for other in claim.uses:
            start, end = place[claim.id], place[other]
            height = abs(end - start) / 2
            width = GUTTER * (1 - 0.85 ** (2 * height / ROW))  # long arcs stay apart, and inside
            turn = int(end > start)
            path = f"M {GUTTER} {start:g} A {width:.1f} {height:g} 0 0 {1 - turn} {GUTTER} {end:g}"
            found.append((path, ledger.get(other).verdict in WRONG))
    return found


def connected(paper: str) -> list[ledger.Claim]:
    """Return the claims of a paper that rest on another or have another rest on them, as they are
    printed.
    """
    return [claim for claim in ledger.load(paper) if claim.uses or used_by(claim)]


def counts(paper: str) -> list[tuple[str, int]]:
    """How many claims of a paper, or of all, have which verdict."""
    found = Counter(claim.verdict for claim in ledger.load(paper or None))
    undecided = any(claim.verdict == "pending" for claim in ledger.load())
    return [(v, found[v]) for v in (*ledger.VERDICTS, *["pending"] * undecided)]


PARTS = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)
PARTS.filters["parted"] = parted
PARTS.filters["briefly"] = briefly
PARTS.filters["markup"] = lambda words: Markup(ledger.markup(words))
PARTS.filters["badge"] = lambda verdict: Markup(ledger.badge(verdict))
PARTS.filters["day"] = lambda day: in_words(date.fromisoformat(day))
PARTS.filters["would_change"] = would_change
PARTS.filters["groups"] = groups
PARTS.filters["strong"] = strong
PARTS.filters["used"] = used
PARTS.filters["used_by"] = used_by
PARTS.tests["standin"] = lambda run: run.outcome.startswith(ledger.STANDIN)
# what may be the fault of our copy and not of the paper
PARTS.tests["damaged"] = lambda claim: DAMAGE in f"{claim.note} {claim.correction}"


def part(**given: Any) -> str:
    """HTML of a part of the ledger, of some `kind`, by ``claims.html``."""
    verdicts = GROUPS | {v: v for v in (*ledger.VERDICTS, "pending")}
    claims = sorted(given.pop("claims", ledger.load()), key=order)
    return PARTS.get_template("claims.html").render(
        claims=claims,
        places={claim.id: place for place, claim in enumerate(ledger.load())},
        counts=counts,
        papers=ledger.PAPERS,
        notified=ledger.NOTIFIED,
        kinds={kind: kind for kind in ledger.KINDS},
        strengths=ledger.STRENGTHS,
        strength_names={name: name for name in ledger.STRENGTHS},
        tally=tally,
        tried=tried,
        connected=connected,
        arcs=arcs,
        row=ROW,
        gutter=GUTTER,
        verdicts=verdicts,
        changes=sorted(
            ((change, claim) for claim in claims for change in claim.history),
            key=lambda pair: pair[0].date,
            reverse=True,
        ),
        **given,
    )


def seen_from(app: Any, docname: str) -> dict[str, Any]:
    """Return what the parts of the ledger take from this build, on one page."""
    shown = {s.claim_id: s for lines in decisions(app.env).values() for s in lines}

    def link(claim: ledger.Claim) -> tuple[str, str] | None:
        """Address of a decision and title of the page that it stands on; of the page alone, if
        nothing can be decided.
        """
        target = shown[claim.id].docname if claim.id in shown else f"book/{claim.page}"
        if target not in app.env.found_docs:
            return None
        url = app.builder.get_relative_uri(docname, target)
        title = app.env.titles[target].astext() if target in app.env.titles else page_of(target)
        return f"{url}#claim-{claim.id}" if claim.id in shown else url, title

    def statement(label: str) -> tuple[str, str] | None:
        """Address and number of a labelled statement."""
        found = getattr(app.env, "proof_list", {}).get(label)
        if found is None:
            return None
        kind = found["countertype"]
        numbers = app.env.toc_fignumbers.get(found["docname"], {}).get(kind, {}).get(label, ())
        url = app.builder.get_relative_uri(docname, found["docname"])
        return f"{url}#{label}", f"{kind.title()} {'.'.join(map(str, numbers))}".strip()

    def with_links(words: str) -> Markup:
        """HTML of a strength, with its labels as links to the statements."""

        def linked(label: re.Match[str]) -> str:
            at = statement(label[0])
            return f'<a href="{at[0]}">{at[1]}</a>' if at else label[0]

        return Markup(STATEMENT.sub(linked, ledger.markup(words)))

    def function(name: str) -> str | None:
        """Address of a function of the library in the reference."""
        found = app.env.domains["py"].objects.get(name)
        if found is None:
            return None
        return f"{app.builder.get_relative_uri(docname, found.docname)}#{found.node_id}"

    return {
        "shown": shown,
        "link": link,
        "with_links": with_links,
        "function": function,
        "page": "" if docname == LEDGER else app.builder.get_relative_uri(docname, LEDGER),
        "own": app.builder.get_relative_uri(docname, f"{CLAIMS}/").removesuffix(".html"),
        "undecided": sum(s.outcome.startswith(ledger.STANDIN) for s in shown.values()),
    }


def fill(app: Any, doctree: nodes.document, docname: str) -> None:
    """Replace the placeholders, now that every page has been read."""
    for node in list(doctree.findall(table)):
        after = node.next_node(descend=False, siblings=True)
        mark = MARK.match(after) if isinstance(after, nodes.Text) else None
        html = part(**node.attributes, mark=mark and mark[0], **seen_from(app, docname))
        if mark and node["kind"] == "claim":  # a mark does not begin a line
            after.parent.replace(after, nodes.Text(after[mark.end() :]))
        node.replace_self(nodes.raw("", html, format="html"))


# --- a page for each claim, and one for each paper ---


def pages(app: Any) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Return what Sphinx needs to write a page: its name, what its template takes, the template."""
    if app.builder.name != "html" or LEDGER not in app.env.found_docs:
        return
    addresses = app.config.addresses
    coloured = app.builder.highlighter.highlight_block
    # light pages: they have a line that leads back in place of the table of contents
    bare = {
        "sidebars": [],
        "theme_article_header_start": [],
        "meta": {"html_theme.sidebar_secondary.remove": True},
    }
    papers = {paper: ledger.load(paper) for paper in ledger.PAPERS}
    for paper, found in papers.items():
        name = f"{CLAIMS}/{paper}"
        body = part(kind="paper", claims=found, paper=paper, **seen_from(app, name))
        title = f"Claims of: {ledger.PAPERS[paper]}"
        yield name, {"title": title, "body": Markup(body), **bare}, "page.html"
        for claim in found:
            name = f"{CLAIMS}/{claim.id}"
            seen = seen_from(app, name)
            run = seen["shown"].get(claim.id)
            code = run.code if run else ""
            body = part(
                kind="one",
                claims=[claim],
                code=PLAIN.sub(r"\1", coloured(code, "python3")) if code else "",
                reference=Reference(f"{claim.place}: {claim.verdict}", name, addresses["site"]),
                errors=answer(addresses["errors"], f"{claim.id}: {claim.verdict}"),
                **seen,
            )
            yield name, {"title": claim.place, "body": Markup(body), **bare}, "page.html"


def add_script(
    app: Any, pagename: str, templatename: str, context: Mapping[str, Any], *_: Any
) -> None:
    """Add the filters' script where there are filters."""
    if "hdpm-filters" in context.get("body", ""):
        app.add_js_file("ledger.js", loading_method="defer")


def use_folder(app: Any, config: Any) -> None:
    """Read the ledger from another folder: for tests."""
    if config.claims_folder:
        ledger.CLAIMS = Path(config.claims_folder)


def setup(app: Any) -> dict[str, Any]:
    """Register with Sphinx."""
    app.setup_extension("colophon")
    app.add_config_value("claims_folder", "", "env")
    app.add_directive("ledger", LedgerDirective)
    app.add_directive("verdicts", VerdictsDirective)
    app.add_directive("holds", HoldsDirective)
    app.add_directive("decided", DecidedDirective)
    app.add_directive("needs", NeedsDirective)
    app.add_directive("papers", PapersDirective)
    app.add_directive("strengths", StrengthsDirective)
    app.add_directive("map", MapDirective)
    app.add_directive("changes", ChangesDirective)
    app.add_role("claim", claim_role)
    app.add_css_file("ledger.css", priority=900)
    app.connect("config-inited", use_folder)
    app.connect("doctree-read", collect)
    app.connect("env-purge-doc", purge)
    app.connect("env-merge-info", merge)
    app.connect("env-updated", lambda app, env: sorted(ledger_pages(env)))
    app.connect("env-check-consistency", check)
    app.connect("doctree-resolved", fill)
    app.connect("html-page-context", add_script)
    app.connect("html-collect-pages", pages)
    app.connect("build-finished", export)
    return {
        "version": "1",
        "env_version": 3,
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
