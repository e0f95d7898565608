"""Accuracy by what was bought: runs that are paired, each as if it were alone; and what is stored."""

from __future__ import annotations

import json

import jax
import pytest

from hdpm_book.federated import RECORDED
from hdpm_book.federated.accuracy import NETWORKS, accuracies
from hdpm_book.federated.regretnet import TRAINED, Network, init, load_trained
from tests.learners.test_fedsgd import records
from tests.support import generator

NET, SEEDS = Network("DM-RegretNet", levels=2, hidden=(4,)), {"one": 0, "same": 0, "other": 1}


@pytest.mark.parametrize("partition", ["IID", "Non-IID"])
def test_runs_share_all_but_the_auction(partition: str) -> None:
    data = *records(generator(70), 400), *records(generator(71), 300)
    networks = {name: (NET, init(NET, jax.random.key(seed))) for name, seed in SEEDS.items()}
    found = accuracies(data, partition, networks, 5, owners=12)
    assert set(found) == {f"{name}, {rule}" for name in SEEDS for rule in ("OptAggr", "ConvAggr")}
    assert all(0 <= value <= 1 for value in found.values())
    for rule in ("OptAggr", "ConvAggr"):
        assert found[f"one, {rule}"] == found[f"same, {rule}"]
    alone = accuracies(data, partition, {"other": networks["other"]}, 5, owners=12)
    assert alone.items() <= found.items()
    assert accuracies(data, partition, networks, 6, owners=12) != found
    assert len({round(found[f"{name}, OptAggr"], 4) for name in SEEDS}) > 1


def test_recorded_study() -> None:
    """What is stored was made with real data and the stored networks."""
    record = json.loads((RECORDED / "accuracy.json").read_text("utf8"))
    assert record["data"] != "stand-in" and len(record["rows"]) == 2 * record["runs"] and record["networks"] == NETWORKS
    for kind, names in NETWORKS.items():
        for label, name in names.items():
            network, _ = load_trained(name)
            about = json.loads((TRAINED / f"{name}.json").read_text("utf8"))
            assert network.kind == label and about["settings"]["partition"] == kind
