"""Noise on integers: exact probabilities by following every path of the sampler, and the law of
draws.

`paths` runs a sampler once for each way in which its uniform integers can fall. What it adds up are
the probabilities themselves, as fractions, up to the paths not followed to their end; chi-square
tests look at what it is too long for.
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
from hdpm_lib.discrete import discrete_laplace
from hdpm_lib.validation import FALSE_ALARM
from tests.support import generator, law_of, p_value, z_limit

# --- paths ---------------------------------------------------------------------------------------


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
        self.outcomes = iter(outcomes)
        self.start = start
        self.starts = 0

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
    """Probabilities of the outcomes of `draw`, the likeliest paths first, and that of all paths not
    followed so far.

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
    """Rationals around exp(-x), x from 0 on: the series of exp(-x / m), x / m at most 1, alternates
    and shrinks.
    """
    m = max(1, math.ceil(x))
    term = total = Fraction(1)
    for k in range(1, terms):
        before = total
        term = -term * x / (m * k)
        total += term
    return min(before, total) ** m, max(before, total) ** m


def heads(coin: Callable[[Any], np.ndarray], least: Fraction, most: Fraction, left: float) -> bool:
    """Whether a coin, given what is left of its paths, can have a probability of exp(-x) with x
    from least to most.
    """
    found, missing = paths(lambda tape: bool(coin(tape)[0]), 400)
    assert missing < left
    return found[True] <= exp_between(least)[1] and exp_between(most)[0] <= found[True] + missing


