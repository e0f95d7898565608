"""Experiments of the page on the joint objective: where it has no minimum, where solvers end, where it cannot land."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from hdpm_book.datasets import breast_cancer
from hdpm_book.ledger import FALSE_ALARM
from hdpm_book.logistic.formulas import perturbed_objective
from hdpm_book.logistic.joint_objective import (
    JointObjective,
    JointSolution,
    alternate,
    descend_logs,
    descend_weights,
    joint_objective,
)
from hdpm_book.logistic.study import misclassified
from hdpm_lib import noise
from hdpm_lib.learners.logistic import objective_perturbation

Array = NDArray[np.float64]

PRINTED = "as printed, σ = 100"
KINDS: dict[str, dict[str, float]] = {  # joint models on a grid of eta
    "empirical part alone": {"mu": 0.0, "sigma": 0.0, "gamma": 0.0},
    "μ = σ = 0": {"mu": 0.0, "sigma": 0.0},
    PRINTED: {},
    "ball, σ = 100": {"radius": 5.0},
    "ball, σ = 600": {"radius": 5.0, "sigma": 600.0},
}


@dataclass(frozen=True)
class Market:
    """341 sellers with a tumour record each, other records to test on, and one draw of noise."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    virtual_costs: Array
    unit_noise: Array

    @property
    def size(self) -> int:
        """Number of sellers."""
        return len(self.y)

    @property
    def top(self) -> float:
        """Largest eigenvalue of X'X."""
        return float(np.linalg.norm(self.X, 2) ** 2)

    def objective(self, **options: Any) -> JointObjective:
        """The joint objective on the sellers' records."""
        settings = {"penalty": 0.01, "mu": 1.0, "sigma": 100.0, "gamma": 1e-3} | options
        return joint_objective(self.X, self.y, self.unit_noise, self.virtual_costs, **settings)

    def part(self, sellers: NDArray[np.intp], **options: Any) -> JointObjective:
        """The same with some of the sellers."""
        f = self.objective(**options)
        return replace(f, X=f.X[sellers], y=f.y[sellers], virtual_costs=f.virtual_costs[sellers])

    def test_error(self, coefficients: Array) -> float:
        """Share of test records on the wrong side."""
        return float(misclassified(coefficients, self.X_test, self.y_test))


def breast_cancer_market() -> Market:
    """The Diagnostic set, standardised and divided by its largest norm, with costs from U[e^-4, 5 e^-4]."""
    rng, data = np.random.default_rng(0), breast_cancer()
    X = stats.zscore(data.features.to_numpy())
    X, y = X / np.linalg.norm(X, axis=1).max(), np.where(data.labels == "benign", 1.0, -1.0)
    order = rng.permutation(len(y))
    train, test = order[:341], order[341:]
    psi = 2 * rng.uniform(np.exp(-4), 5 * np.exp(-4), len(train)) - np.exp(-4)
    b = noise.spherical_laplace(30, 1.0, rng=rng)
    return Market(X[train], y[train], X[test], y[test], psi, b)


# No minimum


@dataclass(frozen=True)
class LeastValues:
    """Least values over (w, a) at fixed eta, and the one that the proof promises; a row for each eta / m."""

    table: pd.DataFrame
    twice_radius_norm: float  # 2 beta |b|
    theorem_sigma: float  # of J's Theorem II.4
    large_enough: Array  # probability that sigma >= 2 beta |b|, for sigma = 100 and for the theorem's

    @property
    def shown(self) -> pd.DataFrame:
        """The table as text."""
        return self.table.map("{:.3g}".format)

    @property
    def follows_the_proof(self) -> bool:
        """Whether at the two smallest eta the least value as printed is the proof's, up to one percent."""
        last = self.table.iloc[-2:].to_numpy()
        return bool((abs(last[:, 0] / last[:, 1] - 1) < 0.01).all())


