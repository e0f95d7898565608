"""A rehearsal: an owner's process with a table drawn from the schema, and a key and a ledger that
are thrown away.

Markets, doors and SuperNodes are the real ones, and so are her terms; none of her records is opened
and nothing is spent. The classes of a drawn table depend on its columns by a rule that follows from
the schema, the same for all owners, so that there is something to learn.
"""

from __future__ import annotations

import csv
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from hdpm_lib.schema import Number
from hdpm_lib.validation import check_count
from hdpm_owner import ledger
from hdpm_owner.console import write
from hdpm_owner.owner import Owner
from hdpm_owner.signatures import Key
from hdpm_owner.table import Agreement, read_table

FACTOR = 4.0  # of the coefficients of the rule: classes depend on the columns, and on chance


def draw(file: Path, agreed: Agreement, n: int, rng: np.random.Generator) -> None:
    """Write a table of so many rows, in the form that the schema declares, with every value equally
    likely.
    """
    cells = []
    codes = []
    for column in agreed.schema.columns:
        if isinstance(column, Number):
            values = rng.uniform(column.low, column.high, n)
            cells.append(
                [str(value).replace(".", agreed.form.decimal) for value in values.tolist()]
            )
        else:
            values = np.array(column.levels, dtype=object)[rng.integers(len(column.levels), size=n)]
            cells.append(values.tolist())
        codes.append(column.encode(values)[0])
    x = np.column_stack(codes)
    rule = np.random.default_rng(int(agreed.digest, 16))
    scores = x @ rule.normal(0, FACTOR, (x.shape[1], len(agreed.classes)))
    labels = (scores + rng.gumbel(size=scores.shape)).argmax(1)
    names = [*(column.name for column in agreed.schema.columns), agreed.label]
    cells.append([agreed.classes[k] for k in labels])
    if agreed.form.person:
        names.append(agreed.form.person)
        cells.append([str(k) for k in range(n)])
    with file.open("w", encoding=agreed.form.encoding, newline="") as stream:
        writer = csv.writer(stream, delimiter=agreed.form.separator)
        writer.writerow(names)
        writer.writerows(zip(*cells, strict=True))


@contextmanager
def rehearsing(folder: Path, records: int) -> Iterator[Owner]:
    """An owner on the terms and the schema of a folder, who has drawn so many records."""
    count = check_count(records, "records", most=10**6)
    with tempfile.TemporaryDirectory() as place:
        drawn = Path(place)
        for name in ("schema.toml", "terms.toml"):
            shutil.copyfile(folder / name, drawn / name)
        agreed = Agreement.read(drawn / "schema.toml")
        draw(drawn / "table.csv", agreed, count, np.random.default_rng())
        table = read_table(drawn / "table.csv", agreed)
        write(drawn / "data.npz", table.saved(agreed.digest))
        ledger.make(drawn, Key(drawn / "key").public)
        owner = Owner(drawn)
        try:
            yield owner
        finally:
            owner.ledger.close()
