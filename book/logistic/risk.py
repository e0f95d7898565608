"""What the page on the accuracy bound runs: constants of the proofs, coverage, weights compared, both figures.

All laws of records are made up here: :func:`separable` is that of the papers' synthetic experiments, in the unit ball.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize, stats

from hdpm_book.ledger import FALSE_ALARM
from hdpm_book.logistic.excess_risk import (
    ExcessRisk,
    choose_weights,
    printed_constants,
    proof_constants,
    shorter_constants,
    survival_inverse,
    weights_for_losses,
)
from hdpm_book.logistic.formulas import perturbed_objective
from hdpm_book.logistic.joint_objective import JointObjective, joint_objective
from hdpm_lib.learners.logistic import objective_perturbation
from hdpm_lib.markets.procurement import procure
from hdpm_lib.noise import spherical_laplace
from hdpm_lib.spread import each

Array = NDArray[np.float64]
Constants = Callable[[float, int, float, float], ExcessRisk]

PROOFS: dict[str, Constants] = {
    "printed": printed_constants,
    "as written": proof_constants,
    "shorter": shorter_constants,
}
LOG2 = float(np.log(2))


def separable(m: int, n: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Gaussian inputs in the unit ball, labels of a separator through the origin, and the separator."""
    truth, X = rng.standard_normal(n), rng.standard_normal((m, n))
    X /= np.maximum(np.sqrt(n) + 2, np.linalg.norm(X, axis=1))[:, None]
    return X, np.sign(X @ truth), truth / np.linalg.norm(truth)


def exact_error(w: Array, truth: Array) -> Array:
    """Exact probability of a wrong sign under the law of :func:`separable`."""
    return np.asarray(np.arccos(np.clip(w @ truth / np.linalg.norm(w, axis=-1), -1, 1)) / np.pi)


def _scores(moved: Array) -> Array:
    """Means over runs, the first axis, in standard errors."""
    return np.asarray(moved.mean(0) / (moved.std(0, ddof=1) / np.sqrt(len(moved))))


# --- the bound --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoiseLength:
    """The printed sum for the noise's norm against the Gamma quantile and against noise."""

    off: float
    """Largest relative distance of the sum at the quantile from the probability."""
    falls: bool
    z: float
    """Largest distance of a frequency from 0.05, in standard errors."""
    limit: float

    @property
    def holds(self) -> bool:
        """Inverse, falling, and as frequent as promised."""
        return self.off < 1e-9 and self.falls and self.z < self.limit


def noise_length(draws: int = 100_000) -> NoiseLength:
    """Check J's Eq. (27) for 1, 5 and 30 features."""
    off, steps, rare = [], [], []

    def v(t: float, n: int) -> float:
        """The printed sum."""
        factorials = np.r_[1, np.arange(1, n)].cumprod(dtype=float)
        return float(np.exp(-t / 2) * ((t / 2) ** np.arange(n) / factorials).sum())

    for n in (1, 5, 30):
        steps.append(np.diff([v(t, n) for t in np.linspace(n, 4 * n, 200)]).max())
        off += [abs(v(survival_inverse(tail, n), n) / tail - 1) for tail in (0.001, 0.05, 0.5)]
        noise = spherical_laplace(n, 3.5, rng=np.random.default_rng([1, n]), size=draws)
        longer = np.linalg.norm(noise, axis=1) > survival_inverse(0.05, n) / 7
        rare.append((longer.mean() - 0.05) / np.sqrt(0.05 * 0.95 / draws))
    limit = float(stats.norm.isf(FALSE_ALARM / 6))
    return NoiseLength(max(off), bool(max(steps) < 0), float(np.abs(rare).max()), limit)


@dataclass(frozen=True)
class EqualRecords:
    """The bound where all records are equal and the coefficients are slightly on the wrong, or the right, side."""

    table: pd.DataFrame
    natural_fails: bool
    """With the natural logarithm the bound falls below the error, 1, at the larger number of records."""
    two_sided_fails: bool
    """The objective to base 2 exceeds the error, 0, by more than the excess risk there."""


