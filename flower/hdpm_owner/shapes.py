"""What comes from outside has a declared shape: a dataclass whose parts say what they may be.

A part is a text with a pattern, a number in a range, one of a few words, a list, or a shape of its
own. :func:`shaped` is the only reader of letters, answers, receipts, counters and schemas.
"""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
MOST = 10_000  # entries of a list
WIDEST = 2**23  # numbers of a class in a model: a letter of 16 MB, which a door takes, has no more
LONGEST = 2**20  # characters of a letter or an answer
SHOWN = 60  # characters of what is wrong

# letters and digits, and between them what names have: no sign of a formula, no end of a line
Name = Annotated[str, r"\w(?:[\w .,'&()-]{0,62}[\w.)])?"]
Ticket = Annotated[str, "[0-9a-f]{32}"]
Hash = Annotated[str, "[0-9a-f]{64}"]  # or a public key
Signature = Annotated[str, "[0-9a-f]{128}"]
Count = Annotated[int, (1, 2**50)]
Size = Annotated[int, (0, 2**50)]
Time = Annotated[float, (0, 1e11)]
Loss = Annotated[float, (0, 1e12)]
Money = Annotated[float, (0, 1e100)]
Number = Annotated[float, (-1e300, 1e300)]
Positive = Annotated[float, (1e-100, 1e100)]
Numbers = Annotated[tuple[Number, ...], WIDEST]


def check_name(value: object) -> str:
    """Return a name that may stand in a file, a log and a table."""
    return str(_part(value, Name, "name"))


def loaded(text: object, longest: float = LONGEST) -> Any:
    """Read what a text says in JSON; None, which is no shape, if it is none, or longer than any."""
    try:
        return json.loads(text) if isinstance(text, str) and len(text) <= longest else None
    except (ValueError, RecursionError):
        return None


def read_shaped(kind: type[T], text: object) -> T:
    """Read a shape from JSON; an error of one sentence if it is none, whatever the text is."""
    return shaped(kind, loaded(text))


def shaped(kind: type[T], content: object) -> T:
    """Build a shape from what JSON holds, with every part checked and none over."""
    parts = _parts(kind)  # type: ignore[arg-type]
    if not isinstance(content, dict):
        raise ValueError(f"{_shown(content)} is no {kind.__name__}")
    if over := [name for name in content if name not in parts]:
        raise ValueError(f"{kind.__name__} has no part {_shown(over[0])}")
    if missing := [name for name, (_, needed) in parts.items() if needed and name not in content]:
        raise ValueError(f"{kind.__name__} lacks {missing[0]}")
    return kind(**{name: _part(value, parts[name][0], name) for name, value in content.items()})


@cache
def _parts(kind: type) -> dict[str, tuple[Any, bool]]:
    """Return the parts of a shape: of which kind, and whether they must be there."""
    hints = get_type_hints(kind, include_extras=True)
    bare = (MISSING, MISSING)
    return {
        one.name: (hints[one.name], (one.default, one.default_factory) == bare)
        for one in fields(kind)
    }


def _part(value: object, hint: Any, name: str) -> Any:
    origin, given = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return shaped(hint, value)  # type: ignore[arg-type]
    if origin is UnionType:
        return None if value is None else _part(value, given[0], name)
    if origin is tuple:
        return _part(value, Annotated[hint, MOST], name)
    if origin is Annotated and get_origin(given[0]) is tuple:
        if not isinstance(value, list | tuple) or len(value) > given[1]:
            raise ValueError(f"{name} must be a list of at most {given[1]}, got {_shown(value)}")
        kind = get_args(given[0])[0]
        return tuple(_part(one, kind, name) for one in value)
    if hint is bool:
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false, got {_shown(value)}")
        return value
    if origin is Literal:
        good, must = isinstance(value, str) and value in given, f"one of {', '.join(given)}"
    elif given[0] is str:
        good = isinstance(value, str) and re.fullmatch(given[1], value) is not None
        must = f"a text like {given[1]}"
    else:
        low, high = given[1]
        kinds = int if given[0] is int else int | float
        good = isinstance(value, kinds) and not isinstance(value, bool)
        good = good and bool(low <= value <= high)  # type: ignore[operator]
        must = f"a{' whole' if given[0] is int else ''} number from {low:g} to {high:g}"
    if not good:
        raise ValueError(f"{name} must be {must}, got {_shown(value)}")
    return float(value) if given[0] is float else value  # type: ignore[arg-type]


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str | int | float | None) else type(value).__name__
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."
