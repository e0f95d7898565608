r"""Other ways to the same privacy losses: objective perturbation, and a private constant.

Both weight record `i` by :math:`w_i=\varepsilon_i/S` and add spherical Laplace noise, to the
objective or to a mean. Public facts, neighbours and arguments are those of
:mod:`hdpm_lib.learners.ridge`, the proofs in :doc:`/book/ridge/beyond`. The first calibrates
private moments with a noise rate, and then releases, in batches of shape `size`. Guarantees hold
for real arithmetic and ideal noise: :doc:`/book/privacy/limits`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.accounts import charge
from hdpm_lib.learners.ridge import estimate_norm_bound, project_on_ball
from hdpm_lib.noise import spherical_laplace
from hdpm_lib.private import check_inside, check_records
from hdpm_lib.validation import (
    check_epsilon,
    check_finite,
    check_generator,
    check_penalty,
    check_size,
)

Array = NDArray[np.float64]


@dataclass(frozen=True)
class WeightedMoments:
    r"""Weighted second moments of the records with the penalty and the public facts a mechanism
    needs (private).

    Attributes
    ----------
    second : array of shape (d, d), the weighted sum of :math:`xx^\top` without the penalty
    cross : array of shape (d,), the weighted sum of :math:`yx`
    radius : float, the norm bound :math:`\rho` of what is released
    penalty, noise_rate, label_bound : float
    privacy_loss : array of shape (n,), the privacy loss of each record by one release
    """

    second: Array = field(repr=False)
    cross: Array = field(repr=False)
    penalty: float
    radius: float
    noise_rate: float
    label_bound: float
    privacy_loss: Array


def _moments(
    X: ArrayLike,
    y: ArrayLike,
    epsilon: ArrayLike,
    penalty: float,
    feature_norm: float | None,
    label_bound: float,
) -> tuple[WeightedMoments, float]:
    """Return moments whose noise rate is still the sum of the privacy losses, and the bound on
    feature norms.
    """
    features, labels = check_records(X, y, feature_norm=feature_norm, label_bound=label_bound)
    norm = float(np.sqrt(features.shape[1]) if feature_norm is None else feature_norm)
    eps = check_epsilon(epsilon, len(labels))
    lam = check_penalty(penalty, norm)
    weighted = features.T * (eps / eps.sum())
    radius = estimate_norm_bound(lam, norm, "sharp", 1.0, label_bound)
    second = weighted @ features
    cross = weighted @ labels
    return WeightedMoments(
        second, cross, lam, radius, float(eps.sum()), float(label_bound), eps
    ), norm


@np.errstate(under="ignore")
def calibrate_objective_perturbation(
    X: ArrayLike,
    y: ArrayLike,
    epsilon: ArrayLike,
    penalty: float,
    *,
    feature_norm: float | None = None,
    label_bound: float = 1.0,
) -> WeightedMoments:
    r"""Calibrate personalised objective perturbation of ridge regression on a ball.

    The release minimises
    :math:`\sum_iw_i(y_i-x_i^\top\theta)^2+\lambda\lVert\theta\rVert^2+b^\top\theta` over
    :math:`\lVert\theta\rVert\le\rho`, with `b` spherical Laplace of rate
    :math:`\eta_b=(S-R^2/\lambda)/(2R^2\rho+4Ra)`, and :math:`\rho` the sharp bound on the noiseless
    estimate, so that the ball itself costs nothing. :math:`S\le R^2/\lambda` is an error: the
    Jacobian alone would spend more than is allowed.
    """
    made, norm = _moments(X, y, epsilon, penalty, feature_norm, label_bound)
    total = made.noise_rate
    spent = norm**2 / made.penalty
    if total <= spent:
        raise ValueError(
            f"the sum of epsilon is {total:.4g}; it must exceed R^2/penalty = {spent:.4g}"
        )
    return replace(
        made, noise_rate=(total - spent) / (2 * norm**2 * made.radius + 4 * norm * made.label_bound)
    )


@np.errstate(under="ignore")
def release_objective_perturbation(
    moments: WeightedMoments, *, rng: np.random.Generator, size: int | tuple[int, ...] = ()
) -> Array:
    r"""Return minimisers of the perturbed objective on the ball, shape (\*size, d)
    (:doc:`/book/privacy/limits`).

    In the eigenbasis of the Hessian they are ``z / (values + nu)``; Newton's method on the inverse
    norm, which is concave, finds ``nu``. If it does not settle to rounding, a RuntimeError is
    raised and nothing is released.
    """
    d = len(moments.cross)
    charge(moments.privacy_loss, rng, size)
    noise = spherical_laplace(d, moments.noise_rate, rng=rng, size=size)
    # without the ball the minimiser solves (second + penalty) theta = cross - noise / 2
    values, vectors = np.linalg.eigh(moments.second + moments.penalty * np.eye(d))
    z = (moments.cross - noise / 2) @ vectors
    # outside the ball: raise the penalty by nu until the norm is the radius
    nu = np.zeros(z.shape[:-1])
    for _ in range(100):
        shifted = values + nu[..., None]
        norm = np.linalg.norm(z / shifted, axis=-1)
        slope = (z**2 / shifted**3).sum(-1)
        step = np.where(
            norm > moments.radius,
            (norm / moments.radius - 1) * norm**2 / np.maximum(slope, 1e-300),
            0.0,
        )
        nu = nu + step
        if (step <= 1e-13 * (values[0] + nu)).all():
            break
    else:  # an inexact minimiser has no guarantee
        raise RuntimeError(
            f"Newton's method did not settle in 100 steps, largest step {np.max(step)}"
        )
    theta = (z / (values + nu[..., None])) @ vectors.T
    return project_on_ball(theta, moments.radius)


@np.errstate(under="ignore")
def private_constant(
    y: ArrayLike,
    epsilon: ArrayLike,
    *,
    label_range: tuple[float, float] = (-1.0, 1.0),
    rng: np.random.Generator,
    size: int | tuple[int, ...] = (),
) -> Array:
    r"""Release the weighted mean label with Laplace noise, shape `size`: the predictor that every
    private model must beat.

    Labels lie in the public `label_range`. Replacing one moves the mean by at most :math:`w_i`
    times its width, and the noise has scale width / `S`: :math:`\varepsilon_i`-private for every
    record (:doc:`/book/privacy/limits`).

    Examples
    --------
    >>> private_constant([0.0, 1.0], [500.0, 500.0], rng=np.random.default_rng(0)).round(1)
    np.float64(0.5)
    """
    low, high = (
        check_finite(label_range, "label_range", 1) if np.size(label_range) == 2 else (0.0, 0.0)
    )
    if not low < high:
        raise ValueError(
            f"label_range must be two finite numbers, the lower first, got {label_range}"
        )
    labels = check_inside(y, "y", low, high, f"lie in label_range = {label_range}", ndim=1)
    eps = check_epsilon(epsilon, len(labels))
    charge(eps, rng, size)
    noise = check_generator(rng).laplace(0.0, (high - low) / eps.sum(), check_size(size))
    return np.asarray((eps / eps.sum()) @ labels + noise)[()]
