"""Bad input gets an error that names the argument; what is in range gives a right number."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from hdpm_book.federated.partition import draw_sizes
from hdpm_book.logistic.peer import conic_search, gradient_and_grid, procure_fast
from hdpm_book.ridge.jorgensen import all_masks, sampled_ridge
from hdpm_book.ridge.variants import private_constant
from hdpm_lib import validation as v
from hdpm_lib.aggregation import least_error_weights, size_weights
from hdpm_lib.learners.logistic import objective_perturbation
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


def test_shape_is_made_of_counts() -> None:
    assert v.check_size(()) == () and v.check_size(3) == (3,) and v.check_size((2, np.int64(0))) == (2, 0)
    for value in (None, -1, 1.5, "2", (2, None)):
        with pytest.raises((TypeError, ValueError), match=r"^size must be an? "):
            v.check_size(value)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


REFUSED: dict[str, tuple[Callable[[], object], str]] = {  # beyond what the property tests try by the kind of argument
    "too many owners": (lambda: draw_sizes("IID", 1, rng(), of=12_598), "of must be an integer from 1 to 12597"),
    "masks with 7s": (
        lambda: sampled_ridge([[0.1]], [0.5], [1.0], 1.0, 1.0, [[7]]),
        "masks must hold 0 and 1, got 7",
    ),
    "negative masks": (
        lambda: sampled_ridge([[0.1]], [0.5], [1.0], 1.0, 1.0, [[-1]]),
        "masks must hold 0 and 1, got -1",
    ),
    "labels from nan": (
        lambda: private_constant([0.5], [1.0], label_range=(np.nan, 1), rng=rng()),
        "label_range must be finite, got nan",
    ),
    "labels from 1 to 0": (
        lambda: private_constant([0.5], [1.0], label_range=(1, 0), rng=rng()),
        "label_range must be two finite numbers, the lower first",
    ),
    "2 ** 40 masks": (lambda: all_masks([0.5] * 40, 1.0), "epsilon must leave at most 20 records to chance, got 40"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_listed_case_is_refused(case: str) -> None:
    call, message = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        call()


def test_huge_noise_leaves_the_noise_alone() -> None:
    """Beside noise of 1e155 the records do not count, and its square is infinite."""
    model = objective_perturbation([[1.0, 0.0], [0.0, 1.0]], [1, -1], [0.5, 0.5], 1.0, 0.1)
    np.testing.assert_allclose(model.minimise([[1e155, 0], [1e99, 1]]), [[-1e156, 0], [-1e100, -10.4]], rtol=0.1)
    assert (model.minimise([1.0, 2.0]) == model.minimise([[1.0, 2.0], [1e155, 0]])[0]).all()
    with pytest.raises(ValueError, match=r"^noise must be small enough"):
        model.minimise([1e308, 0])


@pytest.mark.parametrize("cap", [None, 0.4, 0.7])
@pytest.mark.parametrize("mu", [1e-100, 1e-60, 1e60, 1e100])
def test_procurement_at_the_limits(mu: float, cap: float | None) -> None:
    """Where weights may be as uneven as they like the cheapest sellers are bought; where they may not, all alike."""
    psi = [3.0, 0.2, 1.0, 0.7]
    found = procure(psi, mu, 1.0, 1.0, cap=cap)
    cheapest = {None: [0, 1, 0, 0], 0.4: [0, 0.4, 0.2, 0.4], 0.7: [0, 0.7, 0, 0.3]}[cap]
    np.testing.assert_allclose(found.weights, cheapest if mu < 1 else 0.25, atol=1e-9)
    if cap is None:
        np.testing.assert_allclose(procure_fast(psi, mu, 1.0, 1.0).weights, found.weights, atol=1e-9)


def test_aggregation_of_huge_numbers() -> None:
    sizes = np.array([1.0, 3.0])
    np.testing.assert_allclose(least_error_weights([1e160, 1e159], sizes), [0.25, 0.75], rtol=1e-12)
    assert (least_error_weights([1.0, 2.0], sizes * 2.0**1020) == least_error_weights([1.0, 2.0], sizes)).all()
    assert (size_weights([1.0, 2.0], sizes * 2.0**1020) == sizes / 4).all()


@pytest.mark.parametrize("name", ["mu", "sigma", "gamma"])
@pytest.mark.parametrize("value", [1e-200, 1e200])
def test_constants_of_the_proxy_loss_have_a_range(name: str, value: float) -> None:
    given = {"mu": 1.0, "sigma": 1.0, "gamma": 1.0, name: value}
    for call in (
        lambda: procure([0.2, 1.2], **given),
        lambda: procure_fast([0.2, 1.2], **given),
        lambda: conic_search([0.2, 1.2], **given),
        lambda: gradient_and_grid([0.2, 1.2], **given, largest_eta=1.0),
    ):
        with pytest.raises(ValueError, match=rf"^{name} must lie in \[1e-100, 1e\+100\], got {re.escape(str(value))}"):
            call()
