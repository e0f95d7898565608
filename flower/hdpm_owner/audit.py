"""Hold the documents of markets against each other: books, receipts, ledgers.

What is looked at is not chosen by those who are checked. Each owner in a market's book has a *cell*
for each round, and a cell of round 0 for what concerns all rounds. A cell is *consistent*,
*missing* (a document that would fill it was not handed in), or a *contradiction* between two
documents. A ledger is held against its own sales, promises and receipts; a book against its
receipts; and both against each other, by keys and never by the names of files.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hdpm_owner.deals import Deal, GivenUp, Receipt, Release, Sale, derived
from hdpm_owner.ledger import Sums, entry_of
from hdpm_owner.receipts import Book, Export, Row, successions, told
from hdpm_owner.shapes import read_shaped
from hdpm_owner.signatures import signed
from hdpm_owner.terms import Spent

State = Literal["consistent", "missing", "contradiction"]
PROMISED = ("epsilon", "delta", "unit", "noise", "clip_norm", "spacing")  # sales, as she promised
FIXED = ("schema", "unit", "noise", "clip_norm", "spacing", "local_steps", "learning_rate")
CENT = 1e-6  # of a budget, by which sums of floats may exceed it


@dataclass(frozen=True)
class Cell:
    """What was found for an owner in a round of a market; round 0 is all of it."""

    market: str
    owner: str
    round: int
    state: State
    said: str = ""

    def __str__(self) -> str:
        where = f"{self.owner}, round {self.round}" if self.round else self.owner
        market = f"{self.market}: " if self.market else ""
        return f"{market}{where}: {self.state}: {self.said}"


def folded(name: str) -> str:
    """Return a name as it is compared: without case, blanks and points."""
    return "".join(one for one in name.casefold() if one.isalnum())


def audit(
    books: Sequence[Book], exports: Mapping[str, Any], without: Collection[str] = ()
) -> list[Cell]:
    """Return the cells of all owners and rounds.

    Parameters
    ----------
    books : sequence of Book, what markets have kept
    exports : dict from names of files to what ``hdpm-owner ledger FOLDER --json`` printed
    without : names of owners whose ledgers are not handed in, and this is known

    Raises
    ------
    ValueError
        If there is nothing to compare.
    """
    if not books or not exports:
        raise ValueError("there is nothing to compare: hand in the ledgers of owners")
    return _Audit(books, exports, without).cells


def wrong(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells that are not consistent."""
    return [one for one in cells if one.state != "consistent"]


