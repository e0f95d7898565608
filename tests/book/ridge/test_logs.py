"""The logs of the ridge paper's authors: how a file is read, and what their page makes of logs that
are not as printed.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from hdpm_book import retrieval
from hdpm_book.ridge import logs, study
from tests.book.dataflow import statements

FOLDER = Path(os.environ.get("HDPM_DATA_DIR") or "/nowhere")
THERE = os.environ.get("HDPM_DATA") != "standin" and all(
    (FOLDER / file["name"]).is_file()
    for file in retrieval.REGISTRY["pp_ridge_logs"]["files"].values()
)
HEAD = b"lamb,unreg_pp_test_mean,unreg_pp_test_std,reg_jorg_avg_test_mean,type2_nonpriv_loss"


def test_columns_have_the_names_of_the_printed_tables() -> None:
    log = logs.read(HEAD + b",fc\n5,1.5,0.5,3,2,0.30000000000000004\n", "f_c")
    row = log.loc[(0.3, 5)]
    assert row["mean"].to_dict() == {
        "unreg_pdp_op": 1.5,
        "reg_jorgensen_mean": 3.0,
        "reg_nonprivate": 2.0,
    }
    assert row["std"].to_dict() == {"unreg_pdp_op": 0.5}


def test_of_a_log_of_two_sweeps_one_is_taken() -> None:
    rows = b"".join(b"5,%d,1,1,1,%s\n" % (k, ends) for k, ends in enumerate((b".01,.2", b".05,.5")))
    raw = HEAD + b",eps_c,eps_m\n" + rows
    assert logs.read(raw, "eps_m")["mean", "unreg_pdp_op"].to_dict() == {(0.2, 5): 0}
    assert logs.read(raw, "eps_c")["mean", "unreg_pdp_op"].to_dict() == {(0.05, 5): 1}


def test_numbers_of_records_become_shares() -> None:
    raw = HEAD + b",N_train_frac\n5,1,1,1,1,107\n5,2,1,1,1,1070\n"
    assert logs.read(raw, "n_fraction, rerun")["mean", "unreg_pdp_op"].to_dict() == {
        (0.1, 5): 1,
        (1.0, 5): 2,
    }


def test_files_are_registered_and_none_is_left_out() -> None:
    files = retrieval.REGISTRY["pp_ridge_logs"]["files"]
    assert set(files) == set(logs.FILES.values()) and len(files) == 9
    path = logs.FILES["medical", "lambda"]
    assert files[path]["name"] == f"pp-ridge-logs/{path}"
    assert files[path]["url"].startswith(
        f"https://raw.githubusercontent.com/krishnacharya/pp-ridge/{logs.FIRST}/pp/"
    )


def test_nothing_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HDPM_DATA", "standin")
    assert logs.logs() == {}


def as_printed() -> dict[tuple[str, str], pd.DataFrame]:
    """Logs that hold what the tables print, after repair."""
    found: dict[tuple[str, str], list[pd.DataFrame]] = {}
    for number in range(1, 15):
        spec = study.published(number)
        frame = spec.printed.set_axis(
            pd.MultiIndex.from_tuples([(row.value, row.penalty) for row in spec.rows()])
        )
        found.setdefault((spec.data, spec.sweep), []).append(
            pd.concat({spec.statistic: frame}, axis=1)
        )
    joined = {}
    for key, frames in found.items():
        wide = pd.concat(frames, axis=1)
        joined[key] = wide.loc[:, ~wide.columns.duplicated(keep="last")].combine_first(
            wide.loc[:, ~wide.columns.duplicated()]
        )
    return joined


def counted(monkeypatch: pytest.MonkeyPatch, found: dict[tuple[str, str], pd.DataFrame]) -> Any:
    """The page's count of cells, from these logs."""
    monkeypatch.setattr(logs, "logs", lambda: found)
    space: dict[str, Any] = {}
    for statement in statements("ridge/logs"):
        code = compile(ast.Module([statement], []), "ridge/logs", "exec")
        exec(code, space)
        if "total" in space:
            return space["total"]
    raise AssertionError("the page counts no cells")


def test_a_cell_that_is_not_the_logs_is_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = as_printed()
    same = counted(monkeypatch, found)
    assert (same["cells"], same["equal"], same["repaired"], same["other"]) == (750, 741, 9, 0)
    found["medical", "f_c"].loc[(0.4, 1.0), ("mean", "reg_pdp_op")] *= 1.05
    spoilt = counted(monkeypatch, found)
    assert (spoilt["equal"], spoilt["other"]) == (740, 1)
    capsys.readouterr()


@pytest.mark.skipif(
    not THERE, reason="needs the logs of the ridge paper's authors in HDPM_DATA_DIR"
)
def test_every_table_and_figure_has_its_rows() -> None:
    found = logs.logs()
    sizes = {key: len(log) for key, log in found.items()}
    assert sum(size for (data, _), size in sizes.items() if data == "medical") == 476
    for number in range(1, 15):
        spec = study.published(number)
        log = found[spec.data, spec.sweep][spec.statistic]
        assert set(spec.printed) <= set(log)
        assert all((row.value, row.penalty) in log.index for row in spec.rows())
