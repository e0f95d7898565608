"""What owner and market say to each other, and what they sign: each a shape.

All that a bid names stands in the sale, the release and the receipt that come of it, so that owner,
market and auditor compare them as a whole. They differ in what is added.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from math import fsum
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from hdpm_owner.shapes import (
    Count,
    Hash,
    Loss,
    Money,
    Name,
    Positive,
    Signature,
    Size,
    Ticket,
    Time,
)
from hdpm_owner.signatures import Succession, canonical

Kind = TypeVar("Kind")
Unit = Literal["record", "owner"]
Noise = Literal["gaussian", "laplace"]
Family = Literal["linear", "quadratic", "square root", "exponential"]
Rounds = Annotated[int, (1, 10_000)]
Steps = Annotated[int, (1, 100)]
Text = Annotated[str, r"[\x20-\x7e]{1,5000}"]
NUMBERS = r"[0-9]{1,4}\.[0-9]{1,4}"
Version = Annotated[str, NUMBERS]
Whole = Annotated[str, r"[\x20-\x7e]{1,400000}"]
Cap = Annotated[float, (0, 1e100)]
# of the protocol: what may stay unread makes a new second number, what must not a new first one
VERSION = "4.0"


@dataclass(frozen=True)
class Deal:
    """Who sells what to whom, and on which terms.

    In a round she makes `local_steps` of descent at `learning_rate`, each with noise, and sends
    their sum; all of them together lose what the round may.

    Attributes
    ----------
    ticket : str, of a bid and all that comes of it
    charter : str, the hash of what the market is for
    owner, key : str, her name and her public key
    buyer : str, public key of the market
    schema : str, its hash
    first : int, rounds of the market that were held before the first of this deal
    unit, noise, records : as in :class:`hdpm_owner.terms.Terms`
    epsilon, delta : float, what she promises all her records for ever
    """

    ticket: Ticket
    charter: Hash
    owner: Name
    key: Hash
    buyer: Hash
    schema: Hash
    unit: Unit
    noise: Noise
    records: Count
    clip_norm: Positive
    spacing: Positive
    local_steps: Steps
    learning_rate: Positive
    first: Size
    epsilon: Positive
    delta: Annotated[float, (0, 1)]


@dataclass(frozen=True)
class Bid(Deal):
    """Her cost of privacy, the largest loss of a round, and for how many rounds."""

    family: Family
    rate: Positive
    limit: Positive
    rounds: Rounds


@dataclass(frozen=True)
class Sale(Deal):
    """A loss and a payment for each round, 0 without her; `market` is her name for the buyer."""

    market: Name
    losses: tuple[Loss, ...]
    payments: tuple[Money, ...]
    time: Time = field(default_factory=time.time)


@dataclass(frozen=True)
class Release(Deal):
    """What may have left her in a round of a sale, counted from 1, whether it arrived or not."""

    market: Name
    round: Rounds
    loss: Loss
    payment: Money
    model: Hash
    time: Time = field(default_factory=time.time)


@dataclass(frozen=True)
class GivenUp:
    """The rounds of a sale that were not released never will be."""

    ticket: Ticket
    market: Name
    time: Time = field(default_factory=time.time)


@dataclass(frozen=True)
class Promise:
    """What she promises from now on."""

    epsilon: Positive
    delta: Annotated[float, (0, 1)]
    unit: Unit
    noise: Noise
    clip_norm: Positive
    spacing: Positive
    time: Time = field(default_factory=time.time)


@dataclass(frozen=True)
class Made:
    """The first entry: whose ledger it is."""

    key: Hash
    time: Time = field(default_factory=time.time)


@dataclass(frozen=True)
class Joined:
    """Her consent to a charter, `text`, signed by its market, and how far it goes."""

    charter: Hash
    text: Whole
    by_market: Signature
    epsilon: Cap
    money: Cap
    time: Time = field(default_factory=time.time)


@dataclass(frozen=True)
class Withdrawn:
    """That she consents to a charter no longer."""

    charter: Hash
    time: Time = field(default_factory=time.time)


@dataclass(frozen=True)
class Rotated:
    """That a key has a successor, hers or a market's, and since when she knows."""

    statement: Succession
    time: Time = field(default_factory=time.time)


@dataclass(frozen=True)
class Closed:
    """The closing statement of a market, which she has signed, too."""

    charter: Hash
    text: Whole
    by_market: Signature
    time: Time = field(default_factory=time.time)


Entry = Made | Joined | Withdrawn | Closed | Sale | Release | GivenUp | Promise | Rotated
ENTRIES: dict[str, type[Entry]] = {
    "made": Made,
    "joined": Joined,
    "withdrawn": Withdrawn,
    "closed": Closed,
    "sale": Sale,
    "release": Release,
    "given up": GivenUp,
    "promise": Promise,
    "rotated": Rotated,
}


@dataclass(frozen=True)
class Receipt(Deal):
    """That a release was made: its place in her ledger, hashes of the model and what was sent."""

    round: Rounds
    loss: Loss
    payment: Money
    model: Hash
    time: Time
    entry: Count
    chain: Hash
    steps: Hash


def derived(kind: type[Kind], from_: object, **more: Any) -> Kind:
    """Build what has the parts of another, and more, or less: the one way in which terms become
    bids, bids become sales, and these releases and receipts.
    """
    names = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: part for name, part in (vars(from_) | more).items() if name in names})


def model_digest(model: NDArray[np.float64]) -> str:
    """Return the hash of a model, which stands in letters and receipts."""
    return hashlib.sha256(np.ascontiguousarray(model, dtype="<f8").tobytes()).hexdigest()


