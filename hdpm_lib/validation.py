"""Checks at the public boundary: bad input gets an error that names the argument, what it must be,
and the value.

What is of the wrong kind (None, a string, a boolean or a complex number, a list where one number is
asked, a masked array) is a TypeError; a number out of range, NaN and infinity among them, a
ValueError. No check changes a number. Errors about arrays say one value at most, and none of a
wrong kind.

Private data come in by :func:`private_cells` alone, whatever they are. Their shape is public; of
what is in them an error says no value, no place and no count: for each argument it is one sentence.
With `clip` there is no error and no warning: numbers outside the bounds are moved onto them, and a
public value takes the place of what is no number.

Throughout, `name` is the argument's name, `low` and `high` are its range, `ends` says which of the
two belong to it, in the notation of intervals, and `why` gives the reason for the range in a few
words.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from numbers import Complex, Integral, Rational, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

FALSE_ALARM = 1e-6
"""Probability with which one stochastic check may fail although what it checks is true.

Every such check, in chapters and in tests, takes its threshold from this one number, at the number
of draws it states. At one in a million, the few thousand checks of the whole book fail without
cause in less than one run of a hundred, so that no check needs a seed that was picked because it
passes.
"""


@lru_cache
def _range(low: float, high: float, ends: str, why: str) -> str:
    """What a number must be, in words."""
    if np.isfinite(low) and np.isfinite(high):
        must = f"lie in {ends[0]}{low:.6g}, {high:.6g}{ends[1]}"
    elif np.isfinite(high):
        must = f"be finite and {'at most' if ends[1] == ']' else 'below'} {high:.6g}"
    elif low == 0:
        must = "be finite and not negative" if ends[0] == "[" else "be positive and finite"
    elif np.isfinite(low):
        must = f"be finite and {'at least' if ends[0] == '[' else 'above'} {low:.6g}"
    else:
        must = "be finite"
    return must + (f" ({why})" if why else "")


def _inside(value: Any, low: float, high: float, ends: str) -> NDArray[np.bool_]:
    """Which values are finite and in the range."""
    above = value >= low if ends[0] == "[" else value > low
    return np.isfinite(value) & above & (value <= high if ends[1] == "]" else value < high)


def _scalar(value: Any, name: str, must: str) -> Any:
    """The number that `value` is, or an error that says what it must be."""
    found = value
    if hasattr(value, "dtype"):  # NumPy's and JAX's, also in an array without dimensions
        one = value.shape == () and value.dtype.kind in "iuf" and not np.ma.isMaskedArray(value)
        found = value.item() if one else None
    if isinstance(found, bool) or not isinstance(found, Real):
        raise TypeError(f"{name} must be a number and {must}, got {reprlib.repr(value)}")
    return found


def check_number(
    value: object,
    name: str,
    low: float = -np.inf,
    high: float = np.inf,
    *,
    ends: str = "[]",
    why: str = "",
) -> float:
    """One finite real number, as a float: of Python, NumPy or JAX, a fraction, or in an array
    without dimensions.

    Examples
    --------
    >>> check_number(3, "reach", 1)
    3.0
    >>> check_number(1, "power", 0, 1, ends="()")
    Traceback (most recent call last):
    ValueError: power must lie in (0, 1), got 1
    """
    must = _range(low, high, ends, why)
    number = _scalar(value, name, must)
    try:
        found = float(number)
    except OverflowError:
        found = np.inf
    if not _inside(found, low, high, ends):
        raise ValueError(
            f"{name} must {must}, got {reprlib.repr(value) if found == np.inf else value}"
        )
    return found


def check_positive(value: object, name: str) -> float:
    """A positive, finite float."""
    return check_number(value, name, 0, ends="()")


def check_penalty(penalty: object, feature_norm: float = 0.0) -> float:
    """The ridge penalty as a positive float, and not below the squared norm of the features over
    2**40.

    Below that rounding loses it: with some data the equations would be singular, and the error tell
    of them.
    """
    found = check_positive(penalty, "penalty")
    least = feature_norm * feature_norm * 2.0**-40
    if found < least:
        raise ValueError(
            f"penalty must be at least {least:.3g}, or rounding hides it beside features, got"
            f" {penalty}"
        )
    return found


def check_cap(cap: object, m: int) -> float:
    """The largest admissible one of `m` weights that sum to 1: `cap`, or 1 for None."""
    if cap is None:
        return 1.0
    top = _scalar(cap, "cap", must := f"lie in [1/m, 1] = [{1 / m:.6g}, 1]")
    if not (1 - 1e-12) / m <= top <= 1:
        raise ValueError(f"cap must {must}, got {cap}")
    return max(float(top), 1 / m)


def check_count(value: object, name: str, least: int = 1, most: float = np.inf) -> int:
    """An integer between `least` and `most`; floats count if they are whole."""
    kind = "a positive integer" if least == 1 else f"an integer of at least {least}"
    kind = kind if most == np.inf else f"an integer from {least} to {most}"
    number = _scalar(value, name, f"be {kind}")
    whole = isinstance(number, Integral) or (
        np.isfinite(float(number)) and float(number).is_integer()
    )
    if not (whole and least <= number <= most):
        raise ValueError(f"{name} must be {kind}, got {reprlib.repr(value) if whole else value}")
    return int(number)


def check_rational(value: object, name: str) -> Fraction:
    """A positive rational as a fraction; floats are refused."""
    if isinstance(value, bool) or not isinstance(value, Rational) or value <= 0:
        raise ValueError(
            f"{name} must be a positive Fraction or integer, got {reprlib.repr(value)}"
        )
    return Fraction(int(value.numerator), int(value.denominator))


def check_flag(value: object, name: str) -> bool:
    """True or False, and nothing that merely counts as one of them: "no" counts as true."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {reprlib.repr(value)}")
    return bool(value)


