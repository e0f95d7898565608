"""Her door: a Unix socket that takes a line of JSON and answers one. Nothing that a caller sends is
ever run.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
from pathlib import Path

from hdpm_owner.console import lock
from hdpm_owner.owner import Owner
from hdpm_owner.shapes import loaded

LONGEST = 2**24  # bytes of a letter
PATIENCE = 10.0  # seconds that a caller may take for all of it
CALLERS = 32  # at once; who comes later waits


def serve(owner: Owner, door: Path) -> None:
    """Answer callers, several at once, for ever; the door's folder says who they may be."""
    check_door(door)
    with lock(Path(f"{door}.lock"), f"another owner answers at the door {door}"):
        # of a process that was killed: the lock says that it lives no more
        door.unlink(missing_ok=True)
        try:
            asyncio.run(_serve(owner, door))
        finally:
            door.unlink(missing_ok=True)


def check_door(door: Path) -> None:
    """Raise an error if there can be no door at a place."""
    if not door.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {door.parent} for the door: make it")
    there = door.exists() or door.is_symlink()
    if there and not stat.S_ISSOCK(door.lstat().st_mode):
        raise ValueError(f"there is a file {door}, which is no door: move it away")


async def _serve(owner: Owner, door: Path) -> None:
    few = asyncio.Semaphore(CALLERS)

    async def call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with few:
                async with asyncio.timeout(PATIENCE):
                    line = await reader.readuntil(b"\n")
                answer = await asyncio.to_thread(_answer, owner, line)
                async with asyncio.timeout(PATIENCE):
                    writer.write(answer + b"\n")
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # who is slow, hangs up or does not stop gets nothing
        finally:
            writer.close()

    server = await asyncio.start_unix_server(call, str(door), limit=LONGEST)
    os.chmod(door, 0o660)  # hers, and those of the folder's group
    async with server:
        await server.serve_forever()


def _answer(owner: Owner, line: bytes) -> bytes:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        request = None
    answer = owner.open_letter(request)
    logging.info("%s", _told(owner, request, answer))
    return json.dumps(answer).encode()


def _told(owner: Owner, request: object, answer: dict) -> str:
    """Write a line of log: who asked for what, and what came of it. Nothing that a stranger wrote
    ends the line, and nothing of it is hers.
    """
    told = request if isinstance(request, dict) else {}
    letter = loaded(told.get("text"))
    parts = letter if isinstance(letter, dict) else {}
    known = owner.approved(parts.get("charter"))
    parts = parts if known else {}
    asked = " ".join(str(parts[part]) for part in ("ask", "ticket", "round") if part in parts)
    came = f"refused, {answer['refused']}" if "refused" in answer else "answered"
    who = known.name if known else "a stranger"
    return json.dumps(f"{who}: {asked[:80] or 'a letter'}: {came[:300]}")[1:-1]
