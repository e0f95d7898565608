"""Readers change numbers, laws and names, one at a time, and no page ends in an error: a sample,
and all by night.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import execution
import pytest

from tests.book.dataflow import BOOK
from tests.book.readers import Change, all_changes, attempt

LOOKS_AT = ["_toc.yml", "book"]
SAMPLE = 8
SEED = 1
PAGES = [
    path.relative_to(BOOK).with_suffix("").as_posix()
    for path in execution.pages()
    if execution.is_chapter(path)
]
CHANGES = [change for page in PAGES for change in all_changes(page)]
if not os.environ.get("HDPM_NIGHTLY"):
    CHANGES = random.Random(SEED).sample(CHANGES, SAMPLE)


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_page_takes_what_its_reader_changes(change: Change) -> None:
    assert attempt(change).wrong == ""


HEAD = "---\njupytext:\n  text_representation: {extension: .md, format_name: myst}\n"
HEAD += "kernelspec: {display_name: Python 3, language: python, name: python3}\n---\n# A page\n"
SMALL_PAGE = """
import numpy as np
from hdpm_book.ledger import decide
from hdpm_book.notebook import require
draws, other = 10, 3
require(draws > 1, f"draws must be 2 or more, got {draws}")
"""


def page_with(folder: Path, *cells: str) -> str:
    text = HEAD + "".join(
        f"\n```{{code-cell}} ipython3\n{cell.strip()}\n```\n" for cell in (SMALL_PAGE, *cells)
    )
    (folder / "page.md").write_text(text, encoding="utf8")
    return str(folder / "page")


def wrong(page: str, now: str) -> str:
    (change,) = [
        change for change in all_changes(page) if (change.name, change.now) == ("draws", now)
    ]
    return attempt(change, seconds=5).wrong


def test_what_may_be_changed(tmp_path: Path) -> None:
    page = page_with(
        tmp_path,
        "grid = np.array([0.5, 1.0])\nrng = np.random.default_rng(7)",
        "def f(size, axis): return size\n\n\nx = f(4, axis=0)",
        'laws = {"flat": 2.0, "size": 3.0}\ncolumns = ["of", "a", "table"]\ny = np.sqrt(draws + 1)',
        ":tags: [hide-input]\nhidden = 5",
    )
    found = {(change.name, change.was, change.now) for change in all_changes(page)}
    assert {name for name, *_ in found} == {"draws", "other", "grid", "seed", "size", "laws"}
    assert {now for name, was, now in found if name == "draws"} == {"5", "20", "11", "9"}
    # 0.5 is there already
    assert {now for name, was, now in found if (name, was) == ("grid", "1.0")} == {"2.0"}
    assert ("seed", "7", "8") in found and ("laws", "'flat'", "'flat, renamed'") in found
    assert "'size'" not in {was for _, was, _ in found}  # an argument of f


@pytest.mark.parametrize(
    ("cell", "complaint"),
    [
        ("np.ones(draws)[9]", "IndexError"),
        ("np.log(draws - 10) + np.log(draws - 9.5)", "RuntimeWarning"),
        ("print(float('nan') if draws < 10 else draws)", "NaN is shown"),
        ('decide("pdp-thm21", "few draws", printed=draws > 9)', "pdp-thm21 is refuted"),
        ('require(draws > 9, "choose more")', "Impossible: choose more"),
        ("while draws == 9: pass", "not done within"),
    ],
)
def test_what_a_reader_must_not_meet_is_found(cell: str, complaint: str, tmp_path: Path) -> None:
    assert complaint in wrong(page_with(tmp_path, cell), "9")


@pytest.mark.parametrize(
    "cell",
    [
        "require(draws > 9, f'draws must be 10 or more, got {draws}')",
        'decide("pdp-thm21", "few draws", reading=draws > 9)',
        'decide("pdp-thm21", "few draws", printed=draws > 9, enough=draws > 9)',
        "rows = np.ones(other)\nprint(rows, draws)",
        "import hdpm_lib\nif draws == 9:\n    hdpm_lib.least_error_weights([-9.0], sizes=[1])",
    ],
)
def test_what_a_reader_may_meet(cell: str, tmp_path: Path) -> None:
    assert wrong(page_with(tmp_path, cell), "9") == ""


def test_only_what_rests_on_the_change_runs(tmp_path: Path) -> None:
    assert wrong(page_with(tmp_path, "np.ones(other)[9]", "print(draws)"), "9") == ""
    assert "IndexError" in wrong(
        page_with(tmp_path, "many = np.ones(other)[9]", "print(draws + many)"), "9"
    )
    loop = "many = {}\nfor i in range(2):\n    many |= {i: draws}"
    assert wrong(page_with(tmp_path, loop, "print(many[0])"), "9") == ""
    assert "IndexError" in wrong(page_with(tmp_path, loop, "np.ones(10)[many[0]:][0]"), "11")
