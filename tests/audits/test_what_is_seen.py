"""The audit of any mechanism: what of a release it sees."""

from __future__ import annotations

import collections
import datetime
import json
import threading
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.tree import DecisionTreeRegressor

from hdpm_lib.audits.outcomes import Column, outcomes
from tests.audits.mechanisms import ONE, ZERO, Rng, few, laplace, one_at_a_time

# --- what it finds, and what it does not --------------------------------------------------------


@pytest.mark.parametrize("unit", [1e-10, 1.0, 1e10])
def test_a_scale_too_small_is_found_in_any_unit(unit: float) -> None:
    halved = lambda data, rng, size: unit * laplace(data, rng, size, 0.5)  # noqa: E731
    wrong = few(halved, ZERO, ONE, 1.0, early=False)
    right = few(lambda data, rng, size: unit * laplace(data, rng, size), ZERO, ONE, 1.0)
    assert wrong.found and 1.2 < wrong.epsilon_lower() < wrong.epsilon_lower(0.9) < 2
    assert not right.found and right.epsilon_lower() < 1
    assert few(halved, ZERO, ONE, 1.0).training < 10_000
    assert "private" not in str(right) and right.passed and not wrong.passed
    assert few(lambda data, rng: float(data.sum()), ZERO, 1e-10 * ONE, 5.0).found  # no noise at all


