"""Releases of any kind as columns, and as cells of a grid that was learned from some of them.

A release may be a number, a vector or table of numbers, a label, a truth value, a string, None, a
sequence that mixes them and is not always equally long, or an object with such parts. Here it
becomes a row of columns; where a column has no number it has a *label*. Cells keep what comes back
exactly (an *atom*, or a label) apart from all else, and cut the rest at quantiles, so that nothing
depends on the scale of the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Number
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
NanRule = Literal["refuse", "value"]

ABSENT = "absent"  # the label of a place that a shorter release does not have
UNSEEN = "unseen "  # how the label of an object begins that cannot be looked into; its type follows
_ATOM = 20  # a number is an atom if it comes back so often
_ATOMS = 256  # of a column, the most frequent ones
MOST_COLUMNS = 4096


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

    def __getitem__(self, which: Any) -> Outcomes:
        return Outcomes(self.numbers[which], None if self.labels is None else self.labels[which])

    def with_columns(self, count: int) -> Outcomes:
        """With so many columns: what a release has beyond them is left out, what it lacks is
        absent.
        """
        runs, have = self.numbers.shape
        if have == count:
            return self
        numbers = np.zeros((runs, count))
        labels = np.full((runs, count), None, dtype=object)
        kept = min(have, count)
        numbers[:, :kept] = self.numbers[:, :kept]
        if self.labels is not None:
            labels[:, :kept] = self.labels[:, :kept]
        labels[:, kept:] = ABSENT
        return Outcomes(numbers, labels)


def stacked(parts: Sequence[Outcomes]) -> Outcomes:
    """One below the other, with as many columns as the widest."""
    columns = max(part.numbers.shape[1] for part in parts)
    labels = None
    wide = [part.with_columns(columns) for part in parts]
    if any(part.labels is not None for part in wide):
        none = [np.full(part.numbers.shape, None, dtype=object) for part in wide]
        labels = np.concatenate(
            [n if part.labels is None else part.labels for part, n in zip(wide, none, strict=True)]
        )
    return Outcomes(np.concatenate([part.numbers for part in wide]), labels)


def outcomes(releases: Any, nan: NanRule = "refuse") -> Outcomes:
    """The columns of releases, one along the first axis for each run.

    Not-a-number is an error unless `nan` is "value": it then is a label like any other.
    """
    if isinstance(releases, pd.DataFrame | pd.Series):
        releases = releases.to_numpy()
    plain = isinstance(releases, np.ndarray) and releases.dtype.kind in "biufc"
    array = releases if plain else _array(list(releases))
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], axis=-1)
    rows = array.reshape(len(array), -1)
    if rows.shape[1] > MOST_COLUMNS:
        raise ValueError(
            f"mechanism gives {rows.shape[1]} numbers a run: audit at most {MOST_COLUMNS} of them"
        )
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
    """Releases of one kind as an array of numbers, all others as an array of objects in rows and
    columns.
    """
    try:
        found = np.asarray(rows)
        if found.dtype.kind in "biufc":
            return found
    except (ValueError, TypeError, OverflowError):  # releases of different lengths
        pass
    parts = [flat(row) for row in rows]
    table = np.full((len(rows), max(map(len, parts), default=0)), ABSENT, dtype=object)
    for i, row in enumerate(parts):
        table[i, : len(row)] = row
    return table


def flat(release: Any, above: tuple[int, ...] = ()) -> list[Any]:
    """The parts of a release in a row: of an estimator its fitted attributes, of any other object
    all of its state.
    """
    own = id(release)
    if own in above:  # it holds itself
        return []
    if isinstance(release, np.ndarray) and release.dtype.names:
        release = [release[name] for name in release.dtype.names]
    elif isinstance(release, np.ndarray | pd.Series | pd.DataFrame):
        array = np.asarray(release)
        if array.dtype.kind not in "Oc":
            return list(array.ravel())
        release = list(array.ravel())
    elif sparse.issparse(release):
        release = release.toarray()
    elif isinstance(release, complex | np.complexfloating):
        return [release.real, release.imag]
    elif (
        release is None
        or release is pd.NA
        or isinstance(release, Number | np.generic | Decimal | str | bytes)
    ):
        return [release]
    elif isinstance(release, BaseEstimator):
        release = [
            value
            for name, value in sorted(vars(release).items())
            if name[-1] == "_" and name[0] != "_"
        ]
    elif isinstance(release, dict):
        release = list(release.items())
    elif isinstance(release, set | frozenset):
        release = sorted(release, key=repr)
    elif not isinstance(release, list | tuple):
        try:
            state = release.__getstate__()
        except TypeError:  # what cannot be pickled
            state = None
        if not state or isinstance(release, type | np.random.Generator | np.random.RandomState):
            return [UNSEEN + type(release).__name__]
        return flat(state, (*above, own))
    return [part for item in release for part in flat(item, (*above, own))]


def _mixed(rows: NDArray[np.object_]) -> tuple[Array, NDArray[np.object_]]:
    """Numbers and labels of a table of objects."""
    numbers = np.zeros(rows.shape)
    labels = np.full(rows.shape, None, dtype=object)
    for place, value in np.ndenumerate(rows):
        if isinstance(value, Number | Decimal) and not isinstance(value, bool):
            numbers[place] = float(value)  # type: ignore[arg-type]
            if not np.isfinite(numbers[place]):
                labels[place] = str(value)
        else:
            labels[place] = str(value)
    return numbers, labels


@dataclass(frozen=True)
class Column:
    """The cells of a column: labels, then atoms, then intervals between `edges`; the last code is
    for new labels.
    """

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
            odd = labels != None  # noqa: E711
            known = pd.Index(self.labels, dtype=object).get_indexer(labels[odd])
            found[odd] = np.where(known < 0, self.count - 1, known)
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
        return (
            f"{name} is at least {low:.6g}"
            if high == np.inf
            else f"{name} is in [{low:.6g}, {high:.6g})"
        )


def learn_columns(seen: Outcomes, bins: int) -> list[Column]:
    """Cells for each column of training runs, with up to `bins` intervals between the atoms."""
    found = []
    for j in range(seen.numbers.shape[1]):
        numbers = seen.numbers[:, j]
        labels = ()
        if seen.labels is not None:
            label = seen.labels[:, j]
            labels = tuple(sorted(set(label[label != None])))[:_ATOMS]  # noqa: E711
            numbers = numbers[label == None]  # noqa: E711
        values, counts = np.unique(numbers, return_counts=True)
        often = np.flatnonzero(counts >= _ATOM)
        atoms = np.sort(values[often[np.argsort(-counts[often], kind="stable")][:_ATOMS]])
        rest = numbers[~np.isin(numbers, atoms)] if len(atoms) else numbers
        edges = (
            np.unique(np.quantile(rest, np.arange(1, bins) / bins))
            if len(rest) >= bins
            else np.empty(0)
        )
        found.append(Column(labels, atoms, edges))
    return found


def cells(columns: Sequence[Column], seen: Outcomes) -> Codes:
    """Codes of the cells of all columns, shape (runs, c)."""
    runs = range(seen.numbers.shape[1])
    labels = [None if seen.labels is None else seen.labels[:, j] for j in runs]
    return np.stack([columns[j].codes(seen.numbers[:, j], labels[j]) for j in runs], axis=1)
