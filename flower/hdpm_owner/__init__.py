"""What an owner of data installs and runs herself: her data, her limits, her random numbers, her
ledger.

No other program reads her data. Whoever wants something of her writes to a door, and everything
that comes through it is taken for the word of a stranger until it carries the signature of a market
whose charter she has joined.
"""

from pathlib import Path

from hdpm_lib.validation import check_one_place

_place = Path(__file__).resolve().parents[1]
check_one_place("hdpm_owner", _place.parent if _place.name == "flower" else _place)
