"""``hdpm-market``: a market's key, and its receipts: checked, compared with ledgers, and who is
owed what.

A receipt is a text that an owner signs with a release and the market signs when the release was
used: who, which market, round, unit, loss, payment, hash of the schema, and the place in her
ledger.
"""

from __future__ import annotations

import argparse
import csv
import json
import sqlite3
import sys
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

from hdpm_owner.signatures import Key, signed

Row = dict[str, Any]


def complaint(row: Row) -> str:
    """What is wrong with a receipt and its two signatures; nothing if all is well."""
    try:
        told = json.loads(row["receipt"])
        both = {"signature": told["key"], "countersignature": told["market"]}
    except (KeyError, TypeError, ValueError):
        return "it is no receipt"
    bad = [name for name, key in both.items() if not signed(row["receipt"], row.get(name), key)]
    return f"its {' and '.join(bad)} cannot be verified" if bad else ""


def kept(folder: Path) -> list[Row]:
    """The receipts that a market has kept."""
    file = folder / "market.sqlite"
    if not file.exists():
        raise ValueError(f"there is no market in {folder}")
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as base:
        rows = base.execute(
            "SELECT receipt, signature, countersignature FROM receipts ORDER BY round, owner"
        )
        return [
            dict(zip(("receipt", "signature", "countersignature"), row, strict=True))
            for row in rows
        ]


def compared(receipts: list[Row], ledgers: dict[str, list[Row]]) -> list[str]:
    """Complaints: bad receipts, two for one round, and what ledgers and receipts do not both have.

    An owner has at most one release for each sale that no receipt tells of: the last one, which may
    not have arrived.
    """
    found = []
    seen = {}
    for row in receipts:
        if said := complaint(row):
            found.append(f"a receipt: {said}")
            continue
        told = json.loads(row["receipt"])
        place = told["key"], told["ticket"], told["round"]
        if place in seen:
            found.append(f"{told['owner']}, round {told['round']}: two receipts")
        seen[place] = told
    for name, entries in ledgers.items():
        released = {
            (row["ticket"], row["round"]): row for row in entries if row["entry"] == "release"
        }
        tickets = {ticket for ticket, _ in released}
        told = {place[1:]: one for place, one in seen.items() if place[1] in tickets}
        for place, one in told.items():
            entry = released.get(place)
            if entry is None or any(
                entry[part] != one[part] for part in ("loss", "payment", "unit", "noise", "chain")
            ):
                found.append(
                    f"{name}, round {place[1]}: the ledger says otherwise than the receipt"
                )
        unanswered: dict[str, list[int]] = defaultdict(list)
        for ticket, number in released.keys() - told.keys():
            unanswered[ticket].append(number)
        found += [
            f"{name}: rounds {sorted(n)} of {t[:8]} have no receipt"
            for t, n in unanswered.items()
            if len(n) > 1
        ]
    return found


def owed(receipts: list[Row]) -> list[Row]:
    """Who is owed what: a row for each owner."""
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0.0])
    for row in receipts:
        told = json.loads(row["receipt"])
        entry = sums[told["owner"], told["key"]]
        entry[0], entry[1] = entry[0] + 1, entry[1] + told["payment"]
    return [
        {"owner": o, "key": k, "rounds": n, "owed": round(paid, 6)}
        for (o, k), (n, paid) in sorted(sums.items())
    ]


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="hdpm-market", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    one = commands.add_parser(
        "key", help="print the market's public key, which owners approve; made if it is not there"
    )
    one.add_argument("folder", type=Path)
    two = commands.add_parser(
        "receipts", help="check the receipts, and print who is owed what, as CSV"
    )
    two.add_argument(
        "folders", type=Path, nargs="+", help="of all its markets in which these owners sold"
    )
    two.add_argument(
        "--ledgers",
        type=Path,
        nargs="*",
        default=[],
        help="made by `hdpm-owner ledger FOLDER --json`",
    )
    given = parser.parse_args(arguments)
    try:
        if given.command == "key":
            given.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            print(Key(given.folder / "key").public)
            return
        receipts = [row for folder in given.folders for row in kept(folder)]
        wrong = compared(
            receipts, {file.stem: json.loads(file.read_text("utf8")) for file in given.ledgers}
        )
        writer = csv.DictWriter(sys.stdout, ["owner", "key", "rounds", "owed"])
        writer.writeheader()
        writer.writerows(owed([row for row in receipts if not complaint(row)]))
    except (ValueError, OSError, sqlite3.Error) as error:
        parser.exit(2, f"hdpm-market: {error}\n")
    if wrong:
        parser.exit(1, "".join(f"hdpm-market: {line}\n" for line in wrong))


if __name__ == "__main__":
    main()
