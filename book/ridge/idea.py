"""What the first page of the ridge chapter measures: solvers, noise, norms, sensitivity and exact privacy losses."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize, stats

from hdpm_book.ridge.study import PrivacyGroups
from hdpm_lib import noise
from hdpm_lib.audits.meters import privacy_losses
from hdpm_lib.audits.ridge import ridge_pair_loss
from hdpm_lib.learners.ridge import (
    OutputPerturbation,
    estimate_norm_bound,
    output_perturbation,
    personalized_weights,
    sensitivity_constant,
    weighted_ridge,
)
from hdpm_lib.validation import FALSE_ALARM

Array = NDArray[np.float64]

EXACT = 1 + 1e-9  # room for rounding only

# --- the algorithm ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AlgorithmCheck:
    """Estimates against two other solvers, and the noise taken back out of releases, on 200 problems.

    Attributes
    ----------
    general, squares : largest difference to a general minimiser, and to least squares on extended records
    p, limit : smallest p-value of 1,000 noise lengths against their law, and what chance allows
    """

    general: float
    squares: float
    p: float
    limit: float

    @property
    def solved(self) -> bool:
        """Whether the solvers agree to 1e-5 and 1e-11."""
        return self.general < 1e-5 and self.squares < 1e-11

    @property
    def right(self) -> bool:
        """Whether they do and the noise follows its law."""
        return self.solved and self.p > self.limit


def algorithm_check(problems: int = 200) -> AlgorithmCheck:
    """Solve random problems three times, and test the noise of their releases."""

    def objective(theta: Array, X: Array, y: Array, w: Array, lam: float) -> float:
        return float(w @ (y - X @ theta) ** 2 + lam * theta @ theta)

    gaps, p_values = [], []
    for seed in range(problems):
        rng = np.random.default_rng([1, seed])
        d, lam = int(rng.integers(1, 6)), 10 ** rng.uniform(-2, 2)
        X, y = rng.random((10, d)), rng.uniform(-1, 1, 10)
        m = output_perturbation(X, y, rng.uniform(0.1, 1, 10), lam)
        args = (X, y, m.weights, lam)
        general = optimize.minimize(objective, np.zeros(d), args, options={"gtol": 1e-7}).x
        root = np.sqrt(m.weights)[:, None]
        tall = np.vstack([root * X, np.sqrt(lam) * np.eye(d)])
        squares = np.linalg.lstsq(tall, np.r_[root[:, 0] * y, np.zeros(d)])[0]
        gaps.append([np.abs(general - m.theta).max(), np.abs(squares - m.theta).max()])
        norms = np.linalg.norm(m.release(rng=rng, size=1000) - m.theta, axis=1)
        p_values.append(stats.kstest(norms, noise.norm_law(d, m.noise_rate).cdf).pvalue)
    general_gap, squares_gap = map(float, np.max(gaps, axis=0))
    return AlgorithmCheck(general_gap, squares_gap, min(p_values), FALSE_ALARM / problems)


@dataclass(frozen=True)
class NoiseCheck:
    """Spherical Laplace noise against its law and against draws from the density by rejection.

    Attributes
    ----------
    tests, p, limit : number of tests (norm, direction, independence), smallest p-value, and what chance allows
    square : mean squared norm over d(d+1)/eta^2, d = 30
    mistaken : largest p-value if the rate is taken for a scale
    """

    tests: int
    p: float
    limit: float
    square: float
    mistaken: float

    @property
    def right(self) -> bool:
        """Whether every test passes."""
        return self.p > self.limit

    @property
    def sees_mistake(self) -> bool:
        """Whether a rate taken for a scale is caught."""
        return self.mistaken < self.limit


def noise_check() -> NoiseCheck:
    """Test 20,000 draws in five dimensions at three rates, and the law itself by rejection in the plane."""
    p_values, wrong, square = [], [], 0.0
    for d in (1, 2, 3, 12, 30):
        for eta in (0.2, 1.0, 5.0):
            rng = np.random.default_rng([3, d, int(10 * eta)])
            z = noise.spherical_laplace(d, eta, rng=rng, size=20_000)
            radius = np.linalg.norm(z, axis=1)
            u = z[:, 0] / radius  # a coordinate of the direction, with a known law
            p_values.append(stats.kstest(radius, noise.norm_law(d, eta).cdf).pvalue)
            wrong.append(stats.kstest(radius, stats.gamma(d, scale=eta).cdf).pvalue)
            p_values.append(stats.spearmanr(radius, u).pvalue)
            if d > 1:
                law = stats.beta((d - 1) / 2, (d - 1) / 2, -1, 2)
                p_values.append(stats.kstest(u, law.cdf).pvalue)
            square = float((radius**2).mean() * eta**2 / (d * (d + 1)))
    rng = np.random.default_rng(4)
    box = rng.uniform(-15, 15, (1_000_000, 2))
    kept = box[rng.random(len(box)) < np.exp(-np.linalg.norm(box, axis=1))]
    p_values.append(stats.kstest(np.linalg.norm(kept, axis=1), noise.norm_law(2, 1).cdf).pvalue)
    mistaken = np.reshape(wrong, (5, 3))[:, [0, 2]].max()  # at eta = 1 it makes no difference
    return NoiseCheck(len(p_values), min(p_values), FALSE_ALARM / len(p_values), square, float(mistaken))


def noise_lengths(d: int) -> Array:
    """Lengths of 20,000 draws of noise of rate 1."""
    z = noise.spherical_laplace(d, 1.0, rng=np.random.default_rng([2, d]), size=20_000)
    return np.asarray(np.linalg.norm(z, axis=1))


# --- norms and sensitivity --------------------------------------------------------------------------------------------


def records(rng: np.random.Generator) -> tuple[Array, Array, Array, float]:
    """A small data set inside the bounds, with privacy losses and a penalty: interior, corners, or the worst record."""
    n, d, lam = rng.integers(1, 6), rng.integers(1, 9), 10 ** rng.uniform(-3, 4)
    worst = np.full((n, d), min(1.0, np.sqrt(lam / d)))
    X = (rng.random((n, d)), 1.0 * rng.integers(0, 2, (n, d)), worst)[rng.integers(3)]
    y = (rng.uniform(-1, 1, n), rng.choice([-1.0, 1.0], n), np.ones(n))[rng.integers(3)]
    return np.asarray(X, float), np.asarray(y, float), rng.uniform(0.01, 1, n), lam


def longest_estimates(penalties: Array, d: int) -> list[float]:
    """The longest of 40 estimates at each penalty, shape (m,), from three records with `d` features."""
    rng, longest = np.random.default_rng(5), []
    for penalty in penalties:
        found = []
        for w in rng.dirichlet(np.ones(3), 40):
            X = rng.integers(0, 2, (3, d)) * min(1.0, np.sqrt(penalty / d) * 1.5)
            found.append(float(np.linalg.norm(weighted_ridge(X, np.ones(3), w, penalty))))
        longest.append(max(found))
    return longest


@dataclass(frozen=True)
class NormSearch:
    """The longest estimates of 4,000 data sets over three bounds, and how often a larger penalty made one longer.

    Attributes
    ----------
    first, second, attained : over 1/sqrt(lambda), sqrt(d)/lambda and the attained bound
    grew : data sets whose estimate became longer
    """

    first: float
    second: float
    attained: float
    grew: int

    @property
    def table(self) -> pd.DataFrame:
        """The ratios as text."""
        rows = {"1/√λ": self.first, "√d/λ": self.second, "attained bound": self.attained}
        return pd.Series(rows).map("{:.4f}".format).to_frame("longest estimate / bound")


def norm_search(sets: int = 4000) -> NormSearch:
    """Look for estimates longer than the bounds allow."""
    rows = []
    for seed in range(sets):
        X, y, epsilon, lam = records(np.random.default_rng([6, seed]))
        w, root = personalized_weights(epsilon), np.sqrt(X.shape[1])
        path = [weighted_ridge(X, y, w, t * lam) for t in (0.0, 0.1, 1.0, 8.0)]
        size = np.linalg.norm(path, axis=1)  # the first is least squares of least norm
        sharp = estimate_norm_bound(lam, root, "sharp")
        ratios = size[2] * np.sqrt(lam), size[2] * lam / root, size[2] / sharp
        rows.append([*ratios, np.diff(size).max() / max(size[0], 1e-300)])
    found = np.array(rows)
    first, second, attained = map(float, found[:, :3].max(0))
    return NormSearch(first, second, attained, int((found[:, 3] > 1e-9).sum()))


def both_constants() -> pd.DataFrame:
    """The sensitivity of a record of weight 1 by both bounds, and the noise power that the sharper one saves."""
    rows = {}
    for d, lam in ((30, 1), (30, 10), (30, 100), (12, 0.01), (12, 1), (12, 5)):
        paper, sharp = (sensitivity_constant(lam, d**0.5, bound) for bound in ("paper", "sharp"))  # type: ignore[arg-type]
        rows[f"d = {d}, λ = {lam:g}"] = [f"{paper:.3g}", f"{sharp:.3g}", f"× {(paper / sharp) ** 2:.2f}"]
    return pd.DataFrame(rows, index=["c", "sharper", "noise power saved"]).T


def pair_search(pairs: int = 6000) -> pd.DataFrame:
    """Neighbours: one record replaced by interior points or corners, or kept with the label turned round.

    Columns are the penalty, the distance of the estimates over both bounds, and the exact loss over epsilon.
    """
    rows = []
    for seed in range(pairs):
        rng = np.random.default_rng([7, seed])
        X, y, epsilon, lam = records(rng)
        i, d, X2, y2 = rng.integers(len(y)), X.shape[1], X.copy(), y.copy()
        X2[i] = (rng.random(d), rng.integers(0, 2, d), X[i])[seed % 3]
        y2[i] = -np.sign(y[i]) if seed % 2 else rng.uniform(-1, 1)
        m, m2 = (output_perturbation(X_, y_, epsilon, lam) for X_, y_ in ((X, y), (X2, y2)))
        loss = float(ridge_pair_loss(m.theta, m2.theta, m.noise_rate))
        sharper = sensitivity_constant(lam, np.sqrt(d), "sharp")
        distance = loss / m.noise_rate / m.weights[i]
        rows.append([lam, distance / m.constant, distance / sharper, loss / epsilon[i]])
    return pd.DataFrame(rows, columns=["penalty", "paper", "sharper", "loss"])


def largest_by_penalty(pairs: pd.DataFrame) -> pd.DataFrame:
    """Largest entries of :func:`pair_search` by bands of the penalty."""
    names = ["up to 0.1", "0.1 to 1", "1 to 10", "10 to 100", "above 100"]
    bands = pd.cut(pairs["penalty"], [0, 0.1, 1, 10, 100, 1e4], labels=names)
    largest = pairs.groupby(bands, observed=True)[["paper", "sharper", "loss"]].max().rename_axis("λ")
    return largest.rename(
        columns={"paper": "distance / paper's bound", "sharper": "distance / sharper bound", "loss": "loss / ε"}
    ).round(4)


def two_minimisers(pairs: int = 2000) -> float:
    """Largest distance of two minimisers over the bound of the lemma, on random quadratics."""
    ratios = []
    for seed in range(pairs):
        rng = np.random.default_rng([8, seed])
        d, gamma = int(rng.integers(1, 8)), 10 ** rng.uniform(-2, 2)
        A, C = rng.standard_normal((2, d, d)) * 10 ** rng.uniform(-2, 1)
        P, Q = (V @ V.T + gamma * np.eye(d) for V in (A, C))  # Hessians of G and G + g
        a, b = rng.standard_normal((2, d))
        one, two = np.linalg.solve(Q, b), np.linalg.solve(P, a)
        ratios.append(np.linalg.norm(one - two) * gamma / np.linalg.norm((Q - P) @ one - b + a))
    return float(max(ratios))


# --- the guarantee ----------------------------------------------------------------------------------------------------


def four_people() -> tuple[Array, Array, Array]:
    """Features (4, 12), labels and privacy losses: three all zero; one accepts 0.1 and has features and label 1."""
    X, y, epsilon = np.zeros((4, 12)), np.zeros(4), np.array([0.1, 1, 1, 1])
    X[0] = y[0] = 1.0
    return X, y, epsilon


def turned(penalty: float) -> tuple[OutputPerturbation, OutputPerturbation]:
    """The mechanism on :func:`four_people`, and after the one label that is not 0 has turned to -1."""
    X, y, epsilon = four_people()
    return output_perturbation(X, y, epsilon, penalty), output_perturbation(X, -y, epsilon, penalty)


def turned_share(penalty: float) -> float:
    """Share of her privacy loss that turning the label uses, exactly."""
    one, two = turned(penalty)
    return float(ridge_pair_loss(one.theta, two.theta, one.noise_rate)) / 0.1


@dataclass(frozen=True)
class DensityRatio:
    """Log density ratios of the pair :func:`turned` at penalty 100, over her epsilon.

    Attributes
    ----------
    highest : at 20,000 releases
    ray : at three outcomes on the ray, where it is largest
    unspent : largest error of Lemma C.5's formula for eps_i on 150 data sets, relative
    """

    highest: float
    ray: Array
    unspent: float

    @property
    def right(self) -> bool:
        """Whether no outcome exceeds the promise, the ratio is constant on the ray and the formula gives eps_i."""
        return self.highest <= EXACT and float(np.ptp(self.ray)) < 1e-8 and self.unspent < 1e-12


def density_ratio() -> DensityRatio:
    """Compare densities at outcomes, and type Lemma C.5 as printed."""
    m, m2 = turned(100)
    z = m.noise_rate * (m.release(rng=np.random.default_rng(9), size=20_000) - m.theta)  # noise of rate 1
    gap = m.noise_rate * (m.theta - m2.theta)
    high, ray = (
        (noise.log_density(o, 1.0) - noise.log_density(o + gap, 1.0)) / 0.1 for o in (z, np.outer([0, 1, 50], gap))
    )
    promise = []
    for seed in range(150):
        X, y, epsilon, lam = records(np.random.default_rng([11, seed]))
        m, root = output_perturbation(X, y, epsilon, lam), np.sqrt(X.shape[1])
        B = min(1 / np.sqrt(lam), root / lam)
        promise.append(2 * m.weights * m.noise_rate * root / lam * (root * B + 1) / epsilon)
    return DensityRatio(float(high.max()), ray, float(np.abs(np.concatenate(promise) - 1).max()))


def meter(X: Array, y: Array, epsilon: Array, mechanism: OutputPerturbation) -> float:
    """Worst loss over epsilon that the search finds, for a mechanism whose weights and noise may be wrong."""
    losses = privacy_losses(mechanism, X, y, restarts=1, rng=np.random.default_rng(10))
    return float((losses.found / epsilon).max())


def planted_bugs() -> pd.DataFrame:
    """What the meter reads on :func:`four_people`: correct, and with three faults."""
    (X, y, epsilon), readings = four_people(), {}
    for lam in (1, 10_000):
        m = output_perturbation(X, y, epsilon, lam)
        readings[f"λ = {lam}"] = {
            "correct": meter(X, y, epsilon, m),
            "half the noise": meter(X, y, epsilon, replace(m, noise_rate=2 * m.noise_rate)),
            "uniform weights": meter(X, y, epsilon, replace(m, weights=np.full(4, 0.25))),
            "a root of d forgotten": meter(X, y, epsilon, replace(m, noise_rate=12**0.5 * m.noise_rate)),
        }
    return pd.DataFrame(readings)


def worst_of_searches(sets: int = 150) -> float:
    """Worst reading of the meter on correct code."""
    worst = 0.0
    for seed in range(sets):
        X, y, epsilon, lam = records(np.random.default_rng([11, seed]))
        worst = max(worst, meter(X, y, epsilon, output_perturbation(X, y, epsilon, lam)))
    return worst


@dataclass(frozen=True)
class Guarantee:
    """Losses over epsilon on correct code, and what the meter reads with planted bugs.

    Attributes
    ----------
    pairs, searched, turned : largest in :func:`pair_search`, in 150 searches, and of a label turned
    bugs : DataFrame of :func:`planted_bugs`
    """

    pairs: float
    searched: float
    turned: float
    bugs: pd.DataFrame

    @property
    def worst(self) -> float:
        """The largest loss over epsilon on correct code."""
        return max(self.pairs, self.searched, self.turned)

    @property
    def least_bug(self) -> float:
        """The least reading of a planted bug at the penalty 10,000."""
        return float(self.bugs["λ = 10000"].drop("correct").min())

    @property
    def kept(self) -> bool:
        """Whether no loss exceeds the promise and every bug is seen."""
        return self.worst <= EXACT < self.least_bug


def guarantee(pairs: pd.DataFrame) -> Guarantee:
    """Search for losses beyond the promise, and plant bugs; `pairs` is from :func:`pair_search`."""
    shares = [turned_share(penalty) for penalty in (1, 10, 100, 1e4)]
    return Guarantee(float(pairs["loss"].max()), worst_of_searches(), max(shares), planted_bugs())


# --- what personal privacy saves --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoiseSaved:
    """Noise of PDP-OP and of its non-personalised baseline, 400 draws of the default groups.

    Attributes
    ----------
    z, limit : score of the difference between both mean squared noises times S squared, and what chance allows
    low, middle, high : factor by which the noise power falls, 5, 50 and 95 % quantile
    always : whether it falls in every draw
    """

    z: float
    limit: float
    low: float
    middle: float
    high: float
    always: bool

    @property
    def in_proportion(self) -> bool:
        """Whether the noise power is in proportion to 1 / S^2 and personal privacy always saves some."""
        return abs(self.z) < self.limit and self.always


def noise_saved() -> NoiseSaved:
    """Release noise alone with both rates."""
    rng, power, scaled = np.random.default_rng(12), [], []
    X, y = np.zeros((80, 2)), np.zeros(80)  # the estimate is 0, so a release is noise
    for _ in range(400):
        epsilon = PrivacyGroups().draw(80, rng=rng)
        sums = epsilon.sum(), 80 * epsilon.min()
        power.append((sums[0] / sums[1]) ** 2)
        for eps, S in zip((epsilon, np.full(80, epsilon.min())), sums, strict=True):
            Z = output_perturbation(X, y, eps, 1.0).release(rng=rng, size=500)
            scaled.append((Z**2).sum(1) * S**2)
    ours, strict = np.reshape(scaled, (400, 2, 500)).swapaxes(0, 1).reshape(2, -1)
    z = (ours.mean() - strict.mean()) / np.sqrt((ours.var() + strict.var()) / ours.size)
    low, middle, high = map(float, np.quantile(power, [0.05, 0.5, 0.95]))
    return NoiseSaved(float(z), float(stats.norm.isf(FALSE_ALARM / 2)), low, middle, high, min(power) > 1)


@dataclass(frozen=True)
class KnownBound:
    """Noise with a known norm bound B against noise without: the criterion B < B(lambda) in so many of all cases.

    Attributes
    ----------
    right, cases : cases in which there is less noise exactly when the criterion holds, and all of them
    first, last : noise power saved for d = 12, B = 1 at the penalties 1e-4 and 1e3
    falls : whether it falls in between
    """

    right: int
    cases: int
    first: float
    last: float
    falls: bool

    @property
    def as_said(self) -> bool:
        """Whether the criterion is exact, and small penalties gain most."""
        return self.right == self.cases and self.falls


def known_bound() -> KnownBound:
    """Compare the two sensitivity constants."""
    agree, gain = [], []
    for d in (1, 12, 30):
        for B in (0.3, 1.0, 3.0):
            for lam in np.logspace(-4, 3, 30):
                usual = sensitivity_constant(lam, np.sqrt(d))
                known = sensitivity_constant(lam, np.sqrt(d), norm_bound=B)
                agree.append((known < usual) == (min(lam**-0.5, np.sqrt(d) / lam) > B))
                gain += [(usual / known) ** 2] if (d, B) == (12, 1.0) else []
    return KnownBound(sum(agree), len(agree), gain[0], gain[-1], bool((np.diff(gain) < 0).all()))
