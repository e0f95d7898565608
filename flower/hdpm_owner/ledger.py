"""What an owner has promised, consented to, sold and released, and the key that signs for it, in a
database that is on disk before anything leaves her.

Entries are only ever appended, and each is chained to the one before by a hash. Her private key
lies in the same file: who removes or empties the ledger has removed its owner, and she sells
nothing as somebody else. How many entries there are, and the last hash, are written with each of
them. One process serves at a time; others may add a consent, a withdrawal or a new key meanwhile,
which counts from her next letter on. Sums are kept beside the entries, so that a release takes as
long after 100,000 as after one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

from hdpm_owner.console import lock, write
from hdpm_owner.deals import (
    ENTRIES,
    Closed,
    Entry,
    GivenUp,
    Joined,
    Made,
    Place,
    Promise,
    Receipt,
    Release,
    Rotated,
    Sale,
    Withdrawn,
)
from hdpm_owner.shapes import read_shaped, shaped
from hdpm_owner.signatures import Key, Succession, Successions, canonical
from hdpm_owner.terms import Spent

VERSION = 2
TABLES = """
CREATE TABLE entries (
  number INTEGER PRIMARY KEY, text TEXT NOT NULL, chain TEXT NOT NULL
) STRICT;
CREATE TABLE receipts (
  ticket TEXT, round INTEGER, letter TEXT, answer TEXT,
  receipt TEXT, signature TEXT, countersignature TEXT,
  PRIMARY KEY (ticket, round)
) STRICT;
CREATE TABLE identity (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  key TEXT NOT NULL, number INTEGER NOT NULL, chain TEXT NOT NULL
) STRICT;
"""
COUNTERSIGN = "UPDATE receipts SET countersignature = ? WHERE ticket = ? AND round = ?"
AHEAD = 3600.0  # seconds that the clocks of two entries may differ, in the wrong direction
BUSY = 60.0  # seconds for which another process may write


@dataclass
class Open:
    """A sale: what is not released of it, rounds that are, and when it was last heard of."""

    sale: Sale
    remaining: Spent
    released: set[int]
    heard: float
    given_up: bool = False

    @property
    def due(self) -> float:
        """What is promised for the rounds that are not released."""
        paid = enumerate(self.sale.payments, 1)
        return sum(one for number, one in paid if number not in self.released)


@dataclass
class Sums:
    """What entries add up to: all that was spent, what each market bought and promised, by the
    first of its keys, sales, consents by the hash of the charter and those that she has `left`, the
    last promise, which key stands for which, and the time of the last entry.
    """

    spent: Spent = field(default_factory=Spent)
    bought: dict[str, Spent] = field(default_factory=dict)
    promised: dict[str, float] = field(default_factory=dict)
    sales: dict[str, Open] = field(default_factory=dict)
    consents: dict[str, Joined] = field(default_factory=dict)
    left: dict[str, Joined] = field(default_factory=dict)
    closed: dict[str, Closed] = field(default_factory=dict)
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
            new = entry.statement.new  # what was bought with it counts under its first key from now
            first = self.keys.first(new)
            if new in self.promised:
                self.promised[first] = self.promised.get(first, 0.0) + self.promised.pop(new)
            if new in self.bought:
                self.bought[first] = self.bought.get(first, Spent()) + self.bought.pop(new)
        elif isinstance(entry, Joined):
            self.consents[entry.charter] = entry
            self.left.pop(entry.charter, None)
        elif isinstance(entry, Withdrawn):
            if (gone := self.consents.pop(entry.charter, None)) is not None:
                self.left[entry.charter] = gone
        elif isinstance(entry, Closed):
            self.closed[entry.charter] = entry
        elif isinstance(entry, Sale):
            remaining = sum((Spent.of(entry.noise, loss) for loss in entry.losses), Spent())
            self.sales[entry.ticket] = Open(entry, remaining, set(), entry.time)
            buyer = self.keys.first(entry.buyer)
            self.promised[buyer] = self.promised.get(buyer, 0.0) + sum(entry.payments)
        elif isinstance(entry, Release):
            cost = Spent.of(entry.noise, entry.loss)
            self.spent += cost
            buyer = self.keys.first(entry.buyer)
            self.bought[buyer] = self.bought.get(buyer, Spent()) + cost
            if open_ is not None:
                open_.remaining -= cost
                open_.heard = entry.time
                open_.released.add(entry.round)
        elif isinstance(entry, GivenUp) and open_ is not None:
            open_.remaining, open_.given_up = Spent(), True
            self.promised[self.keys.first(open_.sale.buyer)] -= open_.due

    def waits(self, open_: Open, keep: float) -> bool:
        """Whether a sale was heard of within so many hours."""
        return open_.heard >= time.time() - 3600 * keep

    def waiting(self, keep: float, buyer: str | None = None) -> Spent:
        """Return what is sold, to a first key or all, and was heard of in the last `keep` hours."""
        its = (
            one
            for one in self.sales.values()
            if buyer is None or self.keys.first(one.sale.buyer) == buyer
        )
        return sum((one.remaining for one in its if self.waits(one, keep)), Spent())


def summed(rows: Iterable[dict[str, Any]]) -> Sums:
    """Return what the rows of a ledger add up to."""
    sums = Sums()
    for row in rows:
        sums.take(entry_of(row))
    return sums


def make(folder: Path, key: Key | None = None) -> Key:
    """Make the ledger of an owner, with a key that is new if none is given, in a folder."""
    file = folder / "ledger.sqlite"
    if file.exists():
        raise ValueError(f"there is a ledger in {folder} already")
    key = Key.made() if key is None else key
    text = _text(Made(key.public))
    chain = link("", text)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as base:
        base.executescript(f"{TABLES};PRAGMA user_version = {VERSION}")
        base.execute("INSERT INTO identity VALUES (1, ?, 1, ?)", (key.text, chain))
        base.execute("INSERT INTO entries VALUES (1, ?, ?)", (text, chain))
        write(file, base.serialize())
    return key


def copy_consents(folder: Path, stage: Path) -> list[str]:
    """Make a ledger for a rehearsal, with her key and the charters of rehearsals that she joined.

    Return the names of these markets.
    """
    with closing(Ledger(folder, serves=False)) as hers:
        key, joined = hers.key, list(hers.consents.values())
    make(stage, key)
    names = []
    with closing(Ledger(stage)) as copied:
        for one in joined:
            charter = json.loads(one.text)
            if charter["rehearsal"]:
                copied.write(one)
                names.append(str(charter["name"]))
    return names


class Ledger(Sums):
    """The entries of a folder, and her key.

    Parameters
    ----------
    folder : path
        Has ``ledger.sqlite``, which :func:`make` has made.
    serves : bool
        Hold ``ledger.lock``, which one process at a time may.
    """

    def __init__(self, folder: Path, *, serves: bool = True) -> None:
        self.file = folder / "ledger.sqlite"
        self._lock: TextIO | None = None
        self._depth = 0
        self._inside = threading.RLock()
        if serves:
            held = f"another process holds the ledger {self.file}"
            self._lock = lock(folder / "ledger.lock", held)
        try:
            if not self.file.exists():
                raise ValueError(f"the ledger {self.file} is gone: hdpm-owner init made it")
            check_private(self.file)
            self._base = sqlite3.connect(
                self.file, check_same_thread=False, isolation_level=None, timeout=BUSY
            )
            self._base.execute("PRAGMA journal_mode = WAL")
            self._base.execute("PRAGMA synchronous = FULL")
            _check_tables(self.file, self._base)
            self._begin()
        except BaseException as error:
            self.close()
            if not isinstance(error, sqlite3.DatabaseError):
                raise
            full = isinstance(error, sqlite3.OperationalError)  # a disk, for one
            said = "cannot be opened" if full else "is damaged"
            raise ValueError(f"the ledger {self.file} {said}: {error}") from error

    def _begin(self) -> None:
        """Read all entries."""
        super().__init__()
        self.number = 0
        self.chain = ""
        self._seen = -1
        self._catch_up()
        try:
            check_clock(self.file, self.last)
        except ValueError as error:
            logging.getLogger("hdpm_owner").warning("%s", error)

    def _catch_up(self) -> None:
        """Read what other processes have written since."""
        seen = self._one("* FROM pragma_data_version")
        if seen == self._seen:
            return
        for row, chain in _chained(self.file, self._base, self.number, self.chain):
            self.number += 1
            self.chain = chain
            self.take(entry_of(row))
        number, chain = self._base.execute("SELECT number, chain FROM identity").fetchone()
        if (number, chain) != (self.number, self.chain):
            raise ValueError(
                f"the ledger {self.file} has {self.number} entries, and knows of {number}: nothing"
                " is sent before somebody has looked"
            )
        self.key = Key.parse(str(self._one("key FROM identity")))
        _check_key(self.file, self.key, self.keys, self.first_key)
        self._seen = int(seen or 0)

    @property
    def first_key(self) -> str:
        """The public key with which it was made."""
        text = str(self._one("text FROM entries WHERE number = 1"))
        return str(json.loads(text)["key"])

    def look(self) -> None:
        """See what other processes have written: a consent, a withdrawal, a new key."""
        with self._inside:
            if self._depth == 0:
                self._catch_up()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let nobody else write in a block; all that it writes is on disk at its end, or nothing.

        Only after that may anything be sent.
        """
        with self._inside:
            if self._depth:
                yield
                return
            self._base.execute("BEGIN IMMEDIATE")
            before = self.number
            self._depth = 1
            try:
                self._catch_up()
                before = self.number
                yield
                self._base.execute("COMMIT")
            except BaseException:
                if self._base.in_transaction:
                    self._base.execute("ROLLBACK")
                if self.number != before:
                    self._begin()
                raise
            finally:
                self._depth = 0

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
        with self.alone():
            place = self.place(entry)
            self._base.executemany(COUNTERSIGN, signatures)
            row = (place.entry, _text(entry), place.chain)
            self._base.execute("INSERT INTO entries VALUES (?, ?, ?)", row)
            self._base.execute("UPDATE identity SET number = ?, chain = ?", row[::2])
            if kept is not None and isinstance(entry, Release):
                own = (entry.ticket, entry.round, *kept)
                self._base.execute("UPDATE receipts SET answer = NULL WHERE ticket = ?", own[:1])
                self._base.execute("INSERT INTO receipts VALUES (?, ?, ?, ?, ?, ?, NULL)", own)
            self.number, self.chain = place.entry, place.chain
            self.take(entry)

    def promise(self, terms: Promise) -> None:
        """Write down what she promises, if it is not what the ledger has last."""
        known = self.stands
        if known is None or replace(known, time=terms.time) != terms:
            self.write(terms)

    def learn(self, one: Succession, now: float) -> None:
        """Write down that a key has a successor, if it is true and new."""
        if self.keys.check(one, now):
            self.write(Rotated(one))

    def rotate(self, until: float) -> Succession:
        """Put a new key in the place of hers, which is good until a time."""
        with self.alone():
            key = self.key.successor(until)
            statement = key.line[-1]
            self._base.execute("UPDATE identity SET key = ?", (key.text,))
            self.write(Rotated(statement))
            self.key = key
        return statement

    def give_up(self, ticket: str) -> None:
        """Never release what is left of a sale: other markets may have it."""
        self.look()
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
        """Return the answer to the same letter, if it is kept."""
        where = "ticket = ? AND round = ? AND letter = ?"
        return self._one(f"answer FROM receipts WHERE {where}", ticket, round, letter)

    def receipt(self, ticket: str, round: int) -> str | None:
        """Return the text of a receipt."""
        return self._one("receipt FROM receipts WHERE ticket = ? AND round = ?", ticket, round)

    def countersigned(self, charter: str) -> list[Receipt]:
        """Return the receipts under a charter that the market has signed, too."""
        query = "SELECT receipt FROM receipts WHERE countersignature IS NOT NULL"
        found = [read_shaped(Receipt, text) for (text,) in self._base.execute(query).fetchall()]
        return [one for one in found if one.charter == charter]

    def countersign(self, signatures: Iterable[tuple[str, str, int]]) -> None:
        """Keep the market's signatures under receipts."""
        with self.alone():
            self._base.executemany(COUNTERSIGN, signatures)

    def close(self) -> None:
        """Let another process have the ledger."""
        if hasattr(self, "_base"):
            self._base.close()
        if self._lock is not None:
            self._lock.close()


