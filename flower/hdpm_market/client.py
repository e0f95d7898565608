"""What the market ships to an owner's machine: a messenger between the market and her door.

It reads no data and knows no noise. A market may exchange it at any time, so nothing of her privacy
rests on it.
"""

from __future__ import annotations

import json
import socket
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()
PATIENCE = 600.0  # seconds that an owner may take


@app.query()
def query(message: Message, context: Context) -> Message:
    """Carry a letter, and her answer."""
    return Message(reply(_ask(letter(message), _door(context))), reply_to=message)


def letter(message: Message) -> dict[str, Any]:
    """Return a letter as a door takes it."""
    found = dict(message.content["letter"])
    if "model" in message.content:
        found["model"] = message.content["model"]["w"].numpy().tolist()
    return found


def reply(answer: dict[str, Any]) -> RecordDict:
    """Return what a message carries of an answer."""
    content = RecordDict()
    if "steps" in answer:
        content["steps"] = ArrayRecord({"s": Array(np.array(answer.pop("steps")))})
    content["answer"] = ConfigRecord({"text": json.dumps(answer)})
    return content


def _door(context: Context) -> str:
    """Of the node, as its owner says; in a simulation, where nodes have numbers, in a list."""
    if "door" in context.node_config:
        return str(context.node_config["door"])
    return str(context.run_config["doors"]).split(",")[int(context.node_config["partition-id"])]


def _ask(request: dict[str, Any], door: str) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(PATIENCE)
        caller.connect(door)
        with caller.makefile("rwb") as stream:
            stream.write(json.dumps(request).encode() + b"\n")
            stream.flush()
            return json.loads(stream.readline())
