r"""Tight instances: neighbours between which a correct learner spends nearly all of a promise.

On ordinary data a learner spends a few per cent of :math:`\varepsilon_i`, so noise that is several times too small goes
unnoticed there. Here the exact loss is at least .998 of the promise, and an error of one per cent in a constant exceeds
it. Each function gives the data before and after one record is replaced, for one learner: :doc:`/book/privacy/meters`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpm_book.logistic.pairs import tight_pair
from hdpm_lib.validation import check_count, check_positive

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SumEnds:
    """Databases (n, n) for a sum: row `i` before the datum of individual `i` turns (`data`), and after it (`turned`).

    The others' data are 0, or 1 in odd rows.
    """

    data: Array
    turned: Array


def sum_ends(n: int) -> SumEnds:
    """Ends of the interval of every datum of `n` people: a biased sum tells them apart as well as it promises at most.

    Examples
    --------
    >>> sum_ends(2).turned.tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    count = check_count(n, "n")
    data = np.repeat((np.arange(count) % 2.0)[:, None], count, axis=1)
    return SumEnds(data, np.abs(data - np.eye(count)))


@dataclass(frozen=True)
class RidgeEnds:
    """Two data sets of four records for ridge regression that differ in the label of record 0.

    It is 1 in `y` and -1 in `y_turned`, and the features of record 0 are ones. All other features, `X` of shape (4, d),
    and labels, of shape (4,), are 0; `epsilon`, of shape (4,), is what the records accept.
    """

    X: Array
    y: Array
    y_turned: Array
    epsilon: Array
    penalty: float


def ridge_ends(d: int, *, own: float = 0.5) -> RidgeEnds:
    r"""Data sets of `d` features on which output perturbation spends at least .998 of what record 0 accepts.

    The penalty is 2000 d. There the norm bound in the constant hardly counts, so an error in that one does not show.

    Parameters
    ----------
    own : float, default 0.5
        Privacy loss that record 0 accepts, positive; the others accept 1. Below 1, a learner that treats all alike
        breaks the promise to her; above 1, one that gives large weights too much.

    Examples
    --------
    >>> from hdpm_lib.learners.ridge import output_perturbation
    >>> ends = ridge_ends(12)
    >>> one, two = (output_perturbation(ends.X, y, ends.epsilon, ends.penalty) for y in (ends.y, ends.y_turned))
    >>> round(float(one.noise_rate * np.linalg.norm(one.theta - two.theta) / ends.epsilon[0]), 4)
    0.9994
    """
    width, epsilon = check_count(d, "d"), np.array([check_positive(own, "own"), 1.0, 1.0, 1.0])
    first = np.eye(4)[0]
    return RidgeEnds(np.outer(first, np.ones(width)), first, -first, epsilon, 2000.0 * width)


@dataclass(frozen=True)
class GradientEnds:
    """Pairs of gradients of one owner, of shape (3, classes, features), ten times longer than the clip allows.

    They are opposite: of one coordinate, of one coordinate of each class, and of all coordinates.
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

    Features have shape (m, 2), labels and weights (m,), and the output `coefficients` (2,). The weights sum to 1, that
    of record 0 is tiny, and `eta` and `penalty` are what :func:`~hdpm_lib.learners.logistic.objective_perturbation`
    takes.
    """

    X: Array
    X_turned: Array
    y: Array
    weights: Array
    eta: float
    penalty: float
    coefficients: Array


def logistic_ends(epsilon: float = 1.0, ratio: float = 0.4, m: int = 2) -> LogisticEnds:
    """The pair of :func:`~hdpm_book.logistic.pairs.tight_pair` as data sets of `m` records, at the penalty 1e-6.

    All records but the first are the same and share its weight.

    Parameters
    ----------
    epsilon, ratio : float
        Noise part of the promise to record 0, and her weight over the penalty, positive and below a million. There is
        no slack if `ratio` is at most ``epsilon / 2``.

    Examples
    --------
    >>> ends = logistic_ends()
    >>> ends.X.shape, round(float(ends.eta * ends.weights[0]), 3)
    ((2, 2), 1.0)
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
