"""One style for every figure and table of the book.

Figures are inline SVG whose axes and text take the colour of the page, so they read in light and
dark mode and at phone width; line style and marker repeat what colour says. A figure without alt
text is refused, and so is one of whose words one is false: what a caption or an alt text asserts is
computed from what is drawn.
"""

from __future__ import annotations

import hashlib
import html
import io
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
from scipy import optimize

from hdpm_book.notebook import display, exploring
from hdpm_lib.validation import extra

with extra("book"):
    import matplotlib
    from matplotlib import pyplot as plt
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis, YAxis
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullFormatter

# Okabe-Ito colours with a contrast of at least 3 to both page backgrounds; the style is the second
# channel.
STYLES: tuple[dict[str, Any], ...] = (
    {"color": "#2387C9", "linestyle": "-", "marker": "o"},
    {"color": "#D55E00", "linestyle": "--", "marker": "s"},
    {"color": "#009E73", "linestyle": "-.", "marker": "^"},
    {"color": "#CC79A7", "linestyle": ":", "marker": "D"},
    {"color": "#808080", "linestyle": (0, (5, 1, 1, 1, 1, 1)), "marker": "v"},
)
CROWDED = 40  # points of a curve, beyond which not each has a marker
_INK = "#123456"  # replaced by the colour of the page's text
_RC: Any = {
    "figure.figsize": (5.2, 3.4),
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.facecolor": "none",
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.titlesize": 11,
    "axes.titlecolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#808080",
    "grid.alpha": 0.25,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "font.size": 11,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "svg.fonttype": "none",
    "font.family": "sans-serif",
}


def style() -> AbstractContextManager[None]:
    """Return the book's style, for a figure that something else draws: ``with style(): figure =
    comparison.plot()``.
    """
    context: AbstractContextManager[None] = plt.rc_context(_RC)
    return context


