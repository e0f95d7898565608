"""What hospitals and markets type: it is checked as a whole before anything is written, ends in a
sentence, and tells what is spent and what was learned.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import re
import shutil
import signal
import socket
import sqlite3
import ssl
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any

import certificates
import numpy as np
import pandas as pd
import pytest

from hdpm_lib.gaussian import gaussian_epsilon
from hdpm_owner import commands, console, door, health, ledger, market_commands, rehearsal
from hdpm_owner.charter import Charter, read_invitation
from hdpm_owner.charter import invite as invite_to
from hdpm_owner.deals import Joined, Withdrawn
from hdpm_owner.owner import Owner
from hdpm_owner.shapes import read_shaped
from hdpm_owner.signatures import Key, in_words
from hdpm_owner.table import Agreement
from hdpm_owner.terms import Terms
from tests.federation import parts
from tests.federation.parts import SCHEMA, ask, demand, letter, owner_of, people, sell

Say = Callable[..., str]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Type a line; what is printed, or the sentence that says what is wrong and alters no file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "serve", lambda owner, place: owner.ledger.close())
    people(40, np.random.default_rng(0)).to_csv("people.csv", index=False)
    people(50, np.random.default_rng(1)).to_csv("others.csv", index=False)
    Path("schema.toml").write_text(SCHEMA)

    def files() -> dict[Path, bytes]:
        found = {file: file.read_bytes() for file in sorted(tmp_path.rglob("*")) if file.is_file()}
        return {file: text for file, text in found.items() if not file.name.startswith("ledger.")}

    def run(line: str, *more: str) -> str:
        before = files()
        program, *arguments = line.split()
        main = {"owner": commands.main, "market": market_commands.main}[program]
        try:
            main([*arguments, *more])
        except SystemExit as ended:
            printed = capsys.readouterr()
            assert ended.code in (1, 2) and "fault of this program" not in printed.err, printed.err
            assert ended.code == 1 or printed.err.count("\n") == 1 or "usage:" in printed.err
            assert files() == before
            return printed.err
        return capsys.readouterr().out

    return run


INIT = "owner init people.csv --schema schema.toml --folder ann"


def test_a_table_becomes_an_owner_who_is_warned(say: Say, tmp_path: Path) -> None:
    """Columns in any order, more of them, half of one missing, one out of its range, one class."""
    columns: dict[str, Any] = {"ill": ["no"] * 4, "b": [0.5, 2.0, None, None], "who": list("wxyz")}
    pd.DataFrame(columns | {"a": [0, 1, 0.5, 0.25]}).to_csv("people.csv", index=False)
    said = say(INIT)
    for part in (
        "4 rows, each one person",
        "not used: who",
        "b: 2 missing, 1 moved into [0, 1]",
        "4 no, 0 yes",
        "WARNING: 50% of 'b' are missing",
        "WARNING: 1 of 'b' lie outside [0, 1] and are moved to its ends",
        "WARNING: all rows have one class",
        "a person with several rows loses more",
        "A first sale may take all of epsilon = 8, for ever",
    ):
        assert part in said
    own = Owner(tmp_path / "ann")
    assert own._features.tolist() == [[-0.5, 0, 1], [0.5, 0.5, 1], [0, 0, 1], [-0.25, 0, 1]]
    assert own.terms.name == "people" and own.terms.unit == "record"
    assert own.markets == ()
    own.ledger.close()


def test_files_are_hers_alone(say: Say, tmp_path: Path) -> None:
    old = os.umask(0)
    (tmp_path / "open").mkdir(mode=0o755)
    assert "others may enter open" in say(INIT.replace("ann", "open"))
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o755
    say(INIT)
    os.umask(old)
    assert (tmp_path / "ann").stat().st_mode & 0o077 == 0
    assert all(file.stat().st_mode & 0o077 == 0 for file in (tmp_path / "ann").iterdir())


def test_init_again_does_nothing_that_was_not_asked_for(say: Say, tmp_path: Path) -> None:
    say(f"{INIT} --limit 0.5")
    terms = Terms.read(tmp_path / "ann" / "terms.toml")
    assert terms.limit == 0.5 and "data.npz kept: 40 records" in say(f"{INIT} --limit 0.5")
    assert "--epsilon is 2.0, and ann/terms.toml says 8.0" in say(f"{INIT} --epsilon 2")
    assert "--name is eve" in say(f"{INIT} --name eve")
    other = INIT.replace("people", "others")
    assert "has 40 records, and the table has 50 others: --replace" in say(other)
    assert "written: 50 records for 40" in say(f"{other} --replace")
    assert Terms.read(tmp_path / "ann" / "terms.toml") == terms
    for line in ("--clip-norm 0", "--epsilon nan", "--rate -1", "--limit 0", "--delta 1"):
        word = line.split()[0].strip("-").replace("-", "_")
        assert word in say(INIT.replace("ann", "new") + f" {line}")
    assert "name" in say(INIT.replace("ann", "new"), "--name", "a\nepsilon = 1e9")
    assert not (tmp_path / "new").exists()


def test_an_init_that_died_anywhere_is_finished_by_another(say: Say, tmp_path: Path) -> None:
    """And a ledger that is gone afterwards is not made anew."""
    for place in ("ledger.make", "write"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(f"hdpm_owner.commands.{place}", lambda *_: 1 / 0)
            with pytest.raises(SystemExit):
                commands.main(INIT.split()[1:])
    assert "written" in say(INIT) and say("owner serve ann") == ""
    (tmp_path / "ann" / "ledger.sqlite").unlink()
    assert "is gone, and with it her key" in say(INIT) and "is gone" in say("owner serve ann")


@pytest.fixture
def invited(say: Say) -> Callable[..., Path]:
    """Invitations of a market to the owner in ``ann``, on terms for a record."""

    def invite(folder: str = "m", *more: str, owners: str = "ann") -> Path:
        if not Path(folder, "key").exists():
            say(f"market init {folder}")
        named = say(f"owner key {owners}").strip()
        line = f"market invite {folder} --rounds 5 --quorum 1 --schema schema.toml"
        say(line, *more, "--owners", named)
        return Path(folder, "invitation.json")

    return invite


def test_a_charter_is_joined_and_withdrawn(say: Say, invited: Callable[..., Path]) -> None:
    """And whatever it says otherwise than her terms is refused before an entry is written."""
    say(f"{INIT} --name ann")
    file = invited("m", "--name", "größe & co.")
    looked = say("owner join ann m/invitation.json --look")
    words = looked.split("in words: ")[1].splitlines()[0]
    assert len(words.split()) == 8 and "not joined" in looked
    key = say("market key m").split()[0]
    assert in_words(key) == words
    assert "ann has joined" in say("owner join ann m/invitation.json")
    assert "has joined größe & co. already" in say("owner join ann m/invitation.json")
    good = json.loads(file.read_text())
    for change, says in (
        ({"signature": "00" * 64}, "not signed by its market"),
        ({"charter": good["charter"].replace('"rounds":5', '"rounds":6')}, "not signed by its"),
        ({"charter": "x"}, "is no Charter"),
        ({"colour": "red"}, "is no invitation: Invitation has no part 'colour'"),
    ):
        Path("bad.json").write_text(json.dumps(good | change))
        assert says in say("owner join ann bad.json")
    for option, value in (("noise", "laplace"), ("unit", "owner"), ("clip-norm", "2")):
        invited(f"m-{option}", f"--{option}", value)
        assert f"asks for {option.replace('-', '_')} =" in say(
            f"owner join ann m-{option}/invitation.json"
        )
    say(INIT.replace("--folder ann", "--folder bea --name bea"))
    assert "does not invite bea" in say("owner join bea m/invitation.json")
    assert "has joined größe & co." in say("owner withdraw ann nobody")
    assert "may not buy" in say("owner withdraw ann", "GRÖSSE&CO")
    assert "has joined nobody" in say("owner withdraw ann m")


def test_an_invitation_is_signed_as_a_whole(say: Say, invited: Callable[..., Path]) -> None:
    """Its certificate comes to lie in her folder, for the SuperNode."""
    say(f"{INIT} --name ann")
    Path("ca.crt").write_text("a certificate\n")
    file = invited("m", "--address", "market.example:9500", "--certificate", "ca.crt")
    good = json.loads(file.read_text())
    for change in ({"address": "eve.example:9500"}, {"certificate": "eve's"}, {"address": ""}):
        Path("bad.json").write_text(json.dumps(good | change))
        said = "address and certificate are not those that the market has signed"
        assert said in say("owner join ann bad.json")
    say("owner join ann m/invitation.json --look")
    assert not list(Path("ann").glob("*.crt"))
    told = say("owner join ann m/invitation.json")
    (written,) = Path("ann").glob("ca-*.crt")
    assert f"{written} written" in told and written.read_text() == "a certificate\n"


def test_earlier_markets_are_of_one_key_and_no_rehearsals(
    say: Say, invited: Callable[..., Path]
) -> None:
    say(f"{INIT} --name ann")
    invited("m")
    invited("other")
    shutil.copytree("m", "rehearsal", ignore=shutil.ignore_patterns("invitation.json"))
    invited("rehearsal", "--rehearsal")
    shutil.copytree("m", "next", ignore=shutil.ignore_patterns("invitation.json"))
    for name, says in (("rehearsal", "is a rehearsal"), ("other", "with another key")):
        line = f"market invite next --rounds 5 --earlier m {name} --owners"
        assert says in say(line, f"ann={'ab' * 32}")
    say("market rotate next")
    say("market invite next --rounds 5 --quorum 1 --earlier m --owners", f"ann={'ab' * 32}")
    (hash_,) = read_invitation(Path("next/invitation.json")).read().earlier
    assert hash_ == read_invitation(Path("m/invitation.json")).hash


def test_an_old_key_stays_good_for_a_day(say: Say, invited: Callable[..., Path]) -> None:
    """At least: with less nobody who is asked meanwhile would learn of the new one."""
    say(f"{INIT} --name ann")
    invited()
    for line in ("owner rotate ann", "market rotate m"):
        assert "days must lie in [1, 3650]" in say(f"{line} --days 0")
        assert "stands for" in say(f"{line} --days 1")


def test_each_program_tells_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    for main in (commands.main, market_commands.main):
        with pytest.raises(SystemExit):
            main(["--version"])
        assert "protocol 4.0" in capsys.readouterr().out


def test_a_door_takes_no_file_away(hire: parts.Hire, tmp_path: Path) -> None:
    """A table, a key or a ledger in its place stays."""
    own = hire()
    (tmp_path / "table.csv").write_text("a,b")
    with pytest.raises(ValueError, match="which is no door"):
        door.serve(own, tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text() == "a,b"


@pytest.mark.parametrize("line", ["serve", "rehearse"])
def test_who_is_told_to_end_takes_away_what_was_made_for_a_while(
    say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """The stage of a rehearsal lies in her folder, for it has her key; all of the ledger is in one
    file when she has ended.
    """
    say(INIT)
    places: list[Path] = []

    def told(owner: Owner, place: Path) -> None:
        places.append(owner.ledger.file.resolve())
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(commands, "serve", told)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended:
        commands.main([line, "ann"])
    assert ended.value.code == 0 and signal.getsignal(signal.SIGTERM) is before
    assert (tmp_path / "ann").resolve() in places[0].parents
    files = {file.name for file in (tmp_path / "ann").iterdir()}
    assert files == {*HERS, "ledger.lock"} - ({"ledger.lock"} if line == "rehearse" else set())


def test_no_door_is_beside_her_records(say: Say) -> None:
    """Nor when she rehearses, or looks whether all is well; the one of the usual name is."""
    say(INIT)
    for line in ("serve", "rehearse", "check", "status"):
        assert "may not be beside her records" in say(f"owner {line} ann --door ann/ledger")
    for line in ("serve", "rehearse"):
        assert say(f"owner {line} ann --door ann/door") == ""


def test_who_is_invited_has_one_name_and_one_key(say: Say) -> None:
    """Compared without case, blanks and points; a key is made by init alone."""
    say(INIT)
    assert "there is no key markt/key" in say("market key markt") and not Path("markt").exists()
    say("market init m")
    assert "has a key already" in say("market init m")
    one, two = "ab" * 32, "cd" * 32
    line = "market invite m --rounds 5 --schema schema.toml --owners"
    for other in ("Nordklinik.", "Nord klinik", "NORDKLINIK"):
        assert "different names" in say(line, f"Nordklinik={one}", f"{other}={two}")
    assert "different keys" in say(line, f"ann={one}", f"bea={one}")
    assert "2 sellers are needed, and 1 are invited" in say(line, f"ann={one}")
    robust = line.replace("--owners", "--aggregate krum --liars 1 --owners")
    assert "3 sellers are needed, and 2 are invited" in say(robust, f"ann={one}", f"bea={two}")
    for bad in ("=1+1=" + one, "ann=abc", "ann"):
        assert "must be a text like" in say(line, bad)
    Path("open").mkdir(mode=0o755)
    assert "others may enter open: chmod 700" in say("market init open")


# --- odd arguments, odd files --------------------------------------------------------------------

ODD = {
    "nothing": b"",
    "no text": b"\x80\x04\x95\xff\x00",
    "brackets": b"[" * 100_000,
    "another file": b"a = 1\nb = [2]\n",
    "a number": b"7",
    "JSON": b'{"a": 1}',
    "the start of a database": b"SQLite format 3\0" + b"\xff" * 500,
    "the start of a package": b"PK\x03\x04" + b"\xff" * 50,
}
HERS = ["terms.toml", "schema.toml", "data.npz", "ledger.sqlite"]
LINES = "serve ann/rehearse ann --records 5/status ann/ledger ann --json/give-up ann 0".split("/")
LINES += ["withdraw ann m", "join ann m/invitation.json", INIT.removeprefix("owner ")]


@pytest.mark.parametrize("file", HERS)
def test_an_odd_file_of_hers_is_a_sentence(
    say: Say, invited: Callable[..., Path], tmp_path: Path, file: str
) -> None:
    """Or is not looked at; a folder in its place, and no file at all, too."""
    say(f"{INIT} --name ann")
    invited()
    say("owner join ann m/invitation.json")
    say("owner serve ann")
    place = tmp_path / "ann"
    good = {part: part.read_bytes() for part in place.iterdir()}
    for odd in (*ODD.values(), None, "a folder"):
        for line in LINES:
            shutil.rmtree(place)
            place.mkdir(mode=0o700)
            for part, text in good.items():
                console.write(part, text)
            (place / file).unlink()
            if isinstance(odd, bytes):
                console.write(place / file, odd)
            elif odd is not None:
                (place / file).mkdir()
            say(f"owner {line}")


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_table_or_schema_or_market_is_a_sentence(say: Say, tmp_path: Path, odd: str) -> None:
    for file in ("x.csv", "x.parquet", "x.toml", "x.crt"):
        Path(file).write_bytes(ODD[odd])
    Path("m").mkdir()
    Path("m/market.sqlite").write_bytes(ODD[odd])
    Path("m/schema.toml").write_text(SCHEMA)
    Path("m/key").write_bytes(ODD[odd])
    say(INIT)
    for line in (
        *(INIT.replace("people.csv", file) for file in ("x.csv", "x.parquet")),
        INIT.replace("schema.toml", "x.toml"),
        "owner status ann --certificates x.crt",
        "market key m",
        "market receipts m --ledgers x.csv",
        "market model m",
        "market predict m people.csv",
    ):
        assert say(line).startswith(("hdpm-owner: ", "hdpm-market: ")), line


def test_odd_arguments_are_a_sentence(say: Say, tmp_path: Path) -> None:
    known = (
        "init key join withdraw serve rehearse status ledger give-up rotate check backup recover"
    )
    for line in (*known.split(), "", "nothing"):
        assert "usage: hdpm-owner" in say(f"owner {line}")
        for name in ("nowhere", "people.csv", "/dev/null", "ä" * 300, ""):
            words = {"join": "i", "withdraw": "m", "give-up": "t", "backup": "b", "recover": "b"}
            more = [words[line]] if line in words else []
            more += ["--schema", "schema.toml"] if line == "init" and "people" not in name else []
            assert "hdpm-owner" in say(f"owner {line}", name, *more)
    for line in ("key", "receipts nowhere", "model nowhere", "predict nowhere people.csv", ""):
        assert "hdpm-market" in say(f"market {line}")
    for line in ("key people.csv", "choose nowhere --records 5 --epsilon 1", "rotate nowhere"):
        assert "hdpm-market" in say(f"market {line}")
    say(INIT)
    assert "records must be an integer from 1" in say("owner rehearse ann --records 0")
    assert "embedded null" in say("owner status", "a\0b")


def test_a_fault_is_told_by_its_place_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands.status, "rows", lambda folder: {}["secret"])
    with pytest.raises(SystemExit) as ended:
        commands.main(["status", "x", "--csv"])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and "a fault of this program: KeyError in" in said
    assert "secret" not in said and said.count("\n") == 1


def test_a_file_that_was_written_is_there_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk has waited for its content, and then for its name."""
    synced: list[str] = []
    place = "/proc/self/fd/{}".format
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.readlink(place(handle))))
    console.write(tmp_path / "key", b"x")
    assert synced == [str(tmp_path / "key.part"), str(tmp_path)]


