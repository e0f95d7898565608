r"""Settings of private regression that follow from public numbers alone.

They are those of :class:`~hdpm_lib.learners.estimators.PersonalizedRidge` and
:class:`~hdpm_lib.learners.estimators.PrivateLogisticRegression`, which perturb an objective
(:mod:`hdpm_lib.learners.objective`) of `d` coefficients, with losses that sum to `S`. All depends
on the loss for each coefficient, :math:`m=S/d`:

.. math::

    \eta\Lambda=3\kappa\sqrt{\max(1,20/m)},\qquad c=\min\bigl(1,c_0\sqrt{\max(1,m/100)}\bigr),

where :math:`\kappa` bounds second derivatives, 1 of squared losses and 1/4 of logistic ones, and
:math:`c_0` is 0.1 for labels and 0.3 for classes. The constants were chosen on 80 drawn problems
and three real ones, at equal losses of 0.3, 1, 3 and 10: over these the mean error is 3 % above
that of the best penalty and clip norm in hindsight (:doc:`/book/use/better`). At most a quarter of
a promise goes to the slack. The clip norm grows with the records because noise falls with them, and
the bias that a clip brings does not.
"""

from __future__ import annotations

import math

EXPLAINED = 0.25  # share of the labels' variance in the reference population
CURVATURE = {"squared": 1.0, "logistic": 0.25}  # second derivatives of a loss are at most
_SHORTEST = {"squared": 0.1, "logistic": 0.3}  # clip norms, where losses are small


def penalty_times_eta(loss: str, features: int, total_loss: float) -> float:
    r"""Return the :math:`\eta\Lambda` that losses and features ask for.

    Parameters
    ----------
    loss : {"squared", "logistic"}
        What a record adds to the objective.
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
        What a record adds to the objective.
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
    # limits of residuals are clip norm over norm, and residuals reach to the root of 3/4
    limit = clip_norm * math.sqrt(3 * features / (features + 2))
    kept = min(1.0, limit / math.sqrt(1 - EXPLAINED))
    curvature = kept / (3 * features)
    variance = (features + 1) / noise_rate**2
    along_features = (features - 1) / (3 * features) / (curvature + penalty) ** 2
    along_constant = 1 / features / (3 * curvature + penalty) ** 2
    shrunk = penalty / (curvature + penalty)
    bias = EXPLAINED * shrunk**2
    return 1 - EXPLAINED + bias + 3 * variance * (along_features + along_constant)
