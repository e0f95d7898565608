"""A rehearsal: an owner's process with records drawn from the schema, and a key and a ledger that
are thrown away.

Markets, doors and SuperNodes are the real ones, and so are her terms; none of her records is opened
and nothing is spent. Each owner has rows of one drawn table, so that there is something to learn.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from hdpm_lib.validation import check_count
from hdpm_owner import ledger
from hdpm_owner.choice import drawn
from hdpm_owner.console import write
from hdpm_owner.owner import Owner
from hdpm_owner.signatures import Key
from hdpm_owner.table import Agreement, Table

MORE = 10  # rows of the drawn table for each record


@contextmanager
def rehearsing(folder: Path, records: int) -> Iterator[Owner]:
    """An owner on the terms and the schema of a folder, with so many drawn records."""
    count = check_count(records, "records", most=10**5)
    with tempfile.TemporaryDirectory() as place:
        stage = Path(place)
        for name in ("schema.toml", "terms.toml"):
            shutil.copyfile(folder / name, stage / name)
        agreed = Agreement.read(stage / "schema.toml")
        ((x, y),), _ = drawn(agreed, [MORE * count], seed=0)
        rows = np.random.default_rng().choice(len(y), count, replace=False)
        write(stage / "data.npz", Table(x[rows], y[rows], [], []).saved(agreed.digest))
        ledger.make(stage, Key(stage / "key").public)
        owner = Owner(stage)
        with closing(owner.ledger):
            yield owner
