"""Lies about a market that was held, made from the declared shapes of what is signed: each part of
each document changed, dropped, doubled, or swapped with that of another owner, round or market.

A lie is told by an owner, by the market, by both together, or by a stranger, who has no key. Who
lies signs again whatever these keys can sign, so that nothing but the others' documents tells.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from itertools import pairwise
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hdpm_owner import ledger
from hdpm_owner.audit import MARKET, Cell, audit, wrong
from hdpm_owner.charter import Agreed, Charter, hash_of
from hdpm_owner.deals import ENTRIES, Account, Closing, Receipt, account, held_digest
from hdpm_owner.receipts import SIGNED, Book, Round
from hdpm_owner.shapes import read_shaped
from hdpm_owner.signatures import Key, canonical

Row = dict[str, Any]
OWN = ("chain", *SIGNED)


@dataclass
class World:
    """What an auditor is handed, and the keys with which it was signed."""

    books: dict[str, Book]
    exports: dict[str, Row]
    keys: dict[str, Key]  # of owners by name, and of the market

    def copy(self) -> World:
        """All documents again, to be changed."""
        books = {}
        for name, book in self.books.items():
            kept = (book.state, book.rounds, book.receipts, book.invitation, book.steps)
            parts = (copy.deepcopy(part) for part in kept)
            books[name] = Book(name, *parts)
        return World(books, copy.deepcopy(self.exports), self.keys)

    def wrong(self, models: bool = False) -> list[Cell]:
        """Return what an auditor finds, who computes the models again or not."""
        return wrong(audit(list(self.books.values()), self.exports, models=models))

    def chained(self, name: str) -> None:
        """Chain an owner's entries, and sign her receipts, again."""
        chain = ""
        for number, row in enumerate(self.exports[name]["entries"], 1):
            own = {part: value for part, value in row.items() if part not in OWN}
            row["chain"] = chain = ledger.link(chain, canonical(own))
            if row["entry"] == "release":
                told = own | {"number": number, "chain": chain}
                self.receipt(name, row, {"entry": number, "chain": chain} | told)
        if chain:
            head = canonical([len(self.exports[name]["entries"]), chain])
            self.exports[name]["signature"] = self.keys[name].sign("ledger", head)

    def receipt(self, name: str, row: Row, parts: Row) -> None:
        """Make the receipt of a release anew; the market's signature stays as it was."""
        if row.get("receipt") == "00":
            return
        old = json.loads(row["receipt"])
        text = canonical(old | {p: parts[p] for p in old if p in parts and p != "entry"}
                         | {"entry": parts["number"]})  # fmt: skip
        if text != row["receipt"]:
            row["receipt"] = text
            row["signature"] = self.keys[name].sign("receipt", text)


def other(hint: Any, value: Any) -> Any:
    """Another value that a shape lets through."""
    origin, given = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        name = fields(hint)[0].name
        return value | {name: other(get_type_hints(hint, include_extras=True)[name], value[name])}
    if hint is bool:
        return not value
    if origin is UnionType:
        return other(given[0], value)
    if origin is tuple:
        if not value:
            return [stand_in(given[0])]
        return [other(given[0], value[0]), *value[1:]]
    if origin is Literal:
        return next(one for one in given if one != value)
    if given[0] is str:
        if value and set(value) <= set("0123456789abcdef") and len(value) >= 32:
            return hashlib.sha512(value.encode()).hexdigest()[: len(value)]
        return f"{value}x"
    low, high = given[1]
    more = value + 1 if given[0] is int else value * 1.5 + (value == 0) * 1e-3
    if value == 1 and high == 1:
        more = 0.5
    return more if more <= high else value / 2 if given[0] is float else low


def stand_in(hint: Any) -> Any:
    """Return a value for a list that is empty."""
    return "0" * 32 if get_args(hint)[1].startswith("[0-9a-f]") else "eve"


def odd(value: Any) -> Any:
    """Return a value of another kind."""
    return {"x": 5} if isinstance(value, list) else [5]


def round_of(row: Row) -> int:
    """Return the round of its market that a release or a receipt is of; 0 of another entry."""
    return row["first"] + row["round"] if "round" in row else 0


