"""Make nslkdd-standin.json.gz, the coarse statistics of NSL-KDD that the stand-in is drawn from.

Run once, with the real files: HDPM_DATA_DIR=/folder/with/KDDTrain+.txt python -m
hdpm_book.nsl_kdd_statistics

The result is meant to be statistics, not data. So nothing in it describes fewer than ten rows:

* a cell is one (attack, flag, service) of 100 rows or more, else one (attack, flag) of 40 or more,
  else what is left of the attack; attacks of fewer than ten rows share one cell of their class, and
  if that is still under ten it joins the smallest cell of the class;
* (protocol, service, flag) combinations of fewer than ten rows of a cell are counted together (and
  redrawn at random);
* a numeric column is cut into runs of neighbouring values, each of ten rows or more, and a run is
  published as its row count and its mean, rounded to two significant digits (three if all its
  values are the same). Runs are small at the top (10, 10, 20, 40, ... rows, up to a sixteenth of
  the cell), because that is where tails are; a single frequent value is a run by itself.

The names of the services (with the protocol each mostly uses) and of the flags are the data set's
public schema.
"""

from __future__ import annotations

import gzip
import json
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd

from hdpm_book import datasets
from hdpm_book.standins import CATEGORICAL, LOG_SCALE, MIN_ROWS

OUT = Path(str(resources.files("hdpm_book.data") / "nslkdd-standin.json.gz"))


def runs_of(values: pd.Series) -> list[list[float]]:
    """Return runs [count, mean, several] of neighbouring values, upwards; every count is MIN_ROWS
    or more.
    """
    runs: list[list[tuple[float, int]]] = []
    # rows in the run being filled, rows in the runs above it
    held = 0
    taken = 0
    for value, count in values.value_counts().sort_index(ascending=False).items():
        least = max(MIN_ROWS, min(taken, len(values) // 16))
        if (
            not runs
            or held >= least
            or (count >= max(least, len(values) // 16) and held >= MIN_ROWS)
        ):
            taken += held
            runs.append([])
            held = 0
        runs[-1].append((float(value), int(count)))
        held += count
    if held < MIN_ROWS and len(runs) > 1:
        runs[-2:] = [runs[-2] + runs[-1]]
    log = values.name in LOG_SCALE
    published = []
    for run in reversed(runs):
        value, count = np.array(run).T
        mean = (
            np.expm1(np.average(np.log1p(value), weights=count))
            if log
            else np.average(value, weights=count)
        )
        several = len(run) > 1
        published.append([int(count.sum()), float(f"{mean:.{2 if several else 3}g}"), int(several)])
    return published


def describe(rows: pd.DataFrame, label: str, attack: str) -> dict[str, object]:
    """Return one cell of the published file."""
    combos = rows.value_counts(list(CATEGORICAL))
    frequent = combos[combos >= MIN_ROWS].sort_index()
    rare = int(combos.sum() - frequent.sum())
    listed = [[*key, int(count)] for key, count in frequent.items()]
    if rare < MIN_ROWS and listed:
        max(listed, key=lambda combo: combo[3])[3] += rare
        rare = 0
    numeric = {
        name: runs_of(rows[name]) for name in datasets.NSL_KDD_COLUMNS if name not in CATEGORICAL
    }
    numeric = {name: runs for name, runs in numeric.items() if runs != [[len(rows), 0.0, 0]]}
    return {
        "class": label,
        "attack": attack,
        "n": len(rows),
        "combos": listed,
        "other": rare,
        "numeric": numeric,
    }


def cells_of(frame: pd.DataFrame, label: str) -> list[dict[str, object]]:
    """Return all cells of one class, whose rows are `frame`."""
    size = frame.groupby("attack")["attack"].transform("size")
    frame = frame.assign(attack=frame["attack"].where(size >= MIN_ROWS, f"rare {label}"))
    sizes = frame["attack"].value_counts()
    if sizes.iloc[-1] < MIN_ROWS and len(sizes) > 1:  # the rare ones together are still too few
        frame["attack"] = frame["attack"].replace(
            sizes.index[-1], f"{sizes.index[-2]} and {sizes.index[-1]}"
        )
        frame["attack"] = frame["attack"].replace(
            sizes.index[-2], f"{sizes.index[-2]} and {sizes.index[-1]}"
        )
    cells = []
    for attack, rest in frame.groupby("attack"):
        pieces: list[pd.DataFrame] = []
        for keys, least in ((["flag", "service"], 100), (["flag"], 40)):
            for _, group in rest.groupby(keys):
                if len(group) >= least:
                    pieces.append(group)
                    rest = rest.drop(group.index)
        if len(rest) >= MIN_ROWS:
            pieces.append(rest)
        elif len(rest):
            smallest = min(range(len(pieces)), key=lambda i: len(pieces[i]))
            pieces[smallest] = pd.concat([pieces[smallest], rest])
        cells += [describe(piece, label, str(attack)) for piece in pieces]
    return cells


def statistics() -> dict[str, object]:
    """Return all that is published, from the real files."""
    result: dict[str, object] = {}
    for part in ("train", "test"):
        frame = datasets.nsl_kdd_table(part)
        if part == "train":
            usual = frame.groupby("service")["protocol_type"].agg(lambda column: column.mode()[0])
            result |= {
                "columns": list(datasets.NSL_KDD_COLUMNS),
                "protocol_of": usual.sort_index().to_dict(),
            }
            result["flags"] = sorted(frame["flag"].unique())
        label = frame["attack"].map(datasets.ATTACK_CLASS)
        result[part] = [
            cell
            for name in datasets.NSL_KDD_CLASSES
            for cell in cells_of(frame[label == name], name)
        ]
    return result


def main() -> None:
    """Write the file and say how large it is."""
    text = json.dumps(statistics(), separators=(",", ":"))
    OUT.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
    print(f"{OUT.name}: {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
