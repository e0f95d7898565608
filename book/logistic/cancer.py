"""Experiments of the page on the breast-cancer market: markets and rivals, the joint rule, rehearsal, budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

from hdpm_book.datasets import breast_cancer
from hdpm_book.ledger import FALSE_ALARM
from hdpm_book.logistic import study
from hdpm_book.retrieval import DataUnavailableError
from hdpm_lib.learners.logistic import objective_perturbation
from hdpm_lib.markets.costs import virtual_valuation
from hdpm_lib.markets.outcome import Purchase
from hdpm_lib.markets.procurement_auction import procurement_auction
from hdpm_lib.noise import spherical_laplace
from hdpm_lib.spread import each

Array = NDArray[np.float64]

LAW = study.COSTS
RUNS, JOINT_RUNS = 12, 20
GAMMAS = np.geomspace(1e-6, 1e-1, 11)
SHOWN = range(0, 11, 2)  # of the gammas, in tables
TOTALS = np.geomspace(10, 1e5, 9)  # of eta, where it is given
KAPPAS, SCALES = np.array([0.02, 0.2, 2, 20, 200]), TOTALS * np.sqrt(0.05)
RATIOS = np.array([2, 20, 200])
SHARES = np.array([0.05, 0.1, 0.25, 0.5, 1])
PRICES, CEILING = LAW.ppf(SHARES), float(LAW.support()[1])
PROPOSED = "Algorithm 2"


def error_of_mean(values: ArrayLike) -> Array:
    """Standard error of the mean over the first axis."""
    v = np.asarray(values, dtype=float)
    return np.asarray(np.std(v, axis=0, ddof=1) / np.sqrt(len(v)))


def half_width(values: ArrayLike) -> Array:
    """Half the width of a 99 % interval for the mean over the first axis, by Student's t."""
    v = np.asarray(values, dtype=float)
    return np.asarray(stats.t.isf(0.005, len(v) - 1) * error_of_mean(v))


def taus(lines: ArrayLike) -> Array:
    """Kendall's rank correlation of each line with gamma."""
    return np.array([stats.kendalltau(np.arange(len(GAMMAS)), line).statistic for line in np.asarray(lines)])


@dataclass(frozen=True)
class Trend:
    """Mean rank correlation over runs, its t statistic and the limit at the false-alarm rate."""

    tau: float
    t: float
    limit: float


def trend(lines: ArrayLike) -> Trend:
    """Whether the lines, one a run, rise with gamma."""
    tau = taus(lines)
    return Trend(
        float(tau.mean()), float(tau.mean() / error_of_mean(tau)), float(stats.t.isf(FALSE_ALARM, len(tau) - 1))
    )


# The markets


@dataclass(frozen=True)
class Draw:
    """One market: a split of the records, the sellers' costs, 15 vectors of noise."""

    parts: study.Parts
    costs: Array
    noise: Array


def draw_markets() -> list[Draw]:
    """Twenty random markets on the Diagnostic set; most of the page uses the first twelve."""
    data, rng, drawn = breast_cancer(), np.random.default_rng(1), []
    X, y = data.features.to_numpy(float), np.where(data.labels == "malignant", 1.0, -1.0)
    for _ in range(JOINT_RUNS):
        parts = study.public_scale_split(X, y, rng=rng)
        costs = LAW.rvs(len(parts.y_train), random_state=rng)
        drawn.append(Draw(parts, costs, spherical_laplace(X.shape[1], 1.0, rng=rng, size=15)))
    return drawn


@dataclass(frozen=True)
class Relabelling:
    """What the purchase depends on: kappa and scale alone, and not on the unit of the costs."""

    same_kappa_and_scale: bool
    same_other_unit: bool  # with 1e-4 for e^-4
    gamma_factor: float
    virtual_cost: bool  # whether psi(c) = 2c - e^-4


