"""Studies of many short trainings: what is measured, and what is stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdpm_book.federated import study
from hdpm_book.federated.meters import Estimate, error_of_valid
from hdpm_book.federated.regretnet import Network, run
from hdpm_book.federated.training import Settings
from hdpm_lib.auctions.bids import bids
from tests.support import generator, some_weights


def test_what_a_network_hears() -> None:
    """Levels that depend on the owner's own privacy budget alone: 4 if it is above 1, else 0."""
    network, rng, shape = Network("DM-RegretNet", owners=3, levels=4, hidden=(3,)), generator(942), (200, 3)
    weights = {name: np.zeros(size) for name, size in network.shapes.items()}
    for owner in range(3):
        weights["allocation.0.slope"][6 * owner + 4, owner] = 50.0
        weights["allocation.1.slope"][owner, 5 * owner + 4] = 50.0
    market = bids("linear", 2.0 ** rng.uniform(-1, 1, shape), 2.0 ** rng.uniform(-1, 1, shape), 100)
    high = run(network, weights, market, 1.0).privacy_loss / market.privacy_budget
    assert {0.0, 1.0} == set(high.ravel())
    changed = (high != np.roll(high, 1, 0)).mean()
    for parts, expected in ((study.VALUATION, 0), (["sizes"], 0), (["privacy_budget"], changed)):
        assert study.heard(network, weights, market, np.ones(200), parts) == pytest.approx(expected)
    with pytest.raises(ValueError, match="parts must be"):
        study.heard(network, weights, market, np.ones(200), ["alpha"])


SETTINGS = Settings(Network("DM-RegretNet", owners=3, levels=4, hidden=(7, 5)))


def fake_train(settings: Settings, seed: int) -> Iterator[tuple[dict[str, Any], dict[str, np.ndarray]]]:
    """Two epochs, the second with the weights that are kept."""
    for key in (0, seed):
        weights = some_weights(settings.network, generator(944, key))
        yield {"weights": weights}, {"objective": np.array([key, key + 0.5])}


def test_one_network_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last epoch counts; training and metrics have tests of their own."""
    found = dict.fromkeys(("regret", "bought"), Estimate(0.123456789, 0.5))
    monkeypatch.setattr(study, "metrics", lambda *_, rng: found)  # no length of a search is given
    monkeypatch.setattr(study, "train", fake_train)
    market, budget = study.study_markets(30)
    market = market[:, :3]
    row = study.measure(SETTINGS, 5, market, budget)
    *_, (state, _) = fake_train(SETTINGS, 5)
    weights = state["weights"]
    sold = run(SETTINGS.network, weights, market, budget).privacy_loss
    levels = sold / market.privacy_budget * 4
    heard = study.heard(SETTINGS.network, weights, market, budget, study.VALUATION)
    assert (row["levels"], row["seed"], row["log"]) == (4, 5, {"objective": 5.25})
    assert row["mean"] == pytest.approx(levels.mean(0), abs=0.006)
    assert row["deviation"] == pytest.approx(levels.std(0), abs=0.006)
    assert row["common_share"] == pytest.approx(study.common_share(levels), abs=1e-4)
    assert row["heard"] == pytest.approx(heard, abs=1e-4)
    assert row["error"] == pytest.approx(error_of_valid(sold, market.sizes)[0], abs=1e-3)
    assert json.loads(json.dumps(row))["metrics"]["regret"] == [0.12346, 0.5]


def test_weights_that_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training that diverged is recorded as such."""
    lost = {"weights": {"payment.2.offset": np.array([0.0, np.nan])}}
    monkeypatch.setattr(study, "train", lambda *_: iter([(lost, {})]))
    row = study.measure(SETTINGS, 5, *study.study_markets(3))
    assert set(row) == {"kind", "levels", "seed", "determinism", "cpu_seconds"}


def test_all_networks_are_stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(study, "measure", lambda one, seed, *_: {"levels": one.network.levels, "seed": seed})
    study.main(["levels", "--folder", str(tmp_path)])
    found = json.loads((tmp_path / "levels.json").read_text("utf8"))
    jobs = [(which, M, seed) for which, M in enumerate((1, 2, 4, 8, 16)) for seed in range(10)]
    assert found["rows"] == [{"setting": which, "levels": M, "seed": seed} for which, M, seed in jobs]
    assert found["versions"]["jax"] and found["test_markets"] == 300


@pytest.mark.parametrize("law", ["IID", "Non-IID"])
def test_people_share_all_records(law: str) -> None:
    labels = generator(85).integers(5, size=400)
    markets, offers = study.people(labels, law, 2, generator(87), owners=12, least=1)
    for rows, sizes in zip(markets, offers.sizes, strict=True):
        assert [len(own) for own in rows] == sizes.tolist()
        assert len(np.unique(np.concatenate(rows))) == len(labels) == sizes.sum()
    asked = np.array([[[3, 5], [0, 1]]])
    expected = np.stack([offers.rate[0, [3, 5]], offers.rate[1, [0, 1]]])
    assert (study.bids_of(offers, asked).rate == expected[None]).all()
