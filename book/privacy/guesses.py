r"""The random-bit test, an audit that only looks at what is released; and what it would have exposed.

In each run a fair coin chooses one of two neighbouring data sets, the learner releases, and the auditor guesses the
coin or abstains. If a release costs at most :math:`\varepsilon`, no guess is right with a probability above
:math:`p_\varepsilon=e^\varepsilon/(1+e^\varepsilon)`, so the number of right guesses is compared with a binomial law. A
first part of the runs chooses when to guess what; only the others count: :doc:`/book/privacy/audits`.

That no violation is found proves nothing: a test says something only together with its power.

Throughout, `claim`, not negative, is the privacy loss claimed for the two data sets, and `runs` counts all runs, at
least 100. Tests reject with the false-alarm rate of the whole book, unless a `level` between 0 and 1 says otherwise.
What is said of their power is for spherical Laplace noise in `dimension` dimensions and a positive claim; the level is
shared by so many `sellers` (Bonferroni), with so many `scores` each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats
from scipy.special import betainc, expit, logit, rel_entr

from hdpm_lib.audits.bounds import guess_epsilon, guess_p_value, power_of_guesses
from hdpm_lib.audits.scores import Ends, tails
from hdpm_lib.validation import FALSE_ALARM, check_count, check_finite, check_generator, check_number, check_positive

Array = NDArray[np.float64]
Bits = NDArray[np.bool_]
Sampler = Callable[[np.random.Generator, int], Array]
Release = Callable[[Bits, np.random.Generator], Array]
Score = Callable[[Array], Array]

TRAIN = 0.3  # share of the runs that choose the thresholds
DIGITS = 9  # of scores, beside their largest: what floating point does beyond them is tested elsewhere
_EVEN = 6.0  # evidence, in natural units, that a rule gets in advance if it guesses equally often on both sides

# --- the test ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BitTest:
    r"""Outcome of a random-bit test with one or several scores.

    Attributes
    ----------
    runs : int
        All runs, those of the training part included.
    guesses, correct : integer array of shape (s,)
        For each score the runs of the other part in which it guessed, and guessed right.
    claim : float
    """

    runs: int
    guesses: NDArray[np.int64]
    correct: NDArray[np.int64]
    claim: float

    @property
    def p_value(self) -> float:
        """Bound on the probability of so many right guesses under the claim, all scores together."""
        counts = zip(self.correct, self.guesses, strict=True)
        found = [guess_p_value(int(right), int(made), self.runs, self.claim) for right, made in counts]
        return min(1.0, len(found) * min(found))

    def epsilon_lower(self, level: float = FALSE_ALARM) -> float:
        """Lower end of the pair's privacy loss, too high with a probability of at most `level`, or 0."""
        check_number(level, "level", 0, 1, ends="()")
        found = guess_epsilon(self.correct, self.guesses, self.runs, level / len(self.guesses))
        return max(0.0, float(found.max()))


def bit_test(
    release: Release,
    scores: Sequence[Score],
    claim: float,
    runs: int,
    *,
    rng: np.random.Generator,
    digits: int | None = DIGITS,
) -> BitTest:
    r"""Test by guessing that a release tells two neighbouring data sets apart by at most `claim`.

    Parameters
    ----------
    release : function
        From bits of shape (runs,), and a generator, to as many independent outputs, along the first axis: of the
        learner on the second data set where the bit is set, on the first elsewhere. See :func:`either`.
    scores : sequence of functions
        From outputs to finite numbers of shape (runs,), none chosen by looking at these outputs. For each, two
        thresholds are chosen, and which bit is guessed beyond each.
    rng : numpy.random.Generator
        Tosses the coins and is handed to `release`.
    digits : int or None, default 9
        Decimals to which scores are rounded, in units of the largest in the training part. ``None`` leaves them: the
        test then sees floating point as well, and rejects correct learners whose ideal arithmetic keeps the claim.

    Notes
    -----
    Given the `K` runs in which a guess is made, the right ones are stochastically at most
    :math:`\mathrm{Bin}(K,p_\varepsilon)`. Scores that are the same in all runs are an error.

    Examples
    --------
    >>> release = either(lambda rng, n: rng.laplace(0, 1, n), lambda rng, n: rng.laplace(2, 1, n))
    >>> test = bit_test(release, [log_ratio(0.0, 2.0, 1.0)], 1.0, 10_000, rng=np.random.default_rng(0))
    >>> test.p_value < 1e-6, 1.5 < test.epsilon_lower() < 2
    (True, True)
    """
    first, digits = _check_test(scores, claim, runs, digits, rng)
    bits = rng.integers(0, 2, runs).astype(bool)  # fair coins
    outputs = _outputs(release, bits, rng)  # of either data set
    counts = []
    for values in _values(scores, outputs, first, digits):
        ends = _thresholds(values[:first], bits[:first], claim)
        counts.append(ends.guesses(values[first:], bits[first:]))
    guesses, correct = np.array(counts).T
    return BitTest(runs, guesses, correct, float(claim))


