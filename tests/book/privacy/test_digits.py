"""Sets of possible outputs, against enumeration and exact fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from hdpm_book.privacy import digits as fp
from hdpm_lib.noise import spherical_laplace
from tests.support import generator

SETTINGS = [(0.0, 10.0), (1.0, 10.0), (0.3, 1.0), (100.0, 1 / 3), (-5.271, 4.2), (0.0, 1e-9), (3.0, 1e6)]
HOLDS = all(fp.model_holds(*setting, rng=np.random.default_rng(1)) for setting in SETTINGS)
modelled = pytest.mark.skipif(not HOLDS, reason="Generator.laplace is computed otherwise here (another C library?)")


def around(values: np.ndarray, steps: int = 3) -> np.ndarray:
    """The values and their neighbours among the numbers of their type, sorted."""
    found = [values]
    for end in (np.inf, -np.inf):
        near = values
        for _ in range(steps):
            near = np.nextafter(near, np.asarray(end, dtype=values.dtype))
            found.append(near)
    return np.unique(np.concatenate(found))


# --- the model of the generator ---------------------------------------------------------------------------------------


def integers(k: np.ndarray) -> np.ndarray:
    """The argument of the logarithm, in units of 2^-53, in integers: halves of the difference are rounded to even."""
    difference = 2**54 - k
    tie = difference % 2 == 1
    rounded = np.where(tie, np.where(difference % 4 == 1, difference - 1, difference + 1), difference)
    return np.where(k < 2**52, 2 * k, rounded - k)


@modelled
@pytest.mark.parametrize(("loc", "scale"), SETTINGS)
def test_model_equals_the_generator(loc: float, scale: float) -> None:
    assert fp.model_holds(loc, scale, rng=generator(301))


def test_other_samplers_are_not_taken_for_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler with the same law, and one whose logarithm is wrong in the last place."""
    model = fp.numpy_laplace
    broken: list[Callable[[np.ndarray, float, float], np.ndarray]] = [
        lambda u, loc, scale: np.where(u < 0.5, model(u, loc, scale), loc - scale * np.log(2 * (1 - u))),
        lambda u, loc, scale: loc + np.nextafter(model(u, 0.0, scale), 0),
    ]
    for other in broken:
        monkeypatch.setattr(fp, "numpy_laplace", other)
        assert not fp.model_holds(0.0, 1.0, rng=generator(303))


def test_arguments_of_the_logarithm() -> None:
    k = generator(304).integers(1, 2**53, 20_000)
    k = np.unique(np.concatenate([k, np.arange(1, 50), 2**52 + np.arange(-50, 50), 2**53 - np.arange(1, 50)]))
    j = integers(k)
    assert j.min() >= 1 and j.max() == 2**53
    assert set((j[k < 2**52] % 2).tolist()) == {0} and set((j[k >= 2**52] % 8).tolist()) == {0, 1, 4, 7}
    u = k * 2.0**-53
    assert (np.where(u < 0.5, u + u, (2.0 - u) - u) == j * 2.0**-53).all()


# --- what it can return -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loc", "scale"), SETTINGS)
@pytest.mark.parametrize("start", [1, 2**30, 2**48, 2**50 + 12_345, 2**52 - 4000, 2**52, 2**53 - 2**50, 2**53 - 4000])
def test_possible_outputs_are_those_of_the_model(loc: float, scale: float, start: int) -> None:
    """All outputs of 3000 consecutive uniform numbers, and the doubles between and beside them, one by one."""
    k = np.arange(start, start + 3000)
    made = np.unique(fp.numpy_laplace(k * 2.0**-53, loc, scale))
    assert fp.could_be(made, loc, scale).all()
    if made.size > 50:
        tested = around(made[20:-20])[3:-3]  # not all makers of the ends are in the list
        np.testing.assert_array_equal(fp.could_be(tested, loc, scale), np.isin(tested, made))


def test_could_be_finds_impossible_and_possible_numbers() -> None:
    outputs = generator(306).uniform(-20, 20, (50, 4))
    flags = fp.could_be(outputs, 0.0, 10.0)
    assert flags.shape == (50, 4) and 0 < flags.mean() < 0.6
    np.testing.assert_array_equal(flags[3], fp.could_be(outputs[3], 0.0, 10.0))
    assert fp.could_be(-0.0, 0.0, 1.0)
    largest = 53 * math.log(2)
    assert not fp.could_be([largest * 1.01, -largest * 1.01, 1e300], 0.0, 1.0).any()


# --- a double added to a double ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("centre", [0.0, 1.0, -0.9, 0.3, 3e-8, 2.0**40 + 1 / 8, 2.0**45 - 5 / 128, 60000.7])
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
    assert flags.tolist() == [reached(*pair) for pair in zip(outputs.tolist(), centre.tolist(), strict=True)]
    assert 0.1 < flags.mean() < 0.9
    naive = centre + (outputs - centre) == outputs
    assert (flags >= naive).all()


@pytest.mark.parametrize("d", [1, 2, 12, 30])
def test_vectors(d: int) -> None:
    """No false proof in 20,000 vectors; and proofs where the neighbour's estimate differs in one coordinate."""
    rng = generator(310, d)
    theta, other = np.full((2, d), 0.37)
    theta[0], other[0] = 0.1, 0.9
    proofs = 0.0
    for _ in range(4):
        outputs = theta + spherical_laplace(d, 1.0, rng=rng, size=5_000)
        assert fp.on_grid(outputs, theta).all()
        proofs += (~fp.on_grid(outputs, other)).any(-1).mean() / 4
    assert proofs > 0.05


def test_noise_in_single_precision() -> None:
    rng = generator(311)
    theta = rng.uniform(-1, 1, 12)
    outputs = theta + spherical_laplace(12, 3.0, rng=rng, size=2000).astype(np.float32)
    assert outputs.dtype == np.float64 and fp.on_grid(outputs, theta, np.float32).all()
    assert not fp.on_grid(outputs, theta + 1e-3, np.float32).all(-1).any()
    double = theta + spherical_laplace(12, 3.0, rng=rng, size=2000)
    assert not fp.on_grid(double, theta, np.float32).all(-1).any()
