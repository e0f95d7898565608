"""Weights of least error bound: the exact solver against a differentiable convex layer and a conic solver, and growth.

Run by ``make bench``. Ten owners who all sell, losses as FL-Market's auctions with eight levels buy them, sizes
lognormal. cvxpylayers is not among the requirements; where it is installed with JAX, its layer solves the same batch,
and the derivative of the sum of squared weights that it gives is compared with central differences. Times are medians
over repeats; what takes seconds runs once.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from typing import Any

import clarabel
import numpy as np
from scipy import sparse
from tqdm import tqdm

from hdpm_lib.aggregation import error_bound, opt_aggr, weights_jacobian
from tests.bench.clock import once, timed

BATCH, OWNERS = 1024, 10
SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)


def conic_weights(
    epsilon: np.ndarray, shares: np.ndarray, coordinates: int = 1, *, printed: bool = False
) -> np.ndarray:
    """Clarabel's weights: lambda and distances y of those who sell, in units of their noise, and T, the sum of all y.

    Problem 3 as printed forgets the others, and that weights are not negative.
    """
    sells = epsilon > 0
    k, sigma, rest = sells.sum(), 8 * coordinates / epsilon[sells] ** 2, 0.0 if printed else shares[~sells].sum()
    unit = np.minimum(1, sigma**-0.5)
    P = sparse.diags(np.concatenate([2 * sigma * unit**2, np.zeros(k), [2.0]]), format="csc")
    D, none = sparse.diags(unit), sparse.csc_matrix((k, 1))
    rows = [[unit[None], None, None], [None, -unit[None], np.ones((1, 1))], [D, -D, none], [-D, -D, none]]
    right = np.concatenate([[1.0, rest], shares[sells], -shares[sells]])
    if not printed:
        rows, right = [*rows, [-sparse.identity(k), sparse.csc_matrix((k, k)), none]], np.append(right, np.zeros(k))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
    cones, A = [clarabel.ZeroConeT(2), clarabel.NonnegativeConeT(len(right) - 2)], sparse.bmat(rows, format="csc")
    found = clarabel.DefaultSolver(P, np.zeros(2 * k + 1), A, right, cones, settings).solve()
    weights = np.zeros(len(epsilon))
    weights[sells] = np.maximum(unit * found.x[:k], -np.inf if printed else 0)
    return np.asarray(weights / weights.sum())


def convex_layer() -> Any:
    """The quadratic program as a layer of cvxpylayers, from losses and shares to weights; None if it is not there."""
    if not all(importlib.util.find_spec(name) for name in ("cvxpylayers", "jax")):
        return None
    import cvxpy as cp
    import jax
    from cvxpylayers.jax import CvxpyLayer

    noise, shares = cp.Parameter(OWNERS, nonneg=True), cp.Parameter(OWNERS)
    x, y = cp.Variable(OWNERS), cp.Variable(OWNERS)
    bound = cp.sum_squares(cp.multiply(noise, x)) + cp.square(cp.sum(y))
    rules = [cp.sum(x) == 1, y >= x - shares, y >= shares - x, x >= 0]
    layer = CvxpyLayer(cp.Problem(cp.Minimize(bound), rules), parameters=[noise, shares], variables=[x])

    def forward(epsilon: np.ndarray, sizes: np.ndarray, settings: dict[str, float]) -> Any:
        share = jax.numpy.asarray(sizes / sizes.sum(-1, keepdims=True))
        return jax.vjp(lambda e: layer(math.sqrt(8) / e, share, solver_args=settings)[0], jax.numpy.asarray(epsilon))

    return forward


def against_a_layer(epsilon: np.ndarray, sizes: np.ndarray, exact: float) -> None:
    forward = convex_layer()
    if forward is None:
        print("cvxpylayers is not installed: pip install cvxpylayers jax, into an environment of its own")
        return
    import jax

    with jax.enable_x64(True):
        forward(epsilon[:2], sizes[:2], {})[1](epsilon[:2])  # caches warm
        for name, settings in (
            ("cvxpylayers", {}),
            ("cvxpylayers, 1e-12", {"eps_abs": 1e-12, "eps_rel": 1e-12, "max_iters": 100_000}),
        ):
            slow, (weights, backward) = once(lambda settings=settings: forward(epsilon, sizes, settings))
            line = f"{name:24}{slow:11.4f}{slow / exact:9,.0f}"
            print(f"{line}{excess(np.asarray(weights), epsilon, sizes):14.1e}")
        behind, gradient = once(lambda: np.asarray(backward(2 * weights)[0]))
    print(f"{'its derivative':24}{behind:11.4f}{behind / exact:9,.0f}")

    best = opt_aggr(epsilon, sizes)
    implicit = (2 * best[..., None] * weights_jacobian(epsilon, sizes)).sum(-2)
    h = 1e-6 * np.eye(OWNERS)
    squares = [(opt_aggr(epsilon[:, None] + s * h, sizes[:, None]) ** 2).sum(-1) for s in (1, -1)]
    centre = (squares[0] - squares[1]) / 2e-6
    for name, found in (("the layer", gradient), ("implicit", implicit)):
        off = np.abs(found - centre).max(-1)
        print(f"derivative off by more than 0.001, {name}: {(off > 1e-3).mean():.1%}, at most {off.max():.1e}")
    kept = (np.abs(best - sizes / sizes.sum(-1, keepdims=True)) < 1e-12).sum(-1)
    off = np.abs(gradient - centre).max(-1) > 1e-3
    shares = ", ".join(f"{k}: {off[kept == k].mean():.0%}" for k in range(4))
    print(f"of the layer, by the number of owners who keep their shares: {shares}")


def excess(weights: np.ndarray, epsilon: np.ndarray, sizes: np.ndarray) -> float:
    """Largest relative excess of the bound of weights, moved onto the simplex, over that of the exact ones."""
    weights = np.maximum(weights, 0)
    bound = error_bound(weights / weights.sum(-1, keepdims=True), epsilon, sizes)
    return float((bound / error_bound(opt_aggr(epsilon, sizes), epsilon, sizes) - 1).max())


def conic_batch(epsilon: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    return np.array([conic_weights(e, d / d.sum()) for e, d in zip(epsilon, sizes, strict=True)])


def main() -> None:
    rng = np.random.default_rng(0)
    epsilon = rng.uniform(0.5, 2, (BATCH, OWNERS)) * rng.integers(1, 9, (BATCH, OWNERS)) / 8
    sizes = np.maximum(10, rng.lognormal(3, 2, (BATCH, OWNERS)))
    exact, _ = timed(lambda: opt_aggr(epsilon, sizes))
    print(f"\nWeights of least error bound, {BATCH:,} instances of {OWNERS} owners.")
    print(f"{'':24}{'seconds':>11}{'times':>9}{'rel. excess':>14}\n{'opt_aggr':24}{exact:11.4f}{1:9}{0:14.1e}")
    slow, weights = once(lambda: conic_batch(epsilon, sizes))
    print(f"{'clarabel':24}{slow:11.4f}{slow / exact:9,.0f}{excess(weights, epsilon, sizes):14.1e}")
    against_a_layer(epsilon, sizes, exact)

    print(f"\nGrowth, one instance.\n{'n':>11}{'seconds':>11}{'ns/(n log2 n)':>15}")
    for n in tqdm(SIZES, desc="growth", leave=False, disable=not sys.stderr.isatty()):
        losses, records = rng.uniform(0.5, 2, n), rng.lognormal(3, 2, n)
        seconds, _ = timed(lambda e=losses, d=records: opt_aggr(e, d))
        print(f"{n:11,}{seconds:11.5f}{1e9 * seconds / (n * math.log2(n)):15.1f}")
