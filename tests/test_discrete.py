"""Noise on integers: exact probabilities by following every path of the samplers, and the law of draws by enumeration.

`paths` runs a sampler once for each way in which its uniform integers can fall. What it adds up are the probabilities
themselves, as fractions, up to the paths not followed to their end; chi-square tests look at what it is too long for.
"""

from __future__ import annotations

import heapq
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hdpm_lib import discrete
from hdpm_lib.discrete import acceptance, discrete_laplace, lattice_laplace, root_above
from hdpm_lib.validation import FALSE_ALARM
from tests.listed import lattice_law
from tests.support import generator, law_checks, law_of, objections, p_value, z_limit

# --- paths ------------------------------------------------------------------------------------------------------------


class TapeEnds(Exception):
    """The sampler wants one more outcome than the tape holds: one of these probabilities."""

    def __init__(self, *probabilities: Any) -> None:
        self.probabilities = probabilities


class Again(Exception):
    """The sampler starts anew."""


class Tape(np.random.Generator):
    """In place of a generator: uniform integers, and coins, that are written down beforehand."""

    unused = np.random.PCG64(0)

    def __init__(self, outcomes: tuple[int, ...], start: int = 0) -> None:
        super().__init__(self.unused)
        self.outcomes, self.start, self.starts = iter(outcomes), start, 0

    def integers(self, high: int, size: int | None = None, dtype: Any = None) -> Any:
        self.starts += high == self.start and size == 1
        if self.starts > 1:
            raise Again
        drawn = [self.next(*[Fraction(1, high)] * high) for _ in range(1 if size is None else size)]
        return drawn[0] if size is None else np.array(drawn, dtype=np.int64)

    def coin(self, gamma: float) -> bool:
        return self.next(1 - math.exp(-gamma), math.exp(-gamma)) == 1

    def next(self, *probabilities: Any) -> int:
        if len(probabilities) == 1:
            return 0
        for outcome in self.outcomes:
            return outcome
        raise TapeEnds(*probabilities)


def paths(draw: Callable[[Any], Hashable], runs: int, start: int = 0) -> tuple[dict[Any, Any], Any]:
    """Probabilities of the outcomes of `draw`, the likeliest paths first, and that of all paths not followed so far.

    With `start`, the outcome ``Again`` is a second uniform integer below it.
    """
    found: dict[Any, Any] = defaultdict(int)
    queue: list = [(-1.0, 0, Fraction(1), ())]
    order = itertools.count(1)
    for _ in range(runs):
        if not queue or -queue[0][0] < 1e-11:
            break
        _, _, weight, outcomes = heapq.heappop(queue)
        try:
            found[draw(Tape(outcomes, start))] += weight
        except Again:
            found[Again] += weight
        except TapeEnds as ends:
            for outcome, probability in enumerate(ends.probabilities):
                part = weight * probability
                heapq.heappush(queue, (-float(part), next(order), part, (*outcomes, outcome)))
    return found, sum(weight for _, _, weight, _ in queue)


def exp_between(x: Fraction, terms: int = 40) -> tuple[Fraction, Fraction]:
    """Rationals around exp(-x), x from 0 on: the series of exp(-x / m), x / m at most 1, alternates and shrinks."""
    m = max(1, math.ceil(x))
    term = total = Fraction(1)
    for k in range(1, terms):
        before, term = total, -term * x / (m * k)
        total += term
    return min(before, total) ** m, max(before, total) ** m


def agree(low: Fraction, missing: Fraction, expected: tuple[Fraction, Fraction]) -> bool:
    """Can a probability between `low` and `low + missing` be the one between the two expected?"""
    return low <= expected[1] and expected[0] <= low + missing


COINS = [(0, 1), (1, 1), (1, 2), (2, 3), (3, 7), (4, 5)]


def coin_objections() -> list[tuple[int, int]]:
    """Coins that do not have exactly the probability they should have."""
    wrong = []
    for p, q in COINS:
        found, missing = paths(lambda tape, p=p, q=q: bool(discrete._exp_coins(np.array([p]), q, tape)[0]), 400)
        expected = exp_between(Fraction(p, q))
        assert expected[1] - expected[0] < 1e-30 and float(expected[0]) == pytest.approx(math.exp(-p / q), abs=1e-15)
        if not agree(found[True], missing, expected) or missing > 0.15:
            wrong.append((p, q))
    return wrong


