r"""Meters of the privacy loss that each record really suffers in ridge regression by output
perturbation.

With spherical Laplace noise the loss between two data sets is *exactly* the noise rate times the
distance of the two noiseless estimates. What is left is to find the two values of a record that
move the estimate furthest apart, which is done for all records at once
(:doc:`/book/privacy/meters`).

Throughout, `X`, of shape (n, d), and `y`, of shape (n,), are what the learner was fitted to, and
`rest` is a :class:`Rest`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.learners.ridge import OutputPerturbation
from hdpm_lib.validation import check_count, check_finite, check_generator, check_positive

Array = NDArray[np.float64]


def ridge_pair_loss(theta: ArrayLike, theta_neighbour: ArrayLike, noise_rate: float) -> Array:
    """Exact worst-case loss between releases around two noiseless estimates, of shape (..., d):
    rate times distance.

    Examples
    --------
    >>> float(ridge_pair_loss([0.0, 0.0], [0.3, 0.4], 2.0))
    1.0
    """
    one = check_finite(theta, "theta")
    other = check_finite(theta_neighbour, "theta_neighbour")
    if one.ndim == 0 or one.shape[-1:] != other.shape[-1:]:
        raise ValueError(
            f"theta and theta_neighbour must have shape (..., d), got {one.shape} and {other.shape}"
        )
    return np.asarray(
        check_positive(noise_rate, "noise_rate") * np.linalg.norm(one - other, axis=-1)
    )


def worst_losses(
    mechanism: OutputPerturbation,
    X: ArrayLike,
    y: ArrayLike,
    *,
    restarts: int = 4,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    r"""What :func:`~hdpm_lib.audits.meters.privacy_losses` finds for each record, and the upper
    end, of shape (n,).

    Features lie in [0, 1] and labels in [-1, 1]. Each end of the pair is improved one coordinate at
    a time over the corners of the box, labels at :math:`\pm1` (the distance is convex in the
    label), from all-ones and from `restarts` random starts. Interior values can be worse for tiny
    data sets; the upper end covers them.
    """
    features = check_finite(X, "X", 2, 0, 1)
    labels = check_finite(y, "y", 1, -1, 1)
    w = mechanism.weights
    if not len(features) == len(labels) == len(w):
        raise ValueError(
            f"X has {len(features)} records, y has {len(labels)} and weights has {len(w)}"
        )
    rest = Rest.of(features, labels, w, mechanism.penalty)
    found = corner_search(rest, check_count(restarts, "restarts", 0), check_generator(rng))[0]
    residual = 1 + np.maximum(np.maximum(rest.theta, 0).sum(1), np.maximum(-rest.theta, 0).sum(1))
    return mechanism.noise_rate * found, mechanism.noise_rate * hull_bound(
        rest, residual, features.shape[1]
    )


def hull_bound(rest: Rest, residual: Array, square: float) -> Array:
    """How far a record can move the estimate at most, for features of that squared norm and such
    residuals.
    """
    w = rest.weights
    form = np.minimum(square / rest.floor, 1 / np.maximum(w, np.finfo(float).tiny))
    return np.asarray(2 * w * residual * np.sqrt(form / rest.floor) / (1 + w * form))


# --- the search ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rest:
    """What is left of a ridge regression when one record is taken out; row `i` is without record
    `i`.

    Attributes
    ----------
    theta : array of shape (n, d), estimates
    weights : array of shape (n,)
    inverse : array of shape (d, d), of the moment of all records
    own : array of shape (n, d), `inverse` times each record
    gap : array of shape (n,), one less the weighted leverage of each record
    floor : array of shape (n,), no eigenvalue of the moment without the record is smaller
    """

    theta: Array
    weights: Array
    inverse: Array
    own: Array
    gap: Array
    floor: Array

    @classmethod
    def of(cls, X: Array, y: Array, weights: Array, penalty: float) -> Rest:
        """Take each record out."""
        moment = (X.T * weights) @ X + penalty * np.eye(X.shape[1])
        inverse = np.asarray(np.linalg.inv(moment), dtype=float)
        theta = inverse @ ((weights * y) @ X)
        own = X @ inverse
        gap = 1 - weights * (own * X).sum(1)
        theta = theta - (weights * (y - X @ theta) / gap)[:, None] * own
        floor = np.maximum(penalty, np.linalg.eigvalsh(moment)[0] - weights * (X**2).sum(1))
        return cls(theta, weights, inverse, own, gap, floor)

    def solve(self, v: Array) -> Array:
        """The inverse moment without record `i`, times row `i` of `v`, of shape (..., n, d)."""
        return (
            v @ self.inverse
            + (self.weights * (self.own * v).sum(-1) / self.gap)[..., None] * self.own
        )

    def displacement(self, v: Array, label: Array) -> Array:
        """How far record `i` moves its estimate if it has the features `v[..., i, :]` and the label
        `label[..., i]`.
        """
        nu = self.solve(v)
        a = self.weights
        residual = label - (v * self.theta).sum(-1)
        kappa = a * residual / (1 + a * (v * nu).sum(-1))
        return kappa[..., None] * nu


def corner_search(
    rest: Rest, restarts: int, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Largest distances of all starts, shape (n,), and the features (2, n, d) and labels (2, n)
    they are at.
    """
    n, d = rest.theta.shape
    found = np.full(n, -1.0)
    kept_ends = np.ones((2, n, d))
    kept_signs = np.ones((2, n))
    for start in range(restarts + 1):
        ends = np.ones((2, n, d)) if start == 0 else rng.integers(0, 2, (2, n, d)).astype(float)
        signs = (
            np.array([[1.0], [-1.0]]) * np.ones(n)
            if start == 0
            else rng.choice([-1.0, 1.0], (2, n))
        )
        reached = best_corners(rest, ends, signs)
        better = reached > found
        found[better], kept_ends[:, better], kept_signs[:, better] = (
            reached[better],
            ends[:, better],
            signs[:, better],
        )
    return found, kept_ends, kept_signs


def best_corners(rest: Rest, ends: Array, signs: Array) -> Array:
    """Distances, of shape (n,), that coordinate ascent over the corners of the box reaches.

    It starts at the features `ends`, of shape (2, n, d), of both values of each record, and their
    labels `signs`, of shape (2, n); both are changed in place.
    """
    best = np.linalg.norm(np.subtract(*rest.displacement(ends, signs)), axis=1)
    improved = True
    while improved:
        improved = False
        for side in (0, 1):
            other = rest.displacement(ends[1 - side], signs[1 - side])
            for j in range(-1, ends.shape[-1]):  # -1 flips the label
                v = ends[side].copy()
                s = signs[side].copy()
                if j < 0:
                    s = -s
                else:
                    v[:, j] = 1 - v[:, j]
                apart = rest.displacement(v, s) - other
                distance = np.linalg.norm(apart, axis=1)
                better = distance > best * (1 + 1e-12)
                ends[side, better], signs[side, better] = v[better], s[better]
                best[better] = distance[better]
                improved |= bool(better.any())
    return best