def least_values(market: Market, radius: float = 5.0) -> LeastValues:
    """Least values at fixed eta without a ball and with one, for two values of sigma."""
    b, rows = market.unit_noise, {}
    for average in (10, 1, 0.1, 0.01, 0.001):
        eta = average * market.size
        values = [alternate(market.objective(squared=True), eta).value]
        values.append(-2 * float(b @ b) / (0.01 * eta**2))
        for sigma in (100.0, 400.0):
            values.append(alternate(market.objective(squared=True, radius=radius, sigma=sigma), eta).value)
        rows[f"{average:g}"] = values
    columns = [PRINTED, "−2|b|²/(Λη²)", "ball, σ = 100", "ball, σ = 400"]
    table = pd.DataFrame(rows, index=columns).T.rename_axis("η/m")
    law, delta = noise.norm_law(30, 1.0), 0.05
    sigma = float((6 * np.log(1 / delta) / np.sqrt(2) + 1) * 2 * radius * 2 * law.isf(delta))
    enough = law.cdf(np.array([100, sigma]) / (2 * radius))
    return LeastValues(table, float(2 * radius * np.linalg.norm(b)), sigma, enough)


@dataclass(frozen=True)
class GridFloors:
    """What joint models choose on a grid of eta that is cut off at a floor, in three draws of noise."""

    table: pd.DataFrame
    chosen: dict[str, Array]  # eta / m on the whole grid
    error: dict[str, float]  # mean test error there
    floor: float
    sellers: int  # the most that the empirical part alone buys from

    def on_floor(self, name: str) -> bool:
        """Whether this model chooses the floor in every draw."""
        return bool((self.chosen[name] == self.floor).all())

    @property
    def inside(self) -> bool:
        """Whether the ball with a large enough sigma chooses a point above the floor in every draw."""
        return bool((self.chosen["ball, σ = 600"] > self.floor).all())

    @property
    def others_on_floor(self) -> bool:
        """Whether all other models choose the floor."""
        return all(self.on_floor(name) for name in list(KINDS)[:4])


def grid_floors(market: Market) -> GridFloors:
    """Alternation at each point of a grid of eta / m from 0.01 to 100, for five joint models."""
    grid, m = np.geomspace(0.01, 100, 9), market.size
    found: dict[str, list[list[JointSolution]]] = {name: [] for name in KINDS}
    for k in range(3):
        draw = noise.spherical_laplace(30, 1.0, rng=np.random.default_rng([1, k]))
        for name, options in KINDS.items():
            f = replace(market.objective(squared=True, **options), unit_noise=draw)
            found[name].append([alternate(f, m * e, tolerance=1e-6) for e in grid])

    def best(name: str, floor: int = 0) -> list[JointSolution]:
        return [min(line[floor:], key=lambda s: s.value) for line in found[name]]

    def error(solutions: list[JointSolution]) -> float:
        return float(np.mean([market.test_error(s.coefficients) for s in solutions]))

    choices: dict[str, dict[str, str]] = {name: {} for name in KINDS}
    errors: dict[str, dict[str, str]] = {name: {} for name in KINDS}
    for floor in (0, 2, 4, 6):
        for name in KINDS:
            choices[name][f"{grid[floor]:.3g}"] = ", ".join(f"{s.eta / m:.3g}" for s in best(name, floor))
            errors[name][f"{grid[floor]:.3g}"] = f"{error(best(name, floor)):.2f}"
    groups = {"chosen η/m": pd.DataFrame(choices).T, "mean test error": pd.DataFrame(errors).T}
    return GridFloors(
        pd.concat(groups, axis=1, names=[None, "floor of η/m"]),
        {name: np.array([s.eta / m for s in best(name)]) for name in KINDS},
        {name: error(best(name)) for name in KINDS},
        float(grid[0]),
        max(int((s.weights > 0).sum()) for s in best("empirical part alone")),
    )


# The optimum


def prices(f: JointObjective, s: JointSolution) -> Array:
    """What a unit of weight adds to the payments, of shape (m,)."""
    return np.asarray(f.gamma * s.eta * f.virtual_costs * f.power * s.epsilon ** (f.power - 1))


def levels_and_tau(f: JointObjective, s: JointSolution) -> tuple[Array, float]:
    """Price plus loss of each seller, of shape (m,), and the multiplier of the sum of the weights, for the norm."""
    levels = prices(f, s) + f.losses(s.coefficients)
    slopes = levels + f.mu * s.weights / np.linalg.norm(s.weights)
    return levels, float(slopes[s.weights > 0].mean())


