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
from collections.abc import Callable, Sequence
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
        """Numbers and labels of a column."""
        return self.numbers[:, j], None if self.labels is None else self.labels[:, j]

    def all_labels(self) -> Labels:
        """The labels, also if there are none."""
        if self.labels is not None:
            return self.labels
        return np.full(self.numbers.shape, None, dtype=object)

    def with_columns(self, count: int, form: bool = False) -> Outcomes:
        """With so many columns, absent where a release has fewer, and its form as a last one."""
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
        """Whether all releases are the same."""
        labels = self.labels is None or (self.labels == self.labels[:1]).all()
        forms = (self.forms == self.forms[:1]).all()
        return bool(labels and forms and (self.numbers == self.numbers[:1]).all())

    def unseen(self) -> set[str]:
        """What cannot be looked at, in words: insides of objects, texts that never come back."""
        found = set()
        columns = [] if self.labels is None else list(self.labels.T)
        for labels in (*columns, self.forms):
            often = _often(labels[labels != None])  # noqa: E711
            inside = [label for label in often.index if label.startswith(UNSEEN)]
            found |= {f"what is inside {label.removeprefix(UNSEEN)}" for label in inside}
            if (often == 1).sum() > max(_ATOM, often.sum() / 2):
                found.add("what is said by texts or forms of which hardly any comes back")
        return found


class Parts(NamedTuple):
    """Numbers and labels of a release in a row, and its form."""

    values: list[float | str]
    form: str


def stacked(parts: Sequence[Outcomes]) -> Outcomes:
    """One below the other, with as many columns as the widest."""
    columns = max(part.numbers.shape[1] for part in parts)
    wide = [part.with_columns(columns) for part in parts]
    labels = None
    if any(part.labels is not None for part in wide):
        labels = np.concatenate([part.all_labels() for part in wide])
    numbers = np.concatenate([part.numbers for part in wide])
    return Outcomes(numbers, labels, np.concatenate([part.forms for part in wide]))


def outcomes(releases: Any, nan: NanRule = "refuse") -> Outcomes:
    """The columns of releases, one along the first axis for each run.

    Not-a-number is an error unless `nan` is "value": it then is a label like any other. What an
    array or a frame of releases has in common is no part of the single one: see `in_common`.
    """
    if isinstance(releases, pd.DataFrame | pd.Series):
        releases = _of_frame(releases)
    elif not isinstance(releases, np.ndarray) and hasattr(releases, "__array__"):
        releases = np.asarray(releases)
    found = _plain(releases) if type(releases) is np.ndarray else None
    if found is None:
        found = _listed(releases)
    numbers = found.numbers
    if numbers.shape[1] > MOST_COLUMNS:
        raise ValueError(
            f"mechanism gives {numbers.shape[1]} numbers a run: audit at most {MOST_COLUMNS}"
        )
    labels = found.labels
    special = ~np.isfinite(numbers)
    if special.any():
        labels = found.all_labels()
        labels[special] = [str(value) for value in numbers[special]]
        numbers[special] = 0.0
        if nan != "value" and (labels == "nan").any():
            raise ValueError(
                'mechanism gave NaN: say nan="value" if it is an answer like any other'
            )
    zero = numbers == 0
    if zero.any():
        numbers[zero & np.signbit(numbers)] = _MINUS_ZERO
    return Outcomes(numbers, labels, found.forms)


def in_common(batch: Any) -> str:
    """What releases of one batch have in common: of arrays and frames all that is no value."""
    if isinstance(batch, np.ndarray | pd.DataFrame | pd.Series):
        names, form = flat(batch[:0])
        return f"{form} {names}" if names else form
    return _name(batch)


def _of_frame(frame: pd.DataFrame | pd.Series) -> NDArray[Any]:
    """The rows of a frame, with their index if that is not just their number."""
    index = frame.index
    kinds = {frame.dtype} if isinstance(frame, pd.Series) else set(frame.dtypes)
    values = frame.to_numpy(dtype=None if len(kinds) == 1 else object)
    if isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1:
        return values
    own = index.to_frame().to_numpy(dtype=object)
    return np.column_stack([own, values.astype(object)])


def _plain(array: NDArray[Any]) -> Outcomes | None:
    """Outcomes of an array of numbers that floats hold."""
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], axis=-1)
    if array.dtype.kind not in "biuf" or not _held(array):
        return None
    numbers = array.reshape(len(array), -1).astype(float)
    return Outcomes(numbers, None, np.full(len(numbers), "", dtype=object))


def _held(array: NDArray[Any]) -> bool:
    """Whether floats hold all numbers of an array."""
    if array.dtype.kind in "iu" and array.size:
        return int(array.min()) >= -_WHOLE and int(array.max()) <= _WHOLE
    return array.dtype.itemsize <= 8


