"""Accuracy by what was bought: runs that are paired, against FedSGD alone; a study that was interrupted."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from hdpm_book.federated import RECORDED, accuracy
from hdpm_book.federated.accuracy import NETWORKS, accuracies, main
from hdpm_book.federated.regretnet import TRAINED, Network, init, load_trained
from tests.learners.test_fedsgd import records
from tests.support import generator

NETS = {
    "one": (Network("DM-RegretNet", levels=2, hidden=(4,)), 0),
    "same": (Network("DM-RegretNet", levels=2, hidden=(4,)), 0),
    "other": (Network("DM-RegretNet", levels=2, hidden=(4,)), 1),
}


@pytest.fixture
def data() -> accuracy.Data:
    x, y = records(generator(70), 400)
    return x, y, *records(generator(71), 300)


@pytest.mark.parametrize("partition", ["IID", "Non-IID"])
def test_runs_share_all_but_the_auction(data: accuracy.Data, partition: str) -> None:
    networks = {name: (net, init(net, jax.random.key(seed))) for name, (net, seed) in NETS.items()}
    found = accuracies(data, partition, networks, 5, owners=12)
    assert set(found) == {f"{name}, {rule}" for name in NETS for rule in ("OptAggr", "ConvAggr")}
    assert all(0 <= value <= 1 for value in found.values())
    for rule in ("OptAggr", "ConvAggr"):
        assert found[f"one, {rule}"] == found[f"same, {rule}"]
    alone = accuracies(data, partition, {"other": networks["other"]}, 5, owners=12)
    assert alone.items() <= found.items()
    assert accuracies(data, partition, networks, 6, owners=12) != found
    assert len({round(found[f"{name}, OptAggr"], 4) for name in NETS}) > 1


def test_interrupted_study(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done: list[tuple[str, int]] = []

    def quick(_: Any, partition: str, networks: Any, seed: int) -> dict[str, float]:
        if len(done) == 3:
            done.append(("", 0))
            raise KeyboardInterrupt
        done.append((partition, seed))
        return dict.fromkeys(networks, 0.5)

    monkeypatch.setattr(accuracy, "accuracies", quick)
    monkeypatch.setattr(accuracy.datasets, "nsl_kdd", lambda part: SimpleNamespace(source="local", part=part))
    monkeypatch.setattr(accuracy.datasets, "nsl_kdd_design", lambda *_: ())
    options = ["--runs", "3", "--folder", str(tmp_path)]
    with pytest.raises(KeyboardInterrupt):
        main(options)
    assert [path.name for path in tmp_path.iterdir()] == ["accuracy.parts"]
    main(options)
    assert [path.name for path in tmp_path.iterdir()] == ["accuracy.json"]
    record = json.loads((tmp_path / "accuracy.json").read_text("utf8"))
    rows = [(row["sizes"], row["seed"]) for row in record["rows"]]
    assert rows == [(kind, seed) for seed in range(3) for kind in NETWORKS]
    assert record["networks"] == NETWORKS and record["versions"]["jax"] and record["data"] == "local"


def test_recorded_study() -> None:
    """What is stored was made with real data and the stored networks; a run of it can be had again."""
    record = json.loads((RECORDED / "accuracy.json").read_text("utf8"))
    assert record["data"] != "stand-in" and len(record["rows"]) == 2 * record["runs"] and record["networks"] == NETWORKS
    for kind, names in NETWORKS.items():
        for label, name in names.items():
            network, _ = load_trained(name)
            about = json.loads((TRAINED / f"{name}.json").read_text("utf8"))
            assert network.kind == label and about["settings"]["partition"] == kind
    values = np.array([[x for name, x in row.items() if "," in name] for row in record["rows"]])
    assert values.shape[1] == 6 and (values > 0).all() and (values < 1).all()
