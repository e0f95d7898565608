"""An owner: what she answers to a market, and what she refuses.

A market asks for a *bid*, offers a *sale* of losses for all rounds, and asks for a *release* in
each round. She checks every word against her own terms and her own ledger: no order of requests,
from however many markets, makes her lose more than her total, or anything in a round that she has
not sold. A release that may not have arrived is sent again, the same bytes, to who asks with the
same letter: that tells nothing new.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpm_lib.auctions.bids import Bids, bids
from hdpm_lib.discrete import discrete_laplace
from hdpm_lib.gaussian import ROUNDING
from hdpm_lib.learners.gradients import check_labels, local_gradients
from hdpm_lib.learners.integer_answers import cut, grid_gradients, record_steps
from hdpm_lib.validation import check_count, check_finite, check_number, extra
from hdpm_owner.ledger import Ledger, Release, Sale
from hdpm_owner.signatures import Key, canonical, signed
from hdpm_owner.table import Agreement
from hdpm_owner.terms import Approved, Refusal, Spent, Terms

_LEAST = 1 - 1e-9  # share of her cost that a payment has to cover: rounding is nobody's gain
_OFFERS = 100  # bids that wait for a sale
_DEMANDS = ("unit", "noise", "clip_norm", "spacing")  # of a market, that must be hers
Steps = NDArray[np.int64]


@dataclass(frozen=True)
class _Offer:
    market: str
    rounds: int
    bid: Bids


class Owner:
    """An owner whose folder `hdpm-owner init` has made: terms, schema, ``data.npz``, a key; her
    ledger is there, too.

    Parameters
    ----------
    folder : path
    """

    def __init__(self, folder: Path) -> None:
        self.terms = Terms.read(folder / "terms.toml")
        self.agreed = Agreement.read(folder / "schema.toml")
        with np.load(folder / "data.npz", allow_pickle=False) as data:
            self._features = np.asarray(data["features"], dtype=float)
            self._labels = data["labels"]
            digest = str(data["schema"])
        if digest != self.agreed.digest or self._features.shape[1] != self.agreed.features:
            raise ValueError(
                f"{folder / 'data.npz'} was made by another schema.toml: run hdpm-owner init again"
            )
        check_labels(self._labels, self._features, len(self.agreed.classes))
        self.records = len(self._labels)
        self.shape = len(self.agreed.classes), self.agreed.features
        self.key = Key(folder / "key")
        # an error now, not when a release is in the ledger already
        self.noisy_steps(np.zeros(self.shape), 1.0)
        self.ledger = Ledger(folder)
        self._offers: dict[str, _Offer] = {}
        self._lock = Lock()

    # --- letters ---------------------------------------------------------------------------------

    def open_letter(self, request: object) -> dict[str, Any]:
        """Answer a letter: JSON text with the signature of an approved market, and the model that
        it speaks of.
        """
        try:
            if not isinstance(request, dict):
                raise Refusal("a letter must have a text and a signature")
            approved = {one.key: one for one in self.terms.markets}.get(str(request.get("key")))
            if approved is None:
                raise Refusal("her terms approve of no market with this key")
            if not signed(request.get("text"), request.get("signature"), approved.key):
                raise Refusal(f"this is not the signature of {approved.name}")
            letter = json.loads(request["text"])
            if isinstance(letter, dict) and letter.get("ask") == "release":
                letter["model"] = request.get("model")
        except (TypeError, ValueError, RecursionError) as error:
            return {"refused": str(error)}
        return self.answer(letter, approved)

    def answer(self, letter: object, market: Approved) -> dict[str, Any]:
        """The answer to what a market says that has shown who it is; the numbers may be anything
        that JSON can say.
        """
        known: Mapping[str, Callable[..., dict[str, Any]]] = {
            "hello": self.hello,
            "bid": self.bid,
            "sale": self.sell,
            "release": self.release,
            "paid": self.countersigned,
        }
        try:
            if not isinstance(letter, dict) or letter.get("ask") not in known:
                raise Refusal(f"ask must be one of {', '.join(known)}")
            given = {name: part for name, part in letter.items() if name != "ask"}
            return known[letter["ask"]](market, **given)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            return {"refused": str(error)}
        except (OSError, sqlite3.Error) as error:
            # a full disk, for one: what is not recorded is not sent
            return {"refused": f"her ledger cannot be written: {error}"}

    def hello(self, market: Approved) -> dict[str, Any]:
        """Who she is."""
        return {"name": self.terms.name, "key": self.key.public}

    # --- a bid, and a sale -----------------------------------------------------------------------

    def bid(self, market: Approved, rounds: int, schema: str, **demands: Any) -> dict[str, Any]:
        """Her cost, the loss that she would sell in each of these rounds, and a ticket: what a
        market asks first.
        """
        count = check_count(rounds, "rounds", most=market.rounds)
        if schema != self.agreed.digest:
            raise Refusal("the market has another schema than she has")
        for name in _DEMANDS:
            if demands.get(name) != (hers := getattr(self.terms, name)):
                raise Refusal(
                    f"the market asks for {name} = {demands.get(name)!r}, and her terms say"
                    f" {hers!r}"
                )
        with self._lock:
            offered = min(self.terms.limit, self._share(market, count))
        if offered <= 0:
            raise Refusal(
                f"nothing is left of epsilon = {self.terms.epsilon:g}, of which some may wait for"
                " other sales"
            )
        ticket = secrets.token_hex(16)
        offer = bids([self.terms.family], self.terms.rate, offered, self.records)
        with self._lock:
            while len(self._offers) >= _OFFERS:
                self._offers.pop(next(iter(self._offers)))
            self._offers[ticket] = _Offer(market.name, count, offer)
        told = {
            "name": self.terms.name,
            "key": self.key.public,
            "family": self.terms.family,
            "rate": self.terms.rate,
        }
        told |= {"ticket": ticket, "limit": offered, "records": self.records, "schema": schema}
        text = canonical(told | {name: getattr(self.terms, name) for name in _DEMANDS})
        return {"bid": text, "signature": self.key.sign(text)}

    def _share(self, market: Approved, rounds: int) -> float:
        """What she may lose in each of so many rounds."""
        terms = self.terms
        keep = self.terms.keep
        whole = self.ledger.spent + self.ledger.waiting(keep)
        share = whole.share(terms.noise, rounds, terms.epsilon, terms.delta)
        own = self.ledger.bought.get(market.name, Spent()) + self.ledger.waiting(keep, market.name)
        return min(
            share, own.share(terms.noise, rounds, min(market.epsilon, terms.epsilon), terms.delta)
        )

    def sell(
        self,
        market: Approved,
        ticket: str,
        records: int,
        losses: list[float],
        payments: list[float],
    ) -> dict[str, Any]:
        """Agree to losses and payments for all rounds, if they are what she bid; her records are
        not private.
        """
        offer = self._offers.get(ticket) if isinstance(ticket, str) else None
        if offer is None or offer.market != market.name:
            raise Refusal("that is not the ticket of a bid that waits for a sale")
        if records != self.records:
            raise Refusal(f"she has {self.records} records, not {records}")
        loss, paid = (
            check_finite(x, name, 1, 0) for x, name in ((losses, "losses"), (payments, "payments"))
        )
        if len(loss) != offer.rounds or len(paid) != offer.rounds:
            wanted = f"a sale must have losses and payments for {offer.rounds} rounds"
            raise Refusal(f"{wanted}, got {len(loss)} and {len(paid)}")
        if (loss > offer.bid.privacy_budget).any():
            raise Refusal(
                f"a loss of {loss.max()} is over the {offer.bid.privacy_budget[0]} that she offered"
            )
        if (short := paid < _LEAST * offer.bid.valuation(loss[:, None])[:, 0]).any():
            raise Refusal(
                f"a payment of {paid[short][0]} does not cover a loss of {loss[short][0]}"
            )
        if (loss > 0).any():
            # a refusal if her grid is too fine for the loss
            noise_scale(self.terms, loss[loss > 0].min())
        with self._lock:
            promised = self.ledger.promised.get(market.name, 0.0) + float(paid.sum())
            if promised > market.money:
                raise Refusal(
                    f"{promised:g} would be promised in all, and she trusts {market.name} with"
                    f" {market.money:g}"
                )
            if loss.max() > self._share(market, offer.rounds) * (1 + 1e-12):
                raise Refusal(
                    "what she offered was sold to another market meanwhile: ask for a new bid"
                )
            terms = self.terms
            sale = Sale(
                ticket,
                market.name,
                terms.unit,
                terms.noise,
                tuple(loss.tolist()),
                tuple(paid.tolist()),
            )
            self.ledger.write(sale)
            self._offers.pop(ticket, None)
        return {"sold": ticket}

    # --- a release, and its receipt --------------------------------------------------------------

    def release(
        self,
        market: Approved,
        ticket: str,
        round: int,
        loss: float,
        digest: str,
        model: list[list[float]],
        paid: list[dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """A noisy gradient at a model of shape (classes, features), for a round that is sold and
        not yet spent.

        The letter may carry signatures under earlier receipts, `paid`, as :meth:`countersigned`
        takes them.
        """
        self.countersigned(market, paid or [])
        number = check_count(round, "round", most=market.rounds)
        w = check_finite(model, "model", 2)
        if w.shape != self.shape:
            raise Refusal(f"model must have shape {self.shape}, got {w.shape}")
        if digest != model_digest(w):
            raise Refusal("the model is not that of the letter")
        letter = canonical([ticket, number, loss, digest])
        with self._lock:
            if (kept := self.ledger.answered(str(ticket), number, letter)) is not None:
                return json.loads(kept)
            entry = self._next(market, ticket, number, loss)
            self.ledger.write(entry)
            place = {"entry": self.ledger.number, "chain": self.ledger.chain}
            sales = len(self.ledger.sales)
        rng = None if self.terms.seed is None else stream(self.terms.seed, sales, number)
        steps = self.noisy_steps(w, loss, rng).tolist()
        told = {
            name: getattr(entry, name)
            for name in ("ticket", "unit", "noise", "round", "loss", "payment", "time")
        }
        told |= {
            "owner": self.terms.name,
            "key": self.key.public,
            "market": market.key,
            "records": self.records,
        }
        told |= {
            "schema": self.agreed.digest,
            "model": digest,
            "steps": steps_digest(steps),
        } | place
        receipt = canonical(told)
        answer = {"steps": steps, "receipt": receipt, "signature": self.key.sign(receipt)}
        with self._lock:
            self.ledger.keep(
                ticket, number, letter, canonical(answer), receipt, answer["signature"]
            )
        return answer

    def _next(self, market: Approved, ticket: object, number: int, loss: object) -> Release:
        """The entry of a release, or a refusal."""
        open_ = self.ledger.sales.get(str(ticket))
        if open_ is None or open_.sale.market != market.name or number > len(open_.sale.losses):
            raise Refusal("that round is not sold")
        sale = open_.sale
        if (sold := sale.losses[number - 1]) == 0:
            raise Refusal(f"nothing was sold in round {number}")
        if check_number(loss, "loss", 0) != sold:
            raise Refusal(f"a loss of {sold} was sold in round {number}, not {loss}")
        if number in open_.released:
            raise Refusal(f"round {number} is released already")
        if (sale.unit, sale.noise) != (self.terms.unit, self.terms.noise):
            raise Refusal("her terms have changed since that sale")
        cost = Spent.of(sale.noise, sold)
        if not (self.ledger.spent + cost).within(self.terms.epsilon, self.terms.delta):
            raise Refusal(
                f"a loss of {sold} is more than is left of epsilon = {self.terms.epsilon:g}"
            )
        bought = self.ledger.bought.get(market.name, Spent()) + cost
        if not bought.within(min(market.epsilon, self.terms.epsilon), self.terms.delta):
            raise Refusal(f"a loss of {sold} is more than is left of what {market.name} may buy")
        return Release(
            sale.ticket, market.name, sale.unit, sale.noise, number, sold, sale.payments[number - 1]
        )

    def noisy_steps(
        self, model: NDArray[np.float64], loss: float, rng: np.random.Generator | None = None
    ) -> Steps:
        """The gradient in steps, with noise: the sum over records, or if the owner is protected
        their mean.
        """
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
        scale = noise_scale(terms, loss)
        if isinstance(scale, Fraction):
            generator = np.random.default_rng() if rng is None else rng
            return cut(steps + discrete_laplace(scale, rng=generator, size=steps.shape))
        return cut(np.reshape(discrete_gaussian(steps.ravel().tolist(), scale), steps.shape))

    def countersigned(self, market: Approved, receipts: list[dict[str, Any]]) -> dict[str, Any]:
        """Keep a market's signatures under her receipts: what it owes her. Others are left
        alone.
        """
        kept = 0
        for one in receipts:
            ticket = str(one["ticket"])
            number = check_count(one["round"], "round")
            signature = one["signature"]
            text = self.ledger.receipt(ticket, number)
            if text is not None and signed(text, signature, market.key):
                self.ledger.countersign(ticket, number, signature)
                kept += 1
        return {"kept": kept}


def noise_scale(terms: Terms, loss: float) -> Fraction | float:
    """Of discrete Laplace noise, a fraction, or of discrete Gaussian noise, a standard deviation;
    both in steps.
    """
    if terms.noise == "laplace":
        most = int(terms.clip_norm / terms.spacing)
        scale = Fraction(2 * most) / Fraction(loss)
        if 32 * scale > 2**52:
            raise Refusal(f"spacing = {terms.spacing} is too small for a loss of {loss:g}")
        # above it, with small numbers
        return Fraction(-(-(scale.numerator << 20) // scale.denominator), 1 << 20)
    sd = sqrt((2 * terms.clip_norm / terms.spacing / loss) ** 2 + ROUNDING**2) * (1 + 1e-12)
    if 32 * sd > 2**52:
        raise Refusal(f"spacing = {terms.spacing} is too small for a loss of {loss:g}")
    return sd


def discrete_gaussian(steps: list[int], sd: float) -> list[int]:
    """Whole numbers with discrete Gaussian noise, drawn exactly by OpenDP from the operating
    system's entropy.
    """
    with extra("owner"):
        import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    return dp.m.make_gaussian(*space, scale=sd)(steps)


def model_digest(model: NDArray[np.float64]) -> str:
    """The hash of a model, which stands in letters and receipts."""
    return hashlib.sha256(np.ascontiguousarray(model, dtype="<f8").tobytes()).hexdigest()


def steps_digest(steps: list[list[int]]) -> str:
    """The hash of a release."""
    return hashlib.sha256(canonical(steps).encode()).hexdigest()


def stream(seed: int, sale: int, round: int) -> np.random.Generator:
    """Random numbers of an owner with a seed, in a round of her `sale`-th sale, both counted from
    1.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(sale, round)))
