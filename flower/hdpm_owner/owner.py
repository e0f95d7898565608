"""An owner: what she answers to a market, and what she refuses.

A market asks for a *bid*, offers a *sale* of privacy losses for all rounds, and asks for a *release* in each round. She
checks every word against her own terms and her own ledger: no order of requests, from however many markets, makes her
lose more than her total, or anything in a round that she has not sold.
"""

from __future__ import annotations

import secrets
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import nextafter
from pathlib import Path
from typing import Any

import numpy as np

from hdpm_lib.auctions.bids import FAMILIES, Bids, bids
from hdpm_lib.learners.gradients import check_labels, local_gradients
from hdpm_lib.learners.integer_answers import gradient_noise, integer_gradients
from hdpm_lib.validation import check_choice, check_count, check_finite, check_number, check_positive
from hdpm_owner.ledger import Ledger, Release, Sale

ROUNDS = 10_000  # of one sale, at most
_LEAST = 1 - 1e-9  # share of her cost that a payment has to cover: rounding is nobody's gain


class Refusal(ValueError):
    """What she does not do, and why, in words that depend on nothing private."""


@dataclass(frozen=True)
class Terms:
    """What an owner has decided, and made public with her first bid.

    Attributes
    ----------
    name : str
    family, rate : her cost of privacy, as in :class:`~hdpm_lib.auctions.bids.Bids`
    limit : float, largest privacy loss in a round
    total : float, largest sum of all losses, over all rounds, markets and restarts
    classes, features : int, shape of the models that she answers
    clip_norm, spacing : float, as in :func:`~hdpm_lib.learners.integer_answers.integer_gradients`
    seed : int, optional
        For tests only: who knows it can take the noise off what she sends. By default the system's entropy.
    """

    name: str
    family: str
    rate: float
    limit: float
    total: float
    classes: int
    features: int
    clip_norm: float = 1.0
    spacing: float = 2.0**-20
    seed: int | None = None

    def __post_init__(self) -> None:
        check_choice(self.family, "family", FAMILIES)
        for name in ("rate", "limit", "total", "clip_norm", "spacing"):
            check_positive(getattr(self, name), name)
        for name in ("classes", "features"):
            check_count(getattr(self, name), name, 2 if name == "classes" else 1)

    @classmethod
    def read(cls, file: Path) -> Terms:
        """Terms from a TOML file."""
        try:
            return cls(**tomllib.loads(file.read_text("utf8")))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{file}: {error}") from error