def _check_test(
    scores: Sequence[Score], claim: float, runs: int, digits: int | None, rng: np.random.Generator
) -> tuple[int, int | None]:
    """The number of training runs, and that of decimals, or an error about an argument of :func:`bit_test`."""
    check_number(claim, "claim", 0)
    check_generator(rng)
    if not scores:
        raise ValueError("scores is empty: there is nothing to guess from")
    return training_runs(runs), None if digits is None else check_count(digits, "digits", 0)


def _outputs(release: Release, bits: Bits, rng: np.random.Generator) -> Array:
    """One output for each bit."""
    outputs = np.asarray(release(bits, rng))
    if len(outputs) != len(bits):
        raise ValueError(f"release gave {len(outputs)} outputs for {len(bits)} bits")
    return outputs


def _values(scores: Sequence[Score], outputs: Array, first: int, digits: int | None) -> list[Array]:
    """The scores of all outputs, rounded beside the largest of the training part."""
    found, runs = [], len(outputs)
    for number, score in enumerate(scores):
        values = np.asarray(score(outputs), dtype=float)
        if values.shape != (runs,) or not np.isfinite(values).all():
            raise ValueError(f"scores[{number}] must give {runs} finite numbers, got shape {values.shape} or others")
        if digits is not None:
            with np.errstate(over="ignore"):
                values = np.round(values / (np.abs(values[:first]).max() or 1.0), digits)
        found.append(values)
    if not any((values != values[0]).any() for values in found):
        to = "" if digits is None else f", to {digits} digits"
        raise ValueError(f"scores are the same in all runs{to}: there is nothing to guess from")
    return found


def exponent(frequency: ArrayLike, claim: float) -> Array:
    r"""Evidence of each guess that guesses are right more often than a claim allows.

    It is the relative entropy of the frequency of right guesses, in [0, 1], to :math:`p_\varepsilon`, and 0 below that.

    Examples
    --------
    >>> exponent([0.5, 1.0], 0.0).round(4)
    array([0.    , 0.6931])
    """
    check_number(claim, "claim", 0)
    f = np.maximum(check_finite(frequency, "frequency", low=0, high=1), expit(claim))
    entropy = rel_entr(f, expit(claim)) + rel_entr(1 - f, max(expit(-claim), 1e-300))
    return np.where(f > expit(claim), np.maximum(entropy, 0), 0.0)


def training_runs(runs: int) -> int:
    """Number of runs that only choose the thresholds: 30 per cent."""
    return round(TRAIN * check_count(runs, "runs", 100))


def _thresholds(values: Array, bits: Bits, claim: float) -> Ends:
    """The two thresholds, or one, with the most evidence against `claim`: the claim is known, other than in `audit`."""
    t = tails(values, bits)
    evidence = t.made * exponent(t.right / np.maximum(t.made, 1), claim) + _EVEN * np.eye(len(t.lows))
    evidence = np.where(t.apart, evidence + 1e-9 * t.made, -1.0)  # without any, guess often
    return t.ends(*np.unravel_index(int(np.argmax(evidence)), evidence.shape))


def either(first: Sampler, second: Sampler) -> Release:
    """A release for :func:`bit_test` from two samplers, called as ``sampler(rng, number of runs)``.

    A sampler gives that many outputs along the first axis, each drawn afresh: to spread one draw over them is an error.
    """

    def outputs_of(sampler: Sampler, rng: np.random.Generator, runs: int) -> Array:
        found = np.asarray(sampler(rng, runs))
        if found.shape[:1] != (runs,):
            raise ValueError(f"sampler must give {runs} outputs, one for each run, got shape {found.shape}")
        if runs > 1 and (found == found[0]).all() and (np.asarray(sampler(rng, runs)) != found[0]).any():
            raise ValueError(f"the {runs} runs of a sampler share one draw: each needs its own")
        return found

    def release(bits: Bits, rng: np.random.Generator) -> Array:
        zero, one = outputs_of(first, rng, int((~bits).sum())), outputs_of(second, rng, int(bits.sum()))
        outputs = np.empty((len(bits), *zero.shape[1:]), dtype=zero.dtype)
        outputs[~bits], outputs[bits] = zero, one
        return outputs

    return release


def log_ratio(first: ArrayLike, second: ArrayLike, rate: float) -> Score:
    r"""Score of outputs with spherical Laplace noise of a rate: log density around `second` less that around `first`.

    Centres are numbers, for outputs of shape (runs,), or of shape (d,), for outputs of shape (runs, d).
    """
    zero, one = check_finite(first, "first"), check_finite(second, "second")
    r = check_positive(rate, "rate")
    if zero.shape != one.shape:
        raise ValueError(f"first and second must have one shape, got {zero.shape} and {one.shape}")
    if zero.ndim == 0:
        return lambda outputs: r * (np.abs(outputs - zero) - np.abs(outputs - one))
    return lambda outputs: r * (np.linalg.norm(outputs - zero, axis=-1) - np.linalg.norm(outputs - one, axis=-1))


