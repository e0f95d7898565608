"""Rounds, local steps and a rate for a market, tried on tables that are drawn from its schema.

Nobody's records are needed, and nothing is spent: the settings are chosen before anything is sold,
and stand in every offer. Columns are drawn with laws of many kinds, and classes by a rule and
chance. What is tried is the descent that owners make, with normal noise in floats.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hdpm_lib.aggregation import least_error_weights
from hdpm_lib.gaussian import largest_mu
from hdpm_lib.learners.gradients import accuracy, residuals
from hdpm_lib.schema import Category
from hdpm_owner.table import Agreement

Array = NDArray[np.float64]
Part = tuple[Array, NDArray[np.int64]]  # features and labels
STEPS = (1, 3, 10, 30)
RATES = (1.0, 3.0, 10.0, 30.0)
TABLES = 4
TEST = 4000  # records
LARGEST = 5000  # records of an owner in a drawn table; who has more is drawn with less noise
NEAR = 0.005  # of accuracy: fewer rounds are worth as much


class Setting(NamedTuple):
    """What is chosen, and its mean accuracy on drawn tables."""

    rounds: int
    local_steps: int
    learning_rate: float
    accuracy: float


def drawn(agreed: Agreement, sizes: Sequence[int], seed: int) -> tuple[list[Part], Part]:
    """Tables of owners of these sizes, and one to judge by."""
    rng = np.random.default_rng(seed)
    n = sum(sizes) + TEST
    cells: dict[str, Any] = {}
    for column in agreed.schema.columns:
        if isinstance(column, Category):
            shares = rng.dirichlet(np.ones(len(column.levels)))
            levels = np.array(column.levels, dtype=object)
            cells[column.name] = levels[rng.choice(len(levels), n, p=shares)]
        else:
            a, b = np.exp(rng.uniform(log(0.2), log(5), 2))
            cells[column.name] = column.low + (column.high - column.low) * rng.beta(a, b, n)
    x = agreed.schema.transform(pd.DataFrame(cells))
    scores = (x - x.mean(axis=0)) @ rng.normal(size=(x.shape[1], len(agreed.classes)))
    strength = (2.0, 6.0)[seed % 2] / scores.std()
    y = (strength * scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    cuts = np.cumsum(sizes)
    *parts, test = zip(np.split(x, cuts), np.split(y, cuts), strict=True)
    return parts, test


def scaled(sizes: Sequence[int]) -> tuple[list[int], float]:
    """Sizes of drawn tables, and how many times smaller than the owners' they are."""
    times = max(1.0, max(sizes) / LARGEST)
    return [max(2, round(n / times)) for n in sizes], times


def clipped_sum(model: Array, part: Part, norms: Array) -> Array:
    """Compute the sum of the records' gradients, each shortened to 1; `norms` are those of the
    features.
    """
    x, y = part
    r = residuals(model[None], x, y)[0]
    return (r / np.maximum(np.sqrt((r**2).sum(axis=0)) * norms, 1)) @ x


def trained(
    parts: Sequence[Part],
    classes: int,
    mu: float,
    rounds: int,
    local_steps: int,
    learning_rate: float,
    rng: np.random.Generator,
) -> Array:
    """Train the model of a market in which every owner sells `mu` in all, or without noise if it is
    0.
    """
    sizes = np.array([len(y) for _, y in parts])
    norms = [np.sqrt((x**2).sum(axis=1)) for x, _ in parts]
    each = mu / sqrt(rounds * local_steps)
    w = np.zeros((classes, parts[0][0].shape[1]))
    told = sqrt(2 / rounds) * mu * sizes  # as FL-Market's owners lose it
    weights = least_error_weights(told, sizes) if mu else sizes / sizes.sum()
    for _ in range(rounds):
        step = np.zeros_like(w)
        for part, weight, size, length in zip(parts, weights, sizes, norms, strict=True):
            local = w.copy()
            for _ in range(local_steps):
                noise = rng.normal(0, 2 / each, w.shape) if mu else 0.0
                local -= learning_rate * (clipped_sum(local, part, length) + noise) / size
            step += weight * (local - w)
        w = w + step
    return w


def tried(
    agreed: Agreement, sizes: Sequence[int], epsilon: float, delta: float, rounds: Sequence[int]
) -> Iterator[Setting]:
    """All settings with these numbers of rounds."""
    small, times = scaled(sizes)
    tables = [drawn(agreed, small, seed) for seed in range(TABLES)]
    mu = times * float(largest_mu(epsilon, delta))
    for number, steps, rate in product(rounds, STEPS, RATES):
        found = []
        for seed, (parts, test) in enumerate(tables):
            rng = np.random.default_rng(seed)
            w = trained(parts, len(agreed.classes), mu, number, steps, rate, rng)
            found.append(float(accuracy(w, *test)))
        yield Setting(number, steps, rate, float(np.mean(found)))


def chosen(settings: Sequence[Setting]) -> Setting:
    """Choose the best, or one that is as good in fewer rounds."""
    best = max(one.accuracy for one in settings)
    fewest = min(one.rounds for one in settings if one.accuracy > best - NEAR)
    return max((one for one in settings if one.rounds == fewest), key=lambda one: one.accuracy)
