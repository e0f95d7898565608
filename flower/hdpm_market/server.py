"""FL-Market as a Flower strategy: bids, an auction, noisy gradients, and the weights of least error.

Bids are asked for once, the auction is held for all rounds, and each owner agrees to her sale, or not. In a round every
seller is sent the model; what arrives is summed with the weights of OptAggr. An owner who declined, or whose gradient
does not arrive, has a privacy loss of 0 in that round, but keeps her share of the records in the bias, and is not paid.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import Strategy

from hdpm_lib.aggregation import least_error_weights
from hdpm_lib.auctions.allin import all_in
from hdpm_lib.auctions.bids import Bids, bids
from hdpm_lib.auctions.menus import menus, trained_weights
from hdpm_lib.auctions.posted_prices import posted_prices
from hdpm_lib.learners.gradients import accuracy
from hdpm_lib.markets.outcome import Outcome

RULES: dict[str, Callable[[], Callable[[Bids, float], Outcome]]] = {
    "posted prices": lambda: posted_prices,
    "all-in": lambda: all_in,
    "menus": lambda: partial(menus, weights=trained_weights()),
}
COLUMNS = ("family", "rate", "limit", "records")  # of a bid


@dataclass
class Seller:
    """An owner as the market knows her: her node, her bid, and what she sold."""

    node: int
    bid: dict[str, Any]
    losses: np.ndarray = field(default_factory=lambda: np.zeros(0))
    payments: np.ndarray = field(default_factory=lambda: np.zeros(0))


class Market(Strategy):
    """The strategy. After the run `rounds_held` tells what arrived, and `sellers` what was agreed."""

    def __init__(self, nodes: list[int], rounds: int, rule: str, budget: float, learning_rate: float, wait: float):
        if rule not in RULES:
            raise ValueError(f"rule must be one of {', '.join(RULES)}, got {rule}")
        self.nodes, self.rounds, self.wait = nodes, rounds, wait
        self.auction, self.budget, self.learning_rate = RULES[rule](), budget, learning_rate
        self.sellers: list[Seller] = []
        self.refused: list[str] = []
        self.rounds_held: list[dict[str, Any]] = []
        self._model = np.zeros(0)

    def summary(self) -> None:
        """Nothing more than Flower says."""

    # --- lines 3 to 5 of Algorithm 1: bids, and the auction -----------------------------------------------------------

    def open(self, grid: Grid) -> None:
        """Ask for bids, hold the auction of all rounds, and agree on sales. If nobody bids, nobody sells."""
        letters = {node: {"ask": "bid", "rounds": self.rounds} for node in self.nodes}
        told = {node: bid for node, bid in self._ask(grid, "query", letters).items() if self._sound(node, bid)}
        self.sellers = sorted((Seller(node, bid) for node, bid in told.items()), key=lambda one: one.bid["name"])
        if not self.sellers:
            return
        market = bids(*([one.bid[name] for one in self.sellers] for name in COLUMNS))
        sold = self.auction(market, self.budget)
        offers = {}
        for one, loss, payment in zip(self.sellers, sold.privacy_loss, sold.payments, strict=True):
            losses, payments = [float(loss)] * self.rounds, [float(payment)] * self.rounds
            offers[one.node] = {"ask": "sale", "losses": losses, "payments": payments}
            offers[one.node] |= {name: one.bid[name] for name in ("ticket", "records")}
        agreed = self._ask(grid, "query", {node: offer for node, offer in offers.items() if max(offer["losses"]) > 0})
        for one in self.sellers:
            share = float(one.node in agreed)
            one.losses, one.payments = (share * np.array(offers[one.node][name]) for name in ("losses", "payments"))

    # --- line 6: the model goes out, noisy gradients come back --------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """The model, to all who sold something in this round."""
        self._model, self._began, letters = arrays["w"].numpy(), time.monotonic(), []
        for one in self.sellers:
            if (loss := one.losses[server_round - 1]) > 0:
                letter = {"ask": "release", "ticket": one.bid["ticket"], "round": server_round, "loss": loss}
                letters.append(self._letter(one.node, "train", letter, arrays))
        return letters

    # --- lines 7 and 8: weights from what arrived, and a step ---------------------------------------------------------

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The model after this round, and what was lost and paid in it."""
        arrived = {reply.metadata.src_node_id: reply for reply in replies if self._read(reply) is not None}
        arrived = {node: g for node, reply in arrived.items() if (g := self._gradient(node, reply)) is not None}
        loss, paid = np.zeros(len(self.sellers)), np.zeros(len(self.sellers))
        gradients = np.zeros((len(self.sellers), *self._model.shape))
        for i, one in enumerate(self.sellers):
            if one.node in arrived:
                gradients[i] = arrived[one.node]
                loss[i], paid[i] = one.losses[server_round - 1], one.payments[server_round - 1]
        weights = np.where(loss > 0, least_error_weights(loss, [one.bid["records"] for one in self.sellers]), 0.0)
        w = self._model - self.learning_rate * np.einsum("n,n...->...", weights, gradients)
        held = {"loss": loss.tolist(), "paid": paid.tolist(), "weights": weights.tolist(), "model": w.tolist()}
        self.rounds_held.append(held | {"seconds": time.monotonic() - self._began})
        return _record(w), MetricRecord({"loss": loss.tolist(), "paid": paid.tolist()})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Owners are not asked how good the model is: an answer would cost privacy."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Nothing: nobody was asked."""
        return None

    # --- letters ------------------------------------------------------------------------------------------------------

    def _letter(self, node: int, kind: str, text: dict[str, Any], arrays: ArrayRecord | None = None) -> Message:
        content = RecordDict({"ask": ConfigRecord({"text": json.dumps(text)})})
        if arrays is not None:
            content["model"] = arrays
        # an owner who comes too late is not asked any more: she would lose privacy for nothing
        return Message(content, dst_node_id=node, message_type=kind, ttl=self.wait)

    def _ask(self, grid: Grid, kind: str, letters: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
        """Answers by node; who refuses, or does not answer, is not among them."""
        messages = [self._letter(node, kind, text) for node, text in letters.items()]
        replies = grid.send_and_receive(messages, timeout=self.wait) if messages else []
        read = {reply.metadata.src_node_id: self._read(reply) for reply in replies}
        return {node: text for node, text in read.items() if text is not None}

    def _sound(self, node: int, bid: dict[str, Any]) -> bool:
        """Whether a bid is one: an owner who answers nonsense stops nobody but herself."""
        try:
            if bids(*([bid[name]] for name in COLUMNS)).rate.shape != (1,):
                raise ValueError("one number for each part")
            if not all(isinstance(bid[name], str) for name in ("name", "ticket")):
                raise ValueError("name and ticket are words")
        except (KeyError, TypeError, ValueError) as error:
            self.refused.append(f"node {node}: a bid that is none: {error!r}")
            return False
        return True

    def _gradient(self, node: int, reply: Message) -> np.ndarray | None:
        """The gradient that an owner sent, if it is one."""
        try:
            gradient = reply.content["gradient"]["g"].numpy()
        except (KeyError, TypeError, ValueError) as error:
            self.refused.append(f"node {node}: no gradient: {error!r}")
            return None
        if gradient.shape != self._model.shape or not np.isfinite(gradient).all():
            self.refused.append(f"node {node}: a gradient of shape {gradient.shape}, or not finite")
            return None
        return gradient

    def _read(self, reply: Message) -> dict[str, Any] | None:
        """What an owner answered, or nothing if she refused or an error came back."""
        if reply.has_error():
            self.refused.append(f"node {reply.metadata.src_node_id}: {reply.error.reason}")
            return None
        text = json.loads(reply.content["answer"]["text"])
        if "refused" in text:
            self.refused.append(f"node {reply.metadata.src_node_id}: {text['refused']}")
            return None
        return text


def _record(model: np.ndarray) -> ArrayRecord:
    return ArrayRecord({"w": Array(model)})


app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Wait for the owners, train, and write down what happened."""
    config = context.run_config
    with np.load(str(config["test"]), allow_pickle=False) as data:
        features, labels = data["features"], data["labels"]
    nodes = _online(grid, int(config["owners"]), float(config["wait"]))
    numbers = {name: float(config[name]) for name in ("budget", "wait")}
    market = Market(
        nodes, int(config["rounds"]), str(config["rule"]), learning_rate=float(config["learning-rate"]), **numbers
    )

    def judge(_: int, arrays: ArrayRecord) -> MetricRecord:
        return MetricRecord({"accuracy": float(accuracy(arrays["w"].numpy(), features, labels))})

    start = _record(np.zeros((int(labels.max()) + 1, features.shape[1])))
    market.open(grid)
    rounds = market.rounds if market.sellers else 0
    result = market.start(grid, start, rounds, timeout=market.wait, evaluate_fn=judge)
    found = {
        "accuracy": [float(result.evaluate_metrics_serverapp[r]["accuracy"]) for r in range(rounds + 1)],
        "names": [one.bid["name"] for one in market.sellers],
        "records": [one.bid["records"] for one in market.sellers],
        "rounds": market.rounds_held,
        "refused": market.refused,
    }
    part = Path(f"{config['out']}.part")
    part.write_text(json.dumps(found), "utf8")
    part.replace(str(config["out"]))


def _online(grid: Grid, owners: int, wait: float) -> list[int]:
    """Nodes, as soon as there are enough of them."""
    for _ in range(int(wait)):
        if len(nodes := list(grid.get_node_ids())) >= owners:
            return nodes
        time.sleep(1)
    raise RuntimeError(f"{owners} owners are needed, and after {wait:g} s {len(nodes)} are online")
