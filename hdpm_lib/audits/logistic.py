r"""Exact meter of the privacy loss of logistic regression by objective perturbation.

Write :math:`u_j=y_jx_j`; nothing else of a record enters. The noise that makes :math:`w` the minimiser is
:math:`b(w)=\sum_ja_j\sigma(-w^\top u_j)u_j-\Lambda w`, and the Hessian there is
:math:`H(w)=\sum_ja_js_ju_ju_j^\top+\Lambda I` with :math:`s_j=\sigma(w^\top u_j)\sigma(-w^\top u_j)`. So released
coefficients have the density :math:`h(b(w))\det H(w)`, with the density :math:`h` of the noise, and the loss between
two data sets at an output is a formula (:doc:`/book/privacy/meters`).

The worst record and the worst output are searched for, from below: that nothing above a guarantee is found does not
prove it.

Throughout, a `mechanism` has `m` sellers and records of `n` features, and `coefficients` are released ones, of shape
(..., n). `epsilon` is the noise part of the promise to a seller and `ratio` her weight over the penalty, both positive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

from hdpm_lib.learners.logistic import ObjectivePerturbation, sharp_slack
from hdpm_lib.noise import log_density
from hdpm_lib.validation import check_count, check_finite, check_generator, check_lengths, check_positive

Array = NDArray[np.float64]

TURNS, NORMS, ZOOMS = 61, 16, 20  # of the search for the worst record


def output_log_density(mechanism: ObjectivePerturbation, coefficients: ArrayLike) -> Array:
    """Logarithm of the density of released coefficients, shape (...).

    Examples
    --------
    >>> model = ObjectivePerturbation(np.eye(2), np.array([1.0, -1.0]), np.full(2, 0.5), 2.0, 1.0)
    >>> output_log_density(model, [[0.0, 0.0], [1.0, -1.0]]).round(4)
    array([-1.9559, -2.8744])
    """
    w = _check_outputs(mechanism, coefficients)
    signed = mechanism.y[:, None] * mechanism.X
    penalty = np.asarray(mechanism.penalty)
    noise, hessian = _noise_and_hessian(signed, mechanism.weights, penalty, w)
    return log_density(noise, mechanism.eta / 2) + np.linalg.slogdet(hessian)[1]


@dataclass(frozen=True)
class NeighbourPairs:
    """Pairs of data sets that differ in one record, with an output each; a batch of any shape.

    Attributes
    ----------
    record, replacement, coefficients : array of shape (..., n)
        The record in the first data set and in the second, features times label, and the output.
    weight, eta, penalty : array of shape (...)
        The weight is that of the seller whose record is replaced.
    others, other_weights : array of shape (..., k, n) and (..., k), the records that both share
    """

    record: Array
    replacement: Array
    others: Array
    weight: Array
    other_weights: Array
    eta: Array
    penalty: Array
    coefficients: Array

    @property
    def loss(self) -> Array:
        """Exact log ratio of the output's densities, first data set over second, shape (...)."""
        w, a = self.coefficients, self.weight
        rest, hessian = _noise_and_hessian(self.others, self.other_weights, self.penalty, w)
        pulls, log_ratio = [], 0.0
        for sign, u in ((1, self.record), (-1, self.replacement)):
            z = (w * u).sum(-1)
            pulls.append((a * expit(-z))[..., None] * u)
            inverse = np.linalg.solve(hessian, u[..., None])[..., 0]
            log_ratio = log_ratio + sign * np.log1p(a * expit(z) * expit(-z) * (u * inverse).sum(-1))
        first, second = rest + pulls[0], rest + pulls[1]
        squares = ((pulls[1] - pulls[0]) * (first + second)).sum(-1)  # difference of the squared norms
        lengths = np.linalg.norm(first, axis=-1) + np.linalg.norm(second, axis=-1)
        return np.asarray(self.eta / 2 * squares / np.maximum(lengths, np.finfo(float).tiny) + log_ratio)

    @property
    def guarantee(self) -> Array:
        """What the seller is promised: weight times eta, plus :func:`hdpm_lib.learners.logistic.sharp_slack`."""
        return self.weight * self.eta + sharp_slack(self.weight * self.eta, self.weight / self.penalty, 1.0)


def worst_losses(mechanism: ObjectivePerturbation, coefficients: ArrayLike) -> Array:
    r"""Search, at each output, the two records of each seller that it tells apart best, the others being as they are.

    The exact losses between the records found, shape (..., m), are lower ends of the worst losses. The log density is a
    constant plus a function of her record, so that the two are searched one by one, each in two planes. In one and two
    dimensions these are the whole ball.
    """
    w = _check_outputs(mechanism, coefficients)
    signed = mechanism.y[:, None] * mechanism.X
    rows = [_worst_at(signed, mechanism, one) for one in w.reshape(-1, w.shape[-1])]
    return np.reshape(rows, (*w.shape[:-1], len(signed)))


