"""Weights for unequal noise, and noise itself."""

from __future__ import annotations

import math

import numpy as np

from hdpm_lib.aggregation import least_error_weights
from hdpm_lib.discrete import discrete_laplace, lattice_laplace
from hdpm_lib.noise import spherical_laplace
from tests.bench.aggregation import batch, conic_batch, excess, one
from tests.bench.case import Arguments, Array, Case, Generator

SCALE, DRAWS = 1000, "draws"


def sized(n: int, rng: Generator) -> Arguments:
    return rng, n


def by_numpy(rng: Generator, n: int) -> Array:
    """The difference of two geometric numbers: the same law but for rounding."""
    p = -math.expm1(-1 / SCALE)
    return rng.geometric(p, n) - rng.geometric(p, n)


def by_norm(rng: Generator, n: int) -> Array:
    """A direction and a length for each draw, as a direct script would."""
    directions = (rng.standard_normal(12) for _ in range(n))
    return np.array([rng.gamma(12, 0.5) * x / np.linalg.norm(x) for x in directions])


WORST = "largest relative excess of the bound"
CASES = (
    Case(least_error_weights, one, None, "one market", "owners").beside("Clarabel", conic_batch, 1_000, excess, WORST),
    Case(least_error_weights, batch, None, "markets of ten", "owners, ten a market").beside(
        "Clarabel, one after the other", conic_batch, 10_000, excess, WORST
    ),
    Case(
        spherical_laplace, sized, lambda rng, n: spherical_laplace(12, 2.0, rng=rng, size=n), "12 dimensions", DRAWS
    ).beside("a loop with NumPy", by_norm, 10_000),
    Case(discrete_laplace, sized, lambda rng, n: discrete_laplace(SCALE, rng=rng, size=n), "scale 1000", DRAWS).beside(
        "NumPy's geometric numbers, not exact", by_numpy, 100_000
    ),
    Case(lattice_laplace, sized, lambda rng, n: lattice_laplace(2, 1, rng=rng, size=n), "two dimensions", DRAWS),
)
