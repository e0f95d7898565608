"""An owner: what she answers to a market, and what she refuses.

A market asks for a *bid*, offers a *sale* of losses for all rounds, and asks for a *release* in
each round (:mod:`hdpm_owner.deals`). She checks every word against her own terms and her own
ledger: no order of requests, from however many markets, makes her lose more than her total, or
anything in a round that she has not sold. A release that may not have arrived is sent again, the
same bytes, to who asks with the same letter: that tells nothing new.
"""

from __future__ import annotations

import json
import logging
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpm_lib.auctions.bids import bids
from hdpm_lib.discrete import discrete_laplace
from hdpm_lib.gaussian import ROUNDING
from hdpm_lib.learners.gradients import check_labels, local_gradients
from hdpm_lib.learners.integer_answers import cut, grid_gradients, record_steps
from hdpm_lib.validation import check_finite, extra
from hdpm_owner import deals
from hdpm_owner.charter import DEMANDS, Charter, check_demands
from hdpm_owner.deals import Place, model_digest, steps_digest
from hdpm_owner.ledger import Ledger, Open
from hdpm_owner.shapes import loaded, read_shaped, shaped
from hdpm_owner.signatures import FEW, Key, Succession, canonical, signed
from hdpm_owner.table import Agreement, load
from hdpm_owner.terms import Approved, Refusal, Spent, Terms

_LEAST = 1 - 1e-9  # share of her cost that a payment has to cover: rounding is nobody's gain
DUST = 1e-3  # share of what she could lose with nothing spent, below which nothing is left
_OFFERS = 100  # bids of one market that wait for a sale
_CLOCKS = 3600.0  # seconds by which the clocks of owner and market may differ
_HUGE = 1e100  # no coordinate of a model is larger
Steps = NDArray[np.int64]


