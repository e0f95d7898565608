"""Aggregating gradients of unequal noise: the experiments of the page with this name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from hdpm_book.federated.partition import KINDS
from hdpm_book.federated.study import study_markets
from hdpm_lib.aggregation import error_bound, least_error_weights, size_weights
from hdpm_lib.auctions.bids import Bids
from hdpm_lib.validation import FALSE_ALARM

Array = NDArray[np.float64]
Profiles = dict[str, Bids]
CHANCES = (0.2, 0.5, 0.8, 1.0)  # that an owner sells
WIDTH = 615  # coordinates of a model of five classes and 122 features


def profiles() -> Profiles:
    """The book's test profiles for both laws of the sizes."""
    return {kind: study_markets(2000, kind)[0] for kind in KINDS}


def four_rules(epsilon: ArrayLike, sizes: ArrayLike) -> dict[str, Array]:
    """Weights by the exact solution, by Problem 3 as printed, as the published code solves it, and by ConvAggr."""
    return {
        "least error bound": least_error_weights(epsilon, sizes),
        "Problem 3, as printed": opt_aggr_printed(epsilon, sizes),
        "published code": opt_aggr_printed(epsilon, sizes, renormalised=True),
        "ConvAggr": size_weights(epsilon, sizes),
    }


def on_simplex(markets: Profiles) -> bool:
    """Three rules give weights that are not negative, sum to 1 and are 0 for a loss of 0; ConvAggr gives the shares."""
    rng, off = np.random.default_rng(1), []
    for bids in markets.values():
        epsilon = bids.privacy_budget * rng.integers(0, 9, bids.sizes.shape) / 8
        epsilon[:, 0] = bids.privacy_budget[:, 0]
        for rule in (least_error_weights, opt_aggr_printed, size_weights):
            weights = rule(epsilon, bids.sizes)
            off += [abs(weights.sum(-1) - 1).max(), -weights.min(), weights[epsilon == 0].max()]
        off.append(abs(size_weights(bids.privacy_budget, bids.sizes) - bids.shares).max())
    return bool(np.max(off) < 1e-12)


# --- what is bounded --------------------------------------------------------------------------------------------------


def squared_errors(epsilon: Array, sizes: Array, weights: Array, D: int, rng: np.random.Generator, draws: int) -> Array:
    """Squared errors of the worst-case gradients in `D` coordinates, L = 1."""
    signs = np.where(weights >= sizes / sizes.sum(), 1.0, -1.0)
    noise = rng.laplace(size=(draws, D, len(epsilon))) * (2 / epsilon)
    error = noise @ weights
    error[:, 0] += (weights - sizes / sizes.sum()) @ signs
    return np.asarray((error**2).sum(1))


@dataclass(frozen=True)
class Worst:
    """Distances of simulated mean squares from the formula, in standard errors.

    `z`: largest size with the variance of all coordinates; `z_one`: smallest with that of one coordinate, where there
    are more; `z_full`: with 615 coordinates. `bound` is that of one coordinate, `mean` the simulated mean square.
    """

    z: float
    z_one: float
    z_full: float
    limit: float
    bound: float
    mean: float

    @property
    def holds(self) -> bool:
        """All distances with the whole variance are within the limit, those with one coordinate's beyond it."""
        return bool(self.z < self.limit < self.z_one and abs(self.z_full) < self.limit)


def worst_cases(bids: Bids, instances: int = 24) -> Worst:
    """Simulations of the worst case in 1, 3 and 20 coordinates, and in 615 for one profile."""
    z: list[float] = []
    z_one: list[float] = []
    for seed in range(instances):
        rng = np.random.default_rng([2, seed])
        n, D = rng.integers(1, 7), (1, 3, 20)[seed % 3]
        epsilon, sizes = rng.uniform(0.5, 8, n), rng.lognormal(3, 1, n)
        weights = rng.dirichlet(np.ones(n))
        squares = squared_errors(epsilon, sizes, weights, D, rng, 10_000)
        for count, scores in ((D, z), (1, z_one)):
            bound = error_bound(weights, epsilon, sizes, coordinates=count)
            scores.append((squares.mean() - bound) / squares.std() * np.sqrt(len(squares)))
    many = np.array(z_one)[np.arange(instances) % 3 > 0]
    weights = least_error_weights(bids.privacy_budget, bids.sizes)
    squares = squared_errors(bids.privacy_budget, bids.sizes, weights, WIDTH, np.random.default_rng(3), 400)
    gap = squares.mean() - error_bound(weights, bids.privacy_budget, bids.sizes, coordinates=WIDTH)
    return Worst(
        float(np.abs(z).max()),
        float(many.min()),
        float(gap / squares.std() * np.sqrt(len(squares))),
        float(stats.norm.isf(FALSE_ALARM / 50)),
        float(error_bound(weights, bids.privacy_budget, bids.sizes)),
        float(squares.mean()),
    )


