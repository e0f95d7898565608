"""Accuracy by what was bought: runs that are paired, each as if it were alone; and what is
stored.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hdpm_book.federated import accuracy
from hdpm_book.federated.meters import AGGREGATIONS
from hdpm_book.federated.partition import KINDS
from hdpm_book.federated.published import FILES
from hdpm_book.federated.regretnet import Network
from hdpm_book.records import recorded
from tests.learners.test_fedsgd import records
from tests.support import generator, some_network

SEEDS = {"one": 0, "same": 0, "other": 1}
BESIDES = ("posted prices", "everything sold")
OTHERS = "posted prices", "everything sold"


def some_networks() -> dict[str, Network]:
    return {
        name: some_network("DM-RegretNet", generator(72, seed), owners=10, hidden=(4, 4, 4))
        for name, seed in SEEDS.items()
    }


@pytest.mark.parametrize("partition", KINDS)
def test_runs_share_all_but_the_auction(partition: str) -> None:
    data = (*records(generator(70), 400), *records(generator(71), 300))
    networks = some_networks()
    found = accuracy.accuracies(data, partition, networks, 5, owners=12)
    assert set(found) == {
        f"{name}, {rule}" for name in (*SEEDS, *OTHERS) for rule in ("OptAggr", "ConvAggr")
    }
    assert all(0 <= value <= 1 for value in found.values())
    for rule in AGGREGATIONS:
        assert found[f"one, {rule}"] == found[f"same, {rule}"]
    alone = accuracy.accuracies(data, partition, {"other": networks["other"]}, 5, owners=12)
    assert alone.items() <= found.items()
    runs = [found, *(accuracy.accuracies(data, partition, networks, k, owners=12) for k in (6, 7))]
    assert runs[0] != runs[1]
    by_auction = {
        tuple(run[f"{name}, {rule}"] for run in runs for rule in AGGREGATIONS)
        for name in ("one", "other", *OTHERS)
    }
    assert len(by_auction) == 4  # no two alike


def sells_everything(change: float = 0.0) -> None:
    """A network that always picks the highest level is as good as everything sold."""
    network = some_network("DM-RegretNet", generator(74), owners=10, hidden=(4, 4, 4))
    *before, (slope, _) = network.weights["allocation"]
    last = 0 * slope, np.tile([0.0, 0, 0, change, 1], 10)
    whole = network._replace(weights=network.weights | {"allocation": (*before, last)})
    data = *records(generator(70), 400), *records(generator(71), 300)
    for k in (5, 6, 7):
        found = accuracy.accuracies(data, "IID", {"whole": whole}, k, owners=12)
        for rule in AGGREGATIONS:
            assert found[f"whole, {rule}"] == found[f"everything sold, {rule}"]


def test_everything_sold() -> None:
    sells_everything()
    with pytest.raises(AssertionError):
        sells_everything(2.0)  # it picks another level


def test_runs_that_share_too_little_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = generator(73)
    train = accuracy.fedsgd
    monkeypatch.setattr(
        accuracy, "fedsgd", lambda *given, rng, **options: train(*given, rng=drawn, **options)
    )
    with pytest.raises(AssertionError):
        test_runs_share_all_but_the_auction("IID")


def test_what_is_stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each law has its own networks."""
    part = SimpleNamespace(source="local")
    monkeypatch.setattr(accuracy.retrieval, "real", lambda name: ({}, "local"))
    monkeypatch.setattr(accuracy.datasets, "nsl_kdd", lambda _: part)
    monkeypatch.setattr(accuracy.datasets, "nsl_kdd_design", lambda *_: ())
    monkeypatch.setattr(accuracy, "published_networks", lambda law: {law: None})
    monkeypatch.setattr(
        accuracy, "accuracies", lambda data, law, networks, seed: dict.fromkeys(networks, seed)
    )
    accuracy.main(["--runs", "2", "--folder", str(tmp_path)])
    found = json.loads((tmp_path / "accuracy.json").read_text("utf8"))
    assert found["rows"] == [
        {"sizes": law, "seed": seed, law: seed} for seed in (0, 1) for law in KINDS
    ]
    assert (
        found["data"] == "local"
        and found["runs"] == 2
        and found["versions"]["numpy"] == np.__version__
    )


def test_recorded_study() -> None:
    """What is stored was made with real data and the published networks."""
    record = recorded("accuracy")
    assert record["data"] != "stand-in" and len(record["rows"]) == 2 * record["runs"]
    names = {f"{name}, {rule}" for name in (*FILES, *OTHERS) for rule in AGGREGATIONS}
    assert all(row.keys() == {"sizes", "seed"} | names for row in record["rows"])
