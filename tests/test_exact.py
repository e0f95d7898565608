"""Releases certain to the last digit: enclosures, the law, cells next to other programs, losses at
the corners, faults.

What is true of a draw is computed a second time, in other ways, from the same uniform digits at
2,000 bits.
"""

from __future__ import annotations

import itertools
import math
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from fractions import Fraction
from functools import partial
from typing import Any

import joblib
import numpy as np
import pytest
from flint import acb, arb, arb_mat, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hdpm_lib import exact
from hdpm_lib.audits.meters import privacy_losses
from hdpm_lib.exact import GRID, Uniforms, on_grid, released, spherical, spherical_uniforms
from hdpm_lib.learners import minimiser, objective, queries, ridge, weighted_mean
from hdpm_lib.learners.objective import objective_perturbation
from hdpm_lib.learners.queries import BiasedLaplace, linear_query, nonlinear_query
from hdpm_lib.learners.ridge import output_perturbation
from hdpm_lib.learners.second_moments import second_moments
from hdpm_lib.learners.weighted_mean import WeightedMean
from hdpm_lib.private import check_signed_records
from hdpm_lib.validation import FALSE_ALARM
from tests.support import generator, law_checks, objections, p_value

Array = np.ndarray
DIMENSIONS = (1, 2, 12, 100, 200)


@contextmanager
def precision(bits: int = 2000) -> Iterator[None]:
    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before


def number(value: Fraction | float) -> arb:
    value = Fraction(value)
    return arb(value.numerator) / value.denominator


def replayed(count: int, rng: np.random.Generator) -> list[arb]:
    """The uniform numbers of the next release, with all digits that it could have drawn."""
    uniforms = Uniforms(count, rng)
    return [uniforms.enclosed(bits) for bits in exact.BITS][-1]


def polar(u: list[arb], d: int, rate: float) -> list[arb]:
    """Spherical noise from complex normal numbers and a product."""
    product = arb(1)
    for x in u[:d]:
        product *= x
    radius = -product.log() / number(rate)
    if d == 1:
        return [radius if u[1] < 0.5 else -radius]
    turned = [
        (-2 * a.log()).sqrt() * acb(0, 2 * b * arb.pi()).exp()
        for a, b in zip(u[d::2], u[d + 1 :: 2], strict=True)
    ]
    normal = [part for z in turned for part in (z.imag, z.real)][:d]
    return [radius * z / sum((x**2 for x in normal), arb(0)).sqrt() for z in normal]


# --- enclosures and cells -----------------------------------------------------------------------


def outside(d: int, rate: float = 0.3) -> int:
    """How many balls, of uniform numbers and of noise, do not hold the true value; and how many are
    too wide.
    """
    found = 0
    rng = generator(901, d)
    for _ in range(3):
        uniforms = Uniforms(spherical_uniforms(d), rng)
        balls = []
        for bits in exact.BITS:
            with precision(bits):
                u = uniforms.enclosed(bits)
                balls.append((bits, u, spherical(u, d, rate)))
        with precision():
            true = [arb(2 * digits + 1) / 2 ** (uniforms.bits + 1) for digits in uniforms.digits]
            noise = polar(true, d, rate)
            for bits, u, z in balls:
                found += sum(
                    not x.contains(t) or x.rad() > arb(2) ** (1 - bits)
                    for x, t in zip(u, true, strict=True)
                )
                found += sum(not x.overlaps(t) for x, t in zip(z, noise, strict=True))
            found += sum(x.rad() > arb(2) ** -1400 for x in balls[-1][2])
    return found


@pytest.mark.parametrize("d", DIMENSIONS)
def test_balls_hold_the_true_values(d: int) -> None:
    assert outside(d) == 0


def wrong_cells(d: int, step: float = 2.0**-10) -> int:
    """How many coordinates, drawn with few bits at first, are not rounded as the true value is."""
    wrong = 0
    count = spherical_uniforms(d)
    for k in range(100 if d < 20 else 5):
        found = released(lambda u: spherical(u, d, 0.3), d, count, step, rng=generator(902, d, k))
        with precision():
            true = polar(replayed(count, generator(902, d, k)), d, 0.3)
            wrong += sum(
                x != float((z / step + arb(0.5)).floor()) * step
                for x, z in zip(found, true, strict=True)
            )
    return wrong


