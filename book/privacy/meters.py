"""Shares of the promise that sellers lose: on ordinary data, on tight data, and where a part of a constant is left out.

A share is a loss found over the loss promised. Above 1 is a violation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import train_test_split

from hdpm_book import datasets
from hdpm_book.logistic.formulas import output_log_density, printed_slack
from hdpm_book.logistic.pairs import tight_pair
from hdpm_book.logistic.study import public_scale_split
from hdpm_book.privacy.instances import gradient_ends, logistic_ends, ridge_ends, sum_ends
from hdpm_book.ridge.study import SPLIT_SEED, PrivacyGroups
from hdpm_lib.audits.meters import PrivacyLosses, privacy_losses
from hdpm_lib.audits.ridge import ridge_pair_loss
from hdpm_lib.learners.gradients import clipped, local_gradients, noise_scale
from hdpm_lib.learners.logistic import objective_perturbation, sharp_slack
from hdpm_lib.learners.queries import linear_query
from hdpm_lib.learners.ridge import output_perturbation

Array = NDArray[np.float64]
Bound = Literal["paper", "sharp"]

SUM, LOGISTIC, GRADIENTS = "sum", "logistic", "gradients"
RIDGE = {"paper": "ridge, paper's constant", "sharp": "ridge, sharp constant"}

# --- ordinary data ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sellers:
    """Records for ridge regression, and the privacy losses that their owners accept."""

    X: Array
    y: Array
    epsilon: Array

    def losses(self, penalty: float, bound: Bound = "paper") -> PrivacyLosses:
        """Both ends of the worst loss of every seller."""
        model = output_perturbation(self.X, self.y, self.epsilon, penalty, bound=bound)
        return privacy_losses(model, self.X, self.y, rng=np.random.default_rng(2))


def medical_sellers() -> Sellers:
    """The medical records that the ridge paper trains on, with owners of its three groups."""
    X, y, _ = datasets.medical_design(datasets.medical_cost(), ranges="data")
    X, _, y, _ = train_test_split(X, y, test_size=0.2, random_state=SPLIT_SEED)
    return Sellers(X, y, PrivacyGroups().draw(len(y), rng=np.random.default_rng(1)))


@dataclass(frozen=True)
class LargestShares:
    """Largest share over all sellers at each penalty: found by the search, and the proved upper end."""

    found: Array
    at_most: Array


def largest_shares(sellers: Sellers, penalties: Sequence[float], bound: Bound) -> LargestShares:
    """The largest share over all sellers, penalty by penalty."""
    losses = [sellers.losses(penalty, bound) for penalty in penalties]
    found = [(each.found / sellers.epsilon).max() for each in losses]
    return LargestShares(np.array(found), np.array([(each.at_most / sellers.epsilon).max() for each in losses]))


def ordinary_shares(sellers: Sellers) -> dict[str, Array]:
    """Shares of all sellers on real data, learner by learner."""
    b = 1 / sellers.epsilon.max()
    shares = {SUM: privacy_losses(linear_query(sellers.epsilon * b, b), sellers.y).found / sellers.epsilon}
    for bound, name in RIDGE.items():
        shares[name] = sellers.losses(1.0, bound).found / sellers.epsilon  # type: ignore[arg-type]
    shares[LOGISTIC] = logistic_shares(1e-2).max(axis=(0, 1))
    return shares | {GRADIENTS: gradient_shares()}


def _tumours() -> tuple[Array, Array]:
    """Features and labels of those breast-cancer records whose owners sell."""
    tumours = datasets.breast_cancer()
    labels = np.where(tumours.labels == "malignant", 1.0, -1.0)
    parts = public_scale_split(tumours.features.to_numpy(float), labels, rng=np.random.default_rng(1))
    return parts.X_train, parts.y_train


def logistic_shares(penalty: float) -> Array:
    """Shares at two released outputs, and at the same thirty times as long; shape (2, outputs, sellers)."""
    X, y = _tumours()
    bought = PrivacyGroups().draw(len(y), rng=np.random.default_rng(3))
    model = objective_perturbation(X, y, bought / bought.sum(), bought.sum(), penalty)
    w = model.release(rng=np.random.default_rng(4), size=2)
    return np.array([privacy_losses(model, v).found / model.privacy_loss for v in (w, 30 * w)])


def gradient_privacy_losses(
    gradients: Array, epsilon: ArrayLike, clip_norm: float, *, neighbours: Array | None = None
) -> Array:
    r"""Privacy losses of owners who send clipped gradients with Laplace noise.

    Against the worst neighbour a clipped gradient `g` loses :math:`\varepsilon(\lVert g\rVert_1+L)/(2L)`, where `L` is
    `clip_norm`, positive: who was clipped loses all that she accepts.

    Parameters
    ----------
    gradients : array of shape (..., classes, features)
        Before clipping.
    epsilon : array of shape (...), not negative
        Privacy losses that the owners accept.
    neighbours : array of shape (..., classes, features), optional
        The owners' gradients on other data. If not given, the worst: far out, on the other side of zero.

    Examples
    --------
    >>> gradient_privacy_losses(np.array([[[0.5, 0.0]], [[3.0, -1.0]]]), [0.8, 0.8], 1.0)
    array([0.6, 0.8])
    """
    if neighbours is None:
        direction = np.where(gradients.any((-2, -1), keepdims=True), gradients, 1.0)
        neighbours = -10 * clip_norm * direction / np.abs(direction).sum((-2, -1), keepdims=True)
    apart = np.abs(clipped(gradients, clip_norm) - clipped(neighbours, clip_norm)).sum((-2, -1))
    return np.asarray(apart / noise_scale(epsilon, clip_norm))


def gradient_shares() -> Array:
    """Shares of 20 owners who hold the same records in unequal numbers, where training starts; the clip norm is 2."""
    X, y = _tumours()
    m, rng = len(y), np.random.default_rng(5)
    owners = np.split(rng.permutation(m), np.sort(rng.choice(np.arange(5, m - 5, 5), 19, replace=False)))
    with_one = np.column_stack([X, np.ones(m)])
    gradients = local_gradients(np.zeros((1, 2, 31)), with_one, (y > 0).astype(int), owners)[:, 0]
    return gradient_privacy_losses(gradients, np.ones(20), 2.0)


# --- tight data -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tight:
    """Shares of a correct learner on tight instances, and the largest with one per cent too little noise."""

    correct: Array
    broken: float


def tight_instances() -> dict[str, Tight]:
    """Correct and broken learners on data on which a correct one uses its promise up."""
    return {
        SUM: Tight(tight_sum(), float(tight_sum(1.01).max())),
        RIDGE["paper"]: Tight(tight_ridge(), float(tight_ridge(0.99).max())),
        RIDGE["sharp"]: Tight(tight_ridge(bound="sharp"), float(tight_ridge(0.99, "sharp").max())),
        LOGISTIC: Tight(tight_logistic(), float(tight_logistic(1.01).max())),
        GRADIENTS: Tight(tight_gradients(), float(tight_gradients(0.99).max())),
    }


def tight_sum(more: float = 1.0) -> Array:
    """Shares at the ends of the interval, all weights being `more` times what they should be."""
    query, ends = linear_query(more * np.array([0.1, 0.4, 0.9]), 2.0), sum_ends(3)
    apart = np.abs(query.mean(ends.data.T) - query.mean(ends.turned.T))
    return np.asarray(apart / query.scale / (np.array([0.1, 0.4, 0.9]) / 2))


def tight_ridge(less: float = 1.0, bound: Bound = "paper") -> Array:
    """Shares in 1, 2, 12 and 30 dimensions, the constant being `less` times as large."""
    shares = []
    for ends in (ridge_ends(d, own=own) for d in (1, 2, 12, 30) for own in (0.05, 3.0)):
        one, two = (
            output_perturbation(ends.X, y, ends.epsilon, ends.penalty, bound=bound) for y in (ends.y, ends.y_turned)
        )
        shares.append(ridge_pair_loss(one.theta, two.theta, one.noise_rate / less) / ends.epsilon[0])
    return np.array(shares)


def tight_logistic(more: float = 1.0) -> Array:
    """Shares in four settings, for `more` times the rate of the noise."""
    shares = []
    for eps, ratio in ((0.1, 0.01), (1.0, 0.4), (1.0, 3.0), (10.0, 30.0)):
        ends = logistic_ends(eps, ratio)
        given = ends.y, ends.weights, more * ends.eta, ends.penalty
        one, two = (objective_perturbation(X, *given) for X in (ends.X, ends.X_turned))
        loss = output_log_density(one, ends.coefficients) - output_log_density(two, ends.coefficients)
        shares.append(loss / (eps + sharp_slack(eps, ratio, 1.0)))
    return np.array(shares)


def tight_gradients(less: float = 1.0) -> Array:
    """Shares of three pairs of opposite gradients, the scale being `less` times as large."""
    ends = gradient_ends(2, 31, 1.5)
    apart = np.abs(clipped(ends.gradients, 1.5) - clipped(ends.turned, 1.5)).sum((-2, -1))
    return np.asarray(apart / (less * noise_scale(0.8, 1.5)) / 0.8)


# --- constants --------------------------------------------------------------------------------------------------------


def slacks(epsilon: float, weight: float, penalties: Sequence[float]) -> pd.DataFrame:
    """Three slacks of logistic regression, the promise with the least of them, and what a tight pair loses of it."""
    rows = {}
    for lam in penalties:
        sharp = float(sharp_slack(epsilon, weight, lam))
        rows[lam] = {
            "ηΛ": epsilon / weight * lam,
            "paper": float(printed_slack(weight, lam)),
            "simple": np.log1p(weight / lam / 4),
            "sharp": sharp,
            "promise": epsilon + sharp,
            "tight pair loses": float(tight_pair(epsilon, weight / lam).loss),
        }
    return pd.DataFrame(rows).T.rename_axis("Λ")


@dataclass(frozen=True)
class Forgotten:
    """Largest share of a ridge learner that leaves the norm bound out: on a tight instance, and on a long estimate."""

    tight: float
    long: float


def norm_bound_forgotten() -> Forgotten:
    """What the meter sees of a constant without its norm bound."""
    ends = ridge_ends(30)
    steep = np.vstack([np.repeat(np.eye(30)[:1], 9, axis=0), np.ones(30)])
    return Forgotten(
        _without_norm_bound(ends.X, ends.y, ends.epsilon, ends.penalty),
        _without_norm_bound(steep, np.ones(10), np.append(np.ones(9), 1e-3), 1.0),
    )


def _without_norm_bound(X: Array, y: ArrayLike, epsilon: Array, penalty: float) -> float:
    model, rng = output_perturbation(X, y, epsilon, penalty), np.random.default_rng(7)
    rate = float(epsilon.sum()) * penalty / (2 * np.sqrt(X.shape[1]))
    losses = privacy_losses(replace(model, noise_rate=rate), X, y, rng=rng)
    return float((losses.found / epsilon).max())
