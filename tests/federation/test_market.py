"""Markets of real processes on loopback; skipped, with a notice, where the extra is not
installed.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip(
    "flwr", reason="the extra flower is not installed: no markets of real processes"
)

import hypothesis.strategies as st
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedTrimmedAvg, Krum
from hypothesis import given, settings

import federation
from hdpm_lib.auctions.bids import FAMILIES, bids
from hdpm_lib.learners.integer_answers import record_steps
from hdpm_market import market as protocol
from hdpm_owner import aggregates, ledger, receipts
from hdpm_owner import audit as auditing
from hdpm_owner.charter import Agreed
from hdpm_owner.owner import Owner
from hdpm_owner.rehearsal import rehearsing
from hdpm_owner.shapes import shaped
from hdpm_owner.signatures import Key, canonical
from hdpm_owner.terms import Spent, Terms
from tests.federation.kills import stop_market, unanswered
from tests.federation.parts import PLAN, Hire, gap, no_room, owner_of, people, small
from tests.federation.post import (
    UNREACHED,
    Node,
    Post,
    begun,
    held,
    in_this_process,
    letters_of,
    one_round,
)

Shared = tuple[federation.Federation, Path]


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """A federation that all tests of this module share."""
    with small(tmp_path_factory.mktemp("federation")) as both:
        yield both


def audit(place: Path) -> list[str]:
    """What the books of all markets in a place and its ledgers do not agree on."""
    books = [receipts.Book.read(file.parent) for file in place.rglob("market.sqlite")]
    ledgers = {file.parent.name: ledger.read(file.parent) for file in place.rglob("ledger.sqlite")}
    ledgers = json.loads(json.dumps(ledgers))
    return list(map(str, auditing.wrong(auditing.audit(books, ledgers, models=True))))


def test_rounds_of_processes_are_those_of_fedsgd(market: Shared) -> None:
    running, test = market
    folder = running.start_run(test, rounds=2, **PLAN)
    found = running.result(folder)
    assert found["absences"] == [] and found["records"] == [60, 40]
    assert all(min(held["loss"]) > 0 and sum(held["paid"]) <= 300 for held in found["rounds"])
    assert gap(found, running.owners) <= 1e-10
    for i, own in enumerate(running.owners):
        *_, sale, one, two, closed = ledger.read(own)["entries"]
        assert closed["entry"] == "closed"
        released = [one, two]
        assert [line["round"] for line in released] == [1, 2]
        assert all(line["countersignature"] for line in released)
        losses = [line["loss"] for line in released]
        assert losses == list(sale["losses"]) == [held["loss"][i] for held in found["rounds"]]
    assert audit(running.folder.parent) == []
    paid = sum(row["owed"] for row in receipts.owed(receipts.kept(folder)))
    assert paid == pytest.approx(sum(sum(held["paid"]) for held in found["rounds"]))


def test_what_is_killed_goes_on_and_nobody_is_paid_or_charged_twice(market: Shared) -> None:
    """An owner dies after the first round, and is started again while she is asked, with a new key;
    then the market dies, and goes on with a new key.
    """
    running, test = market
    ann = running.owners[0]
    folder = running.start_run(test, rounds=5, **PLAN)
    assert federation.wait_for(lambda: len(running.rounds(folder)) == 1)
    running.kill("owner-ann")
    time.sleep(1)
    with closing(ledger.Ledger(ann, serves=False)) as kept:
        kept.rotate(time.time() + 86400)
    running.start_owner(ann)
    assert federation.wait_for(lambda: len(running.rounds(folder)) == 3)
    stop_market(running)
    Key(folder / "key").rotate(time.time() + 86400)
    found = running.result(running.start_run(test, folder, rounds=5, resume=True, **PLAN))
    losses, paid = (np.array([one[part] for one in found["rounds"]]) for part in ("loss", "paid"))
    assert losses.shape == (5, 2) and ((paid > 0) == (losses > 0)).all() and losses.min() > 0
    away = [one for one in found["absences"] if "the market ended" not in one["reason"]]
    assert audit(running.folder.parent) == [] and {one["name"] for one in away} <= {"ann"}
    assert gap(found, running.owners) <= 1e-10


THEFT = """
    tried = []
    for file in {targets!r}:
        try:
            tried.append(len(open(file, "rb").read()))
        except OSError as error:
            tried.append(type(error).__name__)
    return {{"refused": f"stolen: {{tried}}"}}
