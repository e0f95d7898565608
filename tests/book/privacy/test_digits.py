"""Sets of possible outputs, against enumeration and exact fractions, and the attacks that follow from them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from hdpm_book.privacy import digits as fp
from hdpm_lib.learners.queries import linear_query
from hdpm_lib.noise import spherical_laplace
from hdpm_lib.validation import FALSE_ALARM
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
    rng = generator(301)
    assert fp.model_holds(loc, scale, rng=rng)


def test_model_moves_the_generator_on() -> None:
    rng, other = generator(302), generator(302)
    fp.model_holds(0.0, 1.0, rng=rng)
    other.laplace(size=20_000)
    assert rng.random() == other.random()


def test_other_samplers_are_not_taken_for_the_model() -> None:
    """A sampler with the same law, and one whose logarithm is wrong in the last place."""
    model = fp.numpy_laplace

    def subtracted_at_once(u: Any, loc: float, scale: float) -> np.ndarray:
        u = np.asarray(u)
        return np.where(u < 0.5, model(u, loc, scale), loc - scale * np.log(2 * (1 - u)))

    def other_logarithm(u: Any, loc: float, scale: float) -> np.ndarray:
        return loc + np.nextafter(model(u, 0.0, scale), 0)

    for broken in (subtracted_at_once, other_logarithm):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fp, "numpy_laplace", broken)
            assert not fp.model_holds(0.0, 1.0, rng=generator(303))


def test_arguments_of_the_logarithm() -> None:
    k = generator(304).integers(1, 2**53, 20_000)
    k = np.unique(np.concatenate([k, np.arange(1, 50), 2**52 + np.arange(-50, 50), 2**53 - np.arange(1, 50)]))
    j = integers(k)
    assert j.min() >= 1 and j.max() == 2**53
    assert set((j[k < 2**52] % 2).tolist()) == {0} and set((j[k >= 2**52] % 8).tolist()) == {0, 1, 4, 7}
    u = k * 2.0**-53
    assert (np.where(u < 0.5, u + u, (2.0 - u) - u) == j * 2.0**-53).all()


@modelled
def test_numpy_laplace_has_the_law() -> None:
    u = generator(305).integers(1, 2**53, 100_000) * 2.0**-53
    p = stats.kstest(fp.numpy_laplace(u, 2.0, 0.7), stats.laplace(2.0, 0.7).cdf).pvalue
    assert p > FALSE_ALARM > stats.kstest(fp.numpy_laplace(u, 2.0, 0.75), stats.laplace(2.0, 0.7).cdf).pvalue


# --- what it can return -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loc", "scale"), SETTINGS)
@pytest.mark.parametrize("start", [1, 2**30, 2**48, 2**50 + 12_345, 2**52 - 4000, 2**52, 2**53 - 2**50, 2**53 - 4000])
def test_possible_outputs_are_those_of_the_model(loc: float, scale: float, start: int) -> None:
    """All outputs of 3000 consecutive uniform numbers, and the doubles between and beside them, one by one."""
    k = np.arange(start, start + 3000)
    made = np.unique(fp.numpy_laplace(k * 2.0**-53, loc, scale))
    assert fp.could_be(made, loc, scale).all()
    side = np.sign(made - loc)
    inner = made[20:-20] if side.any() and made.size > 50 else made[:0]  # not all makers of the ends are in the list
    tested = around(inner)
    tested = tested[(tested >= inner.min(initial=np.inf)) & (tested <= inner.max(initial=-np.inf))]
    if tested.size:
        np.testing.assert_array_equal(fp.could_be(tested, loc, scale), np.isin(tested, made))


def test_could_be_finds_impossible_and_possible_numbers() -> None:
    outputs = generator(306).uniform(-20, 20, (50, 4))
    flags = fp.could_be(outputs, 0.0, 10.0)
    assert flags.shape == (50, 4) and 0 < flags.mean() < 0.6
    np.testing.assert_array_equal(flags[3], fp.could_be(outputs[3], 0.0, 10.0))
    assert fp.could_be(-0.0, 0.0, 1.0)
    largest = 53 * math.log(2)
    assert not fp.could_be([largest * 1.01, -largest * 1.01, 1e300], 0.0, 1.0).any()


def test_a_wrong_set_of_arguments_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too few arguments make false proofs; too many lose true ones."""
    outputs = fp.numpy_laplace(generator(307).random(20_000), 1.0, 10.0)
    above = generator(307, 1).uniform(2, 3, 2000)
    right = fp.could_be(above, 1.0, 10.0)
    assert fp.could_be(outputs, 1.0, 10.0).all()
    monkeypatch.setattr(fp.np, "isin", lambda j, residues: j % 2 == 0)
    assert not fp.could_be(outputs, 1.0, 10.0).all()
    monkeypatch.setattr(fp.np, "isin", lambda j, residues: j % 2 < 2)
    assert (fp.could_be(above, 1.0, 10.0) & ~right).any()


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


@pytest.mark.parametrize("k", [1, 2, 5])
def test_one_of_a_power_of_two_is_reached(k: int) -> None:
    """Consecutive doubles whose difference to the centre lies in a part of the line that is 2^k times as coarse."""
    first = 1.5 * 2.0**-k
    outputs = first + np.arange(2**10) * np.spacing(first)
    for centre in first - generator(309, k).uniform(1.1, 1.9, 20):
        flags = fp.on_grid(outputs, centre)
        spread = np.spacing(np.abs(outputs - centre)) / np.spacing(outputs)
        assert set(spread.tolist()) == {2.0**k}
        np.testing.assert_array_equal(flags.reshape(-1, 2**k).sum(1), 1)


