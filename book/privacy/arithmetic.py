"""Attacks on the last digits of releases, and what is left of them where noise lies on a lattice."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special, stats

from hdpm_book.privacy import digits
from hdpm_book.privacy.guesses import bit_test, either, log_ratio
from hdpm_book.privacy.laws import lattice_law
from hdpm_lib import discrete
from hdpm_lib.learners.integer_answers import IntegerSum, grid_gradients, integer_sum
from hdpm_lib.learners.lattice import LatticeRidge, lattice_ridge
from hdpm_lib.learners.logistic import objective_perturbation
from hdpm_lib.learners.ridge import output_perturbation
from hdpm_lib.noise import spherical_laplace
from hdpm_lib.validation import FALSE_ALARM

Array = NDArray[np.float64]
Generator = np.random.Generator
Records = tuple[Array, Array]

PAIRS, LOSSES = ((0.0, 1.0), (0.3, 1.3), (100.0, 101.0)), (0.1, 0.5, 1.0, 3.0)

# --- floating-point noise ---------------------------------------------------------------------------------------------


def model_holds_here() -> bool:
    """Whether this machine draws NumPy's Laplace noise as modelled, bit for bit: 24 times 20,000 draws."""
    return all(
        digits.model_holds(centre, 1 / eps, rng=np.random.default_rng([0, i, k]))
        for i, pair in enumerate(PAIRS)
        for centre in pair
        for k, eps in enumerate(LOSSES)
    )


@dataclass(frozen=True)
class Attacks:
    """Attacks in rows, and how many draws were taken for impossible under their own answer."""

    table: pd.DataFrame
    false_proofs: int


def laplace_attacks() -> Attacks:
    """The attack on NumPy's Laplace noise for three pairs of answers and four privacy losses."""
    rows, false = [], 0.0
    for i, pair in enumerate(PAIRS):
        for k, eps in enumerate(LOSSES):
            found = digits.laplace_attack(pair, eps, rng=np.random.default_rng([2, i, k]))
            false += found.false_proofs * 2 * found.draws
            rows.append(
                {
                    "answers": f"{pair[0]:g} or {pair[1]:g}",
                    "ε": eps,
                    "impossible for the other": _both(found.impossible),
                    "right guesses": f"{found.guess_rate:.2f}",
                    "ε allows": f"{special.expit(eps):.3f}",
                    "ideal noise": f"{1 - np.exp(-eps / 2) / 2:.3f}",
                }
            )
    return Attacks(pd.DataFrame(rows).set_index("answers"), round(false))


def _both(shares: tuple[float, float]) -> str:
    return " / ".join(f"{share:.2f}" for share in shares)


def vector_attacks() -> Attacks:
    """The attack by holes that every sampler leaves, on estimates in several dimensions, and on float32 noise."""
    rows, false = [], 0.0
    for d in (1, 2, 12, 30):
        rng, ends = np.random.default_rng([3, d]), np.full((2, d), 0.4)
        ends[:, 0] = 0.1, 0.9
        noise = spherical_laplace(d, 1.0, rng=rng, size=(2, 20_000))
        outputs, single = ends[:, None] + noise, ends[:, None] + noise.astype(np.float32)
        nearer = [np.linalg.norm(outputs - end, axis=-1) for end in ends]
        possible = np.stack([digits.on_grid(outputs, end).all(-1) for end in ends])
        found = digits.attack(possible, nearer[0] - nearer[1])
        possible = np.stack([digits.on_grid(single, end, np.float32).all(-1) for end in ends])
        worthless = digits.attack(possible, nearer[0] - nearer[1])
        false += found.false_proofs + worthless.false_proofs
        rows.append(
            {
                "d": d,
                "from .1": f"{found.impossible[0]:.2f}",
                "from .9": f"{found.impossible[1]:.2f}",
                "right guesses": f"{found.guess_rate:.2f}",
                "ε allows": f"{special.expit(0.8):.2f}",
                "float32 noise": f"{min(worthless.impossible):.4f}",
            }
        )
    return Attacks(pd.DataFrame(rows).set_index("d"), round(false * 40_000))


def rare_column(rng: Generator) -> tuple[Records, Records]:
    """Two data sets of 200 records: seller 0 alone could have the last feature, and has it in the second."""
    X = rng.uniform(size=(200, 12))
    X[:, -1] = 0
    y = np.clip(X @ rng.normal(size=12) / 3, -1, 1)
    X2, y2 = X.copy(), y.copy()
    X2[0, -1], y[0], y2[0] = 1, -1, 1
    return (X, y), (X2, y2)


