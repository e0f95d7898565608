"""Which market for these sellers? All designs at the same expected money, under two yardsticks.

The *population error* is that of an estimate of the population's mean, on average over records; the
*worst error* is the largest that any records in the ball allow, for the mean of the sellers. Both
are mean squares and follow in closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from hdpm_lib.designs.rules import DESIGNS, Deal, Market, Task, check_task, with_delta
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
    """Return population and worst error of each draw, as mean squares.

    The reader shrinks by what the `task` guesses; errors are those by the `truth`.
    """
    shrink = _shrink(deal, task)
    sampling = sampling_error(deal.weights, deal.noise, truth.variance)
    population = population_error(sampling, truth.distance, shrink)
    radius = truth.sensitivity / 2
    if deal.shrink is None:
        shrink = best_worst_shrink(deal.weights, deal.noise, radius)
    return population, worst_error(deal.weights, deal.noise, radius, shrink)


def _shrink(deal: Deal, task: Task) -> Array:
    """Return the factor of each draw: the design's, or what is best for the population error."""
    if deal.shrink is not None:
        return deal.shrink
    sampling = sampling_error(deal.weights, deal.noise, task.variance)
    return best_shrink(sampling, task.distance)


def tied_errors(deal: Deal, ranks: Array, task: Task, truth: Task, tie: float) -> Array:
    r"""Return the population error of each draw, as a mean square, if records are tied to costs.

    Records are normal. With the normal score :math:`z_i` of her cost, a seller has a record whose
    mean lies :math:`t\tau z_i` farther from the centre than that of all, and whose variance is
    :math:`(1-t^2)\tau^2`: :doc:`/book/beyond/guide`. The `ranks` in (0, 1), of shape (draws, n),
    are those of the costs under their law; `tie` is :math:`t`, in [-1, 1].
    """
    score = stats.norm.ppf(np.clip(ranks, 1e-9, 1 - 1e-9))
    shrink = _shrink(deal, task)
    of_tie = shrink * tie * np.sqrt(truth.variance) * (deal.weights * score).sum(-1)
    of_shrinking = (1 - shrink) * np.sqrt(truth.distance)
    bias = of_tie - of_shrinking
    noise = np.where(shrink > 0, deal.noise, 0.0)
    sampling = sampling_error(deal.weights, noise, (1 - tie**2) * truth.variance)
    return np.asarray(bias**2 + shrink**2 * sampling)


