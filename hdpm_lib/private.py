"""Private data as they come in: their shape is public, of what is in them nothing is said.

Private data come in by :func:`private_cells` alone, whatever they are. An error is one sentence for
each argument, with no value, no place and no count. With `clip` there is no error and no warning:
numbers outside the bounds are moved onto them, and a public value takes the place of what is no
number. So a wrong public setting, such as a bound in another unit, is not noticed. Only types are
looked at, which are public as shapes are: in an array of whole numbers there is no level of text,
whatever its cells are. Arguments are named as in :mod:`hdpm_lib.validation`.

Silence does not hang on how NumPy is set to report what floats do (``np.seterr``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from numbers import Complex, Number, Real
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.validation import check_flag, check_positive

Array = NDArray[np.float64]
_BOOLEANS = {"False": "0", "True": "1"}  # as NumPy writes them


def private_cells(value: Any, name: str, ndim: int | None = None) -> NDArray[Any]:
    """Return private data as an array of `ndim` dimensions, of one type or Python's objects.

    Lists, tables, sparse and masked arrays are taken, and what a mask hides is None: nothing looks
    at it.

    Examples
    --------
    >>> private_cells([[0.5, "old"], np.ma.array([1, 2], mask=[0, 1])], "X", 2).tolist()
    [[0.5, 'old'], [1, None]]
    """
    try:
        dense = value.toarray() if hasattr(value, "toarray") else value
        array = _array(dense, ndim)
    except Exception:
        # what it says may be private, and so may the chain of errors: the one below stands alone
        array = None
    if array is None:
        raise ValueError(f"{name} must be an array, a table or lists, with rows of one length")
    if ndim is not None and array.ndim != ndim:
        raise ValueError(
            f"{name} must have {ndim} dimension(s), got shape {array.shape}. Reshape your data"
        )
    if not array.size:
        parts = "feature(s)" if len(array) else "sample(s)"
        raise ValueError(
            f"{name} has 0 {parts} (shape={array.shape}) while a minimum of 1 is required."
        )
    return array


def _array(value: Any, ndim: int | None) -> NDArray[Any] | None:
    """Make an array of private data, cell by cell, or return None if rows are not of one length."""
    if isinstance(value, np.ma.MaskedArray):
        value = _listed(value)
    if not isinstance(value, list | tuple):
        return np.asarray(value)
    cells = list(value)
    shape = [len(value)]
    while True:
        deeper = _has_rows(cells) if ndim is None else len(shape) < ndim
        if not deeper:
            break
        # the cells so far are rows of the next ones
        rows = [_listed(row) for row in cells]
        if not all(isinstance(row, list | tuple) for row in rows):
            return None
        lengths = {len(row) for row in rows}
        if len(lengths) != 1:
            return None
        cells = list(itertools.chain.from_iterable(rows))
        shape.append(lengths.pop())
    if cells and all(isinstance(_listed(cell), list | tuple) for cell in cells):
        return None
    return np.fromiter(cells, dtype=object, count=len(cells)).reshape(shape)


def _has_rows(cells: list[Any]) -> bool:
    """Tell whether cells are rows of others, as the first one says."""
    return bool(cells) and isinstance(_listed(cells[0]), list | tuple)


def _listed(value: Any) -> Any:
    """Return an array as lists, in which None stands for what is masked."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return value


def column_names(table: Any) -> list[Any] | None:
    """Return the names of the columns of a table; None of an array."""
    if not hasattr(table, "__len__"):
        return None
    # the first is pyarrow's, whose `columns` are cells
    for attribute in ("column_names", "columns"):
        names = getattr(table, attribute, None)
        if names is not None and not callable(names):
            return list(names)
    return None


