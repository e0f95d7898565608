"""The mechanisms beyond output perturbation: solver, law, privacy losses, planted bugs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from hdpm_book.ridge import variants
from hdpm_lib.noise import log_density, spherical_laplace
from hdpm_lib.validation import FALSE_ALARM

BOUNDS = (None, 0.2, 6.0)  # on labels, with features of any sign; none in the box


def neighbours(rng, a=None, d_max=5):
    """Two data sets that differ in record 0, privacy losses that allow objective perturbation, a
    penalty and bounds.

    They lie in the box, often in its corners; or, with the label bound `a`, features have any sign
    and norm at most R.
    """
    d = int(rng.integers(1, d_max))
    n = int(rng.integers(1, 9))
    scale = a or 1.0
    if a is None:
        R = np.sqrt(d)
        X = rng.integers(0, 2, (n + 1, d)) * 1.0 if rng.random() < 0.5 else rng.random((n + 1, d))
        ends = (np.zeros(d), np.ones(d), 1 - X[0])
        bounds = {}
    else:
        R = 10 ** rng.uniform(-1, 1)
        X = rng.standard_normal((n + 1, d))
        X *= (
            R
            / np.linalg.norm(X, axis=1, keepdims=True)
            * rng.choice([1.0, rng.random()], (n + 1, 1))
        )
        ends = (-X[0], 0 * X[0])
        bounds = {"feature_norm": R * (1 + 1e-13), "label_bound": a}
    X[n] = [X[0], X[n], *ends][rng.integers(2 + len(ends))]
    y = (
        rng.choice([-scale, scale], n + 1)
        if rng.random() < 0.7
        else rng.uniform(-scale, scale, n + 1)
    )
    y[n] = -scale * np.sign(y[0]) if rng.random() < 0.7 else y[n]
    eps = rng.random(n) + 0.01
    lam = R**2 * 10 ** rng.uniform(-2, 2)
    eps *= R**2 / lam * (1 + 10 ** rng.uniform(-1, 3)) / eps.sum()
    return (X[:n], y[:n]), (np.vstack([X[n], X[1:n]]), np.append(y[n], y[1:n])), eps, lam, bounds


def objective_log_density(moments, theta, multiplier=None):
    """Log density of the release: inside the ball, or on its boundary together with the multiplier
    of its minimum.

    It is with respect to volume inside, and to surface times that of the multiplier on the
    boundary; the Jacobians are derived on the page on what is beyond the paper.
    """
    d = len(moments.cross)
    nu = np.zeros(theta.shape[:-1]) if multiplier is None else multiplier
    matrix = moments.second + (moments.penalty + nu[..., None, None]) * np.eye(d)
    noise = 2 * (moments.cross - (matrix @ theta[..., None])[..., 0])
    value = log_density(noise, moments.noise_rate) + d * np.log(2) + np.linalg.slogdet(matrix)[1]
    if multiplier is None:
        return value
    normal = theta / moments.radius
    curvature = (normal * np.linalg.solve(matrix, normal[..., None])[..., 0]).sum(-1)
    return value + np.log(moments.radius * curvature)


def objective_loss(one, two, rng, outputs=25):
    """Largest absolute log density ratio at random outputs, inside and on the boundary."""
    d = len(one.cross)
    sphere = spherical_laplace(d, 1.0, rng=rng, size=outputs)
    sphere *= one.radius / np.linalg.norm(sphere, axis=1, keepdims=True)
    inside = sphere * rng.random((outputs, 1))
    nu = 10 ** rng.uniform(-2, 3, outputs)
    inside[0] = 0
    return max(
        np.abs(objective_log_density(one, *where) - objective_log_density(two, *where)).max()
        for where in ((inside,), (sphere, nu))
    )


@pytest.mark.parametrize("a", BOUNDS)
def test_objective_release_is_the_minimiser(a):
    """By its conditions: no slope inside the ball; on its boundary the slope points straight
    inwards.
    """
    rng = np.random.default_rng(0)
    active = []
    for seed in range(40):
        data, _, eps, lam, bounds = neighbours(rng, a)
        m = variants.calibrate_objective_perturbation(*data, eps, lam, **bounds)
        m = replace(m, noise_rate=m.noise_rate * 10 ** rng.uniform(0, 2))
        b = spherical_laplace(len(m.cross), m.noise_rate, rng=np.random.default_rng(seed))
        found = variants.release_objective_perturbation(m, rng=np.random.default_rng(seed))
        slope = 2 * (m.second @ found + lam * found - m.cross) + b
        size = np.linalg.norm(found)
        active.append(size > m.radius * (1 - 1e-9))
        expected = -np.linalg.norm(slope) * found / size if active[-1] else 0.0
        np.testing.assert_allclose(slope, expected, atol=1e-10 * np.linalg.norm(b - 2 * m.cross))
        assert size <= m.radius * (1 + 1e-12)
    assert 5 < sum(active) < 35  # both cases occurred


def test_objective_density_has_mass_one_and_is_the_law_of_the_release():
    X = np.array([[1.0, 0.2], [0.3, 1.0], [0.9, 0.8]])
    y = np.array([1.0, -0.7, 0.4])
    m = variants.calibrate_objective_perturbation(X, y, [4.0, 3.0, 5.0], 0.5)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    nodes = (nodes + 1) / 2
    weights = weights / 2
    angle = 2 * np.pi * (np.arange(400) + 0.5) / 400
    turn = 2 * np.pi / 400
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    inner = objective_log_density(m, m.radius * nodes[:, None, None] * circle)
    inside = (weights * nodes * m.radius**2 * np.exp(inner).sum(1) * turn).sum()
    nu = (nodes / (1 - nodes))[:, None] * np.ones(400)
    outer = objective_log_density(m, m.radius * np.broadcast_to(circle, (200, 400, 2)), nu)
    boundary = (weights / (1 - nodes) ** 2 * np.exp(outer).sum(1) * turn * m.radius).sum()
    assert 0.2 < inside < 0.8
    assert inside + boundary == pytest.approx(1, abs=2e-4)
    released = variants.release_objective_perturbation(m, rng=np.random.default_rng(1), size=40_000)
    on_boundary = (np.linalg.norm(released, axis=1) > m.radius * (1 - 1e-9)).mean()
    allowed = stats.norm.isf(FALSE_ALARM / 2) * np.sqrt(boundary * inside / 40_000)
    assert abs(on_boundary - boundary) < allowed + 2e-4


@pytest.mark.parametrize("a", BOUNDS)
def test_objective_losses_stay_within_epsilon_and_planted_bugs_do_not(a):
    rng = np.random.default_rng(2)
    right = []
    half_noise = []
    no_jacobian = []
    for trial in range(1200):
        *pair, eps, lam, bounds = neighbours(rng, a)
        one, two = (
            variants.calibrate_objective_perturbation(*data, eps, lam, **bounds) for data in pair
        )
        right.append(objective_loss(one, two, rng) / eps[0])
        if trial % 5 == 0:
            spent = bounds.get("feature_norm", np.sqrt(len(one.cross))) ** 2 / lam
            for bag, factor in ((half_noise, 2), (no_jacobian, eps.sum() / (eps.sum() - spent))):
                wrong = [replace(m, noise_rate=factor * m.noise_rate) for m in (one, two)]
                bag.append(objective_loss(*wrong, rng, 5) / eps[0])
    assert 0.98 < max(right) <= 1 + 1e-9
    assert max(half_noise) > 1.5
    assert max(no_jacobian) > 1.05


def test_what_is_refused():
    for y, eps, message in (
        (
            [0.0, np.nan],
            [1.0, 1.0],
            r"^y must lie in label_range = \(0.0, 1.0\): scale by public bounds, or clip$",
        ),
        ([0.0, 1.0], [1.0, 0.0], "epsilon must be positive and finite, got 0.0"),
        ([0.0, 1.0], [1.0], "1 entries for 2 records"),
    ):
        with pytest.raises(ValueError, match=message):
            variants.private_constant(y, eps, label_range=(0.0, 1.0), rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"sum of epsilon is 1; it must exceed .* = 2"):
        variants.calibrate_objective_perturbation(np.ones((2, 1)), [0.0, 1.0], [0.5, 0.5], 0.5)
