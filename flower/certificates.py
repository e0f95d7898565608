"""Certificates and keys for a market: ``python flower/certificates.py FOLDER [OWNER ...] [--host
HOST ...]``.

The folder gets a certificate authority that exists for this market only, a certificate of the
server for localhost, 127.0.0.1 and the hosts that are named, and a pair of keys for each owner. A
real market takes its certificate from its own authority, and an owner makes her keys herself and
hands in the public one.
"""

from __future__ import annotations

import argparse
import datetime
import ipaddress
import re
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hdpm_owner.console import one_sentence, write
from hdpm_owner.shapes import check_name

EllipticKey = ec.EllipticCurvePrivateKey
AUTHORITY = "market: authority"
DAYS = 365  # until they end; `hdpm-owner status --certificates` says when


def make(
    folder: Path, owners: Iterable[str] = (), hosts: Iterable[str] = (), days: int = DAYS
) -> None:
    """Write ``ca.crt``, ``server.crt``, its key, and each owner's ``NAME.key`` and ``NAME.pub``."""
    here = [_host(host) for host in ("localhost", "127.0.0.1", *hosts)]
    owners = list(map(check_name, owners))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    ca_key, server_key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    uses = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    identifier = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
    ca = (
        _certificate(AUTHORITY, ca_key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(uses, critical=True)
        .add_extension(identifier, critical=False)
    )
    issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    own = (
        _certificate("market", server_key, days)
        .add_extension(x509.SubjectAlternativeName(here), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(issuer, critical=False)
    )
    for name, builder in {"ca.crt": ca, "server.crt": own}.items():
        signed = builder.sign(ca_key, hashes.SHA384())
        (folder / name).write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    _private(folder / "server.key", server_key, serialization.PrivateFormat.PKCS8)
    for owner in owners:
        key = ec.generate_private_key(ec.SECP384R1())
        _private(folder / f"{owner}.key", key, serialization.PrivateFormat.OpenSSH)
        form = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        (folder / f"{owner}.pub").write_bytes(key.public_key().public_bytes(*form))


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not re.fullmatch(r"[A-Za-z0-9*]([A-Za-z0-9.-]*[A-Za-z0-9])?", host):
            raise ValueError(
                f"--host must be a name or an address, without port, got {host!r}"
            ) from None
        return x509.DNSName(host)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _certificate(subject: str, key: EllipticKey, days: int) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(AUTHORITY))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _private(file: Path, key: EllipticKey, form: serialization.PrivateFormat) -> None:
    """Write a key that nobody else can read, from its first byte on."""
    text = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    write(file, text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("owners", nargs="*")
    what = "names or addresses of the server besides this machine's"
    parser.add_argument("--host", nargs="*", default=[], help=what)
    given = parser.parse_args()
    with one_sentence(parser):
        make(given.folder, given.owners, given.host)
        print(f"certificates in {given.folder} end in {DAYS} days")
