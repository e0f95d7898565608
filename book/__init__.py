"""What only the book needs: its ledger, plots and data sets, and beside each page the experiments
that it runs.
"""

from pathlib import Path

from hdpm_lib.validation import check_one_place

_place = Path(__file__).resolve().parents[1]
if not Path(__file__).exists():
    raise ImportError(
        f"hdpm_book reads files that stand beside its modules: install or unpack {_place},"
        " which Python cannot look into as a folder"
    )
check_one_place("hdpm_book", _place)