FEW_BITS = (8, 16, 24, 32, 96, 1536)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_cells_are_those_of_the_true_values(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the first bits do not decide, which they then mostly do not."""
    monkeypatch.setattr(exact, "BITS", FEW_BITS)
    assert wrong_cells(d) == 0


def as_cells(values: list[arb], step: float) -> list[float]:
    cells = [(value / step + arb(0.5)).floor().unique_fmpz() for value in values]
    assert None not in cells
    return [float(int(cell)) * step for cell in cells]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The steps, and the rates of noise, of the releases that are made."""
    seen: list[float] = []

    def keep(function: Any) -> Any:
        return lambda *given, **more: seen.append(given[3]) or function(*given, **more)

    for module in (queries, exact, objective):
        monkeypatch.setattr(module, "released", keep(released))
    return seen


def solve(matrix: list[list[Fraction]], vector: list[Fraction]) -> list[Fraction]:
    """Gauss and Jordan, in fractions; the matrix is positive definite."""
    rows = [[*row, x] for row, x in zip(matrix, vector, strict=True)]
    for k in range(len(rows)):
        rows[k] = [x / rows[k][k] for x in rows[k]]
        rows = [
            row if i == k else [x - row[k] * y for x, y in zip(row, rows[k], strict=True)]
            for i, row in enumerate(rows)
        ]
    return [row[-1] for row in rows]


def ridge_estimate(X: Array, y: Array, weights: Array, penalty: float) -> list[Fraction]:
    """Of integer features and labels in steps of the grid."""
    x = X.tolist()
    t = y.tolist()
    a = [Fraction(w) for w in weights.tolist()]
    d = range(X.shape[1])
    system = [
        [
            sum(w * r[i] * r[j] for w, r in zip(a, x, strict=True)) / Fraction(GRID) ** 2
            + Fraction(penalty) * (i == j)
            for j in d
        ]
        for i in d
    ]
    right = [
        sum(w * r[i] * k for w, r, k in zip(a, x, t, strict=True)) / Fraction(GRID) ** 2 for i in d
    ]
    return solve(system, right)


def laplace_draws(m: int, key: int, rate: float) -> list[arb]:
    u = replayed(2 * m, generator(903, key))
    return [polar(list(pair), 1, rate)[0] for pair in zip(u[::2], u[1::2], strict=True)]


@pytest.mark.parametrize(("n", "m"), [(1, 1), (5, 1), (3, 4)])
def test_queries_next_to_fractions(n: int, m: int, steps: list[float]) -> None:
    rng = generator(904, n, m)
    for key in range(20):
        shares = rng.random(n)
        q = rng.choice([-1, 1], n) * 10.0 ** rng.uniform(-3, 3, n)
        scale = float(rng.random())
        made = linear_query(shares, scale, weights=q, dimension=m)
        data = rng.random((n, m))
        terms = q[:, None] * data
        found = made.release(terms if m > 1 else terms[:, 0], rng=generator(903, key))
        middle = made.lower + made.ranges / 2
        with precision():
            noise = laplace_draws(m, key, (1 - exact.MARGIN - n * 2.0**-52) / scale)
            a = map(Fraction, shares.tolist())
            c = [Fraction(x) for x in middle.tolist()]
            a = list(a)
            answers = [
                sum(w * (Fraction(t) - x) for w, t, x in zip(a, column, c, strict=True))
                for column in terms.T.tolist()
            ]
            true = as_cells([number(x) + z for x, z in zip(answers, noise, strict=True)], steps[-1])
        assert np.ravel(found).tolist() == (middle.sum() + np.array(true)).tolist()


FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=100)
@given(st.lists(st.tuples(FLOATS, FLOATS, FLOATS), min_size=1))
def test_inner_products_are_those_of_fractions(rows: list[tuple[float, float, float]]) -> None:
    """Floats of any size side by side, of either sign."""
    weights, first, second = np.array(rows).T
    with precision(9000):
        for found, column in zip(
            exact.inner_products(weights, np.stack([first, second], axis=1)),
            (first, second),
            strict=True,
        ):
            true = sum(map(Fraction.__mul__, map(Fraction, weights), map(Fraction, column)))
            assert found.is_exact()
            assert int((found * arb(2) ** 2200).unique_fmpz()) == true * 2**2200


def test_inner_products_of_many_add_up_without_rounding() -> None:
    """More rows than floats hold the products of, all with full mantissas."""
    largest = 1 - 2.0**-53
    n = 2**18 + 3
    with precision(300):
        (found,) = exact.inner_products(np.full(n, largest), np.full((n, 1), -largest))
        assert found == -n * number(Fraction(largest) ** 2)


@pytest.mark.parametrize("d", [1, 3])
def test_means_next_to_fractions(d: int, steps: list[float]) -> None:
    rng = generator(905, d)
    for key in range(20):
        w = rng.dirichlet(np.ones(4))
        radius = 10.0 ** rng.uniform(-3, 3)
        rate = 10.0 ** rng.uniform(-3, 3)
        made = WeightedMean(w, rate, np.zeros(d), radius)
        x = radius * rng.uniform(-1, 1, (4, d)) / d
        found = made.release(x, rng=generator(906, key))
        grid = on_grid(x, radius, ball=True).tolist()
        with precision():
            noise = polar(
                replayed(spherical_uniforms(d), generator(906, key)), d, rate * (1 - exact.MARGIN)
            )
            means = [
                sum(
                    Fraction(a) * row[j] for a, row in zip(made.weights.tolist(), grid, strict=True)
                )
                for j in range(d)
            ]
            true = [
                number(Fraction(radius) * x / GRID) + z for x, z in zip(means, noise, strict=True)
            ]
            assert found.tolist() == as_cells(true, steps[-1])


@pytest.mark.parametrize(("d", "norm"), [(1, None), (3, None), (2, 0.7)])
def test_ridge_next_to_fractions(d: int, norm: float | None, steps: list[float]) -> None:
    rng = generator(907, d)
    for key, penalty in enumerate((1e-6, 0.1, 1.0, 30.0, 1e6)):
        X = rng.random((6, d))
        y = rng.uniform(-1, 1, 6)
        epsilon = rng.uniform(0.1, 9, 6)
        X *= 0.5 if norm else 1
        made = output_perturbation(epsilon, penalty, features=d, feature_norm=norm, clip=True)
        found = made.release(X, y, rng=generator(908, key))
        bound = norm or 1.0
        x = on_grid(X, bound, ball=bool(norm))
        with precision():
            unit = Fraction(bound)
            # of X / bound
            centre = ridge_estimate(x, on_grid(y, 1.0), made.weights, Fraction(penalty) / unit**2)
            noise = polar(
                replayed(spherical_uniforms(d), generator(908, key)),
                d,
                made.noise_rate * (1 - exact.MARGIN),
            )
            true = [number(c / unit) + z for c, z in zip(centre, noise, strict=True)]
            assert found.tolist() == as_cells(true, steps[-1])


