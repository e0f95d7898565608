"""An owner against markets that lie, mistakes in her table, a ledger that is tampered with, and
death at any moment.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import sqrt
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings
from scipy import stats

from hdpm_lib.discrete import discrete_laplace
from hdpm_lib.gaussian import gaussian_delta, gaussian_epsilon
from hdpm_lib.learners.gradients import local_gradients
from hdpm_lib.learners.integer_answers import grid_gradients
from hdpm_owner import choice, door, ledger, receipts
from hdpm_owner.audit import audit
from hdpm_owner.commands import main
from hdpm_owner.deals import Account, Closing, account
from hdpm_owner.ledger import Ledger
from hdpm_owner.owner import Owner, noise_scale, stream
from hdpm_owner.signatures import Key, canonical, signed
from hdpm_owner.table import Agreement, load
from hdpm_owner.terms import UNITS, Spent
from tests.federation import parts
from tests.federation.parts import ask, bid_of, demand, letter, no_room, offer, owner_of, sell

LOOKS_AT = []


@pytest.fixture
def owner(hire: parts.Hire) -> Owner:
    return hire(seed=3)


def test_a_release_is_the_librarys_and_counts(owner: Owner, tmp_path: Path) -> None:
    ticket = sell(owner, [1.0, 0.5])
    found = np.array(ask(owner, ticket, 2, 0.5)["steps"])
    features, labels, _ = load(tmp_path / "ann" / "data.npz")
    gradient = local_gradients(np.array(parts.MODEL)[None], features, labels, [np.arange(40)])[0, 0]
    noise = discrete_laplace(noise_scale(owner.terms, 0.5), rng=stream(3, 1, 2), size=(2, 3))
    assert (found == grid_gradients(gradient, 1.0, 2.0**-20) + noise).all()
    assert owner.ledger.spent == Spent(Fraction(1, 2))


@pytest.mark.parametrize("terms", [{}, parts.RECORDS], ids=["laplace", "gaussian"])
def test_without_a_seed_no_two_owners_have_one_noise(
    hire: parts.Hire, terms: dict[str, Any]
) -> None:
    two = [hire(name, **terms) for name in ("ann", "bea")]
    first, second = (ask(own, sell(own, [0.5]), 1, 0.5)["steps"] for own in two)
    assert first != second


@pytest.mark.parametrize(
    ("terms", "norm", "law"),
    [(parts.RECORDS, 2, stats.norm), ({"unit": "record"}, 1, stats.laplace)],
    ids=["gaussian", "laplace"],
)
def test_noise_for_a_record_has_the_law_of_its_loss(
    hire: parts.Hire, terms: dict[str, Any], norm: int, law: Any
) -> None:
    """Kolmogorov's test of 3,000 coordinates less the mean gradient, whose false alarm is 1e-6."""
    own = hire(**terms)
    w = np.zeros((2, 3))
    steps = np.array([own.noisy_steps(w, 0.3) for _ in range(500)]).reshape(500, -1)
    rows = own._features * (0.5 - own._labels[:, None])
    lengths = np.linalg.norm(np.repeat(rows, 2, 1), norm, axis=1)
    mean = (rows / np.maximum(lengths, 1)[:, None]).sum(0) * 2.0**20
    exact = law(scale=2 * 2.0**20 / 0.3).cdf
    assert stats.kstest((steps - np.concatenate([-mean, mean])).ravel(), exact).pvalue > 1e-6
    assert stats.kstest((steps * 0.7).ravel(), exact).pvalue < 1e-6


# --- a market that lies -------------------------------------------------------------------------


@pytest.mark.parametrize("lie", parts.LIES)
def test_a_market_that_lies_gets_nothing(owner: Owner, lie: str) -> None:
    """What an owner has lost after a lie is the honest round before it, if there was one."""
    answer = parts.LIES[lie](owner, sell(owner, [1.0, 0.0]))
    assert answer.keys() == {"refused"} and len(answer["refused"]) > 10
    assert owner.ledger.spent == Spent(Fraction(lie.startswith("asks twice")))


def test_a_payment_that_covers_her_cost_exactly_is_enough(owner: Owner) -> None:
    assert "text" in offer(owner, [1.0], payments=[80.0])