def parts_of(kind: type, row: Row) -> Iterator[tuple[str, Any]]:
    """Each part of a row of a shape, and another value."""
    hints = get_type_hints(kind, include_extras=True)
    for one in fields(kind):
        if row.get(one.name) is not None:
            yield one.name, other(hints[one.name], row[one.name])


# what, whose cell tells it ("" if several do), in which round (0 if it concerns all), and what is
# handed in
Lie = tuple[str, str, int, World]


def by_an_owner(world: World, name: str) -> Iterator[Lie]:
    """Her ledger with one part of one entry changed, an entry dropped, doubled or moved."""
    entries = world.exports[name]["entries"]
    receipts = [n for n, row in enumerate(entries) if row["entry"] == "release"]
    last = len(entries) - 1
    paid = [n for n in receipts if entries[n]["countersignature"]]

    def told(what: str, spoil: Callable[[World, list[Row]], Any], round: int = 0) -> Lie:
        lied = world.copy()
        spoil(lied, lied.exports[name]["entries"])
        lied.chained(name)
        return f"{name}: {what}", name, round, lied

    for n, row in enumerate(entries[:last]):
        kind, round = row["entry"], round_of(row)
        for part, value in parts_of(ENTRIES[kind], row):
            what = f"another {part} of entry {n + 1}, {kind}"
            new = {part: value}
            where = round_of(row | new)  # which it says, if it is that
            yield told(what, lambda _, rows, n=n, new=new: rows[n].update(new), where)
            yield told(
                f"no {part} of entry {n + 1}", lambda _, rows, n=n, p=part: rows[n].pop(p), round
            )
        yield told(f"no entry {n + 1}", lambda _, rows, n=n: rows.pop(n), round)
        yield told(
            f"entry {n + 1} twice", lambda _, rows, n=n: rows.insert(n, dict(rows[n])), round
        )
    for one, two in pairwise(receipts):
        yield told(f"entries {one + 1} and {two + 1} swapped",
                   lambda _, rows, i=one, k=two: rows.insert(i, rows.pop(k)))  # fmt: skip
    for n in paid:
        round = round_of(entries[n])
        for part in ("receipt", "signature"):
            yield told(f"garbage for {part} of entry {n + 1}",
                       lambda _, rows, n=n, p=part: rows[n].update({p: "00"}), round)  # fmt: skip
        yield told(
            f"a countersignature of nobody, entry {n + 1}",
            lambda _, rows, n=n: rows[n].update(countersignature="00" * 64),
            round,
        )
    yield told(
        "all entries after the promise cut", lambda _, rows: rows.__delitem__(slice(1, None))
    )
    yield told("an empty ledger", lambda _, rows: rows.clear())
    yield told("the last release cut", lambda _, rows: rows.__delitem__(slice(last, None)))


def of_exports(world: World, name: str) -> Iterator[Lie]:
    """Change a file that she hands in."""
    others = [one for one in world.exports if one != name]

    def told(what: str, spoil: Callable[[World], Any]) -> Lie:
        lied = world.copy()
        spoil(lied)
        return f"{name}: {what}", name, 0, lied

    yield told("not handed in", lambda lied: lied.exports.pop(name))
    yield told(
        "another's in its place",
        lambda lied: lied.exports.update({name: copy.deepcopy(lied.exports[others[0]])}),
    )
    yield told(
        "empty, under another key",
        lambda lied: lied.exports.update({name: {"key": "ab" * 32, "entries": []}}),
    )
    for odd in (None, [], 5, {"key": 1, "entries": [5]}):
        yield told(f"{odd!r} in its place", lambda lied, odd=odd: lied.exports.update({name: odd}))

    def older(lied: World) -> None:
        rows = lied.exports[name]["entries"]
        forged = copy.deepcopy(lied.exports[name])
        forged["entries"][-1]["time"] += 1
        lied.exports["second"] = forged
        assert rows
        entries = forged["entries"]
        chain = entries[-2]["chain"] if len(entries) > 1 else ""
        own = {part: value for part, value in entries[-1].items() if part not in OWN}
        entries[-1]["chain"] = ledger.link(chain, canonical(own))

    yield told("two ledgers of one key", older)


