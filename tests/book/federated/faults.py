"""What can be wrong on the pages on FL-Market: (claim, function, fault), at least one for every
computed verdict.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hdpm_book.records import page_functions
from hdpm_lib.aggregation import least_error_weights, size_weights
from tests.book.broken import other, remade, times
from tests.book.dataflow import Fault


@remade
def dearer(found: Any) -> Any:
    """Markets with rates beyond the printed interval, and no money."""
    return replace(found[0], rate=found[0].rate + 1), 0


@remade
def noisier(found: Any) -> Any:
    """Error bounds that rise with what is sold, and profiles without a sale in one of a hundred."""
    error, invalid = found
    return error._replace(value=1 / error.value), invalid._replace(value=invalid.value + 0.01)


@remade
def shuffled(study: Any) -> Any:
    """Studies whose numbers of levels run the other way."""
    return study | {"rows": [row | {"levels": 17 - row.get("levels", 0)} for row in study["rows"]]}


@remade
def other_settings(found: Any) -> Any:
    """Files of trainings with other batches, steps and multipliers."""
    changed = dict.fromkeys(("batch_size", "misreport_iter", "model_lr", "rho_regret"), 7)
    return {name: settings | changed for name, settings in found.items()}


@remade
def twice(found: Any) -> Any:
    """Rows of Table I with twice the regret."""
    return found | {"regret": found["regret"]._replace(value=2 * found["regret"].value)}


@remade
def overspent(found: Any) -> Any:
    """Trainings whose auctions pay twice."""
    return found | {
        "bought": (paid := found["bought"]) and replace(paid, payments=2 * paid.payments)
    }


PAGE = page_functions("federated/aggregation", "opt_aggr_printed")
opt_aggr_printed = PAGE["opt_aggr_printed"]
exact: Fault = lambda _: lambda e, d, **options: least_error_weights(e, d)  # noqa: E731
printed: Fault = lambda _: lambda e, d, **options: opt_aggr_printed(e, d)  # noqa: E731
usual: Fault = lambda _: lambda e, d, **options: size_weights(e, d)  # noqa: E731
reversed_: Fault = lambda f: lambda *a, **k: f(1 / (a[0] + np.ones_like(a[0])), *a[1:], **k)  # noqa: E731
richer = remade(lambda found: (found[0], 1.01 * found[1]))

SMALL: dict[str, dict[str, int]] = {}
FAULTS: dict[str, list[tuple[str, str, Fault]]] = {}

SMALL["federated/networks"] = {"points": 2000, "cases": 1000}
SMALL["federated/allin"] = {
    "tested": 20,
    "markets_exact": 50,
    "markets_of_six": 100,
    "markets_repaired": 1000,
    "markets_broken": 500,
}
FAULTS["federated/allin"] = [
    ("flm-alg4-allin", "all_in_printed", other(payments=lambda paid: 1.001 * paid)),
    ("flm-alg4-allin", "printed", lambda f: lambda V, x, B, stop: f(V, x, B, not stop)),
    ("flm-allin-ir", "all_in_printed", other(payments=lambda paid: 0.999 * paid)),
    ("flm-allin-monotone", "all_in_printed", other(privacy_loss=lambda sold: sold[..., ::-1])),
    ("flm-prop2", "all_or_nothing", other(payments=lambda paid: 1.2 * paid)),
    ("flm-prop2", "single_minded_gains", times(0)),
]

SMALL["federated/market"] = {"n_markets": 50, "auctions": 5, "small": 2000, "large": 20_000}
FAULTS["federated/market"] = [
    ("flm-auction-settings", "study_markets", dearer),
    ("flm-truthfulness-ir-bf", "utility", remade(lambda gain: gain - 1)),
    ("flm-truthfulness-ir-bf", "at_unit_price", other(payments=lambda paid: 0.5 * paid)),
    ("flm-fig1", "posted_prices", other(payments=lambda paid: paid[..., ::-1])),
    ("flm-complexity", "multiplications", remade(np.square)),
]

SMALL["federated/aggregation"] = {"instances": 6, "draws": 2000, "profiles": 20, "owners": 2000}
FAULTS["federated/aggregation"] = [
    ("flm-eq2-aggregation", "size_weights", times(1.01)),
    ("flm-err-decomposition", "error_bound", times(1.3)),
    ("flm-problem1", "mean_absolute", lambda f: lambda bias, s, t: bias**2 + 2 * s**2 + 2 * t**2),
    ("flm-zero-eps-zero-weight", "least_error_weights", lambda f: lambda e, d: f(np.sqrt(e), d)),
    *(
        (claim, "opt_aggr_printed", exact)
        for claim in ("flm-problem3", "flm-prop1", "flm-optaggr-vs-conv-dominance")
    ),
    *((claim, "least_error_weights", printed) for claim in ("flm-prop1", "flm-alg2-optaggr")),
    ("flm-problem3", "bound", lambda f: lambda x, idle: f(x, 0)),
    ("flm-optaggr-vs-conv-dominance", "least_error_weights", reversed_),
    ("flm-optaggr-vs-conv-dominance", "opt_aggr_printed", usual),
]

FAULTS["federated/networks"] = [
    ("flm-eq3-argmax", "certain", remade(lambda chances: chances[..., ::-1])),
    ("flm-alg3-dm", "smooth", lambda f: lambda chances, tau: chances),
    *((claim, "at_truth", richer) for claim in ("flm-m-regretnet", "flm-m-regretnet-bf")),
    ("flm-m1-reduces", "at_truth", remade(lambda found: (found[0] ** 2, found[1]))),
    (
        "flm-problems-regretnet",
        "draw",
        lambda f: lambda *a: f(*a) * (np.arange(len(a[0])) % 2)[:, None],
    ),
    ("flm-dav", "dav", times(0.99)),
    ("flm-problem4", "least_dav", times(-1.0)),
]

SMALL["federated/training"] = {}
FAULTS["federated/training"] = [
    ("flm-footnote3-npl", "objective_of", times(1.01)),
    ("flm-training-lagrangian", "train", lambda f: lambda *a, rule="", **k: f(*a, **k)),
    ("flm-hyperparameters", "stored_settings", other_settings),
]

SMALL["federated/regret"] = {"markets_of_levels": 10}
FAULTS["federated/regret"] = [  # the quickest first
    *(
        (claim, "recorded", shuffled)
        for claim in ("flm-fig10", "flm-claim-m-effect", "flm-claim-larger-m-easier")
    ),
    ("flm-claim-dm-universal", "printed_table", times(0.0)),
    ("flm-table1", "printed_table", times(1.1)),
    ("flm-table1", "as_published", twice),
    ("flm-bid-search", "search", remade(lambda found: (0 * found[0], found[1]))),
    *(
        (claim, "error_of_valid", noisier)
        for claim in ("flm-fig7", "flm-fig8", "flm-claim-dm-lowest-error")
    ),
    ("flm-claim-dm-lowest-error", "hold", remade(lambda found: (0 * found[0], found[1]))),
    ("flm-claim-budget-above-one", "budget_of", lambda f: lambda bidders, factor: f(bidders, 1.0)),
]

SMALL["federated/learning"] = {}
FAULTS["federated/learning"] = [
    *((claim, "clipped", times(1.2)) for claim in ("flm-eq1-clip", "flm-record-level")),
    (
        "flm-fedsgd",
        "fedsgd",
        other(signal=lambda sums: {name: 1.01 * x for name, x in sums.items()}),
    ),
    ("flm-data-nslkdd", "people", lambda f: lambda y, *a, **k: f(y[1:], *a, **k)),
    ("flm-alg1", "learn", overspent),
    ("flm-claim-optaggr", "lead", times(-1)),
    ("flm-fig9", "score", lambda f: lambda values: -9.0),
]
