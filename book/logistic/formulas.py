"""What pages hold the learner against: the objective and the slack as printed, and the density of
its outputs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from hdpm_lib.learners.objective import ObjectivePerturbation
from hdpm_lib.noise import log_density

Array = NDArray[np.float64]


def perturbed_objective(
    X: Array, y: Array, weights: Array, penalty: float, coefficients: ArrayLike, noise: ArrayLike
) -> Array:
    """Return the value of the perturbed objective, Eq. (2), at coefficients and noise of shape
    (..., n).
    """
    w = np.asarray(coefficients)
    b = np.asarray(noise)
    losses = np.logaddexp(0, -y * (w @ X.T)) @ weights
    return np.asarray(losses + (b * w).sum(-1) + penalty / 2 * (w * w).sum(-1))


def printed_slack(weights: ArrayLike, penalty: float) -> Array:
    r"""Return the slack :math:`2\ln(1+a_i/\Lambda)` of each record, as the paper's proof bounds it
    before its last step.

    Proposition II.2 states it for the largest weight that the constraint set allows,
    :math:`a_i=k/m`.
    """
    return np.asarray(2 * np.log1p(np.asarray(weights) / penalty))


def output_log_density(
    mechanism: ObjectivePerturbation, X: Array, y: Array, coefficients: ArrayLike
) -> Array:
    """Return the logarithm of the density of released coefficients, shape (...).

    Examples
    --------
    >>> model = ObjectivePerturbation(np.full(2, 0.5), 2.0, 1.0, features=2)
    >>> y = np.array([1.0, -1.0])
    >>> output_log_density(model, np.eye(2), y, [[0.0, 0.0], [1.0, -1.0]]).round(4)
    array([-1.9559, -2.8744])
    """
    signed = y[:, None] * X
    penalty = np.asarray(mechanism.penalty)
    noise, hessian = noise_and_hessian(signed, mechanism.weights, penalty, np.asarray(coefficients))
    return log_density(noise, mechanism.eta / 2) + np.linalg.slogdet(hessian)[1]


def noise_and_hessian(
    records: Array, weights: Array, penalty: Array, coefficients: Array
) -> tuple[Array, Array]:
    """Return needed noise and Hessian of the objective of records (..., k, n) at coefficients (...,
    n).
    """
    z = (records @ coefficients[..., None])[..., 0]
    noise = ((weights * expit(-z))[..., None] * records).sum(-2) - penalty[..., None] * coefficients
    curved = (weights * expit(z) * expit(-z))[..., None] * records
    return noise, np.swapaxes(records, -1, -2) @ curved + penalty[..., None, None] * np.eye(
        coefficients.shape[-1]
    )