class Owner:
    """An owner whose folder `hdpm-owner init` has made: terms, schema, ``data.npz``, a key; her
    ledger is there, too.

    Parameters
    ----------
    folder : path
    """

    def __init__(self, folder: Path, *, rehearses: bool = False) -> None:
        self.terms = Terms.read(folder / "terms.toml")
        self.rehearses = rehearses
        self.agreed, self._features, self._labels = read_records(folder)
        self.records = len(self._labels)
        self.shape = len(self.agreed.classes), self.agreed.features
        self._gaussian = lru_cache(discrete_gaussian)  # rounds of a sale share a scale
        # an error now, not when a release is in the ledger already
        self.noisy_steps(np.zeros(self.shape), 1.0)
        self.ledger = Ledger(folder)
        self.ledger.promise(deals.derived(deals.Promise, self.terms))
        # by charter and ticket, with the sales that would be given up
        self._offers: dict[str, dict[str, tuple[deals.Bid, tuple[str, ...]]]] = {}
        self._lock = threading.Lock()

    @property
    def key(self) -> Key:
        """Her key."""
        return self.ledger.key

    @property
    def markets(self) -> tuple[Approved, ...]:
        """The markets to whose charters she consents."""
        return known(self.ledger.consents)

    def approved(self, charter: object, ask: object = None) -> Approved | None:
        """Return the market of a charter, if she consents to it; or did, and it asks for nothing
        but to say what it owes.
        """
        left = self.ledger.left if ask == "paid" else {}
        for one in (*self.markets, *known(left)):
            if one.charter == charter and one.rehearsal == self.rehearses:
                return one
        return None

    def _signs(self, market: Approved, key: object, line: tuple[Succession, ...]) -> str:
        """Return the key that signs for a market: its own, or a successor that has not ended."""
        now = time.time()
        keys = self.ledger.keys
        with self._lock:
            for statement in line[:FEW]:
                if statement.old in keys.after(market.key):
                    self.ledger.learn(statement, now)
        good = isinstance(key, str) and key in keys.after(market.key) and not keys.ended(key, now)
        if not good:
            raise Refusal(f"{market.name} has no such key, or it has ended")
        return str(key)

    # --- letters ---------------------------------------------------------------------------------

    def open_letter(self, request: object) -> dict[str, Any]:
        """Answer a letter: text that a market has signed, and a model if it has one."""
        try:
            if not isinstance(request, dict):
                raise Refusal("a letter must have a text and a signature")
            try:
                self.ledger.look()
            except (ValueError, OSError, sqlite3.Error) as error:
                logging.error("%s", error)  # on her side alone: it tells where and how much it is
                raise Refusal("her ledger cannot be read: somebody has to look") from None
            letter = loaded(request.get("text"))
            if not isinstance(letter, dict):
                raise Refusal("a letter must have a text and a signature")
            version = letter.pop("version", None)
            deals.unread(deals.Hello, {}, version)
            charter = letter.pop("charter", None)
            if (market := self.approved(charter, letter.get("ask"))) is None:
                raise Refusal(self._no(charter))
            told = request.get("line")
            line = () if told is None else read_shaped(deals.Line, told).line
            key = self._signs(market, request.get("key"), line)
            if not signed("letter", request.get("text"), request.get("signature"), key):
                raise Refusal(f"this is not the signature of {market.name}")
        except (TypeError, ValueError, RecursionError) as error:
            return {"refused": str(error)}
        except (OSError, sqlite3.Error) as error:
            return {"refused": f"her ledger cannot be written: {error}"}
        return self.answer(letter, replace(market, key=key), request.get("model"), version)

    def _no(self, charter: object) -> str:
        """Return why a charter is none of hers."""
        if charter in self.ledger.consents:
            ours, theirs = ("rehearses", "does not")[:: 1 if self.rehearses else -1]
            return f"she {ours}, and that market {theirs}"
        return "she has joined no market with this charter, or has withdrawn"

    def answer(
        self,
        letter: object,
        market: Approved,
        model: object = None,
        version: object = deals.VERSION,
    ) -> dict[str, Any]:
        """Answer a market that has shown who it is; numbers may be all that JSON can say."""
        try:
            ask = letter.get("ask") if isinstance(letter, dict) else None
            if not isinstance(letter, dict) or not isinstance(ask, str) or ask not in deals.LETTERS:
                raise Refusal(f"ask must be one of {', '.join(deals.LETTERS)}")
            said = {name: part for name, part in letter.items() if name != "ask"}
            for name in deals.unread(deals.LETTERS[ask], said, version):
                del said[name]
            more = (model,) if ask == "release" else ()
            return getattr(self, ask)(market, shaped(deals.LETTERS[ask], said), *more)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            return {"refused": str(error)}
        except (OSError, sqlite3.Error) as error:
            # a full disk, for one: what is not recorded is not sent
            return {"refused": f"her ledger cannot be written: {error}"}

    def hello(self, market: Approved, letter: deals.Hello) -> dict[str, Any]:
        """Return who she is, signed."""
        key = self.key
        who = (market.charter, letter.nonce, self.terms.name, key.public, deals.VERSION)
        return _signed("hello", deals.Known(*who), key)

    # --- a bid, and a sale -----------------------------------------------------------------------

    def bid(self, market: Approved, letter: deals.AskBid) -> dict[str, Any]:
        """Her cost, the loss that she would sell in each of these rounds, and a ticket."""
        terms = self.terms
        key = self.key
        count = letter.rounds
        if letter.schema != self.agreed.digest:
            raise Refusal("the market has another schema than she has")
        check_demands("the market", letter, terms)
        self._within(market, letter)
        if abs(letter.time - time.time()) > _CLOCKS:
            raise Refusal("the clocks of owner and market differ by more than an hour")
        with self._lock:
            if letter.last is not None and not self.ledger.has(letter.last):
                raise Refusal(
                    f"her ledger does not have entry {letter.last.entry} as the market has seen it:"
                    " it is an older copy, or two are written"
                )
            share = self._share(market, count, letter.instead)
        whole = Spent().share(terms.noise, count, terms.epsilon, terms.delta)
        if share < DUST * whole:
            raise Refusal(
                f"nothing is left of epsilon = {terms.epsilon:g}, of which some may wait for"
                " other sales"
            )
        offered = min(terms.limit, share)
        told = vars(letter) | {"ticket": secrets.token_hex(16), "records": self.records}
        told |= {"owner": terms.name, "key": key.public, "buyer": market.key, "limit": offered}
        told |= {"charter": market.charter}
        made = shaped(deals.Bid, vars(deals.derived(deals.Bid, terms, **told)))
        with self._lock:
            waiting = self._offers.setdefault(market.charter, {})
            while len(waiting) >= _OFFERS:
                waiting.pop(next(iter(waiting)))
            waiting[made.ticket] = made, letter.instead
        return _signed("bid", made, key)

    def _within(self, market: Approved, letter: deals.AskBid) -> None:
        """Raise a refusal if the market asks for other things than its charter says."""
        plan = read_shaped(Charter, self.ledger.consents[market.charter].text).plan
        if letter.first + letter.rounds > plan.rounds:
            raise Refusal(f"the charter of {market.name} is for {plan.rounds} rounds")
        for name in (*DEMANDS, "local_steps", "learning_rate"):
            if getattr(letter, name) != getattr(plan, name):
                raise Refusal(f"the charter of {market.name} has another {name}")

    def _share(self, market: Approved, rounds: int, instead: tuple[str, ...]) -> float:
        """Return what she may lose in each round, if these sales to that market are given up."""
        terms = self.terms
        ledger = self.ledger
        waits = (one for one in self._given(market, instead) if ledger.waits(one, terms.keep))
        freed = sum((one.remaining for one in waits), Spent())
        all_ = ledger.spent + ledger.waiting(terms.keep) - freed
        buyer = ledger.keys.first(market.key)
        its = ledger.bought.get(buyer, Spent())
        its += ledger.waiting(terms.keep, buyer) - freed
        most = min(market.epsilon, terms.epsilon)
        whole = all_.share(terms.noise, rounds, terms.epsilon, terms.delta)
        return min(whole, its.share(terms.noise, rounds, most, terms.delta))

    def _given(self, market: Approved, instead: tuple[str, ...]) -> list[Open]:
        """Return the sales to that market which would be given up."""
        found = (self.ledger.sales.get(ticket) for ticket in dict.fromkeys(instead))
        hers = [one for one in found if one is not None and one.sale.charter == market.charter]
        return [one for one in hers if not one.given_up]

    def sale(self, market: Approved, letter: deals.AskSale) -> dict[str, Any]:
        """Agree to losses and payments for all rounds, if they are what she bid; her records are
        not private.
        """
        terms = self.terms
        offer = self._offers.get(market.charter, {}).get(letter.ticket)
        if offer is None:
            raise Refusal("that is not the ticket of a bid that waits for a sale")
        bid, instead = offer
        cost = bids([bid.family], bid.rate, bid.limit, bid.records)
        if letter.records != self.records:
            raise Refusal(f"she has {self.records} records, not {letter.records}")
        loss = check_finite(letter.losses, "losses", 1, 0)
        paid = check_finite(letter.payments, "payments", 1, 0)
        if len(loss) != bid.rounds or len(paid) != bid.rounds:
            wanted = f"a sale must have losses and payments for {bid.rounds} rounds"
            raise Refusal(f"{wanted}, got {len(loss)} and {len(paid)}")
        if (loss > bid.limit).any():
            raise Refusal(f"a loss of {loss.max()} is over the {bid.limit} that she offered")
        if (short := paid < _LEAST * cost.valuation(loss[:, None])[:, 0]).any():
            raise Refusal(
                f"a payment of {paid[short][0]} does not cover a loss of {loss[short][0]}"
            )
        if (loss > 0).any():
            # a refusal if her grid is too fine for the loss
            noise_scale(terms, loss[loss > 0].min(), bid.local_steps)
        with self._lock, self.ledger.alone():
            self._consents(market)
            self._still(bid)
            buyer = self.ledger.keys.first(market.key)
            given_up = self._given(market, instead)
            promised = self.ledger.promised.get(buyer, 0.0) + float(paid.sum())
            promised -= sum(one.due for one in given_up)
            if promised > market.money:
                raise Refusal(
                    f"{promised:g} would be promised in all, and she trusts {market.name} with"
                    f" {market.money:g}"
                )
            if loss.max() > self._share(market, len(loss), instead):
                raise Refusal(
                    "what she offered was sold to another market meanwhile: ask for a new bid"
                )
            for one in given_up:
                self.ledger.write(deals.GivenUp(one.sale.ticket, market.name))
            sold = {"losses": tuple(loss.tolist()), "payments": tuple(paid.tolist())}
            sale = deals.derived(deals.Sale, bid, market=market.name, time=time.time(), **sold)
            self.ledger.write(sale)
            self._offers[market.charter].pop(letter.ticket, None)
            place = Place(self.ledger.number, self.ledger.chain)
        key = self.key
        told = deals.Sold(market.charter, key.public, letter.ticket, *vars(place).values())
        return _signed("sold", told, key)

    def _consents(self, market: Approved) -> None:
        """Raise a refusal if she has withdrawn since the letter was opened."""
        if market.charter not in self.ledger.consents:
            raise Refusal("she has withdrawn meanwhile")

    def _still(self, deal: deals.Deal) -> None:
        """Raise a refusal if she, her data or her terms are not what a deal names."""
        hers = {name: getattr(self.terms, name) for name in ("epsilon", "delta", *DEMANDS)}
        hers |= {"owner": self.terms.name, "records": self.records, "schema": self.agreed.digest}
        if bad := [name for name, value in hers.items() if getattr(deal, name) != value]:
            raise Refusal(f"her terms have changed since that sale: {bad[0]} is another")

    # --- a release, and its receipt --------------------------------------------------------------

    def release(self, market: Approved, letter: deals.AskRelease, model: object) -> dict[str, Any]:
        """Compute the sum of noisy gradients of her local steps from a model of shape (classes,
        features), for a round that is sold and not yet spent.
        """
        thanks = self._thanks(market, letter.paid)
        number = letter.round
        w = check_finite(model, "model", 2, -_HUGE, _HUGE)  # type: ignore[arg-type]
        if w.shape != self.shape:
            raise Refusal(f"model must have shape {self.shape}, got {w.shape}")
        if letter.digest != model_digest(w):
            raise Refusal("the model is not that of the letter")
        asked = canonical([letter.ticket, number, letter.loss, letter.digest])
        open_ = self.ledger.sales.get(letter.ticket)
        if open_ is None or open_.sale.charter != market.charter:
            raise Refusal("that round is not sold")
        with self._lock, self.ledger.alone():
            self._consents(market)
            if (kept := self.ledger.answered(letter.ticket, number, asked)) is not None:
                self.ledger.countersign(thanks)
                return json.loads(kept)
            key = self.key
            entry = self._next(market, letter, key.public)
            sales = len(self.ledger.sales)
            rng = None if self.terms.seed is None else stream(self.terms.seed, sales, number)
            steps = self.noisy_steps(w, entry.loss, rng, entry.local_steps, entry.learning_rate)
            sent = steps.tolist()
            place = self.ledger.place(entry)
            made = deals.derived(deals.Receipt, entry, **vars(place), steps=steps_digest(sent))
            answer = _signed("receipt", made, key)
            whole = answer | {"steps": sent}
            told = (asked, canonical(whole), answer["text"], answer["signature"])
            self.ledger.write(entry, thanks, told)
        return whole

    def _next(self, market: Approved, letter: deals.AskRelease, key: str) -> deals.Release:
        """Return the entry of a release, or a refusal."""
        number = letter.round
        open_ = self.ledger.sales.get(letter.ticket)
        if open_ is None or number > len(open_.sale.losses):
            raise Refusal("that round is not sold")
        sale = open_.sale
        if (sold := sale.losses[number - 1]) == 0:
            raise Refusal(f"nothing was sold in round {number}")
        if letter.loss != sold:
            raise Refusal(f"a loss of {sold} was sold in round {number}, not {letter.loss}")
        if number in open_.released:
            raise Refusal(f"round {number} is released already")
        if open_.given_up:
            raise Refusal("what was left of that sale is given up")
        self._still(sale)
        cost = Spent.of(sale.noise, sold)
        if not (self.ledger.spent + cost).within(self.terms.epsilon, self.terms.delta):
            raise Refusal(
                f"a loss of {sold} is more than is left of epsilon = {self.terms.epsilon:g}"
            )
        buyer = self.ledger.keys.first(market.key)
        bought = self.ledger.bought.get(buyer, Spent()) + cost
        small = market.epsilon < self.terms.epsilon
        if small and not bought.within(market.epsilon, self.terms.delta):
            raise Refusal(f"a loss of {sold} is more than is left of what {market.name} may buy")
        told: dict[str, Any] = {"round": number, "loss": sold, "payment": sale.payments[number - 1]}
        told |= {"model": letter.digest, "time": time.time(), "key": key, "buyer": market.key}
        return deals.derived(deals.Release, sale, **told)

    def noisy_steps(
        self,
        model: NDArray[np.float64],
        loss: float,
        rng: np.random.Generator | None = None,
        local_steps: int = 1,
        learning_rate: float = 1.0,
    ) -> Steps:
        """Compute the sum of the noisy gradients of some steps of descent, in steps of the grid.

        A gradient is the sum over records, or if the owner is protected their mean. Each has noise
        for its part of the loss, and the next is computed at the model that it leads to.
        """
        terms = self.terms
        total = np.zeros(self.shape, dtype=np.int64)
        scale = noise_scale(terms, loss, local_steps)
        each = terms.spacing / (self.records if terms.unit == "record" else 1)
        for _ in range(local_steps):
            noisy = self._noisy(model, scale, rng)
            total += noisy
            with np.errstate(over="ignore"):
                model = np.clip(model - learning_rate * each * noisy, -_HUGE, _HUGE)
        return cut(total)

    def _noisy(
        self, model: NDArray[np.float64], scale: Fraction | float, rng: np.random.Generator | None
    ) -> Steps:
        terms = self.terms
        if terms.unit == "record":
            norm = 2 if terms.noise == "gaussian" else 1
            steps = record_steps(
                model, self._features, self._labels, terms.clip_norm, terms.spacing, norm=norm
            )
        else:
            rows = [np.arange(self.records)]
            mean = local_gradients(model[None], self._features, self._labels, rows)[0, 0]
            steps = grid_gradients(mean, terms.clip_norm, terms.spacing)
        if isinstance(scale, Fraction):
            generator = np.random.default_rng() if rng is None else rng
            return cut(steps + discrete_laplace(scale, rng=generator, size=steps.shape))
        return cut(np.reshape(self._gaussian(scale)(steps.ravel().tolist()), steps.shape))

    def paid(self, market: Approved, letter: deals.AskPaid) -> dict[str, Any]:
        """Keep a market's signatures under her receipts: what it owes her; no others.

        Sign what it says at its end, if it says of her what her ledger does.
        """
        kept = self._thanks(market, letter.receipts)
        answer: dict[str, Any] = {"kept": len(kept)}
        with self._lock:
            self.ledger.countersign(kept)  # which stays, also if she refuses the closing statement
            if letter.closing is not None:
                with self.ledger.alone():
                    if market.charter in self.ledger.consents:  # she may have withdrawn just now
                        answer["closing"] = self._close(market, letter.closing)
        return answer

    def _close(self, market: Approved, told: deals.SignedClosing) -> dict[str, Any]:
        """Write down and sign a closing statement, or refuse it."""
        keys = self.ledger.keys
        closing = read_shaped(deals.Closing, told.text)
        if not any(
            signed("closing", told.text, told.signature, key)
            for key in keys.after(keys.first(market.key))
        ):
            raise Refusal("the closing statement is not signed by the market")
        before = self.ledger.closed.get(market.charter)
        if before is not None and before.text != told.text:
            raise Refusal("the market has closed with another statement before")
        receipts = self.ledger.countersigned(market.charter)
        mine = keys.after(self.ledger.first_key)
        told_of_her = [one for one in closing.accounts if one.key in mine]
        hers = [deals.account(key, self.terms.name, receipts) for key in mine]
        is_hers = len(told_of_her) == 1 and told_of_her[0] in hers
        if closing.charter != market.charter or not is_hers:
            raise Refusal("the closing statement says otherwise of her than her ledger")
        if before is None:
            self.ledger.write(deals.Closed(market.charter, told.text, told.signature))
        key = self.key
        return {"key": key.public, "signature": key.sign("closing", told.text)}

    def _thanks(
        self, market: Approved, thanks: tuple[deals.Thanks, ...]
    ) -> list[tuple[str, str, int]]:
        """Those signatures that are the market's, with ticket and round."""
        found = []
        keys = self.ledger.keys
        its = keys.after(keys.first(market.key))
        for one in thanks:
            text = self.ledger.receipt(one.ticket, one.round)
            if any(signed("owed", text, one.signature, key) for key in its):
                found.append((one.signature, one.ticket, one.round))
        return found


