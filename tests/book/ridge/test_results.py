"""Results of the ridge pages say no where they should."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from hdpm_book.ridge import accuracy, figures, idea, limits, study, tables


def test_norm_bound_holds_for_half_a_pair_only() -> None:
    pair = limits.bound_pair()
    assert pair.half_holds and pair.loss > pair.accepted > pair.covered > pair.clipped
    assert not replace(pair, covered=0.011).half_holds and not replace(pair, loss=0.01).half_holds


def test_hidden_losses_are_told_by_a_rate_and_not_by_one_release() -> None:
    found = limits.hidden_losses()
    assert found.only_once
    assert not replace(found, once=0.6).only_once and not replace(found, error=1e-3).only_once


def test_scatter_wants_chance() -> None:
    z = np.random.default_rng(0).standard_normal(20)
    assert tables.Scatter(z).by_chance and not tables.Scatter(z + 3).by_chance
    assert tables.Scatter(np.full(5, -2.0)).rms == 2


def test_layout_has_the_columns_of_the_table() -> None:
    ours = study.published(13).printed
    run = tables.Calibrated({}, {}, {13: ours})
    runs = tables.Runs(np.zeros(1), 5.0, {(11, 1.0, "reg_pdp_op", "std"): 0.02})
    printed, shown, caption, names, errors = tables.layout(13, run, runs)
    assert shown is ours and list(names) == list(printed) and "Table 13" in caption
    assert errors.loc[1.0, "reg_pdp_op"] == 0.02 and errors.isna().sum().sum() == errors.size - 1


def test_size_law_is_binomial_for_equal_probabilities() -> None:
    law = figures.size_law(np.full((1, 3), 0.25))
    np.testing.assert_allclose(law, [[27 / 64, 27 / 64, 9 / 64, 1 / 64]])


def test_sweep_counts_where_weighting_is_lowest() -> None:
    values = np.ones((2, 3, 4, 4)) + np.arange(4)  # methods in rising order
    assert figures.Sweep(values, 9.0).lowest([0, 1]) == (12, 12)
    values[0, 0, 1, 0] = 2.5
    assert figures.Sweep(values, 9.0).lowest([0, 1]) == (11, 12)
    ratio, gap = figures.Sweep(values, 9.0).medians(0)
    assert (ratio == [[4, 2, 3]]).all() and (gap == [[1, 2]]).all()


def test_a_label_turned_uses_nearly_all_at_a_large_penalty() -> None:
    shares = [idea.turned_share(penalty) for penalty in (1.0, 100.0, 1e4)]
    assert shares == sorted(shares) and 0.99 < shares[-1] <= 1
    assert idea.density_ratio().right


def test_inequalities_of_the_accuracy_proof() -> None:
    found = accuracy.tail_check()
    assert found.hold and found.gamma < found.printed and not replace(found, markov=1.1).hold
    few = accuracy.terms_check(20)
    assert few.as_said and not replace(few, falling=19).as_said


def test_misses_beyond_delta_are_seen() -> None:
    runs = accuracy.coverage(200).runs
    assert not accuracy.Coverage(pd.concat([runs, runs.assign(limit=1.5)])).holds
