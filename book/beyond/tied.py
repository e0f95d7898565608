r"""Costs that are tied to the data: the population error of a deal, exactly, given the costs.

A seller's cost and her record are both increasing functions of two normal variables with the
correlation `correlation`, in [-1, 1] (a normal copula; below 0 the cheap sellers have the large
records). Given her cost, her record has the mean and the variance that quadrature gives, so no data
are drawn.

Throughout, `quantile` is the quantile function of a record, from (0, 1) to numbers in an interval
with the middle `centre`; `costs` of shape (draws, n) are what the deal was made of, and `law` their
law, as in :mod:`hdpm_lib.markets.costs`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from hdpm_lib.designs.rules import Deal, Task
from hdpm_lib.learners.weighted_mean import best_shrink, sampling_error
from hdpm_lib.validation import check_finite, check_number

Array = NDArray[np.float64]
Quantile = Callable[[Array], Array]
CELLS = 400  # of equal probability, for the second normal variable


def record_given_cost(
    quantile: Quantile, correlation: float, ranks: ArrayLike
) -> tuple[Array, Array]:
    """Return the mean and variance of a record, for costs of these `ranks` in (0, 1), of any shape.

    Examples
    --------
    >>> mean, variance = record_given_cost(lambda u: u, 0.6, [0.025, 0.5])  # uniform records
    >>> mean.round(3), variance.round(4)
    (array([0.179, 0.5  ]), array([0.0314, 0.0638]))
    """
    r = check_number(correlation, "correlation", -1, 1)
    score = ndtri(check_finite(ranks, "ranks", low=0, high=1, ends="()"))
    grid, mean, variance = _on_grid(quantile, r)
    return np.interp(score, grid, mean), np.interp(score, grid, variance)


@lru_cache(maxsize=64)  # designs are compared at the same correlations
def _on_grid(quantile: Quantile, correlation: float) -> tuple[Array, Array, Array]:
    """Return scores of costs, and mean and variance of a record at each; in between one
    interpolates.
    """
    middle = ndtri((np.arange(CELLS) + 0.5) / CELLS)
    # as fine among the few who sell; one if costs tell nothing
    points = 2 * CELLS + 1 if correlation else 1
    grid = np.linspace(-6.1, 6.1, points)  # beyond all ranks
    x = quantile(ndtr(correlation * grid[:, None] + np.sqrt(1 - correlation**2) * middle))
    return grid, x.mean(-1), x.var(-1)


@lru_cache(maxsize=64)
def mean_record(quantile: Quantile) -> float:
    """Return the mean of a record."""
    return float(quantile((np.arange(4000) + 0.5) / 4000).mean())


def ranks_of(costs: Array, law: Any) -> Array:
    """Return ranks of costs under their law, off the ends."""
    return np.clip(law.cdf(costs), 1e-9, 1 - 1e-9)


def buyers_factor(deal: Deal, task: Task) -> Array:
    """Return the factor that shrinks the release, shape (draws,): the buyer's rests on the guesses
    in `task`.
    """
    guess = sampling_error(deal.weights, deal.noise, task.variance)
    return np.asarray(best_shrink(guess, task.distance) if deal.shrink is None else deal.shrink)


def tied_error(
    deal: Deal,
    costs: Array,
    law: Any,
    quantile: Quantile,
    centre: float,
    correlation: float,
    task: Task,
) -> Array:
    """Return the population error of each draw of costs, as a mean square, shape (draws,).

    The buyer shrinks by the guesses in `task`, as if costs told nothing.
    """
    mean, variance = record_given_cost(quantile, correlation, ranks_of(costs, law))
    W = buyers_factor(deal, task)
    off = W * (deal.weights * (mean - centre)).sum(-1) - (mean_record(quantile) - centre)
    noise = np.where(W > 0, deal.noise, 0.0)
    return np.asarray(off**2 + W**2 * ((deal.weights**2 * variance).sum(-1) + noise))


def tied_costs(values: Array, correlation: float, law: Any, rng: np.random.Generator) -> Array:
    """Return costs of this `law` whose normal scores have this correlation with those of the
    `values`, shape (n,).

    Ties are broken at random.
    """
    n = len(values)
    score = np.empty(n)
    score[np.lexsort((rng.random(n), values))] = ndtri((np.arange(n) + 0.5) / n)
    z = correlation * score + np.sqrt(1 - correlation**2) * rng.standard_normal(n)
    return np.asarray(law.ppf(ndtr(z)))
