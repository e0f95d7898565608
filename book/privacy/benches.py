r"""What the checks of :mod:`hdpm_book.privacy.battery` look at: the benches of the four learners.

Promises and centres are computed here by formulas typed anew, and never taken from the learner.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from hdpm_lib.audits.guesses import BitTest, Score, bit_test, either, log_ratio
from hdpm_lib.audits.instances import logistic_ends, ridge_ends, sum_ends
from hdpm_lib.audits.laws import LawTest, laplace_law, logistic_noise, ridge_noise, spherical_law
from hdpm_lib.audits.logistic import output_log_density
from hdpm_lib.audits.ridge import ridge_pair_loss
from hdpm_lib.audits.sums import sum_privacy_losses
from hdpm_lib.learners import fedsgd, jorgensen, logistic, queries, ridge

Array = NDArray[np.float64]
Generator = np.random.Generator

RUNS = (1000, 10_000, 100_000)
Release = Callable[..., Array]  # of `rng` and `size`


@dataclass(frozen=True)
class Bench:
    """The checks of one learner.

    Attributes
    ----------
    budget, meter : function
        Largest ratio of a loss to its promise: as the learner's numbers imply it, and as metered between neighbours.
    centre : function
        Error of the part without noise, times the noise rate.
    noise, plain : function
        From a number of draws to noise in rows: taken out of releases; of data without any signal.
    law : function
        Tests of the law of `noise`.
    bits : function
        Bit tests, from a number of runs.
    runs : tuple of int
        Of the bit tests, which are made with ever more of them until one objects.
    """

    budget: Callable[[], float]
    meter: Callable[[], float]
    centre: Callable[[], float]
    noise: Callable[[int, Generator], Array]
    plain: Callable[[int, Generator], Array]
    law: Callable[[Array], Sequence[LawTest]]
    bits: Callable[[int, Generator], list[BitTest]]
    runs: tuple[int, ...] = RUNS


def in_calls(release: Release, draws: int, rng: Generator) -> Array:
    """Draws from ten calls, so that noise shared by calls shows."""
    return np.concatenate([release(rng=rng, size=draws // 10) for _ in range(10)])


def _between(
    first: Release, second: Release, scores: Sequence[Score], claim: float, runs: int, rng: Generator
) -> BitTest:
    """The bit test between the releases of two data sets."""
    samplers = (lambda rng, n: first(rng=rng, size=n), lambda rng, n: second(rng=rng, size=n))
    return bit_test(either(*samplers), scores, claim, runs, rng=rng)


# --- ridge ------------------------------------------------------------------------------------------------------------


def _proved(penalty: float, d: int, total: float) -> float:
    """The sharp constant for weights of that sum: 2R/λ (1 + RB/2), B the largest s/(s² + λ) for s at most R√total."""
    s = min(math.sqrt(penalty), math.sqrt(d * total))
    return 2 * math.sqrt(d) / penalty * (1 + math.sqrt(d * total) * s / (s * s + penalty) / 2)


def _paper(penalty: float, d: int) -> float:
    return 2 * math.sqrt(d) / penalty * (1 + math.sqrt(d) * min(penalty**-0.5, math.sqrt(d) / penalty))


def _ridge_budget() -> float:
    epsilon, worst = np.array([0.1, 0.5, 1.0, 3.0]), 0.0
    for d, penalty, bound in itertools.product((1, 2, 12, 30), (0.01, 1.0, 100.0, 1e4), ("paper", "sharp")):
        made = ridge.pdp_op(np.zeros((4, d)), np.zeros(4), epsilon, penalty, bound=bound)  # type: ignore[arg-type]
        lost = made.noise_rate * _proved(penalty, d, float(made.weights.sum())) * made.weights
        worst = max(worst, float((lost / np.minimum(epsilon, made.guarantee)).max()))
    return worst


def _ridge_meter() -> float:
    pairs = []
    for d, own, size in itertools.product((1, 2, 12, 30), (0.5, 2.0), (1.0, 3.0)):
        ends = ridge_ends(d, own=own)
        pairs.append((size * ends.X, size * ends.y, size * ends.X, size * ends.y_turned, ends.epsilon, ends.penalty))
    X, y, epsilon = np.full((4, 3), 0.5), np.ones(4), np.array([0.01, 1.0, 1.0, 1.0])  # a light record, by heavy ones
    other, label = np.vstack([np.ones(3), X[1:]]), np.append(-0.5, y[1:])
    pairs += [(X, y, other, label, epsilon, penalty) for penalty in (0.01, 1.0, 100.0)]
    worst = _sampling_loss() / 0.1
    for first_X, first_y, second_X, second_y, eps, penalty in pairs:
        one = ridge.pdp_op(first_X, first_y, eps, penalty, clip=True)
        two = ridge.pdp_op(second_X, second_y, eps, penalty, clip=True)
        if one.noise_rate != two.noise_rate:
            return math.inf  # the ratio of two densities of different rates has no bound
        worst = max(worst, float(ridge_pair_loss(one.theta, two.theta, one.noise_rate)) / eps[0])
    return worst


def _sampling_loss() -> float:
    """Loss of a record that accepts 0.1 and is sampled, beside one that is kept for sure, at the estimate with her."""
    epsilon, X, logs = np.array([0.1, 1.0]), np.zeros((2, 30)), []
    X[0] = 1.0
    masks, probability = jorgensen.all_masks(epsilon, 1.0)
    for label in (1.0, -1.0):
        made = jorgensen.sampled_ridge(X, [label, 0.0], epsilon, 1e4, 1.0, masks, size_in_noise="fixed")
        at = np.full(30, 0.5 / (15 + 1e4))
        logs.append(float(made.log_density(at, probability)))
    return abs(logs[0] - logs[1])


_rng = np.random.default_rng(0)
_X, _y, _epsilon = _rng.random((10, 30)), _rng.uniform(-1, 1, 10), _rng.uniform(0.1, 1.0, 10)
_RATE = _epsilon.sum() / _paper(1.0, 30)


def _ridge_noise(draws: int, rng: Generator) -> Array:
    made = ridge.pdp_op(_X, _y, _epsilon, 1.0)
    return ridge_noise(in_calls(made.release, draws, rng), _X, _y, _epsilon / _epsilon.sum(), 1.0)


def _ridge_bits(runs: int, rng: Generator) -> list[BitTest]:
    tests = []
    for d in (1, 2):
        ends = ridge_ends(d)
        made = [ridge.pdp_op(ends.X, y, ends.epsilon, ends.penalty) for y in (ends.y, ends.y_turned)]
        rate, tip = ends.epsilon.sum() / _paper(ends.penalty, d), 0.5 / (0.5 * d + 3.5 * ends.penalty) * ends.X[0]

        def first(outputs: Array, rate: float = rate) -> Array:
            return np.asarray(rate * outputs[:, 0])

        scores = [log_ratio(tip, -tip, rate), first]
        tests.append(_between(made[0].release, made[1].release, scores, float(ends.epsilon[0]), runs, rng))
    return tests


def _ridge_centre() -> float:
    made = ridge.pdp_op(_X, _y, _epsilon, 1.0)
    return _RATE * float(np.linalg.norm(ridge_noise(made.theta, _X, _y, _epsilon / _epsilon.sum(), 1.0)))


def _ridge_plain(draws: int, rng: Generator) -> Array:
    return ridge.pdp_op(np.zeros((4, 3)), np.zeros(4), np.ones(4), 1.0).release(rng=rng, size=draws)


# --- logistic regression ----------------------------------------------------------------------------------------------

_U = _rng.standard_normal((20, 5))
_U /= np.maximum(1, np.linalg.norm(_U, axis=1, keepdims=True))
_SIGNS, _A, _ETA, _LAMBDA = np.resize([1.0, -1.0], 20), _rng.dirichlet(np.ones(20)), 6.0, 0.1


def _slack(epsilon: Array, ratio: Array) -> Array:
    """Largest ln(1 + ρq(1 - q)) - εq/2 over a fine grid of q."""
    q = np.linspace(0, 1, 4001)[:, None]
    return np.asarray((np.log1p(ratio * q * (1 - q)) - epsilon / 2 * q).max(0))


def _logistic_budget() -> float:
    epsilon, worst = np.array([0.1, 0.5, 1.0, 3.0]), 0.0
    a, X, y = epsilon / epsilon.sum(), np.eye(4), np.array([1.0, -1.0, 1.0, -1.0])
    for penalty in (0.1, 1.0, 100.0):
        eta = logistic.eta_within(epsilon, a, penalty)
        worst = max(worst, float(((a * eta + _slack(a * eta, a / penalty)) / epsilon).max()))
        for strength in (1.0, 10.0, 100.0):
            made = logistic.objective_perturbation(X, y, a, strength, penalty)
            lost = made.weights * made.eta + _slack(made.weights * made.eta, made.weights / made.penalty)
            promised = a * strength + _slack(a * strength, a / penalty)
            share = float((lost / np.minimum(promised, made.guarantee)).max())
            worst = max(worst, share / (1 + 1e-6))  # the grid's error
    return worst


def _logistic_meter() -> float:
    worst = 0.0
    for epsilon, ratio, size in itertools.product((0.5, 1.0, 3.0), (0.1, 3.0), (1.0, 3.0)):
        ends = logistic_ends(epsilon, ratio, 3)
        made = []
        for X in (ends.X, ends.X_turned):
            X = np.vstack([size * X[:1], X[1:]])
            made.append(logistic.objective_perturbation(X, ends.y, ends.weights, ends.eta, ends.penalty, clip=True))
        one, two = (float(output_log_density(m, ends.coefficients)) for m in made)
        promised = epsilon + float(_slack(np.array([epsilon]), np.array([ratio]))[0])
        worst = max(worst, abs(one - two) / promised)
    return worst


def _logistic() -> logistic.ObjectivePerturbation:
    return logistic.objective_perturbation(_U, _SIGNS, _A, _ETA, _LAMBDA)


def _logistic_noise(draws: int, rng: Generator) -> Array:
    return logistic_noise(in_calls(_logistic().release, draws, rng), _U, _SIGNS, _A, _LAMBDA)


def _logistic_centre() -> float:
    noise = 4 / _ETA * np.random.default_rng(1).standard_normal((100, 5))
    left = logistic_noise(_logistic().minimise(noise), _U, _SIGNS, _A, _LAMBDA) - noise
    return _ETA / 2 * float(np.linalg.norm(left, axis=1).max())


def _logistic_plain(draws: int, rng: Generator) -> Array:
    made = logistic.objective_perturbation(np.zeros((2, 3)), [1.0, -1.0], [0.5, 0.5], 2.0, 1.0)
    return made.release(rng=rng, size=draws)


def _logistic_bits(runs: int, rng: Generator) -> list[BitTest]:
    """Eta times penalty is 2, so there is no slack; at the outputs of these data about half of the promise is lost."""
    y, a = np.array([1.0, -1.0, -1.0, -1.0]), np.array([1.0, 2.0, 2.0, 3.0]) / 8
    made = [logistic.objective_perturbation([[x], [1.0], [1.0], [1.0]], y, a, 8.0, 0.25) for x in (1.0, -1.0)]

    def log_density(w: Array, x: float) -> Array:
        own, others = a[0] * expit(w * x) * expit(-w * x), (1 - a[0]) * expit(w) * expit(-w)
        noise = a[0] * x * expit(-w * x) - (1 - a[0]) * expit(w) - 0.25 * w
        return np.asarray(np.log(own + others + 0.25) - 4 * np.abs(noise))

    scores = [lambda w: log_density(w[:, 0], -1.0) - log_density(w[:, 0], 1.0), lambda w: w[:, 0]]
    return [_between(made[0].release, made[1].release, scores, 1.0, runs, rng)]


RIDGE_BENCH = Bench(
    _ridge_budget,
    _ridge_meter,
    _ridge_centre,
    _ridge_noise,
    _ridge_plain,
    lambda z: spherical_law(z, _RATE),
    _ridge_bits,
)
LOGISTIC_BENCH = Bench(
    _logistic_budget,
    _logistic_meter,
    _logistic_centre,
    _logistic_noise,
    _logistic_plain,
    lambda z: spherical_law(z, _ETA / 2),
    _logistic_bits,
)


# --- sums -------------------------------------------------------------------------------------------------------------

_SHARES, _WEIGHTS, _SCALE = np.array([1.0, 0.5, 0.25]), np.array([1.0, -2.0, 1.0]), 2.0
_DATA = np.array([[0.2, 0.9, 0.4], [0.6, 0.1, 0.7], [1.0, 0.0, 0.3]])
_LOSSES = _SHARES * np.abs(_WEIGHTS) / _SCALE  # of one coordinate


def _sum(dimension: int = 1) -> queries.BiasedLaplace:
    return queries.linear_query(_SHARES, _SCALE, weights=_WEIGHTS, dimension=dimension)


def _answer(data: Array) -> Array:
    """What a biased answer is without noise, coordinate by coordinate."""
    return np.asarray((_SHARES * _WEIGHTS) @ data + ((1 - _SHARES) * _WEIGHTS / 2).sum())


def _sum_budget() -> float:
    return max(float((m * _LOSSES / _sum(m).privacy_loss).max()) for m in (1, 3))


def _sum_meter() -> float:
    ends, worst = sum_ends(3), 0.0
    for m, data in itertools.product((1, 3), (*ends.data, *ends.turned)):
        worst = max(worst, float((sum_privacy_losses(_sum(m), _WEIGHTS * data) / (m * _LOSSES)).max()))
    try:
        apart = _sum().mean(_WEIGHTS * [3.0, 0.0, 0.0]) - _sum().mean(np.zeros(3))
    except ValueError:  # a datum outside its interval is refused
        return worst
    return max(worst, float(np.abs(apart)) / _SCALE / _LOSSES[0])


def _sum_noise(draws: int, rng: Generator) -> Array:
    return in_calls(partial(_sum(3).release, _WEIGHTS[:, None] * _DATA), draws, rng) - _answer(_DATA)


def _sum_centre() -> float:
    return float(np.abs(_sum(3).mean(_WEIGHTS[:, None] * _DATA) - _answer(_DATA)).max()) / _SCALE


def _sum_plain(draws: int, rng: Generator) -> Array:
    made = queries.linear_query([1.0], _SCALE, dimension=3)
    return made.release(np.zeros((1, 3)), rng=rng, size=draws)


def _sum_bits(runs: int, rng: Generator) -> list[BitTest]:
    tests = []
    for m in (1, 2):
        data = np.zeros((2, 3, m))
        data[1, 0] = 1.0
        made, shape = _sum(m), (3, m)[: 1 + (m > 1)]
        zero, one = (_answer(d) for d in data)
        terms = [(_WEIGHTS[:, None] * d).reshape(shape) for d in data]

        def ratio(outputs: Array, zero: Array = zero, one: Array = one) -> Array:
            z = outputs.reshape(len(outputs), -1)
            return np.asarray((np.abs(z - zero) - np.abs(z - one)).sum(1) / _SCALE)

        scores = [ratio, lambda outputs: outputs.reshape(len(outputs), -1)[:, 0]]
        first, second = (partial(made.release, t) for t in terms)
        tests.append(_between(first, second, scores, m * float(_LOSSES[0]), runs, rng))
    return tests


# --- gradients --------------------------------------------------------------------------------------------------------

_RECORD, _CLIP = np.append(np.linspace(4.0, 9.0, 9), 1.0), 1.0
_STEP = 2.0**-40  # so small that the model stays at rest; a power of two, which rounds nothing


def _train(
    record: Array,
    labels: Any,
    runs: int,
    rounds: int,
    rng: Generator,
    *,
    epsilon: float = 1.0,
    clip_norm: float = _CLIP,
) -> tuple[Array, Array, fedsgd.Training]:
    """Signals and noise, (rounds, runs, owners, coordinates), of owners with the same features and one record each."""
    own = [[np.array([b]) for b in row] for row in np.reshape(labels, (runs, -1))]
    k = np.size(labels) // runs
    asked = np.broadcast_to(np.arange(k), (rounds, runs, k))
    alone = {str(j): (lambda eps, sizes, j=j: np.broadcast_to(np.eye(k)[j], eps.shape)) for j in range(k)}
    budget, start = np.full((runs, k), epsilon), np.zeros((2, len(record)))
    data = np.array([record, record]), np.array([0, 1])
    trained = fedsgd.fedsgd(
        *data, own, budget, asked, alone, start, rng=rng, learning_rate=_STEP, clip_norm=clip_norm, every=1
    )

    def steps(path: Any) -> Array:
        found = np.stack([-np.diff(path[j], axis=0) / _STEP for j in alone], axis=2)
        return found.reshape(*found.shape[:3], -1)

    return steps(trained.signal), steps(trained.noise), trained


def _gradient(record: Array, label: int, clip_norm: float = _CLIP) -> Array:
    """Clipped gradient of a record at equal probabilities of both classes."""
    full = np.concatenate([-record, record]) * (0.5 if label == 0 else -0.5)
    return np.asarray(full * min(1.0, clip_norm / np.abs(full).sum()))


def _gradient_budget() -> float:
    rng, ratios = np.random.default_rng(0), []
    for epsilon, clip_norm in itertools.product((0.1, 1.0, 8.0), (0.5, 1.0, 3.0)):
        ratios.append(2 * clip_norm / float(fedsgd.noise_scale(epsilon, clip_norm)) / epsilon)
        spent = _train(_RECORD, [0], 1, 3, rng, epsilon=epsilon, clip_norm=clip_norm)[2].spent
        ratios.append(3 * epsilon / float(spent[0, 0]))
    return max(ratios)


def _gradient_meter() -> float:
    rng, worst = np.random.default_rng(0), 0.0
    for record, clip_norm in itertools.product((_RECORD, np.ones(1), np.full(3, 20.0)), (0.5, 2.0)):
        signal = _train(record, [0, 1], 1, 1, rng, clip_norm=clip_norm)[0][0, 0]
        worst = max(worst, float(np.abs(signal[0] - signal[1]).sum() / fedsgd.noise_scale(1.0, clip_norm)))
    return worst


def _gradient_noise(draws: int, rng: Generator) -> Array:
    k = 10 if draws < 1000 else 100
    runs = draws // (2 * k)
    labels = np.resize([0, 1], (runs, k))
    signal, noise, _ = _train(_RECORD, labels, runs, 2, rng)
    known = np.array([_gradient(_RECORD, label) for label in (0, 1)])[labels]
    return (noise + (signal - known)).reshape(draws, -1)


def _gradient_centre() -> float:
    rng, worst = np.random.default_rng(0), 0.0
    for record, clip_norm in ((_RECORD, 1.0), (_RECORD, 100.0)):  # with and without clipping
        signal = _train(record, [0, 1], 1, 1, rng, clip_norm=clip_norm)[0][0, 0]
        known = [_gradient(record, label, clip_norm) for label in (0, 1)]
        worst = max(worst, float(np.abs(signal - known).sum()) / (2 * clip_norm))
    return worst


def _gradient_plain(draws: int, rng: Generator) -> Array:
    labels = np.zeros((draws // 10, 10), dtype=int)
    return _train(_RECORD, labels, draws // 10, 1, rng, clip_norm=0.5)[1].reshape(draws, -1)  # of scale 1


def _gradient_bits(runs: int, rng: Generator) -> list[BitTest]:
    record = np.full(1, 20.0)
    first, second = (_gradient(record, label) for label in (0, 1))

    def release(bits: NDArray[np.bool_], rng: Generator) -> Array:
        signal, noise, _ = _train(record, bits.astype(int), runs // 100, 1, rng)
        return (signal + noise).reshape(runs, -1)

    def ratio(z: Array) -> Array:
        return np.asarray((np.abs(z - first) - np.abs(z - second)).sum(1) / (2 * _CLIP))

    return [bit_test(release, [ratio, lambda z: z[:, 0]], 1.0, runs, rng=rng)]


SUM_BENCH = Bench(
    _sum_budget,
    _sum_meter,
    _sum_centre,
    _sum_noise,
    _sum_plain,
    lambda z: laplace_law(z, _SCALE),
    _sum_bits,
)
GRADIENTS_BENCH = Bench(
    _gradient_budget,
    _gradient_meter,
    _gradient_centre,
    _gradient_noise,
    _gradient_plain,
    lambda z: laplace_law(z, 2 * _CLIP),
    _gradient_bits,
    RUNS[:2],
)