def test_a_host_has_no_port(tmp_path: Path) -> None:
    for host in ("localhost:9500", "https://x.org", "", "x y", "[::1]:9"):
        with pytest.raises(ValueError, match="a name or an address, without port"):
            certificates.make(tmp_path / "keys", hosts=[host])
    with pytest.raises(ValueError, match="name must be"):
        certificates.make(tmp_path / "keys", ["../ann"])
    assert not (tmp_path / "keys").exists()
    certificates.make(tmp_path / "keys", ["ann"], ["market.example.org", "::1"])
    assert (tmp_path / "keys").stat().st_mode & 0o077 == 0


def test_services_find_what_they_start_and_others_find_the_superlink() -> None:
    """Flower starts a program of its own by its bare name, and listens on loopback by default."""
    folder = Path(certificates.__file__).parent / "deploy"
    texts = {file.name: file.read_text() for file in folder.iterdir()}
    for name in ("hdpm-superlink.service", "hdpm-supernode.service"):
        assert re.search(r"^Environment=.* PATH=/opt/hdpm/bin:/usr/bin:/bin$", texts[name], re.M)
    for name in ("hdpm-superlink.service", "compose.yaml"):
        assert "flower-superlink --host 0.0.0.0 --port 9500 " in texts[name]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"limit": 0.0}, "terms.toml: limit must be positive"),
        ({"family": "cubic"}, "terms.toml: family must be"),
        ({"unit": "patient"}, "terms.toml: unit must be"),
        ({"noise": "gaussian", "delta": 0.1, "seed": 1}, "terms.toml: seed must not be given"),
        ({"noise": "gaussian"}, "terms.toml: delta must be positive"),
        ({"limits": 0.2}, "terms.toml: there is no such part 'limits': did you mean limit?"),
        ({"markets": []}, "terms.toml: markets are joined"),
        ({"name": "ann "}, "terms.toml: name must be"),
        ({"spacing": 2.0**-60}, "spacing"),
        ({"unit": "record", "spacing": 2.0**-40, "clip_norm": 1000.0}, "spacing"),
    ],
)
def test_terms_that_are_none_stop_her_at_the_start(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        owner_of(tmp_path, **changes)


# --- what is spent, and what is said --------------------------------------------------------------


def rows_of(printed: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(printed)))


