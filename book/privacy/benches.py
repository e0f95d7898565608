r"""What the checks of :mod:`hdpm_book.privacy.battery` look at: settings, each one way to use a learner.

Settings follow from the signatures of the public functions (:func:`alternatives`): every option is tried at each kind
of value that its type names, and those that meet in one formula are tried together. Besides, the number of features
varies, the type of the data, how many releases are asked for at once, and penalties on both sides of every branch.

Promises, rates and centres are computed by formulas typed anew, and never taken from the learner.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from hdpm_book.privacy.guesses import BitTest, Score, bit_test, either
from hdpm_book.privacy.laws import LawTest

Array = NDArray[np.float64]
Generator = np.random.Generator
Release = Callable[..., Any]  # of `rng` and `size`
Ask = Literal["batches", "one by one", "a table", "at once"]

LOOKS = (100, 1000, 10_000)  # draws of the noise law, one after the other, until it objects
RUNS = (1000, 10_000, 100_000)  # of the bit test


@dataclass(frozen=True)
class Setting:
    """One way to use a learner, and the checks that can be made of it.

    Attributes
    ----------
    name : str
    budget, meter : function, optional
        Largest ratio of a loss to its promise: as the learner's numbers imply it, and as metered between neighbours.
    centre : function, optional
        Error of the part without noise, times the noise rate.
    noise : function, optional
        From a number of draws and a generator to noise in rows, taken out of releases, in units of its scale.
    law : function, optional
        Tests of the law of `noise`.
    draws : tuple of int
        Of the noise law.
    repeats : bool
        Whether two draws of `noise` can be expected to differ.
    digits : int
        In how many of its digits noise has to come back to be taken for the same.
    tolerance : float
        Largest error of the part without noise.
    plain : function, optional
        Noise as it is released for data without any signal.
    bits : function, optional
        Bit tests, from a number of runs and a generator.
    runs : tuple of int
        Of the bit tests, which are made with ever more of them until one objects.
    """

    name: str
    budget: Callable[[], float] | None = None
    meter: Callable[[], float] | None = None
    centre: Callable[[], float] | None = None
    noise: Callable[[int, Generator], Any] | None = None
    law: Callable[[Any], Sequence[LawTest]] | None = None
    draws: tuple[int, ...] = LOOKS[:2]
    repeats: bool = True
    digits: int = 9
    tolerance: float = 1e-9
    plain: Callable[[int, Generator], Array] | None = None
    bits: Callable[[int, Generator], list[BitTest]] | None = None
    runs: tuple[int, ...] = RUNS[:2]


# --- settings from signatures -----------------------------------------------------------------------------------------


def options(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The arguments of a function that may be left out."""
    found = inspect.signature(function).parameters
    return {name: p for name, p in found.items() if p.default is not p.empty}


def choices(function: Callable[..., Any], name: str) -> tuple[Any, ...]:
    """The values that the type of an argument lists, or none if it has no list.

    Examples
    --------
    >>> from hdpm_lib.learners.ridge import output_perturbation
    >>> [choices(output_perturbation, name) for name in ("bound", "clip", "penalty")]
    [('paper', 'sharp'), (False, True), ()]
    """
    kind = get_type_hints(function.__init__ if inspect.isclass(function) else function).get(name)
    if kind is bool:
        return False, True
    return get_args(kind) if get_origin(kind) is Literal else ()


IDEAL = {"arithmetic": "ideal"}  # of settings that do not say otherwise: all digits of their noise are random


def coarse(options: Mapping[str, Any]) -> bool:
    """Whether a setting's noise lies on a lattice."""
    return options.get("arithmetic", "ideal") != "ideal"


def alternatives(
    function: Callable[..., Any], values: Mapping[str, Sequence[Any]], *, apart: Collection[str] = ()
) -> list[dict[str, Any]]:
    """No option, and then each option at each of its other kinds of value: one that nobody tries is a KeyError.

    Kinds are those of the type, and for numbers the `values`; the options `apart` are left to the caller.

    Examples
    --------
    >>> from hdpm_lib.learners.logistic import objective_perturbation
    >>> alternatives(objective_perturbation, {})
    [{}, {'clip': True}, {'arithmetic': 'rounded'}]
    """
    found: list[dict[str, Any]] = [{}]
    for name, parameter in options(function).items():
        if name not in apart:
            kinds = choices(function, name) or values[name]
            found += [{name: value} for value in kinds if value != IDEAL.get(name, parameter.default)]
    return found


