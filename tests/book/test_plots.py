"""Figures and tables: alt text, captions, colours that read on both pages, and the same bytes in
every run.
"""

from __future__ import annotations

import itertools
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex, to_rgb

from hdpm_book import plots

LOOKS_AT = []


matplotlib.use("agg")
ALT = 'Two curves: "a" < b & both fall'
# the two page backgrounds
LIGHT = "#ffffff"
DARK = "#14181e"


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is displayed, in place of displaying it; figures that pages of other tests left open are
    closed.
    """
    plt.close("all")
    seen: list[Any] = []
    monkeypatch.setattr(plots, "display", seen.append)
    return seen


def draw(shown: list[Any], alt: str = ALT) -> str:
    figure, axes = plots.subplots()
    x = np.linspace(1, 10, 5)
    plots.lines(axes, x, {"a": 1 / x, "b": x}, log="xy", spread={"a": [0.5 / x, 2 / x]})
    axes.legend()  # as a page draws it, outside the style
    axes.set_xlabel("rate")
    axes.set_title("title")
    plots.show(figure, alt)
    return str(shown[-1]._repr_html_())


# --- figures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "  \n", "too short", "spaces" + 30 * " "])
def test_figure_without_alt_text_and_table_without_caption_are_refused(
    text: str, shown: list[Any]
) -> None:
    with pytest.raises(
        ValueError, match="a figure needs alt text that says what it shows, got alt="
    ):
        plots.show(plots.subplots()[0], text)
    if not text.strip():
        with pytest.raises(ValueError, match="a table needs a caption"):
            plots.show_table(PRINTED, text)
    assert shown == []


def test_svg_is_an_image_with_its_alt_text_in_the_colour_of_the_page(shown: list[Any]) -> None:
    svg = draw(shown)
    root = ElementTree.fromstring(svg)
    assert (
        root.get("role") == "img"
        and root.get("aria-label") == ALT
        and root.get("class") == "hdpm-figure"
    )
    assert repr(shown[-1]) == f"[figure] {ALT}"
    assert not plt.get_fignums()  # closed
    assert root.get("width") is None and root.get("height") is None and root.get("viewBox")
    assert "currentColor" in svg and plots._INK not in svg.lower()
    assert not re.findall(r"#0{6}\b|#000\b", svg)  # which does not read on the dark page
    texts = {"".join(node.itertext()).strip() for node in root.iter() if node.tag.endswith("}text")}
    assert {"rate", "title", "a", "b"} <= texts  # text stays text
    assert "<metadata>" not in svg and "<?xml" not in svg and "<!DOCTYPE" not in svg


def test_what_is_said_of_a_figure_holds_or_is_refused(
    shown: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw_saying(**says: Any) -> None:
        plots.show(plots.subplots()[0], ALT, says)

    draw_saying(**{"both fall": np.bool_(True)})
    assert shown.pop()._repr_html_().endswith("</svg>\n")
    with pytest.raises(AssertionError, match="said of the figure, and not so: both fall; a < b"):
        draw_saying(**{"both fall": False, "they cross": True, "a < b": np.bool_(False)})
    with pytest.raises(TypeError, match="says must give True or False for 'both fall', got 1"):
        draw_saying(**{"both fall": 1})
    assert shown == []
    monkeypatch.setenv("HDPM_MODE", "explore")
    draw_saying(**{"both fall": False, "a < b": False, "they cross": True})
    below = BeautifulSoup(shown.pop()._repr_html_(), "html.parser").find_all("p")
    assert [line.text for line in below] == [
        f"Not so with these numbers: {words}" for words in ("both fall", "a < b")
    ]


@pytest.mark.parametrize("source", ["stand-in", ["real", "stand-in"]])
def test_what_is_said_of_real_data_is_not_asked_of_a_stand_in(
    source: str | list[str], shown: list[Any]
) -> None:
    says = {"both fall": False, "they cross": True}
    plots.show(plots.subplots()[0], ALT, says, source)
    below = BeautifulSoup(shown.pop()._repr_html_(), "html.parser").find_all("p")
    assert [line.text for line in below] == ["Not so with these numbers: both fall"]
    for real in ("real", ["real", "real"]):
        with pytest.raises(AssertionError, match="said of the figure, and not so: both fall"):
            plots.show(plots.subplots()[0], ALT, says, real)
    assert shown == []


def test_svg_is_the_same_in_every_run(shown: list[Any]) -> None:
    assert draw(shown) == draw(shown)
    code = (
        "from tests.book.test_plots import draw, plots; seen = []; plots.display = seen.append;"
        " print(draw(seen))"
    )
    root = Path(__file__).resolve().parents[2]
    assert (
        subprocess.check_output([sys.executable, "-c", code], text=True, cwd=root)
        == f"{draw(shown)}\n"
    )


def test_ids_differ_between_figures(shown: list[Any]) -> None:
    """Two figures live on one page: what one refers to must not be the other's."""

    def ids(svg: str) -> set[str]:
        return {i for i in re.findall(r'id="([^"]+)"', svg) if f"#{i}" in svg}

    first = ids(draw(shown))
    second = ids(draw(shown, "Quite another description of it."))
    assert first and second and not first & second


def test_curves_differ_in_colour_line_and_marker_and_panels_are_stacked() -> None:
    for key in ("color", "linestyle", "marker"):
        assert len({str(style[key]) for style in plots.STYLES}) == len(plots.STYLES)
    _, axes = plots.subplots()
    plots.lines(axes, [1, 2], {str(k): [k, k] for k in range(5)}, log="y")
    found = [(to_hex(line.get_color()).upper(), line.get_marker()) for line in axes.lines]
    assert found == [(style["color"], style["marker"]) for style in plots.STYLES]
    assert axes.get_yscale() == "log" and axes.get_xscale() == "linear"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list("01234")
    with pytest.raises(ValueError, match="curves has 6 entries, and there are 5 styles"):
        plots.lines(axes, [1, 2], {str(k): [k, k] for k in range(6)})
    figure, panels = plots.subplots(3)  # stacked
    assert panels.shape == (3,) and figure.get_size_inches()[0] < 6 < figure.get_size_inches()[1]
    plt.close("all")