def by_the_market(world: World, book: str) -> Iterator[Lie]:
    """Its book with a part changed; it signs what it changes."""
    held = world.books[book]
    market = world.keys["market"]

    def told(what: str, who: str, round: int, spoil: Callable[[Book], Any]) -> Lie:
        lied = world.copy()
        spoil(lied.books[book])
        return f"market {book}: {what}", who, round, lied

    for n, row in enumerate(held.receipts):
        who, receipt = row["owner"], json.loads(row["receipt"])
        round = round_of(receipt)
        for part, value in parts_of(Receipt, receipt):

            def change(lied: Book, n: int = n, part: str = part, value: Any = value) -> None:
                text = canonical(json.loads(lied.receipts[n]["receipt"]) | {part: value})
                lied.receipts[n] |= {"receipt": text, "countersignature": market.sign("owed", text)}

            yield told(f"another {part} in receipt {n}", who, round, change)
        yield told(f"no receipt {n}", who, round, lambda lied, n=n: lied.receipts.pop(n))
        yield told(f"receipt {n} twice", who, round,
                   lambda lied, n=n: lied.receipts.append(dict(lied.receipts[n])))  # fmt: skip
        beside: Row = {"signature": "00" * 64, "countersignature": None, "owner": "eve"}
        beside |= {"receipt": "{}", "ticket": "0" * 32, "round": 77}
        for part, value in beside.items():
            yield told(
                f"another {part} beside receipt {n}",
                who,
                round,
                lambda lied, n=n, p=part, v=value: lied.receipts[n].update({p: v}),
            )

    def forget(lied: Book, name: str) -> None:
        lied.receipts[:] = [row for row in lied.receipts if row["owner"] != name]

    for name in sorted({row["owner"] for row in held.receipts}):
        yield told(f"no receipt of {name}", name, 0, lambda lied, name=name: forget(lied, name))

    def more(lied: Book, n: int, part: str, place: int) -> None:
        lied.rounds[n][part][place] = lied.rounds[n][part][place] * 1.5 + 1

    def sells(row: Row) -> None:
        for part in ("loss", "paid"):
            row[part].append(1.0)

    def moved(lied: Book, n: int) -> None:
        lied.rounds[n]["model"][0][0] = 7.0

    for n, row in enumerate(held.rounds):
        for part in ("loss", "paid"):
            for place in range(len(row[part])):
                who = list(held.roster.values())[place]["name"]
                yield told(
                    f"another {part} of {who} in round {n + 1}",
                    who,
                    n + 1,
                    lambda lied, n=n, p=part, k=place: more(lied, n, p, k),
                )
        if n < len(held.rounds) - 1:
            yield told(f"another model, round {n + 1}", "", n + 2, lambda lied, n=n: moved(lied, n))
        yield told(f"no round {n + 1}", "", n + 1, lambda lied, n=n: lied.rounds.pop(n))
        for part in fields(Round):
            for value in (None, odd(row[part.name]), "x"):
                change = {part.name: value}
                yield told(f"{change} in round {n + 1}", MARKET, n + 1,
                           lambda lied, n=n, new=change: lied.rounds[n].update(new))  # fmt: skip
        for part in ("loss", "paid", "model"):
            yield told(f"no {part} of round {n + 1}", MARKET, n + 1,
                       lambda lied, n=n, p=part: lied.rounds[n].pop(p))  # fmt: skip
        yield told(f"somebody who is not in the roster is paid in round {n + 1}", MARKET, n + 1,
                   lambda lied, n=n: lied.rounds[n]["paid"].append(1.0))  # fmt: skip
        yield told(f"somebody who is not in the roster sells in round {n + 1}", MARKET, n + 1,
                   lambda lied, n=n: sells(lied.rounds[n]))  # fmt: skip
    for part, value in held.state.items():
        for another in (None, odd(value)):
            yield told(f"{another!r} for {part} of its state", MARKET, 0,
                       lambda lied, p=part, v=another: lied.state.update({p: v}))  # fmt: skip
    yield told(
        "another last model in its state",
        MARKET,
        len(held.rounds),
        lambda lied: lied.state["model"][0].__setitem__(0, 7.0),
    )
    for key, one in held.roster.items():
        who = one["name"]
        yield told(
            f"{who} not in the roster", who, 0, lambda lied, key=key: lied.state["roster"].pop(key)
        )
        yield told(
            f"{who} with another name",
            who,
            0,
            lambda lied, key=key: lied.state["roster"][key].update(name="eve"),
        )
        yield told(
            f"{who} with more records",
            who,
            0,
            lambda lied, key=key: lied.state["roster"][key].update(records=999),
        )

    def chartered(lied: Book, text: str, signature: str) -> None:
        whole = canonical([text, lied.invitation["address"], lied.invitation["certificate"]])
        lied.invitation |= {"charter": text, "signature": signature}
        lied.invitation |= {"sealed": market.sign("invitation", whole)}
        lied.state["charter"] = hash_of(text)

    charter = json.loads(held.invitation["charter"])
    for kind, part_of in ((Charter, charter), (Agreed, charter["plan"])):
        for part, value in parts_of(kind, part_of):
            changed = json.loads(held.invitation["charter"])
            (changed if kind is Charter else changed["plan"])[part] = value
            text = canonical(changed)
            by = market.sign("charter", text)
            yield told(
                f"another {part} in the charter",
                "",
                0,
                lambda lied, text=text, by=by: chartered(lied, text, by),
            )
            yield told(
                f"another {part} in the charter, unsigned",
                "",
                0,
                lambda lied, text=text: chartered(lied, text, held.invitation["signature"]),
            )
    if held.state["absences"]:
        yield told("no absences", "bea", 2, lambda lied: lied.state.update(absences=[]))