@pytest.mark.parametrize("terms", [{}, parts.RECORDS], ids=["laplace", "gaussian"])
def test_the_total_holds_over_rounds_markets_and_restarts(
    hire: parts.Hire, terms: dict[str, Any]
) -> None:
    """Whatever is sold to whom, and in whatever order it is asked for."""
    rng = np.random.default_rng(7)
    two = (parts.MARKET, parts.OTHER)
    for _ in range(4):
        own = hire(keep=1e-9, **terms)
        open_ = []
        for _ in range(3):
            market = two[rng.integers(2)]
            rounds = int(rng.integers(1, 4))
            if "ticket" in (bid := bid_of(own, rounds, market)):
                losses = (bid["limit"] * rng.random(rounds) ** 0.3).tolist()
                offer(own, losses, market, ticket=bid["ticket"])
                ticket = bid["ticket"]
                open_ += [(ticket, k + 1, loss, market) for k, loss in enumerate(losses)]
        for k in rng.permutation(len(open_)):
            ticket, number, loss, market = open_[k]
            ask(own, ticket, number, loss, market=market)
        own.ledger.close()
    spent = own.ledger.spent
    lost = float(spent.pure) if not terms else float(gaussian_epsilon(1e-5, sqrt(spent.squares)))
    assert 2.0 < lost <= 3.0


def test_two_markets_sell_side_by_side_and_neither_closes_the_others_sale(owner: Owner) -> None:
    first = sell(owner, [1.0])
    second = sell(owner, [1.0], market=parts.OTHER)
    assert "steps" in ask(owner, second, 1, market=parts.OTHER) and "steps" in ask(owner, first, 1)
    assert owner.ledger.bought == {
        parts.MARKET.key: Spent(Fraction(1)),
        parts.OTHER.key: Spent(Fraction(1)),
    }


def test_what_waits_for_one_market_is_not_offered_to_another_until_it_is_given_up(
    owner: Owner,
) -> None:
    ticket = sell(owner, [1.0, 1.0])
    assert bid_of(owner, 2)["limit"] == 0.5
    sell(owner, [1.0])
    assert "nothing is left of epsilon = 3" in bid_of(owner)["refused"]
    owner.ledger.sales[ticket].heard -= 3600 * owner.terms.keep
    assert bid_of(owner, 2)["limit"] == 1.0


def test_a_market_has_limits_of_its_own(owner: Owner) -> None:
    small = replace(parts.MARKET, epsilon=0.5, money=100.0)
    assert bid_of(owner, 4, small)["limit"] == 0.125
    assert "trusts market with 100" in offer(owner, [0.5], small, payments=[101.0])["refused"]
    ticket = sell(owner, [1.0])  # before its limits were set
    assert "left of what market may buy" in ask(owner, ticket, 1, market=small)["refused"]


@given(
    magnitude=st.floats(-9, 6),
    rounds=st.integers(1, 10_000),
    pure=st.floats(0, 1),
    squares=st.floats(0, 1),
    delta=st.sampled_from([1e-300, 1e-12, 1e-5, 0.3, 1 - 2.0**-53]),
)
@example(magnitude=-3.0, rounds=1, pure=0.0, squares=0.859375, delta=1e-5)
@settings(max_examples=40)
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_what_she_bids_never_adds_up_to_more_than_she_has(
    noise: str, magnitude: float, rounds: int, pure: float, squares: float, delta: float
) -> None:
    """Nor to less than by one digit of a float. Spent before: shares of what there is."""
    epsilon = 10.0**magnitude
    before = Spent(Fraction(pure * epsilon))
    before += Spent.of("gaussian", sqrt(squares) * before.share("gaussian", 1, epsilon, delta))
    share = before.share(noise, rounds, epsilon, delta)
    assert (before + Spent.of(noise, share, rounds)).within(epsilon, delta)
    more = max(float(np.nextafter(share, np.inf)), epsilon * 2.0**-67)
    assert not (before + Spent.of(noise, more, rounds)).within(epsilon, delta)


@given(
    epsilon=st.floats(0, 60),
    mu=st.floats(1e-6, 20),
    pure=st.floats(0, 1),
    rounding=st.sampled_from([-1e-8, 1e-8]),
)
@settings(max_examples=60)
def test_what_is_within_is_the_librarys_delta(
    epsilon: float, mu: float, pure: float, rounding: float
) -> None:
    """Which floats compute, and she by balls."""
    delta = float(gaussian_delta(epsilon, mu, pure * epsilon))
    spent = Spent(Fraction(pure * epsilon), Fraction(mu) ** 2)
    if 1e-290 < delta < 1 / (1 + 1e-8):
        assert spent.within(epsilon, delta * (1 + rounding)) == (rounding > 0)
    assert not spent.within(epsilon, 0.0)


def test_a_sale_binds_all_that_it_named(owner: Owner, tmp_path: Path) -> None:
    """Terms that change between sale and release are refused before an entry is written."""
    ticket = sell(owner, [1.0, 1.0])
    owner.ledger.close()
    changes = {"clip_norm": 1024.0, "spacing": 2.0**-19, "epsilon": 80.0, "name": "bea"}
    for name, value in changes.items():
        with closing((again := owner_of(tmp_path / "ann", **{"seed": 3, name: value})).ledger):
            said = ask(again, ticket, 1)["refused"]
            assert {"name": "owner"}.get(name, name) in said and again.ledger.spent == Spent()


