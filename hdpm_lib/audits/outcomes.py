"""Releases of any kind as columns, and as cells of a grid that was learned from some of them.

A release may be a number, a vector or table of numbers, a label, a truth value, a string, None, a sequence that mixes
them and is not always equally long, or a fitted estimator. Here it becomes a row of columns; where a column has no
number it has a *label*. Cells keep what comes back exactly (an *atom*, or a label) apart from all else, and cut the
rest at quantiles, so that nothing depends on the scale of the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
NanRule = Literal["refuse", "value"]

ABSENT = "absent"  # the label of a place that a shorter release does not have
_ATOM = 20  # a number is an atom if it comes back so often
_ATOMS = 256  # of a column, the most frequent ones
_MOST_COLUMNS = 4096


@dataclass(frozen=True)
class Outcomes:
    """Releases as rows.

    Attributes
    ----------
    numbers : array of shape (runs, c)
        Finite, and 0 where there is a label.
    labels : object array of shape (runs, c), or None
        A string where there is no finite number, else None; None if there are numbers throughout.
    """

    numbers: Array
    labels: NDArray[np.object_] | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def with_columns(self, count: int) -> Outcomes:
        """With so many columns: what a release has beyond them is left out, what it lacks is absent."""
        runs, have = self.numbers.shape
        if have == count:
            return self
        numbers, labels = np.zeros((runs, count)), np.full((runs, count), None, dtype=object)
        kept = min(have, count)
        numbers[:, :kept] = self.numbers[:, :kept]
        if self.labels is not None:
            labels[:, :kept] = self.labels[:, :kept]
        labels[:, kept:] = ABSENT
        return Outcomes(numbers, labels)


def outcomes(releases: Any, nan: NanRule = "refuse") -> Outcomes:
    """The columns of releases, one along the first axis for each run.

    Not-a-number is an error unless `nan` is "value": it then is a label like any other. An output that NumPy cannot
    hold as numbers, labels or sequences of these is an error that names its type.
    """
    if isinstance(releases, pd.DataFrame | pd.Series):
        releases = releases.to_numpy()
    plain = isinstance(releases, np.ndarray) and releases.dtype.kind in "biufc"
    array = releases if plain else _array(list(releases))
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], axis=-1)
    rows = array.reshape(len(array), -1)
    if rows.shape[1] > _MOST_COLUMNS:
        raise ValueError(f"mechanism gives {rows.shape[1]} numbers a run: audit at most {_MOST_COLUMNS} of them")
    if array.dtype.kind in "biuf":
        numbers = rows.astype(float)
        special = ~np.isfinite(numbers)
        if not special.any():
            return Outcomes(numbers)
        labels = np.full(rows.shape, None, dtype=object)
        labels[special] = [str(value) for value in numbers[special]]
    else:
        numbers, labels = _mixed(rows)
    if nan != "value" and (labels == "nan").any():
        raise ValueError('mechanism gave NaN: say nan="value" if it is an answer like any other')
    return Outcomes(np.where(labels == None, numbers, 0.0), labels)  # noqa: E711


def _array(rows: list[Any]) -> NDArray[Any]:
    """Releases of one kind as an array of numbers, all others as an array of objects in rows and columns."""
    try:
        found = np.asarray(rows)
        if found.dtype.kind in "biufc":
            return found
    except (ValueError, TypeError, OverflowError):  # releases of different lengths
        pass
    flat = [_flat(row) for row in rows]
    table = np.full((len(rows), max(map(len, flat), default=0)), ABSENT, dtype=object)
    for i, row in enumerate(flat):
        table[i, : len(row)] = row
    return table


def _flat(release: Any) -> list[Any]:
    """The parts of one release in a row."""
    if isinstance(release, np.ndarray | pd.Series):
        return list(np.asarray(release).ravel())
    if isinstance(release, dict):
        release = list(release.values())
    if isinstance(release, list | tuple):
        return [part for item in release for part in _flat(item)]
    return [release]


def _mixed(rows: NDArray[np.object_]) -> tuple[Array, NDArray[np.object_]]:
    """Numbers and labels of a table of objects."""
    numbers, labels = np.zeros(rows.shape), np.full(rows.shape, None, dtype=object)
    for place, value in np.ndenumerate(rows):
        if isinstance(value, bool | np.bool_ | str | bytes) or value is None or value is pd.NA:
            labels[place] = str(value)
        elif isinstance(value, int | float | np.number) and not isinstance(value, np.complexfloating):
            number = float(value)
            numbers[place] = number
            if not np.isfinite(number):
                labels[place] = str(number)
        else:
            raise TypeError(f"mechanism gave a {type(value).__name__}, which is no number, label or list of them")
    return numbers, labels


@dataclass(frozen=True)
class Column:
    """The cells of a column: labels, then atoms, then intervals between `edges`; the last code is for new labels."""

    labels: tuple[str, ...]
    atoms: Array
    edges: Array

    @property
    def count(self) -> int:
        """Number of codes."""
        return len(self.labels) + len(self.atoms) + len(self.edges) + 2

    def codes(self, numbers: Array, labels: NDArray[np.object_] | None) -> Codes:
        """The cell of each value."""
        found = len(self.labels) + len(self.atoms) + np.searchsorted(self.edges, numbers, "right")
        if len(self.atoms):
            place = np.minimum(np.searchsorted(self.atoms, numbers), len(self.atoms) - 1)
            found = np.where(self.atoms[place] == numbers, len(self.labels) + place, found)
        if labels is not None:
            for value in pd.unique(labels[labels != None]):  # noqa: E711
                code = self.labels.index(value) if value in self.labels else self.count - 1
                found = np.where(labels == value, code, found)
        return found

    def exact(self, code: int) -> str | None:
        """The one value of a cell, or None for an interval."""
        if code < len(self.labels):
            return self.labels[code]
        code -= len(self.labels)
        return f"{self.atoms[code]:.6g}" if code < len(self.atoms) else None

    def words(self, code: int, name: str) -> str:
        """What it means that the column `name` is in a cell."""
        if (value := self.exact(code)) is not None:
            return f"{name} is {value}"
        code -= len(self.labels) + len(self.atoms)
        if code > len(self.edges):
            return f"{name} is a new label"
        low, high = np.concatenate([[-np.inf], self.edges, [np.inf]])[code : code + 2]
        if low == -np.inf:
            return f"{name} is below {high:.6g}" if high < np.inf else f"{name} is another number"
        return f"{name} is at least {low:.6g}" if high == np.inf else f"{name} is in [{low:.6g}, {high:.6g})"


def learn_columns(seen: Outcomes, bins: int) -> list[Column]:
    """Cells for each column of training runs, with up to `bins` intervals between the atoms."""
    found = []
    for j in range(seen.numbers.shape[1]):
        numbers, labels = seen.numbers[:, j], ()
        if seen.labels is not None:
            label = seen.labels[:, j]
            labels = tuple(sorted(set(label[label != None])))[:_ATOMS]  # noqa: E711
            numbers = numbers[label == None]  # noqa: E711
        values, counts = np.unique(numbers, return_counts=True)
        often = np.flatnonzero(counts >= _ATOM)
        atoms = np.sort(values[often[np.argsort(-counts[often], kind="stable")][:_ATOMS]])
        rest = numbers[~np.isin(numbers, atoms)] if len(atoms) else numbers
        edges = np.unique(np.quantile(rest, np.arange(1, bins) / bins)) if len(rest) >= bins else np.empty(0)
        found.append(Column(labels, atoms, edges))
    return found


def cells(columns: Sequence[Column], seen: Outcomes) -> Codes:
    """Codes of the cells of all columns, shape (runs, c)."""
    runs = range(seen.numbers.shape[1])
    labels = [None if seen.labels is None else seen.labels[:, j] for j in runs]
    return np.stack([columns[j].codes(seen.numbers[:, j], labels[j]) for j in runs], axis=1)
