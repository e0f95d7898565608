"""Mechanisms of the page on audits of one's own: right ones, leaky ones, and some that nobody can judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hdpm_lib.audits.bounds import detectable
from hdpm_lib.learners.estimators import PersonalizedRidge
from hdpm_lib.validation import FALSE_ALARM

Array = NDArray[np.float64]
Generator = np.random.Generator


def mean_with_noise(range_: float) -> Callable[..., Array]:
    """The mean of numbers in a range of that width, with Laplace noise for a loss of 1."""

    def mean(data: Array, rng: Generator, size: int) -> Array:
        return np.round(data.mean() + rng.laplace(0, range_ / len(data), size), 3)

    return mean


def leaky_summary(table: pd.DataFrame, rng: Generator, size: int) -> Array:
    """Mean age and number of smokers, with noise for a record that changes in one of the two only."""
    age, smokers = table["age"].mean(), (table["smoker"] == "yes").sum()
    scales = np.array([(64 - 18) / len(table), 1.0])
    return np.round(np.array([age, smokers]) + scales * rng.laplace(0, 1, (size, 2)), 3)


def weighted_sum(data: Array, rng: Generator, size: int) -> Array:
    """A sum with weights that are to cost five sellers 0.1, 0.5, 1, 1 and 2; the fourth gets a weight of 1.5."""
    return np.round(data @ np.array([0.1, 0.5, 1.0, 1.5, 2.0]) + rng.laplace(0, 1, size), 3)


def tight_records() -> tuple[Array, Array, Array]:
    """Features (6, 1), labels, and labels of a neighbour, on which ridge regression loses nearly all it may."""
    y, other = np.zeros(6), np.zeros(6)
    y[0], other[0] = 1.0, -1.0
    return np.ones((6, 1)), y, other


class LeakyRidge(PersonalizedRidge):
    """A private ridge regression that remembers the mean of the labels."""

    def fit(self, X: Any, y: Any, epsilon: Any = None, record: Any = None) -> LeakyRidge:
        """As its parent, and one number more."""
        super().fit(X, y, epsilon, record)
        self.mean_ = float(np.mean(y))
        return self


_elsewhere = np.random.default_rng(0)
TRAPS: dict[str, Callable[..., Any]] = {
    "one draw for all releases": lambda data, rng, size: np.full(size, data.sum() + rng.laplace()),
    "always the same": lambda data, rng, size: np.zeros(size),
    "noise from elsewhere": lambda data, rng: float(data.sum() + _elsewhere.laplace()),
    "one release instead of many": lambda data, rng, size: data.sum() + rng.laplace(),
    "not a number": lambda data, rng, size: np.where(rng.random(size) < 0.1, np.nan, data.sum()),
}


def found_at(claim: float, runs: int, level: float = FALSE_ALARM) -> float:
    """Loss that is found with probability 0.9 if half of the runs get a guess."""
    return detectable(0.5, runs, claim, level)


def what_is_found(runs: Sequence[int], claims: Sequence[float] = (0.1, 0.5, 1.0, 3.0)) -> pd.DataFrame:
    """Losses that are found with probability 0.9, by number of runs and claim."""
    rows = {f"{n:,} runs": {f"claim {claim:g}": found_at(claim, n) for claim in claims} for n in runs}
    return pd.DataFrame(rows).T
