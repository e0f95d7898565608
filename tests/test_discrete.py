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
from hdpm_lib.learners.integer_answers import IntegerSum
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


def heads(coin: Callable[[Any], np.ndarray], least: Fraction, most: Fraction, left: float) -> bool:
    """Whether a coin, given what is left of its paths, can have a probability of exp(-x) with x from least to most."""
    found, missing = paths(lambda tape: bool(coin(tape)[0]), 400)
    assert missing < left
    return found[True] <= exp_between(least)[1] and exp_between(most)[0] <= found[True] + missing


@pytest.mark.parametrize(("p", "q"), [(0, 1), (1, 1), (1, 2), (2, 3), (3, 7), (4, 5)])
def test_coin_exactly(p: int, q: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def right() -> bool:
        return heads(lambda tape: discrete._exp_coins(np.array([p]), q, tape), Fraction(p, q), Fraction(p, q), 0.15)

    low, high = exp_between(Fraction(p, q))
    assert high - low < 1e-30 and float(low) == pytest.approx(math.exp(-p / q), abs=1e-15)
    assert right()
    monkeypatch.setattr(discrete, "_coins", lambda index, below, rng: ~below(index))  # 1 - x in place of exp(-x)
    assert right() == (p == 0)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(3, 2), Fraction(3), Fraction(5, 7)], ids=str)
