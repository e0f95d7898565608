"""Explorers: a form, a figure, a table and a sentence, which change with the form in a browser that
runs scripts.

Where a form has few settings, the library computes them all into the page, and
``book/_static/explore.js`` looks one up; otherwise ``book/_static/explore-NAME.js`` computes it in
the browser. Without scripts, and in a notebook, a page shows what the library says of the setting
with which the form opens. A form holds strings; :func:`digits` writes as the scripts do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context
from functools import cached_property
from html import escape
from itertools import product
from typing import Any

import pandas as pd

from hdpm_book.notebook import exploring

Row = tuple[str, ...]


def digits(x: float) -> str:
    """Write three digits, as the explorers print them.

    Examples
    --------
    >>> [digits(x) for x in (0.0, 1.0, 1.125, 27.25, 1250.0, 1234567.0, 0.00001234)]
    ['0', '1.00', '1.13', '27.3', '1250', '1.23e+6', '1.23e-5']
    """
    if x == 0:
        return "0"
    shown = Context(3, ROUND_HALF_UP).create_decimal(float(x))
    if 1e-4 <= abs(float(shown)) < 1e6:
        return f"{shown:.{max(0, 2 - shown.adjusted())}f}"
    mantissa, exponent = f"{shown:.2e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent):+d}"


@dataclass(frozen=True)
class Found:
    """What an explorer says of one setting: a sentence, and a table with its caption.

    Where the page only looks it up there is the figure too, as `hdpm.figure` of ``explore.js``
    takes it, and the place on its axis that the setting has; `says` holds what its ``alt`` asserts,
    word for word, and whether it is so.
    """

    sentence: str
    caption: str = ""
    rows: tuple[Row, ...] = ()
    figure: dict[str, Any] = field(default_factory=dict)
    at: float | None = None
    says: Mapping[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse it if something is said of the figure and not so, or not said of it."""
        for words, truth in self.says.items():
            if words not in self.figure["alt"]:
                raise ValueError(f"{words!r} does not stand in the alt text {self.figure['alt']!r}")
            if not truth:
                raise AssertionError(f"said of the figure, and not so: {words}; {self.sentence}")


def row(head: str, *numbers: float) -> Row:
    """Return a row of a table."""
    return head, *map(digits, numbers)


@dataclass(frozen=True)
class Field:
    """A control: its name, label, value at the start, and what else there is to choose.

    With `when`, as "goal=money", it is shown while another control has that value; `keys` are those
    of a phone.
    """

    name: str
    label: str
    start: str
    when: str = field(default="", kw_only=True)
    keys: str = field(default="text", kw_only=True)

    def html(self, place: str) -> str:
        """Return the control with its label, in a box; `place` begins its id."""
        here = f"{place}-{self.name}"
        when = f' data-when="{self.when}"' if self.when else ""
        return (
            f'<div{when}><label for="{here}">{escape(self.label)}</label>{self.control(here)}</div>'
        )

    def control(self, here: str) -> str:
        """Return what one types into."""
        return (
            f'<input id="{here}" name="{self.name}" value="{escape(self.start)}"'
            f' inputmode="{self.keys}" spellcheck="false">'
        )


@dataclass(frozen=True)
class Choice(Field):
    """One of a few."""

    options: Mapping[str, str]

    def values(self) -> list[str]:
        """Return all that there is to choose."""
        return list(self.options)

    def control(self, here: str) -> str:
        """Return a select."""
        options = "".join(
            f'<option value="{value}"{" selected" * (value == self.start)}>{escape(words)}</option>'
            for value, words in self.options.items()
        )
        return f'<select id="{here}" name="{self.name}">{options}</select>'


@dataclass(frozen=True)
class Slider(Field):
    """A number between two; with `log` the slider moves along powers of ten, and `start` and the
    ends are exponents. With `play` a button moves it to its end.
    """

    ends: tuple[float, float]
    step: float
    log: bool = False
    play: bool = False

    def value(self, at: float) -> str:
        """Return what the form says where the slider is."""
        return digits(10**at) if self.log else f"{at:g}"

    def values(self) -> list[str]:
        """Return all of its values."""
        low, high = self.ends
        return [
            self.value(round(low + i * self.step, 9))
            for i in range(round((high - low) / self.step) + 1)
        ]

    def control(self, here: str) -> str:
        """Return an output for its value, and a range."""
        low, high = self.ends
        return (
            f'<output for="{here}" aria-live="off">{self.value(float(self.start))}</output><input'
            f' id="{here}" name="{self.name}" type="range" min="{low:g}" max="{high:g}"'
            f' step="{self.step:g}" value="{self.start}"{" data-log" * self.log}'
            f"{' data-play' * self.play}>"
        )


