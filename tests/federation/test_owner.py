"""An owner against markets that lie, and against death at any moment. Needs nothing but the library."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from fractions import Fraction
from multiprocessing.connection import Client, Pipe
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays

import hdpm_owner.__main__ as door
from hdpm_lib.auctions.bids import bids
from hdpm_lib.learners.gradients import local_gradients
from hdpm_lib.learners.integer_answers import integer_gradients
from hdpm_owner import ledger as ledgers
from hdpm_owner.ledger import Ledger, Release, Sale
from hdpm_owner.owner import Owner, Terms, stream

TERMS = {"name": "ann", "family": "linear", "rate": 1.0, "limit": 1.0, "total": 3.0, "classes": 2, "features": 3}
MODEL = [[0.0, 0.0, 0.0], [0.1, 0.0, -0.1]]


def folder_of(place: Path, **changes: Any) -> Path:
    """An owner of forty records."""
    place.mkdir(exist_ok=True)
    lines = [f"{name} = {json.dumps(value)}" for name, value in (TERMS | changes).items()]
    (place / "terms.toml").write_text("\n".join(lines))
    rng = np.random.default_rng(0)
    np.savez(place / "data.npz", features=rng.random((40, 3)), labels=rng.integers(2, size=40))
    return place


def sold(owner: Owner, losses: list[float], pay: float = 1e6) -> str:
    """A sale of these losses; its ticket."""
    ticket = owner.answer({"ask": "bid", "rounds": len(losses)})["ticket"]
    payments = [pay] * len(losses)
    said = owner.answer({"ask": "sale", "ticket": ticket, "records": 40, "losses": losses, "payments": payments})
    assert said == {"sold": ticket}
    return ticket


def ask(owner: Owner, ticket: str, number: int, loss: float = 1.0, model: Any = MODEL) -> dict[str, Any]:
    """A request for the release of a round."""
    return owner.answer({"ask": "release", "ticket": ticket, "round": number, "loss": loss, "model": model})


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    own = Owner(folder_of(tmp_path / "ann", seed=3))
    yield own
    own.ledger.close()


def test_a_release_is_the_librarys_and_counts(owner: Owner, tmp_path: Path) -> None:
    ticket = sold(owner, [1.0, 0.5])
    found = np.array(ask(owner, ticket, 2, 0.5)["gradient"])
    with np.load(tmp_path / "ann" / "data.npz") as data:
        gradient = local_gradients(np.array(MODEL)[None], data["features"], data["labels"], [np.arange(40)])[:, 0]
    assert (found == integer_gradients(gradient, [0.5], 1.0, spacing=2.0**-20, rng=stream(3, 1, 2))[0]).all()
    assert owner.ledger.spent == Fraction(1, 2)


def test_without_a_seed_no_two_owners_have_one_noise(tmp_path: Path) -> None:
    answers = []
    for name in "ab":
        other = Owner(folder_of(tmp_path / name))
        answers.append(ask(other, sold(other, [1.0]), 1)["gradient"])
        other.ledger.close()
    assert answers[0] != answers[1]


# --- a market that lies -----------------------------------------------------------------------------------------------

LIES = {
    "asks twice, at another model": lambda own, t: (ask(own, t, 1), ask(own, t, 1, model=[[1.0] * 3] * 2))[1],
    "resends a letter": lambda own, t: (ask(own, t, 1), ask(own, t, 1))[1],
    "asks more than was sold": lambda own, t: ask(own, t, 1, 1.5),
    "asks less than was sold, to name another loss": lambda own, t: ask(own, t, 1, 0.5),
    "asks in a round without a sale": lambda own, t: ask(own, t, 3),
    "asks in a round in which nothing was sold": lambda own, t: ask(own, t, 2, 0.0),
    "asks in round 0": lambda own, t: ask(own, t, 0),
    "invents a ticket": lambda own, t: ask(own, "0" * 32, 1),
    "comes with the ticket of a sale that another has closed": lambda own, t: (sold(own, [1.0]), ask(own, t, 1))[1],
    "sends a model of another shape": lambda own, t: ask(own, t, 1, model=[[0.0] * 4] * 2),
    "sends a model with nothing in it": lambda own, t: ask(own, t, 1, model=[]),
    "sends a model that is no number": lambda own, t: ask(own, t, 1, model=[[float("nan")] * 3] * 2),
    "sends words for a model": lambda own, t: ask(own, t, 1, model="weights"),
    "says true for the round": lambda own, t: ask(own, t, True),
    "asks for something else": lambda own, t: own.answer({"ask": "data"}),
    "asks for a method": lambda own, t: own.answer({"ask": "__init__", "folder": "/"}),
    "asks with an argument of its own": lambda own, t: own.answer({"ask": "bid", "rounds": 1, "seed": 1}),
    "asks in no words": lambda own, t: own.answer(None),
    "asks for a bid on no rounds": lambda own, t: own.answer({"ask": "bid", "rounds": 0}),
    "asks for a bid on endless rounds": lambda own, t: own.answer({"ask": "bid", "rounds": 10**9}),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_market_that_lies_gets_nothing(owner: Owner, lie: str) -> None:
    ticket = sold(owner, [1.0, 0.0])
    answer = LIES[lie](owner, ticket)
    assert set(answer) == {"refused"} and answer["refused"]
    spent = {entry.round for entry in owner.ledger.entries if isinstance(entry, Release)}
    assert spent <= {1} and owner.ledger.spent == len(spent)


OFFERS = {
    "swaps sizes": {"records": 4},
    "offers more than she bid": {"losses": [1.0, 1.25]},
    "pays less than her cost": {"payments": [1e6, 79.0]},
    "pays nothing": {"payments": [0.0, 0.0]},
    "pays what is no number": {"payments": [float("nan"), 1e6]},
    "sells a negative loss": {"losses": [1.0, -1.0]},
    "has more rounds": {"losses": [1.0] * 3, "payments": [1e6] * 3},
    "forgets a payment": {"payments": [1e6]},
    "has an old ticket": {"ticket": "0" * 32},
    "buys a loss too small for her noise": {"losses": [1.0, 1e-12]},
}


@pytest.mark.parametrize("lie", OFFERS)
def test_a_sale_that_is_not_what_she_bid_is_refused(owner: Owner, lie: str) -> None:
    bid = owner.answer({"ask": "bid", "rounds": 2})
    offer = {"ask": "sale", "ticket": bid["ticket"], "records": 40, "losses": [1.0, 1.0], "payments": [1e6, 80.0]}
    assert set(owner.answer(offer | OFFERS[lie])) == {"refused"}
    assert not owner.ledger.entries
    assert set(owner.answer(offer)) == {"sold"}  # 80 covers a loss of 1 for 40 records at a rate of 1, exactly


def test_an_offer_is_accepted_once(owner: Owner) -> None:
    ticket = sold(owner, [1.0])
    again = {"ask": "sale", "ticket": ticket, "records": 40, "losses": [1.0], "payments": [1e6]}
    assert set(owner.answer(again)) == {"refused"}


def test_the_total_holds_over_rounds_runs_and_restarts(tmp_path: Path) -> None:
    """A total of 3 and losses of 1, whatever is asked: never more than three releases."""
    folder, released = folder_of(tmp_path / "ann"), 0
    for _ in range(5):
        own = Owner(folder)
        for _ in range(2):
            bid = own.answer({"ask": "bid", "rounds": 1})
            if "refused" in bid:
                assert "nothing is left" in bid["refused"]
                continue
            offer = {"records": 40, "losses": [bid["limit"]], "payments": [1e6], "ticket": bid["ticket"]}
            assert "sold" in own.answer({"ask": "sale"} | offer)
            released += "gradient" in ask(own, bid["ticket"], 1, bid["limit"])
        own.ledger.close()
    assert released == 3 and own.ledger.spent == 3


@given(
    total=st.floats(1e-3, 50),
    limit=st.floats(1e-3, 20),
    rounds=st.integers(1, 60),
)
@settings(max_examples=200, deadline=None)
def test_what_she_bids_never_adds_up_to_more_than_she_has(total: float, limit: float, rounds: int) -> None:
    from hdpm_owner.owner import _share

    offered = min(limit, _share(Fraction(total), rounds))
    assert Fraction(offered) * rounds <= Fraction(total)
    assert offered == limit or offered * rounds >= total * (1 - 1e-15) - 1e-300


# --- totality and silence ---------------------------------------------------------------------------------------------


@given(arrays(float, (4, 3), elements=st.floats(allow_nan=True, allow_infinity=True, width=64)), st.booleans())
@settings(max_examples=60, deadline=None)
def test_whatever_her_data_a_release_comes(tmp_path_factory: pytest.TempPathFactory, features: Any, label: bool) -> None:
    """Warnings are errors in these tests, so that silence is tested too."""
    place = folder_of(tmp_path_factory.mktemp("owner"))
    np.savez(place / "data.npz", features=features, labels=np.full(4, int(label)))
    own = Owner(place)
    ticket = own.answer({"ask": "bid", "rounds": 1})["ticket"]
    offer = {"ask": "sale", "ticket": ticket, "records": 4, "losses": [1.0], "payments": [1e6]}
    assert "sold" in own.answer(offer)
    found = np.array(ask(own, ticket, 1, model=[[1e300] * 3, [-1e300] * 3])["gradient"])
    assert found.shape == (2, 3) and np.isfinite(found).all()
    own.ledger.close()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"limit": 0.0}, "limit must be positive"),
        ({"family": "cubic"}, "family must be"),
        ({"classes": 1}, "classes must be"),
        ({"surname": "x"}, "unexpected keyword"),
        ({"features": 4}, "features must have 4 columns"),
    ],
)
def test_terms_that_are_none_stop_her_at_the_start(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Owner(folder_of(tmp_path / "ann", **changes))


# --- the ledger -------------------------------------------------------------------------------------------------------


def test_a_line_cut_at_any_byte_is_dropped_and_the_rest_stays(tmp_path: Path) -> None:
    file = tmp_path / "ledger.jsonl"
    first, last = Sale("a", (1.0, 0.1), (2.0, 3.0)), Release("a", 1, 1.0)
    book = Ledger(file)
    book.write(first)
    before = file.read_bytes()
    book.write(last)
    book.close()
    whole = file.read_bytes()
    for cut in range(len(before), len(whole) + 1):
        file.write_bytes(whole[:cut])
        book = Ledger(file)
        assert book.entries == ([first, last] if cut == len(whole) else [first])
        book.write(last)
        book.close()
        assert file.read_bytes() == (whole + whole[len(before) :] if cut == len(whole) else whole)


@pytest.mark.parametrize("damage", [b"{}\n", b"nonsense\n", b'{"entry": "release", "ticket": "a"}\n', b"\xff\n"])
def test_a_damaged_ledger_is_not_opened(tmp_path: Path, damage: bytes) -> None:
    file = tmp_path / "ledger.jsonl"
    file.write_bytes(b'{"entry": "release", "ticket": "a", "round": 1, "loss": 1.0}\n' + damage)
    with pytest.raises(ValueError, match="line 2 of the ledger .* is damaged: nothing is sent"):
        Ledger(file)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    first = Ledger(tmp_path / "ledger.jsonl")
    with pytest.raises(RuntimeError, match="another process holds the ledger"):
        Ledger(tmp_path / "ledger.jsonl")
    first.close()


# --- death at any moment ----------------------------------------------------------------------------------------------


def _round_in_a_child(folder: Path, ticket: str, step: int) -> tuple[bool, int]:
    """Ask for a round in a forked child that is killed at its `step`-th line: whether the answer was out, and its lines."""
    here, there = Pipe(duplex=False)
    if child := os.fork():
        there.close()
        os.waitpid(child, 0)
        try:
            answer, lines = json.loads(here.recv_bytes())
        except EOFError:
            return False, step
        finally:
            here.close()
        return "gradient" in answer, lines
    lines = 0

    def killer(frame: Any, event: str, _: Any) -> Any:
        nonlocal lines
        if "hdpm_owner" not in Path(frame.f_code.co_filename).parts:
            return None  # the library touches no disk
        if event == "line":
            lines += 1
            if lines == step:
                os.kill(os.getpid(), signal.SIGKILL)
        return killer

    own = Owner(folder)
    sys.settrace(killer)
    answer = ask(own, ticket, 1)
    sys.settrace(None)
    there.send_bytes(json.dumps([answer, lines]).encode())
    os._exit(0)


def deaths(place: Path) -> tuple[int, bool, int]:
    """Kill an owner at every line of a round in turn, the last first, start her again, and ask for the same round.

    Returns the number of lines, whether two releases of one round were had, and how many were counted that nobody got.
    """
    lines, lost, step = 0, 0, 10**9  # at first to the end
    while step > 0:
        folder = folder_of(place / str(step), seed=3)  # which makes each round run the same lines
        own = Owner(folder)
        ticket = sold(own, [1.0])
        own.ledger.close()
        out, ran = _round_in_a_child(folder, ticket, step)
        own = Owner(folder)
        counted, again = own.ledger.spent == 1, ask(own, ticket, 1)
        own.ledger.close()
        assert ("gradient" in again) is not counted, again  # a round that is counted cannot be had, any other can
        if out and not counted:
            return lines, True, lost
        lost += counted and not out
        lines = lines or ran
        step = min(step - 1, lines)
    return lines, False, lost


def test_killed_at_every_line_of_a_round_she_counts_what_left_her(tmp_path: Path) -> None:
    lines, twice, lost = deaths(tmp_path)
    assert lines > 30 and not twice
    assert 0 < lost < lines  # rounds that she counts though nobody has them: never too little


def test_an_owner_who_sends_before_she_writes_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same check on a ledger that is behind: the entry is written when the next one comes."""
    real, kept = Ledger.write, []

    def late(self: Ledger, entry: ledgers.Entry) -> None:
        if isinstance(entry, Release):
            kept.append(entry)
            self.entries.append(entry)
        else:
            real(self, entry)

    monkeypatch.setattr(Ledger, "write", late)
    assert deaths(tmp_path)[1]


