"""Releases of any kind as columns, and as cells of a grid that was learned from some of them.

A release may be a number, a vector or table of numbers, a label, a truth value, a string, None, a
sequence that mixes them and is not always equally long, or an object with such parts. Here it
becomes a row of columns and a *form*. A column has numbers and, where there is none, a *label*: a
text becomes a label with a gap for each number in it, a label of how these are spelled, and the
numbers. An integer that no float holds is followed by its digits. The form is a text of all that
stands beside the values: types, shapes, lengths, the names of attributes. The row and the form of a
release depend on nothing but the release, so that those of independent runs are independent.

Cells keep what comes back exactly (an *atom*, or a label) apart from all else, and cut the rest at
quantiles, so that nothing depends on the scale of the numbers.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from fractions import Fraction
from numbers import Number
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
Labels = NDArray[np.object_]
NanRule = Literal["refuse", "value"]

ABSENT = "absent"  # the label of a place that a shorter release does not have
UNSEEN = "unseen "  # how the label of an object begins that cannot be looked into; its type follows
MOST_COLUMNS = 4096
# a number is an atom if it comes back so often
_ATOM = 20
# atoms and labels of a column, at most: the most frequent ones
_ATOMS = 256
# all integers up to here are floats
_WHOLE = 2**53
# what stands for -0.0: no other number is between it and 0
_MINUS_ZERO = -5e-324
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")  # in a text
_DIGITS = 15  # that a float holds
_FITTED = re.compile("[^_].*_$")  # names of what an estimator has learned
# texts that are also labels of what is no text
_NO_TEXTS = {"None", "True", "False", "<NA>", "nan", "inf", "-inf", ABSENT}


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Releases as rows.

    Attributes
    ----------
    numbers : array of shape (runs, c)
        Finite, and 0 where there is a label.
    labels : object array of shape (runs, c), or None
        A string where there is no finite number, else None; None if there are numbers throughout.
    forms : object array of shape (runs,)
        Strings.
    """

    numbers: Array
    labels: Labels | None
    forms: Labels

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, which: Any) -> Outcomes:
        labels = None if self.labels is None else self.labels[which]
        return Outcomes(self.numbers[which], labels, self.forms[which])

    def column(self, j: int) -> tuple[Array, Labels | None]:
        """Return the numbers and labels of a column."""
        labels = None if self.labels is None else self.labels[:, j]
        return self.numbers[:, j], labels

    def all_labels(self) -> Labels:
        """Return the labels as an array, also if there are none."""
        if self.labels is not None:
            return self.labels
        return np.full(self.numbers.shape, None, dtype=object)

    def with_columns(self, count: int, form: bool = False) -> Outcomes:
        """Return `count` columns, absent where a release has fewer, and its form as a last one."""
        runs, have = self.numbers.shape
        if have == count and not form:
            return self
        kept = min(have, count)
        numbers = np.zeros((runs, count + form))
        numbers[:, :kept] = self.numbers[:, :kept]
        labels = np.full(numbers.shape, ABSENT, dtype=object)
        labels[:, :kept] = self.all_labels()[:, :kept]
        if form:
            labels[:, -1] = self.forms
        return Outcomes(numbers, labels, self.forms)

    def constant(self) -> bool:
        """Tell whether all releases are the same."""
        labels = self.labels is None or (self.labels == self.labels[:1]).all()
        forms = (self.forms == self.forms[:1]).all()
        return bool(labels and forms and (self.numbers == self.numbers[:1]).all())

    def unseen(self) -> set[str]:
        """Name what cannot be looked at: insides of objects, texts that never come back."""
        texts = [self.forms]
        if self.labels is not None:
            texts.extend(self.labels.T)
        unseen = set()
        for labels in texts:
            counts = _label_counts(labels[labels != None])  # noqa: E711
            for label in counts.index:
                if label.startswith(UNSEEN):
                    unseen.add(f"what is inside {label.removeprefix(UNSEEN)}")
            if (counts == 1).sum() > max(_ATOM, counts.sum() / 2):
                unseen.add("what is said by texts or forms of which hardly any comes back")
        return unseen


class Parts(NamedTuple):
    """Numbers and labels of a release in a row, and its form."""

    values: list[float | str]
    form: str


