"""Keys that have successors: owners and auditors before statements that are true, and others."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from hdpm_owner import commands, ledger, receipts
from hdpm_owner.charter import DEMANDS
from hdpm_owner.deals import Joined
from hdpm_owner.owner import Owner
from hdpm_owner.signatures import Key, Succession, Successions, canonical
from hdpm_owner.terms import Spent
from tests.federation.parts import (
    MODEL,
    Hire,
    ask,
    asked_of,
    charter_of,
    compared,
    demand,
    letter,
    row_of,
    sell,
)

LOOKS_AT = []
DAY = 86400.0


@pytest.fixture
def key(tmp_path: Path) -> Key:
    """Of a market."""
    return Key(tmp_path / "market")


def later(key: Key, days: float = 1.0) -> Key:
    """A copy of a key that has got a successor; the key itself stays as it is."""
    return key.successor(time.time() + days * DAY)


def release(own: Owner, key: Key, ticket: str, number: int) -> dict[str, Any]:
    """Her answer to a market that asks for a round of which 0.5 was sold."""
    return own.open_letter(letter(key, asked_of(ticket, number, 0.5), model=MODEL))


def told(*keys: Key) -> list[dict[str, Any]]:
    """Statements as a market keeps them."""
    return [{"statement": asdict(one)} for key in keys for one in key.line]


def shown(line: Sequence[Succession]) -> str:
    """Statements as a letter shows them."""
    return canonical({"line": line})


def rotations(own: Owner) -> int:
    """How many her ledger has."""
    rows = ledger.read(own.ledger.file.parent)["entries"]
    return sum(row["entry"] == "rotated" for row in rows)


def test_a_markets_new_key_takes_its_sales_over(hire: Hire, key: Key) -> None:
    """Both keys are good, each statement is one entry, and the audit accepts the receipts."""
    own = hire(key=key, seed=3)
    ticket = sell(own, [0.5] * 3, market=own.markets[0])
    three = later(two := later(key))
    rows = []
    for number, one in enumerate((key, three, two), 1):
        answer = release(own, one, ticket, number)
        assert json.loads(answer["text"])["buyer"] == one.public
        rows.append(row_of(answer, three))
    assert rotations(own) == 2
    thanks = {"ticket": ticket, "round": 1, "signature": rows[0]["countersignature"]}
    assert own.open_letter(letter(key, {"ask": "paid", "receipts": [thanks]})) == {"kept": 1}
    book = ledger.read(own.ledger.file.parent)
    assert compared(rows, {"ann": book}) == []
    assert "countersignature cannot be verified" in compared(rows, {})[0]
    assert compared(told(three) + rows, {}) == []


def test_what_a_successor_bought_counts_under_the_first_key_when_that_is_learned(
    hire: Hire, key: Key
) -> None:
    """She has joined the charters of two keys, and then sees that one stands for the other."""
    own = hire(key=key)
    two = later(key)
    plan = {name: getattr(own.terms, name) for name in DEMANDS}
    second = charter_of("second", two, **plan)
    own.ledger.write(Joined(second.hash, second.charter, second.signature, 1e100, 1e100))
    market = own.approved(second.hash)
    assert market is not None
    ticket = sell(own, [0.5, 0.5], market=market)
    ask(own, ticket, 1, 0.5, market=market)
    assert own.ledger.bought.keys() == own.ledger.promised.keys() == {two.public}
    assert "text" in own.open_letter(letter(two, demand(own) | {"charter": own.markets[0].charter}))
    assert own.ledger.bought == {key.public: Spent(Fraction(1, 2))}
    assert own.ledger.promised == {key.public: 2e6}
    own.ledger.give_up(ticket)
    assert own.ledger.promised == {key.public: 1e6}


def test_after_its_end_an_old_key_is_a_strangers(
    hire: Hire, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is shown again; her ledger remembers, also after a restart."""
    own = hire(key=key)
    new = later(key)
    good, old = letter(new, demand(own)), letter(key, demand(own))
    assert "text" in own.open_letter(good) and "text" in own.open_letter(old)
    end = time.time() + 1.1 * DAY
    monkeypatch.setattr(time, "time", lambda: end)
    for _ in range(2):
        for bad in (old, letter(key, demand(own)), letter(key, demand(own), line=shown(new.line))):
            assert "no such key, or it has ended" in own.open_letter(bad)["refused"]
        assert "text" in own.open_letter(letter(new, demand(own))) and rotations(own) == 1
        own.ledger.close()
        own = Owner(own.ledger.file.parent)
    own.ledger.close()


def made(old: Key, new: Key, until: float, signs: Key, takes: Key) -> Succession:
    """A statement that these have signed."""
    bare = Succession(old.public, new.public, until, "", "")
    return replace(
        bare, by_old=signs.sign("succession", bare.text), by_new=takes.sign("succession", bare.text)
    )


