r"""Settings of private regression that follow from public numbers alone.

They are those of :class:`~hdpm_lib.learners.estimators.PersonalizedRidge` and
:class:`~hdpm_lib.learners.estimators.PrivateLogisticRegression`, which perturb an objective
(:mod:`hdpm_lib.learners.objective`) of `d` coefficients, with losses that sum to `S`. All depends
on the loss for each coefficient, :math:`m=S/d`:

.. math::

    \eta\Lambda=3\kappa\sqrt{\max(1,20/m)},\qquad c=\min\bigl(1,c_0\sqrt{\max(1,m/100)}\bigr),

where :math:`\kappa` bounds second derivatives, 1 of squared losses and 1/4 of logistic ones, and
:math:`c_0` is 0.1 for labels and 0.3 for classes. The constants were chosen on 80 drawn problems
and three real ones, at equal losses of 0.3, 1, 3 and 10 (:doc:`/book/use/better`; tests hold them
beside the best of ten settings in hindsight). At most a quarter of a promise goes to the slack. The
clip norm grows with the records because noise falls with them, and the bias that a clip brings does
not.

With a `delta` they descend with noisy gradients instead (:mod:`hdpm_lib.learners.noisy_descent`).
What counts there is :math:`M=\sum_i\mu_i`, for the noise on a mean gradient is :math:`2c\sqrt T/M`.
Descent in `T` small steps that stops at the time :math:`G=\alpha T/(1-\beta)` shrinks coefficients
about as much as a ridge penalty of :math:`1/G` (Ali, Kolter and Tibshirani 2019, "A
Continuous-Time View of Early Stopping for Least Squares Regression"), and the noise that it leaves
depends on `G` and not on `T`. So `T` costs time alone, and `G` and `c` are all there is to choose:

.. math::

    G=\frac{6m}{d^{1/3}},\quad\frac1{m^2}=\frac1{M^2}+\frac1{9nd},\qquad
    c=\Bigl(\frac M{7000}\Bigr)^{0.6}

for labels, in [4, 6000] and [0.04, 1], and for classes :math:`G=24M`, in [16, 80000], and
:math:`c=0.15\sqrt{\max(1,M/1000)}`, at most 1. They were chosen on drawn problems, with a delta of
1e-6.
"""

from __future__ import annotations

import math

EXPLAINED = 0.25  # share of the labels' variance in the reference population
CURVATURE = {"squared": 1.0, "logistic": 0.25}  # second derivatives of a loss are at most
_SHORTEST = {"squared": 0.1, "logistic": 0.3}  # clip norms, where losses are small
STEPS = 200  # of a descent
AVERAGED = 0.3  # share of the steps, the last ones, whose coefficients are averaged
_MOMENTUM = 0.97  # at most


def penalty_times_eta(loss: str, features: int, total_loss: float) -> float:
    r"""Return the :math:`\eta\Lambda` that losses and features ask for.

    Parameters
    ----------
    loss : {"squared", "logistic"}
        Loss of a record in the objective.
    features : int
        Number of coefficients `d`, that of a constant included, positive.
    total_loss : float
        Sum `S` of the accepted privacy losses, positive.

    Returns
    -------
    float
        For features and labels over their bounds.

    Examples
    --------
    >>> penalty_times_eta("squared", 5, 400.0), penalty_times_eta("logistic", 5, 25.0)
    (3.0, 1.5)
    """
    scarce = max(1.0, 20 * features / total_loss)
    return 3 * CURVATURE[loss] * math.sqrt(scarce)


def default_clip_norm(loss: str, features: int, total_loss: float) -> float:
    """Return how long the gradient of a record is at most.

    Parameters
    ----------
    loss : {"squared", "logistic"}
        Loss of a record in the objective.
    features : int
        Number of coefficients `d`, that of a constant included, positive.
    total_loss : float
        Sum `S` of the accepted privacy losses, positive.

    Returns
    -------
    float
        At most 1, for features and labels over their bounds.

    Examples
    --------
    >>> default_clip_norm("squared", 5, 400.0), default_clip_norm("logistic", 5, 2000.0)
    (0.1, 0.6)
    """
    plenty = max(1.0, total_loss / (100 * features))
    return min(1.0, _SHORTEST[loss] * math.sqrt(plenty))