def subplots(rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """Return ``matplotlib.pyplot.subplots`` in the book's style; panels are stacked so that they
    read on a phone.

    Parameters
    ----------
    rows, columns : int
    **options
        For ``matplotlib.pyplot.subplots``.

    Returns
    -------
    tuple
        The figure, and an axes or an array of axes.
    """
    with plt.rc_context(_RC):
        options.setdefault("figsize", (5.2, 0.4 + 2.9 * rows))
        options.setdefault("layout", "constrained")
        figure, axes = plt.subplots(rows, columns, **options)
    return figure, axes


def lines(
    axes: Axes,
    x: Any,
    curves: dict[str, Any],
    *,
    log: str = "",
    spread: dict[str, Any] | None = None,
) -> None:
    """Draw named curves with distinct styles, and bands around them.

    Where curves have many points, only some of these have a marker, at equal distances along the
    curve.

    Parameters
    ----------
    axes : matplotlib Axes
    x : array of shape (n,)
    curves : dict of arrays of shape (n,)
        Keys name the legend entries; one curve has none, its axis names it.
    log : str
        Axes on a logarithmic scale: ``""``, ``"x"``, ``"y"`` or ``"xy"``.
    spread : dict, optional
        For some of the curves an array of shape (2, n): lower and upper end of a band.

    Raises
    ------
    ValueError
        For more curves than there are styles.
    """
    if len(curves) > len(STYLES):
        raise ValueError(
            f"curves has {len(curves)} entries, and there are {len(STYLES)} styles to tell them"
            " apart"
        )
    many = np.size(x) > CROWDED
    with plt.rc_context(_RC):
        for style, (name, y) in zip(STYLES, curves.items(), strict=False):
            axes.plot(x, y, label=name, markevery=0.08 if many else None, **style)
            if spread and name in spread:
                axes.fill_between(
                    x, *np.asarray(spread[name]), color=style["color"], alpha=0.2, linewidth=0
                )
        if "x" in log:
            axes.set_xscale("log")
        if "y" in log:
            axes.set_yscale("log")
        if len(curves) > 1:
            axes.legend()


def _name_ends(axes: Axes, legend: Legend) -> None:
    """Write the names of curves at their right ends in place of the legend, if there is room beside
    each for its own.

    Names that would touch are moved apart, by a third of a line at most, in the order of the ends.
    """
    names, texts = zip(
        *((text.get_text(), text.get_window_extent()) for text in legend.get_texts()), strict=True
    )
    found = {str(line.get_label()): line for line in axes.lines if line.get_linestyle() != "None"}
    points = [
        found[name].get_transform().transform(found[name].get_xydata())
        for name in names
        if name in found
    ]
    ends = [xy[np.isfinite(xy).all(1)][-1] for xy in points if np.isfinite(xy).all(1).any()]
    if len(ends) < len(names) or legend.get_title().get_text():
        return
    x, y = np.transpose(ends)
    box = axes.get_window_extent()
    height = max(text.height for text in texts)
    order = np.argsort(y, kind="stable")
    line = height * np.arange(len(names))
    apart = optimize.isotonic_regression(y[order] - line).x + line
    inside = (
        box.x1 - box.width / 10 < x.min()
        and x.max() < box.x1 + 1
        and box.y0 <= y.min()
        and y.max() <= box.y1
    )
    near = (
        np.abs(apart - y[order]).max() < height / 3
        and max(text.width for text in texts) < box.width / 3
    )
    if inside and near:
        legend.remove()
        for k, up in zip(order, (apart - y[order]) * 72 / axes.figure.dpi, strict=True):
            place = tuple(axes.transData.inverted().transform((x[k], y[k])))
            size = _RC["legend.fontsize"]
            name = axes.annotate(
                names[k], place, (6, up), textcoords="offset points", va="center", fontsize=size
            )
            name.set_annotation_clip(False)  # an end may lie on the edge


def _room(axis: Axis) -> None:
    """Keep those labels of a logarithmic axis for which there is room: at 1, 2 and 5, or at powers
    of ten.
    """
    up, (low, high) = isinstance(axis, YAxis), sorted(axis.get_view_interval())
    for others in ((2, 5), None):
        ticks = [
            tick
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            if low <= tick.get_loc() <= high
        ]
        boxes = [tick.label1.get_window_extent() for tick in ticks if tick.label1.get_text()]
        spans = sorted(
            (box.y0, box.y1, box.height / 3) if up else (box.x0, box.x1, box.height / 2)
            for box in boxes
        )
        if all(one[1] + one[2] <= other[0] for one, other in pairwise(spans)):
            return
        if others:
            axis.set_minor_locator(LogLocator(subs=others))
            axis.set_minor_formatter(LogFormatterSciNotation(minor_thresholds=(math.inf, math.inf)))
        else:
            axis.set_minor_formatter(NullFormatter())
        axis.figure.canvas.draw()


class SvgFigure:
    """A finished figure: inline SVG for a browser, its alt text everywhere else."""

    def __init__(self, svg: str, alt: str, untrue: Sequence[str] = ()) -> None:
        self.svg = svg
        self.alt = alt
        self.untrue = tuple(untrue)

    def __repr__(self) -> str:
        """Return the alt text: what a reader who cannot see the figure gets."""
        return f"[figure] {self.alt}"

    def _repr_html_(self) -> str:
        said = "".join(
            f"<p>Not so with these numbers: <q>{html.escape(words)}</q></p>"
            for words in self.untrue
        )
        return self.svg + said


def inline(
    figure: Figure,
    alt: str,
    says: Mapping[str, bool] | None = None,
    source: str | Sequence[str] = (),
) -> SvgFigure:
    """Finish a figure and close it; for :func:`show`, or for ``myst_nb.glue`` where a page puts it
    elsewhere.

    Parameters
    ----------
    figure : matplotlib Figure
    alt : str
        What the figure shows, in a sentence: read aloud instead of it.
    says : dict of bool, optional
        What the caption or the alt text asserts, word for word as it stands there, and whether what
        is drawn is so.
    source : str or sequence of str, optional
        ``.source`` of the data sets that the words rest on.

    Returns
    -------
    SvgFigure

    Raises
    ------
    AssertionError
        If something said is false. Under ``HDPM_MODE=explore``, or on a stand-in, it is shown below
        the figure instead.
    TypeError, ValueError
        If a truth is not True or False; without alt text of at least 20 characters.
    """
    for words, truth in (says or {}).items():
        if not isinstance(truth, (bool, np.bool_)):
            raise TypeError(f"says must give True or False for {words!r}, got {truth!r}")
    untrue = [words for words, truth in (says or {}).items() if not truth]
    standin = "stand-in" in ([source] if isinstance(source, str) else source)
    if untrue and not exploring() and not standin:
        raise AssertionError(f"said of the figure, and not so: {'; '.join(untrue)}")
    alt = " ".join(alt.split())
    if len(alt) < 20:
        raise ValueError(f"a figure needs alt text that says what it shows, got alt={alt!r}")
    legends = [(axes, legend) for axes in figure.axes if (legend := axes.get_legend()) is not None]
    scaled = [
        axis
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        if axis.get_scale() == "log"
    ]
    if legends or scaled:
        figure.canvas.draw()  # places all that is measured
    for axis in scaled:
        _room(axis)
    for axes, legend in legends:
        # one that a page draws itself would lie on white, in the dark too
        legend.set_frame_on(False)
        # none speaks for another panel
        if len(legends) == len([axes for axes in figure.axes if len(axes.lines) > 1]):
            _name_ends(axes, legend)
    buffer = io.StringIO()
    # ids stay the same from run to run and differ between figures
    salt = hashlib.sha256(alt.encode()).hexdigest()
    with matplotlib.rc_context({**_RC, "svg.hashsalt": salt}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    # names of groups repeat from figure to figure and nothing refers to them
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
    # not all the fonts that there might be
    svg = re.sub(r"font-family: [^;\"]*", "font-family: sans-serif", svg)
    label = html.escape(alt, quote=True)
    head = f'<svg class="hdpm-figure" style="max-width: 36rem" role="img" aria-label="{label}"'
    svg = svg.replace("<svg", head, 1)
    return SvgFigure(svg.replace(_INK, "currentColor"), alt, untrue)


def show(
    figure: Figure,
    alt: str,
    says: Mapping[str, bool] | None = None,
    source: str | Sequence[str] = (),
) -> None:
    """Display a figure and close it; arguments and errors as for :func:`inline`."""
    display(inline(figure, alt, says, source))


WORDY = 40  # letters of a cell from which on a table breaks its lines
EMPTY = "<th></th>"


def _heads(table: str) -> str:
    """Return a table of pandas with the names of its index in the row of its columns, and without
    empty heads.

    Examples
    --------
    >>> _heads("<thead><tr><th></th><th>loss</th></tr><tr><th>seller</th><th></th></tr></thead>")
    '<thead><tr><th>seller</th><th>loss</th></tr></thead>'
    >>> _heads("<thead><tr><th></th><th>loss</th></tr></thead>")
    '<thead><tr><td></td><th>loss</th></tr></thead>'
    """
    rows = re.findall(r"<tr.*?</tr>\s*", table.partition("</thead>")[0], re.S)
    if len(rows) > 1:
        columns, index = (re.findall(r"<th.*?</th>", row, re.S) for row in rows[-2:])
        names = [name for name in index if name != EMPTY]
        if columns[: len(names)] == [EMPTY] * len(names) and set(index[len(names) :]) <= {EMPTY}:
            both = rows[-2]
            for name in names:
                both = both.replace(EMPTY, name, 1)
            table = table.replace("".join(rows[-2:]), both, 1)
    return table.replace(EMPTY, "<td></td>")


class HtmlTable:
    """A table: scrolls inside its own frame on a narrow screen."""

    def __init__(self, frame: pd.DataFrame, caption: str) -> None:
        self.frame = frame
        self.caption = caption

    def __repr__(self) -> str:
        """Return the plain text of the table."""
        return f"{self.caption}\n{self.frame.to_string()}"

    def _repr_html_(self) -> str:
        longest = max(
            (len(cell) for cell in self.frame.to_numpy().ravel() if isinstance(cell, str)),
            default=0,
        )
        classes = "hdpm-table hdpm-words" if longest > WORDY else "hdpm-table"
        with pd.option_context("display.max_colwidth", None):
            body = self.frame.to_html(border=0, classes=classes, justify="right")
        caption = html.escape(self.caption)
        body = _heads(body)
        body = body.replace("<thead>", f"<caption>{caption}</caption><thead>", 1)
        return (
            f'<div class="hdpm-scroll" role="region" aria-label="{caption}"'
            f' tabindex="0">{body}</div>'
        )


def show_table(frame: pd.DataFrame, caption: str) -> None:
    """Display a data frame (of text or numbers already rounded) with a caption.

    Raises
    ------
    ValueError
        Without a caption.
    """
    if not caption.strip():
        raise ValueError("a table needs a caption")
    display(HtmlTable(frame, caption))


_PICK = """for (const root of document.querySelectorAll(".hdpm-choice:not(.hdpm-ready)")) {
  root.classList.add("hdpm-ready");
  const form = root.querySelector("form"), folds = [...root.querySelectorAll("details")];
  const boxes = folds.map(fold => fold.lastElementChild), view = root.querySelector(".hdpm-chosen");
  const pick = () => {
    const chosen = [...form.elements].map(choice => choice.value).join("|");
    view.replaceChildren(...boxes.filter((_, k) => folds[k].dataset.key === chosen));
  };
  for (const fold of folds) fold.hidden = true;
  form.addEventListener("input", pick);
  form.hidden = false;
  pick();
}"""


class HtmlChoice:
    """Tables or figures, one for each combination of choices: a browser shows the one chosen, or
    without scripts folds for all.
    """

    def __init__(
        self,
        parts: Mapping[tuple[str, ...], HtmlTable | SvgFigure],
        labels: tuple[str, ...],
        after: str = "",
    ) -> None:
        self.parts = parts
        self.labels = labels
        self.after = after

    def __repr__(self) -> str:
        """Return the plain text of the first one."""
        return repr(next(iter(self.parts.values())))

    def _repr_html_(self) -> str:
        form = folds = ""
        for k, label in enumerate(self.labels):
            choices = dict.fromkeys(html.escape(key[k]) for key in self.parts)
            name = f"choice-{label.lower()}"
            options = "".join(f"<option>{choice}</option>" for choice in choices)
            form += (
                f'<div><label for="{name}">{label}</label><select'
                f' id="{name}">{options}</select></div>'
            )
        for key, part in self.parts.items():
            name = html.escape(", ".join(key))
            head = f'<details data-key="{html.escape("|".join(key))}"><summary>{name}</summary>'
            folds += f"{head}<div>{part._repr_html_()}</div></details>"
        return (
            '<div class="hdpm-choice"><form class="hdpm-market" autocomplete="off"'
            f' hidden>{form}</form><div class="hdpm-chosen"></div>{folds}{self.after}'
            f"<script>{_PICK}</script></div>"
        )


def choose(
    frames: dict[tuple[str, ...], pd.DataFrame],
    labels: tuple[str, ...],
    values: pd.DataFrame,
    file: str,
) -> None:
    """Display one of several tables, the one that a reader chooses, and a link to all values.

    Parameters
    ----------
    frames : dict of DataFrame
        Of text or numbers already rounded; a key has one choice for each label, and together they
        are the caption.
    labels : tuple of str
        What is chosen.
    values : DataFrame
        All values, unrounded, for a file of this name in CSV.
    file : str
    """
    tables = {key: HtmlTable(frame, ", ".join(key)) for key, frame in frames.items()}
    data = f"data:text/csv;charset=utf-8,{quote(values.to_csv(index=False))}"
    link = f'<p><a download="{file}" href="{data}">All values (CSV)</a></p>'
    display(HtmlChoice(tables, labels, link))


def choose_figure(figures: Mapping[str, SvgFigure], label: str) -> None:
    """Display one of several figures of :func:`inline`, the one that a reader chooses by its name
    under a label.
    """
    display(HtmlChoice({(name,): figure for name, figure in figures.items()}, (label,)))
