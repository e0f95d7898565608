"""What would keep an owner from selling: each thing that is looked at has a word, and a sentence if
something is wrong with it. Nothing is changed, and she may be serving meanwhile.
"""

from __future__ import annotations

import json
import socket
import sqlite3
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from hdpm_owner import ledger
from hdpm_owner.charter import Charter, Invitation, check_demands
from hdpm_owner.door import check_door
from hdpm_owner.ledger import AHEAD, Sums
from hdpm_owner.owner import DUST, discrete_gaussian, noise_scale, read_records
from hdpm_owner.shapes import read_shaped
from hdpm_owner.terms import Spent, Terms

PATIENCE = 10.0  # seconds for an answer of a door, or of another machine
Found = Iterator[tuple[str, str]]  # a word, and what is wrong, or nothing


def of_owner(folder: Path, door: Path) -> Found:
    """Yield what `serve` looks at, and what is wrong with it."""
    yield "terms", _said(lambda: _draw(_terms(folder)))
    yield "schema and records", _said(lambda: read_records(folder))
    yield "ledger", _said(lambda: _ledger(folder))
    yield "clock", _said(lambda: _clock(folder))
    yield "door", _said(lambda: _door(door))
    try:
        terms, sums = _terms(folder), _ledger(folder)
    except (OSError, ValueError, sqlite3.Error):
        return  # which is said already
    yield "epsilon", _said(lambda: _left(terms, sums))
    for hash_, joined in sums.consents.items():
        charter = read_shaped(Charter, joined.text)
        yield f"{charter.name}, charter {hash_[:8]}", _said(lambda: _may_buy(terms, sums, hash_))  # noqa: B023


def of_market(invitation: Invitation) -> Found:
    """Yield whether her machine finds the market of an invitation, and has its time."""
    charter = invitation.read()
    early = charter.time > time.time() + AHEAD
    yield "date", "the charter was signed after now: one of the clocks is wrong" if early else ""
    if invitation.address:
        yield invitation.address, _said(lambda: _reach(invitation))


def _said(look: Callable[[], object]) -> str:
    """Return what is wrong, in one line."""
    try:
        look()
    except (ModuleNotFoundError, OSError, RuntimeError, ValueError, sqlite3.Error) as error:
        return " ".join(str(error).split())
    return ""


def _terms(folder: Path) -> Terms:
    return Terms.read(folder / "terms.toml")


def _draw(terms: Terms) -> None:
    """Raise an error if there is no noise for a loss of 1, or nothing that draws it."""
    scale = noise_scale(terms, 1.0)
    if isinstance(scale, float):  # of Gaussian noise, which OpenDP draws
        discrete_gaussian(scale)([0])


def _ledger(folder: Path) -> Sums:
    if (file := folder / "ledger.sqlite").exists():
        ledger.check_private(file)
    return ledger.summed(ledger.read(folder)["entries"])


def _clock(folder: Path) -> None:
    if (folder / "ledger.sqlite").exists():
        ledger.check_clock(folder / "ledger.sqlite", ledger.read(folder)["entries"][-1]["time"])


def _door(door: Path) -> None:
    """Raise an error if nobody can answer there, or who answers is no owner."""
    check_door(door)
    if not door.exists():
        return
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(PATIENCE)
        try:
            caller.connect(str(door))
        except ConnectionRefusedError:
            return  # of a process that was killed
        with caller.makefile("rwb") as stream:
            stream.write(b"{}\n")
            stream.flush()
            answer = stream.readline()
    try:
        refused = "refused" in json.loads(answer)
    except (TypeError, ValueError):
        refused = False
    if not refused:
        raise ValueError(f"who answers at the door {door} is no owner")


def _left(terms: Terms, sums: Sums) -> None:
    """Raise an error if all is spent; what waits is being sold."""
    if _nothing_left(terms, sums.spent, terms.epsilon):
        raise ValueError(f"nothing is left of {terms.epsilon:g}")


def _nothing_left(terms: Terms, lost: Spent, epsilon: float) -> bool:
    """Decide whether next to nothing is left of an epsilon."""
    whole = Spent().share(terms.noise, 1, epsilon, terms.delta)
    return lost.share(terms.noise, 1, epsilon, terms.delta) < DUST * whole


def _may_buy(terms: Terms, sums: Sums, hash_: str) -> None:
    """Raise an error if a charter that she has joined can buy nothing."""
    joined = sums.consents[hash_]
    charter = read_shaped(Charter, joined.text)
    check_demands("it", charter.plan, terms)
    buyer = sums.keys.first(charter.key)
    most = min(joined.epsilon, terms.epsilon)
    # what waits for it is being released, or a new sale takes its place
    others = sums.waiting(terms.keep) - sums.waiting(terms.keep, buyer)
    if _nothing_left(terms, sums.spent + others, terms.epsilon):
        raise ValueError(f"nothing is left of {terms.epsilon:g} but what waits for other markets")
    if _nothing_left(terms, sums.bought.get(buyer, Spent()), most):
        raise ValueError(f"its key may buy epsilon {most:g}, and nothing is left of that")
    its = [one for one in sums.sales.values() if sums.keys.first(one.sale.buyer) == buyer]
    due = sum(one.due for one in its if not one.given_up)
    if sums.promised.get(buyer, 0.0) - due >= joined.money:
        raise ValueError(f"its key may promise {joined.money:g}, and nothing is left of that")


def _reach(invitation: Invitation) -> None:
    """Raise an error if no SuperLink with the certificate of an invitation is at its address."""
    host, _, port = invitation.address.rpartition(":")
    with socket.create_connection((host, int(port)), PATIENCE) as plain:
        if invitation.certificate:
            context = ssl.create_default_context(cadata=invitation.certificate)
            context.set_alpn_protocols(["h2"])
            context.wrap_socket(plain, server_hostname=host).close()
