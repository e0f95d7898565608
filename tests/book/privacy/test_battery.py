"""The battery: every harmful mutant is caught by the checks its row names, no harmless one breaks a promise."""

from __future__ import annotations

import functools
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hdpm_book.privacy.battery import DRAWS, LEVEL, Report, audit_learner, objection, run, settings
from hdpm_book.privacy.benches import RUNS, Setting, listed_law, missing_digits, opened
from hdpm_book.privacy.bugs import Part, other_perturbation
from hdpm_book.privacy.laws import smallest_p, spherical_law
from hdpm_book.privacy.mutants import (
    BITS,
    BUDGET,
    CENTRE,
    CHECKS,
    GRID,
    LAW,
    LEARNERS,
    METER,
    MUTANTS,
    PRIVACY,
    REPEATS,
    Mutant,
    find_mutant,
)
from hdpm_lib.discrete import discrete_laplace
from hdpm_lib.learners import fedsgd, queries, ridge
from hdpm_lib.noise import spherical_laplace
from hdpm_lib.validation import FALSE_ALARM
from tests.support import generator


@functools.cache
def correct(learner: str) -> Report:
    return audit_learner(learner, rng=generator(301, LEARNERS.index(learner)))


@pytest.mark.parametrize("learner", LEARNERS)
def test_correct_learner_passes(learner: str) -> None:
    report = correct(learner)
    assert report.needed == {}, report
    assert report.budget == pytest.approx(1, abs=2e-6)  # attained: an error of a hundred-thousandth would show
    assert (0.5 if learner == "sampling" else 0.996) < report.meter <= 1 + 1e-9
    assert report.centre < 0.2 and set(report.p_values) & set(DRAWS)


def counted(mutant: Mutant) -> tuple[Mutant, Counter[str]]:
    """The mutant, and a count of the calls of its part."""
    place, attribute, part = mutant.part
    calls: Counter[str] = Counter()
    function = part.fget if isinstance(part, property) else part

    def counting(*args: Any, **more: Any) -> Any:
        calls[attribute] += 1
        return function(*args, **more)

    return replace(
        mutant, part=(place, attribute, property(counting) if isinstance(part, property) else counting)
    ), calls


@pytest.mark.parametrize("number", range(len(MUTANTS)), ids=[f"{m.learner}: {m.name}" for m in MUTANTS])
def test_mutant(number: int) -> None:
    mutant, calls = counted(MUTANTS[number])
    checks = mutant.caught_by or (CHECKS if mutant.harm else PRIVACY)
    report = run(mutant, rng=generator(302, number), checks=checks)
    found = report.needed
    assert sum(calls.values()) > 0, "no check ever used the part with the bug"
    if mutant.caught_by:
        assert set(mutant.caught_by) <= set(found), report
    elif mutant.harm:
        assert found == {}, report
    else:
        assert not set(found) & set(PRIVACY), report


def test_catalogue() -> None:
    assert len(MUTANTS) >= 50
    assert len({(m.learner, m.name) for m in MUTANTS}) == len(MUTANTS)
    for learner in LEARNERS:
        kinds = Counter((m.harm, bool(m.caught_by)) for m in MUTANTS if m.learner == learner)
        assert kinds[True, True] >= 1 and kinds[False, True] == 0, learner
    assert {check for m in MUTANTS for check in m.caught_by} == set(CHECKS)
    for mutant in MUTANTS:
        place, attribute, part = mutant.part
        right = getattr(place, attribute)
        assert part is not right
        with mutant.apply():
            assert getattr(place, attribute) is not right
        assert getattr(place, attribute) is right
    with pytest.raises(LookupError, match="no mutant 'none' of the learner 'ridge'"):
        find_mutant("ridge", "none")


def test_bug_is_gone_after_an_error() -> None:
    right = ridge.output_perturbation
    with pytest.raises(RuntimeError, match="inside"), find_mutant("ridge", "debug switch left in").apply():
        assert ridge.output_perturbation is not right
        raise RuntimeError("inside")
    assert ridge.output_perturbation is right


# --- what a report says -----------------------------------------------------------------------------------------------

CLEAN = Report("ridge", 1.0, 0.999, 1e-12, dict.fromkeys(DRAWS, 0.5), dict.fromkeys(RUNS, 0.5), 0, 0.5)


@pytest.mark.parametrize(
    ("change", "needed"),
    [
        ({}, {}),
        ({"budget": 1 + 1e-10, "meter": 1 + 1e-10}, {}),
        ({"budget": 1 + 1e-8}, {BUDGET: 0}),
        ({"meter": math.inf}, {METER: 0}),
        ({"centre": 1.1}, {CENTRE: 0}),
        ({"p_values": {100: 0.5, 1000: LEVEL / 2}}, {LAW: 1000}),
        ({"p_values": dict.fromkeys(DRAWS, 2 * LEVEL)}, {}),
        ({"bits": {1000: 0.5, 10_000: LEVEL / 2}}, {BITS: 10_000}),
        ({"bits": dict.fromkeys(RUNS, 2 * LEVEL)}, {}),
        ({"repeats": 1, "digits": FALSE_ALARM / 2}, {REPEATS: 100, GRID: 100}),
    ],
)
def test_thresholds(change: dict[str, Any], needed: dict[str, int]) -> None:
    assert replace(CLEAN, **change).needed == needed


@pytest.mark.parametrize("learner", LEARNERS)
def test_level_is_that_of_all_looks(learner: str) -> None:
    """No learner has more looks than share the level, so each check fails without cause at its rate."""
    for attribute, numbers in (("noise", "draws"), ("bits", "runs")):
        each = {n for s in settings(learner) if getattr(s, attribute) is not None for n in getattr(s, numbers)}
        assert len(each) * LEVEL <= FALSE_ALARM
    assert len({s.name for s in settings(learner)}) == len(settings(learner))


