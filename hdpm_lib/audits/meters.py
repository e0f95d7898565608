"""Meters of the actual loss of each individual by a release, for all learners.

What a mechanism promises covers all data sets. A meter holds the others' data fixed and looks for
the two values of an individual's own datum that a release tells apart best
(:doc:`/book/privacy/meters`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from hdpm_lib.audits import objective, ridge
from hdpm_lib.frozen import Frozen
from hdpm_lib.learners.estimators import PersonalizedRidge, PrivateLogisticRegression
from hdpm_lib.learners.objective import ObjectivePerturbation, objective_perturbation
from hdpm_lib.learners.queries import BiasedLaplace
from hdpm_lib.learners.ridge import OutputPerturbation
from hdpm_lib.learners.second_moments import SecondMoments
from hdpm_lib.private import check_features, check_records, private_places

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class PrivacyLosses(Frozen):
    """Privacy losses of all individuals by one release, at their worst values and others' data.

    It tells of the data, and is not printed as a whole.

    Parameters
    ----------
    found : array of shape (n,)
        Exact loss of the worst two values that were met: a lower end. For objective perturbation,
        which is measured at given outputs, of shape (..., n).
    at_most : array of shape (n,)
        An upper end, of the same shape: no two values inside the bounds lose more.

    Examples
    --------
    >>> from hdpm_lib.learners.queries import linear_query
    >>> losses = privacy_losses(linear_query([1.0, 0.25], 0.5), [0.3, 1.0])
    >>> losses
    PrivacyLosses(found=..., at_most=...)
    >>> losses.found, losses.at_most
    (array([2. , 0.5]), array([2. , 0.5]))
    """

    found: Array = field(repr=False)
    at_most: Array = field(repr=False)


@singledispatch
def privacy_losses(mechanism: Any, *data: ArrayLike, **search: Any) -> PrivacyLosses:
    r"""Measure what each individual loses by one release of a mechanism, on her and others' data.

    Parameters
    ----------
    mechanism : calibrated mechanism or fitted estimator
        A BiasedLaplace (what :func:`~hdpm_lib.learners.queries.linear_query` makes), an
        OutputPerturbation (:func:`~hdpm_lib.learners.ridge.output_perturbation`), SecondMoments
        (:func:`~hdpm_lib.learners.second_moments.second_moments`), an
        ObjectivePerturbation (:func:`~hdpm_lib.learners.objective.objective_perturbation`), or a
        fitted PersonalizedRidge or PrivateLogisticRegression. The losses are those of its noise and
        weights, be its promise right or wrong. Of a WeightedMean ``privacy_loss`` is exact,
        whatever the data.
    *data : arrays
        The data. For a linear query its `terms`, of shape (n,) or (n, m). For output and objective
        perturbation, and for an estimator, `X`, of shape (n, d), and `y`, of shape (n,), inside the
        bounds that it was told. For SecondMoments nothing. An ObjectivePerturbation is measured at
        released `coefficients`, of shape (..., d), which come after its records; an estimator is
        measured at its ``coef_``.
    **search : for output perturbation
        `rng`, a ``numpy.random.Generator``, and `restarts`, not negative, by default 4: random
        starts of the search.

    Returns
    -------
    PrivacyLosses
        Lower and upper ends. They are private, as the data are.

    Raises
    ------
    TypeError
        For any other mechanism, and for an estimator that was fitted with a `delta`: what it
        released on the way is not kept.
    ValueError
        If data are outside the bounds of the mechanism; the error tells the bound alone. An
        estimator that clips clips here, too.

    Notes
    -----
    A meter that stays below a promise shows no violation; it is not a proof.

    Neighbours: one individual's datum is replaced by any other inside the public bounds.

    - Linear queries (Khalili, Zhang and Liu, Theorems 3 and 11): both ends are equal and exact.
    - Output perturbation (Acharya et al., Algorithm 1): the loss of two values is exact, and they
      are searched for, over corners of the box, inside which tiny data sets can have worse ones, or
      all over the ball. The upper end is proved.
    - Second moments: a sum does not depend on the others. The lower end is that of opposite labels
      at one longest vector, the upper one is proved.
    - Objective perturbation (Anjarlekar, Etesami and Srikant, Algorithm 1), and estimators: the
      density of the output gives the loss at one output. Nothing below the promise is proved, which
      is the upper end.

    References
    ----------
    Khalili, Zhang and Liu (2021), "Designing Contracts for Trading Private and Heterogeneous Data
    Using a Biased Differentially Private Algorithm", IEEE Access 9.

    Acharya, Boenisch, Naidu and Ziani (2024), "Personalized Differential Privacy for Ridge
    Regression", arXiv:2401.17127.

    Anjarlekar, Etesami and Srikant (2025), "Mechanism Design for Heterogenous Differentially
    Private Data Acquisition for Logistic Regression", arXiv:2309.10340v2.

    Examples
    --------
    >>> from hdpm_lib.learners.queries import linear_query
    >>> privacy_losses(linear_query([1.0, 0.25], 0.5, weights=[1.0, -2.0]), [0.3, -2.0]).found
    array([2., 1.])

    Records as a Schema codes them lie in a ball around 0:

    >>> X, y = np.array([[0.5], [-0.5], [0.0]]), np.array([0.2, -0.1, 0.5])
    >>> model = PersonalizedRidge(feature_norm=0.5, label_bound=0.5, epsilon=20.0).fit(X, y)
    >>> losses = privacy_losses(model, X, y)
    >>> bool((losses.found < 20.0).all()), losses.at_most.round(9)
    (True, array([20., 20., 20.]))
    """
    raise TypeError(
        "mechanism must be a BiasedLaplace, an OutputPerturbation, SecondMoments, an"
        " ObjectivePerturbation, or a fitted PersonalizedRidge or PrivateLogisticRegression (for a"
        f" WeightedMean its privacy_loss is exact), got {type(mechanism).__name__}"
    )


@privacy_losses.register
def _sum(mechanism: BiasedLaplace, terms: ArrayLike) -> PrivacyLosses:
    """Move each datum from one end to the other: none loses more, as the mean is linear in it."""
    mechanism.mean(terms)  # the error of terms outside their intervals
    table = mechanism.sensitivity
    if table.ndim == 2 and not np.array_equal(table, np.diag(np.diag(table))):
        raise ValueError(
            "mechanism must be a linear query: an individual has a part in several terms"
        )
    losses = mechanism.dimension * mechanism.shares * mechanism.ranges
    if mechanism.scale > 0:  # else all shares are 0
        losses = losses / mechanism.scale
    return PrivacyLosses(losses, losses)


@privacy_losses.register
def _ridge(
    mechanism: OutputPerturbation, X: ArrayLike, y: ArrayLike, **search: Any
) -> PrivacyLosses:
    """Search for the two values of each record that move the estimate farthest apart."""
    found, at_most = ridge.worst_losses(
        X,
        y,
        mechanism.weights,
        mechanism.penalty,
        mechanism.noise_rate,
        feature_norm=mechanism.feature_norm,
        label_bound=mechanism.label_bound,
        **search,
    )
    return PrivacyLosses(found, at_most)


@privacy_losses.register
def _second_moments(mechanism: SecondMoments) -> PrivacyLosses:
    """Take opposite labels of one longest vector, met in any data; two vectors add a little."""
    rates = mechanism.longest**2 * mechanism.noise_rate * mechanism.weights
    return PrivacyLosses(2 * rates, math.sqrt(4.5) * rates)


@privacy_losses.register
def _objective(
    mechanism: ObjectivePerturbation, X: ArrayLike, y: ArrayLike, coefficients: ArrayLike
) -> PrivacyLosses:
    """Search for the two values of each record that the outputs tell apart best."""
    found = objective.worst_losses(mechanism, X, y, coefficients)
    return PrivacyLosses(found, np.broadcast_to(mechanism.privacy_loss, found.shape))


@privacy_losses.register
def _fitted_logistic(model: PrivateLogisticRegression, X: ArrayLike, y: ArrayLike) -> PrivacyLosses:
    """Measure a fitted model of two classes at what it released."""
    check_is_fitted(model)
    if len(model.classes_) > 2:
        raise ValueError(
            f"mechanism must be a model of two classes, got {len(model.classes_)}: measure each"
            " against the rest"
        )
    coding = model._coding
    features = check_features(X, coding.feature_norm, clip=model.clip)
    code = private_places(y, "y", model.classes_.tolist())
    if not model.clip and (code < 0).any():
        raise ValueError(f"y must hold no label but {model.classes_.tolist()}, or clip")
    released = np.append(model.coef_[0], model.intercept_)
    return _fitted(model, features, np.where(code == 1, 1.0, -1.0), released)


@privacy_losses.register
def _fitted_ridge(model: PersonalizedRidge, X: ArrayLike, y: ArrayLike) -> PrivacyLosses:
    """Measure a fitted model at what it released."""
    check_is_fitted(model)
    bound = model._label_bound
    features, labels = check_records(
        X, y, feature_norm=model._coding.feature_norm, label_bound=bound, clip=model.clip
    )
    released = np.append(model.coef_, model.intercept_) / bound
    return _fitted(model, features, labels / bound, released)


def _fitted(
    model: PersonalizedRidge | PrivateLogisticRegression,
    features: Array,
    labels: Array,
    released: Array,
) -> PrivacyLosses:
    """Measure the losses of records inside their bounds, at what was released."""
    if model.delta_ > 0:
        raise TypeError(
            "mechanism must be a model with delta = 0: of noisy descent privacy_loss_ is an upper"
            " end, and what is released on the way, at which a loss would be measured, is not kept"
        )
    coding = model._coding
    mechanism = objective_perturbation(
        model.weights_,
        model.eta_,
        model.penalty_,
        features=coding.columns,
        loss=model._loss,
        clip_norm=model.clip_norm_,
        clip=True,  # what rounding leaves
    )
    unit = coding.coded(features) / coding.norm
    units = coding.units() / coding.norm
    coefficients, *_ = np.linalg.lstsq(units, released)
    return _objective(mechanism, unit, labels, coefficients)
