"""What a market has in writing: its state after each round, all receipts, and what came with them,
in one database, each round in one step.

A market that is killed at any moment goes on after the last round that is here, and asks for the
next one again.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hdpm_owner import receipts

VERSION = 6
TABLES = """
CREATE TABLE IF NOT EXISTS state (
  one INTEGER PRIMARY KEY CHECK (one = 1), text TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS rounds (round INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS receipts (
  owner TEXT, ticket TEXT, round INTEGER, receipt TEXT, signature TEXT, countersignature TEXT,
  steps TEXT,
  PRIMARY KEY (ticket, round)
) STRICT;
"""
Row = dict[str, Any]


class Book:
    """The database of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o077:
            raise ValueError(
                f"others may enter {folder}, where a market writes its book: chmod 700"
            )
        self._base = sqlite3.connect(folder / "market.sqlite", isolation_level="IMMEDIATE")
        self._base.execute("PRAGMA journal_mode = WAL")
        self._base.execute("PRAGMA synchronous = FULL")
        version = self._base.execute("PRAGMA user_version").fetchone()[0]
        begun = self._base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] > 0
        if begun and version != VERSION:
            self.close()
            raise ValueError(
                f"the market in {folder} was begun by another version: end it with that; its"
                " receipts can be read"
            )
        self._base.executescript(f"BEGIN; {TABLES} PRAGMA user_version = {VERSION}; COMMIT")

    @property
    def state(self) -> Row:
        """What was written last; nothing if nothing was."""
        return receipts.state(self.folder)

    @property
    def rounds(self) -> list[Row]:
        """What happened in each round."""
        return receipts.rounds(self.folder)

    def write(
        self, state: Row, held: Row | None = None, rows: Sequence[tuple[Any, ...]] = ()
    ) -> None:
        """Write the state, and with it a round and its receipts: all of it, or after a crash
        nothing.
        """
        told = json.dumps(state, default=vars)
        with self._base:
            self._base.execute("INSERT OR REPLACE INTO state VALUES (1, ?)", (told,))
            if held is not None:
                row = (held["round"], json.dumps(held))
                self._base.execute("INSERT INTO rounds VALUES (?, ?)", row)
            self._base.executemany("INSERT INTO receipts VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def close(self) -> None:
        """Leave the file."""
        self._base.close()
