"""``hdpm-owner``: from a table to an owner who sells. ``init``, ``key``, ``join``, ``check``,
``rehearse`` and ``serve``; ``status`` and ``ledger``; ``rotate``, ``withdraw`` and ``give-up``;
``backup`` and ``recover``.

A command writes after all is checked, each file as a whole; a mistake is one sentence, and leaves
everything as it was.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from contextlib import ExitStack, closing
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

import hdpm_lib
from hdpm_lib.validation import check_number, check_positive
from hdpm_owner import health, ledger, status
from hdpm_owner.charter import check_charter, folded, read_invitation, told_of
from hdpm_owner.console import one_sentence, print_csv, until_told, write
from hdpm_owner.deals import VERSION, Joined, Release, Withdrawn
from hdpm_owner.door import serve
from hdpm_owner.market_commands import DAYS
from hdpm_owner.owner import Owner, known
from hdpm_owner.rehearsal import rehearsing
from hdpm_owner.shapes import check_name
from hdpm_owner.table import Agreement, Table, load, read_table
from hdpm_owner.terms import Terms

TERMS = """\
# What {name} sells, and how much of it. Read by `hdpm-owner serve` when it starts.
name = {quoted}
# what is protected: a "record", that is one row, or the "owner", that is all of the table
unit = "record"
noise = "gaussian"   # or "laplace", which needs no delta
epsilon = {epsilon}        # what all releases together may lose, for ever
delta = {delta}
family = "linear"    # of her cost: "linear", "quadratic", "square root", "exponential"
rate = {rate}          # money for one unit of it and one record
# each record's gradient is shortened to this length; the market must ask for the same
clip_norm = {clip_norm}
spacing = {spacing!r}   # of the grid, a power of two
{limit}   # largest loss in a round: epsilon with Laplace noise, mu with Gaussian noise

