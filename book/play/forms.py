"""Explorers: a form, a table and a sentence, which change with the form in a browser that runs scripts.

``book/_static/explore-NAME.js`` computes them there; without a script, and in a notebook, a page shows what the library
says of the setting with which the form opens. What a form holds are strings; :func:`digits` writes as the scripts do.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context
from functools import cached_property
from html import escape
from typing import Any

import pandas as pd

from hdpm_book.ledger import MODE

Row = tuple[str, ...]


def digits(x: float) -> str:
    """Three digits, as the explorers print them.

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
    """What an explorer says of one setting: a sentence, and a table with its caption."""

    sentence: str
    caption: str
    rows: list[Row]


def row(head: str, *numbers: float) -> Row:
    """A row of a table."""
    return head, *map(digits, numbers)


@dataclass(frozen=True)
class Field:
    """A control: its name, label, value at the start, and what else there is to choose."""

    name: str
    label: str
    start: str

    def html(self, place: str) -> str:
        """The control, with `place` as the beginning of its id."""
        return (
            f'<div><label for="{place}-{self.name}">{escape(self.label)}</label>'
            f'<input id="{place}-{self.name}" name="{self.name}" value="{escape(self.start)}" spellcheck="false"></div>'
        )


@dataclass(frozen=True)
class Choice(Field):
    """One of a few."""

    options: Mapping[str, str]

    def html(self, place: str) -> str:
        """A select."""
        options = "".join(
            f'<option value="{value}"{" selected" * (value == self.start)}>{escape(words)}</option>'
            for value, words in self.options.items()
        )
        label = f'<label for="{place}-{self.name}">{escape(self.label)}</label>'
        return f'<div>{label}<select id="{place}-{self.name}" name="{self.name}">{options}</select></div>'


@dataclass(frozen=True)
class Slider(Field):
    """A number between two; with `log` the slider moves along powers of ten, and `start` and the ends are exponents."""

    ends: tuple[float, float]
    step: float
    log: bool = False

    def value(self, at: float) -> str:
        """What the form says where the slider is."""
        return digits(10**at) if self.log else f"{at:g}"

    def html(self, place: str) -> str:
        """A range, and an output for its value."""
        low, high = self.ends
        here = f"{place}-{self.name}"
        return (
            f'<div><label for="{here}">{escape(self.label)}</label><output for="{here}" aria-live="off">'
            f'{self.value(float(self.start))}</output><input id="{here}" name="{self.name}" type="range" min="{low:g}" '
            f'max="{high:g}" step="{self.step:g}" value="{self.start}"{" data-log" * self.log}></div>'
        )


@dataclass(frozen=True, eq=False)
class Explorer:
    """A form, a table and a sentence; the library's function of the form, and what its script needs besides."""

    name: str
    title: str
    columns: tuple[str, ...]
    fields: tuple[Field, ...]
    find: Callable[..., Found]
    data: Callable[[], Any] = lambda: None

    def opening(self) -> dict[str, str]:
        """The values of the form at the start, as the script reads them."""
        return {f.name: f.value(float(f.start)) if isinstance(f, Slider) else f.start for f in self.fields}

    @cached_property
    def found(self) -> Found:
        """What the library says at the start."""
        return self.find(**self.opening())

    def __repr__(self) -> str:
        """Sentence and table as text."""
        found = self.found
        table = pd.DataFrame([cells for _, *cells in found.rows], [head for head, *_ in found.rows], self.columns[1:])
        return f"{found.sentence}\n{found.caption}\n{table.to_string()}"

    def _repr_html_(self) -> str:
        """The explorer; for those who explore in a notebook its table alone."""
        found = self.found
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in self.columns)
        body = "".join(
            f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
            for first, *cells in found.rows
        )
        result = (
            f'<p class="hdpm-winner" aria-live="polite">{escape(found.sentence)}</p><div class="hdpm-drawn"></div>'
            f'<div class="hdpm-scroll" role="region" aria-label="{escape(self.title)}: table" tabindex="0">'
            f'<table class="hdpm-table"><caption>{escape(found.caption)}</caption><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )
        if os.environ.get(MODE) == "explore":
            return result
        form = "".join(field.html(f"explore-{self.name}") for field in self.fields)
        data = json.dumps(self.data(), separators=(",", ":"))
        held = "" if data == "null" else f'<script type="application/json">{data}</script>'
        scripts = "".join(
            f'<script defer src="../../_static/{name}.js"></script>' for name in ("explore", f"explore-{self.name}")
        )
        return (
            f'<div class="hdpm-explorer" data-explorer="{self.name}"><form class="hdpm-market" autocomplete="off" '
            f'aria-label="{escape(self.title)}" hidden>{form}</form>{result}{held}{scripts}</div>'
        )
