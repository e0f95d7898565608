"""Private cells of any kind: what is in them appears nowhere, clipping takes them all, and each is looked at alone.

Every learner is given its data in many containers, with one cell that is text, complex, an object, masked or missing.
Two markers, a text and a number, stand in the cells, among row names, and behind masks.
"""

from __future__ import annotations

import math
import pickle
import re
import struct
import traceback
import warnings
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from hdpm_book.logistic.joint_objective import alternate, joint_objective
from hdpm_book.ridge import variants
from hdpm_book.ridge.jorgensen import sampled_ridge
from hdpm_lib import validation as v
from hdpm_lib.aggregation import least_error_weights
from hdpm_lib.learners.estimators import PersonalizedRidge, PrivateLogisticRegression
from hdpm_lib.learners.fedsgd import fedsgd
from hdpm_lib.learners.gradients import accuracy, clipped, local_gradients
from hdpm_lib.learners.integer_answers import grid_gradients, integer_gradients, integer_sum
from hdpm_lib.learners.lattice import lattice_ridge
from hdpm_lib.learners.logistic import objective_perturbation
from hdpm_lib.learners.queries import linear_query
from hdpm_lib.learners.ridge import output_perturbation
from hdpm_lib.learners.weighted_mean import WeightedMean
from hdpm_lib.schema import Category, Number, Schema
from tests.support import generator

N, D = 6, 2
EPS = np.full(N, 0.9)
WORD, FIGURE = "Xyzzy", 0.731625489  # the markers
Data = dict[str, Any]
Seen = tuple[Any, list[Any]]  # what is released or fitted, and what only shows itself


class Odd:
    """A cell whose every word is the marker."""

    def __repr__(self) -> str:
        return WORD

    def __float__(self) -> float:
        raise RuntimeError(WORD)

    __hash__ = None  # type: ignore[assignment]
    __array__ = __str__ = __complex__ = __index__ = __float__  # type: ignore[assignment]


CELLS: dict[str, Any] = {
    "text": WORD,
    "bytes": WORD.encode(),
    "complex": complex(FIGURE, FIGURE),
    "a NumPy complex": np.complex64(complex(FIGURE, FIGURE)),
    "an object": Odd(),
    "None": None,
    "NaN": math.nan,
    "infinity": -math.inf,
    "not available": pd.NA,
    "no time": pd.NaT,
    "a date": date(1973, 1, 6),
    "a span": np.timedelta64(731625489, "s"),
    "a list": [WORD, FIGURE],
    "a dictionary": {WORD: FIGURE},
    "an array": np.array([FIGURE, FIGURE, FIGURE]),
    "a masked cell": np.ma.masked,
    "a huge integer": 10**400,
    "a huge number": 1e308,
    "a decimal": Decimal("Infinity"),
    "a huge fraction": Fraction(10**400, 3),
}


def ridge_data(rng: np.random.Generator) -> Data:
    return {"X": rng.uniform(0.1, 0.6, (N, D)), "y": rng.uniform(-0.9, 0.9, N)}


def signed_data(rng: np.random.Generator) -> Data:
    return {"X": rng.uniform(0.1, 0.6, (N, D)), "y": np.resize([-1.0, 1.0], N)}


def shared_data(rng: np.random.Generator) -> Data:
    return {"features": rng.uniform(0.1, 0.6, (N, D)), "labels": np.resize([0, 1], N)}


def of(name: str, *shape: int) -> Callable[[np.random.Generator], Data]:
    return lambda rng: {name: rng.uniform(0.1, 0.6, shape)}


def rng() -> np.random.Generator:
    return generator(811)


def perturbed(mechanism: Callable[..., Any]) -> Callable[..., Seen]:
    def learn(data: Data, clip: bool) -> Seen:
        made = mechanism(data["X"], data["y"], EPS, 0.5, clip=clip)
        return made.release(rng=rng()), [made]

    return learn


def regressor(data: Data, clip: bool, **options: Any) -> Seen:
    how = "clip" if clip else "raise"
    model = PersonalizedRidge(out_of_range=how, random_state=0, **options).fit(**data, epsilon=EPS)
    return [model, model.predict(data["X"])], []


def classifier(data: Data, clip: bool) -> Seen:
    how = "clip" if clip else "raise"
    model = PrivateLogisticRegression(1.0, classes=(-1, 1), out_of_range=how, random_state=0).fit(**data, epsilon=EPS)
    return [model, model.predict(data["X"]), model.decision_function(data["X"])], []


