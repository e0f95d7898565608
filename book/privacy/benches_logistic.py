"""Settings of logistic regression by objective perturbation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
from scipy.special import expit

from hdpm_book.logistic.formulas import output_log_density
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
from hdpm_book.privacy.instances import logistic_ends
from hdpm_book.privacy.laws import logistic_noise, spherical_law
from hdpm_lib.learners import logistic

FAR = 1e-102  # an eta for which noise is so large that the records do not count


def slack(epsilon: Array, ratio: Array) -> Array:
    """Largest ln(1 + ρq(1 - q)) - εq/2 over a fine grid of q."""
    q = np.linspace(0, 1, 4001)[:, None]
    return np.asarray((np.log1p(ratio * q * (1 - q)) - epsilon / 2 * q).max(0))


@dataclass(frozen=True)
class Use:
    """Logistic regression on records within the unit ball, or without it if they are clipped."""

    options: Mapping[str, Any] = field(default_factory=dict)
    d: int = 5
    m: int = 20
    eta: float = 6.0
    penalty: float = 0.1
    ask: Ask = "batches"
    dtype: Any = float
    unused: bool = False  # somebody has weight 0, and all labels are the same

    def records(self) -> tuple[Array, Array, Array]:
        """Features, labels and weights."""
        rng = np.random.default_rng([self.d, self.m])
        X = rng.standard_normal((self.m, self.d)) / math.sqrt(self.d)
        if not self.options.get("clip"):
            X *= 0.999 / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
        y, a = np.resize([1.0, -1.0], self.m), rng.dirichlet(np.ones(self.m))
        if self.unused:
            y[:], a[0] = 1.0, 0.0
        return X.astype(self.dtype), y.astype(self.dtype), a

    def known(self) -> tuple[Array, Array, Array]:
        """Those records as they have to be used."""
        X, y, a = self.records()
        X = X.astype(float)
        return X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True)), y.astype(float), a

    def make(self) -> logistic.ObjectivePerturbation:
        """The mechanism."""
        return logistic.objective_perturbation(*self.records(), self.eta, self.penalty, **{**IDEAL, **self.options})

    def noise(self, draws: int, rng: Generator) -> Array:
        """Noise of rate one."""
        few = 1000 if self.ask == "at once" else logistic.CHUNK  # rows that are solved together are cut
        with mock.patch.object(logistic, "CHUNK", few):
            released = asked(self.make().release, draws, rng, self.ask)
        return self.eta / 2 * logistic_noise(released, *self.known(), self.penalty)

    def centre(self) -> float:
        """Largest part of the gradient that is left at minimisers, times the rate, from any start."""
        rng, made = np.random.default_rng(1), self.make()
        noise, worst = 4 / self.eta * rng.standard_normal((100, self.d)), 0.0
        for scale, start in ((1.0, 0.0), (1.0, 3.0), (10.0, 0.0), (1e-3, rng.standard_normal((100, self.d)))):
            b = scale * noise
            left = logistic_noise(made.minimise(b, start), *self.known(), self.penalty) - b
            size = np.maximum(1, np.linalg.norm(b, axis=1))  # the promised accuracy is relative to the noise
            worst = max(worst, min(self.eta, 1e3) / 2 * float((np.linalg.norm(left, axis=1) / size).max()))
        _, _, a = self.records()
        stated = [made.epsilon - a * self.eta, made.privacy_loss - made.epsilon - made.slack, made.weights - a]
        return max(worst, 1e4 * max(float(np.abs(part).max()) for part in stated))

    def budget(self) -> float:
        """Share of what follows from weights, eta and penalty, in the numbers that the mechanism has."""
        _, _, a = self.records()
        made, used = self.make(), a > 0
        lost = made.weights * made.eta + slack(made.weights * made.eta, made.weights / made.penalty)
        promised = np.minimum(a * self.eta + slack(a * self.eta, a / self.penalty), made.privacy_loss)
        return float((lost[used] / promised[used]).max()) / (1 + 1e-6)  # the grid's error

    def meter(self) -> float:
        """Largest share of a promise lost between tight ends, and with a record outside the ball."""
        worst = 0.0
        for epsilon, ratio, size in itertools.product((0.5, 1.0, 3.0), (0.1, 3.0), (1.0, 3.0)):
            ends, logs = logistic_ends(epsilon, ratio, 3), []
            for X in (ends.X, ends.X_turned):
                X = np.vstack([size * X[:1], X[1:]])
                X = (X * (1 - 1e-7 * (self.dtype != float))).astype(self.dtype)
                given = X, ends.y, ends.weights, ends.eta, ends.penalty
                try:
                    made = logistic.objective_perturbation(*given, **self.options)
                except ValueError:  # records outside the ball are refused
                    continue
                logs.append(float(output_log_density(made, ends.coefficients)))
            promised = epsilon + float(slack(np.array([epsilon]), np.array([ratio]))[0])
            worst = max(worst, abs(logs[0] - logs[1]) / promised if len(logs) == 2 else 0.0)
        return worst

    def plain(self, draws: int, rng: Generator) -> Array:
        """Noise as it is released without features, at the penalty 1."""
        zero = np.zeros((2, self.d), self.dtype)
        made = logistic.objective_perturbation(zero, [1.0, -1.0], [0.5, 0.5], 2.0, 1.0, **{**IDEAL, **self.options})
        return asked(made.release, draws, rng, self.ask)

    def bits(self, runs: int, rng: Generator) -> list[BitTest]:
        """Eta times penalty is 2, so there is no slack; at the outputs of these data half of the promise is lost."""
        y, a, size = np.array([1.0, -1.0, -1.0, -1.0]), np.array([1.0, 2.0, 2.0, 3.0]) / 8, 1.0
        if self.options.get("clip"):
            size = 3.0  # all are shortened to 1
        made = [
            logistic.objective_perturbation(
                [[size * x], [1.0], [1.0], [1.0]], y, a, 8.0, 0.25, **{**IDEAL, **self.options}
            )
            for x in (1.0, -1.0)
        ]

        def log_density(w: Array, x: float) -> Array:
            own, others = a[0] * expit(w * x) * expit(-w * x), (1 - a[0]) * expit(w) * expit(-w)
            noise = a[0] * x * expit(-w * x) - (1 - a[0]) * expit(w) - 0.25 * w
            return np.asarray(np.log(own + others + 0.25) - 4 * np.abs(noise))

        scores = [lambda w: log_density(w[:, 0], -1.0) - log_density(w[:, 0], 1.0), lambda w: w[:, 0]]
        return [between(made[0].release, made[1].release, scores, 1.0, runs, rng, self.ask)]

    def setting(self, **more: Any) -> Setting:
        """All checks of this use."""
        usual = Use()
        parts = {n: getattr(self, n) for n in ("d", "m", "eta", "penalty") if getattr(self, n) != getattr(usual, n)}
        parts |= {"dtype": "float32"} if self.dtype is not float else {}
        parts |= {"asked for": self.ask} if self.ask != "batches" else {}
        parts |= {"one class": True} if self.unused else {}
        checks: dict[str, Any] = {"noise": self.noise, "law": lambda z: spherical_law(z, 1.0)}
        checks |= {} if coarse(self.options) else {"plain": self.plain}
        if self.eta != FAR:  # else there is nothing to solve, and no weight in the numbers
            checks |= {"budget": self.budget, "centre": self.centre}
        if parts.keys() <= {"dtype", "asked for"}:  # these have instances of their own
            checks |= {"meter": self.meter, "bits": self.bits}
            checks |= {"runs": RUNS[:2] if self.ask != "one by one" else (200,)}
        return Setting(told({**self.options, **parts}), **{"tolerance": 1e-6, **checks, **more})


def promises() -> float:
    """Largest share of a promise lost with the eta that is said to keep it, for weights in proportion and not."""
    epsilon, worst = np.array([0.1, 0.5, 1.0, 3.0]), 0.0
    for a in (epsilon / epsilon.sum(), np.full(4, 0.25), np.array([0.5, 0.25, 0.25, 0.0])):
        for penalty in (0.02, 0.1, 1.0, 100.0):
            used = a > 0
            if penalty <= float((a[used] / (4 * np.expm1(epsilon[used]))).max()):
                continue  # no noise keeps the promises
            eta = logistic.eta_within(epsilon, a, penalty)
            lost = a * eta + slack(a * eta, a / penalty)
            worst = max(worst, float((lost / epsilon)[used].max()) / (1 + 1e-6))
    return worst


def unused_eta() -> float:
    """How far the eta that is found lies below the largest that keeps every promise, in units of that one."""
    epsilon, worst = np.array([0.1, 0.5, 1.0, 3.0]), 0.0
    for a, penalty in itertools.product((epsilon / epsilon.sum(), np.full(4, 0.25)), (0.7, 100.0)):
        eta = 1.0001 * logistic.eta_within(epsilon, a, penalty)
        if float(((a * eta + slack(a * eta, a / penalty)) / epsilon).max()) < 1:
            worst = 1.0
    return worst


def settings() -> list[Setting]:
    """Each option; penalties on both sides of every branch; sizes, types, and ways to ask."""
    uses = [Use(given) for given in alternatives(logistic.objective_perturbation, {})[1:]]
    uses += [Use(penalty=penalty, eta=eta) for penalty, eta in ((0.001, 6.0), (0.02, 6.0), (0.04, 60.0), (1.0, 1.0))]
    uses += [Use(penalty=100.0, eta=0.3), Use(penalty=0.5, eta=300.0), Use(d=1), Use(d=2, m=1), Use(d=12, m=60)]
    uses += [Use(dtype=np.float32), Use(dtype=np.float32, options={"clip": True}), Use(unused=True, penalty=0.3)]
    uses += [Use(ask="a table"), Use(d=31, m=8), Use(eta=FAR, ask="one by one", d=12)]
    singles = [Use(ask="one by one"), Use(ask="one by one", d=12, penalty=0.02, eta=150.0), Use(d=60, m=8)]
    far = [Use(eta=FAR, d=d) for d in (31, 60)]  # nothing to solve, so that many draws are cheap
    eta = Setting("eta within promises", budget=promises, centre=unused_eta)
    return [
        Use().setting(draws=LOOKS, runs=RUNS),
        eta,
        *(use.setting() for use in uses),
        *(use.setting(draws=LOOKS[:1]) for use in singles),
        *(use.setting(draws=LOOKS) for use in far),
        Use(ask="at once").setting(),
    ]
