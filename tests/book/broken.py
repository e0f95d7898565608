"""Faults for functions that a page's verdicts rest on: what a broken function returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.book.dataflow import Fault


def other(**changes: Callable[[Any], Any]) -> Fault:
    """Fields of what a function returns, changed."""

    def broken(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            found = function(*arguments, **options)
            return replace(found, **{name: change(getattr(found, name)) for name, change in changes.items()})

        return call

    return broken


def times(factor: float) -> Fault:
    """A number that a function returns, times another one."""
    return lambda function: lambda *arguments, **options: function(*arguments, **options) * factor