def read_records(
    folder: Path,
) -> tuple[Agreement, NDArray[np.float64], NDArray[np.int64]]:
    """Return the schema of a folder, features and labels; an error if they are not of one kind."""
    agreed = Agreement.read(folder / "schema.toml")
    features, labels, digest = load(folder / "data.npz")
    if digest != agreed.digest or features.shape[1] != agreed.features:
        raise ValueError(
            f"{folder / 'data.npz'} was made by another schema.toml: run hdpm-owner init again"
        )
    check_labels(labels, features, len(agreed.classes))
    return agreed, features, labels


def _line(key: Key) -> dict[str, Any]:
    return {"line": [vars(one) for one in line]} if (line := key.shown(time.time())) else {}


def _signed(kind: str, made: object, key: Key) -> dict[str, Any]:
    text = canonical(vars(made))
    return {"text": text, "signature": key.sign(kind, text)} | _line(key)


def known(joined: dict[str, deals.Joined]) -> tuple[Approved, ...]:
    """Return the markets of charters, by hash, with what an owner lets each buy."""
    found = []
    for hash_, one in list(joined.items()):
        charter = read_shaped(Charter, one.text)
        caps = (one.epsilon, one.money)
        found.append(Approved(charter.name, charter.key, hash_, *caps, charter.rehearsal))
    return tuple(found)


