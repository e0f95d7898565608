"""Noise is not cut: draws of a hundred scales, which nobody sees by chance, come out as they are.

A generator is rigged so that each uniform number begins with zeros, or each variable is a hundred
times its scale. What is released of records that are 0 is then the noise, and the size of that is
known. Noise that is cut at some scales has the right law to every test that draws it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hdpm_lib import discrete, exact, noise
from hdpm_lib.aggregation import least_error_weights
from hdpm_lib.discrete import discrete_laplace
from hdpm_lib.exact import Uniforms, spherical
from hdpm_lib.learners import fedsgd as federated
from hdpm_lib.learners import queries, ridge
from hdpm_lib.learners.fedsgd import fedsgd
from hdpm_lib.learners.integer_answers import integer_gradients
from hdpm_lib.learners.objective import objective_perturbation
from hdpm_lib.learners.queries import linear_query
from hdpm_lib.learners.ridge import output_perturbation
from hdpm_lib.learners.second_moments import second_moments
from hdpm_lib.learners.weighted_mean import WeightedMean
from hdpm_lib.noise import spherical_laplace
from tests.support import generator

Array = np.ndarray
FAR = 100.0  # scales of what floats draw
ZEROS = 8  # bytes of a uniform number that are 0
LEAST = 8 * ZEROS * math.log(2)  # minus its logarithm, or a little more
SIZE = 12  # bytes of a uniform number at first
MOST = 30.0  # scales of noise that a mechanism may be far from its draw, by rounding


class Rigged(np.random.Generator):
    """Whatever it is asked for is far out."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(1))

    def bytes(self, length: int) -> bytes:  # type: ignore[override]
        drawn = bytearray(super().bytes(length))
        for start in range(0, length, SIZE):
            drawn[start : start + ZEROS] = bytes(ZEROS)
        return bytes(drawn)

    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
        return np.broadcast_to(FAR * shape * np.asarray(scale), size or ()) * 1.0

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return np.broadcast_to(FAR * np.asarray(scale), size or ()) * 1.0

    def standard_exponential(self, size: Any = None, *_: Any, **__: Any) -> Any:
        drawn = np.zeros(size)
        drawn[0] = FAR  # less the second half of them
        return drawn


D = 3
X = np.zeros((4, D))
Y = np.zeros(4)
LOSSES = np.array([1.0, 2.0, 3.0, 4.0])


def in_scales(arithmetic: Any) -> dict[str, Callable[[], float]]:
    """How long the noise of each mechanism is, in units of one over its rate."""
    kind: dict[str, Any] = {"arithmetic": arithmetic}
    model = output_perturbation(LOSSES, 1.0, features=D, **kind)
    moments = second_moments(LOSSES, features=D, **kind)
    mean = WeightedMean(LOSSES / 10, 5.0, np.zeros(D), 1.0, **kind)
    query = linear_query([1.0, 0.5], 0.25, **kind)
    logistic = objective_perturbation(LOSSES / 10, 1.0, 4.0, features=D, **kind)

    def of_moments() -> float:
        found = moments.release_moments(X, Y, rng=Rigged())
        squares = found.matrix[np.triu_indices(D)]
        off = 1 - np.eye(D)[np.triu_indices(D)]
        length = np.linalg.norm([*squares * np.sqrt(1 + off), *found.cross / found.unit])
        return float(length * moments.noise_rate)

    def of_objective() -> float:  # beside such noise four records hardly count
        moved = np.linalg.norm(logistic.release(X, [1, -1, 1, -1], rng=Rigged()))
        return float(moved * logistic.penalty * logistic.eta / 2)

    def norm(released: Array) -> float:
        return float(np.linalg.norm(released))

    return {
        "ridge": lambda: norm(model.release(X, Y, rng=Rigged())) * model.noise_rate,
        "moments": of_moments,
        "mean": lambda: norm(mean.release(X, rng=Rigged())) * mean.noise_rate,
        "objective": of_objective,
        "query": lambda: abs(float(query.release([0.5, 0.5], rng=Rigged())) - 1.0) / query.scale,
    }


DIMENSION = {"ridge": D, "moments": D * (D + 3) // 2, "mean": D, "objective": D, "query": 1}


def cut(name: str, arithmetic: str) -> bool:
    """Whether the noise of a mechanism is shorter than what was drawn."""
    length = in_scales(arithmetic)[name]()
    drawn = (LEAST if arithmetic == "exact" else FAR) * DIMENSION[name]
    return not drawn * (1 - 1e-6) <= length <= drawn + MOST * DIMENSION[name]


@pytest.mark.parametrize("arithmetic", ["exact", "ideal"])
@pytest.mark.parametrize("name", DIMENSION)
def test_what_is_far_out_is_released(name: str, arithmetic: str) -> None:
    assert not cut(name, arithmetic)


def test_vectors_of_noise_are_as_long_as_they_are_drawn() -> None:
    for d in (1, 2, 12):
        drawn = spherical_laplace(d, 2.0, rng=Rigged(), size=3)
        np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), FAR * d / 2)