def check_private(file: Path) -> None:
    """Raise an error if others may read a ledger."""
    if file.stat().st_mode & 0o077:
        raise ValueError(
            f"others may read {file}, in which her key lies: chmod 600, and think of a new key"
            " (hdpm-owner rotate)"
        )


def check_clock(file: Path, last: float) -> None:
    """Raise an error if the last entry of a ledger has a time that is still to come."""
    if last > time.time() + AHEAD:
        day = time.strftime("%Y-%m-%d", time.gmtime(min(last, 1e11)))
        raise ValueError(
            f"the last entry of {file} is of {day}: the clock was wrong then, or is now; what waits"
            " from then can be given up"
        )


def _check_tables(file: Path, base: sqlite3.Connection) -> None:
    """Raise an error if the tables are not those that :func:`make` makes."""
    tables = "SELECT count(*) FROM sqlite_master WHERE name IN ('entries', 'receipts')"
    if base.execute(tables).fetchone()[0] != 2:
        raise ValueError(f"the ledger {file} is damaged: it was emptied")
    version = base.execute("PRAGMA user_version").fetchone()[0]
    if version != VERSION:
        raise ValueError(
            f"the ledger {file} was written by another version of hdpm-owner, {version} where this"
            f" one writes {VERSION}"
        )
    (number,) = base.execute("SELECT count(*) FROM identity").fetchone()
    if number != 1:
        raise ValueError(f"the ledger {file} is damaged: it has no key")


