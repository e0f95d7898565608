"""A table is read as it is written: the faults of spreadsheets one by one, and drawn files beside
readers that share no code with ours.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hdpm_owner import table
from hdpm_owner.commands import main
from hdpm_owner.table import Agreement, read_table

S = """row = "one patient"
label = {name = "outcome", classes = [0, 1]}
columns = [{name = "smoker", levels = [0, 1]}, {name = "diabetic", levels = [0, 1]}]
"""
T = """row = "one patient"
label = {name = "outcome", classes = ["well", "ill"]}
columns = [{name = "age", low = 18, high = 100}]
"""
L = """row = "one patient"
label = {name = "ill", classes = ["None", "yes"]}
columns = [{name = "größe", levels = ["None", "n/a"]}]
"""


def form(schema: str, **parts: Any) -> str:
    """A schema with a part [csv]: what JSON writes of texts and lists is TOML."""
    lines = [f"{name} = {json.dumps(part)}\n" for name, part in parts.items()]
    return f"{schema}[csv]\n{''.join(lines)}"


def read(place: Path, schema: str, written: bytes | str) -> table.Table:
    (place / "schema.toml").write_text(schema, "utf8")
    (place / "table.csv").write_bytes(written.encode() if isinstance(written, str) else written)
    return read_table(place / "table.csv", Agreement.read(place / "schema.toml"))


# --- what is read -------------------------------------------------------------------------------

PLAIN = "age,outcome\n20,well\n61,ill\n"
AGES = [-39 / 82, 2 / 82]
WIDE = "größe,ill\nn/a,None\nNone,yes\n"
# schema, file, codes of the first column, labels
READ: dict[str, tuple[str, bytes | str, list[float], list[int]]] = {
    "separators at the ends of lines": (
        S,
        "smoker,diabetic,outcome,relapse\n1,0,0,1,\n1,1,0,0,\n0,1,1,1, \n",
        [0.5, 0.5, -0.5],
        [0, 0, 1],
    ),
    "declared words of nothing": (L, WIDE + ",yes\n", [0.5, -0.5, 0], [0, 1, 1]),
    "letters in two parts": (L, unicodedata.normalize("NFD", WIDE), [0.5, -0.5], [0, 1]),
    "blanks are nothing": (
        S,
        'smoker,diabetic,outcome\n  ,1,0\n"\t",1,0\n\u00a0,0,1\n 1 ,0,"1 "\n',
        [0, 0, 0, 0.5],
        [0, 0, 1, 1],
    ),
    "a byte order mark": (T, "\ufeff" + PLAIN, AGES, [0, 1]),
    "a mark before quotes": (T, "\ufeff" + PLAIN.replace("age", '"age"'), AGES, [0, 1]),
    "semicolons and decimal commas": (
        form(T, separator=";", decimal=","),
        "age;outcome\n20,5;well\n59;ill\n+5,9e1;ill",
        [2.5 / 82 - 0.5, 0, 0],
        [0, 1, 1],
    ),
    "tabs": (form(T, separator="\t"), PLAIN.replace(",", "\t"), AGES, [0, 1]),
    "Latin-1": (form(L, encoding="iso-8859-1"), WIDE.encode("latin-1"), [0.5, -0.5], [0, 1]),
    "UTF-16": (form(L, encoding="utf-16"), WIDE.encode("utf-16"), [0.5, -0.5], [0, 1]),
    "ends of lines by carriage returns": (T, PLAIN.replace("\n", "\r\r"), AGES, [0, 1]),
    "a declared mark of missing": (
        form(T, missing=[-999, "?"]),
        "age,outcome\n-999,well\n?,ill\n100,ill\n",
        [0, 0, 0.5],
        [0, 1, 1],
    ),
    "a mark that is a level": (form(L, missing=["None"]), WIDE, [0.5, -0.5], [0, 1]),
    "lines and quotes in cells not used": (
        T,
        'age,note,outcome\n20,"a\n""b"",\r\n",well\n\n59,,ill\n',
        [-39 / 82, 0],
        [0, 1],
    ),
    "the first row of each person": (
        form(T, person="who"),
        "who,age,outcome\nx,20,well\ny,59,ill\nx,xx,?\n",
        [-39 / 82, 0],
        [0, 1],
    ),
    "what a missing cell becomes": (
        T.replace("}]", ", missing = 18}, {name = 'c', levels = [1, 2], missing = 2}]"),
        "c,age,outcome\n,,well\n1,59,ill\n,100,ill\n",
        [-0.5, 0, 0.5],
        [0, 1, 1],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", READ)
def test_a_cell_is_what_is_written(tmp_path: Path, what: str) -> None:
    schema, written, codes, labels = READ[what]
    found = read(tmp_path, schema, written)
    assert found.labels.tolist() == labels and np.allclose(found.features[:, 0], codes, atol=1e-12)


def test_how_a_file_is_written_is_not_what_it_means(tmp_path: Path) -> None:
    """Two hospitals with different exports have one schema; with a mark of Notepad's, too."""
    digests = set()
    for k, schema in enumerate((T, form(T, separator=";"), "\ufeff" + T)):
        (tmp_path / f"{k}.toml").write_text(schema, "utf8")
        digests.add(Agreement.read(tmp_path / f"{k}.toml").digest)
    (tmp_path / "other.toml").write_text(T.replace("high", "missing = 59, high"))
    assert len(digests) == 1 and Agreement.read(tmp_path / "other.toml").digest not in digests


