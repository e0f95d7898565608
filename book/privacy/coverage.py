"""Which options each check of the battery runs: seen while it runs, and compared with the public signatures.

An *option* is an argument of a public function that draws noise for private data, of one that calibrates it, or of an
estimator. It has several *kinds* of value: those that its type lists, its default and another one, no value and some;
for features their number and type, for `size` one release, a batch and a table.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, get_type_hints

import numpy as np
import pandas as pd

import hdpm_lib.learners
from hdpm_book.privacy.battery import settings
from hdpm_book.privacy.benches import Setting, choices
from hdpm_book.privacy.mutants import BITS, BUDGET, CENTRE, CHECKS, GRID, LAW, LEARNERS, METER, REPEATS
from hdpm_book.ridge import jorgensen, variants
from hdpm_lib.learners import logistic

Function = Callable[..., Any]
Seen = dict[tuple[str, str], set[str]]  # kinds of value, by function and argument

DATA = ("X", "features", "gradients", "terms", "data")  # private arrays, whose type may matter
DIMENSIONS = ("1", "2", "12", "31", "60")
PLAIN = "given"
NO_OPTIONS = {"rng", "self", "random_state"}
IMPOSSIBLE = {
    ("lattice.lattice_ridge", "X", "60 features"): "more than 50 are refused",
    ("estimators.PrivateLogisticRegression", "classes", "none"): "a warning says that labels become public",
}
LEFT_OUT = {
    "gradients.draw_bidders": "draws who is asked, not noise",
    "integer_answers.gradient_noise": "runs inside integer_gradients and fedsgd",
}


# --- what there is ----------------------------------------------------------------------------------------------------


@cache
def functions() -> dict[str, Function]:
    """Public functions of the learners that draw noise or calibrate it, methods and estimators included, by name."""
    names = [m.name for m in pkgutil.iter_modules(hdpm_lib.learners.__path__, "hdpm_lib.learners.")]
    modules = [*map(importlib.import_module, names), jorgensen, variants]
    own = {
        f"{module.__name__.rsplit('.', 1)[1]}.{name}": value
        for module in modules
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__ and callable(value)
    }
    found, held = dict[str, Function](), set[Any]()
    for name, value in own.items():
        if inspect.isclass(value):
            methods = {k: v for k, v in vars(value).items() if inspect.isfunction(v) and not k.startswith("_")}
            drawing = {f"{name}.{k}": v for k, v in methods.items() if "rng" in inspect.signature(v).parameters}
            if drawing:
                held.add(value)
            found |= drawing
            if "random_state" in inspect.signature(value).parameters:
                found |= {name: value.__init__, f"{name}.fit": methods["fit"]}
        elif "rng" in inspect.signature(value).parameters:
            found[name] = value
            held |= {kind for kind in get_type_hints(value).values() if dataclasses.is_dataclass(kind)}
    for name, value in own.items():
        if not inspect.isclass(value) and get_type_hints(value).get("return") in held:
            found[name] = value
    found["logistic.eta_within"] = logistic.eta_within
    return {name: value for name, value in sorted(found.items()) if name not in LEFT_OUT}


def arguments(function: Function) -> list[str]:
    """The options of a function."""
    return [name for name in inspect.signature(function).parameters if name not in NO_OPTIONS]


@cache
def _told(function: Function, name: str) -> tuple[tuple[Any, ...], Any]:
    """Choices and default of an option."""
    return choices(function, name), inspect.signature(function).parameters[name].default


def wanted(function: Function, name: str) -> set[str]:
    """The kinds of value that an option has."""
    if name == "size":
        return {"a batch"} if get_type_hints(function)[name] is int else {"one", "a batch", "a table"}
    listed, default = _told(function, name)
    if listed:
        return {str(kind) for kind in listed}
    if default is None:
        return {"none", PLAIN}
    if default is not inspect.Parameter.empty:
        return {"the default", "another"}
    if name in DATA:
        return {"float32", "float64"} | {f"{d} features" for d in DIMENSIONS if name in ("X", "features")}
    return {PLAIN}


def kind_of(function: Function, name: str, value: Any) -> set[str]:
    """The kinds to which a value belongs."""
    if name == "size":
        return {"one" if value == () else "a table" if isinstance(value, tuple) else "a batch"}
    listed, default = _told(function, name)
    if listed:
        return {str(value)}
    if default is None:
        return {"none" if value is None else PLAIN}
    if default is not inspect.Parameter.empty:
        return {"the default" if np.array_equal(value, default) else "another"}
    if name in DATA:
        array = np.asarray(value)
        kinds = {"float32" if array.dtype == np.float32 else "float64"}
        return kinds | ({f"{array.shape[-1]} features"} if array.ndim else set())
    return {PLAIN}


# --- what is run ------------------------------------------------------------------------------------------------------


@contextmanager
def watched(seen: Seen) -> Iterator[None]:
    """Note the kinds of value with which the functions are called, through whatever calls them."""
    codes = {function.__code__: (name, function, arguments(function)) for name, function in functions().items()}

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in codes:
            name, function, named = codes[frame.f_code]
            for argument in named:
                seen[name, argument] |= kind_of(function, argument, frame.f_locals[argument])

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)


def looks(setting: Setting) -> dict[str, Callable[[], object]]:
    """The checks that a setting has, each at its first look; repeats are looked for in the draws of the noise law."""
    rng = np.random.default_rng(0)
    noise, plain, bits = setting.noise, setting.plain, setting.bits
    found: dict[str, Callable[[], object] | None] = {
        check: getattr(setting, check) for check in (BUDGET, METER, CENTRE)
    }
    found[LAW] = None if noise is None else lambda: noise(setting.draws[0], rng)
    found[GRID] = None if plain is None else lambda: plain(20, rng)
    found[BITS] = None if bits is None else lambda: bits(200, rng)
    return {check: look for check, look in found.items() if look is not None}


def run() -> dict[str, Seen]:
    """The kinds of value that each check has run, by check."""
    seen: dict[str, Seen] = {check: defaultdict(set) for check in CHECKS}
    for setting in (setting for learner in LEARNERS for setting in settings(learner)):
        for check, look in looks(setting).items():
            here: Seen = defaultdict(set)
            with watched(here):
                look()
            for found in (check, REPEATS) if check == LAW and setting.repeats else (check,):
                for option, kinds in here.items():
                    seen[found][option] |= kinds
    return seen


NO_RELEASE = "needs no release: it looks at the numbers of the mechanism and at its noiseless answer"
REASONS: dict[str, tuple[str, Mapping[str, str]]] = {  # letter: reason, and for each check the rows that it is for
    "a": (
        NO_RELEASE,
        dict.fromkeys((BUDGET, METER, CENTRE), r"release\w* (size|project|terms|data|records|moments)|draw_masks"),
    ),
    "b": (
        "whole numbers lie on a grid, and that is what is promised; {doc}`arithmetic`",
        {GRID: r"integer_|lattice\.|estimators\.PrivateLog"},
    ),
    "c": (
        "a single number on few steps may come twice; repeats are counted exactly in the law of the noise",
        {REPEATS: r"integer_|private_constant|nonlinear_query"},
    ),
    "d": (
        "one fit a release is too slow for thousands of runs; the learners inside are tested",
        {BITS: r"estimators\."},
    ),
    "e": (
        "a mixture of estimates: its exact density is metered, and its law tested set by set",
        {BITS: r"jorgensen\."},
    ),
    "f": ("draws who is kept, no noise: its shares are compared with the formula (centre)", {GRID: r"draw_masks"}),
    "g": ("it tells no numbers of its own that could be recomputed", {BUDGET: r"private_constant|integer_gradients"}),
    "h": ("calibrates; what is released with its number is looked at", {BITS: r"eta_within", GRID: r"eta_within"}),
    "i": (
        "one owner's gradient without noise is looked at, by the function inside",
        {METER: r"integer_gradients", CENTRE: r"integer_gradients"},
    ),
}


def reason(name: str, argument: str, check: str) -> str | None:
    """The letter of the reason why a check does not run an option, if there is one."""
    row = f"{name} {argument}"
    return next((k for k, (_, rows) in REASONS.items() if check in rows and re.search(rows[check], row)), None)


@dataclasses.dataclass(frozen=True)
class Coverage:
    """What checks have run, of what there is.

    `missed` holds the kinds that no check at all has run, but for those in `IMPOSSIBLE`; `unexplained` the cells of the
    table that are empty without a reason, and the reasons for cells that are not.
    """

    seen: Mapping[str, Mapping[tuple[str, str], set[str]]]

    def rows(self) -> list[tuple[str, str]]:
        """Functions with their options."""
        return [
            (name, argument)
            for name, function in functions().items()
            for argument in inspect.signature(function).parameters
            if argument not in NO_OPTIONS
        ]

    @property
    def missed(self) -> set[tuple[str, str, str]]:
        """Function, option and kind, where no check ran it and no reason says why."""
        known = functions()
        return {
            (name, argument, kind)
            for name, argument in self.rows()
            for kind in wanted(known[name], argument)
            if (name, argument, kind) not in IMPOSSIBLE
            and not any(kind in seen.get((name, argument), ()) for seen in self.seen.values())
        }

    @property
    def unexplained(self) -> set[tuple[str, str, str]]:
        """Function, option and check where nothing was run and no reason says why."""
        return {
            (name, argument, check)
            for name, argument in self.rows()
            for check in CHECKS
            if not self.seen[check].get((name, argument)) and reason(name, argument, check) is None
        }

    def table(self) -> pd.DataFrame:
        """For each option of several kinds and each check: how many of the kinds were run, or why none was."""
        known, rows = functions(), {}
        for name, argument in self.rows():
            kinds = wanted(known[name], argument)
            if len(kinds) > 1:
                seen = {check: len(kinds & self.seen[check].get((name, argument), set())) for check in CHECKS}
                cells = {check: f"{n} of {len(kinds)}" if n < len(kinds) else "all" for check, n in seen.items()}
                empty = {check: reason(name, argument, check) or "?" for check, n in seen.items() if n == 0}
                rows[name.partition(".")[2], argument] = cells | empty
        return pd.DataFrame(rows).T.rename_axis(["function", "option"])

    def counts(self) -> dict[str, int]:
        """Options, kinds of value of all of them, kinds that nothing ran, and empty cells without a reason."""
        known = functions()
        kinds = sum(len(wanted(known[name], argument)) for name, argument in self.rows())
        return {
            "functions": len(known),
            "options": len(self.rows()),
            "kinds of value": kinds,
            "kinds that no check ran": len(self.missed),
            "empty cells without a reason": len(self.unexplained),
        }


def reasons() -> pd.Series:
    """Letters in the table, and what they stand for."""
    return pd.Series({letter: text for letter, (text, _) in REASONS.items()})
