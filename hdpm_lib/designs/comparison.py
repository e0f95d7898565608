"""All designs at the same expected money, under two yardsticks: which market for these sellers?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from hdpm_lib.designs.rules import DESIGNS, Deal, Market, Task
from hdpm_lib.learners.weighted_mean import (
    best_shrink,
    best_worst_shrink,
    population_error,
    sampling_error,
    worst_error,
)
from hdpm_lib.spread import each
from hdpm_lib.validation import (
    check_choice,
    check_count,
    check_finite,
    check_generator,
    check_number,
)

Array = NDArray[np.float64]


def errors(deal: Deal, task: Task, truth: Task) -> tuple[Array, Array]:
    """Population and worst error of each draw, as mean squares; factors by the `task`, errors by
    the `truth`.
    """
    guess = sampling_error(deal.weights, deal.noise, task.variance)
    shrink = best_shrink(guess, task.distance) if deal.shrink is None else deal.shrink
    population = population_error(
        sampling_error(deal.weights, deal.noise, truth.variance), truth.distance, shrink
    )
    radius = truth.sensitivity / 2
    cautious = (
        best_worst_shrink(deal.weights, deal.noise, radius) if deal.shrink is None else deal.shrink
    )
    return population, worst_error(deal.weights, deal.noise, radius, cautious)


def tied_errors(deal: Deal, ranks: Array, task: Task, truth: Task, tie: float) -> Array:
    r"""Population error of each draw, as a mean square, if records are normal and tied to the
    `ranks` of the costs.

    With the normal score :math:`z_i` of her cost, a seller has a record whose mean lies
    :math:`t\tau z_i` farther from the centre than that of all, and whose variance is
    :math:`(1-t^2)\tau^2`: :doc:`/book/beyond/guide`. The `ranks` in (0, 1), of shape (draws, n),
    are those of the costs under their law; `tie` is :math:`t`, in [-1, 1].
    """
    z = stats.norm.ppf(np.clip(ranks, 1e-9, 1 - 1e-9))
    guess = sampling_error(deal.weights, deal.noise, task.variance)
    shrink = best_shrink(guess, task.distance) if deal.shrink is None else deal.shrink
    off = shrink * tie * np.sqrt(truth.variance) * (deal.weights * z).sum(-1) - (
        1 - shrink
    ) * np.sqrt(truth.distance)
    left = sampling_error(
        deal.weights, np.where(shrink > 0, deal.noise, 0.0), (1 - tie**2) * truth.variance
    )
    return np.asarray(off**2 + shrink**2 * left)


def law_of(costs: ArrayLike) -> Any:
    """A law for costs that were observed, shape (n,): as many are in each of about the root of n
    intervals.

    Examples
    --------
    >>> float(law_of([1.0, 2.0, 4.0, 8.0]).cdf(3.0)), float(law_of([1.0, 2.0, 4.0, 8.0]).ppf(0.25))
    (0.5, 2.0)
    """
    c = check_finite(costs, "costs", 1, 0)
    edges = np.unique(np.quantile(c, np.linspace(0, 1, 1 + max(1, round(np.sqrt(len(c)))))))
    if len(edges) < 2:
        raise ValueError(
            f"costs must differ, got {len(c)} times {c[0]}: if all costs are equal there is no"
            " secret to buy"
        )
    counts, _ = np.histogram(c, edges)
    return stats.rv_histogram((counts / np.diff(edges), edges), density=True)


def compare_markets(
    costs: Any,
    task: Task,
    budget: float,
    *,
    sellers: int | None = None,
    truth: Task | None = None,
    tie: float = 0.0,
    designs: Sequence[str] = tuple(DESIGNS),
    draws: int = 40,
    rng: np.random.Generator | None = None,
) -> pd.DataFrame:
    """What each design of :mod:`hdpm_lib.designs.rules` makes of the same expected money.

    Costs are drawn from their law, each design is tuned to the budget and buys, and both errors
    follow in closed form: no data are needed. What to read from it: :doc:`/book/beyond/guide`.

    Parameters
    ----------
    costs : array of shape (n,) or scipy.stats law
        What a unit of privacy loss costs each seller, as far as the buyer knows from a survey or
        earlier markets: the market then has n sellers with costs of the law :func:`law_of`. Or the
        law itself.
    task : Task
    budget : float, positive, in the unit of the costs
    sellers : int
        Number of sellers, needed with a law only.
    truth : Task, optional
        Variance and distance as they are, for the errors, if the buyer's guesses in `task` are
        wrong.
    tie : float in [-1, 1], default 0
        Correlation of cost and record, as normal scores: above 0 the records of dear sellers lie
        farther from the centre, on the side of the mean. Records are then taken to be normal. It
        counts in ``error`` alone.
    designs : sequence of names in ``DESIGNS`` of :mod:`hdpm_lib.designs.rules`, default all
    draws : int, default 40, at least 2: of the costs of all sellers
    rng : Generator, optional, default with the seed 0, so that the table is the same each time

    Returns
    -------
    DataFrame
        A row for each design and one for buying nothing, with the columns

        ``error``, ``error_se``: root mean squared population error and its standard error over the
        draws of costs; ``worst``, ``worst_se``: the same of the worst error, both standard errors
        at the tuned number: do not trust them where a design buys nearly the same in each draw, as
        M2, for what is uncertain then is that number, which is tuned on the same draws; compare
        some seeds instead; ``money``, ``rents``: mean sum of payments, and what is left of it when
        the sellers' costs are covered; ``sellers``: mean number of those who sell;
        ``mean_epsilon``, ``largest_epsilon``: mean privacy loss of all sellers, and mean of the
        largest one.

    Examples
    --------
    >>> costs = [1.0, 1.5, 2.0, 3.0, 5.0] * 20
    >>> table = compare_markets(costs, Task(), 20.0, designs=["one posted price"])
    >>> table[["error", "worst"]].round(2)
                       error  worst
    one posted price    0.11   0.41
    nothing is bought   0.29   0.50
    """
    if hasattr(costs, "ppf"):
        law = costs
        n = check_count(sellers, "sellers")
    else:
        law = law_of(costs)
        n = np.size(costs)
        if sellers is not None:
            raise ValueError(f"sellers must not be given with an array of costs, got {sellers}")
    market = Market(task, law, budget)
    rng = np.random.default_rng(0) if rng is None else check_generator(rng)
    drawn = np.asarray(law.ppf(rng.random((check_count(draws, "draws", 2), n))))
    for name in designs:
        check_choice(name, "designs", tuple(DESIGNS))
    check_number(tie, "tie", -1, 1)
    given = market, drawn, task, task if truth is None else truth, tie
    rows = dict(zip(designs, each(_bought, designs, *given), strict=True))
    none = np.zeros_like(drawn)
    nothing = Deal(none, weights=none, noise=np.full(draws, np.inf), money=np.zeros(draws))
    rows["nothing is bought"] = _row(nothing, *given)
    return pd.DataFrame(rows).T


def _bought(design: str, market: Market, costs: Array, *given: Any) -> dict[str, float]:
    """The row of one design."""
    return _row(DESIGNS[design](market, costs), market, costs, *given)


def _row(
    deal: Deal, market: Market, costs: Array, task: Task, truth: Task, tie: float
) -> dict[str, float]:
    """One row of the table."""
    population, worst = errors(deal, task, truth)
    if tie:
        population = tied_errors(deal, np.asarray(market.law.cdf(costs)), task, truth, tie)
    row = {}
    for name, squares in (("error", population), ("worst", worst)):
        row[name] = np.sqrt(squares.mean())
        # by the delta method
        row[f"{name}_se"] = squares.std(ddof=1) / np.sqrt(len(squares)) / (2 * row[name])
    bought = deal.privacy_loss > 0
    return row | {
        "money": deal.money.mean(),
        "rents": (deal.money - (costs * deal.privacy_loss).sum(-1)).mean(),
        "sellers": bought.sum(-1).mean(),
        "mean_epsilon": deal.privacy_loss.mean(),
        "largest_epsilon": deal.privacy_loss.max(-1).mean(),
    }
