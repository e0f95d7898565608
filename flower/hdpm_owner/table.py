"""From a table to records: by a schema on which all owners and the market have agreed.

``schema.toml`` says what one row is, which columns count, their declared ranges or categories in
order, what a missing value becomes, and the classes of the label. All of it is public; its hash
stands in every letter, so that nobody trains on columns that mean something else elsewhere. Its
part ``[csv]`` says how a file is written, and may differ from owner to owner: it is not in the
hash. What is found in her table is for the owner alone, and no cell of it stands in an error.

Nothing is guessed: a cell is the text between two separators, without blanks at its ends, its
letters composed (Unicode's NFC). It is missing if it is empty or one of the declared marks, unless
a column declares that very text as a level. A file whose name ends in ``.parquet`` has cells that
know what they are: a number is what its text would be.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite, isnan, nan
from pathlib import Path
from typing import Annotated, Any, Literal
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from hdpm_lib.schema import Category, Number, Schema
from hdpm_lib.validation import extra
from hdpm_owner.shapes import shaped
from hdpm_owner.signatures import canonical

NUMBER = {
    mark: re.compile(rf"[+-]?([0-9]+([{mark}][0-9]*)?|[{mark}][0-9]+)([eE][+-]?[0-9]+)?")
    for mark in ".,"
}
NOISY = 0.2  # share of missing cells of a column from which on she is warned
ENCODINGS = (
    "utf-8 utf-16 utf-16-le utf-16-be iso-8859-1 iso-8859-2 iso-8859-15 cp437 cp850 cp1250 cp1251"
    " cp1252 cp1253 cp1254 mac-roman shift_jis gb18030 big5 euc_kr"
).split()


Text = Annotated[str, r"\S(.*\S)?"]  # a line, without blanks at its ends
Finite = Annotated[float, (-1e300, 1e300)]


@dataclass(frozen=True)
class Form:
    """How a file is written: the part ``[csv]`` of a schema, which may be left out.

    Attributes
    ----------
    separator : {",", ";", "|", tab}
    decimal : {".", ","}, of numbers; a mark of thousands is none
    encoding : one of ``ENCODINGS``; a byte order mark is left out
    missing : marks of what is not known, besides the empty cell
    person : name of the column that tells whose row it is, if there is one
        Of the rows of one person the first in the file is a record, and the others are left out.
    """

    separator: Literal[",", ";", "|", "\t"] = ","
    decimal: Literal[".", ","] = "."
    encoding: Annotated[str, "|".join(ENCODINGS)] = "utf-8"
    missing: tuple[Text, ...] = ()
    person: Text = ""


@dataclass(frozen=True)
class Label:
    """What is learned, and its classes in order."""

    name: Text
    classes: tuple[Text, ...]


@dataclass(frozen=True)
class Range:
    """A column of numbers, and what a missing one becomes, if it is not the middle."""

    name: Text
    low: Finite
    high: Finite
    missing: Finite = nan


@dataclass(frozen=True)
class Levels:
    """A column of categories, and the one that a missing cell becomes; else it tells nothing."""

    name: Text
    levels: tuple[Text, ...]
    missing: Text = ""


@dataclass(frozen=True)
class Content:
    """A schema, but for its columns."""

    row: Text
    label: Label
    csv: Form = Form()


def _words(content: Any) -> Any:
    """Whole numbers in lists, which are levels, classes and marks, as a cell has them."""
    if isinstance(content, dict):
        return {name: _words(part) for name, part in content.items()}
    if isinstance(content, list):
        return [str(one) if type(one) is int else _words(one) for one in content]
    return content


def _column(given: Any, form: Form) -> tuple[Number | Category, Any]:
    """Return a column as the library knows it, and what a missing cell of it becomes."""
    if isinstance(given, dict) and "levels" in given:
        if type(number := given.get("missing")) is int:
            given = given | {"missing": str(number)}
        words = shaped(Levels, given)
        if words.missing and words.missing not in words.levels:
            raise ValueError(f"missing must be one of its levels, got {words.missing!r}")
        return Category(words.name, words.levels), words.missing or None
    told = shaped(Range, given)
    column = Number(told.name, told.low, told.high)
    if not (isnan(told.missing) or told.low <= told.missing <= told.high):
        raise ValueError(f"missing must lie in [{told.low:g}, {told.high:g}], got {told.missing:g}")
    for mark in form.missing:
        value = _number(mark, form.decimal)
        if value is not None and told.low <= value <= told.high:
            raise ValueError(f"the mark {mark!r} of csv.missing is a number in its range")
    return column, told.missing


@dataclass(frozen=True)
class Agreement:
    """A schema, the label with its classes in order, what a missing value becomes, the hash of all
    that, and how a file is written.

    Where nothing is said a missing number becomes the middle of its range, and a missing category
    tells nothing.
    """

    schema: Schema
    row: str
    label: str
    classes: tuple[str, ...]
    missing: dict[str, Any]
    digest: str
    form: Form = Form()

    @property
    def features(self) -> int:
        """Number of coded features, with the constant."""
        return len(self.schema.get_feature_names_out())

    @classmethod
    def read(cls, file: Path) -> Agreement:
        """Read the agreement in a TOML file."""
        where = f"the schema {file}"
        try:
            written = tomllib.loads(unicodedata.normalize("NFC", file.read_text("utf-8-sig")))
            rest = _words(written)
            listed = rest.pop("columns", None)
            content = shaped(Content, rest)
            columns = []
            missing = {}
            if not isinstance(listed, list) or not listed:
                raise ValueError("there must be columns")
            for k, one in enumerate(listed, 1):
                name = one.get("name") if isinstance(one, dict) else None
                where = f"the schema {file}, column {name if isinstance(name, str) else k!r}"
                column, missing[column.name] = _column(one, content.csv)
                columns.append(column)
            where = f"the schema {file}"
            label = content.label
            if len(set(label.classes)) < max(len(label.classes), 2):
                raise ValueError("the label needs two or more different classes")
            names = [*(column.name for column in columns), label.name, content.csv.person]
            if len(set(names)) < len(names):
                raise ValueError("columns, label and csv.person must have different names")
            schema = Schema(columns, intercept=True, clip=True)
        except FileNotFoundError:
            raise ValueError(f"{where} is not there") from None
        except (RecursionError, TypeError, ValueError) as error:
            raise ValueError(f"{where}: {error}") from None
        agreed = {name: part for name, part in written.items() if name != "csv"}
        digest = hashlib.sha256(canonical(agreed).encode()).hexdigest()
        return cls(schema, content.row, label.name, label.classes, missing, digest, content.csv)


# --- cells ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cells:
    """What a file says: names, rows of as many texts, and the line at which each row begins."""

    names: list[str]
    rows: list[Sequence[str]]
    places: list[str]

    def column(self, name: str) -> list[str]:
        """Return the cells of a column, without blanks at their ends, in composed letters."""
        place = self.names.index(name)
        return [_plain(row[place]) for row in self.rows]


def _plain(cell: str) -> str:
    return cell.strip() if cell.isascii() else unicodedata.normalize("NFC", cell.strip())


def read_cells(file: Path, form: Form) -> Cells:
    """Read the cells of a file with a line of names, as they are written."""
    try:
        return _parquet(file) if file.suffix == ".parquet" else _csv(file, form)
    except FileNotFoundError:
        raise ValueError(f"{file} is not there") from None


def _csv(file: Path, form: Form) -> Cells:
    lines = io.StringIO(_text(file, form.encoding), newline="")
    reader = csv.reader(lines, delimiter=form.separator, strict=True)
    rows: list[Sequence[str]] = []
    places = []
    begin = 1
    try:
        for cells in reader:
            if cells:
                rows.append(cells)
                places.append(f"line {begin}")
            begin = reader.line_num + 1
    except csv.Error as error:
        said = f'{error}, where the separator is {form.separator!r} and quotes are "'
        raise ValueError(f"{file}, line {begin}: {said}") from None
    if not rows:
        raise ValueError(f"{file} has no line of names")
    names = [_plain(name) for name in rows[0]]
    width = len(names)
    for k, (row, place) in enumerate(zip(rows, places, strict=True)):
        if len(row) > width and not any(cell.strip() for cell in row[width:]):
            rows[k] = row[:width]  # separators at the end of a line
        elif len(row) != width:
            raise ValueError(f"{file}, {place} has {len(row)} cells for {width} names")
    return Cells(names, rows[1:], places[1:])


def _text(file: Path, encoding: str) -> str:
    data = file.read_bytes()
    if encoding == "utf-16" and data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        raise ValueError(f"{file} does not begin as utf-16 does: declare its encoding in [csv]")
    try:
        return data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = io.StringIO(data[: error.start].decode(encoding, "ignore"), newline=None)
        said = f"line {before.read().count(chr(10)) + 1} is not {encoding}"
        raise ValueError(f"{file}, {said}: declare its encoding in [csv]") from None


def _parquet(file: Path) -> Cells:
    with extra("parquet"):
        from pyarrow import ArrowException, parquet
    try:
        table = parquet.read_table(file, partitioning=None)
    except ArrowException:
        raise ValueError(f"{file} is no Parquet file") from None
    columns = [[_written(value) for value in column.to_pylist()] for column in table.columns]
    rows: list[Sequence[str]] = list(zip(*columns, strict=True))
    places = [f"row {k}" for k in range(1, len(rows) + 1)]
    return Cells([_plain(name) for name in table.column_names], rows, places)


def _written(value: object) -> str:
    """Return a value as a cell of text: one that is no number, or nothing, is empty."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


