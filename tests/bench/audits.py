"""Audits: by the number of runs or records."""

from __future__ import annotations

import numpy as np

from hdpm_lib.audits.black_box import Audit, audit
from hdpm_lib.audits.meters import PrivacyLosses, privacy_losses
from hdpm_lib.learners.queries import linear_query
from hdpm_lib.learners.ridge import OutputPerturbation, output_perturbation
from tests.bench.case import SIZES, Arguments, Array, Case, Generator

DATA, NEIGHBOUR = np.zeros(10), np.eye(10)[0]


def noisy_mean(data: Array, rng: Generator, size: int) -> Array:
    """Laplace noise as it should be for a loss of 1."""
    return np.round(data.mean() + rng.laplace(0, 1 / len(data), size), 6)


def audited(runs: int) -> Audit:
    return audit(noisy_mean, DATA, NEIGHBOUR, 1.0, runs=runs, early=False, seed=0, time_limit=None)


def a_sum(n: int, rng: Generator) -> Arguments:
    return linear_query(rng.random(n), 1.0), rng.random(n)


def records(n: int, rng: Generator) -> Arguments:
    X, y = rng.random((n, 4)), rng.uniform(-1, 1, n)
    return output_perturbation(X, y, np.ones(n), 1.0), X, y, rng


def own_losses(mechanism: OutputPerturbation, X: Array, y: Array, rng: Generator) -> PrivacyLosses:
    return privacy_losses(mechanism, X, y, rng=rng)


RIDGE = "ridge regression, four features"
CASES = (
    Case(audit, lambda n, rng: (n,), audited, "a Laplace mechanism", "runs", SIZES[1:]),
    Case(privacy_losses, records, own_losses, RIDGE, "records", SIZES[:-1]),
    Case(privacy_losses, a_sum, None, "a sum", "individuals", (100, 300, 1_000, 3_000)),
)
