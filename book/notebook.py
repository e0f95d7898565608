"""Whether a notebook runs this and a reader explores, how to show something, and how to say what a page cannot do."""

from __future__ import annotations

import os
import sys
from typing import Any

MODE = "HDPM_MODE"


def in_notebook() -> bool:
    """Whether IPython runs this."""
    shell = sys.modules.get("IPython")
    return shell is not None and shell.get_ipython() is not None


def exploring() -> bool:
    """Whether a reader tries other settings, ``HDPM_MODE=explore``: nothing that differs from the book stops then.

    Raises
    ------
    ValueError
        If ``HDPM_MODE`` is set to anything else.
    """
    mode = os.environ.get(MODE, "")
    if mode not in ("", "explore"):
        raise ValueError(f"{MODE} must be 'explore' or not set, got {mode!r}")
    return bool(mode)


def display(thing: Any) -> None:
    """Show an object as a notebook does; outside of one, print it."""
    if not in_notebook():
        print(thing)
        return
    from IPython.display import display as show

    show(thing)


class Impossible(ValueError):
    """What a page cannot do with the number that a reader has typed; a notebook shows the sentence alone."""

    def _render_traceback_(self) -> list[str]:
        return [f"{self}. Change it, and run the page from there."]


def require(condition: object, sentence: str) -> None:
    """Stop a page in one sentence if a number that a reader may change is out of its range.

    Parameters
    ----------
    condition : bool
        Whether the page can go on.
    sentence : str
        The name of what was changed and what it may be, without a full stop.

    Raises
    ------
    Impossible
        If the condition is false, in every mode.

    Examples
    --------
    >>> sellers = 1
    >>> require(sellers >= 2, f"sellers must be 2 or more, got {sellers}")
    Traceback (most recent call last):
    hdpm_book.notebook.Impossible: sellers must be 2 or more, got 1
    """
    if not condition:
        raise Impossible(sentence)