@dataclass(frozen=True)
class RidgeHoles:
    """The attack on ridge regressions, and the smaller of the two shares of proofs at each privacy loss."""

    table: pd.DataFrame
    least: tuple[float, ...]
    false_proofs: int


def ridge_holes() -> RidgeHoles:
    """Proofs among 10,000 releases each of two ridge regressions that differ in one record."""
    rng = np.random.default_rng(4)
    data, rows, false, least = rare_column(rng), [], 0.0, []
    for eps in LOSSES:
        pair = [output_perturbation(*records, np.full(200, eps), 0.1, arithmetic="ideal") for records in data]
        outputs = np.stack([m.release(rng=rng, size=10_000) for m in pair])
        flags = np.stack([digits.on_grid(outputs, m.theta) for m in pair])
        score = [np.linalg.norm(outputs - m.theta, axis=-1) for m in pair]
        found = digits.attack(flags.all(-1), score[0] - score[1])
        rare = digits.attack(flags[..., -1], score[0] - score[1])
        false += found.false_proofs
        least.append(min(found.impossible))
        loss = pair[0].noise_rate * np.linalg.norm(pair[0].theta - pair[1].theta)
        rows.append(
            {
                "ε": eps,
                "ideal loss": f"{loss:.3f}",
                "proofs": _both(found.impossible),
                "by the rare column": f"{max(rare.impossible):.3f}",
                "right guesses": f"{found.guess_rate:.2f}",
                "allowed": f"{special.expit(loss):.2f}",
            }
        )
    return RidgeHoles(pd.DataFrame(rows).set_index("ε"), tuple(least), round(false * 20_000))


# --- noise in the objective -------------------------------------------------------------------------------------------


def is_quotient(w: Array, divisor: float) -> NDArray[np.bool_]:
    """Whether some double, divided by the divisor, is rounded to w."""
    b = w * divisor
    near = [b, np.nextafter(b, np.inf), np.nextafter(b, -np.inf)]
    return np.any([x / divisor == w for x in near], axis=0)


@dataclass(frozen=True)
class Quotients:
    """Releases that are no quotient, among `runs` each: if nobody has the feature, and if seller 0 has it."""

    runs: int
    promised: float
    nobody: int
    seller: int

    @property
    def log_ratio_lower(self) -> float:
        """Lower end of the log ratio of the two shares, by exact binomial limits."""
        most = stats.beta.isf(FALSE_ALARM / 2, self.nobody + 1, self.runs - self.nobody)
        least = stats.beta.ppf(FALSE_ALARM / 2, self.seller, self.runs - self.seller + 1)
        return math.log(least / most)


