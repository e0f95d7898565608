"""The market of FL-Market and its bids: the experiments of the page with this name."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hdpm_book import plots
from hdpm_book.federated.partition import budget_of
from hdpm_book.federated.regretnet import Network, load_trained, run
from hdpm_lib.aggregation import least_error_weights
from hdpm_lib.auctions.bids import FAMILIES, Bids, bids, utility
from hdpm_lib.auctions.posted_prices import posted_prices
from hdpm_lib.markets.outcome import Outcome

Array = NDArray[np.float64]


def diagram() -> Figure:
    """One round of the market."""
    fig, ax = plots.subplots()
    ax.set(xlim=(0, 10), ylim=(0, 7))
    ax.axis("off")
    box = {"boxstyle": "round,pad=0.5", "facecolor": "none", "edgecolor": "#2387C9"}
    for x, y, text in ((1.4, 6, "owners"), (8.4, 6, "broker"), (8.4, 0.8, "buyer")):
        ax.text(x, y, text, ha="center", va="center", bbox=box)
    arrow = {"arrowstyle": "->", "color": "#808080", "linewidth": 1.4}
    for y, left, right in ((6.4, 2.4, 7.4), (6.0, 7.4, 2.4), (5.6, 2.4, 7.4)):
        ax.annotate("", (right, y), (left, y), arrowprops=arrow)
    for x, bottom, top in ((8.1, 1.4, 5.3), (8.7, 5.3, 1.4)):
        ax.annotate("", (x, top), (x, bottom), arrowprops=arrow)
    for x, y, text in ((4.6, 6.5, "2"), (4.9, 6.08, "3"), (5.2, 5.2, "4"), (7.7, 3.2, "1"), (8.9, 3.2, "5")):
        ax.text(x, y, text)
    steps = (
        "1  money and model",
        "2  bids",
        "3  privacy losses, payments",
        "4  noisy gradients",
        "5  weighted sum of them",
    )
    for k, text in enumerate(steps):
        ax.text(0.6, 4.2 - 0.75 * k, text)
    return fig


def first_auction(truth: Bids) -> pd.DataFrame:
    """The bids of the first auction."""
    parts = {
        "family": [FAMILIES[place] for place in truth.family[0]],
        "rate": truth.rate[0].round(2),
        "privacy budget": truth.privacy_budget[0].round(2),
        "size": truth.sizes[0],
    }
    return pd.DataFrame(parts, index=pd.RangeIndex(1, len(truth.rate[0]) + 1, name="owner"))


def within_laws(truth: Bids) -> bool:
    """Rates and privacy budgets lie in the intervals as printed, [0.5, 1.5] and [0.5, 2], and ten owners bid."""
    return bool(
        truth.rate.min() >= 0.5
        and truth.rate.max() <= 1.5
        and truth.privacy_budget.min() >= 0.5
        and truth.privacy_budget.max() <= 2
        and truth.sizes.shape[1] == 10
    )


# --- what is asked of an auction --------------------------------------------------------------------------------------


def at_unit_price(reports: Bids) -> Outcome:
    """Linear valuations at a price of 1 for a record and a unit of loss: who asks at most that sells everything."""
    epsilon = np.where(2 * reports.rate <= 1, reports.privacy_budget, 0.0)
    return Outcome(epsilon, reports.sizes * epsilon)


@dataclass(frozen=True)
class UnitPrice:
    """Utilities of two owners at a unit price, by what they report.

    `fair`: nobody who tells the truth loses. `hurt`: a valuation reported too low ends in a loss; `barred`: a limit
    reported too high in minus infinity.
    """

    table: pd.DataFrame
    fair: bool
    hurt: bool
    barred: bool


def false_reports() -> UnitPrice:
    """Truth, the second owner's valuation reported too low, and the first one's limit reported too high."""
    honest = bids("linear", [0.4, 0.7], [1.0, 1.0], [10, 10])
    reports = {
        "truth": honest,
        "the second reports a low value": bids("linear", [0.4, 0.45], [1.0, 1.0], [10, 10]),
        "the first reports a high limit": bids("linear", [0.4, 0.7], [1.5, 1.0], [10, 10]),
    }
    gains = {name: utility(honest, at_unit_price(told)) for name, told in reports.items()}
    truth, low, high = gains.values()
    table = pd.DataFrame(gains, ["first owner", "second owner"]).T
    return UnitPrice(table, bool((truth >= 0).all()), bool(low[1] < 0), bool(np.isneginf(high[0])))


def first_price(reports: Bids, budget: float) -> Outcome:
    """Each owner is paid what she asks, the cheapest first, until the money is gone."""
    asked = reports.full_valuation
    order = np.argsort(asked)
    bought = np.cumsum(asked[order]) <= budget
    epsilon = np.zeros(len(asked))
    epsilon[order[bought]] = reports.privacy_budget[order[bought]]
    return Outcome(epsilon, np.where(epsilon > 0, asked, 0.0))


# --- more accurate, better paid? --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Paid:
    """How often, of the pairs of owners who sell, the more accurate is paid less; and along one owner's schedule."""

    table: pd.DataFrame
    along_schedule: int

    @property
    def holds(self) -> bool:
        """No more accurate owner is ever paid less."""
        return bool(self.table.to_numpy().max() == 0)

    @property
    def own_schedule_only(self) -> bool:
        """Along a schedule payments never fall; between owners they often do."""
        return bool(self.along_schedule == 0 and self.table.to_numpy().min() > 0.1)


