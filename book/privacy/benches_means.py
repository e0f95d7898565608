"""Settings of weighted means with spherical noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

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
    told,
)
from hdpm_book.privacy.guesses import BitTest
from hdpm_book.privacy.laws import spherical_law
from hdpm_lib.learners.weighted_mean import WeightedMean

QUIET = 1e15  # a rate at which nothing is left of the noise
RADIUS, RATE = 2.0, 1.5


@dataclass(frozen=True)
class Mean:
    """A weighted mean of records in a ball, or outside it if they are clipped."""

    options: Mapping[str, Any] = field(default_factory=dict)
    d: int = 2
    n: int = 3
    ask: Ask = "batches"
    dtype: Any = float

    @property
    def weights(self) -> Array:
        """Of the records: each is nine tenths of the one before."""
        raw = 0.9 ** np.arange(self.n)
        return np.asarray(raw / raw.sum())

    @property
    def shrink(self) -> float:
        """What the release is multiplied with."""
        return float(self.options.get("shrink", 1.0))

    @property
    def centre_of_ball(self) -> Array:
        """Not the origin."""
        return np.linspace(-0.5, 1.0, self.d)

    def make(self, rate: float = RATE) -> WeightedMean:
        """The mechanism."""
        return WeightedMean(self.weights, rate, self.centre_of_ball, RADIUS, **{**IDEAL, **self.options})

    def data(self) -> tuple[Array, Array]:
        """Records, and what they count as."""
        rng = np.random.default_rng([self.n, self.d])
        apart = rng.standard_normal((self.n, self.d))
        apart *= RADIUS * rng.random((self.n, 1)) / np.linalg.norm(apart, axis=1, keepdims=True)
        known = apart.copy()
        if self.options.get("clip"):
            known[0] *= RADIUS / np.linalg.norm(known[0])
            apart[0], apart[1, 0], known[1, 0] = 3 * known[0], np.nan, 0.0
        return (self.centre_of_ball + apart).astype(self.dtype), self.centre_of_ball + known

    def answer(self, known: Array) -> Array:
        """The release without noise."""
        return self.centre_of_ball + self.shrink * (self.weights @ (known - self.centre_of_ball))

    @property
    def losses(self) -> Array:
        """What the owners lose."""
        return 2 * RADIUS * RATE * self.weights

    def budget(self) -> float:
        """What the formula says over what people are told."""
        return float((self.losses / self.make().privacy_loss).max())

    def meter(self) -> float:
        """Largest share of the promise along a diameter, and with a record far outside, corner by corner."""
        end = RADIUS * np.ones(self.d) / np.sqrt(self.d)
        moved = [(i, scale) for i in range(self.n) for scale in (1.0, 3.0)]
        worst, rng = 0.0, np.random.default_rng(0)
        for i, scale in moved:
            apart = np.zeros((2, self.n, self.d))
            apart[:, i] = scale * end * np.array([[-1], [1]])
            try:
                low, high = (self.make(QUIET).release(self.centre_of_ball + x, rng=rng) for x in apart)
            except ValueError:  # a record outside the ball is refused
                continue
            worst = max(worst, float(np.linalg.norm(high - low)) / self.shrink * RATE / float(self.losses[i]))
        return worst

    def centre(self) -> float:
        """Error of the release without noise."""
        given, known = self.data()
        known = known if self.dtype is float else given.astype(float)
        released = self.make(QUIET).release(given, rng=np.random.default_rng(0))
        return float(np.abs(released - self.answer(known)).max()) * RATE

    def noise(self, draws: int, rng: Generator) -> Array:
        """Noise of rate one."""
        given, known = self.data()
        known = known if self.dtype is float else given.astype(float)
        released = asked(partial(self.make().release, given), draws, rng, self.ask)
        return np.asarray((released - self.answer(known)) / self.shrink * RATE)

    def plain(self, draws: int, rng: Generator) -> Array:
        """Noise around 0: every record is the centre, which is the origin."""
        ball = np.zeros(self.d), RADIUS
        made = WeightedMean(self.weights, RATE, *ball, clip=bool(self.options.get("clip")), arithmetic="ideal")
        return asked(partial(made.release, np.zeros((self.n, self.d), self.dtype)), draws, rng, self.ask)

    def bits(self, runs: int, rng: Generator) -> list[BitTest]:
        """Guesses on which end of a diameter the first record is."""
        data = np.tile(self.centre_of_ball, (2, self.n, 1))
        data[:, 0] += RADIUS * np.eye(self.d)[0] * np.array([[-1], [1]])
        low, high = (self.answer(x) for x in data)

        def ratio(outputs: Array) -> Array:
            apart = [np.linalg.norm(outputs - end, axis=-1) for end in (low, high)]
            return np.asarray((apart[0] - apart[1]) / self.shrink * RATE)

        releases, scores = [partial(self.make().release, x) for x in data], [ratio, lambda outputs: outputs[:, 0]]
        return [between(releases[0], releases[1], scores, float(self.losses[0]), runs, rng, self.ask)]

    def setting(self, **more: Any) -> Setting:
        """All checks of this use."""
        usual = Mean()
        parts = {name: getattr(self, name) for name in ("d", "n", "ask") if getattr(self, name) != getattr(usual, name)}
        parts |= {} if self.dtype is float else {"dtype": "float32"}
        checks = (self.budget, self.meter, self.centre, self.noise, lambda z: spherical_law(z, 1.0))
        more = {"runs": RUNS[:1], **more}
        plain = None if coarse(self.options) else self.plain
        return Setting(told({**self.options, **parts}), *checks, plain=plain, bits=self.bits, **more)


def settings() -> list[Setting]:
    """Each option; dimensions, sizes, types, and ways to ask."""
    each = [Mean(given) for given in alternatives(WeightedMean, {"shrink": (0.4,)})[1:]]
    uses = [*each, Mean({"shrink": 0.4, "clip": True}), Mean(d=1), Mean(n=1), Mean(n=40), Mean(dtype=np.float32)]
    asks: tuple[Ask, ...] = ("one by one", "a table")
    return [
        Mean(d=12).setting(draws=LOOKS, runs=RUNS),
        *(use.setting() for use in [*uses, *(Mean(ask=ask) for ask in asks)]),
    ]