def check_choice(value: object, name: str, choices: tuple[str, ...]) -> None:
    """An error if `value` is none of `choices`: a misspelt option must not pick another."""
    if not (isinstance(value, str) and value in choices):
        raise ValueError(
            f"{name} must be {' or '.join(map(repr, choices))}, got {reprlib.repr(value)}"
        )


def check_generator(rng: object, name: str = "rng") -> np.random.Generator:
    """A NumPy generator, from which noise and samples are drawn."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"{name} must be a Generator, such as np.random.default_rng(seed), got"
            f" {reprlib.repr(rng)}"
        )
    return rng


def check_finite(
    value: ArrayLike,
    name: str,
    ndim: int | None = None,
    low: float = -np.inf,
    high: float = np.inf,
    *,
    ends: str = "[]",
    why: str = "",
) -> Array:
    """A non-empty array of finite numbers with `ndim` dimensions (default: any), as floats; copied
    only if it must be.

    Examples
    --------
    >>> check_finite([1, -2], "weights", 1, 0)
    Traceback (most recent call last):
    ValueError: weights must be finite and not negative, got -2.0
    """
    array = _numbers(value, name)
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name} is empty (shape {array.shape})")
    # NaN if there is one
    if not _inside(np.array([array.min(), array.max()]), low, high, ends).all():
        bad = ~_inside(array, low, high, ends)
        raise ValueError(f"{name} must {_range(low, high, ends, why)}, got {array[bad].flat[0]}")
    return array


def check_numeric(value: ArrayLike, name: str) -> NDArray[Any]:
    """An array of integers or floats, of any shape and in its own type; NaN and infinity are let
    through.
    """
    try:
        array = np.asarray(value)
    except ValueError:
        raise TypeError(
            f"{name} must be an array of numbers, got rows of unequal lengths"
        ) from None
    if (masked := np.ma.isMaskedArray(value)) or array.dtype.kind not in "iuf":
        found = "None" if value is None else "a masked array" if masked else f"dtype {array.dtype}"
        raise TypeError(f"{name} must be an array of numbers, got {found}")
    return array


def _numbers(value: ArrayLike, name: str) -> Array:
    return np.asarray(check_numeric(value, name), dtype=float)


def private_cells(value: Any, name: str, ndim: int | None = None) -> NDArray[Any]:
    """Private data as an array of that many dimensions: of numbers or text of one type, or of
    Python's objects.

    Lists, tables, sparse and masked arrays are taken, and what a mask hides is None: nothing looks
    at it.

    Examples
    --------
    >>> private_cells([[0.5, "old"], np.ma.array([1, 2], mask=[0, 1])], "X", 2).tolist()
    [[0.5, 'old'], [1, None]]
    """
    try:
        array = _array(value.toarray() if hasattr(value, "toarray") else value, ndim)
    except Exception:
        # what it says may be private, and so may the chain of errors: the one below stands alone
        array = None
    if array is None:
        raise ValueError(f"{name} must be an array, a table or lists, with rows of one length")
    if array.ndim != (array.ndim if ndim is None else ndim):
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
    """Private data as an array, or None if rows are not of one length; lists go cell by cell, of
    any kind.
    """
    value = _listed(value) if isinstance(value, np.ma.MaskedArray) else value
    if not isinstance(value, list | tuple):
        return np.asarray(value)
    cells = list(value)
    shape = [len(value)]
    while (
        isinstance(_listed(cells[0]), list | tuple)
        if ndim is None and cells
        else len(shape) < (ndim or 1)
    ):
        rows = [_listed(row) for row in cells]
        lengths = {len(row) if isinstance(row, list | tuple) else -1 for row in rows}
        if len(lengths) != 1 or -1 in lengths:
            return None
        cells = [cell for row in rows for cell in row]
        shape = [*shape, *lengths]
    if cells and all(isinstance(_listed(cell), list | tuple) for cell in cells):
        return None
    return np.fromiter(cells, dtype=object, count=len(cells)).reshape(shape)


def _listed(part: Any) -> Any:
    """An array as lists, in which None stands for what is masked."""
    return part.tolist() if hasattr(part, "tolist") else part


def private_floats(value: Any, name: str, ndim: int | None = None) -> NDArray[Any]:
    """Private data as floats, NaN where a cell holds no number; floats keep their type, all else
    becomes 64 bits.

    Text that reads as a number is that number, and so is a complex number without an imaginary
    part.

    Examples
    --------
    >>> private_floats([0.5, True, "2.5", "old", None, 1j], "y", 1)
    array([0.5, 1. , 2.5, nan, nan, nan])
    """
    cells = private_cells(value, name, ndim)
    if cells.dtype.kind in "biuf":
        return cells if cells.dtype.kind == "f" else cells.astype(float)
    if cells.dtype.kind in "mM":
        return np.full(cells.shape, np.nan)
    return np.fromiter(map(_number, cells.ravel().tolist()), float, cells.size).reshape(cells.shape)


def _number(cell: Any) -> float:
    """The number in a private cell, or NaN."""
    if type(cell) is float:
        return cell
    try:
        found = cell.tolist() if getattr(cell, "shape", None) == () else cell
        found = found.real if isinstance(found, Complex) and found.imag == 0 else found
        return float(found) if isinstance(found, Real | str) else math.nan
    except Exception:  # whatever a cell is, nothing may come of it
        return math.nan


def private_doubles(value: Any, name: str, ndim: int | None = None) -> Array:
    """Private data as floats of 64 bits."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(private_floats(value, name, ndim), dtype=float)


