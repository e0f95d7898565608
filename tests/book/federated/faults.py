"""What can be wrong on the pages on FL-Market: (claim, function, fault), at least one for every computed verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from hdpm_book.federated.aggregation import opt_aggr_printed
from hdpm_lib.aggregation import least_error_weights
from hdpm_lib.auctions.bids import Bids
from tests.book.broken import other, times
from tests.book.dataflow import Fault


def dearer(study_markets: Callable[[int], tuple[Bids, Any]]) -> Callable[[int], tuple[Bids, Any]]:
    """Markets with rates beyond the printed interval."""

    def call(count: int) -> tuple[Bids, Any]:
        market, budget = study_markets(count)
        return replace(market, rate=market.rate + 1), budget

    return call


SMALL: dict[str, dict[str, int]] = {}
FAULTS: dict[str, list[tuple[str, str, Fault]]] = {}

SMALL["federated/allin"] = {"count": 20, "trials": 50, "many": 100, "most": 1000, "fewer_trials": 500}
FAULTS["federated/allin"] = [
    ("flm-alg4-allin", "all_in_printed", other(payments=lambda paid: 1.001 * paid)),
    ("flm-alg4-allin", "printed", lambda f: lambda V, x, B, stop: f(V, x, B, not stop)),
    ("flm-allin-ir", "all_in_printed", other(payments=lambda paid: 0.999 * paid)),
    ("flm-allin-monotone", "all_in_printed", other(privacy_loss=lambda sold: sold[..., ::-1])),
    ("flm-prop2", "all_or_nothing", other(payments=lambda paid: 1.2 * paid)),
    ("flm-prop2", "single_minded_gains", lambda f: lambda *a: 0 * f(*a)),
]

SMALL["federated/market"] = {"count": 50, "auctions": 5, "small": 2000, "large": 20_000}
FAULTS["federated/market"] = [
    (
        "flm-auction-settings",
        "study_markets",
        lambda f: lambda count: (replace(f(count)[0], rate=f(count)[0].rate + 1), 0),
    ),
    ("flm-truthfulness-ir-bf", "utility", lambda f: lambda *a: f(*a) - 1),
    ("flm-truthfulness-ir-bf", "at_unit_price", other(payments=lambda paid: 0.5 * paid)),
    ("flm-fig1", "posted_prices", other(payments=lambda paid: paid[..., ::-1])),
    ("flm-complexity", "multiplications", lambda f: lambda *a: f(*a) ** 2),
]

printed: Fault = lambda _: lambda e, d, **options: opt_aggr_printed(e, d)  # noqa: E731
SMALL["federated/aggregation"] = {"instances": 6, "draws": 2000, "profiles": 20, "owners": 2000}
FAULTS["federated/aggregation"] = [
    ("flm-eq2-aggregation", "size_weights", times(1.01)),
    ("flm-err-decomposition", "error_bound", times(1.3)),
    ("flm-problem1", "mean_absolute", lambda f: lambda bias, s, t: bias**2 + 2 * s**2 + 2 * t**2),
    ("flm-zero-eps-zero-weight", "least_error_weights", lambda f: lambda e, d: f(np.sqrt(e), d)),
    ("flm-problem3", "opt_aggr_printed", lambda f: lambda e, d, **_: least_error_weights(e, d)),
    ("flm-problem3", "bound", lambda f: lambda x, idle: f(x, 0)),
    ("flm-prop1", "opt_aggr_printed", lambda f: lambda e, d, **_: least_error_weights(e, d)),
    ("flm-prop1", "least_error_weights", printed),
    ("flm-alg2-optaggr", "least_error_weights", printed),
    ("flm-optaggr-vs-conv-dominance", "least_error_weights", lambda f: lambda e, d: f(1 / (e + np.ones_like(e)), d)),
    ("flm-optaggr-vs-conv-dominance", "opt_aggr_printed", lambda f: lambda e, d, **_: least_error_weights(e, d)),
]
