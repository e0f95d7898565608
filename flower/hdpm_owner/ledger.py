"""What an owner has promised, sold and released, in a database that is on disk before anything
leaves her.

Entries are only ever appended, and each is chained to the one before by a hash. How many there are,
and the last hash, stand in a file of their own: a ledger that was edited, shortened, emptied or
removed is an error, and she sends nothing until somebody has looked. It is made once, with her
public key in it. Sums are kept beside the entries, so that a release takes as long after 100,000 as
after one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Annotated, Any

from hdpm_owner.console import lock, write
from hdpm_owner.deals import ENTRIES, Entry, GivenUp, Place, Promise, Release, Rotated, Sale
from hdpm_owner.shapes import Size, read_shaped, shaped
from hdpm_owner.signatures import Key, Succession, Successions, canonical
from hdpm_owner.terms import Spent

VERSION = 1
TABLES = """
CREATE TABLE entries (
  number INTEGER PRIMARY KEY, text TEXT NOT NULL, chain TEXT NOT NULL
) STRICT;
CREATE TABLE receipts (
  ticket TEXT, round INTEGER, letter TEXT, answer TEXT,
  receipt TEXT, signature TEXT, countersignature TEXT,
  PRIMARY KEY (ticket, round)
) STRICT;
"""
COUNTERSIGN = "UPDATE receipts SET countersignature = ? WHERE ticket = ? AND round = ?"
ABOUT = "CREATE TABLE about (key TEXT NOT NULL) STRICT"  # since version 1
COUNTER = 128  # bytes of ``ledger.count``
AHEAD = 3600.0  # seconds that the clocks of two entries may differ, in the wrong direction


@dataclass(frozen=True)
class _Counted:
    """What ``ledger.count`` says."""

    number: Size
    chain: Annotated[str, "([0-9a-f]{64})?"]


@dataclass
class Open:
    """A sale: what is not released of it, rounds that are, and when it was last heard of."""

    sale: Sale
    remaining: Spent
    released: set[int]
    heard: float
    given_up: bool = False


@dataclass
class Sums:
    """What entries add up to: all that was spent, what each market bought and promised, sales, the
    last promise, which key stands for which, and the time of the last entry.
    """

    spent: Spent = field(default_factory=Spent)
    bought: dict[str, Spent] = field(default_factory=dict)
    promised: dict[str, float] = field(default_factory=dict)
    sales: dict[str, Open] = field(default_factory=dict)
    stands: Promise | None = None
    keys: Successions = field(default_factory=Successions)
    last: float = 0.0

    def take(self, entry: Entry) -> None:
        """Add an entry."""
        self.last = entry.time
        open_ = self.sales.get(getattr(entry, "ticket", ""))
        if isinstance(entry, Promise):
            self.stands = entry
        elif isinstance(entry, Rotated):
            self.keys.learn(entry.statement)
        elif isinstance(entry, Sale):
            remaining = sum((Spent.of(entry.noise, loss) for loss in entry.losses), Spent())
            self.sales[entry.ticket] = Open(entry, remaining, set(), entry.time)
            self.promised[entry.market] = self.promised.get(entry.market, 0.0) + sum(entry.payments)
        elif isinstance(entry, Release):
            cost = Spent.of(entry.noise, entry.loss)
            self.spent += cost
            self.bought[entry.market] = self.bought.get(entry.market, Spent()) + cost
            if open_ is not None:
                open_.remaining -= cost
                open_.heard = entry.time
                open_.released.add(entry.round)
        elif open_ is not None:
            open_.remaining, open_.given_up = Spent(), True
            paid = enumerate(open_.sale.payments, 1)
            rest = sum(one for number, one in paid if number not in open_.released)
            self.promised[entry.market] -= rest

    def waits(self, open_: Open, keep: float) -> bool:
        """Whether a sale was heard of within so many hours."""
        return open_.heard >= time.time() - 3600 * keep

    def waiting(self, keep: float, market: str | None = None) -> Spent:
        """What is sold, to a market or all, and waits: heard of in the last `keep` hours."""
        its = (one for one in self.sales.values() if market in (None, one.sale.market))
        return sum((one.remaining for one in its if self.waits(one, keep)), Spent())


def make(folder: Path, key: str) -> None:
    """Make the ledger of an owner with this public key, in a folder that has none."""
    file = folder / "ledger.sqlite"
    if file.exists() or (folder / "ledger.count").exists():
        raise ValueError(f"there is a ledger in {folder} already")
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as base:
        base.executescript(f"{TABLES}{ABOUT};PRAGMA user_version = {VERSION}")
        base.execute("INSERT INTO about VALUES (?)", (key,))
        write(file, base.serialize())


class Ledger(Sums):
    """The entries of a folder, which one process at a time may hold open to write.

    Parameters
    ----------
    folder : path
        Has ``ledger.sqlite``, which :func:`make` has made, ``ledger.count`` and ``ledger.lock``.
    key : Key, of hers; older ones for which it stands are written down
    """

    def __init__(self, folder: Path, key: Key) -> None:
        self.file = folder / "ledger.sqlite"
        self._count = folder / "ledger.count"
        self._lock = lock(folder / "ledger.lock", f"another process holds the ledger {self.file}")
        try:
            if not self.file.exists():
                counted = f", and {self._count} counts its entries" if self._count.exists() else ""
                raise ValueError(
                    f"the ledger {self.file} is gone{counted}: hdpm-owner init made it"
                )
            # in a `with` block all of it or nothing, on disk when it ends
            self._base = sqlite3.connect(
                self.file, check_same_thread=False, isolation_level="IMMEDIATE"
            )
            self._base.execute("PRAGMA journal_mode = WAL")
            self._base.execute("PRAGMA synchronous = FULL")
            self._check_tables()
            self._begin()
            self.stand_for(key)
        except BaseException as error:
            self.close()
            if not isinstance(error, sqlite3.DatabaseError):
                raise
            full = isinstance(error, sqlite3.OperationalError)  # a disk, for one
            said = "cannot be opened" if full else "is damaged"
            raise ValueError(f"the ledger {self.file} {said}: {error}") from error

    def _check_tables(self) -> None:
        """Raise an error if the tables are not those that :func:`make` makes."""
        version = self._base.execute("PRAGMA user_version").fetchone()[0]
        tables = "SELECT count(*) FROM sqlite_master WHERE name IN ('entries', 'receipts')"
        if self._base.execute(tables).fetchone()[0] != 2:
            raise ValueError(f"the ledger {self.file} is damaged: it was emptied")
        if version != VERSION:
            raise ValueError(
                f"the ledger {self.file} was written by another version of hdpm-owner, {version}"
                f" where this one writes {VERSION}"
            )
        ((self.key,),) = self._base.execute("SELECT key FROM about")

    def _begin(self) -> None:
        super().__init__()
        self.number = 0
        self.chain = ""
        known = None
        told = _Counted(0, "")
        if self._count.exists():
            try:
                told = read_shaped(_Counted, self._count.read_text("ascii"))
            except ValueError as error:
                raise ValueError(
                    f"{self._count}, which counts the entries of the ledger {self.file}, is"
                    f" damaged: {error}"
                ) from None
        elif self._base.execute("SELECT count(*) FROM entries").fetchone()[0]:
            raise ValueError(
                f"{self._count}, which counts the entries of the ledger {self.file}, is gone"
            )
        for row, chain in _chained(self.file, self._base):
            self.number += 1
            self.chain = chain
            known = self.chain if self.number == told.number else known
            self.take(entry_of(row))
        if told.number > self.number or (told.number and known != told.chain):
            raise ValueError(
                f"the ledger {self.file} has {self.number} entries, and {self._count} knows of"
                " others: nothing is sent before somebody has looked"
            )
        self._count_up()
        if self.last > time.time() + AHEAD:
            logging.getLogger("hdpm_owner").warning(
                "the last entry of %s is of %s: the clock was wrong then, or is now; what waits"
                " from then can be given up",
                self.file,
                time.strftime("%Y-%m-%d", time.gmtime(min(self.last, 1e11))),
            )

    def place(self, entry: Entry) -> Place:
        """Where an entry will stand that is written next."""
        return Place(self.number + 1, link(self.chain, _text(entry)))

    def write(
        self,
        entry: Entry,
        signatures: Iterable[tuple[str, str, int]] = (),
        kept: tuple[str, str, str, str] | None = None,
    ) -> None:
        """Append an entry and wait until it is on disk. Only after that may anything be sent.

        With it go signatures of the market under earlier receipts, with ticket and round. Of a
        release, letter, answer, receipt and signature are kept; of the last round of a sale the
        whole answer, to send it again.
        """
        place = self.place(entry)
        with self._base:  # once: each wait for the disk takes long
            self._base.executemany(COUNTERSIGN, signatures)
            row = (place.entry, _text(entry), place.chain)
            self._base.execute("INSERT INTO entries VALUES (?, ?, ?)", row)
            if kept is not None and isinstance(entry, Release):
                own = (entry.ticket, entry.round, *kept)
                self._base.execute("UPDATE receipts SET answer = NULL WHERE ticket = ?", own[:1])
                self._base.execute("INSERT INTO receipts VALUES (?, ?, ?, ?, ?, ?, NULL)", own)
        self.number, self.chain = place.entry, place.chain
        self.take(entry)
        self._count_up()

    def _count_up(self) -> None:
        """Over the old counter, for a new file has the disk wait twice as long: it is smaller than
        a sector, which a disk writes as a whole. One of before a crash fits the longer ledger.
        """
        told = json.dumps({"number": self.number, "chain": self.chain}).ljust(COUNTER).encode()
        if not self._count.exists():
            write(self._count, told)
            return
        with self._count.open("r+b", buffering=0) as stream:
            stream.write(told)
            getattr(os, "fdatasync", os.fsync)(stream.fileno())

    def promise(self, terms: Promise) -> None:
        """Write down what she promises, if it is not what the ledger has last."""
        known = self.stands
        if known is None or replace(known, time=terms.time) != terms:
            self.write(terms)

    def learn(self, one: Succession, now: float) -> None:
        """Write down that a key has a successor, if it is true and new."""
        if self.keys.check(one, now):
            self.write(Rotated(one))

    def stand_for(self, key: Key) -> None:
        """Write down for which keys hers stands; an error if none is that of this ledger."""
        for one in key.line:
            self.learn(one, -inf)
        if key.public != self.keys.after(self.key)[-1]:
            raise ValueError(f"the ledger {self.file} is of another key than {key.public}")

    def give_up(self, ticket: str) -> None:
        """Never release what is left of a sale: other markets may have it."""
        open_ = self.sales.get(ticket)
        if open_ is None or open_.given_up:
            raise ValueError(f"the ledger has no sale {ticket} that waits")
        self.write(GivenUp(ticket, open_.sale.market))

    def has(self, place: Place) -> bool:
        """Whether this is an entry of it."""
        return self._one("chain FROM entries WHERE number = ?", place.entry) == place.chain

    def _one(self, query: str, *given: object) -> str | None:
        found = self._base.execute(f"SELECT {query}", given).fetchone()
        return found[0] if found else None

    # --- receipts: each carries its signatures, so that no chain is needed -----------------------

    def answered(self, ticket: str, round: int, letter: str) -> str | None:
        """The answer to the same letter, if it is kept."""
        where = "ticket = ? AND round = ? AND letter = ?"
        return self._one(f"answer FROM receipts WHERE {where}", ticket, round, letter)

    def receipt(self, ticket: str, round: int) -> str | None:
        """The text of a receipt."""
        return self._one("receipt FROM receipts WHERE ticket = ? AND round = ?", ticket, round)

    def countersign(self, signatures: Iterable[tuple[str, str, int]]) -> None:
        """Keep the market's signatures under receipts."""
        with self._base:
            self._base.executemany(COUNTERSIGN, signatures)

    def close(self) -> None:
        """Let another process have the ledger."""
        if hasattr(self, "_base"):
            self._base.close()
        self._lock.close()


