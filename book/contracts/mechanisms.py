"""What the page :doc:`/book/contracts/mechanisms` runs: searches for lies, payments by several routes, Figures 3, 4."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.optimize import brentq

from hdpm_book.contracts.printed import algorithm1, unbiased_pricing
from hdpm_book.contracts.study import POWERS, m1_total
from hdpm_book.ledger import FALSE_ALARM
from hdpm_lib.markets import incentives, payments
from hdpm_lib.markets.contracts import check_power, check_valuations, least_cost_contract, ratio_power
from hdpm_lib.markets.mechanisms import equal_loss_pricing, vcg_contract
from hdpm_lib.markets.outcome import Outcome
from hdpm_lib.validation import check_finite, check_positive

Array = NDArray[np.float64]
Mechanism = Callable[..., Outcome]

MECHANISMS: dict[str, Mechanism] = {"M1": equal_loss_pricing, "M2": vcg_contract, "M3": unbiased_pricing}
NO_GAIN = 1e-9  # relative to the payment; rounding stays below it


def random_markets(seed: int | list[int], count: int) -> Iterator[tuple[float, Array]]:
    """Random markets (K, v), valuations in [0, 1]: spread out or crowded at 0, one seller at 1."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n = int(rng.integers(2, 11))
        v = rng.random(n) ** rng.choice([1, 3])
        v[rng.integers(n)] = 1.0
        yield n**2 / 4 * rng.uniform(0.02, 0.98), v


# --- lies -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Search:
    """What a search over misreports of one mechanism found; amounts relative to the payments."""

    markets: int
    tried: int  # thousands of misreports
    gain: float
    utility: float

    @property
    def clean(self) -> bool:
        """No lie gains, nobody loses at the truth."""
        return self.gain < NO_GAIN and self.utility > -NO_GAIN


def meter(mechanism: Mechanism, v: Array, K: float, r: float) -> incentives.Incentives:
    """Search one market: a grid of reports, the others' reports, and the break points of the least-cost allocation."""

    def outcome(reports: Array) -> tuple[Array, Array]:
        result = mechanism(reports, K, 1.0, power=r)
        return result.privacy_loss**r, result.payments

    special = break_points(v, K, 1.0, power=r)
    tries = incentives.reports_to_try(v, 1.0, grid=201, special=special)
    return incentives.search_misreports(outcome, v, tries, refine=False)


def search_for_lies(markets: int = 12) -> dict[str, Search]:
    """All three mechanisms, this many random markets for each power."""
    found = {}
    for name, mechanism in MECHANISMS.items():
        runs = [meter(mechanism, v, K, r) for r in POWERS for K, v in random_markets([1, int(2 * r)], markets)]
        found[name] = Search(
            len(runs),
            sum(run.tried for run in runs) // 1000,
            max(run.relative_gain for run in runs),
            float(min((run.utility / run.payment.max()).min() for run in runs)),
        )
    return found


@dataclass(frozen=True)
class PayAsBid:
    """Sellers who are paid the cost that they report."""

    exact: bool  # for the unbiased answer the meter finds the best lie and its gain
    lies: int  # markets of Principle 2 in which a lie gains more than a hundredth of the payment
    least: float  # the gain, in the market where it is least


def pay_as_bid(markets: int = 10) -> PayAsBid:
    """The unbiased answer and Principle 2, quadratic cost."""

    def paid(mechanism: Mechanism, K: float) -> Callable[[Array], tuple[Array, Array]]:
        def outcome(reports: Array) -> tuple[Array, Array]:
            amounts = mechanism(reports, K, 1.0, power=2).privacy_loss ** 2
            return amounts, reports * amounts

        return outcome

    exact, gains = [], []
    for K, v in random_markets(6, markets):
        tries = incentives.reports_to_try(v, 1.0, grid=101)
        flat = incentives.search_misreports(paid(unbiased_pricing, K), v, tries, refine=False)
        exact.append(np.allclose(flat.gain[v < 1], (1 - v[v < 1]) * 2 / K, rtol=1e-12))
        exact.append(bool((flat.report[v < 1] == 1).all()))
        gains.append(incentives.search_misreports(paid(vcg_contract, K), v, tries, refine=False).relative_gain)
    return PayAsBid(all(exact), int((np.array(gains) > 0.01).sum()), min(gains))


