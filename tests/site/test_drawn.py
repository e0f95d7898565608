"""Formulas look in Chromium and in Firefox as in the uncut font, and what a cut font lacks is
seen.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import formulas
import pytest

from tests.site import drawn, firefox

CSS = Path(__file__).resolve().parents[2] / "book" / "_static" / "book.css"
NEEDS = {
    "x": "",
    r"\sqrt{d}": "√",
    r"\left(\frac{a}{b}\right)": "tall (",
    r"\hat{x}": "ˆ",
    r"A^{i - 1}": "𝑖",
}


@pytest.fixture(scope="module", params=["chromium", "firefox"])
def page(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "chromium":
        with request.getfixturevalue("browser").new_page() as opened:
            yield opened
        return
    pytest.importorskip(
        "websocket", reason="websocket-client is not installed: no tests in Firefox"
    )
    if (program := next(filter(None, map(shutil.which, ("firefox", "firefox-esr"))), None)) is None:
        pytest.skip("no Firefox is installed: formulas are looked at in Chromium alone")
    with firefox.opened(program) as opened:
        yield opened


def test_formulas_look_as_in_the_whole_font(site: Path, page: Any, tmp_path: Path) -> None:
    there = drawn.of_site(site)
    for name in there:
        assert "_static/formulas.css" in (site / name).read_text(encoding="utf8"), (
            f"{name}: formulas without their font"
        )
    maths = list(dict.fromkeys(math for found in there.values() for math in found))
    styles = [
        drawn.linked((site / "_static" / name).resolve()) for name in ("book.css", "formulas.css")
    ]
    wrong = drawn.differ(page, tmp_path / "sheet.html", maths, *styles)
    lines = [
        f"{name}: {wrong[math]}: {drawn.words(math)}"
        for name, found in there.items()
        for math in found
        if math in wrong
    ]
    assert not lines, "\n".join(
        [f"{len(lines)} formulas of {sum(map(len, there.values()))}", *lines[:40]]
    )


def test_what_a_font_lacks_is_seen(page: Any, tmp_path: Path) -> None:
    maths = {
        formulas.TEX.convert_with_local_state(tex, displaystyle=True): lacks
        for tex, lacks in NEEDS.items()
    }
    font = formulas.font({*"".join(map(drawn.words, maths))})
    for lacks in NEEDS.values():
        face = formulas.face(drawn.without(font, lacks) if lacks else font)
        found = drawn.differ(
            page, tmp_path / "sheet.html", [*maths], drawn.linked(CSS), f"<style>{face}</style>"
        )
        assert {*found} == {math for math in maths if lacks and maths[math] == lacks}
