r"""Ridge regression with a privacy loss for each record: output perturbation (PDP-OP).

Record `i` states the most privacy loss :math:`\varepsilon_i` she accepts. She gets the weight
:math:`w_i=\varepsilon_i/S`, :math:`S=\sum_j\varepsilon_j`, in a ridge regression, and spherical
Laplace noise of rate :math:`S/c` is added to the estimate, where :math:`c\,w_i` bounds how far her
record can move it.

Public: the number of records, every :math:`\varepsilon_i`, the penalty and the bounds on features
and labels. Neighbours: one record replaced by any other inside the bounds. By default the guarantee
holds for the program, to the last digit (:mod:`hdpm_lib.exact`, :doc:`/book/privacy/limits`).

Throughout,

- `X`, shape (n, d), and `y`, shape (n,): features and labels of the records;
- `epsilon`, shape (n,): the :math:`\varepsilon_i`, positive;
- `penalty`: the ridge penalty :math:`\lambda`, positive, and where floats add it to records, at
  least :math:`2^{-40}R^2`, or they would lose it;
- `feature_norm`: public bound `R` on the norm of a feature vector, of any sign;
  :class:`~hdpm_lib.schema.Schema` computes it. Where it may be left out, features then lie in [0,
  1], and :math:`R=\sqrt d`;
- `label_bound`: public bound `a` on the absolute value of a label, 1 if left out;
- `norm_bound`: a known bound on the norm of the estimate, the `B` of Assumption 2.2. With
  ``bound="paper"`` this is Theorem 2.3: the guarantee then covers only data sets whose estimate
  obeys it;
- `bound`: ``"paper"`` or ``"sharp"``, the sensitivity bound that sets the noise. Both are proved
  (:doc:`/book/ridge/beyond`), the sharp one adds less;
- `clip`: clip records to the bounds, without a word, instead of refusing them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

import numpy as np
from flint import arb, ctx
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.accounts import charge
from hdpm_lib.exact import (
    GRID,
    MARGIN,
    balls,
    moments,
    on_grid,
    released,
    spherical,
    spherical_uniforms,
)
from hdpm_lib.noise import grid_step, spherical_laplace
from hdpm_lib.private import check_records
from hdpm_lib.validation import (
    check_choice,
    check_epsilon,
    check_finite,
    check_flag,
    check_generator,
    check_numeric,
    check_penalty,
    check_positive,
)

Array = NDArray[np.float64]
Bound = Literal["paper", "sharp"]


def personalized_weights(epsilon: ArrayLike) -> Array:
    r"""Weights :math:`w_i=\varepsilon_i/\sum_j\varepsilon_j` of Theorem 2.1; they sum to one."""
    eps = check_epsilon(epsilon)
    return eps / eps.sum()


def estimate_norm_bound(
    penalty: float,
    feature_norm: float,
    bound: Bound = "paper",
    total_weight: float = 1.0,
    label_bound: float = 1.0,
) -> float:
    r"""Bound on the norm of the weighted ridge estimate, whatever the data.

    ``"paper"``: :math:`a\min(1/\sqrt\lambda, R/\lambda)`, Lemmas C.1 and C.2. ``"sharp"``:
    :math:`a\max_{0\le s\le R}s/(s^2+\lambda)`, which is attained. If weights sum to at most
    `total_weight` `W` instead of 1, the formulas become those of :math:`R\sqrt W`, times
    :math:`\sqrt W`.

    Examples
    --------
    >>> estimate_norm_bound(1.0, 3.0), estimate_norm_bound(1.0, 3.0, "sharp")
    (1.0, 0.5)
    """
    check_choice(bound, "bound", ("paper", "sharp"))
    lam = check_penalty(penalty)
    root = np.sqrt(check_positive(total_weight, "total_weight"))
    radius = check_positive(feature_norm, "feature_norm") * root
    if bound == "paper":
        value = min(1 / np.sqrt(lam), radius / lam)
    else:
        singular = min(np.sqrt(lam), radius)
        value = singular / (singular**2 + lam)
    return float(check_positive(label_bound, "label_bound") * root * value)


def sensitivity_constant(
    penalty: float,
    feature_norm: float,
    bound: Bound = "paper",
    norm_bound: float | None = None,
    label_bound: float = 1.0,
) -> float:
    r"""The `c` for which replacing record `i` moves the estimate by at most :math:`c\,w_i`.

    ``"paper"``: :math:`\frac{2R}{\lambda}(a+RB)`, Theorem C.4. ``"sharp"``:
    :math:`\frac{2R}{\lambda}(a+\tfrac12RB)`. `B` is `norm_bound`, or else the
    :func:`estimate_norm_bound` of the same kind.

    Examples
    --------
    >>> sensitivity_constant(1.0, 3.0), sensitivity_constant(1.0, 3.0, "sharp")
    (24.0, 10.5)
    """
    check_choice(bound, "bound", ("paper", "sharp"))
    lam = check_penalty(penalty)
    R = check_positive(feature_norm, "feature_norm")
    a = check_positive(label_bound, "label_bound")
    B = (
        estimate_norm_bound(lam, R, bound, 1.0, a)
        if norm_bound is None
        else check_positive(norm_bound, "norm_bound")
    )
    factor = 1.0 if bound == "paper" else 0.5
    return float(2 * R / lam * (a + factor * R * B))


def weighted_ridge(X: ArrayLike, y: ArrayLike, weights: ArrayLike, penalty: ArrayLike) -> Array:
    r"""Minimisers of :math:`\sum_i w_i(y_i-x_i^\top\theta)^2+\lambda\lVert\theta\rVert^2`, shape
    (..., d) (Eq. 1).

    The weights, shape (..., n), are not negative. A single penalty of 0 gives least squares of
    least norm; an array of penalties, shape (...), must be positive.

    Examples
    --------
    >>> weighted_ridge([[1.0]], [1.0], [1.0], 1.0).tolist()
    [0.5]
    """
    features, labels, w, lam = _check_problem(X, y, weights, penalty)
    if lam.ndim == 0 and lam == 0:
        return _least_squares(features, labels, w)
    second = _second_moments(features, w)
    cross = (w * labels) @ features
    system = second + lam[..., None, None] * np.eye(features.shape[1])
    return np.asarray(np.linalg.solve(system, cross[..., None])[..., 0])


def _least_squares(features: Array, labels: Array, weights: Array) -> Array:
    """Weighted least squares of least norm."""
    root = np.sqrt(weights)[..., None]
    return np.asarray((np.linalg.pinv(root * features) @ (root * labels[:, None]))[..., 0])


def _check_problem(
    X: ArrayLike, y: ArrayLike, weights: ArrayLike, penalty: ArrayLike
) -> tuple[Array, ...]:
    """Records, weights and penalties of weighted ridge problems as arrays of matching shapes."""
    features = check_finite(X, "X", 2)
    labels = check_finite(y, "y", 1)
    w = np.atleast_1d(check_finite(weights, "weights", low=0))
    lam = check_finite(penalty, "penalty", low=0)
    if not len(features) == len(labels) == w.shape[-1]:
        raise ValueError(
            f"X has {len(features)} records, y has {len(labels)} and weights has {w.shape[-1]}"
        )
    if lam.ndim:
        check_finite(lam, "penalty", low=0, ends="()", why="only a single one can be 0")
    return features, labels, w, lam


def _second_moments(features: Array, weights: Array) -> Array:
    """Weighted sums of the squares of records, shape (..., d, d)."""
    if weights.ndim == 1:
        return np.asarray((features.T * weights) @ features)
    rows, columns = np.triu_indices(features.shape[1])
    place = np.zeros((features.shape[1],) * 2, dtype=int)
    place[rows, columns] = place[columns, rows] = np.arange(len(rows))
    return np.take(weights @ (features[:, rows] * features[:, columns]), place, axis=-1)


@dataclass(frozen=True)
class OutputPerturbation:
    r"""A calibrated output perturbation, ready to release.

    Attributes
    ----------
    theta : array of shape (d,), the estimate before noise, which is private: never publish it
    weights : array of shape (n,)
    noise_rate : float, the rate :math:`\eta` of the spherical Laplace noise
    constant : float, the `c` of :func:`sensitivity_constant`
    radius : float, a public bound on the norm of `theta`
    penalty : float
    arithmetic : {"exact", "ideal"}
    steps : tuple of integer arrays, shapes (n, d) and (n,)
        The records on the grid of :mod:`hdpm_lib.exact`; private.
    feature_norm : float or None
        Bound on the norm of the features, or None if they lie in [0, 1].
    label_bound : float
    """

    theta: Array = field(repr=False)
    weights: Array
    noise_rate: float
    constant: float
    radius: float
    penalty: float
    arithmetic: Literal["exact", "ideal"] = "exact"
    steps: tuple[NDArray[np.int64], NDArray[np.int64]] | None = field(default=None, repr=False)
    feature_norm: float | None = None
    label_bound: float = 1.0

    @property
    def step(self) -> float:
        """Step of the grid on which exact releases lie."""
        return grid_step(1 / self.noise_rate, self.radius + 32 * len(self.theta) / self.noise_rate)

    @property
    def privacy_loss(self) -> Array:
        r"""Privacy loss promised to each record, :math:`\eta\,c\,w_i`, shape (n,)."""
        return self.noise_rate * self.constant * self.weights

    def release(
        self, *, rng: np.random.Generator, size: int | tuple[int, ...] = (), project: bool = False
    ) -> Array:
        r"""Noisy estimates that may be published; each one spends the whole privacy loss
        (:doc:`/book/privacy/limits`).

        Shape (\*size, d); `project` pulls those outside the public ball back onto it, which is free
        post-processing.
        """
        check_flag(project, "project")
        charge(lambda: self.privacy_loss, check_generator(rng), size)
        d = len(self.theta)
        if self.arithmetic == "ideal":
            noisy = self.theta + spherical_laplace(d, self.noise_rate, rng=rng, size=size)
        else:
            noisy = released(
                self._enclose(), d, spherical_uniforms(d), self.step, rng=rng, size=size
            )
        return project_on_ball(noisy, self.radius) if project else noisy

    def _enclose(self) -> Callable[[list[arb]], list[arb]]:
        """From enclosures of uniform numbers to those of estimate plus noise
        (:mod:`hdpm_lib.exact`).
        """
        assert self.steps is not None
        features, labels = self.steps
        d = len(self.theta)
        rate = self.noise_rate * (1 - MARGIN)

        second, weight = moments(self.weights, features, features)
        cross, _ = moments(self.weights, features, labels[:, None])

        @cache
        def estimate(bits: int) -> list[arb]:
            """The ridge estimate of the records on the grid, at a precision."""
            unit = arb(1.0 if self.feature_norm is None else self.feature_norm) / GRID
            y_unit = arb(self.label_bound) / GRID
            system = second * (weight * unit**2) + balls(self.penalty * np.eye(d))
            return system.solve(cross * (weight * unit * y_unit)).entries()

        def enclose(uniforms: list[arb]) -> list[arb]:
            noise = spherical(uniforms, d, rate)
            return [x + z for x, z in zip(estimate(ctx.prec), noise, strict=True)]

        return enclose


def project_on_ball(theta: ArrayLike, radius: float) -> Array:
    """The nearest point of the ball of that radius around zero, for vectors of shape (..., d)."""
    t = np.atleast_1d(np.asarray(check_numeric(theta, "theta"), dtype=float))
    if t.size or not t.shape[-1]:  # a batch may be empty
        check_finite(t, "theta")
    r = check_positive(radius, "radius")
    return t * np.minimum(1.0, r / np.maximum(np.linalg.norm(t, axis=-1, keepdims=True), r))


def output_perturbation(
    X: ArrayLike,
    y: ArrayLike,
    epsilon: ArrayLike,
    penalty: float,
    *,
    bound: Bound = "paper",
    feature_norm: float | None = None,
    label_bound: float = 1.0,
    norm_bound: float | None = None,
    clip: bool = False,
    arithmetic: Literal["exact", "ideal"] = "exact",
) -> OutputPerturbation:
    r"""PDP-OP, output perturbation (Algorithm 1) calibrated by Theorem 2.1, or by Theorem 2.3 with
    `norm_bound`.

    Call ``release`` of the result; its ``privacy_loss`` equals `epsilon`. The same
    :math:`\min_i\varepsilon_i` for everybody gives the paper's non-personalised baseline.

    Notes
    -----
    Weights are :math:`\varepsilon_i/S`, the rate is :math:`\eta=S/c`. No other weights give less
    noise within the same bound: :math:`\eta\,c\,w_i\le\varepsilon_i` summed over `i` is
    :math:`\eta\le S/c`.

    Examples
    --------
    >>> mechanism = output_perturbation([[0.0], [1.0]], [0.0, 1.0], [0.1, 0.5], penalty=1.0)
    >>> mechanism.privacy_loss.round(12).tolist()
    [0.1, 0.5]
    >>> mechanism.release(rng=np.random.default_rng(0), size=3).shape
    (3, 1)
    """
    check_choice(arithmetic, "arithmetic", ("exact", "ideal"))
    features, labels = check_records(
        X, y, feature_norm=feature_norm, label_bound=label_bound, clip=clip
    )
    ball = None if feature_norm is None else float(feature_norm)
    norm = ball or float(np.sqrt(features.shape[1]))
    eps = check_epsilon(epsilon, len(labels))
    lam = check_penalty(penalty, norm)
    # weights and noise rate of Theorem 2.1
    weights = personalized_weights(eps)
    constant = sensitivity_constant(lam, norm, bound, norm_bound, label_bound)
    noise_rate = float(eps.sum() / constant)
    # step 1, the estimate; steps 2 and 3 are its release
    theta = weighted_ridge(features, labels, weights, lam)
    radius = (
        norm_bound
        if norm_bound is not None
        else estimate_norm_bound(lam, norm, "sharp", 1.0, label_bound)
    )
    steps = on_grid(features, ball or 1.0, ball=ball is not None), on_grid(labels, label_bound)
    made = OutputPerturbation(
        theta,
        weights,
        noise_rate,
        constant,
        float(radius),
        lam,
        arithmetic,
        steps,
        ball,
        float(label_bound),
    )
    if arithmetic == "exact":
        _ = made.step  # its error now, from public numbers
    return made