def relabelling(costs: Array) -> Relabelling:
    """Three purchases from the same sellers that ought to be one."""
    low, f = LAW.support()[0], 1e-4 / np.exp(-4)
    one = procurement_auction(costs, LAW, 0.5, 100.0, 1e-3)
    same = procurement_auction(costs, LAW, 5.0, 1000.0, 1e-2)  # same kappa, same scale
    other = procurement_auction(costs * f, stats.uniform(1e-4, 4e-4), 0.5, 100.0, 1e-3 / f)
    return Relabelling(
        bool(np.allclose(one.payments, same.payments, rtol=1e-9)),
        bool(
            np.allclose(one.privacy_loss, other.privacy_loss, rtol=1e-9)
            and np.allclose(one.payments, other.payments / f, rtol=1e-9)
        ),
        float(1 / f),
        bool(np.allclose(virtual_valuation(LAW, costs), 2 * costs - low, rtol=1e-14)),
    )


def offers(costs: Array) -> dict[str, study.Candidates]:
    """What each market could buy from these sellers."""
    counts = [int(k) for k in np.round(SHARES[:-1] * len(costs))]
    return {
        PROPOSED: study.optimal_candidates(costs, LAW, KAPPAS, SCALES),
        "price": study.posted_candidates(costs, PRICES[:-1], TOTALS),
        "price to all": study.posted_candidates(costs, PRICES[-1:], TOTALS),
        "one seller": study.cheapest_candidates(costs, CEILING, [1], TOTALS),
        "cheapest k": study.cheapest_candidates(costs, CEILING, counts, TOTALS),
    }


@dataclass(frozen=True)
class Tried:
    """One market's candidates on one draw: errors on public and test records, and what validation picks."""

    offer: study.Candidates
    public: Array
    test: Array
    tuned: pd.DataFrame


@dataclass(frozen=True)
class Experiment:
    """Every market on every draw, and the models without privacy and payments."""

    draws: list[Draw]
    tried: list[dict[str, Tried]]
    baseline: Array

    @property
    def sellers(self) -> int:
        """Number of sellers in each market."""
        return len(self.draws[0].costs)

    def column(self, name: str, key: str) -> Array:
        """One column of the tuned results: a row for each run, a column for each gamma."""
        return np.array([one[name].tuned[key] for one in self.tried])

    def summary(self, name: str) -> pd.DataFrame:
        """Means over the runs, with standard errors of the two errors."""
        keys = {"error": "error", "payments": "payments", "overall": "overall"}
        keys |= {"epsilon": "largest ε", "sellers": "sellers", "printed_slack": "printed slack"}
        lines = {}
        for i in SHOWN:
            cells = {}
            for key, label in keys.items():
                values = self.column(name, key)[:, i]
                cells[label] = f"{values.mean():.3g}"
                if key in ("error", "overall"):
                    cells[label] = f"{values.mean():.3f} ± {error_of_mean(values):.3f}"
            lines[f"{GAMMAS[i]:.0e}"] = cells
        return pd.DataFrame(lines).T.rename_axis("γ")

    def curves(self, names: Sequence[str], key: str) -> tuple[dict[str, Array], dict[str, Array]]:
        """Means over the runs, and bands of two standard errors around them."""
        means = {name: self.column(name, key).mean(0) for name in names}
        bands = {n: means[n] + 2 * error_of_mean(self.column(n, key)) * [[-1], [1]] for n in names}
        return means, bands

    def gap(self, name: str) -> Array:
        """Overall error minus that of Algorithm 2: a row for each run."""
        return self.column(name, "overall") - self.column(PROPOSED, "overall")

    def gap_table(self) -> pd.DataFrame:
        """Gaps of the four rivals with 99 % intervals."""
        lines = {}
        for name in RIVALS:
            gap = self.gap(name)
            lines[name] = [f"{m:+.3f} ± {h:.3f}" for m, h in np.transpose([gap.mean(0), half_width(gap)])[SHOWN]]
        return pd.DataFrame(lines, index=[f"{g:.0e}" for g in GAMMAS[SHOWN]]).rename_axis("γ")

    def beyond(self, name: str, sign: int) -> int:
        """At how many gammas the rival is worse (1) or better (-1) beyond its interval."""
        gap = self.gap(name)
        return int((sign * gap.mean(0) > half_width(gap)).sum())

    def equal_losses(self) -> pd.DataFrame:
        """Error if all sellers lose alike, by that loss; the penalty validated."""
        errors = []
        for one in self.tried:
            alike = one["price to all"]
            errors.append(alike.test[np.arange(len(TOTALS)), alike.public.argmin(1)])
        columns = {"error": np.mean(errors, 0), "s.e.": error_of_mean(errors)}
        return pd.DataFrame(columns, index=pd.Index([f"{e:.3g}" for e in TOTALS / self.sellers], name="loss of each"))

    def naive_by_floor(self) -> pd.DataFrame:
        """Overall error of the model without mu and sigma, by the floor on eta / m: all is bought from one seller."""
        rows = {}
        for i in range(0, len(TOTALS), 2):
            pairs = [(one["one seller"].test[i, one["one seller"].public[i].argmin()], one) for one in self.tried]
            rows[f"{TOTALS[i] / self.sellers:.3g}"] = [
                f"{np.mean([error + g * one['one seller'].offer.payments[i] for error, one in pairs]):.3g}"
                for g in GAMMAS[[2, 6, 8]]
            ]
        return pd.DataFrame(rows, index=[f"γ = {g:.0e}" for g in GAMMAS[[2, 6, 8]]]).T.rename_axis("floor on η/m")