def law_of(costs: ArrayLike) -> Any:
    """Make a law of costs that were observed.

    Parameters
    ----------
    costs : array_like of shape (n,)
        Costs of a unit of privacy loss of earlier sellers, not negative and not all equal.

    Returns
    -------
    scipy.stats law
        As many costs are in each of about the root of n intervals.

    Examples
    --------
    >>> law = law_of([1.0, 2.0, 4.0, 8.0])
    >>> float(law.cdf(3.0)), float(law.ppf(0.25))
    (0.5, 2.0)
    """
    c = check_finite(costs, "costs", 1, 0)
    intervals = max(1, round(np.sqrt(len(c))))
    edges = np.unique(np.quantile(c, np.linspace(0, 1, 1 + intervals)))
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
    delta: float = 0.0,
    designs: Sequence[str] = tuple(DESIGNS),
    draws: int = 40,
    rng: np.random.Generator | None = None,
) -> pd.DataFrame:
    r"""Compare what each market design makes of the same expected money.

    Costs are drawn from their law, each design of :mod:`hdpm_lib.designs.rules` is tuned to the
    budget and buys, and both errors follow in closed form: no data are needed.

    Parameters
    ----------
    costs : array_like of shape (n,) or scipy.stats law
        Costs of a unit of privacy loss, as far as the buyer knows them from a survey or earlier
        markets: the market then has n sellers with costs of the law :func:`law_of`. Or the law
        itself.
    task : Task
        The mean that the buyer wants, and public knowledge about the records.
    budget : float
        Expected sum of all payments, positive, in the unit of the costs.
    sellers : int, optional
        Number of sellers, needed with a law only.
    truth : Task, optional
        Variance and distance as they are, for the errors, if the buyer's guesses in `task` are
        wrong.
    tie : float, default 0.0
        Correlation of cost and record, as normal scores, in [-1, 1]: above 0 the records of dear
        sellers lie farther from the centre, on the side of the mean. Records are then taken to be
        normal. It counts in ``error`` alone.
    delta : float, default 0.0
        With one above 0 and below 1 the learner keeps :math:`(\varepsilon_i,\delta)` for each
        seller, by Gaussian noise. Sellers are paid for :math:`\varepsilon_i`, and what is bought is
        decided as without it.
    designs : sequence of str, optional
        Names in ``DESIGNS`` of :mod:`hdpm_lib.designs.rules`, all by default.
    draws : int, default 40
        How often the costs of all sellers are drawn, at least twice.
    rng : Generator, optional
        Source of the draws. By default the seed is 0, so that the table is the same each time.

    Returns
    -------
    DataFrame
        A row for each design and one for buying nothing, with the columns

        ``error``, ``error_se``
            Root mean squared population error, and its standard error over the draws of costs.
        ``worst``, ``worst_se``
            The same of the worst error.
        ``money``, ``rents``
            Mean sum of payments, and what is left of it when the sellers' costs are covered.
        ``sellers``
            Mean number of those who sell.
        ``mean_epsilon``, ``largest_epsilon``
            Mean privacy loss of all sellers, and mean of the largest one.

    Notes
    -----
    What to read from the table: :doc:`/book/beyond/guide`. Both standard errors are those at the
    tuned number. Do not trust them where a design buys nearly the same in each draw, as M2: what is
    uncertain then is that number, which is tuned on the same draws. Compare some seeds instead.

    With a `delta` weights go by the largest :math:`\mu_i` that the promise allows
    (:func:`~hdpm_lib.gaussian.largest_mu`), in place of :math:`\varepsilon_i`, and the mean square
    of the noise is :math:`ds^2/(\sum_i\mu_i)^2` in place of
    :math:`d(d+1)s^2/(\sum_i\varepsilon_i)^2`: more for numbers, less for long vectors.

    Examples
    --------
    >>> costs = [1.0, 1.5, 2.0, 3.0, 5.0] * 20
    >>> table = compare_markets(costs, Task(), 20.0, designs=["one posted price"])
    >>> table[["error", "worst"]].round(2)
                       error  worst
    one posted price    0.11   0.41
    nothing is bought   0.29   0.50
    """
    if hasattr(costs, "cdf"):
        law = costs
        n = check_count(sellers, "sellers")
    else:
        law = law_of(costs)
        n = np.size(costs)
        if sellers is not None:
            raise ValueError(f"sellers must not be given with an array of costs, got {sellers}")
    market = Market(task, law, budget)
    truth = task if truth is None else check_task(truth, "truth")
    check_number(tie, "tie", -1, 1)
    check_number(delta, "delta", 0, 1, ends="[)")
    for name in designs:
        check_choice(name, "designs", tuple(DESIGNS))
    rng = np.random.default_rng(0) if rng is None else check_generator(rng)
    ranks = rng.random((check_count(draws, "draws", 2), n))
    drawn = np.asarray(law.ppf(ranks))
    of_designs = each(_design_row, designs, delta, market, drawn, truth, tie)
    rows = dict(zip(designs, of_designs, strict=True))
    none = np.zeros_like(drawn)
    nothing = Deal(none, weights=none, noise=np.full(draws, np.inf), money=np.zeros(draws))
    rows["nothing is bought"] = _row(nothing, market, drawn, truth, tie)
    return pd.DataFrame(rows).T


def _design_row(
    design: str, delta: float, market: Market, costs: Array, truth: Task, tie: float
) -> dict[str, float]:
    """Return the row of one design."""
    deal = DESIGNS[design](market, costs)
    if delta > 0:
        deal = with_delta(deal, market.task, delta, design)
    return _row(deal, market, costs, truth, tie)


def _row(deal: Deal, market: Market, costs: Array, truth: Task, tie: float) -> dict[str, float]:
    """Return one row of the table."""
    population, worst = errors(deal, market.task, truth)
    if tie:
        population = tied_errors(deal, market.law.cdf(costs), market.task, truth, tie)
    row = {}
    for name, squares in (("error", population), ("worst", worst)):
        row[name] = np.sqrt(squares.mean())
        # by the delta method
        row[f"{name}_se"] = squares.std(ddof=1) / np.sqrt(len(squares)) / (2 * row[name])
    covered = (costs * deal.privacy_loss).sum(-1)
    row["money"] = deal.money.mean()
    row["rents"] = (deal.money - covered).mean()
    row["sellers"] = (deal.privacy_loss > 0).sum(-1).mean()
    row["mean_epsilon"] = deal.privacy_loss.mean()
    row["largest_epsilon"] = deal.privacy_loss.max(-1).mean()
    return row
