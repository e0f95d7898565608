"""What each individual really loses by a release: one meter, :func:`privacy_losses`, for several
mechanisms.

What a mechanism promises covers all data sets. A meter holds the others' data fixed and looks for
the two values of an individual's own datum that a release tells apart best
(:doc:`/book/privacy/meters`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.audits import logistic, ridge
from hdpm_lib.learners.logistic import ObjectivePerturbation
from hdpm_lib.learners.queries import BiasedLaplace
from hdpm_lib.learners.ridge import OutputPerturbation
from hdpm_lib.validation import check_finite

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PrivacyLosses:
    """What each individual loses by one release at her worst two values, the others' data being as
    they are.

    Attributes
    ----------
    found : array of shape (n,)
        Exact loss of the worst two values that were met: a lower end.
    at_most : array of shape (n,)
        A proved upper end: no two values inside the bounds lose more.
    """

    found: Array
    at_most: Array


@singledispatch
def privacy_losses(mechanism: Any, *data: ArrayLike, **search: Any) -> PrivacyLosses:
    """Measure what each individual loses by one release of a mechanism. What is found is private,
    as the data are.

    A meter that stays below a promise shows no violation; it is not a proof.

    Parameters
    ----------
    mechanism : BiasedLaplace, OutputPerturbation or ObjectivePerturbation
        The losses are those of its noise and weights, be its promise right or wrong. Other
        mechanisms are an error; of a WeightedMean the ``privacy_loss`` is exact, whatever the data.
    *data
        For a linear query its `terms`, shape (n,): with several coordinates, those of one of them.
        Both ends are equal.

        For ridge regression `X`, of shape (n, d) in [0, 1], and `y`, of shape (n,) in [-1, 1], to
        which it was fitted.

        For logistic regression, which holds its records, released `coefficients` of shape (..., d).
        The losses are those at this output, of shape (..., n). Nothing below the promise,
        ``privacy_loss``, is proved.
    **search
        For ridge regression `rng`, a NumPy generator, and `restarts`, by default 4: random starts
        of the search over the corners of the box, besides the one from all-ones. Values inside can
        be worse for tiny data sets.

    Examples
    --------
    >>> from hdpm_lib.learners.queries import linear_query
    >>> privacy_losses(linear_query([1.0, 0.25], 0.5, weights=[1.0, -2.0]), [0.3, -2.0]).found
    array([2., 1.])
    """
    exact = "for a WeightedMean its privacy_loss is exact"
    kinds = "a BiasedLaplace, an OutputPerturbation or an ObjectivePerturbation"
    raise TypeError(f"mechanism must be {kinds} ({exact}), got {type(mechanism).__name__}")


@privacy_losses.register
def _sum(mechanism: BiasedLaplace, terms: ArrayLike) -> PrivacyLosses:
    """Each datum at 0 against 1: none loses more, as the mean is linear in it."""
    t = _check_linear(mechanism, terms)
    turned = np.eye(len(t)) > 0  # column by column, who goes end to end
    ends = mechanism.lower, mechanism.lower + mechanism.ranges
    low, high = (np.where(turned, end[:, None], t[:, None]) for end in ends)
    apart = mechanism.dimension * np.abs(mechanism.mean(high) - mechanism.mean(low))
    losses = apart / mechanism.scale if mechanism.scale > 0 else apart
    return PrivacyLosses(losses, losses)


def _check_linear(mechanism: BiasedLaplace, terms: ArrayLike) -> Array:
    """The terms, one for each individual of a linear query; or an error."""
    t = check_finite(terms, "terms", 1)
    if len(t) != len(mechanism.shares):
        raise ValueError(f"terms has {len(t)} entries for {len(mechanism.shares)} shares")
    if not np.array_equal(mechanism.sensitivity, np.diag(np.diag(mechanism.sensitivity))):
        raise ValueError(
            "mechanism must be a linear query: an individual has a part in several terms"
        )
    return t


@privacy_losses.register
def _ridge(
    mechanism: OutputPerturbation,
    X: ArrayLike,
    y: ArrayLike,
    *,
    restarts: int = 4,
    rng: np.random.Generator,
) -> PrivacyLosses:
    return PrivacyLosses(*ridge.worst_losses(mechanism, X, y, restarts=restarts, rng=rng))


@privacy_losses.register
def _logistic(mechanism: ObjectivePerturbation, coefficients: ArrayLike) -> PrivacyLosses:
    found = logistic.worst_losses(mechanism, coefficients)
    return PrivacyLosses(found, np.broadcast_to(mechanism.privacy_loss, found.shape))