def residual(f: JointObjective, s: JointSolution) -> float:
    """Largest deviation from the two equations of T's Theorem 3.3."""
    levels, tau = levels_and_tau(f, s)
    weights = np.linalg.norm(s.weights) / f.mu * np.maximum(tau - levels, 0)
    eta = np.sqrt(f.over_eta(s.coefficients) / (prices(f, s) @ s.weights / s.eta))
    return float(max(np.abs(weights - s.weights).max(), abs(eta / s.eta - 1)))


@dataclass(frozen=True)
class Stationarity:
    """T's Theorem 3.3 on random sets of 20 sellers with linear and quadratic privacy cost, and on all records."""

    runs: int
    residuals: dict[float, list[float]]  # by the power of the privacy cost
    unbounded: int  # runs stopped because sigma + 2 b.w is not positive
    whole: float  # residual on all records
    capped: float  # residual with a cap that binds

    @property
    def stationary(self) -> int:
        """Runs with a stationary point."""
        return sum(map(len, self.residuals.values()))

    @property
    def holds(self) -> bool:
        """Whether both equations hold to 1e-8 wherever there is a stationary point without a cap."""
        return all(max(v) < 1e-8 for v in self.residuals.values()) and self.whole < 1e-8


def stationarity(market: Market) -> Stationarity:
    """Residuals of the two equations where the alternation ends."""
    rng, m, runs, unbounded = np.random.default_rng(2), market.size, 120, 0
    residuals: dict[float, list[float]] = {1.0: [], 2.0: []}
    for k in range(runs):
        sellers = rng.choice(m, 20, replace=False)
        options = {"sigma": 10 ** rng.uniform(1.5, 4), "penalty": 10 ** rng.uniform(-2, 0)}
        f = market.part(sellers, mu=10 ** rng.uniform(-1, 1), power=float(1 + k % 2), **options)
        try:
            residuals[f.power].append(residual(f, alternate(f)))
        except ValueError:  # sigma + 2 b.w is not positive
            unbounded += 1
    whole = rich_market(market)
    capped = replace(whole, cap=2 / m)
    ends = residual(whole, alternate(whole)), residual(capped, alternate(capped))
    return Stationarity(runs, residuals, unbounded, *ends)


def rich_market(market: Market, **options: Any) -> JointObjective:
    """The objective on all records with a sigma and a penalty for which it has a stationary point."""
    return market.objective(**{"sigma": 1000.0, "penalty": 0.1} | options)


@dataclass(frozen=True)
class FlatCost:
    """One seller whose privacy costs nothing: slopes at a stationary point, and sigma + 2 b.w there."""

    slopes: tuple[float, float]
    bracket: float


def flat_cost() -> FlatCost:
    """A stationary point without payments: the bracket has to vanish."""
    flat = joint_objective([[1.0]], [1], [1.0], [1.0], penalty=1, mu=1, sigma=0, gamma=0)
    w = flat.best_coefficients(np.ones(1), 0.5)
    flat = replace(flat, sigma=float(-2 * w @ flat.unit_noise))
    in_w, _, in_eta = flat.gradient(w, np.ones(1), 0.5)
    return FlatCost((float(in_w[0]), in_eta), float(flat.over_eta(w)))


@dataclass(frozen=True)
class WeightsAndCosts:
    """How weights at the optimum go with costs: rank correlations among the sellers bought from."""

    with_level: float  # weight and p + loss
    with_cost: float  # weight and virtual cost
    not_bought: int
    cost_bought: float  # mean virtual cost
    cost_not_bought: float
    own_cost_lowers: bool  # whether a seller's loss falls in her own cost, for 10 sellers


def weights_and_costs(market: Market) -> WeightsAndCosts:
    """T's first observation at the optimum on all records."""
    f, psi = rich_market(market), market.virtual_costs
    optimum = alternate(f)
    bought = optimum.weights > 0
    level, _ = levels_and_tau(f, optimum)
    with_level, with_cost = (float(stats.spearmanr(optimum.weights[bought], v[bought])[0]) for v in (level, psi))
    falls = []
    for i in np.flatnonzero(bought)[:10]:
        path = [psi * np.where(np.arange(market.size) == i, k, 1.0) for k in (0.5, 1.0, 1.5)]
        falls.append([alternate(replace(f, virtual_costs=p)).epsilon[i] for p in path])
    return WeightsAndCosts(
        with_level,
        with_cost,
        int((~bought).sum()),
        float(psi[bought].mean()),
        float(psi[~bought].mean()),
        bool((np.diff(falls, axis=1) <= 1e-9).all()),
    )


