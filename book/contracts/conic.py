"""The conic solver Clarabel, tried at two tolerances."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hdpm_lib.validation import extra

with extra("book"):
    import clarabel

Array = NDArray[np.float64]

TOLERANCES = (1e-11, 1e-9)  # tried in turn
LOOSEST = 1e-5  # what may do where rounding ends the solver's progress


def solve_cone(
    cost: Array, A: Any, right: Array, cones: list[Any], P: Any = None, *, loosest: float = LOOSEST
) -> Array:
    """Return the minimiser of `z P z / 2 + cost z` with `right - A z` in the cones.

    Raises
    ------
    RuntimeError
        If the solver gives up, with its status.
    """
    P = (
        sparse.csc_matrix((len(cost), len(cost)))
        if P is None
        else sparse.csc_matrix(sparse.triu(P))
    )
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    for tolerance in TOLERANCES:
        for name in ("feas", "gap_abs", "gap_rel"):
            setattr(settings, f"tol_{name}", tolerance)
            setattr(settings, f"reduced_tol_{name}", loosest)
        solution = clarabel.DefaultSolver(
            P, cost, sparse.csc_matrix(A), right, cones, settings
        ).solve()
        if str(solution.status) in ("Solved", "AlmostSolved"):
            return np.array(solution.x)
    raise RuntimeError(f"the conic solver stopped with status {solution.status}")
