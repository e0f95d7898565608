"""Studies of many short trainings: what is measured, and what is stored."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdpm_book import ledger
from hdpm_book.federated import study
from hdpm_book.federated.meters import Estimate, error_of_valid
from hdpm_book.federated.partition import budget_of, draw_bids
from hdpm_book.federated.regretnet import Network, run
from hdpm_book.federated.training import Settings
from hdpm_lib.auctions.bids import bids
from hdpm_lib.auctions.posted_prices import posted_prices
from tests.support import generator, some_weights


def test_common_share() -> None:
    levels = generator(940).integers(0, 4, (50, 10))
    counts = [max(list(column).count(level) for level in range(4)) for column in levels.T]
    assert study.common_share(levels + 1e-9) == pytest.approx(sum(counts) / 500)
    with pytest.raises(ValueError, match="levels"):
        study.common_share([1.0, 2.0])


@pytest.mark.parametrize(("part", "place"), [("rate", 3), ("privacy_budget", 4), ("sizes", 5)])
def test_what_a_network_hears(part: str, place: int) -> None:
    """Levels that depend on one input of the owner alone: 4 if it is above its middle, else 0."""
    network, rng, shape = Network("DM-RegretNet", owners=3, levels=4, hidden=(3,)), generator(942), (200, 3)
    weights = {name: np.zeros(size) for name, size in network.shapes.items()}
    for owner in range(3):
        weights["allocation.0.slope"][6 * owner + place, owner] = 50.0
        weights["allocation.1.slope"][owner, 5 * owner + 4] = 50.0
    # with the linear family and a privacy budget of 1/2 the value of the whole budget is the rate
    limits = 2.0 ** rng.uniform(-1, 1, shape) if part == "privacy_budget" else np.full(shape, 0.5)
    sizes = rng.integers(1, 999, shape) if part == "sizes" else np.full(shape, 100)
    market = bids("linear", 2.0 ** rng.uniform(-1, 1, shape), limits, sizes)
    high = run(network, weights, market, 1.0).privacy_loss / market.privacy_budget
    assert {0.0, 1.0} == set(high.ravel())
    for other in ("family", "rate", "privacy_budget", "sizes"):
        found = study.heard(network, weights, market, np.ones(200), [other])
        if other != part:
            assert found == 0 or (part, other) == ("rate", "privacy_budget")
        elif part != "sizes":  # which enter as shares, and so depend on the others
            assert found == pytest.approx((high != np.roll(high, 1, 0)).mean())
        else:
            assert 0.1 < found < 0.9
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
    rng = generator(941)
    market = draw_bids(rng.integers(10, 999, (30, 3)), rng)
    budget = market.full_valuation.sum(-1)
    row, again = (study.measure(SETTINGS, 5, market, budget) for _ in range(2))
    other = study.measure(SETTINGS, 6, market, budget)
    assert row | {"cpu_seconds": 0} == again | {"cpu_seconds": 0} and row["mean"] != other["mean"]
    *_, (state, _) = fake_train(SETTINGS, 5)
    sold = run(SETTINGS.network, state["weights"], market, budget).privacy_loss
    levels = sold / market.privacy_budget * 4
    assert row["mean"] == pytest.approx(levels.mean(0), abs=0.006)
    assert row["deviation"] == pytest.approx(levels.std(0), abs=0.006)
    assert row["log"] == {"objective": 5.25}
    assert row["common_share"] == pytest.approx(study.common_share(levels), abs=1e-4)
    assert row["heard"] == pytest.approx(
        study.heard(SETTINGS.network, state["weights"], market, budget, study.VALUATION), abs=1e-4
    )
    assert row["metrics"]["regret"] == [0.12346, 0.5] and (row["levels"], row["seed"]) == (4, 5)
    assert json.loads(json.dumps(row)) == row
    assert row["error"] == pytest.approx(error_of_valid(sold, market.sizes)[0], abs=1e-3)


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


def test_studies_differ_in_what_they_study_only() -> None:
    (one, other), _ = study.STUDIES["seeds"]
    assert one.determinism and replace(other, determinism=True) == one
    for settings in study.STUDIES["levels"][0]:
        assert replace(settings, network=one.network) == one
    short, printed = study.STUDIES["trading"][0]
    assert replace(short, batches=100, epochs=8) == printed
    both, plain = study.STUDIES["plain"][0]
    assert replace(both, epochs=plain.epochs, normalised=True) == plain and not plain.adam
    sizes = study.STUDIES["size"][0]
    parts = {"profiles": 64, "search": 5, "batches": 8}
    assert {replace(one, network=sizes[0].network, **parts) for one in sizes} == {sizes[3]} and len(set(sizes)) == 30
    assert (study.study_markets(3, "Non-IID")[0].sizes != study.study_markets(3)[0].sizes).any()
    market, budget = study.study_markets(20)
    factor = budget / market.full_valuation.sum(-1)
    assert market.sizes.shape == (20, 10) and (factor >= 0.1).all() and (factor <= 2).all()


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


def test_note_on_payments_above_factor_one() -> None:
    market, _ = study.study_markets(500)
    sold = [posted_prices(market, budget_of(market, factor)) for factor in (1.0, 1.4, 2.0)]
    least = min(x.payments.sum() / market.valuation(x.privacy_loss).sum() for x in sold)
    note = ledger.get("flm-claim-budget-above-one").note or ""
    said = [float(x) for x in re.findall(r"([0-9.]+)\s+times", note)]
    assert said and least == pytest.approx(min(said), abs=0.005)