def test_errors_object(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ValueError("broken")

    monkeypatch.setattr(queries, "linear_query", broken)
    assert set(audit_learner("sum", rng=generator(305)).needed) >= {BUDGET, METER, CENTRE, LAW, BITS, GRID}
    assert objection("sum", rng=generator(305)) is not None


def test_unknown_learner() -> None:
    with pytest.raises(ValueError, match=r"learner must be 'ridge' or .* got 'svm'"):
        audit_learner("svm", rng=generator())


# --- the exact checks by themselves -----------------------------------------------------------------------------------

_constant, _query, _scale = ridge.sensitivity_constant, queries.linear_query, fedsgd.noise_scale
SLIGHT: dict[str, Part] = {  # noise one per cent too small
    "ridge": (ridge, "sensitivity_constant", lambda *given, **more: 0.99 * _constant(*given, **more)),
    "logistic": other_perturbation(lambda weights, eta, penalty: (weights, 1.01 * eta, penalty)),
    "sum": (queries, "linear_query", lambda shares, scale, **more: _query(shares, 0.99 * scale, **more)),
    "gradients": (fedsgd, "noise_scale", lambda epsilon, bound: 0.99 * _scale(epsilon, bound)),
}


def largest(learner: str, check: str) -> float:
    return max(look() for s in settings(learner) if (look := getattr(s, check)) is not None)


@pytest.mark.parametrize("learner", SLIGHT)
def test_one_per_cent(learner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*SLIGHT[learner])
    assert 1.005 < largest(learner, "meter") < 1.03
    assert (
        largest(learner, "budget") > 1.005 or learner == "sum"
    )  # that one tells her the loss that follows from its scale


def law_settings() -> list[tuple[str, Setting]]:
    return [(learner, s) for learner in LEARNERS for s in settings(learner) if s.noise is not None]


@pytest.mark.parametrize("learner", LEARNERS)
def test_noise_is_that_of_the_releases(learner: str) -> None:
    """The law of the longest look at each learner: it fits, and hardly another one."""
    each = [s for name, s in law_settings() if name == learner]
    setting = max(each, key=lambda s: max(s.draws))
    assert setting.noise is not None and setting.law is not None
    draws = max(setting.draws)
    noise = setting.noise(draws, generator(303, LEARNERS.index(learner)))
    assert len(noise) >= draws and smallest_p(setting.law(noise)) > LEVEL
    factor = 0.05 if draws == 10_000 else 0.35
    for wrong in ((1 - factor) * noise, (1 + factor) * noise):
        assert smallest_p(setting.law(wrong)) < FALSE_ALARM


# --- tools of the benches ---------------------------------------------------------------------------------------------


def test_missing_digits() -> None:
    z = generator(306).standard_normal((100, 3))
    assert missing_digits(z) > LEVEL and missing_digits(z.astype(np.float32)) < 1e-100
    assert missing_digits(np.round(z * 2**40) / 2**40) < 1e-100 and missing_digits(np.zeros(40)) < 1e-100
    rare = z.copy()
    rare[::7] = rare[::7].astype(np.float32)
    assert missing_digits(rare) < FALSE_ALARM
    ps = np.array([missing_digits(generator(307, k).standard_normal(50)) for k in range(400)])
    assert 0.3 < np.mean(ps < 0.5) < 0.6


def test_opened_noise_has_the_law_without_a_ball() -> None:
    z = spherical_laplace(3, 1.0, rng=generator(308), size=10_000)
    radius, norm = 3.0, np.linalg.norm(z, axis=1, keepdims=True)
    pulled = z * np.minimum(1, radius / norm)
    assert 0.3 < (norm > radius).mean() < 0.7
    assert smallest_p(spherical_law(opened(pulled, radius, generator(309)), 1.0)) > FALSE_ALARM
    redrawn = z[norm[:, 0] <= radius]  # until it lies inside: another law
    assert smallest_p(spherical_law(opened(redrawn, radius, generator(309)), 1.0)) < FALSE_ALARM


def test_listed_law() -> None:
    scale = Fraction(5, 2)
    k = np.arange(-120, 121)
    listed = np.tanh(0.5 / 2.5) * np.exp(-np.abs(k) / 2.5)
    drawn = discrete_laplace(scale, rng=generator(310), size=(2000, 1))
    assert smallest_p(listed_law(drawn, k[:, None], listed)) > FALSE_ALARM
    assert smallest_p(listed_law(2 * drawn, k[:, None], listed)) < FALSE_ALARM
    assert smallest_p(listed_law(drawn[drawn[:, 0] != 0], k[:, None], listed)) < FALSE_ALARM


def test_disguised_noise_has_the_right_law_and_returns() -> None:
    """Nothing objects to it, although each draw of the second half follows from one of the first."""
    setting, bug = settings("ridge")[1], find_mutant("ridge", "noise reused, disguised")
    assert setting.noise is not None and setting.law is not None
    with bug.apply():
        noise = setting.noise(1000, generator(304)).reshape(10, 100, -1)  # ten calls
    assert smallest_p(setting.law(noise.reshape(1000, -1))) > FALSE_ALARM
    first, second = noise[:, :50], noise[:, 50:]
    np.testing.assert_allclose((first * second).sum(-1), 0, atol=1e-9 * np.abs(noise).max() ** 2)
    ranks = [np.argsort(np.argsort(np.linalg.norm(half, axis=-1).ravel())) for half in (first, second)]
    np.testing.assert_array_equal(ranks[0] + ranks[1], 499)
