"""Receipts of a market: checked, compared with ledgers, and who is owed what.

A receipt (:class:`hdpm_owner.deals.Receipt`) is a text that an owner signs with a release and the
market signs when the release was used. It names a place in her ledger: a receipt that her ledger
does not have there, or two receipts that have one place, are complaints. One that is none is named
and left out.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hdpm_owner.deals import Former, Place, Receipt
from hdpm_owner.ledger import link
from hdpm_owner.shapes import read_shaped, shaped
from hdpm_owner.signatures import canonical, signed

Row = dict[str, Any]
SIGNED = ("receipt", "signature", "countersignature")


def told(row: Row) -> Receipt | Former:
    """What a receipt says, if it is one and both have signed it; else an error says why not."""
    text = row.get("receipt")
    try:
        found: Receipt | Former = read_shaped(Receipt, text)
    except ValueError as error:
        former = json.loads(text) if isinstance(text, str) and '"market":' in text else {}
        if not isinstance(former, dict) or "market" not in former:
            raise ValueError(f"it is no receipt: {error}") from None
        found = shaped(Former, former | {"buyer": former.pop("market")})
    both = {"signature": found.key, "countersignature": found.buyer}
    if bad := [name for name, key in both.items() if not signed(text, row.get(name), key)]:
        raise ValueError(f"its {' and '.join(bad)} cannot be verified")
    return found


def good(receipts: list[Row]) -> tuple[list[Receipt | Former], list[str]]:
    """The receipts that are, and complaints about the others and about two that cannot both be."""
    found = []
    complaints = []
    rounds = set[tuple[str, int]]()
    places: dict[tuple[str, int], str] = {}
    for number, row in enumerate(receipts, 1):
        name = f"receipt {number} of {row.get('owner', 'somebody')!r}"
        try:
            one = told(row)
        except (ValueError, RecursionError) as error:
            complaints.append(f"{name}: {error}")
            continue
        where = f"{one.owner}, round {one.round} of {one.ticket[:8]}"
        if (one.ticket, one.round) in rounds:
            complaints.append(f"{where}: two receipts")
            continue
        rounds.add((one.ticket, one.round))
        if (chain := places.get((one.key, one.entry))) == one.chain:
            complaints.append(f"{where}: two receipts for entry {one.entry} of her ledger")
        elif chain is not None:
            complaints.append(
                f"{where}: entry {one.entry} of her ledger has two chains: it was copied, or an"
                " older copy was put back"
            )
        places[one.key, one.entry] = one.chain
        found.append(one)
    return found, complaints


@dataclass(frozen=True)
class Export:
    """A ledger as ``hdpm-owner ledger FOLDER --json`` prints it."""

    key: str
    entries: list[Row]

    @classmethod
    def of(cls, content: Any) -> Export:
        """An error if it is no ledger, or its chain is broken."""
        try:
            key = str(content["key"])
            entries = [dict(row) | {"entry": row["entry"]} for row in content["entries"]]
            for row in entries:
                if row["entry"] == "release":
                    hash((row["ticket"], row["round"]))
        except (KeyError, TypeError, ValueError):
            raise ValueError("it is no ledger") from None
        chain = ""
        for number, row in enumerate(entries, 1):
            own = {name: part for name, part in row.items() if name not in ("chain", *SIGNED)}
            chain = link(chain, canonical(own))
            if row.get("chain") != chain:
                raise ValueError(f"its entry {number} was changed")
        return cls(key, entries)

    def complaint(self, one: Receipt | Former) -> str:
        """What this ledger says otherwise than a receipt of its owner; nothing if all is well."""
        if one.entry > len(self.entries):
            return (
                f"the ledger ends before entry {one.entry}, which the receipt names: it is an older"
                " one, or was emptied"
            )
        row = self.entries[one.entry - 1]
        if row["chain"] != one.chain:
            return f"the ledger has another chain at entry {one.entry} than the receipt"
        # what version 0 called market is its name, which is hers
        parts = vars(one).keys() & row.keys() - {"entry", "market"}
        if row["entry"] != "release" or any(row[part] != getattr(one, part) for part in parts):
            return "the ledger says otherwise than the receipt"
        return ""


def compared(receipts: list[Row], ledgers: dict[str, Any]) -> list[str]:
    """Complaints: bad receipts, two for one round or entry, and what ledgers and receipts do not
    both have.

    An owner has at most one release for each sale that no receipt tells of: the last one, which may
    not have arrived.
    """
    found, complaints = good(receipts)
    for name, content in ledgers.items():
        try:
            ledger = Export.of(content)
        except ValueError as error:
            complaints.append(f"{name}: {error}")
            continue
        hers = [one for one in found if one.key == ledger.key]
        complaints += [
            f"{name}, round {one.round} of {one.ticket[:8]}: {said}"
            for one in hers
            if (said := ledger.complaint(one))
        ]
        tickets = {one.ticket for one in hers}
        released = {
            (row["ticket"], row["round"]) for row in ledger.entries if row["entry"] == "release"
        }
        unanswered: dict[str, list[int]] = defaultdict(list)
        for ticket, number in released - {(one.ticket, one.round) for one in hers}:
            if ticket in tickets:
                unanswered[ticket].append(number)
        complaints += [
            f"{name}: rounds {sorted(n)} of {t[:8]} have no receipt"
            for t, n in unanswered.items()
            if len(n) > 1
        ]
    return complaints


def kept(folder: Path) -> list[Row]:
    """The receipts that a market has kept."""
    file = folder / "market.sqlite"
    if not file.exists():
        raise ValueError(f"there is no market in {folder}")
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as base:
        names = (*SIGNED, "owner")
        rows = base.execute(f"SELECT {', '.join(names)} FROM receipts ORDER BY round, owner")
        return [dict(zip(names, row, strict=True)) for row in rows]


def last_seen(receipts: list[Row]) -> dict[str, Place]:
    """The last entry of each owner's ledger, by her key, of which a receipt tells."""
    seen: dict[str, Place] = {}
    for one in good(receipts)[0]:
        if one.key not in seen or seen[one.key].entry < one.entry:
            seen[one.key] = Place(one.entry, one.chain)
    return seen


def owed(receipts: Iterable[Row]) -> list[Row]:
    """Who is owed what: a row for each owner."""
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0.0])
    for one in good(list(receipts))[0]:
        entry = sums[one.owner, one.key]
        entry[0], entry[1] = entry[0] + 1, entry[1] + one.payment
    return [
        {"owner": o, "key": k, "rounds": n, "owed": round(paid, 6)}
        for (o, k), (n, paid) in sorted(sums.items())
    ]
