"""Owners who are lied to, and a market of processes beside the same market in one process."""

from __future__ import annotations

import hashlib
import json
import resource
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import federation
from hdpm_lib.aggregation import least_error_weights
from hdpm_lib.discrete import discrete_laplace
from hdpm_lib.learners import fedsgd as fedsgd_module
from hdpm_lib.markets.outcome import Outcome
from hdpm_owner import ledger, receipts
from hdpm_owner.audit import audit, wrong
from hdpm_owner.charter import DEMANDS, Agreed, Charter, Invitation, Invited, invite
from hdpm_owner.deals import VERSION, Joined, Receipt, model_digest
from hdpm_owner.owner import Owner, noise_scale, stream
from hdpm_owner.shapes import read_shaped
from hdpm_owner.signatures import Key, canonical
from hdpm_owner.table import Agreement, load, read_table
from hdpm_owner.terms import Approved, Terms

Answer = dict[str, Any]
Hire = Callable[..., Owner]
Array = NDArray[np.float64]
Row = dict[str, Any]

# --- an owner, asked in this process -------------------------------------------------------------

SCHEMA = """row = "one person"
label = {name = "ill", classes = ["no", "yes"]}
columns = [{name = "a", low = 0, high = 1}, {name = "b", low = 0, high = 1}]
"""
TERMS = {"name": "ann", "family": "linear", "rate": 1.0, "limit": 1.0, "epsilon": 3.0}
TERMS |= {"unit": "owner", "noise": "laplace"}
RECORDS = {"unit": "record", "noise": "gaussian", "delta": 1e-5, "limit": None}
MODEL = ((0.0, 0.0, 0.0), (0.1, 0.0, -0.1))
ONES = ((1.0, 1.0, 1.0), (1.0, 1.0, 1.0))
# of a market that buys on these terms
PLAN = {"unit": "owner", "noise": "laplace", "budget": 300.0}
INVITATIONS: dict[str, Invitation] = {}  # that were signed, by hash
CHARTERS: dict[str, str] = {}  # their hashes, by the market's key


def key_of(name: str) -> Key:
    """Return the key of an owner in a folder of this name."""
    return Key.parse(hashlib.sha256(name.encode()).hexdigest())


def charter_of(market: str, key: Key | str, **plan: Any) -> Invitation:
    """Make a charter that invites all owners of these tests; signed, if a key is given that can."""
    public = key if isinstance(key, str) else key.public
    owners = tuple(Invited(one, key_of(one).public) for one in ("ann", "bea", "cem", "dan", "eve"))
    wanted = Agreed(10_000, **PLAN | {"budget": 1e100} | plan)
    made = Charter(VERSION, market, public, DIGEST, False, wanted, owners, (), 0.0)
    if isinstance(key, str):
        return Invitation(canonical(made), "00" * 64, "00" * 64)
    found = invite(made, key)
    INVITATIONS[found.hash] = found
    return found


DIGEST = hashlib.sha256(canonical(tomllib.loads(SCHEMA)).encode()).hexdigest()
MARKET = Approved("market", "0" * 64, charter_of("market", "0" * 64).hash)
OTHER = Approved("other", "1" * 64, charter_of("other", "1" * 64).hash)


