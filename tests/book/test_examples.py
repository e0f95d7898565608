"""The examples in the docstrings of the book's modules. Pytest would import these under other names
than they have.
"""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import hdpm_book

MODULES = sorted(
    info.name
    for info in pkgutil.walk_packages(hdpm_book.__path__, "hdpm_book.")
    if not info.name.startswith(("hdpm_book._ext", "hdpm_book.data"))
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0