def stacked(parts: Sequence[Outcomes]) -> Outcomes:
    """Stack outcomes one below the other, with as many columns as the widest."""
    columns = max(part.numbers.shape[1] for part in parts)
    wide = [part.with_columns(columns) for part in parts]
    labels = None
    if any(part.labels is not None for part in wide):
        labels = np.concatenate([part.all_labels() for part in wide])
    numbers = np.concatenate([part.numbers for part in wide])
    forms = np.concatenate([part.forms for part in wide])
    return Outcomes(numbers, labels, forms)


def outcomes(releases: Any, nan: NanRule = "refuse") -> Outcomes:
    """Make columns of releases, one release along the first axis for each run.

    Not-a-number is an error unless `nan` is "value": it then is a label like any other. What an
    array or a frame of releases has in common is no part of the single one: see `in_common`.
    """
    if isinstance(releases, pd.DataFrame | pd.Series):
        releases = _of_frame(releases)
    elif not isinstance(releases, np.ndarray) and hasattr(releases, "__array__"):
        releases = np.asarray(releases)
    parts = None
    if type(releases) is np.ndarray:
        parts = _plain(releases)
    if parts is None:
        parts = _listed(releases)
    numbers = parts.numbers
    if numbers.shape[1] > MOST_COLUMNS:
        raise ValueError(
            f"mechanism gives {numbers.shape[1]} numbers a run: audit at most {MOST_COLUMNS}"
        )
    labels = parts.labels
    special = ~np.isfinite(numbers)
    if special.any():
        labels = parts.all_labels()
        labels[special] = [str(value) for value in numbers[special]]
        numbers[special] = 0.0
        if nan != "value" and (labels == "nan").any():
            raise ValueError(
                'mechanism gave NaN: say nan="value" if it is an answer like any other'
            )
    zero = numbers == 0
    if zero.any():
        numbers[zero & np.signbit(numbers)] = _MINUS_ZERO
    return Outcomes(numbers, labels, parts.forms)


def in_common(batch: Any) -> str:
    """Name what releases of one batch have in common: of arrays and frames all but values."""
    if isinstance(batch, np.ndarray | pd.DataFrame | pd.Series):
        names, form = flat(batch[:0])
        return f"{form} {names}" if names else form
    return _name(batch)


def _of_frame(frame: pd.DataFrame | pd.Series) -> NDArray[Any]:
    """Return the rows of a frame, with their index if that is not just their number."""
    index = frame.index
    one_type = isinstance(frame, pd.Series) or len(set(frame.dtypes)) == 1
    values = frame.to_numpy(dtype=None if one_type else object)
    if isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1:
        return values
    names = index.to_frame().to_numpy(dtype=object)
    return np.column_stack([names, values.astype(object)])


def _plain(array: NDArray[Any]) -> Outcomes | None:
    """Make outcomes of an array of numbers that floats hold, or return None."""
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], axis=-1)
    if array.dtype.kind not in "biuf" or not _held(array):
        return None
    numbers = array.reshape(len(array), -1).astype(float)
    return Outcomes(numbers, None, np.full(len(numbers), "", dtype=object))


def _held(array: NDArray[Any]) -> bool:
    """Tell whether floats hold all numbers of an array."""
    if array.dtype.kind in "iu" and array.size:
        return int(array.min()) >= -_WHOLE and int(array.max()) <= _WHOLE
    return array.dtype.itemsize <= 8


def _listed(releases: Any) -> Outcomes:
    """Make outcomes of releases of any kind, each looked at by itself."""
    rows = list(releases)
    if isinstance(releases, np.ma.MaskedArray):  # the last axis of one forgets what is under a mask
        rows = [releases[k : k + 1] for k in range(len(rows))]
    known = {id(row): flat(row) for row in rows}  # refusals are one object
    parts = [known[id(row)] for row in rows]
    forms = np.full(len(rows), "", dtype=object)
    if not isinstance(releases, np.ndarray) or releases.dtype.kind == "O":
        forms[:] = [part.form for part in parts]
    values = [part.values for part in parts]
    lengths = {len(row) for row in values}
    types = set(map(type, itertools.chain.from_iterable(values)))
    if types == {float} and len(lengths) == 1:
        return Outcomes(np.array(values), None, forms)
    table = np.full((len(rows), max(lengths, default=0)), ABSENT, dtype=object)
    for i, row in enumerate(values):
        table[i, : len(row)] = row
    text = np.array([type(value) is str for value in table.flat], dtype=bool).reshape(table.shape)
    labels = np.full(table.shape, None, dtype=object)
    labels[text] = table[text]
    table[text] = 0.0
    return Outcomes(table.astype(float), labels, forms)


