"""Weights for unequal noise, and noise itself."""

from __future__ import annotations

import math

import numpy as np

from hdpm_lib.aggregation import least_error_weights
from hdpm_lib.discrete import discrete_laplace, lattice_laplace
from hdpm_lib.noise import spherical_laplace
from tests.bench.aggregation import batch, conic_batch, excess, one
from tests.bench.case import Array, Case, Generator, Peer


def by_numpy(scale: int, rng: Generator, n: int) -> Array:
    """The difference of two geometric numbers: the same law but for rounding."""
    p = -math.expm1(-1 / scale)
    return rng.geometric(p, n) - rng.geometric(p, n)


def by_norm(rng: Generator, n: int) -> Array:
    """A direction and a length for each draw, as a direct script would."""
    found = np.empty((n, 12))
    for k in range(n):
        direction = rng.standard_normal(12)
        found[k] = rng.gamma(12, 0.5) * direction / np.linalg.norm(direction)
    return found


WORST = "largest relative excess of the bound"
CASES = (
    Case(
        least_error_weights,
        one,
        variant="one market",
        counts="owners",
        peers=(Peer("Clarabel", conic_batch, 1_000, excess, WORST),),
    ),
    Case(
        least_error_weights,
        batch,
        variant="markets of ten",
        counts="owners, ten a market",
        peers=(Peer("Clarabel, one after the other", conic_batch, 10_000, excess, WORST),),
    ),
    Case(
        spherical_laplace,
        lambda n, rng: (rng, n),
        lambda rng, n: spherical_laplace(12, 2.0, rng=rng, size=n),
        variant="12 dimensions",
        counts="draws",
        peers=(Peer("a loop with NumPy", by_norm, 10_000),),
    ),
    Case(
        discrete_laplace,
        lambda n, rng: (1000, rng, n),
        lambda scale, rng, n: discrete_laplace(scale, rng=rng, size=n),
        variant="scale 1000",
        counts="draws",
        peers=(Peer("NumPy's geometric numbers, not exact", by_numpy, 100_000),),
    ),
    Case(
        lattice_laplace,
        lambda n, rng: (rng, n),
        lambda rng, n: lattice_laplace(2, 1, rng=rng, size=n),
        variant="two dimensions",
        counts="draws",
    ),
)
