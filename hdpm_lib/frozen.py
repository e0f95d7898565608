"""Objects that stay as they were made: mechanisms, bids and results.

A frozen dataclass does not let a field be set, but whoever holds its arrays could write to them:
what is released, charged or recorded would then be no longer what was bought. So arrays are copied
when they come in, and nobody can write to the copies. Decimals and fractions become floats.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from hdpm_lib.validation import as_float


@dataclass(frozen=True, eq=False, repr=False)
class Frozen:
    """Base of dataclasses that hold arrays: these are copies of what was given, and read-only.

    Two of them are equal only if they are one object: ``==`` of their arrays would be arrays again.
    Derived classes are declared as this one, so that they take its ``==`` and its ``repr``.

    Examples
    --------
    >>> @dataclass(frozen=True, eq=False, repr=False)
    ... class Sale(Frozen):
    ...     price: np.ndarray
    ...     total: float
    >>> Sale(np.ones(2), np.float64(2))
    Sale(price=array([1., 1.]), total=2.0)
    """

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            object.__setattr__(self, name, _kept(value))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the fields from a copy or another process, where arrays came to be writeable."""
        vars(self).update({name: _kept(value) for name, value in state.items()})

    def __repr__(self) -> str:
        hidden = self._hidden()
        parts = []
        for field in fields(self):
            text = "..."
            if field.name not in hidden:
                text = repr(_plain(getattr(self, field.name)))
            parts.append(f"{field.name}={text}")
        return f"{type(self).__qualname__}({', '.join(parts)})"

    def _hidden(self) -> set[str]:
        """Name the fields that are not printed, as they are long or tell of data."""
        return {field.name for field in fields(self) if not field.repr}


def _kept(value: Any) -> Any:
    """Copy arrays, and dicts of them, so that nobody can write to what is kept."""
    if isinstance(value, dict):
        return {name: _kept(part) for name, part in value.items()}
    if isinstance(value, Decimal | Fraction):
        return as_float(value)
    if not isinstance(value, np.ndarray):
        return value
    copy = value.copy(order="K")
    copy.flags.writeable = False
    return copy


def _plain(value: Any) -> Any:
    """Turn a number of NumPy's into Python's."""
    if isinstance(value, np.generic):
        return value.item()
    return value
