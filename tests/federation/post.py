"""A market in this process: its letters go to functions in place of nodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Error, Message
from flwr.supercore.task_identity import TaskIdentity

from hdpm_market import client
from hdpm_market import market as protocol
from hdpm_market.book import Book
from hdpm_market.market import Market, Plan
from hdpm_owner import receipts
from hdpm_owner.owner import Owner
from hdpm_owner.signatures import Key
from hdpm_owner.table import Agreement
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


def begun(place: Path, rounds: int = 2, earlier: Sequence[str] = (), **plan: Any) -> Market:
    """A market, or its next life if there is one in that place."""
    agreed = Agreement.read(place / "ann" / "schema.toml")
    chosen = Plan(rounds, **PLAN | {"wait": 0.2, "patience": 1e-5, "budget": 1e6} | plan)
    book = Book(place / "book")
    rows = [row for name in (*earlier, "book") for row in receipts.kept(place / name)]
    return Market(chosen, agreed, Key(place / "key"), book, rows)


def one_round(market: Market, nodes: dict[int, Node]) -> None:
    market.meet(Post(nodes))
    market.hold(Post(nodes))


def held(
    nodes: dict[int, Node], place: Path, rounds: int = 2, until: int | None = None, **plan: Any
) -> Market:
    """A market that was held with these nodes, up to some round, or goes on there."""
    market = begun(place, rounds, **plan)
    if until is None:
        market.run(Post(nodes))
    else:
        while market.done < until:
            one_round(market, nodes)
    return market


def letters_of(own: Owner, spoil: Callable[[str, Any], Any]) -> Node:
    """An owner whose answers to letters, of which the first word is told, are spoilt."""
    return lambda request: spoil(json.loads(request["text"])["ask"], own.open_letter(request))