def _check_key(file: Path, key: Key, keys: Successions, first: str) -> None:
    """Raise an error if a key is not the last that stands for the first key of a ledger."""
    if key.public != keys.after(first)[-1]:
        raise ValueError(f"the ledger {file} is of another key than {key.public}")


def read(folder: Path) -> dict[str, Any]:
    """Her public key, and all entries, releases with their receipts, while she runs or not.

    It is an error if the chain is broken.
    """
    with closing(_reader(folder / "ledger.sqlite", "mode=ro")) as base:
        return _content(folder / "ledger.sqlite", base)


def backup(folder: Path, file: Path) -> None:
    """Copy a ledger, as it is at one moment, into a new file, while she runs or not."""
    if file.exists():
        raise ValueError(f"there is a file {file} already")
    with (
        closing(_reader(folder / "ledger.sqlite", "mode=ro")) as base,
        closing(sqlite3.connect(":memory:")) as copy,
    ):
        base.backup(copy)
        write(file, copy.serialize())


def recover(folder: Path, file: Path) -> dict[str, Any]:
    """Put a copy of a ledger into a new folder, and return what is in it.

    It may have forgotten releases: all consents are withdrawn, so that nothing is sold before she
    joins again.
    """
    with closing(_reader(file, "immutable=1")) as base:
        found = _content(file, base)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(folder.iterdir()) or folder.stat().st_mode & 0o077:
        raise ValueError(f"{folder} must be empty, and closed to others (chmod 700), or not there")
    with TemporaryDirectory(dir=folder) as place:
        stage = Path(place)
        write(stage / "ledger.sqlite", file.read_bytes())
        with closing(Ledger(stage, serves=False)) as kept, kept.alone():
            for charter in list(kept.consents):
                kept.write(Withdrawn(charter))
        (stage / "ledger.sqlite").replace(folder / "ledger.sqlite")
    return found


