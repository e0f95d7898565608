"""Claims the papers print, and the verdicts on them.

The ledger is a set of text files, ``data/claims/<paper>.yaml``, one entry a claim. A chapter calls
:func:`decide` with what its run has found; the verdict is computed from that and compared with the
ledger's, so that neither can change without the other. Under ``HDPM_MODE=explore``, for trying
other settings, no decision stops anything: its box says what this run finds, or that it cannot say.
A claim is

- *reproduced* if it holds as printed, within the tolerance that its section gives with the reason;
- *corrected* if it is wrong or inconsistent as printed and the statement we put in its place holds;
- *refuted* if it fails as printed and we know no statement near it that holds;
- *partial* if it holds only in part, or only if read in a way that the paper does not state;
- *not testable* if there is nothing to test: a definition, a motivation, numbers that are not
  printed;
- *pending* until a chapter has decided it. This is a state, not a verdict.

Claims of other papers live in a folder of one's own, which every function takes as `folder`
(:doc:`/book/use/ledger`).
"""

from __future__ import annotations

import difflib
import functools
import html
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from datetime import date
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hdpm_book.notebook import MODE, display, exploring
from hdpm_lib.validation import FALSE_ALARM, extra

with extra("book"):
    import yaml

__all__ = [
    "CLAIMS",
    "FALSE_ALARM",
    "KINDS",
    "PAPERS",
    "STRENGTHS",
    "VERDICTS",
    "Change",
    "Claim",
    "Decision",
    "LedgerMismatch",
    "badge",
    "decide",
    "get",
    "judge",
    "load",
    "markup",
    "verdict",
]

VERDICTS = ("reproduced", "corrected", "refuted", "partial", "not testable")
KINDS = tuple(
    "definition algorithm theorem equation worked-example table figure qualitative-claim"
    " experiment-setting".split()
)
STATEMENTS = ("algorithm", "theorem", "equation", "worked-example")  # the kinds that can be proved
STRENGTHS = {  # of the evidence behind a verdict, the strongest first
    "machine-checked": "a proof that a machine has checked, of the labelled statements named",
    "proof": "a proof in this book, of the labelled statements named",
    "exact": "a calculation without rounding, or with proved bounds",
    "exhaustive": "all cases of a finite set",
    "search": "trials that could have failed, in each of which it held or failed",
    "measured": "draws or runs, with a standard error or a false-alarm rate",
}
PROVED = ("machine-checked", "proof")
PAPERS = {
    "pdp-ridge": "Personalized DP for ridge regression",
    "khalili": "Contracts and a biased DP algorithm",
    "anjarlekar-journal": "Mechanism design for logistic regression (journal)",
    "anjarlekar-tmlr": "Mechanism design for logistic regression (TMLR)",
    "fl-market": "FL-Market",
}
AUTHORS = {  # how a place in the paper is written
    "pdp-ridge": "Ridge paper",
    "khalili": "Khalili et al.",
    "anjarlekar-journal": "J (journal)",
    "anjarlekar-tmlr": "T (TMLR)",
    "fl-market": "FL-Market",
}
NOTIFIED: dict[str, str] = {}  # when and how the authors of a paper were told; of none yet


class Change(NamedTuple):
    """A verdict that was replaced: when, which it was, by which, and why."""

    date: str
    was: str
    now: str
    because: str


@dataclass(frozen=True)
class Claim:
    """One entry of the ledger; the fields are explained at the top of each file of
    ``data/claims``.
    """

    id: str
    paper: str
    kind: str
    where: str
    statement: str
    printed_values: Mapping[str, Any] = field(hash=False)
    check: str
    suspected_issue: str | None
    verdict: str
    page: str | None
    note: str | None
    anchor: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    why: str | None = None
    reply: str | None = None
    correction: str | None = None
    data: tuple[str, ...] = ()
    needs: str | None = None
    open: Mapping[str, str] = field(default_factory=dict, hash=False)
    history: tuple[Change, ...] = ()

    @property
    def place(self) -> str:
        """The paper, and where in it the claim is printed."""
        return f"{AUTHORS.get(self.paper, self.paper)}, {self.where}"


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML that refuses a field given twice, of which the usual loader silently keeps the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        if len(keys) > len(set(keys)):
            raise ValueError(f"line {node.start_mark.line + 1}: field given twice among {keys}")
        return super().construct_mapping(node, deep)  # type: ignore[no-any-return]


