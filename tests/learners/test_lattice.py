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
from scipy import stats

from hdpm_lib.learners import lattice
from hdpm_lib.learners.estimators import PersonalizedRidge
from hdpm_lib.learners.lattice import LatticeRidge, lattice_ridge
from hdpm_lib.learners.ridge import estimate_norm_bound, output_perturbation, sensitivity_constant, weighted_ridge
from hdpm_lib.validation import FALSE_ALARM
from tests.listed import lattice_law
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


def determinant(matrix: list[list[int]]) -> int:
    """By permutations."""
    total = 0
    for order in itertools.permutations(range(len(matrix))):
        swaps = sum(a > b for a, b in itertools.combinations(order, 2))
        total += (-1) ** swaps * math.prod(matrix[i][j] for i, j in enumerate(order))
    return total


def residual(matrix: list[list[int]], vector: list[int], found: list[int], denominator: int) -> list[int]:
    return [
        sum(a * x for a, x in zip(row, found, strict=True)) - b * denominator
        for row, b in zip(matrix, vector, strict=True)
    ]


@pytest.mark.parametrize("d", [1, 2, 4, 12, 30])
def test_integer_solve_is_exact(d: int) -> None:
    rng = generator(62, d)
    for size in (3, 10**6, 10**15):
        half = rng.integers(-size, size + 1, (d, d)).astype(object)
        matrix = (half @ half.T + np.diag([1] * d)).tolist()
        vector = rng.integers(-size, size + 1, d).astype(object).tolist()
        found, denominator = lattice._exact_solve(matrix, vector)
        assert residual(matrix, vector, found, denominator) == [0] * d
        assert denominator > 0 and (d > 4 or denominator == determinant(matrix))
        assert any(residual(matrix, vector, [found[0] + 1, *found[1:]], denominator))


