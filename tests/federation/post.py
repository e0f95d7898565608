"""A market in this process: its letters go to functions in place of nodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Error, Message
from flwr.supercore.task_identity import TaskIdentity

from hdpm_market import client
from hdpm_market import market as protocol
from hdpm_market.book import Book
from hdpm_market.market import FREE, Market
from hdpm_owner import ledger, receipts
from hdpm_owner.charter import Agreed, Charter, Invitation, Invited, invite, read_invitation
from hdpm_owner.deals import VERSION, Joined
from hdpm_owner.owner import Owner
from hdpm_owner.signatures import Key, canonical
from hdpm_owner.table import Agreement
from hdpm_owner.terms import Terms
from tests.federation.parts import PLAN

Node = Callable[[dict[str, Any]], Any]


UNREACHED = Error(3, "Node Unavailable")  # the SuperLink, which is node 1, says so


class Post:
    """A grid whose nodes are functions from letters to answers, or to the content of a reply."""

    def __init__(self, nodes: dict[int, Node]) -> None:
        self.nodes = nodes

    def get_node_ids(self) -> list[int]:
        """Who is online."""
        return list(self.nodes)

    def send_and_receive(self, messages: Iterable[Message], **_: Any) -> list[Message]:
        """Carry letters as the client does, but in this process."""
        replies = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"to {message.metadata.dst_node_id}"
            answer = self.nodes[message.metadata.dst_node_id](client.letter(message))
            if isinstance(answer, dict):
                answer = client.reply(answer)
            if answer is not None:  # no answer at all
                replies.append(Message(answer, reply_to=message))
                if answer is UNREACHED:
                    replies[-1].metadata.__dict__["_src_node_id"] = 1
        return replies


def in_this_process(patch: pytest.MonkeyPatch) -> None:
    """Let letters be written without a SuperLink, and nobody wait long."""
    for name in ("_run_id", "_task_id", "_node_id"):
        patch.setattr(TaskIdentity, name, 1)
    patch.setattr(protocol, "PAUSE", 0.01)


def begun(
    place: Path, rounds: int = 2, earlier: Sequence[str] = (), folder: str = "book", **plan: Any
) -> Market:
    """Make a market whose charter all have joined, or its next life if one is in that place."""
    key = Key(place / "key")
    home = place / folder
    agreed = Agreement.read(place / "ann" / "schema.toml")
    chosen = PLAN | {"quorum": 1, "wait": 0.2, "patience": 1e-5, "budget": 1e6} | plan
    rehearsal = bool(chosen.pop("rehearsal", False))
    free = {name: chosen.pop(name) for name in FREE if name in chosen}
    if not (home / "invitation.json").exists():
        home.mkdir(mode=0o700, exist_ok=True)
        homes = [file.parent for file in sorted(place.glob("*/ledger.sqlite"))]
        owners: dict[str, Invited] = {}
        for one_home in homes:  # the first of a name, and of a key
            one = Invited(Terms.read(one_home / "terms.toml").name, ledger.read(one_home)["key"])
            if one.name not in {known.name for known in owners.values()}:
                owners.setdefault(one.key, one)
        hashes = [read_invitation(place / name / "invitation.json").hash for name in earlier]
        parts = (agreed.digest, rehearsal, Agreed(rounds, **chosen), tuple(owners.values()))
        made = invite(Charter(VERSION, "m", key.public, *parts, tuple(hashes), 0.0), key)
        (home / "invitation.json").write_text(canonical(made))
        join(homes, made)
    book = Book(home)
    rows = [row for name in (*earlier, folder) for row in receipts.kept(place / name)]
    return Market(read_invitation(home / "invitation.json"), agreed, key, book, rows, **free)


def join(homes: Iterable[Path], made: Invitation) -> None:
    """Have owners join, who may be serving."""
    for home in homes:
        with closing(ledger.Ledger(home, serves=False)) as kept:
            if made.hash not in kept.consents:
                kept.write(Joined(made.hash, made.charter, made.signature, 1e100, 1e100))


def one_round(market: Market, nodes: dict[int, Node]) -> None:
    market.meet(Post(nodes))
    market.hold(Post(nodes))


def held(
    nodes: dict[int, Node], place: Path, rounds: int = 2, until: int | None = None, **plan: Any
) -> Market:
    """Hold a market with these nodes, up to some round, or go on there."""
    market = begun(place, rounds, **plan)
    if until is None:
        market.run(Post(nodes))
    else:
        while market.done < until:
            one_round(market, nodes)
    return market


def letters_of(own: Owner, spoil: Callable[[str, Any], Any]) -> Node:
    """Make an owner whose answers to letters, of which the first word is told, are spoilt."""
    return lambda request: spoil(json.loads(request["text"])["ask"], own.open_letter(request))
