"""The explorer of markets in a browser: from disk, by keyboard, on a phone, in light and dark, and without scripts.

It is tried on a page of its own with the book's styles, so no site has to be built.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from hdpm_book.beyond import guide
from hdpm_book.ledger import MODE
from tests.site import check

STATIC = Path(__file__).resolve().parents[2] / "book" / "_static"
PAGE = """<!DOCTYPE html>
<html lang="en" data-theme="{theme}"><head><title>Explorer</title><meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<link rel="stylesheet" href="../../_static/book.css"><link rel="stylesheet" href="../../_static/ledger.css">
<style>
html {{ --pst-color-background: #ffffff; --pst-color-primary: #0a7d91; color: #222832 }}
html[data-theme="dark"] {{ --pst-color-background: #14181e; --pst-color-primary: #3fb1c5; color: #ced6dd }}
body {{ background: var(--pst-color-background); margin: 0; padding: 1rem; font-family: sans-serif }}
* {{ box-sizing: border-box }}
</style></head>
<body><main class="bd-content"><h1>Explorer</h1><div class="cell_output">{explorer}</div></main></body></html>
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page lies beside the book's static files, in both themes and with one number changed."""
    root = tmp_path_factory.mktemp("site")
    (root / "book" / "beyond").mkdir(parents=True)
    shutil.copytree(STATIC, root / "_static")
    explorer = guide.Explorer()._repr_html_()
    for theme in ("light", "dark"):
        text = PAGE.format(theme=theme, explorer=explorer)
        (root / "book" / "beyond" / f"{theme}.html").write_text(text, encoding="utf8")
    head, begins, frames = explorer.partition('"frames":[[[0.')
    assert begins
    wrong = f"{head}{begins}{'1' if frames[0] == '9' else '9'}{frames[1:]}"
    (root / "book" / "beyond" / "wrong.html").write_text(PAGE.format(theme="light", explorer=wrong), encoding="utf8")
    return root / "book" / "beyond"


@pytest.fixture
def opened(browser: Any, folder: Path) -> Iterator[Any]:
    """A function that opens a page from disk; on a page error or an error in the console the test fails."""
    contexts, heard = [], []

    def visit(name: str = "light", scripts: bool = True, **options: Any) -> Any:
        contexts.append(browser.new_context(java_script_enabled=scripts, **options))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("console", lambda said: heard.append(said.text) if said.type == "error" else None)
        page.goto((folder / f"{name}.html").as_uri())
        return page

    yield visit
    for context in contexts:
        context.close()
    assert heard == []


CELLS = "rows => rows.map(row => [...row.cells].map(cell => cell.innerText.trim()))"


def table(page: Any) -> pd.DataFrame:
    """What the page shows."""
    head, *body = page.eval_on_selector_all(".hdpm-designs tr", CELLS)
    found = pd.DataFrame(body, columns=head).set_index("design")
    found.index = found.index.str.replace(r"\s+(best|benchmark)$", "", regex=True)
    return found


def expected(**chosen: Any) -> pd.DataFrame:
    return guide.explorer_table(**(guide.DEFAULT | chosen)).rename_axis("design")


def sentence(page: Any) -> str:
    return str(page.inner_text(".hdpm-winner"))


def choose(page: Any, **chosen: Any) -> None:
    """Set controls by the keyboard alone."""
    found = guide.study()
    lists = {"sellers": "sellers", "spread": "spreads", "budget": "budgets", "correlation": "correlations"}
    for name, value in chosen.items():
        if name == "yardstick":
            now = page.locator("[name=yardstick]:checked")
            now.focus()
            if now.get_attribute("value") != value:
                page.keyboard.press("ArrowDown")
            continue
        page.locator(f"[name={name}]").focus()
        page.keyboard.press("Home")
        for _ in range(found[lists[name]].index(value)):
            page.keyboard.press("ArrowRight" if name in ("budget", "correlation") else "ArrowDown")


def test_without_scripts_there_is_the_table_of_one_market(opened: Any) -> None:
    page = opened(scripts=False)
    assert page.is_hidden("form")
    pd.testing.assert_frame_equal(table(page), expected())
    assert sentence(page) == guide.winner(expected())


def test_the_script_begins_with_the_same_table(opened: Any) -> None:
    without, page = opened(scripts=False), opened()
    assert page.is_visible("form")
    assert page.inner_text(".hdpm-designs") == without.inner_text(".hdpm-designs")
    assert sentence(page) == sentence(without)
    bars = "spans => spans.map(span => span.style.width)"
    assert page.eval_on_selector_all(".hdpm-bar", bars) == without.eval_on_selector_all(".hdpm-bar", bars)


MARKETS = [
    {"sellers": 100, "spread": 1.5, "budget": 3},
    {"sellers": 3000, "spread": 20, "budget": 1000},
    {"budget": 300, "correlation": 0.3},
    {"correlation": 1, "sellers": 300, "budget": 30},
    {"yardstick": "worst"},
    {"yardstick": "worst", "sellers": 3000, "budget": 3, "spread": 2},
]


@pytest.mark.parametrize("chosen", MARKETS, ids=str)
def test_every_cell_is_the_librarys(opened: Any, chosen: dict[str, Any]) -> None:
    page = opened()
    choose(page, **chosen)
    pd.testing.assert_frame_equal(table(page), expected(**chosen))
    assert sentence(page) == guide.winner(expected(**chosen))
    assert page.inner_text(".hdpm-designs caption") == guide.caption_of(**(guide.DEFAULT | chosen))


def test_all_frames_at_once(opened: Any) -> None:
    """Every sentence and every first row, without the keyboard."""
    page, found = opened(), guide.study()
    places = itertools.product(*(range(len(found[key])) for key in ("sellers", "spreads", "budgets")), (0, 2, 4, None))
    shown = page.evaluate(
        """places => {
          const form = document.querySelector('form'), at = form.elements;
          return places.map(([n, h, P, r]) => {
            at.sellers.value = n; at.spread.value = h; at.budget.value = P; at.correlation.value = r ?? 0;
            at.yardstick.value = r === null ? 'worst' : 'population';
            form.dispatchEvent(new Event('input'));
            return document.querySelector('.hdpm-winner').textContent;
          });
        }""",
        chosen := list(places),
    )
    for (n, h, P, r), said in zip(chosen, shown, strict=True):
        tied = {"yardstick": "worst"} if r is None else {"correlation": found["correlations"][r]}
        market = {"sellers": found["sellers"][n], "spread": found["spreads"][h], "budget": found["budgets"][P]} | tied
        assert said == guide.winner(expected(**market)), market


def test_a_wrong_number_would_be_seen(opened: Any) -> None:
    page = opened("wrong")
    choose(page, **(market := {"sellers": 100, "spread": 1.5, "budget": 3}))
    assert not table(page).equals(expected(**market))


def test_controls_say_what_they_are(opened: Any) -> None:
    page = opened()
    for name in ("Sellers", "Costs, from 1 up to", "Expected budget", "Correlation of cost and record"):
        assert page.get_by_label(name, exact=True).count() == 1
    choose(page, budget=300, correlation=0.6)
    assert page.get_attribute("[name=budget]", "aria-valuetext") == "300"
    assert page.inner_text("[for=hdpm-correlation] + output") == "0.6"
    choose(page, yardstick="worst")
    assert page.is_disabled("[name=correlation]") and "does not matter" in page.inner_text("#hdpm-hint")
    choose(page, yardstick="population")
    assert page.is_enabled("[name=correlation]")
    assert page.get_attribute(".hdpm-winner", "role") == "status"  # read out when it changes
    assert page.locator("tr.hdpm-best .hdpm-mark").inner_text() == "best"  # not by colour alone


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 375, 1280])
def test_it_reads_on_a_phone_and_in_the_dark(opened: Any, theme: str, width: int) -> None:
    page = opened(theme, viewport={"width": width, "height": 800}, color_scheme=theme, has_touch=width < 1000)
    assert page.evaluate(check.LOOK) == []
    assert page.evaluate(check.WIDTH) == []  # nothing scrolls sideways but the table in its frame
    behind, text = page.evaluate(check.LIGHTNESS)
    assert (behind < text) == (theme == "dark")
    grounds = page.eval_on_selector_all(
        ".hdpm-designs tbody th, .hdpm-market select", "all => all.map(e => getComputedStyle(e).backgroundColor)"
    )
    assert set(grounds) == {"rgb(255, 255, 255)" if theme == "light" else "rgb(20, 24, 30)"}
    if width < 1000:
        heights = page.eval_on_selector_all(
            "select, [type=range], fieldset label", "all => all.map(e => e.getBoundingClientRect().height)"
        )
        assert min(heights) >= 44  # for a finger
        page.get_by_label("worst data").tap()
        assert page.is_disabled("[name=correlation]")


def test_those_who_explore_a_notebook_get_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MODE, "explore")
    text = guide.Explorer()._repr_html_()
    assert "<table" in text and "<script" not in text and "<form" not in text


def test_the_built_page_has_it(site: Path, browser: Any) -> None:
    page = browser.new_page()
    page.goto((site / "book" / "beyond" / "guide.html").as_uri())
    page.wait_for_selector("form.hdpm-market", state="visible")
    choose(page, **(chosen := {"budget": 300, "correlation": 0.3, "sellers": 300}))
    pd.testing.assert_frame_equal(table(page), expected(**chosen))
    page.close()