RIVALS = ("one seller", "cheapest k", "price", "price to all")


def run_experiment(draws: list[Draw]) -> Experiment:
    """Run and tune every market on each draw."""
    found = each(_tried, draws)
    return Experiment(draws, [results for results, _ in found], np.array([unpaid for _, unpaid in found]))


def _tried(draw: Draw) -> tuple[dict[str, Tried], float]:
    """Every market on one draw, and the error of the model without privacy and payments."""
    results = {}
    for name, offer in offers(draw.costs).items():
        public, test = study.candidate_errors(draw.parts, offer, RATIOS, draw.noise)
        results[name] = Tried(offer, public, test, study.tuned(offer, RATIOS, public, test, GAMMAS))
    return results, unpaid_error(draw)


def unpaid_error(draw: Draw) -> float:
    """Test error without privacy and payments: equal weights, a validated penalty."""
    parts, uniform = draw.parts, np.full(len(draw.costs), 1 / len(draw.costs))
    plain = [
        objective_perturbation(parts.X_train, parts.y_train, uniform, 1, p).minimise(np.zeros(parts.X_train.shape[1]))
        for p in np.geomspace(1e-6, 1e-2, 9)
    ]
    best = study.misclassified(plain, parts.X_public, parts.y_public).argmin()
    return float(study.misclassified(plain[best], parts.X_test, parts.y_test))


# The joint rule

FLOORS = np.array([0.01, 0.1, 1, 10, 100])  # of eta / m; the last only ends the grids
SIGMAS, MUS = np.geomspace(1, 1e5, 6), [0.0, 1.0, 100.0]