# Who may buy stands in the ledger: `hdpm-owner join` and `withdraw`.
"""
CAP = 1e100  # no cap
OPTIONS = {
    "epsilon": (8.0, "what all releases together may lose, for ever"),
    "delta": (1e-5, "at this delta"),
    "rate": (0.01, "money for a unit of cost and a record"),
    "clip_norm": (1.0, "length of a record's gradient"),
    "limit": (inf, "largest loss in a round"),
}


def init(given: argparse.Namespace) -> None:
    """Read the table by the schema, and make the folder of an owner, or see that it is made so."""
    agreed = Agreement.read(given.schema)
    table = read_table(given.table, agreed)
    folder = given.folder
    parts = ("name", *OPTIONS)
    asked = {part: value for part in parts if (value := getattr(given, part)) is not None}
    if stands := (file := folder / "terms.toml").exists():
        terms = Terms.read(file)
        for part, value in asked.items():
            if (told := getattr(terms, part)) != value:
                raise ValueError(
                    f"--{part.replace('_', '-')} is {value}, and {file} says {told}: change it"
                    " there, or leave the option out"
                )
    else:
        numbers = {part: value for part, (value, _) in OPTIONS.items()} | asked
        numbers["limit"] = f"limit = {asked['limit']}" if "limit" in asked else "# limit = 0.5"
        name = check_name(asked.get("name", given.table.stem))
        told = numbers | {"name": name, "quoted": _quoted(name), "spacing": Terms.spacing}
        text = TERMS.format(**told).encode()
        terms = Terms.parse(text, file)
    said = _data(folder / "data.npz", table, agreed, replace=given.replace)
    there = (folder / "ledger.sqlite").exists()
    if not there and (folder / "data.npz").exists():  # which is written last
        raise ValueError(
            f"the ledger of {folder} is gone, and with it her key: nothing is made anew"
        )
    if not folder.exists():
        folder.mkdir(mode=0o700, parents=True)
    elif folder.stat().st_mode & 0o077:
        raise ValueError(
            f"others may enter {folder}: chmod 700, or take a folder that is not there"
        )
    if not there:
        ledger.make(folder)
    with closing(ledger.Ledger(folder, serves=False)) as kept:
        public = kept.first_key
    if not stands:
        write(file, text)
    write(folder / "schema.toml", given.schema.read_bytes())
    write(folder / "data.npz", table.saved(agreed.digest))
    print("For you alone, not to be published:")
    print("\n".join(f"  {line}" for line in table.report))
    for warning in table.warnings:
        print(f"  WARNING: {warning}")
    if not agreed.form.person:
        print("  a person with several rows loses more: name the column of persons in [csv]")
    print(f"schema {agreed.digest}\nkey {public}\n{said}")
    print(f"{file} {'kept' if stands else 'written: read and change it'}")
    if terms.limit == inf:
        print(
            f"A first sale may take all of epsilon = {terms.epsilon:g}, for ever: set limit in"
            f" {file}, and rehearse before you serve."
        )


def _data(file: Path, table: Table, agreed: Agreement, *, replace: bool) -> str:
    """Say what becomes of the data in a folder; others go only if somebody has said so."""
    new = len(table.labels)
    if not file.exists():
        return f"{file} written: {new} records"
    features, labels, digest = load(file)
    same = digest == agreed.digest and np.array_equal(features, table.features)
    same = same and np.array_equal(labels, table.labels)
    old = len(labels)
    if not (same or replace):
        raise ValueError(
            f"{file} has {old} records, and the table has {new} others: --replace puts these in"
            " their place"
        )
    return f"{file} kept: {old} records" if same else f"{file} written: {new} records for {old}"


def key(given: argparse.Namespace) -> None:
    """Print her name and key, which a market needs to invite her."""
    terms = Terms.read(given.folder / "terms.toml")
    with closing(ledger.Ledger(given.folder, serves=False)) as kept:
        print(f"{terms.name}={kept.key.public}")


def join(given: argparse.Namespace) -> None:
    """Consent to a charter, if it is one to which her terms can agree."""
    invitation = read_invitation(given.invitation)
    charter = invitation.read()
    terms = Terms.read(given.folder / "terms.toml")
    agreed = Agreement.read(given.folder / "schema.toml")
    caps = {name: getattr(given, name) for name in ("epsilon", "money")}
    for name, value in caps.items():
        check_positive(value, name)
    authority = given.folder / f"ca-{invitation.hash[:8]}.crt"  # each market has its own
    with closing(ledger.Ledger(given.folder, serves=False)) as kept, kept.alone():
        check_charter(charter, terms, agreed.digest, kept)
        one = Joined(invitation.hash, invitation.charter, invitation.signature, **caps)
        if invitation.hash in kept.consents:
            raise ValueError(f"she has joined {charter.name} already")
        if not given.look:
            if invitation.certificate:
                write(authority, invitation.certificate.encode())
            kept.write(one)
    print("\n".join(told_of(charter, invitation)))
    if invitation.certificate and not given.look:
        print(f"{authority} written: of the market, for the SuperNode")
    print("not joined: left to be read" if given.look else f"{terms.name} has joined")


def withdraw(given: argparse.Namespace) -> None:
    """Consent no longer to the charters of a market: its next letter is refused."""
    terms = Terms.read(given.folder / "terms.toml")
    with closing(ledger.Ledger(given.folder, serves=False)) as kept, kept.alone():
        joined = known(kept.consents)
        its = [one for one in joined if folded(one.name) == folded(given.market)]
        if not its:
            names = ", ".join(dict.fromkeys(one.name for one in joined)) or "nobody"
            raise ValueError(f"she has joined no market {given.market!r}: she has joined {names}")
        for one in its:
            kept.write(Withdrawn(one.charter))
    print(f"{given.market} may not buy from {terms.name} any more")


def rotate(given: argparse.Namespace) -> None:
    """Make a new key of hers, which the old one signs; who serves takes it up."""
    until = time.time() + 86400 * check_number(given.days, "days", 1, 3650)
    with closing(ledger.Ledger(given.folder, serves=False)) as kept:
        print(status.rotated(vars(kept.rotate(until))))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def answer(given: argparse.Namespace) -> None:
    """Answer markets for ever."""
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(format="%(asctime)sZ %(message)s", level=logging.INFO, force=True)
    door = _door(given)
    with until_told(), ExitStack() as at_end:
        if given.rehearse:
            owner = at_end.enter_context(rehearsing(given.folder, given.records))
            logging.info("a rehearsal: %d drawn records, no ledger", owner.records)
        else:
            owner = Owner(given.folder)
            at_end.callback(owner.ledger.close)
            terms = owner.terms
            left = max(terms.epsilon - owner.ledger.spent.epsilon(terms.delta), 0.0)
            names = ", ".join(one.name for one in owner.markets if not one.rehearsal) or "nobody"
            logging.info("epsilon %.4g of %g is left, for %s", left, terms.epsilon, names)
        serve(owner, door)


def check(given: argparse.Namespace) -> list[str]:
    """Print what `serve` needs, and if she has an invitation whether its market is there; what is
    wrong.
    """
    found = list(health.of_owner(given.folder, _door(given)))
    if given.invitation is not None:
        found += health.of_market(read_invitation(given.invitation))
    for what, said in found:
        if not said:
            print(f"{what}: well")
    return [f"{what}: {said}" for what, said in found if said]


def backup(given: argparse.Namespace) -> None:
    """Copy her ledger, while she serves or not."""
    ledger.backup(given.folder, given.file)
    print(f"{given.file} has her ledger and her key: for her alone")


def recover(given: argparse.Namespace) -> None:
    """Put a copy of her ledger into a new folder."""
    found = ledger.recover(given.folder, given.file)["entries"]
    day = time.strftime("%Y-%m-%d %H:%M", time.gmtime(found[-1]["time"]))
    print(
        f"{len(found)} entries, the last of {day} UTC. What was sold or released after that is not"
        f" in it: nobody may buy before she joins again.\n"
        f"Before that, hand `hdpm-owner ledger {given.folder} --json` to each market that she had"
        " joined: if its audit has another entry after these, the copy is too old, and she sells"
        " with a new folder and a new key, for what is left of her epsilon."
    )


def _door(given: argparse.Namespace) -> Path:
    """Return the place of her door; an error if it is among her files."""
    door = Path(given.door or given.folder / "door")
    if door.resolve().parent == given.folder.resolve() and door.name != "door":
        raise ValueError(f"the door {door} may not be beside her records: take another folder")
    return door


def show_status(given: argparse.Namespace) -> None:
    """Print what she has spent and has left, and what would keep her from selling."""
    if not (given.csv or given.html):
        for what, said in health.of_owner(given.folder, _door(given)):
            if said:
                print(f"WOULD NOT SELL: {what}: {said}")
    if given.csv:
        print_csv(status.rows(given.folder), status.COLUMNS)
    else:
        told = status.as_html if given.html else status.as_text
        print(told(given.folder, given.certificates))


def show(given: argparse.Namespace) -> None:
    """Print the ledger, which she may be writing."""
    found = ledger.read(given.folder)
    rows = found["entries"]
    if given.json:
        print(json.dumps(found))
    elif given.csv:
        more = ["chain", "signature", "countersignature"]
        releases = [row for row in rows if row["entry"] == "release"]
        print_csv(releases, ["entry", *Release.__dataclass_fields__, *more])
    else:
        print("\n".join(map(_line, rows)))


def give_up(given: argparse.Namespace) -> None:
    """Give up what waits of a sale."""
    with closing(ledger.Ledger(given.folder, serves=False)) as kept:
        kept.give_up(given.ticket)


def _line(row: dict[str, Any]) -> str:
    if row["entry"] == "promise":
        told = f"epsilon {row['epsilon']:g} at delta {row['delta']:g} for a {row['unit']}"
        return f"promised: {told}"
    if row["entry"] in ("made", "joined", "withdrawn", "closed"):
        return status.consent(row)
    if row["entry"] == "rotated":
        return f"rotated: {status.rotated(row['statement'])}"
    who = f"{row['ticket'][:8]}  {row['market']}"
    if row["entry"] == "sale":
        told = (
            f"{len(row['losses'])} rounds, losses of at most {max(row['losses']):g}, for"
            f" {sum(row['payments']):g}"
        )
        return f"{who}  sold: {told}"
    if row["entry"] == "given up":
        return f"{who}  given up: what was not released"
    owed = "receipt signed by both" if row.get("countersignature") else "receipt not countersigned"
    return (
        f"{who}  round {row['round']}: a {row['unit']} loses {row['loss']:g} for"
        f" {row['payment']:g}, {owed}"
    )


def main(arguments: list[str] | None = None) -> None:
    """Command line; a mistake is one sentence and exit status 2, what is wrong is status 1."""
    parser = argparse.ArgumentParser(prog="hdpm-owner", description=__doc__, allow_abbrev=False)
    told = f"%(prog)s {hdpm_lib.__version__}, protocol {VERSION}"
    parser.add_argument("--version", action="version", version=told)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Any, what: str, *words: str) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=what, allow_abbrev=False)
        one.set_defaults(run=run)
        for word in words:
            one.add_argument(word, type=Path if word == "folder" else str)
        return one

    one = command("init", init, "make the folder of an owner from a table")
    one.add_argument("table", type=Path, help="CSV or Parquet file, as the schema declares it")
    one.add_argument("--schema", type=Path, required=True, help="on which all have agreed")
    one.add_argument("--folder", type=Path, default=Path("owner"), help="default: %(default)s")
    one.add_argument("--name", help="default: that of the table")
    for name, (value, what) in OPTIONS.items():
        what = what if value == inf else f"{what}; default: {value}"
        one.add_argument(f"--{name.replace('_', '-')}", type=float, help=what)
    one.add_argument("--replace", action="store_true", help="other data than those that are there")
    command("key", key, "print her name and key, for the market that invites her", "folder")
    two = command("join", join, "consent to what a market is for", "folder")
    two.add_argument("invitation", type=Path, help="the file that the market has sent")
    two.add_argument("--look", action="store_true", help="only say what it is, to read it over")
    two.add_argument("--epsilon", type=float, default=CAP, help="the most that its key may buy")
    two.add_argument("--money", type=float, default=CAP, help="the most that it may promise")
    command("withdraw", withdraw, "let a market buy no more", "folder", "market")
    command("rotate", rotate, "make a new key of hers, which the old one signs", "folder")
    commands.choices["rotate"].add_argument("--days", type=float, **DAYS)
    for name, what in (("rehearse", "answer with drawn records"), ("serve", "answer")):
        three = command(name, answer, f"{what}, for ever", "folder")
        three.set_defaults(rehearse=name == "rehearse")
    for name, run, what in (
        ("check", check, "look at all that `serve` needs"),
        (
            "status",
            show_status,
            "what is spent and left, by market, and what keeps her from selling",
        ),
    ):
        command(name, run, what, "folder")
    for name in ("rehearse", "serve", "check", "status"):
        door = commands.choices[name]
        door.add_argument("--door", type=Path, help="the socket; default: door in the folder")
    what = "the file that the market has sent: look whether the market is there, too"
    commands.choices["check"].add_argument("invitation", type=Path, nargs="?", help=what)
    for name, run, what in (
        ("backup", backup, "copy her ledger, while she serves or not"),
        ("recover", recover, "put a copy of her ledger into a new folder"),
    ):
        command(name, run, what, "folder").add_argument("file", type=Path, help="of the copy")
    commands.choices["rehearse"].add_argument("--records", type=int, default=1000)
    four = commands.choices["status"]
    four.add_argument("--csv", action="store_true", help="with numbers in full")
    four.add_argument("--html", action="store_true", help="a page to print")
    four.add_argument("--certificates", type=Path, nargs="+", default=[], help="say their ends")
    five = command("ledger", show, "what was sold and released", "folder")
    five.add_argument("--csv", action="store_true", help="releases, as CSV")
    five.add_argument("--json", action="store_true", help="everything, as JSON")
    command("give-up", give_up, "never release the rest of a sale", "folder", "ticket")
    given = parser.parse_args(arguments)
    wrong = None
    with one_sentence(parser):
        wrong = given.run(given)
    if wrong:
        parser.exit(1, "".join(f"hdpm-owner: {line}\n" for line in wrong))