def private_places(value: Any, name: str, levels: Sequence[Hashable]) -> NDArray[np.intp]:
    """The place of each private label among public `levels`, shape (n,); -1 for what is none of
    them.

    Examples
    --------
    >>> private_places(["yes", ["no"], None, "no"], "y", ("no", "yes"))
    array([ 1, -1, -1,  0])
    """
    cells = private_cells(value, name, 1)
    kind = {"U": str}.get(cells.dtype.kind, Real if cells.dtype.kind in "biuf" else ())
    if all(isinstance(level, kind) for level in levels):
        found = np.full(len(cells), -1)
        for place, level in enumerate(levels):
            found[cells == level] = place
        return found
    table = {level: place for place, level in enumerate(levels)}

    def place_of(cell: Any) -> int:
        try:
            return table[cell] if cell in table else table.get(_number(cell), -1)
        except Exception:  # what cannot be hashed is no label
            return -1

    return np.fromiter(map(place_of, cells.tolist()), np.intp, len(cells))


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
    """Private numbers inside public bounds, or an error that says `rule` and tells neither a value
    nor its place.

    With `clip` they are moved onto the bounds instead, in silence; what is not a number goes to the
    middle.

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
        np.copyto(moved, (bottom + top) / 2, where=np.isnan(moved))
        return moved
    if not ((bottom <= array) & (array <= top)).all():
        raise ValueError(f"{name} must {rule}: scale by public bounds{remedy}, or clip")
    return array


def check_size(size: object) -> tuple[int, ...]:
    """The shape of a batch, from one count or several; ``()`` stands for one draw."""
    return tuple(
        check_count(k, "size", 0) for k in (size if isinstance(size, tuple | list) else (size,))
    )


def check_epsilon(epsilon: ArrayLike, n_records: int | None = None) -> Array:
    """Accepted privacy losses, positive and finite, as a vector, of that length if it is given.

    They are public, so that the error names the offending one.
    """
    eps = _numbers(epsilon, "epsilon")
    if eps.ndim != 1 or eps.size == 0:
        raise ValueError(f"epsilon must be a non-empty vector, got shape {eps.shape}")
    if (bad := ~(np.isfinite(eps) & (eps > 0))).any():
        i = int(np.argmax(bad))
        raise ValueError(f"epsilon must be positive and finite, got epsilon[{i}] = {eps[i]}")
    if n_records is not None and eps.size != n_records:
        raise ValueError(f"epsilon has {eps.size} entries for {n_records} records")
    return eps


def check_records(
    X: ArrayLike,
    y: ArrayLike,
    *,
    feature_norm: float | None = None,
    label_bound: float = 1.0,
    clip: bool = False,
) -> tuple[Array, Array]:
    r"""Features and labels as floats, inside the public bounds that every guarantee of ridge
    regression rests on.

    An error names the bound, no value and no place. That it is raised is itself an answer: clip
    where that matters.

    Parameters
    ----------
    X, y : arrays of shape (n, d), in [0, 1], and (n,)
    feature_norm : float, optional
        Public bound `R` on the Euclidean norm of a feature vector. It takes the place of the box
        [0, 1].
    label_bound : float, default 1
        Public bound `a` on the absolute value of a label.
    clip : bool, default False
        Move records outside onto the bounds instead of refusing them, in silence: how many there
        were is private. What is no number becomes 1/2 in the box, and 0 in the ball and as a label.
    """
    features = _features(X, feature_norm, clip=clip)
    bound = check_positive(label_bound, "label_bound")
    rule = f"lie in [{-bound:g}, {bound:g}]"
    remedy = " (a Schema of its own), give label_bound"
    labels = check_inside(y, "y", -bound, bound, rule, clip=clip, ndim=1, remedy=remedy)
    return _paired(features, labels)


def _features(X: ArrayLike, feature_norm: float | None = None, *, clip: bool = False) -> Array:
    """The features of :func:`check_records`."""
    if feature_norm is None:
        remedy = " (Schema, in a private_pipeline), give feature_norm"
        return check_inside(
            X, "X", 0, 1, "lie in [0, 1]", clip=check_flag(clip, "clip"), ndim=2, remedy=remedy
        )
    norm = check_positive(feature_norm, "feature_norm")
    array = private_doubles(X, "X", 2)
    inside = _shortened(np.nan_to_num(array), norm)
    if not check_flag(clip, "clip") and (inside != array).any():
        text = f"rows of X must have a norm of at most feature_norm = {feature_norm}"
        raise ValueError(f"{text}: scale by public bounds (Schema, in a private_pipeline), or clip")
    return inside


def _paired(features: Array, labels: Array) -> tuple[Array, Array]:
    if len(features) != len(labels):
        raise ValueError(f"X has {len(features)} records and y has {len(labels)}")
    return features, labels


def _shortened(vectors: Array, norm: float) -> Array:
    """Rows pulled to that Euclidean norm where they are longer, by more than rounding; the others
    as they are.
    """
    largest = np.maximum(np.abs(vectors).max(axis=1, keepdims=True, initial=0), norm)
    scaled = vectors / largest  # squares of large entries would overflow, and a warning tell of it
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    bound = norm / largest
    over = length > bound * (1 + 1e-12)
    return np.where(over, scaled * (norm / np.where(over, length, 1)), vectors)


def check_ball(
    records: ArrayLike, name: str, centre: Array, radius: float, *, clip: bool = False
) -> Array:
    """Private records of shape (n, d), less the centre of the public ball they lie in.

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
    with np.errstate(over="ignore"):
        apart = array - centre
    inside = _shortened(np.nan_to_num(apart), radius)
    if not clip and (inside != apart).any():
        raise ValueError(
            f"{name} must lie in the ball of radius {radius}: scale by public bounds, or clip"
        )
    return inside


