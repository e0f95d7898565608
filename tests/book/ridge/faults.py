"""What can be wrong on the pages on ridge regression: (claim, function, fault), one for every
computed verdict.
"""

from __future__ import annotations

import numpy as np

from tests.book.broken import other, times
from tests.book.dataflow import Fault

SMALL: dict[str, dict[str, int]] = {}
FAULTS: dict[str, list[tuple[str, str, Fault]]] = {}

SMALL["ridge/guarantee"] = {
    "n_problems": 10,
    "n_lengths": 1000,
    "n_draws": 1000,
    "n_points": 100_000,
    "n_data_sets": 60,
    "n_quadratics": 20,
    "n_pairs": 200,
    "n_outcomes": 500,
    "n_searches": 8,
    "n_groups": 20,
    "n_releases": 100,
}
twice = other(noise_rate=lambda rate: 2 * rate)
FAULTS["ridge/guarantee"] = [
    ("pdp-closed-form", "weighted_ridge", times(1.01)),
    ("pdp-alg1", "output_perturbation", twice),
    (
        "pdp-alg1",
        "pdp_op",
        lambda f: lambda X, y, eps, penalty, *a: f(X, y, eps, 1.1 * penalty, *a),
    ),
    ("pdp-remark1-sampling", "spherical_laplace", times(1.1)),
    ("pdp-lemmaC1", "weighted_ridge", times(2.1)),
    ("pdp-lemmaC1", "estimate_norm_bound", times(0.5)),
    ("pdp-lemmaC2", "weighted_ridge", times(2.1)),
    ("pdp-theta-norm-monotone", "weighted_ridge", lambda f: lambda *a: (1 + a[3]) * f(*a)),
    ("pdp-lemmaC3", "lemma_bound", times(0.5)),
    ("pdp-thmC4", "output_perturbation", other(constant=lambda c: 0.5 * c)),
    ("pdp-thmC4", "sensitivity_constant", times(0.5)),
    ("pdp-lemmaC5", "output_perturbation", twice),
    ("pdp-lemmaC5", "log_density", times(2.0)),
    ("pdp-thm21", "output_perturbation", twice),
    ("pdp-thm21", "privacy_losses", other(found=lambda losses: 0.4 * losses)),
    ("pdp-thm25-eta-personalised", "output_perturbation", other(noise_rate=lambda rate: rate**1.2)),
    (
        "pdp-thm23-less-noise",
        "sensitivity_constant",
        lambda f: lambda *a, **known: f(*a, **known) * (1 + len(known)),
    ),
]

SMALL["ridge/tables"] = {
    "n_candidates": 2000,
    "n_recoveries": 1,
    "n_sets": 60,
    "n_seeds": 25,
}
FAULTS["ridge/tables"] = [
    ("pdp-medical-data", "weighted_ridge", times(1.01)),
    ("pdp-synthetic-data", "sensitivity_constant", times(2.0)),
    ("pdp-budget-scheme", "sensitivity_constant", times(1.2)),
    ("pdp-claim-orders-of-magnitude", "published", other(printed=lambda cells: cells**0.6)),
    ("pdp-baseline-nonpersonalised", "implied_total", times(1.1)),
    ("pdp-metrics", "implied_total", times(1.1)),
    *((f"pdp-table{k:02d}", "implied_total", times(1.1)) for k in range(1, 15)),
    ("pdp-table09", "PrivacyGroups", lambda f: lambda **_: f()),
    ("pdp-table13", "table", times(1.15)),
]

SMALL["ridge/figures"] = {
    "n_draws": 4,
    "n_draws_elsewhere": 0,
    "n_repeats": 1,
    "n_sets": 20,
    "n_sets_more": 20,
    "n_sets_most": 20,
    "n_sampled_sets": 2000,
    "n_crowd": 10_000,
}
alike: Fault = lambda f: lambda eps, *a, **options: f(np.full_like(eps, eps.min()), *a, **options)  # noqa: E731
FAULTS["ridge/figures"] = [
    (
        "pdp-jorgensen-method",
        "draw_masks",
        lambda f: lambda eps, t, *a, **rng: f(eps, 1.2 * t, *a, **rng),
    ),
    ("pdp-jorgensen-method", "keep_chance", lambda f: lambda eps, t: f(eps, t) ** 1.1),
    *((f"pdp-fig{k:02d}", "output_perturbation", alike) for k in range(1, 20)),
    ("pdp-claim-beats-jorgensen", "output_perturbation", alike),
    ("pdp-claim-lower-std", "sampled_ridge", twice),
    ("pdp-claim-lower-std-fig1", "sampled_ridge", twice),
    ("pdp-trend-epsc", "keep_chance", lambda f: lambda eps, t: np.where(eps < t, 0.1 / t**2, 1.0)),
    ("pdp-trend-epsm", "output_perturbation", alike),
    (
        "pdp-trend-fc",
        "draw_masks",
        lambda f: lambda eps, t, *a, **rng: f(np.maximum(eps, 0.9 * t), t, *a, **rng),
    ),
    ("pdp-trend-n", "take", lambda f: lambda split, share: f(split, 1.0)),
]

SMALL["ridge/accuracy"] = {
    "n_noise": 6000,
    "n_label_noise": 6000,
    "n_instances": 60,
    "n_synthetic": 6,
}
FAULTS["ridge/accuracy"] = [
    ("pdp-thm25-proof-bounds", "norm_law", lambda f: lambda d, rate: f(d, 0.7 * rate)),
    ("pdp-thm25-proof-bounds", "upper", times(10.0)),
    ("pdp-thm25", "accuracy_terms", lambda f: lambda *a: tuple(0.6 * term for term in f(*a))),
    ("pdp-thm25-terms", "accuracy_terms", lambda f: lambda lam, *a: f(1 / lam, *a)),
    (
        "pdp-thm25-terms",
        "accuracy_terms",
        lambda f: lambda *a: (f(*a)[0], 0.5 * f(*a)[1], f(*a)[2]),
    ),
    ("pdp-trend-lambda", "output_perturbation", other(noise_rate=lambda rate: 1 / rate)),
    ("pdp-trend-lambda", "weighted_ridge", times(0.0)),
]

SMALL["ridge/limits"] = {
    "n_draws": 60,
    "n_pairs": 300,
    "n_seeds": 1,
    "n_sets": 100,
    "n_samples": 50,
}
FAULTS["ridge/limits"] = [
    ("pdp-thm23", "output_perturbation", other(noise_rate=lambda rate: 3 * rate)),
    ("pdp-thm23", "estimate_norm_bound", times(0.1)),
    ("pdp-claim-local-noise", "weighted_ridge", times(3.0)),
    ("pdp-claim-local-noise", "keep_chance", times(0.25)),
    ("pdp-claim-no-discard", "keep_chance", lambda f: lambda *a: f(*a) ** 0.5),
    ("pdp-claim-no-discard", "effective_sample_budget", times(1.1)),
    ("pdp-limit-privacy-of-budgets", "norm_law", lambda f: lambda d, rate: f(50 * d, rate)),
    ("pdp-limit-privacy-of-budgets", "right_guesses", times(0.8)),
]
