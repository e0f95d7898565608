"""What the pages on the market, the aggregation, the networks and their regret run, on cases of known answer."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

from hdpm_book import ledger
from hdpm_book.federated import meters, networks, regret
from hdpm_book.federated.meters import Regret
from hdpm_book.federated.partition import budget_of, draw_bids
from hdpm_book.federated.regretnet import TRAINED, Network, init
from hdpm_book.federated.reports import search
from hdpm_book.federated.study import study_markets
from hdpm_lib.auctions.bids import Bids
from hdpm_lib.auctions.posted_prices import posted_prices
from tests.support import generator


def profiles(seed: int, count: int = 60) -> dict[str, Bids]:
    rng = generator(seed)
    return {"IID": draw_bids(rng.integers(5, 500, (count, 10)), rng)}


# --- networks ---------------------------------------------------------------------------------------------------------


def test_least_dav_is_that_of_a_corner() -> None:
    for levels, tau in ((1, 1.0), (8, 0.125)):
        corner = float(networks.dav(np.eye(levels + 1)[0], tau))
        assert networks.least_dav(levels, tau) == pytest.approx(corner, rel=1e-9)


def test_levels_are_whole_numbers() -> None:
    net = Network("DM-RegretNet", owners=10, levels=4)
    market = profiles(94)["IID"]
    levels = networks.levels_sold(net, init(net, jax.random.key(1)), market, market.full_valuation.sum(-1))
    assert np.abs(levels - np.rint(levels)).max() < 1e-9
    assert levels.max() <= 4


def test_positions_that_sell_one_level() -> None:
    sold = np.array([[0, 8, 1], [0, 8, 2], [0, 8, 3]])
    assert networks.Listening(pd.DataFrame(), {"x": sold}).fixed("x") == 2


def test_sizes_are_compared_one_part_at_a_time() -> None:
    sizes = networks.sizes_of_trainings()
    assert sizes.ordered() == (50, 50, 0, 50)
    for part in networks.SMALL:
        curves = sizes.curves(part, "near")
        assert list(curves) == list(networks.NETWORKS) and networks.SMALL[part] in curves.index
    small = [sizes.curves(part, "near").loc[networks.SMALL[part]] for part in networks.SMALL]
    assert all((one == small[0]).all() for one in small)
    rows = sizes.rows.copy()
    rows.loc[rows.index[rows["network"] == "DM-RegretNet"][0], "near"] = 0.0
    assert networks.Sizes(rows).ordered() == (49, 49, 1, 50)


def test_hours_of_the_printed_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "record", lambda name: {"log": [{}] * 10, "cpu_seconds": 3600.0})
    assert networks.printed_hours() == 5.0


def test_every_network_is_shown() -> None:
    stored = {path.stem for path in TRAINED.glob("*.npz")} - {"menus"}
    assert set(networks.STORED) == stored == set(networks.trainings().index)
    assert set(regret.NAMES.values()) == stored - {"m-iid"}  # which buys next to nothing
    assert {name for name, rule in regret.USED.values() if rule == "OptAggr"} == {*regret.RANDOM, *regret.FIXED}


def test_order_by_every_recorded_measure() -> None:
    orders = networks.sizes_of_trainings().orders
    assert orders["DM > M > RegretNet"].tolist() == [50, 28, 35, 43, 7]
    assert orders["DM above both"].tolist() == [50, 50, 50, 49, 50] and (orders["DM below both"] == 0).all()


@pytest.mark.parametrize(("before", "settled"), [(4.0, False), (4.99, True)])
def test_what_the_log_says_of_convergence(monkeypatch: pytest.MonkeyPatch, before: float, settled: bool) -> None:
    epochs = [{"objective": 9.0}] * 3 + [{"objective": before}] + [{"objective": 5.0}] * 10
    monkeypatch.setattr(networks, "record", lambda name: {"log": epochs})
    assert (abs(networks.log_of("x").moved) < 0.05) == settled


def test_factors_at_which_dm_is_lowest() -> None:
    rows = [
        {"refuses": False, "sizes": "IID", "auction": label, "factor": factor, "error": error, "invalid": 0.0}
        for factor, least in ((0.1, 1.0), (2.0, 3.0))
        for label, error in (dict.fromkeys(regret.USED, 2.0) | {regret.OPT[0]: least}).items()
    ]
    table = pd.DataFrame(rows).set_index(["refuses", "sizes", "auction", "factor"])
    assert [regret.Bounds(table).lowest("IID", label) for label in regret.OPT] == [[0.1], []]


def test_note_on_payments_above_factor_one() -> None:
    market, _ = study_markets(500)
    sold = [posted_prices(market, budget_of(market, factor)) for factor in (1.0, 1.4, 2.0)]
    least = min(x.payments.sum() / market.valuation(x.privacy_loss).sum() for x in sold)
    note = ledger.get("flm-claim-budget-above-one").note or ""
    said = [float(x) for x in re.findall(r"([0-9.]+)\s+times", note)]
    assert "twice" not in note and said and least == pytest.approx(min(said), abs=0.005)


# --- regret -----------------------------------------------------------------------------------------------------------


def test_pages_search_as_the_library_does() -> None:
    """Only the comparison of searches chooses the number of steps."""
    folder = Path(regret.__file__).parent
    calls = re.compile(r"\b(?:regret|metrics|search)\((?:[^()]|\([^()]*\))*\bsteps=(\w+)")
    found = {
        path.name: calls.findall(path.read_text("utf8"))
        for path in folder.iterdir()
        if path.suffix in {".py", ".md"} and path.name != "meters.py"
    }
    assert {name: steps for name, steps in found.items() if steps} == {"regret.py": ["0", "count"]}


def gains(*shift: float) -> list[Regret]:
    """Regrets on the same profiles that differ by a constant gain, and half of whose owners sell nothing."""
    rng = generator(97)
    cost = rng.uniform(1, 2, (200, 4)) * (np.arange(4) < 2)
    base = cost * rng.uniform(0, 1, (200, 1))
    return [Regret(base + x * cost, cost, np.ones((200, 4)), np.ones((200, 4))) for x in shift]


def test_gaps_are_paired() -> None:
    a, b = gains(0.5, 0.4)
    alone, more = regret.gap(a), regret.gap(a, b)
    assert alone["mean of quotients"] == pytest.approx(a.relative) and alone["quotient of sums"] == pytest.approx(
        a.of_sums
    )
    for measure, x in more.items():
        assert x.value == pytest.approx(0.1) and x.error < 1e-12 < alone[measure].error


def test_random_search_starts_from_the_best_structured_one() -> None:
    at = regret.setting()
    rule, market, money = at.rules[regret.FIXED[0]], at.few[:5], at.cash[:5]
    first, later = (regret.random_search(rule, market, money, tries, generator(98)) for tries in (0, 20))
    assert (first == search(rule, market, money, steps=0, reach=regret.REACH)[0]).all()
    assert (later >= first).all() and later.sum() > first.sum()


@pytest.mark.parametrize(("more", "count"), [(6.0, (8, 0, 8)), (3.0, (0, 0, 8)), (-6.0, (0, 8, 8))])
def test_points_do_not_make_a_ranking(more: float, count: tuple[int, int, int]) -> None:
    rank = regret.ranking()
    change = {"value": more * rank.found["error"]}
    found = rank.found.assign(**{key: x.where(rank.found["less"] != "", rank.found[key]) for key, x in change.items()})
    assert rank.level > 5
    assert replace(rank, found=found).clear("M-RegretNet", "25 steps") == count


def test_recorded_searches_are_those_of_the_library() -> None:
    at, rank = regret.setting(), regret.ranking()
    some = rank.found.set_index(["sizes", "measure", "network", "less", "search"])["value"]
    for kind in regret.KINDS:
        rule = at.rules[at.trained(kind, regret.FIXED[1])]
        now = meters.regret(rule, at.markets[kind][:100], at.budgets[kind][:100], reach=regret.REACH)
        for measure, x in regret.gap(now).items():
            assert some[kind, measure, regret.FIXED[1], "", "25 steps"] == pytest.approx(x.value, abs=0.001)
    alone = some.xs("", level="less").unstack("search")[list(regret.SEARCHES)]
    assert (alone.sub(alone["0 steps"], axis=0) > -1e-9).all().all()
    assert (alone.rsub(alone["best of all"], axis=0) > -1e-4).all().all()


def test_trend_needs_more_than_a_sign() -> None:
    found = regret.trend()
    weak = regret.Trend(found.means, found.errors, {"near": 0.9, "bought": -0.9}, {"near": 0.01, "bought": 1e-12})
    assert not weak.rises("near")
    assert weak.falls("bought")
    assert not weak.falls("near", "bought")


def test_only_one_measure_may_fall() -> None:
    found = regret.trend()
    assert found.only_full_falls
    for key in ("near", "ir_violation"):
        assert not replace(found, tau=found.tau | {key: -0.9}, p=found.p | {key: 1e-9}).only_full_falls
    assert not replace(found, tau=found.tau | {"bought": 0.9}).only_full_falls


def test_printed_table_has_the_rows_of_the_page() -> None:
    assert set(regret.RANDOM + regret.FIXED) <= set(regret.printed_table1().index)
    assert not regret.printed_dm().all_zero