def people(n: int, rng: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame(
        {"a": rng.random(n), "b": rng.random(n), "ill": rng.choice(["no", "yes"], n)}
    )


def owner_of(
    folder: Path,
    rows: pd.DataFrame | None = None,
    key: Key | None = None,
    joins: bool = True,
    **changes: Any,
) -> Owner:
    """Make an owner of forty records, in a folder that is made if it is not there, who has joined
    two markets, or that of a key.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder / "data.npz").exists():
        (folder / "schema.toml").write_text(SCHEMA, "utf8")
        rows = people(40, np.random.default_rng(0)) if rows is None else rows
        rows.to_csv(folder / "table.csv", index=False)
        agreed = Agreement.read(folder / "schema.toml")
        saved = read_table(folder / "table.csv", agreed).saved(agreed.digest)
        (folder / "data.npz").write_bytes(saved)
        ledger.make(folder, key_of(folder.name))
    terms = {name: value for name, value in (TERMS | changes).items() if value is not None}
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in terms.items()]
    (folder / "terms.toml").write_text("".join(lines), "utf8")
    own = Owner(folder)
    plan = {name: getattr(own.terms, name) for name in DEMANDS}
    asked = [charter_of("market", key or MARKET.key, **plan)]
    if key is not None:
        CHARTERS[key.public] = asked[0].hash
    else:
        asked.append(charter_of("other", OTHER.key, **plan))
    for made in asked if joins else []:
        if made.hash not in own.ledger.consents:
            joined = Joined(made.hash, made.charter, made.signature, 1e100, 1e100)
            own.ledger.write(joined)
    return own


def its(owner: Owner, market: Approved) -> Approved:
    """Return a market as she knows it who has joined a charter on her own terms."""
    here = (one.charter for one in owner.markets if one.name == market.name)
    return replace(market, charter=next(here, market.charter))


def demand(owner: Owner, rounds: int = 1, **changes: Any) -> Answer:
    """Return the letter that asks her for a bid on her own terms."""
    names = ("unit", "noise", "clip_norm", "spacing")
    asked = {name: getattr(owner.terms, name) for name in names}
    asked |= {"local_steps": 1, "learning_rate": 2.0, "first": 0, "time": time.time()}
    return {"ask": "bid", "rounds": rounds, "schema": owner.agreed.digest} | asked | changes


def bid_of(owner: Owner, rounds: int = 1, market: Approved = MARKET, **changes: Any) -> Answer:
    """Her bid, or her refusal."""
    answer = owner.answer(demand(owner, rounds, **changes), its(owner, market))
    return json.loads(answer["text"]) if "text" in answer else answer


def offer(
    owner: Owner, losses: Sequence[float], market: Approved = MARKET, **changes: Any
) -> Answer:
    """Her answer to an offer of these losses on her own bid, by a market that pays well."""
    terms = {"ask": "sale", "records": owner.records, "losses": list(losses)}
    terms |= {"payments": [1e6] * len(losses)} | changes
    if "ticket" not in terms:
        terms["ticket"] = bid_of(owner, len(losses), market)["ticket"]
    return owner.answer(terms, its(owner, market))


def sell(owner: Owner, losses: Sequence[float], market: Approved = MARKET) -> str:
    return json.loads(offer(owner, losses, market)["text"])["sold"]


def asked_of(ticket: str, round: int, loss: float = 1.0, model: Any = MODEL) -> Answer:
    """Return the letter that asks for a release."""
    digest = model_digest(np.array(model, dtype=float))
    return {"ask": "release", "ticket": ticket, "round": round, "loss": loss, "digest": digest}


def ask(
    owner: Owner, *which: Any, model: Any = MODEL, market: Approved = MARKET, **changes: Any
) -> Answer:
    return owner.answer(asked_of(*which, model=model) | changes, its(owner, market), model)


def letter(key: Key, content: Any, **changes: Any) -> dict[str, Any]:
    """Return what a market sends that signs with a key, with its statements if it stands for
    others.
    """
    if isinstance(content, dict):
        keys = (key.public, *(one.old for one in key.line))
        charter = next((CHARTERS[one] for one in keys if one in CHARTERS), "0" * 64)
        content = {"version": VERSION, "charter": charter} | content
    found = {"text": (text := canonical(content)), "signature": key.sign("letter", text)}
    found |= {"key": key.public}
    return found | ({"line": canonical({"line": key.line})} if key.line else {}) | changes


def row_of(answer: Answer, key: Key) -> Row:
    """Return a receipt as a market keeps it that signs with a key."""
    row = {"receipt": answer["text"], "signature": answer["signature"]}
    return row | {"countersignature": key.sign("owed", answer["text"])}


# What a market may try that has bought a loss of 1 in round 1 and nothing in round 2, and the
# answer that counts.
LIES: dict[str, Callable[[Owner, str], Answer]] = {
    "asks twice, at another model": lambda own, t: ask(own, t, 1) and ask(own, t, 1, model=ONES),
    "asks twice, at another loss": lambda own, t: (ask(own, t, 1), ask(own, t, 1, 0.5))[1],
    "asks for more than was sold": lambda own, t: ask(own, t, 1, 1.5),
    "asks in a round in which nothing was sold": lambda own, t: ask(own, t, 2, 0.0),
    "asks in a round after the last": lambda own, t: ask(own, t, 3),
    "asks in round 0": lambda own, t: ask(own, t, 0),
    "invents a ticket": lambda own, t: ask(own, "0" * 32, 1),
    "comes with another market's ticket": lambda own, t: ask(own, t, 1, market=OTHER),
    "sends another model than the letter says": lambda own, t: ask(own, t, 1, digest="0" * 64),
    "has another schema": lambda own, t: bid_of(own, schema="0" * 64),
    "wants a record where she protects all of her": lambda own, t: bid_of(own, unit="record"),
    "wants longer gradients": lambda own, t: bid_of(own, clip_norm=2.0),
    "has a clock of another day": lambda own, t: bid_of(own, time=time.time() + 86400),
    "has seen another ledger": lambda own, t: bid_of(own, last={"entry": 1, "chain": "0" * 64}),
    "has seen more of her ledger": lambda own, t: bid_of(own, last={"entry": 9, "chain": "0" * 64}),
    "wants more rounds than its charter": lambda own, t: bid_of(own, 2, first=9_999),
    "wants a step beyond all numbers": lambda own, t: bid_of(own, learning_rate=1e308),
    "wants steps for ever": lambda own, t: bid_of(own, local_steps=10**6),
    "offers the same sale twice": lambda own, t: offer(own, [1.0, 1.0], ticket=t),
    "counts her with fewer records": lambda own, t: offer(own, [1.0, 1.0], records=4),
    "offers more than she bid": lambda own, t: offer(own, [1.0, 1.25]),
    "pays less than her cost": lambda own, t: offer(own, [1.0, 1.0], payments=[1e6, 79.999]),
    "pays what is no number": lambda own, t: offer(own, [1.0, 1.0], payments=[float("nan"), 1e6]),
    "buys a negative loss": lambda own, t: offer(own, [1.0, -1.0]),
    "forgets a payment": lambda own, t: offer(own, [1.0, 1.0], payments=[1e6]),
    "buys a loss too small for her noise": lambda own, t: offer(own, [1.0, 1e-12]),
    "sends a model of another shape": lambda own, t: ask(own, t, 1, model=[[0.0] * 4] * 2),
    "sends a model that is no number": lambda own, t: ask(own, t, 1, model=[[np.nan] * 3] * 2),
    "asks for her data": lambda own, t: own.answer({"ask": "data"}, MARKET),
    "tells her which seed to use": lambda own, t: bid_of(own, seed=1),
    "asks in no words": lambda own, t: own.answer(None, MARKET),
    "thanks for no receipt": lambda own, t: own.answer({"ask": "paid", "receipts": [5]}, MARKET),
    "thanks for a round beyond all numbers": lambda own, t: own.answer(
        {"ask": "paid", "receipts": [{"ticket": t, "round": 2**70, "signature": "00"}]}, MARKET
    ),
    "asks for what is given up": lambda own, t: (own.ledger.give_up(t), ask(own, t, 1))[1],
}


@contextmanager
def no_room(place: Path) -> Iterator[None]:
    """Let no file of this process become longer than the longest there, as if a disk was full."""
    most = max(file.stat().st_size for file in place.rglob("*.sqlite-wal"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# --- the same market in one process -------------------------------------------------------------


def paid_for(own: Path) -> list[tuple[int, int]]:
    """Of each release that was thanked for, which sale of hers it was of, and which round."""
    found, sales = [], 0
    for line in ledger.read(own)["entries"]:
        sales += "losses" in line
        if "round" in line and line.get("countersignature"):
            found.append((sales, line["round"]))
    return found


def gap(found: Row, owners: Sequence[Path]) -> float:
    """Largest difference between the models of a market of processes, the last of these owners, and
    those of ``fedsgd`` in this one.

    The owners' noise comes from the same streams, as their ledgers tell them: who was away has a
    sale more. Privacy losses are of what arrived. Processes weigh by the scales of the noise, which
    are rounded up by a part in 10**12.
    """
    terms = [tomllib.loads((own / "terms.toml").read_text("utf8")) for own in owners]
    assert [one["name"] for one in terms] == found["names"]
    parts = [load(own / "data.npz")[:2] for own in owners]
    features, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    ends = np.cumsum([len(part) for _, part in parts])
    losses, paid = (
        np.array([held[name] for held in found["rounds"]])[:, None] for name in ("loss", "paid")
    )
    held = iter(losses[:, 0])
    places = [
        iter(paid_for(own)[-count:])
        for own, count in zip(owners, (losses[:, 0] > 0).sum(0), strict=True)
    ]

    def noise(scales: Any, shape: Any, rng: np.random.Generator) -> NDArray[np.int64]:
        drawn = np.zeros((len(terms), *shape), dtype=np.int64)
        for row, loss, one, place in zip(drawn, next(held), terms, places, strict=True):
            if loss > 0:
                scale = noise_scale(Terms(**one), float(loss))
                drawer = stream(one["seed"], *next(place))
                row[...] = discrete_laplace(scale, rng=drawer, size=shape)
        return drawn

    with mock.patch.object(fedsgd_module, "gradient_noise", noise):
        trained = fedsgd_module.fedsgd(
            features,
            labels,
            [np.split(np.arange(ends[-1]), ends[:-1])],
            [[one["limit"] for one in terms]],
            np.tile(np.arange(len(terms)), (len(losses), 1, 1)),
            {"OptAggr": least_error_weights},
            np.zeros((2, features.shape[1])),
            rng=np.random.default_rng(0),
            auction=lambda _: Outcome(losses, paid),
            learning_rate=2.0,
            every=1,
            spacing=Terms.spacing,
        )
    models = np.array([held["model"] for held in found["rounds"]])
    return float(np.abs(trained.parameters("OptAggr")[1:, 0] - models).max())


@contextmanager
def small(
    place: Path, number: int = 2, **options: Any
) -> Iterator[tuple[federation.Federation, Path]]:
    """Start a market of processes: two or three owners who have seeds, and a file of test data."""
    rng = np.random.default_rng(5)
    owners = []
    folder = place / "owners"
    for part in (folder, place / "market"):
        part.mkdir(parents=True)
    (schema := folder / "schema.toml").write_text(SCHEMA, "utf8")
    Key(place / "market" / "key")
    all_ = (("ann", "linear", 10, 60), ("bea", "quadratic", 11, 40), ("cem", "linear", 12, 50))
    for name, family, seed, n in all_[:number]:
        terms = TERMS | {"name": name, "family": family, "seed": seed}
        terms |= {"limit": 2.0, "epsilon": 20.0}
        owners.append(federation.prepare(folder, people(n, rng), schema, **terms))
    people(50, rng).to_csv(folder / "test.csv", index=False)
    with federation.Federation(place / "market", schema, owners, **options) as running:
        yield running, folder / "test.csv"


# --- an audit of single receipts ------------------------------------------------------------------


def book_of(rows: Sequence[Row], entries: Sequence[Row] = ()) -> receipts.Book:
    """Return a market's book that has these receipts, and statements, and says what they say."""
    keys = receipts.successions([*rows, *entries])[0]
    kept = []
    found = []
    for row in rows:
        if "statement" in row:
            continue
        where: Row = {"owner": "somebody", "ticket": "", "round": 0}
        with suppress(ValueError):
            one = read_shaped(Receipt, row["receipt"])
            found.append(one)
            where = {"owner": one.owner, "ticket": one.ticket, "round": one.round}
        kept.append(row | where)
    roster = {keys.first(one.key): {"name": one.owner, "records": one.records} for one in found}
    held = []
    for number in range(1, max([one.round for one in found], default=0) + 1):
        row = {"round": number, "loss": [0.0] * len(roster), "paid": [0.0] * len(roster)}
        for one in found:
            if one.round == number:
                place = list(roster).index(keys.first(one.key))
                row["loss"][place], row["paid"][place] = one.loss, one.payment
        held.append(row | {"model": [[0.0]]})
    statements = [row["statement"] for row in rows if "statement" in row]
    charter = found[0].charter if found else ""
    state = {"roster": roster, "done": len(held), "successions": statements, "charter": charter}
    invitation = vars(INVITATIONS[charter]) if found else {}
    made = receipts.Book("book", state | {"model": [[0.0]]}, held, kept, invitation)
    made.digests = [model_digest(np.array(MODEL))] * (len(held) + 1)
    return made


def compared(rows: Sequence[Row], ledgers: dict[str, Any]) -> list[str]:
    """Return what an auditor says of these receipts, with ledgers or alone."""
    if not any("receipt" in row for row in rows):
        return receipts.successions(rows)[1]
    others = ["bea", "cem", "dan", "eve"]
    books = [one for one in ledgers.values() if isinstance(one, dict)]
    entries = [row for book in books for row in book.get("entries", ()) if isinstance(row, dict)]
    if not ledgers:
        others.append("ann")
    cells = audit([book_of(rows, entries)], ledgers or {"nobody": None}, others)
    return [str(one) for one in wrong(cells) if one.owner != "nobody"]
