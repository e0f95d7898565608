"""The files of the ledger: one entry a claim, read strictly. :mod:`hdpm_lib.ledger` judges them."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

VERDICTS = ("reproduced", "corrected", "refuted", "partial", "not testable")
KINDS = tuple(
    "definition algorithm theorem equation worked-example table figure qualitative-claim experiment-setting".split()
)
PAPERS = {
    "pdp-ridge": "Personalized DP for ridge regression",
    "khalili": "Contracts and a biased DP algorithm",
    "anjarlekar-journal": "Mechanism design for logistic regression (journal)",
    "anjarlekar-tmlr": "Mechanism design for logistic regression (TMLR)",
    "fl-market": "FL-Market",
}


@dataclass(frozen=True)
class Claim:
    """One entry of the ledger; the fields are explained at the top of each file of ``data/claims``."""

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
    correction: str | None = None
    data: tuple[str, ...] = ()
    needs: str | None = None


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
        need(f.name in entry or f.default is not MISSING, f.name, "missing")
    for key in ("id", "where", "statement", "check"):
        need(isinstance(entry[key], str) and entry[key].strip(), key, "must be a text")
    for key in ("suspected_issue", "page", "note", "correction", "needs"):
        value = entry.get(key)
        need(value is None or (isinstance(value, str) and value.strip()), key, "must be a text or null")
    need(re.fullmatch("[A-Za-z0-9-]+", entry["id"]), "id", "may hold letters, digits and - only")
    need(entry["paper"] == name, "paper", "must be the name of the file")
    need(entry["kind"] in KINDS, "kind", f"unknown kind {entry['kind']!r}")
    need(isinstance(entry["printed_values"], dict), "printed_values", "must be a mapping, {} if nothing is printed")
    data = entry.get("data", [])
    need(isinstance(data, list) and all(isinstance(d, str) for d in data), "data", "must be a list of names")
    found, page, pending = entry["verdict"], entry["page"], entry["verdict"] == "pending"
    need(pending or found in VERDICTS, "verdict", f"unknown verdict {found!r}")
    for key, what in (("page", "the page that decides it"), ("note", "a note")):
        need(not (pending and entry[key]), key, "a pending claim has none yet")
        need(pending or entry[key], key, f"the verdict {found!r} needs {what}")
    need(pending or re.fullmatch(r"[\w-]+(/[\w-]+)*", page), "page", f"{page!r} is not a path like ridge/reproduction")
    need(found != "corrected" or entry.get("correction"), "correction", "the verdict 'corrected' needs it")
    need(found in ("corrected", "partial") or not entry.get("correction"), "correction", f"does not go with {found!r}")
    need(found in ("partial", "not testable") or not entry.get("needs"), "needs", f"does not go with {found!r}")
    return Claim(**{**entry, "data": tuple(data)})


@functools.cache
def read(folder: Path) -> dict[str, Claim]:
    """Claims by id from all files of a folder, checked; the error names file, claim and field."""
    found: dict[str, Claim] = {}
    files = {file.stem: file for file in folder.glob("*.yaml")}
    if stray := files.keys() - PAPERS.keys():
        raise ValueError(f"{', '.join(sorted(stray))}.yaml: no such paper, only {list(PAPERS)}")
    for name in (paper for paper in PAPERS if paper in files):
        try:
            entries = yaml.load(files[name].read_text(encoding="utf8"), Loader=_Loader)
        except (yaml.YAMLError, ValueError) as error:
            raise ValueError(f"{name}.yaml: {error}") from None
        for entry in entries or ():
            claim = _checked(entry, name)
            if claim.id in found:
                raise ValueError(f"{name}.yaml: claim {claim.id!r}: field 'id': also in {found[claim.id].paper}.yaml")
            found[claim.id] = claim
    return found
