"""Objective perturbation of clipped losses: minimisers against SciPy and scikit-learn, the promise
against densities by brute force, with each of its constants spoilt in turn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize, special
from sklearn.linear_model import HuberRegressor

from hdpm_lib import objective_perturbation, privacy_losses
from hdpm_lib.learners.objective import eta_within, minimisers, sharp_slack, weights_within
from tests.support import generator, refusals

Array = np.ndarray
LOSSES = ["logistic", "squared"]


def records(m: int, n: int, loss: str, rng: np.random.Generator) -> tuple[Array, Array]:
    """Records of norms up to 1, some of them 0, and labels."""
    X = rng.standard_normal((m, n))
    X *= (rng.random((m, 1)) ** (1 / n)) / np.linalg.norm(X, axis=1, keepdims=True)
    X[rng.random(m) < 0.05] = 0
    if loss == "squared":
        return X, rng.uniform(-1, 1, m)
    return X, rng.choice([-1.0, 1.0], m)


def value_and_slope(
    score: Array, label: Array, norm: Array, loss: str, clip_norm: float
) -> tuple[Array, Array, Array]:
    """Losses, their slopes and second derivatives: as they are defined, by SciPy."""
    with np.errstate(divide="ignore"):
        limit = np.where(norm > 0, clip_norm / norm, 1e9)
    if loss == "squared":
        residual = score - label
        slope = np.clip(residual, -limit, limit)
        return special.huber(limit, residual), slope, (abs(residual) < limit) * 1.0
    margin = label * score
    limit = np.minimum(limit, 1 - 1e-15)
    begin = -special.logit(limit)  # the margin at which the line begins
    line = np.logaddexp(0, -begin) + limit * (begin - margin)
    value = np.where(margin < begin, line, np.logaddexp(0, -margin))
    chance = special.expit(-margin)
    slope = -label * np.minimum(chance, limit)
    return value, slope, np.where(chance < limit, chance * (1 - chance), 0)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("clip_norm", [0.04, 0.3, 1.0])
def test_minimiser_is_that_of_scipy(loss: Any, clip_norm: float) -> None:
    rng = generator(3700, int(100 * clip_norm))
    for n in (1, 3, 10):
        X, y = records(150, n, loss, rng)
        norm = np.linalg.norm(X, axis=1)
        weights = rng.dirichlet(np.ones(150))
        penalty = 10 ** rng.uniform(-4, 0)
        noise = 0.1 * clip_norm * rng.standard_normal(n)

        def objective(w: Array) -> tuple[float, Array]:
            value, slope, _ = value_and_slope(X @ w, y, norm, loss, clip_norm)  # noqa: B023
            smooth = noise @ w + penalty / 2 * w @ w  # noqa: B023
            return weights @ value + smooth, X.T @ (weights * slope) + noise + penalty * w  # noqa: B023

        w = minimisers(X, y, weights, penalty, noise, 0.0, loss, clip_norm)
        peer = optimize.minimize(objective, np.zeros(n), jac=True, tol=1e-14)
        assert objective(w)[0] <= peer.fun + 1e-12
        assert np.linalg.norm(objective(w)[1]) < 2e-10


def test_squared_losses_are_hubers() -> None:
    """Scikit-learn's divides residuals by a scale of its own: in that unit it is the same fit."""
    rng = generator(3701)
    X = rng.choice([-1.0, 1.0], (400, 4)) / 2  # all of norm 1, so that all limits are alike
    y = np.clip(X @ [0.3, -0.2, 0.1, 0.4] + 0.2 * rng.standard_t(2, 400), -1, 1)
    peer = HuberRegressor(epsilon=1.1, alpha=0.0, fit_intercept=False, tol=1e-10, max_iter=10_000)
    peer.fit(X, y)
    weights = np.full(400, 1 / 400)
    w = minimisers(X, y, weights, 1e-9, np.zeros(4), 0.0, "squared", 1.1 * peer.scale_)
    np.testing.assert_allclose(w, peer.coef_, atol=1e-5)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("loss", LOSSES)
