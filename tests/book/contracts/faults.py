"""What can be wrong on the pages on contracts: (claim, function, fault), at least one for every
computed verdict.
"""

from __future__ import annotations

import numpy as np

from tests.book.broken import other, remade, times
from tests.book.dataflow import Fault

dearer = other(cost=lambda cost: 1.01 * cost)
flat = other(shares=lambda a: np.ones_like(a))
late = other(privacy_loss=lambda loss: loss[..., ::-1])
less = other(privacy_loss=lambda loss: 0.5 * loss)
more = other(privacy_loss=lambda loss: 2.0 * loss)
noisier = other(scale=lambda b: 1.1 * b)

SMALL: dict[str, dict[str, int]] = {}
FAULTS: dict[str, list[tuple[str, str, Fault]]] = {}

SMALL["contracts/allocation"] = {
    "markets": 16,
    "linear_markets": 50,
    "omission_markets": 50,
    "draws_of_losses": 50,
}
SMALL["contracts/allocation"] |= dict.fromkeys(
    ("ratio_trials", "fraction_trials", "edge_trials", "savings_markets"), 30
)
FAULTS["contracts/allocation"] = [
    ("khalili-eq10-problem", "least_cost_contract", dearer),
    ("khalili-eq10-problem", "missed", lambda f: lambda a, b, *rest: f(a, 1.01 * b, *rest)),
    ("khalili-thm6-ratio-condition", "conic_power", other(shares=lambda a: a**2)),
    ("khalili-thm6-ratio-condition", "conic_power", other(shares=lambda a: a[::-1])),
    ("khalili-ex-p2", "least_cost_contract", less),
    ("khalili-ex-p2", "theorem5_terms", times(1.01)),
    ("khalili-ex-totals", "equal_loss_contract", more),
    ("khalili-ex-totals", "error_of", times(0.5)),
    ("khalili-thm5", "least_cost_contract", flat),
    ("khalili-thm5", "theorem5", lambda f: lambda v, K, **_: f(v, K, repaired=True)),
    ("khalili-thm5", "theorem5", lambda f: lambda v, K, **_: f(v, K)),
    ("khalili-thm5", "theorem5_terms", times(0.9)),
    ("khalili-thm5-single-fractional", "conic_power", other(shares=lambda a: a / 2 + 0.01)),
    (
        "khalili-thm5-single-fractional",
        "theorem5",
        remade(lambda found: (found[0], 1.01 * found[1])),
    ),
    ("khalili-alg1", "algorithm1", remade(lambda found: (*found[:2], 0.5 * found[2]))),
    ("khalili-alg1", "other_shares", times(0.99)),
    ("khalili-thm6", "conic_power", dearer),
    ("khalili-thm6", "both_sides", remade(lambda found: (2 * found[0], *found[1:]))),
    ("khalili-eq12-contract-p2", "least_cost_contract", less),
    (
        "khalili-comparison-p2-vs-au",
        "unbiased_contract",
        other(privacy_loss=lambda loss: 0.01 * loss),
    ),
    ("khalili-p2-heterogeneous-loss", "least_cost_contract", late),
    ("khalili-abstract-both-benefit", "equal_loss_contract", more),
]

SMALL["contracts/answer"] = {"releases": 20_000, "runs": 2, "points": 60}
SMALL["contracts/answer"] |= dict.fromkeys(
    ("algorithms", "problems", "problems_of_bounds", "weighted_problems", "markets"), 30
)
FAULTS["contracts/answer"] = [
    ("khalili-group-privacy", "group_loss", times(1.01)),
    ("khalili-group-privacy", "linear_query", other(sensitivity=lambda moves: 0.9 * moves)),
    ("khalili-eq1-laplace", "density", times(1.01)),
    ("khalili-eq1-laplace", "linear_query", noisier),
    ("khalili-thm2", "linear_query", noisier),
    ("khalili-thm3", "linear_query", other(shares=np.sqrt)),
    ("khalili-eq4-bias-bound", "linear_query", other(shares=np.sqrt)),
    ("khalili-footnote1-pure-noise", "equal_loss_contract", noisier),
    ("khalili-thm1", "all_groups", times(1.6)),
    ("khalili-thm1", "least_cost_contract", other(privacy_loss=np.zeros_like)),
    ("khalili-thm1-log-growth", "all_groups", times(0.5)),
    ("khalili-thm1-log-growth", "staircase", remade(lambda found: (*found[:2], found[2] ** 2))),
    ("khalili-thm4", "equal_loss_contract", more),
    ("khalili-thm4", "least_cost_contract", dearer),
    ("khalili-comparison-p1-vs-au", "equal_loss_contract", dearer),
    ("khalili-eq5-problem", "loss_of_share", times(1.01)),
    ("khalili-fig2", "equal_loss_contract", other(cost=lambda loss: 2 * loss)),
    (
        "khalili-total-loss-approaches-bound",
        "equal_loss_contract",
        other(cost=lambda loss: loss + 1),
    ),
    ("khalili-fig2-less-noise", "equal_loss_contract", more),
    ("khalili-eq9-contract-p1", "equal_loss_contract", more),
    ("khalili-eq13-contract-au", "linear_query", other(scale=lambda b: 0.5 * b)),
    ("khalili-ex-p1", "equal_loss_contract", more),
    ("khalili-ex-au", "linear_query", noisier),
    ("khalili-def3-query", "linear_query", other(shares=np.sqrt)),
]

