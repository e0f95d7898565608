"""A hospital that does not exist, and the letters of a market that buys from it: on these the pages
on owners try the commands.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hdpm_lib.auctions.bids import bids
from hdpm_owner import ledger
from hdpm_owner.charter import Agreed, Charter, Invited, invite
from hdpm_owner.deals import VERSION, model_digest
from hdpm_owner.owner import Owner
from hdpm_owner.signatures import Key, canonical
from hdpm_owner.table import Agreement

SCHEMA = """\
row = "one patient"
label = {name = "ill", classes = ["no", "yes"]}

[[columns]]
name = "age"
low = 18
high = 90

[[columns]]
name = "smokes"
levels = ["no", "yes"]
"""


def hospital(visits: int = 50, patients: int = 40) -> Path:
    """Return a new folder with ``patients.csv``, a row for each visit, and ``schema.toml``."""
    folder = Path(tempfile.mkdtemp())
    rng = np.random.default_rng(0)
    words = np.array(["no", "yes"])
    table = {
        "patient": np.arange(visits) % patients,
        "age": rng.integers(18, 95, visits),
        "smokes": words[rng.integers(2, size=visits)],
        "ill": words[rng.integers(2, size=visits)],
    }
    pd.DataFrame(table).to_csv(folder / "patients.csv", index=False)
    (folder / "schema.toml").write_text(SCHEMA, "utf8")
    return folder


def invitation(folder: Path, market: Key, name: str, *, rehearsal: bool = False) -> Path:
    """Write the charter of a market of five rounds, to which one owner is invited."""
    agreed = Agreement.read(folder / "ann" / "schema.toml")
    invited = Invited("ann", str(ledger.read(folder / "ann")["key"]))
    plan = Agreed(5, local_steps=10, learning_rate=3.0)
    parts = (VERSION, name, market.public, agreed.digest, rehearsal, plan, (invited,), ())
    file = folder / f"{'rehearsal' if rehearsal else 'invitation'}.json"
    file.write_text(canonical(invite(Charter(*parts, time.time()), market)), "ascii")
    return file


def ask(owner: Owner, market: Key, letter: dict[str, Any], model: Any = None) -> dict[str, Any]:
    """Return her answer to a letter that the market signs."""
    here = [one.charter for one in owner.ledger.consents.values() if owner.approved(one.charter)]
    letter = letter | {"version": VERSION, "charter": here[0] if here else ""}
    text = canonical(letter)
    signature = market.sign("letter", text)
    told = {"key": market.public, "text": text, "signature": signature, "model": model}
    return owner.open_letter(told)


def buy(owner: Owner, market: Key, rounds: int) -> dict[str, Any]:
    """Return her bid for so many rounds, each of which is bought at her cost."""
    names = ("unit", "noise", "clip_norm", "spacing")
    wanted: dict[str, Any] = {name: getattr(owner.terms, name) for name in names}
    wanted |= {"local_steps": 10, "learning_rate": 3.0, "first": 0, "time": time.time()}
    letter = {"ask": "bid", "rounds": rounds, "schema": owner.agreed.digest} | wanted
    bid: dict[str, Any] = json.loads(ask(owner, market, letter)["text"])
    cost = float(bids([bid["family"]], bid["rate"], bid["limit"], owner.records).full_valuation[0])
    sale = {"ask": "sale", "ticket": bid["ticket"], "records": owner.records}
    sale |= {"losses": [bid["limit"]] * rounds, "payments": [cost] * rounds}
    if "text" not in (answer := ask(owner, market, sale)):
        raise ValueError(answer["refused"])
    return bid


def release(owner: Owner, market: Key, bid: dict[str, Any], round: int) -> dict[str, Any]:
    """Return her answer in a round, for which the market signs her receipt."""
    model = np.zeros(owner.shape)
    letter = {"ask": "release", "ticket": bid["ticket"], "round": round, "loss": bid["limit"]}
    answer = ask(owner, market, letter | {"digest": model_digest(model)}, model.tolist())
    if "steps" in answer:
        signature = market.sign("owed", answer["text"])
        thanks = {"ticket": bid["ticket"], "round": round, "signature": signature}
        ask(owner, market, {"ask": "paid", "receipts": [thanks]})
    return answer
