"""Every public function, driven by its signature: what its documented ranges admit works, what they do not is refused.

In range: no warning, no endless run, no NaN or infinity but where the documentation has one, no error but a documented
one. Out of range: a ValueError or TypeError that names the argument. Objects of the library's own classes are passed as
they should be. `HDPM_EXAMPLES=1000 pytest tests/test_properties.py` looks longer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import os
import pkgutil
import re
import signal
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hdpm_lib
from hdpm_lib.validation import check_positive
from tests import signatures as table
from tests.strategies import Array, Kind, Scene

EXAMPLES = int(os.environ.get("HDPM_EXAMPLES", "12"))
PATIENCE = 60.0  # seconds for one call
LOOK = settings(
    max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)


# --- what there is ----------------------------------------------------------------------------------------------------


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


def unknown(name: str) -> set[str]:
    """Arguments of a function that the tables say nothing about."""
    parameters = inspect.signature(FUNCTIONS[name]).parameters
    named = {argument for argument, p in parameters.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
    flags = {argument for argument in named if parameters[argument].annotation == "bool"}
    made = {"self"} if name.rsplit(".", 1)[0] in table.OBJECTS else set()
    return named - flags - made - set(table.BY_NAME) - set(table.SPECIAL.get(name, {}))


FUNCTIONS = public_functions()


def in_table(name: str, exempt: Collection[str]) -> bool:
    """Whether a function, its class or its module is in a table."""
    parts = name.split(".")
    return any(".".join(parts[:k]) in exempt for k in range(1, len(parts) + 1))


KEPT = sorted(name for name in FUNCTIONS if not in_table(name, table.LEFT_OUT))
DRIVEN = [name for name in KEPT if not unknown(name)]
CHECKED = sorted(name for name in DRIVEN if not in_table(name, table.INNER))


def kinds(name: str, function: Callable[..., Any]) -> dict[str, tuple[Kind, inspect.Parameter]]:
    """The kind of each argument of a function."""
    found, special = {}, table.SPECIAL.get(name, {})
    parameters = inspect.signature(function).parameters
    assert set(special) <= set(parameters), f"{name} has no argument {set(special) - set(parameters)}"
    for argument, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        kind = special.get(argument) or table.BY_NAME.get(argument)
        if argument == "self" and kind is None:
            kind = table.Made(table.OBJECTS[name.rsplit(".", 1)[0]])
        if kind is None and parameter.annotation == "bool":
            kind = table.FLAG
        assert kind is not None, f"{name}: nothing known of the argument {argument}"
        found[argument] = kind, parameter
    return found


def arguments(name: str, function: Callable[..., Any], scene: Scene) -> dict[str, Any]:
    """Values inside the documented ranges; optional ones are left out half of the time."""
    found = {}
    for argument, (kind, parameter) in kinds(name, function).items():
        if parameter.default is parameter.empty or argument in table.ALWAYS or scene.draw(st.booleans()):
            found[argument] = kind.good(scene)
    return found


# --- what is asked ----------------------------------------------------------------------------------------------------


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
        yield from numbers(thing.select_dtypes("number").to_numpy() if thing.ndim == 2 else thing.to_numpy(), where)
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
    """What a documented error says: of numbers too far apart for floats, the name of any argument."""
    said = table.ERRORS.get(name, "(?!)")
    if wide:
        names = {alias for argument in kinds(name, function) for alias in (argument, *table.ALIASES.get(argument, ()))}
        said = rf"{said}|(?<!\w)({'|'.join(map(re.escape, sorted(names)))})(?!\w)"
    return said


def complaint(
    call: Callable[[], Any],
    infinite: bool = False,
    nan: bool = False,
    errors: str = "(?!)",
    *,
    seconds: float = PATIENCE,
) -> str | None:
    """What is wrong with a call inside the documented ranges."""
    try:
        with patience(seconds), warnings.catch_warnings():
            warnings.simplefilter("error")
            result = call()
            found = list(numbers(result))
    except Exception as error:
        if isinstance(error, ValueError | RuntimeError) and re.search(errors, str(error)):
            return None
        return f"{type(error).__name__}: {error}"
    for where, array in found:
        if np.isnan(array).any() and not nan:
            return f"{where} is not a number"
        if np.isinf(array).any() and not infinite:
            return f"{where} is infinite"
    return None


def refusal(call: Callable[[], Any], names: set[str]) -> str | None:
    """What is wrong with the refusal of a bad argument."""
    try:
        with patience(PATIENCE), warnings.catch_warnings():
            warnings.simplefilter("error")
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
    """Complaints about all bad values of all arguments of one function, one at a time."""
    known = kinds(name, function)
    full = {argument: kind.good(scene) for argument, (kind, _) in known.items()}
    base = {a: full[a] for a, (_, p) in known.items() if p.default is p.empty or a in table.ALWAYS}
    found = []
    for argument, (kind, parameter) in known.items():
        names = {argument, *table.ALIASES.get(argument, ())}
        bad = kind.bad(scene)
        others = {
            a
            for a, (k, _) in known.items()
            if isinstance(k, Array)
            and isinstance(kind, Array)
            and a != argument
            and k.shape[:1]
            and k.shape[:1] == kind.shape[:1]
            and a in base
        }
        for label, value in bad:
            if label == "strings" and name.startswith("learners.") and argument in table.PRIVATE:
                continue
            if label == "None" and (parameter.default is None or "None" in str(parameter.annotation)):
                continue
            if said := refusal(lambda v=value, a=argument: function(**base | {a: v}), names):
                found.append(f"{name}({argument}: {label}) {said}")
        if others:
            longer = np.concatenate([full[argument], full[argument][-1:]])
            if said := refusal(lambda v=longer, a=argument: function(**base | {a: v}), names | others | {"records"}):
                found.append(f"{name}({argument}: longer) {said}")
    return found


# --- the tests --------------------------------------------------------------------------------------------------------


def test_all_public_functions_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    out = set(FUNCTIONS) - set(DRIVEN)
    places = {*FUNCTIONS, *(name.rsplit(".", k)[0] for name in FUNCTIONS for k in (1, 2))}
    assert {*table.LEFT_OUT, *table.INNER, *table.SPECIAL, *table.OBJECTS} <= places
    missing = {name: sorted(unknown(name)) for name in KEPT if unknown(name)}
    assert missing == {}, "say in tests/signatures.py what these arguments are, or why the function is left out"
    with capsys.disabled():
        print(f"\n{len(FUNCTIONS)} public functions: {len(DRIVEN)} driven in range, {len(CHECKED)} out of range too")
        for reason in sorted(set(table.LEFT_OUT.values())):
            why = {place for place, words in table.LEFT_OUT.items() if words == reason}
            names = [name for name in sorted(out) if in_table(name, why)]
            print(f"  {len(names)} left out, {reason}: {', '.join(names[:3])}{' ...' if len(names) > 3 else ''}")


@pytest.mark.parametrize("name", DRIVEN)
def test_in_range(name: str) -> None:
    """Ordinary values: a finite result, without a warning."""

    @settings(LOOK, max_examples=min(EXAMPLES, 2) if name in table.FEW else EXAMPLES)
    @given(st.data())
    def look(data: st.DataObject) -> None:
        given_ = arguments(name, FUNCTIONS[name], table.scene(name, data.draw))
        how = table.infinite(name), name in table.NAN, documented(name, FUNCTIONS[name])
        assert complaint(lambda: FUNCTIONS[name](**given_), *how) is None, given_

    look()


@pytest.mark.parametrize("name", [name for name in CHECKED if name not in table.FEW])
def test_extreme_magnitudes(name: str) -> None:
    """Numbers from 1e-12 to 1e12 side by side: a finite result, or an error that says which argument is too much."""

    @settings(LOOK, max_examples=max(EXAMPLES // 2, 1))
    @given(st.data())
    def look(data: st.DataObject) -> None:
        given_ = arguments(name, FUNCTIONS[name], table.scene(name, data.draw, wide=True))
        how = table.infinite(name), name in table.NAN, documented(name, FUNCTIONS[name], wide=True)
        assert complaint(lambda: FUNCTIONS[name](**given_), *how) is None, given_

    look()


@pytest.mark.parametrize("name", CHECKED)
def test_out_of_range(name: str) -> None:
    """Every argument in turn, of a wrong type, shape or size: refused by name."""

    @settings(LOOK, max_examples=1)
    @given(st.data())
    def look(data: st.DataObject) -> None:
        assert refusals(name, FUNCTIONS[name], table.scene(name, data.draw)) == []

    look()


# --- the tests can fail -----------------------------------------------------------------------------------------------


def correct(scale: float) -> float:
    return 1 / check_positive(scale, "scale")


def not_a_number(scale: float) -> np.ndarray:
    return np.array([check_positive(scale, "scale"), np.nan])


def endless(scale: float) -> float:
    while check_positive(scale, "scale"):
        pass
    return scale


def warning(scale: float) -> float:
    return float(np.float64(check_positive(scale, "scale")) / np.float64(0))


def taking_none(scale: float | str) -> float:
    return 1.0 if scale is None else correct(scale)


def flagged(scale: float) -> float:
    return correct(float(scale) if isinstance(scale, bool) else scale)


def misnamed(scale: float) -> float:
    return 1 / check_positive(scale, "size")


def broken_off(scale: float) -> float:
    return 1 / check_positive(scale["scale"], "scale") if isinstance(scale, str) else correct(scale)


def test_correct_function_passes() -> None:
    assert complaint(lambda: correct(2.0)) is None


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (not_a_number, "result is not a number"),
        (lambda scale: {"a": (1.0, np.float64(np.inf))}, "result['a'][1] is infinite"),
        (endless, "still running"),
        (warning, "RuntimeWarning"),
        (lambda scale: correct(-scale), "ValueError"),
    ],
)
def test_broken_function_is_found_in_range(broken: Callable[[float], Any], said: str) -> None:
    assert said in (complaint(lambda: broken(2.0), seconds=0.5) or "")


@pytest.mark.parametrize(
    ("toy", "found"),
    [
        (correct, set()),
        (taking_none, {"None"}),
        (flagged, {"True"}),
        (broken_off, {"a string"}),
        (misnamed, {"None", "a string", "a list", "True", "nan", "inf", "-inf", "0.0", "-0.5"}),
    ],
)
def test_broken_function_is_found_out_of_range(toy: Callable[..., Any], found: set[str]) -> None:
    @settings(LOOK, max_examples=1)
    @given(st.data())
    def look(data: st.DataObject) -> None:
        said = refusals("toy", toy, Scene(data.draw))
        assert {re.search(r"\(scale: (.*?)\)", line)[1] for line in said} == found

    look()
