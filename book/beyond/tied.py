r"""Costs that are tied to the data: the population error of a deal, exactly, given the costs.

A seller's cost and her record are both increasing functions of two normal variables with the correlation `r` (a normal
copula). Given her cost, her record has the mean and the variance that quadrature gives, so no data are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from hdpm_lib.designs.rules import Deal, Task
from hdpm_lib.learners.weighted_mean import best_shrink, sampling_error

Array = NDArray[np.float64]
CELLS = 400  # of equal probability, for the second normal variable


def record_given_cost(quantile: Callable[[Array], Array], correlation: float, ranks: Array) -> tuple[Array, Array]:
    """Mean and variance of a record, for costs of these ranks in (0, 1), if `quantile` is that of the records."""
    middle = stats.norm.ppf((np.arange(CELLS) + 0.5) / CELLS)
    grid = stats.norm.ppf((np.arange(4 * CELLS) + 0.5) / (4 * CELLS))  # of the cost; in between, interpolated
    x = quantile(stats.norm.cdf(correlation * grid[:, None] + np.sqrt(1 - correlation**2) * middle))
    score = stats.norm.ppf(ranks)
    return np.interp(score, grid, x.mean(-1)), np.interp(score, grid, x.var(-1))


def tied_error(
    deal: Deal,
    costs: Array,
    law: Any,
    quantile: Callable[[Array], Array],
    centre: float,
    correlation: float,
    task: Task,
) -> Array:
    """Population error of each draw of costs, as a mean square, for numbers with this `quantile` function.

    The reader's factor of shrinkage follows from the guesses in `task`, as if costs told nothing.
    """
    mean, variance = record_given_cost(quantile, correlation, np.clip(law.cdf(costs), 1e-9, 1 - 1e-9))
    guess = sampling_error(deal.weights, deal.noise, task.variance)
    W = best_shrink(guess, task.distance) if deal.shrink is None else deal.shrink
    true_mean = quantile((np.arange(4000) + 0.5) / 4000).mean()
    off = W * (deal.weights * (mean - centre)).sum(-1) - (true_mean - centre)
    noise = np.where(W > 0, deal.noise, 0.0)
    return np.asarray(off**2 + W**2 * ((deal.weights**2 * variance).sum(-1) + noise))
