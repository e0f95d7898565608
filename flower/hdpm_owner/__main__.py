"""``python -m hdpm_owner FOLDER --door FILE``: an owner answers at a Unix socket. ``--ledger``: print her ledger."""

from __future__ import annotations

import argparse
import json
import os
from multiprocessing.connection import Connection, Listener
from pathlib import Path

from hdpm_owner.ledger import Entry, Ledger, Sale
from hdpm_owner.owner import Owner

LONGEST = 2**24  # bytes of a request
PATIENCE = 10.0  # seconds that a caller may take before she speaks


def serve(owner: Owner, door: Path) -> None:
    """Answer one caller after the other, for ever. Who may write to the door may ask: its folder says who that is."""
    door.unlink(missing_ok=True)  # of a process that was killed; the ledger's lock says that it lives no more
    with Listener(str(door), family="AF_UNIX") as listener:
        os.chmod(door, 0o666)
        while True:
            with listener.accept() as caller:
                _reply(owner, caller)


def _reply(owner: Owner, caller: Connection) -> None:
    """Bytes of JSON in, bytes of JSON out: nothing that a caller sends is ever run. Who hangs up gets nothing."""
    try:
        if not caller.poll(PATIENCE):
            return
        text = caller.recv_bytes(LONGEST)
    except (EOFError, OSError):
        return
    try:
        request = json.loads(text)
    except (ValueError, RecursionError):
        request = None
    answer = json.dumps(owner.answer(request)).encode()
    try:
        caller.send_bytes(answer)
    except OSError:
        return


def _line(entry: Entry) -> str:
    if isinstance(entry, Sale):
        told = f"{len(entry.losses)} rounds, losses of {sum(entry.losses):g} for {sum(entry.payments):g}"
        return f"{entry.ticket[:8]}  sold: {told}"
    return f"{entry.ticket[:8]}  round {entry.round}: {entry.loss:g}"


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m hdpm_owner", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--door", type=Path, help="the socket; default: door in the folder")
    parser.add_argument("--ledger", action="store_true", help="print the ledger, and end")
    given = parser.parse_args(arguments)
    if given.ledger:
        ledger = Ledger(given.folder / "ledger.jsonl")
        print("\n".join(map(_line, ledger.entries)))
        print(f"lost in all: {float(ledger.spent):g}")
        ledger.close()
        return
    serve(Owner(given.folder), given.door or given.folder / "door")


if __name__ == "__main__":
    main()