def account(key: str, name: str, receipts: Sequence[Receipt]) -> Account:
    """Return what receipts of an owner add up to."""
    last = max(receipts, key=lambda one: one.entry, default=None)
    loss = fsum(one.loss for one in receipts)  # in whatever order they come
    money = fsum(one.payment for one in receipts)
    place = (last.entry, last.chain) if last else (0, "")
    return Account(key, name, len(receipts), loss, money, *place)


def held_digest(
    rounds: Sequence[dict[str, Any]], keys: Sequence[str], absences: Sequence[dict[str, Any]]
) -> str:
    """Return the hash of what a market's book says of its rounds, and who was absent."""
    told = []
    for row in rounds:
        sold = [
            [key, loss, paid]
            for key, loss, paid in zip(keys, row["loss"], row["paid"], strict=False)
            if loss or paid
        ]
        told.append([row["round"], model_digest(np.array(row["model"], dtype=float)), sold])
    absent = [[one["round"], one["name"]] for one in absences if one["round"] < len(rounds)]
    return hashlib.sha256(canonical([told, absent]).encode()).hexdigest()


def steps_digest(steps: list[list[int]]) -> str:
    """Return the hash of a release."""
    return hashlib.sha256(canonical(steps).encode()).hexdigest()


# --- letters of a market --------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """An entry of a ledger, and the hash that chains all entries up to it."""

    entry: Count
    chain: Hash


@dataclass(frozen=True)
class Hello:
    """Who are you? The nonce is new in each letter, so that an old answer is none."""

    nonce: Ticket


@dataclass(frozen=True)
class AskBid:
    """What the market wants to buy, in so many rounds.

    `first` rounds were held before. `last` is what it last saw of her ledger. Of the sales
    `instead` the rest is given up if she sells what she bids now.
    """

    rounds: Rounds
    schema: Hash
    unit: Unit
    noise: Noise
    clip_norm: Positive
    spacing: Positive
    local_steps: Steps
    learning_rate: Positive
    first: Size
    time: Time
    last: Place | None = None
    instead: tuple[Ticket, ...] = ()


@dataclass(frozen=True)
class AskSale:
    """An offer: a loss and a payment for each round, on a bid with so many records."""

    ticket: Ticket
    records: Count
    losses: tuple[Loss, ...]
    payments: tuple[Money, ...]


@dataclass(frozen=True)
class Thanks:
    """The market's signature under a receipt: it owes her that payment."""

    ticket: Ticket
    round: Rounds
    signature: Signature


@dataclass(frozen=True)
class AskRelease:
    """What was sold for a round, at the model with this hash, and earlier signatures."""

    ticket: Ticket
    round: Rounds
    loss: Loss
    digest: Hash
    paid: tuple[Thanks, ...] = ()


@dataclass(frozen=True)
class Account:
    """What an owner sold in a market, and her last entry of which a receipt tells."""

    key: Hash
    name: Name
    rounds: Size
    loss: Loss
    money: Money
    entry: Size
    chain: Annotated[str, "([0-9a-f]{64})?"]


@dataclass(frozen=True)
class Closing:
    """What a market says at its end: its last model, what was held, what all have sold."""

    charter: Hash
    rounds: Size
    model: Hash
    held: Hash
    accounts: tuple[Account, ...]


@dataclass(frozen=True)
class SignedClosing:
    """A closing statement as its market has signed it."""

    text: Whole
    signature: Signature


@dataclass(frozen=True)
class AskPaid:
    """Signatures under receipts, and at the end of a market what it says of all of it."""

    receipts: tuple[Thanks, ...]
    closing: SignedClosing | None = None


def unread(kind: type, letter: dict[str, Any], version: object) -> list[str]:
    """Return the parts of a letter of a newer version that its reader does not know.

    An error names who has to upgrade if the versions do not understand each other.
    """
    told = version if isinstance(version, str) and re.fullmatch(NUMBERS, version) else "1.0"
    ours = [int(part) for part in VERSION.split(".")]
    theirs = [int(part) for part in told.split(".")]
    if theirs[0] != ours[0]:
        older = "the market" if theirs < ours else "the owner"
        raise ValueError(
            f"the market speaks version {told} of the protocol, and the owner {VERSION}: {older}"
            " has to upgrade"
        )
    known = {one.name for one in fields(kind)}
    return [name for name in letter if name not in known] if theirs > ours else []


# by the word that a letter begins with, which is also the name of the owner's method
LETTERS: dict[str, type] = {
    "hello": Hello,
    "bid": AskBid,
    "sale": AskSale,
    "release": AskRelease,
    "paid": AskPaid,
}


@dataclass(frozen=True)
class Line:
    """For which older keys that of a letter stands."""

    line: tuple[Succession, ...]


# --- answers of an owner --------------------------------------------------------------------------


@dataclass(frozen=True)
class Signed:
    """An answer as a text, with her signature, and for which older keys hers stands."""

    text: Text
    signature: Signature
    line: tuple[Succession, ...] = ()


@dataclass(frozen=True)
class Known:
    """Who she is, by her key, to who asks with this nonce."""

    charter: Hash
    nonce: Ticket
    name: Name
    key: Hash
    version: Version


@dataclass(frozen=True)
class Sold:
    """That she agrees to a sale, and where it stands in her ledger."""

    charter: Hash
    key: Hash
    sold: Ticket
    entry: Count
    chain: Hash


@dataclass(frozen=True)
class Countersigned:
    """Her key, and its signature under a closing statement."""

    key: Hash
    signature: Signature


@dataclass(frozen=True)
class Kept:
    """How many signatures she has kept, and hers under a closing statement."""

    kept: Size
    closing: Countersigned | None = None
