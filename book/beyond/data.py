r"""What the page :doc:`/book/beyond/data` runs: costs that are tied to the data, and real records with real learners.

Sellers' costs are uniform on [1, 5] throughout. `seed` starts the draws of the costs, `dataset` is that of
:func:`hdpm_book.datasets.medical_cost`, `quantile` the quantile function of records in [0, 1], `budget` one of
`BUDGETS` where designs have bought before, and a standard error of a learner is one over random splits of the same
records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import integrate, optimize, stats

from hdpm_book.beyond.tied import Quantile, mean_record, ranks_of, readers_factor, record_given_cost, tied_error
from hdpm_book.datasets import MEDICAL_CHARGES, MEDICAL_FEATURES, Dataset, breast_cancer, medical_design
from hdpm_book.ridge.moments import QuadraticLoss
from hdpm_book.ridge.study import public_losses
from hdpm_book.ridge.variants import (
    calibrate_objective_perturbation,
    private_constant,
    release_objective_perturbation,
)
from hdpm_lib.designs.rules import DESIGNS, Deal, Market, Task, algorithm2, everyone_at_ceiling
from hdpm_lib.learners.logistic import eta_within, objective_perturbation
from hdpm_lib.learners.weighted_mean import WeightedMean, sampling_error
from hdpm_lib.markets.costs import virtual_valuation
from hdpm_lib.noise import spherical_laplace

Array = NDArray[np.float64]
Rng = np.random.Generator
Places = NDArray[np.intp]  # of records

LAW = stats.uniform(1, 4)  # of the costs
CEILING = 5.0
TASK = Task()  # numbers in [0, 1], of which nothing is known
CENTRE = 0.5
SELLERS, DRAWS = 1000, 20  # and so many draws of their costs
BUDGETS = (30.0, 100.0, 300.0)
CORRELATIONS = (0.0, 0.1, 0.3, 0.6, 1.0)
SHOWN = {
    "Algorithm 2": "Algorithm 2",
    "error-minimising": "error-minimising auction",
    "M2, shrunk": "contracts, M2 shrunk by the reader",
    "everyone at the top": "everyone at the highest cost, shrunk",
    "local menu": "local menu",
}
LARGEST_CHARGE = 64_000  # dollars; a larger one counts as that


def charges(dataset: Dataset) -> Quantile:
    """Quantile function of the charges over 64,000 dollars."""
    x = np.sort(np.minimum(dataset.labels / LARGEST_CHARGE, 1.0))
    return lambda u: x[np.minimum((u * len(x)).astype(int), len(x) - 1)]


def _mean(values: Any) -> tuple[float, float]:
    """Mean and its standard error."""
    v = np.asarray(values, dtype=float)
    return float(v.mean()), float(v.std(ddof=1) / np.sqrt(len(v)))


def _text(values: Any, digits: int = 3) -> str:
    """Mean, and its standard error in units of the last digit."""
    mean, error = _mean(values)
    return f"{mean:.{digits}f} ({error * 10**digits:.0f})"


def _root(gap: Callable[[float], float]) -> float:
    """Where a function on [0, 1] that begins below 0 rises to 0, or NaN."""
    return float(optimize.brentq(gap, 0.0, 1.0, xtol=1e-3)) if gap(1.0) > 0 else float("nan")


def _correlation(size: float) -> str:
    return "none" if np.isnan(size) else f"{size:.2f}"


# --- costs tied to the data -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bought:
    """What designs buy at some budgets; it does not depend on the records.

    Attributes
    ----------
    costs : array of shape (draws, n)
    deals : dict, by budget and by the name in `SHOWN`
    quantile : callable
    """

    costs: Array
    deals: dict[tuple[float, str], Deal]
    quantile: Quantile

    def squares(self, budget: float, name: str, correlation: float) -> Array:
        """Population error of each draw, as a mean square."""
        return tied_error(self.deals[budget, name], self.costs, LAW, self.quantile, CENTRE, correlation, TASK)

    def error(self, budget: float, name: str, correlation: float) -> float:
        """Root mean squared population error."""
        return float(np.sqrt(self.squares(budget, name, correlation).mean()))

    def curves(self, budget: float, correlations: Sequence[float]) -> dict[str, Array]:
        """The same along the correlation, for each design."""
        return {name: np.array([self.error(budget, name, r) for r in correlations]) for name in self._names}

    @property
    def _names(self) -> list[str]:
        return list(dict.fromkeys(name for _, name in self.deals))

    def table(self) -> pd.DataFrame:
        """Errors by budget, design and correlation."""
        rows = {
            (f"{budget:g}", name): {f"r = {r:g}": f"{self.error(budget, name, r):.3f}" for r in CORRELATIONS}
            for budget, name in self.deals
        }
        return pd.DataFrame(rows).T.rename_axis(["money", "design"])

    def largest_errors(self) -> dict[str, float]:
        """Largest standard error in the table over the draws of the costs, by design."""
        found = {name: [0.0] for name in self._names}
        for budget, name in self.deals:
            squares = np.array([self.squares(budget, name, r) for r in CORRELATIONS])
            found[name] += [_mean(row)[1] / (2 * np.sqrt(row.mean())) for row in squares]
        return {name: max(values) for name, values in found.items()}

    def crossing(self, budget: float, name: str = "Algorithm 2", sign: int = 1) -> float:
        """Size of the correlation of this sign at which everyone at the top is as good as a design; NaN if never."""

        def gap(size: float) -> float:
            both = [self.squares(budget, one, sign * size).mean() for one in (name, "everyone at the top")]
            return float(both[0] - both[1])

        return _root(gap)

    def scores(self, budget: float, name: str) -> Array:
        r"""Weighted mean :math:`\sum_iw_iz_i` of the sellers' normal scores, shape (draws,)."""
        return np.asarray((self.deals[budget, name].weights * stats.norm.ppf(ranks_of(self.costs, LAW))).sum(-1))

    def normal_crossing(self, budget: float, name: str = "Algorithm 2") -> float:
        """The crossing by the formula for normal records, with their true variance and without shrinkage."""
        variance = float(self.quantile((np.arange(4000) + 0.5) / 4000).var())
        deal, top = self.deals[budget, name], self.deals[budget, "everyone at the top"]
        plain = [sampling_error(d.weights, d.noise, variance).mean() for d in (top, deal)]
        spread = (self.scores(budget, name) ** 2 - (deal.weights**2).sum(-1)).mean()
        return float(np.sqrt((plain[0] - plain[1]) / (variance * spread)))