def test_status_tells_epsilon_spent_and_left(say: Say, hire: parts.Hire, tmp_path: Path) -> None:
    """By market and in all, of what was released and of what waits; and when certificates end."""
    own = hire(**parts.RECORDS)
    market, other = own.markets
    first = sell(own, [0.2, 0.1], market=market)
    ask(own, first, 1, 0.2, market=market)
    second = sell(own, [0.3], market=other)
    ask(own, second, 1, 0.3, market=other)
    found = {row["market"]: row for row in rows_of(say("owner status ann --csv"))}

    def epsilon(*losses: float) -> float:
        return float(gaussian_epsilon(1e-5, sqrt(sum(loss**2 for loss in losses))))

    for name, spent, whole in (
        ("market", [0.2], [0.2, 0.1]),
        ("other", [0.3], [0.3]),
        ("all", [0.2, 0.3], [0.2, 0.1, 0.3]),
    ):
        row = {part: float(found[name][part]) for part in ("spent", "waits", "left")}
        assert row["spent"] == pytest.approx(epsilon(*spent))
        assert row["waits"] == pytest.approx(epsilon(*whole) - epsilon(*spent))
        left = 3 - epsilon(0.2, 0.1, 0.3)
        assert row["left"] == pytest.approx(left)
    assert [found[name]["joined"] for name in ("market", "other", "all")] == ["yes", "yes", ""]
    own.ledger.close()
    say("owner give-up ann", first)
    certificates.make(tmp_path / "keys", days=20)
    told = say("owner status ann --certificates keys/ca.crt")
    assert "keys/ca.crt ends SOON, on 20" in told and "epsilon 3 at delta 1e-05" in told
    spent = epsilon(0.2, 0.3)
    row = ["all", "2", "2", f"{spent:.4g}", "0", f"{3 - spent:.4g}"]
    assert told.splitlines()[3].split()[:6] == row
    page = say("owner status ann --html")
    assert "<!doctype html>" in page and f"<td>{epsilon(0.2):.4g}</td>" in page
    assert page.count("<tr>") == 4 and "http" not in page