def together(
    function: Callable[..., Any], values: Mapping[str, Sequence[Any]], *, apart: Collection[str] = ()
) -> list[dict[str, Any]]:
    """As :func:`alternatives`, but the first other kinds of all options at once, then the second ones, and so on.

    It is for learners that take long: each kind is tried, though not alone.

    Examples
    --------
    >>> from hdpm_lib.learners.ridge import output_perturbation
    >>> together(output_perturbation, {"label_bound": (0.5, 2.0)}, apart=("feature_norm", "norm_bound"))
    [{'bound': 'sharp', 'label_bound': 0.5, 'clip': True, 'arithmetic': 'rounded'}, {'label_bound': 2.0}]
    """
    rows: list[dict[str, Any]] = []
    for option in alternatives(function, values, apart=apart)[1:]:
        (name,) = option
        row = next((row for row in rows if name not in row), None)
        if row is None:
            rows.append(row := {})
        row |= option
    return rows


def told(parts: Mapping[str, Any]) -> str:
    """What a setting has of its own, in words."""
    return ", ".join(f"{name}={value}" for name, value in parts.items()) or "as it comes"


# --- releases ---------------------------------------------------------------------------------------------------------


def in_calls(release: Release, draws: int, rng: Generator) -> Array:
    """Draws from ten calls, so that noise shared by calls shows."""
    return np.concatenate([release(rng=rng, size=draws // 10) for _ in range(10)])


def asked(release: Release, draws: int, rng: Generator, ask: Ask = "batches") -> Array:
    """Draws in ten batches, one by one, in ten tables of two rows, or all at once."""
    if ask == "at once":
        return release(rng=rng, size=draws)
    if ask == "one by one":
        return np.stack([release(rng=rng) for _ in range(draws)])
    if ask == "batches":
        return in_calls(release, draws, rng)
    tables = [release(rng=rng, size=(2, draws // 20)) for _ in range(10)]
    return np.concatenate([table.reshape(draws // 10, *table.shape[2:]) for table in tables])


def between(
    first: Release,
    second: Release,
    scores: Sequence[Score],
    claim: float,
    runs: int,
    rng: Generator,
    ask: Ask = "batches",
) -> BitTest:
    """The bit test between the releases of two data sets, asked for at once or one by one."""
    if ask == "one by one":
        samplers = [lambda rng, n, r=r: np.stack([r(rng=rng) for _ in range(n)]) for r in (first, second)]
    else:
        samplers = [lambda rng, n, r=r: r(rng=rng, size=n) for r in (first, second)]
    return bit_test(either(*samplers), scores, claim, runs, rng=rng)


def opened(noise: Array, radius: float, rng: Generator) -> Array:
    """Spherical noise of rate one that was pulled back to a ball around 0, as it may have been before.

    Lengths at the radius are drawn anew from the part of their law beyond it: the law of the whole is the one without
    a ball exactly if what was pulled back is just what lay outside.
    """
    norm, d = np.linalg.norm(noise, axis=1), noise.shape[1]
    outside = norm >= radius * (1 - 1e-9)
    beyond = stats.gamma.isf(rng.random(int(outside.sum())) * stats.gamma.sf(radius, d), d)
    found = noise.copy()
    found[outside] *= (beyond / norm[outside])[:, None]
    return found


# --- laws -------------------------------------------------------------------------------------------------------------


def listed_law(draws: NDArray[Any], points: NDArray[np.int64], probabilities: Array) -> tuple[LawTest, ...]:
    """Test draws of integers, in rows, against a list of all points with their probabilities.

    Cumulative counts in the order of the list are compared with cumulative probabilities; Massart's bound holds for
    every law, at every number of draws.
    """
    base = 2 * int(max(np.abs(draws).max(), np.abs(points).max())) + 1
    powers = base ** np.arange(points.shape[1])
    keys, order = points @ powers, np.argsort(points @ powers)
    place = np.minimum(np.searchsorted(keys[order], draws @ powers), len(keys) - 1)
    known = keys[order[place]] == draws @ powers
    counts = np.bincount(order[place][known], minlength=len(keys))
    apart = float(np.abs(np.cumsum(counts) / len(draws) - np.cumsum(probabilities)).max())
    return (LawTest("list of all points", len(draws), apart, min(1.0, 2 * math.exp(-2 * len(draws) * apart**2))),)


def missing_digits(noise: Array) -> float:
    """P-value of the binary digits that end numbers in zeros: of a double each further zero has a chance of one half.

    So their total over independent numbers has a negative binomial law. Noise that was drawn with fewer digits, or
    computed with fewer, has more of them; a number that is 0 counts as one without digits.
    """
    mantissa = np.abs(np.ldexp(np.frexp(noise.ravel())[0], 53)).astype(np.int64)
    lowest = np.where(mantissa > 0, mantissa & -mantissa, 2**53)
    zeros = int(np.log2(lowest.astype(float)).sum())
    return float(stats.nbinom.sf(zeros - 1, mantissa.size, 0.5))
