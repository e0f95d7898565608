"""Three hospitals that do not exist, as CSV files with gaps, and their schema: ``python make.py
FOLDER``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

SCHEMA = """\
row = "one patient"

[label]
name = "outcome"
classes = ["well", "ill", "dead"]

[[columns]]
name = "age"
low = 18
high = 100

[[columns]]
name = "pressure"
low = 80
high = 220
missing = 120        # what an empty cell becomes; if not said, the middle of the range

[[columns]]
name = "sex"
levels = ["f", "m"]  # an empty cell tells nothing

[[columns]]
name = "ward"
levels = ["heart", "lung", "other"]

# How a file is written: each hospital changes this part in its own copy, for it is in no hash.
[csv]
separator = ","
decimal = "."
encoding = "utf-8"
missing = ["unknown"]    # marks of what is not known, besides the empty cell
person = "patient"       # whose row it is: the first row of each person is a record
"""


def hospital(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Patients, who do worse with age and pressure and in the ward for the heart."""
    age = rng.uniform(20, 95, n).round()
    pressure = rng.normal(135, 22, n).round().clip(80, 220)
    sex = rng.choice(["f", "m"], n)
    ward = rng.choice(["heart", "lung", "other"], n)
    score = (age - 60) / 12 + (pressure - 135) / 15 + 1.5 * (ward == "heart") + rng.logistic(size=n)
    outcome = np.array(["well", "ill", "dead"])[np.digitize(score, [0, 2.5])]
    table = pd.DataFrame(
        {"age": age, "pressure": pressure, "sex": sex, "ward": ward, "outcome": outcome}
    )
    table.loc[rng.random(n) < 0.05, "pressure"] = np.nan
    table.insert(0, "patient", np.arange(n))
    return table


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    rng = np.random.default_rng(7)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schema.toml").write_text(SCHEMA, "utf8")
    for name, n in (("ann", 5000), ("bea", 15_000), ("cem", 30_000), ("test", 4000)):
        hospital(n, rng).to_csv(folder / f"{name}.csv", index=False)