def private_floats(value: Any, name: str, ndim: int | None = None) -> NDArray[Any]:
    """Return private data as floats, NaN where a cell holds no number.

    Floats keep their type, all else becomes 64 bits. Numbers are also decimals, fractions, complex
    ones without an imaginary part, and text that reads as a number: where one cell is text, NumPy
    makes text of all, and one record must not change the others. Those that floats do not reach
    are infinite.

    Examples
    --------
    >>> private_floats([0.5, True, "2.5", "old", None, 1j], "y", 1)
    array([0.5, 1. , 2.5, nan, nan, nan])
    """
    cells = private_cells(value, name, ndim)
    if cells.dtype.kind == "f":
        return cells
    if cells.dtype.kind in "biu":
        return cells.astype(float)
    if cells.dtype.kind in "mM":
        return np.full(cells.shape, np.nan)
    numbers = map(_number, cells.ravel().tolist())
    return np.fromiter(numbers, float, cells.size).reshape(cells.shape)


def _number(cell: Any) -> float:
    """Return the number in a private cell, or NaN."""
    if type(cell) is float:
        return cell
    try:
        number = cell
        if getattr(number, "shape", None) == ():
            number = number.tolist()
        if isinstance(number, bytes):
            number = number.decode()
        if isinstance(number, str):
            number = complex(_BOOLEANS.get(number, number))
        if isinstance(number, Complex) and number.imag == 0:
            number = number.real
        if not isinstance(number, Number):  # decimals are numbers, and not real ones
            return math.nan
        try:
            return float(cast("float", number))
        except OverflowError:  # of whole numbers and fractions
            return math.inf if cast("float", number) > 0 else -math.inf
    except Exception:  # whatever a cell is, nothing may come of it
        return math.nan


def private_doubles(value: Any, name: str, ndim: int | None = None) -> Array:
    """Return private data as floats of 64 bits."""
    with np.errstate(all="ignore"):
        return np.asarray(private_floats(value, name, ndim), dtype=float)


@np.errstate(all="ignore")
def private_places(
    value: Any, name: str, levels: Sequence[Hashable], remedy: str = ""
) -> NDArray[np.intp]:
    """Find the place of each private label among public `levels`, shape (n,); -1 for others.

    A label is the level that it is equal to, or else one that reads as the same number, as in
    :func:`private_floats`; floats of less than 64 bits are numbers of their own precision. An array
    whose type holds none of the levels is a TypeError, which ends with `remedy`.

    Examples
    --------
    >>> private_places(["yes", ["no"], None, "no"], "y", ("no", "yes"))
    array([ 1, -1, -1,  0])
    >>> private_places(np.array([1, 0]), "y", ("no", "yes"))
    Traceback (most recent call last):
    TypeError: y has dtype int64, which holds none of ['no', 'yes']: declare what the data hold
    """
    cells = _microseconds(private_cells(value, name, 1))
    if not any(_holds(cells.dtype, level) for level in levels):
        raise TypeError(
            f"{name} has dtype {cells.dtype}, which holds none of {list(levels)}: declare what the"
            f" data hold{remedy}"
        )
    if _comparable(cells.dtype, levels):
        places = np.full(len(cells), -1)
        for place, level in enumerate(levels):
            places[cells == level] = place
        return places
    by_level = {level: place for place, level in enumerate(levels)}
    by_number = {}
    for place, level in enumerate(levels):
        number = _number(level)
        if not math.isnan(number):
            by_number[number] = place
    # the numbers as floats of less than 64 bits hold them
    by_narrow_number = {
        np.float16: {float(np.float16(number)): place for number, place in by_number.items()},
        np.float32: {float(np.float32(number)): place for number, place in by_number.items()},
    }

    def place_of(cell: Any) -> int:
        try:
            if cell in by_level:
                return by_level[cell]
            numbers = by_narrow_number.get(type(cell), by_number)
            return numbers.get(_number(cell), -1)
        except Exception:  # what cannot be hashed is no label
            return -1

    return np.fromiter(map(place_of, cells.tolist()), np.intp, len(cells))