def bought(quantile: Quantile, seed: int = 0, names: Sequence[str] = tuple(SHOWN), draws: int = DRAWS) -> Bought:
    """Draw costs of a thousand sellers, and let each design buy at each budget."""
    costs = LAW.ppf(np.random.default_rng(seed).random((draws, SELLERS)))
    deals = {(P, name): DESIGNS[SHOWN[name]](Market(TASK, LAW, P), costs) for P in BUDGETS for name in names}
    return Bought(costs, deals, quantile)


def crossings(quantile: Quantile, seeds: Sequence[int] = (0, 1, 2)) -> pd.DataFrame:
    """Where Algorithm 2 stops to be better than everyone at the top: for each seed, both signs, and by the formula."""
    names, rows = ["Algorithm 2", "everyone at the top"], {}
    found = [bought(quantile, seed, names, 10) for seed in seeds]
    for P in BUDGETS:
        row = {
            label: " ".join(_correlation(one.crossing(P, sign=sign)) for one in found)
            for label, sign in (("r > 0", 1), ("r < 0, size", -1))
        }
        row["formula"] = " ".join(f"{one.normal_crossing(P):.2f}" for one in found)
        row["score of those who sell"] = f"{np.mean([one.scores(P, names[0]).mean() for one in found]):.2f}"
        rows[f"{P:g}"] = row
    return pd.DataFrame(rows).T.rename_axis("money")