def equal_records() -> EqualRecords:
    """Evaluate both forms of the bound for three norms of the coefficients and two numbers of records."""
    rows, natural_fails, two_sided_fails = {}, [], []
    for beta in (0.1, 1.0, 5.0):
        for m in (10**3, 10**5):
            a, margin = np.full(m, 1 / m), beta * 1e-6  # the same for all records
            natural, base2 = (printed_constants(beta, 1, 0.1, 0.1, log_base=base)(a, 1e9) for base in (np.e, 2))
            bound = np.logaddexp(0, margin) + natural
            objective = np.logaddexp(0, -margin) / LOG2
            rows[f"β = {beta:g}, m = {m:,}"] = [bound, objective, base2]
        natural_fails.append(bool(bound < 1))
        two_sided_fails.append(bool(objective > base2))
    columns = ["bound (ln), error 1", "objective (log2), error 0", "excess risk"]
    table = pd.DataFrame(rows, index=columns).T.map("{:.3f}".format)
    return EqualRecords(table, all(natural_fails), all(two_sided_fails))


@dataclass(frozen=True)
class Compared:
    """Constants of the printed theorem, of its proof as written, and of the shorter proof."""

    table: pd.DataFrame
    shorter_until: float
    """Largest delta at which the printed constants are at least those of the shorter proof."""
    written_until: float


def compared() -> Compared:
    """Compare the constants over six decades of the norm bound."""

    def ahead(delta: float, other: Constants) -> float:
        """Smallest ratio of a printed constant to another proof's."""
        pairs = [
            (printed_constants(beta, 5, delta, 0.1), other(beta, 5, delta, 0.1)) for beta in 10.0 ** np.arange(-3, 3.0)
        ]
        return float(min(min(p.mu / o.mu, p.sigma / o.sigma) for p, o in pairs))

    shorter, written = (
        float(optimize.brentq(lambda delta, other=other: ahead(delta, other) - 1, 0.01, 0.9))
        for other in (shorter_constants, proof_constants)
    )
    rows = {}
    for beta in (1, 5, 10):
        found = [constants(beta, 30, 0.05, 0.05) for constants in PROOFS.values()]
        rows[f"β = {beta}"] = [f"{x:.3g}" for x in (*(c.mu for c in found), *(c.sigma for c in found))]
    names = [f"{letter}, {proof}" for letter in "μσ" for proof in PROOFS]
    return Compared(pd.DataFrame(rows, index=names).T, shorter, written)


@dataclass(frozen=True)
class Coverage:
    """Gap between error and objective against the excess risk, under two laws of the records."""

    table: pd.DataFrame
    covered: bool
    """Violations are certainly rarer than promised, and the printed bound is never violated."""


def coverage() -> Coverage:
    """Look at 2,000 samples of a law on two points, at all coefficients, and at 300 separable ones, at the released."""
    rng = np.random.default_rng(2)
    gaps = [_two_points(rng, 2000, 3.0, 100.0, 60), _released(rng, 300, 5, 200, 5.0, 200.0)]
    covered, rows = True, {}
    for law, (gap, printed, shorter) in zip(("first law", "second law"), gaps, strict=True):
        count = int((gap > shorter).sum())
        at_most = stats.binomtest(count, len(gap)).proportion_ci(1 - 2 * FALSE_ALARM).high
        covered &= bool(at_most < 0.0975 and (gap <= printed).all())
        parts = [f"{count} of {len(gap)}", f"{at_most:.3f}", f"{gap.max():.2f}"]
        rows[law] = [*parts, f"{shorter:.2f}", f"{printed:.2f}"]
    columns = ["violations", "so at most", "largest gap", "excess risk, shorter", "printed"]
    return Coverage(pd.DataFrame(rows, index=columns), covered)


