"""What may be there or not: the packages of an extra, and a notebook. The library imports without either."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Imports in this block come with one of the project's extras; if one fails, the error says which.

    Raises
    ------
    ModuleNotFoundError
        If a package is missing.

    Examples
    --------
    >>> with extra("learned"):
    ...     import nowhere
    Traceback (most recent call last):
    ModuleNotFoundError: nowhere is not installed; it comes with an extra: pip install "hdpm-lib[learned]"
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'{error.name} is not installed; it comes with an extra: pip install "hdpm-lib[{name}]"', name=error.name
        ) from error


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