def mean_absolute(bias: Array, s: Array, t: Array) -> Array:
    """Mean size of a bias plus Laplace noise of scales s and t: a difference of two Laplace laws."""
    one, two = (abs(bias) + x * np.exp(-abs(bias) / x) for x in (s, t))
    return np.asarray((s**2 * one - t**2 * two) / (s**2 - t**2))


def norm_and_square() -> tuple[float, float]:
    """Weight of the first of two owners (equal sizes, losses 6 and 2) with least mean norm and least mean square."""
    grid = np.linspace(0.5, 0.99, 30_001)
    norm = mean_absolute(2 * grid - 1, 2 * grid / 6, 2 * (1 - grid) / 2)
    return float(grid[norm.argmin()]), float(least_error_weights([6, 2], [1, 1])[0])


# --- who sells nothing ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fading:
    """Near a loss of 0: the weight falls like its square, the bound is that of loss 0; a weight there is infinite."""

    square: bool
    continuous: bool
    infinite: bool


def fading(markets: Profiles) -> Fading:
    """One owner sells a loss of 1e-5, 1e-6 and nothing, in 1,000 profiles."""
    square, gaps = [], []
    for bids in markets.values():
        epsilon = np.repeat(bids.privacy_budget[:500, None], 3, axis=1)
        epsilon[..., 0] = 1e-5, 1e-6, 0
        sizes = bids.sizes[:500, None]
        weights = least_error_weights(epsilon, sizes)
        bounds = error_bound(weights, epsilon, sizes)
        square.append(abs(weights[:, 0, 0] / weights[:, 1, 0] / 100 - 1).max())
        gaps.append(abs(bounds[:, 1] / bounds[:, 2] - 1).max())
    infinite = np.isinf(error_bound([0.01, 0.99], [0, 1], [1, 1]))
    return Fading(bool(max(square) < 1e-6), bool(max(gaps) < 1e-9), bool(infinite))


@dataclass(frozen=True)
class Smallest:
    """Losses 2, 1/2 and 0, sizes 1, 1 and 2, in exact fractions.

    Weights of the first owner and error bounds for Problem 1 and Problem 3; whether each is a minimum of its problem,
    whether the library gives both, and the minimiser on a grid.
    """

    true: Fraction
    printed: Fraction
    bounds: tuple[Fraction, Fraction]
    minima: bool
    library: bool
    grid: float

    @property
    def table(self) -> pd.DataFrame:
        """Both solutions."""
        rows = {
            name: {"first weight": f"{x} = {float(x):.5f}", "error bound": f"{float(bound):.6f}"}
            for name, x, bound in zip(("Problem 1", "Problem 3"), (self.true, self.printed), self.bounds, strict=True)
        }
        return pd.DataFrame(rows).T

    @property
    def shows(self) -> bool:
        """Problem 3 has another solution, with a larger error bound."""
        return self.bounds[1] > self.bounds[0] and self.minima and self.library


def smallest_example() -> Smallest:
    """Where Problem 3 is not Problem 1."""
    F = Fraction
    shares, q = (F(1, 4), F(1, 4)), (F(4), F(1, 4))

    def bound(x: Fraction, idle: Fraction) -> Fraction:
        bias = abs(x - shares[0]) + abs(1 - x - shares[1]) + idle
        return 8 * x**2 / q[0] + 8 * (1 - x) ** 2 / q[1] + bias**2

    true, printed, idle = F(33, 38), F(17, 19), F(1, 2)
    minima = all(
        min(bound(x + s * F(1, 10**6), part) for s in (-1, 1)) > bound(x, part)
        for x, part in ((true, idle), (printed, F(0)))
    )
    library = [rule([2, 0.5, 0], [1, 1, 2])[0] for rule in (least_error_weights, opt_aggr_printed)]
    grid = np.linspace(0, 1, 200_001)
    found = error_bound(np.column_stack([grid, 1 - grid, 0 * grid]), [2, 0.5, 0], [1, 1, 2])
    return Smallest(
        true,
        printed,
        (bound(true, idle), bound(printed, idle)),
        minima,
        bool(np.allclose(library, [float(true), float(printed)], rtol=1e-14)),
        float(grid[found.argmin()]),
    )


