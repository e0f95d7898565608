"""What the page :doc:`/book/contracts/queries` runs: sums of functions, Example 1, vectors, and what carries over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from hdpm_book.contracts.conic import conic_convex, conic_power
from hdpm_book.contracts.printed import theorem5
from hdpm_book.contracts.study import error_of
from hdpm_book.ledger import FALSE_ALARM
from hdpm_book.privacy.listed import laplace_privacy_losses, sensitivity_on_grid, terms_on_grid
from hdpm_lib.learners import queries
from hdpm_lib.markets import incentives, payments
from hdpm_lib.markets.contracts import least_cost_contract
from hdpm_lib.markets.mechanisms import vcg_contract
from hdpm_lib.markets.outcome import Contract

Array = NDArray[np.float64]
Rule = Callable[[Array], Array]


# --- sums of functions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BoundRatios:
    """Exact losses and errors over the bounds of Theorem 10."""

    queries: int
    loss: Array  # least, median, largest ratio
    error: Array
    attained_one: float  # share of individuals who attain the bound on the loss: queries of one term
    attained_more: float


def random_queries(count: int = 300) -> BoundRatios:
    """Tables of random numbers for terms, up to four terms and three individuals with four possible data each."""
    rng = np.random.default_rng(1)
    loss: list[float] = []
    error: list[float] = []
    attained: dict[bool, list[bool]] = {False: [], True: []}
    for _ in range(count):
        q, n = int(rng.integers(1, 5)), int(rng.integers(1, 4))
        terms = rng.random((q, *[4] * n))
        sensitivity = sensitivity_on_grid(terms)  # all databases: exact
        answer = queries.nonlinear_query(rng.random(q), rng.uniform(0.1, 2), sensitivity)
        exact = laplace_privacy_losses(answer.mean(terms), answer.scale)
        loss.extend(exact / answer.privacy_loss)
        attained[q > 1].extend(exact > (1 - 1e-9) * answer.privacy_loss)
        worst = (answer.bias(terms) ** 2).max() + 2 * answer.scale**2
        error.append(worst / answer.worst_case_mse)
    quantiles = (np.quantile(ratio, [0, 0.5, 1]) for ratio in (loss, error))
    return BoundRatios(
        count, next(quantiles), next(quantiles), float(np.mean(attained[False])), float(np.mean(attained[True]))
    )


@dataclass(frozen=True)
class WeightsCheck:
    """Problems (22) and (24) by weights and by the conic solver."""

    problems: int
    cost: bool  # the least costs agree to 1e-7
    shares: bool  # Theorem 5 has these shares, to 1e-9
    missed: int  # problems in which its printed scale misses the accuracy
    largest: float  # error over K, less 1


def weights_check(problems: int = 100) -> WeightsCheck:
    """Dense random sensitivities, linear cost."""
    rng = np.random.default_rng(2)
    apart, shares, over = [], [], []
    for _ in range(problems):
        q, n = rng.integers(2, 7, size=2)
        sensitivity, v = rng.random((q, n)), rng.random(n)
        K = rng.uniform(0.02, 0.98) * q**2 / 4
        cone = conic_power(v, K, power=1, sensitivity=sensitivity)
        best, rule = least_cost_contract(sensitivity @ v, K, power=1), theorem5(sensitivity @ v, K)
        apart.append(abs(float(best.cost / cone.cost) - 1))
        shares.append(np.abs(rule.shares - best.shares).max())
        over.append(error_of(rule) / K - 1)
    missed = int((np.array(over) > 1e-9).sum())
    return WeightsCheck(problems, max(apart) < 1e-7, bool(max(shares) < 1e-9), missed, max(over))


def unmixed_excess(problems: int = 100) -> Array:
    """Quadratic cost with the mixed products dropped: cost above the least, problem by problem."""
    rng, excess = np.random.default_rng(3), []
    for _ in range(problems):
        q, n = rng.integers(2, 7, size=2)
        sensitivity, v = rng.random((q, n)), rng.random(n)
        K = rng.uniform(0.02, 0.98) * q**2 / 4
        cone = conic_power(v, K, power=2, sensitivity=sensitivity)
        unmixed = least_cost_contract(sensitivity**2 @ v, K, power=2)
        lost = unmixed.shares @ sensitivity / unmixed.scale
        excess.append(float(v @ lost**2 / cone.cost) - 1)
    return np.array(excess)


# --- Example 1 --------------------------------------------------------------------------------------------------------

WEIGHTS = (1.5, 0.5)  # of (28)


def example_terms(points: int) -> Array:
    """The two terms of Example 1 on a grid of databases."""
    return terms_on_grid([lambda d: d[0] / (1 + d[1] ** 2), lambda d: 1 / (1 + d[0] ** 2)], 2, points)


def shares_by_hand() -> float:
    """Largest distance of the shares solved by hand from the solver's, at 199 accuracies."""
    K = np.linspace(0.005, 0.995, 199)
    by_hand = np.stack([np.where(K < 1 / 3, 1 - 3 * K, 0), np.where(K < 1 / 2, 1, 2 - 2 * K)], axis=1)
    return float(np.abs([least_cost_contract(WEIGHTS, k, power=1).shares for k in K] - by_hand).max())


