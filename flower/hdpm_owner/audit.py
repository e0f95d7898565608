"""Hold the documents of markets against each other: charters, books, receipts, ledgers.

What is looked at is not chosen by those who are checked. A charter, which was signed before
anything was sold, names all who were invited. Each of them has a *cell* for each round that was
held, and one of round 0 for what concerns all rounds. A cell is *consistent*, *missing* (a document
that would fill it was not handed in), or a *contradiction* between two documents. A ledger is held
against its own consents, sales, promises and receipts; a book against its charter and its receipts;
both against each other and against the closing statement, which all have signed; by keys, and never
by the names of files. What all parties to a cell forge alike, nobody else's signature being in
between, no audit sees; nor noise that was not drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from hdpm_owner.aggregates import aggregate, mean_step, precision
from hdpm_owner.charter import Charter, folded, hash_of, read_charter
from hdpm_owner.deals import (
    Account,
    Bid,
    Closed,
    Closing,
    Deal,
    GivenUp,
    Joined,
    Receipt,
    Release,
    Sale,
    Signed,
    Withdrawn,
    account,
    derived,
    held_digest,
    steps_digest,
)
from hdpm_owner.ledger import Sums, entry_of
from hdpm_owner.receipts import STATE, Book, Export, Round, Row, successions, told
from hdpm_owner.shapes import read_shaped, shaped
from hdpm_owner.signatures import signed
from hdpm_owner.terms import Spent

State = Literal["consistent", "missing", "contradiction"]
PROMISED = ("epsilon", "delta", "unit", "noise", "clip_norm", "spacing")  # sales, as she promised
FIXED = ("unit", "noise", "clip_norm", "spacing", "local_steps", "learning_rate")  # by the charter
CENT = 1e-6  # of a budget, by which sums of floats may exceed it
MARKET = "the market"
# what a document can raise in which something else stands than its writer writes
ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


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


def audit(
    books: Sequence[Book],
    exports: Mapping[str, Any],
    without: Collection[str] = (),
    *,
    models: bool = False,
) -> list[Cell]:
    """Return the cells of all owners and rounds.

    Parameters
    ----------
    books : sequence of Book, what markets have kept
    exports : dict from names of files to what ``hdpm-owner ledger FOLDER --json`` printed
    without : names of owners whose ledgers are not handed in, and this is known
    models : whether each model is computed again, from what the market has kept

    Raises
    ------
    ValueError
        If there is nothing to compare.
    """
    if not books or not exports:
        raise ValueError("there is nothing to compare: hand in the ledgers of owners")
    return _Audit(books, exports, without, models).cells


def wrong(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells that are not consistent."""
    return [one for one in cells if one.state != "consistent"]


@dataclass
class _Held:
    """A market's book, with its charter, and its receipts by first key and round of the market."""

    book: Book
    hash: str
    charter: Charter
    invited: dict[str, str]
    receipts: dict[tuple[str, int], Receipt] = field(default_factory=dict)

    @property
    def done(self) -> int:
        """Rounds that its book has."""
        return len(self.book.rounds)

    def sold(self, key: str, number: int) -> tuple[float, float]:
        """Return the loss and the payment of an owner in a round, as the book has them."""
        place = list(self.book.roster).index(key) if key in self.book.roster else None
        row = self.book.rounds[number - 1]
        if place is None or place >= len(row["loss"]):
            return 0.0, 0.0
        return row["loss"][place], row["paid"][place]


def _printable(text: str) -> str:
    """Return what a stranger may have written, for a terminal."""
    return "".join(one for one in text if one.isprintable())


def _shown(name: str) -> str:
    """Return a name, which no program for tables takes for a formula."""
    return _printable(name).lstrip("=+-@ ") or "somebody"


def _round(row: Row) -> int:
    """Return the round of its market in which an entry is a release, or 0."""
    parts = (row.get("first"), row.get("round"))
    whole = [one for one in parts if isinstance(one, int) and not isinstance(one, bool)]
    return sum(whole) if len(whole) == 2 else 0


