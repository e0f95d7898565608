"""Promises that hold for every data set: learners are total and silent.

*Total*: every data set inside the public bounds gives a release of the same kind. *Silent*: no error or warning tells
of the data: inside the bounds there is none, outside it depends on the bound alone, and clipping says nothing.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from hdpm_book.ridge import variants
from hdpm_book.ridge.jorgensen import draw_masks, sampled_ridge
from hdpm_lib.aggregation import least_error_weights
from hdpm_lib.learners.estimators import PersonalizedRidge, PrivateLogisticRegression
from hdpm_lib.learners.fedsgd import fedsgd
from hdpm_lib.learners.gradients import clipped
from hdpm_lib.learners.integer_answers import integer_gradients, integer_sum
from hdpm_lib.learners.lattice import lattice_ridge
from hdpm_lib.learners.logistic import eta_within, objective_perturbation
from hdpm_lib.learners.queries import BiasedLaplace, linear_query, nonlinear_query
from hdpm_lib.learners.ridge import output_perturbation
from tests.support import generator

Data = tuple[Any, ...]  # of one call
Learner = Callable[..., Any]  # from a data set, privacy losses and a generator to what is released
D, CLASSES = 3, 3
TINY, HUGE = 5e-324, 1.7976931348623157e308  # the least positive float and the largest


def outcome(learner: Learner, data: Data, epsilon: np.ndarray) -> str:
    """What a caller sees besides the numbers: type, shape, dtype and finiteness, errors and warnings."""
    with warnings.catch_warnings(record=True) as said, np.errstate(all="warn", under="ignore"):
        warnings.simplefilter("always")
        try:
            released = np.asarray(learner(*data, epsilon, generator(501)))
            seen = f"{released.shape} {released.dtype}" + ("" if np.isfinite(released).all() else ", not finite")
        except Exception as error:
            seen = f"{type(error).__name__}: {error}"
    return "; ".join([seen, *(f"{one.category.__name__}: {one.message}" for one in said)])


# --- data sets inside the bounds --------------------------------------------------------------------------------------

COLUMNS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {  # of numbers from 0 to 1
    "zero": lambda rng, n: np.zeros(n),
    "minus zero": lambda rng, n: np.full(n, -0.0),
    "one": lambda rng, n: np.ones(n),
    "constant": lambda rng, n: np.full(n, 0.3),
    "denormal": lambda rng, n: np.full(n, TINY),
    "all but one": lambda rng, n: np.append(np.zeros(n - 1), 1.0),
    "bounds": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "next to the bounds": lambda rng, n: rng.choice([TINY, math.nextafter(1, 0), 0.0, 1.0], n),
    "any": lambda rng, n: rng.random(n),
}


def column(rng: np.random.Generator, n: int) -> np.ndarray:
    return COLUMNS[rng.choice(list(COLUMNS))](rng, n)


def table(rng: np.random.Generator, n: int) -> np.ndarray:
    """Columns of any kinds, or of one kind; rows doubled at times."""
    X = np.column_stack([column(rng, n)] * D if rng.random() < 0.3 else [column(rng, n) for _ in range(D)])
    return X[rng.integers(0, n, n)] if rng.random() < 0.3 else X


def presented(array: np.ndarray) -> Iterator[Any]:
    """The same numbers in other layouts and types, whole ones as integers; 32 bits may round them."""
    yield array
    yield np.asfortranarray(array)
    yield array[::-1][::-1]
    yield array.tolist()
    yield array.astype(np.float32)
    if (array == np.rint(array)).all():
        yield array.astype(np.int8)


def boxes(rng: np.random.Generator, n: int) -> Iterator[Data]:
    """Features in [0, 1] and labels in [-1, 1]."""
    X = table(rng, n)
    y = rng.choice([-1.0, 1.0]) * column(rng, n) if rng.random() < 0.5 else rng.choice([-1.0, 1.0], n)
    yield from zip(presented(X), presented(y), strict=False)


def short_rows(rng: np.random.Generator, n: int) -> Iterator[Data]:
    """The same with any signs, rows of norm 1 at most."""
    for X, y in boxes(rng, n):
        rows = np.asarray(X, dtype=None if np.asarray(X).dtype == np.float32 else float) * rng.choice([-1, 1], (n, 1))
        longest = 1 + 1e-6 * (rows.dtype == np.float32)  # which 32 bits would exceed by rounding
        yield rows / np.maximum(1, longest * np.linalg.norm(rows, axis=1, keepdims=True)), y


def signed(rng: np.random.Generator, n: int) -> Iterator[Data]:
    """Vectors of norm at most 1, and labels -1 and 1, of one class at times."""
    y = rng.choice([-1.0, 1.0], n) if rng.random() < 0.5 else np.full(n, rng.choice([-1.0, 1.0]))
    for X, _ in short_rows(rng, n):
        yield X, y


def numbers(rng: np.random.Generator, n: int) -> Iterator[Data]:
    """A datum in [0, 1] for each individual."""
    yield from zip(presented(column(rng, n)))


def gradients(rng: np.random.Generator, n: int) -> Iterator[Data]:
    """Any floats at all, one kind everywhere or all mixed."""
    values = [0.0, -0.0, TINY, 1.0, -1e308, HUGE, math.inf, -math.inf, math.nan]
    array = np.full((n, CLASSES, D), rng.choice(values))
    if rng.random() < 0.7:
        array = rng.choice(values, (n, CLASSES, D), p=[0.92, *[0.01] * 8])
    with np.errstate(over="ignore"):
        yield from ((array,), (np.asfortranarray(array),), (array.astype(np.float32),))
    yield (np.full((n, CLASSES, D), 3),)


def shared_out(rng: np.random.Generator, n: int) -> Iterator[Data]:
    """Records of any size and class, among owners of whom some have none."""
    for dtype in (np.float64, np.float32):
        top = float(np.finfo(dtype).max)
        X = table(rng, 12) * rng.choice([1.0, 1e-30, -1e20, top])
        y = np.full(12, rng.integers(CLASSES)) if rng.random() < 0.5 else rng.integers(0, CLASSES, 12)
        whose = rng.integers(0, n, 12) if rng.random() < 0.7 else np.zeros(12)
        yield np.asarray(X, dtype=dtype, order="F"), y, [np.flatnonzero(whose == i) for i in range(n)]


# --- learners ---------------------------------------------------------------------------------------------------------


def output(mechanism: Learner, penalty: float, **options: Any) -> Learner:
    """Two releases of a mechanism on records, one projected."""

    def learn(X: Any, y: Any, epsilon: np.ndarray, rng: np.random.Generator) -> Any:
        made = mechanism(X, y, epsilon, penalty, **options)
        return [made.release(rng=rng), made.release(rng=rng, project=True)]

    return learn


def lattice(X: Any, y: Any, epsilon: np.ndarray, penalty: float, **options: Any) -> Any:
    return lattice_ridge(X, y, np.clip(epsilon, 0.1, None), penalty, **options)  # less needs a larger spacing


def sampled(
    X: Any, y: Any, epsilon: np.ndarray, rng: np.random.Generator, kind: Any, bound: Any = "paper", penalty: float = 0.5
) -> Any:
    masks = draw_masks(epsilon, 1.0, 5, rng=rng) if kind == "fixed" else np.ones((5, len(epsilon)))
    return sampled_ridge(X, y, epsilon, penalty, 1.0, masks, size_in_noise=kind, bound=bound).release(rng=rng)


def objective(X: Any, y: Any, epsilon: np.ndarray, rng: np.random.Generator) -> Any:
    moments = variants.calibrate_objective_perturbation(X, y, epsilon, 2 * D / epsilon.sum())
    return variants.release_objective_perturbation(moments, rng=rng, size=3)


def statistics(X: Any, y: Any, epsilon: np.ndarray, rng: np.random.Generator, penalty: float = 0.5) -> Any:
    moments = variants.calibrate_sufficient_statistics(X, y, epsilon, penalty)
    return variants.release_sufficient_statistics(moments, rng=rng, size=3)


def constant(X: Any, y: Any, epsilon: np.ndarray, rng: np.random.Generator) -> Any:
    return variants.private_constant(y, epsilon, rng=rng)


def regressor(X: Any, y: Any, epsilon: np.ndarray, rng: np.random.Generator, **options: Any) -> Any:
    return PersonalizedRidge(random_state=rng, **options).fit(X, y, epsilon=epsilon).coef_


def logistic(X: Any, y: Any, epsilon: np.ndarray, rng: np.random.Generator, **options: Any) -> Any:
    weights, penalty = epsilon / epsilon.sum(), 3 / epsilon.sum()  # no slack
    eta = eta_within(epsilon, weights, penalty)
    return objective_perturbation(X, y, weights, eta, penalty, **options).release(rng=rng)


def classifier(X: Any, y: Any, epsilon: np.ndarray, rng: np.random.Generator, **options: Any) -> Any:
    model = PrivateLogisticRegression(3 / epsilon.sum(), classes=(-1, 1), random_state=rng, **options)
    return model.fit(X, y, epsilon=epsilon).coef_


def linear(d: Any, epsilon: np.ndarray, rng: np.random.Generator, sign: float = 1.0, **options: Any) -> Any:
    q = sign * np.linspace(0.1, 3, len(epsilon))
    mechanism = linear_query(epsilon / epsilon.max(), 2.0, weights=q, **options)
    return mechanism.release(q * np.asarray(d), rng=rng)


def nonlinear(d: Any, epsilon: np.ndarray, rng: np.random.Generator, **options: Any) -> Any:
    mechanism = nonlinear_query(epsilon / epsilon.max(), 2.0, np.eye(len(epsilon)), **options)
    return mechanism.release(d, rng=rng)


def intervals(d: Any, epsilon: np.ndarray, rng: np.random.Generator, **options: Any) -> Any:
    ones = np.ones(len(epsilon))
    mechanism = BiasedLaplace(epsilon / epsilon.max(), 2.0, np.diag(2 * ones), 2 * ones, -ones, **options)
    return mechanism.release(2 * np.asarray(d) - 1, rng=rng)


def whole(d: Any, epsilon: np.ndarray, rng: np.random.Generator, **options: Any) -> Any:
    return integer_sum(epsilon / epsilon.max(), 2.0, **options).release(d, rng=rng)


def sent(g: Any, epsilon: np.ndarray, rng: np.random.Generator) -> Any:
    return integer_gradients(g, np.clip(epsilon, 1e-3, None), 0.7, spacing=2.0**-10, rng=rng)


def shortened(g: Any, epsilon: np.ndarray, rng: np.random.Generator) -> Any:
    short = clipped(g, 0.7)
    assert (np.abs(short).sum((-2, -1)) <= 0.7 * (1 + 1e-6)).all()
    return short.astype(float)


def federated(x: Any, y: Any, owners: Any, epsilon: np.ndarray, rng: np.random.Generator, **options: Any) -> Any:
    n, start = len(owners), np.zeros((CLASSES, D))
    asked, rules = np.tile(np.arange(n), (3, 1, 1)), {"opt": least_error_weights}
    losses = np.clip(epsilon, 1e-3, None)[None]
    return fedsgd(x, y, [owners], losses, asked, rules, start, rng=rng, **options).parameters("opt")[-1]


RIDGE = [
    {"penalty": penalty, "bound": bound, **more}
    for penalty in (1e-3, 0.5, 1e6)
    for bound in ("paper", "sharp")
    for more in ({}, {"clip": True})
]
SHORT = [{"penalty": 0.5, "bound": "sharp", "feature_norm": 1.0, "clip": clip} for clip in (False, True)]
SAMPLED = [{"kind": kind, "bound": bound} for kind in ("realised", "fixed") for bound in ("paper", "sharp")]
FITS: list[dict[str, Any]] = [
    {},
    {"project": False},
    {"label_bound": 2.0},
    {"arithmetic": "ideal"},
    {"out_of_range": "clip"},
]
SUMS = (linear, nonlinear, intervals, whole)
MORE: list[dict[str, Any]] = [
    {"penalty": 0.5, "norm_bound": 0.4},
    {"penalty": 0.5, "label_bound": 2.0},
    {"penalty": D * 2.0**-40},  # the least that floats do not lose
]
KINDS: dict[Callable[..., Iterator[Data]], dict[str, Learner]] = {
    boxes: {
        **{f"output_perturbation {o}": output(output_perturbation, **o) for o in [*RIDGE, *MORE]},
        **{f"lattice_ridge {o}": output(lattice, **o) for o in RIDGE},
        **{f"sampled_ridge {o}": partial(sampled, **o) for o in SAMPLED},
        **{f.__name__: f for f in (objective, statistics, constant)},
        **{f"PersonalizedRidge {o}": partial(regressor, **o) for o in FITS},
    },
    short_rows: {
        **{f"output_perturbation {o}": output(output_perturbation, **o) for o in SHORT},
        **{f"lattice_ridge {o}": output(lattice, **o) for o in SHORT},
        "PersonalizedRidge feature_norm": partial(regressor, feature_norm=1.0),
    },
    signed: {
        "objective_perturbation": logistic,
        "objective_perturbation clip": partial(logistic, clip=True),
        "PrivateLogisticRegression": classifier,
        "PrivateLogisticRegression clip": partial(classifier, out_of_range="clip"),
    },
    numbers: {
        **{f"{f.__name__} clip={c}": partial(f, clip=c) for f in SUMS for c in (False, True)},
        "linear, negative weights": partial(linear, sign=-1.0),
    },
    gradients: {f.__name__: f for f in (sent, shortened)},
    shared_out: {"fedsgd": federated, "fedsgd spacing": partial(federated, spacing=2.0**-10)},
}  # fmt: skip
LEARNERS = [(draw, name) for draw, learners in KINDS.items() for name in learners]


def losses(n: int) -> list[np.ndarray]:
    """Privacy losses: equal, very unequal, and nearly all of the weight on one record."""
    return [np.ones(n), np.geomspace(1e-6, 1e3, n), np.append(np.full(n - 1, 1e-9), 1e3)]


def kinds_of_outcome(draw: Callable[..., Iterator[Data]], learner: Learner, n: int, draws: int) -> dict[str, Data]:
    """Every kind of outcome over data sets of `n` records, with a data set that gives it."""
    rng, found = generator(502, n), {}
    for k in range(draws):
        for data in draw(rng, n):
            found.setdefault(outcome(learner, data, losses(n)[k % 3]), data)
    return found


@pytest.mark.parametrize(("draw", "name"), LEARNERS, ids=lambda part: getattr(part, "__name__", part))
def test_total(draw: Callable[..., Iterator[Data]], name: str) -> None:
    for n, draws in ((1, 6), (7, 18)):
        kinds = kinds_of_outcome(draw, KINDS[draw][name], n, draws)
        assert len(kinds) == 1, kinds
        assert next(iter(kinds)).endswith(("float64", "int64")), kinds


@pytest.mark.parametrize(
    "learner",
    [
        output(output_perturbation, 1e-17),
        partial(statistics, penalty=1e-17),
        partial(sampled, kind="fixed", penalty=1e-17),
    ],
)
def test_penalty_that_some_data_would_break_is_refused_for_all(learner: Learner) -> None:
    """Equal columns and a penalty below rounding: a singular system, where other data are fitted."""
    for kind in kinds_of_outcome(boxes, learner, 7, 18):
        assert re.fullmatch("ValueError: penalty must be at least .*, or rounding hides it beside .*, got 1e-17", kind)


def refuses_one_class(X: Any, y: Any, epsilon: np.ndarray, rng: np.random.Generator) -> Any:
    if len(np.unique(y)) == 1:
        raise ValueError("y holds one class")
    return rng.laplace(size=3)


def warns_of_constants(X: Any, y: Any, epsilon: np.ndarray, rng: np.random.Generator) -> Any:
    if (np.ptp(np.asarray(X, dtype=float), axis=0) == 0).any():
        warnings.warn("a feature is constant", stacklevel=2)
    return rng.laplace(size=3)


BROKEN: dict[str, Learner] = {
    "refuses one class": refuses_one_class,
    "warns of constants": warns_of_constants,
    "scales by the largest": lambda X, y, epsilon, rng: np.divide(X, np.max(X, axis=0)).mean(0) + rng.laplace(size=3),
    "scales in silence": lambda X, y, epsilon, rng: np.nan_to_num(np.max(X), nan=0) ** -0.5 * rng.laplace(size=3),
    "leaves columns out": lambda X, y, epsilon, rng: rng.laplace(size=np.count_nonzero(np.ptp(np.array(X), axis=0))),
    "keeps the type": lambda X, y, epsilon, rng: np.zeros(3, dtype=np.asarray(X).dtype),
    "sorts by class": lambda X, y, epsilon, rng: [np.asarray(y)[np.asarray(y) == c].mean() for c in (-1, 1)],
}


@pytest.mark.parametrize("name", BROKEN)
def test_learner_that_is_not_total_is_caught(name: str) -> None:
    assert len(kinds_of_outcome(boxes, BROKEN[name], 7, 24)) > 1


# --- outside the bounds -----------------------------------------------------------------------------------------------


def spoilt(array: Any, index: Any, value: float) -> np.ndarray:
    found = np.array(array)
    found[index] = value
    return found


Pair = tuple[int, tuple[Any, float], tuple[Any, float]]  # which part of the data is spoilt, where and how, in two ways
OUTSIDE: dict[Callable[..., Iterator[Data]], list[Pair]] = {
    boxes: [
        (0, ((0, 0), 1.5), (slice(2, 5), -7e8)),
        (0, ((0, 0), math.nan), ((3, slice(None)), math.inf)),
        (1, (0, 2.01), (slice(3, 6), -1e300)),
        (1, (2, math.nan), (slice(3), -math.inf)),
    ],
    short_rows: [
        (0, ((0, slice(None)), 0.7), (slice(2, 5), -1e300)),
        (0, ((0, 0), math.nan), ((3, slice(None)), math.inf)),
        (1, (0, 2.01), (slice(3, 6), -1e300)),
    ],
    signed: [
        (0, ((0, slice(None)), 0.6), (slice(2, 5), -1e300)),
        (0, ((0, 0), math.nan), ((3, slice(None)), math.inf)),
        (1, (0, 0.0), (slice(3), 7.0)),
    ],
    numbers: [(0, (0, 1.01), (slice(2, 5), -4e300)), (0, (1, math.nan), (slice(3, 5), math.inf))],
    shared_out: [(1, (0, 7), (slice(3, 6), -1)), (0, ((0, 0), math.nan), ((3, slice(None)), math.inf))],
}


def outcomes(draw: Callable[..., Iterator[Data]], learner: Learner, pair: Pair) -> list[str]:
    """What is seen of a plain data set, and of it spoilt in the two ways."""
    plain = next(draw(np.random.default_rng(4), 7))
    part, *ways = pair
    spoils = [[spoilt(x, *way) if i == part else x for i, x in enumerate(plain)] for way in ways]
    return [outcome(learner, data, np.ones(7)) for data in (plain, *map(tuple, spoils))]


@pytest.mark.parametrize(
    ("draw", "name"),
    [(draw, name) for draw in OUTSIDE for name in KINDS[draw]],
    ids=lambda part: getattr(part, "__name__", part),
)
def test_silent(draw: Callable[..., Iterator[Data]], name: str) -> None:
    clips = "clip" in name and "False" not in name
    for pair in OUTSIDE[draw]:
        if name == "constant" and pair[0] == 0:  # features do not matter
            continue
        inside, one, two = outcomes(draw, KINDS[draw][name], pair)
        assert one == two
        assert inside.endswith(("float64", "int64")) and (one == inside or one.startswith("ValueError: ")), one
        assert (one == inside) == clips, one


@pytest.mark.parametrize(
    "text",
    [
        lambda d: f"data must lie in [0, 1], got {d[d > 1][0]}",
        lambda d: f"data[{np.argmax((d < 0) | (d > 1))}] must lie in [0, 1]",
        lambda d: f"data must lie in [0, 1], {((d < 0) | (d > 1)).sum()} do not",
    ],
)
def test_text_that_tells_is_caught(text: Callable[[np.ndarray], str]) -> None:
    def tells(d: Any, epsilon: np.ndarray, rng: np.random.Generator) -> Any:
        if ((d < 0) | (d > 1)).any():
            raise ValueError(text(np.append(d, [2.0])))
        return 0.0

    def warns(d: Any, epsilon: np.ndarray, rng: np.random.Generator) -> Any:
        if ((d < 0) | (d > 1)).any():
            warnings.warn(text(np.append(d, [2.0])), stacklevel=2)
        return 0.0

    inside, one, two = outcomes(numbers, whole, OUTSIDE[numbers][0])
    assert inside != one == two
    for learner in (tells, warns):
        _, one, two = outcomes(numbers, learner, (0, (0, 1.01), (slice(2, 5), 4e300)))
        assert one != two