def _two_points(rng: np.random.Generator, draws: int, beta: float, eta: float, m: int) -> tuple[Array, float, float]:
    """One feature, 1 or 0, and a label that is 1 with probability 0.7: largest gap over 301 coefficients."""
    a, grid = choose_weights(rng.lognormal(0, 1, m), 1.0)[0], np.linspace(-beta, beta, 301)
    x, label = rng.random((draws, m)) < 0.5, rng.random((draws, m)) < 0.7
    noise = spherical_laplace(1, eta / 2, rng=rng, size=draws)
    losses = np.logaddexp(0, [-grid, grid, 0 * grid]) / LOG2
    shares = np.stack([(x & label) @ a, (x & ~label) @ a, ~x @ a], axis=1)
    error = 0.5 + 0.5 * np.where(grid > 0, 0.3, np.where(grid < 0, 0.7, 1.0))
    gap = (error - shares @ losses - noise * grid).max(1)
    printed, shorter = (float(c(beta, 1, 0.05, 0.05)(a, eta)) for c in (printed_constants, shorter_constants))
    return gap, printed, shorter


def _released(
    rng: np.random.Generator, draws: int, n: int, m: int, beta: float, eta: float
) -> tuple[Array, float, float]:
    """Separable records: the gap at the minimiser to base 2, shortened to the norm bound."""
    gap = np.empty(draws)
    for k in range(draws):
        X, y, truth = separable(m, n, rng)
        a = choose_weights(rng.lognormal(0, 1, m), 4.0)[0]
        model = objective_perturbation(X, y, a / LOG2, eta, 0.01)  # base 2
        b = spherical_laplace(n, eta / 2, rng=rng)
        w = model.minimise(b)
        w *= np.minimum(1, beta / np.linalg.norm(w))
        gap[k] = exact_error(w, truth) - perturbed_objective(model, w, b)
    printed, shorter = (float(c(beta, n, 0.05, 0.05)(a, eta)) for c in (printed_constants, shorter_constants))
    return gap, printed, shorter


@dataclass(frozen=True)
class ChosenByData:
    """The least bound over coefficients, weights and rate where labels are fair coins and the error is one half."""

    samples: int
    bound: float
    """The largest of the least bounds of the samples, from above."""
    weight: float
    """The largest weight, times the number of records."""


def chosen_by_data(samples: int = 50, beta: float = 3.0, m: int = 20_000, penalty: float = 0.001) -> ChosenByData:
    """Put weight on the records of the majority."""
    constants, values, most = printed_constants(beta, 1, 0.05, 0.05), [], []
    for seed in range(samples):
        rng = np.random.default_rng([3, seed])
        y, b = rng.choice([-1, 1], m), spherical_laplace(1, 1.0, rng=rng)[0]
        w = beta * np.sign(y.sum())
        losses, sigma = np.logaddexp(0, -y * w) / LOG2, float(constants.sigma + 2 * b * w)
        a, eta = weights_for_losses(np.full(m, 10.0), losses, constants.mu, sigma)
        value = a @ losses + constants.mu * np.linalg.norm(a) + sigma / eta
        values.append(float(value + penalty / 2 * w**2))
        most.append(float(m * a.max()))
    return ChosenByData(samples, max(values), max(most))


def best_possible(constants: Constants, m: float) -> float:
    """Least bound over the norm of the coefficients, without noise and with every margin at its best."""

    def at(beta: float) -> float:
        loss = np.logaddexp(0, -beta) / LOG2
        return float(loss + constants(beta, 30, 0.05, 0.05).mu / np.sqrt(m))

    return float(optimize.minimize_scalar(at, bounds=(0.01, 30), method="bounded").fun)


def records_needed(constants: Constants) -> int:
    """Number of records from which on the best possible bound is below one half."""
    return int(np.ceil(optimize.brentq(lambda m: best_possible(constants, m) - 0.5, 10, 1e6)))