def logistic(data: Data, clip: bool) -> Seen:
    made = objective_perturbation(data["X"], data["y"], EPS / EPS.sum(), 2.0, 1.0, clip=clip)
    return made.release(rng=rng()), [made]


def terms(data: Data, clip: bool) -> Seen:
    made = linear_query(np.ones(N), 2.0, clip=clip)
    return made.release(data["terms"], rng=rng()), [made]


def many_terms(data: Data, clip: bool) -> Seen:
    made = linear_query(np.ones(N), 2.0, dimension=D, clip=clip)
    return made.release(data["terms"], rng=rng()), [made]


def whole(data: Data, clip: bool) -> Seen:
    made = integer_sum(np.ones(N), 2.0, clip=clip)
    return made.release(data["data"], rng=rng()), [made]


def mean(data: Data, clip: bool) -> Seen:
    made = WeightedMean(EPS / EPS.sum(), 3.0, np.zeros(D), 1.0, clip=clip)
    return made.release(data["records"], rng=rng()), [made]


def table(data: Data, clip: bool) -> Seen:
    columns = [Number("age", 0, 1), Number("bmi", 0, 1)]
    schema = Schema(columns, out_of_range="clip" if clip else "raise")
    return schema.transform(data["X"]), [schema]


def sampled(data: Data, clip: bool) -> Seen:
    made = sampled_ridge(data["X"], data["y"], EPS, 0.5, 1.0, np.ones((2, N)))
    return made.release(rng=rng()), [made]


def objective(data: Data, clip: bool) -> Seen:
    made = variants.calibrate_objective_perturbation(data["X"], data["y"], 9 * EPS, 1.0)
    return variants.release_objective_perturbation(made, rng=rng()), [made]


def statistics(data: Data, clip: bool) -> Seen:
    made = variants.calibrate_sufficient_statistics(data["X"], data["y"], EPS, 1.0)
    return variants.release_sufficient_statistics(made, rng=rng()), [made]


def constant(data: Data, clip: bool) -> Seen:
    return variants.private_constant(data["y"], EPS, rng=rng()), []


def joint(data: Data, clip: bool) -> Seen:
    numbers = {"penalty": 1.0, "mu": 1.0, "sigma": 1.0, "gamma": 1.0}
    made = joint_objective(data["X"], data["y"], [0.1, 0.2], np.ones(N), **numbers)
    return None, [made, alternate(made, 2.0)]


def federated(data: Data, clip: bool) -> Seen:
    asked, owners = np.zeros((2, 1, 1), dtype=int), [[np.arange(N)]]
    start, rules = np.zeros((2, D)), {"opt": least_error_weights}
    made = fedsgd(data["features"], data["labels"], owners, [[1.0]], asked, rules, start, rng=rng())
    return None, [made]


def local(data: Data, clip: bool) -> Seen:
    """What leaves an owner: her gradients need the noise of `sent`, but any features give some."""
    gradients = local_gradients(np.zeros((1, 2, D)), data["features"], np.resize([0, 1], N), [np.arange(N)])
    return clipped(gradients, 0.7), []


def right(data: Data, clip: bool) -> Seen:
    return accuracy(np.eye(2), data["features"], data["labels"]), []


def sent(data: Data, clip: bool) -> Seen:
    return integer_gradients(data["gradients"], EPS, 0.7, spacing=2.0**-10, rng=rng()), []


def shortened(data: Data, clip: bool) -> Seen:
    return [clipped(data["gradients"], 0.7), grid_gradients(data["gradients"], 0.7, 2.0**-10)], []