def _checked(entry: Any, name: str) -> Claim:
    """Make a claim of an entry of the file `name`; the error names file, id and field."""

    def need(condition: object, key: str, problem: str) -> None:
        if not condition:
            label = entry.get("id") if isinstance(entry, dict) else entry
            raise ValueError(f"{name}.yaml: claim {label!r}: field {key!r}: {problem}")

    need(isinstance(entry, dict), "-", "an entry must be a mapping of fields")
    for key in entry:
        need(key in {f.name for f in fields(Claim)}, key, "unknown field")
    for f in fields(Claim):
        optional = f.default is not MISSING or f.default_factory is not MISSING
        need(f.name in entry or optional, f.name, "missing")
    for key in ("id", "where", "statement", "check"):
        need(isinstance(entry[key], str) and entry[key].strip(), key, "must be a text")
    for key in ("suspected_issue", "page", "why", "note", "correction", "needs", "reply"):
        value = entry.get(key)
        need(
            value is None or (isinstance(value, str) and value.strip()),
            key,
            "must be a text or null",
        )
    need(re.fullmatch("[A-Za-z0-9-]+", entry["id"]), "id", "may hold letters, digits and - only")
    need(entry["paper"] == name, "paper", "must be the name of the file")
    need(entry["kind"] in KINDS, "kind", f"unknown kind {entry['kind']!r}")
    need(
        isinstance(entry["printed_values"], dict),
        "printed_values",
        "must be a mapping, {} if nothing is printed",
    )
    lists = {key: entry.get(key, []) for key in ("anchor", "uses", "data")}
    for key, words in lists.items():
        need(
            isinstance(words, list) and all(isinstance(word, str) for word in words),
            key,
            "must be a list of texts",
        )
    need(len(lists["anchor"]) in (0, 2), "anchor", "must be [first words, last words]")
    left_open = entry.get("open", {})
    need(
        isinstance(left_open, dict)
        and all(
            isinstance(text, str) and text.strip() for pair in left_open.items() for text in pair
        ),
        "open",
        "must be a mapping of names to texts",
    )
    found = entry["verdict"]
    page = entry["page"]
    pending = entry["verdict"] == "pending"
    need(pending or found in VERDICTS, "verdict", f"unknown verdict {found!r}")
    for key, what in (("page", "the page that decides it"), ("note", "a note")):
        need(not (pending and entry[key]), key, "a pending claim has none yet")
        need(pending or entry[key], key, f"the verdict {found!r} needs {what}")
    need(
        pending or re.fullmatch(r"[\w-]+(/[\w-]+)*", page),
        "page",
        f"{page!r} is not a path like ridge/reproduction",
    )
    need(
        found != "corrected" or entry.get("correction"),
        "correction",
        "the verdict 'corrected' needs it",
    )
    need(
        found in ("corrected", "partial") or not entry.get("correction"),
        "correction",
        f"does not go with {found!r}",
    )
    need(
        found in ("partial", "not testable") or not entry.get("needs"),
        "needs",
        f"does not go with {found!r}",
    )
    changes = entry.get("history", [])
    need(
        isinstance(changes, list)
        and all(
            isinstance(c, dict)
            and c.keys() == {"date", "was", "because"}
            and type(c["date"]) is date
            and isinstance(c["because"], str)
            for c in changes
        ),
        "history",
        "must be a list of {date: 2026-11-28, was: a verdict, because: a text}",
    )
    verdicts = [*(c["was"] for c in changes), found]
    days = [c["date"] for c in changes]
    need(
        {*verdicts[:-1]} <= {*VERDICTS}
        and all(was != now for was, now in pairwise(verdicts))
        and days == sorted(days),
        "history",
        f"must lead to {found!r} from one verdict to another, the oldest first",
    )
    history = (
        Change(c["date"].isoformat(), c["was"], now, c["because"])
        for c, now in zip(changes, verdicts[1:], strict=True)
    )
    tuples = {key: tuple(words) for key, words in lists.items()}
    return Claim(**{**entry, **tuples, "history": tuple(history)})