# --- the door ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def knock(owner: Owner, tmp_path: Path) -> Any:
    """A way to send bytes to an owner who serves in a thread."""
    place = tmp_path / "door"
    threading.Thread(target=door.serve, args=(owner, place), daemon=True).start()

    def send(content: bytes, wait: bool = True) -> Any:
        for _ in range(200):
            try:
                caller = Client(str(place), family="AF_UNIX")
                break
            except (FileNotFoundError, ConnectionRefusedError):
                threading.Event().wait(0.02)
        with caller:
            caller.send_bytes(content)
            return json.loads(caller.recv_bytes()) if wait else None

    return send


def test_the_door_answers_json_and_survives_everything_else(knock: Any) -> None:
    assert knock(b'{"ask": "bid", "rounds": 1}')["records"] == 40
    for nonsense in (b"", b"\x80\x04\x95cposix\nsystem\n", b"[" * 100_000, b"1e999", b'"bid"', b"\xff\xfe"):
        assert set(knock(nonsense)) == {"refused"}
    knock(b'{"ask": "bid", "rounds": 1}', wait=False)  # hangs up before the answer
    assert knock(b'{"ask": "bid", "rounds": 1}')["limit"] == 1.0


def test_the_ledger_is_printed(owner: Owner, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask(owner, sold(owner, [0.5]), 1, 0.5)
    owner.ledger.close()
    door.main([str(tmp_path / "ann"), "--ledger"])
    assert "round=1, loss=0.5" in (out := capsys.readouterr().out) and "spent: 0.5" in out


def test_her_cost_is_that_of_the_library(owner: Owner) -> None:
    bid = owner.answer({"ask": "bid", "rounds": 1})
    market = bids([bid["family"]], bid["rate"], bid["limit"], bid["records"])
    assert float(market.full_valuation[0]) == 80.0 and Terms(**TERMS).seed is None