@dataclass(frozen=True)
class JointRule:
    """The joint rule and its naive model; axes: run, floor of the grid, gamma (in `overall` also proposed or naive)."""

    errors: Array
    paid: Array
    overall: Array

    @property
    def trends(self) -> list[Trend]:
        """Of the test error, for each floor."""
        return [trend(self.errors[:, k]) for k in range(4)]

    @property
    def largest_payment_tau(self) -> float:
        """Largest rank correlation of payments with gamma in any run, at any floor."""
        return float(max(taus(self.paid[:, k]).max() for k in range(4)))

    @property
    def error_rises(self) -> list[bool]:
        """For each floor, whether a rise of the error is shown: t is beyond the limit at the false-alarm rate."""
        return [one.t > one.limit for one in self.trends]

    @property
    def rise_from_ten(self) -> tuple[float, float]:
        """Error at the largest gamma less that at the smallest, if the grid starts at 10, and its standard error."""
        rise = self.errors[:, 3, -1] - self.errors[:, 3, 0]
        return float(rise.mean()), float(error_of_mean(rise))

    @property
    def rises_on_low_grids(self) -> bool:
        """Whether payments fall, and a rise of the error is shown from the floors 0.01, 0.1 and 1 and not from 10."""
        *low, high = self.error_rises
        return self.largest_payment_tau < 0 and all(low) and not high

    @property
    def naive_gap(self) -> float:
        """The most by which the naive model is worse at one floor and gamma."""
        both = self.overall.mean(0)
        return float((both[:, 1] - both[:, 0]).max())

    @property
    def gap_at_best_floors(self) -> float:
        """The largest difference of the two models if each has its best floor."""
        least = self.overall.mean(0).min(0)
        return float(abs(least[1] - least[0]).max())

    def _by_floor(self, cells: list[list[str]]) -> pd.DataFrame:
        columns = [f"from {floor:g}" for floor in FLOORS[:4]]
        return pd.DataFrame(cells, index=[f"{g:.0e}" for g in GAMMAS[SHOWN]], columns=columns).rename_axis("γ")

    def error_table(self) -> pd.DataFrame:
        """Test error with its standard error, and payments."""
        mean, se, spent = self.errors.mean(0), error_of_mean(self.errors), self.paid.mean(0)
        return self._by_floor(
            [[f"{mean[k, i]:.3f} ± {se[k, i]:.3f}; {spent[k, i]:.2g}" for k in range(4)] for i in SHOWN]
        )

    def overall_table(self) -> pd.DataFrame:
        """Overall error, proposed and naive."""
        both = self.overall.mean(0)
        return self._by_floor([[f"{both[k, 0, i]:.3f} / {both[k, 1, i]:.3f}" for k in range(4)] for i in SHOWN])


def joint_rule(draws: list[Draw]) -> JointRule:
    """J's Eq. (17) on each draw with two vectors of noise, for grids of eta that start at four floors."""
    found = np.reshape(each(_joint_choices, draws), (len(draws), 4, 2, 2, len(GAMMAS)))
    return JointRule(found[:, :, 0, 0], found[:, :, 0, 1], found[..., 0, :] + GAMMAS * found[..., 1, :])


def _joint_choices(draw: Draw) -> list[Any]:
    """What is chosen on one draw, for each floor with the rule and with the naive model."""
    psi, totals, chosen = virtual_valuation(LAW, draw.costs), len(draw.costs) * FLOORS, list[Any]()
    ends = study.joint_ends(
        draw.parts, psi, draw.noise[:2], penalties=[0.1, 1.0], mus=MUS, totals=totals, gammas=GAMMAS
    )
    for k in range(4):
        grid = {"totals": totals[k:], "gammas": GAMMAS}
        chosen.append(study.joint_choice(ends[:, :, :, 1:, k:], sigmas=SIGMAS, **grid))
        chosen.append(study.joint_choice(ends[:, :, :, :1, k:], sigmas=[0.0], **grid))
    return chosen


# Costs that follow the data

FEATURES = {0: "radius", 1: "texture", 4: "smoothness"}


@dataclass(frozen=True)
class Correlated:
    """Change of the overall error if costs follow a feature; axes: feature, run, gamma."""

    base: Array  # overall error with independent costs, by gamma
    kept: Array  # with the settings chosen for independent costs
    again: Array  # tuned again
    shift: Array  # of log10 kappa, by tuning again
    effect: Array  # of the correlation on the error at eta about 1000, by run and kappa

    @property
    def table(self) -> pd.DataFrame:
        """Means with 99 % intervals, then each feature, tuned again."""
        lines = {}
        for i in SHOWN:
            cells = {"independent": f"{self.base[i]:.3f}"}
            for label, gaps in (("kept", self.kept), ("tuned again", self.again)):
                gap = gaps.mean(0)[:, i]
                cells[label] = f"{gap.mean():+.3f} ± {half_width(gap):.3f}"
            changes = zip(FEATURES.values(), self.again[:, :, i].mean(1), strict=True)
            lines[f"{GAMMAS[i]:.0e}"] = cells | {name: f"{value:+.3f}" for name, value in changes}
        return pd.DataFrame(lines).T.rename_axis("γ")

    def largest_rise(self, gaps: Array) -> float:
        """Largest relative rise of the overall error over the gammas."""
        return float((gaps.mean((0, 1)) / self.base).max())

    @property
    def middle(self) -> Array:
        """Mean change, tuned again, for gamma from 1e-4 to 1e-2: one number a run."""
        return np.asarray(self.again.mean(0)[:, 4:9].mean(1))


