r"""Tight instances: neighbours between which a correct learner spends nearly all of a promise.

On ordinary data a learner spends a few per cent of :math:`\varepsilon_i`, so noise that is several times too small goes
unnoticed there. Here the exact loss is at least .998 of the promise, and an error of one per cent in a constant exceeds
it. Each function gives the data before and after one record is replaced, for one learner; what the learner makes of
them is for the caller to see.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpm_lib.audits.logistic import tight_pair
from hdpm_lib.validation import check_count, check_positive

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SumEnds:
    """Databases for a sum: one for each individual whose datum turns.

    Attributes
    ----------
    data : array of shape (n, n)
        Row `i` is the database before the datum of individual `i` turns: everybody at 0, or at 1 in odd rows.
    turned : array of shape (n, n)
        The same but for the datum of individual `i`, at the other end.
    """

    data: Array
    turned: Array


def sum_ends(n: int) -> SumEnds:
    """Ends of the interval of every datum of `n` people: a biased sum tells them apart as well as it promises at most.

    Examples
    --------
    >>> sum_ends(2).data, sum_ends(2).turned
    (array([[0., 0.],
           [1., 1.]]), array([[1., 0.],
           [1., 0.]]))
    """
    count = check_count(n, "n")
    data = np.repeat((np.arange(count) % 2.0)[:, None], count, axis=1)
    return SumEnds(data, np.abs(data - np.eye(count)))


@dataclass(frozen=True)
class RidgeEnds:
    """Two data sets of four records for ridge regression that differ in the label of record 0.

    Attributes
    ----------
    X : array of shape (4, d)
        Ones in row 0, zeros elsewhere.
    y, y_turned : array of shape (4,)
        0, but for record 0: 1 in the one data set, -1 in the other.
    epsilon : array of shape (4,)
        Privacy losses that the records accept.
    penalty : float
        Large enough for the bound on the sensitivity to be attained but for a part of about a thousandth.
    """

    X: Array
    y: Array
    y_turned: Array
    epsilon: Array
    penalty: float


def ridge_ends(d: int, *, own: float = 0.5) -> RidgeEnds:
    r"""Data sets of `d` features on which output perturbation spends at least .998 of what record 0 accepts.

    Parameters
    ----------
    own : float, default 0.5
        Privacy loss that record 0 accepts, positive; the others accept 1. Below 1, a learner that treats all alike
        breaks the promise to her; above 1, one that gives large weights too much.

    Notes
    -----
    The estimates are :math:`\pm w_0\mathbf 1/(w_0d+\lambda)`, so they lie :math:`2w_0\sqrt d/(w_0d+\lambda)` apart.
    The paper's bound is :math:`\frac{2w_0\sqrt d}\lambda(1+\frac d\lambda)` for :math:`\lambda\ge d`. With
    :math:`\lambda=2000d` the share is :math:`1/((1+w_0/2000)(1+1/2000))`, at least .999. At this penalty the norm bound
    in the constant hardly counts, so an error in that one does not show.

    Examples
    --------
    >>> from hdpm_lib.learners.ridge import pdp_op
    >>> ends = ridge_ends(12)
    >>> one, two = (pdp_op(ends.X, y, ends.epsilon, ends.penalty) for y in (ends.y, ends.y_turned))
    >>> loss = one.noise_rate * np.linalg.norm(one.theta - two.theta)
    >>> round(float(loss / ends.epsilon[0]), 4)
    0.9994
    """
    width, epsilon = check_count(d, "d"), np.array([check_positive(own, "own"), 1.0, 1.0, 1.0])
    first = np.eye(4)[0]
    return RidgeEnds(np.outer(first, np.ones(width)), first, -first, epsilon, 2000.0 * width)


@dataclass(frozen=True)
class GradientEnds:
    """Pairs of gradients of one owner, from opposite ends of the space of clipped gradients.

    Attributes
    ----------
    gradients, turned : array of shape (3, classes, features)
        One coordinate; one coordinate of each class; all coordinates. Ten times longer than the clip allows.
    """

    gradients: Array
    turned: Array


def gradient_ends(classes: int, features: int, clip_norm: float) -> GradientEnds:
    """Gradients that clipping leaves twice the clip norm apart, so that an owner loses all she accepts.

    A clipped gradient has the L1 norm `clip_norm`, positive. The first pair shows noise that is too small, the others
    also a clip in another norm or of each part by itself.

    Examples
    --------
    >>> from hdpm_lib.learners.gradients import clipped
    >>> ends = gradient_ends(2, 3, 1.0)
    >>> np.abs(clipped(ends.gradients, 1.0) - clipped(ends.turned, 1.0)).sum((-2, -1))
    array([2., 2., 2.])
    """
    shape = (check_count(classes, "classes"), check_count(features, "features"))
    kinds = np.zeros((3, *shape))
    kinds[0, 0, 0] = 1
    kinds[1, :, 0] = 1
    kinds[2] = 1
    gradients = 10 * check_positive(clip_norm, "clip_norm") * kinds / kinds.sum((-2, -1), keepdims=True)
    return GradientEnds(gradients, -gradients)


@dataclass(frozen=True)
class LogisticEnds:
    """Two data sets for logistic regression that differ in record 0, and an output that tells them apart.

    Attributes
    ----------
    X, X_turned : array of shape (m, 2)
        Features, each row of norm at most 1.
    y : array of shape (m,)
        Labels, the same in both.
    weights : array of shape (m,)
        With sum 1; that of record 0 is tiny.
    eta, penalty : float
        As :func:`~hdpm_lib.learners.logistic.objective_perturbation` takes them.
    coefficients : array of shape (2,)
        The output.
    """

    X: Array
    X_turned: Array
    y: Array
    weights: Array
    eta: float
    penalty: float
    coefficients: Array


def logistic_ends(epsilon: float = 1.0, ratio: float = 0.4, m: int = 2) -> LogisticEnds:
    """The pair of :func:`~hdpm_lib.audits.logistic.tight_pair` as data sets of any size, at the penalty 1e-6.

    Parameters
    ----------
    epsilon, ratio : float
        Noise part of the promise to record 0, and her weight over the penalty, positive and below a million. There is
        no slack if `ratio` is at most ``epsilon / 2``.
    m : int, default 2
        Records, at least 2. All but the first are the same record and share its weight.

    Examples
    --------
    >>> from hdpm_lib.audits.logistic import output_log_density
    >>> from hdpm_lib.learners.logistic import objective_perturbation
    >>> ends = logistic_ends()
    >>> given = ends.y, ends.weights, ends.eta, ends.penalty
    >>> one, two = (objective_perturbation(X, *given) for X in (ends.X, ends.X_turned))
    >>> loss = output_log_density(one, ends.coefficients) - output_log_density(two, ends.coefficients)
    >>> round(float(loss / one.guarantee[0]), 3)
    1.0
    """
    count = check_count(m, "m", 2)
    pair = tight_pair(epsilon, ratio, penalty=1e-6)
    y = np.ones(count)
    y[0] = -1.0  # both labels must occur
    X = np.repeat(pair.others, count, axis=0)
    X_turned = X.copy()
    X[0], X_turned[0] = -pair.record, -pair.replacement
    weights = np.full(count, float(pair.other_weights[0]) / (count - 1))
    weights[0] = float(pair.weight)
    return LogisticEnds(X, X_turned, y, weights, float(pair.eta), float(pair.penalty), pair.coefficients)
