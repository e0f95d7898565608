"""Keys, and texts that are signed with them: Ed25519, of ``cryptography``.

A text is JSON in one canonical form, so that both sides sign the same bytes. Public keys and
signatures are hexadecimal.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hdpm_lib.validation import extra

with extra("owner"):
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


def canonical(content: Any) -> str:
    """The one text of a JSON value."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


class Key:
    """A private key, in a file that nobody else reads; made if it is not there and may be `new`."""

    def __init__(self, file: Path, *, new: bool = True) -> None:
        if not file.exists():
            if not new:
                raise ValueError(f"there is no key {file}: hdpm-owner init makes it")
            made = (
                Ed25519PrivateKey.generate()
                .private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
                .hex()
            )
            with os.fdopen(
                os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w"
            ) as stream:
                stream.write(made + "\n")
        try:
            self._key = Ed25519PrivateKey.from_private_bytes(
                bytes.fromhex(file.read_text("ascii").strip())
            )
        except ValueError:
            raise ValueError(f"{file} holds no key of 64 hexadecimal digits") from None

    @property
    def public(self) -> str:
        """What others verify with."""
        return self._key.public_key().public_bytes_raw().hex()

    def sign(self, text: str) -> str:
        """The signature of a text."""
        return self._key.sign(text.encode()).hex()


def succession(key: str) -> str:
    """The text by which an old key says that this one is its successor."""
    return canonical({"successor": key})


def signed(text: object, signature: object, public: object) -> bool:
    """Whether the holder of a public key has signed this text; whatever is given, never an
    error.
    """
    if not all(isinstance(part, str) for part in (text, signature, public)):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(str(public))).verify(
            bytes.fromhex(str(signature)), str(text).encode()
        )
    except (InvalidSignature, ValueError):
        return False
    return True
