"""What a market has learned: coefficients with the names and in the units of the table, and
predictions for rows of a table.

The score of a class is a sum: a constant, for each column of numbers its value times a coefficient,
for each column of categories the coefficient of its level. The class of the largest score is
predicted, with the probability that its exponential has among those of all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from hdpm_lib.schema import Number
from hdpm_owner.charter import read_invitation
from hdpm_owner.receipts import rounds, state
from hdpm_owner.table import Agreement, read_features

Array = NDArray[np.float64]


def trained(folder: Path) -> tuple[Agreement, Array]:
    """Return the schema of a market's folder, and its last model of shape (classes, features)."""
    agreed = Agreement.read(folder / "schema.toml")
    if not (held := rounds(folder)):
        raise ValueError(f"the market in {folder} has held no round yet")
    invitation = read_invitation(folder / "invitation.json")
    if state(folder).get("charter") != invitation.hash:
        raise ValueError(
            f"the market in {folder} was held under another charter than the one there"
        )
    if agreed.digest != invitation.read().schema:
        raise ValueError(
            f"the model in {folder} was trained under another schema than the schema.toml there:"
            " put the one back on which all agreed"
        )
    w = np.array(held[-1]["model"], dtype=float)
    if w.shape != (shape := (len(agreed.classes), agreed.features)):
        raise ValueError(
            f"the model in {folder} has shape {w.shape}, and its schema.toml wants {shape}"
        )
    return agreed, w


def coefficients(agreed: Agreement, w: Array) -> list[dict[str, Any]]:
    """Return a row for the constant, each column of numbers, each level; a coefficient for each
    class.
    """
    constant = w[:, -1].copy()
    found: list[tuple[str, Any, Any]] = []
    place = 0
    for column in agreed.schema.columns:
        part = w[:, place : place + len(column.names)]
        place += len(column.names)
        if isinstance(column, Number):
            slope = part[:, 0] / (column.high - column.low)
            constant -= slope * (column.low / 2 + column.high / 2)
            found.append((column.name, "", slope))
        else:
            found += [
                (column.name, level, part @ corner)
                for level, corner in zip(column.levels, column.corners, strict=True)
            ]
    rows = [("constant", "", constant), *found]
    return [
        {"column": name, "level": level} | dict(zip(agreed.classes, told.tolist(), strict=True))
        for name, level, told in rows
    ]


def predictions(agreed: Agreement, w: Array, table: Path) -> list[dict[str, Any]]:
    """For each row of a table where it stands, its class, and the probabilities of all classes."""
    features, places = read_features(table, agreed)
    likely = softmax(features @ w.T, axis=1)
    names = [f"probability of {name}" for name in agreed.classes]
    return [
        {"row": place, agreed.label: agreed.classes[int(np.argmax(each))]}
        | dict(zip(names, each.tolist(), strict=True))
        for place, each in zip(places, likely, strict=True)
    ]