def _listed(releases: Any) -> Outcomes:
    """Outcomes of releases of any kind, each looked at by itself."""
    rows = list(releases)
    if isinstance(releases, np.ma.MaskedArray):  # the last axis of one forgets what is under a mask
        rows = [releases[k : k + 1] for k in range(len(rows))]
    known = {id(row): flat(row) for row in rows}  # refusals are one object
    parts = [known[id(row)] for row in rows]
    common = isinstance(releases, np.ndarray) and releases.dtype.kind != "O"
    forms = np.array(["" if common else part.form for part in parts], dtype=object)
    values = [part.values for part in parts]
    plain = {type(value) for row in values for value in row} == {float}
    if plain and len({len(row) for row in values}) == 1:
        return Outcomes(np.array(values), None, forms)
    columns = list(itertools.zip_longest(*values, fillvalue=ABSENT))
    table = np.array(columns, dtype=object).reshape(-1, len(rows)).T.copy()
    text = np.array([type(value) is str for value in table.flat], dtype=bool).reshape(table.shape)
    labels = np.full(table.shape, None, dtype=object)
    labels[text] = table[text]
    table[text] = 0.0
    return Outcomes(table.astype(float), labels, forms)


def flat(release: Any) -> Parts:
    """The parts of a release in a row: of an estimator its fitted attributes, of an object all."""
    if type(release) is float:  # nearly all are: no need to walk
        return Parts([release], ". of float")
    if isinstance(release, Parts):
        return release
    values: list[float | str] = []
    types: list[str] = []
    form = _walk(release, values, types, ())
    if len(set(types)) > 1:  # which of them is of which type tells something, too
        return Parts([*values, *types], f"{form} of mixed types")
    return Parts(values, " of ".join([form, *types[:1]]))


def _walk(release: Any, values: list[float | str], types: list[str], above: tuple[int, ...]) -> str:
    """Add the values of a release and the types of those that do not tell it; what is left."""
    name = _name(release)
    if id(release) in above:  # it holds itself
        return f"{name} again"
    if release is None or release is pd.NA or type(release) is bool:
        values.append(str(release))
        return "."
    if type(release) is str:
        values += _text(release)
        return "."
    if (value := _value(release)) is not None:
        values += value
        types.append(name)
        return "."
    if type(release) is np.ndarray and release.dtype.kind in "biuf" and _held(release):
        values += release.ravel().astype(float).tolist()
        return f"{name} {release.dtype.str} {release.shape}"
    more, items = _items(release)
    if items is None:
        values.append(UNSEEN + type(release).__name__)
        return name
    forms = [_walk(item, values, types, (*above, id(release))) for item in items]
    runs = [(form, len(list(same))) for form, same in itertools.groupby(forms)]
    inside = ", ".join(form if count == 1 else f"{count} {form}" for form, count in runs)
    return f"{name}{more}[{inside}]"


def _name(thing: Any) -> str:
    """The type of a thing, with its module if it is not Python's own."""
    kind = type(thing)
    own = kind.__module__ == "builtins"
    return kind.__qualname__ if own else f"{kind.__module__}.{kind.__qualname__}"


def _value(release: Any) -> list[float | str] | None:
    """Numbers and labels of what is no container, or None."""
    if isinstance(release, float | np.floating) and (
        release != release or float(release) == release
    ):
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
    """An integer, and in steps of 48 binary digits if no float holds it."""
    if abs(value) <= _WHOLE:
        return [float(value)]
    rest = abs(value)
    sign = "minus " if value < 0 else ""
    long = rest.bit_length() > 1023
    parts: list[float | str] = [f"{sign}{rest.bit_length()} digits" if long else float(value)]
    while rest:
        parts.append(float(rest & (2**48 - 1)))
        rest >>= 48
    return parts


def _text(text: str) -> list[float | str]:
    """A text as it is without its numbers, their spelling, and the numbers."""
    if text in _NO_TEXTS:
        return [repr(text)]
    numbers = _NUMBER.findall(text)
    if not numbers:
        return [text]
    escaped = text.replace("\\", r"\\").replace("#", r"\#")
    spelled = ",".join(map(_spelling, numbers))
    return [
        _NUMBER.sub("#", escaped),
        spelled,
        *itertools.chain.from_iterable(map(_written, numbers)),
    ]


def _spelling(number: str) -> str:
    """How a number is written; empty if it is as Python writes it."""
    if number == repr(float(number)).removesuffix(".0"):
        return ""
    mantissa, *power = re.split("[eE]", number)
    whole, _, decimals = mantissa.lstrip("-").partition(".")
    zeros = len(whole) - len(whole.lstrip("0"))
    return f"{zeros}.{len(decimals)}{''.join(power)}{'eE'['E' in number] if power else ''}"


def _written(number: str) -> list[float | str]:
    """A number in a text, and the digits that a float does not hold."""
    value = float(number)
    if repr(value) in (number, f"{number}.0"):
        return [value]
    digits = re.split("[eE]", number)[0].replace("-", "").replace(".", "").lstrip("0")
    rest = digits[_DIGITS:] if np.isfinite(value) else digits
    return [value, *(float(rest[k : k + _DIGITS]) for k in range(0, len(rest), _DIGITS))]


