r"""Buying privacy from sellers who come one by one: each is answered at once by a rule fixed in advance.

The rule is a cutoff and a slope: seller :math:`i` with virtual cost :math:`\psi_i` sells
:math:`\epsilon_i=\text{slope}\,(\text{cutoff}-\psi_i)^+`, the form that Eq. (13) of the logistic paper gives the
optimum for :math:`m` sellers known together. There both numbers depend on all costs, through the sums
:math:`A_1=\sum(\theta-\psi_i)^+` and :math:`A_2=\sum((\theta-\psi_i)^+)^2`. Here these are replaced by :math:`m` times
their expectations. What a seller gets depends on her own report alone: a menu, from which truth picks the best entry.

Throughout, `law` is that of the costs, as in :mod:`hdpm_lib.markets.costs`, and regular; `m` is the number of sellers
expected; `mu`, `sigma` and `gamma` are the weights of :mod:`hdpm_lib.markets.procurement`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from hdpm_book.logistic.peer import proxy_loss
from hdpm_lib.markets.costs import check_law, check_regular, virtual_valuation
from hdpm_lib.markets.procurement import check_constants
from hdpm_lib.validation import check_count, check_finite, check_number, check_numeric, check_positive

Array = NDArray[np.float64]

PANELS = 256  # into which the reports from the least one to the last one bought are cut for the payments
PANEL_NODES, PANEL_WEIGHTS = np.polynomial.legendre.leggauss(6)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(128)  # for moments of the virtual cost below a report
# where roots are looked for, as parts of the support: dense at both ends
GRID = np.concatenate([np.geomspace(1e-14, 0.5, 300), 1 - np.geomspace(0.5, 1e-12, 100)[1:], [1.0]])


@dataclass(frozen=True)
class OnlineRule:
    """How much privacy is bought from a seller, as a function of her virtual cost alone.

    Attributes
    ----------
    cutoff : float, positive: virtual cost from which on nothing is bought
    slope : float, positive: privacy loss bought per unit of virtual cost below the cutoff

    Examples
    --------
    >>> from scipy import stats
    >>> rule = OnlineRule(cutoff=1.0, slope=2.0)
    >>> rule.epsilon([0.2, 0.8, 1.2])
    array([1.6, 0.4, 0. ])
    >>> rule.payments([0.1, 0.4, 0.6], stats.uniform(0, 4)).round(6)  # these have the virtual costs above
    array([0.48, 0.18, 0.  ])
    """

    cutoff: float
    slope: float

    def __post_init__(self) -> None:
        check_positive(self.cutoff, "cutoff")
        check_positive(self.slope, "slope")

    def epsilon(self, virtual_costs: ArrayLike) -> Array:
        """Privacy losses bought, of the shape of `virtual_costs`; infinite ones are admitted, and sell nothing."""
        psi = np.asarray(check_numeric(virtual_costs, "virtual_costs"), dtype=float)
        if not psi.size:
            raise ValueError("virtual_costs is empty")
        if (bad := ~(psi >= 0)).any():
            raise ValueError(f"virtual_costs must not be negative, got {psi[bad].flat[0]}")
        return self._sold(psi)

    def _sold(self, psi: Array) -> Array:
        return np.asarray(self.slope * np.maximum(self.cutoff - psi, 0))

    def payments(self, costs: ArrayLike, law: Any) -> Array:
        r"""Payments by Eq. (8), :math:`c_i\,\epsilon(c_i)+\int_{c_i}^{\bar c}\epsilon(z)\,dz`, for any number of
        sellers at once.

        The reported `costs`, of shape (m,), lie in the support of `law`, whose largest cost is :math:`\bar c`: nothing
        is bought beyond it. Gauss's rule on panels, exact where the virtual cost is a polynomial of degree up to 11 in
        the cost.
        """
        c = check_finite(costs, "costs", 1, *check_law(law))
        epsilon = self._sold(virtual_valuation(law, c))
        bought = epsilon > 0
        rent = np.zeros_like(c)
        if bought.any():
            own = c[bought]
            edges = np.linspace(own.min(), self._last_report(law), PANELS + 1)
            beyond = np.append(np.cumsum(self._area(law, edges[:-1], edges[1:])[::-1])[::-1], 0.0)
            panel = np.clip(np.searchsorted(edges, own, "right"), 1, PANELS)
            rent[bought] = self._area(law, own, edges[panel]) + beyond[panel]
        return np.asarray(c * epsilon + rent)

    def _area(self, law: Any, start: Array, end: Array) -> Array:
        """Integrals of the privacy loss over the reports from `start` to `end`."""
        total = np.zeros_like(start)
        for node, weight in zip(PANEL_NODES, PANEL_WEIGHTS, strict=True):
            z = start + (end - start) * (1 + node) / 2
            total += weight * self._sold(virtual_valuation(law, z, check=False))
        return np.asarray(total * (end - start) / 2)

    def _last_report(self, law: Any) -> float:
        """Report at which the virtual cost meets the cutoff, or the largest cost if it stays below."""
        low, high = (float(end) for end in law.support())

        def gap(z: float) -> float:
            return float(virtual_valuation(law, z, check=False)) - self.cutoff

        if gap(high) <= 0:
            return high
        return float(scipy.optimize.bisect(gap, low, high, xtol=1e-300, rtol=1e-15, maxiter=2000))


def printed_rule(m: int, density_at_zero: float, mu: float, sigma: float, gamma: float) -> OnlineRule:
    r"""Algorithm 3 as printed, for virtual costs with the positive density `density_at_zero` at 0.

    With :math:`f=f_\Psi(0)` the paper's :math:`\tilde\lambda=\sqrt{\mu^2\gamma/(\sigma mf)}` is :math:`\gamma` times
    the cutoff, and the slope is :math:`2\sqrt3\,\gamma^{5/2}\mu\,f^{-3/2}m^{-3/2}\tilde\lambda^{-7/2}`. Where the
    density is constant up to the cutoff this is :func:`expected_rule`.

    Examples
    --------
    >>> round(printed_rule(10_000, 1 / 8, 1.0, 1.0, 1.0).cutoff, 6)   # as in the example there
    0.028284
    """
    mu, sigma, gamma = check_constants(mu, sigma, gamma)
    m, f = check_count(m, "m"), _check_density(density_at_zero)
    multiplier = np.sqrt(mu**2 * gamma / (sigma * m * f))
    slope = 2 * np.sqrt(3) * gamma**2.5 * mu / ((f * m) ** 1.5 * multiplier**3.5)
    return OnlineRule(float(multiplier / gamma), float(slope))


def _check_density(density_at_zero: float) -> float:
    why = "Algorithm 3 divides by the density of the virtual costs at 0; where it vanishes use expected_rule"
    return check_number(density_at_zero, "density_at_zero", 0, ends="()", why=why)


def expected_rule(law: Any, m: int, mu: float, sigma: float, gamma: float) -> OnlineRule:
    r"""The rule of Eqs. (13) and (14) with every sum replaced by its expectation under the law of the costs.

    Where several cutoffs solve the equation, it is the one of the least expected loss. The density must be smooth
    inside the support; nothing is asked of it at 0 (:doc:`/book/logistic/online`).

    Notes
    -----
    With :math:`z` the report at the cutoff :math:`\theta=\psi(z)`, the mean of :math:`(\theta-\psi)^+` is
    :math:`F(z)\,(\theta-z)`; that of its square is a quadrature. Eq. (14) says that the mean virtual cost of a unit
    bought, :math:`\theta-A_2/A_1`, is :math:`A_2\sigma\gamma/\mu^2`.

    Examples
    --------
    >>> from scipy import stats
    >>> rule = expected_rule(stats.uniform(0, 4), 10_000, 1.0, 1.0, 1.0)  # virtual costs are uniform on [0, 8]
    >>> round(rule.cutoff, 6), round(rule.slope, 4)
    (0.028284, 20.5977)
    """
    check_regular(law)
    mu, sigma, gamma = check_constants(mu, sigma, gamma)
    m, kappa = check_count(m, "m"), sigma * gamma / mu**2
    moments, rules = _Moments(law), []
    for last, depth in _solutions(moments, m, kappa):
        first, second, mean = map(float, moments.sums(last, depth))
        loss = mu * np.sqrt(second / m) / first + 2 * np.sqrt(sigma * gamma * mean)
        slope = mu / (gamma * np.sqrt(m * second) * m * first)
        rules.append((loss, moments.low + depth, slope))
    if not rules:
        close = f"too close to the least cost {moments.low} to compute it"
        raise ValueError(f"m = {m} puts the cutoff {close}")
    _, cutoff, slope = min(rules)
    return OnlineRule(cutoff, float(slope))


@dataclass(frozen=True)
class _Moments:
    """Expectations over the law: the last report bought is low + x, the cutoff low + depth."""

    law: Any

    @property
    def low(self) -> float:
        return float(self.law.support()[0])

    @property
    def span(self) -> float:
        return float(self.law.support()[1]) - self.low

    def depth(self, x: ArrayLike) -> Array:
        """Of the cutoff that makes low + x the last report bought."""
        return virtual_valuation(self.law, self.low + np.asarray(x), check=False) - self.low

    def square(self, x: Array) -> Array:
        """Expectation of (psi - low)^2 over the reports up to low + x."""
        z = self.low + x[..., None] * (1 + NODES) / 2
        density = self.law.pdf(z)
        return np.asarray(x / 2 * (((z - self.low + self.law.cdf(z) / density) ** 2 * density) @ WEIGHTS))

    def sums(self, last: ArrayLike, above: ArrayLike) -> tuple[Array, Array, Array]:
        """Both sums over m, and the mean virtual cost bought, at x = last and depth = above."""
        x, depth = np.asarray(last), np.asarray(above)
        below = self.law.cdf(self.low + x)
        first, second = below * (depth - x), below * depth * (depth - 2 * x) + self.square(x)
        return first, second, self.low + depth - second / first


def _solutions(moments: _Moments, m: int, kappa: float) -> list[tuple[float, float]]:
    """Solutions of the expected Eq. (14): the last report bought and the cutoff, counted from the least cost."""
    low, span = moments.low, moments.span

    def excess(x: ArrayLike) -> Array:
        """Eq. (14) at the cutoff that makes low + x the last report bought; it rises through a minimum."""
        _, second, mean = moments.sums(x, moments.depth(x))
        return np.asarray(kappa * m * second - mean)

    x = span * GRID
    x = x[(x > 1e-10 * low) & np.isfinite(moments.depth(x))]  # closer to `low` costs are rounded too much
    sign = excess(x) > 0
    rises = np.flatnonzero(~sign[:-1] & sign[1:])
    roots = [float(scipy.optimize.brentq(lambda t: float(excess(t)), x[i], x[i + 1], xtol=1e-300)) for i in rises]
    found = [(root, float(moments.depth(root))) for root in roots]
    if x[-1] == span:  # cutoffs above all virtual costs: in the distance from their mean, the largest cost, a cubic
        spread = float(moments.square(np.array(span))) - span**2
        distance = np.roots([kappa * m, 0.0, kappa * m * spread - float(moments.law.support()[1]), spread])
        largest = max(distance[distance.imag == 0].real, default=0.0)
        if span + largest >= moments.depth(span):
            found.append((span, float(span + largest)))
    return found


def realised_loss(rule: OnlineRule, virtual_costs: ArrayLike, mu: float, sigma: float, gamma: float) -> Array:
    """Proxy loss, Eq. (11), of what the rule has bought from the sellers who came, however many were expected.

    The `virtual_costs` have the shape (..., m), the result (...). Weights are in proportion to the privacy losses. The
    loss is infinite where nobody sold: there is nothing to learn from.

    Examples
    --------
    >>> rule = OnlineRule(cutoff=1.0, slope=2.0)
    >>> realised_loss(rule, [[0.2, 0.8], [1.2, 3.0]], 1.0, 1.0, 1.0).round(4)
    array([1.9646,    inf])
    """
    constants = check_constants(mu, sigma, gamma)
    epsilon = rule.epsilon(virtual_costs)
    psi = np.asarray(virtual_costs, dtype=float)
    eta = epsilon.sum(-1)
    sold = eta > 0
    one = np.where(sold, eta, 1.0)
    loss = proxy_loss(epsilon / one[..., None], one, np.where(epsilon > 0, psi, 0.0), *constants)
    return np.where(sold, loss, np.inf)