def test_a_promise_that_changes_is_an_entry(hire: parts.Hire, tmp_path: Path) -> None:
    """And every sale, release and receipt tells which one it was made under."""
    for epsilon in (3.0, 3.0, 80.0):
        own = hire(epsilon=epsilon)
        answer = ask(own, sell(own, [0.5]), 1, 0.5)
        assert json.loads(answer["text"])["epsilon"] == epsilon
        own.ledger.close()
    rows = ledger.read(tmp_path / "ann")["entries"]
    kinds = "made promise joined joined sale release sale release promise sale release"
    assert [row["entry"] for row in rows] == kinds.split()
    told = [row["epsilon"] for row in rows if row["entry"] in ("promise", "sale", "release")]
    assert told == [3.0] * 5 + [80.0] * 3


def test_a_wrong_clock_sells_nothing_and_what_it_sold_can_be_given_up(
    owner: Owner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = demand(owner)
    far = time.time() + 70 * 365 * 86400
    with monkeypatch.context() as there:
        there.setattr(time, "time", lambda: far)
        assert "clocks" in owner.answer(asked, parts.MARKET)["refused"]
        ticket = sell(owner, [1.0])  # of a market with the same clock
    assert bid_of(owner)["limit"] == 1.0 and bid_of(owner, 3)["limit"] < 0.7
    owner.ledger.close()
    place = owner.ledger.file.parent
    with closing(opened(place)) as kept:
        assert "the clock was wrong then, or is now" in caplog.text
        kept.give_up(ticket)
        assert kept.waiting(24.0) == Spent()


def test_what_is_given_up_for_a_new_sale_counts_once(owner: Owner) -> None:
    """And what another market has bought is not given up for it."""
    ticket, other = sell(owner, [1.0]), sell(owner, [1.0], market=parts.OTHER)
    assert bid_of(owner, instead=[ticket, ticket, other])["limit"] == 1.0
    assert bid_of(owner, 2, instead=[ticket, ticket, other])["limit"] == 1.0
    assert bid_of(owner, 4, instead=[ticket, ticket, other])["limit"] == 0.5
    bid = bid_of(owner, 4, instead=[ticket])
    assert "text" in offer(owner, [0.5] * 4, ticket=bid["ticket"])
    assert "given up" in ask(owner, ticket, 1)["refused"]
    assert "steps" in ask(owner, other, 1, market=parts.OTHER)


def test_what_is_given_up_for_a_new_sale_is_promised_once(owner: Owner) -> None:
    """An auction that is held again may spend all that she lets its market promise."""
    tight = replace(parts.MARKET, money=2e6)
    first = bid_of(owner, 2, tight)
    ticket = json.loads(offer(owner, [0.5, 0.5], tight, ticket=first["ticket"])["text"])["sold"]
    assert "steps" in ask(owner, ticket, 1, 0.5, market=tight)
    again = bid_of(owner, 1, tight, instead=[ticket])
    dear = offer(owner, [0.5], tight, ticket=again["ticket"], payments=[1.5e6])
    assert "2.5e+06 would be promised" in dear["refused"]
    assert "text" in offer(owner, [0.5], tight, ticket=again["ticket"])
    (promised,) = owner.ledger.promised.values()
    assert promised == 2e6


def test_markets_do_not_crowd_each_other_out(owner: Owner) -> None:
    ticket = bid_of(owner)["ticket"]
    for _ in range(150):
        bid_of(owner, market=parts.OTHER)
    assert "text" in offer(owner, [1.0], ticket=ticket)


@pytest.mark.parametrize("terms", [{}, parts.RECORDS], ids=["laplace", "gaussian"])
def test_local_steps_share_the_loss_of_a_round(hire: parts.Hire, terms: dict[str, Any]) -> None:
    """The losses of their noise add up to that of one release, and without noise they are the
    descent that is tried on drawn tables.
    """
    own = hire(**terms)
    one, four = (float(noise_scale(own.terms, 1.0, k)) for k in (1, 4))
    assert four / one == pytest.approx(2.0 if terms else 4.0, rel=1e-6) and four >= one
    steps = own.noisy_steps(np.zeros((2, 3)), 1e9, None, 4, 2.0)
    part = own._features, own._labels
    if terms:
        after = choice.trained([part], 2, 0.0, 1, 4, 2.0, np.random.default_rng(0))
        assert np.allclose(-2.0 * steps * 2.0**-20 / 40, after, atol=1e-4)
    first = own.noisy_steps(np.zeros((2, 3)), 1e9)
    assert np.abs(4 * first - steps).max() > 100  # not one step, four times as long


def test_settings_are_the_best_of_the_fewest_rounds_that_do(tmp_path: Path) -> None:
    few, many = choice.Setting(5, 3, 1.0, 0.797), choice.Setting(20, 1, 3.0, 0.8)
    assert choice.chosen([many, few, few._replace(local_steps=1, accuracy=0.7)]) == few
    assert choice.chosen([many, few._replace(accuracy=0.7)]) == many
    (tmp_path / "schema.toml").write_text(parts.SCHEMA)
    agreed = Agreement.read(tmp_path / "schema.toml")
    with pytest.MonkeyPatch.context() as small:
        small.setattr(choice, "TEST", 100)
        found = list(choice.tried(agreed, [50, 60], 8.0, 1e-5, [1, 2]))
    assert len(found) == 32 and all(0.3 < one.accuracy < 1 for one in found)


# --- letters, keys and receipts -----------------------------------------------------------------


@pytest.fixture
def keyed(hire: parts.Hire, tmp_path: Path) -> tuple[Owner, Key]:
    key = Key(tmp_path / "market-key")
    return hire(key=key, seed=3), key


def test_only_signed_letters_of_approved_markets_are_opened(
    keyed: tuple[Owner, Key], tmp_path: Path
) -> None:
    own, key = keyed
    stranger = Key(tmp_path / "stranger")
    good = letter(key, demand(own))
    assert "text" in own.open_letter(good)
    for bad, says in [
        (letter(stranger, demand(own)), "joined no market with this charter"),
        (good | {"signature": stranger.sign("letter", good["text"])}, "not the signature"),
        (good | {"signature": key.sign("owed", good["text"])}, "not the signature"),
        (good | {"text": good["text"] + " "}, "not the signature"),
        (good | {"signature": 7}, "not the signature"),
        ({}, "a text and a signature"),
        (None, "a text and a signature"),
        (letter(key, ["ask"]), "a text and a signature"),
        (letter(key, demand(own) | {"charter": parts.OTHER.charter}), "joined no market"),
    ]:
        assert says in own.open_letter(bad)["refused"]


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("4.7", None),
        (None, "speaks version 1.0 of the protocol, and the owner 4.0: the market has to upgrade"),
        ("5.0", "speaks version 5.0 of the protocol, and the owner 4.0: the owner has to upgrade"),
        ("4.0", "has no part 'colour'"),
        ("two", "speaks version 1.0"),
    ],
)
def test_versions_that_do_not_understand_each_other_say_who_has_to_upgrade(
    keyed: tuple[Owner, Key], version: str | None, says: str | None
) -> None:
    """A new part of a letter is left unread if the version says that it may be."""
    own, key = keyed
    answer = own.open_letter(letter(key, demand(own) | {"version": version, "colour": "red"}))
    assert "text" in answer if says is None else says in answer["refused"]


