"""Exact laws and exact losses by lists: against formulas, and on code broken on purpose."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hdpm_lib.learners import integer_answers
from hdpm_lib.learners.integer_answers import IntegerSum
from tests.listed import ExactLaw, exact_law, farthest_moves, proved_loss
from tests.support import generator

FEW = Fraction(1, 3000)


def test_dice() -> None:
    law = exact_law(lambda rng: rng.integers(1, 7) + rng.integers(1, 7))
    assert law.rest == 0 and sum(law.probabilities.values()) == 1 and law.probabilities[7] == Fraction(1, 6)
    pair = exact_law(lambda rng: rng.integers(2, size=(2, 1), dtype=np.int64))
    assert pair.probabilities == {key: Fraction(1, 4) for key in itertools.product((0, 1), repeat=2)}


def test_every_pair_of_data_sets_of_a_sum() -> None:
    """The whole program, release included: what is certain of the loss never exceeds the promise."""
    mechanism, data = IntegerSum(np.array([1, -1]), 1, Fraction(1)), itertools.product((0.0, 1.0), repeat=2)
    laws = [exact_law(lambda rng, d=d: mechanism.release(np.array(d), rng=rng), least=FEW) for d in data]
    assert 0.3 < max(proved_loss(laws[i], laws[j]) for i, j in ((0, 1), (0, 2), (1, 3), (2, 3))) <= 1
    assert proved_loss(laws[0], laws[0]) == 0


def test_certain_losses() -> None:
    one = ExactLaw({0: Fraction(1, 2), 1: Fraction(1, 4)}, Fraction(1, 4))
    none = ExactLaw({2: Fraction(1)}, Fraction(0))
    assert proved_loss(one, none) == math.inf
    assert proved_loss(one, ExactLaw({0: Fraction(1, 8)}, Fraction(1, 8))) == pytest.approx(math.log(2))


def test_real_numbers_are_refused() -> None:
    for draw in ("random", "standard_normal", "laplace", "gamma", "choice", "permutation"):
        with pytest.raises(TypeError, match="integers only"):
            exact_law(lambda rng, draw=draw: getattr(rng, draw)())
    memory: list[int] = []
    with pytest.raises(ValueError, match="the same integers"):
        exact_law(lambda rng: rng.integers(2 + len(memory)) + (memory.append(1) or 0))


# --- all data sets ----------------------------------------------------------------------------------------------------


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