def menu_parts(quantile: Quantile, seed: int = 0) -> pd.DataFrame:
    """The local menu at r = 0.6 and -0.6: the mean of the records bought, the reader's factor, and both errors."""
    one, mu, rows = bought(quantile, seed, ["local menu"]), mean_record(quantile), {}
    for r in (0.6, -0.6):
        mean, variance = record_given_cost(quantile, r, ranks_of(one.costs, LAW))
        for P in BUDGETS:
            deal = one.deals[P, "local menu"]
            seen = (deal.weights * mean).sum(-1)
            plain = (seen - mu) ** 2 + (deal.weights**2 * variance).sum(-1) + deal.noise
            rows[f"{r:g}", f"{P:g}"] = {
                "sellers": f"{(deal.privacy_loss > 0).sum(-1).mean():.0f}",
                "their mean": f"{seen.mean():.3f}",
                "factor W": f"{readers_factor(deal, TASK).mean():.2f}",
                "error": f"{one.error(P, 'local menu', r):.3f}",
                "error with W = 1": f"{np.sqrt(plain.mean()):.3f}",
            }
    return pd.DataFrame(rows).T.rename_axis(["r", "money"])


# --- reweighting ------------------------------------------------------------------------------------------------------

POWERS = (0.0, 0.5, 1.0)


@dataclass(frozen=True)
class Bills:
    """Simulated bills of random buying with Horvitz-Thompson weights.

    Attributes
    ----------
    table : DataFrame
    deviation : float
        Largest distance of a mean from what the theorem says, in standard errors.
    comparisons : int
    """

    table: pd.DataFrame
    deviation: float
    comparisons: int


def horvitz_thompson(costs: Array, power: float, rng: Rng) -> Array:
    """Weights 1/(n p) of those who are bought, with the probability p = c^-power, and 0 of the others."""
    probability = costs**-power
    return np.where(rng.random(costs.shape) < probability, 1 / (costs.shape[-1] * probability), 0.0)


def bills(
    draws: int = 1000,
    budget: float = 100.0,
    buy: Callable[[Array, float, Rng], Array] = horvitz_thompson,
) -> Bills:
    """The bill at virtual costs, and n times the sum of squared weights, for each power of the cost.

    The rate is fixed so that all sellers at the top would cost the budget. Where a datum that is bought costs c, as in
    Chen et al. (2018), the same buying has another bill: it is given over that of buying everybody.
    """
    rng, rows, z = np.random.default_rng(4), {}, []
    total = budget / CEILING
    for power in POWERS:
        costs = LAW.ppf(rng.random((draws, SELLERS)))
        weights = buy(costs, power, rng)
        psi = 2 * costs - 1
        paid, squares = total * (psi * weights).sum(-1), SELLERS * (weights**2).sum(-1)
        expected = budget, integrate.quad(lambda c, a=power: c**a / 4, 1, 5)[0]
        for values, theory in zip((paid, squares), expected, strict=True):
            mean, error = _mean(values)
            z.append(0.0 if abs(mean - theory) < 1e-12 * theory else abs(mean - theory) / error)
        whole = psi.sum(-1)
        rows[f"c^-{power:g}" if power else "1"] = {
            "bill": _text(paid, 2),
            "n sum of w²": _text(squares),
            "E[1/p]": f"{expected[1]:.3f}",
            "a datum costs c": f"{((weights > 0) * psi).sum(-1).mean() / whole.mean():.3f}",
        }
    return Bills(pd.DataFrame(rows).T.rename_axis("probability"), max(z), len(z))


# --- breast cancer: a statistic or a model ----------------------------------------------------------------------------

FEATURES = 30
CANCER = Task(variance=1.0, distance=1.0, sensitivity=2.0, dimension=FEATURES)  # rows of norm 1, times the label
CANCER_BUDGETS = (30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0)
BUYERS, PUBLIC = 426, 43  # records for sale, and public ones, by which features are scaled; the other 100 test
RATIOS = (2.0, 8.0, 32.0, 128.0)  # the penalty times the total privacy loss
TUNING, SPLITS, NOISES = 12, 48, 3