# --- records -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Coded records, and what their owner should know of them."""

    features: NDArray[np.float64]
    labels: NDArray[np.int64]
    report: list[str]
    warnings: list[str]

    def saved(self, digest: str) -> bytes:
        """Return the records as ``data.npz`` has them, with the hash of their schema."""
        stream = io.BytesIO()
        np.savez(stream, features=self.features, labels=self.labels, schema=digest)
        return stream.getvalue()


def load(file: Path) -> tuple[NDArray[np.float64], NDArray[np.int64], str]:
    """Features, labels and the hash of their schema from ``data.npz``."""
    try:
        with np.load(io.BytesIO(file.read_bytes()), allow_pickle=False) as data:
            features, labels, digest = (data[name] for name in ("features", "labels", "schema"))
            return np.asarray(features, dtype=float), labels, str(digest)
    except FileNotFoundError:
        raise ValueError(f"{file} is not there: hdpm-owner init makes it") from None
    except (EOFError, IndexError, KeyError, TypeError, ValueError, BadZipFile):
        said = "is damaged: move it away, and run hdpm-owner init again"
        raise ValueError(f"{file} {said}") from None


def read_table(file: Path, agreed: Agreement) -> Table:
    """Read the records of a table; a mistake is an error of one sentence that says what to do."""
    cells = read_cells(file, agreed.form)
    _check_names(file, cells, agreed, filter(None, (agreed.label, agreed.form.person)))
    cells, told = _persons(file, cells, agreed)
    report = [told]
    known = {agreed.label, agreed.form.person, *(one.name for one in agreed.schema.columns)}
    if left := [name for name in cells.names if name not in known]:
        report.append(f"not used: {', '.join(left)}")
    features, more, warnings = _features(file, cells, agreed)
    labels = cells.column(agreed.label)
    classes = {name: k for k, name in enumerate(agreed.classes)}
    for cell, place in zip(labels, cells.places, strict=True):
        if cell not in classes:
            what = "missing" if _missing(cell, agreed.form) else "no class"
            raise ValueError(
                f"{file}, {place}: the label {agreed.label!r} is {what}, and the schema wants one"
                f" of {', '.join(agreed.classes)}: correct the row or leave it out"
            )
    found = np.array([classes[cell] for cell in labels], dtype=np.int64)
    counts = ", ".join(f"{labels.count(name)} {name}" for name in agreed.classes)
    more.append(f"{agreed.label}: {counts}")
    if len(set(labels)) == 1:
        warnings.append(
            f"all rows have one class of {agreed.label!r}: a model learns nothing else from them"
        )
    return Table(features, found, report + more, warnings)


