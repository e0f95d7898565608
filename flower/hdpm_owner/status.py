"""What an owner has spent and has left, by market: a table to read, to calculate with, or to print.

Epsilon is that at her delta, of all releases together. It does not add up: that of two markets is
less than the sum of theirs. What is left is her epsilon less that of all that is spent or waits.
"""

from __future__ import annotations

import html
import json
import time
from pathlib import Path
from typing import Any

from hdpm_lib.validation import extra
from hdpm_owner import ledger
from hdpm_owner.owner import known
from hdpm_owner.terms import Spent, Terms

COLUMNS = ("market", "joined", "sales", "releases", "spent", "waits", "left", "money", "last")
SOON = 30 * 24 * 3600.0  # seconds before the end of a certificate from which on she is warned

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 11pt/1.5 serif; max-width: 45em; margin: 2em auto }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ border-bottom: 1px solid #999; padding: .3em .5em; text-align: right }}
th:first-child, td:first-child {{ text-align: left }}
</style>
<h1>{title}</h1>
{body}
"""


def rows(folder: Path) -> list[dict[str, Any]]:
    """Return a row for each market that is approved or has bought, and one for all."""
    terms = Terms.read(folder / "terms.toml")
    entries = ledger.read(folder)["entries"]
    sums = ledger.summed(entries)
    most: dict[str, float] = {}
    names = {sums.keys.first(one.sale.buyer): one.sale.market for one in sums.sales.values()}
    for one in known(sums.consents):
        if not one.rehearsal:
            most[sums.keys.first(one.key)] = min(one.epsilon, terms.epsilon)
            names[sums.keys.first(one.key)] = one.name
    total = _row(None, entries, sums, terms.epsilon, terms)
    found = []
    for buyer in dict.fromkeys([*most, *sums.promised]):
        hers = [one for one in entries if sums.keys.first(str(one.get("buyer"))) == buyer]
        row = _row(buyer, hers, sums, most.get(buyer, 0.0), terms)
        row |= {"market": names[buyer], "joined": "yes" if buyer in most else "no"}
        found.append(row | {"left": min(row["left"], total["left"])})
    return [*found, total]


def _row(
    buyer: str | None,
    entries: list[dict[str, Any]],
    sums: ledger.Sums,
    most: float,
    terms: Terms,
) -> dict[str, Any]:
    spent = sums.spent if buyer is None else sums.bought.get(buyer, Spent())
    both = (spent + sums.waiting(terms.keep, buyer)).epsilon(terms.delta)
    gone = spent.epsilon(terms.delta)
    kinds = [one["entry"] for one in entries]
    owed = (one["payment"] for one in entries if one.get("countersignature"))
    last = max((one["time"] for one in entries if "ticket" in one), default=None)
    cells = ["all", "", kinds.count("sale"), kinds.count("release"), gone, both - gone]
    cells += [max(most - both, 0.0), sum(owed, 0.0), "" if last is None else _day(last)]
    return dict(zip(COLUMNS, cells, strict=True))


def as_text(folder: Path, certificates: list[Path]) -> str:
    """Write the rows as a table, with what her numbers mean."""
    cells = [list(COLUMNS), *map(_shown, rows(folder))]
    width = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(map(str.rjust, row, width)).rstrip() for row in cells]
    return "\n".join([*lines, "", *meaning(folder), *_ends(certificates)])


def as_html(folder: Path, certificates: list[Path]) -> str:
    """Write a page for a board, which needs nothing else to be shown or printed."""
    title = f"What {Terms.read(folder / 'terms.toml').name} has sold, {_day(time.time())}"
    lines = [
        "".join(f"<td>{html.escape(cell)}</td>" for cell in _shown(row)) for row in rows(folder)
    ]
    head = "".join(f"<th>{name}</th>" for name in COLUMNS)
    table = "\n".join(f"<tr>{line}</tr>" for line in (head, *lines))
    told = "\n".join(f"<p>{html.escape(one)}" for one in meaning(folder) + _ends(certificates))
    return PAGE.format(title=html.escape(title), body=f"<table>\n{table}\n</table>\n{told}")


def meaning(folder: Path) -> list[str]:
    """Say what her numbers say, in sentences."""
    terms = Terms.read(folder / "terms.toml")
    whose = "a record, that is one row" if terms.unit == "record" else "the owner, all of her rows"
    found = [
        f"Protected is {whose}. All releases together, to whomever, lose at most epsilon"
        f" {terms.epsilon:g} at delta {terms.delta:g}, for ever: whether the protected data are"
        " these or others changes no probability by more than a factor e^epsilon, but for delta.",
        "spent: epsilon of what has left. waits: what sold rounds would add. Those of several"
        " markets do not add up: what counts is the line of all. money: what markets have signed"
        " that they owe.",
    ]
    entries = ledger.read(folder)["entries"]
    promises = [one for one in entries if one["entry"] == "promise"]
    found += [
        f"Since {_day(one['time'])}: {rotated(one['statement'])}."
        for one in entries
        if one["entry"] == "rotated"
    ]
    for one in promises if len(promises) > 1 else []:
        told = f"epsilon {one['epsilon']:g} at delta {one['delta']:g} for a {one['unit']}"
        found.append(f"Since {_day(one['time'])}: {told}.")
    found += [
        f"{_day(one['time'])}: {consent(one)}."
        for one in entries
        if one["entry"] in ("joined", "withdrawn")
    ]
    return found


def consent(row: dict[str, Any]) -> str:
    """Return an entry of a ledger that says whose it is, or to what she consents, in words."""
    if row["entry"] == "made":
        return f"made: the ledger of key {row['key']}"
    if row["entry"] in ("withdrawn", "closed"):
        return f"{row['entry']}: charter {row['charter'][:8]}"
    charter = json.loads(row["text"])
    kind = "a rehearsal of " if charter["rehearsal"] else ""
    return f"joined: {kind}{charter['name']}, charter {row['charter'][:8]}"


def rotated(one: dict[str, Any]) -> str:
    """Say that a key has a successor, in words."""
    return f"key {one['new']} stands for {one['old']}, which is good until {_day(one['until'])}"


def _ends(certificates: list[Path]) -> list[str]:
    """When certificates end."""
    with extra("owner"):
        from cryptography import x509
    found = []
    for file in certificates:
        try:
            end = x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc.timestamp()
        except ValueError:
            raise ValueError(f"{file} is no certificate") from None
        left = end - time.time()
        said = "ENDED" if left < 0 else "ends SOON," if left < SOON else "ends"
        found.append(f"The certificate {file} {said} on {_day(end)}.")
    return found


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def _shown(row: dict[str, Any]) -> list[str]:
    """Return the cells of a row: losses in four digits, money in cents."""
    cells = row | {"money": f"{row['money']:.2f}"}
    return [f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells.values()]
