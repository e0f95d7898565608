"""Promises that hold for every data set: learners are total.

Every data set inside the public bounds gives a release of the same kind, without an error or a
warning, which would tell of it. What is said of data outside the bounds is the subject of
tests/test_ingress.py.
"""

from __future__ import annotations

import re
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest

from hdpm_lib.learners.ridge import output_perturbation
from tests import releases
from tests.releases import EACH, LEARNERS, Data, Learner, boxes
from tests.support import generator

Array = np.ndarray


def outcome(learner: Learner, data: Data, epsilon: Array, clip: bool) -> str:
    """What a caller sees besides the numbers: types, shapes and finiteness, errors and warnings."""
    with warnings.catch_warnings(record=True) as said, np.errstate(all="warn"):
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", "the fit will be mostly noise")  # by public numbers
        try:
            found = releases.arrays(learner(data, epsilon, generator(501), clip)[0])
            seen = "; ".join(
                f"{x.shape} {x.dtype}" + ("" if np.isfinite(x).all() else ", not finite")
                for x in found
            )
        except Exception as error:
            seen = f"{type(error).__name__}: {error}"
    return "; ".join([seen, *(f"{one.category.__name__}: {one.message}" for one in said)])


def losses(n: int) -> list[Array]:
    """Privacy losses: equal, very unequal, and nearly all of the weight on one record."""
    return [np.ones(n), np.geomspace(1e-6, 1e3, n), np.append(np.full(n - 1, 1e-9), 1e3)]


def kinds_of_outcome(learner: Learner, n: int, draws: int, clip: bool = False) -> dict[str, Data]:
    """Every kind of outcome over data sets of `n` records, with a data set that gives it."""
    rng = generator(502, n)
    found = {}
    for k in range(draws):
        for data in learner.domain(rng, n):
            found.setdefault(outcome(learner, data, losses(n)[k % 3], clip), data)
    return found


@pytest.mark.parametrize(("name", "clip"), EACH)
def test_total(name: str, clip: bool) -> None:
    for n, draws in ((1, 6), (7, 18)):
        kinds = kinds_of_outcome(LEARNERS[name], n, draws, clip)
        assert len(kinds) == 1, kinds
        assert re.fullmatch(r"(\([\d, ]*\) (float|int)64(; )?)+", next(iter(kinds))), kinds


@pytest.mark.parametrize(
    "learn",
    [
        releases.records(output_perturbation, 1e-17),
        partial(releases.sampled, size_in_noise="fixed", penalty=1e-17),
    ],
    ids=["output", "sampled"],
)
def test_penalty_that_some_data_would_break_is_refused_for_all(learn: Any) -> None:
    """Equal columns and a penalty below rounding: a singular system, where other data are
    fitted.
    """
    for kind in kinds_of_outcome(Learner(learn, boxes, mode="raise"), 7, 18):
        assert re.fullmatch(
            "ValueError: penalty must be at least .*, or rounding hides it beside .*, got 1e-17",
            kind,
        )


def refuses_one_class(X: Any, y: Any) -> Any:
    if len(np.unique(y)) == 1:
        raise ValueError("y holds one class")
    return np.zeros(3)


def warns_of_constants(X: Any, y: Any) -> Any:
    if (np.ptp(np.asarray(X, dtype=float), axis=0) == 0).any():
        warnings.warn("a feature is constant", stacklevel=2)
    return np.zeros(3)


BROKEN = {
    "refuses one class": refuses_one_class,
    "warns of constants": warns_of_constants,
    "scales by the largest": lambda X, y: np.divide(X, np.max(X, axis=0)).mean(0),
    "scales in silence": lambda X, y: np.nan_to_num(np.max(X), nan=0) ** -0.5 * np.ones(3),
    "leaves columns out": lambda X, y: np.zeros(np.count_nonzero(np.ptp(np.array(X), axis=0))),
    "keeps the type": lambda X, y: np.zeros(3, dtype=np.asarray(X).dtype),
    "sorts by class": lambda X, y: np.array(
        [np.asarray(y)[np.asarray(y) == c].mean() for c in (-1, 1)]
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_learner_that_is_not_total_is_caught(name: str) -> None:
    broken = Learner(lambda X, y, epsilon, rng: (BROKEN[name](X, y), []), boxes, mode="raise")
    assert len(kinds_of_outcome(broken, 7, 24)) > 1