def _worst_at(signed: Array, mechanism: ObjectivePerturbation, w: Array) -> Array:
    """The worst losses at one output."""
    a, lam, size, n = mechanism.weights, mechanism.penalty, np.linalg.norm(w), len(w)
    z = signed @ w
    rest = _without_each((a * expit(-z))[:, None] * signed) - lam * w
    curvatures = (a * expit(z) * expit(-z))[:, None, None] * signed[:, :, None] * signed[:, None, :]
    inverse = np.linalg.inv(_without_each(curvatures) + lam * np.eye(n))
    flat = np.linalg.matrix_power(lam * inverse, 6).sum(-1)
    first, fine = w / size if size > 0 else np.eye(n)[0], max(np.arcsinh(size), 1e-3)
    length, ends = np.linalg.norm(rest, axis=1), []
    for direction in (rest, flat):
        second = direction - (direction @ first)[:, None] * first
        across, scale = (np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (second, direction))
        second = np.where(across > 1e-9 * scale, second / np.maximum(across, 1e-300), 0.0)  # 0: there is none
        plane = np.stack([np.broadcast_to(first, rest.shape), second], axis=-1)
        form, inside = np.swapaxes(plane, 1, 2) @ inverse @ plane, (rest[:, None] @ plane)[:, 0]

        def phi(turn: Array, norm: Array, second: Array, form: Array, inside: Array) -> Array:
            """Log density less that of an empty record, for records in polar coordinates (last axis: sellers)."""
            cosine = np.sinh(fine * (np.abs(turn) - 1)) / np.sinh(fine)  # closest together where margins are moderate
            t, pull = norm * cosine, a * expit(-size * norm * cosine)
            v = norm * np.sign(turn) * np.sqrt(np.maximum(1 - cosine**2, 0)) * second.any(1)
            square = t * t * form[:, 0, 0] + 2 * t * v * form[:, 0, 1] + v * v * form[:, 1, 1]
            squares = pull * (t * (2 * inside[:, 0] + pull * t) + v * (2 * inside[:, 1] + pull * v))
            longer = squares / np.maximum(length + np.sqrt(np.maximum(length**2 + squares, 0)), 1e-300)
            return np.asarray(np.log1p(pull * expit(size * t) * square) - mechanism.eta / 2 * longer)

        ends.append([_largest(sign, partial(phi, second=second, form=form, inside=inside), len(a)) for sign in (1, -1)])
    return np.asarray(np.max(ends, axis=0).sum(0))


def _largest(sign: int, function: Callable[[Array, Array], Array], size: int) -> Array:
    """Largest values of many functions, times a sign, on [-2, 2] x [0, 1]: a grid, then finer ones around the best."""
    each, x, y = np.arange(size), np.zeros(size), np.full(size, 0.5)
    across, down = np.linspace(-2, 2, TURNS), np.linspace(-0.5, 0.5, NORMS)
    for _ in range(ZOOMS):
        rows, columns = (x + across[:, None, None] + 2) % 4 - 2, np.clip(y + down[:, None], 0, 1)
        values = sign * function(rows, columns)
        i, j = np.divmod(values.reshape(-1, size).argmax(0), len(down))
        x, y, best = rows[i, 0, each], columns[j, each], values[i, j, each]
        across, down = (np.linspace(-1, 1, 5) * (grid[1] - grid[0]) for grid in (across, down))
    return np.asarray(best)