Made = Callable[[Key, Key, float], Succession]
LIES: dict[str, tuple[Made, str]] = {
    "not signed by the old key": (lambda a, b, t: made(a, b, t, b, b), "not signed by both"),
    "not signed by the new key": (lambda a, b, t: made(a, b, t, a, a), "not signed by both"),
    "of another time": (lambda a, b, t: replace(made(a, b, t, a, b), until=t + DAY), "not signed"),
    "shown after the end": (lambda a, b, t: made(a, b, t - 2 * DAY, a, b), "had ended before"),
    "of a key that she does not know": (lambda a, b, t: made(b, b, t, b, b), "has no such key"),
    "that goes back to the key": (lambda a, b, t: made(a, a, t, a, a), "stands for another key"),
    "that is none": (lambda a, b, t: replace(made(a, b, t, a, b), by_old="00"), "by_old must be"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_statement_that_is_not_true_is_refused(
    hire: Hire, key: Key, tmp_path: Path, lie: str
) -> None:
    own = hire(key=key)
    eve = Key(tmp_path / "eve")
    make, says = LIES[lie]
    statement = make(key, eve, time.time() + DAY)
    asked = demand(own) | {"charter": own.markets[0].charter}
    assert says in own.open_letter(letter(eve, asked, line=shown([statement])))["refused"]
    assert rotations(own) == 0 and "text" in own.open_letter(letter(key, demand(own)))
    if "must be" not in says and "no such key" not in says and "ended" not in says:
        said = compared([{"statement": asdict(statement)}], {})
        assert len(said) == 1 and says in said[0]  # an auditor says the same


def test_the_first_of_two_successors_counts_and_an_auditor_names_both(hire: Hire, key: Key) -> None:
    own = hire(key=key)
    ticket = sell(own, [0.5, 0.5], market=own.markets[0])
    one, two = later(key), later(key)
    answer = release(own, one, ticket, 1)
    assert "has two successors" in release(own, two, ticket, 2)["refused"]
    rows = [*told(two), row_of(answer, one)]
    said = compared(rows, {"ann": ledger.read(own.ledger.file.parent)})
    assert any("has two successors" in line for line in said)


def test_an_older_key_than_she_approves_is_not_approved(hire: Hire, key: Key) -> None:
    """Whoever has stolen it and shows a true statement."""
    new = later(key)
    own = hire(key=new)
    asked = demand(own) | {"charter": own.markets[0].charter}
    said = own.open_letter(letter(key, asked, line=shown(new.line)))
    assert "has no such key" in said["refused"] and rotations(own) == 0


def test_hers_changes_while_she_runs(
    hire: Hire, key: Key, capsys: pytest.CaptureFixture[str]
) -> None:
    """Old receipts stay good; who comes with the old key, or another, does not get her ledger."""
    own = hire(key=key, seed=3)
    folder = own.ledger.file.parent
    first = own.key.public
    ticket = sell(own, [0.5] * 2, market=own.markets[0])
    rows = [row_of(release(own, key, ticket, 1), key)]
    commands.main(["rotate", str(folder), "--days", "2"])
    assert f"stands for {first}, which is good until 20" in capsys.readouterr().out
    answer = release(own, key, ticket, 2)
    rows.append(row_of(answer, key))
    (statement,) = answer["line"]
    assert json.loads(answer["text"])["key"] == statement["new"] == own.key.public != first
    assert (
        rotations(own) == 1
        and own.open_letter(letter(key, {"ask": "hello", "nonce": "0" * 32}))["line"]
    )
    book = ledger.read(folder)
    assert book["key"] == first and compared(rows, {"ann": book}) == []
    rows.insert(0, {"statement": statement})
    owed = {"owner": "ann", "key": own.key.public, "rounds": 2, "owed": 2e6}
    assert receipts.owed(rows) == [owed]
    assert receipts.last_seen(rows).keys() == {first}
    commands.main(["ledger", str(folder)])
    commands.main(["status", str(folder)])
    assert capsys.readouterr().out.count(f"key {own.key.public} stands for {first}") == 2


def test_what_an_old_key_signs_after_its_end_is_a_complaint(hire: Hire, key: Key) -> None:
    """Hers, or the market's; and her entries under two keys are those of one ledger."""
    own = hire(key=key, seed=3)
    ticket = sell(own, [0.5], market=own.markets[0])
    answer = release(own, key, ticket, 1)
    row = row_of(answer, key)
    for past in (own.key, key):
        assert "had ended" in compared([*told(later(past, -1.0)), row], {})[0]
    new = later(own.key)
    copied = json.loads(answer["text"]) | {"key": new.public, "chain": "0" * 64, "ticket": "1" * 32}
    copied["round"] = 2
    other = {"text": (text := canonical(copied)), "signature": new.sign("receipt", text)}
    said = compared([*told(new), row, row_of(other, key)], {})
    assert "has two chains" in said[0]


def test_statements_are_learned_in_any_order_but_in_no_circle(key: Key) -> None:
    two = later(key)
    three = later(two)
    keys = Successions()
    for one in reversed(three.line):
        assert keys.learn(one) and not keys.learn(one)
    assert keys.first(three.public) == key.public
    assert keys.after(key.public) == [key.public, two.public, three.public]
    back = made(three, key, time.time(), three, key)
    with pytest.raises(ValueError, match="stands for another key"):
        keys.learn(back)