def test_parquet_is_what_its_text_would_be(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed: no Parquet files")
    rows = {"smoker": [1.0, None, 0.0], "diabetic": ["1", "0", ""], "outcome": [0, 1, 1]}
    pd.DataFrame(rows).to_parquet(tmp_path / "table.parquet")
    (tmp_path / "schema.toml").write_text(form(S, separator=";", decimal=","))
    agreed = Agreement.read(tmp_path / "schema.toml")
    found = read_table(tmp_path / "table.parquet", agreed)
    assert found.features[:, :2].tolist() == [[0.5, 0.5], [0, -0.5], [-0.5, 0]]
    assert found.labels.tolist() == [0, 1, 1]
    (tmp_path / "none.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"none\.parquet is no Parquet file"):
        read_table(tmp_path / "none.parquet", agreed)


# --- what is refused ----------------------------------------------------------------------------

REFUSED: list[tuple[str, bytes | str, str]] = [
    (T, b"", "has no line of names"),
    (T, "age,outcome\n", "has no records below its line of names"),
    (T, b"\x80\x04\x95\x00", "line 1 is not utf-8: declare its encoding"),
    (T, PLAIN.encode("utf-16"), "line 1 is not utf-8"),
    (T, b"age,outcome\n20,well\r\n\xe4,ill\n", "line 3 is not utf-8"),
    (form(T, encoding="utf-16"), PLAIN, "does not begin as utf-16 does"),
    (T, "age;outcome\n20;well\n", "'age': of the declared names its first line has none"),
    (T, "# export\nage,outcome\n20,well\n", "line 2 has 2 cells for 1 names"),
    (T, "secret\nsecret\n", "in 1 cells. The separator is ',': declare another"),
    (T, "age,age,outcome\n20,21,well\n", "has 2 columns 'age'"),
    (T, "age,outcome\n20,well\n\n\nsecret,ill\n", "line 5: 'age' is not a number"),
    (T, 'age,note,outcome\n20,"a\nb",well\n20,secret\n', "line 4 has 2 cells for 3 names"),
    (T, "age,outcome\n20,well,secret\n", "line 2 has 3 cells for 2 names"),
    (T, 'age,outcome\n20,well\n"secret"s,ill\n', "line 3: ',' expected after '\"'"),
    (T, 'age,outcome\n20,well\n20,"secret\n20,ill\n', "line 3: unexpected end of data"),
    (T, "age,outcome\n" + "secret" * 40_000 + ",ill\n", "line 2: field larger than field limit"),
    (T, "age,outcome\n20,secret\n", "line 2: the label 'outcome' is no class"),
    (T, "age,outcome\n20, \n", "line 2: the label 'outcome' is missing"),
    (T, 'age,outcome\n"1,5",well\n', "number with the decimal mark '.'"),
    (form(T, decimal=","), "age,outcome\n1.5,well\n", "number with the decimal mark ','"),
    *((T, f"age,outcome\n{cell},well\n", "line 2: 'age' is not a number") for cell in
      ("inf", "nan", "1_0", "0x10", "1e999", "２０", "NA", "1 2", "--1", "1" * 99_999 + "x")),
    (S, "smoker,diabetic,outcome\n1.0,1,0\n", "is not one of 0, 1, letter by letter: correct"),
    (form(T, person="who"), "who,age,outcome\n ,20,well\n", "'who', whose row it is, is missing"),
    (form(T, person="who"), PLAIN, "has no column 'who'"),
]  # fmt: skip


def aged(part: str) -> str:
    """The schema T, whose column has another part."""
    return T.replace("low = 18, high = 100", part)


SCHEMAS: dict[str, str] = {
    "": "Content lacks row",
    "=": "Invalid",
    "row = 1\n" + T.split("\n", 1)[1]: "row must be a text",
    T + "colums = 1\n": "has no part 'colums'",
    T.replace("row =", "day = 2020-01-01\nrow ="): "has no part 'day'",
    T.replace('{name = "outcome", classes = ["well", "ill"]}', "5"): "5 is no Label",
    T.replace('"ill"]', "2020-01-01]"): "classes must be a text",
    T.replace('"ill"]', '"well"]'): "the label needs two or more different classes",
    T.replace(', "ill"]', "]"): "the label needs two or more different classes",
    aged("low = 18, high = 18"): "column 'age': 'age' needs finite low < high",
    aged("low = 18, high = nan"): "column 'age': high must be a number",
    aged("low = 18, high = 100, lower = 1"): "column 'age': Range has no part 'lower'",
    aged("low = 18, high = 100, missing = inf"): "column 'age': missing must be a number",
    aged('low = 18, high = 100, missing = "mean"'): "column 'age': missing must be a number",
    aged("low = 18, high = 100, missing = 101"): "column 'age': missing must lie in",
    aged("levels = [0, 1], missing = 2"): "'age': missing must be one",
    aged('levels = [" mild", "severe"]'): "'age': levels must be a text",
    aged("levels = [true, false]"): "column 'age': levels must be a text",
    aged('levels = [1, "1"]'): "levels of 'age' must be two labels or more, all different",
    T.replace('"age"', '"outcome"'): "must have different names",
    T.replace('"age"', '"intercept"'): "there are 2 coded features 'intercept'",
    T.replace("{", "[1], {").replace("label = [1], ", "label = "): "column 1: list is no Range",
    T.split("columns")[0] + "columns = []": "there must be columns",
    form(T, separator="::"): "separator must be one of",
    form(T, encoding="klingon"): "encoding must be a text like utf-8",
    form(T, missing=[99]): "column 'age': the mark '99' of csv.missing is a number in its range",
    form(T, person="age"): "must have different names",
    form(T, quote="'"): "has no part 'quote'",
}


@pytest.mark.parametrize(
    ("schema", "written", "says"),
    [*REFUSED, *((one, PLAIN, says) for one, says in SCHEMAS.items())],
)
def test_a_mistake_is_one_sentence_without_a_cell(
    tmp_path: Path, schema: str, written: bytes | str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the command line: file and line or column, status 2, and nothing is made."""
    with pytest.raises(ValueError) as direct:
        read(tmp_path, schema, written)
    command = ["init", str(tmp_path / "table.csv"), "--schema", str(tmp_path / "schema.toml")]
    with pytest.raises(SystemExit) as ended:
        main([*command, "--folder", str(tmp_path / "ann")])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and said == f"hdpm-owner: {direct.value}\n" and says in said
    assert str(tmp_path) in said and said.count("\n") == 1 and len(said) < 500
    assert "secret" not in said and not (tmp_path / "ann").exists()


# --- drawn files, and a second reader -----------------------------------------------------------

FILES = 5000 if "HDPM_NIGHTLY" in os.environ else 400
WORDS = ["None", "NA", "n/a", "null", "NaN", "nan", "#N/A", "-", "-999", "1", "1.0", "007", "True"]
WORDS += ["a,b", "a;b", "a\tb", 'say "x"', '"', "größe", "Ω", "e\u0301te", "x y", "'q'", "\\", "#"]
NUMBERS = ["2012", "2.5e3", "2999.", "+2222", "0002500.50", "25E+2", "1e9", ".21e4", "-1"]
NOTES = ["", "free text", 'two\nlines "x"', "a,b;c\td", "\r", "\ufeff", "\u2028", "x\x0by", "''"]
BLANKS = ["", " ", "\u00a0", "\u2003 "]
Cells = list[list[str]]


def composed(cell: str) -> str:
    return unicodedata.normalize("NFC", cell.strip())


def by_pandas(file: Path, separator: str, encoding: str) -> Cells:
    """Its parser in C, with everything that it thinks of cells turned off."""
    kind: dict[str, Any] = {"dtype": str, "na_filter": False, "header": None, "names": range(6)}
    rows = pd.read_csv(file, sep=separator, encoding=encoding, index_col=False, **kind)
    return [[composed(str(cell)) for cell in row[:5]] for row in rows.to_numpy().tolist()]


def by_pyarrow(file: Path, separator: str, encoding: str) -> Cells:
    """Which takes no separators at the ends of lines."""
    from pyarrow import csv, string

    rows = csv.read_csv(
        file,
        csv.ReadOptions(encoding=encoding, column_names=list("abcde")),
        csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        csv.ConvertOptions(column_types=dict.fromkeys("abcde", string())),
    )
    return [[composed(cell) for cell in row.values()] for row in rows.to_pylist()]


def draw(rng: np.random.Generator, file: Path, ends: float) -> tuple[dict[str, Any], list[int]]:
    """Write a file and its schema; what was declared, and the line of each row. Of the lines
    a share `ends` in a separator too many.
    """
    words = [composed(word) for word in rng.permutation(WORDS).tolist()]
    told: dict[str, Any] = {"separator": str(rng.choice([",", ";", "\t", "|"]))}
    told |= {"decimal": ",."[rng.integers(2)], "encoding": ["utf-8", "utf-16"][rng.integers(2)]}
    told["missing"] = [words.pop() for _ in range(rng.integers(3))]
    names = ("ö", 'the "x"', "y")
    levels = {name: [words.pop() for _ in range(rng.integers(2, 5))] for name in names}
    levels["ö"] += told["missing"][: rng.integers(2)]  # what is declared is a value
    rows = []
    for _ in range(rng.integers(1, 6)):
        row = [str(rng.choice([*part, *BLANKS, *told["missing"]])) for part in levels.values()]
        row[2] = str(rng.choice(levels["y"]))
        number = str(rng.choice(NUMBERS)).replace(".", told["decimal"])
        number = str(rng.choice([number] * 3 + BLANKS + told["missing"]))
        rows.append([*row, number, str(rng.choice(NOTES))])
    order = rng.permutation(5)
    new = str(rng.choice(["\n", "\r\n", "\r"]))
    written = "\ufeff" * (told["encoding"] == "utf-8" and rng.random() < 0.3)
    lines = []
    for k, row in enumerate([[*levels, "n", "note"], *rows]):
        # after an empty line of a mere carriage return pandas drops an empty first cell
        written += new * (new != "\r" and rng.random() < 0.2)
        lines.append(len(re.findall("\r\n|\r|\n", written)) + 1)
        cells = []
        for place in order:
            cell = unicodedata.normalize(str(rng.choice(["NFC", "NFD"])), row[place])
            cell = str(rng.choice(BLANKS)) * int(place < 4) + cell
            quoted = set(cell) & set(f'"\r\n\ufeff{told["separator"]}') or rng.random() < 0.3
            cells.append('"' + cell.replace('"', '""') + '"' if quoted else cell)
        cells += [""] * (k > 0 and rng.random() < ends)
        written += told["separator"].join(cells) + new
    file.write_bytes(written.encode(told["encoding"]))
    schema = f"""row = "one"
label = {{name = "y", classes = {json.dumps(levels.pop("y"))}}}
columns = [{{name = "n", low = 2000, high = 3000}}"""
    for k, v in levels.items():
        schema += f", {{name = {json.dumps(k)}, levels = {json.dumps(v)}}}"
    schema = form(schema + "]\n", **told)
    file.with_suffix(".toml").write_text(schema, "utf8")
    return tomllib.loads(schema), lines[1:]


def meant(cells: Cells, told: dict[str, Any]) -> Iterator[list[float]]:
    """Codes and label of each row of cells, by the words of the schema."""
    classes = told["label"]["classes"]
    for row in cells[1:]:
        known = dict(zip(cells[0], row, strict=True))
        number = known["n"].replace(told["csv"]["decimal"], ".")
        empty = known["n"] in ("", *told["csv"]["missing"])
        codes = [0.0 if empty else min(max((float(number) - 2500) / 1000, -0.5), 0.5)]
        for one in told["columns"][1:]:
            here = [float(known[one["name"]] == level) for level in one["levels"]]
            k = len(here)
            coded = [here[1] - here[0]] if k == 2 else [h - sum(here) / k for h in here]
            codes += [code / 2 if k == 2 else code for code in coded]
        yield [*codes, 1.0, classes.index(known["y"])]


def differences(place: Path, reader: Any, files: int, ends: float, seed: int = 0) -> int:
    """Files of so many that are read otherwise by `reader` than by ours."""
    rng = np.random.default_rng(seed)
    found = 0
    for _ in range(files):
        told, lines = draw(rng, place / "t.csv", ends)
        agreed = Agreement.read(place / "t.toml")
        try:
            cells = table.read_cells(place / "t.csv", agreed.form)
            ours = [cells.names, *map(list, zip(*map(cells.column, cells.names), strict=True))]
            theirs = reader(place / "t.csv", agreed.form.separator, agreed.form.encoding)
            records = read_table(place / "t.csv", agreed)
            coded = np.column_stack([records.features, records.labels])
            same = np.allclose(coded, list(meant(theirs, told)), rtol=0, atol=1e-12)
            found += not (ours == theirs and same and cells.places == [f"line {n}" for n in lines])
        except ValueError:
            found += 1
    return found


@pytest.mark.parametrize(("reader", "ends"), [(by_pandas, 0.1), (by_pyarrow, 0.0)])
def test_drawn_files_are_read_as_another_reader_reads_them(
    tmp_path: Path, reader: Any, ends: float
) -> None:
    """Cell by cell, code by code, line by line."""
    if reader is by_pyarrow:
        pytest.importorskip("pyarrow", reason="the extra parquet is not installed: one reader")
    elif tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
        pytest.skip("pandas before 3.1 stumbles over carriage returns")
    assert differences(tmp_path, reader, FILES, ends) == 0


def counted(file: Path, form: table.Form, read: Any = table._csv) -> table.Cells:
    """Lines, where the records are counted."""
    cells = read(file, form)
    return table.Cells(cells.names, cells.rows, [f"line {k + 2}" for k in range(len(cells.rows))])


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("_plain", str.strip),
        ("_missing", lambda cell, form: cell in ("", "NA", "None", "nan")),
        ("_text", lambda file, encoding: file.read_bytes().decode(encoding)),
        ("_csv", counted),
    ],
)
def test_a_reader_that_is_broken_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, wrong: Any
) -> None:
    monkeypatch.setattr(table, part, wrong)
    assert differences(tmp_path, by_pandas, 60, 0.1) > 3
