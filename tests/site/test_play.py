"""The explorers: their scripts say what the library says, and one can play with them; and a choice
among tables.

Each is tried from disk, on a page of its own with the book's styles, so no site has to be built.
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from hdpm_book import plots
from hdpm_book.notebook import MODE
from hdpm_book.play.explorers import EXPLORERS
from hdpm_book.play.forms import Choice, Explorer, Slider, digits
from hdpm_lib import Task, compare_markets
from tests.site import check

STATIC = Path(__file__).resolve().parents[2] / "book" / "_static"
PAGE = """<!DOCTYPE html>
<html lang="en" data-theme="light"><head><title>Play</title><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><script src="{up}_static/wide.js"></script>
<link rel="stylesheet" href="{up}_static/book.css"><link rel="stylesheet" href="{up}_static/ledger.css">
<style>* {{ box-sizing: border-box }} body {{ background: #ffffff; color: #222832 }}</style></head>
<body><main class="bd-content"><h1>Play</h1><div class="cell_output">{played}</div></main></body></html>
"""

NAMES = sorted(EXPLORERS)
SCRIPTED = [name for name in NAMES if EXPLORERS[name].script]
PLAYED = {
    name: field
    for name in NAMES
    for field in EXPLORERS[name].fields
    if isinstance(field, Slider) and field.play
}
SETTINGS = 500  # of each script, compared with the library
# what the library finds without a search or a quadrature: most of the settings
QUICK = {"goal": "error", "law": "1"}


# --- the scripts say what the library says ------------------------------------------------------


def setting(one: Explorer, rng: np.random.Generator) -> dict[str, str]:
    """Random values of a form, as its script reads them."""
    chosen = {}
    for field in one.fields:
        if isinstance(field, Choice | Slider):
            chosen[field.name] = str(rng.choice(field.values()))
        elif field.keys != "text":
            chosen[field.name] = f"{np.exp(rng.uniform(np.log(3), np.log(1000))):.0f}"
        else:
            sellers = rng.uniform(0.1, 50, rng.integers(2, 9)).round(2)
            chosen[field.name] = ", ".join(f"{v:g}" for v in sellers)
    for name, quick in QUICK.items():
        if name in chosen and rng.random() < 0.8:
            chosen[name] = quick
    return chosen


def loaded(browser: Any, right: str = "", wrong: str = "") -> Any:
    """A page with all scripts, and in them one text for another."""
    page = browser.new_page()
    scripts = sorted({EXPLORERS[name].script for name in SCRIPTED})
    for name in ("explore", *(f"explore-{script}" for script in scripts)):
        text = (STATIC / f"{name}.js").read_text(encoding="utf8")
        page.add_script_tag(content=text.replace(right, wrong) if right else text)
    return page


@pytest.fixture(scope="module")
def scripts(browser: Any) -> Any:
    return loaded(browser)


SAY = """([name, states, data]) => states.map(state => {
  const { sentence, caption, rows } = hdpm.explorers[name](state, data);
  return [sentence, caption, ...rows.flatMap(([head, ...numbers]) => [head, ...numbers.map(x => hdpm.digits(x))])];
})"""


def differences(scripts: Any, name: str, count: int, seed: int) -> list[str]:
    """What script and library say differently, if it is more than a last digit in one of 1,000
    cells: a tie.
    """
    one = EXPLORERS[name]
    rng = np.random.default_rng(seed)
    states = [setting(one, rng) for _ in range(count)]
    found = list[str]()
    ties = list[str]()
    cells = 0
    for state, said in zip(states, scripts.evaluate(SAY, [name, states, one.data()]), strict=True):
        expected = one.find(**state)
        cells += len(said)
        for a, b in zip(
            said, [expected.sentence, expected.caption, *chain(*expected.rows)], strict=True
        ):
            if a != b:
                (ties if last_digit(a, b) else found).append(f"{state}: {a} is not {b}")
    return found if len(ties) <= cells / 1000 else found + ties


def last_digit(a: str, b: str) -> bool:
    """Whether two cells are numbers that differ by one in the third digit."""
    try:
        return abs(float(a) - float(b)) <= 1.01 * 10.0 ** (
            math.floor(math.log10(abs(float(b)))) - 2
        )
    except ValueError:
        return False


@pytest.mark.parametrize("name", SCRIPTED)
def test_equal_to_the_library(scripts: Any, name: str) -> None:
    found = differences(scripts, name, SETTINGS, 1)
    assert not found, found[:3]


def test_a_wrong_formula_is_found(browser: Any) -> None:
    assert differences(loaded(browser, "3 * rate ** 2", "3.01 * rate ** 2"), "ridge", 5, 1)


def test_digits_are_those_of_the_library(scripts: Any) -> None:
    rng = np.random.default_rng(2)
    ties = [0.0, 0.125, 1.125, 99.95, 999.5, 1e6, 1e-4]
    numbers = [*(10 ** rng.uniform(-9, 9, 2000) * rng.choice([-1, 1], 2000)), *ties]
    assert scripts.evaluate("numbers => numbers.map(x => hdpm.digits(x))", numbers) == [
        digits(x) for x in numbers
    ]


# --- in a browser -------------------------------------------------------------------------------

WIDE = pd.DataFrame({f"column {k}": ["one", "two"] for k in range(20)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page for each explorer and one with tables to choose from, beside the book's static
    files.
    """
    root = tmp_path_factory.mktemp("site")
    shutil.copytree(STATIC, root / "_static")
    for name, one in EXPLORERS.items():
        place = root.joinpath(*["folder"] * one.depth)
        place.mkdir(parents=True, exist_ok=True)
        text = PAGE.format(played=one._repr_html_(), up="../" * one.depth)
        (place / f"{name}.html").write_text(text, encoding="utf8")
    frames = {
        (f"Table {k}", loss): WIDE.add_suffix(f" of {k}{loss}")
        for k in (1, 2, 3)
        for loss in ("a", "b")
    }
    heard: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "display", heard.append)
        plots.choose(frames, ("Table", "Loss"), WIDE, "values.csv")
    choice = heard[0]._repr_html_()
    (root / "choice.html").write_text(PAGE.format(played=choice, up=""), encoding="utf8")
    return root


@pytest.fixture
def opened(browser: Any, folder: Path) -> Iterator[Any]:
    """A function that opens a page of the folder; on an error of the page the test fails."""
    contexts = []
    heard = []

    def visit(name: str, query: str = "", **options: Any) -> Any:
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("console", lambda said: heard.append(said.text) if said.type == "error" else None)
        (file,) = folder.rglob(f"{name}.html")
        page.goto(file.as_uri() + query)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert heard == []


def shown(page: Any) -> list[Any]:
    """Sentence, and caption and rows if there is a table."""
    rows = "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    table = page.eval_on_selector_all("tbody tr", rows)
    return [*page.locator(".hdpm-winner, caption").all_text_contents(), *map(tuple, table)]


def said(name: str, **changed: str) -> list[Any]:
    """What the library says of the setting at the start, but for what is changed."""
    found = EXPLORERS[name].find(**(EXPLORERS[name].opening() | changed))
    return [found.sentence, *([found.caption] if EXPLORERS[name].columns else []), *found.rows]


MOVES = {  # by keyboard: a control, a key, and what the form then says
    "ridge": ("penalty", "End", {"penalty": "100"}),
    "contracts": ("goal", "ArrowDown", {"goal": "money"}),
    "logistic": ("gamma", "ArrowRight", {"gamma": "0.316"}),
    "auction": ("rule", "ArrowDown", {"rule": "repaired"}),
    "lie": ("said", "Home", {"said": "20"}),
    "privacy": ("bug", "Home", {"bug": "none"}),
    "survey": ("costs", "ArrowDown", {"costs": "groups"}),
    "coins": ("students", "ArrowLeft", {"students": "59"}),
    "noisy": ("draws", "ArrowRight", {"draws": "2"}),
    "arrivals": ("sellers", "ArrowLeft", {"sellers": "59"}),
    "valley": ("record", "ArrowRight", {"record": "-0.9"}),
    "covered": ("said", "ArrowLeft", {"said": "70"}),
}


@pytest.mark.parametrize("name", NAMES)
def test_it_opens_on_any_screen_and_moves_by_keyboard(
    opened: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what the library says, also without scripts; and a setting can be cited."""
    without = opened(name, java_script_enabled=False)
    page = opened(name)
    assert without.is_hidden("form") and page.is_visible("form")
    assert shown(without) == shown(page) == said(name)
    assert page.is_visible("svg.hdpm-figure[aria-label]")
    assert page.eval_on_selector_all(
        ".hdpm-figure path", "paths => paths.every(p => p.getAttribute('d').length > 20)"
    )
    if name in ("auction", "lie"):
        assert page.text_content(".hdpm-truth + text") == "truth"
        # a jump is no slope: the pen is lifted
        drawn = page.locator(".hdpm-drawn path.hdpm-curve-1[d*=L]").get_attribute("d")
        assert drawn.count("M") == (2 if name == "lie" else 1)
        assert (
            page.locator(".hdpm-drawn circle").count()
            == page.locator(".hdpm-drawn path.hdpm-curve").count() / 2
        )
    page.set_viewport_size({"width": 320, "height": 800})
    assert page.evaluate(check.WIDTH) == []
    (field, key, changed), before = MOVES[name], page.inner_html(".hdpm-drawn")
    page.locator(f"[name={field}]").focus()
    page.keyboard.press(key)
    assert shown(page) == said(name, **changed) != said(name)
    # its figure has all four auctions
    assert (page.inner_html(".hdpm-drawn") != before) == (name != "auction")
    (state,) = parse_qs(urlsplit(page.url).query)[f"explore-{name}"]
    assert parse_qs(state)[field]
    assert shown(opened(name, query="?" + urlsplit(page.url).query)) == shown(page)
    monkeypatch.setenv(MODE, "explore")
    assert "<form" not in EXPLORERS[name]._repr_html_() and said(name)[0].split(":")[0] in repr(
        EXPLORERS[name]
    )


@pytest.mark.parametrize("name", [name for name in NAMES if EXPLORERS[name].presets])
def test_a_button_tries_what_it_says(opened: Any, name: str) -> None:
    one = EXPLORERS[name]
    page = opened(name)
    fields = {field.name: field for field in one.fields}
    for words, query in one.presets.items():
        changed = {key: value for key, (value,) in parse_qs(query).items()}
        for key, value in changed.items():
            if isinstance(field := fields[key], Slider):
                changed[key] = field.value(float(value))
            assert not isinstance(field, Choice | Slider) or changed[key] in field.values()
        page.get_by_role("button", name=words, exact=True).click()
        assert shown(page) == said(name, **changed)
        for field in one.fields:
            given, _, needed = field.when.partition("=")
            told = (one.opening() | changed).get(given, needed)
            assert page.is_visible(f"[name={field.name}]") == (told == needed)


@pytest.mark.parametrize("name", PLAYED)
def test_what_is_watched_plays_stops_and_jumps_where_motion_is_unwanted(
    opened: Any, name: str
) -> None:
    slider = f"[name={PLAYED[name].name}]"
    first, last = (f"{end:g}" for end in PLAYED[name].ends)
    page = opened(name)
    page.locator(slider).press("Home")
    page.locator(".hdpm-play").focus()
    page.keyboard.press("Enter")
    assert page.text_content(".hdpm-play") == "Stop"
    page.wait_for_function(f"document.querySelector('{slider}').value !== '{first}'")
    page.keyboard.press("Enter")
    there = page.input_value(slider)
    assert page.text_content(".hdpm-play") == "Play" and first != there != last
    page.wait_for_timeout(300)
    assert page.input_value(slider) == there
    assert shown(page) == said(name, **{PLAYED[name].name: there})
    still = opened(name, reduced_motion="reduce")
    still.locator(slider).press("Home")
    still.locator(".hdpm-play").click()
    assert still.input_value(slider) == last and still.text_content(".hdpm-play") == "Play"
    assert shown(still) == said(name, **{PLAYED[name].name: last})


@pytest.mark.parametrize(("name", "asked"), [("coins", "20"), ("noisy", "10"), ("arrivals", "3")])
def test_as_many_dots_as_the_slider_says(opened: Any, name: str, asked: str) -> None:
    page = opened(name, query=f"?explore-{name}={quote(f'{PLAYED[name].name}={asked}')}")
    assert page.locator("svg.hdpm-figure circle").count() == int(asked)


# --- the calculator -----------------------------------------------------------------------------


def test_the_calculator_agrees_with_the_recipe() -> None:
    """Its people have the quantiles of the law for costs; the recipe's design is tuned to forty
    draws of them.
    """
    design = "hard budget, All-in repaired"
    for people, money in ((200, 30), (200, 100), (200, 600), (1000, 150), (1000, 3000)):
        told = re.findall(
            r"\d+\.\d+(?= would| on a)", said("survey", people=str(people), money=str(money))[0]
        )
        plan = compare_markets(
            stats.uniform(1, 4), Task(), money, sellers=people, designs=[design]
        ).loc[design]
        shrunk = 1 / np.sqrt(float(told[1]) ** -2 + 12)  # the plan's release is shrunk
        np.testing.assert_allclose(
            [float(told[0]), shrunk], plan[["largest_epsilon", "error"]], rtol=0.04
        )


def test_an_address_says_what_differs_and_is_in_use(opened: Any) -> None:
    page = opened("survey")
    page.fill("[name=money]", "70")
    page.press("[name=money]", "Tab")
    assert urlsplit(page.url).query == "explore-survey=money%3D70"
    page.select_option("[name=costs]", "pasted")
    page.fill("[name=pasted]", "1.5, 2&3 1e+1")
    page.press("[name=pasted]", "Tab")
    query = urlsplit(page.url).query
    (state,) = parse_qs(query)["explore-survey"]
    assert state == "money=70&costs=pasted&pasted=1.5, 2%263 1e%2B1"
    again = opened("survey", query=f"?{query}")
    assert again.input_value("[name=pasted]") == "1.5, 2&3 1e+1"
    page.select_option("[name=costs]", "even")
    assert urlsplit(page.url).query == "explore-survey=money%3D70"


def test_what_cannot_be_planned_or_sold_is_refused_in_words(opened: Any) -> None:
    for changed in (
        {"money": "none"},
        {"people": "1.5"},
        {"people": "1"},
        {"costs": "pasted", "pasted": "2, 2, 2"},
    ):
        page = opened("survey", query=f"?explore-survey={quote(urlencode(changed))}")
        assert page.text_content(".hdpm-winner").startswith(("Give", "Paste")) and page.is_hidden(
            "table"
        )
    page = opened("contracts")
    page.fill("[name=valuations]", "1, two")
    assert (
        page.text_content(".hdpm-winner")
        == "Give 2 to 12 valuations, each above 0 and at most 1000."
    )
    assert page.is_hidden("table")
    page.fill("[name=valuations]", "1 2 3")
    assert page.is_visible("table") and shown(page) == said("contracts", valuations="1 2 3")


@pytest.mark.parametrize("name", NAMES)
def test_each_axis_has_numbers_or_names(opened: Any, name: str) -> None:
    """Also one that spans a small part of a decade."""
    states = ["", *(["money=100000&people=2000&costs=log"] if name == "survey" else [])]
    for state in states:
        page = opened(name, query=f"?explore-{name}={quote(state)}" if state else "")
        for side in ("end", "middle"):  # of the axis that stands, and of the one that lies
            labels = page.locator(f"svg.hdpm-figure > text[text-anchor={side}]").all_text_contents()
            if side == "end":
                assert len([label for label in labels if math.isfinite(float(label))]) >= 2
            else:
                assert len(labels) - 2 >= 2  # without the names of the axes


def test_an_address_with_nonsense_opens_the_page_all_the_same(opened: Any) -> None:
    page = opened("auction", query="?explore-auction=budget%3D1e9%26rule%3Dnone%26nothing%3D1")
    assert page.is_visible("table")
    assert page.locator("[name=rule]").input_value() in EXPLORERS["auction"].fields[0].options


# --- a table that is chosen from several --------------------------------------------------------


def test_the_keyboard_chooses_a_table(opened: Any) -> None:
    page = opened("choice", viewport=check.SCREENS["phone"])
    assert page.locator("table:visible caption").all_inner_texts() == ["Table 1, a"]
    page.locator("#choice-table").focus()
    for key in ("ArrowDown", "Tab", "ArrowDown"):
        page.keyboard.press(key)
    assert page.locator("table:visible caption").all_inner_texts() == ["Table 2, b"]
    assert (
        page.locator("tbody td:visible").count() == 40
        and page.locator("summary:visible").count() == 0
    )
    assert page.evaluate(check.WIDTH) == [] and page.evaluate(check.LEGIBLE) == []
    with page.expect_download() as saved:
        page.get_by_text("All values (CSV)").click()
    assert (
        pd.read_csv(saved.value.path()).equals(WIDE)
        and saved.value.suggested_filename == "values.csv"
    )


def test_without_scripts_every_table_unfolds(opened: Any) -> None:
    page = opened("choice", java_script_enabled=False)
    assert (
        page.locator("select:visible").count() == 0 and page.locator("summary:visible").count() == 6
    )
    page.locator("summary").nth(3).focus()
    page.keyboard.press("Enter")
    assert page.locator("table:visible caption").all_inner_texts() == ["Table 2, b"]
