r"""Ridge regression with a privacy loss for each record: output perturbation (PDP-OP).

Record `i` states the most privacy loss :math:`\varepsilon_i` she accepts. She gets the weight
:math:`w_i=\varepsilon_i/S`, :math:`S=\sum_j\varepsilon_j`, in a ridge regression, and spherical
Laplace noise of rate :math:`S/c` is added to the estimate, where :math:`c\,w_i` bounds how far her
record can move it. Theorems, lemmas and equations are those of Acharya, Boenisch, Naidu and Ziani
(2024), "Personalized Differential Privacy for Ridge Regression", arXiv:2401.17127.

Public: the numbers of records and of features, every :math:`\varepsilon_i`, the penalty and the
bounds on features and labels; a mechanism is made of these alone. Neighbours: one record replaced
by any other inside the bounds. By default the guarantee holds for the program, to the last digit
(:mod:`hdpm_lib.exact`, :doc:`/book/privacy/limits`).

Throughout,

- `X`, shape (n, d), and `y`, shape (n,): features and labels of the records;
- `epsilon`, shape (n,): the :math:`\varepsilon_i`, positive;
- `penalty`: the ridge penalty :math:`\lambda`, positive, and where floats add it to records, at
  least :math:`2^{-40}R^2`, or they would lose it;
- `features`: their public number `d`;
- `feature_norm`: public bound `R` on the norm of a feature vector, of any sign;
  :class:`~hdpm_lib.schema.Schema` computes it. Where it may be left out, features then lie in [0,
  1], and :math:`R=\sqrt d`;
- `label_bound`: public bound `a` on the absolute value of a label, 1 if left out;
- `norm_bound`: a known bound on the norm of the estimate, the `B` of Assumption 2.2. With it the
  guarantee covers only data sets whose estimate obeys it (Theorem 2.3, for ``bound="paper"``);
- `bound`: ``"sharp"`` or ``"paper"``, the sensitivity bound that sets the noise. Both are proved
  (:doc:`/book/ridge/beyond`), the sharp one adds less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.accounts import charge
from hdpm_lib.exact import GRID, balls, on_grid, weighted_products, with_noise
from hdpm_lib.frozen import Frozen
from hdpm_lib.noise import (
    coordinate_margin,
    coordinate_variance,
    grid_step,
    spherical_laplace,
)
from hdpm_lib.private import check_records
from hdpm_lib.validation import (
    check_choice,
    check_count,
    check_epsilon,
    check_finite,
    check_flag,
    check_generator,
    check_losses,
    check_numeric,
    check_penalty,
    check_positive,
)

Array = NDArray[np.float64]
Bound = Literal["paper", "sharp"]


# --- calibration --------------------------------------------------------------------------------


def personalized_weights(epsilon: ArrayLike) -> Array:
    r"""Return the weights :math:`w_i=\varepsilon_i/\sum_j\varepsilon_j` of Theorem 2.1."""
    return weights_of(check_epsilon(epsilon))


def weights_of(epsilon: Array) -> Array:
    """Compute :func:`personalized_weights` of what was checked."""
    return epsilon / epsilon.sum()


def estimate_norm_bound(
    penalty: float,
    feature_norm: float,
    bound: Bound = "sharp",
    total_weight: float = 1.0,
    label_bound: float = 1.0,
) -> float:
    r"""Bound the norm of the weighted ridge estimate, whatever the data.

    ``"paper"``: :math:`a\min(1/\sqrt\lambda, R/\lambda)`, Lemmas C.1 and C.2. ``"sharp"``:
    :math:`a\max_{0\le s\le R}s/(s^2+\lambda)`, which is attained. If weights sum to at most
    `total_weight` `W` instead of 1, the formulas become those of :math:`R\sqrt W`, times
    :math:`\sqrt W`.

    Examples
    --------
    >>> estimate_norm_bound(1.0, 3.0), estimate_norm_bound(1.0, 3.0, "paper")
    (0.5, 1.0)
    """
    check_choice(bound, "bound", ("paper", "sharp"))
    lam = check_penalty(penalty)
    root = math.sqrt(check_positive(total_weight, "total_weight"))
    R = check_positive(feature_norm, "feature_norm")
    return norm_bound_of(lam, R * root, check_positive(label_bound, "label_bound") * root, bound)


def norm_bound_of(penalty: float, feature_norm: float, label_bound: float, bound: Bound) -> float:
    """Compute :func:`estimate_norm_bound` of what was checked."""
    root = math.sqrt(penalty)
    if bound == "paper":
        return label_bound * min(1 / root, feature_norm / penalty)
    singular = min(root, feature_norm)
    return label_bound * (singular / (singular**2 + penalty))


def sensitivity_constant(
    penalty: float,
    feature_norm: float,
    bound: Bound = "sharp",
    norm_bound: float | None = None,
    label_bound: float = 1.0,
) -> float:
    r"""Return the `c` for which replacing record `i` moves the estimate at most :math:`c\,w_i`.

    ``"paper"``: :math:`\frac{2R}{\lambda}(a+RB)`, Theorem C.4. ``"sharp"``:
    :math:`\frac{2R}{\lambda}(a+\tfrac12RB)`. `B` is `norm_bound`, or else the
    :func:`estimate_norm_bound` of the same kind.

    Examples
    --------
    >>> sensitivity_constant(1.0, 3.0), sensitivity_constant(1.0, 3.0, "paper")
    (10.5, 24.0)
    """
    check_choice(bound, "bound", ("paper", "sharp"))
    lam = check_penalty(penalty)
    R = check_positive(feature_norm, "feature_norm")
    a = check_positive(label_bound, "label_bound")
    if norm_bound is not None:
        norm_bound = check_positive(norm_bound, "norm_bound")
    constant = constant_of(lam, R, a, bound, norm_bound)
    return check_positive(constant, "the constant at this penalty and these bounds")


def constant_of(
    penalty: float, feature_norm: float, label_bound: float, bound: Bound, norm_bound: float | None
) -> float:
    """Compute :func:`sensitivity_constant` of what was checked."""
    R = feature_norm
    B = norm_bound
    if B is None:
        B = norm_bound_of(penalty, R, label_bound, bound)
    factor = 1.0 if bound == "paper" else 0.5
    return 2 * R / penalty * (label_bound + factor * R * B)


# --- the estimate -------------------------------------------------------------------------------


@np.errstate(under="ignore")
def weighted_ridge(X: ArrayLike, y: ArrayLike, weights: ArrayLike, penalty: ArrayLike) -> Array:
    r"""Minimise :math:`\sum_i w_i(y_i-x_i^\top\theta)^2+\lambda\lVert\theta\rVert^2`: Eq. (1).

    The minimisers have shape (..., d) for weights of shape (..., n), not negative. A single penalty
    of 0 gives least squares of least norm; an array of penalties, shape (...), must be positive.

    Examples
    --------
    >>> weighted_ridge([[1.0]], [1.0], [1.0], 1.0).tolist()
    [0.5]
    """
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
    elif lam == 0:
        root = np.sqrt(w)[..., None]
        least = np.linalg.pinv(root * features) @ (root * labels[:, None])
        return np.asarray(least[..., 0])
    return estimate(features, labels, w, lam)


def estimate(X: Array, y: Array, weights: Array, penalty: ArrayLike) -> Array:
    """Compute :func:`weighted_ridge` of what was checked, for positive penalties."""
    ridge = np.asarray(penalty)[..., None, None] * np.eye(X.shape[1])
    system = _second_moments(X, weights) + ridge
    cross = ((weights * y) @ X)[..., None]
    try:
        theta = np.linalg.solve(system, cross)
    except np.linalg.LinAlgError:  # the penalty is below the last digits of the moments
        theta = np.linalg.pinv(system, hermitian=True) @ cross
    return np.asarray(theta[..., 0])


def _second_moments(X: Array, weights: Array) -> Array:
    """Sum the squares of records with weights, shape (..., d, d)."""
    if weights.ndim == 1:
        return np.asarray((X.T * weights) @ X)
    # each entry of the upper triangle once
    d = X.shape[1]
    rows, columns = np.triu_indices(d)
    place = np.zeros((d, d), dtype=int)
    place[rows, columns] = np.arange(len(rows))
    place[columns, rows] = np.arange(len(rows))
    sums = weights @ (X[:, rows] * X[:, columns])
    return np.take(sums, place, axis=-1)


# --- the release --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class OutputPerturbation(Frozen):
    r"""A calibrated output perturbation; made by :func:`output_perturbation`.

    Parameters
    ----------
    weights : array of shape (n,)
        Weights :math:`w_i` of the records, with sum 1.
    noise_rate : float
        Rate :math:`\eta` of the spherical Laplace noise.
    constant : float
        The `c` of :func:`sensitivity_constant`.
    radius : float
        A public bound on the norm of the estimate before noise.
    penalty : float
        The ridge penalty.
    features : int
        Number of features `d`.
    feature_norm : float, optional
        Public bound on the norm of a feature vector; None if features lie in [0, 1].
    label_bound : float, default 1
        Public bound on the absolute value of a label.
    clip : bool, default False
        Move records outside the bounds onto them, in silence, instead of refusing them.
    arithmetic : {"exact", "ideal"}, default "exact"
        Certain to the last digit, or floats, for studies.

    Examples
    --------
    >>> model = output_perturbation([0.1, 0.5], penalty=1.0, features=1)
    >>> model.noise_rate, model.radius, model.privacy_loss.round(12)
    (0.24, 0.5, array([0.1, 0.5]))
    """

    weights: Array
    noise_rate: float
    constant: float
    radius: float
    penalty: float
    features: int
    feature_norm: float | None = None
    label_bound: float = 1.0
    clip: bool = False
    arithmetic: Literal["exact", "ideal"] = "exact"

    @property
    def step(self) -> float:
        """Step of the grid on which exact releases lie."""
        return grid_step(1 / self.noise_rate, self.radius + 32 * self.features / self.noise_rate)

    @property
    def privacy_loss(self) -> Array:
        r"""Privacy loss promised to each record, :math:`\eta\,c\,w_i`, shape (n,)."""
        return self.noise_rate * self.constant * self.weights

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the noise in one coefficient, before any projection."""
        return float(np.sqrt(coordinate_variance(self.features, self.noise_rate)))

    def noise_margin(self, level: float = 0.95) -> float:
        """Return how far the noise moves one coefficient at most, with that probability.

        Parameters
        ----------
        level : float, default 0.95
            The probability, between 0 and 1.

        Returns
        -------
        float
            Half the length of an interval around a released coefficient that was not projected.
        """
        return coordinate_margin(self.features, self.noise_rate, level)

    @np.errstate(under="ignore")
    def release(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        rng: np.random.Generator,
        size: int | tuple[int, ...] = (),
        project: bool = False,
    ) -> Array:
        r"""Release noisy estimates; each one spends the whole privacy loss.

        Parameters
        ----------
        X : array of shape (n, d)
            Features, private, in [0, 1], or with a `feature_norm` of any sign.
        y : array of shape (n,)
            Labels, private, of absolute value at most `label_bound`.
        rng : numpy.random.Generator
            Source of the noise.
        size : int or tuple of int, default ()
            Shape of a batch of estimates; ``()`` gives one.
        project : bool, default False
            Pull estimates outside the public ball of the `radius` back onto it, which is free
            post-processing.

        Returns
        -------
        array of shape (\*size, d)
            Estimates with independent noise (:doc:`/book/privacy/limits`).
        """
        check_flag(project, "project")
        features, labels = check_records(
            X,
            y,
            feature_norm=self.feature_norm,
            label_bound=self.label_bound,
            clip=self.clip,
            shape=(len(self.weights), self.features),
        )
        charge(lambda: self.privacy_loss, check_generator(rng), size)
        d = self.features
        if self.arithmetic == "ideal":
            theta = estimate(features, labels, self.weights, self.penalty)
            noisy = theta + spherical_laplace(d, self.noise_rate, rng=rng, size=size)
        else:
            exactly = self._exactly(features, labels)
            noisy = with_noise(exactly, d, self.noise_rate, self.step, rng=rng, size=size)
        if project:
            return _projected(noisy, self.radius)
        return noisy

    def _exactly(self, X: Array, y: Array) -> Callable[[int], list[arb]]:
        """Return the ridge estimate of records on the grid as a function of a precision."""
        x_bound = 1.0 if self.feature_norm is None else self.feature_norm
        features = on_grid(X, x_bound, ball=self.feature_norm is not None)
        labels = on_grid(y, self.label_bound)
        second, weight = weighted_products(self.weights, features, features)
        cross, _ = weighted_products(self.weights, features, labels[:, None])

        def exactly(bits: int) -> list[arb]:
            unit = arb(x_bound) / GRID
            y_unit = arb(self.label_bound) / GRID
            system = second * (weight * unit**2) + balls(self.penalty * np.eye(self.features))
            return system.solve(cross * (weight * unit * y_unit)).entries()

        return exactly