def correlated(found: Experiment) -> Correlated:
    """Hand out the same costs in the order of a feature; payments and losses stay, and only who gets them changes."""
    jobs = [(draw, tried[PROPOSED]) for draw, tried in zip(found.draws, found.tried, strict=True)]
    changes = each(_correlated_draw, jobs)
    kept, again = (np.array([[row[k] for row in rows] for rows in changes]).transpose(1, 0, 2) for k in (0, 1))
    shift = [row[2] for rows in changes for row in rows]
    effect = np.array([[row[3] for row in rows] for rows in changes])
    base = found.column(PROPOSED, "overall").mean(0)
    return Correlated(base, kept, again, np.mean(shift, 0), effect.mean(1))


def _correlated_draw(job: tuple[Draw, Tried]) -> list[tuple[Array, Array, Array, Array]]:
    """Changes of one draw, for each feature: settings kept, tuned again; and the changes of kappa and of errors."""
    draw, plan = job
    offer, test, plain, rows = plan.offer, plan.test, plan.tuned, []
    for feature in FEATURES:
        moved = handed_out(offer, draw.costs, np.argsort(draw.parts.X_train[:, feature]))
        errors = study.candidate_errors(draw.parts, moved, RATIOS, draw.noise)
        table = study.tuned(moved, RATIOS, *errors, GAMMAS)
        same = errors[1][plain.row, plain.column] + GAMMAS * plain.payments
        by_kappa = (errors[1] - test).reshape(len(KAPPAS), len(SCALES), -1)
        rows.append(
            (
                np.asarray(same - plain.overall),
                np.asarray(table.overall - plain.overall),
                np.log10(table.kappa / plain.kappa).to_numpy(),
                by_kappa[:, 4, 2],  # eta about 1000
            )
        )
    return rows


def handed_out(offer: study.Candidates, costs: Array, order: NDArray[np.intp]) -> study.Candidates:
    """The same purchases, with the cheapest cost given to the first record of `order`, and so on."""
    owner = np.empty(len(costs), dtype=int)  # of the cost that a record gets
    owner[order] = np.argsort(costs)
    return replace(offer, weights=offer.weights[:, owner])


# Who chooses the hyper-parameters


@dataclass(frozen=True)
class ChoiceLeak:
    """One seller, two settings and one public record: what the choice by validation tells about her."""

    promised: float  # loss sold with the cheap setting
    choice: float  # loss if one sees that it was chosen
    choice_and_model: float  # and that its model is wrong
    simulation_agrees: bool


def choice_leak(draws: int = 20_000) -> ChoiceLeak:
    """Exact losses, and the probability of the cheap setting in runs of the library."""
    promised, labels = {"A": 0.1, "B": 20.0}, (1, -1)
    wrong = {(s, label): stats.laplace(scale=2 / eta).sf(label / 2) for s, eta in promised.items() for label in labels}
    chosen = {k: 1 - (1 - wrong["B", k]) * wrong["A", k] for k in labels}
    and_wrong = {k: wrong["A", k] * wrong["B", k] for k in labels}
    rng, z = np.random.default_rng(2), []
    for label in labels:  # the other record has no weight
        bad = [
            objective_perturbation([[1.0], [0.0]], [label, -label], [1.0, 0.0], eta, 2 / eta).release(
                rng=rng, size=draws
            )[:, 0]
            < 0
            for eta in promised.values()
        ]
        p = chosen[label]
        z.append(((bad[0] <= bad[1]).mean() - p) / np.sqrt(p * (1 - p) / draws))
    return ChoiceLeak(
        promised["A"],
        float(abs(np.log(chosen[1] / chosen[-1]))),
        float(abs(np.log(and_wrong[1] / and_wrong[-1]))),
        bool(np.abs(z).max() < stats.norm.isf(FALSE_ALARM / 4)),
    )


