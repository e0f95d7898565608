"""What the page :doc:`/book/beyond/market` runs: the identity of the learners, the purchases, the
designs compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats

from hdpm_book import plots
from hdpm_book.datasets import medical_cost
from hdpm_lib.aggregation import least_error_weights
from hdpm_lib.designs.comparison import compare_markets
from hdpm_lib.designs.rules import DESIGNS, Task
from hdpm_lib.learners.queries import linear_query
from hdpm_lib.learners.ridge import output_perturbation
from hdpm_lib.learners.weighted_mean import WeightedMean
from hdpm_lib.markets.contracts import least_cost_contract
from hdpm_lib.markets.error_minimising import error_minimising
from hdpm_lib.markets.procurement import procure

Array = NDArray[np.float64]

TOP = 5.0
LAW = stats.uniform(1, TOP - 1)
SELLERS = 1000
# the centre 1/2 and both guesses 1/12: what is known of numbers in [0, 1] before the market
TASK = Task()
BUDGETS = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
DRAWS = 30
RANGE = 64_000.0  # dollars


# --- one learner --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Identity:
    """A contract's answer against the shrunk weighted mean, on the same draw of the noise."""

    instances: int
    difference: float  # largest, per seller, of the answers
    losses: float  # largest relative difference of the promised losses


def identity(instances: int = 300) -> Identity:
    """Return random shares, scales and data; the same generator draws the noise of both."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(instances):
        n = int(rng.integers(2, 200))
        shares = rng.random(n)
        scale = float(np.exp(rng.normal(0, 2)))
        data = rng.random(n)
        contract = linear_query(shares, scale)
        total = shares.sum()
        noise = rng.laplace(scale=scale)
        answer = float(contract.mean(data)) + noise
        mean = WeightedMean(shares / total, total / scale, np.array([0.5]), 0.5, total / n)
        same = n * (0.5 + mean.shrink * (mean.weights @ (data - 0.5) + noise / total))
        off = np.abs(mean.privacy_loss / contract.privacy_loss - 1).max()
        found.append((abs(answer - same) / n, off))
    difference, losses = np.max(found, axis=0)
    return Identity(instances, float(difference), float(losses))


# --- one optimality condition -------------------------------------------------------------------


def _off(
    slope: Array, weights: Array, top: float = np.inf, multiplier: float | None = None
) -> float:
    """Tell how far slopes are from one multiplier: below it only at the upper bound, above it only
    at 0.
    """
    inside = (weights > 1e-12) & (weights < top * (1 - 1e-9))
    nu = float(slope[inside].mean()) if multiplier is None else multiplier
    wrong = np.where(inside, np.abs(slope - nu), np.where(weights > 1e-12, slope - nu, nu - slope))
    return float(max(wrong.max(), 0))


def _of_procure(psi: Array, rng: np.random.Generator) -> float:
    mu, sigma, gamma = np.exp(rng.normal(0, 1, 3))
    found = procure(psi, mu, sigma, gamma)
    price = gamma * found.eta * psi
    risk = mu * found.weights / np.linalg.norm(found.weights)
    return _off((risk + price) / price.max(), found.weights)


def _of_error_minimising(psi: Array, rng: np.random.Generator) -> float:
    variance, noise, gamma = np.exp(rng.normal(0, 1, 3))
    found = error_minimising(psi, variance, noise, gamma)
    price = gamma * float(found.eta) * psi
    return _off((2 * variance * found.weights + price) / price.max(), found.weights)


def _of_contract(costs: Array, rng: np.random.Generator, power: int) -> float:
    n = len(costs)
    found = least_cost_contract(costs, n**2 / 4 * rng.uniform(0.02, 0.5), power=power)
    w = found.shares / n
    eta = n / float(found.scale)
    price = costs * power * eta**power * w ** (power - 1)  # slope of the cost in a weight
    gamma = 4 / eta**3 / (power * float(found.cost) / eta)  # the best rate
    return _off(2 * gamma * price / (1 - w.sum()) - 1, w, 1 / n, multiplier=0.0)


def _of_ridge(psi: Array, rng: np.random.Generator) -> float:
    """Check that the noise rate of PDP-OP depends on the sum of the losses only."""
    eps = rng.uniform(0.1, 2, len(psi))
    rates = [
        output_perturbation(e, 1.0, features=2, bound="paper").noise_rate
        for e in (eps, rng.permutation(eps), np.full(len(psi), eps.mean()))
    ]
    return float(np.ptp(rates) / rates[0])


def _of_opt_aggr(psi: Array, rng: np.random.Generator) -> float:
    """Let slopes of the bias lie between both signs where a weight is the owner's share."""
    n = len(psi)
    sizes = rng.uniform(1, 9, n)
    eps = rng.uniform(0.2, 4, n)
    share = sizes / sizes.sum()
    w = least_error_weights(eps, sizes)
    bias = np.abs(w - share).sum()
    at = np.isclose(w, share, rtol=1e-9)
    slope = 16 * w / eps**2 + 2 * bias * np.sign(w - share) * ~at
    nu = float(slope[~at].mean())
    wrong = np.where(at, np.maximum(np.abs(slope - nu) - 2 * bias, 0), np.abs(slope - nu))
    return float(wrong.max() / np.abs(slope).max())