def flat(release: Any) -> Parts:
    """Lay the parts of a release in a row: of an estimator its fitted attributes, of an object all.

    Where values have several types that the form does not tell, the types are labels as well.
    """
    if type(release) is float:  # nearly all are: no need to walk
        return Parts([release], ". of float")
    if isinstance(release, Parts):
        return release
    walk = _walk(release, ())
    if len(set(walk.types)) > 1:
        return Parts([*walk.values, *walk.types], f"{walk.form} of mixed types")
    if walk.types:
        return Parts(walk.values, f"{walk.form} of {walk.types[0]}")
    return Parts(walk.values, walk.form)


class _Walk(NamedTuple):
    """Parts of a release that a walk came upon.

    Attributes
    ----------
    values : list
        Numbers and labels, in order.
    types : list of str
        Types of the values whose type is not in the form.
    form : str
        All that stands beside the values; a dot in place of each.
    """

    values: list[float | str]
    types: list[str]
    form: str


def _walk(release: Any, above: tuple[int, ...]) -> _Walk:
    """Walk through a release that lies inside the objects with the ids `above`."""
    name = _name(release)
    if id(release) in above:  # it holds itself
        return _Walk([], [], f"{name} again")
    if release is None or release is pd.NA or type(release) is bool:
        return _Walk([str(release)], [], ".")
    if type(release) is str:
        return _Walk(_text(release), [], ".")
    value = _value(release)
    if value is not None:
        return _Walk(value, [name], ".")
    if type(release) is np.ndarray and release.dtype.kind in "biuf" and _held(release):
        numbers = release.ravel().astype(float).tolist()
        return _Walk(numbers, [], f"{name} {release.dtype.str} {release.shape}")
    kind, items = _items(release)
    if items is None:
        return _Walk([UNSEEN + type(release).__name__], [], name)
    values: list[float | str] = []
    types: list[str] = []
    forms: list[str] = []
    for item in items:
        inner = _walk(item, (*above, id(release)))
        values += inner.values
        types += inner.types
        forms.append(inner.form)
    return _Walk(values, types, f"{name}{kind}[{_counted(forms)}]")


def _counted(forms: list[str]) -> str:
    """Join the forms of the items of a container; equal neighbours are counted."""
    texts = []
    for form, same in itertools.groupby(forms):
        count = len(list(same))
        if count > 1:
            form = f"{count} {form}"
        texts.append(form)
    return ", ".join(texts)


def _name(thing: Any) -> str:
    """Name the type of a thing, with its module if it is not Python's own."""
    kind = type(thing)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _value(release: Any) -> list[float | str] | None:
    """Return the numbers and labels of what is no container, or None."""
    if isinstance(release, float | np.floating):
        nan = release != release
        if nan or float(release) == release:
            return [float(release)]
    if isinstance(release, int | np.integer):
        return _integer(int(release))
    if isinstance(release, bytes | np.bool_):
        return [str(release)]
    if isinstance(release, np.void | complex | np.complexfloating | Fraction):
        return None
    if isinstance(release, Number | str | np.generic | date | time | timedelta):
        return _text(str(release))
    return None


def _integer(value: int) -> list[float | str]:
    """Return an integer, and its pieces of 48 binary digits if no float holds it."""
    if abs(value) <= _WHOLE:
        return [float(value)]
    rest = abs(value)
    parts: list[float | str] = []
    if rest.bit_length() <= 1023:
        parts.append(float(value))
    else:
        sign = "minus " if value < 0 else ""
        parts.append(f"{sign}{rest.bit_length()} digits")
    while rest:
        parts.append(float(rest & (2**48 - 1)))
        rest >>= 48
    return parts