def rises(amounts: Array) -> bool:
    """Whether a sequence rises anywhere, beyond rounding."""
    return bool((np.diff(amounts) > NO_GAIN * np.max(amounts)).any())


def _one_seller(
    rule: Callable[[Array], Array], others: Array, cells: int = 120
) -> tuple[Array, Array, Callable[[Array], tuple[Array, Array]]]:
    """Reports of seller 1, what she sells at them, and the mechanism that pays her by (15) for that step function."""
    own = (np.arange(cells) + 0.5) / cells
    x = np.array([rule(np.r_[s, others])[0] ** 2 for s in own])
    rest = (x.sum() - np.cumsum(x)) / cells

    def outcome(reports: Array) -> tuple[Array, Array]:
        k = np.minimum((reports * cells).astype(int), cells - 1)
        return x[k], x[k] * (k + 1) / cells + rest[k]

    return own, x, outcome


def with_algorithm1(markets: int = 20) -> pd.DataFrame:
    """M2 with the exact rule and with Algorithm 1: markets where the loss rises, where a lie gains."""

    def exact(v: Array, K: float) -> Array:
        return least_cost_contract(v, K, power=2).privacy_loss

    def line_5(v: Array, K: float) -> Array:
        return algorithm1(v, K, power=2, go_to="line 5").privacy_loss

    def line_6(v: Array, K: float) -> Array:
        return algorithm1(v, K, power=2, go_to="line 6").privacy_loss

    rows = {}
    for name, rule in (("exact", exact), ("Algorithm 1, line 5", line_5), ("Algorithm 1, line 6", line_6)):
        rng, up, lies = np.random.default_rng(7), 0, []
        for _ in range(markets):
            K, others = 6.25 * rng.uniform(0.05, 0.9), rng.random(4)
            own, x, outcome = _one_seller(partial(rule, K=K), others)
            gains = [incentives.search_misreports(outcome, [s], [own[own != s]], refine=False).gain for s in own[::8]]
            up += rises(x)
            lies.append(float(np.max(gains) / outcome(own)[1].max()))
        gaining = int((np.array(lies) > NO_GAIN).sum())
        rows[name] = {"loss rises in": up, "a lie gains in": gaining, "largest gain": max(*lies, 0.0)}
    return pd.DataFrame(rows).T.astype({"loss rises in": int, "a lie gains in": int})


# --- payments ---------------------------------------------------------------------------------------------------------


def envelope_gap(markets: int = 4) -> float:
    """Largest relative gap between the payments and the integral of the envelope theorem."""
    worst = 0.0
    for K, v in random_markets(2, markets):
        for mechanism in MECHANISMS.values():

            def rule(reports: Array, mechanism: Mechanism = mechanism, K: float = K) -> Array:
                return mechanism(reports, K, 1.0, power=2).privacy_loss ** 2

            by_integral = payments.envelope_payments(v, 1.0, rule, tolerance=1e-7)
            paid = mechanism(v, K, 1.0, power=2).payments
            worst = max(worst, float(np.abs(paid - by_integral).max() / paid.max()))
    return worst


@dataclass(frozen=True)
class FlatPayment:
    """Payments of M1 to each of ten sellers, K = 5, ceiling 10; and what a smaller payment does."""

    linear: float
    quadratic: float
    closed_form: float  # as printed
    total: float  # n v-bar (2 / K - 8 / n^2)
    too_little: dict[str, bool]  # paid a millionth less, a seller at the ceiling loses


