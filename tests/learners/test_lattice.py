"""Ridge on a lattice: the exact centre, losses of all neighbours of small domains as fractions, the law of the noise.

Losses are compared in squares, so that no root has to be taken: `tau^2 |k - k'|^2 <= epsilon^2` in fractions.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hdpm_lib.learners import lattice
from hdpm_lib.learners.lattice import LatticeRidge, lattice_ridge
from hdpm_lib.learners.ridge import (
    estimate_norm_bound,
    project_on_ball,
    sensitivity_constant,
    weighted_ridge,
)
from hdpm_lib.validation import FALSE_ALARM
from tests.listed import farthest_moves, lattice_law
from tests.support import generator, p_value


def data(n: int = 60, d: int = 3, steps: int = 2**20) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Records on the grid, and privacy losses."""
    rng = generator(61, n, d)
    return (
        rng.integers(0, steps + 1, (n, d)) / steps,
        rng.integers(-steps, steps + 1, n) / steps,
        rng.uniform(0.1, 5, n),
    )


# --- the centre -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 4, 12, 30])
def test_integer_solve_is_exact(d: int) -> None:
    rng = generator(62, d)
    for size in (3, 10**6, 10**15):
        half = rng.integers(-size, size + 1, (d, d)).astype(object)
        matrix, vector = half @ half.T + np.eye(d, dtype=object), rng.integers(-size, size + 1, d).astype(object)
        found, denominator = lattice._exact_solve(matrix.tolist(), vector.tolist())
        assert denominator > 0 and (matrix @ found == vector * denominator).all()


@pytest.mark.parametrize("d", [1, 3, 12])
@pytest.mark.parametrize("penalty", [1e-3, 0.1, 7.0])
def test_centre_is_the_step_next_to_the_ridge_estimate(d: int, penalty: float) -> None:
    X, y, epsilon = data(50, d)
    mechanism = lattice_ridge(X, y, 1e3 * epsilon, penalty, spacing=2.0**-34)
    expected = weighted_ridge(X, y, epsilon / epsilon.sum(), penalty)
    np.testing.assert_allclose(mechanism.point * 2.0**-34, expected, rtol=0, atol=2.0**-35 + 1e-12)
    np.testing.assert_allclose(mechanism.weights, epsilon / epsilon.sum())


def test_halves_are_rounded_up() -> None:
    for k in (-3, -1, 1, 3, 5):  # one record, weight and penalty 1: the estimate is y / 2
        mechanism = lattice_ridge([[1.0]], [k / 8], [1.0], 1.0, spacing=2.0**-3)
        assert mechanism.point.tolist() == [(k + 1) // 2]


# --- records on the grid ----------------------------------------------------------------------------------------------


def within(X: np.ndarray, y: np.ndarray, square: Fraction) -> np.ndarray:
    """Features on the grid, which lie, as the labels do, less than a step from the records, towards zero."""
    xs, ys = lattice._grid_records(X, y, square)
    for steps, exact in ((xs, X * 2**20), (ys, y * 2**20)):
        assert (np.abs(steps) <= np.abs(exact)).all() and (np.abs(exact - steps) < 1).all()
    return xs


def test_records_stay_within_their_bounds() -> None:
    rng = generator(63)
    X, y = np.vstack([rng.random((200, 4)), np.ones((1, 4)), np.zeros((1, 4))]), rng.uniform(-5, 5, 202)
    assert within(X, y, Fraction(4)).max() == 2**20
    signed, limit = rng.uniform(-1, 1, (202, 3)), Fraction(3)
    assert (within(signed, y, limit) == -within(-signed, y, limit)).all()
    for norm in (1.0, 0.7, 1 / 3):
        short = X * np.minimum(1, norm / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9))
        xs, _ = lattice._grid_records(short, y, Fraction(norm) ** 2)
        assert all(sum(k * k for k in row) <= Fraction(norm) ** 2 * 2**40 for row in xs.tolist())
        nearest = np.rint(short * 2**20).astype(int)
        assert any(sum(k * k for k in row) > Fraction(norm) ** 2 * 2**40 for row in nearest.tolist())


def test_vector_that_floats_let_pass_is_shortened() -> None:
    norm = 0.5 * (1 - 5e-13)  # below 1/2, but within the tolerance of the check in floats
    xs, _ = lattice._grid_records(np.array([[0.5, 0.0], [0.25, 0.0]]), np.zeros(2), Fraction(norm) ** 2)
    assert xs[0, 0] in (2**19 - 1, 2**19 - 2) and xs[0, 1] == 0 and xs[1].tolist() == [2**18, 0]
    assert all(isinstance(k, int) for k in xs.ravel().tolist())  # and no floats, which would round the sums
    lattice_ridge([[0.5, 0.0], [0.25, 0.0]], [0.0, 1.0], [1.0, 1.0], 1.0, feature_norm=norm)
    xs, _ = lattice._grid_records(np.array([[-0.6, 0.8]]), np.zeros(1), Fraction(1, 4))
    assert xs[0, 0] < 0 < xs[0, 1] and 0.249 * 2**40 < sum(k * k for k in xs[0]) <= 2**38


