"""What an owner has sold and released, in a file that is on disk before anything leaves her.

One line of JSON for each entry, only ever appended. A line that a crash cut short was never acted upon, and is dropped;
any other damage is an error, and she sends nothing until somebody has looked.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path


@dataclass(frozen=True)
class Sale:
    """A privacy loss and a payment for each round, under the ticket of her bid; a loss of 0 is a round without her."""

    ticket: str
    losses: tuple[float, ...]
    payments: tuple[float, ...]


@dataclass(frozen=True)
class Release:
    """A gradient of a round, counted from 1, that may have left her, whether it arrived or not."""

    ticket: str
    round: int
    loss: float


Entry = Sale | Release


class Ledger:
    """The entries of a file, which one process at a time may hold open.

    Parameters
    ----------
    file : path
        Made if it is not there.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     ledger = Ledger(Path(folder) / "ledger.jsonl")
    ...     ledger.write(Release("a", 1, 0.5))
    ...     print(ledger.spent)
    ...     ledger.close()
    1/2
    """

    def __init__(self, file: Path) -> None:
        self._stream = open(file, "a+b")  # noqa: SIM115  held open, and locked, as long as the process lives
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _sync_folder(file.parent)
            self.entries = self._read(file)
        except BlockingIOError:
            self.close()
            raise RuntimeError(f"another process holds the ledger {file}") from None
        except BaseException:
            self.close()
            raise

    def _read(self, file: Path) -> list[Entry]:
        self._stream.seek(0)
        content = self._stream.read()
        whole = content.rfind(b"\n") + 1
        self._stream.truncate(whole)  # what follows was cut short by a crash, before anything was sent
        entries: list[Entry] = []
        for number, line in enumerate(content[:whole].splitlines(), 1):
            try:
                entries.append(_entry(json.loads(line)))
            except (ValueError, TypeError, KeyError) as error:
                raise ValueError(
                    f"line {number} of the ledger {file} is damaged: nothing is sent before it is mended"
                ) from error
        return entries

    def write(self, entry: Entry) -> None:
        """Append an entry and wait until it is on disk. Only after that may anything be sent."""
        kind = {"entry": type(entry).__name__.lower()}
        self._stream.write(json.dumps(kind | asdict(entry)).encode() + b"\n")
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self.entries.append(entry)

    def close(self) -> None:
        """Let another process have the file."""
        self._stream.close()

    @property
    def spent(self) -> Fraction:
        """Sum of the privacy losses of all releases, exactly."""
        return sum((Fraction(entry.loss) for entry in self.entries if isinstance(entry, Release)), Fraction(0))

    @property
    def sale(self) -> Sale | None:
        """The last sale, which has closed those before it."""
        return next((entry for entry in reversed(self.entries) if isinstance(entry, Sale)), None)

    def released(self, ticket: str) -> set[int]:
        """Rounds of a sale that are spent."""
        return {entry.round for entry in self.entries if isinstance(entry, Release) and entry.ticket == ticket}


def _entry(line: dict) -> Entry:
    if line.pop("entry") == "sale":
        return Sale(str(line["ticket"]), tuple(map(float, line["losses"])), tuple(map(float, line["payments"])))
    return Release(str(line["ticket"]), int(line["round"]), float(line["loss"]))


def _sync_folder(folder: Path) -> None:
    """So that the file itself is still there after a crash."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
