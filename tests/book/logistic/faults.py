"""What can be wrong on the pages on logistic regression: (claim, function, fault), one for every computed verdict."""

from __future__ import annotations

from dataclasses import replace

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