@pytest.mark.parametrize(("d", "m"), [(1, 1), (2, 5), (4, 20)])
@pytest.mark.parametrize("penalty", [0.05, 1.0, 1e4])
def test_minimisers_next_to_plain_descent(
    d: int, m: int, penalty: float, steps: list[float]
) -> None:
    """Gradient descent with steps that always shrink the distance, at 500 bits."""
    rng = generator(909, d, m)
    for key in range(3):
        X = rng.normal(size=(m, d))
        y = rng.choice([-1.0, 1.0], m)
        a = rng.dirichlet(np.ones(m))
        eta = float(10.0 ** rng.uniform(-2, 3))
        made = objective_perturbation(a, eta, penalty, features=d, clip=True)
        found = made.release(X, y, rng=generator(910, key))
        short, _ = check_signed_records(X, y, clip=True)
        u = (on_grid(short, 1.0, ball=True) * y.astype(int)[:, None]).tolist()
        with precision(500):
            rows = arb_mat([[arb(k) / GRID for k in row] for row in u])
            lam = arb(penalty)
            noise = polar(
                replayed(spherical_uniforms(d), generator(910, key)),
                d,
                eta / 2 * (1 - exact.MARGIN),
            )
            w = arb_mat(d, 1, [-z.mid() / lam for z in noise])
            fixed = arb_mat(d, 1, [z.mid() for z in noise])
            most = arb(float(a.sum())) / 4
            for _ in range(math.ceil(110 * (1 + 0.25 / penalty))):  # far below a step
                pull = [
                    arb(t) / (1 + s.exp())
                    for t, s in zip(a.tolist(), (rows * w).entries(), strict=True)
                ]
                slope = fixed + w * lam - rows.transpose() * arb_mat(m, 1, pull)
                w = (w - slope * (1 / (lam + most))).mid()
            true = as_cells(w.entries(), steps[-1])
        assert found.tolist() == true


@pytest.mark.parametrize("penalty", [1e-31, 1e-17, 1e-12, 1e-9, 1e9])
@pytest.mark.parametrize("eta", [1e-9, 1e-3, 1.0, 1e9])
def test_minimisers_next_to_bisection(eta: float, penalty: float, steps: list[float]) -> None:
    """Where floats are of no help: one feature, and a slope of which only the sign is looked at."""
    for key in range(3):
        rng = generator(924, key)
        X = rng.uniform(-1, 1, (4, 1))
        y = rng.choice([-1.0, 1.0], 4)
        a = rng.dirichlet(np.ones(4))
        made = objective_perturbation(a, eta, penalty, features=1)
        found = made.release(X, y, rng=generator(925, key))
        u = [arb(int(k)) / GRID for k in on_grid(X, 1.0, ball=True)[:, 0] * y.astype(int)]
        with precision(500):
            lam = arb(penalty)
            noise = polar(replayed(2, generator(925, key)), 1, eta / 2 * (1 - exact.MARGIN))[
                0
            ].mid()
            high = (abs(noise) + 2) / lam
            low = -high
            for _ in range(400):
                w = ((low + high) / 2).mid()
                pull = sum(
                    (arb(t) * x / (1 + (x * w).exp()) for t, x in zip(a.tolist(), u, strict=True)),
                    arb(0),
                )
                low, high = (low, w) if noise + lam * w > pull else (w, high)
            assert found.tolist() == as_cells([w], steps[-1])


