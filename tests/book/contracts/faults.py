"""What can be wrong on the pages on contracts: (claim, function, fault), at least one for every computed verdict."""

from __future__ import annotations

import numpy as np

from tests.book.broken import other, times
from tests.book.dataflow import Fault

dearer = other(cost=lambda cost: 1.01 * cost)
flat = other(shares=lambda a: np.ones_like(a))
late = other(privacy_loss=lambda loss: loss[..., ::-1])
less = other(privacy_loss=lambda loss: 0.5 * loss)
more = other(privacy_loss=lambda loss: 2.0 * loss)

SMALL: dict[str, dict[str, int]] = {}
FAULTS: dict[str, list[tuple[str, str, Fault]]] = {}

SMALL["contracts/allocation"] = {"markets": 16, "draws": 100}
FAULTS["contracts/allocation"] = [
    ("khalili-eq10-problem", "least_cost_contract", dearer),
    ("khalili-eq10-problem", "conic_power", dearer),
    ("khalili-thm6-ratio-condition", "conic_power", other(shares=lambda a: a**2)),
    ("khalili-ex-p2", "least_cost_contract", less),
    ("khalili-ex-p2", "theorem5_terms", times(1.01)),
    ("khalili-ex-totals", "equal_loss_contract", more),
    ("khalili-thm5", "least_cost_contract", flat),
    ("khalili-thm5-single-fractional", "conic_power", other(shares=lambda a: a / 2 + 0.01)),
    ("khalili-alg1", "one_root", lambda f: lambda *a: (f(*a)[0], f(*a)[1], 1.01 * f(*a)[2])),
    ("khalili-thm6", "least_cost_contract", dearer),
    ("khalili-eq12-contract-p2", "least_cost_contract", less),
    ("khalili-comparison-p2-vs-au", "unbiased_contract", other(privacy_loss=lambda loss: 0.01 * loss)),
    ("khalili-p2-heterogeneous-loss", "least_cost_contract", late),
    ("khalili-abstract-both-benefit", "equal_loss_contract", more),
]
