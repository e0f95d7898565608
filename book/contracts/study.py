r"""Where mechanism M2 costs at most M1 whatever the valuations: the theorem's steps, each tried on many markets.

For the cost :math:`v\varepsilon^2` and valuations in [0, 1] the order holds in every draw if and only if
:math:`K\ge K_n` (:func:`order_threshold`). The proof is on the page :doc:`/book/contracts/beyond`; :func:`order_checks`
runs each of its steps and counts where one fails. A batch of markets has the shape (..., n), one accuracy for all.
Beside it stands what says whether any contract is optimal (:func:`kkt_residual`), and what its error is.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import optimize

from hdpm_lib.markets.contracts import check_power, check_valuations, least_cost_contract
from hdpm_lib.markets.mechanisms import equal_loss_pricing, pivot_costs
from hdpm_lib.markets.outcome import Contract
from hdpm_lib.validation import check_count, check_finite, check_generator, check_positive

Array = NDArray[np.float64]

POWERS = (1, 1.5, 2, 3)  # of the privacy loss in the cost, which the pages try
SLACK = 1e-9  # relative; rounding stays below it


def order_threshold(n: int, power: float = 2.0) -> float:
    r"""The accuracy below which two sellers at 0, all others at the top, make M2 dearer than M1.

    It is :math:`K_n=\frac{n(n-1)(n-2)}{4(n+1)}` for power 2; for others the root of :math:`2W_{n-1}-W_{n-2}=W_n`, where
    :math:`W_m` is the least cost of `m` sellers at the ceiling. 0 for up to two sellers.

    Notes
    -----
    From :math:`K_n` on no valuations make M2 dearer. For other powers that is measured at best, and for powers near 1
    it is false.

    Examples
    --------
    >>> round(order_threshold(10), 4), round(order_threshold(10, power=3), 4)
    (16.3636, 9.8957)
    """
    n, r = check_count(n, "n"), check_power(power)
    if n <= 2:
        return 0.0
    if r == 2:
        return n * (n - 1) * (n - 2) / (4 * (n + 1))

    def excess(K: float) -> float:
        first, second, third = (m * max(1 - 4 * K / m**2, 0.0) ** (r / 2) for m in (n - 2, n - 1, n))
        return 2 * second - first - third

    end = (n - 1) ** 2 / 4
    return float(optimize.brentq(excess, end / (100 * r), end))


def m2_total(valuations: ArrayLike, max_mse: float, *, power: float = 2.0) -> Array:
    r"""Total payment of M2 for valuations in [0, 1]: :math:`\sum_iW(1,v_{-i})-(n-1)W(v)`.

    Continuous in the valuations, so also the limit where sellers at 0 just reach the accuracy alone.

    Examples
    --------
    >>> m2_total([0.0, 0.0, 1.0], 0.1125).round(3)   # above M1, which is 50.667
    np.float64(53.333)
    """
    v = check_valuations(valuations, 1.0)
    pivots = pivot_costs(v, max_mse, 1.0, power=power).sum(-1)
    return np.asarray(pivots - (v.shape[-1] - 1) * least_cost_contract(v, max_mse, power=power).cost)


def m1_total(n: int, max_mse: float, *, power: float = 2.0) -> float:
    """Total payment of M1, the same for all valuations.

    Examples
    --------
    >>> round(m1_total(3, 0.1125), 3)
    50.667
    """
    return float(equal_loss_pricing(np.ones(check_count(n, "n")), max_mse, 1.0, power=power).payments.sum())


def profiles_to_try(n: int, count: int, rng: np.random.Generator) -> Array:
    """Valuations in (0, 1], shape (about `count`, n): spread out, crowded at 0, tied, and all but a few at the top.

    Examples
    --------
    >>> profiles_to_try(4, 100, np.random.default_rng(0)).shape
    (100, 4)
    """
    n, count, rng = check_count(n, "n"), check_count(count, "count", 5), check_generator(rng)
    part = count // 5
    few = np.ones((count - 4 * part, n))
    few[:, : min(n, 3)] = 10 ** rng.uniform(-4, 0, few[:, :3].shape)
    found = [
        rng.random((part, n)),
        10 ** rng.uniform(-6, 0, (part, n)),
        rng.integers(1, 4, (part, n)) / 3,
        np.where(rng.random((part, n)) < rng.random((part, 1)), 1e-9, 1.0),
        few,
    ]
    return np.maximum(rng.permuted(np.concatenate(found), axis=-1), 1e-9)


def largest_ratio(n: int, max_mse: float, power: float, rng: np.random.Generator) -> float:
    """Largest M2 / M1 among 1500 :func:`profiles_to_try`, zeros and ones, and all but two or three at the top.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> [round(largest_ratio(3, x * order_threshold(3), 2, rng), 3) for x in (0.98, 1.0001)]
    [1.008, 1.0]
    """
    count = 1500
    few = np.ones((2, count, n))
    few[0, :, :2], few[1, :, :3] = rng.random((count, 2)), rng.random((count, 3))
    v = np.concatenate([profiles_to_try(n, count, rng), *few, np.tri(n + 1, n, -1)])
    return float(m2_total(v, max_mse, power=power).max() / m1_total(n, max_mse, power=power))


def _raised(valuations: Array, seller: ArrayLike, to: ArrayLike) -> Array:
    """The valuations with `seller` (shape (...)) of each market at `to`."""
    v = valuations.copy()
    np.put_along_axis(v, np.asarray(seller)[..., None], np.broadcast_to(to, v.shape[:-1])[..., None], -1)
    return v


def climb(valuations: Array, max_mse: float) -> list[Array]:
    """The proof's path, along which M2's total never falls: from each market to all at the top, or to two capped.

    Markets of at least three sellers, shape (markets, n). The dearest seller below the top goes to the top until two
    are left; the cheaper of these rises to the other, or to where both are capped; if they meet, both go to the top.
    """
    v, K = np.sort(check_finite(check_valuations(valuations, 1.0), "valuations", 2)), check_positive(max_mse, "max_mse")
    n, path = check_count(v.shape[-1], "number of sellers", 3), [v]
    for k in range(n - 1, 1, -1):
        path.append(v := _raised(v, np.full(len(v), k), 1.0))
    low, high = v[:, 0], v[:, 1]
    with np.errstate(divide="ignore"):
        capped_from = high * (4 * K / ((n - 2) * (1 - high)) - (n - 1))  # there the threshold is at `high`
    path.append(v := _raised(v, np.zeros(len(v), int), np.clip(capped_from, low, high)))
    meet = (capped_from > high)[:, None] & (np.arange(n) < 2)
    path.append(np.where(meet, 1.0, v))
    return path


def gap_of_two(u: ArrayLike, n: int, max_mse: float) -> Array:
    r"""M1 less M2 with two capped sellers at `u` and all others at 1, in closed form.

    With :math:`A_k=n-k+\frac{4K}{n-k}` it is
    :math:`\frac2K\bigl[\sqrt{(u+A_2/2)^2-4K}-\sqrt{(u+A_1)^2-16K}+c\bigr]` with
    :math:`c=\frac n2-\frac{4K}n+\frac{4K}{n-1}-\frac{2K}{n-2}`.

    Examples
    --------
    >>> gap_of_two(0.01, 10, 17.0).round(6), (m1_total(10, 17.0) - m2_total([0.01, 0.01, *[1.0] * 8], 17.0)).round(6)
    (np.float64(0.050324), np.float64(0.050324))
    """
    x, n, K = check_finite(u, "u", None, 0, 1), check_count(n, "n", 3), check_positive(max_mse, "max_mse")
    A1, A2 = (n - k + 4 * K / (n - k) for k in (1, 2))
    constant = n / 2 - 4 * K / n + 4 * K / (n - 1) - 2 * K / (n - 2)
    return np.asarray(2 / K * (constant + np.sqrt((x + A2 / 2) ** 2 - 4 * K) - np.sqrt((x + A1) ** 2 - 16 * K)))


def _raising(rng: np.random.Generator, count: int) -> Iterator[tuple[str, Array]]:
    """Lemmas: what a seller's higher valuation does to the shares and losses of all; margins, not to be negative."""
    for n in range(2, 9):
        K, v = n**2 / 4 * 10 ** rng.uniform(-2, -0.01), profiles_to_try(n, count, rng)
        j = rng.integers(n, size=len(v))
        own = np.take_along_axis(v, j[:, None], -1)[:, 0]
        before, after = (least_cost_contract(market, K, power=2) for market in (v, _raised(v, j, rng.uniform(own, 1))))
        mine = np.arange(n) == j[:, None]
        yield "a rise lifts the others' shares, not her own", np.where(mine, -1, 1) * (after.shares - before.shares)
        change = (after.privacy_loss / before.privacy_loss) ** 2 - 1
        capped = [np.take_along_axis(found.shares == 1, j[:, None], -1) for found in (before, after)]
        both, never = (before.shares == 1) & capped[1], (after.shares < 1) | ~capped[0]
        yield "complements while both are capped", -change[both & ~mine]
        yield "substitutes while not both are", change[never & ~mine]


