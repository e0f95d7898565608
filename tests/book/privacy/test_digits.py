"""Sets of possible outputs, against enumeration and exact fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from hdpm_book.privacy import digits as fp
from tests.support import generator

SETTINGS = [
    (0.0, 10.0),
    (1.0, 10.0),
    (0.3, 1.0),
    (100.0, 1 / 3),
    (-5.271, 4.2),
    (0.0, 1e-9),
    (3.0, 1e6),
]


def around(values: np.ndarray, steps: int = 3) -> np.ndarray:
    """The values and their neighbours among the numbers of their type, sorted."""
    found = [values]
    for end in (np.inf, -np.inf):
        near = values
        for _ in range(steps):
            near = np.nextafter(near, np.asarray(end, dtype=values.dtype))
            found.append(near)
    return np.unique(np.concatenate(found))


def test_other_samplers_are_not_taken_for_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler with the same law, and one whose logarithm is wrong in the last place."""
    model = fp.numpy_laplace
    broken: list[Callable[[np.ndarray, float, float], np.ndarray]] = [
        lambda u, loc, scale: np.where(
            u < 0.5, model(u, loc, scale), loc - scale * np.log(2 * (1 - u))
        ),
        lambda u, loc, scale: loc + np.nextafter(model(u, 0.0, scale), 0),
    ]
    for other in broken:
        monkeypatch.setattr(fp, "numpy_laplace", other)
        assert not fp.model_holds(0.0, 1.0, rng=generator(303))


@pytest.mark.parametrize(("loc", "scale"), SETTINGS)
@pytest.mark.parametrize(
    "start", [1, 2**30, 2**48, 2**50 + 12_345, 2**52 - 4000, 2**52, 2**53 - 2**50, 2**53 - 4000]
)
def test_possible_outputs_are_those_of_the_model(loc: float, scale: float, start: int) -> None:
    """All outputs of 3000 consecutive uniform numbers, and the doubles between and beside them, one
    by one.
    """
    k = np.arange(start, start + 3000)
    made = np.unique(fp.numpy_laplace(k * 2.0**-53, loc, scale))
    assert fp.could_be(made, loc, scale).all()
    if made.size > 50:
        tested = around(made[20:-20])[3:-3]  # not all makers of the ends are in the list
        np.testing.assert_array_equal(fp.could_be(tested, loc, scale), np.isin(tested, made))


def test_zero_has_two_signs_and_nothing_lies_beyond_the_largest_output() -> None:
    assert fp.could_be(-0.0, 0.0, 1.0)
    largest = 53 * math.log(2)
    assert not fp.could_be([largest * 1.01, -largest * 1.01, 1e99], 0.0, 1.0).any()


@pytest.mark.parametrize(
    "centre", [0.0, 1.0, -0.9, 0.3, 3e-8, 2.0**40 + 1 / 8, 2.0**45 - 5 / 128, 60000.7]
)
def test_on_grid_is_exact_for_half_precision_noise(centre: float) -> None:
    """All 63,488 numbers of half precision, added to the centre one by one."""
    noise = np.arange(2**16, dtype=np.uint16).view(np.float16)
    made = np.unique(centre + noise[np.isfinite(noise)].astype(float))
    tested = around(made, 2)
    tested = tested[(tested >= made[0]) & (tested <= made[-1])]
    np.testing.assert_array_equal(fp.on_grid(tested, centre, np.float16), np.isin(tested, made))
    assert fp.on_grid(tested, centre, np.float16).mean() < 0.9


def reached(output: float, centre: float) -> bool:
    """Whether some double, added to the centre, is rounded to the output, in exact fractions."""
    wanted = Fraction(output) - Fraction(centre)
    near = float(wanted)
    candidates = [near, math.nextafter(near, math.inf), math.nextafter(near, -math.inf)]
    return any(float(Fraction(centre) + Fraction(z)) == output for z in candidates)


def test_on_grid_against_fractions() -> None:
    rng = generator(308)
    centre = rng.uniform(-1, 1, 3000) * 10 ** rng.uniform(-4, 2, 3000)
    outputs = rng.uniform(-1, 1, 3000) * 10 ** rng.uniform(-4, 2, 3000)
    flags = fp.on_grid(outputs, centre)
    assert flags.tolist() == [
        reached(*pair) for pair in zip(outputs.tolist(), centre.tolist(), strict=True)
    ]
    assert 0.1 < flags.mean() < 0.9
