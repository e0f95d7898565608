r"""Theorem 5 and Algorithm 1 of the contract paper as they are printed, and the unbiased answer, kept to be judged.

Use :func:`hdpm_lib.markets.contracts.least_cost_contract` for contracts. Both printed rules can miss the accuracy or
the least cost; the chapter shows where. Each takes the readings that the printed text leaves open as arguments.

Throughout, `valuations` of shape (n,) are finite and not negative, and `max_mse` is :math:`K`, positive and below
:math:`n^2/4`. Contracts are in the order of the input.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.markets.contracts import check_power, check_valuations
from hdpm_lib.markets.mechanisms import paid_at_ceiling
from hdpm_lib.markets.outcome import Contract, Outcome
from hdpm_lib.validation import check_choice, check_count, check_finite, check_positive

Array = NDArray[np.float64]


def unbiased_contract(n: int, max_mse: float) -> Contract:
    """The unbiased answer: shares 1 and loss `sqrt(2 / max_mse)` for each of `n` sellers, (13) of the paper."""
    n, K = check_count(n, "n"), check_positive(max_mse, "max_mse")
    loss = np.full(n, np.sqrt(2 / K))
    return Contract(loss, cost=loss.sum(), error=K, shares=np.ones(n), scale=np.asarray(np.sqrt(K / 2)))


def unbiased_pricing(valuations: ArrayLike, max_mse: float, ceiling: float, *, power: float) -> Outcome:
    r"""M3: the unbiased answer, each seller paid :math:`\bar v(2/K)^{r/2}` (Theorem 9)."""
    return paid_at_ceiling(unbiased_contract, valuations, max_mse, ceiling, power)


def _sellers(valuations: ArrayLike, max_mse: float) -> tuple[Array, float]:
    v = check_valuations(check_finite(valuations, "valuations", 1))
    K = check_positive(max_mse, "max_mse")
    if len(v) ** 2 <= 4 * K:
        raise ValueError(f"max_mse must be below n^2/4 = {len(v) ** 2 / 4} for the printed rules, got {K}")
    return v, K


def theorem5_terms(valuations: ArrayLike, max_mse: float) -> Array:
    r"""The numbers :math:`s_1,\dots,s_n` of Theorem 5, for sellers in order of their valuations.

    .. math:: s_{i+1}=n-i-\frac{4Kv_{i+1}}{(n-i)v_{i+1}+\sum_{j\le i}v_j}

    Where the fraction is 0/0, for leading zeros, its limit is taken.

    Examples
    --------
    >>> theorem5_terms([1.0, 2.0], 0.25).round(4)   # (18) of the paper
    array([1.5   , 0.3333])
    """
    v, K = _sellers(valuations, max_mse)
    return _terms(np.sort(v), K)


def _terms(v: Array, K: float) -> Array:
    left = len(v) - np.arange(len(v))
    total = left * v + np.cumsum(v) - v
    return left - 4 * K * np.divide(v, total, out=1.0 / left, where=total > 0)


def theorem5(valuations: ArrayLike, max_mse: float, *, bracket: str = "floor", scale: str = "printed") -> Contract:
    r"""The printed rule for the cost :math:`v\varepsilon`, (11). Numbers that it leaves undefined are not-a-number.

    Parameters
    ----------
    bracket : str
        The terms :math:`s_{i+1}` are used for :math:`i` from `"floor"` or `"ceiling"` of :math:`n-2\sqrt K` on. The
        words of the theorem say floor, its symbol reads as a ceiling in our text.
    scale : str
        `"printed"`: the formula for :math:`b^*` in (11). `"accuracy"`: the scale that meets the accuracy.

    Examples
    --------
    >>> rule = theorem5([0.1, 1.0], 0.3)   # the cap binds: the error is 0.46 instead of 0.3
    >>> rule.shares, round(float(0.5**2 + 2 * rule.scale**2), 2)
    (array([1., 0.]), 0.46)
    """
    check_choice(bracket, "bracket", ("floor", "ceiling"))
    check_choice(scale, "scale", ("printed", "accuracy"))
    v, K = _sellers(valuations, max_mse)
    n, order, first = len(v), np.argsort(v), len(v) - 2 * math.sqrt(K)
    ascending = v[order]

    # The terms s_1, ..., s_n, and the first of them that is not positive
    s = _terms(ascending, K)
    s[: math.floor(first) if bracket == "floor" else math.ceil(first)] = np.nan
    below = np.flatnonzero(s <= 0)
    m = int(below[0]) if below.size else n  # counted from 1

    # Shares: 1 before seller m, nothing after her
    shares = np.zeros(n)
    shares[: m - 1] = 1
    shares[m - 1] = np.minimum(s[m - 1], 1)

    # The noise
    if scale == "printed":
        total = (n - m + 1) * ascending[m - 1] + ascending[: m - 1].sum()
        variance = K - (2 * K * ascending[m - 1] / total) ** 2 if total > 0 else np.nan
    else:
        variance = K - ((1 - shares).sum() / 2) ** 2
    b = np.sqrt(variance / 2) if variance > 0 else np.nan
    back = shares[np.argsort(order)]
    return Contract(back / b, cost=np.asarray(v @ back / b), shares=back, scale=np.asarray(b))


def algorithm1(
    valuations: ArrayLike,
    max_mse: float,
    *,
    power: float,
    exponent: str = "root",
    go_to: str = "line 6",
    bracket: str = "floor",
) -> Contract:
    r"""The printed search for the cost :math:`v\varepsilon^r`, line by line: about :math:`n^2\sqrt K` steps of
    :math:`O(n)`.

    The valuations are positive, as the listing divides by them, and `power` is above 1. The defaults of the other
    arguments are the reading that serves the algorithm best; `bracket`, in line 5, is as for :func:`theorem5`.

    Parameters
    ----------
    exponent : str
        Of the ratios of valuations in lines 14 and 17: `"root"`, :math:`1/(r-1)` as in (40) to (43), or `"as read"`,
        :math:`r-1` as line 14 reads in our text.
    go_to : str
        Where line 19 goes: `"line 5"` as printed, to the next :math:`i`, or `"line 6"`, to the next :math:`j`.

    Examples
    --------
    >>> float(algorithm1([1.0, 10.0], 0.3, power=2).cost.round(4))   # the least cost is 20
    40.0
    """
    check_choice(exponent, "exponent", ("root", "as read"))
    check_choice(go_to, "go_to", ("line 5", "line 6"))
    v, order, K, r, first = _listing(valuations, max_mse, power, bracket)
    n, p = len(v), 1 / (r - 1) if exponent == "root" else r - 1

    best, best_scale = np.ones(n), math.sqrt(K / 2)  # line 2
    least = _unbiased_cost(v, K, r)  # line 3
    for i in range(first, n + 1):  # line 5
        for j in range(i + 1):  # line 6
            shares = np.zeros(n)
            shares[:j] = 1  # line 8
            if j < i:  # line 13
                ratios = (v[j] / v[j:i]) ** p
                a = ((n - j) ** 2 - 4 * K) / (ratios.sum() * (n - j))  # lines 14 and 15
                if not 0 <= a <= 1:
                    if go_to == "line 5":
                        break
                    continue
                shares[j:i] = ratios * a  # line 17
            variance = K - ((n - shares.sum()) / 2) ** 2
            if variance <= 0:  # no noise scale meets the accuracy
                continue
            b = math.sqrt(variance / 2)  # line 22
            with np.errstate(all="ignore"):  # what leaves the floats is not the least
                cost = float((v @ shares**r) / np.float64(b) ** r)  # line 23
            if cost < least:
                best, best_scale, least = shares, b, cost
    back = best[np.argsort(order)]
    return Contract(back / best_scale, cost=np.asarray(least), shares=back, scale=np.asarray(best_scale))


def _listing(
    valuations: ArrayLike, max_mse: float, power: float, bracket: str
) -> tuple[Array, NDArray[np.intp], float, float, int]:
    """Sorted positive valuations, their places, accuracy and power above 1, and where line 5 starts."""
    check_choice(bracket, "bracket", ("floor", "ceiling"))
    v, K = _sellers(valuations, max_mse)
    if (r := check_power(power)) == 1 or not (v > 0).all():
        raise ValueError(f"algorithm1 needs power > 1 and positive valuations, got power {r} and {v.min()}")
    rounded = math.floor if bracket == "floor" else math.ceil
    order = np.argsort(v)
    return v[order], order, K, r, max(rounded(len(v) - 2 * math.sqrt(K)) + 1, 1)


def _unbiased_cost(v: Array, K: float, r: float) -> float:
    """Total cost of the unbiased answer, or an error beyond floats."""
    with np.errstate(over="ignore"):
        cost = float(v.sum() * np.float64(math.sqrt(2 / K)) ** r)
    if not math.isfinite(cost):
        raise ValueError(f"power and max_mse give costs beyond floats, got {r} and {K}")
    return cost
