r"""Meters of the privacy loss that each record really suffers in ridge regression by output perturbation.

With spherical Laplace noise the loss between two data sets is *exactly* the noise rate times the distance of the two
noiseless estimates. What is left is to find the two values of a record that move the estimate furthest apart, which is
done for all records at once (:doc:`/book/privacy/meters`). A meter that stays below a guarantee shows no violation; it
is not a proof.

Throughout, `X` of shape (n, d), `y` of shape (n,), `weights` of shape (n,), not negative, and `penalty`, positive, are
what the learner was fitted to, and `noise_rate`, positive, is the rate of its noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize
from scipy.spatial.distance import pdist

from hdpm_lib.validation import check_count, check_finite, check_flag, check_generator, check_penalty, check_positive

Array = NDArray[np.float64]


def ridge_pair_loss(theta: ArrayLike, theta_neighbour: ArrayLike, noise_rate: float) -> Array:
    """Exact worst-case loss between releases around two noiseless estimates, of shape (..., d): rate times distance.

    Examples
    --------
    >>> float(ridge_pair_loss([0.0, 0.0], [0.3, 0.4], 2.0))
    1.0
    """
    one, other = check_finite(theta, "theta"), check_finite(theta_neighbour, "theta_neighbour")
    if one.ndim == 0 or one.shape[-1:] != other.shape[-1:]:
        raise ValueError(f"theta and theta_neighbour must have shape (..., d), got {one.shape} and {other.shape}")
    return np.asarray(check_positive(noise_rate, "noise_rate") * np.linalg.norm(one - other, axis=-1))


@dataclass(frozen=True)
class RidgeLosses:
    """Privacy loss of each record, shape (n,), against its worst replacement, the other records being as they are.

    Attributes
    ----------
    found : array
        Exact loss of the worst pair of values the search met: a lower end of the worst loss.
    at_most : array
        A proved upper end for these other records; no pair of values inside the bounds loses more.
    """

    found: Array
    at_most: Array


def ridge_privacy_losses(
    X: ArrayLike,
    y: ArrayLike,
    weights: ArrayLike,
    penalty: float,
    noise_rate: float,
    *,
    restarts: int = 4,
    polish: bool = False,
    rng: np.random.Generator,
) -> RidgeLosses:
    r"""Search, for every record at once, the two values of it that are easiest to tell apart.

    Features lie in [0, 1] and labels in [-1, 1]. Each end of the pair is improved one coordinate at a time over the
    corners of the box, labels at :math:`\pm1` (the distance is convex in the label). Interior values can be worse for
    tiny data sets; ``at_most`` covers them.

    Parameters
    ----------
    restarts : int, default 4
        Random starts besides the one from all-ones.
    polish : bool, default False
        Search the inside of the box as well, from as many starts. It pays for a few records with a few features only.
    """
    rest, restarts = _check_search(X, y, weights, penalty, noise_rate, restarts, polish, rng)
    n, d = rest.theta.shape
    found, kept_ends, kept_signs = np.full(n, -1.0), np.ones((2, n, d)), np.ones((2, n))
    for start in range(restarts + 1):
        ends = np.ones((2, n, d)) if start == 0 else rng.integers(0, 2, (2, n, d)).astype(float)
        signs = np.array([[1.0], [-1.0]]) * np.ones(n) if start == 0 else rng.choice([-1.0, 1.0], (2, n))
        reached = best_corners(rest, ends, signs)
        better = reached > found
        found[better], kept_ends[:, better], kept_signs[:, better] = reached[better], ends[:, better], signs[:, better]
    for start in range((restarts + 1) * polish):
        begin = (kept_ends, kept_signs) if start == 0 else (rng.random((2, n, d)), rng.choice([-1.0, 1.0], (2, n)))
        found = np.maximum(found, best_inside(rest, *begin))

    residual = 1 + np.maximum(np.maximum(rest.theta, 0).sum(1), np.maximum(-rest.theta, 0).sum(1))
    return RidgeLosses(noise_rate * found, noise_rate * _hull_bound(rest, residual, d))


def _check_search(
    X: ArrayLike,
    y: ArrayLike,
    weights: ArrayLike,
    penalty: float,
    noise_rate: float,
    restarts: int,
    polish: bool,
    rng: np.random.Generator,
) -> tuple[Rest, int]:
    """What is left without each record, and the number of restarts; or an error."""
    check_finite(X, "X", 2, 0, 1)
    check_finite(y, "y", 1, -1, 1)
    rest = Rest.of(X, y, weights, penalty)
    check_positive(noise_rate, "noise_rate")
    check_flag(polish, "polish")
    check_generator(rng)
    return rest, check_count(restarts, "restarts", 0)


def ridge_corner_losses(
    X: ArrayLike,
    y: ArrayLike,
    weights: ArrayLike,
    penalty: float,
    noise_rate: float,
    corners: ArrayLike,
    *,
    label_bound: float = 1.0,
) -> RidgeLosses:
    r"""The worst pair of corners for every record: nothing is left out, nothing is drawn.

    Here ``at_most`` covers the whole convex hull of the corners: the norm and the residual that it rests on are convex.

    Parameters
    ----------
    corners : array of shape (k, d)
        Feature vectors a record can take, such as :meth:`hdpm_lib.schema.Schema.corners`; with each of them the label
        is :math:`\pm` `label_bound`. Time and memory for a record grow with :math:`k^2`.
    label_bound : float, default 1
        `a`, the public bound on the absolute value of a label.
    """
    rest = Rest.of(X, y, weights, penalty)
    check_positive(noise_rate, "noise_rate")
    values, bound = check_finite(corners, "corners", 2), check_positive(label_bound, "label_bound")
    v, signs = np.repeat(values, 2, axis=0)[:, None], np.tile([bound, -bound], len(values))[:, None]
    found = np.array([pdist(rest.take(i).displacement(v, signs)[:, 0]).max() for i in range(len(rest.theta))])
    residual, square = bound + np.abs(rest.theta @ values.T).max(1), float((values**2).sum(1).max())
    return RidgeLosses(noise_rate * found, noise_rate * _hull_bound(rest, residual, square))


def _hull_bound(rest: Rest, residual: Array, square: float) -> Array:
    """How far a record can move the estimate at most, for features of that squared norm and such residuals."""
    w = rest.weights
    form = np.minimum(square / rest.floor, 1 / np.maximum(w, np.finfo(float).tiny))
    return np.asarray(2 * w * residual * np.sqrt(form / rest.floor) / (1 + w * form))


# --- the search -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rest:
    """What is left of a ridge regression when one record is taken out; row `i` is without record `i`.

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
    def of(cls, X: ArrayLike, y: ArrayLike, weights: ArrayLike, penalty: float) -> Rest:
        """Take each record out."""
        features, labels = check_finite(X, "X", 2), check_finite(y, "y", 1)
        w, lam = check_finite(weights, "weights", 1, 0), check_penalty(penalty)
        n, d = features.shape
        if not len(labels) == len(w) == n:
            raise ValueError(f"X has {n} records, y has {len(labels)} and weights has {len(w)}")
        moment = (features.T * w) @ features + lam * np.eye(d)
        inverse = np.asarray(np.linalg.inv(moment), dtype=float)
        theta = inverse @ ((w * labels) @ features)
        own = features @ inverse
        gap = 1 - w * (own * features).sum(1)
        theta = theta - (w * (labels - features @ theta) / gap)[:, None] * own
        floor = np.maximum(lam, np.linalg.eigvalsh(moment)[0] - w * (features**2).sum(1))
        return cls(theta, w, inverse, own, gap, floor)

    def take(self, i: int) -> Rest:
        """Record `i` alone."""
        one = slice(i, i + 1)
        return Rest(self.theta[one], self.weights[one], self.inverse, self.own[one], self.gap[one], self.floor[one])

    def solve(self, v: Array) -> Array:
        """The inverse moment without record `i`, times row `i` of `v`, of shape (..., n, d)."""
        return v @ self.inverse + (self.weights * (self.own * v).sum(-1) / self.gap)[..., None] * self.own

    def displacement(self, v: Array, label: Array) -> Array:
        """How far record `i` moves its estimate if it has the features `v[..., i, :]` and the label `label[..., i]`."""
        nu, a = self.solve(v), self.weights
        residual = label - (v * self.theta).sum(-1)
        kappa = a * residual / (1 + a * (v * nu).sum(-1))
        return kappa[..., None] * nu


