"""Public schemas: bounds against every corner, what is outside, and scikit-learn's pipelines."""

from __future__ import annotations

import itertools
import math
import pickle
import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer

from hdpm_book import standins
from hdpm_book.datasets import MEDICAL_FEATURES
from hdpm_book.ridge.study import corners_of
from hdpm_lib.schema import Category, Number, Schema
from tests.support import generator

PEOPLE = MEDICAL_FEATURES.columns
COSTS = Schema([Number("cost", 0, 50_000)], intercept=False)


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
    # predictions are not cut
    np.testing.assert_allclose(COSTS.inverse_transform([[0.7]]), [[60_000.0]])
    for schema in (
        Schema([Number("cost", 0, 1)]),
        Schema([Category("c", (0, 1))], intercept=False),
    ):
        with pytest.raises(
            ValueError, match="inverse_transform needs a schema of numbers without intercept"
        ):
            schema.inverse_transform([[0.0]])


OUTSIDE = [("age", value) for value in (17.0, 1e300, math.inf, -math.inf, math.nan, "old")]
OUTSIDE += [("sex", "other"), ("region", None), ("region", math.nan), ("children", 5.001)]
SAID = {column.name: str(column) for column in PEOPLE} | {
    "age": "in [18, 64]",
    "sex": "one of ['female', 'male']",
}


@pytest.mark.parametrize(("name", "value"), OUTSIDE)
def test_what_is_outside_is_refused_or_clipped_without_a_word(name: str, value: Any) -> None:
    """The error does not say which; of a number the nearer end is taken, or the middle, and of a
    level nothing.
    """
    said = set()
    schema = Schema(PEOPLE, out_of_range="clip")
    for row in (0, 7):
        table = people(20).astype(object)
        table.loc[row, name] = value
        with pytest.raises(ValueError, match=f"^X: column '{name}' must be ") as caught:
            Schema(PEOPLE).transform(table)
        said.add(str(caught.value))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            coded = schema.transform(table)
        assert coded.shape == (20, 10) and np.linalg.norm(
            coded, axis=1
        ).max() <= schema.feature_norm * (1 + 1e-12)
        columns = dict(zip(schema.get_feature_names_out(), coded[row], strict=True))
        if name == "age":
            nearer = {17.0: -0.5, -math.inf: -0.5, 1e300: 0.5, math.inf: 0.5}
            assert columns["age"] == nearer.get(value, 0.0)
        if name == "region":
            assert all(columns[f"region_{level}"] == 0 for level in standins.REGIONS)
    assert said == {f"X: column '{name}' must be {SAID[name]}: declare a wider one, or clip"}


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
        (lambda: Category("c", ("a",)), "'c' needs two or more different levels, got ['a']"),
        (lambda: Category("c", ("a", "a")), "'c' needs two or more different levels"),
        (lambda: Schema(PEOPLE).transform(people().drop(columns="bmi")), "X has no column 'bmi'"),
        (
            lambda: Schema(PEOPLE, out_of_range="drop").transform(people()),
            "out_of_range must be 'raise' or 'clip'",
        ),
    ],
)
def test_bad_schema(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_inside_a_column_transformer() -> None:
    table = people(10)
    parts = [("numbers", Schema(PEOPLE[:3], intercept=False), ["age", "bmi", "children"])]
    parts += [("rest", Schema(PEOPLE[3:]), ["sex", "smoker", "region"])]
    coded = ColumnTransformer(parts, verbose_feature_names_out=False).fit(table)
    np.testing.assert_array_equal(coded.transform(table), Schema(PEOPLE).transform(table))
    assert coded.get_feature_names_out().tolist() == Schema(PEOPLE).get_feature_names_out().tolist()
