"""Pairs of neighbouring data sets to look at, where nobody knows the worst one.

Either the data are answers to queries, of which one record moves each by at most one (`patterns`),
or they are records, of which one is replaced by another that the public knowledge allows
(`replacements`).
"""

from __future__ import annotations

import itertools
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
    """Pairs around answers to queries, shape (k,), that differ by at most one in each answer.

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
    one = np.eye(len(base))[0]
    half = (np.arange(k) < k // 2).astype(float)
    shifts = {"first answer down": (0 * one, -one), "first answer up": (0 * one, one)}
    if k > 1:
        shifts |= {
            "first up, others down": (0 * one, 2 * one - 1),
            "first down, others up": (0 * one, 1 - 2 * one),
            "half up, half down": (0 * one, 2 * half - 1),
            "all answers up": (0 * one, one + (1 - one)),
            "all answers down": (0 * one, -one - (1 - one)),
            "mirrored": (half - 1, -half),
        }
    return [Pair(base + a, base + b, words) for words, (a, b) in shifts.items()]


def replacements(
    data: Any, allowed: Any, count: int, rng: np.random.Generator, record: int | None = None
) -> list[Pair]:
    """Pairs of the data and the data with one record replaced.

    Parameters
    ----------
    data : array, data frame, or tuple of them
        Records along the first axis; the parts of a tuple, such as features and labels, belong
        together.
    allowed : Schema, array of records, or a tuple of them, one for each part of the data
        What a record may be: of a schema all combinations of ends of ranges and levels.
    count : int
        Most pairs, drawn at random if there are more.
    record : int, optional
        The record that is replaced; drawn with the pair if not given.
    """
    parts = data if isinstance(data, tuple) else (data,)
    ranges = allowed if isinstance(allowed, tuple) else (allowed,)
    if len(parts) != len(ranges):
        raise ValueError(f"among must have {len(parts)} parts like the data, got {len(ranges)}")
    records = [_records(part, one) for part, one in zip(parts, ranges, strict=True)]
    places = range(len(parts[0])) if record is None else [record]
    total = len(places) * int(np.prod([len(r) for r in records]))
    chosen = rng.choice(total, min(count, total), replace=False)
    shape = (len(places), *(len(r) for r in records))
    found = []
    for index in np.stack(np.unravel_index(np.sort(chosen), shape), axis=1):
        i = places[index[0]]
        new = [r[k] for r, k in zip(records, index[1:], strict=True)]
        second = tuple(_replaced(part, i, row) for part, row in zip(parts, new, strict=True))
        words = f"record {i} replaced by {', '.join(map(_text, new))}"
        found.append(Pair(data, second if isinstance(data, tuple) else second[0], words))
    return found


def _records(part: Any, allowed: Any) -> Sequence[Any]:
    """What a record of one part of the data may be."""
    if isinstance(allowed, Schema):
        ends = [c.levels if isinstance(c, Category) else (c.low, c.high) for c in allowed.columns]
        found = list(itertools.product(*ends))
        return found if np.ndim(part) > 1 else [row[0] for row in found]
    rows = np.asarray(allowed)
    if rows.ndim != np.ndim(part) or not len(rows) or rows.shape[1:] != np.shape(part)[1:]:
        raise ValueError(
            f"among must be records of shape {np.shape(part)[1:]}, got an array of shape"
            f" {rows.shape}"
        )
    return list(rows)


def _replaced(part: Any, i: int, row: Any) -> Any:
    """A copy of the data with another record in place `i`."""
    copy = part.copy() if isinstance(part, pd.DataFrame | pd.Series) else np.array(part)
    if isinstance(copy, np.ndarray):
        copy[i] = row
    else:
        copy.iloc[i] = row
    return copy


def _text(row: Any) -> str:
    """A record in a few words."""
    return (
        np.array2string(np.asarray(row), precision=4, threshold=6)
        if isinstance(row, np.ndarray)
        else str(row)
    )