ANSWERS: dict[str, Callable[[np.ndarray, Rng], Any]] = {
    "booleans": lambda other, rng: other,
    "integers": lambda other, rng: np.where(other, 7, 3),
    "strings": lambda other, rng: np.where(other, "yes", "no").tolist(),
    "missing": lambda other, rng: [1.5 if o else None for o in other],
    "sequences": lambda other, rng: [[1, "a"] if o else ["a"] for o in other],
    "frames": lambda other, rng: pd.DataFrame({"a": rng.normal(size=len(other)), "b": other}),
    "vectors": lambda other, rng: np.insert(rng.normal(size=(len(other), 2)), 1, other, axis=1),
    "infinite": lambda other, rng: np.where(other, np.inf, 0.0),
    "not-a-number": lambda other, rng: np.where(other, np.nan, 0.0),
    "complex": lambda other, rng: rng.normal(size=len(other)) + 1j * other,
    "atom": lambda other, rng: np.where(other, 0.25, rng.normal(size=len(other))),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_every_kind_of_output(kind: str) -> None:
    """Randomised response in many clothes: the second answer is given with odds e on the second
    data set.
    """

    def answer(data: np.ndarray, rng: Rng, size: int) -> Any:
        return ANSWERS[kind]((rng.random(size) < expit(1.0)) == (data.sum() > 0), rng)

    option = {"runs": 8000, "nan": "value" if kind == "not-a-number" else "refuse"}
    assert (
        few(answer, ZERO, ONE, 0.7, **option).found
        and not few(answer, ZERO, ONE, 1.0, **option).found
    )


def noise(data: np.ndarray, rng: Rng) -> float:
    return float(np.round(data.sum() + rng.laplace(0, 4)))


def counted(data: np.ndarray, rng: Rng) -> Any:
    table = pd.Series(np.where(data, "ill", "well")).value_counts()
    return table + rng.laplace(0, 20, len(table)).round(3)


def grouped(data: np.ndarray, rng: Rng) -> Any:
    return pd.DataFrame({"k": ["flu" if data[0] else "cold"], "v": [noise(data, rng)]})


BESIDE: dict[str, Callable[[np.ndarray, Rng], Any]] = {
    "index": counted,
    "group": lambda data, rng: grouped(data, rng).groupby("k").sum(),
    "column": lambda data, rng: pd.DataFrame({"ab"[int(data[0])]: [noise(data, rng)]}),
    "name": lambda data, rng: pd.Series([noise(data, rng)], name="ab"[int(data[0])]),
    "attrs": lambda data, rng: (
        grouped(0 * data, rng)
        .assign(k=1)
        .pipe(
            lambda frame: frame.attrs.update(n=data.sum()) or frame  # type: ignore[func-returns-value]
        )
    ),
    "categories": lambda data, rng: pd.Categorical(["a"], ["a", "bc"[int(data[0])]]),
    "mask": lambda data, rng: np.ma.masked_array([noise(data, rng)], data[:1] > 0),
    "under a mask": lambda data, rng: np.ma.masked_array(data[:1], [True]),
    "int": lambda data, rng: (int if data[0] else float)(noise(data, rng)),
    "dtype": lambda data, rng: (np.float32 if data[0] else np.float64)(noise(data, rng)),
    "array": lambda data, rng: np.array([noise(data, rng)], "f4" if data[0] else "f8"),
    "minus zero": lambda data, rng: -0.0 if data[0] else 0.0,
    "shape": lambda data, rng: rng.integers(2, size=(2, 3) if data[0] else (3, 2)),
    "tuple": lambda data, rng: (tuple if data[0] else list)([noise(data, rng)]),
    "order of types": lambda data, rng: [1, 2.0] if data[0] else [1.0, 2],
    "truth": lambda data, rng: True if data[0] else "True",
    "integer": lambda data, rng: np.int64(2**60 + 2 * int(rng.integers(0, 1000)) + int(data[0])),
    "just too far": lambda data, rng: np.int64(2**53 + int(data[0])),
    "huge": lambda data, rng: 10**400 + int(data[0]),
    "long double": lambda data, rng: np.longdouble(1) + np.longdouble(data[0]) * 2.0**-60,
    "text": lambda data, rng: f"{data.sum() + rng.laplace(0, 0.02):.6f}",
    "JSON": lambda data, rng: json.dumps({"mean": data.sum() + rng.laplace(0, 0.02)}),
    "digits": lambda data, rng: f"{noise(data, rng):.{1 + int(data[0])}f}",
    "date": lambda data, rng: datetime.datetime(2020, 1, 1 + int(data[0]), int(rng.integers(24))),
    "queue": lambda data, rng: collections.deque([noise(data, rng), data[0]]),
}


@pytest.mark.parametrize("kind", BESIDE)
def test_all_that_leaves_is_seen(kind: str) -> None:
    """What stands beside the values, and in digits that a float does not hold, is released, too."""
    first = np.array([1.0] * 6 + [0.0] * 5)  # one ill person more than are well, or one less
    second = np.append(0.0, first[1:])
    found = few(BESIDE[kind], first, second, 1.0, runs=2000)
    assert found.found, str(found)


def test_what_batches_have_in_common_may_not_differ() -> None:
    """It may depend on all of a batch, so that guesses from it are no independent ones."""

    def kinds(data: np.ndarray, rng: Rng, size: int) -> Any:
        made = laplace(data, rng, size)
        return made.astype("f4") if data[0] else made

    with pytest.raises(ValueError, match=r"gives batches of different kinds, .*: take no `size`"):
        few(kinds, ZERO, ONE, 1.0)
    index = lambda data, rng, size: pd.Series(  # noqa: E731
        np.zeros(size), np.where(rng.random(size) < expit(3 * (data[0] - 0.5)), "a", "b")
    )
    assert few(index, ZERO, ONE, 1.0).found and few(index, ZERO, ONE, 3.0).passed


def test_releases_of_different_lengths_are_independent() -> None:
    short = lambda data, rng: [0] * int(rng.geometric(0.5))  # noqa: E731
    for seed in range(3):
        found = few(short, ZERO, ONE, 1.0, runs=2000, seed=seed)
        assert found.passed and not found.repeats, str(found)


class State:
    """An object that is no estimator."""

    def __init__(self, value: float) -> None:
        self._value, self.own = value, self


HIDDEN: dict[str, Callable[[float], Any]] = {
    "tree": lambda total: DecisionTreeRegressor().fit([[0.0], [1.0]], [0.0, total]),
    "key": lambda total: {"a": (1, {total: 1})},
    "arrays": lambda total: (np.zeros(3), [np.full(2, total), "a"]),
    "bytes": lambda total: np.float64(total).tobytes(),
    "itself": lambda total: [State(1.0), {State(total)}],
}


@pytest.mark.parametrize("kind", HIDDEN)
def test_what_is_inside_objects_is_released(kind: str) -> None:
    """A noisy sum, and the sum itself inside something that is no number."""
    assert few(
        lambda data, rng: [one_at_a_time(data, rng), HIDDEN[kind](data.sum())],
        ZERO,
        ONE,
        2.0,
        runs=200,
    ).found


def test_what_cannot_be_looked_into_is_said() -> None:
    secrets: dict[str, Callable[[Rng], Any]] = {
        "what is inside lock": lambda rng: threading.Lock(),
        "texts or forms of which hardly any comes back": lambda rng: rng.bytes(9),
    }
    for words, secret in secrets.items():
        kept = few(
            lambda data, rng, secret=secret: [one_at_a_time(data, rng), secret(rng)],
            ZERO,
            ONE,
            1.0,
            runs=500,
        )
        assert not kept.found and not kept.passed and str(kept).startswith("not decided")
        assert words in kept.undecided and kept.undecided.endswith("cannot be looked at")
        assert "same output" not in str(kept)


def test_outcomes_keep_numbers_and_labels_apart() -> None:
    seen = outcomes([(1, "a"), (2,), (None, "b")])
    assert seen.numbers.tolist() == [[1, 0], [2, 0], [0, 0]]
    assert seen.labels is not None and seen.labels.tolist() == [
        [None, "a"],
        [None, "absent"],
        ["None", "b"],
    ]


def test_a_cell_is_what_its_words_say() -> None:
    column = Column(("yes",), np.array([-5e-324, 0.0]), np.array([1.0, 2.0]))
    assert [column.words(code, "x") for code in range(column.count)] == [
        "x is yes",
        "x is -0",
        "x is 0",
        "x is below 1",
        "x is in [1, 2)",
        "x is at least 2",
        "x is a new label",
    ]
    labels = np.array(["yes", *[None] * 5, "no"], dtype=object)
    codes = column.codes(np.array([0, -5e-324, 0, 0.5, 1, 2, 0]), labels)
    assert codes.tolist() == list(range(column.count))
    other = Column((), np.empty(0), np.empty(0))
    assert [other.words(k, "x") for k in (0, 1)] == ["x is another number", "x is a new label"]


def test_a_row_depends_on_its_release_alone() -> None:
    """Whatever it is released beside, and texts that differ have different rows."""
    releases = [1, 2.5, 2**60, "a 1.50 b", "a 1.5 b", "a#", "#1", "1#", None, "None", [1, 2.0]]
    releases += [np.float32(1), True, (), [], -0.0, 0, np.inf, "1e400", "2e400", b"1", -(2**70)]
    releases += ["absent", np.arange(3), [0, 1, 2], "0.12345678901234567", "0.12345678901234568"]
    releases += [Fraction(1, 3), Decimal("0.10"), Decimal("0.1"), "-1", "+1", "01", "1", "1.0"]

    def row(seen: Any) -> Any:
        labels = [label for label in seen.all_labels()[0] if label != "absent"]
        return seen.numbers[0, : len(labels)].tolist(), labels, seen.forms[0]

    alone = [row(outcomes([one])) for one in releases]
    together = outcomes(releases)
    assert alone == [row(together[k : k + 1]) for k in range(len(releases))]
    assert len({str(one) for one in alone}) == len(releases)