@dataclass(frozen=True)
class Records:
    """Rows of norm 1 and labels -1 or 1, of the sellers and to test on."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array

    def mistakes(self, coefficients: Array) -> float:
        """Share of test records that linear classifiers of shape (k, d) misclassify."""
        return float((np.sign(self.X_test @ coefficients.T) != self.y_test[:, None]).mean())


@cache
def _cancer() -> tuple[Array, Array]:
    data = breast_cancer()
    return data.features.to_numpy(float), np.where(data.labels == "malignant", 1.0, -1.0)


def split(rng: Rng) -> Records:
    """A random split of the breast-cancer set; means and spreads are those of the public records alone."""
    X, y = _cancer()
    order = rng.permutation(len(y))
    sold, public, test = order[:BUYERS], order[BUYERS : BUYERS + PUBLIC], order[BUYERS + PUBLIC :]
    rows = (X - X[public].mean(0)) / X[public].std(0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)  # each by her own
    return Records(rows[sold], y[sold], rows[test], y[test])


def statistic(records: Records, epsilon: Array, rng: Rng) -> Array:
    """Noisy weighted means of the rows times their labels, as classifiers, shape (`NOISES`, d)."""
    ball, weights = (np.zeros(FEATURES), 1.0), epsilon / epsilon.sum()
    mean = WeightedMean(weights, epsilon.sum() / 2, *ball, clip=True, arithmetic="ideal")
    return mean.release(records.y[:, None] * records.X, rng=rng, size=NOISES)


def model(records: Records, epsilon: Array, ratio: float, rng: Rng) -> Array:
    """Logistic models in which nobody loses more than was bought, slack included, shape (`NOISES`, d)."""
    sold, total = epsilon > 0, epsilon.sum()
    X, y, eps, penalty = records.X[sold], records.y[sold], epsilon[sold], ratio / total
    weights = eps / total
    rate = eta_within(eps, weights, penalty)
    learner = objective_perturbation(X, y, weights, rate, penalty, clip=True)
    return learner.minimise(spherical_laplace(FEATURES, rate / 2, rng=rng, size=NOISES))


def _mistakes(parts: Sequence[Records], epsilons: Array, rng: Rng, ratio: float | None = None) -> list[float]:
    """Errors of the model with this ratio, or of the statistic, by split."""
    return [
        one.mistakes(statistic(one, epsilon, rng) if ratio is None else model(one, epsilon, ratio, rng))
        for one, epsilon in zip(parts, epsilons, strict=True)
    ]


@dataclass(frozen=True)
class Learners:
    """Classification errors by budget and split.

    Attributes
    ----------
    statistic, model, top : array of shape (budgets, splits)
        The class-mean statistic and the model on the purchase of Algorithm 2, and the statistic on everyone at the top.
    sellers, total, largest : array of shape (budgets,)
        Mean number of sellers bought, of their total and of their largest privacy loss.
    ratio : array of shape (budgets,), the penalty that was best on other splits, times the total loss
    """

    statistic: Array
    model: Array
    top: Array
    sellers: Array
    total: Array
    largest: Array
    ratio: Array

    @property
    def table(self) -> pd.DataFrame:
        """Errors with standard errors, and what was bought."""
        rows = {}
        for k, P in enumerate(CANCER_BUDGETS):
            rows[f"{P:g}"] = {
                "sellers": f"{self.sellers[k]:.0f}",
                "total ε": f"{self.total[k]:.0f}",
                "largest ε": f"{self.largest[k]:.1f}",
                "statistic": _text(self.statistic[k]),
                "model": _text(self.model[k]),
                "statistic, all at the top": _text(self.top[k]),
                "model − statistic": _text(self.model[k] - self.statistic[k]),
            }
        return pd.DataFrame(rows).T.rename_axis("money")

    def better(self, sign: int) -> list[float]:
        """Budgets at which the statistic (1) or the model (-1) is better by more than three standard errors."""
        gaps = [_mean(sign * gap) for gap in self.model - self.statistic]
        return [P for P, (mean, error) in zip(CANCER_BUDGETS, gaps, strict=True) if mean > 3 * error]


def learners(splits: int = SPLITS, tuning: int = TUNING) -> Learners:
    """Both learners on the same purchases; the model's penalty is the best on other random splits, for each budget."""
    rng = np.random.default_rng(5)
    parts = [split(rng) for _ in range(tuning + splits)]
    costs = LAW.ppf(rng.random((tuning + splits, BUYERS)))
    found: dict[str, list[Any]] = {name: [] for name in Learners.__dataclass_fields__}
    for P in CANCER_BUDGETS:
        market = Market(CANCER, LAW, P)
        epsilon, top = algorithm2(market, costs).privacy_loss, everyone_at_ceiling(market, costs).privacy_loss
        first, rest = slice(0, tuning), slice(tuning, None)
        tried = [np.mean(_mistakes(parts[first], epsilon[first], rng, ratio)) for ratio in RATIOS]
        best = RATIOS[int(np.argmin(tried))]
        found["statistic"].append(_mistakes(parts[rest], epsilon[rest], rng))
        found["model"].append(_mistakes(parts[rest], epsilon[rest], rng, best))
        found["top"].append(_mistakes(parts[rest], top[rest], rng))
        found["sellers"].append((epsilon > 0).sum(-1).mean())
        found["total"].append(epsilon.sum(-1).mean())
        found["largest"].append(epsilon.max(-1).mean())
        found["ratio"].append(best)
    return Learners(**{name: np.array(values) for name, values in found.items()})


