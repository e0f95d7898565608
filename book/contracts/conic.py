r"""Least-cost contracts as a convex program, where there is no closed form; and a bound for the cost of any algorithm.

A biased answer gives each of :math:`q` terms a share :math:`a_k\in[0,1]` and adds Laplace noise of scale :math:`b`.
Term :math:`k` has range :math:`w_k` and moves by at most :math:`\Delta_k^j` with the data of individual :math:`j`, who
loses :math:`x_j=\sum_k\Delta_k^ja_k/b` at a cost :math:`c_j(x_j)`. In :math:`y=\sqrt{K/2}/b` and :math:`e_k=a_ky` the
least total cost for a mean squared error :math:`K` is

.. math:: \min\sum_jc_j(x_j),\quad x=\sqrt{2/K}\,\Delta^\top e,\quad 0\le e\le y,\quad
   \Big\lVert\Big(\frac{\sum_kw_k(y-e_k)}{2\sqrt K},\,1\Big)\Big\rVert\le y,

a convex program for convex costs: (10) of the paper if :math:`\Delta` is diagonal, with :math:`w` on it, and (22) to
(24). Its second-order cone says that the error is *at most* :math:`K`, where the paper asks for equality: the same when
:math:`K<(\sum w/2)^2` and no cost falls (:doc:`/book/contracts/allocation`).

Throughout, `n` is the number of individuals; `valuations` of shape (n,) are finite and not negative, `max_mse` is
:math:`K`, positive, and `power` is :math:`r`, at least 1. `sensitivity` of shape (q, n), not negative, is
:math:`\Delta`, or ``diag(ranges)``, the linear query, if not given; `ranges` of shape (q,), positive, is :math:`w`, or
1 each. A RuntimeError says that the solver gave up, with its status.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from hdpm_book.contracts.bounds import group_loss_bound
from hdpm_lib.markets.contracts import (
    check_cost,
    check_power,
    check_valuations,
    solved_contract,
)
from hdpm_lib.markets.outcome import Contract
from hdpm_lib.validation import check_count, check_finite, check_positive, extra

with extra("book"):
    import clarabel


Array = NDArray[np.float64]
Costs = Callable[[Array], Array]  # privacy losses of shape (n,) to one number for each individual

TOLERANCES = (1e-11, 1e-9)  # tried in turn
LOOSEST = 1e-5  # what may do where rounding ends the solver's progress
GAP = 1e-9  # at which the cuts stop, relative to the cost of the best equal shares above that of no loss
ROUNDS = 300


def solve_cone(
    cost: Array, A: Any, right: Array, cones: list[Any], P: Any = None, *, loosest: float = LOOSEST
) -> tuple[Array, Array]:
    """Minimiser of `z P z / 2 + cost z` with `right - A z` in the cones, and the multipliers of these constraints."""
    P = sparse.csc_matrix((len(cost), len(cost))) if P is None else sparse.csc_matrix(sparse.triu(P))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    for tolerance in TOLERANCES:
        for name in ("feas", "gap_abs", "gap_rel"):
            setattr(settings, f"tol_{name}", tolerance)
            setattr(settings, f"reduced_tol_{name}", loosest)
        solution = clarabel.DefaultSolver(P, cost, sparse.csc_matrix(A), right, cones, settings).solve()
        if str(solution.status) in ("Solved", "AlmostSolved"):
            return np.array(solution.x), np.array(solution.z)
    raise RuntimeError(f"the conic solver stopped with status {solution.status}")


@dataclass(frozen=True)
class _Query:
    """What is asked, and the constraints of the program on `(e, y)`."""

    sensitivity: Array
    ranges: Array
    max_mse: float
    loss: sparse.csr_array  # of shape (n, q + 1): privacy losses of `(e, y)`

    def constraints(self) -> tuple[sparse.csr_array, Array, list[Any]]:
        """`A`, `right` and cones with `right - A (e, y)` in the cones."""
        q, w = len(self.ranges), self.ranges / (2 * np.sqrt(self.max_mse))
        eye, zero, one = sparse.eye_array(q), np.zeros((q, 1)), np.ones((q, 1))
        cone = [[zero.T, [[-1]]], [w[None], [[-w.sum()]]], [zero.T, [[0]]]]
        A = sparse.csr_array(sparse.block_array([[-eye, zero], [eye, -one], *cone]))
        return A, np.append(np.zeros(2 * q + 2), 1.0), [clarabel.NonnegativeConeT(2 * q), clarabel.SecondOrderConeT(3)]

    def equal_shares(self, cost: Costs) -> Contract:
        """The best with one share for all terms, as in Theorem 4; shares 0 where that is accurate enough."""
        share = max(1 - 4 * self.max_mse / self.ranges.sum() ** 2, 0.0)
        return self.allocation(np.full(len(self.ranges), share), cost)

    def solved(self, z: Array, cost: Costs) -> Contract:
        """The allocation of a solution `(e, y, ...)` of the program, polished to be feasible."""
        found = self.allocation(np.clip(z[: len(self.ranges)] / z[len(self.ranges)], 0, 1), cost)
        if found.scale == 0:
            raise RuntimeError(f"the solver's shares {found.shares} leave no noise at max_mse = {self.max_mse}")
        return found

    def allocation(self, shares: Array, cost: Costs) -> Contract:
        """These shares with all the noise that the accuracy admits."""
        spare = self.max_mse - float(self.ranges @ (1 - shares) / 2) ** 2
        scale, lost = np.sqrt(max(spare, 0.0) / 2), shares @ self.sensitivity
        with np.errstate(divide="ignore", invalid="ignore"):
            epsilon = np.where(lost > 0, lost / scale, 0.0)
        return Contract(epsilon, cost=np.asarray(cost(epsilon).sum()), shares=shares, scale=np.asarray(scale))


def _check_query(n: int, max_mse: float, sensitivity: ArrayLike | None, ranges: ArrayLike | None) -> _Query:
    """The query, or an error that names the argument; without `sensitivity` the linear one of `n` individuals."""
    K = check_positive(max_mse, "max_mse")
    delta = None if sensitivity is None else check_finite(sensitivity, "sensitivity", 2, 0)
    terms = n if delta is None else len(delta)
    w = np.ones(terms) if ranges is None else check_finite(ranges, "ranges", 1, 0, ends="()")
    if len(w) != terms:
        raise ValueError(f"ranges must be {terms} positive numbers, got {w}")
    delta = np.diag(w) if delta is None else delta
    if delta.shape[1] != n:
        raise ValueError(f"sensitivity must have {n} columns, got shape {delta.shape}")
    loss = np.sqrt(2 / K) * np.column_stack([delta.T, np.zeros(n)])
    return _Query(delta, w, K, sparse.csr_array(loss))


def conic_power(
    valuations: ArrayLike,
    max_mse: float,
    *,
    power: float,
    sensitivity: ArrayLike | None = None,
    ranges: ArrayLike | None = None,
) -> Contract:
    r"""Least total cost :math:`\sum_jv_jx_j^r` for the accuracy, by a conic solver: problems (10), (22) and (23).

    The result has a share for each term and a privacy loss for each individual; the error is exactly `K`. Where
    :math:`K\ge(\sum w/2)^2` nobody's data are needed: shares and cost are 0. Where terms without data of anybody with a
    positive valuation suffice, they have share 1 and the cost is 0. If they just suffice, this is a limit that no
    finite loss attains, and `scale` is 0. For linear queries :func:`hdpm_lib.markets.contracts.least_cost_contract`,
    which has no code in common with this, is more exact.

    Examples
    --------
    >>> round(float(conic_power([1.0, 1.0], 0.2, power=1, sensitivity=[[1.0, 0.5], [0.5, 0.0]]).cost), 6)   # Example 1
    4.690416
    """
    v = check_finite(check_valuations(valuations), "valuations", 1)
    r = check_power(power)
    query = _check_query(len(v), max_mse, sensitivity, ranges)

    def cost(x: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return v * x**r

    best = query.equal_shares(cost)
    if not best.shares.any():
        return best
    free = ~((query.sensitivity > 0) @ (v > 0))
    if (query.ranges @ ~free) ** 2 <= 4 * query.max_mse:
        return query.allocation(free.astype(float), np.zeros_like)
    check_cost(best.cost, query.max_mse, r)
    while True:
        price = v / best.cost
        z = _least_power_cost(price[price > 0], query.loss[price > 0], *query.constraints(), power=r)
        found = query.solved(z, cost)
        if found.cost > best.cost / 2:
            return found
        best = found


def _least_power_cost(
    price: Array, loss: sparse.csr_array, A: sparse.csr_array, right: Array, cones: list[Any], *, power: float
) -> Array:
    """Minimiser of the sum of `price * (loss @ z) ** power` with `right - A z` in the cones; prices are positive."""
    if power == 1:
        return solve_cone(loss.T @ price, A, right, cones)[0]
    if power == 2:
        return solve_cone(np.zeros(A.shape[1]), A, right, cones, P=2 * (loss.T * price) @ loss)[0]
    # For each payer a bound t on her cost, the number 1, and her loss times the r-th root of her price
    m = len(price)
    bound = sparse.kron(sparse.eye_array(m), [[-1.0], [0.0], [0.0]])
    priced = sparse.kron(sparse.diags_array(price ** (1 / power)) @ loss, [[0.0], [0.0], [-1.0]])
    cost = np.repeat([0.0, 1.0], [A.shape[1], m])
    right = np.append(right, np.tile([0.0, 1.0, 0.0], m))
    A = sparse.block_array([[A, None], [priced, bound]])
    return solve_cone(cost, A, right, cones + [clarabel.PowerConeT(1 / power)] * m)[0]


def least_cost_bound(valuations: ArrayLike, max_mse: float, *, power: float) -> float:
    r"""A bound below the total privacy cost of every `K`-accurate algorithm: least :math:`\sum_iv_i\varepsilon_i^r`.

    The losses obey the inequalities for groups of :mod:`hdpm_book.contracts.bounds`, of which `n` suffice
    (:doc:`/book/contracts/idea`). The bound is known to a relative 1e-7 or so, the accuracy of the solver.

    Examples
    --------
    >>> round(least_cost_bound([1.0, 1.0, 1.0], 0.5, power=1), 4)   # equal valuations: group_loss_bound(3, 0.5)
    2.7687
    """
    v = check_finite(check_valuations(valuations), "valuations", 1)
    K = check_positive(max_mse, "max_mse")
    r = check_power(power)
    v = np.sort(v[v > 0])[::-1]
    if not len(v) or not (bounds := group_loss_bound(np.arange(1, len(v) + 1), K)).any():
        return 0.0
    # In steps of the losses, in units of the bound for equal ones;
    # the cost in units of the least-cost contract's
    unit = (bounds / np.arange(1, len(v) + 1)).max()
    with np.errstate(over="ignore"):
        scale = check_cost(v @ (solved_contract(v, K, r).privacy_loss / unit) ** r, K, r)
    losses = np.tri(len(v))
    A = sparse.csr_array(np.vstack([-np.eye(len(v)), -(losses @ losses)]))
    right = np.concatenate([np.zeros(len(v)), -bounds / unit])
    cones = [clarabel.NonnegativeConeT(2 * len(v))]
    z = _least_power_cost(v / scale, sparse.csr_array(losses), A, right, cones, power=r)
    steps = np.maximum(z[: len(v)], 0)
    return float(v @ (unit * np.cumsum(steps)) ** r)


class _Cuts:
    """Tangents of the costs at the losses visited so far; each round also checks what convexity promises."""

    def __init__(self, cost: Costs, slope: Costs, n: int) -> None:
        self.functions = (cost, slope)
        self.n = n
        self.unit = 0.0
        self.points, self.values, self.slopes = (np.empty((0, n)) for _ in range(3))

    def add(self, x: Array) -> None:
        value, slope = (np.asarray(function(x), dtype=float) for function in self.functions)
        for name, array in (("cost", value), ("slope", slope)):
            if array.shape != (self.n,) or not np.isfinite(array).all():
                raise ValueError(f"{name} must give {self.n} finite numbers at losses {x}, got {array}")
        self.points = np.vstack([self.points, x])
        self.values = np.vstack([self.values, value])
        self.slopes = np.vstack([self.slopes, slope])
        step = x - self.points
        above = np.maximum(self.values + self.slopes * step - value, value - slope * step - self.values)
        if (bad := (slope < 0) | (above.max(axis=0) > 1e-9 * (self.unit + np.abs(value)))).any():
            j = int(np.argmax(bad))
            raise ValueError(f"cost must be convex, not fall, and have this slope; individual {j}'s not at loss {x[j]}")

    def lower_bound(self, query: _Query, weights: Array, pi: float) -> float:
        """A bound for any `weights` and `pi`; with the multipliers of the program's optimum it is the optimum."""
        weights = (some := np.maximum(weights, np.finfo(float).tiny)) / some.sum(axis=0)
        g = ((weights * self.slopes).sum(axis=0) @ query.loss)[:-1]
        phi = np.minimum(g, pi * query.ranges / (2 * np.sqrt(query.max_mse))).sum()
        return float((weights * (self.values - self.slopes * self.points)).sum() + np.sqrt(max(phi**2 - pi**2, 0)))

    def constraints(self, loss: sparse.csr_array) -> tuple[sparse.csr_array, Array]:
        """Rows and right side of `cost bound >= tangent`, for (e, y, cost bounds in `unit`)."""
        m, slopes = len(self.points), sparse.diags_array(self.slopes.ravel() / self.unit)
        rows = sparse.hstack([slopes @ sparse.vstack([loss] * m), sparse.vstack([-sparse.eye_array(self.n)] * m)])
        return rows, ((self.slopes * self.points - self.values) / self.unit).ravel()