def spread_with_mu(market: Market) -> pd.DataFrame:
    """T's second observation: tau, the variance of m a, and the largest m a, as mu grows."""
    m, rows = market.size, {}
    for mu in (0.1, 1.0, 10.0, 100.0, 1000.0):
        f = rich_market(market, mu=mu)
        s = alternate(f, 10.0 * m)
        _, tau = levels_and_tau(f, s)
        rows[mu] = {"τ": tau, "variance of m a": m**2 * s.weights.var(), "largest m a": m * s.weights.max()}
    return pd.DataFrame(rows).T.rename_axis("μ")


@dataclass(frozen=True)
class RateAndPrice:
    """Slopes of ln eta against ln gamma, by the power of the privacy cost."""

    fixed: dict[float, Array]  # coefficients and weights kept
    free: dict[float, Array]  # all chosen anew

    @property
    def table(self) -> pd.DataFrame:
        """Exponents of gamma, for linear and quadratic privacy cost."""
        rows = {}
        for power, free in self.free.items():
            formula, fixed = f"{-1 / (1 + power):.3f}", f"{self.fixed[power].mean():.3f}"
            rows[f"u = ε^{power:g}"] = [formula, fixed, f"{free.min():.2f} to {free.max():.2f}"]
        return pd.DataFrame(rows, index=["formula", "w, a fixed", "all chosen anew"]).T

    @property
    def follows_formula(self) -> bool:
        """Whether at fixed coefficients and weights the exponents are -1/2 and -1/3."""
        return bool(all(abs(v + 1 / (1 + power)).max() < 1e-9 for power, v in self.fixed.items()))


def rate_and_price(market: Market) -> RateAndPrice:
    """T's third observation: how eta answers to gamma."""
    optimum, prices = alternate(rich_market(market)), np.geomspace(1e-4, 1e-1, 7)
    fixed, free = {}, {}
    for power in (1.0, 2.0):
        f = rich_market(market, power=power)
        kept = [replace(f, gamma=g).best_eta(optimum.coefficients, optimum.weights) for g in prices]
        anew = [alternate(replace(f, gamma=g)).eta for g in prices]
        fixed[power], free[power] = (np.diff(np.log(line)) / np.diff(np.log(prices)) for line in (kept, anew))
    return RateAndPrice(fixed, free)


# The descents


def plane_threshold(market: Market) -> float:
    """Largest Q found: below it, as 2 penalty mu, Algorithm 4 read literally has no least value."""
    signed, found = market.y[:, None] * market.X, 0.0
    for k in range(20):
        d = np.random.default_rng([6, k]).normal(size=30)
        for _ in range(60):  # Q is homogeneous of degree 2: follow its gradient
            c = np.maximum(0, -signed @ d)
            d = -((c - c.mean()) * (c > 0)) @ signed
            d /= np.linalg.norm(d)
        c = np.maximum(0, -signed @ d)
        found = max(found, ((c - c.mean()) ** 2).sum())
    return found


@dataclass(frozen=True)
class Endings:
    """How Algorithm 4 ends, by 2 penalty mu: on the printed set, and twice on the capped simplex with the ball."""

    literal: dict[float, str]
    mended: dict[float, list[str]]

    @property
    def table(self) -> pd.DataFrame:
        """Endings as text."""
        rows = {f"{key:g}": [self.literal[key], ", ".join(self.mended[key])] for key in self.literal}
        return pd.DataFrame(rows, index=["sum 1", "capped simplex and ball"]).T.rename_axis("2Λμ")

    @property
    def all_mended(self) -> bool:
        """Whether every run on the right set converges."""
        return {status for each in self.mended.values() for status in each} == {"converged"}


def algorithm_4_endings(market: Market) -> Endings:
    """Algorithm 4 read literally, and with the constraints of J's Eq. (17), for three values of 2 penalty mu."""
    m, rng, eta = market.size, np.random.default_rng([6, 20]), 10.0 * market.size
    literal, mended = {}, {}
    for lam, mu in ((0.01, 1.0), (0.1, 10.0), (10.0, 10.0)):
        step = step_size(market, lam, mu)
        f = market.objective(squared=True, penalty=lam, mu=mu, cap=10 / m)
        ball = replace(f, radius=5.0, sigma=400.0)  # sigma above 2 beta |b|
        literal[2 * lam * mu] = descend_weights(f, eta, step, literal=True, tolerance=1e-5).status
        runs = []
        for _ in range(2):
            start = rng.normal(size=30), np.full(m, 1 / m)
            runs.append(descend_weights(ball, eta, step, start=start, tolerance=1e-5).status)
        mended[2 * lam * mu] = runs
    return Endings(literal, mended)