def of_bids(world: World, book: str) -> Iterator[Lie]:
    """Change the bids that the market's book has for a round; an auditor sees it who computes the
    models again.
    """
    rounds = world.books[book].rounds
    elsewhere = [one for name, other in world.books.items() if name != book
                 for one in other.rounds[0]["bids"]]  # fmt: skip
    for n, row in enumerate(rounds):
        bids = row["bids"]
        first, rest = bids[0], bids[1:]
        text = json.loads(first["text"])

        def told(what: str, who: str, bids: list[Row], n: int = n) -> Lie:
            lied = world.copy()
            lied.books[book].rounds[n]["bids"] = bids
            return f"market {book}: {what} in round {n + 1}", who, n + 1, lied

        yield told("no bid of hers", text["owner"], rest)
        yield told("a bid twice", MARKET, [*bids, first])
        other = {"text": canonical(text | {"records": 999}), "signature": first["signature"]}
        yield told("another number of records in a bid", MARKET, [other, *rest])
        eve = Key.made()
        strange = canonical(text | {"owner": "eve", "key": eve.public})
        one = {"text": strange, "signature": eve.sign("bid", strange)}
        yield told("a bid of a stranger", MARKET, [*bids, one])
        yield told("a bid for another charter", MARKET, [elsewhere[0], *rest])
        for m, before in enumerate(rounds):
            if before["bids"] != bids:
                old = before["bids"]
                hers = [one for one in old if json.loads(one["text"])["owner"] == text["owner"]]
                yield told(f"a bid of round {m + 1}", MARKET, [*hers, *rest])
                who = MARKET if m > n else text["owner"]
                yield told(f"all bids of round {m + 1}", who, old)


def by_a_stranger(world: World) -> Iterator[Lie]:
    """Who has no key, and every file."""
    for what in ("signature", "countersignature", "receipt"):
        lied = world.copy()
        book = next(iter(lied.books.values()))
        book.receipts[0][what] = book.receipts[1][what]
        yield f"stranger: {what} of another receipt", book.receipts[0]["owner"], 1, lied
    lied = world.copy()
    name = next(iter(lied.exports))
    lied.exports[name]["entries"][1]["time"] += 1
    yield "stranger: an entry edited", name, 0, lied


