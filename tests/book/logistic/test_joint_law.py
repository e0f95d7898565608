"""What the pages on the joint objective rest on: the exact law of three sellers, and residuals that can object."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hdpm_book.ledger import get
from hdpm_book.logistic import convexity, joint, online
from hdpm_book.logistic.joint_objective import alternate, joint_objective


@pytest.fixture(scope="module")
def laws() -> tuple[joint.JointLaw, joint.JointLaw]:
    """Before and after the label is flipped."""
    return joint.joint_law(joint.BEFORE), joint.joint_law(joint.AFTER)


def test_law_is_a_law_and_its_hull_a_hull(laws: tuple[joint.JointLaw, joint.JointLaw]) -> None:
    """Probabilities sum to 1; the hull is convex, below G, and touches it at its vertices."""
    for law in laws:
        assert np.isclose(law.mass.sum(), 1, rtol=1e-12) and (law.mass >= 0).all()
        assert (law.hull_line <= law.G + 1e-12).all()
        slopes = np.diff(law.G[law.hull]) / np.diff(joint.POINTS[law.hull])
        assert (np.diff(slopes) > 0).all()


def test_noise_lands_at_the_minimiser(laws: tuple[joint.JointLaw, joint.JointLaw]) -> None:
    """For some b the minimiser of G + 2 b w / eta is a vertex of the hull."""
    law = laws[1]
    for b in np.linspace(-2, 2, 9):
        at = (law.G + 2 / joint.RATE * b * joint.POINTS).argmin()
        assert at in law.hull


def test_proof_objects_where_g_is_convex(laws: tuple[joint.JointLaw, joint.JointLaw]) -> None:
    """The chord proves the gap after the flip, and nothing before it."""
    before, after = laws
    assert joint.chord_proof(after).certain
    assert not joint.chord_proof(before).certain


def test_residual_objects_to_other_points() -> None:
    """Both equations hold at a stationary point, and not at weights or a rate that are a little off."""
    f = joint_objective([[1.0], [0.5]], [1, -1], [0.2], [0.1, 0.3], penalty=1, mu=1, sigma=1, gamma=1)
    s = alternate(f)
    assert joint.residual(f, s) < 1e-8
    assert joint.residual(f, replace(s, eta=1.01 * s.eta)) > 1e-3
    assert joint.residual(f, replace(s, weights=s.weights + np.array([0.01, -0.01]))) > 1e-3


def test_threshold_is_the_maximum() -> None:
    """By brute force on a grid; the Hessian changes sign there."""
    found = convexity.threshold()
    line = np.linspace(-10, 10, 100_001)
    assert np.isclose(convexity.penalty_needed(line).max(), found.penalty, rtol=1e-8)
    assert convexity.logs_eigenvalue(0.99 * found.penalty, 1e-9, found.at) < 0
    assert convexity.logs_eigenvalue(1.01 * found.penalty, 1e-9, found.at) > 0


def test_cheap_sellers_have_the_law_of_the_market() -> None:
    """Their number and largest virtual cost are those of a market drawn in full."""
    law, m = online.LAWS[online.FROM_ZERO], 10_000
    rule, rng = online.printed(m), np.random.default_rng(0)
    counts = []
    for _ in range(200):
        psi, everybody = online.cheap_sellers(law, m, rule, rng)
        assert not everybody and psi.max() <= 2 * 20 * rule.cutoff
        counts.append(len(psi))
    share = min(1.0, 20 * rule.cutoff / 4)  # costs up to 20 cutoffs, of 4
    spread = np.sqrt(m * share * (1 - share) / 200)
    assert abs(np.mean(counts) - m * share) < 5 * spread


def test_range_of_the_older_bound_over_all_margins() -> None:
    """With sigma = 0 it is 1 / (8 |b|)^2 in the limit of large margins, and smaller for every margin."""
    for noise in (5.0, 30.0):
        margins = [0.01, 0.1, 1.0, 10.0, np.inf]
        most = [online.range_of_use(noise, 0.0, margin) for margin in margins]
        assert (np.diff(most) > -1e-15).all() and most[-1] == pytest.approx(1 / (8 * noise) ** 2, rel=1e-9)
    assert online.range_of_use(5.0, 0.0, 0.1) == pytest.approx(5.9e-4, rel=0.01)
    note = str(get("anjarlekar-t-thm34-nontrivial").note)
    assert "6.25" in note and "5.9" not in note