# --- what it exposes --------------------------------------------------------------------------------------------------


def power(claim: float, true: float, runs: int, *, dimension: int = 1, sellers: int = 1, scores: int = 1) -> float:
    """Probability that a test rejects a claim where the exact privacy loss of the two data sets is `true`.

    By exact binomials; thresholds are taken to be the best ones, those of :func:`event`, and not learned.

    Examples
    --------
    >>> round(power(1.0, 1.06, 100_000), 3)
    0.838
    """
    check_positive(claim, "claim")
    check_positive(true, "true")
    tests = check_count(sellers, "sellers") * check_count(scores, "scores")
    return _power(claim, true, runs - training_runs(runs), dimension, FALSE_ALARM / tests)


def exposed_excess(
    claim: float, runs: int, *, dimension: int = 1, sellers: int = 1, scores: int = 1, power: float = 0.9
) -> float:
    """Smallest relative excess of the exact privacy loss over the claim that a test exposes with probability `power`.

    It is an error if none is exposed, however large. The best thresholds are taken as known. Learned ones reach `power`
    in one dimension; in two they lose up to a sixth of it, and an excess for 0.98 is found with 0.9.

    Examples
    --------
    >>> round(exposed_excess(1.0, 100_000), 3)
    0.063
    """
    check_positive(claim, "claim")
    check_number(power, "power", 0, 1, ends="()")
    tests = check_count(sellers, "sellers") * check_count(scores, "scores")
    counted = runs - training_runs(runs)

    def short(log_factor: float) -> float:
        return _power(claim, claim * np.exp(log_factor), counted, dimension, FALSE_ALARM / tests) - power

    top = 0.1
    while short(top) < 0:
        top *= 2
        if top > 10:
            raise ValueError(f"runs = {runs} expose no excess of claim = {claim}, however large")
    return float(np.expm1(optimize.brentq(short, 0.0, top, xtol=1e-5)))


def _power(claim: float, true: float, counted: int, dimension: int, level: float) -> float:
    """Probability of a p-value of at most `level` after so many counted runs, on a grid of the number of guesses."""
    made, right = event(true, claim, dimension)
    middle, spread = counted * made, 5 * np.sqrt(counted * made * max(1 - made, 0.0))
    guesses = np.unique(np.clip(np.linspace(middle - spread, middle + spread, 401), 0, counted).round())
    weight = stats.binom.pmf(guesses, counted, made)
    rejected = power_of_guesses(min(logit(right), 700.0), guesses / counted, counted, claim, level)
    return float(weight @ rejected / weight.sum())


def event(loss: float, claim: float, dimension: int = 1) -> tuple[float, float]:
    r"""Probabilities that a guess is made, and that it is right, by the rule that tells most against a claim.

    Between two data sets of a known exact `loss` it guesses where the log ratio of the densities is beyond
    :math:`\pm t`; of 50 shares :math:`t/\text{loss}` the one with the most expected evidence is taken.

    Notes
    -----
    With rate one and centres :math:`\varepsilon` apart, the log ratio at the radius :math:`\rho` around the first
    centre is at least `t` where the cosine of the direction is at least
    :math:`(\varepsilon^2+2\rho t-t^2)/(2\rho\varepsilon)`; a quadrature over the radius is left.

    Examples
    --------
    >>> event(1.2, 1.0)[0] > 0.67   # in one dimension close to everything beyond the two centres
    True
    """
    check_positive(loss, "loss")
    check_positive(claim, "claim")
    check_count(dimension, "dimension")
    t = loss * np.linspace(0.02, 1, 50)
    one, zero = 1 - _exceeds(-t, loss, dimension), _exceeds(t, loss, dimension)
    made = one + zero
    right = one / np.maximum(made, 1e-300)
    best = int(np.argmax(made * exponent(np.clip(right, 0, 1), claim)))
    return float(made[best]), float(right[best])


def _exceeds(t: Array, loss: float, dimension: int) -> Array:
    """Probability, under the first data set, that the log ratio is at least each of some `t`."""
    nodes, weights = _legendre(120)
    end = np.sqrt(dimension + 12 * np.sqrt(dimension) + 40)
    root, weights = (nodes + 1) / 2 * end, weights * end / 2
    radius = (loss + t)[:, None] / 2 + root**2  # its root, as the integrand starts with a root
    a, cosine = (dimension - 1) / 2, (loss**2 + 2 * radius * t[:, None] - t[:, None] ** 2) / (2 * radius * loss)
    cap = betainc(a, a, np.clip((1 - cosine) / 2, 0, 1)) if dimension > 1 else 0.5
    return np.asarray((stats.gamma.pdf(radius, dimension) * cap) @ (2 * root * weights))


_legendre = cache(np.polynomial.legendre.leggauss)
