"""Penalties from public facts."""

from __future__ import annotations

import numpy as np

from hdpm_book.ridge import study
from hdpm_lib.schema import Category, Number, Schema

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
