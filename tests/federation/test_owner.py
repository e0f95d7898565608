"""An owner against markets that lie, and against death at any moment. Needs nothing but the library."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays

import hdpm_owner.__main__ as door
from hdpm_lib.learners.gradients import local_gradients
from hdpm_lib.learners.integer_answers import integer_gradients
from hdpm_owner.ledger import Ledger, Release, Sale
from hdpm_owner.owner import Owner, _share, stream
from tests.federation.parts import LIES, MODEL, ask, deaths_in_a_process, owner_of, sell


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    own = owner_of(tmp_path / "ann", seed=3)
    yield own
    own.ledger.close()


def test_a_release_is_the_librarys_and_counts(owner: Owner, tmp_path: Path) -> None:
    ticket = sell(owner, [1.0, 0.5])
    found = np.array(ask(owner, ticket, 2, 0.5)["gradient"])
    with np.load(tmp_path / "ann" / "data.npz") as data:
        gradient = local_gradients(np.array(MODEL)[None], data["features"], data["labels"], [np.arange(40)])[:, 0]
    assert (found == integer_gradients(gradient, [0.5], 1.0, spacing=2.0**-20, rng=stream(3, 1, 2))[0]).all()
    assert owner.ledger.spent == Fraction(1, 2)


def test_without_a_seed_no_two_owners_have_one_noise(tmp_path: Path) -> None:
    answers = []
    for name in "ab":
        other = owner_of(tmp_path / name)
        answers.append(ask(other, sell(other, [1.0]), 1)["gradient"])
        other.ledger.close()
    assert answers[0] != answers[1]


# --- a market that lies -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lie", LIES)
def test_a_market_that_lies_gets_nothing(owner: Owner, lie: str) -> None:
    """What an owner has lost after a lie is the honest round that came before it, if there was one."""
    answer = LIES[lie](owner, sell(owner, [1.0, 0.0]))
    assert answer.keys() == {"refused"} and len(answer["refused"]) > 10
    assert owner.ledger.spent == lie.startswith("asks twice")


def test_a_payment_that_covers_her_cost_exactly_is_enough(owner: Owner) -> None:
    ticket = owner.answer({"ask": "bid", "rounds": 1})["ticket"]
    offer = {"ask": "sale", "ticket": ticket, "records": 40, "losses": [1.0], "payments": [80.0]}
    assert "refused" in owner.answer(offer | {"payments": [79.999]})
    assert owner.answer(offer) == {"sold": ticket}


def test_the_total_holds_over_rounds_runs_and_restarts(tmp_path: Path) -> None:
    """A total of 3 and losses of 1, whatever is asked: never more than three releases."""
    folder, released = tmp_path / "ann", 0
    for _ in range(5):
        own = owner_of(folder)
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


@given(total=st.floats(1e-3, 50), limit=st.floats(1e-3, 20), rounds=st.integers(1, 60))
@settings(max_examples=200, deadline=None)
def test_what_she_bids_never_adds_up_to_more_than_she_has(total: float, limit: float, rounds: int) -> None:
    offered = min(limit, _share(Fraction(total), rounds))
    assert Fraction(offered) * rounds <= Fraction(total)
    assert offered == limit or offered * rounds >= total * (1 - 1e-15) - 1e-300


# --- totality and silence ---------------------------------------------------------------------------------------------


@given(arrays(float, (4, 3), elements=st.floats(allow_nan=True, allow_infinity=True, width=64)), st.booleans())
@settings(max_examples=60, deadline=None)
def test_whatever_her_data_a_release_comes(
    tmp_path_factory: pytest.TempPathFactory, features: Any, label: bool
) -> None:
    """Warnings are errors in these tests, so that silence is tested too."""
    place = tmp_path_factory.mktemp("owner")
    np.savez(place / "data.npz", features=features, labels=np.full(4, int(label)))
    own = owner_of(place)
    ticket = own.answer({"ask": "bid", "rounds": 1})["ticket"]
    offer = {"ask": "sale", "ticket": ticket, "records": 4, "losses": [1.0], "payments": [1e6]}
    assert "sold" in own.answer(offer)
    found = np.array(ask(own, ticket, 1, model=[[1e300] * 3, [-1e300] * 3])["gradient"])
    assert found.shape == (2, 3) and np.isfinite(found).all()
    own.ledger.close()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"limit": 0.0}, "terms.toml: limit must be positive"),
        ({"family": "cubic"}, "terms.toml: family must be"),
        ({"classes": 1}, "terms.toml: classes must be"),
        ({"surname": 1}, "terms.toml: .*unexpected keyword argument 'surname'"),
        ({"features": 4}, "features must have 4 columns"),
    ],
)
def test_terms_that_are_none_stop_her_at_the_start(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        owner_of(tmp_path, **changes)


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
    with pytest.raises(ValueError, match=r"line 2 of the ledger .* is damaged: nothing is sent"):
        Ledger(file)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with closing(Ledger(tmp_path / "ledger.jsonl")), pytest.raises(RuntimeError, match="another process holds the"):
        Ledger(tmp_path / "ledger.jsonl")


# --- death at any moment ----------------------------------------------------------------------------------------------


def test_killed_at_every_line_of_a_round_she_counts_what_left_her(tmp_path: Path) -> None:
    found = deaths_in_a_process(tmp_path)
    assert found["lines"] > 30 and not found["twice"]
    assert 0 < found["lost"] < found["lines"]  # rounds that she counts though nobody has them: never too little


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
    ask(owner, sell(owner, [0.5]), 1, 0.5)
    owner.ledger.close()
    door.main([str(tmp_path / "ann"), "--ledger"])
    sale, release, total = capsys.readouterr().out.splitlines()
    assert "sold: 1 rounds, losses of 0.5 for 1e+06" in sale
    assert "round 1: 0.5" in release and total == "lost in all: 0.5"