def read_features(file: Path, agreed: Agreement) -> tuple[NDArray[np.float64], list[str]]:
    """Return the coded rows of a table, all of them, and where each stands; a label is not looked
    at.
    """
    cells = read_cells(file, agreed.form)
    _check_names(file, cells, agreed)
    return _features(file, cells, agreed)[0], cells.places


def _check_names(file: Path, cells: Cells, agreed: Agreement, others: Iterable[str] = ()) -> None:
    """Each name once, and a record; what stands in line 1 may be private, and is not said."""
    wanted = [*(column.name for column in agreed.schema.columns), *others]
    for name in wanted:
        if (often := cells.names.count(name)) > 1:
            raise ValueError(f"{file} has {often} columns {name!r}: leave one of them")
        if not often:
            here = [one for one in wanted if one in cells.names]
            raise ValueError(
                f"{file} has no column {name!r}: of the declared names its first line has"
                f" {', '.join(here) or 'none'}, in {len(cells.names)} cells. The separator is"
                f" {agreed.form.separator!r}: declare another in [csv] if it should be"
            )
    if not cells.rows:
        raise ValueError(f"{file} has no records below its line of names")


def _persons(file: Path, cells: Cells, agreed: Agreement) -> tuple[Cells, str]:
    """Return the first row of each person, and a line that says how many there are."""
    rows = len(cells.rows)
    if not (person := agreed.form.person):
        return cells, f"{rows} rows, each {agreed.row}"
    first: dict[str, int] = {}
    for k, cell in enumerate(cells.column(person)):
        if _missing(cell, agreed.form):
            raise ValueError(f"{file}, {cells.places[k]}: {person!r}, whose row it is, is missing")
        first.setdefault(cell, k)
    keep = first.values()
    kept = Cells(cells.names, [cells.rows[k] for k in keep], [cells.places[k] for k in keep])
    told = f"{rows} rows of {len(first)} in {person!r}: the first of each is {agreed.row}"
    return kept, told