def read(folder: Path) -> dict[str, Claim]:
    """Return claims by id from all files of a folder, in the order of their names; the error names
    file, claim and field.
    """
    found: dict[str, Claim] = {}
    for file in sorted(folder.glob("*.yaml")):
        name = file.stem
        try:
            entries = yaml.load(file.read_text(encoding="utf8"), Loader=_Loader)
        except (yaml.YAMLError, ValueError) as error:
            raise ValueError(f"{name}.yaml: {error}") from None
        for entry in entries or ():
            claim = _checked(entry, name)
            if claim.id in found:
                raise ValueError(
                    f"{name}.yaml: claim {claim.id!r}: field 'id': also in"
                    f" {found[claim.id].paper}.yaml"
                )
            found[claim.id] = claim
    for claim in found.values():
        for other in claim.uses:
            if other not in found or found[other].paper != claim.paper or other == claim.id:
                raise ValueError(
                    f"{claim.paper}.yaml: claim {claim.id!r}: field 'uses': {other!r} is no other"
                    " claim of this paper"
                )
    return found


@functools.cache
def _own(folder: Path) -> dict[str, Claim]:
    """Return the claims of this book, read once, in the order of `PAPERS`."""
    if stray := {file.stem for file in folder.glob("*.yaml")} - PAPERS.keys():
        raise ValueError(f"{', '.join(sorted(stray))}.yaml: no such paper, only {list(PAPERS)}")
    claims = read(folder)
    return dict(sorted(claims.items(), key=lambda item: list(PAPERS).index(item[1].paper)))


def _claims(folder: str | Path | None) -> dict[str, Claim]:
    """Return the claims of a folder, read anew; or of this book."""
    if folder is None:
        return _own(CLAIMS)
    if found := read(Path(folder)):
        return found
    raise LookupError(f"folder must hold claims, in files <paper>.yaml, got {str(folder)!r}")


SYMBOLS = dict(zip((*VERDICTS, "pending"), "✓✎✗◐–…", strict=True))
# In a notebook of one's own the style sheet of the site is missing; these colours are legible on
# light and dark ground.
BOX = """<style>
.hdpm-decision { margin: .6em 0; padding: .4em .8em;
  border: 1px solid #8888; border-left-width: 4px }
.hdpm-decision p { margin: .2em 0 }
.hdpm-verdict { padding: 0 .5em; border-radius: .7em; font-weight: 600;
  color: #353c48; background: #e7e9ed }
.hdpm-verdict.hdpm-reproduced { color: #12492a; background: #dcf3e3 }
.hdpm-verdict.hdpm-corrected { color: #1b3a86; background: #dfe9fd }
.hdpm-verdict.hdpm-refuted { color: #7c1a17; background: #fde1df }
.hdpm-verdict.hdpm-partial { color: #5a3705; background: #fbeec6 }
.hdpm-label { font-weight: 600; opacity: .8 }
</style>"""
STANDIN = "not decided here: stand-in data"
TOO_SMALL = "too small a run to decide"
CANNOT_SAY = "this run cannot say"
BY = "    by "  # begins the line that says how strong the evidence is
OVER = "    over "  # begins the lines that say which values of what is open were tried
CLAIMS = Path(str(resources.files("hdpm_book.data") / "claims"))


class LedgerMismatch(AssertionError):
    """What a run found and what the ledger says differ."""


