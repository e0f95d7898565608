"""Audits of correct learners and of louder ones: noise taken out of releases, false alarms, power, a small market."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from hdpm_book.privacy.guesses import BitTest, Release, Score, bit_test, either, exposed_excess, log_ratio, power
from hdpm_book.privacy.instances import ridge_ends
from hdpm_book.privacy.laws import (
    LawTest,
    laplace_law,
    logistic_noise,
    rate_resolution,
    ridge_noise,
    smallest_p,
    spherical_law,
)
from hdpm_lib.audits.bounds import holm
from hdpm_lib.learners.fedsgd import fedsgd
from hdpm_lib.learners.gradients import clipped, local_gradients
from hdpm_lib.learners.logistic import objective_perturbation
from hdpm_lib.learners.queries import linear_query
from hdpm_lib.learners.ridge import OutputPerturbation, output_perturbation
from hdpm_lib.noise import spherical_laplace
from hdpm_lib.validation import FALSE_ALARM

Array = NDArray[np.float64]
Generator = np.random.Generator
Tests = tuple[LawTest, ...]

CLAIMS = (0.1, 0.5, 1.0, 3.0)

# --- the law of the noise ---------------------------------------------------------------------------------------------


def noise_laws() -> dict[str, Tests]:
    """Tests of the noise that each learner used in thousands of releases, of made-up data."""
    rng = np.random.default_rng(0)
    X, y, eps = rng.random((100, 12)), rng.uniform(-1, 1, 100), rng.choice([0.1, 1.0], 100)
    found = {"ridge, d = 12": _ridge_law(X, y, eps, rng)}
    X, y = X[:, :5] / 5**0.5, np.where(X[:, 0] > 0.5, 1.0, -1.0)
    found["logistic, d = 5"] = _logistic_law(X, y, eps / eps.sum(), rng)
    found["biased sum"] = _sum_law(rng)
    return found | {"gradients": _gradient_law(rng)}


def _ridge_law(X: Array, y: Array, epsilon: Array, rng: Generator) -> Tests:
    """The paper's rate, typed anew."""
    penalty, d = 1.0, X.shape[1]
    B = min(penalty**-0.5, d**0.5 / penalty)
    rate = penalty * epsilon.sum() / (2 * d**0.5 * (1 + d**0.5 * B))
    outputs = output_perturbation(X, y, epsilon, penalty).release(rng=rng, size=10_000)
    return spherical_law(ridge_noise(outputs, X, y, epsilon / epsilon.sum(), penalty), rate)


def _logistic_law(X: Array, y: Array, weights: Array, rng: Generator) -> Tests:
    outputs = objective_perturbation(X, y, weights, 40.0, 0.05).release(rng=rng, size=10_000)
    return spherical_law(logistic_noise(outputs, X, y, weights, 0.05), 40.0 / 2)


def _sum_law(rng: Generator) -> Tests:
    shares, data = rng.random(10), rng.random(10)
    outputs = linear_query(shares, scale=0.4).release(data, rng=rng, size=10_000)
    z = outputs - (shares @ data + (1 - shares).sum() / 2)
    return laplace_law(z[:, None], 0.4)


def _gradient_law(rng: Generator) -> Tests:
    """4,000 markets of one owner, who sends one gradient of 3 x 2 numbers."""
    n, step, clip, epsilon = 4000, 0.1, 0.3, 0.5
    x, labels = np.column_stack([rng.normal(size=8), np.ones(8)]), np.arange(8) % 3
    start, owner = rng.normal(size=(3, 2)), np.arange(8)
    given = x, labels, [[owner]] * n, np.full((n, 1), epsilon), np.zeros((1, n, 1), dtype=int)
    rules = {"all": lambda epsilon, sizes: np.ones(epsilon.shape)}
    run = fedsgd(*given, rules, start, rng=rng, learning_rate=step, clip_norm=clip)
    mean_gradient = local_gradients(start[None], x, labels, [owner])[0, 0]
    z = (start - run.parameters("all")[-1]) / step - clipped(mean_gradient, clip)
    return laplace_law(z.reshape(n, 6), 2 * clip / epsilon)


@dataclass(frozen=True)
class Share:
    """A share of so many sets, and its standard error if it were the one expected."""

    share: float
    sets: int
    error: float


def law_false_alarms(levels: tuple[float, ...] = (0.05, 0.01), sets: int = 300) -> dict[float, Share]:
    """How often right noise has a p-value below a level."""
    rng = np.random.default_rng(1)
    right = (spherical_laplace(3, 2.0, rng=rng, size=300) for _ in range(sets))
    p = np.array([smallest_p(spherical_law(z, 2.0)) for z in right])
    return {a: Share(float((p < a).mean()), sets, float(np.sqrt(a * (1 - a) / sets))) for a in levels}


