"""What the market ships to an owner's machine: a messenger between the market and her door.

It reads no data and knows no noise. A market may exchange it at any time, so nothing of her privacy rests on it.
"""

from __future__ import annotations

import json
from multiprocessing.connection import Client

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    """A bid or a sale."""
    return _reply(message, json.loads(message.content["ask"]["text"]), context)


@app.train()
def train(message: Message, context: Context) -> Message:
    """The release of a round."""
    model = message.content["model"]["w"].numpy().tolist()
    return _reply(message, json.loads(message.content["ask"]["text"]) | {"model": model}, context)


def _reply(message: Message, request: dict, context: Context) -> Message:
    answer = _ask(request, _door(context))
    content = RecordDict()
    if "gradient" in answer:
        content["gradient"] = ArrayRecord({"g": _array(answer.pop("gradient"))})
    content["answer"] = ConfigRecord({"text": json.dumps(answer)})
    return Message(content, reply_to=message)


def _door(context: Context) -> str:
    """Of the node, as its owner says; in a simulation, where nodes only have numbers, at that place in a list."""
    if "door" in context.node_config:
        return str(context.node_config["door"])
    return str(context.run_config["doors"]).split(",")[int(context.node_config["partition-id"])]


def _array(numbers: list[list[float]]) -> Array:
    import numpy as np

    return Array(np.array(numbers))


def _ask(request: dict, door: str) -> dict:
    with Client(door, family="AF_UNIX") as owner:
        owner.send_bytes(json.dumps(request).encode())
        return json.loads(owner.recv_bytes())
