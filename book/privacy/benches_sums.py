"""Settings of biased answers with Laplace noise, and of the same in whole numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpm_book.privacy.benches import (
    IDEAL,
    LOOKS,
    RUNS,
    Array,
    Ask,
    Generator,
    Setting,
    alternatives,
    asked,
    between,
    coarse,
    listed_law,
    told,
)
from hdpm_book.privacy.guesses import BitTest
from hdpm_book.privacy.instances import sum_ends
from hdpm_book.privacy.laws import LawTest, laplace_law
from hdpm_lib.audits.meters import privacy_losses
from hdpm_lib.learners import integer_answers, queries

SHARES, WEIGHTS = (1.0, 0.5, 0.25), (1.0, -2.0, 1.0)


# --- linear answers ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Linear:
    """A weighted sum of data in [0, 1], or outside it if they are clipped."""

    options: Mapping[str, Any] = field(default_factory=dict)
    scale: float = 2.0
    n: int = 3
    ask: Ask = "batches"
    dtype: Any = float

    @property
    def m(self) -> int:
        """Coordinates of a datum."""
        return int(self.options.get("dimension", 1))

    @property
    def q(self) -> Array:
        """Weights of the data."""
        return np.asarray(self.options.get("weights", np.ones(self.n)))

    @property
    def shares(self) -> Array:
        """How much of each datum counts."""
        return np.resize(SHARES, self.n)

    def make(self) -> queries.BiasedLaplace:
        """The mechanism."""
        return queries.linear_query(self.shares, self.scale, **{**IDEAL, **self.options})

    def terms(self, data: Array) -> Array:
        """Weights times data, for one coordinate without an axis for it."""
        found = (self.q[:, None] * data).astype(self.dtype)
        return found if self.m > 1 else found[:, 0]

    def data(self) -> tuple[Array, Array]:
        """Data, and what they count as."""
        rng = np.random.default_rng([self.n, self.m])
        data = rng.random((self.n, self.m))
        if self.options.get("clip"):
            data = 3 * data - 1
            data[-1, 0] = np.nan
        known = np.where(np.isnan(data), 0.5, np.minimum(np.maximum(data, 0), 1))
        terms = np.reshape(self.terms(data), (self.n, self.m)).astype(float) / self.q[:, None]
        return data, np.where((data >= 0) & (data <= 1), terms, known)

    def answer(self, data: Array) -> Array:
        """What the biased answer is without noise, coordinate by coordinate."""
        return np.asarray((self.shares * self.q) @ data + ((1 - self.shares) * self.q / 2).sum())

    @property
    def losses(self) -> Array:
        """Of one coordinate."""
        return self.shares * np.abs(self.q) / self.scale

    def budget(self) -> float:
        """What the formula says over what people are told."""
        return float((self.m * self.losses / self.make().privacy_loss).max())

    def meter(self) -> float:
        """Largest share of the promise between the ends of each datum, and with data outside."""
        ends, worst, made = sum_ends(self.n), 0.0, self.make()
        for data in (*ends.data, *ends.turned):
            worst = max(worst, float((privacy_losses(made, self.q * data).found / (self.m * self.losses)).max()))
        zero, first = np.zeros((self.n, 1)), np.eye(self.n)[0][:, None]
        try:
            apart = made.mean(self.q[:, None] * (3.0 * first)) - made.mean(zero)
        except ValueError:  # a datum outside its interval is refused
            return worst
        return max(worst, float(np.abs(apart).max()) / self.scale / self.losses[0])

    def centre(self) -> float:
        """Error of the answer before noise, and of its bias, over the scale."""
        made, (data, known) = self.make(), self.data()
        off = np.abs(made.mean(self.terms(data)) - self.answer(known)).max()
        bias = self.answer(known) - self.q @ known
        return float(max(off, np.abs(made.bias(self.terms(data)) - bias).max())) / self.scale

    def noise(self, draws: int, rng: Generator) -> Array:
        """Noise of scale one."""
        data, known = self.data()
        released = asked(partial(self.make().release, self.terms(data)), draws, rng, self.ask)
        return np.asarray((released.reshape(draws, self.m) - self.answer(known)) / self.scale)

    def plain(self, draws: int, rng: Generator) -> Array:
        """Noise around 0: everybody at the lower end."""
        made = queries.linear_query(
            np.ones(self.n), self.scale, **{**IDEAL, **self.options, "weights": np.ones(self.n)}
        )
        zero = np.zeros((self.n, self.m), self.dtype)
        return asked(partial(made.release, zero if self.m > 1 else zero[:, 0]), draws, rng, self.ask).reshape(draws, -1)

    def bits(self, runs: int, rng: Generator) -> list[BitTest]:
        """Guesses whether the first datum is 0 or 1."""
        data, made = np.zeros((2, self.n, self.m)), self.make()
        data[1, 0] = 1.0
        (zero, one), releases = (self.answer(d) for d in data), [partial(made.release, self.terms(d)) for d in data]

        def ratio(outputs: Array) -> Array:
            z = outputs.reshape(len(outputs), -1)
            return np.asarray((np.abs(z - zero) - np.abs(z - one)).sum(1) / self.scale)

        scores = [ratio, lambda outputs: outputs.reshape(len(outputs), -1)[:, 0]]
        return [between(releases[0], releases[1], scores, self.m * float(self.losses[0]), runs, rng, self.ask)]

    def setting(self, **more: Any) -> Setting:
        """All checks of this use."""
        parts = {**self.options, "scale": self.scale, "n": self.n}
        parts |= {} if self.dtype is float else {"dtype": "float32"}
        parts |= {} if self.ask == "batches" else {"asked for": self.ask}
        checks = (self.budget, self.meter, self.centre, self.noise, lambda z: laplace_law(z, 1.0))
        more = {"runs": RUNS[:1] if self.ask == "one by one" else RUNS[:2], **more}
        plain = None if coarse(self.options) else self.plain
        return Setting(told(parts), *checks, plain=plain, bits=self.bits, **more)


def linear_settings() -> list[Setting]:
    """Each option, and those that meet; sizes, types, scales, and ways to ask."""
    each = alternatives(queries.linear_query, {"weights": (WEIGHTS,), "dimension": (2, 12)})
    both = [{"weights": WEIGHTS, "dimension": 3}, {"weights": WEIGHTS, "dimension": 3, "clip": True}]
    uses = [Linear(given) for given in each[1:] if "weights" not in given] + [Linear(both[1])]
    uses += [
        Linear({"weights": (0.3, -2.7, 1.1)}),
        Linear(n=1),
        Linear(n=40),
        Linear(scale=0.25),
        Linear(scale=40.0),
        Linear(both[0], dtype=np.float32),
    ]
    asks: tuple[Ask, ...] = ("one by one", "a table")
    uses += [Linear(both[0], ask=ask) for ask in asks] + [Linear(ask=ask) for ask in asks]
    return [
        Linear(both[0]).setting(draws=LOOKS, runs=RUNS),
        Linear({"weights": WEIGHTS}).setting(runs=RUNS),
        *(use.setting() for use in uses),
    ]


# --- other answers ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Nonlinear:
    """The answer to x + xy/2 and y of two data, as two terms that both people can move."""

    options: Mapping[str, Any] = field(default_factory=dict)
    ask: Ask = "batches"

    sensitivity = np.array([[1.0, 1 / 3], [0.0, 1.0]])
    shares, scale = np.array([0.5, 1.0]), 2.0

    def make(self) -> queries.BiasedLaplace:
        """The mechanism."""
        return queries.nonlinear_query(self.shares, self.scale, self.sensitivity, **{**IDEAL, **self.options})

    def terms(self, x: float, y: float) -> Array:
        """The two terms, in [0, 1]."""
        return np.array([(x + x * y / 2) / 1.5, y])

    def answer(self, terms: Array) -> float:
        """What the biased answer is without noise."""
        return float(self.shares @ terms + ((1 - self.shares) / 2).sum())

    def budget(self) -> float:
        """What the formula says over what people are told."""
        return float((self.shares @ self.sensitivity / self.scale / self.make().privacy_loss).max())

    def meter(self) -> float:
        """Largest share of the promise over a grid of data: the distance of means over the scale."""
        made, grid, worst = self.make(), np.linspace(0, 1, 5), 0.0
        promised = self.shares @ self.sensitivity / self.scale
        for a in grid:
            for x in grid:
                for y in grid:
                    at = float(made.mean(self.terms(x, y)))
                    first, second = float(made.mean(self.terms(a, y))), float(made.mean(self.terms(x, a)))
                    moved = np.abs([at - first, at - second]) / self.scale
                    worst = max(worst, float((moved / promised).max()))
        try:
            apart = abs(float(made.mean(np.array([0.0, 3.0])) - made.mean(np.zeros(2))))
        except ValueError:
            return worst
        return max(worst, apart / self.scale / promised[1])

    def centre(self) -> float:
        """Error of the answer before noise, over the scale."""
        given, known = np.array([0.3, 0.8]), np.array([0.3, 0.8])
        if self.options.get("clip"):
            given = np.array([-0.5, np.nan])
            known = np.array([0.0, 0.5])
        return abs(float(self.make().mean(given)) - self.answer(known)) / self.scale

    def noise(self, draws: int, rng: Generator) -> Array:
        """Noise of scale one."""
        terms = self.terms(0.4, 0.7)
        released = asked(partial(self.make().release, terms), draws, rng, self.ask)
        return (released[:, None] - self.answer(terms)) / self.scale

    def plain(self, draws: int, rng: Generator) -> Array:
        """Noise around 0, of an answer with all of its terms."""
        made = queries.nonlinear_query(np.ones(2), self.scale, self.sensitivity, **{**IDEAL, **self.options})
        return asked(partial(made.release, np.zeros(2)), draws, rng, self.ask)

    def bits(self, runs: int, rng: Generator) -> list[BitTest]:
        """Guesses whether the second datum is 0 or 1, the first being 1."""
        made, promised = self.make(), self.shares @ self.sensitivity / self.scale
        zero, one = (self.answer(self.terms(1.0, y)) for y in (0.0, 1.0))
        releases = [partial(made.release, self.terms(1.0, y)) for y in (0.0, 1.0)]
        scores = [lambda z: (np.abs(z - zero) - np.abs(z - one)) / self.scale, lambda z: z]
        return [between(releases[0], releases[1], scores, float(promised[1]), runs, rng, self.ask)]

    def setting(self) -> Setting:
        """All checks of this use."""
        asks = {} if self.ask == "batches" else {"asked for": self.ask}
        checks = (self.budget, self.meter, self.centre, self.noise, lambda z: laplace_law(z, 1.0))
        name = "not linear, " + told({**self.options, **asks})
        plain = None if coarse(self.options) else self.plain
        return Setting(name, *checks, plain=plain, bits=self.bits, runs=RUNS[:1])


def silent() -> float:
    """Error of answers with no shares and no noise: a public constant."""
    made = queries.linear_query([0.0, 0.0], 0.0, weights=[1.0, -3.0])
    released = made.release(np.array([1.0, -3.0]), rng=np.random.default_rng(0), size=5)
    return float(np.abs(released + 1).max() + np.abs(made.privacy_loss).max())


def settings() -> list[Setting]:
    """All answers in floats."""
    other = [Nonlinear(given).setting() for given in alternatives(queries.nonlinear_query, {})]
    asks = [Nonlinear(ask="one by one").setting(), Nonlinear(ask="a table").setting()]
    return [*linear_settings(), *other, *asks, Setting("no shares, no noise", centre=silent)]


# --- whole numbers ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Whole:
    """A weighted sum of data on a grid."""

    options: Mapping[str, Any] = field(default_factory=dict)
    scale: float = 2.0
    n: int = 3
    ask: Ask = "batches"
    dtype: Any = float

    @property
    def q(self) -> Array:
        """Weights of the data."""
        return np.asarray(self.options.get("weights", np.ones(self.n)))

    @property
    def shares(self) -> Array:
        """How much of each datum counts."""
        return np.resize(SHARES, self.n)

    @property
    def levels(self) -> int:
        """Steps of a datum from 0 to 1."""
        return int(self.options.get("levels", 2**10))

    @property
    def step(self) -> float:
        """A step of the answer."""
        return float(self.options.get("spacing", 2.0**-30))

    def make(self) -> integer_answers.IntegerSum:
        """The mechanism."""
        return integer_answers.integer_sum(self.shares, self.scale, **self.options)

    def data(self) -> tuple[Array, NDArray[np.int64]]:
        """Data, and what they are in steps."""
        data = np.random.default_rng(self.n).random(self.n)
        if self.options.get("clip"):
            data = 3 * data - 1
        known = np.minimum(np.maximum(data.astype(self.dtype).astype(float), 0), 1) * self.levels
        return data.astype(self.dtype), np.rint(known).astype(np.int64)

    @property
    def whole(self) -> NDArray[np.int64]:
        """Shares of weights in steps of the answer for one step of the data."""
        exact = [Fraction(a) * Fraction(q) for a, q in zip(self.shares.tolist(), self.q.tolist(), strict=True)]
        return np.array([math.trunc(value / (self.levels * Fraction(self.step))) for value in exact])

    def budget(self) -> float:
        """Largest ratio of a loss to what people are told, to a real share of a real datum, and of scales."""
        made, most = self.make(), self.shares * np.abs(self.q) / self.scale
        lost = np.abs(self.whole) * self.levels * self.step / self.scale
        told_ = np.array([float(loss) for loss in made.privacy_loss])
        less = self.scale / self.step / float(made.scale)  # noise than stated
        return float(max((lost / np.maximum(told_, 1e-300)).max(), (told_ / most).max(), less))

    def meter(self) -> float:
        """Distance of the sums at both ends of each datum over the scale of the noise, over the promise."""
        made, worst = self.make(), 0.0
        for k, most in enumerate(self.shares * np.abs(self.q) / self.scale):
            for size in (1.0, 3.0):
                ends = np.zeros((2, self.n))
                ends[1, k] = size
                try:
                    apart = abs(made.sum(ends[0]) - made.sum(ends[1]))
                except ValueError:
                    continue
                worst = max(worst, float(apart / made.scale) / most)
        return worst

    def centre(self) -> float:
        """Error of the sum in steps, and of the answer in its units beyond the rounding of data and shares."""
        made, (data, steps) = self.make(), self.data()
        off = abs(made.sum(data) - int(self.whole @ steps)) * self.step / self.scale
        answer = float((self.shares * self.q) @ (steps / self.levels) + ((1 - self.shares) * self.q / 2).sum())
        rounding = self.n * self.levels * self.step * 1.01 + 1e-12
        return off + max(0.0, abs(float(made.answer(made.sum(data))) - answer) - rounding) / self.scale

    def steps(self, draws: int, rng: Generator) -> NDArray[np.int64]:
        """Noise in steps."""
        data, steps = self.data()
        released = asked(partial(self.make().release, data), draws, rng, self.ask)
        return np.asarray(released[:, None] - self.whole @ steps)

    def noise(self, draws: int, rng: Generator) -> Array:
        """Noise of scale one, each number spread evenly over its step."""
        spread = self.steps(draws, rng) + rng.uniform(-0.5, 0.5, (draws, 1))
        return np.asarray(spread * (self.step / self.scale))

    def cells(self, steps: NDArray[np.int64]) -> Sequence[LawTest]:
        """Noise in steps against the list of all integers."""
        scale = self.scale / self.step
        k = np.arange(-int(45 * scale), int(45 * scale) + 1)
        return listed_law(steps, k[:, None], math.tanh(0.5 / scale) * np.exp(-np.abs(k) / scale))

    def bits(self, runs: int, rng: Generator) -> list[BitTest]:
        """Guesses whether the first datum is 0 or 1."""
        made, first = self.make(), np.eye(self.n)[0]
        zero, one = 0.0, float(self.whole[0] * self.levels)
        releases = [partial(made.release, data) for data in (0 * first, first)]
        scores = [lambda z: (np.abs(z - zero) - np.abs(z - one)) * (self.step / self.scale), lambda z: z * self.step]
        return [
            between(
                releases[0],
                releases[1],
                scores,
                float(self.shares[0] * abs(self.q[0]) / self.scale),
                runs,
                rng,
                self.ask,
            )
        ]

    def setting(self, *, coarse: bool = False, **more: Any) -> Setting:
        """All checks of this use; a grid is what it promises."""
        parts = {**self.options, "scale": self.scale, "n": self.n}
        parts |= {} if self.dtype is float else {"dtype": "float32"}
        parts |= {} if self.ask == "batches" else {"asked for": self.ask}
        noise, law = (self.steps, self.cells) if coarse else (self.noise, lambda z: laplace_law(z, 1.0))
        checks = (self.budget, self.meter, self.centre, noise, law)
        more = {"runs": RUNS[:1], "bits": None if self.ask == "one by one" else self.bits, **more}
        more |= {"draws": LOOKS} if coarse else {}
        return Setting("whole sum, " + told(parts), *checks, **{"repeats": False, **more})


def whole_settings() -> list[Setting]:
    """Sums in whole numbers: each option, coarse and fine; sizes, types and ways to ask."""
    values = {"weights": (WEIGHTS,), "levels": (1, 7), "spacing": (2.0**-16,)}
    uses = [Whole(given) for given in alternatives(integer_answers.integer_sum, values)]
    uses += [Whole({"weights": (0.3, -2.7, 1.1), "levels": 7, "clip": True}), Whole(n=1), Whole(n=40)]
    uses += [Whole(scale=0.3), Whole(scale=40.0), Whole(dtype=np.float32), Whole(ask="a table")]
    coarse = [replace(use, options={"levels": 3, "spacing": 0.25}) for use in (Whole(), Whole(scale=0.3))]
    coarse += [Whole({"levels": 2, "spacing": 0.5, "weights": (3.0, -6.0, 3.0)}, scale=3.0)]
    fine = Whole({"levels": 2, "spacing": 2.0**-45}, ask="one by one")  # so fine that no number should come twice
    single = fine.setting(draws=LOOKS[:1], repeats=True)
    return [*(use.setting() for use in uses), *(use.setting(coarse=True) for use in coarse), single]