def worth() -> pd.DataFrame:
    """At 455 records: what the first term is at least, and the mean privacy loss at which the second is one half."""
    rows = {}
    for name in ("printed", "shorter"):
        for beta in (1, 5, 10):
            c = PROOFS[name](beta, 30, 0.05, 0.05)
            rows[f"{name}, β = {beta}"] = [c.mu / np.sqrt(455), 2 * c.sigma / 455]
    columns = ["least μ‖a‖", "ε_avg for σ/η = ½"]
    return pd.DataFrame(rows, index=columns).T.map("{:.3g}".format)


# --- weights and penalty ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choices:
    """Test errors under three choices of weights and noise, for three kinds of requirements."""

    table: pd.DataFrame
    z: float
    """Smallest gain of least excess risk over equal weights, in standard errors."""
    limit: float
    always_larger: bool
    """The excess risk of equal weights is larger on every data set."""


def choices(m: int = 200, n: int = 5, sets: int = 40) -> Choices:
    """Train with equal weights, those of least excess risk, and weights proportional to the requirements."""
    theory = shorter_constants(5.0, n, 0.05, 0.05)
    laws: dict[str, Callable[[np.random.Generator], Array]] = {
        "uniform [0.5, 2]": lambda rng: rng.uniform(0.5, 2, m),
        "log-normal": lambda rng: rng.lognormal(0, 1, m),
        "10% 0.1, rest 3": lambda rng: np.where(rng.random(m) < 0.1, 0.1, 3.0),
    }
    rows, z, lower = {}, [], True
    for k, (name, law) in enumerate(laws.items()):
        errors, risks = np.zeros((sets, 3)), np.zeros((sets, 3))
        for s in range(sets):
            rng = np.random.default_rng([4, k, s])
            (X, y, truth), eps = separable(m, n, rng), law(rng)
            unit = spherical_laplace(n, 0.5, rng=rng, size=20)
            pairs = [(np.full(m, 1 / m), float(m * eps.min()))]
            pairs += [choose_weights(eps, r) for r in (theory.sigma / theory.mu, np.inf)]
            for j, (a, eta) in enumerate(pairs):
                w = objective_perturbation(X, y, a, eta, 0.01).minimise(unit / eta)
                errors[s, j], risks[s, j] = exact_error(w, truth).mean(), theory(a, eta)
        z.append(float(_scores(errors[:, 0] - errors[:, 1])))
        lower &= bool((risks[:, 1] < risks[:, 0]).all())
        rows[name] = [*errors.mean(0), errors.std(0, ddof=1).max() / np.sqrt(sets), *risks.mean(0)]
    kinds = ("equal", "least excess risk", "∝ ε")
    index = [f"error, {kind}" for kind in kinds] + ["standard error, at most"]
    index += [f"excess risk, {kind}" for kind in kinds]
    table = pd.DataFrame(rows, index=index).map("{:.3g}".format)
    return Choices(table, min(z), float(stats.norm.isf(FALSE_ALARM / 3)), lower)


@dataclass(frozen=True)
class Norms:
    """How often the minimiser leaves the ball of the problem statement."""

    table: pd.DataFrame
    needed: float
    """Penalty that keeps it there with probability 0.95."""
    at_least: float
    """Proved probability of leaving at the smallest penalty tried."""
    inside: bool
    """Simulated shares agree with both bounds."""
    largest: float
    """Largest ratio of penalty times norm to one plus the norm of the noise."""


