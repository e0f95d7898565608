"""What an audit of black boxes sees of the mechanisms as they are by default; `test_exact` has
their promises.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hdpm_lib import private, validation
from hdpm_lib.audits.black_box import audit
from hdpm_lib.learners.integer_answers import integer_gradients
from hdpm_lib.learners.objective import objective_perturbation
from hdpm_lib.learners.queries import linear_query, nonlinear_query
from hdpm_lib.learners.ridge import output_perturbation
from hdpm_lib.learners.second_moments import second_moments
from hdpm_lib.learners.weighted_mean import WeightedMean, weighted_mean
from hdpm_lib.noise import grid_step, spherical_laplace
from tests.support import refusals

LOOKS_AT = []


@pytest.mark.parametrize("scale", [1e-250, 1e-9, 0.3, 1.0, 7e12, 1e250])
@pytest.mark.parametrize("reach", [0.0, 1e-5, 1.0, 1e20])
def test_steps_follow_from_public_sizes(scale: float, reach: float) -> None:
    step = grid_step(scale, reach)
    assert np.log2(step) % 1 == 0
    assert step <= max(2.0**-30 * scale, 2.0**-43 * reach) and step >= 2.0**-44 * reach


test_what_floats_cannot_tell_is_refused_before_any_data = refusals(
    (lambda: grid_step(np.inf, 1.0), "noise of size inf .* other units"),
    (lambda: grid_step(1e-300, 0.0), "noise of size 1e-300 .* other units"),
    (lambda: linear_query([1.0], 1e300), "scale must .* other units, got 1e[+]300"),
    (lambda: WeightedMean([1.0], 1e-300, [0.0], 1.0), "other units"),
    (lambda: objective_perturbation([1.0], 1e-300, 1.0, features=1), "other units"),
    (lambda: output_perturbation([1e-300], 1.0, features=1), "other units"),
)


X = np.array([[1.0], [0.5], [0.5]])
LABELS = np.array([1.0, -1.0, 1.0])
TURNED = np.array([-1.0, -1.0, 1.0])
LOSSES = np.array([1.0, 1.0, 1.0])
Release = Callable[..., Any]


def mechanisms(**kind: Any) -> dict[str, tuple[Release, Any, Any]]:
    """Mechanisms that promise a loss of 1, and two data sets that differ in what the first
    individual has.
    """

    logistic = objective_perturbation(np.full(3, 1 / 3), 3.0, 2 / 3, features=1, **kind)
    ridge = output_perturbation(LOSSES, 0.5, features=1, **kind)
    mean = WeightedMean(np.full(2, 0.5), 2.0, np.full(1, 0.5), 0.5, **kind)
    return {
        "linear": (
            linear_query([1.0, 0.5], 1.0, **kind).release,
            np.array([0.0, 0.3]),
            np.array([1.0, 0.3]),
        ),
        "not linear": (
            nonlinear_query([1.0], 1.0, [[1.0]], **kind).release,
            np.zeros(1),
            np.ones(1),
        ),
        "mean": (mean.release, np.array([[0.0], [0.3]]), np.array([[1.0], [0.3]])),
        "ridge": (ridge.release, (X, LABELS), (X, TURNED)),
        "logistic": (logistic.release, (X, LABELS), (X, TURNED)),
    }


def sent(gradient: Any, rng: Any, size: int) -> Any:
    return integer_gradients(
        np.tile(gradient, (size, 1, 1)), np.ones(size), 1.0, spacing=2.0**-20, rng=rng
    )


# --- arguments are looked at once ---------------------------------------------------------------

FIVE = np.ones(5)
TABLE = np.full((5, 2), 0.5)
RNG = np.random.default_rng(0)
# a call, and how many checks it may ask for: one for each argument, and what it makes of them
ONCE: dict[str, tuple[Callable[[], Any], int]] = {
    "ridge": (
        lambda: output_perturbation(FIVE, 1.0, features=2).release(TABLE, FIVE, rng=RNG),
        14,
    ),
    "linear": (lambda: linear_query(FIVE, 1.0).release(TABLE[:, 0], rng=RNG), 15),
    "mean": (lambda: WeightedMean(FIVE / 5, 1.0, [0, 0], 1.0).release(TABLE, rng=RNG), 11),
    "noise": (lambda: spherical_laplace(2, 1.0, rng=RNG), 4),
    "gradients": (lambda: sent(np.ones((1, 1)), RNG, 5), 6),
}


def checks(call: Callable[[], Any]) -> list[str]:
    """Which checks are asked for, by functions that are none themselves."""
    files = {module.__file__ for module in (validation, private)}
    asked: list[str] = []

    def spy(frame: Any, event: str, _: Any) -> None:
        outside = frame.f_back is None or frame.f_back.f_code.co_filename not in files
        if event == "call" and frame.f_code.co_filename in files and outside:
            asked.append(frame.f_code.co_name)

    sys.setprofile(spy)
    try:
        call()
    finally:
        sys.setprofile(None)
    return asked


@pytest.mark.parametrize("name", ONCE)
def test_arguments_are_checked_once(name: str) -> None:
    call, most = ONCE[name]
    found = checks(call)
    assert 0 < len(found) <= most, found


WHOLE: dict[str, tuple[Release, Any, Any]] = {
    "gradients": (sent, np.array([[[1.0]]]), np.array([[[-1.0]]]))
}
SLOW = {"gradients": 5000, "logistic": 3000}  # of the others, 30,000 releases


@pytest.mark.parametrize("name", [*mechanisms(), *WHOLE])
def test_audit_finds_nothing_on_what_is_released_by_default(name: str) -> None:
    mechanism, data, neighbour = (mechanisms() | WHOLE)[name]
    found = audit(
        mechanism, data, neighbour, 1.0, seed=1, runs=SLOW.get(name, 30_000), time_limit=None
    )
    assert found.passed, str(found)


@pytest.mark.parametrize("name", ["linear", "not linear", "mean", "ridge"])
def test_audit_objects_to_ideal_arithmetic(name: str) -> None:
    """The last digits of floats tell the data: what the defaults are spared."""
    mechanism, data, neighbour = mechanisms(arithmetic="ideal")[name]
    assert audit(mechanism, data, neighbour, 1.0, seed=1, runs=60_000, time_limit=None).found


# --- at the ends of the range of public numbers -------------------------------------------------

SIZES = (1e-100, 1e-40, 1.0, 1e40, 1e100)


def made_at(name: str, loss: float, *sizes: float) -> Any:
    """A mechanism for two records of unequal losses."""
    epsilon = loss * np.array([1.0, 3.0]) / 4
    if name == "mean":
        return weighted_mean(epsilon, [0.0], sizes[0])
    bounds = {"feature_norm": sizes[0], "label_bound": sizes[1]}
    if name == "moments":
        return second_moments(epsilon, features=1, **bounds)
    return output_perturbation(epsilon, sizes[2], features=1, **bounds)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("name", "count"), [("mean", 1), ("moments", 2), ("ridge", 3)])
def test_what_is_made_keeps_its_promise(name: str, count: int) -> None:
    """All of what public numbers decide is decided before data: no overflow, and no weight of 0."""
    made = 0
    for loss, *sizes in itertools.product(SIZES, repeat=1 + count):
        try:
            mechanism = made_at(name, loss, *sizes)
        except ValueError as error:
            assert "must" in str(error)
            continue
        made += 1
        np.testing.assert_allclose(mechanism.privacy_loss, loss * np.array([0.25, 0.75]), rtol=1e-9)
        assert 0 < 1 / mechanism.noise_rate < np.inf and mechanism.step > 0
        size = sizes[0]
        data = ([[size], [-size]],) if name == "mean" else ([[size], [-size]], [0.0, sizes[1]])
        assert np.isfinite(mechanism.release(*data, rng=RNG)).all()
    assert made > len(SIZES)
