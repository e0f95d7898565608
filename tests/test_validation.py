"""Bad input gets an error that names the argument; what is in range gives a right number."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from hdpm_book.federated.partition import draw_sizes
from hdpm_book.logistic.peer import conic_search, procure_fast
from hdpm_book.ridge.jorgensen import all_masks, sampled_ridge
from hdpm_book.ridge.variants import private_constant
from hdpm_lib import validation as v
from hdpm_lib.aggregation import least_error_weights, size_weights
from hdpm_lib.learners.objective import weighted_logistic
from hdpm_lib.markets.procurement import procure

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
]
WRONG += [np.ma.masked, np.ma.array(1.0), np.timedelta64(1, "s"), np.array("1")]
NOT_FINITE = [np.nan, np.inf, -np.inf, np.float32("nan"), 10**400]
NUMBERS = [
    1,
    1.0,
    np.float32(1),
    np.int8(1),
    np.uint64(1),
    np.array(1.0),
    np.array(1),
    Fraction(1),
    Decimal(1),
]
CHECKS: dict[str, Callable[[Any], float]] = {
    "number": lambda value: v.check_number(value, "it", 0, 1),
    "positive": lambda value: v.check_positive(value, "it"),
    "count": lambda value: v.check_count(value, "it"),
}


@pytest.mark.parametrize("check", CHECKS)
def test_number_is_one_real_number(check: str) -> None:
    for value in NUMBERS:
        found = CHECKS[check](value)
        assert found == 1 and type(found) is (int if check == "count" else float)
    for value in WRONG:
        with pytest.raises(TypeError, match=r"^it must"):
            CHECKS[check](value)
    for value in NOT_FINITE[: -1 if check == "count" else None]:
        with pytest.raises(ValueError, match=r"^it must .* got") as caught:
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
def test_range_is_said_and_kept(
    low: float, high: float, ends: str, value: float, message: str
) -> None:
    with pytest.raises(ValueError, match=f"^it {re.escape(message)}$"):
        v.check_number(value, "it", low, high, ends=ends)
    with pytest.raises(ValueError, match=f"^it {re.escape(message.split(', got')[0])}"):
        v.check_finite([value, 0.5], "it", 1, low, high, ends=ends)


def test_what_is_in_range_is_taken_as_it_is() -> None:
    assert v.check_number(0, "it", 0, 1) == 0 and v.check_count(10**400, "n") == 10**400
    assert v.check_count(3.0, "n", 0, 3) == 3
    assert v.check_cap((1 - 1e-13) / 3, 3) == 1 / 3 and v.check_cap(0.5, 3) == 0.5
    assert v.check_rational(2, "it") == 2 and v.check_rational(Fraction(1, 3), "it") == Fraction(
        1, 3
    )
    assert v.check_flag(np.True_, "project") is True and v.check_flag(False, "project") is False
    assert (
        v.check_size(()) == ()
        and v.check_size(3) == (3,)
        and v.check_size((2, np.int64(0))) == (2, 0)
    )
    for array in (np.array([1, 2]), [1.0, 2], np.array([1, 2], dtype=np.float32)):
        found = v.check_finite(array, "a", 1)
        assert found.dtype == float and found.tolist() == [1, 2]
    given = np.array([1.0, 2.0])
    rng = np.random.default_rng(0)
    assert v.check_finite(given, "a") is given and v.check_generator(rng) is rng


NO_ARRAYS = [
    None,
    "ab",
    ["1", "2"],
    [1, None],
    [[1], [1, 2]],
    [True, False],
    np.array([1, None], dtype=object),
    [1j, 2],
]
NO_ARRAYS += [
    np.ma.array([1.0, 2.0], mask=[0, 1]),
    np.ma.array([1.0, 2.0]),
    {1, 2},
    np.array(["2020-01-01"], "M8[D]"),
]
NO_FLAGS = ["no", 1, 0.0, None, [True], np.array([True, False])]
BAD: list[tuple[Callable[[Any], Any], list[Any], type[Exception], str]] = [
    (
        lambda x: v.check_count(x, "n", 1, 3),
        [0.5, 0, -1, 4],
        ValueError,
        r"n must be an integer from 1 to 3, got",
    ),
    (
        lambda x: v.check_count(x, "n"),
        [0, 0.5],
        ValueError,
        r"n must be a positive integer, got",
    ),
    (
        lambda x: v.check_count(x, "n", 2),
        [1, 2.5],
        ValueError,
        r"n must be an integer of at least 2, got",
    ),
    (
        lambda x: v.check_positive(x, "it"),
        [0, -0.5],
        ValueError,
        r"it must be positive and finite, got",
    ),
    (
        lambda x: v.check_flag(x, "project"),
        NO_FLAGS,
        TypeError,
        r"project must be True or False, got",
    ),
    (
        lambda x: v.check_choice(x, "it", ("a", "b")),
        NO_FLAGS,
        ValueError,
        r"it must be 'a' or 'b', got",
    ),
    (
        lambda x: v.check_rational(x, "it"),
        [True, 0.5, "1", 0, Fraction(-1, 2)],
        ValueError,
        r"it must be a positive Fraction or integer, got",
    ),
    (
        v.check_generator,
        [None, 0, np.random.RandomState(0), np.random],
        TypeError,
        r"rng must be a Generator, such as",
    ),
    (v.check_size, [-1, 1.5], ValueError, r"size must be an? "),
    (v.check_size, [None, "2", (2, None)], TypeError, r"size must be a number"),
    (
        lambda x: v.check_finite(x, "epsilon", 1),
        NO_ARRAYS,
        TypeError,
        r"epsilon must be an array of numbers, got",
    ),
    (v.check_epsilon, NO_ARRAYS, TypeError, r"epsilon must be an array of numbers, got"),
    (
        lambda x: v.check_finite(x, "a", 1),
        [[[1.0]]],
        ValueError,
        r"a must have 1 dimension\(s\), got shape \(1, 1\)",
    ),
    (lambda x: v.check_finite(x, "a", 1), [[]], ValueError, r"a is empty"),
]


@pytest.mark.parametrize(("check", "values", "error", "message"), BAD)
def test_what_is_of_the_wrong_kind_is_refused(
    check: Any, values: list[Any], error: Any, message: str
) -> None:
    for value in values:
        with pytest.raises(error, match=f"^{message}"):
            check(value)


def test_listed_case_is_refused() -> None:
    """Beyond what the property tests try by the kind of argument."""
    rng = np.random.default_rng(0)
    one = ([[0.1]], [0.5], [1.0], 1.0, 1.0)
    constant = partial(private_constant, [0.5], [1.0], rng=rng)
    for call, message in (
        (lambda: draw_sizes("IID", 1, rng, of=12_598), "of must be an integer from 1 to 12597"),
        (lambda: sampled_ridge(*one, [[-1]]), "masks must hold 0 and 1, got -1"),
        (lambda: constant(label_range=(np.nan, 1)), "label_range must be finite, got nan"),
        (lambda: constant(label_range=(1, 0)), "label_range must be two finite numbers, the lower"),
        (
            lambda: all_masks([0.5] * 40, 1.0),
            "epsilon must leave at most 20 records to chance, got 40",
        ),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            call()


def test_huge_noise_leaves_the_noise_alone() -> None:
    """Beside noise of 1e98 on one coordinate the records still count on the other."""
    minimise = partial(weighted_logistic, np.eye(2), [1, -1], [0.5, 0.5], 0.1)
    np.testing.assert_allclose(
        minimise([[1e98, 0], [1e97, 1]]), [[-1e99, -1.18], [-1e98, -10.4]], rtol=0.1
    )
    assert (minimise([1.0, 2.0]) == minimise([[1.0, 2.0], [1e98, 0]])[0]).all()
    with pytest.raises(ValueError, match=r"^noise must have a size"):
        minimise([1e308, 0])
    with pytest.raises(ValueError, match=r"^noise / penalty must have a size"):
        minimise([1e100, 0])
    with pytest.raises(ValueError, match=r"^start \* penalty must have a size"):
        weighted_logistic(np.eye(2), [1, -1], [0.5, 0.5], 1e60, start=1e60)


@pytest.mark.parametrize("cap", [None, 0.4, 0.7])
@pytest.mark.parametrize("mu", [1e-100, 1e100])
def test_procurement_at_the_limits(mu: float, cap: float | None) -> None:
    """Where weights may be as uneven as they like the cheapest sellers are bought; where they may
    not, all alike.
    """
    psi = [3.0, 0.2, 1.0, 0.7]
    found = procure(psi, mu, 1.0, 1.0, cap=cap)
    cheapest = {None: [0, 1, 0, 0], 0.4: [0, 0.4, 0.2, 0.4], 0.7: [0, 0.7, 0, 0.3]}[cap]
    np.testing.assert_allclose(found.weights, cheapest if mu < 1 else 0.25, atol=1e-9)
    if cap is None:
        np.testing.assert_allclose(
            procure_fast(psi, mu, 1.0, 1.0).weights, found.weights, atol=1e-9
        )


def test_aggregation_of_huge_numbers() -> None:
    sizes = np.array([1.0, 3.0])
    np.testing.assert_allclose(least_error_weights([1e99, 1e98], sizes), [0.25, 0.75], rtol=1e-12)
    assert (
        least_error_weights([1.0, 2.0], sizes * 2.0**330) == least_error_weights([1.0, 2.0], sizes)
    ).all()
    assert (size_weights([1.0, 2.0], sizes * 2.0**330) == sizes / 4).all()


@pytest.mark.parametrize("name", ["mu", "sigma", "gamma"])
@pytest.mark.parametrize("value", [1e-200, 1e200])
def test_constants_of_the_proxy_loss_have_a_range(name: str, value: float) -> None:
    given = {"mu": 1.0, "sigma": 1.0, "gamma": 1.0, name: value}
    for rule in (procure, procure_fast, conic_search):
        with pytest.raises(
            ValueError,
            match=rf"^{name} must have a size from 1e-100 .* got {re.escape(str(value))}",
        ):
            rule([0.2, 1.2], **given)