def check_signed_records(X: ArrayLike, y: ArrayLike, *, clip: bool = False) -> tuple[Array, Array]:
    """Records of logistic regression: feature vectors of norm at most 1, labels -1 or 1, of one
    class if need be.

    Clipping and errors are as in :func:`check_records`; every label but 1 then counts as -1.
    """
    array = private_doubles(X, "X", 2)
    given = private_doubles(y, "y", 1)
    inside, labels = _paired(_shortened(np.nan_to_num(array), 1.0), np.where(given == 1, 1.0, -1.0))
    if not clip and (labels != given).any():
        raise ValueError("y must hold no label but -1 and 1: recode the two classes, or clip")
    if not clip and (inside != array).any():
        text = "scale by public bounds (Schema, over its feature_norm, in a private_pipeline)"
        raise ValueError(f"X must hold rows of norm at most 1: {text}, or clip")
    return inside, labels


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Say which of the project's extras an import in this block comes with, if it fails.

    Examples
    --------
    >>> with extra("book"):  # doctest: +ELLIPSIS
    ...     import nowhere
    Traceback (most recent call last):
    ModuleNotFoundError: nowhere is not installed; ... pip install "hdpm-lib[book]"
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error.name} is not installed; it comes with an extra: pip install"
            f' "hdpm-lib[{name}]"',
            name=error.name,
        ) from error