def paid_less(sale: Outcome, sizes: Array) -> dict[str, float]:
    """Of the pairs of owners who sell, how often the more accurate one is paid less, in all and per record."""
    epsilon, paid = sale.privacy_loss, sale.payments
    more = (epsilon[:, :, None] > epsilon[:, None, :]) & (epsilon[:, None, :] > 0)
    found = {}
    for name, part in (("in all", paid), ("per record", paid / sizes)):
        found[name] = float((more & (part[:, :, None] < part[:, None, :])).sum() / more.sum())
    return found


def better_paid(truth: Bids, factor: float = 0.5) -> Paid:
    """Posted prices and DM-RegretNet; and posted prices for 60 rates of the first owner in 40 auctions."""
    few = truth[:40]
    asked = np.repeat(few.rate[:, None], 60, axis=1)
    asked[..., 0] = np.linspace(0.02, 3, 60)  # what the first owner asks for
    parts = few.family[:, None], asked, few.privacy_budget[:, None], few.sizes[:, None]
    swept = posted_prices(bids(*parts), budget_of(few, factor)[:, None])
    loss, paid = swept.privacy_loss[..., 0], swept.payments[..., 0]
    less = paid[:, :, None] < paid[:, None, :] * (1 - 1e-12)
    money = budget_of(truth, factor)
    sales = {
        "posted prices": posted_prices(truth, money),
        "DM-RegretNet": run(*load_trained("dm-opt-iid"), truth, money),
    }
    table = pd.DataFrame({name: paid_less(sale, truth.sizes) for name, sale in sales.items()}).T
    return Paid(table, int(((loss[:, :, None] > loss[:, None, :]) & less).sum()))


# --- fast enough? -----------------------------------------------------------------------------------------------------


def seconds(n: int, repeats: int = 3) -> float:
    """Least time of the exact aggregation of `n` owners."""
    rng = np.random.default_rng(n)
    epsilon, sizes = rng.uniform(0.1, 2, n), rng.integers(10, 1000, n)
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        least_error_weights(epsilon, sizes)
        best = min(best, time.perf_counter() - start)
    return best


def multiplications(owners: int, levels: int) -> int:
    """Multiplications of DM-RegretNet for one auction."""
    shapes = Network("DM-RegretNet", owners, levels).shapes.values()
    return sum(int(np.prod(shape)) for shape in shapes if len(shape) == 2)


@dataclass(frozen=True)
class Growth:
    """Power with which the time of the aggregation grows from 10^4 to 10^6 owners; multiplications of DM-RegretNet."""

    power: float
    owners: dict[int, int]
    levels: dict[int, int]

    @property
    def polynomial(self) -> bool:
        """Below the square of the owners; at most in proportion to owners, and to levels."""
        return bool(self.power < 2 and self.owners[40] <= 4 * self.owners[10] and self.levels[32] <= 4 * self.levels[8])


def growth() -> Growth:
    """Time the aggregation and count for the networks."""
    return Growth(
        float(np.log(seconds(1_000_000) / seconds(10_000)) / np.log(100)),
        {n: multiplications(n, 8) for n in (10, 20, 40)},
        {m: multiplications(10, m) for m in (8, 16, 32)},
    )
