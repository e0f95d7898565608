"""What the pages of the contract chapter measure: small runs, and each kind of check fails on something broken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hdpm_book.contracts import appendix, beyond, idea, mechanisms, queries
from hdpm_book.contracts.printed import unbiased_pricing
from hdpm_book.ledger import get
from hdpm_lib.learners.queries import BiasedLaplace
from hdpm_lib.markets.contracts import equal_loss_contract
from hdpm_lib.markets.mechanisms import equal_loss_pricing, vcg_contract
from hdpm_lib.markets.outcome import Contract, Outcome


def test_staircase_stays_in_the_band() -> None:
    K = np.r_[np.geomspace(1e-4, 20, 60), np.linspace(20.2, 24.99, 20)]
    curves = idea.loss_curves(10, K)
    near = {name: curves[name] < idea.NEAR * curves["no algorithm below"] for name in ("biased", "biased, staircase")}
    assert near["biased, staircase"].all()
    assert near["biased"][K > 0.2].all() and not near["biased"][K < 0.05].any()


def test_answers_are_as_promised() -> None:
    check = idea.answer_check(problems=20)
    assert check.unbiased and check.biased and check.caught == 20


def test_biased_answer_that_uses_more_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    mean = BiasedLaplace.mean
    monkeypatch.setattr(
        BiasedLaplace, "mean", lambda self, terms: mean(replace(self, shares=np.sqrt(self.shares)), terms)
    )
    check = idea.answer_check(problems=20)
    assert not check.biased


def test_wrong_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    release = BiasedLaplace.release
    monkeypatch.setattr(
        BiasedLaplace,
        "release",
        lambda self, *args, **more: release(replace(self, scale=1.1 * self.scale), *args, **more),
    )
    noise, drawn = idea.noise_check(), idea.release_check(runs=2)
    assert noise.p_value < noise.limit and drawn.biased > drawn.limit


def test_wrong_closed_form_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(n: int, max_mse: float) -> Contract:
        one = equal_loss_contract(n, max_mse)
        return replace(
            one, privacy_loss=one.privacy_loss * np.sqrt((2 * n**2 - 4 * max_mse) / (2 * n**2 - 8 * max_mse))
        )

    assert idea.equal_losses(problems=20).holds
    monkeypatch.setattr(idea, "equal_loss_contract", other)
    assert not idea.equal_losses(problems=20).closed_form


def test_grid_never_finds_a_cheaper_contract() -> None:
    grid = appendix.grid_check(markets=8)
    assert grid.better == 0 and 0 <= grid.worse < 0.1


def test_mechanism_that_pays_too_little_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_bid(reports: Any, K: float, ceiling: float, *, power: float) -> Outcome:
        fair = vcg_contract(reports, K, ceiling, power=power)
        return Outcome(fair.privacy_loss, np.asarray(reports) * fair.privacy_loss**power)

    def short(reports: Any, K: float, ceiling: float, *, power: float) -> Outcome:
        fair = unbiased_pricing(reports, K, ceiling, power=power)
        return Outcome(fair.privacy_loss, 0.99 * fair.payments)

    monkeypatch.setattr(mechanisms, "MECHANISMS", {"M2": vcg_contract, "as bid": as_bid, "short": short})
    search = mechanisms.search_for_lies(markets=1)
    assert search["M2"].clean
    assert search["as bid"].gain > 0.01 and not search["as bid"].clean
    assert search["short"].utility < -0.001 and not search["short"].clean


def test_no_lie_gains_where_the_loss_never_rises() -> None:
    table = mechanisms.with_algorithm1(markets=4)
    assert (table.loc["exact"] == 0).all()
    assert (table["a lie gains in"] <= table["loss rises in"]).all()


def test_payment_gap_needs_sellers_at_the_ceiling_with_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    gaps = mechanisms.payment_gap(markets=2)
    assert gaps.larger and gaps.equal and not gaps.larger_at_top

    def generous(v: Any, K: float, ceiling: float, *, power: float) -> Outcome:
        fair = equal_loss_pricing(v, K, ceiling, power=power)
        return Outcome(fair.privacy_loss, 1.01 * fair.payments)

    monkeypatch.setattr(mechanisms, "equal_loss_pricing", generous)
    gaps = mechanisms.payment_gap(markets=2)
    assert gaps.larger and gaps.larger_at_top and not gaps.equal


def test_experiment_at_a_small_scale() -> None:
    found = mechanisms.experiment(draws=5000)
    assert found.ordered and found.falling and found.same_ratios and found.two_ways < found.needed
    assert not replace(found, m1=found.m3, m3=found.m1).ordered


def test_bounds_of_nonlinear_queries() -> None:
    found = queries.random_queries(count=20)
    assert found.loss[2] < 1 + 1e-12 and found.error[2] < 1 + 1e-12 and found.attained_one == 1
    assert queries.unmixed_excess(problems=10).min() > -1e-7


def test_vectors_with_numbers_noise_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    assert queries.vector_check(cases=2, releases=2000).released
    release = BiasedLaplace.release
    monkeypatch.setattr(
        BiasedLaplace,
        "release",
        lambda self, *args, **more: release(replace(self, scale=2 * self.scale), *args, **more),
    )
    assert not queries.vector_check(cases=2, releases=2000).released


def test_exact_losses_of_the_example() -> None:
    curves = queries.example_curves(np.array([0.05, 1 / 16, 0.4]))
    assert (curves.ratio < 1).all() and (curves.exact_ratio < 1).all()
    assert curves.one_term == pytest.approx([np.sqrt(2 / 0.05 - 32), 0, 0], abs=1e-6)
    assert curves.printed_error[2] == pytest.approx(0.49)


def test_much_lower_is_a_stated_number_that_small_errors_miss() -> None:
    curves = queries.example_curves(np.array([0.05, 0.4]))
    assert curves.ratio[0] > 0.9 and curves.ratio[1] < 0.5 and curves.exact_ratio[0] > 0.7
    claim = get("khalili-fig5")
    assert "much" in claim.statement and claim.verdict == "partial" and "at most half" in str(claim.note)


def test_buyer_with_a_known_law_pays_more_than_twice_the_least_cost() -> None:
    curves = beyond.price_curves(np.array([0.25, 4, 22]), draws=2000)
    assert curves["law known"].min() > 2
    assert (curves["law known"] < curves["M2"]).all() and (curves["M2"] < curves["M1"]).all()


def test_two_ways_to_the_saving_agree() -> None:
    saved = beyond.law_savings()
    assert saved.deviation < saved.needed and saved.cells == 30
    assert (saved.table.filter(like="power law", axis=0).iloc[:, :5] == "0.00").all(axis=None)


def test_mean_of_two_point_laws() -> None:
    for K, top in ((1.25, 0.46), (4.0, 0.3)):
        by_sum = beyond.mean_ratios(10, np.array([K]), np.array([top])).item()
        assert by_sum == pytest.approx(beyond.mean_ratio_of_mechanism(K, top))
    assert beyond.gap_check().agrees