def quotients(runs: int = 10_000) -> Quotients:
    """Releases of a logistic regression with a feature that nobody has, or seller 0 alone."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-0.5, 0.5, (200, 4))
    X[:, 3] = 0
    y = np.where(X[:, 0] + 0.2 * rng.normal(size=200) > 0, 1.0, -1.0)
    X2 = X.copy()
    X2[0] = 0.1, 0.1, 0.1, 0.9
    outside = []
    for features in (X, X2):
        model = objective_perturbation(features, y, np.full(200, 1 / 200), 200.0, 0.01, arithmetic="ideal")
        w = model.release(rng=rng, size=runs)[:, 3]
        outside.append(int((~is_quotient(w, 0.01)).sum()))
    return Quotients(runs, float(model.privacy_loss[0]), *outside)


# --- the random-bit test on digits ------------------------------------------------------------------------------------


def unrounded_tests() -> pd.DataFrame:
    """Does the random-bit test reject floating-point noise, with its score rounded and as it is?"""
    ends = [output_perturbation([[1.0], [0.0]], [label, 0.0], [0.5, 0.5], 1e4) for label in (1, -1)]
    up, down = (float(m.theta[0]) for m in ends)
    cases: dict[str, tuple[float, float, float, Any]] = {
        "sum, 0 or 1": (0.0, 1.0, 0.1, lambda c, rng, n: rng.laplace(c, 10.0, n)),
        "sum, 0.3 or 1.3": (0.3, 1.3, 3.0, lambda c, rng, n: rng.laplace(c, 1 / 3, n)),
        "ridge, d = 1": (up, down, 0.5, _spherical(up, down, 0.5)),
    }
    rows = {}
    for name, (first, second, claim, draw) in cases.items():
        release = either(*(lambda rng, n, c=c, f=draw: f(c, rng, n) for c in (first, second)))
        scores, rejected = [log_ratio(first, second, claim / abs(second - first))], {}
        for kind, kept in (("score rounded", 9), ("score as it is", None)):
            rng = np.random.default_rng(6)
            test = bit_test(release, scores, claim, 50_000, rng=rng, digits=kept)
            rejected[kind] = test.p_value < FALSE_ALARM
        rows[name] = {"claim": claim} | rejected
    return pd.DataFrame(rows).T


def _spherical(first: float, second: float, claim: float) -> Callable[[float, Generator, int], Array]:
    rate = claim / abs(second - first)
    return lambda c, rng, n: c + spherical_laplace(1, rate, rng=rng, size=n)[:, 0]


def lattice_tests() -> pd.Series:
    """Does the random-bit test with unrounded scores reject noise on a lattice?"""
    cases: dict[str, tuple[Any, Any, Any, Any, float]] = {}
    for scale in (10.0, 1 / 3):
        q = integer_sum([1.0, 1.0], scale, levels=1)
        zero, one, loss = [0.0, 0.5], [1.0, 0.5], float(q.privacy_loss[0])
        cases[f"sum, {loss:.2f}"] = _of(q, zero), _of(q, one), q.sum(zero), q.sum(one), loss
    up, down = (lattice_ridge([[1.0], [0.0]], [label, 0.0], [0.5, 0.5], 1e4) for label in (1, -1))
    points = up.spacing * up.point[0], down.spacing * down.point[0]
    cases["ridge, d = 1, 0.50"] = _first_of(up), _first_of(down), *points, 0.5
    rejected = {}
    for name, (first, second, a, b, claim) in cases.items():
        scores, rng = [log_ratio(a, b, claim / abs(b - a))], np.random.default_rng(11)
        test = bit_test(either(first, second), scores, claim, 50_000, rng=rng, digits=None)
        rejected[name] = test.p_value < FALSE_ALARM
    return pd.Series(rejected, name="rejected")


def _of(query: IntegerSum, data: list[float]) -> Callable[[Generator, int], Any]:
    return lambda rng, n: query.release(data, rng=rng, size=n)


def _first_of(model: LatticeRidge) -> Callable[[Generator, int], Any]:
    return lambda rng, n: model.release(rng=rng, size=n)[:, 0]


# --- before and after -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BeforeAfter:
    """The attack on the answers 0 and 1, with NumPy's noise and with whole numbers, by privacy loss.

    Attributes
    ----------
    table : DataFrame
    z : array
        Of the right guesses that were drawn, against those that a list of all steps gives.
    """

    table: pd.DataFrame
    z: Array

    def agrees(self) -> bool:
        """Whether no share of right guesses is further from the list than chance explains."""
        return bool(np.abs(self.z).max() < stats.norm.isf(FALSE_ALARM / 2 / len(self.z)))


def before_and_after(known: bool) -> BeforeAfter:
    """Right guesses with either noise; those of NumPy's only where its model holds."""
    rows, z = {}, []
    for k, eps in enumerate(np.sort(np.append(np.geomspace(0.05, 5, 6), LOSSES))):
        before = digits.laplace_attack((0.0, 1.0), eps, rng=np.random.default_rng([8, k]), draws=6_000)
        query = integer_sum([1.0, 1.0], 1 / eps, levels=1, spacing=1 / 16)
        data, rng = ([0.0, 0.0], [1.0, 0.0]), np.random.default_rng([9, k])
        steps, reach = query.sum(data[1]) - query.sum(data[0]), round(40 / eps) * 16
        law = lattice_law(1, 1 / query.scale, reach)[1]
        laws = law[steps:], law[:-steps]  # of the two answers, at the same outputs
        listed = np.maximum(*laws).sum() / 2
        draws = np.stack([query.release(d, rng=rng, size=20_000) for d in data])
        often = np.flatnonzero(np.minimum(*laws) * 20_000 >= 25)  # expected from each answer
        outputs = query.sum(data[1]) - reach + often
        nearer = [np.abs(draws - query.sum(d)) for d in data]
        drawn = digits.attack(np.ones((2, *draws.shape)), nearer[0] - nearer[1])
        z.append((drawn.guess_rate - listed) / np.sqrt(listed * (1 - listed) / 40_000))
        rows[eps] = {
            "proofs before": before.impossible[0] if known else np.nan,
            "steps missing after": sum(int((~np.isin(outputs, released)).sum()) for released in draws),
            "steps looked at": 2 * len(often),
            "NumPy's noise": before.guess_rate if known else np.nan,
            "whole numbers": listed,
            "ε allows": special.expit(eps),
        }
    return BeforeAfter(pd.DataFrame(rows).T.rename_axis("ε"), np.array(z))


