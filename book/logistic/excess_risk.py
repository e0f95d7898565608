r"""How far the error of a private classifier can be above its objective, and the weights that this bound asks for.

On records that are drawn independently from one law, coefficients of norm at most :math:`\beta` err with a probability
of at most their objective, logarithms to base 2, plus the *excess risk*

.. math:: \mu\lVert a\rVert+\frac\sigma\eta,

outside an event of small probability, if the weights :math:`a` (not negative, sum 1) and the rate :math:`\eta` do not
depend on the records. Theorem II.4 of the logistic paper prints constants :math:`\mu,\sigma`; its proof as written
gives others, and a shorter proof smaller ones. They are functions of the largest norm :math:`\beta` of the
coefficients (`norm_bound`, positive), the number `n` of features (`dimension`), and the probabilities :math:`\delta`
and :math:`\delta'` that are given away for the records and for the noise (`delta`, `delta_noise`, between 0 and 1).
Below, :math:`L=\ln(1/\delta)`. :doc:`/book/logistic/risk` has the proofs.

Sellers who accept noise parts :math:`\epsilon_i` of their privacy losses (`epsilon`, of shape (m,), positive) leave a
choice of weights, of shape (m,), and rate with :math:`a_i\eta\le\epsilon_i`; both functions below return the pair.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.noise import norm_law
from hdpm_lib.validation import check_epsilon, check_finite, check_number, check_positive

Array = NDArray[np.float64]


def choose_weights(epsilon: ArrayLike, sigma_over_mu: float) -> tuple[Array, float]:
    r"""Weights, all positive, and noise rate of least excess risk within given privacy losses, without the records.

    `sigma_over_mu`, in units of `epsilon` and not negative, says how much noise counts against uneven weights: 0 gives
    equal weights, infinity weights proportional to `epsilon`. In general :math:`a_i\eta=\min\{\epsilon_i,\tau\}`, with
    a :math:`\tau` that one sort finds: :doc:`/book/logistic/risk`.

    Examples
    --------
    >>> weights, eta = choose_weights([1.0, 3.0], 0.4)
    >>> (weights * eta).round(4), round(eta, 4)
    (array([1.    , 1.8364]), 2.8364)
    """
    infinite = isinstance(sigma_over_mu, float) and sigma_over_mu == math.inf
    ratio = sigma_over_mu if infinite else check_number(sigma_over_mu, "sigma_over_mu", 0)
    eps, unit = _scaled(check_epsilon(epsilon))
    tau = _level(np.sort(eps), ratio / unit)  # where g(tau) is the ratio
    kept = np.minimum(eps, tau)
    return kept / kept.sum(), float(kept.sum() * unit)


def _scaled(epsilon: Array) -> tuple[Array, float]:
    """Privacy losses in units of a power of two, which rounds nothing: their squares might overflow."""
    most, least = epsilon.max(), epsilon.min()
    if not most * 1e-150 < least:
        raise ValueError(f"epsilon must span less than 150 orders of magnitude, got {least} to {most}")
    unit = 2.0 ** min(max(math.frexp(most)[1], -1000), 1000)
    scaled = epsilon / unit
    if not math.isfinite(float(scaled.sum()) * unit):
        raise ValueError(f"epsilon must have a finite sum, got values up to {most}")
    return scaled, unit


def _level(eps: Array, ratio: float) -> float:
    """The root `tau`, for sorted privacy losses; the largest of them if there is none below."""
    first, second = np.cumsum(eps), np.cumsum(eps**2)
    rest = np.arange(len(eps) - 1, -1, -1)  # how many lie above the k-th
    at = (eps * first - second) / np.sqrt(second + rest * eps**2)  # g at each of the values
    k = int(np.searchsorted(np.maximum.accumulate(at), ratio, "right")) - 1  # tau lies from the k-th on
    if k < 0 or k == len(eps) - 1:
        return float(eps[k])
    s, t, n = first[k], second[k], rest[k]  # (tau s - t)^2 = ratio^2 (t + n tau^2), the larger root
    root = (s * t + ratio * math.sqrt(t * max(s**2 + n * (t - ratio**2), 0))) / (s**2 - n * ratio**2)
    return float(np.clip(root, eps[k], eps[k + 1]))


def weights_for_losses(epsilon: ArrayLike, losses: ArrayLike, mu: float, sigma: float) -> tuple[Array, float]:
    r"""Weights and noise rate of least weighted loss plus excess risk, within given privacy losses.

    One step of the joint objective of Eq. (3) in the TMLR version, with the coefficients held fixed. Losses come from
    the records, so that a model with these weights is **not** private; :func:`choose_weights` does not look at them.

    Parameters
    ----------
    losses : array of shape (m,)
        Of each record at the present coefficients. Where one is too large the weight is 0.
    mu, sigma : float, positive
        For given noise, `sigma` is what is divided by eta in the objective, the noise term included.

    Notes
    -----
    Dinkelbach's method for the ratio :math:`(\sum_ie_i\ell_i+\mu\lVert e\rVert+\sigma)/\sum_ie_i`, :math:`e_i=a_i\eta`:
    minimise numerator minus :math:`t` times denominator by one sort, put :math:`t` to the ratio there, and repeat.

    Examples
    --------
    >>> weights, eta = weights_for_losses([1.0, 3.0, 3.0], [0.0, 0.1, 9.0], 1.0, 1.0)
    >>> weights.round(4), round(eta, 4)
    (array([0.25, 0.75, 0.  ]), 4.0)
    """
    eps, loss = check_epsilon(epsilon), check_finite(losses, "losses", 1)
    if len(loss) != len(eps):
        raise ValueError(f"losses has {len(loss)} entries for {len(eps)} privacy losses")
    check_finite(loss, "losses", 1, -1e100, 1e100)
    for constant, name in ((mu, "mu"), (sigma, "sigma")):
        check_number(check_positive(constant, name), name, 1e-100, 1e100)
    eps, unit = _scaled(eps)
    sigma /= unit
    kept, value = eps, np.inf
    while (new := float((kept @ loss + mu * np.linalg.norm(kept) + sigma) / kept.sum())) < value:
        best, value = kept, new
        kept = _inner(eps, np.maximum(value - loss, 0) / mu)
    return best / best.sum(), float(best.sum() * unit)


def _inner(eps: Array, gain: Array) -> Array:
    """The `e = min(r gain, eps)` of norm `r`."""
    reach = np.divide(eps, gain, out=np.full_like(eps, np.inf), where=gain > 0)  # the r at which each meets its eps
    order = np.argsort(reach)
    capped = np.cumsum(eps[order] ** 2)
    free = np.append(np.cumsum(gain[order][::-1] ** 2)[::-1][1:], 0.0)
    r = np.sqrt(np.divide(capped, 1 - free, out=np.full_like(eps, np.inf), where=free < 1))
    return np.minimum(r[np.argmax(r <= np.append(reach[order][1:], np.inf))] * gain, eps)


@dataclass(frozen=True)
class ExcessRisk:
    r"""Constants of a bound: error at most objective, logarithms to base 2, plus excess risk.

    It holds with probability `confidence`, at once for all coefficients within the norm bound.
    """

    mu: float
    sigma: float
    confidence: float

    def __call__(self, weights: ArrayLike, eta: ArrayLike) -> Array:
        r"""Excess risk :math:`\mu\lVert a\rVert+\sigma/\eta` of weights of shape (..., m) and rates of shape (...)."""
        return np.asarray(self.mu * np.linalg.norm(np.asarray(weights), axis=-1) + self.sigma / np.asarray(eta))


def survival_inverse(probability: float, dimension: int) -> float:
    r"""The number :math:`v^{-1}(\delta')`: noise of rate :math:`\eta/2` is longer than it over eta that often.

    It is the inverse of :math:`v(t)=e^{-t/2}\sum_{k<n}(t/2)^k/k!`, Eq. (27).

    Examples
    --------
    >>> round(survival_inverse(0.05, 30), 3)
    79.082
    """
    return float(norm_law(dimension, 0.5).isf(_check_probability(probability, "probability")))


def printed_constants(
    norm_bound: float, dimension: int, delta: float, delta_noise: float, *, log_base: float = 2.0
) -> ExcessRisk:
    r"""The constants of Theorem II.4 as printed, with `log_base` for the one logarithm that is printed without a base.

    They are :math:`\mu=\frac{3L}{\sqrt2}\log(1+e^\beta)+\frac\beta{\ln2}` and
    :math:`\sigma=\bigl(\frac{6L}{\sqrt2}+1\bigr)2\beta v^{-1}(\delta')`. The bound holds for base 2 and
    :math:`\delta\le0.466`, by :func:`shorter_constants`. For the natural logarithm it is false.

    Examples
    --------
    >>> constants = printed_constants(1.0, 30, 0.05, 0.05)
    >>> round(constants.mu, 2), round(constants.sigma), round(constants.confidence, 2)
    (13.48, 2168, 0.9)
    """
    beta, spread, L = _check_bound(norm_bound, dimension, delta, delta_noise)
    check_number(log_base, "log_base", 1, ends="()")
    logarithm = np.logaddexp(0, beta) / math.log(log_base)
    mu = 3 * L / math.sqrt(2) * logarithm + beta / math.log(2)
    return ExcessRisk(float(mu), (6 * L / math.sqrt(2) + 1) * 2 * beta * spread, 1 - delta - delta_noise)


def proof_constants(norm_bound: float, dimension: int, delta: float, delta_noise: float) -> ExcessRisk:
    r"""What the printed proof of Theorem II.4 gives, step by step.

    They are :math:`\mu=3\sqrt{L/2}\log_2(1+e^\beta)+\frac{2\beta}{\ln2}` and
    :math:`\sigma=(3\sqrt{L/2}+1)2\beta v^{-1}(\delta')`. McDiarmid's inequality is used twice, so that :math:`2\delta`
    is given away.
    """
    beta, spread, L = _check_bound(norm_bound, dimension, delta, delta_noise)
    deviation = 3 * math.sqrt(L / 2)
    mu = deviation * np.logaddexp(0, beta) / math.log(2) + 2 * beta / math.log(2)
    return ExcessRisk(float(mu), (deviation + 1) * 2 * beta * spread, 1 - 2 * delta - delta_noise)


def shorter_constants(norm_bound: float, dimension: int, delta: float, delta_noise: float) -> ExcessRisk:
    r"""Smaller constants, from a shorter proof.

    They are :math:`\mu=\bigl(2+\sqrt{L/2}\bigr)\frac\beta{\ln2}` and :math:`\sigma=\beta v^{-1}(\delta')`. If the
    objective that is compared with has natural logarithms, divide it, and `sigma`, by :math:`\ln2`.
    """
    beta, spread, L = _check_bound(norm_bound, dimension, delta, delta_noise)
    return ExcessRisk((2 + math.sqrt(L / 2)) * beta / math.log(2), beta * spread, (1 - delta) * (1 - delta_noise))


def _check_probability(value: float, name: str) -> float:
    return check_number(value, name, 0, 1, ends="()")


def _check_bound(norm_bound: float, dimension: int, delta: float, delta_noise: float) -> tuple[float, float, float]:
    """The norm bound, the quantile of the noise and ln(1/delta)."""
    spread = survival_inverse(_check_probability(delta_noise, "delta_noise"), dimension)
    return check_positive(norm_bound, "norm_bound"), spread, -math.log(_check_probability(delta, "delta"))
