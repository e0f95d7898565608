"""The explorer's numbers against the library, and the guide's against something independent."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from hdpm_book.beyond import guide
from hdpm_book.beyond.tied import tied_error
from hdpm_lib.designs.comparison import compare_markets, law_of
from hdpm_lib.designs.rules import Deal, Market

MARKETS = [(100, 2, 30), (100, 20, 1000), (300, 5, 3), (300, 1.5, 100), (1000, 5, 100), (1000, 20, 10)]
TIED = 0.3


def same_digits(x: float, stored: float, count: int = 3) -> bool:
    """Whether a number is stored rounded; at the edge of two roundings both are right."""
    return abs(x - stored) <= 0.5000001 * 10.0 ** (np.floor(np.log10(max(abs(stored), 1e-12))) + 1 - count) + 1e-9


# --- the stored frames ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("market", MARKETS, ids=str)
def test_frames_are_what_compare_markets_says(market: tuple[int, float, float]) -> None:
    sellers, spread, budget = market
    table = compare_markets(
        stats.uniform(1, spread - 1),
        guide.TASK,
        budget,
        sellers=sellers,
        truth=guide.TRUTH,
        draws=guide.DRAWS[sellers],
        rng=np.random.default_rng(0),
    )
    stored = guide.stored_frame(sellers, spread, budget)
    assert list(stored.index) == list(table.index)
    for ours, theirs in [
        ("error, r = 0", "error"),
        ("worst", "worst"),
        *zip(guide.COLUMNS, guide.COLUMNS, strict=True),
    ]:
        for name in table.index:
            x, y = table.loc[name, theirs], stored.loc[name, ours]
            assert same_digits(x, y), (name, ours, x, y)
    off = 100 * table["error_se"] / table["error"]
    assert np.abs(off - stored["r = 0, % off"]).max() < 0.0051


def test_the_comparison_of_frames_can_fail() -> None:
    assert same_digits(0.02724, 0.0272) and same_digits(0.027250001, 0.0272) and same_digits(1234.9, 1230)
    assert not same_digits(0.02726, 0.0272) and not same_digits(1236.0, 1230) and not same_digits(1e-6, 0.0)


def test_tied_frames_are_those_of_the_study_of_ties() -> None:
    """Errors at a correlation, from the records of drawn costs in one market, as `tied_error` has them."""
    sellers, spread, budget = 100, 5, 100
    law = stats.uniform(1, spread - 1)
    costs = np.asarray(law.ppf(guide.quantiles(sellers)))
    stored = guide.stored_frame(sellers, spread, budget)[f"error, r = {TIED:g}"]
    for name, deal in guide.deals(Market(guide.TASK, law, budget), costs).items():
        squares = tied_error(deal, costs, law, guide.RECORDS.ppf, 0.5, TIED, guide.TASK)
        assert np.isclose(np.sqrt(squares.mean()), stored[name], rtol=6e-3), name


def test_all_choices_are_stored() -> None:
    found = guide.study()
    assert found["sellers"] == list(guide.DRAWS) and found["draws"] == list(guide.DRAWS.values())
    assert tuple(found["budgets"]) == guide.BUDGETS and tuple(found["spreads"]) == guide.SPREADS
    assert tuple(found["correlations"]) == guide.CORRELATIONS
    assert len(found["frames"]) == 176 and {len(frame) for frame in found["frames"]} == {14}
    numbers = np.array(found["frames"])
    assert numbers.shape == (176, 14, 17) and np.isfinite(numbers).all() and (numbers >= 0).all()
    assert guide.STUDY.stat().st_size < 300_000
    spent = guide.all_frames()
    assert (spent["money"] <= 1.02 * spent["budget"]).all()


def test_neighbouring_frames_are_smooth() -> None:
    """With more money, costs of less spread or more sellers no error of the auction rises by more than the noise."""
    rows = guide.all_frames().query("design == @guide.AUCTION").set_index(["n", "spread", "budget"])["error, r = 0"]
    cube = rows.to_numpy().reshape(4, 4, 11)
    assert (np.diff(cube, axis=2) < 0).all()
    assert (np.diff(cube, axis=1) > 0).mean() > 0.95 and (np.diff(cube, axis=1) > -0.01 * cube[:, 1:]).all()
    assert (np.diff(cube, axis=0) < 0.01 * cube[1:]).all()


# --- errors with ties -------------------------------------------------------------------------------------------------


def test_proposition_for_normal_records() -> None:
    """The closed form with scores against the quadrature of `tied_error`, for normal costs and records."""
    rng = np.random.default_rng(4)
    z, w = rng.standard_normal((5, 40)), rng.dirichlet(np.ones(40), 5)
    tau, noise = 0.2, np.full(5, 0.003)
    deal, X = Deal(w, weights=w, noise=noise, money=noise, shrink=np.ones(5)), tau**2 * (w**2).sum(-1) + noise
    bracket = (w * z).sum(-1) ** 2 - (w**2).sum(-1)
    for r in (-0.8, 0.3, 0.7):
        found = tied_error(deal, z, stats.norm(), lambda u: 0.5 + tau * stats.norm.ppf(u), 0.5, r, guide.TASK)
        assert np.allclose(found, X + r**2 * tau**2 * bracket, rtol=0.02)
        assert not np.allclose(found, X + r * tau**2 * bracket, rtol=0.02)


def test_records_have_the_moments_they_should() -> None:
    assert np.allclose([guide.RECORDS.mean(), guide.RECORDS.var()], [0.20735, 0.035777], rtol=1e-9)
    u = np.random.default_rng(5).random(1000)
    assert np.abs(guide.skewed(u) - guide.RECORDS.ppf(u)).max() < 1e-4


# --- what is shown ----------------------------------------------------------------------------------------------------


def test_the_winner_is_the_market_of_least_error() -> None:
    rows = guide.explorer_table(**guide.DEFAULT)
    assert guide.winner(rows).startswith(f"Least error of all markets: {guide.AUCTION}, 0.0272.")
    assert "Within two standard errors of it: " in guide.winner(guide.explorer_table(1000, 5, 1000, 0, "worst"))
    assert rows.index[0] == guide.KNOWN  # the benchmark is shown, but does not win
    first = rows.drop(guide.KNOWN)
    poor = first.assign(error=["0.300"] * len(first), **{"± %": "0.00"})
    poor.loc[guide.NOTHING, "error"] = "0.293"
    poor = pd.concat([rows.loc[[guide.KNOWN]], poor.sort_values("error", kind="stable")])
    assert guide.winner(poor) == "No market is better than buying nothing, error 0.293."


def test_the_page_holds_every_stored_number() -> None:
    text = guide.Explorer()._repr_html_()
    begin = text.index('<script type="application/json">') + len('<script type="application/json">')
    held: dict[str, Any] = json.loads(text[begin : text.index("</script>", begin)])
    assert held["frames"] == guide.study()["frames"] and held["designs"] == guide.study()["designs"]
    assert "</" not in text[begin : text.index("</script>", begin)]


# --- the guide --------------------------------------------------------------------------------------------------------


def test_reach_is_the_noise_of_paying_all_alike() -> None:
    """p and X of the page against the deal itself."""
    law, n, budget = stats.uniform(1, 4), 50, 20.0
    costs = np.asarray(law.ppf(np.random.default_rng(0).random((3, n))))
    deal = guide.deals(Market(guide.TASK, law, budget), costs, [guide.ALIKE])[guide.ALIKE]
    p = guide.reach(budget, 5, 0.2)
    assert np.allclose(0.2**2 * (deal.weights**2).sum(-1) + deal.noise, 0.2**2 / n + 0.2**2 / p**2, rtol=1e-12)


def test_the_rule_is_judged_right() -> None:
    ones = np.ones(4)
    check = guide._judged(
        2 * ones,
        ones,
        np.array([3, 1, 3, 1]),
        0.1 * ones,
        np.array([0.1, 0.3, 0.3, 0.9]),
        np.array([2.0, 2.0, 3.0, 0.5]),
    )
    inside, outside = check["in its range"], check["alpha < 1 and |r| > 1/2"]
    assert (inside.markets, inside.near, inside.regret, inside.stake, inside.hurt) == (3, 1 / 3, 2.0, 2.0, 1 / 3)
    assert (outside.markets, outside.near, outside.hurt) == (1, 0.0, 1.0)


def test_a_rule_that_looks_away_is_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    good = guide.rule_on_frames()["in its range"]
    for limit in (0.0, np.inf):  # always alike, always the auction
        monkeypatch.setattr(guide, "LIMIT", limit)
        bad = guide.rule_on_frames()["in its range"]
        assert bad.near < good.near - 0.1 and bad.regret > 2 * good.regret


def test_flip_lies_between_the_frames() -> None:
    """The auction wins at 0.1 and loses at 0.3 in the stored market of 1000 sellers, costs up to 5, budget 100."""
    rows = guide.stored_frame(1000, 5, 100)
    assert rows.loc[guide.AUCTION, "error, r = 0.1"] < rows.loc[guide.ALIKE, "error, r = 0.1"]
    assert rows.loc[guide.AUCTION, "error, r = 0.3"] > rows.loc[guide.ALIKE, "error, r = 0.3"]
    assert 0.1 < guide.flip(100).found < 0.3


def test_under_a_survey_the_auction_loses_before_line_4_begins() -> None:
    """That line counts with the highest cost, which M2 does not pay. Crossings against the errors on both sides."""
    answers = guide.survey()
    found = guide.crossings(answers, 100.0, draws=10)
    first = found.loc["uniform on [0, 1], large ones dear"]
    limit = guide.LIMIT / guide.reach(100.0, answers.max(), 12**-0.5)
    assert first[guide.SHRUNK] < first[guide.ALIKE] < limit - 0.05
    law = law_of(answers)
    costs = np.asarray(law.ppf(np.random.default_rng(0).random((10, len(answers)))))
    bought = guide.deals(Market(guide.TASK, law, 100.0), costs, (guide.AUCTION, guide.SHRUNK))
    for r, sign in ((first[guide.SHRUNK] - 0.02, 1), (first[guide.SHRUNK] + 0.02, -1)):
        auction, m2 = (
            tied_error(bought[name], costs, law, lambda u: u, 0.5, r, guide.TASK).mean()
            for name in (guide.AUCTION, guide.SHRUNK)
        )
        assert sign * auction < sign * m2


def test_line_0_finds_where_nothing_should_be_bought() -> None:
    """In eight markets of each kind of costs; without it the guide is further off."""
    table = guide.rule_on_other_costs(8)
    nothing = table["buying nothing is best"].str.split().str[0].astype(int)
    assert nothing.sum() > 0 and (table["line 0 says so"].astype(int) == nothing).all()
    without, whole = (table[name].astype(float) for name in ("at most", "at most "))
    assert (whole <= without).all() and (whole < without - 0.1).any()