# of curves, title of their legend, panels; and how far names are moved
ENDS: list[tuple[Any, str, int, Any]] = [
    ([1.0, 2.0, 3.0], "", 1, [0, 0, 0]),
    ([1.0, 1.1, 3.0], "", 1, [-2, 2, 0]),
    ([1.0, 1.0, 3.0], "", 1, None),
    ([1.0, math.nan, 3.0], "", 1, None),
    ([1.0, 2.0, 4.0], "", 1, None),  # above the panel
    ([1.0, 2.0, 3.0], "seller", 1, None),
    ([1.0, 2.0, 3.0], "", 2, None),  # the second relies on the legend of the first
]


@pytest.mark.parametrize(("ends", "title", "panels", "moved"), ENDS)
def test_names_stand_at_the_ends_of_curves_if_there_is_room(
    ends: Any, title: str, panels: int, moved: Any
) -> None:
    figure, axes = plots.subplots(panels)
    first, *others = np.ravel(axes)
    for panel in (first, *others):
        plots.lines(panel, [0, 1], {str(k): [0, end] for k, end in enumerate(ends)})
    first.legend(title=title)
    first.set_ylim(-0.15, 3.15)
    for panel in others:
        panel.get_legend().remove()
    plots.inline(figure, ALT)
    assert [round(text.get_position()[1]) for text in first.texts] == (moved or [])
    assert [float(text.xy[1]) for text in first.texts] == (pytest.approx(ends) if moved else [])
    assert (first.get_legend() is None) == bool(moved)


def contrast(one: str, other: str) -> float:
    """Contrast ratio of WCAG 2."""

    def luminance(colour: str) -> float:
        linear = [
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        # matplotlib's own: at 2, 3, 4, 6, which touch
        (0.0126, 0.25, ["2e-2", "5e-2", "1e-1", "2e-1"]),
        (0.1, 1000, ["1e-1", "1e0", "1e1", "1e2", "1e3"]),
    ],
)
@pytest.mark.parametrize("axis", ["x", "y"])
def test_labels_of_a_logarithmic_axis_have_room(
    axis: str, low: float, high: float, labels: list[str]
) -> None:
    figure, (axes, _) = plots.subplots(2)
    numbers = np.geomspace(low, high, 50)
    x, y = (numbers, np.arange(50)) if axis == "x" else (np.arange(50), numbers)
    plots.lines(axes, x, {"a": y}, log=axis)
    plots.inline(figure, ALT)
    place, (below, above) = getattr(axes, f"{axis}axis"), sorted(numbers[[0, -1]])
    drawn = {
        tick.get_loc(): tick.label1 for tick in [*place.get_major_ticks(), *place.get_minor_ticks()]
    }
    seen = {
        at: text
        for at, text in sorted(drawn.items())
        if below <= at <= above * 1.001 and text.get_text()
    }
    assert [f"{at:.0e}".replace("e+0", "e").replace("e-0", "e-") for at in seen] == labels
    boxes = [text.get_window_extent() for text in seen.values()]
    gaps = [b.x0 - a.x1 if axis == "x" else b.y0 - a.y1 for a, b in itertools.pairwise(boxes)]
    assert min(gaps) > boxes[0].height / 3


@pytest.mark.parametrize("style", plots.STYLES, ids=lambda style: style["color"])
@pytest.mark.parametrize("page", [LIGHT, DARK])
def test_colours_stand_out_from_both_pages(style: dict[str, Any], page: str) -> None:
    assert contrast(style["color"], page) >= 3


# --- tables -------------------------------------------------------------------------------------

PRINTED = pd.DataFrame(
    {"a": [1.0, 200.0], "b": [3e-5, 4.0]}, index=pd.Index([0.1, 0.5], name="lambda")
)


def test_table_has_a_caption_and_scrolls_by_keyboard(shown: list[Any]) -> None:
    plots.show_table(PRINTED.map(str), 'Losses < 1 & "more"')
    page = BeautifulSoup(shown[0]._repr_html_(), "html.parser")
    frame = page.div
    assert frame is not None and frame["role"] == "region" and frame["tabindex"] == "0"
    assert frame["aria-label"] == page.caption.text == 'Losses < 1 & "more"'
    assert [cell.text for cell in page.select("tbody tr:nth-of-type(2) td")] == ["200.0", "4.0"]
    assert repr(shown[0]).startswith('Losses < 1 & "more"\n') and "200.0" in repr(shown[0])


def test_no_head_of_a_table_is_empty(shown: list[Any]) -> None:
    """The name of the index stands above it, in the row of the columns; without a name nothing is a
    head.
    """
    wide = PRINTED.set_axis(pd.MultiIndex.from_product([["loss"], ["least", "most"]]), axis=1)
    heads = []
    for frame in (PRINTED, PRINTED.rename_axis(None), PRINTED.set_index("a", append=True), wide):
        plots.show_table(frame, "Losses")
        page = BeautifulSoup(shown[-1]._repr_html_(), "html.parser")
        assert all(head.text.strip() for head in page.select("th"))
        heads.append(
            [[cell.text for cell in row.select("th, td")] for row in page.select("thead tr")]
        )
    named = [["", "loss"], ["lambda", "least", "most"]]
    assert heads == [[["lambda", "a", "b"]], [["", "a", "b"]], [["lambda", "a", "b"]], named]
