"""What the pages on the market, the aggregation, the networks and their regret run, on cases of known answer."""

from __future__ import annotations

from dataclasses import fields, replace

import jax
import numpy as np
import pandas as pd
import pytest

from hdpm_book.federated import aggregation, idea, networks, regret
from hdpm_lib.aggregation import opt_aggr
from hdpm_lib.auctions.bids import bids, draw_bids
from hdpm_lib.auctions.meters import Estimate, Metrics
from hdpm_lib.auctions.networks import Network, init
from hdpm_lib.markets.payments import Outcome
from tests.support import generator


def profiles(seed: int, count: int = 60) -> aggregation.Profiles:
    rng = generator(seed)
    return {"IID": draw_bids(rng.integers(5, 500, (count, 10)), rng)}


# --- idea -------------------------------------------------------------------------------------------------------------


def test_pairs_paid_less() -> None:
    sale = Outcome(np.array([[1.0, 2.0, 0.0]]), np.array([[5.0, 4.0, 9.0]]))
    assert idea.paid_less(sale, np.array([[1.0, 1.0, 1.0]])) == {"in all": 1.0, "per record": 1.0}
    assert idea.paid_less(sale, np.array([[2.0, 1.0, 1.0]])) == {"in all": 1.0, "per record": 0.0}


def test_first_price_spends_at_most_the_money() -> None:
    outcome = idea.first_price(bids("linear", [1.0, 0.5, 2.0], 1.0, 1), 3.5)
    assert outcome.payments.tolist() == [2.0, 1.0, 0.0]
    assert outcome.epsilon.tolist() == [1.0, 1.0, 0.0]


def test_false_reports_end_in_losses() -> None:
    found = idea.false_reports()
    assert (found.fair, found.hurt, found.barred) == (True, True, True)


def test_bids_beyond_what_is_printed_are_found() -> None:
    market = profiles(95)["IID"]
    assert idea.within_laws(market)
    for part, shift in (("rate", 0.6), ("rate", -0.6), ("privacy_budget", 1), ("privacy_budget", -0.4)):
        assert not idea.within_laws(replace(market, **{part: getattr(market, part) + shift}))


# --- aggregation ------------------------------------------------------------------------------------------------------


def test_mean_absolute_is_the_mean() -> None:
    rng = generator(90)
    drawn = np.abs(0.3 + rng.laplace(0, 1.0, 400_000) + rng.laplace(0, 0.5, 400_000))
    value = float(aggregation.mean_absolute(np.array(0.3), np.array(1.0), np.array(0.5)))
    assert drawn.mean() == pytest.approx(value, abs=6 * drawn.std() / 400_000**0.5)


def test_certificate_objects_to_other_weights() -> None:
    epsilon, sizes = np.array([[2.0, 0.5, 0.0]]), np.array([[1.0, 1.0, 2.0]])
    assert aggregation.certified_excess(opt_aggr(epsilon, sizes), epsilon, sizes)[0] < 1e-12
    assert aggregation.certified_excess(np.array([[0.5, 0.5, 0.0]]), epsilon, sizes)[0] > 0.1


def test_printed_program_is_the_right_one_as_stated() -> None:
    found = aggregation.agreement(profiles(91))
    assert found.as_stated
    assert 0 < found.equal < 1
    assert found.convex


def test_all_three_problems_agree_where_everybody_sells() -> None:
    found = aggregation.other_problems(profiles(92))
    assert found.same
    assert found.worst > 1
    assert aggregation.dominance(profiles(93)).exact == 0


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
    assert sizes.ordered == (50, 50)
    for part in networks.SMALL:
        curves = sizes.curves(part, "near")
        assert list(curves) == list(networks.NETWORKS) and networks.SMALL[part] in curves.index
    small = [sizes.curves(part, "near").loc[networks.SMALL[part]] for part in networks.SMALL]
    assert all((one == small[0]).all() for one in small)
    rows = sizes.rows.copy()
    rows.loc[rows.index[rows["network"] == "DM-RegretNet"][0], "near"] = 0.0
    assert networks.Sizes(rows).ordered == (49, 50)


def test_hours_of_the_printed_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "record", lambda name: {"log": [{}] * 10, "cpu_seconds": 3600.0})
    assert networks.printed_hours() == 5.0


def test_factors_at_which_dm_is_lowest() -> None:
    rows = [
        {"refuses": False, "sizes": "IID", "auction": label, "factor": factor, "error": error, "invalid": 0.0}
        for factor, least in ((0.1, 1.0), (2.0, 3.0))
        for label, error in (dict.fromkeys(regret.USED, 2.0) | {"DM + OptAggr": least}).items()
    ]
    table = pd.DataFrame(rows).set_index(["refuses", "sizes", "auction", "factor"])
    assert regret.Bounds(table).lowest("IID") == [0.1]


# --- regret -----------------------------------------------------------------------------------------------------------


def metrics(value: float) -> Metrics:
    return Metrics(**{part.name: Estimate(value, 0.1) for part in fields(Metrics)})


@pytest.mark.parametrize(("fixed", "order"), [(2.0, "DM above"), (0.5, "DM below"), (1.0, "mixed")])
def test_order_of_the_networks(fixed: float, order: str) -> None:
    ours = {(kind, name): metrics(1.0) for kind in regret.KINDS for name in regret.RANDOM}
    ours |= {(kind, name): metrics(fixed) for kind in regret.KINDS for name in regret.FIXED}
    found = regret.ranking(ours)
    assert set(found.orders.values()) == {order}
    assert found.dm_above == (order == "DM above")


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
