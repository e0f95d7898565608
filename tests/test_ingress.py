"""Private cells of any kind: what is in them appears nowhere, clipping takes them all, and each is
looked at alone.

Every learner is given its data in many containers, with cells that are text, complex, an object,
masked, missing, or outside the bounds. Two markers, a text and a number, stand in the cells, among
row names, and behind masks.
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
from hdpm_lib import private
from hdpm_lib.learners.estimators import PersonalizedRidge, PrivateLogisticRegression
from hdpm_lib.learners.objective import ObjectivePerturbation
from hdpm_lib.learners.queries import BiasedLaplace
from hdpm_lib.learners.ridge import OutputPerturbation, output_perturbation
from hdpm_lib.learners.second_moments import SecondMoments
from hdpm_lib.learners.weighted_mean import WeightedMean
from hdpm_lib.schema import Category, Number, Schema
from tests import releases
from tests.releases import CLASSES, COLUMNS, EACH, LEARNERS, D, Data, Domain, Learner, Seen
from tests.support import generator

LOOKS_AT = []
N = 6
EPS = np.full(N, 0.9)
# of which no look at a cell depends
USUAL = [(name, clip) for name, clip in EACH if "penalty" not in name]
# the markers
WORD = "Xyzzy"
FIGURE = 0.731625489


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
    "a huge whole number": 10**400,
    "a large number": 2.5,
    "a huge number": 1e308,
    "a decimal infinity": Decimal("Infinity"),
    "a decimal that is none": Decimal("NaN"),
    "a huge number, as a fraction": Fraction(10**400, 3),
}


def plain(domain: Domain, rng: np.random.Generator) -> Data:
    """Data well inside the bounds, all cells different."""
    X = rng.uniform(0.1, 0.5, (N, D))
    y = rng.uniform(0.1, 0.6, N)
    if domain is releases.shared_out:
        return X, np.arange(N) % CLASSES, list(np.arange(N)[:, None])
    if domain is releases.below_zero:
        return (-releases.weights(N) * y,)
    if domain is releases.gradients:
        return (rng.uniform(0.1, 0.6, (N, CLASSES, D)),)
    if domain in (releases.tables, releases.balls):
        return (X,)
    if domain in (releases.numbers, releases.labels):
        return (y,)
    return X, np.resize([-1.0, 1.0], N) if domain is releases.signed else y


def spoilt(array: np.ndarray, cell: Any) -> Iterator[tuple[str, Any]]:
    """The array in containers, with one odd cell; the names of rows are the marker too."""
    objects = array.astype(object)
    cells = objects.ravel()
    cells[np.ravel_multi_index((1,) * array.ndim, array.shape)] = cell
    yield "objects", objects
    yield "lists", objects.tolist()
    rows = pd.Index([f"{WORD}{i}" for i in range(len(array))])
    if array.ndim == 2:
        yield "a frame", pd.DataFrame(objects, index=rows, columns=COLUMNS)
    if array.ndim == 1:
        yield "a series", pd.Series(objects, index=rows)


def whole_arrays(array: np.ndarray) -> Iterator[tuple[str, Any]]:
    """The array in containers of one type in which a cell is odd, or three rows."""
    hidden = np.zeros(array.shape, dtype=bool)
    hidden[(1,) * array.ndim] = True
    masked = np.ma.array(np.where(hidden, 1e5 * FIGURE, array), mask=hidden)
    missing = np.where(hidden, math.nan, array)
    yield "masked", masked
    yield "masked rows", list(masked) if array.ndim > 1 else masked
    yield "complex", np.where(hidden, complex(FIGURE, FIGURE), array)
    yield "text", np.where(hidden, WORD, array.astype(str))
    yield "NaN", missing
    yield "float32", missing.astype(np.float32)
    if array.ndim == 2:
        yield "sparse", sparse.csr_array(missing)
    for value in (-7e8, -1e300, math.inf):
        rows = array.astype(float)
        rows[(slice(2, 5), *(1,) * (array.ndim - 1))] = value
        yield f"numbers {value}", rows


def spoils(learner: Learner) -> Iterator[tuple[str, str, Data]]:
    """Data sets of a learner with odd cells: the argument, what is odd, and the data."""
    data = plain(learner.domain, generator(812))
    for k, part in enumerate(learner.parts):
        if not part:
            continue
        odd = [
            (f"{kind} in {how}", x)
            for kind, cell in CELLS.items()
            for how, x in spoilt(data[k], cell)
        ]
        for what, value in [*odd, *whole_arrays(data[k])]:
            yield part, f"{part}: {what}", (*data[:k], value, *data[k + 1 :])


def tells(what: str | bytes) -> bool:
    """Whether a marker is in a text or in bytes."""
    if isinstance(what, str):
        return any(
            mark in what for mark in (WORD, "1973, 1", "1973-01")
        ) or "731625" in what.replace(".", "")
    numbers = [struct.pack(kind, scale * FIGURE) for kind in "df" for scale in (1, 1e5)]
    return WORD.encode() in what or any(number in what for number in numbers)


def chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def watched(learner: Learner, data: Data, clip: bool) -> tuple[str, list[str]]:
    """The error, or nothing, and all that is told of the data."""
    error = ""
    told = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", "the fit will be mostly noise")  # by public numbers
        try:
            found, shown = learner(data, EPS, generator(811), clip)
        except Exception as caught:
            error = f"{type(caught).__name__}: {caught}"
            found = []
            shown = []
            told += [f"error {e!r}" for e in chain(caught) if tells(f"{e!r} {e}")]
            told += [f"chain {e!r}" for e in list(chain(caught))[1:]]
            told += [line for line in traceback.format_exception_only(caught) if tells(line)]
    told += [f"warning {one.message}" for one in said]
    told += [f"repr {thing!r:.80}" for thing in [found, *shown] if tells(f"{thing!r} {thing}")]
    for thing in found if isinstance(found, list) else [found]:
        told += [f"pickle of {type(thing).__name__}"] * tells(pickle.dumps(thing))
        fitted = vars(thing) if hasattr(thing, "fit") else {}
        told += [f"attribute {key}" for key, part in fitted.items() if tells(repr(part))]
    told += ["not finite"] * (not all(np.isfinite(x).all() for x in releases.arrays(found)))
    return error, told


def objections(learner: Learner, clip: bool) -> list[Any]:
    """What is told of odd cells.

    Clipping takes every one without a word; else there is one sentence for each argument, and
    nothing behind it.
    """
    sentences: dict[str, dict[str, str]] = {}
    for part, what, data in spoils(learner):
        error, told = watched(learner, data, clip)
        if told:
            return [what, told]
        if not (part == "features" and "number" in what):  # which have no bounds
            sentences.setdefault(part, {})[error] = what
    pattern = "" if clip else "ValueError: .*{}.* must .*"
    return [
        found
        for part, found in sentences.items()
        if len(found) > 1 or not re.fullmatch(pattern.format(part), next(iter(found)), re.DOTALL)
    ]


@pytest.mark.parametrize(("name", "clip"), USUAL)
def test_odd_cells_appear_nowhere(name: str, clip: bool) -> None:
    assert objections(LEARNERS[name], clip) == []


def test_odd_cells_appear_nowhere_in_what_is_not_private() -> None:
    def joint(X: Any, y: Any, epsilon: np.ndarray, rng: np.random.Generator) -> Seen:
        numbers = {"penalty": 1.0, "mu": 1.0, "sigma": 1.0, "gamma": 1.0}
        made = joint_objective(X, y, [0.1, 0.2, 0.1], np.ones(N), **numbers)
        return [], [made, alternate(made, 2.0)]

    assert objections(Learner(joint, releases.signed, mode="raise"), False) == []


@pytest.mark.parametrize(
    "text",
    [
        lambda d, bad: f"terms must lie in [0, 1], got {d[bad][0]}",
        lambda d, bad: f"terms[{np.argmax(bad)}] must lie in [0, 1]",
        lambda d, bad: f"terms must lie in [0, 1], {bad.sum()} do not",
    ],
    ids=["value", "place", "count"],
)
@pytest.mark.parametrize("warn", [False, True])
def test_text_that_tells_is_caught(text: Callable[..., str], warn: bool) -> None:
    def tell(terms: Any, epsilon: np.ndarray, rng: np.random.Generator) -> Seen:
        d = private.private_floats(terms, "terms", 1)
        bad = ~((d >= 0) & (d <= 1))
        if bad.any() and warn:
            warnings.warn(text(d, bad), stacklevel=2)
        elif bad.any():
            raise ValueError(text(d, bad))
        return 0.0, []

    assert objections(Learner(tell, releases.numbers, ("terms",), "raise"), warn)


@pytest.mark.parametrize("name", [name for name, clip in USUAL if clip])
def test_odd_cell_changes_no_other(name: str) -> None:
    """All odd cells of a kind that holds no number count as the same public value: the releases are
    equal.
    """
    learner = LEARNERS[name]

    def flat(data: Data) -> np.ndarray:
        return np.concatenate(
            [np.ravel(x) for x in releases.arrays(learner(data, EPS, generator(811), True)[0])]
        )

    usual = flat(plain(learner.domain, generator(812)))
    for part in learner.parts:
        found = {
            what: flat(data)
            for odd, what, data in spoils(learner)
            if odd == part and not any(word in what for word in ("infinity", "number", "float32"))
        }
        first, *others = found.items()
        for what, other in others:
            np.testing.assert_allclose(other, first[1], atol=1e-7, err_msg=f"{what} and {first[0]}")
        assert not np.allclose(usual, first[1], atol=1e-12, rtol=0)


def all_odd(array: np.ndarray) -> Iterator[tuple[str, Any]]:
    """Containers of the same shape of which each cell is odd."""
    for kind, cell in CELLS.items():
        cells = np.fromiter([cell] * array.size, dtype=object, count=array.size)
        yield f"{kind} in objects", cells.reshape(array.shape)
        if array.ndim == 2:
            # of the type that pandas finds: before 3.1 it fails at huge whole numbers
            kept = object if isinstance(cell, int) else None
            table = pd.DataFrame(cells.reshape(array.shape), columns=COLUMNS, dtype=kept)
            yield f"{kind} in a frame", table
    yield "masked", np.ma.array(array, mask=True)
    for dtype in (np.float64, np.float32):
        for value in (math.nan, math.inf, -math.inf):
            yield f"{value} of {dtype.__name__}", np.full(array.shape, value, dtype=dtype)
    yield "missing, as tables write it", np.full(array.shape, None)
    yield "text", np.full(array.shape, WORD)


def objections_to_all(learner: Learner, records: int) -> list[Any]:
    """What is told of data sets, also of a single record, of which each cell is odd."""
    usual = plain(learner.domain, generator(812))
    data = tuple(
        x[:records] if hasattr(x, "shape") else [[k] for k in range(records)] for x in usual
    )
    found = []
    for k, part in enumerate(learner.parts):
        if part and part != "features":
            for what, value in all_odd(np.asarray(data[k])):
                spoilt_data = (*data[:k], value, *data[k + 1 :])
                with warnings.catch_warnings(record=True) as said, np.errstate(all="warn"):
                    warnings.simplefilter("always")
                    warnings.filterwarnings("ignore", "the fit will be mostly noise")
                    try:
                        made = learner(spoilt_data, EPS[:records], generator(811), True)[0]
                        finite = all(np.isfinite(x).all() for x in releases.arrays(made))
                        found += [] if finite else [(what, "not finite")]
                    except Exception as error:
                        found.append((part, what, error))
                found += [(part, what, one.message) for one in said]
    return found


@pytest.mark.parametrize("records", [1, N])
@pytest.mark.parametrize("name", [name for name, clip in USUAL if clip])
def test_data_of_which_no_cell_is_usual_are_clipped_in_silence(name: str, records: int) -> None:
    """All missing, all text, all infinite: of many records and of one."""
    assert objections_to_all(LEARNERS[name], records) == []


def test_clipping_that_needs_a_usual_cell_is_caught() -> None:
    def middle(terms: Any, epsilon: np.ndarray, rng: np.random.Generator, clip: bool) -> Seen:
        numbers = private.private_doubles(terms, "terms", 1)
        if np.isnan(numbers).all():
            raise ValueError("terms must hold a number")
        return np.nan_to_num(numbers), []

    assert objections_to_all(Learner(middle, releases.numbers, ("terms",)), 1)


@pytest.mark.parametrize("name", LEARNERS)
def test_repr_does_not_depend_on_the_data(name: str) -> None:
    learner = LEARNERS[name]
    texts = set()
    for seed in (1, 2):
        _, shown = learner(plain(learner.domain, generator(813, seed)), EPS, generator(811))
        texts.add((*map(repr, shown), *map(str, shown)))
    assert len(texts) == 1, texts


MECHANISMS = (
    BiasedLaplace,
    ObjectivePerturbation,
    OutputPerturbation,
    SecondMoments,
    WeightedMean,
)


def holds_data(name: str) -> bool:
    """Whether mechanisms differ in anything once they have released from different data."""
    learner = LEARNERS[name]
    kept = set()
    for seed in (1, 2):
        data = plain(learner.domain, generator(813, seed))
        _, shown = learner(data, EPS, generator(811))
        kept.add(pickle.dumps([made for made in shown if isinstance(made, MECHANISMS)]))
    return len(kept) > 1


def test_mechanisms_hold_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not [name for name in LEARNERS if holds_data(name)]
    right = OutputPerturbation.release

    def keeps(self: Any, X: Any, y: Any, **options: Any) -> Any:
        object.__setattr__(self, "y", y)
        return right(self, X, y, **options)

    monkeypatch.setattr(OutputPerturbation, "release", keeps)
    assert holds_data("output_perturbation {}")


def test_what_a_mask_hides_is_never_used() -> None:
    """Whatever is behind a mask, of the table or of one row of it, the fit is the same."""
    (X, y), mask = plain(releases.boxes, generator(814)), np.arange(N * D).reshape(N, D) % 5 == 0
    for wrap in (lambda a: a, list, lambda a: a.astype(object), lambda a: a.astype(np.float32)):
        fits = []
        for hidden in (0.0, 0.9, -7e5):
            masked = wrap(np.ma.array(np.where(mask, hidden, X), mask=mask))
            fits.append(PersonalizedRidge(clip=True, rng=0).fit(masked, y).coef_.tolist())
        assert fits[0] == fits[1] == fits[2]


# --- labels and classes -------------------------------------------------------------------------

UNDECLARED = "classes is not given: the labels that occur become public, as classes_"


@pytest.mark.parametrize("rare", ["no", WORD])
def test_undeclared_classes_are_warned_of_whatever_the_labels(rare: str) -> None:
    X = plain(releases.boxes, generator(815))[0]
    with pytest.warns(UserWarning, match=f"^{UNDECLARED}") as said:
        PrivateLogisticRegression(epsilon=9.0).fit(X, ["yes"] * 5 + [rare])
    assert len(said) == 1 and said[0].filename == __file__ and not tells(str(said[0].message))
    for labels in (
        ["yes"] * 6,
        ["yes", "no"] * 2 + [WORD, 7],
        ["yes"] * 5 + [None],
        [0, 1, math.nan] * 2,
    ):
        with (
            pytest.warns(UserWarning, match=f"^{UNDECLARED}"),
            pytest.raises(
                ValueError,
                match=r"^Unknown label type: y must hold two classes or more, ",
            ) as e,
        ):
            PrivateLogisticRegression(1.0).fit(X, labels)
        assert list(chain(e.value)) == [e.value] and not tells(str(e.value))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("classes", [("no", "yes"), (0, 1), (False, True), (0.5, 1.5)])
def test_labels_outside_declared_classes_count_as_the_first(classes: tuple[Any, Any]) -> None:
    X = plain(releases.boxes, generator(815))[0]
    places = np.array([0, 1, 1, 0, 1, 0])
    labels = np.array(classes, dtype=object)[places]
    odd = [CELLS[kind] for kind in CELLS] + [WORD, 7, "NO"]

    def fit(y: Any) -> list[float]:
        model = PrivateLogisticRegression(epsilon=9, classes=classes, clip=True, rng=0)
        model.fit(X, y)
        assert model.classes_.tolist() == np.unique(np.array(classes)).tolist()
        return model.coef_.tolist()

    expected = fit(labels)
    assert fit(labels.tolist()) == fit(pd.Series(labels)) == expected
    for cell in odd:
        y = labels.tolist()
        y[3] = cell  # of the first class before
        assert fit(y) == expected
    assert fit(np.ma.array(labels, mask=[0, 0, 0, 1, 0, 0])) == expected
    with pytest.raises(ValueError, match=r"^y must hold no label but the declared classes"):
        PrivateLogisticRegression(epsilon=9, classes=classes).fit(X, [*labels[:5], WORD])


def test_levels_of_which_not_all_read_as_numbers() -> None:
    found = private.private_places(np.array(["1.0", "old"]), "y", ("1", "old"))
    assert found.tolist() == [0, 1]


def test_features_are_clipped_only_where_that_is_asked() -> None:
    with pytest.raises(ValueError, match=r"^rows of X must have a norm of at most feature_norm"):
        private.check_features([[2.0]], 1.0)


@pytest.mark.parametrize("classes", [(0, 1), ("0", "1"), (False, True), ("0.0", "1.00")])
def test_labels_that_read_as_the_same_numbers_are_of_their_classes(classes: Any) -> None:
    """Whatever they come in: else one record whose label is text would change all others."""
    column = Category("ill", classes)
    for labels in ([0, 1, 1], [0.0, 1.0, 1.0], ["0", "1", "1"], [False, True, True]):
        for given in (labels, np.array(labels), pd.Series(labels, dtype=object)):
            assert private.private_places(given, "y", classes).tolist() == [0, 1, 1]
        for odd in ("old", b"old"):
            assert column.encode(np.array([*labels, odd]))[0].ravel().tolist() == [
                -0.5,
                0.5,
                0.5,
                0,
            ]
    X = plain(releases.boxes, generator(815))[0]
    for clip in (False, True):
        fits = [
            PrivateLogisticRegression(1.0, classes=classes, clip=clip, rng=0).fit(X, y)
            for y in ([0, 1] * 3, np.array(["0", "1"] * 3))
        ]
        assert (fits[0].coef_ == fits[1].coef_).all()
        assert fits[0].predict(10 * X).tolist() == fits[1].predict(10 * X).tolist()


@pytest.mark.parametrize(
    "classes",
    [
        (None, 1),
        ("0", 1),
        (0, math.nan),
        (0, pd.NA),
        "ab",
        7,
        (0, 1, 1),
        ([0], [0, 1]),
        (1, 1.0),
        ("a", "a\0"),
    ],
)
def test_classes_that_are_not_two_labels_or_more(classes: Any) -> None:
    X = plain(releases.boxes, generator(815))[0]
    said = (
        r"^classes must (be two labels or more, all different|be labels that can be sorted|not end)"
    )
    for clip in (False, True):
        with pytest.raises(ValueError, match=said):
            PrivateLogisticRegression(1.0, classes=classes, clip=clip).fit(X, [0, 1] * 3)
        with pytest.raises(
            TypeError, match=r"^classes must be a list, for its order means somethi"
        ):
            PrivateLogisticRegression(1.0, classes={0, 1}, clip=clip).fit(X, [0, 1] * 3)


def test_numbers_of_less_than_64_bits_are_levels_in_any_container() -> None:
    """As 32 bits write them, 0.1 is another number than as 64 do."""
    for dtype in (np.float16, np.float32, np.float64):
        numbers = np.array([0.1, 0.3, 0.1, 0.2, np.nan, np.inf], dtype=dtype)
        for cells in (numbers, list(numbers), pd.Series(list(numbers), dtype=object)):
            places = private.private_places(cells, "y", (0.3, 0.1))
            assert places.tolist() == [1, 0, 1, -1, -1, -1]
    assert private.private_places(["0.1", np.float32(0.1)], "y", (0.1, 0.3)).tolist() == [0, 0]


def test_numbers_beyond_floats_are_at_the_end_of_a_range() -> None:
    """As those that floats just hold, and not in the middle, where what is no number goes."""
    for large in (10**400, Fraction(10**400, 3), Decimal("1e400"), "1e400", 1e300, math.inf):
        for sign in (1, -1):
            cell = f"{sign}e400" if large == "1e400" else sign * large  # type: ignore[operator]
            given = np.array([cell, 0.5], dtype=object)
            moved = private.check_inside(given, "data", 0, 2, "lie in [0, 2]", clip=True)
            assert moved.tolist() == [1 + sign, 0.5]
            codes, inside = Number("age", -1, 1).encode(given)
            assert codes.ravel().tolist() == [sign / 2, 0.25] and inside.tolist() == [False, True]


def test_levels_of_a_category_are_found_in_any_container() -> None:
    column = Category("smoker", ("no", "yes", "sometimes"))
    codes = [1, 0, -1, -1, 2]
    cells = ["yes", "no", Odd(), ["no"], "sometimes"]
    for values in (cells, np.fromiter(cells, dtype=object)):
        assert private.private_places(values, "smoker", column.levels).tolist() == codes
        assert column.encode(values)[1].tolist() == [c >= 0 for c in codes]
    assert private.private_places(np.array(["1", "2.0", "x"]), "y", (2, 1)).tolist() == [1, 0, -1]
    assert private.private_places([Decimal(1), "2", 2.0], "y", (2, 1)).tolist() == [1, 0, 0]
    assert private.private_places(np.array([1.0, 2.0, np.nan]), "y", (2, 1)).tolist() == [1, 0, -1]


# --- shapes are public --------------------------------------------------------------------------


SHAPES: list[Any] = [
    None,
    WORD,
    3.0,
    {WORD: 1.0},
    {WORD},
    [],
    [[]],
    [WORD, WORD],
    [[1.0, 2.0], [3.0]],
    [[1.0], WORD],
]
SHAPES += [
    [[1.0], None],
    [[[WORD]]],
    *map(np.zeros, ((2, 3, 1), (0, 2), (2, 0))),
    [[1.0], {WORD: 1}],
    Odd(),
]


@pytest.mark.parametrize("value", SHAPES, ids=map(str, range(len(SHAPES))))
@pytest.mark.parametrize("clip", [False, True])
def test_shape_that_is_no_table_is_refused(value: Any, clip: bool) -> None:
    mechanism = output_perturbation([1.0, 1.0], 1.0, features=2, clip=clip)
    for learn in (
        lambda: mechanism.release(value, [0.5, 0.5], rng=generator()),
        lambda: PersonalizedRidge(clip=clip).fit(value, [0.5, 0.5]),
        lambda: Schema([Number("age", 0, 1)], clip=clip).transform(value),
    ):
        with pytest.raises(ValueError, match=r"^X (must|has)") as caught:
            learn()
        assert list(chain(caught.value)) == [caught.value] and not tells(str(caught.value))


def test_plain_arrays_are_taken_as_they_are() -> None:
    for dtype in (np.float64, np.float32, np.int8, bool):
        array = np.array([[0, 1], [1, 0]], dtype=dtype)
        for value in (
            array,
            array.tolist(),
            pd.DataFrame(array),
            sparse.coo_array(array),
            tuple(map(tuple, array)),
        ):
            assert private.private_floats(value, "X", 2).tolist() == array.tolist()
    array = np.ones((3, 2), dtype=np.float32)
    assert private.private_floats(array, "X", 2) is array
    assert private.private_doubles(np.ma.array([1, 2]), "y", 1).tolist() == [1, 2]
    assert private.private_doubles(np.array([1e4000], dtype=np.longdouble), "y", 1).tolist() == [
        math.inf
    ]
    nested = [[[np.float64(1), np.array(2)], [Fraction(1, 2), Decimal(4)]]]
    assert private.private_floats(nested, "gradients").tolist() == [[[1, 2], [0.5, 4]]]
