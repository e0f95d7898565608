"""Pairs of neighbouring data sets of two sellers or more, with an output: what their log ratio is,
and the worst ones.

`epsilon` is the noise part of the promise to a seller and `ratio` her weight over the penalty, both
positive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit
from sklearn.utils import check_consistent_length

from hdpm_book.logistic.formulas import noise_and_hessian
from hdpm_lib.learners.objective import sharp_slack
from hdpm_lib.validation import check_count, check_finite, check_generator, check_positive

Array = NDArray[np.float64]


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
        w = self.coefficients
        a = self.weight
        rest, hessian = noise_and_hessian(self.others, self.other_weights, self.penalty, w)
        pulls = []
        log_ratio = 0.0
        for sign, u in ((1, self.record), (-1, self.replacement)):
            z = (w * u).sum(-1)
            pulls.append((a * expit(-z))[..., None] * u)
            inverse = np.linalg.solve(hessian, u[..., None])[..., 0]
            log_ratio = log_ratio + sign * np.log1p(
                a * expit(z) * expit(-z) * (u * inverse).sum(-1)
            )
        first = rest + pulls[0]
        second = rest + pulls[1]
        # difference of the squared norms
        squares = ((pulls[1] - pulls[0]) * (first + second)).sum(-1)
        lengths = np.linalg.norm(first, axis=-1) + np.linalg.norm(second, axis=-1)
        return np.asarray(
            self.eta / 2 * squares / np.maximum(lengths, np.finfo(float).tiny) + log_ratio
        )

    @property
    def privacy_loss(self) -> Array:
        """What the seller is promised: weight times eta, plus
        :func:`hdpm_lib.learners.objective.sharp_slack`.
        """
        return self.weight * self.eta + sharp_slack(
            self.weight * self.eta, self.weight / self.penalty, 1.0
        )


def search_pairs(
    epsilon: ArrayLike,
    ratio: ArrayLike,
    *,
    dimension: int,
    others: int = 2,
    steps: int = 600,
    rng: np.random.Generator,
) -> NeighbourPairs:
    """Search data, weights and outputs at which a seller loses as much of her guarantee as
    possible, by a random walk.

    There is one search, of so many `steps`, for each `epsilon` and `ratio`, of shape (s,), with
    records of the dimension `dimension` and so many `others` besides hers. The weights found sum to
    1, and no other is more than a thousand times hers.
    """
    eps = check_finite(epsilon, "epsilon", 1, 0, ends="()")
    rho = check_finite(ratio, "ratio", 1, 0, ends="()")
    check_consistent_length(eps, rho)
    d = check_count(dimension, "dimension")
    k = check_count(others, "others")
    s = len(eps)
    check_count(steps, "steps")
    check_generator(rng)

    def build(point: Array) -> NeighbourPairs:
        size, heavy, margins, across = np.split(point, [1, k + 1, 2 * k + 3], axis=1)
        size = 10 ** np.clip(size, -3, 6)
        heavy = 10 ** np.clip(heavy, -3, 3)
        t = np.clip(margins / size, -1, 1)
        v = across.reshape(s, k + 2, d - 1)
        v = v * (np.sqrt(1 - t * t) / np.maximum(1, np.linalg.norm(v, axis=-1)))[..., None]
        u = np.concatenate([t[..., None], v], axis=-1)
        u /= np.maximum(1, np.linalg.norm(u, axis=-1, keepdims=True))
        weight = 1 / (1 + heavy.sum(1))
        w = np.concatenate([size, np.zeros((s, d - 1))], axis=1)
        return NeighbourPairs(
            u[:, 0],
            u[:, 1],
            u[:, 2:],
            weight,
            heavy * weight[:, None],
            eps / weight,
            weight / rho,
            w,
        )

    point = 2 * rng.standard_normal((s, 2 * k + 3 + (k + 2) * (d - 1)))
    point[:, 0] = rng.uniform(-1, 4, s)
    best = np.abs(build(point).loss)
    for _ in range(steps):
        move = rng.standard_normal(point.shape) * (rng.random(point.shape) < 0.4)
        trial = point + 10 ** rng.uniform(-2, 1, (s, 1)) * move
        loss = np.abs(build(trial).loss)
        # no drift by rounding, which would differ from machine to machine
        better = loss > best * (1 + 1e-9)
        point[better], best[better] = trial[better], loss[better]
    return build(point)


def tight_pair(epsilon: float, ratio: float, *, penalty: float = 1e-7) -> NeighbourPairs:
    """Return a pair of data sets of two sellers, in two dimensions, at which the first loses her
    guarantee but for 1e-4 of it.

    What is missing vanishes with the penalty, positive; `ratio` times it, her weight, is below 1.
    The other record and the replacement have margins so low that they pull with all their weight
    and have no curvature. Her record points the other way, with the margin at which the slack is
    largest: :doc:`/book/logistic/guarantee`.

    Examples
    --------
    >>> pair = tight_pair(1.0, 3.0)
    >>> round(float(pair.loss), 4), round(float(pair.loss / pair.privacy_loss), 4)
    (1.3454, 1.0)
    """
    half = check_positive(epsilon, "epsilon") / 2
    rho = check_positive(ratio, "ratio")
    a = rho * check_positive(penalty, "penalty")
    if a >= 1:
        raise ValueError(f"ratio times penalty must be below 1, as it is her weight, got {a:g}")
    # a margin beyond all curvature
    gap = max(1 - half / rho, 0.0)
    low = min(np.log(penalty), 0.0) - 30
    q = 2 * gap / (2 + half + np.sqrt((2 + half) ** 2 - 4 * half * gap))
    # keeps the pull of the penalty and the slant of these records equally small
    size = np.sqrt(-low / penalty)
    ends = np.array([[max(logit(q), low) / size, 1.0], [low / size, -1.0]])
    up, down = ends / np.linalg.norm(ends, axis=1, keepdims=True)
    weight, eta, lam = (np.asarray(number) for number in (a, epsilon / a, penalty))
    return NeighbourPairs(
        up, down, down[None], weight, 1 - weight[None], eta, lam, np.array([size, 0.0])
    )