def rehearsed(found: Experiment, copies: int = 6) -> Array:
    """Overall error, minus that of validation, if settings are chosen on public records and drawn costs alone.

    Each public record plays several sellers; one half trains and the other validates, both ways round. A row for each
    run, a column for each gamma.
    """
    rng, overall = np.random.default_rng(3), []
    for draw, tried in zip(found.draws, found.tried, strict=True):
        parts = draw.parts
        half = len(parts.y_public) // 2
        first, second = slice(0, half), slice(half, None)
        public, paid = [], []
        for train, check in ((first, second), (second, first)):
            play = study.optimal_candidates(LAW.rvs(copies * half, random_state=rng), LAW, KAPPAS, SCALES)
            merged = replace(play, weights=play.weights.reshape(-1, copies, half).sum(1))
            stage = replace(
                parts,
                X_train=parts.X_public[train],
                y_train=parts.y_public[train],
                X_public=parts.X_public[check],
                y_public=parts.y_public[check],
            )
            public.append(study.candidate_errors(stage, merged, RATIOS, draw.noise)[0])
            paid.append(play.payments)
        offer, test = tried[PROPOSED].offer, tried[PROPOSED].test
        plan = study.tuned(replace(offer, payments=np.mean(paid, 0)), RATIOS, np.mean(public, 0), test, GAMMAS)
        overall.append(plan.error + GAMMAS * offer.payments[plan.row])
    return np.asarray(np.array(overall) - found.column(PROPOSED, "overall"))


# A budget


def within_budget(budget: float, costs: Array, mu: float, sigma: float, ends: tuple[float, float]) -> Purchase:
    """The purchase at the gamma for which exactly this is paid."""

    def purchase(log_gamma: float) -> Purchase:
        return procurement_auction(costs, LAW, mu, sigma, np.exp(log_gamma))

    def excess(log_gamma: float) -> float:
        return float(np.log(purchase(log_gamma).payments.sum() / budget))

    return purchase(optimize.brentq(excess, *ends, xtol=1e-13))


@dataclass(frozen=True)
class Budgets:
    """Payments along gamma, and how closely budgets are met."""

    range: tuple[float, float]  # payments at the largest and the smallest gamma of the last market
    falls: bool
    misses: list[float]

    @property
    def met(self) -> int:
        """Budgets met to 1e-9."""
        return sum(miss < 1e-9 for miss in self.misses)


def budgets(draws: list[Draw]) -> Budgets:
    """Three budgets in each of some markets, mu = 0.1 and sigma = 100."""
    found = each(_budgets_of_draw, draws)
    path = found[-1][0]
    falls = all((np.diff(path) < 0).all() for path, _ in found)
    return Budgets((float(path[-1]), float(path[0])), falls, [miss for _, misses in found for miss in misses])


def _budgets_of_draw(draw: Draw) -> tuple[Array, list[float]]:
    """Payments along gamma, and by how much each budget is missed."""
    ends = (-9.0, 3.0)
    grid, misses = np.exp(np.linspace(*ends, 40)), []
    path = np.array([procurement_auction(draw.costs, LAW, 0.1, 100.0, g).payments.sum() for g in grid])
    for budget in (1.0, 10.0, 100.0):
        spent = within_budget(budget, draw.costs, 0.1, 100.0, ends).payments.sum()
        misses.append(float(abs(spent / budget - 1)))
    return path, misses


