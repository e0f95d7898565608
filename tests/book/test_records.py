"""Studies that are stored: rows in their order, none of other settings, and a folder that goes when
all is done.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hdpm_book.records import collect, page_functions
from hdpm_lib.audits.bounds import guess_epsilon

LOOKS_AT = ["book/federated/learning.md"]
ROOT = Path(__file__).resolve().parents[2]
JOBS = [(20, right) for right in range(8, 20, 2)]


def row(made: int, right: int) -> dict[str, Any]:
    return {"made": made, "bound": round(float(guess_epsilon(right, made, 1000, 0.05)), 6)}


def test_rows_are_stored_in_their_order(tmp_path: Path) -> None:
    collect(tmp_path, "bounds", JOBS, row, {"runs": 1000}, "numpy")
    assert [path.name for path in tmp_path.iterdir()] == ["bounds.json"]
    found = json.loads((tmp_path / "bounds.json").read_text("utf8"))
    assert found["rows"] == [row(*job) for job in JOBS]
    assert found["runs"] == 1000 and found["cpu_seconds"] >= 0
    assert set(found["versions"]) == {"numpy", "python"} and found["date"]
    if (ROOT / ".git").exists():
        assert found["commit"]


def test_rows_of_other_settings_are_refused(tmp_path: Path) -> None:
    def stops(made: int, right: int) -> dict[str, Any]:
        if right > 12:
            raise ValueError("enough")
        return row(made, right)

    with pytest.raises(ValueError, match="task 3 of 6"):
        collect(tmp_path, "bounds", JOBS, stops, {"runs": 1000})
    with pytest.raises(ValueError, match="blocks of another study"):
        collect(tmp_path, "bounds", JOBS, stops, {"runs": 2000})
    assert len(list((tmp_path / "bounds.parts").glob("block-*"))) == 3


def test_a_page_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(FileNotFoundError, match="what a page shows is run in a checkout"):
        page_functions("federated/nowhere", "sigma")


def test_functions_of_a_page_without_its_experiments() -> None:
    found = page_functions("federated/learning", "sigma", "people")
    assert found["sigma"] == 2.0 and callable(found["people"]) and "np" in found
    assert not {"bids_of", "runs", "markets"} & found.keys()