def search_pairs(
    epsilon: ArrayLike, ratio: ArrayLike, *, dimension: int, others: int = 2, steps: int = 600, rng: np.random.Generator
) -> NeighbourPairs:
    """Search data, weights and outputs at which a seller loses as much of her guarantee as possible, by a random walk.

    There is one search, of so many `steps`, for each `epsilon` and `ratio`, of shape (s,), with records of the
    dimension `dimension` and so many `others` besides hers. The weights found sum to 1, and no other is more than a
    thousand times hers.
    """
    eps, rho = check_finite(epsilon, "epsilon", 1, 0, ends="()"), check_finite(ratio, "ratio", 1, 0, ends="()")
    check_lengths(epsilon=eps, ratio=rho)
    d, k, s = check_count(dimension, "dimension"), check_count(others, "others"), len(eps)
    check_count(steps, "steps")
    check_generator(rng)

    def build(point: Array) -> NeighbourPairs:
        size, heavy, margins, across = np.split(point, [1, k + 1, 2 * k + 3], axis=1)
        size, heavy = 10 ** np.clip(size, -3, 6), 10 ** np.clip(heavy, -3, 3)
        t = np.clip(margins / size, -1, 1)
        v = across.reshape(s, k + 2, d - 1)
        v = v * (np.sqrt(1 - t * t) / np.maximum(1, np.linalg.norm(v, axis=-1)))[..., None]
        u = np.concatenate([t[..., None], v], axis=-1)
        u /= np.maximum(1, np.linalg.norm(u, axis=-1, keepdims=True))
        weight = 1 / (1 + heavy.sum(1))
        w = np.concatenate([size, np.zeros((s, d - 1))], axis=1)
        return NeighbourPairs(
            u[:, 0], u[:, 1], u[:, 2:], weight, heavy * weight[:, None], eps / weight, weight / rho, w
        )

    point = 2 * rng.standard_normal((s, 2 * k + 3 + (k + 2) * (d - 1)))
    point[:, 0] = rng.uniform(-1, 4, s)
    best = np.abs(build(point).loss)
    for _ in range(steps):
        move = rng.standard_normal(point.shape) * (rng.random(point.shape) < 0.4)
        trial = point + 10 ** rng.uniform(-2, 1, (s, 1)) * move
        loss = np.abs(build(trial).loss)
        better = loss > best * (1 + 1e-9)  # no drift by rounding, which would differ from machine to machine
        point[better], best[better] = trial[better], loss[better]
    return build(point)


def tight_pair(epsilon: float, ratio: float, *, penalty: float = 1e-7) -> NeighbourPairs:
    """A pair of data sets of two sellers, in two dimensions, at which the first loses her guarantee but for 1e-4 of it.

    What is missing vanishes with the penalty, positive; `ratio` times it, her weight, is below 1. The other record and
    the replacement have margins so low that they pull with all their weight and have no curvature. Her record points
    the other way, with the margin at which the slack is largest: :doc:`/book/logistic/idea`.

    Examples
    --------
    >>> pair = tight_pair(1.0, 3.0)
    >>> round(float(pair.loss), 4), round(float(pair.loss / pair.guarantee), 4)
    (1.3454, 1.0)
    """
    half, rho = check_positive(epsilon, "epsilon") / 2, check_positive(ratio, "ratio")
    a = rho * check_positive(penalty, "penalty")
    if a >= 1:
        raise ValueError(f"ratio times penalty must be below 1, as it is her weight, got {a:g}")
    gap, low = max(1 - half / rho, 0.0), min(np.log(penalty), 0.0) - 30  # a margin beyond all curvature
    q = 2 * gap / (2 + half + np.sqrt((2 + half) ** 2 - 4 * half * gap))
    size = np.sqrt(-low / penalty)  # keeps the pull of the penalty and the slant of these records equally small
    ends = np.array([[max(logit(q), low) / size, 1.0], [low / size, -1.0]])
    up, down = ends / np.linalg.norm(ends, axis=1, keepdims=True)
    weight, eta, lam = (np.asarray(number) for number in (a, epsilon / a, penalty))
    return NeighbourPairs(up, down, down[None], weight, 1 - weight[None], eta, lam, np.array([size, 0.0]))


def _noise_and_hessian(records: Array, weights: Array, penalty: Array, coefficients: Array) -> tuple[Array, Array]:
    """Needed noise and Hessian of the objective of records (..., k, n) at coefficients (..., n)."""
    z = (records @ coefficients[..., None])[..., 0]
    noise = ((weights * expit(-z))[..., None] * records).sum(-2) - penalty[..., None] * coefficients
    curved = (weights * expit(z) * expit(-z))[..., None] * records
    return noise, np.swapaxes(records, -1, -2) @ curved + penalty[..., None, None] * np.eye(coefficients.shape[-1])


def _without_each(values: Array) -> Array:
    """Sums over the first axis that leave one entry out, from both sides: no difference is taken."""
    none = np.zeros_like(values[:1])
    before = np.cumsum(np.concatenate([none, values[:-1]]), axis=0)
    return np.asarray(before + np.cumsum(np.concatenate([none, values[:0:-1]]), axis=0)[::-1])


def _check_outputs(mechanism: ObjectivePerturbation, coefficients: ArrayLike) -> Array:
    w, n = check_finite(coefficients, "coefficients"), mechanism.X.shape[1]
    if w.shape[-1:] != (n,):
        raise ValueError(f"coefficients must have shape (..., {n}), got {w.shape}")
    return w
