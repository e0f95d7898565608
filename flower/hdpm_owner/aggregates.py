"""One gradient from those of many owners, of shape (owners, classes, features), as a market makes
it, and an auditor again.

`weighted` trusts all of them, the others bear `liars` who send what they like.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from hdpm_lib.aggregation import least_error_weights
from hdpm_owner.charter import Agreed
from hdpm_owner.deals import Deal
from hdpm_owner.owner import noise_scale

Array = NDArray[np.float64]


def weighted(gradients: Array, told: Array, records: Array) -> Array:
    """Compute the sum with the weights of least error; `told` is 0 for a gradient that did not
    arrive.
    """
    weights = np.where(told > 0, least_error_weights(told, records), 0.0)
    return np.einsum("n,n...->...", weights, gradients)


def trimmed_mean(gradients: Array, liars: int) -> Array:
    """For each coordinate the mean without the `liars` largest and smallest."""
    return np.sort(gradients, axis=0)[liars : len(gradients) - liars].mean(axis=0)


def krum(gradients: Array, liars: int) -> Array:
    """Find the gradient that is nearest to all but the `liars` farthest: Blanchard et al. 2017."""
    rows = gradients.reshape(len(gradients), -1)
    apart = np.sort(((rows[:, None] - rows[None]) ** 2).sum(axis=-1), axis=1)
    near = max(1, len(rows) - liars - 2)
    return gradients[apart[:, 1 : near + 1].sum(axis=1).argmin()]


ROBUST = {"trimmed mean": trimmed_mean, "krum": krum}


def mean_step(deal: Deal) -> float:
    """Return what a step of the grid is worth in her mean gradient."""
    return deal.spacing / (deal.records if deal.unit == "record" else 1)


def precision(deal: Deal, loss: float) -> float:
    """Return the epsilon at which FL-Market's owner, whom OptAggr knows, sends as much noise."""
    scale = float(noise_scale(deal, loss)) * mean_step(deal)
    sd = scale if deal.noise == "gaussian" else sqrt(2) * scale
    return 2 * sqrt(2) * deal.clip_norm / sd


def aggregate(plan: Agreed, gradients: Array, told: Array, records: Array) -> Array | None:
    """Return a gradient, or None if fewer have arrived than are needed; `told` are precisions."""
    here = told > 0
    if here.sum() < plan.needed:
        return None
    if plan.aggregate in ROBUST:
        return ROBUST[plan.aggregate](gradients[here], plan.liars)
    return weighted(gradients, told, records)
