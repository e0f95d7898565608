r"""What the checks of :mod:`hdpm_lib.audit_battery` look at: biased sums and the gradients of federated learning.

Promises and centres are computed here by formulas typed anew, and never taken from the learner.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpm_lib import federated_study, queries
from hdpm_lib.audit import sum_privacy_losses
from hdpm_lib.audit_benches import RUNS, Bench, in_calls
from hdpm_lib.audit_instances import sum_ends
from hdpm_lib.audit_noise import laplace_law
from hdpm_lib.audit_sampled import BitTest, bit_test, either

Array = NDArray[np.float64]
Generator = np.random.Generator

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
    terms, made = _WEIGHTS[:, None] * _DATA, _sum(3)
    return in_calls(lambda **more: made.release(terms, **more), draws, rng) - _answer(_DATA)


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
        release = either(*(lambda rng, n, t=t, made=made: made.release(t, rng=rng, size=n) for t in terms))  # type: ignore[misc]
        tests.append(bit_test(release, scores, m * float(_LOSSES[0]), runs, rng=rng))
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
) -> tuple[Array, Array, federated_study.Training]:
    """Signals and noise, (rounds, runs, owners, coordinates), of owners with the same features and one record each."""
    own, k = [[np.array([b]) for b in row] for row in np.reshape(labels, (runs, -1))], np.size(labels) // runs
    asked = np.broadcast_to(np.arange(k), (rounds, runs, k))
    alone = {str(j): (lambda eps, sizes, j=j: np.broadcast_to(np.eye(k)[j], eps.shape)) for j in range(k)}
    budget, start = np.full((runs, k), epsilon), np.zeros((2, len(record)))
    trained = federated_study.fedsgd(
        np.array([record, record]),
        np.array([0, 1]),
        own,
        budget,
        asked,
        alone,
        start,
        rng=rng,
        learning_rate=_STEP,
        clip_norm=clip_norm,
        every=1,
    )
    paths = [
        np.stack([-np.diff(path[j], axis=0) / _STEP for j in alone], axis=2) for path in (trained.signal, trained.noise)
    ]
    signal, noise = (path.reshape(*path.shape[:3], -1) for path in paths)
    return signal, noise, trained


def _gradient(record: Array, label: int, clip_norm: float = _CLIP) -> Array:
    """Clipped gradient of a record at equal probabilities of both classes."""
    full = np.concatenate([-record, record]) * (0.5 if label == 0 else -0.5)
    return np.asarray(full * min(1.0, clip_norm / np.abs(full).sum()))


def _gradient_budget() -> float:
    rng, ratios = np.random.default_rng(0), []
    for epsilon, clip_norm in itertools.product((0.1, 1.0, 8.0), (0.5, 1.0, 3.0)):
        ratios.append(2 * clip_norm / float(federated_study.noise_scale(epsilon, clip_norm)) / epsilon)
        spent = _train(_RECORD, [0], 1, 3, rng, epsilon=epsilon, clip_norm=clip_norm)[2].spent
        ratios.append(3 * epsilon / float(spent[0, 0]))
    return max(ratios)


def _gradient_meter() -> float:
    rng, worst = np.random.default_rng(0), 0.0
    for record, clip_norm in itertools.product((_RECORD, np.ones(1), np.full(3, 20.0)), (0.5, 2.0)):
        signal = _train(record, [0, 1], 1, 1, rng, clip_norm=clip_norm)[0][0, 0]
        worst = max(worst, float(np.abs(signal[0] - signal[1]).sum() / federated_study.noise_scale(1.0, clip_norm)))
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
    RUNS,
    _sum_bits,
)
GRADIENTS_BENCH = Bench(
    _gradient_budget,
    _gradient_meter,
    _gradient_centre,
    _gradient_noise,
    _gradient_plain,
    lambda z: laplace_law(z, 2 * _CLIP),
    RUNS[:2],
    _gradient_bits,
)
