"""Settings of the estimators: what users call, with every option of theirs, one fit a release."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq
from sklearn.base import clone

from hdpm_book.privacy.benches import IDEAL, LOOKS, Array, Generator, Setting, coarse, opened, together, told
from hdpm_book.privacy.benches_logistic import slack
from hdpm_book.privacy.benches_ridge import BOUNDS, Use, constant
from hdpm_book.privacy.laws import logistic_noise, ridge_noise, spherical_law
from hdpm_lib import accounts
from hdpm_lib.learners import estimators

QUIET = 1e15  # times the privacy losses: so little noise that fits show their centre
FITS = (30,)  # of most settings: one fit takes milliseconds
DIGITS = 20  # fits that are enough to count digits


def states(source: str, rng: Generator) -> Callable[[], Any]:
    """What `random_state` is in fit after fit."""
    if source == "a seed":
        seeds = itertools.count(int(rng.integers(2**31)))
        return lambda: next(seeds)
    if source == "a random state":
        state = np.random.RandomState(int(rng.integers(2**32)))
        return lambda: state
    return (lambda: None) if source == "nothing" else (lambda: rng)


def fits(model: Any, X: Array, y: Array, losses: Mapping[str, Any], count: int, rng: Generator, source: str) -> Array:
    """Coefficients of many fits, in rows.

    Where nobody gives a seed, NumPy's global one is the same before each fit: no noise may come from it.
    """
    state, found = states(source, rng), []
    model.set_params(random_state=state())
    before = np.random.get_state()  # noqa: NPY002
    for _ in range(count):
        if source == "nothing":
            np.random.seed(0)  # noqa: NPY002
        one = clone(model) if source == "clones" else model.set_params(random_state=state())
        found.append(np.ravel(one.fit(X, y, **losses).coef_))
    np.random.set_state(before)  # noqa: NPY002
    return np.array(found)


@dataclass(frozen=True)
class Ridge:
    """Fits of PersonalizedRidge."""

    options: Mapping[str, Any] = field(default_factory=dict)
    d: int = 12
    n: int = 10
    source: str = "a generator"
    dtype: Any = float
    given: str = "each"  # privacy losses: of each record, one for all, or none but the parameter
    account: bool = False

    @property
    def penalty(self) -> float:
        """Of the fit."""
        return float(self.options.get("penalty", 1.0))

    @property
    def project(self) -> bool:
        """Whether coefficients are pulled back to the ball."""
        return bool(self.options.get("project", True))

    @property
    def use(self) -> Use:
        """The same records and bounds for output perturbation."""
        shared = {name: self.options[name] for name in ("feature_norm", "label_bound") if name in self.options}
        shared |= {"bound": self.options.get("bound", "sharp"), "clip": self.options.get("out_of_range") == "clip"}
        return Use(self.d, self.n, self.penalty, shared, dtype=self.dtype)

    @property
    def model(self) -> estimators.PersonalizedRidge:
        """An estimator with these options."""
        return estimators.PersonalizedRidge(**{**IDEAL, **self.options})

    def losses(self, epsilon: Array) -> tuple[Array, dict[str, Any]]:
        """What each record loses, and how it is told to ``fit``."""
        if self.given == "each":
            told_: dict[str, Any] = {"epsilon": epsilon}
        elif self.given == "one":
            epsilon = np.full(len(epsilon), float(epsilon.mean()))
            told_ = {"epsilon": float(epsilon[0])}
        else:
            epsilon, told_ = np.full(len(epsilon), float(self.options.get("epsilon", 1.0))), {}
        return epsilon, told_

    def fit(self, X: Any, y: Any, epsilon: Array) -> estimators.PersonalizedRidge:
        """One fit, with a fixed seed."""
        return self.model.set_params(random_state=3).fit(X, y, epsilon=epsilon)

    def proved(self, epsilon: Array) -> float:
        """Largest share of a promise that rate, weights and proved constant imply."""
        use = self.use
        X, y = np.zeros((len(epsilon), self.d), self.dtype), np.zeros(len(epsilon), self.dtype)
        made = self.fit(X, y, epsilon)
        c = constant(self.penalty, use.R, use.a, "sharp", None, float(made.weights_.sum()))
        lost = made.noise_rate_ * c * made.weights_
        return float((lost / np.minimum(epsilon, made.privacy_loss_)).max())

    def budget(self) -> float:
        """The same for uneven losses, and what an open account is charged."""
        epsilon, worst = np.array([0.1, 0.5, 1.0, 3.0]), 0.0
        for penalty in (0.1, self.penalty, 100.0):
            worst = max(worst, replace(self, options={**self.options, "penalty": penalty}).proved(epsilon))
        if self.account:
            with accounts.Account(4) as account:
                model, record = self.model, np.arange(4)
                given = np.zeros((4, self.d)), np.zeros(4)
                spent = sum(model.fit(*given, epsilon=epsilon, record=record).privacy_loss_ for _ in range(2))
            worst = max(worst, float((spent / account.total).max()))
        return worst

    def centres(self, X: Any, y: Any, epsilon: Array) -> Array:
        """Coefficients with hardly any noise."""
        return np.asarray(self.fit(X, y, QUIET * epsilon).coef_)

    def meter(self) -> float:
        """Largest share of a promise lost between tight ends: the rate times a distance almost without noise."""
        worst = 0.0
        if coarse(self.options):
            return worst  # a lattice cannot be almost without noise; that learner has a meter of its own
        for own, size in ((0.5, 1.0), (2.0, 1.0), (0.5, 3.0)):
            X, labels, epsilon = self.use.ends(own, size)
            one = replace(self, options={**self.options, "penalty": 2000 * self.use.R**2})
            try:
                made = [one.fit(X, y, epsilon) for y in labels]
            except ValueError:
                continue
            if made[0].noise_rate_ != made[1].noise_rate_:
                return math.inf
            apart = np.linalg.norm(one.centres(X, labels[0], epsilon) - one.centres(X, labels[1], epsilon))
            worst = max(worst, made[0].noise_rate_ * float(apart) / own / (1 + 1e-9))
        return worst

    def centre(self) -> float:
        """Error of coefficients almost without noise, times the rate."""
        X, y, epsilon = self.use.records()
        rate = epsilon.sum() / self.use.c
        made = self.fit(X, y, epsilon)
        if (np.abs(made.weights_ * epsilon.sum() - epsilon) > 1e-12).any():
            return math.inf
        if coarse(self.options):  # what is known of it is that it lies on a lattice far finer than the noise
            steps = replace(self, options={**self.options, "project": False}).fit(X, y, epsilon).coef_
            steps = steps * 2.0 ** (math.ceil(math.log2(rate)) + 44)
            return 0.0 if np.array_equal(steps, np.round(steps)) else math.inf
        known = *self.use.known(), epsilon / epsilon.sum()
        off = np.linalg.norm(ridge_noise(self.centres(X, y, epsilon), *known, self.penalty))
        predicted = np.abs(self.fit(X, y, epsilon).predict(X) - X @ self.fit(X, y, epsilon).coef_).max()
        stated = max(abs(made.noise_rate_ / rate - 1), float(np.abs(made.privacy_loss_ / epsilon - 1).max()))
        return max(stated, rate * max(float(off) - 100 * self.d / (QUIET * rate), float(predicted)))

    def noise(self, draws: int, rng: Generator) -> Array:
        """Noise of rate one; where coefficients are pulled back, of records without labels."""
        use = self.use
        X, y, epsilon = use.records()
        if self.project:
            y, epsilon = 0 * y, epsilon * self.d * use.c / use.radius / epsilon.sum()
        epsilon, losses = self.losses(epsilon)
        if self.account:
            losses = {**losses, "record": np.arange(self.n)}
            with accounts.Account(self.n):
                released = fits(self.model, X, y, losses, draws, rng, self.source)
        else:
            released = fits(self.model, X, y, losses, draws, rng, self.source)
        features, labels = use.known()
        if self.project:
            labels = 0 * labels
        rate = epsilon.sum() / use.c
        z = rate * ridge_noise(released, features, labels, epsilon / epsilon.sum(), self.penalty)
        if self.project:
            z = opened(z, rate * use.radius, rng)
        return np.asarray(z)

    def plain(self, draws: int, rng: Generator) -> Array:
        """Noise around 0, so small that the ball does not matter."""
        X, y, epsilon = self.use.records()
        _, losses = self.losses(1e6 * epsilon)
        model = self.model if self.given != "none" else self.model.set_params(epsilon=1e6)
        return fits(model, X, 0 * y, losses, min(draws, DIGITS), rng, self.source)

    def setting(self, **more: Any) -> Setting:
        """All checks of this use; a lattice is what is promised."""
        usual = Ridge()
        names = ("d", "n", "source", "given", "account")
        parts = {n: getattr(self, n) for n in names if getattr(self, n) != getattr(usual, n)}
        parts |= {} if self.dtype is float else {"dtype": "float32"}
        return Setting(
            "PersonalizedRidge, " + told({**self.options, **parts}),
            self.budget,
            self.meter,
            self.centre,
            self.noise,
            lambda z: spherical_law(z, 1.0),
            draws=more.get("draws", FITS),
            plain=None if coarse(self.options) else self.plain,
        )


@dataclass(frozen=True)
class Logistic:
    """Fits of PrivateLogisticRegression."""

    options: Mapping[str, Any] = field(default_factory=dict)
    d: int = 5
    m: int = 12
    source: str = "a generator"
    dtype: Any = float
    given: str = "each"
    account: bool = False
    one_class: bool = False

    @property
    def declared(self) -> dict[str, Any]:
        """The options, with classes."""
        return {"classes": (0, 1), **self.options}

    @property
    def penalty(self) -> float:
        """Of the fit."""
        return float(self.options.get("penalty", 0.1))

    def records(self) -> tuple[Array, Array, Array]:
        """Features, signs and privacy losses."""
        rng = np.random.default_rng([self.d, self.m])
        X = rng.standard_normal((self.m, self.d)) / math.sqrt(self.d)
        if self.options.get("out_of_range") != "clip":
            X *= 0.999 / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
        signs = np.full(self.m, -1.0) if self.one_class else np.resize([1.0, -1.0], self.m)
        epsilon = np.full(self.m, float(self.options.get("epsilon", 1.0)))
        if self.given == "each":
            epsilon = rng.uniform(1.0, 4.0, self.m)
        elif self.given == "one":
            epsilon = np.full(self.m, 2.0)
        return X.astype(self.dtype), signs, epsilon

    def labels(self, signs: Array) -> Array:
        """The classes as users have them."""
        low, high = sorted(self.options.get("classes", (0, 1)))
        return np.where(signs > 0, high, low)

    def eta(self, epsilon: Array) -> float:
        """The largest strength of the noise that keeps all promises, with weights in proportion to them."""
        a, total = epsilon / epsilon.sum(), float(epsilon.sum())
        if total * self.penalty >= 2:
            return total

        def over(eta: float) -> float:
            return float((a * eta + slack(a * eta, a / self.penalty) - epsilon).max())

        return float(brentq(over, 1e-9, total))

    def fit(self, X: Any, y: Any, epsilon: Array) -> estimators.PrivateLogisticRegression:
        """One fit, with a fixed seed."""
        return (
            estimators.PrivateLogisticRegression(**self.declared).set_params(random_state=3).fit(X, y, epsilon=epsilon)
        )

    def budget(self) -> float:
        """Largest share of a promise that weights, eta and penalty imply, and what an open account is charged."""
        X, signs, epsilon = self.records()
        y, worst = self.labels(signs), 0.0
        for scale, penalty in ((1.0, self.penalty), (0.5, 0.3), (3.0, 10.0)):
            made = self.fit_at(penalty, X, y, scale * epsilon)
            lost = made.weights_ * made.eta_
            lost = lost + slack(lost, made.weights_ / penalty)
            worst = max(worst, float((lost / np.minimum(scale * epsilon, made.privacy_loss_)).max()) / (1 + 1e-6))
        if self.account:
            with accounts.Account(self.m) as account:
                spent = [
                    estimators.PrivateLogisticRegression(**self.declared).fit(
                        X, y, epsilon=epsilon, record=np.arange(self.m)
                    )
                    for _ in range(2)
                ]
            worst = max(worst, float((sum(one.privacy_loss_ for one in spent) / account.total).max()))
        return worst

    def fit_at(self, penalty: float, X: Any, y: Any, epsilon: Array) -> estimators.PrivateLogisticRegression:
        """One fit at another penalty."""
        return replace(self, options={**self.options, "penalty": penalty}).fit(X, y, epsilon)

    def known(self, X: Array) -> Array:
        """Features as they have to be used."""
        features = X.astype(float)
        return np.asarray(features / np.maximum(1, np.linalg.norm(features, axis=1, keepdims=True)))

    def centre(self) -> float:
        """What is left of the gradient at coefficients almost without noise, and what is said of records."""
        X, signs, epsilon = self.records()
        a, y = epsilon / epsilon.sum(), self.labels(signs)
        made = self.fit(X, y, QUIET * epsilon)
        left = logistic_noise(made.coef_[0], self.known(X), signs, a, self.penalty)
        off = self.eta(epsilon) / 2 * float(np.linalg.norm(left))
        scores = X @ made.coef_[0]
        right = np.array_equal(made.predict(X), self.labels(np.where(scores > 0, 1.0, -1.0)))
        return off if right else math.inf

    def noise(self, draws: int, rng: Generator) -> Array:
        """Noise of rate one."""
        X, signs, epsilon = self.records()
        losses: dict[str, Any] = {} if self.given == "none" else {"epsilon": epsilon}
        losses |= {"epsilon": float(epsilon[0])} if self.given == "one" else {}
        model, y = estimators.PrivateLogisticRegression(**self.declared), self.labels(signs)
        if self.account:
            with accounts.Account(self.m):
                given = {**losses, "record": np.arange(self.m)}
                released = fits(model, X, y, given, draws, rng, self.source)
        else:
            released = fits(model, X, y, losses, draws, rng, self.source)
        a = epsilon / epsilon.sum()
        return np.asarray(self.eta(epsilon) / 2 * logistic_noise(released, self.known(X), signs, a, self.penalty))

    def meter(self) -> float:
        """More than 1 if a record outside the ball is taken as it is, and not refused or shortened."""
        X, signs, epsilon = self.records()
        y, far = self.labels(signs), X.astype(float)
        far[0] = 3 * far[0] / np.linalg.norm(far[0])
        try:
            made = self.fit(far, y, QUIET * epsilon)
        except ValueError:
            return 0.0
        a = epsilon / epsilon.sum()
        left = logistic_noise(made.coef_[0], self.known(far), signs, a, self.penalty)
        longer = float(np.linalg.norm(left))
        return 1 + longer if longer > 1e-6 else 0.0

    def setting(self, **more: Any) -> Setting:
        """All checks of this use."""
        usual = Logistic()
        names = ("d", "m", "source", "given", "account", "one_class")
        parts = {n: getattr(self, n) for n in names if getattr(self, n) != getattr(usual, n)}
        parts |= {} if self.dtype is float else {"dtype": "float32"}
        return Setting(
            "PrivateLogisticRegression, " + told({**self.options, **parts}),
            self.budget,
            self.meter,
            self.centre,
            self.noise,
            lambda z: spherical_law(z, 1.0),
            draws=more.get("draws", FITS),
            tolerance=1e-6,
        )


def settings() -> list[Setting]:
    """Both estimators: every option, source of noise and way to say what may be lost, several at once."""
    limits = {name: BOUNDS[name] for name in ("feature_norm", "label_bound")}
    values: dict[str, tuple[Any, ...]] = {**limits, "penalty": (0.1, 30.0)}
    every, more = together(estimators.PersonalizedRidge, values, apart=("epsilon", "arithmetic", "random_state"))
    lattice = {"arithmetic": "lattice"}
    ridge = [
        Ridge(every, source="a seed"),
        Ridge({**more, "epsilon": 0.4}, given="none", source="a random state", d=31),
        Ridge({**every, "project": True, "bound": "sharp"}, dtype=np.float32, source="clones"),
        Ridge(source="nothing", d=60, n=1),
        Ridge(limits_only(every), d=1, given="one", account=True),
        Ridge(lattice, d=3, account=True),
        Ridge({**every, **lattice}, d=2),
    ]
    values = {"penalty": (0.05, 3.0), "classes": (("no", "yes"),)}
    every, more = together(estimators.PrivateLogisticRegression, values, apart=("epsilon", "random_state"))
    logistic = [
        Logistic(),
        Logistic(every, source="a seed", d=12),
        Logistic({**more, "epsilon": 2.5}, given="none", source="a random state", d=2),
        Logistic({"classes": every["classes"]}, one_class=True, source="nothing", d=31, account=True),
        Logistic({"out_of_range": "clip"}, dtype=np.float32, source="clones", given="one", d=60),
        Logistic({"classes": (0, 1)}, m=1, one_class=True, d=1),
    ]
    long = [Ridge({"project": False}).setting(draws=LOOKS[:2]), Ridge(d=2).setting(draws=LOOKS[:1])]
    return [*long, *(use.setting() for use in ridge), *(use.setting() for use in logistic)]


def limits_only(given: Mapping[str, Any]) -> dict[str, Any]:
    """The bounds among some options."""
    return {name: value for name, value in given.items() if name in ("feature_norm", "label_bound")}