def alike(world: World, name: str, book: str) -> None:
    """Have owner and market sign all of her documents again, and the book say what they say."""
    market = world.keys["market"]
    world.chained(name)
    found = world.books[book]
    place = [one["name"] for one in found.roster.values()].index(name)
    for row in world.exports[name]["entries"]:
        if row["entry"] == "release" and row["countersignature"]:
            row["countersignature"] = market.sign("owed", row["receipt"])
            for kept in found.receipts:
                if (kept["ticket"], kept["round"]) == (row["ticket"], row["round"]):
                    kept |= {part: row[part] for part in SIGNED}
    told = [json.loads(row["receipt"]) for row in found.receipts if row["owner"] == name]
    for held, before in zip(found.rounds, found.digests, strict=False):
        here = [one for one in told if one["model"] == before]
        held["loss"][place] = here[0]["loss"] if here else 0.0
        held["paid"][place] = here[0]["payment"] if here else 0.0


def closed_alike(world: World, name: str, book: str) -> None:
    """Have both sign a closing statement that says what their documents say."""
    market = world.keys["market"]
    found = world.books[book]
    told = json.loads(found.state["_closing"]["text"])
    hers = [read_shaped(Receipt, row["receipt"]) for row in found.receipts if row["owner"] == name]
    told["accounts"] = [
        vars(account(one["key"], name, hers)) if one["name"] == name else one
        for one in told["accounts"]
    ]
    told["model"] = found.digests[-1]
    told["held"] = held_digest(found.rounds, list(found.roster), found.state["absences"])
    text = canonical(told)
    found.state["_closing"] = {"text": text, "signature": market.sign("closing", text)}
    for row in world.exports[name]["entries"]:
        if row["entry"] == "closed" and row["charter"] == found.state["charter"]:
            row |= {"text": text, "by_market": market.sign("closing", text)}
    world.chained(name)
    key = world.keys[name]
    found.state["_closed"][key.public] |= {"signature": key.sign("closing", text)}


def with_closing(world: World, name: str, book: str) -> Iterator[Lie]:
    """Yield what owner and market say alike, as :func:`by_both`, and again in a new closing."""
    for what, who, round, lied in by_both(world, name, book):
        yield what, who, round, lied
        more = lied.copy()
        closed_alike(more, name, book)
        yield f"{what}, and a new closing", who, round, more


def of_closings(world: World, book: str) -> Iterator[Lie]:
    """Change one part of the market's closing statement, sign it again, or drop it."""
    market = world.keys["market"]
    state = world.books[book].state
    told = json.loads(state["_closing"]["text"])
    changed: list[tuple[str, str, Row]] = []
    for part, value in parts_of(Closing, told):
        if part != "accounts":
            changed.append((part, "", told | {part: value}))
    for n, one in enumerate(told["accounts"]):
        for part, value in parts_of(Account, one):
            accounts = list(told["accounts"])
            accounts[n] = one | {part: value}
            changed.append((part, one["name"], told | {"accounts": accounts}))
        rest = [other for other in told["accounts"] if other is not one]
        changed.append(("owners, less one,", one["name"], told | {"accounts": rest}))
    for what, who, content in changed:
        text = canonical(content)
        lied = world.copy()
        signature = market.sign("closing", text)
        lied.books[book].state["_closing"] = {"text": text, "signature": signature}
        yield f"market {book}: another {what} of {who or 'all'} in its closing", who, 0, lied
    one = told["accounts"][0]
    for what, more in (
        ("two accounts of one owner", one | {"money": 7.0}),
        ("an account of a stranger", one | {"key": "ab" * 32, "name": "eve"}),
    ):
        lied = world.copy()
        text = canonical(told | {"accounts": [*told["accounts"], more]})
        closed = {"text": text, "signature": market.sign("closing", text)}
        lied.books[book].state["_closing"] = closed
        for name in lied.exports:  # and all sign it
            for row in lied.exports[name]["entries"]:
                if row["entry"] == "closed" and row["charter"] == told["charter"]:
                    row |= {"text": text, "by_market": closed["signature"]}
            lied.chained(name)
            signature = world.keys[name].sign("closing", text)
            closers = lied.books[book].state["_closed"]
            closers[world.keys[name].public]["signature"] = signature
        yield f"market {book}: {what} in its closing", MARKET, told["rounds"], lied
    lied = world.copy()
    lied.books[book].state |= {"_closing": {}, "_closed": {}}
    yield f"market {book}: no closing", "ann", 0, lied
    lied = world.copy()
    lied.books[book].state["_closing"]["signature"] = "00" * 64
    yield f"market {book}: an unsigned closing", "", 0, lied