@pytest.mark.parametrize("most", [1, 2])
def test_balls_are_about_where_too_few_steps_end(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the radius that strong convexity gives for their middle, and for no earlier point."""
    rng = generator(926, most)
    X = rng.normal(size=(20, 2))
    y = rng.choice([-1.0, 1.0], 20)
    a = rng.dirichlet(np.ones(20))
    made = objective_perturbation(a, 1.0, 1e-4, features=2)
    X, y = check_signed_records(X, y, clip=True)
    monkeypatch.setattr(minimiser, "NEWTON_STEPS", most)
    with precision(192):
        uniforms = Uniforms(spherical_uniforms(2), generator(927, most)).enclosed(192)
        found = made._enclosure(X, y)(uniforms)
        rows = on_grid(X, 1.0, ball=True) * y.astype(int)[:, None] / GRID
        slope = polar(uniforms, 2, 0.5 * (1 - exact.MARGIN))
        w = [x.mid() for x in found]
        for k in range(2):
            slope[k] += arb(1e-4) * w[k]
            for t, row in zip(a.tolist(), rows.tolist(), strict=True):
                slope[k] -= arb(t) * row[k] / (1 + (row[0] * w[0] + row[1] * w[1]).exp())
        radius = (slope[0] ** 2 + slope[1] ** 2).sqrt() / arb(1e-4)
        assert all(abs(arb(x.rad()) / radius - 1) < 1e-6 for x in found)


KINDS: list[dict[str, Any]] = [
    {},
    {"clip_norm": 0.3},
    {"loss": "squared", "clip_norm": 0.1},
    {"loss": "squared", "clip_norm": 1.0},
]


def slopes_missed(forgiven: float = 1.0) -> int:
    """How many gradients by products of floats are farther from the true one than is said."""
    missed = 0
    for k, (m, n, size) in enumerate(itertools.product((1, 7, 300), (1, 5, 40), (0.1, 10.0, 1e4))):
        rng = generator(932, k)
        X = rng.normal(size=(m, n))
        a = rng.dirichlet(np.full(m, 0.3)) + 1e-12
        kind = KINDS[k % len(KINDS)]
        made = objective_perturbation(a, 1.0, 1e-3, features=n, clip=True, **kind)
        y = rng.choice([-1.0, 1.0], m)
        enclosure = made._enclosure(*made._inside(X, y))
        point = size * rng.normal(size=n)
        noise = rng.normal(size=n).tolist()
        with precision(96):
            slope, error = enclosure._rough_slopes(point, [arb(z) for z in noise])
        with precision():
            w = arb_mat(n, 1, point.tolist())
            rows = arb_mat(enclosure.losses.rows.tolist())
            pulls = []
            limits = enclosure.losses.limits.tolist()
            for t, label, limit, score in zip(
                a.tolist(), y.tolist(), limits, (rows * w).entries(), strict=True
            ):
                pull = arb(label) - score
                if made.loss == "logistic":
                    pull = 1 / (1 + score.exp())
                pulls.append(arb(t) * max(min(pull, arb(limit)), arb(-limit)))
            back = (rows.transpose() * arb_mat(m, 1, pulls)).entries()
            off = [
                z + arb(1e-3) * x - pull - found
                for z, x, pull, found in zip(noise, point.tolist(), back, slope, strict=True)
            ]
            length = sum((x * x for x in off), arb(0)).abs_upper().sqrt()
            missed += not length < arb(error) / forgiven
    return missed


def test_gradients_by_floats_are_as_close_as_they_say() -> None:
    """And not much closer: the bound is needed."""
    assert slopes_missed() == 0
    assert slopes_missed(forgiven=1000) > 0


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_floats_decide_nothing_about_what_is_drawn(
    kind: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Releases, and the bits that they take, are those of balls throughout: on any machine."""
    rng = generator(933)
    X = rng.normal(size=(30, 6))
    y = rng.choice([-1.0, 1.0], 30)
    a = rng.dirichlet(np.ones(30))
    monkeypatch.setattr(objective, "COARSER", 1.0)  # a finer grid, on which floats often fail
    made = objective_perturbation(a, 3.0, 1e-6, features=6, clip=True, **kind)

    def drawn() -> tuple[list[float], Any]:
        source = generator(934)
        return made.release(X, y, rng=source, size=200).tolist(), source.bit_generator.state

    quick = drawn()
    with monkeypatch.context() as patch:  # floats alone, although they leave something open
        patch.setattr(minimiser, "grid_points", lambda values, step: [])
        assert drawn() != quick
    far = staticmethod(lambda point, noise: [arb(x, arb("inf")) for x in point.tolist()])
    monkeypatch.setattr(minimiser.Enclosure, "_by_floats", far)
    assert drawn() == quick


@pytest.mark.parametrize("middle", [0.0, 30.0, -30.0, 200.0, -200.0, 1e6, -1e6])
def test_chances_hold_those_of_all_margins(middle: float) -> None:
    """Of wide balls, too, which reach far out on one side."""
    for radius in (0.0, 1.0, 199.9, 2e6):
        with precision(96):
            chance = minimiser._chance(arb(middle, radius))
        with precision():
            ends = [
                1 / (1 + (arb(middle) + part * arb(radius)).exp()) for part in (-1, -0.5, 0, 0.5, 1)
            ]
            assert all(chance.overlaps(end) for end in ends) and (radius > 1 or chance.rad() < 0.3)


# --- the law ------------------------------------------------------------------------------------


def law_objections(d: int, n: int) -> list[str]:
    """Of the noise around a mean of zeros, far finer than its size."""
    made = WeightedMean([0.25, 0.75], 0.3, np.zeros(d), 1.0)
    rng = generator(911, d)
    return objections(
        law_checks(lambda k: 0.3 * made.release(np.zeros((2, d)), rng=rng, size=k), n)
    )


@pytest.mark.parametrize(
    ("d", "n"), [(1, 10_000), (2, 10_000), (12, 3_000), (100, 300), (200, 150)]
)
def test_noise_has_the_law(d: int, n: int) -> None:
    assert law_objections(d, n) == []


def test_cells_have_the_law() -> None:
    """On a coarse grid, around a centre between two of its points."""
    drawn = released(
        lambda u: [spherical(u, 1, 0.8)[0] + 0.3], 1, 2, 0.5, rng=generator(912), size=20_000
    )
    ends = np.arange(-60, 62) * 0.5 - 0.25
    law = stats.laplace(0.3, 1 / 0.8)
    points = (ends[:-1] + 0.25)[:, None]
    probabilities = np.diff(law.cdf(ends))
    assert p_value(drawn, points, probabilities) > FALSE_ALARM
    assert p_value(drawn, points, np.diff(stats.laplace(0.3, 1.1 / 0.8).cdf(ends))) < FALSE_ALARM


# --- records on the grid ------------------------------------------------------------------------


def longest(steps: Array) -> int:
    return max(sum(k * k for k in row) for row in steps.tolist()) - GRID**2


def too_long(grid: Callable[..., Array]) -> int:
    """Vectors next to the bound, in either direction, that are longer than it, in integers."""
    rng = generator(913)
    found = 0
    for bound, d in itertools.product((1e-300, 0.7, 1.0, 1e300), (1, 2, 3, 12, 100)):
        x = rng.normal(size=(200, d))
        x[:20] = rng.choice([-1.0, 1.0], (20, d))
        x[20] = np.arange(d) == 0
        rows = (
            bound
            * (x / np.linalg.norm(x, axis=1, keepdims=True))
            * rng.choice([1, 1 + 2.0**-52, 1 + 1e-12], (200, 1))
        )
        found += sum(
            sum(k * k for k in row) > GRID**2 for row in grid(rows, bound, ball=True).tolist()
        )
    return found


def test_what_lies_on_the_grid_beside_the_bound_is_shortened() -> None:
    """By rounding alone, here by less than 1e-12, a row of whole steps is too long."""
    row = next(
        (a, b)
        for a in range(2**29, 2**29 + 100_000)
        if 0 < a * a + (b := math.isqrt(GRID**2 - a * a) + 1) ** 2 - GRID**2 < 10**6
    )
    rows = np.array([row, (GRID, 0)])
    assert longest(rows) > 0 == longest(on_grid(rows / GRID, 1.0, ball=True))
    made = second_moments([1.0, 1.0], features=2, feature_norm=1.0)
    assert longest(made._on_grid(rows / GRID, [1.0, 1.0])[0]) == 0
    objective = objective_perturbation([0.5, 0.5], 1.0, 1.0, features=2)
    assert longest(objective._enclosure(rows / GRID, np.ones(2))._steps) == 0


def to_the_nearest(values: Array, bound: float, *, ball: bool = False) -> Array:
    return np.rint(np.asarray(values) / bound * GRID).astype(np.int64)


def test_records_are_no_longer_than_the_bound() -> None:
    assert too_long(on_grid) == 0 < too_long(to_the_nearest)


@settings(max_examples=200)
@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=6),
    st.floats(-300, 300),
    st.sampled_from([-1, 0, 1]),
)
def test_any_record_on_the_grid(entries: list[float], power: float, ulps: int) -> None:
    """Close to it, towards 0, the same each time, and the same in both directions."""
    bound = 10.0**power
    x = np.array([entries])
    x = x / max(1.0, float(np.linalg.norm(x))) * (1 + ulps * 2.0**-52) * bound
    for ball in (False, True):
        steps = on_grid(x, bound, ball=ball)
        assert (steps == on_grid(x.copy(), bound, ball=ball)).all() and (
            steps == -on_grid(-x, bound, ball=ball)
        ).all()
        assert np.abs(steps).max() <= GRID and (not ball or longest(steps) <= 0)
        assert (np.abs(steps - x / bound * GRID) < 3).all() and (
            np.abs(steps) <= np.abs(x / bound * GRID)
        ).all()


