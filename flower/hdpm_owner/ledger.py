"""What an owner has sold and released, in a database that is on disk before anything leaves her.

Entries are only ever appended, and each is chained to the one before by a hash. How many there are,
and the last hash, stand in a file of their own: a ledger that was edited, shortened, emptied or
removed is an error, and she sends nothing until somebody has looked. Sums are kept beside the
entries, so that a release takes as long after 100,000 as after one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hdpm_owner.signatures import canonical
from hdpm_owner.terms import Spent

TABLES = """
CREATE TABLE IF NOT EXISTS entries (
  number INTEGER PRIMARY KEY, text TEXT NOT NULL, chain TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS receipts (
  ticket TEXT, round INTEGER, letter TEXT, answer TEXT,
  receipt TEXT, signature TEXT, countersignature TEXT,
  PRIMARY KEY (ticket, round)
) STRICT;
"""


@dataclass(frozen=True)
class Sale:
    """A loss and a payment for each round, under the ticket of a bid; a loss of 0 is a round
    without her.
    """

    ticket: str
    market: str
    unit: str
    noise: str
    losses: tuple[float, ...]
    payments: tuple[float, ...]
    time: float = field(default_factory=time.time)


@dataclass(frozen=True)
class Release:
    """What may have left her in a round, counted from 1, whether it arrived or not."""

    ticket: str
    market: str
    unit: str
    noise: str
    round: int
    loss: float
    payment: float
    time: float = field(default_factory=time.time)


Entry = Sale | Release


@dataclass
class Open:
    """A sale with what is not released of it, its rounds that are, and when it was last heard
    of.
    """

    sale: Sale
    remaining: Spent
    released: set[int]
    heard: float


class Ledger:
    """The entries of a folder, which one process at a time may hold open to write.

    Parameters
    ----------
    folder : path
        Has ``ledger.sqlite``, made if neither it nor ``ledger.count`` is there, and
        ``ledger.lock``.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / "ledger.sqlite"
        self._count = folder / "ledger.count"
        self._lock = (folder / "ledger.lock").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise RuntimeError(f"another process holds the ledger {self.file}") from None
        try:
            if self._count.exists() and not self.file.exists():
                raise ValueError(
                    f"the ledger {self.file} is gone, and {self._count} counts its entries"
                )
            self._base = sqlite3.connect(self.file, check_same_thread=False, isolation_level=None)
            self._base.execute("PRAGMA journal_mode = WAL")
            self._base.execute("PRAGMA synchronous = FULL")
            self._base.executescript(TABLES)
            self._begin()
        except BaseException as error:
            self.close()
            if isinstance(error, sqlite3.DatabaseError):
                raise ValueError(f"the ledger {self.file} is damaged: {error}") from error
            raise

    def _begin(self) -> None:
        self.spent = Spent()
        self.bought = dict[str, Spent]()
        self.promised = dict[str, float]()
        self.sales: dict[str, Open] = {}
        self.number = 0
        self.chain = ""
        known = None
        told: dict[str, Any] = {"number": 0, "chain": ""}
        if self._count.exists():
            told = json.loads(self._count.read_text("ascii"))
        elif self._base.execute("SELECT count(*) FROM entries").fetchone()[0]:
            raise ValueError(
                f"{self._count}, which counts the entries of the ledger {self.file}, is gone"
            )
        for entry, chain in _chained(self.file, self._base):
            self.number = self.number + 1
            self.chain = chain
            known = self.chain if self.number == told["number"] else known
            self._take(entry)
        if told["number"] > self.number or (told["number"] and known != told["chain"]):
            raise ValueError(
                f"the ledger {self.file} has {self.number} entries, and {self._count} knows of"
                " others: nothing is sent before somebody has looked"
            )
        self._count_up()

    def _take(self, entry: Entry) -> None:
        """Add an entry to the sums."""
        if isinstance(entry, Sale):
            remaining = sum((Spent.of(entry.noise, loss) for loss in entry.losses), Spent())
            self.sales[entry.ticket] = Open(entry, remaining, set(), entry.time)
            self.promised[entry.market] = self.promised.get(entry.market, 0.0) + sum(entry.payments)
            return
        cost = Spent.of(entry.noise, entry.loss)
        self.spent, self.bought[entry.market] = (
            self.spent + cost,
            self.bought.get(entry.market, Spent()) + cost,
        )
        if (sale := self.sales.get(entry.ticket)) is not None:
            sale.remaining = sale.remaining - cost
            sale.heard = entry.time
            sale.released.add(entry.round)

    def write(self, entry: Entry) -> None:
        """Append an entry and wait until it is on disk. Only after that may anything be sent."""
        text = canonical({"entry": type(entry).__name__.lower()} | asdict(entry))
        chain = _link(self.chain, text)
        self._base.execute("INSERT INTO entries VALUES (?, ?, ?)", (self.number + 1, text, chain))
        self.number = self.number + 1
        self.chain = chain
        self._take(entry)
        self._count_up()

    def _count_up(self) -> None:
        part = self._count.with_suffix(".part")
        with part.open("w") as stream:
            stream.write(json.dumps({"number": self.number, "chain": self.chain}))
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(self._count)
        _sync_folder(self._count.parent)

    def waiting(self, keep: float, market: str | None = None, now: float | None = None) -> Spent:
        """What is sold, not yet released, and was heard of within so many hours; to one market or
        to all.
        """
        since = (time.time() if now is None else now) - 3600 * keep
        sales = (
            one
            for one in self.sales.values()
            if one.heard >= since and market in (None, one.sale.market)
        )
        return sum((one.remaining for one in sales), Spent())

    # --- receipts: each carries its signatures, so that no chain is needed -----------------------

    def keep(
        self, ticket: str, round: int, letter: str, answer: str, receipt: str, signature: str
    ) -> None:
        """Keep what was answered to a letter, of the last round of a sale with the whole answer, to
        send it again.
        """
        with self._base:
            self._base.execute("UPDATE receipts SET answer = NULL WHERE ticket = ?", (ticket,))
            row = (ticket, round, letter, answer, receipt, signature)
            self._base.execute("INSERT INTO receipts VALUES (?, ?, ?, ?, ?, ?, NULL)", row)

    def answered(self, ticket: str, round: int, letter: str) -> str | None:
        """The answer to the same letter, if it is kept."""
        where = "SELECT answer FROM receipts WHERE ticket = ? AND round = ? AND letter = ?"
        found = self._base.execute(where, (ticket, round, letter)).fetchone()
        return found[0] if found else None

    def receipt(self, ticket: str, round: int) -> str | None:
        """The text of a receipt."""
        where = "SELECT receipt FROM receipts WHERE ticket = ? AND round = ?"
        found = self._base.execute(where, (ticket, round)).fetchone()
        return found[0] if found else None

    def countersign(self, ticket: str, round: int, signature: str) -> None:
        """Keep the market's signature under a receipt."""
        change = "UPDATE receipts SET countersignature = ? WHERE ticket = ? AND round = ?"
        self._base.execute(change, (signature, ticket, round))

    def close(self) -> None:
        """Let another process have the ledger."""
        if hasattr(self, "_base"):
            self._base.close()
        self._lock.close()


def read(folder: Path) -> list[dict[str, Any]]:
    """All entries, releases with their receipts, while she runs or not; an error if the chain is
    broken.
    """
    file = folder / "ledger.sqlite"
    with _reading(file) as base:
        where = "SELECT ticket, round, receipt, signature, countersignature FROM receipts"
        names = ("receipt", "signature", "countersignature")
        receipts = {row[:2]: dict(zip(names, row[2:], strict=True)) for row in base.execute(where)}
        found = []
        for entry, chain in _chained(file, base):
            row = {"entry": type(entry).__name__.lower()} | asdict(entry) | {"chain": chain}
            if isinstance(entry, Release):
                row |= receipts.get((entry.ticket, entry.round), {})
            found.append(row)
    return found


@contextmanager
def _reading(file: Path) -> Iterator[sqlite3.Connection]:
    if not file.exists():
        raise ValueError(f"there is no ledger {file}")
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as base:
        yield base


def _chained(file: Path, base: sqlite3.Connection) -> Iterator[tuple[Entry, str]]:
    """Entries in their order with their hashes, all of them checked."""
    chain = ""
    for place, (number, text, told) in enumerate(
        base.execute("SELECT * FROM entries ORDER BY number"), 1
    ):
        chain = _link(chain, text)
        if number != place or told != chain:
            raise ValueError(
                f"entry {place} of the ledger {file} was changed: nothing is sent before it is"
                " mended"
            )
        content = json.loads(text)
        if content.pop("entry") == "sale":
            losses, payments = (tuple(content.pop(name)) for name in ("losses", "payments"))
            yield Sale(**content, losses=losses, payments=payments), chain
        else:
            yield Release(**content), chain


def _link(chain: str, text: str) -> str:
    return hashlib.sha256((chain + text).encode()).hexdigest()


def _sync_folder(folder: Path) -> None:
    """So that the files themselves are still there after a crash."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