def test_labels_beyond_64_bits() -> None:
    large = lattice_ridge([[1.0]], [2.0**44], [1.0], 1.0, spacing=2.0**10, label_bound=2.0**44)
    assert large.point.tolist() == [2**33]


# --- the constants: never in favour of the noise ----------------------------------------------------------------------


def root_between(square: Fraction) -> tuple[Fraction, Fraction]:
    far = 10**60
    root = math.isqrt(math.floor(square * far**2))
    return Fraction(root, far), Fraction(root + 1, far)


def constant_between(penalty: Fraction, square: Fraction, bound: str) -> tuple[Fraction, Fraction]:
    """Rationals around the sensitivity constant, next to each other."""
    ends = []
    for norm, inverse_root in zip(root_between(square), root_between(1 / penalty), strict=True):
        if bound == "paper":
            estimate = min(inverse_root, norm / penalty)
        else:
            estimate = inverse_root / 4 if penalty <= square else norm / (square + penalty) / 2
        ends.append(2 / penalty * (norm + square * estimate))
    return ends[0], ends[1]


@pytest.mark.parametrize("penalty", [0.001, 0.1, 1.0, 3.0, 1e4])
@pytest.mark.parametrize("square", [1.0, 2.0, 12.0, 0.3])
@pytest.mark.parametrize("bound", ["paper", "sharp"])
def test_constant_is_rounded_up(penalty: float, square: float, bound: Any) -> None:
    found = lattice._constant_above(Fraction(penalty), Fraction(square), bound, Fraction(1))
    least, most = constant_between(Fraction(penalty), Fraction(square), bound)
    assert float(found) == pytest.approx(sensitivity_constant(penalty, math.sqrt(square), bound), rel=1e-12)
    assert least <= found <= most * (1 + Fraction(1, 2**50))


@pytest.mark.parametrize("spacing", [2.0**-2, 2.0**-10, 2.0**-20])
def test_budget_is_kept_exactly(spacing: float) -> None:
    """Losses by the theorem, computed with other fractions: at most what a record accepts, and what it is told."""
    X, y, epsilon = data(20, 2)
    mechanism = lattice_ridge(X, y, epsilon, 0.3, spacing=spacing, bound="sharp")
    _, c = constant_between(Fraction(0.3), Fraction(2), "sharp")
    _, root = root_between(Fraction(2))
    for eps, promised in zip(epsilon.tolist(), mechanism.privacy_loss.tolist(), strict=True):
        loss = mechanism.rate * (c * Fraction(eps) / sum(map(Fraction, epsilon)) / Fraction(spacing) + root)
        assert loss <= Fraction(eps)
        assert loss <= Fraction(promised) <= min(Fraction(eps), loss * (1 + Fraction(1, 2**50)))
    np.testing.assert_allclose(mechanism.privacy_loss.min(), epsilon.min(), rtol=1e-14)


# --- losses of all neighbours -----------------------------------------------------------------------------------------

Setting = tuple[int, float, float, list[float], Any]


def largest_share(setting: Setting, options: dict[str, Any], patch: pytest.MonkeyPatch) -> Fraction:
    """Largest squared share of what a record accepts that it can lose, in fractions of integers, the mechanism's own.

    Features are multiples of a half, on a grid of halves, from 0 to 1, or from -1 to 1 if their norm is bounded.
    """
    patch.setattr(lattice, "_GRID", 2)
    d, penalty, spacing, epsilon, bound = setting
    side = (-1.0, -0.5, 0.0, 0.5, 1.0) if "feature_norm" in options else (0.0, 0.5, 1.0)
    a = 3.0 if options.get("clip") else options.get("label_bound", 1.0)

    def learn(records: tuple[Any, ...]) -> tuple[np.ndarray, Any]:
        X, y = [x for x, _ in records], [label for _, label in records]
        made = lattice_ridge(X, y, epsilon, penalty, spacing=spacing, bound=bound, **options)
        return made.point, (made.rate, *made.privacy_loss.tolist())

    values = [(x, y / 2) for x in itertools.product(side, repeat=d) for y in range(-6, 7) if abs(y / 2) <= a]
    corners = [((0.0,) * d, 0.0), ((1.0,) * d, a), ((side[0],) * d, -a), ((1.0,) * d, -a)]
    worst, n = Fraction(0), len(epsilon)
    for i in range(n):
        moves = farthest_moves(learn, [values if j == i else corners for j in range(n)], euclidean=True)
        ((rate, *told),) = moves.noises
        loss = rate**2 * moves.farthest[i]
        assert loss <= Fraction(told[i]) ** 2 or loss > Fraction(epsilon[i]) ** 2
        worst = max(worst, loss / Fraction(epsilon[i]) ** 2)
    return worst