class Owner:
    """An owner whose folder has ``terms.toml``, ``data.npz`` (`features`, `labels`) and her ``ledger.jsonl``."""

    def __init__(self, folder: Path) -> None:
        self.terms = Terms.read(folder / "terms.toml")
        with np.load(folder / "data.npz", allow_pickle=False) as data:
            self._features, self._labels = np.asarray(data["features"], dtype=float), data["labels"]
        if self._features.ndim != 2 or self._features.shape[1] != self.terms.features:
            raise ValueError(f"features must have {self.terms.features} columns, got shape {self._features.shape}")
        check_labels(self._labels, self._features, self.terms.classes)
        self.records = len(self._labels)
        self.ledger = Ledger(folder / "ledger.jsonl")
        self._offer: tuple[str, int, Bids] | None = None  # the last bid, its ticket and its rounds

    def answer(self, request: object) -> dict[str, Any]:
        """The answer to a request, or a refusal; the numbers in a request may be anything that JSON can say."""
        known: Mapping[str, Callable[..., dict[str, Any]]] = {
            "bid": self.bid,
            "sale": self.sell,
            "release": self.release,
        }
        try:
            if not isinstance(request, dict) or request.get("ask") not in known:
                raise Refusal(f"ask must be one of {', '.join(known)}")
            return known[request["ask"]](**{name: part for name, part in request.items() if name != "ask"})
        except (TypeError, ValueError) as error:
            return {"refused": str(error)}

    @property
    def left(self) -> Fraction:
        """What she may still lose."""
        return Fraction(self.terms.total) - self.ledger.spent

    def bid(self, rounds: int) -> dict[str, Any]:
        """Her cost, the loss that she would sell in each of these rounds, and a ticket: what a market asks first."""
        count = check_count(rounds, "rounds", most=ROUNDS)
        if (offered := min(self.terms.limit, _share(self.left, count))) <= 0:
            raise Refusal(f"nothing is left of a total of {self.terms.total}")
        offer = bids([self.terms.family], self.terms.rate, offered, max(self.records, 1))
        self._offer = secrets.token_hex(16), count, offer
        told = {"name": self.terms.name, "family": self.terms.family, "rate": self.terms.rate}
        return told | {"ticket": self._offer[0], "limit": offered, "records": self.records}

    def sell(self, ticket: str, records: int, losses: list[float], payments: list[float]) -> dict[str, Any]:
        """Agree to losses and payments for all rounds, if they are what she bid; her records are not private."""
        if self._offer is None or ticket != self._offer[0]:
            raise Refusal("that is not the ticket of the last bid")
        _, rounds, offer = self._offer
        if records != self.records:
            raise Refusal(f"she has {self.records} records, not {records}")
        loss, paid = (check_finite(x, name, 1, 0) for x, name in ((losses, "losses"), (payments, "payments")))
        if len(loss) != rounds or len(paid) != rounds:
            raise Refusal(f"a sale must have losses and payments for {rounds} rounds, got {len(loss)} and {len(paid)}")
        if (loss > offer.privacy_budget).any():
            raise Refusal(f"a loss of {loss.max()} is over the {offer.privacy_budget[0]} that she offered")
        if (short := paid < _LEAST * offer.valuation(loss[:, None])[:, 0]).any():
            raise Refusal(f"a payment of {paid[short][0]} does not cover a loss of {loss[short][0]}")
        grid = (self.terms.clip_norm, self.terms.spacing)
        gradient_noise(loss, (1,), *grid, rng=np.random.default_rng(0))  # a refusal if her grid is too fine for a loss
        self.ledger.write(Sale(ticket, tuple(loss.tolist()), tuple(paid.tolist())))
        self._offer = None
        return {"sold": ticket}

    def release(self, ticket: str, round: int, loss: float, model: list[list[float]]) -> dict[str, Any]:
        """A noisy gradient at a model of shape (classes, features), for a round that is sold and not yet spent."""
        sale, number = self.ledger.sale, check_count(round, "round", most=ROUNDS)
        if sale is None or ticket != sale.ticket or number > len(sale.losses):
            raise Refusal("that round is not sold")
        sold = sale.losses[number - 1]
        if sold == 0:
            raise Refusal(f"nothing was sold in round {number}")
        if check_number(loss, "loss", 0) != sold:
            raise Refusal(f"a loss of {sold} was sold in round {number}, not {loss}")
        if number in self.ledger.released(ticket):
            raise Refusal(f"round {number} is released already")
        if Fraction(sold) > self.left:
            raise Refusal(f"a loss of {sold} is more than is left of a total of {self.terms.total}")
        w = check_finite(model, "model", 2)
        if w.shape != (self.terms.classes, self.terms.features):
            raise Refusal(f"model must have shape {(self.terms.classes, self.terms.features)}, got {w.shape}")
        self.ledger.write(Release(ticket, number, sold))
        return {"gradient": self._noisy_gradient(w, sold, number).tolist()}

    def _noisy_gradient(self, model: np.ndarray, loss: float, number: int) -> np.ndarray:
        rows = [np.arange(self.records)]
        gradient = local_gradients(model[None], self._features, self._labels, rows)[:, 0]
        rng, grid = self._generator(number), self.terms.spacing
        return integer_gradients(gradient, [loss], self.terms.clip_norm, spacing=grid, rng=rng)[0]

    def _generator(self, number: int) -> np.random.Generator:
        """Fresh for each release; with a seed, for tests, one for each sale and round."""
        if self.terms.seed is None:
            return np.random.default_rng()
        sales = sum(isinstance(entry, Sale) for entry in self.ledger.entries)
        return stream(self.terms.seed, sales, number)


def stream(seed: int, sale: int, round: int) -> np.random.Generator:
    """Random numbers of an owner with a seed, in a round of her `sale`-th sale, both counted from 1."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(sale, round)))


def _share(left: Fraction, rounds: int) -> float:
    """The largest float of which so many are not over what is left."""
    share = float(left / rounds)
    return share if Fraction(share) * rounds <= left else nextafter(share, 0.0)