def conic_convex(
    cost: Costs,
    slope: Costs,
    n: int,
    max_mse: float,
    *,
    sensitivity: ArrayLike | None = None,
    ranges: ArrayLike | None = None,
) -> tuple[Contract, float]:
    r"""Least total cost for the accuracy, for any convex, differentiable costs that do not fall.

    Parameters
    ----------
    cost, slope : callable
        Privacy losses of shape (n,) to the cost of each individual, and its derivative, of shape (n,). An error says
        where the losses visited show that a cost is not finite, falls, is not convex, or has another slope.

    Returns
    -------
    Contract
        The best one found, with an error of exactly `max_mse`.
    gap : float
        Its cost less a lower bound of every allocation's cost, which does not rest on the solver's accuracy; at most
        1e-9 of what the best equal shares cost above no loss. If it is not reached in 300 rounds, a RuntimeError has
        the gap.

    Notes
    -----
    Kelley's cutting planes. Averages of an individual's tangents lie below her cost, so that all cost at least
    :math:`h+g\cdot e` for some :math:`h` and :math:`g\ge0`; and :math:`g\cdot e\ge\sqrt{\phi^2-\pi^2}` for every
    :math:`\pi\ge0` with :math:`\phi=\sum_k\min(g_k,\pi w_k/(2\sqrt K))\ge\pi`. The solver's multipliers give the
    averages and :math:`\pi`.

    Examples
    --------
    >>> v = np.array([1.0, 10.0])
    >>> best, gap = conic_convex(lambda x: v * x**2, lambda x: 2 * v * x, 2, 0.3)
    >>> best.shares.round(4), gap < 1e-7
    (array([1. , 0.2]), True)
    """
    n = check_count(n, "n")
    query = _check_query(n, max_mse, sensitivity, ranges)
    cuts = _Cuts(cost, slope, n)
    cuts.add(np.zeros(n))
    best, floor = query.equal_shares(cost), float(cuts.values.sum())
    unit = cuts.unit = float(best.cost) - floor
    cuts.add(best.privacy_loss)
    base, side, cones = query.constraints()
    wide = sparse.hstack([base, sparse.csr_array((len(side), n))])
    objective = np.repeat([0.0, 1.0], [base.shape[1], n])
    for _ in range(ROUNDS):
        if (gap := float(best.cost) - floor) <= GAP * unit:
            return best, gap
        rows, right = cuts.constraints(query.loss)
        below = clarabel.NonnegativeConeT(len(right))
        z, dual = solve_cone(objective, sparse.vstack([wide, rows]), np.append(side, right), [*cones, below])
        weights, pi = dual[len(side) :].reshape(-1, n), unit * abs(dual[len(side) - 2])
        floor = max(floor, cuts.lower_bound(query, weights, pi))
        found = query.solved(z, cost)
        cuts.add(found.privacy_loss)
        best = found if found.cost < best.cost else best
    raise RuntimeError(f"after {ROUNDS} rounds the gap is still {gap:.3g}, above {GAP * unit:.3g}")
