"""Settings of clipped gradients with local privacy, one release and training by FedSGD, in floats and whole numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpm_book.privacy.benches import (
    IDEAL,
    LOOKS,
    RUNS,
    Array,
    Generator,
    Setting,
    alternatives,
    listed_law,
    told,
)
from hdpm_book.privacy.guesses import BitTest, bit_test
from hdpm_book.privacy.laws import laplace_law
from hdpm_lib.learners import fedsgd, integer_answers

RECORD = np.append(np.linspace(4.0, 9.0, 9), 1.0)
REST = 2.0**-40  # a step so small that the model stays where it is; a power of two, which rounds nothing
GRID = 2.0**-20


def gradient(record: Array, label: int, classes: int = 2, clip_norm: float = 1.0) -> Array:
    """Clipped gradient of a record at equal probabilities of all classes, flat."""
    full = np.tile(record, classes) * np.repeat(1 / classes - np.eye(classes)[label], len(record))
    return np.asarray(full * min(1.0, clip_norm / float(np.abs(full).sum())))


@dataclass(frozen=True)
class Steps:
    """First steps of training.

    Signal, noise and what was received have the shape (rounds, runs, owners, coordinates).
    """

    signal: Array
    noise: Array
    received: Array | None
    trained: fedsgd.Training


def half(bidders: NDArray[np.int64]) -> fedsgd.Bought:
    """An auction that buys half of what owners accept who accept 1, for a payment of one unit each."""
    shape = bidders.shape
    return fedsgd.Bought(np.full(shape, 0.5), np.ones(shape), np.full(shape[:2], float(shape[2])))


@dataclass(frozen=True)
class Use:
    """Training of models of several owners with the same features and one record each."""

    options: Mapping[str, Any] = field(default_factory=dict)
    record: tuple[float, ...] = tuple(RECORD.tolist())
    classes: int = 2
    epsilon: float = 1.0
    dtype: Any = float
    alike: bool = True  # all runs start from one model
    rows: int = 1  # of an owner, all the same
    alone: bool = False  # one owner in a run

    @property
    def clip_norm(self) -> float:
        """Largest norm of a gradient."""
        return float(self.options.get("clip_norm", 1.0))

    @property
    def step(self) -> float:
        """Learning rate."""
        return float(self.options.get("learning_rate", REST))

    @property
    def sold(self) -> float:
        """Privacy loss of a release."""
        return 0.5 if "auction" in self.options else self.epsilon

    @property
    def width(self) -> int:
        """Coordinates of a gradient."""
        return self.classes * len(self.record)

    def train(self, labels: Any, runs: int, rounds: int, rng: Generator) -> Steps:
        """Train on owners with these labels, a model for each of them."""
        given = np.reshape(labels, (runs, -1))
        k = given.shape[1]
        own = [[np.full(self.rows, b) for b in row] for row in given]
        asked = np.broadcast_to(np.arange(k), (rounds, runs, k))
        alone = {str(j): (lambda eps, sizes, j=j: np.broadcast_to(np.eye(k)[j], eps.shape)) for j in range(k)}
        start = np.zeros((self.classes, len(self.record)) if self.alike else (runs, self.classes, len(self.record)))
        data = np.tile(np.array(self.record, self.dtype), (self.classes, 1)), np.arange(self.classes)
        budget, kind = np.full((runs, k), self.epsilon), {} if "spacing" in self.options else IDEAL
        options: dict[str, Any] = {"learning_rate": REST, "every": 1, **kind, **self.options}
        trained = fedsgd.fedsgd(*data, own, budget, asked, alone, start, rng=rng, **options)

        def steps(path: Any) -> Array:
            found = np.stack([-np.diff(path[j], axis=0) / self.step for j in alone], axis=2)
            return found.reshape(*found.shape[:3], -1)

        received = None if trained.received is None else steps(trained.received)
        return Steps(steps(trained.signal), steps(trained.noise), received, trained)

    @property
    def known(self) -> Array:
        """Clipped gradients for each label, in the type of the features, with a spacing cut to its multiples."""
        found = np.array([self._known(label) for label in range(self.classes)])
        spacing = self.options.get("spacing")
        return found if spacing is None else np.trunc(found / spacing + 1e-7 * np.sign(found)) * spacing

    def _known(self, label: int) -> Array:
        record = np.array(self.record, self.dtype).astype(float)
        return gradient(record, label, self.classes, self.clip_norm)

    @property
    def scale(self) -> float:
        """Of the noise."""
        return 2 * self.clip_norm / self.sold

    def budget(self) -> float:
        """What two gradients can be apart over the scale, and what is spent in three rounds."""
        ratios = []
        for epsilon in (0.1, 1.0, 8.0):
            ratios.append(2 * self.clip_norm / float(fedsgd.noise_scale(epsilon, self.clip_norm)) / epsilon)
        trained = self.train([0], 1, 3, np.random.default_rng(0)).trained
        return max(*ratios, 3 * self.sold / float(trained.privacy_loss[0, 0]))

    def meter(self) -> float:
        """Largest share of a promise: distance of two owners' gradients over the scale, for records of all sizes."""
        rng, worst = np.random.default_rng(0), 0.0
        for record in (self.record, (1.0,), (20.0, 20.0, 20.0), (1e-3, 1.0), tuple(1e3 * RECORD)):
            use = Use(self.options, record, self.classes, self.epsilon, self.dtype)
            signal = use.train([0, 1], 1, 1, rng).signal[0, 0]
            scale = float(fedsgd.noise_scale(self.sold, self.clip_norm))
            worst = max(worst, float(np.abs(signal[0] - signal[1]).sum()) / scale / self.sold)
        return worst if self.dtype is float else worst / (1 + 1e-6)  # the digits of the type

    def centre(self) -> float:
        """Error of the gradients, where they are clipped and where not, over the scale."""
        rng, off = np.random.default_rng(0), 0.0
        labels = list(range(self.classes))
        for more in ({}, {"clip_norm": 100.0}):
            use = Use(
                {**self.options, **more}, self.record, self.classes, self.epsilon, self.dtype, self.alike, self.rows
            )
            signal = use.train(labels, 1, 1, rng).signal[0, 0]
            spacing = self.options.get("spacing", 0.0)
            over = np.maximum(np.abs(signal - use.known) - spacing * 1.01, 0)
            off = max(off, float(over.sum(-1).max()) / use.scale)
        return off if self.dtype is float else max(0.0, off - 1e-5)

    def noise(self, draws: int, rng: Generator) -> Array:
        """Noise of scale one, of two rounds if the model rests; with a spacing each number spread over its step."""
        k, rounds = 10 if draws < 1000 else 100, 2 if self.step == REST else 1
        k = 1 if self.alone else k
        labels = np.resize(np.arange(self.classes), (draws // (rounds * k), k))
        made = self.train(labels, len(labels), rounds, rng)
        spacing = self.options.get("spacing")
        if spacing is None or made.received is None:
            sent = made.noise + (made.signal - self.known[labels])
            return np.asarray(sent.reshape(draws, -1) / self.scale)
        sent = (made.received - self.known[labels]).reshape(draws, -1)
        return np.asarray((sent + spacing * rng.uniform(-0.5, 0.5, sent.shape)) / self.scale)

    def plain(self, draws: int, rng: Generator) -> Array:
        """Noise as it is released, of a clip norm that makes its scale a power of two."""
        options = {name: value for name, value in self.options.items() if name != "learning_rate"}
        options["clip_norm"] = self.sold / 2 * 2.0 ** round(math.log2(self.scale))
        use = Use(options, self.record, self.classes, self.epsilon, self.dtype, self.alike, self.rows)
        labels = np.zeros((draws // 10, 10), dtype=int)
        return use.train(labels, draws // 10, 1, rng).noise.reshape(draws, -1)

    def bits(self, runs: int, rng: Generator) -> list[BitTest]:
        """Guesses of the label of an owner whose gradient is clipped, from what she sends."""
        use = Use(self.options, (20.0,), 2, self.epsilon, self.dtype, self.alike, self.rows)
        first, second = use.known

        def release(bits: NDArray[np.bool_], rng: Generator) -> Array:
            made = use.train(bits.astype(int), runs // 100, 1, rng)
            sent = made.signal + made.noise if made.received is None else made.received
            return sent.reshape(runs, -1)

        def ratio(z: Array) -> Array:
            return np.asarray((np.abs(z - first) - np.abs(z - second)).sum(1) / use.scale)

        return [bit_test(release, [ratio, lambda z: z[:, 0]], self.sold, runs, rng=rng)]

    def setting(self, **more: Any) -> Setting:
        """All checks of this use."""
        usual = Use()
        parts = {
            n: getattr(self, n)
            for n in ("classes", "epsilon", "rows", "alone")
            if getattr(self, n) != getattr(usual, n)
        }
        parts |= {} if self.record == usual.record else {"features": len(self.record)}
        parts |= {} if self.dtype is float else {"dtype": "float32"}
        parts |= {} if self.alike else {"start": "of each run"}
        named = {n: v.__name__ if callable(v) else v for n, v in self.options.items()}
        whole = "spacing" in self.options
        return Setting(
            ("training in whole numbers, " if whole else "training, ") + told({**named, **parts}),
            self.budget,
            self.meter,
            self.centre,
            self.noise,
            lambda z: laplace_law(z, 1.0),
            plain=None if whole else self.plain,
            digits=5 if whole else 9,  # of whole numbers each is spread over its step
            **{"bits": self.bits if parts.keys() <= {"dtype"} else None, "runs": RUNS[:1], **more},
        )


def fedsgd_options(more: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each option of the training, and those that are always there."""
    values = {"auction": (half,), "learning_rate": (2.0**-10,), "clip_norm": (3.0, 0.5), "every": (3,), "spacing": ()}
    given = [{**option, **more} for option in alternatives(fedsgd.fedsgd, values, apart=("arithmetic",))]
    return [{k: v for k, v in option.items() if k != "every"} if option.get("every") else option for option in given]


def idle() -> float:
    """Error of what is said of owners who sell nothing, who sell less, and of the model without noise.

    Half of the owners sell nothing: they have to send nothing, to spend nothing, and the others what was bought.
    """
    rng, k = np.random.default_rng(0), 4
    x, y = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([0, 1])
    own, asked = [[np.array([j % 2]) for j in range(k)]] * 2, np.broadcast_to(np.arange(k), (3, 2, k))

    def auction(bidders: NDArray[np.int64]) -> fedsgd.Bought:
        sold = np.where(bidders % 2 == 0, 0.7, 0.0)
        return fedsgd.Bought(sold, 2 * sold, np.full(bidders.shape[:2], 10.0))

    def equal(eps: Array, sizes: Array) -> Array:
        return eps / 2 * sizes

    rules = {"equal": equal, "no noise": None}
    given = x, y, own, np.full((2, k), 0.9), asked, rules, np.zeros((2, 2))
    made = fedsgd.fedsgd(*given, rng=rng, auction=auction, learning_rate=REST, clip_norm=1.0, every=2)
    spent = np.abs(made.privacy_loss - 3 * np.array([0.7, 0.0, 0.7, 0.0])).max()
    paid = np.abs(made.paid - 3 * 2 * 1.4).max()
    quiet = np.abs(made.noise["no noise"]).max() / REST
    signal = -made.signal["equal"][1] / REST  # after the first round
    known = np.zeros((2, 2)) + sum(gradient(x[j % 2], y[j % 2], 2, 1.0).reshape(2, 2) * 0.35 for j in (0, 2))
    return float(max(spent, paid, quiet, np.abs(signal - known).max(), abs(int(made.idle.sum()))))


def settings() -> list[Setting]:
    """Training in floats: each option; numbers of features and classes, types, losses, starts and records."""
    uses = [Use(option) for option in fedsgd_options({})[1:] if option and "spacing" not in option]
    uses += [Use(record=(2.0,)), Use(record=tuple(np.linspace(0.1, 1, 12)))]
    wide = [Use(record=tuple(np.linspace(0.1, 1, n))) for n in (31, 60)]
    uses += [Use(classes=3), Use(epsilon=0.2), Use(epsilon=8.0), Use(dtype=np.float32), Use(alike=False), Use(rows=3)]
    uses += [
        Use({"auction": half, "clip_norm": 2.0}, dtype=np.float32),
        Use({"every": 10}),
        Use({"learning_rate": 0.01}),
        Use(record=(2.0, 1.0)),
    ]
    return [
        Use().setting(draws=LOOKS, runs=RUNS[:2]),
        *(use.setting() for use in uses),
        *(use.setting(draws=LOOKS[:1]) for use in [*wide, Use(alone=True)]),
        Setting("training, some sell nothing", centre=idle),
    ]


# --- whole numbers ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Whole:
    """One release of gradients in whole numbers, of owners who accept different losses."""

    clip_norm: float = 1.0
    spacing: float = GRID
    shape: tuple[int, int] = (2, 6)
    dtype: Any = float
    owners: int = 10

    @property
    def epsilon(self) -> Array:
        """What the owners accept."""
        return np.resize([0.5, 1.0, 3.0], self.owners)

    @property
    def most(self) -> int:
        """Largest norm of a gradient in steps."""
        return math.floor(self.clip_norm / self.spacing)

    def gradients(self) -> tuple[Array, Array]:
        """Gradients, long, short, and one that is not finite; and what they are in steps."""
        rng = np.random.default_rng(8)
        g = rng.standard_normal((self.owners, *self.shape)) * np.resize([10.0, 0.01], self.owners)[:, None, None]
        g = (self.clip_norm * g).astype(self.dtype)
        known = g.astype(float)
        known *= np.minimum(1, self.clip_norm / np.abs(known).sum((1, 2), keepdims=True))
        if self.owners > 2:
            g[2, 0, 0], known[2] = np.inf, 0.0
        return g, known

    def release(self, g: Array, rng: Generator, times: int = 1) -> Array:
        """What is sent, `times` rows for each owner."""
        if self.owners == 1 and times > 1:
            return np.concatenate([self.release(g, rng) for _ in range(times)])
        epsilon = np.tile(self.epsilon, times)
        many = np.tile(g, (times, 1, 1))
        found = integer_answers.integer_gradients(many, epsilon, self.clip_norm, spacing=self.spacing, rng=rng)
        return found.reshape(times, self.owners, -1)

    def budget(self) -> float:
        """Largest norm in steps that gradients have, over the largest that the noise is for."""
        long = np.concatenate(
            [1e3 * np.eye(self.shape[0] * self.shape[1]), self.gradients()[0].reshape(self.owners, -1)]
        )
        steps = integer_answers.grid_gradients(long.reshape(-1, *self.shape), self.clip_norm, self.spacing)
        return float(np.abs(steps).sum((1, 2)).max() / self.most)

    def meter(self) -> float:
        """Distance of antipodes in steps over the scale of the noise: at most what is accepted, and nearly that."""
        first = np.zeros((2, *self.shape))
        first[:, 0, 0] = 1e6, -1e6
        steps = integer_answers.grid_gradients(first, self.clip_norm, self.spacing)
        return float(np.abs(steps[0] - steps[1]).sum() / (2 * self.clip_norm / self.spacing))

    def centre(self) -> float:
        """By how much gradients in steps are further than a step from the clipped ones, and ever above them."""
        g, known = self.gradients()
        steps = integer_answers.grid_gradients(g, self.clip_norm, self.spacing) * self.spacing
        digits = 1e-9 if self.dtype is float else 1e-6
        over = np.maximum(np.abs(steps) - np.abs(known), np.abs(steps - known) - self.spacing)
        return max(0.0, float(over.max()) / self.clip_norm - digits)

    def steps(self, draws: int, rng: Generator) -> Array:
        """Noise in the units of gradients, in rows of all owners."""
        g, _ = self.gradients()
        known = integer_answers.grid_gradients(g, self.clip_norm, self.spacing) * self.spacing
        return np.asarray(self.release(g, rng, draws // self.owners) - known.reshape(self.owners, -1))

    def noise(self, draws: int, rng: Generator) -> Array:
        """Noise of scale one, each number spread evenly over its step."""
        sent = self.steps(draws, rng)
        scale = 2 * self.most * self.spacing / self.epsilon
        return np.asarray(
            ((sent + self.spacing * rng.uniform(-0.5, 0.5, sent.shape)) / scale[:, None]).reshape(-1, sent.shape[-1])
        )

    def cells(self, draws: int, rng: Generator) -> NDArray[np.int64]:
        """Noise in steps, of the owners who accept as much as the first."""
        sent = self.steps(draws, rng)[:, self.epsilon == self.epsilon[0]]
        return np.rint(sent.reshape(-1, 1) / self.spacing).astype(np.int64)

    def law(self, steps: NDArray[np.int64]) -> Any:
        """Noise in steps against the list of all integers."""
        scale = 2 * self.most / self.epsilon[0]
        k = np.arange(-int(45 * scale), int(45 * scale) + 1)
        return listed_law(steps, k[:, None], math.tanh(0.5 / scale) * np.exp(-np.abs(k) / scale))

    def bits(self, runs: int, rng: Generator) -> list[BitTest]:
        """Guesses between antipodes in one coordinate of one class."""
        ends = np.array([1.0, -1.0]) * self.clip_norm * 10

        def release(bits: NDArray[np.bool_], rng: Generator) -> Array:
            g = np.where(bits, ends[1], ends[0])[:, None, None]
            found = integer_answers.integer_gradients(g, np.ones(runs), self.clip_norm, spacing=self.spacing, rng=rng)
            return found[:, 0, 0]

        b = self.clip_norm
        return [bit_test(release, [lambda z: (np.abs(z - b) - np.abs(z + b)) / (2 * b)], 1.0, runs, rng=rng)]

    def setting(self, *, coarse: bool = False) -> Setting:
        """All checks of this use; a grid is what it promises."""
        usual = Whole()
        parts = {
            n: getattr(self, n)
            for n in ("clip_norm", "spacing", "shape", "owners")
            if getattr(self, n) != getattr(usual, n)
        }
        parts |= {} if self.dtype is float else {"dtype": "float32"}
        noise, law = (self.cells, self.law) if coarse else (self.noise, lambda z: laplace_law(z, 1.0))
        checks = (self.budget, self.meter, self.centre, noise, law)
        name = "whole gradients, " + told(parts)
        more: dict[str, Any] = {"bits": self.bits, "runs": (200,)} if parts.keys() <= {"clip_norm"} else {}
        draws = LOOKS[:2] if math.prod(self.shape) <= 2 else LOOKS[:1]
        return Setting(name, *checks, draws=draws, repeats=not coarse and math.prod(self.shape) > 2, digits=5, **more)


def whole_settings() -> list[Setting]:
    """Gradients in whole numbers, and training with a spacing: each option."""
    uses = [Whole(), Whole(clip_norm=3.0), Whole(spacing=2.0**-8), Whole(dtype=np.float32)]
    uses += [
        Whole(shape=(1, 1)),
        Whole(shape=(1, 2)),
        Whole(shape=(3, 20)),
        Whole(owners=1),
        Whole(clip_norm=0.3, spacing=2.0**-10),
    ]
    coarse = [Whole(spacing=0.25, shape=(1, 2)), Whole(clip_norm=3.0, spacing=1.0)]
    options = [option for option in fedsgd_options({"spacing": GRID})[:-1] if "learning_rate" not in option]
    trained = [Use(option) for option in options] + [Use({"spacing": GRID}, dtype=np.float32, classes=3)]
    trained += [
        Use({"spacing": 2.0**-6}, epsilon=0.2),
        Use({"spacing": GRID}, alike=False, rows=3),
        Use({"spacing": GRID}, alone=True),
    ]
    return [
        *(use.setting() for use in uses),
        *(use.setting(coarse=True) for use in coarse),
        *(use.setting(draws=LOOKS[:1], bits=None) for use in trained),
    ]