def test_minimiser_in_the_worst_conditions_settles(loss: Any) -> None:
    """Small penalties, much noise, repeated and empty records, weights on few: slopes are as small
    as rounding lets them be.
    """
    rng = generator(3702)
    for k in range(300):
        m = int(rng.integers(1, 40))
        n = int(rng.integers(1, 9))
        X, y = records(m, n, loss, rng)
        X = [X, X[:1].repeat(m, 0), 0 * X, X * (np.arange(n) > 0)][k % 4]
        weights = np.eye(m)[0] if k % 3 else rng.dirichlet(np.full(m, 10 ** rng.uniform(-2, 1)))
        penalty = 10 ** rng.uniform(-10, 2)
        clip_norm = 10 ** rng.uniform(-2, 0)
        noise = 10 ** rng.uniform(-7, 3) * rng.standard_normal((3, n))
        w = minimisers(X, y, weights, penalty, noise, 0.0, loss, clip_norm)
        norm = np.linalg.norm(X, axis=1)
        _, slope, _ = value_and_slope(w @ X.T, y, norm, loss, clip_norm)
        left = np.linalg.norm((weights * slope) @ X + noise + penalty * w, axis=1)
        rounding = 1e-14 * n * (penalty + weights.sum()) * np.linalg.norm(w, axis=1)
        assert (left <= 1.01e-10 * np.maximum(1, np.linalg.norm(noise, axis=1)) + rounding).all()


# --- the promise --------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_slack_is_the_largest_on_a_grid(loss: Any) -> None:
    pull = np.linspace(0, 1, 200_001)
    rng = generator(3703)
    for _ in range(50):
        clip_norm = rng.uniform(0.05, 1)
        noise_part, rho = 10 ** rng.uniform(-3, 2, 2)
        u = pull * clip_norm
        bend = np.ones_like(u) if loss == "squared" else u * (1 - u)
        gain = np.log1p(rho * bend) - noise_part / 2 * (1 - u / clip_norm)
        slack = sharp_slack(noise_part, rho, 1.0, loss=loss, clip_norm=clip_norm)
        assert slack == pytest.approx(gain.max(), rel=1e-6, abs=1e-9)


def largest_loss(
    made: Any, X: Array, y: Array, other: tuple[Array, float], outputs: Array, spoil: str = ""
) -> float:
    """The largest ratio of densities of outputs, as a logarithm, if the first record is replaced.

    `spoil` names a constant that the release has wrong.
    """
    before = log_density(made, X, y, outputs, spoil)
    after = log_density(made, np.vstack([other[0], X[1:]]), [other[1], *y[1:]], outputs, spoil)
    return float(abs(before - after).max())


def log_density(made: Any, X: Array, y: Any, outputs: Array, spoil: str = "") -> Array:
    """Logarithms of densities of outputs, but for a constant."""
    norm = np.linalg.norm(X, axis=1)
    clip_norm = made.clip_norm * (1.5 if spoil == "clip norm" else 1)
    _, slope, bend = value_and_slope(outputs @ X.T, np.array(y), norm, made.loss, clip_norm)
    noise = -(made.weights * slope) @ X - made.penalty * outputs
    penalty = made.penalty * (0.3 if spoil == "penalty" else 1)
    hessian = np.einsum("ki,ij,il->kjl", made.weights * bend, X, X) + penalty * np.eye(X.shape[1])
    rate = made.noise_rate * (1.2 if spoil == "rate" else 1)
    return -rate * np.linalg.norm(noise, axis=1) + np.linalg.slogdet(hessian).logabsdet


def shares_of_promises(loss: Any, spoil: str = "", trials: int = 120) -> Array:
    """Largest losses over what was promised, of pairs of small data sets with personal losses."""
    rng = generator(3704)
    shares = []
    for trial in range(trials):
        n = 1 + trial % 2
        epsilon = rng.choice([0.1, 1.0, 3.0], 3)
        weights = epsilon / epsilon.sum()
        clip_norm = rng.choice([0.1, 0.3, 0.6, 1.0])
        curvature = 1.0 if loss == "squared" else 0.25
        penalty = rng.choice([1.0, 4.0]) * curvature / epsilon.sum()
        kind = {"loss": loss, "clip_norm": clip_norm}
        eta = eta_within(epsilon, weights, penalty, **kind)
        made = objective_perturbation(weights, eta, penalty, features=n, **kind)
        X, y = records(3, n, loss, rng)
        longest = X[0] / max(np.linalg.norm(X[0]), 1e-9)
        label = np.sign(y[0])
        others = [(longest, -label), (-longest, label), (rng.uniform(-0.5, 0.5, n), y[1])]
        X[0] = longest if trial % 3 else X[0]
        y[0] = label
        scale = rng.choice([0.3, 1.0, 3.0, 30.0, 1000.0], (8000, 1))
        outputs = scale * rng.standard_normal((8000, n))
        # of squared losses beside where a line begins, too
        near = (y[0] + clip_norm * np.linspace(-2, 2, 2001))[:, None] * longest
        outputs = np.vstack([outputs, near])
        found = max(largest_loss(made, X, y, other, outputs, spoil) for other in others)
        shares.append(found / epsilon[0])
    return np.array(shares)