# --- whole numbers ------------------------------------------------------------------------------


STEPS = 40  # how often coins of probability 1/e fall on the same side in a row


@pytest.fixture
def lucky(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws of whole numbers lie so many scales out: the coins of their magnitudes are rigged."""
    fair = discrete._coins
    tossed = itertools.cycle([True] * STEPS + [False])

    def coins(index: Any, below: Any, rng: Any) -> Any:
        if "_magnitudes" in below.__qualname__:
            return np.full(len(index), next(tossed))
        return fair(index, below, rng)

    monkeypatch.setattr(discrete, "_coins", coins)


@pytest.mark.usefixtures("lucky")
def test_whole_numbers_are_not_cut() -> None:
    for scale in (Fraction(3, 7), Fraction(9), Fraction(10**9)):
        drawn = discrete_laplace(scale, rng=generator(611), size=50)
        assert (np.abs(drawn) >= math.floor(STEPS * scale)).all()


@pytest.mark.usefixtures("lucky")
def test_gradients_have_the_noise_that_is_drawn() -> None:
    sent = integer_gradients(
        np.zeros((2, 1, 3)), [1.0, 2.0], 1.0, spacing=2.0**-20, rng=generator(1)
    )
    assert (np.abs(sent) >= STEPS * np.array([2.0, 1.0])[:, None, None] * (1 - 1e-5)).all()


def trained(arithmetic: Any, rng: np.random.Generator) -> Array:
    """The first step of a model, of gradients that are 0 but for noise of the scale 1."""
    x = np.ones((2, 1))
    asked = np.zeros((1, 1, 1), int)
    rows = [[np.zeros(0, int)]]
    start = np.zeros((2, 1))
    rule = {"all": least_error_weights}
    given = (x, [0, 1], rows, [[2.0]], asked, rule, start)
    made = fedsgd(*given, rng=rng, learning_rate=1.0, arithmetic=arithmetic)
    return made.parameters("all")[-1]


@pytest.mark.usefixtures("lucky")
def test_training_has_the_noise_that_is_drawn() -> None:
    assert (np.abs(trained("exact", generator(612))) >= STEPS * (1 - 1e-5)).all()
    np.testing.assert_allclose(np.abs(trained("ideal", Rigged())), FAR)


# --- cut noise is seen --------------------------------------------------------------------------


def shorter(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Noise of :func:`spherical`, cut at 16 scales in each coordinate."""

    def cut_at_16(uniforms: Any, dimension: int, rate: float) -> list[Any]:
        limit = 16 / rate
        return [min(max(z, -limit), limit) for z in draw(uniforms, dimension, rate)]

    return cut_at_16


def spoil_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (exact, queries):
        monkeypatch.setattr(module, "spherical", shorter(spherical))


def spoil_ideal(monkeypatch: pytest.MonkeyPatch) -> None:
    fair = noise.spherical_laplace

    def cut_at_16(dimension: int, rate: Any, **how: Any) -> Array:
        limit = 16 / np.asarray(rate)
        return np.clip(fair(dimension, rate, **how), -limit, limit)

    monkeypatch.setattr(ridge, "spherical_laplace", cut_at_16)


@pytest.fixture(params=["exact", "ideal"])
def spoilt(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    {"exact": spoil_exact, "ideal": spoil_ideal}[request.param](monkeypatch)
    yield request.param


def test_noise_that_is_cut_at_16_scales_is_seen(spoilt: str) -> None:
    assert cut("ridge", spoilt)
    assert spoilt == "ideal" or cut("query", spoilt)


@pytest.mark.usefixtures("lucky")
def test_whole_numbers_that_are_cut_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    fair = federated.gradient_noise

    def cut_at_16(scales: Any, *more: Any) -> Any:
        t, s = scales[:, 0]
        return fair(scales, *more).clip(-16 * t // s, 16 * t // s)

    monkeypatch.setattr(federated, "gradient_noise", cut_at_16)
    assert (np.abs(trained("exact", generator(612))) < STEPS / 2).all()


def test_a_rigged_generator_is_far_out() -> None:
    drawn = Uniforms(3, Rigged()).enclosed(96)
    assert all(0 < float(u.mid()) < 2.0 ** (-8 * ZEROS) for u in drawn)