def _text(text: str) -> list[float | str]:
    """Split a text: what stands around its numbers, their spelling, and the numbers."""
    if text in _NO_TEXTS:
        return [repr(text)]
    numbers = _NUMBER.findall(text)
    if not numbers:
        return [text]
    escaped = text.replace("\\", r"\\").replace("#", r"\#")
    spelling = ",".join(_spelling(number) for number in numbers)
    parts: list[float | str] = [_NUMBER.sub("#", escaped), spelling]
    for number in numbers:
        parts += _written(number)
    return parts


def _spelling(number: str) -> str:
    """Tell how a number is written; empty if it is as Python writes it."""
    if number == repr(float(number)).removesuffix(".0"):
        return ""
    parts = re.split("([eE])", number)
    whole, _, decimals = parts[0].lstrip("-").partition(".")
    zeros = len(whole) - len(whole.lstrip("0"))
    spelling = f"{zeros}.{len(decimals)}"
    if len(parts) > 1:
        _, letter, power = parts
        spelling += power + letter
    return spelling


def _written(number: str) -> list[float | str]:
    """Return a number in a text, and the digits that a float does not hold."""
    value = float(number)
    if repr(value) in (number, f"{number}.0"):
        return [value]
    mantissa = re.split("[eE]", number)[0]
    digits = mantissa.replace("-", "").replace(".", "").lstrip("0")
    if np.isfinite(value):
        digits = digits[_DIGITS:]
    parts: list[float | str] = [value]
    for k in range(0, len(digits), _DIGITS):
        parts.append(float(digits[k : k + _DIGITS]))
    return parts


def _items(release: Any) -> tuple[str, list[Any] | None]:
    """Return what else tells the kind of a container, and its items; None if nobody can tell."""
    if isinstance(release, pd.DataFrame | pd.Series | pd.Index | pd.Categorical):
        return _items_of_pandas(release)
    if isinstance(release, np.ma.MaskedArray):
        return "", [release.data, np.ma.getmaskarray(release), release.fill_value]
    if isinstance(release, np.ndarray):
        dtype: Any = release.dtype
        if dtype.kind in "SU":  # whose length is that of the longest text
            dtype = dtype.kind
        return f" {dtype} {release.shape}", list(np.asarray(release).ravel())
    if isinstance(release, np.void):
        fields = list(release.tolist()) if release.dtype.names else [release.tobytes()]
        return f" {release.dtype}", fields
    if isinstance(release, complex | np.complexfloating):
        return "", [release.real, release.imag]
    if isinstance(release, BaseEstimator):
        fitted = _fitted_attributes(release)
        return f" {list(fitted)}", list(fitted.values())
    if isinstance(release, dict):
        return "", list(release.items())
    if isinstance(release, set | frozenset):
        return "", sorted(release, key=repr)
    if isinstance(release, list | tuple):
        return "", list(release)
    if sparse.issparse(release):
        entries = release.tocoo()
        return "", [release.toarray(), entries.row, entries.col]
    if hasattr(release, "__array__") and not isinstance(release, type):
        return f" {getattr(release, 'dtype', '')}", [np.asarray(release)]
    return "", _state(release)


def _items_of_pandas(release: Any) -> tuple[str, list[Any]]:
    """Return what else tells the kind of an object of pandas, and its items."""
    if isinstance(release, pd.DataFrame):
        columns = [release.iloc[:, j].array for j in range(release.shape[1])]
        return "", [release.columns, release.index, release.attrs, *columns]
    if isinstance(release, pd.Series):
        return "", [release.index, release.name, release.attrs, release.array]
    if isinstance(release, pd.Categorical):
        return f" {release.ordered}", [release.categories, release.codes]
    names = list(release.names)
    if isinstance(release, pd.RangeIndex):
        return f" {[*names, release.start, release.stop, release.step]}", []
    if isinstance(release, pd.MultiIndex):
        return f" {names}", [*release.levels, *release.codes]
    return f" {names}", [release.array]


def _fitted_attributes(model: BaseEstimator) -> dict[str, Any]:
    """Return what an estimator has learned, by name."""
    return {name: value for name, value in sorted(vars(model).items()) if _FITTED.match(name)}


