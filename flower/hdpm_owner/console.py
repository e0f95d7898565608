"""What all commands share: a mistake ends in one sentence and status 2, and files are written as a
whole, for nobody else to read.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
    except BaseException:
        part.unlink(missing_ok=True)
        raise
