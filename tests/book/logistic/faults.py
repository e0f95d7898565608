"""What can be wrong on the pages on logistic regression: (claim, function, fault), one for every computed verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from hdpm_book.logistic.joint_objective import water_filling
from tests.book.broken import other, times
from tests.book.dataflow import Fault

SMALL: dict[str, dict[str, int]] = {}
FAULTS: dict[str, list[tuple[str, str, Fault]]] = {}

half_penalty: Fault = lambda f: lambda *a: replace(f(*a), penalty=f(*a).penalty / 2)  # noqa: E731
less_noise: Fault = lambda f: lambda *a: replace(f(*a), eta=1.5 * f(*a).eta)  # noqa: E731
more_noise = other(eta=lambda eta: 0.5 * eta)

SMALL["logistic/guarantee"] = {"problems": 6, "walks": 20}
FAULTS["logistic/guarantee"] = [
    *((claim, "objective_perturbation", half_penalty) for claim in ("anjarlekar-j-alg1", "anjarlekar-t-alg0")),
    ("anjarlekar-j-alg1", "objective_perturbation", less_noise),
    *((claim, "printed_slack", times(0.1)) for claim in ("anjarlekar-j-remarkII3", "anjarlekar-t-remark-delta")),
    *(
        (claim, "tight_pair", other(eta=lambda eta: 0.5 * eta))
        for claim in ("anjarlekar-j-propII2", "anjarlekar-t-prop1")
    ),
]

backwards: Fault = lambda f: lambda *a, **k: (f(*a, **k)[0], f(*a, **k)[1][::-1])  # noqa: E731
alike: Fault = lambda f: lambda *a, **k: (0 * f(*a, **k)[0], 0 * f(*a, **k)[1])  # noqa: E731

SMALL["logistic/cancer"] = {"draws": 2000}
FAULTS["logistic/cancer"] = [
    *((f"anjarlekar-{version}-exp-wbc", "virtual_valuation", times(1.1)) for version in "jt"),
    ("anjarlekar-j-claim-tradeoff", "joint_choice", backwards),
    ("anjarlekar-j-claim-regularised-better", "joint_choice", alike),
    ("anjarlekar-t-claim-tradeoff", "joint_choice", backwards),
    ("anjarlekar-t-robust-correlation", "handed_out", lambda f: lambda offer, *a: offer),
    *((f"anjarlekar-{version}-fig2", "joint_choice", backwards) for version in "jt"),
    *(
        (claim, "rehearse", lambda f: lambda *a: f(*a) + 0.1)
        for claim in ("anjarlekar-j-remarkIV2-validation", "anjarlekar-t-hyperparameters")
    ),
    ("anjarlekar-j-claim-budget-tuning", "within_budget", lambda f: lambda budget, *a: f(1.01 * budget, *a)),
]

never_online: Fault = lambda f: lambda *a: (f(*a)[0], 3 * f(*a)[1], *f(*a)[2:])  # noqa: E731
dearer: Fault = lambda f: lambda *a: (1.0, *f(*a)[1:])  # noqa: E731

SMALL["logistic/online"] = {"settings": 10}
FAULTS["logistic/online"] = [
    ("anjarlekar-j-alg3", "printed_rule", lambda f: lambda m, d, *a: (f(m, d, *a)[0], 1.01 * f(m, d, *a)[1])),
    ("anjarlekar-j-lemmaIX1", "share_below", times(1.01)),
    *((f"anjarlekar-j-{name}", "market", dearer) for name in ("lemmaIX2", "footnote6-weaker")),
    ("anjarlekar-j-surrogate-lambda", "market", lambda f: lambda *a: (*f(*a)[:3], 1.1 * f(*a)[3], *f(*a)[4:])),
    ("anjarlekar-j-eta-rate", "market", lambda f: lambda *a: (*f(*a)[:2], 1.0, *f(*a)[3:])),
    *((f"anjarlekar-j-{name}", "market", never_online) for name in ("fig3", "claim-competitive-ratio")),
    ("anjarlekar-j-claim-online-matches-offline", "market", never_online),
    ("anjarlekar-j-claim-overestimate", "market", never_online),
    ("anjarlekar-j-claim-loss-decreases", "market", dearer),
    *((f"anjarlekar-j-{name}", "misclassified", lambda f: lambda *a: 1 + f(*a)) for name in ("thmIV5", "thmV1")),
    *(
        (f"anjarlekar-j-claim-{name}", "misclassified", lambda f: lambda *a: 1 + f(*a))
        for name in ("objective-small", "asymptotically-optimal")
    ),
    *((f"anjarlekar-{v}-claim-bounded-budget", "needed", lambda f: lambda psi, *a: len(psi)) for v in "jt"),
    ("anjarlekar-t-thm34", "proof_choice", times(1.1)),
    ("anjarlekar-t-thm34-nontrivial", "largest_useful", times(2.0)),
]


def worse(alternate: Callable[..., Any]) -> Callable[..., Any]:
    """A minimum that stands above where the weights lie, by more the smaller eta is."""

    def call(objective: Any, eta: float | None = None, **options: Any) -> Any:
        found = alternate(objective, eta, **options)
        return replace(found, values=found.values + 1e9 / found.eta, weights=found.weights[::-1], eta=1.1 * found.eta)

    return call


def in_weights(f: Any, w: Any, a: Any, in_w: Any, in_a: Any, alpha: float) -> tuple[Any, Any]:
    """A step in the weights in place of their logarithms."""
    return w - 0.1 * in_w, water_filling(0.1 * in_a - a, 1.0)


def drifting(descend: Callable[..., Any]) -> Callable[..., Any]:
    """Values that depend on how long a descent took."""

    def call(*arguments: Any, **options: Any) -> Any:
        w, a, values, ended = descend(*arguments, **options)
        return w, a, values + 1e-3 * len(values), ended

    return call


on_the_floor: Fault = lambda f: lambda *a: [replace(s, eta=0.0) for s in f(*a)]  # noqa: E731
backwards_tau: Fault = lambda f: lambda *a: (*f(*a)[:1], -f(*a)[1], -f(*a)[2])  # noqa: E731
held: Fault = lambda f: lambda o, *a, **k: replace(f(o, *a, **k), eta=1.0 / o.gamma if o.gamma else 1.0)  # noqa: E731

SMALL["logistic/joint"] = {"draws": 1000, "shares": 41}
FAULTS["logistic/joint"] = [
    ("anjarlekar-t-change-of-variables", "eigenvalue", lambda f: lambda *a, **k: abs(f(*a, **k))),
    ("anjarlekar-t-thm41", "eigenvalue", lambda f: lambda *a, **k: abs(f(*a, **k))),
    *((f"anjarlekar-{name}", "best", on_the_floor) for name in ("j-eq17-surrogate", "t-eq3")),
    *((f"anjarlekar-{name}", "alternate", worse) for name in ("t-eq8-10", "t-thm33")),
    ("anjarlekar-j-claim-no-regularisation-bad", "misclassified", lambda f: lambda *a: 0 * f(*a)),
    *((f"anjarlekar-t-obs{name}", "levels_and_tau", backwards_tau) for name in ("1-weights-vs-cost", "2-mu")),
    ("anjarlekar-t-obs3-gamma", "alternate", held),
    ("anjarlekar-j-claim-fast-convergence", "nearest", lambda f: in_weights),
    *((f"anjarlekar-t-{name}", "descend", drifting) for name in ("claim-same-stationary", "alg-iter")),
    ("anjarlekar-j-thmVIII1", "plain_square", lambda f: lambda s, penalty, mu: f(s, 2 * penalty, mu)),
    ("anjarlekar-j-claim-convexity-restrictive", "descend", drifting),
    ("anjarlekar-t-claim-convexity-large-class", "misclassified", lambda f: lambda w, *a: np.linalg.norm(w) ** -2),
    ("anjarlekar-j-alg4", "joint_law", lambda f: lambda signed, **k: f((-1.0, -1.0, -1.0), **k)),
]


def sells_more(procurement_auction: Callable[..., Any]) -> Callable[..., Any]:
    """An auction that pays a tenth less than the integral."""

    def call(*arguments: Any, **options: Any) -> Any:
        found = procurement_auction(*arguments, **options)
        return replace(found, payments=0.9 * found.payments)

    return call


def by_report(procurement_auction: Callable[..., Any]) -> Callable[..., Any]:
    """Payments of virtual costs under the uniform law, 2 c - low."""

    def call(costs: Any, law: Any, *arguments: Any, **options: Any) -> Any:
        found = procurement_auction(costs, law, *arguments, **options)
        return replace(found, payments=3 * np.asarray(costs) * found.privacy_loss)

    return call


def alike_payments(procurement_auction: Callable[..., Any]) -> Callable[..., Any]:
    """Payments that do not depend on the constants."""
    return lambda costs, law, *_, **options: procurement_auction(costs, law, 1.0, 10.0, 0.01, **options)


twice_the_largest: Fault = lambda f: lambda *a, **k: uneven(f(*a, **k))  # noqa: E731


def uneven(bought: Any) -> Any:
    """All from the one who sells most."""
    return replace(bought, privacy_loss=bought.eta * np.eye(len(bought.weights))[bought.weights.argmax()])


dearer_purchase = other(error=lambda error: 1.001 * error)
blind: Fault = lambda f: lambda labels, *a: f(0 * labels + 1.0, *a)  # noqa: E731

SMALL["logistic/market"] = {"repeats": 36}
FAULTS["logistic/market"] = [
    ("anjarlekar-j-alg2", "procurement_auction", sells_more),
    ("anjarlekar-j-thmIII3", "procure", dearer_purchase),
    ("anjarlekar-j-eq11-proxy", "procure", dearer_purchase),
    ("anjarlekar-j-foc", "conditions", lambda f: lambda *a: f(*a) + 1e-6),
    ("anjarlekar-j-eq13-14", "equations", lambda f: lambda *a: f(*a) + 1e-6),
    *((claim, "procure", twice_the_largest) for claim in ("anjarlekar-j-remarkIV1", "anjarlekar-t-remark-cap")),
    ("anjarlekar-j-eq6-ic", "procurement_auction", by_report),
    ("anjarlekar-j-lemmaIII2", "procurement_auction", by_report),
    ("anjarlekar-t-thm32", "procurement_auction", by_report),
    *((claim, "procurement_auction", sells_more) for claim in ("anjarlekar-j-eq7-ir", "anjarlekar-t-eq4-7")),
    ("anjarlekar-j-remark-payment-independent-of-loss", "envelope", times(0.8)),
    ("anjarlekar-t-discussion-decoupling", "procurement_auction", alike_payments),
    ("anjarlekar-j-timing", "bought_by_t", blind),
    ("anjarlekar-j-remark-payment-leak", "bought_by_t", blind),
    ("anjarlekar-t-fig4", "bought_by_t", lambda f: lambda labels, *a: np.full(len(labels), 1 / len(labels))),
    ("anjarlekar-t-ex-appendixC", "virtual_valuation", times(1.1)),
]


def apart_only(f: Any, eps: Any) -> tuple[Any, Any, float]:
    """Equal weights, whatever mu is."""
    a, eta = np.full(len(eps), 1 / len(eps)), float(len(eps) * eps.min())
    return f.best_coefficients(a, eta), a, eta


optimistic: Fault = lambda f: lambda *a: 99 + f(*a)  # noqa: E731
unprepared: Fault = lambda f: lambda eps, ratio: (np.full(len(eps), 1 / len(eps)), len(eps) * eps.min())  # noqa: E731

SMALL["logistic/risk"] = {"samples": 5}
FAULTS["logistic/risk"] = [
    ("anjarlekar-t-lambda-enforces-beta", "objective_perturbation", other(penalty=lambda penalty: penalty / 9)),
    ("anjarlekar-j-thmII4-v", "longest", times(1.01)),
    *((claim, "exact_error", optimistic) for claim in ("anjarlekar-j-thmII4", "anjarlekar-t-thm21")),
    ("anjarlekar-j-homogeneous-choice", "choose_weights", unprepared),
    ("anjarlekar-t-interpretation", "procure", lambda f: lambda psi, mu, s, g: f(psi, 1 / mu, 1 / s, 1 / g)),
    *((f"anjarlekar-{version}-claim-extends-weights", "value", lambda f: lambda *a: f(*a) - 9.0) for version in "jt"),
    *((claim, "in_turn", lambda f: apart_only) for claim in ("anjarlekar-j-fig4", "anjarlekar-t-fig3")),
    ("anjarlekar-t-fig5", "exact_error", lambda f: lambda w, *a: np.linalg.norm(w, axis=-1) ** -0.5),
]
