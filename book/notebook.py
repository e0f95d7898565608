"""Whether a notebook runs this, and how to show something in either case."""

from __future__ import annotations

import sys
from typing import Any


def in_notebook() -> bool:
    """Whether IPython runs this."""
    shell = sys.modules.get("IPython")
    return shell is not None and shell.get_ipython() is not None


def display(thing: Any) -> None:
    """Show an object as a notebook does; outside of one, print it."""
    if not in_notebook():
        print(thing)
        return
    from IPython.display import display as show

    show(thing)