def example_table() -> pd.DataFrame:
    """Least total loss by the bounds, and the contract with Theorem 5's printed scale."""
    rows = {}
    for K in (0.05, 0.2, 0.3, 0.35, 0.4, 0.5, 0.8):
        best, rule = least_cost_contract(WEIGHTS, K, power=1), theorem5(WEIGHTS, K)
        rows[f"{K:.2f}"] = {
            "biased": best.cost,
            "unbiased": 2 * np.sqrt(2 / K),
            "printed b*: loss": rule.cost,
            "printed b*: error": error_of(rule),
        }
    return pd.DataFrame(rows).T.astype(float).rename_axis("K")


@dataclass(frozen=True)
class ExampleCurves:
    """Least total losses of Example 1 by accuracy."""

    K: Array
    unbiased: Array  # by the bounds of Theorem 10, as are the next two
    biased: Array
    printed: Array  # with the printed scale
    printed_error: Array
    exact_unbiased: Array
    exact_biased: Array
    one_term: Array  # Q as one term in [1, 1.5]

    @property
    def ratio(self) -> Array:
        """Biased over unbiased, with the bounds."""
        return self.biased / self.unbiased

    @property
    def exact_ratio(self) -> Array:
        """The same with exact losses."""
        return self.exact_biased / self.exact_unbiased


def example_curves(K: Array | None = None) -> ExampleCurves:
    """Bounds by the solver; exact losses over a grid of shares, with sensitivities on a grid of databases."""
    if K is None:
        K = np.r_[0.03, 1 / 20, 1 / 16, np.linspace(0.1, 0.3, 5), 0.33, 0.34, 0.36, np.linspace(0.4, 0.96, 15)]
    tried = np.stack(np.meshgrid(*[np.linspace(0, 1, 41)] * 2), axis=-1).reshape(-1, 2)
    moved = sensitivity_on_grid(np.tensordot(tried, example_terms(41), 1)).sum(axis=1)
    spare = (2 - tried.sum(axis=1)) ** 2 / 4

    def least_exact(k: float) -> float:
        fits = spare < k
        return float((moved[fits] / np.sqrt((k - spare[fits]) / 2)).min())

    def one_term(k: float) -> float:
        return float(conic_power([1, 1], k, power=1, sensitivity=[[0.5, 0.5]], ranges=[0.5]).cost)

    rules = [theorem5(WEIGHTS, k) for k in K]
    return ExampleCurves(
        K,
        2 * np.sqrt(2 / K),
        np.array([float(least_cost_contract(WEIGHTS, k, power=1).cost) for k in K]),
        np.array([float(rule.cost) for rule in rules]),
        np.array([error_of(rule) for rule in rules]),
        np.sqrt(2 / K),
        np.array([least_exact(k) for k in K]),
        np.array([one_term(k) for k in K]),
    )


