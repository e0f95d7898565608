"""What is recorded of federations, and shown. The experiments themselves run again in tests/federation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from hdpm_book.beyond import federations, owners


def test_the_record_is_complete_and_says_what_the_page_says() -> None:
    runs, kills = owners.runs(), pd.DataFrame(owners.record()["kills"]).set_index("killed")
    assert len(runs) == 5 and (runs["rounds"] == 3).all() and (runs["gap"] <= 1e-12).all()
    assert list(kills.index) == list(federations.KILLS) and (kills["rounds held"] == 4).all()
    assert kills["never too little"].all() and (kills["gap"] <= 1e-12).all()
    lost = kills["without her"]
    assert lost["nothing"] == 0 and lost["her SuperNode, for good"] >= 2 and (lost >= 0).all()
    assert (kills["her ledger, rounds"] >= kills["rounds held"] - lost).all()
    assert (owners.kills()["without her"] == lost).all() and len(owners.kills().columns) == 4


def test_ledgers_and_the_market_agree() -> None:
    found, told = owners.training(), owners.ledgers()
    assert len(found) == 11 and np.isfinite(found["accuracy"]).all()
    for name in told.index:
        assert abs(found[name].sum() - told["lost"][name]) <= 1e-12 and told["lost"][name] <= told["total"][name]
        assert told["rounds"][name] == 10 and found[name].max() <= told["limit"][name]
    assert {"commit", "date", "hardware", "versions"} <= set(owners.record())


def test_the_gap_sees_a_market_of_other_weights(tmp_path: Path) -> None:
    """A market in this process, then the same with a model moved by 1e-9."""
    folders, parts = [], []
    for i, name in enumerate(("ann", "bea")):
        own = owners.owner_of(tmp_path / name, name=name, seed=10 + i)
        ticket = owners.sell(own, [1.0])
        parts.append(np.array(owners.ask(own, ticket, 1, model=np.zeros((2, 3)).tolist())["gradient"]))
        own.ledger.close()
        folders.append(tmp_path / name)
    model = -2.0 * (parts[0] + parts[1]) / 2  # owners alike in size and loss: weights of one half
    held = {"loss": [1.0, 1.0], "paid": [0.0, 0.0], "model": model.tolist()}
    found = {"names": ["ann", "bea"], "rounds": [held]}
    assert federations.gap(found, folders, sale=1) <= 1e-12
    held["model"] = (model + 1e-9).tolist()
    assert federations.gap(found, folders, sale=1) > 1e-10
    held["model"] = (-2.0 * parts[0]).tolist()
    assert federations.gap(found, folders, sale=1) > 1e-3