def best_corners(rest: Rest, ends: Array, signs: Array) -> Array:
    """Distances, of shape (n,), that coordinate ascent over the corners of the box reaches.

    It starts at the features `ends`, of shape (2, n, d), of both values of each record, and their labels `signs`, of
    shape (2, n); both are changed in place.
    """
    best = np.linalg.norm(np.subtract(*rest.displacement(ends, signs)), axis=1)
    improved = True
    while improved:
        improved = False
        for side in (0, 1):
            other = rest.displacement(ends[1 - side], signs[1 - side])
            for j in range(-1, ends.shape[-1]):  # -1 flips the label
                v, s = ends[side].copy(), signs[side].copy()
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


def best_inside(rest: Rest, ends: Array, signs: Array) -> Array:
    """Distances that L-BFGS reaches inside the box, the labels as they are; arguments as for :func:`best_corners`.

    One problem for all records, as the logarithms of their distances add up. The gradient is exact.
    """
    w = rest.weights

    def distances(v: Array) -> tuple[Array, Array]:
        one, two = rest.displacement(v, signs)
        return one - two, np.maximum(((one - two) ** 2).sum(1), np.finfo(float).tiny)

    def negative(free: Array) -> tuple[float, Array]:
        v = free.reshape(ends.shape)
        apart, squares = distances(v)
        towards = apart / squares[:, None] * np.array([1.0, -1.0])[:, None, None]
        g, back = rest.solve(v), rest.solve(towards)
        residual, grown = signs - (v * rest.theta).sum(-1), 1 + w * (v * g).sum(-1)
        along = (towards * g).sum(-1)
        slope = -along[..., None] * rest.theta + residual[..., None] * back
        slope -= (2 * w * residual * along / grown)[..., None] * g
        return float(-np.log(squares).sum() / 2), -((w / grown)[..., None] * slope).ravel()

    found = optimize.minimize(negative, ends.ravel(), jac=True, bounds=[(0, 1)] * ends.size, method="L-BFGS-B")
    return np.asarray(np.sqrt(distances(found.x.reshape(ends.shape))[1]))