class _Audit:
    """Cells, as they are found."""

    def __init__(
        self,
        books: Sequence[Book],
        exports: Mapping[str, Any],
        without: Collection[str],
        models: bool,
    ) -> None:
        self.cells: list[Cell] = []
        self.models = models
        self.without = {folded(name) for name in without}
        self.ledgers: dict[str, tuple[str, Export]] = {}  # by first key
        self._market = ""
        read = self._read(exports)
        rows: list[Row] = [row for book in books for row in book.statements]
        rows += [row for _, export in read for row in export.entries]
        self.keys, complaints = successions(rows)
        for said in complaints:
            self._add("somebody", 0, "contradiction", f"a statement of two keys: {said}")
        for name, export in read:
            self._take(name, export)
        for name, export in self.ledgers.values():
            self._look_into(name, export)
        self._places: dict[tuple[str, int], str] = {}  # of all books: an owner has one ledger
        markets = []
        for book in {book.text: book for book in books}.values():
            self._market = book.name
            if (held := self._begin(book)) is not None:
                markets.append(held)
        often = Counter(held.hash for held in markets)
        for held in markets:
            self._market = held.book.name
            for before in held.charter.earlier:
                if before not in often:
                    said = f"the book of the earlier market of charter {before[:8]}"
                    self._add(MARKET, 0, "missing", said)
            if often[held.hash] > 1:
                self._add(MARKET, 0, "contradiction", "two books of one charter differ")
            try:
                self._hold(held)
            except ODD as error:
                said = f"its book is none that a market writes: {type(error).__name__}"
                self._add(MARKET, 0, "contradiction", said)

    def _add(self, owner: str, round: int, state: State, said: str = "") -> None:
        one = Cell(self._market, _shown(owner), round, state, _printable(said))
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
        try:
            export.check(self.keys)
        except ValueError as error:
            self._add(export.owner or file, 0, "contradiction", f"the ledger {file}: {error}")
        who = export.owner or file
        hers = self.keys.after(self.keys.first(export.key))
        for number, row in enumerate(export.entries, 1):
            try:
                entry = entry_of(row)
                self._follow(entry, sums, hers)
                if isinstance(entry, Release):
                    self._sign(number, row, entry)
                sums.take(entry)
            except ODD as error:
                said = f"entry {number} of the ledger {file}: {error}"
                self._add(who, _round(row), "contradiction", said)

    def _follow(self, entry: object, sums: Sums, hers: list[str]) -> None:
        """Raise what an entry says otherwise than those before it."""
        if isinstance(entry, Sale):
            if entry.ticket in sums.sales:
                raise ValueError(f"the ticket {entry.ticket[:8]} is sold twice")
            if len(entry.losses) != len(entry.payments):
                raise ValueError("a sale with another number of losses than of payments")
            bad = [n for n in PROMISED if getattr(entry, n) != getattr(sums.stands, n, None)]
            if bad:
                raise ValueError(f"a sale with another {bad[0]} than the promise before it")
        if isinstance(entry, Sale | Release):
            if entry.key not in hers:
                raise ValueError("it is of another key than the ledger")
            if entry.charter not in sums.consents:
                raise ValueError("she had not joined that charter, or had withdrawn")
            joined = read_shaped(Charter, sums.consents[entry.charter].text)
            buyers = self.keys.after(joined.key)
            if (entry.schema, entry.market) != (joined.schema, joined.name):
                raise ValueError("it has another schema, or market, than the charter")
            if entry.buyer not in buyers:
                raise ValueError("it has another buyer than the charter")
        if isinstance(entry, Sale):
            all_ = sums.promised.get(sums.keys.first(entry.buyer), 0.0) + sum(entry.payments)
            if all_ > sums.consents[entry.charter].money * (1 + CENT):
                raise ValueError("sales for more money than she trusts the market with")
        if isinstance(entry, Joined):
            charter = read_charter(entry.text, entry.by_market)
            if hash_of(entry.text) != entry.charter or entry.charter in sums.consents:
                raise ValueError("she has joined another charter than the entry says")
            if not {one.key for one in charter.owners} & set(hers):
                raise ValueError("she has joined a charter that does not invite her key")
        if isinstance(entry, Closed):
            if entry.charter not in sums.consents or entry.charter in sums.closed:
                raise ValueError("a closing of a charter that she has not joined, or a second one")
            closing = read_shaped(Closing, entry.text)
            market = read_shaped(Charter, sums.consents[entry.charter].text).key
            by = self.keys.after(market)
            if not any(signed("closing", entry.text, entry.by_market, key) for key in by):
                raise ValueError("the closing statement is not signed by the market")
            if closing.charter != entry.charter:
                raise ValueError("the closing statement is of another charter")
        if isinstance(entry, Withdrawn) and entry.charter not in sums.consents:
            raise ValueError("she withdraws from a charter that she had not joined")
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
        most = sums.consents[entry.charter].epsilon
        bought = sums.bought.get(sums.keys.first(entry.buyer), Spent()) + cost
        if most < promise.epsilon and not bought.within(most, promise.delta):
            raise ValueError("the market has bought more than her consent lets it")

    def _sign(self, number: int, row: Row, entry: Release) -> None:
        """Raise what is wrong with the receipt of a release in a ledger."""
        given = read_shaped(Receipt, row.get("receipt"))
        place = {"entry": number, "chain": row["chain"], "steps": given.steps}
        if derived(Receipt, entry, **place) != given:
            raise ValueError("its receipt says otherwise")
        if not signed("receipt", row["receipt"], row.get("signature"), entry.key):
            raise ValueError("its receipt is not signed by the owner")
        if row.get("countersignature") is not None:
            told(row, self.keys)

    # --- books -----------------------------------------------------------------------------------

    def _begin(self, book: Book) -> _Held | None:
        """Read the charter of a book, and its receipts."""
        try:
            hash_, charter = book.charter()
        except ValueError as error:
            self._add(MARKET, 0, "contradiction", f"its charter: {error}")
            return None
        invited = {self.keys.first(one.key): one.name for one in charter.owners}
        held = _Held(book, hash_, charter, invited)
        for row in book.receipts:
            number = 0
            try:
                one = told(row, self.keys)
                number = one.first + one.round
                self._check(held, row, one)
                held.receipts[self.keys.first(one.key), number] = one
            except ODD as error:
                name = str(row.get("owner"))
                self._add(name, number, "contradiction", f"a receipt in the book: {error}")
        return held

    def _check(self, held: _Held, row: Row, one: Receipt) -> None:
        """Raise what a receipt says otherwise than the charter, the book and other receipts."""
        charter, digests = held.charter, held.book.digests
        key, number = self.keys.first(one.key), one.first + one.round
        if (one.owner, one.ticket, one.round) != (row["owner"], row["ticket"], row["round"]):
            raise ValueError("the book keeps it in another place")
        if one.charter != held.hash or one.schema != charter.schema:
            raise ValueError("it is of another charter")
        if one.buyer not in self.keys.after(charter.key):
            raise ValueError("it has another buyer than the charter")
        if held.invited.get(key) != one.owner:
            raise ValueError("the charter does not invite this name with this key")
        if bad := [name for name in FIXED if getattr(one, name) != getattr(charter.plan, name)]:
            raise ValueError(f"it has another {bad[0]} than the charter")
        if number > held.done or digests[number - 1] != one.model:
            raise ValueError("the book had another model before that round, or has no such round")
        if (key, number) in held.receipts:
            raise ValueError("there are two receipts for this round")
        if held.book.roster.get(key, {}).get("records") != one.records:
            raise ValueError("the book has other records of hers")
        chain = self._places.get((key, one.entry))
        if chain == one.chain:
            raise ValueError(f"there are two receipts for entry {one.entry} of her ledger")
        if chain is not None:
            raise ValueError(
                f"entry {one.entry} of her ledger has two chains: it was copied, or an older copy"
                " was put back"
            )
        self._places[key, one.entry] = one.chain

    def _hold(self, held: _Held) -> None:
        """Fill the cells of a market."""
        book = held.book
        state = book.state
        for part, kind in STATE.items():
            if not isinstance(state.get(part, kind()), kind):
                said = f"the part {part} of its book is none that a market writes"
                self._add(MARKET, 0, "contradiction", said)
        for number, one in enumerate(book.rounds, 1):
            try:
                shaped(Round, one)
            except ValueError as error:
                self._add(MARKET, number, "contradiction", f"a round in its book: {error}")
                return
        if [one["round"] for one in book.rounds] != list(range(1, held.done + 1)):
            self._add(MARKET, 0, "contradiction", "its book has not the rounds 1, 2, ...")
        if held.done > held.charter.plan.rounds:
            self._add(MARKET, held.done, "contradiction", "it held more rounds than the charter")
        model = book.rounds[-1]["model"] if held.done else state.get("model")
        if state.get("done") != held.done or state.get("model") != model:
            said = "the state of its book and the last round in it"
            self._add(MARKET, held.done, "contradiction", said)
        if state.get("charter") != held.hash:
            self._add(MARKET, 0, "contradiction", "its book is of another charter")
        for one in book.rounds:
            if not len(one["loss"]) == len(one["paid"]) <= len(book.roster):
                said = "the round has losses or payments of nobody in the roster"
                self._add(MARKET, one["round"], "contradiction", said)
            if sum(one["paid"]) > held.charter.plan.budget * (1 + CENT):
                said = "the round paid more than the budget of the charter"
                self._add(MARKET, one["round"], "contradiction", said)
        for key, one in book.roster.items():
            if held.invited.get(key) != one.get("name"):
                said = f"the book has {one.get('name')} with this key, and the charter does not"
                name = held.invited.get(key, str(one.get("name")))
                self._add(name, 0, "contradiction", said)
        for key, name in held.invited.items():
            self._owner(held, key, name)
        if self.models:
            self._compute(held)
        self._close(held)

    def _compute(self, held: _Held) -> None:
        """Compute each model from the one before, and the bids and releases that the book has."""
        book, plan = held.book, held.charter.plan
        before = np.zeros_like(book.rounds[0]["model"], dtype=float) if held.done else np.zeros(0)
        for number, row in enumerate(book.rounds, 1):
            model = np.array(row["model"], dtype=float)
            try:
                bids = self._bids(held, number)
            except ValueError as error:
                said = f"the bids of that round in its book: {error}"
                self._add(MARKET, number, "contradiction", said)
                before = model
                continue
            gradients = np.zeros((len(bids), *model.shape))
            told = np.zeros(len(bids))
            records = np.array([float(bid.records) for bid in bids.values()])
            whole = True
            for key, name in held.invited.items():
                if (one := held.receipts.get((key, number))) is None:
                    continue
                steps = book.steps.get((one.ticket, one.round))
                if steps is None:
                    whole = False
                    self._add(name, number, "missing", "the release that she sent, in the book")
                elif key not in bids or bids[key].ticket != one.ticket:
                    whole = False
                    said = "the receipt is of no bid that the book has in that round"
                    self._add(name, number, "contradiction", said)
                elif steps_digest(steps) != one.steps:
                    whole = False
                    said = "the release in the book and the receipt"
                    self._add(name, number, "contradiction", said)
                else:
                    place = list(bids).index(key)
                    gradients[place] = np.array(steps) * mean_step(one)
                    told[place] = precision(one, one.loss)
            step = aggregate(plan, gradients, told, records)
            due = before if step is None else before - plan.learning_rate * step
            # floats are added in another order elsewhere
            near = np.allclose(model, due, rtol=1e-9, atol=1e-9 * np.abs(due).max(initial=0.0))
            if whole and not near:
                said = "its model does not come of the releases that the book has"
                self._add(MARKET, number, "contradiction", said)
            before = model

    def _bids(self, held: _Held, number: int) -> dict[str, Bid]:
        """Return the bids for a round by first key; an error if they are not those of one auction.

        By the records of all who bid the gradients are weighed, also of those who sent none.
        """
        found: dict[str, Bid] = {}
        for content in held.book.rounds[number - 1].get("bids", ()):
            one = shaped(Signed, content)
            bid = read_shaped(Bid, one.text)
            key = self.keys.first(bid.key)
            if not signed("bid", one.text, one.signature, bid.key):
                raise ValueError("one that its owner has not signed")
            if bid.charter != held.hash or held.invited.get(key) != bid.owner:
                raise ValueError("one for another charter, or of nobody whom it invites")
            if key in found:
                raise ValueError(f"two of {bid.owner}")
            if not bid.first < number <= bid.first + bid.rounds:
                raise ValueError("one for other rounds")
            found[key] = bid
        if len({bid.first for bid in found.values()}) > 1:
            raise ValueError("they are of two auctions")
        return found

    def _close(self, held: _Held) -> None:
        """Hold the closing statement against the book, the receipts and all who have signed it."""
        state = held.book.state
        told = state.get("_closing") or {}
        text = told.get("text") if isinstance(told, dict) else None
        theirs: dict[str, Row] = {}
        for key, name in held.invited.items():
            if key in self.ledgers:
                rows = self.ledgers[key][1].entries
                for row in rows:
                    if row["entry"] == "closed" and row.get("charter") == held.hash:
                        theirs[key] = row
                if key in theirs and theirs[key].get("text") != text:
                    self._differs(held, name, text, theirs[key].get("text"))
        if text is None:
            if held.done >= held.charter.plan.rounds and not theirs:
                self._add(MARKET, 0, "missing", "the closing statement")
            return
        try:
            closing = read_shaped(Closing, text)
            buyers = self.keys.after(held.charter.key)
            if not any(signed("closing", text, told.get("signature"), key) for key in buyers):
                raise ValueError("it is not signed by the market")
        except ODD as error:
            self._add(MARKET, held.done, "contradiction", f"the closing statement: {error}")
            return
        digest = held_digest(held.book.rounds, list(held.book.roster), state.get("absences", []))
        due = Closing(held.hash, held.done, held.book.digests[-1], digest, closing.accounts)
        for part, value in vars(due).items():
            if getattr(closing, part) != value:
                said = f"the closing statement has another {part} than the book"
                self._add(MARKET, held.done, "contradiction", said)
        accounts = {one.key: one for one in closing.accounts}
        if len(accounts) < len(closing.accounts) or accounts.keys() - held.invited.keys():
            said = "the closing statement has two accounts of one key, or one of nobody invited"
            self._add(MARKET, held.done, "contradiction", said)
        signatures = state.get("_closed", {})
        for key, name in held.invited.items():
            hers = [one for (who, _), one in held.receipts.items() if who == key]
            if accounts.get(key, account(key, name, [])) != account(key, name, hers):
                said = "the closing statement and her receipts"
                self._add(name, 0, "contradiction", said)
            if key in theirs or not hers or folded(name) in self.without:
                continue
            one = signatures.get(key, {})
            mine = self.keys.after(key)
            if any(signed("closing", text, one.get("signature"), each) for each in mine):
                if key in self.ledgers:
                    said = f"the ledger of {name} to its end: she has signed the closing statement"
                    self._add(name, 0, "missing", said)
                continue
            rows = self.ledgers[key][1].entries if key in self.ledgers else []
            if not any(
                row["entry"] == "withdrawn" and row.get("charter") == held.hash for row in rows
            ):
                self._add(name, 0, "missing", "her signature under the closing statement")

    def _differs(self, held: _Held, name: str, text: object, hers: object) -> None:
        """Name all of whom two closing statements say different things."""
        said = f"the closing statement in the ledger of {name}, and that in the book"
        accounts: list[dict[str, Account]] = []
        models = set[str]()
        for one in (text, hers):
            try:
                closing = read_shaped(Closing, one)
                accounts.append({each.key: each for each in closing.accounts})
                models.add(closing.model)
            except ValueError:
                accounts.append({})
        self._add(name, 0, "contradiction", said)
        if len(models) > 1:
            self._add(MARKET, held.done, "contradiction", said)
        for key, other in held.invited.items():
            if accounts[0].get(key) != accounts[1].get(key):
                self._add(other, 0, "contradiction", said)

    def _owner(self, held: _Held, key: str, name: str) -> None:
        """Fill the cells of an owner."""
        file, export = self.ledgers.get(key, ("", None))
        nothing: list[int] = []  # rounds for which her next receipt will tell
        for number in range(1, held.done + 1):
            loss, paid = held.sold(key, number)
            one = held.receipts.get((key, number))
            if one is None and (loss or paid):
                said = "the book says that she was paid, and has no receipt of hers"
                self._add(name, number, "contradiction", said)
            elif one is not None and (one.loss, one.payment) != (loss, paid):
                said = "the book and her receipt have another loss or payment"
                self._add(name, number, "contradiction", said)
            elif export is not None and one is None:
                nothing.append(number)
            elif export is not None and one is not None:
                said = self._unlike(one, file, export)
                state: State = "contradiction" if said else "consistent"
                for before in nothing:
                    self._add(name, before, state, said or "sold nothing")
                self._add(name, number, state, said)
                nothing = []
            elif folded(name) in self.without:
                self._add(name, number, "consistent", "her ledger was not handed in, as declared")
            else:
                self._add(name, number, "missing", f"the ledger of {name}")
        for last in nothing:
            self._add(name, last, "consistent", "sold nothing")
        if export is not None:
            self._unpaid(held, key, name, export)
        elif folded(name) not in self.without:
            self._add(name, 0, "missing", f"the ledger of {name}")

    def _unlike(self, one: Receipt, file: str, export: Export) -> str:
        """Return what a ledger says otherwise than a receipt; nothing if all is well."""
        if one.entry > len(export.entries):
            return (
                f"the ledger {file} ends before entry {one.entry}, which the receipt names: it is"
                " an older one, or was emptied"
            )
        row = export.entries[one.entry - 1]
        if row["chain"] != one.chain:
            return f"the ledger {file} has another chain at entry {one.entry} than the receipt"
        parts = row.keys() & vars(one).keys() - {"entry"}
        if any(row[part] != getattr(one, part) for part in parts):
            return f"the ledger {file} says otherwise than the receipt"
        return ""

    def _unpaid(self, held: _Held, key: str, name: str, export: Export) -> None:
        """Look at releases under this charter of which no receipt in the book tells."""
        absent = {(one["name"], one["round"] + 1) for one in held.book.state.get("absences", [])}
        for row in export.entries:
            if row["entry"] != "release" or row.get("charter") != held.hash:
                continue
            number = row["first"] + row["round"]
            one = held.receipts.get((key, number))
            if one is not None and (one.ticket, one.round) == (row["ticket"], row["round"]):
                continue
            going_on = number == held.done + 1 <= held.charter.plan.rounds
            if row.get("countersignature") is not None:
                said = "her ledger has a receipt that the market signed, and its book has none"
                self._add(name, number, "contradiction", said)
            elif (name, number) in absent or going_on:
                self._add(name, number, "consistent", "released, and it never arrived")
            else:
                said = "the market's receipt of a release in her ledger, or that she was absent"
                self._add(name, number, "missing", said)