# --- breast cancer: costs tied to the margin --------------------------------------------------------------------------


def logistic_margin(records: Records) -> Array:
    """Signed margins under a logistic model of the sellers' own records, not private."""
    m = len(records.y)
    learner = objective_perturbation(records.X, records.y, np.full(m, 1 / m), 1.0, 1e-3, clip=True)
    return np.asarray(records.y * (records.X @ learner.minimise(np.zeros(FEATURES))))


def mean_margin(records: Records) -> Array:
    """Signed margins under the class-mean statistic of the sellers' own records, not private."""
    return np.asarray(records.y * (records.X @ (records.y @ records.X)))


TIES: dict[str, Callable[[Records], Array]] = {
    "margin, logistic": logistic_margin,
    "margin, class means": mean_margin,
    "label": lambda records: records.y,
    "first feature": lambda records: records.X[:, 0],
}
TIED = (-0.9, -0.5, 0.0, 0.5, 0.9)


def tied_costs(values: Array, correlation: float, rng: Rng) -> Array:
    """Costs whose normal scores have this correlation with those of the `values`, shape (n,); ties at random."""
    n = len(values)
    order = np.lexsort((rng.random(n), values))
    score = np.empty(n)
    score[order] = stats.norm.ppf((np.arange(n) + 0.5) / n)
    z = correlation * score + np.sqrt(1 - correlation**2) * rng.standard_normal(n)
    return np.asarray(LAW.ppf(stats.norm.cdf(z)))


def tied_learning(budget: float = 300.0, splits: int = SPLITS) -> pd.DataFrame:
    """Error of the class-mean statistic on what Algorithm 2 buys, by what costs are tied to and how closely."""
    rng, rows = np.random.default_rng(6), {}
    parts, market = [split(rng) for _ in range(splits)], Market(CANCER, LAW, budget)
    for name, value in TIES.items():
        values, row = [value(one) for one in parts], {}
        for r in TIED:
            costs = np.array([tied_costs(v, r, rng) for v in values])
            epsilon = algorithm2(market, costs).privacy_loss
            row[f"r = {r:g}"] = _text(_mistakes(parts, epsilon, rng))
        rows[name] = row
    top = everyone_at_ceiling(market, costs).privacy_loss
    rows["everyone at the top"] = dict.fromkeys(row, _text(_mistakes(parts, top, rng)))
    return pd.DataFrame(rows).T.rename_axis("cost tied to")


# --- medical costs: a constant or a model -----------------------------------------------------------------------------