class _Audit:
    """Cells, as they are found."""

    def __init__(
        self, books: Sequence[Book], exports: Mapping[str, Any], without: Collection[str]
    ) -> None:
        self.cells: list[Cell] = []
        self.without = {folded(name) for name in without}
        self.ledgers: dict[str, tuple[str, Export]] = {}  # by first key
        self._market = ""
        different = list({book.text: book for book in books}.values())
        read = self._read(exports)
        rows: list[Row] = [row for book in different for row in book.statements]
        rows += [row for _, export in read for row in export.entries]
        self.keys, complaints = successions(rows)
        for said in complaints:
            self._add("somebody", 0, "contradiction", f"a statement of two keys: {said}")
        for name, export in read:
            self._take(name, export)
        for name, export in self.ledgers.values():
            self._look_into(name, export)
        # receipts of all books, as one owner's ledger is one
        self._places: dict[tuple[str, int], str] = {}
        self._paid = set[tuple[str, int]]()
        self._seen = Counter[str]()
        for book in different:
            self._market = book.name
            book.found = self._receipts(book)
        for book in different:
            self._market = book.name
            self._hold(book)
        self._market = ""
        self._orphans(different)

    def _add(self, owner: str, round: int, state: State, said: str = "") -> None:
        one = Cell(self._market, owner, round, state, said)
        if one not in self.cells:
            self.cells.append(one)

    # --- ledgers ---------------------------------------------------------------------------------

    def _read(self, exports: Mapping[str, Any]) -> list[tuple[str, Export]]:
        found = []
        for name, content in exports.items():
            try:
                found.append((name, Export.of(content)))
            except ValueError as error:
                self._add(name, 0, "contradiction", f"the file {name}: {error}")
        return found

    def _take(self, name: str, export: Export) -> None:
        """Of two files of one key the longer is the ledger, if the other is its beginning."""
        first = self.keys.first(export.key)
        if first in self.ledgers:
            other, known = self.ledgers[first]
            short, long = sorted((export.chains, known.chains), key=len)
            if long[: len(short)] != short:
                said = f"the files {other} and {name} are two ledgers of one key"
                self._add(export.owner or name, 0, "contradiction", said)
            if len(export.entries) <= len(known.entries):
                return
        self.ledgers[first] = name, export

    def _look_into(self, file: str, export: Export) -> None:
        """Hold a ledger against its own sales, promises and receipts."""
        sums = Sums()
        who = export.owner or file
        hers = self.keys.after(self.keys.first(export.key))
        for number, row in enumerate(export.entries, 1):
            round = row["round"] if isinstance(row.get("round"), int) else 0
            try:
                entry = entry_of(row)
                self._follow(number, entry, sums, hers)
                if isinstance(entry, Release):
                    self._sign(number, row, entry)
                sums.take(entry)
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                said = f"entry {number} of the ledger {file}: {error}"
                self._add(who, round, "contradiction", said)

    def _follow(self, number: int, entry: object, sums: Sums, hers: list[str]) -> None:
        """Raise what an entry says otherwise than those before it."""
        if isinstance(entry, Sale):
            if entry.ticket in sums.sales:
                raise ValueError(f"the ticket {entry.ticket[:8]} is sold twice")
            if len(entry.losses) != len(entry.payments):
                raise ValueError("a sale with another number of losses than of payments")
            bad = [n for n in PROMISED if getattr(entry, n) != getattr(sums.stands, n, None)]
            if bad:
                raise ValueError(f"a sale with another {bad[0]} than the promise before it")
            if sums.stands is None or entry.market not in sums.stands.markets:
                raise ValueError("a sale to a market that the promise before it does not name")
        if isinstance(entry, Sale | Release) and entry.key not in hers:
            raise ValueError("it is of another key than the ledger")
        if isinstance(entry, GivenUp):
            open_ = sums.sales.get(entry.ticket)
            if open_ is None or open_.given_up or open_.sale.market != entry.market:
                raise ValueError("what is given up is no sale that waits")
        if isinstance(entry, Release):
            self._released(entry, sums)

    def _released(self, entry: Release, sums: Sums) -> None:
        open_ = sums.sales.get(entry.ticket)
        if open_ is None:
            raise ValueError("a release that no sale before it names")
        sale = open_.sale
        if open_.given_up or entry.round in open_.released or entry.round > len(sale.losses):
            raise ValueError("a release of a round that its sale did not leave")
        due: Row = {"loss": sale.losses[entry.round - 1], "payment": sale.payments[entry.round - 1]}
        due |= {"market": sale.market}
        for name in Deal.__dataclass_fields__:
            if name not in ("key", "buyer"):  # which may have successors
                due[name] = getattr(sale, name)
        if bad := [name for name, value in due.items() if getattr(entry, name) != value]:
            raise ValueError(f"a release with another {bad[0]} than its sale")
        if self.keys.first(entry.buyer) != self.keys.first(sale.buyer):
            raise ValueError("a release with another buyer than its sale")
        promise = sums.stands
        cost = Spent.of(entry.noise, entry.loss)
        if promise is None or not (sums.spent + cost).within(promise.epsilon, promise.delta):
            raise ValueError("all releases together lose more than the promise")

    def _sign(self, number: int, row: Row, entry: Release) -> None:
        """Raise what is wrong with the receipt of a release in a ledger."""
        given = read_shaped(Receipt, row.get("receipt"))
        place = {"entry": number, "chain": row["chain"], "steps": given.steps}
        if derived(Receipt, entry, **place) != given:
            raise ValueError("its receipt says otherwise")
        if not signed(row["receipt"], row.get("signature"), entry.key):
            raise ValueError("its receipt is not signed by the owner")
        if row.get("countersignature") is not None:
            told(row, self.keys)

    # --- books -----------------------------------------------------------------------------------

    def _hold(self, book: Book) -> None:
        """Hold a book against its receipts, and these against the ledgers."""
        held = book.rounds
        count = len(held)
        names = {key: one["name"] for key, one in book.roster.items()}
        digests = book.digests
        if [one["round"] for one in held] != list(range(1, count + 1)):
            self._add("the market", 0, "contradiction", "its book has not the rounds 1, 2, ...")
        if book.state.get("done") != count or (
            count and book.state.get("model") != held[-1]["model"]
        ):
            said = "the state of its book and the last round in it"
            self._add("the market", count, "contradiction", said)
        self._names(names)
        for one in held:
            if sum(one["paid"]) > book.plan.get("budget", 0.0) * (1 + CENT):
                said = "the round paid more than the budget of the plan"
                self._add("the market", one["round"], "contradiction", said)
        receipts = book.found
        for place, (key, name) in enumerate(names.items()):
            self._owner(book, place, key, name, receipts.get(key, []))
        for key in receipts.keys() - names.keys():
            for stray in receipts[key]:
                said = "a receipt of an owner whom the book does not name"
                self._add(stray.owner, _round(stray, digests), "contradiction", said)

    def _names(self, names: Mapping[str, str]) -> None:
        often = Counter(map(folded, names.values()))
        for name in names.values():
            if often[folded(name)] > 1:
                said = "the book has two owners whose names are alike"
                self._add(name, 0, "contradiction", said)

    def _receipts(self, book: Book) -> dict[str, list[Receipt]]:
        """Return the receipts of a book by first key, and add what is wrong with each."""
        found = defaultdict[str, list[Receipt]](list)
        digests = book.digests
        for row in book.receipts:
            name, number = str(row.get("owner")), 0
            try:
                one = told(row, self.keys)
                number = _round(one, digests)
                if (one.owner, one.ticket, one.round) != tuple(
                    row[part] for part in ("owner", "ticket", "round")
                ):
                    raise ValueError("the book keeps it in another place")
                if bad := [n for n in FIXED if getattr(one, n) != book.plan.get(n)]:
                    raise ValueError(f"it has another {bad[0]} than the plan of the market")
                if (one.ticket, one.round) in self._paid:
                    raise ValueError("there are two receipts for this round")
                self._place(one)
            except (ValueError, RecursionError, KeyError, TypeError) as error:
                self._add(name, number or 0, "contradiction", f"a receipt in the book: {error}")
                continue
            self._paid.add((one.ticket, one.round))
            found[self.keys.first(one.key)].append(one)
        return found

    def _place(self, one: Receipt) -> None:
        hers = self.keys.first(one.key)
        chain = self._places.setdefault((hers, one.entry), one.chain)
        self._seen[f"{hers}{one.entry}"] += 1
        if chain != one.chain:
            raise ValueError(
                f"entry {one.entry} of her ledger has two chains: it was copied, or an older copy"
                " was put back"
            )
        if self._seen[f"{hers}{one.entry}"] > 1:
            raise ValueError(f"there are two receipts for entry {one.entry} of her ledger")

    def _owner(
        self,
        book: Book,
        place: int,
        key: str,
        name: str,
        receipts: list[Receipt],
    ) -> None:
        """Fill the cells of an owner."""
        digests = book.digests
        file, export = self.ledgers.get(key, ("", None))
        receipts = sorted(receipts, key=lambda one: one.entry)
        records = book.roster[key].get("records")
        for one in receipts:
            if folded(one.owner) != folded(name) or one.records != records:
                said = f"a receipt has another owner, or other records, than {name} in the book"
                self._add(one.owner, _round(one, digests), "contradiction", said)
        left = list(receipts)
        for held, before in zip(book.rounds, digests, strict=False):
            number = held["round"]
            loss, paid = (part[place] if place < len(part) else 0.0
                          for part in (held["loss"], held["paid"]))  # fmt: skip
            if not loss and not paid:
                continue
            here = [one for one in left if one.model == before]
            if not here:
                said = "the book says that she was paid, and has no receipt of hers at its model"
                self._add(name, number, "contradiction", said)
                continue
            one = here[0]
            left.remove(one)
            if (one.loss, one.payment) != (loss, paid):
                said = "the book and her receipt have another loss or payment"
                self._add(name, number, "contradiction", said)
                continue
            if export is not None:
                self._against(name, number, one, file, export)
            elif folded(name) in self.without:
                self._add(name, number, "consistent", "her ledger was not handed in, as declared")
            else:
                self._add(name, number, "missing", f"the ledger of {name}")
        for one in left:
            said = "a receipt of a round in which the book does not name her as paid"
            self._add(name, _round(one, digests), "contradiction", said)
        if export is not None:
            self._unpaid(book, name, export, receipts, digests)
        elif folded(name) not in self.without:
            self._add(name, 0, "missing", f"the ledger of {name}")

    def _against(self, name: str, number: int, one: Receipt, file: str, export: Export) -> None:
        """Hold a receipt against the ledger."""
        if one.entry > len(export.entries):
            said = (
                f"the ledger {file} ends before entry {one.entry}, which the receipt names: it is"
                " an older one, or was emptied"
            )
        elif (row := export.entries[one.entry - 1])["chain"] != one.chain:
            said = f"the ledger {file} has another chain at entry {one.entry} than the receipt"
        elif any(row.get(part) != value for part, value in vars(one).items() if part in row
                 and part != "entry"):  # fmt: skip
            said = f"the ledger {file} says otherwise than the receipt"
        else:
            self._add(name, number, "consistent")
            return
        self._add(name, number, "contradiction", said)

    def _unpaid(
        self, book: Book, name: str, export: Export, receipts: list[Receipt], digests: list[str]
    ) -> None:
        """Look at releases to this market that no receipt of its book tells of."""
        rounds = {_round(one, digests) for one in receipts}
        absent = {(one["name"], one["round"] + 1) for one in book.state.get("absences", [])}
        going_on = len(digests) if book.state.get("done", 0) < book.plan.get("rounds", 0) else None
        for row in export.entries:
            if row["entry"] != "release" or row.get("model") not in digests:
                continue
            if self.keys.first(str(row.get("buyer"))) not in book.buyers(self.keys):
                continue
            if (row["ticket"], row["round"]) in self._paid:
                continue
            at = [n for n, digest in enumerate(digests, 1) if digest == row["model"]]
            if row.get("countersignature") is not None:
                said = "her ledger has a receipt that the market signed, and its book has none"
                self._add(name, at[-1], "contradiction", said)
            elif any((name, n) in absent or n == going_on or n in rounds for n in at):
                said = "released, and it never arrived"
                self._add(name, at[0], "consistent", said)
            else:
                said = "the market's receipt of a release in her ledger, or that she was absent"
                self._add(name, at[0], "missing", said)
            self._paid.add((row["ticket"], row["round"]))

    def _orphans(self, books: Sequence[Book]) -> None:
        """Name releases to these markets of which no book that was handed in tells."""
        buyers = {key for book in books for key in book.buyers(self.keys)}
        for name, export in self.ledgers.values():
            for row in export.entries:
                if row["entry"] != "release" or (row["ticket"], row["round"]) in self._paid:
                    continue
                if self.keys.first(str(row.get("buyer"))) in buyers:
                    said = f"the book of the market to which {row['ticket'][:8]} was sold"
                    self._add(export.owner or name, row["round"], "missing", said)


def _round(one: Receipt, digests: list[str]) -> int:
    """Return the first round of a market before which it had the model of a receipt, or 0."""
    return digests.index(one.model) + 1 if one.model in digests else 0
