"""The study of the published networks: what is measured of each, who leads, and what is stored."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdpm_book import retrieval
from hdpm_book.federated import study
from hdpm_book.federated.partition import KINDS, study_markets
from hdpm_book.federated.published import FILES, networks
from hdpm_book.federated.regretnet import Network
from hdpm_book.federated.reports import learned, play, search
from hdpm_book.records import recorded
from tests.book.federated.test_meters import shown
from tests.book.federated.test_published import needs_files
from tests.support import generator, some_network

LOOKS_AT = ["book/federated/regret.md", "data/studies"]
Array = np.ndarray
# of one shape, to compile once
KINDS_OF = ("M-RegretNet", "M-RegretNet", "DM-RegretNet", "DM-RegretNet")


def some_networks(law: str) -> dict[str, Network]:
    rng = generator(960, KINDS.index(law))
    return {
        name: some_network(kind, rng, owners=10, hidden=(4, 4, 4))
        for name, kind in zip(FILES, KINDS_OF, strict=True)
    }


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few profiles, short searches, small networks."""
    monkeypatch.setattr(study, "PROFILES", {"table": 5, "levels": 5})
    monkeypatch.setattr(study, "SEARCHED", {"table": 5, "levels": 5})
    monkeypatch.setattr(study, "STEPS", (0, 2))
    monkeypatch.setattr(study, "networks", some_networks)
    monkeypatch.setattr(
        study, "instances", lambda law: {4: [some_networks(law)["M-RegretNet"]] * 2}
    )
    monkeypatch.setattr(retrieval, "real", lambda name: ({}, "local"))


@pytest.mark.parametrize("law", KINDS)
def test_fresh_markets_are_not_those_of_the_pages(law: str) -> None:
    market, money = study.fresh_markets(300, law, 1)
    factor = money / market.full_valuation.sum(-1)
    assert market.sizes.shape == (300, 10) and 0.1 <= factor.min() < 0.2 and 1.9 < factor.max() <= 2
    again = study.fresh_markets(300, law, 1)[0]
    other = study.fresh_markets(300, law, 2)[0]
    assert (again.rate == market.rate).all() and (other.rate != market.rate).all()
    assert not np.isin(market.rate, study_markets(2000, law)[0].rate).any()


# --- who leads ----------------------------------------------------------------------------------


def ratio(gain: Array, cost: Array, sums: bool) -> float:
    """Of all gains and all costs, or the mean of the quotients of who sells."""
    if sums:
        return float(gain.sum() / cost.sum())
    return float(np.mean([g / c for g, c in zip(gain.ravel(), cost.ravel(), strict=True) if c > 0]))


@pytest.mark.parametrize("sums", [False, True])
def test_leads_are_in_standard_errors(sums: bool) -> None:
    """Those of the jackknife, which leaves out one profile at a time, of both auctions at once."""
    rng = generator(961)
    k = 150
    alike = rng.exponential(1, (k, 1)) * rng.uniform(0.5, 1.5, (k, 4))  # in both auctions
    a, b = (
        (alike * rng.uniform(0.9, 1.1, (k, 4)) * more, rng.uniform(1, 1.2, (k, 4)))
        for more in (1.3, 1)
    )
    for _, cost in (a, b):
        cost[rng.random(cost.shape) < 0.3] = 0  # who does not sell
    if not sums:
        a[0][a[1] == 0] = 99

    def difference(left: Array) -> float:
        return ratio(a[0][left], a[1][left], sums) - ratio(b[0][left], b[1][left], sums)

    every = np.arange(k)
    without = np.array([difference(every != i) for i in every])
    error = math.sqrt((k - 1) * without.var())
    assert study.lead(a, b, sums) == pytest.approx(difference(every >= 0) / error, rel=0.05)
    assert study.lead(b, a, sums) == pytest.approx(-study.lead(a, b, sums))


def unpaired(lead: Callable[..., float]) -> Callable[..., float]:
    return lambda a, b, sums: lead(a, tuple(x[::-1] for x in b), sums)


def of_all(lead: Callable[..., float]) -> Callable[..., float]:
    return lambda a, b, sums: lead(a, b, True)


@pytest.mark.parametrize("fault", [unpaired, of_all])
def test_wrong_leads_are_found(
    fault: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "lead", fault(study.lead))
    with pytest.raises(AssertionError):
        test_leads_are_in_standard_errors(False)


# --- rows ---------------------------------------------------------------------------------------


def searched(network: Network, law: str) -> tuple[Array, Array, Array]:
    """Gains after 0 and 2 steps, costs and full valuations in the first of the book's markets."""
    (market, money), rule = study_markets(5, law), learned(network)
    gains, _ = search(rule, market, money, steps=(0, 2), reach=20.0)
    truth = play(rule, market, money)
    return gains, (truth.outcomes * truth.costs).sum(-1), market.full_valuation


def published_of(network: Network, law: str, seed: Any) -> dict[str, list[float]]:
    market, money = study.fresh_markets(5, law, 1)
    rule, rng = learned(network), np.random.default_rng(seed)
    lies = shown.printed_search(rule, market, money, clamp="owners", rng=rng)
    found = shown.as_published(rule, market, money, lies)
    return {name: [pytest.approx(x, abs=1e-5) for x in value] for name, value in found.items()}


