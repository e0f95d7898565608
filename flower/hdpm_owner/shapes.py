"""What comes from outside, TOML or JSON, checked by one declared shape.

A shape is a function of a value and of the words that say where it stands. It returns the value, or
raises a ValueError that names the place, what must stand there, and, cut short, what does.
"""

from __future__ import annotations

import reprlib
import unicodedata
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from hdpm_lib.validation import check_count, check_number

Shape = Callable[[Any, str], Any]


def record(needed: Mapping[str, Shape], more: Mapping[str, Shape] | None = None) -> Shape:
    """An object with these entries, perhaps with more of those, and no others."""
    shapes = {**needed, **(more or {})}

    def check(value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _wrong(value, where, "have entries of its own")
        place = f"{where}: " if where else ""
        for name in value:
            if name not in shapes:
                raise ValueError(
                    f"{place}an entry {reprlib.repr(name)} means nothing; known are"
                    f" {', '.join(shapes)}"
                )
        for name in needed:
            if name not in value:
                raise ValueError(f"{place}there is no entry {name!r}")
        return {
            name: shapes[name](part, f"{where}.{name}" if where else name)
            for name, part in value.items()
        }

    return check


def several(shape: Shape, least: int = 0, most: float = inf) -> Shape:
    """A list of values of one shape."""

    def check(value: Any, where: str) -> list[Any]:
        if not isinstance(value, list) or not least <= len(value) <= most:
            bounds = f" of {least}" + ("" if most == least else " or more" if most == inf else "")
            raise _wrong(value, where, f"be a list{bounds}")
        return [shape(part, f"{where}[{place}]") for place, part in enumerate(value)]

    return check


def number(low: float = -inf, high: float = inf, ends: str = "[]") -> Shape:
    """A finite number in a range."""

    def check(value: Any, where: str) -> float:
        try:
            check_number(value, where, low, high, ends=ends)
        except TypeError as error:
            raise ValueError(str(error)) from None
        return value

    return check


def whole(least: int = 1, most: float = inf) -> Shape:
    """An integer in a range, and no float that equals one."""

    def check(value: Any, where: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise _wrong(value, where, "be a whole number")
        return check_count(value, where, least, most)

    return check


def choice(*known: object) -> Shape:
    """One of some values."""

    def check(value: Any, where: str) -> Any:
        if not any(type(value) is type(one) and value == one for one in known):
            raise _wrong(value, where, f"be one of {', '.join(map(repr, known))}")
        return value

    return check


def text(value: Any, where: str) -> str:
    """A line of text that is not empty, without blanks at its ends."""
    if not isinstance(value, str) or not value or value != value.strip() or "\n" in value:
        raise _wrong(value, where, "be a line of text without blanks at its ends")
    return value


def name(value: Any, where: str) -> str:
    """What an owner or a market is called: 64 characters that can be read, written into a log and
    into a table of any program.
    """
    good = isinstance(value, str) and value == value.strip() and len(value) <= 64
    if not good or not (value[:1].isalnum() and value.isprintable()):
        raise _wrong(
            value, where, "be at most 64 readable characters, of which the first is a letter"
        )
    if not unicodedata.is_normalized("NFC", value):
        raise _wrong(value, where, "be written with composed letters (Unicode's NFC)")
    return value


def hexadecimal(digits: int) -> Shape:
    """So many hexadecimal digits, as keys, hashes and signatures have."""

    def check(value: Any, where: str) -> str:
        if (
            not isinstance(value, str)
            or len(value) != digits
            or set(value) - set("0123456789abcdef")
        ):
            raise _wrong(value, where, f"have {digits} hexadecimal digits")
        return value

    return check


def _wrong(value: Any, where: str, must: str) -> ValueError:
    return ValueError(f"{where or 'it'} must {must}, got {reprlib.repr(value)}")