@dataclass(frozen=True)
class LatticeReleases:
    """Releases of ridge regressions on a lattice: are all on it, and are right guesses no more than the loss allows?"""

    releases: int
    on_lattice: bool
    guesses_allowed: bool


def lattice_attack() -> LatticeReleases:
    """The attack on ridge regressions whose noise lies on a lattice."""
    rng, on_lattice, z = np.random.default_rng(10), True, []
    data = rare_column(np.random.default_rng(4))
    for eps in LOSSES:
        pair = [lattice_ridge(*records, np.full(200, eps), 0.1) for records in data]
        outputs = np.stack([m.release(rng=rng, size=2_000) for m in pair])
        on_lattice &= bool((outputs % pair[0].spacing == 0).all())
        score = [np.linalg.norm(outputs - m.spacing * m.point, axis=-1) for m in pair]
        drawn = digits.attack(np.ones((2, 2, 2_000)), score[0] - score[1])
        loss = float(pair[0].rate) * float(np.linalg.norm(pair[0].point - pair[1].point))
        z.append((drawn.guess_rate - special.expit(loss)) / np.sqrt(0.25 / 4_000))
    return LatticeReleases(4_000 * len(z), on_lattice, max(z) < stats.norm.isf(FALSE_ALARM / len(z)))


# --- what it costs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prices:
    """Price of the lattice by spacing, and whether the noise drawn is as large as that says."""

    table: pd.DataFrame
    agrees: bool


def lattice_prices() -> Prices:
    """Factor of the noise, and shares of the promise that sellers still lose, for lattices and for the default one."""
    rng, rows, z = np.random.default_rng(16), [], []
    records = rare_column(np.random.default_rng(4))[0]
    for name, losses in (("all ε = 0.5", np.full(200, 0.5)), ("0.1, 0.5, 3", np.resize([0.1, 0.5, 3], 200))):
        ideal = output_perturbation(*records, losses, 0.1).noise_rate
        for power in (0, -2, -5, -10, -20, None):
            m = lattice_ridge(*records, losses, 0.1, spacing=None if power is None else 2.0**power)
            noise = m.release(rng=rng, size=1_000) - m.spacing * m.point
            size = ideal**2 * (noise**2).sum(1) / (12 * 13)  # 1 on average for spherical noise
            factor = ideal / m.noise_rate
            z.append((size.mean() / factor**2 - 1) / (size.std() / size.mean() / np.sqrt(1_000)))
            rows.append(
                {
                    "sellers": name,
                    "spacing": f"default, 2^{np.log2(m.spacing):.0f}" if power is None else f"2^{power}",
                    "noise, factor": f"{factor:.3f}" if factor > 1.0005 else f"1 + {factor - 1:.0e}",
                    "largest loss over ε": f"{(m.privacy_loss / losses).max():.3f}",
                    "smallest loss over ε": f"{(m.privacy_loss / losses).min():.3f}",
                }
            )
    limit = stats.norm.isf(FALSE_ALARM / 2 / len(z))
    return Prices(pd.DataFrame(rows).set_index("sellers"), bool(np.abs(z).max() < limit))


def sampler_times() -> pd.Series:
    """Microseconds a draw, in batches, at a scale of 2^20 steps."""
    rng, step = np.random.default_rng(12), Fraction(1, 2**20)
    times = {
        "Laplace, floating point": _microseconds(lambda n: rng.laplace(size=n), 100_000),
        "discrete Laplace": _microseconds(lambda n: discrete.discrete_laplace(1 / step, rng=rng, size=n), 100_000),
    }
    for d, n in ((2, 20_000), (12, 5_000), (20, 500)):
        times[f"lattice, d = {d}"] = _microseconds(
            lambda n, d=d: discrete.lattice_laplace(d, step, rng=rng, size=n),  # type: ignore[misc]
            n,
        )
    return pd.Series(times, name="µs a draw")


