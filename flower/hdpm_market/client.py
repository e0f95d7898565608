"""What the market ships to an owner's machine: a messenger between the market and her door.

It reads no data and knows no noise. A market may exchange it at any time, so nothing of her privacy
rests on it.
"""

from __future__ import annotations

import json
import socket

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()
PATIENCE = 600.0  # seconds that an owner may take


@app.query()
def query(message: Message, context: Context) -> Message:
    """A letter without a model."""
    return _reply(message, dict(message.content["letter"]), context)


@app.train()
def train(message: Message, context: Context) -> Message:
    """The release of a round."""
    model = message.content["model"]["w"].numpy().tolist()
    return _reply(message, dict(message.content["letter"]) | {"model": model}, context)


def _reply(message: Message, request: dict, context: Context) -> Message:
    answer = _ask(request, _door(context))
    content = RecordDict()
    if "steps" in answer:
        content["steps"] = ArrayRecord({"s": _array(answer.pop("steps"))})
    content["answer"] = ConfigRecord({"text": json.dumps(answer)})
    return Message(content, reply_to=message)


def _door(context: Context) -> str:
    """Of the node, as its owner says; in a simulation, where nodes only have numbers, at that place
    in a list.
    """
    if "door" in context.node_config:
        return str(context.node_config["door"])
    return str(context.run_config["doors"]).split(",")[int(context.node_config["partition-id"])]


def _array(numbers: list[list[int]]) -> Array:
    import numpy as np

    return Array(np.array(numbers, dtype=np.int64))


def _ask(request: dict, door: str) -> dict:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(PATIENCE)
        caller.connect(door)
        with caller.makefile("rwb") as stream:
            stream.write(json.dumps(request).encode() + b"\n")
            stream.flush()
            return json.loads(stream.readline())