def test_status_and_check_say_what_serve_would_refuse(
    say: Say, invited: Callable[..., Path], tmp_path: Path
) -> None:
    """One line each; a market that is there, with its certificate, is well."""
    say(f"{INIT} --name ann")
    invited("m", "--noise", "gaussian")
    say("owner join ann m/invitation.json --money 5")
    good = say("owner check ann")
    words = ["terms", "schema and records", "ledger", "clock", "door", "epsilon", "m, charter "]
    assert all(line.endswith(": well") for line in good.splitlines())
    assert all(map(str.startswith, good.splitlines(), words)) and good.count("\n") == len(words)
    assert "WOULD NOT SELL" not in say("owner status ann")
    folder = tmp_path / "ann"
    terms = (folder / "terms.toml").read_text()

    def change(command: str) -> None:
        with closing(sqlite3.connect(folder / "ledger.sqlite")) as base, base:
            base.execute(command)

    breaks: dict[str, tuple[Callable[[], Any], str]] = {
        "terms": (lambda: (folder / "terms.toml").write_text("rate = 1"), "terms.toml"),
        "schema and records": (
            lambda: Path("ann/schema.toml").write_text(SCHEMA.replace("high = 1", "high = 2")),
            "another schema",
        ),
        "ledger": (lambda: (folder / "ledger.sqlite").chmod(0o644), "others may read"),
        " ledger": (lambda: (folder / "ledger.sqlite").unlink(), "no ledger"),
        "  ledger": (lambda: change("UPDATE identity SET number = 9"), "knows of 9"),
        "   ledger": (
            lambda: change(f"UPDATE identity SET key = '{Key.made().text}'"),
            "of another key",
        ),
        "door": (lambda: (folder / "door").write_text("x"), "is no door"),
        " door": (lambda: None, "no folder nowhere"),
        "m, charter": (
            lambda: Path("ann/terms.toml").write_text(
                terms.replace("clip_norm = 1", "clip_norm = 2")
            ),
            "asks for clip_norm",
        ),
    }
    shutil.copytree(folder, "kept")
    for word, (spoil, says) in breaks.items():
        shutil.rmtree(folder)
        shutil.copytree("kept", folder)
        spoil()
        door = " --door nowhere/ann" if word == " door" else ""
        with pytest.raises(SystemExit) as ended:
            commands.main(f"check ann{door}".split())
        assert ended.value.code == 1
        told = list(health.of_owner(folder, Path("nowhere/d") if door else folder / "door"))
        (wrong,) = [(what, said) for what, said in told if said and what != "clock"]
        assert wrong[0].startswith(word.strip()) and says in wrong[1]


