"""What the pages on auctions and learning run, on cases small enough to know the answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hdpm_book.federated import learning, menus
from hdpm_book.federated.partition import draw_bids
from hdpm_lib.auctions.posted_prices import posted_prices
from tests.learners.test_fedsgd import records
from tests.support import generator


def test_menus_in_another_order_are_gamed() -> None:
    market = draw_bids(generator(83).integers(5, 50, (70, 10)), generator(84))
    case = menus.trial({"one": market})
    gaining = [(menus.gains_of_lies(case, rule, [0]) > 1e-9).any() for rule in (menus.auction, menus.cheapest_first)]
    assert gaining == [False, True]


def small() -> learning.Records:
    x, y = records(generator(85), 400)
    x_test, y_test = records(generator(86), 100)
    return learning.Records(x, y, x_test, y_test, ("none", "none"))


@pytest.mark.parametrize("kind", learning.KINDS)
def test_people_share_all_records(kind: str) -> None:
    data, rng = small(), generator(87)
    market = learning.people(data.labels, kind, 2, rng, owners=12, least=1)
    for rows, sizes in zip(market.rows, market.bids.sizes, strict=True):
        assert [len(own) for own in rows] == sizes.tolist()
        assert len(np.unique(np.concatenate(rows))) == len(np.concatenate(rows))
    asked = np.array([[[3, 5], [0, 1]]])
    expected = np.stack([market.bids.rate[0, [3, 5]], market.bids.rate[1, [0, 1]]])
    assert (market.bids_of(asked).rate == expected[None]).all()
    assert len(market[:1].rows) == len(market[:1].bids.rate) == 1


def test_noise_is_as_long_as_predicted() -> None:
    data = small()
    market = learning.people(data.labels, "IID", 30, generator(88), owners=20, least=5)
    learned = learning.learn(data, market, generator(89), np.zeros((5, 4)), asked=4, rounds=20, rules=learning.NOISY)
    for name, rule in learning.NOISY.items():
        assert rule is not None
        length = learning.predicted_noise(data, market, learned.asked, rule)
        assert learning.distance(learned.training.noise[name]) == pytest.approx(length, rel=0.1)
        assert learned.noise_over_signal(name) > 1


def test_a_lead_has_to_be_beyond_chance() -> None:
    found = learning.Comparison([1.0], 5.0, 4.8, 9.0, 1, True)
    assert found.holds
    for change in ({"together": 4.7}, {"baseline_leads": 4.7}, {"bound_is_lower": False}):
        assert not replace(found, **change).holds


def test_an_auction_is_held_once_and_its_limits_count() -> None:
    data = small()
    market = learning.people(data.labels, "Non-IID", 2, generator(90), owners=12, least=1)
    start, options = np.zeros((5, 4)), {"asked": 3, "rounds": 4, "rules": learning.NOISY}
    bought = learning.learn(data, market, generator(91), start, auction=posted_prices, money=generator(92), **options)
    assert bought.bought is not None and bought.bought.privacy_loss.shape == (4, 2, 3) == bought.sizes.shape
    assert (bought.bought.payments.sum(-1) <= bought.bought.budget).all()
    everything = learning.learn(data, market, generator(91), start, **options)
    assert (bought.asked == everything.asked).all()
    assert (bought.training.privacy_loss <= everything.training.privacy_loss).all()
