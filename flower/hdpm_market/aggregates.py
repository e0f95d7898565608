"""One gradient from those of many owners, of shape (owners, classes, features).

`weighted` trusts all of them, the others bear `liars` who send what they like.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hdpm_lib.aggregation import least_error_weights

Array = NDArray[np.float64]


def weighted(gradients: Array, told: Array, records: Array) -> Array:
    """The sum with the weights of least error; `told` is 0 for a gradient that did not arrive."""
    weights = np.where(told > 0, least_error_weights(told, records), 0.0)
    return np.einsum("n,n...->...", weights, gradients)


def trimmed_mean(gradients: Array, liars: int) -> Array:
    """For each coordinate the mean without the `liars` largest and smallest."""
    return np.sort(gradients, axis=0)[liars : len(gradients) - liars].mean(axis=0)


def krum(gradients: Array, liars: int) -> Array:
    """The gradient that is nearest to all but the `liars` farthest: Blanchard et al. 2017."""
    rows = gradients.reshape(len(gradients), -1)
    apart = np.sort(((rows[:, None] - rows[None]) ** 2).sum(axis=-1), axis=1)
    near = max(1, len(rows) - liars - 2)
    return gradients[apart[:, 1 : near + 1].sum(axis=1).argmin()]


ROBUST = {"trimmed mean": trimmed_mean, "krum": krum}
