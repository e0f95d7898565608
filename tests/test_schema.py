"""Public schemas: bounds against every corner, what is outside, and scikit-learn's pipelines."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import math
import pickle
import re
import warnings
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from hdpm_book import standins
from hdpm_book.datasets import MEDICAL_FEATURES
from hdpm_book.ridge.study import corners_of
from hdpm_lib.learners.estimators import PersonalizedRidge
from hdpm_lib.schema import Category, Number, Schema
from tests.support import generator

PEOPLE = MEDICAL_FEATURES.columns
COSTS = Schema([Number("cost", 0, 50_000)])
AGE = Number("a", 18, 64)


def people(n: int = 200) -> pd.DataFrame:
    return standins.medical_cost().drop(columns="charges").assign(unused="x").head(n)


def random_schema(rng: np.random.Generator) -> Schema:
    columns: list[Number | Category] = []
    for j in range(rng.integers(1, 5)):
        low = rng.normal() * 100
        number = Number(f"c{j}", low, low + rng.exponential() + 1e-3)
        columns.append(
            number if rng.random() < 0.5 else Category(f"c{j}", tuple(range(rng.integers(2, 6))))
        )
    return Schema(columns, intercept=bool(rng.integers(2)))


def test_norm_is_attained_by_a_corner_and_by_none_exceeded() -> None:
    """Among all ends and levels, coded row by row."""
    for seed in range(100):
        schema = random_schema(generator(82, seed))
        ends = [(c.low, c.high) if isinstance(c, Number) else c.levels for c in schema.columns]
        rows = pd.DataFrame(
            list(itertools.product(*ends)), columns=[c.name for c in schema.columns], dtype=object
        )
        coded = schema.transform(rows)
        np.testing.assert_allclose(coded, corners_of(schema), atol=1e-12)
        assert coded.shape[1] == len(schema.get_feature_names_out())
        assert np.linalg.norm(coded, axis=1).max() == pytest.approx(schema.feature_norm, abs=1e-12)


def test_the_medical_columns() -> None:
    """Found by name in a frame, and in order in an array."""
    schema = Schema(PEOPLE)
    table = people()
    coded = schema.transform(table)
    columns = dict(zip(schema.get_feature_names_out(), coded.T, strict=True))
    np.testing.assert_allclose(columns["age"], (table["age"] - 41) / 46)
    np.testing.assert_array_equal(
        columns["region_southeast"], np.where(table["region"] == "southeast", 0.75, -0.25)
    )
    np.testing.assert_array_equal(
        schema.transform(table[[c.name for c in PEOPLE]].to_numpy()), coded
    )


def test_predictions_come_back_in_units_of_the_label() -> None:
    cost = np.array([[0.0], [12_500.0], [50_000.0]])
    np.testing.assert_allclose(COSTS.transform(cost), [[-0.5], [-0.25], [0.5]])
    np.testing.assert_allclose(COSTS.inverse_transform(COSTS.transform(cost)), cost)
    age = Schema([Number("age", 18, 64)])
    np.testing.assert_allclose(age.inverse_transform([[-0.5], [0.0], [0.5]]), [[18], [41], [64]])
    # predictions are not cut
    np.testing.assert_allclose(COSTS.inverse_transform([[0.7]]), [[60_000.0]])
    for schema in (
        Schema([Number("cost", 0, 1)], intercept=True),
        Schema([Category("c", (0, 1))]),
    ):
        with pytest.raises(
            ValueError, match="inverse_transform needs a schema of numbers without intercept"
        ):
            schema.inverse_transform([[0.0]])


OUTSIDE = [("age", value) for value in (17.0, 1e300, math.inf, -math.inf, math.nan, "old")]
OUTSIDE += [("sex", "other"), ("region", None), ("region", math.nan), ("children", 5.001)]
SAID = {column.name: str(column) for column in PEOPLE} | {
    "age": "a number in [18, 64]",
    "sex": "one of ['female', 'male']",
}


@pytest.mark.parametrize(("name", "value"), OUTSIDE)
def test_what_is_outside_is_refused_or_clipped_without_a_word(name: str, value: Any) -> None:
    """The error does not say which; of a number the nearer end is taken, or the middle, and of a
    level nothing.
    """
    said = set()
    schema = Schema(PEOPLE, clip=True)
    for row in (0, 7):
        table = people(20).astype(object)
        table.loc[row, name] = value
        with pytest.raises(ValueError, match=f"^X: column '{name}' must be ") as caught:
            Schema(PEOPLE).transform(table)
        said.add(str(caught.value))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            coded = schema.transform(table)
        assert coded.shape == (20, 9) and np.linalg.norm(
            coded, axis=1
        ).max() <= schema.feature_norm * (1 + 1e-12)
        columns = dict(zip(schema.get_feature_names_out(), coded[row], strict=True))
        if name == "age":
            nearer = {17.0: -0.5, -math.inf: -0.5, 1e300: 0.5, math.inf: 0.5}
            assert columns["age"] == nearer.get(value, 0.0)
        if name == "region":
            assert all(columns[f"region_{level}"] == 0 for level in standins.REGIONS)
    wanted = "declare a wider one, or clip=True for what is missing or outside"
    assert said == {f"X: column '{name}' must be {SAID[name]}: {wanted}"}


def test_transform_looks_at_each_row_alone() -> None:
    schema = Schema(PEOPLE).fit()
    table = people(30)
    one_by_one = np.vstack([schema.transform(table.iloc[[i]]) for i in range(30)])
    same = pickle.loads(pickle.dumps(clone(schema).fit(people(3))))
    for coded in (one_by_one, same.transform(table)):
        np.testing.assert_array_equal(coded, schema.transform(table))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Number("age", 64, 18), "'age' needs finite low < high, got 64 and 18"),
        (lambda: Category("c", ("a",)), "levels of 'c' must be two labels or more, all different"),
        (lambda: Category("c", ("a", "a")), "all different and none missing, got ['a', 'a']"),
        (lambda: Category("c", "yn"), "levels of 'c' must be two labels or more, all different"),
        (lambda: Category("c", 7), "levels of 'c' must be two labels or more, all different"),
        (lambda: Category("c", (None, "a")), "all different and none missing, got [None, 'a']"),
        (lambda: Category("c", ("a", pd.NA)), "all different and none missing, got ['a', <NA>]"),
        (lambda: Category("c", ("a", "a\0")), "levels of 'c' must not end with a zero character"),
        (lambda: Schema([AGE, AGE]), "columns must have different names: there are 2 columns 'a'"),
        (
            lambda: Schema([Category("a", ("x", "b")), Number("a_b", 0, 1)]),
            "columns must have different names: there are 2 coded features 'a_b'",
        ),
        (
            lambda: Schema([Number("intercept", 0, 1)], intercept=True),
            "columns must have different names: there are 2 coded features 'intercept'",
        ),
        (lambda: Schema(PEOPLE).transform(people().drop(columns="bmi")), "X has no column 'bmi'"),
    ],
)
def test_bad_schema(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Category(7, ("a", "b")), "name must be a string, got 7"),  # type: ignore[arg-type]
        (lambda: Number(7, 0, 1), "name must be a string, got 7"),  # type: ignore[arg-type]
        (lambda: Schema([]), "columns must be a list of Number and Category, got []"),
        (lambda: Schema([("a", 0, 1)]), "columns must be a list of Number and Category, got [('a'"),  # type: ignore[list-item]
        (lambda: Schema([AGE], intercept="no"), "intercept must be True or False, got 'no'"),  # type: ignore[arg-type]
    ],
)
def test_what_declares_nothing(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        call()


def test_what_was_declared_stays() -> None:
    """Lists and arrays are copied; levels from an array are plain in what is printed."""
    levels = np.array(["x", "y"])
    low = np.array(18.0)
    columns = [Category("b", levels), Number("a", low, 64)]  # type: ignore[arg-type]
    schema = Schema(columns)
    levels[0] = "z"
    low[...] = 0
    columns.pop()
    assert schema.columns == (Category("b", ("x", "y")), Number("a", 18.0, 64))
    assert str(schema.columns[0]) == "one of ['x', 'y']"
    assert clone(schema).columns == schema.columns
    with pytest.raises(ValueError, match="there are 2 columns 'a'"):
        Schema([AGE]).set_params(columns=[AGE, AGE]).transform([[20, 20]])


class Frame:
    """A table of another library: names and columns, and an array of its cells."""

    def __init__(self, names: str, columns: dict[str, Any]) -> None:
        self.columns: Any = list(columns.values())  # as of pyarrow
        setattr(self, names, list(columns))
        self.cells = columns

    def __getitem__(self, name: str) -> Any:
        return self.cells[name]

    def __len__(self) -> int:
        return len(next(iter(self.cells.values())))

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(list(self.cells.values())).T

    def __dataframe__(self) -> Any:
        raise NotImplementedError


def test_columns_of_any_table_are_found_by_name() -> None:
    """Not by their place, which would swap them in silence; a table without names is refused."""
    schema = Schema([Number("age", 0, 100), Number("income", 0, 100)])
    swapped = {"income": [10.0, 20.0], "id": [1, 2], "age": [90.0, 80.0]}
    coded = [[0.4, -0.4], [0.3, -0.3]]
    for table in (pd.DataFrame(swapped), Frame("columns", swapped), Frame("column_names", swapped)):
        np.testing.assert_allclose(schema.transform(table), coded)
    for name, constructor in (("polars", "DataFrame"), ("pyarrow", "table")):
        with contextlib.suppress(ImportError):  # where they are installed
            table = getattr(importlib.import_module(name), constructor)(swapped)
            np.testing.assert_allclose(schema.transform(table), coded)
    heads = Frame("heads", swapped)
    del heads.columns
    with pytest.raises(TypeError, match="X must be an array, or a table that tells the names of"):
        schema.transform(heads)
    with pytest.raises(
        ValueError, match="X has columns without names; the schema declares age, in"
    ):
        schema.transform(pd.DataFrame([[1, 2], [3, 4]]))
    twice = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["age", "age", "income"])
    with pytest.raises(ValueError, match="X has 2 columns 'age'; the schema declares age, income"):
        schema.transform(twice)


def test_what_scikit_learn_asks_of_a_transformer() -> None:
    schema = Schema(PEOPLE[:3])
    assert schema.n_features_in_ == 3
    names = ["age", "bmi", "children"]
    assert schema.feature_names_in_.tolist() == names
    pipeline = make_pipeline(schema, PersonalizedRidge(feature_norm=schema.feature_norm))
    pipeline.fit(people(), np.zeros(200))
    assert pipeline.feature_names_in_.tolist() == names and pipeline.n_features_in_ == 3
    for clip in (False, True):
        tags = get_tags(Schema(PEOPLE, clip=clip)).input_tags
        assert tags.sparse and tags.string and tags.allow_nan == clip
    cells = sparse.csr_array(people()[names].to_numpy(dtype=float))
    np.testing.assert_array_equal(schema.transform(cells), schema.transform(people()))


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_times_are_levels_in_any_unit(unit: str) -> None:
    """And never whole numbers, as which NumPy lists nanoseconds."""
    days = pd.DataFrame({"born": pd.to_datetime(["1973-01-06", "2001-09-30", "1970-01-01"])})
    cells = days.astype(f"datetime64[{unit}]")
    first = Category("born", (datetime(1973, 1, 6), datetime(2001, 9, 30)))
    for levels, codes in ((first.levels, [-0.5, 0.5, 0.0]), ((0, 1), [0.0] * 3)):
        schema = Schema([Category("born", levels)], clip=True)
        assert schema.transform(cells).ravel().tolist() == codes
    codes, inside = first.encode(cells["born"].to_numpy() + np.timedelta64(1, "ns"))
    assert not codes.any() and not inside.any()


@pytest.mark.parametrize("clip", [False, True])
def test_a_column_whose_type_holds_no_level_is_refused(clip: bool) -> None:
    """What the type alone tells is public; floats and times are not judged, for they are what
    tables make of a column that is missing as a whole.
    """
    sex = Schema([Category("sex", ("f", "m"))], clip=clip)
    for codes in ([0, 1], [False, True], np.array([1, 0], dtype=np.uint8)):
        table = pd.DataFrame({"sex": codes})
        for cells in (table, table.to_numpy()):
            with pytest.raises(TypeError, match=r"^column 'sex' has dtype .*, which holds none of"):
                sex.transform(cells)
    visits = Schema([Category("visits", (0.5, 300))], clip=clip)
    with pytest.raises(TypeError, match="has dtype uint8, which holds none of"):
        visits.transform(np.array([[1]], dtype=np.uint8))
    if clip:
        for missing in ([math.nan], [None], [pd.NA], [pd.NaT]):
            assert sex.transform(pd.DataFrame({"sex": missing})).tolist() == [[0.0]]
        assert sex.transform([[0], [1]]).ravel().tolist() == [0.0, 0.0]  # Python's objects


def test_the_order_of_a_set_declares_nothing() -> None:
    """It is another one in each run of Python."""
    levels = {"f", "m"}
    columns = {Number("age", 0, 1), Category("sex", ("f", "m"))}
    of_sex = "levels of 'sex'"
    for call, name in (
        (lambda: Category("sex", levels), of_sex),  # type: ignore[arg-type]
        (lambda: Category("sex", dict.fromkeys(levels).keys()), of_sex),  # type: ignore[arg-type]
        (lambda: Schema(columns), "columns"),  # type: ignore[arg-type]
        (lambda: Schema(frozenset(columns)), "columns"),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match=f"^{name} must be a list, for its order means somethi"):
            call()
    with pytest.raises(TypeError, match="clip must be True or False, got 'drop'"):
        Schema(PEOPLE, clip="drop").transform(people())  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [Decimal, Fraction, np.float32, np.array])
def test_numbers_of_other_kinds_are_numbers(kind: Any) -> None:
    """Decimals are what databases give."""
    for clip in (False, True):
        schema = Schema([Number("a", 0, 10)], clip=clip)
        cells = [kind(0.5), kind(9.5)]
        assert schema.transform([[cell] for cell in cells]).ravel().tolist() == [-0.45, 0.45]
        table = pd.DataFrame({"a": pd.Series(cells, dtype=object)})
        assert schema.transform(table).ravel().tolist() == [-0.45, 0.45]


@pytest.mark.parametrize(
    ("text", "code"),
    [("0.9", -0.41), ("1_0", 0.5), (" .5 ", -0.45), ("True", -0.4), ("9+0j", 0.4), ("inf", 0.5)],
)
def test_text_that_reads_as_a_number_is_one(text: str, code: float) -> None:
    """As the page of limits says: else a text of one record would take the numbers of all others,
    of which NumPy makes text.
    """
    schema = Schema([Number("a", 0, 10)], clip=True)
    one = [[text]]
    for table in (one, np.array(one), np.array(one, dtype=bytes), pd.DataFrame({"a": [text]})):
        assert schema.transform(table).tolist() == [[pytest.approx(code)]]
    for value in (0.5, 3, True, np.float64(1 / 3)):
        both = schema.transform(np.array([[value], ["old"]])).ravel().tolist()
        assert both == [schema.transform([[value]]).item(), 0.0]
        assert schema.transform(np.array([[value], [b"old"]])).ravel().tolist() == both
    with pytest.raises(ValueError, match=r"column 'a' must be a number in \[0, 10\]"):
        Schema([Number("a", 0, 10)]).transform([["old"]])


def test_inside_a_column_transformer() -> None:
    table = people(10)
    parts = [("numbers", Schema(PEOPLE[:3]), ["age", "bmi", "children"])]
    parts += [("rest", Schema(PEOPLE[3:], intercept=True), ["sex", "smoker", "region"])]
    coded = ColumnTransformer(parts, verbose_feature_names_out=False).fit(table)
    whole = Schema(PEOPLE, intercept=True)
    np.testing.assert_array_equal(coded.transform(table), whole.transform(table))
    assert coded.get_feature_names_out().tolist() == whole.get_feature_names_out().tolist()
