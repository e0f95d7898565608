"""What the page on menus runs, on a case small enough to know the answer."""

from __future__ import annotations

from hdpm_book.federated import menus
from hdpm_book.federated.partition import draw_bids
from tests.support import generator


def test_menus_in_another_order_are_gamed() -> None:
    market = draw_bids(generator(83).integers(5, 50, (70, 10)), generator(84))
    case = menus.trial({"one": market})
    gaining = [(menus.gains_of_lies(case, rule, [0]) > 1e-9).any() for rule in (menus.auction, menus.cheapest_first)]
    assert gaining == [False, True]
