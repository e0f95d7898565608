"""``hdpm-market``: a market's charter, who is owed what, what was learned. ``init``, ``key``,
``choose``, ``invite``, ``rotate``, ``receipts`` and ``audit``; ``model`` and ``predict``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import hdpm_lib
from hdpm_lib.validation import check_count, check_number
from hdpm_owner.audit import Cell, wrong
from hdpm_owner.audit import audit as audited
from hdpm_owner.charter import Agreed, Charter, Invitation, Invited, read_invitation, told_of
from hdpm_owner.charter import invite as invite_to
from hdpm_owner.choice import chosen, tried
from hdpm_owner.console import one_sentence, print_csv, write
from hdpm_owner.deals import VERSION
from hdpm_owner.model import coefficients, predictions, trained
from hdpm_owner.receipts import Book, kept, owed
from hdpm_owner.shapes import shaped
from hdpm_owner.signatures import Key, canonical, in_words
from hdpm_owner.status import rotated
from hdpm_owner.table import Agreement
from hdpm_owner.terms import ROUNDS

DAYS: dict[str, Any] = {"default": 30, "help": "that the old one stays good; default: %(default)s"}


def init(given: argparse.Namespace) -> None:
    """Make a market's folder, and its key; print the public one."""
    given.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if given.folder.stat().st_mode & 0o077:
        raise ValueError(f"others may enter {given.folder}: chmod 700")
    if (given.folder / "key").exists():
        raise ValueError(f"{given.folder} has a key already: hdpm-market key prints it")
    print(Key(given.folder / "key").public)


def key(given: argparse.Namespace) -> None:
    """Print the market's public key, and the words that stand for it."""
    public = Key(given.folder / "key", new=False).public
    print(public)
    print(in_words(public), file=sys.stderr)


def invite(given: argparse.Namespace) -> None:
    """Write and sign the charter of a market, as an invitation to its owners."""
    file = given.folder / "invitation.json"
    if file.exists():
        raise ValueError(
            f"{file} is there: a market has one charter, another market another folder"
        )
    if given.folder.resolve().stat().st_mode & 0o077:
        raise ValueError(f"others may enter {given.folder}: chmod 700")
    signer = Key(given.folder / "key", new=False)
    schema = given.schema or given.folder / "schema.toml"
    agreed = Agreement.read(schema)
    owners = []
    for one in given.owners:
        name, _, public = one.rpartition("=")
        owners.append(shaped(Invited, {"name": name, "key": public}))
    plan = {part: value for part in Agreed.__dataclass_fields__
            if (value := getattr(given, part)) is not None}  # fmt: skip
    content = {"version": VERSION, "name": given.name or given.folder.resolve().name}
    content |= {"key": signer.public, "schema": agreed.digest, "rehearsal": given.rehearsal}
    earlier = []
    for one in given.earlier:
        before = read_invitation(one / "invitation.json")
        if before.read().rehearsal:
            raise ValueError(f"{one} is a rehearsal, whose ledgers are thrown away: leave it out")
        if before.read().key not in (signer.public, *(line.old for line in signer.line)):
            raise ValueError(f"{one} was held with another key")
        earlier.append(before.hash)
    wanted = shaped(Agreed, plan)
    if wanted.needed > len(owners):
        raise ValueError(f"{wanted.needed} sellers are needed, and {len(owners)} are invited")
    content |= {"plan": plan, "owners": list(map(vars, owners)), "earlier": earlier}
    charter = shaped(Charter, content | {"time": time.time()})
    certificate = given.certificate.read_text("ascii") if given.certificate else ""
    made = invite_to(charter, signer, given.address, certificate)
    shaped(Invitation, vars(made))
    if schema != given.folder / "schema.toml":
        write(given.folder / "schema.toml", schema.read_bytes())
    write(file, canonical(made).encode())
    print("\n".join(told_of(charter, made)))


def rotate(given: argparse.Namespace) -> None:
    """Put a new key in the place of one, which stays good for some days; who runs takes it up."""
    until = time.time() + 86400 * check_number(given.days, "days", 1, 3650)
    print(rotated(vars(Key(given.folder / "key", new=False).rotate(until).line[-1])))


def receipts(given: argparse.Namespace) -> list[str]:
    """Print who is owed what; complaints."""
    rows = [row for folder in given.folders for row in kept(folder)]
    told = _audited(given)
    print_csv(owed(rows), ["owner", "key", "rounds", "owed"])
    return [str(one) for one in wrong(told)]


def audit(given: argparse.Namespace) -> list[str]:
    """Print what was found for each owner in each round; complaints."""
    told = _audited(given)
    print_csv([vars(one) for one in told])
    return [str(one) for one in wrong(told)]


