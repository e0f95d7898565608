r"""The joint objective of the logistic papers, and its solvers: one minimisation that sees the
data.

Over coefficients :math:`w`, weights :math:`a` of the sellers (not negative, sum 1) and
:math:`\eta>0`, with the virtual costs :math:`\psi_i` and one realisation :math:`b` of spherical
Laplace noise of rate one, it is

.. math::
    \sum_ia_i\ln\bigl(1+e^{-y_iw^\top x_i}\bigr)+\frac{2b^\top w}\eta+\frac\Lambda2\lVert
    w\rVert^2+\mu R(a) +\frac\sigma\eta+\gamma\sum_i\psi_i(a_i\eta)^r,

with :math:`R(a)=\lVert a\rVert` in Eq. (10) of the TMLR version and :math:`\lVert a\rVert^2` in Eq.
(17) of the journal version, and with the power :math:`r` as the privacy cost
:math:`u(\epsilon)=\epsilon^r`.

What it releases is **not** private: :math:`a` and :math:`\eta` depend on the data. Use
:mod:`hdpm_lib.learners.objective` with weights that do not.

The printed algorithms fix :math:`\eta` and move coefficients and weights by one step size
(:doc:`/book/logistic/joint`). :func:`alternate` replaces each gradient step by the exact minimiser
over one block, the other fixed, and needs no step size.

Throughout there are `m` sellers and `n` features; `cap` is the largest weight allowed, at least
1/m; by default there is none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, elementwise

from hdpm_lib.accounts import charge
from hdpm_lib.learners.objective import minimisers
from hdpm_lib.private import check_signed_records
from hdpm_lib.validation import check_cap, check_finite, check_flag, check_number, check_positive

Array = NDArray[np.float64]


ROUNDS = 2000  # of the alternation, at most


@dataclass(frozen=True)
class JointObjective:
    """The objective on one data set and one noise vector; made by :func:`joint_objective`.

    With `unit_noise` replaced by vectors of shape (..., n) it is one objective for each, and what
    it is asked about has those leading axes.
    """

    X: Array = field(repr=False)
    y: Array = field(repr=False)
    unit_noise: Array = field(repr=False)
    virtual_costs: Array
    penalty: float
    mu: float
    sigma: float
    gamma: float
    squared: bool
    power: float
    cap: float
    radius: float | None

    def losses(self, coefficients: ArrayLike) -> Array:
        """Return the natural logistic loss of each seller, shape (..., m)."""
        margins = self.y * (np.asarray(coefficients, dtype=float) @ self.X.T)
        return np.log1p(np.exp(-np.abs(margins))) - np.minimum(margins, 0)

    def value(self, coefficients: ArrayLike, weights: ArrayLike, eta: ArrayLike) -> Array:
        """Return the value at coefficients (..., n), weights (..., m) and eta (...); no constraint
        is checked.
        """
        w, a, e = (np.asarray(part, dtype=float) for part in (coefficients, weights, eta))
        size = np.linalg.norm(a, axis=-1)
        fit = (a * self.losses(w)).sum(-1) + self.penalty / 2 * (w * w).sum(-1)
        paid = e**self.power * ((np.abs(a) ** self.power * np.sign(a)) @ self.virtual_costs)
        uneven = self.mu * size ** (1 + self.squared)
        return np.asarray(fit + uneven + self.over_eta(w) / e + self.gamma * paid)

    def over_eta(self, coefficients: ArrayLike) -> Array:
        """Return what is divided by eta: `sigma + 2 b.w`; where it is negative the objective falls
        to -infinity with eta.
        """
        w = np.asarray(coefficients, dtype=float)
        return np.asarray(self.sigma + 2 * (w * self.unit_noise).sum(-1))

    def best_coefficients(self, weights: Array, eta: ArrayLike, start: ArrayLike = 0.0) -> Array:
        """Return the minimiser over the coefficients, inside the ball if there is one; `start` is a
        guess.
        """
        noise = 2 * self.unit_noise / np.asarray(eta, dtype=float)[..., None]

        def minimiser(extra: float) -> Array:
            return minimisers(self.X, self.y, weights, self.penalty + extra, noise, start)

        w = minimiser(0.0)
        r = self.radius
        if r is None or np.linalg.norm(w) <= r:
            return w
        # the multiplier of the ball acts as more penalty; the other gradients bound it, and 1 /
        # norm is nearly linear
        top = 2 * (np.linalg.norm(noise) + weights.sum()) / r
        return minimiser(
            brentq(
                lambda e: 1 / r - 1 / np.linalg.norm(minimiser(e)), 0.0, top, xtol=1e-14, rtol=1e-14
            )
        )

    def best_weights(self, losses: ArrayLike, eta: ArrayLike) -> Array:
        r"""Return the minimiser over the weights for losses of shape (..., m), exactly, for power 1
        and 2 only.

        For the norm, :math:`\lVert a\rVert` is the least :math:`\lVert a\rVert^2/(2s)+s/2` over
        `s`: one root is left.
        """
        if self.power not in (1, 2):
            raise ValueError(f"weights are found exactly for power 1 and 2 only, got {self.power}")
        e = np.asarray(eta, dtype=float)[..., None]
        priced = self.gamma * self.virtual_costs
        levels = np.asarray(losses, dtype=float) + (priced * e if self.power == 1 else 0.0)
        bend = 2 * priced * e**2 if self.power == 2 else np.zeros(())
        levels = np.broadcast_to(levels, np.broadcast_shapes(levels.shape, bend.shape))
        if self.mu == 0 and self.power == 1:  # linear: fill up the cheapest
            rank = np.argsort(np.argsort(levels, axis=-1, kind="stable"), axis=-1)
            return np.clip(1 - self.cap * rank, 0, self.cap)
        if self.squared or self.mu == 0:
            return water_filling(levels, 2 * self.mu + bend, self.cap)
        m = levels.shape[-1]
        # Theorem 3.3: the squares of the positive parts sum to mu squared
        if self.power == 1 and self.cap == 1:
            low = levels - levels.min(-1, keepdims=True)
            ordered = np.sort(low, axis=-1)
            k = np.arange(1, m + 1)
            mean = np.cumsum(ordered, axis=-1) / k
            left = self.mu**2 / k - (np.cumsum(ordered**2, axis=-1) / k - mean**2)
            tau = mean + np.sqrt(np.maximum(left, 0))
            last = ((left >= 0) & (tau > ordered)).sum(-1, keepdims=True) - 1
            parts = np.maximum(np.take_along_axis(tau, last, -1) - low, 0)
            return np.asarray(parts / parts.sum(-1, keepdims=True))
        rows, bends = (part.reshape(-1, m) for part in np.broadcast_arrays(levels, bend))

        def weights(s: Array, row: NDArray[np.intp]) -> Array:
            return water_filling(rows[row], self.mu / s[..., None] + bends[row], self.cap)

        index = np.arange(len(rows))
        start = (np.full(len(rows), 0.5 / np.sqrt(m)), np.full(len(rows), 2.0))
        root = elementwise.find_root(
            lambda s, i: np.linalg.norm(weights(s, i), axis=-1) / s - 1, start, args=(index,)
        )
        return weights(root.x, index).reshape(levels.shape)


def joint_objective(
    X: ArrayLike,
    y: ArrayLike,
    unit_noise: ArrayLike,
    virtual_costs: ArrayLike,
    *,
    penalty: float,
    mu: float,
    sigma: float,
    gamma: float,
    squared: bool = False,
    power: float = 1.0,
    cap: float | None = None,
    radius: float | None = None,
) -> JointObjective:
    r"""Return the joint objective, checked.

    Parameters
    ----------
    X, y : arrays of shape (m, n), rows of norm at most 1, and (m,), -1 or 1
    unit_noise : array of shape (n,)
        `b`, noise of rate one.
    virtual_costs : array of shape (m,), not negative
    penalty, mu, sigma, gamma : float, not negative, `penalty` positive
    squared : bool, default False
        False for Eq. (10) of the TMLR version, True for Eq. (17) of the journal version.
    power : float, at least 1, default 1.0
    radius : float, positive, optional
        Of a ball for the coefficients.

    Examples
    --------
    >>> public = {"penalty": 1, "mu": 1, "sigma": 1, "gamma": 1}
    >>> f = joint_objective([[1.0], [0.5]], [1, -1], [0.2], [0.1, 0.3], **public)
    >>> round(float(f.value([0.0], [0.5, 0.5], 2.0)), 4)   # ln 2 + 1/sqrt 2 + 1/2 + 2 x 0.2
    2.3003
    """
    features, labels = check_signed_records(X, y)
    b = check_finite(unit_noise, "unit_noise", 1)
    psi = check_finite(virtual_costs, "virtual_costs", 1, 0)
    for array, name, size in (
        (b, "unit_noise", features.shape[1]),
        (psi, "virtual_costs", len(features)),
    ):
        if len(array) != size:
            raise ValueError(f"{name} has {len(array)} entries, X has the shape {features.shape}")
    check_flag(squared, "squared")
    for value, name, least in (
        (mu, "mu", 0),
        (sigma, "sigma", 0),
        (gamma, "gamma", 0),
        (power, "power", 1),
    ):
        check_number(value, name, least)
    lam = check_positive(penalty, "penalty")
    top = check_cap(cap, len(features))
    ball = None if radius is None else check_positive(radius, "radius")
    return JointObjective(
        features, labels, b, psi, lam, mu, sigma, gamma, bool(squared), float(power), top, ball
    )


def water_filling(levels: ArrayLike, curvature: ArrayLike, cap: float | None = None) -> Array:
    r"""Return the least :math:`\sum_i(l_ia_i+d_ia_i^2/2)` over weights between 0 and `cap` that sum
    to 1, exactly, by one sort.

    The levels `l` and the curvature `d`, positive, broadcast to (..., m). With the curvature 1 it
    is the projection of ``-levels``.

    Examples
    --------
    >>> water_filling([0.0, 0.5, 3.0], 1.0, cap=0.6)
    array([0.6, 0.4, 0. ])
    """
    low = np.atleast_1d(check_finite(levels, "levels"))
    d = check_finite(curvature, "curvature", low=0, ends="()")
    top = check_cap(cap, low.shape[-1])
    even = d.ndim == 0
    try:
        d = np.broadcast_to(d, low.shape)
    except ValueError:
        raise ValueError(
            f"curvature must broadcast against levels, got shapes {d.shape} and {low.shape}"
        ) from None
    tau = _projected(low, d) if even and top == 1 else _filled(low, d, top)
    # Newton steps on the sum itself: what rounding in the running sums left over
    for _ in range(3):
        weights = np.clip((tau - low) / d, 0, top)
        left = 1 - weights.sum(-1, keepdims=True)
        if (np.abs(left) <= 1e-15).all():
            return np.asarray(weights)
        rate = np.where((weights > 0) & (weights < top), 1 / d, 0.0).sum(-1, keepdims=True)
        tau = tau + np.where(rate > 0, left / np.where(rate > 0, rate, 1.0), 0.0)
    return np.asarray(np.clip((tau - low) / d, 0, top))


def _projected(low: Array, d: Array) -> Array:
    """Return the level of the water under one curvature and no cap: the least that any number of
    the lowest would have.
    """
    count = np.arange(1, low.shape[-1] + 1)
    return np.asarray(
        ((np.cumsum(np.sort(low, axis=-1), axis=-1) + d) / count).min(-1, keepdims=True)
    )


def _filled(low: Array, d: Array, top: float) -> Array:
    """Return the level of the water, from the running sum of the weights at all levels where one
    leaves 0 or meets the cap.
    """
    breaks = np.concatenate([low, low + top * d], axis=-1)
    order = np.argsort(breaks, axis=-1)
    breaks = np.take_along_axis(breaks, order, -1)
    slope = np.cumsum(
        np.take_along_axis(np.concatenate([1 / d, -1 / d], axis=-1), order, -1), axis=-1
    )
    # sum of the weights at each break but the first
    total = np.cumsum(slope[..., :-1] * np.diff(breaks), axis=-1)
    k = np.minimum((total < 1).sum(-1, keepdims=True), total.shape[-1] - 1)
    before = np.where(k > 0, np.take_along_axis(total, np.maximum(k - 1, 0), -1), 0.0)
    rate = np.maximum(np.take_along_axis(slope, k, -1), 1 / (2 * d.max()))
    return np.asarray(np.take_along_axis(breaks, k, -1) + (1 - before) / rate)


@dataclass(frozen=True)
class JointSolution:
    """Where the alternation ended, and the objective from start to end (`values`)."""

    coefficients: Array = field(repr=False)
    weights: Array = field(repr=False)
    eta: Array = field(repr=False)
    values: Array = field(repr=False)

    @property
    def value(self) -> Any:
        """The objective at the end, of the shape of eta."""
        return self.values[-1]

    @property
    def epsilon(self) -> Array:
        """Noise parts `weights * eta` that these weights would give if the data had not chosen
        them, shape (..., m).
        """
        return self.weights * np.asarray(self.eta)[..., None]


def alternate(
    objective: JointObjective,
    eta: ArrayLike,
    *,
    start_weights: ArrayLike | None = None,
    guess: ArrayLike = 0.0,
    tolerance: float = 1e-10,
) -> JointSolution:
    """Alternate the exact minimisers over coefficients and weights.

    Each block is optimal given the other. The objective, of power 1 or 2, is not convex: this need
    not be the global optimum. There is a RuntimeError without convergence.

    Parameters
    ----------
    eta : array of shape (...)
        Positive; one number if the objective has a ball. The alternations go on until the last of
        them has converged.
    start_weights : array of shape (..., m), optional
        Equal ones if not given.
    guess : array of shape (..., n), default 0.0
        Coefficients that the first minimiser starts from.
    tolerance : float, default 1e-10
        Converged when one round moves no weight, and no coefficient relative to their size, by
        more.

    Examples
    --------
    >>> public = {"penalty": 1, "mu": 1, "sigma": 1, "gamma": 1}
    >>> f = joint_objective([[1.0], [0.5]], [1, -1], [0.2], [0.1, 0.3], **public)
    >>> alternate(f, 2.0).weights.round(4)
    array([0.6586, 0.3414])
    """
    check_positive(tolerance, "tolerance")
    rates = check_finite(eta, "eta", low=0, ends="()")
    if rates.ndim and objective.radius is not None:
        raise ValueError(f"eta must be one number where there is a ball, got shape {rates.shape}")
    m, n = objective.X.shape
    w = np.broadcast_to(check_finite(guess, "guess"), (*rates.shape, n))
    a = np.full((*rates.shape, m), 1 / m)
    if start_weights is not None:
        a = _weights(start_weights, a.shape, "start_weights")
    charge(np.inf)
    values = [objective.value(w, a, rates)]
    for _ in range(ROUNDS):
        old_w = w
        old_a = a
        w = objective.best_coefficients(a, rates, w)
        a = objective.best_weights(objective.losses(w), rates)
        values.append(objective.value(w, a, rates))
        by = np.abs(w - old_w).max(-1) / np.maximum(1, np.abs(w).max(-1))
        moved = max(by.max(), np.abs(a - old_a).max())
        if moved <= tolerance:
            return JointSolution(w, a, rates, np.array(values))
    last = f"the last one moved {moved:.3g}"
    raise RuntimeError(f"the alternation did not settle in {ROUNDS} rounds: {last}")


def _weights(weights: ArrayLike, shape: tuple[int, ...], name: str) -> Array:
    a = check_finite(weights, name)
    if a.shape != shape or (a < 0).any() or (np.abs(a.sum(-1) - 1) > 1e-9).any():
        raise ValueError(
            f"{name} must be {shape[-1]} numbers that are not negative and sum to 1, got sum"
            f" {a.sum()}"
        )
    return a
