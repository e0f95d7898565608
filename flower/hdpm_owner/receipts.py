"""Receipts of a market, read and checked one by one, and who is owed what.

A receipt (:class:`hdpm_owner.deals.Receipt`) is a text that an owner signs with a release and the
market signs when the release was used. It names a place in her ledger. Receipts, books and ledgers
are held against each other by :mod:`hdpm_owner.audit`.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from hdpm_owner.charter import Charter, Invitation, read_invitation
from hdpm_owner.deals import Place, Receipt, Rounds, Signed, model_digest
from hdpm_owner.ledger import link
from hdpm_owner.shapes import Loss, Money, Numbers, Time, loaded, read_shaped, shaped
from hdpm_owner.signatures import Succession, Successions, canonical, signed

Row = dict[str, Any]
SIGNED = ("receipt", "signature", "countersignature")


def told(row: Row, keys: Successions) -> Receipt:
    """Return what a receipt says, if it is one and both have signed it; else an error says why not.

    A market may sign with a successor of the key to which was sold.
    """
    text = row.get("receipt")
    try:
        found = read_shaped(Receipt, text)
    except ValueError as error:
        raise ValueError(f"it is no receipt: {error}") from None
    bad = []
    if not signed("receipt", text, row.get("signature"), found.key):
        bad.append("signature")
    theirs = row.get("countersignature")
    if not any(signed("owed", text, theirs, key) for key in keys.after(found.buyer)):
        bad.append("countersignature")
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


def good(rows: list[Row], keys: Successions) -> list[Receipt]:
    """Return the receipts that are good; of two for one round, the first."""
    found: dict[tuple[str, int], Receipt] = {}
    for row in rows:
        with suppress(ValueError, RecursionError):
            one = told(row, keys)
            found.setdefault((one.ticket, one.round), one)
    return list(found.values())


@dataclass(frozen=True)
class Export:
    """A ledger as ``hdpm-owner ledger FOLDER --json`` prints it."""

    key: str
    entries: list[Row]
    signature: str

    @classmethod
    def of(cls, content: Any) -> Export:
        """Return a ledger; an error if it is none, or its chain is broken."""
        try:
            signature = str(content["signature"])
            entries = [dict(row) | {"entry": row["entry"]} for row in content["entries"]]
            for row in entries:
                if row["entry"] == "release":
                    hash((row["ticket"], row["round"] + row["first"]))
            if entries[0]["entry"] != "made":
                raise ValueError
            key = str(entries[0]["key"])
        except (IndexError, KeyError, TypeError, ValueError):
            raise ValueError("it is no ledger") from None
        chain = ""
        for number, row in enumerate(entries, 1):
            own = {name: part for name, part in row.items() if name not in ("chain", *SIGNED)}
            chain = link(chain, canonical(own))
            if row.get("chain") != chain:
                raise ValueError(f"its entry {number} was changed")
        return cls(key, entries, signature)

    def check(self, keys: Successions) -> None:
        """Raise an error if its owner has not signed where it ends."""
        head = canonical([len(self.entries), self.chains[-1]])
        hers = keys.after(self.key)
        if not any(signed("ledger", head, self.signature, key) for key in hers):
            raise ValueError("its end is not signed by its owner")

    @property
    def chains(self) -> list[str]:
        """The hashes of its entries."""
        return [row["chain"] for row in self.entries]

    @property
    def owner(self) -> str:
        """The last name under which it has sold, if it has."""
        names = [str(row["owner"]) for row in self.entries if "owner" in row]
        return names[-1] if names else ""


def _rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    """Of a market's book, which it may be writing."""
    file = folder / "market.sqlite"
    if not file.exists():
        raise ValueError(f"there is no market in {folder}")
    with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as base:
        return base.execute(query).fetchall()


def rounds(folder: Path) -> list[Row]:
    """Return what happened in each round of a market."""
    return [json.loads(text) for (text,) in _rows(folder, "SELECT text FROM rounds ORDER BY round")]


def state(folder: Path) -> Row:
    """Return what a market wrote last; nothing if it has not begun."""
    found = _rows(folder, "SELECT text FROM state")
    return json.loads(found[0][0]) if found else {}


def steps(folder: Path) -> dict[tuple[str, int], Any]:
    """Return what was released to a market, by ticket and round; nothing if it kept none."""
    if ("steps",) not in _rows(folder, "SELECT name FROM pragma_table_info('receipts')"):
        return {}  # a book of version 4
    rows = _rows(folder, "SELECT ticket, round, steps FROM receipts ORDER BY round, ticket")
    return {(ticket, round): loaded(text, inf) for ticket, round, text in rows}


