"""Checks at the public boundary: an error names the argument, its range, and the value.

A number may be of Python, NumPy or JAX, a fraction or a decimal, as a database has them. A value of
the wrong kind (None, a string, a boolean or a complex number, a list where one number is asked, a
masked array) is a TypeError; a number out of range, NaN and infinity among them, a ValueError. No
check changes a number. Errors about arrays say one value at most, and none of a wrong kind.

Public numbers are at most 1e100 in size, and single ones and those of an array of positive numbers
at least 1e-100, if not 0: floats then hold their ratios and squares. Other sizes need other units.

Checks of private data stand in :mod:`hdpm_lib.private`.

Throughout, `name` is the argument's name, `low` and `high` are its range, `ends` says which of the
two belong to it, in the notation of intervals, and `why` gives the reason for the range in a few
words.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Hashable, Iterator, Set
from contextlib import contextmanager, suppress
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from importlib import metadata
from numbers import Integral, Rational, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import hdpm_lib

Array = NDArray[np.float64]

FALSE_ALARM = 1e-6
"""Probability with which one stochastic check may fail although what it checks is true.

Every such check, in chapters and in tests, takes its threshold from this one number, at the number
of draws it states. At one in a million, the few thousand checks of the whole book fail without
cause in less than one run of a hundred, so that no check needs a seed that was picked because it
passes.
"""


RANGE = (1e-100, 1e100)
"""Sizes of public numbers that are not 0."""


@lru_cache
def _range(low: float, high: float, ends: str, why: str) -> str:
    """Say in words what a number must be."""
    if np.isfinite(low) and np.isfinite(high):
        must = f"lie in {ends[0]}{low:.6g}, {high:.6g}{ends[1]}"
    elif np.isfinite(high):
        relation = "at most" if ends[1] == "]" else "below"
        must = f"be finite and {relation} {high:.6g}"
    elif low == 0:
        must = "be finite and not negative" if ends[0] == "[" else "be positive and finite"
    elif np.isfinite(low):
        relation = "at least" if ends[0] == "[" else "above"
        must = f"be finite and {relation} {low:.6g}"
    else:
        must = "be finite"
    if why:
        must += f" ({why})"
    return must


def _inside(value: Any, low: float, high: float, ends: str) -> NDArray[np.bool_]:
    """Tell which values are finite and in the range."""
    above = value >= low if ends[0] == "[" else value > low
    below = value <= high if ends[1] == "]" else value < high
    return np.isfinite(value) & above & below


def _scalar(value: Any, name: str, must: str) -> Any:
    """Return the number that `value` is; an error says what it must be."""
    number = value
    if hasattr(value, "dtype"):  # NumPy's and JAX's, also in an array without dimensions
        number = None
        if value.shape == () and value.dtype.kind in "iuf" and not np.ma.isMaskedArray(value):
            number = value.item()
    if not is_real(number):
        raise TypeError(f"{name} must be a number and {must}, got {reprlib.repr(value)}")
    return number


def is_real(value: object) -> bool:
    """Tell whether a value is one real number: a decimal is, a boolean is not."""
    return isinstance(value, Real | Decimal) and not isinstance(value, bool)


def check_number(
    value: object,
    name: str,
    low: float = -np.inf,
    high: float = np.inf,
    *,
    ends: str = "[]",
    why: str = "",
) -> float:
    """Return one finite real number in a range, as a float.

    It may also be in an array without dimensions.

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
    as_given = as_float(number)
    if not _inside(as_given, low, high, ends):
        got = value
        if as_given == np.inf:  # a whole number of many digits
            got = reprlib.repr(value)
        raise ValueError(f"{name} must {must}, got {got}")
    _check_units(as_given, as_given, name)
    return as_given


def as_float(number: Any) -> float:
    """Return the float nearest to a real number, infinite where it is beyond the floats."""
    try:
        return float(number)
    except OverflowError:
        return np.inf if number > 0 else -np.inf


def _check_units(least: float, most: float, name: str) -> None:
    """Refuse numbers between these two if floats do not hold all that is computed from them."""
    for number in (least, most):
        if number and not RANGE[0] <= abs(number) <= RANGE[1]:
            raise ValueError(
                f"{name} must have a size from {RANGE[0]:g} to {RANGE[1]:g}: take other units, got"
                f" {number:g}"
            )


def check_positive(value: object, name: str) -> float:
    """Return a positive, finite number as a float."""
    return check_number(value, name, 0, ends="()")


def check_penalty(penalty: object, feature_norm: float = 0.0) -> float:
    """Return the ridge penalty as a float: at least the squared feature norm over 2**40.

    Below that rounding loses it: with some data the equations would be singular, and the error tell
    of them.
    """
    lam = check_positive(penalty, "penalty")
    least = feature_norm * feature_norm * 2.0**-40
    if lam < least:
        raise ValueError(
            f"penalty must be at least {least:.3g}, or rounding hides it beside features, got"
            f" {penalty}"
        )
    return lam


