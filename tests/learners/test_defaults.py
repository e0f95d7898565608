"""What mechanisms release by default: on lattices of public spacing, by laws that keep promises in whole numbers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hdpm_lib.audits.black_box import audit
from hdpm_lib.learners import queries, weighted_mean
from hdpm_lib.learners.integer_answers import IntegerSum, integer_gradients
from hdpm_lib.learners.lattice import lattice_ridge
from hdpm_lib.learners.logistic import objective_perturbation
from hdpm_lib.learners.queries import BiasedLaplace, linear_query, nonlinear_query
from hdpm_lib.learners.ridge import output_perturbation
from hdpm_lib.learners.weighted_mean import WeightedMean
from hdpm_lib.noise import lattice_step
from tests.support import generator


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 0.3, 1.0, 7e12, np.inf])
@pytest.mark.parametrize("reach", [0.0, 1e-5, 1.0, 1e20])
def test_spacing_follows_from_public_sizes(scale: float, reach: float) -> None:
    step = lattice_step(scale, reach)
    assert np.log2(step) % 1 == 0 and 2.0**-500 <= step <= 2.0**500
    if step < 2.0**500:
        assert step <= max(2.0**-30 * scale, 2.0**-43 * reach, 2.0**-500) and step >= 2.0**-44 * reach


# --- the promise, in whole numbers ------------------------------------------------------------------------------------


class Seen(list[Any]):
    """What a release adds up: steps of the answer, and the noise's scale or rate."""

    def noise(self, *law: Any, rng: Any, size: Any) -> int:
        self.law = law[-1]
        return 0

    def cut(self, steps: Any) -> Any:
        self.append(np.atleast_1d(steps).astype(object))
        return steps


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    found = Seen()
    monkeypatch.setattr(queries, "discrete_laplace", found.noise)
    monkeypatch.setattr(queries, "cut", found.cut)
    monkeypatch.setattr(weighted_mean, "lattice_laplace", found.noise)
    monkeypatch.setattr(weighted_mean, "cut", found.cut)
    return found


def sum_excess(made: BiasedLaplace, low: np.ndarray, high: np.ndarray, who: int, seen: Seen) -> Fraction:
    """By how much the loss of an individual between two data sets exceeds what she was promised, exactly."""
    for terms in (low, high):
        made.release(terms, rng=generator())
    apart = sum(abs(int(k)) for k in seen[-1] - seen[-2])
    promised = sum(Fraction(a) * Fraction(s) for a, s in zip(made.shares, made.sensitivity[:, who], strict=True))
    return Fraction(apart) / seen.law - made.dimension * promised / Fraction(made.scale)


def excesses(seen: Seen) -> list[Fraction]:
    """Of linear queries between the ends of a datum, and of others between data as far apart as allowed."""
    rng, found = generator(401), []
    for k in range(200):
        n, m, scale = int(rng.integers(1, 6)), int(rng.integers(1, 3)), float(10.0 ** rng.uniform(-6, 6))
        q = rng.choice([-1, 1], n) * 10.0 ** rng.uniform(-3, 3, n)
        made = linear_query(rng.random(n) ** 3, scale, weights=q, dimension=m)
        data = rng.random((n, m))
        data[0] = 0
        ends = np.where(np.arange(n)[:, None] == 0, 1.0, data)
        low, high = ((q[:, None] * d)[:, : m if m > 1 else 1] for d in (data, ends))
        found.append(sum_excess(made, *((t if m > 1 else t[:, 0]) for t in (low, high)), 0, seen))
        near = rng.random((n, 2)) * 10.0 ** -rng.integers(0, 9)
        other = nonlinear_query(rng.random(n), scale, near)
        terms = rng.random(n) * (1 - near[:, 1])
        found.append(sum_excess(other, terms, terms + near[:, 1] * (rng.random(n) < 0.9), 1, seen))
        assert k or found[0] > Fraction(-1, 2**30)  # the ends attain it
    return found


