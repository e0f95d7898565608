"""The same market in one process: FedSGD of the library, on the streams of owners with seeds."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from hdpm_lib.aggregation import opt_aggr
from hdpm_lib.learners import fedsgd as module
from hdpm_lib.learners.integer_answers import gradient_noise
from hdpm_owner.owner import stream


def gap(found: dict[str, Any], owners: Sequence[Path], sale: int, learning_rate: float = 2.0) -> float:
    """Largest difference between models that a market of processes went through and those of one process.

    The owners' noise comes from the same streams; privacy losses are those of what arrived.
    """
    terms = [tomllib.loads((own / "terms.toml").read_text()) for own in owners]
    assert [one["name"] for one in terms] == found["names"]
    parts = [np.load(own / "data.npz") for own in owners]
    features = np.concatenate([part["features"] for part in parts])
    labels = np.concatenate([part["labels"] for part in parts])
    ends = np.cumsum([len(part["labels"]) for part in parts])
    rows = np.split(np.arange(ends[-1]), ends[:-1])
    losses, paid = (np.array([held[name] for held in found["rounds"]])[:, None] for name in ("loss", "paid"))
    rounds, number = len(losses), iter(range(1, len(losses) + 1))

    def noise(epsilon: np.ndarray, *shape: Any, rng: Any) -> np.ndarray:
        r = next(number)
        each = [stream(one["seed"], sale, r) for one in terms]
        return np.concatenate([gradient_noise([e], *shape, rng=g) for e, g in zip(epsilon, each, strict=True)])

    with mock.patch.object(module, "gradient_noise", noise):
        trained = module.fedsgd(
            features,
            labels,
            [rows],
            [[one["limit"] for one in terms]],
            np.tile(np.arange(len(terms)), (rounds, 1, 1)),
            {"OptAggr": opt_aggr},
            np.zeros((2, features.shape[1])),
            rng=np.random.default_rng(0),
            auction=lambda _: module.Sale(losses, paid, paid.sum(axis=2)),
            learning_rate=learning_rate,
            every=1,
            spacing=2.0**-20,
        )
    models = np.array([held["model"] for held in found["rounds"]])
    return float(np.abs(trained.parameters("OptAggr")[1:, 0] - models).max())
