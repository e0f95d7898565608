"""``hdpm-owner``: from a CSV file to an owner who sells: ``init``, ``approve``, ``serve``, and her
``ledger``.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import sys
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from hdpm_owner import ledger
from hdpm_owner.deals import Release
from hdpm_owner.door import serve
from hdpm_owner.owner import Owner
from hdpm_owner.signatures import Key
from hdpm_owner.table import Agreement, read_table
from hdpm_owner.terms import Approved, Spent, Terms

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
# limit = 0.5        # largest loss in a round: epsilon with Laplace noise, mu with Gaussian noise

# A market that may buy: `hdpm-owner approve` adds it.
"""
MARKET = """
[[markets]]
name = {name}
key = "{key}"
# epsilon, money, rounds: the most that it may buy, promise in all, and ask for in one sale
"""


def init(given: argparse.Namespace) -> None:
    """Read the table by the schema, and make the folder of an owner."""
    agreed = Agreement.read(given.schema)
    table = read_table(given.table, agreed)
    folder = given.folder
    name = given.name or given.table.stem
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copyfile(given.schema, folder / "schema.toml")
    np.savez(
        folder / "data.npz", features=table.features, labels=table.labels, schema=agreed.digest
    )
    if (terms := folder / "terms.toml").exists():
        kept = "kept"
    else:
        numbers = {part: getattr(given, part) for part in ("epsilon", "delta", "rate", "clip_norm")}
        terms.write_text(
            TERMS.format(name=name, quoted=json.dumps(name), spacing=Terms.spacing, **numbers),
            "utf8",
        )
        kept = "written: read and change it"
    new = not (folder / "key").exists()
    key = Key(folder / "key")
    if new:  # a ledger that is gone is not made anew
        ledger.make(folder, key.public)
    print("For you alone, not to be published:")
    print("\n".join(f"  {line}" for line in table.report))
    for warning in table.warnings:
        print(f"  WARNING: {warning}")
    print(f"schema {agreed.digest}\nkey {key.public}\n{terms} {kept}")
    Terms.read(terms)


def approve(given: argparse.Namespace) -> None:
    """Add a market to the terms."""
    one = Approved(given.name, given.key)
    file = given.folder / "terms.toml"
    if one.key in {known.key for known in Terms.read(file).markets}:
        raise ValueError(f"{file} approves of that key already")
    with file.open("a", encoding="utf8") as stream:
        stream.write(MARKET.format(name=json.dumps(one.name), key=one.key))
    Terms.read(file)


def show(given: argparse.Namespace) -> None:
    """Print the ledger, which she may be writing."""
    found = ledger.read(given.folder)
    rows = found["entries"]
    if given.json:
        print(json.dumps(found))
    elif given.csv:
        names = [
            "entry",
            *Release.__dataclass_fields__,
            "chain",
            "signature",
            "countersignature",
        ]
        writer = csv.DictWriter(sys.stdout, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(row for row in rows if row["entry"] == "release")
    else:
        spent = Spent()
        for row in rows:
            print(_line(row))
            spent += Spent.of(row["noise"], row["loss"]) if row["entry"] == "release" else Spent()
        print(
            f"lost in all: epsilon {float(spent.pure):g} by Laplace noise, mu"
            f" {sqrt(spent.squares):g} by Gaussian noise"
        )


def _line(row: dict[str, Any]) -> str:
    if row["entry"] == "promise":
        return f"promised: epsilon {row['epsilon']:g} at delta {row['delta']:g}"
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
    parser = argparse.ArgumentParser(prog="hdpm-owner", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("init", help="make the folder of an owner from a CSV file")
    one.add_argument("table", type=Path, help="CSV file with a line of names")
    one.add_argument(
        "--schema", type=Path, required=True, help="schema.toml on which all have agreed"
    )
    one.add_argument("--folder", type=Path, default=Path("owner"), help="default: %(default)s")
    one.add_argument("--name", help="default: that of the CSV file")
    for name, value, what in (
        ("epsilon", 8.0, "what all releases together may lose"),
        ("delta", 1e-5, "at this delta"),
        ("rate", 0.01, "money for a unit of cost and a record"),
        ("clip-norm", 1.0, "length of a record's gradient"),
    ):
        one.add_argument(
            f"--{name}", type=float, default=value, help=f"{what}; default: %(default)s"
        )
    one.set_defaults(run=init)
    two = commands.add_parser("approve", help="add a market to the terms")
    two.add_argument("folder", type=Path)
    two.add_argument("name")
    two.add_argument("key", help="what `hdpm-market key` prints")
    two.set_defaults(run=approve)
    three = commands.add_parser("serve", help="answer markets, for ever")
    three.add_argument("folder", type=Path)
    three.add_argument("--door", type=Path, help="the socket; default: door in the folder")
    three.set_defaults(
        run=lambda given: serve(Owner(given.folder), given.door or given.folder / "door")
    )
    four = commands.add_parser("ledger", help="what was sold and released")
    four.add_argument("folder", type=Path)
    four.add_argument("--csv", action="store_true", help="releases, as CSV")
    four.add_argument("--json", action="store_true", help="everything, as JSON")
    four.set_defaults(run=show)
    given = parser.parse_args(arguments)
    try:
        given.run(given)
    except (ValueError, RuntimeError, OSError, ModuleNotFoundError) as error:
        parser.exit(2, f"hdpm-owner: {error}\n")
    except KeyboardInterrupt:
        parser.exit(130)