def check_cap(cap: object, m: int) -> float:
    """Return the most that one of `m` weights with sum 1 may be: `cap`, or 1 for None."""
    if cap is None:
        return 1.0
    must = f"lie in [1/m, 1] = [{1 / m:.6g}, 1]"
    top = _scalar(cap, "cap", must)
    if not (1 - 1e-12) / m <= top <= 1:
        raise ValueError(f"cap must {must}, got {cap}")
    return max(float(top), 1 / m)


def check_count(value: object, name: str, least: int = 1, most: float = np.inf) -> int:
    """Return an integer between `least` and `most`; floats count if they are whole."""
    if most < np.inf:
        kind = f"an integer from {least} to {most}"
    elif least == 1:
        kind = "a positive integer"
    else:
        kind = f"an integer of at least {least}"
    number = _scalar(value, name, f"be {kind}")
    if not isinstance(number, Integral):
        rounded = float(number)
        if not (np.isfinite(rounded) and rounded.is_integer()):
            raise ValueError(f"{name} must be {kind}, got {value}")
    if not least <= number <= most:
        raise ValueError(f"{name} must be {kind}, got {reprlib.repr(value)}")
    return int(number)


def check_rational(value: object, name: str) -> Fraction:
    """Return a positive rational as a fraction; floats are refused."""
    if isinstance(value, bool) or not isinstance(value, Rational) or value <= 0:
        raise ValueError(
            f"{name} must be a positive Fraction or integer, got {reprlib.repr(value)}"
        )
    return Fraction(int(value.numerator), int(value.denominator))