def by_both(world: World, name: str, book: str) -> Iterator[Lie]:
    """Owner and market change a sale, its releases and receipts, and the book alike."""
    kept = {(row["ticket"], row["round"]) for row in world.books[book].receipts}
    entries = world.exports[name]["entries"]
    numbers = [n for n, row in enumerate(entries) if (row.get("ticket"), row.get("round")) in kept]
    for part, value in parts_of(ENTRIES["release"], entries[numbers[0]]):
        lied = world.copy()
        rows = lied.exports[name]["entries"]
        rows[numbers[0]][part] = value
        alike(lied, name, book)
        yield f"{name} and market: another {part}", name, 0, lied
    for n in (numbers[0], numbers[-1]):
        lied = world.copy()
        rows = lied.exports[name]["entries"]
        gone = rows.pop(n)
        found = lied.books[book]
        found.receipts[:] = [
            row
            for row in found.receipts
            if (row["ticket"], row["round"]) != (gone["ticket"], gone["round"])
        ]
        alike(lied, name, book)
        yield f"{name} and market: no entry {n + 1}", name, 0, lied
    for part in ("losses", "payments"):
        lied = world.copy()
        rows = lied.exports[name]["entries"]
        (sale,) = (
            row
            for row in rows
            if row["entry"] == "sale" and row["ticket"] == rows[numbers[0]]["ticket"]
        )
        single = {"losses": "loss", "payments": "payment"}[part]
        sale[part] = [value * 0.9 for value in sale[part]]
        for row in rows:
            if row["entry"] == "release" and row["ticket"] == sale["ticket"]:
                row[single] = sale[part][row["round"] - 1]
        alike(lied, name, book)
        yield f"{name} and market: other {part} everywhere", name, 0, lied
    for part in ("epsilon", "money"):
        lied = world.copy()
        for row in lied.exports[name]["entries"]:
            if row["entry"] == "joined":
                row[part] = 0.01
        alike(lied, name, book)
        yield f"{name} and market: less {part} in her consent than was sold", name, 0, lied
    lied = world.copy()
    rows = lied.exports[name]["entries"]
    for n in range(len(rows) - 1, -1, -1):
        row = rows[n]
        same = row.get("round", entries[numbers[0]]["round"]) == entries[numbers[0]]["round"]
        sold = (
            row["entry"] in ("sale", "release") and row["ticket"] == entries[numbers[0]]["ticket"]
        )
        if same and sold:
            rows.insert(n + 1, row | {"ticket": "f" * 32})
            if row["entry"] == "release":
                rows[n + 1]["countersignature"] = None
    alike(lied, name, book)
    round = round_of(entries[numbers[0]])
    yield f"{name} and market: a release beside that of round {round}", name, round, lied
    lied = world.copy()
    for where in (lied.books[book].state, lied.books[book].rounds[-1]):
        where["model"][0][0] += 1.0
    yield "market: another last model everywhere", "", len(lied.books[book].rounds), lied


def all_lies(world: World) -> Iterator[Lie]:
    """Every lie of this file."""
    for name in world.exports:
        if name != "cem":  # who is as Ann is
            yield from by_an_owner(world, name)
        yield from of_exports(world, name)
    for book in world.books:
        yield from by_the_market(world, book)
    yield from by_a_stranger(world)
    for book in world.books:
        yield from of_closings(world, book)
    lied = world.copy()
    del lied.books[next(iter(lied.books))]
    yield "market: its earlier book is not handed in", MARKET, 0, lied
    yield from with_closing(world, "ann", next(reversed(world.books)))