def _climbing(rng: np.random.Generator, count: int) -> Iterator[tuple[str, Array]]:
    """Steps of the climb, for accuracies from the threshold on."""
    for n in (3, 4, 5, 6, 7, 9, 12):
        least = order_threshold(n)
        for part in (1e-9, 1e-3, *rng.uniform(0, 0.98, 4)):
            K = least + part * (n**2 / 4 - least)
            v, top = profiles_to_try(n, count, rng), m1_total(n, K)
            yield "at most three are capped", 3.0 - (least_cost_contract(v, K, power=2).shares == 1).sum(-1)
            path = climb(v, K)
            for start, end in pairwise(path):
                totals = [m2_total(start + t * (end - start), K) / top for t in (0, 0.25, 0.5, 0.75, 1)]
                yield "no leg of the climb lowers M2", np.diff(totals, axis=0)
            last = path[-1]
            pair = least_cost_contract(last, K, power=2).shares[:, :2] > 1 - SLACK
            yield "it ends at the top or with two capped", np.where(last.min(-1) == 1, 1.0, pair.all(-1) - 0.5)
            highest = 1 - 4 * K / (n * (n - 2))
            if highest > 0:
                u = np.linspace(1e-9, highest, 50)
                market = np.ones((50, n))
                market[:, :2] = u[:, None]
                exact, form = top - m2_total(market, K), gap_of_two(u, n, K)
                yield "two capped: the closed form", 1e-10 - np.abs(exact - form) / top
                yield "two capped: least at an end", (form - min(form[0], form[-1])) / top
            yield "the order, from the threshold on", 1 - m2_total(v, K) / top
        zeros = np.r_[0.0, 0.0, np.ones(n - 2)]
        below = [m2_total(zeros, K) / m1_total(n, K) - 1 for K in least * np.array([0.999, 0.99, 0.5])]
        yield "below it two at 0 break the order", np.array(below) - 1e-6


