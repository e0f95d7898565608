"""An auditor before documents that lie, and before honest ones of many kinds."""

from __future__ import annotations

import copy
import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="the extra flower is not installed: no market is held")

from flwr.app import Error

from hdpm_market import book as market_book
from hdpm_owner import audit, ledger, receipts, signatures
from hdpm_owner.deals import Withdrawn
from hdpm_owner.owner import Owner
from hdpm_owner.receipts import Book, Round
from hdpm_owner.shapes import shaped
from hdpm_owner.signatures import Key
from tests.federation import lies
from tests.federation.lies import World
from tests.federation.parts import owner_of
from tests.federation.post import (
    Node,
    Post,
    begun,
    held,
    in_this_process,
    letters_of,
    one_round,
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two markets of one key in a row, in the second of which Bea's second release is lost."""
    place = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        in_this_process(patch)
        Key(place / "key")
        terms = {"ann": 20.0, "bea": 12.0, "cem": 9.0}
        owners = [owner_of(place / name, joins=False, name=name, epsilon=epsilon, limit=0.5)
                  for name, epsilon in terms.items()]  # fmt: skip
        nodes = {n: own.open_letter for n, own in enumerate(owners)}
        books = {}
        held(nodes, place, rounds=2).book.close()
        (place / "book").rename(place / "first")
        asked: list[str] = []

        def lost(ask: str, answer: Any) -> Any:
            """Her second release, whenever it is asked for in that round."""
            asked.append(ask)
            is_lost = asked.count("release") > 1 and asked.count("bid") == 1
            return Error(0, "lost") if is_lost and ask == "release" else answer

        late = letters_of(owners[1], lost)
        held(nodes | {1: late}, place, rounds=5, earlier=("first",), wait=1.0).book.close()
        (place / "book").rename(place / "second")
        for name in ("first", "second"):
            books[name] = Book.read(place / name)
        for own in owners:
            own.ledger.close()
        exports = {name: json.loads(json.dumps(ledger.read(place / name))) for name in terms}
        keys = {own.terms.name: own.key for own in owners} | {"market": Key(place / "key")}
    yield World(books, exports, keys)


def test_every_lie_is_named_with_its_owner_and_round(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    remembered = lru_cache(None)(signatures.signed)
    monkeypatch.setattr(audit, "read_shaped", lru_cache(None)(audit.read_shaped))
    unseen = []
    for module in (audit, receipts, signatures):
        monkeypatch.setattr(module, "signed", remembered)
    count = 0
    for what, who, round, lied in lies.all_lies(world):
        count += 1
        cells = {(one.owner, one.round) for one in lied.wrong()}
        here = {cell for cell in cells if who in ("", cell[0]) and round in (0, cell[1])}
        if not here:
            unseen.append((what, who, round, sorted(cells)))
    assert not unseen
    assert count > 2000


# --- honest documents ---------------------------------------------------------------------------


def twice(world: World) -> None:
    world.books["again"] = world.copy().books["second"]


def renamed(world: World) -> None:
    for name in list(world.exports):
        world.exports[f"{name}, of Monday"] = world.exports.pop(name)


def copied(world: World) -> None:
    world.exports["copy"] = copy.deepcopy(world.exports["ann"])


def older(world: World) -> None:
    """And an older export of her ledger beside the last one."""
    copied(world)
    del world.exports["copy"]["entries"][4:]


def going_on(world: World) -> None:
    """The last round is not in the book yet, and all have released for it."""
    book = world.books["second"]
    last = book.rounds.pop()
    book.state |= {"_closing": {}, "_closed": {}}
    for name, one in world.exports.items():
        if one["entries"][-1]["entry"] == "closed":
            del one["entries"][-1]
            world.chained(name)
    book.state |= {"done": len(book.rounds), "model": book.rounds[-1]["model"]}
    gone = receipts.model_digest(np.array(book.rounds[-1]["model"]))
    book.receipts[:] = [row for row in book.receipts if gone not in row["receipt"]]
    for one in world.exports.values():
        for row in one["entries"]:
            if row.get("model") == gone:
                row["countersignature"] = None
    assert last


def withdrawn(world: World) -> None:
    """She has withdrawn after the last round: an entry more, which no receipt names."""
    rows = world.exports["cem"]["entries"]
    rows.append({"entry": "withdrawn", "charter": rows[-1]["charter"], "time": 1e9})
    world.chained("cem")


def undelivered(world: World) -> None:
    """The market's last signatures have not reached her."""
    rows = world.exports["cem"]["entries"]
    last = [row for row in rows if row["entry"] == "release"][-1]
    last["countersignature"] = None


HONEST = [twice, renamed, copied, older, going_on, withdrawn, undelivered]


@pytest.mark.parametrize("change", HONEST)
def test_honest_documents_pass(world: World, change: Callable[[World], None]) -> None:
    assert world.wrong() == []
    changed = world.copy()
    change(changed)
    assert changed.wrong() == []


Owners = list[Owner]
Hold = Callable[[dict[int, Node], Path, Owners], Any]


def resumed(nodes: dict[int, Node], place: Path, _: Owners) -> None:
    held(nodes, place, 3, until=1).book.close()
    held({k + 7: node for k, node in nodes.items()}, place, 3)


def with_new_keys(nodes: dict[int, Node], place: Path, owners: Owners) -> None:
    market = begun(place, 4)
    one_round(market, nodes)
    owners[0].ledger.rotate(time.time() + 86400)
    one_round(market, nodes)
    market.key.rotate(time.time() + 86400)
    market.run(Post(nodes))


def with_one_who_came_late(nodes: dict[int, Node], place: Path, _: Owners) -> None:
    market = begun(place, 3)
    one_round(market, {0: nodes[0]})
    market.run(Post(nodes))


def with_one_who_withdrew(nodes: dict[int, Node], place: Path, owners: Owners) -> None:
    market = begun(place, 3)
    one_round(market, nodes)
    owners[1].ledger.write(Withdrawn(market.charter))
    market.run(Post(nodes))


def with_one_who_was_away(nodes: dict[int, Node], place: Path, owners: Owners) -> None:
    """At the end, and then the market went on."""
    away = letters_of(owners[1], lambda ask, a: None if ask == "paid" else a)
    held(nodes | {1: away}, place).book.close()
    held(nodes, place)


def with_one_who_gave_up(nodes: dict[int, Node], place: Path, owners: Owners) -> None:
    market = begun(place, 3)
    one_round(market, nodes)
    owners[1].ledger.give_up(next(reversed(owners[1].ledger.sales)))
    market.run(Post(nodes))


def with_a_robust_rule(nodes: dict[int, Node], place: Path, _: Owners) -> None:
    held(nodes, place, aggregate="trimmed mean", liars=1)


def with_other_records(nodes: dict[int, Node], place: Path, owners: Owners) -> None:
    """She puts other data in the place of hers, and sells no more to that market."""
    market = begun(place, 4)
    one_round(market, nodes)
    owners[1].records = 30
    market.run(Post(nodes))
    owners[1].records = 40
    reasons = [one["reason"] for one in market.absences if one["name"] == "bea"]
    assert any("she sold with 40 before" in one for one in reasons)
    assert [held["loss"][1] > 0 for held in market.book.rounds] == [True, False, False, False]


HELD: list[Hold] = [resumed, with_new_keys, with_one_who_came_late, with_one_who_withdrew]
HELD += [with_one_who_was_away, with_one_who_gave_up, with_a_robust_rule]
HELD += [with_other_records]


@pytest.mark.parametrize("hold", HELD)
def test_what_was_held_honestly_passes(
    hold: Hold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And every model comes out of what was released."""
    in_this_process(monkeypatch)
    Key(tmp_path / "key")
    owners = [
        owner_of(tmp_path / name, joins=False, name=name, epsilon=20.0)
        for name in ("ann", "bea", "cem")
    ]
    hold({n: own.open_letter for n, own in enumerate(owners)}, tmp_path, owners)
    for own in owners:
        own.ledger.close()
    books = [Book.read(tmp_path / "book")]
    assert len(books[0].rounds) == books[0].charter()[1].plan.rounds
    exports = {own.terms.name: ledger.read(tmp_path / own.terms.name) for own in owners}
    cells = audit.audit(books, json.loads(json.dumps(exports)), models=True)
    assert audit.wrong(cells) == []


def test_models_come_out_of_the_releases_that_were_kept(world: World) -> None:
    """Also where all have signed another last model, and nothing else tells."""

    def found(some: World) -> set[tuple[str, int, str]]:
        return {(one.owner, one.round, one.state) for one in some.wrong(models=True)}

    assert found(world) == set()
    some = world.copy()
    book = some.books["second"]
    for where in (book.state, book.rounds[-1]):
        where["model"][0][0] += 1e-6
    for name in some.exports:
        lies.closed_alike(some, name, "second")
    assert some.wrong() == []
    assert found(some) == {(audit.MARKET, len(book.rounds), "contradiction")}
    for key, change, state in (
        ((book.receipts[0]["ticket"], 1), [[0] * 3] * 2, "contradiction"),
        ((book.receipts[0]["ticket"], 1), None, "missing"),
    ):
        some = world.copy()
        some.books["second"].steps[key] = change
        assert found(some) == {(book.receipts[0]["owner"], 1, state)}


def test_a_model_comes_of_bids_that_owners_have_signed(world: World) -> None:
    """Also those of who sent nothing weigh the gradients."""
    (silent,) = (one for one in world.books["second"].rounds[1]["bids"] if "bea" in one["text"])
    assert silent not in world.books["second"].rounds[2]["bids"]
    count = 0
    for book in world.books:
        for what, who, round, lied in lies.of_bids(world, book):
            count += 1
            # not by the model alone, which the market can compute anew
            cells = {(one.owner, one.round) for one in lied.wrong(models=True) if "bid" in one.said}
            assert (who, round) in cells, what
    assert count > 40


def test_two_books_that_differ_in_releases_are_two(world: World) -> None:
    """So that a good one hides nothing of the other."""
    some = world.copy()
    some.books["copy"] = some.copy().books["second"]
    assert some.wrong(models=True) == []
    ticket = some.books["copy"].receipts[0]["ticket"]
    some.books["copy"].steps[ticket, 1] = [[0] * 3] * 2
    said = [one.said for one in some.wrong()]
    assert "two books of one charter differ" in said


def test_a_wide_model_is_a_round_and_a_long_release_is_read(tmp_path: Path) -> None:
    wide: dict[str, Any] = {"round": 1, "loss": [], "paid": [], "model": [[0.5] * 20_000] * 2}
    assert len(shaped(Round, wide).model[1]) == 20_000
    with pytest.raises(ValueError, match="loss must be a list of at most 10000"):
        shaped(Round, wide | {"loss": [0.5] * 20_000})
    steps = [[10**9] * 100_000] * 2
    place = tmp_path / "book"
    with closing(market_book.Book(place)) as book:
        book.write({}, None, [("ann", "0" * 32, 1, "", "", "", json.dumps(steps))])
    assert receipts.steps(place) == {("0" * 32, 1): steps}


def test_a_book_of_another_version_is_not_written(tmp_path: Path) -> None:
    """Also where it is empty; its receipts are read."""
    place = tmp_path / "book"
    market_book.Book(place).close()
    market_book.Book(place).close()
    with closing(sqlite3.connect(place / "market.sqlite")) as base, base:
        base.execute("ALTER TABLE receipts DROP COLUMN steps")
        base.execute("PRAGMA user_version = 4")
    with pytest.raises(ValueError, match="was begun by another version"):
        market_book.Book(place)
    assert receipts.kept(place) == [] and receipts.steps(place) == {}


def test_what_is_missing_may_be_declared(world: World) -> None:
    some = world.copy()
    del some.exports["bea"]
    assert {(one.owner, one.state) for one in some.wrong()} == {("bea", "missing")}
    books = list(some.books.values())
    assert audit.wrong(audit.audit(books, some.exports, without=["BEA "])) == []


def test_who_was_absent_has_a_cell_that_says_so(world: World) -> None:
    cells = audit.audit(list(world.books.values()), world.exports)
    lost = [one for one in cells if "never arrived" in one.said]
    assert [(one.market, one.owner, one.round) for one in lost] == [("second", "bea", 2)]
    assert all(one.state == "consistent" for one in cells) and len(cells) == 3 * 7 + 1