@pytest.mark.parametrize("d", [1, 2, 12, 30])
def test_vectors(d: int) -> None:
    """No false proof in 200,000 vectors; and proofs where the neighbour's estimate differs in one coordinate."""
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


# --- the attack -------------------------------------------------------------------------------------------------------


@modelled
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
def test_attack_on_the_generator(epsilon: float) -> None:
    found = fp.laplace_attack((0.0, 1.0), epsilon, rng=generator(312), draws=5000)
    assert found.false_proofs == 0 and min(found.impossible) > 0.75 and found.guess_rate > 0.88
    assert (found.guess_rate > special.expit(epsilon)) == (epsilon < 3)
    far = fp.laplace_attack((100.0, 101.0), epsilon, rng=generator(313), draws=5000)
    assert far.false_proofs == 0 and 0 < max(far.impossible) < 0.12


@modelled
def test_attack_on_a_query_of_the_library() -> None:
    query = linear_query(np.full(10, 0.7), 5.0, arithmetic="ideal")
    low, high = np.full(10, 0.45), np.append(np.full(9, 0.45), 1.0)
    outputs = np.stack([query.release(data, rng=generator(314, i), size=5000) for i, data in enumerate((low, high))])
    possible = [fp.could_be(outputs, float(query.mean(data)), query.scale) for data in (low, high)]
    found = fp.attack(possible, outputs)
    assert found.false_proofs == 0 and min(found.impossible) > 0.5


def test_attack_counts() -> None:
    """Against a loop over the draws."""
    rng = generator(315)
    possible, scores = rng.random((2, 2, 500)) < 0.6, rng.integers(-1, 2, (2, 500)).astype(float)
    possible[[0, 1], [0, 1]] = True
    right, lost = 0.0, [0, 0]
    for s in range(2):
        for k in range(500):
            here, there = possible[s, s, k], possible[1 - s, s, k]
            lost[s] += not there
            if here != there:
                right += here
            else:
                right += 0.5 if scores[s, k] == 0 else (scores[s, k] > 0) == (s == 1)
    found = fp.attack(possible, scores)
    assert found.draws == 500 and found.guess_rate == pytest.approx(right / 1000)
    assert found.impossible == pytest.approx((lost[0] / 500, lost[1] / 500))
    assert found.false_proofs == 0 and str(found).startswith("Attack(")
    possible[0, 0, 7] = False
    wrong = fp.attack(possible, scores)
    assert wrong.false_proofs == pytest.approx(1 / 1000) and np.isnan([*wrong.impossible, wrong.guess_rate]).all()


@modelled
@pytest.mark.parametrize("sampler", ["divided", "wider", "inverse"])
def test_nothing_is_claimed_of_samplers_that_the_model_does_not_describe(sampler: str) -> None:
    """A mean that is divided afterwards, noise with a last digit of its own, a logarithm that is inverted by hand."""
    rng, ends, n = generator(317), np.array([0.3, 0.4]), 5000
    outputs = {
        "divided": lambda: (10 * ends[:, None] + rng.laplace(0, 1.0, (2, n))) / 10,
        "wider": lambda: ends[:, None] + rng.laplace(0, 0.1, (2, n)) * (1 + 2.0**-50),
        "inverse": lambda: ends[:, None] - 0.1 * np.sign(v := rng.random((2, n)) - 0.5) * np.log1p(-2 * np.abs(v)),
    }[sampler]()
    possible = np.stack([fp.could_be(outputs, end, 0.1) for end in ends.tolist()])
    found = fp.attack(possible, outputs - 0.35)
    assert found.false_proofs > 0.01 and np.isnan([*found.impossible, found.guess_rate]).all()
    assert str(found).startswith("nothing is proved")


def test_attack_on_ideal_outputs() -> None:
    """Without holes the likelier answer is right with probability 1 - exp(-eps/2)/2, inside the bound of the loss."""
    rng, n = generator(316), 20_000
    for epsilon in (0.1, 1.0, 3.0):
        outputs = rng.laplace([[0.0], [1.0]], 1 / epsilon, (2, n))
        found = fp.attack(np.ones((2, 2, n), dtype=bool), outputs - 0.5)
        ideal = 1 - math.exp(-epsilon / 2) / 2
        assert ideal < special.expit(epsilon)
        assert stats.binomtest(round(found.guess_rate * 2 * n), 2 * n, ideal).pvalue > FALSE_ALARM / 3


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fp.numpy_laplace([0.5, 1.0], 0.0, 1.0), r"uniform must lie in \(0, 1\), got 1.0"),
        (
            lambda: fp.could_be([1.0, 1e9], 1e9, 1e-3),
            "scale is too small beside outputs such as 1000000000.0, got 0.001",
        ),
        (lambda: fp.on_grid([1.0, 2.0], [0.0, 1.0, 2.0]), r"outputs and centre must broadcast, got shapes \(2,\)"),
        (lambda: fp.attack(np.ones((2, 3)), np.ones((2, 3))), r"possible must have shape \(2, 2, n\)"),
        (lambda: fp.attack(np.ones((2, 2, 3)), np.ones(3)), r"scores must have shape \(2, 3\), got \(3,\)"),
        (lambda: fp.laplace_attack((1.0, 1.0), 1.0, rng=generator()), "answers must be two different numbers"),
    ],
)
def test_bad_input(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
