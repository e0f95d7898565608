"""Figures of the front page: the reversal of two designs, and one small figure for each paper."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hdpm_book import ledger, plots
from hdpm_book.beyond import market
from hdpm_book.contracts.study import loss_curves
from hdpm_book.federated.allin import all_in_printed
from hdpm_book.logistic.study import AFTER, POINTS, joint_law
from hdpm_lib.auctions.allin import all_or_nothing
from hdpm_lib.designs.comparison import compare_markets
from hdpm_lib.learners.ridge import output_perturbation
from hdpm_lib.markets.procurement_auction import procurement_auction

RIVALS = {"error-minimising auction": "auction", "contracts, M2 as released": "contracts"}
SMALL = (3.4, 2.1)


# --- one market, two yardsticks ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reversal:
    """Errors of two designs by the money, and which is the better by how much at one of the budgets."""

    mean: pd.DataFrame
    worst: pd.DataFrame

    def times(self, budget: float) -> tuple[float, float]:
        """How many times the auction is better for the mean of all people, and worse on the worst data."""
        return self.mean.loc[budget, "contracts"] / self.mean.loc[budget, "auction"], (
            self.worst.loc[budget, "auction"] / self.worst.loc[budget, "contracts"]
        )


@cache
def reversal() -> Reversal:
    """Auction of least error and least-cost contract, for the sellers and the money of :doc:`/book/beyond/market`."""
    tables = {
        budget: compare_markets(
            market.LAW, market.TASK, budget, sellers=market.SELLERS, designs=tuple(RIVALS), draws=market.DRAWS,
            rng=np.random.default_rng([7, 0]),
        ).rename(index=RIVALS)
        for budget in market.BUDGETS
    }  # fmt: skip
    mean, worst = (pd.DataFrame({b: t[column] for b, t in tables.items()}).T for column in ("error", "worst"))
    return Reversal(mean, worst)


def hero() -> Figure:
    """Both designs under both yardsticks, side by side."""
    found = reversal()
    figure, panels = plots.subplots(1, 2, figsize=(6.6, 3.9), sharey=True)
    for axes, errors, title in zip(
        panels, (found.mean, found.worst), ("error for the mean of all people", "error on the worst data"), strict=True
    ):
        plots.lines(axes, errors.index, {name: errors[name] for name in RIVALS.values()}, log="xy")
        axes.set(xlabel="money spent", title=title)
        axes.minorticks_off()
    panels[1].get_legend().remove()
    return figure


# --- a figure for each paper ------------------------------------------------------------------------------------------


def _small() -> tuple[Figure, Axes]:
    figure, axes = plots.subplots(figsize=SMALL)
    return figure, axes


def ridge() -> Figure:
    """Length of the noise of a ridge regression of 500 people, by the share of those who allow a loss of 0.1 only."""
    share, rng = np.linspace(0, 1, 21), np.random.default_rng(0)
    X, y = rng.random((500, 3)), rng.random(500)
    rate: dict[str, list[float]] = {"each her own": [], "all as the strictest": []}
    for part in share:
        limits = np.where(np.arange(500) < part * 500, 0.1, 2.0)
        rate["each her own"].append(output_perturbation(X, y, limits, 1.0).noise_rate)
        rate["all as the strictest"].append(output_perturbation(X, y, np.full(500, limits.min()), 1.0).noise_rate)
    figure, axes = _small()
    plots.lines(axes, 100 * share, {name: 3 / np.array(rates) for name, rates in rate.items()})
    axes.set(xlabel="% of cautious people", ylabel="noise")
    return figure


def contracts() -> Figure:
    """Total privacy loss of ten sellers by the accuracy, and what no algorithm goes below."""
    K = np.geomspace(0.2, 24, 30)
    curves = loss_curves(10, K)
    figure, axes = _small()
    plots.lines(axes, K, {name: curves[name] for name in ("unbiased", "biased", "no algorithm below")}, log="xy")
    axes.set(xlabel="squared error", ylabel="privacy loss", ylim=(0.1, None))
    axes.minorticks_off()
    return figure


def together() -> Figure:
    """What is left of the joint objective of three sellers, and its convex hull: between, nothing is released."""
    law = joint_law(AFTER)
    shown = np.searchsorted(POINTS, np.linspace(-2, 2, 31))
    figure, axes = _small()
    hull = np.interp(POINTS, POINTS[law.hull], law.G[law.hull])
    plots.lines(axes, POINTS[shown], {"objective": law.G[shown], "its hull": hull[shown]})
    axes.set(xlabel="coefficient")
    return figure


def before_the_data() -> Figure:
    """What forty sellers lose and are paid, by their costs."""
    cost = np.sort(market.LAW.rvs(40, random_state=np.random.default_rng(1)))
    bought = procurement_auction(cost, market.LAW, 1.0, 1.0, 0.02)
    figure, axes = _small()
    own = cost * bought.privacy_loss
    plots.lines(axes, cost, {"payment": bought.payments, "her own cost": own})
    axes.set(xlabel="cost of a unit of privacy", ylabel="money")
    return figure


def auction() -> Figure:
    """What an owner gains whose valuation is 2, by the valuation that she reports, in a market of two."""
    said = np.linspace(0.05, 3, 60)
    figure, axes = _small()
    curves = {}
    for name, rule in (("as printed", all_in_printed), ("repaired", all_or_nothing)):
        sale = rule(np.stack([np.full_like(said, 100), said], -1), [100.0, 1.0], 100.0)
        curves[name] = np.where(sale.privacy_loss[:, 1] > 0, sale.payments[:, 1] - 2, 0.0)
    plots.lines(axes, said, curves)
    axes.axvline(2, color="gray", linewidth=1)
    axes.set(xlabel="valuation that she reports", ylabel="what she gains")
    return figure


# --- all of it --------------------------------------------------------------------------------------------------------


def shown() -> dict[str, plots.SvgFigure | str]:
    """What the front page shows, by name: figures with their alt texts, and numbers."""
    better, worse = reversal().times(30.0)
    paid = float(all_in_printed([100.0, 0.5], [100.0, 1.0], 100.0).payments[1])  # to an owner whose data are worth 2
    return {
        "hero": plots.inline(
            hero(),
            "Two panels of error against money. For the mean of all people the auction is below the contract, on the "
            "worst data far above it.",
        ),
        "card-ridge": plots.inline(
            ridge(),
            "Noise against the share of cautious people: if each has her own limit it grows slowly, if all are treated "
            "as the strictest it is at once at the top.",
        ),
        "card-contracts": plots.inline(
            contracts(),
            "Privacy loss against squared error: the biased answer needs less than the unbiased one where the error "
            "may be large, and neither passes a third line.",
        ),
        "card-together": plots.inline(
            together(), "A curve with two valleys, and a straight line across the hill between them."
        ),
        "card-before": plots.inline(
            before_the_data(), "Payments fall with the cost and stay above it; from some cost on nothing is bought."
        ),
        "card-auction": plots.inline(
            auction(),
            "Gain by reported valuation: as printed it is about a hundred for reports below 1 and 0 at the truth; "
            "repaired it is never above 0.",
        ),
        "gain": f"{paid - 2:g}",
        "paid": f"{paid:g}",
        "better": f"{better:.1f}",
        "worse": f"{worse:.1f}",
        "claims": str(len(ledger.load())),
    }
