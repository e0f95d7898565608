"""Claims, printed tables, recorded studies and stand-in statistics of the book."""

from pathlib import Path

from hdpm_lib.validation import check_one_place

_place = Path(__file__).resolve().parents[1]
check_one_place("hdpm_book.data", _place.parent if _place.name == "hdpm_book" else _place)
