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

SMALL["federated/networks"] = {"points": 2000, "cases": 1000}
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
    (
        "flm-optaggr-vs-conv-dominance",
        "least_error_weights",
        lambda f: lambda e, d, **k: f(1 / (e + np.ones_like(e)), d, **k),
    ),
    ("flm-optaggr-vs-conv-dominance", "opt_aggr_printed", lambda f: lambda e, d, **_: least_error_weights(e, d)),
]

FAULTS["federated/networks"] = [
    ("flm-eq3-argmax", "certain", lambda f: lambda chances: f(chances)[..., ::-1]),
    ("flm-alg3-dm", "smooth", lambda f: lambda kind, chances, *tau: chances),
    ("flm-m-regretnet", "forward", lambda f: lambda *a: (f(*a)[0], 1.01 * f(*a)[1])),
    ("flm-m-regretnet-bf", "forward", lambda f: lambda *a: (f(*a)[0], 1.01 * f(*a)[1])),
    ("flm-m1-reduces", "forward", lambda f: lambda *a: (f(*a)[0] ** 2, f(*a)[1])),
    ("flm-problems-regretnet", "draw", lambda f: lambda *a: f(*a) * (np.arange(len(a[0])) % 2)[:, None]),
    ("flm-footnote3-npl", "violations", lambda f: lambda *a: (1.01 * f(*a)[0], *f(*a)[1:])),
    ("flm-dav", "dav", times(0.99)),
    ("flm-problem4", "least_dav", times(-1.0)),
    ("flm-training-lagrangian", "recorded", lambda f: lambda path: f(path) | {"log": 12 * f(path).get("log", [])[:1]}),
    ("flm-hyperparameters", "Settings", lambda f: lambda network: f(network, batches=50)),
]


def noisier(error_of_valid: Callable[..., Any]) -> Callable[..., Any]:
    """Error bounds that rise with what is sold, and profiles without a sale in one of a hundred."""

    def call(loss: Any, sizes: Any, *rule: Any) -> Any:
        error, invalid = error_of_valid(loss, sizes, *rule)
        return error._replace(value=1 / error.value), invalid._replace(value=invalid.value + 0.01)

    return call


nobody: Fault = lambda f: lambda *a, **k: (0 * f(*a, **k)[0], f(*a, **k)[1])  # noqa: E731


def shuffled(recorded: Callable[[str], Any]) -> Callable[[str], Any]:
    """Studies whose numbers of levels run the other way."""

    def call(name: str) -> Any:
        study = recorded(name)
        return study | {"rows": [row | {"levels": 17 - row.get("levels", 0)} for row in study["rows"]]}

    return call


SMALL["federated/regret"] = {"some": 10}
FAULTS["federated/regret"] = [
    ("flm-claim-dm-universal", "printed_table", times(0.0)),
    ("flm-table1", "gini", times(0.1)),
    ("flm-bid-search", "search", nobody),
    ("flm-fig7", "error_of_valid", noisier),
    ("flm-fig8", "error_of_valid", noisier),
    ("flm-claim-dm-lowest-error", "error_of_valid", noisier),
    ("flm-claim-budget-above-one", "budget_of", lambda f: lambda bidders, factor: f(bidders, 1.0)),
    *((claim, "recorded", shuffled) for claim in ("flm-fig10", "flm-claim-m-effect", "flm-claim-larger-m-easier")),
]


def overspent(learn: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Trainings whose auctions pay twice."""

    def call(*arguments: Any, **options: Any) -> dict[str, Any]:
        found = learn(*arguments, **options)
        bought = found["bought"]
        return found | {"bought": bought and replace(bought, payments=2 * bought.payments)}

    return call


louder: Fault = lambda f: lambda *a: 1.2 * f(*a)  # noqa: E731

SMALL["federated/learning"] = {"models": 3}
FAULTS["federated/learning"] = [
    ("flm-eq1-clip", "clipped", louder),
    ("flm-fedsgd", "fedsgd", other(signal=lambda sums: {name: 1.01 * x for name, x in sums.items()})),
    ("flm-record-level", "clipped", louder),
    ("flm-data-nslkdd", "people", lambda f: lambda y, *a, **k: f(y[1:], *a, **k)),
    ("flm-alg1", "learn", overspent),
    ("flm-claim-optaggr", "lead", lambda f: lambda one: -f(one)),
    ("flm-fig9", "score", lambda f: lambda values: -9.0),
]