@dataclass(frozen=True)
class Cost:
    """What the two other problems cost.

    `worst`: largest ratio of the printed program's bound to the least one, in profiles with idle owners; `same`: where
    everybody sells all three agree.
    """

    table: pd.DataFrame
    worst: float
    same: bool


def other_problems(markets: Profiles) -> Cost:
    """Error bounds of the printed program and of the published code over the least one."""
    rng, rows, ratios, same = np.random.default_rng(4), [], [], []
    for kind, bids in markets.items():
        for chance in CHANCES:
            sells = rng.random(bids.sizes.shape) < chance
            epsilon = np.where(sells, bids.privacy_budget * rng.integers(1, 9, sells.shape) / 8, 0)
            epsilon, sizes = epsilon[sells.any(-1)], bids.sizes[sells.any(-1)]
            least = error_bound(least_error_weights(epsilon, sizes), epsilon, sizes)
            row: dict[str, object] = {"sizes": kind, "chance to sell": chance}
            for name, coded in (("Problem 3", False), ("code", True)):
                ratio = error_bound(opt_aggr_printed(epsilon, sizes, renormalised=coded), epsilon, sizes) / least
                row[f"{name}: above"] = f"{(ratio > 1 + 1e-9).mean():.2f}"
                row[f"{name}: mean ratio"] = f"{ratio.mean():.3f}"
                row[f"{name}: largest"] = f"{ratio.max():.2f}"
                if chance == 1:
                    same.append(abs(ratio - 1).max() < 1e-12)
                elif not coded:
                    ratios.append(ratio)
            rows.append(row)
    table = pd.DataFrame(rows).set_index("sizes").rename_axis(None)
    return Cost(table, float(np.concatenate(ratios).max()), bool(all(same)))


# --- the exact weights ------------------------------------------------------------------------------------------------


def certified_excess(weights: Array, epsilon: Array, sizes: Array) -> Array:
    """How far, at most, a bound lies above the least one: a fraction of it."""
    shares = sizes / sizes.sum(-1, keepdims=True)
    moved, sells = abs(weights - shares) > 1e-14, epsilon > 0
    noise = np.where(sells, 16 * weights / np.where(sells, epsilon, 1) ** 2, 0)
    reach = 2 * abs(weights - shares).sum(-1, keepdims=True)
    slope = noise + reach * np.sign(weights - shares)
    level = np.where(moved & sells, slope, 0).sum(-1, keepdims=True)
    level = level / (moved & sells).sum(-1, keepdims=True)
    slope = np.where(moved, slope, noise + np.clip(level - noise, -reach, reach))
    least = np.where(sells, slope, np.inf).min(-1)
    return np.asarray(((slope * weights).sum(-1) - least) / error_bound(weights, epsilon, sizes))


@dataclass(frozen=True)
class Certified:
    """Largest certificates over `count` profiles, and for 200,000 owners at once."""

    count: int
    exact: float
    printed: float
    large: float

    @property
    def optimal(self) -> bool:
        """The exact weights are within 1e-12 of the least bound."""
        return self.exact < 1e-12


def certified(markets: Profiles) -> Certified:
    """Certificates of the exact weights and of the printed program."""
    rng, exact, printed = np.random.default_rng(5), [], []
    for bids in markets.values():
        for chance in (0.3, 0.6, 1.0):
            epsilon = bids.privacy_budget * rng.uniform(0.1, 1, bids.sizes.shape)
            epsilon[:, 1:] *= rng.random((2000, 9)) < chance
            some = (epsilon > 0).sum(-1) > 1
            epsilon, sizes = epsilon[some], bids.sizes[some]
            exact.append(certified_excess(least_error_weights(epsilon, sizes), epsilon, sizes))
            printed.append(certified_excess(opt_aggr_printed(epsilon, sizes), epsilon, sizes))
    rng = np.random.default_rng(6)
    epsilon, sizes = rng.uniform(0.5, 2, 200_000), rng.lognormal(3, 2, 200_000)
    return Certified(
        sum(map(len, exact)),
        float(np.concatenate(exact).max()),
        float(np.concatenate(printed).max()),
        float(certified_excess(least_error_weights(epsilon, sizes), epsilon, sizes)),
    )


