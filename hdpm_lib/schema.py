"""Public knowledge about the columns of a table, and records centred by it.

A schema is declared, never fitted: ranges and levels are facts that everybody may know before
seeing the data. Centred features are short, and the noise of :mod:`hdpm_lib.learners.ridge` is set
by the bounds on lengths alone. So the same records, coded anew, get less noise for the same privacy
losses: :doc:`/book/ridge/beyond`.

Both kinds of column have ``names`` of their coded features, ``corners``, the codes of ends or
levels, and ``encode``: codes of values, one row for each, and which values are as declared. The
others get the code of the nearer end (missing: the middle), or zeros, which tell nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from hdpm_lib.private import column_names, private_cells, private_doubles, private_places
from hdpm_lib.validation import (
    check_finite,
    check_flag,
    check_levels,
    check_number,
    check_ordered,
)

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Number:
    """A numeric column in the public range [low, high], coded linearly into [-1/2, 1/2].

    Parameters
    ----------
    name : str
        Name of the column in a table, and of the coded feature.
    low : float
        The least that a value can be, a public fact.
    high : float
        The most, above `low`.

    Examples
    --------
    >>> Number("age", 20, 60).encode(np.array([20.0, 50.0]))[0].ravel()
    array([-0.5 ,  0.25])
    """

    name: str
    low: float
    high: float

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not check_number(self.low, "low") < check_number(self.high, "high"):
            raise ValueError(
                f"{self.name!r} needs finite low < high, got {self.low} and {self.high}"
            )
        for end in ("low", "high"):
            number = getattr(self, end)
            if not isinstance(number, int | float):  # an array could be written to
                object.__setattr__(self, end, float(number))

    @property
    def names(self) -> list[str]:
        """Name of the coded feature."""
        return [self.name]

    @property
    def corners(self) -> Array:
        """Codes of the two ends, shape (2, 1)."""
        return np.array([[-0.5], [0.5]])

    @np.errstate(all="ignore")
    def encode(self, values: Any) -> tuple[Array, Any]:
        """Code values, and tell which of them are as declared.

        Parameters
        ----------
        values : array of shape (n,)
            A column of private data.

        Returns
        -------
        codes : array of shape (n, 1)
            Of what is outside, that of the nearer end; of what is no number, that of the middle.
        inside : array of bool, shape (n,)
            True if a value is a number in the range.

        Examples
        --------
        >>> codes, inside = Number("age", 20, 60).encode([20, 70, "old"])
        >>> codes.ravel().tolist(), inside.tolist()
        ([-0.5, 0.5, 0.0], [True, False, False])
        """
        x = np.zeros(0)
        if len(values):
            x = private_doubles(values, f"column {self.name!r}", 1)
        inside = (x >= self.low) & (x <= self.high)
        middle = self.low / 2 + self.high / 2
        moved = np.where(np.isnan(x), middle, np.clip(x, self.low, self.high))
        codes = np.clip((moved - middle) / (self.high - self.low), -0.5, 0.5)
        return codes[:, None], inside

    def __str__(self) -> str:
        return f"a number in [{self.low:g}, {self.high:g}]"


@dataclass(frozen=True)
class Category:
    r"""A column with public levels.

    Two are coded as :math:`\mp\frac12`, `k` more as one-hot less :math:`\frac1k`.

    Parameters
    ----------
    name : str
        Name of the column in a table.
    levels : tuple
        The different values that a cell can have, two or more, a public fact. Their order is that
        of the coded features. A cell has the level that it is equal to, or else one that reads as
        the same number, as "1" and 1 do. What is missing is no level: give it a word of its own, as
        by ``table.fillna("unknown")``, and declare that.

    Examples
    --------
    >>> Category("smokes", ("no", "yes")).encode(np.array(["yes", "no"]))[0].ravel()
    array([ 0.5, -0.5])
    """

    name: str
    levels: tuple[Hashable, ...]

    def __post_init__(self) -> None:
        _check_name(self.name)
        levels = check_levels(self.levels, f"levels of {self.name!r}")
        object.__setattr__(self, "levels", levels)

    @property
    def names(self) -> list[str]:
        """Names of the coded features."""
        coded = self.levels
        if len(coded) == 2:
            coded = coded[1:]
        return [f"{self.name}_{level}" for level in coded]

    @property
    def corners(self) -> Array:
        """Codes of the levels, shape (k, 1 or k)."""
        k = len(self.levels)
        if k == 2:
            return np.array([[-0.5], [0.5]])
        return np.eye(k) - 1 / k

    def encode(self, values: Any) -> tuple[Array, Any]:
        """Code values, and tell which of them are as declared.

        Parameters
        ----------
        values : array of shape (n,)
            A column of private data.

        Returns
        -------
        codes : array of shape (n, 1) or (n, k)
            Of what is no level, zeros.
        inside : array of bool, shape (n,)
            True if a value is one of the levels.

        Examples
        --------
        >>> codes, inside = Category("smokes", ("no", "yes")).encode(["yes", "maybe"])
        >>> codes.ravel().tolist(), inside.tolist()
        ([0.5, 0.0], [True, False])
        """
        places = np.zeros(0, dtype=int)
        if len(values):
            places = private_places(values, f"column {self.name!r}", self.levels)
        codes = np.vstack([self.corners, np.zeros(self.corners.shape[1])])  # -1 is the last
        return codes[places], places >= 0

    def __str__(self) -> str:
        return f"one of {list(self.levels)}"


def _check_name(name: object) -> None:
    """Refuse a name of a column that is no text."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {name!r}")


