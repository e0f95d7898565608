"""Bad input gets an error that names the argument; what is in range gives a right number."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from hdpm_lib import validation as v

WRONG = [
    None,
    "1",
    [1.0],
    [[1], [1, 2]],
    np.ones(1),
    np.ones((2, 2)),
    True,
    np.True_,
    1j,
    np.complex128(1),
    Decimal(1),
    np.ma.masked,
    np.ma.array(1.0),
    np.timedelta64(1, "s"),
    np.array("1"),
]
NOT_FINITE = [np.nan, np.inf, -np.inf, np.float32("nan"), 10**400]
NUMBERS = [1, 1.0, np.float32(1), np.int8(1), np.uint64(1), np.array(1.0), np.array(1), Fraction(1)]
CHECKS = {
    "number": lambda value: v.check_number(value, "it", 0, 1),
    "positive": lambda value: v.check_positive(value, "it"),
    "count": lambda value: v.check_count(value, "it"),
    "cap": lambda value: v.check_cap(2 if value is None else value, 3),
}


@pytest.mark.parametrize("check", CHECKS)
def test_number_is_one_real_number(check: str) -> None:
    for value in NUMBERS:
        found = CHECKS[check](value)
        assert found == 1 and type(found) is (int if check == "count" else float)
    for value in WRONG:
        with pytest.raises(ValueError if check == "cap" and value is None else TypeError, match=r"^(it|cap) must"):
            CHECKS[check](value)
    for value in NOT_FINITE[: -1 if check in ("count", "cap") else None]:
        with pytest.raises(ValueError, match=r"^(it|cap) must .* got") as caught:
            CHECKS[check](value)
        assert len(str(caught.value)) < 120


@pytest.mark.parametrize(
    ("low", "high", "ends", "value", "message"),
    [
        (0, 1, "()", 1, "must lie in (0, 1), got 1"),
        (0, 1, "(]", 0.0, "must lie in (0, 1], got 0.0"),
        (0, 1, "[)", 1, "must lie in [0, 1), got 1"),
        (0, np.inf, "()", 0, "must be positive and finite, got 0"),
        (0, np.inf, "[)", -1, "must be finite and not negative, got -1"),
        (1, np.inf, "()", 1, "must be finite and above 1, got 1"),
        (1, np.inf, "[)", 0.5, "must be finite and at least 1, got 0.5"),
        (-np.inf, 0, "(]", 2, "must be finite and at most 0, got 2"),
        (-np.inf, 0, "()", 0, "must be finite and below 0, got 0"),
        (-np.inf, np.inf, "[]", np.nan, "must be finite, got nan"),
    ],
)
def test_range_is_said_and_kept(low: float, high: float, ends: str, value: float, message: str) -> None:
    with pytest.raises(ValueError, match=f"^it {re.escape(message)}$"):
        v.check_number(value, "it", low, high, ends=ends)
    with pytest.raises(ValueError, match=f"^it {re.escape(message.split(', got')[0])}"):
        v.check_finite([value, 0.5], "it", 1, low, high, ends=ends)
    if np.isfinite(low) and np.isfinite(high):
        assert v.check_number(low, "it", low, high) == low and v.check_number(high, "it", low, high) == high


def test_count_is_whole_and_in_range() -> None:
    assert v.check_count(10**400, "n") == 10**400 and v.check_count(3.0, "n", 0, 3) == 3
    for value in (0.5, 0, -1, 4):
        with pytest.raises(ValueError, match=rf"^n must be an integer from 1 to 3, got {value}"):
            v.check_count(value, "n", 1, 3)


def test_flag_choice_and_generator_are_of_their_kind() -> None:
    assert v.check_flag(np.True_, "project") is True and v.check_flag(False, "project") is False
    for value in ("no", 1, 0.0, None, [True], np.array([True, False])):
        with pytest.raises(TypeError, match=r"^project must be True or False, got"):
            v.check_flag(value, "project")
        with pytest.raises(ValueError, match=r"^bound must be 'a' or 'b', got"):
            v.check_choice(value, "bound", ("a", "b"))
    rng = np.random.default_rng(0)
    assert v.check_generator(rng) is rng
    for value in (None, 0, np.random.RandomState(0), np.random):
        with pytest.raises(TypeError, match=r"^rng must be a Generator, such as np.random.default_rng\(seed\)"):
            v.check_generator(value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "ab",
        ["1", "2"],
        [1, None],
        [[1], [1, 2]],
        [True, False],
        np.array([1, 2], dtype=object),
        np.ma.array([1.0, 2.0], mask=[0, 1]),
        np.ma.array([1.0, 2.0]),
        [1j, 2],
        {1, 2},
        np.array(["2020-01-01"], dtype="M8[D]"),
    ],
)
def test_array_holds_numbers(value: object) -> None:
    for check in (lambda a: v.check_finite(a, "epsilon", 1), v.check_epsilon):
        with pytest.raises(TypeError, match=r"^epsilon must be an array of numbers, got"):
            check(value)


def test_array_of_numbers_is_taken_as_it_is() -> None:
    for array in (np.array([1, 2]), [1.0, 2], np.array([1, 2], dtype=np.float32)):
        found = v.check_finite(array, "a", 1)
        assert found.dtype == float and found.tolist() == [1, 2]
    given = np.array([1.0, 2.0])
    assert v.check_finite(given, "a") is given
    for value, problem in (([[1.0]], r"1 dimension\(s\), got shape \(1, 1\)"), ([], "is empty"), ([np.nan], "finite")):
        with pytest.raises(ValueError, match=problem):
            v.check_finite(value, "a", 1)


def test_mask_holds_choices() -> None:
    assert v.check_mask([True, False], "mask", (2,)).tolist() == [True, False]
    for value in ([1, 0], [7, 0], None, np.ma.array([True, False])):
        with pytest.raises(TypeError, match=r"^mask must be an array of True and False"):
            v.check_mask(value, "mask", (2,))
    with pytest.raises(ValueError, match=r"^mask must have shape \(3,\), got \(2,\)"):
        v.check_mask([True, False], "mask", (3,))
