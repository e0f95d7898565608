"""Exact losses by lists of all data sets: against formulas, and on code broken on purpose."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hdpm_lib.learners import integer_answers
from hdpm_lib.learners.integer_answers import IntegerSum
from tests.listed import farthest_moves
from tests.support import generator


@pytest.mark.parametrize("euclidean", [False, True])
def test_farthest_moves_are_those_of_all_pairs(euclidean: bool) -> None:
    """Also of integers whose squares floats do not hold; and noise that tells of the data is seen."""
    table = generator(502).integers(-(2**62), 2**62, (3, 2, 4))
    moves, noises = farthest_moves(lambda d: (table[d], 1 + d[0]), [range(3), range(2)], euclidean)
    pairs = itertools.combinations(np.ndindex(3, 2), 2)
    apart = [(a, b, table[a].astype(object) - table[b].astype(object)) for a, b in pairs]
    for axis in range(2):
        own = [x for a, b, x in apart if a[1 - axis] == b[1 - axis]]
        assert moves[axis] == max(int((x * x if euclidean else abs(x)).sum()) for x in own)
    assert noises == {1, 2, 3}


def test_a_sum_that_is_not_clipped_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = IntegerSum(np.array([1, 2]), 4, Fraction(1), clip=True)

    def losses() -> list[Fraction]:
        moves, _ = farthest_moves(lambda d: (mechanism.sum(np.array(d)), 0), [[-3.0, 0.0, 0.5, 1.0]] * 2)
        return [far / mechanism.scale for far in moves]

    assert losses() == list(mechanism.privacy_loss)
    monkeypatch.setattr(integer_answers, "check_inside", lambda value, *_, **__: np.asarray(value))
    assert losses() > list(mechanism.privacy_loss)


# --- the learners in whole numbers, on every data set of a small domain -----------------------------------------------

SUMS: list[dict[str, Any]] = [
    {},
    {"weights": (1.0, -2.0, 0.3)},
    {"levels": 1},
    {"levels": 3, "spacing": 2.0**-5},
    {"weights": (1.0, -2.0, 0.3), "levels": 7, "clip": True},
]


@pytest.mark.parametrize("options", SUMS, ids=str)
def test_all_pairs_of_sums(options: dict[str, Any]) -> None:
    shares, scale = [1.0, 0.5, 0.25], 0.3
    made = integer_answers.integer_sum(shares, scale, **options)
    values = [-2.0, 0.0, 0.3, 1.0, 7.0, math.nan] if options.get("clip") else [0.0, 0.3, 0.5, 1.0]
    moves, noises = farthest_moves(lambda data: (made.sum(np.array(data)), made.scale), [values] * 3)
    lost = [Fraction(far) / made.scale for far in moves]
    weights = options.get("weights", [1] * 3)
    real = [Fraction(a * abs(q)) / Fraction(scale) for a, q in zip(shares, weights, strict=True)]
    assert len(noises) == 1 and lost == list(made.privacy_loss)
    assert all(x <= y for x, y in zip(lost, real, strict=True))
