r"""What each record really loses in ridge regression by output perturbation.

The mechanism is that of Acharya, Boenisch, Naidu and Ziani (2024), "Personalized Differential
Privacy for Ridge Regression". With its spherical Laplace noise the loss between two data sets is
*exactly* the noise rate times the distance of the two estimates before noise. What is left is to
find the two values of a record that move the estimate furthest apart, which is done for all records
at once (:doc:`/book/privacy/meters`).

Throughout, `X`, of shape (n, d), and `y`, of shape (n,), are what the learner was fitted to, and
`rest` is a :class:`Rest`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize

from hdpm_lib.private import check_records
from hdpm_lib.validation import (
    check_count,
    check_finite,
    check_generator,
    check_number,
    check_penalty,
    check_positive,
)

Array = NDArray[np.float64]
TINY = float(np.finfo(float).tiny)
LEAST = 1e-150  # a distance whose square floats hold


def ridge_pair_loss(theta: ArrayLike, theta_neighbour: ArrayLike, noise_rate: float) -> Array:
    """Largest loss between releases around two estimates: noise rate times distance.

    Parameters
    ----------
    theta, theta_neighbour : array of shape (..., d)
        The estimates before noise, from two neighbouring data sets.
    noise_rate : float
        Rate of the spherical Laplace noise, positive.

    Returns
    -------
    array of shape (...)
        The exact loss at the worst release.

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
    rate = check_positive(noise_rate, "noise_rate")
    return np.asarray(rate * np.linalg.norm(one - other, axis=-1))