def _reader(file: Path, how: str) -> sqlite3.Connection:
    if not file.exists():
        raise ValueError(f"there is no ledger {file}")
    return sqlite3.connect(f"{file.resolve().as_uri()}?{how}", uri=True)


def _content(file: Path, base: sqlite3.Connection) -> dict[str, Any]:
    """Return key, entries and a signature of where they end; an error if the chain is broken."""
    _check_tables(file, base)
    where = "SELECT ticket, round, receipt, signature, countersignature FROM receipts"
    names = ("receipt", "signature", "countersignature")
    receipts = {row[:2]: dict(zip(names, row[2:], strict=True)) for row in base.execute(where)}
    entries = [
        row | {"chain": chain} | receipts.get((row.get("ticket"), row.get("round")), {})
        for row, chain in _chained(file, base)
    ]
    head = base.execute("SELECT number, chain FROM identity").fetchone()
    if not entries or head != (len(entries), entries[-1]["chain"]):
        raise ValueError(
            f"the ledger {file} has {len(entries)} entries, and knows of {head[0]}: nothing is"
            " sent before somebody has looked"
        )
    key = Key.parse(base.execute("SELECT key FROM identity").fetchone()[0])
    first = str(entries[0].get("key"))
    keys = Successions()
    for row in entries:
        if row.get("entry") == "rotated":
            keys.learn(shaped(Succession, row.get("statement")))
    _check_key(file, key, keys, first)
    signature = key.sign("ledger", canonical(list(head)))
    return {"key": first, "entries": entries, "signature": signature}


def _chained(
    file: Path, base: sqlite3.Connection, known: int = 0, chain: str = ""
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield entries after so many in their order with their hashes, all of them checked."""
    rows = base.execute("SELECT * FROM entries WHERE number > ? ORDER BY number", (known,))
    for place, (number, text, told) in enumerate(rows.fetchall(), known + 1):
        chain = link(chain, text) if isinstance(text, str) else ""
        if number != place or told != chain or not chain:
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
    """Compute the hash of a text and all before it."""
    return hashlib.sha256((chain + text).encode()).hexdigest()