def order_checks(rng: np.random.Generator, count: int) -> pd.DataFrame:
    """Each step of the theorem on random and adverse markets.

    There are `count` markets for each number of sellers (2 to 8, or seven numbers from 3 to 12) and each accuracy. The
    table has a row for each step: how often it was ``tried`` and ``failed``, by more than rounding.
    """
    check_generator(rng)
    table: dict[str, list[int]] = {}
    for step, margins in chain(_raising(rng, count), _climbing(rng, count)):
        row = table.setdefault(step, [0, 0])
        row[0] += margins.size
        row[1] += int((margins < -SLACK).sum())
    return pd.DataFrame(table, index=["tried", "failed"]).T


def error_of(contract: Contract) -> float:
    """Largest mean squared error of a contract for the plain sum."""
    return float(((1 - contract.shares).sum() / 2) ** 2 + 2 * contract.scale**2)


def kkt_residual(allocation: Contract, valuations: ArrayLike, max_mse: float, *, power: float) -> Array:
    r"""How far an allocation is from the conditions that single out the optimum of (10), of shape (...); 0 means
    optimal.

    It is the largest of the error of the accuracy constraint over `K` and, with :math:`C=\sum va^r`, the amount by
    which :math:`v_ka_k^{r-1}(4K-T^2)` differs from :math:`TC`, or lies on the wrong side of it where :math:`a_k` is 0
    or 1, over the largest of their terms. The allocation is one for the plain sum (ranges 1), with finite losses. Below
    :math:`K\approx10^{-3}n^2/4`, where `T` is small, the rounding of the shares shows.
    """
    v = check_valuations(valuations)
    K = check_positive(max_mse, "max_mse")
    r = check_power(power)
    T = (1 - allocation.shares).sum(-1, keepdims=True)
    most = allocation.shares.max(-1, keepdims=True)
    a = allocation.shares / np.where(most > 0, most, 1.0)  # the conditions scale; powers of small shares underflow
    accuracy = np.abs((T[..., 0] / 2) ** 2 + 2 * allocation.scale**2 - K) / K
    tiny = np.finfo(float).tiny if r > 1 else 0.0  # a share of 0 is then one too small for a float
    marginal = v * np.maximum(a, tiny) ** (r - 1)
    trade = T * most * (v * a**r).sum(-1, keepdims=True)
    gap = marginal * (4 * K - T**2) - trade
    gap = np.where(allocation.shares >= 1, np.maximum(gap, 0), np.where(a <= tiny, np.maximum(-gap, 0), np.abs(gap)))
    size = np.maximum((4 * K * marginal + T**2 * marginal).max(-1, keepdims=True), trade)
    stationarity = np.divide(gap, size, out=np.zeros_like(gap), where=size > 0).max(-1)
    return np.asarray(np.maximum(accuracy, stationarity))