MODES = {"clip": (True,), "raise": (False,), "both": (False, True)}
LEARNERS: dict[str, tuple[Callable[..., Seen], Callable[[np.random.Generator], Data], str]] = {
    "output_perturbation": (perturbed(output_perturbation), ridge_data, "both"),
    "lattice_ridge": (perturbed(lattice_ridge), ridge_data, "both"),
    "PersonalizedRidge": (regressor, ridge_data, "both"),
    "PersonalizedRidge, ideal": (lambda d, c: regressor(d, c, arithmetic="ideal"), ridge_data, "both"),
    "PersonalizedRidge, norm": (lambda d, c: regressor(d, c, feature_norm=1.0), ridge_data, "both"),
    "PrivateLogisticRegression": (classifier, signed_data, "both"),
    "objective_perturbation": (logistic, signed_data, "both"),
    "linear_query": (terms, of("terms", N), "both"),
    "linear_query, many": (many_terms, of("terms", N, D), "both"),
    "integer_sum": (whole, of("data", N), "both"),
    "WeightedMean": (mean, of("records", N, D), "both"),
    "Schema": (table, of("X", N, D), "both"),
    "sampled_ridge": (sampled, ridge_data, "raise"),
    "ridge objective": (objective, ridge_data, "raise"),
    "ridge statistics": (statistics, ridge_data, "raise"),
    "private_constant": (constant, lambda rng: {"y": rng.uniform(0.1, 0.6, N)}, "raise"),
    "joint": (joint, signed_data, "raise"),
    "fedsgd": (federated, shared_data, "raise"),
    "accuracy": (right, shared_data, "raise"),
    "local_gradients": (local, of("features", N, D), "clip"),
    "integer_gradients": (sent, of("gradients", N, 2, D), "clip"),
    "clipped": (shortened, of("gradients", N, 2, D), "clip"),
}
EACH = [(name, clip) for name, (_, _, mode) in LEARNERS.items() for clip in MODES[mode]]


def spoilt(array: np.ndarray, kind: str) -> Iterator[tuple[str, Any]]:
    """The array in containers, with one odd cell; the names of rows are the marker too."""
    cell, place = CELLS[kind], (1,) * array.ndim
    objects = array.astype(object)
    cells = objects.ravel()
    cells[np.ravel_multi_index(place, array.shape)] = cell
    yield "objects", objects
    yield "lists", objects.tolist()
    rows = pd.Index([f"{WORD}{i}" for i in range(len(array))])
    if array.ndim == 2:
        yield "a frame", pd.DataFrame(objects, index=rows, columns=["age", "bmi"])
    if array.ndim == 1:
        yield "a series", pd.Series(objects, index=rows)


def whole_arrays(array: np.ndarray) -> Iterator[tuple[str, Any]]:
    """The array in containers of one type in which a cell is odd."""
    place = (1,) * array.ndim
    hidden = np.zeros(array.shape, dtype=bool)
    hidden[place] = True
    marked = array.astype(float)
    marked[place] = 1e5 * FIGURE
    yield "masked", np.ma.array(marked, mask=hidden)
    yield "masked rows", list(np.ma.array(marked, mask=hidden)) if array.ndim > 1 else np.ma.array(marked, mask=hidden)
    yield "complex", np.where(hidden, complex(FIGURE, FIGURE), array)
    yield "text", np.where(hidden, WORD, array.astype(str))
    marked[place] = math.nan
    yield "NaN", marked
    yield "float32", marked.astype(np.float32)
    if array.ndim == 2:
        yield "sparse", sparse.csr_array(marked)


def spoils(name: str) -> Iterator[tuple[str, str, Data]]:
    """Data sets of a learner with one odd cell: the argument, what is odd, and the data."""
    data = LEARNERS[name][1](generator(812))
    for part, array in data.items():
        for kind in CELLS:
            for how, value in spoilt(array, kind):
                yield part, f"{part}: {kind} in {how}", {**data, part: value}
        for how, value in whole_arrays(array):
            yield part, f"{part}: {how}", {**data, part: value}


def tells(what: str | bytes) -> bool:
    """Whether a marker is in a text or in bytes."""
    if isinstance(what, str):
        return any(mark in what for mark in (WORD, "1973, 1", "1973-01")) or "731625" in what.replace(".", "")
    numbers = [struct.pack(kind, scale * FIGURE) for kind in "df" for scale in (1, 1e5)]
    return WORD.encode() in what or any(number in what for number in numbers)


def chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def watched(learn: Callable[..., Seen], data: Data, clip: bool) -> tuple[str, list[str]]:
    """The error, or nothing, and all that is told of the data."""
    error, told = "", []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found, shown = learn(data, clip)
        except Exception as caught:
            error, found, shown = f"{type(caught).__name__}: {caught}", None, []
            told += [f"error {e!r}" for e in chain(caught) if tells(f"{e!r} {e}")]
            told += [f"chain {e!r}" for e in list(chain(caught))[1:]]
            told += [line for line in traceback.format_exception_only(caught) if tells(line)]
    told += [f"warning {one.message}" for one in said]
    told += [f"repr {thing!r:.80}" for thing in [found, *shown] if tells(f"{thing!r} {thing}")]
    for thing in found if isinstance(found, list) else [found]:
        told += [f"pickle of {type(thing).__name__}"] * tells(pickle.dumps(thing))
        fitted = vars(thing) if hasattr(thing, "fit") else {}
        told += [f"attribute {key}" for key, part in fitted.items() if tells(repr(part))]
        numbers = thing if isinstance(thing, np.ndarray | float) else getattr(thing, "coef_", 0.0)
        told += ["not finite"] * (not np.isfinite(numbers).all())
    return error, told


