"""Kinds of arguments: for each, values in its documented range to draw, and values outside to be
refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

WIDE = 12.0  # powers of ten of extreme magnitudes
TINY = 1e-90  # of what is drawn near 0: below it 0, as the range of use ends at 1e-100
# of sellers or records, and others; features are 1 to 3
LENGTHS = {"n": (2, 5), "k": (2, 3), "C": (2, 3)}
Bad = tuple[str, Any]
NONE: Bad = ("None", None)
NOT_FINITE: list[Bad] = [("nan", math.nan), ("inf", math.inf), ("-inf", -math.inf)]
WORDS: list[Bad] = [NONE, ("a string", "1"), ("a list", [1.0, 2.0]), ("True", True), *NOT_FINITE]


@dataclass
class Scene:
    """What the arguments of one call share: lengths, drawn once, and whether magnitudes are
    extreme.
    """

    draw: Callable[[st.SearchStrategy], Any]
    wide: bool = False
    lengths: dict[str, int] = field(default_factory=dict)
    made: dict[str, Any] = field(default_factory=dict)

    def length(self, letter: str) -> int:
        if letter.isdigit():
            return int(letter)
        if letter not in self.lengths:
            self.lengths[letter] = self.draw(st.integers(*LENGTHS.get(letter, (1, 3))))
        return self.lengths[letter]

    def once(self, key: str, make: Callable[[], Any]) -> Any:
        """Return the object of that name, made at the first call."""
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]

    def tame(self) -> Scene:
        """Return the same lengths, and ordinary magnitudes."""
        return Scene(self.draw, False, self.lengths)


@dataclass
class Kind:
    """A kind of argument that a test makes; an object of another type is like a misspelt name, and
    not tried.
    """

    good: Callable[[Scene], Any]
    wrong: Sequence[Bad] = ()

    def bad(self, scene: Scene) -> list[Bad]:
        return list(self.wrong)


@dataclass
class Number:
    """A number in a range; `at` is where ordinary ones lie."""

    low: float = 0.0
    high: float = math.inf
    ends: str = "()"
    at: tuple[float, float] = (0.1, 3.0)

    def strategy(self, wide: bool) -> st.SearchStrategy:
        if not wide or (math.isfinite(self.low) and math.isfinite(self.high)):
            return st.floats(*self.at).map(lambda x: x if abs(x) > TINY else 0.0)
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
        return WORDS + [(repr(x), x) for x in self.beyond()]


@dataclass
class Array:
    """Numbers, of a shape given in letters; `batch` if further leading axes, or a scalar for none,
    are admitted.

    `then` makes them what they have to be, as long as magnitudes are ordinary.
    """

    shape: str = "n"
    low: float = -math.inf
    high: float = math.inf
    ends: str = "[]"
    at: tuple[float, float] = (0.1, 2.0)
    batch: bool | str = False
    whole: bool = False
    infinite: bool = False
    nan: bool = False
    then: Callable[[np.ndarray], np.ndarray] | None = None

    def good(self, scene: Scene) -> Any:
        shape = tuple(scene.length(letter) for letter in self.shape)
        one = Number(self.low, self.high, self.ends, self.at).strategy(
            scene.wide and self.then is None
        )
        if self.whole:
            one = st.integers(*map(int, self.at))
        size = math.prod(shape)
        values = scene.draw(st.lists(one, min_size=size, max_size=size))
        array = np.array(values, dtype=int if self.whole else float).reshape(shape)
        return self.then(array) if self.then else array

    def bad(self, scene: Scene) -> list[Bad]:
        sample = np.asarray(self.good(scene.tame()), dtype=float)

        def spoilt(value: float) -> np.ndarray:
            changed = sample.copy()
            changed.flat[-1] = value
            return changed

        allowed = {"nan", "inf", "-inf"} if self.nan else {"inf"} if self.infinite else set()
        inside = [(label, x) for label, x in NOT_FINITE if label not in allowed]
        inside += [(repr(x), x) for x in Number(self.low, self.high, self.ends).beyond()]
        found = [NONE, ("a string", "abc"), ("strings", sample.astype(str))]
        found += [(f"{label} inside", spoilt(x)) for label, x in inside]
        if not self.nan:
            found += [
                (
                    "masked",
                    np.ma.masked_array(
                        sample, mask=np.arange(sample.size).reshape(sample.shape) == 0
                    ),
                )
            ]
        if self.whole:
            found += [("halves", sample + 0.5)]
        if self.shape:
            found += [("empty", np.zeros((0,) * sample.ndim))]
            found += (
                []
                if self.batch
                else [("a number", float(sample.flat[0])), ("an axis more", sample[None])]
            )
        return found


# --- kinds that recur ---------------------------------------------------------------------------


def count(least: int = 1, most: int | None = None, at: tuple[int, int] = (1, 4)) -> Kind:
    """Describe a whole number: what is drawn, and what must be refused."""
    wrong = [*WORDS, ("half", least + 0.5), ("too few", least - 1)]
    return Kind(
        lambda s: s.draw(st.integers(*at)),
        wrong if most is None else [*wrong, ("too many", most + 1)],
    )


def one_of(values: Sequence[Any], *wrong: Bad) -> Kind:
    return Kind(lambda s: s.draw(st.sampled_from(values)), wrong)


def choice(*options: str) -> Kind:
    return one_of(
        options, NONE, ("no option", "nonsense"), ("a number", 1), ("a list", [options[0]])
    )


FLAG = one_of(
    [False, True], NONE, ("a string", "no"), ("a number", 2), ("nan", math.nan), ("a list", [True])
)
RNG = Kind(
    lambda s: np.random.default_rng(s.draw(st.integers(0, 3))),
    [NONE, ("a string", "seed"), ("half", 1.5)],
)
SIZE = one_of(
    [(), 2, (2, 1), 0],
    NONE,
    ("negative", -1),
    ("a string", "3"),
    ("half", 1.5),
    ("True", True),
    ("negative inside", (2, -1)),
)
RATIONAL = Kind(
    lambda s: Fraction(s.draw(st.integers(1, 9)), s.draw(st.integers(1, 9))),
    [
        NONE,
        ("a string", "1"),
        ("a float", 0.5),
        ("zero", Fraction(0)),
        ("negative", Fraction(-1, 2)),
        ("True", True),
    ],
)


def positive(shape: str = "n", at: tuple[float, float] = (0.1, 2.0), **more: Any) -> Array:
    return Array(shape, 0, np.inf, "()", at, **more)


def not_negative(shape: str = "n", at: tuple[float, float] = (0.0, 2.0), **more: Any) -> Array:
    return Array(shape, 0, np.inf, "[)", at, **more)


def unit(shape: str = "n", at: tuple[float, float] = (0.0, 1.0), **more: Any) -> Array:
    return Array(shape, 0, 1, "[]", at, **more)


def real(shape: str = "n", at: tuple[float, float] = (-2.0, 2.0), **more: Any) -> Array:
    return Array(shape, at=at, **more)


def signs() -> Array:
    """Labels -1 and 1, both of them there."""
    return Array(
        "n",
        -1,
        1,
        at=(-1.0, 1.0),
        then=lambda y: np.append([-1.0, 1.0], np.where(y[2:] < 0, -1.0, 1.0)),
    )


def simplex(shape: str = "n") -> Array:
    """Weights that sum to 1."""
    return not_negative(shape, (0.1, 1.0), then=lambda w: w / w.sum())


def short() -> Array:
    """Rows of norm at most 1."""
    return Array("nd", -1, 1, at=(-1.0, 1.0), then=lambda x: x / np.sqrt(x.shape[-1]))
