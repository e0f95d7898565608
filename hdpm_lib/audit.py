r"""Meters of the privacy loss that each record really suffers.

For output perturbation with spherical Laplace noise the loss between two data sets is *exactly* the noise rate times
the distance of the two noiseless estimates: the triangle inequality is attained on a ray. What is left is to find the
worst pair of values for a record. A meter that stays below a guarantee shows no violation; it is not a proof.

For sums and gradients with Laplace noise nothing is left to search: the worst pair is known. On a finite domain of
databases the meter looks at every pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import pdist

from hdpm_lib.audit_ridge import Rest, best_corners, best_inside
from hdpm_lib.federated import clipped, noise_scale
from hdpm_lib.queries import BiasedLaplace
from hdpm_lib.validation import check_count, check_finite, check_flag, check_generator, check_penalty, check_positive

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RidgeLosses:
    """Privacy loss of each record against its worst replacement, the other records being as they are.

    Attributes
    ----------
    found : array of shape (n,)
        Exact loss of the worst pair of values the search met: a lower end of the worst loss.
    at_most : array of shape (n,)
        A proved upper end for these other records; no pair of values inside the bounds loses more.
    """

    found: Array
    at_most: Array


def ridge_pair_loss(theta: ArrayLike, theta_neighbour: ArrayLike, noise_rate: float) -> Array:
    """Exact worst-case loss between releases around two estimates: rate times distance.

    Parameters
    ----------
    theta, theta_neighbour : array of shape (..., d)
        Noiseless estimates on the two data sets.
    noise_rate : float
        Rate of the spherical Laplace noise.

    Returns
    -------
    array of shape (...)

    Examples
    --------
    >>> float(ridge_pair_loss([0.0, 0.0], [0.3, 0.4], 2.0))
    1.0
    """
    one, other = check_finite(theta, "theta"), check_finite(theta_neighbour, "theta_neighbour")
    if one.ndim == 0 or one.shape[-1:] != other.shape[-1:]:
        raise ValueError(f"theta and theta_neighbour must have shape (..., d), got {one.shape} and {other.shape}")
    return np.asarray(check_positive(noise_rate, "noise_rate") * np.linalg.norm(one - other, axis=-1))


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

    Parameters
    ----------
    X : array of shape (n, d)
        Features in [0, 1].
    y : array of shape (n,)
        Labels in [-1, 1].
    weights : array of shape (n,)
        As the learner used them.
    penalty : float
        Ridge penalty, positive.
    noise_rate : float
        Rate of the noise as the learner used it.
    restarts : int, default 4
        Random starts besides the one from all-ones.
    polish : bool, default False
        Search the inside of the box as well, from as many starts. It pays for a few records with a few features only.
    rng : numpy.random.Generator

    Returns
    -------
    RidgeLosses

    Raises
    ------
    ValueError
        If lengths differ, or a value is not finite, or `penalty` or `noise_rate` is not positive.

    Notes
    -----
    Let `A` be the weighted second moment plus :math:`\lambda I`. Taking record `i` out and putting :math:`(v, y')` in
    are two rank-one updates: :math:`\theta=\theta_{-i}+w_i(y'-v^\top\theta_{-i})\,g/(1+w_iv^\top g)` with
    :math:`g=A_{-i}^{-1}v`. Each end of the pair is improved one coordinate at a time over the corners of the box,
    labels at :math:`\pm1` (the distance is convex in the label). Interior values can be worse for tiny data sets,
    hence the upper end: :math:`|y'-v^\top\theta_{-i}|` is at most
    :math:`r=1+\max(\sum\theta_{-i}^+,\sum\theta_{-i}^-)`, and :math:`A_{-i}` has no eigenvalue below
    :math:`\mu=\max(\lambda,\lambda_{\min}(A)-w_i\lVert x_i\rVert^2)`. With :math:`t=v^\top g\le d/\mu` the norm of `g`
    is at most :math:`\sqrt{t/\mu}`, so each end lies within :math:`w_ir\sqrt{t/\mu}/(1+w_it)` of :math:`\theta_{-i}`,
    which is largest at :math:`t=\min(d/\mu,1/w_i)`.
    """
    check_finite(X, "X", 2, 0, 1), check_finite(y, "y", 1, -1, 1)
    rest, moment, (features, _, w) = _without_each(X, y, weights, penalty)
    check_positive(noise_rate, "noise_rate"), check_flag(polish, "polish"), check_generator(rng)
    restarts, (n, d) = check_count(restarts, "restarts", 0), features.shape

    found, kept = np.full(n, -1.0), (np.ones((2, n, d)), np.ones((2, n)))
    for start in range(restarts + 1):
        ends = np.ones((2, n, d)) if start == 0 else rng.integers(0, 2, (2, n, d)).astype(float)
        signs = np.array([[1.0], [-1.0]]) * np.ones(n) if start == 0 else rng.choice([-1.0, 1.0], (2, n))
        reached = best_corners(rest, ends, signs)
        better = reached > found
        found[better], kept[0][:, better], kept[1][:, better] = reached[better], ends[:, better], signs[:, better]
    for start in range((restarts + 1) * polish):
        begin = kept if start == 0 else (rng.random((2, n, d)), rng.choice([-1.0, 1.0], (2, n)))
        found = np.maximum(found, best_inside(rest, *begin))

    residual = 1 + np.maximum(np.maximum(rest.theta, 0).sum(1), np.maximum(-rest.theta, 0).sum(1))
    return RidgeLosses(noise_rate * found, noise_rate * _hull_bound(features, w, moment, penalty, residual, d))


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

    Parameters
    ----------
    X, y, weights, penalty, noise_rate
        As in :func:`ridge_privacy_losses`, but for features of any sign.
    corners : array of shape (k, d)
        Feature vectors a record can take, such as :meth:`hdpm_lib.schema.Schema.corners`; with each of them the label
        is :math:`\pm` `label_bound`. Time and memory for a record grow with :math:`k^2`.
    label_bound : float, default 1
        `a`, the public bound on the absolute value of a label.

    Returns
    -------
    RidgeLosses
        ``at_most`` covers the whole convex hull of the corners.

    Raises
    ------
    ValueError
        If lengths differ, or a value is not finite, or a number is not positive.

    Notes
    -----
    The upper end is that of :func:`ridge_privacy_losses`, with :math:`r=a+\max_v|v^\top\theta_{-i}|` and the largest
    squared norm of a corner in place of `d`: both are convex in `v`.
    """
    rest, moment, (features, _, w) = _without_each(X, y, weights, penalty)
    check_positive(noise_rate, "noise_rate")
    values, bound = check_finite(corners, "corners", 2), check_positive(label_bound, "label_bound")
    v, signs = np.repeat(values, 2, axis=0)[:, None], np.tile([bound, -bound], len(values))[:, None]
    found = np.empty(len(w))
    for i in range(len(w)):
        ends = rest.take(i).displacement(v, signs)[:, 0]
        found[i] = pdist(ends).max()
    residual, square = bound + np.abs(rest.theta @ values.T).max(1), float((values**2).sum(1).max())
    return RidgeLosses(noise_rate * found, noise_rate * _hull_bound(features, w, moment, penalty, residual, square))


def _without_each(
    X: ArrayLike, y: ArrayLike, weights: ArrayLike, penalty: float
) -> tuple[Rest, Array, tuple[Array, Array, Array]]:
    """Each record taken out, the penalised moment of all, and the checked data."""
    features, labels = check_finite(X, "X", 2), check_finite(y, "y", 1)
    w, lam = check_finite(weights, "weights", 1, 0), check_penalty(penalty)
    n, d = features.shape
    if not len(labels) == len(w) == n:
        raise ValueError(f"X has {n} records, y has {len(labels)} and weights has {len(w)}")
    moment = (features.T * w) @ features + lam * np.eye(d)
    return Rest.of(features, labels, w, moment), moment, (features, labels, w)


def _hull_bound(features: Array, w: Array, moment: Array, lam: float, residual: Array, square: float) -> Array:
    """How far a record can move the estimate at most, for features of that squared norm and such residuals."""
    floor = np.maximum(lam, np.linalg.eigvalsh(moment)[0] - w * (features**2).sum(1))
    form = np.minimum(square / floor, 1 / np.maximum(w, np.finfo(float).tiny))
    return np.asarray(2 * w * residual * np.sqrt(form / floor) / (1 + w * form))


def sum_privacy_losses(mechanism: BiasedLaplace, terms: ArrayLike) -> Array:
    r"""Exact privacy loss of each individual in a linear query: her datum at 0 against 1, the others' as they are.

    Parameters
    ----------
    mechanism : BiasedLaplace
        From :func:`~hdpm_lib.queries.linear_query`.
    terms : array of shape (n,)
        Weights times data. With several coordinates, of one of them: all have the same noise, and their losses add up.

    Returns
    -------
    array of shape (n,)
        No datum loses more, as the mean is linear in it: nothing is searched.

    Raises
    ------
    ValueError
        If an individual has a part in a term of others, or `terms` lie outside their intervals.

    Examples
    --------
    >>> from hdpm_lib.queries import linear_query
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

    Returns
    -------
    array of shape (...)
        Distance of the clipped gradients in the L1 norm, over the scale of the noise.

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

    Raises
    ------
    ValueError
        If `answers` has no axis for an individual or is not finite, or `scale` is not positive.

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