def purchases(instances: int = 50) -> pd.DataFrame:
    """Return each paper's objective and purchase; how far the library's own function is from the
    condition, at most.
    """
    rows: list[tuple[str, str, str, str, Callable[[Array, np.random.Generator], float]]] = [
        ("logistic, Algorithm 2", "μ |w|", "σ/η", "(θ − ψ)⁺", _of_procure),
        ("error-minimising", "τ² Σ w²", "κs²/η²", "(θ − ψ)⁺, other θ and η", _of_error_minimising),
        (
            "contracts, cost v ε",
            "((1 − Σw)/2)²",
            "2/η²",
            "cheapest k get 1/n",
            lambda c, r: _of_contract(c, r, 1),
        ),
        (
            "contracts, cost v ε²",
            "((1 − Σw)/2)²",
            "2/η²",
            "min(1/n, θ/v)",
            lambda c, r: _of_contract(c, r, 2),
        ),
        ("ridge, PDP-OP", "0", "c/η²", "ε is given; else all to the cheapest", _of_ridge),
        (
            "FL-Market, OptAggr (local)",
            "L² (Σ|w − W|)²",
            "Σ 8L² w²/ε²",
            "max(a ε², min(W, b ε²))",
            _of_opt_aggr,
        ),
    ]
    rng = np.random.default_rng(2)
    table = {}
    for name, risk, noise, bought, off in rows:
        worst = max(off(rng.uniform(1, 9, 12), rng) for _ in range(instances))
        table[name] = {
            "F(w)": risk,
            "V(η)": noise,
            "what is bought": bought,
            "to 1e-12": worst < 1e-12,
        }
    return pd.DataFrame(table).T


# --- one market ---------------------------------------------------------------------------------


@cache
def truth() -> Task:
    """Return the variance of the medical charges over 64,000 dollars, and the squared distance of
    their mean from the centre.
    """
    x = medical_cost().labels / RANGE
    return Task(variance=float(x.var()), distance=float((x.mean() - 0.5) ** 2))


@cache
def compared(
    budget: float, seed: int = 0, designs: Sequence[str] = tuple(DESIGNS), task: Task = TASK
) -> pd.DataFrame:
    """Return all designs at one expected payment; every seed draws other costs."""
    rng = np.random.default_rng([7, seed])
    return compare_markets(
        LAW, task, budget, sellers=SELLERS, truth=truth(), designs=designs, draws=DRAWS, rng=rng
    )


def ladder(column: str) -> pd.DataFrame:
    """Return the root of one of the errors for each budget."""
    return pd.DataFrame({f"{budget:g}": compared(budget)[column] for budget in BUDGETS})


SHOWN = {
    "error-minimising auction": "error-minimising auction",
    "contracts, M2 as released": "contracts, M2",
    "everyone at the highest cost, shrunk": "everyone at the highest cost",
    "local menu": "local menu",
}


def figure() -> tuple[Figure, dict[str, pd.DataFrame]]:
    """Draw both yardsticks against the money: the figure, and the curves of each panel, a column
    for each.
    """
    found, panels = plots.subplots(2, 1, sharex=True)
    titles = {"error": "the population's mean", "worst": "the sellers' mean, worst data"}
    drawn = {}
    for axes, (column, title) in zip(panels, titles.items(), strict=True):
        errors = ladder(column)
        drawn[column] = errors.loc[list(SHOWN)].rename(index=SHOWN).T
        plots.lines(axes, BUDGETS, dict(drawn[column].items()), log="xy")
        axes.set_ylabel(f"root mean squared error to\n{title}")
        axes.axhline(float(errors.loc["nothing is bought"].iloc[0]), color="gray", linewidth=1)
    panels[1].get_legend().remove()
    panels[1].set_xlabel("expected payment")
    return found, drawn


@dataclass(frozen=True)
class Reversal:
    """Root mean squared errors of the auction and of M2 under both yardsticks, a row for each
    seed.
    """

    population: Array
    worst: Array
    shrunk: Array  # population error of what M2 buys, shrunk by the buyer

    def table(self) -> pd.DataFrame:
        """Return a row for each seed."""
        names = ("auction", "M2", "M2, shrunk again", "auction, worst", "M2, worst")
        columns = np.c_[self.population, self.shrunk, self.worst]
        return pd.DataFrame(
            columns, columns=list(names), index=[f"seed {k}" for k in range(len(columns))]
        )

    @property
    def factors(self) -> tuple[float, float]:
        """By which factor the auction is ahead for the population, and M2 on the worst data, for
        the least seed.
        """
        ahead = self.population[:, 1] / self.population[:, 0], self.worst[:, 0] / self.worst[:, 1]
        return float(ahead[0].min()), float(ahead[1].min())


def reversal(budget: float = 30.0, seeds: Sequence[int] = (0, 1, 2)) -> Reversal:
    """Return the ranking by one yardstick and by the other."""
    names = ["error-minimising auction", "contracts, M2 as released"]
    more = "contracts, M2 shrunk by the buyer"
    tables = [compared(budget, seed, (*names, more)) for seed in seeds]
    population, worst = (
        np.array([table.loc[names, c] for table in tables]) for c in ("error", "worst")
    )
    return Reversal(population, worst, np.array([table.loc[more, "error"] for table in tables]))