@dataclass(frozen=True)
class Decision:
    """What one run says on one claim; shows itself as one line of text, or in a notebook as a small
    box.

    Examples
    --------
    >>> Decision(get("pdp-table01"), "reproduced", "15 of 15 rows")
    pdp-table01  reproduced  15 of 15 rows
    >>> Decision(get("pdp-table01"), "refuted", "3 of 15 rows")
    pdp-table01  this run finds refuted (ledger: reproduced)  3 of 15 rows
    """

    claim: Claim
    verdict: str
    evidence: str
    undecided: str = ""
    """Why this run decides nothing, if so."""
    over: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The values tried of what the paper leaves open."""
    strength: str = ""
    """One of `STRENGTHS`, and of what."""

    @property
    def outcome(self) -> str:
        """The verdict; or, with the ledger's beside it, why this run gives none or which other
        one.
        """
        if not self.undecided and self.verdict == self.claim.verdict:
            return self.verdict
        return (
            f"{self.undecided or f'this run finds {self.verdict}'} (ledger: {self.claim.verdict})"
        )

    def __repr__(self) -> str:
        lines = [f"{self.claim.id}  {self.outcome}  {self.evidence}"]
        if self.strength:
            lines.append(f"{BY}{self.strength}")
        for name, values in self.over.items():
            lines.append(f"{OVER}{name}: {values}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        claim = self.claim
        text = html.escape
        name = claim.id
        ours = claim.paper in PAPERS
        if ours and (ledger := _ledger_from(claim.page or "")):
            name = (
                f'<a href="{ledger}/{claim.id}.html" aria-label="{claim.id} in the'
                f' ledger">{claim.id}</a>'
            )
        shown = badge("pending" if self.undecided else self.verdict, self.outcome)
        tried = "; ".join(f"{markup(name)} {markup(values)}" for name, values in self.over.items())
        if tried:
            label = '<span class="hdpm-label">What the paper leaves open, tried over:</span>'
            tried = f'<p class="hdpm-over">{label} {tried}</p>'
        by = ""
        if self.strength:
            label = '<span class="hdpm-label">Decided by:</span>'
            by = f'<p class="hdpm-strength">{label} {markup(self.strength)}</p>'
        return (
            f'{BOX if exploring() or not ours else ""}<div class="hdpm-decision mathjax_ignore"'
            f' id="claim-{claim.id}"><p class="hdpm-verdict-line">{shown}'
            f" <strong>{text(claim.place)}</strong> {name}</p>"
            f'<p class="hdpm-statement">{markup(claim.statement)}</p><p class="hdpm-evidence"><span'
            f' class="hdpm-label">This run:</span> {text(self.evidence)}</p>{by}{tried}</div>'
        )


def _ledger_from(page: str) -> str:
    """Tell where the pages of the claims are: on the site, seen from a page; beside a notebook of
    one's own, on a site near it, if any.
    """
    if not exploring():
        return "../" * page.count("/") + "claims"
    here = Path.cwd()
    sites = (folder / "html" / "book" / "claims" for folder in here.parents)
    return next(
        (Path(os.path.relpath(site, here)).as_posix() for site in sites if site.exists()), ""
    )


def markup(words: str) -> str:
    """Return HTML of a text of the ledger, which may hold formulas, code and addresses.

    Examples
    --------
    >>> markup("`c` & $a<b$").partition("mathjax_process")[::2]
    ('<code>c</code> &amp; <span class="math notranslate nohighlight ', '">\\\\(a&lt;b\\\\)</span>')
    >>> markup("https://a.org/b.")
    '<a href="https://a.org/b">a.org/b</a>.'
    """
    formula = r'<span class="math notranslate nohighlight mathjax_process">\\(\1\\)</span>'
    found = re.sub(r"\$([^$]+)\$", formula, html.escape(words))
    found = re.sub("`([^`]+)`", r"<code>\1</code>", found)
    return re.sub(r"https://([\w./-]*\w)", r'<a href="\g<0>">\1</a>', found)


def badge(verdict: str, label: str | None = None) -> str:
    """Return HTML of a verdict: a symbol, which screen readers skip, and the word."""
    name = f'<span aria-hidden="true">{SYMBOLS[verdict]}</span> {html.escape(label or verdict)}'
    return f'<span class="hdpm-verdict hdpm-{verdict.replace(" ", "-")}">{name}</span>'


def load(paper: str | None = None, *, folder: str | Path | None = None) -> tuple[Claim, ...]:
    """Read and check the ledger: one of `PAPERS`, or all of them; or the files of a folder of one's
    own.

    Raises
    ------
    LookupError
        If there is no such paper, or no claim in the folder.
    ValueError
        If a file breaks a rule of the ledger; the message names file, claim and field.

    Examples
    --------
    >>> load("khalili")[0].paper
    'khalili'
    """
    claims = _claims(folder).values()
    papers = list(PAPERS if folder is None else dict.fromkeys(claim.paper for claim in claims))
    if paper not in (None, *papers):
        raise LookupError(f"no paper {paper!r} in the ledger, only {papers}")
    return tuple(claim for claim in claims if paper in (None, claim.paper))


def get(claim_id: str, *, folder: str | Path | None = None) -> Claim:
    """Look up one claim; in a folder of one's own, if one is given.

    Raises
    ------
    LookupError
        If the ledger has no claim of that name; the message suggests the nearest.

    Examples
    --------
    >>> get("pdp-table01").where
    'Table 1'
    """
    claims = _claims(folder)
    if claim_id not in claims:
        near = difflib.get_close_matches(str(claim_id), claims, 1, 0.5)
        raise LookupError(
            f"no claim {claim_id!r} in the ledger" + "".join(f"; did you mean {n}?" for n in near)
        )
    return claims[claim_id]


def verdict(
    *, printed: bool | None = None, corrected: bool | None = None, reading: bool | None = None
) -> str:
    """Compute the verdict from what a run has found.

    Parameters
    ----------
    printed : bool, optional
        Does the claim hold as printed? ``None`` if it cannot be tested as printed.
    corrected : bool, optional
        Does the ledger's correction hold? Counts only for a claim that fails as printed.
    reading : bool, optional
        Does it hold in part, or under a reading that the paper does not state?

    Raises
    ------
    TypeError, ValueError
        If an argument is not a truth value (NumPy's are), or they contradict each other or decide
        nothing.

    Examples
    --------
    >>> verdict(printed=True), verdict(printed=False)
    ('reproduced', 'refuted')
    >>> verdict(printed=False, corrected=True), verdict(reading=True)
    ('corrected', 'partial')
    """
    given = {"printed": printed, "corrected": corrected, "reading": reading}
    for name, value in given.items():
        if value is not None and not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name} must be True, False or None, got {value!r}")
    true = [name for name, value in given.items() if value is not None and value]
    if not any(value is not None for value in given.values()):
        raise ValueError("nothing was found; what cannot be tested is decided on no page")
    if len(true) > 1:
        raise ValueError(f"{' and '.join(true)} contradict each other: at most one can be True")
    if corrected is not None and printed is None:
        raise ValueError(
            "corrected needs printed=False: a correction is for a claim tested as printed"
        )
    if not true and printed is None:
        raise ValueError(
            "reading=False alone decides nothing: say whether the claim holds as printed"
        )
    return (
        {"printed": "reproduced", "corrected": "corrected", "reading": "partial"}[true[0]]
        if true
        else "refuted"
    )


def judge(
    claim_id: str,
    evidence: str,
    *,
    strength: str | None = None,
    over: Mapping[str, Sequence[object]] | None = None,
    source: str | Sequence[str] | None = None,
    enough: bool = True,
    folder: str | Path | None = None,
    **found: bool | None,
) -> Decision:
    """Compute a verdict and compare it with the ledger's: :func:`decide`, see there, without the
    display.

    Examples
    --------
    >>> judge("pdp-tabel01", "3 of 15 rows", printed=False)
    Traceback (most recent call last):
    LookupError: no claim 'pdp-tabel01' in the ledger; did you mean pdp-table01?
    """
    claim = get(claim_id, folder=folder)
    if not isinstance(evidence, str) or not evidence.strip() or len(evidence.splitlines()) > 1:
        raise ValueError(f"{claim_id}: evidence must be one line of text, got {evidence!r}")
    try:
        result = verdict(**found)
        undecided = ""
    except (TypeError, ValueError) as error:
        if not exploring():
            raise type(error)(f"{claim_id}: {error}") from None
        as_printed = bool(found.get("printed"))  # then no correction is needed
        result, undecided = ("reproduced", "") if as_printed else ("pending", CANNOT_SAY)
    ours = found.get("corrected") is not None or found.get("reading") is not None
    # that one statement beside the printed one fails does not show
    if result == "refuted" and ours and exploring():
        undecided = CANNOT_SAY  # that all do
    if not isinstance(enough, (bool, np.bool_)):
        raise TypeError(f"{claim_id}: enough must be True or False, got {enough!r}")
    if strength is not None:
        _check_strength(claim, strength)
    tried = _tried(claim, over or {})
    run = Decision(claim, result, evidence.strip(), undecided, tried, strength or "")
    if claim.data and source is None:
        raise ValueError(
            f"{claim_id} rests on {', '.join(claim.data)}: pass source=, where the data came from"
        )
    standin = "stand-in" in ([source] if isinstance(source, str) else source or ())
    if claim.data and standin and claim.verdict != "pending":
        return replace(run, undecided=STANDIN)
    if not enough:
        run = replace(run, undecided=TOO_SMALL)
    if run.outcome != claim.verdict and not exploring():
        finds = TOO_SMALL if run.undecided else f"this run finds {result!r}"
        file = f"{folder or 'data/claims'}/{claim.paper}.yaml"
        hint = f"; write it with page and note into {file}" * (claim.verdict == "pending")
        raise LedgerMismatch(
            f"{claim_id}: {finds}, the ledger says {claim.verdict!r}{hint}. Evidence:"
            f" {run.evidence}. To try other settings, set {MODE}=explore"
        )
    return run


def _check_strength(claim: Claim, strength: str) -> None:
    """Refuse what is no strength, does not say of what, or has the stronger half first."""
    names = list(STRENGTHS)
    ranks = []
    for half in strength.split("; "):
        kind, _, of = half.partition(" ")
        if kind not in names or not of.strip():
            raise ValueError(
                f"{claim.id}: strength must be one of {', '.join(STRENGTHS)}, and then of what, got"
                f" {half!r}"
            )
        ranks.append(names.index(kind))
    if ranks != sorted(ranks, reverse=True):
        raise ValueError(f"{claim.id}: the weaker half of strength must come first: {strength!r}")


def _tried(claim: Claim, over: Mapping[str, Sequence[object]]) -> dict[str, str]:
    """Write the values out that were tried of what a paper leaves open."""
    tried = {}
    for name, values in over.items():
        if name not in claim.open:
            left_open = ", ".join(claim.open) or "nothing"
            raise ValueError(
                f"{claim.id}: over has {name!r}; of this claim the ledger leaves {left_open} open"
            )
        if isinstance(values, str) or not len(values):
            raise ValueError(f"{claim.id}: over[{name!r}] must be a list of values, got {values!r}")
        tried[name] = ", ".join(_written(value) for value in values)
    return tried


def _written(value: object) -> str:
    """Return a value as a reader writes it: at most four digits of a float."""
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)


def decide(
    claim_id: str,
    evidence: str,
    *,
    printed: bool | None = None,
    corrected: bool | None = None,
    reading: bool | None = None,
    strength: str | None = None,
    over: Mapping[str, Sequence[object]] | None = None,
    source: str | Sequence[str] | None = None,
    enough: bool = True,
    folder: str | Path | None = None,
) -> None:
    """Decide a claim by what this run has found, and show the decision. Returns nothing: a cell
    would show it twice.

    Parameters
    ----------
    claim_id : str
        The claim's name in the ledger.
    evidence : str
        One line with the numbers that decided, rounded so that they are stable; if nothing can be
        tested, why.
    printed, corrected, reading : bool, optional
        What was found, see :func:`verdict`.
    strength : str, optional
        How strong the evidence is: one of `STRENGTHS`, and of what: ``"search drawn markets"``; for
        a proof the labels of the statements that decide, ``"proof thm-a, thm-b"``. Claims of
        this book that can be proved need it.
    over : mapping of str to sequence, optional
        Over which values of what the paper leaves open (the entry's field `open`, by the same
        names) this was found: ``{"mu": [1, 10, 100]}``. What is found must hold for all of them.
    source : str or sequence of str, optional
        ``.source`` of the data sets used; needed if the ledger says that the claim rests on data. A
        stand-in does not decide such a claim: nothing is compared, and the line shown says so.
    enough : bool, optional
        Whether the run was large enough to decide, by the number of draws or cases the page asks
        for. Such a condition does not belong into `printed`, `corrected` or `reading`: a run that
        is too small finds nothing.
    folder : str or Path, optional
        Where the claims are, if not in this book: files ``<paper>.yaml`` as those of
        ``data/claims``.

    Raises
    ------
    LedgerMismatch
        If the ledger has another verdict or none yet, or the run was too small; not under
        ``HDPM_MODE=explore``.
    LookupError, TypeError, ValueError
        If there is no such claim, or the arguments are not what they should be; truth values that
        contradict each other or decide nothing are shown under ``HDPM_MODE=explore`` as what this
        run finds, or cannot say.

    Examples
    --------
    >>> decide("pdp-def11", "rows that differ: 1", printed=1)
    Traceback (most recent call last):
    TypeError: pdp-def11: printed must be True, False or None, got 1
    """
    found = {"printed": printed, "corrected": corrected, "reading": reading}
    run = judge(
        claim_id,
        evidence,
        strength=strength,
        over=over,
        source=source,
        enough=enough,
        folder=folder,
        **found,
    )
    display(run)