@pytest.mark.parametrize(("name", "clip"), EACH)
def test_odd_cells_appear_nowhere(name: str, clip: bool) -> None:
    """Clipping takes every cell without a word; else there is one sentence for each argument, and nothing behind it."""
    learn, _, mode = LEARNERS[name]
    sentences: dict[str, dict[str, str]] = {}
    for part, what, data in spoils(name):
        error, told = watched(learn, data, clip)
        assert told == [], what
        if not ("a huge number" in what and "features" in data):  # which have no bounds, and are numbers
            sentences.setdefault(part, {})[error] = what
    for part, found in sentences.items():
        assert len(found) == 1, found
        (sentence,) = found
        assert sentence == "" if clip or mode == "clip" else re.match(f"ValueError: .*{part}.* must ", sentence)


@pytest.mark.parametrize("name", [name for name, (_, _, mode) in LEARNERS.items() if mode != "raise"])
def test_odd_cell_changes_no_other(name: str) -> None:
    """All odd cells of a kind that holds no number count as the same public value: the releases are equal."""
    learn, draw, _ = LEARNERS[name]
    for part, array in draw(generator(812)).items():
        found = {}
        for odd, what, data in spoils(name):
            number = any(word in what for word in ("infinity", "huge number", "float32"))
            if odd == part and not number:
                found[what] = np.concatenate([np.ravel(x) for x in released(learn(data, True)[0])])
        first, *others = found.items()
        for what, other in others:
            np.testing.assert_allclose(other, first[1], atol=1e-7, err_msg=f"{what} and {first[0]}")
        plain = np.concatenate([np.ravel(x) for x in released(learn({**draw(generator(812))}, True)[0])])
        assert array.size and not np.allclose(plain, first[1], atol=1e-12, rtol=0)


def released(found: Any) -> list[np.ndarray]:
    """Arrays of what was released or fitted."""
    parts = found if isinstance(found, list) else [found]
    return [np.asarray(getattr(part, "coef_", part), dtype=float) for part in parts]


@pytest.mark.parametrize("name", LEARNERS)
def test_repr_does_not_depend_on_the_data(name: str) -> None:
    learn, draw, mode = LEARNERS[name]
    texts = set()
    for seed in (1, 2):
        _, shown = learn(draw(generator(813, seed)), MODES[mode][0])
        texts.add((*map(repr, shown), *map(str, shown)))
    assert len(texts) == 1, texts


def test_what_a_mask_hides_is_never_used() -> None:
    """Whatever is behind a mask, of the table or of one row of it, the fit is the same."""
    data, mask = ridge_data(generator(814)), np.arange(N * D).reshape(N, D) % 5 == 0
    for wrap in (lambda a: a, list, lambda a: a.astype(object), lambda a: a.astype(np.float32)):
        fits = []
        for hidden in (0.0, 0.9, -7e5):
            X = wrap(np.ma.array(np.where(mask, hidden, data["X"]), mask=mask))
            fits.append(PersonalizedRidge(out_of_range="clip", random_state=0).fit(X, data["y"]).coef_.tolist())
        assert fits[0] == fits[1] == fits[2]


# --- labels and classes -----------------------------------------------------------------------------------------------

UNDECLARED = "classes is not given: the labels that occur become public, as classes_"


@pytest.mark.parametrize("rare", ["no", WORD])
def test_undeclared_classes_are_warned_of_whatever_the_labels(rare: str) -> None:
    X = ridge_data(generator(815))["X"]
    with pytest.warns(UserWarning, match=f"^{UNDECLARED}") as said:
        PrivateLogisticRegression(1.0).fit(X, ["yes"] * 5 + [rare])
    assert len(said) == 1 and said[0].filename == __file__ and not tells(str(said[0].message))
    for labels in (["yes"] * 6, ["yes", "no"] * 2 + [WORD, "no"], ["yes"] * 5 + [None], [0, 1, math.nan] * 2):
        with (
            pytest.warns(UserWarning, match=f"^{UNDECLARED}"),
            pytest.raises(ValueError, match=r"^Only binary classification is supported: y must hold two labels, ") as e,
        ):
            PrivateLogisticRegression(1.0).fit(X, labels)
        assert list(chain(e.value)) == [e.value] and not tells(str(e.value))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("classes", [("no", "yes"), (0, 1), (False, True), (0.5, 1.5), ("0", 1)])
