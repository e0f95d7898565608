"""Experiments of the page on convexity: worst data and random data, rates, thresholds, starts, heavy penalties."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import optimize
from scipy.special import expit

from hdpm_book.logistic.joint import Market, rich_market, step_size
from hdpm_book.logistic.joint_objective import JointObjective, alternate, descend_weights, joint_objective
from hdpm_book.logistic.study import misclassified
from hdpm_lib.learners.logistic import objective_perturbation

Array = NDArray[np.float64]


def squared_objective(signed: ArrayLike, penalty: float, mu: float) -> JointObjective:
    """J's objective for records with their signs, without noise and payments."""
    s = np.asarray(signed, dtype=float)
    size, n = s.shape
    noise, costs = np.zeros(n), np.zeros(size)
    return joint_objective(s, np.ones(size), noise, costs, penalty=penalty, mu=mu, sigma=0, gamma=0, squared=True)


# J's Theorem VIII.1


@dataclass(frozen=True)
class LeastEigenvalue:
    """Least eigenvalue of the Hessian: in all directions, and in those that keep the sum of the weights."""

    all: float
    sum_kept: float


def worst_data(factor: float, q: float = 1e-3, size: int = 20) -> LeastEigenvalue:
    """Least eigenvalue for the two-sided data of the proof at 2 penalty mu = factor m."""
    side, mu = np.repeat([1.0, -1.0], size // 2), float(np.sqrt(factor * size / 4))
    f = squared_objective(np.c_[side * np.sqrt(1 - q**2), np.full(size, -q)], 2 * mu, mu)
    H = f.hessian(np.array([0.0, 40 / q]), np.full(size, 1 / size), 1.0)
    keep = np.linalg.svd(np.r_[0, 0, np.ones(size)][None])[2][1:]
    return LeastEigenvalue(float(np.linalg.eigvalsh(H)[0]), float(np.linalg.eigvalsh(keep @ H @ keep.T)[0]))


def random_data(runs: int = 200) -> Array:
    """Least eigenvalues for random data sets just above their own threshold, at random points."""
    rng, least = np.random.default_rng(4), []
    for _ in range(runs):
        size, n = rng.integers(2, 15), rng.integers(1, 5)
        R = rng.normal(size=(size, n))
        R /= np.linalg.norm(R, axis=1, keepdims=True)
        mu = 10 ** rng.uniform(-1, 1)
        f = squared_objective(R, float(1.0001 * np.linalg.norm(R, 2) ** 2 / (2 * mu)), mu)
        w = rng.normal(size=n) * 10 ** rng.uniform(-1, 3)
        least.append(np.linalg.eigvalsh(f.hessian(w, rng.dirichlet(np.ones(size)), 1.0))[0])
    return np.array(least)


def worst_factor(market: Market, runs: int = 10) -> float:
    """Largest share of the gap that one step of projected descent leaves, with 20 sellers and 2 penalty mu above 20."""
    rng, rates = np.random.default_rng(5), []
    for _ in range(runs):
        f = market.part(rng.choice(market.size, 20, replace=False), squared=True, penalty=3.5, mu=3.5)
        best, start = alternate(f, 200.0).value, (rng.normal(size=30), rng.dirichlet(np.ones(20)))
        gaps = descend_weights(f, 200.0, 1 / 12, start=start).values - best
        gaps = gaps[gaps > 1e-11]
        rates.append((gaps[1:] / gaps[:-1]).max())
    return float(max(rates))


@dataclass(frozen=True)
class OffTheSimplex:
    """What the theorem as printed takes for the minimum, and for convex, outside weights >= 0 with sum 1."""

    feasible: float  # least value over the simplex
    free: float  # least value over all (w, a)
    bend: float  # curvature in w at weights (-1, 2)


def off_the_simplex() -> OffTheSimplex:
    """Four equal records, and two of which one has a negative weight; 2 penalty mu > m in both."""
    root = float(np.sqrt(2.2))
    equal = squared_objective(np.ones((4, 1)), root, root)
    free = optimize.minimize_scalar(  # at the best weights of any sign and sum
        lambda w: equal.value([w], -equal.losses([w]) / (2 * root), 1.0)
    ).fun
    two = squared_objective([[1.0], [0.0]], 0.05, 100.0)
    bend = two.hessian(np.zeros(1), np.array([-1.0, 2.0]), 1.0)[0, 0]
    return OffTheSimplex(alternate(equal, 1.0).value, float(free), float(bend))


# T's Theorem 4.1


@dataclass(frozen=True)
class Threshold:
    """The smallest penalty that makes T's objective convex for all data, where it is attained, and what T prints."""

    penalty: float
    at: float
    printed: dict[str, float]  # by T's Eq. (30), with its logarithm to that base

    @property
    def base_2(self) -> float:
        """The same for losses with the logarithm to base 2."""
        return float(self.penalty / np.log(2))


def penalty_needed(s: Array | float) -> Array:
    """Curvature that the penalty has to supply at the margin s: squared slope over loss, less the bend."""
    return np.asarray(expit(-s) ** 2 / np.logaddexp(0, -s) - expit(-s) * expit(s))


def printed_bound(s: Array, base: float) -> Array:
    """Right side of T's Eq. (30) as printed, with its logarithm to that base."""
    bracket = np.log(base) / np.logaddexp(0, -s) - np.log(2) * np.exp(s)
    return np.asarray((expit(-s) / np.log(2)) ** 2 * bracket)


def threshold() -> Threshold:
    """The maximum over the margin, and that of the printed bound."""
    peak = optimize.minimize_scalar(
        lambda s: -penalty_needed(s), bounds=(-10, 10), method="bounded", options={"xatol": 1e-10}
    )
    line = np.linspace(-10, 10, 200_001)
    printed = {name: float(printed_bound(line, base).max() / 2) for name, base in (("log 2", 2), ("ln", np.e))}
    return Threshold(float(-peak.fun), float(peak.x), printed)


def logs_eigenvalue(penalty: float, mu: float, margin: float, total: float = 1.0, size: int = 20) -> float:
    """Least eigenvalue in (w, z) for equal records at one margin; `total` is the sum of exp(z)."""
    ones = np.ones(size)
    records = np.full((size, 1), -1.0)
    f = joint_objective(records, ones, [0.0], 0 * ones, penalty=penalty, mu=mu, sigma=0, gamma=0)
    H = f.hessian(np.array([-margin]), np.full(size, total / size), 1.0, logs=True)
    return float(np.linalg.eigvalsh(H)[0])


# Do starts agree, and is the class large?


@dataclass(frozen=True)
class Starts:
    """End values of J's objective from several starts, and the least eigenvalue where Algorithm 4 ends, by mu."""

    descent: dict[float, Array]
    alternation: dict[float, Array]
    eigenvalue: dict[float, float]
    names: dict[float, str]

    @property
    def table(self) -> pd.DataFrame:
        """The different values as text."""
        rows = {}
        for mu, name in self.names.items():
            values = [" ".join(f"{v:.5f}" for v in ends[mu]) for ends in (self.descent, self.alternation)]
            rows[name] = [*values, f"{self.eigenvalue[mu]:.2f}"]
        return pd.DataFrame(rows, index=["Algorithm 4, 4 starts", "alternation, 8 starts", "least eigenvalue"]).T

    @property
    def number(self) -> dict[float, int]:
        """How many different values Algorithm 4 ends at."""
        return {mu: len(values) for mu, values in self.descent.items()}


def starts(market: Market) -> Starts:
    """Algorithm 4 on the capped simplex and the alternation from random starts, for three pairs of penalty and mu."""
    descent, alternation, eigenvalue, names, m = {}, {}, {}, {}, market.size
    for lam, mu, average in ((0.1, 1.0, 10), (0.1, 0.1, 10), (0.3, 0.03, 30)):
        f, eta = market.objective(squared=True, sigma=1000.0, penalty=lam, mu=mu), float(average * m)
        step, rng = step_size(market, lam, mu), np.random.default_rng([7, 0])
        runs = [
            descend_weights(f, eta, step, start=(rng.normal(size=30), np.full(m, 1 / m)), tolerance=1e-5)
            for _ in range(4)
        ]
        if any(run.status != "converged" for run in runs):
            raise RuntimeError(f"a descent has not converged at mu = {mu}")
        first = [f.best_weights(f.losses(rng.normal(size=30)), eta) for _ in range(8)]
        other = [alternate(f, eta, start_weights=a, tolerance=1e-8) for a in first]
        descent[mu], alternation[mu] = (np.unique(np.round([s.value for s in part], 5)) for part in (runs, other))
        eigenvalue[mu] = float(np.linalg.eigvalsh(f.hessian(runs[0].coefficients, runs[0].weights, eta))[0])
        names[mu] = f"Λ = {lam}, μ = {mu}, η/m = {average}"
    return Starts(descent, alternation, eigenvalue, names)


def heavy_penalties(market: Market, heavy: float) -> pd.DataFrame:
    """Test errors of Algorithm 1 with equal weights: a row for each penalty, means and errors of 60 draws of noise."""
    rng, m, rows = np.random.default_rng(9), market.size, []
    for average in (3, 10):
        for penalty in (1e-3, 1e-2, 1e-1, heavy):
            model = objective_perturbation(market.X, market.y, np.full(m, 1 / m), average * m, penalty)
            released = model.release(rng=rng, size=60)
            error = misclassified(released, market.X_test, market.y_test)
            rows.append([average, penalty, error.mean(), error.std() / np.sqrt(60)])
    return pd.DataFrame(rows, columns=["η/m", "Λ", "error", "s.e."])


def price_of_convexity(errors: pd.DataFrame, average: int) -> float:
    """Test error of the heaviest penalty above the best of the lighter ones."""
    line = errors.loc[errors["η/m"] == average, "error"].to_numpy()
    return float(line[-1] - line[:-1].min())


def sellers_left_out(market: Market) -> int:
    """Number of sellers with weight 0 at T's optimum on all records."""
    return int((alternate(rich_market(market)).weights == 0).sum())