"""


def test_what_the_market_ships_cannot_read_her_data(
    market: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that looks for data where it knows them to be, and reports."""
    running, test = market
    if not federation.apart():
        pytest.skip("not root: what is shipped runs as the user to whom the data belong")
    app = shutil.copytree(federation.APP, tmp_path / "app")
    thief = app / "hdpm_market" / "client.py"
    secret = ("data.npz", "ledger.sqlite", "terms.toml")
    targets = [str(own / name) for own in running.owners for name in secret]
    theft = THEFT.format(targets=targets) + "    with socket.socket(socket.AF_UNIX"
    thief.write_text(thief.read_text().replace("    with socket.socket(socket.AF_UNIX", theft))
    monkeypatch.setattr(running, "app", app)
    folder = running.start_run(test, rounds=1, **PLAN | {"wait": 20.0, "patience": 0.001})
    with pytest.raises(RuntimeError, match="did not end"):
        running.result(folder)
    reasons = [one["reason"] for one in receipts.state(folder)["absences"]]
    assert reasons and all(f"stolen: {['PermissionError'] * 6}" in one for one in reasons)


def test_over_tls_with_registered_keys(tmp_path: Path) -> None:
    """The same market, encrypted; a node whose key nobody registered is not let in."""
    with small(tmp_path, secure=True) as (running, test):
        found = running.result(running.start_run(test, rounds=1, **PLAN))
        assert gap(found, running.owners) <= 1e-10 and found["absences"] == []
        running.kill("node-ann")
        keys = running.folder / "certificates"
        federation.certificates.make(keys / "other", ["ann"])
        shutil.copy(keys / "other" / "ann.key", keys / "ann.key")
        running.start_supernode(running.owners[0])
        logs = running.folder / "logs"
        told = "Attempted to register SuperNode with public key"
        assert federation.wait_for(lambda: told in (logs / "superlink.log").read_text())
        begun = (logs / "node-ann.log").read_text().split("Starting Flower SuperNode")
        assert "SuperNode ID" not in begun[2]


def test_in_simulation(tmp_path: Path) -> None:
    """Flower's own processes, by Ray: the same models."""
    pytest.importorskip("ray", reason="the extra simulation is not installed: no simulated markets")
    with small(tmp_path, simulated=True) as (running, test):
        # the first letter waits until Ray is there
        found = running.result(running.start_run(test, rounds=2, wait=300.0, **PLAN))
    assert found["absences"] == [] and gap(found, running.owners) <= 1e-10


# --- the market's side, without processes -------------------------------------------------------


