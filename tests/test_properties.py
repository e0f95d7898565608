"""Every public function, driven by its signature: what its documented ranges admit works, what they
do not is refused.

In range: no warning, no endless run, no NaN or infinity but where the documentation has one, no
error but a documented one. Out of range: a ValueError or TypeError that names the argument. Objects
of the library's own classes are passed as they should be. `HDPM_EXAMPLES=1000 pytest
tests/test_properties.py` looks longer.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib
import inspect
import itertools
import os
import pkgutil
import re
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hdpm_lib
from hdpm_lib.validation import RANGE, check_positive
from tests import signatures as table
from tests.strategies import FLAG, Array, Kind, Number, Scene

LOOKS_AT = ["hdpm_lib"]
EXAMPLES = int(os.environ.get("HDPM_EXAMPLES", "12"))
PATIENCE = 60.0  # seconds for one call
ALL_HEALTH = list(HealthCheck)


# --- what there is ------------------------------------------------------------------------------


def public_functions() -> dict[str, Callable[..., Any]]:
    """Functions, methods and checking constructors of the library, as ``module.name``."""
    found: dict[str, Callable[..., Any]] = {}
    for info in pkgutil.walk_packages(hdpm_lib.__path__, "hdpm_lib."):
        module = importlib.import_module(info.name)
        short = info.name.removeprefix("hdpm_lib.")
        for name, thing in vars(module).items():
            if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__:
                continue
            where = f"{short}.{name}"
            if inspect.isclass(thing):
                if "__post_init__" in vars(thing):
                    found[where] = thing
                for part, method in vars(thing).items():
                    if not part.startswith("_") and isinstance(method, staticmethod | classmethod):
                        found[f"{where}.{part}"] = getattr(thing, part)
                    elif not part.startswith("_") and inspect.isfunction(method):
                        found[f"{where}.{part}"] = method
            elif callable(thing):
                found[where] = thing
    return found


def places(name: str) -> set[str]:
    """A function, its class and its module."""
    parts = name.split(".")
    return {".".join(parts[:k]) for k in range(1, len(parts) + 1)}


FUNCTIONS = public_functions()
LEFT_OUT = set(" ".join(table.LEFT_OUT.values()).split())
TRIED = sorted(name for name in FUNCTIONS if not places(name) & LEFT_OUT)


def kinds(name: str, function: Callable[..., Any]) -> dict[str, tuple[Any, inspect.Parameter]]:
    """The kind of each argument of a function."""
    found = {}
    special = table.SPECIAL.get(name, {})
    for argument, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        kind = special.get(argument) or table.BY_NAME.get(argument)
        if argument == "self" and kind is None:
            kind = Kind(table.OBJECTS[name.rsplit(".", 1)[0]])
        if kind is None and parameter.annotation == "bool":
            kind = FLAG
        assert kind is not None, (
            f"say in tests/signatures.py what {argument} of {name} is, or why it is left out"
        )
        found[argument] = kind, parameter
    return found


def arguments(name: str, function: Callable[..., Any], scene: Scene) -> dict[str, Any]:
    """Values inside the documented ranges; optional ones are left out half of the time."""
    found = {}
    for argument, (kind, parameter) in kinds(name, function).items():
        if (
            parameter.default is parameter.empty
            or argument in table.ALWAYS
            or scene.draw(st.booleans())
        ):
            found[argument] = kind.good(scene)
    return found


# --- what is asked ------------------------------------------------------------------------------


@contextlib.contextmanager
def patience(seconds: float) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise TimeoutError(f"still running after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def numbers(thing: Any, where: str = "result") -> Iterator[tuple[str, np.ndarray]]:
    """All arrays of floats in a result, each with its place."""
    if isinstance(thing, pd.DataFrame | pd.Series):
        yield from numbers(
            thing.select_dtypes("number").to_numpy() if thing.ndim == 2 else thing.to_numpy(), where
        )
    elif isinstance(thing, Mapping):
        for key, part in thing.items():
            yield from numbers(part, f"{where}[{key!r}]")
    elif isinstance(thing, list | tuple):
        for i, part in enumerate(thing):
            yield from numbers(part, f"{where}[{i}]")
    elif dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        for part in dataclasses.fields(thing):
            yield from numbers(getattr(thing, part.name), f"{where}.{part.name}")
        for part, value in vars(type(thing)).items():
            if isinstance(value, property) and not part.startswith("_"):
                yield from numbers(getattr(thing, part), f"{where}.{part}")
    elif isinstance(thing, float | np.ndarray | np.generic) or hasattr(thing, "dtype"):
        with contextlib.suppress(TypeError):
            array = np.asarray(thing)
            if array.dtype.kind == "f":
                yield where, array


def documented(name: str, function: Callable[..., Any], wide: bool = False) -> str:
    """What a documented error says: of numbers too far apart for floats, the name of any
    argument.
    """
    said = table.ERRORS.get(name, "(?!)")
    if wide:
        names = {
            alias
            for argument in kinds(name, function)
            for alias in (argument, *table.ALIASES.get(argument, ()))
        }
        said = rf"{said}|(?<!\w)({'|'.join(map(re.escape, sorted(names)))})(?!\w)"
    return said


def complaint(
    call: Callable[[], Any],
    infinite: bool = False,
    errors: str = "(?!)",
    *,
    seconds: float = PATIENCE,
) -> str | None:
    """What is wrong with a call inside the documented ranges."""
    try:
        with patience(seconds), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", "the fit will be mostly noise")  # in range, and true
            result = call()
            found = list(numbers(result))
    except Exception as error:
        if isinstance(error, ValueError | RuntimeError) and re.search(errors, str(error)):
            return None
        return f"{type(error).__name__}: {error}"
    for where, array in found:
        if np.isnan(array).any():
            return f"{where} is not a number"
        if np.isinf(array).any() and not infinite:
            return f"{where} is infinite"
    return None


def refusal(call: Callable[[], Any], names: set[str]) -> str | None:
    """What is wrong with the refusal of a bad argument."""
    try:
        with patience(PATIENCE), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", "the fit will be mostly noise")  # of public numbers
            result = call()
            if inspect.isgenerator(result):
                next(result)
    except (ValueError, TypeError) as error:
        if any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", str(error)) for name in names):
            return None
        return f"does not say {' or '.join(sorted(names))}: {type(error).__name__}: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return f"taken: {result!r:.60}"


def refusals(name: str, function: Callable[..., Any], scene: Scene) -> list[str]:
    """Complaints about all bad values of all arguments of one function, one at a time, and about
    unequal lengths.
    """
    known = kinds(name, function)
    full = {argument: kind.good(scene) for argument, (kind, _) in known.items()}
    base = {a: full[a] for a, (_, p) in known.items() if p.default is p.empty or a in table.ALWAYS}
    axes = {a: kind.shape[:1] for a, (kind, _) in known.items() if isinstance(kind, Array)}
    found = []

    def ask(argument: str, label: str, value: Any, others: set[str]) -> None:
        names = {argument, *table.ALIASES.get(argument, ()), *others}
        if said := refusal(lambda: function(**base | {argument: value}), names):
            found.append(f"{name}({argument}: {label}) {said}")

    for argument, (kind, parameter) in known.items():
        private = "learners.", "audits.ridge.", "audits.objective."
        takes_text = name.startswith(private) and argument in table.PRIVATE
        skipped = {"strings"} if takes_text else set()
        if parameter.default is None or "None" in str(parameter.annotation):
            skipped.add("None")
        for label, value in kind.bad(scene):
            if label not in skipped:
                ask(argument, label, value, set())
        others = {
            a
            for a in base
            if a != argument and axes.get(argument) and axes.get(a) == axes[argument]
        }
        if others:
            ask(
                argument,
                "longer",
                np.concatenate([full[argument], full[argument][-1:]]),
                others | {"records"},
            )
    return found


# --- the tests ----------------------------------------------------------------------------------


def test_tables_speak_of_what_is_there() -> None:
    there = set().union(*map(places, FUNCTIONS))
    assert {*LEFT_OUT, *table.SPECIAL, *table.OBJECTS} <= there
    for names, special in table.RANGES.items():
        named = set().union(
            *(inspect.signature(FUNCTIONS[name]).parameters for name in names.split())
        )
        assert set(table.by_word(special)) <= named, names


def look(name: str, examples: int, wide: bool = False) -> None:
    """Calls inside the documented ranges: no complaint."""
    function = FUNCTIONS[name]

    @settings(max_examples=examples, suppress_health_check=ALL_HEALTH)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        given_ = arguments(name, function, table.scene(name, data.draw, wide))
        how = name in table.INFINITE, documented(name, function, wide)
        assert complaint(lambda: function(**given_), *how) is None, given_

    run()


@pytest.mark.parametrize("name", TRIED)
def test_in_range(name: str) -> None:
    """A finite result without a warning, or, where 1e-12 and 1e12 stand side by side, an error that
    says which is.
    """
    look(name, min(EXAMPLES, 2) if name in table.FEW else EXAMPLES)
    if name not in table.FEW:
        look(name, max(EXAMPLES // 2, 1), wide=True)


def refused(name: str, function: Callable[..., Any]) -> list[str]:
    """Complaints about one draw of the arguments of a function, spoilt in turn."""
    found = []

    @settings(max_examples=1, suppress_health_check=ALL_HEALTH)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        found[:] = refusals(name, function, table.scene(name, data.draw))

    run()
    return found


@pytest.mark.parametrize("name", TRIED)
def test_out_of_range(name: str) -> None:
    """Every argument in turn, of a wrong type, shape or size: refused by name."""
    assert refused(name, FUNCTIONS[name]) == []


# --- the ends of the floats ---------------------------------------------------------------------

# below and above the range of use, and beyond what squares are floats of
BEYOND = (1e-320, 1e-300, 1e-160, 1e160, 1e300, 1.7e308)


def of_size(kind: Any, ordinary: Any, sizes: tuple[float, ...]) -> list[Any]:
    """Values of an argument of these sizes, inside its range: all of an array, and the last."""
    values: list[Any] = []
    for size in sizes:
        if not isinstance(kind, Number | Array) or not kind.low <= size <= kind.high:
            continue
        if isinstance(kind, Number):
            values.append(size)
        elif not kind.whole:
            one = np.array(ordinary, dtype=float)
            values.append(np.full(one.shape, size))
            one.flat[-1:] = size
            values.append(one)
    return values


def at_the_ends(name: str, scene: Scene) -> list[str]:
    """Complaints about each argument beyond the range of use, and about each two at its ends."""
    function = FUNCTIONS[name]
    known = kinds(name, function)
    full = {argument: kind.good(scene) for argument, (kind, _) in known.items()}
    base = {a: full[a] for a, (_, p) in known.items() if p.default is p.empty or a in table.ALWAYS}
    changes = [
        {argument: value}
        for argument, (kind, _) in known.items()
        for value in of_size(kind, full[argument], BEYOND)
    ]
    ends = {a: of_size(kind, full[a], RANGE) for a, (kind, _) in known.items()}
    for first, second in itertools.combinations(ends, 2):
        for value, other in itertools.product(ends[first], ends[second]):
            changes.append({first: value, second: other})
    how = name in table.INFINITE, documented(name, function, wide=True)
    said = [(complaint(lambda c=c: function(**base | c), *how), c) for c in changes]
    return [f"{name}: {found} at {change}" for found, change in said if found]


PUBLIC = sorted(name for name in set(TRIED) - table.FEW if "estimators" not in name)


@pytest.mark.parametrize("name", PUBLIC)
def test_at_the_ends_of_the_floats(name: str) -> None:
    """A finite result without a warning, or an error that names an argument: before data come."""
    found = []

    @settings(max_examples=1, suppress_health_check=ALL_HEALTH)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        found[:] = at_the_ends(name, table.scene(name, data.draw))

    run()
    assert found == []


# --- numbers as a database has them -------------------------------------------------------------


def as_decimals(value: Any) -> Any:
    """The same number or array of numbers as decimals; what is no number stays."""
    if isinstance(value, float):
        return Decimal(value)
    if isinstance(value, np.ndarray) and value.dtype.kind == "f" and np.isfinite(value).all():
        exact = np.empty(value.shape, dtype=object)
        exact.flat = [Decimal(number) for number in value.ravel().tolist()]
        return exact
    return value


@pytest.mark.parametrize("name", TRIED)
def test_decimals_are_numbers(name: str) -> None:
    """A function says of decimals what it says of the same floats."""
    function = FUNCTIONS[name]

    def said(given_: dict[str, Any]) -> list[tuple[str, Any]]:
        try:
            return list(numbers(function(**given_)))
        except ValueError as error:  # arguments that do not go together
            return [("error", str(error))]

    @settings(max_examples=1, suppress_health_check=ALL_HEALTH)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        scene = table.scene(name, data.draw)
        floats = {a: kind.good(scene) for a, (kind, _) in kinds(name, function).items()}
        decimals = {a: as_decimals(value) for a, value in floats.items()}
        if "rng" in decimals:
            decimals["rng"] = copy.deepcopy(floats["rng"])
        for (where, array), (_, other) in zip(said(floats), said(decimals), strict=True):
            np.testing.assert_array_equal(array, other, err_msg=where)

    run()


# --- what is kept, and what is handed out -------------------------------------------------------


def spoilt(call: Callable[..., Any], given_: Mapping[str, Any]) -> str | None:
    """What of a result changes when all arrays are written to that went in and came out."""
    result = call(**given_)
    before = [(where, array.copy()) for where, array in numbers(result)]
    shown = repr(result) if dataclasses.is_dataclass(result) else ""
    handed_out = numbers(result) if dataclasses.is_dataclass(result) else ()
    arrays = [array for array in given_.values() if isinstance(array, np.ndarray)]
    for array in [*arrays, *(array for _, array in handed_out)]:
        if array.flags.writeable:
            array[...] = array / 2 + 1
    for (where, old), (_, new) in zip(before, numbers(result), strict=True):
        if not np.array_equal(old, new, equal_nan=True):
            return where
    assert not dataclasses.is_dataclass(result) or (repr(result) == shown and result == result)
    assert not re.search(r"np\.\w+\(", shown), shown
    return None


@pytest.mark.parametrize("name", TRIED)
def test_results_stay_as_they_were_made(name: str) -> None:
    """What is kept is copied, what is handed out cannot be written to."""

    @settings(max_examples=1, suppress_health_check=ALL_HEALTH)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        given_ = arguments(name, FUNCTIONS[name], table.scene(name, data.draw))
        with contextlib.suppress(ValueError):  # numbers too far apart, which other tests look at
            assert spoilt(FUNCTIONS[name], given_) is None

    run()


# --- the tests can fail -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: np.array([1.0, np.nan]), "result is not a number"),
        (lambda: {"a": (1.0, np.float64(np.inf))}, "result['a'][1] is infinite"),
        (lambda: [k for k in itertools.count() if k < 0], "still running"),
        (lambda: np.float64(1) / np.float64(0), "RuntimeWarning"),
        (lambda: check_positive(-1, "scale"), "ValueError"),
    ],
)
def test_broken_function_is_found_in_range(call: Callable[[], Any], said: str) -> None:
    assert (
        said in (complaint(call, seconds=0.5) or "")
        and complaint(lambda: check_positive(2, "scale")) is None
    )


@dataclasses.dataclass(frozen=True)
class Kept:
    """Frozen, and yet it changes."""

    weights: np.ndarray

    @property
    def doubled(self) -> np.ndarray:
        return 2 * self.weights


def test_what_others_can_write_to_is_found() -> None:
    given_ = {"weights": np.ones(3)}
    assert spoilt(Kept, given_) == "result.weights"
    assert spoilt(lambda weights: Kept(weights.copy()), given_) == "result.weights"
    assert spoilt(lambda weights: weights, given_) == "result"
    assert spoilt(lambda weights: 2 * weights, given_) is None


def correct(scale: Any) -> float:
    return check_positive(scale, "scale")


@pytest.mark.parametrize(
    ("toy", "found"),
    [
        (correct, set()),
        (lambda scale: 1.0 if scale is None else correct(scale), {"None"}),
        (lambda scale: correct(float(scale) if isinstance(scale, bool) else scale), {"True"}),
        (lambda scale: correct(scale["scale"] if isinstance(scale, str) else scale), {"a string"}),
        (
            lambda scale: check_positive(scale, "size"),
            {"None", "a string", "a list", "True", "nan", "inf", "-inf", "0.0", "-0.5"},
        ),
    ],
)
def test_broken_function_is_found_out_of_range(toy: Callable[..., Any], found: set[str]) -> None:
    assert {re.search(r"\(scale: (.*?)\)", line)[1] for line in refused("toy", toy)} == found