def _comparable(dtype: np.dtype[Any], levels: Sequence[Hashable]) -> bool:
    """Tell whether NumPy compares cells of a type with all levels as it should: at once, then."""
    if dtype.kind in "biuf":
        return all(isinstance(level, Real) for level in levels)
    if dtype.kind == "U":
        # a text that reads as a number may be another text of the same number
        return all(isinstance(level, str) and math.isnan(_number(level)) for level in levels)
    return False


def _microseconds(cells: NDArray[Any]) -> NDArray[Any]:
    """Round times in finer units to those that Python has; what falls between them is missing.

    NumPy makes whole numbers of them otherwise, which are no times, and may read as other levels.
    """
    fine = ("ns", "ps", "fs", "as")
    if cells.dtype.kind not in "mM" or np.datetime_data(cells.dtype)[0] not in fine:
        return cells
    coarse = cells.astype(f"{cells.dtype.kind}8[us]")
    return np.where(coarse == cells, coarse, cells.dtype.type("NaT", "us"))


def _holds(dtype: np.dtype[Any], level: Hashable) -> bool:
    """Tell whether an array of a type can hold a level.

    Types with a mark for missing cells, floats and times, are not judged: tables make them of a
    column in which all cells are missing, which clipping takes in silence.
    """
    if dtype.kind not in "biu":
        return True
    number = _number(level)
    if dtype.kind == "b":
        return number in (0, 1)
    bounds = np.iinfo(dtype)
    return number % 1 == 0 and bounds.min <= number <= bounds.max


@np.errstate(all="ignore")
def check_inside(
    value: ArrayLike,
    name: str,
    low: ArrayLike,
    high: ArrayLike,
    rule: str,
    *,
    clip: bool = False,
    ndim: int | None = None,
    remedy: str = "",
) -> Array:
    """Return private numbers inside public bounds; an error says the `rule`.

    It tells neither a value nor its place. With `clip` they are moved onto the bounds instead, in
    silence; what is not a number goes to the middle.

    Examples
    --------
    >>> check_inside([-1.0, 0.25, np.nan], "data", 0, 1, "lie in [0, 1]", clip=True)
    array([0.  , 0.25, 0.5 ])
    """
    array = private_doubles(value, name, ndim)
    bottom = np.asarray(low, dtype=float)
    top = np.asarray(high, dtype=float)
    if clip:
        moved = np.asarray(np.clip(array, bottom, top))
        np.copyto(moved, bottom / 2 + top / 2, where=np.isnan(moved))
        return moved
    if not ((bottom <= array) & (array <= top)).all():
        raise ValueError(f"{name} must {rule}: scale by public bounds{remedy}, or clip")
    return array


def check_records(
    X: ArrayLike,
    y: ArrayLike,
    *,
    feature_norm: float | None = None,
    label_bound: float = 1.0,
    clip: bool = False,
    shape: tuple[int, int] | None = None,
) -> tuple[Array, Array]:
    r"""Return features and labels as floats, inside the bounds that ridge regression needs.

    An error names the bound, no value and no place. That it is raised is itself an answer: clip
    where that matters.

    Parameters
    ----------
    X : array of shape (n, d)
        Features, private; in [0, 1] without `feature_norm`.
    y : array of shape (n,)
        Labels, private.
    feature_norm : float, optional
        Public bound `R` on the Euclidean norm of a feature vector. It takes the place of the box
        [0, 1].
    label_bound : float, default 1.0
        Public bound `a` on the absolute value of a label.
    clip : bool, default False
        Move records outside onto the bounds instead of refusing them, in silence: how many there
        were is private. What is no number becomes 1/2 in the box, and 0 in the ball and as a label.
    shape : tuple of two int, optional
        The numbers of records and of features that there must be.
    """
    bound = check_positive(label_bound, "label_bound")
    features = check_features(X, feature_norm, clip=clip)
    rule = f"lie in [{-bound:g}, {bound:g}]"
    remedy = " (a Schema of its own), give label_bound"
    labels = check_inside(y, "y", -bound, bound, rule, clip=clip, ndim=1, remedy=remedy)
    return check_pairs(features, labels, shape)


