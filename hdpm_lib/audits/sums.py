r"""Exact meters of the privacy loss of each individual in a noisy sum, or by sending a noisy gradient.

Nothing is left to search: the worst pair is known, or all pairs of a finite domain are looked at
(:doc:`/book/privacy/meters`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.learners.gradients import clipped, noise_scale
from hdpm_lib.learners.queries import BiasedLaplace
from hdpm_lib.validation import check_finite, check_flag, check_positive

Array = NDArray[np.float64]


def sum_privacy_losses(mechanism: BiasedLaplace, terms: ArrayLike) -> Array:
    r"""Privacy loss of each individual in a linear query: her datum at 0 against 1, the others' as they are.

    No datum loses more, as the mean is linear in it. `terms`, of shape (n,) as the result, are weights times data; with
    several coordinates, of one of them: all have the same noise, and their losses add up.

    Examples
    --------
    >>> from hdpm_lib.learners.queries import linear_query
    >>> sum_privacy_losses(linear_query([1.0, 0.25], 0.5, weights=[1.0, -2.0]), [0.3, -2.0])
    array([2., 1.])
    """
    t = _check_linear(mechanism, terms)
    turned = np.eye(len(t)) > 0  # column by column, who goes end to end
    ends = mechanism.lower, mechanism.lower + mechanism.ranges
    low, high = (np.where(turned, end[:, None], t[:, None]) for end in ends)
    apart = np.abs(mechanism.mean(high) - mechanism.mean(low))
    apart = mechanism.dimension * apart
    return apart / mechanism.scale if mechanism.scale > 0 else apart


def _check_linear(mechanism: BiasedLaplace, terms: ArrayLike) -> Array:
    """The terms, one for each individual of a linear query; or an error."""
    t = check_finite(terms, "terms", 1)
    if len(t) != len(mechanism.shares):
        raise ValueError(f"terms has {len(t)} entries for {len(mechanism.shares)} shares")
    if not np.array_equal(mechanism.sensitivity, np.diag(np.diag(mechanism.sensitivity))):
        raise ValueError("mechanism must be a linear query: an individual has a part in several terms")
    return t


def gradient_privacy_losses(
    gradients: NDArray, epsilon: ArrayLike, clip_norm: float, *, neighbours: NDArray | None = None
) -> Array:
    r"""Privacy losses of owners who send clipped gradients with Laplace noise.

    Against the worst neighbour a clipped gradient `g` loses :math:`\varepsilon(\lVert g\rVert_1+L)/(2L)`, where `L` is
    `clip_norm`, positive: who was clipped loses all that she accepts.

    Parameters
    ----------
    gradients : array of shape (..., classes, features)
        Before clipping.
    epsilon : array of shape (...), not negative
        Privacy losses that the owners accept.
    neighbours : array of shape (..., classes, features), optional
        The owners' gradients on other data. If not given, the worst: far out, on the other side of zero.

    Examples
    --------
    >>> gradient_privacy_losses(np.array([[[0.5, 0.0]], [[3.0, -1.0]]]), [0.8, 0.8], 1.0)
    array([0.6, 0.8])
    """
    g, eps, bound = _check_gradients(gradients, epsilon, clip_norm)
    other = _antipodes(g, bound) if neighbours is None else _like(g, neighbours)
    apart = np.abs(clipped(g, bound) - clipped(other, bound)).sum((-2, -1))
    return np.asarray(apart / noise_scale(eps, bound))


def _check_gradients(gradients: NDArray, epsilon: ArrayLike, clip_norm: float) -> tuple[Array, Array, float]:
    """The arguments, checked."""
    bound = check_positive(clip_norm, "clip_norm")
    g = check_finite(gradients, "gradients", max(np.ndim(gradients), 2))
    eps = check_finite(epsilon, "epsilon", low=0)
    if eps.shape not in ((), g.shape[:-2]):
        raise ValueError(f"epsilon must have shape {g.shape[:-2]}, got {eps.shape}")
    return g, eps, bound


def _like(gradients: Array, neighbours: NDArray) -> Array:
    """The neighbours, one for each gradient."""
    other = check_finite(neighbours, "neighbours", gradients.ndim)
    if other.shape != gradients.shape:
        raise ValueError(f"neighbours has shape {other.shape} and gradients has {gradients.shape}")
    return other


def _antipodes(gradients: Array, bound: float) -> Array:
    """The worst neighbours: on the other side of zero, ten times as long as the clip allows."""
    direction = np.where(gradients.any((-2, -1), keepdims=True), gradients, 1.0)
    return np.asarray(-10 * bound * direction / np.abs(direction).sum((-2, -1), keepdims=True))


def laplace_privacy_losses(answers: ArrayLike, scale: float, *, vector: bool = False) -> Array:
    r"""Privacy loss of each individual, shape (n,), on a finite domain of databases, for an answer plus Laplace noise.

    It is the largest L1 distance of two answers that differ along her axis only, over `scale`, positive. A domain that
    is part of a larger one gives a lower end for that.

    Parameters
    ----------
    answers : array of shape (g_1, ..., g_n), or (g_1, ..., g_n, m) with `vector`
        Noiseless answers (means) on every database of the domain: axis `j` runs over the values that the datum of
        individual `j` can take. A last axis holds coordinates of an answer, each with independent noise of that scale.

    Examples
    --------
    >>> laplace_privacy_losses([[0.0, 1.0], [3.0, 3.5]], 2.0)   # two individuals of two values each
    array([1.5, 0.5])
    """
    x, vector = check_finite(answers, "answers"), check_flag(vector, "vector")
    if x.ndim - vector < 1:
        raise ValueError(f"answers must have an axis for each individual, got shape {x.shape}")
    check_positive(scale, "scale")
    points = x if vector else x[..., None]
    rows = [np.moveaxis(points, j, 0) for j in range(points.ndim - 1)]
    return np.array([max(np.abs(values - value).sum(-1).max() for value in values) for values in rows]) / scale