def test_sums_keep_their_promise_in_whole_numbers(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    assert max(excesses(seen)) <= 0
    with monkeypatch.context() as patch:
        patch.setattr(queries, "Fraction", lambda scale: Fraction(scale) * (1 - Fraction(1, 2**20)))
        assert max(excesses(seen)) > 0
    monkeypatch.setattr(  # as if nobody's cut terms could be further apart than the terms
        BiasedLaplace, "_lattice", lambda self: (s := lattice_step(self.scale, 1.0), Fraction(self.scale / s))
    )
    assert max(excesses(seen)) > 0


def mean_excesses(seen: Seen) -> list[Fraction]:
    """Squares: of what means lose between opposite ends of the ball over what was promised, less 1."""
    rng, found = generator(402), []
    for _ in range(200):
        n, d, radius = int(rng.integers(1, 6)), int(rng.integers(1, 5)), float(10.0 ** rng.uniform(-6, 6))
        w, centre = rng.dirichlet(np.ones(n)), rng.normal(size=d)
        made = WeightedMean(w, float(10.0 ** rng.uniform(-6, 6)) / radius, centre, radius, clip=True)
        apart = rng.normal(size=d)
        records = np.tile(centre, (n, 1))
        records[0] += radius * apart / np.linalg.norm(apart)
        for sign in (1, -1):
            made.release(centre + sign * (records - centre), rng=generator())
        squares = sum(int(k) ** 2 for k in (seen[-1] - seen[-2]).ravel())
        promised = 2 * Fraction(radius) * Fraction(float(made.weights[0])) * Fraction(made.rate)
        found.append(squares * seen.law**2 / promised**2 - 1)
    return found


def test_means_keep_their_promise_in_whole_numbers(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    assert -Fraction(1, 100) < max(mean_excesses(seen)) <= 0
    monkeypatch.setattr(weighted_mean, "Fraction", lambda rate: Fraction(rate) * (1 + Fraction(1, 2**20)))
    assert max(mean_excesses(seen)) > 0


# --- what an audit of black boxes sees --------------------------------------------------------------------------------

X, LABELS = np.array([[1.0], [0.5], [0.5]]), np.array([1.0, -1.0, 1.0])
TURNED, LOSSES = np.array([-1.0, -1.0, 1.0]), np.array([1.0, 1.0, 1.0])
Release = Callable[..., Any]


def mechanisms(**kind: Any) -> dict[str, tuple[Release, Any, Any]]:
    """Mechanisms that promise a loss of 1, and two data sets that differ in what the first individual has."""

    def logistic(y: Any, rng: Any, size: Any = ()) -> Any:
        return objective_perturbation(X, y, np.full(3, 1 / 3), 3.0, 2 / 3, **kind).release(rng=rng, size=size)

    def ridge(y: Any, rng: Any, size: Any = ()) -> Any:
        return output_perturbation(X, y, LOSSES, 0.5, **kind).release(rng=rng, size=size)

    mean = WeightedMean(np.full(2, 0.5), 2.0, np.full(1, 0.5), 0.5, **kind)
    return {
        "linear": (linear_query([1.0, 0.5], 1.0, **kind).release, np.array([0.0, 0.3]), np.array([1.0, 0.3])),
        "not linear": (nonlinear_query([1.0], 1.0, [[1.0]], **kind).release, np.zeros(1), np.ones(1)),
        "mean": (mean.release, np.array([[0.0], [0.3]]), np.array([[1.0], [0.3]])),
        "ridge": (ridge, LABELS, TURNED),
        "logistic": (logistic, LABELS, TURNED),
    }


WHOLE: dict[str, tuple[Release, Any, Any]] = {
    "whole sum": (IntegerSum(np.array([4, 1]), 4, Fraction(16)).release, np.array([0.0, 0.3]), np.array([1.0, 0.3])),
    "whole ridge": (
        lambda y, rng, size=(): lattice_ridge(X, y, LOSSES, 0.5).release(rng=rng, size=size), LABELS, TURNED,
    ),
    "gradients": (
        lambda g, rng, size: integer_gradients(np.tile(g, (size, 1, 1)), np.ones(size), 1.0, spacing=2.0**-20, rng=rng),
        np.array([[[1.0]]]), np.array([[[-1.0]]]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*mechanisms(), *WHOLE])
def test_audit_finds_nothing_on_what_is_released_by_default(name: str) -> None:
    mechanism, data, neighbour = (mechanisms() | WHOLE)[name]
    runs = 5000 if name == "gradients" else 60_000  # of which each has a scale of its own
    found = audit(mechanism, data, neighbour, 1.0, seed=1, runs=runs, time_limit=None)
    assert found.passed, str(found)


@pytest.mark.parametrize("name", ["linear", "not linear", "mean", "ridge"])
def test_audit_objects_to_ideal_arithmetic(name: str) -> None:
    """The last digits of floats tell the data: what the defaults are spared."""
    mechanism, data, neighbour = mechanisms(arithmetic="ideal")[name]
    assert audit(mechanism, data, neighbour, 1.0, seed=1, runs=60_000, time_limit=None).found