@pytest.mark.parametrize("loss", LOSSES)
def test_no_pair_of_data_sets_breaks_a_promise(loss: Any) -> None:
    """And the promise is tight: some pairs lose nearly all of it."""
    shares = shares_of_promises(loss)
    assert shares.max() <= 1 + 1e-9
    assert shares.max() > 0.97 and (shares > 0.9).sum() > 10


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("spoil", ["clip norm", "rate", "penalty"])
def test_a_wrong_constant_breaks_a_promise(loss: Any, spoil: str) -> None:
    assert shares_of_promises(loss, spoil, 60).max() > 1.01


@pytest.mark.parametrize("loss", LOSSES)
def test_meter_finds_the_worst_records_of_a_grid(loss: Any) -> None:
    """At given outputs, in one and two dimensions, over records of the first seller."""
    rng = generator(3707)
    for trial in range(6):
        n = 1 + trial % 2
        clip_norm = [0.1, 0.4, 1.0][trial % 3]
        weights = rng.dirichlet(np.ones(3))
        kind: dict[str, Any] = {"loss": loss, "clip_norm": clip_norm}
        made = objective_perturbation(weights, 3.0, 0.2, features=n, **kind)
        X, y = records(3, n, loss, rng)
        outputs = rng.choice([0.3, 2.0, 10.0], (4, 1)) * rng.standard_normal((4, n))
        turns = np.linspace(0, 2 * np.pi, 61) if n == 2 else np.array([0, np.pi])
        labels = np.linspace(-1, 1, 21) if loss == "squared" else np.array([-1.0, 1.0])
        least = np.full(4, np.inf)
        most = np.full(4, -np.inf)
        for norm in np.linspace(0, 1, 21):
            for turn in turns:
                x = norm * np.array([np.cos(turn), np.sin(turn)])[:n]
                for label in labels:
                    density = log_density(made, np.vstack([x, X[1:]]), [label, *y[1:]], outputs)
                    least = np.minimum(least, density)
                    most = np.maximum(most, density)
        found = privacy_losses(made, X, y, outputs)
        assert (found.found[:, 0] >= 0.98 * (most - least)).all()
        assert (found.found <= found.at_most + 1e-9).all()
        assert (found.found[:, 0] <= (most - least) * 1.2 + 0.02).all()


def test_promises_are_kept_and_used_up() -> None:
    """`eta_within` leaves to no record more than it was promised, and to one all of it."""
    rng = generator(3705)
    for loss in LOSSES:
        for _ in range(40):
            epsilon = 10 ** rng.uniform(-2, 1, 20)
            weights = epsilon / epsilon.sum()
            kind: dict[str, Any] = {"loss": loss, "clip_norm": rng.uniform(0.03, 1)}
            penalty = 10 ** rng.uniform(0.1, 2) / epsilon.sum()
            eta = eta_within(epsilon, weights, penalty, **kind)
            made = objective_perturbation(weights, eta, penalty, features=2, **kind)
            assert (made.privacy_loss <= epsilon * (1 + 1e-12)).all()
            assert (made.privacy_loss / epsilon).max() == pytest.approx(1, abs=1e-12)
            product = 10 ** rng.uniform(-1, 2)
            weights, eta = weights_within(epsilon, product, **kind)
            made = objective_perturbation(weights, eta, product / eta, features=2, **kind)
            np.testing.assert_allclose(made.privacy_loss, epsilon, rtol=1e-13)


test_what_is_no_loss_is_refused = refusals(
    (
        lambda: objective_perturbation([1.0], 1.0, 1.0, features=1, loss="hinge"),  # type: ignore[arg-type]
        "loss must be 'logistic' or 'squared'",
    ),
    (
        lambda: objective_perturbation([1.0], 1.0, 1.0, features=1, clip_norm=1.5),
        r"clip_norm must lie in \(0, 1\] \(no logistic gradient is longer than 1\), got 1.5",
    ),
    (
        lambda: eta_within([0.1], [1.0], 1.0, loss="squared"),
        "penalty = 1 gives some record a slack above its epsilon",
    ),
    (
        lambda: objective_perturbation([1.0], 1.0, 1.0, features=1, loss="squared").release(
            [[1.0]], [2.0], rng=generator(3706)
        ),
        r"y must lie in \[-1, 1\]",
    ),
)