def expected_error(features: int, noise_rate: float, penalty: float, clip_norm: float) -> float:
    r"""Return the expected error of regression, in a reference population.

    There features are uniform in their ranges and independent, and a linear law explains the share
    :math:`h=1/4` of the variance that labels uniform in their range have; what is left is uniform,
    too. A share :math:`p` of the residuals is not clipped, so that the curvature is
    :math:`u=p/3d` along each feature and three times that along the constant. With noise of the
    variance :math:`\sigma^2=(d+1)/r^2` on each coordinate of the gradient, `r` being its rate, the
    error is to first order in it

    .. math::

        1-h+h\Bigl(\frac\Lambda{u+\Lambda}\Bigr)^2
        +3\sigma^2\Bigl(\frac{(d-1)/3d}{(u+\Lambda)^2}+\frac{1/d}{(3u+\Lambda)^2}\Bigr).

    Parameters
    ----------
    features : int
        Number of coefficients `d`, that of a constant included, positive.
    noise_rate : float
        Rate `r` of the spherical Laplace noise, positive.
    penalty : float
        The penalty :math:`\Lambda`, positive.
    clip_norm : float
        How long the gradient of a record is at most, positive.

    Returns
    -------
    float
        Over the variance of the labels: at least 3/4, the error of the linear law, and 1 or more
        where a constant is as good.

    Examples
    --------
    >>> [round(expected_error(5, 4 * total, 4 / total, 0.1), 3) for total in (400.0, 4000.0)]
    [0.81, 0.752]
    """
    curvature = _kept_curvature(features, clip_norm)
    variance = (features + 1) / noise_rate**2
    along_features = (features - 1) / (3 * features) / (curvature + penalty) ** 2
    along_constant = 1 / features / (3 * curvature + penalty) ** 2
    shrunk = penalty / (curvature + penalty)
    bias = EXPLAINED * shrunk**2
    return 1 - EXPLAINED + bias + 3 * variance * (along_features + along_constant)


# --- descent with a delta -----------------------------------------------------------------------


def stopping_time(loss: str, features: int, records: int, total_mu: float) -> float:
    """Return the time at which a descent stops: learning rate times steps, momentum counted.

    Parameters
    ----------
    loss : {"squared", "logistic"}
        Loss of a record in the objective.
    features : int
        Number of coefficients `d`, that of a constant included, positive.
    records : int
        Number of records that are not left out, `n`, positive.
    total_mu : float
        Sum `M` of all that may be told of records, positive.

    Returns
    -------
    float
        About one over a ridge penalty, for features and labels over their bounds. For labels it
        does not grow beyond what the error of so many records asks for, noise or not.

    Examples
    --------
    >>> round(stopping_time("squared", 8, 10_000, 100.0)), stopping_time("logistic", 8, 999, 100.0)
    (298, 2400.0)
    """
    if loss == "logistic":
        return min(max(16.0, 24 * total_mu), 80_000.0)
    known = total_mu / math.sqrt(1 + total_mu**2 / (9 * records * features))
    return min(max(4.0, 6 * known / features ** (1 / 3)), 6000.0)


def descent_clip_norm(loss: str, total_mu: float) -> float:
    """Return how long the gradient of a record is at most in a descent.

    Parameters
    ----------
    loss : {"squared", "logistic"}
        Loss of a record in the objective.
    total_mu : float
        Sum `M` of all that may be told of records, positive.

    Returns
    -------
    float
        At most 1, for features and labels over their bounds.

    Examples
    --------
    >>> descent_clip_norm("squared", 7000.0), descent_clip_norm("logistic", 4000.0)
    (1.0, 0.3)
    """
    if loss == "logistic":
        return min(1.0, 0.15 * math.sqrt(max(1.0, total_mu / 1000)))
    return min(max(0.04, (total_mu / 7000) ** 0.6), 1.0)