@dataclass(frozen=True, eq=False)
class Explorer:
    """A form, and what the library says of its values.

    Attributes
    ----------
    name, title : str
    columns : of the table, if there is one
    fields : controls of the form
    find : the library's function of what the form holds
    presets : settings to try by a button: words, and what they change of the form, as the query of
        an address
    script : name of the script that computes in the page, ``explore-NAME.js``; without one the page
        holds all that `find` says
    data : what that script needs besides
    depth : how many folders above its page the site begins
    """

    name: str
    title: str
    columns: tuple[str, ...]
    fields: tuple[Field, ...]
    find: Callable[..., Found]
    presets: Mapping[str, str] = field(default_factory=dict)
    script: str = ""
    data: Callable[[], Any] = lambda: None
    depth: int = 2

    def opening(self) -> dict[str, str]:
        """Return the values of the form at the start, as the script reads them."""
        return {
            f.name: f.value(float(f.start)) if isinstance(f, Slider) else f.start
            for f in self.fields
        }

    @cached_property
    def found(self) -> Found:
        """What the library says at the start."""
        return self.find(**self.opening())

    def settings(self) -> list[dict[str, str]]:
        """Return all settings of a form of choices and sliders."""
        values = (part.values() for part in self.fields if isinstance(part, Choice | Slider))
        return [dict(zip(self.opening(), chosen, strict=True)) for chosen in product(*values)]

    def held(self) -> Any:
        """Return what the page holds: data of the script, or all that the library says, each part
        of it once.
        """
        if self.script:
            return self.data()
        parts: dict[str, int] = {}
        states = {}
        for setting in self.settings():
            found = self.find(**setting)
            said = found.sentence, found.caption, found.rows, found.figure
            places = [parts.setdefault(json.dumps(part), len(parts)) for part in said]
            states["|".join(setting.values())] = [*places, found.at]
        return {"parts": [json.loads(part) for part in parts], "states": states}

    def __repr__(self) -> str:
        """Return sentence and table as text."""
        found = self.found
        if not self.columns:
            return found.sentence
        table = pd.DataFrame(
            [cells for _, *cells in found.rows], [head for head, *_ in found.rows], self.columns[1:]
        )
        return f"{found.sentence}\n{found.caption}\n{table.to_string()}"

    def _repr_html_(self) -> str:
        """Return the explorer; for those who explore in a notebook its sentence and table alone."""
        sentence = f'<p class="hdpm-winner" aria-live="polite">{escape(self.found.sentence)}</p>'
        result = f'{sentence}<div class="hdpm-drawn"></div>{self._table() if self.columns else ""}'
        if exploring():
            return result
        buttons = " ".join(
            f'<button type="button" value="{escape(query)}">{escape(words)}</button>'
            for words, query in self.presets.items()
        )
        form = "".join(part.html(f"explore-{self.name}") for part in self.fields)
        data = json.dumps(self.held(), separators=(",", ":"))
        held = "" if data == "null" else f'<script type="application/json">{data}</script>'
        scripts = "".join(
            f'<script defer src="{"../" * self.depth}_static/{name}.js"></script>'
            for name in ("explore", *[f"explore-{self.script}"] * bool(self.script))
        )
        return (
            f'<div class="hdpm-explorer" data-explorer="{self.name}"><form class="hdpm-market"'
            ' autocomplete="off" '
            f'aria-label="{escape(self.title)}"'
            f" hidden>{f'<p>Try {buttons}</p>' * bool(buttons)}{form}</form>"
            f"{result}{held}{scripts}</div>"
        )

    def _table(self) -> str:
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in self.columns)
        body = "".join(
            "<tr><th"
            f' scope="row">{escape(first)}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
            for first, *cells in self.found.rows
        )
        return (
            f'<div class="hdpm-scroll" role="region" aria-label="{escape(self.title)}: table"'
            ' tabindex="0">'
            f'<table class="hdpm-table"><caption>{escape(self.found.caption)}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )
