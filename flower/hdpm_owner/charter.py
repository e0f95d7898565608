"""What a market is for, in one document that it signs before anything is sold.

A charter names the market's key, the schema, the plan, whether it is a rehearsal, all who are
invited, by name and key, and what markets of the same key were held before. Its hash stands in
every letter, answer, entry and receipt: an owner consents to a charter, and not to a name. It
travels as an invitation, one file with the market's address and certificate, signed, too.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from hdpm_owner.deals import VERSION, AskBid, Noise, Rounds, Steps, Unit, Version, Whole
from hdpm_owner.shapes import Hash, Name, Positive, Signature, Time, read_shaped
from hdpm_owner.signatures import Key, canonical, in_words, signed
from hdpm_owner.terms import Terms

if TYPE_CHECKING:
    from hdpm_owner.ledger import Ledger

Rule = Literal["posted prices", "all-in", "menus"]
Aggregate = Literal["least error", "trimmed mean", "krum"]
Address = Annotated[str, r"([A-Za-z0-9.-]{1,253}:[0-9]{1,5})?"]
Certificate = Annotated[str, r"[\x20-\x7e\n]{0,100000}"]
DEMANDS = ("unit", "noise", "clip_norm", "spacing")  # of a market, that must be hers


@dataclass(frozen=True)
class Agreed:
    """The plan of a market, as far as it concerns owners and auditors."""

    rounds: Rounds
    rule: Rule = "posted prices"
    budget: Positive = 1000.0
    learning_rate: Positive = 2.0
    local_steps: Steps = 1
    unit: Unit = "record"
    noise: Noise = "gaussian"
    clip_norm: Positive = 1.0
    spacing: Positive = 2.0**-20
    aggregate: Aggregate = "least error"
    liars: Annotated[int, (0, 1000)] = 0
    quorum: Annotated[int, (1, 1000)] = 2

    @property
    def needed(self) -> int:
        """Sellers without whom there is no round."""
        if self.aggregate == "least error":
            return self.quorum
        return max(self.quorum, 2 * self.liars + 1)


@dataclass(frozen=True)
class Invited:
    """Who may sell: a name, and the key that signs for it."""

    name: Name
    key: Hash


@dataclass(frozen=True)
class Charter:
    """The document; `earlier` are the charters of markets that were held before with this key."""

    version: Version
    name: Name
    key: Hash
    schema: Hash
    rehearsal: bool
    plan: Agreed
    owners: tuple[Invited, ...]
    earlier: tuple[Hash, ...]
    time: Time


@dataclass(frozen=True)
class Invitation:
    """A charter as the market has signed it, and how to reach the market, `sealed` by it, too."""

    charter: Whole
    signature: Signature
    sealed: Signature
    address: Address = ""
    certificate: Certificate = ""

    @property
    def hash(self) -> str:
        """The hash of the charter."""
        return hash_of(self.charter)

    def read(self) -> Charter:
        """Return the charter; an error if it, or the rest, is not signed by its own market."""
        charter = read_charter(self.charter, self.signature)
        whole = _whole(self.charter, self.address, self.certificate)
        if not signed("invitation", whole, self.sealed, charter.key):
            raise ValueError("address and certificate are not those that the market has signed")
        return charter


def _whole(*parts: str) -> str:
    """Return what is signed of an invitation."""
    return canonical(parts)


def read_charter(text: str, signature: str) -> Charter:
    """Return a charter; an error if it is none, or not signed by its own market."""
    charter = read_shaped(Charter, text)
    if not signed("charter", text, signature, charter.key):
        raise ValueError("the charter is not signed by its market")
    check_different(charter.owners)
    return charter


def hash_of(text: str) -> str:
    """Return the hash of a charter."""
    return hashlib.sha256(text.encode()).hexdigest()


def folded(name: str) -> str:
    """Return a name as it is compared: without case, blanks and points."""
    return "".join(one for one in name.casefold() if one.isalnum())


def check_different(owners: Iterable[Invited]) -> None:
    """Raise an error if two of those who are invited have one key, or names that look alike."""
    listed = list(owners)
    for what, values in (
        ("names", [folded(one.name) for one in listed]),
        ("keys", [one.key for one in listed]),
    ):
        value, often = Counter(values).most_common(1)[0] if values else ("", 0)
        if often > 1:
            raise ValueError(f"owners must have different {what}: {value} is there {often} times")
    for one in listed:
        if not folded(one.name):
            raise ValueError(f"the name {one.name!r} has no letter")


def invite(charter: Charter, key: Key, address: str = "", certificate: str = "") -> Invitation:
    """Return a charter that its market has signed."""
    check_different(charter.owners)
    text = canonical(charter)
    sealed = key.sign("invitation", _whole(text, address, certificate))
    return Invitation(text, key.sign("charter", text), sealed, address, certificate)


def read_invitation(file: Path) -> Invitation:
    """Return the invitation in a file; an error of one sentence if it is none."""
    try:
        content = json.loads(file.read_text("utf-8-sig"))
        return read_shaped(Invitation, json.dumps(content))
    except FileNotFoundError:
        raise ValueError(f"there is no invitation {file}: hdpm-market invite makes it") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is no invitation: {error}") from None


def check_charter(charter: Charter, terms: Terms, schema: str, kept: Ledger) -> None:
    """Raise an error if an owner with these terms, schema and ledger cannot consent."""
    ours, theirs = (int(one.split(".")[0]) for one in (VERSION, charter.version))
    if ours != theirs:
        older = "hdpm-owner" if ours < theirs else "the market"
        raise ValueError(
            f"the market speaks version {charter.version} of the protocol, and she {VERSION}:"
            f" {older} has to be upgraded"
        )
    hers = kept.keys.after(kept.keys.first(kept.key.public))
    named = [one for one in charter.owners if one.name == terms.name and one.key in hers]
    if not named:
        raise ValueError(f"{charter.name} does not invite {terms.name} with her key")
    if charter.schema != schema:
        raise ValueError(f"{charter.name} has another schema than hers: take its schema.toml")
    check_demands(charter.name, charter.plan, terms)


def check_demands(who: str, asked: Agreed | AskBid, terms: Terms) -> None:
    """Raise an error if a market asks for something else than an owner's terms say."""
    for name in DEMANDS:
        its = getattr(asked, name)
        hers = getattr(terms, name)
        if its != hers:
            raise ValueError(f"{who} asks for {name} = {its!r}, and her terms say {hers!r}")


def told_of(charter: Charter, invitation: Invitation) -> list[str]:
    """Return lines that say what a charter is, to be read before somebody consents."""
    plan = charter.plan
    kind = "a rehearsal of " if charter.rehearsal else ""
    lines = [
        f"{kind}{charter.name}, charter {invitation.hash}",
        f"key of the market, in words: {in_words(charter.key)}",
        f"asked for: {plan.rounds} rounds at most, a {plan.unit} protected, {plan.noise} noise,"
        f" a budget of {plan.budget:g} for each round by {plan.rule}",
        f"schema {charter.schema}",
        "invited:",
    ]
    lines += [f"  {one.name}: {in_words(one.key)}" for one in charter.owners]
    if invitation.address:
        lines.append(f"address {invitation.address}")
    return lines