def flat_payment() -> FlatPayment:
    """The printed closed form holds for one of two powers."""
    n, K, ceiling = 10, 5.0, 10.0
    linear, quadratic = (float(equal_loss_pricing(np.ones(n), K, ceiling, power=r).payments[0]) for r in (1, 2))
    short = {}
    for name in ("M1", "M3"):
        alone = MECHANISMS[name]([ceiling], 0.1, ceiling, power=2)
        short[name] = bool(alone.payments[0] * (1 - 1e-6) < ceiling * alone.privacy_loss[0] ** 2)
    closed = ceiling / n * np.sqrt((2 * n**2 - 8 * K) / K)
    return FlatPayment(linear, quadratic, float(closed), n * ceiling * (2 / K - 8 / n**2), short)


@dataclass(frozen=True)
class PaymentGap:
    """Payments of M1 less the costs, and below those of M3."""

    below: int  # sellers below the ceiling
    at_top: int
    larger: bool  # for all of the former
    larger_at_top: bool  # for all of the latter
    equal: bool
    markets: int
    cheaper: bool  # than M3, in all


def payment_gap(markets: int = 50) -> PaymentGap:
    """Random markets, four powers."""
    at_top: list[float] = []
    below: list[float] = []
    cheaper = []
    for r in POWERS:
        for K, v in random_markets([3, int(2 * r)], markets):
            equal, plain = equal_loss_pricing(v, K, 1.0, power=r), unbiased_pricing(v, K, 1.0, power=r)
            gap = equal.payments - v * equal.privacy_loss**r
            at_top += list(gap[v == 1])
            below += list(gap[v < 1])
            cheaper.append(bool((plain.payments > equal.payments).all()))
    zero = max(at_top) == 0 == min(at_top)
    larger = min(below) > 0, min(at_top) > 0
    return PaymentGap(len(below), len(at_top), *larger, zero, len(cheaper), all(cheaper))


def payment_routes(markets: int = 3) -> pd.DataFrame:
    """Largest relative gap of M2's payments to quadrature of (15) and to n + 1 separate problems, by power."""
    rows = {}
    for r in POWERS:
        quadrature, solves = 0.0, 0.0
        for K, v in random_markets([4, int(2 * r)], markets):

            def rule(reports: Array, K: float = K, r: float = r) -> Array:
                return least_cost_contract(reports, K, power=r).privacy_loss ** r

            def least(reports: Array, K: float = K, r: float = r) -> Array:
                return least_cost_contract(reports, K, power=r).cost

            paid = vcg_contract(v, K, 1.0, power=r).payments
            slow = payments.vcg_payments(v, 1.0, rule, least)
            integral = payments.envelope_payments(v, 1.0, rule, tolerance=1e-7)
            solves = max(solves, float(np.abs(paid - slow).max() / paid.max()))
            quadrature = max(quadrature, float(np.abs(paid - integral).max() / paid.max()))
        rows[f"r = {r}"] = {"quadrature": quadrature, "n + 1 solves": solves}
    return pd.DataFrame(rows).T


@dataclass(frozen=True)
class Scans:
    """Scans of a seller's own report: how many, and in how many her loss rises."""

    count: int
    rising: int


def own_report_scans(markets: int = 25) -> Scans:
    """Every seller of random markets, 400 reports each."""
    grid, scans, rising = np.linspace(0.001, 1, 400), 0, 0
    for r in POWERS:
        for K, v in random_markets([5, int(2 * r)], markets):
            for i in range(len(v)):
                profiles = np.tile(v, (len(grid), 1))
                profiles[:, i] = grid
                rising += rises(least_cost_contract(profiles, K, power=r).privacy_loss[:, i])
                scans += 1
    return Scans(scans, rising)


# --- Figures 3 and 4 --------------------------------------------------------------------------------------------------

ACCURACIES = np.array([0.25, 0.5, 1, 2, 4, 6, 8, 10, 12, 15, 18, 21, 24])