def rate_and_momentum(loss: str, time: float) -> tuple[float, float]:
    r"""Return the learning rate and the momentum with which a descent takes so much time.

    The momentum is the least with which the learning rate is at most :math:`2/\kappa`, where
    :math:`\kappa` bounds second derivatives, and at most 0.97. Descent is stable for every data set
    inside the bounds: a quadratic of the curvature `h`, at most :math:`\kappa`, asks for
    :math:`\alpha h\le2(1+\beta)`.

    Parameters
    ----------
    loss : {"squared", "logistic"}
        Loss of a record in the objective.
    time : float
        The :func:`stopping_time`.

    Returns
    -------
    learning_rate : float
        The learning rate of `STEPS` steps.
    momentum : float
        The momentum, in [0, 1).

    Examples
    --------
    >>> rate_and_momentum("squared", 100.0), rate_and_momentum("squared", 1600.0)
    ((0.5, 0.0), (2.0, 0.75))
    """
    longest = 2 / CURVATURE[loss]
    momentum = min(max(0.0, 1 - longest * STEPS / time), _MOMENTUM)
    return time / STEPS * (1 - momentum), momentum


def expected_descent_error(features: int, time: float, clip_norm: float, total_mu: float) -> float:
    r"""Return the expected error of regression by noisy descent, in the reference population.

    It is the population of :func:`expected_error`, with the curvature `u` along each feature and
    `3u` along the constant. In small steps coefficients along a curvature `h` follow, around
    :math:`(1-e^{-ht})` of what they would be in the end, an Ornstein-Uhlenbeck process with noise
    of the variance :math:`4c^2G/M^2` for each unit of time; both are averaged from :math:`0.7G` to
    `G`.

    Parameters
    ----------
    features : int
        Number of coefficients `d`, that of a constant included, positive.
    time : float
        The :func:`stopping_time`.
    clip_norm : float
        How long the gradient of a record is at most, positive.
    total_mu : float
        Sum `M` of all that may be told of records, positive.

    Returns
    -------
    float
        Over the variance of the labels: at least 3/4, the error of the linear law, and 1 or more
        where a constant is as good.

    Examples
    --------
    >>> [round(expected_descent_error(5, 100.0, 0.1, total), 3) for total in (100.0, 1000.0)]
    [0.8, 0.787]
    """
    curvature = _kept_curvature(features, clip_norm)
    diffusion = 4 * clip_norm**2 * time / total_mu**2
    along_features = (features - 1) / (3 * features) * _wandering(curvature * time)
    along_constant = 1 / features * _wandering(3 * curvature * time)
    bias = EXPLAINED * _mean_decay(curvature * time) ** 2
    return 1 - EXPLAINED + bias + 3 * diffusion * time * (along_features + along_constant)


def _kept_curvature(features: int, clip_norm: float) -> float:
    """Return the curvature along a feature in the reference population, of unclipped losses."""
    # limits of residuals are clip norm over norm, and residuals reach to the root of 3/4
    limit = clip_norm * math.sqrt(3 * features / (features + 2))
    kept = min(1.0, limit / math.sqrt(1 - EXPLAINED))
    return kept / (3 * features)


def _mean_decay(x: float) -> float:
    """Return the mean of the function exp(-xt) from 0.7 to 1."""
    width = AVERAGED * x
    return math.exp(-(1 - AVERAGED) * x) * -math.expm1(-width) / width


def _wandering(x: float) -> float:
    """Return the variance of the mean from 0.7 to 1 of an Ornstein-Uhlenbeck process.

    The process starts at 0. It falls back at the rate `x`, and noise has the variance 1 for each
    unit of time.
    """
    width = AVERAGED * x
    # 2 (width - 1 + exp(-width)) / width**2, which loses its digits near 0
    together = 1 - width / 3 + width**2 / 12
    if width > 1e-3:
        together = 2 * (width + math.expm1(-width)) / width**2
    return (together - _mean_decay(x) ** 2) / (2 * x)
