"""Whether a notebook runs this and a reader explores, how to show something, and how to say what a
page cannot do.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Any

MODE = "HDPM_MODE"


def in_notebook() -> bool:
    """Tell whether IPython runs this."""
    shell = sys.modules.get("IPython")
    return shell is not None and shell.get_ipython() is not None


def exploring() -> bool:
    """Tell whether a reader tries other settings, ``HDPM_MODE=explore``: nothing that differs from
    the book stops then.

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


def glue(name: str, thing: Any) -> None:
    """Show an object, and keep it under a name by which MyST puts it into the text of the page."""
    from IPython.core.formatters import format_display_data
    from IPython.display import display as show

    data, about = format_display_data(thing)
    about["scrapbook"] = {"name": name, "mime_prefix": ""}  # where MyST-NB looks
    show(data, raw=True, metadata=about)


class Impossible(ValueError):
    """What a page cannot do with the number that a reader has typed."""


def refused(error: BaseException) -> bool:
    """Tell whether an error is a refusal of the book or of the library in one sentence, not a
    failure inside of it.
    """
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, Impossible):
        return True
    if type(error) not in (ValueError, TypeError, LookupError) or not frames:
        return False
    ours = {"hdpm_lib", "hdpm_book", "book"} & {*Path(frames[-1].filename).parts}
    return bool(ours) and (frames[-1].line or "").startswith("raise ")


def show_refusals_alone() -> None:
    """Let the notebook show a refusal as its sentence, without the lines of code that led to it."""
    from IPython import get_ipython

    def show(shell: Any, kind: Any, error: Any, trace: Any, tb_offset: int | None = None) -> None:
        if refused(error):
            error._render_traceback_ = lambda: [f"{error}. Change it, and run the page from there."]
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)

    get_ipython().set_custom_exc((ValueError, TypeError, LookupError), show)


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


if in_notebook() and exploring():
    show_refusals_alone()