def gains_by_lying() -> dict[int, float]:
    """The most that a lie gains, as a part of the payment, if gamma spends the budget exactly; by number of sellers."""
    rng, gains = np.random.default_rng(4), {}
    for m, budget in ((5, 5.0), (20, 20.0)):
        best = []
        for _ in range(3):
            costs = LAW.rvs(m, random_state=rng)
            truth, i = within_budget(budget, costs, 1.0, 10.0, (-18, 12)), int(np.argsort(costs)[1])
            honest = truth.payments[i] - costs[i] * truth.privacy_loss[i]
            for factor in (0.97, 1.01, 1.03, 1.1, 1.2):
                lie = costs.copy()
                lie[i] = np.clip(factor * costs[i], *LAW.support())
                end = within_budget(budget, lie, 1.0, 10.0, (-18, 12))
                gain = end.payments[i] - costs[i] * end.privacy_loss[i] - honest
                best.append(gain / truth.payments[i])
        gains[m] = float(max(best))
    return gains


# The appendix and the exercises


def original_set() -> pd.DataFrame | None:
    """Algorithm 2 on the Original set, where it can be had: means of four splits, incomplete rows dropped."""
    try:
        original = breast_cancer("original")
    except DataUnavailableError:
        return None
    whole = original.features.notna().all(axis=1).to_numpy()
    rows = original.features.to_numpy(float)[whole]
    signs = np.where(original.labels == "malignant", 1.0, -1.0)[whole]
    rng, tables = np.random.default_rng(5), []
    for _ in range(4):
        parts = study.public_scale_split(rows, signs, rng=rng)
        offer = study.optimal_candidates(LAW.rvs(len(parts.y_train), random_state=rng), LAW, KAPPAS, SCALES)
        errors = study.candidate_errors(parts, offer, RATIOS, spherical_laplace(rows.shape[1], 1.0, rng=rng, size=15))
        tables.append(study.tuned(offer, RATIOS, *errors, GAMMAS))
    return sum(tables)[["error", "payments", "overall", "epsilon"]].iloc[SHOWN] / len(tables)


@dataclass(frozen=True)
class BenignFirst:
    """Costs in the order of the labels, at gamma = 1e-2: runs that buy from benign sellers only, and mean errors."""

    only_benign: int
    runs: int
    independent: float
    sorted: float


def benign_first(found: Experiment, runs: int = 6) -> BenignFirst:
    """The setting chosen for independent costs, with the cheapest costs given to benign sellers."""
    only, errors = 0, []
    for draw, tried in zip(found.draws[:runs], found.tried[:runs], strict=True):
        line = tried[PROPOSED].tuned.iloc[8]
        row, column = int(line.row), int(line.column)
        moved = handed_out(tried[PROPOSED].offer, draw.costs, np.argsort(draw.parts.y_train, kind="stable"))
        one = study.Candidates(
            moved.settings[row : row + 1],
            moved.weights[row : row + 1],
            moved.eta[row : row + 1],
            moved.payments[row : row + 1],
        )
        only += set(draw.parts.y_train[one.weights[0] > 0]) == {-1.0}
        errors.append([line.error, study.candidate_errors(draw.parts, one, RATIOS[[column]], draw.noise)[1][0, 0]])
    plain, moved_error = np.mean(errors, 0)
    return BenignFirst(only, runs, float(plain), float(moved_error))


@dataclass(frozen=True)
class PaymentsOfDraws:
    """Payments for fixed constants over draws of the costs: mean, relative spread, z of their mean virtual cost."""

    mean: float
    relative_spread: float
    z: float


def payments_of_draws(draws: int = 200) -> PaymentsOfDraws:
    """mu = 0.1, sigma = 100, gamma = 1e-3, 341 sellers."""
    rng, rows = np.random.default_rng(6), []
    for _ in range(draws):
        costs = LAW.rvs(341, random_state=rng)
        bought = procurement_auction(costs, LAW, 0.1, 100.0, 1e-3)
        rows.append([bought.payments.sum(), bought.privacy_loss @ virtual_valuation(LAW, costs)])
    paid, virtual = np.transpose(rows)
    difference = paid - virtual
    z = difference.mean() / (difference.std(ddof=1) / np.sqrt(draws))
    return PaymentsOfDraws(float(paid.mean()), float(paid.std() / paid.mean()), float(z))
