"""What ``flwr run`` starts: a market with the owners who are online, from its folder to its end."""

from __future__ import annotations

import json
import time
from logging import INFO
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.common.logger import log as say
from flwr.serverapp import Grid, ServerApp

from hdpm_lib.learners.gradients import accuracy
from hdpm_market.book import Book
from hdpm_market.market import FREE, Market, padded
from hdpm_owner.charter import read_invitation
from hdpm_owner.console import write
from hdpm_owner.receipts import kept
from hdpm_owner.signatures import Key
from hdpm_owner.table import Agreement, read_table

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Wait for the owners, train, and write down what happened."""
    config = {name.replace("-", "_"): value for name, value in context.run_config.items()}
    folder = Path(str(config["folder"]))
    agreed = Agreement.read(folder / "schema.toml")
    book = Book(folder)
    invitation = read_invitation(folder / "invitation.json")
    test = read_table(Path(str(config["test"])), agreed) if config["test"] else None
    if book.state and not config["resume"]:
        raise ValueError(
            f"{folder} has a market that began already: resume=true goes on with it, else take"
            " another"
        )
    earlier = [Path(one) for one in str(config["earlier"]).split(",") if one]
    found = {read_invitation(place / "invitation.json").hash for place in earlier}
    if found != set(invitation.read().earlier):
        raise ValueError("earlier must name the folders of the markets that the charter names")
    rows = [row for place in (*earlier, folder) for row in kept(place)]
    free = {name: config[name] for name in FREE}
    key = Key(folder / "key", new=False)
    market = Market(invitation, agreed, key, book, rows, **free)
    plan = market.plan
    end = time.monotonic() + plan.wait * (not book.state)  # who comes later may bid for the rest
    while len(list(grid.get_node_ids())) < int(config["owners"]) and time.monotonic() < end:
        time.sleep(1)

    def judge() -> None:
        if test is not None:
            right = float(accuracy(market.model, test.features, test.labels))
            paid = sum(book.rounds[-1]["paid"]) if market.done else 0.0
            say(
                INFO,
                "round %d of %d: accuracy %.3f, %.2f paid",
                market.done,
                plan.rounds,
                right,
                paid,
            )

    market.run(grid, judge)
    told: dict[str, Any] = {"names": [one["name"] for one in market.roster.values()]}
    told |= {"records": [one["records"] for one in market.roster.values()]}
    told |= {"rounds": padded(book.rounds), "absences": market.absences}
    if test is not None:
        models = [np.zeros(market.shape), *(np.array(held["model"]) for held in book.rounds)]
        told["accuracy"] = [float(accuracy(w, test.features, test.labels)) for w in models]
    book.close()
    write(folder / "found.json", json.dumps(told).encode())
