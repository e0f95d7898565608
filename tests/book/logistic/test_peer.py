"""The conic search for the optimal procurement; `logistic/market.md` holds it against the exact solver."""

from __future__ import annotations

import clarabel
import numpy as np
import pytest

from hdpm_book.logistic.peer import conic_search

CLUSTER = np.append(0.001, np.ones(200))  # one cheap seller and a crowd: two local minima at (1, 1, 0.01)


def test_several_minima_are_seen() -> None:
    found = conic_search(CLUSTER, 1.0, 1.0, 0.01)
    np.testing.assert_allclose(found.minima, [0.269683, 1.00632], rtol=1e-5)
    assert found.error == found.minima[0]
    other = conic_search(CLUSTER, 1.0, 1.0, 1e-6)  # cheap privacy: the crowd is bought still
    assert other.weights.max() < 0.01


def test_free_privacy() -> None:
    with pytest.raises(ValueError, match="virtual_costs must be positive and finite, got 0"):
        conic_search([0.0, 1.0], 1.0, 1.0, 0.1)


def test_solver_that_gives_up_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = clarabel.DefaultSettings()
    settings.max_iter = 1
    monkeypatch.setattr(clarabel, "DefaultSettings", lambda: settings)
    with pytest.raises(RuntimeError, match=r"stopped with status MaxIterations at gamma \* eta"):
        conic_search([0.2, 1.2], 1.0, 1.0, 0.1)
