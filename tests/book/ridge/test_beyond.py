"""Penalties from public facts, and the noise of gradient descent."""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import Any

import numpy as np

from hdpm_book.ridge import study
from hdpm_lib.schema import Category, Number, Schema
from tests.book.dataflow import statements

SMALL = Schema(
    [Number("age", 18, 64), Category("sex", ("f", "m")), Category("region", ("n", "s", "w"))],
    intercept=True,
)


def test_public_losses_trade_noise_against_the_pull_of_the_penalty() -> None:
    penalties = (0.05, 0.2, 0.8, 3.0)
    exact, usual, coarse = (
        study.public_losses(SMALL, 0.5, np.full(300, eps), penalties, worlds=8)
        for eps in (1e4, 1.0, 0.2)
    )
    assert (np.diff(exact) > 0).all() and [usual.argmin(), coarse.argmin()] == [1, 2]
    assert (usual > exact).all() and (coarse > usual).all()
    other = study.public_losses(SMALL, 5.0, np.full(300, 1.0), penalties, worlds=8)
    np.testing.assert_allclose(other, 100 * usual, rtol=1e-6)  # other units, no other penalty


def test_rows_of_a_world_are_inside_the_schema() -> None:
    rows = study._uniform_rows(SMALL, 2000, np.random.default_rng(3))
    assert SMALL.transform(rows).shape == (2000, 6)  # refused otherwise
    assert rows["age"].between(18, 20).any() and set(rows["region"]) == {"n", "s", "w"}


def test_noise_of_a_step_hides_any_record() -> None:
    """A step's noise, over what a record is promised for it, is no less than what the worst record
    moves the gradient by, and no more than twice.
    """
    (made,) = (s for s in statements("ridge/beyond") if getattr(s, "name", "") == "descent")
    noises: list[np.ndarray] = []
    reached: list[np.ndarray] = []

    def cut(theta: np.ndarray, radius: float) -> np.ndarray:
        reached.append(theta)
        return theta

    space: dict[str, Any] = {
        "np": np,
        "estimate_norm_bound": lambda *_: 1.0,
        "project_on_ball": cut,
        "spherical_laplace": lambda *_, **__: noises.pop(0),
    }
    exec(compile(ast.Module([made], []), "ridge/beyond", "exec"), space)
    rng, a, penalty, eps = np.random.default_rng(5), 0.5, 0.7, np.array([0.4, 1.0, 0.6])
    R = np.sqrt(2)
    c = SimpleNamespace(
        X=rng.uniform(-1, 1, (3, 2)),
        y=rng.uniform(-a, a, 3),
        bounds={"feature_norm": R, "label_bound": a},
        unit=1.0,
        test=lambda theta: theta,
    )
    ends, first = [], rng.standard_normal((1, 2))
    for second in (np.zeros((1, 2)), np.array([[1.0, 0.0]])):
        noises[:] = [first, second]
        space["descent"](c, eps, penalty, None, 1, 2, 1.5)
        ends.append(reached[-1][0])
    theta = reached[-2][0]  # where the second step began
    scale = np.linalg.norm(ends[1] - ends[0]) * 2 * (R**2 + penalty) / 1.5

    def gradient(x: np.ndarray, y: float, i: int) -> np.ndarray:
        return 2 * eps[i] / eps.sum() * (x @ theta - y) * x

    worst = 0.0
    for angle, other in rng.uniform(0, 2 * np.pi, (20_000, 2)):
        x, z = (R * np.array([np.cos(t), np.sin(t)]) for t in (angle, other))
        moved = max(
            np.linalg.norm(gradient(x, s * a, 0) - gradient(z, t * a, 0))
            for s in (-1, 1)
            for t in (-1, 1)
        )
        worst = max(worst, moved / (scale * eps[0] / 2))  # two steps share what is accepted
    assert 0.5 < worst <= 1 + 1e-9