def _microseconds(draw: Callable[[int], Any], n: int) -> float:
    start = time.perf_counter()
    draw(n)
    return (time.perf_counter() - start) / n * 1e6


# --- the samplers and the theorem -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SamplerLaws:
    """P-values of the exact samplers against lists of all probabilities, and against laws 5 per cent wider."""

    laws: int
    smallest: float
    largest_of_wider: float
    limit: float


def sampler_laws(n: int = 100_000) -> SamplerLaws:
    """Chi-square tests of the samplers in one, two and three dimensions."""
    right, wider = [], []
    one = [(1, Fraction(1), 60), (1, Fraction(1, 5), 200), (1, Fraction(3, 10), 200), (1, Fraction(1, 2), 80)]
    laws = [*one, (2, Fraction(1), 40), (3, Fraction(3, 2), 16)]
    for k, (d, rate, reach) in enumerate(laws):
        rng = np.random.default_rng([7, k])
        if k < 3:
            drawn = discrete.discrete_laplace(1 / rate, rng=rng, size=(n, 1))
        else:
            drawn = discrete.lattice_laplace(d, rate, rng=rng, size=n)
        law = lattice_law(d, rate, reach)[1]
        cell = np.ravel_multi_index(tuple(drawn.T + reach), (2 * reach + 1,) * d)
        seen = np.bincount(cell, minlength=(2 * reach + 1) ** d)
        right.append(_chi_square(seen, law, n))
        wider.append(_chi_square(seen, law**0.95 / (law**0.95).sum(), n))
    return SamplerLaws(len(laws), min(right), max(wider), FALSE_ALARM / len(laws))


def _chi_square(seen: NDArray[np.int64], law: Array, n: int) -> float:
    """P-value; cells in which fewer than 20 are expected are one."""
    common = law * n >= 20
    cells = [np.append(x[common], n - x[common].sum()) for x in (seen, law * n)]
    return float(stats.chisquare(*cells).pvalue)


@dataclass(frozen=True)
class ListedLosses:
    """Losses from lists of all data sets of a small domain, beside what is promised, as fractions."""

    sums: list[Fraction]
    sums_promised: list[Fraction]
    gradient: Fraction
    gradient_promised: Fraction
    lattice_gap: float


def listed_losses() -> ListedLosses:
    """List all data sets of small domains, as the library puts them on the grid; the law is taken as given."""
    query = IntegerSum(np.array([3, 1]), levels=4, scale=Fraction(24))
    sums = [[query.sum([a / 4, b / 4]) for b in range(5)] for a in range(5)]
    changes = (
        {(s[j], t[j]) for s in sums for t in sums for j in range(5)},
        {(x, y) for s in sums for x in s for y in s},
    )
    listed = [_largest_exponent(pairs, range(-20, 40), lambda o, c: abs(o - c), 1 / query.scale) for pairs in changes]
    raw, eps = np.array([*itertools.product(range(-4, 5), repeat=3)]) / 2, Fraction(7, 10)
    sent = grid_gradients(raw[:, None], 1.5, 0.5)[:, 0]  # clipped to 1.5, in steps of 0.5
    vectors = sorted(set(map(tuple, sent.tolist())))
    longest = max(sum(map(abs, v)) for v in vectors)
    worst = _largest_exponent(itertools.product(vectors, repeat=2), vectors, _apart, eps / (2 * longest))
    table, gaps = lattice_law(2, Fraction(1), 30)[1].reshape(61, 61), []
    for shift in [(1, 0), (2, 1), (-3, 4), (5, 5)]:
        moved = np.roll(table, shift, axis=(0, 1))[10:-10, 10:-10]
        gaps.append(np.abs(np.log(table[10:-10, 10:-10] / moved)).max() - np.hypot(*shift))
    return ListedLosses(listed, list(query.privacy_loss), worst, eps, float(np.abs(gaps).max()))


def _apart(o: Any, c: Any) -> int:
    return sum(abs(x - y) for x, y in zip(o, c, strict=True))


def _largest_exponent(pairs: Any, outputs: Any, norm: Callable[[Any, Any], int], rate: Fraction) -> Fraction:
    """Largest log ratio over pairs of centres and all outputs listed."""
    return max(rate * (norm(o, b) - norm(o, a)) for a, b in pairs for o in outputs)
