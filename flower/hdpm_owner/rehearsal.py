"""A rehearsal: an owner's process with records drawn from the schema, and a ledger that is thrown
away.

Markets, doors and SuperNodes are the real ones, and so are her terms and her key; none of her
records is opened and nothing is spent. What is signed has the hash of a charter that says that it
is a rehearsal: no market takes it for more, and no rehearsal gets what is for a market. Each owner
has rows of one drawn table, so that there is something to learn.
"""

from __future__ import annotations

import logging
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
from hdpm_owner.table import Agreement, Table

MORE = 10  # rows of the drawn table for each record


@contextmanager
def rehearsing(folder: Path, records: int) -> Iterator[Owner]:
    """Make an owner on the terms and the schema of a folder, with so many drawn records."""
    count = check_count(records, "records", most=10**5)
    # in her folder: the stage has her key
    with tempfile.TemporaryDirectory(dir=folder, prefix="rehearsal-") as place:
        stage = Path(place)
        for name in ("schema.toml", "terms.toml"):
            shutil.copyfile(folder / name, stage / name)
        agreed = Agreement.read(stage / "schema.toml")
        ((x, y),), _ = drawn(agreed, [MORE * count], seed=0)
        rows = np.random.default_rng().choice(len(y), count, replace=False)
        write(stage / "data.npz", Table(x[rows], y[rows], [], []).saved(agreed.digest))
        joined = ledger.copy_consents(folder, stage)
        owner = Owner(stage, rehearses=True)
        logging.info("rehearses for %s", ", ".join(joined) or "nobody: join a rehearsal first")
        with closing(owner.ledger):
            yield owner
