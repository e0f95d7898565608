"""Kinds of arguments: for each, values in its documented range to draw, and values outside to be refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

WIDE = 12.0  # powers of ten of extreme magnitudes
Bad = tuple[str, Any]
Draw = Callable[[st.SearchStrategy], Any]
WORDS: list[Bad] = [("None", None), ("a string", "1"), ("a list", [1.0, 2.0]), ("True", True), ("nan", math.nan)]
WORDS += [("inf", math.inf), ("-inf", -math.inf)]


@dataclass
class Scene:
    """What the arguments of one call share: lengths, drawn once, and whether magnitudes are extreme."""

    draw: Draw
    wide: bool = False
    lengths: dict[str, int] = field(default_factory=dict)
    made: dict[str, Any] = field(default_factory=dict)

    def length(self, letter: str) -> int:
        if letter.isdigit():
            return int(letter)
        if letter not in self.lengths:
            low, high = LENGTHS.get(letter, (1, 3))
            self.lengths[letter] = self.draw(st.integers(low, high))
        return self.lengths[letter]

    def once(self, key: str, make: Callable[[], Any]) -> Any:
        """The object of that name, made at the first call."""
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]


LENGTHS = {
    "n": (2, 5),
    "d": (1, 3),
    "k": (2, 3),
    "c": (1, 3),
    "C": (2, 3),
    "N": (20, 25),
    "D": (1, 2),
}  # sellers or records, features, profiles


class Kind:
    """A kind of argument."""

    def good(self, scene: Scene) -> Any:
        raise NotImplementedError

    def bad(self, scene: Scene) -> list[Bad]:
        return []


@dataclass
class Number(Kind):
    """A number in a range; `at` is where ordinary ones lie."""

    low: float = 0.0
    high: float = math.inf
    ends: str = "()"
    at: tuple[float, float] = (0.1, 3.0)
    infinite: bool = False

    def strategy(self, wide: bool) -> st.SearchStrategy:
        if not wide or (math.isfinite(self.low) and math.isfinite(self.high)):
            return st.floats(*self.at, allow_subnormal=False)
        sizes = st.floats(-WIDE, WIDE).map(lambda e: 10.0**e)
        if self.low >= 0:
            return sizes.map(lambda x: self.low + x)
        return st.tuples(sizes, st.sampled_from([-1, 1])).map(lambda p: p[0] * p[1])

    def good(self, scene: Scene) -> float:
        return scene.draw(self.strategy(scene.wide))

    def beyond(self) -> list[float]:
        """Finite numbers outside the range."""
        found = []
        if math.isfinite(self.low):
            found += [self.low] * (self.ends[0] == "(") + [self.low - 0.5]
        if math.isfinite(self.high):
            found += [self.high] * (self.ends[1] == ")") + [self.high + 0.5]
        return found

    def bad(self, scene: Scene) -> list[Bad]:
        words = [w for w in WORDS if not (self.infinite and w[0] == "inf")]
        return words + [(repr(x), x) for x in self.beyond()]


@dataclass
class Count(Kind):
    """A whole number."""

    least: int = 1
    most: int | None = None
    at: tuple[int, int] = (1, 4)

    def good(self, scene: Scene) -> int:
        return scene.draw(st.integers(*self.at))

    def bad(self, scene: Scene) -> list[Bad]:
        found = [*WORDS, ("half", self.least + 0.5), ("too few", self.least - 1)]
        return found if self.most is None else [*found, ("too many", self.most + 1)]


@dataclass
class Array(Kind):
    """Numbers, of a shape given in letters; `batch` if further leading axes, or a scalar for none, are admitted."""

    shape: str = "n"
    low: float = -math.inf
    high: float = math.inf
    ends: str = "[]"
    at: tuple[float, float] = (0.1, 2.0)
    batch: bool | str = False
    whole: bool = False
    infinite: bool = False
    nan: bool = False

    def good(self, scene: Scene) -> np.ndarray:
        shape = tuple(scene.length(letter) for letter in self.shape)
        size = math.prod(shape)
        if self.whole:
            one = st.integers(*map(int, self.at))
        else:
            one = Number(self.low, self.high, self.ends, self.at).strategy(scene.wide)
        values = scene.draw(st.lists(one, min_size=size, max_size=size))
        return np.array(values, dtype=int if self.whole else float).reshape(shape)

    def bad(self, scene: Scene) -> list[Bad]:
        sample = np.asarray(self.good(Scene(scene.draw, False, scene.lengths)), dtype=float)
        found: list[Bad] = [("None", None), ("a string", "abc"), ("strings", sample.astype(str))]
        for label, value in (("nan", math.nan), ("inf", math.inf), ("-inf", -math.inf)):
            if not (self.nan or (self.infinite and label == "inf")):
                found.append((f"{label} inside", self._with(sample, value)))
        found += [(f"{x!r} inside", self._with(sample, x)) for x in Number(self.low, self.high, self.ends).beyond()]
        found += (
            []
            if self.nan
            else [("masked", np.ma.masked_array(sample, mask=np.arange(sample.size).reshape(sample.shape) == 0))]
        )
        if self.shape:
            found += [("empty", np.zeros((0,) * sample.ndim))]
            found += [] if self.batch else [("a number", float(sample.flat[0]))]
            found += [] if self.batch else [("an axis more", sample[None])]
        return found

    @staticmethod
    def _with(sample: np.ndarray, value: float) -> np.ndarray:
        changed = sample.copy()
        changed.flat[-1] = value
        return changed


@dataclass
class Choice(Kind):
    """One of some strings."""

    options: tuple[str, ...]

    def good(self, scene: Scene) -> str:
        return scene.draw(st.sampled_from(self.options))

    def bad(self, scene: Scene) -> list[Bad]:
        return [("None", None), ("no option", "nonsense"), ("a number", 1), ("a list", [self.options[0]])]


class Flag(Kind):
    """True or False."""

    def good(self, scene: Scene) -> bool:
        return scene.draw(st.booleans())

    def bad(self, scene: Scene) -> list[Bad]:
        return [("None", None), ("a string", "no"), ("a number", 2), ("nan", math.nan), ("a list", [True])]


class Generator(Kind):
    """A source of randomness."""

    def good(self, scene: Scene) -> np.random.Generator:
        return np.random.default_rng(scene.draw(st.integers(0, 3)))

    def bad(self, scene: Scene) -> list[Bad]:
        return [("None", None), ("a string", "seed"), ("half", 1.5)]


class Size(Kind):
    """Shape of a batch."""

    def good(self, scene: Scene) -> Any:
        return scene.draw(st.sampled_from([(), 2, (2, 1), 0]))

    def bad(self, scene: Scene) -> list[Bad]:
        return [
            ("None", None),
            ("negative", -1),
            ("a string", "3"),
            ("half", 1.5),
            ("negative inside", (2, -1)),
            ("True", True),
        ]


@dataclass
class Made(Kind):
    """An object that the test makes; one of another type is a mistake like a misspelt name, and not tried."""

    make: Callable[[Scene], Any]
    wrong: tuple[Bad, ...] = ()

    def good(self, scene: Scene) -> Any:
        return self.make(scene)

    def bad(self, scene: Scene) -> list[Bad]:
        return list(self.wrong)


# --- kinds that recur -------------------------------------------------------------------------------------------------


def positive(shape: str = "n", at: tuple[float, float] = (0.1, 2.0), **more: Any) -> Array:
    return Array(shape, 0, np.inf, "()", at, **more)


def not_negative(shape: str = "n", at: tuple[float, float] = (0.0, 2.0), **more: Any) -> Array:
    return Array(shape, 0, np.inf, "[)", at, **more)


def unit(shape: str = "n", at: tuple[float, float] = (0.0, 1.0), **more: Any) -> Array:
    return Array(shape, 0, 1, "[]", at, **more)


def real(shape: str = "n", at: tuple[float, float] = (-2.0, 2.0), **more: Any) -> Array:
    return Array(shape, at=at, **more)


def signs(shape: str = "n") -> Kind:
    """Labels -1 and 1, both of them there."""

    def make(s: Scene) -> np.ndarray:
        y = np.array([s.draw(st.sampled_from([-1.0, 1.0])) for _ in range(s.length(shape))])
        y[:2] = -1, 1
        return y

    return Signs(shape, make)


class Signs(Array):
    def __init__(self, shape: str, make: Callable[[Scene], np.ndarray]) -> None:
        super().__init__(shape, -1, 1, "[]", (-1.0, 1.0))
        self.make = make

    def good(self, scene: Scene) -> np.ndarray:
        return self.make(scene)


class Simplex(Array):
    """Weights that sum to 1."""

    def good(self, scene: Scene) -> np.ndarray:
        w = super().good(Scene(scene.draw, False, scene.lengths))
        return w / w.sum()


def simplex(shape: str = "n") -> Array:
    return Simplex(shape, 0, np.inf, "[)", (0.1, 1.0))


class Short(Array):
    """Rows of norm at most 1."""

    def good(self, scene: Scene) -> np.ndarray:
        x = super().good(scene)
        return x / np.sqrt(x.shape[-1])


def short(shape: str = "nd") -> Array:
    return Short(shape, -1, 1, "[]", (-1.0, 1.0))


class Whole(Array):
    """Whole numbers."""

    def bad(self, scene: Scene) -> list[tuple[str, Any]]:
        return [*super().bad(scene), ("halves", self.good(scene) + 0.5)]


class Symmetric(Array):
    """A symmetric matrix."""

    def good(self, scene: Scene) -> np.ndarray:
        matrix = super().good(scene)
        return matrix + matrix.T


class Rational(Kind):
    """A positive fraction."""

    def good(self, scene: Scene) -> Fraction:
        return Fraction(scene.draw(st.integers(1, 9)), scene.draw(st.integers(1, 9)))

    def bad(self, scene: Scene) -> list[tuple[str, Any]]:
        return [
            ("None", None),
            ("a string", "1"),
            ("a float", 0.5),
            ("zero", Fraction(0)),
            ("negative", Fraction(-1, 2)),
            ("True", True),
        ]


def from_list(*values: Any) -> Made:
    return Made(lambda s: s.draw(st.sampled_from(values)))


def lists(make: Callable[[Scene], Any]) -> Made:
    """One thing for each seller."""
    return Made(lambda s: [make(s) for _ in range(s.length("n"))])
