"""The live market of federated/learning, with few made-up records in place of NSL-KDD."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hdpm_book.notebook import Impossible
from hdpm_book.records import page_functions

LOOKS_AT = ["book/federated/learning.md"]


@pytest.fixture
def page() -> dict[str, Any]:
    """The names that the cell of the market reads, and its functions."""
    rng = np.random.default_rng(5)
    space = page_functions(
        "federated/learning",
        "clip_norm",
        "budget_of",
        "trade",
        "sigma",
        "concentration",
        "people",
        "bids_of",
    )
    y = np.repeat(np.arange(2), 500)
    X = np.stack([y + rng.normal(scale=0.1, size=1000), np.ones(1000)], 1).astype(np.float32)
    space |= {"X": X, "y": y, "X_test": X, "y_test": y, "parameters": 4, "zero": np.zeros((2, 2))}
    space["laws"] = ("IID", "Non-IID")
    return space


def test_a_round_without_a_sale_makes_no_step(page: dict[str, Any]) -> None:
    """One owner a round and next to no money: this was an error on an empty array."""
    right, empty = page["trade"](50, 1, 12, factor=1e-3, step=1.0, seed=1)
    assert 0 < empty <= 12
    assert right.shape == (3,)  # rounds 2, 7 and 12
    assert np.isfinite(right).all()


def test_rich_rounds_are_never_empty_and_learn(page: dict[str, Any]) -> None:
    for law in page["laws"]:
        right, empty = page["trade"](50, 25, 30, factor=20.0, step=1.0, law=law)
        assert empty == 0 and right[-1] > 0.8


def test_only_the_two_laws(page: dict[str, Any]) -> None:
    """Another name ran as Non-IID without a word."""
    with pytest.raises(Impossible, match="law must be one of"):
        page["trade"](50, 10, 3, factor=1.0, step=1.0, law="noniid")