def step_size(market: Market, penalty: float, mu: float) -> float:
    """One over a bound on the curvature of J's objective."""
    return float(1 / (penalty + 0.25 + 2 * mu + np.sqrt(market.top)))


@dataclass(frozen=True)
class Descents:
    """T's descent with both projections and descent in the weights: two draws of noise, two starts in each.

    The objective, the alternation and all values are of the last draw.
    """

    objective: JointObjective
    reference: JointSolution
    runs: dict[str, list[JointSolution]]
    gaps: dict[str, Array]  # above the alternation's value, one row a draw of noise
    rounds: int  # the most of the alternation

    @property
    def table(self) -> pd.DataFrame:
        """Status and gaps at the end."""
        rows = {}
        for name, runs in self.runs.items():
            small = self.gaps[name].max() < 1e-9
            shown = "below 1e-9" if small else ", ".join(f"{gap:.3f}" for gap in self.gaps[name].ravel())
            rows[name] = {"status": runs[0].status, "gaps, two draws and two starts": shown}
        return pd.DataFrame(rows).T

    @property
    def starts_agree(self) -> bool:
        """Whether the two starts of each draw end within 1e-4, for both projections."""
        return all(np.ptp(self.gaps[name], axis=1).max() < 1e-4 for name in (NEAREST, DIVIDED))

    @property
    def weights_settle(self) -> bool:
        """Whether descent in the weights is at the minimum after at most 600 steps."""
        return bool(max(len(s.values) for s in self.runs[IN_WEIGHTS]) <= 601 and self.gaps[IN_WEIGHTS].max() < 1e-9)

    def curves(self, steps: NDArray[np.intp]) -> dict[str, Array]:
        """Gaps of the last runs along the way, down to 1e-10."""
        paths = {"alternation": self.reference} | {name: runs[-1] for name, runs in self.runs.items()}
        gaps = {
            n: np.interp(steps, np.arange(len(s.values)), s.values - self.reference.value) for n, s in paths.items()
        }
        return {name: np.where(gap > 1e-10, gap, np.nan) for name, gap in gaps.items()}


IN_WEIGHTS, NEAREST, DIVIDED = "in a", "in z, nearest", "in z, divided"


def descents(market: Market) -> Descents:
    """The printed descents on T's objective, from two starts in each of two draws of noise."""
    m, eta = market.size, 10.0 * market.size
    runs: dict[str, list[JointSolution]] = {IN_WEIGHTS: [], NEAREST: [], DIVIDED: []}
    gaps: dict[str, list[float]] = {name: [] for name in runs}
    rounds = []
    for k in range(2):
        rng = np.random.default_rng([8, k])
        f = replace(market.objective(penalty=0.3), unit_noise=noise.spherical_laplace(30, 1.0, rng=rng))
        reference = alternate(f, eta)
        rounds.append(len(reference.values) - 1)
        for start in [(rng.normal(size=30), np.full(m, 1 / m)) for _ in range(2)]:
            runs[IN_WEIGHTS].append(descend_weights(f, eta, 0.1, start=start, tolerance=1e-6))
            runs[NEAREST].append(descend_logs(f, eta, 1.0, iterations=600, start=start, tolerance=1e-6))
            runs[DIVIDED].append(descend_logs(f, eta, 1.0, renormalise=True, start=start))
            for name, line in runs.items():
                gaps[name].append(line[-1].value - reference.value)
    return Descents(f, reference, runs, {n: np.reshape(v, (2, 2)) for n, v in gaps.items()}, max(rounds))


