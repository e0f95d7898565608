"""Studies that are stored: rows in their order, none of other settings, and a folder that goes when
all is done.
"""

from __future__ import annotations

import ast
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hdpm_book import records
from hdpm_book.records import collect, page_functions
from hdpm_lib.audits.bounds import guess_epsilon
from tests import records as again

LOOKS_AT = ["book/federated/learning.md", "data", "hdpm_lib/trained"]
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


def edit(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf8")
    return path


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def test_what_goes_into_a_checkout_names_a_commit_that_has_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    studies = tmp_path / "data" / "studies"
    studies.mkdir(parents=True)
    monkeypatch.setattr(records, "ROOT", tmp_path)
    with pytest.raises(RuntimeError, match="commit first"):  # no repository
        records.provenance(folder=studies)
    code = edit(tmp_path / "code.py", "x = 1\n")
    result = edit(studies / "bounds.json", "{}\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "All")
    edit(result, '{"another": 1}\n')  # that a record changes does not matter
    assert len(records.provenance(folder=studies)["commit"]) == 40
    edit(code, "x = 2\n")
    with pytest.raises(RuntimeError, match=r"commit first \(code\.py\)"):
        records.provenance(folder=studies)
    elsewhere = tmp_path.parent / "elsewhere"
    assert records.provenance(folder=elsewhere)["commit"].endswith("-dirty")


def test_what_changes_nothing_leaves_a_digest_as_it_is() -> None:
    plain = "def f(x):\n    return x + 1\n"
    same = '"""Head."""\n\n\ndef f(\n    x,\n):  # one more\n    """Add one."""\n    return x + 1\n'
    digest = records.digest(ast.parse(plain))
    assert records.digest(ast.parse(same)) == digest
    assert records.digest(ast.parse(plain.replace("1", "2"))) != digest


def test_a_record_knows_what_of_its_code_has_changed(tmp_path: Path) -> None:
    collect(tmp_path, "bounds", JOBS, row, {"runs": 1000}, "numpy")
    found = json.loads((tmp_path / "bounds.json").read_text("utf8"))
    page_functions("federated/learning", "sigma")
    found["code"] |= records.code()
    assert "hdpm_lib.audits.bounds" in found["code"]
    assert "federated/learning: sigma" in found["code"]
    assert records.changed(found) == []
    for name in ("hdpm_lib.audits.bounds", "federated/learning: sigma"):
        assert records.changed({"code": found["code"] | {name: "of another code"}}) == [name]
    gone = {"hdpm_lib.gone": "a", "federated/gone: sigma": "b", "tests.gone": "c"}
    assert records.changed({"code": gone}) == list(gone)


def test_records_are_found_by_name() -> None:
    for name in ("accuracy", "dm-regretnet", "menus"):
        assert records.recorded(name)["commit"]
    with pytest.raises(LookupError, match="nothing is recorded under the name 'gone'"):
        records.recorded("gone")


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no repository")
def test_the_commit_of_a_record_is_in_the_repository() -> None:
    """Of those with digests: where they were made, or where their first row came out again."""
    seen = 0
    for file in records.STUDIES.glob("*.json"):
        record = json.loads(file.read_text("utf8"))
        if "code" in record:
            seen += 1
            commit = record.get("again", record)["commit"]
            git(ROOT, "merge-base", "--is-ancestor", commit, "HEAD")
    assert seen
    with pytest.raises(subprocess.CalledProcessError):
        git(ROOT, "merge-base", "--is-ancestor", "2cd4832-dirty", "HEAD")


def test_a_first_row_that_comes_out_renews_the_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = {"rows": [row(*JOBS[0]) | {"seconds": 3.0}], "code": {"hdpm_lib.audits.bounds": "old"}}
    monkeypatch.setattr(records, "recorded", lambda name: stored)
    assert again.comes_out("bounds", (JOBS, lambda *job: row(*job) | {"seconds": 4.0}, {}))
    assert not again.comes_out("bounds", (JOBS[1:], lambda *job: row(*job) | {"seconds": 3.0}, {}))
    renewed = again.renewed(stored)
    assert records.changed(stored) and not records.changed(renewed)
    assert set(renewed["again"]) == {"date", "commit"}
    older = again.renewed({"rows": stored["rows"]})  # of a record that has no digests
    assert "hdpm_lib.audits.bounds" in older["code"] and not records.changed(older)


def test_a_page_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(FileNotFoundError, match="what a page shows is run in a checkout"):
        page_functions("federated/nowhere", "sigma")


def test_functions_of_a_page_without_its_experiments() -> None:
    found = page_functions("federated/learning", "sigma", "people")
    assert found["sigma"] == 2.0 and callable(found["people"]) and "np" in found
    assert not {"bids_of", "runs", "markets"} & found.keys()