def _check_columns(columns: Any, intercept: bool) -> tuple[Number | Category, ...]:
    """Check the columns of a schema: one at least, and no two columns or features of one name."""
    check_ordered(columns, "columns")
    kept = tuple(columns)
    if not kept or not all(isinstance(column, Number | Category) for column in kept):
        raise TypeError(f"columns must be a list of Number and Category, got {columns!r}")
    _check_different([column.name for column in kept], "columns")
    _check_different(_feature_names(kept, intercept), "coded features")
    return kept


def _check_different(names: list[str], what: str) -> None:
    """Refuse names of which two are the same."""
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"columns must have different names: there are {names.count(name)} {what} {name!r}"
            )


def _feature_names(columns: Sequence[Number | Category], intercept: bool) -> list[str]:
    """Return the names of the coded features."""
    names = []
    for column in columns:
        names += column.names
    if check_flag(intercept, "intercept"):
        names.append("intercept")
    return names


def _table(X: Any, names: list[str]) -> tuple[Mapping[str, Any], int]:
    """Return the columns by their declared names, and the number of rows."""
    in_table = column_names(X)
    if in_table is None and hasattr(X, "__dataframe__"):
        raise TypeError(
            f"X must be an array, or a table that tells the names of its columns, got a"
            f" {type(X).__name__}: make it one of pandas"
        )
    if in_table is None:
        cells = private_cells(X, "X", 2)
        if cells.shape[1] != len(names):
            raise ValueError(
                f"X must have {len(names)} columns ({', '.join(names)}), got {cells.shape[1]}"
            )
        return dict(zip(names, cells.T, strict=True)), len(cells)
    if not any(isinstance(name, str) for name in in_table):
        raise ValueError(
            f"X has columns without names; the schema declares {', '.join(names)}: name them, or"
            " pass an array, with these in this order"
        )
    for name in names:
        if in_table.count(name) != 1:
            many = f"{in_table.count(name)} columns" if name in in_table else "no column"
            raise ValueError(f"X has {many} {name!r}; the schema declares {', '.join(names)}")
    return {name: X[name] for name in names}, len(X)