SMALL["contracts/mechanisms"] = {
    "draws": 2000,
    "rescaled_draws": 200,
    "draws_near_ceiling": 1000,
    "wanted_lies": 1000,
    "gap_markets": 3,
    "scanned_markets": 2,
    "searched_markets": 1,
    "quadrature_markets": 2,
    "vcg_markets": 1,
}
FAULTS["contracts/mechanisms"] = [
    ("khalili-exp-asym", "vcg_contract", other(payments=lambda paid: 1.1 * paid)),
    ("khalili-fig3", "vcg_contract", other(payments=lambda paid: 1.3 * paid)),
    ("khalili-fig3", "m3", remade(lambda found: (found[0], 0.1 * found[1]))),
    ("khalili-fig3-decreasing", "m3", lambda f: lambda v, K, *rest: f(v, 25 - K, *rest)),
    ("khalili-fig4", "vcg_contract", other(payments=lambda paid: paid + 1e-6)),
    ("khalili-fig4", "m1", remade(lambda found: (found[0], 10 * found[1]))),
    (
        "khalili-scenario2-variance-explanation",
        "vcg_contract",
        other(payments=lambda paid: 1.01 * paid),
    ),
    ("khalili-thm13-envelope", "vcg_contract", other(payments=lambda paid: 1.01 * paid)),
    ("khalili-thm7", "equal_loss_pricing", other(payments=lambda paid: 1.01 * paid)),
    ("khalili-thm7", "equal_loss_pricing", other(privacy_loss=lambda loss: 0.99 * loss)),
    ("khalili-thm9", "unbiased_pricing", other(payments=lambda paid: 0.99 * paid)),
    ("khalili-thm9", "unbiased_pricing", other(payments=lambda paid: 1.01 * paid)),
    ("khalili-thm7-payment-gap", "equal_loss_pricing", other(payments=lambda paid: 0.99 * paid)),
    ("khalili-m1-below-m3", "equal_loss_pricing", other(payments=lambda paid: 10 * paid)),
    ("khalili-thm8", "vcg_contract", other(payments=lambda paid: 1.01 * paid)),
    ("khalili-thm8", "m2_by_vcg", times(1 + 1e-9)),
    ("khalili-thm8", "eq15", times(1.01)),
    ("khalili-h-monotone", "least_cost_contract", late),
]

SMALL["contracts/queries"] = {
    "random_queries": 60,
    "problems": 25,
    "vector_cases": 2,
    "releases": 2000,
}
FAULTS["contracts/queries"] = [
    ("khalili-ex1-setup", "nonlinear_query", noisier),
    ("khalili-ex1-setup", "sensitivities", times(1.01)),
    ("khalili-ex1-tight-sensitivity", "nonlinear_query", noisier),
    ("khalili-thm10", "nonlinear_query", other(sensitivity=lambda moves: 0.9 * moves)),
    ("khalili-eq22-24", "printed_shares", remade(lambda found: (0.99 * found[0], found[1]))),
    ("khalili-eq22-24", "conic_power", dearer),
    ("khalili-eq22-24", "least_cost_contract", dearer),
    ("khalili-ex1-tight-sensitivity", "sensitivities", times(1.01)),  # seller 2's bound is tight
    ("khalili-fig5", "least_cost_contract", other(cost=lambda cost: 2 * cost)),
    # of all shares
    ("khalili-fig5", "sensitivities", lambda f: lambda terms: f(terms) * (1 + (len(terms) > 2))),
    ("khalili-thm11", "linear_query", other(shares=np.sqrt)),
    ("khalili-thm12", "linear_query", other(shares=np.sqrt)),
    ("khalili-thm12", "linear_query", other(scale=lambda b: 2 * b)),
    (
        "khalili-multidim-same-problem",
        "vcg",
        remade(lambda found: (found[0], 1.01 * found[1], found[2])),
    ),
    ("khalili-multidim-same-problem", "conic_power", flat),
    (
        "khalili-multidim-same-problem",
        "linear_query",
        lambda f: lambda a, b, **k: f(a, b + k["dimension"], **k),
    ),
    ("khalili-future-work", "conic_power", more),
]
