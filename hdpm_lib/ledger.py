"""Claims the papers print, and the verdicts on them.

The ledger is a set of text files, ``data/claims/<paper>.yaml``, one entry a claim. A chapter calls :func:`decide` with
what its run has found; the verdict is computed from that and compared with the ledger's, so that neither can change
without the other. Under ``HDPM_MODE=explore``, for trying other settings, decisions that differ are shown and stop
nothing. A claim is

- *reproduced* if it holds as printed, within the tolerance that its section gives with the reason;
- *corrected* if it is wrong, inconsistent or damaged as printed and the statement we put in its place holds;
- *refuted* if it fails as printed and we know no statement near it that holds;
- *partial* if it holds only in part, or only if read in a way that the paper does not state;
- *not testable* if there is nothing to test: a definition, a motivation, numbers that are not printed;
- *pending* until a chapter has decided it. This is a state, not a verdict.
"""

from __future__ import annotations

import difflib
import html
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

import numpy as np

from hdpm_lib.claims import KINDS, PAPERS, VERDICTS, Claim, read
from hdpm_lib.optional import display

__all__ = [
    "CLAIMS",
    "FALSE_ALARM",
    "KINDS",
    "PAPERS",
    "VERDICTS",
    "Claim",
    "Decision",
    "LedgerMismatch",
    "badge",
    "decide",
    "get",
    "judge",
    "load",
    "verdict",
]

SYMBOLS = dict(zip((*VERDICTS, "pending"), "✓✎✗◐–…", strict=True))

FALSE_ALARM = 1e-6
"""Probability with which one stochastic check may fail although what it checks is true.

Every such check, in chapters and in tests, takes its threshold from this one number, at the number of draws it states.
At one in a million, the few thousand checks of the whole book fail without cause in less than one run of a hundred,
so that no check needs a seed that was picked because it passes.
"""

STANDIN, TOO_FEW = "not decided here: stand-in data", "too few draws to decide"
MODE = "HDPM_MODE"
CLAIMS = Path(str(resources.files("hdpm_lib.data") / "claims"))


class LedgerMismatch(AssertionError):
    """What a run found and what the ledger says differ."""


@dataclass(frozen=True)
class Decision:
    """What one run says on one claim; shows itself as one line of text, or in a notebook as a small box.

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

    @property
    def outcome(self) -> str:
        """The verdict; or, with the ledger's beside it, why this run gives none or which other one."""
        if not self.undecided and self.verdict == self.claim.verdict:
            return self.verdict
        return f"{self.undecided or f'this run finds {self.verdict}'} (ledger: {self.claim.verdict})"

    def __repr__(self) -> str:
        return f"{self.claim.id}  {self.outcome}  {self.evidence}"

    def _repr_html_(self) -> str:
        claim, text = self.claim, html.escape
        ledger = "../" * (claim.page or "").count("/") + "ledger.html"
        return (
            f'<div class="hdpm-decision mathjax_ignore" id="claim-{claim.id}">'
            f'<p class="hdpm-verdict-line">{badge("pending" if self.undecided else self.verdict, self.outcome)} '
            f'<strong>{text(claim.where)}</strong> <a href="{ledger}#{claim.id}" '
            f'aria-label="{claim.id} in the ledger">{claim.id}</a></p>'
            f'<p class="hdpm-statement">{text(claim.statement)}</p>'
            f'<p class="hdpm-evidence"><span class="hdpm-label">This run:</span> {text(self.evidence)}</p></div>'
        )


def badge(verdict: str, label: str | None = None) -> str:
    """HTML of a verdict: a symbol, which screen readers skip, and the word."""
    name = f'<span aria-hidden="true">{SYMBOLS[verdict]}</span> {html.escape(label or verdict)}'
    return f'<span class="hdpm-verdict hdpm-{verdict.replace(" ", "-")}">{name}</span>'


def load(paper: str | None = None) -> tuple[Claim, ...]:
    """Read and check the ledger: one of `PAPERS`, or all of them, in the order of the files.

    Raises
    ------
    LookupError
        If there is no such paper.
    ValueError
        If a file breaks a rule of the ledger; the message names file, claim and field.

    Examples
    --------
    >>> len(load()), len(load("pdp-ridge"))
    (303, 75)
    """
    if paper is not None and paper not in PAPERS:
        raise LookupError(f"no paper {paper!r} in the ledger, only {list(PAPERS)}")
    return tuple(claim for claim in read(CLAIMS).values() if paper in (None, claim.paper))


def get(claim_id: str) -> Claim:
    """Look up one claim.

    Raises
    ------
    LookupError
        If the ledger has no claim of that name; the message suggests the nearest.

    Examples
    --------
    >>> get("pdp-table01").where
    'Table 1'
    """
    claims = read(CLAIMS)
    if claim_id not in claims:
        near = difflib.get_close_matches(str(claim_id), claims, 1, 0.5)
        raise LookupError(f"no claim {claim_id!r} in the ledger" + "".join(f"; did you mean {n}?" for n in near))
    return claims[claim_id]