def law_power(sets: int = 100) -> tuple[float, Share]:
    """The excess of a rate that 1,000 draws in 12 dimensions should expose, and how often they do."""
    rng, excess = np.random.default_rng(2), float(rate_resolution(1000, 12))
    noises = (spherical_laplace(12, 1 + excess, rng=rng, size=1000) for _ in range(sets))
    found = np.mean([smallest_p(spherical_law(z, 1.0)) < FALSE_ALARM for z in noises])
    return excess, Share(float(found), sets, float(np.sqrt(0.09 / sets)))


# --- the random-bit test ----------------------------------------------------------------------------------------------


def coin(*releases: Callable[..., Any]) -> Release:
    """Outputs for the random-bit test: a bit chooses which of two releases, of `rng` and `size`, is called."""
    first, second = (partial(_sized, release) for release in releases)
    return either(first, second)


def _sized(release: Callable[..., Any], rng: Generator, runs: int) -> Any:
    return release(rng=rng, size=runs)


@dataclass(frozen=True)
class Pair:
    """Two ridge regressions that differ in the label of one seller, and the log ratio of their densities."""

    one: OutputPerturbation
    two: OutputPerturbation

    @property
    def release(self) -> Release:
        """One of the two, as a coin says."""
        return coin(self.one.release, self.two.release)

    @property
    def score(self) -> Score:
        """The best score if all is as intended."""
        return log_ratio(self.one.theta, self.two.theta, self.one.noise_rate)

    @property
    def loss(self) -> float:
        """What the seller exactly loses."""
        return float(self.one.noise_rate * np.linalg.norm(self.one.theta - self.two.theta))


def hard_pair(d: int) -> Pair:
    """Ridge regressions in `d` dimensions between which a seller loses nearly all of her promise."""
    ends = ridge_ends(d)
    one, two = (output_perturbation(ends.X, labels, ends.epsilon, ends.penalty) for labels in (ends.y, ends.y_turned))
    return Pair(one, two)


def tests_of_digits() -> dict[str, BitTest]:
    """A sum whose promise holds in ideal arithmetic, by scores rounded and as they are."""
    answer = linear_query([1.0], scale=10.0, arithmetic="ideal")  # privacy loss 0.1
    release = either(
        lambda rng, k: 0.3 + answer.release([0.0], rng=rng, size=k),
        lambda rng, k: 0.3 + answer.release([1.0], rng=rng, size=k),
    )
    scores = [log_ratio(0.3, 1.3, 0.1)]
    return {
        name: bit_test(release, scores, 0.1, 20_000, rng=np.random.default_rng(4), digits=digits)
        for name, digits in (("rounded to 9 digits", 9), ("as they are", None))
    }


def false_alarms(audits: int = 1000, levels: tuple[float, ...] = (0.05, 0.01, 0.001)) -> pd.DataFrame:
    """Shares of small p-values in audits of correct mechanisms at exactly their loss; 3,000 runs each."""
    sums = linear_query([0.5, 1.0], scale=0.5)  # the first of two loses 1
    ends = [0.0, 0.4], [1.0, 0.4]
    centres = [float(sums.mean(terms)) for terms in ends]
    pair, rng, rows = hard_pair(2), np.random.default_rng(5), {}
    cases: dict[str, tuple[Release, list[Score], float]] = {
        "sum, one score": (
            coin(*(partial(sums.release, terms) for terms in ends)),
            [log_ratio(centres[0], centres[1], 1 / sums.scale)],
            1.0,
        ),
        "ridge, d = 2, two scores": (pair.release, [pair.score, lambda outputs: 4000 * outputs[:, 0]], pair.loss),
    }
    for name, (release, scores, claim) in cases.items():
        p = np.array([bit_test(release, scores, claim, 3000, rng=rng).p_value for _ in range(audits)])
        rows[name] = [float((p < level).mean()) for level in levels]
    rows["standard error if exact"] = [float(np.sqrt(level * (1 - level) / audits)) for level in levels]
    return pd.DataFrame(rows, index=[f"p < {level}" for level in levels]).T