# --- vectors ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VectorCheck:
    """Theorems 11 and 12: all databases of corners and midpoints, and releases."""

    cases: int
    losses: bool  # m a / b, to 1e-12
    errors: bool  # as printed, to 1e-12
    means: int  # mean errors of releases
    largest: float  # deviation in standard errors
    limit: float

    @property
    def released(self) -> bool:
        """No mean error is beyond the limit."""
        return self.largest < self.limit


def vector_check(cases: int = 20, releases: int = 100_000) -> VectorCheck:
    """One to three coordinates by enumeration; two, three and six coordinates by releases on four databases each."""
    rng = np.random.default_rng(4)
    losses_off, errors_off = [], []
    for m in (1, 2, 3):
        values = np.stack(np.meshgrid(*[[0, 0.5, 1]] * m), axis=-1).reshape(-1, m)
        data = values[np.indices([len(values)] * 2)]  # (individual, database axes, coordinate)
        for _ in range(cases):
            shares = np.where(rng.random(2) < 0.2, 1, rng.random(2))
            answer = queries.linear_query(shares, rng.uniform(0.1, 2), dimension=m)
            b = answer.scale
            losses = laplace_privacy_losses(answer.mean(data), b, vector=True)
            error = (answer.bias(data) ** 2).mean(axis=-1).max() + 2 * b**2
            losses_off.append(np.abs(losses / (m * shares / b) - 1).max())
            errors_off.append(abs(error / (((1 - shares).sum() / 2) ** 2 + 2 * b**2) - 1))
    rng, z = np.random.default_rng(5), []
    for m in (2, 3, 6):
        shares = rng.random(3)
        answer = queries.linear_query(shares, 0.4, dimension=m, arithmetic="ideal")
        for data in (np.zeros((3, m)), np.ones((3, m)), rng.random((3, m)), rng.random((3, m))):
            off = answer.release(data, rng=rng, size=releases) - data.sum(axis=0)
            square = (off**2).mean(axis=1)
            corner = data.min() == data.max()
            expected = answer.worst_case_mse if corner else (answer.bias(data) ** 2).mean() + 2 * 0.4**2
            z.append((square.mean() - expected) / (square.std() / np.sqrt(len(square))))
    limit = float(stats.norm.isf(FALSE_ALARM / 2 / len(z)))
    exact = bool(max(losses_off) < 1e-12), bool(max(errors_off) < 1e-12)
    return VectorCheck(3 * cases, *exact, len(z), float(np.abs(z).max()), limit)


def _least_cost(max_mse: float, power: float, sensitivity: Array) -> tuple[Rule, Rule]:
    """What rows of reports, shape (m, n), sell at the least cost, shape (m, n), and that cost, shape (m,)."""

    def solve(reports: Array) -> list[Contract]:
        return [conic_power(row, max_mse, power=power, sensitivity=sensitivity) for row in reports]

    def amounts(reports: Array) -> Array:
        return np.array([found.privacy_loss**power for found in solve(reports)])

    def least(reports: Array) -> Array:
        return np.array([found.cost for found in solve(reports)])

    return amounts, least


def vector_payments() -> float:
    """Payments for vectors over m^r times those for numbers: largest distance from 1, in nine settings."""
    v, K, ceiling = np.array([1.0, 4.0, 10.0]), 0.5, 12.0
    ratios: list[float] = []
    for m in (1, 2, 5):
        for power in (1.5, 2, 3):
            paid = payments.vcg_payments(v, ceiling, *_least_cost(K, power, m * np.eye(3)))
            ratios.extend(paid / vcg_contract(v, K, ceiling, power=power).payments / m**power)
    return float(np.abs(np.array(ratios) - 1).max())