def _some_sell(markets: Profiles, rng: np.random.Generator) -> Iterator[tuple[str, Array, Array]]:
    """Profiles in which each owner sells her whole budget with some chance, and somebody does."""
    for kind, bids in markets.items():
        for chance in CHANCES:
            epsilon = bids.privacy_budget * (rng.random(bids.sizes.shape) < chance)
            yield kind, epsilon[epsilon.any(-1)], bids.sizes[epsilon.any(-1)]


@dataclass(frozen=True)
class Agreement:
    """Problem 3 beside Problem 1.

    `equal`: share of the `count` profiles with the same solution; `as_stated`: exactly those of the proposition;
    `convex`: the matrices of the program are positive semidefinite.
    """

    count: int
    equal: float
    as_stated: bool
    convex: bool


def agreement(markets: Profiles) -> Agreement:
    """When the printed problem is the right one."""
    rng, equal, said = np.random.default_rng(7), [], []
    for _, epsilon, sizes in _some_sell(markets, rng):
        weights = opt_aggr_printed(epsilon, sizes)
        lowered = ((weights - sizes / sizes.sum(-1, keepdims=True) < -1e-12) & (epsilon > 0)).any(-1)
        equal.append(abs(weights - least_error_weights(epsilon, sizes)).max(-1) < 1e-12)
        said.append(~lowered | (epsilon > 0).all(-1))
    found, stated = np.concatenate(equal), np.concatenate(said)
    k, sigma = 6, 8 / rng.uniform(0.1, 2, (200, 6)) ** 2
    blank, ones = np.zeros((k, k)), np.ones((k, k))
    least = min(np.linalg.eigvalsh(np.block([[np.diag(s), blank], [blank, ones]])).min() for s in sigma)
    return Agreement(len(found), float(found.mean()), bool((found == stated).all()), bool(least > -1e-10))


def dead_zone(markets: Profiles) -> pd.DataFrame:
    """Owners who keep their share, and distance from weights inverse to the variance, for 1 and 615 coordinates."""
    rows = []
    for kind, bids in markets.items():
        inverse = bids.privacy_budget**2 / (bids.privacy_budget**2).sum(-1, keepdims=True)
        for count in (1, WIDTH):
            weights = least_error_weights(bids.privacy_budget, bids.sizes, coordinates=count)
            moved = abs(weights - inverse).sum(-1).mean() / 2
            kept = (abs(weights - bids.shares) < 1e-12).mean()
            rows.append([kind, count, f"{kept:.2f}", f"{moved:.3f}"])
    columns = ["sizes", "D", "owners in the dead zone", "distance from inverse variance"]
    return pd.DataFrame(rows, columns=columns).set_index("sizes").rename_axis(None)


@dataclass(frozen=True)
class Slopes:
    """Share of profiles without a kink within the step; do differences agree with both derivatives to 1e-6?"""

    smooth: float
    weights: bool
    bound: bool


def slopes(bids: Bids, step: float = 1e-6) -> Slopes:
    """Central differences of the weights and of the least bound."""
    epsilon, sizes = bids.privacy_budget[:, None], bids.sizes[:, None]
    ends = [epsilon + step * np.eye(10), epsilon - step * np.eye(10)]
    at = [least_error_weights(e, sizes) for e in ends]
    sides = [np.sign(np.round(w - sizes / sizes.sum(-1, keepdims=True), 13)) for w in at]
    smooth = (sides[0] == sides[1]).all((1, 2))
    jacobian = weights_jacobian(bids.privacy_budget, bids.sizes)
    off = abs(np.swapaxes(at[0] - at[1], 1, 2) / (2 * step) - jacobian)[smooth].max()
    up, down = (error_bound(w, e, sizes) for w, e in zip(at, ends, strict=True))
    gradient = least_error_gradient(bids.privacy_budget, bids.sizes)
    off_bound = abs((up - down) / (2 * step) / gradient - 1).max()
    return Slopes(float(smooth.mean()), bool(off < 1e-6), bool(off_bound < 1e-6))


# --- against the usual weights ----------------------------------------------------------------------------------------