def test_labels_outside_declared_classes_count_as_the_first(classes: tuple[Any, Any]) -> None:
    X, places = ridge_data(generator(815))["X"], np.array([0, 1, 1, 0, 1, 0])
    labels = np.array(classes, dtype=object)[places]
    odd = [CELLS[kind] for kind in CELLS] + [WORD, 7, "NO"]

    def fit(y: Any) -> list[float]:
        model = PrivateLogisticRegression(1.0, classes=classes, out_of_range="clip", random_state=0).fit(X, y)
        assert model.classes_.tolist() == np.unique(np.array(classes)).tolist()
        return model.coef_.tolist()

    if "0" not in classes:
        expected = fit(labels)
        assert fit(labels.tolist()) == fit(pd.Series(labels)) == expected
        for cell in odd:
            y = labels.tolist()
            y[3] = cell  # of the first class before
            assert fit(y) == expected
        assert fit(np.ma.array(labels, mask=[0, 0, 0, 1, 0, 0])) == expected
    with pytest.raises(ValueError, match=r"^y must hold no label but the declared classes"):
        PrivateLogisticRegression(1.0, classes=classes).fit(X, [*labels[:5], WORD])


def test_levels_of_a_category_are_found_in_any_container() -> None:
    column, codes = Category("smoker", ("no", "yes", "sometimes")), [1, 0, -1, -1, 2]
    cells = ["yes", "no", Odd(), ["no"], "sometimes"]
    for values in (cells, np.fromiter(cells, dtype=object)):
        assert v.private_places(values, "smoker", column.levels).tolist() == codes
        assert column.encode(values)[1].tolist() == [c >= 0 for c in codes]
    assert v.private_places(np.array(["1", "2.0", "x"]), "y", (2, 1)).tolist() == [1, 0, -1]
    assert v.private_places(np.array([1.0, 2.0, np.nan]), "y", (2, 1)).tolist() == [1, 0, -1]


# --- shapes are public ------------------------------------------------------------------------------------------------


SHAPES: list[Any] = [None, WORD, 3.0, {WORD: 1.0}, {WORD}, [], [[]], [WORD, WORD], [[1.0, 2.0], [3.0]], [[1.0], WORD]]
SHAPES += [
    [[1.0], None],
    [[[WORD]]],
    np.zeros((2, 3, 1)),
    np.zeros((0, 2)),
    np.zeros((2, 0)),
    [[1.0], {WORD: 1}],
    Odd(),
]


@pytest.mark.parametrize("value", SHAPES, ids=map(str, range(len(SHAPES))))
@pytest.mark.parametrize("clip", [False, True])
def test_shape_that_is_no_table_is_refused(value: Any, clip: bool) -> None:
    for learn in (
        lambda: output_perturbation(value, [0.5, 0.5], [1.0, 1.0], 1.0, clip=clip),
        lambda: PersonalizedRidge(out_of_range="clip" if clip else "raise").fit(value, [0.5, 0.5]),
        lambda: Schema([Number("age", 0, 1)], out_of_range="clip" if clip else "raise").transform(value),
    ):
        with pytest.raises(ValueError, match=r"^X (must|has)") as caught:
            learn()
        assert list(chain(caught.value)) == [caught.value] and not tells(str(caught.value))


def test_plain_arrays_are_taken_as_they_are() -> None:
    for dtype in (np.float64, np.float32, np.int8, bool):
        array = np.array([[0, 1], [1, 0]], dtype=dtype)
        for value in (array, array.tolist(), pd.DataFrame(array), sparse.coo_array(array), tuple(map(tuple, array))):
            assert v.private_floats(value, "X", 2).tolist() == array.tolist()
    array = np.ones((3, 2), dtype=np.float32)
    assert v.private_floats(array, "X", 2) is array
    assert v.private_doubles(np.ma.array([1, 2]), "y", 1).tolist() == [1, 2]
    assert v.private_doubles(np.array([1e4000], dtype=np.longdouble), "y", 1).tolist() == [math.inf]
    nested = [[[np.float64(1), np.array(2)], [Fraction(1, 2), "4"]]]
    assert v.private_floats(nested, "gradients").tolist() == [[[1, 2], [0.5, 4]]]
