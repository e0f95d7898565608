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
from hdpm_owner.signatures import Succession, Successions, canonical, signed

Row = dict[str, Any]
SIGNED = ("receipt", "signature", "countersignature")


def told(row: Row, keys: Successions) -> Receipt | Former:
    """What a receipt says, if it is one and both have signed it; else an error says why not.

    A market may sign with a successor of the key to which was sold.
    """
    text = row.get("receipt")
    try:
        found: Receipt | Former = read_shaped(Receipt, text)
    except ValueError as error:
        former = json.loads(text) if isinstance(text, str) and '"market":' in text else {}
        if not isinstance(former, dict) or "market" not in former:
            raise ValueError(f"it is no receipt: {error}") from None
        found = shaped(Former, former | {"buyer": former.pop("market")})
    both = {"signature": [found.key], "countersignature": keys.after(found.buyer)}
    bad = [n for n, good in both.items() if not any(signed(text, row.get(n), k) for k in good)]
    if bad:
        raise ValueError(f"its {' and '.join(bad)} cannot be verified")
    if ended := [key for key in (found.key, found.buyer) if keys.ended(key, found.time)]:
        raise ValueError(f"the key {ended[0][:8]} had ended")
    return found


def successions(rows: Iterable[Row]) -> tuple[Successions, list[str]]:
    """Which key stands for which by rows with a statement, and complaints about bad ones."""
    keys = Successions()
    complaints = []
    for row in rows:
        if "statement" in row:
            try:
                keys.learn(shaped(Succession, row["statement"]))
            except ValueError as error:
                complaints.append(str(error))
    return keys, complaints


def good(rows: list[Row], keys: Successions) -> tuple[list[Receipt | Former], list[str]]:
    """The receipts that are, and complaints about the others and about two that cannot both be."""
    found = []
    complaints = []
    rounds = set[tuple[str, int]]()
    places: dict[tuple[str, int], str] = {}
    receipts = (row for row in rows if "statement" not in row)
    for number, row in enumerate(receipts, 1):
        name = f"receipt {number} of {row.get('owner', 'somebody')!r}"
        try:
            one = told(row, keys)
        except (ValueError, RecursionError) as error:
            complaints.append(f"{name}: {error}")
            continue
        where = f"{one.owner}, round {one.round} of {one.ticket[:8]}"
        if (one.ticket, one.round) in rounds:
            complaints.append(f"{where}: two receipts")
            continue
        rounds.add((one.ticket, one.round))
        hers = keys.first(one.key)
        if (chain := places.get((hers, one.entry))) == one.chain:
            complaints.append(f"{where}: two receipts for entry {one.entry} of her ledger")
        elif chain is not None:
            complaints.append(
                f"{where}: entry {one.entry} of her ledger has two chains: it was copied, or an"
                " older copy was put back"
            )
        places[hers, one.entry] = one.chain
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
    """Complaints: bad receipts and statements, two for one round, entry or key, and what ledgers
    and receipts do not both have.

    An owner has at most one release for each sale that no receipt tells of: the last one, which may
    not have arrived.
    """
    complaints = []
    exports = {}
    for name, content in ledgers.items():
        try:
            exports[name] = Export.of(content)
        except ValueError as error:
            complaints.append(f"{name}: {error}")
    told = [row for one in exports.values() for row in one.entries]
    keys, wrong = successions([*receipts, *told])
    found, bad = good(receipts, keys)
    complaints += wrong + bad
    for name, ledger in exports.items():
        hers = [one for one in found if keys.first(one.key) == keys.first(ledger.key)]
        complaints += [
            f"{name}, round {one.round} of {one.ticket[:8]}: {said}"
            for one in hers
            if (said := ledger.complaint(one))
        ]
        for ticket in dict.fromkeys(one.ticket for one in hers):
            released = (row for row in ledger.entries if row["entry"] == "release")
            rounds = {row["round"] for row in released if row["ticket"] == ticket}
            rounds -= {one.round for one in hers if one.ticket == ticket}
            if len(rounds) > 1:
                complaints.append(
                    f"{name}: rounds {sorted(rounds)} of {ticket[:8]} have no receipt"
                )
    return complaints


def _rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    """Of a market's book, which it may be writing."""
    file = folder / "market.sqlite"
    if not file.exists():
        raise ValueError(f"there is no market in {folder}")
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as base:
        return base.execute(query).fetchall()


def rounds(folder: Path) -> list[Row]:
    """What happened in each round of a market."""
    return [json.loads(text) for (text,) in _rows(folder, "SELECT text FROM rounds ORDER BY round")]


def state(folder: Path) -> Row:
    """What a market wrote last; nothing if it has not begun."""
    found = _rows(folder, "SELECT text FROM state")
    return json.loads(found[0][0]) if found else {}


def kept(folder: Path) -> list[Row]:
    """The receipts that a market has kept, and the statements by which keys have successors."""
    names = (*SIGNED, "owner")
    rows = _rows(folder, f"SELECT {', '.join(names)} FROM receipts ORDER BY round, owner")
    told = [{"statement": one} for one in state(folder).get("successions", [])]
    return told + [dict(zip(names, row, strict=True)) for row in rows]


def last_seen(receipts: list[Row]) -> dict[str, Place]:
    """The last entry of each owner's ledger, by her first key, of which a receipt tells."""
    keys, _ = successions(receipts)
    seen: dict[str, Place] = {}
    for one in sorted(good(receipts, keys)[0], key=lambda one: one.entry):
        seen[keys.first(one.key)] = Place(one.entry, one.chain)
    return seen


def owed(receipts: list[Row]) -> list[Row]:
    """Who is owed what: a row for each owner, with the last of her keys."""
    keys, _ = successions(receipts)
    paid = defaultdict[tuple[str, str], list[float]](list)
    for one in good(receipts, keys)[0]:
        paid[one.owner, keys.after(one.key)[-1]].append(one.payment)
    return [
        {"owner": o, "key": k, "rounds": len(all_), "owed": round(sum(all_), 6)}
        for (o, k), all_ in sorted(paid.items())
    ]