# --- neighbours at the corners ------------------------------------------------------------------


class Seen(list[Any]):
    """Answers without noise, and the rates of the noise: enclosed at 2,000 bits."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__()
        for module in (queries, exact):
            patch.setattr(module, "spherical", self.silent)
            patch.setattr(module, "released", self.answer)

    def silent(self, uniforms: Any, d: int, rate: float) -> list[arb]:
        self.rate = rate
        return [arb(0)] * d

    def answer(
        self, enclose: Any, d: int, count: int, step: float, *, rng: Any, size: Any
    ) -> Array:
        with precision():
            self.append(enclose([arb(0.5)] * count))
        return np.zeros(d)

    def lost(self, release: Callable[..., Any], *data: Any, euclidean: bool = True) -> arb:
        """What is lost between two data sets."""
        for one in data:
            release(one, rng=generator())
        with precision():
            apart = [x - y for x, y in zip(self[-1], self[-2], strict=True)]
            sizes = [x.abs_upper() for x in apart]
            norm = sum((x * x for x in sizes), arb(0)).sqrt() if euclidean else sum(sizes, arb(0))
            return norm * arb(self.rate)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    return Seen(monkeypatch)


def shares_of_promises(losses: list[tuple[arb, Any]]) -> list[float]:
    """What is certain: losses over promises; above 1 where a loss is not certainly at most its
    promise.
    """
    return [
        float(lost / number(told)) if lost <= number(told) else 1 + 1e-15 for lost, told in losses
    ]


def query_losses(seen: Seen) -> list[float]:
    """Between the ends of a datum of a linear query, and between data as far apart as others
    allow.
    """
    rng = generator(914)
    found = []
    for _ in range(100):
        n = int(rng.integers(1, 6))
        m = int(rng.integers(1, 3))
        scale = float(10.0 ** rng.uniform(-6, 6))
        q = rng.choice([-1, 1], n) * 10.0 ** rng.uniform(-3, 3, n)
        made = linear_query(rng.random(n) ** 3, scale, weights=q, dimension=m)
        data = rng.random((n, m)) if m > 1 else rng.random(n)
        low, high = (np.concatenate([0 * data[:1] + end, data[1:]]) for end in (0, 1))
        scaled = [q.reshape(-1, *[1] * (m > 1)) * d for d in (low, high)]
        promised = (
            m * Fraction(float(made.shares[0])) * abs(Fraction(float(q[0]))) / Fraction(scale)
        )
        lost = seen.lost(made.release, *scaled, euclidean=False)
        found += [(lost, promised), (lost, float(made.privacy_loss[0]))]
        near = rng.random((n, 2)) * 10.0 ** -rng.integers(0, 9)
        other = nonlinear_query(rng.random(n), scale, near)
        terms = rng.random(n) * (1 - near[:, 1])
        moved = np.nextafter(terms + near[:, 1], 0)
        if (moved - terms <= near[:, 1]).all():
            found.append((seen.lost(other.release, terms, moved), float(other.privacy_loss[1])))
    return shares_of_promises(found)


def mean_losses(seen: Seen) -> list[float]:
    """Between opposite ends of the ball."""
    rng = generator(915)
    found = []
    for _ in range(100):
        n = int(rng.integers(1, 6))
        d = int(rng.integers(1, 5))
        radius = float(10.0 ** rng.uniform(-6, 6))
        w = rng.dirichlet(np.ones(n))
        rate = float(10.0 ** rng.uniform(-6, 6)) / radius
        made = WeightedMean(w, rate, np.zeros(d), radius, clip=True)
        records = np.zeros((n, d))
        apart = rng.normal(size=d)
        records[0] = 3 * radius * apart / np.linalg.norm(apart)
        promised = 2 * Fraction(radius) * Fraction(float(made.weights[0])) * Fraction(rate)
        lost = seen.lost(made.release, records, -records)
        found += [(lost, promised), (lost, float(made.privacy_loss[0]))]
    return shares_of_promises(found)


def constant_above(
    penalty: float, square: Fraction, a: Fraction, total: Fraction, bound: str
) -> arb:
    """The sensitivity constant of weights that sum to `total`, at 2,000 bits."""
    R = number(square).sqrt()
    lam = arb(penalty)
    root = number(total).sqrt()
    if bound == "paper":
        size = min((root / lam.sqrt(), root * R * root / lam), key=lambda x: float(x.mid()))
        return 2 * R / lam * (number(a) + R * number(a) * size)
    s = min((lam.sqrt(), R * root), key=lambda x: float(x.mid()))
    return 2 * R / lam * number(a) * (1 + R * root * s / (s * s + lam) / 2)


def ridge_losses(seen: Seen) -> list[float]:
    """By the theorem, for the weights as they are; and of some neighbours, corners among them."""
    rng = generator(916)
    found = []
    for _ in range(40):
        n = int(rng.integers(1, 9))
        d = int(rng.integers(1, 4))
        bound = rng.choice(["paper", "sharp"])
        penalty = float(10.0 ** rng.uniform(-3, 4))
        a = float(rng.uniform(0.3, 3))
        norm = None if rng.random() < 0.5 else float(rng.uniform(0.5, 2))
        X = rng.integers(0, 2, (2, n, d)).astype(float)
        epsilon = 10.0 ** rng.uniform(-3, 2, n)
        y = a * rng.choice([-1.0, 1.0], (2, n))
        X[1, 1:], y[1, 1:] = X[0, 1:], y[0, 1:]
        options = {"features": d, "bound": bound, "feature_norm": norm, "label_bound": a}
        made = output_perturbation(epsilon, penalty, clip=True, **options)
        both = [partial(made.release, *data) for data in zip(X, y, strict=True)]
        lost = seen.lost(lambda release, rng: release(rng=rng), *both)
        w = [Fraction(x) for x in made.weights.tolist()]
        with precision():
            square = Fraction(d) if norm is None else Fraction(norm) ** 2
            c = constant_above(penalty, square, Fraction(a), max(sum(w), Fraction(1)), bound)
            proved = [c * number(x) * arb(seen.rate) for x in w]
        found += zip(proved, epsilon.tolist(), strict=True)
        found += [(lost, min(float(made.privacy_loss[0]), epsilon[0]))]
    return shares_of_promises(found)


LOSSES: dict[str, Callable[[Seen], list[float]]] = {
    "query": query_losses,
    "mean": mean_losses,
    "ridge": ridge_losses,
}


@pytest.mark.parametrize("name", LOSSES)
def test_nobody_loses_more_than_promised(name: str, seen: Seen) -> None:
    found = LOSSES[name](seen)
    assert 1 - 1e-8 < max(found) <= 1


def logistic_losses(made: Any, X: Array, y: Array, w: Array, x: Array, label: float) -> arb:
    """What the first record loses at the coefficients `w`, if it were another: of the noise that
    makes them minimal.
    """
    rate = arb(made.eta / 2 * (1 - exact.MARGIN))
    lam = arb(made.penalty)
    sizes = []
    for first, own in ((X[0], y[0]), (x, label)):
        steps = on_grid(np.vstack([first, X[1:]]), 1.0, ball=True)
        t = np.append(own, y[1:]).astype(int)
        rows = arb_mat([[arb(int(k)) / GRID for k in row] for row in steps * t[:, None]])
        margins = (rows * arb_mat([[arb(k)] for k in w.tolist()])).entries()
        chance = [1 / (1 + s.exp()) for s in margins]
        pull = arb_mat([[arb(a) * p] for a, p in zip(made.weights.tolist(), chance, strict=True)])
        noise = [
            s - lam * arb(k)
            for s, k in zip((rows.transpose() * pull).entries(), w.tolist(), strict=True)
        ]
        bent = [
            [arb(a) * p * (1 - p) * r for r in row]
            for a, p, row in zip(made.weights.tolist(), chance, rows.tolist(), strict=True)
        ]
        d = len(w)
        curvature = rows.transpose() * arb_mat(bent) + arb_mat(
            d, d, [lam * (i == j) for i in range(d) for j in range(d)]
        )
        sizes.append(curvature.det().log() - rate * sum((b * b for b in noise), arb(0)).sqrt())
    return abs(sizes[0] - sizes[1])


@pytest.mark.parametrize(("eta", "penalty"), [(6.0, 0.5), (1.0, 0.05), (300.0, 1.0)])
def test_logistic_losses_are_as_promised(eta: float, penalty: float) -> None:
    """Exactly, at what is released and at corners; and by the meter."""
    rng = generator(917)
    most = 0.0
    for d in (1, 2):
        corners = [x / np.linalg.norm(x) for x in itertools.product((-1.0, 1.0), repeat=d)]
        X = np.vstack([corners[0], rng.normal(size=(2, d))])
        X, y = check_signed_records(X, [1, -1, 1], clip=True)
        made = objective_perturbation([0.5, 0.2, 0.3], eta, penalty, features=d)
        released = made.release(X, y, rng=rng, size=5)
        drawn = np.vstack([released, 0 * corners[0], 5 * corners[0] / penalty])
        with precision():
            for w, x, label in itertools.product(drawn, [*corners, 0 * corners[0]], (-1.0, 1.0)):
                lost = logistic_losses(made, X, y, w, x, label)
                assert lost <= float(made.privacy_loss[0])
                most = max(most, float(lost))
        assert (privacy_losses(made, X, y, drawn).found <= made.privacy_loss * (1 + 1e-9)).all()
    assert most > 0.3 * made.privacy_loss[0]


def test_an_interval_far_from_zero(seen: Seen) -> None:
    """Floats there lie 2 apart, and an interval of length 3 has no end in them."""
    made = BiasedLaplace([1.0], 1.0, [[3.0]], [3.0], [1e16], clip=True)
    lost = seen.lost(made.release, [1e16], [1e16 + 4])
    assert 0 < lost <= 3 and lost <= float(made.privacy_loss[0])


# --- faults that these tests would find ---------------------------------------------------------


def shared(self: Uniforms, bits: int, enclosed: Any = Uniforms.enclosed) -> list[arb]:
    u = enclosed(self, bits)
    return [u[0]] * len(u)


def rounded_middles(enclose: Any, uniforms: Uniforms, step: float) -> list[int]:
    ctx.prec = exact.BITS[2]
    return [round(float(x.mid()) / step) for x in enclose(uniforms.enclosed(ctx.prec))]


def blind(self: Uniforms, bits: int, enclosed: Any = Uniforms.enclosed) -> list[arb]:
    return [x.mid() for x in enclosed(self, bits)]


def test_faults_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:  # a radius forgotten
        patch.setattr(Uniforms, "enclosed", blind)
        assert outside(2) > 0
    with monkeypatch.context() as patch:  # the middle of a ball rounded
        patch.setattr(exact, "BITS", FEW_BITS)
        patch.setattr(exact, "_decided", rounded_middles)
        assert wrong_cells(2) > 0
    with monkeypatch.context() as patch:  # bits that coordinates share
        patch.setattr(Uniforms, "enclosed", shared)
        assert law_objections(2, 1000) != []
    with monkeypatch.context() as patch:  # a precision that is not raised
        patch.setattr(exact, "BITS", FEW_BITS[:1])
        with pytest.raises(ArithmeticError, match="not decided"):
            wrong_cells(2)


@pytest.mark.parametrize("name", LOSSES)
def test_noise_that_is_not_a_little_larger_is_found(
    name: str, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the margin, what floats have rounded shows."""
    module = {"query": queries, "mean": exact, "ridge": exact}[name]
    monkeypatch.setattr(module, "MARGIN", -(2.0**-44))
    assert max(LOSSES[name](seen)) > 1