@pytest.fixture
def hire(hire: Hire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hire:
    """Owners who approve of a market in this process."""
    in_this_process(monkeypatch)
    Key(tmp_path / "key")
    return partial(hire, joins=False)


@pytest.fixture
def two(hire: Hire) -> list[Owner]:
    return [hire("ann", epsilon=20.0, limit=None), hire("bea", epsilon=4.0, limit=None)]


def text(content: Any) -> RecordDict:
    """A reply that carries a text, or something else, in its place."""
    return RecordDict({"answer": ConfigRecord({"text": content})})


def resigned(
    own: Owner, answer: dict[str, Any], kind: str = "bid", **changes: Any
) -> dict[str, Any]:
    """A bid, or a receipt, with changes that its owner has signed."""
    text = canonical(json.loads(answer["text"]) | changes)
    return {"text": text, "signature": own.key.sign(kind, text)}


BIDS = [
    {"rate": -1.0},
    {"rate": "dear"},
    {"rate": 1e306},  # of which all-in made an error of the market's
    {"rate": 1e99, "records": 10**12},
    {"owner": 7},
    {"owner": "=1+1"},
    {"owner": "ann\x1b[2J"},
    {"records": 2.5},
    {"limit": [1.0, 2.0]},
    {"clip_norm": 9.0},
    {"rounds": 7},
    {"schema": "0" * 64},
    {"surname": "x"},
]
ANSWERS: dict[str, Any] = {
    "a refusal": text(json.dumps({"refused": "nothing is left"})),
    "an object that is no bid": {"hello": "world"},
    "a text": text(json.dumps("refused, sorry")),
    "a number": text("5"),
    "no JSON": text("{"),
    "endless brackets": text("[" * 100_000),
    "a number for a text": text(5),
    "ten million characters": text("x" * 10**7),
    "nothing in the reply": RecordDict(),
    "an error": Error(0, "out of memory"),
    "silence": None,
}
RELEASES: dict[str, dict[str, Any]] = {
    "of another shape": {"steps": [[1]]},
    "of floats": {"steps": [[0.5] * 3] * 2},
    "of words": {"steps": [["a"] * 3] * 2},
    "beyond what noise explains": {"steps": [[2**50] * 3] * 2},
    "of the most negative number": {"steps": [[-(2**63)] * 3] * 2},
    "that was made up": {"steps": [[7] * 3] * 2},
    "with another signature": {"signature": "00" * 64},
    "with another receipt": {"text": "00" * 64},
}
# of a receipt, which she signs again
RECEIPTS: list[dict[str, Any]] = [
    {"owner": "bea"},
    {"owner": None},
    {"records": 10**9},
    {"epsilon": 80.0},
    {"payment": 1e6},
    {"round": 7},
    {"steps": "0" * 64},
    {"entry": -1},
    {"entry": 1.5},
    {"chain": "x"},
    {"time": "now"},
    {"time": 1e300},
    {"junk": "x" * 500_000},
]
Spoil = Callable[[Owner, dict[str, Any]], Any]
NONE: dict[tuple[str, str], Spoil] = {
    ("bid", str(change)): partial(resigned, **change) for change in BIDS
}
for what, change in RELEASES.items():
    NONE["release", what] = lambda own, answer, change=change: answer | change
NONE |= {
    ("release", str(change)[:50]): partial(resigned, kind="receipt", **change)
    for change in RECEIPTS
}
for when, (what, one) in product(("always", "release"), ANSWERS.items()):
    NONE[when, what] = lambda own, answer, one=one: one


@pytest.mark.parametrize(("when", "what"), NONE)
def test_an_answer_that_is_none_stops_nobody_else(
    two: list[Owner], hire: Hire, tmp_path: Path, when: str, what: str
) -> None:
    """Nothing of hers counts, why is known, and the others' market is held."""
    ann, bea = two[0], hire("bea's", epsilon=4.0)

    def spoil(ask: str, answer: Any) -> Any:
        return NONE[when, what](bea, answer) if when in ("always", ask) else answer

    nodes = {1: ann.open_letter, 2: letters_of(bea, spoil)}
    market = held(nodes, tmp_path, rule="all-in" if "rate" in what else "posted prices")
    assert market.absences and all(one["reason"] for one in market.absences)
    for one in market.book.rounds:
        assert np.isfinite(one["model"]).all() and np.abs(one["model"]).max() > 0
        assert one["loss"][0] > 0 and sum(one["loss"][1:]) == sum(one["paid"][1:]) == 0
    owed = receipts.owed(receipts.kept(market.book.folder))
    assert [one["owner"] for one in owed] == ["ann"]


def test_a_stranger_under_the_name_or_the_key_of_an_owner_is_not_taken(
    two: list[Owner], tmp_path: Path
) -> None:
    """And she is: by a name of hers, by her public key, or by an answer that she gave before."""
    ann, bea = two
    third = owner_of(tmp_path / "third", joins=False, name="bea")
    old: list[Any] = []

    def replay(request: dict[str, Any]) -> Any:
        if not old:
            old.append(bea.open_letter(request))
        return old[0]

    def claim(request: dict[str, Any]) -> Any:
        answer = third.open_letter(request)
        told = json.loads(answer["text"]) | {"key": bea.key.public}
        text = canonical(told)
        return {"text": text, "signature": third.key.sign("hello", text)}

    nodes = dict(enumerate([ann.open_letter, bea.open_letter, third.open_letter, claim, replay]))
    market = held(nodes, tmp_path)
    third.ledger.close()
    assert [one.bid.owner for one in market.sellers] == ["ann", "bea"]
    reasons = " ".join(one["reason"] for one in market.absences)
    for said in ("does not invite this name", "cannot be verified", "a hello to another letter"):
        assert said in reasons


def test_a_market_that_died_anywhere_goes_on_as_if_it_had_not(
    two: list[Owner], tmp_path: Path
) -> None:
    """After a round, and when one is asked for and not yet written; nodes have new numbers."""
    ann, bea = two
    nodes = {1: ann.open_letter, 2: bea.open_letter}
    first = held(nodes, tmp_path, rounds=4, until=1)
    dead = {k: letters_of(own, lambda ask, a: None) for k, own in ((1, ann), (2, bea))}
    with pytest.raises(RuntimeError, match="too few have answered"):
        first.hold(Post(dead))
    assert ann.ledger.number == bea.ledger.number == 6
    first.book.close()
    again = held({7: bea.open_letter, 8: ann.open_letter}, tmp_path, rounds=4)
    rows = receipts.kept(tmp_path / "book")
    assert len(rows) == 8 and ann.ledger.number == bea.ledger.number == 9
    assert audit(tmp_path) == []
    assert [(one["round"], one["name"]) for one in again.absences] == [(1, "ann"), (1, "bea")]
    again.book.close()
    (tmp_path / "book" / "invitation.json").unlink()
    with pytest.raises(ValueError, match="has another charter"):
        held({7: bea.open_letter, 8: ann.open_letter}, tmp_path, rounds=5)


def test_a_market_that_goes_on_after_its_last_round_pays_who_was_away(
    two: list[Owner], tmp_path: Path
) -> None:
    """And asks nobody who has signed; a signature that is none is not kept."""
    ann, bea = two
    away = letters_of(bea, lambda ask, a: Error(0, "off") if ask == "paid" else a)
    held({1: ann.open_letter, 2: away}, tmp_path).book.close()

    def forged(ask: str, answer: Any) -> Any:
        told = {"key": bea.key.public, "signature": "00" * 64}
        return answer | {"closing": told} if ask == "paid" else answer

    market = held({1: ann.open_letter, 2: letters_of(bea, forged)}, tmp_path)
    assert market._closed.keys() == {ann.key.public}
    market.book.close()
    asked: list[str] = []
    nodes = {
        1: letters_of(ann, lambda ask, a: (asked.append(ask), a)[1]),
        2: bea.open_letter,
    }
    market = held(nodes, tmp_path)
    assert asked == ["hello"] and market._closed.keys() == {ann.key.public, bea.key.public}
    rows = ledger.read(tmp_path / "bea")["entries"]
    assert all(row["countersignature"] for row in rows if row["entry"] == "release")
    assert audit(tmp_path) == []


def test_what_was_sent_when_a_market_died_has_a_word_in_its_book(
    two: list[Owner], tmp_path: Path
) -> None:
    """Its sellers sell again, in another auction; a release that nobody names is missing."""
    ann, bea = two
    nodes: dict[int, Node] = {1: ann.open_letter, 2: bea.open_letter}
    first = begun(tmp_path)
    first.meet(Post(nodes))
    with pytest.raises(RuntimeError):
        first.hold(Post({k: letters_of(own, lambda *_: None) for k, own in enumerate(two, 1)}))
    first.absences.clear()
    first._asked.clear()
    first.book.write(first._state())
    first.book.close()
    market = held(nodes, tmp_path)
    said = "the market ended in this round: what she sent may be lost"
    assert [(one["round"], one["reason"]) for one in market.absences] == [(0, said)] * 2
    assert audit(tmp_path) == []
    book = receipts.Book.read(tmp_path / "book")
    book.state["absences"] = []
    ledgers = {own.terms.name: ledger.read(tmp_path / own.terms.name) for own in two}
    found = auditing.wrong(auditing.audit([book], json.loads(json.dumps(ledgers))))
    missing = {(one.owner, one.round) for one in found if one.state == "missing"}
    assert missing == {("ann", 1), ("bea", 1)}


def test_a_market_whose_disk_is_full_goes_on_when_there_is_room(
    two: list[Owner], tmp_path: Path
) -> None:
    """What it was sent for that round is sent again, and counts once."""
    nodes: dict[int, Node] = {k: own.open_letter for k, own in enumerate(two)}
    first = held(nodes, tmp_path, rounds=3, until=1)
    first.meet(Post(nodes))
    room = no_room(tmp_path / "book")
    full = {k: letters_of(own, lambda ask, a: (room.__enter__(), a)[1] if ask == "release" else a)
            for k, own in enumerate(two[:1])}  # fmt: skip
    with pytest.raises(sqlite3.OperationalError):
        first.hold(Post(full | {1: nodes[1]}))
    room.__exit__(None, None, None)
    assert len(first.book.rounds) == 1
    first.book.close()
    held(nodes, tmp_path, rounds=3)
    assert [own.ledger.number for own in two] == [8, 8] and audit(tmp_path) == []


def test_who_rehearses_may_be_started_again(two: list[Owner], tmp_path: Path) -> None:
    """With a ledger that begins anew."""
    ann = two[0]
    begun(tmp_path, rounds=4, rehearsal=True).book.close()
    for number in (1, 4):
        with rehearsing(tmp_path / "ann", 40) as own:
            market = held({1: own.open_letter}, tmp_path, rounds=4, until=number)
            market.book.close()
    # of the sale that is gone with the first she says so, and then she sells again
    assert [sum(one["loss"]) > 0 for one in market.book.rounds] == [True, False, True, True]
    assert ann.ledger.spent == Spent()


def test_who_is_late_or_comes_back_at_another_node_sells_the_rest(
    two: list[Owner], tmp_path: Path
) -> None:
    """Bea comes in the second round, is silent in the third and sits out the fourth; all that she
    has is sold at the end, and Ann's share is for the rounds that are left.
    """
    ann, bea = two
    market = begun(tmp_path, rounds=6)
    back: dict[int, Node] = {9: bea.open_letter}
    for hers in ({}, {2: bea.open_letter}, {2: lambda _: None}, back, back, back):
        one_round(market, {1: ann.open_letter} | hers)
    market.run(Post({1: ann.open_letter} | back))  # which closes
    losses = np.array([one["loss"] for one in protocol.padded(market.book.rounds)])
    assert (losses[:, 0] > 0).all()
    assert (losses[:, 1] > 0).tolist() == [False, True, False, False, True, True]
    assert {one["name"] for one in market.absences} == {"bea"}
    assert bea.ledger.spent.pure == pytest.approx(4.0) and audit(tmp_path) == []
    assert unanswered(market.book.folder) == set()


def test_keys_change_within_a_market(two: list[Owner], tmp_path: Path) -> None:
    """An owner's after the first round, the market's after the second; then it is resumed, and a
    market that comes later knows her by her first key.
    """
    ann, bea = two
    nodes: dict[int, Node] = {1: ann.open_letter, 2: bea.open_letter}
    market = begun(tmp_path, rounds=4)
    first = ann.key.public
    one_round(market, nodes)
    ann.ledger.rotate(time.time() + 86400)
    one_round(market, nodes)
    Key(tmp_path / "key").rotate(time.time() + 86400)
    one_round(market, nodes)
    market.book.close()
    market = held(nodes, tmp_path, rounds=4)
    rows = receipts.kept(tmp_path / "book")
    assert ann.key.public != first and len(market.roster) == 2 and market.absences == []
    assert all(min(one["loss"]) > 0 for one in market.book.rounds)
    assert audit(tmp_path) == []
    assert [one["rounds"] for one in receipts.owed(rows)] == [4, 4]
    after = begun(tmp_path, earlier=("book",), folder="next")
    after._find(Post(nodes))
    assert after._here().keys() == {first, bea.key.public}
    assert after._seen[first].entry == ann.ledger.number - 2  # closed, and joined the next


@pytest.mark.parametrize("ask", ["hello", "bid", "release"])
@pytest.mark.parametrize("what", ["of another's key", "shown after the end", "a second one"])
def test_an_owner_who_shows_a_statement_that_is_not_true_is_not_taken(
    two: list[Owner], tmp_path: Path, what: str, ask: str
) -> None:
    """The others' market is held."""
    ann, bea = two
    (first,) = bea.key.successor(time.time() + 9).line
    until = time.time() + 9 - 18 * (what == "shown after the end")
    (second,) = bea.key.successor(until).line
    line = [vars(first)] * (what == "a second one") + [vars(second)]
    if what == "of another's key":
        line = [vars(first) | {"new": Key(tmp_path / "eve").public}]

    def spoil(asked: str, answer: Any) -> Any:
        return answer | {"line": line} if asked == ask and "refused" not in answer else answer

    market = held({1: ann.open_letter, 2: letters_of(bea, spoil)}, tmp_path)
    name = "node 2" if ask == "hello" else "bea"  # who has not shown who she is has no name
    assert {one["name"] for one in market.absences} == {name}
    assert all(one["loss"][0] > 0 and sum(one["loss"][1:]) == 0 for one in market.book.rounds)


def test_a_copy_with_the_old_key_beside_the_new_one_is_not_taken(
    two: list[Owner], tmp_path: Path
) -> None:
    ann, bea = two
    shutil.copytree(tmp_path / "bea", tmp_path / "old", ignore=shutil.ignore_patterns("*.lock"))
    old = Owner(tmp_path / "old")
    bea.ledger.rotate(time.time() + 86400)
    nodes = {1: ann.open_letter, 2: bea.open_letter, 3: old.open_letter}
    market = held(nodes, tmp_path)
    old.ledger.close()
    assert [one.bid.owner for one in market.sellers] == ["ann"]


@pytest.mark.parametrize("ask", ["hello", "release"])
def test_who_cannot_be_reached_is_named(two: list[Owner], tmp_path: Path, ask: str) -> None:
    ann, bea = two
    nodes = {7: ann.open_letter, 8: bea.open_letter}
    held(nodes, tmp_path, until=1).book.close()
    nodes[8] = letters_of(bea, lambda asked, a: UNREACHED if asked == ask else a)
    told = held(nodes, tmp_path).absences
    assert told[0]["reason"] == "Node Unavailable" and {one["name"] for one in told} == {"bea"}


@pytest.mark.parametrize("when", ["bid", "sale"])
def test_who_is_down_when_sales_are_agreed_sells_the_rest(
    two: list[Owner], tmp_path: Path, when: str
) -> None:
    ann, bea = two
    answers = iter([Error(0, "no door")])
    late = letters_of(bea, lambda ask, a: next(answers, a) if ask == when else a)
    market = held({1: ann.open_letter, 2: late}, tmp_path, rounds=3)
    losses = np.array([one["loss"] for one in protocol.padded(market.book.rounds)])
    assert (losses > 0).tolist() == [[True, False], [True, True], [True, True]]
    assert bea.ledger.spent.pure == pytest.approx(4.0) and audit(tmp_path) == []


def test_below_its_quorum_a_round_gives_everybody_time_to_answer(
    two: list[Owner], tmp_path: Path
) -> None:
    """A process needs seconds: an answer that comes later than it is waited for is lost."""
    given: list[float] = []
    market = begun(tmp_path, quorum=2, patience=3e-4)
    nodes: dict[int, Node] = {k: own.open_letter for k, own in enumerate(two)}
    market.meet(Post(nodes))
    grid = Post({0: nodes[0], 1: lambda _: None})
    send = grid.send_and_receive
    grid.send_and_receive = lambda m, timeout: (given.append(timeout), send(m))[1]  # type: ignore
    with pytest.raises(RuntimeError):
        market.hold(grid)
    assert len(given) > 3 and min(given) >= 0.1
    told = receipts.state(market.book.folder)["absences"]
    assert told == [{"round": 0, "name": "bea", "reason": "no answer in 0.2 s"}]


def test_who_is_silent_has_a_name_after_the_market_died(two: list[Owner], tmp_path: Path) -> None:
    nodes: dict[int, Node] = {k: own.open_letter for k, own in enumerate(two)}
    held(nodes, tmp_path, until=1).book.close()
    again = held(nodes | {1: lambda _: None}, tmp_path)
    assert {one["name"] for one in again.absences} == unanswered(again.book.folder) == {"bea"}


def test_who_dies_for_a_moment_is_asked_again_in_the_same_round(
    two: list[Owner], tmp_path: Path
) -> None:
    ann, bea = two
    answers = iter([None, Error(0, "no door"), None])
    late = letters_of(bea, lambda ask, a: next(answers, a) if ask == "release" else a)
    market = held({1: ann.open_letter, 2: late}, tmp_path, wait=2.0)
    assert all(min(one["loss"]) > 0 for one in market.book.rounds) and market.absences == []
    assert bea.ledger.spent.pure == pytest.approx(4.0)


def test_below_a_quorum_nobody_is_asked_for_a_sale(hire: Hire, tmp_path: Path) -> None:
    """Nor charged, for a mean that could not be trimmed; a third one opens the market."""
    owners = [hire(name, limit=None) for name in ("ann", "bea", "cem")]
    nodes: dict[int, Node] = {k: own.open_letter for k, own in enumerate(owners)}
    some = {k: nodes[k] for k in (0, 1)} | {2: lambda _: None}
    plan = {"aggregate": "trimmed mean", "liars": 1}
    with pytest.raises(RuntimeError, match="0 sellers are here, and 3 are needed"):
        held(some, tmp_path, **plan)
    assert all(own.ledger.sales == {} for own in owners)
    market = held(nodes, tmp_path, until=1, **plan)
    # a node that is silent before she is asked
    with pytest.raises(RuntimeError, match="resume the market"):
        one_round(market, some)
    assert [own.ledger.spent.pure for own in owners] == [Fraction(3, 2)] * 3
    held(nodes, tmp_path, **plan)
    assert [own.ledger.spent.pure for own in owners] == [3] * 3 and audit(tmp_path) == []


def test_who_claims_records_and_does_not_deliver_is_out(hire: Hire, tmp_path: Path) -> None:
    """The auction is held again for the others, with all of the money."""
    ann, bea = (hire(name, epsilon=20.0) for name in ("ann", "bea"))
    eve = hire("eve", epsilon=20.0, rate=1e-3)

    def lie(request: dict[str, Any]) -> Any:
        letter = json.loads(request["text"])
        answer = eve.open_letter(request)
        if letter["ask"] == "sale":
            told = {"charter": letter["charter"], "key": eve.key.public, "sold": letter["ticket"]}
            text = canonical(told | {"entry": 9, "chain": "0" * 64})
            return {"text": text, "signature": eve.key.sign("sold", text)}
        return resigned(eve, answer, records=2_000_000) if letter["ask"] == "bid" else answer

    nodes = {1: ann.open_letter, 2: bea.open_letter, 3: lie}
    market = held(nodes, tmp_path, rounds=3, budget=300.0)
    paid = np.array([one["paid"] for one in protocol.padded(market.book.rounds)])
    assert paid[:, 2].max() == 0 and paid[1].sum() > 10 * paid[0].sum()


def test_who_has_nothing_left_sells_nothing(two: list[Owner], tmp_path: Path) -> None:
    """No dust that rounding has left."""
    nodes = {k: own.open_letter for k, own in enumerate(two)}
    held(nodes, tmp_path, rounds=5)
    numbers = [own.ledger.number for own in two]
    (tmp_path / "book").rename(tmp_path / "first")
    with pytest.raises(RuntimeError, match="0 sellers are here, and 1 are needed"):
        held(nodes, tmp_path, rounds=5)
    assert [own.ledger.number for own in two] == numbers


def test_an_older_copy_of_her_folder_sells_nothing_and_the_audit_names_it(
    two: list[Owner], hire: Hire, tmp_path: Path
) -> None:
    """Where nobody remembers, both markets' receipts tell."""
    ann, bea = two
    shutil.copytree(tmp_path / "ann", tmp_path / "old")
    held({1: ann.open_letter, 2: bea.open_letter}, tmp_path)
    ann.ledger.close()
    shutil.rmtree(tmp_path / "ann")
    (tmp_path / "old").rename(tmp_path / "ann")
    old = Owner(tmp_path / "ann")
    (tmp_path / "book").rename(tmp_path / "first")
    rows = receipts.kept(tmp_path / "first")
    market = begun(tmp_path)
    market._seen = receipts.last_seen(rows)
    with pytest.raises(RuntimeError):
        market.run(Post({1: old.open_letter}))
    assert any("does not have entry 6" in one["reason"] for one in market.absences)
    assert old.ledger.number == 3
    market.book.close()
    shutil.rmtree(tmp_path / "book")
    held({1: old.open_letter}, tmp_path)
    old.ledger.close()
    said = audit(tmp_path)
    assert sum("has two chains" in one for one in said) == 2
    assert any("two books of one charter differ" in one for one in said)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_where_a_record_is_protected_a_step_is_that_of_all_records(
    hire: Hire, tmp_path: Path, noise: str
) -> None:
    """With a loss so large that noise is small: the mean of all records' clipped gradients."""
    rng = np.random.default_rng(2)
    kind = {"unit": "record", "noise": noise}
    terms = kind | {"epsilon": 1e7, "delta": 1e-5, "limit": 2e3}
    owners = [hire(name, people(n, rng), **terms) for name, n in (("ann", 30), ("bea", 70))]
    nodes: dict[int, Node] = {k: own.open_letter for k, own in enumerate(owners)}
    market = held(nodes, tmp_path, rounds=1, budget=1e9, **kind)
    x = np.concatenate([own._features for own in owners])
    y = np.concatenate([own._labels for own in owners])
    norm = 2 if noise == "gaussian" else 1
    steps = record_steps(np.zeros((2, 3)), x, y, 1.0, Terms.spacing, norm=norm)
    assert np.allclose(market.model, -2.0 * steps * Terms.spacing / 100, atol=2e-3)


def test_one_liar_moves_a_robust_market_less(hire: Hire, tmp_path: Path) -> None:
    """Five owners of the same law, one of whom has turned all labels and sends long gradients."""
    rng = np.random.default_rng(3)
    owners = []
    kind = {"unit": "record", "noise": "gaussian"}
    terms = kind | {"epsilon": 1e4, "delta": 1e-5, "limit": 50.0}
    for name in ("ann", "bea", "cem", "dan", "eve"):
        rows = people(200, rng)
        rows["ill"] = np.where((rows["a"] > 0.5) == (name != "eve"), "yes", "no")
        owners.append(hire(name, rows, **terms))
    owners[4]._features *= 50
    nodes = {k: own.open_letter for k, own in enumerate(owners)}
    slopes = []
    for aggregate in ("least error", "trimmed mean", "krum"):
        shutil.rmtree(tmp_path / "book", ignore_errors=True)
        market = held(nodes, tmp_path, rounds=3, aggregate=aggregate, liars=1, budget=1e9, **kind)
        assert not market.absences
        slopes.append(market.model[1, 0] - market.model[0, 0])
    assert min(slopes[1:]) > max(slopes[0], 0.1)  # who is ill has a large value of a


@pytest.mark.parametrize("liars", [1, 2])
def test_what_bears_liars_is_what_flower_does(liars: int, hire: Hire) -> None:
    """`hire` lets letters be written."""
    gradients = np.random.default_rng(liars).standard_normal((7, 2, 3))
    ask = Message(RecordDict(), dst_node_id=1, message_type="train")
    ask.metadata.__dict__["_message_id"] = "letter"
    more = MetricRecord({"num-examples": 1})
    for ours, theirs in (
        (aggregates.trimmed_mean, FedTrimmedAvg(beta=(liars + 0.01) / 7)),
        (aggregates.krum, Krum(num_malicious_nodes=liars)),
    ):
        sent = [RecordDict({"a": ArrayRecord({"w": Array(g)}), "m": more}) for g in gradients]
        found, _ = theirs.aggregate_train(1, [Message(one, reply_to=ask) for one in sent])
        assert found is not None
        np.testing.assert_allclose(ours(gradients, liars), found["w"].numpy(), atol=1e-12)


@given(data=st.data())
@settings(max_examples=60)
def test_any_bid_that_is_taken_is_borne_by_any_auction(data: st.DataObject) -> None:
    """Of all numbers that its shape lets through, whoever else bids."""
    numbers = st.floats(1e-100, 1e100)
    columns = []
    for _ in range(data.draw(st.integers(1, 3))):
        family, rate = data.draw(st.sampled_from(FAMILIES)), data.draw(numbers)
        limit, records = data.draw(st.floats(1e-100, 1e12)), data.draw(st.integers(1, 2**50))
        try:
            valued = bids([family], rate, limit, records).full_valuation[0]
        except ValueError:  # a limit that no exponential bears
            continue
        if protocol.LEAST <= valued <= protocol.MOST:
            columns.append((family, rate, limit, records))
    for rule in protocol.RULES.values() if columns else []:
        sold = rule()(bids(*map(list, zip(*columns, strict=True))), 1000.0)
        assert np.isfinite(sold.privacy_loss).all() and np.isfinite(sold.payments).all()
        assert sold.payments.sum() <= 1000.0 * (1 + 1e-9)


@pytest.mark.parametrize("part", ["rule", "aggregate"])
def test_an_unknown_rule_is_named(part: str) -> None:
    with pytest.raises(ValueError, match=f"{part} must be one of .*, got 'first come'"):
        shaped(Agreed, {"rounds": 1, part: "first come"})