def noise_scale(terms: Terms | deals.Deal, loss: float, local_steps: int = 1) -> Fraction | float:
    """Of discrete Laplace noise, a fraction, or of discrete Gaussian noise, a standard deviation;
    both in steps.

    So many releases with this noise lose `loss` together: losses of Laplace noise add up, those of
    Gaussian noise by their squares.
    """
    if terms.noise == "laplace":
        most = int(terms.clip_norm / terms.spacing)
        scale = local_steps * Fraction(2 * most) / Fraction(loss)
        if 32 * scale > 2**52:
            raise Refusal(f"spacing = {terms.spacing} is too small for a loss of {loss:g}")
        # above it, with small numbers
        return Fraction(-(-(scale.numerator << 20) // scale.denominator), 1 << 20)
    squared = local_steps * (2 * terms.clip_norm / terms.spacing / loss) ** 2
    sd = sqrt(squared + ROUNDING**2) * (1 + 1e-12)
    if 32 * sd > 2**52:
        raise Refusal(f"spacing = {terms.spacing} is too small for a loss of {loss:g}")
    return sd


def discrete_gaussian(sd: float) -> Callable[[list[int]], list[int]]:
    """Add discrete Gaussian noise, drawn exactly by OpenDP from the system's entropy."""
    with extra("owner"):
        import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    return dp.m.make_gaussian(*space, scale=sd)


def stream(seed: int, sale: int, round: int) -> np.random.Generator:
    """Random numbers of an owner with a seed, in a round of her `sale`-th sale, from 1."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(sale, round)))