def test_longer_records_are_found(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weighted_mean, "on_grid", lambda *given, ball: to_the_nearest(*given) + 1)
    assert max(mean_losses(seen)) > 1


def test_weights_that_sum_above_one_are_found(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    right = ridge.OutputPerturbation
    monkeypatch.setattr(ridge, "OutputPerturbation", lambda w, *more: right(w * (1 + 1e-12), *more))
    assert max(ridge_losses(seen)) > 1


# --- totality, silence, shapes, threads ---------------------------------------------------------

EXTREME = (1e-9, 1e-3, 1.0, 1e9)


@pytest.fixture
def loud() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        yield


@pytest.mark.usefixtures("loud")
@pytest.mark.parametrize("d", [1, 2, 12, 40])
@pytest.mark.parametrize("n", [1, 3])
def test_ridge_takes_all_data_in_silence(n: int, d: int) -> None:
    for x, label, penalty in itertools.product(
        (0.0, 5e-324, 0.3, 1.0), (-1.0, 0.0, 1.0), (d * 2.0**-39, *EXTREME)
    ):
        made = output_perturbation(np.full(n, 1e-3), penalty, features=d)
        data = np.full((n, d), x), np.full(n, label)
        assert np.isfinite(made.release(*data, rng=generator(918))).all()


@pytest.mark.usefixtures("loud")
@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 3), (5, 2), (3, 12)])
def test_logistic_takes_all_data_in_silence(n: int, d: int) -> None:
    """Equal records make the curvature singular but for the penalty."""
    for x, eta, penalty in itertools.product(
        (0.0, 1e-9, 1.0), EXTREME, (1e-31, 1e-17, 1e-12, *EXTREME)
    ):
        for y in (np.ones(n), np.where(np.arange(n) % 2, 1.0, -1.0)):
            made = objective_perturbation(np.full(n, 1 / n), eta, penalty, features=d)
            X = np.full((n, d), x / math.sqrt(d))
            assert np.isfinite(made.release(X, y, rng=generator(919))).all()


