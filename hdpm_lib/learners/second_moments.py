r"""Ridge regression from noisy second moments, with a privacy loss for each record.

Record `i` has the weight :math:`w_i=\varepsilon_i/S`, :math:`S=\sum_j\varepsilon_j`. What leaves is
one vector, the weighted sum of the records' *moments*

.. math::

    m_i=\bigl(x_{ij}^2,\ \sqrt2x_{ij}x_{ik}\ (j<k),\ tx_{ij}y_i\bigr),\qquad t=R/a,

plus spherical Laplace noise of rate :math:`S/\Delta`, where :math:`\Delta=\tfrac3{\sqrt2}R^2` is
the largest distance of the moments of two records with :math:`\lVert x\rVert\le R` and
:math:`|y|\le a`. So record `i` loses :math:`\varepsilon_i`. Noise of the same size falls on either
kind of moment, whatever the unit of the labels. The rest is post-processing: eigenvalues of the
noisy matrix are cut at 0, the penalty is added, the equations are solved.

*The distance.* With :math:`c=x^\top x'` its square is :math:`\lVert x\rVert^4+\lVert
x'\rVert^4-2c^2+t^2(\lVert x\rVert^2y^2+\lVert x'\rVert^2y'^2-2cyy')`. It is convex in the labels
and rises with the lengths while `c` stays, so the largest has labels :math:`\pm a` of opposite
effect and lengths `R`: :math:`4R^4-2c^2+2R^2|c|`, at most :math:`\tfrac92R^4`, where
:math:`|c|=R^2/2`. ∎

Public: the numbers of records and of features, every :math:`\varepsilon_i`, `R`, `a` and the
penalty; a mechanism is made of these alone. Neighbours: one record replaced by any other inside the
bounds. By default releases are certain to the last digit (:mod:`hdpm_lib.exact`).

Noise on second moments is due to Blum, Dwork, McSherry and Nissim (2005, "Practical Privacy: the
SuLQ Framework") and, for regression with a penalty that follows from the noise, Wang (2018,
"Revisiting Differentially Private Linear Regression", AdaSSP); here it has personal weights and
pure losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from hdpm_lib.accounts import charge
from hdpm_lib.exact import GRID, on_grid, weighted_products, with_noise
from hdpm_lib.frozen import Frozen
from hdpm_lib.learners.settings import EXPLAINED
from hdpm_lib.noise import coordinate_variance, grid_step, spherical_laplace
from hdpm_lib.private import check_records
from hdpm_lib.validation import (
    check_choice,
    check_count,
    check_flag,
    check_generator,
    check_losses,
    check_positive,
)

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

DISTANCE = 3 / math.sqrt(2)  # of the moments of two records, at most, in squared feature norms
# of sqrt(d) times the noise of a moment: what eigenvalues may lose to it; chosen on drawn problems
SHARE = 0.6


@dataclass(frozen=True, eq=False, repr=False)
class NoisyMoments(Frozen):
    r"""Second moments that were released, and what follows from them at no loss of privacy.

    Made by :meth:`SecondMoments.release_moments`.

    Parameters
    ----------
    matrix : array of shape (..., d, d)
        Noisy second moments of the features, symmetric.
    cross : array of shape (..., d)
        Noisy moments of features and labels.
    noise_sd : float
        Standard deviation of the noise on a diagonal entry of `matrix`; beside the diagonal it is
        less by the root of 2.
    unit : float
        Factor of that standard deviation on `cross`: label bound over feature norm.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((5000, 2))
    >>> mechanism = second_moments(np.ones(5000), features=2)
    >>> moments = mechanism.release_moments(X, X @ [0.5, 0.3], rng=rng)
    >>> [moments.coefficients(penalty).round(1).tolist() for penalty in (0.002, 1.0)]
    [[0.5, 0.3], [0.2, 0.1]]
    >>> np.sqrt(np.diag(moments.noise_covariance(0.002))).round(2)
    array([0.01, 0.01])
    """

    matrix: Array
    cross: Array
    noise_sd: float
    unit: float

    def _hidden(self) -> set[str]:
        """Name what is not printed: without noise these are moments of private records."""
        if self.noise_sd:
            return set()
        return {"matrix", "cross"}

    def coefficients(self, penalty: float) -> Array:
        """Return ridge coefficients.

        Parameters
        ----------
        penalty : float
            Number added to the eigenvalues of the matrix, which are cut at 0; positive.

        Returns
        -------
        array of shape (..., d)
            In units of labels over features.
        """
        values, vectors = np.linalg.eigh(self.matrix)
        turned = np.einsum("...ij,...i->...j", vectors, self.cross)
        turned /= np.maximum(values, 0) + check_positive(penalty, "penalty")
        return np.asarray(np.einsum("...ij,...j->...i", vectors, turned))

    def noise_covariance(self, penalty: float) -> Array:
        r"""Return the covariance of what noise did to the coefficients, to first order in it.

        With the noise `E` on the matrix and `e` on the cross moments, the coefficients
        :math:`\hat\theta` are those without noise plus :math:`A^{-1}(e-E\hat\theta)`, where `A` is
        the matrix plus the penalty; the covariance of the bracket is
        :math:`\sigma^2(u^2+\lVert\hat\theta\rVert^2/2)I+\sigma^2\hat\theta\hat\theta^\top/2`.

        Parameters
        ----------
        penalty : float
            That of the coefficients, positive.

        Returns
        -------
        array of shape (..., d, d)
            Of the noise alone, not of the sampling of records.
        """
        lam = check_positive(penalty, "penalty")
        theta = self.coefficients(lam)
        values, vectors = np.linalg.eigh(self.matrix)
        scaled = vectors / (np.maximum(values, 0) + lam)[..., None, :]
        inverse = scaled @ np.swapaxes(vectors, -1, -2)
        plain = self.unit**2 + (theta * theta).sum(-1) / 2
        pulled = np.einsum("...ij,...j->...i", inverse, theta)
        even = plain[..., None, None] * inverse @ inverse
        outer = pulled[..., :, None] * pulled[..., None, :] / 2
        return np.asarray(self.noise_sd**2 * (even + outer))


@dataclass(frozen=True, eq=False, repr=False)
class SecondMoments(Frozen):
    r"""Noisy second moments, released as coefficients; made by :func:`second_moments`.

    Parameters
    ----------
    epsilon : array of shape (n,)
        Privacy loss that each record accepts.
    penalty : float
        Number added to the eigenvalues of the noisy matrix, positive.
    features : int
        Number of features `d`.
    feature_norm : float, optional
        Public bound `R` on the norm of a feature vector; None if features lie in [0, 1].
    label_bound : float, default 1
        Public bound `a` on the absolute value of a label.
    clip : bool, default False
        Move records outside onto the bounds instead of refusing them, in silence.
    arithmetic : {"exact", "ideal"}, default "exact"
        Arithmetic of a release.

    Examples
    --------
    >>> mechanism = second_moments([1000.0, 3000.0], features=1)
    >>> mechanism.privacy_loss
    array([1000., 3000.])
    >>> mechanism.release([[0.0], [1.0]], [0.0, 1.0], rng=np.random.default_rng(0)).round(1)
    array([1.])
    """

    epsilon: Array
    penalty: float
    features: int
    feature_norm: float | None = None
    label_bound: float = 1.0
    clip: bool = False
    arithmetic: Literal["exact", "ideal"] = "exact"

    @property
    def longest(self) -> float:
        """The most that the norm of a feature vector can be."""
        return self.feature_norm or math.sqrt(self.features)

    @property
    def dimension(self) -> int:
        """Number of moments."""
        return self.features * (self.features + 3) // 2

    @property
    def weights(self) -> Array:
        """Weights of the records, with sum 1, shape (n,)."""
        return self.epsilon / self.epsilon.sum()

    @property
    def noise_rate(self) -> float:
        """Rate of the spherical Laplace noise on the moments."""
        return float(self.epsilon.sum() / (DISTANCE * self.longest**2))

    @property
    def privacy_loss(self) -> Array:
        """Privacy loss of each record, shape (n,)."""
        return self.epsilon

    @property
    def step(self) -> float:
        """Step of the grid on which exact releases of moments lie."""
        spread = 1 / self.noise_rate
        return grid_step(spread, 2 * self.longest**2 + 32 * self.dimension * spread)

    def release(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        rng: np.random.Generator,
        size: int | tuple[int, ...] = (),
    ) -> Array:
        r"""Release coefficients; each release spends the whole privacy loss.

        Parameters
        ----------
        X : array of shape (n, d)
            Features, private.
        y : array of shape (n,)
            Labels, private.
        rng : numpy.random.Generator
            Source of the noise.
        size : int or tuple of int, default ()
            Shape of a batch; ``()`` gives one.

        Returns
        -------
        array of shape (\*size, d)
            Coefficients, in units of labels over features.
        """
        return self.release_moments(X, y, rng=rng, size=size).coefficients(self.penalty)

    @np.errstate(under="ignore")
    def release_moments(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        rng: np.random.Generator,
        size: int | tuple[int, ...] = (),
    ) -> NoisyMoments:
        """Release moments, from which coefficients at every penalty follow, in one release.

        Parameters
        ----------
        X : array of shape (n, d)
            Features, private.
        y : array of shape (n,)
            Labels, private.
        rng : numpy.random.Generator
            Source of the noise.
        size : int or tuple of int, default ()
            Shape of a batch; ``()`` gives one.

        Returns
        -------
        NoisyMoments
            Which may be published.
        """
        features, labels = self._on_grid(X, y)
        charge(lambda: self.privacy_loss, check_generator(rng), size)
        m = self.dimension
        if self.arithmetic == "ideal":
            noise = spherical_laplace(m, self.noise_rate, rng=rng, size=size)
            return self._in_place(self._in_floats(features, labels) + noise)
        exactly = self._exactly(features, labels)
        drawn = with_noise(exactly, m, self.noise_rate, self.step, rng=rng, size=size)
        return self._in_place(drawn)

    @np.errstate(under="ignore")
    def without_noise(self, X: ArrayLike, y: ArrayLike) -> NoisyMoments:
        """Return the moments of the records, in floats: private, for studies and comparisons.

        Parameters
        ----------
        X : array of shape (n, d)
            Features, private.
        y : array of shape (n,)
            Labels, private.

        Returns
        -------
        NoisyMoments
            Without noise: never publish them.
        """
        features, labels = self._on_grid(X, y)
        moments = self._in_place(self._in_floats(features, labels))
        return replace(moments, noise_sd=0.0)

    def _on_grid(self, X: ArrayLike, y: ArrayLike) -> tuple[Integers, Integers]:
        """Return records inside the bounds, on the grid of :mod:`hdpm_lib.exact`."""
        features, labels = check_records(
            X,
            y,
            feature_norm=self.feature_norm,
            label_bound=self.label_bound,
            clip=self.clip,
            shape=(len(self.epsilon), self.features),
        )
        return on_grid(features, self.longest, ball=True), on_grid(labels, self.label_bound)

    def _in_place(self, moments: Array) -> NoisyMoments:
        """Put moments of shape (..., dimension) in their places in the matrix and beside it."""
        d = self.features
        rows, columns = np.triu_indices(d)
        matrix = np.empty((*moments.shape[:-1], d, d))
        on_diagonal = rows == columns
        entries = moments[..., :-d] / np.where(on_diagonal, 1, math.sqrt(2))
        matrix[..., rows, columns] = entries
        matrix[..., columns, rows] = entries
        unit = self.label_bound / self.longest
        noise_sd = math.sqrt(coordinate_variance(self.dimension, self.noise_rate))
        return NoisyMoments(matrix, moments[..., -d:] * unit, noise_sd, unit)

    def _in_floats(self, steps: Integers, labels: Integers) -> Array:
        """Compute the moments of records on the grid."""
        scale = self.longest / GRID
        features = steps * scale
        second = (features.T * self.weights) @ features
        rows, columns = np.triu_indices(len(second))
        squares = second[rows, columns] * np.where(rows == columns, 1, math.sqrt(2))
        cross = (self.weights * (labels * scale)) @ features
        return np.append(squares, cross)

    def _exactly(self, steps: Integers, labels: Integers) -> Callable[[int], list[arb]]:
        """Return the moments of records on the grid as a function of a precision."""
        second, weight = weighted_products(self.weights, steps, steps)
        cross, _ = weighted_products(self.weights, steps, labels[:, None])
        d = self.features

        def exactly(bits: int) -> list[arb]:
            unit = weight * (arb(self.longest) / GRID) ** 2  # of both kinds, as t a = R
            beside = unit * arb(2).sqrt()  # of entries beside the diagonal
            entries = []
            for j in range(d):
                entries.append(second[j, j] * unit)
                for k in range(j + 1, d):
                    entries.append(second[j, k] * beside)
            for entry in cross.entries():
                entries.append(entry * unit)
            return entries

        return exactly


def _noise_variance(features: int, total_loss: float, feature_norm: float) -> float:
    """Return the variance of the noise of one moment, of d (d + 3) / 2."""
    scale = DISTANCE * feature_norm**2 / total_loss
    return (features * (features + 3) / 2 + 1) * scale * scale


def noise_penalty(features: int, total_loss: float, feature_norm: float) -> float:
    r"""Return the penalty that the noise asks for, from public numbers alone.

    With noise of the variance :math:`\sigma^2` on each moment it is the larger one of
    :math:`0.6\sqrt d\sigma`, for the least eigenvalue may lose as much, and of
    :math:`12d\sigma^2/R^2`, the best one where features have the variance :math:`R^2/(3d)` each, as
    uniform ones in their ranges, and are not correlated, labels are uniform in their range, and a
    linear law explains a quarter of their variance.

    Parameters
    ----------
    features : int
        Number of features `d`.
    total_loss : float
        Sum `S` of the accepted privacy losses, positive.
    feature_norm : float
        Public bound `R` on the norm of a feature vector, positive.

    Returns
    -------
    float
        The penalty, in squared units of the features.

    Examples
    --------
    >>> round(noise_penalty(5, 4000.0, 1.5), 4)
    0.0073
    """
    variance = _noise_variance(features, total_loss, feature_norm)
    least = SHARE * math.sqrt(features * variance)
    return max(least, 3 * features * variance / (EXPLAINED * feature_norm**2))


def second_moments(
    epsilon: ArrayLike,
    penalty: float | None = None,
    *,
    features: int,
    feature_norm: float | None = None,
    label_bound: float = 1.0,
    clip: bool = False,
    arithmetic: Literal["exact", "ideal"] = "exact",
) -> SecondMoments:
    r"""Calibrate ridge regression from noisy second moments.

    Parameters
    ----------
    epsilon : array of shape (n,), or Outcome
        Privacy loss that each record accepts, not negative: 0 leaves it out. An
        :class:`~hdpm_lib.markets.outcome.Outcome` stands for what a market has bought.
    penalty : float, optional
        Ridge penalty on the weighted mean of squared errors, positive; :func:`noise_penalty` by
        default.
    features : int
        Number of features `d`, positive.
    feature_norm : float, optional
        Public bound on the Euclidean norm of a feature vector, of any sign. If not given, features
        lie in [0, 1].
    label_bound : float, default 1
        Public bound on the absolute value of a label, positive.
    clip : bool, default False
        Move records outside onto the bounds instead of refusing them, in silence.
    arithmetic : {"exact", "ideal"}, default "exact"
        Certain to the last digit, or floats, for studies.

    Returns
    -------
    SecondMoments
        Its `release` takes the records and gives private coefficients, its `privacy_loss` is
        `epsilon`.

    Notes
    -----
    Neighbours: one record replaced by any other inside the bounds. Unlike output perturbation
    (:func:`hdpm_lib.learners.ridge.output_perturbation`) the noise does not grow as the penalty
    falls, and ever more records bring ever less bias.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((5000, 2)); y = X @ [0.5, 0.3]
    >>> second_moments(np.full(5000, 1.0), features=2).release(X, y, rng=rng).shape
    (2,)
    """
    check_choice(arithmetic, "arithmetic", ("exact", "ideal"))
    check_flag(clip, "clip")
    d = check_count(features, "features")
    norm = math.sqrt(d)  # of features in [0, 1]
    if feature_norm is not None:
        feature_norm = check_positive(feature_norm, "feature_norm")
        norm = feature_norm
    a = check_positive(label_bound, "label_bound")
    eps = check_losses(epsilon)
    total = float(eps.sum())
    check_positive(total / norm**2, "the sum of epsilon over the square of feature_norm")
    if penalty is None:
        lam = noise_penalty(d, total, norm)
        check_positive(lam, "the penalty that epsilon and feature_norm give")
    else:
        lam = check_positive(penalty, "penalty")
    made = SecondMoments(eps, lam, d, feature_norm, a, clip, arithmetic)
    if arithmetic == "exact":
        _ = made.step  # its error now, from public numbers
    return made