@pytest.mark.parametrize("d", [1, 3, 12])
@pytest.mark.parametrize("penalty", [1e-3, 0.1, 7.0])
def test_centre_is_the_ridge_estimate(d: int, penalty: float, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, epsilon = data(50, d)
    systems: list[Any] = []
    solve = lattice._exact_solve

    def spy(matrix: Any, vector: Any) -> Any:
        systems.append((matrix, vector, *solve(matrix, vector)))
        return systems[-1][2:]

    monkeypatch.setattr(lattice, "_exact_solve", spy)
    mechanism = lattice_ridge(X, y, 1e3 * epsilon, penalty, spacing=2.0**-34)
    expected = weighted_ridge(X, y, epsilon / epsilon.sum(), penalty)
    np.testing.assert_allclose(mechanism.point * mechanism.spacing, expected, atol=1e-9)
    ((matrix, vector, found, denominator),) = systems
    np.testing.assert_allclose([x / denominator for x in found], expected, atol=1e-12)
    assert residual(matrix, vector, found, denominator) == [0] * d
    np.testing.assert_allclose(mechanism.weights, epsilon / epsilon.sum())
    assert all(  # rounded to the nearest step
        abs(Fraction(x, denominator) * 2**34 - k) <= Fraction(1, 2)
        for x, k in zip(found, mechanism.point.tolist(), strict=True)
    )


def test_halves_are_rounded_up() -> None:
    for k in (-3, -1, 1, 3, 5):  # one record, weight and penalty 1: the estimate is y / 2
        mechanism = lattice_ridge([[1.0]], [k / 8], [1.0], 1.0, spacing=2.0**-3)
        assert mechanism.point.tolist() == [(k + 1) // 2]


def test_shares_are_proportional() -> None:
    losses = [Fraction(e) for e in (0.1, 0.3, 2.5, 1e-3)]
    shares = lattice._integer_shares(losses)
    assert math.gcd(*shares) == 1
    assert all(share * losses[0] == shares[0] * loss for share, loss in zip(shares, losses, strict=True))


# --- records on the grid ----------------------------------------------------------------------------------------------


def test_records_stay_within_their_bounds() -> None:
    rng = generator(63)
    X, y = np.vstack([rng.random((200, 4)), np.ones((1, 4)), np.zeros((1, 4))]), rng.uniform(-1, 1, 202)
    xs, ys = lattice._grid_records(X, y, Fraction(4))
    assert (xs <= X * 2**20).all() and (X * 2**20 - xs < 1).all() and xs.max() == 2**20
    assert (np.abs(ys) <= np.abs(y) * 2**20).all() and (np.abs(ys - y * 2**20) < 1).all()
    for norm in (1.0, 0.7, 1 / 3):
        short = X * np.minimum(1, norm / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9))
        xs, _ = lattice._grid_records(short, y, Fraction(norm) ** 2)
        assert all(sum(k * k for k in row) <= Fraction(norm) ** 2 * 2**40 for row in xs.tolist())
        nearest = np.rint(short * 2**20).astype(int)
        assert any(sum(k * k for k in row) > Fraction(norm) ** 2 * 2**40 for row in nearest.tolist())


def test_vector_that_floats_let_pass_is_shortened() -> None:
    norm = 0.5 * (1 - 5e-13)  # below 1/2, but within the tolerance of the check in floats
    xs, _ = lattice._grid_records(np.array([[0.5, 0.0], [0.25, 0.0]]), np.zeros(2), Fraction(norm) ** 2)
    assert xs.tolist() == [[2**19 - 1, 0], [2**18, 0]] or xs.tolist()[0][0] in (2**19 - 2, 2**19 - 1)
    assert all(isinstance(k, int) for k in xs.ravel().tolist())  # and no floats, which would round the sums
    lattice_ridge([[0.5, 0.0], [0.25, 0.0]], [0.0, 1.0], [1.0, 1.0], 1.0, feature_norm=norm)


def test_signed_records_are_cut_towards_zero() -> None:
    X, y = generator(66).uniform(-1, 1, (200, 3)), np.linspace(-5, 5, 200)
    limit = Fraction(float(np.linalg.norm(X, axis=1).max())) ** 2
    xs, ys = lattice._grid_records(X, y, limit)
    assert (np.abs(xs) <= np.abs(X) * 2**20).all() and (np.abs(X * 2**20 - xs) < 1).all()
    assert (np.abs(ys) <= np.abs(y) * 2**20).all()
    turned, _ = lattice._grid_records(-X, y, limit)
    assert (turned == -xs).all()
    xs, _ = lattice._grid_records(np.array([[-0.6, 0.8]]), np.zeros(1), Fraction(1, 4))
    assert xs[0, 0] < 0 < xs[0, 1] and 0.249 * 2**40 < sum(k * k for k in xs[0]) <= 2**38
    large = lattice_ridge([[1.0]], [2.0**44], [1.0], 1.0, spacing=2.0**10, label_bound=2.0**44)  # beyond 64 bits
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


CONSTANTS = list(itertools.product((0.001, 0.1, 1.0, 3.0, 1e4), (1.0, 2.0, 12.0, 0.3), ("paper", "sharp")))


def constant_objections() -> int:
    wrong = 0
    for penalty, square, bound in CONSTANTS:
        found = lattice._constant_above(Fraction(penalty), Fraction(square), bound, Fraction(1))  # type: ignore[arg-type]
        least, most = constant_between(Fraction(penalty), Fraction(square), bound)
        assert float(found) == pytest.approx(sensitivity_constant(penalty, math.sqrt(square), bound), rel=1e-12)  # type: ignore[arg-type]
        wrong += not least <= found <= most * (1 + Fraction(1, 2**50))
    return wrong


def test_constant_is_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    assert constant_objections() == 0
    above = lattice.root_above
    monkeypatch.setattr(lattice, "root_above", lambda square, n: max(above(square, n) - Fraction(1, n), Fraction(0)))
    assert constant_objections() > 10


def budget_objections(spacing: float) -> int:
    """Records whose loss by the theorem, computed with other fractions, exceeds what they accept or say."""
    X, y, epsilon = data(20, 2)
    mechanism = lattice_ridge(X, y, epsilon, 0.3, spacing=spacing, bound="sharp")
    _, c = constant_between(Fraction(0.3), Fraction(2), "sharp")
    _, root = root_between(Fraction(2))
    total, wrong = sum(map(Fraction, epsilon)), 0
    for eps, promised in zip(epsilon.tolist(), mechanism.privacy_loss.tolist(), strict=True):
        loss = mechanism.rate * (c * Fraction(eps) / total / Fraction(spacing) + root)
        wrong += not loss <= Fraction(eps) or not loss <= Fraction(promised) <= min(Fraction(eps), loss * (1 + 2**-50))
    np.testing.assert_allclose(mechanism.privacy_loss.min(), epsilon.min(), rtol=1e-14)
    return wrong


@pytest.mark.parametrize("spacing", [2.0**-2, 2.0**-10, 2.0**-20])
def test_budget_is_kept_exactly(spacing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    assert budget_objections(spacing) == 0
    cut = lattice._cut
    monkeypatch.setattr(lattice, "_cut", lambda value: cut(value) * (1 + Fraction(1, 2**50)))
    assert budget_objections(spacing) > 0


# --- losses of all neighbours -----------------------------------------------------------------------------------------


def largest_share(
    d: int,
    penalty: float,
    spacing: float,
    epsilon: list[float],
    bound: Any,
    patch: pytest.MonkeyPatch,
    signed: bool = False,
) -> Fraction:
    """Largest squared share of what a record accepts that it can lose: all values of it on a grid of halves.

    The others go through a few corners. In fractions of integers, all of them the mechanism's own. If `signed`, the
    features go from -1 to 1, and the labels to a half.
    """
    patch.setattr(lattice, "_GRID", 2)
    side, a = ((-1.0, -0.5, 0.0, 0.5, 1.0), 0.5) if signed else ((0.0, 0.5, 1.0), 1.0)
    options = {"feature_norm": d**0.5, "label_bound": a} if signed else {}
    values = [(x, y / 2) for x in itertools.product(side, repeat=d) for y in range(-2, 3) if abs(y / 2) <= a]
    corners = [((0.0,) * d, 0.0), ((1.0,) * d, a), ((side[0],) * d, -a), ((1.0,) * d, -a)]
    worst, n = Fraction(0), len(epsilon)
    for i, others in itertools.product(range(n), itertools.product(corners, repeat=n - 1)):
        points = set()
        for value in values:
            records = [*others[:i], value, *others[i:]]
            X, y = [x for x, _ in records], [label for _, label in records]
            mechanism = lattice_ridge(X, y, epsilon, penalty, spacing=spacing, bound=bound, **options)
            points.add(tuple(mechanism.point.tolist()))
        square = max(sum((a - b) ** 2 for a, b in zip(k, j, strict=True)) for k in points for j in points)
        loss = mechanism.rate**2 * square
        assert loss <= Fraction(mechanism.privacy_loss[i]) ** 2 or loss > Fraction(epsilon[i]) ** 2
        worst = max(worst, loss / Fraction(epsilon[i]) ** 2)
    return worst


SETTINGS = [
    # d, penalty, spacing, epsilon, bound, the least share that must be found
    (1, 1e4, 2.0**-40, [0.5, 1.0], "paper", 0.998),
    (1, 1e4, 2.0**-40, [0.5, 1.0], "sharp", 0.998),
    (2, 1e4, 2.0**-40, [0.5, 1.0], "paper", 0.996),
    (1, 1e4, 2.0**-14, [0.7, 0.7], "sharp", 0.6),
    (2, 1e4, 2.0**-14, [0.7, 0.7], "sharp", 0.6),
    (1, 0.5, 2.0**-6, [2.0, 0.3, 0.3], "paper", 0.1),
    (2, 0.5, 2.0**-2, [1.0, 0.3], "sharp", 0.1),
]


@pytest.mark.parametrize(("d", "penalty", "spacing", "epsilon", "bound", "least"), SETTINGS)
def test_no_neighbour_loses_more(
    d: int, penalty: float, spacing: float, epsilon: list[float], bound: str, least: float, monkeypatch: Any
) -> None:
    share = largest_share(d, penalty, spacing, epsilon, bound, monkeypatch)
    assert least**2 <= share <= 1, float(share) ** 0.5


@pytest.mark.parametrize("setting", [(1, 1e4, 2.0**-40, [0.5, 1.0], "sharp"), (2, 0.5, 2.0**-6, [1.0, 0.3], "paper")])
def test_no_neighbour_loses_more_with_signs_and_a_label_bound(setting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    least = 0.998 if setting[0] == 1 else 0.1
    assert least**2 <= largest_share(*setting, monkeypatch, signed=True) <= 1
    constant = lattice._constant_above
    monkeypatch.setattr(lattice, "_constant_above", lambda p, s, b, a: constant(p, s, b, a * a))
    if setting[0] == 1:
        assert largest_share(*setting, monkeypatch, signed=True) > 1


@pytest.mark.parametrize(
    ("broken", "setting"),
    [("no root of d", 2), ("rounding forgotten", 4), ("equal weights", 0), ("half the constant", 1)],
)
def test_wrong_ridge_loses_more(broken: str, setting: int, monkeypatch: pytest.MonkeyPatch) -> None:
    above, constant = lattice.root_above, lattice._constant_above
    if broken == "no root of d":
        monkeypatch.setattr(lattice, "root_above", lambda square, n: Fraction(1) if square == 2 else above(square, n))
    elif broken == "rounding forgotten":
        monkeypatch.setattr(
            lattice, "root_above", lambda square, n: Fraction(0) if isinstance(square, int) else above(square, n)
        )
    elif broken == "equal weights":
        monkeypatch.setattr(lattice, "_integer_shares", lambda losses: np.ones(len(losses), dtype=object))
    else:
        monkeypatch.setattr(lattice, "_constant_above", lambda *args: constant(*args) / 2)
    assert largest_share(*SETTINGS[setting][:5], monkeypatch) > 1  # type: ignore[arg-type]


# --- releases ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "spacing", "reach"), [(1, 0.25, 100), (2, 0.5, 80)])
def test_law_of_releases(d: int, spacing: float, reach: int) -> None:
    X, y, epsilon = data(30, d)
    mechanism = lattice_ridge(X, y, 10 * epsilon, 1.0, spacing=spacing, bound="sharp")
    released = mechanism.release(rng=generator(64, d), size=20_000)
    steps = (released / spacing).astype(int)
    assert (steps * spacing == released).all() and released.shape == (20_000, d)
    law = lattice_law(d, mechanism.rate, reach)
    assert math.exp(-float(mechanism.rate) * reach) < 1e-9
    assert p_value(steps - mechanism.point, *law) > FALSE_ALARM
    assert p_value(steps - mechanism.point, *lattice_law(d, mechanism.rate * Fraction(6, 5), reach)) < FALSE_ALARM


def test_law_of_fits() -> None:
    """What users call: one release a fit, project and its default noise as they are."""
    X, y, epsilon = data(5, 1)
    model = PersonalizedRidge(0.5, project=False)
    mechanism = lattice_ridge(X, y, 10 * epsilon, 0.5, bound="sharp")
    released = np.array([model.fit(X, y, epsilon=10 * epsilon).coef_[0] for _ in range(3000)])
    steps = released / mechanism.spacing - mechanism.point
    assert (steps % 1 == 0).all() and mechanism.rate < 2.0**-25  # so fine that the law is Laplace's
    assert stats.kstest(float(mechanism.rate) * steps, stats.laplace().cdf).pvalue > FALSE_ALARM
    assert stats.kstest(2 * float(mechanism.rate) * steps, stats.laplace().cdf).pvalue < FALSE_ALARM


def test_noise_grows_by_the_price_of_the_lattice() -> None:
    X, y, epsilon = data(40, 3)
    for bound, spacing in itertools.product(("paper", "sharp"), (2.0**-5, 2.0**-20)):
        exact = lattice_ridge(X, y, epsilon, 0.2, bound=bound, spacing=spacing)  # type: ignore[arg-type]
        real = output_perturbation(X, y, epsilon, 0.2, bound=bound)  # type: ignore[arg-type]
        price = 1 + spacing * math.sqrt(3) * epsilon.sum() / (real.constant * epsilon.min())
        assert real.noise_rate / exact.noise_rate == pytest.approx(price, rel=1e-12)
        assert exact.radius == pytest.approx(real.radius)


def test_shapes_and_projection() -> None:
    X, y, epsilon = data()
    mechanism = lattice_ridge(X, y, 0.01 * epsilon, 0.5)
    for size, shape in (((), (3,)), (4, (4, 3)), ((2, 5), (2, 5, 3))):
        assert mechanism.release(rng=generator(), size=size).shape == shape
    free, kept = (mechanism.release(rng=generator(65), size=50, project=p) for p in (False, True))
    far = np.linalg.norm(free, axis=1) > mechanism.radius
    assert far.any() and (np.linalg.norm(kept, axis=1) <= mechanism.radius * (1 + 1e-12)).all()
    np.testing.assert_array_equal(free[~far], kept[~far])
    assert mechanism.radius == estimate_norm_bound(0.5, math.sqrt(3), "sharp")


def test_records_outside_are_clipped_or_refused() -> None:
    X, y, epsilon = data()
    clipped = lattice_ridge(2 * X, 3 * y, epsilon, 1.0, clip=True)
    inside = lattice_ridge(np.minimum(2 * X, 1), np.clip(3 * y, -1, 1), epsilon, 1.0)
    assert (clipped.point == inside.point).all()


def fit(**change: Any) -> LatticeRidge:
    arguments = {"X": np.ones((2, 1)), "y": [0.0, 1.0], "epsilon": [1.0, 1.0], "penalty": 1.0} | change
    return lattice_ridge(**arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit(spacing=0.3), "spacing must be a power of two, got 0.3"),
        (lambda: fit(spacing=2.0**-60), "a step, got 8.673617379884035e-19"),
        (lambda: fit(penalty=2.0**-60, spacing=2.0**-20), "spacing must be larger for noise of the rate"),
        (lambda: fit(epsilon=[5e-324, 5e-324], spacing=2.0**-20), "spacing must be larger for noise of the rate"),
        (lambda: lattice_ridge(np.ones((2, 51)), [0.0, 0.0], [1.0, 1.0], 1.0), "dimension must be at most 50"),
        (lambda: fit(feature_norm=0.5), "rows of X must have a norm of at most feature_norm = 0.5"),
    ],
)
def test_bad_input(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