def check_flag(value: object, name: str) -> bool:
    """Return True or False, and refuse what merely counts as one of them: "no" counts as true."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {reprlib.repr(value)}")
    return bool(value)


def check_choice(value: object, name: str, choices: tuple[str, ...]) -> None:
    """Refuse what is none of `choices`: a misspelt option must not pick another."""
    if not (isinstance(value, str) and value in choices):
        options = " or ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be {options}, got {reprlib.repr(value)}")


def check_ordered(value: Any, name: str) -> Any:
    """Return what has an order of its own; refuse a set, whose order changes between runs."""
    if isinstance(value, Set):
        raise TypeError(
            f"{name} must be a list, for its order means something, got {reprlib.repr(value)}"
        )
    return value


def check_levels(value: Any, name: str) -> tuple[Hashable, ...]:
    """Return two or more different labels, of a category or classes; NumPy's become Python's.

    A missing one is refused, for tables hold what is missing in many forms; so is text that ends
    with a zero character, which NumPy drops.

    Examples
    --------
    >>> check_levels(np.array(["no", "yes"]), "levels")
    ('no', 'yes')
    >>> check_levels("ny", "levels")
    Traceback (most recent call last):
    ValueError: levels must be two labels or more, all different and none missing, got 'ny'
    """
    check_ordered(value, name)
    levels: tuple[Hashable, ...] = ()
    different = 0
    with suppress(TypeError):  # what is no list, or cannot be hashed
        if not isinstance(value, str | bytes):
            levels = tuple(_plain_label(label) for label in value)
        different = len(set(levels))
    all_different = 2 <= different == len(levels)
    if not all_different or any(_is_missing(level) for level in levels):
        got = reprlib.repr(list(levels) or value)
        raise ValueError(
            f"{name} must be two labels or more, all different and none missing, got {got}"
        )
    for level in levels:
        if isinstance(level, str | bytes) and level[-1:] in ("\0", b"\0"):
            raise ValueError(
                f"{name} must not end with a zero character, which NumPy drops, got {level!r}"
            )
    return levels


def _plain_label(label: Any) -> Any:
    """Turn a number or text of NumPy's into Python's."""
    if isinstance(label, np.generic) and label.dtype.kind in "biufUS":
        return label.item()
    return label


def _is_missing(label: Any) -> bool:
    """Tell whether a label is None, NaN, or what else tables write for a missing cell."""
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas's NA compares to nothing
        return True


def check_generator(rng: object, name: str = "rng") -> np.random.Generator:
    """Return a NumPy generator, from which noise and samples are drawn."""
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
    """Return a non-empty array of finite numbers in a range; copied only if it must be.

    It has `ndim` dimensions, or any number of them if that is not given.

    Examples
    --------
    >>> check_finite([1, -2], "weights", 1, 0)
    Traceback (most recent call last):
    ValueError: weights must be finite and not negative, got -2.0
    """
    array = np.asarray(check_numeric(value, name), dtype=float)
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name} is empty (shape {array.shape})")
    extremes = np.array([array.min(), array.max()])  # NaN if there is one
    if not _inside(extremes, low, high, ends).all():
        bad = ~_inside(array, low, high, ends)
        raise ValueError(f"{name} must {_range(low, high, ends, why)}, got {array[bad].flat[0]}")
    # where 0 is admitted, a number that is too small to count does no harm
    least = float(extremes[0]) if low == 0 and ends[0] == "(" else 0.0
    _check_units(least, max(float(np.abs(extremes).max()), 1.0), name)
    return array


def check_squared(value: ArrayLike, name: str) -> Array:
    """Return numbers, not negative, whose squares are not lost: each is 0 or in the range.

    Examples
    --------
    >>> check_squared([0.0, 1e-170], "mu")
    Traceback (most recent call last):
    ValueError: mu must have a size from 1e-100 to 1e+100: take other units, got 1e-170
    """
    array = check_finite(value, name, low=0)
    _check_units(float(array.min(initial=1.0, where=array > 0)), 1.0, name)
    return array


def check_numeric(value: ArrayLike, name: str) -> NDArray[Any]:
    """Return an array of integers or floats, of any shape and type, also NaN and infinity.

    Examples
    --------
    >>> check_numeric([Decimal("0.5"), Fraction(1, 4), 2], "costs")
    array([0.5 , 0.25, 2.  ])
    """
    try:
        array = np.asarray(value)
    except ValueError:
        raise TypeError(
            f"{name} must be an array of numbers, got rows of unequal lengths"
        ) from None
    masked = np.ma.isMaskedArray(value)
    if array.dtype.kind == "O" and not masked and all(map(is_real, array.flat)):
        numbers = [as_float(number) for number in array.flat]
        array = np.array(numbers).reshape(array.shape)
    if masked:
        raise TypeError(f"{name} must be an array of numbers, got a masked array")
    if array.dtype.kind not in "iuf":
        got = "None" if value is None else f"dtype {array.dtype}"
        raise TypeError(f"{name} must be an array of numbers, got {got}")
    return array


def check_size(size: object) -> tuple[int, ...]:
    """Return the shape of a batch, from one count or several; ``()`` stands for one draw."""
    counts = size if isinstance(size, tuple | list) else [size]
    return tuple(check_count(count, "size", 0) for count in counts)


def check_epsilon(epsilon: ArrayLike, n_records: int | None = None) -> Array:
    """Return accepted privacy losses, positive and finite, as a vector of that length if given."""
    eps = check_finite(epsilon, "epsilon", 1, 0, ends="()")
    if n_records is not None and eps.size != n_records:
        raise ValueError(f"epsilon has {eps.size} entries for {n_records} records")
    return eps


def check_losses(epsilon: Any, n_records: int | None = None) -> Array:
    """Return losses that were bought, not negative, as a vector of that length if it is given.

    0 leaves a record out. Whatever has a ``privacy_loss``, as what a market decides, stands for it;
    an array and a column of a table, whatever they have, stand for themselves.

    Examples
    --------
    >>> check_losses([0.0, 2.0])
    array([0., 2.])
    """
    if not hasattr(epsilon, "__array__"):
        epsilon = getattr(epsilon, "privacy_loss", epsilon)
    eps = check_finite(epsilon, "epsilon", 1, 0)
    if not eps.any():
        raise ValueError("epsilon must be positive for somebody, got 0 for all")
    check_positive(eps.sum(), "the sum of epsilon")
    if n_records is not None and eps.size != n_records:
        raise ValueError(f"epsilon has {eps.size} entries for {n_records} records")
    return eps


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Say which of the project's extras an import in this block comes with, if it fails.

    Examples
    --------
    >>> with extra("book"):  # doctest: +ELLIPSIS
    ...     import nowhere
    Traceback (most recent call last):
    ModuleNotFoundError: nowhere is not installed; ... pip install "hdpm-lib[book] @ file://..."
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error.name} is not installed; it comes with an extra: pip install"
            f' "hdpm-lib[{name}] @ {_wheel()}"',
            name=error.name,
        ) from error


def check_one_place(name: str, folder: Path) -> None:
    """Check that a package of this project was found in the folder in which the library was found.

    Parameters
    ----------
    name : str
        The package.
    folder : Path
        The checkout in which it stands, or the folder in which it was installed.

    Raises
    ------
    ImportError
        If the library was found elsewhere, as with another checkout on ``PYTHONPATH``.

    Examples
    --------
    >>> check_one_place("hdpm_book", Path("elsewhere"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ImportError: hdpm_lib is found in ... and hdpm_book in ..., which belong together: ...
    """
    library = Path(hdpm_lib.__file__).resolve().parents[1]
    if folder.resolve() != library:
        raise ImportError(
            f"hdpm_lib is found in {library} and {name} in {folder.resolve()}, which belong"
            " together: run a Python in which the one that you mean is installed, and take the"
            " other off PYTHONPATH"
        )


def _wheel() -> str:
    """Say where the library was installed from, as pip has noted; it is in no index."""
    try:
        noted = metadata.distribution("hdpm-lib").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        noted = None
    if noted:
        return str(json.loads(noted)["url"])
    return f"file:///path/to/hdpm_lib-{hdpm_lib.__version__}-py3-none-any.whl"
