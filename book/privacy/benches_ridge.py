"""Settings of ridge regression by output perturbation, of all records and of sampled ones.

Features have a norm of at most R, labels are at most a; every formula is typed anew from the papers and the proofs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
    opened,
    told,
)
from hdpm_book.privacy.guesses import BitTest, log_ratio
from hdpm_book.privacy.laws import ridge_noise, spherical_law
from hdpm_book.ridge import jorgensen
from hdpm_lib.audits.ridge import ridge_pair_loss
from hdpm_lib.learners import ridge

DIMENSIONS = (1, 2, 12, 31, 60)
BOUNDS: dict[str, tuple[float, ...]] = {"feature_norm": (2.5,), "label_bound": (0.5, 2.0), "norm_bound": (0.3,)}


# --- formulas ---------------------------------------------------------------------------------------------------------


def constant(
    penalty: float, R: float, a: float = 1.0, bound: str = "paper", B: float | None = None, total: float = 1.0
) -> float:
    """What a unit of weight moves the estimate at most, for weights of that sum at most: as printed, or sharper."""
    root = math.sqrt(total)
    if bound == "paper":
        B = a * root * min(1 / math.sqrt(penalty), R * root / penalty) if B is None else B
        return 2 * R / penalty * (a + R * B)
    s = min(math.sqrt(penalty), R * root)
    B = a * root * s / (s * s + penalty) if B is None else B
    return 2 * R / penalty * (a + R * B / 2)


def within(X: Array, y: Array, feature_norm: float | None, a: float) -> tuple[Array, Array]:
    """Records moved onto the bounds."""
    if feature_norm is None:
        X = np.minimum(np.maximum(X, 0.0), 1.0)
    else:
        X = X * np.minimum(1.0, feature_norm / np.maximum(np.linalg.norm(X, axis=1), 1e-300))[:, None]
    return X, np.minimum(np.maximum(y, -a), a)


@dataclass(frozen=True)
class Use:
    """Ridge regression with some options, on records within or without its bounds."""

    d: int = 12
    n: int = 10
    penalty: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)
    ask: Ask = "batches"
    dtype: Any = float
    project: bool = False

    @property
    def feature_norm(self) -> float | None:
        """Bound on feature norms, if there is one."""
        return self.options.get("feature_norm")

    @property
    def R(self) -> float:
        """Largest norm of features."""
        return math.sqrt(self.d) if self.feature_norm is None else self.feature_norm

    @property
    def a(self) -> float:
        """Largest label."""
        return float(self.options.get("label_bound", 1.0))

    @property
    def c(self) -> float:
        """The constant that the rate is made with."""
        bound, B = self.options.get("bound", "paper"), self.options.get("norm_bound")
        return constant(self.penalty, self.R, self.a, bound, B)

    @property
    def radius(self) -> float:
        """Of the public ball."""
        s = min(math.sqrt(self.penalty), self.R)
        return float(self.options.get("norm_bound") or self.a * s / (s * s + self.penalty))

    def data(self, size: float = 0.99) -> tuple[Array, Array, Array]:
        """Features, labels and privacy losses; with a size above 1 most records lie outside the bounds."""
        rng = np.random.default_rng([self.d, self.n])
        X, y = rng.random((self.n, self.d)), rng.uniform(-1, 1, self.n)
        if self.feature_norm is not None:
            X = (2 * X - 1) * (self.R / math.sqrt(self.d))
        return (size * X).astype(self.dtype), (size * self.a * y).astype(self.dtype), rng.uniform(0.1, 1, self.n)

    def records(self) -> tuple[Array, Array, Array]:
        """Those that go in: without the bounds if they are clipped."""
        return self.data(1.5 if self.options.get("clip") else 0.99)

    def known(self) -> tuple[Array, Array]:
        """Those records as they have to be used."""
        X, y, _ = self.records()
        return within(X.astype(float), y.astype(float), self.feature_norm, self.a)

    def make(self, X: Any, y: Any, epsilon: Any) -> ridge.OutputPerturbation:
        """The mechanism."""
        return ridge.output_perturbation(X, y, epsilon, self.penalty, **{**IDEAL, **self.options})

    def budget(self) -> float:
        """Largest share of a promise that the numbers of the learner imply, over four penalties."""
        epsilon, worst = np.array([0.1, 0.5, 1.0, 3.0]), 0.0
        for penalty in (0.01, 1.0, 100.0, 1e4):
            use = replace(self, penalty=penalty)
            made = use.make(np.zeros((4, self.d), self.dtype), np.zeros(4, self.dtype), epsilon)
            total, B = float(made.weights.sum()), self.options.get("norm_bound")
            proved = constant(penalty, self.R, self.a, "sharp", B, total)
            worst = max(
                worst, float((made.noise_rate * proved * made.weights / np.minimum(epsilon, made.privacy_loss)).max())
            )
        return worst

    def ends(self, own: float, size: float = 1.0) -> tuple[Array, tuple[Array, Array], Array]:
        """Features, two vectors of labels that differ in the first, and privacy losses: tight at large penalties."""
        X, y = np.zeros((4, self.d), self.dtype), np.zeros(4, self.dtype)
        X[0] = size * self.R / math.sqrt(self.d) * (1 - 1e-7 * (self.dtype != float and self.feature_norm is not None))
        y[0] = size * self.a
        return X, (y, -y), np.array([own, 1.0, 1.0, 1.0])

    def meter(self) -> float:
        """Largest share of a promise lost between two data sets, of tight ones and of a light record by heavy ones."""
        worst = 0.0
        for own, size in itertools.product((0.5, 2.0), (1.0, 3.0)):
            X, labels, epsilon = self.ends(own, size)
            use = replace(self, penalty=2000 * self.R**2)
            worst = max(worst, use.share(X, labels[0], X, labels[1], epsilon))
        X, y, _ = replace(self, n=4).data()
        X[:], y[:] = self.R / math.sqrt(self.d) / 2, self.a
        other, label = X.copy(), y.copy()
        other[0], label[0] = 1.999 * X[0], -self.a / 2
        for penalty in (0.01, 1.0, 100.0):
            if self.options.get("norm_bound") is None:  # else the promise is for estimates within it only
                use, epsilon = replace(self, penalty=penalty), np.array([0.01, 1.0, 1.0, 1.0])
                worst = max(worst, use.share(X, y, other, label, epsilon))
        return worst

    def share(self, X: Array, y: Array, other: Array, label: Array, epsilon: Array) -> float:
        """Loss over promise of the first record between two data sets; 0 if they are refused."""
        try:
            one, two = self.make(X, y, epsilon), self.make(other, label, epsilon)
        except ValueError:
            return 0.0
        if one.noise_rate != two.noise_rate:
            return math.inf  # the ratio of two densities of different rates has no bound
        return float(ridge_pair_loss(one.theta, two.theta, one.noise_rate)) / epsilon[0]

    def centre(self) -> float:
        """Error of the estimate, and of what is pulled back to the ball, times the rate; of rate and guarantee."""
        X, y, epsilon = self.records()
        made, rate = self.make(X, y, epsilon), epsilon.sum() / self.c
        stated = max(abs(made.noise_rate / rate - 1), float(np.abs(made.privacy_loss / epsilon - 1).max()))
        known = *self.known(), epsilon / epsilon.sum()
        apart = float(np.linalg.norm(ridge_noise(made.theta, *known, self.penalty)))
        if self.project:
            free, kept = (made.release(rng=np.random.default_rng(1), size=20, project=p) for p in (False, True))
            norm = np.linalg.norm(free, axis=1, keepdims=True)
            apart = max(apart, float(np.abs(free * np.minimum(1, self.radius / norm) - kept).max()))
        return max(rate * apart, stated)

    def noise(self, draws: int, rng: Generator) -> Array:
        """Noise of rate one; where it is pulled back to a ball, around the estimate 0 and opened again."""
        X, y, epsilon = self.records()
        if not self.project:
            made = self.make(X, y, epsilon)
            released = asked(made.release, draws, rng, self.ask)
            known = *self.known(), epsilon / epsilon.sum()
            return epsilon.sum() / self.c * ridge_noise(released, *known, self.penalty)
        epsilon *= self.d * self.c / self.radius / epsilon.sum()  # half of the draws lie outside
        made = self.make(X, 0 * y, epsilon)
        rate = epsilon.sum() / self.c
        released = asked(partial(made.release, project=True), draws, rng, self.ask)
        return opened(rate * released, rate * self.radius, rng)

    def plain(self, draws: int, rng: Generator) -> Array:
        """Noise around 0, so small that the ball does not matter."""
        X, y, epsilon = self.records()
        made = self.make(X, 0 * y, 1e6 * epsilon if self.project else epsilon)
        return asked(partial(made.release, project=True) if self.project else made.release, draws, rng, self.ask)

    def bits(self, runs: int, rng: Generator) -> list[BitTest]:
        """Guesses between the tight ends, in one dimension and in two."""
        tests = []
        for d in (1, 2) if self.d <= 2 else (1,):
            use = replace(self, d=d)
            use = replace(use, penalty=2000 * use.R**2)
            X, labels, epsilon = use.ends(0.5)
            made = [use.make(X, y, epsilon) for y in labels]
            rate, tip = epsilon.sum() / use.c, self.a / 7 / (use.R**2 / 7 + use.penalty) * X[0].astype(float)

            def first(outputs: Array, rate: float = rate) -> Array:
                return np.asarray(rate * outputs[:, 0])

            scores, claim = [log_ratio(tip, -tip, rate), first], float(epsilon[0])
            releases = [partial(m.release, project=self.project) if self.project else m.release for m in made]
            tests.append(between(releases[0], releases[1], scores, claim, runs, rng, self.ask))
        return tests

    def setting(self, **more: Any) -> Setting:
        """All checks of this use."""
        own = {
            "d": self.d,
            "n": self.n,
            "penalty": self.penalty,
            "project": self.project,
            "dtype": np.dtype(self.dtype),
        }
        usual = {"d": 12, "n": 10, "penalty": 1.0, "project": False, "dtype": np.dtype(float)}
        parts = {name: value for name, value in own.items() if value != usual[name]}
        asks = {} if self.ask == "batches" else {"asked for": self.ask}
        return Setting(
            told({**self.options, **parts, **asks}),
            self.budget,
            self.meter,
            self.centre,
            self.noise,
            lambda z: spherical_law(z, 1.0),
            plain=None if coarse(self.options) else self.plain,
            bits=self.bits,
            **more,
        )


def output_settings() -> list[Setting]:
    """Output perturbation: each option, options that meet in the constant, sizes, types, and both sides of branches."""
    each = [Use(options=given) for given in alternatives(ridge.output_perturbation, BOUNDS)[1:]]
    together = [
        Use(options={"bound": bound, "feature_norm": 2.5, "label_bound": 0.5, "clip": True}, penalty=20.0)
        for bound in ("paper", "sharp")
    ]
    together += [
        Use(options={"bound": "sharp", "norm_bound": 0.3, "label_bound": 0.5}),
        Use(options={"bound": "sharp"}, penalty=50.0),
        Use(options={"feature_norm": 2.5}, penalty=0.05, dtype=np.float32),
    ]
    asks = [
        Use(ask="one by one"),
        Use(ask="one by one", d=2, options={"bound": "sharp"}, project=True),  # as the estimator asks
        Use(ask="a table"),
        Use(project=True),
        Use(project=True, options={"norm_bound": 0.3}),
        Use(project=True, options={"bound": "sharp", "feature_norm": 2.5, "label_bound": 0.5}),
    ]
    shapes = [Use(d=1), Use(d=2, n=1), Use(d=12, n=200, penalty=0.01), Use(d=12, penalty=1e4), Use(dtype=np.float32)]
    wide = [Use(d=30), Use(d=31), Use(d=60)]
    singles = {"runs": RUNS[:1]}
    return [
        Use(d=2).setting(runs=RUNS),
        *(use.setting(draws=LOOKS) for use in wide),
        *(use.setting(**singles if use.ask == "one by one" else {}) for use in each + together + asks + shapes),
    ]


# --- ridge regression on sampled records ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sampled:
    """Ridge regression on a sample of the records (Jorgensen, Yu and Cormode)."""

    options: Mapping[str, Any] = field(default_factory=dict)
    penalty: float = 1.0
    d: int = 5
    dtype: Any = float
    ask: Ask = "batches"

    @property
    def use(self) -> Use:
        """The same records and bounds for output perturbation."""
        shared = {name: value for name, value in self.options.items() if name != "size_in_noise"}
        return Use(d=self.d, n=6, penalty=self.penalty, options=shared, dtype=self.dtype)

    @property
    def fixed(self) -> bool:
        """Whether the noise is that of the expected size."""
        return self.options.get("size_in_noise", "realised") == "fixed"

    def expected(self, masks: Array, epsilon: Array) -> tuple[Array, Array]:
        """Sizes by which estimates are weighted, and noise rates, for the threshold 1."""
        keep = np.minimum(1, (np.exp(epsilon) - 1) / (math.e - 1))
        size = np.full(len(masks), keep.sum()) if self.fixed else masks.sum(1)
        total, use = len(epsilon) / keep.sum() if self.fixed else 1.0, self.use
        return size, size / constant(self.penalty, use.R, use.a, self.options.get("bound", "paper"), None, total)

    def _learn(self, draws: int, rng: Generator) -> tuple[Any, Array, Array, Array, Array]:
        X, y, epsilon = self.use.records()
        epsilon[0] = 1.0  # kept for sure
        masks = jorgensen.draw_masks(epsilon, 1.0, draws, rng=rng)
        made = jorgensen.sampled_ridge(X, y, epsilon, self.penalty, 1.0, masks, **self.options)
        return made, X.astype(float), y.astype(float), epsilon, masks

    def noise(self, draws: int, rng: Generator) -> Array:
        """Noise of rate one."""
        if self.ask == "one by one":
            return np.concatenate([replace(self, ask="batches").noise(1, rng) for _ in range(draws)])
        made, X, y, epsilon, masks = self._learn(draws, rng)
        size, rate = self.expected(masks, epsilon)
        return np.asarray(
            rate[:, None] * (made.release(rng=rng) - estimates(X, y, masks / size[:, None], self.penalty))
        )

    def plain(self, draws: int, rng: Generator) -> Array:
        """Noise around 0."""
        X, y, epsilon = self.use.records()
        masks = np.ones((draws, len(y)))
        return jorgensen.sampled_ridge(X, 0 * y, epsilon, self.penalty, 1.0, masks, **self.options).release(rng=rng)

    def centre(self) -> float:
        """Error of the estimates, times the rate, and of the shares of masks in which each record is kept."""
        made, X, y, epsilon, masks = self._learn(50, np.random.default_rng(2))
        size, rate = self.expected(masks, epsilon)
        apart = made.theta - estimates(X, y, masks / size[:, None], self.penalty)
        kept, probability = jorgensen.all_masks(epsilon, 1.0)
        off = np.abs(probability @ kept - np.minimum(1, (np.exp(epsilon) - 1) / (math.e - 1))).max()
        shares = jorgensen.draw_masks(epsilon, 1.0, 1000, rng=np.random.default_rng(3)).mean(0)
        known = np.minimum(1, (np.exp(epsilon) - 1) / (math.e - 1))
        far = np.abs(shares - known) > 6 * np.sqrt(known * (1 - known) / 1000) + 1e-12
        stated = float(np.abs(made.noise_rate / rate - 1).max())
        return math.inf if far.any() else max(stated, float((rate * np.linalg.norm(apart, axis=1)).max()), float(off))

    def meter(self) -> float:
        """Loss of a record that accepts 0.1 and is sampled, beside one that is kept for sure, over 0.1.

        At the estimate with her, where the two densities differ most; only the fixed size keeps the promise.
        """
        use = replace(self.use, n=2)
        X, epsilon, logs = np.zeros((2, self.d)), np.array([0.1, 1.0]), []
        X[0] = use.R / math.sqrt(self.d)
        masks, probability = jorgensen.all_masks(epsilon, 1.0)
        size, _ = self.expected(masks, epsilon)
        penalty = 1e4
        at = estimates(X, np.array([use.a, 0.0]), np.ones((1, 2)) / size[0], penalty)[0]
        for label in (use.a, -use.a):
            made = jorgensen.sampled_ridge(X, [label, 0.0], epsilon, penalty, 1.0, masks, **self.options)
            logs.append(float(made.log_density(at, probability)))
        return abs(logs[0] - logs[1]) / 0.1

    def budget(self) -> float:
        """A record that is kept loses the threshold at most: rate, proved constant and weight against it."""
        use, worst = self.use, 0.0
        epsilon = np.array([0.1, 0.5, 1.0, 3.0])
        for penalty in (0.01, 1.0, 1e4):
            masks, _ = jorgensen.all_masks(epsilon, 1.0)
            X, y = np.zeros((4, self.d)), np.zeros(4)
            made = jorgensen.sampled_ridge(X, y, epsilon, penalty, 1.0, masks, **self.options)
            size, _ = self.expected(masks, epsilon)
            total = 4 / size[0] if self.fixed else 1.0
            lost = made.noise_rate * constant(penalty, use.R, use.a, "sharp", None, total) / size
            worst = max(worst, float(lost.max()))
        return worst

    def setting(self) -> Setting:
        """All checks of this use: a meter where the promise holds."""
        own = {"d": self.d, "penalty": self.penalty, "dtype": np.dtype(self.dtype)}
        usual = {"d": 5, "penalty": 1.0, "dtype": np.dtype(float)}
        parts = {name: value for name, value in own.items() if value != usual[name]}
        parts |= {} if self.ask == "batches" else {"asked for": self.ask}
        name = "sampled records, " + told({**self.options, **parts})
        meter = self.meter if self.fixed else None
        return Setting(
            name, self.budget, meter, self.centre, self.noise, lambda z: spherical_law(z, 1.0), plain=self.plain
        )


def estimates(X: Array, y: Array, weights: Array, penalty: float) -> Array:
    """Weighted ridge estimates, one for each row of weights, by orthogonal factorisations."""
    d, found = X.shape[1], []
    for w in np.unique(weights, axis=0):
        root = np.sqrt(w)
        stacked = np.concatenate([root[:, None] * X, math.sqrt(penalty) * np.eye(d)])
        found.append((w, np.linalg.lstsq(stacked, np.concatenate([root * y, np.zeros(d)]), rcond=None)[0]))
    made = np.empty((len(weights), d))
    for w, theta in found:
        made[(weights == w).all(1)] = theta
    return made


def sampled_settings() -> list[Setting]:
    """Sampled records: each option, and both with the size that keeps promises."""
    fixed = {"size_in_noise": "fixed"}
    each = alternatives(jorgensen.sampled_ridge, {name: BOUNDS[name] for name in ("feature_norm", "label_bound")})
    both = [{**fixed, "bound": "sharp", "label_bound": 0.5}, {**fixed, "bound": "sharp", "feature_norm": 2.5}]
    uses = [Sampled(given) for given in each + both]
    uses += [Sampled(fixed, penalty=penalty) for penalty in (0.05, 50.0)] + [
        Sampled(fixed, d=d) for d in (1, 12, 31, 60)
    ]
    return [use.setting() for use in [*uses, Sampled(d=2, dtype=np.float32), Sampled(fixed, ask="one by one")]]
