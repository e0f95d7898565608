"""The lower bound: the value of a relaxation, by other solvers, whose costs are below the true
ones; closed forms.
"""

from __future__ import annotations

import clarabel
import numpy as np
import pytest
from scipy import optimize, sparse, special

from hdpm_book.contracts.conic import solve_cone
from hdpm_book.federated.lower_bound import lower_bound, relaxed_rates
from hdpm_book.federated.partition import budget_of, draw_bids, draw_sizes
from hdpm_lib.aggregation import error_bound, least_error_weights
from hdpm_lib.auctions.bids import Bids, bids
from tests.support import generator

Array = np.ndarray


def parts(market: Bids, budget: Array) -> tuple[Array, Array, Array]:
    return (
        market.shares,
        market.privacy_budget**2,
        relaxed_rates(market) / np.asarray(budget)[..., None],
    )


def by_cones(shares: Array, largest: Array, costs: Array) -> float:
    """The relaxed problem in weights, shares of the budget, squared weights over them, distances
    and their sum.

    Not a number where the solver gives up, which it does in some very uneven markets.
    """
    # of the error, so that the solver's tolerances fit
    n = len(shares)
    unit = 1 + 8 * (shares @ np.sqrt(costs)) ** 2
    eye = sparse.eye_array(n)
    one = np.ones((1, n))
    weight, s, r = (
        sparse.kron(eye, np.reshape(part, (3, 1))) for part in ([0, -2, 0], [-1, 0, -1], [-1, 0, 1])
    )
    A = sparse.block_array(
        [
            [one, None, None, None, None],
            [None, None, None, one, [[-1]]],
            [None, one, None, None, None],
            [None, eye, None, None, None],
            [-eye, None, None, None, None],
            [eye, None, None, -eye, None],
            [-eye, None, None, -eye, None],
            [weight, s, r, None, None],  # |(2 weight, s - r)| <= s + r
        ]
    )
    right = np.concatenate(
        [[1, 0, 1], costs * largest, np.zeros(n), shares, -shares, np.zeros(3 * n)]
    )
    cones = [
        clarabel.ZeroConeT(2),
        clarabel.NonnegativeConeT(4 * n + 1),
        *[clarabel.SecondOrderConeT(3)] * n,
    ]
    noise = np.concatenate([np.zeros(2 * n), 8 * costs / unit, np.zeros(n + 1)])
    bias = np.diag(np.append(np.zeros(4 * n), 2 / unit))
    try:
        z = solve_cone(noise, A, right, cones, bias, loosest=1e-9)
    except RuntimeError:
        return np.nan
    return unit * float(noise @ z + z @ bias @ z / 2)


def by_search(shares: Array, largest: Array, costs: Array) -> float:
    """The relaxed problem of two owners: a search over one weight; what the budget buys for it is a
    closed form.
    """

    def inner(log_odds: float) -> float:
        weights = special.expit([log_odds, -log_odds])
        limits = costs * largest
        root = weights * np.sqrt(costs)  # shares of the budget in this proportion are best
        given = np.minimum(np.maximum(root / root.sum(), 1 - limits[::-1]), limits)
        with np.errstate(divide="ignore", invalid="ignore"):
            noise = np.where(weights > 0, 8 * weights**2 * costs / given, 0)
        return float(noise.sum() + np.abs(weights - shares).sum() ** 2)

    return float(
        optimize.minimize_scalar(
            inner, bounds=(-60, 60), method="bounded", options={"xatol": 1e-12}
        ).fun
    )


def test_relaxed_cost_touches_the_cost_from_below() -> None:
    rng = generator(440)
    market = draw_bids(rng.integers(1, 300, (400, 4)), rng)
    grid = np.linspace(0, 1, 1001)[1:, None, None] * market.privacy_budget
    ratio = market.valuation(grid) / (relaxed_rates(market) * grid**2)
    assert ratio.min() >= 1 - 1e-13
    assert ratio.min(0).max() < 1 + 1e-5  # for everybody there is a loss where it touches


@pytest.mark.parametrize("owners", ["IID", "Non-IID", 3, 40])
def test_bound_is_the_value_of_the_relaxation(owners: int | str) -> None:
    rng = generator(441)
    sizes = (
        draw_sizes(owners, 20, rng)
        if isinstance(owners, str)
        else np.exp(rng.normal(0, 1, (6, owners)))
    )
    market = draw_bids(sizes, rng)
    for factor in (0.02, 0.1, 0.5, 0.95):
        budget = budget_of(market, factor)
        conic = np.array([by_cones(*part) for part in zip(*parts(market, budget), strict=True)])
        solved = np.isfinite(conic)
        assert lower_bound(market, budget)[solved] == pytest.approx(conic[solved], rel=1e-5)
        assert solved.mean() > 0.7


def test_very_uneven_markets_of_two() -> None:
    rng = generator(448)
    market = draw_bids(np.exp(rng.normal(0, 6, (40, 2))), rng)
    for factor in (1e-4, 0.02, 0.5, 0.95):
        budget = budget_of(market, factor)
        found = np.array([by_search(*part) for part in zip(*parts(market, budget), strict=True)])
        assert lower_bound(market, budget) == pytest.approx(found, rel=1e-6)


def test_closed_forms_and_limits() -> None:
    single = bids("quadratic", 2.0, [1.5], [10])
    assert lower_bound(single, 5.0) == pytest.approx(8 / (5 / 20))
    assert lower_bound(single, 1e6) == pytest.approx(8 / 1.5**2)
    equal = bids("quadratic", 1.0, [2.0] * 4, 10)
    assert lower_bound(equal, 8.0) == pytest.approx(4 * 8 / 16 / (8 / 40))
    rng = generator(445)
    market = draw_bids(draw_sizes("IID", 30, rng), rng)
    full = market.privacy_budget
    sizes = market.sizes
    least = error_bound(least_error_weights(full, sizes), full, sizes)
    assert lower_bound(market, budget_of(market, 1.0)) == pytest.approx(least, rel=1e-12)
    market = draw_bids(rng.integers(1, 99, (2, 3, 5)), rng)
    budget = budget_of(market, 0.3)
    bound = lower_bound(market, budget)
    assert bound.shape == (2, 3) and bound[1, 2] == lower_bound(market[1, 2], budget[1, 2])
    assert lower_bound(market[0, 0], float(budget[0, 0])).shape == ()