@dataclass(frozen=True)
class Opposed:
    """Two sellers whose records disagree: the minima reached from either side, and gap x steps of T's descent."""

    middle: float  # sum of the weights half way between two points of S
    minima: Array
    steps: tuple[int, ...]
    gap_times_steps: Array  # a row for each minimum, a column for each number of steps

    @property
    def apart(self) -> bool:
        """Whether the minima differ."""
        return bool(self.minima[1] - self.minima[0] > 0.01)

    @property
    def slow(self) -> bool:
        """Whether the gap to the second minimum falls like one over the steps."""
        return bool(abs(self.gap_times_steps[1, 2] / self.gap_times_steps[1, 1] - 1) < 0.05)


def opposed_sellers() -> Opposed:
    """Two minima on T's set, where its objective is convex in (w, z)."""
    f = joint_objective([[1.0], [0.9]], [1, -1], [0.0], [0.0, 0.0], penalty=0.3, mu=0.1, sigma=0, gamma=0)
    middle = np.exp(np.mean(np.log([[0.99, 0.01], [0.01, 0.99]]), axis=0)).sum()
    starts, steps = ([0.9, 0.1], [0.1, 0.9]), (250, 500, 1000)
    minima = np.array([alternate(f, 1.0, start_weights=a).value for a in starts])
    paths = [descend_logs(f, 1.0, 0.5, start=([0.0], a), iterations=1000).values for a in starts]
    products = [[k * (path[k] - best) for k in steps] for path, best in zip(paths, minima, strict=True)]
    return Opposed(float(middle), minima, steps, np.array(products))


# Where the joint rule can land

RATE, PENALTY = 2.0, 0.3
POINTS = np.unique(np.r_[np.linspace(-40, 40, 8001), np.linspace(-2, 2, 40001)])
LOW, HIGH = -0.82, 1.0  # coefficients that one flipped label makes impossible
BEFORE, AFTER = (-1.0, -1.0, -1.0), (-1.0, -1.0, 1.0)  # y x of the three sellers


def three_sellers(signed: Sequence[float], **options: Any) -> JointObjective:
    """Objective of three sellers with signed records y x; no noise, which only tilts G."""
    settings = {"penalty": PENALTY, "mu": 0.3, "sigma": 0.0, "gamma": 0.0} | options
    return joint_objective(np.reshape(signed, (3, 1)), np.ones(3), [0.0], np.zeros(3), **settings)


@dataclass(frozen=True)
class JointLaw:
    """Exact law of the coefficient that the joint rule releases for three sellers, on the grid `POINTS`."""

    G: Array
    weights: Array
    hull: NDArray[np.intp]  # vertices of the convex hull of G
    mass: Array  # their probabilities

    def probability(self, low: float, high: float) -> float:
        """Probability that the coefficient lies between two numbers."""
        at = POINTS[self.hull]
        return float(self.mass[(at > low) & (at < high)].sum())

    @property
    def gap(self) -> tuple[float, float]:
        """Ends of the longest edge of the hull."""
        at = POINTS[self.hull]
        k = np.diff(at).argmax()
        return float(at[k]), float(at[k + 1])

    @property
    def hull_line(self) -> Array:
        """The hull at every grid point."""
        return np.interp(POINTS, POINTS[self.hull], self.G[self.hull])


def joint_law(signed: Sequence[float], **options: Any) -> JointLaw:
    """G and the best weights on the grid, its convex hull, and the noise that leads to each vertex."""
    f = three_sellers(signed, **options)
    weights = f.best_weights(f.losses(POINTS[:, None]), RATE)
    G = f.value(POINTS[:, None], weights, RATE)
    hull: list[int] = []
    for i, (x, g) in enumerate(zip(POINTS, G, strict=True)):
        while len(hull) > 1:
            a, b = hull[-2:]
            if (g - G[b]) * (POINTS[b] - POINTS[a]) > (G[b] - G[a]) * (x - POINTS[b]):
                break
            hull.pop()
        hull.append(i)
    cuts = -RATE / 2 * np.diff(G[hull]) / np.diff(POINTS[hull])  # the b between two vertices
    mass = -np.diff(stats.laplace.cdf(np.r_[np.inf, cuts, -np.inf]))
    return JointLaw(G, weights, np.array(hull), mass)


@dataclass(frozen=True)
class Proof:
    """How far G is above a chord on a window, on the grid, and how much less it can be between grid points."""

    margin: float
    between: float

    @property
    def certain(self) -> bool:
        """Whether G is above the chord everywhere on the window."""
        return self.margin > self.between


