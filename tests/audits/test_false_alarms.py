"""The audit of any mechanism: false alarms, levels, replay, time, learners as they are."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.preprocessing import StandardScaler

from hdpm_lib import audit, spread
from hdpm_lib.learners.ridge import output_perturbation
from hdpm_lib.validation import FALSE_ALARM
from tests.audits.mechanisms import ONE, ZERO, Rng, few, fine, laplace, one_at_a_time
from tests.support import SEED


def test_every_seller_against_her_own_promise() -> None:
    """Four of five promises are kept exactly; the fourth loses half more."""
    promised = np.array([0.2, 0.5, 1.0, 1.0, 2.0])
    lost = promised * [1, 1, 1, 1.5, 1]
    release = lambda data, rng, size: fine(data @ lost + rng.laplace(0, 1, size))  # noqa: E731
    found = few(release, np.zeros(5), lambda i: np.eye(5)[i], promised)
    assert found.found.tolist() == [False, False, False, True, False]
    assert found.table().index[0] == 3 and "record 3" in str(found)
    searched = few(release, np.zeros(5), "search", promised, among=np.array([0.0, 1.0]))
    assert searched.found.tolist() == found.found.tolist()


X = np.full((6, 1), 1.0)
y = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
TURNED = np.array([-1.0, 0.0, 0.0, 0.0, 0.0, 0.0])


def test_learners_and_estimators_as_they_are() -> None:
    learner = output_perturbation(np.full(6, 0.5), 1e4, features=1).release
    kept = few(learner, (X, y), (X, TURNED), 0.5)
    assert not kept.found and kept.replayable and kept.mechanism == "release"
    assert few(learner, (X, y), (X, TURNED), 0.2, runs=50_000).found
    assert few(StandardScaler(), X, X + 1.0, 2.0, runs=200).found  # data are no tuple


# --- replay, stopping, time ---------------------------------------------------------------------


def test_the_same_seed_gives_the_same_audit_in_any_number_of_processes() -> None:
    first = few(laplace, ZERO, ONE, 0.8, runs=5000)
    for processes in (1, 2):
        spread.use(processes)
        try:
            again = few(laplace, ZERO, ONE, 0.8, seed=first.seed, runs=first.planned)
        finally:
            spread.use(1)
        assert (again.looks, again.event) == (first.looks, first.event)
    one, other = (audit(one_at_a_time, ZERO, ONE, 1.0, runs=200) for _ in range(2))
    assert one.seed != other.seed and one.replayable
    assert not audit(
        lambda data: data.sum() + np.random.default_rng().laplace(), ZERO, ONE, 1.0, runs=200
    ).replayable
    found = few(partial(laplace, scale=0.5), ZERO, ONE, 1.0)
    assert f"seed={found.seed}, runs={found.planned}" in str(found)


def test_it_stops_early_only_if_asked() -> None:
    wrong = partial(laplace, scale=0.2)
    assert few(wrong, ZERO, ONE, 1.0).looks[-1].runs < 20_000
    once = few(wrong, ZERO, ONE, 1.0, early=False)
    assert [(look.runs, look.share) for look in once.looks] == [(20_000, 1.0)]
    with pytest.raises(ValueError, match="early must be True with a time_limit"):
        audit(wrong, ZERO, ONE, 1.0, early=False)


def test_tests_share_the_level() -> None:
    """All that are made, and those that would follow; found ones replay, also with a time limit."""
    for runs in (200, 999, 1000, 20_000):
        looks = few(laplace, ZERO, ONE, 1.0, runs=runs).looks
        assert looks[-1].runs == runs
        assert sum(look.share for look in looks) == pytest.approx(1, abs=1e-12)
        assert len(looks) == 1 or min(look.share for look in looks) == pytest.approx(
            (1 - looks[-1].share) / (len(looks) - 1), rel=0.2
        )
    found = audit(partial(laplace, scale=0.9), ZERO, ONE, 1.0, time_limit=20.0, seed=SEED)
    again = few(partial(laplace, scale=0.9), ZERO, ONE, 1.0, runs=found.planned)
    assert found.found and (again.looks, again.event) == (found.looks, found.event)


def slow(data: np.ndarray, rng: Rng) -> float:
    """A noisy sum that takes 20 ms on average."""
    time.sleep(0.02 * rng.exponential())
    return one_at_a_time(data, rng)


def test_a_time_limit_is_kept() -> None:
    """Within a fifth, and a second for a busy machine; who had no time to decide does not say that
    all is well.
    """
    start = time.monotonic()
    found = audit(slow, ZERO, ONE, 1.0, time_limit=3.0, seed=SEED)
    assert time.monotonic() - start < 1.2 * 3 + 1
    assert found.passed == (not found.found and found.looks[-1].runs >= 200)
    assert found.passed or found.found or "time ran out" in str(found)
    assert audit(one_at_a_time, ZERO, ONE, 1.0, time_limit=1.0, seed=SEED).passed
    tiny = audit(one_at_a_time, ZERO, ONE, 1.0, time_limit=1e-99, seed=SEED)
    assert tiny.undecided.startswith("time ran out before") and not tiny.passed


class Tiring:
    """A noisy sum in eight coordinates that slows down after 100,000 releases."""

    def __init__(self, scale: float) -> None:
        self.scale, self.made = scale, 0

    def __call__(self, data: np.ndarray, rng: Rng, size: int) -> np.ndarray:
        self.made += size
        if self.made > 100_000:
            time.sleep(1e-5 * size)
        return np.round(data.sum() + rng.laplace(0, self.scale, (size, 8)), 3)


def test_a_time_limit_is_kept_by_what_slows_down_and_leaves_a_test() -> None:
    """Also where learning takes longest: in thirty columns."""
    wide = lambda data, rng, size: np.round(  # noqa: E731
        data.sum() + rng.laplace(0, 30, (size, 30)), 3
    )
    for mechanism in (Tiring(8.0), wide):
        start = time.monotonic()
        found = audit(mechanism, ZERO, ONE, 1.0, time_limit=4.0, seed=SEED)
        assert time.monotonic() - start < 1.2 * 4 + 1
        assert found.passed and found.looks[-1].runs >= 500, str(found)


CORRECT: dict[str, Callable[[int, Rng], Any]] = {
    "batch": lambda noisy, rng: noisy,
    "text": lambda noisy, rng: f"{noisy + 0.25:.6f}",
    "length": lambda noisy, rng: [noisy] * int(rng.geometric(0.5)),
    "kinds": lambda noisy, rng: [noisy, float(noisy), np.float32(noisy)][int(rng.integers(3))],
    "far": lambda noisy, rng: 2**60 + noisy,
    "frame": lambda noisy, rng: pd.Series([noisy, 2], index=rng.permutation(["a", "b"])),
    "missing": lambda noisy, rng: [None if rng.random() < 0.5 else noisy, -0.0],
}


@pytest.mark.parametrize("kind", CORRECT)
def test_false_alarms(kind: str) -> None:
    """Audits at the exact claim, of two tests each; a rule that is tested on the runs that taught
    it objects to a third of them.
    """
    share = 1 - np.exp(-1.0)

    def geometric(data: np.ndarray, rng: Rng) -> Any:
        noisy = int(data.sum()) + int(rng.geometric(share)) - int(rng.geometric(share))
        return CORRECT[kind](noisy, rng)

    mechanism = laplace if kind == "batch" else geometric
    audits = 100 if kind == "batch" else 5
    runs = partial(audit, runs=1000, time_limit=None, level=0.05)
    count = sum(runs(mechanism, ZERO, ONE, 1.0, seed=1000 * SEED + k).found for k in range(audits))
    assert count <= stats.binom.isf(FALSE_ALARM, audits, 0.05)
