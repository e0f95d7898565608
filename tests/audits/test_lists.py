"""Exact laws and exact losses by lists: against formulas, against each other, and on code broken on purpose."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hdpm_lib.discrete import discrete_laplace
from hdpm_lib.learners import integer_answers, lattice
from hdpm_lib.learners.integer_answers import IntegerSum, integer_gradients
from tests.listed import ExactLaw, exact_law, farthest_moves, proved_loss
from tests.support import generator

FEW = Fraction(1, 3000)


def test_dice() -> None:
    law = exact_law(lambda rng: rng.integers(1, 7) + rng.integers(1, 7))
    assert law.rest == 0 and sum(law.probabilities.values()) == 1 and law.probabilities[7] == Fraction(1, 6)
    pair = exact_law(lambda rng: rng.integers(2, size=(2, 1), dtype=np.int64))
    assert pair.probabilities == {key: Fraction(1, 4) for key in itertools.product((0, 1), repeat=2)}


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(1, 2), Fraction(3, 2)])
def test_discrete_laplace_has_its_law(scale: Fraction) -> None:
    assert not complaints(lambda rng: discrete_laplace(scale, rng=rng), scale)
    assert not complaints(lambda rng: discrete_laplace(scale, rng=rng, size=1)[0], scale)


def complaints(draw: Any, scale: Fraction) -> list[int]:
    """Integers whose probability cannot be that of the discrete Laplace law, given what the list leaves open."""
    law = exact_law(draw, least=FEW)
    assert sum(law.probabilities.values()) + law.rest == 1
    right = {k: math.tanh(0.5 / scale) * math.exp(-abs(k) / scale) for k in range(-60, 61)}
    low, high = law.probabilities, float(law.rest)
    return [
        k
        for k, p in right.items()
        if not float(low.get(k, 0)) <= p * (1 + 1e-12) <= float(low.get(k, 0)) + high + p * 2e-12
    ]


def zero_counts_twice(rng: np.random.Generator) -> int:
    k = abs(int(discrete_laplace(1, rng=rng)))
    return k if k == 0 or rng.integers(2) else -k + int(rng.integers(2))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda rng: 2 * discrete_laplace(1, rng=rng),
        lambda rng: abs(discrete_laplace(1, rng=rng)),
        lambda rng: discrete_laplace(Fraction(1, 3), rng=rng),
        lambda rng: discrete_laplace(1, rng=rng) + 1,
        zero_counts_twice,
    ],
)
def test_another_law_is_seen(wrong: Any) -> None:
    assert complaints(wrong, Fraction(1))


def test_every_pair_of_data_sets_of_a_sum() -> None:
    """The whole program, release included: what is certain of the loss never exceeds the promise."""
    mechanism = IntegerSum(np.array([1, -1]), 1, Fraction(1))
    data = list(itertools.product((0.0, 1.0), repeat=2))
    laws = {d: exact_law(lambda rng, d=d: mechanism.release(np.array(d), rng=rng), least=FEW) for d in data}
    losses = [
        proved_loss(laws[d], laws[e])
        for d, e in itertools.combinations(data, 2)
        if sum(x != y for x, y in zip(d, e, strict=True)) == 1
    ]
    assert len(losses) == 4 and 0.3 < max(losses) <= 1
    assert proved_loss(laws[0.0, 0.0], laws[0.0, 0.0]) == 0


def test_gradients_are_listed_as_well() -> None:
    laws = [
        exact_law(lambda rng, g=g: integer_gradients([[[g]]], [2], 1.0, spacing=1.0, rng=rng), least=FEW)
        for g in (9.0, -9.0)
    ]
    assert 0.5 < proved_loss(*laws) <= 2


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
RIDGES: list[tuple[int, int, float, dict[str, Any]]] = [  # records, features, penalty, options
    (3, 1, 2000.0, {}),
    (2, 2, 1.0, {}),
    (2, 2, 50.0, {"bound": "sharp"}),
    (2, 2, 0.05, {"bound": "sharp"}),
    (2, 2, 500.0, {"feature_norm": 1.5, "label_bound": 2.0}),
    (2, 1, 500.0, {"clip": True}),
    (2, 1, 1.0, {"spacing": 0.125}),
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


@pytest.mark.parametrize(("clip_norm", "spacing"), [(1.0, 0.125), (1.0, 2.0**-20), (0.3, 0.0625)])
def test_all_pairs_of_gradients(clip_norm: float, spacing: float) -> None:
    """The noise is for twice the clip norm in steps."""
    values = list(itertools.product([-5.0, -0.3, 0.0, 0.11, 0.3, 5.0, math.inf], repeat=3))
    (moved,), _ = farthest_moves(
        lambda data: (integer_answers.grid_gradients([data[0]], clip_norm, spacing), 0), [values]
    )
    most = math.floor(Fraction(clip_norm) / Fraction(spacing))
    assert 0.9 < moved / (2 * most) <= 1


@pytest.mark.parametrize(("n", "d", "penalty", "options"), RIDGES, ids=str)
def test_all_pairs_of_ridge_regressions(n: int, d: int, penalty: float, options: dict[str, Any]) -> None:
    epsilon, a, size = [0.5, 2.0, 1.0][:n], options.get("label_bound", 1.0), options.get("feature_norm")
    ends = [0.0, 0.5, 1.0] if d == 1 else [0.0, 1.0] if size is None else [-size / 1.5, size / 1.5]
    labels = [-3.0, -a, 0.0, a] if options.get("clip") else [-a, 0.0, a]

    def point(data: tuple[Any, ...]) -> tuple[Any, Any]:
        made = lattice.lattice_ridge([x for x, _ in data], [y for _, y in data], epsilon, penalty, **options)
        return made.point, (made.rate, *made.privacy_loss.tolist())

    values = list(itertools.product(itertools.product(ends, repeat=d), labels))
    moves, ((rate, *told),) = farthest_moves(point, [values] * n, euclidean=True)
    lost = [float(rate) * math.sqrt(far) for far in moves]
    assert all(x <= min(y, e) * (1 + 1e-12) for x, y, e in zip(lost, told, epsilon, strict=True))