def kept(folder: Path) -> list[Row]:
    """Return the receipts that a market has kept, and statements by which keys have successors."""
    names = ("owner", "ticket", "round", *SIGNED)
    rows = _rows(folder, f"SELECT {', '.join(names)} FROM receipts ORDER BY round, owner")
    return _statements(state(folder)) + [dict(zip(names, row, strict=True)) for row in rows]


def _statements(state: Row) -> list[Row]:
    """Return the statements in a market's state by which keys have successors."""
    found = state.get("successions") if isinstance(state, dict) else None
    return [{"statement": one} for one in found] if isinstance(found, list) else []


@dataclass(frozen=True)
class Round:
    """What a market writes of a round: what each in its roster lost and was paid, its model, and
    the bids of the auction in which it was sold, each as its owner has signed it.
    """

    round: Rounds
    loss: tuple[Loss, ...]
    paid: tuple[Money, ...]
    model: tuple[Numbers, ...]
    seconds: Time = 0.0
    bids: tuple[Signed, ...] = ()


# of what a market has written last, the kinds of its parts
STATE: dict[str, type] = {"done": int, "charter": str, "model": list, "sellers": list}
STATE |= dict.fromkeys(("absences", "asked", "successions"), list)
STATE |= dict.fromkeys(("roster", "failures", "names"), dict)
STATE |= dict.fromkeys(("_owed", "_sales", "_out", "_closing", "_closed"), dict)


@dataclass(eq=False)
class Book:
    """What a market has written down.

    Attributes
    ----------
    name : str, of its folder
    state, rounds : what it wrote last, and what happened in each round
    receipts : rows with texts, signatures, and where the market has put them
    invitation : the charter, as the market has signed it
    steps : what was released, by ticket and round
    """

    name: str
    state: Row
    rounds: list[Row]
    receipts: list[Row]
    invitation: Row = field(default_factory=dict)
    steps: dict[tuple[str, int], Any] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Book:
        """Return the book in a folder, which the market may be writing."""
        receipts = [row for row in kept(folder) if "statement" not in row]
        invitation = vars(read_invitation(folder / "invitation.json"))
        name = folder.resolve().name
        return cls(name, state(folder), rounds(folder), receipts, invitation, steps(folder))

    @property
    def text(self) -> str:
        """All of it, to see whether two are one."""
        told = [self.invitation, self.state, self.rounds, self.receipts, list(self.steps.items())]
        return json.dumps(told, sort_keys=True, default=vars)

    @property
    def statements(self) -> list[Row]:
        """Statements by which keys have successors."""
        return _statements(self.state)

    def charter(self) -> tuple[str, Charter]:
        """Return the hash of the charter, and the charter; an error if it is none."""
        made = shaped(Invitation, self.invitation)
        return made.hash, made.read()

    @property
    def roster(self) -> dict[str, Row]:
        """Names and records of all who ever sold, by first key."""
        return dict(self.state.get("roster", {}))

    @cached_property
    def digests(self) -> list[str]:
        """The hashes of the models before round 1, 2, ..., and of the last one."""
        start = np.zeros_like(np.array(self.state.get("model", 0.0), dtype=float))
        models = [np.array(one["model"], dtype=float) for one in self.rounds]
        return list(map(model_digest, [start, *models]))


def last_seen(receipts: list[Row]) -> dict[str, Place]:
    """Return the last entry of each owner's ledger, by her first key, of which a receipt tells."""
    keys, _ = successions(receipts)
    seen: dict[str, Place] = {}
    for one in sorted(good(receipts, keys), key=lambda one: one.entry):
        seen[keys.first(one.key)] = Place(one.entry, one.chain)
    return seen


def owed(receipts: list[Row]) -> list[Row]:
    """Who is owed what: a row for each owner, with the last of her keys."""
    keys, _ = successions(receipts)
    paid = defaultdict[tuple[str, str], list[float]](list)
    for one in good(receipts, keys):
        paid[one.owner, keys.after(one.key)[-1]].append(one.payment)
    return [
        {"owner": o, "key": k, "rounds": len(all_), "owed": round(sum(all_), 6)}
        for (o, k), all_ in sorted(paid.items())
    ]
