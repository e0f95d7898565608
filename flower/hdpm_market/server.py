"""FL-Market as a Flower strategy: bids, an auction, noisy gradients, and the weights of least
error.

Bids are asked for once, the auction is held for all rounds, and each owner agrees to her sale, or
not. In a round every seller is sent the model; what arrives is summed with the weights of OptAggr,
or by a rule of Flower's that bears liars. An owner who declined, or whose gradient does not arrive,
has a loss of 0 in that round, but keeps her share of the records in the bias, and is not paid.
Whatever an owner answers, it concerns nobody but her.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from logging import INFO
from math import floor, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.common.logger import log as say
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedTrimmedAvg, Krum, Strategy

from hdpm_lib.aggregation import least_error_weights
from hdpm_lib.auctions.allin import all_in
from hdpm_lib.auctions.bids import Bids, bids
from hdpm_lib.auctions.menus import menus, trained_weights
from hdpm_lib.auctions.posted_prices import posted_prices
from hdpm_lib.learners.gradients import accuracy
from hdpm_lib.markets.outcome import Outcome
from hdpm_market.book import Book
from hdpm_owner.owner import model_digest, noise_scale, steps_digest
from hdpm_owner.signatures import Key, canonical, signed
from hdpm_owner.table import Agreement, read_table
from hdpm_owner.terms import Terms

RULES: dict[str, Callable[[], Callable[[Bids, float], Outcome]]] = {
    "posted prices": lambda: posted_prices,
    "all-in": lambda: all_in,
    "menus": lambda: partial(menus, weights=trained_weights()),
}
AGGREGATES = ("least error", "trimmed mean", "krum")
COLUMNS = ("family", "rate", "limit", "records")  # of a bid
DEMANDS = ("unit", "noise", "clip_norm", "spacing")
LONGEST = 2**20  # characters of an answer
UNLIKELY = 1e-12  # probability with which noise alone takes an honest release over its bound


@dataclass(frozen=True)
class Plan:
    """What a market is for: what ``flwr run`` may set, with underscores."""

    rounds: int
    rule: str = "posted prices"
    budget: float = 1000.0
    learning_rate: float = 2.0
    wait: float = 60.0
    unit: str = "record"
    noise: str = "gaussian"
    clip_norm: float = 1.0
    spacing: float = Terms.spacing
    aggregate: str = "least error"
    liars: int = 0

    def __post_init__(self) -> None:
        for name, known in (("rule", tuple(RULES)), ("aggregate", AGGREGATES)):
            if (given := getattr(self, name)) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {given}")


@dataclass
class Seller:
    """An owner as the market knows her: her node, her bid, and what she sold."""

    node: int
    bid: dict[str, Any]
    losses: list[float] = field(default_factory=list)
    payments: list[float] = field(default_factory=list)


class Refused(ValueError):
    """An answer that counts for nothing, and why."""


class Market(Strategy):
    """The strategy. `sellers` tells what was agreed, `absences` who was missing when and why; the
    book has the rest.
    """

    def __init__(self, nodes: list[int], plan: Plan, agreed: Agreement, key: Key, book: Book):
        self.nodes = nodes
        self.plan = plan
        self.agreed = agreed
        self.key = key
        self.book = book
        self.shape = len(agreed.classes), agreed.features
        self.sellers: list[Seller] = []
        self.absences: list[dict[str, Any]] = []
        self.model = np.zeros(self.shape)
        self.done = 0
        # signatures under receipts that are not delivered, by key
        self._owed: dict[str, list[dict[str, Any]]] = {}
        self._began = 0.0

    def summary(self) -> None:
        """Nothing more than Flower says."""

    # --- lines 3 to 5 of Algorithm 1: bids, and the auction --------------------------------------

    def open(self, grid: Grid) -> None:
        """Ask for bids, hold the auction of all rounds, and agree on sales. If nobody bids, nobody
        sells.
        """
        ask = {"ask": "bid", "rounds": self.plan.rounds, "schema": self.agreed.digest}
        ask |= {name: getattr(self.plan, name) for name in DEMANDS}
        told = {
            node: self._bid(node, answer)
            for node, answer in self._ask(grid, dict.fromkeys(self.nodes, ask)).items()
        }
        # who comes under another's name makes trouble for both: see the keys of the nodes
        for part in ("name", "key"):
            often = Counter(bid[part] for bid in told.values() if bid)
            for node, bid in told.items():
                if bid and often[bid[part]] > 1:
                    self._absent(node, f"{often[bid[part]]} nodes have the {part} {bid[part]}")
                    told[node] = None
        self.sellers = sorted(
            (Seller(node, bid) for node, bid in told.items() if bid),
            key=lambda one: one.bid["name"],
        )
        if not self.sellers:
            return
        market = bids(*([one.bid[name] for one in self.sellers] for name in COLUMNS))
        sold = RULES[self.plan.rule]()(market, self.plan.budget)
        offers = {}
        for one, loss, payment in zip(self.sellers, sold.privacy_loss, sold.payments, strict=True):
            one.losses = [float(loss)] * self.plan.rounds
            one.payments = [float(payment)] * self.plan.rounds
            if loss > 0:
                offers[one.node] = {"ask": "sale", "losses": one.losses, "payments": one.payments}
                offers[one.node] |= {name: one.bid[name] for name in ("ticket", "records")}
        agreed = self._ask(grid, offers)
        for one in self.sellers:
            if agreed.get(one.node, {}).get("sold") != one.bid["ticket"]:
                one.losses, one.payments = ([0.0] * self.plan.rounds for _ in range(2))
        self.book.write(self._state())

    def _bid(self, node: int, answer: dict[str, Any]) -> dict[str, Any] | None:
        """A bid, if it is one: an owner who answers nonsense stops nobody but herself."""
        try:
            bid = json.loads(answer["bid"])
            if not signed(answer["bid"], answer["signature"], bid["key"]):
                raise Refused("its signature cannot be verified")
            if bids(*([bid[name]] for name in COLUMNS)).rate.shape != (1,):
                raise Refused("one number for each part")
            if (
                not all(isinstance(bid[name], str) for name in ("name", "ticket"))
                or bid["schema"] != self.agreed.digest
            ):
                raise Refused("name and ticket are words, and the schema is that of the market")
            if any(bid[name] != getattr(self.plan, name) for name in DEMANDS):
                raise Refused("it sells something else than was asked for")
            return {name: bid[name] for name in (*COLUMNS, *DEMANDS, "name", "key", "ticket")}
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            self._absent(node, f"a bid that is none: {error!r}")
            return None

    def resume(self, grid: Grid) -> None:
        """Go on with what is in the book; owners are known again by their keys, whatever their
        nodes are now.
        """
        state = self.book.state
        if state is None:
            raise ValueError("there is no market to resume in this folder")
        if state["plan"] != asdict(self.plan) | {"schema": self.agreed.digest}:
            raise ValueError(
                "the market in this folder has another plan: resume it as it was, or take another"
                " folder"
            )
        self.sellers = [Seller(**one) for one in state["sellers"]]
        self.absences = state["absences"]
        self._owed = state["owed"]
        self.model = np.array(state["model"])
        self.done = state["done"]
        for one in self.sellers:
            one.node = -1
        self._find(grid, self.nodes)

    def _find(self, grid: Grid, nodes: Iterable[int]) -> None:
        """Look among these nodes for the sellers who have none: whoever comes back is asked
        again.
        """
        here: dict[object, int] = {}
        for node, answer in self._ask(grid, {node: {"ask": "hello"} for node in nodes}).items():
            here.setdefault(answer.get("key"), node)
        for one in self.sellers:
            if one.node < 0:
                one.node = here.get(one.bid["key"], -1)

    def _state(self) -> dict[str, Any]:
        plan = asdict(self.plan) | {"schema": self.agreed.digest}
        found = {
            "plan": plan,
            "sellers": [asdict(one) for one in self.sellers],
            "absences": self.absences,
        }
        return found | {"owed": self._owed, "model": self.model.tolist(), "done": self.done}

    # --- line 6: the model goes out, noisy gradients come back -----------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """The model, to all who sold something in this round."""
        self._began = time.monotonic()
        letters = []
        if any(one.node < 0 for one in self.sellers):
            self._find(grid, set(grid.get_node_ids()) - {one.node for one in self.sellers})
        for one in self.sellers:
            if (loss := one.losses[self.done]) > 0 and one.node >= 0:
                letter = {
                    "ask": "release",
                    "ticket": one.bid["ticket"],
                    "round": self.done + 1,
                    "loss": loss,
                }
                letter |= {
                    "digest": model_digest(self.model),
                    "paid": self._owed.get(one.bid["key"], []),
                }
                letters.append(self._letter(one.node, "train", letter, _record(self.model)))
        return letters

    # --- lines 7 and 8: weights from what arrived, and a step ------------------------------------

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The model after this round, and what was lost and paid in it: in the book before anything
        is sent again.
        """
        arrived = {reply.metadata.src_node_id: reply for reply in replies}
        n = len(self.sellers)
        number = self.done + 1
        due = set()
        loss = np.zeros(n)
        paid = np.zeros(n)
        gradients = np.zeros((n, *self.shape))
        receipts = []
        for i, one in enumerate(self.sellers):
            if one.losses[self.done] > 0:
                due.add(one.node)
                try:
                    if one.node not in arrived:
                        raise Refused(
                            "no node with her key"
                            if one.node < 0
                            else f"no answer in {self.plan.wait:g} s"
                        )
                    gradients[i], receipt = self._gradient(one, arrived[one.node])
                except Refused as error:
                    self._absent(one.node, str(error), one.bid["name"])
                    if one.node not in arrived:
                        one.node = -1  # looked for before the next round
                    continue
                loss[i], paid[i] = one.losses[self.done], one.payments[self.done]
                row = (
                    one.bid["name"],
                    one.bid["ticket"],
                    number,
                    *receipt,
                    self.key.sign(receipt[0]),
                )
                receipts.append(row)
                thanks = {"ticket": one.bid["ticket"], "round": number, "signature": row[-1]}
                # she has those before: they came with the letter she answered
                self._owed[one.bid["key"]] = [thanks]
        for node in arrived.keys() - due:
            self._absent(node, "an answer that nobody asked for")
        weights, step = self._aggregate(loss, gradients, list(arrived.values()))
        self.model = self.model - self.plan.learning_rate * step
        held = {
            "round": number,
            "loss": loss.tolist(),
            "paid": paid.tolist(),
            "weights": weights.tolist(),
        }
        held |= {"model": self.model.tolist(), "seconds": time.monotonic() - self._began}
        self.done = number
        self.book.write(self._state(), held, receipts)
        return _record(self.model), MetricRecord({"loss": loss.tolist(), "paid": paid.tolist()})

    def _aggregate(
        self, loss: np.ndarray, gradients: np.ndarray, replies: list[Message]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights and a gradient; a rule of Flower's looks at all gradients alike and has no
        weights.
        """
        plan = self.plan
        here = loss > 0
        if not here.any():
            return np.zeros(len(loss)), np.zeros(self.shape)
        if plan.aggregate == "least error":
            told = np.array(
                [
                    self._precision(one, e) if e else 0.0
                    for one, e in zip(self.sellers, loss, strict=True)
                ]
            )
            weights = np.where(
                here, least_error_weights(told, [one.bid["records"] for one in self.sellers]), 0.0
            )
            return weights, np.einsum("n,n...->...", weights, gradients)
        if here.sum() <= 2 * plan.liars:
            self._absent(-1, f"{here.sum()} gradients, too few for {plan.liars} liars: no step")
            return np.zeros(len(loss)), np.zeros(self.shape)
        fraction = min((plan.liars + 0.01) / here.sum(), 0.49)
        rule = (
            FedTrimmedAvg(beta=fraction)
            if plan.aggregate == "trimmed mean"
            else Krum(num_malicious_nodes=plan.liars)
        )
        alike = []
        vessels = [reply for reply in replies if not reply.has_error()]
        for reply, gradient in zip(vessels, gradients[here], strict=False):
            reply.content = RecordDict(
                {"arrays": _record(gradient), "m": MetricRecord({"num-examples": 1.0})}
            )
            alike.append(reply)
        arrays, _ = rule.aggregate_train(self.done + 1, alike)
        assert arrays is not None
        return np.zeros(len(loss)), arrays["w"].numpy()

    def _terms(self, one: Seller) -> Terms:
        bid = {name: one.bid[name] for name in ("name", "family", "rate", *DEMANDS)}
        return Terms(**bid, epsilon=1.0, delta=0.5)

    def _mean(self, one: Seller) -> float:
        """What a step of the grid is worth in her gradient: she sends the sum over records, or the
        mean.
        """
        return self.plan.spacing / (one.bid["records"] if self.plan.unit == "record" else 1)

    def _precision(self, one: Seller, loss: float) -> float:
        """The epsilon at which FL-Market's owner would send as much noise as she does: OptAggr
        knows no other noise.
        """
        scale = float(noise_scale(self._terms(one), loss)) * self._mean(one)
        sd = scale if self.plan.noise == "gaussian" else sqrt(2) * scale
        return 2 * sqrt(2) * self.plan.clip_norm / sd

    def _bound(self, one: Seller, loss: float) -> int:
        """Steps that no coordinate of an honest release exceeds, but with a probability of
        `UNLIKELY`.
        """
        scale = float(noise_scale(self._terms(one), loss))
        tail = log(2 * self.model.size / UNLIKELY)
        noise = scale * (sqrt(2 * tail) if self.plan.noise == "gaussian" else tail + 1)
        records = one.bid["records"] if self.plan.unit == "record" else 1
        return floor(records * self.plan.clip_norm / self.plan.spacing + noise) + 1

    def _gradient(self, one: Seller, reply: Message) -> tuple[np.ndarray, tuple[str, str]]:
        """The mean gradient that an owner sent, with her receipt and its signature; or Refused, and
        why.
        """
        answer = self._read(reply)
        loss = one.losses[self.done]
        payment = one.payments[self.done]
        try:
            sent = reply.content["steps"]["s"]
            if tuple(sent.shape) != self.shape or len(sent.data) > 8 * self.model.size + 1000:
                raise Refused(f"a gradient of shape {tuple(sent.shape)}")
            steps = sent.numpy()
            receipt = answer["receipt"]
            signature = answer["signature"]
            if steps.shape != self.shape or steps.dtype != np.int64:
                raise Refused(f"a gradient of shape {steps.shape} in {steps.dtype}")
            if (steps > (most := self._bound(one, loss))).any() or (steps < -most).any():
                raise Refused("a gradient beyond what clipping and noise allow")
            told = json.loads(receipt)
            wanted = {"ticket": one.bid["ticket"], "round": self.done + 1, "loss": loss}
            wanted |= {
                "payment": payment,
                "key": one.bid["key"],
                "market": self.key.public,
                "unit": self.plan.unit,
            }
            wanted |= {"schema": self.agreed.digest, "steps": steps_digest(steps.tolist())}
            wanted |= {"model": model_digest(self.model), "noise": self.plan.noise}
            if bad := [name for name, value in wanted.items() if told.get(name) != value]:
                raise Refused(f"a receipt with another {bad[0]}")
            if not signed(receipt, signature, one.bid["key"]):
                raise Refused("a receipt whose signature cannot be verified")
        except Refused:
            raise
        except Exception as error:  # whatever a stranger's bytes can do to a reader
            raise Refused(f"no gradient: {type(error).__name__}") from None
        return steps * self._mean(one), (receipt, signature)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Owners are not asked how good the model is: an answer would cost privacy. At the end they
        get signatures.
        """
        letters = {
            one.node: {"ask": "paid", "receipts": self._owed[one.bid["key"]]}
            for one in self.sellers
            if self.done == self.plan.rounds and self._owed.get(one.bid["key"]) and one.node >= 0
        }
        kept = self._ask(grid, letters)
        for one in self.sellers:
            if "kept" in kept.get(one.node, {}):
                self._owed.pop(one.bid["key"], None)
        return []

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Nothing: nobody was asked."""
        return None

    # --- letters ---------------------------------------------------------------------------------

    def _letter(
        self, node: int, kind: str, letter: dict[str, Any], arrays: ArrayRecord | None = None
    ) -> Message:
        text = canonical(letter)
        envelope = {"text": text, "signature": self.key.sign(text), "key": self.key.public}
        content = RecordDict({"letter": ConfigRecord(envelope)})
        if arrays is not None:
            content["model"] = arrays
        # an owner who comes too late is not asked any more: she would lose privacy for nothing
        return Message(content, dst_node_id=node, message_type=kind, ttl=self.plan.wait)

    def _ask(self, grid: Grid, letters: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
        """Answers by node; who refuses, or does not answer, is not among them."""
        messages = [self._letter(node, "query", letter) for node, letter in letters.items()]
        read = {}
        for reply in grid.send_and_receive(messages, timeout=self.plan.wait) if messages else []:
            try:
                read[reply.metadata.src_node_id] = self._read(reply)
            except Refused as error:
                self._absent(reply.metadata.src_node_id, str(error))
        for node in (
            letters.keys()
            - read.keys()
            - {one["node"] for one in self.absences if one["round"] == self.done}
        ):
            self._absent(node, f"no answer in {self.plan.wait:g} s")
        return read

    def _read(self, reply: Message) -> dict[str, Any]:
        """What an owner answered; or Refused, if she did, an error came back, or it is no answer at
        all.
        """
        if reply.has_error():
            raise Refused(str(reply.error.reason))
        try:
            text = reply.content["answer"]["text"]
            answer = json.loads(text) if isinstance(text, str) and len(text) <= LONGEST else None
        except (KeyError, TypeError, ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise Refused("an answer that is none")
        if "refused" in answer:
            raise Refused(str(answer["refused"])[:300])
        return answer

    def _absent(self, node: int, reason: str, name: str = "") -> None:
        name = name or next(
            (one.bid["name"] for one in self.sellers if one.node == node), f"node {node}"
        )
        self.absences.append({"round": self.done, "node": node, "name": name, "reason": reason})
        say(INFO, "round %d, without %s: %s", self.done, name, reason)


def _record(model: np.ndarray) -> ArrayRecord:
    return ArrayRecord({"w": Array(model)})


app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Wait for the owners, train, and write down what happened."""
    config = {name.replace("-", "_"): value for name, value in context.run_config.items()}
    folder = Path(str(config["folder"]))
    agreed = Agreement.read(folder / "schema.toml")
    book = Book(folder)
    plan = Plan(**{name: config[name] for name in Plan.__dataclass_fields__ if name in config})
    test = read_table(Path(str(config["test"])), agreed) if config["test"] else None
    if book.state is not None and not config["resume"]:
        raise ValueError(
            f"{folder} has a market that began already: resume=true goes on with it, else take"
            " another"
        )
    nodes = _online(grid, int(config["owners"]), plan.wait)
    market = Market(nodes, plan, agreed, Key(folder / "key"), book)
    market.resume(grid) if book.state is not None else market.open(grid)

    def judge(_: int, arrays: ArrayRecord) -> MetricRecord | None:
        if test is None:
            return None
        found = float(accuracy(arrays["w"].numpy(), test.features, test.labels))
        paid = sum(book.rounds[-1]["paid"]) if market.done else 0.0
        say(INFO, "round %d of %d: accuracy %.3f, %.2f paid", market.done, plan.rounds, found, paid)
        return MetricRecord({"accuracy": found})

    rounds = plan.rounds - market.done if market.sellers else 0
    market.start(grid, _record(market.model), rounds, timeout=plan.wait, evaluate_fn=judge)
    found: dict[str, Any] = {
        "names": [one.bid["name"] for one in market.sellers],
        "rounds": book.rounds,
    }
    found |= {
        "records": [one.bid["records"] for one in market.sellers],
        "absences": market.absences,
    }
    if test is not None:
        models = [np.zeros(market.shape), *(np.array(held["model"]) for held in book.rounds)]
        found["accuracy"] = [float(accuracy(w, test.features, test.labels)) for w in models]
    book.close()
    part = folder / "found.part"
    part.write_text(json.dumps(found), "utf8")
    part.replace(folder / "found.json")


def _online(grid: Grid, owners: int, wait: float) -> list[int]:
    """Nodes, as soon as there are enough of them."""
    for _ in range(int(wait)):
        if len(nodes := list(grid.get_node_ids())) >= owners:
            return nodes
        time.sleep(1)
    raise RuntimeError(f"{owners} owners are needed, and after {wait:g} s {len(nodes)} are online")
