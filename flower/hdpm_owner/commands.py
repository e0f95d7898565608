"""``hdpm-owner``: from a table to an owner who sells. ``init``, ``approve``, ``rehearse`` and
``serve``; ``status`` and ``ledger``; ``rotate``, ``withdraw`` and ``give-up``.

A command writes after all is checked, each file as a whole; a mistake is one sentence, and leaves
everything as it was.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import re
import time
import tomllib
from contextlib import closing, suppress
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from hdpm_owner import ledger, status
from hdpm_owner.console import one_sentence, print_csv, write
from hdpm_owner.deals import Release
from hdpm_owner.door import serve
from hdpm_owner.market_commands import DAYS, rotate
from hdpm_owner.owner import Owner
from hdpm_owner.rehearsal import rehearsing
from hdpm_owner.shapes import check_name
from hdpm_owner.signatures import Key
from hdpm_owner.table import Agreement, Table, load, read_table
from hdpm_owner.terms import Approved, Terms

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

# A market that may buy, from now on or no longer: `hdpm-owner approve` and `withdraw`.
"""
MOST = "# epsilon, money, rounds: the most that it may buy, promise in all, and ask for in a sale\n"
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
    new = not (folder / "data.npz").exists()  # which is written last
    there = (folder / "ledger.sqlite").exists()
    if there and not (folder / "key").exists():
        raise ValueError(f"{folder} has a ledger and no key, with which it was written")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    key = Key(folder / "key")
    if new and not there:  # a ledger that is gone is not made anew
        ledger.make(folder, key.public)
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
    print(f"schema {agreed.digest}\nkey {key.public}\n{said}")
    print(f"{file} {'kept' if stands else 'written: read and change it'}")
    if terms.limit == inf:
        print(
            f"A first sale may take all of epsilon = {terms.epsilon:g}, for ever: set limit in"
            f" {file}, and rehearse before you serve."
        )


def _data(file: Path, table: Table, agreed: Agreement, *, replace: bool) -> str:
    """What becomes of the data in a folder; others go only if somebody has said so."""
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


def approve(given: argparse.Namespace) -> None:
    """Add a market to the terms."""
    terms = Terms.read(file := given.folder / "terms.toml")
    if given.name in {known.name for known in terms.markets}:
        raise ValueError(f"{file} approves of {given.name} already: withdraw it, if it is another")
    one = Approved(given.name, given.key)
    lines = [f"{name} = {_quoted(getattr(one, name))}\n" for name in ("name", "key")]
    text = f"\n[[markets]]\n{''.join(lines)}{MOST}".encode()
    wanted = dataclasses.replace(terms, markets=(*terms.markets, one))
    _replace(file, file.read_bytes() + text, wanted)
    print(f"{given.name} may buy from {terms.name} from now on")


def withdraw(given: argparse.Namespace) -> None:
    """Take a market out of the terms: its next letter is refused."""
    terms = Terms.read(file := given.folder / "terms.toml")
    rest = tuple(one for one in terms.markets if one.name != given.market)
    if len(rest) == len(terms.markets):
        names = ", ".join(one.name for one in terms.markets) or "nobody"
        raise ValueError(f"{file} approves of no market {given.market!r}: it approves of {names}")
    text = file.read_bytes()
    for part in re.split(rb"(?m)^(?=[ \t]*\[)", text)[1:]:
        with suppress(ValueError, AttributeError, KeyError, IndexError, TypeError):
            if tomllib.loads(part.decode())["markets"][0]["name"] == given.market:
                text = text.replace(part, b"")
    _replace(file, text, dataclasses.replace(terms, markets=rest))
    print(f"{given.market} may not buy from {terms.name} any more")


def _replace(file: Path, text: bytes, wanted: Terms) -> None:
    """Write terms that say what is wanted and nothing else."""
    if Terms.parse(text, file) != wanted:
        raise ValueError(f"{file} is written in another way: change its markets by hand")
    write(file, text)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def answer(given: argparse.Namespace) -> None:
    """Answer markets for ever."""
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(format="%(asctime)sZ %(message)s", level=logging.INFO, force=True)
    door = given.door or given.folder / "door"
    if given.rehearse:
        with rehearsing(given.folder, given.records) as owner:
            logging.info("a rehearsal: %d drawn records, no ledger", owner.records)
            serve(owner, door)
        return
    owner = Owner(given.folder)
    terms = owner.terms
    left = max(terms.epsilon - owner.ledger.spent.epsilon(terms.delta), 0.0)
    names = ", ".join(one.name for one in terms.markets) or "nobody"
    logging.info("epsilon %.4g of %g is left, for %s", left, terms.epsilon, names)
    serve(owner, door)


def show_status(given: argparse.Namespace) -> None:
    """Print what she has spent and has left."""
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
    with closing(ledger.Ledger(given.folder, Key(given.folder / "key", new=False))) as kept:
        kept.give_up(given.ticket)


def _line(row: dict[str, Any]) -> str:
    if row["entry"] == "promise":
        told = f"epsilon {row['epsilon']:g} at delta {row['delta']:g} for a {row['unit']}"
        return f"promised: {told}, to {', '.join(row['markets']) or 'nobody'}"
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
    """Command line; a mistake is one sentence, and exit status 2."""
    parser = argparse.ArgumentParser(prog="hdpm-owner", description=__doc__, allow_abbrev=False)
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
    two = command("approve", approve, "let a market buy", "folder", "name")
    two.add_argument("key", help="what `hdpm-market key` prints")
    command("withdraw", withdraw, "let a market buy no more", "folder", "market")
    command("rotate", rotate, "make a new key of hers, which the old one signs", "folder")
    commands.choices["rotate"].add_argument("--days", type=float, **DAYS)
    for name, what in (("rehearse", "answer with drawn records"), ("serve", "answer")):
        three = command(name, answer, f"{what}, for ever", "folder")
        three.set_defaults(rehearse=name == "rehearse")
        three.add_argument("--door", type=Path, help="the socket; default: door in the folder")
    commands.choices["rehearse"].add_argument("--records", type=int, default=1000)
    four = command("status", show_status, "what is spent and left, by market", "folder")
    four.add_argument("--csv", action="store_true", help="with numbers in full")
    four.add_argument("--html", action="store_true", help="a page to print")
    four.add_argument("--certificates", type=Path, nargs="+", default=[], help="say their ends")
    five = command("ledger", show, "what was sold and released", "folder")
    five.add_argument("--csv", action="store_true", help="releases, as CSV")
    five.add_argument("--json", action="store_true", help="everything, as JSON")
    command("give-up", give_up, "never release the rest of a sale", "folder", "ticket")
    given = parser.parse_args(arguments)
    with one_sentence(parser):
        given.run(given)