def _state(release: Any) -> list[Any] | None:
    """Return what an object is made again from, or None."""
    if isinstance(release, type | np.random.Generator | np.random.RandomState):
        return None
    try:
        reduced = release.__reduce_ex__(4)
    except Exception:  # what cannot be pickled
        return None
    if isinstance(reduced, str):  # a function is its name
        return None
    padded = (*reduced, None, None, None)
    _, arguments, state, listed, keyed = padded[:5]
    items = [argument for argument in arguments if not isinstance(argument, type)]
    if state is not None:
        items.append(state)
    if not items and listed is None and keyed is None:
        return None
    items.extend(listed or ())
    items.extend(keyed or ())
    return items


@dataclass(frozen=True, eq=False)
class Column:
    """The cells of a column: labels, atoms, intervals between edges, and one for new labels."""

    labels: tuple[str, ...]
    atoms: Array
    edges: Array

    @property
    def count(self) -> int:
        """Number of codes."""
        return len(self.labels) + len(self.atoms) + len(self.edges) + 2

    def codes(self, numbers: Array, labels: NDArray[np.object_] | None) -> Codes:
        """Return the code of each value's cell."""
        codes = len(self.labels) + len(self.atoms) + np.searchsorted(self.edges, numbers, "right")
        if len(self.atoms):
            place = np.minimum(np.searchsorted(self.atoms, numbers), len(self.atoms) - 1)
            codes = np.where(self.atoms[place] == numbers, len(self.labels) + place, codes)
        if labels is not None:
            labelled = labels != None  # noqa: E711
            known = pd.Index(self.labels, dtype=object).get_indexer(labels[labelled])
            codes[labelled] = np.where(known < 0, self.count - 1, known)
        return codes

    def exact(self, code: int) -> str | None:
        """Return the one value of a cell, or None for an interval."""
        if code < len(self.labels):
            return self.labels[code]
        code -= len(self.labels)
        if code < len(self.atoms):
            return number_text(self.atoms[code])
        return None

    def words(self, code: int, name: str) -> str:
        """Say in words that the column `name` is in a cell."""
        value = self.exact(code)
        if value is not None:
            return f"{name} is {value}"
        code -= len(self.labels) + len(self.atoms)
        if code > len(self.edges):
            return f"{name} is a new label"
        if not len(self.edges):
            return f"{name} is another number"
        if code == 0:
            return f"{name} is below {self.edges[0]:.6g}"
        low = self.edges[code - 1]
        if code == len(self.edges):
            return f"{name} is at least {low:.6g}"
        return f"{name} is in [{low:.6g}, {self.edges[code]:.6g})"


def _label_counts(labels: Labels) -> pd.Series:
    """Count how often each label comes, the most frequent first."""
    return pd.Series(labels, dtype=object).value_counts()


def number_text(number: float) -> str:
    """Write a number that stands in a column."""
    if number == _MINUS_ZERO:
        return "-0"
    return f"{number:.6g}"


def learn_columns(seen: Outcomes, bins: int) -> list[Column]:
    """Learn the cells of each column from training runs, up to `bins` intervals beside atoms."""
    columns = []
    for j in range(seen.numbers.shape[1]):
        numbers, labels = seen.column(j)
        kept_labels: tuple[str, ...] = ()
        if labels is not None:
            plain = labels == None  # noqa: E711
            most_frequent = _label_counts(labels[~plain]).index[:_ATOMS]
            kept_labels = tuple(sorted(most_frequent))
            numbers = numbers[plain]
        atoms = _atoms(numbers)
        if len(atoms):
            numbers = numbers[~np.isin(numbers, atoms)]
        edges = np.empty(0)
        if len(numbers) >= bins:
            edges = np.unique(np.quantile(numbers, np.arange(1, bins) / bins))
        columns.append(Column(kept_labels, atoms, edges))
    return columns


def _atoms(numbers: Array) -> Array:
    """Return the numbers that come back, the most frequent ones if they are many, in order."""
    values, counts = np.unique(numbers, return_counts=True)
    often = np.flatnonzero(counts >= _ATOM)
    by_count = often[np.argsort(-counts[often], kind="stable")]
    return np.sort(values[by_count[:_ATOMS]])


def cell_codes(columns: Sequence[Column], seen: Outcomes) -> Codes:
    """Return the codes of the cells of all columns, shape (runs, c)."""
    codes = []
    for j, column in enumerate(columns):
        numbers, labels = seen.column(j)
        codes.append(column.codes(numbers, labels))
    return np.stack(codes, axis=1)
