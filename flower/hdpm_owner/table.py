"""From a CSV file to records: by a schema on which all owners and the market have agreed.

``schema.toml`` says what one row is, which columns count, their declared ranges or categories in
order, what a missing value becomes, and the classes of the label. All of it is public; its hash
stands in every letter, so that nobody trains on columns that mean something else elsewhere. What is
found in her table is for the owner alone.
"""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hdpm_lib.schema import Category, Number, Schema
from hdpm_owner.signatures import canonical

NOISY = 0.2  # share of missing or clipped cells of a column from which on she is warned


@dataclass(frozen=True)
class Agreement:
    """A schema, the label with its classes in order, what a missing value becomes, and the hash of
    all that.

    Where nothing is said a missing number becomes the middle of its range, and a missing category
    tells nothing.
    """

    schema: Schema
    row: str
    label: str
    classes: tuple[str, ...]
    missing: dict[str, Any]
    digest: str

    @property
    def features(self) -> int:
        """Number of coded features, with the constant."""
        return len(self.schema.get_feature_names_out())

    @classmethod
    def read(cls, file: Path) -> Agreement:
        """The agreement in a TOML file."""
        try:
            content = tomllib.loads(file.read_text("utf8"))
            columns: list[Number | Category] = []
            missing: dict[str, Any] = {}
            for column in content["columns"]:
                given = dict(column)
                if "missing" in given:
                    missing[given["name"]] = given.pop("missing")
                if "levels" in given:
                    given["levels"] = tuple(map(str, given["levels"]))
                    columns.append(Category(**given))
                else:
                    columns.append(Number(**given))
            names = [column.name for column in columns]
            label = content["label"]
            if len({*names, label["name"]}) <= len(names):
                raise ValueError("columns and label must have different names")
            classes = tuple(map(str, label["classes"]))
            if len(set(classes)) < max(len(classes), 2):
                raise ValueError(
                    f"the label needs two or more different classes, got {list(classes)}"
                )
            digest = hashlib.sha256(canonical(content).encode()).hexdigest()
            return cls(
                Schema(columns, clip=True),
                content["row"],
                label["name"],
                classes,
                missing,
                digest,
            )
        except FileNotFoundError:
            raise ValueError(f"the schema {file} is not there") from None
        except KeyError as error:
            raise ValueError(f"the schema {file} has no entry {error}") from None
        except (TypeError, ValueError) as error:
            raise ValueError(f"the schema {file}: {error}") from error


@dataclass(frozen=True)
class Table:
    """Coded records, and what their owner should know of them."""

    features: NDArray[np.float64]
    labels: NDArray[np.int64]
    report: list[str]
    warnings: list[str]


def read_table(file: Path, agreed: Agreement) -> Table:
    """The records of a CSV file with a line of names; a mistake is an error of one sentence that
    says what to do.
    """
    try:
        cells = pd.read_csv(
            file, dtype=str, skipinitialspace=True, na_values=["NaN", "nan", "NA", ""]
        )
    except FileNotFoundError:
        raise ValueError(f"{file} is not there") from None
    except (UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ValueError(
            f"{file} is no CSV file with a line of column names: {str(error).strip()}"
        ) from None
    names = [column.name for column in agreed.schema.columns]
    if missing := [name for name in [*names, agreed.label] if name not in cells]:
        raise ValueError(
            f"{file} has no column {missing[0]!r}: it has {', '.join(map(str, cells.columns))}"
        )
    if not len(cells):
        raise ValueError(f"{file} has no records below its line of names")
    report = [f"{len(cells)} rows, each {agreed.row}"]
    warnings = []
    if left := [str(name) for name in cells.columns if name not in [*names, agreed.label]]:
        report.append(f"not used: {', '.join(left)}")
    filled = {}
    for column in agreed.schema.columns:
        filled[column.name], counts = _column(
            file, cells[column.name], column, agreed.missing.get(column.name)
        )
        said = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        report.append(f"{column.name}: {said or 'all as declared'}")
        for what, count in counts.items():
            if count > NOISY * len(cells):
                warnings.append(
                    f"{count / len(cells):.0%} of {column.name!r} are {what}: what is sold is"
                    " mostly that"
                )
    labels = cells[agreed.label].str.strip()
    classes = {name: k for k, name in enumerate(agreed.classes)}
    places = labels.map(classes)
    if (bad := places.isna().to_numpy()).any():
        row = int(np.flatnonzero(bad)[0])
        told = "nothing" if pd.isna(labels[row]) else repr(labels[row])
        raise ValueError(
            f"{file}, line {row + 2}: the label {agreed.label!r} is {told}, which is none of "
            f"{', '.join(agreed.classes)}: correct the row or leave it out"
        )
    found = places.to_numpy().astype(np.int64)
    each = np.bincount(found, minlength=len(classes))
    pairs = zip(agreed.classes, each, strict=True)
    report.append(f"{agreed.label}: " + ", ".join(f"{count} {name}" for name, count in pairs))
    if np.count_nonzero(each) == 1:
        warnings.append(
            f"all rows have one class of {agreed.label!r}: a model learns nothing else from them"
        )
    return Table(agreed.schema.transform(pd.DataFrame(filled)), found, report, warnings)


def _column(
    file: Path, cells: pd.Series, column: Number | Category, missing: Any
) -> tuple[NDArray[Any], dict[str, int]]:
    """Values of a column, what is missing filled in, and how many are missing or clipped."""
    text = cells.str.strip()
    empty = text.isna().to_numpy()
    if isinstance(column, Category):
        bad = ~empty & ~text.isin(column.levels).to_numpy()
        wanted = f"one of {', '.join(map(str, column.levels))}"
        values = text.to_numpy(dtype=object, na_value=missing)
    else:
        numbers = pd.to_numeric(text, errors="coerce").to_numpy(dtype=float)
        bad = ~empty & ~np.isfinite(numbers)
        wanted = "a number"
        values = np.where(empty, np.nan if missing is None else float(missing), numbers)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{file}, line {row + 2}: {column.name!r} is {text[row]!r}, and the schema wants"
            f" {wanted}: correct the cell, or leave it empty"
        )
    counts = {"missing": int(empty.sum())}
    if isinstance(column, Number):
        out = (numbers < column.low) | (numbers > column.high)
        counts[f"moved into [{column.low:g}, {column.high:g}]"] = int(out.sum())
    return values, counts