MEDICAL_BUDGETS = (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0)
INSURED, RELEASES = 1070, 50  # records for sale, and releases for each split
PENALTIES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True)
class Regression:
    """Test losses by budget and split: mean squares, the unit being 64,000 dollars.

    Attributes
    ----------
    constant, recoded : array of shape (budgets, splits)
        One private number, and ridge regression in the public recoding at a penalty chosen in public.
    box : array of shape (budgets, splits)
        Ridge regression in the coding of the ridge paper, at the penalty that is best for the test loss.
    sellers, largest, penalty : array of shape (budgets,)
    """

    constant: Array
    recoded: Array
    box: Array
    sellers: Array
    largest: Array
    penalty: Array

    @property
    def table(self) -> pd.DataFrame:
        """Losses with standard errors."""
        rows = {}
        for k, P in enumerate(MEDICAL_BUDGETS):
            rows[f"{P:g}"] = {
                "sellers": f"{self.sellers[k]:.0f}",
                "largest ε": f"{self.largest[k]:.2f}",
                "constant": _text(self.constant[k], 4),
                "ridge, recoded": _text(self.recoded[k], 4),
                "its penalty": f"{self.penalty[k]:g}",
                "ridge, paper's coding": _text(self.box[k], 4),
            }
        return pd.DataFrame(rows).T.rename_axis("money")

    def wins(self, losses: Array) -> float:
        """Least budget from which on a model is better than the constant by more than three standard errors."""
        gaps = [_mean(gap) for gap in self.constant - losses]
        good = [mean > 3 * error for mean, error in gaps]
        last_bad = max((k for k, ok in enumerate(good) if not ok), default=-1)
        return MEDICAL_BUDGETS[last_bad + 1] if last_bad + 1 < len(good) else float("inf")


@dataclass(frozen=True)
class _Coded:
    """Records in one coding, their bounds, and the factor that turns a loss into the unit."""

    X: Array
    y: Array
    true: Array
    feature_norm: float
    label_bound: float
    unit: float

    def loss(self, test: Places) -> QuadraticLoss:
        return QuadraticLoss.of(self.X[test], self.true[test])

    def ridge(self, sold: Places, epsilon: Array, penalty: float, test: Places, rng: Rng) -> float:
        """Mean test loss of objective perturbation."""
        bounds = {"feature_norm": self.feature_norm, "label_bound": self.label_bound}
        made = calibrate_objective_perturbation(self.X[sold], self.y[sold], epsilon, penalty, **bounds)
        theta = release_objective_perturbation(made, rng=rng, size=RELEASES)
        return float(self.unit * self.loss(test)(theta).mean())


def regression(dataset: Dataset, splits: int = 16) -> Regression:
    """A private constant against ridge regression, on the purchases of Algorithm 2 for one number in [0, 1]."""
    rng = np.random.default_rng(7)
    end = float(MEDICAL_CHARGES.inverse_transform([[0.5]])[0, 0])
    unit = (end / LARGEST_CHARGE) ** 2
    label, true = MEDICAL_CHARGES.transform(dataset.labels[:, None])[:, 0], dataset.labels / end
    recoded = _Coded(
        MEDICAL_FEATURES.transform(dataset.features), label, true - 0.5, MEDICAL_FEATURES.feature_norm, 0.5, unit
    )
    X, y, _ = medical_design(dataset)
    box = _Coded(X, y, true, float(np.sqrt(X.shape[1])), 1.0, unit)
    orders = [rng.permutation(len(label)) for _ in range(splits)]
    costs = LAW.ppf(rng.random((splits, INSURED)))
    found: dict[str, list[Any]] = {name: [] for name in Regression.__dataclass_fields__}
    for P in MEDICAL_BUDGETS:
        bought = algorithm2(Market(TASK, LAW, P), costs).privacy_loss
        least = bought.sum(-1).min()
        penalty = _public_penalty(bought[0], tuple(q for q in PENALTIES if recoded.feature_norm**2 < q * least))
        others = tuple(q for q in PENALTIES if box.feature_norm**2 < q * least)
        rows: dict[str, list[Any]] = {"constant": [], "recoded": [], "box": []}
        for order, epsilon in zip(orders, bought, strict=True):
            keep = epsilon > 0
            sold, test, eps = order[:INSURED][keep], order[INSURED:], epsilon[keep]
            guess = private_constant(label[sold], eps, label_range=(-0.5, 0.5), rng=rng, size=RELEASES)
            loss = recoded.loss(test)
            rows["constant"].append(unit * np.mean(loss.label_square - 2 * guess * loss.cross[-1] + guess**2))
            rows["recoded"].append(recoded.ridge(sold, eps, penalty, test, rng))
            rows["box"].append([box.ridge(sold, eps, q, test, rng) for q in others])
        tried = np.array(rows["box"])
        rows["box"] = list(tried[:, tried.mean(0).argmin()])
        for name, values in rows.items():
            found[name].append(values)
        found["sellers"].append((bought > 0).sum(-1).mean())
        found["largest"].append(bought.max(-1).mean())
        found["penalty"].append(penalty)
    return Regression(**{name: np.array(values) for name, values in found.items()})