def worst_losses(
    X: ArrayLike,
    y: ArrayLike,
    weights: ArrayLike,
    penalty: float,
    noise_rate: float,
    *,
    feature_norm: float | None = None,
    label_bound: float = 1.0,
    clip: bool = False,
    restarts: int = 4,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    r"""Find what each record loses at least and at most, all others being as they are.

    Parameters
    ----------
    X : array of shape (n, d)
        Features, in [0, 1], or of norm at most `feature_norm`.
    y : array of shape (n,)
        Labels, of absolute value at most `label_bound`.
    weights : array of shape (n,)
        Weights of the records, not negative.
    penalty : float
        Ridge penalty, positive.
    noise_rate : float
        Rate of the spherical Laplace noise, positive.
    feature_norm : float, optional
        Public bound on the norm of the features, positive, which takes the place of the box [0, 1].
    label_bound : float, default 1.0
        Public bound on the absolute value of a label, positive.
    clip : bool, default False
        Whether the learner moved records outside the bounds onto them, instead of refusing them.
    restarts : int, default 4
        Random starts of the search besides the first, not negative.
    rng : numpy.random.Generator
        Source of the starts.

    Returns
    -------
    tuple of two arrays of shape (n,)
        The exact loss of the worst two values that were met, and a proved upper end.

    Notes
    -----
    In the box each of the two values is improved one coordinate at a time over the corners, labels
    at their bounds (the distance is convex in the label), first from all-ones. Values inside can be
    worse for tiny data sets; the upper end covers them. In the ball the search is over all of it.
    """
    features, labels = check_records(
        X, y, feature_norm=feature_norm, label_bound=label_bound, clip=clip
    )
    a = check_finite(weights, "weights", 1, 0)
    if len(a) != len(labels):
        raise ValueError(f"X has {len(labels)} records for {len(a)} weights")
    norm = None if feature_norm is None else check_positive(feature_norm, "feature_norm")
    square = float(features.shape[1]) if norm is None else norm**2
    bound = check_positive(label_bound, "label_bound")
    lam = check_penalty(penalty, np.sqrt(square * a.sum()))
    rate = check_positive(noise_rate, "noise_rate")
    moved = a.max() * np.sqrt(square) * bound / lam
    check_number(moved, "weights * feature_norm * label_bound / penalty", 0)
    starts = 1 + check_count(restarts, "restarts", 0)
    check_generator(rng)
    rest = Rest.of(features, labels, a, lam)
    if norm is None:
        found = corner_search(rest, bound, starts, rng)
        longest = np.maximum(np.maximum(rest.theta, 0).sum(1), np.maximum(-rest.theta, 0).sum(1))
    else:
        found = ball_search(rest, norm, bound, starts, rng)
        longest = norm * np.linalg.norm(rest.theta, axis=1)
    return rate * found, rate * hull_bound(rest, bound + longest, square)


def hull_bound(rest: Rest, residual: Array, square: float) -> Array:
    """How far a record moves the estimate at most, by the residual and the squared feature norm."""
    w = rest.weights
    form = np.minimum(square / rest.floor, 1 / np.maximum(w, TINY))
    return np.asarray(2 * w * residual * np.sqrt(form / rest.floor) / (1 + w * form))


# --- the estimate without each record -----------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Rest:
    """A ridge regression without one record, for each record in turn: row `i` is without `i`.

    Attributes
    ----------
    theta : array of shape (n, d)
        Estimates.
    weights : array of shape (n,)
        Weights of the records.
    inverse : array of shape (d, d)
        Inverse of the moment of all records.
    own : array of shape (n, d)
        `inverse` times each record.
    gap : array of shape (n,)
        One less the weighted leverage of each record.
    floor : array of shape (n,)
        No eigenvalue of the moment without the record is smaller.
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
        length = weights * (X**2).sum(1)
        # where she outweighs all others the difference has no digits, but it is never below this
        gap = np.maximum(1 - weights * (own * X).sum(1), penalty / (penalty + length))
        theta = theta - (weights * (y - X @ theta) / gap)[:, None] * own
        floor = np.maximum(penalty, np.linalg.eigvalsh(moment)[0] - length)
        return cls(theta, weights, inverse, own, gap, floor)

    def solve(self, v: Array) -> Array:
        """The inverse moment without record `i`, times row `i` of `v`, of shape (..., n, d)."""
        return (
            v @ self.inverse
            + (self.weights * (self.own * v).sum(-1) / self.gap)[..., None] * self.own
        )

    def displacement(self, v: Array, label: Array) -> Array:
        """How far each record moves its estimate by the features `v[..., i, :]` and that label."""
        nu = self.solve(v)
        a = self.weights
        residual = label - (v * self.theta).sum(-1)
        kappa = a * residual / (1 + a * (v * nu).sum(-1))
        return kappa[..., None] * nu

    def slopes(self, v: Array, label: Array, direction: Array) -> Array:
        """Slopes, in the features, of the part of :meth:`displacement` in a direction."""
        nu = self.solve(v)
        a = self.weights
        curve = 1 + a * (v * nu).sum(-1)
        kappa = (a * (label - (v * self.theta).sum(-1)) / curve)[..., None]
        part = (a * (direction * nu).sum(-1) / curve)[..., None]
        return kappa * self.solve(direction) - part * (self.theta + 2 * kappa * nu)


# --- the search ---------------------------------------------------------------------------------


def corner_search(rest: Rest, label_bound: float, starts: int, rng: np.random.Generator) -> Array:
    """Largest distances of all starts, shape (n,), for features at corners of the box."""
    n, d = rest.theta.shape
    opposite = np.array([[label_bound], [-label_bound]])
    found = best_corners(rest, np.ones((2, n, d)), opposite * np.ones(n))
    for _ in range(starts - 1):
        ends = rng.integers(0, 2, (2, n, d)).astype(float)
        labels = label_bound * rng.choice([-1.0, 1.0], (2, n))
        found = np.maximum(found, best_corners(rest, ends, labels))
    return found


def best_corners(rest: Rest, ends: Array, labels: Array) -> Array:
    """Distances, of shape (n,), that coordinate ascent over the corners of the box reaches.

    It starts at the features `ends`, of shape (2, n, d), of both values of each record, and their
    `labels`, of shape (2, n); both are changed in place.
    """
    best = np.linalg.norm(np.subtract(*rest.displacement(ends, labels)), axis=1)
    improved = True
    while improved:
        improved = False
        for side in (0, 1):
            other = rest.displacement(ends[1 - side], labels[1 - side])
            for j in range(-1, ends.shape[-1]):  # -1 flips the label
                v = ends[side].copy()
                v[:, j] = v[:, j] if j < 0 else 1 - v[:, j]
                s = -labels[side] if j < 0 else labels[side]
                distance = np.linalg.norm(rest.displacement(v, s) - other, axis=1)
                better = distance > best * (1 + 1e-12)
                ends[side, better] = v[better]
                labels[side, better] = s[better]
                best[better] = distance[better]
                improved |= bool(better.any())
    return best


def ball_search(
    rest: Rest, norm: float, label_bound: float, starts: int, rng: np.random.Generator
) -> Array:
    """Largest distances of all starts, shape (n,), for features in the ball of that norm.

    Both labels are at the upper bound: the distance is convex in a label, and a record moves the
    estimate as its negative does, label included.
    """
    n, d = rest.theta.shape
    label = np.full((2, n), label_bound)
    sides = np.array([1.0, -1.0])[:, None, None]

    def ends(flat: Array) -> tuple[Array, Array, Array, Array]:
        """Free vectors, their scales, the features that they stand for, and how far these move.

        Scaled vectors fill the ball, and are smooth in the free ones: its edge is no constraint.
        """
        free = flat.reshape(2, n, d)
        scale = 2 / (1 + (free**2).sum(-1, keepdims=True))
        v = norm * scale * free
        return free, scale, v, np.subtract(*rest.displacement(v, label))

    def objective(flat: Array) -> tuple[float, Array]:
        """Minus the sum of the logarithms of all distances, and its slopes."""
        free, scale, v, apart = ends(flat)
        distance = np.maximum(np.linalg.norm(apart, axis=1), LEAST)[:, None]
        slopes = rest.slopes(v, label, sides * apart / distance / distance)
        along = (v * slopes).sum(-1, keepdims=True)
        return -np.log(distance).sum(), (scale * (along * free - norm * slopes)).ravel()

    found = np.zeros(n)
    for _ in range(starts):
        start = rng.standard_normal((n, d))
        start /= 2 * np.linalg.norm(start, axis=1, keepdims=True)  # neither centre nor edge
        best = optimize.minimize(
            objective,
            np.stack([start, -start]).ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 500, "maxcor": 20, "ftol": 1e-15, "gtol": 1e-10},
        )
        found = np.maximum(found, np.linalg.norm(ends(best.x)[-1], axis=1))
    return found
