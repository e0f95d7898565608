"""Settings of other ways to the losses of ridge regression: perturbed objectives and moments, a constant, a lattice."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from scipy import optimize, stats

from hdpm_book.privacy.benches import (
    LOOKS,
    Array,
    Ask,
    Generator,
    Setting,
    alternatives,
    asked,
    between,
    listed_law,
    opened,
    told,
)
from hdpm_book.privacy.benches_ridge import BOUNDS, Use, constant, estimates
from hdpm_book.privacy.guesses import BitTest, log_ratio
from hdpm_book.privacy.laws import LawTest, laplace_law, lattice_law, spherical_law
from hdpm_book.ridge import variants as ridge_variants
from hdpm_lib.learners import lattice

FEW = (30,)  # draws where one takes long
LIMITS = {name: BOUNDS[name] for name in ("feature_norm", "label_bound")}


# --- perturbed objectives and moments ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moments:
    """Objective perturbation of ridge regression, or perturbed moments."""

    kind: str = "objective"
    options: Mapping[str, Any] = field(default_factory=dict)
    d: int = 3
    n: int = 6
    penalty: float = 1.0
    ask: Ask = "batches"
    dtype: Any = float

    @property
    def use(self) -> Use:
        """The same records and bounds for output perturbation."""
        return Use(d=self.d, n=self.n, penalty=self.penalty, options=self.options, dtype=self.dtype)

    def calibrate(self, X: Any, y: Any, epsilon: Any) -> ridge_variants.WeightedMoments:
        """The mechanism."""
        if self.kind == "objective":
            return ridge_variants.calibrate_objective_perturbation(X, y, epsilon, self.penalty, **self.options)
        return ridge_variants.calibrate_sufficient_statistics(X, y, epsilon, self.penalty, **self.options)

    def release(self, made: ridge_variants.WeightedMoments, **more: Any) -> Array:
        """What is published."""
        if self.kind == "objective":
            return ridge_variants.release_objective_perturbation(made, **more)
        return ridge_variants.release_sufficient_statistics(made, **more)

    @property
    def moved(self) -> float:
        """How far a record of weight 1 moves what gets the noise: a gradient, or moments, labels in units of `a`."""
        R, a = self.use.R, self.use.a
        if self.kind == "objective":
            return 2 * R * R * self.use.radius + 4 * R * a
        return math.sqrt(self.d**2 + self.d + 2.25 if self.use.feature_norm is None else 2 * R**4 + 2 * R**2 + 0.5)

    @property
    def spent(self) -> float:
        """What the curvature of the objective costs a record of weight 1."""
        return self.use.R**2 / self.penalty if self.kind == "objective" else 0.0

    def losses(self, epsilon: Array) -> Array:
        """Privacy losses in these proportions, so large that an objective keeps its minimiser inside the ball."""
        room = (2 * self.d + 30) / (self.penalty * self.use.radius)
        return epsilon / epsilon.sum() * (self.spent + self.moved * room)

    def make(self) -> tuple[ridge_variants.WeightedMoments, Array, Array, Array, float]:
        """The mechanism, the records it was made from, their weights, and the noise rate it should have."""
        X, y, epsilon = self.use.records()
        epsilon = self.losses(epsilon)
        rate = (epsilon.sum() - self.spent) / self.moved
        return self.calibrate(X, y, epsilon), X.astype(float), y.astype(float), epsilon / epsilon.sum(), rate

    def noise(self, draws: int, rng: Generator) -> Array:
        """Of the objective, rate one: what makes the releases minimisers."""
        made, X, y, w, rate = self.make()
        released = asked(partial(self.release, made), draws, rng, self.ask)
        return np.asarray(2 * rate * ((w * y) @ X - released @ ((X.T * w) @ X + self.penalty * np.eye(self.d))))

    def releases(self, draws: int, rng: Generator) -> Array:
        """Of the moments, with five times the noise: what is published, and four times as many by this module."""
        made, X, y, w, rate = self.make()
        rate, entries, size = rate / 5, self.d + self.d * (self.d + 1) // 2, 4 * draws
        released = asked(partial(self.release, replace(made, noise_rate=made.noise_rate / 5)), draws, rng, self.ask)
        z = rng.standard_normal((size, entries))
        z *= (rng.gamma(entries, 1 / rate, size) / np.linalg.norm(z, axis=1))[:, None]
        return np.concatenate([released, self.solved(z, X, y, w)])

    def solved(self, noise: Array, X: Array, y: Array, w: Array) -> Array:
        """Estimates from moments with noise in rows, of the cross moments first; negative eigenvalues are cut."""
        d = self.d
        second, cross = np.tile((X.T * w) @ X, (len(noise), 1, 1)), (w * y) @ X + self.use.a * noise[:, :d]
        for k, (i, j) in enumerate(itertools.combinations_with_replacement(range(d), 2)):
            second[:, i, j] += noise[:, d + k] / (1 if i == j else math.sqrt(2))
            second[:, j, i] = second[:, i, j]
        values, vectors = np.linalg.eigh(second)
        turned = np.einsum("kji,kj->ki", vectors, cross) / (np.maximum(values, 0) + self.penalty)
        theta = np.einsum("kij,kj->ki", vectors, turned)
        return np.asarray(theta * np.minimum(1, self.use.radius / np.linalg.norm(theta, axis=1, keepdims=True)))

    def budget(self) -> float:
        """Share of the promise that the rate and the proved sensitivity imply."""
        made, _, _, _, rate = self.make()
        return (made.noise_rate * self.moved + self.spent) / (rate * self.moved + self.spent)

    def meter(self) -> float:
        """Share of the promise lost: moments that one record moves, or log densities of releases inside the ball."""
        worst, epsilon = 0.0, self.losses(np.array([0.5, 1.0, 1.0, 1.0]))
        pairs = []
        for size in (1.0, 3.0):
            X, (up, down), _ = replace(self.use, dtype=float).ends(0.5, size)
            empty = np.zeros_like(X)
            other = X.copy()
            other[0, : self.d // 2] *= -1 if self.use.feature_norm else 0
            pairs += [(X, up, X, down), (X, up, empty, 0 * up), (X, up, empty, down), (X, up, other, down)]
        at = np.concatenate([np.eye(self.d), -np.eye(self.d), np.ones((1, self.d)) / math.sqrt(self.d)])
        at = self.use.radius * np.concatenate([share * at for share in (0.1, 0.5, 0.999)])
        for X, y, other, label in pairs:
            try:
                one, two = self.calibrate(X, y, epsilon), self.calibrate(other, label, epsilon)
            except ValueError:  # records outside the bounds are refused
                continue
            if one.noise_rate != two.noise_rate:
                return math.inf
            if self.kind == "moments":
                apart = np.append((one.second - two.second).ravel(), (one.cross - two.cross) / self.use.a)
                lost = one.noise_rate * float(np.linalg.norm(apart))
            else:
                logs = [_log_density(made, at) for made in (one, two)]
                lost = float(np.abs(logs[0] - logs[1]).max())
            worst = max(worst, lost / epsilon[0])
        return worst

    def centre(self) -> float:
        """Error of moments and radius, and of what is made of given noise, with much noise and little."""
        made, X, y, w, rate = self.make()
        parts = [made.second - (X.T * w) @ X, made.cross - (w * y) @ X, np.array(made.radius - self.use.radius)]
        off = max(rate * max(float(np.abs(part).max()) for part in parts), abs(made.noise_rate / rate - 1))
        for r in (made.noise_rate, made.noise_rate / 50):
            noisy, seeds = replace(made, noise_rate=r), (np.random.default_rng(4) for _ in range(2))
            released, entries = self.release(noisy, rng=next(seeds), size=20), self.d
            entries += self.d * (self.d + 1) // 2 if self.kind == "moments" else 0
            drawn = ridge_variants.spherical_laplace(entries, r, rng=next(seeds), size=20)
            best = self.solved(drawn, X, y, w) if self.kind == "moments" else self.minimisers(drawn, X, y, w)
            off = max(off, float(np.abs(released - best).max()) / self.use.radius)
        return off

    def minimisers(self, noise: Array, X: Array, y: Array, w: Array) -> Array:
        """Minimisers on the ball for noise in rows: each a root in the multiplier."""
        system, found = (X.T * w) @ X + self.penalty * np.eye(self.d), []
        for right in (w * y) @ X - noise / 2:

            def at(nu: float, right: Array = right) -> Array:
                return np.asarray(np.linalg.solve(system + nu * np.eye(self.d), right))

            def over(nu: float, at: Any = at) -> float:
                return float(np.linalg.norm(at(nu))) - self.use.radius

            top = float(np.linalg.norm(right)) / self.use.radius
            found.append(at(optimize.brentq(over, 0, top, xtol=1e-13, rtol=1e-14) if over(0.0) > 0 else 0.0))
        return np.array(found)

    def plain(self, draws: int, rng: Generator) -> Array:
        """Noise as it is released without data, where no step but one by a power of two comes after."""
        one = replace(self, penalty=1.0) if self.kind == "objective" else replace(self, d=1, penalty=2.0**60)
        made = one.calibrate(np.zeros((2, one.d), self.dtype), np.zeros(2, self.dtype), np.full(2, 1e8 * one.use.R**2))
        return asked(partial(one.release, made), draws, rng, self.ask)

    def bits(self, runs: int, rng: Generator) -> list[BitTest]:
        """Guesses between the two labels of one record, of four, in one dimension."""
        one = replace(self, d=1)
        X, labels, epsilon = one.use.ends(0.5)
        epsilon = (one.spent * 1.2 + 1) * epsilon / epsilon.sum()
        releases = [partial(one.release, one.calibrate(X, y, epsilon)) for y in labels]
        scores = [lambda o: o[:, 0], lambda o: np.abs(o[:, 0])]
        return [between(releases[0], releases[1], scores, float(epsilon[0]), runs, rng, self.ask)]

    def setting(self) -> Setting:
        """All checks of this use."""
        own = {"d": self.d, "n": self.n, "penalty": self.penalty, "dtype": np.dtype(self.dtype).name}
        usual = {"d": 3, "n": 6, "penalty": 1.0, "dtype": "float64"}
        parts = {name: value for name, value in own.items() if value != usual[name]}
        asks = {} if self.ask == "batches" else {"asked for": self.ask}
        sampled = self.kind == "moments"
        return Setting(
            f"perturbed {self.kind}, " + told({**self.options, **parts, **asks}),
            self.budget,
            self.meter,
            self.centre,
            self.releases if sampled else self.noise,
            two_samples if sampled else lambda z: spherical_law(z, 1.0),
            FEW if sampled and self.d >= 12 else LOOKS[:2],
            plain=self.plain,
            bits=self.bits,
            runs=(1000,) if self.ask == "one by one" else (1000, 10_000),
        )


def _log_density(made: ridge_variants.WeightedMoments, at: Array) -> Array:
    """Log density of minimisers inside the ball but for a constant, from the moments, at points in rows."""
    system = made.second + made.penalty * np.eye(len(made.cross))
    noise = 2 * (made.cross - at @ system)
    return np.asarray(np.linalg.slogdet(system)[1] - made.noise_rate * np.linalg.norm(noise, axis=1))


def two_samples(both: Array) -> tuple[LawTest, ...]:
    """Test the first fifth of the rows against the others: lengths, both ends, and the sum of coordinates.

    The distance of two empirical distribution functions is at most the sum of their distances from the true one, each
    with Massart's bound.
    """
    n, d = len(both) // 5, both.shape[1]
    tests = []
    looks = {"length": np.linalg.norm(both, axis=1), "first": both[:, 0], "last": both[:, -1], "sum": both.sum(1)}
    for name, values in looks.items():
        apart = float(stats.ks_2samp(values[:n], values[n:], method="asymp").statistic)
        share = 2 / 3  # of the distance that the smaller sample may have; they have equal exponents
        p = min(1.0, 4 * math.exp(-2 * n * (share * apart) ** 2))
        tests.append(LawTest(name, n, apart, p))
    return tuple(tests[: 4 if d > 1 else 2])


def moment_settings() -> list[Setting]:
    """Both mechanisms: each option, sizes, types and penalties."""
    uses = []
    for kind, function in (
        ("objective", ridge_variants.calibrate_objective_perturbation),
        ("moments", ridge_variants.calibrate_sufficient_statistics),
    ):
        each = [*alternatives(function, LIMITS), {"feature_norm": 2.5, "label_bound": 0.5}]
        uses += [Moments(kind, given) for given in each]
        uses += [Moments(kind, ask="one by one"), Moments(kind, ask="a table"), Moments(kind, dtype=np.float32)]
        uses += [Moments(kind, d=d) for d in (1, 2)] + [Moments(kind, penalty=penalty) for penalty in (0.1, 30.0)]
    uses += [Moments(d=d) for d in (12, 31, 60)] + [Moments("moments", d=d) for d in (12, 31, 60)]
    return [use.setting() for use in uses]


# --- a private constant -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Constant:
    """The weighted mean label with noise."""

    options: Mapping[str, Any] = field(default_factory=dict)
    ask: Ask = "batches"
    dtype: Any = float

    def _ends(self) -> tuple[float, float]:
        return self.options.get("label_range", (-1.0, 1.0))

    def data(self) -> tuple[Array, Array, float, float]:
        """Labels, privacy losses, the mean and the scale of the noise."""
        low, high = self._ends()
        rng = np.random.default_rng(5)
        y, epsilon = rng.uniform(low, high, 8).astype(self.dtype), rng.uniform(0.1, 1, 8)
        return y, epsilon, float(epsilon @ y.astype(float) / epsilon.sum()), (high - low) / float(epsilon.sum())

    def draws(self, y: Array, epsilon: Array, count: int, rng: Generator) -> Array:
        """Constants in rows."""
        release = partial(ridge_variants.private_constant, y, epsilon, **self.options)
        return asked(lambda **more: release(**more)[..., None], count, rng, self.ask)

    def noise(self, draws: int, rng: Generator) -> Array:
        """Noise of scale one."""
        y, epsilon, mean, scale = self.data()
        return np.asarray((self.draws(y, epsilon, draws, rng) - mean) / scale)

    def plain(self, draws: int, rng: Generator) -> Array:
        """Noise around 0."""
        low, high = self._ends()
        _, epsilon, *_ = self.data()
        return (
            self.draws(np.full(8, max(low, 0.0), self.dtype), epsilon, draws, rng) if low <= 0 <= high else np.empty(0)
        )

    def centre(self) -> float:
        """Error of the mean, where privacy losses leave no noise."""
        y, epsilon, mean, scale = self.data()
        rng = np.random.default_rng(6)
        return abs(float(ridge_variants.private_constant(y, 1e15 * epsilon, rng=rng, **self.options)) - mean) / scale

    def meter(self) -> float:
        """Move of the mean by one label, over the scale that the noise should have, and records outside the range."""
        low, high = self._ends()
        y, epsilon, _, scale = self.data()
        worst, rng = 0.0, np.random.default_rng(7)
        for ends in ((low, high), (low - (high - low), high)):
            found = []
            for end in ends:
                labels = np.append(float(end), y[1:].astype(float))
                try:
                    found.append(
                        float(ridge_variants.private_constant(labels, 1e15 * epsilon, rng=rng, **self.options))
                    )
                except ValueError:
                    found.append(math.nan)
            lost = abs(found[0] - found[1]) / scale / epsilon[0]
            worst = max(worst, 0.0 if math.isnan(lost) else lost / (1 + 1e-9))
        return worst

    def bits(self, runs: int, rng: Generator) -> list[BitTest]:
        """Guesses between the two ends of one label."""
        low, high = self._ends()
        epsilon = np.array([0.5, 0.5])
        releases = [partial(ridge_variants.private_constant, [y, low], epsilon, **self.options) for y in (low, high)]
        scores = [log_ratio(float(low), (low + high) / 2, 1 / (high - low)), lambda o: o]
        return [between(releases[0], releases[1], scores, 0.5, runs, rng, self.ask)]

    def setting(self) -> Setting:
        """All checks of this use; it tells no numbers that a budget could be computed from."""
        asks = {} if self.ask == "batches" else {"asked for": self.ask}
        types = {} if self.dtype is float else {"dtype": np.dtype(self.dtype).name}
        return Setting(
            "constant, " + told({**self.options, **asks, **types}),
            None,
            self.meter,
            self.centre,
            self.noise,
            lambda z: laplace_law(z, 1.0),
            plain=self.plain,
            bits=self.bits,
            runs=(1000,) if self.ask == "one by one" else (1000, 10_000),
        )


def constant_settings() -> list[Setting]:
    """The constant: each option, and each way to ask."""
    each = alternatives(ridge_variants.private_constant, {"label_range": ((-0.5, 2.0), (-3.0, 0.0))}, apart=("size",))
    uses = [Constant(given) for given in each]
    return [
        use.setting()
        for use in [*uses, Constant(ask="one by one"), Constant(ask="a table"), Constant(dtype=np.float32)]
    ]


# --- ridge regression on a lattice ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lattice:
    """Output perturbation on a lattice."""

    options: Mapping[str, Any] = field(default_factory=dict)
    d: int = 3
    n: int = 10
    penalty: float = 1.0
    ask: Ask = "batches"
    project: bool = False
    dtype: Any = float

    @property
    def use(self) -> Use:
        """The same records and bounds for output perturbation."""
        shared = {name: value for name, value in self.options.items() if name != "spacing"}
        return Use(d=self.d, n=self.n, penalty=self.penalty, options=shared, dtype=self.dtype)

    @property
    def step(self) -> float:
        """Spacing of the lattice."""
        return float(self.options.get("spacing", 2.0**-20))

    def make(self, X: Any, y: Any, epsilon: Any) -> lattice.LatticeRidge:
        """The mechanism."""
        return lattice.lattice_ridge(X, y, epsilon, self.penalty, **{"spacing": self.step, **self.options})

    def rate(self, epsilon: Array) -> float:
        """The noise rate for a step: what a record moves the estimate, and half a step in each coordinate twice."""
        moves = self.use.c / (epsilon.sum() * self.step)
        return float(epsilon.min() / (moves * epsilon.min() + math.sqrt(self.d)))

    def budget(self) -> float:
        """Largest share of a promise that rate, weights and proved constant imply."""
        epsilon, worst = np.array([0.1, 0.5, 1.0, 3.0]), 0.0
        for penalty in (0.1, 1.0, 100.0):
            use = replace(self, penalty=penalty)
            made = use.make(np.zeros((4, self.d), self.dtype), np.zeros(4, self.dtype), epsilon)
            proved = constant(penalty, use.use.R, use.use.a, "sharp", None, float(made.weights.sum()))
            lost = float(made.rate) * (proved * made.weights / self.step + math.sqrt(self.d))
            worst = max(worst, float((lost / np.minimum(epsilon, made.privacy_loss)).max()))
            worst = max(worst, float((made.privacy_loss / epsilon).max()))
        return worst

    def meter(self) -> float:
        """Largest share of a promise lost between tight ends: exactly rate times distance in steps."""
        worst = 0.0
        for own, size in ((0.5, 1.0), (2.0, 1.0), (0.5, 3.0)):
            X, (y, label), epsilon = self.use.ends(own, size)
            use = replace(self, penalty=(2000 if self.step < 1e-5 else 1) * self.use.R**2)  # else all is rounded to 0
            try:
                one, two = use.make(X, y, epsilon), use.make(X, label, epsilon)
            except ValueError:
                continue
            if one.rate != two.rate:
                return math.inf
            worst = max(worst, float(one.rate) * float(np.linalg.norm((one.point - two.point).astype(float))) / own)
        return worst

    def centre(self) -> float:
        """By how much the point is further than half a step from the estimate of the records on their grid."""
        X, y, epsilon = self.use.records()
        made = self.make(X, y, epsilon)
        features, labels = self.use.known()
        features, labels = np.trunc(features * 2**20) / 2**20, np.trunc(labels * 2**20) / 2**20
        theta = estimates(features, labels, (epsilon / epsilon.sum())[None], self.penalty)[0]
        over = np.abs(made.point - theta / self.step).max() - 0.5
        off = max(self.rate(epsilon) * max(0.0, float(over) - 1e-4), abs(float(made.rate) / self.rate(epsilon) - 1))
        if self.d <= 3 and not np.array_equal(made.point, self.nearest(features, labels, epsilon)):
            off = math.inf
        if self.d <= 12:
            steps = made.release(rng=np.random.default_rng(1), size=5) / self.step
            off = off if np.array_equal(steps, np.round(steps)) else math.inf
        if self.project:
            free, kept = (made.release(rng=np.random.default_rng(1), size=20, project=p) for p in (False, True))
            norm = np.linalg.norm(free, axis=1, keepdims=True)
            off = max(off, float(np.abs(free * np.minimum(1, self.use.radius / norm) - kept).max()) / self.use.radius)
        return off

    def nearest(self, X: Array, y: Array, epsilon: Array) -> list[int]:
        """The steps nearest to the estimate, halves upwards, by fractions."""
        rows = [[Fraction(value) for value in row] for row in np.column_stack([X, y]).tolist()]
        w, d = [Fraction(e) for e in epsilon.tolist()], self.d
        total, lam = sum(w), Fraction(self.penalty)
        system: list[list[Any]] = [
            [sum(a * r[i] * r[j] for a, r in zip(w, rows, strict=True)) for j in range(d + 1)] for i in range(d)
        ]
        for i in range(d):
            system[i][i] += lam * total
        for i in range(d):  # Gauss and Jordan; the system is positive definite
            system[i] = [value / system[i][i] for value in system[i]]
            for k in range(d):
                if k != i:
                    system[k] = [u - system[k][i] * v for u, v in zip(system[k], system[i], strict=True)]
        return [math.floor(row[-1] / Fraction(self.step) + Fraction(1, 2)) for row in system]

    def noise(self, draws: int, rng: Generator) -> Array:
        """Noise of rate one, each number spread evenly over its step."""
        X, y, epsilon = self.use.records()
        if self.project:
            epsilon *= self.d * self.use.c / self.use.radius / epsilon.sum()
        made = self.make(X, 0 * y if self.project else y, epsilon)
        release = partial(made.release, project=True) if self.project else made.release
        rate = self.rate(epsilon) / self.step
        z = rate * (asked(release, draws, rng, self.ask) - made.point * self.step)
        if self.project:
            z = opened(z, rate * self.use.radius, rng)
        return np.asarray(z + rate * self.step * rng.uniform(-0.5, 0.5, z.shape))

    def coarse(self, draws: int, rng: Generator) -> Array:
        """Noise in steps of a coarse lattice."""
        X, y, epsilon = self.use.records()
        made = self.make(X, y, 200 * epsilon)
        released = asked(made.release, draws, rng, self.ask) / self.step
        return np.rint(released - made.point).astype(np.int64)

    def cells(self, steps: Array) -> Sequence[LawTest]:
        """Noise in steps against the list of all points."""
        _, _, epsilon = self.use.records()
        made = self.make(np.zeros((self.n, self.d)), np.zeros(self.n), 200 * epsilon)
        if abs(self.rate(200 * epsilon) / float(made.rate) - 1) > 1e-9:
            return (LawTest("rate", len(steps), float(made.rate), 0.0),)
        reach = int(45 / float(made.rate)) + 1
        return listed_law(steps, *lattice_law(self.d, made.rate, reach))

    def bits(self, runs: int, rng: Generator) -> list[BitTest]:
        """Guesses between the tight ends, in one dimension."""
        one = replace(self, d=1)
        one = replace(one, penalty=2000 * one.use.R**2)
        X, labels, epsilon = one.use.ends(0.5)
        made = [one.make(X, y, epsilon) for y in labels]
        rate, tip = epsilon.sum() / one.use.c, one.use.a / 7 / (one.use.R**2 / 7 + one.penalty) * X[0].astype(float)
        scores = [log_ratio(tip, -tip, rate), lambda o: o[:, 0] * rate]
        releases = [partial(m.release, project=self.project) if self.project else m.release for m in made]
        return [between(releases[0], releases[1], scores, 0.5, runs, rng, self.ask)]

    def setting(self, *, coarse: bool = False) -> Setting:
        """All checks of this use; a grid is what it promises."""
        own = {"d": self.d, "n": self.n, "penalty": self.penalty, "project": self.project}
        own["dtype"] = np.dtype(self.dtype).name
        usual = {"d": 3, "n": 10, "penalty": 1.0, "project": False, "dtype": "float64"}
        parts = {name: value for name, value in own.items() if value != usual[name]}
        asks = {} if self.ask == "batches" else {"asked for": self.ask}
        return Setting(
            "lattice, " + told({**self.options, **parts, **asks}),
            self.budget,
            self.meter,
            self.centre,
            None if self.d > 12 else self.coarse if coarse else self.noise,
            self.cells if coarse else lambda z: spherical_law(z, 1.0),
            draws=LOOKS[:1] if self.d > 5 or self.ask == "one by one" else LOOKS[:2],
            repeats=not coarse and self.d > 2,
            digits=5,  # each number is spread over its step
            bits=None if self.ask == "one by one" or self.d > 12 else self.bits,
            runs=(1000,),
        )


def lattice_settings() -> list[Setting]:
    """The lattice: each option, options that meet in the constant, sizes, types and penalties."""
    each = alternatives(lattice.lattice_ridge, {**LIMITS, "spacing": (2.0**-12,)})
    both = [{"bound": bound, "feature_norm": 2.5, "label_bound": 0.5, "clip": True} for bound in ("paper", "sharp")]
    uses = [Lattice(given) for given in each + both]
    uses += [Lattice(d=d) for d in (1, 2, 12, 31)] + [Lattice(ask="one by one"), Lattice(ask="a table")]
    uses += [Lattice(penalty=30.0, options={"bound": "sharp"}), Lattice(penalty=0.1), Lattice(n=1)]
    uses += [
        Lattice(project=True),
        Lattice({"bound": "sharp"}, project=True, ask="one by one"),
        Lattice(dtype=np.float32),
    ]
    coarse = [Lattice({"spacing": 0.25}, d=d) for d in (1, 2)]
    return [*(use.setting() for use in uses), *(use.setting(coarse=True) for use in coarse)]