class Schema(TransformerMixin, BaseEstimator):
    """Public columns of a table: codes its rows, and says how long a coded row can be.

    A transformer of scikit-learn whose ``fit`` learns nothing, so that it is safe before a private
    learner; a scaler fitted on the data is not. Ranges that were read off the data are no public
    facts.

    Parameters
    ----------
    columns : sequence of Number and Category
        One for each column that is coded, in the order of the coded features, kept as a tuple.
        Columns of a table, of pandas, polars or pyarrow, are found by their names.
    intercept : bool, default False
        Add a last feature that is 1, for a learner that adds none itself.
    clip : bool, default False
        A value that is not as declared is an error that names the column. With `clip` it is moved
        instead, without a word: a number to the nearer end, what is no number to the middle, and
        what is no level to zeros, which tell nothing. Text that reads as a number is one. So a
        wrong range, or a level that is spelled in another way, is not noticed: try a schema without
        `clip` on rows that are public or made up. Only a column whose type holds no level is an
        error, as whole numbers and truth values hold no text.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns that are coded.
    feature_names_in_ : array of str
        Their names.

    Examples
    --------
    >>> import pandas as pd
    >>> people = Schema([Number("age", 18, 64), Category("smoker", ("no", "yes"))])
    >>> table = pd.DataFrame({"age": [18, 41], "smoker": ["yes", "no"]})
    >>> people.transform(table).tolist(), round(people.feature_norm**2, 12)
    ([[-0.5, 0.5], [0.0, -0.5]], 0.5)
    """

    def __init__(
        self,
        columns: Sequence[Number | Category],
        *,
        intercept: bool = False,
        clip: bool = False,
    ) -> None:
        self.columns = _check_columns(columns, intercept)
        self.intercept = intercept
        self.clip = clip

    @property
    def n_features_in_(self) -> int:
        """Number of columns that are coded."""
        return len(self.columns)

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """Names of the columns that are coded; a table may have others."""
        return np.array([column.name for column in self.columns], dtype=object)

    @property
    def feature_norm(self) -> float:
        """Largest norm of a coded row, exactly.

        It is the bound that the estimators and
        :func:`~hdpm_lib.learners.ridge.output_perturbation` take. For a label (a schema of one
        number, whose only column is the vector of labels) it is the label bound, 1/2.
        """
        squares = sum(float((c.corners**2).sum(1).max()) for c in self.columns)
        return float(np.sqrt(squares + self.intercept))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the coded features.

        Parameters
        ----------
        input_features : optional
            Not used.

        Returns
        -------
        array of str
            One for each.

        Examples
        --------
        >>> Schema([Number("age", 18, 64)]).get_feature_names_out().tolist()
        ['age']
        """
        return np.array(_feature_names(self.columns, self.intercept), dtype=object)

    def fit(self, X: Any = None, y: Any = None) -> Schema:
        """Do nothing: there is nothing to learn.

        Parameters
        ----------
        X : optional
            Not looked at.
        y : optional
            Not looked at.

        Returns
        -------
        Schema
            Itself.

        Examples
        --------
        >>> Schema([Number("age", 18, 64)]).fit().transform([[41]]).tolist()
        [[0.0]]
        """
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = bool(self.clip)
        return tags

    def transform(self, X: Any) -> Array:
        """Code the rows of a table.

        Parameters
        ----------
        X : table with these columns, or 2-d array with them in this order
            The records, private.

        Returns
        -------
        array of shape (n, number of coded features)
            One row for each.

        Raises
        ------
        ValueError
            If a value is not as declared: the error tells the column, and not the value. If a table
            has no such column, or two.
        TypeError
            If the type of a column holds none of its levels, also with `clip`.

        Examples
        --------
        >>> Schema([Number("age", 18, 64)], clip=True).transform([[41], [70], [None]]).tolist()
        [[0.0], [0.5], [0.0]]
        """
        check_flag(self.clip, "clip")
        columns = _check_columns(self.columns, self.intercept)  # set_params checks nothing
        table, n = _table(X, [column.name for column in columns])
        features = []
        for column in columns:
            codes, inside = column.encode(np.asarray(table[column.name]))
            if not (self.clip or inside.all()):
                raise ValueError(
                    f"X: column {column.name!r} must be {column}: declare a wider one, or"
                    " clip=True for what is missing or outside"
                )
            features.append(codes)
        if self.intercept:
            features.append(np.ones((n, 1)))
        return np.column_stack(features)

    def inverse_transform(self, X: Any) -> Array:
        """Return the values of coded numbers, such as predictions.

        Parameters
        ----------
        X : array of shape (n, number of columns)
            Codes.

        Returns
        -------
        array of shape (n, number of columns)
            In the units of the columns; nothing is cut to the range.

        Examples
        --------
        >>> Schema([Number("cost", 0, 64)]).inverse_transform([[-0.5], [0.25]])
        array([[ 0.],
               [48.]])
        """
        numbers = [c for c in self.columns if isinstance(c, Number)]
        if self.intercept or len(numbers) < len(self.columns):
            raise ValueError(
                "inverse_transform needs a schema of numbers without intercept, as that of a label"
            )
        low = np.array([c.low for c in numbers])
        high = np.array([c.high for c in numbers])
        return np.asarray(check_finite(X, "X", 2) * (high - low) + (low / 2 + high / 2))