def norms(beta: float = 5.0, eta: float = 20.0, draws: int = 1000, m: int = 200, n: int = 5) -> Norms:
    """Simulate the norm of the minimiser for five penalties."""
    survival = stats.gamma(n, scale=2).sf  # v
    needed = (1 + survival_inverse(0.05, n) / eta) / beta
    rows, inside, ratios = {}, True, []
    for penalty in (0.05, 0.1, 0.2, 0.3, needed):
        X, y, _ = separable(m, n, np.random.default_rng([5, 0]))
        noise = spherical_laplace(n, eta / 2, rng=np.random.default_rng([5, 1]), size=draws)
        model = objective_perturbation(X, y, np.full(m, 1 / m), eta, penalty)
        length = np.linalg.norm(model.minimise(noise), axis=1)
        ratios.append((penalty * length / (1 + np.linalg.norm(noise, axis=1))).max())
        low, high = survival(eta * (1 + penalty * beta)), survival(max(eta * (penalty * beta - 1), 0))
        count = int((length > beta).sum())
        interval = stats.binomtest(count, draws).proportion_ci(1 - FALSE_ALARM / 5)
        inside &= bool(interval.low <= high and interval.high >= low)
        still = np.linalg.norm(model.minimise(np.zeros(n)))
        rows[f"Λ = {penalty:.3f}"] = [low, count / draws, high, still]
    columns = ["lower bound", "simulated", "upper bound", "norm without noise"]
    table = pd.DataFrame(rows, index=columns).T.map("{:.2g}".format)
    return Norms(table, needed, float(rows["Λ = 0.050"][0]), inside, float(max(ratios)))


@dataclass(frozen=True)
class Labels:
    """Records of which half have labels that are wrong four times in ten."""

    pointwise: bool
    """The step of the proof holds on a grid of margins, for flip probabilities up to one half."""
    flipped: float
    """Mean loss of coefficients that always err, where 90 % of the labels are flipped."""
    violations: int
    releases: int
    errors: tuple[float, float]
    """Mean test error with equal weights and with weights by reliability."""
    z: float
    """Their difference, in standard errors."""

    @property
    def holds(self) -> bool:
        """Covered up to one half, not beyond, and the weights help."""
        covered = self.pointwise and self.violations == 0
        return covered and self.flipped < 1 and self.z > float(stats.norm.isf(FALSE_ALARM))


def labels(n: int = 5, sets: int = 40) -> Labels:
    """Check the step of the proof, and train with equal weights and with weights by reliability."""
    z = np.linspace(-20, 20, 4001)
    losses = np.logaddexp(0, [-z, z]) / LOG2
    pointwise = min(((1 - r) * losses[0] + r * losses[1] - (z <= 0)).min() for r in np.linspace(0, 0.5, 101))
    at = np.searchsorted(z, 3)
    flip, errors, broken = np.repeat([0.0, 0.4], 200), np.zeros((sets, 2)), 0
    bound = shorter_constants(5.0, n, 0.05, 0.05)
    for k in range(sets):
        rng = np.random.default_rng([6, k])
        X, y, truth = separable(400, n, rng)
        y = np.where(rng.random(400) < flip, -y, y)
        noise = spherical_laplace(n, 200.0, rng=rng, size=15)
        for j, a in enumerate((np.ones(400), 1 - 2 * flip)):
            model = objective_perturbation(X, y, a / a.sum(), 400.0, 0.01)
            w = model.minimise(noise)
            errors[k, j] = exact_error(w, truth).mean()
            w *= np.minimum(1, 5 / np.linalg.norm(w, axis=1, keepdims=True))
            excess = bound.mu * np.linalg.norm(model.weights) + bound.sigma / LOG2 / 400
            broken += int((exact_error(w, truth) > perturbed_objective(model, w, noise) / LOG2 + excess).sum())
    equal, weighted = errors.mean(0)
    return Labels(
        bool(pointwise >= -1e-12),
        float(0.9 * losses[0, at] + 0.1 * losses[1, at]),
        broken,
        sets * 2 * 15,
        (float(equal), float(weighted)),
        float(_scores(errors[:, 0] - errors[:, 1])),
    )


