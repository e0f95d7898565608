"""A search for the worst pairs of ridge regression inside the box, not only at its corners."""

from __future__ import annotations

import numpy as np
from scipy import optimize

from hdpm_lib.audits.meters import PrivacyLosses, privacy_losses
from hdpm_lib.audits.ridge import Rest, corner_search
from hdpm_lib.learners.ridge import OutputPerturbation

Array = np.ndarray
Generator = np.random.Generator


def losses_inside(mechanism: OutputPerturbation, X: Array, y: Array, *, restarts: int, rng: Generator) -> PrivacyLosses:
    """What ``privacy_losses`` finds, or more: the inside of the box is searched too, from as many starts."""
    upper = privacy_losses(mechanism, X, y, restarts=0, rng=rng).at_most
    rest = Rest.of(X, y, mechanism.weights, mechanism.penalty)
    found, *corners = corner_search(rest, restarts, rng)
    for start in range(restarts + 1):
        begin = corners if start == 0 else (rng.random((2, *X.shape)), rng.choice([-1.0, 1.0], (2, len(y))))
        found = np.maximum(found, best_inside(rest, *begin))
    return PrivacyLosses(mechanism.noise_rate * found, upper)


def best_inside(rest: Rest, ends: Array, signs: Array) -> Array:
    """Distances that L-BFGS reaches inside the box, the labels as they are; arguments as for ``best_corners``.

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