SIGNED: list[dict[str, Any]] = [{"feature_norm": d**0.5, "label_bound": 0.5} for d in (1, 2)]
SETTINGS: list[
    tuple[Setting, dict[str, Any], float]
] = [  # dimension, penalty, spacing, epsilon, bound; a share to find
    ((1, 1e4, 2.0**-40, [0.5, 1.0], "paper"), {}, 0.998),
    ((1, 1e4, 2.0**-40, [0.5, 1.0], "sharp"), {}, 0.998),
    ((2, 1e4, 2.0**-40, [0.5, 1.0], "paper"), {}, 0.996),
    ((1, 1e4, 2.0**-14, [0.7, 0.7], "sharp"), {}, 0.6),
    ((2, 1e4, 2.0**-14, [0.7, 0.7], "sharp"), {}, 0.6),
    ((1, 0.5, 2.0**-6, [2.0, 0.3, 0.3], "paper"), {}, 0.1),
    ((2, 0.5, 2.0**-2, [1.0, 0.3], "sharp"), {}, 0.1),
    ((1, 1e4, 2.0**-40, [0.5, 1.0], "sharp"), SIGNED[0], 0.998),
    ((2, 0.5, 2.0**-6, [1.0, 0.3], "paper"), SIGNED[1], 0.1),
    ((2, 500.0, 2.0**-20, [0.5, 2.0], "paper"), {"feature_norm": 1.5, "label_bound": 2.0}, 0.1),
    ((1, 1e4, 2.0**-40, [0.5, 1.0], "sharp"), {"clip": True}, 0.998),
]


@pytest.mark.parametrize(("setting", "options", "least"), SETTINGS)
def test_no_neighbour_loses_more(setting: Setting, options: Any, least: float, monkeypatch: pytest.MonkeyPatch) -> None:
    assert least**2 <= largest_share(setting, options, monkeypatch) <= 1


above, constant = lattice.root_above, lattice._constant_above
WRONG: dict[str, tuple[int, str, Callable[..., Any]]] = {  # the setting that shows it, and what is broken
    "no root of d": (2, "root_above", lambda square, n: Fraction(1) if square == 2 else above(square, n)),
    "rounding forgotten": (4, "root_above", lambda square, n: 0 if isinstance(square, int) else above(square, n)),
    "equal weights": (0, "_integer_shares", lambda losses: np.ones(len(losses), dtype=object)),
    "half the constant": (1, "_constant_above", lambda *given: constant(*given) / 2),
    "label bound squared": (7, "_constant_above", lambda p, s, b, a: constant(p, s, b, a * a)),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_ridge_loses_more(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, broken, by = WRONG[name]
    monkeypatch.setattr(lattice, broken, by)
    assert largest_share(*SETTINGS[place][:2], monkeypatch) > 1


# --- releases ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "spacing", "reach"), [(1, 0.25, 100), (2, 0.5, 80)])
def test_law_of_releases(d: int, spacing: float, reach: int) -> None:
    X, y, epsilon = data(30, d)
    mechanism = lattice_ridge(X, y, 10 * epsilon, 1.0, spacing=spacing, bound="sharp")
    released = mechanism.release(rng=generator(64, d), size=20_000)
    steps = (released / spacing).astype(int)
    assert (steps * spacing == released).all() and released.shape == (20_000, d)
    kept = mechanism.release(rng=generator(64, d), size=20_000, project=True)
    np.testing.assert_array_equal(kept, project_on_ball(released, estimate_norm_bound(1.0, math.sqrt(d), "sharp")))
    law = lattice_law(d, mechanism.rate, reach)
    assert math.exp(-float(mechanism.rate) * reach) < 1e-9
    assert p_value(steps - mechanism.point, *law) > FALSE_ALARM
    assert p_value(steps - mechanism.point, *lattice_law(d, mechanism.rate * Fraction(6, 5), reach)) < FALSE_ALARM


def fit(**change: Any) -> LatticeRidge:
    return lattice_ridge(**{"X": np.ones((2, 1)), "y": [0.0, 1.0], "epsilon": [1.0, 1.0], "penalty": 1.0} | change)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit(spacing=0.3), "spacing must be a power of two, got 0.3"),
        (lambda: fit(spacing=2.0**-60), "a step, got 8.673617379884035e-19"),
        (lambda: fit(penalty=2.0**-60, spacing=2.0**-20), "spacing must be larger for noise of the rate"),
        (lambda: fit(epsilon=[5e-324, 5e-324], spacing=2.0**-20), "spacing must be larger for noise of the rate"),
        (lambda: lattice_ridge(np.ones((2, 51)), [0.0, 0.0], [1.0, 1.0], 1.0), "dimension must be at most 50"),
    ],
)
def test_bad_input(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