def test_rows_of_the_table() -> None:
    law = "Non-IID"
    row = json.loads(json.dumps(study.measure("table", law)))
    assert (row["which"], row["law"], list(row["networks"])) == ("table", law, list(FILES))
    gains = {}
    for name, network in some_networks(law).items():
        found = row["networks"][name]
        assert found | published_of(network, law, 2) == found
        found_by, cost, _ = searched(network, law)
        for steps, gain in zip((0, 2), found_by, strict=True):
            gains[name, steps] = gain, cost
            assert found[f"search {steps}"][0] == pytest.approx(ratio(gain, cost, False), abs=1e-5)
        assert len(found) == 9
    leads = {(one["of"], one["over"], one["steps"], one["sums"]): one["z"] for one in row["leads"]}
    assert len(leads) == len(row["leads"]) == 16
    for (dm, other, steps, sums), z in leads.items():
        assert dm.startswith("DM") and not other.startswith("DM")
        assert z == pytest.approx(
            study.lead(gains[dm, steps], gains[other, steps], sums), abs=0.006
        )


def test_rows_of_the_levels() -> None:
    row = json.loads(json.dumps(study.measure("levels", "IID", 4)))
    assert (row["which"], row["law"], row["levels"], len(row["networks"])) == (
        "levels",
        "IID",
        4,
        2,
    )
    network = some_networks("IID")["M-RegretNet"]
    (gain, _), cost, full = searched(network, "IID")
    for k, found in enumerate(row["networks"]):
        assert found | published_of(network, "IID", [2, k]) == found and len(found) == 9
        assert found["search 0"][0] == pytest.approx(ratio(gain, cost, False), abs=1e-5)
        assert found["over full"][0] == pytest.approx((gain / full).mean(), abs=1e-5)
    assert row["networks"][0]["regret"] != row["networks"][1]["regret"]  # other draws


@pytest.mark.parametrize("place", ["study_markets", "fresh_markets"])
def test_rows_of_another_law_are_found(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row = study.levels
    markets = getattr(study, place)

    def wrong(law: str, M: int) -> Any:
        with monkeypatch.context() as patched:
            patched.setattr(
                study, place, lambda count, law, *seed: markets(count, "Non-IID", *seed)
            )
            return row(law, M)

    monkeypatch.setattr(study, "levels", wrong)
    with pytest.raises(AssertionError):
        test_rows_of_the_levels()


JOBS = [("table", law, None) for law in KINDS] + [
    ("levels", law, M) for law in KINDS for M in (1, 2, 4, 8, 16)
]


def test_what_is_stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(study, "measure", lambda *job: {"job": job})
    study.main(["--folder", str(tmp_path)])
    found = json.loads((tmp_path / "published.json").read_text("utf8"))
    assert found["rows"] == [{"job": [part for part in job if part is not None]} for job in JOBS]
    assert (
        found["profiles"] == {"table": 5, "levels": 5}
        and found["steps"] == [0, 2]
        and found["reach"] == 20
    )
    assert (
        found["versions"]["jax"] and found["commit"] and found["date"] and found["cpu_seconds"] >= 0
    )


def test_nothing_of_stand_ins_is_stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nowhere(name: str) -> None:
        raise retrieval.DataUnavailableError(f"{name}: nowhere")

    monkeypatch.setattr(retrieval, "real", nowhere)
    with pytest.raises(retrieval.DataUnavailableError, match="fl_market_networks: nowhere"):
        study.main(["--folder", str(tmp_path)])
    assert not list(tmp_path.iterdir())


RECORD = recorded("published")


def test_the_record_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert [(row["which"], row["law"], row.get("levels")) for row in RECORD["rows"]] == JOBS
    assert (RECORD["profiles"], RECORD["searched"], RECORD["reach"]) == (
        study.PROFILES,
        study.SEARCHED,
        study.REACH,
    )
    assert tuple(RECORD["steps"]) == study.STEPS
    assert all(
        list(row["networks"]) == list(FILES) and len(row["leads"]) == 24
        for row in RECORD["rows"][:2]
    )
    assert all(len(row["networks"]) == 10 for row in RECORD["rows"][2:])


@needs_files
@pytest.mark.parametrize("name", ["RegretNet", "DM + OptAggr"])
def test_the_record_says_what_the_networks_do(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is seen without a search, on all profiles of the study."""
    monkeypatch.undo()
    for row in RECORD["rows"][:2]:
        market, money = study.fresh_markets(study.PROFILES["table"], row["law"], 1)
        truth = play(learned(networks(row["law"])[name]), market, money)
        levels = np.linspace(0, 1, truth.outcomes.shape[-1])
        seen = {
            "truthful": shown.gini(truth.outcomes, truth.costs),
            "violation": shown.ir_violation(truth),
            "bought": truth.outcomes @ levels,
            "invalid": truth.outcomes[..., 0].prod(-1),
        }
        for what, values in seen.items():
            error = values.reshape(len(values), -1).mean(1).std(ddof=1) / math.sqrt(len(values))
            assert row["networks"][name][what] == pytest.approx(
                [values.mean(), error], abs=1.1e-5
            ), what