@pytest.mark.usefixtures("loud")
@pytest.mark.parametrize("size", [1e-100, 1e-9, 1.0, 1e9, 1e100])
def test_sums_and_means_take_all_data_in_silence(size: float) -> None:
    for scale in (1e-100, 1e-9, 1.0, 1e9, 1e100):
        for terms in ([0.0, -size], [size, -size], [5e-324, 0.0]):
            made = linear_query([1.0, 0.3], scale, weights=[size, -size], clip=True)
            assert np.isfinite(made.release(terms, rng=generator(920)))
            mean = WeightedMean([0.5, 0.5], scale, np.zeros(2), size, clip=True)
            assert np.isfinite(mean.release([terms, terms], rng=generator(920))).all()


@pytest.mark.parametrize("size", [(), 0, 4, (2, 3), (2, 0)])
def test_shapes(size: Any) -> None:
    shape = np.zeros(size).shape
    made = [
        partial(linear_query([1.0], 1.0).release, [0.5]),
        partial(linear_query([1.0], 1.0, dimension=2).release, [[0.5, 0.5]]),
        partial(WeightedMean([1.0], 1.0, np.zeros(2), 1.0).release, np.zeros((1, 2))),
        partial(output_perturbation([1.0], 1.0, features=2).release, [[0.5, 1.0]], [0.5]),
        partial(objective_perturbation([1.0], 1.0, 1.0, features=2).release, [[0.5, 0.5]], [1.0]),
    ]
    for release, last in zip(made, ((), (2,), (2,), (2,), (2,)), strict=True):
        found = release(rng=generator(921), size=size)
        assert found.shape == (*shape, *last) and found.dtype == float
        if not shape:
            assert (found == release(rng=generator(921), size=1)[0]).all()


