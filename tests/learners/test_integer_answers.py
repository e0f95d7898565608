"""Gradients in integers: losses of all neighbours of small domains as fractions, and the law of
releases.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hdpm_lib.learners import integer_answers
from hdpm_lib.learners.gradients import clipped
from hdpm_lib.learners.integer_answers import (
    gradient_noise,
    grid_gradients,
    integer_gradients,
    longest_gradient,
    noise_scales,
    record_steps,
)
from hdpm_lib.validation import FALSE_ALARM
from tests.support import generator, law_of, p_value

# --- gradients -----------------------------------------------------------------------------------


def too_long() -> int:
    """Vectors, of many sizes, corners among them, that are longer than they may be: in integers."""
    rng = generator(45)
    found = 0
    for clip_norm, spacing in (
        (1.0, 2.0**-4),
        (0.3, 2.0**-3),
        (0.7, 2.0**-30),
        (1.0, 2.0**-40),
        (5.0, 4.0),
    ):
        gradients = rng.laplace(size=(2000, 3, 7)) * np.geomspace(1e-3, 1e5, 2000)[:, None, None]
        gradients[:200] = np.exp(rng.normal(0, 3, (200, 1, 1))) * rng.choice([-1, 1], (200, 3, 7))
        gradients[200:400] *= np.arange(21).reshape(3, 7) == 4
        most = math.floor(Fraction(clip_norm) / Fraction(spacing))
        for steps in grid_gradients(gradients, clip_norm, spacing).reshape(-1, 21).tolist():
            found += sum(map(abs, steps)) > most
    return found


def test_gradients_on_the_grid_are_short_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    assert too_long() == 0
    monkeypatch.setattr(integer_answers, "shortened", lambda gradients, clip_norm: gradients)
    assert too_long() == 0  # what floats let pass becomes the zero vector


def test_gradients_inside_are_cut_towards_zero() -> None:
    inside = np.array([[0.5, -0.26], [0.1, 0.0]])
    assert grid_gradients(inside, 1.0, 0.125).tolist() == [[4, -2], [0, 0]]
    batch = generator(46).normal(size=(3, 4, 2, 5))
    steps = grid_gradients(batch, 0.5, 2.0**-20)
    assert (
        steps.shape == batch.shape
        and np.abs(steps * 2.0**-20 - clipped(batch, 0.5)).max() < 2.0**-20
    )
    assert (grid_gradients(batch.astype(np.float32), 0.5, 2.0**-20) - steps).max() <= 1


@pytest.mark.parametrize(
    ("clip_norm", "spacing"), [(1.0, 0.25), (0.3, 2.0**-3), (0.07, 2.0**-5), (1.0, 2.0**-20)]
)
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 3.0, Fraction(1, 3)])
def test_losses_of_gradients(clip_norm: float, spacing: float, epsilon: Any) -> None:
    """All pairs of admissible vectors of two coordinates, as fractions: never above epsilon, and
    equal to it.
    """
    most = longest_gradient(clip_norm, spacing)
    [numerator], [denominator] = noise_scales([Fraction(epsilon)], most, spacing)
    scale = Fraction(int(numerator), int(denominator))
    axis = clip_norm * np.arange(-8, 9) / 4
    gradients = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 1, 2)
    vectors = np.unique(grid_gradients(gradients, clip_norm, spacing).reshape(-1, 2), axis=0)
    loss = int(np.abs(vectors[:, None] - vectors[None]).sum(-1).max()) / scale
    assert Fraction(epsilon) * (1 - Fraction(1, 2**57)) <= loss <= Fraction(epsilon)
    assert loss == Fraction(epsilon) or epsilon not in (0.5, Fraction(1, 3))


def test_losses_of_any_type() -> None:
    """Fractions, integers, and floats of any width, in any container, are the numbers that they
    are.
    """
    gradients = np.ones((4, 1, 2))
    exact = [Fraction(1, 2), Fraction(1), Fraction(3, 4), Fraction(2)]
    for given in (
        exact,
        [0.5, 1, 0.75, 2],
        [np.float32(0.5), np.float64(1), np.float16(0.75), np.int64(2)],
    ):
        found, expected = (
            integer_gradients(gradients, losses, 1.0, spacing=spacing, rng=generator(48))
            for losses, spacing in ((given, np.float16(2.0**-10)), (exact, 2.0**-10))
        )
        assert found.dtype == float and (found == expected).all()


def test_spacings_of_any_type() -> None:
    """Of 16 bits, too: what they are multiplied with keeps its digits."""
    x = generator(54).normal(size=(5, 2))
    for spacing in (np.float16(2.0**-8), np.float32(2.0**-8), np.array(2.0**-8)):
        given = (np.zeros((2, 2)), x, np.zeros(5, int), 1.0)
        assert (record_steps(*given, spacing) == record_steps(*given, 2.0**-8)).all()
        assert (
            grid_gradients(x[None], 1.0, spacing) == grid_gradients(x[None], 1.0, 2.0**-8)
        ).all()


def test_scale_is_never_rounded_down() -> None:
    rng = generator(47)
    for numerator, power in zip(rng.integers(1, 2**53, 300).tolist(), range(300), strict=True):
        value = Fraction(numerator, 3**40) * 2 ** (power % 60)
        above = integer_answers._scale_above(value)
        assert value <= above <= value * (1 + Fraction(1, 2**50)) or (
            value < 1 and above - value <= Fraction(1, 2**58)
        )
        assert above.numerator <= 2**62 and above.denominator <= 2**62
    assert integer_answers._scale_above(Fraction(7, 3)) == Fraction(7, 3)


def test_law_of_gradients() -> None:
    epsilon = [0.5, 2.0, 4.0]
    clip_norm = 1.0
    spacing = 2.0**-2
    gradients = generator(48).normal(size=(3, 100, 60))
    sent = integer_gradients(gradients, epsilon, clip_norm, spacing=spacing, rng=generator(49))
    noise = sent / spacing - grid_gradients(gradients, clip_norm, spacing)
    assert (noise == np.rint(noise)).all()
    for row, eps in zip(noise.astype(int).reshape(3, -1, 1), epsilon, strict=True):
        scale = Fraction(8) / Fraction(eps)
        assert p_value(row, *law_of(scale, math.ceil(60 * scale))) > FALSE_ALARM
        assert p_value(row, *law_of(scale * Fraction(6, 5), math.ceil(60 * scale))) < FALSE_ALARM
    scales = noise_scales([Fraction(0), Fraction(1)], 4, spacing)
    silent = gradient_noise(scales, (4, 5), generator(50))
    assert (silent[0] == 0).all() and (silent[1] != 0).any()


# --- sums over records --------------------------------------------------------------------------


def one_by_one(
    w: np.ndarray, x: np.ndarray, y: np.ndarray, clip_norm: float, spacing: float, norm: int
) -> np.ndarray:
    """The gradient of each record by itself, with the longest that the norm lets pass in
    fractions.
    """
    total = np.zeros(w.shape, dtype=np.int64)
    for row, label in zip(x, y, strict=True):
        scores = np.exp(w @ row - (w @ row).max())
        gradient = np.outer(scores / scores.sum() - (np.arange(len(w)) == label), row)
        length = np.abs(gradient).sum() if norm == 1 else math.sqrt((gradient**2).sum())
        if length > clip_norm:
            gradient *= clip_norm / length
        steps = np.trunc(gradient / spacing).astype(int)
        assert (
            sum(Fraction(int(k)) ** norm for k in np.abs(steps).ravel())
            <= (Fraction(clip_norm) / Fraction(spacing)) ** norm
        )
        total += steps
    return total


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize(("clip_norm", "spacing"), [(1.0, 2.0**-6), (0.3, 2.0**-12), (50.0, 0.25)])
def test_records_are_clipped_one_by_one(norm: int, clip_norm: float, spacing: float) -> None:
    rng = generator(51, norm)
    w = rng.normal(size=(3, 5))
    x = rng.laplace(size=(200, 5))
    y = rng.integers(0, 3, 200)
    x[:50] *= np.geomspace(1e-4, 1e3, 50)[:, None]
    found = record_steps(w, x, y, clip_norm, spacing, norm=norm)
    assert (
        found.dtype == np.int64
        and np.abs(found - one_by_one(w, x, y, clip_norm, spacing, norm)).max() <= 1
    )
    assert (found != record_steps(w, x, y, clip_norm, spacing, norm=3 - norm)).any()
    parts = [
        record_steps(w, x[k : k + 1], y[k : k + 1], clip_norm, spacing, norm=norm)
        for k in range(200)
    ]
    assert np.abs(sum(parts) - found).max() <= 1  # a last digit may fall differently
    assert (
        record_steps(w, x, y, clip_norm, spacing)
        == record_steps(w, x, y, clip_norm, spacing, norm=2)
    ).all()


EXTREME = [
    0.0,
    5e-324,
    1e-160,
    0.3,
    -1.0,
    1e6,
    -1e154,
    1e200,
    -1.7e308,
    math.inf,
    -math.inf,
    math.nan,
]


def moved_most(norm: int, draws: int = 2000) -> float:
    """How far a record in the place of another moves the sum, of all that is tried, in units of the
    bound.
    """
    rng = generator(52, norm)
    most = 0.0
    for k in range(draws):
        w = rng.normal(size=(3, 2)) * rng.choice([0.0, 1.0, 100.0])
        x = rng.normal(size=(4, 2))
        y = rng.integers(0, 3, 4)
        clip_norm, spacing = [(1.0, 2.0**-4), (0.3, 2.0**-3), (0.7, 2.0**-20), (5.0, 4.0)][k % 4]
        sums = []
        for _ in range(2):
            x[0] = (
                rng.choice(EXTREME, 2)
                if k % 3 == 0
                else rng.choice([-1, 1], 2) * np.exp(rng.normal(1, 3, 2))
            )
            if k % 3 == 1:  # the same record, with the opposite sign
                x[0] = np.sign(len(sums) - 0.5) * np.array([3.0, 0.001])
                y[0] = 0
            else:
                y[0] = rng.integers(0, 3)
            sums.append(record_steps(w, x, y, clip_norm, spacing, norm=norm))
        far = sum(Fraction(int(j)) ** norm for j in np.abs(sums[0] - sums[1]).ravel())
        most = max(most, float(far / (2 * Fraction(clip_norm) / Fraction(spacing)) ** norm))
    return most


@pytest.mark.parametrize("norm", [1, 2])
def test_a_record_in_the_place_of_another_moves_the_sum_no_further_than_is_said(
    norm: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it holds, in fractions, and nearly as far; also with gradients that are wrong."""
    assert 0.9 < moved_most(norm) <= 1
    monkeypatch.setattr(
        integer_answers, "residuals", lambda w, x, y: 5.0 * np.ones((1, w.shape[1], len(x)))
    )
    assert moved_most(norm, 200) <= 1