@dataclass(frozen=True)
class Experiment:
    """Section VII-B, scenario 1: expected total payments by accuracy."""

    draws: int
    K: Array
    m1: Array
    m2: Array  # means of the draws
    m3: Array
    table: pd.DataFrame
    needed: float  # standard errors that make a false alarm
    two_ways: float  # largest difference of the two estimates of M2, in standard errors
    order: float  # least distance of M2 below M1, in standard errors
    enough: bool  # all distances are clear
    same_ratios: bool  # scenario 2 is scenario 1 over ten, in each of 5,000 draws, to 1e-10

    @property
    def ordered(self) -> bool:
        """M2 below M1 below M3 at every accuracy."""
        return self.order > self.needed and bool((self.m1 < self.m3).all())

    @property
    def falling(self) -> bool:
        """All three fall in K."""
        return all(bool((np.diff(curve) < 0).all()) for curve in (self.m1, self.m2, self.m3))


def experiment(draws: int = 100_000) -> Experiment:
    """Ten sellers, cost v eps^2, valuations uniform on [0, 10]; the same draws for every accuracy."""
    v = np.random.default_rng(8).uniform(0, 10, (draws, 10))
    exact = [
        np.array([rule(np.ones(10), K, 10.0, power=2).payments.sum() for K in ACCURACIES])
        for rule in (equal_loss_pricing, unbiased_pricing)
    ]
    rows, means, z_identity, z_order, scale_error = {}, [], [], [], 0.0
    for K, one, three in zip(ACCURACIES, *exact, strict=True):
        outcome = vcg_contract(v, K, 10.0, power=2)
        paid, least = outcome.payments.sum(1), (v * outcome.privacy_loss**2).sum(1)
        means.append(paid.mean())
        error = paid.std() / np.sqrt(draws)
        difference = paid - 2 * least
        z_identity.append(difference.mean() / difference.std() * np.sqrt(draws))
        z_order.append((one - paid.mean()) / error)
        small = vcg_contract(v[:5000] / 10, K, 1.0, power=2).payments
        scale_error = max(scale_error, float(np.abs(10 * small / outcome.payments[:5000] - 1).max()))
        rows[f"{K:g}"] = {
            "M1": f"{one:.4g}",
            "mean of M2": f"{paid.mean():.4g} ± {error:.1g}",
            "2 × mean of W": f"{2 * least.mean():.4g} ± {2 * least.std() / np.sqrt(draws):.1g}",
            "M3": f"{three:.4g}",
            "M2 / M1": f"{paid.mean() / one:.3f}",
            "M2 > M1 in": f"{(paid > one).mean():.2%}",
        }
    needed = float(stats.norm.isf(FALSE_ALARM / (2 * len(ACCURACIES))))
    return Experiment(
        draws,
        ACCURACIES,
        exact[0],
        np.array(means),
        exact[1],
        pd.DataFrame(rows).T.rename_axis("K"),
        needed,
        float(np.abs(z_identity).max()),
        float(min(z_order)),
        bool(np.abs(z_order).min() > needed),
        scale_error < 1e-10,
    )


@dataclass(frozen=True)
class Spread:
    """M2 over M1 for laws with more and with less spread."""

    table: pd.DataFrame
    saving: float  # least distance below 1 on [0.9, 1], in standard errors
    needed: float
    factor_two_rejected: bool  # there E M2 = 2 E W fails, and the comparison notices


def spread(draws: int = 20_000) -> Spread:
    """Ten sellers, ceiling 1, three accuracies."""
    ks = [0.5, 2.0, 10.0]
    uniform = np.random.default_rng(9).random((draws, 10))
    laws = {
        "all at 0.5": np.full((1, 10), 0.5),
        "all at 0.9": np.full((1, 10), 0.9),
        "uniform on [0.9, 1]": 0.9 + 0.1 * uniform,
        "uniform on [0, 1]": uniform,
    }
    rows, saving, twice = {}, [], []
    for law, values in laws.items():
        row = {}
        for K in ks:
            outcome, one = vcg_contract(values, K, 1.0, power=2), m1_total(10, K)
            ratio = outcome.payments.sum(1) / one
            error = ratio.std() / np.sqrt(len(ratio))
            row[f"K = {K:g}"] = f"{ratio.mean():.5f}" + (f" ± {error:.1g}" if error else " (exact)")
            if law == "uniform on [0.9, 1]":
                saving.append((1 - ratio.mean()) / error)
                excess = ratio * one - 2 * (values * outcome.privacy_loss**2).sum(1)
                twice.append(excess.mean() / excess.std() * np.sqrt(draws))
        rows[law] = row
    needed = float(stats.norm.isf(FALSE_ALARM / len(ks)))
    return Spread(pd.DataFrame(rows).T, float(min(saving)), needed, bool(np.abs(twice).min() > needed))