def measured_power(runs: int, audits: int = 250) -> pd.DataFrame:
    """Power at the excess that should be found nine times in ten: by exact binomials, and in real audits of a sum."""
    rng, rows = np.random.default_rng(6), {}
    for claim in CLAIMS:
        true = claim * (1 + exposed_excess(claim, runs))
        louder = linear_query([1.0], scale=1 / true)
        release = coin(*(partial(louder.release, [datum]) for datum in (0.0, 1.0)))
        score = log_ratio(0.0, 1.0, claim)
        tests = [bit_test(release, [score], claim, runs, rng=rng) for _ in range(audits)]
        rows[claim] = {
            "excess, %": 100 * (true / claim - 1),
            "exact binomial": power(claim, true, runs),
            "measured": float(np.mean([test.p_value <= FALSE_ALARM for test in tests])),
        }
    return pd.DataFrame(rows).T.rename_axis("claim")


def exposed_by_runs(runs: tuple[int, ...], sellers: tuple[int, ...]) -> pd.DataFrame:
    """Smallest excess, in per cent, that is exposed with probability 0.9, by sellers and claim."""
    rows = {
        (m, claim): {f"{k:,} runs": 100 * exposed_excess(claim, k, sellers=m) for k in runs}
        for m in sellers
        for claim in CLAIMS
    }
    return pd.DataFrame(rows).T.rename_axis(["sellers", "claim"])


# --- a market ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Market:
    """Audits of all sellers of a small market, by each of two learners."""

    table: pd.DataFrame
    rejected: int


def small_market(runs: int = 200_000) -> Market:
    """Audit six sellers on data on which each is hard to protect; two scores, Holm's rule over those of a learner."""
    promised, rng = np.array([0.1, 0.2, 0.5, 1.0, 1.0, 3.0]), np.random.default_rng(7)
    rows, p_values = [], []
    for name, d, claim, release, scores in (*_sums(promised), *_ridges(promised)):
        test = bit_test(release, scores, claim, runs, rng=rng)
        p_values.append(test.p_value)
        excess = exposed_excess(claim, runs, power=0.98, sellers=len(promised), scores=2, dimension=d)
        rows.append(
            {
                "learner": name,
                "promised": claim,
                "right guesses": f"{test.correct[0] / test.guesses[0]:.3f}",
                "allowed": f"{expit(claim):.3f}",
                "p": f"{test.p_value:.2f}",
                "x %": f"{100 * excess:.2g}",
            }
        )
    halves = np.split(np.array(p_values), 2)
    rejected = sum(int(holm(half, FALSE_ALARM).sum()) for half in halves)
    return Market(pd.DataFrame(rows).set_index(["learner", "promised"]), rejected)


Audited = tuple[str, int, float, Release, list[Score]]


def _sums(promised: Array) -> list[Audited]:
    """In a biased sum her datum goes from 0 to 1."""
    sale, found = linear_query(promised / promised.max(), scale=1 / promised.max()), []
    for own, claim in zip(np.eye(len(promised)), promised.tolist(), strict=True):
        ends = [np.where(own > 0, datum, 0.5) for datum in (0.0, 1.0)]
        release = coin(*(partial(sale.release, terms) for terms in ends))
        first, second = (float(sale.mean(terms)) for terms in ends)
        scores: list[Score] = [log_ratio(first, second, 1 / sale.scale), lambda outputs: outputs]
        found.append(("sum", 1, claim, release, scores))
    return found


def _ridges(promised: Array) -> list[Audited]:
    """In a ridge regression with two features her label goes from -1 to 1; the other records are zero."""
    found = []
    for own, claim in zip(np.eye(len(promised)), promised.tolist(), strict=True):
        X = np.outer(own, [1, 1])
        pair = Pair(*(output_perturbation(X, label * own, promised, 4000.0) for label in (-1, 1)))
        scores: list[Score] = [pair.score, lambda outputs: 4000 * outputs.sum(axis=1)]
        found.append(("ridge", 2, claim, pair.release, scores))
    return found


def learned_power(runs: int = 200_000, audits: int = 60, sellers: int = 6) -> dict[float, Share]:
    """How often audits in two dimensions, with two scores, find a loss that exceeds the claim by the market's x."""
    rng, e, found = np.random.default_rng(10), np.eye(2), {}
    for claim in CLAIMS:
        excess = exposed_excess(claim, runs, power=0.98, sellers=sellers, scores=2, dimension=2)
        draw = partial(spherical_laplace, 2, claim * (1 + excess))
        louder = coin(draw, lambda draw=draw, **options: e[0] + draw(**options))
        scores: list[Score] = [log_ratio(0 * e[0], e[0], claim), lambda outputs: outputs.sum(axis=1)]
        p = np.array([bit_test(louder, scores, claim, runs, rng=rng).p_value for _ in range(audits)])
        found[claim] = Share(float(np.mean(p < FALSE_ALARM / sellers)), audits, float(np.sqrt(0.09 / audits)))
    return found