def bound_curves(markets: Profiles, parts: Array) -> tuple[dict[str, Array], dict[str, Array]]:
    """Mean error bounds where all sell the same part of their budgets, and where each sells all with that chance."""
    rng = np.random.default_rng(8)
    curves: tuple[dict[str, Array], dict[str, Array]] = ({}, {})
    for kind, bids in markets.items():
        ranks = rng.random(bids.sizes.shape)
        ranks[:, 0] = 0  # one always sells, so that the bound is finite
        sold = [
            [part * bids.privacy_budget for part in parts],
            [bids.privacy_budget * (ranks < part) for part in parts],
        ]
        for rule, name in ((least_error_weights, "OptAggr"), (size_weights, "ConvAggr")):
            for curve, losses in zip(curves, sold, strict=True):
                bounds = [error_bound(rule(epsilon, bids.sizes), epsilon, bids.sizes).mean() for epsilon in losses]
                curve[f"{kind}, {name}"] = np.array(bounds)
    return curves


@dataclass(frozen=True)
class Dominance:
    """Of `count` profiles those above ConvAggr; mean bounds of both rules where all sell everything."""

    count: int
    exact: int
    printed: int
    whole: pd.DataFrame


def dominance(markets: Profiles) -> Dominance:
    """Bounds of the exact and of the printed weights beside ConvAggr's."""
    above, whole = [], {}
    for kind, epsilon, sizes in _some_sell(markets, np.random.default_rng(9)):
        opt, printed, conv = (
            error_bound(rule(epsilon, sizes), epsilon, sizes)
            for rule in (least_error_weights, opt_aggr_printed, size_weights)
        )
        above.append([opt / conv > 1 + 1e-12, printed / conv > 1 + 1e-12])
        whole[kind] = {"OptAggr": f"{opt.mean():.2f}", "ConvAggr": f"{conv.mean():.2f}"}
    exact, other = np.concatenate(above, axis=1)
    return Dominance(len(exact), int(exact.sum()), int(other.sum()), pd.DataFrame(whole).T)


def two_accounts(markets: Profiles) -> pd.DataFrame:
    """What changes when the first owner splits her records over two accounts."""
    rows = {}
    for kind, bids in markets.items():
        epsilon, sizes = bids.privacy_budget, bids.sizes
        e = np.concatenate([epsilon[:, :1], epsilon], axis=1)
        d = np.concatenate([sizes[:, :1] / 2, sizes[:, :1] / 2, sizes[:, 1:]], axis=1)
        before, after = least_error_weights(epsilon, sizes), least_error_weights(e, d)
        gain = after[:, :2].sum(-1) - before[:, 0]
        usual = size_weights(e, d)[:, :2].sum(-1) - size_weights(epsilon, sizes)[:, 0]
        fall = error_bound(after, e, d) / error_bound(before, epsilon, sizes)
        rows[kind] = {
            "weight rises": f"{(gain > 1e-9).mean():.2f}",
            "falls": f"{(gain < -1e-9).mean():.2f}",
            "changes with ConvAggr": f"{(abs(usual) > 1e-9).mean():.2f}",
            "largest ratio of the bounds": f"{fall.max():.3f}",
        }
    return pd.DataFrame(rows).T


def _market(epsilon: ArrayLike, sizes: ArrayLike) -> tuple[Array, Array]:
    """Privacy losses and shares of the records, of one shape."""
    eps, size = np.broadcast_arrays(np.asarray(epsilon, dtype=float), np.asarray(sizes, dtype=float))
    return eps, size / size.sum(-1, keepdims=True)