def _public_penalty(epsilon: Array, penalties: tuple[float, ...]) -> float:
    """The penalty that is best in ten made-up worlds inside the declared schema."""
    bound = MEDICAL_CHARGES.feature_norm
    losses = public_losses(MEDICAL_FEATURES, bound, epsilon[epsilon > 0], penalties, worlds=10)
    return penalties[int(np.argmin(losses))]


# --- exercises --------------------------------------------------------------------------------------------------------


def mean_virtual_costs() -> pd.DataFrame:
    """Mean virtual cost under some laws, by quadrature, beside the largest cost."""
    laws = {
        "uniform on [1, 5]": LAW,
        "uniform on [0, 1]": stats.uniform(),
        "exponential, cut at 5": stats.truncexpon(5),
        "Beta(2, 2)": stats.beta(2, 2),
    }
    rows = {}
    for name, law in laws.items():
        ends = law.support()
        mean = integrate.quad(lambda c, law=law: law.pdf(c) * virtual_valuation(law, c, check=False), *ends)[0]
        rows[name] = {"mean virtual cost": f"{mean:.4f}", "largest cost": f"{ends[1]:g}"}
    return pd.DataFrame(rows).T


def strata_noise(strata: int) -> float:
    """Noise at the same bill, over that of a rate fixed in advance, if a die chooses one of so many strata of costs."""
    ends = np.linspace(1, 5, strata + 1)
    psi = ends[1:] + ends[:-1] - 1  # mean virtual cost of each
    return float((psi ** (2 / 3)).mean() ** 3 / psi.mean() ** 2)


def share_within(quantile: Quantile, strata: int, correlation: float) -> float:
    """Share of the variance of records that lies within strata of the cost, equally many sellers in each."""
    ranks = (np.arange(1000 * strata) + 0.5) / (1000 * strata)
    mean, variance = (part.reshape(strata, -1) for part in record_given_cost(quantile, correlation, ranks))
    within = variance.mean(1) + mean.var(1)
    return float(within.mean() / (within.mean() + mean.mean(1).var()))


def mixed_crossings(one: Bought) -> pd.DataFrame:
    """The crossings if a part of the sellers has costs that rank exactly as their records, or in reverse.

    For the others cost and record are independent. That part, a number in (0, 1), is the rank correlation.
    """
    rows = {
        f"{P:g}": {
            label: _correlation(_root(partial(mixed_gap, one, P, up)))
            for label, up in (("as their records", True), ("in reverse", False))
        }
        for P in BUDGETS
    }
    return pd.DataFrame(rows).T.rename_axis("money")


def mixed_gap(one: Bought, budget: float, up: bool, part: float) -> float:
    """Mean square of Algorithm 2 less that of everyone at the top, under this dependence."""
    ranks = ranks_of(one.costs, LAW)
    own = one.quantile(ranks if up else 1 - ranks)
    every = one.quantile((np.arange(4000) + 0.5) / 4000)
    mean = (1 - part) * every.mean() + part * own
    variance = (1 - part) * (every**2).mean() + part * own**2 - mean**2
    squares = []
    for name in ("Algorithm 2", "everyone at the top"):
        deal = one.deals[budget, name]
        W = readers_factor(deal, TASK)
        off = W * (deal.weights * (mean - CENTRE)).sum(-1) - (every.mean() - CENTRE)
        squares.append((off**2 + W**2 * ((deal.weights**2 * variance).sum(-1) + deal.noise)).mean())
    return float(squares[0] - squares[1])