def test_a_receipt_is_signed_by_both_and_agrees_with_the_ledger(
    keyed: tuple[Owner, Key], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what was changed afterwards, on either side, is seen."""
    own, key = keyed
    market = own.markets[0]
    ticket = sell(own, [1.0, 0.5], market=market)
    rows = []
    for number, loss in ((1, 1.0), (2, 0.5)):
        answer = ask(own, ticket, number, loss, market=market)
        thanks = {"ticket": ticket, "round": number, "signature": key.sign("owed", answer["text"])}
        both = [thanks, thanks | {"signature": "0" * 128}]
        assert own.answer({"ask": "paid", "receipts": both}, market) == {"kept": 1}
        rows.append(parts.row_of(answer, key))
    assert own.answer({"ask": "paid", "receipts": [{}]}, market).keys() == {"refused"}
    book = ledger.read(tmp_path / "ann")
    assert parts.compared(rows, {"ann": book}) == []
    assert "market signed, and its book has none" in parts.compared(rows[:1], {"ann": book})[0]
    owed = {"owner": "ann", "key": own.key.public, "rounds": 2, "owed": 2e6}
    assert receipts.owed(rows) == [owed]
    dearer = [rows[0] | {"receipt": rows[0]["receipt"].replace("1000000.0", "9000000.0")}, rows[1]]
    assert "signature and countersignature" in parts.compared(dearer, {})[0]
    assert "two receipts" in parts.compared([*rows, rows[0]], {})[0]
    main(["ledger", str(tmp_path / "ann")])
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 6 and "signed by both" in shown[4]
    main(["ledger", str(tmp_path / "ann"), "--csv"])
    assert len(capsys.readouterr().out.splitlines()) == 3


def closing_of(own: Owner, *accounts: Account) -> dict[str, Any]:
    """What a market says at its end, after a round."""
    charter = own.markets[0].charter
    return vars(Closing(charter, 1, "0" * 64, "0" * 64, accounts))


def test_what_is_owed_is_kept_whatever_a_market_says_at_its_end(
    keyed: tuple[Owner, Key], tmp_path: Path
) -> None:
    """Also when she has withdrawn; and of two accounts of hers none is signed."""
    own, key = keyed
    market = own.markets[0]
    ticket = sell(own, [0.5] * 2, market=market)

    def paid(number: int, *accounts: Account) -> dict[str, Any]:
        answer = ask(own, ticket, number, 0.5, market=market)
        told = canonical(closing_of(own, *accounts)) if accounts else ""
        thanks = {"ticket": ticket, "round": number, "signature": key.sign("owed", answer["text"])}
        asked: dict[str, Any] = {"ask": "paid", "receipts": [thanks]}
        if told:
            asked["closing"] = {"text": told, "signature": key.sign("closing", told)}
        return own.open_letter(letter(key, asked | {"charter": market.charter}))

    nothing = account(own.key.public, "ann", [])
    assert "says otherwise of her" in paid(1, nothing)["refused"]
    (receipt,) = own.ledger.countersigned(market.charter)
    hers = account(own.key.public, "ann", [receipt])
    assert "says otherwise of her" in paid(1, hers, nothing)["refused"]
    assert paid(1, hers)["closing"]["key"] == own.key.public
    text = ask(own, ticket, 2, 0.5, market=market)["text"]
    main(["withdraw", str(tmp_path / "ann"), "market"])
    thanks = {"ticket": ticket, "round": 2, "signature": key.sign("owed", text)}
    asked = {"ask": "paid", "receipts": [thanks], "charter": market.charter}
    assert own.open_letter(letter(key, asked)) == {"kept": 1}
    assert len(own.ledger.countersigned(market.charter)) == 2
    asked = demand(own) | {"charter": market.charter}
    assert "has withdrawn" in own.open_letter(letter(key, asked))["refused"]


def test_who_withdraws_while_a_letter_is_read_signs_no_closing_statement(
    keyed: tuple[Owner, Key], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, key = keyed
    market = own.markets[0]
    told = canonical(closing_of(own, account(own.key.public, "ann", [])))
    kept = own.ledger.countersign

    def withdrawn(signatures: Any) -> None:
        kept(signatures)
        main(["withdraw", str(tmp_path / "ann"), "market"])

    monkeypatch.setattr(own.ledger, "countersign", withdrawn)
    asked: dict[str, Any] = {"ask": "paid", "receipts": [], "charter": market.charter}
    asked["closing"] = {"text": told, "signature": key.sign("closing", told)}
    assert own.open_letter(letter(key, asked)) == {"kept": 0}
    assert [row["entry"] for row in ledger.read(tmp_path / "ann")["entries"]][-1] == "withdrawn"


def test_a_stranger_learns_nothing_of_a_ledger_that_cannot_be_read(
    keyed: tuple[Owner, Key], caplog: pytest.LogCaptureFixture
) -> None:
    own, key = keyed
    change(own.ledger.file.parent, "UPDATE identity SET number = number + 1")
    said = {"refused": "her ledger cannot be read: somebody has to look"}
    for asked in ({"text": "x"}, letter(key, demand(own))):
        assert own.open_letter(asked) == said
    assert "knows of 4" in caplog.text


def test_what_a_stranger_wrote_is_no_formula_in_what_an_audit_prints() -> None:
    book = parts.book_of([])
    book.receipts.append({"owner": "=1+1\x1b[2J", "receipt": "\x1b"})
    book.invitation = vars(parts.charter_of("market", Key.made()))
    cells = audit([book], {"+@": None, " -\n": 5})
    assert {"1+1[2J", "somebody"} <= {one.owner for one in cells}
    assert all(str(one).isprintable() for one in cells)


def test_the_audit_names_what_is_wrong_and_goes_on(
    keyed: tuple[Owner, Key], tmp_path: Path
) -> None:
    """Ledgers that were emptied, are older, of another, or none; receipts that are none."""
    own, key = keyed
    market = own.markets[0]
    ticket = sell(own, [0.5] * 3, market=market)
    answers = [ask(own, ticket, number, 0.5, market=market) for number in (1, 2, 3)]
    rows = [parts.row_of(answer, key) for answer in answers]
    book = ledger.read(tmp_path / "ann")

    def said(book: Any, rows: list[dict[str, Any]] = rows) -> list[str]:
        return parts.compared(rows, {"ann": book})

    assert said(book) == []
    for cut in (4, 5, 6):  # of an earlier day
        older = book | {"entries": book["entries"][:cut]}
        assert sum("ends before entry" in line for line in said(older)) == 7 - cut
    bad = ({"key": 1, "entries": [one]} for one in (5, {}, {"entry": "release"}))
    for none in ([], {"a": 1}, None, 5, *bad):
        found = said(none)
        assert "the file ann: it is no ledger" in found[0] and "missing: the ledger" in found[1]
    changed = [row | ({"loss": 0.25} if "loss" in row else {}) for row in book["entries"]]
    assert "the file ann: its entry 5 was changed" in said(book | {"entries": changed})[0]
    other = json.loads(json.dumps(book))
    chain = ""
    for row in other["entries"]:  # all of it written anew
        row |= {"time": 7.0}
        own_part = {k: v for k, v in row.items() if k not in ("chain", *receipts.SIGNED)}
        row["chain"] = chain = ledger.link(chain, canonical(own_part))
    found = said(other)
    assert sum("another chain" in line for line in found) == 3
    assert sum("its receipt says otherwise" in line for line in found) == 3
    told = json.loads(rows[0]["receipt"])
    for bad in (
        {name: part for name, part in told.items() if name != "owner"},
        told | {"owner": "=1+1"},
        told | {"records": 1e9},
        told | {"entry": "3"},
        told | {"junk": "x" * 500_000},
        [],
        None,
    ):
        spoilt = {"text": (text := json.dumps(bad)), "signature": own.key.sign("receipt", text)}
        found = said(book, [parts.row_of(spoilt, key), *rows[1:]])
        assert "somebody: contradiction: a receipt in the book: it is no receipt" in found[0]
    twice = canonical(told | {"round": 2})
    again = {"text": twice, "signature": own.key.sign("receipt", twice)}
    found = said(book, [rows[0], parts.row_of(again, key)])
    assert "two receipts for entry 5" in found[0]


def test_an_audit_of_nothing_is_an_error() -> None:
    for books, ledgers in (([], {}), ([parts.book_of([])], {}), ([], {"ann": {}})):
        with pytest.raises(ValueError, match="there is nothing to compare"):
            audit(books, ledgers)


def test_whatever_is_signed_by_nobody_is_not_signed(tmp_path: Path) -> None:
    key = Key(tmp_path / "key")
    assert signed("x", "a", key.sign("x", "a"), key.public)
    assert not signed("x", "b", key.sign("x", "a"), key.public)
    assert not signed("y", "a", key.sign("x", "a"), key.public)
    for bad in (None, 7, "", "zz", "00" * 64):
        lies = ("a", bad, key.public), ("a", key.sign("x", "a"), bad), (bad, "", "")
        assert not any(signed("x", *lie) for lie in lies)
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0
    (tmp_path / "bad").touch(0o600)
    (tmp_path / "bad").write_text("no key")
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        Key(tmp_path / "bad")


# --- totality and silence -----------------------------------------------------------------------


@given(
    rows=st.lists(st.tuples(st.floats(), st.floats()), min_size=1, max_size=5),
    unit=st.sampled_from(UNITS),
)
@settings(max_examples=30)
def test_whatever_her_data_a_release_comes(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[float, float]], unit: str
) -> None:
    """Warnings are errors in these tests, so that silence is tested too."""
    table = parts.people(len(rows), np.random.default_rng(0))
    own = owner_of(tmp_path_factory.mktemp("owner"), table, unit=unit)
    own._features[:, :2] = rows
    found = np.array(ask(own, sell(own, [1.0]), 1, model=[[1e100] * 3, [-1e100] * 3])["steps"])
    assert found.shape == (2, 3) and found.dtype == np.int64
    own.ledger.close()


# --- the ledger ---------------------------------------------------------------------------------


@pytest.fixture
def book(owner: Owner, tmp_path: Path) -> Path:
    """Her folder with a ledger of four entries: a promise, a sale and two releases."""
    ticket = sell(owner, [1.0, 0.1, 0.1])
    for number in (2, 3):
        ask(owner, ticket, number, 0.1)
    owner.ledger.close()
    return tmp_path / "ann"


def opened(folder: Path) -> Ledger:
    return Ledger(folder)


def change(folder: Path, command: str) -> None:
    with closing(sqlite3.connect(folder / "ledger.sqlite", isolation_level=None)) as base:
        base.execute(command)


TAMPERED: dict[str, Callable[[Path], Any]] = {
    "removed": lambda folder: (folder / "ledger.sqlite").unlink(),
    "readable for others": lambda folder: (folder / "ledger.sqlite").chmod(0o640),
    "emptied": lambda folder: (folder / "ledger.sqlite").write_bytes(b""),
    "not a database": lambda folder: (folder / "ledger.sqlite").write_bytes(b"nonsense" * 1000),
}
for what, command in (
    ("shortened", "DELETE FROM entries WHERE number = 7"),
    ("without its entries", "DELETE FROM entries"),
    ("without its key", "DELETE FROM identity"),
    ("without its first entry", "DELETE FROM entries WHERE number = 1"),
    ("edited", "UPDATE entries SET text = replace(text, '0.1', '0.2') WHERE number = 6"),
):
    TAMPERED[what] = partial(change, command=command)


@pytest.mark.parametrize("what", TAMPERED)
def test_a_ledger_that_was_tampered_with_is_not_opened(book: Path, what: str) -> None:
    TAMPERED[what](book)
    says = r"gone|knows of|no key|was changed|damaged|others may read"
    with pytest.raises(ValueError, match=says):
        opened(book)


def test_one_process_at_a_time_writes_and_all_may_read(book: Path) -> None:
    with closing(opened(book)) as kept:
        assert kept.spent == Spent(2 * Fraction(0.1)) and kept.promised == {parts.MARKET.key: 3e6}
        (sale,) = kept.sales.values()
        assert sale.remaining == Spent(Fraction(1)) and sale.released == {2, 3}
        with pytest.raises(RuntimeError, match="another process holds the"):
            opened(book)
        assert len(ledger.read(book)["entries"]) == 7


def test_a_ledger_is_made_once_and_is_of_one_key(book: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is a ledger in"):
        ledger.make(book)
    place = shutil.copytree(book, tmp_path / "copy")
    change(place, f"UPDATE identity SET key = '{Key.made().text}'")
    with pytest.raises(ValueError, match="is of another key than"):
        opened(place)
    change(book, "PRAGMA user_version = 9")
    with pytest.raises(ValueError, match="by another version of hdpm-owner, 9 where"):
        opened(book)
    (tmp_path / "new").mkdir()
    with pytest.raises(ValueError, match="is gone: hdpm-owner init made it"):
        Ledger(tmp_path / "new")


def test_a_flipped_bit_of_a_ledger_changes_no_epsilon(hire: parts.Hire, tmp_path: Path) -> None:
    """It is refused, or it is where it has no effect, also on the next release."""
    own = hire(seed=3)
    ticket = sell(own, [1.0, 0.1, 0.1])
    for number in (2, 3):
        ask(own, ticket, number, 0.1)
    own.ledger.rotate(time.time() + 86400)
    own.ledger.close()
    good = (tmp_path / "ann" / "ledger.sqlite").read_bytes()

    def told(folder: Path) -> list[Any]:
        """All that she knows, what she releases next, and what she has spent then."""
        with closing((again := Owner(folder)).ledger) as kept:
            found = [vars(kept)[name] for name in ("promised", "consents", "stands", "chain")]
            found += [kept.spent, kept.sales[ticket].released, kept.key.public]
            found.append(ask(again, ticket, 1).get("steps"))
        with closing(opened(folder)) as kept:
            return [*found, kept.spent]

    place = shutil.copytree(tmp_path / "ann", tmp_path / "copy")
    truth = told(place)
    assert truth[-2] is not None and truth[-1] != truth[4]
    rng = np.random.default_rng(0)
    number = 400 if os.environ.get("HDPM_NIGHTLY") else 20
    refused = 0
    wrong = []
    for bit in rng.choice(8 * len(good), number, replace=False):
        shutil.rmtree(place)
        shutil.copytree(tmp_path / "ann", place)
        spoilt = bytearray(good)
        spoilt[bit // 8] ^= 1 << bit % 8
        (place / "ledger.sqlite").write_bytes(spoilt)
        try:
            found = told(place)
        except (ValueError, sqlite3.Error):
            refused += 1
            continue
        due = truth
        if found[-2] is None:  # she has refused, and lost nothing
            due = [*truth[:-2], None, truth[4]]
        if found != due:
            wrong.append(int(bit))
    print(f"{number} bits of {8 * len(good)}: {refused} not opened, {len(wrong)} wrong")
    assert wrong == [] and 0 < refused < number


def test_a_full_disk_releases_nothing_and_she_goes_on_when_there_is_room(
    owner: Owner, tmp_path: Path
) -> None:
    """No file may become longer here, as on a disk that is full."""
    ticket = sell(owner, [1.0, 0.5])
    first = ask(owner, ticket, 1)
    with no_room(tmp_path):
        said = ask(owner, ticket, 2, 0.5)["refused"]
        assert "her ledger cannot be written: " in said
        assert "cannot be written" in offer(owner, [0.1])["refused"]
    assert owner.ledger.spent == Spent(Fraction(1)) and ask(owner, ticket, 1) == first
    assert "steps" in ask(owner, ticket, 2, 0.5)
    owner.ledger.close()
    with closing(opened(tmp_path / "ann")) as kept:
        assert kept.spent == Spent(Fraction(3, 2)) and kept.number == 7


def test_a_ledger_that_may_not_grow_releases_nothing(owner: Owner) -> None:
    ticket = sell(owner, [1.0])
    pages = owner.ledger._base.execute("PRAGMA page_count").fetchone()[0]
    owner.ledger._base.execute(f"PRAGMA max_page_count = {pages}")
    before = owner.ledger.spent
    while "text" in (answer := offer(owner, [1e-3])):
        pass
    assert "cannot be written" in answer["refused"]
    assert "cannot be written" in ask(owner, ticket, 1)["refused"] and owner.ledger.spent == before


# --- death at any moment ------------------------------------------------------------------------


def test_killed_at_every_line_of_a_round_she_counts_what_left_her(tmp_path: Path) -> None:
    """What a SIGKILL leaves of her at a line is her folder as it is on disk there: she is started
    again on a copy. A round is counted with its answer, or not at all.
    """
    own = owner_of(tmp_path / "alive", seed=3)
    copies = list[Path]()
    ticket = sell(own, [1.0])

    def tracer(frame: Any, event: str, _: Any) -> Any:
        if "/hdpm_owner/" not in frame.f_code.co_filename:
            return None  # the library touches no disk
        if event == "line":
            copies.append(shutil.copytree(tmp_path / "alive", tmp_path / str(len(copies))))
        return tracer

    sys.settrace(tracer)
    first = ask(own, ticket, 1)
    sys.settrace(None)
    # what did not arrive is sent again
    assert ask(own, ticket, 1) == first and own.ledger.spent.pure == 1
    own.ledger.close()
    counts = []
    for place in (*copies, tmp_path / "alive"):
        with closing((again := Owner(place)).ledger):
            counts.append(again.ledger.spent.pure == 1)
            answer = ask(again, ticket, 1)
        assert answer["steps"] == first["steps"] and (answer == first) == counts[-1]
    assert counts == sorted(counts) and 2 < sum(counts) < len(counts) - 20


# --- the door -----------------------------------------------------------------------------------


@pytest.fixture
def place(keyed: tuple[Owner, Key], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A door at which an owner answers in a thread, and patience of a second."""
    monkeypatch.setattr(door, "PATIENCE", 1.0)
    threading.Thread(target=door.serve, args=(keyed[0], tmp_path / "door"), daemon=True).start()
    while not (tmp_path / "door").exists():
        time.sleep(0.01)
    time.sleep(0.05)
    return tmp_path / "door"


def told(place: Path, line: bytes) -> dict[str, Any]:
    """What is answered to a line at a door."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(place))
        caller.sendall(line + b"\n")
        return json.loads(caller.makefile().readline())


def test_the_door_answers_letters_and_survives_everything_else(
    place: Path, keyed: tuple[Owner, Key]
) -> None:
    own, key = keyed
    good = json.dumps(letter(key, demand(own))).encode()
    assert "text" in told(place, good)
    for nonsense in (b"", b"\x80\x04cposix", b"[" * 100_000, b"1e999", b'"bid"', b"\xff\xfe"):
        assert set(told(place, nonsense)) == {"refused"}
    slow = [socket.socket(socket.AF_UNIX) for _ in range(5)]
    for one in slow:  # half a letter, and nothing more
        one.connect(str(place))
        one.sendall(b'{"text": "')
    begin = time.monotonic()
    # nobody waits for them
    assert "text" in told(place, good) and time.monotonic() - begin < 0.9
    assert all(one.makefile().readline() == "" for one in slow)  # they are sent away
    for one in slow:
        one.close()


def test_several_callers_at_once_get_one_release_for_each_round(
    place: Path, keyed: tuple[Owner, Key]
) -> None:
    own, key = keyed
    ticket = sell(own, [0.5] * 4, market=own.markets[0])

    def release(number: int) -> dict[str, Any]:
        asked = letter(key, parts.asked_of(ticket, number, 0.5), model=parts.MODEL)
        return told(place, json.dumps(asked).encode())

    with ThreadPool(8) as pool:
        found = pool.map(release, [1, 2, 3, 4] * 3)
    assert own.ledger.spent.pure == 2
    for k in range(4):
        assert len({answer["text"] for answer in found[k::4] if "text" in answer}) == 1


def test_a_door_without_its_folder_says_so(tmp_path: Path, hire: parts.Hire) -> None:
    with pytest.raises(FileNotFoundError, match=r"no folder .*doors for the door: make it"):
        door.serve(hire("bea"), tmp_path / "doors" / "bea")


def test_a_door_in_use_is_not_stolen(place: Path, hire: parts.Hire) -> None:
    with pytest.raises(RuntimeError, match="another owner answers at the door"):
        door.serve(hire("bea"), place)