def test_what_is_not_decided_is_an_error_and_the_precision_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = ctx.prec
    linear_query([1.0], 1.0).release([0.5], rng=generator(922))
    assert ctx.prec == before
    monkeypatch.setattr(exact, "BITS", (8,))
    with pytest.raises(ArithmeticError, match="not decided"):
        linear_query([1.0], 1.0).release([0.5], rng=generator(922))
    assert ctx.prec == before


def test_what_is_singular_at_one_precision_is_computed_at_the_next() -> None:
    def singular(u: list[arb]) -> list[arb]:
        matrix = arb_mat([[arb(1, 2.0**-100) if ctx.prec > 100 else arb(1, 2)]])
        return matrix.solve(arb_mat([[arb(3)]])).entries()

    assert released(singular, 1, 1, 1.0, rng=generator(923)).tolist() == [3.0]


@pytest.mark.parametrize("alone", [True, False])
def test_threads_do_not_change_the_precision_of_each_other(
    alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One waits in the midst of a release for another one to begin: it does, unless they go one by
    one.
    """
    if not alone:
        monkeypatch.setattr(exact, "ALONE", nullcontext())
    inside = threading.Event()
    entered = threading.Event()
    gone = threading.Event()
    seen = list[int]()
    before = ctx.prec

    def slow(u: list[arb]) -> list[arb]:
        if not inside.is_set():
            inside.set()
            return [arb(0.5, 0.1)]  # which does not decide
        entered.wait(0.3)
        seen.append(ctx.prec)
        return [arb(1)]

    def quick(u: list[arb]) -> list[arb]:
        entered.set()
        gone.wait(5)
        return [arb(1)]

    other = threading.Thread(
        target=lambda: inside.wait() and released(quick, 1, 1, 1.0, rng=generator())
    )
    other.start()
    released(slow, 1, 1, 1.0, rng=generator())
    gone.set()
    other.join()
    kept = ctx.prec
    ctx.prec = before
    assert (seen == [exact.BITS[1]]) == (kept == before) == alone


RNG = {"rng": generator()}


def test_a_process_forked_within_a_release_can_release() -> None:
    """It would wait for ever for a lock that a thread held which it does not have."""
    inside = threading.Event()
    go_on = threading.Event()

    def slow(u: list[arb]) -> list[arb]:
        inside.set()
        go_on.wait(5)
        return [arb(1)]

    other = threading.Thread(target=lambda: released(slow, 1, 1, 1.0, rng=generator()))
    other.start()
    inside.wait(5)
    threading.Timer(0.2, go_on.set).start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forks beside threads, from Python 3.12 on
        child = os.fork()
    if not child:
        signal.alarm(5)
        again = threading.Thread(target=released, args=(lambda u: [arb(1)], 1, 1, 1.0), kwargs=RNG)
        again.start()
        again.join()
        os._exit(0)
    other.join()
    assert os.waitpid(child, 0)[1] == 0


def test_mechanisms_survive_another_process() -> None:
    made = [
        linear_query([1.0], 1.0),
        WeightedMean([1.0], 1.0, np.zeros(2), 1.0),
        output_perturbation([1.0], 1.0, features=1),
        objective_perturbation([1.0], 1.0, 1.0, features=1),
    ]
    record = [[0.5]], [1.0]
    given = [([0.5],), (np.zeros((1, 2)),), record, record]
    jobs = [
        joblib.delayed(m.release)(*data, rng=generator(923))
        for m, data in zip(made, given, strict=True)
    ]
    there = joblib.Parallel(n_jobs=2)(jobs)
    for m, data, found in zip(made, given, there, strict=True):
        assert (m.release(*data, rng=generator(923)) == found).all()


@pytest.mark.parametrize("added", [7, 2**17])
def test_moments_are_exact(added: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against Python's integers; with few rows at a time, and one limb too long for floats, which
    is seen.
    """
    monkeypatch.setattr(exact, "_ADDED", added)
    rng = generator(57)
    weights = rng.dirichlet(np.full(40, 0.1))
    ends = (-GRID, GRID + 1)
    left = rng.integers(*ends, (40, 3))
    right = rng.integers(*ends, (40, 2))
    found, unit = exact.weighted_products(weights, left, right)
    whole = [int(w // Fraction(unit)) for w in map(Fraction, weights.tolist())]
    terms = zip(whole, left.tolist(), right.tolist(), strict=True)
    expected = sum(
        np.array([[w * a * b for b in r] for a in row], dtype=object) for w, row, r in terms
    )
    assert [[int(x.unique_fmpz()) for x in row] for row in found.table()] == expected.tolist()
    assert (weights >= np.array(whole) * unit).all() and (
        weights - np.array(whole) * unit
    ).max() <= 2.0**-52
    monkeypatch.setattr(exact, "_LIMB", 26)
    wrong, _ = exact.weighted_products(weights, left, right)
    assert [[int(x.unique_fmpz()) for x in row] for row in wrong.table()] != expected.tolist()
