r"""Solvers of the joint objective: alternating exact steps, and the two papers' projected gradient descents.

The printed descents fix :math:`\eta` and move coefficients and weights by one step size. The journal's Algorithm 4
works in the weights :math:`a`, the TMLR version's algorithm in :math:`z=\ln a`. The alternation replaces every gradient
step by the exact minimiser over coefficients, weights or :math:`\eta`, the others fixed, and needs no step size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import lambertw, logsumexp

from hdpm_lib.logistic_joint import JointObjective, water_filling
from hdpm_lib.validation import check_count, check_finite, check_flag, check_positive

Array = NDArray[np.float64]
Step = Callable[[Array, Array], tuple[Array, Array] | None]  # None: beyond what floats hold
LARGEST_LOG = 700.0


@dataclass(frozen=True)
class JointSolution:
    """Where a solver ended.

    Attributes
    ----------
    coefficients : array of shape (n,)
    weights : array of shape (m,)
    eta : float
    values : array of shape (iterations + 1,)
        The objective from start to end.
    status : str
        "converged", "diverged" or "out of iterations".
    """

    coefficients: Array
    weights: Array
    eta: float
    values: Array
    status: str

    @property
    def value(self) -> float:
        """The objective at the end."""
        return float(self.values[-1])

    @property
    def epsilon(self) -> Array:
        """Noise parts `weights * eta` that these weights would give if the data had not chosen them, shape (m,)."""
        return self.weights * self.eta


def alternate(
    objective: JointObjective,
    eta: float | None = None,
    *,
    start_weights: ArrayLike | None = None,
    iterations: int = 2000,
    tolerance: float = 1e-10,
) -> JointSolution:
    """Alternate the exact minimisers over coefficients, weights and, if it is free, eta.

    Parameters
    ----------
    objective : JointObjective
        Of power 1 or 2.
    eta : float, optional
        Keeps eta at this positive value; chosen as well if not given, starting at 1 for each seller.
    start_weights : array of shape (m,), optional
        Not negative, sum 1; equal ones if not given.
    iterations : int, default 2000
        Most rounds.
    tolerance : float, default 1e-10
        Converged when one round moves no weight, and no coefficient and eta relative to their size, by more.

    Returns
    -------
    JointSolution
        Each block is optimal given the others. The objective is not convex: this need not be the global optimum.

    Raises
    ------
    ValueError
        For a bad argument, and where the objective falls without bound as eta falls to 0.
    RuntimeError
        If `iterations` rounds do not suffice.

    Examples
    --------
    >>> from hdpm_lib.logistic_joint import joint_objective
    >>> f = joint_objective([[1.0], [0.5]], [1, -1], [0.2], [0.1, 0.3], penalty=1, mu=1, sigma=1, gamma=1)
    >>> alternate(f).weights.round(4), alternate(f, 2.0).status
    (array([0.747, 0.253]), 'converged')
    """
    check_positive(tolerance, "tolerance")
    m, n = objective.X.shape
    now = float(m) if eta is None else check_positive(eta, "eta")
    w, a = np.zeros(n), np.full(m, 1 / m) if start_weights is None else _weights(start_weights, m, "start_weights")
    values = [float(objective.value(w, a, now))]
    for _ in range(check_count(iterations, "iterations")):
        old_w, old_a, old = w, a, now
        w = objective.best_coefficients(a, now, w)
        a = objective.best_weights(objective.losses(w), now)
        if eta is None:
            now = objective.best_eta(w, a)
        values.append(float(objective.value(w, a, now)))
        moved = max(np.abs(w - old_w).max() / max(1, np.abs(w).max()), np.abs(a - old_a).max(), abs(now / old - 1))
        if moved <= tolerance:
            return JointSolution(w, a, now, np.array(values), "converged")
    raise RuntimeError(f"the alternation did not settle in {iterations} rounds: the last one moved {moved:.3g}")


def project_log_simplex(z: ArrayLike) -> Array:
    r"""Nearest point with :math:`\sum_ie^{p_i}=1`, in the Euclidean norm.

    Parameters
    ----------
    z : array of shape (m,)
        Logarithms of floats: from -700 to 700.

    Returns
    -------
    array of shape (m,)

    Raises
    ------
    ValueError
        For `z` that is empty or not finite.

    Notes
    -----
    Stationarity is :math:`p_i+\kappa e^{p_i}=z_i` for one :math:`\kappa`. The largest entry of :math:`p` gives
    :math:`\kappa`, and Lambert's function the others, :math:`p_i=z_i-W(\kappa e^{z_i})`; so one equation in that entry
    is left. From inside, where the set is not convex, this covers both branches of :math:`W` for the largest entry;
    a nearest point need not be unique there.

    Examples
    --------
    >>> project_log_simplex([0.0, 0.0]).round(6)
    array([-0.693147, -0.693147])
    """
    v = check_finite(z, "z", 1, -LARGEST_LOG, LARGEST_LOG)
    top = int(v.argmax())

    def point(largest: float) -> Array:
        p = v - lambertw((v[top] - largest) * np.exp(v - largest)).real
        p[top] = largest
        return p

    def excess(largest: float) -> float:
        return float(np.log(np.exp(point(largest) - largest).sum()) + largest)

    # the largest entry moves farthest; from inside all entries rise, and what they add up to is known
    shift, room = -excess(v[top]), 1e-12 * (1 + abs(v[top]))
    if shift < 0:
        ends = (min(-np.log(len(v)), v[top] + shift) - room, v[top] + shift + room)
    else:
        ends = (v[top] + shift - room, np.logaddexp(v[top], np.log(max(-np.expm1(-shift), 1e-300))) + room)
    return point(brentq(excess, *ends, xtol=1e-15, rtol=1e-15))


def descend_weights(
    objective: JointObjective,
    eta: float,
    step: float,
    *,
    start: tuple[ArrayLike, ArrayLike] | None = None,
    literal: bool = False,
    iterations: int = 20_000,
    tolerance: float = 1e-9,
) -> JointSolution:
    """Algorithm 4 of the journal version for one eta: projected gradient descent in coefficients and weights.

    Parameters
    ----------
    objective : JointObjective
    eta, step : float
        Positive.
    start : tuple of arrays of shapes (n,) and (m,), optional
        Coefficients and weights; zeros and equal weights if not given.
    literal : bool, default False
        Project weights on the plane where they sum to 1, as the pseudo-code says, and not on those of Eq. (17), which
        are not negative and at most the cap. In both cases coefficients stay in the objective's ball, if it has one.
    iterations : int, default 20000
        Most steps.
    tolerance : float, default 1e-9
        Converged when a step moves nothing by more than this times `step`: at a stationary point, but for this.

    Returns
    -------
    JointSolution
        Of any status: the caller must look.

    Raises
    ------
    ValueError
        For a bad argument; eta = 0, the lower end of the printed grid, among them.
    """
    check_flag(literal, "literal")

    def project(weights: Array) -> Array:
        return weights + (1 - weights.sum()) / len(weights) if literal else water_filling(-weights, 1.0, objective.cap)

    def move(w: Array, a: Array) -> tuple[Array, Array]:
        in_w, in_a, _ = objective.gradient(w, a, eta)
        w = w - step * in_w
        outside = 1.0 if objective.radius is None else max(1.0, float(np.linalg.norm(w)) / objective.radius)
        return w / outside, project(a - step * in_a)

    return _descend(objective, eta, step, start, move, iterations, tolerance)


def descend_logs(
    objective: JointObjective,
    eta: float,
    step: float,
    *,
    start: tuple[ArrayLike, ArrayLike] | None = None,
    renormalise: bool = False,
    iterations: int = 20_000,
    tolerance: float = 1e-9,
) -> JointSolution:
    """The TMLR version's algorithm for one eta: projected gradient descent in coefficients and logarithms of weights.

    Parameters
    ----------
    objective, eta, step, start, iterations, tolerance
        As for :func:`descend_weights`; starting weights must be positive.
    renormalise : bool, default False
        Divide the weights by their sum instead of going to the nearest point, :func:`project_log_simplex`. Both read
        "Proj", which the paper leaves open: the set is not convex.

    Returns
    -------
    JointSolution
        Of any status: the caller must look.

    Raises
    ------
    ValueError
        For a bad argument, starting weights that are not positive among them.
    """
    check_flag(renormalise, "renormalise")

    if start is not None and not (np.asarray(start[1]) > 0).all():
        raise ValueError(f"start needs positive weights, got {np.min(start[1])}")

    def move(w: Array, a: Array) -> tuple[Array, Array] | None:
        in_w, in_a, _ = objective.gradient(w, a, eta)
        z = np.log(a) - step * a * in_a
        if not (np.abs(z) <= LARGEST_LOG).all():
            return None
        z = z - logsumexp(z) if renormalise else project_log_simplex(z)
        return w - step * in_w, np.exp(z)

    return _descend(objective, eta, step, start, move, iterations, tolerance)


def _weights(weights: ArrayLike, m: int, name: str) -> Array:
    a = check_finite(weights, name, 1)
    if len(a) != m or (a < 0).any() or abs(a.sum() - 1) > 1e-9:
        raise ValueError(f"{name} must be {m} numbers that are not negative and sum to 1, got sum {a.sum()}")
    return a


def _descend(
    objective: JointObjective,
    eta: float,
    step: float,
    start: tuple[ArrayLike, ArrayLike] | None,
    move: Step,
    iterations: int,
    tolerance: float,
) -> JointSolution:
    """Steps until they are short, the value leaves every scale, or there were too many."""
    check_positive(eta, "eta"), check_positive(step, "step"), check_positive(tolerance, "tolerance")
    m, n = objective.X.shape
    w, a = (np.zeros(n), np.full(m, 1 / m)) if start is None else (check_finite(start[0], "start", 1), start[1])
    a, status = _weights(a, m, "start"), "out of iterations"
    values = [float(objective.value(w, a, eta))]
    bound = 1e6 * (1 + abs(values[0]))
    for _ in range(check_count(iterations, "iterations")):
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if (new := move(w, a)) is None:
                status = "diverged"
                break
            new_w, new_a = new
            moved = max(np.abs(new_w - w).max(), np.abs(new_a - a).max())
            w, a = new_w, new_a
            values.append(float(objective.value(w, a, eta)))
        if not abs(values[-1]) <= bound:
            status = "diverged"
            break
        if moved <= tolerance * step:
            status = "converged"
            break
    return JointSolution(w, a, eta, np.array(values), status)