def read(folder: Path) -> dict[str, Any]:
    """Her public key, and all entries, releases with their receipts, while she runs or not.

    It is an error if the chain is broken.
    """
    file = folder / "ledger.sqlite"
    if not file.exists():
        raise ValueError(f"there is no ledger {file}")
    with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as base:
        if base.execute("PRAGMA user_version").fetchone()[0] != VERSION:
            raise ValueError(f"the ledger {file} is of another version of hdpm-owner")
        where = "SELECT ticket, round, receipt, signature, countersignature FROM receipts"
        names = ("receipt", "signature", "countersignature")
        receipts = {row[:2]: dict(zip(names, row[2:], strict=True)) for row in base.execute(where)}
        entries = [
            row | {"chain": chain} | receipts.get((row.get("ticket"), row.get("round")), {})
            for row, chain in _chained(file, base)
        ]
        return {"key": base.execute("SELECT key FROM about").fetchone()[0], "entries": entries}


def _chained(file: Path, base: sqlite3.Connection) -> Iterator[tuple[dict[str, Any], str]]:
    """Entries in their order with their hashes, all of them checked."""
    chain = ""
    for place, (number, text, told) in enumerate(
        base.execute("SELECT * FROM entries ORDER BY number"), 1
    ):
        chain = link(chain, text)
        if number != place or told != chain:
            raise ValueError(
                f"entry {place} of the ledger {file} was changed: nothing is sent before it is"
                " mended"
            )
        yield json.loads(text), chain


def entry_of(row: dict[str, Any]) -> Entry:
    """Return the entry that a row of a ledger is; an error says what it lacks."""
    kind = ENTRIES[row["entry"]]
    own = ("entry", "chain", "receipt", "signature", "countersignature")
    return shaped(kind, {name: part for name, part in row.items() if name not in own})


def _text(entry: Entry) -> str:
    kind = next(name for name, one in ENTRIES.items() if isinstance(entry, one))
    return canonical({"entry": kind} | vars(entry))


def link(chain: str, text: str) -> str:
    """The hash of a text and all before it."""
    return hashlib.sha256((chain + text).encode()).hexdigest()