@dataclass(frozen=True)
class OtherCost:
    """The cost v (e^eps - 1) of vectors: best shares by dimension."""

    table: pd.DataFrame
    shift: float  # how far a share moves from dimension 1 to 4
    replaced: bool  # the scalar problem with the cost c(v, m eps) has the same shares, to 1e-3


def other_cost() -> OtherCost:
    """Two sellers, v = (1, 10), K = 0.3."""
    w, K, rows, apart = np.array([1.0, 10.0]), 0.3, {}, []
    found = {}
    for m in (1, 2, 4):
        vector, _ = conic_convex(lambda x: w * np.expm1(x), lambda x: w * np.exp(x), 2, K, sensitivity=m * np.eye(2))
        number, _ = conic_convex(
            lambda x, m=m: w * np.expm1(m * x),  # type: ignore[misc]
            lambda x, m=m: m * w * np.exp(m * x),  # type: ignore[misc]
            2,
            K,
        )
        square = conic_power(w, K, power=2, sensitivity=m * np.eye(2)).shares
        found[m] = vector.shares
        apart.append(np.abs(vector.shares - number.shares).max())
        rows[m] = {"v(e^ε − 1)": vector.shares.round(3), "v ε²": square.round(3)}
    shift = float(np.abs(found[1] - found[4]).max())
    return OtherCost(pd.DataFrame(rows).T.rename_axis("coordinates"), shift, bool(max(apart) < 1e-3))


# --- what carries over ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Truthful:
    """A search for lies against VCG payments for non-linear queries."""

    tried: int
    no_gain: bool  # of a millionth of a payment
    no_loss: bool  # at the truth


def truthful(example: Array) -> Truthful:
    """Example 1's matrix of sensitivities and two random ones, quadratic cost."""
    rng, gains, utilities, tried = np.random.default_rng(6), [], [], 0
    for matrix in (example, rng.random((3, 3)), rng.random((4, 2))):
        amounts, least = _least_cost(0.07 * matrix.shape[0] ** 2, 2, matrix)

        def vcg(reports: Array, amounts: Rule = amounts, least: Rule = least) -> tuple[Array, Array]:
            return amounts(reports), np.array([payments.vcg_payments(row, 1.0, amounts, least) for row in reports])

        types = rng.uniform(0.1, 1, matrix.shape[1])
        candidates = incentives.reports_to_try(types, 1.0, grid=9)
        result = incentives.search_misreports(vcg, types, candidates, refine=False)
        gains.append(result.relative_gain)
        utilities.append(float(result.utility.min()))
        tried += result.tried
    return Truthful(tried, max(gains) < 1e-6, min(utilities) >= 0)


@dataclass(frozen=True)
class OneAgainstTen:
    """A query whose least total loss falls on one individual, with quadratic cost."""

    sensitivity: Array
    table: pd.DataFrame
    m1: float  # total payments
    m3: float


def one_against_ten(max_mse: float = 0.4) -> OneAgainstTen:
    """f_1 = d_1^2, f_2 = the square of the mean of ten others; everybody is paid eps^2, the ceiling being 1."""
    sensitivity = np.zeros((2, 11))
    sensitivity[0, 0], sensitivity[1, 1:] = 1.0, 1 - 0.9**2
    least = least_cost_contract(sensitivity.sum(axis=1), max_mse, power=1)
    losses = {
        "M1": least.shares @ sensitivity / least.scale,
        "M3": np.ones(2) @ sensitivity / np.sqrt(max_mse / 2),
    }
    rows = {
        name: {"total loss": lost.sum(), "largest loss": lost.max(), "total payment": (lost**2).sum()}
        for name, lost in losses.items()
    }
    table = pd.DataFrame(rows).T
    return OneAgainstTen(sensitivity, table, *(float(paid) for paid in table["total payment"]))
