"""Another way to the weights of least error bound: a conic solver."""

from __future__ import annotations

import clarabel
import numpy as np
from scipy import sparse

from tests.bench.case import Array


def conic_weights(
    epsilon: Array, shares: Array, coordinates: int = 1, *, printed: bool = False
) -> Array:
    """Clarabel's weights: lambda and distances y of those who sell, in units of their noise, and T,
    the sum of all y.

    Problem 3 as printed forgets the others, and that weights are not negative.
    """
    sells = epsilon > 0
    k = sells.sum()
    sigma = 8 * coordinates / epsilon[sells] ** 2
    rest = 0.0 if printed else shares[~sells].sum()
    unit = np.minimum(1, sigma**-0.5)
    P = sparse.diags(np.concatenate([2 * sigma * unit**2, np.zeros(k), [2.0]]), format="csc")
    D = sparse.diags(unit)
    none = sparse.csc_matrix((k, 1))
    rows = [
        [unit[None], None, None],
        [None, -unit[None], np.ones((1, 1))],
        [D, -D, none],
        [-D, -D, none],
    ]
    right = np.concatenate([[1.0, rest], shares[sells], -shares[sells]])
    if not printed:
        rows = [*rows, [-sparse.identity(k), sparse.csc_matrix((k, k)), none]]
        right = np.append(right, np.zeros(k))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
    cones = [clarabel.ZeroConeT(2), clarabel.NonnegativeConeT(len(right) - 2)]
    A = sparse.bmat(rows, format="csc")
    found = clarabel.DefaultSolver(P, np.zeros(2 * k + 1), A, right, cones, settings).solve()
    weights = np.zeros(len(epsilon))
    weights[sells] = np.maximum(unit * found.x[:k], -np.inf if printed else 0)
    return np.asarray(weights / weights.sum())