def equal_valuations() -> tuple[int, float]:
    """M2 over M1 where all valuations are equal: number of cases, and the largest ratio."""
    ratios = [
        vcg_contract(np.full(10, c), K, 1.0, power=2).payments.sum() / m1_total(10, K)
        for c in (0.1, 0.5, 0.9, 0.99)
        for K in ACCURACIES
    ]
    return len(ratios), float(max(ratios))


@dataclass(frozen=True)
class InformationCost:
    """E M2 over E W under F = v^k, and whether it agrees with 1 + 1/k."""

    ratio: float
    agrees: bool


def information_cost(k: float, rng: np.random.Generator, draws: int = 20_000) -> InformationCost:
    """Ten sellers, K = 2."""
    v = rng.random((draws, 10)) ** (1 / k)
    outcome = vcg_contract(v, 2.0, 1.0, power=2)
    paid, least = outcome.payments.sum(1), (v * outcome.privacy_loss**2).sum(1)
    gap = paid - (1 + 1 / k) * least
    z = gap.mean() / gap.std() * np.sqrt(draws)
    return InformationCost(float(paid.mean() / least.mean()), bool(abs(z) < stats.norm.isf(FALSE_ALARM / 6)))


def break_points(valuations: ArrayLike, max_mse: float, ceiling: float, *, power: float) -> list[Array]:
    """For each seller the reports at which M2's allocation changes its form: somebody reaches the cap or leaves it.

    The lists are sorted; a seller's own entry in `valuations`, of shape (n,), does not matter to hers. At power 1 the
    allocation jumps at these reports; above, her loss has a kink. Each solves the equation of
    :mod:`hdpm_lib.markets.contracts` with the threshold at another seller's valuation, in closed form, or at her own.

    Examples
    --------
    >>> break_points([1.0, 2.0], 0.25, 10.0, power=1)[0]   # she is at the cap up to 2
    array([0., 2.])
    """
    v = check_valuations(check_finite(valuations, "valuations", 1), ceiling)
    K, top, r = check_positive(max_mse, "max_mse"), float(ceiling), check_power(power)
    if len(v) ** 2 <= 4 * K:
        return [np.empty(0) for _ in v]
    return [_break_points(np.delete(v, i), K, top, r) for i in range(len(v))]


def _break_points(others: Array, K: float, top: float, r: float) -> Array:
    def left_out(threshold: float) -> float:
        return float((1 - ratio_power(threshold / others[others > threshold], r)).sum())

    def excess(own: float, shift: int) -> float:
        return left_out(own) - 4 * K * own / (np.minimum(others, own).sum() + own) + shift

    points: list[float] = []
    for theta in np.unique(others[others > 0]):
        cut = np.minimum(others, theta).sum()
        for T in {left_out(theta), left_out(theta) + (r == 1) * (others == theta).sum()}:
            if T > 0 and 0 <= (own := 4 * K * theta / T - cut) <= theta:  # she is at the cap
                points.append(own)
            share = T + 1 - 4 * K * theta / (cut + theta)
            if r > 1 and 0 < share <= 1:  # she is below it
                points.append(theta / share ** (r - 1))
    ends = float(np.finfo(float).tiny), top
    for shift in (0, 1) if r == 1 else (0,):  # the threshold is her own report, her share 1 (or 0)
        if excess(ends[0], shift) > 0 > excess(ends[1], shift):
            points.append(float(brentq(excess, *ends, args=(shift,), xtol=1e-15 * top, maxiter=1000)))
    return np.unique([point for point in points if point <= top])
