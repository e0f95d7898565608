r"""Meters of the privacy loss that each record really suffers.

For output perturbation with spherical Laplace noise the loss between two data sets is *exactly* the noise rate times
the distance of the two noiseless estimates: the triangle inequality is attained on a ray. What is left is to find the
worst pair of values for a record. A meter that stays below a guarantee shows no violation; it is not a proof.

For Laplace noise on a finite domain of databases nothing is left to search: the meter looks at every pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.validation import check_finite, check_penalty, check_positive

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
    check_positive(noise_rate, "noise_rate")
    return np.asarray(noise_rate * np.linalg.norm(np.subtract(theta, theta_neighbour), axis=-1))


def ridge_privacy_losses(
    X: ArrayLike,
    y: ArrayLike,
    weights: ArrayLike,
    penalty: float,
    noise_rate: float,
    *,
    restarts: int = 4,
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
    :math:`\mu=\max(\lambda,\lambda_{\min}(A)-w_i\lVert x_i\rVert^2)`, so each end lies within
    :math:`w_ir\sqrt d/\mu` of :math:`\theta_{-i}`.
    """
    features, labels = check_finite(X, "X", 2), check_finite(y, "y", 1)
    w, lam = check_finite(weights, "weights", 1), check_penalty(penalty)
    check_positive(noise_rate, "noise_rate")
    n, d = features.shape
    if not len(labels) == len(w) == n:
        raise ValueError(f"X has {n} records, y has {len(labels)} and weights has {len(w)}")
    moment = (features.T * w) @ features + lam * np.eye(d)
    inverse = np.linalg.inv(moment)
    theta = inverse @ ((w * labels) @ features)

    own = features @ inverse  # A^-1 x_i, row by row
    leverage = (own * features).sum(1)
    gap = 1 - w * leverage
    without = theta - (w * (labels - features @ theta) / gap)[:, None] * own

    def displacement(v: Array, label: Array) -> Array:
        g = v @ inverse
        g = g + (w * (own * v).sum(1) / gap)[:, None] * own
        return (w * (label - (v * without).sum(1)) / (1 + w * (v * g).sum(1)))[:, None] * g

    found = np.zeros(n)
    for start in range(restarts + 1):
        ends = np.ones((2, n, d)) if start == 0 else rng.integers(0, 2, (2, n, d)).astype(float)
        signs = np.array([[1.0], [-1.0]]) * np.ones(n) if start == 0 else rng.choice([-1.0, 1.0], (2, n))
        best = np.linalg.norm(displacement(ends[0], signs[0]) - displacement(ends[1], signs[1]), axis=1)
        improved = True
        while improved:
            improved = False
            for side in (0, 1):
                other = displacement(ends[1 - side], signs[1 - side])
                for j in range(-1, d):  # -1 flips the label
                    v, s = ends[side].copy(), signs[side].copy()
                    if j < 0:
                        s = -s
                    else:
                        v[:, j] = 1 - v[:, j]
                    distance = np.linalg.norm(displacement(v, s) - other, axis=1)
                    better = distance > best * (1 + 1e-12)
                    ends[side, better], signs[side, better], best[better] = v[better], s[better], distance[better]
                    improved |= bool(better.any())
        found = np.maximum(found, best)

    residual = 1 + np.maximum(np.maximum(without, 0).sum(1), np.maximum(-without, 0).sum(1))
    floor = np.maximum(lam, np.linalg.eigvalsh(moment)[0] - w * (features**2).sum(1))
    return RidgeLosses(noise_rate * found, noise_rate * 2 * w * residual * np.sqrt(d) / floor)


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
    x = np.asarray(answers, dtype=float)
    if x.ndim - vector < 1:
        raise ValueError(f"answers must have an axis for each individual, got shape {x.shape}")
    check_finite(x, "answers", x.ndim)
    check_positive(scale, "scale")
    points = x if vector else x[..., None]
    rows = [np.moveaxis(points, j, 0) for j in range(points.ndim - 1)]
    return np.array([max(np.abs(values - value).sum(-1).max() for value in values) for values in rows]) / scale