def chord_proof(law: JointLaw) -> Proof:
    """A chord under G between the two valleys: the coefficients under it have probability 0."""
    left, right = law.gap
    valleys = np.interp([left, right], POINTS, law.G)
    window = (POINTS > LOW) & (POINTS < HIGH)
    margin = (law.G - np.interp(POINTS, [left, right], valleys))[window].min()
    # Lipschitz constants of G (penalty, records) and of the chord, times the spacing
    steep = PENALTY * 1.0 + 1.0 + abs(valleys[1] - valleys[0]) / (right - left)
    return Proof(float(margin), float(steep * np.diff(POINTS[window]).max()))


@dataclass(frozen=True)
class Landings:
    """Joint minimisers for drawn noise: how many of `draws` land between LOW and HIGH, with BEFORE and with AFTER."""

    draws: int
    hits: tuple[int, int]
    z: float  # of the first against the exact probability
    epsilon: float  # needed, from these draws alone, but for one false alarm

    @property
    def agree(self) -> bool:
        """Whether the draws are as frequent as the exact law says, with BEFORE, and none lands there with AFTER."""
        return self.hits[1] == 0 and abs(self.z) < float(stats.norm.isf(FALSE_ALARM / 2))


def landings(exact: float, draws: int = 4000) -> Landings:
    """Draw noise; for each of 201 weights of seller 3 find w by Newton's method, and keep the best."""
    rng, hits = np.random.default_rng(3), []
    for signed in (BEFORE, AFTER):
        f = three_sellers(signed)
        tilt = 2 * noise.spherical_laplace(1, 1.0, rng=rng, size=draws) / RATE
        best, at = np.full(draws, np.inf), np.zeros(draws)
        for share in np.linspace(0, 1, 201):  # sellers 1 and 2 have one record and share the rest
            a = np.array([(1 - share) / 2, (1 - share) / 2, share])
            model = objective_perturbation(f.X, f.y, a, RATE, PENALTY)
            w = model.minimise(tilt)
            value = perturbed_objective(model, w, tilt) + f.mu * np.linalg.norm(a)
            at, best = np.where(value < best, w[:, 0], at), np.minimum(value, best)
        hits.append(int(((at > LOW) & (at < HIGH)).sum()))
    z = (hits[0] / draws - exact) / np.sqrt(exact * (1 - exact) / draws)
    least = stats.beta.ppf(FALSE_ALARM / 2, hits[0], draws - hits[0] + 1)
    most = 1 - (FALSE_ALARM / 2) ** (1 / draws)
    return Landings(draws, (hits[0], hits[1]), float(z), float(np.log(least / most)))


VARIANTS: dict[str, dict[str, Any]] = {
    "norm, μ = 0.3": {},
    "square, μ = 0.3": {"squared": True},
    "norm, cap 2/3": {"cap": 2 / 3},
    "square, cap 2/3": {"squared": True, "cap": 2 / 3},
    "norm, μ = 1": {"mu": 1.0},
    "square, μ = 1": {"squared": True, "mu": 1.0},
}


def gaps_of_variants() -> pd.DataFrame:
    """The interval that the flipped label closes, and its probability before, for other objectives."""
    rows = {}
    for name, options in VARIANTS.items():
        before, after = (joint_law(signed, **options) for signed in (BEFORE, AFTER))
        open_ = np.ptp(after.gap) > 0.1
        gap = "({:.2f}, {:.2f})".format(*after.gap) if open_ else "none"
        rows[name] = [gap, f"{before.probability(*after.gap):.3f}" if open_ else "–"]
    return pd.DataFrame(rows, index=["gap under D′", "probability under D"]).T


@dataclass(frozen=True)
class SilentSeller:
    """Outputs at which seller 3 has weight 0: their probability with a short record, with a long one, her weight."""

    high: float
    probability: tuple[float, float]
    largest_weight: float


def silent_seller() -> SilentSeller:
    """Seller 3 decides what can occur where she is promised a loss of 0."""
    laws, high = [joint_law(signed) for signed in ((-1.0, -1.0, 0.2), AFTER)], -0.53
    part = (LOW < POINTS) & (high > POINTS)
    chance = [law.probability(LOW, high) for law in laws]
    return SilentSeller(high, (chance[0], chance[1]), float(max(law.weights[part, 2].max() for law in laws)))