def check_features(X: ArrayLike, feature_norm: float | None = None, *, clip: bool = False) -> Array:
    """Return the features of :func:`check_records`."""
    check_flag(clip, "clip")
    if feature_norm is None:
        remedy = " (Schema, in a private_pipeline), give feature_norm"
        return check_inside(X, "X", 0, 1, "lie in [0, 1]", clip=clip, ndim=2, remedy=remedy)
    norm = check_positive(feature_norm, "feature_norm")
    array = private_doubles(X, "X", 2)
    inside = _shortened(np.nan_to_num(array), norm)
    if not clip and (inside != array).any():
        text = f"rows of X must have a norm of at most feature_norm = {feature_norm}"
        raise ValueError(f"{text}: scale by public bounds (Schema, in a private_pipeline), or clip")
    return inside


def check_pairs(
    features: NDArray[Any], labels: NDArray[Any], shape: tuple[int, int] | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return both, if they are as many, and as many as a mechanism was made for."""
    if len(features) != len(labels):
        raise ValueError(f"X has {len(features)} records and y has {len(labels)}")
    if shape is not None and features.shape != shape:
        raise ValueError(
            f"X must have shape {shape}, the records and features that the mechanism was made for,"
            f" got {features.shape}"
        )
    return features, labels


@np.errstate(all="ignore")
def _shortened(vectors: Array, norm: float) -> Array:
    """Shorten rows to that Euclidean norm where they are longer, by more than rounding."""
    largest = np.maximum(np.abs(vectors).max(axis=1, keepdims=True, initial=0), norm)
    scaled = vectors / largest  # squares of large entries would overflow, and a warning tell of it
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    bound = norm / largest
    over = length > bound * (1 + 1e-12)
    return np.where(over, scaled * (norm / np.where(over, length, 1)), vectors)


@np.errstate(all="ignore")
def check_ball(
    records: ArrayLike, name: str, centre: Array, radius: float, *, clip: bool = False
) -> Array:
    """Return private records of shape (n, d), less the centre of the ball they lie in.

    An error tells neither a value nor its place. With `clip` records outside are moved onto the
    ball, what is not a number to the centre's coordinate, in silence.

    Examples
    --------
    >>> check_ball([[3.0, 4.0], [np.nan, 0.5]], "records", np.zeros(2), 1.0, clip=True)
    array([[0.6, 0.8],
           [0. , 0.5]])
    """
    array = private_doubles(records, name, 2)
    if array.shape[1] != len(centre):
        raise ValueError(f"{name} must have shape (n, {len(centre)}), got {array.shape}")
    apart = array - centre
    inside = _shortened(np.nan_to_num(apart), radius)
    if not clip and (inside != apart).any():
        raise ValueError(
            f"{name} must lie in the ball of radius {radius}: scale by public bounds, or clip"
        )
    return inside


def check_signed_records(
    X: ArrayLike, y: ArrayLike, *, clip: bool = False, shape: tuple[int, int] | None = None
) -> tuple[Array, Array]:
    """Return records of logistic regression: features of norm at most 1, labels -1 or 1.

    They may be of one class. Clipping, `shape` and errors are as in :func:`check_records`; every
    label but 1 then counts as -1.
    """
    array = private_doubles(X, "X", 2)
    given = private_doubles(y, "y", 1)
    inside = _shortened(np.nan_to_num(array), 1.0)
    labels = np.where(given == 1, 1.0, -1.0)
    check_pairs(inside, labels, shape)
    if not clip and (labels != given).any():
        raise ValueError("y must hold no label but -1 and 1: recode the two classes, or clip")
    if not clip and (inside != array).any():
        text = "scale by public bounds (Schema, over its feature_norm, in a private_pipeline)"
        raise ValueError(f"X must hold rows of norm at most 1: {text}, or clip")
    return inside, labels