def _items(release: Any) -> tuple[str, list[Any] | None]:
    """What else tells the kind of a container, and what is in it; None if nobody can tell."""
    for kinds, inside in _CONTAINERS:
        if isinstance(release, kinds):
            return inside(release)
    if sparse.issparse(release):
        places = release.tocoo()
        return "", [release.toarray(), places.row, places.col]
    if hasattr(release, "__array__") and not isinstance(release, type):
        return f" {getattr(release, 'dtype', '')}", [np.asarray(release)]
    return "", _state(release)


def _learned(model: BaseEstimator) -> dict[str, Any]:
    """The fitted attributes of an estimator."""
    return {name: value for name, value in sorted(vars(model).items()) if _FITTED.match(name)}


# what else tells the kind, and what is in it: the first type that fits
_CONTAINERS: list[tuple[Any, Callable[[Any], tuple[str, list[Any]]]]] = [
    (
        pd.DataFrame,
        lambda frame: (
            "",
            [frame.columns, frame.index, frame.attrs]
            + [frame.iloc[:, j].array for j in range(frame.shape[1])],
        ),
    ),
    (pd.Series, lambda series: ("", [series.index, series.name, series.attrs, series.array])),
    (
        pd.RangeIndex,
        lambda index: (f" {[*index.names, index.start, index.stop, index.step]}", []),
    ),
    (
        pd.MultiIndex,
        lambda index: (f" {[*index.names]}", [*index.levels, *index.codes]),
    ),
    (pd.Index, lambda index: (f" {[*index.names]}", [index.array])),
    (pd.Categorical, lambda values: (f" {values.ordered}", [values.categories, values.codes])),
    (
        np.ma.MaskedArray,
        lambda array: ("", [array.data, np.ma.getmaskarray(array), array.fill_value]),
    ),
    (
        np.ndarray,
        lambda array: (
            f" {array.dtype.kind if array.dtype.kind in 'SU' else array.dtype} {array.shape}",
            list(np.asarray(array).ravel()),
        ),
    ),
    (
        np.void,
        lambda record: (
            f" {record.dtype}",
            list(record.tolist()) if record.dtype.names else [record.tobytes()],
        ),
    ),
    (complex | np.complexfloating, lambda number: ("", [number.real, number.imag])),
    (
        BaseEstimator,
        lambda model: (f" {list(_learned(model))}", list(_learned(model).values())),
    ),
    (dict, lambda table: ("", list(table.items()))),
    (set | frozenset, lambda members: ("", sorted(members, key=repr))),
    (list | tuple, lambda members: ("", list(members))),
]


def _state(release: Any) -> list[Any] | None:
    """What an object is made again from, or None."""
    if isinstance(release, type | np.random.Generator | np.random.RandomState):
        return None
    try:
        made = release.__reduce_ex__(4)
    except Exception:  # what cannot be pickled
        return None
    if isinstance(made, str):  # a function is its name
        return None
    _, arguments, state, listed, keyed = (*made, None, None, None)[:5]
    found = [argument for argument in arguments if not isinstance(argument, type)]
    found += [] if state is None else [state]
    empty = not found and listed is None and keyed is None
    return None if empty else [*found, *(listed or ()), *(keyed or ())]


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
        return shown(self.atoms[code]) if code < len(self.atoms) else None

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


def _often(labels: Labels) -> pd.Series:
    """How often each label comes, the most frequent first."""
    return pd.Series(labels, dtype=object).value_counts()


def shown(number: float) -> str:
    """A number in words."""
    return "-0" if number == _MINUS_ZERO else f"{number:.6g}"


def learn_columns(seen: Outcomes, bins: int) -> list[Column]:
    """Cells for each column of training runs, with up to `bins` intervals between the atoms."""
    found = []
    for j in range(seen.numbers.shape[1]):
        numbers, label = seen.column(j)
        labels: tuple[str, ...] = ()
        if label is not None:
            plain = label == None  # noqa: E711
            labels = tuple(sorted(_often(label[~plain]).index[:_ATOMS]))
            numbers = numbers[plain]
        values, counts = np.unique(numbers, return_counts=True)
        often = np.flatnonzero(counts >= _ATOM)
        atoms = np.sort(values[often[np.argsort(-counts[often], kind="stable")][:_ATOMS]])
        rest = numbers[~np.isin(numbers, atoms)] if len(atoms) else numbers
        edges = np.empty(0)
        if len(rest) >= bins:
            edges = np.unique(np.quantile(rest, np.arange(1, bins) / bins))
        found.append(Column(labels, atoms, edges))
    return found


def cells(columns: Sequence[Column], seen: Outcomes) -> Codes:
    """Codes of the cells of all columns, shape (runs, c)."""
    codes = [column.codes(*seen.column(j)) for j, column in enumerate(columns)]
    return np.stack(codes, axis=1)
