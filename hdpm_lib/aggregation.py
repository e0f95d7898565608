r"""Weights for noisy gradients: the least error bound of FL-Market, exactly.

Owner :math:`i` has the share :math:`W_i` of all records and adds Laplace noise of scale
:math:`2L/\varepsilon_i` to every coordinate of a gradient whose norm is at most :math:`L`. With
weights :math:`\lambda` on the simplex the bound is

.. math::

   \mathrm{ERR}(\lambda)=\sum_i\lambda_i^2\sigma_i+L^2\Bigl(\sum_i|\lambda_i-W_i|\Bigr)^2,\qquad
   \sigma_i=\frac{8DL^2}{\varepsilon_i^2},

where the variance of :math:`D` coordinates is counted: Problem 1 of Zheng, Cao, Yoshikawa, Li and
Yan (2021), FL-Market: Trading Private Models in Federated Learning.

Put :math:`q_i=\varepsilon_i^2`, :math:`\kappa=1/(2D)`, :math:`S_0` for the shares of owners who do
not sell and, over the others, :math:`P_+(\alpha)=\sum\max(0,\alpha q_i-W_i)` and
:math:`P_-(\beta)=\sum\max(0,W_i-\beta q_i)`. The best weights are
:math:`\max(\alpha q_i,\min(W_i,\beta q_i))` with :math:`\beta=\alpha+\kappa P_+(\alpha)` and
:math:`P_+(\alpha)-P_-(\beta)=S_0`. This is one increasing, piecewise linear equation, solved by
sorting its breakpoints :math:`\theta_i=W_i/q_i`, in time :math:`O(n\log n)`; the proof is in
:doc:`/book/federated/aggregation`. None of this depends on :math:`L`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.bisection import count_while
from hdpm_lib.validation import check_count, check_finite, check_positive

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Index = NDArray[np.intp]
NEGLIGIBLE = 1e-100  # squared loss in units of the largest; an owner below does not sell


def _checked(epsilon: ArrayLike, sizes: ArrayLike) -> tuple[Array, Array]:
    """Check the arguments: privacy losses and shares of one shape."""
    eps = check_finite(epsilon, "epsilon", low=0)
    size = check_finite(sizes, "sizes", low=0, ends="()")
    if eps.ndim == 0 or eps.shape[-1:] != size.shape[-1:]:
        raise ValueError(
            f"epsilon and sizes must have shape (..., n), got {eps.shape} and {size.shape}"
        )
    eps, size = np.broadcast_arrays(eps, size)
    return eps, size / size.sum(-1, keepdims=True)


def size_weights(epsilon: ArrayLike, sizes: ArrayLike) -> Array:
    """Weight owners who sell in proportion to their numbers of records.

    Parameters
    ----------
    epsilon : array_like of shape (..., n)
        Privacy losses, finite and not negative; 0 for an owner who does not sell.
    sizes : array_like of shape (..., n)
        Numbers of records, positive.

    Returns
    -------
    array of shape (..., n)
        Weights that sum to 1; 0 for an owner who does not sell. Where nobody sells they are the
        shares of all records.

    Notes
    -----
    This is the usual average of federated learning, the baseline ConvAggr of FL-Market. It ignores
    how noisy each gradient is.

    References
    ----------
    Zheng, S., Cao, Y., Yoshikawa, M., Li, H. and Yan, Q. (2021). FL-Market: Trading Private Models
    in Federated Learning. arXiv:2106.04384.

    Examples
    --------
    >>> size_weights([1.0, 2.0, 0.0], [10, 30, 60])
    array([0.25, 0.75, 0.  ])
    """
    eps, shares = _checked(epsilon, sizes)
    kept = np.where((eps > 0) | (eps == 0).all(-1, keepdims=True), shares, 0.0)
    return np.asarray(kept / kept.sum(-1, keepdims=True))


def error_bound(
    weights: ArrayLike,
    epsilon: ArrayLike,
    sizes: ArrayLike,
    clip_norm: float = 1.0,
    *,
    coordinates: int = 1,
) -> Array:
    r"""Return the largest mean squared error of the weighted gradient: Problem 1's objective.

    Parameters
    ----------
    weights : array_like of shape (..., n)
        Weight of each owner's noisy gradient, finite.
    epsilon : array_like of shape (..., n)
        Privacy losses, finite and not negative; 0 for an owner who does not sell.
    sizes : array_like of shape (..., n)
        Numbers of records, positive.
    clip_norm : float, default 1.0
        Largest :math:`L_1` norm of a gradient, positive.
    coordinates : int, default 1
        Length `D` of the gradient: take the number of the model's parameters, for the squared error
        of the whole vector. At 1 the bound is the one that the authors' published code computes.

    Returns
    -------
    array of shape (...)
        The bound for each market. It is infinite where an owner with privacy loss 0 has weight, or
        where floats do not hold it, as at a loss next to 0.

    Notes
    -----
    With :math:`W_i` the shares of the records, those of all owners counted, it is

    .. math::

        L^2\Bigl(8D\sum_i\lambda_i^2/\varepsilon_i^2
        +\bigl(\sum_i|\lambda_i-W_i|\bigr)^2\Bigr),

    the variance of the Laplace noise, and the square of the bias from weights that are not the
    shares.

    References
    ----------
    Zheng, S., Cao, Y., Yoshikawa, M., Li, H. and Yan, Q. (2021). FL-Market: Trading Private Models
    in Federated Learning. arXiv:2106.04384. Problem 1.

    Examples
    --------
    Two owners sell, who have half of all records between them:

    >>> float(error_bound([0.5, 0.5, 0.0], [2.0, 2.0, 0.0], [1, 3, 4]))
    2.0
    """
    eps, shares = _checked(epsilon, sizes)
    weight = check_finite(weights, "weights")
    if weight.shape[-1:] != eps.shape[-1:]:
        raise ValueError(f"weights must have shape (..., {eps.shape[-1]}), got {weight.shape}")
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        noise = (np.where(weight == 0, 0.0, weight / eps) ** 2).sum(-1)
    bias = np.abs(weight - shares).sum(-1)
    scale = check_positive(clip_norm, "clip_norm") ** 2
    with np.errstate(over="ignore"):
        bound = scale * (8 * check_count(coordinates, "coordinates") * noise + bias**2)
    return np.asarray(bound)


def least_error_weights(epsilon: ArrayLike, sizes: ArrayLike, *, coordinates: int = 1) -> Array:
    r"""Compute the weights of least error bound for noisy gradients, exactly.

    Parameters
    ----------
    epsilon : array_like of shape (..., n)
        Privacy losses, finite and not negative; 0 for an owner who does not sell.
    sizes : array_like of shape (..., n)
        Numbers of records, positive.
    coordinates : int, default 1
        Length of the gradient, for the squared error of the whole vector. At 1 the bound is the one
        that the authors' published code computes.

    Returns
    -------
    array of shape (..., n)
        Weights that sum to 1, positive for all who sell and 0 for the others. Where nobody sells
        every bound is infinite, and the weights are the shares of the records.

    Notes
    -----
    These weights minimise :func:`error_bound`, whatever the norm of clipping. Owners who do not
    sell stay in its bias: Problem 1, and not Problem 3, which leaves them out. This replaces the
    solver of Algorithm 2, OptAggr. A loss below :math:`10^{-50}` times the largest does not count.
    Time :math:`O(n\log n)`.

    References
    ----------
    Zheng, S., Cao, Y., Yoshikawa, M., Li, H. and Yan, Q. (2021). FL-Market: Trading Private Models
    in Federated Learning. arXiv:2106.04384. Problem 1 and Algorithm 2.

    Examples
    --------
    Three hospitals have 100, 100 and 200 records. The first sells a privacy loss of 2.0, the second
    one of 0.5, the third nothing. The first gradient has a quarter of the noise, and counts more:

    >>> weights = least_error_weights([2.0, 0.5, 0.0], [100, 100, 200])
    >>> weights.round(5)
    array([0.86842, 0.13158, 0.     ])
    >>> float(error_bound(weights, [2.0, 0.5, 0.0], [100, 100, 200]).round(3))
    3.592
    """
    eps, shares = _checked(epsilon, sizes)
    return _solve(eps, shares, check_count(coordinates, "coordinates"))


# --- the equation -------------------------------------------------------------------------------


def _take(array: Array, index: Index) -> Array:
    """Take the entry of each market at its `index`; the last one beyond the end."""
    return np.take_along_axis(array, np.minimum(index, array.shape[-1] - 1), -1)


def _sum(mask: Mask, values: Array) -> Array:
    """Sum over the owners in the `mask`."""
    return np.asarray((mask * values).sum(-1, keepdims=True))


class _Breakpoints(NamedTuple):
    """The breakpoints in order, and what the equation needs at each; sums of positive terms only.

    Attributes
    ----------
    theta : array of shape (..., n)
        The breakpoints.
    plus, minus : arrays of shape (..., n)
        `P_+` and `P_-` there.
    mass : array of shape (..., n)
        The sum of `q` from each on.
    """

    theta: Array
    plus: Array
    minus: Array
    mass: Array

    def deficit(self, beta: Array) -> Array:
        """Return `P_-` at any `beta`."""
        k = (self.theta < beta).sum(-1, keepdims=True)
        beyond = _take(self.minus, k) + _take(self.mass, k) * (_take(self.theta, k) - beta)
        return np.where(k < self.theta.shape[-1], beyond, 0.0)


def _breakpoints(theta: Array, q: Array) -> _Breakpoints:
    """Sort the breakpoints and sum up what the equation needs."""
    order = np.argsort(theta, axis=-1)
    ranked = np.take_along_axis(theta, order, -1)
    ranked_q = np.take_along_axis(q, order, -1)
    gaps = np.diff(ranked, axis=-1)
    mass = np.cumsum(ranked_q[..., ::-1], axis=-1)[..., ::-1]
    plus = np.zeros_like(ranked)
    minus = np.zeros_like(ranked)
    # In place: a new array takes longer than the sums in it
    upward = np.cumsum(ranked_q[..., :-1], axis=-1, out=plus[..., 1:])
    upward *= gaps
    np.cumsum(upward, axis=-1, out=upward)
    gaps *= mass[..., 1:]
    np.cumsum(gaps[..., ::-1], axis=-1, out=minus[..., -2::-1])
    return _Breakpoints(ranked, plus, minus, mass)


def _solve(eps: Array, shares: Array, coordinates: int) -> Array:
    """Compute the best weights, as the module's head has them."""
    # Who sells; q in units of the largest, so that kappa stands for the 1/2 of the theorem
    unit = eps.max(-1, keepdims=True)
    q = (eps / np.where(unit > 0, unit, 1.0)) ** 2
    sells = q > NEGLIGIBLE
    most = 1e125  # a loss beyond which the noise is too small to count
    kappa = np.minimum(unit, most) ** 2 / (2 * coordinates)
    idle = _sum(~sells, shares)

    # The breakpoints; an owner who does not sell has no mass there
    theta = shares / (q + ~sells)
    at = _breakpoints(theta, q * sells)
    everybody = np.full(idle.shape, theta.shape[-1])

    # Bisect for the last breakpoint where P_+ - P_- < S_0: up to there owners are raised
    def below_root(j: Index) -> Mask:
        surplus = _take(at.plus, j)
        beta = _take(at.theta, j) + kappa * surplus
        return np.asarray(surplus - idle < at.deficit(beta))

    j = count_while(below_root, everybody)
    up = sells & (theta <= np.where(j > 0, _take(at.theta, j - 1), -np.inf))
    r_up = _sum(up, q)
    w_up = _sum(up, shares)

    # Given them, bisect for the first breakpoint beyond beta: from there owners are lowered
    def below_beta(k: Index) -> Mask:
        alpha = (_take(at.theta, k) + kappa * w_up) / (1 + kappa * r_up)
        return np.asarray(alpha * r_up - w_up - idle <= _take(at.minus, k))

    k = count_while(below_beta, everybody)
    down = sells & (theta >= np.where(k < everybody, _take(at.theta, k), np.inf)) & ~up
    r_down = _sum(down, q)
    w_down = _sum(down, shares)

    # The root, and beta there, without cancellation
    total = r_up + r_down + kappa * r_up * r_down
    total = np.where(total > 0, total, 1.0)
    moving = w_up + w_down + idle
    alpha = (moving + kappa * r_down * w_up) / total
    beta = (moving + kappa * r_up * (w_down + idle)) / total
    weights = shares * (sells | (unit == 0))
    weights = np.where(down, beta * q, weights)
    return np.where(up, alpha * q, weights)
