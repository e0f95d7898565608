"""Owners who let go of their ledgers when a test is over."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hdpm_owner.owner import Owner
from tests.federation.parts import owner_of

collect_ignore = ["post.py"]  # it needs Flower, as the tests of `make extras` do that use it


@pytest.fixture
def hire(tmp_path: Path) -> Iterator[Callable[..., Owner]]:
    """Owners of these names, each in a folder of hers, on these terms."""
    with ExitStack() as stack:

        def one(name: str = "ann", /, *rows: Any, **terms: Any) -> Owner:
            own = owner_of(tmp_path / name, *rows, name=name, **terms)
            stack.callback(own.ledger.close)
            return own

        yield one
