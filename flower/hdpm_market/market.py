"""FL-Market on Flower: bids, an auction, noisy gradients, and the weights of least error.

Bids are asked for, the auction is held for all rounds that are left, and each owner agrees to her
sale, or not. In a round every seller is sent the model; what arrives is summed with the weights of
OptAggr, or by a rule that bears liars. Below a quorum the market waits, and asks nobody for what
could not be used. An owner whose gradient does not arrive in time is not paid and sits out a round,
after each further time one more, and the auction is held again for the others; so it is for who
comes late. Whatever an owner answers, it concerns nobody but her.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from logging import INFO
from math import floor, log, sqrt
from typing import Any, TypeVar

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.common.logger import log as say
from flwr.serverapp import Grid

from hdpm_lib.auctions.allin import all_in
from hdpm_lib.auctions.bids import Bids, bids
from hdpm_lib.auctions.menus import menus, trained_weights
from hdpm_lib.auctions.posted_prices import posted_prices
from hdpm_lib.markets.outcome import Outcome
from hdpm_market.book import Book
from hdpm_owner.aggregates import aggregate, mean_step, precision
from hdpm_owner.charter import Agreed, Invitation
from hdpm_owner.deals import (
    VERSION,
    AskBid,
    Bid,
    Closing,
    Kept,
    Known,
    Place,
    Receipt,
    Signed,
    Sold,
    account,
    derived,
    held_digest,
    model_digest,
    steps_digest,
)
from hdpm_owner.owner import noise_scale
from hdpm_owner.receipts import kept as kept_in
from hdpm_owner.receipts import last_seen, successions
from hdpm_owner.shapes import loaded, read_shaped, shaped
from hdpm_owner.signatures import Key, Succession, canonical, signed
from hdpm_owner.table import Agreement

RULES: dict[str, Callable[[], Callable[[Bids, float], Outcome]]] = {
    "posted prices": lambda: posted_prices,
    "all-in": lambda: all_in,
    "menus": lambda: partial(menus, weights=trained_weights()),
}
STATE = (
    "done",
    "roster",
    "absences",
    "_owed",
    "_sales",
    "_out",
    "_closing",
    "_closed",
)  # of a market, in its book
FREE = ("wait", "patience")  # of a plan, that ``flwr run`` sets
UNLIKELY = 1e-12  # probability with which noise alone takes an honest release over its bound
LEAST, MOST = 1e-100, 1e100  # of a valuation that every auction can add up
PAUSE = 2.0  # seconds before somebody is asked again
Shape = TypeVar("Shape")


@dataclass(frozen=True)
class Plan(Agreed):
    """What a market is for, by its charter, and how it waits, as ``flwr run`` sets it."""

    wait: float = 60.0
    patience: float = 24.0


@dataclass
class Seller:
    """A bid, as its owner has signed it, her first key, and what she sold in each round after
    `first`.
    """

    bid: Bid
    text: str
    signature: str
    key: str
    first: int
    loss: float = 0.0
    payment: float = 0.0


class Refused(ValueError):
    """An answer that counts for nothing, and why."""


class Lost(Refused):
    """No answer, or an error on its way: it may help to ask again."""


class Market:
    """The market of a charter. `sellers` tells who takes part, `absences` who was missing when and
    why; the book has the rest. `free` are settings that are not in the charter, `rows` what it and
    earlier markets have kept.
    """

    def __init__(
        self,
        invitation: Invitation,
        agreed: Agreement,
        key: Key,
        book: Book,
        rows: list[dict[str, Any]],
        **free: Any,
    ) -> None:
        charter = invitation.read()
        if charter.schema != agreed.digest:
            raise ValueError("the charter was signed for another schema than the schema.toml there")
        self.charter = invitation.hash
        self.rehearsal = charter.rehearsal
        self.plan = Plan(**vars(charter.plan), **free)
        self.invited = {one.key: one.name for one in charter.owners}
        self.agreed = agreed
        self.key = key
        self.keys = successions(rows)[0]
        if charter.key not in (key.public, *(one.old for one in key.line)):
            raise ValueError("the key there is not that of the charter, and stands for another")
        self.book = book
        self.shape = len(agreed.classes), agreed.features
        self.sellers: list[Seller] = []
        self.roster: dict[str, dict[str, Any]] = {}  # all who ever sold, by key
        self.absences: list[dict[str, Any]] = []
        self.model = np.zeros(self.shape)
        self.done = 0
        self._seen = last_seen(rows)
        self._nodes: dict[int, Known] = {}
        self._names: dict[int, str] = {}  # of nodes that have ever answered
        self._silent: dict[int, tuple[int, int]] = {}  # how often, and when they are asked again
        # by key: signatures that are not delivered, sales that may stand, failures, and the round
        # from which she is asked again
        self._owed: dict[str, list[dict[str, Any]]] = {}
        self._sales: dict[str, list[str]] = {}
        self._closing: dict[str, str] = {}
        self._closed: dict[str, dict[str, Any]] = {}
        self._failures: Counter[str] = Counter()
        self._out: dict[str, int] = {}
        self._asked: set[str] = set()
        self._died = -1  # rounds that were held when another process of this market ended
        self._lost: set[int] = set()  # nodes whose answer to the last letter is not known
        if state := book.state:
            self._resume(state)

    def run(self, grid: Grid, judge: Callable[[], None] = lambda: None) -> None:
        """All rounds that are left; after each, and before the first, `judge` may look."""
        judge()
        while self.done < self.plan.rounds:
            self.meet(grid)
            self.hold(grid)
            judge()
        self._thank(grid)

    # --- who is here -----------------------------------------------------------------------------

    def meet(self, grid: Grid) -> None:
        """Wait until enough sellers are here; if somebody has come or gone hold the auction."""
        end = time.monotonic() + 3600 * self.plan.patience
        again = False
        self.key = Key(self.key.file, new=False)  # it may have a successor meanwhile
        for statement in self.key.line:
            self.keys.learn(statement)
        while True:
            self._find(grid, everybody=again)
            if again or not self.sellers or self._allowed() - self._asked:
                self._agree(grid)
            here = self._here()
            ready = [one for one in self.sellers if one.loss > 0 and one.key in here]
            if 1 < self.plan.needed == len(ready):  # each of them is needed
                self._hello(grid, {here[one.key] for one in ready})
                here = self._here()
                ready = [one for one in ready if one.key in here]
            if len(ready) >= self.plan.needed:
                return
            text = f"{len(ready)} sellers are here, and {self.plan.needed} are needed"
            self.book.write(self._state())  # who is absent, and why
            if time.monotonic() > end:
                raise RuntimeError(f"{text}: resume the market when they are")
            say(INFO, "round %d waits: %s", self.done + 1, text)
            time.sleep(PAUSE)
            again = True

    def _find(self, grid: Grid, everybody: bool = False) -> None:
        """Ask the nodes that are not known who they are; one that is silent ever less often."""
        online = set(grid.get_node_ids())
        self._nodes = {node: known for node, known in self._nodes.items() if node in online}
        new = online - self._nodes.keys()
        if not everybody:
            new = {node for node in new if self._silent.get(node, (0, 0))[1] <= self.done}
        self._hello(grid, new)
        often = Counter(known.key for known in self._nodes.values())
        if new:  # she may have come back at another node
            self._hello(grid, {n for n, known in self._nodes.items() if often[known.key] > 1})

    def _hello(self, grid: Grid, nodes: set[int]) -> None:
        nonces = {node: secrets.token_hex(16) for node in nodes}
        letters = {node: {"ask": "hello", "nonce": nonce} for node, nonce in nonces.items()}
        found = self._ask(grid, letters, Signed)
        for node in nodes:
            self._nodes.pop(node, None)
            if (answer := found.get(node)) is not None:
                try:
                    known = self._known(answer, nonces[node])
                    self._nodes[node] = known
                    self._names[node] = known.name
                    self._silent.pop(node, None)
                    continue
                except ValueError as error:
                    self._absent(self._name(node), str(error))
            times = self._silent.get(node, (0, 0))[0] + 1
            self._silent[node] = times, self.done + 2 ** min(times, 10) // 2

    def _known(self, answer: Signed, nonce: str) -> Known:
        """Return who is at a node, with the key that the charter names; or an error."""
        known = read_shaped(Known, answer.text)
        if known.nonce != nonce or known.charter != self.charter:
            raise Refused("a hello to another letter")
        oldest = answer.line[0].old if answer.line else known.key
        first = self._first(known.key, oldest, answer.line)
        invited = {self.keys.first(key): name for key, name in self.invited.items()}
        if invited.get(first) != known.name:
            raise Refused("the charter does not invite this name with this key")
        if not signed("hello", answer.text, answer.signature, known.key):
            raise Refused("its signature cannot be verified")
        return replace(known, key=first)

    def _first(self, key: str, oldest: str, line: Sequence[Succession]) -> str:
        """Return the oldest key for which one stands that is still good; or an error."""
        now = time.time()
        self.keys.follow(oldest, line, now)
        if self.keys.ended(key, now):
            raise Refused("her key has ended")
        return self.keys.first(key)

    def _here(self) -> dict[str, int]:
        """Return nodes by key. Of two that have one neither is taken: she has been copied."""
        often = Counter(known.key for known in self._nodes.values())
        here = {}
        for node, known in self._nodes.items():
            if (number := often[known.key]) > 1:
                self._absent(known.name, f"{number} nodes have the key {known.key}")
            else:
                here[known.key] = node
        return here

    def _allowed(self) -> set[str]:
        """Keys of who may take part: all, if there are too few without those who failed."""
        here = set(self._here())
        trusted = {key for key in here if self._out.get(key, 0) <= self.done}
        return trusted if len(trusted) >= self.plan.needed else here

    def _fail(self, key: str) -> None:
        """She sits out a round, after each further time one more, and then is asked again."""
        self._asked.discard(key)
        if self._out.get(key, 0) <= self.done:
            self._failures[key] += 1
            self._out[key] = self.done + self._failures[key]

    # --- lines 3 to 5 of Algorithm 1: bids, and the auction --------------------------------------

    def _agree(self, grid: Grid) -> None:
        """Ask for bids, hold the auction of the rounds that are left, and agree on sales.

        If there are too few bids nobody is asked for a sale, and what was sold before stands.
        """
        here = {key: node for key, node in self._here().items() if key in self._allowed()}
        rest = self.plan.rounds - self.done
        told: dict[str, Any] = {"rounds": rest, "schema": self.agreed.digest, "time": time.time()}
        told["first"] = self.done
        wanted = derived(AskBid, self.plan, **told)
        letters = {}
        for key, node in here.items():
            hers = {"last": self._last(key), "instead": self._sales.get(key, [])}
            letters[node] = {"ask": "bid"} | vars(wanted) | hers
        answers = self._ask(grid, letters, Signed)
        sellers = []
        self._asked = set(here)
        for one in self.sellers if self._died == self.done else []:
            if one.loss > 0:  # a new sale is asked for, and the old one not again
                said = "the market ended in this round: what she sent may be lost"
                self._absent(one.bid.owner, said)
        for key, node in here.items():
            if node in self._lost:
                self._fail(key)
            elif node in answers:
                answer = answers[node]
                try:
                    bid = self._bid(key, answer, wanted)
                    sellers.append(Seller(bid, answer.text, answer.signature, key, self.done))
                except ValueError as error:
                    self._absent(self._nodes[node].name, f"a bid that is none: {error}")
        sellers.sort(key=lambda one: one.bid.owner)
        if len(sellers) < self.plan.needed:
            return
        sold = RULES[self.plan.rule]()(costs([one.bid for one in sellers]), self.plan.budget)
        if np.count_nonzero(sold.privacy_loss) < self.plan.needed:
            say(INFO, "the budget buys from too few")
            return
        offers = {}
        for one, loss, payment in zip(sellers, sold.privacy_loss, sold.payments, strict=True):
            one.loss = float(loss)
            one.payment = float(payment)
            if loss > 0 or self._sales.get(one.key):  # or to give up what she sold before
                offer = {"ask": "sale", "ticket": one.bid.ticket, "records": one.bid.records}
                offer |= {"losses": [one.loss] * rest, "payments": [one.payment] * rest}
                offers[here[one.key]] = offer
                self._sales.setdefault(one.key, []).append(one.bid.ticket)
        self.sellers = sellers
        # before she is asked: a sale of which she alone knows would keep what it is worth from all
        self.book.write(self._state())
        agreed = self._ask(grid, offers, Signed)
        for one in sellers:
            known = {"name": one.bid.owner, "records": one.bid.records}
            self.roster.setdefault(one.key, known)
            if self._sold(one, agreed.get(here[one.key])):
                self._sales[one.key] = [one.bid.ticket]
            elif here[one.key] in offers:
                one.loss = one.payment = 0.0
                self._fail(one.key)
        self.book.write(self._state())

    def _sold(self, one: Seller, answer: Signed | None) -> bool:
        """Decide whether an owner has signed that she sells."""
        if answer is None:
            return False
        try:
            told = read_shaped(Sold, answer.text)
            self._check_signed("sold", told, one.key, answer)
            if (told.sold, told.charter) != (one.bid.ticket, self.charter):
                raise Refused("it names another sale")
        except ValueError as error:
            self._absent(one.bid.owner, f"a word of a sale that is none: {error}")
            return False
        return True

    def _last(self, key: str) -> Place | None:
        """Return the last entry of her ledger that was seen; that of a rehearsal ends with her."""
        return None if self.rehearsal else self._seen.get(key)

    def _bid(self, key: str, answer: Signed, wanted: AskBid) -> Bid:
        """Return a bid, if it is what was asked for, and every auction can bear it."""
        bid = read_shaped(Bid, answer.text)
        self._check_signed("bid", bid, key, answer)
        if bid.owner != (name := next(k.name for k in self._nodes.values() if k.key == key)):
            raise Refused(f"it is {bid.owner}'s, and {name} said hello")
        asked = vars(wanted) | {"buyer": self.key.public, "charter": self.charter}
        if bad := [name for name, value in asked.items() if getattr(bid, name, value) != value]:
            raise Refused(f"it has another {bad[0]} than was asked for")
        valuation = costs([bid]).full_valuation[0]
        if not LEAST <= valuation <= MOST:
            raise Refused(f"all of it is valued at {valuation:g}")
        before = self.roster.get(key, {"records": bid.records})["records"]
        if bid.records != before:
            raise Refused(f"it is of {bid.records} records, and she sold with {before} before")
        return bid

    def _check_signed(
        self, kind: str, told: Bid | Receipt | Sold, key: str, answer: Signed
    ) -> None:
        """Refused if an answer is not signed by the holder of a key, or by a successor."""
        first = self._first(told.key, key, answer.line)
        if first != key or not signed(kind, answer.text, answer.signature, told.key):
            raise Refused("its signature cannot be verified")

    # --- lines 6 to 8: the model goes out, noisy gradients come back, and a step -----------------

    def hold(self, grid: Grid) -> None:
        """Send the model to all who sold something in this round, until all have answered or time
        is up and a quorum has; the step is in the book before anything is sent again.
        """
        began = time.monotonic()
        due = {one.key: one for one in self.sellers if one.loss > 0}
        arrived: dict[str, tuple[np.ndarray, Receipt, Signed]] = {}
        reasons = dict.fromkeys(due, f"no answer in {self.plan.wait:g} s")
        while waiting := [one for key, one in due.items() if key not in arrived]:
            waited = time.monotonic() - began
            if waited > self.plan.wait:
                for one in waiting:
                    self._absent(one.bid.owner, reasons[one.key])
                if len(arrived) >= self.plan.needed:
                    break
                self.book.write(self._state())  # who is absent, and why
            if waited > self.plan.wait + 3600 * self.plan.patience:
                raise RuntimeError("too few have answered: resume the market when they can")
            here = self._here()
            model = ArrayRecord({"w": Array(self.model)})
            sent = {here[one.key]: one for one in waiting if one.key in here}
            letters = [self._letter(node, self._release(one), model) for node, one in sent.items()]
            # never a short time, in which no process can answer
            seconds = self.plan.wait - (waited if waited < self.plan.wait / 2 else 0)
            for node, reply in _replies(grid, letters, seconds):
                if (seller := sent.pop(node, None)) is not None:
                    key = seller.key
                    try:
                        arrived[key] = self._gradient(seller, reply)
                    except Lost as error:
                        reasons[key] = str(error)
                    except ValueError as error:  # she will say the same again
                        self._absent(seller.bid.owner, str(error))
                        del due[key]
            if len(arrived) < len(due):
                time.sleep(min(PAUSE, self.plan.wait))
                self._find(grid)
        self._write(began, arrived)

    def _release(self, one: Seller) -> dict[str, Any]:
        letter = {"ask": "release", "ticket": one.bid.ticket, "round": self.done - one.first + 1}
        letter |= {"loss": one.loss, "digest": model_digest(self.model)}
        return letter | {"paid": self._owed.get(one.key, [])}

    def _write(self, began: float, arrived: dict[str, tuple[np.ndarray, Receipt, Signed]]) -> None:
        """Compute the step, what was lost and paid, and who failed."""
        rows = []
        late = []
        paid = dict.fromkeys(self.roster, 0.0)
        lost = paid.copy()
        gradients = np.zeros((len(self.sellers), *self.shape))
        for place, one in enumerate(self.sellers):
            if one.key in arrived:
                steps, receipt, answer = arrived[one.key]
                gradients[place] = steps * mean_step(one.bid)
                lost[one.key], paid[one.key] = receipt.loss, receipt.payment
                where = {"ticket": receipt.ticket, "round": receipt.round}
                thanks = where | {"signature": self.key.sign("owed", answer.text)}
                row = (receipt.owner, *where.values(), answer.text, answer.signature)
                rows.append((*row, thanks["signature"], canonical(steps.tolist())))
                # she has those before: they came with the letter she answered
                self._owed[one.key] = [thanks]
                self._seen[one.key] = Place(receipt.entry, receipt.chain)
            elif one.loss > 0:
                late.append(one.key)
        loss = np.array([lost[one.key] for one in self.sellers])
        self.model = self.model - self.plan.learning_rate * self._aggregate(loss, gradients)
        held = {"round": self.done + 1, "loss": list(lost.values()), "paid": list(paid.values())}
        held |= {"model": self.model.tolist(), "seconds": time.monotonic() - began}
        held |= {"bids": [vars(Signed(one.text, one.signature)) for one in self.sellers]}
        self.done += 1
        for key in late:
            self._fail(key)
            self._asked.clear()  # the auction is held again, for the others
        self.sellers = [one for one in self.sellers if one.key not in late]
        self.book.write(self._state(), held, rows)

    def _aggregate(self, loss: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """Compute a gradient, or zeros if too few have arrived; a rule that bears liars looks at
        all alike.
        """
        told = np.array(
            [precision(one.bid, e) if e else 0 for one, e in zip(self.sellers, loss, strict=True)]
        )
        records = np.array([float(one.bid.records) for one in self.sellers])
        found = aggregate(self.plan, gradients, told, records)
        if found is None:
            say(INFO, "%d gradients, too few: no step", np.count_nonzero(loss))
            return np.zeros(self.shape)
        return found

    def _bound(self, bid: Bid, loss: float) -> int:
        """Return steps that a coordinate of an honest release exceeds with `UNLIKELY` at most."""
        scale = float(noise_scale(bid, loss, bid.local_steps))
        tail = log(2 * self.model.size * bid.local_steps / UNLIKELY)
        noise = scale * (sqrt(2 * tail) if self.plan.noise == "gaussian" else tail + 1)
        records = bid.records if self.plan.unit == "record" else 1
        steps = floor(records * self.plan.clip_norm / self.plan.spacing + noise) + 1
        return bid.local_steps * steps

    def _gradient(self, one: Seller, reply: Message) -> tuple[np.ndarray, Receipt, Signed]:
        """Return the gradient of an owner, in steps, and her receipt; or Refused, and why."""
        answer = self._read(reply, Signed)
        try:
            sent = reply.content["steps"]["s"]
            if len(sent.data) > 8 * self.model.size + 1000:
                raise ValueError
            steps = sent.numpy()
        except Exception as error:  # whatever a stranger's bytes can do to a reader
            raise Refused(f"no gradient: {type(error).__name__}") from None
        if steps.shape != self.shape or steps.dtype != np.int64:
            raise Refused(f"a gradient of shape {steps.shape} in {steps.dtype}")
        if (steps > (most := self._bound(one.bid, one.loss))).any() or (steps < -most).any():
            raise Refused("a gradient beyond what clipping and noise allow")
        try:
            told = read_shaped(Receipt, answer.text)
        except ValueError as error:
            raise Refused(f"a receipt that is none: {error}") from None
        # all that must come but what only her ledger knows
        hers = {name: getattr(told, name) for name in ("entry", "chain", "time", "key", "buyer")}
        digests = {"model": model_digest(self.model), "steps": steps_digest(steps.tolist())}
        due = {"round": self.done - one.first + 1, "loss": one.loss, "payment": one.payment}
        wanted = derived(Receipt, one.bid, **hers, **digests, **due)
        if canonical(vars(wanted)) != answer.text:
            bad = [name for name, value in vars(wanted).items() if getattr(told, name) != value]
            raise Refused(f"a receipt with another {' and '.join(bad) or 'form'}")
        self._check_signed("receipt", told, one.key, answer)
        if self.keys.first(told.buyer) != self.keys.first(self.key.public):
            raise Refused("a receipt with another buyer")
        if (last := self._last(one.key)) is not None and told.entry <= last.entry:
            raise Refused(f"a receipt for entry {told.entry}, and {last.entry} came before")
        return steps, told, answer

    def _thank(self, grid: Grid) -> None:
        """At the end all get the signatures that they lack, and sign the closing statement."""
        if not self._closing:
            text = canonical(self._close())
            self._closing = {"text": text, "signature": self.key.sign("closing", text)}
            self.book.write(self._state())  # there is one such statement
        self._find(grid)  # a market that goes on after its last round knows nobody yet
        here = self._here()
        letters = {}
        for key in self.roster:
            if key in here and (key in self._owed or key not in self._closed):
                thanks = self._owed.get(key, [])
                letters[here[key]] = {"ask": "paid", "receipts": thanks, "closing": self._closing}
        kept = self._ask(grid, letters, Kept)
        for key in list(self.roster):
            answer = kept.get(here.get(key, 0))
            if answer is not None:
                self._owed.pop(key, None)
                one = answer.closing
                hers = one is not None and self.keys.first(one.key) == key
                if hers and signed("closing", self._closing["text"], one.signature, one.key):
                    self._closed[key] = vars(one)
        self.book.write(self._state())

    def _close(self) -> Closing:
        """Return what the market says at its end, of what its receipts say."""
        receipts: dict[str, list[Receipt]] = {key: [] for key in self.roster}
        for row in kept_in(self.book.folder):
            if "receipt" in row:
                one = read_shaped(Receipt, row["receipt"])
                receipts[self.keys.first(one.key)].append(one)
        accounts = []
        for key, hers in receipts.items():
            accounts.append(account(key, self.roster[key]["name"], hers))
        held = held_digest(self.book.rounds, list(self.roster), self.absences)
        model = model_digest(self.model)
        return Closing(self.charter, self.done, model, held, tuple(accounts))

    # --- what is written down --------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        found: dict[str, Any] = {name: getattr(self, name) for name in STATE}
        found |= {"charter": self.charter, "sellers": self.sellers, "model": self.model.tolist()}
        found |= {"failures": self._failures, "asked": sorted(self._asked), "names": self._names}
        return found | {"successions": list(self.keys.of.values())}

    def _resume(self, state: dict[str, Any]) -> None:
        """Go on with what is in the book; owners are known again by their keys."""
        if state["charter"] != self.charter:
            raise ValueError("the market in this folder has another charter: take another folder")
        self.sellers = [Seller(**one | {"bid": Bid(**one["bid"])}) for one in state["sellers"]]
        for name in STATE:
            setattr(self, name, state[name])
        self.model = np.array(state["model"])
        self._failures = Counter(state["failures"])
        self._asked = set(state["asked"])
        self._names = {int(node): name for node, name in state["names"].items()}
        self._died = self.done

    # --- letters ---------------------------------------------------------------------------------

    def _letter(
        self, node: int, letter: dict[str, Any], model: ArrayRecord | None = None
    ) -> Message:
        text = canonical(letter | {"version": VERSION, "charter": self.charter})
        signature = self.key.sign("letter", text)
        envelope = {"text": text, "signature": signature, "key": self.key.public}
        if line := self.key.shown(time.time()):
            envelope["line"] = canonical({"line": line})
        content = RecordDict({"letter": ConfigRecord(envelope)})
        if model is not None:
            content["model"] = model
        # an owner who comes too late is not asked any more: she would lose privacy for nothing
        return Message(content, dst_node_id=node, message_type="query", ttl=self.plan.wait)

    def _ask(
        self, grid: Grid, letters: dict[int, dict[str, Any]], kind: type[Shape]
    ) -> dict[int, Shape]:
        """Answers by node; who refuses, or does not answer, is not among them."""
        messages = [self._letter(node, letter) for node, letter in letters.items()]
        read = {}
        silent = set(letters)
        self._lost = set(letters)  # who has not answered, or whose answer was lost
        for node, reply in _replies(grid, messages, self.plan.wait):
            silent.discard(node)
            try:
                read[node] = self._read(reply, kind)
            except Refused as error:
                self._absent(self._name(node), str(error))
                if isinstance(error, Lost):
                    continue
            self._lost.discard(node)
        for node in silent:
            self._absent(self._name(node), f"no answer in {self.plan.wait:g} s")
        return read

    def _read(self, reply: Message, kind: type[Shape]) -> Shape:
        """Return what an owner answered; or Refused, if she did, or it is no answer at all."""
        if reply.has_error():
            raise Lost(str(reply.error.reason)[:300])
        try:
            answer = loaded(reply.content["answer"]["text"])
            if isinstance(answer, dict) and "refused" in answer:
                said = _readable(answer["refused"])
                if said.endswith("has no part 'version'"):  # as version 1.0 says
                    said = f"she speaks version 1.0 of the protocol, and the market {VERSION}"
                raise Refused(said)
            return shaped(kind, answer)
        except Refused:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise Refused(f"an answer that is none: {_readable(error)}") from None

    def _name(self, node: int) -> str:
        return self._names.get(node, f"node {node}")

    def _absent(self, name: str, reason: str) -> None:
        told = {"round": self.done, "name": name, "reason": reason}
        if told not in self.absences:
            self.absences.append(told)
            say(INFO, "round %d, without %s: %s", self.done, name, reason)


def _replies(grid: Grid, messages: list[Message], seconds: float) -> Iterator[tuple[int, Message]]:
    """Yield replies by node, also where the SuperLink says that it could not reach one."""
    for reply in grid.send_and_receive(messages, timeout=seconds) if messages else []:
        asked = {one.metadata.message_id: one.metadata.dst_node_id for one in messages}
        told = reply.metadata
        here = told.src_node_id in asked.values()
        yield told.src_node_id if here else asked.get(told.reply_to_message_id, 0), reply


def _readable(text: object) -> str:
    """Return what a stranger wrote, for a log."""
    return "".join(one if one.isprintable() else "?" for one in str(text)[:300])


def costs(offered: Sequence[Bid]) -> Bids:
    """Bids as auctions take them."""
    columns = ([one.family, one.rate, one.limit, one.records] for one in offered)
    return bids(*map(list, zip(*columns, strict=True)))


def padded(rounds: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rounds in which all have a loss and a payment, who came later 0 before."""
    held = list(rounds)
    most = max((len(one["loss"]) for one in held), default=0)
    fill = {one["round"]: [0.0] * (most - len(one["loss"])) for one in held}
    return [
        one | {name: one[name] + fill[one["round"]] for name in ("loss", "paid")} for one in held
    ]