def _missing(cell: str, form: Form) -> bool:
    return not cell or cell in form.missing


def _number(cell: str, decimal: str) -> float | None:
    """Return the number that a cell is, in digits, sign, decimal mark and exponent; or nothing."""
    if not NUMBER[decimal].fullmatch(cell):
        return None
    found = float(cell.replace(decimal, "."))
    return found if isfinite(found) else None


def _features(
    file: Path, cells: Cells, agreed: Agreement
) -> tuple[NDArray[np.float64], list[str], list[str]]:
    """Coded rows, a line on each column, and warnings."""
    codes = []
    report = []
    warnings = []
    form = agreed.form
    decimal = "." if file.suffix == ".parquet" else form.decimal
    for column in agreed.schema.columns:
        name = column.name
        levels = frozenset(column.levels if isinstance(column, Category) else ())
        values = list[Any]()
        missing = 0
        for cell, place in zip(cells.column(name), cells.places, strict=True):
            value: Any = cell if cell in levels else None
            if not levels and not _missing(cell, form):
                value = _number(cell, decimal)
            if value is None and not _missing(cell, form):
                wanted = f"a number with the decimal mark {decimal!r}"
                if isinstance(column, Category):
                    wanted = f"one of {', '.join(map(str, column.levels))}, letter by letter"
                raise ValueError(
                    f"{file}, {place}: {name!r} is not {wanted}: correct the cell, leave it empty,"
                    " or declare it in missing of [csv]"
                )
            missing += value is None
            values.append(agreed.missing[name] if value is None else value)
        told = [f"{missing} missing"] * bool(missing)
        if missing > NOISY * len(values):
            warnings.append(
                f"{missing / len(values):.0%} of {name!r} are missing: what is sold is mostly that"
            )
        filled = np.array(values, dtype=object if levels else float)
        codes.append(column.encode(filled)[0])
        if isinstance(column, Number):
            out = int(((filled < column.low) | (filled > column.high)).sum())
            bounds = f"[{column.low:g}, {column.high:g}]"
            told += [f"{out} moved into {bounds}"] * bool(out)
            if out:
                warnings.append(
                    f"{out} of {name!r} lie outside {bounds} and are moved to its ends: if such a"
                    " number means that nothing is known, declare it in missing of [csv]"
                )
        report.append(f"{name}: {', '.join(told) or 'all as declared'}")
    return np.column_stack([*codes, np.ones(len(cells.rows))]), report, warnings
