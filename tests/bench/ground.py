"""Weights for unequal noise, and noise itself."""

from __future__ import annotations

import math

import numpy as np

from hdpm_lib.aggregation import error_bound, least_error_weights
from hdpm_lib.discrete import discrete_laplace, lattice_laplace
from hdpm_lib.noise import spherical_laplace
from tests.bench.aggregation import conic_weights
from tests.bench.case import Arguments, Array, Case, Generator, Peer

OWNERS = 10  # of an auction
SCALE, DRAWS = 1000, "draws"


def one(n: int, rng: Generator) -> Arguments:
    return rng.uniform(0.5, 2, n), rng.lognormal(3, 2, n)


def batch(n: int, rng: Generator) -> Arguments:
    """Losses as FL-Market's auctions with eight levels buy them, sizes lognormal."""
    shape = n // OWNERS, OWNERS
    losses = rng.uniform(0.5, 2, shape) * rng.integers(1, 9, shape) / 8
    return losses, np.maximum(10, rng.lognormal(3, 2, shape))


def excess(arguments: Arguments, ours: Array, theirs: Array) -> float:
    return float(error_bound(theirs, *arguments) / error_bound(ours, *arguments) - 1)


def sized(n: int, rng: Generator) -> Arguments:
    return rng, n


def by_numpy(rng: Generator, n: int) -> Array:
    """The difference of two geometric numbers: the same law but for rounding."""
    p = -math.expm1(-1 / SCALE)
    return rng.geometric(p, n) - rng.geometric(p, n)


def by_clarabel(epsilon: Array, sizes: Array) -> Array:
    return conic_weights(epsilon, sizes / sizes.sum())


CLARABEL = Peer("Clarabel", by_clarabel, 1_000, excess, "relative excess of the bound")
CASES = (
    Case(least_error_weights, one, None, "one market", "owners", peer=CLARABEL),
    Case(least_error_weights, batch, None, "markets of ten", "owners, ten a market"),
    Case(spherical_laplace, sized, lambda rng, n: spherical_laplace(12, 2.0, rng=rng, size=n), "12 dimensions", DRAWS),
    Case(
        discrete_laplace,
        sized,
        lambda rng, n: discrete_laplace(SCALE, rng=rng, size=n),
        "scale 1000",
        DRAWS,
        peer=Peer("NumPy's geometric numbers, not exact", by_numpy, 100_000),
    ),
    Case(lattice_laplace, sized, lambda rng, n: lattice_laplace(2, 1, rng=rng, size=n), "two dimensions", DRAWS),
)