@pytest.mark.parametrize(("p", "q"), [(0, 1), (1, 1), (1, 2), (2, 3), (3, 7), (4, 5)])
def test_coin_exactly(p: int, q: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def right() -> bool:
        return heads(
            lambda tape: discrete._exp_coins(np.array([p]), q, tape),
            Fraction(p, q),
            Fraction(p, q),
            0.15,
        )

    low, high = exp_between(Fraction(p, q))
    assert high - low < 1e-30 and float(low) == pytest.approx(math.exp(-p / q), abs=1e-15)
    assert right()
    # 1 - x in place of exp(-x)
    monkeypatch.setattr(discrete, "_coins", lambda index, below, rng: ~below(index))
    assert right() == (p == 0)


@pytest.mark.parametrize(
    "scale", [Fraction(1, 3), Fraction(1), Fraction(3, 2), Fraction(3), Fraction(5, 7)], ids=str
)
def test_discrete_laplace_exactly(scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Probabilities of a first try that counts, given that coins are right; and with sizes rounded
    up.
    """
    monkeypatch.setattr(
        discrete,
        "_exp_coins",
        lambda u, t, rng: np.array([rng.coin(j / t) for j in u.tolist()], dtype=bool),
    )
    monkeypatch.setattr(
        discrete,
        "_coins",
        lambda index, below, rng: np.array([rng.coin(1.0) for _ in index], dtype=bool),
    )

    def largest_error() -> float:
        found, missing = paths(
            lambda tape: int(discrete_laplace(scale, rng=tape)), 2000, start=scale.numerator
        )
        again = found.pop(Again)
        b = float(scale)
        assert missing < 1e-7 and again < 0.7
        right = {k: math.tanh(0.5 / b) * math.exp(-abs(k) / b) for k in range(-9, 10)}
        return max(abs(float(found[k] / (1 - again)) - p) for k, p in right.items())

    assert largest_error() < 1e-6
    magnitudes = discrete._magnitudes
    monkeypatch.setattr(
        discrete, "_magnitudes", lambda u, t, s, rng: magnitudes(u + (s - 1), t, s, rng)
    )
    assert (largest_error() > 0.01) == (scale.denominator > 1)


# --- the law of draws ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scale", [Fraction(1, 4), Fraction(1), Fraction(10, 3), Fraction(57), Fraction(2**50, 10**13)]
)
def test_law_of_discrete_laplace(scale: Fraction) -> None:
    drawn = discrete_laplace(scale, rng=generator(22, scale.numerator), size=(20_000, 2))
    assert p_value(drawn.reshape(-1, 1), *law_of(scale, math.ceil(60 * scale))) > FALSE_ALARM
    one = drawn.ravel()[:-1]
    other = drawn.ravel()[1:]
    for pairs in (one * other, (abs(one) - abs(one).mean()) * (abs(other) - abs(other).mean())):
        assert abs(pairs.sum()) < z_limit(2) * pairs.std() * math.sqrt(len(pairs))


def test_a_scale_for_each_draw() -> None:
    """Equal ones give what one scale for all gives; others have their laws, beside each other."""
    n = 20_000
    together = discrete.draw_laplace(np.full(n, 7), np.full(n, 2), n, generator(23))
    assert (together == discrete_laplace(Fraction(7, 2), rng=generator(23), size=n)).all()
    scales = [Fraction(1, 4), Fraction(10, 3), Fraction(2**50, 10**13), Fraction(2**62)]
    t = np.tile([scale.numerator for scale in scales], n)
    s = np.tile([scale.denominator for scale in scales], n)
    drawn = discrete.draw_laplace(t, s, 4 * n, generator(24)).reshape(n, 4)
    for k, scale in enumerate(scales[:3]):
        assert p_value(drawn[:, k : k + 1], *law_of(scale, math.ceil(60 * scale))) > FALSE_ALARM
    assert p_value(drawn[:, 1:2], *law_of(scales[2], 7000)) < FALSE_ALARM
    wide = np.abs(drawn[:, 3]) / 2.0**62  # cut at 1
    assert abs((wide < 0.5).mean() - (1 - math.exp(-0.5))) < z_limit() / math.sqrt(4 * n)


# --- shapes, limits, bad input ------------------------------------------------------------------


def test_shapes() -> None:
    for size in ((), (5,), (3, 4), (0,), (2, 0)):
        drawn = discrete_laplace(2, rng=generator(), size=size)
        assert drawn.shape == size and drawn.dtype == np.int64


def test_large_scales_neither_overflow_nor_bend() -> None:
    """Products beyond 64 bits on the way do no harm; results beyond them are cut; and none is
    rounded.
    """
    scale = Fraction(2**62, 2**20 + 1)
    drawn = discrete_laplace(scale, rng=generator(32), size=5000)
    distance = stats.ks_1samp(drawn / float(scale), stats.laplace.cdf, method="asymp").statistic
    assert distance < math.sqrt(math.log(2 / FALSE_ALARM) / 2 / 5000)
    exact = discrete._uncut(2**62, 1, 1000, generator(33))
    drawn = discrete_laplace(2**62, rng=generator(33), size=1000)
    # none has wrapped, and none is lost
    assert exact.dtype == object and max(map(abs, exact)) > 2**63
    assert (
        drawn.tolist() == [min(max(k, -(2**62)), 2**62) for k in exact] and drawn.dtype == np.int64
    )
    sizes = np.array([abs(k) / 2**62 for k in exact])
    assert stats.ks_1samp(sizes, stats.expon.cdf, method="asymp").statistic < math.sqrt(
        math.log(2 / FALSE_ALARM) / 2e3
    )
    # of wide integers half are
    odd = int((discrete_laplace(2**60, rng=generator(36), size=4000) % 2).sum())
    assert (
        stats.binom(4000, 0.5).ppf(FALSE_ALARM / 2)
        <= odd
        <= stats.binom(4000, 0.5).isf(FALSE_ALARM / 2)
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: discrete_laplace(2**63, rng=generator()),
            "numerator and a denominator of at most 2**62, got 9223",
        ),
        (
            lambda: discrete_laplace(Fraction(1, 2**63), rng=generator()),
            "denominator of at most 2**62, got 1/9223",
        ),
    ],
)
def test_bad_input(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
