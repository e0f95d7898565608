"""Keys, and texts that are signed with them: Ed25519, of ``cryptography``.

What is signed is a kind, "bid" or "letter" for instance, and the bytes of a text, as DSSE does: no
signature under one kind of document is good for another. The text itself is kept and handed on, and
is JSON. Public keys and signatures are hexadecimal.

A key can have a *successor*, by a statement that both have signed. Until the time that it names
both are good, and who signs with the new one sends the statement along; who has not seen it by then
takes the new key for a stranger's. A key has one successor, and stands for one older key.
"""

from __future__ import annotations

import hashlib
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
    """Return the one text of a JSON value, or of shapes."""
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
                raise ValueError(f"there is no key {file}: init makes it")
            write(file, ed25519.Ed25519PrivateKey.generate().private_bytes_raw().hex().encode())
        elif file.stat().st_mode & 0o077:
            raise ValueError(f"others may read the key {file}: chmod 600, and think of a new one")
        try:
            self._parse(file.read_text("ascii"))
        except ValueError:
            raise ValueError(f"{file} holds no key of 64 hexadecimal digits") from None

    def _parse(self, text: str) -> None:
        private, *line = text.split("\n")
        self._key = ed25519.Ed25519PrivateKey.from_private_bytes(bytes.fromhex(private.strip()))
        self.line = tuple(read_shaped(Succession, one) for one in line if one)

    @classmethod
    def parse(cls, text: str) -> Key:
        """Return the key that a text of :meth:`text` is."""
        key = cls.__new__(cls)
        key._parse(text)
        return key

    @classmethod
    def made(cls) -> Key:
        """Return a new key."""
        return cls.parse(ed25519.Ed25519PrivateKey.generate().private_bytes_raw().hex())

    @property
    def text(self) -> str:
        """The private key, and below it the statements."""
        return "\n".join([self._key.private_bytes_raw().hex(), *map(canonical, self.line)])

    @property
    def public(self) -> str:
        """What others verify with."""
        return self._key.public_key().public_bytes_raw().hex()

    def sign(self, kind: str, text: str) -> str:
        """Return the signature of a text of some kind."""
        return self._key.sign(enveloped(kind, text)).hex()

    def shown(self, now: float) -> list[Succession]:
        """Return the statements that are sent along: those of keys that are still good."""
        return [one for one in self.line if one.until >= now]

    def successor(self, until: float) -> Key:
        """Return a new key that stands for this one, which is good until a time."""
        made = Key.made()
        bare = Succession(self.public, made.public, until, "", "")
        by_old, by_new = (one.sign("succession", bare.text) for one in (self, made))
        made.line = (*self.line, Succession(self.public, made.public, until, by_old, by_new))
        return made

    def rotate(self, until: float) -> Key:
        """Put a successor in the place of this key in its file, in one step."""
        write(self.file, self.successor(until).text.encode())
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
        both = ((one.by_old, one.old), (one.by_new, one.new))
        if not all(signed("succession", one.text, *by) for by in both):
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
        """Return the oldest key for which this one stands."""
        while key in self._before:
            key = self._before[key]
        return key

    def after(self, key: str) -> list[str]:
        """Return a key, and all that stand for it."""
        found = [key]
        while found[-1] in self.of:
            found.append(self.of[found[-1]].new)
        return found

    def ended(self, key: str, now: float) -> bool:
        """Whether a key has a successor, and was not good any more at some time."""
        return key in self.of and self.of[key].until < now


def enveloped(kind: str, text: str) -> bytes:
    """Return the bytes that are signed: the kind and the text, each after its length."""
    parts = (part.encode() for part in (kind, text))
    return b" ".join([b"hdpm", *(str(len(part)).encode() + b" " + part for part in parts)])


def signed(kind: str, text: object, signature: object, public: object) -> bool:
    """Decide whether the holder of a public key has signed this text as this kind."""
    if not all(isinstance(part, str) for part in (text, signature, public)):
        return False
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(str(public))).verify(
            bytes.fromhex(str(signature)), enveloped(kind, str(text))
        )
    except (InvalidSignature, ValueError):
        return False
    return True


def in_words(public: str) -> str:
    """Return eight words that stand for a key, to be read over the telephone.

    Each is two syllables and a letter, for 16 of 128 bits of the key's hash.
    """
    digest = hashlib.sha256(public.encode()).digest()
    words = []
    for place in range(0, 16, 2):
        number = int.from_bytes(digest[place : place + 2], "big")
        word = ""
        for letters in ("bdfghjklmnprstvz", "aiou") * 2 + ("bdfghjklmnprstvz",):
            number, rest = divmod(number, len(letters))
            word += letters[rest]
        words.append(word)
    return " ".join(words)
