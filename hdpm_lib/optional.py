"""The packages of an extra, which may be missing: the library imports without them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


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
