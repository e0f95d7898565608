"""What all commands share: a mistake ends in one sentence and status 2, files are written as a
whole, for nobody else to read, and what one process at a time may have is locked.
"""

from __future__ import annotations

import argparse
import csv
import fcntl
import os
import signal
import sqlite3
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO


@contextmanager
def one_sentence(parser: argparse.ArgumentParser) -> Iterator[None]:
    """End the program with a sentence for whatever is raised; of an error that nobody foresaw only
    the place is told, for the rest may be private.
    """
    try:
        yield
        return
    except (ModuleNotFoundError, OSError, RuntimeError, ValueError, sqlite3.Error) as error:
        said = " ".join(str(error).split("\n"))
    except KeyboardInterrupt:
        parser.exit(130)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        said = (
            f"a fault of this program: {type(error).__name__} in"
            f" {Path(place.filename).name}, line {place.lineno}"
        )
    parser.exit(2, f"{parser.prog}: {said}\n")


@contextmanager
def until_told() -> Iterator[None]:
    """Let TERM end a block as an error does, with status 0, so that what is made for a while is
    taken away.
    """

    def end(*_: object) -> None:
        raise SystemExit(0)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def write(file: Path, content: bytes) -> None:
    """Put a file in the place of another, or of none, in one step that outlives a crash."""
    part = file.with_name(file.name + ".part")
    part.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # its new name, too
    finally:
        os.close(folder)


def lock(file: Path, taken: str) -> TextIO:
    """Hold a file until it is closed, or the process ends; an error if another process does."""
    held = file.open("a")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.close()
        raise RuntimeError(taken) from None
    return held


def print_csv(rows: Sequence[dict[str, Any]], names: Sequence[str] = ()) -> None:
    """Print the parts of rows that have these names, or all."""
    writer = csv.DictWriter(sys.stdout, names or list(rows[0]), extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