@pytest.mark.parametrize(("norm", "x"), [(1, [1.0, 0.0]), (2, [1.0, 1.0])])
@pytest.mark.parametrize("spacing", [2.0**-4, 2.0**-30])
def test_a_record_as_long_as_it_may_be_counts(norm: int, x: list[float], spacing: float) -> None:
    found = record_steps(np.zeros((2, 2)), [x], [0], 1.0, spacing, norm=norm)
    assert (spacing * found == np.outer([-0.5, 0.5], x)).all()


@pytest.mark.parametrize("norm", [1, 2])
def test_records_that_are_too_long_in_floats_count_as_zero(
    norm: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = np.linalg.norm
    x = generator(53).normal(size=(5, 2))
    y = np.zeros(5, dtype=int)
    assert record_steps(np.zeros((2, 2)), x, y, 0.1, 2.0**-20, norm=norm).any()
    monkeypatch.setattr(np.linalg, "norm", lambda *given, **how: long(*given, **how) * 0.9)
    assert not record_steps(np.zeros((2, 2)), x, y, 0.1, 2.0**-20, norm=norm).any()


@pytest.mark.parametrize("norm", [1, 2])
def test_records_that_are_not_finite_count_as_zero_in_silence(norm: int) -> None:
    x = np.array([[math.nan, 1.0], [math.inf, 1.0], [1e308, 1e308], [0.5, 1.0]])
    y = np.array([0, 1, 1, 0])
    w = np.array([[1.0, 0.2], [-1e10, 3.0]])
    with np.errstate(all="raise", under="ignore"):
        found, rest = (record_steps(w, x[k:], y[k:], 1.0, 2.0**-8, norm=norm) for k in (0, 3))
    assert (found == rest).all()


# --- bad input ----------------------------------------------------------------------------------


def sent(**change: Any) -> Any:
    arguments = {
        "gradients": np.ones((1, 2, 2)),
        "epsilon": [1.0],
        "clip_norm": 1.0,
        "spacing": 0.25,
    } | change
    return integer_gradients(**arguments, rng=generator())


def summed(**change: Any) -> Any:
    arguments = {
        "parameters": np.zeros((2, 2)),
        "features": np.ones((2, 2)),
        "labels": [0, 1],
    } | change
    return record_steps(**{"clip_norm": 1.0, "spacing": 0.25} | arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sent(spacing=0.3), "spacing must be a power of two, got 0.3"),
        (
            lambda: sent(spacing=2.0),
            "spacing must lie between clip_norm / 2**40 and clip_norm = 1.0, got 2.0",
        ),
        (lambda: sent(spacing=2.0**-41), "spacing must lie between clip_norm / 2**40"),
        (
            lambda: sent(epsilon=[1e-12], spacing=2.0**-20),
            "spacing = 9.5367431640625e-07 is too small for a privacy",
        ),
        (lambda: sent(epsilon=[10**400]), "epsilon must be positive and finite, got 10000000"),
        (lambda: sent(epsilon=[0.0]), "epsilon must be positive and finite, got 0.0"),
        (lambda: sent(epsilon=[1.0, 2.0]), "epsilon has 2 entries for 1 records"),
        (lambda: summed(spacing=0.3), "spacing must be a power of two, got 0.3"),
        (
            lambda: summed(spacing=2.0),
            "spacing must lie between clip_norm / 2**40 and clip_norm = 1.0, got 2.0",
        ),
        (
            lambda: summed(spacing=2.0**-31),
            "spacing must be at least clip_norm / 2**30 for the L2 norm, got 4.6566",
        ),
        (
            lambda: summed(features=np.ones((2, 3))),
            "features must have 2 columns, as parameters have, got 3",
        ),
        (
            lambda: summed(labels=[0]),
            "labels must have shape (2,), one for each row of features, got (1,)",
        ),
        (lambda: summed(labels=[0, 2]), "labels must be whole numbers from 0 to 1"),
        (
            lambda: summed(labels=np.ma.array([0, 1], mask=[0, 1])),
            "labels must be whole numbers from 0 to 1",
        ),
        (
            lambda: summed(features=[[1, 1]] * 5000, labels=[0] * 5000, spacing=2.0**-40, norm=1),
            "too small for 5000",
        ),
    ],
)
def test_bad_input(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


@pytest.mark.parametrize("epsilon", [None, 1.0, ["1"], [True], [[1.0]], [], np.ma.ones(1)])
def test_losses_of_the_wrong_kind(epsilon: Any) -> None:
    with pytest.raises(TypeError, match="epsilon must hold one number for each owner, got"):
        sent(epsilon=epsilon)


def test_gradients_that_are_not_finite_count_as_zero() -> None:
    """An error would tell that much of the data."""
    gradients = np.array([[[math.inf, 1.0]], [[math.nan, 0.0]], [[1e308, 1e308]], [[0.5, -0.25]]])
    assert grid_gradients(gradients, 1.0, 0.25).tolist() == [
        [[0, 0]],
        [[0, 0]],
        [[0, 0]],
        [[2, -1]],
    ]
    assert clipped(gradients, 1.0).tolist() == [[[0, 0]], [[0, 0]], [[0, 0]], [[0.5, -0.25]]]


def test_what_is_sent_is_cut_where_floats_end() -> None:
    """To refuse large noise instead would tell how far the answer is from the largest number ever
    sent.
    """
    assert integer_answers.cut(np.array([2**60, 7, -(2**60)])).tolist() == [2**53, 7, -(2**53)]
