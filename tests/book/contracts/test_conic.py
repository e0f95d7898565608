"""The conic oracle against worked examples, closed forms and grids; and what it does with bad
input.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import clarabel
import numpy as np
import pytest

from hdpm_book.contracts import study
from hdpm_book.contracts.study import conic_power
from tests.support import generator, refusals


def grid(
    power: float, v: np.ndarray, K: float, delta: np.ndarray, w: np.ndarray, points: int = 41
) -> float:
    """Least cost over a grid of shares, each with all the noise the accuracy admits."""
    shares = np.array(list(itertools.product(np.linspace(0, 1, points), repeat=len(w))))
    spare = K - ((1 - shares) @ w / 2) ** 2
    shares = shares[spare > 0]
    spare = spare[spare > 0]
    return float((v * (shares @ delta / np.sqrt(spare / 2)[:, None]) ** power).sum(1).min())


def market(
    n: int, q: int | None, rng: np.random.Generator
) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
    """Valuations, some far apart, an error, and a linear query, or one of `q` terms that share
    individuals.
    """
    ranges = rng.uniform(0.3, 3, q or n)
    delta = np.diag(ranges) if q is None else rng.random((q, n)) * (rng.random((q, n)) < 0.7)
    v = np.exp(rng.choice([0.5, 3.0]) * rng.standard_normal(n))
    return v, rng.uniform(0.05, 0.95) * ranges.sum() ** 2 / 4, delta, ranges


def test_data_that_cost_nothing() -> None:
    found = conic_power([0, 1, 0], 0.3, power=2)
    assert found.shares.tolist() == [1, 0, 1] and found.cost == 0
    assert found.scale == pytest.approx(math.sqrt(0.025))
    for free in (
        conic_power([0, 0], 0.3, power=3),
        conic_power([0, 1], 0.3, power=3, sensitivity=[[1, 0], [2, 0]]),
    ):
        assert (
            free.shares.tolist() == [1, 1]
            and free.cost == 0
            and free.scale == pytest.approx(math.sqrt(0.15))
        )
    limit = conic_power([0, 1], 0.25, power=1)
    assert limit.shares.tolist() == [1, 0] and limit.privacy_loss.tolist() == [np.inf, 0]
    assert limit.cost == limit.scale == 0


@pytest.mark.parametrize("K", [1.0, 1.5])
def test_no_data_needed(K: float) -> None:
    found = conic_power([1.0, 2.0], K, power=1)
    assert not found.shares.any() and not found.privacy_loss.any() and found.cost == 0
    assert found.scale == math.sqrt((K - 1) / 2)


@pytest.mark.parametrize("power", [1, 1.5, 2, 3])
@pytest.mark.parametrize("q", [None, 2, 3])
def test_no_grid_point_is_better(q: int | None, power: float) -> None:
    rng = generator(82)
    for n in (1, 2, 3, 3):
        v, K, delta, w = market(n, q, rng)
        found = conic_power(v, K, power=power, sensitivity=delta, ranges=w)
        assert ((found.shares >= 0) & (found.shares <= 1)).all()
        assert (w @ (1 - found.shares) / 2) ** 2 + 2 * found.scale**2 == pytest.approx(K, rel=1e-12)
        np.testing.assert_allclose(
            found.privacy_loss, found.shares @ delta / found.scale, rtol=1e-12
        )
        assert found.cost == pytest.approx((v * found.privacy_loss**power).sum(), rel=1e-12)
        best = grid(power, v, K, delta, w)
        assert found.cost <= best * (1 + 1e-6) and best < 1.2 * found.cost + 0.1 * v.max()


def given(**change: Any) -> Callable[[], Any]:
    good: dict[str, Any] = {"valuations": [1, 2], "max_mse": 0.1, "power": 2}
    return lambda: conic_power(**good | change)


test_bad_arguments = refusals(
    (given(valuations=[1, -2]), "valuations must be finite and not negative, got -2"),
    (given(valuations=[[1, 2]]), "valuations must have 1 dimension"),
    (given(max_mse=0), "max_mse must be positive and finite, got 0"),
    (given(power=0.5), "power must be finite and at least 1 .*, got 0.5"),
    (given(ranges=[1, 0]), "ranges must be positive and finite, got 0"),
    (given(ranges=[1, 2, 3]), "ranges must be 2 positive numbers"),
    (given(sensitivity=[[1, 2, 3]]), "sensitivity must have 2 columns"),
    (given(sensitivity=[[1, -2]]), "sensitivity must be finite and not negative, got -2"),
    (given(sensitivity=[[1, 2]], ranges=[1, 2]), "ranges must be 1 positive numbers"),
)


def test_giving_up(monkeypatch: Any) -> None:
    default = clarabel.DefaultSettings()
    default.max_iter = 1
    monkeypatch.setattr(clarabel, "DefaultSettings", lambda: default)
    with pytest.raises(RuntimeError, match="stopped with status MaxIterations"):
        conic_power([1.0, 10.0], 0.3, power=2)
    monkeypatch.setattr(study, "_least_power_cost", lambda *_, **__: np.array([0.0, 0.0, 1.0]))
    with pytest.raises(RuntimeError, match=r"shares \[0\. 0\.\] leave no noise at max_mse = 0.3"):
        conic_power([1.0, 10.0], 0.3, power=2)