def test_discrete_laplace_exactly(scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Probabilities of a first try that counts, given that coins are right; and with sizes rounded up."""
    monkeypatch.setattr(
        discrete, "_exp_coins", lambda u, t, rng: np.array([rng.coin(j / t) for j in u.tolist()], dtype=bool)
    )
    monkeypatch.setattr(
        discrete, "_coins", lambda index, below, rng: np.array([rng.coin(1.0) for _ in index], dtype=bool)
    )

    def largest_error() -> float:
        found, missing = paths(lambda tape: int(discrete_laplace(scale, rng=tape)), 2000, start=scale.numerator)
        again, b = found.pop(Again), float(scale)
        assert missing < 1e-7 and again < 0.7
        right = {k: math.tanh(0.5 / b) * math.exp(-abs(k) / b) for k in range(-9, 10)}
        return max(abs(float(found[k] / (1 - again)) - p) for k, p in right.items())

    assert largest_error() < 1e-6
    magnitudes = discrete._magnitudes
    monkeypatch.setattr(discrete, "_magnitudes", lambda u, t, s, rng: magnitudes(u + (s - 1), t, s, rng))
    assert (largest_error() > 0.01) == (scale.denominator > 1)


def excess(point: tuple[int, ...], rate: Fraction, slow: Fraction) -> tuple[Fraction, Fraction]:
    """Rationals around `rate` times the L2 norm less `slow` times the L1 norm."""
    far = 2**300
    square = sum(k * k for k in point) * far**2
    root = math.isqrt(square)
    total = slow * sum(map(abs, point))
    return rate * Fraction(root, far) - total, rate * Fraction(root + (root**2 < square), far) - total


POINTS = [(0,), (3,), (0, 0), (1, 0), (1, 1), (-3, 2), (1, 1, 1), (0, 0, 2), (2, 0, -1)]


def acceptance_objections(bits: int, patch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Points that are not accepted with exactly the probability they should be."""
    patch.setattr(discrete, "_BITS", bits)
    wrong, rate = [], Fraction(5, 2)
    for point in POINTS:
        slow = 1 / discrete.proposal_scale(len(point), rate)
        low, high = excess(point, rate, slow)
        coin: Any = lambda tape, k=point, s=slow: discrete._accepted(np.array([k]), rate, s, tape)  # noqa: E731
        if not heads(coin, max(low, Fraction(0)), high, 0.5):
            wrong.append(point)
    return wrong


@pytest.mark.parametrize("bits", [1, 3])
def test_acceptance_exactly(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With so few bits at a time, integers decide nearly always (1), or now and then (3)."""
    assert acceptance_objections(bits, monkeypatch) == []
    monkeypatch.setattr(discrete, "_decided", lambda *args: True)
    assert acceptance_objections(1, monkeypatch) != []


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(1, 2)])
def test_whole_releases_lose_what_they_promise(scale: Fraction) -> None:
    """Of two data sets that differ in one record: what is certain of their loss is at most 1, unless noise is small."""
    mechanism, laws = IntegerSum(np.array([1, -1]), 1, scale), {}
    for data in itertools.product((0.0, 1.0), repeat=2):
        laws[data] = paths(lambda tape, d=data: int(mechanism.release(d, rng=tape)), 3000)
    pairs = [pair for pair in itertools.permutations(laws, 2) if sum(map(abs, np.subtract(*pair))) == 1]
    lost = max(math.log(p / (laws[b][0].get(k, 0) + laws[b][1])) for a, b in pairs for k, p in laws[a][0].items())
    assert lost > 0.6 and (lost <= 1) == (scale == 1)


# --- floats may only decide what they are sure of ---------------------------------------------------------------------


def unsure(points: np.ndarray, rate: Fraction, slow: Fraction, widen: float = 1) -> int:
    """How many of the points lie outside the floats around them."""
    outside, (parts, low, high) = 0, discrete._bracket(points, rate, slow)
    middle, half = (low + high) / 2, widen * (high - low) / 2
    for k, m, a, b in zip(points.tolist(), parts, middle - half, middle + half, strict=True):
        least, most = excess(tuple(k), rate, slow)
        outside += not Fraction(a) * int(m) <= least or not most <= Fraction(b) * int(m)
        assert m > 0 and most <= int(m)
    return outside


def test_floats_around_the_excess() -> None:
    """Of points from small to huge, and along the diagonal, which floats alone do not know exactly."""
    rng, found, n = generator(21), np.zeros(2, dtype=int), 40
    for d, rate in itertools.product((1, 2, 3, 12, 50), (Fraction(7, 3), Fraction(1, 10**6), Fraction(3, 2**40))):
        slow, sizes = 1 / discrete.proposal_scale(d, rate), np.geomspace(1, 2**50, n)[:, None]
        points = np.concatenate([sizes * rng.laplace(size=(n, d)), sizes * rng.choice([-1, 1], (n, d))]).astype(int)
        found += [unsure(points, rate, slow, widen) for widen in (1, 0.001)]
    assert found[0] == 0 and found[1] > 100


@pytest.mark.parametrize("d", [1, 3, 50])
def test_floats_around_points_beyond_64_bits(d: int) -> None:
    rng, rate = generator(35, d), Fraction(1, 3 * 2**70)
    slow = 1 / discrete.proposal_scale(d, rate * 2**40) / 2**40
    sizes = [[int(v) * 2 ** int(e) for v, e in zip(rng.integers(2**50, size=d), rng.integers(30, size=d), strict=True)]]
    for k in [*sizes, [2**75] * d, [2**80] + [0] * (d - 1), [2**62] * d]:  # the last fits, its sum does not
        assert unsure(np.array([k], dtype=object if max(k) > 2**62 else np.int64), rate, slow) == 0


# --- the law of draws -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [Fraction(1, 4), Fraction(1), Fraction(10, 3), Fraction(57), Fraction(2**50, 10**13)])
def test_law_of_discrete_laplace(scale: Fraction) -> None:
    drawn = discrete_laplace(scale, rng=generator(22, scale.numerator), size=(20_000, 2))
    assert p_value(drawn.reshape(-1, 1), *law_of(scale, math.ceil(60 * scale))) > FALSE_ALARM
    one, other = drawn.ravel()[:-1], drawn.ravel()[1:]
    for pairs in (one * other, (abs(one) - abs(one).mean()) * (abs(other) - abs(other).mean())):
        assert abs(pairs.sum()) < z_limit(2) * pairs.std() * math.sqrt(len(pairs))


LATTICES = [(1, Fraction(1, 3), 150), (1, Fraction(2), 25), (2, Fraction(3), 15), (2, Fraction(1, 4), 130)]
LATTICES += [(3, Fraction(5, 2), 14), (3, Fraction(2, 3), 30)]


@pytest.mark.parametrize(("d", "rate", "reach"), LATTICES)
def test_law_on_the_lattice(d: int, rate: Fraction, reach: int, monkeypatch: pytest.MonkeyPatch) -> None:
    law = lattice_law(d, rate, reach)
    drawn = lattice_laplace(d, rate, rng=generator(25, d, rate.numerator), size=40_000)
    assert p_value(drawn, *law) > FALSE_ALARM
    monkeypatch.setattr(discrete, "_accepted", lambda points, *args: np.ones(len(points), dtype=bool))
    assert (p_value(lattice_laplace(d, rate, rng=generator(26), size=20_000), *law) < FALSE_ALARM) == (d > 1)


@pytest.mark.parametrize(("d", "n"), [(1, 10_000), (2, 10_000), (12, 2_000), (30, 30)])
def test_fine_lattice_looks_spherical(d: int, n: int) -> None:
    rate, rng = Fraction(1, 10**9), generator(27, d)
    assert objections(law_checks(lambda k: float(rate) * lattice_laplace(d, rate, rng=rng, size=k), n)) == []


@pytest.mark.parametrize("d", [2, 5, 12])
def test_share_that_is_accepted(d: int) -> None:
    rng, rate, n, expected = generator(28, d), Fraction(1, 2**20), 20_000, acceptance(d)
    scale = discrete.proposal_scale(d, rate)
    count = discrete._accepted(discrete_laplace(scale, rng=rng, size=(n, d)), rate, 1 / scale, rng).sum()
    assert abs(count - n * expected) <= z_limit() * math.sqrt(n * expected * (1 - expected))


# --- shapes, limits, bad input ----------------------------------------------------------------------------------------


def test_shapes() -> None:
    for size in ((), (5,), (3, 4), (0,), (2, 0)):
        one, vector = discrete_laplace(2, rng=generator(), size=size), lattice_laplace(3, 2, rng=generator(), size=size)
        assert one.shape == size and vector.shape == (*size, 3) and one.dtype == vector.dtype == np.int64
    many = lattice_laplace(40, 1, rng=generator(31), size=2)  # more than one batch of proposals
    assert many.shape == (2, 40) and (many[0] != many[1]).any()


@pytest.mark.parametrize("d", [1, 2, 3, 12])
@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(10**6), Fraction(1, 2**45), Fraction(22, 7)])
def test_proposals_are_wide_enough(d: int, rate: Fraction) -> None:
    scale = discrete.proposal_scale(d, rate)
    assert scale**2 * rate**2 >= d and (scale - Fraction(1, 2**29)) ** 2 * rate**2 < d * (1 + Fraction(1, 2**10))
    assert scale.numerator <= 2**52 and scale.denominator <= 2**30


@pytest.mark.parametrize("square", [0, 2, 9, Fraction(1, 7), Fraction(49, 4)])
@pytest.mark.parametrize("n", [1, 2, 1000])
def test_root_above(square: Any, n: int) -> None:
    root = root_above(square, n)
    assert root**2 >= square and (root == 0 or (root - Fraction(1, n)) ** 2 < square)


def test_large_scales_neither_overflow_nor_bend() -> None:
    """Products beyond 64 bits on the way do no harm; results beyond them are cut; and none is rounded."""
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
    odd = int((discrete_laplace(2**60, rng=generator(36), size=4000) % 2).sum())  # of wide integers half are
    assert stats.binom(4000, 0.5).ppf(FALSE_ALARM / 2) <= odd <= stats.binom(4000, 0.5).isf(FALSE_ALARM / 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: discrete_laplace(2**63, rng=generator()), "numerator and a denominator of at most 2**62, got 9223"),
        (lambda: discrete_laplace(Fraction(1, 2**63), rng=generator()), "denominator of at most 2**62, got 1/9223"),
        (lambda: lattice_laplace(2, 2**40, rng=generator()), "rate must lie between sqrt(dimension) / 2**50 and"),
        (lambda: lattice_laplace(2, Fraction(1, 2**51), rng=generator()), "rate must lie between sqrt(dimension)"),
    ],
)
def test_bad_input(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
