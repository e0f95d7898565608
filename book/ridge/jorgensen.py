r"""Personalised privacy by sampling: the baseline of Jorgensen, Yu and Cormode (2015) on top of
ridge regression.

Keep record `i` with probability :math:`(e^{\varepsilon_i}-1)/(e^t-1)` (surely if
:math:`\varepsilon_i\ge t`), then run a non-personalised `t`-private output perturbation on what was
kept. How the size of the sample enters the noise decides whether the result is private; see
:func:`sampled_ridge`.

Throughout, `threshold` is `t`, positive; the paper uses the largest and the mean of the
:math:`\varepsilon_i`. *Masks* of shape (m, n) are sampled sets, as rows of zeros and ones
(:func:`draw_masks`). The other arguments are those of :mod:`hdpm_lib.learners.ridge`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from hdpm_book.ridge.moments import Moments, QuadraticLoss
from hdpm_lib.accounts import charge
from hdpm_lib.learners.ridge import Bound, estimate_norm_bound, sensitivity_constant, weighted_ridge
from hdpm_lib.noise import log_density, spherical_laplace
from hdpm_lib.private import check_records
from hdpm_lib.validation import (
    check_choice,
    check_epsilon,
    check_finite,
    check_generator,
    check_number,
    check_penalty,
    check_positive,
    check_size,
)

Array = NDArray[np.float64]


def inclusion_probabilities(epsilon: ArrayLike, threshold: float) -> Array:
    r"""Return the probability of keeping each record, :math:`\min(1,
    (e^{\varepsilon_i}-1)/(e^t-1))`, shape (n,).
    """
    eps = check_epsilon(epsilon)
    t = check_positive(threshold, "threshold")
    capped = np.minimum(eps, t)
    # e^t may be too large for a float
    return np.asarray(np.exp(capped - t) * np.expm1(-capped) / np.expm1(-t))


@dataclass(frozen=True)
class SampledMoments(Moments):
    """Mean and variance averaged over sampled sets.

    Attributes
    ----------
    mean_error, std_error : arrays of shape ()
        Standard errors of ``mean`` and of ``std`` from the finite number of sets (the latter to
        first order).
    """

    mean_error: Array
    std_error: Array


@dataclass(frozen=True)
class SampledRidge:
    """Estimates before noise, one for each sampled set of records, and the noise rate that goes
    with it.

    Attributes
    ----------
    theta : array of shape (m, d)
    noise_rate : array of shape (m,)
    sample_size : array of shape (m,), the number of records kept
    privacy_loss : array of shape (n,), the privacy loss of each record by the estimate of one set
    """

    theta: Array = field(repr=False)
    noise_rate: Array
    sample_size: Array
    privacy_loss: Array

    @np.errstate(under="ignore")
    def release(self, *, rng: np.random.Generator) -> Array:
        """Release one noisy estimate for each sampled set, shape (m, d)
        (:doc:`/book/privacy/limits`).
        """
        charge(self.privacy_loss, rng, len(self.theta))
        return self.theta + spherical_laplace(
            self.theta.shape[1], self.noise_rate, rng=rng, size=len(self.theta)
        )

    def loss(self, test_loss: QuadraticLoss, penalty: float = 0.0) -> SampledMoments:
        """Return the mean and variance of the test loss: exact over the noise, averaged over the
        sampled sets.
        """
        lam = check_number(penalty, "penalty", 0)
        each = test_loss.under_noise(self.theta, self.noise_rate, lam)
        mean = each.mean.mean()
        root = np.sqrt(len(self.theta))
        spread = each.variance + (each.mean - mean) ** 2  # its average is the variance
        error = spread.std() / (2 * np.sqrt(spread.mean() or 1.0))
        return SampledMoments(
            mean, spread.mean(), np.asarray(each.mean.std() / root), np.asarray(error / root)
        )

    def log_density(self, points: ArrayLike, probability: ArrayLike) -> Array:
        """Return the log density of a release at points of shape (..., d), given that of each set
        (:func:`all_masks`).
        """
        z = check_finite(points, "points")
        share = check_finite(probability, "probability", 1, 0, 1)
        if z.shape[-1:] != self.theta.shape[1:]:
            raise ValueError(f"points must have shape (..., {self.theta.shape[1]}), got {z.shape}")
        if len(share) != len(self.theta):
            raise ValueError(f"probability has {len(share)} entries for {len(self.theta)} sets")
        each = [log_density(z - t, r) for t, r in zip(self.theta, self.noise_rate, strict=True)]
        return np.asarray(logsumexp(np.stack(each, axis=-1), axis=-1, b=share))


def draw_masks(
    epsilon: ArrayLike, threshold: float, size: int, *, rng: np.random.Generator
) -> Array:
    """Return masks of shape (size, n)."""
    probability = inclusion_probabilities(epsilon, threshold)
    shape = (*check_size(size), len(probability))
    return (check_generator(rng).random(shape) < probability).astype(float)


def all_masks(epsilon: ArrayLike, threshold: float) -> tuple[Array, Array]:
    """Return every mask that can be drawn, shape (m, n), and its probability, shape (m,): for at
    most 20 uncertain records.

    Examples
    --------
    >>> masks, probability = all_masks([0.5, 1.0], 1.0)
    >>> masks.tolist(), probability.round(4).tolist()
    ([[0.0, 1.0], [1.0, 1.0]], [0.6225, 0.3775])
    """
    keep = inclusion_probabilities(epsilon, threshold)
    open_to_chance = np.flatnonzero(keep < 1)
    k = len(open_to_chance)
    if k > 20:
        raise ValueError(
            f"epsilon must leave at most 20 records to chance, got {k}: draw_masks samples"
        )
    masks = np.ones((2**k, len(keep)))
    masks[:, open_to_chance] = np.arange(2**k)[:, None] >> np.arange(k) & 1
    return masks, np.where(masks == 1, keep, 1 - keep).prod(1)


@np.errstate(under="ignore")
def sampled_ridge(
    X: ArrayLike,
    y: ArrayLike,
    epsilon: ArrayLike,
    penalty: float,
    threshold: float,
    masks: ArrayLike,
    *,
    size_in_noise: Literal["realised", "fixed"] = "realised",
    bound: Bound = "paper",
    feature_norm: float | None = None,
    label_bound: float = 1.0,
) -> SampledRidge:
    r"""Return ridge estimates on sampled records with the noise rate of a `threshold`-private
    output perturbation.

    Ideal arithmetic only: :doc:`/book/privacy/limits`.

    Parameters
    ----------
    size_in_noise : {"realised", "fixed"}
        ``"realised"``: weights :math:`1/n_s` and rate :math:`t\,n_s/c` with the number :math:`n_s`
        of records kept (none is an error), as the ridge paper's experiments do. The noise then
        tells how many were kept, and there are data on which this is **not**
        :math:`\varepsilon_i`-private, only `t`-private. ``"fixed"``: weights :math:`1/m` and one
        rate, with :math:`m=\mathbb{E}\,n_s` known in advance, calibrated for total weights up to
        :math:`n/m`; this is :math:`\varepsilon_i`-private for every record, as
        :doc:`/book/ridge/limits` proves.
    """
    check_choice(size_in_noise, "size_in_noise", ("realised", "fixed"))
    features, labels = check_records(X, y, feature_norm=feature_norm, label_bound=label_bound)
    norm = float(np.sqrt(features.shape[1]) if feature_norm is None else feature_norm)
    sets = _check_masks(masks, len(labels), empty=size_in_noise == "fixed")
    # weights: one over the realised or over the expected size
    kept = sets.sum(1)
    eps = check_epsilon(epsilon, len(labels))
    expected = inclusion_probabilities(eps, threshold).sum()
    size = kept if size_in_noise == "realised" else np.full_like(kept, expected)
    total_weight = 1.0 if size_in_noise == "realised" else len(labels) / expected
    # the estimates, and the noise of a threshold-private output perturbation
    lam = check_penalty(penalty, norm * math.sqrt(total_weight))
    theta = weighted_ridge(features, labels, sets / size[:, None], lam)
    radius = estimate_norm_bound(lam, norm, bound, total_weight, label_bound)
    constant = sensitivity_constant(lam, norm, bound, radius, label_bound)
    privacy_loss = np.full(len(eps), float(threshold)) if size_in_noise == "realised" else eps
    return SampledRidge(theta, threshold * size / constant, kept, privacy_loss)


def _check_masks(masks: ArrayLike, n: int, empty: bool) -> Array:
    """Check sampled sets of `n` records; an empty set is refused unless it is allowed."""
    sets = check_finite(masks, "masks", 2)
    if sets.shape[1] != n:
        raise ValueError(f"masks must have shape (m, {n}), got {sets.shape}")
    if (odd := (sets != 0) & (sets != 1)).any():
        raise ValueError(f"masks must hold 0 and 1, got {sets[odd][0]}")
    kept = sets.sum(1)
    if not (empty or kept.all()):
        raise ValueError(
            f"masks[{int(np.argmin(kept))}] keeps no record: the realised size cannot set the noise"
        )
    return sets
