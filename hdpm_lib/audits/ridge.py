r"""Actual losses of records in ridge regression by output perturbation.

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
    """Return the largest loss between releases around two estimates: noise rate times distance.

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
    estimate = check_finite(theta, "theta")
    neighbour = check_finite(theta_neighbour, "theta_neighbour")
    if estimate.ndim == 0 or estimate.shape[-1:] != neighbour.shape[-1:]:
        raise ValueError(
            f"theta and theta_neighbour must have shape (..., d), got {estimate.shape} and"
            f" {neighbour.shape}"
        )
    rate = check_positive(noise_rate, "noise_rate")
    return np.asarray(rate * np.linalg.norm(estimate - neighbour, axis=-1))


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
        Move records outside the bounds onto them, as the learner did, instead of refusing them.
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
    square = float(features.shape[1])  # of the longest features in [0, 1]
    if feature_norm is not None:
        feature_norm = check_positive(feature_norm, "feature_norm")
        square = feature_norm**2
    bound = check_positive(label_bound, "label_bound")
    lam = check_penalty(penalty, np.sqrt(square * a.sum()))
    rate = check_positive(noise_rate, "noise_rate")
    moved = a.max() * np.sqrt(square) * bound / lam
    check_number(moved, "weights * feature_norm * label_bound / penalty", 0)
    starts = 1 + check_count(restarts, "restarts", 0)
    check_generator(rng)
    rest = Rest.of(features, labels, a, lam)
    if feature_norm is None:
        distance = corner_search(rest, bound, starts, rng)
        upper = np.maximum(rest.theta, 0).sum(1)
        lower = np.maximum(-rest.theta, 0).sum(1)
        largest_prediction = np.maximum(upper, lower)
    else:
        distance = ball_search(rest, feature_norm, bound, starts, rng)
        largest_prediction = feature_norm * np.linalg.norm(rest.theta, axis=1)
    at_most = hull_bound(rest, bound + largest_prediction, square)
    return rate * distance, rate * at_most


def hull_bound(rest: Rest, residual: Array, square: float) -> Array:
    """Bound how far a record moves the estimate, by the residual and the squared feature norm."""
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
        """Multiply row `i` of `v`, shape (..., n, d), by the inverse moment without record `i`."""
        # by the formula of Sherman and Morrison
        correction = self.weights * (self.own * v).sum(-1) / self.gap
        return v @ self.inverse + correction[..., None] * self.own

    def displacement(self, v: Array, label: Array) -> Array:
        """Return how each record moves its estimate by the features `v[..., i, :]` and a label."""
        nu = self.solve(v)
        a = self.weights
        residual = label - (v * self.theta).sum(-1)
        kappa = a * residual / (1 + a * (v * nu).sum(-1))
        return kappa[..., None] * nu

    def slopes(self, v: Array, label: Array, direction: Array) -> Array:
        """Return slopes, in the features, of the part of :meth:`displacement` in a direction."""
        nu = self.solve(v)
        a = self.weights
        curve = 1 + a * (v * nu).sum(-1)
        residual = label - (v * self.theta).sum(-1)
        kappa = (a * residual / curve)[..., None]
        part = (a * (direction * nu).sum(-1) / curve)[..., None]
        return kappa * self.solve(direction) - part * (self.theta + 2 * kappa * nu)


# --- the search ---------------------------------------------------------------------------------


def corner_search(rest: Rest, label_bound: float, starts: int, rng: np.random.Generator) -> Array:
    """Search the largest distances, shape (n,), for features at corners of the box."""
    n, d = rest.theta.shape
    opposite = np.array([[label_bound], [-label_bound]])
    largest = best_corners(rest, np.ones((2, n, d)), opposite * np.ones(n))
    for _ in range(starts - 1):
        ends = rng.integers(0, 2, (2, n, d)).astype(float)
        labels = label_bound * rng.choice([-1.0, 1.0], (2, n))
        largest = np.maximum(largest, best_corners(rest, ends, labels))
    return largest


def best_corners(rest: Rest, ends: Array, labels: Array) -> Array:
    """Return the distances, shape (n,), that coordinate ascent over the corners reaches.

    It starts at the features `ends`, of shape (2, n, d), of both values of each record, and their
    `labels`, of shape (2, n).
    """
    ends = ends.copy()
    labels = labels.copy()
    moved = rest.displacement(ends, labels)
    best = np.linalg.norm(moved[0] - moved[1], axis=1)
    improved = True
    while improved:
        improved = False
        for side in (0, 1):
            other = rest.displacement(ends[1 - side], labels[1 - side])
            for j in range(-1, ends.shape[-1]):  # -1 flips the label, else feature j
                v = ends[side].copy()
                label = labels[side].copy()
                if j < 0:
                    label = -label
                else:
                    v[:, j] = 1 - v[:, j]
                distance = np.linalg.norm(rest.displacement(v, label) - other, axis=1)
                better = distance > best * (1 + 1e-12)
                ends[side, better] = v[better]
                labels[side, better] = label[better]
                best[better] = distance[better]
                improved |= bool(better.any())
    return best


def ball_search(
    rest: Rest, norm: float, label_bound: float, starts: int, rng: np.random.Generator
) -> Array:
    """Search the largest distances, shape (n,), for features in the ball of that norm.

    Both labels are at the upper bound: the distance is convex in a label, and a record moves the
    estimate as its negative does, label included.
    """
    n, d = rest.theta.shape
    label = np.full((2, n), label_bound)
    sides = np.array([1.0, -1.0])[:, None, None]

    def scale_of(free: Array) -> Array:
        """Return scales by which free vectors fill the ball smoothly: its edge is no constraint."""
        return 2 / (1 + (free**2).sum(-1, keepdims=True))

    def difference(v: Array) -> Array:
        """Return the difference of the two displacements of each record."""
        moved = rest.displacement(v, label)
        return moved[0] - moved[1]

    def objective(flat: Array) -> tuple[float, Array]:
        """Return minus the sum of the logarithms of all distances, and its slopes."""
        free = flat.reshape(2, n, d)
        scale = scale_of(free)
        v = norm * scale * free
        apart = difference(v)
        distance = np.maximum(np.linalg.norm(apart, axis=1), LEAST)[:, None]
        slopes = rest.slopes(v, label, sides * apart / distance / distance)
        along = (v * slopes).sum(-1, keepdims=True)
        return -np.log(distance).sum(), (scale * (along * free - norm * slopes)).ravel()

    largest = np.zeros(n)
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
        free = best.x.reshape(2, n, d)
        apart = difference(norm * scale_of(free) * free)
        largest = np.maximum(largest, np.linalg.norm(apart, axis=1))
    return largest