def _audited(given: argparse.Namespace) -> list[Cell]:
    books = [Book.read(folder) for folder in given.folders]
    ledgers = {str(file): _json(file) for file in given.ledgers}
    return audited(books, ledgers, given.without, models=getattr(given, "models", False))


def model(given: argparse.Namespace) -> None:
    """Print the coefficients of the last round."""
    print_csv(coefficients(*trained(given.folder)))


def predict(given: argparse.Namespace) -> None:
    """Print predictions for the rows of a table."""
    print_csv(predictions(*trained(given.folder), given.table))


def choose(given: argparse.Namespace) -> None:
    """Print what learns best on tables drawn from the schema, the best first."""
    agreed = Agreement.read(given.folder / "schema.toml")
    sizes = [check_count(n, "records", 2, 10**6) for n in given.records]
    rounds = [check_count(n, "rounds", 1, ROUNDS) for n in given.rounds]
    settings = list(tried(agreed, sizes, given.epsilon, given.delta, rounds))
    best = chosen(settings)
    settings.sort(key=lambda one: (one != best, -one.accuracy))
    print_csv([one._asdict() for one in settings])


def _json(file: Path) -> Any:
    """Read what a file holds; None, which is no ledger, if that is no JSON."""
    try:
        return json.loads(file.read_text("utf-8-sig"))
    except (ValueError, RecursionError):
        return None


def main(arguments: list[str] | None = None) -> None:
    """Command line; a mistake is one sentence and exit status 2, complaints are status 1."""
    parser = argparse.ArgumentParser(prog="hdpm-market", description=__doc__, allow_abbrev=False)
    told = f"%(prog)s {hdpm_lib.__version__}, protocol {VERSION}"
    parser.add_argument("--version", action="version", version=told)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for run, what in (
        (init, "make the folder and the key of a market"),
        (key, "print the market's public key"),
        (invite, "write and sign what the market is for, and who is invited"),
        (rotate, "make a new key, which the old one signs"),
        (choose, "print rounds, local steps and a rate for a schema, the best first, as CSV"),
        (receipts, "check all documents, and print who is owed what, as CSV"),
        (audit, "check all documents, and print what was found for each owner and round, as CSV"),
        (model, "print coefficients with names, in the units of the table, as CSV"),
        (predict, "print classes and probabilities for a table, as CSV"),
    ):
        one = commands.add_parser(run.__name__, help=what, allow_abbrev=False)
        one.set_defaults(run=run)
        if run in (audit, receipts):
            one.add_argument("folders", type=Path, nargs="+", help="all in which these owners sold")
            one.add_argument("--ledgers", type=Path, nargs="+", default=[], metavar="FILE",
                             help="made by `hdpm-owner ledger FOLDER --json`")  # fmt: skip
            what = "whose ledgers are not handed in, which is known"
            one.add_argument("--without", nargs="+", default=[], metavar="OWNER", help=what)
        else:
            one.add_argument("folder", type=Path)
    what = "compute each model again, from the releases that the market has kept"
    commands.choices["audit"].add_argument("--models", action="store_true", help=what)
    commands.choices["predict"].add_argument("table", type=Path, help="a label is not looked at")
    commands.choices["rotate"].add_argument("--days", type=float, **DAYS)
    three = commands.choices["invite"]
    three.add_argument("--owners", nargs="+", required=True, metavar="NAME=KEY",
                       help="as `hdpm-owner key FOLDER` prints them")  # fmt: skip
    three.add_argument("--schema", type=Path, help="default: schema.toml in the folder")
    three.add_argument("--name", help="of the market; default: that of its folder")
    three.add_argument("--rehearsal", action="store_true", help="with drawn records only")
    three.add_argument("--address", default="", help="HOST:PORT of the SuperLink")
    three.add_argument("--certificate", type=Path, help="of the authority, ca.crt")
    three.add_argument("--earlier", type=Path, nargs="+", default=[], metavar="FOLDER",
                       help="markets that were held with this key")  # fmt: skip
    for part in fields(Agreed):
        kind = type(part.default) if part.default is not MISSING else int
        what = "" if part.default is MISSING else f"default: {part.default}"
        three.add_argument(f"--{part.name.replace('_', '-')}", type=kind, help=what,
                           required=part.default is MISSING)  # fmt: skip
    two = commands.choices["choose"]
    two.add_argument("--records", type=int, nargs="+", required=True, help="of each owner, about")
    two.add_argument("--epsilon", type=float, required=True, help="that she sells in all")
    two.add_argument("--delta", type=float, default=1e-5, help="default: %(default)s")
    two.add_argument("--rounds", type=int, nargs="+", default=[10], help="default: %(default)s")
    given = parser.parse_args(arguments)
    wrong = None
    with one_sentence(parser):
        wrong = given.run(given)
    if wrong:
        parser.exit(1, "".join(f"hdpm-market: {line}\n" for line in wrong))


if __name__ == "__main__":
    main()
