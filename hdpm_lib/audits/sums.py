r"""Meters of the privacy loss that each individual really suffers in a noisy sum, or by sending a noisy gradient.

Nothing is left to search: the worst pair is known. On a finite domain of databases the meter looks at every pair.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.learners.gradients import clipped, noise_scale
from hdpm_lib.learners.queries import BiasedLaplace
from hdpm_lib.validation import check_finite, check_flag, check_positive

Array = NDArray[np.float64]


def sum_privacy_losses(mechanism: BiasedLaplace, terms: ArrayLike) -> Array:
    r"""Exact privacy loss of each individual in a linear query: her datum at 0 against 1, the others' as they are.

    No datum loses more, as the mean is linear in it.

    Parameters
    ----------
    mechanism : BiasedLaplace
        From :func:`~hdpm_lib.learners.queries.linear_query`: no individual has a part in a term of others.
    terms : array of shape (n,)
        Weights times data. With several coordinates, of one of them: all have the same noise, and their losses add up.

    Examples
    --------
    >>> from hdpm_lib.learners.queries import linear_query
    >>> sum_privacy_losses(linear_query([1.0, 0.25], 0.5, weights=[1.0, -2.0]), [0.3, -2.0])
    array([2., 1.])
    """
    t = check_finite(terms, "terms", 1)
    if len(t) != len(mechanism.shares):
        raise ValueError(f"terms has {len(t)} entries for {len(mechanism.shares)} shares")
    if not np.array_equal(mechanism.sensitivity, np.diag(np.diag(mechanism.sensitivity))):
        raise ValueError("mechanism must be a linear query: an individual has a part in several terms")
    turned = np.eye(len(mechanism.shares)) > 0  # column by column, the one term that goes from end to end
    low, high = (
        np.where(turned, end[:, None], t[:, None]) for end in (mechanism.lower, mechanism.lower + mechanism.ranges)
    )
    apart = mechanism.dimension * np.abs(mechanism.mean(high) - mechanism.mean(low))
    return apart / mechanism.scale if mechanism.scale > 0 else apart


def gradient_privacy_losses(
    gradients: NDArray, epsilon: ArrayLike, clip_norm: float, *, neighbours: NDArray | None = None
) -> Array:
    r"""Exact privacy losses of owners who send clipped gradients with Laplace noise.

    They are the distances of the clipped gradients in the L1 norm, over the scale of the noise.

    Parameters
    ----------
    gradients : array of shape (..., classes, features)
        Before clipping.
    epsilon : array of shape (...)
        Privacy losses that the owners accept, not negative.
    clip_norm : float
        `L`, positive.
    neighbours : array of shape (..., classes, features), optional
        The owners' gradients on other data. If not given, the worst: far out, on the other side of zero.

    Notes
    -----
    Against the worst neighbour it is :math:`\varepsilon(\lVert g\rVert_1+L)/(2L)` for a clipped gradient `g`: nothing
    in the ball is further away than that, and its antipode is. So who was clipped loses all that she accepts.

    Examples
    --------
    >>> gradient_privacy_losses(np.array([[[0.5, 0.0]], [[3.0, -1.0]]]), [0.8, 0.8], 1.0)
    array([0.6, 0.8])
    """
    bound = check_positive(clip_norm, "clip_norm")
    g = check_finite(gradients, "gradients", max(np.ndim(gradients), 2))
    eps = check_finite(epsilon, "epsilon", low=0)
    if eps.shape not in ((), g.shape[:-2]):
        raise ValueError(f"epsilon must have shape {g.shape[:-2]}, got {eps.shape}")
    if neighbours is None:
        direction = np.where(g.any((-2, -1), keepdims=True), g, 1.0)
        neighbours = -10 * bound * direction / np.abs(direction).sum((-2, -1), keepdims=True)
    other = check_finite(neighbours, "neighbours", g.ndim)
    if other.shape != g.shape:
        raise ValueError(f"neighbours has shape {other.shape} and gradients has {g.shape}")
    return np.asarray(np.abs(clipped(g, bound) - clipped(other, bound)).sum((-2, -1)) / noise_scale(eps, bound))


def laplace_privacy_losses(answers: ArrayLike, scale: float, *, vector: bool = False) -> Array:
    r"""Exact privacy loss of each individual on a finite domain of databases, for an answer plus Laplace noise.

    Parameters
    ----------
    answers : array of shape (g_1, ..., g_n), or (g_1, ..., g_n, m) with `vector`
        Noiseless answers (means) on every database of the domain: axis `j` runs over the values that the datum of
        individual `j` can take.
    scale : float
        Scale of the noise, positive.
    vector : bool, default False
        Whether the last axis holds the `m` coordinates of an answer, each with independent noise of that scale.

    Returns
    -------
    array of shape (n,)
        The largest distance of two answers that differ along axis `j` only, over `scale`.

    Notes
    -----
    The log ratio of the densities around :math:`x` and :math:`x'` is :math:`\sum_c(|o_c-x'_c|-|o_c-x_c|)/b` at the
    output `o`, at most :math:`\lVert x-x'\rVert_1/b`, and equal to it where every :math:`o_c` lies beyond :math:`x_c`
    as seen from :math:`x'_c`. A domain that is part of a larger one gives a lower end for that.

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
