"""Faults for functions that a page's verdicts rest on: what a broken function returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.book.dataflow import Fault


def remade(change: Callable[[Any], Any]) -> Fault:
    """Make a fault that changes what a function returns."""
    return lambda function: lambda *arguments, **options: change(function(*arguments, **options))


def other(**changes: Callable[[Any], Any]) -> Fault:
    """Make a fault that changes fields of what a function returns."""
    return remade(
        lambda found: replace(
            found, **{name: change(getattr(found, name)) for name, change in changes.items()}
        )
    )


def times(factor: float) -> Fault:
    """Make a fault that multiplies the number that a function returns."""
    return remade(lambda found: found * factor)
