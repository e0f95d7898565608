r"""Search for the two values of a record that move a ridge estimate furthest apart, for all records at once.

Nothing is fitted again: :func:`~hdpm_lib.audit.ridge_privacy_losses`, whose engine this is, has the formulas.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Rest:
    """What is left of a ridge regression when one record is taken out; row `i` is without record `i`.

    Attributes
    ----------
    theta : array of shape (n, d)
        Estimates.
    weights : array of shape (n,)
    inverse : array of shape (d, d)
        Of the moment of all records.
    own : array of shape (n, d)
        `inverse` times each record.
    gap : array of shape (n,)
        One less the weighted leverage of each record.
    """

    theta: Array
    weights: Array
    inverse: Array
    own: Array
    gap: Array

    @classmethod
    def of(cls, features: Array, labels: Array, w: Array, moment: Array) -> Rest:
        """Take each record out; `moment` is the weighted second moment of all, with the penalty."""
        inverse = np.asarray(np.linalg.inv(moment), dtype=float)
        theta = inverse @ ((w * labels) @ features)
        own = features @ inverse
        gap = 1 - w * (own * features).sum(1)
        return cls(theta - (w * (labels - features @ theta) / gap)[:, None] * own, w, inverse, own, gap)

    def take(self, i: int) -> Rest:
        """Record `i` alone."""
        one = slice(i, i + 1)
        return Rest(self.theta[one], self.weights[one], self.inverse, self.own[one], self.gap[one])

    def solve(self, v: Array) -> Array:
        """The inverse moment without record `i`, times row `i` of `v`, of shape (..., n, d)."""
        return v @ self.inverse + (self.weights * (self.own * v).sum(-1) / self.gap)[..., None] * self.own

    def displacement(self, v: Array, label: Array) -> Array:
        """How far record `i` moves its estimate if it has the features `v[..., i, :]` and the label `label[..., i]`."""
        g = self.solve(v)
        return (self.weights * (label - (v * self.theta).sum(-1)) / (1 + self.weights * (v * g).sum(-1)))[..., None] * g


def best_corners(rest: Rest, ends: Array, signs: Array) -> Array:
    """Distances that coordinate ascent over the corners of the box reaches.

    Parameters
    ----------
    rest : Rest
    ends : array of shape (2, n, d)
        Features of both values of each record, where the ascent starts; changed in place.
    signs : array of shape (2, n)
        Labels, -1 or 1; changed in place.

    Returns
    -------
    array of shape (n,)
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
                distance = np.linalg.norm(rest.displacement(v, s) - other, axis=1)
                better = distance > best * (1 + 1e-12)
                ends[side, better], signs[side, better], best[better] = v[better], s[better], distance[better]
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
