"""What the error of a training counts at each level, in print and in the published code, and the
recorded sales of small DM-RegretNets.
"""

from __future__ import annotations

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from hdpm_book.federated import levels, training
from hdpm_book.federated.partition import study_markets
from hdpm_book.federated.regretnet import OWNERS, play, untrained
from hdpm_book.records import page_functions, recorded
from hdpm_lib.aggregation import error_bound, least_error_weights

LOOKS_AT = ["book/federated/training.md"]
PAGE = page_functions("federated/training", *training.CELLS)


def error_is_counted(counted: str, read: str) -> None:
    """The objective is the least error bound of the soft sale, each level counted as told."""
    market, money = study_markets(6, "IID")
    network = untrained(levels.M, 4)
    z, _ = play(network, market, money)
    power = np.exp(8 * z)
    sold = power / power.sum(-1, keepdims=True)
    loss = sold @ levels.COUNTED[read] * market.privacy_budget
    expected = error_bound(least_error_weights(loss, market.sizes), loss, market.sizes).mean()
    batch = PAGE["batch_of"](market, money, levels.M, levels.COUNTED[counted])
    lies = jnp.zeros((6, OWNERS, levels.M + 2))
    objective, *_ = PAGE["violations"](network.weights, "DM-RegretNet", batch, lies)
    assert float(objective) == pytest.approx(expected, rel=1e-4)


def test_the_error_counts_levels_as_it_is_told() -> None:
    for counted in levels.COUNTED:
        error_is_counted(counted, counted)
    with pytest.raises(AssertionError):
        error_is_counted("published code", "print")


def test_both_counts_agree_at_the_ends_alone() -> None:
    printed, coded = levels.COUNTED.values()
    assert printed[8] == coded[8] == 1 and printed[1] == coded[1] and printed[0] == coded[0] == 0
    assert (coded[2:8] < printed[2:8]).all()
    assert [1 / x for x in coded[1:]] == [8, 7, 6, 5, 4, 3, 2, 1]


def test_what_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "SETTINGS", {"epochs": 1, "K": 2, "T": 2})
    levels.main(["--seeds", "1", "--folder", str(tmp_path)])
    found = json.loads((tmp_path / "levels.json").read_text("utf8"))
    assert [(row["counted"], row["seed"]) for row in found["rows"]] == [
        (counted, 0) for counted in levels.COUNTED
    ]
    for row in found["rows"]:
        assert sum(row["sold"]) == pytest.approx(1, abs=1e-3) and row["error"] > 0
    assert found["settings"] == {"epochs": 1, "K": 2, "T": 2} and found["seeds"] == 1


def test_recorded_study() -> None:
    record = recorded("levels")
    assert record["settings"] == {x: training.SETTINGS[x] for x in ("epochs", "K", "T")}
    assert [(row["counted"], row["seed"]) for row in record["rows"]] == [
        (counted, seed) for counted in levels.COUNTED for seed in range(record["seeds"])
    ]
