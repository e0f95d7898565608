"""A table that is chosen from several, in a browser: from disk, by keyboard, on a phone, and without scripts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from hdpm_book import plots
from tests.site import check

STATIC = Path(__file__).resolve().parents[2] / "book" / "_static"
HEAD = (
    '<!DOCTYPE html><html lang="en" data-theme="light"><head><title>Choice</title><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="book.css">'
    '<link rel="stylesheet" href="ledger.css"><script src="wide.js"></script></head>'
    '<body style="background: #ffffff; color: #222832"><main class="bd-content"><h1>Choice</h1>'
)
WIDE = pd.DataFrame({f"column {k}": ["one", "two"] for k in range(20)})


@pytest.fixture
def address(tmp_path: Path) -> str:
    for name in ("book.css", "ledger.css", "wide.js"):
        shutil.copy(STATIC / name, tmp_path)
    frames: dict[tuple[str, ...], pd.DataFrame]
    frames = {(f"Table {k}", loss): WIDE.add_suffix(f" of {k}{loss}") for k in (1, 2, 3) for loss in ("a", "b")}
    choice = plots.HtmlChoice(frames, ("Table", "Loss"), WIDE, "values.csv")._repr_html_()
    (tmp_path / "page.html").write_text(f"{HEAD}{choice}</main></body></html>", encoding="utf8")
    return (tmp_path / "page.html").as_uri()


def test_the_keyboard_chooses(browser: Any, address: str) -> None:
    page = browser.new_page(viewport=check.SCREENS["phone"])
    page.goto(address)
    assert page.locator("table:visible caption").all_inner_texts() == ["Table 1, a"]
    page.locator("#choice-table").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert page.locator("table:visible caption").all_inner_texts() == ["Table 2, b"]
    assert page.locator("td:visible").count() == 40 and page.locator("summary:visible").count() == 0
    page.set_viewport_size(check.SCREENS["phone"])
    assert page.evaluate(check.WIDTH) == [] and page.evaluate(check.LEGIBLE) == []
    with page.expect_download() as saved:
        page.get_by_text("All values (CSV)").click()
    assert pd.read_csv(saved.value.path()).equals(WIDE) and saved.value.suggested_filename == "values.csv"
    page.close()


def test_without_scripts_every_table_unfolds(browser: Any, address: str) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto(address)
    assert page.locator("select:visible").count() == 0 and page.locator("summary:visible").count() == 6
    page.locator("summary").nth(3).focus()
    page.keyboard.press("Enter")
    assert page.locator("table:visible caption").all_inner_texts() == ["Table 2, b"]
    page.close()
