"""Keys, and texts that are signed with them: Ed25519, of ``cryptography``.

A text is JSON in one canonical form, so that both sides sign the same bytes. Public keys and
signatures are hexadecimal.

A key can have a *successor*, by a statement that both have signed. Until the time that it names
both are good, and who signs with the new one sends the statement along; who has not seen it by then
takes the new key for a stranger's. A key has one successor, and stands for one older key.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from hdpm_lib.validation import extra
from hdpm_owner.console import write
from hdpm_owner.shapes import Hash, Signature, Time, read_shaped

with extra("owner"):
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ed25519

FEW = 10  # keys with a successor, still good, of one owner or market


def canonical(content: Any) -> str:
    """The one text of a JSON value, or of shapes."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False, default=vars)


@dataclass(frozen=True)
class Succession:
    """That a key stands for an older one, which is good until a time; both have signed it."""

    old: Hash
    new: Hash
    until: Time
    by_old: Signature
    by_new: Signature

    @property
    def text(self) -> str:
        """What is signed."""
        return canonical({"old": self.old, "new": self.new, "until": self.until})


class Key:
    """A private key, in a file that nobody else reads; made if it is not there and may be `new`.

    `line` has the statements by which it stands for older keys, the first first.
    """

    def __init__(self, file: Path, *, new: bool = True) -> None:
        self.file = file
        if not file.exists():
            if not new:
                raise ValueError(f"there is no key {file}: hdpm-owner init makes it")
            write(file, ed25519.Ed25519PrivateKey.generate().private_bytes_raw().hex().encode())
        try:
            private, *line = file.read_text("ascii").split("\n")
            self._key = ed25519.Ed25519PrivateKey.from_private_bytes(bytes.fromhex(private.strip()))
            self.line = tuple(read_shaped(Succession, one) for one in line if one)
        except ValueError:
            raise ValueError(f"{file} holds no key of 64 hexadecimal digits") from None

    @property
    def public(self) -> str:
        """What others verify with."""
        return self._key.public_key().public_bytes_raw().hex()

    def sign(self, text: str) -> str:
        """The signature of a text."""
        return self._key.sign(text.encode()).hex()

    def shown(self, now: float) -> list[Succession]:
        """The statements that are sent along: those of keys that are still good."""
        return [one for one in self.line if one.until >= now]

    def rotate(self, until: float) -> Key:
        """Put a new key in the place of this one, which is good until a time; in one step."""
        made = ed25519.Ed25519PrivateKey.generate()
        public = made.public_key().public_bytes_raw().hex()
        bare = Succession(self.public, public, until, "", "")
        by_new = made.sign(bare.text.encode()).hex()
        last = Succession(self.public, public, until, self.sign(bare.text), by_new)
        lines = [made.private_bytes_raw().hex()]
        lines += map(canonical, (*self.line, last))
        write(self.file, "\n".join(lines).encode())
        return Key(self.file)


class Successions:
    """Statements that are taken for true: which key stands for which."""

    def __init__(self) -> None:
        self.of = dict[str, Succession]()  # by the old key
        self._before = dict[str, str]()

    def learn(self, one: Succession, now: float = -inf) -> bool:
        """Take a statement for true, if it is."""
        if new := self.check(one, now):
            self.of[one.old] = one
            self._before[one.new] = one.old
        return new

    def check(self, one: Succession, now: float = -inf) -> bool:
        """Whether a statement is new at some time; an error says why it is not true."""
        if self.of.get(one.old) == one:
            return False
        name = f"key {one.old[:8]}"
        if not (signed(one.text, one.by_old, one.old) and signed(one.text, one.by_new, one.new)):
            raise ValueError(f"that {name} has a successor is not signed by both")
        if one.old in self.of:
            raise ValueError(f"{name} has two successors")
        if one.until < now:
            raise ValueError(f"{name} had ended before its successor was named")
        if one.new in self._before or self.first(one.old) == one.new:
            raise ValueError(f"the successor of {name} stands for another key")
        return True

    def follow(self, key: str, line: Sequence[Succession], now: float) -> None:
        """Take what a stranger says of who stands for a key, in a few statements."""
        for one in line[:FEW]:
            if one.old in self.after(key):
                self.learn(one, now)

    def first(self, key: str) -> str:
        """The oldest key for which this one stands."""
        while key in self._before:
            key = self._before[key]
        return key

    def after(self, key: str) -> list[str]:
        """A key, and all that stand for it."""
        found = [key]
        while found[-1] in self.of:
            found.append(self.of[found[-1]].new)
        return found

    def ended(self, key: str, now: float) -> bool:
        """Whether a key has a successor, and was not good any more at some time."""
        return key in self.of and self.of[key].until < now


def signed(text: object, signature: object, public: object) -> bool:
    """Whether the holder of a public key has signed this text; never an error."""
    if not all(isinstance(part, str) for part in (text, signature, public)):
        return False
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(str(public))).verify(
            bytes.fromhex(str(signature)), str(text).encode()
        )
    except (InvalidSignature, ValueError):
        return False
    return True
