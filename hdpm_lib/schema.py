"""What is public about the columns of a table, and the records centred by it: inputs for private
regression.

A schema is declared, never fitted: ranges and levels are facts that everybody may know before
seeing the data. Centred features are short, and the noise of :mod:`hdpm_lib.learners.ridge` is set
by the bounds on lengths alone. So the same records, coded anew, get less noise for the same privacy
losses: :doc:`/book/ridge/beyond`.

Both kinds of column have ``names`` of their coded features, ``corners``, the codes of ends or
levels, and ``encode``: codes of values, one row for each, and which values are as declared. The
others get the code of the nearer end (missing: the middle), or zeros, which tell nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from hdpm_lib.private import private_cells, private_doubles, private_places
from hdpm_lib.validation import check_choice, check_finite, check_number

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Number:
    """A numeric column in the public range [low, high], coded linearly into [-1/2, 1/2].

    Examples
    --------
    >>> Number("age", 20, 60).encode(np.array([20.0, 50.0]))[0].ravel()
    array([-0.5 ,  0.25])
    """

    name: str
    low: float
    high: float

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"name must be a string, got {self.name!r}")
        if not check_number(self.low, "low") < check_number(self.high, "high"):
            raise ValueError(
                f"{self.name!r} needs finite low < high, got {self.low} and {self.high}"
            )

    @property
    def names(self) -> list[str]:
        """Name of the coded feature."""
        return [self.name]

    @property
    def corners(self) -> Array:
        """Codes of the two ends, shape (2, 1)."""
        return np.array([[-0.5], [0.5]])

    def encode(self, values: Any) -> tuple[Array, Any]:
        """Codes of shape (n, 1)."""
        x = private_doubles(values, self.name, 1) if len(values) else np.zeros(0)
        inside = (x >= self.low) & (x <= self.high)
        middle = self.low / 2 + self.high / 2
        moved = np.where(np.isnan(x), middle, np.clip(x, self.low, self.high))
        return np.clip((moved - middle) / (self.high - self.low), -0.5, 0.5)[:, None], inside

    def __str__(self) -> str:
        return f"in [{self.low:g}, {self.high:g}]"


@dataclass(frozen=True)
class Category:
    r"""A column with public levels: two are coded as :math:`\mp\frac12`, `k` more as one-hot less
    :math:`\frac1k`.

    Examples
    --------
    >>> Category("smokes", ("no", "yes")).encode(np.array(["yes", "no"]))[0].ravel()
    array([ 0.5, -0.5])
    """

    name: str
    levels: tuple[Hashable, ...]

    def __post_init__(self) -> None:
        if len(self.levels) < 2 or len(set(self.levels)) < len(self.levels):
            raise ValueError(
                f"{self.name!r} needs two or more different levels, got {list(self.levels)}"
            )

    @property
    def names(self) -> list[str]:
        """Names of the coded features."""
        return [f"{self.name}_{level}" for level in self.levels[-len(self.corners[0]) :]]

    @property
    def corners(self) -> Array:
        """Codes of the levels, shape (k, 1 or k)."""
        k = len(self.levels)
        return np.array([[-0.5], [0.5]]) if k == 2 else np.eye(k) - 1 / k

    def encode(self, values: Any) -> tuple[Array, Any]:
        """Codes of shape (n, 1 or k)."""
        place = (
            private_places(values, self.name, self.levels)
            if len(values)
            else np.zeros(0, dtype=int)
        )
        return np.vstack([self.corners, np.zeros(self.corners.shape[1])])[place], place >= 0

    def __str__(self) -> str:
        return f"one of {list(self.levels)}"


class Schema(TransformerMixin, BaseEstimator):
    """Public columns of a table: codes its rows, and says how long a coded row can be.

    A transformer of scikit-learn whose ``fit`` learns nothing, so that it is safe before a private
    learner; a scaler fitted on the data is not. Ranges that were read off the data are no public
    facts.

    Parameters
    ----------
    columns : sequence of Number and Category
    intercept : bool, default True
        Add a last feature that is 1. A label has none.
    out_of_range : {"raise", "clip"}, default "raise"
        A value that is not as declared is an error that names the column, or is moved without a
        word.

    Examples
    --------
    >>> people = Schema([Number("age", 18, 64), Category("smoker", ("no", "yes"))])
    >>> table = pd.DataFrame({"age": [18, 41], "smoker": ["yes", "no"]})
    >>> people.transform(table).tolist(), round(people.feature_norm**2, 12)
    ([[-0.5, 0.5, 1.0], [0.0, -0.5, 1.0]], 1.5)
    """

    def __init__(
        self,
        columns: Sequence[Number | Category],
        *,
        intercept: bool = True,
        out_of_range: Literal["raise", "clip"] = "raise",
    ) -> None:
        self.columns = columns
        self.intercept = intercept
        self.out_of_range = out_of_range

    @property
    def feature_norm(self) -> float:
        """Largest norm of a coded row, exactly: the bound that
        :func:`~hdpm_lib.learners.ridge.output_perturbation` takes.

        For a label (one number, no intercept) it is the label bound, 1/2.
        """
        return float(
            np.sqrt(sum(float((c.corners**2).sum(1).max()) for c in self.columns) + self.intercept)
        )

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the coded features."""
        names = [name for c in self.columns for name in c.names]
        return np.array(names + ["intercept"] * self.intercept, dtype=object)

    def fit(self, X: Any = None, y: Any = None) -> Schema:
        """Do nothing: there is nothing to learn."""
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags

    def transform(self, X: Any) -> Array:
        """Code a DataFrame with these columns, or a 2-d array with them in this order: one row for
        each.

        The error of a value that is not as declared does not tell the value.
        """
        check_choice(self.out_of_range, "out_of_range", ("raise", "clip"))
        names = [c.name for c in self.columns]
        table = X
        n = len(X) if isinstance(X, pd.DataFrame) else 0
        if not isinstance(X, pd.DataFrame):
            cells = private_cells(X, "X", 2)
            if cells.shape[1] != len(names):
                raise ValueError(
                    f"X must have {len(names)} columns ({', '.join(names)}), got {cells.shape[1]}"
                )
            table = dict(zip(names, cells.T, strict=True))
            n = len(cells)
        if missing := [name for name in names if name not in table]:
            raise ValueError(
                f"X has no column {missing[0]!r}; the schema declares {', '.join(names)}"
            )
        parts = []
        for column in self.columns:
            codes, inside = column.encode(np.asarray(table[column.name]))
            if self.out_of_range == "raise" and not inside.all():
                raise ValueError(
                    f"X: column {column.name!r} must be {column}: declare a wider one, or clip"
                )
            parts.append(codes)
        return np.column_stack([*parts, *([np.ones(n)] * self.intercept)])

    def inverse_transform(self, X: Any) -> Array:
        """Values of coded numbers, such as predictions: shape (n, number of columns); nothing is
        cut to the range.
        """
        numbers = [c for c in self.columns if isinstance(c, Number)]
        if self.intercept or len(numbers) < len(self.columns):
            raise ValueError(
                "inverse_transform needs a schema of numbers without intercept, as that of a label"
            )
        low, high = np.array([[c.low, c.high] for c in numbers]).T
        return np.asarray(check_finite(X, "X", 2) * (high - low) + (low / 2 + high / 2))
