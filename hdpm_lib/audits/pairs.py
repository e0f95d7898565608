"""Pairs of neighbouring data sets to look at, where nobody knows the worst one.

Either the data are answers to queries, of which one record moves each by at most one (`patterns`),
or they are records, of which one is replaced by another that the public knowledge allows
(`replacements`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from hdpm_lib.schema import Category, Schema
from hdpm_lib.validation import check_finite


@dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbouring data sets, which are not printed, and in words what is different."""

    first: Any = field(repr=False)
    second: Any = field(repr=False)
    words: str


def patterns(answers: ArrayLike) -> list[Pair]:
    """Pair answers to queries, shape (k,), with others that differ by at most one in each answer.

    The eight patterns of Ding, Wang, Wang, Zhang and Kifer (2018, Detecting Violations of
    Differential Privacy, CCS): one answer moves, down or up; one moves against the others, half of
    them move against the other half, all move, or the data sets are mirror images. One answer has
    the first two.

    Examples
    --------
    >>> [pair.second.tolist() for pair in patterns([1.0, 1.0, 1.0])[:2]]
    [[0.0, 1.0, 1.0], [2.0, 1.0, 1.0]]
    """
    base = check_finite(answers, "answers", 1)
    k = len(base)
    first = np.eye(k)[0]
    half = (np.arange(k) < k // 2).astype(float)
    shifts = {"first answer down": -first, "first answer up": first}
    if k > 1:
        shifts["first up, others down"] = 2 * first - 1
        shifts["first down, others up"] = 1 - 2 * first
        shifts["half up, half down"] = 2 * half - 1
        shifts["all answers up"] = np.ones(k)
        shifts["all answers down"] = -np.ones(k)
    pairs = [Pair(base + 0.0, base + shift, words) for words, shift in shifts.items()]
    if k > 1:
        pairs.append(Pair(base + (half - 1), base - half, "mirrored"))
    return pairs


def replacements(
    data: Any, allowed: Any, count: int, rng: np.random.Generator, record: int | None = None
) -> list[Pair]:
    """Pair the data with the data in which one record is replaced.

    Parameters
    ----------
    data : array, data frame, or tuple of them
        Records along the first axis; the parts of a tuple, such as features and labels, belong
        together.
    allowed : Schema, array of records, or a tuple of them, one for each part of the data
        Values of a record: of a schema all combinations of ends of ranges and levels.
    count : int
        Most pairs, drawn at random if there are more.
    record : int, optional
        The record that is replaced; drawn with the pair if not given.
    """
    parts = data if isinstance(data, tuple) else (data,)
    ranges = allowed if isinstance(allowed, tuple) else (allowed,)
    if len(parts) != len(ranges):
        raise ValueError(f"among must have {len(parts)} parts like the data, got {len(ranges)}")
    choices = []  # for each part what a record of it may be
    for part, allowed_part in zip(parts, ranges, strict=True):
        choices.append(_records(part, allowed_part))
    places = range(len(parts[0])) if record is None else [record]
    # a pair is a place and a choice for each part
    shape = [len(places)] + [len(rows) for rows in choices]
    total = math.prod(shape)
    chosen = np.sort(rng.choice(total, min(count, total), replace=False))
    pairs = []
    for index in np.stack(np.unravel_index(chosen, shape), axis=1):
        i = places[index[0]]
        texts = []
        replaced = []
        for part, rows, k in zip(parts, choices, index[1:], strict=True):
            texts.append(_text(rows[k]))
            replaced.append(_replaced(part, i, rows[k]))
        second = tuple(replaced) if isinstance(data, tuple) else replaced[0]
        pairs.append(Pair(data, second, f"record {i} replaced by {', '.join(texts)}"))
    return pairs


def _records(part: Any, allowed: Any) -> Sequence[Any]:
    """List what a record of one part of the data may be."""
    if isinstance(allowed, Schema):
        ends = [c.levels if isinstance(c, Category) else (c.low, c.high) for c in allowed.columns]
        combinations = list(itertools.product(*ends))
        if np.ndim(part) > 1:
            return combinations
        return [row[0] for row in combinations]
    rows = np.asarray(allowed)
    if rows.ndim != np.ndim(part) or not len(rows) or rows.shape[1:] != np.shape(part)[1:]:
        raise ValueError(
            f"among must be records of shape {np.shape(part)[1:]}, got an array of shape"
            f" {rows.shape}"
        )
    return list(rows)


def _replaced(part: Any, i: int, row: Any) -> Any:
    """Copy the data, with another record in place `i`."""
    if isinstance(part, pd.DataFrame | pd.Series):
        frame = part.copy()
        frame.iloc[i] = row
        return frame
    array = np.array(part)
    array[i] = row
    return array


def _text(row: Any) -> str:
    """Say a record in a few words."""
    if isinstance(row, np.ndarray):
        return np.array2string(row, precision=4, threshold=6)
    return str(row)