def project_on_ball(theta: ArrayLike, radius: float) -> Array:
    """Find the nearest points of the ball of that radius around zero, for vectors (..., d)."""
    vectors = np.atleast_1d(np.asarray(check_numeric(theta, "theta"), dtype=float))
    if vectors.size or not vectors.shape[-1]:  # a batch may be empty
        check_finite(vectors, "theta")
    return _projected(vectors, check_positive(radius, "radius"))


def _projected(vectors: Array, radius: float) -> Array:
    """Compute :func:`project_on_ball` of what was checked."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors * np.minimum(1.0, radius / np.maximum(length, radius))


def output_perturbation(
    epsilon: ArrayLike,
    penalty: float,
    *,
    features: int,
    bound: Bound = "sharp",
    feature_norm: float | None = None,
    label_bound: float = 1.0,
    norm_bound: float | None = None,
    clip: bool = False,
    arithmetic: Literal["exact", "ideal"] = "exact",
) -> OutputPerturbation:
    r"""Calibrate ridge regression with output perturbation, PDP-OP, to personal privacy losses.

    Parameters
    ----------
    epsilon : array of shape (n,), or Outcome
        The most privacy loss :math:`\varepsilon_i` that each record accepts, not negative: 0 leaves
        it out. An :class:`~hdpm_lib.markets.outcome.Outcome` stands for what a market has bought.
        The same
        :math:`\min_i\varepsilon_i` for everybody gives the paper's non-personalised baseline.
    penalty : float
        The ridge penalty :math:`\lambda`, positive and at least :math:`2^{-40}R^2`.
    features : int
        Number of features `d`, positive.
    bound : {"sharp", "paper"}, default "sharp"
        The sensitivity bound that sets the noise. Both are proved; the paper's adds more noise.
    feature_norm : float, optional
        Public bound `R` on the Euclidean norm of a feature vector, positive, instead of the box
        [0, 1], for which :math:`R=\sqrt d`.
    label_bound : float, default 1
        Public bound `a` on the absolute value of a label, positive.
    norm_bound : float, optional
        A known bound `B` on the norm of the estimate, positive. The promise then holds only for
        data sets whose estimate obeys it, and nobody checks that.
    clip : bool, default False
        Move records outside the bounds onto them, in silence, instead of refusing them.
    arithmetic : {"exact", "ideal"}, default "exact"
        Certain to the last digit, or floats, for studies.

    Returns
    -------
    OutputPerturbation
        Its `release` takes the records and gives private estimates; its `privacy_loss` equals
        `epsilon`.

    Notes
    -----
    Algorithm 1 of Acharya et al., calibrated by their Theorem 2.1, or by Theorem 2.3 with
    `norm_bound`; the sharp bound is proved in :doc:`/book/ridge/beyond`. Weights are
    :math:`\varepsilon_i/S`, the rate is :math:`\eta=S/c`. No other weights give less noise within
    the same bound: :math:`\eta\,c\,w_i\le\varepsilon_i` summed over `i` is :math:`\eta\le S/c`.
    Neighbours: one record replaced by any other inside the bounds. The estimate before noise, which
    is private, is :func:`weighted_ridge` with these weights.

    References
    ----------
    Acharya, Boenisch, Naidu and Ziani (2024), "Personalized Differential Privacy for Ridge
    Regression", arXiv:2401.17127.

    Examples
    --------
    >>> mechanism = output_perturbation([0.1, 0.5], penalty=1.0, features=1)
    >>> mechanism.privacy_loss.round(12).tolist()
    [0.1, 0.5]
    >>> mechanism.release([[0.0], [1.0]], [0.0, 1.0], rng=np.random.default_rng(0), size=3).shape
    (3, 1)
    """
    check_choice(arithmetic, "arithmetic", ("exact", "ideal"))
    check_choice(bound, "bound", ("paper", "sharp"))
    check_flag(clip, "clip")
    d = check_count(features, "features")
    R = math.sqrt(d)  # of features in [0, 1]
    if feature_norm is not None:
        feature_norm = check_positive(feature_norm, "feature_norm")
        R = feature_norm
    a = check_positive(label_bound, "label_bound")
    eps = check_losses(epsilon)
    lam = check_penalty(penalty, R)
    if norm_bound is not None:
        norm_bound = check_positive(norm_bound, "norm_bound")
    # weights and noise rate of Theorem 2.1
    weights = weights_of(eps)
    constant = constant_of(lam, R, a, bound, norm_bound)
    noise_rate = check_positive(
        float(eps.sum()) / constant,
        "the sum of epsilon over what a record of weight 1 moves at this penalty and these bounds",
    )
    radius = norm_bound
    if radius is None:
        radius = norm_bound_of(lam, R, a, "sharp")
    made = OutputPerturbation(
        weights, noise_rate, constant, radius, lam, d, feature_norm, a, clip, arithmetic
    )
    if arithmetic == "exact":
        _ = made.step  # its error now, from public numbers
    return made