def opt_aggr_printed(epsilon: ArrayLike, sizes: ArrayLike, *, renormalised: bool = False) -> Array:
    r"""Weights that solve Problem 3, which leaves owners who do not sell out of the bias.

    They are those of :func:`~hdpm_lib.aggregation.least_error_weights` where everybody sells. With `renormalised`
    shares are among the owners who sell, as in the authors' published code, and not among all, as printed.

    Notes
    -----
    As in :mod:`hdpm_lib.aggregation`, but :math:`\beta=\alpha+\kappa(P_+(\alpha)-S_0/2)^+`: the equation is solved by
    bisection.

    Examples
    --------
    >>> opt_aggr_printed([2.0, 0.5, 0.0], [1, 1, 2]).round(5)
    array([0.89474, 0.10526, 0.     ])
    """
    eps, shares = _market(epsilon, sizes)
    sells = eps > 0
    anybody = np.asarray(sells.any(-1))
    if renormalised:
        shares = size_weights(eps, shares)
    unit = np.where(anybody, eps.max(-1), 1.0)[..., None]
    q, kappa = (eps / unit) ** 2, unit[..., 0] ** 2 / 2
    idle = (shares * ~sells).sum(-1)
    theta = shares / np.where(sells, q, np.inf)

    def beta(alpha: Array) -> Array:
        raised = np.maximum(alpha[..., None] * q - shares, 0) * sells
        return np.asarray(alpha + kappa * np.maximum(raised.sum(-1) - idle / 2, 0))

    def left(alpha: Array) -> Array:
        raised = np.maximum(alpha[..., None] * q - shares, 0) * sells
        lowered = np.maximum(shares - beta(alpha)[..., None] * q, 0) * sells
        return np.asarray(raised.sum(-1) - idle - lowered.sum(-1))

    low = np.zeros(q.shape[:-1])
    high = 2 * (theta.max(-1) + np.where(anybody, idle / np.maximum(q.sum(-1), 1e-300), 1.0))
    for _ in range(300):
        middle = (low + high) / 2
        below = left(middle) < 0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    alpha = high
    weights = np.maximum(alpha[..., None] * q, np.minimum(shares, beta(alpha)[..., None] * q))
    return np.where(anybody[..., None], weights * sells, shares)


def weights_jacobian(epsilon: ArrayLike, sizes: ArrayLike, *, coordinates: int = 1) -> Array:
    r"""Derivative of weight `i` of :func:`~hdpm_lib.aggregation.least_error_weights` with respect to privacy loss `j`,
    shape (..., n, n).

    At kinks, where an owner begins or ceases to keep her share, it is that of one adjacent piece. All entries are 0
    where nobody sells, although the weights jump there.

    Examples
    --------
    >>> weights_jacobian([1.0, 1.0], [1, 1])
    array([[ 0.4, -0.4],
           [-0.4,  0.4]])
    """
    eps, shares = _market(epsilon, sizes)
    weights = least_error_weights(eps, sizes, coordinates=coordinates)
    sells = eps > 0
    up, down = sells & (weights > shares), sells & (weights < shares)
    q, kappa = eps**2, 1 / (2 * coordinates)
    most, first = (q / shares).max(-1, keepdims=True), np.arange(eps.shape[-1]) == 0
    level = most - (q / shares).min(-1, keepdims=True) < 1e-14 * most
    up, down = np.where(level, first, up), np.where(level, ~first, down)  # all breakpoints are one: any split
    r_up, r_down = (q * up).sum(-1, keepdims=True), (q * down).sum(-1, keepdims=True)
    total = r_up + r_down + kappa * r_up * r_down
    own = np.where(up | down, weights / np.where(q > 0, q, 1.0), 0.0)  # alpha or beta of each owner
    alpha = -own * np.where(up, 1 + kappa * r_down, 1.0) / np.where(total > 0, total, 1.0)
    beta = (1 + kappa * r_up) * alpha + kappa * own * up
    both = np.where(up[..., None], alpha[..., None, :], np.where(down[..., None], beta[..., None, :], 0.0))
    return np.asarray(2 * eps[..., None, :] * (q[..., None] * both + own[..., None] * np.eye(eps.shape[-1])))


def least_error_gradient(
    epsilon: ArrayLike, sizes: ArrayLike, clip_norm: float = 1.0, *, coordinates: int = 1
) -> Array:
    r"""Derivative of the least error bound with respect to the privacy losses, not positive.

    It is 0 for an owner whose loss is 0, and everywhere where nobody sells. By the envelope theorem it is
    :math:`-16DL^2\lambda_i^2/\varepsilon_i^3`: that the weights move does not count.

    Examples
    --------
    >>> least_error_gradient([2.0, 2.0, 0.0], [1, 3, 4])
    array([-0.5, -0.5,  0. ])
    """
    eps, _ = _market(epsilon, sizes)
    weights = least_error_weights(eps, sizes, coordinates=coordinates)
    scale = clip_norm**2
    safe = np.where(eps > 0, eps, 1.0)
    return np.where(eps > 0, -16 * coordinates * scale * (weights / safe) ** 2 / safe, 0.0)
