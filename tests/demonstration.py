"""Three owners on this machine, NSL-KDD, and a record protected: ``make federation``."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import federation
from hdpm_lib.learners.gradients import accuracy
from hdpm_owner.signatures import Key
from hdpm_owner.table import Agreement, read_table

SELLERS: tuple[dict[str, Any], ...] = (
    {"name": "ann", "family": "linear", "rate": 0.6},
    {"name": "bea", "family": "quadratic", "rate": 0.9},
    {"name": "cem", "family": "square root", "rate": 1.2},
)
SIZES = (50_000, 45_000, 30_000)  # connections of NSL-KDD
PROMISE = {"epsilon": 8.0, "delta": 1e-5}


def tables(folder: Path, seed: int = 0) -> tuple[list[pd.DataFrame], Path, Path]:
    """NSL-KDD for three owners, the schema, and a file of test data. The question: is a connection
    an attack?
    """
    from hdpm_book import datasets, standins

    train = datasets.nsl_kdd()
    test = datasets.nsl_kdd("test")
    folder.mkdir(parents=True, exist_ok=True)
    lines = ['row = "one connection"', "[label]", 'name = "kind"', 'classes = ["normal", "attack"]']
    told = standins.nsl_kdd_statistics()
    levels = (set(told["protocol_of"].values()), told["protocol_of"], told["flags"])
    known = dict(zip(standins.CATEGORICAL, levels, strict=True))
    for name in datasets.NSL_KDD_COLUMNS:
        column = train.features[name]
        lines += ["[[columns]]", f"name = {json.dumps(name)}"]
        if name in standins.CATEGORICAL:
            lines += [f"levels = {json.dumps(sorted(known[name]))}"]
        else:
            low, high = float(column.min()), float(column.max())
            lines += [f"low = {low}", f"high = {high if high > low else low + 1}"]
    (folder / "schema.toml").write_text("\n".join(lines) + "\n", "utf8")

    def labelled(part: Any) -> pd.DataFrame:
        return part.features.assign(kind=np.where(part.labels == "Normal", "normal", "attack"))

    known_levels = labelled(test)
    for name in standins.CATEGORICAL:  # a service that no owner has
        known_levels[name] = known_levels[name].where(known_levels[name].isin(list(known[name])))
    known_levels.to_csv(folder / "test.csv", index=False)
    rows = np.random.default_rng(seed).permutation(len(train.labels))
    parts = np.split(rows, np.cumsum(SIZES))[: len(SIZES)]
    frames = [labelled(train).iloc[part] for part in parts]
    return frames, folder / "schema.toml", folder / "test.csv"


def watch(running: federation.Federation, run: Path, test: Path) -> None:
    """Print the rounds of a market as they come."""
    data = read_table(test, Agreement.read(running.schema))
    shown = 0
    print(f"{'round':>5}  {'accuracy':>8}  {'paid':>10}  {'seconds':>7}  who arrived")
    ended = False
    while not ended:
        ended = (run / "found.json").exists()
        for held in running.rounds(run)[shown:]:
            found = float(accuracy(np.array(held["model"]), data.features, data.labels))
            here = f"{sum(loss > 0 for loss in held['loss'])} of {len(held['loss'])}"
            paid = f"{sum(held['paid']):>10.2f}  {held['seconds']:>7.1f}"
            print(f"{held['round']:>5}  {found:>8.3f}  {paid}  {here}", flush=True)
            shown += 1
        time.sleep(0.5)
    for absence in running.result(run)["absences"]:
        print(f"without {absence['name']} after round {absence['round']}: {absence['reason']}")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--budget", type=float, default=400_000.0, help="money for each round")
    parser.add_argument(
        "--secure", action="store_true", help="TLS, and SuperNodes with registered keys"
    )
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the processes end with this one
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if not federation.apart():
            print("SuperNodes run as the user to whom the data belong: what is shipped could read")
            print("them. Give an owner a user of her own, as root does who starts this.")
        parts, schema, test = tables(folder / "tables")
        (folder / "market").mkdir()
        Key(folder / "market" / "key")
        owners = [
            federation.prepare(folder / "owners", part, schema, **PROMISE, **one)
            for part, one in zip(parts, SELLERS, strict=True)
        ]
        with federation.Federation(
            folder / "market", schema, owners, secure=given.secure
        ) as running:
            plan = {"rounds": given.rounds, "budget": given.budget, "learning_rate": 3.0}
            watch(running, running.start_run(test, local_steps=3, **plan), test)


if __name__ == "__main__":
    main()
