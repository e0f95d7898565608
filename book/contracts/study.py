r"""What pages on contracts share: unbiased answers, bounds that no algorithm beats, and a conic
solver as an oracle.

`n` is the number of sellers and `max_mse` is :math:`K`, the largest admissible mean squared error,
positive.

**Bounds.** An algorithm is `K`-accurate for the sum of `n` data in [0, 1] if its mean squared error
is at most `K` on every database. Seller `i` loses :math:`\varepsilon_i`. Every group :math:`I`
of `m` sellers then loses

.. math::

    \sum_{i\in I}\varepsilon_i\ge B_m=2\operatorname{arcosh}\max\Bigl(\frac m{2\sqrt K},1\Bigr).

Proofs are on the page :doc:`/book/contracts/answer`. Bounds take `max_mse` of any shape, which the
result has too; from :math:`K=n^2/4` on they are 0.

**Oracle.** A biased answer gives each of :math:`q` terms a share :math:`a_k\in[0,1]` and adds
Laplace noise of scale :math:`b`. Term :math:`k` has range :math:`w_k` and moves by at most
:math:`\Delta_k^j` with the data of seller :math:`j`, who loses
:math:`x_j=\sum_k\Delta_k^ja_k/b`. In :math:`y=\sqrt{K/2}/b` and :math:`e_k=a_ky` the least total
cost for the error :math:`K` is

.. math:: \min\sum_jv_jx_j^r,\quad x=\sqrt{2/K}\,\Delta^\top e,\quad 0\le e\le y,\quad
   \Big\lVert\Big(\frac{\sum_kw_k(y-e_k)}{2\sqrt K},\,1\Big)\Big\rVert\le y,

a convex program: (10) of the paper if :math:`\Delta` is diagonal, with :math:`w` on it, and (22) to
(24). The cone says that the error is *at most* :math:`K`, which costs the same
(:doc:`/book/contracts/allocation`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from hdpm_book.contracts.conic import solve_cone
from hdpm_lib.markets.contracts import (
    check_cost,
    check_power,
    check_valuations,
    equal_loss_contract,
)
from hdpm_lib.markets.mechanisms import paid_at_ceiling
from hdpm_lib.markets.outcome import Contract, Outcome
from hdpm_lib.validation import check_count, check_finite, check_positive, extra

with extra("book"):
    import clarabel

Array = NDArray[np.float64]

PEAK = 1.8101705806989775  # of arcosh(x) / x: cosh(t) with t tanh(t) = 1


def unbiased_contract(n: int, max_mse: float) -> Contract:
    """Return the unbiased answer: shares 1 and loss `sqrt(2 / max_mse)` for each of `n` sellers,
    (13) of the paper.
    """
    n = check_count(n, "n")
    K = check_positive(max_mse, "max_mse")
    loss = np.full(n, np.sqrt(2 / K))
    return Contract(
        loss, cost=loss.sum(), error=K, shares=np.ones(n), scale=np.asarray(np.sqrt(K / 2))
    )


def unbiased_pricing(
    valuations: ArrayLike, max_mse: float, ceiling: float, *, power: float
) -> Outcome:
    r"""Buy the unbiased answer by M3, each seller paid :math:`\bar v(2/K)^{r/2}` (Theorem 9)."""
    return paid_at_ceiling(unbiased_contract, valuations, max_mse, ceiling, power)


# --- bounds -------------------------------------------------------------------------------------


def _check_max_mse(max_mse: ArrayLike) -> Array:
    return check_finite(max_mse, "max_mse", None, 0, ends="()")


def total_loss_bound(n: int, max_mse: ArrayLike) -> Array:
    r"""Return the least total loss as the paper bounds it (Theorem 1), :math:`\ln\frac{(n-\sqrt
    K)^2}K`.

    Examples
    --------
    >>> total_loss_bound(10, [12.5, 25.0]).round(4)
    array([1.2069, 0.    ])
    """
    errors = float(check_count(n, "n")) / np.sqrt(_check_max_mse(max_mse))
    return np.asarray(2 * np.log(np.maximum(errors - 1, 1)))


def group_loss_bound(width: ArrayLike, max_mse: ArrayLike) -> Array:
    r"""Return the least sum :math:`B_m` of the privacy losses of a group of `width` members,
    :math:`m`.

    Examples
    --------
    >>> group_loss_bound([2, 3, 10], 1.0).round(4)
    array([0.    , 1.9248, 4.5849])
    """
    m = check_finite(width, "width", None, 0, ends="()")
    K = _check_max_mse(max_mse)
    with np.errstate(over="ignore"):
        u = m / (2 * np.sqrt(K))
    large = 2 * np.log(m) - np.log(K)  # the same from 1e9 on, to rounding
    return np.asarray(np.where(u < 1e9, 2 * np.arccosh(np.clip(u, 1, 1e9)), large))


def least_total_loss(n: int, max_mse: ArrayLike) -> Array:
    r"""Return a bound below the total privacy loss of every `K`-accurate algorithm:
    :math:`\max_{m\le n}\frac nmB_m`.

    Not from the paper; never below :func:`total_loss_bound`. The best `m` is next to the peak of
    :math:`\operatorname{arcosh}(x)/x` at :math:`x=m/(2\sqrt K)=1.81`, or `n` below it.

    Examples
    --------
    >>> least_total_loss(10, [0.01, 1.0, 12.5]).round(4)
    array([45.8486,  6.5848,  1.7627])
    """
    n = check_count(n, "n")
    K = _check_max_mse(max_mse)
    peak = PEAK * 2 * np.sqrt(K)
    m = np.clip([np.floor(peak), np.ceil(peak)], 1, n)
    return np.asarray((n / m * group_loss_bound(m, K)).max(axis=0))


def staircase_loss(n: int, max_mse: ArrayLike) -> Array:
    r"""Return the privacy loss of each seller under the biased answer with staircase noise,
    accurate to `K`.

    Staircase noise has the least variance at a privacy loss :math:`\varepsilon` (Geng and Viswanath
    2014), :math:`V=\bigl(2^{-2/3}\beta^{2/3}(1+\beta)^{2/3}+\beta\bigr)/(1-\beta)^2` with
    :math:`\beta=e^{-\varepsilon}`. The loss is the one at which it is :math:`K/(1-4K/n^2)`.

    Examples
    --------
    >>> 10 * staircase_loss(10, [0.01, 1.0, 12.5]).round(4)   # beside the bound of least_total_loss
    array([64.727, 13.349,  2.824])
    """
    K = _check_max_mse(max_mse)
    spare = 1 - 4 * K / check_count(n, "n") ** 2
    if not (needed := spare > 0).any():
        return np.zeros(K.shape)
    variance = np.where(needed, K / np.where(needed, spare, 1.0), 1.0)
    from scipy.optimize import elementwise  # loads slowly

    ends = np.full(K.shape, -40.0), np.full(K.shape, 8.0)  # of the logarithm of the loss
    found = elementwise.find_root(
        lambda t, V: log_staircase_mse(np.exp(t)) - np.log(V), ends, args=(variance,)
    )
    return np.where(needed, np.exp(found.x), 0.0)


def log_staircase_mse(epsilon: Array) -> Array:
    """Return the log variance of staircase noise, as the variance underflows far out."""
    beta = np.exp(-epsilon)
    tail = epsilon / 3 + np.log(-np.expm1(-epsilon))
    return np.asarray(np.log(2 ** (-2 / 3) * (1 + beta) ** (2 / 3) + np.cbrt(beta)) - 2 * tail)


def loss_curves(n: int, max_mse: ArrayLike) -> dict[str, Array]:
    """Return the total privacy loss of `n` sellers for each accuracy, shape (points,): three
    answers and two bounds.
    """
    K = check_finite(max_mse, "max_mse", 1)
    return {
        "unbiased": n * np.sqrt(2 / K),
        "biased": np.array([equal_loss_contract(n, k).cost for k in K]),
        "biased, staircase": n * staircase_loss(n, K),
        "no algorithm below": least_total_loss(n, K),
        "Khalili's Theorem 1": total_loss_bound(n, K),
    }


# --- the oracle ---------------------------------------------------------------------------------


def accuracy_cone(ranges: Array, max_mse: float) -> tuple[sparse.csr_array, Array, list[Any]]:
    """Return `A`, `right` and cones with `right - A (e, y)` in the cones."""
    q = len(ranges)
    w = ranges / (2 * np.sqrt(max_mse))
    eye = sparse.eye_array(q)
    zero = np.zeros((q, 1))
    one = np.ones((q, 1))
    cone = [[zero.T, [[-1]]], [w[None], [[-w.sum()]]], [zero.T, [[0]]]]
    A = sparse.csr_array(sparse.block_array([[-eye, zero], [eye, -one], *cone]))
    return (
        A,
        np.append(np.zeros(2 * q + 2), 1.0),
        [clarabel.NonnegativeConeT(2 * q), clarabel.SecondOrderConeT(3)],
    )


def conic_power(
    valuations: ArrayLike,
    max_mse: float,
    *,
    power: float,
    sensitivity: ArrayLike | None = None,
    ranges: ArrayLike | None = None,
) -> Contract:
    r"""Return the least total cost :math:`\sum_jv_jx_j^r` for the accuracy, by a conic solver:
    problems (10), (22) and (23).

    Where :math:`K\ge(\sum w/2)^2` nobody's data are needed: shares and cost are 0. Where terms
    without data of anybody with a positive valuation suffice, they have share 1 and the cost is 0;
    if they just suffice, this is a limit that no finite loss attains, and `scale` is 0.
    :func:`hdpm_lib.markets.contracts.least_cost_contract`, which has no code in common with this,
    is more exact.

    Parameters
    ----------
    valuations : array_like of shape (n,), finite, not negative
    power : float, at least 1
    sensitivity : array_like of shape (q, n), not negative
        :math:`\Delta`, or ``diag(ranges)``, the linear query, if not given.
    ranges : array_like of shape (q,), positive
        :math:`w`, or 1 each.

    Returns
    -------
    Contract
        A share for each term and a privacy loss for each seller; the error is exactly `K`.

    Examples
    --------
    >>> example = conic_power([1.0, 1.0], 0.2, power=1, sensitivity=[[1.0, 0.5], [0.5, 0.0]])
    >>> round(float(example.cost), 6)   # Example 1
    4.690416
    """
    v = check_finite(check_valuations(valuations), "valuations", 1)
    K = check_positive(max_mse, "max_mse")
    r = check_power(power)
    delta = None if sensitivity is None else check_finite(sensitivity, "sensitivity", 2, 0)
    terms = len(v) if delta is None else len(delta)
    w = np.ones(terms) if ranges is None else check_finite(ranges, "ranges", 1, 0, ends="()")
    if len(w) != terms:
        raise ValueError(f"ranges must be {terms} positive numbers, got {w}")
    delta = np.diag(w) if delta is None else delta
    if delta.shape[1] != len(v):
        raise ValueError(f"sensitivity must have {len(v)} columns, got shape {delta.shape}")

    def contract(shares: Array) -> Contract:
        """Answer with all the noise that the accuracy admits."""
        scale = np.sqrt(max(K - float(w @ (1 - shares) / 2) ** 2, 0.0) / 2)
        lost = shares @ delta
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            epsilon = np.where(lost > 0, lost / scale, 0.0)
            cost = np.where(v > 0, v * epsilon**r, 0.0).sum()
        return Contract(epsilon, cost=cost, shares=shares, scale=np.asarray(scale))

    # equal shares, as in Theorem 4
    best = contract(np.full(terms, max(1 - 4 * K / w.sum() ** 2, 0.0)))
    free = ~((delta > 0) @ (v > 0))
    if not best.shares.any():
        return best
    if (w @ ~free) ** 2 <= 4 * K:
        return contract(free.astype(float))
    check_cost(best.cost, K, r)
    loss = sparse.csr_array(np.sqrt(2 / K) * np.column_stack([delta.T, np.zeros(len(v))]))[v > 0]
    # prices in units of the cost, so that the solver's tolerances mean the same for all
    while True:
        z = _least_power_cost(v[v > 0] / best.cost, loss, *accuracy_cone(w, K), power=r)
        found = contract(np.clip(z[:terms] / z[terms], 0, 1))
        if found.scale == 0:
            raise RuntimeError(
                f"the solver's shares {found.shares} leave no noise at max_mse = {K}"
            )
        if found.cost > best.cost / 2:
            return found
        best = found


def _least_power_cost(
    price: Array,
    loss: sparse.csr_array,
    A: sparse.csr_array,
    right: Array,
    cones: list[Any],
    *,
    power: float,
) -> Array:
    """Return the minimiser of the sum of `price * (loss @ z) ** power` with `right - A z` in the
    cones; prices are positive.
    """
    if power == 1:
        return solve_cone(loss.T @ price, A, right, cones)
    if power == 2:
        return solve_cone(np.zeros(A.shape[1]), A, right, cones, P=2 * (loss.T * price) @ loss)
    # For each payer a bound t on her cost, the number 1, and her loss times the r-th root of her
    # price
    m = len(price)
    bound = sparse.kron(sparse.eye_array(m), [[-1.0], [0.0], [0.0]])
    priced = sparse.kron(sparse.diags_array(price ** (1 / power)) @ loss, [[0.0], [0.0], [-1.0]])
    cost = np.repeat([0.0, 1.0], [A.shape[1], m])
    right = np.append(right, np.tile([0.0, 1.0, 0.0], m))
    A = sparse.block_array([[A, None], [priced, bound]])
    return solve_cone(cost, A, right, cones + [clarabel.PowerConeT(1 / power)] * m)