@dataclass(frozen=True)
class Monotone:
    """What each weight of the objective moves, on random markets."""

    markets: int
    wrong: float
    """Largest step the wrong way."""
    norm: float
    """With large mu and sigma: distance of the norm from its least value, relative."""
    noise: float
    """And one over the rate."""

    @property
    def holds(self) -> bool:
        """No step the wrong way, and the limit is near."""
        return self.wrong < 1e-9 and max(self.norm, self.noise) < 0.01


def monotone(markets: int = 50) -> Monotone:
    """Vary each weight over six decades with the exact solver."""
    grid, steps, ends = 10.0 ** np.linspace(-3, 3, 13), [], []
    for k in range(markets):
        rng = np.random.default_rng([7, k])
        psi = rng.uniform(0.2, 2.2, rng.integers(2, 60))
        bought = [procure(psi, 1.0, 1.0, g) for g in grid]
        paid = [p.privacy_loss @ psi for p in bought]
        risk = [np.linalg.norm(p.weights) + 1 / p.eta for p in bought]
        even = [np.linalg.norm(procure(psi, u, 1.0, 1.0).weights) for u in grid]
        rates = [procure(psi, 1.0, u, 1.0).eta for u in grid]
        both = procure(psi, 1e6, 1e6, 1.0)
        steps.append([move.max() for move in (np.diff(paid), -np.diff(risk), np.diff(even), -np.diff(rates))])
        ends.append([np.linalg.norm(both.weights) * np.sqrt(len(psi)) - 1, 1 / both.eta])
    norm, noise = np.max(ends, axis=0)
    return Monotone(markets, float(np.max(steps)), float(norm), float(noise))


# --- the papers' synthetic figures ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MuRuns:
    """Errors and weighted loss against mu, with weights and coefficients chosen together or apart.

    `seen` has the axes reading, run, mu, and test error, training error, weighted loss, eta over m.
    """

    mus: Array
    seen: Array

    def curve(self, part: int) -> dict[str, Array]:
        """Means over the runs, by reading."""
        return {name: self.seen[k, :, :, part].mean(0) for k, name in enumerate(("together", "apart"))}

    def band(self, part: int) -> dict[str, Array]:
        """Two standard errors on either side."""
        spread = {}
        for k, name in enumerate(("together", "apart")):
            error = self.seen[k, :, :, part].std(0, ddof=1) / np.sqrt(self.seen.shape[1])
            spread[name] = self.curve(part)[name] + np.outer([-2, 2], error)
        return spread

    def change(self, reading: int, part: int, start: int, end: int) -> float:
        """Mean change from one mu to another, in standard errors of paired runs."""
        return float(_scores(self.seen[reading, :, end, part] - self.seen[reading, :, start, part]))


@dataclass(frozen=True)
class MuTrends:
    """Changes along mu, in standard errors."""

    fall: float
    """The smaller of the falls of test and training error, together, from mu = .1 to 10; negative."""
    rise: float
    """The smaller of their rises from there to 1e4."""
    loss: float
    """The smallest rise of the weighted loss from one mu to the next."""
    apart: float
    """Change of the test error if chosen apart, from mu = .1 to 10."""
    limit: float

    @property
    def as_in_print(self) -> bool:
        """The curve appears together, and not apart."""
        return self.fall < -self.limit and min(self.rise, self.loss) > self.limit and self.apart > -self.limit


def mu_runs(runs: int = 36, m: int = 200, n: int = 5) -> MuRuns:
    """Train on new data, requirements and noise in each run, for six values of mu."""
    mus = np.asarray(10.0 ** np.arange(-1, 5), dtype=float)
    seen = each(_mu_run, range(runs), mus, m, n)
    return MuRuns(mus, np.moveaxis(np.array(seen), 1, 0))


