"""Every option of the learners' public functions is run by the battery at every kind of value; the lists of pairs."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections import defaultdict
from functools import cache
from typing import Any

import numpy as np
import pytest

from hdpm_book.privacy import battery, coverage, pairs
from hdpm_book.privacy.benches import alternatives, choices, together
from hdpm_book.privacy.mutants import CHECKS, LEARNERS, find_mutant
from hdpm_lib.learners import estimators, ridge


@cache
def seen() -> coverage.Coverage:
    return coverage.Coverage(coverage.run())


def test_every_option_is_run() -> None:
    assert seen().missed == set()


def test_every_empty_cell_has_a_reason() -> None:
    table = seen().table()
    assert set(table.columns) == set(CHECKS) and len(table) > 50 and not (table == "?").any(axis=None)
    assert set(table.stack()) & set("abcdefghi") and set(coverage.reasons().index) == set("abcdefghi")
    assert seen().unexplained == set()


def test_functions_that_draw_are_found() -> None:
    names = set(coverage.functions())
    assert {
        "ridge.output_perturbation",
        "ridge.OutputPerturbation.release",
        "fedsgd.fedsgd",
        "estimators.PersonalizedRidge",
    } <= names
    assert {"lattice.lattice_ridge", "integer_answers.integer_sum", "variants.private_constant"} <= names
    assert not names & set(coverage.LEFT_OUT)
    assert all(not inspect.isclass(function) for function in coverage.functions().values())


def test_a_new_option_would_be_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    def output_perturbation(
        X: Any, y: Any, epsilon: Any, penalty: float, *, shiny: bool = False
    ) -> ridge.OutputPerturbation:
        raise AssertionError

    output_perturbation.__module__ = ridge.__name__
    with pytest.raises(KeyError, match="shiny"):
        alternatives(lambda shiny=1: None, {})
    assert choices(output_perturbation, "shiny") == (False, True)
    known = {**coverage.functions(), "ridge.output_perturbation": output_perturbation}
    monkeypatch.setattr(coverage, "functions", lambda: known)
    assert {
        ("ridge.output_perturbation", "shiny", "True"),
        ("ridge.output_perturbation", "shiny", "False"),
    } <= seen().missed


def test_kinds() -> None:
    release = ridge.OutputPerturbation.release
    sizes = {"one": (), "a batch": 5, "a table": (2, 3)}
    for kind, size in sizes.items():
        assert coverage.kind_of(release, "size", size) == {kind}
    assert coverage.wanted(ridge.output_perturbation, "bound") == {"paper", "sharp"}
    assert coverage.wanted(ridge.output_perturbation, "feature_norm") == {"none", "given"}
    assert coverage.wanted(estimators.PersonalizedRidge, "penalty") == {"the default", "another"}
    assert coverage.kind_of(ridge.output_perturbation, "X", np.zeros((3, 12), np.float32)) == {"float32", "12 features"}
    assert coverage.kind_of(ridge.output_perturbation, "label_bound", 2.0) == {"another"}


def test_watching_sees_through_other_callers() -> None:
    found: coverage.Seen = defaultdict(set)
    with coverage.watched(found):
        estimators.PersonalizedRidge(arithmetic="ideal").fit([[0.5], [0.25]], [0.5, 0.25])
    assert found["ridge.output_perturbation", "bound"] == {"sharp"} and found[
        "ridge.OutputPerturbation.release", "size"
    ] == {"one"}


def test_together_tries_what_alternatives_tries() -> None:
    values = {"feature_norm": (2.5,), "label_bound": (0.5, 2.0), "norm_bound": (0.3,)}
    one = {(k, v) for option in alternatives(ridge.output_perturbation, values) for k, v in option.items()}
    both = {(k, v) for option in together(ridge.output_perturbation, values) for k, v in option.items()}
    assert one == both and len(together(ridge.output_perturbation, values)) == 2


# --- every pair -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", pairs.LISTED)
def test_no_pair_loses_more_than_promised(learner: str) -> None:
    found = pairs.listed(learner)
    assert all(0 < one.share <= 1 + 1e-12 and one.pairs > 200 for one in found)
    assert max(one.share for one in found) > 0.99
    with pytest.raises(ValueError, match="learner must be"):
        pairs.listed("sum")


def test_lists_object_to_mutants() -> None:
    names = {(m.learner, m.name) for m in pairs.objecting()}
    assert {("integers", "gradients rounded, not cut"), ("integers", "data not clipped")} <= names
    assert {("lattice", "label bound above 1 forgotten"), ("lattice", "labels not clipped")} <= names
    assert all(find_mutant(*name).harm for name in names)


def test_noise_of_the_data_is_an_infinite_loss() -> None:
    moves = pairs.farthest_moves(lambda d: (0, d[0]), [[1, 2]])
    assert pairs._pairs("x", moves, pairs.Fraction(0)).share == math.inf


def test_settings_are_distinct() -> None:
    for learner in LEARNERS:
        assert all(dataclasses.is_dataclass(setting) for setting in battery.settings(learner))
