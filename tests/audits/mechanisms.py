"""Mechanisms that tests of the audit share."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from hdpm_lib import audit
from tests.support import SEED

Rng = np.random.Generator
ZERO = np.zeros(1)
ONE = np.ones(1)
few: Any = partial(audit, runs=20_000, time_limit=None, seed=SEED)


def fine(numbers: Any) -> Any:
    """Round to multiples of 2^-20, far from the last digits."""
    return np.rint(np.asarray(numbers) * 2.0**20) / 2.0**20


def laplace(data: np.ndarray, rng: Rng, size: int, scale: float = 1.0) -> np.ndarray:
    return fine(data.sum() + rng.laplace(0, scale, size))


def one_at_a_time(data: np.ndarray, rng: Rng) -> float:
    return float(fine(data.sum() + rng.laplace()))
