"""The conic search for the optimal procurement; `logistic/market.md` holds it against the exact
solver.
"""

from __future__ import annotations

import numpy as np
import pytest

from hdpm_book.logistic.peer import conic_search

# one cheap seller and a crowd: two local minima at (1, 1, 0.01)
CLUSTER = np.append(0.001, np.ones(200))


def test_several_minima_are_seen() -> None:
    found = conic_search(CLUSTER, 1.0, 1.0, 0.01)
    np.testing.assert_allclose(found.minima, [0.269683, 1.00632], rtol=1e-5)
    assert found.error == found.minima[0]


def test_free_privacy() -> None:
    with pytest.raises(ValueError, match="virtual_costs must be positive and finite, got 0"):
        conic_search([0.0, 1.0], 1.0, 1.0, 0.1)
