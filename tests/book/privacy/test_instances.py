"""Tight instances: a correct learner spends nearly all of a promise there, and an error of one per cent exceeds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hdpm_book.logistic.formulas import output_log_density
from hdpm_book.privacy import instances
from hdpm_book.privacy.instances import gradient_ends, logistic_ends, ridge_ends, sum_ends
from hdpm_book.privacy.meters import gradient_privacy_losses
from hdpm_lib.audits.meters import privacy_losses
from hdpm_lib.audits.ridge import ridge_pair_loss
from hdpm_lib.learners import gradients, logistic, queries, ridge

DIMENSIONS = (1, 2, 12, 30)


def ridge_share(bound: Any = "paper") -> float:
    """Share of her privacy loss that the first record loses, farthest from 1 over dimensions and privacy losses."""
    shares = []
    for d in DIMENSIONS:
        for own in (0.05, 0.5, 3.0):
            ends = ridge_ends(d, own=own)
            given = ends.epsilon, ends.penalty
            one, two = (ridge.output_perturbation(ends.X, y, *given, bound=bound) for y in (ends.y, ends.y_turned))
            shares.append(float(ridge_pair_loss(one.theta, two.theta, one.noise_rate) / own))
    return max(shares, key=lambda share: abs(share - 1))


def sum_share() -> float:
    query = queries.linear_query([0.1, 1.0, 0.7], 2.0, weights=[1.0, -3.0, 0.2])
    ends, weights = sum_ends(3), np.array([1.0, -3.0, 0.2])
    apart = np.abs(query.mean((weights * ends.data).T) - query.mean((weights * ends.turned).T)) / query.scale
    np.testing.assert_allclose(apart, privacy_losses(query, 0.5 * weights).found, rtol=1e-9)
    return float((apart / np.array([0.05, 1.5, 0.07])).max())


def gradient_share() -> float:
    ends = gradient_ends(2, 5, 1.5)
    distance = gradients.clipped(ends.gradients, 1.5) - gradients.clipped(ends.turned, 1.5)
    return float((np.abs(distance).sum((-2, -1)) / gradients.noise_scale(0.8, 1.5) / 0.8).max())


def logistic_share(m: int = 2) -> float:
    shares = []
    for epsilon, ratio in ((0.1, 0.01), (1.0, 0.4), (1.0, 3.0), (10.0, 30.0)):
        ends = logistic_ends(epsilon, ratio, m)
        models = [
            logistic.objective_perturbation(X, ends.y, ends.weights, ends.eta, ends.penalty)
            for X in (ends.X, ends.X_turned)
        ]
        log_ratio = np.subtract(*(output_log_density(model, ends.coefficients) for model in models))
        promise = epsilon + logistic.sharp_slack(epsilon, ratio, 1.0)
        shares.append(float(log_ratio / promise))
    return max(shares, key=lambda share: abs(share - 1))


SHARES: dict[str, Callable[[], float]] = {
    "sum": sum_share,
    "ridge": ridge_share,
    "ridge, sharp": lambda: ridge_share("sharp"),
    "logistic": logistic_share,
    "logistic, 60 records": lambda: logistic_share(60),
    "gradients": gradient_share,
}


@pytest.mark.parametrize("name", SHARES)
def test_nearly_all_is_spent(name: str) -> None:
    assert 0.998 < SHARES[name]() <= 1 + 1e-9


perturbation, constant = logistic.objective_perturbation, ridge.sensitivity_constant
mean, noise_scale, clipped = queries.BiasedLaplace.mean, gradients.noise_scale, gradients.clipped

ERRORS: dict[str, tuple[str, tuple[Any, str, Any]]] = {
    "share 1 % large": ("sum", (queries.BiasedLaplace, "mean", lambda self, terms: 1.01 * mean(self, terms))),
    "constant 1 % small": ("ridge", (ridge, "sensitivity_constant", lambda *given: 0.99 * constant(*given))),
    "sharp constant 1 % small": (
        "ridge, sharp",
        (ridge, "sensitivity_constant", lambda *given: 0.99 * constant(*given)),
    ),
    "weights with the sum 1.01": (
        "ridge",
        (ridge, "personalized_weights", lambda epsilon: 1.01 * epsilon / np.sum(epsilon)),
    ),
    "eta 1 % large": (
        "logistic",
        (logistic, "objective_perturbation", lambda X, y, a, eta, lam: perturbation(X, y, a, 1.01 * eta, lam)),
    ),
    "penalty 1 % small": (
        "logistic",
        (logistic, "objective_perturbation", lambda X, y, a, eta, lam: perturbation(X, y, a, eta, 0.99 * lam)),
    ),
    "noise of gradients 1 % small": (
        "gradients",
        (gradients, "noise_scale", lambda epsilon, bound: 0.99 * noise_scale(epsilon, bound)),
    ),
    "clip 1 % long": ("gradients", (gradients, "clipped", lambda g, bound: clipped(g, 1.01 * bound))),
    "each class clipped by itself": (
        "gradients",
        (gradients, "clipped", lambda g, bound: np.stack([clipped(g[:, [c]], bound)[:, 0] for c in (0, 1)], 1)),
    ),
    "clipped in the L2 norm": (
        "gradients",
        (gradients, "clipped", lambda g, bound: g * np.minimum(1, bound / np.sqrt((g**2).sum((1, 2), keepdims=True)))),
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error_of_one_per_cent_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    learner, patch = ERRORS[name]
    monkeypatch.setattr(*patch)
    assert SHARES[learner]() > 1.003


def test_noise_that_is_too_large_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ridge, "sensitivity_constant", lambda *given: 1.01 * constant(*given))
    assert ridge_share() < 0.998


def test_elsewhere_little_is_spent() -> None:
    """The same neighbours at the penalties of real data, or at another output: this is why instances are needed."""
    ends = ridge_ends(12)
    one, two = (ridge.output_perturbation(ends.X, y, ends.epsilon, 1.0) for y in (ends.y, ends.y_turned))
    assert ridge_pair_loss(one.theta, two.theta, one.noise_rate) < 0.2 * ends.epsilon[0]
    pair = instances.tight_pair(1.0, 0.4)
    assert replace(pair, coefficients=np.zeros(2)).loss < 0.6 * pair.privacy_loss


# --- the data ---------------------------------------------------------------------------------------------------------


def test_one_record_is_replaced_and_bounds_are_kept() -> None:
    for n in (1, 2, 5):
        ends = sum_ends(n)
        assert ((ends.data != ends.turned) == np.eye(n, dtype=bool)).all()
        assert set(np.unique([ends.data, ends.turned])) <= {0.0, 1.0}
    for d in DIMENSIONS:
        ridge_pair = ridge_ends(d)
        assert (ridge_pair.y != ridge_pair.y_turned).tolist() == [True, False, False, False]
        assert ridge_pair.X.min() >= 0 and ridge_pair.X.max() <= 1 and np.abs(ridge_pair.y).max() <= 1
    for m in (2, 3, 10):
        pair = logistic_ends(2.0, 5.0, m)
        assert (pair.X_turned != pair.X).any(1).tolist() == [True] + [False] * (m - 1)
        assert np.linalg.norm([pair.X, pair.X_turned], axis=-1).max() <= 1 + 1e-12
        assert pair.weights.sum() == pytest.approx(1) and pair.weights[0] * pair.eta == pytest.approx(2.0)
    gradients = gradient_ends(3, 4, 0.5)
    assert (np.abs(gradients.gradients).sum((-2, -1)) > 4).all() and gradients.turned.shape == (3, 3, 4)
    np.testing.assert_allclose(gradient_privacy_losses(gradients.gradients, np.ones(3), 0.5), 1)