def _mu_run(seed: int, mus: Array, m: int, n: int) -> Array:
    """One run, of shape (2, values of mu, 4)."""
    seen, sigma, rng = np.zeros((2, len(mus), 4)), 5 * survival_inverse(1e-6, n), np.random.default_rng([9, seed])
    X, y, truth = separable(m, n, rng)
    eps, b = 3 * rng.lognormal(0, 1, m), spherical_laplace(n, 1.0, rng=rng)
    for j, mu in enumerate(mus):
        f = joint_objective(X, y, b, np.zeros(m), mu=mu, penalty=0.01, sigma=sigma, gamma=0.0, radius=5.0)
        apart = choose_weights(eps, sigma / mu)
        fits = _in_turn(f, eps), (f.best_coefficients(*apart), *apart)
        for k, (w, a, eta) in enumerate(fits):
            train = (np.sign(X @ w) != y).mean()
            seen[k, j] = exact_error(w, truth), train, a @ f.losses(w), eta / m
    return seen


def _in_turn(f: JointObjective, eps: Array) -> tuple[Array, Array, float]:
    """Coefficients and weights, each improved for the other, from weights that ignore the data."""
    (a, eta), value = choose_weights(eps, f.sigma / f.mu), np.inf
    while True:
        w = f.best_coefficients(a, eta)
        new = float(f.value(w, a, eta))
        if new > value - 1e-4:
            return w, a, eta
        value = new
        a, eta = weights_for_losses(eps, f.losses(w), f.mu, float(f.over_eta(w)))


def mu_trends(runs: MuRuns) -> MuTrends:
    """Do the errors fall and then rise, and does the loss rise, as in the papers' figure?"""
    falls, rises = ([runs.change(0, part, *ends) for part in (0, 1)] for ends in ((0, 2), (2, 5)))
    loss = min(runs.change(0, 2, j, j + 1) for j in range(5))
    limit = float(stats.norm.isf(FALSE_ALARM / 10))
    return MuTrends(max(falls), min(rises), loss, runs.change(1, 0, 0, 2), limit)


@dataclass(frozen=True)
class EtaRuns:
    """Errors with equal weights by average requirement; `errors` has the axes run, requirement, test or training."""

    grid: Array
    errors: Array

    @property
    def curves(self) -> dict[str, Array]:
        """Means over the runs."""
        return dict(zip(("test error", "training error"), self.errors.mean(0).T, strict=True))

    @property
    def bands(self) -> dict[str, Array]:
        """Two standard errors on either side."""
        spread = self.errors.std(0, ddof=1) / np.sqrt(len(self.errors))
        return {name: curve + np.outer([-2, 2], spread[:, k]) for k, (name, curve) in enumerate(self.curves.items())}

    @property
    def limit(self) -> float:
        """Standard errors that a step must fall by."""
        return float(stats.norm.isf(FALSE_ALARM / 18))

    @property
    def steps(self) -> Array:
        """Changes from one requirement to the next, in standard errors."""
        return _scores(np.diff(self.errors, axis=1))

    @property
    def falls(self) -> bool:
        """No step rises, at least 12 of 16 fall, and both errors fall from end to end."""
        total = _scores(self.errors[:, -1] - self.errors[:, 0]).max()
        z = self.steps
        return bool(z.max() < self.limit and total < -self.limit and (z < -self.limit).sum() >= 12)


def eta_runs(runs: int = 30, m: int = 300, n: int = 10) -> EtaRuns:
    """Train with equal weights and fifteen noise draws on new data in each run."""
    grid = 10.0 ** np.linspace(-2, 2, 9)
    errors = np.zeros((runs, len(grid), 2))
    for s in range(runs):
        rng = np.random.default_rng([10, s])
        X, y, truth = separable(m, n, rng)
        unit = spherical_laplace(n, 0.5, rng=rng, size=15)
        for j, eta in enumerate(m * grid):
            w = objective_perturbation(X, y, np.full(m, 1 / m), eta, 0.01).minimise(unit / eta)
            errors[s, j] = exact_error(w, truth).mean(), (np.sign(w @ X.T) != y).mean()
    return EtaRuns(grid, errors)