def test_check_draws_noise_as_serve_does(hire: parts.Hire, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where OpenDP is not installed it is not well."""
    folder = hire(**parts.RECORDS).ledger.file.parent
    assert dict(health.of_owner(folder, folder / "door"))["terms"] == ""
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    assert "comes with an extra" in dict(health.of_owner(folder, folder / "door"))["terms"]


def test_check_says_when_her_clock_is_wrong_and_when_nothing_is_left(
    hire: parts.Hire, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = hire()
    folder = own.ledger.file.parent
    small = replace(own.ledger.consents[own.markets[0].charter], money=1e6)
    own.ledger.write(Withdrawn(small.charter))
    own.ledger.write(small)

    def wrong() -> dict[str, str]:
        return {what: said for what, said in health.of_owner(folder, folder / "door") if said}

    ticket = sell(own, [1.0])
    assert wrong() == {}  # all that its market may promise is promised for what is being released
    ask(own, ticket, 1)
    own.ledger.write(Withdrawn(small.charter))
    own.ledger.write(replace(small, epsilon=1.0))
    (market,) = (what for what in wrong() if what.startswith("market"))
    assert "may buy epsilon 1, and nothing" in wrong()[market]
    own.ledger.write(Withdrawn(small.charter))
    own.ledger.write(small)
    assert "may promise 1e+06" in wrong()[market]
    other = own.ledger.consents[parts.its(own, parts.OTHER).charter]
    own.ledger.write(Withdrawn(other.charter))
    own.ledger.write(replace(other, epsilon=2.0))
    ticket = sell(own, [1.0, 1.0], parts.OTHER)
    ask(own, ticket, 1, market=parts.OTHER)
    assert list(wrong()) == [market] and "but what waits for other markets" in wrong()[market]
    ask(own, ticket, 2, market=parts.OTHER)
    assert "nothing is left of 3" in wrong()["epsilon"]
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 86400)
    assert "the clock was wrong then" in wrong()["clock"]


def test_check_tries_the_markets_address(tmp_path: Path) -> None:
    """Its certificate, and the date of its charter."""
    certificates.make(tmp_path / "keys", hosts=["localhost"])
    certificates.make(tmp_path / "other", hosts=["localhost"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "keys" / "server.crt", tmp_path / "keys" / "server.key")
    key = Key.made()
    with closing(socket.create_server(("localhost", 0))) as server:
        port = server.getsockname()[1]

        def serve() -> None:
            while True:
                try:
                    with server.accept()[0] as caller, suppress(OSError):
                        context.wrap_socket(caller, server_side=True).close()
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()

        def said(folder: str, time: float = 0.0, port: int = port) -> list[str]:
            made = read_shaped(Charter, parts.charter_of("market", key).charter)
            certificate = (tmp_path / folder / "ca.crt").read_text()
            made = replace(made, time=time)
            whole = invite_to(made, key, f"localhost:{port}", certificate)
            return [said for _, said in health.of_market(whole)]

        assert said("keys") == ["", ""]
        assert "certificate verify failed" in said("other")[1]
        assert "one of the clocks is wrong" in said("keys", time.time() + 86400)[0]
        with closing(socket.create_server(("localhost", 0))) as free:
            nobody = free.getsockname()[1]
        assert "refused" in said("keys", port=nobody)[1]


def test_a_ledger_is_copied_while_she_serves_and_put_into_a_new_folder(
    say: Say, hire: parts.Hire, tmp_path: Path
) -> None:
    """Where nobody may buy before she has joined again; a market that knows more is refused."""
    own = hire(key=(key := Key(tmp_path / "key")))
    ticket = sell(own, [0.5, 0.5], market=own.markets[0])
    ask(own, ticket, 1, 0.5, market=own.markets[0])
    say("owner backup ann copy")
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob("copy-*")) and "there is a file copy" in say(
        "owner backup ann copy"
    )
    assert len(ledger.read(tmp_path / "ann")["entries"]) == own.ledger.number == 5
    ask(own, ticket, 2, 0.5, market=own.markets[0])
    (market,) = own.markets
    last = ledger.read(tmp_path / "ann")["entries"][-1]
    own.ledger.close()
    assert "must be empty" in say("owner recover ann copy")
    said = say("owner recover again copy")
    assert "5 entries" in said and "nobody may buy before she joins again" in said
    for name in ("terms.toml", "schema.toml", "data.npz"):
        shutil.copy(tmp_path / "ann" / name, tmp_path / "again" / name)
    with closing((again := Owner(tmp_path / "again")).ledger):
        assert again.markets == () and again.key.public == own.key.public
        assert again.ledger.spent.pure == 0.5 and again.ledger.number == 6
        asked = letter(key, demand(again))
        assert "has withdrawn" in again.open_letter(asked)["refused"]
        made = parts.INVITATIONS[market.charter]
        again.ledger.write(Joined(made.hash, made.charter, made.signature, 1e100, 1e100))
        seen = {"entry": len(ledger.read(tmp_path / "ann")["entries"]), "chain": last["chain"]}
        asked = letter(key, demand(again, last=seen))
        assert "it is an older copy" in again.open_letter(asked)["refused"]
    Path("bad").write_bytes((tmp_path / "copy").read_bytes()[:5000])
    assert "hdpm-owner: " in say("owner recover third bad") and not Path("third").exists()


def test_a_letter_is_a_line_of_log(
    hire: parts.Hire, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever a stranger writes; nothing of hers is in it."""
    caplog.set_level(logging.INFO)
    key = Key(tmp_path / "market-key")
    own = hire(key=key)
    for content in (demand(own), {"ask": "bid\n\x1b[2J" + "x" * 9999}, None):
        door._answer(own, json.dumps(letter(key, content)).encode())
    for line in (b"\n", json.dumps({"key": "k\n" * 999, "text": "\n"}).encode()):
        door._answer(own, line)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "market: bid: answered" and "market: bid\\n\\u001b[2Jxxx" in lines[1]
    assert len(lines) == 5 and all("refused, " in line for line in lines[1:])
    assert all(line.isprintable() and len(line) < 500 for line in lines)
    assert lines[4].startswith("a stranger: a letter: refused, a letter must have a text")


def test_who_is_withdrawn_is_refused_at_once(say: Say, hire: parts.Hire, tmp_path: Path) -> None:
    """By a process that runs, whatever the time of a file says."""
    key = Key(tmp_path / "key")
    own = hire(key=key)
    asked = letter(key, demand(own))
    assert "text" in own.open_letter(asked)
    number = own.ledger.number
    say("owner withdraw ann market")
    assert "has withdrawn" in own.open_letter(asked)["refused"]
    assert own.ledger.number == number + 1 and own.markets == ()


def test_a_rehearsal_opens_no_record_and_spends_nothing(
    say: Say, invited: Callable[..., Path], tmp_path: Path
) -> None:
    """Drawn records of another owner each time, with a label that can be learned."""
    more = '}, {name = "ö", levels = ["ü", "x;y", 3]}]'
    Path("schema.toml").write_text(SCHEMA.replace("}]\n", more), "utf8")
    pd.DataFrame({"a": [0], "b": [1], "ö": [3], "ill": ["no"]}).to_csv("people.csv", index=False)
    say(f"{INIT} --name ann")
    (tmp_path / "ann" / "data.npz").unlink()
    before = {file: file.read_bytes() for file in (tmp_path / "ann").iterdir()}
    invited("m", "--rehearsal")
    invited("n")
    for name in "mn":
        say(f"owner join ann {name}/invitation.json")
    before = {file: file.read_bytes() for file in (tmp_path / "ann").iterdir()}
    for _ in range(2):
        with rehearsal.rehearsing(tmp_path / "ann", 500) as own:
            x, y = own._features, own._labels
            (market,) = own.markets
            asked = demand(own, local_steps=1)
            assert x.shape == (500, 6) and "text" in own.answer(asked, market)
            assert own.approved(market.charter) == market
            fit = np.linalg.lstsq(x, y, rcond=None)[0]
            assert ((x @ fit > 0.5) == y).mean() > max(y.mean(), 1 - y.mean()) + 0.05
    assert before == {file: file.read_bytes() for file in (tmp_path / "ann").iterdir()}


def test_a_model_has_names_and_predicts(say: Say, tmp_path: Path) -> None:
    """Scores by the printed coefficients, in the units of the table, are those of coded rows."""
    columns = '{name = "age", low = 18, high = 100}, {name = "sex", levels = ["f", "m"]}, '
    columns += '{name = "ward", levels = ["a", "b", "c"]}'
    schema = f"{SCHEMA.partition('columns')[0]}columns = [{columns}]"
    say("market init m")
    Path("m/schema.toml").write_text(schema)
    say(f"market invite m --rounds 5 --quorum 1 --owners ann={'ab' * 32}")
    w = np.random.default_rng(0).normal(size=(2, 6))
    told = json.dumps({"charter": read_invitation(Path("m/invitation.json")).hash})
    with closing(sqlite3.connect("m/market.sqlite")) as base, base:
        base.execute("CREATE TABLE state (one INTEGER PRIMARY KEY, text TEXT)")
        base.execute("INSERT INTO state VALUES (1, ?)", (told,))
        base.commit()
        base.execute("CREATE TABLE rounds (round INTEGER PRIMARY KEY, text TEXT)")
        assert "no round yet" in say("market model m")
        for number, model in ((9, np.zeros((2, 6))), (10, w)):
            text = json.dumps({"round": number, "model": model.tolist()})
            base.execute("INSERT INTO rounds VALUES (?, ?)", (number, text))
    Path("t.csv").write_text("ward,age,sex\nb,20,f\nc,95.5,m\n\na,,m\n")
    told = rows_of(say("market model m"))
    assert [(row["column"], row["level"]) for row in told] == [
        ("constant", ""), ("age", ""), ("sex", "f"), ("sex", "m"), *(("ward", k) for k in "abc"),
    ]  # fmt: skip
    told_of = {(row["column"], row["level"]): float(row["yes"]) - float(row["no"]) for row in told}
    rows = rows_of(say("market predict m t.csv"))
    assert [row["row"] for row in rows] == ["line 2", "line 3", "line 5"]
    people = [("b", 20, "f"), ("c", 95.5, "m"), ("a", 59, "m")]
    for row, (ward, age, sex) in zip(rows, people, strict=True):
        score = told_of["constant", ""] + age * told_of["age", ""]
        score += told_of["sex", sex] + told_of["ward", ward]
        assert float(row["probability of yes"]) == pytest.approx(1 / (1 + np.exp(-score)))
        assert row["ill"] == ("yes" if score > 0 else "no")
    features = Agreement.read(Path("m/schema.toml")).schema.transform(pd.read_csv("t.csv"))
    assert np.allclose(np.diff(features @ w.T)[:, 0] > 0, [row["ill"] == "yes" for row in rows])
    for other in (
        ('"c"]', '"c", "d"]'),
        ("high = 100", "high = 200"),
        ('"no", "yes"', '"yes", "no"'),
    ):
        Path("m/schema.toml").write_text(schema.replace(*other))
        for line in ("model m", "predict m t.csv"):
            assert "trained under another schema than" in say(f"market {line}")
