"""What can be wrong on the pages on logistic regression: (claim, function, fault), one for every
computed verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from hdpm_book.logistic.joint_objective import water_filling
from tests.book.broken import other, remade, times
from tests.book.dataflow import Fault

SMALL: dict[str, dict[str, int]] = {}
FAULTS: dict[str, list[tuple[str, str, Fault]]] = {}

half_penalty = other(penalty=lambda penalty: penalty / 2)
half_eta = other(eta=lambda eta: 0.5 * eta)

SMALL["logistic/guarantee"] = {"problems": 6, "walks": 20}
FAULTS["logistic/guarantee"] = [
    *(
        (claim, "objective_perturbation", half_penalty)
        for claim in ("anjarlekar-j-alg1", "anjarlekar-t-alg0")
    ),
    ("anjarlekar-j-alg1", "objective_perturbation", other(eta=lambda eta: 1.5 * eta)),
    *(
        (claim, "printed_slack", times(0.1))
        for claim in ("anjarlekar-j-remarkII3", "anjarlekar-t-remark-delta")
    ),
    *((claim, "tight_pair", half_eta) for claim in ("anjarlekar-j-propII2", "anjarlekar-t-prop1")),
]

backwards = remade(lambda found: (found[0], found[1][::-1]))
worse_rehearsed = remade(lambda errors: errors + 0.1)

SMALL["logistic/cancer"] = {"draws": 2000}
FAULTS["logistic/cancer"] = [
    *((f"anjarlekar-{version}-exp-wbc", "virtual_valuation", times(1.1)) for version in "jt"),
    ("anjarlekar-j-claim-tradeoff", "joint_choice", backwards),
    (
        "anjarlekar-j-claim-regularised-better",
        "joint_choice",
        remade(lambda found: (0 * found[0], 0 * found[1])),
    ),
    ("anjarlekar-t-claim-tradeoff", "joint_choice", backwards),
    ("anjarlekar-t-robust-correlation", "handed_out", lambda f: lambda offer, *a: offer),
    *((f"anjarlekar-{version}-fig2", "joint_choice", backwards) for version in "jt"),
    *(
        (f"anjarlekar-{name}", "rehearse", worse_rehearsed)
        for name in ("j-remarkIV2-validation", "t-hyperparameters")
    ),
    (
        "anjarlekar-j-claim-budget-tuning",
        "within_budget",
        lambda f: lambda budget, *a, **k: f(1.01 * budget, *a, **k),
    ),
]

never_online = remade(lambda found: found | {"online": 3 * found["online"]})
dearer = remade(lambda found: found | {"loss": 1.0})
all_wrong = remade(lambda share: 1 + share)

SMALL["logistic/online"] = {"settings": 10}
FAULTS["logistic/online"] = [
    ("anjarlekar-j-alg3", "printed_rule", remade(lambda found: (found[0], 1.01 * found[1]))),
    ("anjarlekar-j-lemmaIX1", "share_below", times(1.01)),
    *(
        (f"anjarlekar-j-{name}", "market", dearer)
        for name in ("lemmaIX2", "footnote6-weaker", "claim-loss-decreases")
    ),
    (
        "anjarlekar-j-surrogate-lambda",
        "market",
        remade(lambda found: found | {"cutoff": 1.1 * found["cutoff"]}),
    ),
    ("anjarlekar-j-eta-rate", "market", remade(lambda found: found | {"eta": 1.0})),
    *(
        (f"anjarlekar-j-{name}", "market", never_online)
        for name in ("fig3", "claim-competitive-ratio")
    ),
    *(
        (f"anjarlekar-j-claim-{name}", "market", never_online)
        for name in ("online-matches-offline", "overestimate")
    ),
    *(
        (f"anjarlekar-j-{name}", "misclassified", all_wrong)
        for name in ("thmIV5", "thmV1", "claim-objective-small")
    ),
    ("anjarlekar-j-claim-asymptotically-optimal", "misclassified", all_wrong),
    *(
        (f"anjarlekar-{v}-claim-bounded-budget", "needed", lambda f: lambda psi, *a: len(psi))
        for v in "jt"
    ),
    ("anjarlekar-t-thm34", "proof_choice", times(1.1)),
    ("anjarlekar-t-thm34-nontrivial", "largest_useful", times(2.0)),
]


def in_weights(f: Any, w: Any, a: Any, in_w: Any, in_a: Any, alpha: float) -> tuple[Any, Any]:
    """Step in the weights in place of their logarithms."""
    return w - 0.1 * in_w, water_filling(0.1 * in_a - a, 1.0)


upside_down = other(values=np.negative, eta=lambda eta: 1.1 * eta)
# values by the length
drifting = remade(lambda run: run | {"values": run["values"] + 1e-3 * len(run["values"])})
on_the_floor = remade(lambda chosen: chosen.assign(average=0.0))
backwards_tau = remade(lambda parts: parts | {"level": -parts["level"], "tau": -parts["tau"]})


def held(f):
    """eta as it was at the start."""
    return lambda o, *a, **k: replace(f(o, *a, **k), eta=1.0 / o.gamma if o.gamma else 1.0)


SMALL["logistic/joint"] = {"draws": 1000, "shares": 41}
FAULTS["logistic/joint"] = [
    *(
        (f"anjarlekar-t-{name}", "eigenvalue", remade(abs))
        for name in ("change-of-variables", "thm41")
    ),
    *((f"anjarlekar-{name}", "best", on_the_floor) for name in ("j-eq17-surrogate", "t-eq3")),
    *((f"anjarlekar-{name}", "alternate", upside_down) for name in ("t-eq8-10", "t-thm33")),
    ("anjarlekar-j-claim-no-regularisation-bad", "misclassified", times(0)),
    *(
        (f"anjarlekar-t-obs{name}", "levels_and_tau", backwards_tau)
        for name in ("1-weights-vs-cost", "2-mu")
    ),
    ("anjarlekar-t-obs3-gamma", "alternate", held),
    ("anjarlekar-j-claim-fast-convergence", "nearest", lambda f: in_weights),
    *(
        (f"anjarlekar-t-{name}", "descend", drifting)
        for name in ("claim-same-stationary", "alg-iter")
    ),
    (
        "anjarlekar-j-thmVIII1",
        "plain_square",
        lambda f: lambda s, penalty, mu: f(s, 2 * penalty, mu),
    ),
    ("anjarlekar-j-claim-convexity-restrictive", "descend", drifting),
    (
        "anjarlekar-t-claim-convexity-large-class",
        "misclassified",
        lambda f: lambda w, *a: np.linalg.norm(w) ** -2,
    ),
    ("anjarlekar-j-alg4", "joint_law", lambda f: lambda signed, **k: f((-1.0, -1.0, -1.0), **k)),
]

underpaid = other(payments=lambda payments: 0.9 * payments)


def by_report(procurement_auction: Callable[..., Any]) -> Callable[..., Any]:
    """Payments of virtual costs under the uniform law, 2 c - low."""

    def call(costs: Any, law: Any, *arguments: Any, **options: Any) -> Any:
        found = procurement_auction(costs, law, *arguments, **options)
        return replace(found, payments=3 * np.asarray(costs) * found.privacy_loss)

    return call


def uneven(bought: Any) -> Any:
    """All from the one who sells most."""
    return replace(
        bought, privacy_loss=bought.eta * np.eye(len(bought.weights))[bought.weights.argmax()]
    )


sells_nothing = remade(lambda found: (0 * found[0], found[1]))
dearer_purchase = other(error=lambda error: 1.001 * error)
alike: Fault = lambda f: lambda costs, law, *_, **k: f(costs, law, 1.0, 10.0, 0.01, **k)  # noqa: E731
blind: Fault = lambda f: lambda labels, *a: f(0 * labels + 1.0, *a)  # noqa: E731

SMALL["logistic/market"] = {"repeats": 36}
FAULTS["logistic/market"] = [
    *(
        (f"anjarlekar-{n}", "procurement_auction", underpaid)
        for n in ("j-alg2", "j-eq7-ir", "t-eq4-7")
    ),
    *((f"anjarlekar-j-{name}", "procure", dearer_purchase) for name in ("thmIII3", "eq11-proxy")),
    ("anjarlekar-j-foc", "conditions", remade(lambda found: found + 1e-6)),
    ("anjarlekar-j-eq13-14", "equations", remade(lambda found: found + 1e-6)),
    *(
        (f"anjarlekar-{name}", "procure", remade(uneven))
        for name in ("j-remarkIV1", "t-remark-cap")
    ),
    *((f"anjarlekar-{n}", "procurement_auction", by_report) for n in ("j-lemmaIII2", "t-thm32")),
    *(
        (f"anjarlekar-{n}", "one_seller", sells_nothing)
        for n in ("j-lemmaIII2", "j-alg2", "j-eq7-ir", "t-eq4-7")
    ),
    ("anjarlekar-t-thm32", "gain_at", lambda f: lambda cost, _: f(cost, cost)),
    ("anjarlekar-j-remark-payment-independent-of-loss", "envelope", times(0.8)),
    ("anjarlekar-t-discussion-decoupling", "procurement_auction", alike),
    *((f"anjarlekar-j-{name}", "bought_by_t", blind) for name in ("timing", "remark-payment-leak")),
    (
        "anjarlekar-t-fig4",
        "bought_by_t",
        lambda f: lambda labels, *a: np.full(len(labels), 1 / len(labels)),
    ),
    ("anjarlekar-t-ex-appendixC", "virtual_valuation", times(1.1)),
]


def apart_only(f: Any, eps: Any) -> tuple[Any, Any, float]:
    """Equal weights, whatever mu is."""
    a = np.full(len(eps), 1 / len(eps))
    eta = float(len(eps) * eps.min())
    return f.best_coefficients(a, eta), a, eta


hopeless = remade(lambda error: 99 + error)


def unprepared(f):
    """Give all the same weight."""
    return lambda eps, ratio: (np.full(len(eps), 1 / len(eps)), len(eps) * eps.min())


SMALL["logistic/risk"] = {"samples": 5}
FAULTS["logistic/risk"] = [
    (
        "anjarlekar-t-lambda-enforces-beta",
        "weighted_logistic",
        lambda f: lambda X, y, a, penalty, noise: f(X, y, a, penalty / 9, noise),
    ),
    ("anjarlekar-j-thmII4-v", "longest", times(1.01)),
    *((f"anjarlekar-{name}", "exact_error", hopeless) for name in ("j-thmII4", "t-thm21")),
    ("anjarlekar-j-homogeneous-choice", "choose_weights", unprepared),
    (
        "anjarlekar-t-interpretation",
        "procure",
        lambda f: lambda psi, mu, s, g: f(psi, 1 / mu, 1 / s, 1 / g),
    ),
    *(
        (f"anjarlekar-{version}-claim-extends-weights", "value", remade(lambda found: found - 9.0))
        for version in "jt"
    ),
    *((f"anjarlekar-{name}", "in_turn", lambda f: apart_only) for name in ("j-fig4", "t-fig3")),
    (
        "anjarlekar-t-fig5",
        "exact_error",
        lambda f: lambda w, *a: np.linalg.norm(w, axis=-1) ** -0.5,
    ),
]