def verdict(*, printed: bool | None = None, corrected: bool | None = None, reading: bool | None = None) -> str:
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
        If an argument is not a truth value (NumPy's are), or they contradict each other or decide nothing.

    Examples
    --------
    >>> verdict(printed=True), verdict(printed=False), verdict(printed=False, corrected=True), verdict(reading=True)
    ('reproduced', 'refuted', 'corrected', 'partial')
    >>> verdict()
    'not testable'
    """
    given = {"printed": printed, "corrected": corrected, "reading": reading}
    for name, value in given.items():
        if value is not None and not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name} must be True, False or None, got {value!r}")
    true = [name for name, value in given.items() if value is not None and value]
    if not any(value is not None for value in given.values()):
        return "not testable"
    if len(true) > 1:
        raise ValueError(f"{' and '.join(true)} contradict each other: at most one can be True")
    if corrected is not None and printed is None:
        raise ValueError("corrected needs printed=False: a correction is for a claim tested as printed")
    if not true and printed is None:
        raise ValueError("reading=False alone decides nothing: say whether the claim holds as printed")
    return {"printed": "reproduced", "corrected": "corrected", "reading": "partial"}[true[0]] if true else "refuted"


def judge(
    claim_id: str,
    evidence: str,
    *,
    source: str | Sequence[str] | None = None,
    enough: bool = True,
    **found: bool | None,
) -> Decision:
    """Compute a verdict and compare it with the ledger's: :func:`decide`, see there, without the display.

    Examples
    --------
    >>> judge("pdp-tabel01", "3 of 15 rows", printed=False)
    Traceback (most recent call last):
    LookupError: no claim 'pdp-tabel01' in the ledger; did you mean pdp-table01?
    """
    claim = get(claim_id)
    if not isinstance(evidence, str) or not evidence.strip() or len(evidence.splitlines()) > 1:
        raise ValueError(f"{claim_id}: evidence must be one line of text, got {evidence!r}")
    try:
        result = verdict(**found)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{claim_id}: {error}") from None
    if not isinstance(enough, (bool, np.bool_)):
        raise TypeError(f"{claim_id}: enough must be True or False, got {enough!r}")
    run = Decision(claim, result, evidence.strip())
    if claim.data and source is None:
        raise ValueError(f"{claim_id} rests on {', '.join(claim.data)}: pass source=, where the data came from")
    standin = "stand-in" in ([source] if isinstance(source, str) else source or ())
    if claim.data and standin and claim.verdict != "pending":
        return replace(run, undecided=STANDIN)
    if not enough:
        run = replace(run, undecided=TOO_FEW)
    if run.outcome != claim.verdict and not _exploring():
        finds = TOO_FEW if run.undecided else f"this run finds {result!r}"
        hint = f"; write it with page and note into data/claims/{claim.paper}.yaml" * (claim.verdict == "pending")
        raise LedgerMismatch(
            f"{claim_id}: {finds}, the ledger says {claim.verdict!r}{hint}. Evidence: {run.evidence}. "
            f"To try other settings, set {MODE}=explore"
        )
    return run


def _exploring() -> bool:
    mode = os.environ.get(MODE, "")
    if mode not in ("", "explore"):
        raise ValueError(f"{MODE} must be 'explore' or not set, got {mode!r}")
    return bool(mode)


def decide(
    claim_id: str,
    evidence: str,
    *,
    printed: bool | None = None,
    corrected: bool | None = None,
    reading: bool | None = None,
    source: str | Sequence[str] | None = None,
    enough: bool = True,
) -> None:
    """Decide a claim by what this run has found, and show the decision. Returns nothing: a cell would show it twice.

    Parameters
    ----------
    claim_id : str
        The claim's name in the ledger.
    evidence : str
        One line with the numbers that decided, rounded so that they are stable; if nothing can be tested, why.
    printed, corrected, reading : bool, optional
        What was found, see :func:`verdict`.
    source : str or sequence of str, optional
        ``.source`` of the data sets used; needed if the ledger says that the claim rests on data. A stand-in does not
        decide such a claim: nothing is compared, and the line shown says so.
    enough : bool, optional
        Whether the run was large enough to decide, by the number of draws or cases the page asks for. Such a condition
        does not belong into `printed`, `corrected` or `reading`: a run that is too small finds nothing.

    Raises
    ------
    LedgerMismatch
        If the ledger has another verdict or none yet, or the run was too small; not under ``HDPM_MODE=explore``.
    LookupError, TypeError, ValueError
        If there is no such claim, or the arguments are not what they should be.

    Examples
    --------
    >>> decide("pdp-def11", "rows that differ: 1", printed=1)
    Traceback (most recent call last):
    TypeError: pdp-def11: printed must be True, False or None, got 1
    """
    found = {"printed": printed, "corrected": corrected, "reading": reading}
    run = judge(claim_id, evidence, source=source, enough=enough, **found)
    display(run)