def test_coin_exactly() -> None:
    assert coin_objections() == []


def test_wrong_coin_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    coins = discrete._coins
    monkeypatch.setattr(discrete, "_coins", lambda *args: ~coins(*args))
    assert coin_objections() == COINS
    monkeypatch.setattr(discrete, "_coins", lambda index, below, rng: ~below(index))  # 1 - x in place of exp(-x)
    assert coin_objections() == COINS[1:]


def laplace_error(scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> float:
    """Largest error of a probability of a first try that counts, given that coins are right."""
    monkeypatch.setattr(
        discrete, "_exp_coins", lambda u, t, rng: np.array([rng.coin(j / t) for j in u.tolist()], dtype=bool)
    )
    monkeypatch.setattr(
        discrete, "_coins", lambda index, below, rng: np.array([rng.coin(1.0) for _ in index], dtype=bool)
    )
    found, missing = paths(lambda tape: int(discrete_laplace(scale, rng=tape)), 2000, start=scale.numerator)
    again = found.pop(Again)
    assert missing < 1e-7 and again < 0.7
    b = float(scale)
    return max(abs(float(found[k] / (1 - again)) - math.tanh(0.5 / b) * math.exp(-abs(k) / b)) for k in range(-9, 10))


SCALES = [Fraction(1, 3), Fraction(1), Fraction(3, 2), Fraction(3), Fraction(5, 7), Fraction(5, 2)]


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_discrete_laplace_exactly(scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    assert laplace_error(scale, monkeypatch) < 1e-6


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_wrong_discrete_laplace_exactly(scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes rounded up instead of down, where there is something to round."""
    magnitudes = discrete._magnitudes
    monkeypatch.setattr(discrete, "_magnitudes", lambda u, t, s, rng: magnitudes(u + (s - 1), t, s, rng))
    assert (laplace_error(scale, monkeypatch) > 0.01) == (scale.denominator > 1)


def excess(point: tuple[int, ...], rate: Fraction, slow: Fraction) -> tuple[Fraction, Fraction]:
    """Rationals around `rate` times the L2 norm less `slow` times the L1 norm."""
    far = 2**300
    square = sum(k * k for k in point) * far**2
    root = math.isqrt(square)
    total = slow * sum(map(abs, point))
    return rate * Fraction(root, far) - total, rate * Fraction(root + (root**2 < square), far) - total


POINTS = [(0,), (3,), (0, 0), (1, 0), (1, 1), (-3, 2), (1, 1, 1), (0, 0, 2), (2, 0, -1)]


def acceptance_objections(bits: int, runs: int = 250) -> list[tuple[int, ...]]:
    """Points that are not accepted with exactly the probability they should be."""
    wrong = []
    for point in POINTS:
        rate, d = Fraction(5, 2), len(point)
        slow = 1 / discrete.proposal_scale(d, rate)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(discrete, "_BITS", bits)
            found, missing = paths(
                lambda tape, k=point, s=slow: bool(discrete._accepted(np.array([k]), Fraction(5, 2), s, tape)[0]), runs
            )
        low, high = excess(point, rate, slow)
        if not agree(found[True], missing, (exp_between(high)[0], exp_between(max(low, Fraction(0)))[1])):
            wrong.append(point)
    return wrong


@pytest.mark.parametrize("bits", [1, 3])
def test_acceptance_exactly(bits: int) -> None:
    """With so few bits at a time, integers decide nearly always (1), or now and then (3)."""
    assert acceptance_objections(bits) == []


@pytest.mark.parametrize("broken", ["undecided ones pass", "no bits more", "half of the parts"])
def test_wrong_acceptance_is_caught(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if broken == "undecided ones pass":
        monkeypatch.setattr(discrete, "_decided", lambda *args: True)
    elif broken == "no bits more":
        monkeypatch.setattr(discrete, "_decided", lambda k, parts, rate, slow, bits, rng: bits % 2 == 0)
    else:
        bracket = discrete._bracket

        def halved(*args: Any) -> Any:
            parts, low, high = bracket(*args)
            return np.maximum(parts // 2, 1), low, high

        monkeypatch.setattr(discrete, "_bracket", halved)
    assert acceptance_objections(1) != []


# --- floats may only decide what they are sure of ---------------------------------------------------------------------


def unsure(widen: float, n: int = 40) -> int:
    """How many of many points, from small to huge and along the diagonal, lie outside the floats around them."""
    rng, outside = generator(21), 0
    for d, rate in itertools.product((1, 2, 3, 12, 50), (Fraction(7, 3), Fraction(1, 10**6), Fraction(3, 2**40))):
        slow = 1 / discrete.proposal_scale(d, rate)
        sizes = np.geomspace(1, 2**50, n)[:, None]
        points = np.concatenate([(sizes * rng.laplace(size=(n, d))), sizes * rng.choice([-1, 1], (n, d))]).astype(int)
        parts, low, high = discrete._bracket(points, rate, slow)
        middle, half = (low + high) / 2, widen * (high - low) / 2
        for k, m, a, b in zip(points.tolist(), parts, middle - half, middle + half, strict=True):
            least, most = excess(tuple(k), rate, slow)
            outside += not Fraction(a) * int(m) <= least or not most <= Fraction(b) * int(m)
            assert widen != 1 or (m > 0 and most <= m)
    return outside


def test_floats_around_the_excess() -> None:
    assert unsure(1) == 0
    assert unsure(0.001) > 100  # floats alone do not know it exactly


# --- the law of draws -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [Fraction(1, 4), Fraction(1), Fraction(10, 3), Fraction(57), Fraction(2**50, 10**13)])
def test_law_of_discrete_laplace(scale: Fraction) -> None:
    drawn = discrete_laplace(scale, rng=generator(22, scale.numerator), size=(20_000, 2))
    assert p_value(drawn.reshape(-1, 1), *law_of(scale, math.ceil(60 * scale))) > FALSE_ALARM
    one, other = drawn.ravel()[:-1], drawn.ravel()[1:]
    for pairs in (one * other, (abs(one) - abs(one).mean()) * (abs(other) - abs(other).mean())):
        assert abs(pairs.sum()) < z_limit(2) * pairs.std() * math.sqrt(len(pairs))


def without_sign_of_zero(scale: Fraction, *, rng: np.random.Generator, size: Any = ()) -> np.ndarray:
    """0 counts twice: a geometric size with an independent sign."""
    return rng.choice([-1, 1], size) * (rng.geometric(-math.expm1(-1 / scale), size) - 1)


def one_too_many(scale: Fraction, *, rng: np.random.Generator, size: Any = ()) -> np.ndarray:
    return np.where((k := discrete_laplace(scale, rng=rng, size=size)) > 0, k - 1, k)


@pytest.mark.parametrize(
    "broken",
    [
        without_sign_of_zero,
        one_too_many,
        lambda scale, **options: discrete_laplace(scale * Fraction(9, 10), **options),
        lambda scale, *, rng, size: np.rint(rng.laplace(scale=float(scale), size=size)).astype(int),
        lambda scale, *, rng, size: np.trunc(rng.laplace(scale=float(scale), size=size)).astype(int),
    ],
)
def test_wrong_discrete_laplace_is_caught(broken: Callable[..., np.ndarray]) -> None:
    drawn = broken(Fraction(2), rng=generator(23), size=40_000)
    assert p_value(drawn.reshape(-1, 1), *law_of(Fraction(2), 120)) < FALSE_ALARM


@pytest.mark.parametrize("part", ["_magnitudes", "_exp_coins"])
def test_wrong_parts_of_discrete_laplace_are_caught(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if part == "_magnitudes":  # forgets to divide
        monkeypatch.setattr(discrete, part, lambda u, t, s, rng: u + t * (rng.geometric(1 - math.exp(-1), len(u)) - 1))
    else:  # keeps everything
        monkeypatch.setattr(discrete, part, lambda u, t, rng: np.ones(len(u), dtype=bool))
    drawn = discrete_laplace(Fraction(10, 3), rng=generator(24), size=40_000)
    assert p_value(drawn.reshape(-1, 1), *law_of(Fraction(10, 3), 200)) < FALSE_ALARM


LATTICES = [(1, Fraction(1, 3), 150), (1, Fraction(2), 25), (2, Fraction(3), 15), (2, Fraction(1, 4), 130)]
LATTICES += [(3, Fraction(5, 2), 14), (3, Fraction(2, 3), 30)]


@pytest.mark.parametrize(("d", "rate", "reach"), LATTICES)
def test_law_on_the_lattice(d: int, rate: Fraction, reach: int) -> None:
    drawn = lattice_laplace(d, rate, rng=generator(25, d, rate.numerator), size=40_000)
    assert p_value(drawn, *lattice_law(d, rate, reach)) > FALSE_ALARM


@pytest.mark.parametrize(("broken", "d"), [("proposals too narrow", 2), ("no acceptance", 2), ("always", 3), ("L1", 3)])
def test_wrong_law_on_the_lattice_is_caught(broken: str, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rate = Fraction(2, 3)
    if broken == "proposals too narrow":
        scale = discrete.proposal_scale(d, rate)
        monkeypatch.setattr(discrete, "proposal_scale", lambda d, rate: scale * Fraction(4, 5))
    elif broken == "L1":
        monkeypatch.setattr(discrete, "proposal_scale", lambda d, rate: 1 / rate)
    else:
        monkeypatch.setattr(discrete, "_accepted", lambda points, *args: np.ones(len(points), dtype=bool))
    drawn = lattice_laplace(d, rate, rng=generator(26), size=20_000)
    assert p_value(drawn, *lattice_law(d, rate, 45 if d == 2 else 30)) < FALSE_ALARM


@pytest.mark.parametrize(("d", "n"), [(1, 10_000), (2, 10_000), (12, 2_000), (30, 30)])
def test_fine_lattice_looks_spherical(d: int, n: int) -> None:
    rate, rng = Fraction(1, 10**9), generator(27, d)
    assert objections(law_checks(lambda k: float(rate) * lattice_laplace(d, rate, rng=rng, size=k), n)) == []


def test_share_that_is_accepted() -> None:
    rng, rate = generator(28), Fraction(1, 2**20)
    for d in (2, 5, 12):
        scale = discrete.proposal_scale(d, rate)
        n = 20_000
        count = discrete._accepted(discrete_laplace(scale, rng=rng, size=(n, d)), rate, 1 / scale, rng).sum()
        assert abs(count - n * acceptance(d)) <= z_limit() * math.sqrt(n * acceptance(d) * (1 - acceptance(d)))


# --- shapes, limits, bad input ----------------------------------------------------------------------------------------


def test_shapes_and_seeds() -> None:
    for size, shape in (((), ()), (5, (5,)), ((3, 4), (3, 4)), (0, (0,)), ((2, 0), (2, 0))):
        one = discrete_laplace(2, rng=generator(), size=size)
        vector = lattice_laplace(3, 2, rng=generator(), size=size)
        assert one.shape == shape and vector.shape == (*shape, 3) and one.dtype == vector.dtype == np.int64
    for sampler in (discrete_laplace, lambda r, **options: lattice_laplace(7, r, **options)):
        first, second = (sampler(1, rng=generator(29), size=50) for _ in range(2))
        assert (first == second).all() and (sampler(1, rng=generator(30), size=50) != first).any()
    many = lattice_laplace(40, 1, rng=generator(31), size=2)  # more than one batch of proposals
    assert many.shape == (2, 40) and (many[0] != many[1]).any()


@pytest.mark.parametrize("d", [1, 2, 3, 12])
@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(10**6), Fraction(1, 2**45), Fraction(22, 7)])
def test_proposals_are_wide_enough(d: int, rate: Fraction) -> None:
    scale = discrete.proposal_scale(d, rate)
    assert scale**2 * rate**2 >= d and (scale - Fraction(1, 2**29)) ** 2 * rate**2 < d * (1 + Fraction(1, 2**10))
    assert scale.numerator <= 2**52 and scale.denominator <= 2**30


def test_root_above() -> None:
    for square, n in itertools.product((0, 2, 9, Fraction(1, 7), Fraction(49, 4)), (1, 2, 1000)):
        root = root_above(square, n)
        assert root**2 >= square and (root == 0 or (root - Fraction(1, n)) ** 2 < square)


def test_large_scales_neither_overflow_nor_bend() -> None:
    """Products beyond 64 bits on the way do no harm; results beyond them are cut."""
    scale = Fraction(2**62, 2**20 + 1)
    drawn = discrete_laplace(scale, rng=generator(32), size=5000)
    distance = stats.ks_1samp(drawn / float(scale), stats.laplace.cdf, method="asymp").statistic
    assert distance < math.sqrt(math.log(2 / FALSE_ALARM) / 2 / 5000)
    exact, drawn = discrete._uncut(2**62, 1, 1000, generator(33)), discrete_laplace(2**62, rng=generator(33), size=1000)
    assert exact.dtype == object and max(map(abs, exact)) > 2**63  # none has wrapped, and none is lost
    assert drawn.tolist() == [min(max(k, -(2**62)), 2**62) for k in exact] and drawn.dtype == np.int64
    sizes = np.array([abs(k) / 2**62 for k in exact])
    assert stats.ks_1samp(sizes, stats.expon.cdf, method="asymp").statistic < math.sqrt(math.log(2 / FALSE_ALARM) / 2e3)
    far = lattice_laplace(2, Fraction(1, 2**48), rng=generator(34), size=100)
    assert np.abs(far).max() > 2**48


def test_large_draws_have_their_last_digits() -> None:
    """Floats would have rounded them: of wide integers half are odd."""
    drawn = discrete_laplace(2**60, rng=generator(36), size=4000)
    odd = int((drawn % 2).sum())
    assert stats.binom(4000, 0.5).ppf(FALSE_ALARM / 2) <= odd <= stats.binom(4000, 0.5).isf(FALSE_ALARM / 2)


@pytest.mark.parametrize("d", [1, 3, 50])
def test_brackets_of_points_beyond_64_bits(d: int) -> None:
    """In fractions: low and high enclose x over parts, and parts are at least x."""
    rng, rate = generator(35, d), Fraction(1, 3 * 2**70)
    slow = 1 / discrete.proposal_scale(d, rate * 2**40) / 2**40
    sizes = [[int(v) * 2 ** int(e) for v, e in zip(rng.integers(2**50, size=d), rng.integers(30, size=d), strict=True)]]
    sizes += [[2**75] * d, [2**80] + [0] * (d - 1), [2**62] * d]  # the last fits, its sum does not
    for k in sizes:
        kind = object if max(k) > 2**62 else np.int64
        parts, low, high = (values[0] for values in discrete._bracket(np.array([k], dtype=kind), rate, slow))
        start, square = slow * sum(k), rate**2 * sum(j * j for j in k)
        assert (
            (start + Fraction(float(low)) * int(parts)) ** 2
            <= square
            <= (start + Fraction(float(high)) * int(parts)) ** 2
        )
        assert (start + int(parts)) ** 2 >= square


def test_wrapped_products_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def wraps(u: np.ndarray, t: int, s: int, rng: np.random.Generator) -> np.ndarray:
        return np.abs(u + t * (rng.geometric(1 - math.exp(-1), len(u)) - 1)) // s

    monkeypatch.setattr(discrete, "_magnitudes", wraps)
    with pytest.raises(AssertionError):
        test_large_scales_neither_overflow_nor_bend()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: discrete_laplace(0.5, rng=generator()), "scale must be a positive Fraction or integer, got 0.5"),
        (lambda: discrete_laplace(2**63, rng=generator()), "numerator and a denominator of at most 2**62, got 9223"),
        (lambda: discrete_laplace(Fraction(1, 2**63), rng=generator()), "denominator of at most 2**62, got 1/9223"),
        (lambda: lattice_laplace(51, 1, rng=generator()), "dimension must be at most 50, or a draw would take minutes"),
        (lambda: lattice_laplace(2, 2**40, rng=generator()), "rate must lie between sqrt(dimension) / 2**50 and"),
        (lambda: lattice_laplace(2, Fraction(1, 2**51), rng=generator()), "rate must lie between sqrt(dimension)"),
    ],
)
def test_bad_input(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
