"""Whether a cell prints what its reference says, on any processor.

The order in which a processor adds up decides the last bits of a sum, and so now and then the last
digit that is printed. A number that was rounded, with decimals or in per cent, may therefore differ
from its reference by one unit in its last digit. Whole numbers and words are equal, or it is
another output.
"""

from __future__ import annotations

import re
from decimal import Decimal

ROUNDED = re.compile(r"[-+]?\d[\d,]*(?:\.\d+(?:e[-+]?\d+)?|e[-+]?\d+|(?= ?%))|[-+]?\.\d+")


def same(printed: str, reference: str) -> bool:
    """Return whether two texts say the same, but for units in the last digits of numbers."""
    if printed == reference:
        return True
    # a longer number moves the columns of its table
    words = [" ".join(ROUNDED.sub("#", text).split()) for text in (printed, reference)]
    if words[0] != words[1]:
        return False
    pairs = zip(ROUNDED.findall(printed), ROUNDED.findall(reference), strict=True)
    return all(_is_close(*map(_number, pair)) for pair in pairs)


def _number(text: str) -> Decimal:
    return Decimal(text.replace(",", ""))


def _is_close(a: Decimal, b: Decimal) -> bool:
    unit = max(Decimal(1).scaleb(int(x.as_tuple().exponent)) for x in (a, b))
    return abs(a - b) <= unit
